//! The fixture `lineage`: control records of kind 20, which is reserved for forks, in a sealed
//! segment and in the journal, as a later version may have left them. This version keeps them,
//! folds them to nothing, and follows the chain over them. It must not change a directory under
//! version control.

use std::{fs, path::Path};

use bytes::Bytes;
use serde_json::{Value, json};
use sessionlog::{
    event::{Lsn, Position, SessionHash, Timestamp},
    log::{
        AcceptedLoss, ChainValue, Control, Frame, FrameHeader, FrameKind, Record,
        journal::JournalHeader,
        record,
        scan::{ScanPiece, scan},
    },
    store::{Maintain, Store, StoreError},
};

use super::{copy, decoded, expected, files, fixture, open_anew, varied};
use crate::engines::{append, batch, create, event, events_of, key};

const SESSION: &str = "child";

/// Returns a record of kind 20 whose body this version cannot read.
fn lineage(now: Timestamp) -> Record {
    let mut bytes = Vec::new();
    let control = Control::Loss(AcceptedLoss::default());
    record::encode(&Record::from_control(&control, now, [0x20; 16]), &mut bytes);
    bytes[0] = 20;
    // The body is the last field: its length and bytes.
    bytes.pop();
    let end = bytes.len() - 1;
    bytes.truncate(end);
    bytes.push(8);
    bytes.extend_from_slice(b"\x09parent\x0b");
    record::decode(&Bytes::from(bytes), 1).unwrap().remove(0)
}

/// Returns the end of the last frame of the journal: path, header of its file, byte offset, next
/// number, and the last frame.
pub(super) fn journal_end(directory: &Path) -> (String, JournalHeader, u64, Lsn, Frame) {
    let used = files(&directory.join("journal")).into_iter().filter_map(|(path, bytes)| {
        let header = JournalHeader::decode(&bytes).ok()?;
        Some((path.to_str().unwrap().to_owned(), header, Bytes::from(bytes)))
    });
    let (path, header, bytes) = used.max_by_key(|(_, header, _)| header.order).unwrap();
    let found = scan(header.salt, &bytes.slice(8192..), 8192);
    let frames = found.pieces.into_iter().filter_map(|piece| match piece {
        ScanPiece::Frame { frame, .. } if frame.header.kind == FrameKind::Request => Some(frame),
        _ => None,
    });
    let last = frames.last().expect("the journal was written to");
    (path, header, found.end, last.header.end_lsn(), last)
}

/// Returns both chains after a frame.
fn chains_behind(frame: &Frame) -> (Position, ChainValue, ChainValue) {
    let header = &frame.header;
    let (mut at, mut chain, mut control) =
        (header.first_position, header.chain, header.control_chain);
    for (lsn, record) in frame.records().unwrap() {
        if record.is_event() {
            chain = chain.with_record(at.0, &record);
            at = at.plus(1);
        } else {
            control = control.with_record(lsn.0, &record);
        }
    }
    (at, chain, control)
}

/// Writes a request of one lineage record after the last frame of the journal, which is one of the
/// session.
fn write_lineage(directory: &Path) {
    let (path, journal, end, lsn, last) = journal_end(directory);
    let now = last.records().unwrap().last().unwrap().1.processed_at();
    let mut payload = Vec::new();
    record::encode(&lineage(now), &mut payload);
    let (position, chain, control_chain) = chains_behind(&last);
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: payload.len() as u32,
        compressed: false,
        count: 1,
        events: 0,
        first_lsn: lsn,
        synced_lsn: lsn,
        first_position: position,
        session: SessionHash(last.header.session.0),
        chain,
        control_chain,
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let mut bytes = fs::read(&path).unwrap();
    let mut frame = Vec::new();
    header.write(journal.salt, &payload, &mut frame);
    let at = usize::try_from(end).unwrap();
    bytes[at..at + frame.len()].copy_from_slice(&frame);
    fs::write(&path, bytes).unwrap();
}

/// Creates the data directory: the first record is sealed, the second only in the journal.
async fn create_fixture(directory: &Path) {
    let store = open_anew("plain", directory, 1);
    create(&store, SESSION).await;
    append(&store, &key(SESSION), batch([varied(0, "first")])).await.unwrap();
    drop(store);
    write_lineage(directory);
    let store = open_anew("plain", directory, 2);
    for n in 1..40 {
        let text = "lorem ipsum ".repeat(40);
        append(&store, &key(SESSION), batch([varied(n, &text)])).await.unwrap();
        if n % 8 == 0 {
            store.flush().unwrap();
        }
    }
    store.close().await;
    let store = open_anew("plain", directory, 3);
    append(&store, &key(SESSION), batch([varied(40, "late")])).await.unwrap();
    drop(store);
    write_lineage(directory);
}

pub(super) async fn said(store: &dyn Store) -> Value {
    let info = store.info(&key(SESSION)).await.unwrap();
    let chain: String = info.receipt.chain.iter().map(|byte| format!("{byte:02x}")).collect();
    let events = events_of(store, &key(SESSION)).await.into_iter();
    let bodies = events.map(|event| String::from_utf8(event.body.to_vec()).unwrap());
    json!({ "tail": info.tail.0, "chain": chain, "bodies": bodies.collect::<Vec<_>>() })
}

#[tokio::test]
async fn a_record_of_a_reserved_kind_is_kept_and_ignored() {
    let home = tempfile::tempdir().unwrap();
    if std::env::var_os("UPDATE").is_some() && !fixture("lineage").exists() {
        let new = home.path().join("new");
        create_fixture(&new).await;
        copy(&new, &fixture("lineage").join("data"));
        let store = open_anew("plain", &new, 4);
        let text = serde_json::to_string_pretty(&said(&store).await).unwrap();
        fs::write(fixture("lineage").join("expected.json"), text + "\n").unwrap();
    }
    let expected = expected("lineage");
    let data = home.path().join("data");
    copy(&fixture("lineage").join("data"), &data);
    // In the journal, then flushed, then sealed together with later records.
    for start in 0..3 {
        let store = open_anew("plain", &data, 4 + start);
        assert_eq!(said(&store).await, expected, "start {start}");
        assert_eq!(store.recovery().damage, Vec::<String>::new(), "start {start}");
        let verified = store.verify(&key(SESSION).scope, None).await.unwrap();
        assert_eq!(verified.damage, [], "start {start}");
        match start {
            0 => store.flush().unwrap(),
            _ => store.close().await,
        }
    }
    // The record has no effect: later writers are not rejected, and a deletion is applied.
    let store = open_anew("plain", &data, 7);
    append(&store, &key(SESSION), batch([event("{}")])).await.unwrap();
    let delete = sessionlog::store::SessionUpdate { discard: true, ..Default::default() };
    store.change(&key(SESSION), delete).await.unwrap();
    let gone = store.info(&key(SESSION)).await;
    assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "{gone:?}");
}

#[test]
fn a_decoder_written_from_the_document_chains_over_a_reserved_record() {
    let Some(document) = decoded(&fixture("lineage").join("data")) else { return };
    assert_eq!(document["problems"], json!([]));
    let expected = expected("lineage");
    let session = &document["sessions"][0];
    for name in ["tail", "chain"] {
        assert_eq!(session[name], expected[name], "{name}");
    }
    assert_eq!(session["control_records"]["20"], json!(2), "{session:#}");
}

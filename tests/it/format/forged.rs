//! Frames with valid checksums and impossible numbers: neither the decoder nor the store accepts
//! them as frames. It must not change a directory under version control.

use std::{fs, path::Path};

use serde_json::json;
use sessionlog::{
    event::{Lsn, Position},
    log::FrameHeader,
    store::Maintain,
};

use super::{
    copy, decoded, expected, fixture,
    lineage::{journal_end, said},
    open_anew,
};

/// Writes a frame without a payload after the last one of the journal; `forge` changes its header.
fn write_forged(directory: &Path, forge: fn(&mut FrameHeader)) {
    let (path, journal, end, lsn, last) = journal_end(directory);
    let mut header = FrameHeader { length: 0, first_lsn: lsn, synced_lsn: lsn, ..last.header };
    forge(&mut header);
    let (mut bytes, mut frame) = (fs::read(&path).unwrap(), Vec::new());
    header.write(journal.salt, &[], &mut frame);
    let at = usize::try_from(end).unwrap();
    bytes[at..at + frame.len()].copy_from_slice(&frame);
    fs::write(&path, bytes).unwrap();
}

#[tokio::test]
async fn a_frame_with_impossible_numbers_is_rejected_by_decoder_and_store() {
    type Case = (&'static str, bool, fn(&mut FrameHeader));
    let cases: [Case; 6] = [
        ("one that is whole and has not what it says", true, |one| {
            (one.count, one.events) = (1, 1)
        }),
        ("more events than records", false, |one| (one.count, one.events) = (1, 2)),
        ("more records than fit", false, |one| (one.count, one.events) = ((64 << 20) + 1, 0)),
        ("a number that none follows", false, |one| one.first_lsn = Lsn(u64::MAX - 1)),
        ("a position that none follows", false, |one| one.first_position = Position(u64::MAX)),
        ("a copy that none follows", false, |one| one.copy_lsn = Lsn(u64::MAX - 1)),
    ];
    let expected = expected("lineage");
    for (told, believed, forge) in cases {
        let home = tempfile::tempdir().unwrap();
        copy(&fixture("lineage").join("data"), home.path());
        write_forged(home.path(), forge);
        let Some(document) = decoded(home.path()) else { return };
        assert_eq!(document["problems"] != json!([]), believed, "{told}: {document:#}");
        // Nor is it a torn tail: nothing shows that a frame was written.
        assert_eq!(document["notes"], json!([]), "{told}");
        let session = &document["sessions"][0];
        assert_eq!([&session["tail"], &session["chain"]], [&expected["tail"], &expected["chain"]]);
        if !believed {
            let store = open_anew("plain", home.path(), 4);
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
            assert_eq!(said(&store).await, expected, "{told}");
        }
    }
}

//! Feeds bytes to the index as a part, and as a query: bytes as they are, bytes behind a header
//! that fits them, and a real part with bytes changed under a checksum that fits. What a disk
//! forges may rank wrongly; it must never panic, and what is written again must be a part.

use sessionlog::{
    event::{Event, EventId, EventType, Origin, Position, Range, SessionHash, Timestamp},
    search::{HitOrder, ParsedQuery, Part, PartBuilder, SessionRef, extract_snippet, merge, rank},
};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
/// Bytes before what the checksum covers.
const HEADER_BYTES: usize = 16;
/// Changes of a part at most.
const CHANGES_MAX: usize = 24;

pub fn check(bytes: &[u8]) {
    let _ = Part::read(bytes);
    ranked(bytes, "harbour");
    let real = real();
    let mut behind = real[..HEADER_BYTES].to_vec();
    behind.extend_from_slice(bytes);
    fit(&mut behind);
    ranked(&behind, "harbour");

    let Some((count, rest)) = bytes.split_first() else { return };
    let count = usize::from(*count) % CHANGES_MAX;
    let (changes, text) = rest.split_at(rest.len().min(count * 3));
    let mut changed = real.clone();
    for change in changes.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let length = changed.len() - HEADER_BYTES;
        changed[HEADER_BYTES + place % length] = change[2];
    }
    fit(&mut changed);
    let text = String::from_utf8_lossy(text);
    for query in [text.as_ref(), "harbour ledger", "l* -pier", "ana after:2001 file:scan.rs"] {
        ranked(&changed, query);
        ranked(&real, query);
    }
}

/// Makes the checksum fit.
fn fit(bytes: &mut [u8]) {
    let sum = crc32fast::hash(&bytes[HEADER_BYTES..]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Reads a part, ranks it beside itself, merges it, and reads what that wrote.
fn ranked(bytes: &[u8], text: &str) {
    let all = |_: SessionRef<'_>, range: Range| vec![range];
    let Ok(part) = Part::from_trusted(bytes) else { return };
    let _ = part.indexed_ranges().count();
    let parts = [part, part];
    let merged = merge(&parts, &all);
    Part::read(&merged).expect("what was written is a part");
    let Ok(query) = ParsedQuery::parse(text, NOW) else { return };
    for order in [HitOrder::Score, HitOrder::Time] {
        let found = rank(&parts, &query, &all, order, 50);
        assert!(found.hits.iter().all(|hit| hit.score.is_finite()));
    }
    let _ = query.matches_phrases(text);
    drop(extract_snippet(query.snippet_query(), text, 20));
}

/// A part of three sessions in which every section has something.
fn real() -> Vec<u8> {
    let mut builder = PartBuilder::new();
    let texts = [
        "the harbour ledger of 8 May 2023, see src/log/scan.rs and https://lib.example/a",
        "harbour harbour harbour and the pier, copied yesterday",
        "a lantern beside the long ladder",
        "漢字 and 1,234.56 EUR",
    ];
    for session in 0..3_u8 {
        let of = SessionRef { hash: SessionHash([session; 32]), id: "s" };
        for (position, text) in (0..).zip(texts.iter().cycle().skip(session.into()).take(5)) {
            let kind = if position % 2 == 0 { "user.message" } else { "agent.message" };
            let body = serde_json::json!({ "content": text, "speaker": "Ana" }).to_string();
            let event = Event {
                position: Position(position),
                id: EventId::new(&format!("e{position}")).expect("printable"),
                kind: EventType::new(kind).expect("plain"),
                origin: Origin::User,
                created_at: None,
                processed_at: NOW,
                body: body.into(),
            };
            builder.add_event(of, &event);
        }
        builder.mark_indexed(of, Range::new(Position(7), Position(9)));
    }
    builder.finish()
}

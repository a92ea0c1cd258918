//! Search by other criteria than words: dates in every notation, and the pieces of long events.

use sessionlog::{
    event::{Event, Timestamp},
    search::{EventText, HitOrder, Part, SearchHit, rank},
};

use super::index::{all, built, query};
use crate::event;

fn at(position: u64, time: &str, text: &str) -> (u8, Event) {
    let body = serde_json::json!({ "content": text }).to_string();
    let processed_at = Timestamp::parse(time).unwrap();
    (0, Event { processed_at, ..event(position, "user.message", body) })
}

fn found(events: &[(u8, Event)], text: &str) -> Vec<SearchHit> {
    let bytes = built(events);
    rank(&[Part::read(&bytes).unwrap()], &query(text), &all, HitOrder::Score, 100).hits
}

/// Returns positions that match words or dates of the query themselves, the best first.
fn own_hits(events: &[(u8, Event)], text: &str) -> Vec<u64> {
    let found = found(events, text).into_iter().filter(|hit| hit.why.words > 0.0);
    found.map(|hit| hit.position.0).collect()
}

/// A time far from the dates of the queries.
const LONG_AGO: &str = "2001-01-01T12:00:00Z";

#[test]
fn a_date_in_a_query_matches_every_notation_of_the_date() {
    let texts = [
        (LONG_AGO, "the lease begins on 2023-05-08"),
        (LONG_AGO, "the lease begins on May 8th, 2023"),
        (LONG_AGO, "the lease begins on 8 May 2023"),
        ("2023-05-09T10:00:00Z", "the lease began yesterday"),
        ("2023-05-08T23:59:00Z", "the lease is signed"),
        ("2023-05-10T10:00:00Z", "the lease began two days ago"),
        (LONG_AGO, "the lease ends on 2024-05-08"),
        (LONG_AGO, "all who come in may march 8 miles"),
        (LONG_AGO, "a lantern"),
        (LONG_AGO, "a saddle"),
        (LONG_AGO, "a thimble"),
        (LONG_AGO, "a walnut"),
        (LONG_AGO, "a violin"),
        (LONG_AGO, "a pepper"),
    ];
    let events: Vec<_> = (0..).zip(texts).map(|(n, (time, text))| at(n, time, text)).collect();
    for asked in ["8 May 2023", "on May 8, 2023", "2023-05-08", "the 8th of May 2023"] {
        let mut first: Vec<u64> = own_hits(&events, asked).into_iter().take(6).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3, 4, 5], "{asked}");
    }
    let mut may = own_hits(&events, "in May");
    may.sort_unstable();
    assert_eq!(may, [0, 1, 2, 3, 4, 5, 6], "a month of any year, and no verb");
    assert_eq!(own_hits(&events, "2024"), [6]);
    // The current time is 14 November 2023.
    let events = [
        at(0, "2023-11-13T08:00:00Z", "harbour"),
        at(1, "2023-10-20T08:00:00Z", "harbour"),
        at(2, "2023-11-07T08:00:00Z", "harbour"),
        at(3, LONG_AGO, "harbour"),
    ];
    for (asked, expected) in
        [("harbour yesterday", 0), ("harbour last month", 1), ("harbour last week", 2)]
    {
        assert_eq!(found(&events, asked)[0].position.0, expected, "{asked}");
    }
    for (asked, expected) in [
        ("harbour after:yesterday", vec![0]),
        ("harbour before:2023-11 after:2023-10", vec![1]),
        ("harbour before:2002", vec![3]),
    ] {
        assert_eq!(own_hits(&events, asked), expected, "{asked}");
    }
}

#[test]
fn a_long_event_is_one_hit_with_the_piece_that_matches() {
    let filler = |from: usize| {
        let words = (from..from + 511).map(|n| format!("filler{n}"));
        words.collect::<Vec<_>>().join(" ")
    };
    let text =
        format!("harbour {} pier {} src/log/scan.rs on 8 May 2023 saddle", filler(0), filler(600));
    let events = [at(0, LONG_AGO, &text), at(1, LONG_AGO, "walnut")];
    let said = EventText::from_event(&events[0].1);
    for (asked, piece, shows) in [
        ("harbour", 0, "harbour filler0"),
        ("pier", 1, "pier filler600"),
        ("saddle", 2, "src/log/scan.rs on"),
        ("file:scan.rs", 2, "src/log/scan.rs"),
        ("8 May 2023", 2, "src/log/scan.rs on 8 May 2023"),
    ] {
        let hits = found(&events, asked);
        let of_first: Vec<&SearchHit> = hits.iter().filter(|hit| hit.position.0 == 0).collect();
        assert_eq!(of_first.len(), 1, "{asked}: an event is one hit");
        assert_eq!(of_first[0].piece, piece, "{asked}");
        assert!(said.piece(piece).starts_with(shows), "{asked}: {}", said.piece(piece));
    }
    assert!(said.piece(3).is_empty());
    let whole: String = (0..3).map(|piece| said.piece(piece)).collect::<Vec<_>>().join(" ");
    assert_eq!(whole, said.text.trim(), "no word is in no piece or in two");
    // Required words may be in different pieces; excluded words must be in none.
    assert_eq!(own_hits(&events, "+harbour +saddle"), [0]);
    assert_eq!(own_hits(&events, "harbour -saddle"), [] as [u64; 0]);
    assert_eq!(own_hits(&events, "+harbour +walnut"), [] as [u64; 0]);
}

#[test]
fn a_prefix_of_a_name_is_matched_as_one_term() {
    let events = [
        at(0, LONG_AGO, "call flush_ledger_now here"),
        at(1, LONG_AGO, "flush the ledge"),
        at(2, LONG_AGO, "src/log/scan.rs"),
        at(3, LONG_AGO, "walnut"),
    ];
    assert_eq!(own_hits(&events, "flush_led*"), [0]);
    assert_eq!(own_hits(&events, "+src/lo*"), [2]);
    assert_eq!(
        own_hits(&events, "walnut flush -flush_led*"),
        [3, 1],
        "its first part is not asked for"
    );
}

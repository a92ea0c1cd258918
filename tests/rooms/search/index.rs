//! The index of many sessions: parts, merges and ranked queries, compared with a plain scan.

use proptest::prelude::*;
use sessionlog::{
    event::{Event, Position, Range, SessionHash, Timestamp},
    search::{
        HitOrder, ParsedQuery, Part, PartBuilder, PartError, QueryFault, SessionRef, merge, rank,
    },
};

use crate::event;

pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
pub(super) const WORDS: [&str; 12] = [
    "ledger", "harbour", "museum", "copper", "violin", "granite", "orchard", "lantern", "pepper",
    "saddle", "thimble", "walnut",
];

pub(super) fn session(number: u8) -> SessionRef<'static> {
    SessionRef {
        hash: SessionHash([number; 32]),
        id: ["s0", "s1", "s2", "s3"][usize::from(number % 4)],
    }
}

fn message_event(position: usize, text: &str) -> Event {
    let body = serde_json::json!({ "content": text }).to_string();
    event(
        position as u64,
        if position.is_multiple_of(2) { "user.message" } else { "agent.message" },
        body,
    )
}

/// Builds a part of these texts, each the next event of its session.
fn part_of(texts: &[(u8, &str)]) -> Vec<u8> {
    built(&numbered(texts))
}

pub(super) fn numbered(texts: &[(u8, &str)]) -> Vec<(u8, Event)> {
    let mut next = [0_usize; 4];
    let mut events = Vec::new();
    for (of, text) in texts {
        let position = &mut next[usize::from(*of)];
        events.push((*of, message_event(*position, text)));
        *position += 1;
    }
    events
}

pub(super) fn built(events: &[(u8, Event)]) -> Vec<u8> {
    let mut builder = PartBuilder::new();
    events.iter().for_each(|(of, event)| builder.add_event(session(*of), event));
    builder.finish()
}

pub(super) fn all(_: SessionRef<'_>, range: Range) -> Vec<Range> {
    vec![range]
}

pub(super) fn query(text: &str) -> ParsedQuery {
    ParsedQuery::parse(text, NOW).unwrap()
}

#[test]
fn words_filters_and_operators_match_the_right_events() {
    let bytes = part_of(&[
        (0, "the harbour ledger was copied by Thorne in src/log/scan.rs"),
        (0, "a museum of copper"),
        (1, "harbours without a book, see https://lib.example/a/b?c=1"),
        (1, "the configuration of the violin"),
        (2, "nothing"),
    ]);
    let parts = [Part::read(&bytes).unwrap()];
    for (text, expected) in [
        ("harbour ledger", &[(0, 0), (1, 0)][..]),
        ("harbour +ledger", &[(0, 0)]),
        ("harbour -ledger", &[(1, 0)]),
        ("configurat*", &[(1, 1)]),
        ("+viol*", &[(1, 1)]),
        ("file:scan.rs", &[(0, 0)]),
        ("file:log/scan.rs", &[(0, 0)]),
        ("file:can.rs", &[]),
        ("url:lib.example/a", &[(1, 0)]),
        ("harbour type:user", &[(0, 0), (1, 0)]),
        ("harbour type:agent", &[]),
        ("harbour -type:user.message", &[]),
        ("who:user copper harbour", &[(0, 0), (1, 0)]),
        ("harbour after:1970-01-02", &[]),
        ("harbour before:1970-01-02", &[(0, 0), (1, 0)]),
        ("missing", &[]),
    ] {
        let hits = rank(&parts, &query(text), &all, HitOrder::Score, 100).hits;
        let own = hits.iter().filter(|hit| hit.why.words > 0.0);
        let mut own: Vec<(u8, u64)> = own.map(|hit| (hit.hash.0[0], hit.position.0)).collect();
        own.sort_unstable();
        assert_eq!(own, expected, "{text}");
        if text.contains(['+', ':']) && !text.starts_with("harbour") {
            let beside = hits.iter().filter(|hit| hit.why.words == 0.0).count();
            assert!(beside == 0 || text.starts_with("who"), "{text}: what must be there is there");
        }
    }
    let ids = query("harbour session:s1 -workspace:lib").filters;
    assert!(ids.allows_session("s1", None) && !ids.allows_session("s0", None));
    assert!(!ids.allows_session("s1", Some("/home/lib")));
    assert!(ids.allows_session("s1", Some("/home/glib")));
}

#[test]
fn a_query_that_does_not_parse_reports_the_error_offset() {
    for (text, place) in
        [("ledger \"harbour", 7), ("a ledger after:noon", 9), ("x origin:moon", 2), ("?!", 0)]
    {
        let error = ParsedQuery::parse(text, NOW).unwrap_err();
        assert_eq!(error.place, place, "{text}: {error}");
    }
    let many: Vec<String> = (0..1_000).map(|n| format!("+w{n}")).collect();
    for text in ["x".repeat(5_000), many.join(" ")[..4_000].to_owned(), "a* ".repeat(1_300)] {
        assert_eq!(ParsedQuery::parse(&text, NOW).unwrap_err().fault, QueryFault::TooLong);
    }
    assert!(
        ParsedQuery::parse(&format!("{}ledger{}", "(".repeat(99), ")".repeat(99)), NOW).is_ok()
    );
}

#[test]
fn damaged_index_bytes_are_rejected() {
    let bytes = part_of(&[(0, "the harbour ledger"), (1, "a museum")]);
    assert_eq!(Part::read(b"").unwrap_err(), PartError::Foreign);
    for at in 16..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(Part::read(&other).unwrap_err(), PartError::Damaged, "{at}");
        assert!(Part::read(&bytes[..at]).is_err(), "{at}");
    }
}

pub(super) fn texts() -> impl Strategy<Value = Vec<(u8, Vec<usize>)>> {
    let text = prop::collection::vec(0..WORDS.len(), 1..6);
    prop::collection::vec((0_u8..4, text), 1..60)
}

pub(super) fn written(texts: &[(u8, Vec<usize>)]) -> Vec<(u8, Event)> {
    let text = |words: &Vec<usize>| words.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(" ");
    let texts: Vec<(u8, String)> = texts.iter().map(|(of, words)| (*of, text(words))).collect();
    numbered(&texts.iter().map(|(of, text)| (*of, text.as_str())).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn merged_parts_equal_a_part_built_at_once(texts in texts(), cut in 0_usize..60) {
        let events = written(&texts);
        let whole = built(&events);
        let (first, second) = events.split_at(cut.min(events.len()));
        let halves = [built(first), built(second)];
        let parts: Vec<Part<'_>> = halves.iter().map(|half| Part::read(half).unwrap()).collect();
        prop_assert_eq!(merge(&parts, &all), whole.clone());
        let twice = [parts[0], parts[1], parts[0]];
        prop_assert_eq!(merge(&twice, &all), whole.clone(), "what two parts hold is there once");
        let one = [Part::read(&whole).unwrap()];
        for text in ["ledger harbour walnut", "pepper -saddle", "+thimble violin", "l*"] {
            let of = |parts: &[Part<'_>]| {
                rank(parts, &query(text), &all, HitOrder::Score, 1_000).hits
            };
            prop_assert_eq!(of(&parts), of(&one), "{}", text);
            prop_assert_eq!(of(&twice), of(&one), "{}", text);
        }
    }

    #[test]
    fn a_session_excluded_from_an_index_is_in_none_of_its_bytes(
        texts in texts(),
        hidden in 0_u8..4,
    ) {
        let events = written(&texts);
        let bytes = built(&events);
        let parts = [Part::read(&bytes).unwrap()];
        let keep = |of: SessionRef<'_>, range: Range| {
            if of.hash.0[0] == hidden { Vec::new() } else { vec![range] }
        };
        let left: Vec<(u8, Event)> =
            events.into_iter().filter(|(of, _)| *of != hidden).collect();
        let rest = built(&left);
        prop_assert_eq!(merge(&parts, &keep), rest.clone());
        let alone = [Part::read(&rest).unwrap()];
        let asked = query("ledger harbour walnut pepper");
        let other = rank(&alone, &asked, &all, HitOrder::Score, 1_000);
        let filtered = rank(&parts, &asked, &keep, HitOrder::Score, 1_000);
        prop_assert_eq!(filtered.hits, other.hits, "not even frequencies count");
    }

    #[test]
    fn the_matched_words_of_a_hit_equal_those_of_a_plain_scan(texts in texts()) {
        let events = written(&texts);
        let bytes = built(&events);
        let parts = [Part::read(&bytes).unwrap()];
        let hits = rank(&parts, &query("ledger walnut copper"), &all, HitOrder::Score, 1_000).hits;
        let scanned = scanned(&events, &["ledger", "walnut", "copper"]);
        for (of, position, expected) in scanned {
            let hit = hits.iter().find(|hit| (hit.hash.0[0], hit.position) == (of, position));
            let words = hit.map_or(0.0, |hit| f64::from(hit.why.words));
            prop_assert!((words - expected).abs() < 1e-4, "{} {}: {} {}", of, position, words, expected);
        }
    }
}

/// Computes BM25 of each event from the texts alone, scaled to a maximum of 1.
fn scanned(events: &[(u8, Event)], query: &[&str]) -> Vec<(u8, Position, f64)> {
    let words: Vec<Vec<String>> = events
        .iter()
        .map(|(_, event)| {
            let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
            body["content"].as_str().unwrap().split(' ').map(str::to_owned).collect()
        })
        .collect();
    let all = words.len() as f64;
    let mean = words.iter().map(Vec::len).sum::<usize>() as f64 / all;
    let holding = |word: &str| words.iter().filter(|of| of.iter().any(|it| it == word)).count();
    let is_common = |word: &str| words.len() >= 8 && holding(word) > words.len() / 2;
    let only_common = query.iter().all(|word| holding(word) == 0 || is_common(word));
    let score = |of: &Vec<String>| {
        let of_word = |word: &&str| {
            let often = of.iter().filter(|it| it == word).count() as f64;
            let held = holding(word) as f64;
            if often == 0.0 || is_common(word) && !only_common {
                return 0.0;
            }
            let rare = (1.0 + (all - held + 0.5) / (held + 0.5)).ln();
            rare * often * 1.9 / (often + 0.9 * (0.6 + 0.4 * of.len() as f64 / mean))
        };
        query.iter().map(of_word).sum::<f64>()
    };
    let scores: Vec<f64> = words.iter().map(score).collect();
    let most = scores.iter().copied().fold(0.0, f64::max);
    let share = |score: f64| if most > 0.0 { score / most } else { 0.0 };
    let events = events.iter().zip(scores);
    events.map(|((of, event), score)| (*of, event.position, share(score))).collect()
}

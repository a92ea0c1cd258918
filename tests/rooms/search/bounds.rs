//! Hostile queries against many passages: the work is bounded, measured in postings and not in
//! time.

use sessionlog::search::{HitOrder, ParsedQuery, Part, PartBuilder, QueryFault, RankedHits, rank};

use super::index::{NOW, all, query, session};
use crate::event;

const PASSAGES: u64 = 50_000;
/// Maximum terms that prefixes expand to.
const EXPANSIONS: u64 = 1_000;
/// Maximum words of a query.
const WORDS: u64 = 64;

/// Builds a part in which each passage has a unique word and file, and all share two words.
fn build_many() -> Vec<u8> {
    let mut builder = PartBuilder::new();
    for position in 0..PASSAGES {
        let text = format!("w{position} harbour src/w{position}.rs pier");
        let body = format!("{{\"content\":\"{text}\"}}");
        builder.add_event(session(0), &event(position, "user.message", body));
    }
    builder.finish()
}

#[test]
fn a_hostile_query_costs_bounded_work_among_fifty_thousand_passages() {
    let bytes = build_many();
    let parts = [Part::read(&bytes).unwrap()];
    assert_eq!(parts[0].len() as u64, PASSAGES);
    let ranked =
        |text: &str| -> RankedHits { rank(&parts, &query(text), &all, HitOrder::Score, 10) };
    let repeated = |text: &str, bytes: usize| text.repeat(bytes / text.len());

    // Prefixes: for each word a term of one passage, read for its rarity and for its sum.
    let prefixes = |count: u64| (0..count).map(|n| format!("w{n}*")).collect::<Vec<_>>().join(" ");
    for text in ["w*".to_owned(), prefixes(9), prefixes(WORDS / 2)] {
        let found = ranked(&text);
        assert!(found.limited, "{text}: more terms begin so than are looked up");
        assert!(found.postings <= 2 * EXPANSIONS, "{text}: {}", found.postings);
        assert!(!found.hits.is_empty(), "{text}");
    }
    for text in ["+w* w1* -w2*", "file:src -file:w1.rs +w*"] {
        let found = ranked(text);
        assert!(found.postings <= 6 * EXPANSIONS, "{text}: {}", found.postings);
    }
    // Words that all passages have.
    let most = 2 * PASSAGES;
    for text in [
        repeated("harbour ", 4_096),
        repeated("+harbour ", 4_096),
        format!("+\"{}\"", repeated("harbour pier ", 400)),
        format!("{}harbour{}", "(".repeat(2_000), ")".repeat(2_000)),
        format!("{}harbour{}", "[{(".repeat(600), "\\".repeat(600)),
        repeated("harbour\u{301} ", 4_000),
    ] {
        let found = ranked(text.trim());
        // Each word once as a ranking word, and once as a required one.
        assert!(found.postings <= 2 * most, "{}: {}", &text[..40], found.postings);
        assert!(!found.limited);
    }
    let words: Vec<String> = (0..WORDS).map(|n| format!("+w{n}")).collect();
    assert!(ranked(&words.join(" ")).postings <= 2 * WORDS);
}

#[test]
fn a_query_that_is_too_long_is_rejected_when_it_is_parsed() {
    let repeated = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    let numbered = |count: usize, sign: &str| {
        (0..count).map(|n| format!("{sign}w{n}")).collect::<Vec<_>>().join(" ")
    };
    for text in [
        repeated("a* ", 4_096),
        numbered(10_000, ""),
        numbered(800, ""),
        numbered(600, "+"),
        numbered(600, "-"),
        format!("-\"{}\"", repeated("a b ", 4_000)),
        format!("x +\"{}\"", repeated("harbour pier ", 4_000)),
        repeated("type:a ", 4_096),
        repeated("\"a b\" ", 4_096),
    ] {
        let error = ParsedQuery::parse(&text, NOW).unwrap_err();
        assert_eq!(error.fault, QueryFault::TooLong, "{}", &text[..40]);
    }
}

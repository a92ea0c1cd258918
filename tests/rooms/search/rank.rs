//! Passages ranked by a query.

use crate::event;
use sessionlog::{
    event::{Event, Position},
    search::{Query, Ranking},
};

/// Maximum candidates kept.
const CANDIDATES_MAX: usize = 1 << 16;

fn message_event(position: usize, text: &str) -> Event {
    let body = serde_json::json!({ "content": text }).to_string();
    event(position as u64, "agent.message", body)
}

fn rank_texts(query: &str, texts: &[&str]) -> Vec<usize> {
    let mut ranking = Ranking::new(Query::parse(query).unwrap());
    texts.iter().enumerate().for_each(|(at, text)| ranking.add_event(&message_event(at, text)));
    let best = ranking.best(100, |_, _| 1.0).matches;
    best.into_iter().map(|found| usize::try_from(found.position.0).unwrap()).collect()
}

#[test]
fn rare_and_whole_matches_rank_first_and_passages_without_matches_are_omitted() {
    let texts = [
        "opened the page about the ledger",
        "the harbour ledger was copied by Thorne in 1931",
        "the page about harbours",
        "nothing of use",
        "opened the page again",
    ];
    assert_eq!(rank_texts("who copied the harbour ledger", &texts), [1, 2, 0]);
    assert_eq!(rank_texts("nonsense", &texts), [0_usize; 0]);
    assert_eq!(rank_texts("page", &["page", "page two"]), [0, 1], "a common word ranks alone");
}

#[test]
fn equal_scores_rank_newest_first_and_weights_count() {
    assert_eq!(rank_texts("ledger", &["ledger one", "ledger two"]), [1, 0]);
    let mut ranking = Ranking::new(Query::parse("ledger").unwrap());
    (0..2).for_each(|at| ranking.add_event(&message_event(at, ["the ledger", "a ledger"][at])));
    let best = ranking.best(9, |position, _| if position.0 == 1 { 0.5 } else { 1.0 });
    assert_eq!(best.matches.first().map(|found| found.position), Some(Position(0)));
}

#[test]
fn equal_texts_are_listed_once_and_an_event_a_limited_number_of_times() {
    let lines: Vec<String> = (0..9).map(|n| format!("The ledger has a line {n}.")).collect();
    let mut ranking = Ranking::new(Query::parse("ledger").unwrap());
    ranking.add_event(&message_event(0, &lines.join(" ")));
    (1..900).for_each(|at| ranking.add_event(&message_event(at, "ledger ledger")));
    let best = ranking.best(9, |_, _| 1.0);
    let shown: Vec<u64> = best.matches.iter().map(|found| found.position.0).collect();
    assert_eq!((shown, best.is_all), (vec![899, 0, 0, 0], false));
}

#[test]
fn a_phrase_matches_only_verbatim() {
    let texts = ["not the retry loop", "loop of a retry", "retry, then a loop", "Retries loop"];
    assert_eq!(rank_texts("\"retry loop\"", &texts), [3, 0]);
    assert_eq!(rank_texts("\"of a retry\"", &texts), [1]);
}

#[test]
fn a_word_in_most_passages_does_not_affect_the_rank() {
    let mut texts = vec!["the loop again"; 20];
    texts.push("retries again");
    assert_eq!(rank_texts("retry loop", &texts), [20], "the common word matches nothing");
}

#[test]
fn the_better_half_of_too_many_candidates_is_kept() {
    let mut ranking = Ranking::new(Query::parse("ledger harbour").unwrap());
    for at in 0..CANDIDATES_MAX + 10 {
        ranking
            .add_event(&message_event(at, if at == 7 { "the harbour ledger" } else { "a ledger" }));
    }
    let best = ranking.best(9, |_, _| 1.0);
    assert!(!best.is_all);
    assert_eq!(best.matches.first().map(|found| found.position), Some(Position(7)));
}

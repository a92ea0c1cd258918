//! A ranking compared with a plain one, which reads the texts without an index and keeps every
//! passage.

use proptest::prelude::*;
use sessionlog::{
    event::{Event, Position, Range},
    search::{HitOrder, Part, SearchHit, SessionRef, rank},
};

use super::index::{WORDS, all, built, query, session, texts, written};
use crate::event;

const QUERY: [&str; 3] = ["ledger", "walnut", "copper"];

proptest! {
    #[test]
    fn the_top_hits_equal_the_first_of_all_ranked_hits(texts in texts(), cut in 0_usize..60) {
        let events = written(&texts);
        let (first, second) = events.split_at(cut.min(events.len()));
        let halves = [built(first), built(second)];
        let parts: Vec<Part<'_>> = halves.iter().map(|half| Part::read(half).unwrap()).collect();
        for text in ["ledger walnut copper", "user ledger", "pepper -saddle", "+thimble l*"] {
            for order in [HitOrder::Score, HitOrder::Time] {
                let whole = rank(&parts, &query(text), &all, order, 1_000).hits;
                for limit in 1..whole.len() {
                    let some = rank(&parts, &query(text), &all, order, limit).hits;
                    prop_assert_eq!(&some, &whole[..limit], "{} of {}", limit, text);
                }
            }
        }
    }

    #[test]
    fn every_score_component_equals_that_of_a_plain_ranking(texts in texts(), cut in 0_usize..60) {
        let events = written(&texts);
        let (first, second) = events.split_at(cut.min(events.len()));
        let halves = [built(first), built(second)];
        let parts: Vec<Part<'_>> = halves.iter().map(|half| Part::read(half).unwrap()).collect();
        let hits = rank(&parts, &query(&QUERY.join(" ")), &all, HitOrder::Score, 1_000).hits;
        let plain = plain(&texts);
        prop_assert_eq!(hits.len(), plain.len());
        for (of, position, expected) in plain {
            let is = |hit: &&SearchHit| (hit.hash.0[0], hit.position) == (of, position);
            let why = hits.iter().find(is).unwrap().why;
            let found = [why.words, why.near, why.session, why.whole];
            for (found, expected) in found.into_iter().zip(expected) {
                let off = (f64::from(found) - expected).abs();
                prop_assert!(off < 1e-4, "{} {}: {:?} {:?}", of, position, why, expected);
            }
        }
    }
}

/// Computes BM25 of texts from the frequency of each query word, without words in most of them.
fn bm25_scores(texts: &[(Vec<f64>, f64)], k1: f64, b: f64) -> Vec<f64> {
    let all = texts.len() as f64;
    let mean = texts.iter().map(|(_, length)| length).sum::<f64>() / all;
    let worth = |word: usize| {
        let holding = texts.iter().filter(|(counts, _)| counts[word] > 0.0).count() as f64;
        ((all - holding + 0.5) / (holding + 0.5)).ln_1p()
    };
    let score = |(counts, length): &(Vec<f64>, f64)| {
        let longer = 1.0 - b + b * length / mean;
        let of =
            |word: usize| worth(word) * counts[word] * (k1 + 1.0) / (counts[word] + k1 * longer);
        (0..counts.len()).map(of).sum()
    };
    texts.iter().map(score).collect()
}

/// Returns every matching event with its components: words, near, session and whole.
fn plain(texts: &[(u8, Vec<usize>)]) -> Vec<(u8, Position, [f64; 4])> {
    let often =
        |words: &[usize], word: &str| words.iter().filter(|at| WORDS[**at] == word).count() as f64;
    let holding = |word: &str| texts.iter().filter(|(_, words)| often(words, word) > 0.0).count();
    let is_common = |word: &str| texts.len() >= 8 && holding(word) > texts.len() / 2;
    let known = QUERY.into_iter().filter(|word| holding(word) > 0);
    let rare: Vec<&str> = known.clone().filter(|word| !is_common(word)).collect();
    let asked = if rare.is_empty() { known.collect() } else { rare };
    let counted = |words: &[usize]| {
        (asked.iter().map(|word| often(words, word)).collect(), words.len() as f64)
    };
    let passages: Vec<(Vec<f64>, f64)> = texts.iter().map(|(_, words)| counted(words)).collect();
    let sums = bm25_scores(&passages, 0.9, 0.4);
    let mut of_sessions: Vec<u8> = texts.iter().map(|(of, _)| *of).collect();
    of_sessions.sort_unstable();
    of_sessions.dedup();
    let session_words = |of: &u8| {
        let words = texts.iter().filter(|(session, _)| session == of);
        counted(&words.flat_map(|(_, words)| words.clone()).collect::<Vec<_>>())
    };
    let sessions: Vec<(Vec<f64>, f64)> = of_sessions.iter().map(session_words).collect();
    let session_sums = bm25_scores(&sessions, 1.2, 0.75);
    let most = |sums: &[f64]| sums.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut found = Vec::new();
    for (session, session_sum) in of_sessions.iter().zip(&session_sums) {
        let own: Vec<usize> = (0..texts.len()).filter(|at| texts[*at].0 == *session).collect();
        for (position, at) in own.iter().enumerate() {
            let beside = |distance: usize| {
                let back = position.checked_sub(distance).map_or(0.0, |place| sums[own[place]]);
                back + own.get(position + distance).map_or(0.0, |at| sums[*at])
            };
            let near = 0.5 * beside(1) + 0.2 * beside(2);
            if sums[*at] == 0.0 {
                continue;
            }
            let is_whole = passages[*at].0.iter().all(|count| *count > 0.0);
            let parts = [
                sums[*at] / most(&sums),
                near / most(&sums),
                0.4 * session_sum / most(&session_sums),
                if is_whole { 0.5 } else { 0.0 },
            ];
            found.push((*session, Position(position as u64), parts));
        }
    }
    found
}

#[test]
fn a_part_returns_the_position_from_which_its_events_are_settled() {
    let of = |kinds: &[&str]| -> Vec<(u8, Event)> {
        let kinds = kinds.iter().enumerate();
        kinds.map(|(at, kind)| (0, event(at as u64, kind, r#"{"content":"a ledger"}"#))).collect()
    };
    let settled = |events: &[(u8, Event)]| -> Vec<u64> {
        let bytes = built(events);
        let part = Part::read(&bytes).unwrap();
        part.final_positions().map(|(_, from)| from.0).collect()
    };
    assert_eq!(settled(&of(&["user.message", "agent.message", "agent.thinking"])), [0]);
    for kind in [
        "agent.tool_use",
        "agent.mcp_tool_result",
        "research.step",
        "memory.item",
        "memory.forgotten",
        "context.cleared",
        "event.marked",
    ] {
        assert_eq!(settled(&of(&["user.message", kind, "user.message"])), [2], "{kind}");
    }
    // When two parts are merged the later position counts, in any order.
    let events =
        of(&["event.marked", "user.message", "user.message", "event.marked", "user.message"]);
    let (first, second) = events.split_at(2);
    let halves = [built(second), built(first)];
    let parts: Vec<Part<'_>> = halves.iter().map(|half| Part::read(half).unwrap()).collect();
    let merged = sessionlog::search::merge(&parts, &|_: SessionRef<'_>, range: Range| vec![range]);
    assert_eq!(merged, built(&events));
    let merged = Part::read(&merged).unwrap();
    assert_eq!(merged.final_positions().collect::<Vec<_>>(), [(session(0).hash, Position(4))]);
}

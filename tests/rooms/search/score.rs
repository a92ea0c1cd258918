//! Components of the score of a passage: its words, its neighbours, its session, its speaker, and
//! whether it has every word.

use sessionlog::{
    api::search::Why,
    event::{Event, Range},
    search::{HitOrder, Part, SearchHit, SessionRef, rank},
};

use super::index::{all, built, numbered, query};
use crate::event;

/// Returns the hits in these parts, by session and position.
fn hits(parts: &[Vec<u8>], text: &str) -> Vec<SearchHit> {
    let parts: Vec<Part<'_>> = parts.iter().map(|part| Part::read(part).unwrap()).collect();
    let mut hits = rank(&parts, &query(text), &all, HitOrder::Score, 100).hits;
    hits.sort_by_key(|hit| (hit.hash, hit.position));
    hits
}

fn shares(parts: &[Vec<u8>], text: &str, of: fn(&Why) -> f32) -> Vec<(u8, u64, f32)> {
    let rounded = |hit: &SearchHit| (of(&hit.why) * 1_000.0).round() / 1_000.0;
    hits(parts, text).iter().map(|hit| (hit.hash.0[0], hit.position.0, rounded(hit))).collect()
}

#[test]
fn neighbouring_passages_add_half_and_a_fifth_across_parts() {
    let mut texts: Vec<(u8, String)> = (0..10).map(|n| (0, format!("walnut {n}"))).collect();
    // A neighbour of a match without a word of the query is not a hit.
    for at in [2, 3, 5, 9] {
        texts[at].1 = "the harbour".to_owned();
    }
    // The first passage of another session is not a neighbour of the last one here.
    texts.push((1, "walnut".to_owned()));
    let texts: Vec<(u8, &str)> = texts.iter().map(|(of, text)| (*of, text.as_str())).collect();
    let events = numbered(&texts);
    let expected = [(0, 2, 0.5), (0, 3, 0.7), (0, 5, 0.2), (0, 9, 0.0)];
    for cut in 0..=events.len() {
        let (first, second) = events.split_at(cut);
        let parts = [built(second), built(first)];
        assert_eq!(shares(&parts, "harbour", |why| why.near), expected, "cut at {cut}");
        let words = shares(&parts, "harbour", |why| why.words);
        assert!(words.iter().all(|(.., share)| *share == 1.0), "{words:?}");
    }
    // A passage between two matches gets half of both.
    let between = numbered(&[(0, "the harbour"), (0, "harbour"), (0, "a harbour")]);
    assert_eq!(shares(&[built(&between)], "harbour", |why| why.near)[1], (0, 1, 1.0));
}

#[test]
fn a_passage_gains_two_fifths_of_its_sessions_best_score() {
    let mut texts = vec![(0, "harbour pier"), (0, "harbour"), (1, "harbour")];
    texts.extend([(1, "walnut"); 4]);
    texts.extend([(2, "saddle"); 4]);
    let parts = [built(&numbered(&texts))];
    let found = shares(&parts, "harbour pier", |why| why.session);
    assert!(found.iter().all(|(of, _, share)| (*of == 0) == (*share == 0.4)), "{found:?}");
    assert!(found.iter().any(|(of, _, share)| *of == 1 && *share > 0.0), "{found:?}");
    // A hidden session is not the best one, and hidden words are not counted.
    let parts: Vec<Part<'_>> = parts.iter().map(|part| Part::read(part).unwrap()).collect();
    let keep = |of: SessionRef<'_>, range: Range| {
        if of.hash.0[0] == 0 { Vec::new() } else { vec![range] }
    };
    let found = rank(&parts, &query("harbour pier"), &keep, HitOrder::Score, 10).hits;
    assert_eq!((found[0].why.session, found[0].why.words), (0.4, 1.0));
}

fn message_by(position: u64, speaker: &str, text: &str) -> Event {
    let body = serde_json::json!({ "speaker": speaker, "content": text });
    event(position, "user.message", body.to_string())
}

#[test]
fn a_named_speaker_or_a_match_of_every_word_ranks_higher() {
    let lines = [
        ("Ana Reyes", "the harbour pier"),
        ("Bo", "the harbour pier"),
        ("Bo", "a pier of wood for Ana"),
        ("Ana Reyes", "saddle"),
        ("Bo", "thimble"),
        ("Bo", "orchard"),
        ("Ana Reyes", "violin"),
        ("Bo", "pepper"),
    ];
    let events: Vec<(u8, Event)> =
        (0..).zip(lines).map(|(at, (who, text))| (0, message_by(at, who, text))).collect();
    let parts = [built(&events)];
    let who = |text| {
        let found = shares(&parts, text, |why| why.who).into_iter();
        found.filter(|(.., share)| *share > 0.0).collect::<Vec<_>>()
    };
    assert_eq!(who("pier"), []);
    let of_ana: Vec<u64> = who("what did REYES say of the pier").iter().map(|it| it.1).collect();
    assert_eq!(of_ana, [0, 3, 6]);
    assert!(who("reyes pier").iter().all(|it| it.2 == 0.1));
    let whole = |text| {
        let found = shares(&parts, text, |why| why.whole).into_iter();
        found.filter(|(.., share)| *share > 0.0).map(|it| (it.1, it.2)).collect::<Vec<_>>()
    };
    assert_eq!(whole("the harbour and the pier"), [(0, 0.5), (1, 0.5)], "stop words do not count");
    assert_eq!(whole("harbour pier unheard"), [(0, 0.5), (1, 0.5)], "nor what no passage has");
    assert_eq!(whole("harbour pier orchard"), []);
}

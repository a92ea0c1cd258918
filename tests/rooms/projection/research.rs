//! Fold of events, valid and malformed.

use crate::event;
use sessionlog::{
    event::{Position, Range, Timestamp, kinds},
    projection::{Facts, FindingSource},
};

fn facts(events: &[(&str, &str)]) -> Facts {
    let mut facts = Facts::default();
    for (position, (kind, body)) in events.iter().enumerate() {
        facts.fold(&event(position as u64, kind, *body));
    }
    facts
}

#[test]
fn steps_revisions_branches_and_gaps_fold_into_facts() {
    let facts = facts(&[
        ("research.goal", r#"{"goal":"find it","step":1}"#),
        ("research.step", r#"{"number":1,"description":"one","rejected":["a","b"]}"#),
        ("research.gap_opened", r#"{"gap_id":"g1","description":"why?","step":1}"#),
        (
            "research.step",
            r#"{"number":2,"description":"two","confidence":"high","rejected":["a"]}"#,
        ),
        (
            "research.step",
            r#"{"number":3,"description":"no, three","revises":2,"confidence":"high"}"#,
        ),
        ("research.step", r#"{"number":2,"description":"aside","branch_id":"b","branch_from":1}"#),
        ("user.message", r#"{"content":"hi"}"#),
        ("research.gap_closed", r#"{"gap_id":"g1","step":3}"#),
        ("source.found", r#"{"url":"https://a.org/x/","title":"X","found_by":"server"}"#),
        ("source.found", r#"{"url":"https://a.org/x#y"}"#),
        ("research.summary", r#"{"summary":"nearly there"}"#),
        ("research.step", r#"{"number":4,"description":"done","final":true}"#),
    ]);
    let research = &facts.research;
    assert_eq!(facts.position, Position(12));
    assert_eq!(research.goal(), Some("find it"));
    assert_eq!(research.steps().len(), 5);
    let first =
        research.find_step(1, None).and_then(|at| research.steps().get(at)).expect("step 1");
    assert_eq!(first.extent, Range::new(Position(0), Position(3)));
    let second =
        research.find_step(2, None).and_then(|at| research.steps().get(at)).expect("step 2");
    assert_eq!((second.superseded_by, second.position), (Some(3), Position(3)));
    assert_eq!(research.find_step(2, Some("b")), Some(3));
    assert_eq!(research.find_step(2, Some("c")), None);
    let found: Vec<_> = facts.findings.sentences().iter().map(|one| one.source).collect();
    assert!(
        found.contains(&FindingSource::Step(2)) && !found.contains(&FindingSource::Step(1)),
        "{found:?}"
    );
    assert_eq!((research.last_main_number(), research.last_number()), (4, 4));
    assert_eq!(
        research.branches().first().map(|b| (b.from, b.last, b.steps)),
        Some((Some(1), 2, 1))
    );
    assert_eq!(research.open_gaps().len(), 0);
    let closed = research.gaps().first().and_then(|gap| gap.closed);
    assert_eq!(closed, Some((Position(7), Some(3))));
    assert_eq!(research.rejected_approaches().len(), 2);
    assert_eq!(research.sources().len(), 1);
    assert_eq!(research.sources().first().and_then(|source| source.step), Some(2));
    assert_eq!(research.summary().map(|s| s.text.as_str()), Some("nearly there"));
    assert_eq!(research.completed_at(), Some(Timestamp(11_000_000)));
    assert_eq!(research.full_steps().map(|(step, ..)| step.number).collect::<Vec<_>>(), [3, 2, 4]);
    assert_eq!(facts.conversation.events, 1);
}

#[test]
fn a_step_after_the_final_one_reopens_the_research() {
    let facts = facts(&[
        ("research.step", r#"{"number":1,"description":"a","final":true}"#),
        ("research.step", r#"{"number":2,"description":"b"}"#),
    ]);
    assert_eq!(facts.research.completed_at(), None);
    assert_eq!(facts.research.goal(), Some("a"));
}

#[test]
fn a_repeated_gap_is_counted_once_and_either_id_closes_it() {
    let open = ("research.gap_opened", r#"{"gap_id":"g1","description":"why?","step":1}"#);
    let again = ("research.gap_opened", r#"{"gap_id":"g2","description":" why? ","step":2}"#);
    for close in [r#"{"gap_id":"g2"}"#, r#"{"gap_id":"g1"}"#, r#"{"description":"why?"}"#] {
        let facts = facts(&[open, again, ("research.gap_closed", close)]);
        assert_eq!(facts.research.gaps().len(), 1);
        assert_eq!(facts.research.open_gaps().len(), 0, "{close}");
    }
}

#[test]
fn malformed_bodies_are_ignored_without_panic() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "null",
        "[]",
        "{}",
        "\u{0}",
        r#"{"number":0,"description":"x"}"#,
        r#"{"number":-1,"description":"x"}"#,
        r#"{"number":1e400,"description":"x"}"#,
        r#"{"number":99999999999999999999999,"description":"x"}"#,
        r#"{"number":"1","description":"x"}"#,
        r#"{"number":1,"description":7}"#,
        r#"{"number":1,"number":2,"description":"x"}"#,
        r#"{"number":1,"description":"x","rejected":"y"}"#,
        r#"{"number":1,"description":"x","confidence":"total"}"#,
        deep.as_str(),
    ];
    let kinds = [
        kinds::RESEARCH_GOAL,
        kinds::RESEARCH_STEP,
        kinds::RESEARCH_GAP_OPENED,
        kinds::RESEARCH_GAP_CLOSED,
        kinds::RESEARCH_SUMMARY,
        kinds::SOURCE_FOUND,
        "research.unknown",
    ];
    for kind in kinds {
        for body in bodies {
            let facts = facts(&[(kind, body)]);
            assert!(facts.research.steps().is_empty(), "{kind} {body}");
            let gap = kind == kinds::RESEARCH_GAP_OPENED && body.contains(r#""description":"x""#);
            assert!(gap || facts.research.gaps().is_empty(), "{kind} {body}");
            assert!(facts.research.goal().is_none(), "{kind} {body}");
            assert_eq!(facts.position, Position(1));
        }
    }
    let mut broken = event(0, kinds::RESEARCH_STEP, "");
    broken.body = vec![0xff, 0xfe, b'{'].into();
    let mut facts = Facts::default();
    facts.fold(&broken);
    assert!(facts.research.is_empty());
}

#[test]
fn numbers_at_the_edge_of_their_range_are_kept() {
    let body = format!(r#"{{"number":{0},"description":"x","revises":{0}}}"#, u64::MAX);
    let facts = facts(&[(kinds::RESEARCH_STEP, &body)]);
    assert_eq!(facts.research.last_number(), u64::MAX);
    assert_eq!(facts.research.superseded_count(), 0);
}

//! Events that compactions left out of the context.

use proptest::prelude::*;

use crate::event;
use sessionlog::{
    event::Range,
    projection::{Compactions, Facts, introduced_summary},
};

fn fold_events(events: &[(u64, &str, &str)]) -> Compactions {
    let mut facts = Facts::default();
    for (position, kind, body) in events {
        facts.fold(&event(*position, kind, *body));
    }
    facts.compactions
}

fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.from.0, range.to.0)).collect()
}

#[test]
fn dropped_events_are_not_in_the_context_until_kept_again() {
    let told = r#"{"trigger":"auto","kept":[[0,2]],"dropped":[{"from":2,"to":9}],"summary":"s"}"#;
    let later = r#"{"dropped":[[0,1],[9,20]],"kept":[[3,5]]}"#;
    let made = fold_events(&[
        (10, "context.compacted", told),
        (11, "user.message", told),
        (20, "context.compacted", later),
        (21, "context.compacted", "not JSON"),
    ]);
    assert_eq!((made.count(), pairs(made.dropped_ranges())), (2, vec![(0, 1), (2, 3), (5, 20)]));
    let first = made.latest().next().expect("the first");
    assert_eq!((first.trigger.as_deref(), first.is_reported), (Some("auto"), true));
    assert_eq!(first.summary.as_deref(), Some("s"));
    // Events after the tail cannot be dropped.
    let beyond = fold_events(&[(5, "context.compacted", r#"{"dropped":[[3,900]]}"#)]);
    assert_eq!(pairs(beyond.dropped_ranges()), [(3, 5)]);
}

#[test]
fn the_introduction_of_a_summary_to_the_next_model_is_no_part_of_it() {
    let begin = "Another language model started to solve this problem";
    for (summary, expected) in [
        (format!("{begin} and produced a summary:\nTwo walls stand.\n"), "Two walls stand."),
        (
            format!("{begin} and left this: one wall."),
            &*format!("{begin} and left this: one wall."),
        ),
        ("Two walls.\nOne door.".to_owned(), "Two walls.\nOne door."),
        ("<summary>\nTwo walls.\n</summary>".to_owned(), "Two walls."),
        (
            "<analysis>\nI looked.\n</analysis>\n\n<summary>One door.</summary>".to_owned(),
            "One door.",
        ),
        ("The tag <summary> is kept".to_owned(), "The tag <summary> is kept"),
    ] {
        let body = serde_json::json!({ "summary": summary }).to_string();
        let made = fold_events(&[(10, "context.compacted", &body)]);
        let recorded = made.latest().next().and_then(|one| one.summary.as_deref());
        assert_eq!(recorded, Some(summary.trim()), "the view has what was recorded");
        assert_eq!(recorded.map(introduced_summary), Some(expected));
    }
}

#[test]
fn a_compaction_without_dropped_ranges_drops_all_but_the_kept_ones() {
    for (kind, body, expected) in [
        ("context.compacted", r#"{"kept":[[4,6]]}"#, &[(0, 4), (6, 10)][..]),
        ("context.compacted", "{}", &[(0, 10)]),
        ("agent.thread_context_compacted", "{}", &[(0, 10)]),
        ("context.compacted", r#"{"dropped":[]}"#, &[]),
    ] {
        let made = fold_events(&[(10, kind, body)]);
        assert_eq!(pairs(made.dropped_ranges()), expected, "{kind} {body}");
        let told = made.latest().next().expect("one").is_reported;
        assert_eq!(told, body.contains("dropped"));
    }
}

proptest! {
    #[test]
    fn union_and_difference_of_ranges_match_those_of_their_positions(
        one in prop::collection::vec((0_u64..40, 0_u64..12), 0..6),
        other in prop::collection::vec((0_u64..40, 0_u64..12), 0..6),
    ) {
        let list = |ranges: &[(u64, u64)]| {
            let pairs = ranges.iter().map(|(from, length)| [*from, from + length]);
            serde_json::json!(pairs.collect::<Vec<_>>())
        };
        let after = |then: serde_json::Value| {
            let first = serde_json::json!({ "dropped": list(&one) }).to_string();
            let made = fold_events(&[
                (60, "context.compacted", &first),
                (61, "context.compacted", &then.to_string()),
            ]);
            pairs(made.dropped_ranges())
        };
        let both = after(serde_json::json!({ "dropped": list(&other) }));
        let left = after(serde_json::json!({ "dropped": [], "kept": list(&other) }));
        let within = |ranges: &[(u64, u64)], n: u64| {
            ranges.iter().any(|(from, length)| (*from..from + length).contains(&n))
        };
        let has = |ranges: &[(u64, u64)], n: u64| {
            ranges.iter().any(|(from, to)| (*from..*to).contains(&n))
        };
        for n in 0..60 {
            prop_assert_eq!(has(&both, n), within(&one, n) || within(&other, n));
            prop_assert_eq!(has(&left, n), within(&one, n) && !within(&other, n));
        }
        prop_assert!(both.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}

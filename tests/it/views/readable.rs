//! What a person reads of a session on the command line: headings and facts instead of JSON, no
//! character that steers a terminal, and an answer where there is nothing to show.

use serde_json::{Value, json};

use crate::program::Place;

/// Text that acts on a terminal, in every part.
const HOSTILE: &str = "ha\u{1b}[2Jre\u{9b}31m \u{202e}olleh\u{2066}\u{61c}\u{feff}\u{7f}";

fn written(place: &Place) {
    let line = |event: Value| format!("{event}\n");
    let events: String = [
        json!({"type": "user.message", "content": format!("mend the lock, {HOSTILE}")}),
        json!({"type": "plan.updated", "steps": [
            {"text": "look", "state": "done"}, {"text": HOSTILE, "state": "in_progress"}, "paint",
        ]}),
        json!({"type": "agent.tool_use", "name": "look", "call_id": "c",
               "input": {"where": HOSTILE, "deep": {"list": [1, 2]}}}),
        json!({"type": "agent.tool_result", "call_id": "c", "content": HOSTILE}),
        json!({"type": "research.goal", "goal": HOSTILE}),
        json!({"type": "research.step", "number": 1, "description": format!("looked {HOSTILE}"),
               "confidence": "high", "rejected": [HOSTILE]}),
        json!({"type": "source.found", "url": "https://a.org", "title": HOSTILE}),
        json!({"type": "outcome.recorded", "next": [HOSTILE], "failed": ["glue"]}),
        json!({"type": "x.own", HOSTILE: {"a": HOSTILE}}),
        json!({"type": "context.compacted", "dropped": [[1, 3]], "trigger": HOSTILE}),
        json!({"type": "span.model_request_end", "model_usage": {"input_tokens": 90}}),
    ]
    .map(line)
    .concat();
    place.run_with(&["append", "--create", "s"], &events).ok();
    let forked = ["fork", "s", "--at", "end", "--id", "f", "--title", HOSTILE];
    place.run(&forked).ok();
    place.run(&["checkpoints", "s", "--create", "--label", HOSTILE]).ok();
}

fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn every_verb_prints_facts_without_json_and_nothing_that_steers_a_terminal() {
    let place = Place::new();
    written(&place);
    for (arguments, expected) in [
        (&["view", "s", "index"][..], &["s as of position 11", "Goal", "Steps", "1  looked"][..]),
        (&["view", "s", "summary"], &["Goal"]),
        (&["view", "s", "step", "--step", "1"], &["Step 1 (high confidence", "Ruled out: ha"]),
        (&["view", "s", "continuation"], &["Task", "Plan", "[x] look", "[>] ha", "[ ] paint"]),
        (&["view", "s", "window"], &["[0] user.message", "mend the lock", "look\n    where: ha"]),
        (&["view", "s", "window", "--format", "openai"], &["User", "→ look"]),
        (&["view", "s", "usage"], &["90 of 200 000 tokens (0 %)"]),
        (&["view", "s", "compactions"], &["1 compaction", "Dropped 1–2 (2 events)"]),
        (&["rewind", "f", "--to", "6"], &["f as of position 6", "Steps"]),
        (&["show", "f"], &["title", "└ at 11: f (this one)", "Plan"]),
        (&["history"], &["Sessions", "f (11 events", "Start from", "[x] look"]),
        (&["diff", "s", "0", "end"], &["Positions 0–10: 11 events", "Step 1 was recorded: looked"]),
        (&["replay", "s"], &["user.message", "[>] ha", "Source: ha", "look\n          where"]),
    ] {
        let text = place.run(arguments).ok();
        for words in expected {
            assert!(text.contains(words), "{words}, {arguments:?}: {text}");
        }
        assert!(!text.contains(steers), "{arguments:?}: {text:?}");
        let recorded = text.contains("\\u202e") || arguments.contains(&"usage");
        assert!(recorded, "{arguments:?}: {text}");
        for json in ["{\"", "\":", "[{", "null"] {
            assert!(!text.contains(json), "{json}, {arguments:?}: {text}");
        }
    }
}

#[test]
fn a_range_without_events_and_a_point_past_the_end_are_told() {
    let place = Place::new();
    written(&place);
    for (arguments, told) in [
        (&["--from", "3", "--to", "2"][..], "the range is empty: it begins at 3 and ends before 2"),
        (&["--from", "3", "--to", "3"], "it begins at 3 and ends before 3"),
        (&["--from", "end"], "the range is empty: no event from end to the end"),
        (&["--types", "x.none"], "no event of type x.none"),
    ] {
        let ran = place.run(&[&["events", "s"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
    let typo = place.run(&["events", "s", "--types", "user.messag", "--json"]);
    assert!(typo.err.contains("its last events are of these types: "), "{typo:?}");
    assert!(typo.err.contains("user.message"), "{typo:?}");
    for arguments in [&["events", "s"][..], &["events", "s", "--json"]] {
        assert_eq!(place.run(arguments).err, "", "{arguments:?}");
    }
    let rewound = place.run(&["rewind", "s", "--to", "9999"]);
    assert_eq!(rewound.code, 4, "{rewound:?}");
    assert!(rewound.err.contains("position 9999 is out of range (tail is 11)"), "{rewound:?}");
    let json = place.run(&["rewind", "s", "--to", "12", "--json"]);
    assert_eq!(json.refused(4), "point_not_found");
    place.run(&["rewind", "s", "--to", "11"]).ok();
}

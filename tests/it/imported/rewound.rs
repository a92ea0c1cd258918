//! A user rewinds the agent to an earlier prompt: the text after it is in the log and in the
//! export, and in no view of the conversation.

use serde_json::{Value, json};

use super::{SESSION, Transcript, import, messages, taken, typed, view};
use crate::program::Place;

const GONE: &str = "Paint the sails in scarlet";

/// Returns a prompt, its answer, a prompt with a call that is rewound, and the prompt replacing it.
fn rewound() -> Transcript {
    let talk = Transcript::default();
    talk.user("Draw the mill of the village");
    let first = talk.says("m1", "I begin with the tower.");
    talk.user(GONE);
    talk.says("m2", "The scarlet sails are done.");
    talk.calls("m2", "t1");
    talk.result("t1", "scarlet.svg written");
    talk.back_to(Some(&first));
    talk.user("Leave the sails white");
    talk.says("m3", "They are white.");
    talk
}

fn shows_no_scarlet(place: &Place) {
    for name in ["continuation", "index", "summary"] {
        let view = view(place, name).to_string();
        assert!(!view.contains("carlet"), "{name}: {view}");
    }
    for messages in messages(place) {
        assert!(!messages.contains("carlet") && messages.contains("white"), "{messages}");
        assert!(messages.contains("I begin with the tower"), "{messages}");
    }
    let found = place.run(&["search", "scarlet"]).ok();
    assert!(found.contains("scarlet"), "{found}");
}

#[test]
fn a_rewound_prompt_is_in_no_view_but_is_a_search_hit() {
    let place = taken(&rewound());
    shows_no_scarlet(&place);
    assert_eq!(typed(&place), ["Draw the mill of the village", "Leave the sails white"]);
    // The same file again changes nothing.
    let (_, again) = import(&place, &rewound().text());
    assert_eq!(again["added"], 0, "{again}");
    // As of a point before the rewind the view has the prompt.
    let events = place.events(SESSION);
    let at = events.iter().position(|event| event.to_string().contains("scarlet.svg")).unwrap();
    let then = place.run(&["view", SESSION, "window", "--at", &(at + 1).to_string()]).ok();
    assert!(then.contains(GONE), "{then}");
}

#[test]
fn a_transcript_that_grew_by_a_rewind_withdraws_events_imported_earlier() {
    let (place, text) = (Place::new(), rewound().text());
    let before: String = text.lines().take(6).map(|line| line.to_owned() + "\n").collect();
    import(&place, &before);
    assert!(typed(&place).contains(&GONE.to_owned()));
    let (code, grown) = import(&place, &text);
    assert_eq!((code, &grown["known"]), (0, &json!(6)), "{grown}");
    shows_no_scarlet(&place);
    // A fork and a session that continues it over HTTP see the same.
    place.run(&["fork", SESSION, "--at", "end", "--id", "branch"]).ok();
    let window = place.run(&["view", "branch", "window"]).ok();
    assert!(!window.contains("carlet") && window.contains("white"), "{window}");
}

#[test]
fn a_rewind_to_the_first_prompt_leaves_the_second_one_as_the_task() {
    let talk = Transcript::default();
    for n in 0..40 {
        if n == 0 {
            talk.user("Count the tiles of the old roof");
        }
        talk.calls("m", &format!("t{n}"));
        talk.result(&format!("t{n}"), "tiles");
    }
    talk.back_to(None);
    talk.user("Count the windows of the new barn");
    talk.says("m9", "There are nine.");
    let place = taken(&talk);
    assert_eq!(typed(&place), ["Count the windows of the new barn"]);
    for messages in messages(&place) {
        assert!(!messages.contains("tiles") && messages.contains("new barn"), "{messages}");
    }
}

#[test]
fn parallel_calls_subagents_and_compactions_withdraw_no_event() {
    let talk = Transcript::default();
    talk.user("Measure the wheel");
    let one = talk.calls("m1", "t1");
    let two = talk.calls("m1", "t2");
    talk.back_to(Some(&one));
    talk.result("t1", "the first result");
    talk.back_to(Some(&two));
    talk.result("t2", "the second result");
    let aside = json!({ "type": "user", "isSidechain": true, "parentUuid": null,
        "message": { "role": "user", "content": "look for the axle" } });
    let last = talk.says("m2", "Both are measured.");
    talk.add(aside);
    talk.back_to(Some(&last));
    let answer = |text: &str| talk.says("m3", text);
    answer("An answer that was asked for again.");
    talk.back_to(Some(&last));
    answer("The answer that came then.");
    let boundary = json!({ "type": "system", "subtype": "compact_boundary", "parentUuid": null,
        "logicalParentUuid": last, "compactMetadata": { "trigger": "auto" } });
    talk.add(boundary);
    talk.add(json!({ "type": "user", "isCompactSummary": true,
        "message": { "role": "user", "content": "So far the wheel was measured." } }));
    talk.user("Now the axle");
    let place = taken(&talk);
    let kinds: Vec<Value> =
        place.events(SESSION).iter().map(|event| event["type"].clone()).collect();
    assert!(!kinds.contains(&json!("context.rewound")), "{kinds:?}");
    let export = messages(&place).remove(2);
    for words in ["first result", "second result", "asked for again", "came then", "Now the axle"] {
        assert!(export.contains(words), "{words}: {export}");
    }
}

#[test]
fn a_session_that_continues_a_rewound_one_sees_only_the_kept_conversation() {
    let place = taken(&rewound());
    let mill = ["/home/ada/mill", "--json"];
    place.run(&[&["handoff", "save", "--session", SESSION][..], &mill].concat()).ok();
    let given = place.run(&[&["handoff", "restore"][..], &mill].concat()).ok();
    assert!(!given.contains("carlet") && given.contains("Leave the sails white"), "{given}");
    // The same from the session that continues it.
    let next: Value = serde_json::from_str(&given).unwrap();
    let next = next["new_session_id"].as_str().or(next["session_id"].as_str()).map(str::to_owned);
    let next = next.unwrap_or_else(|| panic!("{given}"));
    let word = json!({ "type": "user.message", "content": "Now the door" }).to_string();
    place.run_with(&["append", &next], &word).ok();
    let given = place.run(&[&["handoff", "restore", "--session", &next][..], &mill].concat()).ok();
    assert!(!given.contains("carlet") && given.contains("Leave the sails white"), "{given}");
}

#[test]
fn any_client_can_withdraw_named_events() {
    let place = Place::new();
    let lines = [
        json!({ "type": "user.message", "content": "Plan the garden" }),
        json!({ "type": "user.message", "content": "Plant only thistles there" }),
        json!({ "type": "user.message", "content": "Plant beans there instead" }),
        json!({ "type": "context.rewound", "withdrawn": [{ "from": 1, "to": 2 }] }),
    ];
    let text = lines.map(|line| line.to_string() + "\n").concat();
    place.run_with(&["append", "--create", SESSION], &text).ok();
    assert_eq!(typed(&place), ["Plan the garden", "Plant beans there instead"]);
    // A later event replaces the withdrawn ranges.
    let none = json!({ "type": "context.rewound", "withdrawn": [] }).to_string();
    place.run_with(&["append", SESSION], &none).ok();
    assert_eq!(typed(&place).len(), 3);
}

//! The program on a terminal, as a person uses it: what is shown, asked and kept from the
//! terminal.

use serde_json::{Value, json};

use crate::{
    cli::{event, with_trip},
    program::Place,
    pty::{Shown, Terminal},
};

/// Runs a verb on a terminal of 80 columns and 24 lines.
fn on_terminal(place: &Place, arguments: &[&str]) -> Shown {
    Terminal::start(place.command(arguments), (80, 24)).end()
}

/// Text that would clear, retitle, colour, hide or reorder a terminal.
const HOSTILE: &str = "a\u{9b}2J\u{9d}0;t\u{9c}\u{202e}b\u{2066}\u{200f}\u{61c}\u{7f}\u{1b}[8mc";

/// Characters of a text that a terminal would obey, but for the styles of this program.
fn steering(text: &str) -> String {
    let styles = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"];
    let text = styles.iter().fold(text.to_owned(), |text, style| text.replace(style, ""));
    let marks = |c: char| "\u{61c}\u{200e}\u{200f}".contains(c);
    let bidi = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: &char| (c.is_control() && *c != '\n' && *c != '\t') || marks(*c) || bidi(*c);
    text.chars().filter(bad).map(|c| c.escape_unicode().to_string()).collect()
}

/// A place with a session whose title, events and names steer a terminal.
fn with_hostile() -> Place {
    let place = Place::new();
    let input = [
        event("user.message", HOSTILE),
        event("agent.message", HOSTILE),
        json!({"type": "agent.tool_use", "name": HOSTILE, "input": {HOSTILE: HOSTILE}, "call_id": "c"})
            .to_string(),
    ];
    place.run_with(&["append", "trip", "--create"], &input.join("\n")).ok();
    let title = HOSTILE.replace('\u{7f}', "");
    place.run(&["fork", "trip", "--at", "end", "--id", "bad", "--title", &title]).ok();
    place.run_with(&["append", "bad"], &event("user.message", HOSTILE)).ok();
    place.run(&["checkpoints", "bad", "--create", "--label", HOSTILE]).ok();
    place
}

#[test]
fn recorded_controls_reach_no_terminal_from_any_verb() {
    let place = with_hostile();
    for verb in [
        &["events", "bad"][..],
        &["export", "bad"],
        &["export", "bad", "--format", "openai"],
        &["sessions"],
        &["show", "bad"],
        &["history"],
        &["diff", "bad", "0", "end"],
        &["view", "bad", "index"],
        &["view", "bad", "window"],
        &["view", "bad", "continuation"],
        &["rewind", "bad", "--to", "2"],
        &["replay", "bad", "--lines"],
        &["checkpoints", "bad"],
        &["retention", "--dry-run"],
        &["wake", "bad"],
        &["view", "bad", "index", "--find", HOSTILE],
        &["show", HOSTILE],
        &[HOSTILE],
        &["checkpoints", "bad", "--show", HOSTILE],
    ] {
        for json in [false, true] {
            let arguments = [verb, if json { &["--json"] } else { &[] }].concat();
            let shown = on_terminal(&place, &arguments);
            assert_eq!(steering(&shown.text), "", "{arguments:?}: {:?}", shown.text);
        }
    }
    let mut player = Terminal::start(place.command(&["replay", "bad"]), (100, 30));
    player.until("\\u009b2J");
    player.type_text("jjjq");
    let drawn = player.end().text;
    for c in ['\u{9b}', '\u{9d}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{7f}'] {
        assert!(!drawn.contains(c), "{c:?}: {drawn:?}");
    }
}

#[test]
fn json_on_a_terminal_is_escaped_and_means_the_same_and_a_pipe_gets_the_bytes() {
    let place = with_hostile();
    let piped = place.run(&["events", "trip"]).ok();
    assert!(piped.contains('\u{9b}') && piped.contains('\u{202e}'), "{piped}");
    let shown = on_terminal(&place, &["events", "trip"]);
    let values = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(values(&shown.text), values(&piped));
    assert!(shown.text.contains("\\u009b2J") && shown.text.contains("\\u202e"), "{}", shown.text);
    assert_eq!(with_trip().run(&["export", "trip"]).code, 0);
}

#[test]
fn what_cannot_be_undone_is_asked_on_a_terminal_and_wants_yes_without_one() {
    let place = with_trip();
    let id = place.events("trip")[1]["id"].as_str().unwrap().to_owned();
    for (verb, warning) in [
        (&["redact", "trip", &id][..], "body of event"),
        (&["delete", "trip"], "Session trip has 3 events. It is hidden at once"),
        (&["erase", "trip"], "destroyed on disk, for ever"),
    ] {
        for json in [false, true] {
            let refused = place.run(&[verb, if json { &["--json"] } else { &[] }].concat());
            assert_eq!(refused.code, 2, "{refused:?}");
            assert!((refused.out + &refused.err).contains("--yes"), "{verb:?}");
        }
        let mut asked = Terminal::start(place.command(verb), (80, 24));
        asked.until("[y/N]");
        asked.type_text("\n");
        let shown = asked.end();
        assert_eq!(shown.code, 1, "{shown:?}");
        assert!(shown.lines().join(" ").contains(warning), "{shown:?}");
        assert_eq!(place.events("trip").len(), 3, "the default is no");
    }
    let mut asked = Terminal::start(place.command(&["delete", "trip"]), (80, 24));
    asked.until("[y/N]");
    asked.type_text("y\n");
    assert!(asked.end().text.contains("deleted trip"));
    assert_eq!(place.run(&["show", "trip", "--json"]).refused(4), "session_deleted");
}

#[test]
fn an_install_without_a_terminal_wants_yes_and_says_what_changes_in_one_line() {
    let place = Place::new();
    let refused = place.run(&["install", "claude-code"]);
    assert!(refused.code == 2 && refused.err.contains("--yes"), "{refused:?}");
    assert!(refused.out.contains("2 files: ") && refused.out.contains("added, 0 removed"));
    assert!(!place.path(".claude.json").exists(), "nothing was written");
    let mut asked = Terminal::start(place.command(&["install", "claude-code"]), (80, 24));
    asked.until("[y/N]");
    asked.type_text("y\n");
    assert!(asked.end().text.contains("Done."));
    assert!(place.path(".claude.json").exists());
    assert_eq!(place.run(&["uninstall", "claude-code"]).code, 2);
}

//! The program on a terminal, as a user sees it: its output, its questions, and text it keeps from
//! the terminal.

use rustix::process::Signal;
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

/// Returns the control characters of a text, except this program's own styles.
fn control_characters(text: &str) -> String {
    let styles = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"];
    let text = styles.iter().fold(text.to_owned(), |text, style| text.replace(style, ""));
    let marks = |c: char| "\u{61c}\u{200e}\u{200f}".contains(c);
    let bidi = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: &char| (c.is_control() && *c != '\n' && *c != '\t') || marks(*c) || bidi(*c);
    text.chars().filter(bad).map(|c| c.escape_unicode().to_string()).collect()
}

/// Creates a session whose title, events and names contain control characters.
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
fn no_verb_prints_recorded_control_characters_to_a_terminal() {
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
            assert_eq!(control_characters(&shown.text), "", "{arguments:?}: {:?}", shown.text);
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
fn json_is_escaped_on_a_terminal_and_unchanged_in_a_pipe() {
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
fn an_irreversible_command_asks_on_a_terminal_and_requires_yes_without_one() {
    let place = with_trip();
    let id = place.events("trip")[1]["id"].as_str().unwrap().to_owned();
    for (verb, warning) in [
        (&["redact", "trip", &id][..], "body of event"),
        (&["delete", "trip"], "Session trip has 3 events. It is hidden at once"),
        (&["erase", "trip"], "destroyed on disk and cannot be brought back"),
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
fn an_install_without_a_terminal_requires_yes_and_lists_its_changes_in_one_line() {
    let place = Place::new();
    let refused = place.run(&["install", "claude-code"]);
    assert!(refused.code == 2 && refused.err.contains("--yes"), "{refused:?}");
    assert!(refused.out.contains("2 files: ") && refused.out.contains("added, 0 removed"));
    assert!(!place.path(".claude.json").exists(), "nothing was written");
    // Each block of output is shown once, and the question stays visible.
    let mut asked = Terminal::start(place.command(&["install", "claude-code"]), (80, 48));
    asked.until("without asking each time? [y/N]");
    asked.type_text("n\n");
    asked.until("Change these files? [y/N]");
    asked.type_text("n\n");
    let declined = asked.end();
    assert!(declined.code == 0 && declined.text.contains("Nothing was changed"), "{declined:?}");
    assert_eq!(declined.text.matches("\"timeout\"").count(), 1, "{declined:?}");
    assert!(declined.text.contains("(the same in 10 more: UserPromptSubmit, "), "{declined:?}");
    assert!(declined.lines().len() < 48, "{declined:?}");
    assert!(!place.path(".claude").exists(), "nothing was written");
    let mut asked = Terminal::start(place.command(&["install", "claude-code"]), (80, 24));
    asked.until("without asking each time? [y/N]");
    asked.type_text("n\n");
    asked.until("Change these files? [y/N]");
    asked.type_text("y\n");
    assert!(asked.end().text.contains("Done."));
    assert!(place.path(".claude.json").exists());
    assert_eq!(place.run(&["uninstall", "claude-code"]).code, 2);
}

#[test]
fn only_output_longer_than_the_screen_goes_through_the_pager() {
    let place = with_trip();
    let lines: Vec<String> =
        (0..40).map(|n| event("user.message", &format!("number {n}"))).collect();
    place.run_with(&["append", "long", "--create"], &lines.join("\n")).ok();
    let paged = |arguments: &[&str], pager: &str| {
        let mut command = place.command(arguments);
        command.env("PAGER", pager).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let shown = Terminal::start(command, (80, 24)).end();
        assert_eq!(shown.code, 0, "{shown:?}");
        shown.lines().iter().filter(|line| line.starts_with("paged ")).count()
    };
    let pager = "sed 's/^/paged /'";
    assert_eq!(paged(&["events", "long"], pager), 40);
    assert_eq!(paged(&["events", "long", "--no-pager"], pager), 0);
    assert_eq!(paged(&["events", "long"], "cat"), 0);
    assert_eq!(paged(&["events", "trip"], pager), 0, "it fits");
    assert_eq!(paged(&["events", "long", "--json"], pager), 0);
    assert_eq!(
        paged(&["events", "long"], "head -n 3 | sed 's/^/paged /'"),
        3,
        "its end is no error"
    );
}

#[test]
fn quiet_omits_remarks_and_verbose_logs() {
    let place = Place::new();
    assert!(place.run(&["sessions"]).err.contains("No sessions yet"));
    assert_eq!(place.run(&["sessions", "-q"]).err, "");
    let ran = place.run(&["show", "nope", "--quiet"]);
    assert!(ran.code == 4 && ran.err.contains("not found"), "{ran:?}");
    assert_eq!(place.run(&["-v", "sessions"]).code, 0);
    assert_eq!(place.run(&["-q", "-v", "sessions"]).code, 2);
}

#[test]
fn invalid_lines_are_named_up_to_five_and_counted_and_wrong_input_is_explained() {
    let place = with_trip();
    let file = place.write("junk.jsonl", &"junk\n".repeat(5_000));
    let ran = place.run(&["import", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{:?}", ran.out);
    assert_eq!(ran.err.lines().count(), 6, "{}", ran.err);
    assert!(ran.err.contains("4995 more lines were left out"), "{}", ran.err);
    let ran = place.run(&["events", "trip", "--from", "3", "--to", "2"]);
    assert!(ran.err.contains("the range is empty"), "{ran:?}");
    let ran = place.run(&["replay", "trip", "--lines", "--from", "200"]);
    assert!(ran.err.contains("no event from 200 to the end") && ran.code == 0, "{ran:?}");
    let ran = place.run(&["rewind", "trip", "--to", "9999"]);
    assert!(ran.err.contains("position 9999 is out of range (tail is 3)"), "{ran:?}");
    let ran = place.run(&["inspect", "/nope"]);
    assert!(ran.code == 4 && ran.err.contains("no such file") && ran.err.contains("expects"));
    for tokens in ["0", "7", "99999999999", "many", "-1"] {
        for verb in [
            &["view", "trip", "window"][..],
            &["view", "trip", "index"],
            &["diff", "trip", "0", "end"],
        ] {
            if verb[2] == "index" && tokens.len() > 4 {
                continue;
            }
            let flag = format!("--tokens-max={tokens}");
            assert_eq!(place.run(&[verb, &[&flag]].concat()).code, 2, "{verb:?} {tokens}");
        }
    }
    let ran = place.run(&["config"]);
    assert!(ran.err.contains(".config/sessionlog/sessionlog.toml"), "{ran:?}");
    assert!(ran.out.contains("\tdefault\tafter this idle time a session expires"), "{}", ran.out);
    let help = place.run(&["--help"]).ok();
    for heading in ["Read:", "Write:", "Agents:", "Store:", "Keys and access:"] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    for (typed, meant) in [("sesions", "sessions"), ("exprot", "export"), ("instal", "install")] {
        let ran = place.run(&[typed]);
        assert!(ran.code == 2 && ran.err.contains(meant), "{ran:?}");
    }
}

/// Returns true if output left the alternate screen and shows the cursor.
fn is_restored(text: &str) -> bool {
    let last = |code: &str| text.rfind(code).map_or(0, |at| at + 1);
    last("\x1b[?1049l") > last("\x1b[?1049h") && last("\x1b[?25h") > last("\x1b[?25l")
}

#[test]
fn a_signal_that_ends_the_player_leaves_the_terminal_as_it_was() {
    let place = with_trip();
    for (signal, code) in
        [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let mut player = Terminal::start(place.command(&["replay", "trip"]), (80, 24));
        player.until("q leave");
        player.until_cooked(false);
        player.send_signal(signal);
        player.until_cooked(true);
        let shown = player.end();
        assert_eq!(shown.code, code, "{signal:?}: {shown:?}");
        assert!(is_restored(&shown.text), "{signal:?}: {shown:?}");
    }
}

#[test]
fn a_suspended_player_gives_the_terminal_back_and_draws_itself_again_once_it_continues() {
    let place = with_trip();
    let mut command = place.command(&["replay", "trip"]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut player = Terminal::start(command, (80, 24));
    player.until("q leave");
    player.type_text("\u{1a}");
    player.until_cooked(true);
    player.until_stopped();
    player.send_signal(Signal::CONT);
    player.until_cooked(false);
    player.type_text("?");
    player.until("^Z");
    player.type_text("qq");
    let shown = player.end();
    assert_eq!(shown.text.matches("\x1b[?1049h").count(), 2, "{shown:?}");
    assert!(shown.code == 0 && is_restored(&shown.text), "{shown:?}");
}

#[test]
fn a_dumb_terminal_gets_plain_lines_without_player_pager_or_codes() {
    let place = with_trip();
    for arguments in [&["replay", "trip"][..], &["replay", "trip", "--lines"], &["show", "trip"]] {
        let mut command = place.command(arguments);
        command.env("PAGER", "echo the pager; cat");
        let shown = Terminal::start_kind(command, (80, 2), "dumb").end();
        assert!(shown.code == 0 && !shown.text.contains('\x1b'), "{arguments:?}: {shown:?}");
        assert!(!shown.text.contains("the pager"), "{arguments:?}: {shown:?}");
    }
}

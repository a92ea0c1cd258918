//! Formats the difference between two points of a session as sentences. It must not print.

use serde_json::Value;

use super::{
    super::screen::{Tone, format_size},
    paper::LineBuffer,
    words::{
        count_of, format_ranges, format_source, format_span, group_digits, list_of, number_of,
        text_of, with_note,
    },
};

/// Maximum number of ranges for which a command to read them is printed.
const COMMANDS_MAX: usize = 3;

/// Prints the difference between two points of a session.
pub(in crate::cli) fn print_difference(session: &str, found: &Value, paper: &mut LineBuffer) {
    let none = Value::Null;
    let events = found.get("events").unwrap_or(&none);
    let of = |value: &Value, name: &str| number_of(value, name).unwrap_or_default();
    let (from, to, count) = (of(found, "from"), of(found, "to"), of(events, "count"));
    if count == 0 {
        return paper.push(
            Tone::Plain,
            "",
            &format!("There are no events between {from} and {to}."),
        );
    }
    let head = format!("Positions {}: {}", format_span(from, to), count_of(count, "event"));
    paper.push_heading(&format!("{head}, {}", format_size(of(events, "bytes"))));
    for (kind, count) in events.get("types").and_then(Value::as_object).into_iter().flatten() {
        let count = group_digits(count.as_u64().unwrap_or_default());
        paper.push(Tone::Plain, &format!("  {count:>6}  "), kind);
    }
    let others = of(events, "others");
    if others > 0 {
        paper.push(Tone::Plain, &format!("  {:>6}  ", group_digits(others)), "of other types");
    }
    print_changed_facts(found.get("facts").unwrap_or(&none), paper);
    print_window_change(session, found.get("window").unwrap_or(&none), paper);
}

/// Function that formats an item of a list as a sentence.
type Sentence = fn(&Value) -> String;

/// Prints the facts that only the later point has, one sentence each.
fn print_changed_facts(facts: &Value, paper: &mut LineBuffer) {
    let mut said = Vec::new();
    for (name, label) in [("goal", "goal"), ("summary", "summary")] {
        let Some(change) = facts.get(name) else { continue };
        said.push(match (text_of(change, "from"), text_of(change, "to")) {
            ("", to) => format!("The {label} is: {to}"),
            (_, "") => format!("There is no {label} any more."),
            (from, to) => format!("The {label} is now: {to}\nIt was: {from}"),
        });
    }
    match facts.get("complete").and_then(Value::as_bool) {
        Some(true) => said.push("The work is complete.".to_owned()),
        Some(false) => said.push("The work is not complete any more.".to_owned()),
        None => {}
    }
    let lists: [(&str, &str, Sentence); 6] = [
        ("steps", "step", |one| {
            format!("{} was recorded: {}", format_step(one), text_of(one, "line"))
        }),
        ("superseded", "superseded step", |one| {
            let by = number_of(one, "superseded_by").map(|by| format!(" by step {by}"));
            format!("{} was superseded{}", format_step(one), by.unwrap_or_default())
        }),
        ("gaps_opened", "open question", |one| format!("Open question: {}", question_text(one))),
        ("gaps_closed", "answered question", |one| format!("Answered: {}", question_text(one))),
        ("sources", "source", |one| format!("New source: {}", format_source(one))),
        ("rejected", "approach ruled out", |one| {
            let step = number_of(one, "step").map(|step| format!("step {step}"));
            format!("Ruled out: {}", with_note(text_of(one, "text"), &step.unwrap_or_default()))
        }),
    ];
    for (name, what, sentence) in lists {
        let Some(news) = facts.get(name) else { continue };
        let shown = list_of(news, "data");
        said.extend(shown.iter().map(sentence));
        let total = number_of(news, "total").unwrap_or_default();
        let hidden = total.saturating_sub(shown.len() as u64);
        if hidden > 0 {
            let what = if hidden == 1 { what.to_owned() } else { plural(what) };
            said.push(format!("{} more {what}", group_digits(hidden)));
        }
    }
    if !said.is_empty() {
        paper.push_heading("What changed");
        said.iter().for_each(|sentence| paper.push_item(sentence));
    }
}

fn plural(what: &str) -> String {
    match what.split_once(' ') {
        Some(("approach", rest)) => format!("approaches {rest}"),
        _ => format!("{what}s"),
    }
}

fn format_step(one: &Value) -> String {
    let branch = Some(text_of(one, "branch")).filter(|name| !name.is_empty());
    let branch = branch.map(|name| format!(" of branch {name}")).unwrap_or_default();
    format!("Step {}{branch}", number_of(one, "step").unwrap_or_default())
}

fn question_text(one: &Value) -> String {
    let said = ["description", "id"].map(|name| text_of(one, name));
    said.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

/// Prints the messages that a model sees at one point only.
fn print_window_change(session: &str, window: &Value, paper: &mut LineBuffer) {
    let size = |side: &str| {
        let of = window.get(side).unwrap_or(&Value::Null);
        let tokens = number_of(of, "tokens").unwrap_or_default();
        with_note(
            &count_of(number_of(of, "events").unwrap_or_default(), "event"),
            &count_of(tokens, "token"),
        )
    };
    let most = number_of(window, "tokens_max").unwrap_or_default();
    paper.push_heading(&format!("What a model sees in a window of {}", count_of(most, "token")));
    paper.push_item(&format!("Before: {}; after: {}.", size("from"), size("to")));
    let places =
        |name: &str| window.get(name).map(|places| list_of(places, "data")).unwrap_or_default();
    let sentences = [
        ("entered", "It now sees"),
        ("left", "It no longer sees"),
        ("shortened", "It now sees only in part"),
    ];
    for (name, sentence) in sentences {
        if let Some(said) = format_ranges(places(name), "event") {
            paper.push_item(&format!("{sentence} {said}."));
        }
    }
    for range in places("left").iter().take(COMMANDS_MAX) {
        let of = |name: &str| number_of(range, name).unwrap_or_default();
        let (from, to) = (of("from"), of("to"));
        paper.push_command("    ", &format!("sessionlog events {session} --from {from} --to {to}"));
    }
}

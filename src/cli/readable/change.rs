//! Formats the difference between two points of a session as sentences. It must not print.

use serde_json::Value;

use super::{
    super::screen::{Tone, size},
    paper::Paper,
    words::{figure, grouped, list, many, ranges, source, span, with_note, word},
};

/// Maximum number of ranges for which a command to read them is printed.
const COMMANDS_MAX: usize = 3;

/// Prints the difference between two points of a session.
pub(in crate::cli) fn difference(session: &str, found: &Value, paper: &mut Paper) {
    let none = Value::Null;
    let events = found.get("events").unwrap_or(&none);
    let of = |value: &Value, name: &str| figure(value, name).unwrap_or_default();
    let (from, to, count) = (of(found, "from"), of(found, "to"), of(events, "count"));
    if count == 0 {
        return paper.say(
            Tone::Plain,
            "",
            &format!("There are no events between {from} and {to}."),
        );
    }
    let head = format!("Positions {}: {}", span(from, to), many(count, "event"));
    paper.heading(&format!("{head}, {}", size(of(events, "bytes"))));
    for (kind, count) in events.get("types").and_then(Value::as_object).into_iter().flatten() {
        let count = grouped(count.as_u64().unwrap_or_default());
        paper.say(Tone::Plain, &format!("  {count:>6}  "), kind);
    }
    let others = of(events, "others");
    if others > 0 {
        paper.say(Tone::Plain, &format!("  {:>6}  ", grouped(others)), "of other types");
    }
    facts(found.get("facts").unwrap_or(&none), paper);
    window(session, found.get("window").unwrap_or(&none), paper);
}

/// Function that formats an item of a list as a sentence.
type Sentence = fn(&Value) -> String;

/// Prints the facts that only the later point has, one sentence each.
fn facts(facts: &Value, paper: &mut Paper) {
    let mut said = Vec::new();
    for (name, label) in [("goal", "goal"), ("summary", "summary")] {
        let Some(change) = facts.get(name) else { continue };
        said.push(match (word(change, "from"), word(change, "to")) {
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
        ("steps", "step", |one| format!("{} was recorded: {}", step(one), word(one, "line"))),
        ("superseded", "superseded step", |one| {
            let by = figure(one, "superseded_by").map(|by| format!(" by step {by}"));
            format!("{} was superseded{}", step(one), by.unwrap_or_default())
        }),
        ("gaps_opened", "open question", |one| format!("Open question: {}", gap_sentence(one))),
        ("gaps_closed", "answered question", |one| format!("Answered: {}", gap_sentence(one))),
        ("sources", "source", |one| format!("New source: {}", source(one))),
        ("rejected", "approach ruled out", |one| {
            let step = figure(one, "step").map(|step| format!("step {step}"));
            format!("Ruled out: {}", with_note(word(one, "text"), &step.unwrap_or_default()))
        }),
    ];
    for (name, what, sentence) in lists {
        let Some(news) = facts.get(name) else { continue };
        let shown = list(news, "data");
        said.extend(shown.iter().map(sentence));
        let total = figure(news, "total").unwrap_or_default();
        let hidden = total.saturating_sub(shown.len() as u64);
        if hidden > 0 {
            let what = if hidden == 1 { what.to_owned() } else { plural(what) };
            said.push(format!("{} more {what}", grouped(hidden)));
        }
    }
    if !said.is_empty() {
        paper.heading("What changed");
        said.iter().for_each(|sentence| paper.item(sentence));
    }
}

fn plural(what: &str) -> String {
    match what.split_once(' ') {
        Some(("approach", rest)) => format!("approaches {rest}"),
        _ => format!("{what}s"),
    }
}

fn step(one: &Value) -> String {
    let branch = Some(word(one, "branch")).filter(|name| !name.is_empty());
    let branch = branch.map(|name| format!(" of branch {name}")).unwrap_or_default();
    format!("Step {}{branch}", figure(one, "step").unwrap_or_default())
}

fn gap_sentence(one: &Value) -> String {
    let said = ["description", "id"].map(|name| word(one, name));
    said.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

/// Prints the messages that a model sees at one point only.
fn window(session: &str, window: &Value, paper: &mut Paper) {
    let size = |side: &str| {
        let of = window.get(side).unwrap_or(&Value::Null);
        let tokens = figure(of, "tokens").unwrap_or_default();
        with_note(&many(figure(of, "events").unwrap_or_default(), "event"), &many(tokens, "token"))
    };
    let most = figure(window, "tokens_max").unwrap_or_default();
    paper.heading(&format!("What a model sees in a window of {}", many(most, "token")));
    paper.item(&format!("Before: {}; after: {}.", size("from"), size("to")));
    let places =
        |name: &str| window.get(name).map(|places| list(places, "data")).unwrap_or_default();
    let sentences = [
        ("entered", "It now sees"),
        ("left", "It no longer sees"),
        ("shortened", "It now sees only in part"),
    ];
    for (name, sentence) in sentences {
        if let Some(said) = ranges(places(name), "event") {
            paper.item(&format!("{sentence} {said}."));
        }
    }
    for range in places("left").iter().take(COMMANDS_MAX) {
        let of = |name: &str| figure(range, name).unwrap_or_default();
        let (from, to) = (of("from"), of("to"));
        paper.command("    ", &format!("sessionlog events {session} --from {from} --to {to}"));
    }
}

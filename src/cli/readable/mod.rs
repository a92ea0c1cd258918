//! Views as text for a terminal: headings in a fixed order, one fact a line, wrapped. Input is the
//! JSON of a view, output lines with their tones; unknown members are printed by name. It must not
//! choose what is in a view, nor print.

mod change;
mod folds;
pub(in crate::cli) mod markdown;
mod members;
pub(in crate::cli) mod paper;
mod steps;
pub(in crate::cli) mod words;

use clap::ValueEnum as _;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::{
    args::WhichView,
    screen::{Tone, one_line},
    times::Times,
};
use crate::event::Timestamp;
pub(super) use change::difference;
pub(super) use folds::history;
pub(super) use paper::Paper;
use words::{figure, grouped, is_true, list, many, named, source, span, with_note, word};

/// Formats an answer for a terminal of `columns` columns at time `now`, in UTC: a view by its name
/// on the command line, or `diff`, `history` or `session`; returns `None` for another name.
#[must_use]
pub fn answer_text(
    name: &str,
    session: &str,
    answer: &Value,
    columns: usize,
    now: Timestamp,
) -> Option<String> {
    let mut paper = Paper::new(columns, Times::at(now, TimeZone::UTC));
    match name {
        "diff" => difference(session, answer, &mut paper),
        "history" => history(answer, &mut paper),
        "session" => self::session(answer, &mut paper),
        name => view(WhichView::from_str(name, false).ok()?, session, answer, &mut paper),
    }
    let lines: Vec<String> = paper.lines().into_iter().map(|(_, text)| text).collect();
    Some(lines.join("\n"))
}

/// Prints a view of a session.
pub(super) fn view(which: WhichView, session: &str, view: &Value, paper: &mut Paper) {
    match which {
        WhichView::Window => folds::window(view, paper),
        WhichView::Usage => folds::usage(view, paper),
        WhichView::Compactions => folds::compactions(session, view, paper),
        WhichView::Step => steps::one_step(session, view, paper),
        WhichView::Index if view.get("searched_from").is_some() => found(view, paper),
        WhichView::Index | WhichView::Summary | WhichView::Continuation => {
            print_selection(session, view, paper);
        }
    }
}

/// Format of a member below its heading.
#[derive(Clone, Copy)]
enum How {
    /// A text, or an object with a text and a position.
    Text,
    /// Items, each a text or an object.
    Items,
    /// A plan's steps with check boxes.
    Plan,
    Phases,
    /// Steps on one line each, or in full.
    Steps,
    Sources,
    Results,
    LeftOut,
    Why,
}

/// Members of a view that is a selection, in the order of printing.
const SECTIONS: [(&str, &str, How); 28] = [
    ("task", "Task", How::Text),
    ("goal", "Goal", How::Text),
    ("instructions", "Instructions", How::Items),
    ("summary", "Where it stands", How::Text),
    ("phases", "Phases", How::Phases),
    ("plan", "Plan", How::Plan),
    ("next", "Next", How::Items),
    ("failures", "Failing", How::Items),
    ("mended", "Mended", How::Items),
    ("files", "Files changed", How::Items),
    ("changes", "Changes", How::Items),
    ("steps", "Steps", How::Steps),
    ("last_steps", "Last steps", How::Steps),
    ("findings", "Findings", How::Items),
    ("rejected", "Ruled out", How::Items),
    ("gaps", "Open questions", How::Items),
    ("sources", "Sources", How::Sources),
    ("branches", "Branches", How::Items),
    ("done", "Done", How::Items),
    ("tried", "Tried", How::Items),
    ("worked", "Worked", How::Items),
    ("failed", "Failed", How::Items),
    ("results", "Results", How::Results),
    ("answer", "The agent said last", How::Text),
    ("recent", "Recent", How::Items),
    ("memory", "Remembered", How::Items),
    ("left_out", "Left out", How::LeftOut),
    ("why", "Why", How::Why),
];

/// Members that are printed in the first line of a view.
const STATUS: [&str; 10] = [
    "level",
    "cursors",
    "position",
    "steps_total",
    "is_complete",
    "started_at",
    "updated_at",
    "tokens",
    "tokens_max",
    "truncated",
];

fn print_selection(session: &str, view: &Value, paper: &mut Paper) {
    let status = status(session, view, &paper.times);
    paper.say(Tone::Faint, "", &status);
    print_sections(session, view, paper);
}

fn print_sections(session: &str, view: &Value, paper: &mut Paper) {
    for (name, heading, how) in SECTIONS {
        let Some(value) = view.get(name).filter(|value| !is_empty(value)) else { continue };
        // A goal that repeats the user's task is left out.
        if name == "goal" && said(value) == view.get("task").map(said).unwrap_or_default() {
            continue;
        }
        match how {
            How::Text if name == "summary" => {
                paper.heading(heading);
                paper.text(&without_goal(said(value), word(view, "goal")));
            }
            How::Text => {
                paper.heading(heading);
                print_placed("  ", value, paper);
            }
            How::Items => {
                paper.heading(heading);
                items(value, paper);
            }
            How::Plan => steps::plan(value, paper),
            How::Steps => steps::steps(heading, value, paper),
            How::Sources => {
                paper.heading(heading);
                for one in value.as_array().into_iter().flatten() {
                    paper.item(one.as_str().unwrap_or(&source(one)));
                }
            }
            How::Results => print_results(heading, value, paper),
            How::LeftOut => print_left_out(heading, session, view, paper),
            How::Phases => print_phases(heading, value, paper),
            How::Why => print_reasons(heading, value, paper),
        }
    }
    let known = |name: &str| {
        STATUS.contains(&name) || SECTIONS.iter().any(|(section, ..)| *section == name)
    };
    unknown(view, &known, paper);
}

/// Returns a summary without a first line that only repeats the goal.
fn without_goal(summary: &str, goal: &str) -> String {
    let repeated = format!("Goal: {}", goal.trim());
    let rest = summary.strip_prefix(repeated.as_str()).filter(|_| !goal.is_empty());
    rest.and_then(|rest| rest.strip_prefix('\n')).unwrap_or(summary).to_owned()
}

/// Prints members that this program does not know, by name.
fn unknown(view: &Value, known: &dyn Fn(&str) -> bool, paper: &mut Paper) {
    let all = view.as_object().into_iter().flatten();
    for (name, value) in all.filter(|(name, value)| !known(name) && !is_empty(value)) {
        let mut heading = named(name);
        if let Some(first) = heading.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        match value {
            Value::Array(_) => {
                paper.heading(&heading);
                items(value, paper);
            }
            Value::Object(_) => {
                paper.heading(&heading);
                print_placed("  ", value, paper);
            }
            _ => {
                paper.heading(&heading);
                paper.text(&words::members(value, &[]).join("\n"));
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Formats the status of a view in one line.
fn status(session: &str, view: &Value, times: &super::times::Times) -> String {
    let mut parts = Vec::new();
    parts.extend(figure(view, "position").map(|at| format!("{session} as of position {at}")));
    let steps = figure(view, "steps_total").filter(|steps| *steps > 0);
    parts.extend(steps.map(|steps| many(steps, "step")));
    if is_true(view, "is_complete") {
        parts.push("complete".to_owned());
    }
    for (name, label) in [("started_at", "started"), ("updated_at", "last event")] {
        let when = times.when(word(view, name));
        if !when.is_empty() {
            parts.push(format!("{label} {when}"));
        }
    }
    if let (Some(tokens), Some(most)) = (figure(view, "tokens"), figure(view, "tokens_max")) {
        parts.push(format!("{} of {} tokens", grouped(tokens), grouped(most)));
    }
    if is_true(view, "truncated") {
        parts.push("shortened to fit".to_owned());
    }
    parts.join(" · ")
}

/// Returns the text of a value: the value itself, or the member that holds it.
fn said(value: &Value) -> &str {
    let held = ["text", "line", "description", "title", "url"].map(|name| word(value, name));
    value.as_str().or_else(|| held.into_iter().find(|text| !text.is_empty())).unwrap_or_default()
}

/// Formats the position of an item as its lead: `[12] `.
fn place(value: &Value) -> String {
    let place = ["position", "number"].map(|name| figure(value, name));
    place.into_iter().flatten().next().map(|at| format!("[{at}] ")).unwrap_or_default()
}

/// Prints a text after its position, with a mark where it is cut.
fn print_placed(indent: &str, value: &Value, paper: &mut Paper) {
    let text = said(value);
    if text.is_empty() {
        return paper.say(Tone::Plain, indent, &words::members(value, &[]).join("\n"));
    }
    let cut = is_true(value, "truncated");
    let text = if cut { format!("{text} (shortened)") } else { text.to_owned() };
    paper.say(Tone::Plain, &format!("{indent}{}", place(value)), &text);
}

fn items(value: &Value, paper: &mut Paper) {
    for item in value.as_array().into_iter().flatten() {
        match item {
            Value::String(text) => match split_position(text) {
                Some((place, rest)) => paper.say(Tone::Plain, &format!("  {place} "), rest),
                None => paper.item(text),
            },
            _ if said(item).is_empty() => {
                let lines = words::members(&Value::Array(vec![item.clone()]), &[]);
                paper.item(lines.join("\n").trim_start_matches("- "));
            }
            _ => {
                let lead = match place(item) {
                    place if place.is_empty() => "  - ".to_owned(),
                    place => format!("  {place}"),
                };
                let kind = word(item, "type");
                let text = words::line(kind, said(item));
                let kind = if kind.is_empty() { String::new() } else { format!("{kind}  ") };
                let cut = is_true(item, "truncated");
                let cut = cut.then(|| "shortened".to_owned());
                let step = figure(item, "step").map(|step| format!("step {step}"));
                let about: Vec<String> = step.into_iter().chain(cut).collect();
                let text = with_note(&format!("{kind}{text}"), &about.join(", "));
                paper.say(Tone::Plain, &lead, &text);
            }
        }
    }
}

/// Splits a sentence into its bracketed position, such as `[12]`, and the rest.
fn split_position(text: &str) -> Option<(&str, &str)> {
    let end = text.strip_prefix('[')?.find(']')?;
    let (place, rest) = text.split_at_checked(end + 2)?;
    let is_place = |c: char| c.is_alphanumeric() || "-–,. _".contains(c);
    let inner = place.trim_matches(['[', ']']);
    let fits = inner.chars().count() <= 24 && inner.chars().all(is_place);
    fits.then(|| (place, rest.trim_start()))
}

fn print_results(heading: &str, value: &Value, paper: &mut Paper) {
    paper.heading(heading);
    for one in value.as_array().into_iter().flatten() {
        let tool = Some(word(one, "tool")).filter(|name| !name.is_empty()).unwrap_or("(no name)");
        let given = one.get("input").unwrap_or(&Value::Null);
        let call = words::arguments(tool, given);
        let failed = is_true(one, "failed");
        let call = if failed { format!("{call}  (failed)") } else { call };
        let call = match one.get("changed_at").and_then(Value::as_u64) {
            Some(at) => format!("{call}  (old: the file was changed at {at})"),
            None => call,
        };
        paper.say(Tone::Plain, &format!("  {}", place(one)), &call);
        paper.say(Tone::Plain, "      ", word(one, "text"));
    }
}

/// Names of item classes, singular and plural.
const CLASSES: [(&str, &str, &str); 12] = [
    ("gap", "open question", "open questions"),
    ("rejection", "approach ruled out", "approaches ruled out"),
    ("rejected", "approach ruled out", "approaches ruled out"),
    ("branch", "branch", "branches"),
    ("branches", "branch", "branches"),
    ("summary", "summary", "summaries"),
    ("block", "block of memory", "blocks of memory"),
    ("memory", "block of memory", "blocks of memory"),
    ("next", "next thing to do", "next things to do"),
    ("failure", "failure", "failures"),
    ("file", "changed file", "changed files"),
    ("recent", "recent event", "recent events"),
];

fn class(name: &str, count: u64) -> String {
    let singular = name.strip_suffix('s').unwrap_or(name);
    let known = |(class, ..): &&(&str, &str, &str)| *class == name || *class == singular;
    match CLASSES.iter().find(known) {
        Some((_, one, _)) if count == 1 => (*one).to_owned(),
        Some((_, _, all)) => (*all).to_owned(),
        None if count == 1 => named(singular),
        None => format!("{}s", named(singular)),
    }
}

/// Prints the number of items of each class not shown, and the command that lists them where there
/// is one.
fn print_left_out(heading: &str, session: &str, view: &Value, paper: &mut Paper) {
    paper.heading(heading);
    for (name, count) in view.get("left_out").and_then(Value::as_object).into_iter().flatten() {
        let count = count.as_u64().unwrap_or_default();
        paper.item(&format!("{} more {}", grouped(count), class(name, count)));
        if let Some(cursor) = view.get("cursors").and_then(|all| all.get(name)?.as_str()) {
            paper.command("    ", &format!("sessionlog view {session} index --cursor {cursor}"));
        }
    }
}

/// Prints phases, oldest first: their positions, what ended them, and their messages.
fn print_phases(heading: &str, value: &Value, paper: &mut Paper) {
    paper.heading(heading);
    for phase in value.as_array().into_iter().flatten() {
        let [from, to] = ["from", "to"].map(|name| figure(phase, name).unwrap_or_default());
        let ended = match word(phase, "ended_by") {
            "" => "under way".to_owned(),
            by => format!("ended by {}", named(by)),
        };
        let began = paper.times.both(word(phase, "began_at"));
        let head = format!("[{}] {began}, {ended}", span(from, to));
        paper.say(Tone::Faint, "  ", &head);
        for line in word(phase, "text").lines() {
            paper.item(line);
        }
    }
}

/// Prints the passages found, the best first: class, position and text; and the amount searched.
fn found(view: &Value, paper: &mut Paper) {
    let all = view.get("matches").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let count = super::screen::counted(all.len() as u64, "passage");
    let searched = match figure(view, "searched_from").unwrap_or_default() {
        0 => "the whole session".to_owned(),
        from => format!("the events from {from} on"),
    };
    let query = word(view, "query");
    paper.say(Tone::Faint, "", &format!("{count} for {query:?} in {searched}"));
    for found in all {
        let step = figure(found, "step_number").map(|step| format!("step {step}"));
        let branch = Some(word(found, "branch_id")).filter(|name| !name.is_empty());
        let taken_back = figure(found, "superseded_by").map(|by| format!("superseded by {by}"));
        let closed = found.get("closed") == Some(&Value::Bool(true));
        let parts = [
            Some(word(found, "kind").to_owned()),
            step,
            branch.map(|name| format!("on {name}")),
            taken_back,
            closed.then(|| "closed".to_owned()),
        ];
        let head = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        paper.say(
            Tone::Plain,
            &format!("  {}", place(found)),
            &format!("{head}: {}", word(found, "text")),
        );
    }
    if let Some(findings) = view.get("findings") {
        paper.heading("Not in the overview");
        items(findings, paper);
    }
}

fn print_reasons(heading: &str, value: &Value, paper: &mut Paper) {
    paper.heading(heading);
    for one in value.as_array().into_iter().flatten() {
        let said = [word(one, "class"), word(one, "form")].map(named);
        let score = figure(one, "score").map(|score| format!("score {}", grouped(score)));
        let said = said.into_iter().filter(|text| !text.is_empty()).chain(score);
        let said = said.collect::<Vec<_>>().join(", ");
        let reason = match one.get("why") {
            Some(Value::Array(reasons)) => {
                let reasons = reasons.iter().filter_map(Value::as_str);
                reasons.collect::<Vec<_>>().join("; ")
            }
            _ => word(one, "why").to_owned(),
        };
        let text = if reason.is_empty() { said } else { format!("{said}: {reason}") };
        let lead = match place(one) {
            place if place.is_empty() => "  - ".to_owned(),
            place => format!("  {place}"),
        };
        paper.say(Tone::Plain, &lead, &text);
    }
}

/// Prints the properties of a session, one fact a line.
pub(super) fn session(session: &Value, paper: &mut Paper) {
    let when = |name: &str| paper.times.both(word(session, name));
    let own = super::screen::size(figure(session, "bytes").unwrap_or_default());
    let is_fork = session.get("forked_from").is_some_and(Value::is_object);
    let mut facts = vec![
        ("session", word(session, "id").to_owned()),
        ("title", one_line(word(session, "title"), 200)),
        ("status", word(session, "status").to_owned()),
        ("events", grouped(figure(session, "tail").unwrap_or_default())),
        ("size", if is_fork { format!("{own} of its own") } else { own }),
        ("workspace", one_line(word(session, "workspace"), 200)),
        ("created", when("created_at")),
        ("last written", when("updated_at")),
        ("archived", when("archived_at")),
    ];
    if let Some(chain) = session.pointer("/receipt/chain").and_then(Value::as_str) {
        facts.push(("chain", chain.to_owned()));
    }
    let none = Map::new();
    for (name, value) in session.get("metadata").and_then(Value::as_object).unwrap_or(&none) {
        facts.push(("metadata", format!("{name} = {}", value.as_str().unwrap_or_default())));
    }
    for gap in list(session, "damage") {
        let (from, to) = (figure(gap, "from"), figure(gap, "to"));
        let given_up = gap.get("accepted_at").is_some_and(Value::is_string);
        let name = if given_up { "given up" } else { "damaged" };
        let at = span(from.unwrap_or_default(), to.unwrap_or_default());
        let what = if at.contains('–') { "positions" } else { "position" };
        facts.push((name, format!("{what} {at}: {}", word(gap, "reason"))));
    }
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        paper.say(Tone::Plain, &format!("{name:<13} "), value);
    }
}

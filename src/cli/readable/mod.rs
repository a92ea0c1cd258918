//! Views as text for a terminal: headings in a fixed order, one fact a line, wrapped. Input is the
//! JSON of a view, output lines with their tones; unknown members are printed by name. It must not
//! choose what is in a view, nor print.

mod change;
mod folds;
pub(in crate::cli) mod markdown;
mod members;
pub(in crate::cli) mod paper;
pub(in crate::cli) mod row;
mod steps;
pub(in crate::cli) mod words;

use clap::ValueEnum as _;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::{
    args::WhichView,
    screen::{Tone, one_line},
    times::TimeFormat,
};
use crate::event::Timestamp;
pub(super) use change::print_difference;
pub(super) use folds::{print_history, print_total_usage};
pub(super) use paper::LineBuffer;
use words::{
    count_of, format_source, format_span, group_digits, is_true, list_of, member_label, number_of,
    text_of, with_note,
};

/// Formats an answer for a terminal of `columns` columns at time `now`, in UTC: a view by its name
/// on the command line, or `diff`, `history` or `session`; returns `None` for another name.
#[must_use]
pub fn format_answer(
    name: &str,
    session: &str,
    answer: &Value,
    columns: usize,
    now: Timestamp,
) -> Option<String> {
    let mut paper = LineBuffer::new(columns, TimeFormat::new_at(now, TimeZone::UTC));
    match name {
        "diff" => print_difference(session, answer, &mut paper),
        "history" => print_history(answer, &mut paper),
        "session" => self::print_session(answer, &mut paper),
        name => print_view(WhichView::from_str(name, false).ok()?, session, answer, &mut paper),
    }
    let lines: Vec<String> = paper.into_lines().into_iter().map(|(_, text)| text).collect();
    Some(lines.join("\n"))
}

pub(super) fn print_view(which: WhichView, session: &str, view: &Value, paper: &mut LineBuffer) {
    match which {
        WhichView::Window => folds::print_window(view, paper),
        WhichView::Usage => folds::print_usage(view, paper),
        WhichView::Threads => folds::print_threads(view, paper),
        WhichView::Compactions => folds::print_compactions(session, view, paper),
        WhichView::Step => steps::print_step_view(session, view, paper),
        WhichView::Index if view.get("searched_from").is_some() => print_matches(view, paper),
        WhichView::Index | WhichView::Summary | WhichView::Continuation => {
            print_selection(session, view, paper);
        }
    }
}

/// Format of a member below its heading.
#[derive(Clone, Copy)]
enum MemberFormat {
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
const SECTIONS: [(&str, &str, MemberFormat); 29] = [
    ("task", "Task", MemberFormat::Text),
    ("goal", "Goal", MemberFormat::Text),
    ("instructions", "Instructions", MemberFormat::Items),
    ("summary", "Where it stands", MemberFormat::Text),
    ("phases", "Phases", MemberFormat::Phases),
    ("plan", "Plan", MemberFormat::Plan),
    ("next", "Next", MemberFormat::Items),
    ("begun", "Begun, without a result so far", MemberFormat::Items),
    ("failures", "Failing", MemberFormat::Items),
    ("mended", "Mended", MemberFormat::Items),
    ("files", "Files changed", MemberFormat::Items),
    ("changes", "Changes", MemberFormat::Items),
    ("steps", "Steps", MemberFormat::Steps),
    ("last_steps", "Last steps", MemberFormat::Steps),
    ("findings", "Findings", MemberFormat::Items),
    ("rejected", "Ruled out", MemberFormat::Items),
    ("gaps", "Open questions", MemberFormat::Items),
    ("sources", "Sources", MemberFormat::Sources),
    ("branches", "Branches", MemberFormat::Items),
    ("done", "Done", MemberFormat::Items),
    ("tried", "Tried", MemberFormat::Items),
    ("worked", "Worked", MemberFormat::Items),
    ("failed", "Failed", MemberFormat::Items),
    ("results", "Results", MemberFormat::Results),
    ("answer", "The agent said last", MemberFormat::Text),
    ("recent", "Recent", MemberFormat::Items),
    ("memory", "Remembered", MemberFormat::Items),
    ("left_out", "Left out", MemberFormat::LeftOut),
    ("why", "Why", MemberFormat::Why),
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

fn print_selection(session: &str, view: &Value, paper: &mut LineBuffer) {
    let status = format_status(session, view, &paper.times);
    paper.push(Tone::Faint, "", &status);
    print_sections(session, view, paper);
}

fn print_sections(session: &str, view: &Value, paper: &mut LineBuffer) {
    for (name, heading, how) in SECTIONS {
        let Some(value) = view.get(name).filter(|value| !is_empty_value(value)) else { continue };
        // A goal that repeats the user's task is left out.
        if name == "goal" && item_text(value) == view.get("task").map(item_text).unwrap_or_default()
        {
            continue;
        }
        match how {
            MemberFormat::Text if name == "summary" => {
                paper.push_heading(heading);
                paper.push_text(&without_goal(item_text(value), text_of(view, "goal")));
            }
            MemberFormat::Text => {
                paper.push_heading(heading);
                print_with_position("  ", value, paper);
            }
            MemberFormat::Items => {
                paper.push_heading(heading);
                print_items(value, paper);
            }
            MemberFormat::Plan => steps::print_plan(value, paper),
            MemberFormat::Steps => steps::print_steps(heading, value, paper),
            MemberFormat::Sources => {
                paper.push_heading(heading);
                for one in value.as_array().into_iter().flatten() {
                    paper.push_item(one.as_str().unwrap_or(&format_source(one)));
                }
            }
            MemberFormat::Results => print_results(heading, value, paper),
            MemberFormat::LeftOut => print_left_out(heading, session, view, paper),
            MemberFormat::Phases => print_phases(heading, value, paper),
            MemberFormat::Why => print_reasons(heading, value, paper),
        }
    }
    let known = |name: &str| {
        STATUS.contains(&name) || SECTIONS.iter().any(|(section, ..)| *section == name)
    };
    print_unknown_members(view, &known, paper);
}

/// Returns a summary without a first line that only repeats the goal.
fn without_goal(summary: &str, goal: &str) -> String {
    let repeated = format!("Goal: {}", goal.trim());
    let rest = summary.strip_prefix(repeated.as_str()).filter(|_| !goal.is_empty());
    rest.and_then(|rest| rest.strip_prefix('\n')).unwrap_or(summary).to_owned()
}

/// Prints members that this program does not know, by name.
fn print_unknown_members(view: &Value, known: &dyn Fn(&str) -> bool, paper: &mut LineBuffer) {
    let all = view.as_object().into_iter().flatten();
    for (name, value) in all.filter(|(name, value)| !known(name) && !is_empty_value(value)) {
        let mut heading = member_label(name);
        if let Some(first) = heading.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        match value {
            Value::Array(_) => {
                paper.push_heading(&heading);
                print_items(value, paper);
            }
            Value::Object(_) => {
                paper.push_heading(&heading);
                print_with_position("  ", value, paper);
            }
            _ => {
                paper.push_heading(&heading);
                paper.push_text(&words::format_members(value, &[]).join("\n"));
            }
        }
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Formats the status of a view in one line.
fn format_status(session: &str, view: &Value, times: &super::times::TimeFormat) -> String {
    let mut parts = Vec::new();
    parts.extend(number_of(view, "position").map(|at| format!("{session} as of position {at}")));
    let steps = number_of(view, "steps_total").filter(|steps| *steps > 0);
    parts.extend(steps.map(|steps| count_of(steps, "step")));
    if is_true(view, "is_complete") {
        parts.push("complete".to_owned());
    }
    for (name, label) in [("started_at", "started"), ("updated_at", "last event")] {
        let when = times.format_when(text_of(view, name));
        if !when.is_empty() {
            parts.push(format!("{label} {when}"));
        }
    }
    if let (Some(tokens), Some(most)) = (number_of(view, "tokens"), number_of(view, "tokens_max")) {
        parts.push(format!("{} of {} tokens", group_digits(tokens), group_digits(most)));
    }
    if is_true(view, "truncated") {
        parts.push("shortened to fit".to_owned());
    }
    parts.join(" · ")
}

/// Returns the text of a value: the value itself, or the member that holds it.
fn item_text(value: &Value) -> &str {
    let held = ["text", "line", "description", "title", "url"].map(|name| text_of(value, name));
    value.as_str().or_else(|| held.into_iter().find(|text| !text.is_empty())).unwrap_or_default()
}

/// Formats the position of an item as its lead: `[12] `.
fn position_lead(value: &Value) -> String {
    let place = ["position", "number"].map(|name| number_of(value, name));
    place.into_iter().flatten().next().map(|at| format!("[{at}] ")).unwrap_or_default()
}

/// Prints a text after its position, with a mark where it is cut.
fn print_with_position(indent: &str, value: &Value, paper: &mut LineBuffer) {
    let text = item_text(value);
    if text.is_empty() {
        return paper.push(Tone::Plain, indent, &words::format_members(value, &[]).join("\n"));
    }
    let cut = is_true(value, "truncated");
    let text = if cut { format!("{text} (shortened)") } else { text.to_owned() };
    paper.push(Tone::Plain, &format!("{indent}{}", position_lead(value)), &text);
}

fn print_items(value: &Value, paper: &mut LineBuffer) {
    for item in value.as_array().into_iter().flatten() {
        match item {
            Value::String(text) => match split_position(text) {
                Some((place, rest)) => paper.push(Tone::Plain, &format!("  {place} "), rest),
                None => paper.push_item(text),
            },
            _ if item_text(item).is_empty() => {
                let lines = words::format_members(&Value::Array(vec![item.clone()]), &[]);
                paper.push_item(lines.join("\n").trim_start_matches("- "));
            }
            _ => {
                let lead = match position_lead(item) {
                    place if place.is_empty() => "  - ".to_owned(),
                    place => format!("  {place}"),
                };
                let kind = text_of(item, "type");
                let text = words::format_view_line(kind, item_text(item));
                let kind = if kind.is_empty() { String::new() } else { format!("{kind}  ") };
                let cut = is_true(item, "truncated");
                let cut = cut.then(|| "shortened".to_owned());
                let step = number_of(item, "step").map(|step| format!("step {step}"));
                let about: Vec<String> = step.into_iter().chain(cut).collect();
                let text = with_note(&format!("{kind}{text}"), &about.join(", "));
                paper.push(Tone::Plain, &lead, &text);
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

fn print_results(heading: &str, value: &Value, paper: &mut LineBuffer) {
    paper.push_heading(heading);
    for one in value.as_array().into_iter().flatten() {
        let tool =
            Some(text_of(one, "tool")).filter(|name| !name.is_empty()).unwrap_or("(no name)");
        let given = one.get("input").unwrap_or(&Value::Null);
        let call = words::format_arguments(tool, given);
        let failed = is_true(one, "failed");
        let call = if failed { format!("{call}  (failed)") } else { call };
        let call = match one.get("changed_at").and_then(Value::as_u64) {
            Some(at) => format!("{call}  (old: the file was changed at {at})"),
            None => call,
        };
        paper.push(Tone::Plain, &format!("  {}", position_lead(one)), &call);
        paper.push(Tone::Plain, "      ", text_of(one, "text"));
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

fn class_label(name: &str, count: u64) -> String {
    let singular = name.strip_suffix('s').unwrap_or(name);
    let known = |(class, ..): &&(&str, &str, &str)| *class == name || *class == singular;
    match CLASSES.iter().find(known) {
        Some((_, one, _)) if count == 1 => (*one).to_owned(),
        Some((_, _, all)) => (*all).to_owned(),
        None if count == 1 => member_label(singular),
        None => format!("{}s", member_label(singular)),
    }
}

/// Prints the number of items of each class not shown, and the command that lists them where there
/// is one.
fn print_left_out(heading: &str, session: &str, view: &Value, paper: &mut LineBuffer) {
    paper.push_heading(heading);
    for (name, count) in view.get("left_out").and_then(Value::as_object).into_iter().flatten() {
        let count = count.as_u64().unwrap_or_default();
        paper.push_item(&format!("{} more {}", group_digits(count), class_label(name, count)));
        if let Some(cursor) = view.get("cursors").and_then(|all| all.get(name)?.as_str()) {
            paper.push_command(
                "    ",
                &format!("sessionlog view {session} index --cursor {cursor}"),
            );
        }
    }
}

/// Prints phases, oldest first: their positions, what ended them, and their messages.
fn print_phases(heading: &str, value: &Value, paper: &mut LineBuffer) {
    paper.push_heading(heading);
    for phase in value.as_array().into_iter().flatten() {
        let [from, to] = ["from", "to"].map(|name| number_of(phase, name).unwrap_or_default());
        let ended = match text_of(phase, "ended_by") {
            "" => "under way".to_owned(),
            by => format!("ended by {}", member_label(by)),
        };
        let began = paper.times.format_both(text_of(phase, "began_at"));
        let head = format!("[{}] {began}, {ended}", format_span(from, to));
        paper.push(Tone::Faint, "  ", &head);
        for line in text_of(phase, "text").lines() {
            paper.push_item(line);
        }
    }
}

/// Prints the passages found, the best first: class, position and text; and the amount searched.
fn print_matches(view: &Value, paper: &mut LineBuffer) {
    let all = view.get("matches").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let count = super::screen::with_noun(all.len() as u64, "passage");
    let searched = match number_of(view, "searched_from").unwrap_or_default() {
        0 => "the whole session".to_owned(),
        from => format!("the events from {from} on"),
    };
    let query = text_of(view, "query");
    paper.push(Tone::Faint, "", &format!("{count} for {query:?} in {searched}"));
    for found in all {
        let step = number_of(found, "step_number").map(|step| format!("step {step}"));
        let branch = Some(text_of(found, "branch_id")).filter(|name| !name.is_empty());
        let taken_back = number_of(found, "superseded_by").map(|by| format!("superseded by {by}"));
        let closed = found.get("closed") == Some(&Value::Bool(true));
        let parts = [
            Some(text_of(found, "kind").to_owned()),
            step,
            branch.map(|name| format!("on {name}")),
            taken_back,
            closed.then(|| "closed".to_owned()),
        ];
        let head = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        paper.push(
            Tone::Plain,
            &format!("  {}", position_lead(found)),
            &format!("{head}: {}", text_of(found, "text")),
        );
    }
    if let Some(findings) = view.get("findings") {
        paper.push_heading("Not in the overview");
        print_items(findings, paper);
    }
}

fn print_reasons(heading: &str, value: &Value, paper: &mut LineBuffer) {
    paper.push_heading(heading);
    for one in value.as_array().into_iter().flatten() {
        let said = [text_of(one, "class"), text_of(one, "form")].map(member_label);
        let score = number_of(one, "score").map(|score| format!("score {}", group_digits(score)));
        let said = said.into_iter().filter(|text| !text.is_empty()).chain(score);
        let said = said.collect::<Vec<_>>().join(", ");
        let reason = match one.get("why") {
            Some(Value::Array(reasons)) => {
                let reasons = reasons.iter().filter_map(Value::as_str);
                reasons.collect::<Vec<_>>().join("; ")
            }
            _ => text_of(one, "why").to_owned(),
        };
        let text = if reason.is_empty() { said } else { format!("{said}: {reason}") };
        let lead = match position_lead(one) {
            place if place.is_empty() => "  - ".to_owned(),
            place => format!("  {place}"),
        };
        paper.push(Tone::Plain, &lead, &text);
    }
}

/// Prints the properties of a session, one fact a line.
pub(super) fn print_session(session: &Value, paper: &mut LineBuffer) {
    let when = |name: &str| paper.times.format_both(text_of(session, name));
    let own = super::screen::format_size(number_of(session, "bytes").unwrap_or_default());
    let is_fork = session.get("forked_from").is_some_and(Value::is_object);
    let mut facts = vec![
        ("session", text_of(session, "id").to_owned()),
        ("title", one_line(text_of(session, "title"), 200)),
        ("status", text_of(session, "status").to_owned()),
        ("events", group_digits(number_of(session, "tail").unwrap_or_default())),
        ("size", if is_fork { format!("{own} of its own") } else { own }),
        ("workspace", one_line(text_of(session, "workspace"), 200)),
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
    for gap in list_of(session, "damage") {
        let (from, to) = (number_of(gap, "from"), number_of(gap, "to"));
        let given_up = gap.get("accepted_at").is_some_and(Value::is_string);
        let name = if given_up { "given up" } else { "damaged" };
        let at = format_span(from.unwrap_or_default(), to.unwrap_or_default());
        let what = if at.contains('–') { "positions" } else { "position" };
        facts.push((name, format!("{what} {at}: {}", text_of(gap, "reason"))));
    }
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        paper.push(Tone::Plain, &format!("{name:<13} "), value);
    }
}

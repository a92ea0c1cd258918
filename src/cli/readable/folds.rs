//! Formats the window, usage and compactions views and the history for a reader. It must not print.

use serde_json::Value;

use super::{
    super::screen::{Tone, one_line},
    paper::Paper,
    without_goal,
    words::{
        self, figure, grouped, is_true, list, many, named, of_limit, ranges, span, with_note, word,
    },
};

/// Prints a window: its size, each message with its role or each event with its type, and the
/// events left out.
pub(super) fn window(view: &Value, paper: &mut Paper) {
    paper.say(Tone::Faint, "", &window_size(view));
    for event in list(view, "events") {
        let at = figure(event, "position").unwrap_or_default();
        paper.heading(&format!("[{at}] {}", word(event, "type")));
        paper.text(&words::event(event));
    }
    for block in list(view, "system") {
        paper.heading("System");
        paper.text(&words::content(block));
    }
    if let Some(text) = view.pointer("/recall/text").and_then(Value::as_str) {
        paper.heading("Recalled");
        paper.text(text);
    }
    for message in list(view, "messages") {
        paper.heading(author_of(message));
        match message.get("content") {
            Some(Value::Array(parts)) => parts.iter().for_each(|one| part(one, paper)),
            Some(Value::String(text)) => paper.text(text),
            _ => {}
        }
        for call in list(message, "tool_calls") {
            part(call.get("function").unwrap_or(call), paper);
        }
    }
    print_not_shown(view, paper);
}

/// Returns the author of a message in display form.
fn author_of(message: &Value) -> &str {
    match word(message, "role") {
        "user" => "User",
        "assistant" => "Assistant",
        "system" | "developer" => "System",
        "tool" => "Tool result",
        other => other,
    }
}

/// Prints a part of a message: a call or a result with its mark, else its text.
fn part(part: &Value, paper: &mut Paper) {
    let is_call = part.get("name").is_some();
    match word(part, "type") {
        "tool_result" => {
            let failed = is_true(part, "is_error");
            let lead = if failed { "  ← error: " } else { "  ← " };
            paper.say(Tone::Plain, lead, &words::content(part.get("content").unwrap_or(part)));
        }
        _ if is_call => paper.say(Tone::Plain, "  → ", &words::call(part)),
        _ => paper.text(&words::content(part)),
    }
}

/// Formats the size of a window and of the part it leaves out.
fn window_size(view: &Value) -> String {
    let left_out: u64 = list(view, "dropped").iter().map(range_length).sum();
    let shortened = list(view, "shortened").len() as u64;
    let most = figure(view, "tokens_max").unwrap_or_default();
    let at = figure(view, "position").map(|at| format!("as of position {at}"));
    let mut parts: Vec<String> = at.into_iter().collect();
    parts.push(format!(
        "{} of {} tokens by {}",
        grouped(figure(view, "tokens").unwrap_or_default()),
        grouped(most),
        word(view, "tokenizer")
    ));
    if left_out > 0 {
        parts.push(format!("{} not shown", many(left_out, "position")));
    }
    if shortened > 0 {
        parts.push(format!("{} shown in part", many(shortened, "position")));
    }
    let recalled = list(view, "recalled").len() as u64;
    if view.pointer("/recall/tokens").and_then(Value::as_u64).is_some_and(|tokens| tokens > 0) {
        parts.push("what is left out in brief".to_owned());
    }
    let without = "no passage recalled: ";
    match view.get("recall").map(|recall| word(recall, "missing")) {
        Some("") => parts.push(format!("{} recalled", many(recalled, "passage"))),
        Some("index_behind") => parts.push(format!("{without}the index is behind")),
        Some("search_off") => parts.push(format!("{without}searching is turned off")),
        Some("busy") => parts.push(format!("{without}too many searches")),
        _ => {}
    }
    parts.join(" · ")
}

fn range_length(range: &Value) -> u64 {
    let (from, to) = (figure(range, "from"), figure(range, "to"));
    to.unwrap_or_default().saturating_sub(from.unwrap_or_default())
}

/// Prints the events that a window leaves out, by reason, and those it shortens.
fn print_not_shown(view: &Value, paper: &mut Paper) {
    let dropped = list(view, "dropped");
    let shortened: Vec<String> = list(view, "shortened")
        .iter()
        .filter_map(Value::as_u64)
        .map(|position| position.to_string())
        .collect();
    if dropped.is_empty() && shortened.is_empty() {
        return;
    }
    paper.heading("Not shown");
    for range in dropped {
        let (from, to) = (figure(range, "from"), figure(range, "to"));
        let at = span(from.unwrap_or_default(), to.unwrap_or_default());
        let why = match word(range, "reason") {
            "budget" => "the budget is spent",
            "filtered" => "filtered out",
            "not_a_message" => "no message of a conversation",
            "before" => "before --from",
            "withdrawn" => "no part of the conversation any more",
            other => other,
        };
        paper.item(&with_note(&format!("{at}: {why}"), &many(range_length(range), "position")));
    }
    if !shortened.is_empty() {
        paper.item(&format!("in part: {}", shortened.join(", ")));
    }
}

/// Prints the level of a model's context.
pub(super) fn usage(view: &Value, paper: &mut Paper) {
    let limit = figure(view, "limit").unwrap_or_default();
    let threshold = figure(view, "threshold").unwrap_or_default();
    match figure(view, "tokens") {
        Some(tokens) => {
            paper.heading(&of_limit(tokens, limit));
            let at = figure(view, "reported_position").map(|at| format!("reported at {at}"));
            let when = paper.times.when(word(view, "reported_at"));
            paper.item(&with_note(&at.unwrap_or_default(), &when));
        }
        None => {
            paper.heading("No request of a model was reported");
            if limit > 0 {
                paper.item(&format!("the model takes {}", many(limit, "token")));
            }
        }
    }
    if limit > 0 {
        let state = match word(view, "level") {
            "threshold" | "limit" => "reached",
            _ => "not reached",
        };
        paper.item(&format!("threshold {}: {state}", many(threshold, "token")));
    }
    if word(view, "level") == "limit" {
        paper.item("limit: reached");
    }
    if let Some(left) = figure(view, "remaining").filter(|_| limit > 0) {
        paper.item(&format!("{} left", many(left, "token")));
    }
    let requests = figure(view, "requests").unwrap_or_default();
    if requests == 0 {
        return;
    }
    let of = |name: &str| figure(view, name).unwrap_or_default();
    let cached = of("cached_tokens");
    let cached =
        if cached > 0 { format!(", {} from a cache", grouped(cached)) } else { String::new() };
    paper.item(&format!(
        "{} in all: {} tokens in{cached}, {} out",
        many(requests, "request"),
        grouped(of("input_tokens")),
        grouped(of("output_tokens"))
    ));
}

/// Prints the events that compactions removed from a client's context.
pub(super) fn compactions(session: &str, view: &Value, paper: &mut Paper) {
    let count = figure(view, "count").unwrap_or_default();
    if count == 0 {
        paper.heading("No compaction was recorded");
        return;
    }
    paper.heading(&many(count, "compaction"));
    let shown = list(view, "compactions");
    let hidden = count.saturating_sub(shown.len() as u64);
    if hidden > 0 {
        paper.faint(&format!("the first {} not listed", grouped(hidden)));
    }
    for one in shown {
        let at = figure(one, "position").unwrap_or_default();
        let about = [word(one, "trigger").to_owned(), paper.times.when(word(one, "at"))];
        let about: Vec<String> = about.into_iter().filter(|text| !text.is_empty()).collect();
        paper.say(Tone::Plain, &format!("  [{at}] "), &about.join(", "));
        let told = is_true(one, "is_reported");
        let assumed = match (told, list(one, "kept").is_empty()) {
            (true, _) => "",
            (false, false) => "; the client said what it kept",
            (false, true) => "; the client did not say what it dropped",
        };
        if let Some(dropped) = ranges(list(one, "dropped"), "event") {
            paper.say(Tone::Plain, "      Dropped ", &format!("{dropped}{assumed}"));
        }
        if let Some(kept) = ranges(list(one, "kept"), "event") {
            paper.say(Tone::Plain, "      Kept ", &kept);
        }
        let summary = word(one, "summary");
        if !summary.is_empty() {
            paper.say(Tone::Plain, "      Summary: ", summary);
        }
    }
    let lost = list(view, "lost");
    paper.heading("Out of the context now");
    match ranges(lost, "event") {
        Some(said) => paper.text(&said),
        None => paper.text("nothing"),
    }
    for range in lost.iter().take(COMMANDS_MAX) {
        let of = |name: &str| figure(range, name).unwrap_or_default();
        let (from, to) = (of("from"), of("to"));
        paper.command("  ", &format!("sessionlog events {session} --from {from} --to {to}"));
    }
}

/// Maximum number of ranges for which a command to read them is printed.
const COMMANDS_MAX: usize = 3;
/// Maximum lines of a session's summary in a history, and characters of each.
const SUMMARY_LINES: usize = 5;
const SUMMARY_CHARS: usize = 160;

/// Prints the latest sessions, those left unfinished, and those to start from.
pub(in crate::cli) fn history(told: &Value, paper: &mut Paper) {
    let sessions = list(told, "data");
    if sessions.is_empty() {
        return paper.say(Tone::Plain, "", "No sessions yet.");
    }
    paper.heading("Sessions");
    for one in sessions {
        print_past_session(one, paper);
    }
    let left = list(told, "unfinished");
    if !left.is_empty() {
        paper.heading("Unfinished");
        for one in left {
            print_unfinished(one, paper);
        }
    }
    if let Some(start) = told.get("start_from").filter(|start| !start.is_null()) {
        paper.heading("Start from");
        let session = word(start, "session");
        print_checkpoint(session, start.get("checkpoint").unwrap_or(&Value::Null), paper);
    }
}

fn print_past_session(one: &Value, paper: &mut Paper) {
    let count = |name: &str| figure(one, name).unwrap_or_default();
    let mut about = vec![many(count("tail"), "event"), paper.times.when(word(one, "updated_at"))];
    if count("steps") > 0 {
        about.push(many(count("steps"), "step"));
    }
    if count("gaps_open") > 0 {
        about.push(many(count("gaps_open"), "open question"));
    }
    if is_true(one, "complete") {
        about.push("complete".to_owned());
    }
    about.retain(|text| !text.is_empty());
    let (goal, title) = (word(one, "goal"), word(one, "title"));
    paper.text(&with_note(word(one, "id"), &about.join(", ")));
    // A title often repeats the beginning of the goal.
    if !title.is_empty() && !goal.starts_with(title) {
        paper.say(Tone::Plain, "    ", title);
    }
    if !goal.is_empty() {
        paper.say(Tone::Plain, "    ", goal);
    }
    let summary = without_goal(word(one, "summary"), goal);
    let is_news = |line: &&str| {
        let said = line.strip_prefix("Task: ").unwrap_or(line).trim();
        !said.is_empty() && (said != goal || goal.is_empty())
    };
    let mut lines: Vec<&str> = summary.lines().filter(is_news).take(SUMMARY_LINES).collect();
    // A heading whose lines are cut off is removed.
    while lines.last().is_some_and(|line| line.ends_with(':')) {
        lines.pop();
    }
    for line in lines {
        paper.say(Tone::Faint, "    ", &one_line(line, SUMMARY_CHARS));
    }
}

fn print_unfinished(one: &Value, paper: &mut Paper) {
    let mut about = vec![paper.times.when(word(one, "updated_at"))];
    if is_true(one, "leased") {
        about.push("a harness holds it".to_owned());
    }
    about.retain(|text| !text.is_empty());
    let id = word(one, "id");
    paper.text(&with_note(id, &about.join(", ")));
    let since = one.pointer("/last_checkpoint/position").and_then(Value::as_u64);
    let tail = figure(one, "tail").unwrap_or_default();
    if let Some(since) = since.filter(|since| *since < tail) {
        let events = many(tail - since, "event");
        paper.say(Tone::Plain, "    ", &format!("{events} since its last checkpoint"));
    }
    paper.command("    ", &format!("sessionlog view {id} continuation"));
    paper.command("    ", &format!("sessionlog replay {id}"));
}

/// Prints a checkpoint of a session, with its state as named members.
fn print_checkpoint(session: &str, found: &Value, paper: &mut Paper) {
    let at = figure(found, "position").unwrap_or_default();
    let label = word(found, "label");
    let label = if label.is_empty() { String::new() } else { format!("“{label}”, ") };
    let when = paper.times.when(word(found, "created_at"));
    paper.text(&format!("{session}, checkpoint {label}{}", with_note(&format!("at {at}"), &when)));
    for name in ["state", "plan"] {
        let value = found.get(name).unwrap_or(&Value::Null);
        let lines = match name {
            "plan" => words::boxes(value),
            _ => words::members(value, &[]),
        };
        if !lines.is_empty() {
            paper.say(Tone::Plain, "    ", &format!("{}:", named(name)));
            paper.say(Tone::Plain, "      ", &lines.join("\n"));
        }
    }
}

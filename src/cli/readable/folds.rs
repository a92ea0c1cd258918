//! Formats the window, usage and compactions views and the history for a reader. It must not print.

use serde_json::Value;

use super::{
    super::screen::{Tone, one_line},
    paper::LineBuffer,
    without_goal,
    words::{
        self, count_of, format_ranges, format_share, format_span, group_digits, is_true, list_of,
        member_label, number_of, text_of, with_note,
    },
};

/// Prints a window: its size, each message with its role or each event with its type, and the
/// events left out.
pub(super) fn print_window(view: &Value, paper: &mut LineBuffer) {
    paper.push(Tone::Faint, "", &format_window_size(view));
    for event in list_of(view, "events") {
        let at = number_of(event, "position").unwrap_or_default();
        paper.push_heading(&format!("[{at}] {}", text_of(event, "type")));
        paper.push_text(&words::describe_event(event));
    }
    for block in list_of(view, "system") {
        paper.push_heading("System");
        paper.push_text(&words::content_text(block));
    }
    if let Some(text) = view.pointer("/recall/text").and_then(Value::as_str) {
        paper.push_heading("Recalled");
        paper.push_text(text);
    }
    for message in list_of(view, "messages") {
        paper.push_heading(author_name(message));
        match message.get("content") {
            Some(Value::Array(parts)) => parts.iter().for_each(|one| print_part(one, paper)),
            Some(Value::String(text)) => paper.push_text(text),
            _ => {}
        }
        for call in list_of(message, "tool_calls") {
            print_part(call.get("function").unwrap_or(call), paper);
        }
    }
    print_not_shown(view, paper);
}

/// Returns the author of a message in display form.
fn author_name(message: &Value) -> &str {
    match text_of(message, "role") {
        "user" => "User",
        "assistant" => "Assistant",
        "system" | "developer" => "System",
        "tool" => "Tool result",
        other => other,
    }
}

/// Prints a part of a message: a call or a result with its mark, else its text.
fn print_part(part: &Value, paper: &mut LineBuffer) {
    let is_call = part.get("name").is_some();
    match text_of(part, "type") {
        "tool_result" => {
            let failed = is_true(part, "is_error");
            let lead = if failed { "  ← error: " } else { "  ← " };
            paper.push(
                Tone::Plain,
                lead,
                &words::content_text(part.get("content").unwrap_or(part)),
            );
        }
        _ if is_call => paper.push(Tone::Plain, "  → ", &words::format_call(part)),
        _ => paper.push_text(&words::content_text(part)),
    }
}

/// Formats the size of a window and of the part it leaves out.
fn format_window_size(view: &Value) -> String {
    let left_out: u64 = list_of(view, "dropped").iter().map(range_length).sum();
    let shortened = list_of(view, "shortened").len() as u64;
    let most = number_of(view, "tokens_max").unwrap_or_default();
    let at = number_of(view, "position").map(|at| format!("as of position {at}"));
    let mut parts: Vec<String> = at.into_iter().collect();
    parts.push(format!(
        "{} of {} tokens by {}",
        group_digits(number_of(view, "tokens").unwrap_or_default()),
        group_digits(most),
        text_of(view, "tokenizer")
    ));
    if left_out > 0 {
        parts.push(format!("{} not shown", count_of(left_out, "position")));
    }
    if shortened > 0 {
        parts.push(format!("{} shown in part", count_of(shortened, "position")));
    }
    let recalled = list_of(view, "recalled").len() as u64;
    if view.pointer("/recall/tokens").and_then(Value::as_u64).is_some_and(|tokens| tokens > 0) {
        parts.push("what is left out in brief".to_owned());
    }
    let without = "no passage recalled: ";
    match view.get("recall").map(|recall| text_of(recall, "missing")) {
        Some("") => parts.push(format!("{} recalled", count_of(recalled, "passage"))),
        Some("index_behind") => parts.push(format!("{without}the index is behind")),
        Some("search_off") => parts.push(format!("{without}searching is turned off")),
        Some("busy") => parts.push(format!("{without}too many searches")),
        _ => {}
    }
    parts.join(" · ")
}

fn range_length(range: &Value) -> u64 {
    let (from, to) = (number_of(range, "from"), number_of(range, "to"));
    to.unwrap_or_default().saturating_sub(from.unwrap_or_default())
}

/// Prints the events that a window leaves out, by reason, and those it shortens.
fn print_not_shown(view: &Value, paper: &mut LineBuffer) {
    let dropped = list_of(view, "dropped");
    let shortened: Vec<String> = list_of(view, "shortened")
        .iter()
        .filter_map(Value::as_u64)
        .map(|position| position.to_string())
        .collect();
    if dropped.is_empty() && shortened.is_empty() {
        return;
    }
    paper.push_heading("Not shown");
    for range in dropped {
        let (from, to) = (number_of(range, "from"), number_of(range, "to"));
        let at = format_span(from.unwrap_or_default(), to.unwrap_or_default());
        let why = match text_of(range, "reason") {
            "budget" => "the budget is spent",
            "filtered" => "filtered out",
            "not_a_message" => "no message of a conversation",
            "before" => "before --from",
            "withdrawn" => "no part of the conversation any more",
            other => other,
        };
        paper.push_item(&with_note(
            &format!("{at}: {why}"),
            &count_of(range_length(range), "position"),
        ));
    }
    if !shortened.is_empty() {
        paper.push_item(&format!("in part: {}", shortened.join(", ")));
    }
}

/// Prints the level of a model's context.
pub(super) fn print_usage(view: &Value, paper: &mut LineBuffer) {
    let limit = number_of(view, "limit").unwrap_or_default();
    let threshold = number_of(view, "threshold").unwrap_or_default();
    match number_of(view, "tokens") {
        Some(tokens) => {
            paper.push_heading(&format_share(tokens, limit));
            let at = number_of(view, "reported_position").map(|at| format!("reported at {at}"));
            let when = paper.times.format_when(text_of(view, "reported_at"));
            paper.push_item(&with_note(&at.unwrap_or_default(), &when));
        }
        None => {
            paper.push_heading("No request of a model was reported");
            if limit > 0 {
                paper.push_item(&format!("the model takes {}", count_of(limit, "token")));
            }
        }
    }
    if limit > 0 {
        let state = match text_of(view, "level") {
            "threshold" | "limit" => "reached",
            _ => "not reached",
        };
        paper.push_item(&format!("threshold {}: {state}", count_of(threshold, "token")));
    }
    if text_of(view, "level") == "limit" {
        paper.push_item("limit: reached");
    }
    if let Some(left) = number_of(view, "remaining").filter(|_| limit > 0) {
        paper.push_item(&format!("{} left", count_of(left, "token")));
    }
    let requests = number_of(view, "requests").unwrap_or_default();
    if requests == 0 {
        return;
    }
    let of = |name: &str| number_of(view, name).unwrap_or_default();
    let cached = of("cached_tokens");
    let cached =
        if cached > 0 { format!(", {} from a cache", group_digits(cached)) } else { String::new() };
    paper.push_item(&format!(
        "{} in all: {} tokens in{cached}, {} out",
        count_of(requests, "request"),
        group_digits(of("input_tokens")),
        group_digits(of("output_tokens"))
    ));
    if let Some(cost) = view.get("cost_usd").and_then(Value::as_f64) {
        paper.push_item(&format!("reported cost {cost:.2} USD"));
    }
    for (list, title, unnamed) in [
        ("by_model", "By model", "a model without a name"),
        ("by_thread", "By thread", "the session's agent"),
        ("by_day", "By day", "an unknown day"),
    ] {
        let shares = list_of(view, list);
        let least = if list == "by_model" { 1 } else { 2 };
        if shares.len() < least {
            continue;
        }
        paper.push_heading(title);
        shares.iter().for_each(|share| print_share(share, unnamed, paper));
    }
}

/// Prints the tokens of some requests; `unnamed` is shown for those without a key.
fn print_share(share: &Value, unnamed: &str, paper: &mut LineBuffer) {
    let of = |name: &str| number_of(share, name).unwrap_or_default();
    let key = share.get("key").and_then(Value::as_str).unwrap_or(unnamed);
    let (into, out) = (group_digits(of("input_tokens")), group_digits(of("output_tokens")));
    let cost = share.get("cost_usd").and_then(Value::as_f64);
    let cost = cost.map(|cost| format!(", {cost:.2} USD")).unwrap_or_default();
    let requests = count_of(of("requests"), "request");
    paper.push_item(&format!("{key}: {requests}, {into} tokens in, {out} out{cost}"));
}

/// Prints the tokens of many sessions; `scope` says which, after a sentence that there are none.
pub(in crate::cli) fn print_total_usage(answer: &Value, scope: &str, paper: &mut LineBuffer) {
    let rows = list_of(answer, "rows");
    if rows.is_empty() {
        paper.push_heading(&format!("No request of a model was reported{scope}"));
        return;
    }
    let sessions = count_of(number_of(answer, "sessions").unwrap_or_default(), "session");
    paper.push_heading(&format!("Tokens of {sessions}"));
    rows.iter().for_each(|share| print_share(share, "without a name", paper));
    if let Some(total) = answer.get("total").filter(|_| rows.len() > 1) {
        print_share(total, "in all", paper);
    }
    if !is_true(answer, "complete") {
        paper.push_faint("older sessions, or damaged ones, are not counted");
    }
}

/// Prints the subagents of a session, each below the one that called it.
pub(super) fn print_threads(view: &Value, paper: &mut LineBuffer) {
    let threads = list_of(view, "threads");
    if threads.is_empty() {
        paper.push_heading("No subagent was recorded");
        return;
    }
    paper.push_heading(&count_of(threads.len() as u64, "subagent"));
    for one in threads {
        let of = |name: &str| number_of(one, name).unwrap_or_default();
        let kind = Some(text_of(one, "kind")).filter(|kind| !kind.is_empty()).unwrap_or("subagent");
        let indent = "  ".repeat(usize::try_from(of("depth").min(8)).unwrap_or(1));
        let state = if is_true(one, "is_running") { ", running" } else { "" };
        let task = text_of(one, "description");
        let task = if task.is_empty() { String::new() } else { format!(": {task}") };
        let at = format!("{indent}[{}] ", of("from"));
        paper.push(Tone::Plain, &at, &format!("{kind} {}{task}", text_of(one, "thread")));
        let failed = match of("failures") {
            0 => String::new(),
            failed => format!(" ({} failed)", group_digits(failed)),
        };
        let tokens = match of("tokens") {
            0 => String::new(),
            tokens => format!(", {}", count_of(tokens, "token")),
        };
        let calls = count_of(of("calls"), "call");
        paper.push_faint(&format!("{indent}  {calls}{failed}{tokens}{state}"));
    }
}

/// Prints the events that compactions removed from a client's context.
pub(super) fn print_compactions(session: &str, view: &Value, paper: &mut LineBuffer) {
    let count = number_of(view, "count").unwrap_or_default();
    if count == 0 {
        paper.push_heading("No compaction was recorded");
        return;
    }
    paper.push_heading(&count_of(count, "compaction"));
    let shown = list_of(view, "compactions");
    let hidden = count.saturating_sub(shown.len() as u64);
    if hidden > 0 {
        paper.push_faint(&format!("the first {} not listed", group_digits(hidden)));
    }
    for one in shown {
        let at = number_of(one, "position").unwrap_or_default();
        let about =
            [text_of(one, "trigger").to_owned(), paper.times.format_when(text_of(one, "at"))];
        let about: Vec<String> = about.into_iter().filter(|text| !text.is_empty()).collect();
        paper.push(Tone::Plain, &format!("  [{at}] "), &about.join(", "));
        let told = is_true(one, "is_reported");
        let assumed = match (told, list_of(one, "kept").is_empty()) {
            (true, _) => "",
            (false, false) => "; the client said what it kept",
            (false, true) => "; the client did not say what it dropped",
        };
        if let Some(dropped) = format_ranges(list_of(one, "dropped"), "event") {
            paper.push(Tone::Plain, "      Dropped ", &format!("{dropped}{assumed}"));
        }
        if let Some(kept) = format_ranges(list_of(one, "kept"), "event") {
            paper.push(Tone::Plain, "      Kept ", &kept);
        }
        let summary = text_of(one, "summary");
        if !summary.is_empty() {
            paper.push(Tone::Plain, "      Summary: ", summary);
        }
    }
    let lost = list_of(view, "lost");
    paper.push_heading("Out of the context now");
    match format_ranges(lost, "event") {
        Some(said) => paper.push_text(&said),
        None => paper.push_text("nothing"),
    }
    for range in lost.iter().take(COMMANDS_MAX) {
        let of = |name: &str| number_of(range, name).unwrap_or_default();
        let (from, to) = (of("from"), of("to"));
        paper.push_command("  ", &format!("sessionlog events {session} --from {from} --to {to}"));
    }
}

/// Maximum number of ranges for which a command to read them is printed.
const COMMANDS_MAX: usize = 3;
/// Maximum lines of a session's summary in a history, and characters of each.
const SUMMARY_LINES: usize = 5;
const SUMMARY_CHARS: usize = 160;

/// Prints the latest sessions, those left unfinished, and those to start from.
pub(in crate::cli) fn print_history(told: &Value, paper: &mut LineBuffer) {
    let sessions = list_of(told, "data");
    if sessions.is_empty() {
        return paper.push(Tone::Plain, "", "No sessions yet.");
    }
    paper.push_heading("Sessions");
    for one in sessions {
        print_past_session(one, paper);
    }
    let left = list_of(told, "unfinished");
    if !left.is_empty() {
        paper.push_heading("Unfinished");
        for one in left {
            print_unfinished(one, paper);
        }
    }
    if let Some(start) = told.get("start_from").filter(|start| !start.is_null()) {
        paper.push_heading("Start from");
        let session = text_of(start, "session");
        print_checkpoint(session, start.get("checkpoint").unwrap_or(&Value::Null), paper);
    }
}

fn print_past_session(one: &Value, paper: &mut LineBuffer) {
    let count = |name: &str| number_of(one, name).unwrap_or_default();
    let mut about =
        vec![count_of(count("tail"), "event"), paper.times.format_when(text_of(one, "updated_at"))];
    if count("steps") > 0 {
        about.push(count_of(count("steps"), "step"));
    }
    if count("gaps_open") > 0 {
        about.push(count_of(count("gaps_open"), "open question"));
    }
    if is_true(one, "complete") {
        about.push("complete".to_owned());
    }
    about.retain(|text| !text.is_empty());
    let (goal, title) = (text_of(one, "goal"), text_of(one, "title"));
    paper.push_text(&with_note(text_of(one, "id"), &about.join(", ")));
    // A title often repeats the beginning of the goal.
    if !title.is_empty() && !goal.starts_with(title) {
        paper.push(Tone::Plain, "    ", title);
    }
    if !goal.is_empty() {
        paper.push(Tone::Plain, "    ", goal);
    }
    let summary = without_goal(text_of(one, "summary"), goal);
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
        paper.push(Tone::Faint, "    ", &one_line(line, SUMMARY_CHARS));
    }
}

fn print_unfinished(one: &Value, paper: &mut LineBuffer) {
    let mut about = vec![paper.times.format_when(text_of(one, "updated_at"))];
    if is_true(one, "leased") {
        about.push("a harness holds it".to_owned());
    }
    about.retain(|text| !text.is_empty());
    let id = text_of(one, "id");
    paper.push_text(&with_note(id, &about.join(", ")));
    let since = one.pointer("/last_checkpoint/position").and_then(Value::as_u64);
    let tail = number_of(one, "tail").unwrap_or_default();
    if let Some(since) = since.filter(|since| *since < tail) {
        let events = count_of(tail - since, "event");
        paper.push(Tone::Plain, "    ", &format!("{events} since its last checkpoint"));
    }
    paper.push_command("    ", &format!("sessionlog view {id} continuation"));
    paper.push_command("    ", &format!("sessionlog replay {id}"));
}

/// Prints a checkpoint of a session, with its state as named members.
fn print_checkpoint(session: &str, found: &Value, paper: &mut LineBuffer) {
    let at = number_of(found, "position").unwrap_or_default();
    let label = text_of(found, "label");
    let label = if label.is_empty() { String::new() } else { format!("“{label}”, ") };
    let when = paper.times.format_when(text_of(found, "created_at"));
    paper.push_text(&format!(
        "{session}, checkpoint {label}{}",
        with_note(&format!("at {at}"), &when)
    ));
    for name in ["state", "plan"] {
        let value = found.get(name).unwrap_or(&Value::Null);
        let lines = match name {
            "plan" => words::format_check_boxes(value),
            _ => words::format_members(value, &[]),
        };
        if !lines.is_empty() {
            paper.push(Tone::Plain, "    ", &format!("{}:", member_label(name)));
            paper.push(Tone::Plain, "      ", &lines.join("\n"));
        }
    }
}

//! Lines of a Codex rollout to events: the items of the conversation, in an envelope or bare as
//! before September 2025, and facts that only the program's own events (`event_msg`) contain: calls
//! run by a program of code mode, the objective of a goal, the end of a turn. It must not drop a
//! line: the caller stores a line without events whole.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{
    anthropic::Bodies,
    members::{Members, Object, listed, quote, text_of},
    responses,
};
use crate::{
    event::{Timestamp, kinds},
    wire::{RefusedCall, typed_by_person},
};

/// First words of a compaction's summary for the next model.
const SUMMARY: &str = "Another language model started to solve this problem";

/// State of earlier lines that later lines need.
#[derive(Clone, Debug, Default)]
pub(super) struct Codex {
    /// The ids of calls, and of those without an output so far, the oldest first: JSON texts.
    calls: HashSet<String>,
    open: Vec<String>,
    /// The last recorded objective.
    goal: Option<String>,
    /// The directory of the session, and whether a call records it.
    directory: Option<String>,
    is_noted: bool,
    /// The time of the latest line that has one.
    at: Option<String>,
    /// The number of the current line, the line numbers of the conversation's prompts, and the
    /// first and last line of each withdrawn run.
    number: u64,
    prompts: Vec<u64>,
    withdrawn: Vec<(u64, u64)>,
    is_rolled_back: bool,
}

impl Codex {
    /// Returns the events of a line; empty when it has no meaning for a reader of the session.
    pub(super) fn bodies(&mut self, line: &Members) -> Bodies {
        self.at = time_of(line).or(self.at.take());
        let kind = line.text("type").unwrap_or_default();
        let place = directory(line);
        if place.is_some() && place != self.directory {
            (self.directory, self.is_noted) = (place, false);
        }
        let mut bodies = match (kind.as_str(), payload(line)) {
            ("response_item", Some(item)) => self.item(&item),
            ("event_msg", Some(note)) => self.note(&note),
            ("compacted", Some(note)) => vec![(kinds::CONTEXT_COMPACTED, compacted(&note))],
            (_, None) => self.item(line),
            _ => Vec::new(),
        };
        // Folds read the directory from the first call that has it.
        let call = bodies.iter_mut().find(|(kind, _)| *kind == kinds::AGENT_TOOL_USE);
        if let Some((_, call)) = call.filter(|_| !self.is_noted)
            && let Some(directory) = &self.directory
        {
            call.add("cwd", &quote(directory));
            self.is_noted = true;
        }
        bodies
    }

    /// Returns the time for a line without one: that of the latest line before it.
    pub(super) fn time_of(&self, line: &Members) -> Option<&str> {
        self.at.as_deref().filter(|_| time_of(line).is_none())
    }

    /// Sets the number of the next line.
    pub(super) fn at_line(&mut self, number: u64) {
        self.number = number;
    }

    /// Returns the first and last line of each run withdrawn from the conversation.
    pub(super) fn withdrawn(&self) -> &[(u64, u64)] {
        &self.withdrawn
    }

    /// Returns true if turns were withdrawn from the conversation.
    pub(super) fn rolled_back(&self) -> bool {
        self.is_rolled_back
    }

    /// Returns the text that the user typed in a line that is a prompt.
    pub(super) fn prompt(&mut self, line: &Members, number: u64) -> Option<String> {
        self.at_line(number);
        let bodies = self.bodies(line);
        let is_last = self.prompts.last() == Some(&number);
        let said = bodies.into_iter().find(|(kind, _)| is_last && *kind == kinds::USER_MESSAGE);
        let body = Members::read(&said?.1.finish()).ok()?;
        body.non_null("content").map(typed_by_person)
    }

    /// Withdraws the latest turns from the conversation.
    fn roll_back(&mut self, turns: usize) {
        self.is_rolled_back = true;
        let left = self.prompts.len().saturating_sub(turns);
        if let Some(first) = self.prompts.drain(left..).next() {
            self.withdrawn.push((first, self.number.saturating_sub(1)));
        }
    }

    /// Returns the events of an item. Records open calls, and the line of a prompt.
    fn item(&mut self, item: &Members) -> Bodies {
        let bodies = responses::bodies(item);
        let id = responses::call_id(item).map(|id| id.get().to_owned());
        for (kind, _) in &bodies {
            match (*kind, &id) {
                (kinds::AGENT_TOOL_USE, Some(id)) => {
                    self.calls.insert(id.clone());
                    self.open.push(id.clone());
                }
                (kinds::AGENT_TOOL_RESULT, Some(id)) => self.open.retain(|open| open != id),
                (kinds::USER_MESSAGE, _) => self.prompts.push(self.number),
                _ => {}
            }
        }
        bodies
    }

    fn note(&mut self, note: &Members) -> Bodies {
        match note.text("type").unwrap_or_default().as_str() {
            "turn_aborted" => {
                self.close_open_calls(note.text("reason").as_deref().unwrap_or("interrupted"))
            }
            "task_complete" | "turn_complete" => self.close_open_calls("the turn is complete"),
            "task_started" | "turn_started" => self.close_open_calls("another turn began"),
            "thread_rolled_back" => {
                let turns = note.value("num_turns").and_then(|turns| turns.as_u64());
                self.roll_back(turns.and_then(|turns| usize::try_from(turns).ok()).unwrap_or(1));
                Vec::new()
            }
            "thread_goal_updated" => self.goal(note).into_iter().collect(),
            "item_completed" => match inner(note, "item") {
                Some(item) => self.events_of_run(&item),
                None => Vec::new(),
            },
            "exec_command_end" | "patch_apply_end" | "mcp_tool_call_end" => {
                self.events_of_run(note)
            }
            _ => Vec::new(),
        }
    }

    /// Adds an error result for each call that is open at the end of its turn: none can follow.
    fn close_open_calls(&mut self, why: &str) -> Bodies {
        let closed = |id: String| {
            let mut body = Object::new();
            body.add("call_id", &id);
            body.add("content", &quote(&format!("The call was interrupted: {why}")));
            body.add("is_error", "true");
            (kinds::AGENT_TOOL_RESULT, body)
        };
        std::mem::take(&mut self.open).into_iter().map(closed).collect()
    }

    /// Returns the objective that the user set, if it differs from the last one.
    fn goal(&mut self, note: &Members) -> Option<(&'static str, Object)> {
        let goal = inner(note, "goal")?.text("objective").filter(|goal| !goal.trim().is_empty())?;
        if self.goal.as_ref() == Some(&goal) {
            return None;
        }
        let mut body = Object::new();
        body.add("content", &quote(&goal));
        self.goal = Some(goal);
        Some((kinds::USER_MESSAGE, body))
    }

    /// Returns call and result of a tool that a program of code mode ran; empty for a call that the
    /// model made itself, which has items.
    fn events_of_run(&mut self, item: &Members) -> Bodies {
        let Some(id) = responses::call_id(item).map(RawValue::get) else { return Vec::new() };
        if self.calls.contains(id) {
            return Vec::new();
        }
        let made = match item.text("type").unwrap_or_default().as_str() {
            "CommandExecution" | "exec_command_end" => command_call(item),
            "FileChange" | "patch_apply_end" => patch_call(item),
            "McpToolCall" | "mcp_tool_call_end" => tool_call(item),
            "DynamicToolCall" => tool_call(item),
            _ => None,
        };
        let Some((mut call, mut result)) = made else { return Vec::new() };
        let within = self.open.last().map_or("true", String::as_str);
        for body in [&mut call, &mut result] {
            body.add("call_id", id);
            // The model saw only the enclosing call.
            body.add("within", within);
        }
        vec![(kinds::AGENT_TOOL_USE, call), (kinds::AGENT_TOOL_RESULT, result)]
    }
}

/// Returns the session that a line names: the first one of a file is the file's own.
pub(super) fn session(line: &Members) -> Option<String> {
    match payload(line) {
        Some(meta) if line.text("type").as_deref() == Some("session_meta") => {
            meta.text("id").or_else(|| meta.text("session_id"))
        }
        None if is_legacy_head(line) => line.text("id"),
        _ => None,
    }
}

/// Returns true if a line starts a session that was forked from another one.
pub(super) fn is_fork(line: &Members) -> bool {
    let is_head = line.text("type").as_deref() == Some("session_meta");
    is_head && payload(line).is_some_and(|meta| meta.non_null("forked_from_id").is_some())
}

/// Returns true if the form of a line is one that only rollouts before September 2025 have.
pub(super) fn is_legacy(line: &Members) -> bool {
    is_legacy_head(line) || line.text("type").is_none() && line.text("record_type").is_some()
}

/// Returns true if it is the first line of such a rollout: session, start time and environment.
fn is_legacy_head(line: &Members) -> bool {
    let around = ["instructions", "git"].iter().any(|name| line.raw(name).is_some());
    let other = ["type", "role", "messages"].iter().any(|name| line.raw(name).is_some());
    around && !other && line.text("id").is_some() && time_of(line).is_some()
}

/// Returns the directory that a line names: in its data, or in the program's text for the model.
pub(super) fn directory(line: &Members) -> Option<String> {
    match (line.text("type")?.as_str(), payload(line)) {
        ("session_meta" | "turn_context", Some(payload)) => payload.text("cwd"),
        ("message", None) => {
            let text = text_of(line.non_null("content")?);
            let text = text.trim_start().strip_prefix("<environment_context>")?;
            let (_, rest) = text.split_once("<cwd>")?;
            rest.split_once("</cwd>").map(|(place, _)| place.trim().to_owned())
        }
        _ => None,
    }
}

fn payload(line: &Members) -> Option<Members> {
    inner(line, "payload")
}

fn inner(of: &Members, name: &str) -> Option<Members> {
    inner_of(of.non_null(name)?)
}

fn inner_of(value: &RawValue) -> Option<Members> {
    Members::read(value.get()).ok()
}

fn time_of(line: &Members) -> Option<String> {
    line.text("timestamp").filter(|time| Timestamp::parse(time).is_some())
}

/// Returns the body of a compaction, with the summary if a readable one exists.
fn compacted(note: &Members) -> Object {
    let mut body = Object::new();
    body.add("trigger", "\"auto\"");
    let said = note.text("message").filter(|summary| !summary.is_empty());
    let summary = said.or_else(|| {
        let history: Vec<Members> = listed(note.non_null("replacement_history")?)?;
        let texts = history.iter().filter_map(|item| Some(text_of(item.non_null("content")?)));
        let texts: Vec<String> = texts.collect();
        texts.into_iter().rev().find(|text| text.trim_start().starts_with(SUMMARY))
    });
    if let Some(summary) = summary {
        body.add("summary", &quote(&summary));
    }
    body
}

/// Returns the body of a result, marked if the call failed or was refused.
fn result(text: String, status: &str) -> Object {
    let mut body = Object::new();
    body.add("content", &quote(text.trim_end()));
    if status == "declined" {
        body.add("refused", &quote(RefusedCall::USER));
    }
    if matches!(status, "declined" | "failed") {
        body.add("is_error", "true");
    }
    body
}

fn status(item: &Members) -> String {
    let status = item.text("status").unwrap_or_default();
    match item.raw("success").map(RawValue::get) {
        Some("false") if status.is_empty() => "failed".to_owned(),
        _ => status,
    }
}

/// Returns the output of an item: one member, or `stdout` and `stderr` joined.
fn output_text(item: &Members) -> String {
    let full = |name: &&str| item.text(name).filter(|text| !text.trim().is_empty());
    let whole = ["aggregated_output", "formatted_output"].iter().find_map(full);
    whole.unwrap_or_else(|| {
        let both: Vec<String> = ["stdout", "stderr"].iter().filter_map(full).collect();
        both.join("\n")
    })
}

fn command_call(item: &Members) -> Option<(Object, Object)> {
    let mut input = Object::new();
    input.add("command", item.non_null("command")?.get());
    if let Some(place) = item.text("cwd") {
        input.add("workdir", &quote(place.strip_prefix("file://").unwrap_or(&place)));
    }
    let mut call = Object::new();
    call.add("name", "\"exec_command\"");
    call.add("input", &input.finish());
    let status = status(item);
    let mut result = result(output_text(item), &status);
    if let Some(code) = item.non_null("exit_code").filter(|_| status != "declined") {
        result.add("exit_code", code.get());
    }
    Some((call, result))
}

/// Returns call and result of a change of files, in the form of `apply_patch`.
fn patch_call(item: &Members) -> Option<(Object, Object)> {
    let mut text = "*** Begin Patch\n".to_owned();
    for (path, change) in Members::read(item.non_null("changes")?.get()).ok()?.pairs() {
        let change = inner_of(change)?;
        // Older rollouts have the kind as the name of the only member.
        let named = change.pairs().next().filter(|_| change.raw("type").is_none());
        let named = named.map(|(kind, inner)| Some((kind.to_owned(), inner_of(inner)?)));
        let kind = || change.text("type").unwrap_or_default();
        let (kind, change) = named.unwrap_or_else(|| Some((kind(), change.clone())))?;
        let (mark, body) = match kind.as_str() {
            "add" => {
                let content = change.text("content").unwrap_or_default();
                ("Add", content.lines().map(|line| format!("+{line}\n")).collect())
            }
            "delete" => ("Delete", String::new()),
            _ => ("Update", change.text("unified_diff").unwrap_or_default()),
        };
        text.push_str(&format!("*** {mark} File: {path}\n"));
        if let Some(to) = change.text("move_path") {
            text.push_str(&format!("*** Move to: {to}\n"));
        }
        text.push_str(&body);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text.push_str("*** End Patch");
    let mut call = Object::new();
    call.add("name", "\"apply_patch\"");
    call.add("input", &quote(&text));
    let status = status(item);
    let text = output_text(item);
    Some((call, result(if text.is_empty() { status.clone() } else { text }, &status)))
}

/// Returns call and result of a tool of a server, or of the program around Codex.
fn tool_call(item: &Members) -> Option<(Object, Object)> {
    let called = inner(item, "invocation").unwrap_or_else(|| item.clone());
    let mut call = Object::new();
    call.add("name", called.non_null("tool")?.get());
    if let Some(server) = called.non_null("server").or_else(|| called.non_null("namespace")) {
        call.add("server", server.get());
    }
    call.add("input", called.non_null("arguments").map_or("{}", RawValue::get));
    let given = inner(item, "result");
    let given = given.map(|given| inner(&given, "Ok").unwrap_or(given)).unwrap_or_default();
    let error = item.non_null("error").or_else(|| given.non_null("Err"));
    let content = given.non_null("content").or_else(|| item.non_null("content_items"));
    let says = |name: &str| given.raw(name).is_some_and(|said| said.get() == "true");
    let status = status(item);
    let mut result = Object::new();
    let came = error.or(content).map(|came| came.get().to_owned());
    result.add("content", &came.unwrap_or_else(|| quote(&status)));
    if error.is_some() || status == "failed" || says("isError") || says("is_error") {
        result.add("is_error", "true");
    }
    Some((call, result))
}

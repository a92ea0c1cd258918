//! Converts lines of a Codex rollout to events: the items of the conversation, in an envelope or,
//! before September 2025, without one; and facts that only the program's own events (`event_msg`)
//! have: calls that code mode ran, the objective of a goal, the end of a turn. It must not drop a
//! line: the caller stores a line without events whole.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{
    anthropic::Bodies,
    claude::add_kept,
    members::{JsonMembers, ObjectWriter, content_text, parse_list, quote},
    responses,
};
use crate::{
    event::kinds,
    wire::{RefusedCall, SUMMARY_FRAME, extract_typed_text},
};

/// State from earlier lines that later lines need.
#[derive(Clone, Debug, Default)]
pub(super) struct CodexState {
    /// JSON texts of the ids of all calls, and of those without an output, the oldest first.
    calls: HashSet<String>,
    open: Vec<String>,
    /// The last objective that was returned as a message.
    goal: Option<String>,
    /// The directory of the session, and true if a call has recorded it.
    directory: Option<String>,
    is_recorded: bool,
    /// Name of the model, from the context of the latest turn.
    pub(super) model: Option<String>,
    /// Number of the current line, lines of the prompts in the conversation with a hash of the text
    /// of each, and first and last line of each withdrawn run.
    number: u64,
    prompts: Vec<(u64, u64)>,
    withdrawn: Vec<(u64, u64)>,
    is_rolled_back: bool,
    /// Positions of the prompts that the next compaction keeps.
    pub(super) kept: Vec<(u64, u64)>,
}

impl CodexState {
    /// Creates the state of a rollout whose latest turn has the model.
    pub(super) fn with_model(model: Option<String>) -> Self {
        Self { model, ..Self::default() }
    }

    /// Returns the events of a line; empty for a line without conversation, call or result.
    pub(super) fn bodies(&mut self, line: &JsonMembers) -> Bodies {
        let kind = line.text("type").unwrap_or_default();
        if kind == "turn_context" {
            let model = payload(line).and_then(|context| context.text("model"));
            self.model = model.or(self.model.take());
        }
        let directory = directory(line);
        if directory.is_some() && directory != self.directory {
            (self.directory, self.is_recorded) = (directory, false);
        }
        let mut bodies = match (kind.as_str(), payload(line)) {
            // The answer to the program's request for a summary, which the compaction has.
            ("response_item", _) if is_compaction_output(line) => Vec::new(),
            ("response_item", Some(item)) => self.add_item(&item),
            ("event_msg", Some(note)) => self.add_program_event(&note),
            ("compacted", Some(note)) => {
                let kept = std::mem::take(&mut self.kept);
                vec![(kinds::CONTEXT_COMPACTED, compaction_body(&note, &kept))]
            }
            (_, None) => self.add_item(line),
            _ => Vec::new(),
        };
        // Projections read the directory from the first call that has it.
        let call = bodies.iter_mut().find(|(kind, _)| *kind == kinds::AGENT_TOOL_USE);
        if let Some((_, call)) = call.filter(|_| !self.is_recorded)
            && let Some(directory) = &self.directory
        {
            call.add("cwd", &quote(directory));
            self.is_recorded = true;
        }
        bodies
    }

    /// Sets the number of the next line.
    pub(super) fn set_line_number(&mut self, number: u64) {
        self.number = number;
    }

    /// Returns the first and last line of each run withdrawn from the conversation.
    pub(super) fn withdrawn_lines(&self) -> &[(u64, u64)] {
        &self.withdrawn
    }

    /// Returns true if turns were withdrawn from the conversation.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.is_rolled_back
    }

    /// Returns the text that the user typed in a line that is a prompt.
    pub(super) fn prompt_text(&mut self, line: &JsonMembers, number: u64) -> Option<String> {
        self.set_line_number(number);
        let bodies = self.bodies(line);
        let is_last = self.prompts.last().is_some_and(|(line, _)| *line == number);
        let message = bodies.into_iter().find(|(kind, _)| is_last && *kind == kinds::USER_MESSAGE);
        let body = JsonMembers::read(&message?.1.finish()).ok()?;
        body.non_null("content").map(extract_typed_text)
    }

    /// Returns first and last line of each prompt that a compaction line keeps.
    pub(super) fn kept_lines(&self, line: &JsonMembers) -> Vec<(u64, u64)> {
        if line.text("type").as_deref() != Some("compacted") {
            return Vec::new();
        }
        let kept = payload(line).map(|note| kept_items(&note)).unwrap_or_default();
        let mut prompts = self.prompts.iter().rev();
        let lines = kept.iter().rev().filter_map(|item| {
            let hash = hash_of_prompt(item);
            let (line, _) = prompts.clone().find(|(_, known)| *known == hash)?;
            prompts.find(|(known, _)| known == line);
            Some((*line, *line))
        });
        lines.collect()
    }

    /// Withdraws the latest turns from the conversation.
    fn roll_back(&mut self, turns: usize) {
        self.is_rolled_back = true;
        let left = self.prompts.len().saturating_sub(turns);
        if let Some((first, _)) = self.prompts.drain(left..).next() {
            self.withdrawn.push((first, self.number.saturating_sub(1)));
        }
    }

    /// Returns the events of an item; records its call as open or answered, or its prompt's line.
    fn add_item(&mut self, item: &JsonMembers) -> Bodies {
        let bodies = responses::bodies(item);
        let id = responses::call_id(item).map(|id| id.get().to_owned());
        for (kind, _) in &bodies {
            match (*kind, &id) {
                (kinds::AGENT_TOOL_USE, Some(id)) => {
                    self.calls.insert(id.clone());
                    self.open.push(id.clone());
                }
                (kinds::AGENT_TOOL_RESULT, Some(id)) => self.open.retain(|open| open != id),
                (kinds::USER_MESSAGE, _) => {
                    self.prompts.push((self.number, hash_of_prompt(item)));
                }
                _ => {}
            }
        }
        bodies
    }

    fn add_program_event(&mut self, note: &JsonMembers) -> Bodies {
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
            "thread_goal_updated" => self.goal_message(note).into_iter().collect(),
            "item_completed" => match object_member(note, "item") {
                Some(item) => self.run_events(&item),
                None => Vec::new(),
            },
            "exec_command_end" | "patch_apply_end" | "mcp_tool_call_end" => self.run_events(note),
            _ => Vec::new(),
        }
    }

    /// Returns an error result for each open call: at the end of a turn no output can follow.
    fn close_open_calls(&mut self, why: &str) -> Bodies {
        let closed = |id: String| {
            let mut body = ObjectWriter::new();
            body.add("call_id", &id);
            body.add("content", &quote(&format!("The call was interrupted: {why}")));
            body.add("is_error", "true");
            (kinds::AGENT_TOOL_RESULT, body)
        };
        std::mem::take(&mut self.open).into_iter().map(closed).collect()
    }

    /// Returns a message with the objective that the user set, if it differs from the last one.
    fn goal_message(&mut self, note: &JsonMembers) -> Option<(&'static str, ObjectWriter)> {
        let goal = object_member(note, "goal")?
            .text("objective")
            .filter(|goal| !goal.trim().is_empty())?;
        if self.goal.as_ref() == Some(&goal) {
            return None;
        }
        let mut body = ObjectWriter::new();
        body.add("content", &quote(&goal));
        self.goal = Some(goal);
        Some((kinds::USER_MESSAGE, body))
    }

    /// Returns call and result of a tool that code mode ran; empty for a call of the model, which
    /// has its own items.
    fn run_events(&mut self, item: &JsonMembers) -> Bodies {
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

/// Outcome of a call, as a line of a rollout reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// True if the call failed.
    pub failed: bool,
    /// Exit code of a command.
    pub exit_code: Option<i64>,
}

/// Returns the outcome of the call `id`, if a line reports its end.
pub(super) fn outcome_of_call(line: &JsonMembers, id: &str) -> Option<RunOutcome> {
    let payload = payload(line)?;
    let item = object_member(&payload, "item").unwrap_or(payload);
    let is_its = |item: &JsonMembers| {
        let found = responses::call_id(item).map(RawValue::get);
        found.is_some_and(|found| found == quote(id))
    };
    if !is_its(&item) {
        return None;
    }
    let result = match item.text("type").unwrap_or_default().as_str() {
        "CommandExecution" | "exec_command_end" => command_call(&item)?.1,
        "FileChange" | "patch_apply_end" => patch_call(&item)?.1,
        "McpToolCall" | "mcp_tool_call_end" | "DynamicToolCall" => tool_call(&item)?.1,
        _ => {
            let is_result = |(kind, _): &(&str, _)| *kind == kinds::AGENT_TOOL_RESULT;
            responses::bodies(&item).into_iter().find(is_result)?.1
        }
    };
    let body = JsonMembers::read(&result.finish()).ok()?;
    let exit_code = body.value("exit_code").and_then(|code| code.as_i64());
    let failed = exit_code.is_some_and(|code| code != 0)
        || body.raw("is_error").is_some_and(|value| value.get() == "true");
    Some(RunOutcome { failed, exit_code })
}

/// Returns the session id in a line; the first one in a file is that of the file's session.
pub(super) fn session_id(line: &JsonMembers) -> Option<String> {
    match payload(line) {
        Some(meta) if line.text("type").as_deref() == Some("session_meta") => {
            meta.text("id").or_else(|| meta.text("session_id"))
        }
        None if is_legacy_head(line) => line.text("id"),
        _ => None,
    }
}

/// Returns true if a line starts a session that was forked from another one.
pub(super) fn is_fork(line: &JsonMembers) -> bool {
    let is_head = line.text("type").as_deref() == Some("session_meta");
    is_head && payload(line).is_some_and(|meta| meta.non_null("forked_from_id").is_some())
}

/// Returns true if a line has a form that only rollouts before September 2025 have.
pub(super) fn is_legacy(line: &JsonMembers) -> bool {
    is_legacy_head(line) || line.text("type").is_none() && line.text("record_type").is_some()
}

/// Returns true for the first line of such a rollout: session id, start time and environment.
fn is_legacy_head(line: &JsonMembers) -> bool {
    let around = ["instructions", "git"].iter().any(|name| line.raw(name).is_some());
    let other = ["type", "role", "messages"].iter().any(|name| line.raw(name).is_some());
    around && !other && line.text("id").is_some() && line.time().is_some()
}

/// Returns the directory in a line: in its data, or in the context text for the model.
pub(super) fn directory(line: &JsonMembers) -> Option<String> {
    match (line.text("type")?.as_str(), payload(line)) {
        ("session_meta" | "turn_context", Some(payload)) => payload.text("cwd"),
        ("message", None) => {
            let text = content_text(line.non_null("content")?);
            let text = text.trim_start().strip_prefix("<environment_context>")?;
            let (_, rest) = text.split_once("<cwd>")?;
            rest.split_once("</cwd>").map(|(path, _)| path.trim().to_owned())
        }
        _ => None,
    }
}

fn payload(line: &JsonMembers) -> Option<JsonMembers> {
    object_member(line, "payload")
}

fn object_member(of: &JsonMembers, name: &str) -> Option<JsonMembers> {
    parse_object(of.non_null(name)?)
}

fn parse_object(value: &RawValue) -> Option<JsonMembers> {
    JsonMembers::read(value.get()).ok()
}

/// Compaction of a conversation, as a rollout has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutCompaction {
    /// The summary, if it is a text.
    pub summary: Option<String>,
    /// Texts of the prompts that stay in the context, oldest first.
    pub prompts: Vec<String>,
}

impl RolloutCompaction {
    /// Reads a line; `None` for any other line.
    pub(super) fn read(line: &JsonMembers) -> Option<Self> {
        let note = payload(line).filter(|_| line.text("type").as_deref() == Some("compacted"))?;
        let prompts = kept_items(&note).iter().filter_map(typed_text).collect();
        Some(Self { summary: compaction_summary(&note), prompts })
    }
}

/// Returns true if a line is the model's answer to the request for a summary.
fn is_compaction_output(line: &JsonMembers) -> bool {
    let about = object_member(line, "metadata");
    let output = about.as_ref().and_then(|about| about.raw("compaction_output"));
    output.is_some_and(|value| value.get() == "true")
}

/// Returns the user's prompts among the items that replace the conversation.
fn kept_items(note: &JsonMembers) -> Vec<JsonMembers> {
    let history = note.non_null("replacement_history").and_then(parse_list::<JsonMembers>);
    let is_prompt = |item: &JsonMembers| {
        typed_text(item).is_some_and(|text| !text.trim_start().starts_with(SUMMARY_FRAME))
    };
    history.unwrap_or_default().into_iter().filter(is_prompt).collect()
}

/// Returns the text that the user typed, if an item has one.
fn typed_text(item: &JsonMembers) -> Option<String> {
    let mut bodies = responses::bodies(item).into_iter();
    let (_, body) = bodies.find(|(kind, _)| *kind == kinds::USER_MESSAGE)?;
    let body = JsonMembers::read(&body.finish()).ok()?;
    Some(extract_typed_text(body.non_null("content")?))
}

fn hash_of_prompt(item: &JsonMembers) -> u64 {
    let hash = blake3::hash(typed_text(item).unwrap_or_default().trim().as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// Returns the body of a compaction, with its summary if the line has one as text.
fn compaction_body(note: &JsonMembers, kept: &[(u64, u64)]) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    body.add("trigger", "\"auto\"");
    add_kept(&mut body, kept);
    if let Some(summary) = compaction_summary(note) {
        body.add("summary", &quote(&summary));
    }
    body
}

fn compaction_summary(note: &JsonMembers) -> Option<String> {
    let text = note.text("message").filter(|summary| !summary.is_empty());
    text.or_else(|| {
        let history: Vec<JsonMembers> = parse_list(note.non_null("replacement_history")?)?;
        let texts = history.iter().filter_map(|item| Some(content_text(item.non_null("content")?)));
        let texts: Vec<String> = texts.collect();
        texts.into_iter().rev().find(|text| text.trim_start().starts_with(SUMMARY_FRAME))
    })
}

/// Returns the body of a result; `status` marks a call that failed or was refused.
fn result_body(text: String, status: &str) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    body.add("content", &quote(text.trim_end()));
    if status == "declined" {
        body.add("refused", &quote(RefusedCall::USER));
    }
    if matches!(status, "declined" | "failed") {
        body.add("is_error", "true");
    }
    body
}

fn status(item: &JsonMembers) -> String {
    let status = item.text("status").unwrap_or_default();
    match item.raw("success").map(RawValue::get) {
        Some("false") if status.is_empty() => "failed".to_owned(),
        _ => status,
    }
}

/// Returns the output of an item: one member, or `stdout` and `stderr` joined.
fn output_text(item: &JsonMembers) -> String {
    let full = |name: &&str| item.text(name).filter(|text| !text.trim().is_empty());
    let whole = ["aggregated_output", "formatted_output"].iter().find_map(full);
    whole.unwrap_or_else(|| {
        let both: Vec<String> = ["stdout", "stderr"].iter().filter_map(full).collect();
        both.join("\n")
    })
}

fn command_call(item: &JsonMembers) -> Option<(ObjectWriter, ObjectWriter)> {
    let mut input = ObjectWriter::new();
    input.add("command", item.non_null("command")?.get());
    if let Some(path) = item.text("cwd") {
        input.add("workdir", &quote(path.strip_prefix("file://").unwrap_or(&path)));
    }
    let mut call = ObjectWriter::new();
    call.add("name", "\"exec_command\"");
    call.add("input", &input.finish());
    let status = status(item);
    let mut result = result_body(output_text(item), &status);
    if let Some(code) = item.non_null("exit_code").filter(|_| status != "declined") {
        result.add("exit_code", code.get());
    }
    Some((call, result))
}

/// Returns call and result of a file change, as a call of `apply_patch`.
fn patch_call(item: &JsonMembers) -> Option<(ObjectWriter, ObjectWriter)> {
    let mut text = "*** Begin Patch\n".to_owned();
    for (path, change) in JsonMembers::read(item.non_null("changes")?.get()).ok()?.pairs() {
        let change = parse_object(change)?;
        // In older rollouts the name of the only member is the kind.
        let named = change.pairs().next().filter(|_| change.raw("type").is_none());
        let named = named.map(|(kind, inner)| Some((kind.to_owned(), parse_object(inner)?)));
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
    let mut call = ObjectWriter::new();
    call.add("name", "\"apply_patch\"");
    call.add("input", &quote(&text));
    let status = status(item);
    let text = output_text(item);
    Some((call, result_body(if text.is_empty() { status.clone() } else { text }, &status)))
}

/// Returns call and result of an MCP tool, or of a tool of the program that runs Codex.
fn tool_call(item: &JsonMembers) -> Option<(ObjectWriter, ObjectWriter)> {
    let called = object_member(item, "invocation").unwrap_or_else(|| item.clone());
    let mut call = ObjectWriter::new();
    call.add("name", called.non_null("tool")?.get());
    if let Some(server) = called.non_null("server").or_else(|| called.non_null("namespace")) {
        call.add("server", server.get());
    }
    call.add("input", called.non_null("arguments").map_or("{}", RawValue::get));
    let given = object_member(item, "result");
    let given = given.map(|given| object_member(&given, "Ok").unwrap_or(given)).unwrap_or_default();
    let error = item.non_null("error").or_else(|| given.non_null("Err"));
    let content = given.non_null("content").or_else(|| item.non_null("content_items"));
    let is_set = |name: &str| given.raw(name).is_some_and(|value| value.get() == "true");
    let status = status(item);
    let mut result = ObjectWriter::new();
    let came = error.or(content).map(|came| came.get().to_owned());
    result.add("content", &came.unwrap_or_else(|| quote(&status)));
    if error.is_some() || status == "failed" || is_set("isError") || is_set("is_error") {
        result.add("is_error", "true");
    }
    Some((call, result))
}

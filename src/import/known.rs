//! Classifies records: those with content that a view shows, and those of unknown type. A source
//! without such content is rejected, with the name of its form; unknown types are counted. It must
//! not make events.

use std::collections::BTreeMap;

use super::{
    draft::EventDraft,
    members::{JsonMembers, content_text, parse_list},
    transcript::TranscriptProgram,
};
use crate::event::kinds;

/// Types of lines of Claude Code; docs/agents.md lists how each is stored.
pub(super) const CLAUDE_TYPES: &str = " user assistant system summary attachment progress \
    file-history-snapshot queue-operation custom-title ai-title agent-name agent-color \
    agent-setting last-prompt mode permission-mode tag pr-link worktree-state content-replacement \
    saved_hook_context speculation-accept tools-used cost-state atis-latch api-request \
    api-request-shape api-request-blob ";
/// Types of lines of Codex, of its items, of its `event_msg` events and of completed items.
pub(super) const CODEX_TYPES: &str = " session_meta turn_context response_item event_msg compacted \
    world_state token_usage_record inter_agent_communication inter_agent_communication_metadata ";
pub(super) const ITEMS_TYPES: &str = " message reasoning agent_message additional_tools compaction \
    compaction_summary compaction_trigger context_compaction ghost_snapshot other ";
pub(super) const NOTES_TYPES: &str = " user_message agent_message agent_reasoning \
    agent_reasoning_raw_content agent_reasoning_section_break token_count task_started \
    task_complete turn_started turn_complete turn_aborted thread_goal_updated thread_rolled_back \
    thread_settings_applied thread_name_updated context_compacted entered_review_mode \
    exited_review_mode item_completed exec_command_end patch_apply_end mcp_tool_call_end \
    web_search_end image_generation_end view_image_tool_call sub_agent_activity \
    collab_agent_spawn_end collab_agent_interaction_end collab_waiting_end collab_close_end \
    collab_resume_end dynamic_tool_call_request dynamic_tool_call_response guardian_assessment \
    plan_update turn_diff undo_completed background_event stream_error warning error ";
pub(super) const COMPLETED_TYPES: &str = " UserMessage HookPrompt AgentMessage Plan Reasoning \
    CommandExecution DynamicToolCall CollabAgentToolCall SubAgentActivity WebSearch ImageView \
    Sleep ImageGeneration FileChange McpToolCall ContextCompaction ";

/// Formats of other programs, each with members that all its records have.
const FORMS: [(&str, &[&str]); 9] = [
    ("events of GitHub Copilot", &["type", "data", "parentId"]),
    ("an export of OpenCode", &["info", "parts"]),
    ("a transcript of Qwen Code", &["uuid", "message", "cwd"]),
    ("a session of Gemini CLI", &["sessionId", "projectHash"]),
    ("contents of Gemini's API", &["role", "parts"]),
    ("the output of codex exec --json", &["type", "thread_id"]),
    ("an export of ChatGPT", &["mapping"]),
    ("an export of Claude.ai", &["chat_messages"]),
    ("a session of Codex before 2025-06", &["session", "items"]),
];

/// Maximum types that are counted, and maximum characters of a type that are stored.
const TYPES_MAX: usize = 50;
const TYPE_CHARS_MAX: usize = 80;
/// Maximum members of a record that an error names.
const MEMBERS_MAX: usize = 8;

/// Classes of records seen in the source so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceClasses {
    /// True if a record with content was seen, and true if one of a known type was.
    has_words: bool,
    is_known: bool,
    /// Format of the first record that is of unknown type, or lacks the content of its type.
    unusable: Option<String>,
    unknown: BTreeMap<String, u64>,
}

impl SourceClasses {
    /// Classifies a line of a program's transcript.
    pub(super) fn classify_line(
        &mut self,
        program: TranscriptProgram,
        line: &JsonMembers,
        drafts: &[EventDraft],
    ) {
        if drafts.iter().any(|draft| draft.kind() != kinds::TRANSCRIPT_ENTRY) {
            self.has_words = self.has_words || drafts.iter().any(has_content);
            self.is_known = true;
            return;
        }
        let (name, is_known) = type_of_line(program, line);
        // A turn of a known type makes events, unless its form is unknown.
        let is_odd = is_known && is_turn(program, line);
        if !is_known || is_odd {
            self.record_unknown_form(line);
        }
        match is_known {
            true => self.is_known |= !is_odd,
            false => self.count_unknown(name),
        }
    }

    /// Classifies a message of a conversation.
    pub(super) fn classify_message(&mut self, message: &JsonMembers, drafts: &[EventDraft]) {
        if message.raw("content").is_some() || drafts.iter().any(has_content) {
            self.has_words = true;
            return;
        }
        self.record_unknown_form(message);
        self.count_unknown(
            message.text("role").or_else(|| message.text("type")).unwrap_or_default(),
        );
    }

    /// Classifies an event: one that this program exported, or of a known type, has content.
    pub(super) fn classify_event(&mut self, event: &JsonMembers, draft: &EventDraft) {
        let is_own = ["position", "processed_at"].iter().all(|name| event.raw(name).is_some());
        let is_spoken =
            ["user.", "agent.", "system."].iter().any(|one| draft.kind().starts_with(one));
        let is_known = kinds::ALL.contains(&draft.kind()) && (!is_spoken || has_content(draft));
        if is_own || is_known {
            self.has_words = true;
            return;
        }
        self.record_unknown_form(event);
        self.count_unknown(draft.kind().to_owned());
    }

    /// Returns the reason to reject the source; `None` if a record has content, or all are known.
    pub(super) fn rejection(&self) -> Option<String> {
        let odd = self.unusable.as_ref().filter(|_| !self.has_words)?;
        Some(format!("no record has words that a view would show, and nothing was kept: {odd}"))
    }

    /// Returns the number of records of each unknown type.
    pub(super) fn unknown_types(&self) -> &BTreeMap<String, u64> {
        &self.unknown
    }

    fn record_unknown_form(&mut self, record: &JsonMembers) {
        if self.unusable.is_none() {
            let names: Vec<&str> = record.pairs().map(|(name, _)| name).collect();
            let is_of = |members: &[&str]| members.iter().all(|name| names.contains(name));
            let form = FORMS.iter().find(|(_, members)| is_of(members));
            let form = form.map_or("a form that is not known", |(name, _)| *name);
            let some = names.get(..MEMBERS_MAX.min(names.len())).unwrap_or_default();
            self.unusable = Some(format!("this is {form} (members: {})", some.join(", ")));
        }
    }

    fn count_unknown(&mut self, name: String) {
        let name: String = match name.is_empty() {
            true => "(no type)".to_owned(),
            false => name.chars().take(TYPE_CHARS_MAX).collect(),
        };
        if self.unknown.len() < TYPES_MAX || self.unknown.contains_key(&name) {
            *self.unknown.entry(name).or_default() += 1;
        }
    }
}

/// Returns true if an event has text or other content, a call or a summary.
fn has_content(draft: &EventDraft) -> bool {
    let body = JsonMembers::read(&draft.text).unwrap_or_default();
    let has_words = body.non_null("content").is_some_and(|content| {
        let blocks = parse_list::<JsonMembers>(content).unwrap_or_default();
        !content_text(content).trim().is_empty()
            || blocks.iter().any(|one| one.raw("text").is_none())
    });
    has_words || ["name", "summary"].iter().any(|name| body.non_null(name).is_some())
}

/// Returns the type of a line and the type nested in it, and true if they are known.
fn type_of_line(program: TranscriptProgram, line: &JsonMembers) -> (String, bool) {
    let kind = line.text("type").unwrap_or_default();
    let is_in = |list: &str, kind: &str| !kind.is_empty() && list.contains(&format!(" {kind} "));
    if program == TranscriptProgram::ClaudeCode {
        let is_known = is_in(CLAUDE_TYPES, &kind);
        return (kind, is_known);
    }
    let inner = |of: &JsonMembers, name: &str| JsonMembers::read(of.non_null(name)?.get()).ok();
    let Some(payload) = inner(line, "payload") else {
        let is_known = is_in(ITEMS_TYPES, &kind) || super::codex::is_legacy(line);
        return (kind, is_known);
    };
    let of = payload.text("type").unwrap_or_default();
    let completed = || inner(&payload, "item").and_then(|item| item.text("type"));
    match kind.as_str() {
        "response_item" => {
            let is_call = of.ends_with("_call") || of.ends_with("_output");
            (format!("{kind} {of}"), is_call || is_in(ITEMS_TYPES, &of))
        }
        "event_msg" if of == "item_completed" => {
            let item = completed().unwrap_or_default();
            (format!("{of} {item}"), is_in(COMPLETED_TYPES, &item))
        }
        "event_msg" => (format!("{kind} {of}"), is_in(NOTES_TYPES, &of)),
        _ => {
            let is_known = is_in(CODEX_TYPES, &kind);
            (kind, is_known)
        }
    }
}

/// Returns true if a line is a message of the user or the model.
fn is_turn(program: TranscriptProgram, line: &JsonMembers) -> bool {
    let kind = line.text("type").unwrap_or_default();
    program == TranscriptProgram::ClaudeCode && matches!(kind.as_str(), "user" | "assistant")
}

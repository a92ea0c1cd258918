//! Classifies records: those with content that a view shows, and those of unknown type. A source
//! without the former is rejected with the name of its form; unknown types are counted. It must not
//! make events.

use std::collections::BTreeMap;

use super::{
    draft::Draft,
    members::{Members, listed, text_of},
    transcript::Program,
};
use crate::event::kinds;

/// Types of lines of Claude Code; docs/agents.md lists how each is stored.
pub(super) const OF_CLAUDE: &str = " user assistant system summary attachment progress \
    file-history-snapshot queue-operation custom-title ai-title agent-name agent-color \
    agent-setting last-prompt mode permission-mode tag pr-link worktree-state content-replacement \
    saved_hook_context speculation-accept tools-used cost-state atis-latch api-request \
    api-request-shape api-request-blob ";
/// Types of lines of Codex, of its items, of its `event_msg` events and of completed items.
pub(super) const OF_CODEX: &str = " session_meta turn_context response_item event_msg compacted \
    world_state token_usage_record inter_agent_communication inter_agent_communication_metadata ";
pub(super) const OF_ITEMS: &str = " message reasoning agent_message additional_tools compaction \
    compaction_summary compaction_trigger context_compaction ghost_snapshot other ";
pub(super) const OF_NOTES: &str = " user_message agent_message agent_reasoning \
    agent_reasoning_raw_content agent_reasoning_section_break token_count task_started \
    task_complete turn_started turn_complete turn_aborted thread_goal_updated thread_rolled_back \
    thread_settings_applied thread_name_updated context_compacted entered_review_mode \
    exited_review_mode item_completed exec_command_end patch_apply_end mcp_tool_call_end \
    web_search_end image_generation_end view_image_tool_call sub_agent_activity \
    collab_agent_spawn_end collab_agent_interaction_end collab_waiting_end collab_close_end \
    collab_resume_end dynamic_tool_call_request dynamic_tool_call_response guardian_assessment \
    plan_update turn_diff undo_completed background_event stream_error warning error ";
pub(super) const OF_COMPLETED: &str = " UserMessage HookPrompt AgentMessage Plan Reasoning \
    CommandExecution DynamicToolCall CollabAgentToolCall SubAgentActivity WebSearch ImageView \
    Sleep ImageGeneration FileChange McpToolCall ContextCompaction ";

/// Forms of other programs, by members that each of their records has.
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

/// Most types that are counted, and most characters kept of one.
const TYPES_MAX: usize = 50;
const TYPE_CHARS_MAX: usize = 80;
/// Most members of a record that an error names.
const MEMBERS_MAX: usize = 8;

/// Classes of records seen in the source so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Understood {
    /// True if a record with content was seen, and if one of a known type without content was.
    has_words: bool,
    is_known: bool,
    /// The form of the first record that should have content and has none.
    odd: Option<String>,
    unknown: BTreeMap<String, u64>,
}

impl Understood {
    /// Classifies a line of a program's transcript.
    pub(super) fn line(&mut self, program: Program, line: &Members, drafts: &[Draft]) {
        if drafts.iter().any(|draft| draft.kind() != kinds::TRANSCRIPT_ENTRY) {
            self.has_words = self.has_words || drafts.iter().any(has_content);
            self.is_known = true;
            return;
        }
        let (name, is_known) = type_of_line(program, line);
        // A known type, but not in the program's usual form.
        let is_odd = is_known && is_turn(program, line);
        if !is_known || is_odd {
            self.note_unknown_form(line);
        }
        match is_known {
            true => self.is_known |= !is_odd,
            false => self.count(name),
        }
    }

    /// Classifies a message of a conversation.
    pub(super) fn message(&mut self, message: &Members, drafts: &[Draft]) {
        if message.raw("content").is_some() || drafts.iter().any(has_content) {
            self.has_words = true;
            return;
        }
        self.note_unknown_form(message);
        self.count(message.text("role").or_else(|| message.text("type")).unwrap_or_default());
    }

    /// Classifies an event: known are events exported from this program, and types that it knows.
    pub(super) fn event(&mut self, event: &Members, draft: &Draft) {
        let is_own = ["position", "processed_at"].iter().all(|name| event.raw(name).is_some());
        let is_spoken =
            ["user.", "agent.", "system."].iter().any(|one| draft.kind().starts_with(one));
        let is_known = kinds::ALL.contains(&draft.kind()) && (!is_spoken || has_content(draft));
        if is_own || is_known {
            self.has_words = true;
            return;
        }
        self.note_unknown_form(event);
        self.count(draft.kind().to_owned());
    }

    /// Returns the reason to reject the source; `None` if a record has content.
    pub(super) fn refusal(&self) -> Option<String> {
        let odd = self.odd.as_ref().filter(|_| !self.has_words)?;
        Some(format!("no record has words that a view would show, and nothing was kept: {odd}"))
    }

    /// Returns the unknown types, with the number of records of each.
    pub(super) fn unknown(&self) -> &BTreeMap<String, u64> {
        &self.unknown
    }

    fn note_unknown_form(&mut self, record: &Members) {
        if self.odd.is_none() {
            let names: Vec<&str> = record.pairs().map(|(name, _)| name).collect();
            let is_of = |members: &[&str]| members.iter().all(|name| names.contains(name));
            let form = FORMS.iter().find(|(_, members)| is_of(members));
            let form = form.map_or("a form that is not known", |(name, _)| *name);
            let some = names.get(..MEMBERS_MAX.min(names.len())).unwrap_or_default();
            self.odd = Some(format!("this is {form} (members: {})", some.join(", ")));
        }
    }

    fn count(&mut self, name: String) {
        let name: String = match name.is_empty() {
            true => "(no type)".to_owned(),
            false => name.chars().take(TYPE_CHARS_MAX).collect(),
        };
        if self.unknown.len() < TYPES_MAX || self.unknown.contains_key(&name) {
            *self.unknown.entry(name).or_default() += 1;
        }
    }
}

/// Returns true if an event has text, a call or a summary.
fn has_content(draft: &Draft) -> bool {
    let body = Members::read(&draft.text).unwrap_or_default();
    let has_words = body.non_null("content").is_some_and(|content| {
        let blocks = listed::<Members>(content).unwrap_or_default();
        !text_of(content).trim().is_empty() || blocks.iter().any(|one| one.raw("text").is_none())
    });
    has_words || ["name", "summary"].iter().any(|name| body.non_null(name).is_some())
}

/// Returns the type of a line with the type nested in it, and whether it is known.
fn type_of_line(program: Program, line: &Members) -> (String, bool) {
    let kind = line.text("type").unwrap_or_default();
    let is_in = |list: &str, kind: &str| !kind.is_empty() && list.contains(&format!(" {kind} "));
    if program == Program::ClaudeCode {
        let is_known = is_in(OF_CLAUDE, &kind);
        return (kind, is_known);
    }
    let inner = |of: &Members, name: &str| Members::read(of.non_null(name)?.get()).ok();
    let Some(payload) = inner(line, "payload") else {
        let is_known = is_in(OF_ITEMS, &kind) || super::codex::is_legacy(line);
        return (kind, is_known);
    };
    let of = payload.text("type").unwrap_or_default();
    let completed = || inner(&payload, "item").and_then(|item| item.text("type"));
    match kind.as_str() {
        "response_item" => {
            let is_call = of.ends_with("_call") || of.ends_with("_output");
            (format!("{kind} {of}"), is_call || is_in(OF_ITEMS, &of))
        }
        "event_msg" if of == "item_completed" => {
            let item = completed().unwrap_or_default();
            (format!("{of} {item}"), is_in(OF_COMPLETED, &item))
        }
        "event_msg" => (format!("{kind} {of}"), is_in(OF_NOTES, &of)),
        _ => {
            let is_known = is_in(OF_CODEX, &kind);
            (kind, is_known)
        }
    }
}

/// Returns true if a line is a message of the user or the model.
fn is_turn(program: Program, line: &Members) -> bool {
    let kind = line.text("type").unwrap_or_default();
    program == Program::ClaudeCode && matches!(kind.as_str(), "user" | "assistant")
}

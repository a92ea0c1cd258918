//! The event types that this program interprets; docs/events.md describes each. Any other type is
//! stored and returned unchanged. It must not describe the content of a body, except for the member
//! that has its text, and for which blocks are pictures.

/// Part of an event that has its searchable text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchableText {
    /// All of its body except references to other things.
    Body,
    /// One member: the others are counts and positions.
    In(&'static str),
    /// None: a status, a measure, or a copy of an event elsewhere.
    Nothing,
}

use SearchableText::{Body, In, Nothing};

/// Declares a constant for each type, the list of all, and the searchable text of each.
macro_rules! register {
    ($($name:ident = $text:literal => $words:expr),* $(,)?) => {
        $(#[doc = concat!("`", $text, "`.")] pub const $name: &str = $text;)*

        /// Every registered type.
        pub const ALL: &[&str] = &[$($text),*];

        /// Returns the part of an event of a type that has searchable text; the whole body for an
        /// unknown type.
        #[must_use]
        pub fn searchable_part(kind: &str) -> SearchableText {
            match kind {
                $($text => $words,)*
                _ => Body,
            }
        }
    };
}

/// Domains that other programs use, each with the domain of this register.
const DOMAINS: [(&str, &str); 7] = [
    ("assistant", "agent"),
    ("model", "agent"),
    ("ai", "agent"),
    ("bot", "agent"),
    ("human", "user"),
    ("person", "user"),
    ("developer", "system"),
];

/// Returns the type of this register that an alias denotes: `agent.message` for
/// `assistant.message`.
#[must_use]
pub fn resolve_alias(kind: &str) -> Option<&'static str> {
    let (domain, rest) = kind.split_once('.')?;
    let (_, known_domain) = DOMAINS.iter().find(|(alias, _)| domain.eq_ignore_ascii_case(alias))?;
    ALL.iter().copied().find(|known| {
        let known = known.strip_prefix(known_domain).and_then(|known| known.strip_prefix('.'));
        known.is_some_and(|known| known.eq_ignore_ascii_case(rest))
    })
}

register! {
    // Messages.
    USER_MESSAGE = "user.message" => Body,
    AGENT_MESSAGE = "agent.message" => Body,
    SYSTEM_MESSAGE = "system.message" => Body,
    AGENT_THINKING = "agent.thinking" => Body,

    // Calls of tools and their results.
    AGENT_TOOL_USE = "agent.tool_use" => Body,
    AGENT_MCP_TOOL_USE = "agent.mcp_tool_use" => Body,
    AGENT_CUSTOM_TOOL_USE = "agent.custom_tool_use" => Body,
    AGENT_TOOL_RESULT = "agent.tool_result" => Body,
    AGENT_MCP_TOOL_RESULT = "agent.mcp_tool_result" => Body,
    USER_TOOL_RESULT = "user.tool_result" => Body,
    USER_CUSTOM_TOOL_RESULT = "user.custom_tool_result" => Body,

    // Research, plans and outcomes.
    RESEARCH_GOAL = "research.goal" => Body,
    RESEARCH_STEP = "research.step" => Body,
    RESEARCH_GAP_OPENED = "research.gap_opened" => Body,
    RESEARCH_GAP_CLOSED = "research.gap_closed" => Body,
    RESEARCH_SUMMARY = "research.summary" => Body,
    SOURCE_FOUND = "source.found" => Body,
    PLAN_UPDATED = "plan.updated" => Body,
    OUTCOME_RECORDED = "outcome.recorded" => Body,
    MEMORY_ITEM = "memory.item" => Body,
    MEMORY_FORGOTTEN = "memory.forgotten" => Nothing,
    MEMORY_PAGED_IN = "memory.paged_in" => Nothing,
    EVENT_MARKED = "event.marked" => In("note"),
    GRAPH_ENTITY_UPSERTED = "graph.entity_upserted" => Body,
    GRAPH_RELATIONSHIP_CREATED = "graph.relationship_created" => Body,
    GRAPH_ENTITY_REMOVED = "graph.entity_removed" => Nothing,
    GRAPH_RELATIONSHIP_REMOVED = "graph.relationship_removed" => Nothing,

    // Content passed from a session to its successor.
    CONTEXT_ITEM = "context.item" => Body,
    FILE_REFERENCED = "file.referenced" => Body,
    FILE_CHECKED = "file.checked" => Nothing,
    WORKSPACE_STATE = "workspace.state" => Body,
    SESSION_SAVED = "session.saved" => In("context"),
    SESSION_RESTORED = "session.restored" => Nothing,

    // The context of a model.
    CONTEXT_COMPACTED = "context.compacted" => In("summary"),
    AGENT_THREAD_CONTEXT_COMPACTED = "agent.thread_context_compacted" => Nothing,
    CONTEXT_CLEARED = "context.cleared" => Nothing,
    CONTEXT_REWOUND = "context.rewound" => Nothing,
    CONTEXT_INJECTED = "context.injected" => Nothing,
    CONTEXT_THRESHOLD = "context.threshold" => Nothing,
    SPAN_MODEL_REQUEST_END = "span.model_request_end" => Nothing,

    // The status of a session and of its subagents.
    SESSION_STATUS_RUNNING = "session.status_running" => Nothing,
    SESSION_STATUS_IDLE = "session.status_idle" => Nothing,
    SESSION_STATUS_RESCHEDULED = "session.status_rescheduled" => Nothing,
    SESSION_STATUS_TERMINATED = "session.status_terminated" => Nothing,
    SESSION_THREAD_STATUS_RUNNING = "session.thread_status_running" => Nothing,
    SESSION_THREAD_STATUS_IDLE = "session.thread_status_idle" => In("content"),
    SESSION_ERROR = "session.error" => In("error"),
    AGENT_THREAD_MESSAGE_SENT = "agent.thread_message_sent" => Body,
    AGENT_THREAD_MESSAGE_RECEIVED = "agent.thread_message_received" => Body,
    USER_DEFINE_OUTCOME = "user.define_outcome" => Body,
    USER_INTERRUPT = "user.interrupt" => Nothing,

    // Copies of records made elsewhere, and the audit log.
    TRANSCRIPT_ENTRY = "transcript.entry" => Nothing,
    AUDIT_CALL = "audit.call" => Nothing,
    AUDIT_FORBIDDEN = "audit.forbidden" => Nothing,
    AUDIT_CREDENTIAL_REFUSED = "audit.credential_refused" => Nothing,
    AUDIT_TOKEN = "audit.token" => Nothing,
}

/// Returns true for the type of a block of content that is a picture, in any program's format:
/// `image`, `image_url`, `input_image`.
#[must_use]
pub fn is_picture(block: &str) -> bool {
    block.contains("image")
}

/// Returns true for the type of a tool call.
#[must_use]
pub fn is_call(kind: &str) -> bool {
    matches!(kind, AGENT_TOOL_USE | AGENT_MCP_TOOL_USE | AGENT_CUSTOM_TOOL_USE)
}

/// Returns true for the type of a tool result.
#[must_use]
pub fn is_result(kind: &str) -> bool {
    matches!(
        kind,
        AGENT_TOOL_RESULT | AGENT_MCP_TOOL_RESULT | USER_TOOL_RESULT | USER_CUSTOM_TOOL_RESULT
    )
}

/// Returns true if an event of the type may change the meaning of earlier ones, or be changed by
/// later ones: a file changed, a failed command succeeded, a step or an item is replaced, an event
/// is marked wrong.
#[must_use]
pub fn affects_other_events(kind: &str) -> bool {
    const OTHERS: [&str; 5] =
        [RESEARCH_STEP, MEMORY_ITEM, MEMORY_FORGOTTEN, CONTEXT_CLEARED, EVENT_MARKED];
    is_call(kind) || is_result(kind) || OTHERS.contains(&kind)
}

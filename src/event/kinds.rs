//! The types of events that this program gives a meaning; docs/events.md describes each. Any other
//! type is stored and returned unchanged. It must not say what a body holds.

/// Declares a constant for each type, and the list of all.
macro_rules! register {
    ($($name:ident = $text:literal),* $(,)?) => {
        $(#[doc = concat!("`", $text, "`.")] pub const $name: &str = $text;)*

        /// Every type of this register.
        pub const ALL: &[&str] = &[$($text),*];
    };
}

/// Domains under which other programs know speakers that have a type here.
const DOMAINS: [(&str, &str); 7] = [
    ("assistant", "agent"),
    ("model", "agent"),
    ("ai", "agent"),
    ("bot", "agent"),
    ("human", "user"),
    ("person", "user"),
    ("developer", "system"),
];

/// The type of this register that was meant by one that no view shows: `agent.message` by
/// `assistant.message`.
#[must_use]
pub fn meant(kind: &str) -> Option<&'static str> {
    let (domain, rest) = kind.split_once('.')?;
    let (_, ours) = DOMAINS.iter().find(|(theirs, _)| domain.eq_ignore_ascii_case(theirs))?;
    ALL.iter().copied().find(|known| {
        let known = known.strip_prefix(ours).and_then(|known| known.strip_prefix('.'));
        known.is_some_and(|known| known.eq_ignore_ascii_case(rest))
    })
}

register! {
    // Messages.
    USER_MESSAGE = "user.message",
    AGENT_MESSAGE = "agent.message",
    SYSTEM_MESSAGE = "system.message",
    AGENT_THINKING = "agent.thinking",

    // Calls of tools and their results.
    AGENT_TOOL_USE = "agent.tool_use",
    AGENT_MCP_TOOL_USE = "agent.mcp_tool_use",
    AGENT_CUSTOM_TOOL_USE = "agent.custom_tool_use",
    AGENT_TOOL_RESULT = "agent.tool_result",
    AGENT_MCP_TOOL_RESULT = "agent.mcp_tool_result",
    USER_TOOL_RESULT = "user.tool_result",
    USER_CUSTOM_TOOL_RESULT = "user.custom_tool_result",

    // Research, plans and outcomes.
    RESEARCH_GOAL = "research.goal",
    RESEARCH_STEP = "research.step",
    RESEARCH_GAP_OPENED = "research.gap_opened",
    RESEARCH_GAP_CLOSED = "research.gap_closed",
    RESEARCH_SUMMARY = "research.summary",
    SOURCE_FOUND = "source.found",
    PLAN_UPDATED = "plan.updated",
    OUTCOME_RECORDED = "outcome.recorded",
    MEMORY_ITEM = "memory.item",
    MEMORY_FORGOTTEN = "memory.forgotten",
    MEMORY_PAGED_IN = "memory.paged_in",
    EVENT_MARKED = "event.marked",
    GRAPH_ENTITY_UPSERTED = "graph.entity_upserted",
    GRAPH_RELATIONSHIP_CREATED = "graph.relationship_created",
    GRAPH_ENTITY_REMOVED = "graph.entity_removed",
    GRAPH_RELATIONSHIP_REMOVED = "graph.relationship_removed",

    // What is handed from a session to the one that continues it.
    CONTEXT_ITEM = "context.item",
    FILE_REFERENCED = "file.referenced",
    FILE_CHECKED = "file.checked",
    WORKSPACE_STATE = "workspace.state",
    SESSION_SAVED = "session.saved",
    SESSION_RESTORED = "session.restored",

    // The context of a model.
    CONTEXT_COMPACTED = "context.compacted",
    AGENT_THREAD_CONTEXT_COMPACTED = "agent.thread_context_compacted",
    CONTEXT_CLEARED = "context.cleared",
    CONTEXT_REWOUND = "context.rewound",
    CONTEXT_INJECTED = "context.injected",
    CONTEXT_THRESHOLD = "context.threshold",
    SPAN_MODEL_REQUEST_END = "span.model_request_end",

    // The status of a session and of its subagents.
    SESSION_STATUS_RUNNING = "session.status_running",
    SESSION_STATUS_IDLE = "session.status_idle",
    SESSION_STATUS_RESCHEDULED = "session.status_rescheduled",
    SESSION_STATUS_TERMINATED = "session.status_terminated",
    SESSION_THREAD_STATUS_RUNNING = "session.thread_status_running",
    SESSION_THREAD_STATUS_IDLE = "session.thread_status_idle",
    SESSION_ERROR = "session.error",
    AGENT_THREAD_MESSAGE_SENT = "agent.thread_message_sent",
    AGENT_THREAD_MESSAGE_RECEIVED = "agent.thread_message_received",
    USER_DEFINE_OUTCOME = "user.define_outcome",
    USER_INTERRUPT = "user.interrupt",

    // What was recorded elsewhere, and the audit log.
    TRANSCRIPT_ENTRY = "transcript.entry",
    AUDIT_CALL = "audit.call",
    AUDIT_FORBIDDEN = "audit.forbidden",
    AUDIT_CREDENTIAL_REFUSED = "audit.credential_refused",
    AUDIT_TOKEN = "audit.token",
}

/// Whether a type is a call of a tool.
#[must_use]
pub fn is_call(kind: &str) -> bool {
    matches!(kind, AGENT_TOOL_USE | AGENT_MCP_TOOL_USE | AGENT_CUSTOM_TOOL_USE)
}

/// Whether a type is the result of a call.
#[must_use]
pub fn is_result(kind: &str) -> bool {
    matches!(
        kind,
        AGENT_TOOL_RESULT | AGENT_MCP_TOOL_RESULT | USER_TOOL_RESULT | USER_CUSTOM_TOOL_RESULT
    )
}

/// Whether an event of the type may say something of earlier ones, or is of those of which
/// something is said: a file changed, a command succeeded at last, a step or an item is replaced,
/// an event is wrong.
#[must_use]
pub fn says_of_earlier(kind: &str) -> bool {
    const OTHERS: [&str; 5] =
        [RESEARCH_STEP, MEMORY_ITEM, MEMORY_FORGOTTEN, CONTEXT_CLEARED, EVENT_MARKED];
    is_call(kind) || is_result(kind) || OTHERS.contains(&kind)
}

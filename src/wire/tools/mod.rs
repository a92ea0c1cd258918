//! The tools as models see them: names, descriptions, schemas, arguments, answers. It must not know
//! MCP's framing or HTTP, and it calls no verb: `verbs` does.

pub(crate) mod answer;
pub(crate) mod events;
mod failure;
pub(crate) mod fork;
pub(crate) mod lists;
pub(crate) mod memory;
mod parts;
pub(crate) mod research;
mod schema;
pub mod via;
pub(crate) mod work;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use failure::Failure;

pub use super::{NOTICE, TRUST};

/// Tools whose arguments carry an event or a state of the caller's.
const CARRIERS: [&str; 2] = ["emit_event", "checkpoint"];

/// Whether a request of MCP calls a tool that carries an event or a state.
#[must_use]
pub fn carries(request: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Request {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    serde_json::from_slice::<Request>(request)
        .is_ok_and(|request| CARRIERS.contains(&&*request.params.name))
}

/// A group of tools that is offered as a whole, to keep the cost of schemas small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolset {
    /// Research sessions; offered by default.
    Research,
    /// Events as they are.
    Events,
    /// What outlives a context window.
    Memory,
}

impl Toolset {
    /// Every toolset.
    pub const ALL: [Self; 3] = [Self::Research, Self::Events, Self::Memory];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Research => "research",
            Self::Events => "events",
            Self::Memory => "memory",
        }
    }

    /// Toolsets from a comma-separated list.
    ///
    /// # Errors
    /// The name that is not a toolset.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut sets = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let known = Self::ALL.into_iter().find(|set| set.as_str() == name);
            let set = known.ok_or_else(|| name.to_owned())?;
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        Ok(sets)
    }
}

/// A tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// A name for people.
    pub title: &'static str,
    /// What it does and when to call it.
    pub description: &'static str,
    /// The group it belongs to.
    pub toolset: Toolset,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether the same call again changes nothing more.
    pub idempotent: bool,
    input: fn() -> Map<String, Value>,
    output: fn() -> Map<String, Value>,
}

impl Tool {
    /// JSON schema of its arguments.
    #[must_use]
    pub fn input_schema(&self) -> Map<String, Value> {
        (self.input)()
    }

    /// JSON schema of its structured answer.
    #[must_use]
    pub fn output_schema(&self) -> Map<String, Value> {
        (self.output)()
    }

    /// What a client may assume of a call, as MCP's annotations say it.
    #[must_use]
    pub fn annotations(&self) -> Value {
        serde_json::json!({
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": false,
            "idempotentHint": self.idempotent,
            "openWorldHint": false,
        })
    }
}

/// Every tool, in the order they are listed.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "sequential_search",
        title: "Record a research step",
        description: "Record one numbered research step durably and get the session's state back. \
                      Start with stepNumber 1 (no sessionId); continue with the next number. The \
                      same number with the same content is a safe retry.",
        toolset: Toolset::Research,
        read_only: false,
        idempotent: true,
        input: schema::input::<research::SequentialSearch>,
        output: schema::output::<answer::ResearchAnswer>,
    },
    Tool {
        name: "get_research_session",
        title: "Recover a session",
        description: "Recover where you were after losing context: goal, summary, index of steps, \
                      last steps, open gaps, sources. Works without arguments for the bound \
                      session; stepId gives one step in full, cursor the rest of a list, find \
                      what the session says of some words.",
        toolset: Toolset::Research,
        read_only: true,
        idempotent: true,
        input: schema::input::<research::GetResearchSession>,
        output: schema::output::<answer::ResearchAnswer>,
    },
    Tool {
        name: "add_sources",
        title: "Add sources",
        description: "Add sources you found to the session; a known URL is not added twice.",
        toolset: Toolset::Research,
        read_only: false,
        idempotent: true,
        input: schema::input::<research::AddSources>,
        output: schema::output::<lists::SourcesAnswer>,
    },
    Tool {
        name: "list_sessions",
        title: "List sessions",
        description: "List recorded sessions, the newest first.",
        toolset: Toolset::Research,
        read_only: true,
        idempotent: true,
        input: schema::input::<research::ListSessions>,
        output: schema::output::<lists::SessionsAnswer>,
    },
    Tool {
        name: "review_history",
        title: "Review history",
        description: "What the sessions written to last were for and where they stand, what to \
                      start from, and which were left unfinished.",
        toolset: Toolset::Research,
        read_only: true,
        idempotent: true,
        input: schema::input::<research::ReviewHistory>,
        output: schema::output::<lists::HistoryAnswer>,
    },
    Tool {
        name: "clear_session",
        title: "Start afresh",
        description: "Unbind this connection from its session; the next stepNumber 1 starts a new \
                      one. Nothing recorded is deleted.",
        toolset: Toolset::Research,
        read_only: false,
        idempotent: true,
        input: schema::input::<research::ClearSession>,
        output: schema::output::<lists::ClearAnswer>,
    },
    Tool {
        name: "emit_event",
        title: "Append an event",
        description: "Append one event to a session, durable before the answer.",
        toolset: Toolset::Events,
        read_only: false,
        idempotent: false,
        input: schema::input::<events::EmitEvent>,
        output: schema::output::<events::EmitAnswer>,
    },
    Tool {
        name: "get_events",
        title: "Read events",
        description: "Read a slice of a session's events. Points: 17, end, -5, event:<id>, \
                      time:<RFC 3339>, step:<n>, action:<type>, checkpoint:<id or label>, \
                      cursor:<name>.",
        toolset: Toolset::Events,
        read_only: true,
        idempotent: true,
        input: schema::input::<events::GetEvents>,
        output: schema::output::<events::EventsAnswer>,
    },
    Tool {
        name: "fork_session",
        title: "Fork a session",
        description: "Start a new session that goes on from a point of this one: to try something \
                      else from there, nothing of either is lost. No event is copied.",
        toolset: Toolset::Events,
        read_only: false,
        idempotent: false,
        input: schema::input::<fork::ForkSession>,
        output: schema::output::<fork::ForkAnswer>,
    },
    Tool {
        name: "checkpoint",
        title: "Make a checkpoint",
        description: "Mark a place of a session to come back to, with your state there. Only what \
                      changed is kept; durable before the answer.",
        toolset: Toolset::Events,
        read_only: false,
        idempotent: false,
        input: schema::input::<work::Checkpoint>,
        output: schema::output::<work::CheckpointAnswer>,
    },
    Tool {
        name: "resume",
        title: "Resume from a checkpoint",
        description: "Go on from a checkpoint: the state and plan there, and what lies behind it. \
                      Any checkpoint will do; nothing is removed. With wake: true a harness takes \
                      the session up: it gets the lease, and what an earlier one left.",
        toolset: Toolset::Events,
        read_only: false,
        idempotent: false,
        input: schema::input::<work::Resume>,
        output: schema::output::<work::ResumeAnswer>,
    },
    Tool {
        name: "continue_session",
        title: "Go on with a session",
        description: "Call it when the context window is nearly full, or when context was lost: \
                      records what was tried and what is next, pages out what the context held, \
                      and gives back all that is needed to go on with the same session.",
        toolset: Toolset::Memory,
        read_only: false,
        idempotent: true,
        input: schema::input::<memory::ContinueSession>,
        output: schema::output::<memory::ContinueAnswer>,
    },
];

/// The tool of that name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// The published list of tools (`proto/mcp/tools.json`).
#[must_use]
pub fn published() -> Value {
    let tools = TOOLS.iter().map(|tool| {
        serde_json::json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "toolset": tool.toolset.as_str(),
            "annotations": tool.annotations(),
            "inputSchema": tool.input_schema(),
            "outputSchema": tool.output_schema(),
        })
    });
    serde_json::json!({ "tools": tools.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests;

//! Arguments and answers of the memory tools. They must not cut anything: harness has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BRIEF_NOTICE, NOTICE, TRUST, answer::bound_by, parts::none};
use crate::{
    api::memory::{
        MemoryBlock, PageInRequest, PagedInAnswer, RememberRequest, Remembered, SkillRequest,
        WantedRange,
    },
    api::views::Continuing,
    event::{EventId, SessionId, Timestamp},
    projection::body::OutcomeBody,
    service::{ContinueCall, Continued},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueSession {
    /// Default: your own.
    session_id: Option<String>,
    /// Size of the answer; default 2000.
    #[schemars(range(min = 400, max = 200_000))]
    tokens_max: Option<usize>,
    /// Where the work stands, in your words.
    summary: Option<String>,
    /// What you tried.
    #[serde(default)]
    tried: Vec<String>,
    /// What of it worked.
    #[serde(default)]
    worked: Vec<String>,
    /// What failed.
    #[serde(default)]
    failed: Vec<String>,
    /// What to do next.
    #[serde(default)]
    next: Vec<String>,
    /// false: only look, page nothing out.
    page_out: Option<bool>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl ContinueSession {
    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    pub(crate) fn into_call(self) -> ContinueCall {
        let Self { tried, worked, failed, next, .. } = self;
        ContinueCall {
            session: None,
            tokens_max: self.tokens_max,
            outcome: OutcomeBody { tried, worked, failed, next },
            summary: self.summary,
            page_out: self.page_out.unwrap_or(true),
            key: None,
        }
    }
}

/// Positions that left the context.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PagedOut {
    from: u64,
    to: u64,
}

/// A continued session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContinueAnswer {
    session_id: String,
    bound_by: &'static str,
    /// The session that is shown: this one continues it, and nothing was done in it yet.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    #[serde(flatten)]
    view: Continuing,
    tokens_max: u64,
    /// What this call paged out; get_events reads it back.
    #[serde(skip_serializing_if = "none")]
    paged_out: Option<PagedOut>,
    /// The checkpoint after it, labelled continuation.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<String>,
    trust: &'static str,
    notice: &'static str,
    /// All of it as one text in Markdown.
    text: String,
}

impl ContinueAnswer {
    pub(crate) fn of(continued: Continued) -> Self {
        let (range, text) = (continued.paged_out, continued.continuation.text);
        Self {
            session_id: continued.session.to_string(),
            bound_by: bound_by(continued.bound_by),
            continues: continued.continues.map(|session| session.to_string()),
            tokens_max: continued.continuation.tokens_max,
            checkpoint: continued.checkpoint,
            text: crate::wire::framed(BRIEF_NOTICE, text.as_deref().unwrap_or_default(), ""),
            view: continued.continuation.view,
            paged_out: range.map(|range| PagedOut { from: range.from.0, to: range.to.0 }),
            trust: TRUST,
            notice: NOTICE,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MemoryInsert {
    #[schemars(length(min = 1, max = 8000))]
    text: String,
    /// semantic (fact, preference), procedural (how to), episodic (what happened), working.
    pub(crate) kind: String,
    topic: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[schemars(range(min = 1, max = 10))]
    importance: Option<u8>,
    /// Replaces the item of that name.
    name: Option<String>,
    /// memoryId that it replaces.
    supersedes: Option<String>,
    /// Instead of a session.
    pub(crate) workspace: Option<String>,
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl MemoryInsert {
    pub(crate) fn into_request(self) -> RememberRequest {
        let Self { text, kind, topic, tags, importance, name, supersedes, .. } = self;
        RememberRequest { text, kind, topic, tags, importance, name, supersedes }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveSkill {
    /// Its name.
    #[schemars(length(min = 1, max = 120))]
    name: String,
    /// What it is for, and when to use it.
    description: String,
    /// The steps.
    body: String,
    #[serde(default)]
    tags: Vec<String>,
    /// Instead of a session: keep it for this workspace.
    pub(crate) workspace: Option<String>,
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl SaveSkill {
    pub(crate) fn into_request(self) -> SkillRequest {
        let Self { name, description, body, tags, .. } = self;
        SkillRequest { name, description, body, tags }
    }
}

/// An item that says much the same.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimilarMemory {
    memory_id: EventId,
    text: String,
}

/// What was remembered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryInserted {
    memory_id: EventId,
    /// The session that keeps it: the notebook of the workspace for what holds beyond a session.
    session_id: SessionId,
    position: u64,
    /// What says much the same; it stays unless supersedes names it.
    similar: Vec<SimilarMemory>,
    trust: &'static str,
    notice: &'static str,
}

impl MemoryInserted {
    pub(crate) fn of(written: Remembered) -> Self {
        let Remembered { memory_id, session, position, similar } = written;
        let similar = similar
            .into_iter()
            .map(|one| SimilarMemory { memory_id: one.memory_id, text: one.text });
        Self {
            memory_id,
            session_id: session,
            position: position.0,
            similar: similar.collect(),
            trust: TRUST,
            notice: NOTICE,
        }
    }
}

/// Which way a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    In,
    Out,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RangeArgument {
    /// Left out: the session of the call.
    session_id: Option<String>,
    from: u64,
    to: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MemoryPageCall {
    /// in: bring blocks back, by ids, ranges or query. out: store what your context holds.
    pub(crate) direction: Direction,
    /// memoryId of each item.
    #[serde(default)]
    ids: Vec<String>,
    /// Positions of events.
    #[serde(default)]
    ranges: Vec<RangeArgument>,
    /// Words to look for.
    query: Option<String>,
    /// Default 2000.
    #[schemars(range(min = 100, max = 200_000))]
    tokens_max: Option<usize>,
    /// Of out: what the context held, in your words.
    pub(crate) summary: Option<String>,
    /// Instead of a session: this workspace.
    workspace: Option<String>,
    /// Left out: the bound session; of a query all sessions.
    pub(crate) session_id: Option<String>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl MemoryPageCall {
    /// True if its session must be known: a query looks in all of them.
    pub(crate) fn needs_session(&self) -> bool {
        self.query.is_none() && self.workspace.is_none()
    }

    pub(crate) fn into_request(self, session: Option<String>) -> PageInRequest {
        let Self { ids, ranges, query, tokens_max, workspace, .. } = self;
        let range = |one: RangeArgument| WantedRange {
            session: one.session_id,
            from: one.from,
            to: one.to,
        };
        let ranges = ranges.into_iter().map(range).collect();
        PageInRequest { session, workspace, ids, ranges, query, tokens_max }
    }
}

/// A block of memory.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockOut {
    session_id: SessionId,
    from: u64,
    to: u64,
    /// The kind of memory; else the type of the event, or events.
    kind: String,
    at: Timestamp,
    #[serde(skip_serializing_if = "none")]
    memory_id: Option<EventId>,
    #[serde(skip_serializing_if = "none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "none")]
    importance: Option<u8>,
    tokens: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
}

impl From<MemoryBlock> for BlockOut {
    fn from(block: MemoryBlock) -> Self {
        Self {
            session_id: block.session,
            from: block.range.from.0,
            to: block.range.to.0,
            kind: block.kind,
            at: block.at,
            memory_id: block.memory_id,
            topic: block.topic,
            importance: block.importance,
            tokens: block.tokens,
            text: block.text,
        }
    }
}

/// What was paged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryPaged {
    /// What came back, in full.
    blocks: Vec<BlockOut>,
    /// What did not fit: ask for it with more tokens, or alone.
    left_out: Vec<BlockOut>,
    tokens: u64,
    /// Those that a workspace: of the query means.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workspaces: Vec<String>,
    /// Of out: the positions that were stored.
    #[serde(skip_serializing_if = "none")]
    paged_out: Option<PagedOut>,
    /// Of out: the checkpoint after it.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<String>,
    trust: &'static str,
    notice: &'static str,
}

impl MemoryPaged {
    pub(crate) fn back(paged: PagedInAnswer) -> Self {
        Self {
            blocks: paged.blocks.into_iter().map(BlockOut::from).collect(),
            left_out: paged.left_out.into_iter().map(BlockOut::from).collect(),
            tokens: paged.tokens,
            workspaces: paged.workspaces,
            paged_out: None,
            checkpoint: None,
            trust: TRUST,
            notice: NOTICE,
        }
    }

    pub(crate) fn out(continued: Continued) -> Self {
        let range = continued.paged_out;
        Self {
            paged_out: range.map(|range| PagedOut { from: range.from.0, to: range.to.0 }),
            checkpoint: continued.checkpoint,
            ..Self::back(PagedInAnswer::default())
        }
    }
}

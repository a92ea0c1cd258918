//! Reuse of tools' results: the result that answers a call, and those a model gets as a reminder,
//! under a budget of tokens. It must not call a tool, nor write: a caller that answers from here
//! records the call itself.

use std::time::Duration;

use serde_json::Value;

use super::{Caller, Service, ServiceError, ServiceResult};
use crate::{
    event::{Event, Position, Range, SessionId, SessionKey},
    projection::{
        Facts, body,
        remembered::{CallBody, Memory, digest},
    },
    store::{Fill, Read},
};

/// Default tokens of remembered results.
pub const REMEMBERED_TOKENS: usize = 4_000;
/// The largest budget of remembered answers.
const REMEMBERED_TOKENS_MAX: usize = 1_000_000;
/// Bytes read for one event at most.
const EVENT_BYTES: usize = 8 << 20;

/// A call that a caller would rather not make again.
#[derive(Clone, Debug)]
pub struct ToolLookup {
    /// The tool's server, when it has one.
    pub server: Option<String>,
    /// The tool.
    pub name: String,
    /// The input of the call.
    pub input: Value,
    /// Maximum age of a result; unlimited when absent.
    pub age_max: Option<Duration>,
    /// Tokens of answers that are remembered.
    pub tokens_max: Option<usize>,
}

/// Why no result can be reused for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The call was not made, or its answer is not in.
    Unknown,
    /// Older than the caller accepts.
    TooOld,
    /// Newer answers took the budget.
    Trimmed,
    /// It was an error, was not kept whole, or its server may have changed since.
    Stale,
}

impl Miss {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::TooOld => "too_old",
            Self::Trimmed => "trimmed",
            Self::Stale => "stale",
        }
    }
}

/// A remembered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolHit {
    /// The event of the result.
    pub result: Event,
    /// Its age.
    pub age: Duration,
    /// How many calls it answered before.
    pub hits: u64,
}

/// Figures of remembered results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolMemory {
    /// Answers within the budget.
    pub count: usize,
    /// Approximate tokens of all.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// Answers that the budget left out.
    pub trimmed: usize,
    /// How many calls were answered from here.
    pub hits: u64,
}

/// A call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The event of the call.
    pub call: Event,
    /// The event of the result.
    pub result: Event,
    /// Its approximate tokens.
    pub tokens: usize,
}

impl Service {
    /// The result to reuse for a call, or why there is none.
    ///
    /// # Errors
    /// `invalid_request`, `session_damaged`, and those of the session.
    pub async fn tool_lookup(
        &self,
        caller: &Caller,
        session: &SessionId,
        lookup: ToolLookup,
    ) -> ServiceResult<(Result<ToolHit, Miss>, ToolMemory)> {
        if lookup.name.is_empty() {
            return Err(ServiceError::invalid("name", "name the tool"));
        }
        let tokens_max = budget(lookup.tokens_max)?;
        let key = caller.key(session);
        let wanted = digest(lookup.server.as_deref(), &lookup.name, &lookup.input);
        let look = |facts: &Facts| {
            let found = facts.remembered.find(wanted).cloned();
            let kept = |memory: &Memory| {
                facts.remembered.within(tokens_max).any(|one| one.result == memory.result)
            };
            (found.as_ref().is_some_and(kept), found, figures(facts, tokens_max))
        };
        let (kept, found, memory) = self.with_facts(&key, |_, facts| look(facts)).await?;
        let Some(found) = found else { return Ok((Err(Miss::Unknown), memory)) };
        let age = self.now().0.saturating_sub(found.at.0).max(0).unsigned_abs();
        let age = Duration::from_micros(age);
        let miss = if !found.answers {
            Some(Miss::Stale)
        } else if !kept {
            Some(Miss::Trimmed)
        } else {
            lookup.age_max.is_some_and(|most| age > most).then_some(Miss::TooOld)
        };
        if let Some(miss) = miss {
            return Ok((Err(miss), memory));
        }
        let call = self.event_at(&key, found.call).await?;
        let body = call.and_then(|call| body::read_tree::<CallBody>(&call.body));
        // Digests of different calls may be alike; the calls are not.
        let same = body.is_some_and(|body| {
            body.name == lookup.name && body.server == lookup.server && body.input == lookup.input
        });
        let result = if same { self.event_at(&key, found.result).await? } else { None };
        let hit = result.map(|result| ToolHit { result, age, hits: found.hits });
        Ok((hit.ok_or(Miss::Unknown), memory))
    }

    /// What tools answered within a budget, oldest first, from a position on.
    ///
    /// # Errors
    /// `invalid_request`, `session_damaged`, and those of the session.
    pub async fn tool_outputs(
        &self,
        caller: &Caller,
        session: &SessionId,
        from: Position,
        tokens_max: Option<usize>,
    ) -> ServiceResult<(Vec<ToolOutput>, ToolMemory)> {
        let tokens_max = budget(tokens_max)?;
        let key = caller.key(session);
        let look = move |facts: &Facts| {
            let all = facts.remembered.within(tokens_max).filter(|one| one.result >= from);
            (all.cloned().collect::<Vec<_>>(), figures(facts, tokens_max))
        };
        let (mut memories, figures) = self.view_facts(&key, move |_, facts| look(facts)).await?;
        memories.reverse();
        let mut outputs = Vec::with_capacity(memories.len());
        for memory in memories {
            let call = self.event_at(&key, memory.call).await?;
            let result = self.event_at(&key, memory.result).await?;
            if let (Some(call), Some(result)) = (call, result) {
                outputs.push(ToolOutput { call, result, tokens: memory.tokens });
            }
        }
        Ok((outputs, figures))
    }

    /// The event at a position, if there is one.
    pub(super) async fn event_at(
        &self,
        key: &SessionKey,
        at: Position,
    ) -> ServiceResult<Option<Event>> {
        let read = Read {
            range: Range::new(at, at.plus(1)),
            events_max: 1,
            bytes_max: EVENT_BYTES,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        Ok(self.store.read(key, read).await?.events.into_iter().next())
    }
}

fn budget(tokens_max: Option<usize>) -> ServiceResult<usize> {
    let tokens_max = tokens_max.unwrap_or(REMEMBERED_TOKENS);
    if tokens_max > REMEMBERED_TOKENS_MAX {
        let problem = format!("at most {REMEMBERED_TOKENS_MAX}");
        return Err(ServiceError::invalid("tokens_max", problem));
    }
    Ok(tokens_max)
}

fn figures(facts: &Facts, tokens_max: usize) -> ToolMemory {
    let within = facts.remembered.within(tokens_max);
    let (count, tokens) =
        within.fold((0, 0), |(count, tokens), memory| (count + 1, tokens + memory.tokens));
    ToolMemory {
        count,
        tokens,
        tokens_max,
        trimmed: facts.remembered.len() - count,
        hits: facts.remembered.hits(),
    }
}

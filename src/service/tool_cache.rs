//! Reuse of tool results: the result for a repeated call, and the results a model gets as a
//! reminder within a token budget. It must not call a tool, nor write: a caller that reuses a
//! result records the call itself.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::{Caller, Service, ServiceError, ServiceResult};
use crate::{
    api::tool_cache::{LookupRequest, MemoryFigures},
    event::{Event, Position, SessionId, text::TOKEN_BYTES},
    harness,
    projection::{
        Facts, body,
        reusable_results::{RememberedResult, digest, has_text},
    },
    traces::{ToolBody, content_text},
};

/// Default token budget of reused results.
pub const REMEMBERED_TOKENS: usize = 4_000;
/// Maximum token budget of reused results.
const REMEMBERED_TOKENS_MAX: usize = 1_000_000;
/// Maximum bytes of a member kept next to a truncated text, and bytes around that text.
const MEMBER_BYTES_MAX: usize = 300;
const CUT_FRAME_BYTES: usize = 48;

/// Reason why no result can be reused for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMiss {
    /// The call was not made, or its result is missing.
    Unknown,
    /// The result is older than the caller accepts.
    TooOld,
    /// Newer results used the budget.
    Trimmed,
    /// The result was an error, is incomplete, or its server may have changed since.
    Stale,
}

impl CacheMiss {
    /// Returns the name of the reason.
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

/// A reusable result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolHit {
    /// Event of the result.
    pub result: Event,
    /// Age of the result.
    pub age: Duration,
    /// Number of earlier reuses.
    pub hits: u64,
}

/// A call and its result, without members that a reader of outputs does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// Event of the call.
    pub call: Event,
    /// Event of the result.
    pub result: Event,
    /// Approximate tokens of both.
    pub tokens: usize,
}

impl Service {
    /// Returns the result to reuse for a call, or the reason why there is none.
    ///
    /// # Errors
    /// `invalid_request`, `session_damaged`, and those of the session.
    pub async fn tool_lookup(
        &self,
        caller: &Caller,
        session: &SessionId,
        lookup: LookupRequest,
    ) -> ServiceResult<(Result<ToolHit, CacheMiss>, MemoryFigures)> {
        if lookup.name.is_empty() {
            return Err(ServiceError::invalid("name", "name the tool"));
        }
        let tokens_max = parse_budget(lookup.tokens_max)?;
        let age_max = lookup.max_age_seconds.map(Duration::from_secs);
        let key = caller.key(session);
        let wanted = digest(lookup.server.as_deref(), &lookup.name, &lookup.input);
        let look = |facts: &Facts| {
            let found = facts.remembered.find(wanted).cloned();
            let kept = |memory: &RememberedResult| {
                let within = facts.remembered.fit_newest(tokens_max);
                within.iter().any(|(one, _)| one.result == memory.result)
            };
            (found.as_ref().is_some_and(kept), found, memory_figures(facts, tokens_max))
        };
        let (kept, found, memory) = self.with_facts(&key, |_, facts| look(facts)).await?;
        let Some(found) = found else { return Ok((Err(CacheMiss::Unknown), memory)) };
        let age = self.now().0.saturating_sub(found.at.0).max(0).unsigned_abs();
        let age = Duration::from_micros(age);
        let miss = if !found.answers {
            Some(CacheMiss::Stale)
        } else if !kept {
            Some(CacheMiss::Trimmed)
        } else {
            age_max.is_some_and(|most| age > most).then_some(CacheMiss::TooOld)
        };
        if let Some(miss) = miss {
            return Ok((Err(miss), memory));
        }
        let call = self.read_event(&key, found.call).await?;
        // Digests of different calls may collide, so the calls are compared.
        let same = call.as_ref().and_then(|call| ToolBody::parse(&call.body)).is_some_and(|call| {
            call.name.as_ref() == Some(&lookup.name)
                && call.server == lookup.server
                && call.input_tree().as_ref() == Some(&lookup.input)
        });
        let result = if same { self.read_event(&key, found.result).await? } else { None };
        let hit = result.map(|result| ToolHit { result, age, hits: found.hits });
        Ok((hit.ok_or(CacheMiss::Unknown), memory))
    }

    /// Returns tool results within a budget, oldest first, from a position on.
    ///
    /// # Errors
    /// `invalid_request`, `session_damaged`, and those of the session.
    pub async fn tool_outputs(
        &self,
        caller: &Caller,
        session: &SessionId,
        from: Position,
        tokens_max: Option<usize>,
    ) -> ServiceResult<(Vec<ToolOutput>, MemoryFigures)> {
        let tokens_max = parse_budget(tokens_max)?;
        let key = caller.key(session);
        let look = move |facts: &Facts| {
            let all = facts.remembered.fit_newest(tokens_max).into_iter();
            let all = all.filter(|(one, _)| one.result >= from);
            let all = all.map(|(one, tokens)| (one.clone(), tokens));
            (all.collect::<Vec<_>>(), memory_figures(facts, tokens_max))
        };
        let (mut memories, figures) = self.view_facts(&key, move |_, facts| look(facts)).await?;
        memories.reverse();
        let mut outputs = Vec::with_capacity(memories.len());
        for (memory, tokens) in memories {
            let call = self.read_event(&key, memory.call).await?;
            let result = self.read_event(&key, memory.result).await?;
            if let (Some(call), Some(result)) = (call, result) {
                outputs.push(truncate_output(call, result, tokens));
            }
        }
        Ok((outputs, figures))
    }
}

fn parse_budget(tokens_max: Option<usize>) -> ServiceResult<usize> {
    let tokens_max = tokens_max.unwrap_or(REMEMBERED_TOKENS);
    if tokens_max > REMEMBERED_TOKENS_MAX {
        let problem = format!("at most {REMEMBERED_TOKENS_MAX}");
        return Err(ServiceError::invalid("tokens_max", problem));
    }
    Ok(tokens_max)
}

/// Truncates a call and its result to a token budget: the input gets at least a quarter.
fn truncate_output(mut call: Event, mut result: Event, tokens: usize) -> ToolOutput {
    let bytes_max = tokens.saturating_mul(TOKEN_BYTES);
    for event in [&mut call, &mut result] {
        if let Some(bare) = without_extra_members(&event.body) {
            event.body = bare;
        }
    }
    if call.body.len() + result.body.len() > bytes_max {
        let of_call = bytes_max.saturating_sub(result.body.len()).max(bytes_max / 4);
        truncate_member(&mut call, "input", of_call);
        truncate_member(&mut result, "content", bytes_max.saturating_sub(call.body.len()));
    }
    ToolOutput { call, result, tokens }
}

/// Returns the body of a call or result without the recorder's additional members.
fn without_extra_members(body: &Bytes) -> Option<Bytes> {
    let mut members: BTreeMap<String, &RawValue> = body::read(body)?;
    let is_said = has_text(members.get("content").copied());
    members.retain(|name, _| name != "raw" && !(is_said && name == "result"));
    Some(body::write(&members))
}

/// Truncates the text of a member, so that the body fits; drops other long members.
fn truncate_member(event: &mut Event, name: &str, bytes_max: usize) {
    let bytes = event.body.len();
    let members = body::read::<BTreeMap<String, &RawValue>>(&event.body);
    let Some(mut members) = members.filter(|_| bytes > bytes_max) else { return };
    let long = members.remove(name);
    members.retain(|_, value| value.get().len() <= MEMBER_BYTES_MAX);
    let size = serde_json::value::to_raw_value(&json!({ "bytes": bytes })).ok();
    if let Some(size) = &size {
        members.insert("truncated".to_owned(), size);
    }
    let around = members.iter().map(|(name, value)| name.len() + value.get().len() + 4);
    let room = bytes_max.saturating_sub(around.sum::<usize>() + CUT_FRAME_BYTES);
    let text = long.map(content_text).unwrap_or_default();
    let text = harness::fit(&text, room).text;
    let value = match name {
        "input" => Value::from(text),
        _ => json!([{ "type": "text", "text": text }]),
    };
    let value = serde_json::value::to_raw_value(&value).ok();
    if let Some(value) = &value {
        members.insert(name.to_owned(), value);
    }
    event.body = body::write(&members);
}

fn memory_figures(facts: &Facts, tokens_max: usize) -> MemoryFigures {
    let within = facts.remembered.fit_newest(tokens_max);
    let (count, tokens) = (within.len(), within.iter().map(|(_, tokens)| tokens).sum());
    MemoryFigures {
        count,
        tokens,
        tokens_max,
        trimmed: facts.remembered.len() - count,
        hits: facts.remembered.hits(),
    }
}

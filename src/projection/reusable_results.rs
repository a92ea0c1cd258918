//! Results of tools that may answer the same call again: the position of the call and of its
//! result, its age, and whether reuse is allowed. It must not keep a result's text: the log does.
//!
//! The result of a call that is not read-only (`read_only: false`) is never reused, and makes
//! earlier results of its server stale. Errors, truncated results and those with redacted secrets
//! are not reused either. `context.cleared` empties the list; the log keeps everything.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    event::{Event, Position, Timestamp, kinds, push_bounded, text::TOKEN_BYTES},
    traces::{ToolBody, content_text},
};

/// Most results kept; the oldest are dropped first.
const MEMORIES_MAX: usize = 1_000;
/// Most calls without a result that are kept.
const CALLS_MAX: usize = 256;

/// A result that may be reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedResult {
    /// Position of the call.
    pub call: Position,
    /// Position of its result.
    pub result: Position,
    /// Time of the result: the store's, or an earlier one in the event if it was delivered late.
    pub at: Timestamp,
    /// Estimated tokens of the call and its result.
    pub tokens: usize,
    /// True if it may answer the same call.
    pub answers: bool,
    /// Number of calls that it answered.
    pub hits: u64,
    server: Option<Arc<str>>,
    digest: u64,
}

#[derive(Clone, Debug)]
struct CacheableCall {
    id: Box<str>,
    position: Position,
    server: Option<Arc<str>>,
    digest: u64,
    reads: Option<bool>,
    whole: bool,
    bytes: usize,
}

/// Results of a session's tools that may be reused.
#[derive(Clone, Debug, Default)]
pub struct RememberedResults {
    list: VecDeque<RememberedResult>,
    calls: VecDeque<CacheableCall>,
    hits: u64,
}

/// Returns the bytes of a call's or result's body that a reader receives.
fn delivered_bytes(event: &Event, body: &ToolBody<'_>) -> usize {
    let bytes = |value: Option<&RawValue>| value.map_or(0, |value| value.get().len());
    let beside = body.result.filter(|_| has_text(body.content));
    event.body.len() - bytes(body.raw) - bytes(beside)
}

/// Returns true if a result has text, so that a reader needs no other member of it.
#[must_use]
pub fn has_text(content: Option<&RawValue>) -> bool {
    content.is_some_and(|said| said.get() != "null" && !content_text(said).trim().is_empty())
}

/// Returns true if a result is final: a server may request input first, or start a task.
fn is_complete(result: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct ResultKind {
        #[serde(rename = "resultType")]
        kind: Option<String>,
    }
    let kind = result.and_then(|rest| serde_json::from_str::<ResultKind>(rest.get()).ok());
    kind.and_then(|kind| kind.kind).is_none_or(|kind| kind == "complete")
}

/// Source of a reused result.
#[derive(Deserialize)]
struct CachedFrom {
    position: u64,
}

/// Hashes a call; the same tool and an equivalent input have equal hashes.
#[must_use]
pub fn digest(server: Option<&str>, name: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (server, name).hash(&mut hasher);
    hash_value(input, &mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(members) => {
            // The order of members does not matter: their hashes are added.
            let all = members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut one = DefaultHasher::new();
                name.hash(&mut one);
                hash_value(value, &mut one);
                one.finish()
            });
            (1_u8, all.fold(0_u64, u64::wrapping_add)).hash(hasher);
        }
        Value::Array(values) => {
            (2_u8, values.len()).hash(hasher);
            values.iter().for_each(|value| hash_value(value, hasher));
        }
        other => (3_u8, other.to_string()).hash(hasher),
    }
}

impl RememberedResults {
    /// Returns the newest results that fit a budget, each with its tokens; larger ones than the
    /// budget are skipped. If the newest is larger, it is cut to the rest, at least half of the
    /// budget.
    #[must_use]
    pub fn fit_newest(&self, tokens_max: usize) -> Vec<(&RememberedResult, usize)> {
        let cut = self.list.back().filter(|newest| newest.tokens > tokens_max);
        let mut left = if cut.is_some() { tokens_max / 2 } else { tokens_max };
        let of_cut = tokens_max - left;
        let whole = self.list.iter().rev().filter(|memory| memory.tokens <= tokens_max);
        let whole = whole.map_while(|memory| {
            left = left.checked_sub(memory.tokens)?;
            Some((memory, memory.tokens))
        });
        let whole: Vec<_> = whole.collect();
        cut.map(|newest| (newest, of_cut + left)).into_iter().chain(whole).collect()
    }

    /// Returns the number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if no result is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of calls that were answered with a kept result.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Returns the newest result of a call, regardless of whether it may be reused.
    #[must_use]
    pub fn find(&self, digest: u64) -> Option<&RememberedResult> {
        self.list.iter().rev().find(|memory| memory.digest == digest)
    }

    /// Folds a tool event or `context.cleared`; ignores others.
    pub fn fold(&mut self, event: &Event) {
        match event.kind.as_str() {
            kind if kinds::is_call(kind) => {
                self.fold_call(event);
            }
            kind if kinds::is_result(kind) => {
                self.fold_result(event);
            }
            kinds::CONTEXT_CLEARED => self.list.clear(),
            _ => {}
        }
    }

    fn fold_call(&mut self, event: &Event) -> Option<()> {
        let call = ToolBody::parse(&event.body)?;
        let server: Option<Arc<str>> = call.server.as_deref().map(Into::into);
        let digest = digest(server.as_deref(), call.name.as_deref()?, &call.input_tree()?);
        if call.read_only == Some(false) {
            self.mark_stale(server.as_deref());
        }
        push_bounded(
            &mut self.calls,
            CacheableCall {
                digest,
                bytes: delivered_bytes(event, &call),
                id: call.call_id.unwrap_or_else(|| event.id.to_string()).into(),
                position: event.position,
                server,
                reads: call.read_only,
                whole: call.redactions.is_none() && call.cached.is_none(),
            },
            CALLS_MAX,
        );
        Some(())
    }

    fn fold_result(&mut self, event: &Event) -> Option<()> {
        let result = ToolBody::parse(&event.body)?;
        let cached = result.cached.map(|cached| serde_json::from_str::<CachedFrom>(cached.get()));
        let cached = cached.transpose().ok()?;
        let failed = result.is_error.unwrap_or(false) || !is_complete(result.result);
        let id = result.id()?;
        let at = self.calls.iter().rposition(|call| *call.id == *id)?;
        let call = self.calls.remove(at)?;
        if let Some(cached) = cached {
            self.hits += 1;
            let mut list = self.list.iter_mut();
            if let Some(original) = list.find(|one| one.result.0 == cached.position) {
                original.hits += 1;
            }
            return Some(());
        }
        if call.reads == Some(false) {
            self.mark_stale(call.server.as_deref());
        }
        self.list.retain(|memory| memory.digest != call.digest);
        let cut = result.truncated.is_some() || result.redactions.is_some();
        push_bounded(
            &mut self.list,
            RememberedResult {
                call: call.position,
                result: event.position,
                at: event.happened_at(),
                tokens: (call.bytes + delivered_bytes(event, &result)).div_ceil(TOKEN_BYTES),
                answers: call.reads != Some(false) && call.whole && !failed && !cut,
                hits: 0,
                server: call.server,
                digest: call.digest,
            },
            MEMORIES_MAX,
        );
        Some(())
    }

    /// Marks the results of a server as stale after a change there.
    fn mark_stale(&mut self, server: Option<&str>) {
        let its = |memory: &&mut RememberedResult| memory.server.as_deref() == server;
        self.list.iter_mut().filter(its).for_each(|memory| memory.answers = false);
        // Calls in progress may have read the state before the change.
        let under_way = self.calls.iter_mut().filter(|call| call.server.as_deref() == server);
        under_way.for_each(|call| call.whole = false);
    }

    pub(super) fn weight(&self) -> usize {
        self.list.len() * size_of::<RememberedResult>()
            + self.calls.len() * (size_of::<CacheableCall>() + 32)
    }
}

//! Results of tools in a session, so that the same call need not be made again: the call, the
//! position of its result, its age, and whether it may answer another call. It must not keep a
//! result's text: the log does.
//!
//! The result of a call that is not read-only (`read_only: false`) is never reused, and earlier
//! results of its server may be stale from then on. Nor is a result reused that was an error, was
//! cut, or had secrets removed. `context.cleared` empties it; the log keeps everything.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::{body, conversation::words};
use crate::event::{Event, Position, Timestamp, kinds};

/// Answers remembered at most; the oldest go first.
const MEMORIES_MAX: usize = 1_000;
/// Most calls that wait for their result.
const CALLS_MAX: usize = 256;
/// Bytes of text for each token, about.
const TOKEN_BYTES: usize = 4;

/// An answer that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where the call is.
    pub call: Position,
    /// Where its result is.
    pub result: Position,
    /// The time of the result: the store's, or an earlier one in the event, when it was delivered
    /// late.
    pub at: Timestamp,
    /// Approximate tokens of its text.
    pub tokens: usize,
    /// Whether it may answer the same call.
    pub answers: bool,
    /// How often it did.
    pub hits: u64,
    server: Option<Arc<str>>,
    digest: u64,
}

#[derive(Clone, Debug)]
struct Call {
    id: Box<str>,
    position: Position,
    server: Option<Arc<str>>,
    digest: u64,
    reads: Option<bool>,
    whole: bool,
}

/// Remembered results of a session's tools.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    list: VecDeque<Memory>,
    calls: VecDeque<Call>,
    hits: u64,
}

/// A call, as in its event.
#[derive(Debug, Deserialize)]
pub struct CallBody {
    /// The tool.
    pub name: String,
    /// Its server.
    #[serde(alias = "mcp_server_name")]
    pub server: Option<String>,
    /// Its input.
    #[serde(default)]
    pub input: Value,
    call_id: Option<String>,
    read_only: Option<bool>,
    redactions: Option<IgnoredAny>,
    cached: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ResultBody<'a> {
    call_id: Option<String>,
    tool_use_id: Option<String>,
    mcp_tool_use_id: Option<String>,
    custom_tool_use_id: Option<String>,
    is_error: Option<bool>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    redactions: Option<IgnoredAny>,
    truncated: Option<IgnoredAny>,
    cached: Option<Cached>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl ResultBody<'_> {
    /// Whether the result is final: a server may ask for input first, or start a task.
    fn is_complete(&self) -> bool {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "resultType")]
            kind: Option<String>,
        }
        let kind = self.result.and_then(|rest| serde_json::from_str::<Kind>(rest.get()).ok());
        kind.and_then(|kind| kind.kind).is_none_or(|kind| kind == "complete")
    }
}

/// The source of a reused result.
#[derive(Deserialize)]
struct Cached {
    position: u64,
}

/// Hash of a call: equal for the same tool and an equivalent input.
#[must_use]
pub fn digest(server: Option<&str>, name: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (server, name).hash(&mut hasher);
    mix(input, &mut hasher);
    hasher.finish()
}

fn mix(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(members) => {
            // Members have no order: their hashes are added.
            let all = members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut one = DefaultHasher::new();
                name.hash(&mut one);
                mix(value, &mut one);
                one.finish()
            });
            (1_u8, all.fold(0_u64, u64::wrapping_add)).hash(hasher);
        }
        Value::Array(values) => {
            (2_u8, values.len()).hash(hasher);
            values.iter().for_each(|value| mix(value, hasher));
        }
        other => (3_u8, other.to_string()).hash(hasher),
    }
}

impl Remembered {
    /// What fits a budget of tokens, the newest first; the newest one in any case.
    pub fn within(&self, tokens_max: usize) -> impl Iterator<Item = &Memory> {
        let mut tokens = 0_usize;
        self.list
            .iter()
            .rev()
            .enumerate()
            .take_while(move |(at, memory)| {
                tokens = tokens.saturating_add(memory.tokens);
                *at == 0 || tokens <= tokens_max
            })
            .map(|(_, memory)| memory)
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many calls were answered from here.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// The newest result of a call, whether or not it may be reused.
    #[must_use]
    pub fn find(&self, digest: u64) -> Option<&Memory> {
        self.list.iter().rev().find(|memory| memory.digest == digest)
    }

    /// Folds an event, if it is of a tool.
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
        let call: CallBody = body::read_tree(&event.body)?;
        let server: Option<Arc<str>> = call.server.as_deref().map(Into::into);
        if call.read_only == Some(false) {
            self.mark_stale(server.as_deref());
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(Call {
            digest: digest(server.as_deref(), &call.name, &call.input),
            id: call.call_id.unwrap_or_else(|| event.id.to_string()).into(),
            position: event.position,
            server,
            reads: call.read_only,
            whole: call.redactions.is_none() && call.cached.is_none(),
        });
        Some(())
    }

    fn fold_result(&mut self, event: &Event) -> Option<()> {
        let result: ResultBody<'_> = body::read(&event.body)?;
        let failed = result.is_error.unwrap_or(false) || !result.is_complete();
        let id = result.call_id.or(result.tool_use_id);
        let id = id.or(result.mcp_tool_use_id).or(result.custom_tool_use_id)?;
        let at = self.calls.iter().rposition(|call| *call.id == *id)?;
        let call = self.calls.remove(at)?;
        if let Some(cached) = result.cached {
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
        if self.list.len() == MEMORIES_MAX {
            self.list.pop_front();
        }
        let cut = result.truncated.is_some() || result.redactions.is_some();
        self.list.push_back(Memory {
            call: call.position,
            result: event.position,
            at: event.created_at.map_or(event.processed_at, |at| at.min(event.processed_at)),
            tokens: result.content.map_or(0, |said| words(said).len()).div_ceil(TOKEN_BYTES),
            answers: call.reads != Some(false) && call.whole && !failed && !cut,
            hits: 0,
            server: call.server,
            digest: call.digest,
        });
        Some(())
    }

    /// A server's answers may be stale: something was changed there.
    fn mark_stale(&mut self, server: Option<&str>) {
        let its = |memory: &&mut Memory| memory.server.as_deref() == server;
        self.list.iter_mut().filter(its).for_each(|memory| memory.answers = false);
        // Calls under way may have read the state before.
        let under_way = self.calls.iter_mut().filter(|call| call.server.as_deref() == server);
        under_way.for_each(|call| call.whole = false);
    }

    pub(super) fn weight(&self) -> usize {
        self.list.len() * size_of::<Memory>() + self.calls.len() * (size_of::<Call>() + 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::tests::event;
    use serde_json::json;

    fn folded(events: &[(&str, Value)]) -> Remembered {
        let mut remembered = Remembered::default();
        for (position, (kind, body)) in (0..).zip(events) {
            remembered.fold(&event(position, kind, body.to_string()));
        }
        remembered
    }

    fn call(id: &str, name: &str, more: Value) -> (&'static str, Value) {
        let mut body = json!({"name": name, "input": {"q": 1}, "call_id": id, "server": "s"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        ("agent.tool_use", body)
    }

    fn result(id: &str, more: Value) -> (&'static str, Value) {
        let mut body = json!({"call_id": id, "content": [{"type": "text", "text": "abcdefgh"}]});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        ("agent.tool_result", body)
    }

    fn answers(events: &[(&str, Value)]) -> bool {
        let found = folded(events);
        let memory = found.find(digest(Some("s"), "read", &json!({"q": 1})));
        memory.is_some_and(|memory| memory.answers)
    }

    #[test]
    fn an_answer_stands_for_the_same_call_until_its_server_may_have_changed() {
        let read = || [call("1", "read", json!({"read_only": true})), result("1", json!({}))];
        let with = |more: Vec<(&'static str, Value)>| answers(&[read().to_vec(), more].concat());
        assert!(with(vec![]));
        assert!(!with(vec![call("2", "write", json!({"read_only": false}))]), "a write began");
        assert!(with(vec![call("2", "write", json!({"read_only": false, "server": "t"}))]));
        assert!(with(vec![call("2", "look", json!({"read_only": true}))]));
        assert!(with(vec![call("2", "unknown", json!({}))]), "nobody says that it writes");
        assert!(!with(vec![(kinds::CONTEXT_CLEARED, json!({}))]), "a fresh start");
        let overtaken = [
            call("w", "write", json!({"read_only": false})),
            call("1", "read", json!({})),
            result("1", json!({})),
            result("w", json!({})),
        ];
        assert!(!answers(&overtaken), "the write was under way");
        let around = [
            call("1", "read", json!({})),
            call("w", "write", json!({"read_only": false})),
            result("w", json!({})),
            result("1", json!({})),
        ];
        assert!(!answers(&around), "what was read may be older than what was written");
    }

    #[test]
    fn only_what_a_tool_would_answer_again_stands_for_it() {
        for (of_call, of_result, expected) in [
            (json!({}), json!({}), true),
            (json!({"read_only": false}), json!({}), false),
            (json!({}), json!({"is_error": true}), false),
            (json!({}), json!({"is_error": false}), true),
            (json!({"redactions": {"jwt": 1}}), json!({}), false),
            (json!({}), json!({"redactions": {"jwt": 1}}), false),
            (json!({}), json!({"truncated": true}), false),
        ] {
            let said = [call("1", "read", of_call.clone()), result("1", of_result.clone())];
            assert_eq!(answers(&said), expected, "{of_call} {of_result}");
        }
    }

    #[test]
    fn the_oldest_answers_go_first_and_the_newest_stays() {
        let mut events = Vec::new();
        for n in 0..1_200 {
            let id = n.to_string();
            events.push(call(&id, "read", json!({"input": {"q": n}})));
            events.push(result(&id, json!({})));
        }
        let remembered = folded(&events);
        assert_eq!(remembered.len(), MEMORIES_MAX);
        for (tokens_max, kept) in [(0, 1), (2, 1), (3, 1), (4, 2), (20, 10), (9_999, 1_000)] {
            let within: Vec<_> = remembered.within(tokens_max).map(|one| one.result.0).collect();
            assert_eq!((within.len(), within[0]), (kept, 2_399), "{tokens_max}");
        }
    }

    #[test]
    fn an_answer_given_again_is_counted_and_not_remembered_twice() {
        let remembered = folded(&[
            call("1", "read", json!({})),
            result("1", json!({})),
            call("2", "read", json!({"cached": {"position": 1}})),
            result("2", json!({"cached": {"position": 1, "age_ms": 7}})),
        ]);
        assert_eq!((remembered.len(), remembered.hits()), (1, 1));
        assert_eq!(remembered.within(9).map(|one| one.hits).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_call_is_known_by_what_it_means() {
        let named = |text: &str| digest(None, "t", &serde_json::from_str(text).expect("JSON"));
        assert_eq!(named(r#"{"a":1,"b":[1,2]}"#), named(r#"{ "b":[1,2], "a":1, "c":null }"#));
        for other in [r#"{"a":1,"b":[2,1]}"#, r#"{"a":"1","b":[1,2]}"#, "{}", r#"[1,2]"#] {
            assert_ne!(named(r#"{"a":1,"b":[1,2]}"#), named(other), "{other}");
        }
        assert_ne!(digest(None, "t", &Value::Null), digest(Some("s"), "t", &Value::Null));
    }
}

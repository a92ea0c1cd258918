//! Members of a JSON-RPC message that a proxy needs: id, method, and the raw text of the rest
//! with its range, so that a change is an insertion and every other byte stays. Invalid input is
//! not a message. It must not depend on a revision of the protocol.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    event::json,
    wire::rpc::{self, RpcPart},
};

/// JSON-RPC message whose members are raw JSON text.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct RpcMessage<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Parameters of `tools/call`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CallParams<'a> {
    pub(super) name: String,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Option<Value>,
    /// The client requests a task instead of an answer.
    #[serde(default)]
    task: Option<serde::de::IgnoredAny>,
    /// The client's responses to the server's last requests.
    #[serde(default, rename = "inputResponses")]
    responses: Option<serde::de::IgnoredAny>,
    /// The server's opaque state of an earlier call.
    #[serde(default, rename = "requestState")]
    state: Option<serde::de::IgnoredAny>,
}

impl CallParams<'_> {
    /// Returns true if the call starts a task or continues a call: no earlier result may answer it.
    pub(super) fn starts_or_continues_task(&self) -> bool {
        self.task.is_some() || self.responses.is_some() || self.state.is_some()
    }
}

/// Result of `tools/call`.
#[derive(Debug, Deserialize)]
pub(super) struct CallResult<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default, rename = "isError")]
    pub(super) is_error: Option<bool>,
}

/// Parameters of `tools/list`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ListParams {
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

/// Result of `tools/list`.
#[derive(Debug, Deserialize)]
pub(super) struct ListResult<'a> {
    #[serde(borrow)]
    pub(super) tools: &'a RawValue,
    #[serde(default, rename = "nextCursor")]
    pub(super) next: Option<Value>,
}

/// Members of a listed tool that the proxy reads.
#[derive(Debug, Deserialize)]
pub(super) struct ListedTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) annotations: Option<Annotations>,
    #[serde(default, rename = "inputSchema")]
    pub(super) input: Option<Value>,
}

/// A tool's annotations.
#[derive(Debug, Deserialize)]
pub(super) struct Annotations {
    #[serde(default, rename = "readOnlyHint")]
    pub(super) read_only: Option<bool>,
    #[serde(default, rename = "idempotentHint")]
    pub(super) idempotent: Option<bool>,
    #[serde(default, rename = "openWorldHint")]
    pub(super) open_world: Option<bool>,
}

impl RpcMessage<'_> {
    /// Parses the method of a request or a notification.
    pub(super) fn method(&self) -> Option<String> {
        serde_json::from_str(self.method?.get()).ok()
    }

    pub(super) fn has_method(&self) -> bool {
        self.method.is_some()
    }

    /// Parses the id.
    pub(super) fn id(&self) -> Option<Value> {
        serde_json::from_str(json::check(self.id?.get())?).ok()
    }

    /// Returns the JSON text of the id, as a key.
    pub(super) fn key(&self) -> Option<String> {
        self.id.map(|id| id.get().to_owned())
    }
}

/// Parses the messages of a text; skips invalid ones.
pub(super) fn parse_messages(text: &str) -> Vec<RpcMessage<'_>> {
    let message = |part| match part {
        RpcPart::Message(text) => serde_json::from_str(text).ok(),
        RpcPart::Broken(_) => None,
    };
    rpc::split_messages(text).into_iter().filter_map(message).collect()
}

pub(super) fn get_member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let members = serde_json::from_str(json::check_levels(object.get(), 1)?);
    members.ok().and_then(|members: BTreeMap<Cow<'_, str>, &RawValue>| members.get(name).copied())
}

/// Parses a JSON string.
pub(super) fn parse_string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Text to insert, and its byte offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    pub(super) at: usize,
    pub(super) text: String,
}

/// Returns the insertion that appends elements to an array within `text`.
pub(super) fn append_elements(
    text: &str,
    array: &RawValue,
    elements: &[String],
) -> Option<Insertion> {
    let inside = array.get().strip_prefix('[')?.strip_suffix(']')?;
    if elements.is_empty() {
        return None;
    }
    let begin = array.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let at = begin + array.get().len() - 1;
    let comma = if inside.trim().is_empty() { "" } else { "," };
    Some(Insertion { at, text: format!("{comma}{}", elements.join(",")) })
}

pub(super) fn apply_insertions(text: &str, mut insertions: Vec<Insertion>) -> String {
    insertions.sort_by_key(|one| one.at);
    let mut out = String::with_capacity(text.len() + 1_024);
    let mut done = 0;
    for one in insertions {
        out.push_str(text.get(done..one.at).unwrap_or_default());
        out.push_str(&one.text);
        done = one.at;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_parses_to_no_message_and_a_batch_to_several() {
        for (text, count) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 1),
            (r#" [{"id":1,"method":"a"},{"id":2,"method":"b"}] "#, 2),
            (r#"{"id":1,"id":2}"#, 0),
            ("[1,2]", 0),
            (r#"{"id":1,"method":"a"}{"id":2,"method":"b"}"#, 2),
            (r#"{"jsonrpc":"2.0","id":1,"me{"jsonrpc":"2.0","id":2,"method":"b"}"#, 1),
            ("{", 0),
            ("", 0),
            ("17", 0),
        ] {
            assert_eq!(parse_messages(text).len(), count, "{text}");
        }
        let [one] = &parse_messages(r#"{"id":null,"method":7,"params":{"x":1e400}}"#)[..] else {
            panic!()
        };
        assert_eq!((one.key(), one.method()), (None, None));
        assert_eq!(one.params.map(RawValue::get), Some(r#"{"x":1e400}"#));
    }

    #[test]
    fn an_insertion_keeps_every_other_byte() {
        let list = |text: &'static str| {
            let [message] = parse_messages(text)[..] else { panic!("one message") };
            let list: ListResult<'_> =
                serde_json::from_str(message.result.expect("a result").get()).expect("a list");
            let more = append_elements(text, list.tools, &["{\"name\":\"x\"}".to_owned()]);
            apply_insertions(text, more.into_iter().collect())
        };
        for (text, expected) in [
            (
                r#"{"id":1, "result":{"tools" : [ ] ,"z":1.0}}"#,
                r#"{"id":1, "result":{"tools" : [ {"name":"x"}] ,"z":1.0}}"#,
            ),
            (
                r#"{"result":{"tools":[{"name":"é]"}],"b":"\u00e9"}}"#,
                r#"{"result":{"tools":[{"name":"é]"},{"name":"x"}],"b":"\u00e9"}}"#,
            ),
        ] {
            assert_eq!(list(text), expected);
        }
    }
}

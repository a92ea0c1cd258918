//! The parts of a JSON-RPC message that a proxy needs: id, method, and the raw text of the rest
//! with its range, so that a change is an insertion and every other byte stays. Input that does not
//! parse is no message. It must not depend on a revision of the protocol.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::event::json;

/// A message with its parts unparsed.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Message<'a> {
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
    /// The client asks for a task, not an answer.
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
    /// Whether it starts a task or continues an earlier call: no earlier result may answer it.
    pub(super) fn is_more_than_a_call(&self) -> bool {
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

/// The parts of a listed tool that the proxy reads.
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

impl Message<'_> {
    /// The method, of a request or a notification.
    pub(super) fn method(&self) -> Option<String> {
        serde_json::from_str(self.method?.get()).ok()
    }

    /// Whether it has a method.
    pub(super) fn has_method(&self) -> bool {
        self.method.is_some()
    }

    /// The id, parsed.
    pub(super) fn id(&self) -> Option<Value> {
        serde_json::from_str(json::tree(self.id?.get())?).ok()
    }

    /// The id as a key.
    pub(super) fn key(&self) -> Option<String> {
        self.id.map(|id| id.get().to_owned())
    }
}

/// The messages of a text: one, those of a batch, or none.
pub(super) fn read(text: &str) -> Vec<Message<'_>> {
    if text.trim_start().starts_with('[') {
        let batch = json::list(text, 1).and_then(|text| serde_json::from_str(text).ok());
        return batch.unwrap_or_default();
    }
    serde_json::from_str(text).map_or_else(|_| Vec::new(), |one| vec![one])
}

/// A member of an object, as text.
pub(super) fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let members = serde_json::from_str(json::list(object.get(), 1)?);
    members.ok().and_then(|members: BTreeMap<Cow<'_, str>, &RawValue>| members.get(name).copied())
}

/// The value of a string.
pub(super) fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Something to be added to a text, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    pub(super) at: usize,
    pub(super) text: String,
}

/// What adds elements to an array that is a part of `text`.
pub(super) fn at_end_of(text: &str, array: &RawValue, elements: &[String]) -> Option<Insertion> {
    let inside = array.get().strip_prefix('[')?.strip_suffix(']')?;
    if elements.is_empty() {
        return None;
    }
    let begin = array.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let at = begin + array.get().len() - 1;
    let comma = if inside.trim().is_empty() { "" } else { "," };
    Some(Insertion { at, text: format!("{comma}{}", elements.join(",")) })
}

/// The text with everything added.
pub(super) fn with(text: &str, mut insertions: Vec<Insertion>) -> String {
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

/// What a message that is too long to be read is, from its bytes as they pass: its id, whether it
/// has a method, whether it reports an error, and how long it is.
#[derive(Debug, Default)]
pub(super) struct Outline {
    depth: usize,
    quoted: bool,
    escaped: bool,
    /// The text at the first two levels since the last member began, as far as it may be a name or
    /// an id.
    token: Vec<u8>,
    name: Vec<u8>,
    /// The member of the top level whose members are being read.
    within: Vec<u8>,
    pub(super) id: Option<Value>,
    pub(super) has_method: bool,
    pub(super) is_error: bool,
    pub(super) bytes: u64,
    /// Whether the message has begun and ended.
    pub(super) is_whole: bool,
}

impl Outline {
    /// Bytes of an id at most.
    const TOKEN_BYTES_MAX: usize = 256;

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            let inside = self.quoted;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if inside => self.escaped = true,
                b'"' => self.quoted = !inside,
                b'{' | b'[' if !inside => {
                    self.opens();
                    continue;
                }
                b':' if !inside && self.depth <= 2 => {
                    self.name = std::mem::take(&mut self.token);
                    continue;
                }
                b',' | b'}' | b']' if !inside => {
                    self.member();
                    self.depth = self.depth.saturating_sub(usize::from(*byte != b','));
                    self.is_whole = self.depth == 0;
                    continue;
                }
                _ => {}
            }
            let is_near = (1..=2).contains(&self.depth);
            if is_near && self.token.len() < Self::TOKEN_BYTES_MAX {
                self.token.push(*byte);
            }
        }
    }

    fn opens(&mut self) {
        if self.depth == 1 {
            self.within = std::mem::take(&mut self.name);
            self.is_error |= is_name(&self.within, "error");
        }
        self.token.clear();
        self.depth += 1;
    }

    fn member(&mut self) {
        if self.depth > 2 {
            return;
        }
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.token));
        match self.depth {
            1 if is_name(&name, "id") => self.id = serde_json::from_slice(&value).ok(),
            1 => self.has_method |= is_name(&name, "method"),
            2 if is_name(&name, "isError") && is_name(&self.within, "result") => {
                self.is_error |= value.trim_ascii() == b"true";
            }
            _ => {}
        }
    }
}

fn is_name(text: &[u8], name: &str) -> bool {
    serde_json::from_slice::<String>(text).is_ok_and(|text| text == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_is_no_message_gives_none_and_a_batch_gives_many() {
        for (text, count) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 1),
            (r#" [{"id":1,"method":"a"},{"id":2,"method":"b"}] "#, 2),
            (r#"{"id":1,"id":2}"#, 0),
            ("[1,2]", 0),
            ("{", 0),
            ("", 0),
            ("17", 0),
        ] {
            assert_eq!(read(text).len(), count, "{text}");
        }
        let [one] = &read(r#"{"id":null,"method":7,"params":{"x":1e400}}"#)[..] else { panic!() };
        assert_eq!((one.key(), one.method()), (None, None));
        assert_eq!(one.params.map(RawValue::get), Some(r#"{"x":1e400}"#));
    }

    #[test]
    fn a_message_that_is_too_long_still_has_the_id_to_answer() {
        for (text, id, has_method) in [
            (
                r#"{"jsonrpc":"2.0","id":"a\"{b","method":"m","params":{"id":7}}"#,
                json!("a\"{b"),
                true,
            ),
            (r#" { "params" : [{"id":1},"}\\"] , "method":"m", "id" : -17 } "#, json!(-17), true),
            (r#"{"result":{"method":"m"},"id":3}"#, json!(3), false),
            (r#"{"method":"m","params":"\"id\":9"}"#, Value::Null, true),
            (r#"{"id":4,"result":{"id":5,"a":{"id":6},"method":"m"}}"#, json!(4), false),
        ] {
            for size in [1, 3, 1_000] {
                let mut outline = Outline::default();
                text.as_bytes().chunks(size).for_each(|bytes| outline.push(bytes));
                assert_eq!(outline.id.unwrap_or_default(), id, "{text}");
                assert_eq!(outline.has_method, has_method, "{text}");
                assert_eq!((outline.bytes, outline.is_whole), (text.len() as u64, true), "{text}");
            }
        }
        for (text, is_error) in [
            (r#"{"id":1,"result":{"content":[{"isError":true}],"isError" : true } }"#, true),
            (r#"{"id":1,"result":{"content":[{"isError":true}],"isError":false}}"#, false),
            (r#"{"id":1,"result":{"text":"\"isError\":true"},"error":null}"#, false),
            (r#"{"id":1,"other":{"isError":true}}"#, false),
            (r#"{"id":1,"error":{"code":-1}}"#, true),
        ] {
            let mut outline = Outline::default();
            text.as_bytes().chunks(5).for_each(|bytes| outline.push(bytes));
            assert_eq!(outline.is_error, is_error, "{text}");
        }
        let mut outline = Outline::default();
        outline.push(b"{\"id\":1,\"result\":{}");
        assert!(!outline.is_whole);
    }

    #[test]
    fn an_insertion_leaves_every_other_byte() {
        let list = |text: &'static str| {
            let [message] = read(text)[..] else { panic!("one message") };
            let list: ListResult<'_> =
                serde_json::from_str(message.result.expect("a result").get()).expect("a list");
            let more = at_end_of(text, list.tools, &["{\"name\":\"x\"}".to_owned()]);
            with(text, more.into_iter().collect())
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

//! Parses the bodies of tool events, and matches a result with its open call. It must not depend on
//! positions or sessions.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    content::parse_string,
    thread::read_thread,
    tools::{parse_object, read_first},
};
use crate::event::{json, text::one_line};

/// Maximum characters of a path that is shown.
pub(super) const PATH_CHARS_MAX: usize = 300;

/// Names of the id of a call, in its result.
const IDS: [&str; 4] = ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];

/// Members of a tool's call and of its result that projections read, with all of their names. One
/// of another type counts as absent.
pub(crate) struct ToolBody<'a> {
    pub(crate) call_id: Option<String>,
    id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) read_only: Option<bool>,
    /// Name of the subagent's thread.
    pub(crate) thread: Option<String>,
    pub(crate) redactions: Option<&'a RawValue>,
    pub(crate) truncated: Option<&'a RawValue>,
    pub(crate) is_error: Option<bool>,
    pub(crate) refused: Option<&'a RawValue>,
    pub(crate) exit_code: Option<&'a RawValue>,
    pub(crate) cwd: Option<&'a RawValue>,
    pub(crate) cached: Option<&'a RawValue>,
    pub(crate) input: Option<&'a RawValue>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) raw: Option<&'a RawValue>,
}

impl<'a> ToolBody<'a> {
    /// Parses the body of a tool event; `None` if it is not a JSON object.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let members = parse_object(str::from_utf8(body).ok()?)?;
        let raw = |name| members.get(name).copied().filter(|value| value.get() != "null");
        let text = |names: &[&str]| read_first(&members, names, parse_string);
        let flag = |name| serde_json::from_str(raw(name)?.get()).ok();
        Some(Self {
            call_id: text(&["call_id"]),
            id: text(&IDS),
            name: text(&["name"]),
            server: text(&["server", "mcp_server_name"]),
            read_only: flag("read_only"),
            thread: raw("session_thread_id").and_then(read_thread),
            redactions: raw("redactions"),
            truncated: raw("truncated"),
            is_error: flag("is_error"),
            refused: raw("refused"),
            exit_code: raw("exit_code"),
            cwd: raw("cwd"),
            cached: raw("cached"),
            input: raw("input"),
            content: raw("content"),
            result: raw("result"),
            raw: raw("raw"),
        })
    }

    /// Returns the id of the call to which a result belongs.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Parses the input of a call; `None` if its tree is too large.
    pub(crate) fn input_tree(&self) -> Option<Value> {
        let Some(input) = self.input else { return Some(Value::Null) };
        serde_json::from_str(json::check(input.get())?).ok()
    }

    /// Returns the directory in which a call was made.
    pub(crate) fn directory(&self) -> Option<Box<str>> {
        #[derive(Deserialize)]
        struct RawCall {
            cwd: Option<String>,
        }
        let raw = || serde_json::from_str::<RawCall>(self.raw?.get()).ok()?.cwd;
        let cwd = self.cwd.and_then(parse_string).or_else(raw)?;
        Some(one_line(cwd.trim_end_matches('/'), PATH_CHARS_MAX).into())
    }
}

/// Returns the index of the open call of a result, in `(id, tool)` from the oldest: the latest with
/// its id; without an id the oldest of its tool; without either the only call.
pub fn find_answered_call<'a>(
    mut open: impl DoubleEndedIterator<Item = (&'a str, &'a str)> + ExactSizeIterator,
    id: Option<&str>,
    tool: Option<&str>,
) -> Option<usize> {
    match (id.filter(|id| !id.is_empty()), tool.filter(|tool| !tool.is_empty())) {
        (Some(id), _) => open.rposition(|call| call.0 == id),
        (None, Some(tool)) => open.position(|call| call.1 == tool),
        (None, None) => (open.len() == 1).then_some(0),
    }
}

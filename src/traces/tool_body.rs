//! Parses the bodies of tool events, and matches a result with its open call. It must not depend on
//! positions or sessions.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::content::parse_string;
use crate::event::text::one_line;

/// Maximum characters of a path that is shown.
pub(super) const PATH_CHARS_MAX: usize = 300;

/// Members of a tool's call and of its result that projections read, with all of their names.
#[derive(Deserialize)]
pub(crate) struct ToolBody<'a> {
    pub(crate) call_id: Option<String>,
    tool_use_id: Option<String>,
    mcp_tool_use_id: Option<String>,
    custom_tool_use_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) mcp_server_name: Option<String>,
    pub(crate) read_only: Option<bool>,
    #[serde(borrow)]
    pub(crate) session_thread_id: Option<&'a RawValue>,
    pub(crate) redactions: Option<IgnoredAny>,
    pub(crate) truncated: Option<IgnoredAny>,
    pub(crate) is_error: Option<bool>,
    pub(crate) refused: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) exit_code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cached: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) raw: Option<&'a RawValue>,
}

impl<'a> ToolBody<'a> {
    /// Parses the body of a tool event; `None` if it is not valid JSON of that shape.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// Returns the id of the call to which a result belongs.
    pub(crate) fn id(&self) -> Option<&str> {
        let ids =
            [&self.call_id, &self.tool_use_id, &self.mcp_tool_use_id, &self.custom_tool_use_id];
        ids.into_iter().find_map(Option::as_deref)
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

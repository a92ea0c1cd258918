//! A server's tools, read from its lists, page by page. It must not treat a list as complete before
//! its last page, nor keep tools that the server removed.

use std::{collections::BTreeMap, num::NonZeroUsize};

use lru::LruCache;
use serde_json::Value;

use crate::event::json;
use crate::proxy::{
    message::{ListResult, ListedTool},
    own_tools::{self, ProxyTool},
};

/// Maximum number of lists that are read concurrently.
const LISTS_MAX: NonZeroUsize = NonZeroUsize::new(16).expect("more than none");

/// Tools by name, with their declarations.
type Table = BTreeMap<String, ToolDeclaration>;

/// Declarations of a tool about its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::proxy) struct ToolDeclaration {
    /// True if the tool only reads; `None` if not declared.
    reads: Option<bool>,
    /// True if the answer depends only on the arguments and the files that they name: the tool is
    /// idempotent and its world is closed.
    closed: bool,
    /// Name of the argument that names a session, if any.
    session: Option<&'static str>,
}

/// Arguments by which tools name a session.
const SESSION: [&str; 2] = ["sessionId", "session_id"];

/// Finds the argument in a tool's schema that names a session.
fn session_argument(schema: &Value) -> Option<&'static str> {
    let named = schema.get("properties")?;
    SESSION.into_iter().find(|name| named.get(name).is_some())
}

pub(super) struct ServerTools {
    /// The latest complete list.
    whole: Table,
    /// Lists being read, by the cursor of the next page.
    begun: LruCache<String, Table>,
    /// True if a complete list was read since the server last announced a change.
    complete: bool,
}

impl Default for ServerTools {
    fn default() -> Self {
        Self { whole: Table::new(), begun: LruCache::sparse(LISTS_MAX), complete: false }
    }
}

impl ServerTools {
    /// Reads the page of a cursor; returns the cursor of the next page if it has one, or `None` for
    /// an invalid page.
    pub(super) fn read_page(
        &mut self,
        cursor: Option<&str>,
        page: &ListResult<'_>,
    ) -> Option<Option<String>> {
        let tools: Vec<Value> = serde_json::from_str(json::check(page.tools.get())?).ok()?;
        let mut table = match cursor {
            None => Table::new(),
            Some(cursor) => self.begun.pop(cursor).unwrap_or_else(|| self.whole.clone()),
        };
        let read = |tool| serde_json::from_value::<ListedTool>(tool).ok();
        for tool in tools.into_iter().filter_map(read) {
            let said = tool.annotations.as_ref();
            let is = |said: Option<bool>, wanted: bool| said == Some(wanted);
            let declared = ToolDeclaration {
                reads: said.and_then(|said| said.read_only),
                closed: said
                    .is_some_and(|said| is(said.idempotent, true) && is(said.open_world, false)),
                session: tool.input.as_ref().and_then(session_argument),
            };
            table.insert(tool.name, declared);
        }
        let next = match &page.next {
            None | Some(Value::Null) => None,
            Some(Value::String(next)) => Some(next.clone()),
            Some(other) => Some(other.to_string()),
        };
        match &next {
            Some(next) => drop(self.begun.put(next.clone(), table)),
            None => *self = Self { whole: table, complete: true, ..Self::default() },
        }
        Some(next)
    }

    /// Clears the tools, after the server announced a change.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Marks the list of the tools read so far as complete.
    pub(super) fn mark_complete(&mut self) {
        if let Some((_, latest)) = self.begun.peek_mru() {
            self.whole.extend(latest.clone());
        }
        self.complete = true;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns true if a tool declares itself read-only; false for one that was not listed yet.
    pub(super) fn is_read_only(&self, tool: &str) -> bool {
        self.declaration(tool).reads == Some(true)
    }

    /// Returns true if a tool's answer depends only on its arguments and files that these name.
    pub(super) fn is_closed(&self, tool: &str) -> bool {
        self.declaration(tool).closed
    }

    /// Returns the session that a call of a tool names by an argument of its schema.
    pub(super) fn session_from_input<'a>(&self, tool: &str, input: &'a Value) -> Option<&'a str> {
        input.get(self.declaration(tool).session?)?.as_str()
    }

    /// Returns true if a call may name a session, and its tool is not listed yet.
    pub(super) fn may_name_session(&self, input: &Value) -> bool {
        !self.complete && SESSION.iter().any(|name| input.get(name).is_some_and(Value::is_string))
    }

    fn declaration(&self, tool: &str) -> ToolDeclaration {
        let said = self.begun.iter().find_map(|(_, table)| table.get(tool));
        said.or(self.whole.get(tool)).copied().unwrap_or_default()
    }

    /// Finds the proxy's tool that has a name, once the server's tools are known.
    pub(super) fn find_own_tool(&self, name: &str) -> Option<ProxyTool> {
        ProxyTool::from_name(name, &self.whole).filter(|_| self.complete)
    }

    /// Returns the proxy's tools, as elements of the server's list.
    pub(super) fn own_elements(&self) -> Vec<String> {
        own_tools::list_elements(&self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(tools: &mut ServerTools, cursor: Option<&str>, page: &str) -> Option<Option<String>> {
        tools.read_page(cursor, &serde_json::from_str(page).expect("a page"))
    }

    const READS: &str = r#"{"name":"NAME","annotations":{"readOnlyHint":true}}"#;

    fn page(names: &[&str], next: &str) -> String {
        let tools: Vec<_> = names.iter().map(|name| READS.replace("NAME", name)).collect();
        format!(r#"{{"tools":[{}],"nextCursor":{next}}}"#, tools.join(","))
    }

    #[test]
    fn a_tool_list_is_complete_only_after_its_last_page() {
        let mut tools = ServerTools::default();
        let first = page(&["a"], "\"2\"");
        assert_eq!(learn(&mut tools, None, &first), Some(Some("2".to_owned())));
        assert!(!tools.is_complete() && tools.is_read_only("a") && !tools.is_read_only("b"));
        assert_eq!(tools.find_own_tool("clear_session"), None, "the next page may have one");
        assert_eq!(learn(&mut tools, Some("2"), &page(&["clear_session"], "null")), Some(None));
        assert!(
            tools.is_complete() && tools.is_read_only("a") && tools.is_read_only("clear_session")
        );
        assert_eq!(tools.find_own_tool("clear_session"), None);
        assert_eq!(tools.find_own_tool("sessionlog_clear_session"), Some(ProxyTool::Clear));
        // Another list starts: until it is complete, the names of the last one remain.
        let writes = r#"{"tools":[{"name":"a"}],"nextCursor":"x"}"#;
        learn(&mut tools, None, writes);
        assert_eq!(tools.find_own_tool("clear_session"), None);
        assert!(
            tools.is_complete() && !tools.is_read_only("a"),
            "what a tool says last holds at once"
        );
        learn(&mut tools, Some("x"), &page(&[], "null"));
        assert_eq!(tools.find_own_tool("clear_session"), Some(ProxyTool::Clear));
        assert!(!tools.is_read_only("a") && !tools.is_read_only("clear_session"));
        tools.clear();
        assert!(!tools.is_complete());
        assert_eq!(learn(&mut tools, None, r#"{"tools":7}"#), None);
        learn(&mut tools, None, &first);
        tools.mark_complete();
        assert!(tools.is_complete() && tools.is_read_only("a"), "what was said is all there is");
    }
}

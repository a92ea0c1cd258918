//! Latest outcomes of a session's tool calls, each with the tool, the error and the URL. Without
//! them a reader that lost its context would retry failed calls. It must not call a text an error
//! that the tool did not report as one.

use std::{collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;

use super::turns::{EndScope, turn_end};
use crate::{
    api::work::OpenCall,
    event::{Event, Position, Timestamp, kinds, push_bounded, text::one_line},
    traces::{
        FailureKind, NotRun, ToolBody, content_text, find_answered_call, parse_string, tools,
    },
};

/// Most outcomes kept.
const OUTCOMES_MAX: usize = 200;
/// Most calls without a result that are kept.
const CALLS_MAX: usize = 256;
/// Most characters kept of a name, and of a URL.
const NAME_CHARS_MAX: usize = 80;
const URL_CHARS_MAX: usize = 200;
/// Most bytes of a result without a status that is checked for a refusal.
const UNRUN_BYTES_MAX: usize = 4 << 10;

/// Outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    /// Name of the tool, with its server if it has one.
    pub provider: Arc<str>,
    /// Kind of the failure; `None` on success.
    pub trouble: Option<FailureKind>,
    /// Requested URL, if any.
    pub url: Option<Box<str>>,
    /// Time of the result.
    pub at: Timestamp,
    /// True for a command, whose failure does not mean that the tool failed.
    pub is_command: bool,
}

/// Latest outcomes of a session's tools.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    latest: VecDeque<ToolOutcome>,
    calls: VecDeque<OpenToolCall>,
}

#[derive(Clone, Debug)]
struct OpenToolCall {
    id: Box<str>,
    /// Name of the tool without its server.
    tool: Box<str>,
    position: Position,
    provider: Arc<str>,
    url: Option<Box<str>>,
    is_command: bool,
    is_aside: bool,
    /// True if its turn ended without a result.
    is_over: bool,
}

impl Outcomes {
    /// Returns the latest outcomes, oldest first.
    pub fn latest(&self) -> impl DoubleEndedIterator<Item = &ToolOutcome> {
        self.latest.iter()
    }

    /// Returns the calls without a result whose turn has not ended, oldest first.
    #[must_use]
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let open = self.calls.iter().filter(|call| !call.is_over).map(|call| OpenCall {
            call_id: call.id.to_string(),
            name: call.provider.to_string(),
            position: call.position,
        });
        open.collect()
    }

    /// Folds a tool event or the end of a turn; ignores others.
    pub fn fold(&mut self, event: &Event) {
        match event.kind.as_str() {
            kind if kinds::is_call(kind) => {
                self.fold_call(event);
            }
            kind if kinds::is_result(kind) => {
                self.fold_result(event);
            }
            _ => {
                let Some(ends) = turn_end(event) else { return };
                let ended =
                    self.calls.iter_mut().filter(|call| ends == EndScope::All || !call.is_aside);
                ended.for_each(|call| call.is_over = true);
            }
        }
    }

    fn fold_call(&mut self, event: &Event) -> Option<()> {
        let call = ToolBody::parse(&event.body)?;
        let name = one_line(&call.name?, NAME_CHARS_MAX);
        let (by, tool) = tools::split_name(call.server.as_deref(), &name);
        let members = tools::parse_members(call.input);
        let does = tools::classify(by, tool, &members, None);
        let (tool, is_command) = (tool.into(), does == tools::ToolKind::Runs);
        let provider = match &call.server {
            Some(server) => format!("{}/{name}", one_line(server, NAME_CHARS_MAX)).into(),
            None => name.into(),
        };
        let url = tools::read_first(&members, &["url", "uri"], parse_string);
        let url = url.map(|url| one_line(&url, URL_CHARS_MAX).into());
        let id = call.call_id.unwrap_or_else(|| event.id.to_string()).into();
        let (position, is_aside) = (event.position, call.thread.is_some());
        let is_over = false;
        let call =
            OpenToolCall { id, tool, position, provider, url, is_command, is_aside, is_over };
        push_bounded(&mut self.calls, call, CALLS_MAX);
        Some(())
    }

    fn fold_result(&mut self, event: &Event) -> Option<()> {
        let result = ToolBody::parse(&event.body)?;
        let name = one_line(result.name.as_deref().unwrap_or_default(), NAME_CHARS_MAX);
        let (_, tool) = tools::split_name(result.server.as_deref(), &name);
        let open = self.calls.iter().map(|call| (&*call.id, &*call.tool));
        let at = find_answered_call(open, result.id(), Some(tool))?;
        let call = self.calls.remove(at)?;
        let failed = result.is_error.unwrap_or(false);
        let is_short = |content: &&RawValue| content.get().len() <= UNRUN_BYTES_MAX;
        let text = result.content.filter(|content| failed || is_short(content)).map(content_text);
        let is_unrun =
            result.refused.is_some() || text.as_deref().and_then(NotRun::from_text).is_some();
        if is_unrun || result.cached.is_some() {
            // The tool did not run, so this is not an outcome of it.
            return Some(());
        }
        let trouble = failed.then(|| FailureKind::from_text(&text.unwrap_or_default()));
        push_bounded(
            &mut self.latest,
            ToolOutcome {
                provider: call.provider,
                trouble,
                url: call.url,
                at: event.happened_at(),
                is_command: call.is_command,
            },
            OUTCOMES_MAX,
        );
        Some(())
    }

    pub(super) fn weight(&self) -> usize {
        (self.latest.len() + self.calls.len()) * 200
    }
}

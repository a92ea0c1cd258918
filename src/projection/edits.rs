//! Changes of files, each with the request that it was made for: a fold for a reader of the events.
//! It must not keep a change.

use super::{Marks, progress::WorkProgress};
use crate::{
    event::{Event, Position, text::one_line},
    traces::{Calls, ToolEvent, Touch},
};

/// Characters of a request.
const REQUEST_CHARS_MAX: usize = 400;

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The call's result.
    pub position: Position,
    /// The path, as the call names it, or relative to the directory of the session.
    pub path: Box<str>,
    /// Outcome of the edit.
    pub how: &'static str,
    /// The tool.
    pub tool: Box<str>,
    /// The latest request of a person before it, and where.
    pub asked: Option<(Position, Box<str>)>,
}

/// Reads the events of a session in their order.
#[derive(Debug, Default)]
pub struct Edits {
    calls: Calls,
    progress: WorkProgress,
}

impl Edits {
    /// The changes that an event reports: a result that succeeded.
    pub fn fold(&mut self, event: &Event) -> Vec<Edit> {
        let tool_event = self.calls.fold(event);
        self.progress.fold(event, tool_event.as_ref(), &Marks::default());
        let Some(ToolEvent::Result(call, answer)) = tool_event.filter(succeeded) else {
            return Vec::new();
        };
        let word = self.progress.instructions().whole().next_back();
        let line = |text: &str| one_line(text, REQUEST_CHARS_MAX).into();
        let asked = word.map(|word| (word.position, line(&word.text)));
        let made = |(touch, path): &(Touch, Box<str>)| Edit {
            position: answer.position,
            path: path.clone(),
            how: match touch {
                Touch::Changed | Touch::Written => "changed",
                Touch::Deleted => "deleted",
                Touch::Reverted | Touch::Reset => "reverted",
                Touch::Stashed => "stashed",
                Touch::Returned => "brought back",
                Touch::Committed => "committed",
            },
            tool: call.tool.clone(),
            asked: asked.clone(),
        };
        call.files.iter().filter(|(_, path)| !path.is_empty()).map(made).collect()
    }

    /// The directory of the session, once an event named it.
    #[must_use]
    pub fn root(&self) -> Option<&str> {
        self.calls.directory()
    }
}

fn succeeded(event: &ToolEvent<'_>) -> bool {
    matches!(event, ToolEvent::Result(_, answer) if !answer.failed)
}

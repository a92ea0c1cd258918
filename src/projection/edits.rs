//! Changes of files, each with the user request that it was made for. It must not keep a change.

use super::{Marks, WithdrawnRanges, progress::WorkProgress};
use crate::{
    event::{Event, Position, text::one_line},
    traces::{FileTouch, OpenCalls, ToolEvent},
};

/// Most characters of a request.
const REQUEST_CHARS_MAX: usize = 400;

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Position of the call's result.
    pub position: Position,
    /// Path, relative to the session's directory if it is below it.
    pub path: Box<str>,
    /// Kind of the change.
    pub how: &'static str,
    /// Name of the tool.
    pub tool: Box<str>,
    /// Latest user request before it that was not withdrawn, and its position.
    pub asked: Option<(Position, Box<str>)>,
}

/// Fold over the events of a session, in their order.
#[derive(Debug, Default)]
pub struct Edits {
    calls: OpenCalls,
    progress: WorkProgress,
    withdrawn: WithdrawnRanges,
}

impl Edits {
    /// Creates the fold of a session with the ranges that its client went back behind.
    #[must_use]
    pub fn new(withdrawn: WithdrawnRanges) -> Self {
        Self { withdrawn, ..Self::default() }
    }

    /// Folds an event; returns the file changes of a successful result.
    pub fn fold(&mut self, event: &Event) -> Vec<Edit> {
        let tool_event = self.calls.fold(event);
        self.progress.fold(event, tool_event.as_ref(), &Marks::default());
        let Some(ToolEvent::Result(call, answer)) = tool_event.filter(is_success) else {
            return Vec::new();
        };
        // A request of a withdrawn part counts for the changes of that part only.
        let holds = |at| self.withdrawn.end_of_range_at(at).is_none_or(|to| answer.position < to);
        let mut words = self.progress.instructions().recent_instructions();
        let word = words.rfind(|word| holds(word.position));
        let line = |text: &str| one_line(text, REQUEST_CHARS_MAX).into();
        let asked = word.map(|word| (word.position, line(&word.text)));
        let made = |(touch, path): &(FileTouch, Box<str>)| Edit {
            position: answer.position,
            path: path.clone(),
            how: match touch {
                FileTouch::Changed | FileTouch::Written => "changed",
                FileTouch::Deleted => "deleted",
                FileTouch::Reverted | FileTouch::Reset => "reverted",
                FileTouch::Stashed => "stashed",
                FileTouch::Returned => "brought back",
                FileTouch::Committed => "committed",
            },
            tool: call.tool.clone(),
            asked: asked.clone(),
        };
        // A call that changes a file and removes it has the last of these effects.
        let is_last = |(at, (_, path)): &(usize, &(FileTouch, Box<str>))| {
            let mut later = call.files.iter().skip(at + 1);
            !path.is_empty() && later.all(|(_, other)| other != path)
        };
        call.files.iter().enumerate().filter(is_last).map(|(_, effect)| made(effect)).collect()
    }

    /// Returns the directory of the session, once an event contained it.
    #[must_use]
    pub fn root(&self) -> Option<&str> {
        self.calls.directory()
    }
}

fn is_success(event: &ToolEvent<'_>) -> bool {
    matches!(event, ToolEvent::Result(_, answer) if !answer.failed)
}

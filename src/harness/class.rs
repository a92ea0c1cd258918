//! The kinds of items that views show, and which forms each kind has. It must not rank them.

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The user's first request.
    Task,
    /// The purpose of the research.
    Goal,
    /// The user's later messages.
    Instruction,
    /// An instruction that is kept as a line only.
    OlderInstruction,
    /// A step of the plan that is not done.
    Plan,
    /// A step of the plan that is done.
    PlanDone,
    /// Next steps.
    Next,
    /// One of the last steps, whole.
    LastStep,
    /// The caller's own summary.
    Summary,
    /// The tests that passed last, and the last commit.
    State,
    /// A command or test that failed and was not mended.
    Failure,
    /// A command or test that failed and was mended.
    Mended,
    /// The agent's last message.
    Answer,
    /// A gap that is open.
    Gap,
    /// A sentence of a step or message.
    Finding,
    /// An approach that was ruled out.
    Rejection,
    /// A call that changed something.
    Change,
    /// A file that was changed.
    File,
    /// A source.
    Source,
    /// Failures in the agent's words.
    Failed,
    /// Completed work in the agent's words.
    Done,
    /// Attempts in the agent's words.
    Tried,
    /// A result of a tool.
    Result,
    /// A branch of the research.
    Branch,
    /// A kind of failure that keeps coming.
    Pattern,
    /// The outcomes of one tool.
    Provider,
    /// A step in one line.
    StepLine,
    /// One of the latest events in one line.
    Event,
    /// A context item that the client saved.
    ContextItem,
    /// The conversation in the client's words, as it saved it.
    Context,
    /// A file that the session refers to, of which it knows no change.
    Reference,
    /// The number of events of a type.
    Count,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Self::Count as usize + 1;

    /// True if its items have longer forms, which cost more.
    pub(super) fn has_forms(self) -> bool {
        matches!(
            self,
            Self::Task
                | Self::Goal
                | Self::Instruction
                | Self::OlderInstruction
                | Self::Plan
                | Self::PlanDone
                | Self::LastStep
                | Self::StepLine
                | Self::Gap
                | Self::Source
                | Self::Summary
                | Self::Failure
                | Self::Mended
                | Self::Answer
                | Self::Change
                | Self::Result
                | Self::Event
                | Self::ContextItem
                | Self::Context
        )
    }

    /// True if a whole item may be shown with less white space and without comments.
    pub(super) fn has_squeezed(self) -> bool {
        matches!(self, Self::ContextItem | Self::Context)
    }

    /// True if as much of it may be shown as there is room for.
    pub(super) fn has_parts(self) -> bool {
        let said = [Self::Task, Self::Instruction, Self::Summary, Self::Answer, Self::Result];
        self.has_squeezed() || said.contains(&self)
    }

    /// True if its short form differs from the whole.
    pub(super) fn has_short(self) -> bool {
        !matches!(self, Self::StepLine | Self::Gap | Self::Source)
    }

    /// True if the bytes of an item are never more than the price of an item.
    pub(super) fn has_least_bytes(self) -> bool {
        self == Self::Finding
    }

    /// Its name, in the plural, as views spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Goal => "goal",
            Self::Instruction | Self::OlderInstruction => "instructions",
            Self::Plan | Self::PlanDone => "plan",
            Self::Next => "next",
            Self::LastStep => "last_steps",
            Self::Summary => "summary",
            Self::State => "state",
            Self::Failure => "failures",
            Self::Mended => "mended",
            Self::Answer => "messages",
            Self::Gap => "gaps",
            Self::Finding => "findings",
            Self::Rejection => "rejected",
            Self::Change => "changes",
            Self::File => "files",
            Self::Source => "sources",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Tried => "tried",
            Self::Result => "results",
            Self::Branch => "branches",
            Self::Pattern => "error_patterns",
            Self::Provider => "provider_stats",
            Self::StepLine => "steps",
            Self::Event => "recent",
            Self::ContextItem => "context_items",
            Self::Context => "context",
            Self::Reference => "references",
            Self::Count => "types",
        }
    }
}

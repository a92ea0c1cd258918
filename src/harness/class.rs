//! Classes of items that views show, and the forms of each class. It must not rank them.

/// Class of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The user's first request.
    Task,
    /// The goal of the research.
    Goal,
    /// The user's later messages.
    Instruction,
    /// An instruction of which only a line is kept.
    OlderInstruction,
    /// An unfinished step of the plan.
    Plan,
    /// A finished step of the plan.
    PlanDone,
    /// Next steps.
    Next,
    /// One of the last steps in full.
    LastStep,
    /// The caller's summary.
    Summary,
    /// The latest passed tests and the latest commit.
    State,
    /// A call without a result so far.
    Begun,
    /// A command or test that failed and did not succeed later.
    Failure,
    /// A command or test that failed and succeeded later.
    Mended,
    /// A message of the agent.
    Answer,
    /// An open gap.
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
    /// Failures as the agent recorded them.
    Failed,
    /// Completed work as the agent recorded it.
    Done,
    /// Attempts as the agent recorded them.
    Tried,
    /// A result of a tool.
    Result,
    /// A branch of the research.
    Branch,
    /// A kind of failure that recurs.
    Pattern,
    /// The outcomes of one tool.
    Provider,
    /// A step in one line.
    StepLine,
    /// One of the latest events in one line.
    Event,
    /// A context item that the client saved.
    ContextItem,
    /// The client's summary of the conversation.
    Context,
    /// A file that the session refers to and has no change of.
    Reference,
    /// The number of events of a type.
    Count,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Self::Count as usize + 1;

    /// Returns true if its items have longer forms, which cost more.
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

    /// Returns true if its items have forms with less white space and without comments.
    pub(super) fn has_squeezed_forms(self) -> bool {
        matches!(self, Self::ContextItem | Self::Context)
    }

    /// Returns true if its items may be shown in part, as far as the budget allows.
    pub(super) fn can_be_partial(self) -> bool {
        let said = [Self::Task, Self::Instruction, Self::Summary, Self::Answer, Self::Result];
        self.has_squeezed_forms() || said.contains(&self)
    }

    /// Returns true if its short form differs from the whole.
    pub(super) fn has_short_form(self) -> bool {
        !matches!(self, Self::StepLine | Self::Gap | Self::Source)
    }

    /// Returns true if an item's bytes are never more than its price.
    pub(super) fn price_covers_bytes(self) -> bool {
        self == Self::Finding
    }

    /// Returns the name of the class in views, in the plural.
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
            Self::Begun => "begun",
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

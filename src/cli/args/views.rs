//! The arguments of verbs that show a session, compare its points or start from one. It must not
//! act on them.

use clap::{Args, ValueEnum};

use super::{
    super::{common::parse_session_id, complete::id_completer},
    values::parse_point,
};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog rewind trip --to step:3               what was known then
  sessionlog rewind trip --to -10 --fork           continue from there in a new session")]
pub(crate) struct RewindArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Point in time; only events before it are shown, and a step that it names
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) to: String,
    /// Start a new session from there instead
    #[arg(long)]
    pub(crate) fork: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog fork trip --at end
  sessionlog fork trip --at event:e42 --id trip-2 --title 'Another way'")]
pub(crate) struct ForkArgs {
    /// Id of the parent session, or a unique prefix of it
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Point to fork at; events before it are shared, and a step it names
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: String,
    /// Id of the new session [default: generated]
    #[arg(long, value_name = "ID", value_parser = parse_session_id, add = id_completer())]
    pub(crate) id: Option<SessionId>,
    /// Title of the new session [default: the parent's]
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog diff trip step:3 end
  sessionlog diff trip 0 -5
  sessionlog diff trip -40 end --tokens-max 4000    what left and entered a model's window
The points may be given in either order. `sessionlog events trip --from P --to P` prints the events.")]
pub(crate) struct DiffArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// First point
    #[arg(value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) from: String,
    /// Second point
    #[arg(value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) plan: WindowArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog compare trip trip-2                   where does a fork, or a second run, differ?
  sessionlog compare trip trip-2 --at step:3 --with-at step:3
Events are compared by what they say: ids, times and statuses do not count.")]
pub(crate) struct CompareArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "A", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Session to compare it with
    #[arg(value_name = "B", value_parser = parse_session_id, add = id_completer())]
    pub(crate) other: SessionId,
    /// Compare the first session up to this point [default: its end]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Compare the second session up to this point [default: its end]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) with_at: Option<String>,
}

/// Options for building a window.
#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// Maximum number of tokens
    #[arg(long, value_name = "N")]
    pub(crate) tokens_max: Option<u64>,
    /// Transform applied to the window; may be repeated
    #[arg(long, value_name = "T")]
    pub(crate) transform: Vec<String>,
    /// Format of the window
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<WindowFormat>,
    /// Tokenizer: o200k_base or claude
    #[arg(long, value_name = "NAME")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog view trip index --find 'retry limit'  what the session says about these words
  sessionlog view trip continuation                what an agent needs to continue
  sessionlog view trip compactions                 what did the model lose?
  sessionlog view trip window --tokens-max 8000 --format anthropic --json
  sessionlog view trip window --transform compress --transform reorder
  sessionlog view trip window --at -10             as of ten events ago
  sessionlog view trip index --explain             why each item was chosen
Transforms, applied in the order they are named:
  compress[:whitespace,comments,elide,keep=N,tokens=N], filter[:types=A|B,drop=A|B,duplicates],
  reorder[:slack=PERCENT], annotate[:times]")]
pub(crate) struct ViewArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// View to show
    #[arg(value_enum, value_name = "VIEW", default_value = "index")]
    pub(crate) which: WhichView,
    /// Show the session as of this point
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Start the window at this point
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Sessions from which a window that leaves events out recalls passages
    #[arg(long, value_enum, value_name = "FROM")]
    pub(crate) recall: Option<RecallSource>,
    /// Maximum number of tokens of the recalled brief and passages
    #[arg(long, value_name = "N")]
    pub(crate) recall_tokens: Option<u64>,
    /// Step number
    #[arg(long, value_name = "N", required_if_eq("which", "step"))]
    pub(crate) step: Option<u64>,
    /// Branch of the step
    #[arg(long, value_name = "B", requires = "step")]
    pub(crate) branch: Option<String>,
    /// Continue a list or long text where the previous answer ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Level of the summary: step, phase, session, or auto (the finest that is complete)
    #[arg(long, value_name = "LEVEL")]
    pub(crate) level: Option<String>,
    /// Print why each item was chosen
    #[arg(long)]
    pub(crate) explain: bool,
    /// Search the session for these terms, best match first; a phrase in double quotes must match
    /// exactly
    #[arg(long, value_name = "WORDS")]
    pub(crate) find: Option<String>,
    #[command(flatten)]
    pub(crate) plan: WindowArgs,
}

/// Views of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichView {
    /// Overview: goal, summary, steps, open gaps, sources
    Index,
    /// The overview without its lists
    Summary,
    /// One step in full; requires --step
    Step,
    /// What an agent needs to continue
    Continuation,
    /// What a model sees within a token budget
    Window,
    /// Fill level of the model's context, as its harness reports
    Usage,
    /// What the client's compactions removed from its context
    Compactions,
}

/// Sessions from which a window recalls passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecallSource {
    /// This session
    Line,
    /// This session, and messages of other sessions of its workspace
    Workspace,
    /// No session
    None,
}

/// Format of the entries of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WindowFormat {
    /// Events as stored (default)
    Events,
    /// Messages of Anthropic's API
    Anthropic,
    /// Messages of OpenAI's chat API
    Openai,
}

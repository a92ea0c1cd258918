//! The arguments of verbs on events: append, print, replay, redact, import and export. It must not
//! act on them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    super::{common::parse_session_id, complete::id_completer},
    values::{SortOrder, parse_event_id, parse_point, parse_speed},
};
use crate::event::{EventId, SessionId};

#[derive(Debug, Args)]
#[command(after_help = "\
Example: sessionlog redact trip evt_0198c5d2f0a07a1b8c3d4e5f60718293
On a terminal it asks first; without one --yes is required.")]
pub(crate) struct RedactArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Event id, as `events` prints it
    #[arg(value_name = "EVENT", value_parser = parse_event_id)]
    pub(crate) event: EventId,
    /// Also redact memory items that represent it or were written from its session after it
    #[arg(long)]
    pub(crate) with_memory: bool,
    /// Confirm without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo '{\"type\":\"user.message\",\"content\":\"hello\"}' | sessionlog append --create trip
  sessionlog events old | sessionlog append --create copy

Each line is one event: a `type`, an optional `id` (a retry with the same id appends nothing), an
optional `position` (required position of the event), and any other members. Events are appended in
batches as they arrive. Acknowledged events are durable.")]
pub(crate) struct AppendArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Create the session if it does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// Append only if the first event will have this position
    #[arg(long, value_name = "N")]
    pub(crate) if_position: Option<u64>,
    /// Retry key: the same lines with the same key append nothing for 24 hours
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Fencing token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(crate) fencing_token: Option<u64>,
}

/// A range of events, by positions or by times.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// Position of the first event
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Position to stop before
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only events since then: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["from"])]
    pub(crate) since: Option<String>,
    /// Only events before then
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["to"])]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog events trip --from -10                the last ten
  sessionlog events trip --types user.message,agent.message
  sessionlog events trip --around event:e42 --before 3 --after 3
  sessionlog events trip --since yesterday         by when they were recorded
  sessionlog events trip --follow                  wait for more until interrupted")]
pub(crate) struct EventsArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Show events around this position
    #[arg(
        long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true,
        conflicts_with_all = ["from", "to", "since", "until", "follow"]
    )]
    pub(crate) around: Option<String>,
    /// Number of events before --around
    #[arg(long, value_name = "N", requires = "around")]
    pub(crate) before: Option<u64>,
    /// Number of events after --around
    #[arg(long, value_name = "N", requires = "around")]
    pub(crate) after: Option<u64>,
    /// Only events of these types
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(crate) order: SortOrder,
    /// Maximum number of events
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Read a damaged session: print what is intact and name the gaps
    #[arg(long)]
    pub(crate) allow_gaps: bool,
    /// Print new events as they become durable, from the end or from --from
    #[arg(long, short, visible_alias = "tail", conflicts_with_all = ["to", "until", "order"])]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog replay trip                           full-screen on a terminal; ? shows its keys
  sessionlog replay trip --from step:3 --speed 10  ten times the original speed
  sessionlog replay trip --follow                  a session that is being written
  sessionlog replay trip --lines                   plain lines, as in a pipe")]
pub(crate) struct ReplayArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Pause between events as recorded, this many times faster [default: no pause]
    #[arg(long, value_name = "X", value_parser = parse_speed)]
    pub(crate) speed: Option<f64>,
    /// Print lines instead of the player, on a terminal too
    #[arg(long)]
    pub(crate) lines: bool,
    /// Wait for new events at the end and show them
    #[arg(long, short, conflicts_with = "to")]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line of a file is JSON, one of
  {\"id\": \"…\", \"messages\": […], …}   a conversation in OpenAI's chat format
  […]                                 the messages of a conversation
  {\"role\": \"user\", …}               one message of the file's only conversation
  {\"type\": \"user.message\", …}       one event, as `sessionlog events` prints it
or the file is a transcript of Claude Code (~/.claude/projects/…/ID.jsonl) or a rollout of Codex
(~/.codex/sessions/…/rollout-….jsonl). Messages of Anthropic's API work too.
A transcript is imported into the session it belongs to, together with those of its subagents
(ID/subagents/agent-….jsonl beside it). What hooks recorded of the session is not recorded again.
Importing a grown file again adds only what is new. A conversation is never merged into a session
that holds another one; it is skipped and reported: name another session with --session. Events keep
their ids; an existing id with other content is reported. Exit code 1 if anything was skipped.")]
pub(crate) struct ImportArgs {
    /// Files to import; `-` is standard input, and ~/.claude or ~/.codex every transcript in it
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Session id, for a file with one conversation without an id
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog export trip --format openai > trip.jsonl
  sessionlog export trip --format md > trip.md     to read, or to show to someone

Secrets are removed from a document by the rules of recording (settings secrets, secrets_file), best
effort: read it before you pass it on. The other formats have every event as it is stored.")]
pub(crate) struct ExportArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: SessionId,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "jsonl")]
    pub(crate) format: ExportFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Events, one JSON object per line
    #[value(alias = "events")]
    Jsonl,
    /// Conversation in OpenAI's chat format; imported messages unchanged
    Openai,
    /// Messages of Anthropic's API; imported messages unchanged
    Anthropic,
    /// The imported Claude Code transcript, line by line
    ClaudeCode,
    /// The imported Codex rollout, line by line
    Codex,
    /// A document to read, in Markdown, with secrets removed and long outputs shortened
    #[value(name = "md", alias = "markdown")]
    Markdown,
}

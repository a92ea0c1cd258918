//! What may be typed: verbs, their arguments, their help. It must not hold a default of a setting
//! (config does) nor act on anything.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{
    eval::Eval,
    proxy::Proxy,
    settings::{EVERY_VERB, Flags, OfAnOwner},
};
use crate::{
    access::Grant,
    event::{EventId, Point, SessionId},
    service::Receipt,
};

const EXAMPLES: &str = "\
Examples:
  sessionlog demo                                  see it work, in ten seconds
  echo '{\"type\":\"user.message\",\"content\":\"hi\"}' | sessionlog append --create trip
  sessionlog events trip --follow                  every event as it becomes durable
  sessionlog import chats.jsonl                    conversations in OpenAI's chat format
  sessionlog replay trip                           read a session as it happened
  sessionlog serve                                 HTTP and MCP on http://127.0.0.1:7717

Exit codes: 0 done, 1 refused, 2 wrong usage or configuration, 3 damaged, 4 not found.
Points, where a POINT is asked for: 17, end, -5 (five before the end), event:<id>,
time:<RFC 3339>, step:<n>[@<branch>], checkpoint:<id or label>, cursor:<name>,
action:<event type>[/<n>] (the n-th last).";

/// The version, with the commit where the build knows it.
pub(super) fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("SESSIONLOG_BUILT_FROM") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

/// A durable session store for AI agents.
///
/// A session is an append-only log of what happened while an agent worked. It lives outside the
/// model's context window and survives compaction, crashes and restarts.
#[derive(Debug, Parser)]
#[command(name = "sessionlog", version = version(), after_help = EXAMPLES, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// Print what HTTP would answer, as JSON
    #[arg(long, global = true, help_heading = EVERY_VERB)]
    pub(super) json: bool,
    /// Read settings from this file instead of the usual place
    #[arg(long, global = true, help_heading = EVERY_VERB, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Serve HTTP and MCP on this machine until told to stop
    Serve(Serve),
    /// Speak MCP on standard input and output, for a client that starts this program
    Mcp(Mcp),
    /// Record one event of Claude Code or Codex, and answer what its model is to know
    Hook,
    /// Set Claude Code or Codex up: its hooks and our tools; shows the change and asks
    Install(Install),
    /// Take us out of the settings of Claude Code or Codex; what was recorded stays
    Uninstall(Install),
    /// Wrap an MCP server: every call of its tools is recorded, and a repeat answered from the log
    Proxy(Proxy),
    /// List sessions, the newest first
    #[command(visible_aliases = ["ls", "list"])]
    Sessions(Sessions),
    /// Show what a session says about itself, where it came from, and its forks
    Show(Show),
    /// Append events from standard input, one JSON object a line
    Append(Append),
    /// Print events, one JSON object a line
    Events(Events),
    /// Read a session as it happened
    Replay(Replay),
    /// Show what is worth knowing of a session, within a budget of tokens
    View(View),
    /// Look at a session as of an earlier point; nothing is removed
    Rewind(Rewind),
    /// Make a session that goes on from a point of another one; no event is copied
    Fork(Fork),
    /// Show what came between two points of a session
    Diff(Diff),
    /// Bring conversations in from files
    Import(Import),
    /// Write a session out
    Export(Export),
    /// List a session's checkpoints, make one, or go back to one
    Checkpoints(Checkpoints),
    /// List where a session's readers go on, or put a cursor
    Cursors(Cursors),
    /// Take a session up: its lease, its last checkpoint, and what was left unfinished
    Wake(Wake),
    /// What was done lately, what to start from, and what was left unfinished
    History(History),
    /// Delete a session
    Delete(Delete),
    /// Keep a session from expiring and from being deleted, or let it go
    Hold(Hold),
    /// Make a session unreadable for ever, whatever lies in files; nothing brings it back
    Erase(Erase),
    /// Take the body of an event away for good; its place, type and the chain stay
    Redact(OneEvent),
    /// Bring back a session that has expired, until its grace ends
    Restore(OneSession),
    /// Let sessions expire whose time has come, or show which and when
    Retention(Retention),
    /// Make, list and revoke the tokens that a server lets in
    Tokens(Tokens),
    /// Print the tenant's audit log: what was ruled, deleted and refused
    Audit(Audit),
    /// Show which master keys the data directory wants, or change the one in force
    Keys(Keys),
    /// Copy the whole store while it is used, or make a data directory of such a copy
    Backup(Backup),
    /// Read everything back and check every checksum and the chain
    Verify(Verify),
    /// Show what is damaged for good, and go on without it when told to
    Repair(Repair),
    /// Print what a journal file, a segment or a whole data directory holds
    Inspect(Inspect),
    /// Show the store on one screen: owner, sessions, disk space, encryption, last error
    Status,
    /// Check the installation and say what to do about each problem; exit code 1 if a check fails
    Doctor,
    /// Print the settings in force and where each comes from
    Config,
    /// Show on a sample what survives a killed process, in ten seconds
    Demo(Demo),
    /// Measure this machine: raw disk, engine, HTTP, and other stores beside them
    Bench(Bench),
    /// Measure what the views still tell of generated sessions with known facts
    Eval(Eval),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page
    Man,
}

impl Verb {
    /// The session that the verb works on, where it must be there already.
    pub(super) fn session_mut(&mut self) -> Option<&mut SessionId> {
        match self {
            Self::Show(verb) => Some(&mut verb.session),
            Self::Append(verb) if !verb.create => Some(&mut verb.session),
            Self::Events(verb) => Some(&mut verb.session),
            Self::Replay(verb) => Some(&mut verb.session),
            Self::View(verb) => Some(&mut verb.session),
            Self::Rewind(verb) => Some(&mut verb.session),
            Self::Fork(verb) => Some(&mut verb.session),
            Self::Diff(verb) => Some(&mut verb.session),
            Self::Export(verb) => Some(&mut verb.session),
            Self::Checkpoints(verb) => Some(&mut verb.session),
            Self::Cursors(verb) => Some(&mut verb.session),
            Self::Wake(verb) => Some(&mut verb.session),
            Self::Delete(verb) => Some(&mut verb.session),
            Self::Hold(verb) => Some(&mut verb.session),
            Self::Erase(verb) => Some(&mut verb.session),
            Self::Redact(verb) => Some(&mut verb.session),
            Self::Restore(verb) => Some(&mut verb.session),
            Self::Verify(verb) => verb.session.as_mut(),
            Self::Repair(verb) => verb.session.as_mut(),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog serve --listen 127.0.0.1:8800 --data-dir ./data")]
pub(super) struct Serve {
    /// Own the data directory for front ends only, and leave when none is connected
    #[arg(long, hide = true)]
    pub(super) on_demand: bool,
    #[command(flatten)]
    pub(super) settings: OfAnOwner,
}

#[derive(Debug, Args)]
#[command(after_help = "Example, for Claude Code: claude mcp add sessionlog -- sessionlog mcp")]
pub(super) struct Mcp {
    /// The session of a tool call that names none
    #[arg(long, value_name = "S", value_parser = session)]
    pub(super) session: Option<SessionId>,
    /// Tools to offer, of these with commas between: research (the default), events, memory
    #[arg(long, value_name = "A,B")]
    pub(super) toolsets: Option<String>,
}

/// A program that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentName {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
}

/// Whose settings are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum InstallScope {
    /// Yours, for every project
    User,
    /// Those of the project in this directory, for everybody who works on it
    Project,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog install claude-code --dry-run         what would change
  sessionlog install codex --yes
  sessionlog install claude-code --scope project   in .claude/settings.json and .mcp.json here

What else is in the files stays as it is. Uninstalling gives back what was there, to the byte where
nobody wrote since. Settings given as flags (--data-dir, --url) are those the agent will use.")]
pub(super) struct Install {
    /// Which program
    #[arg(value_enum, value_name = "AGENT")]
    pub(super) agent: AgentName,
    /// Whose settings
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
    pub(super) scope: InstallScope,
    /// Show the change and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Sessions {
    /// Sessions at most
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Only those of this workspace
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    /// Which come first
    #[arg(long, value_enum, value_name = "ORDER", default_value = "desc")]
    pub(super) order: Order,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. Exported files and backups keep their
copies.")]
pub(super) struct Erase {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Only where it came from, and its forks
    #[arg(long)]
    pub(super) lineage: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneSession {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. The session is hidden at once. Its bytes
are removed when its grace ends (setting grace); its id stays taken until then.")]
pub(super) struct Delete {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: sessionlog redact trip evt_0198c5d2f0a07a1b8c3d4e5f60718293
On a terminal it asks first; without one --yes is required.")]
pub(super) struct OneEvent {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// The event's id, as `events` prints it
    #[arg(value_name = "EVENT", value_parser = event)]
    pub(super) event: EventId,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo '{\"type\":\"user.message\",\"content\":\"hello\"}' | sessionlog append --create trip
  sessionlog events old | sessionlog append --create copy

Each line is one event: a `type`, an optional `id` (a retry with the same id appends nothing), an
optional `position` (the event must get it), and any other members. Events are appended in batches
as they arrive; what was acknowledged is durable.")]
pub(super) struct Append {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Create the session when it is not there
    #[arg(long)]
    pub(super) create: bool,
    /// Append only when the first event gets this position
    #[arg(long, value_name = "N")]
    pub(super) if_position: Option<u64>,
    /// Name the batch: the same lines again with the same key append nothing, for 24 hours
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
    /// Token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(super) fencing_token: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog checkpoints trip                      the newest first
  sessionlog checkpoints trip --create --label 'tests pass' --state state.json
  sessionlog checkpoints trip --show 'tests pass'  with the state there
  sessionlog checkpoints trip --resume chk_…       go on from there; nothing is removed")]
pub(super) struct Checkpoints {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Make one
    #[arg(long, conflicts_with_all = ["show", "resume"])]
    pub(super) create: bool,
    /// Show one, by id or label, with the state there
    #[arg(long, value_name = "C")]
    pub(super) show: Option<String>,
    /// Go on from one, by id or label
    #[arg(long, value_name = "C", conflicts_with = "show")]
    pub(super) resume: Option<String>,
    /// What to call the new one
    #[arg(long, value_name = "TEXT", requires = "create")]
    pub(super) label: Option<String>,
    /// The line of work: of the new one, or to list
    #[arg(long, value_name = "T")]
    pub(super) thread: Option<String>,
    /// The one that the new one follows; the last of its thread when not said
    #[arg(long, value_name = "C", requires = "create")]
    pub(super) parent: Option<String>,
    /// The place of the new one; the end when not said
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true, requires = "create")]
    pub(super) at: Option<String>,
    /// The agent's whole state, a JSON object in a file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create", conflicts_with = "state_delta")]
    pub(super) state: Option<PathBuf>,
    /// What changed of the state, a JSON merge patch in a file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create")]
    pub(super) state_delta: Option<PathBuf>,
    /// The work is done there
    #[arg(long, requires = "create")]
    pub(super) r#final: bool,
    /// Token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(super) fencing_token: Option<u64>,
    /// Checkpoints to list at most
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog cursors trip                          where each reader goes on
  sessionlog cursors trip --put me --at end
  sessionlog events trip --from cursor:me          what it has not read
  sessionlog cursors trip --delete me")]
pub(super) struct Cursors {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Put the cursor of this name
    #[arg(long, value_name = "NAME", conflicts_with = "delete")]
    pub(super) put: Option<String>,
    /// Where to put it; the end when not said
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true, requires = "put")]
    pub(super) at: Option<String>,
    /// Take the cursor of this name away
    #[arg(long, value_name = "NAME")]
    pub(super) delete: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog wake trip                             prints the fencing token that writes must show
  sessionlog append trip --fencing-token 1 < more.jsonl
  sessionlog wake trip --renew 1
  sessionlog wake trip --release 1
Another harness has it: wait until its lease ends, or take it away with --steal. Whatever the other
writes after that is refused.")]
pub(super) struct Wake {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Take the lease from who has it
    #[arg(long, conflicts_with_all = ["renew", "release"])]
    pub(super) steal: bool,
    /// How long the lease holds unless it is renewed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
    /// Keep the lease of this token for longer
    #[arg(long, value_name = "TOKEN", conflicts_with = "release")]
    pub(super) renew: Option<u64>,
    /// Give the lease of this token back
    #[arg(long, value_name = "TOKEN")]
    pub(super) release: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct History {
    /// Only of this workspace
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    /// Sessions at most
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog events trip --from -10                the last ten
  sessionlog events trip --types user.message,agent.message
  sessionlog events trip --around event:e42 --before 3 --after 3
  sessionlog events trip --follow                  wait for more until interrupted")]
pub(super) struct Events {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// The first position wanted
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// The position to stop before
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: Option<String>,
    /// Events around this place
    #[arg(
        long, value_name = "POINT", value_parser = point, allow_hyphen_values = true,
        conflicts_with_all = ["from", "to", "follow"]
    )]
    pub(super) around: Option<String>,
    /// How many before --around
    #[arg(long, value_name = "N", requires = "around")]
    pub(super) before: Option<u64>,
    /// How many after it
    #[arg(long, value_name = "N", requires = "around")]
    pub(super) after: Option<u64>,
    /// Only events of these types
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,
    /// Which come first
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(super) order: Order,
    /// Events at most
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Serve what is whole of a damaged session and name the gaps
    #[arg(long)]
    pub(super) allow_gaps: bool,
    /// Print events as they become durable: from the end on, or from --from
    #[arg(long, short, visible_alias = "tail", conflicts_with_all = ["to", "order"])]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog replay trip                           on a terminal a player; ? shows its keys
  sessionlog replay trip --from step:3 --speed 10  ten times as fast as it happened
  sessionlog replay trip --follow                  a session that is being written
  sessionlog replay trip --lines                   as lines, as a pipe gets them")]
pub(super) struct Replay {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// The first position wanted
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// The position to stop before
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: Option<String>,
    /// Pause between events as it happened, this many times faster; without it, no pause
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(super) speed: Option<f64>,
    /// Print lines on a terminal, too, instead of the player
    #[arg(long)]
    pub(super) lines: bool,
    /// Wait for more events at the end, and show them as they come
    #[arg(long, short, conflicts_with = "to")]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog rewind trip --to step:3               what was known then
  sessionlog rewind trip --to -10 --fork           go on from there, in another session")]
pub(super) struct Rewind {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// The point to look from: what lies below it counts
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: String,
    /// Go on from there in a new session instead of looking
    #[arg(long)]
    pub(super) fork: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog fork trip --at end
  sessionlog fork trip --at event:e42 --id trip-2 --title 'Another way'")]
pub(super) struct Fork {
    /// The parent's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// The point it goes on from: what lies below is common to both
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) at: String,
    /// The new session's id; without it the store gives one
    #[arg(long, value_name = "ID", value_parser = session)]
    pub(super) id: Option<SessionId>,
    /// A line for people; the parent's when not said
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog diff trip step:3 end
  sessionlog diff trip 0 -5
  sessionlog diff trip -40 end --tokens-max 4000    what left a model's window, and what came
The points may come in either order. `sessionlog events trip --from P --to P` prints the events.")]
pub(super) struct Diff {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// One point
    #[arg(value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: String,
    /// The other
    #[arg(value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: String,
    #[command(flatten)]
    pub(super) plan: WindowPlan,
}

/// How a window is built.
#[derive(Debug, Args)]
pub(super) struct WindowPlan {
    /// Tokens at most
    #[arg(long, value_name = "N")]
    pub(super) tokens_max: Option<u64>,
    /// What is done on the way into a window; may come often
    #[arg(long, value_name = "T")]
    pub(super) transform: Vec<String>,
    /// What a window is made of
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<WindowFormat>,
    /// Who counts a window's tokens: o200k_base or claude
    #[arg(long, value_name = "NAME")]
    pub(super) tokenizer: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog view trip index --find 'retry limit'  what the session says of these words
  sessionlog view trip continuation                what is needed to go on
  sessionlog view trip compactions                 what did the model lose?
  sessionlog view trip window --tokens-max 8000 --format anthropic --json
  sessionlog view trip window --transform compress --transform reorder
  sessionlog view trip window --at -10             as of ten events ago
  sessionlog view trip index --explain             why each item was chosen
Transforms, applied in the order they are named:
  compress[:whitespace,comments,elide,keep=N,tokens=N], filter[:types=A|B,drop=A|B,duplicates],
  reorder[:slack=PERCENT], annotate[:times]")]
pub(super) struct View {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Which view
    #[arg(value_enum, value_name = "VIEW")]
    pub(super) which: WhichView,
    /// As of this place
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) at: Option<String>,
    /// Nothing before this place, in a window
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// The step wanted
    #[arg(long, value_name = "N", required_if_eq("which", "step"))]
    pub(super) step: Option<u64>,
    /// The branch of that step
    #[arg(long, value_name = "B", requires = "step")]
    pub(super) branch: Option<String>,
    /// Continue a list or a long text where the answer before ended
    #[arg(long, value_name = "CURSOR")]
    pub(super) cursor: Option<String>,
    /// Of the summary: step, phase, session, or auto, the finest that leaves nothing out
    #[arg(long, value_name = "LEVEL")]
    pub(super) level: Option<String>,
    /// Print why each item was chosen
    #[arg(long)]
    pub(super) explain: bool,
    /// In place of the index, what the session says of these words, the best match first; a phrase
    /// in double quotes must be there as it is
    #[arg(long, value_name = "WORDS")]
    pub(super) find: Option<String>,
    #[command(flatten)]
    pub(super) plan: WindowPlan,
}

/// Views of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WhichView {
    /// Where it stands: goal, summary, steps, open gaps, sources
    Index,
    /// The same without its lists
    Summary,
    /// One step in full; see --step
    Step,
    /// What is needed to go on
    Continuation,
    /// What a model sees within a budget
    Window,
    /// How full the model's context is, by what its harness reports
    Usage,
    /// What the client's compactions took out of its context
    Compactions,
}

impl WhichView {
    /// Its name in a URL.
    pub(super) fn route(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Summary => "summary",
            Self::Step => "steps",
            Self::Continuation => "continuation",
            Self::Window => "window",
            Self::Usage => "usage",
            Self::Compactions => "compactions",
        }
    }
}

/// What a window is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WindowFormat {
    /// Events as they are kept (the default)
    Events,
    /// Messages of Anthropic's API
    Anthropic,
    /// Messages of OpenAI's chat API
    Openai,
}

impl WindowFormat {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
A file holds JSON lines, each one of
  {\"id\": \"…\", \"messages\": […], …}   a conversation in OpenAI's chat format
  […]                                 the messages of one
  {\"role\": \"user\", …}               one message of the file's only conversation
  {\"type\": \"user.message\", …}       one event, as `sessionlog events` prints it
or it is a transcript of Claude Code (~/.claude/projects/…/ID.jsonl) or a rollout of Codex
(~/.codex/sessions/…/rollout-….jsonl). Messages may be those of Anthropic's API, too.
A transcript goes into the session it is of; where hooks recorded that one as it happened, beside
it, into ID.transcript, and that is told.
Import again when a file has grown: only what is new is added. A conversation is not put into a
session that holds another one: it is left out and told, name another session with --session.
Events keep their ids: one that is there with other content is told. Exit code 1 when anything was
left out.")]
pub(super) struct Import {
    /// Files to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// The session, for a file that holds one conversation without an id
    #[arg(long, value_name = "S", value_parser = session)]
    pub(super) session: Option<SessionId>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog export trip --format openai > trip.jsonl")]
pub(super) struct Export {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "jsonl")]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Events, one JSON object a line
    #[value(alias = "events")]
    Jsonl,
    /// The conversation of any session in OpenAI's chat format; what was imported as it was
    Openai,
    /// Messages of Anthropic's API of any session; what was imported as it was
    Anthropic,
    /// The transcript of Claude Code that was imported, line by line
    ClaudeCode,
    /// The rollout of Codex that was imported, line by line
    Codex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// Oldest first
    Asc,
    /// Newest first
    Desc,
}

impl Order {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Hold {
    /// The session's id
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: SessionId,
    /// Let it go: its idle time begins anew
    #[arg(long)]
    pub(super) release: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog retention --dry-run                   what expires, when and why
  sessionlog retention                             let go at once what is due
The owner does it by itself now and then. Limits are the settings ttl, retention and grace, and a
session's own ttl_seconds.")]
pub(super) struct Retention {
    /// Only show what is to come; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Sessions to show at most
    #[arg(long, short = 'n', value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file is the setting tokens_file. A server reads it again when it changes: a token that is
revoked is refused at the next request.")]
pub(super) struct Tokens {
    #[command(subcommand)]
    pub(super) verb: TokensVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokensVerb {
    /// Make a token and print it, this once
    Create(NewToken),
    /// List the tokens, without what is secret
    List,
    /// Refuse a token from now on
    Revoke(OneToken),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: sessionlog tokens create --tokens-file tokens.json --tenant acme --user ada --expires 90d
Scopes: read, write, delete, admin (a tenant's affairs, and the three before) and operator (the
server's affairs, of all tenants: metrics, reports).")]
pub(super) struct NewToken {
    /// Whose sessions it opens
    #[arg(long, value_name = "T", default_value = "default")]
    pub(super) tenant: String,
    /// The user of the tenant; users do not see each other's sessions
    #[arg(long, value_name = "U")]
    pub(super) user: String,
    /// What it may do
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "read,write", value_parser = grant)]
    pub(super) scopes: Vec<Grant>,
    /// When it ends: after 90d or 12h, or at an instant; never when not said
    #[arg(long, value_name = "WHEN")]
    pub(super) expires: Option<String>,
    /// What to remember it by
    #[arg(long, value_name = "TEXT")]
    pub(super) label: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OneToken {
    /// Its id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
To change the master key: give the new one as the key and the old one as the key before
(SESSIONLOG_KEY and SESSIONLOG_KEY_PREVIOUS, or the second line of a file or of what a command
prints), restart a server, run `sessionlog keys rotate`, and take the old one away when it says so.
No event is encrypted anew. What a crash cuts off goes on with the next run.")]
pub(super) struct Keys {
    #[command(subcommand)]
    pub(super) verb: KeysVerb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(super) enum KeysVerb {
    /// Which keys it wants and which are given, and what is under which; changes nothing
    Check,
    /// Wrap the keys of all sessions under the key that is given as the current one
    Rotate,
}

#[derive(Debug, Args)]
pub(super) struct Audit {
    /// The first position wanted
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Lines at most
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) limit: Option<u64>,
    /// Which come first
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(super) order: Order,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog backup create /backups/monday
  sessionlog backup restore /backups/monday --data-dir ./restored
A backup is as large as the data directory and as secret: an encrypted one stays encrypted, and
needs its key to be restored. It shows one moment; what is acknowledged before it begins is in it.")]
pub(super) struct Backup {
    #[command(subcommand)]
    pub(super) verb: BackupVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum BackupVerb {
    /// Copy the store into a directory that is empty or not there yet, and read the copy back
    Create(BackupTo),
    /// Make the data directory of a backup; it must be empty or not there yet
    Restore(BackupFrom),
}

#[derive(Debug, Args)]
pub(super) struct BackupTo {
    /// The directory of the backup
    #[arg(value_name = "DIR")]
    pub(super) to: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct BackupFrom {
    /// The directory of the backup
    #[arg(value_name = "DIR")]
    pub(super) from: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog verify                                every session
  sessionlog verify trip --expect-head 57:9d2a…    and that nothing a receipt saw was taken back
A receipt is the `receipt` of an append's answer, or of `sessionlog show S --json`: keep the newest
one where nobody can change it who can write to the data directory. Exit code 3: something is
damaged, or the receipt does not hold.")]
pub(super) struct Verify {
    /// Only this session
    #[arg(value_name = "S", value_parser = session)]
    pub(super) session: Option<SessionId>,
    /// A receipt of the session that was kept elsewhere: its position and its chain value
    #[arg(long, value_name = "POSITION:HASH", requires = "session", value_parser = receipt)]
    pub(super) expect_head: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog repair run-7
  sessionlog repair run-7 --accept-loss
  sessionlog repair --store --accept-loss
Without --accept-loss nothing is changed; exit code 3 says that something is damaged.
What is given up stays a gap for ever, and copies are in quarantine/ before it is.")]
pub(super) struct Repair {
    /// The session
    #[arg(value_name = "S", value_parser = session, required_unless_present = "store")]
    pub(super) session: Option<SessionId>,
    /// What names no session, so that the whole store takes no writes
    #[arg(long, conflicts_with = "session")]
    pub(super) store: bool,
    /// Give up what is damaged: the loss is recorded, and appends go on behind it
    #[arg(long)]
    pub(super) accept_loss: bool,
    /// Only show what would be given up
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog inspect ~/.local/share/sessionlog
  sessionlog inspect ~/.local/share/sessionlog/journal/0
It reads without the lock: a directory in use shows a moment of it. Exit code 3: something is bad.")]
pub(super) struct Inspect {
    /// A file of a data directory, or the directory
    #[arg(value_name = "PATH")]
    pub(super) path: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Keep the demo's data directory and say where it is
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog bench --quick                         twenty seconds, for a first look
  sessionlog bench                                 every row, about three minutes
  sessionlog bench floor engine --rounds 5         only the disk and the engine
  sessionlog bench http.append redis --json        rows by the beginning of their names
  sudo chrt -r 1 sessionlog bench                  on a machine that does other things as well

Figures move from machine to machine and from minute to minute: quote ratios of one run. It works
in a directory of its own, which goes away, and starts PostgreSQL and Redis there when they are
installed. Exit code 0, targets met or not, unless --check is given. See docs/performance.md.")]
pub(super) struct Bench {
    /// Groups (floor, engine, http, slice, peers, start, research, fork, disk) or beginnings of row
    /// names
    #[arg(value_name = "ROWS")]
    pub(super) rows: Vec<String>,
    /// One short round of each row
    #[arg(long)]
    pub(super) quick: bool,
    /// Rounds of each row; they are interleaved, and the median counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) rounds: Option<u32>,
    /// Seconds of a round
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Sessions of the rows with many; otherwise 10000, and 100000 where a server is started
    #[arg(long, value_name = "N", value_parser = sessions)]
    pub(super) sessions: Option<usize>,
    /// Bytes of events in the sessions that a server is started on, such as 10GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) fill: Option<u64>,
    /// Where to make the directory that is measured: on the disk you want to know about
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Other stores beside this one: those that are installed, or none
    #[arg(long, value_enum, value_name = "WHICH", default_value = "auto")]
    pub(super) peers: Peers,
    /// Conversations for the row of disk bytes: files that `import` takes, or directories of them
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) transcripts: Vec<PathBuf>,
    /// web-researcher-mcp, to be compared in the research rows; without it the one in PATH
    #[arg(long, value_name = "PROGRAM")]
    pub(super) reference: Option<PathBuf>,
    /// Exit with code 1 when a target is missed
    #[arg(long)]
    pub(super) check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Peers {
    /// PostgreSQL and Redis, where they are installed
    Auto,
    /// None
    None,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: sessionlog completions bash > ~/.local/share/bash-completion/completions/sessionlog"
)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
}

pub(super) fn session(text: &str) -> Result<SessionId, String> {
    SessionId::new(text)
        .map_err(|error| format!("{error}; an id is [A-Za-z0-9][A-Za-z0-9._-]{{0,127}}"))
}

fn event(text: &str) -> Result<EventId, String> {
    EventId::new(text).map_err(|error| error.to_string())
}

fn receipt(text: &str) -> Result<String, String> {
    let wrong = || "it must be POSITION:HASH of a receipt, the hash 64 hex digits".to_owned();
    Receipt::parse(text).map(|_| text.to_owned()).ok_or_else(wrong)
}

fn grant(text: &str) -> Result<Grant, String> {
    let wrong = || "the scopes are read, write, delete, admin and operator".to_owned();
    Grant::parse(text).ok_or_else(wrong)
}

fn point(text: &str) -> Result<String, String> {
    Point::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("it must be a number above 0, for example 2 or 0.5".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0.001 to 3600".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || "it must be a size, such as 500MiB or 10GiB".to_owned();
    super::config::size(text).ok_or_else(wrong)
}

fn sessions(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=10_000_000).contains(&count) => Ok(count),
        _ => Err("it must be a whole number from 1 to 10000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}

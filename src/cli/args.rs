//! The command line: verbs, their arguments, their help. It must not hold a default of a setting
//! (config does) nor act on anything.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{
    common::{Common, session},
    complete::ids,
    mcp::Mcp,
    proxy::Proxy,
    settings::OfAnOwner,
    values::duration,
};
use crate::{
    access::Grant,
    event::{EventId, Point, SessionId},
    service::Receipt,
};

const EXAMPLES: &str = "\
Examples:
  sessionlog demo                                  see it work in ten seconds
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

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Run the HTTP and MCP server until it is stopped
    Serve(Serve),
    /// Run an MCP server on standard input and output
    Mcp(Mcp),
    /// Record a hook event of Claude Code or Codex from standard input
    Hook,
    /// Add sessionlog's hooks and MCP tools to Claude Code or Codex
    Install(Install),
    /// Remove sessionlog from Claude Code's or Codex's settings
    Uninstall(Install),
    /// Stop recording what agents do, everywhere or in a directory
    Pause(Pause),
    /// Record again what agents do
    Unpause(Unpause),
    /// Wrap an MCP server: record tool calls and answer repeats
    Proxy(Proxy),
    /// List sessions, newest first
    #[command(visible_aliases = ["ls", "list"])]
    Sessions(Sessions),
    /// Show a session: its size, task, progress, parents and forks
    Show(Show),
    /// Append events from standard input, one JSON object per line
    Append(Append),
    /// Search the events of every session by words
    Search(Search),
    /// Print events, one JSON object per line
    Events(Events),
    /// Replay a session in order; full-screen on a terminal
    Replay(Replay),
    /// Show a summary of a session within a token budget
    View(View),
    /// Show a session as of an earlier point; nothing is removed
    Rewind(Rewind),
    /// Start a new session from a point of another one; no event is copied
    Fork(Fork),
    /// Show what changed between two points of a session
    Diff(Diff),
    /// Import conversations from files
    Import(Import),
    /// Write a session to standard output
    Export(Export),
    /// List, create or resume the checkpoints of a session
    Checkpoints(Checkpoints),
    /// List, set or delete the named read positions of a session
    Cursors(Cursors),
    /// List what is remembered in a session or a workspace, add to it or forget an item
    Memory(Memory),
    /// Mark an event as important, wrong or done
    Mark(Mark),
    /// Take a session's write lease and show what is unfinished
    Wake(Wake),
    /// Give a session another title
    Rename(Rename),
    /// Set or remove tags of a session: pairs of its metadata
    Tag(Tag),
    /// Archive a session: it can be read, and not written
    Archive(OneSession),
    /// Let an archived session be written again
    Unarchive(OneSession),
    /// Show recent work, unfinished sessions and where to start
    History(History),
    /// Show which sessions changed a file, and what was asked for
    Why(Why),
    /// Delete a session; restore brings it back until its grace period ends
    Delete(Delete),
    /// Protect a session from expiry and deletion, or release it
    Hold(Hold),
    /// Permanently destroy a session's contents, on disk too; cannot be undone
    Erase(Erase),
    /// Permanently remove the body of one event
    Redact(OneEvent),
    /// Restore an expired or a deleted session
    Restore(OneSession),
    /// Expire sessions past their retention period
    Retention(Retention),
    /// Create, list and revoke access tokens of a server
    Tokens(Tokens),
    /// Print the audit log: access changes, deletions, refusals
    Audit(Audit),
    /// Check or rotate the master key of the store
    Keys(Keys),
    /// Back up the store while it is in use, or restore a backup
    Backup(Backup),
    /// Read every session and check its checksums and hash chain
    Verify(Verify),
    /// Show permanent damage; with --accept-loss, continue without it
    Repair(Repair),
    /// Print a journal file, a segment or a data directory
    Inspect(Inspect),
    /// Show the store on one screen: owner, sessions, disk, keys
    Status,
    /// Check the installation and say how to fix each problem
    Doctor,
    /// Print every setting with its value, source and meaning
    Config,
    /// Show in ten seconds what survives a killed process
    Demo(Demo),
    /// Benchmark this machine: disk, engine and HTTP
    Bench(Bench),
    /// Print a shell completion script
    Completions(Completions),
    /// Print the manual page, or the page of a verb
    Man(Man),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog serve --listen 127.0.0.1:8800 --data-dir ./data")]
pub(super) struct Serve {
    /// Own the data directory for front ends only; exit when none is connected
    #[arg(long, hide = true)]
    pub(super) on_demand: bool,
    #[command(flatten)]
    pub(super) settings: OfAnOwner,
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
    /// Your own settings, for every project
    User,
    /// The settings of the project in this directory, shared by everyone who works on it
    Project,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog install claude-code --dry-run         what would change
  sessionlog install codex --yes
  sessionlog install claude-code --scope project   in .claude/settings.json and .mcp.json here

On a terminal it asks first; without one --yes is required. Other content of the files is kept.
`uninstall` restores the files byte for byte unless they were edited since. Settings given as flags
(--data-dir, --url) are passed on to the agent.")]
pub(super) struct Install {
    /// Program to set up
    #[arg(value_enum, value_name = "AGENT")]
    pub(super) agent: AgentName,
    /// Settings to change
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
    pub(super) scope: InstallScope,
    /// Show the change without making it
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Confirm without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog pause                 nothing is recorded, in any store, until unpause
  sessionlog pause . --for 2h      of this directory and all below it, for two hours

It holds for hooks and proxies of every store, also while no server runs; SESSIONLOG_RECORD=off does
the same for one program. What an agent says meanwhile is not read from its transcript later. The
next event of its session is preceded by one that tells of the gap.")]
pub(super) struct Pause {
    /// Directory; default: everywhere
    #[arg(value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
    /// How long, such as 30m or 2h; default: until unpause
    #[arg(long = "for", value_name = "DURATION", value_parser = lasts)]
    pub(super) lasts: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: sessionlog why src/parser.rs

It reads the newest 200 sessions of the file's repository, and of none. A change that a person or
another program made is in no session.")]
pub(super) struct Why {
    /// The file
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Unpause {
    /// The directory that was paused; default: end every pause
    #[arg(value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Sessions {
    /// Maximum number of sessions
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Only sessions of this workspace
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    /// Only sessions of this client, such as claude-code or codex
    #[arg(long, value_name = "NAME")]
    pub(super) client: Option<String>,
    /// Only sessions with this tag; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(super) tag: Vec<(String, String)>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "desc")]
    pub(super) order: Order,
    /// Only sessions of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["idle", "running", "rescheduling", "terminated"])]
    pub(super) state: Vec<String>,
    /// Only sessions created since: an instant of RFC 3339, or a duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(super) since: Option<String>,
    /// Only sessions created before: an instant of RFC 3339, or a duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(super) until: Option<String>,
    /// Also archived sessions
    #[arg(long)]
    pub(super) archived: bool,
    /// Expired and deleted sessions instead, and until when `restore` brings them back
    #[arg(long, conflicts_with_all = ["workspace", "client", "tag", "order", "state", "since", "until", "archived"])]
    pub(super) deleted: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog search connection pool                 the best matches of all sessions
  sessionlog search '\"lock order\" -draft' --around 2  that text exactly, with what is around it
  sessionlog search 'who:user deadline' --since 7d   what a person said of it this week

In QUERY: \"exact text\" and +word must be there, -word must not, pre* is the beginning of a word;
type:, session:, workspace:, who:, origin:, file:, url:, after: and before: filter.")]
pub(super) struct Search {
    /// Words to look for
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    pub(super) query: Vec<String>,
    /// Only this session, with what it has of its parents
    #[arg(long, value_name = "S", value_parser = session, add = ids())]
    pub(super) session: Option<SessionId>,
    /// Only sessions of this workspace
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    /// Only events of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,
    /// Only items of memory of these kinds: episodic, semantic, procedural, working
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    pub(super) kinds: Vec<String>,
    /// Only by this speaker: user, agent, tool, or a name
    #[arg(long, value_name = "NAME")]
    pub(super) who: Option<String>,
    /// Only of this origin: user, model, tool, web, import
    #[arg(long, value_name = "ORIGIN")]
    pub(super) origin: Option<String>,
    /// Only events since: an instant of RFC 3339, or a duration such as 7d
    #[arg(long, value_name = "WHEN", alias = "after")]
    pub(super) since: Option<String>,
    /// Only events before: an instant of RFC 3339, or a duration such as 7d
    #[arg(long, value_name = "WHEN", alias = "before")]
    pub(super) until: Option<String>,
    /// Also archived sessions
    #[arg(long)]
    pub(super) archived: bool,
    /// Events to show on either side of each hit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=5))]
    pub(super) around: Option<u64>,
    /// Maximum number of hits; default 10
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) limit: Option<u64>,
    /// Newest first instead of best first
    #[arg(long)]
    pub(super) newest: bool,
    /// Wait up to this long for events that are not indexed yet
    #[arg(long, value_name = "DURATION", value_parser = waited)]
    pub(super) wait: Option<Duration>,
}

fn waited(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "a duration such as 5s is expected".to_owned())
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog rename trip 'A week in Ghent'")]
pub(super) struct Rename {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// New title; an empty one removes it
    #[arg(value_name = "TITLE")]
    pub(super) title: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog tag trip team=travel budget=none     set two
  sessionlog tag trip budget=                     remove one
  sessionlog sessions --tag team=travel           list those with it")]
pub(super) struct Tag {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Tags to set; one without a value is removed
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = pair)]
    pub(super) pairs: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. Exported files and backups keep their
copies.")]
pub(super) struct Erase {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids(), required_unless_present = "notebook")]
    pub(super) session: Option<SessionId>,
    /// Instead of a session: what is remembered for this workspace
    #[arg(long, value_name = "W", conflicts_with = "session")]
    pub(super) notebook: Option<String>,
    /// Confirm without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Only its parents and forks
    #[arg(long)]
    pub(super) lineage: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneSession {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks first; without one --yes is required. The session is hidden at once. Until
its grace period ends (setting grace) `sessionlog restore` brings it back; then its bytes are
removed, and its id can be used again.
With --now its bytes are removed at once, which frees disk space, also on a full disk. An expired
session and a deleted one take it too.")]
pub(super) struct Delete {
    /// Remove its bytes at once: it cannot be restored
    #[arg(long)]
    pub(super) now: bool,
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Confirm without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: sessionlog redact trip evt_0198c5d2f0a07a1b8c3d4e5f60718293
On a terminal it asks first; without one --yes is required.")]
pub(super) struct OneEvent {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Event id, as `events` prints it
    #[arg(value_name = "EVENT", value_parser = event)]
    pub(super) event: EventId,
    /// Confirm without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo '{\"type\":\"user.message\",\"content\":\"hello\"}' | sessionlog append --create trip
  sessionlog events old | sessionlog append --create copy

Each line is one event: a `type`, an optional `id` (a retry with the same id appends nothing), an
optional `position` (required position of the event), and any other members. Events are appended in
batches as they arrive. Acknowledged events are durable.")]
pub(super) struct Append {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Create the session if it does not exist
    #[arg(long)]
    pub(super) create: bool,
    /// Append only if the first event gets this position
    #[arg(long, value_name = "N")]
    pub(super) if_position: Option<u64>,
    /// Retry key: the same lines with the same key append nothing for 24 hours
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
    /// Fencing token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(super) fencing_token: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog checkpoints trip                      newest first
  sessionlog checkpoints trip --create --label 'tests pass' --state state.json
  sessionlog checkpoints trip --show 'tests pass'  with its state
  sessionlog checkpoints trip --resume chk_…       continue from it; nothing is removed")]
pub(super) struct Checkpoints {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Create a checkpoint
    #[arg(long, conflicts_with_all = ["show", "resume"])]
    pub(super) create: bool,
    /// Show one, by id or label, with its state
    #[arg(long, value_name = "C")]
    pub(super) show: Option<String>,
    /// Resume from a checkpoint by id or label
    #[arg(long, value_name = "C", conflicts_with = "show")]
    pub(super) resume: Option<String>,
    /// Label of the new checkpoint
    #[arg(long, value_name = "TEXT", requires = "create")]
    pub(super) label: Option<String>,
    /// Thread of the new checkpoint, or to list
    #[arg(long, value_name = "T")]
    pub(super) thread: Option<String>,
    /// Parent of the new checkpoint; default: the last of its thread
    #[arg(long, value_name = "C", requires = "create")]
    pub(super) parent: Option<String>,
    /// Position of the new checkpoint; default: the end
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true, requires = "create")]
    pub(super) at: Option<String>,
    /// File with the agent's whole state as a JSON object; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create", conflicts_with = "state_delta")]
    pub(super) state: Option<PathBuf>,
    /// File with the change of the state as a JSON merge patch; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "create")]
    pub(super) state_delta: Option<PathBuf>,
    /// Mark the work as done at this checkpoint
    #[arg(long, requires = "create")]
    pub(super) r#final: bool,
    /// Fencing token of the session's lease, as `wake` prints it
    #[arg(long, value_name = "N")]
    pub(super) fencing_token: Option<u64>,
    /// Maximum number of checkpoints
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog cursors trip                          where each reader continues
  sessionlog cursors trip --put me --at end
  sessionlog events trip --from cursor:me          events it has not read
  sessionlog cursors trip --delete me")]
pub(super) struct Cursors {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Set the cursor of this name
    #[arg(long, value_name = "NAME", conflicts_with = "delete")]
    pub(super) put: Option<String>,
    /// Position of the cursor; default: the end
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true, requires = "put")]
    pub(super) at: Option<String>,
    /// Delete the cursor of this name
    #[arg(long, value_name = "NAME")]
    pub(super) delete: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog memory trip                               what the session and its workspace remember
  sessionlog memory trip --insert 'Staging listens on 8443' --topic staging
  sessionlog memory --workspace ~/work/bank --kind procedural
  sessionlog memory trip --forget memory_5ad0f1c2

A fact (semantic) or a skill (procedural) of a session with a workspace is kept in the notebook of
the workspace; episodic and working items stay in the session.")]
pub(super) struct Memory {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids(), required_unless_present = "workspace")]
    pub(super) session: Option<SessionId>,
    /// Instead of a session: the notebook of this workspace
    #[arg(long, value_name = "W", conflicts_with = "session")]
    pub(super) workspace: Option<String>,
    /// Remember this text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["forget", "show"])]
    pub(super) insert: Option<String>,
    /// Only these kinds; with --insert the kind of the item, semantic by default
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = ["episodic", "semantic", "procedural", "working"])]
    pub(super) kind: Vec<String>,
    /// With --insert: what it is about
    #[arg(long, value_name = "TEXT", requires = "insert")]
    pub(super) topic: Option<String>,
    /// With --insert: tags for lookups
    #[arg(long, value_name = "TAG", value_delimiter = ',', requires = "insert")]
    pub(super) tags: Vec<String>,
    /// With --insert: how much it matters, from 1 to 10
    #[arg(long, value_name = "N", requires = "insert", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(super) importance: Option<u8>,
    /// With --insert: its name; the item of that name is superseded
    #[arg(long, value_name = "NAME", requires = "insert")]
    pub(super) name: Option<String>,
    /// With --insert: the id of the item that it supersedes
    #[arg(long, value_name = "ID", requires = "insert")]
    pub(super) supersedes: Option<String>,
    /// Forget the item of this id
    #[arg(long, value_name = "ID", value_parser = event, conflicts_with = "show")]
    pub(super) forget: Option<EventId>,
    /// Show the item of this id in full
    #[arg(long, value_name = "ID", value_parser = event)]
    pub(super) show: Option<EventId>,
    /// Print what these words find in full, within --tokens
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["insert", "forget", "show"])]
    pub(super) page: Option<String>,
    /// With --page: tokens of all blocks; default 2 000
    #[arg(long, value_name = "N", requires = "page", value_parser = clap::value_parser!(u64).range(100..=200_000))]
    pub(super) tokens: Option<u64>,
    /// Also items that were superseded or ended
    #[arg(long)]
    pub(super) all: bool,
    /// Maximum number of items; default 100
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog mark trip 17 --as wrong --note 'the ferry leaves at 9'
  sessionlog mark trip end --as important --importance 9

A search that finds the event shows its marks. A later mark of the same kind replaces the earlier.")]
pub(super) struct Mark {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Position or another point of the event
    #[arg(value_name = "POSITION", value_parser = point, allow_hyphen_values = true)]
    pub(super) at: String,
    /// What to say of it
    #[arg(long = "as", value_name = "MARK", value_parser = ["important", "wrong", "done"])]
    pub(super) mark: String,
    /// How much it matters, from 1 to 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(super) importance: Option<u8>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(super) note: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog wake trip                             prints the fencing token that writers must send
  sessionlog append trip --fencing-token 1 < more.jsonl
  sessionlog wake trip --renew 1
  sessionlog wake trip --release 1
If another harness holds the lease, wait until it expires or take it with --steal. Later writes of
the other harness are refused.")]
pub(super) struct Wake {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Take the lease from its current holder
    #[arg(long, conflicts_with_all = ["renew", "release"])]
    pub(super) steal: bool,
    /// Seconds until the lease expires unless renewed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
    /// Renew the lease of this token
    #[arg(long, value_name = "TOKEN", conflicts_with = "release")]
    pub(super) renew: Option<u64>,
    /// Release the lease of this token
    #[arg(long, value_name = "TOKEN")]
    pub(super) release: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct History {
    /// Only sessions of this workspace
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    /// Maximum number of sessions
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
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// First position
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Position to stop before
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: Option<String>,
    /// Show events around this position
    #[arg(
        long, value_name = "POINT", value_parser = point, allow_hyphen_values = true,
        conflicts_with_all = ["from", "to", "follow"]
    )]
    pub(super) around: Option<String>,
    /// Number of events before --around
    #[arg(long, value_name = "N", requires = "around")]
    pub(super) before: Option<u64>,
    /// Number of events after --around
    #[arg(long, value_name = "N", requires = "around")]
    pub(super) after: Option<u64>,
    /// Only events of these types
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(super) order: Order,
    /// Maximum number of events
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Read a damaged session: print what is intact and name the gaps
    #[arg(long)]
    pub(super) allow_gaps: bool,
    /// Print new events as they become durable, from the end or from --from
    #[arg(long, short, visible_alias = "tail", conflicts_with_all = ["to", "order"])]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog replay trip                           full-screen on a terminal; ? shows its keys
  sessionlog replay trip --from step:3 --speed 10  ten times the original speed
  sessionlog replay trip --follow                  a session that is being written
  sessionlog replay trip --lines                   plain lines, as in a pipe")]
pub(super) struct Replay {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// First position
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Position to stop before
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: Option<String>,
    /// Pause between events as recorded, this many times faster; default: no pause
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(super) speed: Option<f64>,
    /// Print lines instead of the player, on a terminal too
    #[arg(long)]
    pub(super) lines: bool,
    /// Wait for new events at the end and show them
    #[arg(long, short, conflicts_with = "to")]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog rewind trip --to step:3               what was known then
  sessionlog rewind trip --to -10 --fork           continue from there in a new session")]
pub(super) struct Rewind {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Point to look from; only events before it count
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: String,
    /// Start a new session from there instead
    #[arg(long)]
    pub(super) fork: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog fork trip --at end
  sessionlog fork trip --at event:e42 --id trip-2 --title 'Another way'")]
pub(super) struct Fork {
    /// Id of the parent session, or a unique prefix of it
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Point to fork at; events before it are shared
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) at: String,
    /// Id of the new session; default: generated
    #[arg(long, value_name = "ID", value_parser = session, add = ids())]
    pub(super) id: Option<SessionId>,
    /// Title of the new session; default: the parent's
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog diff trip step:3 end
  sessionlog diff trip 0 -5
  sessionlog diff trip -40 end --tokens-max 4000    what left and entered a model's window
The points may be given in either order. `sessionlog events trip --from P --to P` prints the events.")]
pub(super) struct Diff {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// First point
    #[arg(value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: String,
    /// Second point
    #[arg(value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) to: String,
    #[command(flatten)]
    pub(super) plan: WindowPlan,
}

/// How a window is built.
#[derive(Debug, Args)]
pub(super) struct WindowPlan {
    /// Maximum number of tokens
    #[arg(long, value_name = "N")]
    pub(super) tokens_max: Option<u64>,
    /// Transform applied to the window; may be repeated
    #[arg(long, value_name = "T")]
    pub(super) transform: Vec<String>,
    /// Format of the window
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<WindowFormat>,
    /// Tokenizer: o200k_base or claude
    #[arg(long, value_name = "NAME")]
    pub(super) tokenizer: Option<String>,
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
pub(super) struct View {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// View to show
    #[arg(value_enum, value_name = "VIEW", default_value = "index")]
    pub(super) which: WhichView,
    /// Show the session as of this point
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) at: Option<String>,
    /// Start the window at this point
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Step number
    #[arg(long, value_name = "N", required_if_eq("which", "step"))]
    pub(super) step: Option<u64>,
    /// Branch of the step
    #[arg(long, value_name = "B", requires = "step")]
    pub(super) branch: Option<String>,
    /// Continue a list or long text where the previous answer ended
    #[arg(long, value_name = "CURSOR")]
    pub(super) cursor: Option<String>,
    /// Level of the summary: step, phase, session, or auto (the finest that is complete)
    #[arg(long, value_name = "LEVEL")]
    pub(super) level: Option<String>,
    /// Print why each item was chosen
    #[arg(long)]
    pub(super) explain: bool,
    /// Search the session for these words, best match first; a phrase in double quotes must match
    /// exactly
    #[arg(long, value_name = "WORDS")]
    pub(super) find: Option<String>,
    #[command(flatten)]
    pub(super) plan: WindowPlan,
}

/// Views of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WhichView {
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
    /// How full the model's context is, as its harness reports
    Usage,
    /// What the client's compactions removed from its context
    Compactions,
}

/// What a window is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WindowFormat {
    /// Events as stored (default)
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
Each line of a file is JSON, one of
  {\"id\": \"…\", \"messages\": […], …}   a conversation in OpenAI's chat format
  […]                                 the messages of a conversation
  {\"role\": \"user\", …}               one message of the file's only conversation
  {\"type\": \"user.message\", …}       one event, as `sessionlog events` prints it
or the file is a transcript of Claude Code (~/.claude/projects/…/ID.jsonl) or a rollout of Codex
(~/.codex/sessions/…/rollout-….jsonl). Messages of Anthropic's API work too.
A transcript is imported into the session it belongs to. If hooks already recorded that session, the
transcript goes into ID.transcript beside it.
Importing a grown file again adds only what is new. A conversation is never merged into a session
that holds another one; it is skipped and reported: name another session with --session. Events keep
their ids; an existing id with other content is reported. Exit code 1 if anything was skipped.")]
pub(super) struct Import {
    /// Files to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Session id, for a file with one conversation without an id
    #[arg(long, value_name = "S", value_parser = session, add = ids())]
    pub(super) session: Option<SessionId>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog export trip --format openai > trip.jsonl
  sessionlog export trip --format md > trip.md     to read, or to show to someone

Secrets are removed from a document by the rules of recording (settings secrets, secrets_file), best
effort: read it before you pass it on. The other formats have every event as it is stored.")]
pub(super) struct Export {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "jsonl")]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
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
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: SessionId,
    /// Release the session; its idle time starts again
    #[arg(long)]
    pub(super) release: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog retention --dry-run                   what expires, when and why
  sessionlog retention                             expire what is due now
The owner also does this periodically. The limits are the settings ttl, retention and grace, and a
session's own ttl_seconds.")]
pub(super) struct Retention {
    /// Show what would expire; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Maximum number of sessions to show
    #[arg(long, short = 'n', value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file is the setting tokens_file. A server reloads it when it changes; a revoked token is refused
from the next request on.")]
pub(super) struct Tokens {
    #[command(subcommand)]
    pub(super) verb: TokensVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokensVerb {
    /// Create a token and print it once
    Create(NewToken),
    /// List the tokens without their secrets
    List,
    /// Revoke a token
    Revoke(OneToken),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: sessionlog tokens create --tokens-file tokens.json --tenant acme --user ada --expires 90d
Scopes: read, write, delete, admin (the three before, and the tenant's administration) and operator
(administration of the server: metrics, reports).")]
pub(super) struct NewToken {
    /// Tenant of the token
    #[arg(long, value_name = "T", default_value = "default")]
    pub(super) tenant: String,
    /// User of the tenant; users do not see each other's sessions
    #[arg(long, value_name = "U")]
    pub(super) user: String,
    /// Permissions of the token
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "read,write", value_parser = grant)]
    pub(super) scopes: Vec<Grant>,
    /// Expiry: a duration such as 90d or 12h, or an instant; default: never
    #[arg(long, value_name = "WHEN")]
    pub(super) expires: Option<String>,
    /// Label of the token
    #[arg(long, value_name = "TEXT")]
    pub(super) label: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OneToken {
    /// Token id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
To change the master key: set the new key as SESSIONLOG_KEY and the old one as
SESSIONLOG_KEY_PREVIOUS (or as the first and second line of the key file or of the key command's
output), restart the server, run `sessionlog keys rotate`, and remove the old key when it says so.
Events are not re-encrypted. An interrupted rotation continues with the next run.")]
pub(super) struct Keys {
    #[command(subcommand)]
    pub(super) verb: KeysVerb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(super) enum KeysVerb {
    /// Show which keys the store needs and which are given; changes nothing
    Check,
    /// Wrap the keys of all sessions under the current master key
    Rotate,
}

#[derive(Debug, Args)]
pub(super) struct Audit {
    /// First position
    #[arg(long, value_name = "POINT", value_parser = point, allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Maximum number of lines
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) limit: Option<u64>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(super) order: Order,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog backup create /backups/monday
  sessionlog backup restore /backups/monday --data-dir ./restored
A backup is as large and as confidential as the data directory. A backup of an encrypted store stays
encrypted and needs its key. It is consistent and contains everything acknowledged before it began.")]
pub(super) struct Backup {
    #[command(subcommand)]
    pub(super) verb: BackupVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum BackupVerb {
    /// Copy the store into an empty or new directory and verify the copy
    Create(BackupTo),
    /// Restore a backup into the data directory, which must be empty or new
    Restore(BackupFrom),
}

#[derive(Debug, Args)]
pub(super) struct BackupTo {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    pub(super) to: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct BackupFrom {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    pub(super) from: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog verify                                every session
  sessionlog verify trip --expect-head 57:9d2a…    also check that nothing was rolled back
A receipt is the `receipt` of an append's answer, or of `sessionlog show S --json`. Keep the newest
one where writers of the data directory cannot change it. Exit code 3: something is damaged, or the
receipt does not hold.")]
pub(super) struct Verify {
    /// Only this session: its id, or a unique prefix
    #[arg(value_name = "S", value_parser = session, add = ids())]
    pub(super) session: Option<SessionId>,
    /// Receipt of the session that was kept elsewhere: position and chain value
    #[arg(long, value_name = "POSITION:HASH", requires = "session", value_parser = receipt)]
    pub(super) expect_head: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog repair run-7
  sessionlog repair run-7 --accept-loss
  sessionlog repair --store --accept-loss
Without --accept-loss nothing is changed; exit code 3 means that something is damaged. Accepted loss
stays a gap permanently; the damaged bytes are first copied to quarantine/.")]
pub(super) struct Repair {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = session, required_unless_present = "store")]
    pub(super) session: Option<SessionId>,
    /// Damage of no single session, which makes the whole store read-only
    #[arg(long, conflicts_with = "session")]
    pub(super) store: bool,
    /// Accept the loss: record it, and allow appends after it
    #[arg(long)]
    pub(super) accept_loss: bool,
    /// Accepted as with other verbs; --accept-loss confirms already
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Show what would be lost; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog inspect ~/.local/share/sessionlog
  sessionlog inspect ~/.local/share/sessionlog/journal/0
It reads without the lock, so a directory in use shows a snapshot. Exit code 3: something is
damaged.")]
pub(super) struct Inspect {
    /// A data directory, or a journal file or segment in one
    #[arg(value_name = "PATH")]
    pub(super) path: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Keep the demo's data directory and print its path
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog bench                                 fifteen seconds
  sessionlog bench --dir /data --seconds 5         another disk, longer rounds
  sudo chrt -r 1 sessionlog bench                  on a busy machine

Figures vary between machines and runs: quote ratios of one run. It uses a temporary directory.")]
pub(super) struct Bench {
    /// Seconds per round; each row has three, interleaved, and the median counts [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Directory on the disk to measure [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: sessionlog completions bash > ~/.local/share/bash-completion/completions/sessionlog"
)]
pub(super) struct Completions {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog man > ~/.local/share/man/man1/sessionlog.1
  sessionlog man append | man -l -")]
pub(super) struct Man {
    /// Verb whose page to print
    #[arg(value_name = "VERB")]
    pub(super) verb: Option<String>,
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

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn lasts(text: &str) -> Result<Duration, String> {
    let wrong = || "it must be a duration, such as 30m, 2h or 7d".to_owned();
    super::values::duration(text).filter(|lasts| !lasts.is_zero()).ok_or_else(wrong)
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}

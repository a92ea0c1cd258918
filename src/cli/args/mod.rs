//! The command line: verbs, their arguments, their help. It must not hold a default of a setting
//! (config does) nor act on anything.

mod events;
mod graph;
mod handoff;
mod memory;
mod programs;
mod search;
mod sessions;
mod stores;
mod values;
mod views;
mod work;

use clap::{Parser, Subcommand};

use super::{common::CommonFlags, mcp::McpArgs, proxy::ProxyArgs};

pub(super) use self::{
    events::{
        AppendArgs, EventsArgs, ExportArgs, ExportFormat, ImportArgs, RangeArgs, RedactArgs,
        ReplayArgs,
    },
    graph::{GraphArgs, parse_entity},
    handoff::{
        ChainArgs, HandoffArgs, HandoffVerb, RestoreWorkArgs, SaveArgs, StartArgs, WorkspaceArgs,
        WorkspaceVerb,
    },
    memory::{MarkArgs, MemoryArgs},
    programs::{
        AgentName, CompletionsArgs, DemoArgs, InstallArgs, InstallScope, ManArgs, OpenArgs,
        PauseArgs, ServeArgs, UnpauseArgs,
    },
    search::SearchArgs,
    sessions::{
        DeleteArgs, EraseArgs, HoldArgs, RenameArgs, RetentionArgs, SessionArgs, SessionsArgs,
        ShowArgs, TagArgs, WhyArgs, WorkspaceChoice,
    },
    stores::{
        AuditArgs, BackupArgs, BackupVerb, InspectArgs, KeysArgs, KeysVerb, MigrateArgs,
        NewTokenArgs, RepairArgs, TokensArgs, TokensVerb, VerifyArgs,
    },
    values::{SortOrder, name_of},
    views::{
        CompareArgs, DiffArgs, ForkArgs, RewindArgs, ViewArgs, WhichView, WindowArgs, WindowFormat,
    },
    work::{CheckpointsArgs, CursorsArgs, HistoryArgs, UsageArgs, WakeArgs},
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

/// Returns the version, with the commit if the build provides it.
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
    pub(super) common: CommonFlags,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// [`Arguments`] of `hook` alone: an agent waits for it, and building the definitions of all verbs
/// takes longer than the hook itself.
#[derive(Debug, Parser)]
#[command(name = "sessionlog")]
pub(super) struct HookArguments {
    #[command(flatten)]
    pub(super) common: CommonFlags,
    #[command(subcommand)]
    verb: HookVerb,
}

#[derive(Debug, Subcommand)]
enum HookVerb {
    Hook,
}

impl From<HookArguments> for Arguments {
    fn from(HookArguments { common, verb: HookVerb::Hook }: HookArguments) -> Self {
        Self { common, verb: Verb::Hook }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Run the HTTP and MCP server until it is stopped
    Serve(ServeArgs),
    /// Open the page, on which sessions can be looked at, in a browser
    Open(OpenArgs),
    /// Run an MCP server on standard input and output
    Mcp(McpArgs),
    /// Record a hook event of Claude Code or Codex from standard input
    Hook,
    /// Deliver events of hooks that wait or were set aside
    #[command(after_help = "\
Every verb delivers what waits, before its own work. Events that a session refused, and files that
could not be read, are set aside; this verb tries them again and says what remains, and why.
`sessionlog doctor` counts both.")]
    Deliver,
    /// Add sessionlog's hooks and MCP tools to Claude Code or Codex
    Install(InstallArgs),
    /// Remove sessionlog from Claude Code's or Codex's settings
    #[command(after_help = "\
Examples:
  sessionlog uninstall claude-code --dry-run       what would change
  sessionlog uninstall codex --yes
  sessionlog uninstall claude-code --scope project   from .claude/settings.json and .mcp.json here

On a terminal it asks first; without one --yes is required. The files are restored byte for byte
unless they were edited since: then our entries alone are removed. What was recorded stays.")]
    Uninstall(InstallArgs),
    /// Stop recording what agents do, everywhere or in a directory
    Pause(PauseArgs),
    /// Resume recording what agents do
    Unpause(UnpauseArgs),
    /// Wrap an MCP server: record tool calls and answer repeats
    Proxy(ProxyArgs),
    /// List sessions, newest first
    #[command(visible_aliases = ["ls", "list"])]
    Sessions(SessionsArgs),
    /// Show a session: its size, task, progress, parents and forks
    Show(ShowArgs),
    /// Append events from standard input, one JSON object per line
    Append(AppendArgs),
    /// Search the events of all sessions
    Search(SearchArgs),
    /// Print events, one JSON object per line
    Events(EventsArgs),
    /// Replay a session in order; full-screen on a terminal
    Replay(ReplayArgs),
    /// Show a summary of a session within a token budget
    View(ViewArgs),
    /// Show a session as of an earlier point; nothing is removed
    Rewind(RewindArgs),
    /// Start a new session from a point of another one; no event is copied
    Fork(ForkArgs),
    /// Show what changed between two points of a session
    Diff(DiffArgs),
    /// Show where two sessions differ, such as a fork and its parent
    Compare(CompareArgs),
    /// Import conversations from files
    Import(ImportArgs),
    /// Write a session to standard output
    Export(ExportArgs),
    /// List, create or resume the checkpoints of a session
    Checkpoints(CheckpointsArgs),
    /// List, set or delete the named read positions of a session
    Cursors(CursorsArgs),
    /// List, add or forget items of memory of a session or a workspace
    Memory(MemoryArgs),
    /// Show the activity, entities and relations of a workspace, or write them
    Graph(GraphArgs),
    /// Mark an event as important, wrong or done
    Mark(MarkArgs),
    /// Save a session, restore it in a new session, or list the chain of sessions
    Handoff(HandoffArgs),
    /// Move the data of a workspace to its new path
    Workspace(WorkspaceArgs),
    /// Take a session's write lease and show what is unfinished
    Wake(WakeArgs),
    /// Change the title of a session
    Rename(RenameArgs),
    /// Set or remove tags of a session: pairs of its metadata
    Tag(TagArgs),
    /// Archive a session: it stays readable and rejects writes
    Archive(SessionArgs),
    /// Make an archived session writable again
    Unarchive(SessionArgs),
    /// Show recent work, unfinished sessions and where to start
    History(HistoryArgs),
    /// Show the tokens that sessions used, by day, model, session or workspace
    Usage(UsageArgs),
    /// Show which sessions changed a file, and the request for each change
    Why(WhyArgs),
    /// Delete a session; restore brings it back until its grace period ends
    Delete(DeleteArgs),
    /// Protect a session from expiry and deletion, or release it
    Hold(HoldArgs),
    /// Permanently destroy a session's contents, on disk too; cannot be undone
    Erase(EraseArgs),
    /// Permanently remove the body of one event
    Redact(RedactArgs),
    /// Restore an expired or a deleted session
    Restore(SessionArgs),
    /// Expire sessions past their retention period
    Retention(RetentionArgs),
    /// Create, list and revoke access tokens of a server
    Tokens(TokensArgs),
    /// Print the audit log: access changes, deletions, refusals
    Audit(AuditArgs),
    /// Check or rotate the master key of the store
    Keys(KeysArgs),
    /// Back up the store while it is in use, or restore a backup
    Backup(BackupArgs),
    /// Move the store to another data directory or database
    Migrate(MigrateArgs),
    /// Read every session and check its checksums and hash chain
    Verify(VerifyArgs),
    /// Show permanent damage; with --accept-loss, continue without it
    Repair(RepairArgs),
    /// Print a journal file, a segment or a data directory
    Inspect(InspectArgs),
    /// Show the store on one screen: owner, sessions, disk, keys
    Status,
    /// Check the installation and say how to fix each problem
    Doctor,
    /// Print every setting with its value, source and meaning
    Config,
    /// Show in ten seconds what survives a killed process
    Demo(DemoArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the manual page, or the page of a verb
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_definitions_of_the_command_line() {
        Arguments::command().debug_assert();
        HookArguments::command().debug_assert();
    }

    #[test]
    fn a_hook_parses_its_flags_like_every_verb_before_and_after_its_name() {
        for words in [
            &["sessionlog", "hook"][..],
            &["sessionlog", "--json", "hook", "--hook-wait", "3s"],
            &["sessionlog", "--data-dir", "/d", "hook", "--quiet", "--config=/c"],
        ] {
            let of_all = Arguments::try_parse_from(words).expect("it is consistent");
            let alone = HookArguments::try_parse_from(words).expect("it is consistent");
            assert_eq!(format!("{:?}", Arguments::from(alone)), format!("{of_all:?}"), "{words:?}");
        }
        for words in [&["sessionlog", "hook", "--none"][..], &["sessionlog", "hook", "--help"]] {
            assert!(HookArguments::try_parse_from(words).is_err(), "{words:?}");
        }
    }
}

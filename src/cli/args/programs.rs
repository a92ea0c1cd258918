//! The arguments of verbs that run or set up programs: the server, agents' programs, the demo. It
//! must not act on them.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{
    super::{common::parse_session_id, complete::id_completer, settings::OwnerFlags},
    values::parse_positive_duration,
};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "Example: sessionlog serve --listen 127.0.0.1:8800 --data-dir ./data")]
pub(crate) struct ServeArgs {
    /// Own the data directory for front ends only; exit when none is connected
    #[arg(long, hide = true)]
    pub(crate) on_demand: bool,
    #[command(flatten)]
    pub(crate) settings: OwnerFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog open               every session, by project
  sessionlog open trip          one session
  sessionlog open --no-browser  the address alone, to open it yourself

A running `sessionlog serve` shows the page at its own address. Without one, this command serves the
page at a free loopback port until Ctrl-C: as with `serve`, users of this machine can reach it.")]
pub(crate) struct OpenArgs {
    /// Session to show: its id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
    /// Print the address and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,
}

/// A program that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentName {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
}

/// Scope of the settings to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
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
  sessionlog install claude-code --allow-reads     and it recovers, searches and reads unasked

On a terminal it asks first; without one --yes is required. Other content of the files is kept.
`uninstall` restores the files byte for byte unless they were edited since. Settings given as flags
(--data-dir, --url) are passed on to the agent.")]
pub(crate) struct InstallArgs {
    /// Program to set up
    #[arg(value_enum, value_name = "AGENT")]
    pub(crate) agent: AgentName,
    /// Settings to change
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: InstallScope,
    /// Let Claude Code call the tools that only read without asking, by rules in its settings
    #[arg(long)]
    pub(crate) allow_reads: bool,
    /// Show the change without making it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Confirm without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog pause                 nothing is recorded, in any store, until unpause
  sessionlog pause . --for 2h      of this directory and all below it, for two hours

It holds for hooks and proxies of every store, also while no server runs; SESSIONLOG_RECORD=off does
the same for one program. What an agent says meanwhile is not read from its transcript later. The
next event of its session is preceded by one that tells of the gap.")]
pub(crate) struct PauseArgs {
    /// Directory [default: everywhere]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Length of the pause, such as 30m or 2h [default: until unpause]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_positive_duration)]
    pub(crate) lasts: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct UnpauseArgs {
    /// The paused directory [default: end every pause]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the demo's data directory and print its path
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: sessionlog completions bash > ~/.local/share/bash-completion/completions/sessionlog"
)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog man > ~/.local/share/man/man1/sessionlog.1
  sessionlog man append | man -l -")]
pub(crate) struct ManArgs {
    /// Verb whose page to print
    #[arg(value_name = "VERB")]
    pub(crate) verb: Option<String>,
}

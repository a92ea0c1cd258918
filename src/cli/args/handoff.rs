//! The arguments of `handoff`: save, restore, chain. It must not act on them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::{common::session, complete::ids};
use crate::event::SessionId;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog handoff save                              the work in this directory, as it stands
  sessionlog handoff restore --tokens 8000             continue it in a session of its own
  sessionlog handoff restore ~/work/bank --look        only look: nothing is written
  sessionlog handoff start                             what an agent that starts here receives
  sessionlog handoff chain                             which session continues which

A directory stands for its repository, or for itself where it has none.")]
pub(crate) struct HandoffArgs {
    #[command(subcommand)]
    pub(crate) verb: HandoffVerb,
}

impl HandoffArgs {
    /// The workspace that it names.
    pub(crate) fn workspace_mut(&mut self) -> &mut Option<String> {
        match &mut self.verb {
            HandoffVerb::Save(verb) => &mut verb.workspace,
            HandoffVerb::Restore(verb) => &mut verb.workspace,
            HandoffVerb::Start(verb) => &mut verb.workspace,
            HandoffVerb::Chain(verb) => &mut verb.workspace,
        }
    }

    /// The session that it names.
    pub(crate) fn session_mut(&mut self) -> Option<&mut SessionId> {
        match &mut self.verb {
            HandoffVerb::Save(verb) => verb.session.as_mut(),
            HandoffVerb::Restore(verb) => verb.session.as_mut(),
            HandoffVerb::Start(_) => None,
            HandoffVerb::Chain(verb) => verb.session.as_mut(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog workspace move ~/work/shop ~/work/store   after `mv ~/work/shop ~/work/store`

A workspace is its whole name: one below it, as of a repository inside, is moved by a call of its own.")]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    pub(crate) verb: WorkspaceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceVerb {
    /// Give sessions, memory and graph of a directory that was moved to its new path
    Move(MoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The workspace: the path that the directory had, or another name
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The path that it has now, or another name
    #[arg(value_name = "TO")]
    pub(crate) to: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandoffVerb {
    /// Save a session of a workspace for the one that continues it
    Save(SaveArgs),
    /// Print what is known of the work of a session, and make the session that continues it
    Restore(RestoreWorkArgs),
    /// Print what a session that begins in a workspace receives of those before it
    Start(StartArgs),
    /// List the sessions that continue one another
    Chain(ChainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// The workspace: a directory of it, or another name; default: that of the working directory
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// The session, when it is not the latest with work
    #[arg(long, value_name = "S", value_parser = session, add = ids())]
    pub(crate) session: Option<SessionId>,
    /// Where the work stands, in your words
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    /// A file that matters; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// A file with what to save, as the HTTP API takes it; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreWorkArgs {
    /// The workspace: a directory of it, or another name; default: that of the working directory
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// The session, when it is not the one saved last
    #[arg(long, value_name = "S", value_parser = session, add = ids())]
    pub(crate) session: Option<SessionId>,
    /// Tokens of the answer: 600 to 200 000, 4 000 by default
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
    /// Least importance of a context item: 0 to 10, 3 by default
    #[arg(long, value_name = "N")]
    pub(crate) threshold: Option<u8>,
    /// Maximum number of context items: 50 by default
    #[arg(long, value_name = "N")]
    pub(crate) items: Option<usize>,
    /// By what is chosen
    #[arg(long, value_name = "NAME", value_parser = ["hybrid", "recency", "importance", "vector"])]
    pub(crate) algorithm: Option<String>,
    /// Print texts whole or not at all
    #[arg(long)]
    pub(crate) whole: bool,
    /// Only look: nothing is written, and no session is made
    #[arg(long)]
    pub(crate) look: bool,
    /// Say why each item was chosen
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The workspace: a directory of it, or another name; default: that of the working directory
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Tokens of the text: 400 to 20 000, 700 by default
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    /// The workspace: a directory of it, or another name; default: that of the working directory
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// The session, when it is not the one that `restore` would choose
    #[arg(long, value_name = "S", value_parser = session, add = ids())]
    pub(crate) session: Option<SessionId>,
}

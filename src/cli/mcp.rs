//! `mcp`: starts the stdio front end with the process's environment. It must not handle a tool
//! call.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

use clap::Args;

use super::{
    common::parse_session_id,
    complete::id_completer,
    config::Config,
    connect,
    failure::{CliError, Outcome},
    screen::Screen,
    values::Environment,
};
use crate::{
    client::Client,
    env::parents,
    event::SessionId,
    mcp::{StdioOptions, serve_stdio},
    verbs::tools::Toolset,
};

#[derive(Debug, Args)]
#[command(after_help = "Example, for Claude Code: claude mcp add sessionlog -- sessionlog mcp")]
pub(super) struct McpArgs {
    /// Session for tool calls that name no session
    #[arg(long, value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(super) session: Option<SessionId>,
    /// Tool sets to offer, comma-separated: research (default), events, memory, graph,
    /// workspace; agent (six of them all, for a coding agent), all
    #[arg(long, value_name = "A,B")]
    pub(super) toolsets: Option<String>,
}

/// Variable with the session of the Claude Code process that started this program.
const CLAUDE_CODE_SESSION: &str = "CLAUDE_CODE_SESSION_ID";

pub(super) async fn run(
    client: Client,
    wanted: McpArgs,
    config: &Config,
    environment: &Environment,
    screen: &Screen,
) -> Outcome {
    if io::stdin().is_terminal() {
        screen.print_note(
            "sessionlog speaks MCP here, with the program that starts it; Ctrl-C to leave.",
        );
    }
    let toolsets = match &wanted.toolsets {
        Some(text) => Toolset::parse_list(text).map_err(|name| {
            let known = Toolset::ALL.map(Toolset::as_str).join(", ");
            let problem = format!("there is no toolset {name:?}; there are {known}, agent and all");
            CliError::usage(format!("--toolsets: {problem}"))
        })?,
        None => Vec::new(),
    };
    // In a directory where unrelated programs run, sessions belong to no project.
    let project = connect::current_project(environment).filter(|project| !project.shared);
    let text = |path: &PathBuf| path.display().to_string();
    let process =
        if wanted.session.is_none() { parents::parent_process_names() } else { Vec::new() };
    let options = StdioOptions {
        session: wanted.session.or_else(|| harness_session(environment)),
        process,
        connection: connect::random_text(),
        directory: project.as_ref().map(|project| text(&project.main_checkout_directory())),
        root: project.as_ref().and_then(|project| project.root.as_ref()).map(text),
        toolsets,
        local: connect::create_local(config, environment)?,
    };
    let action = "start `sessionlog mcp` from an MCP client";
    let ended = serve_stdio(client, options).await;
    ended.map_err(|error| CliError::invalid_request(error.to_string(), action))
}

/// Returns the session of the harness that started this program, if it sets one.
pub(super) fn harness_session(environment: &Environment) -> Option<SessionId> {
    SessionId::new(environment.variables.get(CLAUDE_CODE_SESSION)?.to_str()?).ok()
}

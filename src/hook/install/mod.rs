//! SETUP OF AGENTS: the files of Claude Code and Codex that name this program, and their new
//! content. A plan maps a text to a text; other entries of a file stay byte for byte. It must not
//! read or write a file.

mod diff;
mod json;
mod toml;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use diff::{diff, fold_equal_blocks};
use json::JsonDocument;

use crate::verbs::tools::{Tool, Toolset, in_toolsets, tool};

/// The name of this program's entries in files of other programs.
const NAME: &str = "sessionlog";
/// The toolset that is set up: answers of hooks name its tools.
const TOOLSET: Toolset = Toolset::Agent;
/// Maximum seconds that an agent's program waits for a hook, which needs milliseconds. Codex allows
/// fewer at the end of a session, and warns at each start if more are configured.
const TIMEOUT_SECONDS: u64 = 10;
const END_TIMEOUT_SECONDS: u64 = 3;
const END: &str = "SessionEnd";
/// Path of the calls that Claude Code makes without asking.
const ALLOWED: [&str; 2] = ["permissions", "allow"];

/// Events to register: those that a fold reads and those that the hook responds to, with the
/// programs that send them.
const EVENTS: [(&str, &[AgentProgram]); 11] = {
    const BOTH: &[AgentProgram] = &[AgentProgram::ClaudeCode, AgentProgram::Codex];
    [
        ("SessionStart", BOTH),
        ("UserPromptSubmit", BOTH),
        ("PreToolUse", BOTH),
        ("PostToolUse", BOTH),
        ("PostToolUseFailure", &[AgentProgram::ClaudeCode]),
        ("PreCompact", BOTH),
        ("PostCompact", BOTH),
        ("SubagentStart", BOTH),
        ("SubagentStop", BOTH),
        ("Stop", BOTH),
        ("SessionEnd", BOTH),
    ]
};

/// An agent's program that is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentProgram {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
}

/// The users that a setup applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupScope {
    /// The current user, in all directories.
    User,
    /// All users of this directory.
    Project,
}

/// Directories of the settings files.
#[derive(Clone, Debug)]
pub struct SetupPaths {
    /// The user's home.
    pub home: PathBuf,
    /// The directory of the agent's settings, if it is not in the home directory.
    pub settings: Option<PathBuf>,
    /// The project.
    pub project: PathBuf,
}

/// The command by which an agent's program runs this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledCommand {
    /// The program.
    pub program: String,
    /// Arguments before the verb: settings given as flags.
    pub arguments: Vec<String>,
    /// True if the agent may call this program's read-only tools without asking.
    pub allows_reads: bool,
}

/// Kind of this program's entries in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Hooks, in JSON.
    Hooks,
    /// MCP servers, in JSON.
    Servers,
    /// MCP servers, in TOML.
    ServersToml,
}

impl EntryKind {
    /// Returns true for hooks, false for MCP servers.
    #[must_use]
    pub fn is_hooks(self) -> bool {
        self == Self::Hooks
    }
}

/// A settings file that has this program's entries, or gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Kind of this program's entries in the file.
    pub holds: EntryKind,
}

/// Reason for which a file cannot be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// The text is not in the format that the file name implies.
    #[error("{0}")]
    Broken(String),
    /// The file has a value of another type where the entries belong.
    #[error("{0} is not {1} there")]
    Other(String, &'static str),
}

impl AgentProgram {
    /// Returns the name of the program on a command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Returns the environment variable with the program's settings directory.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }

    /// Returns the events for which the program calls a hook.
    fn hook_events(self) -> impl Iterator<Item = &'static str> {
        EVENTS.iter().filter(move |(_, agents)| agents.contains(&self)).map(|(event, _)| *event)
    }

    /// Returns the seconds that the program waits for a hook of an event.
    fn hook_timeout(self, event: &str) -> u64 {
        if self == Self::Codex && event == END { END_TIMEOUT_SECONDS } else { TIMEOUT_SECONDS }
    }

    /// Returns the files that hold this program's entries.
    #[must_use]
    pub fn settings_files(self, scope: SetupScope, places: &SetupPaths) -> [SettingsFile; 2] {
        let target = |path: PathBuf, holds| SettingsFile { path, holds };
        let settings =
            |usual: &str| places.settings.clone().unwrap_or_else(|| places.home.join(usual));
        match (self, scope) {
            (Self::ClaudeCode, SetupScope::User) => {
                let state = places.settings.as_ref().unwrap_or(&places.home).join(".claude.json");
                [
                    target(settings(".claude").join("settings.json"), EntryKind::Hooks),
                    target(state, EntryKind::Servers),
                ]
            }
            (Self::ClaudeCode, SetupScope::Project) => [
                target(places.project.join(".claude/settings.json"), EntryKind::Hooks),
                target(places.project.join(".mcp.json"), EntryKind::Servers),
            ],
            (Self::Codex, scope) => {
                let directory = match scope {
                    SetupScope::User => settings(".codex"),
                    SetupScope::Project => places.project.join(".codex"),
                };
                [
                    target(directory.join("hooks.json"), EntryKind::Hooks),
                    target(directory.join("config.toml"), EntryKind::ServersToml),
                ]
            }
        }
    }
}

impl InstalledCommand {
    fn shell_line(&self, verb: &str) -> String {
        let words =
            [&self.program].into_iter().chain(&self.arguments).map(|word| quote_for_shell(word));
        words.chain([verb.to_owned()]).collect::<Vec<_>>().join(" ")
    }

    /// Returns the arguments that start the MCP server with the tools that hooks name.
    fn server_arguments(&self) -> Vec<String> {
        let verb = ["mcp", "--toolsets", TOOLSET.as_str()].map(str::to_owned);
        self.arguments.iter().cloned().chain(verb).collect()
    }
}

/// Quotes a word for a shell, if needed.
fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Returns true if a hook's line runs this program's `hook` verb, in any directory.
fn is_own_hook_line(line: &str) -> bool {
    let line = line.trim();
    let rest = match line.strip_prefix('\'') {
        Some(rest) => rest.split_once('\''),
        None => line.split_once(' '),
    };
    let Some((program, arguments)) = rest else { return false };
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    let version = name.and_then(|name| name.strip_prefix(NAME));
    version.is_some_and(|version| version.is_empty() || version.starts_with('-'))
        && arguments.split(' ').next_back() == Some("hook")
}

/// Adds entries with `command`; returns the text unchanged if it has them.
///
/// # Errors
/// [`PlanError`] for a file of another format; nothing is changed then.
pub fn add_entries(
    text: Option<&str>,
    holds: EntryKind,
    agent: AgentProgram,
    command: &InstalledCommand,
) -> Result<String, PlanError> {
    match holds {
        EntryKind::Hooks => {
            let mut document = JsonDocument::parse(text.unwrap_or_default())?;
            let line = command.shell_line("hook");
            for event in agent.hook_events() {
                let timeout = agent.hook_timeout(event);
                let ours = json!({ "hooks": [{
                    "type": "command", "command": line, "timeout": timeout,
                }] });
                let list = ["hooks", event];
                match own_hook_indexes(&document.entries(&list)).first() {
                    // Members that the user added stay.
                    Some((entry, hook)) => {
                        let path = ["hooks", event, entry, "hooks", hook, "command"];
                        document.set(&path, &json!(line))?;
                        let path = ["hooks", event, entry, "hooks", hook, "timeout"];
                        // An older version wrote this value.
                        if document.number_at(&path) == Some(TIMEOUT_SECONDS) {
                            document.set(&path, &json!(timeout))?;
                        }
                    }
                    None => document.push_entry(&list, &ours)?,
                }
            }
            if command.allows_reads && agent == AgentProgram::ClaudeCode {
                for rule in allow_rules() {
                    let rule = json!(rule);
                    if !document.entries(&ALLOWED).contains(&rule) {
                        document.push_entry(&ALLOWED, &rule)?;
                    }
                }
            }
            Ok(document.into_text())
        }
        EntryKind::Servers => {
            let mut document = JsonDocument::parse(text.unwrap_or_default())?;
            let words = command.server_arguments();
            for (member, value) in [
                ("type", json!("stdio")),
                ("command", json!(command.program)),
                ("args", json!(words)),
            ] {
                document.set(&["mcpServers", NAME, member], &value)?;
            }
            Ok(document.into_text())
        }
        EntryKind::ServersToml => toml::set_server(
            text.unwrap_or_default(),
            NAME,
            &command.program,
            &command.server_arguments(),
        ),
    }
}

/// Removes this program's entries; returns the text unchanged if it has none.
///
/// # Errors
/// Those of [`add_entries`].
pub fn remove_entries(text: &str, holds: EntryKind) -> Result<String, PlanError> {
    if !text.contains(NAME) {
        return Ok(text.to_owned());
    }
    match holds {
        EntryKind::Hooks => {
            let mut document = JsonDocument::parse(text)?;
            for event in document.member_names(&["hooks"]) {
                // In reverse, so that the other indexes stay valid.
                for (entry, hook) in
                    own_hook_indexes(&document.entries(&["hooks", &event])).iter().rev()
                {
                    document.remove(&["hooks", &event, entry, "hooks", hook]);
                }
            }
            // An older version allowed other tools.
            let is_ours = |rule: &Value| {
                let name = rule.as_str().and_then(|rule| rule.strip_prefix("mcp__sessionlog__"));
                name.is_some_and(|name| tool(name).is_some_and(Tool::is_read_only))
            };
            let allowed = document.entries(&ALLOWED);
            for at in (0..allowed.len()).rev().filter(|at| allowed.get(*at).is_some_and(is_ours)) {
                document.remove(&[ALLOWED[0], ALLOWED[1], &at.to_string()]);
            }
            Ok(document.into_text())
        }
        EntryKind::Servers => {
            let mut document = JsonDocument::parse(text)?;
            document.remove(&["mcpServers", NAME]);
            Ok(document.into_text())
        }
        EntryKind::ServersToml => toml::remove_server(text, NAME),
    }
}

/// Returns the program of the MCP server's entry; `None` without such an entry.
#[must_use]
pub fn server_program(text: &str, holds: EntryKind) -> Option<String> {
    match holds {
        EntryKind::Hooks => None,
        EntryKind::Servers => {
            JsonDocument::parse(text).ok()?.text_at(&["mcpServers", NAME, "command"])
        }
        EntryKind::ServersToml => toml::server_program(text, NAME),
    }
}

/// Returns the rules by which Claude Code calls this program's read-only tools without asking.
fn allow_rules() -> impl Iterator<Item = String> {
    let reading = in_toolsets(&[TOOLSET]).filter(|tool| tool.is_read_only());
    reading.map(|tool| format!("mcp__{NAME}__{}", tool.name))
}

/// Returns the indexes of an event's entries, and of the hooks in them, that run this program. An
/// entry with a matcher was written by the user and is skipped.
fn own_hook_indexes(entries: &[Value]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate().filter(|(_, one)| one.get("matcher").is_none()) {
        let hooks = entry.get("hooks").and_then(Value::as_array).into_iter().flatten();
        let command = |hook: &Value| {
            hook.get("command").and_then(Value::as_str).is_some_and(is_own_hook_line)
        };
        let ours = hooks.enumerate().filter(|(_, hook)| command(hook));
        found.extend(ours.map(|(hook, _)| (at.to_string(), hook.to_string())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_line_is_recognised_by_its_program_and_verb() {
        let command = |program: &str, arguments: &[&str]| InstalledCommand {
            program: program.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            allows_reads: false,
        };
        for (command, expected) in [
            (command("sessionlog", &[]), "sessionlog hook"),
            (command("/opt/my tools/sessionlog", &[]), "'/opt/my tools/sessionlog' hook"),
            (
                command("/a/sessionlog", &["--data-dir", "/x y"]),
                "/a/sessionlog --data-dir '/x y' hook",
            ),
        ] {
            assert_eq!(command.shell_line("hook"), expected);
            assert!(is_own_hook_line(expected), "{expected}");
        }
        assert!(is_own_hook_line("/opt/sessionlog-1.2.3 hook"));
        for line in [
            "sessionlog",
            "sessionlog mcp",
            "other hook",
            "sessionlogger hook",
            "",
            "tee | sessionlog hook",
        ] {
            assert!(!is_own_hook_line(line), "{line}");
        }
    }
}

//! SETTING AGENTS UP: which files of Claude Code and Codex name us, and what each is to say. Plans
//! are texts made of texts; what is not ours in a file stays as it is, to the byte. It must not
//! read or write a file.

mod diff;
mod json;
mod toml;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use diff::diff;
use json::Document;

/// The name we go by in other people's files.
const NAME: &str = "sessionlog";
/// Seconds that an agent's program waits for a hook at most; ours answers long before.
const TIMEOUT_SECONDS: u64 = 10;

/// A program that is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
}

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For everything this user does.
    User,
    /// For everybody who works in this directory.
    Project,
}

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The user's home.
    pub home: PathBuf,
    /// The directory of the agent's settings, when it is not below the home.
    pub settings: Option<PathBuf>,
    /// The project.
    pub project: PathBuf,
}

/// How an agent's program runs us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: String,
    /// Arguments before the verb: settings that somebody gave as flags.
    pub arguments: Vec<String>,
}

/// What a file holds of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Hooks, in JSON.
    Hooks,
    /// MCP servers, in JSON.
    Servers,
    /// MCP servers, in TOML.
    ServersToml,
}

/// A file that names us, or is to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds of ours.
    pub holds: Holds,
}

/// Why a file cannot be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// It is not what its name says.
    #[error("{0}")]
    Broken(String),
    /// Something else is where we would be.
    #[error("{0} is not {1} there")]
    Other(&'static str, &'static str),
}

impl Agent {
    /// Its name on a command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The variable that names the directory of its settings.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }

    /// The events it tells us: those that mean something to a fold, and those that answer.
    fn events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &[
                "SessionStart",
                "UserPromptSubmit",
                "PreToolUse",
                "PostToolUse",
                "PostToolUseFailure",
                "PreCompact",
                "PostCompact",
                "SubagentStart",
                "SubagentStop",
                "Stop",
                "SessionEnd",
            ],
            Self::Codex => &[
                "SessionStart",
                "UserPromptSubmit",
                "PreToolUse",
                "PostToolUse",
                "PreCompact",
                "PostCompact",
                "SubagentStart",
                "SubagentStop",
                "Stop",
                "SessionEnd",
            ],
        }
    }

    /// The files that name us.
    #[must_use]
    pub fn targets(self, scope: Scope, places: &Places) -> [Target; 2] {
        let target = |path: PathBuf, holds| Target { path, holds };
        let settings =
            |usual: &str| places.settings.clone().unwrap_or_else(|| places.home.join(usual));
        match (self, scope) {
            (Self::ClaudeCode, Scope::User) => {
                let state = places.settings.as_ref().unwrap_or(&places.home).join(".claude.json");
                [
                    target(settings(".claude").join("settings.json"), Holds::Hooks),
                    target(state, Holds::Servers),
                ]
            }
            (Self::ClaudeCode, Scope::Project) => [
                target(places.project.join(".claude/settings.json"), Holds::Hooks),
                target(places.project.join(".mcp.json"), Holds::Servers),
            ],
            (Self::Codex, scope) => {
                let directory = match scope {
                    Scope::User => settings(".codex"),
                    Scope::Project => places.project.join(".codex"),
                };
                [
                    target(directory.join("hooks.json"), Holds::Hooks),
                    target(directory.join("config.toml"), Holds::ServersToml),
                ]
            }
        }
    }
}

impl Command {
    /// One line for a shell.
    fn line(&self, verb: &str) -> String {
        let words = [&self.program].into_iter().chain(&self.arguments).map(|word| quoted(word));
        words.chain([verb.to_owned()]).collect::<Vec<_>>().join(" ")
    }

    fn words(&self, verb: &str) -> Vec<String> {
        self.arguments.iter().cloned().chain([verb.to_owned()]).collect()
    }
}

/// A word for a shell, in quotes where it needs them.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Whether a hook's line runs us: our program, whatever its directory and settings, and our verb.
fn is_ours(line: &str) -> bool {
    let line = line.trim();
    let rest = match line.strip_prefix('\'') {
        Some(rest) => rest.split_once('\''),
        None => line.split_once(' '),
    };
    let Some((program, arguments)) = rest else { return false };
    Path::new(program).file_name().is_some_and(|name| name == NAME)
        && arguments.split(' ').next_back() == Some("hook")
}

/// What a file is to say so that it names us as `command`; the text as it is when it does.
///
/// # Errors
/// [`PlanError`] for a file that is not what its name says; nothing of it is changed then.
pub fn with_us(
    text: Option<&str>,
    holds: Holds,
    agent: Agent,
    command: &Command,
) -> Result<String, PlanError> {
    match holds {
        Holds::Hooks => {
            let mut document = Document::of(text.unwrap_or_default())?;
            let ours = json!({ "hooks": [{
                "type": "command", "command": command.line("hook"), "timeout": TIMEOUT_SECONDS,
            }] });
            for event in agent.events() {
                document.put_into_list(&["hooks", event], &ours, names_us)?;
            }
            Ok(document.into_text())
        }
        Holds::Servers => {
            let mut document = Document::of(text.unwrap_or_default())?;
            let ours = json!({
                "type": "stdio", "command": command.program, "args": command.words("mcp"),
            });
            document.put(&["mcpServers", NAME], &ours)?;
            Ok(document.into_text())
        }
        Holds::ServersToml => {
            toml::with(text.unwrap_or_default(), NAME, &command.program, &command.words("mcp"))
        }
    }
}

/// What a file is to say so that it names us no more.
///
/// # Errors
/// Those of [`with_us`].
pub fn without_us(text: &str, holds: Holds) -> Result<String, PlanError> {
    match holds {
        Holds::Hooks => {
            let mut document = Document::of(text)?;
            for event in document.names(&["hooks"]) {
                document.take_from_list(&["hooks", &event], names_us)?;
            }
            Ok(document.into_text())
        }
        Holds::Servers => {
            let mut document = Document::of(text)?;
            document.take(&["mcpServers", NAME])?;
            Ok(document.into_text())
        }
        Holds::ServersToml => toml::without(text, NAME),
    }
}

/// Whether an entry of a list of hooks runs us and nobody else.
fn names_us(entry: &Value) -> bool {
    let hooks = entry.get("hooks").and_then(Value::as_array);
    hooks.is_some_and(|hooks| {
        let ours = |hook: &Value| hook.get("command").and_then(Value::as_str).is_some_and(is_ours);
        !hooks.is_empty() && hooks.iter().all(ours)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_hook_is_ours_by_its_program_and_verb() {
        let command = |program: &str, arguments: &[&str]| Command {
            program: program.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        };
        for (command, expected) in [
            (command("sessionlog", &[]), "sessionlog hook"),
            (command("/opt/my tools/sessionlog", &[]), "'/opt/my tools/sessionlog' hook"),
            (
                command("/a/sessionlog", &["--data-dir", "/x y"]),
                "/a/sessionlog --data-dir '/x y' hook",
            ),
        ] {
            assert_eq!(command.line("hook"), expected);
            assert!(is_ours(expected), "{expected}");
        }
        for line in [
            "sessionlog",
            "sessionlog mcp",
            "other hook",
            "sessionlogger hook",
            "",
            "tee | sessionlog hook",
        ] {
            assert!(!is_ours(line), "{line}");
        }
    }
}

//! `install` and `uninstall`: shows the changes to the settings files in which an agent's program
//! refers to us, and applies them when the user agrees. The original text is kept, so that
//! uninstalling restores it byte for byte. It must not know the content of such a file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    args::{AgentName, InstallArgs, InstallScope},
    config::Config,
    consent,
    failure::{Failure, Outcome},
    screen::{Screen, Tone, counted, printable},
    values::Environment,
};
use crate::{
    env::files,
    hook::install::{
        AgentProgram, Command, SettingsFile, SetupPlaces, SetupScope, diff, folded, with_us,
        without_us,
    },
};

/// Maximum bytes of a settings file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Permissions of a new file of the user, and of one shared by a project.
const PRIVATE: u32 = 0o600;
const SHARED: u32 = 0o644;
/// Settings that are passed to a hook when they were given as flags.
const PASSED_ON: [&str; 6] = ["data_dir", "url", "token_file", "ca", "hook_tokens", "key_file"];

/// A file's text before and after the change.
struct FileChange {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
    /// Texts kept so that uninstalling can restore the original.
    kept: Option<KeptText>,
}

/// Contents of a file before and after our change.
#[derive(Serialize, Deserialize)]
struct KeptText {
    before: Option<String>,
    after: String,
    /// True if the file's directory was created for it.
    #[serde(default)]
    made_directory: bool,
}

/// Parameters of an installation.
struct Job<'a> {
    agent: AgentProgram,
    scope: SetupScope,
    wanted: &'a InstallArgs,
    environment: &'a Environment,
    /// Let the agent call our read-only tools without asking.
    allows_reads: bool,
}

pub(super) fn install(
    config: &Config,
    wanted: &InstallArgs,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let mut job = Job::new(wanted, environment);
    job.allows_reads = job.allows_reads || job.is_asked_about_reads(screen)?;
    let command = job.command(config)?;
    let mut changes = Vec::new();
    for target in job.targets()? {
        let before = read(&target.path)?;
        let after = with_us(before.as_deref(), target.holds, job.agent, &command)
            .map_err(|error| invalid_file_failure(&target, &error.to_string()))?;
        let kept = job.kept(&target.path);
        let made_directory = match &kept {
            Some(kept) => kept.made_directory,
            None => !target.path.parent().is_some_and(|directory| directory.is_dir()),
        };
        let first = match (kept, &before) {
            // The file is as we wrote it: its original text is known.
            (Some(kept), Some(before)) if kept.after == *before => kept.before,
            _ => {
                let clean = before.as_deref().map(|text| without_us(text, target.holds));
                clean
                    .transpose()
                    .map_err(|error| invalid_file_failure(&target, &error.to_string()))?
            }
        };
        let kept = Some(KeptText { before: first, after: after.clone(), made_directory });
        changes.push(FileChange { path: target.path, before, after: Some(after), kept });
    }
    job.carry_out(&changes, screen)
}

pub(super) fn uninstall(
    wanted: &InstallArgs,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let job = Job::new(wanted, environment);
    let mut changes = Vec::new();
    for target in job.targets()? {
        let Some(before) = read(&target.path)? else { continue };
        let after = match job.kept(&target.path) {
            Some(kept) if kept.after == before => kept.before,
            // The file was changed after our change: only our entries are removed.
            _ => Some(
                without_us(&before, target.holds)
                    .map_err(|error| invalid_file_failure(&target, &error.to_string()))?,
            ),
        };
        changes.push(FileChange { path: target.path, before: Some(before), after, kept: None });
    }
    job.carry_out(&changes, screen)
}

fn invalid_file_failure(target: &SettingsFile, problem: &str) -> Failure {
    let message = format!("{}: {problem}; nothing was changed", target.path.display());
    Failure::invalid(message, "mend the file, then try again")
}

fn read(path: &Path) -> Outcome<Option<String>> {
    match files::look(path).map_err(Failure::file(path))? {
        Some(_) => {
            files::read_regular_text(path, FILE_BYTES_MAX).map(Some).map_err(Failure::file(path))
        }
        None => Ok(None),
    }
}

impl<'a> Job<'a> {
    fn new(wanted: &'a InstallArgs, environment: &'a Environment) -> Self {
        let agent = match wanted.agent {
            AgentName::ClaudeCode => AgentProgram::ClaudeCode,
            AgentName::Codex => AgentProgram::Codex,
        };
        let scope = match wanted.scope {
            InstallScope::User => SetupScope::User,
            InstallScope::Project => SetupScope::Project,
        };
        Self { agent, scope, wanted, environment, allows_reads: wanted.allow_reads }
    }

    /// Asks a user at a terminal whether to add the rules of `--allow-reads`; returns true if the
    /// user agrees.
    fn is_asked_about_reads(&self, screen: &mut Screen) -> Outcome<bool> {
        let can_ask =
            screen.is_interactive() && !screen.json && !self.wanted.yes && !self.wanted.dry_run;
        if self.agent != AgentProgram::ClaudeCode || !can_ask {
            return Ok(false);
        }
        let question =
            "Let Claude Code recover, search and read sessions without asking each time?";
        Ok(screen.confirm(question)?)
    }

    fn targets(&self) -> Outcome<[SettingsFile; 2]> {
        let home = self.environment.text("HOME").map(PathBuf::from);
        let home = home.ok_or_else(|| Failure::usage("there is no home directory: set HOME"))?;
        let settings = self.environment.text(self.agent.variable()).map(PathBuf::from);
        let project = std::env::current_dir()?;
        let targets = self.agent.targets(self.scope, &SetupPlaces { home, settings, project });
        targets.iter().try_for_each(|target| self.check_within_project(&target.path))?;
        Ok(targets)
    }

    /// Rejects a project file that a link places outside the project.
    fn check_within_project(&self, path: &Path) -> Outcome {
        if self.scope == SetupScope::User {
            return Ok(());
        }
        let project = std::env::current_dir()?;
        let Some((link, names)) = files::link_out(&project, path).map_err(Failure::file(path))?
        else {
            return Ok(());
        };
        let names = printable(&names.display().to_string());
        let link = format!("{} is a link out of this project, to {names}", link.display());
        Err(Failure::invalid(
            format!("{link}; nothing was changed"),
            "put a file in the place of the link, or use --scope user",
        ))
    }

    /// Returns the command by which the agent's program runs us: an absolute path, or the plain
    /// name where the settings are shared and `PATH` resolves the name to this program.
    fn command(&self, config: &Config) -> Outcome<Command> {
        let program = match self.scope {
            SetupScope::User => program(self.environment)?.display().to_string(),
            SetupScope::Project if resolves_to_us(self.environment)? => "sessionlog".to_owned(),
            SetupScope::Project => program(self.environment)?.display().to_string(),
        };
        let flags = config.flags().filter(|(name, ..)| PASSED_ON.contains(name));
        let mut arguments = Vec::new();
        for (name, flag, value) in flags {
            let path = matches!(name, "data_dir" | "token_file" | "ca" | "key_file");
            let value = match path {
                true => std::path::absolute(value)?.display().to_string(),
                false => value.to_owned(),
            };
            arguments.extend([flag.to_owned(), value]);
        }
        Ok(Command { program, arguments, allows_reads: self.allows_reads })
    }

    /// Returns the path of the copy of a file's original text.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let state = self.environment.home_or("XDG_STATE_HOME", ".local/state")?;
        let name = path.display().to_string().replace('/', "%");
        Some(state.join("sessionlog/install").join(format!("{name}.json")))
    }

    fn kept(&self, path: &Path) -> Option<KeptText> {
        let text = files::read_text(&self.place(path)?, 4 * FILE_BYTES_MAX).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn carry_out(&self, changes: &[FileChange], screen: &mut Screen) -> Outcome {
        let changing = |change: &&FileChange| change.before != change.after;
        let count = changes.iter().filter(changing).count();
        if !screen.json {
            for change in changes.iter().filter(changing) {
                print_diff(change, screen)?;
            }
        }
        let changes_files = count > 0 && !self.wanted.dry_run;
        if count > 0 && !screen.json {
            screen.line(summarise_changes(changes.iter().filter(changing)))?;
        }
        let mut agreed = true;
        if changes_files && !self.wanted.yes {
            screen.flush()?;
            let verb =
                if changes.iter().any(|c| c.kept.is_some()) { "install" } else { "uninstall" };
            consent::required(verb, false, screen)?;
            agreed = screen.confirm("Change these files?")?;
        }
        let applied = agreed && !self.wanted.dry_run;
        if applied {
            for change in changes.iter().filter(changing) {
                self.write_change(change)?;
            }
        }
        self.print_changes(changes, applied, screen)
    }

    fn write_change(&self, change: &FileChange) -> Outcome {
        let path = &change.path;
        // The user may have taken long to agree.
        self.check_within_project(path)?;
        if read(path)? != change.before {
            let message = format!("{} was changed by another program just now", path.display());
            return Err(Failure::invalid(message, "try again"));
        }
        // The copy for uninstalling is written before the change.
        if let (Some(kept), Some(place)) = (&change.kept, self.place(path)) {
            let text = serde_json::to_string(kept).map_err(std::io::Error::from)?;
            let directory = place.parent().unwrap_or(Path::new("/"));
            files::create_dir(directory).map_err(Failure::file(directory))?;
            files::replace(&place, text.as_bytes(), PRIVATE).map_err(Failure::file(&place))?;
        }
        match &change.after {
            Some(text) => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                files::create_dir(directory).map_err(Failure::file(directory))?;
                let mode = if self.scope == SetupScope::User { PRIVATE } else { SHARED };
                files::replace(path, text.as_bytes(), mode).map_err(Failure::file(path))?;
            }
            None => {
                files::remove(path).map_err(Failure::file(path))?;
                let made = self.kept(path).is_some_and(|kept| kept.made_directory);
                if let Some(directory) = path.parent().filter(|_| made) {
                    files::remove_empty_dir(directory).map_err(Failure::file(directory))?;
                }
            }
        }
        if let (None, Some(place)) = (&change.kept, self.place(path)) {
            files::remove(&place).map_err(Failure::file(&place))?;
        }
        Ok(())
    }

    fn print_changes(&self, changes: &[FileChange], applied: bool, screen: &mut Screen) -> Outcome {
        if screen.json {
            let file = |change: &FileChange| {
                json!({
                    "path": change.path.display().to_string(), "change": change.kind(),
                    "link_to": change.link_to(), "diff": change.diff(),
                })
            };
            let files: Vec<_> = changes.iter().map(file).collect();
            let agent = self.agent.as_str();
            screen.value(&json!({ "agent": agent, "applied": applied, "files": files }))?;
            return Ok(());
        }
        if !changes.iter().any(|change| change.before != change.after) {
            return Ok(screen.line("Nothing to change.")?);
        }
        if !applied {
            return Ok(screen.line("Nothing was changed.")?);
        }
        screen.line("Done.")?;
        let installed = changes.iter().any(|change| change.kept.is_some());
        let next = match (installed, self.agent) {
            (false, _) => "Sessions that were recorded stay: `sessionlog sessions` lists them.",
            (true, AgentProgram::ClaudeCode) if !self.allows_reads => {
                "Start claude: /hooks shows the hooks, /mcp the tools; `sessionlog sessions` what \
                 was recorded. It asks before each call of a tool; with --allow-reads it does not \
                 for those that only read."
            }
            (true, AgentProgram::ClaudeCode) => {
                "Start claude: /hooks shows the hooks, /mcp the tools; `sessionlog sessions` what \
                 was recorded."
            }
            (true, AgentProgram::Codex) => {
                "Start codex and trust the hooks once under /hooks: it runs none before; \
                 `sessionlog sessions` shows what was recorded."
            }
        };
        Ok(screen.line(next)?)
    }
}

/// Returns a path that stays valid across updates: as typed, or as found on `PATH`, links not
/// resolved. Returns the path of the running file if that path is another program.
fn program(environment: &Environment) -> std::io::Result<PathBuf> {
    let running = std::env::current_exe()?;
    let this = files::identity(&running)?;
    let is_this = |path: &PathBuf| files::identity(path).is_ok_and(|found| found == this);
    let typed = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let by_name = typed.components().count() == 1 && !typed.is_absolute();
    let by_path = by_name && environment.variables.contains_key("PATH");
    let places = if by_path { environment.on_path(&typed) } else { vec![typed] };
    let mut places = places.iter().filter_map(|place| std::path::absolute(place).ok());
    Ok(places.find(is_this).unwrap_or(running))
}

/// Returns true if `PATH` resolves the name `sessionlog` to this program.
fn resolves_to_us(environment: &Environment) -> std::io::Result<bool> {
    let this = files::identity(&std::env::current_exe()?)?;
    let places = environment.on_path("sessionlog");
    let found = places.iter().find_map(|place| files::identity(place).ok());
    Ok(found.is_some_and(|found| found == this))
}

/// Summarises the changes in one line.
fn summarise_changes<'a>(changes: impl Iterator<Item = &'a FileChange>) -> String {
    let (mut added, mut removed, mut paths) = (0, 0, Vec::new());
    for change in changes {
        let diff = change.diff();
        added += diff.lines().filter(|line| line.starts_with('+')).count();
        removed += diff.lines().filter(|line| line.starts_with('-')).count();
        paths.push(change.place());
    }
    format!(
        "{}: {} added, {removed} removed ({})",
        counted(paths.len() as u64, "file"),
        counted(added as u64, "line"),
        paths.join(", ")
    )
}

impl FileChange {
    /// Returns the real path of the file where its path or directory is a link.
    fn link_to(&self) -> Option<PathBuf> {
        let path = self.path.as_path();
        let is_link = path.ancestors().take(2).any(files::is_link);
        files::canonical(path).ok().filter(|_| is_link)
    }

    /// Returns the path, followed by the link's target if it is a link.
    fn place(&self) -> String {
        let path = self.path.display();
        match self.link_to() {
            Some(to) => printable(&format!("{path} -> {}", to.display())),
            None => path.to_string(),
        }
    }

    fn kind(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, Some(_)) => "create",
            (Some(_), None) => "remove",
            (before, after) if before == after => "none",
            _ => "change",
        }
    }

    fn diff(&self) -> String {
        diff(self.before.as_deref().unwrap_or_default(), self.after.as_deref().unwrap_or_default())
    }
}

fn print_diff(change: &FileChange, screen: &mut Screen) -> Outcome {
    let head = format!("{} ({})", change.place(), change.kind());
    let head = screen.paint(Tone::Strong, &head);
    screen.line(head)?;
    for line in folded(&change.diff()).lines() {
        let line = printable(line);
        let tone = match line.chars().next() {
            Some('+') => Tone::Good,
            Some('-') => Tone::Bad,
            _ => Tone::Faint,
        };
        let painted = screen.paint(tone, &line);
        screen.line(painted)?;
    }
    Ok(screen.line("")?)
}

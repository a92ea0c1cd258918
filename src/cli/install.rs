//! `install` and `uninstall`: shows the changes to the settings files in which an agent's program
//! refers to this one, and applies them when the user agrees. The original text is kept, so that
//! uninstalling restores it byte for byte. It must not know the content of such a file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    args::{AgentName, InstallArgs, InstallScope},
    config::Config,
    consent,
    failure::{CliError, Outcome},
    screen::{Screen, Tone, escaped, with_noun},
    settings,
    values::Environment,
};
use crate::{
    env::files,
    hook::install::{
        AgentProgram, InstalledCommand, SettingsFile, SetupPaths, SetupScope, add_entries, diff,
        fold_equal_blocks, remove_entries,
    },
};

/// Maximum bytes of a settings file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Permissions of a new file of the user, and of one shared by a project.
const PRIVATE: u32 = 0o600;
const SHARED: u32 = 0o644;

/// A file's text before and after the change.
struct FileEdit {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
    /// Texts kept so that uninstalling can restore the original.
    kept: Option<KeptText>,
}

/// Contents of a file before and after the installation.
#[derive(Serialize, Deserialize)]
struct KeptText {
    before: Option<String>,
    after: String,
    /// True if the file's directory was created for it.
    #[serde(default)]
    made_directory: bool,
}

/// Parameters of an installation.
struct Installation<'a> {
    agent: AgentProgram,
    scope: SetupScope,
    wanted: &'a InstallArgs,
    environment: &'a Environment,
    /// True to let the agent call read-only tools of this program without asking.
    allows_reads: bool,
}

pub(super) fn install(
    config: &Config,
    wanted: &InstallArgs,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let mut job = Installation::new(wanted, environment);
    job.allows_reads = job.allows_reads || job.ask_about_reads(screen)?;
    let command = job.build_command(config)?;
    let mut changes = Vec::new();
    for target in job.target_files()? {
        let before = read_if_exists(&target.path)?;
        let after = add_entries(before.as_deref(), target.holds, job.agent, &command)
            .map_err(|error| invalid_file_failure(&target, &error.to_string()))?;
        let kept = job.read_kept_text(&target.path);
        let made_directory = match &kept {
            Some(kept) => kept.made_directory,
            None => !target.path.parent().is_some_and(|directory| directory.is_dir()),
        };
        let first = match (kept, &before) {
            // The file is as this program wrote it: its original text is known.
            (Some(kept), Some(before)) if kept.after == *before => kept.before,
            _ => {
                let clean = before.as_deref().map(|text| remove_entries(text, target.holds));
                clean
                    .transpose()
                    .map_err(|error| invalid_file_failure(&target, &error.to_string()))?
            }
        };
        let kept = Some(KeptText { before: first, after: after.clone(), made_directory });
        changes.push(FileEdit { path: target.path, before, after: Some(after), kept });
    }
    job.confirm_and_apply(&changes, screen)
}

pub(super) fn uninstall(
    wanted: &InstallArgs,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let job = Installation::new(wanted, environment);
    let mut changes = Vec::new();
    for target in job.target_files()? {
        let Some(before) = read_if_exists(&target.path)? else { continue };
        let after = match job.read_kept_text(&target.path) {
            Some(kept) if kept.after == before => kept.before,
            // The file was changed after the installation: only the entries are removed.
            _ => Some(
                remove_entries(&before, target.holds)
                    .map_err(|error| invalid_file_failure(&target, &error.to_string()))?,
            ),
        };
        changes.push(FileEdit { path: target.path, before: Some(before), after, kept: None });
    }
    job.confirm_and_apply(&changes, screen)
}

fn invalid_file_failure(target: &SettingsFile, problem: &str) -> CliError {
    let message = format!("{}: {problem}; nothing was changed", target.path.display());
    CliError::invalid_request(message, "mend the file, then try again")
}

fn read_if_exists(path: &Path) -> Outcome<Option<String>> {
    match files::path_info(path).map_err(CliError::file(path))? {
        Some(_) => {
            files::read_regular_text(path, FILE_BYTES_MAX).map(Some).map_err(CliError::file(path))
        }
        None => Ok(None),
    }
}

impl<'a> Installation<'a> {
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
    fn ask_about_reads(&self, screen: &mut Screen) -> Outcome<bool> {
        let can_ask =
            screen.is_interactive() && !screen.json && !self.wanted.yes && !self.wanted.dry_run;
        if self.agent != AgentProgram::ClaudeCode || !can_ask {
            return Ok(false);
        }
        let question =
            "Let Claude Code recover, search and read sessions without asking each time?";
        Ok(screen.confirm(question)?)
    }

    fn target_files(&self) -> Outcome<[SettingsFile; 2]> {
        let home = self.environment.text("HOME").map(PathBuf::from);
        let home = home.ok_or_else(|| CliError::usage("there is no home directory: set HOME"))?;
        let settings = self.environment.text(self.agent.variable()).map(PathBuf::from);
        let project = std::env::current_dir()?;
        let targets =
            self.agent.settings_files(self.scope, &SetupPaths { home, settings, project });
        targets.iter().try_for_each(|target| self.check_within_project(&target.path))?;
        Ok(targets)
    }

    /// Rejects a project file that a link places outside the project.
    fn check_within_project(&self, path: &Path) -> Outcome {
        if self.scope == SetupScope::User {
            return Ok(());
        }
        let project = std::env::current_dir()?;
        let Some((link, names)) =
            files::find_escaping_link(&project, path).map_err(CliError::file(path))?
        else {
            return Ok(());
        };
        let names = escaped(&names.display().to_string());
        let link = format!("{} is a link out of this project, to {names}", link.display());
        Err(CliError::invalid_request(
            format!("{link}; nothing was changed"),
            "put a file in the place of the link, or use --scope user",
        ))
    }

    /// Returns the command by which the agent runs this program: an absolute path, or the plain
    /// name if the settings are shared and `PATH` resolves the name to this program.
    fn build_command(&self, config: &Config) -> Outcome<InstalledCommand> {
        let program = match self.scope {
            SetupScope::User => stable_program_path(self.environment)?.display().to_string(),
            SetupScope::Project if path_runs_this_program(self.environment)? => {
                "sessionlog".to_owned()
            }
            SetupScope::Project => stable_program_path(self.environment)?.display().to_string(),
        };
        let mut arguments = Vec::new();
        // Every setting given as a flag holds for the hook too, but for the log of this command.
        for (name, flag, value) in config.flags().filter(|(name, ..)| *name != "log") {
            let value = match settings::is_path(name) {
                true => std::path::absolute(value)?.display().to_string(),
                false => value.to_owned(),
            };
            arguments.extend([flag.to_owned(), value]);
        }
        Ok(InstalledCommand { program, arguments, allows_reads: self.allows_reads })
    }

    /// Returns the path of the copy of a file's original text.
    fn backup_path(&self, path: &Path) -> Option<PathBuf> {
        let state = self.environment.dir_or_below_home("XDG_STATE_HOME", ".local/state")?;
        let name = path.display().to_string().replace('/', "%");
        Some(state.join("sessionlog/install").join(format!("{name}.json")))
    }

    fn read_kept_text(&self, path: &Path) -> Option<KeptText> {
        let text = files::read_text(&self.backup_path(path)?, 4 * FILE_BYTES_MAX).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn confirm_and_apply(&self, changes: &[FileEdit], screen: &mut Screen) -> Outcome {
        let changing = |change: &&FileEdit| change.before != change.after;
        let count = changes.iter().filter(changing).count();
        if !screen.json {
            for change in changes.iter().filter(changing) {
                print_diff(change, screen)?;
            }
        }
        let changes_files = count > 0 && !self.wanted.dry_run;
        if count > 0 && !screen.json {
            screen.print_line(summarise_changes(changes.iter().filter(changing)))?;
        }
        let mut agreed = true;
        if changes_files && !self.wanted.yes {
            screen.flush()?;
            let verb =
                if changes.iter().any(|c| c.kept.is_some()) { "install" } else { "uninstall" };
            consent::check_can_confirm(verb, false, screen)?;
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

    fn write_change(&self, change: &FileEdit) -> Outcome {
        let path = &change.path;
        // The user may have taken long to agree.
        self.check_within_project(path)?;
        if read_if_exists(path)? != change.before {
            let message = format!("{} was changed by another program just now", path.display());
            return Err(CliError::invalid_request(message, "try again"));
        }
        // The copy for uninstalling is written before the change.
        if let (Some(kept), Some(place)) = (&change.kept, self.backup_path(path)) {
            let text = serde_json::to_string(kept).map_err(std::io::Error::from)?;
            let directory = place.parent().unwrap_or(Path::new("/"));
            files::create_dir(directory).map_err(CliError::file(directory))?;
            files::replace(&place, text.as_bytes(), PRIVATE).map_err(CliError::file(&place))?;
        }
        match &change.after {
            Some(text) => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                files::create_dir(directory).map_err(CliError::file(directory))?;
                let mode = if self.scope == SetupScope::User { PRIVATE } else { SHARED };
                files::replace(path, text.as_bytes(), mode).map_err(CliError::file(path))?;
            }
            None => {
                files::remove(path).map_err(CliError::file(path))?;
                let made = self.read_kept_text(path).is_some_and(|kept| kept.made_directory);
                if let Some(directory) = path.parent().filter(|_| made) {
                    files::remove_empty_dir(directory).map_err(CliError::file(directory))?;
                }
            }
        }
        if let (None, Some(place)) = (&change.kept, self.backup_path(path)) {
            files::remove(&place).map_err(CliError::file(&place))?;
        }
        Ok(())
    }

    fn print_changes(&self, changes: &[FileEdit], applied: bool, screen: &mut Screen) -> Outcome {
        if screen.json {
            let file = |change: &FileEdit| {
                json!({
                    "path": change.path.display().to_string(), "change": change.change_kind(),
                    "link_to": change.link_target(), "diff": change.diff(),
                })
            };
            let files: Vec<_> = changes.iter().map(file).collect();
            let agent = self.agent.as_str();
            screen.print_json(&json!({ "agent": agent, "applied": applied, "files": files }))?;
            return Ok(());
        }
        if !changes.iter().any(|change| change.before != change.after) {
            return Ok(screen.print_line("Nothing to change.")?);
        }
        if !applied {
            return Ok(screen.print_line("Nothing was changed.")?);
        }
        screen.print_line("Done.")?;
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
        Ok(screen.print_line(next)?)
    }
}

/// Returns a path that stays valid across updates: as typed, or as found on `PATH`, links not
/// resolved. Returns the path of the running file if that path is another program.
fn stable_program_path(environment: &Environment) -> std::io::Result<PathBuf> {
    let running = std::env::current_exe()?;
    let this = files::identity(&running)?;
    let is_this = |path: &PathBuf| files::identity(path).is_ok_and(|found| found == this);
    let typed = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let by_name = typed.components().count() == 1 && !typed.is_absolute();
    let by_path = by_name && environment.variables.contains_key("PATH");
    let places = if by_path { environment.candidates_on_path(&typed) } else { vec![typed] };
    let mut places = places.iter().filter_map(|place| std::path::absolute(place).ok());
    Ok(places.find(is_this).unwrap_or(running))
}

/// Returns true if `PATH` resolves the name `sessionlog` to this program.
fn path_runs_this_program(environment: &Environment) -> std::io::Result<bool> {
    let this = files::identity(&std::env::current_exe()?)?;
    let places = environment.candidates_on_path("sessionlog");
    let found = places.iter().find_map(|place| files::identity(place).ok());
    Ok(found.is_some_and(|found| found == this))
}

/// Summarises the changes in one line.
fn summarise_changes<'a>(changes: impl Iterator<Item = &'a FileEdit>) -> String {
    let (mut added, mut removed, mut paths) = (0, 0, Vec::new());
    for change in changes {
        let diff = change.diff();
        added += diff.lines().filter(|line| line.starts_with('+')).count();
        removed += diff.lines().filter(|line| line.starts_with('-')).count();
        paths.push(change.display_path());
    }
    format!(
        "{}: {} added, {removed} removed ({})",
        with_noun(paths.len() as u64, "file"),
        with_noun(added as u64, "line"),
        paths.join(", ")
    )
}

impl FileEdit {
    /// Returns the real path of the file where its path or directory is a link.
    fn link_target(&self) -> Option<PathBuf> {
        let path = self.path.as_path();
        let is_link = path.ancestors().take(2).any(files::is_link);
        files::canonicalize(path).ok().filter(|_| is_link)
    }

    /// Returns the path, followed by the link's target if it is a link.
    fn display_path(&self) -> String {
        let path = self.path.display();
        match self.link_target() {
            Some(to) => escaped(&format!("{path} -> {}", to.display())),
            None => path.to_string(),
        }
    }

    fn change_kind(&self) -> &'static str {
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

fn print_diff(change: &FileEdit, screen: &mut Screen) -> Outcome {
    let head = format!("{} ({})", change.display_path(), change.change_kind());
    let head = screen.paint(Tone::Strong, &head);
    screen.print_line(head)?;
    for line in fold_equal_blocks(&change.diff()).lines() {
        let line = escaped(line);
        let tone = match line.chars().next() {
            Some('+') => Tone::Good,
            Some('-') => Tone::Bad,
            _ => Tone::Faint,
        };
        let painted = screen.paint(tone, &line);
        screen.print_line(painted)?;
    }
    Ok(screen.print_line("")?)
}

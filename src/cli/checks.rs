//! `doctor` and its checks: each reports one condition and a remedy. It must not change anything.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    args,
    columns::text_columns,
    config::{Config, Database},
    failure::{CliError, Outcome, REFUSED},
    health::StoreStatus,
    hook::UndeliveredEvents,
    open, pause,
    screen::{Screen, Tone, format_size, one_line, with_noun},
    values::Environment,
};
use crate::{
    client::ClientError,
    env::{Clock as _, clock::SystemClock, files},
    event::Timestamp,
    hook::install::{AgentProgram, EntryKind, SetupPaths, SetupScope, server_program},
    store::remote::{self, Durability},
};

/// Maximum number of sessions listed that refused events of hooks.
const REASONS_MAX: usize = 3;
/// Free space below which a store is in danger, and below which it fails soon.
const FREE_LOW: u64 = 1 << 30;
const FREE_TOO_LOW: u64 = 100 << 20;
/// Maximum bytes of a program file that are compared.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of a settings file.
const SETTINGS_BYTES_MAX: u64 = 64 << 20;
/// Microseconds by which the newest session may be ahead of the clock.
const AHEAD_MICROS: i64 = 300 * 1_000_000;
/// Microseconds by which the clock of a database may differ from this machine's.
const CLOCK_OFFSET_MAX: i64 = 1_000_000;
/// Earliest plausible time; a clock before it was never set.
const EARLIEST: &str = "2025-01-01T00:00:00Z";

/// Text for an agent without entries of this program.
const NOT_INSTALLED: &str = "not installed";

/// Columns before the text of a check.
const LEAD_COLUMNS: usize = 23;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    Warn,
    Fail,
}

impl CheckState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: CheckState,
    found: String,
    action: Option<String>,
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: CheckState::Ok, found: found.into(), action: None }
}

fn warn(name: &'static str, found: impl Into<String>, action: impl Into<String>) -> Check {
    Check { name, state: CheckState::Warn, found: found.into(), action: Some(action.into()) }
}

fn fail(name: &'static str, found: impl Into<String>, action: impl Into<String>) -> Check {
    Check { name, state: CheckState::Fail, found: found.into(), action: Some(action.into()) }
}

pub(super) fn run_doctor(
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let health = StoreStatus::collect(config, environment, true)?;
    let checks = run_checks(config, environment, &health, screen);
    let count = |state| checks.iter().filter(|check| check.state == state).count() as u64;
    let (failed, warned) = (count(CheckState::Fail), count(CheckState::Warn));
    if screen.json {
        screen.print_json(&json!({ "ok": failed == 0, "checks": checks }))?;
    } else {
        for check in &checks {
            let tone = match check.state {
                CheckState::Ok => Tone::Good,
                CheckState::Warn => Tone::Strong,
                CheckState::Fail => Tone::Bad,
            };
            let state = screen.paint(tone, &format!("{:<5}", check.state.as_str()));
            let found = one_line(&check.found, 400);
            let action = check.action.as_ref().map(|action| format!("to do: {action}"));
            let width = screen.columns().saturating_sub(LEAD_COLUMNS);
            let mut head = format!("{state} {:<16} ", check.name);
            let wraps = screen.terminal;
            let lines = |text: String| match wraps {
                true => wrap_at_words(&text, width),
                false => vec![text],
            };
            for line in [Some(found), action].into_iter().flatten().flat_map(lines) {
                screen.print_line(format!("{head}{line}"))?;
                head = " ".repeat(LEAD_COLUMNS);
            }
        }
        let summary = match (failed, warned) {
            (0, 0) => "No problems.".to_owned(),
            _ => format!("{}, {}.", with_noun(failed, "problem"), with_noun(warned, "warning")),
        };
        screen.print_line(summary)?;
    }
    if failed == 0 { Ok(()) } else { Err(CliError::Silent(REFUSED)) }
}

/// Wraps a text between words only: a path is never broken, even if it exceeds the width.
fn wrap_at_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| text_columns(line) + 1 + text_columns(word) <= width) {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Runs every check, in the order of printing.
fn run_checks(
    config: &Config,
    environment: &Environment,
    health: &StoreStatus,
    screen: &Screen,
) -> Vec<Check> {
    let mut checks = vec![ok("version", args::version())];
    let file = config.file.as_ref().map(|path| path.display().to_string());
    checks.push(ok("configuration", file.unwrap_or_else(|| "no file; defaults".to_owned())));
    if config.url.is_none() {
        checks.push(check_directory(&config.data_dir, health));
    }
    checks.push(check_owner(config, health));
    match &config.database {
        Some(database) if config.url.is_none() => {
            checks.extend(check_database(database));
            checks.push(check_keys(health));
        }
        _ if config.url.is_none() => {
            checks.push(check_space(health));
            checks.push(check_keys(health));
        }
        _ => {}
    }
    for (agent, hooks, tools) in [
        (AgentProgram::ClaudeCode, "hooks of claude", "tools of claude"),
        (AgentProgram::Codex, "hooks of codex", "tools of codex"),
    ] {
        let found = check_installed(agent, hooks, EntryKind::is_hooks, environment);
        checks.push(check_hooks_ran(agent, found, health));
        checks.push(check_installed(agent, tools, |holds| !holds.is_hooks(), environment));
    }
    checks.push(check_undelivered(&health.undelivered));
    checks.push(check_recording(config, screen));
    checks.push(check_imports(health));
    checks.push(check_clock(health));
    if config.url.is_none() {
        checks.push(check_last_error(config, health));
    }
    checks
}

/// Checks the database of the nodes: durability, clock, time of a commit, and the other nodes.
fn check_database(database: &Database) -> Vec<Check> {
    let name = "database";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = database.read_url().and_then(|url| {
        let report = runtime?.block_on(remote::examine(&url, &SystemClock::new()));
        report.map_err(|error| open::database_failure(&url, &error))
    });
    let report = match report {
        Ok(report) => report,
        Err(failure) => {
            let action = failure.action().unwrap_or_default();
            return vec![fail(name, failure.to_string(), action)];
        }
    };
    let micros = report.commit.as_micros();
    let found = format!("{}, {}; a commit takes {micros} us", database.url, report.server);
    let durability = report.durability.as_str();
    let replicated = "name synchronous standbys (synchronous_standby_names): \
                      docs/beyond-one-machine.md";
    let offset = report.clock_offset.abs();
    let clock = format!("{} ms from this machine's", offset / 1_000);
    vec![
        ok(name, found),
        match report.durability {
            Durability::Replicated => ok("durability", durability),
            Durability::Single => {
                let lost = "single: the loss of the server loses what was acknowledged";
                warn("durability", lost, replicated)
            }
            Durability::Weak => {
                let lost = "weak: a crash of the server loses what was acknowledged";
                fail("durability", lost, "set fsync, full_page_writes and synchronous_commit on")
            }
        },
        match offset {
            0..CLOCK_OFFSET_MAX => ok("its clock", clock),
            _ => warn("its clock", clock, "keep both clocks right, with NTP"),
        },
        check_nodes(&report.nodes),
    ]
}

/// Checks that the running nodes, each a place and its settings, have the same settings.
fn check_nodes(nodes: &[(String, String)]) -> Check {
    let name = "nodes";
    let places = nodes.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>().join(", ");
    match nodes {
        [] => ok(name, "none is running"),
        [(_, first), rest @ ..] if rest.iter().any(|(_, about)| about != first) => {
            let found = format!("{places} have different versions or lifetimes");
            warn(name, found, "give all nodes the same version and settings")
        }
        nodes => ok(name, format!("{} running: {places}", nodes.len())),
    }
}

fn check_recording(config: &Config, screen: &Screen) -> Check {
    let name = "recording";
    match (pause::describe_recording(config, screen), config.gate.pauses_path()) {
        ((found, false), _) => ok(name, found),
        ((found, true), _) if !config.gate.is_on() => {
            warn(name, found, "set record to on, in the settings file or SESSIONLOG_RECORD")
        }
        ((found, true), Some(file)) if config.gate.read_pauses().is_err() => {
            warn(name, found, format!("remove {}, which is no list of pauses", file.display()))
        }
        ((found, true), _) => warn(name, found, "`sessionlog unpause` records again"),
    }
}

fn check_imports(health: &StoreStatus) -> Check {
    let name = "imports";
    let Some((session, types)) = health.unknown.first() else {
        return ok(name, "no record of an unknown type");
    };
    let sessions = with_noun(health.unknown.len() as u64, "session");
    let found = format!("records of unknown types in {sessions}; in {session}: {types}");
    warn(name, found, "update sessionlog, then import again; the records are kept whole")
}

fn check_directory(path: &Path, health: &StoreStatus) -> Check {
    let (name, shown) = ("data directory", path.display().to_string());
    match files::path_info(path) {
        Err(error) => fail(name, format!("{shown}: {error}"), "make it readable, or name another"),
        Ok(None) => warn(
            name,
            format!("{shown} does not exist"),
            "nothing; `append`, `import`, `serve` and hooks create it",
        ),
        Ok(Some(found)) if !found.is_dir => {
            fail(name, format!("{shown} is not a directory"), "name another with --data-dir")
        }
        Ok(Some(_)) if !files::is_private_dir(path) => {
            fail(name, format!("{shown} belongs to another user"), "name another with --data-dir")
        }
        // A directory that is not a store keeps its mode.
        Ok(Some(_)) if !health.exists && !files::list(path).unwrap_or_default().is_empty() => {
            let found = format!("{shown} has other files, and no store");
            fail(name, found, "name another with --data-dir")
        }
        Ok(Some(found)) if found.mode & 0o077 != 0 => {
            let mode = found.mode & 0o777;
            let action = format!("run `chmod 700 {shown}`");
            warn(name, format!("{shown} is open to other users (mode {mode:o})"), action)
        }
        Ok(Some(_)) if !health.exists => ok(name, format!("{shown}, without a store yet")),
        Ok(Some(_)) => ok(name, shown),
    }
}

fn check_owner(config: &Config, health: &StoreStatus) -> Check {
    let name = if config.url.is_some() { "server" } else { "owner" };
    match (&health.sessions, &health.owner) {
        (Err(problem), _) => {
            fail(name, problem.clone(), "see the message; `sessionlog serve` says more")
        }
        (_, Err(error @ ClientError::OwnerSilent { .. })) => {
            fail(name, error.to_string(), "let it continue, or end it")
        }
        (_, Ok(owner)) if config.url.is_none() && owner.version != env!("CARGO_PKG_VERSION") => {
            fail(
                name,
                format!("process {} has version {}", owner.pid, owner.version),
                format!("run `kill {}`; nothing acknowledged is lost", owner.pid),
            )
        }
        (_, Ok(owner)) if config.url.is_none() && runs_another_build(owner.pid) => warn(
            name,
            format!("process {} runs another build than this program", owner.pid),
            format!("run `kill {}`; nothing acknowledged is lost", owner.pid),
        ),
        (_, Ok(owner)) => ok(name, format!("process {} answers", owner.pid)),
        (Ok(_), Err(_)) if config.url.is_some() => ok(name, "it answers"),
        (Ok(_), Err(_)) if health.exists => ok(name, "none was running; one started on demand"),
        (Ok(_), Err(_)) => ok(name, "none yet; started on demand"),
    }
}

/// Returns true if a process runs another program file than this one, where the system shows both:
/// a process that started before an update still runs the old program.
fn runs_another_build(pid: u64) -> bool {
    let places = ["/proc/self/exe".to_owned(), format!("/proc/{pid}/exe")];
    let [own, other] = places.each_ref().map(|path| files::identity(Path::new(path)).ok());
    if own.is_none() || own == other {
        return false;
    }
    let read = |path: String| files::read(Path::new(&path), PROGRAM_BYTES_MAX).ok();
    let [own, other] = places.map(read);
    own.zip(other).is_some_and(|(own, other)| own != other)
}

fn check_space(health: &StoreStatus) -> Check {
    let name = "disk space";
    let Some(free) = health.free else {
        return warn(name, "unknown", "check the file system of the data directory");
    };
    let found =
        format!("{} free, {} used", format_size(free.bytes), format_size(health.bytes_on_disk));
    if free.inodes == Some(0) {
        return fail(name, format!("{found}, no inode free"), "remove files: each takes an inode");
    }
    match free.bytes {
        free if free < FREE_TOO_LOW => fail(name, found, "free some space: writes will fail soon"),
        free if free < FREE_LOW => warn(name, found, "free some space"),
        _ => ok(name, found),
    }
}

fn check_keys(health: &StoreStatus) -> Check {
    let name = "keys";
    match &health.keys {
        None => ok(name, "no store yet"),
        Some(Ok((false, _))) => ok(name, "the store is not encrypted; no key needed"),
        Some(Ok((true, true))) => ok(name, "the store is encrypted, and its key is given"),
        Some(Ok((true, false))) => fail(
            name,
            "the store is encrypted, and its key was not given",
            "set SESSIONLOG_KEY, key_file or key_command; `sessionlog keys check` says which",
        ),
        Some(Err(problem)) => fail(name, problem.clone(), "run `sessionlog keys check`"),
    }
}

/// Checks that the commands in an agent's settings files resolve to a program.
fn check_installed(
    agent: AgentProgram,
    name: &'static str,
    among: impl Fn(EntryKind) -> bool,
    environment: &Environment,
) -> Check {
    let Some(home) = environment.text("HOME").map(PathBuf::from) else {
        return ok(name, "no home directory");
    };
    let settings = environment.text(agent.variable()).map(PathBuf::from);
    let project = std::env::current_dir().unwrap_or_else(|_| home.clone());
    let places = SetupPaths { home, settings, project };
    let mut programs = Vec::new();
    for scope in [SetupScope::User, SetupScope::Project] {
        for target in agent.settings_files(scope, &places) {
            if !among(target.holds) {
                continue;
            }
            let text = files::read_regular_text(&target.path, SETTINGS_BYTES_MAX);
            let text = text.unwrap_or_default();
            let found = match target.holds.is_hooks() {
                true => hook_programs(&serde_json::from_str(&text).unwrap_or_default()),
                false => server_program(&text, target.holds).into_iter().collect(),
            };
            programs.extend(found.into_iter().map(|program| (target.path.clone(), program)));
        }
    }
    programs.dedup();
    let install = format!("run `sessionlog install {} --yes`", agent.as_str());
    let missing =
        programs.iter().find(|(_, program)| resolve_program(program, environment).is_none());
    match (programs.first(), missing) {
        (_, Some((path, program))) => {
            fail(name, format!("{}: no program {program:?}", path.display()), install)
        }
        (Some((path, program)), None) => ok(name, format!("{} runs {program}", path.display())),
        (None, None) => ok(name, NOT_INSTALLED),
    }
}

/// Checks that installed hooks have recorded something, and reports the last time.
fn check_hooks_ran(agent: AgentProgram, found: Check, health: &StoreStatus) -> Check {
    if found.state != CheckState::Ok || found.found == NOT_INSTALLED || health.sessions.is_err() {
        return found;
    }
    match (health.hooks.get(agent.as_str()), agent) {
        (Some(at), _) => ok(found.name, format!("{}; last recorded {at}", found.found)),
        (None, AgentProgram::Codex) => warn(
            found.name,
            format!("{}; none recorded anything yet", found.found),
            "start codex and trust the hooks once under /hooks: it runs none before",
        ),
        (None, AgentProgram::ClaudeCode) => warn(
            found.name,
            format!("{}; none recorded anything yet", found.found),
            "start claude once; /hooks shows whether it runs them",
        ),
    }
}

/// Returns the programs of installed hooks: the first word of each command ending in `hook`.
fn hook_programs(settings: &Value) -> Vec<String> {
    match settings {
        Value::String(text) if text.contains("sessionlog") && text.ends_with(" hook") => {
            let word = match text.strip_prefix('\'') {
                Some(quoted) => quoted.split('\'').next(),
                None => text.split(' ').next(),
            };
            word.map(str::to_owned).into_iter().collect()
        }
        Value::Array(all) => all.iter().flat_map(hook_programs).collect(),
        Value::Object(all) => all.values().flat_map(hook_programs).collect(),
        _ => Vec::new(),
    }
}

/// Resolves the path of a command's program.
fn resolve_program(program: &str, environment: &Environment) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        let found = files::path_info(path).ok().flatten();
        found.is_some_and(|found| !found.is_dir && found.mode & 0o111 != 0)
    };
    if program.contains('/') {
        return files::canonicalize(Path::new(program)).ok().filter(runs);
    }
    let mut places = environment.candidates_on_path(program).into_iter();
    places.find_map(|place| files::canonicalize(&place).ok().filter(runs))
}

/// Checks that every event of a hook is in the store.
fn check_undelivered(events: &UndeliveredEvents) -> Check {
    let UndeliveredEvents { directory, waiting, refused, reasons } = events;
    let name = "hook events";
    match (waiting, refused) {
        (0, 0) => ok(name, "all of them are delivered"),
        (_, 0) => warn(
            name,
            format!("{waiting} of them wait in {directory}"),
            "run `sessionlog deliver`: it says what stands in the way",
        ),
        (_, _) => {
            let waiting = if *waiting == 0 { String::new() } else { format!("{waiting} wait, ") };
            let why = Vec::from_iter(reasons.iter().take(REASONS_MAX).map(String::as_str));
            let why = if why.is_empty() { "no event of ours".to_owned() } else { why.join("; ") };
            fail(
                name,
                format!("{waiting}{refused} were set aside in {directory}/refused: {why}"),
                "remove the reason, then run `sessionlog deliver`; delete the files that you do \
                 not want",
            )
        }
    }
}

fn check_clock(health: &StoreStatus) -> Check {
    let (name, now) = ("clock", SystemClock::new().now());
    let set = "set the clock of this machine; `timedatectl` shows it";
    if Timestamp::parse(EARLIEST).is_some_and(|earliest| now < earliest) {
        return fail(name, format!("it says {now}"), set);
    }
    let newest = health.sessions.as_ref().ok().and_then(|(_, newest)| newest.as_deref());
    let newest = newest.and_then(Timestamp::parse);
    match newest.filter(|newest| newest.0.saturating_sub(now.0) > AHEAD_MICROS) {
        Some(newest) => warn(name, format!("it says {now}; the newest event is of {newest}"), set),
        None => ok(name, now.to_string()),
    }
}

fn check_last_error(config: &Config, health: &StoreStatus) -> Check {
    let name = "last error";
    match &health.last_error {
        None => ok(name, "none"),
        Some((at, level, message)) => {
            let log = config.data_dir.join("owner.log");
            let action = format!("see {}", log.display());
            warn(name, format!("{at}, {level}: {message}"), action)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_program_of_a_hook_command_is_its_first_word_even_if_quoted() {
        let settings = json!({"hooks": {"Stop": [{"hooks": [
            {"command": "/usr/bin/sessionlog --data-dir /d hook"},
            {"command": "'/a b/sessionlog' hook"},
            {"command": "other hook"}, {"command": "sessionlog sessions"},
        ]}]}});
        assert_eq!(hook_programs(&settings), ["/usr/bin/sessionlog", "/a b/sessionlog"]);
    }
}

//! Parser of a shell command line: its simple commands, each with its kind (tests, build, git and
//! so on) and a key that equal runs share, and the files that it plainly writes. It must not read
//! an output.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::{
    effects, looks,
    paths::resolve_path,
    selection::{DRIVERS, TestRun},
    shell::{CommandJoint, SimpleCommand, program_name, split_commands, without_wrappers},
    touch::{FileTouch, file_effects, is_single_file},
};
use crate::event::{
    lists::{has_word, word_list},
    text::{clip, head},
};

/// Maximum bytes of a command line that are parsed.
const BYTES_MAX: usize = 16 << 10;
/// Maximum characters that are kept of a commit's subject, and of a script's path.
const NAME_CHARS_MAX: usize = 200;

/// First line of a patch in the format of `apply_patch`.
pub(crate) const PATCH: &str = "*** Begin Patch";
/// Programs that build, in addition to the drivers.
const BUILDERS: [&str; 9] =
    ["tsc", "rustc", "cmake", "ninja", "gcc", "g++", "clang", "javac", "clippy-driver"];
/// Subcommands that build: the name by which they are compared, and their spellings.
const BUILDS: [(&str, &str); 7] = [
    ("build", "build b check c compile all"),
    ("typecheck", "typecheck"),
    ("clippy", "clippy"),
    ("lint", "lint"),
    ("vet", "vet"),
    ("doc", "doc"),
    ("fmt", "fmt"),
];
/// Programs that only print another program's output.
const FILTERS: [&str; 14] = word_list("tail head cat tee less grep rg sed sort wc awk uniq cut tr");
/// Programs that prepare another command, or only print.
const PREPARES: [&str; 18] = [
    "", "cd", "export", "set", "source", ".", "pushd", "popd", "echo", "printf", "true", ":",
    "exit", "sleep", "wait", "unset", "trap", "ulimit",
];
/// Programs that run a script; the options in `INLINE` take the script as an argument.
const INTERPRETERS: [&str; 16] = word_list(
    "python python3 node bash sh zsh ruby perl php deno bun tsx ts-node Rscript lua julia",
);
const INLINE: [&str; 7] = ["-c", "-e", "-r", "-", "eval", "--eval", "-p"];
/// Options with which a driver reports something and runs nothing.
const REPORT_OPTIONS: [&str; 5] = ["--dry-run", "--help", "--version", "--list", "--no-run"];

/// Kind of a simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// Reads only: its exit code never means a failure.
    ReadOnly,
    /// Runs tests.
    Tests(TestRun),
    /// Builds: the build command, and the targets to which it is limited.
    Builds(Box<str>, Vec<Box<str>>),
    /// Git: its subcommand, and the subject of a commit.
    Git(Box<str>, Option<Box<str>>),
    /// Installs these packages.
    Installs(Vec<Box<str>>),
    /// Runs an inline script, or sends a network request.
    Trial,
    /// Any other command, with the path of the script that it runs.
    Other(Option<Box<str>>),
    /// No command: a call of another tool.
    Tool,
}

/// A simple command with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRun {
    /// Hash that is equal for runs that are compared with each other.
    pub(crate) key: u64,
    /// Name of the program, without its directory.
    pub(crate) program: Box<str>,
    pub(crate) kind: CommandKind,
    pub(crate) joint: CommandJoint,
    /// True if the exit code of the line may be that of another simple command.
    pub(crate) hides_code: bool,
    /// Number of file effects of earlier simple commands in the line.
    pub(crate) files_before: usize,
    /// Directory in which it runs, absolute where that of the call is known; empty if unknown.
    pub(crate) directory: Box<str>,
}

/// Returns true if a success in the directory `own` also counts for a failure in `other`: in the
/// same one, or in one below it. An unknown one counts as equal, and so do an absolute and a
/// relative path.
pub(crate) fn covers_directory(own: &str, other: &str) -> bool {
    let is_compared = ![own, other].contains(&"") && own.starts_with('/') == other.starts_with('/');
    let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
    !is_compared || other.strip_prefix(own).is_some_and(is_within)
}

impl CommandRun {
    pub(crate) fn is_read_only(&self) -> bool {
        self.kind == CommandKind::ReadOnly
    }

    pub(crate) fn test(&self) -> Option<&TestRun> {
        match &self.kind {
            CommandKind::Tests(test) => Some(test),
            _ => None,
        }
    }

    /// Creates a run whose directory is unknown and whose exit code is that of the line.
    fn new(key: u64, program: &str, kind: CommandKind, joint: CommandJoint) -> Self {
        let (program, directory) = (program.into(), Box::default());
        Self { key, program, kind, joint, hides_code: false, files_before: 0, directory }
    }

    /// Creates the run of a tool that is not a shell.
    pub(crate) fn from_tool(key: u64, tool: &str) -> Self {
        Self::new(key, tool, CommandKind::Tool, CommandJoint::Then)
    }

    fn from_command(part: &SimpleCommand) -> Self {
        let words = without_wrappers(&part.words);
        let name = program_name(words);
        let kind = classify(words, name, part);
        let mut hasher = DefaultHasher::new();
        match &kind {
            CommandKind::Tests(test) => test.hash(&mut hasher),
            CommandKind::Git(sub, _) => ("git", sub).hash(&mut hasher),
            CommandKind::Builds(family, limits) => (family, limits).hash(&mut hasher),
            _ => {
                let is_compared = |word: &&String| {
                    !word.starts_with('-') || word.len() == 1 || REPORT_OPTIONS.contains(&&***word)
                };
                let rest = words.iter().skip(1).filter(is_compared);
                let rest: Vec<&str> = rest.map(|word| word.trim_start_matches("./")).collect();
                (name.trim_end_matches('3'), rest, &part.input).hash(&mut hasher);
            }
        }
        Self::new(hasher.finish(), name, kind, part.joint)
    }
}

fn classify(words: &[String], name: &str, part: &SimpleCommand) -> CommandKind {
    if let Some(test) = TestRun::parse(words, name) {
        return CommandKind::Tests(test);
    }
    if looks::is_read_only(words, name, &part.words) {
        return CommandKind::ReadOnly;
    }
    let rest = words.get(1..).unwrap_or_default();
    if name == "git" {
        let (sub, rest) = looks::split_git_arguments(rest);
        return CommandKind::Git(sub.into(), commit_subject(rest, &part.input));
    }
    let is_inline = || rest.first().is_some_and(|word| INLINE.contains(&&**word));
    let runs_script = INTERPRETERS.contains(&name);
    if effects::installs_packages(words, name) {
        let named = rest.iter().filter(|word| !word.starts_with('-')).skip(1);
        let bare = |word: &String| word.split(['=', '>', '<', '[', '~']).next().map(Into::into);
        return CommandKind::Installs(named.filter_map(bare).collect());
    }
    if runs_script && (is_inline() || !part.input.is_empty()) || is_network_client(name) {
        return CommandKind::Trial;
    }
    if let Some(build) = parse_build(name, rest) {
        return build;
    }
    let is_path = |word: &&String| !word.starts_with('-') && word.contains(['.', '/']);
    let script = match runs_script || name == "go" {
        true => rest.iter().find(is_path),
        false => words.first().filter(|word| word.contains('/')),
    };
    CommandKind::Other(
        script.map(|path| clip(path.trim_start_matches("./"), NAME_CHARS_MAX).into()),
    )
}

fn is_network_client(name: &str) -> bool {
    matches!(name, "curl" | "wget" | "http" | "xh" | "ping" | "nc" | "telnet")
}

/// Parses a run that builds, with the targets in its arguments; `None` if it is not one.
fn parse_build(name: &str, rest: &[String]) -> Option<CommandKind> {
    let plain = |words: &[String]| -> Vec<Box<str>> {
        let named = words.iter().filter(|word| !word.starts_with(['-', '+']));
        let named = named.map(|word| word.trim_start_matches("./"));
        named.filter(|word| !matches!(*word, "" | "..." | "." | "run")).map(Into::into).collect()
    };
    if BUILDERS.contains(&name) {
        return Some(CommandKind::Builds(name.into(), plain(rest)));
    }
    if !DRIVERS.contains(&name) || rest.iter().any(|word| REPORT_OPTIONS.contains(&&**word)) {
        return None;
    }
    let at = rest.iter().position(|word| !word.starts_with(['-', '+']) && word != "run");
    let Some(at) = at else {
        // Plain `make` builds everything.
        return (name == "make").then(|| CommandKind::Builds("make build".into(), Vec::new()));
    };
    let word = rest.get(at)?.as_str();
    let same = BUILDS.iter().find(|(_, words)| has_word(words, word)).map(|(same, _)| *same);
    let same = same.or_else(|| (name == "make" || word.starts_with("build")).then_some(word))?;
    // All package managers run the same scripts of a package.
    let family = if matches!(name, "npm" | "pnpm" | "yarn" | "bun") { "npm" } else { name };
    let limits = plain(rest.get(at + 1..).unwrap_or_default());
    Some(CommandKind::Builds(format!("{family} {same}").into(), limits))
}

/// Returns the first line of a commit's message.
fn commit_subject(rest: &[String], input: &str) -> Option<Box<str>> {
    let at = rest.iter().position(|word| {
        matches!(&**word, "-m" | "-am" | "--message" | "-F" | "--file") || word.starts_with("-m")
    })?;
    let word = rest.get(at)?;
    let inside = word.strip_prefix("-m").filter(|text| !text.is_empty());
    let text = inside.or_else(|| rest.get(at + 1).map(String::as_str))?;
    let text = if text == "-" { input } else { text };
    let is_shell = |line: &&str| !line.trim().is_empty() && !line.contains("$(cat <<");
    let line = text.lines().find(is_shell)?;
    Some(clip(line.trim(), NAME_CHARS_MAX).into())
}

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// Simple commands, except those that only prepare or filter.
    pub(crate) runs: Vec<CommandRun>,
    /// True if the exit code is that of a command that only reads.
    pub(crate) ends_read_only: bool,
    /// True if the line ends with an exit code of its own: no other command may have failed.
    pub(crate) exits: bool,
    /// True if the line changes something other than files.
    pub(crate) changes: bool,
    /// Plain effects on files, in order.
    pub(crate) files: Vec<(FileTouch, String)>,
}

impl CommandLine {
    /// Parses a command line as a shell does. It begins in the directory `base`, empty if unknown.
    pub(crate) fn parse(line: &str, base: &str) -> Self {
        let text = head(line, BYTES_MAX);
        let parts = split_commands(text);
        let printed =
            parts.iter().filter(|part| matches!(program_name(&part.words), "echo" | "printf"));
        let printed = printed.flat_map(|part| part.words.iter().map(String::as_str));
        let inputs = parts.iter().map(|part| part.input.as_str());
        let inputs_text = printed.chain(inputs).collect::<Vec<_>>().join("\n");
        let is_piped_whole = parts.iter().any(|part| part.words.iter().any(|w| w == "pipefail"));
        let mut made = Self::default();
        for (at, part) in parts.iter().enumerate() {
            let words = without_wrappers(&part.words);
            made.changes |= effects::changes_state(words, program_name(words), &inputs_text);
            if is_main_command(part) {
                let passes = |next: &SimpleCommand| {
                    next.joint == CommandJoint::And
                        || next.joint == CommandJoint::Pipe && is_piped_whole
                };
                let hides_code = !parts.iter().skip(at + 1).all(passes);
                let files_before = made.files.len();
                let directory = part.directory.as_deref().and_then(|path| resolve_path(path, base));
                made.runs.push(CommandRun {
                    hides_code,
                    files_before,
                    directory: directory.unwrap_or_default().into(),
                    ..CommandRun::from_command(part)
                });
            }
            let files = file_effects(part).into_iter();
            made.files.extend(files.filter_map(|file| in_directory(file, part, base)));
        }
        made.exits = parts.last().is_some_and(|part| {
            let words = without_wrappers(&part.words);
            let sets_code = words.get(1).is_some_and(|code| code != "0");
            part.joint == CommandJoint::Then && program_name(words) == "exit" && sets_code
        });
        let last = parts.last().filter(|_| !is_piped_whole);
        made.ends_read_only = last.is_some_and(|part| {
            let words = without_wrappers(&part.words);
            looks::is_read_only(words, program_name(words), &part.words)
        });
        made
    }
}

/// Returns an effect with the path from the directory in which its command runs; `None` for a file
/// that is elsewhere and not kept.
fn in_directory(
    (touch, path): (FileTouch, String),
    part: &SimpleCommand,
    base: &str,
) -> Option<(FileTouch, String)> {
    let Some(directory) = part.directory.as_deref().filter(|_| !path.is_empty()) else {
        return Some((touch, path));
    };
    if directory.is_empty() && base.is_empty() {
        return Some((touch, path));
    }
    // Nothing is known of a path that climbs above a directory that is not known.
    let here = match directory {
        "" => base.to_owned(),
        directory => resolve_path(directory, base)?,
    };
    let whole = resolve_path(&path, &here)?;
    let is_kept = !base.is_empty() && covers_directory(base, &whole) || is_single_file(&whole);
    (is_kept || !path.starts_with('/') && directory.is_empty()).then_some((touch, whole))
}

/// Programs whose first argument is a subcommand.
const WITH_SUBCOMMAND: [&str; 32] = word_list(
    "git cargo npm yarn pnpm bun docker kubectl go pip pip3 uv poetry make systemctl terraform \
     aws gcloud gh helm brew apt apt-get dotnet bundle rails mix gradle mvn rustup deno sessionlog",
);

/// Returns the line of a shell's argument: a text, or the script in words such as `sh -c SCRIPT`;
/// `None` if it is empty or of another type.
#[must_use]
pub fn shell_line(argument: &Value) -> Option<String> {
    let is_shell = |program: &str| {
        let name = program.trim_end_matches(".exe");
        name.ends_with("sh") || name.ends_with("powershell")
    };
    let line = match argument {
        Value::String(text) => text.clone(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [shell, option, script] if option.starts_with('-') && is_shell(shell) => {
                    (*script).to_owned()
                }
                words => words.join(" "),
            }
        }
        _ => return None,
    };
    (!line.is_empty()).then_some(line)
}

/// Returns the distinct names of a line's simple commands: program and subcommand (`cargo test`).
/// Changes of directory and trailing filters are omitted.
#[must_use]
pub fn command_names(line: &str) -> Vec<String> {
    let text = head(line, BYTES_MAX);
    let mut found: Vec<String> = Vec::new();
    // Editing tools receive a patch in the member in which a shell receives a command.
    if text.trim_start().starts_with(PATCH) {
        return found;
    }
    for part in split_commands(text).iter().filter(|part| is_main_command(part)) {
        let words = without_wrappers(&part.words);
        let program = program_name(words);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let begins = program.starts_with(|c: char| c.is_ascii_alphanumeric() || "._".contains(c));
        if !begins || !program.contains(char::is_alphanumeric) || !program.chars().all(is_name) {
            continue;
        }
        // A word after an option may be the option's value, so only the first word is a subcommand.
        let is_word = |word: &&String| word.starts_with(|c: char| c.is_ascii_lowercase());
        let subcommand =
            words.get(1).filter(|word| WITH_SUBCOMMAND.contains(&program) && is_word(word));
        let name = subcommand
            .map_or_else(|| program.to_owned(), |subcommand| format!("{program} {subcommand}"));
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Returns true unless a simple command only prepares another one, or filters its output.
fn is_main_command(part: &SimpleCommand) -> bool {
    let program = program_name(without_wrappers(&part.words));
    let is_filter = part.joint == CommandJoint::Pipe && FILTERS.contains(&program);
    !(PREPARES.contains(&program) && part.writes.is_empty() || is_filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_of(line: &str) -> Option<TestRun> {
        CommandLine::parse(line, "").runs.iter().find_map(CommandRun::test).cloned()
    }

    #[test]
    fn a_test_run_is_recognized_by_its_program_and_arguments() {
        for line in [
            "cargo test",
            "cargo nextest run",
            "cd app && cargo test --lib 2>&1 | tail -5",
            "RUST_BACKTRACE=1 cargo +nightly t",
            "pytest -q",
            "python -m pytest tests/",
            "python3 -m unittest discover",
            "npm test",
            "npm run test:unit -- cart",
            "yarn test",
            "pnpm exec vitest run",
            "npx jest cart",
            "go test ./...",
            "mvn -q test",
            "./gradlew test --info",
            "make check",
            "ctest",
            "bundle exec rspec",
            "vendor/bin/phpunit",
            "dotnet test",
            "timeout 60 uv run pytest",
            "node --test",
            "python tests/test_cart.py",
            "./run_tests.sh",
            "bash scripts/test.sh",
        ] {
            assert!(test_of(line).is_some(), "{line}");
        }
        for line in [
            "cargo build",
            "cargo check",
            "ls tests",
            "cat test_a.py",
            "grep -rn test .",
            "npm run build",
            "npm install",
            "go vet ./...",
            "git commit -m 'test: add tests'",
            "echo cargo test",
            "rm tests/test_a.py",
            "vim src/test.rs",
            "docker build -t test .",
        ] {
            assert_eq!(test_of(line), None, "{line}");
        }
    }
}

//! What a shell command is: the simple commands in it, whether it runs tests, which other runs its
//! success speaks for, and which files it plainly writes. It must not read an output.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    effects,
    selection::{DRIVERS, Test},
};

/// Bytes of a command that are read, simple commands in it, and words of one.
const BYTES_MAX: usize = 16 << 10;
const PARTS_MAX: usize = 64;
const WORDS_MAX: usize = 64;

/// Programs that run another program.
const WRAPPERS: [&str; 12] = [
    "sudo", "time", "nice", "env", "npx", "bunx", "nohup", "exec", "command", "xvfb-run", "stdbuf",
    "timeout",
];
/// Two words that run another program.
const LONG_WRAPPERS: [[&str; 2]; 10] = [
    ["poetry", "run"],
    ["uv", "run"],
    ["pipenv", "run"],
    ["hatch", "run"],
    ["bundle", "exec"],
    ["pnpm", "exec"],
    ["pnpm", "dlx"],
    ["yarn", "exec"],
    ["python", "-m"],
    ["python3", "-m"],
];
/// Words of a shell before a command, and words that begin what runs none.
const KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{"];
const NOT_RUN: [&str; 11] =
    ["for", "case", "select", "function", "fi", "done", "esac", "in", "}", "[[", "]]"];
/// How a patch begins.
pub(super) const PATCH: &str = "*** Begin Patch";
/// Programs that build; `cargo` and others above do too.
const BUILDERS: [&str; 8] = ["tsc", "rustc", "cmake", "ninja", "gcc", "g++", "clang", "javac"];
/// Programs whose exit code 1 only means that nothing was found, or that something differs.
const ASKERS: [&str; 12] =
    ["grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "test", "[", "pgrep", "which", "command"];
/// Programs that only print another one's output.
const FILTERS: [&str; 10] =
    ["tail", "head", "cat", "tee", "less", "grep", "sed", "sort", "wc", "awk"];
/// A simple command in a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    words: Vec<String>,
    /// Files that its output is written to.
    writes: Vec<String>,
    /// Whether it reads what the one before it wrote.
    piped: bool,
}

/// The parsed form of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Equal for commands that do the same.
    pub(super) key: u64,
    /// The runner and its arguments, when it runs tests.
    pub(super) test: Option<Test>,
    /// Whether it builds something.
    pub(super) builds: bool,
    /// Whether exit code 1 is an answer.
    pub(super) asks: bool,
    /// Whether its exit code may be that of another program than the one that matters.
    pub(super) hides_code: bool,
    /// Whether it changes something besides files.
    pub(super) changes: bool,
    /// What it plainly does to files, in order.
    pub(super) files: Vec<(Touch, String)>,
}

/// What happens to a file. Without a path, to all of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// It is written.
    Changed,
    /// It is removed.
    Deleted,
    /// It is as it was committed last.
    Reverted,
    /// It is as an older commit has it.
    Reset,
    /// Its changes are put away, and come back.
    Stashed,
    Returned,
    /// Its changes are in a commit.
    Committed,
}

impl Command {
    /// Reads a command as a shell would.
    pub(super) fn of(line: &str) -> Self {
        let text = line.get(..line.floor_char_boundary(BYTES_MAX)).unwrap_or_default();
        let (parts, inputs) = parts(text);
        let matters: Vec<&Part> = parts.iter().filter(|part| matters(part)).collect();
        let test = matters.iter().find_map(|part| {
            let words = bare(&part.words);
            Test::of(words, program(words))
        });
        let mut hasher = DefaultHasher::new();
        match &test {
            Some(test) => test.hash(&mut hasher),
            None => {
                matters.iter().for_each(|part| (&part.words, &part.writes).hash(&mut hasher));
                (&inputs, line.len() > BYTES_MAX).hash(&mut hasher);
            }
        }
        let fed =
            parts.iter().filter(|part| matches!(self::program(&part.words), "echo" | "printf"));
        let fed = fed.flat_map(|part| part.words.iter().map(String::as_str));
        let given = fed.chain(inputs.iter().copied()).collect::<Vec<_>>().join("\n");
        let program = |part: &&&Part| program(bare(&part.words)).to_owned();
        let last = matters.last().map(|part| program(&part)).unwrap_or_default();
        let first = matters.first().map(|part| program(&part)).unwrap_or_default();
        Self {
            key: hasher.finish(),
            builds: [BUILDERS.as_slice(), &DRIVERS].concat().contains(&&*first),
            asks: ASKERS.contains(&&*last),
            hides_code: parts.len() > 1,
            changes: parts.iter().any(|part| {
                let words = bare(&part.words);
                effects::changes(words, self::program(words), &given)
            }),
            files: parts.iter().flat_map(touched).collect(),
            test,
        }
    }
}

/// Programs whose first word says what they are asked to do.
const ASKED: [&str; 32] = [
    "git",
    "cargo",
    "npm",
    "yarn",
    "pnpm",
    "bun",
    "docker",
    "kubectl",
    "go",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "make",
    "systemctl",
    "terraform",
    "aws",
    "gcloud",
    "gh",
    "helm",
    "brew",
    "apt",
    "apt-get",
    "dotnet",
    "bundle",
    "rails",
    "mix",
    "gradle",
    "mvn",
    "rustup",
    "deno",
    "sessionlog",
];

/// What the simple commands of a line are, each once: the program, and what it is asked to do
/// (`cargo test`). Changes of directory and filters at the end are none.
#[must_use]
pub fn names(line: &str) -> Vec<String> {
    let text = line.get(..line.floor_char_boundary(BYTES_MAX)).unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    // Editors are given a patch where a shell is given a command.
    if text.trim_start().starts_with(PATCH) {
        return found;
    }
    for part in parts(text).0.iter().filter(|part| matters(part)) {
        let words = bare(&part.words);
        let program = program(words);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let begins = program.starts_with(|c: char| c.is_ascii_alphanumeric() || "._".contains(c));
        if !begins || !program.contains(char::is_alphanumeric) || !program.chars().all(is_name) {
            continue;
        }
        // Options before it have values of their own or none.
        let is_word = |word: &&String| word.starts_with(|c: char| c.is_ascii_lowercase());
        let asked = words.get(1).filter(|word| ASKED.contains(&program) && is_word(word));
        let name = asked.map_or_else(|| program.to_owned(), |asked| format!("{program} {asked}"));
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Whether a part is what a command is about: not a change of directory, nor a filter at its end.
fn matters(part: &Part) -> bool {
    let program = program(bare(&part.words));
    let prepares =
        matches!(program, "cd" | "export" | "set" | "source" | "." | "pushd" | "echo" | "");
    !(prepares && part.writes.is_empty() || part.piped && FILTERS.contains(&program))
}

/// The words without assignments and wrapper programs.
fn bare(words: &[String]) -> &[String] {
    let mut words = words;
    loop {
        words = match words {
            [first, rest @ ..] if is_assignment(first) || KEYWORDS.contains(&&**first) => rest,
            [first, ..] if NOT_RUN.contains(&&**first) => return &[],
            [first, number, rest @ ..]
                if matches!(program(std::slice::from_ref(first)), "timeout" | "nice")
                    && number
                        .trim_start_matches("-n")
                        .starts_with(|c: char| c.is_ascii_digit()) =>
            {
                rest
            }
            [nice, flag, _, rest @ ..] if nice == "nice" && flag == "-n" => rest,
            [first, second, rest @ ..]
                if LONG_WRAPPERS.iter().any(|[a, b]| first == a && second == b) =>
            {
                rest
            }
            [first, rest @ ..] if WRAPPERS.contains(&first.as_str()) && !rest.is_empty() => rest,
            words => return words,
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The program of a simple command, without its directory.
fn program(words: &[String]) -> &str {
    words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default()
}

/// The files that a simple command plainly writes.
fn files(part: &Part) -> Vec<String> {
    let words = bare(&part.words);
    let name = program(words);
    let rest = words.get(1..).unwrap_or_default();
    let (name, rest) = match (name, rest) {
        ("git", [sub, rest @ ..]) if matches!(&**sub, "mv" | "rm") => (&**sub, rest),
        _ => (name, rest),
    };
    let is_plain = |word: &&String| !word.is_empty() && !word.starts_with('-');
    let plain: Vec<&String> = rest.iter().filter(is_plain).collect();
    let in_place = rest.iter().any(|word| word.starts_with("-i") || word.starts_with("-pi"));
    let mut files: Vec<String> = match name {
        "sed" | "perl" if in_place && rest.iter().filter(|word| *word == "-e").count() < 2 => {
            // The first word is the script, wherever its flag is.
            plain.iter().skip(1).map(|word| (*word).clone()).collect()
        }
        "tee" | "touch" | "rm" | "unlink" => plain.into_iter().cloned().collect(),
        "mv" => moved(&plain),
        _ => Vec::new(),
    };
    if matches!(name, "cat" | "echo" | "printf" | "tee") {
        files.extend(part.writes.iter().cloned());
    }
    files.retain(|file| is_file(file));
    files
}

/// What a simple command does to files.
fn touched(part: &Part) -> Vec<(Touch, String)> {
    let mut made: Vec<(Touch, String)> =
        files(part).into_iter().map(|file| (Touch::Changed, file)).collect();
    let words = bare(&part.words);
    let rest = words.get(1..).unwrap_or_default();
    let is_path = |word: &&String| is_file(word.trim_end_matches('/')) && !word.starts_with('-');
    let paths = |touch: Touch, words: &[String]| -> Vec<(Touch, String)> {
        let path = |word: &String| (touch, word.trim_end_matches('/').to_owned());
        words.iter().filter(is_path).map(path).collect()
    };
    match program(words) {
        "rm" | "unlink" => made.extend(paths(Touch::Deleted, rest)),
        "mv" => made.extend(paths(
            Touch::Deleted,
            rest.get(..rest.len().saturating_sub(1)).unwrap_or_default(),
        )),
        "git" => made.extend(of_git(rest, paths)),
        _ => {}
    }
    made
}

/// The same of `git`.
fn of_git(
    words: &[String],
    paths: impl Fn(Touch, &[String]) -> Vec<(Touch, String)>,
) -> Vec<(Touch, String)> {
    let words = match words {
        [option, _, rest @ ..] if matches!(&**option, "-C" | "-c") => rest,
        words => words,
    };
    let Some((sub, rest)) = words.split_first() else { return Vec::new() };
    let has = |options: &[&str]| rest.iter().any(|word| options.contains(&&**word));
    let named = rest.iter().position(|word| word == "--").and_then(|at| rest.get(at + 1..));
    let all = |touch: Touch| vec![(touch, String::new())];
    let those = |touch: Touch, words: &[String]| match words.iter().any(|word| word == ".") {
        true => all(touch),
        false => paths(touch, words),
    };
    match &**sub {
        "commit" if !has(&["--dry-run"]) => all(Touch::Committed),
        "rm" if !has(&["--cached"]) => paths(Touch::Deleted, rest),
        "mv" => paths(Touch::Deleted, rest.get(..rest.len().saturating_sub(1)).unwrap_or_default()),
        "checkout" if !has(&["-b", "-B", "--orphan", "-p", "--patch"]) => {
            those(Touch::Reverted, named.unwrap_or(rest))
        }
        "restore" if !has(&["--staged", "-S", "-p"]) || has(&["--worktree", "-W"]) => {
            those(Touch::Reverted, named.unwrap_or(rest))
        }
        "stash" => match rest.first().map_or("push", String::as_str) {
            "pop" | "apply" => all(Touch::Returned),
            "push" | "save" | "-u" | "-m" | "--include-untracked" | "--" => {
                named.map_or_else(|| all(Touch::Stashed), |words| those(Touch::Stashed, words))
            }
            _ => Vec::new(),
        },
        "reset" if has(&["--hard"]) => {
            let older = rest.iter().any(|word| !word.starts_with('-') && word != "HEAD");
            all(if older { Touch::Reset } else { Touch::Reverted })
        }
        _ => Vec::new(),
    }
}

/// Both names of a file that was moved; of files moved to a directory, what they were called.
fn moved(words: &[&String]) -> Vec<String> {
    match words {
        [from, to] if to.ends_with('/') => {
            let name = from.rsplit('/').next().unwrap_or_default();
            vec![(*from).clone(), format!("{to}{name}")]
        }
        [from, to] => vec![(*from).clone(), (*to).clone()],
        [from @ .., _] => from.iter().map(|word| (*word).clone()).collect(),
        [] => Vec::new(),
    }
}

/// Whether a word names one file of the work: no pattern, no variable, no device.
fn is_file(word: &str) -> bool {
    let special = |c: char| matches!(c, '*' | '?' | '$' | '`' | '{' | '[' | '~' | '(' | '&');
    let aside = ["/dev/", "/tmp/", "/proc/"].iter().any(|place| word.starts_with(place));
    !word.is_empty() && !word.contains(special) && !aside && !word.ends_with('/')
}

/// The simple commands of a text, and its here-documents (`<<EOF`).
fn parts(text: &str) -> (Vec<Part>, Vec<&str>) {
    let mut reader = Reader { rest: text, parts: vec![Part::default()], ..Reader::default() };
    while reader.parts.len() <= PARTS_MAX && reader.step() {}
    reader.end_word();
    reader.parts.retain(|part| !part.words.is_empty() || !part.writes.is_empty());
    (reader.parts, reader.inputs)
}

/// What the next word is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Word,
    /// A file that is written.
    Target,
    /// A file that is read, or a number.
    Other,
    /// The end of a here-document.
    End,
}

#[derive(Default)]
struct Reader<'a> {
    rest: &'a str,
    word: Option<String>,
    next: Next,
    parts: Vec<Part>,
    ends: Vec<String>,
    inputs: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn skip(&mut self, mark: &str) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    /// Reads one character and what belongs to it; whether there was one.
    fn step(&mut self) -> bool {
        let Some(character) = self.take() else { return false };
        match character {
            '\\' => {
                if let Some(next) = self.take().filter(|next| *next != '\n') {
                    self.push(next);
                }
            }
            '\'' | '"' => self.quoted(character),
            '#' if self.word.is_none() => {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = self.rest.get(line..).unwrap_or_default();
            }
            '>' => self.target(),
            '<' => self.source(),
            '&' if self.skip(">") => self.target(),
            ';' | '&' | '|' | '(' | ')' | '\n' => {
                let doubled = matches!(character, '&' | '|') && self.skip(&character.to_string());
                self.end_part(character == '|' && !doubled);
                if character == '\n' {
                    self.given();
                }
            }
            character if character.is_whitespace() => self.end_word(),
            character => self.push(character),
        }
        true
    }

    fn quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        while let Some(next) = self.take().filter(|next| *next != quote) {
            match next {
                '\\' if quote == '"' => self.take().into_iter().for_each(|next| self.push(next)),
                next => self.push(next),
            }
        }
    }

    /// After `>`: the target of the output, and whether it counts as a file.
    fn target(&mut self) {
        let number = self.word.take_if(|word| word.bytes().all(|b| b.is_ascii_digit()));
        self.end_word();
        self.skip(">");
        self.skip("|");
        let aside = self.skip("&") || number.is_some_and(|number| number != "1");
        self.next = if aside { Next::Other } else { Next::Target };
    }

    fn source(&mut self) {
        self.end_word();
        self.next = match self.skip("<<") {
            true => Next::Other,
            false if self.skip("<") => {
                self.skip("-");
                Next::End
            }
            false => Next::Other,
        };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let Some(part) = self.parts.last_mut() else { return };
        match std::mem::take(&mut self.next) {
            Next::Word if part.words.len() < WORDS_MAX => part.words.push(word),
            Next::Target if part.writes.len() < WORDS_MAX => part.writes.push(word),
            Next::End => self.ends.push(word),
            _ => {}
        }
    }

    fn end_part(&mut self, piped: bool) {
        self.end_word();
        self.next = Next::Word;
        let empty = |part: &Part| part.words.is_empty() && part.writes.is_empty();
        match self.parts.last_mut() {
            Some(part) if empty(part) => part.piped = piped,
            _ => self.parts.push(Part { piped, ..Part::default() }),
        }
    }

    /// Skips the here-documents of the previous line.
    fn given(&mut self) {
        for end in std::mem::take(&mut self.ends) {
            let mut length = 0;
            for line in self.rest.split_inclusive('\n') {
                if line.trim() == end {
                    self.inputs.push(self.rest.get(..length).unwrap_or_default());
                    length += line.len();
                    break;
                }
                length += line.len();
            }
            self.rest = self.rest.get(length..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_tests_is_recognised_by_its_words() {
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
            assert!(Command::of(line).test.is_some(), "{line}");
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
            assert_eq!(Command::of(line).test, None, "{line}");
        }
    }
}

//! The house rules as a test: which room may use which, the form of a file, and that every test a
//! document names exists. It reads text and links nothing of the crate, so it must not try to
//! understand Rust better than a careful reader of one line does.
//!
//! A rule is a function from one source file to faults. Each is run over a planted fault too: a
//! rule that cannot fail is no rule.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/parts.rs"]
mod parts;
#[path = "tidy/recipes.rs"]
mod recipes;
#[path = "tidy/shapes.rs"]
mod shapes;
#[path = "tidy/vocabulary.rs"]
mod vocabulary;
#[path = "tidy/words.rs"]
mod words;

/// Every room, bottom to top, and the rooms it may name.
const ROOMS: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("api", &["event"]),
    ("secrets", &[]),
    ("env", &["event"]),
    ("access", &["event", "env"]),
    ("log", &["event", "env"]),
    ("store", &["event", "env", "log"]),
    ("traces", &["event", "api"]),
    ("projection", &["event", "api", "traces"]),
    ("search", &["event", "api", "traces", "projection"]),
    ("harness", &["event", "api", "traces", "projection"]),
    (
        "service",
        &[
            "event",
            "api",
            "secrets",
            "env",
            "access",
            "store",
            "traces",
            "projection",
            "search",
            "harness",
        ],
    ),
    ("wire", &["event", "api", "traces", "projection", "harness", "service"]),
    ("verbs", &["event", "api", "access", "traces", "projection", "service", "wire"]),
    ("client", &["event", "api", "secrets", "wire", "verbs"]),
    ("page", &[]),
    ("http", &["event", "api", "env", "access", "service", "wire", "verbs", "page"]),
    ("mcp", &["event", "api", "secrets", "env", "access", "service", "wire", "verbs", "client"]),
    ("hook", &["event", "api", "secrets", "env", "wire", "verbs", "client"]),
    ("import", &["event", "api", "secrets", "wire", "verbs", "client"]),
    ("proxy", &["event", "api", "secrets", "env", "wire", "verbs", "client"]),
    (
        "cli",
        &[
            "event",
            "api",
            "secrets",
            "env",
            "access",
            "store",
            "traces",
            "projection",
            "search",
            "harness",
            "service",
            "wire",
            "verbs",
            "client",
            "page",
            "http",
            "mcp",
            "hook",
            "import",
            "proxy",
        ],
    ),
];

/// Words that belong to some paths (relative to `src/`) and nowhere else.
const CONFINED: &[(&str, &[&str])] = &[
    // The outside world.
    ("std::fs", &["env/disk.rs", "env/files.rs", "env/host.rs"]),
    // A file that is cut ends no process, and no other room maps one.
    ("memmap2", &["env/map.rs"]),
    ("libc", &["env/map.rs"]),
    ("tokio::fs", &[]),
    ("fs::File", &["env/disk.rs", "env/files.rs", "env/map.rs"]),
    ("OpenOptions", &["env/files.rs", "env/host.rs"]),
    ("rustix::fs", &["env/"]),
    ("SystemTime", &["env/clock.rs"]),
    ("Instant::now", &["env/clock.rs"]),
    ("Timestamp::now", &[]),
    ("Zoned::now", &[]),
    ("getrandom", &["env/entropy.rs"]),
    ("new_v4", &[]),
    ("now_v7", &[]),
    // The order of a table is never looked at: a seed replays a run all the same.
    ("RandomState", &["search/build.rs"]),
    ("unsafe", &["env/host.rs", "env/map.rs"]),
    ("unsafe_code", &["env/host.rs", "env/map.rs"]),
    // How bytes look on disk.
    ("bincode", &["log/"]),
    ("crc32fast", &["log/", "search/part.rs"]),
    ("zstd", &["log/"]),
    ("chacha20poly1305", &["log/cipher.rs", "hook/sealed.rs"]),
    ("hkdf", &["log/keyring.rs"]),
    ("sha2", &["log/keyring.rs"]),
    (
        "blake3",
        &[
            "access/token.rs",
            "env/file_check.rs",
            "env/parents.rs",
            "event/id.rs",
            "log/",
            "hook/",
            "import/",
            "page/mod.rs",
            "service/admit.rs",
            "service/graph/",
            "service/memory.rs",
            "service/notebook.rs",
            "service/restoring.rs",
            "service/saving.rs",
        ],
    ),
    // How words are compared.
    ("frostem", &["search/"]),
    ("unicode_normalization", &["search/"]),
    // Credentials.
    ("rustls", &["access/tls.rs", "client/", "store/base/postgres/tls.rs"]),
    ("tokio_rustls", &["http/serve.rs", "store/base/postgres/tls.rs"]),
    // The database of nodes.
    ("tokio_postgres", &["store/base/postgres/"]),
    // How they look to a client, and the programs around the core.
    (
        "Serialize",
        &[
            "api/",
            "access/record.rs",
            "projection/body.rs",
            "wire/",
            "verbs/",
            "client/",
            "http/",
            "mcp/",
            "hook/",
            "import/",
            "cli/",
        ],
    ),
    ("prost", &["wire/"]),
    ("axum", &["page/", "http/", "mcp/", "proxy/", "cli/"]),
    ("hyper", &["http/"]),
    ("schemars", &["api/", "http/", "wire/", "verbs/"]),
    ("rmcp", &["mcp/"]),
    ("reqwest", &["client/", "proxy/"]),
    ("clap", &["cli/"]),
    ("figment", &["cli/"]),
    ("jsonc_parser", &["hook/install/"]),
    ("toml_edit", &["hook/install/"]),
    ("anyhow", &["cli/", "main.rs"]),
    // What a library does not do.
    ("println", &["cli/"]),
    ("eprintln", &["cli/"]),
    ("print", &["cli/"]),
    ("eprint", &["cli/"]),
    ("std::env", &["cli/", "env/host.rs"]),
    ("env::var", &["cli/"]),
    ("process::exit", &["cli/"]),
];

/// Rooms that never wait.
const PLAIN: &[&str] = &["event", "api", "env", "log", "traces", "projection", "search", "harness"];

/// Words that some rooms must do without, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("serde_json", &["event", "env", "log", "store"], "the log never looks inside a body"),
    ("async", PLAIN, "nothing below store waits"),
    ("await", PLAIN, "nothing below store waits"),
    ("tokio", PLAIN, "nothing below store waits"),
    ("Mutex", &["traces", "projection", "search", "harness"], "folds and views are pure"),
];

/// Written by a program; they answer to their own drift test.
const GENERATED: &[&str] = &["src/wire/pb.rs"];

const COLUMNS_MAX: usize = 100;
const CODE_LINES_MAX: usize = 700;
/// One file in ten may be longer than this.
const CODE_LINES_USUAL: usize = 400;

struct Source {
    /// From the root of the package, `/`-separated.
    path: String,
    text: String,
    /// The text with comments, strings and characters blanked, line by line.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blanked(text) }
    }

    /// The path below `src/`.
    fn inside(&self) -> Option<&str> {
        self.path.strip_prefix("src/")
    }

    fn room(&self) -> Option<&str> {
        self.inside()?.split(['/', '.']).next()
    }

    fn is_test(&self) -> bool {
        let runs = ["src/", "benches/src/"].iter().any(|place| self.path.starts_with(place));
        !runs || self.path.ends_with("/tests.rs")
    }

    /// Lines of code that run outside tests, numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = if self.is_test() { Some(0) } else { self.tests_start() };
        (1..).zip(self.code.lines()).take_while(move |(line, _)| tests.is_none_or(|at| *line < at))
    }

    /// Number of the line `#[cfg(test)]` before `mod tests`.
    fn tests_start(&self) -> Option<usize> {
        (1..).zip(self.code.lines()).find(|(_, line)| *line == "#[cfg(test)]").map(|(at, _)| at)
    }
}

/// Replaces comments, strings and character literals by blanks and keeps the lines.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = literal(rest, out.chars().next_back());
        let length = taken.unwrap_or(first.len_utf8());
        let (head, tail) = rest.split_at(length);
        match taken {
            Some(_) => out.extend(head.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
            None => out.push_str(head),
        }
        rest = tail;
    }
    out.lines().map(str::trim_end).fold(String::new(), |all, line| all + line + "\n")
}

/// Bytes of the comment or literal at the start of `rest`, if one starts there.
fn literal(rest: &str, before: Option<char>) -> Option<usize> {
    let until = |open: usize, close: &str| {
        rest.get(open..)
            .and_then(|t| t.find(close))
            .map_or(rest.len(), |at| open + at + close.len())
    };
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let hashes = rest.strip_prefix('r').map(|t| t.chars().take_while(|c| *c == '#').count());
    if let Some(hashes) = hashes.filter(|_| !in_word || before == Some('b'))
        && rest.get(1 + hashes..).is_some_and(|t| t.starts_with('"'))
    {
        return Some(until(2 + hashes, &format!("\"{}", "#".repeat(hashes))));
    }
    // A lifetime has no closing quote right after its first character.
    let mut inner = rest.strip_prefix('\'')?.chars();
    let is_character = inner.next() == Some('\\') || inner.next() == Some('\'');
    is_character.then(|| quoted(rest, '\''))
}

/// Bytes of a quoted literal with backslash escapes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// True if `line` has `word` with nothing of a name on either side.
fn names(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(part_of_name)
            && !line[at + word.len()..].chars().next().is_some_and(part_of_name)
    })
}

type Fault = (usize, String);
type Rule = fn(&Source) -> Vec<Fault>;

const RULES: &[Rule] =
    &[sees_only_below, stays_in_its_room, says_what_it_is_for, is_readable, ends_with_its_tests];

/// First names after `crate::`, groups opened, each with its line.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let code: String = source.lines().fold(String::new(), |all, (_, line)| all + line + "\n");
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::") {
        let (mut depth, mut wanted) = (0, true);
        for (place, c) in code[at + word.len()..].char_indices() {
            let name = || {
                let rest = &code[at + word.len() + place..];
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
            };
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' => wanted = depth == 1,
                c if wanted && c.is_alphanumeric() => {
                    let end = at + word.len() + place;
                    found.push((code[..end].matches('\n').count() + 1, name()));
                    wanted = false;
                }
                _ => {}
            }
            if depth == 0 && !wanted {
                break;
            }
        }
    }
    found
}

fn sees_only_below(source: &Source) -> Vec<Fault> {
    let Some(room) = source.room().filter(|room| !matches!(*room, "lib" | "main")) else {
        return Vec::new();
    };
    let Some((_, below)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![(1, format!("the room `{room}` has no place in ROOMS"))];
    };
    let allowed = |name: &str| name == room || below.contains(&name);
    let is_room = |name: &str| ROOMS.iter().any(|(room, _)| *room == name);
    let mut faults: Vec<Fault> = imports(source)
        .into_iter()
        .filter(|(_, name)| is_room(name) && !allowed(name))
        .map(|(line, name)| (line, format!("`{room}` must not see `{name}`")))
        .collect();
    let depth = source.path.matches('/').count() - usize::from(source.path.ends_with("/mod.rs"));
    for (line, text) in source.lines() {
        if text.contains(&"super::".repeat(depth)) {
            faults.push((line, "leave a room through `crate::`".to_owned()));
        }
    }
    faults
}

fn stays_in_its_room(source: &Source) -> Vec<Fault> {
    let (Some(inside), Some(room)) = (source.inside(), source.room()) else { return Vec::new() };
    let mut faults = Vec::new();
    for (line, text) in source.lines() {
        for (word, rooms) in CONFINED {
            if names(text, word) && !rooms.iter().any(|room| inside.starts_with(room)) {
                faults.push((line, format!("`{word}` belongs to {rooms:?}")));
            }
        }
        for (word, rooms, why) in FORBIDDEN {
            if names(text, word) && rooms.contains(&room) {
                faults.push((line, format!("`{room}` must not name `{word}`: {why}")));
            }
        }
    }
    faults
}

fn says_what_it_is_for(source: &Source) -> Vec<Fault> {
    let header: String = source.text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    if header.trim().len() < 20 {
        return vec![(1, "open with `//!`: what the file is for, what it must not do".to_owned())];
    }
    Vec::new()
}

fn is_readable(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (line, text) in (1..).zip(source.text.lines()) {
        // rustfmt breaks no string, and a broken one is no easier to read.
        if text.chars().count() > COLUMNS_MAX && !text.contains('"') {
            faults.push((line, format!("more than {COLUMNS_MAX} columns")));
        }
        if text.contains('\t') || text.ends_with(' ') {
            faults.push((line, "a tab, or a blank at the end".to_owned()));
        }
    }
    let lines = code_lines(source);
    if lines > CODE_LINES_MAX {
        faults.push((1, format!("{lines} lines of code; {CODE_LINES_MAX} are the limit")));
    }
    for (line, text) in (1..).zip(source.code.lines()) {
        if text.trim_start().starts_with("#[ignore") {
            faults.push((line, "a test that is ignored tests nothing".to_owned()));
        }
        if names(text, "thread::sleep") || names(text, "time::sleep") && source.is_test() {
            faults.push((line, "wait for what you wait for; do not sleep".to_owned()));
        }
    }
    faults
}

fn code_lines(source: &Source) -> usize {
    let end = source.tests_start().filter(|_| !source.is_test()).unwrap_or(usize::MAX);
    let lines = (1..).zip(source.code.lines()).take_while(|(line, _)| *line < end);
    lines.filter(|(_, text)| !text.trim().is_empty()).count()
}

fn ends_with_its_tests(source: &Source) -> Vec<Fault> {
    if source.is_test() {
        return Vec::new();
    }
    let lines: Vec<&str> = source.code.lines().collect();
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("cfg(test)")) {
        let module = lines.get(index + 1).copied().unwrap_or_default();
        let module = module.trim_start_matches("pub(crate) ");
        let rest = lines.iter().skip(index + 2).position(|line| line.starts_with('}'));
        let last = match module {
            "mod tests;" => index + 2,
            "mod tests {" => index + 3 + rest.unwrap_or(0),
            _ => usize::MAX,
        };
        let is_last = lines.iter().skip(last).all(|line| line.is_empty());
        if line.starts_with(' ') || last == usize::MAX || !is_last {
            faults
                .push((index + 1, "test code goes into `mod tests`, last in the file".to_owned()));
        }
    }
    faults
}

/// Faults of files taken together: every file is part of the program, most are short, and lib.rs
/// lists the rooms bottom to top.
fn house_faults(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    let text_of = |path: &str| sources.iter().find(|s| s.path == path).map(|s| s.code.as_str());
    for source in sources {
        let Some(inside) = source.inside() else { continue };
        let (parent, name) = match inside.trim_end_matches("/mod.rs").rsplit_once('/') {
            _ if matches!(inside, "lib.rs" | "main.rs") => continue,
            Some((parent, name)) => (format!("src/{parent}"), name),
            None => ("src/lib".to_owned(), inside.trim_end_matches("/mod.rs")),
        };
        let declared = format!("mod {};", name.trim_end_matches(".rs"));
        let homes = [format!("{parent}/mod.rs"), format!("{parent}.rs")];
        let declares = |path: &String| text_of(path).is_some_and(|code| names(code, &declared));
        if !homes.iter().any(declares) {
            faults.push(format!("{}: {parent}.rs does not declare it", source.path));
        }
    }
    let own: Vec<usize> = sources.iter().filter(|s| s.inside().is_some()).map(code_lines).collect();
    let long = own.iter().filter(|lines| **lines > CODE_LINES_USUAL).count();
    if long * 10 > own.len() {
        faults.push(format!(
            "{long} of {} files have more than {CODE_LINES_USUAL} lines of code",
            own.len()
        ));
    }
    let listed = text_of("src/lib.rs").unwrap_or_default().lines();
    let listed: Vec<&str> =
        listed.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let place = |room: &&str| ROOMS.iter().position(|(name, _)| name == room);
    if !listed.is_sorted_by_key(place) {
        faults.push("src/lib.rs: list the rooms bottom to top".to_owned());
    }
    faults
}

fn faults(sources: &[Source]) -> Vec<String> {
    let mut all = house_faults(sources);
    for source in sources {
        for (line, what) in RULES.iter().flat_map(|rule| rule(source)) {
            all.push(format!("{}:{line}: {what}", source.path));
        }
    }
    all
}

// -- the repository --------------------------------------------------------------------------

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<Source> {
    let all = ["src", "benches", "tests", "fuzz"]
        .into_iter()
        .flat_map(|directory| files(directory, "rs"));
    all.filter(|(path, _)| !GENERATED.contains(&path.as_str()))
        .map(|(path, text)| Source::new(&path, &text))
        .collect()
}

fn assert_none(faults: &[String]) {
    let mut report = String::new();
    faults.iter().for_each(|fault| writeln!(report, "  {fault}").unwrap());
    assert!(faults.is_empty(), "{} fault(s):\n{report}", faults.len());
}

#[test]
fn the_sources_follow_every_rule() {
    assert_none(&faults(&sources()));
}

#[test]
fn rooms_are_listed_bottom_to_top() {
    for (index, (room, below)) in ROOMS.iter().enumerate() {
        for name in *below {
            let listed = ROOMS.iter().take(index).any(|(lower, _)| lower == name);
            assert!(listed, "{room} sees {name}, which is not below it");
        }
    }
}

// -- the documents ---------------------------------------------------------------------------

/// Every `path.rs::name` between backticks.
fn named_tests(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|code| code.split_once("::")).filter(|(p, _)| p.ends_with(".rs")).collect()
}

fn missing_tests(document: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, name) in named_tests(text) {
        let code = fs::read_to_string(root().join(path)).map(|text| blanked(&text));
        if !code.is_ok_and(|code| names(&code, &format!("fn {name}"))) {
            faults.push(format!("{document}: there is no test {path}::{name}"));
        }
    }
    faults
}

#[test]
fn every_test_a_document_names_exists() {
    let documents = files("docs", "md");
    assert_none(&documents.iter().flat_map(|(p, text)| missing_tests(p, text)).collect::<Vec<_>>());
}

#[test]
fn every_guarantee_names_a_test_or_is_marked_as_not_yet_proven() {
    let text = fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let promises: Vec<&str> = text.split("\n## ").skip(1).filter(|t| t.starts_with('G')).collect();
    assert!(promises.len() > 3, "docs/guarantees.md numbers its promises `## G1 ...`");
    for (number, promise) in (1..).zip(promises) {
        assert!(promise.starts_with(&format!("G{number} ")), "{promise}");
        let proven = !named_tests(promise).is_empty() || promise.contains("Not yet proven");
        assert!(proven, "name a test or say `Not yet proven`: {promise}");
    }
}

#[test]
fn coverage_lists_every_product_row_once_and_each_covered_row_names_a_test() {
    let text = fs::read_to_string(root().join("docs/coverage.md")).unwrap();
    let letters = [('A', 13), ('B', 10), ('C', 7), ('D', 8), ('E', 22), ('F', 4), ('X', 11)];
    let wanted: BTreeSet<String> = letters
        .into_iter()
        .flat_map(|(letter, last)| (1..=last).map(move |number| format!("{letter}{number}")))
        .collect();
    let mut seen = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(id) = cells.get(1).copied().filter(|id| wanted.contains(*id)) else { continue };
        assert!(seen.insert(id.to_owned()), "{id} comes twice");
        let state = cells.get(5).copied().unwrap_or_default();
        let known = state == "done" || state == "open" || state.starts_with("partly: ");
        assert!(known, "{id}: a state is `done`, `partly: what` or `open`, not {state:?}");
        assert!(
            state == "open" || !named_tests(row).is_empty(),
            "{id} is {state} and names no test"
        );
    }
    assert_eq!(wanted.difference(&seen).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Decisions whose title does not begin with the number of their file.
fn untitled(decisions: &[(String, String)]) -> Vec<String> {
    let number =
        |path: &str| path.rsplit('/').next().unwrap_or_default().get(..4).map(str::to_owned);
    let is_titled = |path: &str, text: &str| {
        number(path).is_some_and(|number| text.starts_with(&format!("# {number} · ")))
    };
    let wrong = decisions.iter().filter(|(path, text)| !is_titled(path, text));
    wrong.map(|(path, _)| format!("{path}: its title is not `# NUMBER · TITLE`")).collect()
}

#[test]
fn every_decision_is_titled_with_its_number() {
    assert_none(&untitled(&files("docs/decisions", "md")));
    let planted = [("docs/decisions/0007-a.md".to_owned(), "# 0008 · A\n".to_owned())];
    assert_eq!(untitled(&planted).len(), 1);
}

/// Documents beside `docs/`.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

fn page(path: &str) -> (String, String) {
    (path.to_owned(), fs::read_to_string(root().join(path)).unwrap())
}

#[test]
fn every_link_of_a_document_has_a_target() {
    let mut documents = files("docs", "md");
    documents.extend(PAGES.iter().map(|path| page(path)));
    let mut faults = Vec::new();
    for (path, text) in &documents {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let target = link.split('#').next().unwrap();
            if !root().join(Path::new(path).parent().unwrap()).join(target).exists() {
                faults.push(format!("{path}: {link} leads nowhere"));
            }
        }
    }
    assert_none(&faults);
}

// -- the rules, seen to fail -----------------------------------------------------------------

const HEADER: &str = "//! A planted file that stands for a real one.\n";

/// Faults that are planted, each with a part of the report it must cause.
const PLANTED: &[(&str, &str, &str)] = &[
    ("src/log/a.rs", "use crate::store::Store;", "`log` must not see `store`"),
    ("src/event/a.rs", "use crate::{\n    event::Id,\n    env::Env,\n};", ":3: `event` must not"),
    ("src/http/a.rs", "fn f() { crate::mcp::run() }", "`http` must not see `mcp`"),
    ("src/wire/a.rs", "use crate::{service::{self, Error}, store};", "must not see `store`"),
    ("src/cellar/a.rs", "fn f() {}", "`cellar` has no place"),
    ("src/store/mod.rs", "use super::service::Service;", "leave a room through"),
    ("src/log/a.rs", "use super::super::store::Store;", "leave a room through"),
    ("src/store/a.rs", "use std::fs;", "`std::fs` belongs"),
    ("src/cli/a.rs", "fn f() { std::fs::read(p) }", "`std::fs` belongs"),
    ("src/service/a.rs", "let t = Instant::now();", "`Instant::now` belongs"),
    ("src/env/a.rs", "let t = SystemTime::now();", "`SystemTime` belongs"),
    ("src/service/a.rs", "let t = jiff::Timestamp::now();", "`Timestamp::now` belongs"),
    ("src/store/a.rs", "getrandom::fill(b);", "`getrandom` belongs"),
    ("src/service/a.rs", "Uuid::now_v7()", "`now_v7` belongs"),
    ("src/log/a.rs", "unsafe { f() }", "`unsafe` belongs"),
    ("src/log/a.rs", "#![allow(unsafe_code)]", "`unsafe_code` belongs"),
    ("src/store/a.rs", "use bincode::Encode;", "`bincode` belongs"),
    ("src/log/record.rs", "use chacha20poly1305::Key;", "`chacha20poly1305` belongs"),
    ("src/store/a.rs", "crc32fast::hash(b)", "`crc32fast` belongs"),
    ("src/event/kind.rs", "blake3::hash(b)", "`blake3` belongs"),
    ("src/service/a.rs", "#[derive(serde::Serialize)]", "`Serialize` belongs"),
    ("src/service/a.rs", "use axum::Router;", "`axum` belongs"),
    ("src/http/a.rs", "use rmcp::model;", "`rmcp` belongs"),
    ("src/http/a.rs", "use prost::Message;", "`prost` belongs"),
    ("src/service/a.rs", "println!();", "`println` belongs"),
    ("src/client/a.rs", "std::env::var(n)", "`std::env` belongs"),
    ("src/store/a.rs", "use serde_json::Value;", "the log never looks inside"),
    ("src/log/a.rs", "pub async fn f() {}", "nothing below store waits"),
    ("src/harness/a.rs", "static M: Mutex<u8>;", "folds and views are pure"),
    ("tests/it/a.rs", "#[ignore]\nfn f() {}", "a test that is ignored"),
    ("tests/it/a.rs", "std::thread::sleep(d);", "do not sleep"),
    ("src/log/a.rs", "fn f() {} ", "a blank at the end"),
    ("src/log/a.rs", "\tfn f() {}", "a tab"),
    ("src/log/a.rs", "#[cfg(test)]\nmod tests {\n}\nfn f() {}", "last in the file"),
    ("src/log/a.rs", "#[cfg(test)]\nfn f() {}", "last in the file"),
    ("src/log/a.rs", "mod m {\n    #[cfg(test)]\n    mod tests;\n}", "last in the file"),
];

/// Lines that look like a fault and are none.
const INNOCENT: &[(&str, &str)] = &[
    ("src/log/a.rs", "// use crate::store::Store; std::fs unsafe"),
    ("src/log/a.rs", "const A: &str = \"unsafe \\\" std::fs\"; const B: char = '\"';"),
    ("src/log/a.rs", "const A: &str = r#\"std::fs \"unsafe\" \"#; fn f<'a>(x: &'a str) {}"),
    ("src/log/a.rs", "/* crate::store\n std::fs */ use crate::{env::Env, event::{Id, Position}};"),
    ("src/log/a.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}"),
    ("src/log/tests.rs", "use std::fs;"),
    ("src/env/disk.rs", "use std::fs;"),
    ("src/store/local/a.rs", "use super::super::Store;"),
    ("src/store/a.rs", "fn fingerprint() { footprints() }"),
    ("src/store/a.rs", "use crate::log::store_something;"),
];

#[test]
fn each_rule_reports_a_planted_fault() {
    for (path, text, expected) in PLANTED {
        // The header must not move the planted lines.
        let source = Source::new(path, &format!("{text}\n"));
        let found: Vec<String> = RULES
            .iter()
            .flat_map(|rule| rule(&source))
            .map(|(line, what)| format!("{path}:{line}: {what}"))
            .collect();
        assert!(found.iter().any(|fault| fault.contains(expected)), "{text:?} gave {found:#?}");
    }
}

#[test]
fn no_rule_reports_correct_code() {
    for (path, text) in INNOCENT {
        let source = Source::new(path, &format!("{HEADER}{text}\n"));
        let found: Vec<Fault> = RULES.iter().flat_map(|rule| rule(&source)).collect();
        assert_eq!(found, Vec::<Fault>::new(), "{text:?}");
    }
}

#[test]
fn sizes_headers_and_forgotten_files_are_reported() {
    let found = |sources: &[(&str, String)]| {
        let sources: Vec<Source> = sources.iter().map(|(p, t)| Source::new(p, t)).collect();
        faults(&sources).join("\n")
    };
    let lib = |text: &str| ("src/lib.rs", format!("{HEADER}{text}"));
    let module = |text: &str| ("src/log/mod.rs", format!("{HEADER}{text}"));
    let good = [lib("pub mod event;\npub mod log;\n"), module("mod a;\n")];
    assert_eq!(found(&good), "");
    let long = "fn f() {}\n".repeat(CODE_LINES_MAX + 1);
    assert!(found(&[lib("pub mod log;\n"), module(&long)]).contains("701 lines of code"));
    let usual = "fn f() {}\n".repeat(CODE_LINES_USUAL + 1);
    assert!(found(&[lib("pub mod log;\n"), module(&usual)]).contains("1 of 2 files"));
    let wide = format!("// {}\n", "x".repeat(COLUMNS_MAX));
    assert!(found(&[lib("pub mod log;\n"), module(&wide)]).contains("more than 100 columns"));
    assert!(found(&[lib(""), module("")]).contains("src/lib.rs does not declare it"));
    assert!(found(&[lib("pub mod log;\npub mod event;\n")]).contains("bottom to top"));
    let bare = ("src/lib.rs", "pub mod log;\n".to_owned());
    assert!(found(&[bare]).contains("src/lib.rs:1: open with `//!`"));
}

#[test]
fn a_document_that_names_a_missing_test_is_reported() {
    let here = "`tests/tidy.rs::the_sources_follow_every_rule`";
    assert_eq!(missing_tests("d", here), Vec::<String>::new());
    let gone = "`tests/tidy.rs::no_such_test` and `tests/none.rs::x`";
    assert_eq!(missing_tests("d", gone).len(), 2);
}

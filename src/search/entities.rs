//! Entities in a text, by kind, as terms with a prefix: `file:` with the path reversed, so that its
//! last components find it, `url:` with host and path, `symbol:` from its last component, and so
//! on. Rules favour precision over recall. It must not read an index or a file.

use std::sync::LazyLock;

use regex::Regex;

use super::stop_words::is_stop_word;

/// Maximum bytes of a name; a longer one is ignored.
const NAME_BYTES_MAX: usize = 200;
/// Maximum bytes of an error message; a longer one is cut.
const ERROR_BYTES_MAX: usize = 120;

/// A kind of entity in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityKind {
    /// A file, by its path in lower case.
    File,
    /// An address: host and path.
    Url,
    /// A function, a type or another identifier.
    Symbol,
    /// An error: its message, its code or its type.
    Error,
    /// A shell command: the program and its subcommand.
    Command,
    /// A person, by name or e-mail address.
    Person,
    /// An installed or imported package.
    Package,
}

impl EntityKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::Url,
        Self::Symbol,
        Self::Error,
        Self::Command,
        Self::Person,
        Self::Package,
    ];

    /// Returns the name of the kind, which is the type of its entities in the graph.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Url => "url",
            Self::Symbol => "symbol",
            Self::Error => "error",
            Self::Command => "command",
            Self::Person => "person",
            Self::Package => "package",
        }
    }

    /// Parses the name of a kind.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the prefix of its terms.
    pub(super) fn prefix(self) -> String {
        format!("{}:", self.as_str())
    }

    /// Returns the term of a name.
    #[must_use]
    pub fn term(self, name: &str) -> String {
        let name = name.trim();
        match self {
            Self::File => file_term(name),
            Self::Url => url_term(name),
            Self::Symbol => {
                let names: Vec<&str> = name.trim_end_matches("()").rsplit("::").collect();
                format!("symbol:{}", names.join("/"))
            }
            Self::Error => format!("error:{name}"),
            Self::Command => {
                let words: Vec<&str> = name.split_whitespace().collect();
                format!("command:{}", words.join("/"))
            }
            Self::Person => {
                let folded = name.to_lowercase();
                if folded == name {
                    format!("person:{name}")
                } else {
                    format!("person:{folded}/{name}")
                }
            }
            Self::Package => format!("package:{}", name.to_lowercase()),
        }
    }

    /// Normalises a name to that of its term.
    #[must_use]
    pub fn normalize(self, name: &str) -> String {
        self.name_in_term(&self.term(name)).unwrap_or_default()
    }

    /// Returns the name in a term of this kind; `None` for a file term that may not be a file.
    pub(super) fn entity_name(self, term: &str) -> Option<String> {
        self.name_in_term(term).filter(|name| self != Self::File || is_file(name))
    }

    fn name_in_term(self, term: &str) -> Option<String> {
        let rest = term.strip_prefix(self.as_str())?.strip_prefix(':')?;
        let turned = |mark: &str| rest.rsplit('/').collect::<Vec<_>>().join(mark);
        Some(match self {
            Self::File => turned("/"),
            Self::Symbol => turned("::"),
            Self::Command => rest.replace('/', " "),
            Self::Person => rest.split_once('/').map_or(rest, |(_, name)| name).to_owned(),
            Self::Url | Self::Error | Self::Package => rest.to_owned(),
        })
    }
}

/// Returns the term of a file: the components of its path from the last to the first.
pub(super) fn file_term(path: &str) -> String {
    let path = path.trim_start_matches("file://");
    let is_name = |name: &&str| !name.is_empty() && !matches!(*name, "." | ".." | "~");
    let names: Vec<&str> = path.split(['/', '\\']).filter(is_name).rev().collect();
    format!("file:{}", names.join("/").to_lowercase())
}

/// Returns the term of a URL: host and path, without scheme, credentials, query and fragment.
pub(super) fn url_term(address: &str) -> String {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let host = address.split('/').next().unwrap_or_default();
    let address = address.get(host.rfind('@').map_or(0, |at| at + 1)..).unwrap_or(address);
    let address = address.trim_start_matches("www.").trim_end_matches('/');
    format!("url:{}", address.to_lowercase())
}

/// Returns the term of the `kind` of a body.
pub(super) fn kind_term(name: &str) -> String {
    format!("kind:{}", name.to_lowercase())
}

/// Calls `visit` with the byte offset and the term of every entity in a text.
pub(super) fn find(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    find_paths(text, visit);
    find_symbols(text, visit);
    find_errors(text, visit);
    find_people(text, visit);
    find_packages(text, visit);
}

/// Returns the lines of a text that begin with a shell prompt, each with its byte offset.
pub(super) fn prompt_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    let lines = text.split_inclusive('\n').map(move |line| {
        let at = from;
        from += line.len();
        (at, line)
    });
    lines.filter_map(|(at, line)| Some((at, line.trim().strip_prefix("$ ")?)))
}

/// Finds files and URLs.
fn find_paths(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    let mut from = 0;
    let is_mark = |c: char| c.is_whitespace() || "\"'`()<>[]{},;|*=".contains(c);
    for chunk in text.split(is_mark) {
        let start = from;
        from += chunk.len();
        from += text.get(from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        if chunk.len() < 3 || chunk.len() > NAME_BYTES_MAX || !chunk.contains(['/', '.']) {
            continue;
        }
        let name = chunk.trim_end_matches(['.', ':', '!', '?']);
        match name.split_once("://") {
            Some(("http" | "https", _)) => visit(start, &url_term(name)),
            Some(("file", path)) => visit(start, &file_term(path)),
            Some(_) => {}
            None => {
                // `src/a.rs:12:5` names a line.
                let path = name.split(':').next().unwrap_or_default();
                if is_path(path) {
                    visit(start, &file_term(path));
                }
            }
        }
    }
}

/// Returns true if a text looks like a path: by its prefix, its extension, or three components.
fn is_path(path: &str) -> bool {
    let known = |c: char| c.is_alphanumeric() || "/._-+@~\\".contains(c);
    if !path.chars().all(known) || path.contains("//") {
        return false;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        stem.len() > 1
            && (1..=8).contains(&ending.len())
            && ending.starts_with(|c: char| c.is_ascii_lowercase())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && stem.contains(char::is_alphabetic)
    });
    let begins = ["/", "./", "../", "~/"].iter().any(|start| path.starts_with(start));
    let names = path.split('/').filter(|name| !name.is_empty()).count();
    has_ending || begins && names > 0 || names > 2
}

/// File extensions; those that are also method names count only after a directory.
const ENDINGS: &str = " rs py js ts tsx jsx mjs cjs go java kt c h cc cpp hpp cs rb php swift scala \
     sh bash zsh fish sql html htm css scss sass less vue svelte json jsonl yaml yml toml xml ini \
     cfg conf md mdx rst txt csv tsv log proto graphql ipynb pdf png jpg jpeg gif svg ico webp zip \
     tar gz tgz whl jar so dll exe wasm db sqlite patch diff env pem crt tf gradle cmake lua pl \
     dart zig nix adoc tex bib ex exs erl hs ml clj ";
const ENDINGS_BELOW: &str = " lock map key service bin r jl snap mk ps1 j2 in am ";
/// File names without a listed extension.
const FILES: &str = " makefile dockerfile justfile gemfile rakefile procfile license readme \
     changelog cargo.lock yarn.lock poetry.lock uv.lock flake.lock package-lock.json .gitignore \
     .env .dockerignore .editorconfig go.mod go.sum ";
/// Product names that look like files.
const PRODUCTS: &str = " node.js next.js vue.js nuxt.js react.js express.js d3.js three.js chart.js \
     socket.io asp.net docs.rs ";

/// Returns true if a path certainly denotes a file, by its name or extension.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_in = |list: &str, word: &str| !word.is_empty() && list.contains(&format!(" {word} "));
    if is_in(PRODUCTS, name) || path.contains('@') || is_transcript(name) {
        return false;
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    is_in(FILES, name)
        || is_in(ENDINGS, ending)
        || path.contains('/') && is_in(ENDINGS_BELOW, ending)
}

/// Returns true if a name is that of an agent's own transcript, which is not a project file.
fn is_transcript(name: &str) -> bool {
    let stem = name.strip_suffix(".jsonl").unwrap_or_default();
    let id = stem.len().checked_sub(36).and_then(|at| stem.get(at..)).unwrap_or_default();
    id.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// A regular expression that is compiled once.
macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the pattern is part of this program"));
    };
}

pattern!(PATH, r"(?:^|[^A-Za-z0-9_:./])((?:[A-Za-z_][A-Za-z0-9_]*::)+[A-Za-z_][A-Za-z0-9_]*)");
pattern!(CALL, r"(?:^|[^A-Za-z0-9_:./>-])([A-Za-z_][A-Za-z0-9_]{2,})\(\)");
pattern!(
    DEFINED,
    concat!(
        r"(?m)^[ \t]*(?:pub(?:\([a-z]+\))? |export |default |async |static |unsafe |const )*",
        r"(?:fn|def|class|struct|enum|trait|interface|function|func) ",
        r"([A-Za-z_][A-Za-z0-9_]{2,})[ \t]*[(<{:;]"
    )
);
pattern!(
    QUOTED,
    concat!(
        r"`([A-Za-z]+(?:_[A-Za-z0-9]+)+|[A-Z][a-z0-9]+[A-Z][A-Za-z0-9_]*",
        r"|[a-z]+[A-Z][A-Za-z0-9_]*)(?:\(\))?`"
    )
);

fn find_symbols(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    let mut send = |at: usize, name: &str| {
        // A name that ends in a long number is an identifier, not a program.
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        if name.len() <= NAME_BYTES_MAX && digits < 4 {
            visit(at, &EntityKind::Symbol.term(name));
        }
    };
    if text.contains("::") {
        visit_matches(&PATH, text, |at, name| {
            // `to_*` is a glob.
            let next = text.get(at + name.len()..).and_then(|rest| rest.chars().next());
            if next != Some('*') {
                send(at, name);
            }
        });
    }
    if text.contains("()") {
        visit_matches(&CALL, text, &mut send);
    }
    if ["fn ", "def ", "class ", "struct ", "enum ", "trait ", "interface ", "function ", "func "]
        .iter()
        .any(|word| text.contains(word))
    {
        visit_matches(&DEFINED, text, &mut send);
    }
    if text.contains('`') {
        visit_matches(&QUOTED, text, &mut send);
    }
}

pattern!(
    MESSAGE,
    concat!(
        r"(?m)^[ \t>|]*((?:error(?:\[E[0-9]{4}\])?|fatal|panic|",
        r"[A-Za-z_][A-Za-z0-9_.]*(?:Error|Exception)): [^\n]{3,200})"
    )
);
pattern!(PANIC, r"thread '[^'\n]{1,60}' (?:\([0-9]+\) )?(panicked at [^\n]{1,150})");
pattern!(
    ERROR_CODE,
    concat!(
        r"\b(E0[0-9]{3}|TS[0-9]{4}|E(?:NOENT|ACCES|CONNREFUSED|CONNRESET|ADDRINUSE|EXIST|PERM|",
        r"PIPE|TIMEDOUT|NOTFOUND|NOSPC|MFILE|INVAL|BUSY|AGAIN)|ERR_[A-Z_]{3,40}|",
        r"SIG(?:SEGV|KILL|ABRT|BUS|TERM|INT|PIPE)|MODULE_NOT_FOUND)\b"
    )
);

fn find_errors(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    let mut send = |at: usize, name: &str| {
        let name = name.trim_end();
        let name = name.get(..name.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or(name);
        visit(at, &EntityKind::Error.term(name));
    };
    if ["rror", "xception: ", "fatal: ", "panic: "].iter().any(|word| text.contains(word)) {
        visit_matches(&MESSAGE, text, &mut send);
    }
    if text.contains("panicked at ") {
        visit_matches(&PANIC, text, |at, name| {
            // The line in the file is not part of its name.
            let is_place = |c: char| c == ':' || c.is_ascii_digit();
            send(at, name.trim_end().trim_end_matches(is_place));
        });
    }
    visit_matches(&ERROR_CODE, text, send);
}

pattern!(
    NAMED,
    concat!(
        r"(\p{Lu}[\p{L}.'-]+(?: \p{Lu}[\p{L}.'-]*){0,3}) ",
        r"<[A-Za-z0-9][A-Za-z0-9_.+-]*@[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+>"
    )
);
pattern!(
    MAIL,
    concat!(
        r"\b([A-Za-z0-9][A-Za-z0-9_.+-]*@",
        r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,})\b"
    )
);
pattern!(INTRODUCED, r"\b[Nn]ame is (\p{Lu}\p{Ll}+(?: \p{Lu}\p{Ll}+){1,2})\b");
/// Local parts of addresses that are not persons, and file extensions.
const NO_PEOPLE: [&str; 6] = ["git", "noreply", "no-reply", "npm", "root", "postmaster"];
const NO_HOSTS: [&str; 8] = ["png", "jpg", "svg", "gif", "webp", "js", "ts", "css"];

fn find_people(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    let mut send = |at: usize, name: &str| visit(at, &EntityKind::Person.term(name));
    if text.contains('@') {
        visit_matches(&NAMED, text, &mut send);
        visit_matches(&MAIL, text, |at, address| {
            let (local, host) = address.split_once('@').unwrap_or_default();
            let ending = host.rsplit('.').next().unwrap_or_default();
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let is_part = before.is_some_and(|c| matches!(c, '/' | ':' | '@'))
                && !text.get(..at).is_some_and(|text| text.ends_with("mailto:"));
            if !NO_PEOPLE.contains(&&*local.to_lowercase())
                && !NO_HOSTS.contains(&ending)
                && !is_part
            {
                send(at, &address.to_lowercase());
            }
        });
    }
    if text.contains("ame is ") {
        visit_matches(&INTRODUCED, text, send);
    }
}

pattern!(
    INSTALLED,
    concat!(
        r"(?m)(?:^[ \t]*(?:[$#>] )?(?:sudo )?|`|&& |; )",
        r"(?:npm (?:install|i|add)|yarn add|pnpm (?:add|install)|pip3? install|",
        r"cargo (?:add|install)|apt(?:-get)? install|brew install|gem install|go get|uv add|",
        r"poetry add)((?: +-[A-Za-z0-9-]+)*) +([@A-Za-z0-9_][A-Za-z0-9_./@-]*)"
    )
);
pattern!(BUILT, r"(?:Compiling|Checking|Downloaded|Adding) ([a-z][A-Za-z0-9_-]*) v[0-9][^\s]*");
pattern!(MISSING, r"No module named '?([A-Za-z_][A-Za-z0-9_]*)");
pattern!(NOT_FOUND, r"Cannot find (?:module|package) '(@?[a-z][A-Za-z0-9_./-]*)'");
pattern!(
    IMPORTED,
    concat!(
        r#"(?m)(?:\brequire\(|^[ \t]*(?:import|export) [^'"\n]{0,200}\bfrom |^[ \t]*import )"#,
        r#"['"](@[a-z0-9-]+/[A-Za-z0-9_.-]+|[a-z][A-Za-z0-9_-]*)"#
    )
);
pattern!(
    VERSIONED,
    r#"(?:^|[\s`"(])((?:@[a-z0-9-]+/)?[a-z][A-Za-z0-9_-]*)@[~^]?[0-9]+\.[0-9]+(?:\.[0-9]+)?\b"#
);
pattern!(PINNED, r"(?m)(?:^|[\s`(])([A-Za-z][A-Za-z0-9_-]*)==[0-9]+(?:\.[0-9]+)+");
pattern!(
    DEPENDED,
    r#"(?m)^([a-z][A-Za-z0-9_-]*) = (?:"[\^~=]?[0-9]+(?:\.[0-9]+)*"|\{ version = ")"#
);
/// Members of manifests that have a version and are not packages.
const NO_PACKAGES: [&str; 8] =
    ["version", "edition", "rust-version", "resolver", "python", "node", "format", "schema"];
/// Flags followed by a path.
const OF_PATHS: [&str; 6] = ["-r", "-e", "-f", "--path", "--file", "--editable"];

fn find_packages(text: &str, visit: &mut dyn FnMut(usize, &str)) {
    let mut send = |at: usize, name: &str| {
        let name = name.trim_end_matches(['.', ',', '/', '-']);
        if name.len() > 1 && name.len() <= NAME_BYTES_MAX && !is_stop_word(&name.to_lowercase()) {
            visit(at, &EntityKind::Package.term(name));
        }
    };
    if [" install ", " add ", " get ", "npm i "].iter().any(|word| text.contains(word)) {
        for found in INSTALLED.captures_iter(text) {
            let flags = found.get(1).map_or("", |flags| flags.as_str());
            let Some(name) = found.get(2) else { continue };
            // A version follows the name, after the at sign of its scope.
            let (at, name) = (name.start(), name.as_str());
            let end = name.char_indices().skip(1).find(|(_, c)| *c == '@');
            let name = end.and_then(|(end, _)| name.get(..end)).unwrap_or(name);
            let is_path = flags.split_whitespace().any(|flag| OF_PATHS.contains(&flag));
            if !is_path && !is_file(name) {
                send(at, name);
            }
        }
    }
    for (word, rule) in [
        (" v", &BUILT),
        ("No module named ", &MISSING),
        ("Cannot find ", &NOT_FOUND),
        ("==", &PINNED),
        ("@", &VERSIONED),
    ] {
        if text.contains(word) {
            visit_matches(rule, text, &mut send);
        }
    }
    if text.contains("require(") || text.contains("import ") || text.contains(" from ") {
        visit_matches(&IMPORTED, text, &mut send);
    }
    if text.contains(" = \"") || text.contains(" = { version") {
        visit_matches(&DEPENDED, text, |at, name| {
            if !NO_PACKAGES.contains(&name) {
                send(at, name);
            }
        });
    }
}

/// Calls `visit` with the byte offset and the text of the first group of each match.
fn visit_matches(rule: &Regex, text: &str, mut visit: impl FnMut(usize, &str)) {
    for found in rule.captures_iter(text) {
        if let Some(name) = found.get(1) {
            visit(name.start(), name.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms_of_entities(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        find(text, &mut |at, term| {
            assert!(text.is_char_boundary(at) && at < text.len(), "{term} at {at} of {text:?}");
            found.push(term.to_owned());
        });
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn entities_of_each_kind_are_found_in_a_text() {
        for (text, expected) in [
            (
                "see src/ab.rs:12:5 and https://www.example.org/x?y#z.",
                "file:ab.rs/src url:example.org/x",
            ),
            (
                "call `flush_ledger` of `PartBuilder`, not `tax`",
                "symbol:PartBuilder symbol:flush_ledger",
            ),
            (
                "`parseConfig()` and std::mem::size_of, Choice::to_*",
                "symbol:parseConfig symbol:size_of/mem/std",
            ),
            ("it calls close() on self.len()", "symbol:close"),
            (
                "pub(crate) async fn run_all<T>(\nclass Ledger:\n  trait object is",
                "symbol:Ledger symbol:run_all",
            ),
            ("the id `gift_card_7480005`", ""),
            (
                "error[E0308]: mismatched types\n  TypeError: x is not a function",
                "error:E0308 error:TypeError: x is not a function error:error[E0308]: mismatched types",
            ),
            ("open failed: ENOENT, then SIGKILL", "error:ENOENT error:SIGKILL"),
            (
                "thread 'main' panicked at src/tax.rs:13:9:\n",
                "error:panicked at src/tax.rs file:tax.rs/src",
            ),
            ("there is an error here, and no Error at all", ""),
            (
                "by Ada Lovelace <ada@lib.example>",
                "person:ada lovelace/Ada Lovelace person:ada@lib.example",
            ),
            ("My name is Ada Lovelace.", "person:ada lovelace/Ada Lovelace"),
            (
                "git@github.com:a/b, icon@2x.png, noreply@lib.example, http://u:p@h.example/",
                "url:h.example",
            ),
            ("$ npm install --save left-pad@1.3.0\n", "package:left-pad"),
            (
                "`cargo add serde`; then `pip install -r requirements.txt`",
                "file:requirements.txt package:serde",
            ),
            ("`pip install -e backend`, `cargo add --path ledger`", ""),
            ("run npm install when the build breaks", ""),
            ("   Compiling libc v0.2.1\nNo module named 'yaml'", "package:libc package:yaml"),
            (
                "import { a } from 'react';\nconst x = require(\"node-fetch\")",
                "package:node-fetch package:react",
            ),
            ("keeps it from \"falling\"", ""),
            ("[dependencies]\nregex = \"1.13\"\nversion = \"0.1.0\"", "package:regex"),
            ("Flask==2.0.1 and @types/node@20.1.0", "package:@types/node package:flask"),
        ] {
            let mut found = terms_of_entities(text);
            // A path that may not be a file is a search term, but has no entity name.
            let is_listed =
                |term: &str| EntityKind::ALL.iter().any(|kind| kind.entity_name(term).is_some());
            found.retain(|term| is_listed(term));
            let plain: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(plain.join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn an_error_name_over_120_bytes_is_cut_to_its_prefix() {
        let found = terms_of_entities(&format!("error: {}", "é".repeat(90)));
        let [error] = &found[..] else { panic!("one error: {found:?}") };
        assert!((118..=120).contains(&(error.len() - "error:".len())), "{error}");
    }

    #[test]
    fn normalizing_a_name_returns_the_name_in_its_term() {
        for (kind, name, shown) in [
            (EntityKind::File, "/work/bank/src/Tax.rs", "work/bank/src/tax.rs"),
            (EntityKind::Url, "https://lib.example/a/?q", "lib.example/a"),
            (EntityKind::Symbol, "std::mem::size_of", "std::mem::size_of"),
            (EntityKind::Symbol, "close()", "close"),
            (EntityKind::Error, "TypeError: x/y", "TypeError: x/y"),
            (EntityKind::Command, "cargo  test", "cargo test"),
            (EntityKind::Person, "Ada Lovelace", "Ada Lovelace"),
            (EntityKind::Person, "ada@lib.example", "ada@lib.example"),
            (EntityKind::Package, "@Types/node", "@types/node"),
        ] {
            assert_eq!(kind.normalize(name), shown);
            assert_eq!(kind.normalize(shown), shown, "it stays so");
        }
    }

    #[test]
    fn entity_name_returns_a_name_only_for_a_path_that_is_certainly_a_file() {
        for (path, expected) in [
            ("src/a.rs", true),
            ("Cargo.lock", true),
            ("README.md", true),
            ("Makefile", true),
            ("lib/guard.lock", true),
            ("guard.lock", false),
            ("self.len", false),
            ("Node.js", false),
            ("ada@lib.example", false),
            ("/usr/bin", false),
        ] {
            let name = EntityKind::File.entity_name(&file_term(path));
            assert_eq!(name.is_some(), expected, "{path}");
        }
    }

    #[test]
    fn prompt_lines_returns_the_lines_after_a_shell_prompt_with_their_offsets() {
        let text = "first\n$ cargo test\n  $ ls é\ncosts $ 5";
        let lines: Vec<(usize, &str)> = prompt_lines(text).collect();
        assert_eq!(lines, [(6, "cargo test"), (19, "ls é")]);
    }
}

//! Recognizes shell commands that change something other than files: databases, repositories,
//! clusters, containers, packages, services, issue trackers. It must not read an output.

use super::{
    looks,
    programs::{HOSTS, is_changing_subcommand},
};
use crate::event::lists::{has_word, word_list};

/// Database clients, which write only with some statements.
const CLIENTS: [&str; 8] =
    ["psql", "mysql", "mariadb", "sqlite3", "duckdb", "sqlcmd", "clickhouse-client", "cqlsh"];
/// Keywords of SQL statements that write.
const WRITES: [&str; 15] = [
    "insert", "update", "delete", "create", "drop", "alter", "truncate", "replace", "grant",
    "revoke", "merge", "reindex", "vacuum", "refresh", "call",
];
/// Words after a changing subcommand with which it only reads.
const READ_WORDS: [&str; 7] = ["list", "show", "status", "history", "ps", "logs", "pull"];

/// Returns true if a simple command changes something other than files. `words` begin with the
/// program, `name` is its name, `inputs` is the text that the line passes to programs as input.
pub(super) fn changes_state(words: &[String], name: &str, inputs: &str) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    if name == "uv" && rest.first().is_some_and(|word| word == "pip") {
        return changes_state(rest, "pip", inputs);
    }
    if matches!(name, "python" | "python3")
        && rest.first().is_some_and(|word| is_manage_script(word))
    {
        return changes_state(rest, "manage.py", inputs);
    }
    if CLIENTS.contains(&name) {
        let reads_file = rest.iter().any(|word| matches!(&**word, "-f" | "--file"));
        return reads_file
            || has_writing_statement(inputs)
            || rest.iter().any(|word| has_writing_statement(word));
    }
    if matches!(name, "curl" | "wget" | "http" | "xh") {
        return sends_data(rest);
    }
    if has_word(HOSTS, name) {
        return rest.get(1).is_some_and(|word| is_changing_subcommand(name, word))
            || sends_data(rest);
    }
    if name == "git" && only_reverts(rest) {
        return false;
    }
    // An option's value may precede the subcommand: `kubectl -n prod apply`.
    let plain = rest.iter().filter(|word| !word.starts_with(['-', '+']));
    let plain: Vec<&str> = plain.map(|word| word.rsplit(':').next().unwrap_or(word)).collect();
    let first = rest.first().map_or(1, |word| if word.starts_with('-') { 2 } else { 1 });
    let at = plain.iter().take(first).position(|word| is_changing_subcommand(name, word));
    at.is_some_and(|at| plain.get(at + 1).is_none_or(|next| !READ_WORDS.contains(next)))
}

/// Returns true if a git command only discards changes of files.
fn only_reverts(rest: &[String]) -> bool {
    let (sub, rest) = looks::split_git_arguments(rest);
    let has = |option: &str| rest.iter().any(|word| word == option);
    let is_file = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        word == "." || name.contains('.') && !name.starts_with('.') && !word.starts_with('-')
    };
    match sub {
        "checkout" => has("--") || rest.iter().any(is_file) && !has("-b") && !has("-B"),
        // A reset to an older commit changes the state of the branch.
        "reset" => {
            let mut plain = rest.iter().filter(|word| !word.starts_with('-'));
            !has("--hard") || plain.all(|word| word == "HEAD")
        }
        _ => false,
    }
}

/// Returns true if a simple command installs packages.
pub(super) fn installs_packages(words: &[String], name: &str) -> bool {
    const MANAGERS: [&str; 22] = [
        "npm", "pnpm", "yarn", "bun", "gem", "bundle", "composer", "go", "cargo", "poetry", "uv",
        "pip", "pip3", "apt", "apt-get", "brew", "dnf", "yum", "apk", "conda", "mamba", "rustup",
    ];
    const WORDS: [&str; 9] =
        ["install", "i", "add", "ci", "get", "sync", "download", "update", "upgrade"];
    let mut plain = words.iter().skip(1).filter(|word| !word.starts_with('-'));
    let subcommand = plain.find(|word| *word != "pip").map_or("", String::as_str);
    MANAGERS.contains(&name) && WORDS.contains(&subcommand)
}

fn is_manage_script(word: &str) -> bool {
    word.rsplit('/').next() == Some("manage.py")
}

/// Returns true if a text has a writing statement: at its beginning, or after `;`, `(` or a quote.
fn has_writing_statement(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.split([';', '"', '\'', '\n', '(']).any(|part| {
        let mut words = part.split_whitespace();
        let first = words.next().unwrap_or_default();
        WRITES.contains(&first) && words.next().is_some()
            || first == "with" && part.contains("update ")
    })
}

/// Returns true if an HTTP request sends data.
fn sends_data(words: &[String]) -> bool {
    const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];
    const DATA: [&str; 11] = word_list(
        "-d --data --data-raw --data-binary --data-urlencode --json -F --form -T --upload-file \
         --post-data",
    );
    let is_get = words.iter().any(|word| matches!(&**word, "-G" | "--get"));
    words.iter().any(|word| {
        let method = word.trim_start_matches("-X").trim_start_matches("--request=");
        let option = word.split('=').next().unwrap_or(word);
        METHODS.contains(&method) || DATA.contains(&option) && !is_get
    })
}

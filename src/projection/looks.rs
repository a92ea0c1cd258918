//! Simple commands that only look: no exit code of theirs is a failure, for it says that nothing
//! was found, that something differs, or that a file is not there. It must not read an output.

/// Programs that only look, whatever their arguments.
const LOOKS: [&str; 62] = [
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ack",
    "diff",
    "cmp",
    "comm",
    "test",
    "[",
    "pgrep",
    "which",
    "whereis",
    "type",
    "hash",
    "ls",
    "ll",
    "find",
    "fd",
    "fdfind",
    "locate",
    "cat",
    "bat",
    "head",
    "tail",
    "less",
    "more",
    "wc",
    "stat",
    "file",
    "tree",
    "du",
    "df",
    "readlink",
    "realpath",
    "dirname",
    "basename",
    "ps",
    "lsof",
    "printenv",
    "pwd",
    "date",
    "uname",
    "id",
    "whoami",
    "jq",
    "yq",
    "awk",
    "sort",
    "uniq",
    "cut",
    "tr",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "column",
    "man",
    "journalctl",
    "nproc",
    "free",
];
/// Programs, and the words with which they only look.
const ASKED: [(&[&str], &[&str]); 12] = [
    (&["docker", "podman"], &["ps", "logs", "inspect", "images", "port", "top", "version", "info"]),
    (
        &["kubectl", "oc"],
        &["get", "describe", "logs", "top", "explain", "version", "api-resources"],
    ),
    (&["npm", "pnpm", "yarn", "bun"], &["ls", "list", "view", "info", "outdated", "why", "root"]),
    (&["pip", "pip3"], &["show", "list", "freeze", "check", "index"]),
    (&["cargo"], &["tree", "metadata", "search", "locate-project", "pkgid"]),
    (&["go"], &["list", "env", "doc", "version"]),
    (&["rustup"], &["show", "which"]),
    (&["systemctl", "service"], &["status", "is-active", "is-enabled", "list-units"]),
    (
        &["brew", "apt", "apt-cache", "dpkg"],
        &["list", "info", "search", "show", "-l", "-s", "policy"],
    ),
    (&["terraform", "tofu"], &["show", "output", "state"]),
    (&["bd", "beads"], &["show", "list", "ready", "search", "stats", "blocked"]),
    (&["helm"], &["list", "status", "get", "history"]),
];
/// Subcommands of git that only look.
const GIT: [&str; 32] = [
    "diff",
    "grep",
    "log",
    "show",
    "status",
    "blame",
    "branch",
    "remote",
    "describe",
    "reflog",
    "shortlog",
    "rev-parse",
    "rev-list",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "cat-file",
    "merge-base",
    "show-ref",
    "for-each-ref",
    "name-rev",
    "symbolic-ref",
    "check-ignore",
    "config",
    "whatchanged",
    "range-diff",
    "diff-tree",
    "diff-index",
    "cherry",
    "var",
    "version",
    "help",
];
/// Second words of `gh` and `glab` when they only look.
const HOSTS: [&str; 7] = ["view", "list", "status", "diff", "checks", "watch", "search"];

/// True if a simple command only looks: its words from the program on, the name of that, and all
/// its words.
pub(super) fn only_looks(words: &[String], name: &str, all: &[String]) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    let first = rest.iter().find(|word| !word.starts_with(['-', '+'])).map_or("", String::as_str);
    let has = |option: &str| rest.iter().any(|word| word == option);
    if matches!(all, [command, flag, ..] if command == "command" && flag.starts_with('-')) {
        return true;
    }
    match name {
        "sed" | "perl" => {
            name == "sed" && !rest.iter().any(|word| word.starts_with("-i") || word == "--in-place")
        }
        "git" => GIT.contains(&git_words(rest).0),
        "gh" | "glab" => rest.get(1).is_some_and(|word| HOSTS.contains(&&**word)),
        _ if has("--version") || has("--help") || matches!(rest, [one] if one == "-V") => true,
        _ => {
            let asked = ASKED.iter().find(|(programs, _)| programs.contains(&name));
            LOOKS.contains(&name) || asked.is_some_and(|(_, words)| words.contains(&first))
        }
    }
}

/// Subcommand of git, and the words behind it.
pub(super) fn git_words(words: &[String]) -> (&str, &[String]) {
    let mut words = words;
    loop {
        match words {
            [option, _, rest @ ..] if matches!(&**option, "-C" | "-c") => words = rest,
            [option, rest @ ..] if option.starts_with('-') => words = rest,
            [sub, rest @ ..] => return (sub, rest),
            [] => return ("", words),
        }
    }
}

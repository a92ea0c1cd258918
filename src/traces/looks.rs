//! Recognizes simple commands that only read: their exit code means "not found" or "differs", never
//! a failure. It must not read an output.

use super::programs::is_read_only_subcommand;
use crate::event::lists::word_list;

/// Programs that only read, regardless of their arguments.
const LOOKS: [&str; 62] = word_list(
    "grep egrep fgrep rg ag ack diff cmp comm test [ pgrep which whereis type hash ls ll find fd \
     fdfind locate cat bat head tail less more wc stat file tree du df readlink realpath dirname \
     basename ps lsof printenv pwd date uname id whoami jq yq awk sort uniq cut tr od xxd hexdump \
     strings column man journalctl nproc free",
);

/// Returns true if a simple command only reads. `words` begin with the program, `name` is its name,
/// `all` are the words with wrapper programs.
pub(super) fn is_read_only(words: &[String], name: &str, all: &[String]) -> bool {
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
        "git" => is_read_only_subcommand(name, split_git_arguments(rest).0),
        "gh" | "glab" => rest.get(1).is_some_and(|word| is_read_only_subcommand(name, word)),
        _ if has("--version") || has("--help") || matches!(rest, [one] if one == "-V") => true,
        _ => LOOKS.contains(&name) || is_read_only_subcommand(name, first),
    }
}

/// Returns the subcommand of git and the arguments after it.
pub(super) fn split_git_arguments(words: &[String]) -> (&str, &[String]) {
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

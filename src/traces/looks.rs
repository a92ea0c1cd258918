//! Recognizes simple commands that only look: their exit code means "not found" or "differs", never
//! a failure. It must not read an output.

use super::programs::looks_with;
use crate::event::lists::word_list;

/// Programs that only look, regardless of their arguments.
const LOOKS: [&str; 62] = word_list(
    "grep egrep fgrep rg ag ack diff cmp comm test [ pgrep which whereis type hash ls ll find fd \
     fdfind locate cat bat head tail less more wc stat file tree du df readlink realpath dirname \
     basename ps lsof printenv pwd date uname id whoami jq yq awk sort uniq cut tr od xxd hexdump \
     strings column man journalctl nproc free",
);

/// Returns true if a simple command only looks. `words` begin with the program, `name` is its name,
/// `all` includes its wrappers.
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
        "git" => looks_with(name, git_words(rest).0),
        "gh" | "glab" => rest.get(1).is_some_and(|word| looks_with(name, word)),
        _ if has("--version") || has("--help") || matches!(rest, [one] if one == "-V") => true,
        _ => LOOKS.contains(&name) || looks_with(name, first),
    }
}

/// Returns the subcommand of git and the arguments after it.
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

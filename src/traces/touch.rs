//! Effects of a simple command on files: it writes, moves or removes them, or git reverts them. It
//! must not read an output.

use super::shell::{SimpleCommand, program, without_wrappers};

/// Effect on a file; with an empty path, on the whole repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The file is changed.
    Changed,
    /// The file is written as a whole.
    Written,
    /// The file is removed.
    Deleted,
    /// The file is reverted to the last commit.
    Reverted,
    /// The file is reset to an older commit.
    Reset,
    /// The changes are stashed; `Returned` restores them.
    Stashed,
    Returned,
    /// The changes are committed.
    Committed,
}

/// Returns the files that a simple command changes; true marks those written as a whole.
fn written_files(part: &SimpleCommand) -> Vec<(bool, String)> {
    let words = without_wrappers(&part.words);
    let name = program(words);
    let rest = words.get(1..).unwrap_or_default();
    let (name, rest) = match (name, rest) {
        ("git", [sub, rest @ ..]) if matches!(&**sub, "mv" | "rm" | "apply") => (&**sub, rest),
        _ => (name, rest),
    };
    let is_plain = |word: &&String| !word.is_empty() && !word.starts_with('-');
    let plain: Vec<&String> = rest.iter().filter(is_plain).collect();
    let all = |words: &[&String]| words.iter().map(|word| (false, (*word).clone())).collect();
    let in_place = rest.iter().any(|word| {
        word.starts_with("-i") || word.starts_with("-pi") || word.starts_with("--in-place")
    });
    let mut files: Vec<(bool, String)> = match name {
        "sed" | "perl" if in_place && rest.iter().filter(|word| *word == "-e").count() < 2 => {
            // The first argument is the script, before or after its flag.
            all(plain.get(1..).unwrap_or_default())
        }
        "tee" | "touch" | "rm" | "unlink" => all(&plain),
        "mv" => moved_names(&plain).into_iter().map(|file| (false, file)).collect(),
        "cp" => copy_target(&plain).into_iter().map(|file| (true, file)).collect(),
        "patch" | "apply" => files_of_diff(&part.input),
        "python" | "python3" | "node" => {
            let script = rest.iter().skip_while(|word| *word != "-c" && *word != "-e").nth(1);
            files_of_script(script.map_or(&part.input, |script| script))
        }
        _ => Vec::new(),
    };
    if matches!(name, "cat" | "echo" | "printf" | "tee") || !part.input.is_empty() {
        files.extend(part.writes.iter().map(|file| (true, file.clone())));
    }
    files.retain(|(_, file)| is_file(file));
    files
}

/// Returns the files that a diff changes, as `patch` and `git apply` read it.
fn files_of_diff(diff: &str) -> Vec<(bool, String)> {
    let paths = diff.lines().filter_map(|line| line.strip_prefix("+++ "));
    let path = |path: &str| {
        let path = path.split('\t').next().unwrap_or(path).trim();
        path.strip_prefix("b/").unwrap_or(path).to_owned()
    };
    paths.map(|line| (false, path(line))).collect()
}

/// Returns the files that an inline script writes: `open('a.py', 'w')`, and the only `Path('a.py')`
/// of a script that calls `write_text`.
fn files_of_script(script: &str) -> Vec<(bool, String)> {
    let quoted = |text: &str| -> Option<String> {
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        text.get(1..)?.split(quote).next().map(str::to_owned)
    };
    let mut files: Vec<(bool, String)> = Vec::new();
    for name in ["open(", "writeFileSync("] {
        for (at, _) in script.match_indices(name) {
            let call = script.get(at + name.len()..).unwrap_or_default();
            let Some(path) = quoted(call) else { continue };
            let mode = call.get(path.len() + 2..).unwrap_or_default();
            let mode = mode.split(')').next().unwrap_or_default();
            if name != "open(" || mode.contains("'w") || mode.contains("\"w") {
                files.push((false, path));
            }
        }
    }
    let mut paths = script.match_indices("Path(");
    if let (Some((at, mark)), None) = (paths.next(), paths.next())
        && script.contains("write_text(")
    {
        files.extend(script.get(at + mark.len()..).and_then(quoted).map(|path| (false, path)));
    }
    files
}

/// Returns the file that a copy creates.
fn copy_target(words: &[&String]) -> Option<String> {
    match words {
        [from, to] if to.ends_with('/') => {
            Some(format!("{to}{}", from.rsplit('/').next().unwrap_or_default()))
        }
        [_, to] => Some((*to).clone()),
        _ => None,
    }
}

/// Returns the effects of a simple command on files.
pub(crate) fn touched(part: &SimpleCommand) -> Vec<(Touch, String)> {
    let touch = |whole: bool| if whole { Touch::Written } else { Touch::Changed };
    let changed = written_files(part).into_iter().map(|(whole, file)| (touch(whole), file));
    let mut made: Vec<(Touch, String)> = changed.collect();
    let words = without_wrappers(&part.words);
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
        "git" => made.extend(git_effects(rest, paths)),
        _ => {}
    }
    made
}

/// Returns the effects of a git command on files.
fn git_effects(
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

/// Returns both names of a moved file, or the old names of files moved to a directory.
fn moved_names(words: &[&String]) -> Vec<String> {
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

/// Returns true if a word names one file of the work: not a pattern, variable or device.
pub(crate) fn is_file(word: &str) -> bool {
    let special = |c: char| matches!(c, '*' | '?' | '$' | '`' | '{' | '[' | '~' | '(' | '&');
    let aside = ["/dev/", "/tmp/", "/proc/"].iter().any(|place| word.starts_with(place));
    !word.is_empty() && !word.contains(special) && !aside && !word.ends_with('/')
}

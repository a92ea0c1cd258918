//! Effects of a simple command on files: files that it writes, moves or removes, or that git
//! reverts. It must not read an output.

use super::shell::{SimpleCommand, program_name, without_wrappers};

/// Effect on a file; with an empty path, on the whole repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileTouch {
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

/// Returns the files that a simple command changes, with true for those written as a whole.
fn written_files(part: &SimpleCommand) -> Vec<(bool, String)> {
    let words = without_wrappers(&part.words);
    let name = program_name(words);
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
            // The first plain argument is the script.
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
    files.retain(|(_, file)| is_single_file(file));
    files
}

/// Returns the files that a diff changes, in the format of `patch` and `git apply`.
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

/// Returns the path of the file that `cp` writes, if it copies one file.
fn copy_target(words: &[&String]) -> Option<String> {
    match words {
        [from, to] if to.ends_with('/') => {
            Some(format!("{to}{}", from.rsplit('/').next().unwrap_or_default()))
        }
        [_, to] => Some((*to).clone()),
        _ => None,
    }
}

pub(crate) fn file_effects(part: &SimpleCommand) -> Vec<(FileTouch, String)> {
    let touch = |whole: bool| if whole { FileTouch::Written } else { FileTouch::Changed };
    let changed = written_files(part).into_iter().map(|(whole, file)| (touch(whole), file));
    let mut made: Vec<(FileTouch, String)> = changed.collect();
    let words = without_wrappers(&part.words);
    let rest = words.get(1..).unwrap_or_default();
    let is_path =
        |word: &&String| is_single_file(word.trim_end_matches('/')) && !word.starts_with('-');
    let paths = |touch: FileTouch, words: &[String]| -> Vec<(FileTouch, String)> {
        let path = |word: &String| (touch, word.trim_end_matches('/').to_owned());
        words.iter().filter(is_path).map(path).collect()
    };
    match program_name(words) {
        "rm" | "unlink" => made.extend(paths(FileTouch::Deleted, rest)),
        "mv" => made.extend(paths(
            FileTouch::Deleted,
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
    paths: impl Fn(FileTouch, &[String]) -> Vec<(FileTouch, String)>,
) -> Vec<(FileTouch, String)> {
    let words = match words {
        [option, _, rest @ ..] if matches!(&**option, "-C" | "-c") => rest,
        words => words,
    };
    let Some((sub, rest)) = words.split_first() else { return Vec::new() };
    let has = |options: &[&str]| rest.iter().any(|word| options.contains(&&**word));
    let named = rest.iter().position(|word| word == "--").and_then(|at| rest.get(at + 1..));
    let all = |touch: FileTouch| vec![(touch, String::new())];
    let those = |touch: FileTouch, words: &[String]| match words.iter().any(|word| word == ".") {
        true => all(touch),
        false => paths(touch, words),
    };
    match &**sub {
        "commit" if !has(&["--dry-run"]) => all(FileTouch::Committed),
        "rm" if !has(&["--cached"]) => paths(FileTouch::Deleted, rest),
        "mv" => {
            paths(FileTouch::Deleted, rest.get(..rest.len().saturating_sub(1)).unwrap_or_default())
        }
        "checkout" if !has(&["-b", "-B", "--orphan", "-p", "--patch"]) => {
            those(FileTouch::Reverted, named.unwrap_or(rest))
        }
        "restore" if !has(&["--staged", "-S", "-p"]) || has(&["--worktree", "-W"]) => {
            those(FileTouch::Reverted, named.unwrap_or(rest))
        }
        "stash" => match rest.first().map_or("push", String::as_str) {
            "pop" | "apply" => all(FileTouch::Returned),
            "push" | "save" | "-u" | "-m" | "--include-untracked" | "--" => named
                .map_or_else(|| all(FileTouch::Stashed), |words| those(FileTouch::Stashed, words)),
            _ => Vec::new(),
        },
        "reset" if has(&["--hard"]) => {
            let older = rest.iter().any(|word| !word.starts_with('-') && word != "HEAD");
            all(if older { FileTouch::Reset } else { FileTouch::Reverted })
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

/// Returns true if a word is the path of one file, and no pattern, variable, device or temporary.
pub(crate) fn is_single_file(word: &str) -> bool {
    let special = |c: char| matches!(c, '*' | '?' | '$' | '`' | '{' | '[' | '~' | '(' | '&');
    let is_ignored =
        ["/dev/", "/tmp/", "/proc/"].iter().any(|directory| word.starts_with(directory));
    !word.is_empty() && !word.contains(special) && !is_ignored && !word.ends_with('/')
}

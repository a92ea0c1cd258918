//! Parser of git's messages in a command's output: the commit that git made, the branch that is
//! checked out, and errors. It must not run git, nor read a command.

use crate::event::lists::phrase_list;

/// Prefixes of git's messages when it rejects a command.
const REFUSES: [&str; 8] = phrase_list(
    "fatal:|error:|The following paths are ignored|CONFLICT|Automatic merge failed| ! [rejected]|\
     ! [rejected]|Please commit your changes",
);
/// Messages of git while an operation is in progress.
const UNDER_WAY: [&str; 7] = phrase_list(
    "rebase in progress|You are currently|You have unmerged paths|\
     All conflicts fixed but you are still|needs merge|CONFLICT|could not apply",
);
/// Operations that may stay in progress.
const OPERATIONS: [&str; 7] = ["rebase", "merge", "cherry-pick", "revert", "am", "pull", "stash"];

/// Returns true if an error begins with one of git's error prefixes.
pub(crate) fn is_git_error(error: &str) -> bool {
    REFUSES.iter().any(|mark| error.starts_with(mark))
}

/// Returns true if the programs are only git, and it reports nothing to commit or push.
pub(crate) fn had_nothing_to_do<'a>(
    mut programs: impl Iterator<Item = &'a str>,
    output: &str,
) -> bool {
    let says_clean = ["nothing to commit", "no changes added to commit", "Everything up-to-date"];
    programs.all(|program| program == "git") && says_clean.iter().any(|mark| output.contains(mark))
}

/// Returns true if the success of the git subcommand `sub` ends a failure of `failed`.
pub(crate) fn ends_failure(sub: &str, failed: &str) -> bool {
    match sub {
        "commit" => matches!(failed, "add" | "commit" | "merge" | "cherry-pick" | "revert" | "rm"),
        "push" => matches!(failed, "push" | "pull" | "fetch"),
        "pull" | "merge" | "rebase" => matches!(failed, "pull" | "merge" | "rebase" | "fetch"),
        _ => false,
    }
}

/// Returns true if a later output of git shows that a failure is over: no operation in progress, a
/// commit with the subject of the failed one, or a pushed branch.
pub(crate) fn is_failure_over(failed: &str, subject: Option<&str>, output: &str) -> bool {
    let has = |marks: &[&str]| marks.iter().any(|mark| output.contains(mark));
    let is_status = output.contains("On branch ");
    match failed {
        "commit" | "add" => {
            subject.is_some_and(|subject| output.contains(subject) && !has(&REFUSES))
        }
        "push" => has(&["Your branch is up to date with", " -> "]) && !has(&REFUSES),
        _ if OPERATIONS.contains(&failed) => {
            let done = ["Successfully rebased", "Already up to date", "Fast-forward"];
            !has(&UNDER_WAY) && (is_status || has(&done))
        }
        _ => false,
    }
}

/// A commit that an output of git reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedCommit<'a> {
    pub(crate) branch: &'a str,
    pub(crate) hash: &'a str,
    pub(crate) subject: &'a str,
}

/// Parses the last commit that an output reports: `[branch 1a2b3c4] subject`.
pub(crate) fn parse_commit(output: &str) -> Option<ReportedCommit<'_>> {
    output.lines().rev().find_map(|line| {
        let (head, subject) = line.strip_prefix('[')?.split_once("] ")?;
        let (branch, hash) = head.rsplit_once(' ')?;
        let is_hash = (7..=64).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let branch = branch.strip_suffix(" (root-commit)").unwrap_or(branch);
        (is_hash && !branch.is_empty()).then_some(ReportedCommit { branch, hash, subject })
    })
}

/// Parses the last branch that an output reports as checked out.
pub(crate) fn parse_branch(output: &str) -> Option<&str> {
    const MARKS: [&str; 3] = ["Switched to a new branch '", "Switched to branch '", "Already on '"];
    output.lines().rev().find_map(|line| {
        let quoted = MARKS.iter().find_map(|mark| line.strip_prefix(mark)?.strip_suffix('\''));
        quoted.or_else(|| line.strip_prefix("On branch ")).or_else(|| {
            Some(parse_commit(line)?.branch).filter(|branch| *branch != "detached HEAD")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_branches_are_parsed_from_the_output_of_git() {
        for (output, made, on) in [
            ("[main 1a2b3c4] Round the tax\n 1 file changed", Some("1a2b3c4"), Some("main")),
            ("lint ok\n[feat/tax (root-commit) 1a2b3c4d] x", Some("1a2b3c4d"), Some("feat/tax")),
            ("[detached HEAD 1a2b3c4] x", Some("1a2b3c4"), None),
            ("[main 1a2b3c4] a\n[main 5d6e7f8] b", Some("5d6e7f8"), Some("main")),
            ("Switched to a new branch 'tax'", None, Some("tax")),
            ("On branch main\nnothing to commit", None, Some("main")),
            ("[INFO] [main thread] started", None, None),
            ("[main nothex!] x", None, None),
        ] {
            assert_eq!(parse_commit(output).map(|commit| commit.hash), made, "{output}");
            assert_eq!(parse_branch(output), on, "{output}");
        }
    }
}

//! What git reports of itself in the output of a command: the commit that it made, and the branch
//! that is checked out. It must not run git, nor read a command.

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit<'a> {
    pub(super) branch: &'a str,
    pub(super) hash: &'a str,
    pub(super) subject: &'a str,
}

/// The last commit that an output reports: `[branch 1a2b3c4] subject`.
pub(super) fn commit(output: &str) -> Option<Commit<'_>> {
    output.lines().rev().find_map(|line| {
        let (head, subject) = line.strip_prefix('[')?.split_once("] ")?;
        let (branch, hash) = head.rsplit_once(' ')?;
        let is_hash = (7..=64).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let branch = branch.strip_suffix(" (root-commit)").unwrap_or(branch);
        (is_hash && !branch.is_empty()).then_some(Commit { branch, hash, subject })
    })
}

/// The branch that an output reports last.
pub(super) fn branch(output: &str) -> Option<&str> {
    const MARKS: [&str; 3] = ["Switched to a new branch '", "Switched to branch '", "Already on '"];
    output.lines().rev().find_map(|line| {
        let quoted = MARKS.iter().find_map(|mark| line.strip_prefix(mark)?.strip_suffix('\''));
        quoted
            .or_else(|| line.strip_prefix("On branch "))
            .or_else(|| Some(commit(line)?.branch).filter(|branch| *branch != "detached HEAD"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_branches_are_read_as_git_prints_them() {
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
            assert_eq!(commit(output).map(|commit| commit.hash), made, "{output}");
            assert_eq!(branch(output), on, "{output}");
        }
    }
}

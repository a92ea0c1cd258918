//! Calls whose tool returned nothing: they were refused, by a person or by a rule and in
//! which words, or interrupted. It must not judge a call that ran and failed.

/// A person, and a rule of the program or of its administrator.
const USER: &str = "user";
const RULE: &str = "rule";

/// How the text of a call begins that was refused, and who refused it.
const REFUSALS: [(&str, &str); 17] = [
    ("The user doesn't want to proceed with this tool use", USER),
    ("The user doesn't want to take this action", USER),
    ("[Request interrupted by user", USER),
    ("The user rejected permission to use this specific tool call", USER),
    ("The user denied this operation", USER),
    ("Permission for this tool use was denied. The tool use was rejected", USER),
    ("Permission for this tool use was denied", RULE),
    ("Permission for this action has been denied", RULE),
    ("Claude requested permissions to ", RULE),
    ("User rejected", USER),
    ("user rejected MCP tool call", USER),
    ("rejected by user", USER),
    ("exec command rejected by user", USER),
    ("patch rejected by user", USER),
    ("[Operation Cancelled]", USER),
    ("Tool call was rejected by the user", USER),
    ("This action was rejected due to unacceptable risk", RULE),
];
/// A refusal by name: of a tool, and of what it was to do.
const OF_A_TOOL: (&str, &str) = ("Permission to use ", " denied");
/// How the text of a call begins that ended without its result.
const INTERRUPTIONS: [&str; 3] = ["The call was interrupted", "aborted", "command aborted by user"];

/// How Codex begins the answer of a command that it did not start, and quotes why it refused it:
/// the `Debug` form of an error within an error.
const NOT_STARTED: &str = "exec_command failed";
const QUOTED: (&str, &str) = ("Rejected(\\\"", "\\\")");
/// Codex quotes in that form also that the system did not start the command.
const OF_THE_SYSTEM: &str = "Failed to create";
/// What stands between a command in backquotes and why Codex's policy refused it.
const REJECTED: &str = "` rejected: ";
/// How a refusal begins of what a person would have had to allow.
const UNASKED: [&str; 2] = ["approval required by policy", "approval policy is "];

/// What stands before and behind the words of a person.
const BEFORE: [&str; 3] = [" user said:", "user feedback:", "provided the following feedback:"];
const BEHIND: &str = "\n\nNote: The user's next message may contain";
/// How words begin that the program wrote for a person.
const MADE: [&str; 2] = ["The user wants to clarify these questions", "[Request interrupted"];
/// What stands before the words of a rule.
const REASON: &str = "eason:";

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Who refused it: `user` or `rule`.
    pub by: &'static str,
    /// The reason, where the text does not begin with it.
    pub reason: Option<&'a str>,
}

/// Who refused a call, by the text of its result; `None` where the tool ran.
#[must_use]
pub fn refused(text: &str) -> Option<Refused<'_>> {
    let text = untimed(text);
    if let Some(reason) = reason_of_codex(text) {
        let by = by_beginning(reason).unwrap_or(RULE);
        return Some(Refused { by, reason: Some(reason) });
    }
    let (begins, has) = OF_A_TOOL;
    let named =
        || text.lines().next().is_some_and(|line| line.starts_with(begins) && line.contains(has));
    let by = by_beginning(text).or_else(|| named().then_some(RULE))?;
    Some(Refused { by, reason: None })
}

fn by_beginning(text: &str) -> Option<&'static str> {
    REFUSALS.iter().find(|(begins, _)| text.starts_with(begins)).map(|(_, by)| *by)
}

/// Why Codex did not let a command run.
fn reason_of_codex(text: &str) -> Option<&str> {
    let (open, close) = QUOTED;
    let quoted = text.starts_with(NOT_STARTED).then(|| text.split_once(open)).flatten();
    let reason = match quoted {
        Some((_, quoted)) => quoted.rsplit_once(close).map_or(quoted, |(reason, _)| reason),
        None => text,
    };
    let behind = |reason: &'_ str| reason.starts_with('`').then(|| reason.find(REJECTED)).flatten();
    let words = behind(reason).and_then(|at| reason.get(at + REJECTED.len()..));
    let is_unasked = UNASKED.iter().any(|begins| reason.starts_with(begins));
    let is_quoted = quoted.is_some() && !reason.starts_with(OF_THE_SYSTEM);
    words.or((is_unasked || is_quoted).then_some(reason)).map(str::trim)
}

/// A text without the line in which Codex writes first how long it took.
fn untimed(text: &str) -> &str {
    let text = text.trim_start();
    let timed = text.starts_with("Wall time").then(|| text.split_once('\n')).flatten();
    timed.map_or(text, |(_, rest)| rest)
}

/// What a person typed when they refused a call.
#[must_use]
pub fn said_with_refusal(text: &str) -> Option<&str> {
    let (_, words) = BEFORE.iter().find_map(|mark| text.split_once(mark))?;
    let words = words.split(BEHIND).next().unwrap_or(words).trim();
    let tags = ["<feedback>", "</feedback>"];
    let words = tags.iter().fold(words, |words, tag| {
        words.trim_matches('\n').trim_start_matches(tag).trim_end_matches(tag)
    });
    let words = words.trim();
    let is_made = MADE.iter().any(|begins| words.starts_with(begins));
    (!words.is_empty() && !is_made).then_some(words)
}

/// Why a tool returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unrun {
    /// The call was not let happen.
    Refused,
    /// It was stopped, or its turn ended: what it did is not known.
    Interrupted,
}

impl Unrun {
    /// What the text of a result reports of its call; `None` where the tool returned.
    pub(super) fn of(text: &str) -> Option<Self> {
        let interrupted = || {
            let text = untimed(text);
            INTERRUPTIONS.iter().any(|begins| text.starts_with(begins))
        };
        let refused = refused(text).map(|_| Self::Refused);
        refused.or_else(|| interrupted().then_some(Self::Interrupted))
    }
}

/// What a person or a rule said to a call that was refused; empty where nothing.
pub(super) fn words_of_refusal(text: &str) -> &str {
    let reason = || refused(text).and_then(|refused| refused.reason);
    let named = || text.split_once(REASON).map(|(_, words)| words.trim());
    said_with_refusal(text).or_else(reason).or_else(named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_who_refused_and_why() {
        let debug = |reason: &str| {
            format!(
                "exec_command failed: CreateProcess {{ message: \"Rejected(\\\"{reason}\\\")\" }}"
            )
        };
        let push = "`/bin/bash -lc 'git push origin main'` rejected: The release team pushes.";
        for (text, by, words) in [
            ("exec command rejected by user", USER, ""),
            ("Permission to use Bash with command rm has been denied.", RULE, ""),
            (
                "This action was rejected due to unacceptable risk.\nReason: It deletes",
                RULE,
                "It deletes",
            ),
            (&debug(push), RULE, "The release team pushes."),
            (push, RULE, "The release team pushes."),
            (&format!("Wall time: 0.1 seconds\n{push}"), RULE, "The release team pushes."),
            (
                &debug(push).replace("failed:", "failed for `git`:"),
                RULE,
                "The release team pushes.",
            ),
            (&debug("rejected by user"), USER, "rejected by user"),
            (
                &debug("approval required by policy, but AskForApproval is set to Never"),
                RULE,
                "approval required by policy, but AskForApproval is set to Never",
            ),
        ] {
            assert_eq!(refused(text).map(|one| one.by), Some(by), "{text}");
            assert_eq!(words_of_refusal(text), words, "{text}");
        }
    }

    #[test]
    fn a_command_that_the_system_did_not_start_and_a_text_about_permissions_are_not_refused() {
        for text in [
            "exec_command failed: CreateProcess { message: \"Rejected(\\\"Failed to create unified \
             exec process: no pty\\\")\" }",
            "CreateProcess failed: os error 2",
            "Permission to use this software is granted, free of charge",
            "`ls` prints the files",
            "Rejected(",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn the_words_of_a_person_stand_between_those_of_the_program() {
        let refused = "The user doesn't want to proceed with this tool use.";
        for (said, expected) in [
            (
                format!("{refused} To tell you how to proceed, the user said:\nUse cp"),
                Some("Use cp"),
            ),
            (format!("Permission was denied. The user said:\nno{BEHIND} a correction"), Some("no")),
            (format!("{refused} STOP what you are doing"), None),
            (format!("{refused} the user said:\n{}.", MADE[0]), None),
            (format!("{refused} the user said:\n  "), None),
        ] {
            assert_eq!(said_with_refusal(&said), expected, "{said}");
        }
    }
}

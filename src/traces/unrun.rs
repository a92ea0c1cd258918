//! Calls whose tool returned nothing: they were refused, by a person or by a rule and in
//! which words, or interrupted. It must not judge a call that ran and failed.

use crate::event::lists::phrase_list;

const USER: &str = RefusedCall::USER;
const RULE: &str = RefusedCall::RULE;

/// First words of the results of calls that a person refused; they are compared first.
const BY_USER: [&str; 13] = phrase_list(
    "The user doesn't want to proceed with this tool use|\
     The user doesn't want to take this action|[Request interrupted by user|\
     The user rejected permission to use this specific tool call|The user denied this operation|\
     Permission for this tool use was denied. The tool use was rejected|User rejected|\
     user rejected MCP tool call|rejected by user|exec command rejected by user|\
     patch rejected by user|[Operation Cancelled]|Tool call was rejected by the user",
);
/// First words of the results of calls that a rule refused.
const BY_RULE: [&str; 5] = phrase_list(
    "Permission for this tool use was denied|Permission for this action has been denied|\
     Permission for this action was denied|Claude requested permissions to |\
     This action was rejected due to unacceptable risk",
);
/// Refusals by a rule that no beginning alone identifies: the beginning, and a text that they have;
/// empty for any.
const RULES: [(&str, &str); 3] = [
    ("Permission to use ", "denied"),
    ("approval required by policy", ""),
    ("approval policy is ", "; reject command"),
];
/// First words of the results of calls that were interrupted.
const INTERRUPTIONS: [&str; 3] = ["The call was interrupted", "aborted", "command aborted by user"];

/// First words of Codex's answer for a command that it did not start. It quotes why it refused one:
/// the `Debug` form of an error within that of another. Its other quotes are of the system.
const NOT_STARTED: &str = "exec_command failed";
const QUOTED: (&str, &str) = ("Rejected(\\\"", "\\\")");
/// Text between a command in backquotes and the reason of Codex's policy.
const REJECTED: &str = "` rejected: ";

/// Text before and behind the words of a person.
const BEFORE: [&str; 3] = [" user said:", "user feedback:", "provided the following feedback:"];
const BEHIND: &str = "\n\nNote: The user's next message may contain";
/// First words of texts that the program wrote for a person.
const MADE: [&str; 2] = ["The user wants to clarify these questions", "[Request interrupted"];
/// Text before the words of a rule.
const REASON: &str = "eason:";

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// Author of the refusal: [`Self::USER`] or [`Self::RULE`].
    pub by: &'static str,
    /// The reason, where the text does not begin with it.
    pub reason: Option<String>,
}

impl RefusedCall {
    /// A person refused it.
    pub const USER: &'static str = "user";
    /// A rule of the program, or of its administrator, refused it.
    pub const RULE: &'static str = "rule";
}

/// Reads a refusal from the text of a result; `None` where the tool ran.
#[must_use]
pub fn refused(text: &str) -> Option<RefusedCall> {
    let text = without_timing(text);
    let (open, close) = QUOTED;
    let quoted = text.starts_with(NOT_STARTED).then(|| text.split_once(open)).flatten();
    if let Some((_, quoted)) = quoted {
        let quoted = unescaped(quoted.rsplit_once(close).map_or(quoted, |(quoted, _)| quoted));
        let by = refused_by(&quoted)?;
        return Some(RefusedCall {
            by,
            reason: Some(reason(&quoted).unwrap_or(&quoted).to_owned()),
        });
    }
    Some(RefusedCall { by: refused_by(text)?, reason: reason(text).map(str::to_owned) })
}

fn refused_by(text: &str) -> Option<&'static str> {
    let begins = |list: &[&str]| list.iter().any(|begin| text.starts_with(begin));
    if begins(&BY_USER) {
        return Some(USER);
    }
    let is_rule = RULES.iter().any(|(begin, has)| text.starts_with(begin) && text.contains(has));
    (begins(&BY_RULE) || is_rule || reason_of_policy(text).is_some()).then_some(RULE)
}

/// The reason behind a command in backquotes, which is no block of code.
fn reason_of_policy(text: &str) -> Option<&str> {
    let command = text.strip_prefix('`').filter(|command| !command.starts_with('`'))?;
    Some(command.split_once(REJECTED)?.1.trim())
}

/// Reason of a rule for refusing a call, where a refusal says it.
fn reason(text: &str) -> Option<&str> {
    let named = || Some(text.split_once(REASON)?.1.trim());
    reason_of_policy(text).or_else(named)
}

/// A text without the backslashes of quotations in quotations.
fn unescaped(text: &str) -> String {
    let (mut made, mut is_escaped) = (String::with_capacity(text.len()), false);
    for character in text.chars() {
        match character {
            '\\' => {}
            'n' | 'r' if is_escaped => made.push('\n'),
            't' if is_escaped => made.push('\t'),
            other => made.push(other),
        }
        is_escaped = character == '\\';
    }
    made
}

/// A text without the line in which Codex writes first how long it took.
fn without_timing(text: &str) -> &str {
    let text = text.trim_start();
    let timed = text.starts_with("Wall time").then(|| text.split_once('\n')).flatten();
    timed.map_or(text, |(_, rest)| rest)
}

/// Text a person typed when they refused a call.
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

/// Reason for which a tool returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrun {
    /// The call was not let happen.
    Refused,
    /// It was stopped, or its turn ended: what it did is not known.
    Interrupted,
}

impl Unrun {
    /// Reads the reason from the text of a result; `None` where the tool returned.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let interrupted = || {
            let text = without_timing(text);
            INTERRUPTIONS.iter().any(|begins| text.starts_with(begins))
        };
        let refused = refused(text).map(|_| Self::Refused);
        refused.or_else(|| interrupted().then_some(Self::Interrupted))
    }
}

/// Words of a person or a rule about a refused call; empty where there are none.
pub(crate) fn words_of_refusal(text: &str) -> String {
    let said = said_with_refusal(text).map(str::to_owned);
    said.or_else(|| refused(text)?.reason).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_has_its_author_and_reason() {
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
                &debug(
                    "This action was rejected due to unacceptable risk.\\\\nReason: \\\\\\\"rm\\\\\\\" deletes",
                ),
                RULE,
                "\"rm\" deletes",
            ),
            ("approval policy is Never; reject command — do not ask", RULE, ""),
            ("Permission to use Write has been auto-denied in dontAsk mode.", RULE, ""),
            ("Permission to use Bash with command cat <<E\na\nE has been denied.", RULE, ""),
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
            "exec_command failed: CreateProcess { message: \"Rejected(\\\"missing command line for PTY\\\")\" }",
            "```\n$ git push `x` rejected: no\n```",
            "approval policy is on-request in this directory",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn words_typed_with_a_refusal_are_separated_from_the_programs_text() {
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

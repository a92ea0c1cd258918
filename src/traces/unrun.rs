//! Recognizes calls that a user or a rule refused, with the reason, and calls that were
//! interrupted. It must not judge a call that ran and failed.

use crate::event::lists::phrase_list;

const USER: &str = RefusedCall::USER;
const RULE: &str = RefusedCall::RULE;

/// Prefixes of the results of calls that the user refused; they are compared first.
const BY_USER: [&str; 13] = phrase_list(
    "The user doesn't want to proceed with this tool use|\
     The user doesn't want to take this action|[Request interrupted by user|\
     The user rejected permission to use this specific tool call|The user denied this operation|\
     Permission for this tool use was denied. The tool use was rejected|User rejected|\
     user rejected MCP tool call|rejected by user|exec command rejected by user|\
     patch rejected by user|[Operation Cancelled]|Tool call was rejected by the user",
);
/// Prefixes of the results of calls that a rule refused.
const BY_RULE: [&str; 5] = phrase_list(
    "Permission for this tool use was denied|Permission for this action has been denied|\
     Permission for this action was denied|Claude requested permissions to |\
     This action was rejected due to unacceptable risk",
);
/// Prefixes of a rule's refusals that are ambiguous alone, and a text that must follow; empty
/// matches any.
const RULES: [(&str, &str); 3] = [
    ("Permission to use ", "denied"),
    ("approval required by policy", ""),
    ("approval policy is ", "; reject command"),
];
/// Prefixes of the results of interrupted calls.
const INTERRUPTIONS: [&str; 3] = ["The call was interrupted", "aborted", "command aborted by user"];

/// Prefix of Codex's result for a command that it did not start; a refusal is quoted in it as a
/// nested `Debug` error. Other quotes in it are of system errors.
const NOT_STARTED: &str = "exec_command failed";
const QUOTED: (&str, &str) = ("Rejected(\\\"", "\\\")");
/// Text between a command in backquotes and the reason of Codex's policy.
const REJECTED: &str = "` rejected: ";

/// Text before and after a user's comment.
const BEFORE: [&str; 3] = [" user said:", "user feedback:", "provided the following feedback:"];
const BEHIND: &str = "\n\nNote: The user's next message may contain";
/// Prefixes of comments that the program generated.
const MADE: [&str; 2] = ["The user wants to clarify these questions", "[Request interrupted"];
/// Text before the reason of a rule.
const REASON: &str = "eason:";

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// Author of the refusal: [`Self::USER`] or [`Self::RULE`].
    pub by: &'static str,
    /// Reason of the refusal, if the text contains one.
    pub reason: Option<String>,
}

impl RefusedCall {
    /// Author of a refusal by the user.
    pub const USER: &'static str = "user";
    /// Author of a refusal by a rule of the program or its administrator.
    pub const RULE: &'static str = "rule";
}

/// Parses a refusal from the text of a result; `None` if it is not one.
#[must_use]
pub fn refused(text: &str) -> Option<RefusedCall> {
    let text = without_timing(text);
    let (open, close) = QUOTED;
    let quoted = text.starts_with(NOT_STARTED).then(|| text.split_once(open)).flatten();
    if let Some((_, quoted)) = quoted {
        let quoted = unescape(quoted.rsplit_once(close).map_or(quoted, |(quoted, _)| quoted));
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

/// Returns the reason after a command in backquotes; a fenced code block does not match.
fn reason_of_policy(text: &str) -> Option<&str> {
    let command = text.strip_prefix('`').filter(|command| !command.starts_with('`'))?;
    Some(command.split_once(REJECTED)?.1.trim())
}

/// Returns the reason of a rule's refusal, if the text contains one.
fn reason(text: &str) -> Option<&str> {
    let named = || Some(text.split_once(REASON)?.1.trim());
    reason_of_policy(text).or_else(named)
}

/// Removes the backslashes of nested quotations.
fn unescape(text: &str) -> String {
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

/// Removes the line with the run time that Codex writes first.
fn without_timing(text: &str) -> &str {
    let text = text.trim_start();
    let timed = text.starts_with("Wall time").then(|| text.split_once('\n')).flatten();
    timed.map_or(text, |(_, rest)| rest)
}

/// Returns the comment that the user typed when refusing a call.
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

/// Reason why a tool returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrun {
    /// The call was refused.
    Refused,
    /// The call was stopped, or its turn ended; its effect is unknown.
    Interrupted,
}

impl Unrun {
    /// Parses the reason from the text of a result; `None` if the tool returned.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let interrupted = || {
            let text = without_timing(text);
            INTERRUPTIONS.iter().any(|begins| text.starts_with(begins))
        };
        let refused = refused(text).map(|_| Self::Refused);
        refused.or_else(|| interrupted().then_some(Self::Interrupted))
    }
}

/// Returns the comment of the user, or a rule's reason, on a refused call; empty without one.
pub(crate) fn words_of_refusal(text: &str) -> String {
    let said = said_with_refusal(text).map(str::to_owned);
    said.or_else(|| refused(text)?.reason).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_parsed_with_its_author_and_reason() {
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
    fn a_failed_start_and_a_text_about_permissions_are_not_refusals() {
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
    fn a_users_comment_on_a_refusal_is_separated_from_the_programs_text() {
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

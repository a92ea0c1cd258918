//! Recognizes calls that a user or a rule refused, with the reason, and calls that were
//! interrupted. It must not judge a call that ran and failed.

use crate::event::lists::phrase_list;

const USER: &str = RefusedCall::USER;
const RULE: &str = RefusedCall::RULE;

/// Prefixes of the results of calls that the user refused; they have precedence.
const BY_USER: [&str; 12] = phrase_list(
    "The user doesn't want to proceed with this tool use|\
     The user doesn't want to take this action|\
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
/// Ambiguous prefixes of a rule's refusals, each with a text that must follow; an empty one matches
/// any text.
const RULES: [(&str, &str); 3] = [
    ("Permission to use ", "denied"),
    ("approval required by policy", ""),
    ("approval policy is ", "; reject command"),
];
/// Prefixes of the results of interrupted calls.
const INTERRUPTIONS: [&str; 5] = [
    CALL_INTERRUPTED,
    "aborted",
    "command aborted by user",
    "[Tool call interrupted",
    "[Request interrupted by user",
];
/// Beginning of the result of a call that was interrupted, as this program words it.
pub const CALL_INTERRUPTED: &str = "The call was interrupted";
/// End of the result of a command that Claude Code stopped, behind its output.
const ABORTED: &str = "Command was aborted before completion</error>";
/// Text by which Claude Code corrects a refusal: the call ran until the user stopped it.
const STOPPED: &str = "this call was stopped while running";

/// Prefix of Codex's result for a command that it did not start, and the text around a refusal in
/// it, a nested `Debug` error. Other quotations in it are system errors.
const NOT_STARTED: &str = "exec_command failed";
const QUOTED: (&str, &str) = ("Rejected(\\\"", "\\\")");
/// Text between a command in backquotes and the reason of a rule of Codex.
const REJECTED: &str = "` rejected: ";

/// Text before and after a user's comment.
const BEFORE: [&str; 3] = [" user said:", "user feedback:", "provided the following feedback:"];
const CORRECTION: &str = "Correction to the text above:";
const AFTER: &str = "\n\nNote: The user's next message may contain";
/// Prefixes of comments that the program generated.
const GENERATED: [&str; 2] = ["The user wants to clarify these questions", "[Request interrupted"];
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

/// Returns true if the text of a result says that the call was stopped while it ran, or may have
/// run: its effect is unknown.
#[must_use]
pub fn is_interruption(text: &str) -> bool {
    let text = skip_timing(text);
    INTERRUPTIONS.iter().any(|begins| text.starts_with(begins))
        || text.trim_end().ends_with(ABORTED)
        || BY_USER.iter().any(|begins| text.starts_with(begins)) && text.contains(STOPPED)
}

/// Returns true if the text of an interrupted call is only the program's own.
pub(crate) fn is_notice_of_interruption(text: &str) -> bool {
    let text = skip_timing(text);
    is_interruption(text) && (text.starts_with('[') || text.contains(STOPPED))
}

/// Parses a refusal from the text of a result; `None` if it is not one.
#[must_use]
pub fn parse_refusal(text: &str) -> Option<RefusedCall> {
    if is_interruption(text) {
        return None;
    }
    let text = skip_timing(text);
    let (open, close) = QUOTED;
    let quoted = text.starts_with(NOT_STARTED).then(|| text.split_once(open)).flatten();
    if let Some((_, quoted)) = quoted {
        let quoted = unescape(quoted.rsplit_once(close).map_or(quoted, |(quoted, _)| quoted));
        let by = refused_by(&quoted)?;
        return Some(RefusedCall {
            by,
            reason: Some(refusal_reason(&quoted).unwrap_or(&quoted).to_owned()),
        });
    }
    Some(RefusedCall { by: refused_by(text)?, reason: refusal_reason(text).map(str::to_owned) })
}

fn refused_by(text: &str) -> Option<&'static str> {
    let begins = |list: &[&str]| list.iter().any(|begin| text.starts_with(begin));
    if begins(&BY_USER) {
        return Some(USER);
    }
    let is_rule = RULES.iter().any(|(begin, has)| text.starts_with(begin) && text.contains(has));
    (begins(&BY_RULE) || is_rule || policy_reason(text).is_some()).then_some(RULE)
}

/// Returns the reason that follows a command in backquotes; a fenced code block does not match.
fn policy_reason(text: &str) -> Option<&str> {
    let command = text.strip_prefix('`').filter(|command| !command.starts_with('`'))?;
    Some(command.split_once(REJECTED)?.1.trim())
}

/// Returns the reason of a rule's refusal, if the text contains one.
fn refusal_reason(text: &str) -> Option<&str> {
    let named = || Some(text.split_once(REASON)?.1.trim());
    policy_reason(text).or_else(named)
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

/// Returns the text after the run time, which Codex writes in the first line.
fn skip_timing(text: &str) -> &str {
    let text = text.trim_start();
    let timed = text.starts_with("Wall time").then(|| text.split_once('\n')).flatten();
    timed.map_or(text, |(_, rest)| rest)
}

/// Returns the comment that the user typed when refusing a call.
#[must_use]
pub fn refusal_comment(text: &str) -> Option<&str> {
    let (_, comment) = BEFORE.iter().find_map(|mark| text.split_once(mark))?;
    let comment = comment.split(AFTER).next().unwrap_or(comment);
    let comment = comment.split(CORRECTION).next().unwrap_or(comment).trim();
    let tags = ["<feedback>", "</feedback>"];
    let comment = tags.iter().fold(comment, |comment, tag| {
        comment.trim_matches('\n').trim_start_matches(tag).trim_end_matches(tag)
    });
    let comment = comment.trim();
    let is_generated = GENERATED.iter().any(|begins| comment.starts_with(begins));
    (!comment.is_empty() && !is_generated).then_some(comment)
}

/// Reason for which a tool did not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// The call was refused.
    Refused,
    /// The call was stopped, or its turn ended; its effect is unknown.
    Interrupted,
}

impl NotRun {
    /// Parses the reason in the text of a result; `None` if the tool returned.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let refused = parse_refusal(text).map(|_| Self::Refused);
        refused.or_else(|| is_interruption(text).then_some(Self::Interrupted))
    }
}

/// Returns the user's comment on a refused call, or the rule's reason; empty if there is none.
pub(crate) fn refusal_explanation(text: &str) -> String {
    let comment = refusal_comment(text).map(str::to_owned);
    comment.or_else(|| parse_refusal(text)?.reason).unwrap_or_default()
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
        for (text, by, comment) in [
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
            assert_eq!(parse_refusal(text).map(|one| one.by), Some(by), "{text}");
            assert_eq!(refusal_explanation(text), comment, "{text}");
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
            assert_eq!(parse_refusal(text), None, "{text}");
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
            (format!("Permission was denied. The user said:\nno{AFTER} a correction"), Some("no")),
            (format!("{refused} STOP what you are doing"), None),
            (format!("{refused} the user said:\n{}.", GENERATED[0]), None),
            (format!("{refused} the user said:\n  "), None),
        ] {
            assert_eq!(refusal_comment(&said), expected, "{said}");
        }
    }
}

//! Calls that a person or a rule of Claude Code did not let happen: who refused, and the words that
//! the person typed with it, which are an instruction like any other. It must not judge a call that
//! ran and failed.

use super::{
    anthropic::Bodies,
    members::{Members, Object, quote, text_of},
};
use crate::event::kinds;

/// How the answer to a refused call begins, and who refused it.
const BEGINNINGS: [(&str, &str); 7] = [
    ("The user doesn't want to proceed with this tool use", USER),
    ("The user doesn't want to take this action", USER),
    ("[Request interrupted by user", USER),
    ("Permission for this tool use was denied. The tool use was rejected", USER),
    ("Permission to use ", RULE),
    ("Claude requested permissions to ", RULE),
    ("Permission for this action has been denied", RULE),
];
const USER: &str = "user";
const RULE: &str = "rule";
/// What stands before and behind the words of the person.
const BEFORE: &str = " user said:\n";
const BEHIND: &str = "\n\nNote: The user's next message may contain";
/// How words begin that the program wrote for a person.
const MADE: [&str; 2] = ["The user wants to clarify these questions", "[Request interrupted"];

/// Marks refused calls among the events of a line, and adds what the person said.
pub(super) fn marked(line: &Members, bodies: Bodies) -> Bodies {
    let kind = line.text("toolDenialKind");
    let by = match kind.as_deref() {
        Some("user-rejected" | "interrupted" | "cancelled") => Some(USER),
        Some(_) => Some(RULE),
        None => line.text("toolUseResult").filter(|text| text.contains("rejected")).map(|_| USER),
    };
    let mut marked = Bodies::with_capacity(bodies.len());
    for (kind, body) in bodies {
        let text = body.finish();
        let members = match kind {
            kinds::AGENT_TOOL_RESULT => Members::read(&text).unwrap_or_default(),
            _ => Members::default(),
        };
        let failed = members.raw("is_error").is_some_and(|value| value.get() == "true");
        let said = members.some("content").filter(|_| failed).map(text_of).unwrap_or_default();
        let begins = BEGINNINGS.iter().find(|(begins, _)| said.starts_with(begins));
        let by = begins.map(|(_, by)| *by).or(by.filter(|_| failed));
        let mut body = Object::of(text);
        by.into_iter().for_each(|by| body.add("refused", &quote(by)));
        marked.push((kind, body));
        if let Some(words) = words(&said).filter(|_| by == Some(USER)) {
            let mut message = Object::new();
            message.add("content", &quote(words));
            marked.push((kinds::USER_MESSAGE, message));
        }
    }
    marked
}

/// What a person typed when refusing a call.
fn words(said: &str) -> Option<&str> {
    let (_, words) = said.split_once(BEFORE)?;
    let words = words.split(BEHIND).next().unwrap_or(words).trim();
    let is_made = MADE.iter().any(|begins| words.starts_with(begins));
    (!words.is_empty() && !is_made).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(words(&said), expected, "{said}");
        }
    }
}

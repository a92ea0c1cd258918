//! Advice after an error: the next call, in the notation of each interface: the command line, HTTP,
//! tools. One sentence has all of them, since an error of the owner reaches a front end unchanged.
//! It must not choose the call.

use crate::service::{Hint, NextAction};

/// Formats the advice on an error, with the call to make.
pub(super) fn format_action(hint: &Hint) -> Option<String> {
    let calls = hint.next.as_ref().map(format_calls);
    match (&hint.action, calls) {
        (Some(action), Some(calls)) => Some(format!("{action}: {calls}")),
        (action, calls) => action.clone().or(calls),
    }
}

/// Advice for the caller of a tool, who cannot unarchive a session.
pub(crate) const FOR_TOOLS: &str = "; a tool's caller leaves this one with clear_session and \
                                    starts another with stepNumber 1";

fn format_calls(next: &NextAction) -> String {
    match next {
        NextAction::RestoreSession(session) => {
            format!("`sessionlog restore {session}`, or POST /v1/sessions/{session}/restore")
        }
        NextAction::ReleaseHold(session) => {
            format!("`sessionlog hold {session} --release`, or DELETE /v1/sessions/{session}/hold")
        }
        NextAction::Wake(session) => format!(
            "`sessionlog wake {session}`, POST /v1/sessions/{session}/wake, or resume with \
             wake: true"
        ),
        NextAction::Steal(session) => format!(
            "`sessionlog wake {session} --steal`, POST /v1/sessions/{session}/wake \
             {{\"steal\":true}}, or resume with wake and steal: true"
        ),
        NextAction::DeleteNow(session) => format!(
            "`sessionlog delete {session} --now`, or DELETE /v1/sessions/{session}?now=true"
        ),
        NextAction::AcceptLoss => "`sessionlog repair SESSION --accept-loss`".to_owned(),
        NextAction::Unarchive(session) => format!(
            "`sessionlog unarchive {session}`, or POST /v1/sessions/{session}/unarchive{FOR_TOOLS}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SessionId;

    /// Returns the commands and routes in a text, without the session's id.
    fn extract_calls<'a>(text: &'a str, begins: &str, ends: &[char]) -> Vec<&'a str> {
        let rest = text.match_indices(begins).filter_map(|(at, _)| text.get(at + begins.len()..));
        rest.filter_map(|rest| rest.split(ends).next()).collect()
    }

    #[test]
    fn every_command_and_route_in_an_advice_exists() {
        let (help, routes) =
            (include_str!("../../docs/cli.md"), include_str!("../../proto/openapi.json"));
        let id = || SessionId::new("s").expect("an id");
        for next in [
            NextAction::RestoreSession(id()),
            NextAction::ReleaseHold(id()),
            NextAction::Wake(id()),
            NextAction::Steal(id()),
            NextAction::DeleteNow(id()),
            NextAction::AcceptLoss,
            NextAction::Unarchive(id()),
        ] {
            let text = format_calls(&next);
            let commands = extract_calls(&text, "`sessionlog ", &['`']);
            let [command] = commands[..] else { unreachable!("{text}: {commands:?}") };
            let (verb, flag) = (command.split(' ').next(), command.split(' ').nth(2));
            let head = format!("## `sessionlog {}`", verb.unwrap_or_default());
            let section = help.split(&head);
            let section = section.last().unwrap_or_default().split("\n## ").next();
            let is_there = |flag: &str| section.is_some_and(|section| section.contains(flag));
            assert!(flag.is_none_or(is_there), "{command}");
            for path in extract_calls(&text, "/v1/sessions/s", &[',', ';', ' ', '?']) {
                let route = format!("\"/v1/sessions/{{session}}{path}\"");
                assert!(routes.contains(&route), "{route}");
            }
        }
    }
}

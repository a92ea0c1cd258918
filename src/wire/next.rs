//! The call to make after an error, in the words of each interface: the command line, HTTP, tools.
//! One sentence has all of them, since an error of the owner reaches a front end as it is. It must
//! not decide which call that is.

use crate::service::{Hint, Next};

/// Advice on an error, with the call by which it is followed.
pub(super) fn action(hint: &Hint) -> Option<String> {
    let calls = hint.next.as_ref().map(calls);
    match (&hint.action, calls) {
        (Some(action), Some(calls)) => Some(format!("{action}: {calls}")),
        (action, calls) => action.clone().or(calls),
    }
}

fn calls(next: &Next) -> String {
    match next {
        Next::RestoreSession(session) => {
            format!("`sessionlog restore {session}`, or POST /v1/sessions/{session}/restore")
        }
        Next::ReleaseHold(session) => {
            format!("`sessionlog hold {session} --release`, or DELETE /v1/sessions/{session}/hold")
        }
        Next::Wake(session) => format!(
            "`sessionlog wake {session}`, POST /v1/sessions/{session}/wake, or resume with \
             wake: true"
        ),
        Next::Steal(session) => format!(
            "`sessionlog wake {session} --steal`, POST /v1/sessions/{session}/wake \
             {{\"steal\":true}}, or resume with wake and steal: true"
        ),
        Next::DeleteNow(session) => format!(
            "`sessionlog delete {session} --now`, or DELETE /v1/sessions/{session}?now=true"
        ),
        Next::AcceptLoss => "`sessionlog repair SESSION --accept-loss`".to_owned(),
        Next::BeginAnother => "over HTTP create one; a tool's caller leaves this one with \
                               clear_session and starts another with stepNumber 1"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SessionId;

    /// The commands and routes in a text, with the session's id left out.
    fn named<'a>(text: &'a str, begins: &str, ends: &[char]) -> Vec<&'a str> {
        let rest = text.match_indices(begins).filter_map(|(at, _)| text.get(at + begins.len()..));
        rest.filter_map(|rest| rest.split(ends).next()).collect()
    }

    #[test]
    fn every_call_that_an_error_names_exists() {
        let (help, routes) =
            (include_str!("../../docs/cli.md"), include_str!("../../proto/openapi.json"));
        let id = || SessionId::new("s").expect("an id");
        for next in [
            Next::RestoreSession(id()),
            Next::ReleaseHold(id()),
            Next::Wake(id()),
            Next::Steal(id()),
            Next::DeleteNow(id()),
            Next::AcceptLoss,
        ] {
            let text = calls(&next);
            let commands = named(&text, "`sessionlog ", &['`']);
            let [command] = commands[..] else { unreachable!("{text}: {commands:?}") };
            let (verb, flag) = (command.split(' ').next(), command.split(' ').nth(2));
            let head = format!("## `sessionlog {}`", verb.unwrap_or_default());
            let section = help.split(&head);
            let section = section.last().unwrap_or_default().split("\n## ").next();
            let is_there = |flag: &str| section.is_some_and(|section| section.contains(flag));
            assert!(flag.is_none_or(is_there), "{command}");
            for path in named(&text, "/v1/sessions/s", &[',', ' ', '?']) {
                let route = format!("\"/v1/sessions/{{session}}{path}\"");
                assert!(routes.contains(&route), "{route}");
            }
        }
    }
}

//! Ends of an agent's turns. A call without a result at the end of its turn was refused or
//! interrupted. It must not count a message that the client queues while the turn continues.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::body;
use crate::event::{Event, kinds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndScope {
    /// The turn of the session's agent, but not of its subagents.
    Turn,
    /// All work of the session.
    All,
}

#[derive(Deserialize)]
struct TurnBody<'a> {
    session_thread_id: Option<IgnoredAny>,
    raw_format: Option<String>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
}

/// Returns the scope of the end that an event marks; `None` if it marks none.
pub(super) fn turn_end(event: &Event) -> Option<EndScope> {
    #[derive(Deserialize)]
    struct HookMember {
        hook_event_name: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct StopReason {
        r#type: String,
    }
    let kind = event.kind.as_str();
    if kind == kinds::SESSION_STATUS_TERMINATED {
        return Some(EndScope::All);
    }
    if ![kinds::SESSION_STATUS_IDLE, kinds::USER_MESSAGE, kinds::USER_INTERRUPT].contains(&kind) {
        return None;
    }
    let said: TurnBody<'_> = body::read(&event.body)?;
    let is_turn = match kind {
        // A session that waits for an action of its client keeps its calls open.
        kinds::SESSION_STATUS_IDLE => {
            let stop = said.stop_reason.and_then(|stop| serde_json::from_str(stop.get()).ok());
            stop.is_none_or(|stop: StopReason| stop.r#type != "requires_action")
        }
        // The next prompt of an agent's program; other clients send messages while a tool runs.
        kinds::USER_MESSAGE => {
            let raw = said.raw.and_then(|raw| serde_json::from_str::<HookMember>(raw.get()).ok());
            let is_of_program =
                said.raw_format.is_some_and(|name| ["claude-code", "codex"].contains(&&*name));
            is_of_program || raw.is_some_and(|raw| raw.hook_event_name.is_some())
        }
        _ => true,
    };
    (is_turn && said.session_thread_id.is_none()).then_some(EndScope::Turn)
}

//! Units of a conversation, kept or left out together: one message, or calls with all of their
//! results, regardless of where these were recorded. A call without a result gets a placeholder. It
//! must not choose: the window does.

use std::collections::HashSet;

use super::conversation_event::{
    ContentBlock, ConversationEvent, Speech, ToolResult, orphan_result_blocks,
};
use crate::{event::Position, traces::find_answered_call};

/// Placeholder result of a call without one.
const UNANSWERED: &str = "(no result was recorded)";

/// A unit of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// One message; or calls followed by their results in the calls' order.
    pub said: Vec<ConversationEvent>,
}

impl Unit {
    /// Returns the position of its first message.
    #[must_use]
    pub fn position(&self) -> Position {
        self.said.first().map_or(Position::ZERO, |one| one.position)
    }

    /// Returns true if it contains calls and results.
    #[must_use]
    pub fn is_exchange(&self) -> bool {
        matches!(self.said.first(), Some(ConversationEvent { speech: Speech::Call(_), .. }))
    }

    /// Returns true if it contains instructions to the model.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(self.said.first(), Some(ConversationEvent { speech: Speech::System(_), .. }))
    }

    /// Returns true if it is a user message.
    #[must_use]
    pub fn is_user(&self) -> bool {
        matches!(self.said.first(), Some(ConversationEvent { speech: Speech::User(_), .. }))
    }

    /// Returns true if it has only calls, so that another call can join it.
    fn is_open(&self) -> bool {
        self.said.iter().all(|one| matches!(one.speech, Speech::Call(_)))
    }
}

/// A call whose result has not been found.
struct WaitingCall {
    /// Id by which its result refers to it.
    original_id: String,
    name: String,
    /// Id in the window.
    id: String,
    unit: usize,
}

/// Groups messages into units. A call's id is replaced unless every model accepts it: letters,
/// digits, `_` and `-`, at most `id_chars_max`, and unique.
#[must_use]
pub(super) fn group_units(
    said: impl IntoIterator<Item = ConversationEvent>,
    id_chars_max: usize,
) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut waiting: Vec<WaitingCall> = Vec::new();
    let mut ids = HashSet::new();
    for mut one in said {
        match &mut one.speech {
            Speech::Call(call) => {
                let fits = !call.id.is_empty()
                    && call.id.len() <= id_chars_max
                    && call.id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
                let original_id = call.id.clone();
                if !fits || ids.contains(&call.id) {
                    call.id = format!("call_at_{}", one.position);
                }
                ids.insert(call.id.clone());
                let (id, name) = (call.id.clone(), call.name.clone());
                match units.last_mut().filter(|unit| unit.is_open()) {
                    Some(unit) => unit.said.push(one),
                    None => units.push(Unit { said: vec![one] }),
                }
                waiting.push(WaitingCall { original_id, name, id, unit: units.len() - 1 });
            }
            Speech::Result(result) => match take_answered(&mut waiting, result) {
                Some(call) => {
                    result.call_id = call.id;
                    if let Some(unit) = units.get_mut(call.unit) {
                        unit.said.push(one);
                    }
                }
                None => {
                    one.speech = Speech::User(orphan_result_blocks(result));
                    one.changed = true;
                    units.push(Unit { said: vec![one] });
                }
            },
            _ => units.push(Unit { said: vec![one] }),
        }
    }
    for call in waiting {
        if let Some(unit) = units.get_mut(call.unit) {
            unit.add_placeholder(&call.id);
        }
    }
    units.iter_mut().for_each(Unit::sort_results);
    units
}

/// Removes and returns the open call to which a result belongs.
fn take_answered(waiting: &mut Vec<WaitingCall>, result: &ToolResult) -> Option<WaitingCall> {
    let open = waiting.iter().map(|call| (&*call.original_id, &*call.name));
    let at = find_answered_call(open, Some(&result.call_id), result.name.as_deref());
    at.map(|at| waiting.remove(at))
}

impl Unit {
    /// Adds a placeholder result.
    fn add_placeholder(&mut self, id: &str) {
        let of =
            |one: &&ConversationEvent| matches!(&one.speech, Speech::Call(call) if call.id == id);
        let Some(call) = self.said.iter().find(of) else { return };
        let result = ToolResult {
            call_id: id.to_owned(),
            name: None,
            blocks: vec![ContentBlock::Text(UNANSWERED.to_owned())],
            is_error: true,
        };
        self.said.push(ConversationEvent::with_speech(call, Speech::Result(result)));
    }

    /// Sorts the results by the order of their calls.
    fn sort_results(&mut self) {
        let calls: Vec<String> = self.said.iter().filter_map(call_id).collect();
        let place = |one: &ConversationEvent| match &one.speech {
            Speech::Result(result) => {
                let at = calls.iter().position(|id| *id == result.call_id);
                calls.len() + at.unwrap_or(calls.len())
            }
            _ => 0,
        };
        self.said.sort_by_key(place);
    }
}

fn call_id(one: &ConversationEvent) -> Option<String> {
    match &one.speech {
        Speech::Call(call) => Some(call.id.clone()),
        _ => None,
    }
}

//! The call to make after a refusal, derived from the refused call and the facts of the hint. It
//! must not guess: no call is better than a wrong one. Where a step was refused because of another
//! step, the call reads that one. A session in it was named by the caller, or is of the caller's
//! workspace.

use std::collections::BTreeMap;

use serde_json::{Value, json, value::RawValue};

use crate::service::{CandidateSession, Code, ServiceError, SuggestedCall};

/// Arguments of a refused call, as far as the next call needs them.
pub(super) struct RefusedArguments {
    tool: String,
    session: Option<Value>,
    step: Option<Value>,
    branch: Option<Value>,
    if_position: Option<u64>,
    event: Option<String>,
}

/// Parses the members of an object; empty if it is not an object.
fn parse_members(object: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(object).unwrap_or_default()
}

impl RefusedArguments {
    /// Reads only the needed members: an event in the arguments is not parsed.
    pub(super) fn parse(tool: &str, arguments: &str) -> Self {
        let arguments = parse_members(arguments);
        let member = |name: &str| {
            let value: Value = serde_json::from_str(arguments.get(name)?.get()).ok()?;
            Some(value).filter(|value| !value.is_null())
        };
        let event = arguments.get("event").map(|event| parse_members(event.get()));
        let id = event.as_ref().and_then(|event| event.get("id"));
        Self {
            tool: tool.to_owned(),
            session: member("sessionId"),
            step: member("stepNumber"),
            branch: member("branchId"),
            if_position: member("ifPosition").as_ref().and_then(Value::as_u64),
            event: id.and_then(|id| serde_json::from_str(id.get()).ok()),
        }
    }

    /// Returns the session that the call named.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_ref()?.as_str()
    }

    /// Builds a call for the same session.
    fn call_about(&self, tool: &'static str, arguments: Value) -> SuggestedCall {
        let mut call = call_with(tool, arguments);
        if let Some(session) = &self.session {
            call.arguments.insert("sessionId".to_owned(), session.clone());
        }
        call
    }

    /// Returns the next call to make; `None` if none is certain.
    pub(super) fn next_call(&self, error: &ServiceError) -> Option<SuggestedCall> {
        let hint = &error.hint;
        Some(match error.code {
            Code::SessionRequired => match own_candidates(&hint.candidates) {
                [only] => call_recovering(only),
                [] if hint.may_begin && self.step.is_some() => call_renumbered(1),
                [] => call_with("list_sessions", json!({ "workspace": hint.workspace })),
                _ => return None,
            },
            Code::SessionNotFound | Code::SessionDeleted | Code::SessionExpired => {
                match own_candidates(&hint.candidates) {
                    [only] => call_recovering(only),
                    // A caller started for that session would be bound to it again.
                    _ if self.step.is_some() && self.session.is_none() => {
                        call_with("clear_session", json!({}))
                    }
                    _ => call_with("list_sessions", json!({})),
                }
            }
            Code::StepConflict => match (hint.next_step, own_candidates(&hint.candidates)) {
                (Some(next), _) => call_renumbered(next),
                (None, [only]) => call_recovering(only),
                (None, [_, ..]) => return None,
                // The step would start research that exists: read its state.
                (None, []) if self.step == Some(json!(1)) && self.branch.is_none() => {
                    self.call_about("get_research_session", json!({}))
                }
                (None, []) => self.call_reading_step(self.step.as_ref()?),
            },
            Code::PointNotFound if self.tool == "get_events" => {
                self.call_about("get_events", json!({ "from": "0" }))
            }
            // The session is archived: leave it like a full one.
            Code::SessionArchived => call_with("clear_session", json!({})),
            Code::InvalidRequest if hint.field.as_deref() != Some("cursor") => return None,
            Code::InvalidRequest if self.tool == "list_sessions" => {
                call_with("list_sessions", json!({}))
            }
            Code::StepNotFound | Code::PointNotFound | Code::InvalidRequest => {
                self.call_about("get_research_session", json!({}))
            }
            Code::PositionConflict => {
                let expected = self.if_position?;
                let from = hint.tail.map_or(expected, |tail| expected.min(tail.0));
                self.call_about("get_events", json!({ "from": from.to_string() }))
            }
            Code::IdempotencyConflict => {
                let from = format!("event:{}", self.event.as_ref()?);
                self.call_about("get_events", json!({ "from": from, "limit": 1 }))
            }
            Code::LimitReached if hint.last_step.is_some() => call_with("clear_session", json!({})),
            _ => return None,
        })
    }

    fn call_reading_step(&self, number: &Value) -> SuggestedCall {
        let mut call = self.call_about("get_research_session", json!({ "stepId": number }));
        if let Some(branch) = &self.branch {
            call.arguments.insert("branchId".to_owned(), branch.clone());
        }
        call
    }
}

/// Returns the candidates of the caller's workspace, which are first; no call uses the others.
fn own_candidates(candidates: &[CandidateSession]) -> &[CandidateSession] {
    let count = candidates.iter().take_while(|candidate| candidate.here).count();
    candidates.get(..count).unwrap_or_default()
}

fn call_recovering(candidate: &CandidateSession) -> SuggestedCall {
    call_with("get_research_session", json!({ "sessionId": candidate.session.as_str() }))
}

/// Builds a call with only these arguments, without null ones.
fn call_with(tool: &'static str, arguments: Value) -> SuggestedCall {
    let mut arguments = arguments.as_object().cloned().unwrap_or_default();
    arguments.retain(|_, value| !value.is_null());
    SuggestedCall { tool, arguments, others_unchanged: false }
}

/// Builds a call for the same step with another number.
fn call_renumbered(number: u64) -> SuggestedCall {
    let call = call_with("sequential_search", json!({ "stepNumber": number }));
    SuggestedCall { others_unchanged: true, ..call }
}

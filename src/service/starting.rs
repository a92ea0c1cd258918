//! The text that a session receives at its start in a workspace: items of memory, the state of the
//! last work, a line for each of the last sessions. The named session is linked to the one whose
//! work it receives. It must not choose the content of a session: harness does.

use std::collections::BTreeMap;

use super::{
    Caller, Service, ServiceError, ServiceResult, SessionStatus, restoring::RestoreNames, values,
    values::check_workspace,
};
use crate::{
    api::handoff::{StartRequest, StartedAnswer},
    harness::{self, CONTINUATION_TOKENS_MIN, Counter as _, TRUST, Tokenizer},
    projection::{
        Facts,
        body::{self, PositionBody, RestoredBody},
    },
};

/// Default, minimum and maximum tokens of the text.
const TOKENS: usize = 700;
const TOKENS_MIN: usize = 400;
const TOKENS_MAX: usize = 20_000;

impl Service {
    /// Returns the state of a workspace's work for a session that starts there, and links it to the
    /// session that it continues.
    ///
    /// # Errors
    /// `invalid_request`, `session_not_found` for a session of another workspace, and those of the
    /// sessions and the engine. Unreadable sessions are named and omitted.
    pub async fn start_work(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: StartRequest,
    ) -> ServiceResult<StartedAnswer> {
        let own = values::parse_session("session_id", asked.session_id.as_deref())?;
        check_workspace(workspace)?;
        let tokens_max = asked.tokens_max.unwrap_or(TOKENS);
        if !(TOKENS_MIN..=TOKENS_MAX).contains(&tokens_max) {
            let problem = format!("from {TOKENS_MIN} to {TOKENS_MAX}");
            return Err(ServiceError::invalid("tokens_max", problem));
        }
        if let Some(own) = &own {
            self.get_in_workspace(caller, workspace, own).await?;
        }
        let (mut from, mut notices) = (None, Vec::new());
        let (last, mut start) =
            self.find_last_work(caller, workspace, own.as_ref(), &mut notices).await?;
        start.remembered = self.list_workspace_items(caller, workspace).await?;
        if let Some((past, _)) = &last {
            start.is_last_running = SessionStatus::from_info(&past.info) == SessionStatus::Running;
            let room = start.tokens_for_last(tokens_max, Tokenizer::O200k);
            let room = room.max(CONTINUATION_TOKENS_MIN);
            let name = past.info.key.session.to_string();
            let look = move |facts: &Facts| {
                let (_, text) = harness::continuation(facts, &name, room, Tokenizer::O200k, false);
                (text, facts.next_position())
            };
            match self.view_chain_as_of(&past.info.key, None, look).await {
                Ok((text, position)) => {
                    start.last = text;
                    from = Some((past.info.key.session.clone(), position));
                }
                Err(error) if error.code.has_lost_events() => {
                    notices.push(error.message);
                }
                Err(error) => return Err(error),
            }
        }
        // A session with requests but no work is not continued.
        if let (Some(own), Some((past, true)), Some((from, position))) = (&own, &last, &from) {
            let body = RestoredBody {
                from: PositionBody { session: from.to_string(), position: position.0 },
                tokens_max: tokens_max as u64,
                chosen: Vec::new(),
                weights: BTreeMap::new(),
            };
            let named = RestoreNames { successor: Some(own.clone()), ..RestoreNames::default() };
            let (_, notice) = self
                .ensure_successor(caller, &past.info, *position, &named, body::write(&body))
                .await?;
            notices.extend(notice);
        }
        let text = start.text(tokens_max, Tokenizer::O200k);
        let tokens = Tokenizer::O200k.count(&text) as u64;
        let (continues, position) = from.unzip();
        let trust = TRUST.to_owned();
        Ok(StartedAnswer { text, tokens, continues, position, notices, trust })
    }
}

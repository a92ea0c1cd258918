//! The text that a session receives when it begins in a workspace: what is remembered, where the
//! last work stands, a line for each of the last sessions. The session that is named continues the
//! one whose work it receives. It must not choose what of a session is shown: harness does.

use std::collections::BTreeMap;

use super::{
    Caller, Code, Past, Service, ServiceError, ServiceResult,
    line::{continued, is_beside},
    restoring::Named,
    saving::check_workspace,
    values,
};
use crate::{
    api::handoff::{StartRequest, StartedAnswer},
    event::{SessionId, SessionKey, Timestamp},
    harness::{self, CONTINUATION_TOKENS_MIN, Counter as _, Earlier, Start, TRUST, Tokenizer},
    projection::{
        Facts, MemoryItem,
        body::{self, PlaceBody, RestoredBody},
    },
    store::SessionInfo,
};

/// Tokens of the text: by default, and at least and at most.
const TOKENS: usize = 700;
const TOKENS_MIN: usize = 400;
const TOKENS_MAX: usize = 20_000;
/// Sessions that are looked at for the last work, and those that have a line each.
const SESSIONS_MAX: usize = 32;
const LINES_MAX: usize = 5;
/// Part of a continuation that items of memory take: one in so many.
const REMEMBERED_PART: usize = 10;
/// Items of memory that are considered.
const ITEMS_MAX: usize = 32;

impl Service {
    /// Tells a session that begins in a workspace where its work stands, and links it to the
    /// session that it continues.
    ///
    /// # Errors
    /// `invalid_request`, `session_not_found` for a session of another workspace, and those of the
    /// sessions and the engine. What cannot be read is named and left out.
    pub async fn start_work(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: StartRequest,
    ) -> ServiceResult<StartedAnswer> {
        let own = values::session("session_id", asked.session_id.as_deref())?;
        check_workspace(workspace)?;
        let tokens_max = asked.tokens_max.unwrap_or(TOKENS);
        if !(TOKENS_MIN..=TOKENS_MAX).contains(&tokens_max) {
            let problem = format!("from {TOKENS_MIN} to {TOKENS_MAX}");
            return Err(ServiceError::invalid("tokens_max", problem));
        }
        if let Some(own) = &own {
            self.in_workspace(caller, workspace, own).await?;
        }
        let (mut from, mut notices) = (None, Vec::new());
        let (last, mut start) =
            self.work_before(caller, workspace, own.as_ref(), &mut notices).await?;
        start.remembered = self.lasting(caller, workspace).await?;
        if let Some((past, _)) = &last {
            let room = start.room_for_last(tokens_max, Tokenizer::O200k);
            let room = room.max(CONTINUATION_TOKENS_MIN);
            let name = past.info.key.session.to_string();
            let look = move |facts: &Facts| {
                let (_, text) = harness::continuation(facts, &name, room, Tokenizer::O200k, false);
                (text, facts.reached(), harness::begun(facts))
            };
            match self.look_over_line(&past.info.key, None, look).await {
                Ok((text, position, begun)) => {
                    (start.last, start.begun) = (text, begun);
                    from = Some((past.info.key.session.clone(), position));
                }
                Err(error) if error.code == Code::SessionDamaged => {
                    notices.push(error.message);
                }
                Err(error) => return Err(error),
            }
        }
        // A session that only asked something continues nothing.
        if let (Some(own), Some((past, true)), Some((from, position))) = (&own, &last, &from) {
            let body = RestoredBody {
                from: PlaceBody { session: from.to_string(), position: position.0 },
                tokens_max: tokens_max as u64,
                chosen: Vec::new(),
                weights: BTreeMap::new(),
            };
            let named = Named { successor: Some(own.clone()), ..Named::default() };
            let (_, notice) =
                self.successor(caller, &past.info, *position, &named, body::write(&body)).await?;
            notices.extend(notice);
        }
        let text = start.text(tokens_max, Tokenizer::O200k);
        let tokens = Tokenizer::O200k.count(&text) as u64;
        let (continues, position) = from.unzip();
        let trust = TRUST.to_owned();
        Ok(StartedAnswer { text, tokens, continues, position, notices, trust })
    }

    /// The last session with work, or else the last one in which something was asked, and whether
    /// it has work; and the others in a line each.
    async fn work_before(
        &self,
        caller: &Caller,
        workspace: &str,
        own: Option<&SessionId>,
        notices: &mut Vec<String>,
    ) -> ServiceResult<(Option<(Past, bool)>, Start)> {
        let name = workspace.to_owned();
        let latest = self.latest(caller, Some(&name), SESSIONS_MAX).await?;
        let open = self.store.unfinished(&caller.scope, Some(workspace), SESSIONS_MAX).await?;
        let counted = self.store.counted();
        // One that another harness holds is at work elsewhere.
        let is_other = |info: &SessionInfo| {
            Some(&info.key.session) != own && !is_beside(info) && !info.work.is_leased(counted)
        };
        let (mut last, mut others) = (None, Vec::new());
        let mut before: Vec<(SessionKey, Timestamp)> = Vec::new();
        for info in latest.into_iter().filter(is_other) {
            if last.is_some() && others.len() >= LINES_MAX {
                break;
            }
            // The text of the last work has them, but for what was done in one since.
            let worked_on = super::dates(&info).1;
            if before.iter().any(|(key, until)| *key == info.key && worked_on <= *until) {
                continue;
            }
            let look = |info: &SessionInfo, facts: &Facts| {
                let past = super::past::past(info.clone(), facts);
                (past, harness::has_work(facts), harness::outcome(facts))
            };
            match self.peek_view(&info.key, look).await {
                Ok((past, true, _)) if last.is_none() => {
                    let mut until = past.info.created_at;
                    for link in self.line_before(&past.info.key).await?.into_iter().rev() {
                        before.push((link.key, std::mem::replace(&mut until, link.created_at)));
                    }
                    last = Some(past);
                }
                Ok((past, _, outcome)) if !past.goal.is_empty() => others.push((past, outcome)),
                Ok(_) => {}
                Err(error) if error.code.is_gone() => {}
                // The others do not depend on it.
                Err(error) if error.code == Code::SessionDamaged => notices.push(error.message),
                Err(error) => return Err(error),
            }
        }
        let has_work = last.is_some();
        if !has_work && !others.is_empty() {
            last = Some(others.remove(0).0);
        }
        let line = |(past, outcome): (Past, String)| Earlier {
            at: super::dates(&past.info).1,
            is_open: past.calls_open > 0 || open.iter().any(|info| info.key == past.info.key),
            session: past.info.key.session.to_string(),
            asked: past.goal,
            outcome,
        };
        let earlier = others.into_iter().take(LINES_MAX).map(line).collect();
        Ok((last.map(|past| (past, has_work)), Start { earlier, ..Start::of(workspace) }))
    }

    /// What the workspace of a session keeps, as a list for a text of so many tokens: a tenth of
    /// them. Where it cannot be read, the text has none.
    pub(super) async fn kept_in_workspace(
        &self,
        caller: &Caller,
        session: &SessionId,
        tokens_max: usize,
    ) -> ServiceResult<String> {
        let Some(workspace) = self.store.info(&caller.key(session)).await?.workspace else {
            return Ok(String::new());
        };
        let room = tokens_max / REMEMBERED_PART;
        match self.lasting(caller, &workspace).await {
            Ok(items) => Ok(harness::remembered(&items, room, Tokenizer::O200k)),
            Err(error) if error.code == Code::SessionDamaged => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// A line that names the last work of the workspace, for a session that has none; nothing for
    /// one that continues another.
    pub(super) async fn last_work(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<String> {
        let key = caller.key(session);
        let info = self.store.info(&key).await?;
        let continues = continued(&info).is_some();
        let Some(workspace) = info.workspace.as_deref().filter(|_| !continues) else {
            return Ok(String::new());
        };
        let found = self.work_before(caller, workspace, Some(session), &mut Vec::new()).await?;
        let Some((past, true)) = found.0 else { return Ok(String::new()) };
        // What cannot be read says nothing; its name leads to the error.
        let rules = self.look_over_line(&past.info.key, None, harness::rules).await;
        let (name, rules) = (past.info.key.session.as_str(), rules.unwrap_or_default());
        let at = super::dates(&past.info).1;
        Ok(harness::pointer_to(name, at, &past.goal, &rules))
    }

    /// What the workspace keeps: the most important first, then the newest.
    async fn lasting(&self, caller: &Caller, workspace: &str) -> ServiceResult<Vec<MemoryItem>> {
        let notebooks = self.notebooks(caller, workspace).await?;
        let kept = match self.kept_items(caller, &notebooks, Vec::new(), false).await {
            Ok((kept, _)) => kept.into_iter().take(ITEMS_MAX),
            Err(error) if error.code == Code::SessionNotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut items: Vec<MemoryItem> = kept.map(|kept| kept.item).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.importance.unwrap_or_default()));
        Ok(items)
    }
}

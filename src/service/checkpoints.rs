//! Verbs on checkpoints. A checkpoint is a position, and the changes of the agent's state since the
//! parent checkpoint. It must not interpret a state.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, is_notebook,
    marking::{encode_body, keyed_checkpoint_id},
    notes::{to_json_text, uncertain_until},
    page::{self, page_limit},
};
use crate::{
    api::work::{Checkpoint, CheckpointList, CheckpointState, CreateCheckpoint, ResumeAnswer},
    event::{
        BatchKey, NewNote, NoteKind, Point, Position, Range, SessionId, SessionKey, kinds, limits,
    },
    projection::checkpoints::{self, CheckpointBody, Checkpoints, State, Trigger},
    store::{FillDirection, ReadRequest, SessionInfo, StoreError},
};

/// Parameters of a checkpoint to create.
#[derive(Clone, Debug, Default)]
pub struct NewCheckpoint {
    /// Client's request.
    pub asked: CreateCheckpoint,
    /// Parsed point of the request.
    pub at: Option<Point>,
    /// Cause of the checkpoint.
    pub trigger: Trigger,
    /// Idempotency key: a retry with the same key creates no second checkpoint.
    pub key: Option<BatchKey>,
}

/// Builds a checkpoint with its relations to the others.
pub(super) fn to_checkpoint(
    notes: &Checkpoints,
    one: &checkpoints::NotedCheckpoint,
    info: &SessionInfo,
) -> Checkpoint {
    Checkpoint {
        id: one.id.clone(),
        kind: "checkpoint".to_owned(),
        position: one.position,
        created_at: one.at.to_string(),
        trigger: one.trigger.as_str().to_owned(),
        label: one.label.clone(),
        thread: one.thread.clone(),
        parent: notes.parent(one).map(|parent| parent.id.clone()),
        done: one.done,
        uncertain: is_uncertain(notes, one, info),
    }
}

/// Returns true if a checkpoint or part of its state may be older than what was acknowledged.
fn is_uncertain(
    notes: &Checkpoints,
    checkpoint: &checkpoints::NotedCheckpoint,
    info: &SessionInfo,
) -> bool {
    uncertain_until(info).is_some_and(|until| notes.has_part_created_by(checkpoint, until))
}

/// Outcome of an earlier call with the same key.
pub(super) enum EarlierCall {
    /// Checkpoint that it created, and the tail of the session.
    Made(Checkpoint, Position),
    /// No checkpoint; valid while the session has this number of notes.
    New {
        /// Precondition for writing the checkpoint's note.
        if_notes: Option<u64>,
    },
}

/// Length of the part of a checkpoint id that encodes its key; the rest encodes the call.
const KEY_CHARS: usize = "chk_".len() + 16;

fn parse_digest(id: &str) -> Option<[u8; 16]> {
    let hex = id.strip_prefix("chk_").filter(|hex| hex.len() == 32)?;
    u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
}

fn not_found(name: &str) -> ServiceError {
    let message = format!("the session has no checkpoint {name:?}");
    ServiceError::new(Code::CheckpointNotFound, message)
        .action("list the session's checkpoints for their ids and labels")
}

impl Service {
    /// Creates a checkpoint; returns it and the tail of the session.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `checkpoint_not_found` for a parent, `body_too_large`,
    /// `lease_held`, `lease_lost`, `quota_exceeded`, and those of the session.
    pub async fn create_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
        new: NewCheckpoint,
    ) -> ServiceResult<(Checkpoint, Position)> {
        check_request(&new.asked)?;
        let key = caller.key(session);
        let info = self.store.use_session(&key).await?;
        let position = match &new.at {
            Some(point) => Some(self.resolve_within(&key, point, info.tail).await?),
            None => None,
        };
        let name = self.checkpoint_id(&info, new.key.as_ref());
        let whole = loop {
            let if_notes = match self.find_earlier_call(&key, new.key.as_ref()).await? {
                EarlierCall::Made(known, tail) => return Ok((known, tail)),
                EarlierCall::New { if_notes } => if_notes,
            };
            let (body, whole) = self.build_body(&key, &new).await?;
            let kind = if new.asked.done { NoteKind::Final } else { NoteKind::Checkpoint };
            let (name, body) = (name.clone(), encode_body(&body));
            let idle = new.trigger == Trigger::Timer;
            let note = NewNote { kind, name, position, body, idle, if_notes };
            match self.put_note(&key, caller.fence, note).await {
                Ok(()) => break whole,
                // Another note was added since the key was looked up; the loop repeats the lookup.
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        };
        let known = |notes: &Checkpoints, info: &SessionInfo| {
            let known = notes.find(&name).filter(|found| found.id == name);
            known.map(|found| (found.number, to_checkpoint(notes, found, info), info.tail))
        };
        let made = self.peek_notes(&key, known).await?;
        let (number, made, tail) = made.ok_or_else(|| not_found(&name))?;
        if let Some(whole) = whole {
            self.cache_state(&key, number, &whole).await?;
        }
        Ok((made, tail))
    }

    /// Returns the outcome of an earlier call with the same key; another call is a conflict.
    pub(super) async fn find_earlier_call(
        &self,
        key: &SessionKey,
        call: Option<&BatchKey>,
    ) -> ServiceResult<EarlierCall> {
        let Some(call) = call else { return Ok(EarlierCall::New { if_notes: None }) };
        // Earlier versions used the second digest.
        let digests = [self.key_digest(call), call.digest()];
        let known = |notes: &Checkpoints, info: &SessionInfo| {
            let mut other = false;
            for sent in digests {
                let id = keyed_checkpoint_id(sent);
                for found in notes.with_id_prefix(id.get(..KEY_CHARS).unwrap_or(&id)) {
                    match parse_digest(&found.id).and_then(|known| BatchKey::is_retry(known, sent))
                    {
                        Some(true) => {
                            return Ok(EarlierCall::Made(
                                to_checkpoint(notes, found, info),
                                info.tail,
                            ));
                        }
                        same => other |= same.is_some(),
                    }
                }
            }
            if other { Err(()) } else { Ok(EarlierCall::New { if_notes: Some(info.work.notes) }) }
        };
        let conflict =
            || StoreError::IdempotencyConflict { what: call.to_string(), position: None };
        self.peek_notes(key, known).await?.map_err(|()| conflict().into())
    }

    /// Returns the body of a checkpoint's note, and the whole state if it is in memory.
    async fn build_body(
        &self,
        key: &SessionKey,
        NewCheckpoint { asked: new, trigger, .. }: &NewCheckpoint,
    ) -> ServiceResult<(CheckpointBody, Option<Arc<State>>)> {
        let found = self
            .peek_notes(key, |notes, info| {
                match &new.parent {
                    Some(name) => notes.find(name).map(Some).ok_or_else(|| not_found(name)),
                    None => Ok(notes.latest(Some(&new.thread))),
                }
                .map(|found| {
                    let uncertain = |found| is_uncertain(notes, found, info);
                    found.map(|found| (found.clone(), notes.state_notes(found), uncertain(found)))
                })
            })
            .await??;
        let (before, chain, uncertain) = match found {
            Some((before, chain, uncertain)) => (Some(before), chain, uncertain),
            None => (None, Vec::new(), false),
        };
        let (label, thread) = (new.label.clone(), new.thread.clone());
        let says = CheckpointBody { trigger: *trigger, label, thread, ..Default::default() };
        let parent = before.as_ref().map(|before| before.id.clone());
        // A delta is pinned to the parent it was computed from, even if another checkpoint is
        // created concurrently.
        let pinned = CheckpointBody { parent, ..says.clone() };
        let alone = if new.parent.is_some() { pinned.clone() } else { says };
        let whole = |state: Arc<State>| {
            let base = Some((*state).clone());
            check_state_size(&to_json_text(&state))?;
            Ok((CheckpointBody { base, ..pinned.clone() }, Some(state)))
        };
        let wants = |bytes: usize| {
            before.as_ref().is_some_and(|before| Checkpoints::needs_full_state(before, bytes))
        };
        match (&new.state, &new.state_delta) {
            (Some(state), _) => {
                let state = Arc::new(state.clone());
                if uncertain {
                    // The state to compare with may differ from the acknowledged one.
                    return whole(state);
                }
                let old = self.get_state(key, &chain).await?;
                if old == state && before.is_some() {
                    return Ok((alone, None));
                }
                let delta = checkpoints::diff(&old, &state).filter(|_| before.is_some());
                let delta = delta.map(|delta| (to_json_text(&delta).len(), delta));
                match delta
                    .filter(|(bytes, _)| !wants(*bytes) && *bytes < to_json_text(&state).len())
                {
                    None => whole(state),
                    Some((_, delta)) => {
                        check_state_size(&to_json_text(&state))?;
                        Ok((CheckpointBody { delta: Some(delta), ..pinned }, Some(state)))
                    }
                }
            }
            (None, Some(delta)) if !delta.is_empty() => {
                let text = to_json_text(delta);
                check_state_size(&text)?;
                if !wants(text.len()) {
                    let delta = Some(delta.clone());
                    return Ok((CheckpointBody { delta, ..pinned }, None));
                }
                let mut state = (*self.get_state(key, &chain).await?).clone();
                checkpoints::merge(&mut state, delta.clone());
                whole(Arc::new(state))
            }
            _ => Ok((alone, None)),
        }
    }

    /// Returns a page of a session's checkpoints, newest first; of one thread if given.
    ///
    /// # Errors
    /// `invalid_request` for a limit out of bounds or a foreign page, and those of the session.
    pub async fn list_checkpoints(
        &self,
        caller: &Caller,
        session: &SessionId,
        limit: Option<usize>,
        page: Option<&str>,
        thread: Option<&str>,
    ) -> ServiceResult<CheckpointList> {
        let limit = page_limit(limit)?;
        let end = match page.map(|page| page::decode::<1>("c", page)).transpose()? {
            None => usize::MAX,
            Some([index]) => index
                .parse()
                .map_err(|_| ServiceError::invalid("page", "this is no page of this listing"))?,
        };
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        let listed = |notes: &Checkpoints, info: &SessionInfo| {
            let all = notes.all();
            let before = all.get(..end.min(all.len())).unwrap_or_default();
            let asked = before.iter().enumerate().rev().filter(|(_, one)| {
                thread.is_none_or(|thread| one.thread.as_deref() == Some(thread))
            });
            let mut found: Vec<(usize, Checkpoint)> = asked
                .take(limit + 1)
                .map(|(n, one)| (n, to_checkpoint(notes, one, info)))
                .collect();
            let more = found.len() > limit;
            found.truncate(limit);
            let last = found.last().filter(|_| more).map(|(index, _)| index.to_string());
            let data = found.into_iter().map(|(_, one)| one).collect();
            let next_page = last.map(|index| page::encode("c", &[&index]));
            CheckpointList { data, next_page, tail: info.tail }
        };
        self.peek_notes(&key, listed).await
    }

    /// Returns a checkpoint by its id or label, with its state and plan.
    ///
    /// # Errors
    /// `checkpoint_not_found`, and those of the session.
    pub async fn get_checkpoint(
        &self,
        caller: &Caller,
        session: &SessionId,
        name: &str,
    ) -> ServiceResult<CheckpointState> {
        let key = caller.key(session);
        self.store.use_session(&key).await?;
        self.checkpoint_state(&key, Some(name)).await?.ok_or_else(|| not_found(name))
    }

    /// Returns a checkpoint with its state; by default the last one.
    pub(super) async fn checkpoint_state(
        &self,
        key: &SessionKey,
        name: Option<&str>,
    ) -> ServiceResult<Option<CheckpointState>> {
        let look = |notes: &Checkpoints, info: &SessionInfo| {
            let found = match name {
                Some(name) => notes.find(name),
                None => notes.latest(None),
            };
            found.map(|found| {
                (to_checkpoint(notes, found, info), notes.state_notes(found), info.tail)
            })
        };
        let found = self.peek_notes(key, look).await?;
        let Some((checkpoint, chain, tail)) = found else { return Ok(None) };
        let state = Arc::unwrap_or_clone(self.get_state(key, &chain).await?);
        let plan = self.read_plan(key, checkpoint.position).await?;
        Ok(Some(CheckpointState { checkpoint, state, plan, tail }))
    }

    async fn read_plan(&self, key: &SessionKey, end: Position) -> ServiceResult<Option<Value>> {
        let Some(position) = self.find_nth_last(key, kinds::PLAN_UPDATED, 1, end).await? else {
            return Ok(None);
        };
        let read = ReadRequest {
            range: Range::new(position, position.plus(1)),
            events_max: 1,
            bytes_max: limits::EVENT_BYTES_MAX,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let events = self.store.read(key, read).await?.events;
        Ok(events.first().and_then(|event| serde_json::from_slice(&event.body).ok()))
    }

    /// Resumes from a checkpoint by its id or label, or from the last one. If it is not the last of
    /// its thread, a new checkpoint records that later ones follow it.
    ///
    /// # Errors
    /// `checkpoint_not_found`, `lease_held`, `lease_lost`, and those of the session.
    pub async fn resume(
        &self,
        caller: &Caller,
        session: &SessionId,
        name: Option<&str>,
        key: Option<BatchKey>,
    ) -> ServiceResult<ResumeAnswer> {
        let session_key = caller.key(session);
        self.store.use_session(&session_key).await?;
        let from = self.checkpoint_state(&session_key, name).await?;
        let checkpoint = from.ok_or_else(|| not_found(name.unwrap_or("(any)")))?;
        let one = &checkpoint.checkpoint;
        let again = self.find_earlier_call(&session_key, key.as_ref()).await?;
        let last = self
            .peek_notes(&session_key, |notes, _| {
                notes.latest(Some(&one.thread)).is_some_and(|last| last.id == one.id)
            })
            .await?;
        let (resumed_as, tail) = if let EarlierCall::Made(again, tail) = again {
            (again, tail)
        } else if last {
            (one.clone(), checkpoint.tail)
        } else {
            let (thread, parent) = (one.thread.clone(), Some(one.id.clone()));
            let asked = CreateCheckpoint { thread, parent, ..CreateCheckpoint::default() };
            let (at, trigger) = (Some(Point::At(one.position)), Trigger::Resume);
            self.create_checkpoint(caller, session, NewCheckpoint { asked, at, trigger, key })
                .await?
        };
        let behind = Range::new(one.position, tail);
        Ok(ResumeAnswer { checkpoint, resumed_as, behind })
    }

    /// Creates a checkpoint in every session that changed since its last one and was written to
    /// within the last two rounds; returns their number. These do not count as use: they extend no
    /// lifetime, and no lease blocks them.
    pub async fn checkpoint_changed(&self, every: std::time::Duration) -> usize {
        const SESSIONS_MAX: usize = 10_000;
        let micros = i64::try_from(every.as_micros()).unwrap_or(i64::MAX).saturating_mul(2);
        let since = self.now().plus_micros(micros.saturating_neg());
        let mut made = 0;
        let unmarked =
            self.store.list_unmarked(since, SESSIONS_MAX).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "no checkpoints were made in this round");
                Vec::new()
            });
        for key in unmarked {
            if crate::access::is_reserved(&key.scope.user) || is_notebook(&key.session) {
                continue;
            }
            let Ok(info) = self.store.info(&key).await else { continue };
            let body = CheckpointBody { trigger: Trigger::Timer, ..Default::default() };
            let note = NewNote { idle: true, ..self.plain_note(&info, None, &body) };
            match self.await_durable(self.store.write_note(&key, None, note)).await {
                Ok(_) => made += 1,
                Err(StoreError::SessionDeleted { .. } | StoreError::SessionExpired { .. }) => {}
                Err(error) => {
                    tracing::warn!(session = %key.session, %error, "no checkpoint was made of it");
                }
            }
        }
        made
    }
}

fn check_request(new: &CreateCheckpoint) -> ServiceResult<()> {
    for (field, text) in [("label", &new.label), ("thread", &new.thread)] {
        let Some(text) = text else { continue };
        let chars = text.chars().count();
        if chars == 0 || chars > limits::NOTE_NAME_CHARS_MAX {
            let problem = format!("from 1 to {} characters", limits::NOTE_NAME_CHARS_MAX);
            return Err(ServiceError::invalid(field, problem));
        }
    }
    if new.state.is_some() && new.state_delta.is_some() {
        let problem = "the whole state and what changed of it do not go together";
        return Err(ServiceError::invalid("state_delta", problem).action("send one of both"));
    }
    Ok(())
}

fn check_state_size(text: &str) -> ServiceResult<()> {
    if text.len() <= limits::STATE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the state is larger than {} bytes", limits::STATE_BYTES_MAX);
    Err(ServiceError::new(Code::BodyTooLarge, message)
        .action("keep what is large in events or files, and its place in the state"))
}

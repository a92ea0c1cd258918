//! `restore`: passes the work of a workspace's session to its successor within a budget, and links
//! both. Concurrent callers create one successor, a repeat returns the same, and without `create`
//! nothing is written. It must not choose the content: harness does.

use std::collections::BTreeMap;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult,
    added::new_event,
    chain::ChainLink,
    links::{continues_name, is_secondary_import, restored_from_name, restored_session, saved_at},
    session_summary::{SessionSummary, summarize},
    store_error::write_error,
    titles::title_reference,
    values::{self, check_workspace},
};
use crate::{
    api::handoff::{BudgetShare, Look, LooksAnswer, LooksRequest, RestoreRequest, RestoredAnswer},
    event::{Batch, BatchKey, NewEvent, Position, SessionId, kinds, limits, text::clip},
    harness::{
        self, CONTEXT_ITEMS_MAX, ItemOrder, PRIORITY_THRESHOLD, PriorityParts, RESTORE_TOKENS,
        RESTORE_TOKENS_MAX, RESTORE_TOKENS_MIN, RestoreParameters, Tokenizer,
    },
    projection::{
        Facts,
        body::{self, PositionBody, RestoredBody, RestoredItemBody},
    },
    search::{Rarity, Vector},
    store::{NewSession, SessionInfo, StoreError},
};

/// Maximum number of sessions searched for the one to restore.
const LATEST_MAX: usize = 100;
/// Maximum number of successors with work of one session.
const SUCCESSORS_MAX: u32 = 256;
/// Maximum number of chosen items recorded with a restore.
const RECORDED_MAX: usize = 400;
/// Maximum number of sessions named because they were not chosen.
const NOTICES_MAX: usize = 3;
/// Maximum characters of a text that describes the session's request.
const WANTED_CHARS_MAX: usize = 1_200;
/// Number of hexadecimal digits in the id of a successor.
const ID_DIGITS: usize = 24;
/// Maximum threshold, and maximum number of items.
const THRESHOLD_MAX: u8 = 10;
const ITEMS_MAX: usize = 500;
/// Metadata name for the call that created a successor.
const CALL: &str = "restored_call";

/// Sessions that a restore names, and its idempotency key.
#[derive(Clone, Debug, Default)]
pub(super) struct RestoreNames {
    pub(super) session: Option<SessionId>,
    /// Successor: the session in which the caller works. If absent, one is created.
    pub(super) successor: Option<SessionId>,
    /// Idempotency key: a retry returns the same result.
    pub(super) key: Option<BatchKey>,
}

/// Defaults of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Minimum priority of a context item.
    pub threshold: u8,
    /// Maximum number of context items.
    pub items_max: usize,
    /// Directories outside of the workspace whose files a save may refer to.
    pub files_roots: Vec<String>,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        let files_roots = Vec::new();
        Self { threshold: PRIORITY_THRESHOLD, items_max: CONTEXT_ITEMS_MAX, files_roots }
    }
}

struct ChosenSession {
    info: SessionInfo,
    /// End of the restored part; `None` for the tail.
    at: Option<Position>,
    notices: Vec<String>,
    /// True if the caller did not name it.
    is_latest: bool,
}

impl Service {
    /// Restores a session of a workspace, and creates its successor.
    ///
    /// # Errors
    /// `invalid_request` naming the invalid member, `session_not_found` for a session or successor
    /// of another workspace and for a workspace without work, `idempotency_conflict`, and those of
    /// the sessions and the engine.
    pub async fn restore_work(
        &self,
        caller: &Caller,
        workspace: &str,
        request: RestoreRequest,
        key: Option<BatchKey>,
        is_text: bool,
    ) -> ServiceResult<RestoredAnswer> {
        let session = values::parse_session("session_id", request.session_id.as_deref())?;
        let successor = values::parse_session("successor_id", request.successor_id.as_deref())?;
        let named = RestoreNames { session, successor, key };
        check_workspace(workspace)?;
        let asked = parse_request(workspace, &request, &self.restoring, is_text)?;
        if let Some(own) = &named.successor {
            self.get_in_workspace(caller, workspace, own).await.map_err(successor_error)?;
        }
        let mut damaged = Vec::new();
        let (choice, (mut answer, mut chosen)) = loop {
            let choice = match self.choose_to_restore(caller, workspace, &named, &damaged).await {
                Err(error) => {
                    return Err(damaged.into_iter().next().map_or(error, |(_, damaged)| damaged));
                }
                Ok(choice) => choice,
            };
            match self.build_restore(caller, &choice, &asked, named.successor.as_ref()).await {
                Ok(given) => break (choice, given),
                // If the caller named none, a damaged session is skipped and reported.
                Err(error) if error.code.has_lost_events() && choice.is_latest => {
                    damaged.push((choice.info, error));
                }
                Err(error) => return Err(error),
            }
        };
        let ChosenSession { info, notices, .. } = choice;
        answer.saved_at = saved_at(&info);
        answer.notices = notices;
        if asked.continues {
            chosen.truncate(RECORDED_MAX);
            let (from, position) = (info.key.session.to_string(), answer.position);
            let body = RestoredBody {
                from: PositionBody { session: from, position: position.0 },
                tokens_max: answer.tokens_max,
                chosen,
                weights: weights(&asked, &answer.budget),
            };
            let (made, notice) =
                self.ensure_successor(caller, &info, position, &named, body::write(&body)).await?;
            answer.notices.extend(notice);
            answer.session_id = Some(made);
        }
        Ok(answer)
    }

    /// Records checks of a restore's files, durable on return: in the session that the restore
    /// created, else in the workspace's notebook, where they do not make a session the latest.
    ///
    /// # Errors
    /// `invalid_request` without a check, `session_not_found` for a session of another workspace,
    /// and those of the engine.
    pub async fn record_file_checks(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: LooksRequest,
        key: Option<BatchKey>,
    ) -> ServiceResult<LooksAnswer> {
        let session = values::parse_session("session_id", asked.session_id.as_deref())?;
        check_workspace(workspace)?;
        if asked.looks.is_empty() {
            return Err(ServiceError::invalid("looks", "at least one is expected"));
        }
        let looked = |look: &Look| new_event(kinds::FILE_CHECKED, caller.origin, body::write(look));
        let events = asked.looks.iter().map(looked).collect();
        let batch = Batch { events, key, ..Batch::default() };
        let (session, appended) = match session {
            Some(session) => {
                self.get_in_workspace(caller, workspace, &session).await?;
                let appended = self.append(caller, &session, batch, false).await?;
                (session, appended)
            }
            None => {
                let (session, _) = self.find_notebook(caller, workspace).await?;
                let kept = self.append_to_notebook(caller, &session, workspace, batch).await?;
                (session, kept)
            }
        };
        let first = appended.events.first().map(|placed| placed.position);
        let first = first.ok_or_else(|| ServiceError::new(Code::InternalError, "no place"))?;
        Ok(LooksAnswer { session, position: first })
    }

    /// Returns the content that a chosen session passes on, and the list of chosen items.
    async fn build_restore(
        &self,
        caller: &Caller,
        choice: &ChosenSession,
        asked: &RestoreParameters,
        successor: Option<&SessionId>,
    ) -> ServiceResult<(RestoredAnswer, Vec<RestoredItemBody>)> {
        let (info, asked) = (&choice.info, asked.clone());
        let wanted = match successor {
            // Requests in the caller's own session take precedence over those in the restored one.
            Some(own) if *own != info.key.session => {
                self.peek_facts(&caller.key(own), |_, facts| collect_requests(facts)).await?
            }
            _ => Vec::new(),
        };
        let session = info.key.session.clone();
        let look = move |facts: &Facts| {
            let likeness = likeness(facts, &wanted);
            harness::restore(facts, &session, &asked, Tokenizer::O200k, &likeness)
        };
        let at = choice.at.filter(|at| *at < info.tail);
        self.view_chain_as_of(&info.key, at, look).await
    }

    /// Returns the sessions that a session of a workspace continues and those that continue it,
    /// earliest first; without an id, those of the session that a restore would choose.
    ///
    /// # Errors
    /// `session_not_found`, and those of the engine.
    pub async fn get_chain(
        &self,
        caller: &Caller,
        workspace: &str,
        session: Option<&SessionId>,
    ) -> ServiceResult<Vec<ChainLink>> {
        check_workspace(workspace)?;
        let named = RestoreNames { session: session.cloned(), ..RestoreNames::default() };
        let chosen = self.choose_to_restore(caller, workspace, &named, &[]).await?;
        self.list_chain(caller, &chosen.info.key.session).await
    }

    /// Returns a session with its links, its state, and its tokens when it was saved.
    ///
    /// # Errors
    /// Those of the session.
    pub async fn session_details(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<(ChainLink, SessionSummary, Option<u64>)> {
        let chain = self.list_chain(caller, session).await?;
        let link = chain.into_iter().find(|link| link.info.key.session == *session);
        let link = link.ok_or_else(|| ServiceError::new(Code::InternalError, "no such link"))?;
        let look = |info: &SessionInfo, facts: &Facts| {
            (summarize(info.clone(), facts), facts.saved.tokens())
        };
        let (past, tokens) = self.view_facts(&caller.key(session), look).await?;
        Ok((link, past, tokens))
    }

    /// Returns true if nothing was recorded in a session since it was saved.
    pub async fn is_just_saved(&self, caller: &Caller, session: &SessionId) -> bool {
        let info = self.store.info(&caller.key(session)).await;
        info.is_ok_and(|info| saved_at(&info) == Some(info.tail))
    }

    /// Returns true if nothing was done in a session yet.
    pub async fn is_unused(&self, caller: &Caller, session: &SessionId) -> bool {
        match self.store.info(&caller.key(session)).await {
            Ok(info) => !self.has_work(&info).await,
            Err(_) => false,
        }
    }

    /// Chooses the session to restore: that of an earlier attempt; the named one; else the last
    /// saved one, or its successor; else the latest with work. Damaged ones are excluded.
    async fn choose_to_restore(
        &self,
        caller: &Caller,
        workspace: &str,
        named: &RestoreNames,
        damaged: &[(SessionInfo, ServiceError)],
    ) -> ServiceResult<ChosenSession> {
        let latest = self.list_latest(caller, Some(&workspace.to_owned()), LATEST_MAX).await?;
        if let Some(made) = self.retried_successor(&latest, named)? {
            let Some((from, at)) = restored_session(made) else {
                return Err(Self::no_session_error(workspace, None));
            };
            let info = self.get_in_workspace(caller, workspace, &from).await?;
            return Ok(ChosenSession { info, at: Some(at), notices: Vec::new(), is_latest: false });
        }
        if let Some(session) = &named.session {
            let info = self.get_in_workspace(caller, workspace, session).await?;
            return Ok(ChosenSession { info, at: None, notices: Vec::new(), is_latest: false });
        }
        let mut worked = Vec::new();
        let is_whole = |info: &SessionInfo| damaged.iter().all(|(other, _)| other.key != info.key);
        for info in latest.into_iter().filter(is_whole) {
            let is_own = named.successor.as_ref() == Some(&info.key.session);
            let is_meant = (!is_own || saved_at(&info).is_some()) && !is_secondary_import(&info);
            if is_meant && self.has_work(&info).await {
                worked.push(info);
            }
        }
        let saved = worked.iter().find(|info| saved_at(info).is_some());
        let Some(mut chosen) = saved.or_else(|| worked.first()) else {
            return Err(Self::no_session_error(workspace, None));
        };
        // A successor has more recent work.
        for _ in 0..worked.len() {
            let continued = |info: &&SessionInfo| {
                restored_session(info).is_some_and(|(from, _)| from == chosen.key.session)
            };
            let Some(next) = worked.iter().find(continued) else { break };
            chosen = next;
        }
        let info = chosen.clone();
        let line = self.prior_sessions(&info.key).await?;
        let is_other = |other: &&SessionInfo| {
            other.worked_at() > info.worked_at()
                && !line.iter().any(|link| link.key == other.key)
                && named.successor.as_ref() != Some(&other.key.session)
        };
        let later = worked.iter().filter(is_other).take(NOTICES_MAX);
        let passed = damaged.iter().take(NOTICES_MAX).map(|(other, error)| {
            let written = other.worked_at();
            format!("{}; it was written to last ({written}) and is passed over", error.message)
        });
        let notices = passed
            .chain(later.map(|other| {
                let (session, written) = (&other.key.session, other.worked_at());
                format!(
                    "session {session} was written to later ({written}) and not saved; name it to \
                     restore it"
                )
            }))
            .collect();
        Ok(ChosenSession { info, at: None, notices, is_latest: true })
    }

    /// Returns the successor of a session: the caller's own, one without work, or a new one; with a
    /// notice for the caller, if any.
    pub(super) async fn ensure_successor(
        &self,
        caller: &Caller,
        before: &SessionInfo,
        position: Position,
        named: &RestoreNames,
        body: bytes::Bytes,
    ) -> ServiceResult<(SessionId, Option<String>)> {
        let from = &before.key.session;
        let event = new_event(kinds::SESSION_RESTORED, caller.origin, body);
        if let Some(own) = &named.successor {
            if own == from {
                return Ok((own.clone(), None));
            }
            let info = self.store.info(&caller.key(own)).await?;
            if let Some(notice) = self.reason_unlinked(caller, before, &info).await? {
                return Ok((own.clone(), Some(format!("{notice}: nothing was linked"))));
            }
            self.record_continuation(caller, &info, (from, position), event).await?;
            return Ok((own.clone(), None));
        }
        for number in 0..SUCCESSORS_MAX {
            let id = successor_id(from, number);
            let info = match self.store.info(&caller.key(&id)).await {
                Err(StoreError::SessionNotFound { .. }) => {
                    match self
                        .create_successor(caller, before, &id, position, named, &event)
                        .await?
                    {
                        Some(made) => return Ok((made, None)),
                        // Another caller created it concurrently.
                        None => self.store.info(&caller.key(&id)).await?,
                    }
                }
                Err(StoreError::SessionDeleted { .. } | StoreError::SessionExpired { .. }) => {
                    continue;
                }
                found => found?,
            };
            let is_retry = self.retried_successor(std::slice::from_ref(&info), named)?.is_some();
            if is_retry {
                return Ok((id, None));
            }
            if info.archived_at.is_none() && !self.has_work(&info).await {
                self.record_continuation(caller, &info, (from, position), event).await?;
                return Ok((id, None));
            }
        }
        let message = format!("{SUCCESSORS_MAX} sessions continue {from} already");
        Err(ServiceError::new(Code::LimitReached, message)
            .action("restore one of those that continue it, or look with create=false"))
    }

    /// Returns the reason why a session cannot become a successor: it already has links in a chain,
    /// which other sessions may have read.
    async fn reason_unlinked(
        &self,
        caller: &Caller,
        before: &SessionInfo,
        own: &SessionInfo,
    ) -> ServiceResult<Option<String>> {
        let (from, id) = (&before.key.session, &own.key.session);
        match restored_session(own) {
            Some((known, _)) if known == *from => return Ok(None),
            Some((other, _)) => return Ok(Some(format!("session {id} continues {other} already"))),
            None => {}
        }
        let line = self.prior_sessions(&before.key).await?;
        if line.iter().any(|link| link.key.session == *id) {
            return Ok(Some(format!("session {from} continues {id}")));
        }
        let mut next = self.list_successors(caller, own.workspace.as_deref()).await?;
        let next = next
            .remove(id)
            .unwrap_or_default()
            .into_iter()
            .find(|next| restored_session(next).is_some_and(|(known, _)| known == *id));
        Ok(next.map(|next| format!("session {} continues {id} already", next.key.session)))
    }

    /// Records in a session that it continues another, unless it is recorded already.
    async fn record_continuation(
        &self,
        caller: &Caller,
        info: &SessionInfo,
        (from, position): (&SessionId, Position),
        event: NewEvent,
    ) -> ServiceResult<()> {
        if restored_session(info).is_some_and(|known| known == (from.clone(), position)) {
            return Ok(());
        }
        let links = link_metadata(from, position).into_iter();
        let batch = Batch {
            events: [event].into(),
            metadata: links.map(|(name, value)| (name, Some(value))).collect(),
            ..Batch::default()
        };
        self.append(caller, &info.key.session, batch, false).await?;
        Ok(())
    }

    /// Creates a session that starts with its link; `None` if it already exists.
    async fn create_successor(
        &self,
        caller: &Caller,
        before: &SessionInfo,
        id: &SessionId,
        position: Position,
        named: &RestoreNames,
        event: &NewEvent,
    ) -> ServiceResult<Option<SessionId>> {
        let mut metadata = link_metadata(&before.key.session, position);
        if let Some(key) = &named.key {
            metadata
                .insert(call_name(), format!("{:032x}", u128::from_be_bytes(self.key_digest(key))));
        }
        metadata.extend(title_reference(before));
        let title = before.title.as_ref().map(|title| clip(title, limits::TITLE_CHARS_MAX));
        let new = NewSession {
            id: Some(id.clone()),
            title,
            workspace: before.workspace.clone(),
            metadata,
            events: Batch { events: [event.clone()].into(), ..Batch::default() },
            ..NewSession::default()
        };
        self.reserve_quota(&caller.scope.tenant, 1, 2, new.text_bytes() + event.body.len()).await?;
        match self.await_durable(self.store.create(&caller.scope, new)).await {
            Ok((info, _)) => Ok(Some(info.key.session)),
            Err(StoreError::SessionExists { .. }) => Ok(None),
            Err(error) => Err(write_error(error)),
        }
    }

    /// Returns the successor that an earlier attempt of the same call created.
    fn retried_successor<'a>(
        &self,
        sessions: &'a [SessionInfo],
        named: &RestoreNames,
    ) -> ServiceResult<Option<&'a SessionInfo>> {
        let Some(key) = &named.key else { return Ok(None) };
        let sent = self.key_digest(key);
        for info in sessions {
            let known = info.metadata.get(&call_name());
            let known = known.and_then(|digits| u128::from_str_radix(digits, 16).ok());
            match known.and_then(|known| BatchKey::is_retry(known.to_be_bytes(), sent)) {
                Some(true) => return Ok(Some(info)),
                Some(false) => {
                    let what = key.to_string();
                    return Err(StoreError::IdempotencyConflict { what, position: None }.into());
                }
                None => {}
            }
        }
        Ok(None)
    }
}

fn successor_error(mut error: ServiceError) -> ServiceError {
    error.hint.field = Some("successor_id".to_owned());
    match error.code {
        Code::SessionNotFound => {
            error.action("name a session of work of this workspace, or none: then one is made")
        }
        _ => error,
    }
}

fn call_name() -> String {
    format!("{}{CALL}", super::RESERVED_METADATA)
}

/// Returns the metadata of a session that continues another.
fn link_metadata(from: &SessionId, position: Position) -> BTreeMap<String, String> {
    [(continues_name(), from.to_string()), (restored_from_name(), format!("{from}@{position}"))]
        .into()
}

fn successor_id(session: &SessionId, number: u32) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 id of a successor");
    let hash = hasher.update(&number.to_be_bytes()).update(session.as_str().as_bytes());
    let digits: String = hash.finalize().to_hex().chars().take(ID_DIGITS).collect();
    SessionId::new(&format!("next_{digits}")).expect("digits are characters of an id")
}

/// Builds the request to harness and checks its limits.
fn parse_request(
    workspace: &str,
    request: &RestoreRequest,
    usual: &RestoreOptions,
    is_text: bool,
) -> ServiceResult<RestoreParameters> {
    let tokens_max = request.tokens_max.unwrap_or(RESTORE_TOKENS);
    if tokens_max < RESTORE_TOKENS_MIN {
        let problem = format!("at least {RESTORE_TOKENS_MIN}");
        return Err(ServiceError::invalid("tokens_max", problem));
    }
    let threshold = request.priority_threshold.unwrap_or(usual.threshold);
    if threshold > THRESHOLD_MAX {
        return Err(ServiceError::invalid("priority_threshold", "from 0 to 10"));
    }
    let items_max = request.max_context_items.unwrap_or(usual.items_max);
    if items_max > ITEMS_MAX {
        return Err(ServiceError::invalid("max_context_items", format!("at most {ITEMS_MAX}")));
    }
    let by = match request.algorithm.as_deref() {
        None => ItemOrder::default(),
        Some(name) => ItemOrder::parse(name).ok_or_else(|| {
            let names = ItemOrder::ALL.map(ItemOrder::as_str).join(", ");
            ServiceError::invalid("algorithm", format!("one of {names} is expected"))
        })?,
    };
    Ok(RestoreParameters {
        tokens_max: tokens_max.min(RESTORE_TOKENS_MAX),
        threshold,
        items_max,
        compress: request.summarize != Some(false),
        by,
        workspace: workspace.to_owned(),
        explain: request.explain,
        continues: request.create != Some(false),
        is_text,
    })
}

/// Returns the weights of a score and of the budget, for the record.
fn weights(
    asked: &RestoreParameters,
    budget: &BTreeMap<String, BudgetShare>,
) -> BTreeMap<String, u64> {
    let named =
        PriorityParts::WEIGHTS.into_iter().chain([("threshold", u64::from(asked.threshold))]);
    let named = named.map(|(name, weight)| (name.to_owned(), weight));
    let shares = budget.iter().map(|(name, share)| (format!("share.{name}"), share.percent));
    named.chain(shares).collect()
}

/// Returns the requests to a session: the user's latest message, the step of the plan, the task,
/// and the state that its client reported.
fn collect_requests(facts: &Facts) -> Vec<String> {
    let context = facts.saved.context().map(|saved| {
        let from = saved.text.ceil_char_boundary(saved.text.len().saturating_sub(WANTED_CHARS_MAX));
        saved.text.get(from..).unwrap_or_default()
    });
    let asked = harness::work_texts(facts).into_iter().flatten();
    let asked = asked.map(|text| clip(text, WANTED_CHARS_MAX));
    asked.chain(context.map(str::to_owned)).collect()
}

/// Returns a function that rates the similarity of a text to these requests, or else to those of
/// the session, by `hash-512`, from 0 to 1 000.
fn likeness(facts: &Facts, asked: &[String]) -> impl Fn(&str) -> usize {
    let rarity = Rarity::from_texts(facts.findings.sentences().iter().map(|one| &*one.text));
    let own = if asked.is_empty() { collect_requests(facts) } else { Vec::new() };
    let wanted = asked.iter().chain(&own).map(|text| Vector::from_text(text, &rarity));
    let wanted: Vec<Vector> = wanted.collect();
    move |text| {
        let vector = Vector::from_text(text, &rarity);
        let alike = wanted.iter().map(|one| one.cosine(&vector)).fold(0.0, f64::max) * 1_000.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1 000")]
        let alike = alike.clamp(0.0, 1_000.0).round() as usize;
        alike
    }
}

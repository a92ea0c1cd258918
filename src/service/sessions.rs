//! Verbs on whole sessions: create, list, get, update, archive, delete. Checks the limits of a
//! session's title and metadata. It must not read or write events.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Caller, ContextLimits, NextAction, RESERVED_METADATA, Service, ServiceError, ServiceResult,
    SessionStatus,
    added::may_have_due_events,
    agent,
    append::check_batch,
    error::check_count,
    hosted::{self, MetadataPair, check_names},
    injected,
    notebook::{check_not_notebook, exclude_notebooks},
    page::{self, page_limit},
    status,
    store_error::write_error,
    titles::title_of_name,
    values::parse_session_id,
};
use crate::{
    api::{
        hosted::Thread,
        sessions::{CreateSession, Session, SessionList, UpdateSession},
    },
    event::{Batch, BatchKey, NewEvent, SessionId, SessionKey, Timestamp, limits},
    store::{
        AppendResult, Criterion, Listing, ListingOrder, ListingPage, NewSession, SessionInfo,
        SessionUpdate, StoreError,
    },
};

/// Maximum number of notebooks skipped on a page without a filter.
const NOTEBOOKS_PASSED: usize = 1_000;

/// Filter of the sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    /// Page size; 100 by default, 1 000 at most.
    pub limit: Option<usize>,
    /// `next_page` of the previous response.
    pub page: Option<String>,
    /// True for the oldest first.
    pub ascending: bool,
    /// True to order by the last write instead of the creation.
    pub by_activity: bool,
    /// Workspace of the sessions.
    pub workspace: Option<String>,
    /// True to include archived sessions.
    pub include_archived: bool,
    /// Statuses of the sessions; empty for all.
    pub statuses: Vec<String>,
    /// Metadata pairs that the sessions must all have.
    pub metadata: Vec<MetadataPair>,
    /// Earliest creation time, inclusive.
    pub created_from: Option<Timestamp>,
    /// Latest creation time, exclusive.
    pub created_to: Option<Timestamp>,
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// Sessions in the requested order.
    pub sessions: Vec<SessionInfo>,
    /// Cursor of the next page, if any.
    pub next_page: Option<String>,
}

impl From<SessionPage> for SessionList {
    fn from(page: SessionPage) -> Self {
        let data = page.sessions.into_iter().map(Session::from).collect();
        Self { data, next_page: page.next_page }
    }
}

impl Service {
    /// Creates the session of a client's request with its first events atomically.
    ///
    /// # Errors
    /// Those of [`Self::create_session`].
    pub async fn begin_session(
        &self,
        caller: &Caller,
        asked: CreateSession,
        events: Vec<NewEvent>,
        key: Option<BatchKey>,
    ) -> ServiceResult<Session> {
        let mut metadata = asked.metadata.unwrap_or_default();
        check_names(metadata.keys())?;
        metadata.extend(hosted::agent_metadata(asked.agent, asked.environment_id)?);
        let title_of_event = asked.title_of.filter(|_| asked.title.is_none());
        metadata.extend(title_of_event.map(|position| (title_of_name(), position.to_string())));
        let new = NewSession {
            id: asked.id.as_deref().map(parse_session_id).transpose()?,
            title: asked.title,
            metadata,
            workspace: asked.workspace,
            ttl_seconds: asked.ttl_seconds,
            events: Batch { events: events.into(), ..Batch::default() },
            key,
            parent: None,
        };
        Ok(self.create_session(caller, new).await?.0.into())
    }

    /// Creates a session with its first events atomically.
    ///
    /// # Errors
    /// `session_exists`, `session_deleted`, `invalid_request`, and those of [`Self::emit`].
    pub async fn create_session(
        &self,
        caller: &Caller,
        mut new: NewSession,
    ) -> ServiceResult<(SessionInfo, AppendResult)> {
        new.id.as_ref().map_or(Ok(()), check_not_notebook)?;
        let events = Arc::make_mut(&mut new.events.events);
        self.prepare_events((&caller.scope, None), events, "initial_events").await?;
        check_text("title", new.title.as_deref(), limits::TITLE_CHARS_MAX)?;
        check_text("workspace", new.workspace.as_deref(), limits::WORKSPACE_CHARS_MAX)?;
        check_metadata(&new.metadata)?;
        if new.ttl_seconds.is_some_and(|seconds| i64::try_from(seconds).is_err()) {
            return Err(ServiceError::invalid("ttl_seconds", "more seconds than a clock has"));
        }
        let first = !new.events.events.is_empty();
        let bytes = if first { check_batch(&new.events)? } else { 0 };
        let records = 1 + new.events.events.len();
        let room = bytes + new.text_bytes();
        self.reserve_quota(&caller.scope.tenant, 1, records, room).await?;
        status::record_status(&mut new.events);
        injected::record_injected(&mut new.events);
        let starts = agent::record_start(&mut new.events);
        let batch = new.events.clone();
        if starts {
            self.agents.suspend_caching(&caller.scope);
        }
        let created =
            self.await_durable(self.store.create(&caller.scope, new)).await.map_err(write_error);
        if starts {
            self.agents.resume_caching(&caller.scope, &created);
        }
        let (mut info, mut appended) = created?;
        if first {
            self.count_append(&appended, bytes);
        }
        if !appended.repeated {
            self.write_first_checkpoint(&info, &batch).await;
        }
        if may_have_due_events(&batch.events) {
            self.add_due_events(caller, &info.key.session, &mut appended).await;
            info = self.store.info(&info.key).await?;
        }
        Ok((self.with_title(info).await, appended))
    }

    /// Returns a page of the caller's sessions. With a filter on status or metadata, it may have
    /// fewer than its limit, or none, and a next page: one request examines a bounded number.
    ///
    /// # Errors
    /// `invalid_request` for a limit out of bounds or a foreign page.
    pub async fn list_sessions(
        &self,
        caller: &Caller,
        query: SessionQuery,
    ) -> ServiceResult<SessionPage> {
        check_count("statuses[]", query.statuses.len())?;
        check_count("metadata[]", query.metadata.len())?;
        let archived =
            query.statuses.iter().any(|wanted| wanted == SessionStatus::Terminated.as_str());
        let limit = page_limit(query.limit)?;
        let is_filtered = !query.statuses.is_empty()
            || !query.metadata.is_empty()
            || (query.created_from, query.created_to) != (None, None);
        let listing = Listing {
            limit,
            looks: match (query.by_activity, is_filtered) {
                (true, _) => usize::MAX,
                (false, true) => limits::LIST_EXAMINED_MAX,
                (false, false) => limit + NOTEBOOKS_PASSED,
            },
            after: query.page.as_deref().map(parse_page).transpose()?,
            order: if query.by_activity { ListingOrder::Worked } else { ListingOrder::Created },
            ascending: query.ascending,
            include_archived: query.include_archived || archived,
            only: Some(query.criterion()),
            workspace: query.workspace,
            ..Listing::default()
        };
        let _slot = match query.by_activity {
            true => Some(self.compute.acquire_unlimited(&caller.scope.tenant).await?),
            false => None,
        };
        let ListingPage { mut sessions, next, .. } =
            self.store.list(&caller.scope, listing).await?;
        self.add_titles(&mut sessions).await;
        let next_page =
            next.map(|(at, session)| page::encode("s", &[&at.0.to_string(), session.as_str()]));
        Ok(SessionPage { sessions, next_page })
    }

    /// Returns sessions from an offset, newest first, and their total number.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn list_and_count_sessions(
        &self,
        caller: &Caller,
        workspace: Option<String>,
        offset: usize,
        limit: usize,
    ) -> ServiceResult<(Vec<SessionInfo>, usize)> {
        let listing = Listing {
            limit,
            skip: offset,
            count: true,
            workspace,
            only: Some(exclude_notebooks()),
            ..Listing::default()
        };
        let _slot = self.compute.acquire_unlimited(&caller.scope.tenant).await?;
        let ListingPage { mut sessions, selected, .. } =
            self.store.list(&caller.scope, listing).await?;
        self.add_titles(&mut sessions).await;
        Ok((sessions, selected))
    }

    /// Returns a session's record.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`.
    pub async fn get_session(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Session> {
        Ok(self.with_title(self.store.use_session(&caller.key(session)).await?).await.into())
    }

    /// Returns the thread of a session.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`.
    pub async fn get_thread(&self, caller: &Caller, session: &SessionId) -> ServiceResult<Thread> {
        Ok((&self.store.use_session(&caller.key(session)).await?).into())
    }

    /// Changes title and metadata. A title replaces one taken from an event.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, `invalid_request`, `quota_exceeded`.
    pub async fn update_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        asked: UpdateSession,
    ) -> ServiceResult<Session> {
        let key = caller.key(session);
        let UpdateSession { mut title, title_of: title_event, metadata } = asked;
        let mut metadata = metadata.unwrap_or_default();
        check_names(metadata.keys())?;
        let info = self.store.use_session(&key).await?;
        match title_event {
            Some(position) if title.is_none() => {
                title = Some(None);
                metadata.insert(title_of_name(), Some(position.to_string()));
            }
            _ if title.is_some() && info.metadata.contains_key(&title_of_name()) => {
                metadata.insert(title_of_name(), None);
            }
            _ => {}
        }
        check_text(
            "title",
            title.iter().flatten().next().map(String::as_str),
            limits::TITLE_CHARS_MAX,
        )?;
        if title.is_none() && metadata.is_empty() {
            return Ok(self.with_title(info).await.into());
        }
        let mut merged = info.metadata.clone();
        for (name, value) in &metadata {
            match value {
                Some(value) => merged.insert(name.clone(), value.clone()),
                None => merged.remove(name),
            };
        }
        check_metadata(&merged)?;
        if merged == info.metadata && title.as_ref().is_none_or(|title| *title == info.title) {
            return Ok(self.with_title(info).await.into());
        }
        let change = SessionUpdate { title, metadata, ..SessionUpdate::default() };
        self.reserve_quota(&key.scope.tenant, 0, 1, change.text_bytes()).await?;
        let info =
            self.await_durable(self.store.change(&key, change)).await.map_err(write_error)?;
        Ok(self.with_title(info).await.into())
    }

    /// Archives a session, which makes it read-only, or unarchives it. Both are idempotent.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`.
    pub async fn archive_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        archive: bool,
    ) -> ServiceResult<Session> {
        let key = caller.key(session);
        let info = self.store.info(&key).await?;
        if info.archived_at.is_some() == archive {
            return Ok(self.with_title(info).await.into());
        }
        let change = SessionUpdate { archive: Some(archive), ..SessionUpdate::default() };
        let info =
            self.await_durable(self.store.change(&key, change)).await.map_err(write_error)?;
        Ok(self.with_title(info).await.into())
    }

    /// Deletes a session: it is hidden immediately, and `session_deleted` during its grace period.
    /// Returns the end of that period; with `now` its bytes are removed immediately and for good.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, `session_held`; without `now` also
    /// `session_expired`, and `disk_full`, since nothing is freed.
    pub async fn delete_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        now: bool,
    ) -> ServiceResult<Option<Timestamp>> {
        let (service, session) = (self.clone(), session.clone());
        let key = caller.key(&session);
        self.run_to_completion(async move { service.delete(&key, session, now).await }).await
    }

    async fn delete(
        &self,
        key: &SessionKey,
        session: SessionId,
        now: bool,
    ) -> ServiceResult<Option<Timestamp>> {
        let change = SessionUpdate { delete: !now, discard: now, ..SessionUpdate::default() };
        match self.store.change(key, change).await {
            Ok(info) => {
                let lifetimes = self.store.lifetimes();
                Ok((!now).then(|| lifetimes.deleted_reclaim_at(info.used_at)))
            }
            Err(error @ StoreError::DiskFull(_)) => Err(write_error(error)
                .action("delete it without the possibility of restoring it, which frees its bytes")
                .next(NextAction::DeleteNow(session))),
            Err(error) => Err(write_error(error)),
        }
    }
}

/// Filter of a listing. Notebooks are never listed.
impl SessionQuery {
    /// Returns the condition of its sessions, except the one on their workspace.
    fn criterion(&self) -> Criterion {
        let began = self.created_from.map(Criterion::BeganFrom);
        let before = self.created_to.map(|to| Criterion::negate(Criterion::BeganFrom(to)));
        let statuses = self.statuses.iter().filter_map(|status| SessionStatus::parse(status));
        let statuses = Criterion::Any(statuses.map(SessionStatus::criterion).collect());
        let statuses = (!self.statuses.is_empty()).then_some(statuses);
        let pairs = self.metadata.iter().map(|wanted| {
            let pair = Criterion::Pair(wanted.name.clone(), wanted.value.clone());
            match wanted.usual.as_ref() == Some(&wanted.value) {
                true => {
                    let none = Criterion::negate(Criterion::Named(wanted.name.clone()));
                    Criterion::Any(vec![pair, none])
                }
                false => pair,
            }
        });
        let all = [Some(exclude_notebooks()), began, before, statuses].into_iter().flatten();
        Criterion::All(all.chain(pairs).collect())
    }
}

fn parse_page(page: &str) -> ServiceResult<(Timestamp, SessionId)> {
    let [created_at, session] = page::decode::<2>("s", page)?;
    match (created_at.parse(), SessionId::new(&session)) {
        (Ok(micros), Ok(session)) => Ok((Timestamp(micros), session)),
        _ => Err(ServiceError::invalid("page", "this is no page of this listing")),
    }
}

fn check_text(field: &str, text: Option<&str>, chars_max: usize) -> ServiceResult<()> {
    match text.map(|text| text.chars().count()) {
        Some(chars) if chars > chars_max => {
            let problem = format!("{chars} characters; {chars_max} are allowed");
            Err(ServiceError::invalid(field, problem))
        }
        _ => Ok(()),
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> ServiceResult<()> {
    let pairs = metadata.keys().filter(|name| !name.starts_with(RESERVED_METADATA)).count();
    if pairs > limits::METADATA_PAIRS_MAX {
        let problem = format!("{pairs} pairs; {} are allowed", limits::METADATA_PAIRS_MAX);
        return Err(ServiceError::invalid("metadata", problem));
    }
    for (name, value) in metadata {
        if name.is_empty() {
            return Err(ServiceError::invalid("metadata", "a key is empty"));
        }
        check_text("metadata", Some(name), limits::METADATA_KEY_CHARS_MAX)?;
        check_text(&format!("metadata.{name}"), Some(value), limits::METADATA_VALUE_CHARS_MAX)?;
        ContextLimits::check_metadata(name, value)?;
    }
    Ok(())
}

//! History of a scope: the goals of the sessions written to last, the starting point for the next
//! session of a workspace, and unfinished work. It must not count as a use of the sessions it
//! reads.

use super::{
    Caller, Service, ServiceError, ServiceResult, SessionStatus,
    checkpoints::to_checkpoint,
    is_notebook,
    session_summary::{SessionSummary, summarize},
};
use crate::{
    api::work::{Checkpoint, HistoryAnswer, LeftSession, PastSession, StartFrom},
    event::SessionKey,
    projection::checkpoints::Checkpoints,
    store::SessionInfo,
};

/// Default and maximum number of sessions in a history.
const SESSIONS_DEFAULT: usize = 20;
const SESSIONS_MAX: usize = 100;

/// Recent work of a scope.
#[derive(Clone, Debug)]
pub struct History {
    /// Sessions written to last.
    pub sessions: Vec<SessionSummary>,
    /// Last checkpoint among them marked as done, or else the last one of all.
    pub start_from: Option<StartFrom>,
    /// Sessions with unfinished work, last written first.
    pub unfinished: Vec<UnfinishedSession>,
}

/// A session with started work that is not marked as done.
#[derive(Clone, Debug)]
pub struct UnfinishedSession {
    /// Session record.
    pub info: SessionInfo,
    /// Last checkpoint of the session.
    pub checkpoint: Option<Checkpoint>,
    /// True if a harness still holds its lease.
    pub leased: bool,
}

impl From<SessionSummary> for PastSession {
    fn from(past: SessionSummary) -> Self {
        let SessionSummary { info, goal, summary, steps, gaps_open, complete, .. } = past;
        Self { session: info.into(), goal, summary, steps, gaps_open, complete }
    }
}

impl From<History> for HistoryAnswer {
    fn from(history: History) -> Self {
        let left = |UnfinishedSession { info, checkpoint, leased }| LeftSession {
            session: info.into(),
            last_checkpoint: checkpoint,
            leased,
        };
        Self {
            data: history.sessions.into_iter().map(PastSession::from).collect(),
            start_from: history.start_from,
            unfinished: history.unfinished.into_iter().map(left).collect(),
        }
    }
}

impl Service {
    /// Returns the sessions written to last, each with its goal and state.
    ///
    /// # Errors
    /// Those of reading a session; one deleted concurrently is omitted.
    pub async fn review_history(
        &self,
        caller: &Caller,
        workspace: Option<&String>,
        limit: usize,
    ) -> ServiceResult<Vec<SessionSummary>> {
        let mut history = Vec::new();
        for info in self.list_latest(caller, workspace, limit).await? {
            let past =
                self.peek_view(&info.key, |info, facts| summarize(info.clone(), facts)).await;
            match past {
                Ok(past) => history.push(past),
                Err(error) if error.code.is_gone() => {}
                // A session with lost events does not fail the list: its entry contains the error.
                Err(error) if error.code.has_lost_events() => history.push(SessionSummary {
                    info,
                    goal: String::new(),
                    summary: error.message,
                    steps: 0,
                    gaps_open: 0,
                    complete: false,
                    calls_open: 0,
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(history)
    }

    /// Returns recent work in a workspace, or in the whole scope.
    ///
    /// # Errors
    /// `invalid_request` for a limit out of bounds, and those of reading a session; one deleted
    /// concurrently is omitted.
    pub async fn history(
        &self,
        caller: &Caller,
        workspace: Option<&String>,
        limit: Option<usize>,
    ) -> ServiceResult<History> {
        let limit = limit.unwrap_or(SESSIONS_DEFAULT);
        if limit == 0 || limit > SESSIONS_MAX {
            let problem = format!("from 1 to {SESSIONS_MAX}, not {limit}");
            return Err(ServiceError::invalid("limit", problem));
        }
        let sessions = self.review_history(caller, workspace, limit).await?;
        let start_from = self.start_from(&sessions).await?;
        let workspace = workspace.map(String::as_str);
        let mut left = self.store.list_unfinished(&caller.scope, workspace, limit).await?;
        // The engine knows leases and checkpoints only; an open call, which `wake` also detects, is
        // found in the events.
        let is_left = |past: &&SessionSummary| {
            past.calls_open > 0 && SessionStatus::from_info(&past.info) != SessionStatus::Terminated
        };
        let open = sessions.iter().filter(is_left).map(|past| past.info.clone());
        let new: Vec<SessionInfo> =
            open.filter(|info| left.iter().all(|known| known.key != info.key)).collect();
        left.extend(new);
        left.sort_by_key(|info| std::cmp::Reverse(info.worked_at()));
        left.truncate(limit);
        let (counted, mut unfinished) = (self.store.counted_time(), Vec::new());
        for info in left.into_iter().filter(|info| !is_notebook(&info.key.session)) {
            let checkpoint = match info.work.checkpoint {
                Some(_) => self.last_checkpoint(&info.key).await.unwrap_or_default(),
                None => None,
            };
            let leased = info.work.is_leased(counted);
            let info = self.with_title(info).await;
            unfinished.push(UnfinishedSession { info, checkpoint, leased });
        }
        Ok(History { sessions, start_from, unfinished })
    }

    /// Returns the last checkpoint marked as done, or else the last one of all.
    async fn start_from(&self, sessions: &[SessionSummary]) -> ServiceResult<Option<StartFrom>> {
        let marked = || sessions.iter().filter(|past| past.info.work.checkpoint.is_some());
        let mut found = None;
        for past in marked() {
            let last_done = |notes: &Checkpoints, _: &SessionInfo| {
                let done = notes.all().iter().rev().find(|checkpoint| checkpoint.done);
                done.map(|checkpoint| checkpoint.id.clone())
            };
            if let Ok(Some(id)) = self.peek_notes(&past.info.key, last_done).await {
                found = Some((&past.info.key, Some(id)));
                break;
            }
        }
        let found = found.or_else(|| marked().next().map(|past| (&past.info.key, None)));
        let Some((key, id)) = found else { return Ok(None) };
        // If it was deleted or damaged meanwhile, there is no state.
        let found = self.checkpoint_state(key, id.as_deref()).await.unwrap_or_default();
        let session = key.session.to_string();
        Ok(found.map(|checkpoint| StartFrom { session, checkpoint }))
    }

    async fn last_checkpoint(&self, key: &SessionKey) -> ServiceResult<Option<Checkpoint>> {
        let last = |notes: &Checkpoints, info: &SessionInfo| {
            Some(to_checkpoint(notes, notes.latest(None)?, info))
        };
        self.peek_notes(key, last).await
    }
}

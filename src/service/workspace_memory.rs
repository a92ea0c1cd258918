//! Items of memory in a workspace's notebook and the last work in it, for later sessions. It must
//! not link a session.

use super::{
    Caller, Code, Service, ServiceResult,
    links::{continued_session, is_secondary_import},
    session_summary::{SessionSummary, summarize},
};
use crate::{
    event::{SessionId, SessionKey, Timestamp},
    harness::{self, EarlierSession, StartText, Tokenizer},
    projection::{Facts, StoredMemory},
    store::SessionInfo,
};

/// Maximum number of sessions examined for the last work, and of those shown in a line each.
const SESSIONS_MAX: usize = 32;
const LINES_MAX: usize = 5;
/// Divisor of a continuation's budget for items of memory.
const REMEMBERED_PART: usize = 10;
/// Maximum number of items of memory considered.
const ITEMS_MAX: usize = 32;

impl Service {
    /// Returns the items in the notebook of a workspace, most important first, then newest.
    pub(super) async fn list_workspace_items(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<StoredMemory>> {
        let notebooks = self.list_notebooks(caller, workspace).await?;
        let kept = match self.list_items(caller, &notebooks, Vec::new(), false).await {
            Ok((kept, _)) => kept.into_iter().take(ITEMS_MAX),
            Err(error) if error.code == Code::SessionNotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut items: Vec<StoredMemory> = kept.map(|kept| kept.item).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.importance.unwrap_or_default()));
        Ok(items)
    }

    /// Returns the last session with work (true), or else the last one with a request (false), and
    /// the other sessions in a line each.
    pub(super) async fn find_last_work(
        &self,
        caller: &Caller,
        workspace: &str,
        own: Option<&SessionId>,
        notices: &mut Vec<String>,
    ) -> ServiceResult<(Option<(SessionSummary, bool)>, StartText)> {
        let name = workspace.to_owned();
        let latest = self.list_latest(caller, Some(&name), SESSIONS_MAX).await?;
        let open = self.store.list_unfinished(&caller.scope, Some(workspace), SESSIONS_MAX).await?;
        let counted = self.store.counted_time();
        // A session leased by another harness is being worked in elsewhere.
        let is_other = |info: &SessionInfo| {
            Some(&info.key.session) != own
                && !is_secondary_import(info)
                && !info.work.is_leased(counted)
        };
        let (mut last, mut others) = (None, Vec::new());
        let mut before: Vec<(SessionKey, Timestamp)> = Vec::new();
        for info in latest.into_iter().filter(is_other) {
            if last.is_some() && others.len() >= LINES_MAX {
                break;
            }
            // The text of the last work covers them, unless one was worked in since.
            let worked_on = info.worked_at();
            if before.iter().any(|(key, until)| *key == info.key && worked_on <= *until) {
                continue;
            }
            let look = |info: &SessionInfo, facts: &Facts| {
                let past = summarize(info.clone(), facts);
                let outcome = (harness::session_outcome(facts), harness::standing_rules(facts));
                (past, harness::has_work(facts), outcome)
            };
            match self.peek_view(&info.key, look).await {
                Ok((past, true, _)) if last.is_none() => {
                    let mut until = past.info.created_at;
                    for link in self.prior_sessions(&past.info.key).await?.into_iter().rev() {
                        before.push((link.key, std::mem::replace(&mut until, link.created_at)));
                    }
                    last = Some(past);
                }
                Ok((past, _, outcome)) if !past.goal.is_empty() => others.push((past, outcome)),
                Ok(_) => {}
                Err(error) if error.code.is_gone() => {}
                // The other sessions do not depend on it.
                Err(error) if error.code.has_lost_events() => notices.push(error.message),
                Err(error) => return Err(error),
            }
        }
        let has_work = last.is_some();
        if !has_work && !others.is_empty() {
            last = Some(others.remove(0).0);
        }
        let line =
            |(past, (outcome, rules)): (SessionSummary, (String, Vec<String>))| EarlierSession {
                at: past.info.worked_at(),
                is_open: past.calls_open > 0 || open.iter().any(|info| info.key == past.info.key),
                session: past.info.key.session.to_string(),
                asked: past.goal,
                outcome,
                rules,
            };
        let earlier = others.into_iter().take(LINES_MAX).map(line).collect();
        Ok((last.map(|past| (past, has_work)), StartText { earlier, ..StartText::new(workspace) }))
    }

    /// Formats the items in the notebook of a session's workspace, within a tenth of the token
    /// budget; empty if they cannot be read.
    pub(super) async fn format_workspace_items(
        &self,
        caller: &Caller,
        session: &SessionId,
        tokens_max: usize,
    ) -> ServiceResult<String> {
        let Some(workspace) = self.store.info(&caller.key(session)).await?.workspace else {
            return Ok(String::new());
        };
        let room = tokens_max / REMEMBERED_PART;
        match self.list_workspace_items(caller, &workspace).await {
            Ok(items) => Ok(harness::memory_list(&items, room, Tokenizer::O200k)),
            Err(error) if error.code.has_lost_events() => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// Formats a line that names the last work of the workspace, for a session without work; empty
    /// for one that continues another.
    pub(super) async fn format_last_work(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<String> {
        let key = caller.key(session);
        let info = self.store.info(&key).await?;
        let continues = continued_session(&info).is_some();
        let Some(workspace) = info.workspace.as_deref().filter(|_| !continues) else {
            return Ok(String::new());
        };
        let found = self.find_last_work(caller, workspace, Some(session), &mut Vec::new()).await?;
        let Some((past, true)) = found.0 else { return Ok(String::new()) };
        // Rules that cannot be read are omitted; reading the named session returns the error.
        let rules = self.view_chain_as_of(&past.info.key, None, harness::user_rules).await;
        let (name, rules) = (past.info.key.session.as_str(), rules.unwrap_or_default());
        let at = past.info.worked_at();
        Ok(harness::pointer_line(name, at, &past.goal, &rules))
    }
}

//! Tokens of many sessions, by day, model, session or workspace. It must not count a request twice:
//! what a fork inherits is its parent's.

use std::cmp::Reverse;

use indexmap::IndexMap;

use super::{Caller, Service, ServiceError, ServiceResult};
use crate::{
    api::views::{TokenTotals, TotalUsage, UsageShare},
    event::Timestamp,
    projection::{
        Facts,
        usage::{UsageRow, add, add_shares, day_of},
    },
    store::SessionInfo,
};

/// Most sessions of one answer, those written to last.
const SESSIONS_MAX: usize = 500;

/// Requests that are asked for.
#[derive(Clone, Debug, Default)]
pub struct UsageSelection {
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// First and last day, in UTC.
    pub days: [Option<Timestamp>; 2],
    /// Key of the rows: `day` by default, `model`, `session` or `workspace`.
    pub by: Option<String>,
}

/// Key of the rows.
#[derive(Clone, Copy, Debug)]
enum UsageKey {
    Day,
    Model,
    Session,
    Workspace,
}

impl Service {
    /// Counts the tokens of the sessions that a caller may read, as their harnesses reported them.
    ///
    /// # Errors
    /// `invalid_request` for an unknown key, and those of reading a session; one that was deleted
    /// meanwhile, or is damaged, is left out.
    pub async fn total_usage(
        &self,
        caller: &Caller,
        selection: UsageSelection,
    ) -> ServiceResult<TotalUsage> {
        let by = match selection.by.as_deref() {
            None | Some("day") => UsageKey::Day,
            Some("model") => UsageKey::Model,
            Some("session") => UsageKey::Session,
            Some("workspace") => UsageKey::Workspace,
            Some(other) => {
                let problem = format!("day, model, session or workspace, not {other:?}");
                return Err(ServiceError::invalid("by", problem));
            }
        };
        let days = selection.days.map(|at| at.map(day_of));
        let workspace = selection.workspace.as_ref();
        let mut found = self.list_latest(caller, workspace, SESSIONS_MAX + 1).await?;
        let mut complete = found.len() <= SESSIONS_MAX;
        found.truncate(SESSIONS_MAX);
        let (mut shares, mut total, mut sessions) = (IndexMap::new(), TokenTotals::default(), 0);
        for info in found {
            let rows = match self.own_usage(&info).await {
                Ok(rows) => rows,
                Err(error) if error.code.is_gone() => continue,
                Err(error) if error.code.has_lost_events() => {
                    complete = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_wanted = |row: &&UsageRow| {
                let is_within = row.is_within(&days);
                complete &= is_within.is_some();
                is_within == Some(true)
            };
            let rows: Vec<&UsageRow> = rows.iter().filter(is_wanted).collect();
            sessions += u64::from(!rows.is_empty());
            rows.iter().for_each(|row| add(&mut total, &row.totals));
            match by {
                UsageKey::Day => add_shares(&mut shares, rows, |row| Some(&row.day)),
                UsageKey::Model => add_shares(&mut shares, rows, |row| row.model.as_deref()),
                UsageKey::Session => {
                    add_shares(&mut shares, rows, |_| Some(info.key.session.as_str()));
                }
                UsageKey::Workspace => {
                    add_shares(&mut shares, rows, |_| info.workspace.as_deref());
                }
            }
        }
        let mut rows = into_shares(shares);
        match by {
            UsageKey::Day => rows.sort_by(|one, other| one.key.cmp(&other.key)),
            _ => rows.sort_by_key(|row| {
                Reverse(row.totals.input_tokens.saturating_add(row.totals.output_tokens))
            }),
        }
        Ok(TotalUsage { rows, total, sessions, complete })
    }

    /// Returns the tokens of a session without those of the events that it inherits.
    async fn own_usage(&self, info: &SessionInfo) -> ServiceResult<Vec<UsageRow>> {
        let rows = |facts: &Facts| facts.usage.rows.clone();
        let mut own = self.peek_view(&info.key, move |_, facts| rows(facts)).await?;
        if let Some(fork) = info.forked_from.as_ref().filter(|_| !own.is_empty()) {
            let inherited = self.view_facts_at(&info.key, fork.at, rows).await?;
            for row in &inherited {
                if let Some(same) = own.iter_mut().find(|one| one.has_key_of(row)) {
                    subtract(&mut same.totals, &row.totals);
                }
            }
            own.retain(|row| row.totals.requests > 0);
        }
        Ok(own)
    }
}

/// Returns totals by their keys as the rows of an answer.
pub(super) fn into_shares(shares: IndexMap<Option<String>, TokenTotals>) -> Vec<UsageShare> {
    shares.into_iter().map(|(key, totals)| UsageShare { key, totals }).collect()
}

fn subtract(totals: &mut TokenTotals, less: &TokenTotals) {
    totals.requests = totals.requests.saturating_sub(less.requests);
    totals.input_tokens = totals.input_tokens.saturating_sub(less.input_tokens);
    totals.cached_tokens = totals.cached_tokens.saturating_sub(less.cached_tokens);
    totals.output_tokens = totals.output_tokens.saturating_sub(less.output_tokens);
    if let (Some(cost), Some(less)) = (totals.cost_usd, less.cost_usd) {
        totals.cost_usd = cost.minus(less);
    }
}

//! Views folded from a session, now or as of a point: overview, summary, a step, continuation,
//! usage, compactions. It must not write: `continue_session` does.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{Caller, Service, ServiceError, ServiceResult, total_usage::into_shares};
use crate::{
    api::{
        find::FindAnswer,
        overview::{OverviewAnswer, SummaryAnswer, SummaryLevel},
        views::{
            CompactionsAnswer, ContinuationAnswer, SessionUsage, SubagentsAnswer, UsageAnswer,
        },
    },
    event::{Point, Position, SessionId},
    harness::{
        self, ANSWER_BYTES_MIN, CONTINUATION_TOKENS, CONTINUATION_TOKENS_MIN, Counter as _,
        TOKEN_BYTES_LEAST, Tokenizer,
    },
    projection::{
        self, Facts,
        checkpoints::Checkpoints,
        usage::{UsageRow, add_shares},
    },
};

/// Default bytes of a whole session's summary: less than on the other levels.
const SESSION_BYTES: usize = 2_000;
/// Maximum token budget of a view.
const VIEW_TOKENS_MAX: usize = 200_000;

impl Service {
    async fn view_at_point<T: Send + 'static>(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
        look: impl FnOnce(&Facts) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let key = caller.key(session);
        let at = match at {
            Some(_) => Some(self.view_position(&key, at).await?),
            None => None,
        };
        self.view_facts_as_of(&key, at, look).await
    }

    /// Returns the overview of a session, optionally within `tokens_max` tokens of text, with the
    /// reason for each item, or as one text.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn overview(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
        tokens_max: Option<usize>,
        (explain, is_text): (bool, bool),
    ) -> ServiceResult<OverviewAnswer> {
        let (bytes_max, name) = (self.view_bytes(tokens_max)?, session.to_string());
        let look = move |facts: &Facts| match tokens_max {
            Some(tokens) => {
                let tokens = tokens.min(VIEW_TOKENS_MAX);
                harness::overview_in_tokens(facts, &name, tokens, explain)
            }
            None if is_text => harness::overview_in_text(facts, &name, bytes_max, explain),
            None => harness::build_overview(facts, false, bytes_max, explain),
        };
        Ok(self.view_at_point(caller, session, at, look).await?.shown)
    }

    /// Returns the summary of a session on a level, within about `tokens_max` tokens.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn summary_view(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
        tokens_max: Option<usize>,
        level: SummaryLevel,
    ) -> ServiceResult<SummaryAnswer> {
        let whole = self.view_bytes(tokens_max)?;
        let bytes_max = match (level, tokens_max) {
            (SummaryLevel::Session, None) => whole.min(SESSION_BYTES),
            _ => whole,
        };
        let named = self.peek_notes(&caller.key(session), |all, _| unique_labels(all)).await;
        // An unreadable checkpoint does not end a phase.
        let named = named.unwrap_or_default();
        let look =
            move |facts: &Facts| harness::summarize_at_level(facts, &named, level, bytes_max);
        self.view_at_point(caller, session, at, look).await
    }

    /// Searches a session, within about `tokens_max` tokens.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn find_view(
        &self,
        caller: &Caller,
        session: &SessionId,
        words: &str,
        at: Option<&Point>,
        tokens_max: Option<usize>,
    ) -> ServiceResult<FindAnswer> {
        let bytes_max = self.view_bytes(tokens_max)?;
        let key = caller.key(session);
        let at = match at {
            Some(_) => Some(self.view_position(&key, at).await?),
            None => None,
        };
        self.find_in_session(&key, words, at, bytes_max).await
    }

    fn view_bytes(&self, tokens_max: Option<usize>) -> ServiceResult<usize> {
        match tokens_max {
            Some(tokens) if tokens.saturating_mul(TOKEN_BYTES_LEAST) < ANSWER_BYTES_MIN => {
                let problem = format!("at least {}", ANSWER_BYTES_MIN.div_ceil(TOKEN_BYTES_LEAST));
                Err(ServiceError::invalid("tokens_max", problem))
            }
            Some(tokens) => Ok(tokens.min(VIEW_TOKENS_MAX) * TOKEN_BYTES_LEAST),
            None => Ok(self.options.answer_bytes_max),
        }
    }

    /// Returns the content that an agent needs to continue a session, also as one text; includes
    /// the sessions that it continues.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn continuation(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
        tokens_max: Option<usize>,
        explain: bool,
    ) -> ServiceResult<ContinuationAnswer> {
        let tokens_max = continuation_budget(tokens_max)?;
        // As of an earlier point the workspace's memory was different.
        let remembered = match at {
            None => self.format_workspace_items(caller, session, tokens_max).await?,
            Some(_) => String::new(),
        };
        let remembered_tokens = Tokenizer::O200k.count(&remembered);
        let (name, room) = (session.to_string(), tokens_max - remembered_tokens);
        let look = move |facts: &Facts| {
            harness::continuation(facts, &name, room, Tokenizer::O200k, explain)
        };
        let key = caller.key(session);
        let at = match at {
            Some(_) => Some(self.view_position(&key, at).await?),
            None => None,
        };
        let (mut view, text) = self.view_chain_as_of(&key, at, look).await?;
        view.tokens += remembered_tokens as u64;
        let text = Some(text + &remembered);
        Ok(ContinuationAnswer { view, tokens_max: tokens_max as u64, text })
    }

    /// Returns the use of the context window in tokens, as reported by the harness.
    ///
    /// # Errors
    /// `point_not_found`, `session_damaged`, and those of the session.
    pub async fn usage(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
    ) -> ServiceResult<SessionUsage> {
        let look = |facts: &Facts| (facts.usage.clone(), facts.position);
        let (usage, position) = self.view_at_point(caller, session, at, look).await?;
        let info = self.store.info(&caller.key(session)).await?;
        let monitor = self.monitor.of_session(&info.metadata, usage.window);
        let report = usage.latest;
        let level = report.and_then(|report| monitor.level(report.tokens));
        let context = UsageAnswer {
            position,
            tokens: report.map(|report| report.tokens),
            reported_position: report.map(|report| report.position),
            reported_at: report.map(|report| report.at),
            limit: monitor.limit,
            threshold: monitor.threshold(),
            margin: monitor.margin,
            remaining: report.map(|report| monitor.full_tokens().saturating_sub(report.tokens)),
            level: level.map_or("none", projection::ContextLevel::as_str).to_owned(),
            totals: usage.totals,
        };
        let shares = |key: fn(&UsageRow) -> Option<&str>| {
            let mut shares = IndexMap::new();
            add_shares(&mut shares, &usage.rows, key);
            into_shares(shares)
        };
        let mut by_day = shares(|row| Some(&row.day));
        by_day.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(SessionUsage {
            context,
            by_model: shares(|row| row.model.as_deref()),
            by_thread: shares(|row| row.thread.as_deref()),
            by_day,
        })
    }

    /// Lists the subagents of a session.
    ///
    /// # Errors
    /// `point_not_found`, `session_damaged`, and those of the session.
    pub async fn subagents(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
    ) -> ServiceResult<SubagentsAnswer> {
        let look = |facts: &Facts| {
            let mut threads = facts.threads.list();
            for row in &facts.usage.rows {
                let own = threads.iter_mut().find(|one| Some(&one.thread) == row.thread.as_ref());
                let tokens = row.totals.input_tokens.saturating_add(row.totals.output_tokens);
                if let Some(own) = own {
                    own.tokens = own.tokens.saturating_add(tokens);
                }
            }
            let complete = facts.threads.is_complete();
            SubagentsAnswer { position: facts.position, threads, complete }
        };
        self.view_at_point(caller, session, at, look).await
    }

    /// Lists the content that the client's compactions removed from its context.
    ///
    /// # Errors
    /// `point_not_found`, `session_damaged`, and those of the session.
    pub async fn compactions(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
    ) -> ServiceResult<CompactionsAnswer> {
        let look = |facts: &Facts| {
            let compactions = &facts.compactions;
            CompactionsAnswer {
                position: facts.position,
                count: compactions.count(),
                compactions: compactions.latest().cloned().collect(),
                lost: compactions.dropped_ranges().to_vec(),
                lost_events: compactions.dropped_ranges().iter().map(|range| range.len()).sum(),
            }
        };
        self.view_at_point(caller, session, at, look).await
    }
}

/// Returns the checkpoints with a unique label: a repeated label names a kind of checkpoint.
fn unique_labels(all: &Checkpoints) -> Vec<harness::Named> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let labels = || all.all().iter().filter_map(|one| Some((one.position, one.label.as_deref()?)));
    labels().for_each(|(_, label)| *counts.entry(label).or_default() += 1);
    let is_name = |(_, label): &(Position, &str)| counts.get(label) == Some(&1);
    labels().filter(is_name).map(|(at, label)| (at, label.to_owned())).collect()
}

pub(super) fn continuation_budget(tokens_max: Option<usize>) -> ServiceResult<usize> {
    let tokens_max = tokens_max.unwrap_or(CONTINUATION_TOKENS);
    if !(CONTINUATION_TOKENS_MIN..=VIEW_TOKENS_MAX).contains(&tokens_max) {
        let problem = format!("from {CONTINUATION_TOKENS_MIN} to {VIEW_TOKENS_MAX}");
        return Err(ServiceError::invalid("tokens_max", problem));
    }
    Ok(tokens_max)
}

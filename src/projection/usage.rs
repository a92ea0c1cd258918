//! Reports of a harness on its model's requests: tokens in the context after the last one, totals
//! by model, thread and day, and the level that the token monitor recorded last. It must not know a
//! limit, which the monitor does, nor a price.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::body::{self, ThresholdBody};
use crate::{
    api::views::TokenTotals,
    event::{Event, Position, Timestamp, kinds, text::clip},
};

/// Most rows of a session, and most shares of an answer.
const ROWS_MAX: usize = 1_024;
const SHARES_MAX: usize = 400;
/// Most characters kept of the name of a model or thread.
const NAME_CHARS_MAX: usize = 100;
/// Key of the requests beyond the longest list.
const OTHER: &str = "other";
/// Characters of a day in RFC 3339.
const DAY_CHARS: usize = 10;

/// Level of a full context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContextLevel {
    /// The window should be compacted.
    Threshold,
    /// The window is full.
    Limit,
}

impl ContextLevel {
    /// Returns the name of the level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Limit => "limit",
        }
    }
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTokens {
    /// Position of the report.
    pub position: Position,
    /// Time of the report.
    pub at: Timestamp,
    /// Number of tokens in the context after the request.
    pub tokens: u64,
}

/// Tokens of the requests of one day, one model and one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageRow {
    /// Day in UTC, such as `2026-11-29`.
    pub day: String,
    /// Model; `None` if the reports name none.
    pub model: Option<String>,
    /// Subagent; `None` for the session's own thread.
    pub thread: Option<String>,
    /// Tokens of the requests.
    pub totals: TokenTotals,
}

impl UsageRow {
    /// Returns true if both count the requests of one day, model and thread.
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.day == other.day && self.model == other.model && self.thread == other.thread
    }
}

/// Report of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedRequest {
    /// Number of tokens in the context after the request.
    pub tokens: u64,
    /// Its own row.
    pub row: UsageRow,
    /// Size of the model's context in tokens, if the harness knows it.
    pub window: Option<u64>,
}

impl ReportedRequest {
    /// Parses a report; `None` for any other event.
    #[must_use]
    pub fn from_event(event: &Event) -> Option<Self> {
        if event.kind.as_str() != kinds::SPAN_MODEL_REQUEST_END {
            return None;
        }
        let report = body::read::<ReportBody>(&event.body)?;
        let counts = report.model_usage?;
        let or_none = |count: Option<u64>| count.unwrap_or(0);
        let read = or_none(counts.cache_read_input_tokens);
        let cached = counts.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let input = or_none(counts.input_tokens.or(counts.prompt_tokens))
            .saturating_add(or_none(counts.cache_creation_input_tokens))
            .saturating_add(read);
        let output = or_none(counts.output_tokens.or(counts.completion_tokens));
        let cost = report.cost_usd.as_ref().and_then(Value::as_f64);
        let totals = TokenTotals {
            requests: 1,
            input_tokens: input,
            cached_tokens: read.max(or_none(cached)),
            output_tokens: output,
            cost_usd: cost.filter(|cost| *cost >= 0.0),
        };
        let name = |value: Option<Value>| match value? {
            Value::String(name) => Some(clip(&name, NAME_CHARS_MAX)),
            other => Some(clip(&other.to_string(), NAME_CHARS_MAX)),
        };
        let day = day_of(event.happened_at());
        let (model, thread) = (name(report.model), name(report.session_thread_id));
        let tokens = counts.total_tokens.unwrap_or_else(|| input.saturating_add(output));
        let window = report.context_window;
        Some(Self { tokens, row: UsageRow { day, model, thread, totals }, window })
    }

    /// Returns the reported size of the context of the session's own thread.
    pub(super) fn own_window(&self) -> Option<u64> {
        self.window.filter(|_| self.row.thread.is_none())
    }
}

/// Token usage of a session's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedUsage {
    /// Totals of all requests, those of subagents included.
    pub totals: TokenTotals,
    /// Totals of the requests with the same day, model and thread, in the order of the first ones.
    pub rows: Vec<UsageRow>,
    /// Latest report of the session's own thread.
    pub latest: Option<RequestTokens>,
    /// Size of the model's context in tokens, as reported last for the session's own thread.
    pub window: Option<u64>,
    /// Level recorded last, and its position.
    pub recorded: Option<(ContextLevel, Position)>,
    /// Lowest number of tokens reported since then.
    pub least_since: Option<u64>,
}

/// Members of a report, under the names of model APIs.
#[derive(Deserialize)]
struct ReportBody {
    #[serde(alias = "usage")]
    model_usage: Option<TokenCounts>,
    model: Option<Value>,
    session_thread_id: Option<Value>,
    cost_usd: Option<Value>,
    context_window: Option<u64>,
}

#[derive(Deserialize)]
struct TokenCounts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<TokenDetails>,
}

#[derive(Deserialize)]
struct TokenDetails {
    cached_tokens: Option<u64>,
}

impl ReportedUsage {
    pub(super) fn fold(&mut self, event: &Event) {
        // A body that does not parse is ignored.
        let _ = match event.kind.as_str() {
            kinds::SPAN_MODEL_REQUEST_END => self.fold_report(event),
            kinds::CONTEXT_THRESHOLD => self.fold_threshold(event),
            _ => None,
        };
    }

    fn fold_report(&mut self, event: &Event) -> Option<()> {
        let report = ReportedRequest::from_event(event)?;
        self.window = report.own_window().or(self.window);
        let ReportedRequest { tokens, row, .. } = report;
        let is_aside = row.thread.is_some();
        add(&mut self.totals, &row.totals);
        self.add_row(row);
        if is_aside {
            // A subagent has a context of its own.
            return Some(());
        }
        self.least_since = Some(self.least_since.map_or(tokens, |least| least.min(tokens)));
        self.latest =
            Some(RequestTokens { position: event.position, at: event.happened_at(), tokens });
        Some(())
    }

    fn add_row(&mut self, mut row: UsageRow) {
        let is_known = |rows: &[UsageRow], wanted: &UsageRow| {
            rows.iter().rposition(|one| one.has_key_of(wanted))
        };
        let mut at = is_known(&self.rows, &row);
        if at.is_none() && self.rows.len() + 1 >= ROWS_MAX {
            let other = || Some(OTHER.to_owned());
            row = UsageRow { day: OTHER.to_owned(), model: other(), thread: other(), ..row };
            at = is_known(&self.rows, &row);
        }
        match at.and_then(|at| self.rows.get_mut(at)) {
            Some(one) => add(&mut one.totals, &row.totals),
            None => self.rows.push(row),
        }
    }

    fn fold_threshold(&mut self, event: &Event) -> Option<()> {
        let body: ThresholdBody = body::read(&event.body)?;
        let level = [ContextLevel::Threshold, ContextLevel::Limit];
        let level = level.into_iter().find(|level| level.as_str() == body.level)?;
        self.recorded = Some((level, event.position));
        self.least_since = None;
        Some(())
    }
}

/// Returns the day of a time in UTC, such as `2026-11-29`.
#[must_use]
pub fn day_of(at: Timestamp) -> String {
    let mut day = at.to_string();
    day.truncate(DAY_CHARS);
    day
}

/// Adds rows to totals by a key, in the order of the first ones; beyond the longest list to
/// `other`.
pub fn add_shares<'a>(
    shares: &mut IndexMap<Option<String>, TokenTotals>,
    rows: impl IntoIterator<Item = &'a UsageRow>,
    key: impl Fn(&'a UsageRow) -> Option<&'a str>,
) {
    for row in rows {
        let key = key(row).map(str::to_owned);
        let fits = shares.len() + 1 < SHARES_MAX || shares.contains_key(&key);
        let key = if fits { key } else { Some(OTHER.to_owned()) };
        add(shares.entry(key).or_default(), &row.totals);
    }
}

/// Adds tokens to totals.
pub fn add(totals: &mut TokenTotals, more: &TokenTotals) {
    totals.requests = totals.requests.saturating_add(more.requests);
    totals.input_tokens = totals.input_tokens.saturating_add(more.input_tokens);
    totals.cached_tokens = totals.cached_tokens.saturating_add(more.cached_tokens);
    totals.output_tokens = totals.output_tokens.saturating_add(more.output_tokens);
    if let Some(cost) = more.cost_usd {
        totals.cost_usd = Some(totals.cost_usd.unwrap_or_default() + cost);
    }
}

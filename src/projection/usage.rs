//! Reports of a harness on its model's requests: tokens in the context after the last one, totals by
//! model, thread and day, and the level that the token monitor recorded last. It must not know a
//! limit, which the monitor does, nor a price.

use serde::Deserialize;
use serde_json::Value;

use super::body::{self, ThresholdBody};
use crate::{
    api::views::{TokenTotals, UsageShare},
    event::{Event, Position, Timestamp, kinds, text::clip},
};

/// Most models, threads and days that are counted apart.
const MODELS_MAX: usize = 32;
const THREADS_MAX: usize = 64;
const DAYS_MAX: usize = 400;
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

/// Token usage of a session's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedUsage {
    /// Totals of all requests, those of subagents included.
    pub totals: TokenTotals,
    /// Totals by model, in the order of their first requests.
    pub by_model: Vec<UsageShare>,
    /// Totals by thread, in the order of their first requests.
    pub by_thread: Vec<UsageShare>,
    /// Totals by day, in UTC, in the order of their first requests.
    pub by_day: Vec<UsageShare>,
    /// Cost in US dollars, if a report had one.
    pub cost_usd: Option<f64>,
    /// Latest report of the session's own thread.
    pub latest: Option<RequestTokens>,
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
        let report = body::read::<ReportBody>(&event.body)?;
        let counts = report.model_usage?;
        let or_none = |count: Option<u64>| count.unwrap_or(0);
        let read = or_none(counts.cache_read_input_tokens);
        let cached = counts.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let input = or_none(counts.input_tokens.or(counts.prompt_tokens))
            .saturating_add(or_none(counts.cache_creation_input_tokens))
            .saturating_add(read);
        let output = or_none(counts.output_tokens.or(counts.completion_tokens));
        let request = TokenTotals {
            requests: 1,
            input_tokens: input,
            cached_tokens: read.max(or_none(cached)),
            output_tokens: output,
        };
        let day: String = event.created_at.unwrap_or(event.processed_at).to_string();
        let day = day.get(..DAY_CHARS).map(str::to_owned);
        add(&mut self.totals, &request);
        let model = report.model.as_ref().and_then(Value::as_str).map(str::to_owned);
        add_share(&mut self.by_model, MODELS_MAX, model, &request);
        add_share(&mut self.by_day, DAYS_MAX, day, &request);
        let thread = report.session_thread_id.map(|id| match id {
            Value::String(id) => id,
            other => other.to_string(),
        });
        let is_aside = thread.is_some();
        add_share(&mut self.by_thread, THREADS_MAX, thread, &request);
        let cost = report.cost_usd.as_ref().and_then(Value::as_f64);
        if let Some(cost) = cost.filter(|cost| *cost >= 0.0) {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
        }
        if is_aside {
            // A subagent has a context of its own.
            return Some(());
        }
        let tokens = counts.total_tokens.unwrap_or_else(|| input.saturating_add(output));
        self.least_since = Some(self.least_since.map_or(tokens, |least| least.min(tokens)));
        self.latest =
            Some(RequestTokens { position: event.position, at: event.processed_at, tokens });
        Some(())
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

fn add(totals: &mut TokenTotals, request: &TokenTotals) {
    totals.requests = totals.requests.saturating_add(request.requests);
    totals.input_tokens = totals.input_tokens.saturating_add(request.input_tokens);
    totals.cached_tokens = totals.cached_tokens.saturating_add(request.cached_tokens);
    totals.output_tokens = totals.output_tokens.saturating_add(request.output_tokens);
}

/// Adds a request to the share of its key; to that of the others where the list is full.
fn add_share(
    shares: &mut Vec<UsageShare>,
    most: usize,
    key: Option<String>,
    request: &TokenTotals,
) {
    let mut key = key.map(|key| clip(&key, NAME_CHARS_MAX));
    let is_known = |shares: &[UsageShare], key: &Option<String>| {
        shares.iter().rposition(|share| share.key == *key)
    };
    let mut at = is_known(shares, &key);
    if at.is_none() && shares.len() + 1 >= most {
        key = Some(OTHER.to_owned());
        at = is_known(shares, &key);
    }
    match at.and_then(|at| shares.get_mut(at)) {
        Some(share) => add(&mut share.totals, request),
        None => shares.push(UsageShare { key, totals: *request }),
    }
}

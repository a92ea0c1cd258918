//! Reports of a harness on its model's requests: tokens in the context after the last one, and the
//! level that the token monitor recorded last. It must not know a limit: the monitor does.

use serde::Deserialize;

use super::body::{self, ThresholdBody};
use crate::event::{Event, Position, Timestamp, kinds};

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

/// Token counts of a report of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedRequest {
    /// Number of tokens in the context after the request.
    pub tokens: u64,
    /// Number of input tokens, those of a cache included.
    pub input_tokens: u64,
    /// Number of input tokens read from a cache.
    pub cached_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
}

impl ReportedRequest {
    /// Parses a report; `None` for any other event.
    #[must_use]
    pub fn from_event(event: &Event) -> Option<Self> {
        if event.kind.as_str() != kinds::SPAN_MODEL_REQUEST_END {
            return None;
        }
        let counts = body::read::<ReportBody>(&event.body)?.model_usage?;
        let or_none = |count: Option<u64>| count.unwrap_or(0);
        let read = or_none(counts.cache_read_input_tokens);
        let cached = counts.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let input = or_none(counts.input_tokens.or(counts.prompt_tokens))
            .saturating_add(or_none(counts.cache_creation_input_tokens))
            .saturating_add(read);
        let output = or_none(counts.output_tokens.or(counts.completion_tokens));
        Some(Self {
            tokens: counts.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
            input_tokens: input,
            cached_tokens: read.max(or_none(cached)),
            output_tokens: output,
        })
    }
}

/// Token usage of a session's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// Number of reported requests.
    pub requests: u64,
    /// Number of input tokens, in total.
    pub input_tokens: u64,
    /// Number of input tokens read from a cache.
    pub cached_tokens: u64,
    /// Number of output tokens, in total.
    pub output_tokens: u64,
    /// Latest report.
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
        let ReportedRequest { tokens, input_tokens, cached_tokens, output_tokens } =
            ReportedRequest::from_event(event)?;
        self.requests += 1;
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(cached_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
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

//! Reports of a harness on its model's requests: tokens in the context after the last one, totals
//! by model, thread and day, and the level that the token monitor recorded last. It must not know a
//! limit, which the monitor does, nor a price.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::body::{self, ThresholdBody};
use crate::{
    api::views::TokenTotals,
    event::{Cost, Event, Position, Timestamp, kinds, text::clip},
    traces::{
        parse_string, read_thread,
        tools::{Members, parse_object, read_first},
    },
};

/// Most rows of a session, most rows of one day each beyond them, and most shares of an answer.
const ROWS_MAX: usize = 1_024;
const DAYS_MAX: usize = 400;
const SHARES_MAX: usize = 400;
/// Most characters kept of the name of a model.
const NAME_CHARS_MAX: usize = 100;
/// Key of the requests beyond the longest list.
const OTHER: &str = "other";
/// Most tokens of a count of one request, and most US dollars: a larger number is none.
const COUNT_MAX: f64 = 1e12;
const COST_USD_MAX: f64 = 1e6;
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
    /// Day in UTC, such as `2026-11-29`; `other` for the days beyond the longest list.
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

    /// Returns true if its day is one of those from the first to the last; `None` if it has several
    /// days, of which only some may be.
    pub(crate) fn is_within(&self, [first, last]: &[Option<String>; 2]) -> Option<bool> {
        let is_known = self.day != OTHER || first.is_none() && last.is_none();
        is_known.then(|| {
            first.as_ref().is_none_or(|first| self.day >= *first)
                && last.as_ref().is_none_or(|last| self.day <= *last)
        })
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
        let report = [parse_object(str::from_utf8(&event.body).ok()?)?];
        let counts = objects_in(&report, &["model_usage", "usage"]);
        counts.first()?;
        let count = |names: &[&str]| first_count(&counts, names);
        let [report] = &report;
        let details = objects_in(&counts, &["prompt_tokens_details", "input_tokens_details"]);
        let read = count(&["cache_read_input_tokens"]);
        let cached = read.max(first_count(&details, &["cached_tokens"]));
        let made = count(&["cache_creation_input_tokens"]);
        let input = count(&["input_tokens", "prompt_tokens"]) + made + read;
        let output = count(&["output_tokens", "completion_tokens"]);
        let cost = read_first(report, &["cost_usd"], |cost| cost.get().parse::<f64>().ok());
        let cost = cost.filter(|cost| (0.0..=COST_USD_MAX).contains(cost));
        let totals = TokenTotals {
            requests: 1,
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            cost_usd: cost.map(Cost::from_usd),
        };
        let name = |value: &RawValue| {
            let text = parse_string(value).unwrap_or_else(|| value.get().to_owned());
            (value.get() != "null").then(|| clip(&text, NAME_CHARS_MAX))
        };
        let day = day_of(event.happened_at());
        let model = read_first(report, &["model"], name);
        let thread = read_first(report, &["session_thread_id"], read_thread);
        let tokens = Some(count(&["total_tokens"])).filter(|total| *total > 0);
        let tokens = tokens.unwrap_or(input + output);
        let window = Some(first_count(std::slice::from_ref(report), &["context_window"]))
            .filter(|size| *size > 0);
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

/// Returns the objects that objects have under some names.
fn objects_in<'a>(of: &[Members<'a>], names: &[&str]) -> Vec<Members<'a>> {
    let inner = |one: &Members<'a>, name: &str| parse_object(one.get(name)?.get());
    of.iter().flat_map(|one| names.iter().filter_map(move |name| inner(one, name))).collect()
}

/// Returns the first count above 0 of some names, in the first object that has one.
fn first_count(objects: &[Members<'_>], names: &[&str]) -> u64 {
    let parse = |count: &RawValue| {
        let count = count.get().parse::<f64>().ok()?;
        let is_count = count > 0.0 && count <= COUNT_MAX && count.fract() == 0.0;
        is_count.then_some(count as u64)
    };
    objects.iter().find_map(|one| read_first(one, names, parse)).unwrap_or(0)
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
        let other = || Some(OTHER.to_owned());
        if at.is_none() && self.rows.len() + 1 >= ROWS_MAX {
            row = UsageRow { model: other(), thread: other(), ..row };
            at = is_known(&self.rows, &row);
        }
        if at.is_none() && self.rows.len() + 1 >= ROWS_MAX + DAYS_MAX {
            row.day = OTHER.to_owned();
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
    totals.cost_usd = [totals.cost_usd, more.cost_usd].into_iter().flatten().reduce(Cost::plus);
}

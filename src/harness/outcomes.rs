//! Recurring failures and the success rate of each tool, from the latest outcomes. It must not
//! advise beyond what the kind of a failure supports.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::json_bytes;
use crate::{
    api::research::{PatternOut, ProviderOut},
    projection::{Outcomes, ToolOutcome},
    traces::FailureKind,
};

/// Least number of failures of one kind that make a pattern.
const PATTERN_MIN: u64 = 3;
/// Most URLs listed of a pattern.
const URLS_MAX: usize = 5;

/// Returns the bytes of a pattern on the wire.
pub(super) fn pattern_bytes(pattern: &PatternOut) -> usize {
    let urls: usize = pattern.affected_urls.iter().map(|url| 1 + json_bytes(url)).sum();
    150 + pattern.suggestion.len() + urls
}

/// Returns the kinds of failures that recur, most frequent first. Failed commands are excluded:
/// tests fail until the work is done.
pub(super) fn recurring_failures(outcomes: &Outcomes) -> Vec<PatternOut> {
    let mut kinds: BTreeMap<FailureKind, Vec<&ToolOutcome>> = BTreeMap::new();
    for outcome in outcomes.latest().rev().filter(|outcome| !outcome.is_command) {
        if let Some(trouble) = outcome.trouble {
            kinds.entry(trouble).or_default().push(outcome);
        }
    }
    let mut lines: Vec<PatternOut> = kinds
        .into_iter()
        .filter(|(_, all)| all.len() as u64 >= PATTERN_MIN)
        .filter_map(|(trouble, all)| {
            let mut seen = BTreeSet::new();
            let urls = all.iter().filter_map(|one| one.url.as_deref());
            let urls = urls.filter(|url| seen.insert(*url)).take(URLS_MAX).map(str::to_owned);
            Some(PatternOut {
                kind: trouble.as_str(),
                count: all.len() as u64,
                affected_urls: urls.collect(),
                suggestion: suggestion(trouble),
                last_seen: all.first()?.at,
            })
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.count));
    lines
}

/// Returns the outcomes of each tool, the most used first.
pub(super) fn outcomes_by_tool(outcomes: &Outcomes) -> Vec<(String, ProviderOut)> {
    let mut names: BTreeMap<&str, ProviderOut> = BTreeMap::new();
    for outcome in outcomes.latest() {
        let fared = names.entry(&outcome.provider).or_default();
        fared.attempts += 1;
        fared.successes += u64::from(outcome.trouble.is_none());
    }
    let mut lines: Vec<(String, ProviderOut)> =
        names.into_iter().map(|(name, fared)| (name.to_owned(), fared)).collect();
    lines.sort_by_key(|(_, fared)| std::cmp::Reverse(fared.attempts));
    lines
}

fn suggestion(trouble: FailureKind) -> &'static str {
    match trouble {
        FailureKind::AuthRequired => "it wants credentials: continue without it, or ask the user",
        FailureKind::Blocked => "it refuses this client: look for the same elsewhere",
        FailureKind::ContentEmpty => "nothing comes back: ask in other words, or elsewhere",
        FailureKind::Network => "it is not reached: try later, or elsewhere",
        FailureKind::NotFound => "these are not there: check the addresses before asking again",
        FailureKind::Other => "it keeps failing: do it another way",
        FailureKind::RateLimited => "too many calls: wait, and ask for more at once",
        FailureKind::UpstreamUnavailable => "it is down: try later, or elsewhere",
        FailureKind::Validation => "the calls make no sense to it: read its input schema again",
    }
}

//! Coverage of a session's sources: their number, sites and kinds, what is missing, and the open
//! gaps as search topics. It must not search for anything.

use std::collections::BTreeMap;

use url::Url;

use super::budget::fit;
use crate::{api::research::CoverageOut, projection::Research};

/// Most bytes of a coverage in a response.
pub const COVERAGE_BYTES: usize = 2_000;
/// Percentage of the sources above which a site is reported as dominant.
const SHARE_MAX: usize = 60;
/// Number of sources below which a lack is reported.
const FEW: usize = 3;
const KINDS_MAX: usize = 5;
const KIND_BYTES: usize = 48;
const DOMAIN_BYTES: usize = 80;
const QUERIES_MAX: usize = 6;
const QUERY_BYTES: usize = 120;

/// Returns the coverage of the sources, and as search topics the open gaps, newest first.
#[must_use]
pub fn coverage(research: &Research) -> (CoverageOut, Vec<String>) {
    let (mut domains, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    let sources = research.sources();
    for source in sources {
        if let Some(domain) = domain(&source.url) {
            *domains.entry(domain).or_insert(0_usize) += 1;
        }
        *kinds.entry(source.kind.as_deref().unwrap_or("other")).or_insert(0_u64) += 1;
    }
    // Among equals the first name counts, so that equal sources give equal responses.
    let most = domains.iter().rev().max_by_key(|(_, count)| **count);
    let dominant = most
        .filter(|(_, count)| sources.len() > 1 && **count * 100 > sources.len() * SHARE_MAX)
        .map(|(domain, _)| fit(domain, DOMAIN_BYTES).text);
    let mut lacks = Vec::new();
    if sources.len() < FEW {
        lacks.push(match sources.len() {
            0 => "no source is recorded yet: search, and add what is found".to_owned(),
            _ => format!("fewer than {FEW} sources are recorded"),
        });
    }
    if let Some(domain) = &dominant {
        lacks.push(format!("most sources are from {domain}: look at other sites"));
    }
    if let (Some((kind, _)), 1) = (kinds.first_key_value(), kinds.len()) {
        let kind = fit(kind, KIND_BYTES).text;
        lacks.push(format!("all sources are of one kind, {kind}"));
    }
    let mut kinds: Vec<(&str, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds.truncate(KINDS_MAX);
    let open = research.open_gaps().iter().rev().take(QUERIES_MAX);
    let queries = open.filter_map(|at| research.gaps().get(*at));
    let queries = queries.map(|gap| fit(&gap.description, QUERY_BYTES).text).collect();
    let spread_percent = (domains.len() * 100).checked_div(sources.len()).unwrap_or(0);
    let covered = CoverageOut {
        source_count: sources.len() as u64,
        unique_domains: domains.len() as u64,
        #[allow(clippy::cast_precision_loss, reason = "at most 100")]
        domain_spread: spread_percent as f64 / 100.0,
        dominant_domain: dominant,
        source_types: kinds.into_iter().map(|(kind, n)| (fit(kind, KIND_BYTES).text, n)).collect(),
        gaps: lacks,
    };
    (covered, queries)
}

/// Returns the host of a URL without `www.`.
fn domain(url: &str) -> Option<String> {
    let host = Url::parse(url).ok()?.host_str()?.to_lowercase();
    Some(host.strip_prefix("www.").map_or(host.clone(), str::to_owned))
}

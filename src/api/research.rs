//! Parts of an answer that only the research tools return, in the names their clients know. They
//! must not truncate anything: `harness` does.

#![allow(missing_docs, reason = "a doc comment is published, and a model reads it at each start")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchOut {
    pub branch_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_step: Option<u64>,
    pub last_step: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatternOut {
    pub kind: &'static str,
    pub count: u64,
    pub affected_urls: Vec<String>,
    pub suggestion: &'static str,
    pub last_seen: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOut {
    pub attempts: u64,
    pub successes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoverageOut {
    pub source_count: u64,
    pub unique_domains: u64,
    /// Unique domains divided by sources, 0 to 1.
    pub domain_spread: f64,
    /// Domain of most sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dominant_domain: Option<String>,
    /// Number of sources of each kind.
    pub source_types: BTreeMap<String, u64>,
    /// Deficits of the coverage.
    pub gaps: Vec<String>,
}

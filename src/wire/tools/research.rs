//! Arguments of the research tools, in the names their clients know. Parsing refuses unknown names;
//! it must not validate a step.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::{api::step::Confidence, projection::body::StepBody, service::StepCall};

/// Amount of the session in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResponseMode {
    Full,
    Summary,
}

/// Detail of the coverage in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceDepth {
    Quick,
    Standard,
    Thorough,
}

impl SourceDepth {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Thorough => "thorough",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SequentialSearch {
    /// Actions and findings of this step.
    search_step: String,
    /// 1, then the next number.
    #[schemars(range(min = 1))]
    step_number: u64,
    /// false: this step is the last.
    next_step_needed: bool,
    total_steps_estimate: Option<u64>,
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    is_revision: Option<bool>,
    /// Step that it corrects.
    revises_step: Option<u64>,
    /// Step at which a new branch starts; needs branchId.
    branch_from_step: Option<u64>,
    branch_id: Option<String>,
    /// Something still unknown.
    knowledge_gap: Option<String>,
    /// gapId or text.
    closes_gap: Option<String>,
    research_goal: Option<String>,
    reasoning: Option<String>,
    /// Confidence of the caller.
    #[serde(default)]
    #[schemars(schema_with = "names_of_confidence")]
    confidence: Option<Confidence>,
    #[serde(default, deserialize_with = "list_or_null")]
    rejected_approaches: Vec<String>,
    /// State of the work, in your words.
    session_summary: Option<String>,
    response_mode: Option<ResponseMode>,
    /// Return only the changes.
    pub(crate) delta: Option<bool>,
    /// Not quick: also the coverage of the sources.
    pub(crate) depth: Option<SourceDepth>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

fn names_of_confidence(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["high", "medium", "low"] })
}

impl SequentialSearch {
    /// Returns true if it is a revision but names no revised step.
    pub(crate) fn lacks_revised_step(&self) -> bool {
        self.is_revision == Some(true) && self.revises_step.is_none()
    }

    pub(crate) fn into_call(self) -> StepCall {
        StepCall {
            session: None,
            step: StepBody {
                number: self.step_number,
                description: self.search_step,
                reasoning: self.reasoning,
                confidence: self.confidence,
                rejected: self.rejected_approaches,
                is_revision: self.is_revision.unwrap_or(false),
                revises: self.revises_step,
                branch_id: self.branch_id,
                branch_from: self.branch_from_step,
                total_steps_estimate: self.total_steps_estimate,
                is_final: !self.next_step_needed,
            },
            goal: self.research_goal,
            gap: self.knowledge_gap,
            closes_gap: self.closes_gap,
            summary: self.session_summary,
            full: self.response_mode.map(|mode| mode == ResponseMode::Full),
            coverage: self.depth.is_some_and(|depth| depth != SourceDepth::Quick),
            key: None,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetResearchSession {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    /// Step to return in full.
    #[schemars(range(min = 1))]
    pub(crate) step_id: Option<u64>,
    pub(crate) branch_id: Option<String>,
    /// Cursor of an earlier answer.
    pub(crate) cursor: Option<String>,
    /// Words to search for in it.
    pub(crate) find: Option<String>,
    /// As of a point: a position, step:<n>, time:<RFC 3339>.
    #[serde(default, deserialize_with = "crate::api::point::option")]
    pub(crate) at: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddSources {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
    pub(crate) sources: Vec<SourceArgument>,
    /// Token of the session's lease, if any.
    pub(crate) fencing_token: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SourceArgument {
    pub(crate) url: String,
    pub(crate) title: Option<String>,
    /// For example scraped, academic, patent.
    pub(crate) relevance: Option<String>,
    /// Step that found it.
    pub(crate) found_in_step: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClearSession {
    /// Token of the session's lease: send it with later calls.
    pub(crate) fencing_token: Option<u64>,
}

/// Deserializes a list, or null for none, as some clients send it.
fn list_or_null<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(input).map(Option::unwrap_or_default)
}

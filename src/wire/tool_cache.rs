//! Remembered answers of tools on the wire. It must not choose one: service has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{NOTICE, TRUST, json::event_text};
pub use crate::projection::remembered::digest;
use crate::{
    api::tool_cache::MemoryFigures,
    service::{Miss, ToolHit, ToolOutput},
};

/// An answer from the log, or why there is none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookupAnswer {
    /// Whether a remembered answer is used for the call.
    pub hit: bool,
    /// Without a hit: `unknown`, `too_old`, `trimmed`, or `stale` (an error, not kept whole, or
    /// something was changed at its server since).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How old the answer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The `agent.tool_result` event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::api::events::Event>")]
    pub result: Option<Box<RawValue>>,
    /// How often it stood for a call before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// What is remembered in all.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The same in words.
    pub notice: String,
}

impl LookupAnswer {
    /// Converts the result of a lookup.
    #[must_use]
    pub fn of(found: &Result<ToolHit, Miss>, remembered: MemoryFigures) -> Self {
        let hit = found.as_ref().ok();
        let age = hit.map(|hit| u64::try_from(hit.age.as_millis()).unwrap_or(u64::MAX));
        Self {
            hit: hit.is_some(),
            reason: found.as_ref().err().map(|miss| miss.as_str().to_owned()),
            age_ms: age,
            result: hit.map(|hit| raw(event_text(&hit.result))),
            hits: hit.map(|hit| hit.hits),
            remembered,
            trust: TRUST.to_owned(),
            notice: NOTICE.to_owned(),
        }
    }
}

/// A call and its answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputOut {
    /// The event of the call.
    #[schemars(with = "crate::api::events::Event")]
    pub call: Box<RawValue>,
    /// The event of the result.
    #[schemars(with = "crate::api::events::Event")]
    pub result: Box<RawValue>,
    /// About how many tokens its text takes.
    pub tokens: usize,
}

/// What tools answered, within a budget.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputsAnswer {
    /// Calls with their answers, the oldest first.
    pub outputs: Vec<OutputOut>,
    /// What is remembered in all.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The same in words.
    pub notice: String,
}

impl OutputsAnswer {
    /// Converts what is remembered.
    #[must_use]
    pub fn of(outputs: &[ToolOutput], remembered: MemoryFigures) -> Self {
        let out = |one: &ToolOutput| OutputOut {
            call: raw(event_text(&one.call)),
            result: raw(event_text(&one.result)),
            tokens: one.tokens,
        };
        Self {
            outputs: outputs.iter().map(out).collect(),
            remembered,
            trust: TRUST.to_owned(),
            notice: NOTICE.to_owned(),
        }
    }
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("an event is written as JSON")
}

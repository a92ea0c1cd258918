//! Cached outputs of tools on the wire. It must not choose an output: `service` does.

use serde_json::value::RawValue;

use super::{NOTICE, TRUST, json::event_text};
pub use crate::projection::reusable_results::digest;
use crate::{
    api::tool_cache::{LookupAnswer, MemoryFigures, OutputOut, OutputsAnswer},
    service::{CacheMiss, ToolHit, ToolOutput},
};

/// Builds the answer to a lookup.
#[must_use]
pub fn lookup_answer(
    found: &Result<ToolHit, CacheMiss>,
    remembered: MemoryFigures,
) -> LookupAnswer {
    let hit = found.as_ref().ok();
    let age = hit.map(|hit| u64::try_from(hit.age.as_millis()).unwrap_or(u64::MAX));
    LookupAnswer {
        hit: hit.is_some(),
        reason: found.as_ref().err().map(|miss| miss.as_str().to_owned()),
        age_ms: age,
        result: hit.map(|hit| raw_event(event_text(&hit.result))),
        hits: hit.map(|hit| hit.hits),
        remembered,
        trust: TRUST.to_owned(),
        notice: NOTICE.to_owned(),
    }
}

/// Builds the answer with the cached outputs.
#[must_use]
pub fn outputs_answer(outputs: &[ToolOutput], remembered: MemoryFigures) -> OutputsAnswer {
    let out = |one: &ToolOutput| OutputOut {
        call: raw_event(event_text(&one.call)),
        result: raw_event(event_text(&one.result)),
        tokens: one.tokens,
    };
    OutputsAnswer {
        outputs: outputs.iter().map(out).collect(),
        remembered,
        trust: TRUST.to_owned(),
        notice: NOTICE.to_owned(),
    }
}

fn raw_event(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("an event is written as JSON")
}

//! Real conversations stopped before each changing call: counts the calls of which a restore of the
//! conversation so far has every argument value, next to a window of the same tokens. It must not
//! judge the text of either.

use std::path::Path;

use serde_json::Value;

use super::{
    super::{
        arguments::{BUDGETS, events, scalars},
        conversation,
    },
    clerk::{Clerk, How},
};
use crate::failure::Outcome;

/// Numbers of calls whose argument values an answer within a budget contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) tokens_max: u64,
    pub(super) calls: usize,
    pub(super) restore: usize,
    pub(super) window: usize,
    /// Calls whose values the window contains but the restore does not.
    pub(super) missed: usize,
}

/// A call of which the restore lacks a value that the window contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    /// Line of the file, and position of the call.
    pub(super) line: usize,
    pub(super) at: u64,
    pub(super) tokens_max: u64,
    pub(super) values: Vec<String>,
}

/// Results on real conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Real {
    pub(super) conversations: usize,
    pub(super) stated: Vec<Stated>,
    pub(super) misses: Vec<Miss>,
}

/// Reads the conversations of a file.
pub(super) fn read(path: &Path) -> Outcome<Vec<Value>> {
    conversation::read(path)
}

/// Returns the text of a restore without its first line, the time of the last use.
fn restored_text(restored: &Value) -> &str {
    let text = restored.get("context").and_then(Value::as_str).unwrap_or_default();
    text.split_once('\n').map_or("", |(_, text)| text)
}

/// Counts calls over the conversations.
pub(super) fn measure(clerk: &Clerk<'_>, talks: &[Value]) -> Outcome<Real> {
    let none = |tokens_max| Stated { tokens_max, ..Stated::default() };
    let stated = BUDGETS.map(none).to_vec();
    let mut found = Real { conversations: talks.len(), stated, misses: Vec::new() };
    for (number, talk) in talks.iter().enumerate() {
        clerk.site.bar.set_message(format!("real conversation {}", number + 1));
        let talk = events(talk);
        let session = clerk.begin(&format!("real-{number}"))?;
        let mut appended = 0;
        for (at, values) in &talk.writes {
            // The restore covers the events before the call only.
            let to = usize::try_from(*at).unwrap_or(usize::MAX);
            clerk.append(&session, talk.events.get(appended..to).unwrap_or_default())?;
            appended = to;
            for stated in &mut found.stated {
                let tokens_max = stated.tokens_max;
                let how = How { tokens_max, algorithm: None, compress: true };
                let restored = clerk.restore(&session, how)?;
                let window = clerk.window(&session, tokens_max)?;
                let window = window.get("messages").map(scalars).unwrap_or_default().join("\n");
                let lacks = |given: &str| {
                    let lacking = values.iter().filter(|value| !given.contains(*value));
                    lacking.cloned().collect::<Vec<String>>()
                };
                let (values, in_window) =
                    (lacks(restored_text(&restored)), lacks(&window).is_empty());
                stated.calls += 1;
                stated.restore += usize::from(values.is_empty());
                stated.window += usize::from(in_window);
                if in_window && !values.is_empty() {
                    stated.missed += 1;
                    found.misses.push(Miss { line: number + 1, at: *at, tokens_max, values });
                }
            }
        }
        clerk.site.bar.inc(1);
    }
    Ok(found)
}

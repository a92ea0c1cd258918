//! Token usage of model requests, as reported by lines of transcripts. Several lines repeat the
//! report of one request; the caller uses the last one. It must not sum reports.

use std::collections::HashMap;

use super::{
    members::{JsonMembers, ObjectWriter, is_true, quote},
    route::short_id,
};

/// Model name in messages that the program, not a model, wrote.
pub(super) const SYNTHETIC: &str = "<synthetic>";

/// Characters of the first line's `uuid` in the id of a chain.
const CHAIN_CHARS: usize = 8;

/// Id of a request, and the members of its usage report.
pub(super) type UsageReport = (String, Vec<(&'static str, String)>);

/// Returns the usage report in a line of Claude Code, by message id: each line of a message repeats
/// it. A copy from another file has none.
pub(super) fn claude_report(line: &JsonMembers) -> Option<UsageReport> {
    const COUNTS: [&str; 4] =
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let is_copy = line.non_null("forkedFrom").is_some();
    let is_answer = line.text("type").as_deref() == Some("assistant");
    if !is_answer || is_copy {
        return None;
    }
    let message = JsonMembers::read(line.non_null("message")?.get()).ok()?;
    if message.text("model").as_deref() == Some(SYNTHETIC) {
        return None;
    }
    let id = message.text("id")?;
    let usage = JsonMembers::read(message.non_null("usage")?.get()).ok()?;
    let mut members =
        vec![("message_id", quote(&id)), ("model_usage", counts_object(&usage, &COUNTS)?)];
    members.extend(message.non_null("model").map(|model| ("model", model.get().to_owned())));
    Some((id, members))
}

/// Returns the id of the subagent that wrote a line of Claude Code; `None` for the session's agent.
pub(super) fn thread_of(line: &JsonMembers) -> Option<String> {
    let is_aside = is_true(line, "isSidechain");
    is_aside.then(|| line.text("agentId").unwrap_or_else(|| "sidechain".to_owned()))
}

/// Chains of lines without the id of a subagent, each of one subagent, by hashes of their `uuid`s:
/// Claude Code 1 writes no ids. A chain begins with a line without a parent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sidechains(HashMap<u64, String>);

impl Sidechains {
    /// Returns the id of the subagent that wrote the next line: that of the line, or one made from
    /// the first line of its chain.
    pub(super) fn thread_of(&mut self, line: &JsonMembers) -> Option<String> {
        let named = thread_of(line)?;
        let Some(uuid) = line.text("uuid").filter(|_| line.raw("agentId").is_none()) else {
            return Some(named);
        };
        let parent = line.text("parentUuid");
        let chain = match &parent {
            Some(parent) => self.0.get(&short_id(parent)).cloned().unwrap_or(named),
            None => format!("{named}-{}", uuid.chars().take(CHAIN_CHARS).collect::<String>()),
        };
        self.0.insert(short_id(&uuid), chain.clone());
        Some(chain)
    }
}

/// Returns the usage report in a line of Codex, which does not have the model. It has no id, so the
/// running total identifies the request.
pub(super) fn codex_report(line: &JsonMembers, model: Option<&str>) -> Option<UsageReport> {
    const COUNTS: [&str; 3] = ["input_tokens", "output_tokens", "total_tokens"];
    let inner = |of: &JsonMembers, name: &str| JsonMembers::read(of.non_null(name)?.get()).ok();
    let payload = inner(line, "payload")?;
    if payload.text("type")? != "token_count" {
        return None;
    }
    let info = inner(&payload, "info")?;
    let (total, last) = (info.non_null("total_token_usage")?, inner(&info, "last_token_usage")?);
    // After a compaction Codex writes the same total again, with an estimate in place of a request.
    let is_none = |name: &str| last.raw(name).is_some_and(|count| count.get() == "0");
    if is_none("input_tokens") && is_none("output_tokens") {
        return None;
    }
    let mut usage = counts_object(&last, &COUNTS)?;
    if let Some(cached) = last.non_null("cached_input_tokens") {
        usage.pop();
        usage.push_str(&format!(
            ",\"input_tokens_details\":{{\"cached_tokens\":{}}}}}",
            cached.get()
        ));
    }
    let mut members = vec![("model_usage", usage)];
    members.extend(model.map(|model| ("model", quote(model))));
    let window = counts_object(&info, &["model_context_window"]);
    let window = window.and(info.raw("model_context_window"));
    members.extend(window.map(|window| ("context_window", window.get().to_owned())));
    Some((total.get().to_owned(), members))
}

/// Returns an object of the named members that are counts; `None` if there are none.
fn counts_object(usage: &JsonMembers, names: &[&str]) -> Option<String> {
    let mut object = ObjectWriter::new();
    let mut any = false;
    for name in names {
        let count = usage.non_null(name).filter(|count| count.get().parse::<f64>().is_ok());
        if let Some(count) = count {
            object.add(name, count.get());
            any = true;
        }
    }
    any.then(|| object.finish())
}

//! Usage of model requests, as reported by lines of transcripts. Several lines repeat the report of
//! one request: the last one counts. It must not sum reports.

use super::members::{Members, Object, is_true, quote};

/// Model name in messages that the program generated itself.
pub(super) const SYNTHETIC: &str = "<synthetic>";

/// Id of a request, and the members of its report.
pub(super) type Report = (String, Vec<(&'static str, String)>);

/// Returns a line's report. Every line of a message repeats the usage of its request; the message
/// id identifies the request. A subagent's line, and a copy from another file, report none.
pub(super) fn of_claude(line: &Members) -> Option<Report> {
    const COUNTS: [&str; 4] =
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let is_copy = line.non_null("forkedFrom").is_some();
    let is_answer = line.text("type").as_deref() == Some("assistant");
    if !is_answer || is_copy || is_true(line, "isSidechain") {
        return None;
    }
    let message = Members::read(line.non_null("message")?.get()).ok()?;
    if message.text("model").as_deref() == Some(SYNTHETIC) {
        return None;
    }
    let id = message.text("id")?;
    let usage = Members::read(message.non_null("usage")?.get()).ok()?;
    let mut members =
        vec![("message_id", quote(&id)), ("model_usage", counts_object(&usage, &COUNTS)?)];
    members.extend(message.non_null("model").map(|model| ("model", model.get().to_owned())));
    Some((id, members))
}

/// Returns a line's report. The running total identifies the request: a report is repeated without
/// an id.
pub(super) fn of_codex(line: &Members) -> Option<Report> {
    const COUNTS: [&str; 3] = ["input_tokens", "output_tokens", "total_tokens"];
    let inner = |of: &Members, name: &str| Members::read(of.non_null(name)?.get()).ok();
    let payload = inner(line, "payload")?;
    if payload.text("type")? != "token_count" {
        return None;
    }
    let info = inner(&payload, "info")?;
    let (total, last) = (info.non_null("total_token_usage")?, inner(&info, "last_token_usage")?);
    let mut usage = counts_object(&last, &COUNTS)?;
    if let Some(cached) = last.non_null("cached_input_tokens") {
        usage.pop();
        usage.push_str(&format!(
            ",\"input_tokens_details\":{{\"cached_tokens\":{}}}}}",
            cached.get()
        ));
    }
    Some((total.get().to_owned(), vec![("model_usage", usage)]))
}

/// Returns the counts among the named members, as an object; `None` without any.
fn counts_object(usage: &Members, names: &[&str]) -> Option<String> {
    let mut object = Object::new();
    let mut any = false;
    for name in names {
        let count = usage.non_null(name).filter(|count| count.get().parse::<u64>().is_ok());
        if let Some(count) = count {
            object.add(name, count.get());
            any = true;
        }
    }
    any.then(|| object.finish())
}

//! State of a model's context in the log: the position where it began, and the text that hooks gave
//! it since. A start, `/clear` or a compaction begins one; a resumption does not. It must not
//! render.

use serde_json::{Value, json};

use crate::{
    client::{Client, ClientError, HttpRequest, SessionWriter, session_path},
    event::{HOOK_ID, SessionId, kinds},
};

/// Maximum number of latest events scanned for the start of a context.
const MARKS_MAX: usize = 200;
/// Maximum number of latest events scanned for news, and for the last event of a hook.
const NEWS_MAX: usize = 200;
const LATEST_MAX: usize = 20;
/// Types of events that are news for a model.
const NEWS: [&str; 12] = [
    kinds::USER_MESSAGE,
    kinds::AGENT_MESSAGE,
    kinds::SYSTEM_MESSAGE,
    kinds::RESEARCH_GOAL,
    kinds::RESEARCH_STEP,
    kinds::RESEARCH_GAP_OPENED,
    kinds::RESEARCH_GAP_CLOSED,
    kinds::RESEARCH_SUMMARY,
    kinds::PLAN_UPDATED,
    kinds::OUTCOME_RECORDED,
    kinds::MEMORY_ITEM,
    kinds::USER_DEFINE_OUTCOME,
];

/// Kind of a text with passages of earlier sessions that match the user's prompt.
pub(super) const RECALLED: &str = "recalled";

/// Passages of other sessions.
pub(super) struct OtherPassages {
    /// One line for each passage.
    pub(super) text: String,
    /// The event that records that the model received them.
    pub(super) event: Value,
}

/// Text given to a model.
pub(super) struct InjectedText {
    /// The whole text, as the model receives it.
    pub(super) text: String,
    /// Position up to which the model knows the session once it has read the text.
    pub(super) until: Option<u64>,
    /// The event that lists the passages of other sessions in the text.
    pub(super) paged_in: Option<Value>,
}

impl InjectedText {
    pub(super) fn new(text: String, until: Option<u64>) -> Self {
        Self { text, until, paged_in: None }
    }
}

/// The current context of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionContext {
    /// Position where the context began; 0 if the log has no start.
    pub(super) begin: u64,
    /// True if the context began with a compaction.
    pub(super) is_compacted: bool,
    /// Position up to which a hook gave the session to the model, if any.
    pub(super) given: Option<u64>,
    /// The texts that hooks gave to the model.
    pub(super) texts: String,
    /// True if the context began with a copy of another session's conversation.
    pub(super) is_copy: bool,
    /// True if a hook gave the model passages that match the user's prompt.
    pub(super) is_recalled: bool,
}

impl SessionContext {
    /// Reads the context from the log, including this hook's event.
    pub(super) async fn read(client: &Client, session: &SessionId) -> Result<Self, ClientError> {
        const MARKS: [&str; 6] = [
            kinds::SESSION_STATUS_RUNNING,
            kinds::CONTEXT_COMPACTED,
            kinds::CONTEXT_CLEARED,
            kinds::CONTEXT_INJECTED,
            // They are written next to the others, and do not separate two reports of one start.
            kinds::MEMORY_PAGED_IN,
            kinds::SESSION_RESTORED,
        ];
        let newest = fetch_latest(client, session, &MARKS, 0, MARKS_MAX).await?;
        Ok(Self::fold(newest.iter().rev()))
    }

    /// Folds the marks. Adjacent events report the same start: two settings files may both run this
    /// hook, and a compaction is reported before and after, even with a resumption in between.
    fn fold<'a>(marks: impl Iterator<Item = &'a Value>) -> Self {
        let mut context = Self::default();
        let mut next = None;
        for event in marks {
            let text = |name: &str| event.get(name).and_then(Value::as_str);
            let Some(at) = event.get("position").and_then(Value::as_u64) else { continue };
            let follows = next == Some(at);
            let (begins, is_compaction) = match (text("type"), text("source")) {
                (Some(kinds::CONTEXT_INJECTED), _) if text("what") == Some(RECALLED) => {
                    context.is_recalled = true;
                    (false, false)
                }
                (Some(kinds::CONTEXT_INJECTED), _) => {
                    context.texts.push_str(text("text").unwrap_or_default());
                    let until = event.get("until").and_then(Value::as_u64);
                    context.given = Some(until.unwrap_or(at));
                    (false, false)
                }
                (Some(kinds::CONTEXT_COMPACTED), _)
                | (Some(kinds::SESSION_STATUS_RUNNING), Some("compact")) => (true, true),
                (Some(kinds::CONTEXT_CLEARED), _)
                | (Some(kinds::SESSION_STATUS_RUNNING), Some("startup" | "clear")) => (true, false),
                _ => (false, false),
            };
            // A start that records an offset in the transcript is that of a fork.
            let starts = text("type") == Some(kinds::SESSION_STATUS_RUNNING)
                && matches!(text("source"), Some("startup") | None);
            let is_copy = starts && event.get("transcript").is_some_and(Value::is_object);
            if begins && !follows {
                context = Self { begin: at, is_compacted: is_compaction, ..Self::default() };
            } else if begins {
                context.is_compacted |= is_compaction;
            }
            context.is_copy |= is_copy;
            if begins || follows {
                next = Some(at + 1);
            }
        }
        context
    }

    /// Fetches the events of other writers since the model last received the session, or since its
    /// context began, newest first. The agent's own messages and calls are in its context.
    pub(super) async fn fetch_news(
        &self,
        client: &Client,
        session: &SessionId,
    ) -> Result<Vec<Value>, ClientError> {
        let since = self.given.unwrap_or(self.begin);
        let mut news = fetch_latest(client, session, &NEWS, since, NEWS_MAX).await?;
        news.retain(|event| !is_recorded_by_hook(event));
        let is_of_model = |event: &Value| event.get("origin") == Some(&json!("model"));
        if news.iter().any(is_of_model) {
            // While the agent ran, a model's events are its own calls of this program's tools.
            let all = fetch_latest(client, session, &[], 0, LATEST_MAX).await?;
            let earlier =
                all.iter().skip_while(|event| is_recorded_by_hook(event) && is_start_event(event));
            let ran = earlier.clone().find(|event| is_recorded_by_hook(event)).or(all.last());
            let ran = ran.and_then(event_position).unwrap_or_default();
            news.retain(|event| !is_of_model(event) || event_position(event) > Some(ran));
        }
        Ok(news)
    }

    /// Records a text before the model receives it; returns false if another hook gave it first.
    pub(super) async fn claim(
        &self,
        client: &Client,
        session: &SessionId,
        what: &str,
        given: &InjectedText,
    ) -> bool {
        let InjectedText { text, until, paged_in } = given;
        // Two hooks of one start make the same id: the store accepts the first.
        let before = match what {
            RECALLED => "-recalled".to_owned(),
            _ => self.given.map_or_else(String::new, |given| format!("-{given}")),
        };
        let mut event = json!({
            "id": format!("hook_context-{}{before}", self.begin), "type": kinds::CONTEXT_INJECTED,
            "what": what, "begin": self.begin, "text": text,
        });
        if let (Some(until), Some(members)) = (until, event.as_object_mut()) {
            members.insert("until".to_owned(), json!(until));
        }
        let paged_in = paged_in.clone().map(|mut paged| {
            if let Some(members) = paged.as_object_mut() {
                let id = format!("hook_recall-{}{before}", self.begin);
                members.insert("id".to_owned(), json!(id));
            }
            paged
        });
        let events = [event].into_iter().chain(paged_in).map(|event| event.to_string());
        match SessionWriter::new(client, session).append(events, None, None).await {
            Ok(appended) => !appended.repeated,
            Err(error) => error.code() != "idempotency_conflict",
        }
    }
}

fn event_position(event: &Value) -> Option<u64> {
    event.get("position").and_then(Value::as_u64)
}

fn is_start_event(event: &Value) -> bool {
    event.get("type").is_some_and(|kind| kind == kinds::SESSION_STATUS_RUNNING)
}

/// Returns true if a hook recorded the event, directly or from the program's transcript.
fn is_recorded_by_hook(event: &Value) -> bool {
    let id = event.get("id").and_then(Value::as_str).unwrap_or_default();
    [HOOK_ID, "line-", "aside-", "usage-"].iter().any(|begin| id.starts_with(begin))
}

/// Returns the latest events of the given types (all if empty) from a position on, newest first.
pub(super) async fn fetch_latest(
    client: &Client,
    session: &SessionId,
    types: &[&str],
    from: u64,
    limit: usize,
) -> Result<Vec<Value>, ClientError> {
    let request = HttpRequest::get(session_path(session, "/events")).query("order", "desc");
    let request = request.query("from", from).query("limit", limit);
    let request = types.iter().fold(request, |asked, kind| asked.query("types[]", kind));
    let mut answer = client.json(request).await?;
    match answer.get_mut("data").map(Value::take) {
        Some(Value::Array(events)) => Ok(events),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_begins_at_startup_clear_or_compaction_but_not_at_resume() {
        let start = |at: u64, source: &str| {
            let kind = "session.status_running";
            json!({ "position": at, "type": kind, "source": source })
        };
        let given = |at: u64| json!({ "position": at, "type": "context.injected", "until": at });
        let compacted = |at: u64| json!({ "position": at, "type": "context.compacted" });
        for (events, begin, is_compacted, expected) in [
            (vec![], 0, false, None),
            (vec![start(0, "startup"), given(1), start(9, "resume")], 0, false, Some(1)),
            (vec![start(0, "startup"), given(1), start(9, "clear")], 9, false, None),
            (vec![given(1), start(9, "compact")], 9, true, None),
            // Reported twice, before and after.
            (vec![start(9, "compact"), given(10), compacted(11)], 9, true, Some(10)),
            (vec![compacted(9), start(10, "compact"), given(11)], 9, true, Some(11)),
            (vec![start(9, "compact"), start(10, "compact"), given(11)], 9, true, Some(11)),
            (vec![start(9, "compact"), given(10), start(11, "compact")], 9, true, Some(10)),
            (vec![start(9, "compact"), given(10), start(20, "compact")], 20, true, None),
            (vec![compacted(9), start(12, "resume"), given(13)], 9, true, Some(13)),
            // Codex compacts while it resumes.
            (
                vec![compacted(9), start(10, "resume"), given(11), start(12, "compact")],
                9,
                true,
                Some(11),
            ),
        ] {
            let given = SessionContext { given: expected, ..SessionContext::default() };
            let context = SessionContext { begin, is_compacted, ..given };
            assert_eq!(SessionContext::fold(events.iter()), context, "{events:?}");
        }
    }
}

//! Text from the log for a model that starts, resumes, or lost its context, once for each context:
//! texts that the owner rendered, events as lines, marked as data, within a budget of tokens. It
//! must not render a view itself.

use serde_json::{Value, json};

use super::{
    Payload,
    context::{InjectedText, OtherPassages, RECALLED, SessionContext, fetch_latest},
    recall::{recall_passages, recall_terms},
};
use crate::{
    api::handoff::StartRequest,
    client::{Client, ClientError, HttpRequest},
    event::{SessionId, kinds},
    verbs::{
        NoQuery, SessionPath, WorkspacePath,
        handoff::StartWork,
        views::{ContinuationQuery, ViewContinuation},
    },
    wire::{BRIEF_NOTICE, Budget, NOTICE, TOKEN_BYTES_LEAST, quote, recall_words, wrap_in_frame},
};

/// Maximum characters of an answer: programs truncate it at about ten thousand.
const CHARS_MAX: usize = 9_500;
/// The smallest budget of a view, in tokens.
const TOKENS_MIN: usize = 400;
/// The format of the requested views.
const TEXT: &str = "text";
/// Maximum tokens for a new session, and for passages that match the first prompts.
const START_TOKENS: usize = 700;
const NEAR_TOKENS: usize = 900;
/// Number of first prompts of a context for which passages are searched.
const PROMPTS: usize = 3;
/// Maximum characters shown of an event.
const NEWS_CHARS: usize = 600;
/// Divisor of the budget: the largest part for passages of earlier sessions.
const RECALL_PART: usize = 4;
/// Hint at tools that read more than the session's own state.
const TAIL: &str = "get_research_session (no id needed) tells more, get_events reads any range of \
                    positions word for word.";

/// Reason for which a model gets context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContextKind {
    /// The session continues, but the model lost its context.
    Own,
    /// A new session of a project with earlier sessions.
    Before,
    /// A prompt in a context that has no passages about it yet.
    Near,
}

/// Returns the kind of context that an event needs.
pub(super) fn needed_context(payload: &Payload) -> Option<ContextKind> {
    match (payload.name(), payload.text("source")) {
        ("SessionStart", Some("compact" | "resume")) => Some(ContextKind::Own),
        ("SessionStart", Some("startup") | None) => Some(ContextKind::Before),
        ("UserPromptSubmit", _) => Some(ContextKind::Near),
        _ => None,
    }
}

/// Returns the context for the model; `None` if the log has nothing useful or new for it.
pub(super) async fn recover(
    client: &Client,
    [tokens_max, recall_max]: [usize; 2],
    payload: &Payload,
    workspace: Option<&str>,
) -> Result<Option<String>, ClientError> {
    let session = payload.session();
    let context = SessionContext::read(client, session).await?;
    let is_resumed = payload.text("source") == Some("resume");
    let is_given = context.given.is_some();
    let what = match needed_context(payload) {
        Some(ContextKind::Own) if is_resumed && (is_given || !context.is_compacted) => "news",
        Some(ContextKind::Own) if !is_given => "continuation",
        // A fork has its work in its context.
        Some(ContextKind::Before) if !is_given && !context.is_copy => "earlier_sessions",
        Some(ContextKind::Near) if !context.is_recalled && recall_max > 0 => RECALLED,
        _ => return Ok(None),
    };
    let mut tokens = tokens_max.clamp(TOKENS_MIN, CHARS_MAX / 2);
    let given = loop {
        let made = match what {
            "news" => describe_unseen_events(client, session, &context, tokens).await?,
            "continuation" => {
                let recall = recall_max.min(tokens / RECALL_PART);
                continuation_text(client, session, workspace, [tokens, recall]).await?
            }
            RECALLED => matching_passages(client, payload, &context, workspace, tokens).await?,
            _ => earlier_work_text(client, session, workspace, tokens).await?,
        };
        let Some(made) = made else { return Ok(None) };
        if made.text.chars().count() <= CHARS_MAX || tokens <= TOKENS_MIN {
            break made;
        }
        tokens = (tokens * 2 / 3).max(TOKENS_MIN);
    };
    let is_first = context.claim(client, session, what, &given).await;
    Ok(is_first.then_some(given.text))
}

type RecoveredText = Option<InjectedText>;

/// Returns the events recorded in the session while its model could not see them.
async fn describe_unseen_events(
    client: &Client,
    session: &SessionId,
    context: &SessionContext,
    tokens: usize,
) -> Result<RecoveredText, ClientError> {
    let news = context.fetch_news(client, session).await?;
    let Some(last) = news.first() else { return Ok(None) };
    let until = last.get("position").and_then(Value::as_u64).map(|last| last + 1);
    let mut budget = Budget::new(tokens * TOKEN_BYTES_LEAST);
    let lines = news.iter().map(format_event);
    let mut shown: Vec<String> = lines.take_while(|line| budget.spend(line.len())).collect();
    shown.reverse();
    let left_out = news.len() - shown.len();
    if left_out > 0 {
        shown.insert(0, format!("{left_out} before these are not shown."));
    }
    let head = "sessionlog keeps this session. Others recorded this in it since you were last \
                given its state; the position of each is with it:";
    let text = wrap_in_frame(&format!("{head} {NOTICE}"), &shown.join("\n"), TAIL);
    Ok(Some(InjectedText::new(text, until)))
}

/// Formats an event as a line: its content, or else its members.
fn format_event(event: &Value) -> String {
    const RESERVED: [&str; 7] =
        ["id", "type", "position", "processed_at", "created_at", "origin", "raw"];
    let get = |name: &str| match event.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let text = match event.get("content").and_then(Value::as_str) {
        Some(words) => words.to_owned(),
        None => {
            let mut body = event.as_object().cloned().unwrap_or_default();
            RESERVED.iter().for_each(|name| drop(body.remove(*name)));
            let member = |(name, value): (&String, &Value)| match value {
                Value::String(text) => format!("{name}: {text}"),
                value => format!("{name}: {}", value.to_string().replace(['"', '{', '}'], "")),
            };
            body.iter().map(member).collect::<Vec<_>>().join("; ")
        }
    };
    let mut line: String = text.chars().take(NEWS_CHARS).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    let (at, kind, by) = (get("position"), get("type"), get("origin"));
    format!("- @{at} {kind} (by {by}): {}", quote::escape_item(&line))
}

/// Returns the continuation of the session, and matching passages of earlier sessions of its
/// project.
async fn continuation_text(
    client: &Client,
    session: &SessionId,
    workspace: Option<&str>,
    [tokens, recall]: [usize; 2],
) -> Result<RecoveredText, ClientError> {
    let Some(view) = fetch_continuation(client, session).await? else {
        return Ok(None);
    };
    let recalled = match workspace {
        Some(workspace) => {
            // The task of a continued session may be in the view already.
            let room = (recall, &*view.to_string());
            recall_passages(client, session, workspace, recall_terms(&view), room).await
        }
        None => None,
    };
    let rest = if recalled.is_none() { tokens } else { tokens.saturating_sub(recall) };
    let place = SessionPath { session: session.clone() };
    let query = ContinuationQuery {
        tokens_max: Some(rest.max(TOKENS_MIN)),
        format: Some(TEXT.to_owned()),
        ..ContinuationQuery::default()
    };
    let mut text =
        client.text(HttpRequest::from_verb::<ViewContinuation>(&place, &query, &())).await?;
    if let Some(passages) = &recalled {
        text.push_str("\nSaid in earlier sessions of this project:\n");
        text.push_str(&passages.text);
    }
    let until = view.get("position").and_then(Value::as_u64);
    let position = until.unwrap_or_default();
    let head = format!(
        "sessionlog keeps this session outside of the context window: {position} events, all \
         of them readable.{} {BRIEF_NOTICE}",
        explain_marks(&text)
    );
    let text = wrap_in_frame(&head, &text, TAIL);
    Ok(Some(InjectedText { text, until, paged_in: recalled.map(|one| one.event) }))
}

/// Returns an explanation of the marks in a text.
fn explain_marks(text: &str) -> &'static str {
    let has = |mark: &str| {
        let mut after = text.match_indices(mark).filter_map(|(at, _)| text.get(at + mark.len()..));
        after.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match (has("@"), has("- [")) {
        (_, true) => " @N is a position, [N] a research step.",
        (true, false) => " @N is a position.",
        (false, false) => "",
    }
}

/// Returns results of earlier sessions of the directory; links the session to the one continued.
async fn earlier_work_text(
    client: &Client,
    session: &SessionId,
    workspace: Option<&str>,
    tokens: usize,
) -> Result<RecoveredText, ClientError> {
    let Some(workspace) = workspace else { return Ok(None) };
    let place = WorkspacePath { workspace: workspace.to_owned() };
    let tokens_max = Some(tokens.min(START_TOKENS));
    let asked = StartRequest { session_id: Some(session.to_string()), tokens_max };
    let request = HttpRequest::from_verb::<StartWork>(&place, &NoQuery {}, &asked);
    let text = client.ask::<StartWork>(request).await?.text;
    if text.is_empty() {
        return Ok(None);
    }
    let head = "sessionlog kept earlier sessions of this directory.";
    let tail = "Continue what they left only where your user wants that.";
    let text = wrap_in_frame(&format!("{head} {BRIEF_NOTICE}"), &text, tail);
    Ok(Some(InjectedText::new(text, None)))
}

/// Returns passages of earlier sessions of the directory that match one of the user's first
/// prompts; `None` if none match, and for later prompts.
async fn matching_passages(
    client: &Client,
    payload: &Payload,
    context: &SessionContext,
    workspace: Option<&str>,
    tokens: usize,
) -> Result<RecoveredText, ClientError> {
    let (Some(workspace), Some(prompt)) = (workspace, payload.text("prompt")) else {
        return Ok(None);
    };
    let session = payload.session();
    let said =
        fetch_latest(client, session, &[kinds::USER_MESSAGE], context.begin, PROMPTS + 1).await?;
    if said.len() > PROMPTS {
        return Ok(None);
    }
    let words = recall_words([prompt]);
    let room = (tokens.min(NEAR_TOKENS), &*context.texts);
    let recalled = recall_passages(client, session, workspace, words, room).await;
    let Some(OtherPassages { text, event }) = recalled else { return Ok(None) };
    let head = "sessionlog: earlier sessions of this directory said this of what your user asks.";
    let tail = "get_events with that sessionId and from reads what is around a passage.";
    let text = wrap_in_frame(&format!("{head} {NOTICE}"), &text, tail);
    Ok(Some(InjectedText { text, until: None, paged_in: Some(event) }))
}

/// Returns a small continuation of a session as JSON; `None` if it has nothing useful.
async fn fetch_continuation(
    client: &Client,
    session: &SessionId,
) -> Result<Option<Value>, ClientError> {
    let place = SessionPath { session: session.clone() };
    let query = ContinuationQuery { tokens_max: Some(TOKENS_MIN), ..ContinuationQuery::default() };
    let view = client.json(HttpRequest::from_verb::<ViewContinuation>(&place, &query, &())).await?;
    let is_said = |(name, value): (&String, &Value)| {
        let is_empty = value == &json!([]) || value == &json!("") || value == &json!({});
        !is_empty && !["position", "tokens", "tokens_max", "truncated"].contains(&&**name)
    };
    let is_useful = view.as_object().is_some_and(|view| view.iter().any(is_said));
    Ok(is_useful.then_some(view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Recogniser;

    #[test]
    fn only_a_start_resumption_or_compaction_gets_context() {
        for (name, source, expected) in [
            ("SessionStart", "startup", Some(ContextKind::Before)),
            ("SessionStart", "resume", Some(ContextKind::Own)),
            ("SessionStart", "compact", Some(ContextKind::Own)),
            ("SessionStart", "clear", None),
            ("SessionStart", "fork", None),
            ("PostCompact", "compact", None),
        ] {
            let event = json!({ "session_id": "s", "hook_event_name": name, "source": source });
            let read =
                Payload::read(&event.to_string().into_bytes().into(), &Recogniser::default())
                    .expect("an event");
            assert_eq!(needed_context(&read), expected, "{name} {source}");
        }
    }
}

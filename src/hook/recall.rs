//! Finds passages of earlier sessions of the same project about the work that a model continues, by
//! the terms of its task and its latest instruction. It must not rank passages: the owner's recall
//! search does.

use serde_json::{Value, json};

use super::context::OtherPassages;
use crate::{
    api::search::{Hit, SearchBody},
    client::{Client, HttpRequest},
    event::{Origin, SessionId, kinds},
    verbs::{NoParams, NoQuery, search::SearchByBody},
    wire::{TOKEN_BYTES_LEAST, format_passage, quote, recall_words},
};

/// Maximum number of passages.
const PASSAGES_MAX: usize = 4;
/// Milliseconds that the search may wait for events that are not indexed yet.
const WAIT_MS: u64 = 700;
/// Minimum number of terms of a query.
const WORDS_MIN: usize = 2;

/// Returns passages of other sessions of the workspace within the budget of tokens, without those
/// in `given`; `None` if none match or the search fails: the model does not wait for a retry.
pub(super) async fn recall_passages(
    client: &Client,
    session: &SessionId,
    workspace: &str,
    words: Vec<String>,
    (tokens, given): (usize, &str),
) -> Option<OtherPassages> {
    if words.len() < WORDS_MIN || tokens == 0 {
        return None;
    }
    let asked = SearchBody {
        q: format!("{} -session:{session}", words.join(" ")),
        workspace: Some(workspace.to_owned()),
        limit: Some(PASSAGES_MAX),
        tokens_max: Some(tokens),
        wait_ms: WAIT_MS,
        recall: true,
        given: given.to_owned(),
        ..SearchBody::default()
    };
    let request = HttpRequest::from_verb::<SearchByBody>(&NoParams {}, &NoQuery {}, &asked);
    let found = client.ask::<SearchByBody>(request).await.ok()?;
    (!found.hits.is_empty()).then(|| format_passages(&found.hits))
}

/// Formats each passage as a line, and builds the event that lists the passages.
fn format_passages(hits: &[Hit]) -> OtherPassages {
    let line = |hit: &Hit| {
        let by = hit.who.as_deref().filter(|who| !who.is_empty());
        let by = quote::escape_inline(by.unwrap_or_else(|| hit.origin.text(Origin::as_str)));
        format_passage((Some(&hit.session), hit.position), hit.at, &by, &hit.snippet.text) + "\n"
    };
    let text: String = hits.iter().map(line).collect();
    let block = |hit: &Hit| {
        let positions = json!({ "from": hit.position, "to": hit.position.0 + 1 });
        json!({ "session": hit.session, "positions": positions })
    };
    let blocks: Vec<Value> = hits.iter().map(block).collect();
    let tokens = text.len() / TOKEN_BYTES_LEAST;
    let kind = kinds::MEMORY_PAGED_IN;
    let event = json!({ "type": kind, "blocks": blocks, "tokens": tokens, "by": "hook" });
    OtherPassages { text, event }
}

/// Returns the search terms of the task, the latest instruction and the plan's current step.
pub(super) fn recall_terms(view: &Value) -> Vec<String> {
    let instructions = view.get("instructions").and_then(Value::as_array);
    let latest = instructions.and_then(|all| all.last()?.get("text")?.as_str());
    let texts = [
        latest,
        view.pointer("/task/text").and_then(Value::as_str),
        view.pointer("/plan/current").and_then(Value::as_str),
    ];
    recall_words(texts.into_iter().flatten())
}

//! Passages of earlier sessions of the same project about the work that a model continues, found by
//! the words of its task and its latest instruction. It must not choose: a search for a model that
//! did not ask does.

use serde_json::{Value, json};

use super::context::Passages;
use crate::{
    api::search::{Hit, SearchBody},
    client::{Client, Request},
    event::{Origin, SessionId, kinds},
    verbs::{NoQuery, Nowhere, search::SearchWith},
    wire::{TOKEN_BYTES_LEAST, passage, quote, recall_words},
};

/// Passages at most.
const PASSAGES_MAX: usize = 4;
/// Milliseconds that the search may wait for what is not in the index yet.
const WAIT_MS: u64 = 700;
/// Words of a query at least.
const WORDS_MIN: usize = 2;

/// Passages of other sessions of the workspace within so many tokens, without those that the model
/// was `given` already; `None` when nothing speaks of the same, or when the search fails: a model
/// is not kept waiting for them.
pub(super) async fn recalled(
    client: &Client,
    session: &SessionId,
    workspace: &str,
    words: Vec<String>,
    (tokens, given): (usize, &str),
) -> Option<Passages> {
    if words.len() < WORDS_MIN || tokens == 0 {
        return None;
    }
    let types =
        [kinds::USER_MESSAGE, kinds::AGENT_MESSAGE, kinds::RESEARCH_STEP, kinds::MEMORY_ITEM];
    let asked = SearchBody {
        q: format!("{} -session:{session}", words.join(" ")),
        workspace: Some(workspace.to_owned()),
        types: types.map(str::to_owned).into(),
        limit: Some(PASSAGES_MAX),
        tokens_max: Some(tokens),
        wait_ms: WAIT_MS,
        recall: true,
        given: given.to_owned(),
        ..SearchBody::default()
    };
    let request = Request::from_verb::<SearchWith>(&Nowhere {}, &NoQuery {}, &asked);
    let found = client.ask::<SearchWith>(request).await.ok()?;
    (!found.hits.is_empty()).then(|| passages(&found.hits))
}

/// The passages in a line each, and the event that says which a model is given.
fn passages(hits: &[Hit]) -> Passages {
    let line = |hit: &Hit| {
        let by = hit.who.as_deref().filter(|who| !who.is_empty());
        let by = quote::inline(by.unwrap_or_else(|| hit.origin.text(Origin::as_str)));
        passage((Some(&hit.session), hit.position), hit.at, &by, &hit.snippet.text) + "\n"
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
    Passages { text, event }
}

/// The words of the task, of the latest instruction and of the current step of the plan.
pub(super) fn words_of(view: &Value) -> Vec<String> {
    let instructions = view.get("instructions").and_then(Value::as_array);
    let latest = instructions.and_then(|all| all.last()?.get("text")?.as_str());
    let texts = [
        latest,
        view.pointer("/task/text").and_then(Value::as_str),
        view.pointer("/plan/current").and_then(Value::as_str),
    ];
    recall_words(texts.into_iter().flatten())
}

//! Passages of earlier sessions of the same project about the work that a model continues: a few,
//! found by the words of its task and its latest instruction. Only words of people and agents,
//! never what a tool or a page returned. It must not look beyond the project.

use serde_json::{Value, json};

use crate::{
    api::{
        memory::MarkKind,
        search::{Hit, SearchBody},
    },
    client::{Client, Request},
    event::{Origin, SessionId, kinds},
    verbs::{NoQuery, Nowhere, search::SearchWith},
    wire::{quote, recall_words, speaks_of_it},
};

/// Passages at most, and candidates they are chosen from.
const PASSAGES_MAX: usize = 4;
const CANDIDATES: usize = 12;
/// Milliseconds that the search may wait for what is not in the index yet.
const WAIT_MS: u64 = 700;
/// Words of a query at least.
const WORDS_MIN: usize = 2;
/// Bytes that a token stands for, and of a passage's members beside its text.
const TOKEN_BYTES: usize = 3;
/// First of the members behind the text of an item of memory.
const MEMBERS: &str = "\nkind: ";
const FRAME_BYTES: usize = 160;

/// Passages of other sessions of the workspace within so many tokens, without those that the model
/// was `given` already; none when nothing speaks of the same, or when the search fails: a model is
/// not kept waiting for them.
pub(super) async fn recalled(
    client: &Client,
    session: &SessionId,
    workspace: &str,
    words: Vec<String>,
    (tokens, given): (usize, &str),
) -> Vec<Value> {
    if words.len() < WORDS_MIN || tokens == 0 {
        return Vec::new();
    }
    let types =
        [kinds::USER_MESSAGE, kinds::AGENT_MESSAGE, kinds::RESEARCH_STEP, kinds::MEMORY_ITEM];
    let asked = SearchBody {
        q: format!("{} -session:{session}", words.join(" ")),
        workspace: Some(workspace.to_owned()),
        types: types.map(str::to_owned).into(),
        limit: Some(CANDIDATES),
        wait_ms: WAIT_MS,
        ..SearchBody::default()
    };
    let request = Request::from_verb::<SearchWith>(&Nowhere {}, &NoQuery {}, &asked);
    let Ok(found) = client.ask::<SearchWith>(request).await else { return Vec::new() };
    let mut left = tokens * TOKEN_BYTES;
    let mut recalled = Vec::new();
    for hit in found.hits.iter().filter(|hit| holds(hit)) {
        let text = words_in(hit);
        if given.contains(&quote::item(text)) {
            continue;
        }
        let Some(rest) = left.checked_sub(text.len() + FRAME_BYTES) else { continue };
        left = rest;
        recalled.push(json!({
            "session": hit.session, "position": hit.position, "at": hit.at,
            "origin": hit.origin, "by": hit.who, "text": text,
        }));
        if recalled.len() == PASSAGES_MAX {
            break;
        }
    }
    recalled
}

/// The event that says which passages a model is given; `None` without any.
pub(super) fn paged_in(recalled: &[Value]) -> Option<Value> {
    let block = |one: &Value| {
        let at = one.get("position")?.as_u64()?;
        let positions = json!({ "from": at, "to": at + 1 });
        Some(json!({ "session": one.get("session")?, "positions": positions }))
    };
    let blocks: Vec<Value> = recalled.iter().filter_map(block).collect();
    let bytes: usize = recalled.iter().map(|one| one.to_string().len()).sum();
    let tokens = bytes / TOKEN_BYTES;
    let kind = kinds::MEMORY_PAGED_IN;
    (!blocks.is_empty())
        .then(|| json!({ "type": kind, "blocks": blocks, "tokens": tokens, "by": "hook" }))
}

/// The words of a hit; of an item of memory without its kind, its name and where it came from.
fn words_in(hit: &Hit) -> &str {
    let text = &*hit.snippet.text;
    let is_item = hit.kind.as_str() == kinds::MEMORY_ITEM;
    let words = is_item.then(|| text.split_once(MEMBERS)).flatten();
    words.map_or(text, |(words, _)| words)
}

/// True if a hit shares enough words with the task, and nothing speaks against it. Words of a
/// person about a file hold though the file changed.
fn holds(hit: &Hit) -> bool {
    let is_said = !matches!(hit.origin, Origin::Tool | Origin::Web);
    is_said
        && speaks_of_it(&hit.snippet.text, &hit.snippet.marks, f64::from(hit.why.words))
        && (hit.stale.is_none() || hit.kind.as_str() == kinds::USER_MESSAGE)
        && !hit.unchecked
        && hit.marks.iter().all(|mark| mark.kind != MarkKind::Wrong)
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

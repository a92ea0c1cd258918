//! What earlier sessions of the same project said of the work that a model continues: a few
//! passages, found by the words of its task and its latest instruction. Only what people and agents
//! said, never what a tool or a page returned. It must not look beyond the project.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    client::{Client, Request},
    event::{SessionId, kinds},
    verbs::{
        NoQuery, Nowhere,
        search::{SearchBody, SearchWith},
    },
    wire::search::Hit,
};

/// Passages at most, and candidates they are chosen from.
const PASSAGES_MAX: usize = 4;
const CANDIDATES: usize = 12;
/// Milliseconds that the search may wait for what is not in the index yet.
const WAIT_MS: u64 = 700;
/// Words of the query, and letters of the shortest.
const WORDS_MAX: usize = 24;
const LETTERS_MIN: usize = 3;
/// Different words that a passage shares with the task at least, and its least share of the best
/// passage's words.
const SHARED_MIN: usize = 2;
const WORDS_SHARE_MIN: f64 = 0.3;
/// Bytes that a token stands for, and of a passage's members beside its text.
const TOKEN_BYTES: usize = 3;
const FRAME_BYTES: usize = 140;

/// Passages of other sessions of the workspace within so many tokens; none when nothing speaks of
/// the same, or when the search fails: a model is not kept waiting for them.
pub(super) async fn recalled(
    client: &Client,
    session: &SessionId,
    workspace: &str,
    view: &Value,
    tokens: usize,
) -> Vec<Value> {
    let words = words(view);
    if words.len() < SHARED_MIN || tokens == 0 {
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
    let request = Request::of::<SearchWith>(&Nowhere {}, &NoQuery {}, &asked);
    let Ok(found) = client.ask::<SearchWith>(request).await else { return Vec::new() };
    let mut left = tokens * TOKEN_BYTES;
    let mut recalled = Vec::new();
    for hit in found.hits.iter().filter(|hit| speaks_of_it(hit)) {
        let Some(rest) = left.checked_sub(hit.snippet.text.len() + FRAME_BYTES) else { continue };
        left = rest;
        recalled.push(json!({
            "session": hit.session, "position": hit.position, "at": hit.at, "by": hit.who,
            "text": hit.snippet.text,
        }));
        if recalled.len() == PASSAGES_MAX {
            break;
        }
    }
    recalled
}

/// Whether a hit shares enough words with the task, and nothing speaks against it.
fn speaks_of_it(hit: &Hit) -> bool {
    let text: Vec<char> = hit.snippet.text.chars().collect();
    let word = |mark: &(u64, u64)| {
        let (from, to) = (usize::try_from(mark.0).ok()?, usize::try_from(mark.1).ok()?);
        Some(text.get(from..to)?.iter().collect::<String>().to_lowercase())
    };
    let shared: BTreeSet<String> = hit.snippet.marks.iter().filter_map(word).collect();
    let holds = hit.stale.is_none() && hit.marks.iter().all(|mark| mark.mark != "wrong");
    shared.len() >= SHARED_MIN && hit.why.words >= WORDS_SHARE_MIN && holds
}

/// The words of the task, of the latest instruction and of the current step of the plan.
fn words(view: &Value) -> Vec<String> {
    let instructions = view.get("instructions").and_then(Value::as_array);
    let latest = instructions.and_then(|all| all.last()?.get("text")?.as_str());
    let texts = [
        latest,
        view.pointer("/task/text").and_then(Value::as_str),
        view.pointer("/plan/current").and_then(Value::as_str),
    ];
    let mut words: Vec<String> = Vec::new();
    for text in texts.into_iter().flatten() {
        for word in text.split(|letter: char| !letter.is_alphanumeric()) {
            let word = word.to_lowercase();
            let counts = word.chars().count() >= LETTERS_MIN && words.len() < WORDS_MAX;
            if counts && !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words
}

//! Earlier results in the log: the one that may answer a call, and those that a client gets as a
//! reminder. It must not block on the store beyond a short timeout, nor give one caller another's
//! result.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{ProxyCall, ProxyState};
use crate::{
    api::tool_cache::{LookupAnswer, LookupRequest},
    client::{ClientError, HttpRequest},
    event::{SessionId, json},
    proxy::own_tools,
    verbs::{NoQuery, SessionPath, views},
};

/// Time without requests to a store that did not answer, so that not every call waits for it.
const SILENCE: Duration = Duration::from_secs(5);
/// Key in an answer's `_meta`: the source of a reused result.
const META_CACHE: &str = "sessionlog/cache";

impl ProxyState {
    /// Finds a recorded answer to a call; if there is one, records the call and that answer.
    pub(super) async fn answer_from_log(
        &self,
        call: &ProxyCall,
        age_max: Duration,
    ) -> Option<Value> {
        if !self.are_files_unchanged(call) {
            return None;
        }
        let found = self.ask_store(self.look_up_answer(call, age_max)).await.flatten();
        let found = found.filter(|found| found.hit)?;
        let event: Value = serde_json::from_str(json::check(found.result?.get())?).ok()?;
        let position = event.get("position")?.as_u64()?;
        let content = event.get("content")?.clone();
        if call.from_client.caller().is_some() {
            // Another caller's answer to the same call may be newer.
            let own = self.tables().answered.peek(call.open.same.as_ref()?)?.call_id.clone();
            event.get("call_id").filter(|id| **id == own)?;
        }
        let age_ms = found.age_ms?;
        let mut blocks = content.clone();
        let texts = std::iter::once(log_answer_remark(age_ms)).chain(call.open.more.clone());
        let texts = texts.map(|text| json!({ "type": "text", "text": text }));
        blocks.as_array_mut()?.extend(texts);
        let mut result = Map::new();
        result.insert("content".to_owned(), blocks);
        let rest = event.get("result").and_then(Value::as_object);
        result
            .extend(rest.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        let cached = json!({ "position": position, "age_ms": age_ms });
        let mark = json!({
            "age_ms": age_ms,
            "hits": found.hits.unwrap_or(0) + 1,
            "position": position,
            "recorded_at": event.get("processed_at"),
            "session": call.open.target.session.as_str(),
        });
        let meta = result.entry("_meta").or_insert_with(|| json!({}));
        meta.as_object_mut()?.insert(META_CACHE.to_owned(), mark);
        self.record_call(call, Some(&cached));
        let cached = ("cached", cached.to_string());
        self.record_result(&call.open, &content.to_string(), None, false, Some(cached));
        Some(Value::Object(result))
    }

    /// Returns true if the files that a call names have not changed since the earlier call. Not
    /// checked for a tool whose maximum age the user set with `--cache`.
    fn are_files_unchanged(&self, call: &ProxyCall) -> bool {
        if self.has_user_age_limit(&call.open.name) {
            return true;
        }
        let Some(now) = &call.open.named else { return false };
        let tables = self.tables();
        match call.open.same.as_ref().and_then(|same| tables.answered.peek(same)) {
            Some(before) => before.named.as_ref() == Some(now),
            // An earlier run of the proxy got the answer: the files it saw are not known.
            None => now.is_empty(),
        }
    }

    /// Waits for an answer of the store; returns `None` after the timeout or an error.
    pub(super) async fn ask_store<T>(
        &self,
        ask: impl Future<Output = Result<T, ClientError>>,
    ) -> Option<T> {
        let clock = &self.options.clock;
        if clock.monotonic() < self.tables().silent_until {
            return None;
        }
        match tokio::time::timeout(self.options.patience, ask).await {
            Ok(Ok(said)) => return Some(said),
            Ok(Err(ClientError::Refused(refusal))) if refusal.status < 500 => {}
            Ok(Err(_)) | Err(_) => self.tables().silent_until = clock.monotonic() + SILENCE,
        }
        None
    }

    /// Waits, within the timeout, until the queued events of the call's session are delivered.
    pub(super) async fn wait_until_delivered(&self, call: &ProxyCall) {
        self.recorder.wait_until_delivered(&call.open.target.session, self.options.patience).await;
    }

    async fn look_up_answer(
        &self,
        call: &ProxyCall,
        age_max: Duration,
    ) -> Result<Option<LookupAnswer>, ClientError> {
        let (server, recorded, changed) = {
            let tables = self.tables();
            let same = call.open.same.as_ref();
            let recorded =
                same.and_then(|same| tables.answered.peek(same)).map(|one| one.record.clone());
            (self.server_name(&tables).to_owned(), recorded, tables.changed)
        };
        // The log may not have the latest changes yet, but the proxy does. Records become
        // durable in order: once an answer is durable, so is everything before it.
        match recorded.filter(|record| record.number > changed) {
            // Longer than any caller waits: a slower store counts as unavailable.
            Some(record) => {
                let _ = self.recorder.wait_until_durable(&record, 2 * self.options.patience).await;
            }
            None if changed > 0 => return Ok(None),
            None => {}
        }
        let asked = LookupRequest {
            server: Some(server),
            name: call.open.name.clone(),
            input: call.input.clone(),
            max_age_seconds: Some(age_max.as_secs()),
            tokens_max: Some(self.options.repeats.tokens_max),
        };
        let place = SessionPath { session: call.open.target.session.clone() };
        let request = HttpRequest::from_verb::<views::LookupToolCache>(&place, &NoQuery {}, &asked);
        self.client.ask::<views::LookupToolCache>(request.read_only()).await.map(Some)
    }

    /// Returns true if this client has received earlier outputs of the call's session.
    pub(super) fn were_outputs_sent(&self, call: &ProxyCall) -> bool {
        self.tables().given.contains(&outputs_key(call))
    }

    /// Records that this client receives earlier outputs; returns true the first time.
    pub(super) fn mark_outputs_sent(&self, call: &ProxyCall) -> bool {
        self.tables().given.put(outputs_key(call), ()).is_none()
    }

    /// Formats earlier results of the session for a model: with `unseen` those that this client has
    /// not received, else as many as the budget allows.
    pub(super) async fn earlier_outputs(&self, call: &ProxyCall, unseen: bool) -> Option<String> {
        if !self.mark_outputs_sent(call) && unseen {
            return None;
        }
        let place = SessionPath { session: call.open.target.session.clone() };
        let tokens_max = Some(self.options.repeats.tokens_max);
        let query = views::OutputsQuery { tokens_max, ..views::OutputsQuery::default() };
        let answer = self.client.call::<views::ViewOutputs>(&place, &query, &());
        let Some(answer) = self.ask_store(answer).await else {
            self.tables().given.pop(&outputs_key(call));
            return None;
        };
        let here = format!("{}{}-", self.options.name, call.from_client.tag);
        let outputs = answer.outputs.iter().filter_map(|output| {
            let call: Value = serde_json::from_str(json::check(output.call.get())?).ok()?;
            let result: Value = serde_json::from_str(json::check(output.result.get())?).ok()?;
            let text = |name: &str| call.get(name).and_then(Value::as_str);
            let is_own_call = text("call_id").is_some_and(|id| id.starts_with(&here));
            let input = call.get("input").map(Value::to_string).unwrap_or_default();
            let said = extract_text(result.get("content")?);
            (!(unseen && is_own_call))
                .then(|| (text("name").unwrap_or_default().to_owned(), input, said))
        });
        own_tools::format_outputs(&outputs.collect::<Vec<_>>())
    }
}

/// Returns the remark for a model on an answer from the log.
fn log_answer_remark(age_ms: u64) -> String {
    let seconds = age_ms / 1_000;
    format!("[sessionlog: from the log, {seconds} s old; the server was not asked again]")
}

fn outputs_key(call: &ProxyCall) -> (String, SessionId) {
    (call.from_client.tag.clone(), call.open.target.session.clone())
}

/// Returns the text of a result.
fn extract_text(content: &Value) -> String {
    let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

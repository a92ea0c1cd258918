//! Records a call and its outcome, and marks the earlier results that it makes stale. It must
//! not wait for the log.

use std::collections::BTreeMap;

use serde_json::{Value, json, value::RawValue};

use super::{AnsweredCall, PendingRequest, ProxyCall, ProxyState, UnansweredCall};
use crate::{
    event::{json, kinds},
    proxy::{
        message::{self, CallResult, Insertion, RpcMessage},
        recorder::{NewRecord, QueuedRecord, too_long_content},
    },
    wire::rpc::MessageOutline,
};

/// Members recorded of a call whose input and result are withheld.
const CALL_MEMBERS: [&str; 6] =
    ["name", "server", "call_id", "read_only", "is_error", "duration_ms"];

impl ProxyState {
    /// Records a call that is sent to the server, and adds it to the pending calls.
    pub(super) fn record_forwarded(&self, call: ProxyCall) {
        self.record_call(&call, None);
        self.add_pending(call.key, PendingRequest::Call(Box::new(call.open)));
    }

    pub(super) fn record_call(&self, call: &ProxyCall, cached: Option<&Value>) {
        let text = |text: &str| Value::from(text).to_string();
        let (server, reads) = {
            let tables = self.tables();
            (self.server_name(&tables).to_owned(), tables.tools.is_read_only(&call.open.name))
        };
        let mut members = vec![
            ("name", text(&call.open.name)),
            ("server", text(&server)),
            ("call_id", text(&call.open.call_id)),
            ("input", call.input_text.clone()),
            ("read_only", reads.to_string()),
        ];
        members.extend(cached.map(|cached| ("cached", cached.to_string())));
        let record = self.record_event(&call.open, kinds::AGENT_TOOL_USE, "use", members);
        self.mark_change(!reads, &record);
    }

    /// If `changes` is true, marks results before the record as possibly stale.
    pub(super) fn mark_change(&self, changes: bool, record: &QueuedRecord) {
        let mut tables = self.tables();
        tables.changed = if changes { tables.changed.max(record.number) } else { tables.changed };
    }

    pub(super) fn record_event(
        &self,
        open: &UnansweredCall,
        kind: &'static str,
        part: &str,
        mut members: Vec<(&'static str, String)>,
    ) -> QueuedRecord {
        if open.is_withheld {
            members.retain(|(name, _)| CALL_MEMBERS.contains(name));
            members.push(("withheld", Value::from("excluded").to_string()));
        }
        let id = format!("{}-{part}", open.call_id);
        let at = self.options.clock.now();
        let record =
            self.recorder.push(NewRecord { target: open.target.clone(), kind, id, at, members });
        // The log does not contain the changes of a call that is not recorded.
        self.mark_change(!record.is_kept, &record);
        record
    }

    pub(super) fn record_result(
        &self,
        open: &UnansweredCall,
        content: &str,
        rest: Option<String>,
        is_error: bool,
        more: Option<(&'static str, String)>,
    ) -> QueuedRecord {
        let took = self.options.clock.monotonic().saturating_sub(open.began).as_millis();
        let mut members = vec![
            ("call_id", Value::from(&*open.call_id).to_string()),
            ("is_error", is_error.to_string()),
            ("duration_ms", took.to_string()),
            ("content", content.to_owned()),
        ];
        members.extend(rest.map(|rest| ("result", rest)));
        members.extend(more);
        let record = self.record_event(open, kinds::AGENT_TOOL_RESULT, "result", members);
        let reads = self.tables().tools.is_read_only(&open.name);
        self.mark_change(!reads, &record);
        record
    }

    /// Records that a call ended without an answer.
    pub(super) fn record_without_answer(&self, open: &UnansweredCall, why: &str, cancelled: bool) {
        let said = json!([{ "type": "text", "text": why }]).to_string();
        let rest = cancelled.then(|| json!({ "cancelled": true }).to_string());
        self.record_result(open, &said, rest, true, None);
    }

    /// Records the size of a forwarded answer that is too long to be inspected.
    pub(super) fn record_long_answer(
        &self,
        open: &UnansweredCall,
        outline: &MessageOutline,
    ) -> QueuedRecord {
        let said = too_long_content(outline.bytes);
        let cut = ("truncated", json!({ "bytes": outline.bytes }).to_string());
        self.record_result(open, &said, None, outline.is_error, Some(cut))
    }

    /// Records an answer; returns the insertion that adds earlier outputs to it.
    pub(super) fn record_answer(
        &self,
        text: &str,
        open: &UnansweredCall,
        message: &RpcMessage<'_>,
    ) -> (QueuedRecord, Option<Insertion>) {
        let Some(result) = message.result else {
            let said = message.error.map_or("null", RawValue::get);
            let content = json!([{ "type": "text", "text": said }]).to_string();
            let record = self.record_result(open, &content, None, true, None);
            return (record, None);
        };
        let read: Option<CallResult<'_>> = serde_json::from_str(result.get()).ok();
        let content = read.as_ref().and_then(|read| read.content);
        let is_error = read.as_ref().and_then(|read| read.is_error).unwrap_or(false);
        let members = json::check_levels(result.get(), 1);
        let members = members.and_then(|text| serde_json::from_str(text).ok());
        let mut rest: BTreeMap<String, &RawValue> = members.unwrap_or_default();
        rest.retain(|name, _| !matches!(&**name, "content" | "isError"));
        let rest = (!rest.is_empty()).then(|| json!(rest).to_string());
        let said = content.map_or("[]", RawValue::get);
        let record = self.record_result(open, said, rest, is_error, None);
        if let Some(same) = &open.same {
            let answered = AnsweredCall {
                record: record.clone(),
                call_id: open.call_id.clone(),
                named: open.named.clone(),
            };
            self.tables().answered.put(same.clone(), answered);
        }
        let block =
            open.more.as_ref().map(|more| json!({ "type": "text", "text": more }).to_string());
        let more = content.zip(block);
        (record, more.and_then(|(array, block)| message::append_elements(text, array, &[block])))
    }
}

//! Maps a hook's event to the events of the log: the one table from the events of agents' programs
//! to the types that every fold reads. An event without a match is stored whole as
//! `transcript.entry`; the original is stored under `raw`. It must not do I/O.

use serde_json::{Map, Value, json};

use super::{
    delivery::{Delivery, DeliveryMark, SessionHead},
    payload::Payload,
};
use crate::{
    event::{Timestamp, json, kinds, limits},
    wire::{
        CALL_INTERRUPTED, RUNNING_IN_BACKGROUND, RefusedCall, SUBAGENT_LAUNCHED, is_interruption,
    },
};

/// Maximum bytes of an event: the limit of the store, less space for the members around a body.
const EVENT_BYTES: usize = limits::EVENT_BYTES_MAX - (64 << 10);
/// Server name of this program's tools: their calls and results are in the log already.
const OWN_SERVER: &str = "sessionlog";

/// Tools that run commands, as hooks name them.
const SHELLS: [&str; 5] = ["Bash", "shell", "local_shell", "exec_command", "shell_command"];

/// Type and body of an event.
type Draft = (&'static str, Map<String, Value>);

/// Returns the events and the checkpoint to record for a hook's event.
pub(super) fn build_delivery(
    payload: &Payload,
    workspace: Option<&str>,
    at: Timestamp,
    salt: [u8; 16],
) -> Delivery {
    let (drafts, mark) = map_event(payload);
    let last = drafts.len().saturating_sub(1);
    let event = |(part, (kind, body)): (usize, Draft)| {
        let mut event = Map::new();
        event.insert("id".to_owned(), json!(payload.event_id(salt, part).as_str()));
        event.insert("type".to_owned(), json!(kind));
        event.insert("created_at".to_owned(), json!(at.to_string()));
        event.extend(body);
        if let Some(thread) = payload.text("agent_id") {
            event.entry("session_thread_id").or_insert_with(|| json!(thread));
        }
        if let Some(redactions) = payload.redactions() {
            event.insert("redactions".to_owned(), redactions.clone());
        }
        if let Some(why) = payload.lenient_reason() {
            event.insert("mended".to_owned(), json!(why));
        }
        if let Some(bytes) = payload.cut_from() {
            event.insert("truncated".to_owned(), json!({ "bytes": bytes }));
        }
        // The original is stored once, with the last event made from it.
        if let Some(why) = payload.get("withheld") {
            event.retain(|name, _| !matches!(&**name, "input" | "content"));
            event.insert("withheld".to_owned(), why.clone());
        } else if part == last && kind != kinds::TRANSCRIPT_ENTRY {
            event.insert("raw".to_owned(), Value::Object(payload.members().clone()));
        }
        Value::Object(truncate_event(event, payload))
    };
    let agent = payload.agent();
    let begins = payload.name() != "SessionEnd";
    Delivery {
        session: payload.session().to_string(),
        about: begins.then(|| SessionHead {
            workspace: workspace.map(str::to_owned),
            client: agent.as_str().to_owned(),
        }),
        events: drafts.into_iter().enumerate().map(event).collect(),
        mark,
        refused: None,
    }
}

/// Maps the event by its name.
fn map_event(payload: &Payload) -> (Vec<Draft>, Option<DeliveryMark>) {
    let mark = |label: &str, done| Some(DeliveryMark { label: label.to_owned(), done });
    match payload.name() {
        "SessionStart" => (
            vec![(
                kinds::SESSION_STATUS_RUNNING,
                copy_members(payload, &[("source", "source"), ("model", "model")]),
            )],
            None,
        ),
        "UserPromptSubmit" => {
            let content = payload.get("prompt").cloned().unwrap_or_default();
            (
                vec![(kinds::USER_MESSAGE, object_members(json!({ "content": content })))],
                mark("prompt", false),
            )
        }
        "PreToolUse" => (vec![(kinds::AGENT_TOOL_USE, tool_use_body(payload))], None),
        "PostToolUse" => (vec![(kinds::AGENT_TOOL_RESULT, tool_result_body(payload))], None),
        "PostToolUseFailure" => {
            (vec![(kinds::AGENT_TOOL_RESULT, tool_failure_body(payload))], None)
        }
        "PermissionDenied" => (vec![(kinds::AGENT_TOOL_RESULT, tool_refusal_body(payload))], None),
        "PreCompact" => (vec![whole_event(payload)], mark("compaction", false)),
        "PostCompact" => {
            let names = [("trigger", "trigger"), ("compact_summary", "summary")];
            (vec![(kinds::CONTEXT_COMPACTED, copy_members(payload, &names))], None)
        }
        "Stop" => {
            let said = payload.text("last_assistant_message");
            let said =
                said.map(|text| (kinds::AGENT_MESSAGE, object_members(json!({ "content": text }))));
            let idle = object_members(json!({ "stop_reason": { "type": "end_turn" } }));
            (said.into_iter().chain([(kinds::SESSION_STATUS_IDLE, idle)]).collect(), None)
        }
        // The turn ended without an answer of the model.
        "StopFailure" => {
            let why = payload.text("error_details").or(payload.text("error")).unwrap_or_default();
            let error =
                object_members(json!({ "error": { "type": "turn_failed", "message": why } }));
            let idle = object_members(json!({ "stop_reason": { "type": "error" } }));
            (vec![(kinds::SESSION_ERROR, error), (kinds::SESSION_STATUS_IDLE, idle)], None)
        }
        "SubagentStart" => {
            (vec![(kinds::SESSION_THREAD_STATUS_RUNNING, subagent_body(payload))], None)
        }
        "SubagentStop" => (vec![(kinds::SESSION_THREAD_STATUS_IDLE, subagent_body(payload))], None),
        "SessionEnd" => {
            let body = copy_members(payload, &[("reason", "reason")]);
            (vec![(kinds::SESSION_STATUS_TERMINATED, body)], mark("final", true))
        }
        _ => (vec![whole_event(payload)], None),
    }
}

fn object_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the whole event: no type of the log matches.
fn whole_event(payload: &Payload) -> Draft {
    (kinds::TRANSCRIPT_ENTRY, object_members(json!({ "entry": payload.members() })))
}

/// Copies members under other names; absent ones are skipped.
fn copy_members(payload: &Payload, names: &[(&str, &str)]) -> Map<String, Value> {
    let found =
        names.iter().filter_map(|(from, to)| Some(((*to).to_owned(), payload.get(from)?.clone())));
    found.collect()
}

fn subagent_body(payload: &Payload) -> Map<String, Value> {
    let names = [("agent_type", "agent_name"), ("last_assistant_message", "content")];
    copy_members(payload, &names)
}

/// Splits a tool's name from its server: hooks write both as `mcp__server__tool`.
fn split_tool_name(payload: &Payload) -> (&str, Option<&str>) {
    let name = payload.text("tool_name").unwrap_or("unknown");
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => (tool, Some(server)),
        _ => (name, None),
    }
}

fn tool_use_body(payload: &Payload) -> Map<String, Value> {
    let (name, server) = split_tool_name(payload);
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(name));
    if let Some(server) = server {
        body.insert("server".to_owned(), json!(server));
    }
    body.insert("input".to_owned(), payload.get("tool_input").cloned().unwrap_or(json!({})));
    body.extend(copy_members(payload, &[("tool_use_id", "call_id")]));
    body
}

fn tool_result_body(payload: &Payload) -> Map<String, Value> {
    let mut body =
        copy_members(payload, &[("tool_use_id", "call_id"), ("duration_ms", "duration_ms")]);
    let response = payload.get("tool_response").unwrap_or(&Value::Null);
    let shell = SHELLS.contains(&split_tool_name(payload).0);
    let failed = has_failed(response) || shell && output_has_failed(response);
    let tool = payload.text("tool_name").unwrap_or_default();
    let content = match response.as_object().and_then(|members| text_of_members(tool, members)) {
        Some(text) => json!(text),
        None => response_content(response),
    };
    body.insert("content".to_owned(), content);
    body.insert("is_error".to_owned(), json!(failed));
    // The subagent that the call started.
    body.extend(response.get("agentId").map(|id| ("agent_id".to_owned(), id.clone())));
    body
}

/// Returns true if the members of a response mark a failure.
fn has_failed(response: &Value) -> bool {
    let says = |name: &str, said: bool| response.get(name) == Some(&json!(said));
    let code = |name: &&str| response.get(*name).and_then(Value::as_i64).is_some_and(|c| c != 0);
    says("is_error", true)
        || says("isError", true)
        || says("success", false)
        || ["exit_code", "exitCode", "returncode"].iter().any(code)
        || response.get("metadata").is_some_and(has_failed)
}

/// Returns true if a shell's text response reports a failed command: in JSON, or in a line before
/// the output.
fn output_has_failed(response: &Value) -> bool {
    const MARKS: [&str; 3] = ["Exit code: ", "Exit code ", "Process exited with code "];
    let Some(text) = response.as_str() else { return false };
    if text.starts_with('{') {
        let inner = json::check(text).and_then(|text| serde_json::from_str::<Value>(text).ok());
        return inner.is_some_and(|inner| has_failed(&inner));
    }
    let head = text.lines().take_while(|line| *line != "Output:").take(6);
    let code = |line: &'_ str| {
        let code = MARKS.iter().find_map(|mark| line.strip_prefix(mark))?;
        code.trim().parse::<i64>().ok()
    };
    head.filter_map(code).next().is_some_and(|code| code != 0)
}

fn tool_failure_body(payload: &Payload) -> Map<String, Value> {
    let mut body =
        copy_members(payload, &[("tool_use_id", "call_id"), ("duration_ms", "duration_ms")]);
    let why = payload.get("error").or_else(|| payload.get("tool_response"));
    let content = match response_content(why.unwrap_or(&Value::Null)) {
        Value::String(text)
            if payload.get("is_interrupt") == Some(&Value::Bool(true))
                && !is_interruption(&text) =>
        {
            json!(format!("{CALL_INTERRUPTED}: {text}"))
        }
        content => content,
    };
    body.insert("content".to_owned(), content);
    body.insert("is_error".to_owned(), json!(true));
    body
}

/// Returns the result of a call that a rule refused.
fn tool_refusal_body(payload: &Payload) -> Map<String, Value> {
    let mut body = copy_members(payload, &[("tool_use_id", "call_id")]);
    body.insert(
        "content".to_owned(),
        response_content(payload.get("reason").unwrap_or(&Value::Null)),
    );
    body.insert("is_error".to_owned(), json!(true));
    body.insert("refused".to_owned(), json!(RefusedCall::RULE));
    body
}

/// Returns a response as text or blocks. Tools have individual response shapes: known ones are
/// reduced to the readable content, any other is stored as JSON.
fn response_content(response: &Value) -> Value {
    let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
    if let Some(patch) = format_patch(response) {
        return json!(patch);
    }
    match response {
        Value::Null => json!(""),
        Value::String(text) => json!(text),
        Value::Array(blocks) if !blocks.is_empty() && blocks.iter().all(is_block) => {
            response.clone()
        }
        Value::Object(members) => match (members.get("stdout"), members.get("content")) {
            (Some(Value::String(out)), _) => {
                let err = members.get("stderr").and_then(Value::as_str).unwrap_or_default();
                // What the program tells its model in place of a status.
                let id = members.get("backgroundTaskId").and_then(Value::as_str);
                let begun = id.map(|id| format!("{RUNNING_IN_BACKGROUND}{id}."));
                let is_stopped = members.get("interrupted") == Some(&Value::Bool(true));
                let stopped = is_stopped.then(|| format!("{CALL_INTERRUPTED}."));
                let all = [begun.as_deref(), stopped.as_deref(), Some(out.as_str()), Some(err)];
                let all = all.into_iter().flatten().filter(|text| !text.is_empty());
                json!(all.collect::<Vec<_>>().join("\n"))
            }
            (None, Some(inner @ (Value::String(_) | Value::Array(_)))) => response_content(inner),
            // A file that was read; its name is in the call.
            _ => match response.pointer("/file/content") {
                Some(Value::String(text)) => json!(text),
                _ => json!(response.to_string()),
            },
        },
        other => json!(other.to_string()),
    }
}

/// Returns the text of a response of Claude Code's tools for pages, file names, tasks and
/// subagents: what its model reads in place of the members; `None` for another one.
fn text_of_members(tool: &str, members: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let lines: Vec<String> = match tool {
        "WebFetch" => {
            let code = members.get("code").and_then(Value::as_u64).filter(|code| *code >= 400);
            let words = text("codeText").unwrap_or_default();
            let status = code.map(|code| format!("HTTP {code} {words}").trim_end().to_owned());
            status.into_iter().chain([text("result")?.to_owned()]).collect()
        }
        "Task" | "Agent" if text("status") == Some("async_launched") => {
            let named = ["agentId", "outputFile"];
            let named =
                named.into_iter().filter_map(|name| Some(format!("{name}: {}", text(name)?)));
            std::iter::once(SUBAGENT_LAUNCHED.to_owned()).chain(named).collect()
        }
        "TaskCreate" => {
            let task = members.get("task")?;
            let text = |name: &str| task.get(name).and_then(Value::as_str);
            vec![format!("Task #{} created: {}", text("id")?, text("subject")?)]
        }
        "Glob" | "Grep" if !members.contains_key("content") => {
            let files = members.get("filenames")?.as_array()?.iter().filter_map(Value::as_str);
            let files: Vec<String> = files.map(str::to_owned).collect();
            let is_part = members.get("truncated") == Some(&Value::Bool(true))
                || members.contains_key("appliedLimit");
            let part = is_part.then(|| "(There are more.)".to_owned());
            let none = files.is_empty().then(|| "No files found".to_owned());
            files.into_iter().chain(none).chain(part).collect()
        }
        _ => return None,
    };
    Some(lines.join("\n"))
}

/// Formats the hunks of a file change as a unified diff, if the response has some; the old file and
/// the strings of the call are stored as well.
fn format_patch(response: &Value) -> Option<String> {
    let hunks = response.get("structuredPatch")?.as_array()?;
    let mut text = String::new();
    for hunk in hunks {
        let number = |name: &str| hunk.get(name).and_then(Value::as_u64).unwrap_or_default();
        let (old, new) = (number("oldStart"), number("newStart"));
        text.push_str(&format!(
            "@@ -{old},{} +{new},{} @@\n",
            number("oldLines"),
            number("newLines")
        ));
        for line in hunk.get("lines")?.as_array()? {
            text.push_str(line.as_str()?);
            text.push('\n');
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Cuts the event to the limit of the store. The original is dropped first, then the longest texts
/// are cut; each cut is marked with the original size.
fn truncate_event(mut event: Map<String, Value>, payload: &Payload) -> Map<String, Value> {
    if is_own_tool(payload) {
        drop_own_content(&mut event);
    }
    let bytes = json_len(&event);
    if bytes <= EVENT_BYTES {
        return event;
    }
    event.entry("truncated").or_insert_with(|| json!({ "bytes": bytes }));
    if let Some(raw) = event.get_mut("raw").and_then(Value::as_object_mut) {
        ["tool_input", "tool_response", "prompt", "error"].iter().for_each(|name| {
            raw.remove(*name);
        });
    }
    let mut longest = EVENT_BYTES / 2;
    while json_len(&event) > EVENT_BYTES && longest > 64 {
        event.values_mut().for_each(|value| shorten_texts(value, longest));
        longest /= 4;
    }
    if json_len(&event) > EVENT_BYTES {
        // Many small members: none has priority.
        event.retain(|_, value| value.to_string().len() < 4096);
    }
    event
}

fn json_len(event: &Map<String, Value>) -> usize {
    Value::Object(event.clone()).to_string().len()
}

fn shorten_texts(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) if text.len() > longest => {
            text.truncate(text.floor_char_boundary(longest));
            text.push('…');
        }
        Value::Array(values) => values.iter_mut().for_each(|value| shorten_texts(value, longest)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| shorten_texts(value, longest));
        }
        _ => {}
    }
}

fn is_own_tool(payload: &Payload) -> bool {
    split_tool_name(payload).1 == Some(OWN_SERVER)
}

/// Removes the content of a call of this program's tools: it is in the log already.
fn drop_own_content(event: &mut Map<String, Value>) {
    let elsewhere = || json!("(in this log already)");
    for name in ["content", "input"] {
        if let Some(value) = event.get_mut(name) {
            *value = elsewhere();
        }
    }
    if let Some(raw) = event.get_mut("raw").and_then(Value::as_object_mut) {
        for name in ["tool_input", "tool_response"] {
            if let Some(value) = raw.get_mut(name) {
                *value = elsewhere();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Recogniser;

    fn build_test_delivery(payload: &Value) -> Delivery {
        let payload =
            Payload::read(&payload.to_string().into_bytes().into(), &Recogniser::default())
                .expect("an event");
        super::build_delivery(&payload, Some("/home/ada/proj"), Timestamp(0), [7; 16])
    }

    #[test]
    fn a_tool_response_of_any_shape_becomes_text_or_blocks() {
        let block = json!([{ "type": "text", "text": "a" }]);
        for (response, expected) in [
            (json!("text"), json!("text")),
            (block.clone(), block.clone()),
            (json!({ "content": block }), block),
            (json!({ "stdout": "out", "stderr": "", "interrupted": false }), json!("out")),
            (json!({ "stdout": "out", "stderr": "err" }), json!("out\nerr")),
            (json!({ "filePath": "/a", "n": 1 }), json!(r#"{"filePath":"/a","n":1}"#)),
            (
                json!({ "type": "text", "file": { "content": "a\nb", "numLines": 2 } }),
                json!("a\nb"),
            ),
            (
                json!({
                    "filePath": "/a", "content": "new\nsame\n", "originalFile": "old\nsame\n",
                    "structuredPatch": [{
                        "oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2,
                        "lines": ["-old", "+new", " same"],
                    }],
                }),
                json!("@@ -1,2 +1,2 @@\n-old\n+new\n same\n"),
            ),
            (json!({ "filePath": "/a", "content": "x", "structuredPatch": [] }), json!("x")),
            (json!(null), json!("")),
            (json!([1, 2]), json!("[1,2]")),
        ] {
            assert_eq!(response_content(&response), expected, "{response}");
        }
    }

    #[test]
    fn a_failed_command_is_marked_as_an_error() {
        let failed = |tool: &str, response: &Value| {
            let made = build_test_delivery(&json!({
                "session_id": "s", "hook_event_name": "PostToolUse", "tool_name": tool,
                "tool_use_id": "t", "tool_response": response,
            }));
            made.events[0]["is_error"] == json!(true)
        };
        let codex = r#"{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}"#;
        for response in [
            json!({ "stdout": "", "stderr": "no", "exit_code": 1 }),
            json!({ "output": "no", "metadata": { "exit_code": 2 } }),
            json!({ "isError": true }),
            json!({ "success": false }),
            json!(codex),
            json!("Exit code: 1\nWall time: 2 seconds\nOutput:\nno"),
            json!("Wall time: 2 seconds\nProcess exited with code 101\nOutput:\nno"),
        ] {
            assert!(failed("Bash", &response), "{response}");
        }
        for (tool, response) in [
            ("Bash", json!({ "stdout": "Exit code: 1", "stderr": "", "interrupted": false })),
            ("Bash", json!("Exit code: 0\nOutput:\nExit code: 1")),
            ("Bash", json!("exit codes are told below")),
            ("Bash", json!({ "exit_code": 0, "success": true })),
            ("Read", json!(codex)),
            ("Read", json!("Exit code: 1")),
        ] {
            assert!(!failed(tool, &response), "{tool} {response}");
        }
    }

    #[test]
    fn a_response_of_pages_names_or_a_started_subagent_is_stored_as_its_text() {
        let started = "Async agent launched successfully.\nagentId: a7\noutputFile: /o";
        let launch = json!({ "status": "async_launched", "agentId": "a7", "outputFile": "/o" });
        let task = json!({ "task": { "id": "3", "subject": "Tax", "status": "completed" } });
        let files = json!({ "filenames": ["a.py", "b.py"], "numFiles": 2, "truncated": true });
        let missing = json!({ "code": 404, "codeText": "Not Found", "result": "no page" });
        for (tool, response, expected) in [
            ("WebFetch", json!({ "code": 200, "codeText": "OK", "result": "# Rates" }), "# Rates"),
            ("WebFetch", missing.clone(), "HTTP 404 Not Found\nno page"),
            ("Glob", files, "a.py\nb.py\n(There are more.)"),
            ("Grep", json!({ "filenames": [], "numFiles": 0 }), "No files found"),
            ("Agent", launch.clone(), started),
            ("TaskCreate", task.clone(), "Task #3 created: Tax"),
            // What another tool says is kept whole.
            ("TaskGet", task.clone(), &task.to_string()),
            ("mcp__board__TaskCreate", task.clone(), &task.to_string()),
            ("mcp__jobs__run", launch.clone(), &launch.to_string()),
            ("mcp__web__fetch", missing.clone(), &missing.to_string()),
        ] {
            let made = build_test_delivery(&json!({
                "session_id": "s", "hook_event_name": "PostToolUse", "tool_name": tool,
                "tool_use_id": "t", "tool_response": response,
            }));
            assert_eq!(made.events[0]["content"], json!(expected), "{tool} {response}");
        }
    }

    #[test]
    fn an_oversized_event_is_truncated_and_records_its_size() {
        let huge = "x".repeat(9 << 20);
        for response in [json!(huge), json!(vec!["y".repeat(90); 90_000])] {
            let made = build_test_delivery(&json!({
                "session_id": "s", "hook_event_name": "PostToolUse", "tool_name": "Read",
                "tool_use_id": "t", "tool_response": response,
            }));
            let event = &made.events[0];
            let bytes = event.to_string().len();
            assert!(bytes <= EVENT_BYTES, "{bytes}");
            assert!(event["truncated"]["bytes"].as_u64() > Some(4 << 20));
            assert_eq!(
                (&event["call_id"], &event["type"]),
                (&json!("t"), &json!("agent.tool_result"))
            );
        }
    }

    #[test]
    fn responses_of_own_tools_are_not_recorded_again() {
        let made = build_test_delivery(&json!({
            "session_id": "s", "hook_event_name": "PostToolUse", "tool_use_id": "t",
            "tool_name": "mcp__sessionlog__get_research_session", "tool_response": "the whole view",
        }));
        assert!(!made.events[0].to_string().contains("the whole view"), "{:?}", made.events);
    }

    #[test]
    fn a_repeated_hook_event_keeps_its_id_and_other_events_differ() {
        let told = |name: &str, more: Value| {
            let mut payload = json!({ "session_id": "s", "hook_event_name": name });
            payload.as_object_mut().expect("an object").extend(object_members(more));
            payload
        };
        let id = |payload: &Value, salt: u8| {
            let read =
                Payload::read(&payload.to_string().into_bytes().into(), &Recogniser::default())
                    .expect("an event");
            read.event_id([salt; 16], 0)
        };
        let call = told("PreToolUse", json!({ "tool_use_id": "t" }));
        assert_eq!(id(&call, 1), id(&call, 2));
        let result = told("PostToolUse", json!({ "tool_use_id": "t" }));
        assert_ne!(id(&call, 1), id(&result, 1));
        let stop = told("Stop", json!({ "prompt_id": "p" }));
        assert_ne!(id(&stop, 1), id(&stop, 2), "an agent stops twice in the same words");
        let prompt = told("UserPromptSubmit", json!({ "prompt_id": "p", "prompt": "go" }));
        assert_eq!(id(&prompt, 1), id(&prompt, 2));
    }
}

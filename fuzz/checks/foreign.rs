//! Feeds shapes of JSON to what reads it from other programs: bodies of MCP, inputs of hooks, and
//! what an export makes of bodies. The first byte is the shape, the second how often the rest is
//! repeated: a few bytes become millions of values. The limit of memory is the caller's.

use serde_json::Value;
use sessionlog::{
    hook::{HookInput, Payload},
    import::{self, ChatFormat, JsonMembers},
    secrets::Recogniser,
    verbs::tools,
    wire::json,
};

/// Bytes of a text at most.
const BYTES_MAX: usize = 12 << 20;

pub fn check(bytes: &[u8]) {
    let [shape, times, unit @ ..] = bytes else { return };
    let Ok(unit) = std::str::from_utf8(unit) else { return };
    let times = (1_usize << (times % 24)).min(BYTES_MAX / (unit.len() + 1));
    let many = vec![unit; times].join(if shape & 1 == 0 { "," } else { "" });
    let many = if shape & 2 == 0 { format!("[{many}]") } else { many };
    let event = format!(r#""type":"agent.tool_result","call_id":"c","content":{many}"#);
    let hook = r#""session_id":"s","hook_event_name":"PostToolUse","tool_name":"Bash""#;
    body(&many);
    body(&format!(r#"{{"method":"tools/call","params":{{"name":"emit_event","x":{many}}}}}"#));
    drop(Payload::read(
        &HookInput::from(format!("{{{hook},\"tool_response\":{many}}}").into_bytes()),
        &Recogniser::private_spans_only(),
    ));
    if let Ok(members) = JsonMembers::read(&format!("{{{event}}}")) {
        drop(import::to_messages(ChatFormat::Anthropic, std::slice::from_ref(&members)));
        drop(import::to_messages(ChatFormat::Openai, &[members]));
    }
}

/// What is taken has as many values as were counted, or fewer: a name that comes twice is one.
fn body(text: &str) {
    let _ = tools::has_large_arguments(text.as_bytes());
    let Ok(values) = json::count_values(text.as_bytes()) else { return };
    if let Ok(tree) = serde_json::from_str::<Value>(text) {
        assert!(count(&tree) <= values, "{values}");
    }
}

fn count(tree: &Value) -> usize {
    match tree {
        Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

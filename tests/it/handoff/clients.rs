//! The tools that save and restore a session and those of the graph, called through the official
//! Rust client on standard streams, by the calls that the clients of other languages make, too
//! (`tests/conformance/handoff.json`).

use std::{collections::BTreeMap, process::Stdio};

use rmcp::{ServiceExt as _, model::CallToolRequestParams};
use serde_json::{Map, Value};

use crate::program::Place;

/// Returns the value with its placeholders replaced by the stored texts.
fn fill_placeholders(value: &Value, kept: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => kept.get(text).unwrap_or(value).clone(),
        Value::Array(list) => list.iter().map(|one| fill_placeholders(one, kept)).collect(),
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, one)| (name.clone(), fill_placeholders(one, kept)));
            Value::Object(members.collect())
        }
        _ => value.clone(),
    }
}

#[test]
fn the_official_rust_client_saves_and_restores_a_session() {
    let place = Place::new();
    tokio::runtime::Runtime::new().unwrap().block_on(check_handoff(&place));
}

async fn check_handoff(place: &Place) {
    let text = std::fs::read_to_string("tests/conformance/handoff.json").unwrap();
    let steps: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut command = tokio::process::Command::from(place.command(&[
        "mcp",
        "--toolsets",
        "research,workspace,graph",
    ]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = ().serve(streams).await.unwrap();
    let mut kept = BTreeMap::new();
    for step in &steps {
        let tool = step["tool"].as_str().unwrap();
        let Value::Object(arguments) = fill_placeholders(&step["arguments"], &kept) else {
            panic!("{step}")
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = client.call_tool(params).await.unwrap();
        let said = serde_json::to_value(&answer.content).unwrap().to_string();
        if let Some(kind) = step.get("refused") {
            assert_eq!(answer.is_error, Some(true), "{step}: {said}");
            assert!(said.contains(kind.as_str().unwrap()), "{step}: {said}");
            continue;
        }
        assert_ne!(answer.is_error, Some(true), "{step}: {said}");
        let answer = answer.structured_content.unwrap();
        let at = |pointer: &str| answer.pointer(pointer).cloned().unwrap_or_default();
        let members = |name: &str| step[name].as_object().cloned().unwrap_or_else(Map::new);
        for (pointer, wanted) in members("expect") {
            assert_eq!(
                at(&pointer),
                fill_placeholders(&wanted, &kept),
                "{tool} {pointer}: {answer}"
            );
        }
        for (pointer, wanted) in members("contains") {
            let found = at(&pointer);
            let text = found.as_str().unwrap();
            assert!(text.contains(wanted.as_str().unwrap()), "{tool} {pointer}: {answer}");
        }
        for (name, pointer) in members("keep") {
            kept.insert(name, at(pointer.as_str().unwrap()));
        }
    }
    client.cancel().await.unwrap();
    child.wait().await.unwrap();
}

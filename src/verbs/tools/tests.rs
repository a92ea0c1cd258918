//! Costs of the tools for a model, and their schemas for a strict client.

use serde_json::Map;

use super::*;

/// Fewest bytes of JSON for each token, in schemas like these.
const BYTES_PER_TOKEN: f64 = 3.5;

#[test]
fn the_default_toolset_costs_a_model_less_than_two_thousand_tokens() {
    let mut bytes = 0;
    for tool in tools().iter().filter(|tool| tool.toolset == Toolset::Research) {
        let schema = Value::Object(tool.input_schema()).to_string();
        bytes += tool.name.len() + tool.about.len() + schema.len();
    }
    #[allow(clippy::cast_precision_loss)]
    let tokens = bytes as f64 / BYTES_PER_TOKEN;
    assert!(tokens < 2_000.0, "{bytes} bytes, about {tokens} tokens");
}

fn walk(schema: &Value, check: &mut dyn FnMut(&Map<String, Value>)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| walk(item, check)),
        Value::Object(members) => {
            check(members);
            members.values().for_each(|value| walk(value, check));
        }
        _ => {}
    }
}

#[test]
fn tool_schemas_are_objects_without_nulls_and_references() {
    for tool in tools() {
        let input = tool.input_schema();
        assert_eq!(input.get("type"), Some(&Value::from("object")), "{}", tool.name);
        assert_eq!(input.get("additionalProperties"), Some(&Value::Bool(false)), "{}", tool.name);
        let output = tool.output_schema();
        assert_eq!(output.get("type"), Some(&Value::from("object")), "{}", tool.name);
        for schema in [input, output] {
            walk(&Value::Object(schema), &mut |members| {
                assert_ne!(members.get("type"), Some(&Value::from("null")), "{}", tool.name);
                assert!(!members.contains_key("$ref"), "{}", tool.name);
                assert!(!members.contains_key("$defs"), "{}", tool.name);
            });
        }
    }
}

#[test]
fn every_writing_tool_takes_a_fencing_token() {
    for tool in tools() {
        let takes = tool.input_schema()["properties"].get("fencingToken").is_some();
        // A lease prevents other writes to a session, not its deletion.
        let writes = !tool.is_read_only() && tool.name != "delete_session";
        assert_eq!(takes, writes, "{}", tool.name);
    }
}

#[test]
fn parse_list_accepts_names_and_all_and_returns_an_unknown_name() {
    assert_eq!(
        Toolset::parse_list("events, research,events"),
        Ok(vec![Toolset::Events, Toolset::Research])
    );
    assert_eq!(Toolset::parse_list("research,memoir"), Err("memoir".to_owned()));
    let all = Toolset::parse_list("agent,all").expect("toolsets");
    assert_eq!((all.len(), in_toolsets(&all).count()), (6, tools().len()));
}

#[test]
fn is_own_is_true_for_every_tool() {
    for tool in tools() {
        assert!(crate::traces::tools::is_own_tool(None, tool.name), "{}", tool.name);
    }
}

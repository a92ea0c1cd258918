//! The fixtures of the conformance suite that are only content: tools, prompts and resources whose
//! answers never change, in the suite's names and words. It must not do anything.

use rmcp::model::{CallToolResult, GetPromptResult, Prompt, ReadResourceResult, Resource, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// No samples at 8 kHz.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// A value of the protocol from its JSON.
pub fn of<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a fixture keeps to the protocol")
}

/// A result from its JSON, said to be complete.
pub fn complete<T: DeserializeOwned>(mut json: Value) -> T {
    json["resultType"] = "complete".into();
    of(json)
}

/// A result of text alone.
pub fn text(text: impl Into<String>) -> CallToolResult {
    complete(json!({"content": [{"type": "text", "text": text.into()}], "isError": false}))
}

/// A result that says a tool failed.
pub fn failed(text: impl Into<String>) -> CallToolResult {
    complete(json!({"content": [{"type": "text", "text": text.into()}], "isError": true}))
}

/// The answers of tools that always say the same.
pub fn answer(tool: &str) -> Option<CallToolResult> {
    let embedded = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let content = match tool {
        "test_simple_text" => return Some(text("This is a simple text response for testing.")),
        "test_error_handling" => {
            return Some(failed("This tool intentionally returns an error for testing"));
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            let text = "This is an embedded resource content.";
            json!([embedded("test://embedded-resource", "text/plain", text)])
        }
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            embedded(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        "json_schema_2020_12_tool" | "test_x_mcp_header" => return Some(text("accepted")),
        _ => return None,
    };
    Some(complete(json!({"content": content, "isError": false})))
}

/// Every tool, as it is listed.
pub fn tools() -> Vec<Tool> {
    let plain = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_tool_with_progress",
        "test_missing_capability",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_streaming_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
    ];
    let listed = |name: &str, schema: Value| {
        of(json!({"name": name, "description": format!("Fixture {name}"), "inputSchema": schema}))
    };
    let one_text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let mut tools: Vec<Tool> =
        plain.map(|name| listed(name, json!({"type": "object", "properties": {}}))).into();
    tools.push(listed("test_sampling", one_text("prompt")));
    tools.push(listed("test_elicitation", one_text("message")));
    tools.push(listed("json_schema_2020_12_tool", modern_schema()));
    let in_a_header = json!({"type": "string", "x-mcp-header": "Region"});
    let schema = json!({"type": "object", "properties": {"region": in_a_header}});
    tools.push(listed("test_x_mcp_header", schema));
    tools
}

/// A schema with what JSON Schema 2020-12 has over its forerunners.
fn modern_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Every prompt, as it is listed.
pub fn prompts() -> Vec<Prompt> {
    let listed = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Value> = arguments
            .iter()
            .map(|name| json!({"name": name, "description": "An argument", "required": true}))
            .collect();
        of(json!({"name": name, "description": format!("Fixture {name}"), "arguments": arguments}))
    };
    vec![
        listed("test_simple_prompt", &[]),
        listed("test_prompt_with_arguments", &["arg1", "arg2"]),
        listed("test_prompt_with_embedded_resource", &["resourceUri"]),
        listed("test_prompt_with_image", &[]),
        listed("test_input_required_result_prompt", &[]),
    ]
}

/// A prompt; `argument` gives one of its arguments.
pub fn prompt(name: &str, argument: impl Fn(&str) -> String) -> Option<GetPromptResult> {
    let says = |text: &str| json!({"role": "user", "content": {"type": "text", "text": text}});
    let messages = match name {
        "test_simple_prompt" => json!([says("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([says(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))])
        }
        "test_prompt_with_embedded_resource" => json!([
            {"role": "user", "content": {"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}},
            says("Please process the embedded resource above."),
        ]),
        "test_prompt_with_image" => json!([
            {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
            says("Please analyze the image above."),
        ]),
        _ => return None,
    };
    Some(complete(json!({ "messages": messages })))
}

/// Every resource that has a URI of its own, as it is listed.
pub fn resources() -> Vec<Resource> {
    [
        ("test://static-text", "text/plain"),
        ("test://static-binary", "image/png"),
        ("test://watched-resource", "text/plain"),
    ]
    .map(|(uri, kind)| {
        of(json!({"uri": uri, "name": uri, "description": "A fixture", "mimeType": kind}))
    })
    .into()
}

/// A resource of the fixtures.
pub fn resource(uri: &str) -> Option<ReadResourceResult> {
    let text = |kind: &str, text: &str| json!({"uri": uri, "mimeType": kind, "text": text});
    let content = match uri {
        "test://static-text" => {
            text("text/plain", "This is the content of the static text resource.")
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        "test://watched-resource" => text("text/plain", "Watched."),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = format!("Data for ID: {id}");
            let data = json!({"id": id, "templateTest": true, "data": data});
            text("application/json", &data.to_string())
        }
    };
    Some(complete(json!({ "contents": [content] })))
}

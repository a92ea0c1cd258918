//! A window on the wire: events as they are stored, or messages in the formats of the two model
//! APIs. It must not choose, truncate or count anything: `harness` does.

use serde_json::{Map, Value, json, value::RawValue};

use super::json::event_text;
use crate::{
    api::{
        scalar::OpenEnum,
        search::rounded,
        window::{
            DroppedRange, EmptyWindow, RecalledPassage, TypeCount, WindowAnswer, WindowRecall,
            WindowShape,
        },
    },
    event::json,
    harness::{
        ContentBlock, Image, Message, MessagePart, Messages, READ_TYPES, RecallCandidate, Role,
        ToolResult, WindowContent,
    },
    service::{RecallView, WindowView},
};

/// Builds a window in the requested format.
#[must_use]
pub fn build_answer(view: &WindowView, shape: WindowShape) -> WindowAnswer {
    let window = &view.window;
    let (mut events, mut system, mut messages) = (None, None, None);
    match (&window.shown, shape) {
        (WindowContent::Events(shown), _) => {
            let raw = |event| RawValue::from_string(event_text(event)).ok();
            events = Some(shown.iter().filter_map(raw).collect());
        }
        (WindowContent::Messages(all), WindowShape::OpenAi) => {
            messages = Some(openai_messages(all))
        }
        (WindowContent::Messages(all), _) => {
            system = Some(all.system.iter().map(|text| text_block(text)).collect());
            messages = Some(all.turns.iter().map(anthropic_message).collect());
        }
    }
    let dropped = window.dropped.iter().map(|(range, reason)| DroppedRange {
        from: range.from,
        to: range.to,
        reason: (*reason).into(),
    });
    let count = |(kind, count): (&String, &u64)| TypeCount { kind: kind.clone(), count: *count };
    let empty = (!window.unread.is_empty()).then(|| EmptyWindow {
        renders: READ_TYPES.map(str::to_owned).to_vec(),
        left_out: window.unread.iter().map(count).collect(),
    });
    let recalled = view.recall.iter().flat_map(|recall| &recall.passages);
    WindowAnswer {
        recall: view.recall.as_ref().map(|view| convert_recall(view, shape)),
        recalled: recalled.map(convert_passage).collect(),
        empty,
        format: shape,
        position: view.position,
        events,
        system,
        messages,
        tokens: window.tokens,
        tokens_max: window.tokens_max,
        tokenizer: view.tokenizer.as_str().to_owned(),
        dropped: dropped.collect(),
        shortened: window.shortened.clone(),
    }
}

fn convert_recall(view: &RecallView, shape: WindowShape) -> WindowRecall {
    let message = view.recalled.as_ref();
    let of_events = message.filter(|_| shape == WindowShape::Events);
    WindowRecall {
        from: view.from.into(),
        tokens: message.map_or(0, |message| message.tokens),
        tokens_max: view.tokens_max,
        missing: view.missing.map(OpenEnum::from),
        text: of_events.map(|message| message.text.clone()),
    }
}

fn convert_passage(passage: &RecallCandidate) -> RecalledPassage {
    let (session, position) = (passage.session.clone(), passage.position);
    RecalledPassage { session, position, score: rounded(passage.score) }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn anthropic_message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<Value> = message.parts.iter().map(anthropic_part).collect();
    json!({ "role": role, "content": content })
}

fn anthropic_part(part: &MessagePart) -> Value {
    match part {
        MessagePart::Block(block) => anthropic_block(block),
        MessagePart::Call(call) => json!({
            "type": "tool_use", "id": call.id, "name": sanitize_tool_name(&call.name),
            "input": parse_object(&call.input),
        }),
        MessagePart::Result(result) => {
            let content: Vec<Value> = result.blocks.iter().map(anthropic_block).collect();
            let mut made = json!({
                "type": "tool_result", "tool_use_id": result.call_id, "content": content,
            });
            if result.is_error
                && let Some(members) = made.as_object_mut()
            {
                members.insert("is_error".to_owned(), json!(true));
            }
            made
        }
    }
}

fn anthropic_block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => text_block(text),
        ContentBlock::Image(Image::Url(url)) => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        ContentBlock::Image(Image::Data(media_type, data)) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
    }
}

/// Converts the conversation to OpenAI's chat format.
fn openai_messages(all: &Messages) -> Vec<Value> {
    let system = all.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let mut made: Vec<Value> = system.collect();
    for message in &all.turns {
        match message.role {
            Role::Assistant => made.push(openai_assistant(&message.parts)),
            Role::User => openai_user(&message.parts, &mut made),
        }
    }
    made
}

fn openai_assistant(parts: &[MessagePart]) -> Value {
    let (mut words, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            MessagePart::Block(block) => words.push(block_text(block)),
            MessagePart::Call(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": sanitize_tool_name(&call.name), "arguments": call.input },
            })),
            MessagePart::Result(_) => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    let content = if words.is_empty() { Value::Null } else { json!(words.join("\n\n")) };
    message.insert("content".to_owned(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message)
}

fn openai_user(parts: &[MessagePart], made: &mut Vec<Value>) {
    let mut blocks = Vec::new();
    for part in parts {
        match part {
            MessagePart::Block(block) => blocks.push(block),
            MessagePart::Result(result) => made.push(json!({
                "role": "tool", "tool_call_id": result.call_id, "content": result_text(result),
            })),
            MessagePart::Call(_) => {}
        }
    }
    if blocks.is_empty() {
        return;
    }
    let has_image = blocks.iter().any(|block| matches!(block, ContentBlock::Image(_)));
    let content = if has_image {
        blocks.iter().map(|block| openai_block(block)).collect()
    } else {
        json!(blocks.iter().map(|block| block_text(block)).collect::<Vec<_>>().join("\n\n"))
    };
    made.push(json!({ "role": "user", "content": content }));
}

fn openai_block(block: &ContentBlock) -> Value {
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    match block {
        ContentBlock::Text(text) => text_block(text),
        ContentBlock::Image(Image::Url(url)) => image(url),
        ContentBlock::Image(Image::Data(media_type, data)) => {
            image(&format!("data:{media_type};base64,{data}"))
        }
    }
}

/// Returns the text of a tool result: tool messages of this API contain nothing else.
fn result_text(result: &ToolResult) -> String {
    let words: Vec<&str> = result.blocks.iter().map(block_text).collect();
    let words = words.join("\n\n");
    if result.is_error { format!("Error: {words}") } else { words }
}

fn block_text(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Text(text) => text,
        ContentBlock::Image(_) => "[image]",
    }
}

/// Replaces characters of a tool's name that the APIs do not accept, and truncates it to 64.
fn sanitize_tool_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(plain).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// Returns arguments as an object, as calls of this API require.
fn parse_object(input: &str) -> Value {
    match json::check(input).and_then(|input| serde_json::from_str(input).ok()) {
        Some(Value::Object(members)) => Value::Object(members),
        Some(other) => json!({ "input": other }),
        None => json!({ "input": input }),
    }
}

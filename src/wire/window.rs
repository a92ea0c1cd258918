//! A window on the wire: events as they are served, or messages in the formats of the two model
//! APIs. It must not choose, cut or count anything: harness has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{json::event_text, search::rounded};
use crate::{
    event::{Point, json},
    harness::{
        Block, Image, Message, Messages, Part, Passage, READ_TYPES, Role, Shape, Shown, Tokenizer,
        ToolResult, Transform,
    },
    service::{RecallFrom, RecallView, ServiceError, ServiceResult, WindowQuery, WindowView},
};

/// Positions that a window does not show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedRange {
    /// First position that is not shown.
    pub from: u64,
    /// First position after them.
    pub to: u64,
    /// `budget`, `filtered`, `not_a_message`, `withdrawn`: no part of the conversation any more, or
    /// `before`: before the requested begin.
    pub reason: String,
}

/// Why a window shows nothing of a session that has events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyWindow {
    /// The types of events that a model reads as messages.
    pub renders: Vec<String>,
    /// The events of this session that were looked at, by their types.
    pub left_out: Vec<TypeCount>,
}

/// How many events are of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeCount {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many.
    pub count: u64,
}

/// The window view of a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowAnswer {
    /// `events`, `anthropic` or `openai`.
    pub format: String,
    /// It is of everything before this position.
    pub position: u64,
    /// The events; with format `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<super::types::Event>>")]
    pub events: Option<Vec<Box<RawValue>>>,
    /// The system prompt; with format `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub system: Option<Vec<Value>>,
    /// The conversation, in the format of that API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub messages: Option<Vec<Value>>,
    /// What it costs at most.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// By whose count: `o200k_base` or `claude`.
    pub tokenizer: String,
    /// Every position before `position` that is not shown, in order.
    pub dropped: Vec<DroppedRange>,
    /// Positions that are shown in part.
    pub shortened: Vec<u64>,
    /// Why there is no message, where the session has events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<EmptyWindow>,
    /// What it shows of the rest of the log, where it leaves something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<WindowRecall>,
    /// The passages in that, in the order of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<RecalledPassage>,
}

/// What a window shows of the rest of the log: a message before the latest one of the user, behind
/// the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRecall {
    /// `line`, or `workspace`.
    pub from: String,
    /// Tokens of it, which are a part of the window's.
    pub tokens: usize,
    /// Tokens of it at most.
    pub tokens_max: usize,
    /// Why no passage is recalled: `nothing_fits`, `index_behind`, `search_off` or `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The message, with format `events`: no event is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A passage that a window recalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecalledPassage {
    /// Its session, when it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its position.
    pub position: u64,
    /// How well it fits, beside others of the same session or of other ones.
    pub score: f64,
}

/// The name of a shape.
#[must_use]
pub fn format(shape: Shape) -> &'static str {
    match shape {
        Shape::Events => "events",
        Shape::Anthropic => "anthropic",
        Shape::OpenAi => "openai",
    }
}

/// The shape of that name.
#[must_use]
pub fn shape(name: &str) -> Option<Shape> {
    [Shape::Events, Shape::Anthropic, Shape::OpenAi].into_iter().find(|one| format(*one) == name)
}

/// What a window is asked for, as clients write it.
pub struct WindowParams<'a> {
    /// The budget.
    pub tokens_max: Option<usize>,
    /// Name of a tokenizer.
    pub tokenizer: Option<&'a str>,
    /// Names of transforms with their parameters.
    pub transforms: Vec<&'a str>,
    /// Name of a format.
    pub format: Option<&'a str>,
    /// Nothing before this.
    pub from: Option<Point>,
    /// As of then.
    pub at: Option<Point>,
    /// Where passages are recalled from.
    pub recall: Option<&'a str>,
    /// Tokens of them at most.
    pub recall_tokens: Option<usize>,
}

/// What a window is asked for.
///
/// # Errors
/// `invalid_request` naming the parameter.
pub fn query(asked: WindowParams<'_>) -> ServiceResult<WindowQuery> {
    let transforms = asked.transforms.into_iter().map(|text| {
        Transform::parse(text).map_err(|error| ServiceError::invalid("transforms[]", error))
    });
    let tokenizer = asked.tokenizer.map(|name| {
        let problem = || ServiceError::invalid("tokenizer", "o200k_base or claude");
        Tokenizer::parse(name).ok_or_else(problem)
    });
    let shape = asked.format.map(|name| {
        let problem = || ServiceError::invalid("format", "events, anthropic or openai");
        shape(name).ok_or_else(problem)
    });
    let recall = asked.recall.map(|name| {
        let problem = || ServiceError::invalid("recall", "line, none or workspace");
        RecallFrom::ALL.into_iter().find(|from| from.as_str() == name).ok_or_else(problem)
    });
    Ok(WindowQuery {
        recall: recall.transpose()?.unwrap_or_default(),
        recall_tokens: asked.recall_tokens,
        tokens_max: asked.tokens_max,
        tokenizer: tokenizer.transpose()?,
        transforms: transforms.collect::<ServiceResult<_>>()?,
        shape: shape.transpose()?.unwrap_or(Shape::Events),
        from: asked.from,
        at: asked.at,
    })
}

impl WindowAnswer {
    /// A window in the format it was asked for.
    #[must_use]
    pub fn of(view: &WindowView, shape: Shape) -> Self {
        let window = &view.window;
        let (mut events, mut system, mut messages) = (None, None, None);
        match (&window.shown, shape) {
            (Shown::Events(shown), _) => {
                let raw = |event| RawValue::from_string(event_text(event)).ok();
                events = Some(shown.iter().filter_map(raw).collect());
            }
            (Shown::Messages(all), Shape::OpenAi) => messages = Some(openai(all)),
            (Shown::Messages(all), _) => {
                system = Some(all.system.iter().map(|text| text_block(text)).collect());
                messages = Some(all.turns.iter().map(anthropic).collect());
            }
        }
        let dropped = window.dropped.iter().map(|(range, reason)| DroppedRange {
            from: range.from.0,
            to: range.to.0,
            reason: reason.as_str().to_owned(),
        });
        let count =
            |(kind, count): (&String, &u64)| TypeCount { kind: kind.clone(), count: *count };
        let empty = (!window.unread.is_empty()).then(|| EmptyWindow {
            renders: READ_TYPES.map(str::to_owned).to_vec(),
            left_out: window.unread.iter().map(count).collect(),
        });
        let recall = view.recall.as_ref().map(|recall| WindowRecall::of(recall, shape));
        let recalled = view.recall.iter().flat_map(|recall| &recall.passages);
        Self {
            recall,
            recalled: recalled.map(RecalledPassage::of).collect(),
            empty,
            format: format(shape).to_owned(),
            position: view.position.0,
            events,
            system,
            messages,
            tokens: window.tokens,
            tokens_max: window.tokens_max,
            tokenizer: view.tokenizer.as_str().to_owned(),
            dropped: dropped.collect(),
            shortened: window.shortened.iter().map(|position| position.0).collect(),
        }
    }
}

impl WindowRecall {
    fn of(view: &RecallView, shape: Shape) -> Self {
        let message = view.recalled.as_ref();
        let of_events = message.filter(|_| shape == Shape::Events);
        Self {
            from: view.from.as_str().to_owned(),
            tokens: message.map_or(0, |message| message.tokens),
            tokens_max: view.tokens_max,
            missing: view.missing.map(|why| why.as_str().to_owned()),
            text: of_events.map(|message| message.text.clone()),
        }
    }
}

impl RecalledPassage {
    fn of(passage: &Passage) -> Self {
        Self {
            session: passage.session.as_ref().map(ToString::to_string),
            position: passage.position.0,
            score: rounded(passage.score),
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn anthropic(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<Value> = message.parts.iter().map(anthropic_part).collect();
    json!({ "role": role, "content": content })
}

fn anthropic_part(part: &Part) -> Value {
    match part {
        Part::Block(block) => anthropic_block(block),
        Part::Call(call) => json!({
            "type": "tool_use", "id": call.id, "name": tool_name(&call.name),
            "input": object(&call.input),
        }),
        Part::Result(result) => {
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

fn anthropic_block(block: &Block) -> Value {
    match block {
        Block::Text(text) => text_block(text),
        Block::Image(Image::Url(url)) => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        Block::Image(Image::Data(media_type, data)) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
    }
}

/// The conversation in OpenAI's chat format.
fn openai(all: &Messages) -> Vec<Value> {
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

fn openai_assistant(parts: &[Part]) -> Value {
    let (mut words, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Block(block) => words.push(words_of(block)),
            Part::Call(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": tool_name(&call.name), "arguments": call.input },
            })),
            Part::Result(_) => {}
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

fn openai_user(parts: &[Part], made: &mut Vec<Value>) {
    let mut blocks = Vec::new();
    for part in parts {
        match part {
            Part::Block(block) => blocks.push(block),
            Part::Result(result) => made.push(json!({
                "role": "tool", "tool_call_id": result.call_id, "content": output(result),
            })),
            Part::Call(_) => {}
        }
    }
    if blocks.is_empty() {
        return;
    }
    let has_image = blocks.iter().any(|block| matches!(block, Block::Image(_)));
    let content = if has_image {
        blocks.iter().map(|block| openai_block(block)).collect()
    } else {
        json!(blocks.iter().map(|block| words_of(block)).collect::<Vec<_>>().join("\n\n"))
    };
    made.push(json!({ "role": "user", "content": content }));
}

fn openai_block(block: &Block) -> Value {
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    match block {
        Block::Text(text) => text_block(text),
        Block::Image(Image::Url(url)) => image(url),
        Block::Image(Image::Data(media_type, data)) => {
            image(&format!("data:{media_type};base64,{data}"))
        }
    }
}

/// What a tool answered, in words: this API's tools answer nothing else.
fn output(result: &ToolResult) -> String {
    let words: Vec<&str> = result.blocks.iter().map(words_of).collect();
    let words = words.join("\n\n");
    if result.is_error { format!("Error: {words}") } else { words }
}

fn words_of(block: &Block) -> &str {
    match block {
        Block::Text(text) => text,
        Block::Image(_) => "[image]",
    }
}

/// A tool's name of the characters that both APIs take.
fn tool_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(plain).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// Arguments as an object, which this API's calls must have.
fn object(input: &str) -> Value {
    match json::tree(input).and_then(|input| serde_json::from_str(input).ok()) {
        Some(Value::Object(members)) => Value::Object(members),
        Some(other) => json!({ "input": other }),
        None => json!({ "input": input }),
    }
}

//! OpenAI chat messages to events and back. One message becomes one event or several (a text and
//! its tool calls); the first holds the whole message under `raw`, the others refer to it in
//! `raw_in`. It must not do I/O.

use serde_json::{Value, value::RawValue};

use super::{
    anthropic,
    draft::{Draft, NamedBy, RecordName, event},
    fitting,
    members::{Members, Object, canonical_text, joined, listed, quote},
    responses,
    speech::{self, EventRole, Image},
    transcript::Program,
};
use crate::{
    event::{Position, SessionId, kinds, limits},
    wire::ranges,
};

/// Metadata key for the other members of a conversation's line.
const FIELDS_KEY: &str = "import.fields";
/// Metadata key for the form of the conversation's lines.
pub(super) const SHAPE_KEY: &str = "import.shape";

/// The form of a conversation's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceShape {
    /// An object with `messages`.
    Object,
    /// An array of messages.
    Array,
    /// One message per line.
    Lines,
    /// A program's own lines.
    Transcript(Program),
}

impl SourceShape {
    fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::Lines => "lines",
            Self::Transcript(program) => program.as_str(),
        }
    }
}

/// The data of a conversation besides its messages.
#[derive(Clone, Debug)]
pub(super) struct About {
    shape: SourceShape,
    /// JSON object: the members of the line except `messages`.
    fields: Option<String>,
    pub(super) title: Option<String>,
}

impl About {
    pub(super) fn object(line: &Members) -> Self {
        let fields = line.without(&["messages"]);
        let fields = Some(fields).filter(|fields| fields != "{}");
        Self {
            shape: SourceShape::Object,
            fields,
            title: line.text("title").map(|title| cut_title(&title)),
        }
    }

    pub(super) fn array() -> Self {
        Self { shape: SourceShape::Array, fields: None, title: None }
    }

    pub(super) fn lines() -> Self {
        Self { shape: SourceShape::Lines, fields: None, title: None }
    }

    pub(super) fn transcript(program: Program) -> Self {
        Self { shape: SourceShape::Transcript(program), fields: None, title: None }
    }

    /// Returns the form of the conversation's lines, as stored in metadata.
    pub(super) fn shape(&self) -> &'static str {
        self.shape.as_str()
    }

    fn fields_fit(&self) -> bool {
        let max = limits::METADATA_VALUE_CHARS_MAX;
        self.fields.as_ref().is_none_or(|fields| fields.chars().count() <= max)
    }

    /// Returns the metadata of the session.
    pub(super) fn metadata(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![(SHAPE_KEY, self.shape.as_str().to_owned())];
        if let Some(fields) = self.fields.clone().filter(|_| self.fields_fit()) {
            pairs.push((FIELDS_KEY, fields));
        }
        pairs
    }

    /// Returns a first event with the fields, if they do not fit into metadata.
    pub(super) fn drafts(&self, conversation: &mut Conversation) -> Vec<Draft> {
        let Some(fields) = self.fields.as_ref().filter(|_| !self.fields_fit()) else {
            return Vec::new();
        };
        let mut body = Object::new();
        body.add("conversation", "true");
        body.add("entry", fields);
        vec![conversation.draft(kinds::TRANSCRIPT_ENTRY, &body.finish(), fields)]
    }
}

/// Cuts a title to the length limit; the whole one stays among the fields.
fn cut_title(title: &str) -> String {
    title.chars().take(limits::TITLE_CHARS_MAX).collect()
}

/// Generator of the ids of one conversation's events, in order.
#[derive(Clone)]
pub struct Conversation {
    index: u64,
    /// Hash of all messages so far: a changed message changes the ids of all that follow.
    chain: [u8; 32],
}

impl Default for Conversation {
    fn default() -> Self {
        Self::new()
    }
}

impl Conversation {
    /// Returns a conversation without messages.
    #[must_use]
    pub fn new() -> Self {
        Self { index: 0, chain: [0; 32] }
    }

    /// Returns the events of the next message.
    #[must_use]
    pub fn message(&mut self, message: &RawValue) -> Vec<Draft> {
        let text = message.get();
        let read = Members::read(text).unwrap_or_default();
        let blocks = anthropic::message(&read);
        let format = blocks.as_ref().map(|_| quote(anthropic::FORMAT));
        let mut bodies = blocks.unwrap_or_else(|| bodies(&read));
        if bodies.is_empty() {
            let mut body = Object::new();
            body.add("entry", text);
            return vec![self.draft(kinds::TRANSCRIPT_ENTRY, &body.finish(), text)];
        }
        let first = self.name(text);
        let bodies: Vec<(&str, String)> =
            bodies.drain(..).map(|(kind, body)| (kind, body.finish())).collect();
        let made = |offset: usize, has_raw: bool| {
            let draft = |(part, (kind, body)): (usize, &(&str, String))| {
                let mut whole = Object::new();
                match part {
                    0 if has_raw => whole.add("raw", text),
                    _ => whole.add("raw_in", "true"),
                }
                format.iter().for_each(|format| whole.add("raw_format", format));
                event(&first.part('-', offset + part), kind, &joined(body, &whole.finish()))
            };
            bodies.iter().enumerate().map(draft).collect::<Vec<Draft>>()
        };
        let drafts = made(0, true);
        if drafts.iter().all(|draft| draft.too_much().is_none()) {
            return drafts;
        }
        // Stores the message separately from its content: one event cannot hold both.
        let pieces = fitting::pieces(text);
        let piece = |one: (usize, &&str)| {
            let mut body = Object::new();
            format.iter().for_each(|format| body.add("raw_format", format));
            fitting::add_piece(&mut body, (one.0, one.1), pieces.len());
            event(&first.part('-', one.0), kinds::TRANSCRIPT_ENTRY, &body.finish())
        };
        let apart = made(pieces.len(), false).into_iter().filter_map(fitting::fitted);
        pieces.iter().enumerate().map(piece).chain(apart).collect()
    }

    /// Returns the next native event, with its own id if it has one. Its position and times are the
    /// old session's; the new session assigns its own.
    #[must_use]
    pub fn event(&mut self, members: &Members) -> Draft {
        let kind = members.text("type").unwrap_or_default();
        let body = members.without(&["id", "type", "position", "processed_at", "origin"]);
        match members.text("id") {
            Some(id) => Draft { named: NamedBy::Given, ..event(&id, &kind, &body) },
            None => self.draft(&kind, &body, &body),
        }
    }

    fn draft(&mut self, kind: &str, body: &str, named_by: &str) -> Draft {
        let id = self.name(named_by).part('-', 0);
        event(&id, kind, body)
    }

    fn name(&mut self, text: &str) -> RecordName {
        // Equivalent texts get the same id; invalid JSON is hashed verbatim.
        let meaning = canonical_text(text).unwrap_or_else(|| text.to_owned());
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 imported message");
        hasher.update(&self.chain);
        hasher.update(meaning.as_bytes());
        let hash = hasher.finalize();
        self.chain = *hash.as_bytes();
        let index = self.index;
        self.index += 1;
        // Compared within one session and for one index, 64 bits suffice. They are the half of a
        // longer name that does not compress.
        let short: String = hash.to_hex().chars().take(16).collect();
        RecordName { name: format!("im-{index:06}-"), hash: short }
    }
}

/// Returns types and bodies of a message's events; empty when its form is unknown.
fn bodies(message: &Members) -> Vec<(&'static str, Object)> {
    let mut bodies = Vec::new();
    match message.text("role").as_deref() {
        Some("system" | "developer") => bodies.push((kinds::SYSTEM_MESSAGE, content(message))),
        Some("user") => bodies.push((kinds::USER_MESSAGE, content(message))),
        Some("tool" | "function") => {
            let mut body = Object::new();
            if let Some(call) = message.non_null("tool_call_id") {
                body.add("call_id", call.get());
            }
            if let Some(name) = message.non_null("name") {
                body.add("name", name.get());
            }
            if let Some(text) = message.non_null("content") {
                body.add("content", text.get());
            }
            bodies.push((kinds::AGENT_TOOL_RESULT, body));
        }
        Some("assistant") => {
            let calls = calls(message);
            if message.non_null("content").is_some() || calls.is_empty() {
                bodies.push((kinds::AGENT_MESSAGE, content(message)));
            }
            bodies.extend(calls.into_iter().map(|body| (kinds::AGENT_TOOL_USE, body)));
        }
        Some(_) => {}
        None => bodies = responses::bodies(message),
    }
    bodies
}

fn content(message: &Members) -> Object {
    let mut body = Object::new();
    if let Some(content) = message.non_null("content") {
        body.add("content", content.get());
    }
    body
}

fn calls(message: &Members) -> Vec<Object> {
    let listed = message.non_null("tool_calls").and_then(listed::<Members>).unwrap_or_default();
    let mut calls: Vec<Object> = listed
        .iter()
        .map(|call| {
            let function = call.non_null("function").and_then(|f| Members::read(f.get()).ok());
            tool_use(&function.unwrap_or_default(), call.non_null("id"))
        })
        .collect();
    // The older form: one call, without an id.
    if let Some(function) =
        message.non_null("function_call").and_then(|f| Members::read(f.get()).ok())
    {
        calls.push(tool_use(&function, None));
    }
    calls
}

fn tool_use(function: &Members, id: Option<&RawValue>) -> Object {
    let mut body = Object::new();
    if let Some(name) = function.non_null("name") {
        body.add("name", name.get());
    }
    // Arguments are a text that holds JSON; a model may write one that does not parse.
    match function.text("arguments") {
        Some(text) => match serde_json::from_str::<&RawValue>(text.trim()) {
            Ok(input) => body.add("input", input.get()),
            Err(_) => body.add("input", &quote(&text)),
        },
        None => {
            if let Some(arguments) = function.non_null("arguments") {
                body.add("input", arguments.get());
            }
        }
    }
    if let Some(id) = id {
        body.add("call_id", id.get());
    }
    body
}

/// The chat format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chat {
    /// `OpenAI`'s chat format.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
}

/// Writes a session's events as messages, imported ones unchanged: the lines of a file. `metadata`
/// reads a session's metadata by name.
#[must_use]
pub fn to_chat(
    chat: Chat,
    session: &SessionId,
    metadata: &dyn Fn(&str) -> Option<String>,
    events: &[Members],
) -> Vec<String> {
    let (WrittenMessages { fields, messages }, system) = write_chat(chat, events);
    match metadata(SHAPE_KEY).as_deref() {
        Some("lines") => messages,
        Some("array") => vec![format!("[{}]", messages.join(","))],
        shape => {
            let fields = fields.or_else(|| metadata(FIELDS_KEY));
            let fields = fields.unwrap_or_else(|| match shape {
                Some("object") => "{}".to_owned(),
                _ => format!("{{\"id\":{}}}", quote(session.as_str())),
            });
            vec![object_with(&with_system(fields, system), &messages)]
        }
    }
}

/// Writes the events as one object without the session's metadata: the messages, and the fields
/// that were too large for metadata.
#[must_use]
pub fn to_messages(chat: Chat, events: &[Members]) -> String {
    let (WrittenMessages { fields, messages }, system) = write_chat(chat, events);
    object_with(&with_system(fields.unwrap_or_else(|| "{}".to_owned()), system), &messages)
}

fn write_chat(chat: Chat, events: &[Members]) -> (WrittenMessages, Option<String>) {
    let events = &without_withdrawn(events);
    let made = write_openai(events);
    match chat {
        Chat::Openai => (made, None),
        Chat::Anthropic => {
            let (messages, system) = anthropic::messages(events);
            (WrittenMessages { messages, ..made }, system)
        }
    }
}

/// Returns the events that no rewind withdrew from the conversation.
fn without_withdrawn(events: &[Members]) -> Vec<Members> {
    let is_rewound =
        |event: &&Members| event.text("type").as_deref() == Some(kinds::CONTEXT_REWOUND);
    let withdrawn = events.iter().rfind(is_rewound).and_then(|event| event.non_null("withdrawn"));
    let withdrawn = withdrawn.map(|list| ranges(list.get())).unwrap_or_default();
    let at = |event: &Members| event.value("position").and_then(|at| at.as_u64());
    let stays = |event: &&Members| {
        at(event).is_none_or(|at| !withdrawn.iter().any(|range| range.contains(Position(at))))
    };
    joined_pieces(events.iter().filter(stays))
}

/// Joins the pieces of messages that are stored in several events.
fn joined_pieces<'a>(events: impl Iterator<Item = &'a Members>) -> Vec<Members> {
    let mut text = String::new();
    let piece = |event: &'a Members| {
        let is_chat = event.text("raw_format").is_none_or(|format| format == anthropic::FORMAT);
        let count = |name: &str| event.value(name).and_then(|count| count.as_u64());
        let (Some(piece), Some(pieces), true) = (count("piece"), count("pieces"), is_chat) else {
            return Some(event.clone());
        };
        text.push_str(&event.text("text").unwrap_or_default());
        let raw = (piece + 1 == pieces).then(|| std::mem::take(&mut text))?;
        let mut whole = Object::new();
        whole.add("type", &quote(kinds::TRANSCRIPT_ENTRY));
        whole.add("raw", &raw);
        event
            .non_null("raw_format")
            .into_iter()
            .for_each(|format| whole.add("raw_format", format.get()));
        Members::read(&whole.finish()).ok()
    };
    events.filter_map(piece).collect()
}

/// Adds the system text to the fields, unless they contain one.
fn with_system(fields: String, system: Option<String>) -> String {
    let says = Members::read(&fields).is_ok_and(|fields| fields.raw("system").is_some());
    let Some(system) = system.filter(|_| !says) else { return fields };
    let head = fields.strip_suffix('}').unwrap_or("{");
    format!("{head}{}\"system\":{system}}}", if head == "{" { "" } else { "," })
}

fn object_with(fields: &str, messages: &[String]) -> String {
    let head = fields.strip_suffix('}').unwrap_or("{");
    let comma = if head == "{" { "" } else { "," };
    format!("{head}{comma}\"messages\":[{}]}}", messages.join(","))
}

/// Messages in the chat format.
struct WrittenMessages {
    /// The other members of the line, if an event has them.
    fields: Option<String>,
    messages: Vec<String>,
}

fn write_openai(events: &[Members]) -> WrittenMessages {
    let (mut fields, mut messages) = (None, Vec::new());
    let mut open: Option<Assistant> = None;
    for event in events {
        if speech::is_aside(event) {
            continue;
        }
        let kind = event.text("type").unwrap_or_default();
        let foreign = event.raw("raw_format").is_some();
        if let Some(raw) = event.raw("raw").filter(|_| !foreign) {
            Assistant::close(&mut open, &mut messages);
            messages.push(raw.get().to_owned());
        } else if event.raw("raw_in").is_some() && !foreign {
            // Part of a message that is already written.
        } else if let Some(entry) =
            event.raw("entry").filter(|_| kind == kinds::TRANSCRIPT_ENTRY && !foreign)
        {
            match event.value("conversation") {
                Some(Value::Bool(true)) => fields = Some(entry.get().to_owned()),
                _ => messages.push(entry.get().to_owned()),
            }
        } else {
            write_native(event, &mut open, &mut messages);
        }
    }
    Assistant::close(&mut open, &mut messages);
    WrittenMessages { fields, messages }
}

/// An assistant message under construction: a text and the calls that follow it.
#[derive(Default)]
struct Assistant {
    content: Option<String>,
    calls: Vec<String>,
}

impl Assistant {
    fn close(open: &mut Option<Self>, messages: &mut Vec<String>) {
        let Some(assistant) = open.take() else { return };
        let mut message = Object::new();
        message.add("role", "\"assistant\"");
        message.add("content", assistant.content.as_deref().unwrap_or("null"));
        if !assistant.calls.is_empty() {
            message.add("tool_calls", &format!("[{}]", assistant.calls.join(",")));
        }
        messages.push(message.finish());
    }
}

/// Adds the message of an event that was not imported; ignores other events.
fn write_native(event: &Members, open: &mut Option<Assistant>, messages: &mut Vec<String>) {
    let content = content_of(event.non_null("content"));
    let mut message = Object::new();
    match EventRole::from_event(event) {
        EventRole::Agent => {
            Assistant::close(open, messages);
            *open = Some(Assistant { content: Some(content), calls: Vec::new() });
            return;
        }
        EventRole::Call => {
            let mut function = Object::new();
            function.add("name", event.non_null("name").map_or("\"\"", RawValue::get));
            let input = event.non_null("input").map_or("{}", RawValue::get);
            // A string is arguments that did not parse when they were recorded.
            let arguments = if input.starts_with('"') { input.to_owned() } else { quote(input) };
            function.add("arguments", &arguments);
            let mut call = Object::new();
            call.add("id", speech::call_id(event));
            call.add("type", "\"function\"");
            call.add("function", &function.finish());
            open.get_or_insert_default().calls.push(call.finish());
            return;
        }
        EventRole::Answer => {
            message.add("role", "\"tool\"");
            message.add("tool_call_id", speech::call_id(event));
            message.add("content", &content);
        }
        EventRole::User => {
            message.add("role", "\"user\"");
            message.add("content", &content);
        }
        EventRole::System => {
            message.add("role", "\"system\"");
            message.add("content", &content);
        }
        EventRole::Summary if event.non_null("summary").is_some() => {
            message.add("role", "\"user\"");
            message.add("content", &content_of(event.non_null("summary")));
        }
        EventRole::Summary | EventRole::Nothing => return,
    }
    Assistant::close(open, messages);
    messages.push(message.finish());
}

/// Converts a content to this format: a text unchanged, blocks under this format's names.
fn content_of(content: Option<&RawValue>) -> String {
    if let Some(text) = content.filter(|content| content.get().starts_with('"')) {
        return text.get().to_owned();
    }
    let part = |(block, raw): (speech::ContentBlock, String)| match block {
        speech::ContentBlock::Text(text) => speech::text_block(&text),
        speech::ContentBlock::Image(image) => {
            let mut url = Object::new();
            url.add(
                "url",
                &match image {
                    Image::Url(url) => quote(&url),
                    Image::Data(media_type, data) => {
                        quote(&format!("data:{media_type};base64,{data}"))
                    }
                },
            );
            let mut part = Object::new();
            part.add("type", "\"image_url\"");
            part.add("image_url", &url.finish());
            part.finish()
        }
        speech::ContentBlock::Other => raw,
    };
    let parts: Vec<String> = speech::blocks(content).into_iter().map(part).collect();
    if parts.is_empty() { "\"\"".to_owned() } else { format!("[{}]", parts.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_besides_the_messages_round_trip_at_any_size() {
        for length in [1, 600] {
            let id = "x".repeat(length);
            let line = format!(r#"{{"id":"{id}","reward":0.0,"messages":[]}}"#);
            let about = About::object(&Members::read(&line).expect("object"));
            let drafts = about.drafts(&mut Conversation::new());
            let events: Vec<Members> =
                drafts.iter().map(|draft| Members::read(&draft.text).expect("object")).collect();
            let pairs = about.metadata();
            let metadata = |name: &str| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
            };
            let session = SessionId::new("s").expect("an id");
            assert_eq!(to_chat(Chat::Openai, &session, &metadata, &events), [line]);
        }
    }
}

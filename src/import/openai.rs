//! Converts OpenAI chat messages to events and back. A message becomes one event or several (a text
//! and its tool calls); the first has the whole message in `raw`, the others have `raw_in`. It must
//! not do I/O.

use serde_json::{Value, value::RawValue};

use super::{
    anthropic,
    draft::{EventDraft, IdSource, RecordName, new_draft},
    fitting,
    members::{JsonMembers, ObjectWriter, canonical_text, merge, parse_list, quote},
    responses,
    speech::{self, EventRole, ImportedImage},
    transcript::TranscriptProgram,
};
use crate::{
    client::CLIENT_KEY,
    event::{Position, SessionId, kinds, limits},
    wire::parse_ranges,
};

/// Metadata key for the members of a conversation's line besides its messages.
const FIELDS_KEY: &str = "import.fields";
/// Metadata key for the form of the conversation in its source.
pub const SHAPE_KEY: &str = "import.shape";

/// Form of a conversation in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceShape {
    /// An object with `messages`.
    Object,
    /// An array of messages.
    Array,
    /// One message per line.
    Lines,
    /// The transcript of a program.
    Transcript(TranscriptProgram),
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
pub(super) struct ConversationFields {
    shape: SourceShape,
    /// JSON object: the members of the line except `messages`.
    fields: Option<String>,
    pub(super) title: Option<String>,
}

impl ConversationFields {
    pub(super) fn from_object(line: &JsonMembers) -> Self {
        let fields = line.without(&["messages"]);
        let fields = Some(fields).filter(|fields| fields != "{}");
        Self {
            shape: SourceShape::Object,
            fields,
            title: line.text("title").map(|title| cut_title(&title)),
        }
    }

    pub(super) fn for_array() -> Self {
        Self { shape: SourceShape::Array, fields: None, title: None }
    }

    pub(super) fn for_lines() -> Self {
        Self { shape: SourceShape::Lines, fields: None, title: None }
    }

    pub(super) fn for_transcript(program: TranscriptProgram) -> Self {
        Self { shape: SourceShape::Transcript(program), fields: None, title: None }
    }

    /// Returns the form of the conversation in its source, as stored in metadata.
    pub(super) fn shape(&self) -> &'static str {
        self.shape.as_str()
    }

    fn fields_fit(&self) -> bool {
        let max = limits::METADATA_VALUE_CHARS_MAX;
        self.fields.as_ref().is_none_or(|fields| fields.chars().count() <= max)
    }

    /// Returns the metadata for the session.
    pub(super) fn metadata(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![(SHAPE_KEY, self.shape.as_str().to_owned())];
        if let SourceShape::Transcript(program) = &self.shape {
            pairs.push((CLIENT_KEY, program.as_str().to_owned()));
        }
        if let Some(fields) = self.fields.clone().filter(|_| self.fields_fit()) {
            pairs.push((FIELDS_KEY, fields));
        }
        pairs
    }

    /// Returns an event with the fields if they do not fit into metadata, else none.
    pub(super) fn field_drafts(&self, conversation: &mut ConversationIds) -> Vec<EventDraft> {
        let Some(fields) = self.fields.as_ref().filter(|_| !self.fields_fit()) else {
            return Vec::new();
        };
        let mut body = ObjectWriter::new();
        body.add("conversation", "true");
        body.add("entry", fields);
        vec![conversation.next_draft(kinds::TRANSCRIPT_ENTRY, &body.finish(), fields)]
    }
}

/// Cuts a title to the length limit; the fields have the whole title.
fn cut_title(title: &str) -> String {
    title.chars().take(limits::TITLE_CHARS_MAX).collect()
}

/// Generator of the ids of one conversation's events, in order.
#[derive(Clone)]
pub struct ConversationIds {
    index: u64,
    /// Hash of all messages so far: a changed message changes the ids of all that follow.
    chain: [u8; 32],
}

impl Default for ConversationIds {
    fn default() -> Self {
        Self::new()
    }
}

impl ConversationIds {
    /// Creates a generator for a conversation without messages.
    #[must_use]
    pub fn new() -> Self {
        Self { index: 0, chain: [0; 32] }
    }

    /// Returns the events of the next message.
    #[must_use]
    pub fn add_message(&mut self, message: &RawValue) -> Vec<EventDraft> {
        let text = message.get();
        let read = JsonMembers::read(text).unwrap_or_default();
        let blocks = anthropic::message_bodies(&read);
        let format = blocks.as_ref().map(|_| quote(anthropic::FORMAT));
        let mut bodies = blocks.unwrap_or_else(|| message_bodies(&read));
        if bodies.is_empty() {
            let mut body = ObjectWriter::new();
            body.add("entry", text);
            return vec![self.next_draft(kinds::TRANSCRIPT_ENTRY, &body.finish(), text)];
        }
        let first = self.next_name(text);
        let bodies: Vec<(&str, String)> =
            bodies.drain(..).map(|(kind, body)| (kind, body.finish())).collect();
        let made = |offset: usize, has_raw: bool| {
            let draft = |(part, (kind, body)): (usize, &(&str, String))| {
                let mut whole = ObjectWriter::new();
                match part {
                    0 if has_raw => whole.add("raw", text),
                    _ => whole.add("raw_in", "true"),
                }
                format.iter().for_each(|format| whole.add("raw_format", format));
                new_draft(&first.part_id('-', offset + part), kind, &merge(body, &whole.finish()))
            };
            bodies.iter().enumerate().map(draft).collect::<Vec<EventDraft>>()
        };
        let drafts = made(0, true);
        if drafts.iter().all(|draft| draft.problem().is_none()) {
            return drafts;
        }
        // One event cannot hold both the message and its content, so they are stored separately.
        let pieces = fitting::split_pieces(text);
        let piece = |one: (usize, &&str)| {
            let mut body = ObjectWriter::new();
            format.iter().for_each(|format| body.add("raw_format", format));
            fitting::add_piece(&mut body, (one.0, one.1), pieces.len());
            new_draft(&first.part_id('-', one.0), kinds::TRANSCRIPT_ENTRY, &body.finish())
        };
        let apart = made(pieces.len(), false).into_iter().filter_map(fitting::fit_draft);
        pieces.iter().enumerate().map(piece).chain(apart).collect()
    }

    /// Returns the next native event, with its own id if it has one, and without its position and
    /// time: the new session assigns others.
    #[must_use]
    pub fn add_event(&mut self, members: &JsonMembers) -> EventDraft {
        let kind = members.text("type").unwrap_or_default();
        let body = members.without(&["id", "type", "position", "processed_at", "origin"]);
        match members.text("id") {
            Some(id) => EventDraft { named: IdSource::Given, ..new_draft(&id, &kind, &body) },
            None => self.next_draft(&kind, &body, &body),
        }
    }

    fn next_draft(&mut self, kind: &str, body: &str, named_by: &str) -> EventDraft {
        let id = self.next_name(named_by).part_id('-', 0);
        new_draft(&id, kind, body)
    }

    fn next_name(&mut self, text: &str) -> RecordName {
        // Equivalent texts get the same id; invalid JSON is hashed verbatim.
        let meaning = canonical_text(text).unwrap_or_else(|| text.to_owned());
        let mut hasher = blake3::Hasher::new_derive_key("sessionlog v1 imported message");
        hasher.update(&self.chain);
        hasher.update(meaning.as_bytes());
        let hash = hasher.finalize();
        self.chain = *hash.as_bytes();
        let index = self.index;
        self.index += 1;
        // Only ids of one session with the same index are compared, so 64 bits suffice.
        let short: String = hash.to_hex().chars().take(16).collect();
        RecordName { name: format!("im-{index:06}-"), hash: short }
    }
}

/// Returns types and bodies of a message's events; empty if the form of the message is unknown.
fn message_bodies(message: &JsonMembers) -> Vec<(&'static str, ObjectWriter)> {
    let mut bodies = Vec::new();
    match message.text("role").as_deref() {
        Some("system" | "developer") => bodies.push((kinds::SYSTEM_MESSAGE, content_body(message))),
        Some("user") => bodies.push((kinds::USER_MESSAGE, content_body(message))),
        Some("tool" | "function") => {
            let mut body = ObjectWriter::new();
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
            let calls = call_bodies(message);
            if message.non_null("content").is_some() || calls.is_empty() {
                bodies.push((kinds::AGENT_MESSAGE, content_body(message)));
            }
            bodies.extend(calls.into_iter().map(|body| (kinds::AGENT_TOOL_USE, body)));
        }
        Some(_) => {}
        None => bodies = responses::bodies(message),
    }
    bodies
}

fn content_body(message: &JsonMembers) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    if let Some(content) = message.non_null("content") {
        body.add("content", content.get());
    }
    body
}

fn call_bodies(message: &JsonMembers) -> Vec<ObjectWriter> {
    let listed_calls =
        message.non_null("tool_calls").and_then(parse_list::<JsonMembers>).unwrap_or_default();
    let mut calls: Vec<ObjectWriter> = listed_calls
        .iter()
        .map(|call| {
            let function = call.non_null("function").and_then(|f| JsonMembers::read(f.get()).ok());
            call_body(&function.unwrap_or_default(), call.non_null("id"))
        })
        .collect();
    // The deprecated form of a single call, without an id.
    if let Some(function) =
        message.non_null("function_call").and_then(|f| JsonMembers::read(f.get()).ok())
    {
        calls.push(call_body(&function, None));
    }
    calls
}

fn call_body(function: &JsonMembers, id: Option<&RawValue>) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    if let Some(name) = function.non_null("name") {
        body.add("name", name.get());
    }
    // Arguments are JSON in a string; a model may write invalid JSON.
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

/// Chat format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatFormat {
    /// `OpenAI`'s chat format.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
}

/// Writes a session's events as messages, imported ones unchanged; returns the lines of a file.
/// `metadata` returns a value of the session's metadata.
#[must_use]
pub fn to_chat(
    chat: ChatFormat,
    session: &SessionId,
    metadata: &dyn Fn(&str) -> Option<String>,
    events: &[JsonMembers],
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
            vec![conversation_object(&with_system(fields, system), &messages)]
        }
    }
}

/// Writes events as one object: the messages, and the fields that are stored in an event, since
/// they were too large for metadata.
#[must_use]
pub fn to_messages(chat: ChatFormat, events: &[JsonMembers]) -> String {
    let (WrittenMessages { fields, messages }, system) = write_chat(chat, events);
    conversation_object(&with_system(fields.unwrap_or_else(|| "{}".to_owned()), system), &messages)
}

fn write_chat(chat: ChatFormat, events: &[JsonMembers]) -> (WrittenMessages, Option<String>) {
    let events = &without_withdrawn(events);
    let made = write_openai(events);
    match chat {
        ChatFormat::Openai => (made, None),
        ChatFormat::Anthropic => {
            let (messages, system) = anthropic::write_messages(events);
            (WrittenMessages { messages, ..made }, system)
        }
    }
}

/// Returns the events except those that a rewind withdrew from the conversation.
fn without_withdrawn(events: &[JsonMembers]) -> Vec<JsonMembers> {
    let is_rewound =
        |event: &&JsonMembers| event.text("type").as_deref() == Some(kinds::CONTEXT_REWOUND);
    let withdrawn = events.iter().rfind(is_rewound).and_then(|event| event.non_null("withdrawn"));
    let withdrawn = withdrawn.map(|list| parse_ranges(list.get())).unwrap_or_default();
    let at = |event: &JsonMembers| event.value("position").and_then(|at| at.as_u64());
    let stays = |event: &&JsonMembers| {
        at(event).is_none_or(|at| !withdrawn.iter().any(|range| range.contains(Position(at))))
    };
    join_pieces(events.iter().filter(stays))
}

/// Joins the pieces of a message that is stored in several events.
fn join_pieces<'a>(events: impl Iterator<Item = &'a JsonMembers>) -> Vec<JsonMembers> {
    let mut text = String::new();
    let piece = |event: &'a JsonMembers| {
        let is_chat = event.text("raw_format").is_none_or(|format| format == anthropic::FORMAT);
        let count = |name: &str| event.value(name).and_then(|count| count.as_u64());
        let (Some(piece), Some(pieces), true) = (count("piece"), count("pieces"), is_chat) else {
            return Some(event.clone());
        };
        text.push_str(&event.text("text").unwrap_or_default());
        let raw = (piece + 1 == pieces).then(|| std::mem::take(&mut text))?;
        let mut whole = ObjectWriter::new();
        whole.add("type", &quote(kinds::TRANSCRIPT_ENTRY));
        whole.add("raw", &raw);
        event
            .non_null("raw_format")
            .into_iter()
            .for_each(|format| whole.add("raw_format", format.get()));
        JsonMembers::read(&whole.finish()).ok()
    };
    events.filter_map(piece).collect()
}

/// Adds the system text to the fields, unless they have one.
fn with_system(fields: String, system: Option<String>) -> String {
    let has_system = JsonMembers::read(&fields).is_ok_and(|fields| fields.raw("system").is_some());
    let Some(system) = system.filter(|_| !has_system) else { return fields };
    let head = fields.strip_suffix('}').unwrap_or("{");
    format!("{head}{}\"system\":{system}}}", if head == "{" { "" } else { "," })
}

fn conversation_object(fields: &str, messages: &[String]) -> String {
    let head = fields.strip_suffix('}').unwrap_or("{");
    let comma = if head == "{" { "" } else { "," };
    format!("{head}{comma}\"messages\":[{}]}}", messages.join(","))
}

/// Messages in the chat format.
struct WrittenMessages {
    /// Members of the line besides its messages, if an event has them.
    fields: Option<String>,
    messages: Vec<String>,
}

fn write_openai(events: &[JsonMembers]) -> WrittenMessages {
    let (mut fields, mut messages) = (None, Vec::new());
    let mut open: Option<AssistantMessage> = None;
    for event in events {
        if speech::is_outside_chat(event) {
            continue;
        }
        let kind = event.text("type").unwrap_or_default();
        let foreign = event.raw("raw_format").is_some();
        if let Some(raw) = event.raw("raw").filter(|_| !foreign) {
            AssistantMessage::close(&mut open, &mut messages);
            messages.push(raw.get().to_owned());
        } else if event.raw("raw_in").is_some() && !foreign {
            // A part of the imported message that was written before.
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
    AssistantMessage::close(&mut open, &mut messages);
    WrittenMessages { fields, messages }
}

/// An assistant message under construction: a text and the calls that follow it.
#[derive(Default)]
struct AssistantMessage {
    content: Option<String>,
    calls: Vec<String>,
}

impl AssistantMessage {
    fn close(open: &mut Option<Self>, messages: &mut Vec<String>) {
        let Some(assistant) = open.take() else { return };
        let mut message = ObjectWriter::new();
        message.add("role", "\"assistant\"");
        message.add("content", assistant.content.as_deref().unwrap_or("null"));
        if !assistant.calls.is_empty() {
            message.add("tool_calls", &format!("[{}]", assistant.calls.join(",")));
        }
        messages.push(message.finish());
    }
}

/// Adds the message of an event that was not imported; ignores other events.
fn write_native(
    event: &JsonMembers,
    open: &mut Option<AssistantMessage>,
    messages: &mut Vec<String>,
) {
    let content = convert_content(event.non_null("content"));
    let mut message = ObjectWriter::new();
    match EventRole::from_event(event) {
        EventRole::Agent => {
            AssistantMessage::close(open, messages);
            *open = Some(AssistantMessage { content: Some(content), calls: Vec::new() });
            return;
        }
        EventRole::Call => {
            let mut function = ObjectWriter::new();
            function.add("name", event.non_null("name").map_or("\"\"", RawValue::get));
            let input = event.non_null("input").map_or("{}", RawValue::get);
            // A string holds arguments that were not valid JSON when they were recorded.
            let arguments = if input.starts_with('"') { input.to_owned() } else { quote(input) };
            function.add("arguments", &arguments);
            let mut call = ObjectWriter::new();
            call.add("id", speech::call_id(event));
            call.add("type", "\"function\"");
            call.add("function", &function.finish());
            open.get_or_insert_default().calls.push(call.finish());
            return;
        }
        EventRole::Result => {
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
            message.add("content", &convert_content(event.non_null("summary")));
        }
        EventRole::Summary | EventRole::Nothing => return,
    }
    AssistantMessage::close(open, messages);
    messages.push(message.finish());
}

/// Converts a content to this format: a text is unchanged, blocks get the names of this format.
fn convert_content(content: Option<&RawValue>) -> String {
    if let Some(text) = content.filter(|content| content.get().starts_with('"')) {
        return text.get().to_owned();
    }
    let part = |(block, raw): (speech::ImportedBlock, String)| match block {
        speech::ImportedBlock::Text(text) => speech::text_block(&text),
        speech::ImportedBlock::Image(image) => {
            let mut url = ObjectWriter::new();
            url.add(
                "url",
                &match image {
                    ImportedImage::Url(url) => quote(&url),
                    ImportedImage::Data(media_type, data) => {
                        quote(&format!("data:{media_type};base64,{data}"))
                    }
                },
            );
            let mut part = ObjectWriter::new();
            part.add("type", "\"image_url\"");
            part.add("image_url", &url.finish());
            part.finish()
        }
        speech::ImportedBlock::Other => raw,
    };
    let parts: Vec<String> = speech::split_blocks(content).into_iter().map(part).collect();
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
            let about = ConversationFields::from_object(&JsonMembers::read(&line).expect("object"));
            let drafts = about.field_drafts(&mut ConversationIds::new());
            let events: Vec<JsonMembers> = drafts
                .iter()
                .map(|draft| JsonMembers::read(&draft.text).expect("object"))
                .collect();
            let pairs = about.metadata();
            let metadata = |name: &str| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
            };
            let session = SessionId::new("s").expect("an id");
            assert_eq!(to_chat(ChatFormat::Openai, &session, &metadata, &events), [line]);
        }
    }
}

//! Searchable text of an event: the strings and numbers of its body, except ids, paths and encoded
//! data; and the pieces of the text, each of which is a passage. `kinds::searchable_part` names the
//! types with text. It must not know what a query is.

use std::fmt::{self, Display, Formatter, Write as _};

use serde_json::{Map, Value};

use super::{
    entities::EntityKind,
    terms::{Term, visit_terms},
};
use crate::{
    event::{
        Event, json,
        kinds::{self, SearchableText},
    },
    projection::{body, strip_program_text},
    traces::{command_names, result_text, shell_line, tools},
};

/// Members that are not searchable: ids and types, references to other events and files,
/// directories, redactions, and encoded data.
const NOT_READ: [&str; 18] = [
    "id",
    "type",
    "raw",
    "call_id",
    "signature",
    "redactions",
    "session_thread_id",
    "within",
    "cwd",
    "transcript_path",
    "agent_transcript_path",
    "rollout_path",
    "uuid",
    "parent_uuid",
    "parentUuid",
    "leafUuid",
    "sessionId",
    "requestId",
];
/// Members in which the recorder of an event states its source, duration and size.
const OF_RECORDER: [&str; 25] = [
    "of",
    "hash",
    "duration_ms",
    "cached",
    "exit_code",
    "git_branch",
    "modified_at",
    "bytes",
    "positions",
    "position",
    "truncated",
    "raw_format",
    "raw_in",
    "raw_before",
    "raw_after",
    "recorded_from",
    "transcript",
    "message_id",
    "prompt_id",
    "turn_id",
    "agent_id",
    "model",
    "mended",
    "permission_mode",
    "refused",
];
/// Minimum bytes for a text of letters, digits and `+/=_-` to be treated as encoded data.
const ENCODED_BYTES_MIN: usize = 256;
/// Terms of a piece, and maximum terms of one that does not end at white space.
const PIECE_TERMS: usize = 512;
const PIECE_TERMS_MAX: usize = 2 * PIECE_TERMS;
/// Maximum pieces of an event; the rest is part of the last.
const PIECES_MAX: u16 = u16::MAX;
/// Names of speakers that are roles, not persons.
const ROLES: [&str; 7] = ["user", "agent", "assistant", "system", "tool", "human", "model"];
/// Maximum characters of a speaker's name.
const SPEAKER_CHARS_MAX: usize = 64;

/// Searchable text of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventText {
    /// Strings and numbers of the body, one per line.
    pub text: String,
    /// Speaker that the event names; for a message without one, its role.
    pub speaker: Option<String>,
    /// Member `kind` of the body.
    pub kind: Option<String>,
    /// Entities in members of the event: commands of a call, a person as speaker, a written entity.
    pub named: Vec<(EntityKind, String)>,
}

impl EventText {
    /// Extracts the text of an event; empty for a type without text, for a call of one of this
    /// program's own tools, whose arguments are in the log already, and if the body is not JSON.
    #[must_use]
    pub fn from_event(event: &Event) -> Self {
        let Some(body) = searchable_body(event) else { return Self::default() };
        let mut text = String::new();
        visit_values(event.kind.as_str(), &body, &mut |_, value| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{value}");
        });
        let member = |name: &str| body.get(name).and_then(Value::as_str);
        let named = ["speaker", "author"].iter().find_map(|name| member(name));
        let is_message = matches!(
            event.kind.as_str(),
            kinds::USER_MESSAGE | kinds::AGENT_MESSAGE | kinds::SYSTEM_MESSAGE
        );
        let role = event.kind.as_str().split('.').next().filter(|_| is_message);
        let named = named.or_else(|| member("name").filter(|_| is_message)).or(role);
        let is_name = |name: &&str| name.chars().count() <= SPEAKER_CHARS_MAX;
        let person = named.filter(|name| is_name(name) && !ROLES.contains(name));
        let person = person.map(|name| (EntityKind::Person, name.to_owned()));
        Self {
            named: person.into_iter().chain(entities_by_form(event.kind.as_str(), &body)).collect(),
            text,
            speaker: named.filter(is_name).map(str::to_owned),
            kind: member("kind").filter(is_name).map(str::to_owned),
        }
    }

    /// Returns the piece with a number, counted from 0; empty if there is none.
    #[must_use]
    pub fn piece(&self, piece: u16) -> &str {
        let mut starts = vec![0];
        visit_piece_terms(&self.text, |number, start, _| {
            if usize::from(number) == starts.len() {
                starts.push(start);
            }
        });
        let end = starts.get(usize::from(piece) + 1).copied().unwrap_or(self.text.len());
        let start = starts.get(usize::from(piece)).copied().unwrap_or(end);
        self.text.get(start..end).unwrap_or_default().trim()
    }
}

/// Returns the entities in members of a body: the commands of a call, a written entity.
fn entities_by_form(kind: &str, body: &Value) -> Vec<(EntityKind, String)> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    if kind == kinds::GRAPH_ENTITY_UPSERTED {
        let kind = text("entity_type").and_then(EntityKind::from_name);
        let named = kind.zip(text("entity_id").map(str::to_owned));
        return named.into_iter().collect();
    }
    let input = body.get("input").filter(|_| kinds::is_call(kind));
    let said = |name: &&str| input?.get(*name).filter(|value| !value.is_null());
    let line = ["command", "cmd"].iter().find_map(said).and_then(shell_line);
    let commands = line.map(|line| command_names(&line)).unwrap_or_default();
    commands.into_iter().map(|name| (EntityKind::Command, name)).collect()
}

/// Calls `visit` with number and start of a piece, and a term of it, for every term of a text.
pub(super) fn visit_piece_terms(text: &str, mut visit: impl FnMut(u16, usize, &Term<'_>)) {
    let (mut piece, mut start, mut count, mut end) = (0_u16, 0, 0_usize, 0);
    visit_terms(text, |term| {
        if !term.whole {
            let between = text.get(end..term.range.start).unwrap_or_default();
            let is_apart = between.contains(char::is_whitespace);
            let is_full = count >= PIECE_TERMS && is_apart || count >= PIECE_TERMS_MAX;
            if is_full && piece < PIECES_MAX {
                (piece, start, count) = (piece + 1, term.range.start, 0);
            }
            count += 1;
            end = term.range.end;
        }
        visit(piece, start, term);
    });
}

/// Returns the body of an event if it has searchable text. A call of this program's own tools has
/// none: its arguments are in the log already, and a recorded query would find itself.
pub(super) fn searchable_body(event: &Event) -> Option<Value> {
    if kinds::searchable_part(event.kind.as_str()) == SearchableText::Nothing {
        return None;
    }
    let body = body::read_tree::<Value>(&event.with_paired_surrogates().body)?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let server = text("server").or_else(|| text("mcp_server_name"));
    let is_own = tools::is_own_tool(server, text("name").unwrap_or_default());
    (!is_own).then_some(body)
}

/// Calls `visit` with each searchable string or number of a body of type `kind`, and the name of
/// its member.
pub(super) fn visit_values(
    kind: &str,
    body: &Value,
    visit: &mut dyn FnMut(Option<&str>, &dyn Display),
) {
    match kinds::searchable_part(kind) {
        SearchableText::Nothing => {}
        SearchableText::In(member) => {
            let value = body.get(member).into_iter();
            value.for_each(|value| visit_member(kind, Some(member), value, visit));
        }
        SearchableText::Body => visit_member(kind, None, body, visit),
    }
}

fn visit_member(
    kind: &str,
    name: Option<&str>,
    value: &Value,
    visit: &mut dyn FnMut(Option<&str>, &dyn Display),
) {
    match value {
        Value::String(text) if !is_encoded(text) => {
            let inner = if kinds::is_result(kind) { result_text(text) } else { text };
            let visible = strip_program_text(inner);
            match parse_json(&visible) {
                Some(value) => visit(name, &ReadableValue(&value)),
                None if visible.trim().is_empty() => {}
                None => visit(name, &visible),
            }
        }
        Value::Number(number) => visit(name, number),
        Value::Array(values) => {
            values.iter().for_each(|value| visit_member(kind, name, value, visit));
        }
        Value::Object(members) => {
            let is_event = name.is_none();
            for (name, value) in members {
                if is_searchable(name, members) && !(is_event && OF_RECORDER.contains(&&**name)) {
                    visit_member(kind, Some(name), value, visit);
                }
            }
        }
        _ => {}
    }
}

/// Parses a text that is a JSON object or array, as some tools return it; `None` for other text.
fn parse_json(text: &str) -> Option<Value> {
    let text = text.trim();
    let is_json = text.starts_with('{') && text.ends_with('}')
        || text.starts_with('[') && text.ends_with(']');
    let value = is_json.then(|| json::check(text)).flatten()?;
    serde_json::from_str(value).ok()
}

/// Formats a value for a reader: `name: value`, an object per line, without quotes and escapes.
struct ReadableValue<'v>(&'v Value);

impl Display for ReadableValue<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => Ok(()),
            Value::String(text) => out.write_str(text),
            Value::Array(values) => values.iter().enumerate().try_for_each(|(at, value)| {
                let is_row = matches!(value, Value::Object(_) | Value::Array(_));
                let between = if at == 0 {
                    ""
                } else if is_row {
                    "\n"
                } else {
                    ", "
                };
                write!(out, "{between}{}", ReadableValue(value))
            }),
            Value::Object(members) => {
                members.iter().enumerate().try_for_each(|(at, (name, value))| {
                    let between = if at == 0 { "" } else { ", " };
                    write!(out, "{between}{name}: {}", ReadableValue(value))
                })
            }
            other => write!(out, "{other}"),
        }
    }
}

fn is_searchable(name: &str, members: &Map<String, Value>) -> bool {
    let is_binary = name == "data"
        && ["media_type", "mime_type", "mimeType", "encoding"]
            .iter()
            .any(|other| members.contains_key(*other));
    !is_binary && !NOT_READ.contains(&name) && !name.ends_with("tool_use_id")
}

/// Returns true if the text is encoded bytes, which have no words.
fn is_encoded(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    text.len() >= ENCODED_BYTES_MIN
        && (text.bytes().all(digit) || text.starts_with("data:") && text.contains(";base64,"))
}

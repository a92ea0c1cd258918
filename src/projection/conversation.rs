//! Summary of a conversation: the agent's latest messages, counts by event type, and the latest
//! events in one line each. It must not keep a body.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    Marks,
    claims::WithdrawnStatement,
    messages::{KeptMessages, Message},
    sentences::sentences,
    small_talk::is_courtesy,
};
use crate::{
    api::overview::EventLine,
    event::{
        Event, EventType, Position, kinds,
        text::{clip, one_line},
    },
    traces::{content_text, parse_string},
};

/// Most event types counted separately; further ones share a count.
const KINDS_MAX: usize = 64;
/// Most events kept in one line each.
const RECENT_MAX: usize = 8;
/// Most characters of such a line.
const LINE_CHARS_MAX: usize = 160;
/// Most characters of the last message.
const SAID_CHARS_MAX: usize = 500;

/// Most messages of the agent kept; the next two bound their total bytes and each one's characters.
const ANSWERS_MAX: usize = 64;
const ANSWERS_BYTES_MAX: usize = 24 << 10;
const ANSWER_CHARS_MAX: usize = 4_000;
/// Prefix of a statement that no longer holds.
const WITHDRAWN: &str = "(no longer holds) ";

/// A message of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpokenMessage {
    /// Position of the message.
    pub position: Position,
    /// Text, up to 4 000 characters.
    pub text: String,
    /// Byte ranges of statements that no longer hold, unordered.
    withdrawn: Vec<Range<usize>>,
}

impl Message for SpokenMessage {
    fn position(&self) -> Position {
        self.position
    }

    fn text(&self) -> &str {
        &self.text
    }
}

impl SpokenMessage {
    /// Returns the statements that no longer hold.
    pub fn withdrawn_statements(&self) -> impl Iterator<Item = &str> {
        self.withdrawn.iter().filter_map(|range| self.text.get(range.clone()))
    }

    /// Returns true if most of it no longer holds.
    #[must_use]
    pub fn is_mostly_withdrawn(&self) -> bool {
        self.withdrawn_statements().map(str::len).sum::<usize>() * 2 > self.text.len()
    }

    /// Returns the text with each statement that no longer holds marked.
    #[must_use]
    pub fn text_with_marks(&self) -> Cow<'_, str> {
        let mut ranges: Vec<&Range<usize>> = self.withdrawn.iter().collect();
        if ranges.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let (mut made, mut at) = (String::new(), 0);
        for range in ranges.into_iter().filter(|range| self.text.get((*range).clone()).is_some()) {
            made.push_str(self.text.get(at..range.start).unwrap_or_default());
            made.push_str(WITHDRAWN);
            at = range.start;
        }
        made.push_str(self.text.get(at..).unwrap_or_default());
        Cow::Owned(made)
    }
}

/// Summary of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Number of events.
    pub events: u64,
    /// Number of events of each type.
    pub counts: BTreeMap<EventType, u64>,
    /// Number of events of further types.
    pub other: u64,
    /// Latest message of the agent.
    pub last_answer: Option<EventLine>,
    /// Latest events with text, oldest first, without those of subagents and those that only report
    /// how a program ran.
    pub recent: VecDeque<EventLine>,
    answers: KeptMessages<SpokenMessage>,
}

impl Conversation {
    /// Returns the agent's latest messages, and older ones that were marked important, oldest
    /// first, each up to 4 000 characters.
    #[must_use]
    pub fn answers(&self) -> &VecDeque<SpokenMessage> {
        self.answers.all()
    }

    /// Returns true if a message at that position may have been dropped.
    pub(super) fn may_have_dropped(&self, position: Position) -> bool {
        self.answers.may_have_dropped(position)
    }

    /// Marks a statement of a message as withdrawn; returns its text.
    pub(super) fn withdraw_statement(&mut self, gone: &WithdrawnStatement) -> Option<&str> {
        let answer = self.answers.get_mut(gone.position)?;
        let text = answer.text.get(gone.range.clone())?;
        answer.withdrawn.push(gone.range.clone());
        Some(text)
    }

    fn keep_answer(&mut self, position: Position, text: &str, marks: &Marks) {
        let text = clip(text.trim(), ANSWER_CHARS_MAX);
        if !text.is_empty() {
            let spoken = SpokenMessage { position, text, withdrawn: Vec::new() };
            self.answers.add(spoken, (ANSWERS_MAX, ANSWERS_BYTES_MAX), marks);
        }
    }

    /// Folds one event; returns the text of a message of the agent itself.
    pub(super) fn fold(&mut self, event: &Event, marks: &Marks) -> Option<String> {
        self.events += 1;
        let counted = self.counts.len();
        match self.counts.get_mut(&event.kind) {
            Some(count) => *count += 1,
            None if counted < KINDS_MAX => {
                self.counts.insert(event.kind.clone(), 1);
            }
            None => self.other += 1,
        }
        if is_trace(&event.kind) {
            return None;
        }
        let is_message = event.kind.as_str() == kinds::AGENT_MESSAGE;
        let answer = is_message.then(|| message_text(&event.body)).flatten();
        let answer = answer.map(|answer| answer.trim().to_owned());
        // A message of courtesies has no content.
        let answer = answer.filter(|answer| !is_all_courtesy(answer));
        let is_answer = is_message && answer.is_some();
        let chars = if is_answer { SAID_CHARS_MAX } else { LINE_CHARS_MAX };
        let mut line = EventLine {
            position: event.position,
            kind: event.kind.clone(),
            text: format_event_line(&event.body, chars),
            at: event.happened_at(),
        };
        if !line.text.is_empty() {
            if is_answer {
                self.last_answer = Some(line.clone());
                line.text = one_line(&line.text, LINE_CHARS_MAX);
            }
            self.recent.push_back(line);
            keep_newest(&mut self.recent, RECENT_MAX, usize::MAX, |_| 1);
        }
        let answer = answer?;
        self.keep_answer(event.position, &answer, marks);
        Some(answer)
    }

    pub(super) fn weight(&self) -> usize {
        (self.counts.len() + self.recent.len() + 3) * 400 + self.answers.weight()
    }
}

/// Returns true if an event only reports how a client's program ran, what a request cost or what a
/// hook injected, and nothing about the work.
fn is_trace(kind: &EventType) -> bool {
    matches!(
        kind.as_str(),
        kinds::TRANSCRIPT_ENTRY
            | kinds::SPAN_MODEL_REQUEST_END
            | kinds::CONTEXT_INJECTED
            | kinds::CONTEXT_REWOUND
            | kinds::SESSION_RESTORED
            | kinds::FILE_CHECKED
            | kinds::SESSION_STATUS_RUNNING
            | kinds::SESSION_STATUS_IDLE
            | kinds::SESSION_STATUS_RESCHEDULED
            | kinds::SESSION_STATUS_TERMINATED
            | kinds::SESSION_THREAD_STATUS_RUNNING
            | kinds::SESSION_THREAD_STATUS_IDLE
    )
}

/// Drops the oldest items until the list is within both bounds; the latest item stays.
pub(super) fn keep_newest<T>(
    list: &mut VecDeque<T>,
    items_max: usize,
    bytes_max: usize,
    bytes: impl Fn(&T) -> usize,
) {
    let mut total: usize = list.iter().map(&bytes).sum();
    while list.len() > items_max || total > bytes_max && list.len() > 1 {
        let Some(oldest) = list.pop_front() else { return };
        total -= bytes(&oldest);
    }
}

/// Body of an agent's message; one of a subagent names its thread.
#[derive(Deserialize)]
struct AgentMessage<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    session_thread_id: Option<IgnoredAny>,
}

/// Returns true if every sentence of a message is a courtesy or narration.
fn is_all_courtesy(text: &str) -> bool {
    let is_one = |sentence: &str| sentence.is_empty() || is_courtesy(sentence);
    !text.is_empty() && sentences(text, text.len()).map(str::trim).all(is_one)
}

fn message_text(body: &[u8]) -> Option<String> {
    let answer: AgentMessage<'_> = super::body::read(body)?;
    answer.session_thread_id.is_none().then_some(())?;
    answer.content.map(content_text)
}

/// Members of the common events that a view shows.
#[derive(Deserialize)]
struct ShownMembers<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    session_thread_id: Option<IgnoredAny>,
}

/// Formats an event in one line: its text, the tool and its input, or the raw body; empty for an
/// event of a subagent.
fn format_event_line(body: &[u8], chars_max: usize) -> String {
    let as_is = || one_line(&strip_raw_member(body), chars_max);
    let Some(shape) = super::body::read::<ShownMembers<'_>>(body) else { return as_is() };
    if shape.session_thread_id.is_some() {
        return String::new();
    }
    if let Some(name) = shape.name.and_then(parse_string) {
        let input = shape.input.map_or("", RawValue::get);
        return one_line(
            &format!("{} {}", one_line(&name, 60), one_line(input, chars_max)),
            chars_max,
        );
    }
    match shape.content {
        Some(content) => one_line(&content_text(content), chars_max),
        None => as_is(),
    }
}

/// Returns a body without the `raw` member, which has the client's original.
fn strip_raw_member(body: &[u8]) -> String {
    let members: Option<BTreeMap<String, &RawValue>> = super::body::read(body);
    let kept = members.filter(|members| members.contains_key("raw")).and_then(|mut members| {
        members.remove("raw");
        serde_json::to_string(&members).ok()
    });
    kept.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_line_has_its_text_its_tool_or_its_raw_body() {
        for (body, expected) in [
            (r#"{"content":"hello\nthere"}"#, "hello there"),
            (r#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]}"#, "a b"),
            (r#"{"name":"grep","input":{"q": 1},"call_id":"c"}"#, r#"grep {"q": 1}"#),
            (r#"{"content":{"x":1}}"#, r#"{"x":1}"#),
            (r#"{"content":null}"#, r#"{"content":null}"#),
            (r#"{"state":1}"#, r#"{"state":1}"#),
            (r#"{"state":1,"raw":{"transcript_path":"/x"}}"#, r#"{"state":1}"#),
            ("not json", "not json"),
        ] {
            assert_eq!(format_event_line(body.as_bytes(), 160), expected);
        }
    }
}

//! Parser of server-sent events, each with its source bytes. It must not hold more than one event,
//! nor interpret its data.

use std::time::Duration;

use bytes::BytesMut;

/// Maximum bytes of an event that is parsed. A longer one is returned in parts, without data.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Value of the field `event`; empty when absent.
    pub name: String,
    /// Value of the field `id`.
    pub id: Option<String>,
    /// Values of the fields `data`, joined by line breaks.
    pub data: String,
    /// Source bytes of the event, including the empty line after it.
    pub raw: Vec<u8>,
    /// True for a part of an event that is too long to be parsed.
    pub is_part: bool,
}

impl SseEvent {
    fn from_part(raw: Vec<u8>) -> Self {
        Self { raw, is_part: true, ..Self::default() }
    }

    /// Returns true if the event has only comments.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty() && self.id.is_none() && self.data.is_empty()
    }

    /// Returns the event's bytes with other data.
    #[must_use]
    pub fn with_data(&self, data: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(&self.raw);
        let mut out = String::with_capacity(self.raw.len() + data.len());
        let mut said = false;
        for line in text.lines() {
            let is_data = line == "data" || line.starts_with("data:");
            if is_data && !said {
                // A line break ends a field: data of several lines is several fields.
                for line in data.split('\n') {
                    out.push_str("data: ");
                    out.push_str(line);
                    out.push('\n');
                }
            }
            said |= is_data;
            if !is_data {
                out.push_str(line);
                out.push('\n');
            }
        }
        out.into_bytes()
    }
}

/// Parses events from the bytes of a stream.
#[derive(Debug)]
pub struct SseEvents {
    buffer: BytesMut,
    /// Byte offsets of the start of the unfinished line, and of the end of the scan.
    line: usize,
    seen: usize,
    /// Set if a part of the event was returned: true if that part ended within a line.
    within: Option<bool>,
    /// Id of the latest event that has one.
    pub last_id: Option<String>,
    /// Time to wait before a reconnect, as set by the server.
    pub retry: Option<Duration>,
    bytes_max: usize,
}

impl Default for SseEvents {
    fn default() -> Self {
        Self::with_limit(EVENT_BYTES_MAX)
    }
}

impl SseEvents {
    fn with_limit(bytes_max: usize) -> Self {
        let (buffer, line, seen) = (BytesMut::new(), 0, 0);
        Self { buffer, line, seen, within: None, last_id: None, retry: None, bytes_max }
    }

    /// Adds bytes; returns the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.find_event_end() {
            let raw = self.buffer.split_to(end).to_vec();
            events.push(match self.within.take() {
                Some(_) => SseEvent::from_part(raw),
                None => self.parse_event(raw),
            });
        }
        if self.buffer.len() > self.bytes_max {
            let raw = self.take_rest();
            self.within = Some(raw.last() != Some(&b'\n'));
            events.push(SseEvent::from_part(raw));
        }
        events
    }

    /// Returns and removes the bytes after the last whole event.
    pub fn take_rest(&mut self) -> Vec<u8> {
        (self.line, self.seen) = (0, 0);
        std::mem::take(&mut self.buffer).to_vec()
    }

    /// Returns the end of the first event: after its empty line.
    fn find_event_end(&mut self) -> Option<usize> {
        while let Some(more) = self.buffer.get(self.seen..)?.iter().position(|byte| *byte == b'\n')
        {
            let (begin, end) = (self.line, self.seen + more);
            (self.line, self.seen) = (end + 1, end + 1);
            let rest_of_a_line = begin == 0 && self.within == Some(true);
            let line = self.buffer.get(begin..end)?;
            if !rest_of_a_line && (line.is_empty() || line == b"\r") {
                (self.line, self.seen) = (0, 0);
                return Some(end + 1);
            }
        }
        self.seen = self.buffer.len();
        None
    }

    fn parse_event(&mut self, raw: Vec<u8>) -> SseEvent {
        let text = String::from_utf8_lossy(&raw);
        let mut event = SseEvent::default();
        let mut data: Vec<&str> = Vec::new();
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "event" => event.name = value.to_owned(),
                "data" => data.push(value),
                "id" => event.id = Some(value.to_owned()),
                "retry" => self.retry = value.parse().ok().map(Duration::from_millis),
                _ => {}
            }
        }
        self.last_id = event.id.clone().or(self.last_id.take());
        event.data = data.join("\n");
        SseEvent { raw, ..event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oversized_event_is_passed_on_in_parts_without_data() {
        let text = format!("data: 1\n\ndata: {0}\ndata: {0}\n\ndata: 2\n\n", "x".repeat(50));
        for size in [1, 2, 7, 20, 1_000] {
            let mut events = SseEvents::with_limit(30);
            let read: Vec<SseEvent> =
                text.as_bytes().chunks(size).flat_map(|chunk| events.push(chunk)).collect();
            let raw: Vec<u8> = read.iter().flat_map(|event| event.raw.clone()).collect();
            assert_eq!(raw, text.as_bytes(), "every byte, in order");
            let data = read.iter().map(|event| &*event.data).filter(|data| data.len() == 1);
            assert_eq!(data.collect::<Vec<_>>(), ["1", "2"], "{size}");
            assert!(read.iter().all(|event| event.is_part == event.data.is_empty()), "{size}");
        }
    }

    #[test]
    fn events_are_parsed_for_any_chunking_of_bytes() {
        let text = "event: message\nid: 7\ndata: {\"a\":\ndata: 1}\n\n: ping\n\nretry: 50\r\ndata:x\r\n\r\nid: 9\n";
        for size in [1, 2, 7, 1_000] {
            let mut events = SseEvents::default();
            let read: Vec<SseEvent> =
                text.as_bytes().chunks(size).flat_map(|chunk| events.push(chunk)).collect();
            let data: Vec<_> = read.iter().map(|event| event.data.as_str()).collect();
            assert_eq!(data, ["{\"a\":\n1}", "", "x"], "{size}");
            assert_eq!((&*read[0].name, read[0].id.as_deref()), ("message", Some("7")));
            assert!(read[1].is_empty() && !read[0].is_empty() && !read[2].is_empty());
            assert_eq!(events.last_id.as_deref(), Some("7"));
            assert_eq!(events.retry, Some(Duration::from_millis(50)));
            let all: Vec<u8> =
                read.iter().flat_map(|event| event.raw.clone()).chain(events.take_rest()).collect();
            assert_eq!(all, text.as_bytes(), "every byte, in order");
            assert_eq!(read[0].with_data("new"), b"event: message\nid: 7\ndata: new\n\n");
            let lines = read[0].with_data("{\"a\":\n2}");
            assert_eq!(lines, b"event: message\nid: 7\ndata: {\"a\":\ndata: 2}\n\n");
            assert_eq!(SseEvents::default().push(&lines)[0].data, "{\"a\":\n2}");
        }
    }
}

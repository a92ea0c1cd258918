//! The record of everything that a server's clients sent and received, compared with sessions. The
//! events of a writer are a function of its number and the count of its writes, so that a lost
//! event and an invented one are recognised. It must not do I/O.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

/// Maximum complaints kept as text; the rest is counted.
const COMPLAINTS_MAX: usize = 20;

/// An event as a writer sends it: `(writer, request, index in its batch)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    pub writer: u64,
    pub request: u64,
    pub place: u64,
}

impl Mark {
    /// Returns the number of events in its batch.
    fn batch_len(self) -> u64 {
        batch_size(self.writer, self.request)
    }

    /// Returns its name in the log, for example `w1r2e0`.
    pub fn name(self) -> String {
        format!("w{}r{}e{}", self.writer, self.request, self.place)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (writer, rest) = text.strip_prefix('w')?.split_once('r')?;
        let (request, place) = rest.split_once('e')?;
        Some(Self {
            writer: writer.parse().ok()?,
            request: request.parse().ok()?,
            place: place.parse().ok()?,
        })
    }

    /// Returns its text: length and content depend only on the mark.
    pub fn text(self) -> String {
        let name = self.name();
        let length = 20 + (self.writer * 7 + self.request * 31 + self.place * 13) % 900;
        let mut text = String::new();
        while text.len() < length as usize {
            text += &name;
            text.push('.');
        }
        text
    }
}

fn batch_size(writer: u64, request: u64) -> u64 {
    1 + (writer + request * 5) % 4
}

/// Returns the marks of one request.
pub fn batch(writer: u64, request: u64) -> impl Iterator<Item = Mark> {
    (0..batch_size(writer, request)).map(move |place| Mark { writer, request, place })
}

/// Returns the body of one request, with event ids if the server must recognise events by them.
pub fn body(writer: u64, request: u64, ids: bool) -> String {
    let events: Vec<String> = batch(writer, request)
        .map(|mark| {
            let (name, text) = (mark.name(), mark.text());
            let id = if ids { format!(r#""id":"{name}","#) } else { String::new() };
            format!(r#"{{"type":"test.mark",{id}"mark":"{name}","text":"{text}"}}"#)
        })
        .collect();
    format!(r#"{{"events":[{}]}}"#, events.join(","))
}

/// Knowledge of clients about one session.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Acknowledged or seen events by their positions.
    known: BTreeMap<u64, Mark>,
    /// The last request each writer sent.
    sent: BTreeMap<u64, u64>,
    /// Events whose redaction was requested; true if it was acknowledged.
    taken: BTreeMap<Mark, bool>,
    /// Number of events acknowledged.
    pub acked: u64,
    /// Position after the last known event.
    tail: u64,
    /// Position of the fork in its parent, which may be within a batch.
    base: u64,
}

/// Counts of a check.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub acked: u64,
    pub retries: u64,
    pub reads: u64,
    pub wrong: u64,
    pub complaints: Vec<String>,
}

impl Tally {
    pub fn complain(&mut self, what: String) {
        self.wrong += 1;
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(what);
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.retries += other.retries;
        self.reads += other.reads;
        self.wrong += other.wrong;
        let room = COMPLAINTS_MAX.saturating_sub(self.complaints.len());
        self.complaints.extend(other.complaints.iter().take(room).cloned());
    }

    #[track_caller]
    pub fn assert_nothing_wrong(&self) {
        assert_eq!(self.wrong, 0, "{:#?}", self.complaints);
    }
}

impl Ledger {
    /// Records that a writer is about to send a request, perhaps again.
    pub fn sends(&mut self, writer: u64, request: u64) {
        let last = self.sent.entry(writer).or_insert(request);
        *last = request.max(*last);
    }

    /// Records that a request was acknowledged at `first`.
    pub fn acknowledged(&mut self, writer: u64, request: u64, first: u64, tally: &mut Tally) {
        for mark in batch(writer, request) {
            self.knows(first + mark.place, mark, "acknowledged", tally);
            self.acked += 1;
            tally.acked += 1;
        }
    }

    fn knows(&mut self, position: u64, mark: Mark, how: &str, tally: &mut Tally) {
        let before = self.known.insert(position, mark);
        if before.is_some_and(|before| before != mark) {
            tally.complain(format!("{how} at {position}: {mark:?}, known there: {before:?}"));
        }
        self.tail = self.tail.max(position + 1);
    }

    /// Drops knowledge gained after `before`; requests that were sent stay sent.
    pub fn knows_only(&mut self, before: Option<&Self>) {
        let before = before.cloned().unwrap_or_default();
        *self = Self { sent: std::mem::take(&mut self.sent), ..before };
    }

    /// Records that a redaction was sent, or, with `answered`, acknowledged.
    pub fn takes_away(&mut self, mark: Mark, answered: bool) {
        *self.taken.entry(mark).or_default() |= answered;
    }

    /// Returns the events whose bodies are redacted.
    pub fn gone(&self) -> impl Iterator<Item = Mark> {
        self.taken.iter().filter(|(_, answered)| **answered).map(|(mark, _)| *mark)
    }

    /// Returns the events with a known position.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        self.known.values().copied()
    }

    /// Returns the ledger of a fork at `at`.
    pub fn fork(&self, at: u64) -> Self {
        let known = self.known.range(..at).map(|(at, mark)| (*at, *mark)).collect();
        Self { known, acked: 0, tail: at, base: at, ..self.clone() }
    }

    /// Returns the tail that every later read must reach.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Records events that a reader got from position `from` on; they are permanent from now on.
    /// `floor` is [`Self::tail`] from before the read.
    pub fn saw(&mut self, from: u64, slice: &Value, floor: u64, tally: &mut Tally) {
        tally.reads += 1;
        let tail = slice["tail"].as_u64().unwrap_or(0);
        if tail < floor {
            tally.complain(format!("a read saw the tail {tail} after {floor} was known"));
        }
        for (position, event) in (from..).zip(events(slice)) {
            match self.read(position, event) {
                Ok(mark) => self.knows(position, mark, "seen", tally),
                Err(why) => tally.complain(why),
            }
        }
    }

    /// Parses a served event and checks it against its own content.
    fn read(&self, position: u64, event: &Value) -> Result<Mark, String> {
        let found = event["position"].as_u64();
        if found != Some(position) {
            return Err(format!("position {found:?} where {position} belongs"));
        }
        let bare = event["redacted"] == true;
        let mark = event[if bare { "id" } else { "mark" }].as_str().and_then(Mark::parse);
        let mark = mark.ok_or_else(|| format!("a phantom at {position}: {event}"))?;
        match (bare, self.taken.get(&mark)) {
            (true, None) => return Err(format!("nobody redacted what lies at {position}")),
            (true, Some(_)) if event.get("text").is_none() => {}
            (_, Some(true)) => return Err(format!("a body came back at {position}: {event}")),
            _ if event["text"] != mark.text() => {
                return Err(format!("wrong bytes at {position}: {event}"));
            }
            _ => {}
        }
        let sent = self.sent.get(&mark.writer).is_some_and(|last| mark.request <= *last);
        match sent && mark.place < mark.batch_len() {
            true => Ok(mark),
            false => Err(format!("a phantom at {position}: {}", mark.name())),
        }
    }

    /// Checks the whole session, first event to last.
    pub fn check(&mut self, slices: &[Value], tally: &mut Tally) {
        let served: Vec<&Value> = slices.iter().flat_map(events).collect();
        let mut seen = HashSet::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        let mut open: Option<Mark> = None;
        for (position, event) in (0..).zip(&served) {
            let mark = match self.read(position, event) {
                Ok(mark) => mark,
                Err(why) => {
                    tally.complain(why);
                    continue;
                }
            };
            if !seen.insert(mark) {
                tally.complain(format!("a duplicate at {position}: {}", mark.name()));
            }
            open = open.filter(|_| position != self.base);
            let follows = match open {
                Some(before) => Mark { place: before.place + 1, ..before } == mark,
                None => mark.place == 0,
            };
            if !follows {
                tally.complain(format!("part of a batch at {position}: {}", mark.name()));
            }
            open = Some(mark).filter(|mark| mark.place + 1 < mark.batch_len());
            if last.insert(mark.writer, mark.request).is_some_and(|before| before > mark.request) {
                tally.complain(format!("out of order at {position}: {}", mark.name()));
            }
            self.knows(position, mark, "served", tally);
        }
        if let Some(mark) = open.filter(|_| served.len() as u64 != self.base) {
            tally.complain(format!("part of a batch at the end: {}", mark.name()));
        }
        let end = served.len() as u64;
        for (position, mark) in self.known.range(end..) {
            tally.complain(format!("lost: {} at {position}, the end is {end}", mark.name()));
        }
    }
}

fn events(slice: &Value) -> &[Value] {
    slice["data"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(marks: &[(u64, Mark)]) -> Value {
        let data: Vec<Value> = marks
            .iter()
            .map(|(at, m)| json!({"position": at, "mark": m.name(), "text": m.text()}))
            .collect();
        json!({ "tail": marks.len(), "data": data })
    }

    /// Returns a ledger with requests 0 and 1 of writer 0 acknowledged (one event, then two).
    fn acknowledged_ledger() -> (Ledger, Vec<(u64, Mark)>) {
        let (mut ledger, mut tally) = (Ledger::default(), Tally::default());
        let mut marks = Vec::new();
        for request in 0..2 {
            let first = marks.len() as u64;
            ledger.sends(0, request);
            ledger.acknowledged(0, request, first, &mut tally);
            marks.extend(batch(0, request).map(|mark| (first + mark.place, mark)));
        }
        assert_eq!(tally.wrong, 0);
        (ledger, marks)
    }

    #[test]
    fn the_ledger_reports_a_session_that_differs_from_its_record() {
        type Spoil = fn(&mut Vec<(u64, Mark)>);
        let stranger = Mark { writer: 9, request: 0, place: 0 };
        let cases: &[(&str, Spoil)] = &[
            ("lost", |marks| marks.truncate(2)),
            ("a phantom", |marks| marks[0].1.writer = 9),
            ("a duplicate", |marks| marks.push((marks.len() as u64, marks[0].1))),
            ("part of a batch", |marks| marks[2].1.place = 0),
            ("position", |marks| marks[0].0 = 7),
            ("known there", |marks| marks[0].1.request = 1),
        ];
        assert!(batch(9, 0).any(|mark| mark == stranger));
        for (expected, spoil) in cases {
            let (mut ledger, mut marks) = acknowledged_ledger();
            let mut tally = Tally::default();
            spoil(&mut marks);
            ledger.check(&[served(&marks)], &mut tally);
            let told = tally.complaints.iter().any(|complaint| complaint.contains(expected));
            assert!(told, "{expected}: {:?}", tally.complaints);
        }
        let (mut ledger, marks) = acknowledged_ledger();
        let mut tally = Tally::default();
        ledger.check(&[served(&marks)], &mut tally);
        ledger.fork(1).check(&[served(&marks[..1])], &mut tally);
        ledger.saw(0, &served(&marks), 3, &mut tally);
        tally.assert_nothing_wrong();
        ledger.saw(0, &served(&marks[..2]), 4, &mut tally);
        assert_eq!(tally.wrong, 1, "a read that sees less than was known is told");
    }

    #[test]
    fn the_ledger_reports_a_restored_redacted_body_and_a_missing_body() {
        for (asked, answered, bare, told) in [
            (false, false, true, true),
            (true, false, false, false),
            (true, false, true, false),
            (true, true, true, false),
            (true, true, false, true),
        ] {
            let (mut ledger, marks) = acknowledged_ledger();
            let mut tally = Tally::default();
            if asked {
                ledger.takes_away(marks[1].1, answered);
            }
            let mut slice = served(&marks);
            if bare {
                slice["data"][1] =
                    json!({"position": 1, "id": marks[1].1.name(), "redacted": true});
            }
            ledger.check(&[slice], &mut tally);
            let what = format!("{asked} {answered} {bare}: {:?}", tally.complaints);
            assert_eq!(tally.wrong > 0, told, "{what}");
        }
    }
}

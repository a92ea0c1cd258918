//! A record: an event or a control record as encoded in a frame's payload, its body as opaque
//! bytes. It must not change the layout of a `…V1` type: another layout gets another codec id in
//! the frame header (docs/format.md, Codecs).

use bincode::{BorrowDecode, Encode};
use bytes::Bytes;

use super::encoding::{decode_front, encode_value};
use crate::event::{EventId, NewEvent, Origin, Timestamp};

/// Body returned instead of a redacted one.
pub const REDACTED: &[u8] = br#"{"redacted":true}"#;

/// Kind of an event; every other kind is a control record.
pub(super) const KIND_EVENT: u8 = 1;

/// Record in memory: an event (takes a position) or a control record (takes none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: String,
    pub(super) id: String,
    /// The body, or its digest after a redaction.
    pub body: RecordBody,
}

/// Body of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody {
    /// The body as written.
    Whole {
        /// Random salt, so that the digest does not reveal a short body.
        salt: [u8; 16],
        /// An event's JSON text, or a control record's own encoding.
        body: Bytes,
    },
    /// The body and salt were removed by a redaction; position and chain stay.
    Redacted {
        /// `blake3(salt ‖ body)` of the removed body.
        digest: [u8; 32],
    },
}

/// Layout of a record on disk. Frozen.
#[derive(Encode, BorrowDecode)]
pub(super) struct RecordV1<'a> {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) redacted: Option<[u8; 32]>,
    pub(super) salt: [u8; 16],
    pub(super) body: &'a [u8],
}

/// Fields of a record without its body, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct RecordHead<'a> {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: &'a str,
    pub(super) id: &'a str,
}

impl<'a> RecordHead<'a> {
    /// Returns the fields of the event `event` that the store processes at `now`.
    #[must_use]
    pub fn from_event(event: &'a NewEvent, id: &'a EventId, now: Timestamp) -> Self {
        Self {
            kind: KIND_EVENT,
            origin: origin_ordinal(event.origin),
            created_at: event.created_at.map(|time| time.0),
            processed_at: now.0,
            name: event.kind.as_str(),
            id: id.as_str(),
        }
    }

    /// Appends the encoding of the record with this body.
    pub fn encode(self, salt: [u8; 16], body: &[u8], out: &mut Vec<u8>) {
        self.write(None, salt, body, out);
    }

    fn write(self, redacted: Option<[u8; 32]>, salt: [u8; 16], body: &[u8], out: &mut Vec<u8>) {
        let Self { kind, origin, created_at, processed_at, name, id } = self;
        let v1 =
            RecordV1 { kind, origin, created_at, processed_at, name, id, redacted, salt, body };
        encode_value(&v1, out);
    }
}

/// Returns `blake3(salt ‖ body)`, which a redacted record keeps. The salt prevents guessing a short
/// body from its digest.
#[must_use]
pub fn body_digest(salt: &[u8; 16], body: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(salt);
    hasher.update(body);
    *hasher.finalize().as_bytes()
}

impl RecordBody {
    /// Returns the [`body_digest`] of the body, which a redaction keeps.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::Whole { salt, body } => body_digest(salt, body),
            Self::Redacted { digest } => *digest,
        }
    }
}

/// Appends the encoding of a record.
pub fn encode(record: &Record, out: &mut Vec<u8>) {
    match &record.body {
        RecordBody::Whole { salt, body } => record.head().encode(*salt, body, out),
        RecordBody::Redacted { digest } => record.head().write(Some(*digest), [0; 16], &[], out),
    }
}

/// Decodes exactly `count` records that fill `payload`; bodies share its memory.
#[must_use]
pub fn decode(payload: &Bytes, count: usize) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    for_each_row(payload, count, |v1| {
        records.push(Record::from_v1(v1, payload));
        Some(())
    })?;
    Some(records)
}

/// Visits exactly `count` records that fill `payload`, stored one after the other.
pub(super) fn for_each_row<'a>(
    payload: &'a [u8],
    count: usize,
    mut visit: impl FnMut(RecordV1<'a>) -> Option<()>,
) -> Option<()> {
    let mut rest = payload;
    for _ in 0..count {
        let (v1, used) = decode_front(rest)?;
        rest = rest.get(used..)?;
        visit(v1)?;
    }
    rest.is_empty().then_some(())
}

impl Record {
    /// Converts a decoded record; its body shares the memory of `payload`.
    pub(super) fn from_v1(v1: RecordV1<'_>, payload: &Bytes) -> Self {
        Self {
            kind: v1.kind,
            origin: v1.origin,
            created_at: v1.created_at,
            processed_at: v1.processed_at,
            name: v1.name.to_owned(),
            id: v1.id.to_owned(),
            body: match v1.redacted {
                Some(digest) => RecordBody::Redacted { digest },
                None => RecordBody::Whole { salt: v1.salt, body: payload.slice_ref(v1.body) },
            },
        }
    }

    /// Returns all fields but the body.
    #[must_use]
    pub fn head(&self) -> RecordHead<'_> {
        RecordHead {
            kind: self.kind,
            origin: self.origin,
            created_at: self.created_at,
            processed_at: self.processed_at,
            name: &self.name,
            id: &self.id,
        }
    }

    /// Removes body and salt; position and chain stay, since only their digest is in the chain.
    pub fn redact(&mut self) {
        self.body = RecordBody::Redacted { digest: self.body.digest() };
    }

    /// Returns true if body and salt were removed.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        matches!(self.body, RecordBody::Redacted { .. })
    }

    /// Returns true if the record is an event, which takes a position.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.kind == KIND_EVENT
    }

    /// Returns the time at which the store wrote the record.
    #[must_use]
    pub fn processed_at(&self) -> Timestamp {
        Timestamp(self.processed_at)
    }

    /// Returns an event's type as text; empty for a control record.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an event's id as text; empty for a control record.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of bytes that the record adds to the size of its session.
    #[must_use]
    pub fn session_bytes(&self) -> u64 {
        match &self.body {
            RecordBody::Whole { body, .. } => body.len() as u64,
            RecordBody::Redacted { .. } => 0,
        }
    }
}

/// Returns the ordinal of an origin, as stored on disk.
fn origin_ordinal(origin: Origin) -> u8 {
    match origin {
        Origin::User => 1,
        Origin::Model => 2,
        Origin::Tool => 3,
        Origin::Web => 4,
        Origin::Harness => 5,
        Origin::Import => 6,
    }
}

pub(super) fn parse_origin(ordinal: u8) -> Option<Origin> {
    Some(match ordinal {
        1 => Origin::User,
        2 => Origin::Model,
        3 => Origin::Tool,
        4 => Origin::Web,
        5 => Origin::Harness,
        6 => Origin::Import,
        _ => return None,
    })
}

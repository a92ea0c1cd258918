//! Decoding of the records of a payload, in rows or in columns. It must not read a frame header.

use bytes::Bytes;

use super::{
    columns,
    record::{KIND_EVENT, REDACTED, Record, RecordV1, for_each_row, parse_origin},
};
use crate::event::{Event, EventId, EventType, Position, Range, Timestamp};

/// Layout of the records of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One record after the other.
    Rows,
    /// Equal fields of all records together.
    Columns,
}

/// Decodes exactly `count` records that fill `payload`; bodies share its memory.
pub(super) fn decode(layout: Layout, payload: &Bytes, count: usize) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    for_each_record(layout, payload, count, |v1| {
        records.push(Record::from_v1(v1, payload));
        Some(())
    })?;
    Some(records)
}

/// Appends the events of the positions `wanted` from exactly `count` records that fill `payload`,
/// the first event at position `first`; bodies share its memory. Other records are skipped.
#[must_use]
pub(super) fn append_events(
    layout: Layout,
    payload: &Bytes,
    count: usize,
    first: Position,
    wanted: Range,
    events: &mut Vec<Event>,
) -> Option<()> {
    let mut next = first;
    for_each_record(layout, payload, count, |v1| {
        if v1.kind != KIND_EVENT {
            return Some(());
        }
        let position = next;
        next = next.plus(1);
        if !wanted.contains(position) {
            return Some(());
        }
        let known = events.last().filter(|last| last.kind.as_str() == v1.name);
        events.push(Event {
            position,
            id: EventId::new(v1.id).ok()?,
            kind: known.map_or_else(|| EventType::from_stored(v1.name), |last| last.kind.clone()),
            origin: parse_origin(v1.origin)?,
            created_at: v1.created_at.map(Timestamp),
            processed_at: Timestamp(v1.processed_at),
            body: match v1.redacted {
                Some(_) => Bytes::from_static(REDACTED),
                None => payload.slice_ref(v1.body),
            },
        });
        Some(())
    })
}

/// Visits exactly `count` records that fill `payload`.
fn for_each_record<'a>(
    layout: Layout,
    payload: &'a [u8],
    count: usize,
    visit: impl FnMut(RecordV1<'a>) -> Option<()>,
) -> Option<()> {
    match layout {
        Layout::Rows => for_each_row(payload, count, visit),
        Layout::Columns => columns::for_each_record(payload, count, visit),
    }
}

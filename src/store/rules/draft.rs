//! The frame of a request before it has a number: its records with their fields, positions and
//! chain, and its effect on the session. It must not decide whether the frame may be written, and
//! must not encrypt.

use bytes::Bytes;

use super::{FrameEffect, PendingEnd, QueuedEnd, names::repeatable_names, request::WriteRequest};
use crate::{
    event::{Lsn, Position, SessionHash, Timestamp},
    log::{
        ChainValue, ChangeRecord, Control, Entry, Frame, FrameHeader, FrameKind, KnownBatch,
        Record, RecordHead, batch_digest, record,
    },
};

/// A frame without its log sequence numbers.
pub(crate) struct FrameDraft {
    hash: SessionHash,
    payload: Vec<u8>,
    count: u32,
    /// Tail of the session before the frame.
    first: Position,
    chain: ChainValue,
    control_chain: ChainValue,
    /// Its control records: their chain needs their numbers.
    controls: Vec<Record>,
    effect: FrameEffect,
}

impl FrameDraft {
    /// Creates the draft of a request after the frames in flight; `None` when it writes no record.
    pub(super) fn new(
        hash: SessionHash,
        entry: &Entry,
        ahead: &PendingEnd,
        request: &mut WriteRequest,
    ) -> Option<Self> {
        let behind = ahead.tail.plus(request.placed.len() as u64);
        let control = request.control_record(entry, behind);
        let metadata = &request.batch.metadata;
        let alone = request.placed.is_empty() && metadata.is_empty();
        if alone && control.is_none() {
            return None;
        }
        let now = request.at.max(ahead.updated_at);
        let is_idle = |control: &Control| matches!(control, Control::Note(note) if note.idle);
        let effect = FrameEffect {
            tail: ahead.tail,
            chain: ahead.chain,
            control_chain: ahead.control_chain,
            end_lsn: Lsn(0),
            at: now,
            aside: request.placed.is_empty(),
            idle: alone && control.as_ref().is_some_and(is_idle),
            weight: 0,
            controls: Vec::new(),
            names: Vec::new(),
        };
        let mut draft = Self {
            hash,
            payload: Vec::new(),
            count: 0,
            first: ahead.tail,
            chain: ahead.chain,
            control_chain: ahead.control_chain,
            controls: Vec::new(),
            effect,
        };
        let [first, last] = request.salts;
        if let Some(control) = control {
            draft.push_control(control, first);
        }
        if !metadata.is_empty() {
            let change = ChangeRecord { metadata: metadata.clone(), ..ChangeRecord::default() };
            draft.push_control(Control::Change(change), request.metadata_salt);
        }
        draft.push_events(request, now);
        let key = request.batch.key.as_ref().filter(|_| !request.placed.is_empty());
        if let Some(key) = key {
            let batch = KnownBatch {
                key: key.as_str().to_owned(),
                first_position: ahead.tail.0,
                events: request.placed.len() as u32,
                digest: batch_digest(&request.batch.events),
            };
            draft.push_control(Control::Batch(batch), last);
        }
        debug_assert_eq!(draft.effect.tail, behind, "each event takes one position");
        Some(draft)
    }

    fn push_control(&mut self, control: Control, salt: [u8; 16]) {
        let record = Record::from_control(&control, self.effect.at, salt);
        record::encode(&record, &mut self.payload);
        self.effect.weight += control.client_bytes();
        // Its index in the frame, until the frame has a number.
        self.effect.controls.push((Lsn(self.count.into()), control));
        self.controls.push(record);
        self.count += 1;
    }

    /// Adds the events, processed at `now`.
    fn push_events(&mut self, request: &mut WriteRequest, now: Timestamp) {
        let end = &mut self.effect;
        let events = request.batch.events.iter().zip(&request.placed).zip(&request.digests);
        for ((event, placed), one) in events {
            let head = RecordHead::from_event(event, &placed.id, now);
            end.chain = end.chain.with_record_digest(end.tail.0, head, &one.digest);
            end.tail = end.tail.plus(1);
            end.weight += event.body.len() as u64;
            self.count += 1;
        }
        let encoded = std::mem::take(&mut request.payload);
        if encoded.is_empty() || now != request.at {
            request.encode_events(now, &mut self.payload);
        } else if self.payload.is_empty() {
            self.payload = encoded;
        } else {
            self.payload.extend_from_slice(&encoded);
        }
    }

    /// Returns its frame, in plaintext and without a number; the draft keeps no payload.
    pub(crate) fn take_frame(&mut self) -> Frame {
        let payload = std::mem::take(&mut self.payload);
        let events = self.effect.tail.0 - self.first.0;
        assert!(self.count > 0, "a draft has a record");
        assert_eq!(
            u64::from(self.count),
            events + self.controls.len() as u64,
            "each record is an event or a control record"
        );
        let header = FrameHeader {
            kind: FrameKind::Request,
            length: u32::try_from(payload.len()).expect("limits keep a batch below 4 GiB"),
            compressed: false,
            count: self.count,
            events: u32::try_from(events).expect("limits keep a batch below 4 G events"),
            first_lsn: Lsn(0),
            synced_lsn: Lsn(0),
            first_position: self.first,
            session: self.hash,
            chain: self.chain,
            control_chain: self.control_chain,
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        Frame { header, payload: Bytes::from(payload) }
    }

    /// Returns the end of its session after it; its control chain is known once it has a number.
    pub(crate) fn queued_end(&self, request: &WriteRequest) -> QueuedEnd {
        let effect = &self.effect;
        QueuedEnd {
            first: self.first,
            tail: effect.tail,
            chain: effect.chain,
            control_chain: self.control_chain,
            at: effect.at,
            aside: effect.aside,
            notes: effect.note_count(),
            given: repeatable_names(&request.names, effect.batch()).collect(),
            bars: effect.blocks_requests(),
            ends: effect.hides_session(),
        }
    }

    /// Returns its effect, given the number of its first record.
    pub(crate) fn into_effect(self, first: Lsn) -> FrameEffect {
        let mut effect = self.effect;
        for ((number, _), record) in effect.controls.iter_mut().zip(&self.controls) {
            number.0 += first.0;
            effect.control_chain = effect.control_chain.with_record(number.0, record);
        }
        effect.end_lsn = Lsn(first.0 + u64::from(self.count));
        debug_assert!(effect.controls.is_sorted_by_key(|(number, _)| *number));
        effect
    }
}

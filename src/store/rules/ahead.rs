//! The end of a session including the frames in flight: the start of the next frame. It must not
//! decide what that frame holds.

use std::collections::HashSet;

use super::{FrameEffect, request::WriteRequest};
use crate::{
    event::{Position, Timestamp},
    log::{ChainValue, Entry},
    store::{AppendResult, ChainReceipt},
};

/// The end of a session once all frames in flight are durable.
#[derive(Debug)]
pub(crate) struct PendingEnd {
    /// Number of frames in flight.
    pub(crate) frames: usize,
    pub(crate) tail: Position,
    pub(crate) chain: ChainValue,
    pub(crate) control_chain: ChainValue,
    pub(crate) updated_at: Timestamp,
    /// Number of notes in flight.
    pub(crate) notes: u64,
    /// Ids and batch keys in flight that callers provided.
    pub(crate) names: HashSet<[u8; 16]>,
    /// True if a change of the session itself is in flight: requests that depend on it wait.
    pub(crate) barrier: bool,
    /// True if that change is its expiry or deletion.
    pub(crate) ends: bool,
}

impl PendingEnd {
    /// Returns the end of an entry without frames in flight.
    pub(crate) fn from_entry(entry: &Entry) -> Self {
        Self {
            frames: 0,
            tail: Position(entry.tail),
            chain: ChainValue(entry.chain),
            control_chain: ChainValue(entry.control_chain),
            updated_at: Timestamp(entry.updated_at),
            notes: 0,
            names: HashSet::new(),
            barrier: false,
            ends: false,
        }
    }

    /// Moves to the end of a frame that was queued.
    ///
    /// # Panics
    /// If the frame does not begin at this end.
    pub(crate) fn advance(&mut self, next: QueuedEnd) {
        assert_eq!(self.tail, next.first, "a frame continues where the one before ends");
        self.frames += 1;
        self.tail = next.tail;
        self.chain = next.chain;
        self.control_chain = next.control_chain;
        if !next.aside {
            self.updated_at = self.updated_at.max(next.at);
        }
        self.notes += next.notes;
        self.names.extend(next.given);
        self.barrier |= next.bars;
        self.ends |= next.ends;
    }

    /// Removes a frame that is durable now; returns true if it was the last in flight.
    pub(crate) fn remove_frame(&mut self, effect: &FrameEffect) -> bool {
        debug_assert!(self.frames > 0, "a frame in flight was counted when it was queued");
        self.frames = self.frames.saturating_sub(1);
        self.notes = self.notes.saturating_sub(effect.note_count());
        for name in effect.given_names() {
            self.names.remove(&name);
        }
        self.frames == 0
    }
}

/// End of a session after a queued frame.
pub(crate) struct QueuedEnd {
    pub(super) first: Position,
    pub(super) tail: Position,
    pub(super) chain: ChainValue,
    pub(crate) control_chain: ChainValue,
    pub(super) at: Timestamp,
    pub(super) aside: bool,
    pub(super) notes: u64,
    /// Ids and batch keys that callers provided.
    pub(super) given: Vec<[u8; 16]>,
    pub(super) bars: bool,
    pub(super) ends: bool,
}

impl QueuedEnd {
    /// Returns the answer to the caller, valid once the frame is durable.
    pub(crate) fn answer(&self, request: &mut WriteRequest) -> AppendResult {
        let mut events = std::mem::take(&mut request.placed);
        assert_eq!(
            self.tail,
            self.first.plus(events.len() as u64),
            "each event of an answer has one position of its frame"
        );
        for (n, placed) in (0..).zip(&mut events) {
            placed.position = self.first.plus(n);
            placed.processed_at = self.at;
        }
        AppendResult {
            events,
            first_position: self.first,
            next_position: self.tail,
            receipt: ChainReceipt { position: self.tail, chain: self.chain.0 },
            repeated: false,
        }
    }
}

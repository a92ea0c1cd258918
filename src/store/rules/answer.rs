//! Answers to appends that write nothing. It must not read the events that they repeat.

use crate::{
    event::Event,
    store::{AppendResult, ChainReceipt, PlacedEvent},
};

impl AppendResult {
    /// Returns the answer to a request that writes nothing.
    pub(crate) fn unchanged(receipt: ChainReceipt) -> Self {
        Self {
            events: Vec::new(),
            first_position: receipt.position,
            next_position: receipt.position,
            receipt,
            repeated: false,
        }
    }

    /// Returns the answer to a request whose events are stored already.
    pub(crate) fn from_stored(events: &[Event], receipt: ChainReceipt) -> Self {
        let placed = |event: &Event| PlacedEvent {
            id: event.id.clone(),
            position: event.position,
            processed_at: event.processed_at,
        };
        Self {
            events: events.iter().map(placed).collect(),
            first_position: events.first().map_or(receipt.position, |event| event.position),
            next_position: events.last().map_or(receipt.position, |event| event.position.plus(1)),
            receipt,
            repeated: true,
        }
    }
}

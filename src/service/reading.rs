//! Reads single events of a session by position or type. It must not fold them.

use super::{Service, ServiceResult};
use crate::{
    event::{Event, Position, Range, SessionKey},
    store::{FillDirection, ReadRequest},
};

/// Maximum bytes read for one event.
const EVENT_BYTES: usize = 8 << 20;
/// Number of events read in one step of a backward search.
const SEARCH_EVENTS: usize = 1_000;
/// Maximum body bytes in memory in one step of a backward search.
const SEARCH_BYTES: usize = 4 << 20;

impl Service {
    pub(super) async fn read_event(
        &self,
        key: &SessionKey,
        at: Position,
    ) -> ServiceResult<Option<Event>> {
        let read = ReadRequest {
            range: Range::new(at, at.plus(1)),
            events_max: 1,
            bytes_max: EVENT_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        Ok(self.store.read(key, read).await?.events.into_iter().next())
    }

    /// Returns the position of the n-th last event of a type, 1 = last, by reading backwards.
    pub(super) async fn find_nth_last(
        &self,
        key: &SessionKey,
        kind: &str,
        nth: u64,
        tail: Position,
    ) -> ServiceResult<Option<Position>> {
        let (mut end, mut left) = (tail, nth);
        while end > Position::ZERO {
            let read = ReadRequest {
                range: Range::new(Position::ZERO, end),
                events_max: SEARCH_EVENTS,
                bytes_max: SEARCH_BYTES,
                fill: FillDirection::Backward,
                allow_gaps: false,
            };
            let slice = self.store.read(key, read).await?;
            for event in slice.events.iter().rev().filter(|event| event.kind.as_str() == kind) {
                if left <= 1 {
                    return Ok(Some(event.position));
                }
                left -= 1;
            }
            if slice.covered.is_empty() {
                break;
            }
            end = slice.covered.from;
        }
        Ok(None)
    }
}

//! A point becomes a position. It must not change anything.

use super::{Caller, Service, ServiceError, ServiceResult};
use crate::{
    event::{Point, Position, Range, SessionId, SessionKey},
    projection::checkpoints::Checkpoints,
    store::{Fill, Read},
};

/// Events read in one step of a backward search.
const SEARCH_EVENTS: usize = 1_000;
/// Bytes of bodies held in one step while searching backwards.
const SEARCH_BYTES: usize = 4 << 20;

impl Service {
    /// The position a point names now.
    ///
    /// # Errors
    /// `point_not_found`, and those of the session.
    pub async fn resolve(
        &self,
        caller: &Caller,
        session: &SessionId,
        point: &Point,
    ) -> ServiceResult<Position> {
        let key = caller.key(session);
        let tail = self.store.used(&key).await?.tail;
        self.position_of(&key, point, tail).await
    }

    /// The end of a past that a point names: with the step it names, and before anything else.
    pub(super) async fn end_of(
        &self,
        key: &SessionKey,
        point: &Point,
        tail: Position,
    ) -> ServiceResult<Position> {
        let Point::Step { number, branch } = point else {
            return self.position_of(key, point, tail).await;
        };
        let step = self.step_extent(key, *number, branch.as_deref()).await?;
        step.map(|step| step.to).ok_or_else(|| ServiceError::point_not_found(point, tail))
    }

    pub(super) async fn position_of(
        &self,
        key: &SessionKey,
        point: &Point,
        tail: Position,
    ) -> ServiceResult<Position> {
        let found = match point {
            Point::At(position) => Some(*position),
            Point::End => Some(tail),
            Point::BeforeEnd(count) => Some(tail.minus(*count)),
            Point::Event(id) => self.store.find(key, id).await?,
            Point::Time(time) => Some(self.store.find_time(key, *time).await?),
            Point::Action { kind, nth } => self.nth_last(key, kind, *nth, tail).await?,
            Point::Step { number, branch } => {
                let step = self.step_extent(key, *number, branch.as_deref()).await?;
                step.map(|step| step.from)
            }
            Point::Checkpoint(name) => {
                let at = |notes: &Checkpoints| Some(notes.find(name)?.position);
                self.notes_now(key, |notes, _| at(notes)).await?
            }
            Point::Cursor(name) => {
                let at = |notes: &Checkpoints| Some(notes.cursor(name)?.position);
                self.notes_now(key, |notes, _| at(notes)).await?
            }
        };
        found.ok_or_else(|| ServiceError::point_not_found(point, tail))
    }

    /// The n-th last event of a type, 1 = last, by reading backwards.
    pub(super) async fn nth_last(
        &self,
        key: &SessionKey,
        kind: &str,
        nth: u64,
        tail: Position,
    ) -> ServiceResult<Option<Position>> {
        let (mut end, mut left) = (tail, nth);
        while end > Position::ZERO {
            let read = Read {
                range: Range::new(Position::ZERO, end),
                events_max: SEARCH_EVENTS,
                bytes_max: SEARCH_BYTES,
                fill: Fill::Backward,
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

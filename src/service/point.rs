//! Resolves a point to a position. It must not change anything.

use super::{Caller, Service, ServiceError, ServiceResult, folds::SLICE_EVENTS};
use crate::{
    event::{Event, Point, Position, Range, SessionId, SessionKey, Timestamp},
    projection::{Facts, Outline, checkpoints::Checkpoints, own_time},
    store::SessionInfo,
};

impl Service {
    /// Returns the current position of a point.
    ///
    /// # Errors
    /// `point_not_found`, and those of the session.
    pub async fn resolve_point(
        &self,
        caller: &Caller,
        session: &SessionId,
        point: &Point,
    ) -> ServiceResult<Position> {
        let key = caller.key(session);
        let tail = self.store.use_session(&key).await?.tail;
        self.resolve_position(&key, point, tail).await
    }

    /// Returns the position as of which a view is built: that of the point, or the tail.
    pub(super) async fn view_position(
        &self,
        key: &SessionKey,
        at: Option<&Point>,
    ) -> ServiceResult<Position> {
        let tail = self.store.use_session(key).await?.tail;
        match at {
            Some(point) => point_within(point, self.resolve_end(key, point, tail).await?, tail),
            None => Ok(tail),
        }
    }

    /// Returns the position of a point of the recorded events, or of their end.
    pub(super) async fn resolve_within(
        &self,
        key: &SessionKey,
        point: &Point,
        tail: Position,
    ) -> ServiceResult<Position> {
        point_within(point, self.resolve_position(key, point, tail).await?, tail)
    }

    /// Returns the range between two points, of the whole session by default, cut at the tail.
    pub(super) async fn resolve_range(
        &self,
        key: &SessionKey,
        (from, to): (Option<&Point>, Option<&Point>),
        tail: Position,
    ) -> ServiceResult<Range> {
        let from = match from {
            Some(point) => self.resolve_position(key, point, tail).await?,
            None => Position::ZERO,
        };
        let to = match to {
            Some(point) => self.resolve_end(key, point, tail).await?.min(tail),
            None => tail,
        };
        Ok(Range::new(from, to))
    }

    /// Returns the end of the past that a point names: after its step, before any other event.
    pub(super) async fn resolve_end(
        &self,
        key: &SessionKey,
        point: &Point,
        tail: Position,
    ) -> ServiceResult<Position> {
        let Point::Step { number, branch } = point else {
            return self.resolve_position(key, point, tail).await;
        };
        let step = self.step_extent(key, *number, branch.as_deref()).await?;
        step.map(|step| step.to).ok_or_else(|| ServiceError::point_not_found(point, tail))
    }

    pub(super) async fn resolve_position(
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
            Point::Time(time) => Some(self.find_time(key, *time, tail).await?),
            Point::Action { kind, nth } => self.find_nth_last(key, kind, *nth, tail).await?,
            Point::Step { number, branch } => {
                let step = self.step_extent(key, *number, branch.as_deref()).await?;
                step.map(|step| step.from)
            }
            Point::Checkpoint(name) => {
                let at = |notes: &Checkpoints| Some(notes.find(name)?.position);
                self.peek_notes(key, |notes, _| at(notes)).await?
            }
            Point::Cursor(name) => {
                let at = |notes: &Checkpoints| Some(notes.cursor(name)?.position);
                self.peek_notes(key, |notes, _| at(notes)).await?
            }
        };
        found.ok_or_else(|| ServiceError::point_not_found(point, tail))
    }

    /// Returns the position of the first event that happened at or after a time; the tail if there
    /// is none.
    async fn find_time(
        &self,
        key: &SessionKey,
        time: Timestamp,
        tail: Position,
    ) -> ServiceResult<Position> {
        let look = |_: &SessionInfo, outline: &Outline| outline.find_time(time);
        let found = self.with_fold(key, |cached| &mut cached.outline, look).await?;
        let mut left = found.unwrap_or(Range::new(tail, tail));
        while !left.is_empty() {
            let slice = self.read_slice(key, left, SLICE_EVENTS).await?;
            let is_found = |event: &&Event| own_time(event) >= Some(time);
            if let Some(event) = slice.events.iter().find(is_found) {
                return Ok(event.position);
            }
            if slice.covered.is_empty() {
                break;
            }
            left.from = slice.covered.to;
        }
        Ok(tail)
    }

    async fn step_extent(
        &self,
        key: &SessionKey,
        number: u64,
        branch: Option<&str>,
    ) -> ServiceResult<Option<Range>> {
        let look = |facts: &Facts| {
            let at = facts.research.find_step(number, branch)?;
            let step = facts.research.steps().get(at)?;
            Some(Range::new(step.position, step.extent.to.max(step.position.plus(1))))
        };
        self.with_facts(key, |_, facts| look(facts)).await
    }
}

fn point_within(point: &Point, at: Position, tail: Position) -> ServiceResult<Position> {
    match point {
        // The event was appended since: before the end that the caller knows, there is none.
        Point::Time(_) => Ok(at.min(tail)),
        _ if at > tail => Err(ServiceError::point_not_found(point, tail)),
        _ => Ok(at),
    }
}

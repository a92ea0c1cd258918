//! Finds events by id and by time. Ids that callers gave have a name in the base; a minted id has
//! the time of its event. It must not read a body.

use super::{
    node::Node,
    read::{PartByWriter, decode_frame},
    row::{Head, uid_of},
    store_error,
};
use crate::{
    event::{Event, EventId, Position, Range, SessionHash, SessionKey, Timestamp},
    log::segment::name_hash,
    store::{
        StoreError, StoreResult,
        base::{FrameQuery, Hash16, RowStage},
        rules::WriteRequest,
    },
};

/// Frames of one millisecond read with one statement.
const FRAMES_MAX: usize = 64;
const READ_BYTES_MAX: usize = 1 << 20;

impl Node {
    /// Returns the session that wrote the event with an id, and its position.
    pub(super) async fn find_event(
        &self,
        head: &Head,
        id: &EventId,
    ) -> StoreResult<Option<(SessionHash, Position)>> {
        let hash = name_hash(id.as_str());
        let parts = head.parts(Range::new(Position::ZERO, head.row.tail));
        let names: Vec<(Hash16, Hash16)> =
            parts.iter().map(|part| (uid_of(part.hash), hash)).collect();
        let known = self.base.known(names).await.map_err(store_error)?;
        for (part, known) in parts.iter().zip(known) {
            let here = known.filter(|name| part.range.contains(name.position));
            if let Some(name) = here {
                return Ok(Some((part.hash, name.position)));
            }
        }
        self.find_minted(head, &parts, id).await
    }

    /// Finds an event with a minted id: it was processed within the millisecond in the id.
    async fn find_minted(
        &self,
        head: &Head,
        parts: &[PartByWriter],
        id: &EventId,
    ) -> StoreResult<Option<(SessionHash, Position)>> {
        let Some(millis) = minted_millis(id) else { return Ok(None) };
        let (from, to) = (Timestamp(millis * 1_000), Timestamp((millis + 1) * 1_000));
        if from > head.row.updated_at {
            return Ok(None);
        }
        for part in parts {
            let mut left = part.range;
            left.from = self.first_at(part, from).await?;
            while !left.is_empty() {
                let query =
                    FrameQuery::Forward { range: left, frames: FRAMES_MAX, bytes: READ_BYTES_MAX };
                let found = self.base.frames(uid_of(part.hash), query).await;
                let Some((row, frames)) = found.map_err(store_error)? else { break };
                if row.stage == RowStage::Erased || frames.is_empty() {
                    break;
                }
                let mut events: Vec<Event> = Vec::new();
                for stored in &frames {
                    if let Ok(frame) = decode_frame(part.hash, stored) {
                        // A frame that cannot be decoded has no event to find.
                        let _ = frame.append_events(left, &mut events);
                    }
                    left.from = stored.range.to.max(left.from).min(left.to);
                }
                if let Some(event) = events.iter().find(|event| event.id == *id) {
                    return Ok(Some((part.hash, event.position)));
                }
                if events.last().is_some_and(|last| last.processed_at >= to) {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Returns the first position of a part whose event was processed at or after a time, else the
    /// end of the part. Times of the events of a session never fall.
    async fn first_at(&self, part: &PartByWriter, time: Timestamp) -> StoreResult<Position> {
        let (mut low, mut high) = (part.range.from, part.range.to);
        while low < high {
            let middle = Position(low.0 + (high.0 - low.0) / 2);
            let found = self.base.frame_at(uid_of(part.hash), middle).await;
            match found.map_err(store_error)? {
                Some((frame, at)) if at >= time => high = frame.from.max(low),
                Some((frame, _)) => low = frame.to.max(middle.plus(1)),
                None => low = middle.plus(1),
            }
        }
        Ok(low.min(part.range.to))
    }

    /// Returns the position of the first event of a session processed at or after a time, else its
    /// tail.
    pub(super) async fn find_time(
        &self,
        key: &SessionKey,
        time: Timestamp,
    ) -> StoreResult<Position> {
        let head = self.fetch_visible(key).await?;
        let tail = head.row.tail;
        let mut found = tail;
        for part in head.parts(Range::new(Position::ZERO, tail)) {
            let writer = self.base.frames(
                uid_of(part.hash),
                FrameQuery::Forward { range: part.range, frames: 1, bytes: 1 },
            );
            let writer = writer.await.map_err(store_error)?;
            if writer.is_none_or(|(row, _)| row.stage == RowStage::Erased) {
                let session = key.session.clone();
                return Err(StoreError::PrefixErased { session, range: part.range });
            }
            found = self.first_at(&part, time).await?;
            if found > part.range.from {
                break;
            }
        }
        Ok(found)
    }

    /// Looks up the ids of a request that look like minted ones: names do not have those.
    pub(super) async fn find_minted_ids(
        &self,
        key: &SessionKey,
        request: &mut WriteRequest,
    ) -> StoreResult<()> {
        let given =
            |id: &Option<EventId>| id.as_ref().is_some_and(|id| minted_millis(id).is_some());
        if !request.batch.events.iter().any(|event| given(&event.id)) {
            return Ok(());
        }
        let head = self.fetch_visible(key).await?;
        let parts = head.parts(Range::new(Position::ZERO, head.row.tail));
        let mut known = vec![None; request.batch.events.len()];
        for (known, event) in known.iter_mut().zip(request.batch.events.iter()) {
            if let Some(id) = &event.id {
                *known = self.find_minted(&head, &parts, id).await?.map(|(_, at)| at);
            }
        }
        request.inherited = known;
        Ok(())
    }
}

/// Returns the milliseconds in an id of the form that the store mints.
pub(super) fn minted_millis(id: &EventId) -> Option<i64> {
    let digits = id.as_str().strip_prefix("evt_").filter(|digits| digits.len() == 32)?;
    let bits = u128::from_str_radix(digits, 16).ok()?;
    let is_version_7 = (bits >> 76) & 0xf == 7;
    is_version_7.then_some((bits >> 80) as i64)
}

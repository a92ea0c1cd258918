//! Reads slices and notes of a session: own frames, and those of the sessions that a fork
//! continues. Row and frames come from one snapshot. It must not serve an event without a look at
//! the row of its writer.

use bytes::Bytes;

use super::{
    node::Node,
    plan::NO_SALT,
    row::{Ancestor, Head, uid_of},
    store_error,
};
use crate::{
    event::{Event, Lsn, Note, Position, Range, SessionHash, SessionKey, limits},
    log::{ChainValue, Frame, KnownBatch, REDACTED},
    store::{
        AppendResult, Family, FillDirection, NotesQuery, ReadRequest, SessionGap, Slice,
        StoreError, StoreResult,
        base::{FrameQuery, Hash16, RowSelection, RowStage, StoredFrame},
        rules::{
            RepeatedBatch, SliceBuilder, batch_range, clip,
            entry::{is_redacted, parse_note},
            erased_gap,
        },
    },
};

/// Frames read with one statement.
const FRAMES_MAX: usize = 1_024;
/// Bytes of frames in addition to those of the bodies that a read wants.
const FRAME_BYTES: usize = 64 << 10;
/// Bytes of frames read with one statement.
const READ_BYTES_MAX: usize = 16 << 20;
/// Sessions of a family read with one statement.
const FAMILY_MAX: usize = 500;

/// Positions of a session, and the session that wrote them.
pub(super) struct PartByWriter {
    pub(super) hash: SessionHash,
    pub(super) range: Range,
}

/// Returns a read of stored events of a batch.
pub(super) fn stored_read(range: Range, bytes_max: usize) -> ReadRequest {
    ReadRequest {
        range,
        events_max: limits::BATCH_EVENTS_MAX.max(range.len() as usize),
        bytes_max,
        fill: FillDirection::Forward,
        allow_gaps: false,
    }
}

impl Head {
    /// Returns the writers of the positions of a range, from the session itself to its ancestors.
    pub(super) fn parts(&self, range: Range) -> Vec<PartByWriter> {
        let own = Range::new(self.entry.base(), Position(u64::MAX));
        let above = self.ancestors.iter().map(|one| (one.hash, one.range));
        let parts = [(self.hash, own)].into_iter().chain(above).filter_map(|(hash, written)| {
            let (from, to) = (range.from.max(written.from), range.to.min(written.to));
            (from < to).then(|| PartByWriter { hash, range: Range::new(from, to) })
        });
        parts.collect()
    }

    /// Returns the ranges whose loss an operator accepted.
    fn accepted_losses(&self) -> Vec<Range> {
        let accepted = self.entry.gaps().into_iter().filter(|gap| gap.accepted_at.is_some());
        accepted.map(|gap| gap.range).collect()
    }

    fn ancestor(&self, hash: SessionHash) -> Option<&Ancestor> {
        self.ancestors.iter().find(|one| one.hash == hash)
    }
}

/// Decodes a stored frame of a session, and checks that it is at its place.
pub(super) fn decode_frame(session: SessionHash, stored: &StoredFrame) -> Result<Frame, String> {
    let frame = stored.fault.map_or_else(|| Frame::read(NO_SALT, &stored.bytes), Err);
    let frame = frame.map_err(|fault| fault.to_string())?;
    let header = &frame.header;
    let is_here = header.session == session
        && header.range() == stored.range
        && header.first_lsn == stored.number;
    if is_here { Ok(frame) } else { Err("the frame belongs to another place".to_owned()) }
}

impl Node {
    /// Reads a slice of a session.
    pub(super) async fn read_slice(
        &self,
        key: &SessionKey,
        read: &ReadRequest,
    ) -> StoreResult<Slice> {
        let head = self.fetch_visible(key).await?;
        self.read_from(&head, read).await
    }

    /// Reads a slice of a session whose row was read just before.
    pub(super) async fn read_from(&self, head: &Head, read: &ReadRequest) -> StoreResult<Slice> {
        let tail = head.row.tail;
        let range = Range::new(read.range.from.min(tail), read.range.to.min(tail));
        let mut parts = head.parts(range);
        if read.fill == FillDirection::Forward {
            parts.reverse();
        }
        let mut builder = SliceBuilder::new(range, read);
        let mut gaps = Vec::new();
        for part in parts {
            let erased = self.read_part(&part, read, &mut builder, &mut gaps).await?;
            match erased {
                false => {}
                true if read.allow_gaps => gaps.push(erased_gap(part.range)),
                true if part.hash == head.hash => {
                    // It was erased or removed meanwhile.
                    self.fetch_visible(&head.key).await?;
                    return Err(head.not_found_error());
                }
                true => {
                    let session = head.key.session.clone();
                    return Err(StoreError::PrefixErased { session, range: part.range });
                }
            }
            if builder.full {
                break;
            }
        }
        let slice = builder.into_slice(range, gaps, tail);
        if slice.gaps.iter().any(|gap| gap.accepted_at.is_none()) && !read.allow_gaps {
            return Err(head.entry.damage_error(&head.key.session, slice.gaps));
        }
        Ok(slice)
    }

    /// Collects the events that one session wrote; returns true if they were erased.
    async fn read_part(
        &self,
        part: &PartByWriter,
        read: &ReadRequest,
        builder: &mut SliceBuilder<'_>,
        gaps: &mut Vec<SessionGap>,
    ) -> StoreResult<bool> {
        let (mut left, mut looks_further) = (part.range, false);
        let (mut known, mut found_gaps) = (Vec::new(), Vec::new());
        while !left.is_empty() && !builder.full {
            let room = read.events_max.saturating_sub(builder.events.len());
            let frames = room.saturating_add(1).min(FRAMES_MAX);
            let bytes = read.bytes_max.saturating_add(FRAME_BYTES).min(READ_BYTES_MAX);
            // A frame may have many events: no more are read than there is room for.
            let most = if looks_further { u64::MAX } else { frames as u64 };
            let query = match read.fill {
                FillDirection::Forward => {
                    let to = left.to.min(Position(left.from.0.saturating_add(most)));
                    FrameQuery::Forward { range: Range::new(left.from, to), frames, bytes }
                }
                FillDirection::Backward => {
                    let from = left.from.max(Position(left.to.0.saturating_sub(most)));
                    FrameQuery::Backward { range: Range::new(from, left.to), frames, bytes }
                }
            };
            let found = self.base.frames(uid_of(part.hash), query).await.map_err(store_error)?;
            let Some((row, mut frames)) = found else { return Ok(true) };
            self.see_removals(row.removals);
            // The frames of a discarded session are removed, too, unless forks read from it.
            if row.stage == RowStage::Erased
                || row.stage >= RowStage::Discarded && frames.is_empty()
            {
                return Ok(true);
            }
            let writer = Head::from_row(&self.keys.names, row, 0)?;
            known = writer.entry.gaps();
            if frames.is_empty() && looks_further {
                found_gaps.push(missing_gap(left));
                break;
            }
            looks_further = frames.is_empty();
            if read.fill == FillDirection::Backward {
                frames.reverse();
            }
            builder.range = left;
            builder.given_up = writer.accepted_losses();
            let first = builder.events.len();
            for stored in &frames {
                left = push_stored(part.hash, stored, left, builder, &mut found_gaps);
                if builder.full {
                    break;
                }
            }
            // Regardless of the bodies in the frames.
            for event in builder.events.iter_mut().skip(first) {
                if is_redacted(&writer.entry.redacted, event.position) {
                    event.body = Bytes::from_static(REDACTED);
                }
            }
        }
        // What an operator accepted as lost is listed as that, whatever is found there.
        let is_known = |gap: &SessionGap| {
            known.iter().any(|one: &SessionGap| one.range.contains_range(gap.range))
        };
        found_gaps.retain(|gap| !is_known(gap));
        gaps.extend(known.into_iter().chain(found_gaps).filter_map(|gap| clip(gap, part.range)));
        Ok(false)
    }

    /// Answers a batch with a known key from the stored events.
    pub(super) async fn answer_known_batch(
        &self,
        key: &SessionKey,
        batch: &crate::event::Batch,
        known: &KnownBatch,
    ) -> StoreResult<AppendResult> {
        let head = self.fetch_visible(key).await?;
        let events = self.read_stored(&head, batch_range(batch, known)?, usize::MAX).await?;
        self.base.prove().await.map_err(store_error)?;
        Ok(AppendResult::from_stored(&events, head.entry.receipt()))
    }

    /// Answers a batch whose event ids are all known, if the content is the same.
    pub(super) async fn answer_known_events(
        &self,
        key: &SessionKey,
        batch: &crate::event::Batch,
        positions: &[Option<Position>],
    ) -> StoreResult<AppendResult> {
        let head = self.fetch_visible(key).await?;
        let mut repeated = RepeatedBatch::new(batch, positions);
        while let Some(run) = repeated.next_run() {
            let events = self.read_stored(&head, run, limits::BATCH_BYTES_MAX).await?;
            repeated.compare(events, &head.entry.redacted, head.entry.base())?;
        }
        let stored = repeated.finish()?;
        self.base.prove().await.map_err(store_error)?;
        Ok(AppendResult::from_stored(&stored, head.entry.receipt()))
    }

    /// Reads stored events: as many as fit into `bytes_max`, and at least one.
    async fn read_stored(
        &self,
        head: &Head,
        range: Range,
        bytes_max: usize,
    ) -> StoreResult<Vec<Event>> {
        let events = self.read_from(head, &stored_read(range, bytes_max)).await?.events;
        let is_all = events.len() as u64 == range.len();
        if events.is_empty() || bytes_max == usize::MAX && !is_all {
            // Lost events cannot answer the repeated request.
            return Err(head.entry.damage_error(&head.key.session, Vec::new()));
        }
        Ok(events)
    }

    /// Returns notes of a session, the oldest first.
    pub(super) async fn list_notes(
        &self,
        key: &SessionKey,
        wanted: NotesQuery,
    ) -> StoreResult<Vec<Note>> {
        let head = self.fetch_visible(key).await?;
        let (mut notes, mut bytes) = (Vec::<Note>::new(), 0);
        if head.entry.work.notes == 0 {
            return Ok(notes);
        }
        let mut from = Lsn(wanted.after.0.saturating_add(1));
        loop {
            let frames = wanted.notes_max.saturating_add(1).min(FRAMES_MAX);
            let query = FrameQuery::Noted { from, frames, bytes: READ_BYTES_MAX };
            let found = self.base.frames(head.uid(), query).await.map_err(store_error)?;
            let Some((row, found)) = found else { return Err(head.not_found_error()) };
            if row.stage != RowStage::Alive {
                self.fetch_visible(key).await?;
            }
            let is_last = found.is_empty();
            for stored in found {
                from = Lsn(stored.number.0 + 1);
                let damaged = |reason: String| {
                    let gap = damaged_gap(stored.range, reason);
                    head.entry.damage_error(&key.session, vec![gap])
                };
                let frame = decode_frame(head.hash, &stored).map_err(damaged)?;
                let records = frame.records().map_err(|fault| damaged(fault.to_string()))?;
                let later = records.iter().filter(|(lsn, _)| *lsn > wanted.after);
                for note in later.filter_map(|(lsn, record)| parse_note(*lsn, record)) {
                    bytes += note.body.len();
                    let fits = notes.is_empty() || bytes <= wanted.bytes_max;
                    if notes.len() >= wanted.notes_max || !fits {
                        return Ok(notes);
                    }
                    notes.push(note);
                }
            }
            if is_last {
                return Ok(notes);
            }
        }
    }

    /// Returns the event chain of a session before a position.
    pub(super) async fn chain_at(&self, head: &Head, at: Position) -> StoreResult<ChainValue> {
        if at == head.row.tail {
            return Ok(head.row.chain);
        }
        let lineage = head.entry.lineage.as_ref();
        if let Some(lineage) = lineage.filter(|lineage| lineage.position == at.0) {
            return Ok(ChainValue(lineage.chain));
        }
        let start = |hash| ChainValue::start_of_events(hash);
        let erased = || StoreError::PrefixErased {
            session: head.key.session.clone(),
            range: Range::new(Position::ZERO, at),
        };
        if at == Position::ZERO {
            let Some(last) = head.ancestors.last() else { return Ok(start(head.hash)) };
            let is_first = last.range.from == Position::ZERO && last.origin.is_none();
            return if is_first { Ok(start(last.hash)) } else { Err(erased()) };
        }
        if let Some(one) = head.ancestors.iter().find(|one| one.range.from == at)
            && let Some(chain) = one.origin
        {
            return Ok(chain);
        }
        let before = Range::new(Position(at.0 - 1), at);
        let Some(part) = head.parts(before).pop() else { return Err(erased()) };
        let query = FrameQuery::Forward { range: before, frames: 1, bytes: READ_BYTES_MAX };
        let found = self.base.frames(uid_of(part.hash), query).await.map_err(store_error)?;
        let found = found.filter(|(row, _)| row.stage != RowStage::Erased);
        let Some((_, frames)) = found else { return Err(erased()) };
        let damaged = |reason: String| {
            let gap = damaged_gap(Range::new(at, at.plus(1)), reason);
            head.entry.damage_error(&head.key.session, vec![gap])
        };
        let stored = frames.first().ok_or_else(|| damaged("no frame holds it".to_owned()))?;
        let frame = decode_frame(part.hash, stored).map_err(damaged)?;
        let chain = frame.chain_before(at).map_err(|fault| damaged(fault.to_string()))?;
        chain.ok_or_else(|| damaged("no frame holds it".to_owned()))
    }

    /// Returns the ancestors of a session, and its forks.
    pub(super) async fn family(&self, key: &SessionKey, limit: usize) -> StoreResult<Family> {
        let head = self.fetch_visible(key).await?;
        let uids: Vec<Hash16> = head.ancestors.iter().map(|one| uid_of(one.hash)).collect();
        let mut family = Family { depth: uids.len() as u64, ..Family::default() };
        let count = uids.len().min(limit);
        let wanted: Vec<Hash16> = uids.into_iter().take(count).collect();
        let rows = self.base.rows(RowSelection::Uids(wanted.clone()), count).await;
        let rows = rows.map_err(store_error)?;
        let mut at = head.entry.base();
        for uid in wanted {
            let Some(row) = rows.iter().find(|row| row.uid == uid) else { break };
            let ancestor = Head::from_row(&self.keys.names, row.clone(), 0)?;
            family.ancestors.push(ancestor.entry.describe_relative(&ancestor.key.session, at));
            at = ancestor.entry.base();
        }
        let mut forks = self.needed_forks(head.uid()).await?;
        forks.sort_by(|a, b| a.key.session.cmp(&b.key.session));
        family.forks = forks.len() as u64;
        let forks = forks.iter().take(limit);
        let describe =
            |fork: &Head| fork.entry.describe_relative(&fork.key.session, fork.entry.base());
        family.children = forks.map(describe).collect();
        Ok(family)
    }

    /// Returns the forks of a session that may still be read, or that such forks read from.
    pub(super) async fn needed_forks(&self, uid: Hash16) -> StoreResult<Vec<Head>> {
        let mut needed = Vec::new();
        for fork in self.forks_of(uid).await? {
            if self.is_needed(&fork).await? {
                needed.push(fork);
            }
        }
        Ok(needed)
    }

    /// Returns true if a session may be read, or forks of it.
    async fn is_needed(&self, fork: &Head) -> StoreResult<bool> {
        let mut open = vec![fork.clone()];
        while let Some(one) = open.pop() {
            if !one.entry.stage.is_discarded() && !one.entry.stage.is_reclaimed() {
                return Ok(true);
            }
            open.extend(self.forks_of(one.uid()).await?);
        }
        Ok(false)
    }

    /// Returns the forks of a session.
    async fn forks_of(&self, parent: Hash16) -> StoreResult<Vec<Head>> {
        let (mut forks, mut after) = (Vec::new(), None);
        loop {
            let query = RowSelection::Children { parent, after };
            let rows = self.base.rows(query, FAMILY_MAX).await.map_err(store_error)?;
            let Some(last) = rows.last() else { return Ok(forks) };
            after = Some(last.name);
            for row in rows {
                forks.push(Head::from_row(&self.keys.names, row, 0)?);
            }
        }
    }

    /// Returns the key of the session that wrote a part.
    pub(super) fn writer_key(head: &Head, hash: SessionHash) -> SessionKey {
        head.ancestor(hash).map_or_else(|| head.key.clone(), |one| one.key.clone())
    }
}

/// Adds the events of a stored frame to a slice, and the positions that are missing before it;
/// returns the positions that are left.
fn push_stored(
    session: SessionHash,
    stored: &StoredFrame,
    left: Range,
    builder: &mut SliceBuilder<'_>,
    gaps: &mut Vec<SessionGap>,
) -> Range {
    let (from, to) = (stored.range.from.max(left.from), stored.range.to.min(left.to));
    let (before, rest) = match builder.read.fill {
        FillDirection::Forward => {
            (Range::new(left.from, from), Range::new(to.max(left.from), left.to))
        }
        FillDirection::Backward => {
            (Range::new(to, left.to), Range::new(left.from, from.min(left.to)))
        }
    };
    if !before.is_empty() {
        gaps.push(missing_gap(before));
    }
    let pushed = decode_frame(session, stored)
        .and_then(|frame| builder.push_frame(&frame).map_err(|fault| fault.to_string()));
    gaps.extend(pushed.err().map(|reason| damaged_gap(stored.range, reason)));
    rest
}

/// Returns the gap of a damaged frame.
pub(super) fn damaged_gap(range: Range, reason: String) -> SessionGap {
    SessionGap { range, reason, accepted_at: None }
}

fn missing_gap(range: Range) -> SessionGap {
    damaged_gap(range, "the base has no frame of them".to_owned())
}

//! Reading a slice of a session: from unflushed frames in memory, from the cache, and else from the
//! segments, a group of frames with one read. It must not read a session's tables (`read` does) and
//! must not write.

use std::{io, ops, sync::Arc};

use bytes::Bytes;

use super::super::{
    layout::concerns_one_file,
    session::{
        HeldFrame, LoadedSession, SessionState,
        opened::{OpenSegment, UnreadableRange, decode_frame},
    },
    wait::run_blocking,
};
use super::{
    Segments,
    ancestry::WrittenPart,
    read_cache::{FrameGroup, GroupKey},
};
use crate::{
    env::{
        is_unreadable,
        planted::{Defect, is_planted},
        sync::atomic::Ordering,
    },
    event::{Position, Range, SessionHash, Timestamp},
    log::{
        Cipher, Fault, REDACTED,
        journal::read_cached,
        reading::{FileReading, read_with_holes},
        segment::FrameIndex,
    },
    store::{
        FillDirection, ReadRequest, SessionGap, Slice, StoreError, StoreResult,
        rules::{SliceBuilder, clip, entry::is_redacted, erased_gap, overlap},
    },
};

/// Size of the parts of an open segment: frames that start in the same part are read together.
const GROUP_BYTES: u64 = 64 << 10;
/// Bytes of bodies read at once during a search for an instant.
const SEARCH_BYTES: usize = 1 << 20;
/// Bytes of frames above which decoding runs on a blocking thread.
const WORK_BYTES: u64 = 512 << 10;

/// Source of events: memory or a file.
enum EventSource {
    /// An unflushed frame.
    Memory(Arc<HeldFrame>),
    /// A cached group of frames.
    Cache(Arc<FrameGroup>),
    /// Groups of frames of a segment. `keep` is true if they may be cached.
    File { path: String, salt: u64, groups: Vec<Vec<FrameIndex>>, keep: bool },
}

/// Missing positions among those that one session wrote.
enum MissingPositions {
    /// Damaged ranges, or none.
    Gaps(Vec<SessionGap>),
    /// All of them: the session was erased.
    Erased,
}

impl EventSource {
    /// Returns the number of bytes to be read and decoded.
    fn bytes_to_read(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::Cache(_) => 0,
            Self::File { groups, .. } => {
                groups.iter().flatten().map(|frame| u64::from(frame.stride)).sum()
            }
        }
    }
}

impl Segments {
    /// Returns a slice of a session. If a segment is replaced during the read, the slice is read
    /// again from the current segments.
    pub(crate) fn read_slice(
        &self,
        session: &Arc<LoadedSession>,
        read: &ReadRequest,
    ) -> StoreResult<Slice> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            if let Some(slice) = self.try_read_slice(session, read)? {
                return Ok(slice);
            }
        }
        let source = io::Error::other("its segments were replaced again and again");
        Err(StoreError::Io { doing: "reading a session", source })
    }

    fn try_read_slice(
        &self,
        session: &Arc<LoadedSession>,
        read: &ReadRequest,
    ) -> StoreResult<Option<Slice>> {
        let tail = Position(session.lock_visible()?.entry.tail);
        let range = Range::new(read.range.from.min(tail), read.range.to.min(tail));
        let mut parts = self.split_by_writer(session, range);
        if read.fill == FillDirection::Forward {
            parts.reverse();
        }
        let mut taken = SliceBuilder::new(range, read);
        let mut all = Vec::new();
        for WrittenPart { writer, range } in parts {
            taken.range = range;
            let gaps = match &writer {
                Some(writer) => {
                    let found = self.read_events_written_by(writer, read, &mut taken)?;
                    if !Arc::ptr_eq(writer, session) {
                        // No other caller may open the writer again to retry the unreadable bytes.
                        writer.state().close_unread();
                    }
                    found
                }
                // The lost records name no session: the creation of the writer may be among them.
                None if self.context.frozen.load(Ordering::Acquire) => {
                    let reason = "the session that wrote it is lost".to_owned();
                    Some(MissingPositions::Gaps(vec![SessionGap {
                        range,
                        reason,
                        accepted_at: None,
                    }]))
                }
                None => Some(MissingPositions::Erased),
            };
            match gaps {
                None => return Ok(None),
                Some(MissingPositions::Gaps(gaps)) => all.extend(gaps),
                Some(MissingPositions::Erased) if read.allow_gaps => all.push(erased_gap(range)),
                Some(MissingPositions::Erased) => {
                    // The session may have been removed together with its parent.
                    drop(session.lock_visible()?);
                    return Err(Self::prefix_erased_error(session, range));
                }
            }
            if taken.full {
                break;
            }
        }
        let Slice { events, covered, mut gaps, tail } = taken.into_slice(range, all, tail);
        if gaps.iter().any(|gap| gap.accepted_at.is_none()) && !read.allow_gaps {
            // The error lists all gaps of the session, and inherited gaps of this range.
            let mut state = session.state();
            let known = state.gaps();
            // Gaps from its files are listed in full, regardless of the range.
            let is_known =
                |gap: &SessionGap| known.iter().any(|one| one.range.contains_range(gap.range));
            gaps.retain(|gap| !is_known(gap));
            let error = session.damage_error_with(&state, gaps);
            // The next caller retries the unreadable bytes.
            state.close_unread();
            return Err(error);
        }
        Ok(Some(Slice { events, covered, gaps, tail }))
    }

    /// Collects the events of the range that one session wrote; returns the missing positions, or
    /// `None` if a segment was replaced during the read.
    fn read_events_written_by(
        &self,
        session: &Arc<LoadedSession>,
        read: &ReadRequest,
        taken: &mut SliceBuilder<'_>,
    ) -> StoreResult<Option<MissingPositions>> {
        let range = taken.range;
        let first = taken.events.len();
        let (sources, known, segments, cipher, redacted) = {
            let opened = match self.open_for_forks(session) {
                // Its key is gone: a fork that reads it loses only these positions.
                Err(StoreError::SessionDamaged { gaps, .. }) => {
                    let gaps = gaps.into_iter().filter_map(|gap| clip(gap, range));
                    return Ok(Some(MissingPositions::Gaps(gaps.collect())));
                }
                opened => opened?,
            };
            let Some(mut state) = opened else { return Ok(Some(MissingPositions::Erased)) };
            let cipher = self.client_cipher(session, &mut state)?;
            let left = read.events_max.saturating_sub(taken.events.len());
            let sources = self.list_sources(&state, range, read.fill, left);
            let redacted = state.entry.redacted.clone();
            taken.given_up = state.accepted_losses();
            (sources, state.gaps(), state.entry.segments.clone(), cipher, redacted)
        };
        let mut found = Vec::new();
        for source in sources {
            let large = source.bytes_to_read() > WORK_BYTES;
            let take = || self.read_source((session, cipher.as_deref()), source, taken);
            found.extend(if large { run_blocking(take) } else { take() }?);
            if taken.full {
                break;
            }
        }
        // Regardless of the bodies in files or memory.
        let mine = taken.events.iter_mut().skip(first).filter(|_| !redacted.is_empty());
        let gone = mine.filter(|event| is_redacted(&redacted, event.position));
        let gone = gone.filter(|_| !is_planted(Defect::ServeRedacted));
        gone.for_each(|event| event.body = Bytes::from_static(REDACTED));
        if found.is_empty() {
            return Ok(Some(MissingPositions::Gaps(
                known.into_iter().filter_map(|gap| clip(gap, range)).collect(),
            )));
        }
        let mut state = session.state();
        if state.entry.segments != segments || state.entry.stage.is_erased() {
            return Ok(None);
        }
        let unread = self.record_flaws(session, &mut state, found);
        let gaps = state.gaps().into_iter().chain(unread).filter_map(|gap| clip(gap, range));
        Ok(Some(MissingPositions::Gaps(gaps.collect())))
    }

    /// Returns the sources of the range's events in the order of the read, up to one event more
    /// than it may return, so that a truncated slice is detected.
    fn list_sources(
        &self,
        state: &SessionState,
        range: Range,
        fill: FillDirection,
        events_max: usize,
    ) -> Vec<EventSource> {
        let mut budget = (events_max as u64).saturating_add(1);
        let mut sources = Vec::new();
        let segments = state.opened.as_ref().map_or(&[][..], |opened| &opened.segments);
        // Accepted losses stay lost, even if memory has the events.
        let keep = state.entry.damage.is_empty();
        match fill {
            FillDirection::Forward => {
                for segment in segments {
                    self.add_from_segment(segment, range, fill, keep, &mut budget, &mut sources);
                }
                add_from_memory(state, range, fill, &mut budget, &mut sources);
            }
            FillDirection::Backward => {
                add_from_memory(state, range, fill, &mut budget, &mut sources);
                for segment in segments.iter().rev() {
                    self.add_from_segment(segment, range, fill, keep, &mut budget, &mut sources);
                }
            }
        }
        sources
    }

    fn add_from_segment(
        &self,
        segment: &OpenSegment,
        range: Range,
        fill: FillDirection,
        keep: bool,
        budget: &mut u64,
        sources: &mut Vec<EventSource>,
    ) {
        let mut missing: Vec<Vec<FrameIndex>> = Vec::new();
        let path = |missing| {
            let (path, salt) = (segment.path.clone(), segment.salt);
            EventSource::File { path, salt, groups: missing, keep }
        };
        let mut from = segment.index.partition_point(|frame| frame.end_position() <= range.from);
        let mut to = segment.index.partition_point(|frame| frame.first_position < range.to);
        while from < to && *budget > 0 {
            let group = match fill {
                FillDirection::Forward => group_at(segment, from),
                FillDirection::Backward => group_at(segment, to - 1),
            };
            (from, to) = match fill {
                FillDirection::Forward => (group.end, to),
                FillDirection::Backward => (from, group.start),
            };
            let frames = segment.index.get(group).unwrap_or_default();
            let events = overlap(covered_range(frames), range);
            let Some(first) = frames.first().filter(|_| events > 0) else { continue };
            *budget = budget.saturating_sub(events);
            let place = GroupKey { salt: segment.salt, byte_offset: first.byte_offset };
            match self.read_cache.get(place, frames.len()).filter(|_| keep) {
                None => missing.push(frames.to_vec()),
                Some(read_cache) => {
                    if !missing.is_empty() {
                        sources.push(path(std::mem::take(&mut missing)));
                    }
                    sources.push(EventSource::Cache(read_cache));
                }
            }
        }
        if !missing.is_empty() {
            sources.push(path(missing));
        }
    }

    fn read_source(
        &self,
        (session, cipher): (&LoadedSession, Option<&Cipher>),
        source: EventSource,
        taken: &mut SliceBuilder<'_>,
    ) -> StoreResult<Vec<UnreadableRange>> {
        let mut flaws = Vec::new();
        match source {
            EventSource::Memory(held) => {
                let frame = held.to_frame();
                if let Err(fault) = taken.push_frame(&frame) {
                    let (range, reason) = (frame.header.range(), fault.to_string());
                    flaws.push(UnreadableRange { range, reason, unread: false });
                }
            }
            EventSource::Cache(group) => taken.push_events(&group.events),
            EventSource::File { path, salt, groups, keep } => {
                let file = match self.context.env.storage.open_read(&path) {
                    Ok(file) => file,
                    Err(source) if concerns_one_file(&source) => {
                        let unread = is_unreadable(&source);
                        let reason = match unread {
                            true => format!("{path} cannot be opened: {source}"),
                            false => format!("{path} is missing"),
                        };
                        let flaw = |frames: &Vec<FrameIndex>| UnreadableRange {
                            range: covered_range(frames),
                            reason: reason.clone(),
                            unread,
                        };
                        return Ok(groups.iter().map(flaw).collect());
                    }
                    Err(source) => {
                        return Err(StoreError::Io { doing: "opening a segment", source });
                    }
                };
                for frames in groups {
                    let from = frames.first().map_or(0, |frame| frame.byte_offset);
                    let to = frames.last().map_or(from, FrameIndex::next_offset);
                    // Reading from the page cache is cheaper than moving to a blocking thread.
                    let cached = read_cached(&*file, from, to);
                    let cached =
                        cached.map(|bytes| Ok(FileReading { bytes, ..FileReading::default() }));
                    let read = cached
                        .unwrap_or_else(|| run_blocking(|| read_with_holes(&*file, from, to)));
                    let read = read.map_err(|error| {
                        let source = error.into();
                        StoreError::Io { doing: "reading a segment", source }
                    })?;
                    let group =
                        FrameGroup::decode((session.hash, cipher), salt, &frames, &read.bytes);
                    if let Ok(group) = group {
                        let group = Arc::new(group);
                        if keep {
                            self.read_cache.insert(GroupKey { salt, byte_offset: from }, &group);
                        }
                        taken.push_events(&group.events);
                    } else {
                        let place = (path.as_str(), salt);
                        flaws.extend(push_whole_frames(
                            taken,
                            (session.hash, cipher),
                            place,
                            &frames,
                            &read,
                        ));
                    }
                    if taken.full {
                        return Ok(flaws);
                    }
                }
            }
        }
        Ok(flaws)
    }

    /// Returns the position of the first event processed at or after `time`.
    pub(crate) fn find_time(
        &self,
        session: &Arc<LoadedSession>,
        time: Timestamp,
    ) -> StoreResult<Position> {
        let (mut at, tail) = self.search_start(session, time)?;
        while at < tail {
            let range = Range::new(at, tail);
            let read = ReadRequest {
                range,
                events_max: 256,
                bytes_max: SEARCH_BYTES,
                fill: FillDirection::Forward,
                allow_gaps: true,
            };
            let slice = self.read_slice(session, &read)?;
            if let Some(event) = slice.events.iter().find(|event| event.processed_at >= time) {
                return Ok(event.position);
            }
            at = slice.covered.to.max(at.plus(1));
        }
        Ok(tail)
    }
}

/// Adds the unflushed frames of the range to the sources.
fn add_from_memory(
    state: &SessionState,
    range: Range,
    fill: FillDirection,
    budget: &mut u64,
    sources: &mut Vec<EventSource>,
) {
    let skip = state.unflushed.partition_point(|held| held.header.range().to <= range.from);
    let end = state.unflushed.partition_point(|held| held.header.first_position < range.to);
    let mut held = state.unflushed.range(skip..end.max(skip));
    while *budget > 0 {
        let next = match fill {
            FillDirection::Forward => held.next(),
            FillDirection::Backward => held.next_back(),
        };
        let Some(held) = next else { return };
        let events = overlap(held.header.range(), range);
        if events > 0 {
            *budget = budget.saturating_sub(events);
            sources.push(EventSource::Memory(held.clone()));
        }
    }
}

/// Returns the frames that are read together with the one at `at`. A block is opened alone, and so
/// is a large frame.
fn group_at(segment: &OpenSegment, at: usize) -> ops::Range<usize> {
    let index = &segment.index;
    let large = |frame: &FrameIndex| u64::from(frame.stride) > GROUP_BYTES;
    let part = |frame: &FrameIndex| frame.byte_offset / GROUP_BYTES;
    match index.get(at) {
        Some(frame) if !segment.file.sealed && !large(frame) => {
            let from = index.partition_point(|other| part(other) < part(frame));
            // A large frame is the last one that starts in its part, so the search is valid.
            let to = index.partition_point(|other| {
                part(other) < part(frame) || part(other) == part(frame) && !large(other)
            });
            from..to
        }
        _ => at..at + 1,
    }
}

/// Adds the events of the whole ones of these frames to a slice; returns the flaws of the others.
fn push_whole_frames(
    taken: &mut SliceBuilder<'_>,
    session: (SessionHash, Option<&Cipher>),
    (path, salt): (&str, u64),
    frames: &[FrameIndex],
    read: &FileReading,
) -> Vec<UnreadableRange> {
    let (mut flaws, fill) = (Vec::new(), taken.read.fill);
    let from = frames.first().map_or(0, |frame| frame.byte_offset);
    let mut take = |index: &FrameIndex| {
        let range = Range::new(index.first_position, index.end_position());
        if overlap(range, taken.range) == 0 {
            return true;
        }
        let frame = decode_frame(session, salt, index, from, &read.bytes);
        if let Err(fault) = frame.and_then(|frame| taken.push_frame(&frame)) {
            let unread = read.holes.overlaps(index.byte_offset, index.next_offset());
            let fault = if unread { Fault::Unreadable } else { fault };
            let reason = format!("{path} at byte {}: {fault}", index.byte_offset);
            flaws.push(UnreadableRange { range, reason, unread });
        }
        !taken.full
    };
    match fill {
        FillDirection::Forward => frames.iter().all(&mut take),
        FillDirection::Backward => frames.iter().rev().all(&mut take),
    };
    flaws
}

fn covered_range(frames: &[FrameIndex]) -> Range {
    let from = frames.first().map(|frame| frame.first_position).unwrap_or_default();
    Range::new(from, frames.last().map_or(from, FrameIndex::end_position))
}

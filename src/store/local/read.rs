//! Reading a session: its files are opened when first asked for, and a slice reads just the frames
//! it needs. Nothing past the durable point is ever seen. It must not write.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    Shared, blocking,
    layout::quarantine,
    lock,
    session::{Effect, Held, Names, Session, State},
    settle::whole_frames,
};
use crate::{
    env::{
        File,
        planted::{Defect, planted},
        sync::MutexGuard,
    },
    event::{Event, Position, Range, SessionHash, Timestamp},
    log::{
        Fault, Frame, KnownBatch, LogError, SegmentEntry,
        frame::HEADER_BYTES,
        journal::{read as read_bytes, read_cached},
        scan::{Piece, scan},
        seal::Sealed,
        segment::{self, FRAMES_AT, FrameIndex, SegmentHeader},
    },
    store::{Fill, Gap, Read, Slice, StoreError, StoreResult},
};

/// Bytes read at once from a segment.
const READ_BYTES: u64 = 1 << 20;
/// Bytes of frames whose checking and decoding is work for a thread that nobody waits for.
const WORK_BYTES: u64 = 512 << 10;

/// A session's files and names, in memory while it is in use.
pub(super) struct Opened {
    pub(super) segments: Vec<OpenSegment>,
    /// Names in segments that are not sealed, and in frames not settled yet.
    names: Names,
    /// When somebody asked for it last, by the clock that never goes back.
    pub(super) used_at: Duration,
}

/// A segment that can be read.
pub(super) struct OpenSegment {
    pub(super) file: SegmentEntry,
    pub(super) path: String,
    pub(super) salt: u64,
    pub(super) index: Vec<FrameIndex>,
    sealed: Option<Sealed>,
}

impl OpenSegment {
    pub(super) fn sealed(file: SegmentEntry, path: String, salt: u64, sealed: Sealed) -> Self {
        Self { file, path, salt, index: sealed.index.clone(), sealed: Some(sealed) }
    }
}

impl Opened {
    /// The salt of a segment, if it is open.
    pub(super) fn salt(&self, segment: &SegmentEntry) -> Option<u64> {
        let known = self.segments.iter().rev().find(|open| open.file == *segment);
        known.map(|open| open.salt)
    }

    /// That of a session without a file, at `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self { segments: Vec::new(), names: Names::default(), used_at: now }
    }

    /// A sealed segment took the place of a run of others; its names are in its own table, if it
    /// has one.
    pub(super) fn sealed(&mut self, run: &[SegmentEntry], sealed: OpenSegment) {
        let at = self.segments.iter().position(|segment| Some(&segment.file) == run.first());
        let Some(at) = at.filter(|at| at + run.len() <= self.segments.len()) else { return };
        let range = sealed.file.base..sealed.file.end;
        if sealed.sealed.as_ref().is_some_and(|sealed| !sealed.nameless) {
            self.names.ids.retain(|_, position| !range.contains(&position.0));
        }
        self.segments.splice(at..at + run.len(), [sealed]);
    }

    /// Adds the names of a frame that became durable.
    pub(super) fn learn(&mut self, effect: &Effect) {
        self.names.ids.extend(effect.ids.iter().copied());
        if let Some(batch) = &effect.batch {
            self.names.batches.insert(batch.key.clone(), (effect.updated_at, batch.clone()));
        }
    }

    /// Where the event of that id hash lies.
    pub(super) fn find(&self, hash: &[u8; 16]) -> Option<Position> {
        let sealed = self.segments.iter().rev().filter_map(|segment| segment.sealed.as_ref());
        self.names
            .ids
            .get(hash)
            .copied()
            .or_else(|| sealed.into_iter().find_map(|sealed| sealed.find(hash)))
    }

    /// The batch of that key, if it was written at or after `from`.
    pub(super) fn batch(&self, key: &str, from: Timestamp) -> Option<&KnownBatch> {
        let sealed = self.segments.iter().filter_map(|segment| segment.sealed.as_ref());
        let sealed = sealed.flat_map(|sealed| &sealed.batches);
        let known = self.names.batches.get(key).map(|(time, batch)| (time, batch));
        known
            .into_iter()
            .chain(sealed.map(|(time, batch)| (time, batch)))
            .find(|(time, batch)| batch.key == key && **time >= from)
            .map(|(_, batch)| batch)
    }

    /// A settled segment grew, or is new.
    pub(super) fn settled(
        &mut self,
        file: &SegmentEntry,
        path: &str,
        salt: u64,
        new: &[FrameIndex],
    ) {
        let known = self.segments.last_mut().filter(|segment| segment.path == path);
        match known {
            Some(segment) => {
                segment.file = file.clone();
                segment.index.extend_from_slice(new);
            }
            None => self.segments.push(OpenSegment {
                file: file.clone(),
                path: path.to_owned(),
                salt,
                index: new.to_vec(),
                sealed: None,
            }),
        }
    }
}

/// The index entry of a frame at a byte offset.
pub(super) fn index_of(byte_offset: u64, held: &Held) -> FrameIndex {
    FrameIndex {
        byte_offset,
        stride: u32::try_from(held.header.stride()).unwrap_or(u32::MAX),
        first_position: held.header.first_position,
        events: held.header.events,
        count: held.header.count,
        first_lsn: held.header.first_lsn,
        first_time: held.first_time,
    }
}

/// A frame somewhere: in memory, or in a file.
enum Source {
    Memory(Held),
    File { path: String, salt: u64, frames: Vec<FrameIndex> },
}

impl Shared {
    /// The session as a reader may know it, its files open. They are read while nobody waits for
    /// its lock: the committer takes it to make frames visible.
    pub(super) fn opened<'a>(
        &self,
        session: &'a Arc<Session>,
    ) -> StoreResult<MutexGuard<'a, State>> {
        loop {
            let (segments, waiting) = {
                let mut state = session.visible()?;
                if let Some(opened) = &mut state.opened {
                    opened.used_at = self.env.clock.monotonic();
                    return Ok(state);
                }
                let waiting: Vec<Held> = state.unsettled.iter().cloned().collect();
                (state.entry.segments.clone(), waiting)
            };
            let (opened, gaps) = self.load(session.hash, &segments, &waiting)?;
            let mut state = session.visible()?;
            // Settled, sealed or opened meanwhile: what was read is not how it is now.
            let same = state.entry.segments == segments && state.unsettled.len() == waiting.len();
            if same && state.opened.is_none() {
                for gap in &gaps {
                    self.note(session, &mut state, gap.range, &gap.reason);
                }
                state.opened = Some(opened);
                lock(&self.in_use).push_back(Arc::clone(session));
            }
        }
    }

    /// Reads the tables of a session's files, and the names in the frames that wait.
    fn load(
        &self,
        session: SessionHash,
        segments: &[SegmentEntry],
        waiting: &[Held],
    ) -> StoreResult<(Opened, Vec<Gap>)> {
        let mut opened = Opened::new(self.env.clock.monotonic());
        let mut gaps = Vec::new();
        for file in segments {
            match self.open_segment(session, file, &mut opened.names) {
                Ok((segment, found)) => {
                    gaps.extend(found);
                    opened.segments.push(segment);
                }
                Err(LogError::Io(source)) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Io { doing: "opening a segment", source });
                }
                Err(error) => {
                    let range = Range::new(Position(file.base), Position(file.end));
                    let reason = format!("segment {} is unreadable: {error}", file.base);
                    gaps.push(Gap { range, reason, accepted_at: None });
                }
            }
        }
        for held in waiting {
            let frame = Frame { header: held.header, payload: held.payload.clone() };
            if let Ok(records) = frame.records() {
                opened.names.add(held.header.first_position, &records);
            }
        }
        if planted(Defect::DropIdempotency) {
            opened.names = Names::default();
        }
        Ok((opened, gaps))
    }

    fn open_segment(
        &self,
        session: SessionHash,
        entry: &SegmentEntry,
        names: &mut Names,
    ) -> Result<(OpenSegment, Vec<Gap>), LogError> {
        let path = segment::path(session, Position(entry.base), entry.start, entry.sealed);
        let file = self.env.storage.open_read(&path)?;
        let header = SegmentHeader::of(&*file)?;
        let misplaced = header.store != self.store.id
            || header.session != session
            || (header.base.0, header.start, header.sealed)
                != (entry.base, entry.start, entry.sealed);
        if misplaced {
            return Err(LogError::Fault { byte_offset: 0, fault: Fault::Misplaced });
        }
        if file.len()? < entry.bytes {
            return Err(LogError::Fault { byte_offset: file.len()?, fault: Fault::Short });
        }
        let mut segment = OpenSegment {
            file: entry.clone(),
            path,
            salt: header.salt,
            index: Vec::new(),
            sealed: None,
        };
        if entry.sealed {
            match sealed_tables(&*file, &header, entry, names) {
                Ok(sealed) => {
                    segment.index.clone_from(&sealed.index);
                    segment.sealed = Some(sealed);
                    return Ok((segment, Vec::new()));
                }
                // Its tables are damaged: its blocks are walked like frames of an open segment.
                Err(LogError::Fault { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let beyond = planted(Defect::BelieveBeyondSettled);
        let end = if beyond { file.len()? } else { entry.bytes };
        let region = read_bytes(&*file, FRAMES_AT, end)?;
        let gaps = self.index_segment(&mut segment, session, &region, names);
        Ok((segment, gaps))
    }

    /// Walks the frames of a segment that is not sealed. Anything wrong below the believed bytes is
    /// damage.
    fn index_segment(
        &self,
        segment: &mut OpenSegment,
        session: SessionHash,
        region: &Bytes,
        names: &mut Names,
    ) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut expected = Position(segment.file.base);
        let mut wrong = None;
        let mut gap = |from: Position, to: Position, wrong: Option<(u64, Fault)>| {
            let (at, fault) = wrong.unwrap_or((0, Fault::Misplaced));
            let reason = format!("segment {} at byte {at}: {fault}", segment.file.base);
            let start = usize::try_from(at.saturating_sub(FRAMES_AT)).unwrap_or(usize::MAX);
            let end = start.saturating_add(64 << 10).min(region.len());
            let name = format!("{session}-{}-{at}.damaged", segment.file.base);
            quarantine(&self.env, &name, region.get(start..end).unwrap_or_default(), &reason);
            gaps.push(Gap { range: Range::new(from, to), reason, accepted_at: None });
        };
        let found = scan(segment.salt, region, FRAMES_AT);
        for piece in found.pieces {
            let (byte_offset, frame) = match piece {
                Piece::Frame { byte_offset, frame } => (byte_offset, frame),
                Piece::Bad { byte_offset, fault, .. } => {
                    wrong = Some((byte_offset, fault));
                    continue;
                }
            };
            let header = frame.header;
            let records = match frame.records() {
                Ok(records) if header.session == session => records,
                Ok(_) => {
                    wrong = Some((byte_offset, Fault::Misplaced));
                    continue;
                }
                Err(fault) => {
                    wrong = Some((byte_offset, fault));
                    continue;
                }
            };
            if header.first_position != expected || wrong.is_some() {
                gap(expected, header.first_position, wrong.take());
            }
            names.add(header.first_position, &records);
            let first_time =
                records.first().map_or(Timestamp(0), |(_, first)| first.processed_at());
            let held = Held { header, payload: Bytes::new(), first_time };
            segment.index.push(index_of(byte_offset, &held));
            expected = header.range().to;
        }
        let end = Position(segment.file.end);
        if expected != end || wrong.is_some() || found.rest.is_some() {
            let rest = found.rest.map(|fault| (found.end, fault));
            gap(expected, end.max(expected), wrong.or(rest));
        }
        gaps
    }

    /// Remembers damage of a session, and has it settled when it is new.
    pub(super) fn note(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        range: Range,
        reason: &str,
    ) {
        if state.damage(range, reason) {
            tracing::error!(session = %session.hash, %range, reason, "acknowledged bytes are damaged");
            lock(&self.touched).push(Arc::clone(session));
        }
    }

    /// A slice of a session. A segment that was replaced under the read is no damage: the slice is
    /// read again from the segments as they are now.
    pub(super) fn slice(&self, session: &Arc<Session>, read: &Read) -> StoreResult<Slice> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            if let Some(slice) = self.slice_once(session, read)? {
                return Ok(slice);
            }
        }
        let source = io::Error::other("its segments were replaced again and again");
        Err(StoreError::Io { doing: "reading a session", source })
    }

    fn slice_once(&self, session: &Arc<Session>, read: &Read) -> StoreResult<Option<Slice>> {
        let (sources, range, tail, known, segments) = {
            let open = session.visible()?.opened.is_some();
            let opened = || self.opened(session);
            let state = if open { opened() } else { blocking(opened) }?;
            let tail = Position(state.entry.tail);
            let range = Range::new(read.range.from.min(tail), read.range.to.min(tail));
            let segments = state.entry.segments.clone();
            (sources(&state, range, read), range, tail, state.gaps(), segments)
        };
        let mut taken =
            Taken { range, read, events: Vec::new(), frame: Vec::new(), bytes: 0, full: false };
        let mut found = Vec::new();
        for source in sources {
            let large =
                matches!(&source, Source::File { frames, .. } if bytes_of(frames) > WORK_BYTES);
            let take = || self.take(session, source, &mut taken);
            found.extend(if large { blocking(take) } else { take() }?);
            if taken.full {
                break;
            }
        }
        if !found.is_empty() {
            let mut state = session.state();
            if state.entry.segments != segments {
                return Ok(None);
            }
            for gap in &found {
                self.note(session, &mut state, gap.range, &gap.reason);
            }
        }
        let mut events = taken.events;
        events.sort_by_key(|event| event.position);
        let covered = match (taken.full, read.fill, events.first(), events.last()) {
            (true, Fill::Forward, _, Some(last)) => Range::new(range.from, last.position.plus(1)),
            (true, Fill::Backward, Some(first), _) => Range::new(first.position, range.to),
            _ => range,
        };
        let all = if found.is_empty() { known } else { session.state().gaps() };
        let gaps: Vec<Gap> = all.into_iter().filter_map(|gap| clip(gap, covered)).collect();
        if gaps.iter().any(|gap| gap.accepted_at.is_none()) && !read.allow_gaps {
            return Err(session.damaged(&session.state()));
        }
        Ok(Some(Slice { events, covered, gaps, tail }))
    }

    fn take(
        &self,
        session: &Session,
        source: Source,
        taken: &mut Taken<'_>,
    ) -> StoreResult<Vec<Gap>> {
        let mut gaps = Vec::new();
        match source {
            Source::Memory(held) => {
                let frame = Frame { header: held.header, payload: held.payload };
                if let Err(fault) = taken.frame(&frame) {
                    let (range, reason) = (frame.header.range(), fault.to_string());
                    gaps.push(Gap { range, reason, accepted_at: None });
                }
            }
            Source::File { path, salt, frames } => {
                let file = self.env.storage.open_read(&path);
                let file = match file {
                    Ok(file) => file,
                    Err(source) if source.kind() == io::ErrorKind::NotFound => {
                        let reason = format!("{path} is missing");
                        let range = span(&frames);
                        return Ok(vec![Gap { range, reason, accepted_at: None }]);
                    }
                    Err(source) => {
                        return Err(StoreError::Io { doing: "opening a segment", source });
                    }
                };
                for run in runs(&frames, taken.read.fill) {
                    let from = run.iter().map(|frame| frame.byte_offset).min().unwrap_or(0);
                    let to = run.iter().map(|frame| frame.byte_offset + u64::from(frame.stride));
                    let to = to.max().unwrap_or(0);
                    // What the system has in memory costs less than making way for waiting.
                    let cached = read_cached(&*file, from, to).map(Ok);
                    let read = cached.unwrap_or_else(|| blocking(|| read_bytes(&*file, from, to)));
                    let bytes = match read {
                        Ok(bytes) => bytes,
                        Err(LogError::Io(source)) => {
                            return Err(StoreError::Io { doing: "reading a segment", source });
                        }
                        Err(LogError::Fault { .. }) => Bytes::new(),
                    };
                    for index in run {
                        if let Err(fault) = one(session.hash, salt, index, from, &bytes)
                            .and_then(|frame| taken.frame(&frame))
                        {
                            let range = Range::new(index.first_position, index.end());
                            let reason = format!("{path} at byte {}: {fault}", index.byte_offset);
                            gaps.push(Gap { range, reason, accepted_at: None });
                        }
                        if taken.full {
                            return Ok(gaps);
                        }
                    }
                }
            }
        }
        Ok(gaps)
    }

    /// Position of the first event processed at or after `time`.
    pub(super) fn find_time(
        &self,
        session: &Arc<Session>,
        time: Timestamp,
    ) -> StoreResult<Position> {
        let (from, tail) = {
            let state = self.opened(session)?;
            let settled = state.opened.iter().flat_map(|opened| &opened.segments);
            let settled = settled.flat_map(|segment| segment.index.iter().copied());
            let memory = state.unsettled.iter().map(|held| index_of(0, held));
            let before = settled.chain(memory).take_while(|frame| frame.first_time < time).last();
            let from = before.map_or(Position::ZERO, |frame| frame.first_position);
            (from, Position(state.entry.tail))
        };
        let mut at = from;
        while at < tail {
            let range = Range::new(at, tail);
            let read = Read {
                range,
                events_max: 256,
                bytes_max: READ_BYTES as usize,
                fill: Fill::Forward,
                allow_gaps: true,
            };
            let slice = self.slice(session, &read)?;
            if let Some(event) = slice.events.iter().find(|event| event.processed_at >= time) {
                return Ok(event.position);
            }
            at = slice.covered.to.max(at.plus(1));
        }
        Ok(tail)
    }
}

/// Bytes of frames, as they lie in a file.
fn bytes_of(frames: &[FrameIndex]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.stride)).sum()
}

/// The tables of a sealed segment; the names in its one block, where it has no table of them.
fn sealed_tables(
    file: &dyn File,
    header: &SegmentHeader,
    entry: &SegmentEntry,
    names: &mut Names,
) -> Result<Sealed, LogError> {
    let sealed = Sealed::of(file, header, entry.bytes)?;
    if sealed.nameless {
        let wrong = |fault| LogError::Fault { byte_offset: FRAMES_AT, fault };
        for frame in whole_frames(file, header, entry)? {
            names.add(frame.header.first_position, &frame.records().map_err(wrong)?);
        }
    }
    Ok(sealed)
}

/// Events collected for a slice.
struct Taken<'a> {
    range: Range,
    read: &'a Read,
    events: Vec<Event>,
    /// Memory for the events of one frame.
    frame: Vec<Event>,
    bytes: usize,
    /// A bound was met: what follows is left out.
    full: bool,
}

impl Taken<'_> {
    fn frame(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut events = std::mem::take(&mut self.frame);
        events.clear();
        frame.events(self.range, &mut events)?;
        if self.read.fill == Fill::Backward {
            events.reverse();
        }
        for event in events.drain(..) {
            let bytes = self.bytes + event.body.len();
            let fits = self.events.is_empty() || bytes <= self.read.bytes_max;
            if self.events.len() >= self.read.events_max || !fits {
                self.full = true;
                return Ok(());
            }
            self.bytes = bytes;
            self.events.push(event);
        }
        self.frame = events;
        Ok(())
    }
}

/// Reads one frame out of bytes that start at `from` in its file.
fn one(
    session: SessionHash,
    salt: u64,
    index: &FrameIndex,
    from: u64,
    bytes: &Bytes,
) -> Result<Frame, Fault> {
    let start = usize::try_from(index.byte_offset - from).map_err(|_| Fault::Short)?;
    if start + HEADER_BYTES > bytes.len() {
        return Err(Fault::Short);
    }
    let frame = Frame::read(salt, &bytes.slice(start..))?;
    let range = Range::new(index.first_position, index.end());
    if frame.header.session != session || frame.header.range() != range {
        return Err(Fault::Misplaced);
    }
    Ok(frame)
}

/// Frames that cover the range, in the order the read fills, no more than it can use: one event
/// more than fits, so that a cut is seen.
fn sources(state: &State, range: Range, read: &Read) -> Vec<Source> {
    let mut budget = (read.events_max as u64).saturating_add(1);
    let segments = state.opened.as_ref().map_or(&[][..], |opened| &opened.segments);
    let file = |segment: &OpenSegment, budget: &mut u64| {
        let skip = segment.index.partition_point(|frame| frame.end() <= range.from);
        let end = segment.index.partition_point(|frame| frame.first_position < range.to);
        let frames = segment.index.get(skip..end).unwrap_or_default();
        let frames = match read.fill {
            Fill::Forward => enough(frames.iter(), range, budget),
            Fill::Backward => enough(frames.iter().rev(), range, budget),
        };
        let source = Source::File { path: segment.path.clone(), salt: segment.salt, frames };
        matches!(&source, Source::File { frames, .. } if !frames.is_empty()).then_some(source)
    };
    let memory = |budget: &mut u64| {
        let skip = state.unsettled.partition_point(|held| held.header.range().to <= range.from);
        let end = state.unsettled.partition_point(|held| held.header.first_position < range.to);
        let held = state.unsettled.range(skip..end.max(skip));
        let held: Vec<&Held> = match read.fill {
            Fill::Forward => enough_of(held, range, budget),
            Fill::Backward => enough_of(held.rev(), range, budget),
        };
        held.into_iter().cloned().map(Source::Memory).collect::<Vec<_>>()
    };
    let mut sources = Vec::new();
    match read.fill {
        Fill::Forward => {
            sources.extend(segments.iter().filter_map(|segment| file(segment, &mut budget)));
            sources.extend(memory(&mut budget));
        }
        Fill::Backward => {
            sources.extend(memory(&mut budget));
            sources.extend(segments.iter().rev().filter_map(|segment| file(segment, &mut budget)));
        }
    }
    sources
}

fn enough<'a>(
    frames: impl Iterator<Item = &'a FrameIndex>,
    range: Range,
    budget: &mut u64,
) -> Vec<FrameIndex> {
    let covers = |frame: &&FrameIndex| Range::new(frame.first_position, frame.end());
    until_spent(frames, covers, range, budget).into_iter().copied().collect()
}

fn enough_of<'a>(
    held: impl Iterator<Item = &'a Held>,
    range: Range,
    budget: &mut u64,
) -> Vec<&'a Held> {
    until_spent(held, |held| held.header.range(), range, budget)
}

/// Takes frames with events in the range until these events spend the budget.
fn until_spent<T>(
    frames: impl Iterator<Item = T>,
    covers: impl Fn(&T) -> Range,
    range: Range,
    budget: &mut u64,
) -> Vec<T> {
    let mut taken = Vec::new();
    for frame in frames {
        if *budget == 0 {
            break;
        }
        let covered = covers(&frame);
        let from = covered.from.max(range.from);
        let events = Range::new(from, covered.to.min(range.to)).len();
        if events > 0 {
            *budget = budget.saturating_sub(events);
            taken.push(frame);
        }
    }
    taken
}

/// Runs of frames that one read fetches, in the order of `frames`.
fn runs(frames: &[FrameIndex], fill: Fill) -> Vec<&[FrameIndex]> {
    let mut runs = Vec::new();
    let mut rest = frames;
    while !rest.is_empty() {
        let mut bytes = 0;
        let mut count = 0;
        for (index, frame) in rest.iter().enumerate() {
            let adjacent = index == 0 || {
                let before = rest.get(index - 1);
                before.is_some_and(|before| match fill {
                    Fill::Forward => {
                        before.byte_offset + u64::from(before.stride) == frame.byte_offset
                    }
                    Fill::Backward => {
                        frame.byte_offset + u64::from(frame.stride) == before.byte_offset
                    }
                })
            };
            bytes += u64::from(frame.stride);
            if index > 0 && (!adjacent || bytes > READ_BYTES) {
                break;
            }
            count = index + 1;
        }
        let (run, behind) = rest.split_at(count);
        runs.push(run);
        rest = behind;
    }
    runs
}

fn span(frames: &[FrameIndex]) -> Range {
    let from = frames.iter().map(|frame| frame.first_position).min().unwrap_or_default();
    Range::new(from, frames.iter().map(FrameIndex::end).max().unwrap_or(from))
}

/// The part of a gap that lies in a range.
fn clip(gap: Gap, range: Range) -> Option<Gap> {
    let cut = Range::new(gap.range.from.max(range.from), gap.range.to.min(range.to));
    (gap.range.from < range.to && range.from < gap.range.to && !cut.is_empty())
        .then_some(Gap { range: cut, ..gap })
}

//! Forks: sessions that continue from a position of another one. Inherited positions are read from
//! the session that wrote them, found by a loop over the ancestors: no bytes are copied and the
//! depth is unlimited. A deleted session with forks is hidden, and its files stay until the last
//! fork is gone. It must not return events; `slice` does.

use std::{io, sync::Arc};

use super::super::{
    layout::concerns_one_file,
    session::{
        HeldFrame, LoadedSession, SessionState,
        opened::{UnreadableRange, decode_frame, index_entry},
    },
    wait::run_blocking,
};
use super::Segments;
use crate::{
    event::{EventId, Position, Range, Scope, SessionHash, SessionKey, Timestamp},
    log::{
        ChainValue, Cipher, ForkParent, LogError,
        journal::read as read_bytes,
        segment::{FrameIndex, name_hash},
    },
    store::{Family, ForkPoint, RelatedSession, StoreError, StoreResult},
};

/// Positions of a session, and the session that wrote them; `None` if that is gone.
pub(crate) struct WrittenPart {
    pub(crate) writer: Option<Arc<LoadedSession>>,
    pub(crate) range: Range,
}

impl Segments {
    /// Returns the writers of the positions of a range, from the session itself to its ancestors.
    pub(crate) fn split_by_writer(
        &self,
        session: &Arc<LoadedSession>,
        range: Range,
    ) -> Vec<WrittenPart> {
        let (mut parts, mut to) = (Vec::new(), range.to);
        let mut level = Some(Arc::clone(session));
        while let Some(writer) = level {
            let base = writer.base();
            let up = (range.from < base).then(|| self.sessions.parent_of(&writer));
            if to > base.max(range.from) {
                let range = Range::new(range.from.max(base), to);
                parts.push(WrittenPart { writer: Some(writer), range });
            }
            to = to.min(base);
            level = match up {
                None => None,
                Some(None) if to > range.from => {
                    parts.push(WrittenPart { writer: None, range: Range::new(range.from, to) });
                    None
                }
                Some(parent) => parent,
            };
        }
        parts
    }

    /// Returns the error of a fork that cannot read positions because their writer was erased.
    pub(crate) fn prefix_erased_error(session: &LoadedSession, range: Range) -> StoreError {
        StoreError::PrefixErased { session: session.key.session.clone(), range }
    }

    /// Returns the position of the event with that id, own or inherited.
    pub(crate) fn find(
        &self,
        session: &Arc<LoadedSession>,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        Ok(self.find_with_writer(session, id)?.map(|(_, at)| at))
    }

    /// Returns the session that wrote the event with that id, and its position.
    pub(crate) fn find_with_writer(
        &self,
        session: &Arc<LoadedSession>,
        id: &EventId,
    ) -> StoreResult<Option<(Arc<LoadedSession>, Position)>> {
        match self.find_own(session, id)? {
            None => self.find_inherited(session, &name_hash(id.as_str())),
            Some(own) => Ok(Some((Arc::clone(session), own))),
        }
    }

    /// Returns the position of the event with that id among the session's own events.
    fn find_own(
        &self,
        session: &Arc<LoadedSession>,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        let mut state = self.open_visible(session)?;
        Ok(state.opened.as_mut().and_then(|opened| opened.find_event(&name_hash(id.as_str()))))
    }

    /// Returns the inherited event of a fork with that id hash: the session that wrote it, and its
    /// position. Erased sessions have no ids any more.
    pub(crate) fn find_inherited(
        &self,
        session: &Arc<LoadedSession>,
        hash: &[u8; 16],
    ) -> StoreResult<Option<(Arc<LoadedSession>, Position)>> {
        let (mut bound, mut level) = (session.base(), self.sessions.parent_of(session));
        while let Some(writer) = level.filter(|_| bound > Position::ZERO) {
            if writer.base() < bound {
                let found = match self.open_for_forks(&writer)? {
                    None => None,
                    Some(mut state) => {
                        state.opened.as_mut().and_then(|opened| opened.find_event(hash))
                    }
                };
                if let Some(at) = found.filter(|at| *at < bound) {
                    return Ok(Some((writer, at)));
                }
            }
            bound = bound.min(writer.base());
            level = self.sessions.parent_of(&writer);
        }
        Ok(None)
    }

    /// Returns the position from which to search for an instant, and the tail.
    pub(crate) fn search_start(
        &self,
        session: &Arc<LoadedSession>,
        time: Timestamp,
    ) -> StoreResult<(Position, Position)> {
        let tail = Position(self.open_visible(session)?.entry.tail);
        let (mut bound, mut level) = (tail, Some(Arc::clone(session)));
        while let Some(writer) = level {
            let base = writer.base();
            if base < bound {
                let Some(state) = self.open_for_forks(&writer)? else {
                    return Err(Self::prefix_erased_error(session, Range::new(base, bound)));
                };
                let settled = state.opened.iter().flat_map(|opened| &opened.segments);
                let settled = settled.flat_map(|segment| segment.index.iter().copied());
                let memory = state
                    .unflushed
                    .iter()
                    .map(|held| index_entry(0, &held.header, held.first_time));
                let below =
                    |frame: &FrameIndex| frame.first_time < time && frame.first_position < bound;
                if let Some(frame) = settled.chain(memory).take_while(below).last() {
                    return Ok((frame.first_position, tail));
                }
                bound = base;
            }
            level = self.sessions.parent_of(&writer);
        }
        Ok((Position::ZERO, tail))
    }

    /// Returns the parent session and the lineage of a fork at that point.
    pub(crate) fn lineage(
        &self,
        scope: &Scope,
        point: &ForkPoint,
    ) -> StoreResult<(Arc<LoadedSession>, ForkParent)> {
        let key = SessionKey { scope: scope.clone(), session: point.session.clone() };
        let parent = self.sessions.session(&key)?;
        let (tail, incarnation) = {
            let state = parent.lock_visible()?;
            (Position(state.entry.tail), state.entry.incarnation)
        };
        if point.at > tail {
            return Err(StoreError::PositionConflict { expected: point.at, tail });
        }
        let chain = self.chain_at(&parent, point.at)?.0;
        let (parent_id, position) = (point.session.as_str().to_owned(), point.at.0);
        Ok((parent, ForkParent { parent: parent_id, incarnation, position, chain }))
    }

    /// Returns the event chain before a durable position of a session, computed from the frame with
    /// that position in the session that wrote it.
    pub(crate) fn chain_at(
        &self,
        session: &Arc<LoadedSession>,
        at: Position,
    ) -> StoreResult<ChainValue> {
        let mut level = Arc::clone(session);
        while let Some(origin) = level.origin.as_ref().filter(|origin| at <= origin.base) {
            if at == origin.base {
                return Ok(origin.chain);
            }
            let parent = self.sessions.parent_of(&level);
            let erased = || Self::prefix_erased_error(session, Range::new(Position::ZERO, at));
            level = parent.ok_or_else(erased)?;
        }
        if at == Position::ZERO {
            return Ok(ChainValue::start_of_events(level.hash));
        }
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            if let Some(chain) = self.own_chain_at(session, &level, at)? {
                return Ok(chain);
            }
        }
        let source = io::Error::other("its segments were replaced again and again");
        Err(StoreError::Io { doing: "reading a session", source })
    }

    /// Returns the event chain of a fork's parent at the fork's base; `None` if the parent is gone.
    pub(crate) fn parent_chain(&self, session: &LoadedSession) -> StoreResult<Option<ChainValue>> {
        let parent = self.sessions.parent_of(session);
        parent.map(|parent| self.chain_at(&parent, session.base())).transpose()
    }

    /// Returns the event chain before an own position; `None` if its segment was just replaced.
    fn own_chain_at(
        &self,
        asked: &Arc<LoadedSession>,
        session: &Arc<LoadedSession>,
        at: Position,
    ) -> StoreResult<Option<ChainValue>> {
        let (place, unread, segments, cipher) = {
            let Some(mut state) = self.open_for_forks(session)? else {
                return Err(Self::prefix_erased_error(asked, Range::new(session.base(), at)));
            };
            if at == Position(state.entry.tail) {
                return Ok(Some(ChainValue(state.entry.chain)));
            }
            let cipher = self.client_cipher(session, &mut state)?;
            let unread = state.unread_gaps().into_iter().find(|gap| gap.range.contains(at));
            (locate_frame(&state, at), unread, state.entry.segments.clone(), cipher)
        };
        let at_start = |fault| LogError::Fault { byte_offset: 0, fault };
        let found = match place {
            None => Ok(None),
            Some(FrameLocation::Memory(held)) => held.to_frame().chain_before(at).map_err(at_start),
            Some(FrameLocation::File(path, salt, index)) => {
                let cipher = cipher.as_deref();
                run_blocking(|| self.read_chain(session.hash, cipher, (&path, salt, &index), at))
            }
        };
        let (reason, unread) = match found {
            Ok(Some(chain)) => return Ok(Some(chain)),
            Ok(None) => match unread {
                // It may be in an unreadable range.
                Some(gap) => (gap.reason, true),
                None => ("no frame holds it".to_owned(), false),
            },
            Err(LogError::Io(source)) if !concerns_one_file(&source) => {
                return Err(StoreError::Io { doing: "reading a segment", source });
            }
            Err(error) => (error.to_string(), error.is_unreadable()),
        };
        let mut state = session.state();
        if state.entry.segments != segments || state.entry.stage.is_erased() {
            return Ok(None);
        }
        let flaw = UnreadableRange { range: Range::new(at, at.plus(1)), reason, unread };
        let more = self.record_flaws(session, &mut state, vec![flaw]);
        let error = session.damage_error_with(&state, more);
        state.close_unread();
        Err(error)
    }

    fn read_chain(
        &self,
        session: SessionHash,
        cipher: Option<&Cipher>,
        (path, salt, index): (&str, u64, &FrameIndex),
        at: Position,
    ) -> Result<Option<ChainValue>, LogError> {
        let file = self.context.env.storage.open_read(path)?;
        let bytes = read_bytes(&*file, index.byte_offset, index.next_offset())?;
        let wrong = |fault| LogError::Fault { byte_offset: index.byte_offset, fault };
        let frame = decode_frame((session, cipher), salt, index, index.byte_offset, &bytes)
            .map_err(wrong)?;
        frame.chain_before(at).map_err(wrong)
    }

    /// Returns the ancestors of a session, the nearest first, and its direct forks, up to `limit`
    /// of each.
    pub(crate) fn family(&self, session: &Arc<LoadedSession>, limit: usize) -> StoreResult<Family> {
        drop(session.lock_visible()?);
        let mut family = Family::default();
        let mut level = Arc::clone(session);
        while level.origin.is_some() {
            let at = level.base();
            family.depth += 1;
            let Some(parent) = self.sessions.parent_of(&level) else { break };
            if family.ancestors.len() < limit {
                family.ancestors.push(describe_relative(&parent, at));
            }
            level = parent;
        }
        let mut children = self.sessions.forks_of(session.hash);
        children.sort();
        family.forks = children.len() as u64;
        let key = |session| SessionKey { scope: level.key.scope.clone(), session };
        let found = children
            .into_iter()
            .take(limit)
            .map(key)
            .filter_map(|key| self.sessions.session(&key).ok());
        family.children = found.map(|child| describe_relative(&child, child.base())).collect();
        Ok(family)
    }
}

fn describe_relative(session: &LoadedSession, at: Position) -> RelatedSession {
    session.state().entry.describe_relative(&session.key.session, at)
}

/// Location of a frame: in memory or in a file.
enum FrameLocation {
    Memory(Arc<HeldFrame>),
    File(String, u64, FrameIndex),
}

/// Returns the location of the frame with an own event of the session.
fn locate_frame(state: &SessionState, at: Position) -> Option<FrameLocation> {
    let holds = |range: Range| range.contains(at);
    if let Some(held) = state.unflushed.iter().find(|held| holds(held.header.range())) {
        return Some(FrameLocation::Memory(held.clone()));
    }
    let segments = state.opened.as_ref().map_or(&[][..], |opened| &opened.segments);
    segments.iter().find_map(|segment| {
        let before = segment.index.partition_point(|frame| frame.end_position() <= at);
        let index = segment.index.get(before)?;
        let found = holds(Range::new(index.first_position, index.end_position()));
        found.then(|| FrameLocation::File(segment.path.clone(), segment.salt, *index))
    })
}

//! Forks of the model: a fork has copies of its parent's events, and knows who wrote them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{REDACTED, Session, gone};
use sessionlog::{
    event::{Event, Position, Range, Scope, SessionHash, SessionKey},
    store::{Family, ForkPoint, RelatedSession, StoreError, StoreResult, Survival},
};

/// Initial content of a fork.
#[derive(Default)]
pub(super) struct Lent {
    pub(super) events: Vec<Event>,
    pub(super) ancestors: Vec<Ancestor>,
    pub(super) lost: Vec<Range>,
    pub(super) redacted: BTreeSet<Position>,
    pub(super) chains: Vec<[u8; 32]>,
}

/// A session whose events a fork has.
#[derive(Clone)]
pub(super) struct Ancestor {
    pub(super) writer: SessionKey,
    pub(super) hash: SessionHash,
    /// Position where the next session continues from it.
    pub(super) at: Position,
    /// Positions of its events that the fork has.
    pub(super) range: Range,
}

impl Session {
    pub(super) fn base(&self) -> Position {
        self.ancestors.last().map_or(Position::ZERO, |parent| parent.at)
    }

    /// Returns the session that it is a fork of.
    pub(super) fn parent(&self) -> Option<SessionHash> {
        self.ancestors.last().map(|parent| parent.hash)
    }

    /// Returns the session that wrote the event at a position: itself, or an ancestor.
    pub(super) fn writer_of(&self, at: Position) -> SessionKey {
        let found = self.ancestors.iter().find(|one| one.range.contains(at));
        found.map_or(&self.info.key, |one| &one.writer).clone()
    }

    pub(super) fn lost_at(&self, at: Position) -> Option<Range> {
        self.lost.iter().copied().find(|range| range.contains(at))
    }

    /// Returns the events that a caller may see.
    pub(super) fn whole(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| self.lost_at(event.position).is_none())
    }

    /// Returns the content that a fork below a position gets from it.
    pub(super) fn lend(&self, at: Position) -> Lent {
        let clip = |range: Range| Range::new(range.from.min(at), range.to.min(at));
        let own = Ancestor {
            writer: self.info.key.clone(),
            hash: self.hash,
            at,
            range: clip(Range::new(self.base(), self.info.tail)),
        };
        let above =
            self.ancestors.iter().map(|one| Ancestor { range: clip(one.range), ..one.clone() });
        let events = self.events.iter().filter(|event| event.position < at).cloned();
        let lost = self.lost.iter().map(|range| clip(*range)).filter(|range| !range.is_empty());
        Lent {
            events: events.collect(),
            ancestors: above.chain([own]).collect(),
            lost: lost.collect(),
            redacted: self.redacted.range(..at).copied().collect(),
            chains: self.chains.iter().take(at.0 as usize).copied().collect(),
        }
    }
}

/// Returns true if forks of a session may still be read.
pub(super) fn is_needed(sessions: &BTreeMap<SessionKey, Session>, key: &SessionKey) -> bool {
    let reads = |one: &Session| one.ancestors.iter().any(|ancestor| ancestor.writer == *key);
    sessions.values().any(|one| !one.deleted && reads(one))
}

/// Returns the state of a session's content.
pub(super) fn survival(session: &Session) -> Survival {
    match (session.erased, session.deleted, session.expired) {
        (true, ..) => Survival::Erased,
        (_, true, _) => Survival::Deleted,
        (_, _, true) => Survival::Expired,
        _ => Survival::Alive,
    }
}

fn relative(session: &Session, at: Position) -> RelatedSession {
    let survival = survival(session);
    RelatedSession {
        session: session.info.key.session.clone(),
        title: session.info.title.clone().filter(|_| survival == Survival::Alive),
        survival,
        at,
        tail: session.info.tail,
        bytes: session.info.bytes,
    }
}

type Sessions = BTreeMap<SessionKey, Session>;

/// Returns the initial content of a fork at that point.
pub(super) fn lend(sessions: &Sessions, scope: &Scope, point: &ForkPoint) -> StoreResult<Lent> {
    let key = SessionKey { scope: scope.clone(), session: point.session.clone() };
    let session = point.session.clone();
    let unknown = || StoreError::SessionNotFound { session: session.clone() };
    let parent = sessions.get(&key).ok_or_else(unknown)?;
    gone(parent)?;
    let (expected, tail) = (point.at, parent.info.tail);
    if expected > tail {
        return Err(StoreError::PositionConflict { expected, tail });
    }
    let inside = |range: &&Range| range.from < point.at && point.at < range.to;
    if let Some(range) = parent.lost.iter().find(inside) {
        return Err(StoreError::PrefixErased { session, range: *range });
    }
    Ok(parent.lend(point.at))
}

/// Returns the sessions whose events a session has, and those that have its events.
pub(super) fn family(sessions: &Sessions, key: &SessionKey, limit: usize) -> StoreResult<Family> {
    let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
    let session = sessions.get(key).ok_or_else(unknown)?;
    gone(session)?;
    let above = session.ancestors.iter().rev();
    let above = above.filter_map(|one| Some(relative(sessions.get(&one.writer)?, one.at)));
    let is_child = |one: &&Session| one.ancestors.last().is_some_and(|up| up.writer == *key);
    let below = sessions.values().filter(is_child);
    let below = below.filter(|one| !one.deleted || is_needed(sessions, &one.info.key));
    let below: Vec<RelatedSession> = below.map(|one| relative(one, one.base())).collect();
    Ok(Family {
        depth: session.ancestors.len() as u64,
        forks: below.len() as u64,
        ancestors: above.take(limit).collect(),
        children: below.into_iter().take(limit).collect(),
    })
}

impl Ancestor {
    /// Returns true if a fork has the event at that position from it, or any of its events.
    fn lends(&self, writer: &SessionKey, at: Option<Position>) -> bool {
        let has = at.map_or(!self.range.is_empty(), |at| self.range.contains(at));
        self.writer == *writer && has
    }
}

/// Rejects the removal of a session's content, all of it or the event at a position, while a fork
/// that has it is held.
pub(super) fn check_readers(
    sessions: &Sessions,
    writer: &SessionKey,
    at: Option<Position>,
) -> StoreResult<()> {
    let held = sessions.values().find(|one| {
        one.info.held_at.is_some() && one.ancestors.iter().any(|up| up.lends(writer, at))
    });
    held.map_or(Ok(()), |fork| {
        Err(StoreError::SessionHeld { session: fork.info.key.session.clone() })
    })
}

/// Removes the body of a redacted event from the forks that have it.
pub(super) fn spread(sessions: &mut Sessions, key: &SessionKey, at: Position) {
    for fork in sessions.values_mut() {
        let has = fork.ancestors.iter().any(|one| one.lends(key, Some(at)));
        if let Some(event) = fork.events.get_mut(at.0 as usize).filter(|_| has) {
            event.body = Bytes::from_static(REDACTED);
            fork.redacted.insert(at);
        }
    }
}

/// Removes the events of an erased session from its forks.
pub(super) fn lose(sessions: &mut Sessions, key: &SessionKey) {
    for fork in sessions.values_mut() {
        let of_it = fork.ancestors.iter().filter(|one| one.writer == *key);
        let lost: Vec<Range> = of_it.map(|one| one.range).collect();
        fork.lost.extend(lost.into_iter().filter(|range| !range.is_empty()));
    }
}

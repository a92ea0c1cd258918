//! One session in memory: what is durable, what is on its way, and what waits to be flushed. It
//! must not do I/O; `read` opens its files.

pub(super) mod forks;
pub(super) mod names;
pub(super) mod opened;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use tokio::sync::watch;

use self::opened::Opened;
use super::rank;
use crate::{
    env::sync::{Mutex, MutexGuard, atomic::AtomicU64},
    event::{
        Incarnation, Lsn, Position, Range, Scope, SessionHash, SessionId, SessionKey, TenantId,
        Timestamp, UserId,
    },
    log::{Chain, Cipher, Damage, Entry, Frame, FrameHeader, Lineage, Packed},
    store::{
        Gap, Receipt, SessionInfo, StoreError,
        rules::{Ahead, Effect, apply},
    },
};

/// Most waiting frames of a session for which the allocated list is kept between two flushes.
const KEPT_FRAMES: std::ops::RangeInclusive<usize> = 4..=64;

/// A session of the store.
pub(super) struct Session {
    pub(super) key: SessionKey,
    pub(super) hash: SessionHash,
    /// The point it continues from, when it is a fork.
    pub(super) origin: Option<ForkOrigin>,
    state: Mutex<SessionState>,
    tail: watch::Sender<Position>,
    /// The count of changes in which it waits to be handed out as changed; 0 is none.
    pub(super) noted: AtomicU64,
}

/// The point a fork continues from.
pub(super) struct ForkOrigin {
    pub(super) base: Position,
    pub(super) chain: Chain,
    pub(super) hash: SessionHash,
    pub(super) parent: Option<SessionKey>,
    /// The parent as it was found last: a session that was evicted is another object once it is
    /// loaded.
    pub(super) found: Mutex<Weak<Session>>,
}

impl ForkOrigin {
    pub(super) fn from_lineage(scope: &Scope, lineage: &Lineage) -> Self {
        let session = SessionId::new(&lineage.parent).ok();
        let parent = session.map(|session| SessionKey { scope: scope.clone(), session });
        let incarnation = Incarnation(lineage.incarnation);
        let unknown = SessionHash([0; 32]);
        Self {
            base: Position(lineage.position),
            chain: Chain(lineage.chain),
            hash: parent.as_ref().map_or(unknown, |parent| SessionHash::new(parent, incarnation)),
            parent,
            found: Mutex::new(rank::FOUND, Weak::new()),
        }
    }
}

/// Variable state of a session. `entry` is durable; `ahead` is not yet.
pub(super) struct SessionState {
    /// The entry behind the last durable frame; its segments as of the last flush.
    pub(super) entry: Entry,
    /// Its durable part, and the place of that.
    pub(super) durable: Durable,
    /// True if it is in the list of sessions to be flushed.
    pub(super) listed: bool,
    /// Its state behind the queued frames; `None` while none is queued. Boxed: new memory is in the
    /// cache, that of a session not written to for a while is not.
    pub(super) ahead: Option<Box<InFlight>>,
    /// Durable frames that no flushed segment holds. Readers share them; and where many wait,
    /// room for more is made without copying them while writers wait.
    pub(super) unflushed: VecDeque<Arc<HeldFrame>>,
    /// Its files and id tables, once they were opened.
    pub(super) opened: Option<Opened>,
    /// Reason for which its frames were not written to its segment at the last flush.
    pub(super) unwritable: Option<Unwritable>,
    /// Last log sequence number that the journal has of it, once it was given up.
    pub(super) leaves_behind: Option<Lsn>,
    /// Its key, once it was needed.
    pub(super) cipher: Option<Arc<Cipher>>,
}

/// Part of a session that is on disk.
#[derive(Debug)]
pub(super) enum Durable {
    /// Its creation is in flight: only its creator knows of it.
    Creating,
    /// The journal has it; no settled file names it.
    Fresh,
    /// The settled files have its entry.
    Settled,
    /// The settled files have this entry; frames that changed it since wait to be flushed.
    Behind(Box<Entry>),
}

/// A session whose segment takes no writes.
pub(super) struct Unwritable {
    /// Error of the file system.
    pub(super) error: String,
    /// Too many frames wait: it takes no more.
    pub(super) full: bool,
}

/// State of a session behind its queued frames.
pub(super) struct InFlight {
    /// The journal's epoch these frames were queued in: a failure starts another and voids them.
    pub(super) epoch: u64,
    pub(super) end: Ahead,
}

/// A durable frame in memory.
#[derive(Clone)]
pub(super) struct HeldFrame {
    pub(super) header: FrameHeader,
    pub(super) payload: Bytes,
    pub(super) first_time: Timestamp,
}

impl HeldFrame {
    /// The frame as it was written, in plaintext.
    pub(super) fn frame(&self) -> Frame {
        Frame { header: self.header, payload: self.payload.clone() }
    }
}

impl Session {
    pub(super) fn new(
        key: SessionKey,
        hash: SessionHash,
        entry: Entry,
        durable: Durable,
    ) -> Arc<Self> {
        let tail = watch::channel(Position(entry.tail)).0;
        let origin =
            entry.lineage.as_ref().map(|lineage| ForkOrigin::from_lineage(&key.scope, lineage));
        let state = SessionState {
            entry,
            durable,
            listed: false,
            ahead: None,
            unflushed: VecDeque::new(),
            opened: None,
            unwritable: None,
            leaves_behind: None,
            cipher: None,
        };
        let (state, noted) = (Mutex::new(rank::STATE, state), AtomicU64::new(0));
        Arc::new(Self { key, hash, origin, state, tail, noted })
    }

    /// A session that is flushed, as its entry says.
    pub(super) fn settled(key: SessionKey, entry: Entry) -> Arc<Self> {
        let hash = SessionHash::new(&key, Incarnation(entry.incarnation));
        Self::new(key, hash, entry, Durable::Settled)
    }

    /// Its entry, packed, when that is all there is to keep of it.
    pub(super) fn packed(&self) -> Option<Packed> {
        let state = self.state();
        (state.is_evictable() && !self.is_watched())
            .then(|| Packed::from_entry(&state.entry, &state.entry.encode()))
    }

    /// True if a caller waits for new events.
    pub(super) fn is_watched(&self) -> bool {
        self.tail.receiver_count() > 0
    }

    /// The state; the lock is short and never held across an await or a sync.
    #[cfg_attr(debug_assertions, track_caller)]
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// Its first own position: what is below is its parent's.
    pub(super) fn base(&self) -> Position {
        self.origin.as_ref().map_or(Position::ZERO, |origin| origin.base)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Position> {
        self.tail.subscribe()
    }

    /// Makes durable frames visible, at that count of time. Returns whether the session must be
    /// listed for flushing.
    pub(super) fn publish(
        &self,
        frames: impl Iterator<Item = (Frame, Option<Effect>)>,
        counted: Timestamp,
    ) -> bool {
        let mut state = self.state();
        for (frame, effect) in frames {
            match effect {
                None => state.copied(&frame.header),
                Some(effect) => state.publish(frame, &effect, counted),
            }
        }
        let now = Position(state.entry.tail);
        // A watcher looks at the tail first: without one there is nothing to wake. The end of the
        // session wakes watchers, too.
        let gone = !state.entry.stage.is_alive();
        self.tail.send_if_modified(|tail| {
            let moved = std::mem::replace(tail, now) != now;
            (moved || gone) && self.tail.receiver_count() > 0
        });
        state.list()
    }

    /// Tells readers where the tail is.
    pub(super) fn announce(&self, tail: Position) {
        self.tail.send_replace(tail);
    }

    pub(super) fn not_found(&self) -> StoreError {
        StoreError::SessionNotFound { session: self.key.session.clone() }
    }

    /// The session as a reader may know it.
    pub(super) fn visible(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() {
            return Err(self.not_found());
        }
        state.entry.check_visible(&self.key.session)?;
        Ok(state)
    }

    /// The session as a caller may know it that restores or discards it.
    pub(super) fn restorable(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() {
            return Err(self.not_found());
        }
        state.entry.check_restorable(&self.key.session)?;
        Ok(state)
    }

    /// The session while its files are there, deleted or not.
    pub(super) fn kept_whole(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() || state.entry.stage.is_reclaimed() {
            return Err(self.not_found());
        }
        Ok(state)
    }

    /// The session as a fork of it may read it, though other callers may not; `None` once it was
    /// erased.
    pub(super) fn readable_by_forks(&self) -> Option<MutexGuard<'_, SessionState>> {
        Some(self.state()).filter(|state| state.exists() && !state.entry.stage.is_erased())
    }

    pub(super) fn damaged(&self, state: &SessionState) -> StoreError {
        self.damaged_with(state, Vec::new())
    }

    /// [`Self::damaged`], with gaps beside those that are known of it.
    pub(super) fn damaged_with(&self, state: &SessionState, more: Vec<Gap>) -> StoreError {
        let mut missing = state.unread();
        missing.extend(state.unknown(more));
        state.entry.damaged(&self.key.session, missing)
    }

    pub(super) fn info(&self, state: &SessionState) -> SessionInfo {
        SessionInfo { damage: state.gaps(), ..state.entry.info(&self.key) }
    }
}

impl SessionState {
    /// Makes a durable frame a part of the session, at that count of time: live and in a replay.
    pub(super) fn publish(&mut self, frame: Frame, effect: &Effect, counted: Timestamp) {
        let Frame { header, payload } = frame;
        self.keep_flushed();
        apply(&mut self.entry, effect, counted);
        debug_assert_eq!(effect.end_lsn, header.end_lsn(), "an effect ends with its frame");
        if matches!(self.durable, Durable::Creating) && effect.is_creation() {
            self.durable = Durable::Fresh;
        }
        if let Some(opened) = &mut self.opened {
            opened.names.add_frame(header.first_position, effect);
        }
        // Searches by time bisect frames: what is said aside does not run ahead of events.
        let written = Timestamp(self.entry.updated_at);
        let first_time = if effect.aside { written } else { effect.at };
        self.unflushed.push_back(Arc::new(HeldFrame { header, payload, first_time }));
        if self.ahead.as_mut().is_some_and(|ahead| ahead.end.forget(effect)) {
            self.ahead = None;
        }
    }

    /// Notes that it was used at that count of time.
    pub(super) fn use_at(&mut self, counted: Timestamp) {
        for entry in self.entries_mut() {
            if counted > entry.used_at() {
                entry.use_at(counted);
            }
        }
    }

    /// True if a write of it is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.is_in_flight() || !self.exists()
    }

    /// True if its creation is durable.
    pub(super) fn exists(&self) -> bool {
        !matches!(self.durable, Durable::Creating)
    }

    /// Its entry, once its creation is durable.
    pub(super) fn stored(&self) -> Option<&Entry> {
        self.exists().then_some(&self.entry)
    }

    /// Its entry, and the one that the settled files have where that is another.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let settled = match &mut self.durable {
            Durable::Behind(settled) => Some(&mut **settled),
            Durable::Creating | Durable::Fresh | Durable::Settled => None,
        };
        std::iter::once(&mut self.entry).chain(settled)
    }

    /// True if frames of it are queued. A request that queued nothing leaves an end without frames.
    pub(super) fn is_in_flight(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.end.frames > 0)
    }

    /// Forgets frames that were queued before this epoch of the journal: they are void.
    pub(super) fn forget_void(&mut self, epoch: u64) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.epoch != epoch) {
            self.ahead = None;
        }
    }

    /// True if all of it is flushed.
    pub(super) fn is_flushed(&self) -> bool {
        matches!(self.durable, Durable::Settled)
    }

    /// True if its expiry is in flight, in that epoch of the journal.
    pub(super) fn is_ending(&self, epoch: u64) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.end.ends && ahead.epoch == epoch)
    }

    /// Takes away the first frames that wait. A session that is written to all the time keeps the
    /// room for the next.
    pub(super) fn take_flushed(&mut self, frames: usize) -> VecDeque<Arc<HeldFrame>> {
        // A deletion may have dropped frames since.
        let frames = frames.min(self.unflushed.len());
        if KEPT_FRAMES.contains(&frames) {
            return self.unflushed.drain(..frames).collect();
        }
        let rest = self.unflushed.split_off(frames);
        std::mem::replace(&mut self.unflushed, rest)
    }

    /// Bytes of the frames that no segment has yet.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.unflushed.iter().map(|held| held.header.stride()).sum()
    }

    /// Lists it for the next flush; returns whether it was not listed yet.
    pub(super) fn list(&mut self) -> bool {
        !self.unflushed.is_empty() && !std::mem::replace(&mut self.listed, true)
    }

    /// A waiting frame has a copy further on in the journal.
    pub(super) fn copied(&mut self, copy: &FrameHeader) {
        for held in &mut self.unflushed {
            if held.header.first_lsn == copy.first_lsn {
                Arc::make_mut(held).header.copy_lsn = copy.copy_lsn;
            }
        }
    }

    /// Keeps the entry as it was flushed before the first frame that waits changes it.
    pub(super) fn keep_flushed(&mut self) {
        if self.is_flushed() {
            self.durable = Durable::Behind(Box::new(self.entry.clone()));
        }
    }

    pub(super) fn receipt(&self) -> Receipt {
        self.entry.receipt()
    }

    /// Its missing positions: those its entry names, and those the device could not read when
    /// its files were opened.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.entry.gaps();
        gaps.extend(self.unread());
        gaps
    }

    /// Positions that the device could not read when its files were opened and no person gave up.
    pub(super) fn unread(&self) -> Vec<Gap> {
        let unread = self.opened.as_ref().map(|opened| opened.unread.clone());
        self.unknown(unread.unwrap_or_default())
    }

    /// Those of some gaps that its entry does not have.
    pub(super) fn unknown(&self, mut gaps: Vec<Gap>) -> Vec<Gap> {
        let known = self.entry.gaps();
        gaps.retain(|gap| !known.iter().any(|old| old.range.holds(gap.range)));
        gaps
    }

    /// Forgets its files where the device did not give all of them: the next caller asks again.
    pub(super) fn close_unread(&mut self) {
        if self.opened.as_ref().is_some_and(|opened| !opened.unread.is_empty()) {
            self.opened = None;
        }
    }

    /// Its ranges that were given up.
    pub(super) fn given_up(&self) -> Vec<Range> {
        let accepted = self.entry.damage.iter().filter(|old| old.accepted_at.is_some());
        accepted.map(|old| Range::new(Position(old.from), Position(old.to))).collect()
    }

    /// True if it has gaps that no person gave up: its names are not all known.
    pub(super) fn is_degraded(&self) -> bool {
        self.entry.is_degraded() || !self.unread().is_empty()
    }

    /// True if its entry is its whole state: it is flushed, its files are closed, and it is not
    /// being removed.
    fn is_evictable(&self) -> bool {
        let leaves = self.leaves_behind.is_some();
        let waits = self.listed || self.is_in_flight() || !self.unflushed.is_empty() || leaves;
        self.is_flushed() && !waits && self.opened.is_none()
    }

    /// Remembers a damaged range, once; returns whether it is new.
    pub(super) fn damage(&mut self, range: Range, reason: &str) -> bool {
        let before = self.entry.damage.len();
        for entry in self.entries_mut() {
            let known =
                entry.damage.iter().any(|old| old.from <= range.from.0 && range.to.0 <= old.to);
            if !known {
                entry.damage.push(Damage {
                    from: range.from.0,
                    to: range.to.0,
                    reason: reason.to_owned(),
                    accepted_at: None,
                });
                entry.damage.sort();
            }
        }
        self.entry.damage.len() > before
    }

    /// The entry as the settled files may name it; `None` for a session they do not know.
    pub(super) fn settled_entry(&self) -> Option<Entry> {
        match &self.durable {
            Durable::Creating | Durable::Fresh => None,
            Durable::Settled => Some(self.entry.clone()),
            Durable::Behind(settled) => Some((**settled).clone()),
        }
    }

    /// The entry, and the end that the next frame goes behind; void frames of an earlier epoch are
    /// forgotten.
    pub(super) fn end(&mut self, epoch: u64) -> (&Entry, &mut Ahead) {
        self.forget_void(epoch);
        let entry = &self.entry;
        let begin = || Box::new(InFlight { epoch, end: Ahead::from_entry(entry) });
        (entry, &mut self.ahead.get_or_insert_with(begin).end)
    }
}

/// The hash of the session that an entry is of.
pub(super) fn hash_of(entry: &Entry) -> Option<SessionHash> {
    let (tenant, user) = (TenantId::new(&entry.tenant).ok()?, UserId::new(&entry.user).ok()?);
    let session = SessionId::new(&entry.session).ok()?;
    let key = SessionKey { scope: Scope { tenant, user }, session };
    Some(SessionHash::new(&key, Incarnation(entry.incarnation)))
}

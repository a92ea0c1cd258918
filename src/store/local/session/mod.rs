//! One session in memory: its durable state, frames in flight, and unflushed frames. It must not do
//! I/O; `read` opens its files.

pub(super) mod forks;
pub(super) mod names;
pub(super) mod opened;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use tokio::sync::watch;

use self::opened::OpenedSession;
use super::rank;
use crate::{
    env::sync::{Mutex, MutexGuard, atomic::AtomicU64},
    event::{
        Incarnation, Lsn, Position, Range, Scope, SessionHash, SessionId, SessionKey, Timestamp,
    },
    log::{ChainValue, Cipher, Entry, ForkParent, Frame, FrameHeader, LostRange, PackedEntry},
    store::{
        ChainReceipt, SessionGap, SessionInfo, StoreError,
        rules::{FrameEffect, PendingEnd, apply},
    },
};

/// Numbers of unflushed frames for which the allocated list is kept after a flush.
const KEPT_FRAMES: std::ops::RangeInclusive<usize> = 4..=64;

/// Session of the store.
pub(super) struct LoadedSession {
    pub(super) key: SessionKey,
    pub(super) hash: SessionHash,
    /// Point it continues from, if it is a fork.
    pub(super) origin: Option<ForkOrigin>,
    state: Mutex<SessionState>,
    tail: watch::Sender<Position>,
    /// Number of the count of changes in which it is queued as changed; 0 if it is not queued.
    pub(super) noted: AtomicU64,
}

/// Point that a fork continues from.
pub(super) struct ForkOrigin {
    pub(super) base: Position,
    pub(super) chain: ChainValue,
    pub(super) hash: SessionHash,
    pub(super) parent: Option<SessionKey>,
    /// Cached parent; a weak reference, since an evicted session is another object once it is
    /// loaded again.
    pub(super) found: Mutex<Weak<LoadedSession>>,
}

impl ForkOrigin {
    pub(super) fn from_lineage(scope: &Scope, lineage: &ForkParent) -> Self {
        let session = SessionId::new(&lineage.parent).ok();
        let parent = session.map(|session| SessionKey { scope: scope.clone(), session });
        let incarnation = Incarnation(lineage.incarnation);
        let unknown = SessionHash([0; 32]);
        Self {
            base: Position(lineage.position),
            chain: ChainValue(lineage.chain),
            hash: parent.as_ref().map_or(unknown, |parent| SessionHash::new(parent, incarnation)),
            parent,
            found: Mutex::new(rank::FOUND, Weak::new()),
        }
    }
}

/// Mutable state of a session. `entry` is durable; `ahead` is not yet.
pub(super) struct SessionState {
    /// Entry after the last durable frame; its segments as of the last flush.
    pub(super) entry: Entry,
    /// State of its entry on disk.
    pub(super) durable: EntryState,
    /// True if it is in the list of sessions to be flushed.
    pub(super) listed: bool,
    /// State after the queued frames; `None` while none is queued. Boxed: newly allocated memory is
    /// in the CPU cache, that of an idle session is not.
    pub(super) ahead: Option<Box<QueuedState>>,
    /// Durable frames that no flushed segment holds. Shared with readers, and cheap to move when
    /// the list grows while writers wait.
    pub(super) unflushed: VecDeque<Arc<HeldFrame>>,
    /// Its files and id tables while they are open.
    pub(super) opened: Option<OpenedSession>,
    /// Reason why the last flush could not write its frames to its segment.
    pub(super) unwritable: Option<WriteFailure>,
    /// Log sequence number from which the journal has no frame of it; set while it is removed.
    pub(super) leaves_behind: Option<Lsn>,
    /// Cipher of its key, once it was needed.
    pub(super) cipher: Option<Arc<Cipher>>,
}

/// State of a session's entry on disk.
#[derive(Debug)]
pub(super) enum EntryState {
    /// The creation is in flight: only its creator can use the session.
    Creating,
    /// The creation is durable in the journal; no settled file has its entry.
    Fresh,
    /// The settled files have its entry.
    Settled,
    /// The settled files have this entry; frames that changed it since are unflushed.
    Behind(Box<Entry>),
}

/// State of a session whose segment cannot be written.
pub(super) struct WriteFailure {
    /// Error of the file system.
    pub(super) error: String,
    /// True if too many frames are unflushed: the session rejects appends.
    pub(super) full: bool,
}

/// State of a session after its queued frames.
pub(super) struct QueuedState {
    /// Epoch of the journal when these frames were queued: a failure starts another, voiding them.
    pub(super) epoch: u64,
    pub(super) end: PendingEnd,
}

/// Durable frame in memory.
#[derive(Clone)]
pub(super) struct HeldFrame {
    pub(super) header: FrameHeader,
    pub(super) payload: Bytes,
    pub(super) first_time: Timestamp,
}

impl HeldFrame {
    /// Returns the frame as it was written, in plaintext.
    pub(super) fn to_frame(&self) -> Frame {
        Frame { header: self.header, payload: self.payload.clone() }
    }
}

impl LoadedSession {
    pub(super) fn new(
        key: SessionKey,
        hash: SessionHash,
        entry: Entry,
        durable: EntryState,
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

    /// Creates a flushed session from its entry.
    pub(super) fn from_entry(key: SessionKey, entry: Entry) -> Arc<Self> {
        let hash = SessionHash::new(&key, Incarnation(entry.incarnation));
        Self::new(key, hash, entry, EntryState::Settled)
    }

    /// Returns its packed entry, if nothing else of it must stay in memory.
    pub(super) fn try_pack(&self) -> Option<PackedEntry> {
        let state = self.state();
        (state.is_evictable() && !self.is_watched())
            .then(|| PackedEntry::from_entry(&state.entry, &state.entry.encode()))
    }

    /// Returns true if a caller waits for new events.
    pub(super) fn is_watched(&self) -> bool {
        self.tail.receiver_count() > 0
    }

    /// Locks the state; the lock is held briefly and never across an await or a sync.
    #[cfg_attr(debug_assertions, track_caller)]
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// Returns its first own position; lower ones are its parent's.
    pub(super) fn base(&self) -> Position {
        self.origin.as_ref().map_or(Position::ZERO, |origin| origin.base)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Position> {
        self.tail.subscribe()
    }

    /// Makes durable frames visible, at the count of time `counted`. Returns whether the session
    /// must be listed for flushing.
    pub(super) fn publish(
        &self,
        frames: impl Iterator<Item = (Frame, Option<FrameEffect>)>,
        counted: Timestamp,
    ) -> bool {
        let mut state = self.state();
        for (frame, effect) in frames {
            match effect {
                None => state.record_copy(&frame.header),
                Some(effect) => state.publish(frame, &effect, counted),
            }
        }
        let now = Position(state.entry.tail);
        // A new watcher reads the tail first, so only existing ones are woken; also when the
        // session ends.
        let gone = !state.entry.stage.is_alive();
        self.tail.send_if_modified(|tail| {
            let moved = std::mem::replace(tail, now) != now;
            (moved || gone) && self.tail.receiver_count() > 0
        });
        state.mark_listed()
    }

    /// Notifies readers of the tail.
    pub(super) fn announce_tail(&self, tail: Position) {
        self.tail.send_replace(tail);
    }

    pub(super) fn not_found_error(&self) -> StoreError {
        StoreError::SessionNotFound { session: self.key.session.clone() }
    }

    /// Locks the state of a session that is visible to readers.
    pub(super) fn lock_visible(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() {
            return Err(self.not_found_error());
        }
        state.entry.check_visible(&self.key.session)?;
        Ok(state)
    }

    /// Locks the state of a session that can be restored or discarded.
    pub(super) fn lock_restorable(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() {
            return Err(self.not_found_error());
        }
        state.entry.check_restorable(&self.key.session)?;
        Ok(state)
    }

    /// Locks the state of a session whose files exist, deleted or not.
    pub(super) fn lock_existing(&self) -> Result<MutexGuard<'_, SessionState>, StoreError> {
        let state = self.state();
        if !state.exists() || state.entry.stage.is_reclaimed() {
            return Err(self.not_found_error());
        }
        Ok(state)
    }

    /// Locks the state of a session for its forks, even if it is deleted; returns `None` once it
    /// was erased.
    pub(super) fn lock_for_forks(&self) -> Option<MutexGuard<'_, SessionState>> {
        Some(self.state()).filter(|state| state.exists() && !state.entry.stage.is_erased())
    }

    pub(super) fn damage_error(&self, state: &SessionState) -> StoreError {
        self.damage_error_with(state, Vec::new())
    }

    /// Returns [`Self::damage_error`] with gaps in addition to the known ones.
    pub(super) fn damage_error_with(
        &self,
        state: &SessionState,
        more: Vec<SessionGap>,
    ) -> StoreError {
        let mut missing = state.unread_gaps();
        missing.extend(state.gaps_not_in_entry(more));
        state.entry.damage_error(&self.key.session, missing)
    }

    pub(super) fn info(&self, state: &SessionState) -> SessionInfo {
        SessionInfo { damage: state.gaps(), ..state.entry.info(&self.key) }
    }
}

impl SessionState {
    /// Applies a durable frame to the session, at the count of time `counted`; also in a replay.
    pub(super) fn publish(&mut self, frame: Frame, effect: &FrameEffect, counted: Timestamp) {
        let Frame { header, payload } = frame;
        self.keep_flushed_entry();
        apply(&mut self.entry, effect, counted);
        debug_assert_eq!(effect.end_lsn, header.end_lsn(), "an effect ends with its frame");
        if matches!(self.durable, EntryState::Creating) && effect.is_creation() {
            self.durable = EntryState::Fresh;
        }
        if let Some(opened) = &mut self.opened {
            opened.names.add_frame(header.first_position, effect);
        }
        // Searches by time bisect frames: notes and leases must not have later times than events.
        let written = Timestamp(self.entry.updated_at);
        let first_time = if effect.aside { written } else { effect.at };
        self.unflushed.push_back(Arc::new(HeldFrame { header, payload, first_time }));
        if self.ahead.as_mut().is_some_and(|ahead| ahead.end.remove_frame(effect)) {
            self.ahead = None;
        }
    }

    /// Records its use at the count of time `counted`.
    pub(super) fn record_use(&mut self, counted: Timestamp) {
        for entry in self.entries_mut() {
            if counted > entry.used_at() {
                entry.record_use(counted);
            }
        }
    }

    /// Returns true if a write to it is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.is_in_flight() || !self.exists()
    }

    /// Returns true if its creation is durable.
    pub(super) fn exists(&self) -> bool {
        !matches!(self.durable, EntryState::Creating)
    }

    /// Returns its entry, once its creation is durable.
    pub(super) fn stored_entry(&self) -> Option<&Entry> {
        self.exists().then_some(&self.entry)
    }

    /// Returns its entry, and the entry in the settled files if that differs.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let settled = match &mut self.durable {
            EntryState::Behind(settled) => Some(&mut **settled),
            EntryState::Creating | EntryState::Fresh | EntryState::Settled => None,
        };
        std::iter::once(&mut self.entry).chain(settled)
    }

    /// Returns true if frames are queued. A request that queued none leaves `ahead` without frames.
    pub(super) fn is_in_flight(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.end.frames > 0)
    }

    /// Drops the state after frames of an earlier epoch of the journal: they are void.
    pub(super) fn drop_void_frames(&mut self, epoch: u64) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.epoch != epoch) {
            self.ahead = None;
        }
    }

    pub(super) fn is_flushed(&self) -> bool {
        matches!(self.durable, EntryState::Settled)
    }

    /// Returns true if its expiry is in flight, in this epoch of the journal.
    pub(super) fn is_ending(&self, epoch: u64) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.end.ends && ahead.epoch == epoch)
    }

    /// Removes and returns the first unflushed frames. A session with steady writes keeps the
    /// allocated list.
    pub(super) fn take_flushed(&mut self, frames: usize) -> VecDeque<Arc<HeldFrame>> {
        // A deletion may have dropped frames since.
        let frames = frames.min(self.unflushed.len());
        if KEPT_FRAMES.contains(&frames) {
            return self.unflushed.drain(..frames).collect();
        }
        let rest = self.unflushed.split_off(frames);
        std::mem::replace(&mut self.unflushed, rest)
    }

    /// Returns the number of bytes of its unflushed frames.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.unflushed.iter().map(|held| held.header.stride()).sum()
    }

    /// Marks it as listed for the next flush; returns whether the caller must list it.
    pub(super) fn mark_listed(&mut self) -> bool {
        !self.unflushed.is_empty() && !std::mem::replace(&mut self.listed, true)
    }

    /// Records that an unflushed frame was copied forward in the journal.
    pub(super) fn record_copy(&mut self, copy: &FrameHeader) {
        for held in &mut self.unflushed {
            if held.header.first_lsn == copy.first_lsn {
                Arc::make_mut(held).header.copy_lsn = copy.copy_lsn;
            }
        }
    }

    /// Keeps the flushed entry before the first unflushed frame changes it.
    pub(super) fn keep_flushed_entry(&mut self) {
        if self.is_flushed() {
            self.durable = EntryState::Behind(Box::new(self.entry.clone()));
        }
    }

    pub(super) fn receipt(&self) -> ChainReceipt {
        self.entry.receipt()
    }

    /// Returns its missing positions: those in its entry, and those that were unreadable when its
    /// files were opened.
    pub(super) fn gaps(&self) -> Vec<SessionGap> {
        let mut gaps = self.entry.gaps();
        gaps.extend(self.unread_gaps());
        gaps
    }

    /// Returns positions that were unreadable when its files were opened and are not in its entry.
    pub(super) fn unread_gaps(&self) -> Vec<SessionGap> {
        let unread = self.opened.as_ref().map(|opened| opened.unread.clone());
        self.gaps_not_in_entry(unread.unwrap_or_default())
    }

    /// Returns those of the given gaps that its entry does not have.
    pub(super) fn gaps_not_in_entry(&self, mut gaps: Vec<SessionGap>) -> Vec<SessionGap> {
        let known = self.entry.gaps();
        gaps.retain(|gap| !known.iter().any(|old| old.range.contains_range(gap.range)));
        gaps
    }

    /// Closes its files if some were unreadable, so that the next caller reads them again.
    pub(super) fn close_unread(&mut self) {
        if self.opened.as_ref().is_some_and(|opened| !opened.unread.is_empty()) {
            self.opened = None;
        }
    }

    pub(super) fn accepted_losses(&self) -> Vec<Range> {
        let accepted = self.entry.damage.iter().filter(|old| old.accepted_at.is_some());
        accepted.map(|old| Range::new(Position(old.from), Position(old.to))).collect()
    }

    /// Returns true if it has gaps that no operator accepted: some of its ids may be unknown.
    pub(super) fn is_degraded(&self) -> bool {
        self.entry.is_degraded() || !self.unread_gaps().is_empty()
    }

    /// Returns true if its entry is its whole state: it is flushed, its files are closed, and it is
    /// not being removed.
    fn is_evictable(&self) -> bool {
        let leaves = self.leaves_behind.is_some();
        let waits = self.listed || self.is_in_flight() || !self.unflushed.is_empty() || leaves;
        self.is_flushed() && !waits && self.opened.is_none()
    }

    /// Records a damaged range, once; returns whether it is new.
    pub(super) fn add_damage(&mut self, range: Range, reason: &str) -> bool {
        let before = self.entry.damage.len();
        for entry in self.entries_mut() {
            let known =
                entry.damage.iter().any(|old| old.from <= range.from.0 && range.to.0 <= old.to);
            if !known {
                entry.damage.push(LostRange {
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

    /// Returns the entry for the settled files; `None` if they must not have the session yet.
    pub(super) fn flushed_entry(&self) -> Option<Entry> {
        match &self.durable {
            EntryState::Creating | EntryState::Fresh => None,
            EntryState::Settled => Some(self.entry.clone()),
            EntryState::Behind(settled) => Some((**settled).clone()),
        }
    }

    /// Returns the entry, and the state after which the next frame is queued; drops void frames of
    /// an earlier epoch.
    pub(super) fn queue_end(&mut self, epoch: u64) -> (&Entry, &mut PendingEnd) {
        self.drop_void_frames(epoch);
        let entry = &self.entry;
        let begin = || Box::new(QueuedState { epoch, end: PendingEnd::from_entry(entry) });
        (entry, &mut self.ahead.get_or_insert_with(begin).end)
    }
}

/// Returns the hash of an entry's session; `None` if an id is invalid.
pub(super) fn hash_of(entry: &Entry) -> Option<SessionHash> {
    Some(SessionHash::new(&entry.session_key()?, Incarnation(entry.incarnation)))
}

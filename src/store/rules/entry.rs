//! The entry of a session: its initial state, the effect of each control record, its last use, and
//! its description for callers. It must not decide whether a record is valid.

use crate::{
    event::{
        Fence, Incarnation, Lsn, Note, Position, Range, Scope, SessionHash, SessionId, SessionKey,
        TenantId, Timestamp, UserId, WORKSPACE_MOVED,
    },
    log::{
        AcceptedLoss, ChainValue, ChangeRecord, Control, CreateRecord, EndReason, Entry,
        ForkParent, LifeStage, LostRange, Record, Redaction, WorkSummary,
    },
    store::{
        self, ChainReceipt, ChangedSession, ForkPoint, RelatedSession, SessionGap, SessionInfo,
        StoreError, StoreResult, Survival,
    },
};

const SECOND_MICROS: i64 = 1_000_000;

impl Entry {
    /// Creates the entry of a session of which nothing is durable yet.
    pub(crate) fn from_create(create: &CreateRecord, hash: SessionHash, now: Timestamp) -> Self {
        let (tail, chain) = create.start_point(hash);
        Self {
            tenant: create.tenant.clone(),
            user: create.user.clone(),
            session: create.session.clone(),
            incarnation: create.incarnation,
            title: create.title.clone(),
            metadata: create.metadata.clone(),
            workspace: create.workspace.clone(),
            ttl_seconds: create.ttl_seconds,
            create_key: create.key.clone(),
            created_at: now.0,
            updated_at: now.0,
            archived_at: None,
            held_at: None,
            stage: LifeStage::Alive,
            used_after: 0,
            tail: tail.0,
            end_lsn: 0,
            chain: chain.0,
            control_chain: ChainValue::start_of_controls(hash).0,
            bytes: 0,
            segments: Vec::new(),
            damage: Vec::new(),
            key: 0,
            redacted: Vec::new(),
            work: WorkSummary::default(),
            lineage: create.lineage.clone(),
        }
    }

    /// Applies a control record with that number, written at `at`.
    pub(crate) fn apply_control(&mut self, lsn: Lsn, control: &Control, at: Timestamp) {
        match control {
            Control::Change(change) => self.apply_change(change, at),
            Control::Loss(loss) => self.accept_loss(loss, at),
            Control::Erase(_) => self.apply_erasure(at),
            Control::Redact(redact) => self.mark_redacted(Position(redact.position)),
            Control::Note(note) => self.work.record_note(lsn.0, note),
            Control::Lease(lease) => self.work.record_lease(*lease),
            Control::Create(_) | Control::Batch(_) | Control::Unknown(_) => {}
        }
    }

    fn apply_change(&mut self, change: &ChangeRecord, at: Timestamp) {
        if let Some(title) = &change.title {
            self.title.clone_from(title);
        }
        for (name, value) in &change.metadata {
            match value {
                Some(value) => self.metadata.insert(name.clone(), value.clone()),
                None => self.metadata.remove(name),
            };
        }
        if let Some(Some(name)) = change.metadata.get(WORKSPACE_MOVED) {
            self.workspace = Some(name.clone());
        }
        match change.archive {
            Some(true) => drop(self.archived_at.get_or_insert(at.0)),
            Some(false) => self.archived_at = None,
            None => {}
        }
        match (change.delete, change.life.expire) {
            (true, true) => self.stage.mark_ended(EndReason::Deleted, at.0),
            (true, false) => self.stage.mark_ended(EndReason::Discarded, at.0),
            (false, true) if self.stage.is_alive() => {
                self.stage.mark_ended(EndReason::Expired, at.0)
            }
            (false, _) => {}
        }
        match change.life.hold {
            Some(true) => drop(self.held_at.get_or_insert(at.0)),
            Some(false) => self.held_at = None,
            None => {}
        }
        if change.life.restore && !self.stage.is_erased() {
            self.stage = LifeStage::Alive;
        }
    }

    /// Marks ranges whose loss an operator accepted: they stay lost.
    fn accept_loss(&mut self, loss: &AcceptedLoss, at: Timestamp) {
        for (from, to, reason) in &loss.places {
            self.damage.retain(|old| old.accepted_at.is_some() || old.from < *from || *to < old.to);
            let (accepted_at, reason) = (Some(at.0), reason.clone());
            self.damage.push(LostRange { from: *from, to: *to, reason, accepted_at });
        }
        self.damage.sort();
        self.damage.dedup_by(|later, old| (later.from, later.to) == (old.from, old.to));
    }

    /// Keeps the fields of a tombstone and clears the rest.
    fn apply_erasure(&mut self, at: Timestamp) {
        self.stage.mark_ended(EndReason::Erased { unfinished: true }, at.0);
        self.title = None;
        self.metadata.clear();
        self.workspace = None;
        self.create_key = None;
        self.redacted.clear();
        self.damage.clear();
        self.bytes = 0;
    }

    /// Marks the event at a position as redacted.
    pub(crate) fn mark_redacted(&mut self, position: Position) {
        let found = self.redacted.binary_search_by_key(&position.0, |one| one.position);
        if let Err(at) = found {
            self.redacted.insert(at, Redaction { position: position.0, cleared: false });
        }
    }

    /// Returns true if a file may still have the body of a redacted event.
    pub(crate) fn has_pending_redaction(&self) -> bool {
        self.redacted.iter().any(|one| !one.cleared)
    }

    /// Returns the number of removals of its own content; an erasure is the last.
    pub(crate) fn removal_count(&self) -> u64 {
        if self.stage.is_erased() { u64::MAX } else { self.redacted.len() as u64 }
    }

    /// Returns when the session was last used, by the store's count of time.
    pub(crate) fn used_at(&self) -> Timestamp {
        Timestamp(self.updated_at).plus_micros(self.used_after.saturating_mul(SECOND_MICROS))
    }

    /// Records a use of the session, rounded up to seconds, so that nothing expires early.
    pub(crate) fn record_use(&mut self, at: Timestamp) {
        let after = at.0.saturating_sub(self.updated_at);
        self.used_after = after.saturating_add(SECOND_MICROS - 1).div_euclid(SECOND_MICROS);
    }

    /// Checks that the session is visible to readers.
    ///
    /// # Errors
    /// [`StoreError::SessionDeleted`], [`StoreError::SessionExpired`].
    pub(crate) fn check_visible(&self, session: &SessionId) -> StoreResult<()> {
        let session = session.clone();
        match self.stage.end().map(|end| end.how) {
            None => Ok(()),
            Some(EndReason::Expired) => Err(StoreError::SessionExpired { session }),
            Some(how) => {
                let restorable = how == EndReason::Deleted;
                Err(StoreError::SessionDeleted { session, restorable })
            }
        }
    }

    /// Checks that the session is visible to a caller who restores or discards it.
    ///
    /// # Errors
    /// Errors of [`Self::check_visible`].
    pub(crate) fn check_restorable(&self, session: &SessionId) -> StoreResult<()> {
        if self.stage.is_restorable() { Ok(()) } else { self.check_visible(session) }
    }

    /// Returns true if events may be appended to it, according to its entry.
    fn is_open(&self) -> bool {
        self.stage.is_alive() && self.archived_at.is_none() && !self.is_degraded()
    }

    /// Returns true if a caller began work on it in that workspace and did not finish it.
    pub(crate) fn is_unfinished(&self, workspace: Option<&str>) -> bool {
        let asked = workspace.is_none_or(|name| self.workspace.as_deref() == Some(name));
        asked && self.is_open() && to_work(&self.work).is_unfinished()
    }

    /// Returns true if it has events after its last checkpoint and was written to since then.
    pub(crate) fn has_events_to_mark(&self, since: Timestamp) -> bool {
        let marked = self.work.checkpoint.map_or(0, |mark| mark.position);
        self.tail > marked && self.updated_at >= since.0 && self.is_open()
    }

    /// Returns the error of a damaged session; `more` is missing in addition to the entry's gaps.
    pub(crate) fn damage_error(&self, session: &SessionId, more: Vec<SessionGap>) -> StoreError {
        let mut gaps = self.gaps();
        gaps.extend(more);
        gaps.sort_by_key(|gap| gap.range.from);
        StoreError::SessionDamaged { session: session.clone(), gaps, tail: Position(self.tail) }
    }

    /// Returns the position and chain value after the last durable event.
    pub(crate) fn receipt(&self) -> ChainReceipt {
        ChainReceipt { position: Position(self.tail), chain: self.chain }
    }

    /// Returns its damaged ranges.
    pub(crate) fn gaps(&self) -> Vec<SessionGap> {
        let gap = |damage: &LostRange| SessionGap {
            range: Range::new(Position(damage.from), Position(damage.to)),
            reason: damage.reason.clone(),
            accepted_at: damage.accepted_at.map(Timestamp),
        };
        self.damage.iter().map(gap).collect()
    }

    /// Returns the description of the session.
    pub(crate) fn info(&self, key: &SessionKey) -> SessionInfo {
        SessionInfo {
            key: key.clone(),
            title: self.title.clone(),
            metadata: self.metadata.clone(),
            workspace: self.workspace.clone(),
            ttl_seconds: self.ttl_seconds,
            created_at: Timestamp(self.created_at),
            updated_at: Timestamp(self.updated_at),
            archived_at: self.archived_at.map(Timestamp),
            held_at: self.held_at.map(Timestamp),
            used_at: self.used_at(),
            tail: Position(self.tail),
            receipt: self.receipt(),
            bytes: self.bytes,
            rewritten: self.removal_count(),
            damage: self.gaps(),
            forked_from: self.lineage.as_ref().and_then(fork_point),
            work: to_work(&self.work),
        }
    }

    /// Returns the key of the session; `None` if one of its ids is invalid.
    pub(crate) fn session_key(&self) -> Option<SessionKey> {
        let (tenant, user) = (TenantId::new(&self.tenant).ok()?, UserId::new(&self.user).ok()?);
        let session = SessionId::new(&self.session).ok()?;
        Some(SessionKey { scope: Scope { tenant, user }, session })
    }

    /// Returns the session that it is a fork of, and the hash of that one; `None` for another
    /// session, and if the id of the parent is invalid.
    pub(crate) fn parent(&self, scope: &Scope) -> Option<(SessionKey, SessionHash)> {
        let lineage = self.lineage.as_ref()?;
        let session = SessionId::new(&lineage.parent).ok()?;
        let key = SessionKey { scope: scope.clone(), session };
        let hash = SessionHash::new(&key, Incarnation(lineage.incarnation));
        Some((key, hash))
    }

    /// Returns the first position that the session wrote itself: lower ones are its parent's.
    pub(crate) fn base(&self) -> Position {
        self.lineage.as_ref().map_or(Position::ZERO, |lineage| Position(lineage.position))
    }

    /// Returns whether the session is alive, expired, deleted or erased.
    pub(crate) fn survival(&self) -> Survival {
        match self.stage.end().map(|end| end.how) {
            None => Survival::Alive,
            Some(EndReason::Erased { .. }) => Survival::Erased,
            Some(EndReason::Deleted | EndReason::Discarded) => Survival::Deleted,
            Some(EndReason::Expired) => Survival::Expired,
        }
    }

    /// Describes the session for a caller of a related one that forks at `at`; includes its title
    /// only while it is alive.
    pub(crate) fn describe_relative(&self, session: &SessionId, at: Position) -> RelatedSession {
        let survival = self.survival();
        RelatedSession {
            session: session.clone(),
            title: self.title.clone().filter(|_| survival == Survival::Alive),
            survival,
            at,
            tail: Position(self.tail),
            bytes: self.bytes,
        }
    }

    /// Describes the session for a follower of changes.
    pub(crate) fn changed_session(&self, key: SessionKey, hash: SessionHash) -> ChangedSession {
        let parent = self.parent(&key.scope);
        let unknown = SessionHash([0; 32]);
        ChangedSession {
            hash,
            base: self.base(),
            parent: self.lineage.is_some().then(|| parent.map_or(unknown, |(_, hash)| hash)),
            tail: Position(self.tail),
            created_at: Timestamp(self.created_at),
            rewritten: self.removal_count(),
            workspace: self.workspace.clone(),
            is_archived: self.archived_at.is_some(),
            survival: self.survival(),
            is_damaged: self.is_degraded(),
            key,
        }
    }
}

/// Returns the note of a control record with that number; `None` for any other record.
pub(crate) fn parse_note(lsn: Lsn, record: &Record) -> Option<Note> {
    let Some(Control::Note(note)) = record.to_control() else { return None };
    Some(Note {
        number: lsn,
        kind: note.kind()?,
        name: note.name,
        position: Position(note.position),
        at: record.processed_at(),
        body: note.body.into(),
    })
}

/// Returns the point at which a fork was made.
fn fork_point(lineage: &ForkParent) -> Option<ForkPoint> {
    let session = SessionId::new(&lineage.parent).ok()?;
    Some(ForkPoint { session, at: Position(lineage.position) })
}

/// Returns the state of the work on a session.
pub(crate) fn to_work(work: &WorkSummary) -> store::WorkState {
    store::WorkState {
        fence: Fence(work.fence),
        until: work.until.map(Timestamp),
        key: work.key,
        notes: work.notes,
        checkpoint: work.checkpoint.map(|mark| store::LastCheckpoint {
            number: Lsn(mark.lsn),
            position: Position(mark.position),
            open: mark.open,
        }),
    }
}

/// Returns true if the event at a position is redacted; `redacted` is sorted.
pub(crate) fn is_redacted(redacted: &[Redaction], position: Position) -> bool {
    redacted.binary_search_by_key(&position.0, |one| one.position).is_ok()
}

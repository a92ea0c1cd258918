//! The row of a session as an entry, and back. It must not decide anything about the session.

use std::{io, sync::Arc};

use bytes::Bytes;

use crate::{
    event::{
        Incarnation, Lsn, Position, Range, Scope, SessionHash, SessionId, SessionKey, TenantId,
        Timestamp, short_hash,
    },
    log::{ChainValue, EndReason, Entry, WorkSummary, keyring::NameKey},
    store::{
        SessionGap, SessionInfo, StoreError, StoreResult,
        base::{Hash16, RowStage, SessionRow},
    },
};

/// Returns the keyed hash of content: without the key no guess of the content can be tested.
pub(super) fn keyed_name(names: &NameKey, content: &[u8]) -> Hash16 {
    first_half(names.hash(content))
}

/// Returns the name of a session in a base.
pub(super) fn session_name(names: &NameKey, key: &SessionKey) -> Hash16 {
    let SessionKey { scope, session } = key;
    let texts = [scope.tenant.as_str(), scope.user.as_str(), session.as_str()];
    keyed_name(names, &short_hash("sessionlog v1 base session", &texts))
}

pub(super) fn scope_name(names: &NameKey, scope: &Scope) -> Hash16 {
    let texts = [scope.tenant.as_str(), scope.user.as_str()];
    keyed_name(names, &short_hash("sessionlog v1 base scope", &texts))
}

pub(super) fn tenant_name(names: &NameKey, tenant: &TenantId) -> Hash16 {
    keyed_name(names, &short_hash("sessionlog v1 base tenant", &[tenant.as_str()]))
}

pub(super) fn workspace_name(names: &NameKey, workspace: &str) -> Hash16 {
    keyed_name(names, &short_hash("sessionlog v1 base workspace", &[workspace]))
}

/// Returns the first half of a session hash.
pub(super) fn uid_of(hash: SessionHash) -> Hash16 {
    first_half(hash.0)
}

fn first_half(hash: [u8; 32]) -> Hash16 {
    let mut half = [0; 16];
    half.iter_mut().zip(hash).for_each(|(half, byte)| *half = byte);
    half
}

/// A session as its row has it.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) key: SessionKey,
    pub(super) hash: SessionHash,
    pub(super) row: SessionRow,
    pub(super) entry: Entry,
    /// Sessions that a fork reads from, the nearest first.
    pub(super) ancestors: Arc<[Ancestor]>,
    /// Sequence number from before the row was read or changed: see `Node::next_sequence`.
    pub(super) checked: u64,
}

/// A session that a fork reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ancestor {
    pub(super) key: SessionKey,
    pub(super) hash: SessionHash,
    /// Positions of its own events that the fork has.
    pub(super) range: Range,
    /// Event chain at its base, if it is a fork itself.
    pub(super) origin: Option<ChainValue>,
}

/// A row that cannot be decoded.
#[derive(Debug)]
pub(super) struct DamagedRow {
    pub(super) tail: Position,
    pub(super) reason: String,
}

impl DamagedRow {
    /// Returns the error of its session.
    pub(super) fn error(&self, session: &SessionId) -> StoreError {
        let range = Range::new(Position::ZERO, self.tail);
        let gap = SessionGap { range, reason: self.reason.clone(), accepted_at: None };
        StoreError::SessionDamaged { session: session.clone(), gaps: vec![gap], tail: self.tail }
    }
}

impl Head {
    /// Decodes a row, and checks that it is of the session that it is stored as.
    pub(super) fn from_row(names: &NameKey, row: SessionRow, checked: u64) -> StoreResult<Self> {
        let mut entry = Entry::decode(&row.entry).ok_or_else(|| damage("entry"))?;
        entry.work = WorkSummary::decode(&row.work).ok_or_else(|| damage("state of work"))?;
        entry.tail = row.tail.0;
        entry.end_lsn = row.next.0;
        entry.chain = row.chain.0;
        entry.control_chain = row.control_chain.0;
        entry.bytes = row.bytes;
        entry.updated_at = row.updated_at.0;
        entry.record_use(row.used_at);
        if row.stage == RowStage::Reclaimed {
            entry.stage.reclaim();
        }
        let key = entry.session_key().ok_or_else(|| damage("name"))?;
        let hash = SessionHash::new(&key, Incarnation(entry.incarnation));
        if (session_name(names, &key), uid_of(hash)) != (row.name, row.uid) {
            return Err(damage("name"));
        }
        Ok(Self { key, hash, row, entry, ancestors: Arc::default(), checked })
    }

    /// Decodes a row; a damaged one is logged and left out.
    pub(super) fn read_row(names: &NameKey, row: SessionRow, checked: u64) -> Option<Self> {
        let name = row.name;
        Self::from_row(names, row, checked)
            .inspect_err(|error| tracing::error!(?name, %error, "a session is left out"))
            .ok()
    }

    pub(super) fn uid(&self) -> Hash16 {
        self.row.uid
    }

    /// Returns the description of the session.
    pub(super) fn info(&self) -> SessionInfo {
        self.entry.info(&self.key)
    }

    pub(super) fn not_found_error(&self) -> StoreError {
        StoreError::SessionNotFound { session: self.key.session.clone() }
    }

    /// Checks that the session is visible to readers.
    pub(super) fn check_visible(&self) -> StoreResult<()> {
        self.entry.check_visible(&self.key.session)
    }

    /// Returns the row of its entry, with the revision of the row that it was read from.
    pub(super) fn to_row(&self, names: &NameKey) -> SessionRow {
        let entry = &self.entry;
        let workspace = entry.workspace.as_deref().map(|name| workspace_name(names, name));
        SessionRow { workspace, ..row_of(self.hash, entry, &self.row) }
    }
}

/// Returns the row of a new session, without the bytes of its entry.
pub(super) fn new_row(
    names: &NameKey,
    key: &SessionKey,
    hash: SessionHash,
    entry: &Entry,
) -> SessionRow {
    let blank = SessionRow {
        name: session_name(names, key),
        uid: uid_of(hash),
        tenant: tenant_name(names, &key.scope.tenant),
        scope: scope_name(names, &key.scope),
        workspace: entry.workspace.as_deref().map(|name| workspace_name(names, name)),
        parent: entry.parent(&key.scope).map(|(_, hash)| uid_of(hash)),
        created_at: Timestamp(entry.created_at),
        revision: 1,
        tail: Position::ZERO,
        next: Lsn(1),
        updated_at: Timestamp(0),
        used_at: Timestamp(0),
        bytes: 0,
        stage: RowStage::Alive,
        unfinished: false,
        chain: ChainValue([0; 32]),
        control_chain: ChainValue([0; 32]),
        work: Bytes::new(),
        entry: entry.encode().into(),
        moved_in: 0,
        removals: 0,
        slot: None,
    };
    row_of(hash, entry, &blank)
}

fn row_of(hash: SessionHash, entry: &Entry, before: &SessionRow) -> SessionRow {
    debug_assert_eq!(uid_of(hash), before.uid);
    SessionRow {
        tail: Position(entry.tail),
        next: Lsn(entry.end_lsn),
        updated_at: Timestamp(entry.updated_at),
        used_at: entry.used_at(),
        bytes: entry.bytes,
        stage: stage_of(entry),
        unfinished: entry.is_unfinished(None),
        chain: ChainValue(entry.chain),
        control_chain: ChainValue(entry.control_chain),
        work: entry.work.encode().into(),
        ..before.clone()
    }
}

fn stage_of(entry: &Entry) -> RowStage {
    if entry.stage.is_reclaimed() {
        return RowStage::Reclaimed;
    }
    match entry.stage.end().map(|end| end.how) {
        None => RowStage::Alive,
        Some(EndReason::Expired) => RowStage::Expired,
        Some(EndReason::Deleted) => RowStage::Deleted,
        Some(EndReason::Discarded) => RowStage::Discarded,
        Some(EndReason::Erased { .. }) => RowStage::Erased,
    }
}

fn damage(what: &str) -> StoreError {
    let source = io::Error::other(format!("the {what} of a session is damaged"));
    StoreError::Io { doing: "reading a row of the base", source }
}

//! Derived files of a node: bytes in the memory of its process, which another start computes anew.
//! A node that dies leaves none. It must not keep a file with removed content once the node
//! confirms the removal.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    node::Node,
    row::{Head, uid_of},
    store_error,
};
use crate::{
    env::{Clock, sync::Mutex},
    event::{Position, SessionHash},
    store::{
        DerivedFile, DerivedName, HeldEvents, Mapped, StoreError, StoreResult, base::RowQuery,
        derived::check_size,
    },
};

/// Longest wait for the users of a file with removed content.
const USED_MAX: Duration = Duration::from_secs(10);
const USED_PAUSE: Duration = Duration::from_millis(2);
/// Rows read with one statement.
const ROWS_MAX: usize = 500;

/// The derived files.
#[derive(Default)]
pub(super) struct Shelf(Mutex<Files>);

#[derive(Default)]
struct Files {
    kept: BTreeMap<DerivedName, (DerivedFile, Arc<Bytes>)>,
    /// Files with removed content that are still in use.
    doomed: Vec<Arc<Bytes>>,
}

/// Bytes of a derived file.
struct Bytes {
    bytes: Vec<u8>,
    /// True once results computed from them are void.
    withdrawn: AtomicBool,
}

impl Mapped for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn has_read_error(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }
}

impl Shelf {
    pub(super) fn list(&self) -> Vec<DerivedFile> {
        self.0.lock().kept.values().map(|(file, _)| file.clone()).collect()
    }

    pub(super) fn open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let lost = || StoreError::DerivedLost { reason: "it is not there".to_owned() };
        let files = self.0.lock();
        let (_, bytes) = files.kept.get(&name).ok_or_else(lost)?;
        Ok(Arc::clone(bytes) as Arc<dyn Mapped>)
    }

    pub(super) fn remove(&self, name: DerivedName) {
        self.0.lock().kept.remove(&name);
    }

    /// Withdraws the files with events of a session, or with the one at a position.
    pub(super) fn drop_session(&self, session: SessionHash, at: Option<Position>) {
        let positions = at.map(|at| BTreeSet::from([at.0]));
        let holds = |held: &HeldEvents| held.holds_events_of(session, positions.as_ref());
        self.doom(|file| file.holds.iter().any(holds));
    }

    fn doom(&self, is_doomed: impl Fn(&DerivedFile) -> bool) {
        let mut files = self.0.lock();
        let names: Vec<DerivedName> = files
            .kept
            .values()
            .filter(|(file, _)| is_doomed(file))
            .map(|(file, _)| file.name)
            .collect();
        for name in names {
            if let Some((_, bytes)) = files.kept.remove(&name) {
                bytes.withdrawn.store(true, Ordering::Release);
                files.doomed.push(bytes);
            }
        }
    }

    /// Returns true if a file with removed content is still in use.
    fn is_used(&self) -> bool {
        let mut files = self.0.lock();
        files.doomed.retain(|bytes| Arc::strong_count(bytes) > 1);
        !files.doomed.is_empty()
    }

    /// Removes the files whose content was removed since, and waits for their users.
    ///
    /// # Errors
    /// Errors of the base, and a file that stays in use.
    pub(super) async fn drop_outdated(&self, node: &Node) -> StoreResult<()> {
        let holds: Vec<Arc<[HeldEvents]>> =
            self.0.lock().kept.values().map(|(file, _)| Arc::clone(&file.holds)).collect();
        let held: Vec<&HeldEvents> = holds.iter().flat_map(|holds| holds.iter()).collect();
        let current = node.fetch_current(&held).await?;
        // One that was read before a redaction has the body only if it has the event.
        let has_removed = |held: &HeldEvents| {
            current.get(&held.hash.0).is_none_or(|head| {
                let redacted = head.entry.redacted.iter().map(|one| Position(one.position));
                held.rewritten < head.entry.removal_count()
                    && redacted.into_iter().any(|at| held.range.contains(at))
            })
        };
        self.doom(|file| file.holds.iter().any(has_removed));
        let until = node.real.monotonic() + USED_MAX;
        loop {
            if !self.is_used() {
                return Ok(());
            }
            if node.real.monotonic() >= until {
                let source = io::Error::other("a derived file is held open");
                let doing = "removing a derived file";
                return Err(StoreError::Io { doing, source });
            }
            tokio::time::sleep(USED_PAUSE).await;
        }
    }
}

impl Node {
    /// Returns the sessions of these events whose content is not gone, by their hash.
    async fn fetch_current(&self, held: &[&HeldEvents]) -> StoreResult<BTreeMap<[u8; 32], Head>> {
        let sessions: BTreeSet<[u8; 32]> = held.iter().map(|held| held.hash.0).collect();
        let mut current = BTreeMap::new();
        let all: Vec<_> = sessions.iter().map(|hash| uid_of(SessionHash(*hash))).collect();
        for uids in all.chunks(ROWS_MAX) {
            let rows = self.base.rows(RowQuery::Uids(uids.to_vec()), ROWS_MAX).await;
            for row in rows.map_err(store_error)? {
                self.see_removals(row.removals);
                let head = Head::from_row(row, 0)?;
                let stage = head.entry.stage;
                let gone = stage.is_erased()
                    || stage.is_reclaimed()
                    || stage.is_discarded() && self.needed_forks(head.uid()).await?.is_empty();
                if !gone {
                    current.insert(head.hash.0, head);
                }
            }
        }
        Ok(current)
    }

    /// Returns events that are not as they were when they were read, if any.
    async fn find_outdated<'h>(
        &self,
        holds: &'h [HeldEvents],
    ) -> StoreResult<Option<&'h HeldEvents>> {
        let current = self.fetch_current(&holds.iter().collect::<Vec<_>>()).await?;
        let is_outdated = |held: &&HeldEvents| {
            current.get(&held.hash.0).is_none_or(|head| {
                head.key != held.key
                    || head.entry.removal_count() != held.rewritten
                    || held.range.to > head.row.tail
            })
        };
        Ok(holds.iter().find(is_outdated))
    }

    /// Stores bytes that were computed from these events.
    pub(super) async fn put_derived(
        &self,
        label: &[u8],
        holds: Vec<HeldEvents>,
        bytes: &[u8],
    ) -> StoreResult<DerivedName> {
        check_size(label, &holds, bytes)?;
        self.check_open()?;
        let mut name = [0; 8];
        self.entropy.fill(&mut name);
        let name = DerivedName(u64::from_le_bytes(name));
        let file = DerivedFile {
            name,
            label: label.into(),
            holds: holds.into(),
            bytes: bytes.len() as u64,
        };
        let stored = Arc::new(Bytes { bytes: bytes.to_vec(), withdrawn: AtomicBool::new(false) });
        loop {
            let removals = *self.removals.borrow();
            if let Some(held) = self.find_outdated(&file.holds).await? {
                return Err(StoreError::Outdated { session: held.key.session.clone() });
            }
            let mut files = self.shelf.0.lock();
            // A removal that the node learned of since must find the file, or be looked at here.
            if *self.removals.borrow() == removals {
                files.kept.insert(name, (file, stored));
                return Ok(name);
            }
        }
    }
}

//! Derived files of a node: bytes in the memory of its process, which another start computes anew.
//! A node that dies leaves none. It must not read the base.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    env::sync::Mutex,
    event::{Position, SessionHash},
    store::{DerivedFile, DerivedName, HeldEvents, Mapped, StoreError, StoreResult},
};

/// The derived files.
#[derive(Default)]
pub(super) struct NodeFiles(Mutex<FileTable>);

#[derive(Default)]
struct FileTable {
    kept: BTreeMap<DerivedName, (DerivedFile, Arc<FileBytes>)>,
    /// Removed files that may still be in use, with the events they were made from.
    dropped: Vec<(Arc<[HeldEvents]>, Arc<FileBytes>)>,
}

/// Bytes of a derived file.
struct FileBytes {
    bytes: Vec<u8>,
    /// True once results computed from them are void.
    withdrawn: AtomicBool,
}

impl Mapped for FileBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn has_read_error(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }
}

impl NodeFiles {
    pub(super) fn list(&self) -> Vec<DerivedFile> {
        self.0.lock().kept.values().map(|(file, _)| file.clone()).collect()
    }

    pub(super) fn open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let lost = || StoreError::DerivedLost { reason: "it is not there".to_owned() };
        let files = self.0.lock();
        let (_, bytes) = files.kept.get(&name).ok_or_else(lost)?;
        Ok(Arc::clone(bytes) as Arc<dyn Mapped>)
    }

    /// Adds a file while `is_current` holds; returns false if it does not.
    pub(super) fn insert(
        &self,
        file: &DerivedFile,
        bytes: &[u8],
        is_current: impl FnOnce() -> bool,
    ) -> bool {
        let bytes = FileBytes { bytes: bytes.to_vec(), withdrawn: AtomicBool::new(false) };
        let mut files = self.0.lock();
        let current = is_current();
        if current {
            files.kept.insert(file.name, (file.clone(), Arc::new(bytes)));
        }
        current
    }

    /// Removes a file; who has it open may use it until its content is removed.
    pub(super) fn remove(&self, name: DerivedName) {
        let mut files = self.0.lock();
        if let Some((file, bytes)) = files.kept.remove(&name) {
            files.dropped.push((file.holds, bytes));
        }
        files.dropped.retain(|(_, bytes)| Arc::strong_count(bytes) > 1);
    }

    /// Withdraws the files with events of a session, or with the one at a position.
    pub(super) fn withdraw_session(&self, session: SessionHash, at: Option<Position>) {
        let positions = at.map(|at| BTreeSet::from([at.0]));
        self.withdraw(|held| held.holds_events_of(session, positions.as_ref()));
    }

    /// Withdraws the files with such events: they are removed, and results from them are void.
    pub(super) fn withdraw(&self, is_removed: impl Fn(&HeldEvents) -> bool) {
        let mut files = self.0.lock();
        let has_removed = |holds: &[HeldEvents]| holds.iter().any(&is_removed);
        let gone = files.kept.values().filter(|(file, _)| has_removed(&file.holds));
        let gone: Vec<DerivedName> = gone.map(|(file, _)| file.name).collect();
        for name in gone {
            if let Some((file, bytes)) = files.kept.remove(&name) {
                files.dropped.push((file.holds, bytes));
            }
        }
        for (_, bytes) in files.dropped.iter().filter(|(holds, _)| has_removed(holds)) {
            bytes.withdrawn.store(true, Ordering::Release);
        }
    }

    /// Returns the events that files were made from, those of removed ones in use included.
    pub(super) fn held_events(&self) -> Vec<Arc<[HeldEvents]>> {
        let files = self.0.lock();
        let kept = files.kept.values().map(|(file, _)| Arc::clone(&file.holds));
        kept.chain(files.dropped.iter().map(|(holds, _)| Arc::clone(holds))).collect()
    }

    /// Returns true if a withdrawn file is still in use.
    pub(super) fn is_withdrawn_in_use(&self) -> bool {
        let mut files = self.0.lock();
        files.dropped.retain(|(_, bytes)| Arc::strong_count(bytes) > 1);
        files.dropped.iter().any(|(_, bytes)| bytes.withdrawn.load(Ordering::Acquire))
    }
}

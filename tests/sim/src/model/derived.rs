//! Derived files of the model: bytes in memory. It finds changed sessions by comparing all of them
//! with those it returned before. It must not be durable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use super::{Model, Session, forks::survival};
use sessionlog::{
    event::{Incarnation, SessionHash, SessionKey},
    store::{
        ChangedSession, ChangedSessions, ChangesSeen, Derived, DerivedFile, DerivedName,
        HeldEvents, Mapped, StoreError, StoreResult, derived::check_size,
    },
};

type Files = BTreeMap<DerivedName, (DerivedFile, Arc<Vec<u8>>)>;

/// The derived files, and the state of the sessions at the last comparison.
pub(super) struct DerivedFiles {
    files: Mutex<Files>,
    names: AtomicU64,
    lives: AtomicU64,
    /// Each session with the number of its last change.
    seen: Mutex<BTreeMap<SessionHash, (u64, ChangedSession)>>,
    watch: watch::Sender<u64>,
}

impl Default for DerivedFiles {
    fn default() -> Self {
        Self {
            files: Mutex::default(),
            names: AtomicU64::new(0),
            lives: AtomicU64::new(0),
            seen: Mutex::default(),
            watch: watch::channel(0).0,
        }
    }
}

impl DerivedFiles {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new session and returns its hash.
    pub(super) fn begin(&self, key: &SessionKey) -> SessionHash {
        let life = u128::from(self.lives.fetch_add(1, Ordering::Relaxed));
        SessionHash::new(key, Incarnation(life.to_le_bytes()))
    }

    /// Notifies watchers that a session may have changed.
    pub(super) fn tell(&self) {
        self.watch.send_modify(|count| *count += 1);
    }

    /// Removes the files that hold events of a session, or those at these positions.
    pub(super) fn take_away(&self, session: SessionHash, positions: Option<&BTreeSet<u64>>) {
        let is_of = |held: &HeldEvents| held.holds_events_of(session, positions);
        self.files().retain(|_, (file, _)| !file.holds.iter().any(is_of));
        self.tell();
    }
}

impl Session {
    fn moved(&self) -> ChangedSession {
        ChangedSession {
            key: self.info.key.clone(),
            hash: self.hash,
            base: self.base(),
            parent: self.parent(),
            tail: self.info.tail,
            created_at: self.info.created_at,
            rewritten: self.info.rewritten,
            workspace: self.info.workspace.clone(),
            is_archived: self.info.archived_at.is_some(),
            survival: survival(self),
            is_damaged: false,
        }
    }
}

impl Model {
    fn check_current(&self, held: &HeldEvents) -> StoreResult<()> {
        let sessions = self.sessions();
        let current = sessions.get(&held.key).is_some_and(|session| {
            !session.erased
                && session.hash == held.hash
                && session.info.rewritten == held.rewritten
                && held.range.to <= session.info.tail
        });
        let session = held.key.session.clone();
        if current { Ok(()) } else { Err(StoreError::Outdated { session }) }
    }
}

impl Derived for Model {
    fn list_derived(&self) -> StoreResult<Vec<DerivedFile>> {
        Ok(self.derived_files.files().values().map(|(file, _)| file.clone()).collect())
    }

    fn put_derived<'a>(
        &'a self,
        label: &'a [u8],
        holds: Vec<HeldEvents>,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, StoreResult<DerivedName>> {
        async move {
            check_size(label, &holds, bytes)?;
            holds.iter().try_for_each(|held| self.check_current(held))?;
            let name = DerivedName(self.derived_files.names.fetch_add(1, Ordering::Relaxed));
            let (label, holds) = (label.into(), holds.into());
            let file = DerivedFile { name, label, holds, bytes: bytes.len() as u64 };
            self.derived_files.files().insert(name, (file, Arc::new(bytes.to_vec())));
            Ok(name)
        }
        .boxed()
    }

    fn open_derived(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let lost = || StoreError::DerivedLost { reason: "it is not there".to_owned() };
        let (_, bytes) = self.derived_files.files().get(&name).cloned().ok_or_else(lost)?;
        Ok(bytes)
    }

    fn drop_derived(&self, name: DerivedName) -> BoxFuture<'_, StoreResult<()>> {
        async move {
            self.derived_files.files().remove(&name);
            Ok(())
        }
        .boxed()
    }

    fn list_changes(
        &self,
        since: ChangesSeen,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<ChangedSessions>> {
        async move {
            let mut seen = self.derived_files.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut number = seen.values().map(|(number, _)| *number).max().unwrap_or(0);
            for session in self.sessions().values() {
                let now = session.moved();
                if seen.get(&session.hash).is_none_or(|(_, before)| *before != now) {
                    number += 1;
                    seen.insert(session.hash, (number, now));
                }
            }
            let mut changed: Vec<_> =
                seen.values().filter(|(number, _)| *number > since.number()).cloned().collect();
            changed.sort_by_key(|(number, _)| *number);
            let more = changed.len() > limit;
            changed.truncate(limit);
            let number = changed.last().map_or(since.number(), |(number, _)| *number);
            let sessions = changed.into_iter().map(|(_, moved)| moved).collect();
            Ok(ChangedSessions { sessions, since: since.with_number(number), more })
        }
        .boxed()
    }

    fn watch_changes(&self) -> watch::Receiver<u64> {
        self.derived_files.watch.subscribe()
    }
}

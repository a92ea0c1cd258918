//! The derived files of a store: which there are, what each was made from, who has one open. It
//! must not look inside their bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{catalogue::sessions::Sessions, ground::Ground, rank, session::Session};
use crate::{
    env::sync::{Condvar, Mutex},
    event::SessionHash,
    store::{DerivedFile, DerivedName, Held, Mapped, StoreError, StoreResult, derived::check_size},
};

/// How long those who have a file open are waited for before its bytes are destroyed.
const HELD_OPEN_MAX: Duration = Duration::from_secs(10);

/// The derived files of a store.
pub(super) struct Shelf {
    ground: Arc<Ground>,
    sessions: Arc<Sessions>,
    /// Held while a file is made or destroyed: what is made names nothing that is taken away.
    turn: Mutex<()>,
    files: Mutex<BTreeMap<DerivedName, Kept>>,
    closing: Arc<Closing>,
}

/// A derived file that is there.
struct Kept {
    file: DerivedFile,
    open: Arc<Opened>,
}

/// The bytes of a derived file in memory.
struct Opened {
    /// `None` while it is dropped.
    bytes: Option<Box<dyn Mapped>>,
    /// Dropped behind the bytes.
    alive: Option<Arc<()>>,
    closing: Arc<Closing>,
}

/// Wakes those who wait until a file is not open any more.
struct Closing {
    turn: Mutex<()>,
    closed: Condvar,
}

impl Mapped for Opened {
    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| bytes.bytes())
    }

    fn is_hurt(&self) -> bool {
        self.bytes.as_ref().is_none_or(|bytes| bytes.is_hurt())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The bytes leave memory before any thread hears of it.
        drop(self.bytes.take());
        let turn = self.closing.turn.lock();
        drop(self.alive.take());
        drop(turn);
        self.closing.closed.notify_all();
    }
}

impl Closing {
    fn wait(&self, alive: &Weak<()>) -> io::Result<()> {
        let mut turn = self.turn.lock();
        let mut elapsed = false;
        while alive.strong_count() > 0 {
            if elapsed {
                return Err(io::Error::other("a derived file is held open"));
            }
            (turn, elapsed) = self.closed.wait_timeout(turn, HELD_OPEN_MAX);
        }
        Ok(())
    }
}

impl Shelf {
    pub(super) fn new(ground: &Arc<Ground>, sessions: &Arc<Sessions>) -> Self {
        Self {
            ground: Arc::clone(ground),
            sessions: Arc::clone(sessions),
            turn: Mutex::new(rank::SHELF, ()),
            files: Mutex::new(rank::LAST, BTreeMap::new()),
            closing: Arc::new(Closing { turn: Mutex::new(rank::LAST, ()), closed: Condvar::new() }),
        }
    }

    /// The files that are there.
    pub(super) fn list(&self) -> Vec<DerivedFile> {
        self.files.lock().values().map(|kept| kept.file.clone()).collect()
    }

    /// Keeps bytes that were made from these events.
    pub(super) fn put(
        &self,
        label: &[u8],
        holds: Vec<Held>,
        bytes: &[u8],
    ) -> StoreResult<DerivedName> {
        check_size(label, &holds, bytes)?;
        let _turn = self.turn.lock();
        let failed = |source| StoreError::Io { doing: "keeping a derived file", source };
        self.ground.check_writable().map_err(failed)?;
        holds.iter().try_for_each(|held| self.check_current(held))?;
        let name = DerivedName(u64::from_le_bytes(self.ground.env.random()));
        let file = DerivedFile {
            name,
            label: label.into(),
            holds: holds.into(),
            bytes: bytes.len() as u64,
        };
        let open = self.opened(Box::new(bytes.to_vec()));
        self.files.lock().insert(name, Kept { file, open });
        Ok(name)
    }

    /// Refuses what was made from a session that is gone, or that something was taken away of since.
    fn check_current(&self, held: &Held) -> StoreResult<()> {
        let outdated = || StoreError::Outdated { session: held.key.session.clone() };
        let session = self.sessions.session(&held.key).map_err(|_| outdated())?;
        let state = session.state();
        let entry = &state.entry;
        let gone = entry.stage.is_reclaimed()
            || entry.stage.is_discarded() && !self.sessions.is_needed(session.hash);
        let same = session.hash == held.hash
            && entry.rewritten() == held.rewritten
            && held.range.to.0 <= entry.tail;
        if same && !gone && state.exists() { Ok(()) } else { Err(outdated()) }
    }

    fn opened(&self, bytes: Box<dyn Mapped>) -> Arc<Opened> {
        let (alive, closing) = (Some(Arc::new(())), Arc::clone(&self.closing));
        Arc::new(Opened { bytes: Some(bytes), alive, closing })
    }

    /// Opens a file.
    pub(super) fn open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let lost = || StoreError::DerivedLost { reason: "it is not there".to_owned() };
        let open = self.files.lock().get(&name).map(|kept| Arc::clone(&kept.open));
        Ok(open.ok_or_else(lost)?)
    }

    /// Destroys the files that hold events of a session, or those at these positions.
    pub(super) fn take_away(
        &self,
        session: &Session,
        positions: Option<&BTreeSet<u64>>,
    ) -> io::Result<()> {
        let hash: SessionHash = session.hash;
        let positions: Option<Vec<u64>> = positions.map(|some| some.iter().copied().collect());
        self.destroy(&|file| file.holds(hash, positions.as_deref()))
    }

    /// Destroys the files that are meant: hides them, waits for those who have them open, and takes
    /// their bytes away.
    pub(super) fn destroy(&self, meant: &dyn Fn(&DerivedFile) -> bool) -> io::Result<()> {
        let _turn = self.turn.lock();
        let mut hidden = Vec::new();
        {
            let mut files = self.files.lock();
            let names: Vec<DerivedName> = files
                .values()
                .filter(|kept| meant(&kept.file))
                .map(|kept| kept.file.name)
                .collect();
            hidden.extend(names.iter().filter_map(|name| files.remove(name)));
        }
        for Kept { open, .. } in hidden {
            let alive = open.alive.as_ref().map_or_else(Weak::new, Arc::downgrade);
            drop(open);
            self.closing.wait(&alive)?;
        }
        Ok(())
    }
}

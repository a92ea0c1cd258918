//! The derived files of a store: which there are, what each was made from, who has one open. They
//! may be lost: what cannot be read is taken away. It must not look inside their bytes, nor touch
//! the disk while there is none of them.

mod file;
mod opened;

use std::{collections::BTreeMap, io, sync::Arc};

use self::opened::{Closing, Ended, Opened};
use super::{
    catalogue::sessions::Sessions,
    ground::Ground,
    journal::trouble::write_error,
    layout::{DERIVED, is_of_the_file},
    rank,
    wait::blocking,
};
use crate::{
    env::sync::Mutex,
    log::{Entry, LogError},
    store::{
        DerivedFile, DerivedName, Health, Held, Mapped, StoreError, StoreResult,
        derived::check_size,
    },
};

/// Bytes of files that are open as copies, at most: of what is over, the one used longest ago is
/// closed.
const COPIES_BYTES_MAX: u64 = 256 << 20;

/// The derived files of a store.
pub(super) struct Shelf {
    ground: Arc<Ground>,
    sessions: Arc<Sessions>,
    /// Held while a file is made, read from the disk or taken away: so what is made names nothing
    /// that goes meanwhile.
    turn: Mutex<()>,
    files: Mutex<Files>,
    closing: Arc<Closing>,
}

struct Files {
    /// The directory is there, and what is in it was not read yet.
    unread: bool,
    /// The name of the directory is durable.
    made: bool,
    kept: BTreeMap<DerivedName, Kept>,
    /// Files whose bytes are to be taken away.
    doomed: Vec<Doomed>,
    /// Counts the uses of open files.
    uses: u64,
}

/// A derived file that is there.
struct Kept {
    file: DerivedFile,
    open: Option<Arc<Opened>>,
    used: u64,
}

/// A file that is hidden.
struct Doomed {
    path: String,
    /// What it was made from, where that is known.
    holds: Option<Arc<[Held]>>,
    ended: Option<Ended>,
}

/// Whether a file that was made from this is meant.
type Meant<'a> = &'a dyn Fn(&[Held]) -> bool;

impl Shelf {
    /// The derived files of a store; whether its directory of them is `there`.
    pub(super) fn new(ground: &Arc<Ground>, sessions: &Arc<Sessions>, there: bool) -> Self {
        let (kept, doomed) = (BTreeMap::new(), Vec::new());
        let files = Files { unread: there, made: false, kept, doomed, uses: 0 };
        Self {
            ground: Arc::clone(ground),
            sessions: Arc::clone(sessions),
            turn: Mutex::new(rank::SHELF, ()),
            files: Mutex::new(rank::LAST, files),
            closing: Arc::new(Closing::new()),
        }
    }

    /// The files that are there.
    pub(super) fn list(&self) -> StoreResult<Vec<DerivedFile>> {
        if self.files.lock().unread {
            let _turn = self.turn.lock();
            self.read_names().map_err(|error| write_error("reading derived/", &error))?;
        }
        Ok(self.files.lock().kept.values().map(|kept| kept.file.clone()).collect())
    }

    /// Reads what the directory has, once. What was made from something that went, or cannot be
    /// read, is hidden: a crash cut the step that takes it away.
    fn read_names(&self) -> io::Result<()> {
        if !self.files.lock().unread {
            return Ok(());
        }
        let listed = match self.ground.env.storage.list(DERIVED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        let (mut kept, mut doomed) = (BTreeMap::new(), Vec::new());
        for entry in listed.into_iter().filter(|entry| entry.is_file) {
            let path = format!("{DERIVED}/{}", entry.name);
            let whole = entry.name.strip_suffix(".new");
            let Ok(number) = u64::from_str_radix(whole.unwrap_or(&entry.name), 16) else {
                continue;
            };
            let name = DerivedName(number);
            if path == file::begun(name) {
                doomed.push(Doomed { path, holds: None, ended: None });
            } else if path == file::path_of(name) {
                let file = match file::describe(&self.ground, name) {
                    Ok(file) => Some(file),
                    Err(error) if is_lost(&error) => None,
                    Err(error) => return Err(error.into()),
                };
                match file.filter(|file| !file.holds.iter().any(|held| self.is_stale(held))) {
                    Some(file) => drop(kept.insert(name, Kept { file, open: None, used: 0 })),
                    None => doomed.push(Doomed { path, holds: None, ended: None }),
                }
            }
        }
        let mut files = self.files.lock();
        files.unread = false;
        files.kept.append(&mut kept);
        files.doomed.append(&mut doomed);
        Ok(())
    }

    /// The session that wrote events, unless it is gone.
    fn writer(&self, held: &Held) -> Option<Entry> {
        let (entry, hash) = self.sessions.entry(&held.key)?;
        let needed = || self.sessions.is_needed(hash);
        let stage = entry.stage;
        let gone = stage.is_erased() || stage.is_reclaimed() || stage.is_discarded() && !needed();
        (hash == held.hash && held.range.to.0 <= entry.tail && !gone).then_some(entry)
    }

    /// Whether what was made from these events holds what went, or is to.
    fn is_stale(&self, held: &Held) -> bool {
        self.writer(held).is_none_or(|entry| {
            let mut left = entry.redacted.iter().filter(|one| !one.cleared);
            left.any(|one| held.range.from.0 <= one.position && one.position < held.range.to.0)
        })
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
        self.ask_writable()?;
        let outdated = holds
            .iter()
            .find(|held| self.writer(held).is_none_or(|entry| entry.rewritten() != held.rewritten));
        if let Some(held) = outdated {
            return Err(StoreError::Outdated { session: held.key.session.clone() });
        }
        let name = DerivedName(u64::from_le_bytes(self.ground.env.random()));
        let (label, holds) = (label.into(), holds.into());
        let file = DerivedFile { name, label, holds, bytes: bytes.len() as u64 };
        let made = self.make_directory().and_then(|()| file::write(&self.ground, &file, bytes));
        let mut files = self.files.lock();
        if let Err(error) = made {
            files.made = false;
            // Whatever of it is there: no later start may find it.
            let paths = [file::begun(name), file::path_of(name)];
            files.doomed.extend(paths.map(|path| {
                let holds = Some(Arc::clone(&file.holds));
                Doomed { path, holds, ended: None }
            }));
            drop(files);
            let _ = self.clear_doomed(&|_| false);
            return Err(write_error("keeping a derived file", &error));
        }
        files.kept.insert(name, Kept { file, open: None, used: 0 });
        Ok(name)
    }

    fn ask_writable(&self) -> StoreResult<()> {
        let failed = |error| write_error("reading derived/", &error);
        self.ground.check_writable().and_then(|()| self.read_names()).map_err(failed)?;
        match self.sessions.journal.health() {
            Health::ReadOnly(reason) => Err(StoreError::ReadOnly { reason }),
            _ => self.sessions.lacks().map_or(Ok(()), |short| Err(StoreError::DiskFull(short))),
        }
    }

    fn make_directory(&self) -> io::Result<()> {
        if !self.files.lock().made {
            self.ground.env.storage.create_dir(DERIVED)?;
            self.ground.env.storage.sync_dir("")?;
            self.files.lock().made = true;
        }
        Ok(())
    }

    /// Opens a file.
    pub(super) fn open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        match self.opened(name) {
            Some(open) => Ok(open),
            None => blocking(|| self.open_anew(name)),
        }
    }

    fn open_anew(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        let _turn = self.turn.lock();
        self.read_names().map_err(|error| write_error("reading derived/", &error))?;
        // Another thread may have opened it meanwhile.
        if let Some(open) = self.opened(name) {
            return Ok(open);
        }
        let lost = |reason: String| StoreError::DerivedLost { reason };
        if !self.files.lock().kept.contains_key(&name) {
            return Err(lost("it is not there".to_owned()));
        }
        match file::open(&self.ground, name) {
            Ok(body) => Ok(self.keep_open(name, Opened::new(body, &self.closing))),
            Err(error) if is_lost(&error) => {
                tracing::warn!(%name, %error, "a derived file is lost; it is made anew");
                self.hide(&|file| file.name == name);
                let _ = self.clear_doomed(&|_| false);
                Err(lost(error.to_string()))
            }
            Err(error) => Err(write_error("reading a derived file", &error.into())),
        }
    }

    /// A file that is open already. One that is hurt is to be opened anew.
    fn opened(&self, name: DerivedName) -> Option<Arc<Opened>> {
        let mut files = self.files.lock();
        files.uses += 1;
        let used = files.uses;
        let kept = files.kept.get_mut(&name)?;
        kept.used = used;
        let hurt = kept.open.take_if(|open| open.is_hurt());
        let open = kept.open.clone();
        drop(files);
        drop(hurt);
        open
    }

    /// Keeps a file open, and closes copies that are too many.
    fn keep_open(&self, name: DerivedName, open: Opened) -> Arc<Opened> {
        let open = Arc::new(open);
        let mut files = self.files.lock();
        if let Some(kept) = files.kept.get_mut(&name) {
            kept.open = Some(Arc::clone(&open));
        }
        let is_copy = |kept: &&mut Kept| kept.open.as_ref().is_some_and(|open| open.is_copy());
        let mut copies: Vec<&mut Kept> = files.kept.values_mut().filter(is_copy).collect();
        copies.sort_by_key(|kept| kept.used);
        let mut bytes: u64 = copies.iter().map(|kept| kept.file.bytes).sum();
        let mut closed = Vec::new();
        for kept in copies.into_iter().filter(|kept| kept.file.name != name) {
            if bytes <= COPIES_BYTES_MAX {
                break;
            }
            bytes -= kept.file.bytes;
            closed.extend(kept.open.take());
        }
        drop(files);
        drop(closed);
        open
    }

    /// Takes away the files that were made from what is meant, and what is left of those before:
    /// hides them, waits for those who have them open, overwrites and unlinks them.
    ///
    /// # Errors
    /// The first of one that is meant, or of which it is unknown what it was made from.
    pub(super) fn destroy(&self, meant: Meant<'_>) -> io::Result<()> {
        let _turn = self.turn.lock();
        self.read_names()?;
        self.hide(&|file| meant(&file.holds));
        self.clear_doomed(meant)
    }

    /// Takes one file away.
    pub(super) fn take_away(&self, name: DerivedName) -> io::Result<()> {
        let _turn = self.turn.lock();
        self.read_names()?;
        self.hide(&|file| file.name == name);
        let path = file::path_of(name);
        self.clear_doomed(&|_| true).or_else(|error| {
            let left = self.files.lock().doomed.iter().any(|doomed| doomed.path == path);
            if left { Err(error) } else { Ok(()) }
        })
    }

    /// Takes away what is left of files that are hidden.
    pub(super) fn sweep(&self) -> io::Result<()> {
        {
            let files = self.files.lock();
            if !files.unread && files.doomed.is_empty() {
                return Ok(());
            }
        }
        let _turn = self.turn.lock();
        self.read_names()?;
        self.clear_doomed(&|_| true)
    }

    fn hide(&self, meant: &dyn Fn(&DerivedFile) -> bool) {
        let mut files = self.files.lock();
        let names: Vec<DerivedName> = files
            .kept
            .values()
            .map(|kept| &kept.file)
            .filter(|file| meant(file))
            .map(|file| file.name)
            .collect();
        let mut closed = Vec::new();
        for Kept { file, open, .. } in
            names.iter().filter_map(|name| files.kept.remove(name)).collect::<Vec<_>>()
        {
            let ended = open.as_ref().map(|open| open.ended());
            files.doomed.push(Doomed {
                path: file::path_of(file.name),
                holds: Some(file.holds),
                ended,
            });
            closed.extend(open);
        }
        drop(files);
        drop(closed);
    }

    /// Overwrites and unlinks what is hidden; what fails stays for the next time.
    fn clear_doomed(&self, meant: Meant<'_>) -> io::Result<()> {
        let doomed = std::mem::take(&mut self.files.lock().doomed);
        let (mut left, mut cleared) = (Vec::new(), Ok(()));
        for one in doomed {
            let closed = one.ended.as_ref().map_or(Ok(()), |ended| self.closing.wait(ended));
            let taken = closed.and_then(|()| file::take_away(&self.ground, &one.path));
            if let Err(error) = taken {
                tracing::warn!(path = one.path, %error, "a derived file is left");
                if one.holds.as_ref().is_none_or(|holds| meant(holds)) && cleared.is_ok() {
                    cleared = Err(error);
                }
                left.push(one);
            }
        }
        self.files.lock().doomed.append(&mut left);
        cleared
    }
}

/// Whether a file is not what it was, or not there: else it may be read another time.
fn is_lost(error: &LogError) -> bool {
    match error {
        LogError::Fault { .. } => true,
        LogError::Io(error) => is_of_the_file(error) || error.kind() == io::ErrorKind::InvalidData,
    }
}

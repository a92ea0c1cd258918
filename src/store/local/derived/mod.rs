//! The derived files of a store: their names, the events each was computed from, and their users.
//! They may be lost: an unreadable one is removed. It must not interpret their bytes, access the
//! disk in a store without them, or wait for a user of one under a lock.

mod file;
mod opened;

use std::{collections::BTreeMap, io, sync::Arc};

use self::opened::{CloseSignal, DerivedUsage, LoadedDerivedFile, UserGuard, held_open_error};
use super::{
    catalogue::sessions::Sessions,
    context::EngineContext,
    journal::trouble::write_error,
    layout::{DERIVED, concerns_one_file},
    rank,
    wait::run_blocking,
};
use crate::{
    env::{is_out_of_descriptors, sync::Mutex},
    log::{Entry, LogError},
    store::{
        DerivedFile, DerivedName, Health, HeldEvents, Mapped, StoreError, StoreResult,
        derived::check_size,
    },
};

/// Maximum bytes of files open as copies in memory: above it, the least recently used one is
/// closed.
const COPIES_BYTES_MAX: u64 = 256 << 20;

/// Derived files of a store.
pub(super) struct DerivedFiles {
    context: Arc<EngineContext>,
    sessions: Arc<Sessions>,
    /// Held while the directory is read.
    reading: Mutex<()>,
    files: Mutex<DerivedFileTable>,
    closing: Arc<CloseSignal>,
}

struct DerivedFileTable {
    /// True if the directory exists and was not read yet.
    unread: bool,
    /// True if the name of the directory is durable.
    made: bool,
    kept: BTreeMap<DerivedName, DerivedEntry>,
    /// Files being created: a removal of their events hides them like finished ones.
    making: BTreeMap<DerivedName, HeldAndUsage>,
    /// Hidden files whose bytes are to be removed.
    doomed: Vec<Arc<HiddenDerivedFile>>,
    /// Counter of uses of open files.
    uses: u64,
}

/// Derived file that can be opened.
struct DerivedEntry {
    file: DerivedFile,
    usage: Arc<DerivedUsage>,
    open: Option<Arc<LoadedDerivedFile>>,
    used: u64,
}

/// Events a file was computed from, and its users.
type HeldAndUsage = (Arc<[HeldEvents]>, Arc<DerivedUsage>);

/// Hidden file to be removed.
struct HiddenDerivedFile {
    name: DerivedName,
    /// Paths of files that may have bytes of it.
    paths: Vec<String>,
    /// Events it was computed from, if known.
    holds: Option<Arc<[HeldEvents]>>,
    usage: Option<Arc<DerivedUsage>>,
    /// True once its bytes are removed; locked during the removal.
    gone: Mutex<bool>,
}

/// Predicate on the events that a file was computed from.
type EventsFilter<'a> = &'a dyn Fn(&[HeldEvents]) -> bool;

impl DerivedEntry {
    fn new(file: DerivedFile, usage: Arc<DerivedUsage>) -> Self {
        Self { file, usage, open: None, used: 0 }
    }

    /// Returns the record of the file once it is hidden and its bytes are to be removed.
    fn to_doomed(&self) -> Arc<HiddenDerivedFile> {
        let of = (Arc::clone(&self.file.holds), Arc::clone(&self.usage));
        HiddenDerivedFile::new(self.file.name, vec![file::path_of(self.file.name)], Some(&of))
    }
}

impl HiddenDerivedFile {
    fn new(name: DerivedName, paths: Vec<String>, of: Option<&HeldAndUsage>) -> Arc<Self> {
        let (holds, usage) = of.cloned().unzip();
        Arc::new(Self { name, paths, holds, usage, gone: Mutex::new(rank::DERIVED_FILES, false) })
    }

    /// Returns true if the predicate matches, or may match.
    fn matches(&self, filter: EventsFilter<'_>) -> bool {
        self.holds.as_ref().is_none_or(|holds| filter(holds))
    }

    fn is_used(&self) -> bool {
        self.usage.as_ref().is_some_and(|usage| usage.is_used())
    }
}

impl DerivedFiles {
    /// Creates the derived files of a store; their directory exists if `found` is true.
    pub(super) fn new(context: &Arc<EngineContext>, sessions: &Arc<Sessions>, found: bool) -> Self {
        let (kept, making, doomed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let files = DerivedFileTable { unread: found, made: false, kept, making, doomed, uses: 0 };
        Self {
            context: Arc::clone(context),
            sessions: Arc::clone(sessions),
            reading: Mutex::new(rank::DERIVED_FILES, ()),
            files: Mutex::new(rank::LAST, files),
            closing: Arc::new(CloseSignal::new()),
        }
    }

    /// Returns the files that can be opened.
    pub(super) fn list(&self) -> StoreResult<Vec<DerivedFile>> {
        self.read_names().map_err(|error| write_error("reading derived/", &error))?;
        Ok(self.files.lock().kept.values().map(|kept| kept.file.clone()).collect())
    }

    /// Reads the directory once, while the store opens, before a new event can take a position that
    /// a file was computed from. Unreadable files and those of removed events are hidden: a crash
    /// interrupted their removal, or they were copied back.
    pub(super) fn read_names(&self) -> io::Result<()> {
        if !self.files.lock().unread {
            return Ok(());
        }
        let _reading = self.reading.lock();
        if !self.files.lock().unread {
            return Ok(());
        }
        let listed = match self.context.env.storage.list(DERIVED) {
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
            if path == file::unfinished_path(name) {
                doomed.push(HiddenDerivedFile::new(name, vec![path], None));
            } else if path == file::path_of(name) {
                let described = file::describe(&self.context, name);
                if let Err(LogError::Io(error)) = &described
                    && is_out_of_descriptors(error)
                {
                    return Err(io::Error::new(error.kind(), error.to_string()));
                }
                let current = described.as_ref().is_ok_and(|file| self.is_current(&file.holds));
                if let Some(file) = described.ok().filter(|_| current) {
                    kept.insert(name, DerivedEntry::new(file, DerivedUsage::new(&self.closing)));
                } else {
                    doomed.push(HiddenDerivedFile::new(name, vec![path], None));
                }
            }
        }
        let mut files = self.files.lock();
        files.unread = false;
        files.kept.append(&mut kept);
        files.doomed.append(&mut doomed);
        Ok(())
    }

    /// Returns the entry of the session that wrote these events, unless it is gone.
    fn writer_entry(&self, held: &HeldEvents) -> Option<Entry> {
        let (entry, hash) = self.sessions.entry(&held.key)?;
        let needed = || self.sessions.is_read_by_forks(hash);
        let stage = entry.stage;
        let gone = stage.is_erased() || stage.is_reclaimed() || stage.is_discarded() && !needed();
        (hash == held.hash && held.range.to.0 <= entry.tail && !gone).then_some(entry)
    }

    /// Returns true if these events are present and none of their session was removed since they
    /// were read.
    fn is_current(&self, holds: &[HeldEvents]) -> bool {
        self.find_outdated(holds).is_none()
    }

    fn find_outdated<'h>(&self, holds: &'h [HeldEvents]) -> Option<&'h HeldEvents> {
        let is_current = |held: &HeldEvents| {
            self.writer_entry(held).is_some_and(|entry| entry.removal_count() == held.rewritten)
        };
        holds.iter().find(|held| !is_current(held))
    }

    /// Stores bytes that were computed from these events, as a new file.
    pub(super) fn put(
        &self,
        label: &[u8],
        holds: Vec<HeldEvents>,
        bytes: &[u8],
    ) -> StoreResult<DerivedName> {
        check_size(label, &holds, bytes)?;
        self.ensure_writable()?;
        let name = DerivedName(u64::from_le_bytes(self.context.env.random()));
        let (label, holds) = (label.into(), Arc::<[HeldEvents]>::from(holds));
        let file = DerivedFile { name, label, holds, bytes: bytes.len() as u64 };
        let user = self.register_unfinished(&file);
        // A removal from now on finds the file among those being created.
        let outdated =
            |held: &HeldEvents| StoreError::Outdated { session: held.key.session.clone() };
        if let Some(held) = self.find_outdated(&file.holds) {
            self.files.lock().making.remove(&name);
            return Err(outdated(held));
        }
        let made = self.make_directory().and_then(|()| file::write(&self.context, &file, bytes));
        let mut files = self.files.lock();
        let is_hidden = files.making.remove(&name).is_none();
        if let Err(error) = made {
            files.made = false;
            if !is_hidden {
                // No later start may find a part of it.
                files.doomed.push(doom_unfinished(name, &(file.holds, Arc::clone(user.usage()))));
            }
            drop(files);
            drop(user);
            let _ = self.clear_doomed(&|one| one.name == name);
            return Err(write_error("keeping a derived file", &error));
        }
        if is_hidden {
            drop(files);
            let gone = file.holds.first().map(outdated);
            let lost = || StoreError::DerivedLost { reason: "it was taken away".to_owned() };
            return Err(gone.unwrap_or_else(lost));
        }
        files.kept.insert(name, DerivedEntry::new(file, Arc::clone(user.usage())));
        drop(files);
        Ok(name)
    }

    /// Records that a file is being created.
    fn register_unfinished(&self, file: &DerivedFile) -> UserGuard {
        let usage = DerivedUsage::new(&self.closing);
        let user = usage.add_user();
        self.files.lock().making.insert(file.name, (Arc::clone(&file.holds), usage));
        user
    }

    fn ensure_writable(&self) -> StoreResult<()> {
        let failed = |error| write_error("reading derived/", &error);
        self.context.check_writable().and_then(|()| self.read_names()).map_err(failed)?;
        match self.sessions.journal.health() {
            Health::ReadOnly(reason) => Err(StoreError::ReadOnly { reason }),
            _ => self.sessions.shortage().map_or(Ok(()), |short| Err(StoreError::DiskFull(short))),
        }
    }

    fn make_directory(&self) -> io::Result<()> {
        if !self.files.lock().made {
            self.context.env.storage.create_dir(DERIVED)?;
            self.context.env.storage.sync_dir("")?;
            self.files.lock().made = true;
        }
        Ok(())
    }

    /// Opens a file, or returns it if it is already open.
    pub(super) fn open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        match self.get_open(name) {
            Some(open) => Ok(open),
            None => run_blocking(|| self.read_and_open(name)),
        }
    }

    fn read_and_open(&self, name: DerivedName) -> StoreResult<Arc<dyn Mapped>> {
        self.read_names().map_err(|error| write_error("reading derived/", &error))?;
        let lost = |reason: &str| StoreError::DerivedLost { reason: reason.to_owned() };
        let user = self.files.lock().kept.get(&name).map(|kept| kept.usage.add_user());
        let user = user.ok_or_else(|| lost("it is not there"))?;
        let usage = Arc::clone(user.usage());
        let reading = usage.reading.lock();
        // Another thread may have opened it meanwhile.
        if let Some(open) = self.get_open(name) {
            return Ok(open);
        }
        match file::open(&self.context, name) {
            Ok(body) => {
                let open = self.keep_open(name, LoadedDerivedFile::new(body, user));
                Ok(open.ok_or_else(|| lost("it was taken away"))?)
            }
            Err(error) if is_lost(&error) => {
                drop(reading);
                drop(user);
                tracing::warn!(%name, %error, "a derived file is lost; it is made anew");
                self.hide_file(name, true);
                let _ = self.clear_doomed(&|one| one.name == name && !one.is_used());
                Err(lost(&error.to_string()))
            }
            Err(error) => Err(write_error("reading a derived file", &error.into())),
        }
    }

    /// Returns a file that is already open. Closes one that lacks bytes or was written to since it
    /// was read.
    fn get_open(&self, name: DerivedName) -> Option<Arc<LoadedDerivedFile>> {
        let open = {
            let mut files = self.files.lock();
            files.uses += 1;
            let used = files.uses;
            let kept = files.kept.get_mut(&name)?;
            kept.used = used;
            kept.open.clone()?
        };
        let changed = || {
            !open.is_copy() && open.last_write_time() != file::last_write_time(&self.context, name)
        };
        if !open.may_lack_bytes() && !changed() {
            return Some(open);
        }
        let mut files = self.files.lock();
        let kept = files.kept.get_mut(&name)?;
        let stale = kept.open.take_if(|one| Arc::ptr_eq(one, &open));
        drop(files);
        drop(stale);
        None
    }

    /// Keeps a file open and closes excess copies; returns `None` if it was hidden meanwhile.
    fn keep_open(
        &self,
        name: DerivedName,
        open: LoadedDerivedFile,
    ) -> Option<Arc<LoadedDerivedFile>> {
        let open = Arc::new(open);
        let mut files = self.files.lock();
        files.kept.get_mut(&name)?.open = Some(Arc::clone(&open));
        let is_copy =
            |kept: &&mut DerivedEntry| kept.open.as_ref().is_some_and(|open| open.is_copy());
        let mut copies: Vec<&mut DerivedEntry> = files.kept.values_mut().filter(is_copy).collect();
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
        Some(open)
    }

    /// Hides the files whose events match, tells their users to stop, and waits for them. The
    /// caller holds no lock: other threads open, create and destroy files meanwhile.
    ///
    /// # Errors
    /// A file stays in use for too long.
    pub(super) fn hide_and_wait(&self, filter: EventsFilter<'_>) -> io::Result<()> {
        self.read_names()?;
        self.hide(filter);
        let hidden = self.list_doomed(&|one| one.matches(filter));
        hidden.iter().filter_map(|one| one.usage.as_ref()).try_for_each(|usage| usage.wait_unused())
    }

    /// Removes the files whose events match, and remains of earlier ones: hides, overwrites and
    /// unlinks them. It does not wait for their users: see [`Self::hide_and_wait`].
    ///
    /// # Errors
    /// The first error of a file that matches or whose events are unknown.
    pub(super) fn destroy(&self, filter: EventsFilter<'_>) -> io::Result<()> {
        self.read_names()?;
        self.hide(filter);
        self.clear_doomed(&|one| one.matches(filter))
    }

    /// Removes one file; if it is in use, a later flush removes its bytes.
    pub(super) fn remove(&self, name: DerivedName) -> io::Result<()> {
        self.read_names()?;
        self.hide_file(name, false);
        self.clear_doomed(&|one| one.name == name && !one.is_used())
    }

    /// Removes the bytes of hidden files that are not in use.
    pub(super) fn sweep(&self) -> io::Result<()> {
        self.read_names()?;
        self.clear_doomed(&|one| !one.is_used())
    }

    /// Reads each file from the device, not the cache, and hides damaged ones, which are computed
    /// again. `rest` is called with the bytes of each file, and ends the round by `false`.
    pub(super) fn scrub(&self, rest: &dyn Fn(u64) -> bool) {
        let all: Vec<DerivedFile> =
            self.files.lock().kept.values().map(|kept| kept.file.clone()).collect();
        for DerivedFile { name, bytes, .. } in all {
            let user = self.files.lock().kept.get(&name).map(|kept| kept.usage.add_user());
            let Some(user) = user else { continue };
            let checked = file::check(&self.context, name);
            drop(user);
            if let Err(error) = checked.as_ref()
                && is_lost(error)
            {
                tracing::warn!(%name, %error, "a derived file is damaged; it is made anew");
                self.hide_file(name, true);
            }
            if !rest(bytes) {
                return;
            }
        }
    }

    /// Hides one file; if it is void, tells its users to stop.
    fn hide_file(&self, name: DerivedName, is_void: bool) {
        let mut files = self.files.lock();
        let Some(kept) = files.kept.remove(&name) else { return };
        if is_void {
            kept.usage.request_stop();
        }
        files.doomed.push(kept.to_doomed());
        drop(files);
        drop(kept);
    }

    /// Hides the files whose events match, and tells their users to stop.
    fn hide(&self, filter: EventsFilter<'_>) {
        let mut files = self.files.lock();
        let of_kept = |_: &DerivedName, kept: &mut DerivedEntry| filter(&kept.file.holds);
        let kept: Vec<_> = files.kept.extract_if(.., of_kept).collect();
        let of_made = |_: &DerivedName, made: &mut HeldAndUsage| filter(&made.0);
        let making: Vec<_> = files.making.extract_if(.., of_made).collect();
        files.doomed.extend(kept.iter().map(|(_, kept)| kept.to_doomed()));
        files.doomed.extend(making.iter().map(|(name, of)| doom_unfinished(*name, of)));
        let hidden = files.doomed.iter().filter(|one| one.matches(filter));
        hidden.filter_map(|one| one.usage.as_ref()).for_each(|usage| usage.request_stop());
        drop(files);
        drop(kept);
    }

    fn list_doomed(
        &self,
        filter: &dyn Fn(&HiddenDerivedFile) -> bool,
    ) -> Vec<Arc<HiddenDerivedFile>> {
        self.files.lock().doomed.iter().filter(|one| filter(one)).cloned().collect()
    }

    /// Overwrites and unlinks the hidden files that match; one that fails stays for a retry.
    fn clear_doomed(&self, filter: &dyn Fn(&HiddenDerivedFile) -> bool) -> io::Result<()> {
        let mut cleared = Ok(());
        for one in self.list_doomed(filter) {
            if let Err(error) = self.clear_file(&one) {
                tracing::warn!(name = %one.name, %error, "a derived file is left");
                cleared = cleared.and(Err(error));
            }
        }
        cleared
    }

    fn clear_file(&self, one: &Arc<HiddenDerivedFile>) -> io::Result<()> {
        if one.is_used() {
            return Err(held_open_error());
        }
        // Another thread may be removing it: then its bytes are gone once the lock is free.
        let mut gone = one.gone.lock();
        if !*gone {
            one.paths.iter().try_for_each(|path| file::zero_and_unlink(&self.context, path))?;
            *gone = true;
            self.files.lock().doomed.retain(|other| !Arc::ptr_eq(other, one));
        }
        Ok(())
    }
}

/// Returns a hidden file that was being created: its bytes may be under either name.
fn doom_unfinished(name: DerivedName, of: &HeldAndUsage) -> Arc<HiddenDerivedFile> {
    HiddenDerivedFile::new(name, vec![file::unfinished_path(name), file::path_of(name)], Some(of))
}

/// Returns true if a file changed or is missing; other errors may be temporary.
fn is_lost(error: &LogError) -> bool {
    match error {
        LogError::Fault { .. } => true,
        LogError::Io(error) => {
            concerns_one_file(error) || error.kind() == io::ErrorKind::InvalidData
        }
    }
}

//! The reserve of disk space, so that a deletion can be written on a full disk. It consists of a
//! few small files, because a full disk may lack space or inodes. All are removed when a deletion
//! or an erasure finds no space, and created again when space is free; until then the store accepts
//! no other writes. Some are lent to a start, whose socket needs an inode and, on XFS, free blocks.
//! It must not decide what is deleted.

use std::io;

use super::{
    super::{catalogue::reserve::is_storage_full, layout::RESERVE},
    Removal,
};
use crate::env::sync::atomic::Ordering;

/// Bytes of all its files: space for the tombstones of some thousand sessions and their flush.
const RESERVE_BYTES: u64 = 1 << 20;
/// Number of its files: inodes for a socket, two files of the journal, one of `settled/`, and as
/// many again. XFS creates a file only if twice the bytes of one of them are free.
const PIECES: u64 = 8;

/// Returns the paths of the files of the reserve.
fn reserve_paths() -> impl DoubleEndedIterator<Item = String> {
    let path =
        |number| if number == 0 { RESERVE.to_owned() } else { format!("{RESERVE}.{number}") };
    (0..PIECES).map(path)
}

impl Removal {
    /// Creates the missing files of the reserve. Without space the store runs without a reserve.
    pub(crate) fn fill_reserve(&self) {
        let reserve = &self.sessions.reserve;
        let _turn = reserve.lock();
        let stopped = self.context.closed.load(Ordering::Acquire)
            || self.context.frozen.load(Ordering::Acquire);
        if stopped || reserve.is_complete() {
            return;
        }
        match self.create_missing_files() {
            Ok(()) => {
                if reserve.mark_complete() {
                    self.sessions.journal.set_small_files(false);
                    tracing::info!("there is room again: the reserve is kept, appends are taken");
                }
            }
            Err(error) => tracing::debug!(%error, "no room is kept back for deletions"),
        }
    }

    /// Creates the missing files; those created before an error stay.
    fn create_missing_files(&self) -> io::Result<()> {
        let bytes = RESERVE_BYTES.min(self.context.options.journal_file_bytes).div_ceil(PIECES);
        let mut new = false;
        let made = reserve_paths().try_for_each(|path| {
            new |= self.create_piece(&path, bytes)?;
            Ok(())
        });
        // Otherwise a power loss on a full disk could lose the names, and the space.
        let synced = if new { self.context.env.storage.sync_dir("") } else { Ok(()) };
        made.and(synced)
    }

    /// Creates a file of the reserve if it is missing; returns whether it was.
    fn create_piece(&self, path: &str, bytes: u64) -> io::Result<bool> {
        let storage = &self.context.env.storage;
        let there = storage.open_read(path).and_then(|file| file.len());
        match there {
            Ok(length) if length >= bytes => return Ok(false),
            // The process was killed while it created the file.
            Ok(_) => storage.remove(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = storage.create(path)?;
        // Random bytes do not compress, so they take their space on any file system.
        let mut noise = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.context.env.entropy.fill(&mut noise);
        let made = file.write_at(0, &noise).and_then(|()| file.sync());
        made.map(|()| true).inspect_err(|_| {
            let _ = storage.remove(path);
        })
    }

    /// Removes one file of the reserve; returns whether it existed.
    fn remove_piece(&self, path: &str) -> bool {
        let removed = self.context.env.storage.remove(path);
        self.sessions.reserve.mark_incomplete();
        if let Err(error) = &removed {
            tracing::debug!(path, %error, "a part of the reserve is not given away");
        }
        removed.is_ok()
    }

    /// Releases the reserve to deletions and erasures, and refuses other writes; returns whether
    /// that changed anything.
    pub(crate) fn release_reserve(&self) -> bool {
        let reserve = &self.sessions.reserve;
        let _turn = reserve.lock();
        let removed = reserve_paths().filter(|path| self.remove_piece(path)).count();
        if !reserve.mark_released() {
            self.sessions.journal.set_small_files(true);
            tracing::warn!("the disk is full: the room kept back is given to deletions");
            return true;
        }
        removed > 0
    }

    /// Runs a function that creates a file; while it finds no space, removes one file of the
    /// reserve and retries. Then recreates the reserve as far as space allows.
    pub(crate) fn with_reserved_space(
        &self,
        make: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let turn = self.sessions.reserve.lock();
        let mut made = make();
        for path in reserve_paths().rev() {
            if !made.as_ref().is_err_and(is_storage_full) {
                break;
            }
            if self.remove_piece(&path) {
                made = make();
            }
        }
        drop(turn);
        self.fill_reserve();
        made
    }

    /// Allows only deletions to be flushed while the reserve is released to them: segments would
    /// use up the rest of it.
    ///
    /// # Errors
    /// `StorageFull` while the reserve is released.
    pub(crate) fn ensure_reserve(&self) -> io::Result<()> {
        if self.sessions.reserve.is_released() {
            self.free_deleted_space();
        }
        let given = self.sessions.reserve.is_released();
        if given { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Frees the space of deleted sessions on a full disk, where others cannot be flushed.
    pub(crate) fn free_deleted_space(&self) {
        let settled = match self.flush_deleted() {
            Err(error) if is_storage_full(&error) && self.release_reserve() => self.flush_deleted(),
            other => other,
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what a deletion frees is not free yet");
        }
        self.fill_reserve();
    }

    /// Flushes only the deleted sessions to both settled files: the others may need the space that
    /// these free.
    fn flush_deleted(&self) -> io::Result<()> {
        let _flushing = self.segments.flushing.lock();
        self.context.check_writable()?;
        let mut dirty = self.sessions.backlog.take_dirty();
        dirty.retain(|session| !self.sessions.drop_discarded(session));
        self.sessions.backlog.return_dirty(dirty);
        self.sessions.mark_changed_entries();
        (0..2).try_for_each(|_| self.sessions.write_settled())?;
        self.segments.unlink_retired();
        Ok(())
    }
}

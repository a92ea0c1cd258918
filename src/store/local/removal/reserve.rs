//! The room kept back, so that a deletion can be written on a full disk. The reserve is a few small
//! files, because a full disk may lack space or inodes. All are given away when a deletion or an
//! erasure finds no room, and made again when there is some; until then the store takes nothing
//! else. Some are lent to a start, whose socket needs an inode and, on XFS, free blocks. It must
//! not decide what is deleted.

use std::io;

use super::{
    super::{catalogue::reserve::is_full, layout::RESERVE},
    Removal,
};
use crate::env::sync::atomic::Ordering;

/// Room for the tombstones of some thousand sessions and what makes them known, in all files.
const RESERVE_BYTES: u64 = 1 << 20;
/// Its files: inodes for a socket, for two files of the journal, for one of `settled/`, and as many
/// again. XFS makes a file only where twice the bytes of one of them are free.
const PIECES: u64 = 8;

/// Paths of the files of the reserve.
fn pieces() -> impl DoubleEndedIterator<Item = String> {
    let path =
        |number| if number == 0 { RESERVE.to_owned() } else { format!("{RESERVE}.{number}") };
    (0..PIECES).map(path)
}

impl Removal {
    /// Makes what is missing of the reserve. Where there is no room the store does without.
    pub(crate) fn keep_reserve(&self) {
        let reserve = &self.sessions.reserve;
        let _turn = reserve.turn();
        let stopped = self.context.closed.load(Ordering::Acquire)
            || self.context.frozen.load(Ordering::Acquire);
        if stopped || reserve.is_kept() {
            return;
        }
        match self.make_reserve() {
            Ok(()) => {
                if reserve.keep() {
                    self.sessions.journal.set_small_files(false);
                    tracing::info!("there is room again: the reserve is kept, appends are taken");
                }
            }
            Err(error) => tracing::debug!(%error, "no room is kept back for deletions"),
        }
    }

    /// Makes the missing files; those made before an error stay.
    fn make_reserve(&self) -> io::Result<()> {
        let bytes = RESERVE_BYTES.min(self.context.options.journal_file_bytes).div_ceil(PIECES);
        let mut new = false;
        let made = pieces().try_for_each(|path| {
            new |= self.make_piece(&path, bytes)?;
            Ok(())
        });
        // Else a power loss on a full disk could take the names, and the room with them.
        let synced = if new { self.context.env.storage.sync_dir("") } else { Ok(()) };
        made.and(synced)
    }

    /// Makes a file of the reserve unless it is there; returns whether it was not.
    fn make_piece(&self, path: &str, bytes: u64) -> io::Result<bool> {
        let storage = &self.context.env.storage;
        let there = storage.open_read(path).and_then(|file| file.len());
        match there {
            Ok(length) if length >= bytes => return Ok(false),
            // A start was killed while it made it.
            Ok(_) => storage.remove(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = storage.create(path)?;
        // What does not compress takes its room on any file system.
        let mut noise = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.context.env.entropy.fill(&mut noise);
        let made = file.write_at(0, &noise).and_then(|()| file.sync());
        made.map(|()| true).inspect_err(|_| {
            let _ = storage.remove(path);
        })
    }

    /// Removes one file of the reserve; returns whether it was there.
    fn give_piece(&self, path: &str) -> bool {
        let removed = self.context.env.storage.remove(path);
        self.sessions.reserve.lose_a_file();
        if let Err(error) = &removed {
            tracing::debug!(path, %error, "a part of the reserve is not given away");
        }
        removed.is_ok()
    }

    /// Gives the reserve to deletions and erasures, with whatever room there is besides; answers
    /// whether that changed anything.
    pub(crate) fn give_reserve(&self) -> bool {
        let reserve = &self.sessions.reserve;
        let _turn = reserve.turn();
        let removed = pieces().filter(|path| self.give_piece(path)).count();
        if !reserve.give() {
            self.sessions.journal.set_small_files(true);
            tracing::warn!("the disk is full: the room kept back is given to deletions");
            return true;
        }
        removed > 0
    }

    /// Runs what makes a file, again and again with one more file of the reserve removed while it
    /// finds no room; then makes of the reserve what there is room for.
    pub(crate) fn with_room(&self, make: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let turn = self.sessions.reserve.turn();
        let mut made = make();
        for path in pieces().rev() {
            if !made.as_ref().is_err_and(is_full) {
                break;
            }
            if self.give_piece(&path) {
                made = make();
            }
        }
        drop(turn);
        self.keep_reserve();
        made
    }

    /// Lets nothing be flushed but deletions while the room kept back is theirs: segments would
    /// take what is left of it.
    ///
    /// # Errors
    /// That the disk is full.
    pub(crate) fn leave_room(&self) -> io::Result<()> {
        if self.sessions.reserve.is_given() {
            self.make_room();
        }
        let given = self.sessions.reserve.is_given();
        if given { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Frees what deleted sessions had, although nothing else can be flushed for want of room.
    pub(crate) fn make_room(&self) {
        let settled = match self.flush_deleted() {
            Err(error) if is_full(&error) && self.give_reserve() => self.flush_deleted(),
            other => other,
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what a deletion frees is not free yet");
        }
        self.keep_reserve();
    }

    /// Flushes the sessions that were deleted, and no other, into both files: what the others wait
    /// for may need room that only these have.
    fn flush_deleted(&self) -> io::Result<()> {
        let _flushing = self.segments.flushing.lock();
        self.context.check_writable()?;
        let mut dirty = self.sessions.backlog.take_dirty();
        dirty.retain(|session| !self.sessions.forget_frames(session));
        self.sessions.backlog.return_dirty(dirty);
        self.sessions.touch_settled();
        (0..2).try_for_each(|_| self.sessions.write_settled())?;
        self.segments.unlink_retired();
        Ok(())
    }
}

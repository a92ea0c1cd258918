//! The baseline of a lasting load: groups of events made durable one after the other in one zeroed
//! file, and copied to a file of each session when due, by plain calls. The engine's ratio of many
//! sessions to one cannot be better. It must not share code with the engine except the traits of
//! `env`.

use std::io;

use super::{
    cell::{Cell, Group, Limits, Load, Prepared, Round},
    failure::Outcome,
    floor::{FILE_BYTES, zeroed_file},
    sample::EVENT_BYTES,
    site::Site,
};
use sessionlog::env::{
    Env, File,
    sync::{Condvar, Mutex, MutexGuard},
};

pub(super) const CELLS: &[Cell] = &[
    Cell::durable(Group::Floor, "floor.lasting.64", "64 events a group, then one file", 1, 1, one),
    Cell::durable(Group::Floor, "floor.lasting.64.sessions", "then a file each", 1, 1, many),
];

/// Number of events made durable at once: as many as 64 writers have in a round, while the other
/// writers receive the responses of the previous round.
const GROUP_EVENTS: usize = 32;
/// Maximum bytes pending to be copied, the engine's default.
const ROOM_BYTES: u64 = 256 << 20;
/// Maximum sessions whose copy starts at an eighth of the capacity; with more it starts at half.
const FEW_SESSIONS_MAX: usize = 32;
/// Bytes of one write.
const PIECE_BYTES: usize = 256 << 10;
/// Number of directories for the files.
const DIRECTORIES: usize = 256;

fn one(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 1)
}

fn many(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, site.settings.sessions)
}

fn prepare(site: &mut Site, cell: &Cell, sessions: usize) -> Prepared {
    let env = site.env(cell.id)?;
    let journal = zeroed_file(&env)?;
    (0..DIRECTORIES).try_for_each(|number| env.storage.create_dir(&format!("{number:02x}")))?;
    for session in 0..sessions {
        env.storage.create(&file_path(session))?;
    }
    env.storage.sync_all()?;
    let (bytes, ends) = (site.settings.lasting_bytes, vec![0; sessions]);
    let mut samples = site.samples.clone();
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    while piece.len() < PIECE_BYTES {
        piece.extend_from_slice(&samples.next().json);
    }
    Ok(Some(Box::new(Lasting { env, journal, bytes, piece, ends: Mutex::from(ends) })))
}

fn file_path(session: usize) -> String {
    format!("{:02x}/{session}", session % DIRECTORIES)
}

struct Lasting {
    env: Env,
    journal: Box<dyn File>,
    /// Bytes of a round.
    bytes: u64,
    /// Encoded events, concatenated.
    piece: Vec<u8>,
    /// End of each session's file.
    ends: Mutex<Vec<u64>>,
}

/// Progress of a round.
#[derive(Default)]
struct Progress {
    written: u64,
    copied: u64,
    /// True once nothing more is written.
    over: bool,
    failed: bool,
}

struct Turn {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Turn {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Waits until a condition holds, or the other side ends.
    fn until(&self, is_so: impl Fn(&Progress) -> bool) -> MutexGuard<'_, Progress> {
        let mut progress = self.progress();
        while !(is_so(&progress) || progress.over || progress.failed) {
            progress = self.changed.wait(progress);
        }
        progress
    }

    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.changed.notify_all();
    }
}

impl Lasting {
    fn write(&self, turn: &Turn, limits: &Limits) -> io::Result<Round> {
        const GROUP_BYTES: u64 = (GROUP_EVENTS * EVENT_BYTES) as u64;
        let group = self.piece.get(..GROUP_EVENTS * EVENT_BYTES).unwrap_or_default();
        let (mut round, mut at) = (Round::default(), 0);
        let mut asked = self.env.clock.monotonic();
        for _ in 0..self.bytes / GROUP_BYTES {
            let room = turn.until(|so_far| so_far.written - so_far.copied < ROOM_BYTES);
            if room.failed || limits.stopped() {
                break;
            }
            drop(room);
            at = if at + GROUP_BYTES > FILE_BYTES { 0 } else { at };
            self.journal.write_durably(at, group)?;
            at += GROUP_BYTES;
            turn.tell(|so_far| so_far.written += GROUP_BYTES);
            let now = self.env.clock.monotonic();
            round.add(GROUP_EVENTS as u64, now.saturating_sub(asked));
            asked = now;
        }
        Ok(round)
    }

    /// Copies pending bytes whenever enough are pending, until all are copied.
    fn copy_pending(&self, turn: &Turn) -> io::Result<()> {
        let mut ends = self.ends.lock();
        let few = ends.len() <= FEW_SESSIONS_MAX;
        let due = if few { ROOM_BYTES / 8 } else { ROOM_BYTES / 2 };
        loop {
            let so_far = turn.until(|so_far| so_far.written - so_far.copied >= due);
            let waits = so_far.written - so_far.copied;
            if waits == 0 {
                return Ok(());
            }
            drop(so_far);
            let each = waits / ends.len() as u64;
            for (session, end) in ends.iter_mut().enumerate() {
                let file = self.env.storage.open(&file_path(session))?;
                let behind = *end + each;
                while *end < behind {
                    let bytes = (PIECE_BYTES as u64).min(behind - *end);
                    let piece =
                        usize::try_from(bytes).ok().and_then(|bytes| self.piece.get(..bytes));
                    file.write_at(*end, piece.unwrap_or_default())?;
                    file.start_writeback(*end, bytes);
                    *end += bytes;
                }
                if few {
                    file.sync()?;
                }
            }
            if !few {
                self.env.storage.sync_all()?;
            }
            turn.tell(|so_far| so_far.copied += waits);
        }
    }
}

impl Load for Lasting {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let turn = Turn { progress: Mutex::default(), changed: Condvar::new() };
        let began = self.env.clock.monotonic();
        let (written, copied) = std::thread::scope(|scope| {
            let copier = scope.spawn(|| {
                let copied = self.copy_pending(&turn);
                turn.tell(|so_far| so_far.failed |= copied.is_err());
                copied
            });
            let written = self.write(&turn, limits);
            turn.tell(|so_far| so_far.over = true);
            (written, copier.join().unwrap_or_else(|_| Err(io::Error::other("a copier panicked"))))
        });
        copied?;
        let mut round = written?;
        round.elapsed = self.env.clock.monotonic().saturating_sub(began);
        Ok(round)
    }
}

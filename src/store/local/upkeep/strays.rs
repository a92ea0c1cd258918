//! Stray files: segments that no entry names, because of a crash after a sealed one replaced them
//! and before they were unlinked, or before `settled/` named what a flush wrote. The scrubber
//! unlinks them once no start can need them: only those of earlier starts, when both settled files
//! cover all that those starts wrote to the journal. It must not unlink a file of a session with
//! damage.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::super::{
    layout::SEGMENTS,
    session::{LoadedSession, hash_of},
};
use super::Upkeep;
use crate::{
    env::sync::atomic::Ordering,
    event::{Lsn, Position, SessionHash},
    log::{Entry, SegmentEntry, segment},
};

/// Evicted sessions examined per lock of the catalogue.
const LOOKS_AT_ONCE: usize = 500;
/// Maximum strays unlinked in one round.
const STRAYS_MAX: usize = 10_000;

/// Digests of the sessions and files seen in a round of the scrubber, eight bytes each. If two
/// collide, a stray stays.
#[derive(Default)]
pub(crate) struct SeenNames {
    sessions: Vec<u64>,
    files: Vec<u64>,
}

/// File that no session named when the round visited it.
struct StrayFile {
    session: SessionHash,
    path: String,
    /// True if no session has that hash.
    ownerless: bool,
}

/// Returns the first eight bytes of a hash.
fn digest_prefix(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

fn path_digest(path: &str) -> u64 {
    digest_prefix(&segment::name_hash(path))
}

impl SeenNames {
    /// Adds a session and its files.
    pub(crate) fn add(&mut self, session: &LoadedSession) {
        self.sessions.push(digest_prefix(&session.hash.0));
        let mut state = session.state();
        for entry in state.entries_mut() {
            let paths = entry.segments.iter().map(|one| segment_path(session.hash, one));
            self.files.extend(paths.map(|path| path_digest(&path)));
        }
    }

    fn contains(seen: &[u64], mark: u64) -> bool {
        seen.binary_search(&mark).is_ok()
    }
}

fn segment_path(session: SessionHash, one: &SegmentEntry) -> String {
    segment::path(session, Position(one.base), one.start, one.sealed)
}

impl Upkeep {
    /// Unlinks the strays that no session named during a whole round of the scrubber.
    pub(crate) fn unlink_strays(&self, mut seen: SeenNames) -> io::Result<u64> {
        let lost = !self.recovery.damage.is_empty() || self.context.frozen.load(Ordering::Acquire);
        // Otherwise a lost frame of the journal may have its only copy in such a file.
        let needed = self.sessions.recyclable_before().order <= self.segments.orders_before;
        if lost || needed || self.segments.pins.is_held() {
            return Ok(0);
        }
        seen.sessions.sort_unstable();
        seen.files.sort_unstable();
        let strays = self.find_strays(&seen)?;
        let known = strays.iter().filter(|stray| !stray.ownerless).map(|stray| stray.session);
        let sessions = self.sessions_by_hash(&known.collect());
        let mut gone = 0;
        for stray in strays {
            let _flushing = self.segments.flushing.lock();
            let free = match sessions.get(&stray.session) {
                None => stray.ownerless,
                Some(session) => self.is_unneeded(session, &stray),
            };
            if free && !self.context.closed.load(Ordering::Acquire) {
                self.context.env.storage.remove(&stray.path)?;
                tracing::info!(path = stray.path, "a file that a crash left is unlinked");
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Returns the files of earlier starts that no entry names.
    fn find_strays(&self, seen: &SeenNames) -> io::Result<Vec<StrayFile>> {
        let (storage, start) = (&self.context.env.storage, self.sessions.journal.start_number());
        let mut strays = Vec::new();
        for directory in storage.list(SEGMENTS)? {
            let directory = format!("{SEGMENTS}/{}", directory.name);
            for file in storage.list(&directory)? {
                let path = format!("{directory}/{}", file.name);
                let Some((session, of_start)) = segment::parse_name(&file.name) else { continue };
                if of_start < start && !SeenNames::contains(&seen.files, path_digest(&path)) {
                    let ownerless = !SeenNames::contains(&seen.sessions, digest_prefix(&session.0));
                    strays.push(StrayFile { session, path, ownerless });
                }
                if strays.len() >= STRAYS_MAX {
                    return Ok(strays);
                }
            }
        }
        Ok(strays)
    }

    /// Returns the sessions with these hashes; one that is evicted meanwhile may be missed.
    fn sessions_by_hash(
        &self,
        hashes: &BTreeSet<SessionHash>,
    ) -> BTreeMap<SessionHash, Arc<LoadedSession>> {
        let mut found: Vec<_> = self.sessions.catalogue().all_loaded();
        let wanted = |entry: Entry| hash_of(&entry).is_some_and(|hash| hashes.contains(&hash));
        let mut after = None;
        while !hashes.is_empty() {
            let (keys, stopped) = self.sessions.catalogue().find_evicted(
                after.as_ref(),
                LOOKS_AT_ONCE,
                usize::MAX,
                &wanted,
            );
            found.extend(keys.iter().filter_map(|key| self.sessions.session(key).ok()));
            after = stopped;
            if after.is_none() {
                break;
            }
        }
        found.retain(|session| hashes.contains(&session.hash));
        found.into_iter().map(|session| (session.hash, session)).collect()
    }

    /// Returns true if both settled files show that a session no longer needs a file.
    fn is_unneeded(&self, session: &LoadedSession, stray: &StrayFile) -> bool {
        let (named, whole) = {
            let state = session.state();
            let mut names = state.entry.segments.iter();
            let named = names.any(|one| segment_path(session.hash, one) == stray.path);
            (named, state.is_flushed() && !state.is_busy() && state.entry.damage.is_empty())
        };
        let backlog = &self.sessions.backlog;
        let waits = backlog.has_pending_work(session.hash) || backlog.is_retired(&stray.path);
        !named && whole && !waits && self.sessions.both_contain(session.hash, Lsn(0))
    }
}

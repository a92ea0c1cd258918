//! The scrubber: reads everything that a start would need, from the device and not from the cache,
//! to find bit rot while a good copy exists: `settled/` and the journal are rewritten from memory.
//! It must not starve other users of the disk.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use super::super::{
    journal::place::JournalLocation, layout::journal_path, removal::past::DamagedJournalFile,
    wait::WaitOutcome,
};
use super::{Upkeep, strays::SeenNames};
use crate::{
    env::{File, sync::atomic::Ordering},
    event::SessionKey,
    log::{
        Fault,
        frame::HEADER_BYTES,
        journal::{FRAMES_AT, JournalHeader, read_header_copies},
        reading::read_with_holes,
        scan::{ScanPiece, WATERMARK_ALIGN_BYTES, walk_file},
    },
    store::{ScrubResult, VerifyResult},
};

/// Journal file that a start would read.
struct NeededFile {
    number: u32,
    file: Box<dyn File>,
    /// Header from the first copy that is whole; the other flag tells whether both are.
    header: Option<JournalHeader>,
    both: bool,
}

/// Maximum bytes per second that a background scrub reads, on average.
const BYTES_PER_SECOND: u64 = 16 << 20;

impl Upkeep {
    /// Reads sessions, settled files, keys and journal once; throttled with `paced`.
    pub(crate) fn scrub(&self, paced: bool) {
        let mut round = ScrubResult::default();
        for what in self.sessions.check_settled() {
            tracing::error!(what, "a settled file is damaged; it is written anew");
            round.found.push(what);
        }
        self.scrub_keys(&mut round);
        self.scrub_journal(&mut round);
        let mut seen = SeenNames::default();
        let scopes = self.sessions.catalogue().scopes();
        for scope in scopes {
            let sessions = self.sessions.catalogue().session_ids(&scope);
            for session in sessions {
                if self.scrubber.is_stopped() || self.context.closed.load(Ordering::Acquire) {
                    return;
                }
                let mut verified = VerifyResult::default();
                let key = SessionKey { scope: scope.clone(), session };
                // Deleted or removed meanwhile: not read.
                let Ok(session) = self.sessions.session(&key) else { continue };
                seen.add(&session);
                let Ok(_) = self.segments.verify_session(&session, &mut verified, None) else {
                    continue;
                };
                round.sessions += verified.sessions;
                round.bytes += verified.bytes;
                for (key, gap) in verified.damage {
                    let (session, range) = (&key.session, gap.range);
                    round.found.push(format!("session {session}, {range}: {}", gap.reason));
                }
                if paced {
                    self.throttle(verified.bytes);
                }
            }
        }
        let rest = |bytes: u64| {
            if paced {
                self.throttle(bytes);
            }
            !(self.scrubber.is_stopped() || self.context.closed.load(Ordering::Acquire))
        };
        self.segments.derived_files.scrub(&rest);
        if let Err(error) = self.unlink_strays(seen) {
            tracing::warn!(%error, "a file that a crash left could not be unlinked");
        }
        round.rounds = self.scrubbed.lock().rounds + 1;
        tracing::info!(sessions = round.sessions, bytes = round.bytes, "everything was read once");
        *self.scrubbed.lock() = round;
    }

    /// Checks both files of keys.
    fn scrub_keys(&self, round: &mut ScrubResult) {
        let _turn = self.repairing.lock();
        for what in self.context.keys.check_files(self.context.check_writable().is_ok()) {
            tracing::error!(what, "a file of keys is damaged");
            round.found.push(what);
        }
    }

    /// Checks the files of the journal that a start would read. If one is damaged, flushes
    /// everything from memory and starts a new file, so that no start needs it.
    fn scrub_journal(&self, round: &mut ScrubResult) {
        if self.context.frozen.load(Ordering::Acquire) {
            // The journal files are evidence and must not change.
            return;
        }
        let place = self.sessions.recyclable_before();
        let end = self.sessions.journal.visible_location();
        let found = match self.find_damaged_files(place, end, round) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the journal could not be read back");
                round.found.push(format!("the journal could not be read back: {error}"));
                return;
            }
        };
        // A file freed meanwhile may have been rewritten while it was read.
        let free = self.sessions.recyclable_before().order;
        let found: Vec<_> = found.into_iter().filter(|rot| rot.order >= free).collect();
        if found.is_empty() {
            return;
        }
        let made_good = self.removal.switch_journal_file(&found);
        for DamagedJournalFile { what, .. } in found {
            let then = match &made_good {
                Ok(()) => "settled from memory, nothing is lost".to_owned(),
                Err(error) => format!("memory has what it held, but cannot settle it: {error}"),
            };
            tracing::error!(what, then, "a file of the journal is damaged");
            round.found.push(format!("{what}; {then}"));
        }
    }

    /// Returns the faults of the files of the journal from `place` to `end`.
    fn find_damaged_files(
        &self,
        place: JournalLocation,
        end: JournalLocation,
        round: &mut ScrubResult,
    ) -> io::Result<Vec<DamagedJournalFile>> {
        let mut needed = BTreeMap::new();
        for (number, order) in self.sessions.journal.used_files() {
            if order >= place.order.max(1) && order <= end.order {
                let file = self.context.env.storage.open_read(&journal_path(number))?;
                file.evict()?;
                let [first, second] = read_header_copies(&*file)?;
                let both = first.is_some() && second.is_some();
                needed.insert(order, NeededFile { number, file, header: first.or(second), both });
            }
        }
        let mut found = Vec::new();
        let ends: BTreeMap<u64, u64> = needed
            .values()
            .filter_map(|one| one.header.as_ref())
            .map(|header| (header.previous_order, header.previous_end))
            .collect();
        for (order, one) in needed {
            let path = journal_path(one.number);
            let last = (order == end.order).then_some(end.byte_offset);
            let to = last.or(ends.get(&order).copied());
            let headless = one.header.is_none();
            let mut tell =
                |what| found.push(DamagedJournalFile { number: one.number, order, what, headless });
            if !one.both {
                let which = if headless { "its header" } else { "a copy of its header" };
                tell(format!("{path}: {which} is damaged"));
            }
            // A use that failed before a frame of it was acknowledged has no end.
            let (Some(header), Some(to)) = (one.header, to) else { continue };
            // No start reads what is before the location: payloads there may be zeroed.
            let first = place.order == order;
            let from = if first { place.byte_offset.max(FRAMES_AT) } else { FRAMES_AT };
            let mut wrong = None;
            let take = &mut |piece| {
                if let ScanPiece::Bad { byte_offset, fault, .. } = piece {
                    wrong.get_or_insert((byte_offset, fault));
                }
            };
            let (whole, rest) = walk_file(&*one.file, header.salt, (from, to), take)?;
            round.bytes += to.saturating_sub(from);
            let found = wrong.or(rest.map(|fault| (whole, fault)));
            // A start searches for frames where they may continue.
            let sought = to.next_multiple_of(WATERMARK_ALIGN_BYTES) + HEADER_BYTES as u64;
            let unread =
                last.is_some() && read_with_holes(&*one.file, to, sought)?.holes.has_pages();
            if let Some((at, fault)) = found.or(unread.then_some((to, Fault::Unreadable))) {
                tell(format!("{path} at byte {at}: {fault}"));
            }
        }
        Ok(found)
    }

    /// Throttles the scrub to `BYTES_PER_SECOND`.
    fn throttle(&self, bytes: u64) {
        let pause = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND);
        self.wait_to_scrub(pause);
    }

    /// Waits for `pause`; returns false if the store is closing.
    fn wait_to_scrub(&self, pause: Duration) -> bool {
        self.scrubber.pause(pause) != WaitOutcome::Stopped
    }

    /// Runs the scrub thread: scrubs once per interval, the first time after one interval.
    pub(crate) fn scrub_in_background(self: Arc<Self>) {
        while self.wait_to_scrub(self.context.options.scrub_every) {
            self.scrub(true);
        }
    }
}

//! The settled files as the other parts of the engine use them: each method locks them for one
//! operation. It must not decide what is flushed.

use std::io;

use super::{super::journal::place::JournalLocation, sessions::Sessions};
use crate::{
    event::{Lsn, SessionHash},
    log::Delta,
    store::lifetime::LifetimeClockState,
};

impl Sessions {
    /// Builds the delta of a settled file up to the journal location `place`, without entries.
    pub(crate) fn build_delta(
        &self,
        clean: bool,
        place: JournalLocation,
        count: LifetimeClockState,
    ) -> Delta {
        Delta {
            clean,
            start: self.journal.start_number(),
            order: place.order,
            byte_offset: place.byte_offset,
            lsn: place.lsn.0,
            at: self.context.env.clock.now().0,
            counted: count.counted.0,
            seen: count.seen.0,
            entries: Vec::new(),
        }
    }

    /// Writes the older settled file: everything before `place` is flushed, and journal files
    /// before the older file's place become free. A `clean` store needs no replay.
    pub(crate) fn flush_to(&self, clean: bool, place: JournalLocation) -> io::Result<()> {
        let count = self.context.count_state();
        let delta = self.build_delta(clean, place, count);
        let mut slots = self.slots.lock();
        slots.write_older(&self.context.env, delta, &|visit| {
            self.catalogue().for_each_flushed(visit)
        })?;
        self.context.count.mark_stored(count);
        self.journal.recycle(slots.recyclable_before().order);
        Ok(())
    }

    /// Writes the older settled file with the changed entries; the flushed location of the journal
    /// stays.
    pub(crate) fn write_settled(&self) -> io::Result<()> {
        let mut slots = self.slots.lock();
        let (place, count) = (slots.latest_location(), self.context.count_state());
        let delta = self.build_delta(false, place, count);
        slots.write_older(&self.context.env, delta, &|visit| {
            self.catalogue().for_each_flushed(visit)
        })?;
        self.context.count.mark_stored(count);
        Ok(())
    }

    /// Marks changed entries for the next write of either settled file.
    pub(crate) fn mark_changed_entries(&self) {
        let mut slots = self.slots.lock();
        for session in self.backlog.take_touched() {
            slots.mark_changed(&session);
        }
    }

    /// Schedules a rewrite of both settled files from a new base, by the next two flushes.
    pub(crate) fn schedule_settled_rewrite(&self) {
        self.slots.lock().schedule_rewrite();
    }

    /// Reads both settled files back from the device; returns their faults.
    pub(crate) fn check_settled(&self) -> Vec<String> {
        self.slots.lock().check_files(&self.context.env)
    }

    /// Returns true if both settled files name everything flushed so far.
    pub(crate) fn settled_is_current(&self) -> bool {
        self.slots.lock().are_current()
    }

    /// Returns the location in the journal that the newer settled file names.
    pub(crate) fn settled_location(&self) -> JournalLocation {
        self.slots.lock().latest_location()
    }

    /// Returns the location in the journal before which everything is flushed in both files.
    pub(crate) fn recyclable_before(&self) -> JournalLocation {
        self.slots.lock().recyclable_before()
    }

    /// Returns the generation that both settled files have, or a later one.
    pub(crate) fn settled_generation(&self) -> u64 {
        self.slots.lock().settled_generation()
    }

    /// Returns true if both settled files have the session's state, and no start reads the journal
    /// before `behind`.
    pub(crate) fn both_contain(&self, session: SessionHash, behind: Lsn) -> bool {
        self.slots.lock().both_contain(session, behind)
    }
}

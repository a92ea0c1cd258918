//! The settled files as the other parts of the engine use them: each method locks them for one
//! operation. It must not decide what is flushed.

use std::io;

use super::{super::journal::place::JournalPlace, sessions::Sessions};
use crate::{
    event::{Lsn, SessionHash},
    log::Delta,
    store::lifetime::CountState,
};

impl Sessions {
    /// Builds the delta of a settled file up to the journal location `place`, without entries.
    pub(crate) fn delta(&self, clean: bool, place: JournalPlace, count: CountState) -> Delta {
        Delta {
            clean,
            start: self.journal.start(),
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
    pub(crate) fn flush_to(&self, clean: bool, place: JournalPlace) -> io::Result<()> {
        let count = self.context.count_state();
        let delta = self.delta(clean, place, count);
        let mut slots = self.slots.lock();
        slots.write(&self.context.env, delta, &|take| self.catalogue().each_settled(take))?;
        self.context.count.keep(count);
        self.journal.recycle(slots.recyclable().order);
        Ok(())
    }

    /// Writes the older settled file with the changed entries; the flushed location of the journal
    /// stays.
    pub(crate) fn write_settled(&self) -> io::Result<()> {
        let mut slots = self.slots.lock();
        let (place, count) = (slots.latest(), self.context.count_state());
        let delta = self.delta(false, place, count);
        slots.write(&self.context.env, delta, &|take| self.catalogue().each_settled(take))?;
        self.context.count.keep(count);
        Ok(())
    }

    /// Marks changed entries for the next write of either settled file.
    pub(crate) fn touch_settled(&self) {
        let mut slots = self.slots.lock();
        for session in self.backlog.take_touched() {
            slots.touch(&session);
        }
    }

    /// Schedules a rewrite of both settled files from a new base, by the next two flushes.
    pub(crate) fn spoil_settled(&self) {
        self.slots.lock().rewrite_both();
    }

    /// Reads both settled files back from the device; returns their faults.
    pub(crate) fn check_settled(&self) -> Vec<String> {
        self.slots.lock().check(&self.context.env)
    }

    /// Returns true if both settled files name everything flushed so far.
    pub(crate) fn is_even(&self) -> bool {
        self.slots.lock().are_even()
    }

    /// Returns the location in the journal that the newer settled file names.
    pub(crate) fn settled_place(&self) -> JournalPlace {
        self.slots.lock().latest()
    }

    /// Returns the location in the journal before which everything is flushed in both files.
    pub(crate) fn recyclable(&self) -> JournalPlace {
        self.slots.lock().recyclable()
    }

    /// Returns the generation that both settled files have, or a later one.
    pub(crate) fn settled_generation(&self) -> u64 {
        self.slots.lock().settled_generation()
    }

    /// Returns true if both settled files have the session's state, and no start reads the journal
    /// before `behind`.
    pub(crate) fn both_have(&self, session: SessionHash, behind: Lsn) -> bool {
        self.slots.lock().both_have(session, behind)
    }
}

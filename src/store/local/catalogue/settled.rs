//! The settled files as the other parts of the engine use them: each method takes their lock, does
//! one thing, and lets it go. It must not decide what is flushed.

use std::io;

use super::{super::journal::place::JournalPlace, sessions::Sessions};
use crate::{
    event::{Lsn, SessionHash},
    log::Delta,
    store::lifetime::CountState,
};

impl Sessions {
    /// Builds the delta of a settled file up to `place`, without its entries.
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

    /// Writes the older settled file: everything before this place of the journal is flushed, and
    /// files before the older place are free. What is `clean` needs no replay.
    pub(crate) fn flush_to(&self, clean: bool, place: JournalPlace) -> io::Result<()> {
        let count = self.context.count_state();
        let delta = self.delta(clean, place, count);
        let mut slots = self.slots.lock();
        slots.write(&self.context.env, delta, &|take| self.catalogue().each_settled(take))?;
        self.context.count.keep(count);
        self.journal.recycle(slots.recyclable().order);
        Ok(())
    }

    /// Writes the older settled file with what is known of sessions but for their frames: the
    /// journal's place stays.
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

    /// Has both settled files written from a new base by the next two flushes.
    pub(crate) fn spoil_settled(&self) {
        self.slots.lock().rewrite_both();
    }

    /// Reads both settled files back from the device; returns what is wrong with them.
    pub(crate) fn check_settled(&self) -> Vec<String> {
        self.slots.lock().check(&self.context.env)
    }

    /// True if both settled files name everything flushed so far.
    pub(crate) fn is_even(&self) -> bool {
        self.slots.lock().are_even()
    }

    /// The place of the journal that the younger settled file names.
    pub(crate) fn settled_place(&self) -> JournalPlace {
        self.slots.lock().latest()
    }

    /// Everything before this place of the journal is flushed in both files.
    pub(crate) fn recyclable(&self) -> JournalPlace {
        self.slots.lock().recyclable()
    }

    /// The generation that both settled files have, or a later one.
    pub(crate) fn settled_generation(&self) -> u64 {
        self.slots.lock().settled_generation()
    }

    /// True if both settled files know the session's state, and no start reads the journal before
    /// `behind`.
    pub(crate) fn both_have(&self, session: SessionHash, behind: Lsn) -> bool {
        self.slots.lock().both_have(session, behind)
    }
}

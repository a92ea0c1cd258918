//! Flushing past a place of the journal, so that no start reads what is before it: a file there is
//! damaged, or bytes in it must go. It must not decide that.

use std::io;

use super::{
    super::{journal::ring, layout::journal_path},
    Removal,
};

/// A damaged place of the journal.
pub(crate) struct Rot {
    pub(crate) number: u32,
    /// Number of that use among all uses of journal files.
    pub(crate) order: u64,
    pub(crate) what: String,
    /// Neither copy of the file's header is whole.
    pub(crate) headless: bool,
}

impl Removal {
    /// Flushes everything whole before the current file of the journal, which is a new one, into
    /// both files.
    pub(crate) fn flush_past(&self) -> io::Result<()> {
        self.sessions.journal.begin(&*self.sessions)?;
        let begun = self.sessions.journal.place().order;
        self.leave_room()?;
        self.sessions.spoil_settled();
        // No more than that: what an erasure left to be done would write them as they were.
        (0..2).try_for_each(|_| self.segments.flush_frames(false, false))?;
        if self.sessions.recyclable().order < begun {
            return Err(io::Error::other(
                "a session cannot be settled: its journal files are needed",
            ));
        }
        Ok(())
    }

    /// Continues in a new file of the journal, flushes what is before it, and makes files anew of
    /// which no start could tell what they are.
    pub(crate) fn leave_journal(&self, found: &[Rot]) -> io::Result<()> {
        found.iter().for_each(|rot| self.sessions.journal.condemn(rot.number));
        self.sessions.journal.switch_file(&*self.sessions)?;
        self.flush_past()?;
        found.iter().filter(|rot| rot.headless).try_for_each(|rot| {
            let bytes = self.context.env.storage.open_read(&journal_path(rot.number))?.len()?;
            ring::fill(&self.context.env, rot.number, bytes)
        })
    }
}

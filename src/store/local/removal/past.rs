//! Flushing past a location of the journal, so that no start reads the files before it, which are
//! damaged or have bytes to be zeroed. It must not search for damage.

use std::io;

use super::{
    super::{journal::ring, layout::journal_path},
    Removal,
};

/// Damaged file of the journal.
pub(crate) struct Rot {
    pub(crate) number: u32,
    /// Order of its use among all uses of journal files.
    pub(crate) order: u64,
    pub(crate) what: String,
    /// True if neither copy of the file's header is whole.
    pub(crate) headless: bool,
}

impl Removal {
    /// Flushes everything before the current journal file, which has just been started, to both
    /// settled files.
    pub(crate) fn flush_past(&self) -> io::Result<()> {
        self.sessions.journal.begin(&*self.sessions)?;
        let begun = self.sessions.journal.place().order;
        self.leave_room()?;
        self.sessions.spoil_settled();
        // Only frames: the steps of an unfinished erasure are not run here.
        (0..2).try_for_each(|_| self.segments.flush_frames(false, false))?;
        if self.sessions.recyclable().order < begun {
            return Err(io::Error::other(
                "a session cannot be settled: its journal files are needed",
            ));
        }
        Ok(())
    }

    /// Continues in a new file of the journal, flushes everything before it, and recreates damaged
    /// files without a whole header.
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

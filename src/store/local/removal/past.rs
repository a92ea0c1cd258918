//! Flushing past a location of the journal, so that no start reads the files before it, which are
//! damaged or have bytes to be zeroed. It must not search for damage.

use std::io;

use super::{
    super::{journal::ring, layout::journal_path},
    Removal,
};

pub(crate) struct DamagedJournalFile {
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
    pub(crate) fn flush_earlier_files(&self) -> io::Result<()> {
        self.sessions.journal.record_start(&*self.sessions)?;
        let begun = self.sessions.journal.visible_location().order;
        self.ensure_reserve()?;
        self.sessions.schedule_settled_rewrite();
        // Only frames: the steps of an unfinished erasure are not run here.
        (0..2).try_for_each(|_| self.segments.flush_frames(false, false))?;
        if self.sessions.recyclable_before().order < begun {
            return Err(io::Error::other(
                "a session cannot be settled: its journal files are needed",
            ));
        }
        Ok(())
    }

    /// Continues in a new file of the journal, flushes everything before it, and recreates damaged
    /// files without a whole header.
    pub(crate) fn switch_journal_file(&self, found: &[DamagedJournalFile]) -> io::Result<()> {
        found.iter().for_each(|rot| self.sessions.journal.exclude_file(rot.number));
        self.sessions.journal.switch_file(&*self.sessions)?;
        self.flush_earlier_files()?;
        found.iter().filter(|rot| rot.headless).try_for_each(|rot| {
            let bytes = self.context.env.storage.open_read(&journal_path(rot.number))?.len()?;
            ring::create_zeroed(&self.context.env, rot.number, bytes)
        })
    }
}

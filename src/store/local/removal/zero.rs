//! Zeroing of one session's frames in the journal, and of remains of earlier uses of a file. It
//! must not change a frame of another session that a start may read.

use std::{collections::BTreeMap, io};

use super::{super::layout::JOURNAL, Removal};
use crate::{
    env::{
        DirEntry, File,
        planted::{Defect, is_planted},
    },
    event::SessionHash,
    log::{
        Fault, LogError,
        journal::{self, JournalHeader},
        reading::{FileReading, read_with_holes},
        scan::{find_payloads, find_watermark_gaps, whole_end_offset},
    },
};

/// Bytes checked together for remains of an earlier use.
const BLOCK_BYTES: usize = 4096;

impl Removal {
    /// Flushes everything twice, so that no start reads the ranges to be zeroed. No later use
    /// records the end of a failed one: if a start would read a failed use, the journal continues
    /// in a new file.
    pub(super) fn flush_before_zeroing(&self) -> io::Result<()> {
        (0..2).try_for_each(|_| self.segments.flush_frames(false, false))?;
        let (files, ends) = self.list_journal_files()?;
        let needed = self.sessions.recyclable_before().order;
        if files.iter().any(|file| file.has_unknown_end(needed, &ends)) {
            self.switch_journal_file(&[])?;
        }
        Ok(())
    }

    /// Returns every file in the journal's directory, and the ends of the frames of each use by
    /// order, as far as the next use records them.
    fn list_journal_files(&self) -> io::Result<(Vec<UsedFile>, BTreeMap<u64, u64>)> {
        let place = self.sessions.journal.visible_location();
        let mut ends = BTreeMap::from([(place.order, place.byte_offset)]);
        let mut files = Vec::new();
        for DirEntry { name, .. } in self.context.env.storage.list(JOURNAL)? {
            let file = self.context.env.storage.open(&format!("{JOURNAL}/{name}"))?;
            let header = match JournalHeader::read(&*file) {
                Err(LogError::Io(error)) => return Err(error),
                Err(LogError::Fault { fault, .. }) => Err(fault),
                Ok(header) => Ok(header),
            };
            if let Ok(header) = &header {
                ends.entry(header.previous_order).or_insert(header.previous_end);
            }
            files.push(UsedFile { name, file, header });
        }
        Ok((files, ends))
    }

    /// Zeroes the payloads of a session's frames in every journal file. `wanted` selects them by
    /// the log sequence numbers of a frame's records (the first, and the one after the last). Also
    /// zeroes remains of earlier uses after and between a file's frames, since no header there may
    /// name a session. No thread writes to a file meanwhile.
    pub(super) fn zero_journal(
        &self,
        session: SessionHash,
        wanted: &dyn Fn(u64, u64) -> bool,
    ) -> io::Result<()> {
        let zero = || -> io::Result<()> {
            self.sessions.journal.zero_payloads(session, wanted);
            let (files, ends) = self.list_journal_files()?;
            let needed = self.sessions.recyclable_before().order;
            let mut zeroed = Ok(());
            let last = self.sessions.journal.visible_location().order;
            for file in files {
                let is_last = file.header.as_ref().is_ok_and(|header| header.order == last);
                if is_planted(Defect::SpareLastFile) && is_last {
                    continue;
                }
                let left = |bytes: &[u8]| {
                    let mut parts = find_payloads(bytes, session, wanted);
                    parts.extend(
                        file.header
                            .iter()
                            .flat_map(|header| find_watermark_gaps(bytes, header.salt)),
                    );
                    parts
                };
                let number = file.name.parse().ok();
                if self.sessions.journal.is_excluded(number) {
                    // The page cache may have bytes that a failed sync did not write to the device.
                    file.file.evict()?;
                }
                // No record may be acknowledged in a failed file.
                let failed = || self.sessions.journal.abandon_file(number);
                let mut zero = zero_file(&file, needed, &ends, left, failed);
                if file.has_unknown_end(needed, &ends) {
                    zero = zero.and(Err(io::Error::other("no use says where a failed one ends")));
                }
                // An error in one file does not skip the others.
                zeroed = zero.and(zeroed);
            }
            zeroed
        };
        self.sessions.journal.run_exclusively(zero, &*self.sessions)
    }
}

/// File of the journal, and its header or the fault of it.
struct UsedFile {
    name: String,
    file: Box<dyn File>,
    header: Result<JournalHeader, Fault>,
}

impl UsedFile {
    /// Returns true if no start needs it; a start needs the orders from `needed` on.
    fn is_free(&self, needed: u64) -> bool {
        match &self.header {
            Ok(header) => header.order < needed,
            Err(fault) => *fault == Fault::Zeros,
        }
    }

    /// Returns true if a start would read it and the end of its frames is unknown.
    fn has_unknown_end(&self, needed: u64, ends: &BTreeMap<u64, u64>) -> bool {
        let order = self.header.as_ref().map(|header| header.order);
        order.is_ok_and(|order| order >= needed && !ends.contains_key(&order))
    }

    /// Returns the end of the frames in `bytes`. A free file is trusted as far as its frames are
    /// whole: a torn later use without its header may cover the rest. A file that a start may read
    /// has no stale bytes if its end is unknown.
    fn end_offset(&self, needed: u64, ends: &BTreeMap<u64, u64>, bytes: &FileReading) -> u64 {
        let header = self.header.as_ref().ok();
        let end = header.and_then(|header| ends.get(&header.order)).copied();
        if !self.is_free(needed) {
            return end.unwrap_or(u64::MAX);
        }
        // With unreadable pages, the sessions of the file's frames are unknown.
        let believed = header.filter(|_| !bytes.holes.has_pages());
        believed
            .map_or(0, |header| end.unwrap_or(0).min(whole_end_offset(&bytes.bytes, header.salt)))
    }
}

/// Zeroes in one file of the journal the `parts` of its frames, and remains of other uses after the
/// frames. Calls `failed` at once if a write fails.
fn zero_file(
    used: &UsedFile,
    needed: u64,
    ends: &BTreeMap<u64, u64>,
    parts: impl Fn(&[u8]) -> Vec<(usize, usize)>,
    failed: impl FnOnce(),
) -> io::Result<()> {
    let file = &*used.file;
    let read = read_with_holes(file, 0, u64::MAX)?;
    let end = used.end_offset(needed, ends, &read);
    let FileReading { bytes, holes } = read;
    let end = end.max(journal::FRAMES_AT).min(bytes.len() as u64) as usize;
    let parts = parts(bytes.get(..end).unwrap_or_default());
    let stale_to = if is_planted(Defect::ZeroFramesAlone) { end } else { bytes.len() };
    let stale = (end..stale_to).step_by(BLOCK_BYTES);
    let stale = stale.map(|at| (at, bytes.len().min(at + BLOCK_BYTES)));
    let left = parts.into_iter().chain(stale).filter(|(from, to)| {
        bytes.get(*from..*to).unwrap_or_default().iter().any(|byte| *byte != 0)
    });
    write_zeros(file, left).inspect_err(|_| failed())?;
    if holes.overlaps(journal::FRAMES_AT, journal::FRAMES_AT.max(end as u64)) {
        // Unreadable bytes cannot be proven to be gone.
        let (byte_offset, fault) = (journal::FRAMES_AT, Fault::Unreadable);
        return Err(LogError::Fault { byte_offset, fault }.into());
    }
    Ok(())
}

/// Writes zeros over these parts of a file, durably.
fn write_zeros(file: &dyn File, parts: impl Iterator<Item = (usize, usize)>) -> io::Result<()> {
    let mut changed = false;
    for (from, to) in parts {
        assert!(from < to, "a part that is zeroed has bytes");
        file.write_at(from as u64, &vec![0; to - from])?;
        changed = true;
    }
    if changed && !is_planted(Defect::AnswerBeforeZeros) { file.sync() } else { Ok(()) }
}

//! A location in the journal. It must not read a file.

use crate::event::Lsn;

/// Location in the journal, as in a settled file: everything before it is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalLocation {
    /// Order of the journal file; 0 before the first.
    pub(crate) order: u64,
    /// Byte offset in the file.
    pub(crate) byte_offset: u64,
    /// Log sequence number of the next record at that byte offset.
    pub(crate) lsn: Lsn,
}

/// Returns the earlier of two locations. They may have the same number: a file may begin without a
/// record.
pub(crate) fn min_location(a: JournalLocation, b: JournalLocation) -> JournalLocation {
    if (a.order, a.byte_offset) <= (b.order, b.byte_offset) { a } else { b }
}

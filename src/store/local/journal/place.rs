//! A place in the journal, as flushes name it. It must not read a file.

use crate::event::Lsn;

/// A place in the journal: everything before it is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalPlace {
    /// Order of the journal file; 0 before the first.
    pub(crate) order: u64,
    /// Byte offset in it.
    pub(crate) byte_offset: u64,
    /// Log sequence number of the next record there.
    pub(crate) lsn: Lsn,
}

/// The place that comes first in the journal. Both may have the same number: a file may begin
/// without a record.
pub(crate) fn earlier(a: JournalPlace, b: JournalPlace) -> JournalPlace {
    if (a.order, a.byte_offset) <= (b.order, b.byte_offset) { a } else { b }
}

//! Reads a file despite pages that its device cannot read: returns the bytes and the unreadable
//! pages. It must not interpret missing bytes, and returns every other error of the file system.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::error::LogError;
use crate::env::{File, is_unreadable};

/// Bytes of a page, which the file system reads at once: a bad sector makes the whole page
/// unreadable, and each retry may cost seconds.
const PAGE_BYTES: u64 = 4096;
/// Fill byte of unreadable pages. Zeros would look like a tail that was never written.
const UNKNOWN: u8 = 0xdb;

/// Bytes read from a file, and the unreadable pages among them.
#[derive(Clone, Debug, Default)]
pub struct FileReading {
    /// The bytes; unreadable pages have a fill that no checksum matches.
    pub bytes: Bytes,
    /// Byte offsets of the pages that the device could not read.
    pub holes: UnreadablePages,
}

/// Set of unreadable pages of a file.
#[derive(Clone, Debug, Default)]
pub struct UnreadablePages(BTreeSet<u64>);

impl UnreadablePages {
    /// Returns true if a page of `[from, to)` is unreadable.
    #[must_use]
    pub fn overlaps(&self, from: u64, to: u64) -> bool {
        self.0.range(from - from % PAGE_BYTES..to).next().is_some()
    }

    /// Returns true if any page is unreadable.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        !self.0.is_empty()
    }

    /// Adds the pages of another part of the same file.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Reads `[from, to)` of a file, or as much as exists. If the device cannot read all of it, the
/// range is read again page by page.
///
/// # Errors
/// Errors of the file system, except unreadable pages.
pub fn read_with_holes(file: &dyn File, from: u64, to: u64) -> Result<FileReading, LogError> {
    let length = to.min(file.len()?).saturating_sub(from);
    let mut bytes = vec![0; length as usize];
    let mut holes = UnreadablePages::default();
    match file.read_at(from, &mut bytes) {
        Ok(count) => bytes.truncate(count),
        Err(error) if is_unreadable(&error) => read_pages(file, from, &mut bytes, &mut holes)?,
        Err(error) => return Err(error.into()),
    }
    Ok(FileReading { bytes: bytes.into(), holes })
}

fn read_pages(
    file: &dyn File,
    from: u64,
    mut bytes: &mut [u8],
    holes: &mut UnreadablePages,
) -> Result<(), LogError> {
    let mut at = from;
    while !bytes.is_empty() {
        let count = (PAGE_BYTES - at % PAGE_BYTES).min(bytes.len() as u64);
        let (page, rest) = bytes.split_at_mut(count as usize);
        match file.read_at(at, page) {
            Ok(_) => {}
            Err(error) if is_unreadable(&error) => {
                page.fill(UNKNOWN);
                holes.0.insert(at - at % PAGE_BYTES);
            }
            Err(error) => return Err(error.into()),
        }
        (at, bytes) = (at + count, rest);
    }
    Ok(())
}

//! Reads a file around what its device cannot read: the bytes, and where there are none. It must
//! not judge what is missing there, and passes on every error that is not the device's own.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::error::LogError;
use crate::env::{File, unreadable};

/// Bytes a file system reads at once: a bad sector makes all of them unreadable, and each further
/// try may cost the device seconds.
const PAGE_BYTES: u64 = 4096;
/// Stands where nothing is known. Zeros would be a tail that was never written.
const UNKNOWN: u8 = 0xdb;

/// Part of a file, as far as the device gives it.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The bytes, others where the device gave none: no checksum fits those.
    pub bytes: Bytes,
    /// Byte offsets of the pages that the device could not read.
    pub holes: Holes,
}

/// Pages of a file that the device did not give.
#[derive(Clone, Debug, Default)]
pub struct Holes(BTreeSet<u64>);

impl Holes {
    /// True if the device could not read all of `[from, to)`.
    #[must_use]
    pub fn touch(&self, from: u64, to: u64) -> bool {
        self.0.range(from - from % PAGE_BYTES..to).next().is_some()
    }

    /// True if there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Adds those of another part of the same file.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Reads `[from, to)` of a file, or as much as there is, around what the device cannot read. What
/// it refuses is asked for again, page by page.
///
/// # Errors
/// Errors of the file system, an unreadable device apart.
pub fn read_around(file: &dyn File, from: u64, to: u64) -> Result<Reading, LogError> {
    let length = to.min(file.len()?).saturating_sub(from);
    let mut bytes = vec![0; length as usize];
    let mut holes = Holes::default();
    match file.read_at(from, &mut bytes) {
        Ok(count) => bytes.truncate(count),
        Err(error) if unreadable(&error) => pages(file, from, &mut bytes, &mut holes)?,
        Err(error) => return Err(error.into()),
    }
    Ok(Reading { bytes: bytes.into(), holes })
}

fn pages(
    file: &dyn File,
    from: u64,
    mut bytes: &mut [u8],
    holes: &mut Holes,
) -> Result<(), LogError> {
    let mut at = from;
    while !bytes.is_empty() {
        let count = (PAGE_BYTES - at % PAGE_BYTES).min(bytes.len() as u64);
        let (page, rest) = bytes.split_at_mut(count as usize);
        match file.read_at(at, page) {
            Ok(_) => {}
            Err(error) if unreadable(&error) => {
                page.fill(UNKNOWN);
                holes.0.insert(at - at % PAGE_BYTES);
            }
            Err(error) => return Err(error.into()),
        }
        (at, bytes) = (at + count, rest);
    }
    Ok(())
}

//! One simulated file: the bytes that a process sees, the bytes on the device, and the 512-byte
//! sectors in which they may differ. It must not know names, handles or faults.

use std::collections::BTreeSet;

use super::clock::Dice;

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// A file.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// The page cache: what reads see.
    cached: Vec<u8>,
    /// Content of the device. It may be shorter: a new size is durable with the next sync.
    durable: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<usize>,
    /// Sectors the device cannot read, until they are written again.
    unreadable: BTreeSet<usize>,
    /// True if a failed sync left clean sectors that differ from the device.
    strayed: bool,
}

/// Copies the part of a sector that both slices have.
fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(to.len());
    if let (Some(to), Some(from)) = (to.get_mut(start..end), from.get(start..end.min(from.len()))) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Writes into `to`, growing it with zeros; returns the sectors touched.
fn write(to: &mut Vec<u8>, byte_offset: usize, bytes: &[u8]) -> std::ops::Range<usize> {
    let end = byte_offset + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    if let Some(place) = to.get_mut(byte_offset..end) {
        place.copy_from_slice(bytes);
    }
    if bytes.is_empty() { 0..0 } else { byte_offset / SECTOR..end.div_ceil(SECTOR) }
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.cached.len() as u64
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn cached(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn durable_byte(&self, byte_offset: u64) -> Option<u8> {
        self.durable.get(index(byte_offset)).copied()
    }

    pub(super) fn write(&mut self, byte_offset: u64, bytes: &[u8]) {
        self.dirty.extend(write(&mut self.cached, index(byte_offset), bytes));
    }

    /// Writes dirty pages back at a random moment, as the kernel does: the current content of a
    /// sector is on the device, and a later write to it may still be lost. A new size waits for a
    /// sync.
    pub(super) fn write_back(&mut self, dice: &Dice) {
        let sized = self.durable.len() / SECTOR;
        let chosen: Vec<usize> =
            self.dirty.iter().copied().filter(|s| *s < sized && dice.chance(50)).collect();
        for sector in chosen {
            self.dirty.remove(&sector);
            copy_sector(&self.cached, &mut self.durable, sector);
        }
    }

    /// Reads bytes; `None` when the device cannot read a sector of them.
    pub(super) fn read(&self, byte_offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let start = index(byte_offset);
        let found = self.cached.get(start..).unwrap_or_default();
        let bytes = buffer.len().min(found.len());
        let sectors = start / SECTOR..(start + bytes).div_ceil(SECTOR);
        if bytes > 0 && self.unreadable.range(sectors).any(|bad| !self.dirty.contains(bad)) {
            return None;
        }
        buffer.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        Some(bytes)
    }

    /// Makes size and dirty sectors durable, or only the sectors of a range. Sectors that an
    /// earlier failed sync lost stay lost: they are clean.
    pub(super) fn sync(&mut self, part: Option<std::ops::Range<u64>>) {
        self.durable.resize(self.cached.len(), 0);
        let sectors = match part {
            None => 0..usize::MAX,
            Some(part) => index(part.start) / SECTOR..index(part.end).div_ceil(SECTOR),
        };
        let synced: Vec<usize> = self.dirty.range(sectors).copied().collect();
        for sector in synced {
            self.dirty.remove(&sector);
            self.unreadable.remove(&sector);
            copy_sector(&self.cached, &mut self.durable, sector);
        }
    }

    /// Fails a sync: every page becomes clean, and reached the device or did not. With `spoil` none
    /// did, and one of the sectors that it tried to write is destroyed.
    pub(super) fn fail_sync(&mut self, dice: &Dice, spoil: bool) {
        self.strayed = true;
        let tried = std::mem::take(&mut self.dirty);
        if spoil {
            let nth = index(dice.below(tried.len() as u64));
            if let Some(sector) = tried.iter().nth(nth) {
                copy_sector(&vec![0; self.durable.len()], &mut self.durable, *sector);
            }
            return;
        }
        let reached_percent = [0, 0, 50, 100].get(index(dice.below(4))).copied().unwrap_or(0);
        if reached_percent > 0 {
            self.durable.resize(self.cached.len(), 0);
        }
        for sector in tried.into_iter().filter(|_| dice.chance(reached_percent)) {
            copy_sector(&self.cached, &mut self.durable, sector);
        }
    }

    /// Drops clean pages: reads see the device's bytes there.
    pub(super) fn evict(&mut self) {
        if !std::mem::take(&mut self.strayed) {
            return;
        }
        let mut seen = self.durable.clone();
        seen.resize(self.cached.len(), 0);
        for sector in &self.dirty {
            copy_sector(&self.cached, &mut seen, *sector);
        }
        self.cached = seen;
    }

    /// Keeps or loses each dirty sector and the new size, at random.
    pub(super) fn power_loss(&mut self, dice: &Dice) {
        let kept_percent = match dice.below(4) {
            0 => 100,
            1 => 0,
            _ => dice.below(101),
        };
        let (old, new) = (self.durable.len(), self.cached.len());
        let size = match dice.below(3) {
            _ if kept_percent == 100 => new,
            0 => old,
            1 => new,
            _ => old + index(dice.below(new.saturating_sub(old) as u64 + 1)),
        };
        self.durable.resize(size, 0);
        self.cached.resize(size, 0);
        for sector in std::mem::take(&mut self.dirty) {
            if dice.chance(kept_percent) {
                copy_sector(&self.cached, &mut self.durable, sector);
            } else {
                copy_sector(&self.durable, &mut self.cached, sector);
            }
        }
        if std::mem::take(&mut self.strayed) {
            self.cached.clone_from(&self.durable);
        }
    }

    /// Changes the device and drops the cached sectors, unless they are dirty.
    pub(super) fn write_durable(&mut self, byte_offset: u64, bytes: &[u8]) {
        let touched = write(&mut self.durable, index(byte_offset), bytes);
        if self.cached.len() < self.durable.len() {
            self.cached.resize(self.durable.len(), 0);
        }
        for sector in touched.filter(|sector| !self.dirty.contains(sector)) {
            copy_sector(&self.durable, &mut self.cached, sector);
        }
    }

    pub(super) fn zero_sector(&mut self, sector: u64) {
        let start = index(sector) * SECTOR;
        let bytes = self.durable.len().saturating_sub(start).min(SECTOR);
        self.write_durable(start as u64, &vec![0; bytes]);
    }

    pub(super) fn swap_sectors(&mut self, one: u64, other: u64) {
        let place = |sector: u64| index(sector) * SECTOR..(index(sector) + 1) * SECTOR;
        let bytes = |sector| self.durable.get(place(sector)).map(<[u8]>::to_vec);
        if let (Some(first), Some(second)) = (bytes(one), bytes(other)) {
            self.write_durable(place(one).start as u64, &second);
            self.write_durable(place(other).start as u64, &first);
        }
    }

    pub(super) fn restore_sector(&mut self, sector: u64) {
        self.unreadable.remove(&index(sector));
    }

    pub(super) fn spoil_sector(&mut self, sector: u64) {
        self.unreadable.insert(index(sector));
    }

    pub(super) fn truncate(&mut self, bytes: u64) {
        self.durable.truncate(index(bytes));
        self.cached.truncate(index(bytes));
        self.dirty.retain(|sector| sector * SECTOR < index(bytes));
    }
}

/// Converts a byte offset to an index; a simulated file fits in memory.
fn index(byte_offset: u64) -> usize {
    usize::try_from(byte_offset).unwrap_or(usize::MAX)
}

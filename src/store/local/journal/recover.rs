//! Reads the journal after any stop. A bad frame is damaged if a later frame, a later file, or a
//! watermark shows that it was durable; else it is torn: never acknowledged, copied to quarantine,
//! left in the file. It must not change a journal file.
//!
//! Unreadable bytes are damaged, never torn: a torn write leaves old or new sectors. If frames may
//! continue in them, the extent of the loss is unknown.

use std::{
    collections::{BTreeMap, HashMap},
    ops,
};

use bytes::Bytes;

use super::super::{
    layout::{open_error, quarantine},
    options::OpenError,
};
use super::{
    place::JournalLocation,
    ring::{self, JournalFile, JournalRing, RingFile},
};
use crate::{
    env::{
        Env, File,
        planted::{Defect, is_planted},
    },
    event::Lsn,
    log::{
        Fault, Frame, FrameHeader, FrameKind, LogError,
        frame::{HEADER_BYTES, PAYLOAD_BYTES_MAX},
        journal::{FRAMES_AT, JournalHeader},
        reading::read_with_holes,
        scan::{RegionScan, ScanPiece, scan_file},
    },
};

/// Acknowledged records that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct LostRecords {
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// Header of the frame, if only the payload is damaged; it names the session.
    pub(crate) named: Option<NamedFrame>,
    pub(crate) what: String,
}

/// Whole header of a frame with a damaged payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedFrame {
    pub(crate) header: FrameHeader,
    /// Salt of the file; it is part of the payload's checksum.
    pub(crate) salt: u64,
    pub(crate) checksum: u32,
}

/// Contents of the journal after the settled location.
pub(crate) struct RecoveredJournal {
    /// Frames by their first log sequence number; a copy by the number of its records.
    pub(crate) frames: BTreeMap<Lsn, Frame>,
    /// Ranges of numbers of whole frames and of copies: first number, number after the last.
    seen: BTreeMap<Lsn, Lsn>,
    pub(crate) lost: Vec<LostRecords>,
    /// Damaged ranges: a file name for the copy, and the bytes.
    pub(crate) bad: Vec<(String, Bytes)>,
    pub(crate) place: JournalLocation,
    pub(crate) order_max: u64,
    pub(crate) start_max: u64,
    pub(crate) ring: Vec<RingFile>,
    /// Damaged or missing files of the ring, whose content is unknown.
    pub(crate) ring_damage: Vec<(ops::Range<u32>, String)>,
    pub(crate) torn_bytes: u64,
}

impl RecoveredJournal {
    /// Records that a frame with these numbers is whole.
    pub(crate) fn add_whole_frame(&mut self, from: Lsn, to: Lsn) {
        let end = self.seen.entry(from).or_insert(to);
        *end = (*end).max(to);
    }

    /// Removes losses that repeated or copied frames replace.
    pub(crate) fn remove_replaced_losses(&mut self) {
        let seen = &self.seen;
        self.lost.retain(|lost| !is_replaced(seen, lost));
    }
}

/// Reads the journal from the settled location `place` on.
pub(crate) fn recover(
    env: &Env,
    store: [u8; 16],
    place: JournalLocation,
    clean: bool,
) -> Result<RecoveredJournal, OpenError> {
    let JournalRing { files: ring, used: mut files, damaged } =
        ring::read(env, store, place.order)?;
    let order_max = files.keys().max().copied().unwrap_or(0).max(place.order);
    let start_max = files.values().map(|file| file.header.start).max().unwrap_or(0);
    let mut found = RecoveredJournal {
        frames: BTreeMap::new(),
        seen: BTreeMap::new(),
        lost: Vec::new(),
        bad: Vec::new(),
        place,
        order_max,
        start_max,
        ring,
        ring_damage: damaged,
        torn_bytes: 0,
    };
    let chain = find_chain_of_files(&files, place, clean)?;
    for (index, order) in chain.iter().enumerate() {
        let Some(file) = files.remove(order) else { continue };
        let next = chain.get(index + 1).and_then(|next| files.get(next)).map(|next| next.header);
        scan_journal_file(env, &mut found, file, next.as_ref(), clean)?;
    }
    found.remove_replaced_losses();
    Ok(found)
}

/// Returns the orders of the files to be read, oldest first: from the settled location on.
fn find_chain_of_files(
    files: &HashMap<u64, JournalFile>,
    place: JournalLocation,
    clean: bool,
) -> Result<Vec<u64>, OpenError> {
    let mut chain = Vec::new();
    let mut order = files.keys().max().copied().unwrap_or(0);
    while order > place.order {
        let Some(file) = files.get(&order) else {
            let what = format!("the journal file of order {order} is missing or unreadable");
            return Err(OpenError::Damaged { what });
        };
        if file.header.previous_order >= order {
            let what = format!("the journal file of order {order} names a later one before it");
            return Err(OpenError::Damaged { what });
        }
        chain.push(order);
        order = file.header.previous_order;
    }
    if order < place.order && !chain.is_empty() {
        let what = format!("the journal has no file of order {}, only later ones", place.order);
        return Err(OpenError::Damaged { what });
    }
    if files.contains_key(&place.order) {
        chain.push(place.order);
    } else if place.order > 0 && !(clean && chain.is_empty()) {
        let what = format!("the journal file of order {} is missing or unreadable", place.order);
        return Err(OpenError::Damaged { what });
    }
    chain.reverse();
    Ok(chain)
}

fn scan_journal_file(
    env: &Env,
    found: &mut RecoveredJournal,
    file: JournalFile,
    next: Option<&JournalHeader>,
    clean: bool,
) -> Result<(), OpenError> {
    let header = file.header;
    let salt = header.salt;
    let first = header.order == found.place.order;
    let from = if first { found.place.byte_offset.max(FRAMES_AT) } else { FRAMES_AT };
    let mut expected = found.place.lsn;
    if !first {
        expected = record_lost(found, expected, header.previous_end_lsn, None, header.order);
    }
    // Numbers of requests that failed before this file was started have no records.
    expected = expected.max(header.first_lsn);
    let to = next.map_or(file.bytes, |next| next.previous_end.max(from));
    let to = to.min(file.bytes);
    let journal = &*file.file;
    let mut scanned = scan_file(journal, salt, from, to).map_err(to_open_error)?;
    if next.is_none() {
        found.torn_bytes += cut_torn_tail(env, &mut scanned, journal, to, expected, header.order)?;
    }
    // After the location of a clean stop no record was acknowledged, regardless of the bytes there.
    let endless = next.is_none() && may_continue_unread(&scanned) && !(clean && first);
    copy_bad_ranges(found, &scanned.pieces, journal, to, header.order)?;
    let mut end = scanned.end;
    for piece in scanned.pieces {
        match piece {
            ScanPiece::Frame { frame, .. } => {
                let (from, to) = frame.header.lsn_range();
                expected = record_lost(found, expected, from, None, header.order);
                expected = expected.max(to);
                if frame.header.kind == FrameKind::Request {
                    found.add_whole_frame(from, to);
                    found.add_whole_frame(frame.header.first_lsn, frame.header.end_lsn());
                    found.frames.entry(frame.header.first_lsn).or_insert(frame);
                }
            }
            ScanPiece::Bad { byte_offset, header: Some(bad), .. }
                if bad.lsn_range().0 >= expected =>
            {
                record_lost(found, expected, bad.lsn_range().0, None, header.order);
                // Its records are lost, under their own numbers even if it is a copy.
                end = end.max(byte_offset + bad.stride());
                let head = byte_offset + HEADER_BYTES as u64;
                let head = read_with_holes(journal, byte_offset, head).map_err(to_open_error)?;
                let whole = FrameHeader::read(salt, &head.bytes).ok();
                let named = whole.map(|(header, checksum)| NamedFrame { header, salt, checksum });
                record_lost(found, bad.first_lsn, bad.end_lsn(), named, header.order);
                expected = bad.lsn_range().1;
            }
            ScanPiece::Bad { .. } => {}
        }
    }
    if endless {
        let what = format!(
            "journal file of order {}: at byte {end} the device cannot read whether records from \
             {} on were there",
            header.order, expected.0
        );
        found.lost.push(LostRecords { from: expected, to: Lsn(u64::MAX), named: None, what });
    }
    assert!(found.place.lsn <= expected, "numbers only grow along the journal");
    assert!(from <= end, "a walk ends at or after its first byte");
    found.place = JournalLocation { order: header.order, byte_offset: end, lsn: expected };
    Ok(())
}

/// Returns true if frames may continue after the last one found, in unreadable bytes.
fn may_continue_unread(scanned: &RegionScan) -> bool {
    let last = scanned.pieces.last();
    matches!(last, Some(ScanPiece::Bad { fault: Fault::Unreadable, header: None, .. }))
        || scanned.rest == Some(Fault::Unreadable)
}

fn to_open_error(error: LogError) -> OpenError {
    match error {
        LogError::Io(error) => open_error("reading the journal")(error),
        other => OpenError::Damaged { what: other.to_string() },
    }
}

/// Records the numbers `[expected, to)` as lost, if any; returns the next expected number.
fn record_lost(
    found: &mut RecoveredJournal,
    expected: Lsn,
    to: Lsn,
    named: Option<NamedFrame>,
    order: u64,
) -> Lsn {
    if to > expected {
        let what = format!(
            "journal file of order {order}: records {} to {} are damaged",
            expected.0,
            to.0 - 1
        );
        found.lost.push(LostRecords { from: expected, to, named, what });
    }
    expected.max(to)
}

/// Copies the bytes of each damaged range, up to the next frame.
fn copy_bad_ranges(
    found: &mut RecoveredJournal,
    pieces: &[ScanPiece],
    file: &dyn File,
    to: u64,
    order: u64,
) -> Result<(), OpenError> {
    let place = |piece: &ScanPiece| match piece {
        ScanPiece::Frame { byte_offset, .. } | ScanPiece::Bad { byte_offset, .. } => *byte_offset,
    };
    for (index, piece) in pieces.iter().enumerate() {
        if let ScanPiece::Bad { byte_offset, .. } = piece {
            let next = pieces.get(index + 1).map_or(to, place);
            let most = byte_offset + (HEADER_BYTES + PAYLOAD_BYTES_MAX) as u64;
            let copy =
                read_with_holes(file, *byte_offset, next.min(most)).map_err(to_open_error)?;
            found.bad.push((format!("journal-{order}-{byte_offset}.damaged"), copy.bytes));
        }
    }
    Ok(())
}

/// Cuts the last file's frames at the first damaged range that was not provably durable. Returns
/// the number of bytes cut.
fn cut_torn_tail(
    env: &Env,
    scanned: &mut RegionScan,
    file: &dyn File,
    to: u64,
    mut expected: Lsn,
    order: u64,
) -> Result<u64, OpenError> {
    let (mut cut, mut unread) = (None, false);
    for (index, piece) in scanned.pieces.iter().enumerate() {
        match piece {
            ScanPiece::Frame { byte_offset, frame } => {
                let (from, to) = frame.header.lsn_range();
                let gap = !std::mem::take(&mut unread) && from > expected;
                if gap && !was_durable(&scanned.pieces, index, expected) {
                    cut = Some((index, *byte_offset));
                    break;
                }
                expected = expected.max(to);
            }
            ScanPiece::Bad { byte_offset, header, fault } => {
                let torn = *fault != Fault::Unreadable;
                if torn && !was_durable(&scanned.pieces, index, expected) {
                    cut = Some((index, *byte_offset));
                    break;
                }
                unread |= !torn;
                let named = header.map(|header| header.lsn_range());
                expected =
                    named.filter(|(from, _)| *from >= expected).map_or(expected, |(_, to)| to);
            }
        }
    }
    let Some((index, at)) = cut else { return Ok(0) };
    scanned.pieces.truncate(index);
    (scanned.end, scanned.rest) = (at, None);
    const COPY_BYTES_MAX: u64 = 1 << 20;
    let torn = read_with_holes(file, at, to.min(at + COPY_BYTES_MAX)).map_err(to_open_error)?.bytes;
    let kept = torn.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let torn = torn.get(..kept).unwrap_or_default();
    let name = format!("journal-{order}-{at}.torn");
    quarantine(env, &name, torn, "a torn tail of the journal: never acknowledged\n");
    Ok(torn.len() as u64)
}

/// Returns true if a frame at or after `index` shows that the record `expected` was durable.
fn was_durable(pieces: &[ScanPiece], index: usize, expected: Lsn) -> bool {
    pieces.iter().skip(index).any(|piece| match piece {
        ScanPiece::Frame { frame, .. } => {
            frame.header.synced_lsn > expected && !is_planted(Defect::CutAtDamage)
        }
        ScanPiece::Bad { .. } => false,
    })
}

/// Returns true if repeated or copied frames replace all of a loss.
fn is_replaced(seen: &BTreeMap<Lsn, Lsn>, lost: &LostRecords) -> bool {
    let reach = |expected: Lsn, (first, end): (&Lsn, &Lsn)| {
        if *first <= expected { expected.max(*end) } else { expected }
    };
    seen.range(..lost.to).fold(lost.from, reach) >= lost.to
}

//! Reads the journal after any stop and tells torn from damaged. A bad frame is damage when a later
//! frame, a later file, or a watermark says that it was durable; else it is a torn tail: never
//! acknowledged, copied to quarantine, left where it is. It must not change a journal file.

use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use bytes::Bytes;

use super::{
    OpenError,
    journal::RingFile,
    layout::{JOURNAL, doing, journal_path, quarantine},
    slots::Place,
};
use crate::{
    env::{Env, File},
    event::Lsn,
    log::{
        Frame, FrameHeader, FrameKind, LogError,
        journal::{FRAMES_AT, JournalHeader, read},
        scan::{Piece, Scan, scan},
    },
};

/// Records that were acknowledged and cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) from: Lsn,
    pub(super) to: Lsn,
    /// The frame's header, when only its payload is damaged: it names the session.
    pub(super) header: Option<FrameHeader>,
    pub(super) what: String,
}

/// What the journal holds beyond the settled place.
pub(super) struct Recovered {
    /// Frames by their first log sequence number.
    pub(super) frames: BTreeMap<Lsn, Frame>,
    pub(super) lost: Vec<Lost>,
    pub(super) place: Place,
    pub(super) order_max: u64,
    pub(super) start_max: u64,
    pub(super) ring: Vec<RingFile>,
    pub(super) torn_bytes: u64,
}

struct JournalFile {
    header: JournalHeader,
    file: Box<dyn File>,
    bytes: u64,
}

/// Reads the journal from `place` on.
pub(super) fn recover(
    env: &Env,
    store: [u8; 16],
    place: Place,
    clean: bool,
) -> Result<Recovered, OpenError> {
    let (ring, mut files) = files(env, store)?;
    let order_max = files.keys().max().copied().unwrap_or(0).max(place.order);
    let start_max = files.values().map(|file| file.header.start).max().unwrap_or(0);
    let mut found = Recovered {
        frames: BTreeMap::new(),
        lost: Vec::new(),
        place,
        order_max,
        start_max,
        ring,
        torn_bytes: 0,
    };
    let chain = chain(&files, place, clean)?;
    for (index, order) in chain.iter().enumerate() {
        let Some(file) = files.remove(order) else { continue };
        let next = chain.get(index + 1).and_then(|next| files.get(next)).map(|next| next.header);
        walk(env, &mut found, file, next.as_ref())?;
    }
    found.lost.retain(|lost| !covered(&found.frames, lost));
    Ok(found)
}

/// Every file of the ring, and those with a whole header by their order.
fn files(
    env: &Env,
    store: [u8; 16],
) -> Result<(Vec<RingFile>, HashMap<u64, JournalFile>), OpenError> {
    let mut ring = Vec::new();
    let mut files = HashMap::new();
    for entry in env.storage.list(JOURNAL).map_err(doing("listing journal/"))? {
        let Ok(number) = entry.name.parse::<u32>() else { continue };
        let path = journal_path(number);
        let named = |error: io::Error| doing(format!("reading {path}"))(error);
        let file = env.storage.open(&path).map_err(named)?;
        // Dirty pages of a process that died reach the device now; then it is asked, not the cache.
        file.sync().and_then(|()| file.evict()).map_err(named)?;
        let bytes = file.len().map_err(named)?;
        let order = match JournalHeader::of(&*file) {
            Ok(header) if header.store == store => {
                files.insert(header.order, JournalFile { header, file, bytes });
                header.order
            }
            Ok(_) | Err(LogError::Fault { .. }) => 0,
            Err(LogError::Io(error)) => return Err(named(error)),
        };
        ring.push(RingFile { number, order, bytes, poisoned: false });
    }
    Ok((ring, files))
}

/// The orders to be read, oldest first: from the youngest file back to the settled place.
fn chain(
    files: &HashMap<u64, JournalFile>,
    place: Place,
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

fn walk(
    env: &Env,
    found: &mut Recovered,
    file: JournalFile,
    next: Option<&JournalHeader>,
) -> Result<(), OpenError> {
    let header = file.header;
    let first = header.order == found.place.order;
    let from = if first { found.place.byte_offset.max(FRAMES_AT) } else { FRAMES_AT };
    let mut expected = found.place.lsn;
    if !first {
        expected = lost_between(found, expected, header.previous_end_lsn, None, header.order);
    }
    // Numbers of requests that failed before this file began are nobody's.
    expected = expected.max(header.first_lsn);
    let to = next.map_or(file.bytes, |next| next.previous_end.max(from));
    let region = read(&*file.file, from, to).map_err(|error| match error {
        LogError::Io(error) => doing("reading the journal")(error),
        other => OpenError::Damaged { what: other.to_string() },
    })?;
    let mut scanned = scan(header.salt, &region, from);
    if next.is_none() {
        found.torn_bytes += cut_torn(env, &mut scanned, &region, from, expected, header.order);
    }
    for piece in scanned.pieces {
        match piece {
            Piece::Frame { frame, .. } => {
                expected =
                    lost_between(found, expected, frame.header.first_lsn, None, header.order);
                expected = expected.max(frame.header.end_lsn());
                if frame.header.kind == FrameKind::Request {
                    found.frames.entry(frame.header.first_lsn).or_insert(frame);
                }
            }
            Piece::Bad { header: Some(bad), .. } if bad.first_lsn == expected => {
                expected = lost_between(found, expected, bad.end_lsn(), Some(bad), header.order);
            }
            Piece::Bad { .. } => {}
        }
    }
    found.place = Place { order: header.order, byte_offset: scanned.end, lsn: expected };
    Ok(())
}

/// Notes the records `[expected, to)` as lost, when there are any; answers where to go on.
fn lost_between(
    found: &mut Recovered,
    expected: Lsn,
    to: Lsn,
    header: Option<FrameHeader>,
    order: u64,
) -> Lsn {
    if to > expected {
        let what = format!(
            "journal file of order {order}: records {} to {} are damaged",
            expected.0,
            to.0 - 1
        );
        found.lost.push(Lost { from: expected, to, header, what });
    }
    expected.max(to)
}

/// Cuts the last file's frames at the first bad place that nothing says was durable. Answers how
/// many bytes of frames were cut.
fn cut_torn(
    env: &Env,
    scanned: &mut Scan,
    region: &Bytes,
    from: u64,
    mut expected: Lsn,
    order: u64,
) -> u64 {
    let mut cut = None;
    for (index, piece) in scanned.pieces.iter().enumerate() {
        match piece {
            Piece::Frame { byte_offset, frame } => {
                let gap = frame.header.first_lsn > expected;
                if gap && !durable_behind(&scanned.pieces, index, expected) {
                    cut = Some((index, *byte_offset));
                    break;
                }
                expected = expected.max(frame.header.end_lsn());
            }
            Piece::Bad { byte_offset, header, .. } => {
                if !durable_behind(&scanned.pieces, index, expected) {
                    cut = Some((index, *byte_offset));
                    break;
                }
                let named = header.filter(|header| header.first_lsn == expected);
                expected = named.map_or(expected, |header| header.end_lsn());
            }
        }
    }
    let Some((index, at)) = cut else { return 0 };
    scanned.pieces.truncate(index);
    scanned.end = at;
    let end = from + region.len() as u64;
    const COPY_BYTES_MAX: usize = 1 << 20;
    let start = usize::try_from(at - from).unwrap_or(usize::MAX);
    let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(COPY_BYTES_MAX);
    let torn = region.get(start..start.saturating_add(length).min(region.len()));
    let torn = torn.unwrap_or_default();
    let kept = torn.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let torn = torn.get(..kept).unwrap_or_default();
    let name = format!("journal-{order}-{at}.torn");
    quarantine(env, &name, torn, "a torn tail of the journal: never acknowledged\n");
    torn.len() as u64
}

/// Whether a frame at or behind `index` says that the record `expected` was durable.
fn durable_behind(pieces: &[Piece], index: usize, expected: Lsn) -> bool {
    pieces.iter().skip(index).any(|piece| match piece {
        Piece::Frame { frame, .. } => frame.header.synced_lsn > expected,
        Piece::Bad { .. } => false,
    })
}

/// Whether repeated frames make good what another file lost.
fn covered(frames: &BTreeMap<Lsn, Frame>, lost: &Lost) -> bool {
    let mut expected = lost.from;
    for (first, frame) in frames.range(..lost.to) {
        if *first <= expected && frame.header.end_lsn() > expected {
            expected = frame.header.end_lsn();
        }
    }
    expected >= lost.to
}

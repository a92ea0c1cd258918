//! Makes good what the journal lost: a settling that was interrupted may have written the same
//! frames to segments. The only use of segment bytes beyond `settled/`; a frame there counts when
//! its numbers are among those lost and it fits what stands around it. It must not write.

use std::collections::BTreeMap;

use super::{
    catalogue::ByHash,
    keys::Keys,
    layout::SEGMENTS,
    recover::{Lost, Named, Recovered},
    session::Session,
};
use crate::{
    env::Env,
    event::{Lsn, Position},
    log::{
        Chain, Control, Frame, FrameKind,
        frame::payload_fits,
        journal::read,
        scan::{Piece, scan},
        segment::{self, FRAMES_AT, SegmentHeader},
    },
};

/// Where a session stands between two frames.
type Stand = (Position, Chain, Chain);

/// Puts frames found in segments in the place of those lost, and forgets the losses they end.
pub(super) fn make_good(
    env: &Env,
    (store, keys): ([u8; 16], &Keys),
    known: &ByHash,
    recovered: &mut Recovered,
) {
    if recovered.lost.is_empty() {
        return;
    }
    let mut copies = BTreeMap::new();
    for directory in directories(env, &recovered.lost) {
        // A name that only the page cache has would go with the power, and what it made good.
        let durable = |directory: &str| env.storage.sync_dir(directory).is_ok();
        if !durable(SEGMENTS) || !durable(&directory) {
            continue;
        }
        for entry in env.storage.list(&directory).unwrap_or_default() {
            let path = format!("{directory}/{}", entry.name);
            for frame in frames_of(env, store, &path).unwrap_or_default() {
                copies.insert(frame.header.first_lsn, frame);
            }
        }
    }
    // In the order of their numbers: one that fits may be what the next one follows.
    for (lsn, frame) in copies {
        let wanted = recovered.lost.iter().any(|lost| replaces(lost, &frame));
        if !wanted || recovered.frames.contains_key(&lsn) {
            continue;
        }
        let (from, to) = (frame.header.first_lsn, frame.header.end_lsn());
        let session = known.get(&frame.header.session);
        if session.is_some_and(|session| to.0 <= session.state().entry.end_lsn) {
            // Settling was ahead of the place it named: nothing is lost.
            recovered.see(from, to);
        } else if fits(known, keys, recovered, &frame) {
            recovered.see(from, to);
            recovered.frames.insert(lsn, frame);
        }
    }
    recovered.forget_covered();
}

/// Where copies may lie: beside the segments of the sessions that are named, or anywhere.
fn directories(env: &Env, lost: &[Lost]) -> Vec<String> {
    let named = |lost: &Lost| lost.named.map(|named| segment::directory(named.header.session));
    let mut directories: Vec<String> = lost.iter().filter_map(named).collect();
    if lost.iter().any(|lost| lost.named.is_none()) {
        let all = env.storage.list(SEGMENTS).unwrap_or_default();
        directories = all.iter().map(|entry| format!("{SEGMENTS}/{}", entry.name)).collect();
    }
    directories.sort();
    directories.dedup();
    directories
}

/// The whole frames of an open segment.
fn frames_of(env: &Env, store: [u8; 16], path: &str) -> Option<Vec<Frame>> {
    let file = env.storage.open_read(path).ok()?;
    // Dirty pages of a process that died reach the device now; then it is asked, not the cache.
    file.sync().and_then(|()| file.evict()).ok()?;
    let header = SegmentHeader::of(&*file).ok()?;
    let name = segment::path(header.session, header.base, header.start, header.sealed);
    if header.sealed || header.store != store || name != path {
        return None;
    }
    let region = read(&*file, FRAMES_AT, u64::MAX).ok()?;
    let pieces = scan(header.salt, &region, FRAMES_AT).pieces.into_iter();
    let whole = pieces.filter_map(|piece| match piece {
        Piece::Frame { frame, .. } => Some(frame),
        Piece::Bad { .. } => None,
    });
    let own = |frame: &Frame| {
        (frame.header.kind, frame.header.session) == (FrameKind::Request, header.session)
    };
    Some(whole.filter(own).collect())
}

/// Whether a frame is what was lost: by its numbers, and byte for byte where the journal's own
/// header still says what was there. One that is encrypted is so anew in each file: its key and its
/// place vouch for it once it is decrypted.
fn replaces(lost: &Lost, frame: &Frame) -> bool {
    let header = &frame.header;
    match &lost.named {
        None => lost.from <= header.first_lsn && header.end_lsn() <= lost.to,
        Some(Named { header: was, salt, checksum }) => {
            let place = (header.session, header.first_lsn, header.count, header.first_position);
            place == (was.session, was.first_lsn, was.count, was.first_position)
                && (header.chain, header.control_chain) == (was.chain, was.control_chain)
                && (frame.header.encrypted.is_some()
                    || payload_fits(*salt, &frame.payload, *checksum))
        }
    }
}

/// Whether a frame follows what its session has before it and leads to what it has behind it.
fn fits(known: &ByHash, keys: &Keys, recovered: &Recovered, frame: &Frame) -> bool {
    let (session, lsn) = (frame.header.session, frame.header.first_lsn);
    let of_session = |other: &&Frame| other.header.session == session;
    let before = recovered.frames.range(..lsn).rev().map(|(_, frame)| frame).find(of_session);
    let stand = match (before, known.get(&session)) {
        (Some(before), _) => end_of(keys, before),
        (None, Some(known)) => Some(settled_end(known)),
        (None, None) => birth(keys, frame),
    };
    let behind = recovered.frames.range(Lsn(lsn.0 + 1)..).map(|(_, frame)| frame).find(of_session);
    let end = end_of(keys, frame);
    let leads = behind.is_none_or(|behind| end == Some(begin_of(behind)));
    stand == Some(begin_of(frame)) && end.is_some() && leads
}

/// Where a session stood when it was settled last.
fn settled_end(session: &Session) -> Stand {
    let entry = &session.state().entry;
    (Position(entry.tail), Chain(entry.chain), Chain(entry.control_chain))
}

/// Where a session stands before its creation, by the frame that creates it.
fn birth(keys: &Keys, frame: &Frame) -> Option<Stand> {
    let session = frame.header.session;
    let records = keys.decrypted(frame).ok()?.records().ok()?;
    let Control::Create(create) = records.first()?.1.to_control()? else { return None };
    let (position, chain) = create.begin(session);
    Some((position, chain, Chain::controls_of(session)))
}

fn begin_of(frame: &Frame) -> Stand {
    (frame.header.first_position, frame.header.chain, frame.header.control_chain)
}

fn end_of(keys: &Keys, frame: &Frame) -> Option<Stand> {
    let (mut position, mut chain, mut control_chain) = begin_of(frame);
    for (lsn, record) in keys.decrypted(frame).ok()?.records().ok()? {
        if record.is_event() {
            chain = chain.after(position.0, &record);
            position = position.plus(1);
        } else {
            control_chain = control_chain.after(lsn.0, &record);
        }
    }
    Some((position, chain, control_chain))
}

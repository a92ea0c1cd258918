//! Recovers frames that the journal lost: an interrupted flush may have written them to segments.
//! The only use of segment bytes beyond `settled/`; a frame there is used if its numbers are lost
//! and its chains fit the adjacent frames. It must not write.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    catalogue::ByHash,
    journal::recover::{LostRecords, NamedFrame, RecoveredJournal},
    keys::EngineKeys,
    layout::SEGMENTS,
    session::LoadedSession,
};
use crate::{
    env::Env,
    event::{Lsn, Position},
    log::{
        ChainValue, Control, Frame, FrameKind,
        frame::payload_matches_checksum,
        scan::{ScanPiece, walk_file},
        segment::{self, FRAMES_AT, SegmentHeader},
    },
};

/// Position and chains of a session between two frames.
type ChainState = (Position, ChainValue, ChainValue);

/// Replaces lost frames by copies found in segments, and removes the recovered losses.
pub(super) fn recover_lost(
    env: &Env,
    (store, keys): ([u8; 16], &EngineKeys),
    known: &ByHash,
    recovered: &mut RecoveredJournal,
) {
    if recovered.lost.is_empty() {
        return;
    }
    let mut copies = BTreeMap::new();
    for directory in directories_to_search(env, &recovered.lost) {
        // A name only in the page cache would not survive a power loss.
        let durable = |directory: &str| env.storage.sync_dir(directory).is_ok();
        if !durable(SEGMENTS) || !durable(&directory) {
            continue;
        }
        for entry in env.storage.list(&directory).unwrap_or_default() {
            let path = format!("{directory}/{}", entry.name);
            let _ = collect_copies((env, store), &path, &recovered.lost, &mut copies);
        }
    }
    copies.retain(|lsn, _| !recovered.frames.contains_key(lsn));
    // In the order of their numbers: a frame that fits may precede the next one.
    for (lsn, frame) in copies {
        let (from, to) = (frame.header.first_lsn, frame.header.end_lsn());
        let session = known.get(&frame.header.session);
        if session.is_some_and(|session| to.0 <= session.state().entry.end_lsn) {
            // The flush was ahead of the settled location: this frame is not lost.
            recovered.add_whole_frame(from, to);
        } else if chains_fit(known, keys, recovered, &frame) {
            recovered.add_whole_frame(from, to);
            recovered.frames.insert(lsn, frame);
        }
    }
    recovered.remove_replaced_losses();
}

/// Returns the directories that may have copies: those of the named sessions' segments, or all.
fn directories_to_search(env: &Env, lost: &[LostRecords]) -> Vec<String> {
    let named =
        |lost: &LostRecords| lost.named.map(|named| segment::directory(named.header.session));
    let mut directories: Vec<String> = lost.iter().filter_map(named).collect();
    if lost.iter().any(|lost| lost.named.is_none()) {
        let all = env.storage.list(SEGMENTS).unwrap_or_default();
        directories = all.iter().map(|entry| format!("{SEGMENTS}/{}", entry.name)).collect();
    }
    directories.sort();
    directories.dedup();
    directories
}

/// Collects the lost frames from an open segment, each in separate memory: segments are far larger
/// than the losses, and the other bytes are not kept.
fn collect_copies(
    (env, store): (&Env, [u8; 16]),
    path: &str,
    lost: &[LostRecords],
    copies: &mut BTreeMap<Lsn, Frame>,
) -> Option<()> {
    let file = env.storage.open_read(path).ok()?;
    // Writes dirty pages of a dead process to the device, then reads the device, not the cache.
    file.sync().and_then(|()| file.evict()).ok()?;
    let header = SegmentHeader::read(&*file).ok()?;
    let name = segment::path(header.session, header.base, header.start, header.sealed);
    if header.sealed || header.store != store || name != path {
        return None;
    }
    let wanted = |frame: &Frame| {
        (frame.header.kind, frame.header.session) == (FrameKind::Request, header.session)
            && lost.iter().any(|lost| is_lost_frame(lost, frame))
    };
    let take = &mut |piece| {
        if let ScanPiece::Frame { frame, .. } = piece
            && wanted(&frame)
        {
            let payload = Bytes::copy_from_slice(&frame.payload);
            copies.insert(frame.header.first_lsn, Frame { payload, ..frame });
        }
    };
    walk_file(&*file, header.salt, (FRAMES_AT, u64::MAX), take).ok().map(drop)
}

/// Returns true if a frame is the lost one: compares its numbers, and its bytes if the journal's
/// header is known. An encrypted frame differs in each file: its decryption authenticates it.
fn is_lost_frame(lost: &LostRecords, frame: &Frame) -> bool {
    let header = &frame.header;
    match &lost.named {
        None => lost.from <= header.first_lsn && header.end_lsn() <= lost.to,
        Some(NamedFrame { header: was, salt, checksum }) => {
            let place = (header.session, header.first_lsn, header.count, header.first_position);
            place == (was.session, was.first_lsn, was.count, was.first_position)
                && (header.chain, header.control_chain) == (was.chain, was.control_chain)
                && (frame.header.encrypted.is_some()
                    || payload_matches_checksum(*salt, &frame.payload, *checksum))
        }
    }
}

/// Returns true if a frame's chains continue the frames before it and lead to the one after it.
fn chains_fit(
    known: &ByHash,
    keys: &EngineKeys,
    recovered: &RecoveredJournal,
    frame: &Frame,
) -> bool {
    let (session, lsn) = (frame.header.session, frame.header.first_lsn);
    let of_session = |other: &&Frame| other.header.session == session;
    let before = recovered.frames.range(..lsn).rev().map(|(_, frame)| frame).find(of_session);
    let stand = match (before, known.get(&session)) {
        (Some(before), _) => end_state(keys, before),
        (None, Some(known)) => Some(flushed_end(known)),
        (None, None) => state_before_creation(keys, frame),
    };
    let behind = recovered.frames.range(Lsn(lsn.0 + 1)..).map(|(_, frame)| frame).find(of_session);
    let end = end_state(keys, frame);
    let leads = behind.is_none_or(|behind| end == Some(start_state(behind)));
    stand == Some(start_state(frame)) && end.is_some() && leads
}

/// Returns the position and chains of a session at its last flush.
fn flushed_end(session: &LoadedSession) -> ChainState {
    let entry = &session.state().entry;
    (Position(entry.tail), ChainValue(entry.chain), ChainValue(entry.control_chain))
}

/// Returns the position and chains before a session's first frame, from the creation in it.
fn state_before_creation(keys: &EngineKeys, frame: &Frame) -> Option<ChainState> {
    let session = frame.header.session;
    let records = keys.decrypt_frame(frame).ok()?.records().ok()?;
    let Control::Create(create) = records.first()?.1.to_control()? else { return None };
    let (position, chain) = create.start_point(session);
    Some((position, chain, ChainValue::start_of_controls(session)))
}

fn start_state(frame: &Frame) -> ChainState {
    (frame.header.first_position, frame.header.chain, frame.header.control_chain)
}

fn end_state(keys: &EngineKeys, frame: &Frame) -> Option<ChainState> {
    let (mut position, mut chain, mut control_chain) = start_state(frame);
    for (lsn, record) in keys.decrypt_frame(frame).ok()?.records().ok()? {
        if record.is_event() {
            chain = chain.with_record(position.0, &record);
            position = position.plus(1);
        } else {
            control_chain = control_chain.with_record(lsn.0, &record);
        }
    }
    Some((position, chain, control_chain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::SessionHash, log::FrameHeader};

    const PAYLOAD: [u8; 4000] = [b'x'; 4000];

    /// Writes an open segment with one frame of one event per number; returns its path.
    fn write_segment(env: &Env, numbers: u64) -> String {
        let session = SessionHash([7; 32]);
        let (chain, control_chain) =
            (ChainValue::start_of_events(session), ChainValue::start_of_controls(session));
        let header = SegmentHeader {
            store: [3; 16],
            salt: 11,
            session,
            base: Position(0),
            start: 1,
            first_lsn: Lsn(0),
            chain,
            control_chain,
            sealed: false,
            key: None,
        };
        let mut bytes = header.encode();
        for number in 0..numbers {
            let frame = FrameHeader {
                kind: FrameKind::Request,
                length: PAYLOAD.len() as u32,
                compressed: false,
                count: 1,
                events: 1,
                first_lsn: Lsn(number),
                synced_lsn: Lsn(0),
                first_position: Position(number),
                session,
                chain,
                control_chain,
                copy_lsn: Lsn(0),
                encrypted: None,
            };
            frame.write(header.salt, &PAYLOAD, &mut bytes);
        }
        let path = segment::path(session, header.base, header.start, header.sealed);
        for (at, _) in path.match_indices('/') {
            env.storage.create_dir(&path[..at]).unwrap();
        }
        env.storage.create(&path).unwrap().write_at(0, &bytes).unwrap();
        path
    }

    #[test]
    fn recovery_copies_only_the_lost_frames_of_a_segment_to_memory() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::open(home.path()).unwrap();
        let path = write_segment(&env, 1_000);
        let lost = LostRecords { from: Lsn(500), to: Lsn(502), named: None, what: String::new() };
        let mut copies = BTreeMap::new();
        collect_copies((&env, [3; 16]), &path, &[lost], &mut copies).expect("it is a segment");
        assert_eq!(copies.keys().collect::<Vec<_>>(), [&Lsn(500), &Lsn(501)]);
        let alive: usize = copies
            .into_values()
            .map(|frame| frame.payload.try_into_mut().map_or(usize::MAX >> 2, |own| own.capacity()))
            .sum();
        assert_eq!(alive, 2 * PAYLOAD.len(), "bytes that stay in memory");
    }
}

//! Feeds bytes to every codec of `src/log`. Random bytes fit no checksum, so they also go in as the
//! payload of a whole frame, and as damage to one.

use bytes::Bytes;
use sessionlog::{
    event::{Lsn, Position, SessionHash},
    log::{
        ChainValue, Frame, FrameHeader, FrameKind, StoreFile, decode_settled,
        frame::HEADER_BYTES,
        journal::JournalHeader,
        record,
        scan::{ScanPiece, scan},
        segment::SegmentHeader,
    },
};

pub fn check(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    drop(scan(7, &input, 192));
    any_header(bytes);
    let _ = JournalHeader::decode(bytes);
    let _ = SegmentHeader::decode(bytes);
    let _ = StoreFile::decode(bytes);
    drop(decode_settled([0; 16], &input));
    let Some((choice, payload)) = bytes.split_first() else { return };
    any_payload(*choice, payload);
    any_damage(bytes);
}

fn header(choice: u8, payload: &[u8]) -> FrameHeader {
    let kinds = [FrameKind::Request, FrameKind::Watermark, FrameKind::Block, FrameKind::Columns];
    let session = SessionHash([1; 32]);
    FrameHeader {
        kind: kinds[usize::from(choice) % 4],
        length: u32::try_from(payload.len()).unwrap(),
        compressed: choice & 0x40 != 0,
        count: u32::from(choice >> 3) % 8,
        events: u32::from(choice >> 3) % 8,
        first_lsn: Lsn(5),
        synced_lsn: Lsn(4),
        first_position: Position(3),
        session,
        chain: ChainValue::start_of_events(session),
        control_chain: ChainValue::start_of_controls(session),
        copy_lsn: Lsn(0),
        encrypted: None,
    }
}

/// A header of any fields, under a checksum that fits: its numbers can be true together, or it is
/// none.
fn any_header(bytes: &[u8]) {
    let mut header = [0; HEADER_BYTES];
    let count = bytes.len().min(HEADER_BYTES);
    header[..count].copy_from_slice(&bytes[..count]);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&9_u64.to_le_bytes());
    [&header[..4], &header[8..]].into_iter().for_each(|part| hasher.update(part));
    header[4..8].copy_from_slice(&hasher.finalize().to_le_bytes());
    let Ok((read, _)) = FrameHeader::read(9, &header) else { return };
    assert!(read.events <= read.count && read.count <= 64 << 20, "{read:?}");
    assert!(read.end_lsn().0 < u64::MAX && read.range().to.0 < u64::MAX, "{read:?}");
    assert_eq!(read.range().len(), u64::from(read.events));
}

/// A whole frame around any payload: its records decode or they do not; what decodes encodes back.
fn any_payload(choice: u8, payload: &[u8]) {
    let header = header(choice, payload);
    let mut out = Vec::new();
    header.write(9, payload, &mut out);
    assert_eq!(out.len() as u64, header.stride());
    let frame = Frame::read(9, &Bytes::from(out)).expect("what was written reads back");
    assert_eq!((frame.header, &frame.payload[..]), (header, payload));
    let Ok(records) = frame.records() else { return };
    let mut again = Vec::new();
    for (_, record) in &records {
        record::encode(record, &mut again);
        drop(record.to_control());
    }
    let mut events = Vec::new();
    let _ = frame.append_events(frame.header.range(), &mut events);
    assert!(events.len() <= records.len());
    let decoded = record::decode(&Bytes::from(again), records.len()).expect("it encodes back");
    assert!(decoded.iter().zip(&records).all(|(again, (_, record))| again == record));
}

/// Three frames, one byte of them changed: the scan finds the others and no fourth. As in a real
/// file the payload cannot know the salt: under one that it knew it might hold a header.
fn any_damage(bytes: &[u8]) {
    let (Some(place), Some(change)) = (bytes.first_chunk::<2>(), bytes.get(2)) else { return };
    let payload = &bytes[3..];
    let salt = u64::from(crc32fast::hash(payload));
    let mut out = Vec::new();
    for choice in 0..3 {
        header(choice, payload).write(salt, payload, &mut out);
    }
    let place = usize::from(u16::from_le_bytes(*place)) % out.len();
    out[place] ^= change;
    let whole: Vec<Bytes> = scan(salt, &Bytes::from(out), 0)
        .pieces
        .into_iter()
        .filter_map(|piece| match piece {
            ScanPiece::Frame { frame, .. } => Some(frame.payload),
            ScanPiece::Bad { .. } => None,
        })
        .collect();
    assert!((2..=3).contains(&whole.len()), "{} whole", whole.len());
    assert!(whole.iter().all(|found| found == payload), "a frame nobody wrote");
}

//! Torn tails and damage in a file of frames.

use bytes::Bytes;

use sessionlog::{
    event::{Lsn, Position, SessionHash},
    log::{
        ChainValue, Fault, FrameHeader, FrameKind,
        frame::HEADER_BYTES,
        scan::{RegionScan, ScanPiece, WATERMARK_ALIGN_BYTES, scan, scan_file},
    },
};

const SALT: u64 = 7;

fn header(kind: FrameKind, lsn: u64, length: usize, first_position: u64) -> FrameHeader {
    FrameHeader {
        kind,
        length: length as u32,
        compressed: false,
        count: 1,
        events: 1,
        first_lsn: Lsn(lsn),
        synced_lsn: Lsn(0),
        first_position: Position(first_position),
        session: SessionHash([1; 32]),
        chain: ChainValue([2; 32]),
        control_chain: ChainValue([3; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    }
}

/// Returns three frames with payloads of 5, 500 and 50 bytes, from byte 8192 on.
fn region() -> Vec<u8> {
    let mut out = Vec::new();
    for (lsn, length) in [(1, 5), (2, 500), (3, 50)] {
        let payload = vec![lsn as u8; length];
        header(FrameKind::Request, lsn, length, lsn).write(SALT, &payload, &mut out);
    }
    out
}

fn describe(scan: &RegionScan) -> String {
    let piece = |piece: &ScanPiece| match piece {
        ScanPiece::Frame { frame, .. } => frame.header.first_lsn.0.to_string(),
        ScanPiece::Bad { header: Some(_), .. } => "named".to_owned(),
        ScanPiece::Bad { header: None, .. } => "unnamed".to_owned(),
    };
    scan.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_scan_reads_whole_frames_up_to_the_zeros_after_them() {
    let mut bytes = region();
    let end = bytes.len() as u64;
    bytes.resize(bytes.len() + 4096, 0);
    let found = scan(SALT, &bytes.into(), 8192);
    assert_eq!(describe(&found), "1 2 3");
    assert_eq!((found.end, found.rest), (8192 + end, Some(Fault::Zeros)));
}

#[test]
fn a_damaged_frame_with_an_intact_header_is_identified() {
    let second = 200;
    let mut bytes = region();
    bytes[second + HEADER_BYTES + 3] ^= 1;
    assert_eq!(describe(&scan(SALT, &bytes.into(), 8192)), "1 named 3");
    let mut bytes = region();
    bytes[second + 20] ^= 1;
    assert_eq!(describe(&scan(SALT, &bytes.into(), 8192)), "1 unnamed 3");
}

#[test]
fn adjacent_damaged_frames_are_all_identified_even_at_the_end() {
    let mut bytes = region();
    for payload in [200 + HEADER_BYTES + 3, 896 + HEADER_BYTES + 3] {
        bytes[payload] ^= 1;
    }
    let found = scan(SALT, &bytes.into(), 8192);
    assert_eq!((describe(&found).as_str(), found.end), ("1 named named", 8192 + 200));
}

#[test]
fn every_flipped_bit_is_detected() {
    let whole = region();
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        let padding = [197..200, 892..896, 1138..1144].iter().any(|pad| pad.contains(&byte));
        let found = scan(SALT, &bytes.into(), 8192);
        assert!(padding || describe(&found) != "1 2 3", "byte {byte}");
    }
}

#[test]
fn frames_with_the_salt_of_another_file_do_not_parse() {
    let found = scan(SALT + 1, &region().into(), 8192);
    assert_eq!((describe(&found).as_str(), found.end), ("", 8192));
}

#[test]
fn a_scan_resumes_at_a_watermark_after_a_gap() {
    let mut bytes = region();
    let end = 8192 + bytes.len() as u64;
    bytes.resize((end.next_multiple_of(WATERMARK_ALIGN_BYTES) - 8192) as usize, 0xaa);
    header(FrameKind::Watermark, 4, 0, end).write(SALT, &[], &mut bytes);
    let found = scan(SALT, &bytes.into(), 8192);
    assert_eq!((describe(&found).as_str(), found.rest), ("1 2 3 4", None));
}

#[test]
fn a_scan_returns_frames_of_every_kind_after_a_damaged_header() {
    let kinds = [FrameKind::Request, FrameKind::Watermark, FrameKind::Block, FrameKind::Columns];
    for kind in kinds {
        let mut bytes = region();
        let end = bytes.len();
        bytes[end - 248 + 20] ^= 1;
        header(kind, 4, 0, 4).write(SALT, &[], &mut bytes);
        assert_eq!(describe(&scan(SALT, &bytes.into(), 8192)), "1 2 unnamed 4", "{kind:?}");
    }
}

#[test]
fn a_scan_returns_the_same_frames_with_every_window_size() {
    let sim = sessionlog_sim::Sim::new(1);
    let mut bytes = vec![0; 8192];
    // Frames smaller and larger than a window, and one across its end.
    for (lsn, length) in [(1, 500), (2, 1 << 20), (3, 70), (4, (2 << 20) - 40), (5, 9)] {
        let payload = vec![lsn as u8; length];
        header(FrameKind::Request, lsn, length, lsn).write(SALT, &payload, &mut bytes);
    }
    for bad in [None, Some(8192 + 20), Some(9000), Some(2_000_000), Some(3_100_000)] {
        let mut bytes = bytes.clone();
        if let Some(at) = bad {
            bytes[at] ^= 1;
        }
        bytes.resize(bytes.len() + 5_000_000, 0);
        let path = format!("file-{bad:?}");
        sim.write_durable(&path, 0, &bytes);
        let file = sim.env().storage.open_read(&path).unwrap();
        let to = bytes.len() as u64;
        let found = scan_file(&*file, SALT, 8192, to).unwrap();
        let whole = scan(SALT, &Bytes::from(bytes).slice(8192..), 8192);
        let of = |scan: &RegionScan| (describe(scan), scan.end, scan.rest);
        assert_eq!(of(&found), of(&whole), "{bad:?}");
        assert_eq!(describe(&found).split(' ').count(), 5, "{bad:?}: {}", describe(&found));
    }
}

#[test]
fn arbitrary_bytes_return_no_frames_and_do_not_panic() {
    for seed in 0..64_u64 {
        let bytes: Vec<u8> =
            (0..2048_u64).map(|n| ((n * 2_654_435_761 + seed * 40_503) >> 7) as u8).collect();
        assert_eq!(describe(&scan(SALT, &bytes.into(), 0)), "");
    }
}

#[test]
fn a_header_with_a_wrong_offset_hides_no_frame() {
    let mut region = region();
    let (second, third) = (200, 200 + 192 + 504);
    // The header of the second frame within it: by its length it extends into the third.
    let header: Vec<u8> = region[second..second + HEADER_BYTES].to_vec();
    region[second + 300..second + 300 + HEADER_BYTES].copy_from_slice(&header);
    region[second..second + HEADER_BYTES].fill(0);
    let found = scan(SALT, &region.into(), 8192).pieces;
    let whole = |piece: &ScanPiece| match piece {
        ScanPiece::Frame { byte_offset, .. } => Some(*byte_offset - 8192),
        ScanPiece::Bad { .. } => None,
    };
    let whole: Vec<u64> = found.iter().filter_map(whole).collect();
    assert_eq!(whole, [0, third as u64]);
}

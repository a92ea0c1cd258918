//! Walks the frames of a region of a file and says where it is not whole. It must not judge: a bad
//! place is torn or damaged by what was durable, which the caller knows.

use bytes::Bytes;

use super::{
    error::Fault,
    frame::{ALIGN_BYTES, Frame, FrameHeader, FrameKind, HEADER_BYTES},
};
use crate::event::Position;

/// Watermarks lie at multiples of this many bytes, apart from the sectors of what they vouch for.
pub const WATERMARK_ALIGN_BYTES: u64 = 4096;

/// What lies at one place of the region.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A whole frame.
    Frame {
        /// Where it starts in the file.
        byte_offset: u64,
        /// The frame.
        frame: Frame,
    },
    /// Bytes that are no frame although one should be here and a later frame is whole.
    Bad {
        /// Where they start in the file.
        byte_offset: u64,
        /// What is wrong.
        fault: Fault,
        /// The header, when only the payload is wrong.
        header: Option<FrameHeader>,
    },
}

/// A region walked to its end.
#[derive(Clone, Debug)]
pub struct Scan {
    /// In order. A bad piece without a header is always followed by another piece.
    pub pieces: Vec<Piece>,
    /// Byte offset in the file where the last whole frame ended.
    pub end: u64,
    /// What lies behind the last piece, when the region goes on: nothing there is a whole frame.
    pub rest: Option<Fault>,
}

/// Walks `region`, which starts at `base` in its file, with the salt of that file's use.
#[must_use]
pub fn scan(salt: u64, region: &Bytes, base: u64) -> Scan {
    let mut pieces = Vec::new();
    let (mut at, mut end) = (0, base);
    loop {
        let rest = region.slice(at.min(region.len())..);
        if rest.is_empty() {
            return Scan { pieces, end, rest: None };
        }
        let byte_offset = base + at as u64;
        let fault = match Frame::read(salt, &rest) {
            Ok(frame) => {
                at += frame.header.stride() as usize;
                end = base + at as u64;
                pieces.push(Piece::Frame { byte_offset, frame });
                continue;
            }
            Err(fault) => fault,
        };
        if let Some((start, frame)) = watermark_behind(salt, region, base, at) {
            at = start + frame.header.stride() as usize;
            end = base + at as u64;
            pieces.push(Piece::Frame { byte_offset: base + start as u64, frame });
            continue;
        }
        if let Ok((header, _)) = FrameHeader::read(salt, &rest) {
            pieces.push(Piece::Bad { byte_offset, fault, header: Some(header) });
            at += header.stride() as usize;
            continue;
        }
        match next_whole(salt, region, at) {
            Some(next) => {
                pieces.push(Piece::Bad { byte_offset, fault, header: None });
                at = next;
            }
            None => return Scan { pieces, end, rest: Some(fault) },
        }
    }
}

/// A watermark at the next boundary that says that the frame before ended here.
fn watermark_behind(salt: u64, region: &Bytes, base: u64, at: usize) -> Option<(usize, Frame)> {
    let here = base + at as u64;
    let boundary = here.next_multiple_of(WATERMARK_ALIGN_BYTES);
    let start = usize::try_from(boundary - base).ok()?;
    let frame = Frame::read(salt, &region.get(start..).map(|_| region.slice(start..))?).ok()?;
    let vouches =
        frame.header.kind == FrameKind::Watermark && frame.header.first_position == Position(here);
    vouches.then_some((start, frame))
}

/// Where the first whole frame behind a bad one starts, or the first whole header.
fn next_whole(salt: u64, region: &Bytes, bad: usize) -> Option<usize> {
    let mut at = bad + ALIGN_BYTES as usize;
    while at + HEADER_BYTES <= region.len() {
        // kind, codec, compression and cipher of any frame this version writes.
        let likely = matches!(region.get(at + 12..at + 16), Some([1..=3, 1, 0..=1, 0]));
        if likely && FrameHeader::read(salt, &region.slice(at..)).is_ok() {
            return Some(at);
        }
        at += ALIGN_BYTES as usize;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Lsn, SessionHash},
        log::Chain,
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
            chain: Chain([2; 32]),
            control_chain: Chain([3; 32]),
            copy_lsn: Lsn(0),
        }
    }

    /// Three frames with payloads of 5, 500 and 50 bytes, from byte 8192 on.
    fn region() -> Vec<u8> {
        let mut out = Vec::new();
        for (lsn, length) in [(1, 5), (2, 500), (3, 50)] {
            let payload = vec![lsn as u8; length];
            header(FrameKind::Request, lsn, length, lsn).write(SALT, &payload, &mut out);
        }
        out
    }

    fn shape(scan: &Scan) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Frame { frame, .. } => frame.header.first_lsn.0.to_string(),
            Piece::Bad { header: Some(_), .. } => "named".to_owned(),
            Piece::Bad { header: None, .. } => "unnamed".to_owned(),
        };
        scan.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn whole_frames_are_walked_to_the_zeros_behind_them() {
        let mut bytes = region();
        let end = bytes.len() as u64;
        bytes.resize(bytes.len() + 4096, 0);
        let found = scan(SALT, &bytes.into(), 8192);
        assert_eq!(shape(&found), "1 2 3");
        assert_eq!((found.end, found.rest), (8192 + end, Some(Fault::Zeros)));
    }

    #[test]
    fn a_bad_frame_is_named_when_its_header_is_whole() {
        let second = 200;
        let mut bytes = region();
        bytes[second + HEADER_BYTES + 3] ^= 1;
        assert_eq!(shape(&scan(SALT, &bytes.into(), 8192)), "1 named 3");
        let mut bytes = region();
        bytes[second + 20] ^= 1;
        assert_eq!(shape(&scan(SALT, &bytes.into(), 8192)), "1 unnamed 3");
    }

    #[test]
    fn adjacent_bad_frames_are_all_named_at_the_end_too() {
        let mut bytes = region();
        for payload in [200 + HEADER_BYTES + 3, 896 + HEADER_BYTES + 3] {
            bytes[payload] ^= 1;
        }
        let found = scan(SALT, &bytes.into(), 8192);
        assert_eq!((shape(&found).as_str(), found.end), ("1 named named", 8192 + 200));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let whole = region();
        for byte in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[byte] ^= 0x10;
            let padding = [197..200, 892..896, 1138..1144].iter().any(|pad| pad.contains(&byte));
            let found = scan(SALT, &bytes.into(), 8192);
            assert!(padding || shape(&found) != "1 2 3", "byte {byte}");
        }
    }

    #[test]
    fn frames_of_another_use_do_not_parse() {
        let found = scan(SALT + 1, &region().into(), 8192);
        assert_eq!((shape(&found).as_str(), found.end), ("", 8192));
    }

    #[test]
    fn a_watermark_leads_over_the_gap_before_it() {
        let mut bytes = region();
        let end = 8192 + bytes.len() as u64;
        bytes.resize((end.next_multiple_of(WATERMARK_ALIGN_BYTES) - 8192) as usize, 0xaa);
        header(FrameKind::Watermark, 4, 0, end).write(SALT, &[], &mut bytes);
        let found = scan(SALT, &bytes.into(), 8192);
        assert_eq!((shape(&found).as_str(), found.rest), ("1 2 3 4", None));
    }

    #[test]
    fn arbitrary_bytes_are_no_frames_and_no_panic() {
        for seed in 0..64_u64 {
            let bytes: Vec<u8> =
                (0..2048_u64).map(|n| ((n * 2_654_435_761 + seed * 40_503) >> 7) as u8).collect();
            assert_eq!(shape(&scan(SALT, &bytes.into(), 0)), "");
        }
    }
}

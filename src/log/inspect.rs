//! Reads a journal file or segment for an operator: its header, frames and damaged ranges. It must
//! not repair, and trusts nothing but checksums.

use super::{
    FrameHeader,
    error::{Fault, LogError},
    frame::{FrameKind, HEADER_BYTES},
    journal::{self, JournalHeader},
    scan::{ScanPiece, scan_file},
    seal::frames_end,
    segment::{self, SegmentHeader},
};
use crate::env::File;

/// Content of a journal file or segment, as stored.
#[derive(Clone, Debug)]
pub struct InspectedFile {
    /// Header of the file, which depends on its kind.
    pub header: FileHeader,
    /// Frames and damaged ranges, in order of byte offset.
    pub frames: Vec<InspectedFrame>,
    /// Byte offset of the end of the last whole frame.
    pub end: u64,
    /// Description of the bytes after the last frame, if any.
    pub rest: Option<String>,
}

/// Header of a file, which depends on its kind.
#[derive(Clone, Copy, Debug)]
pub enum FileHeader {
    /// A journal file.
    Journal(JournalHeader),
    /// A segment, open or sealed.
    Segment(SegmentHeader),
}

/// Frame or damaged range of a file.
#[derive(Clone, Debug)]
pub struct InspectedFrame {
    /// Byte offset of the frame or range.
    pub byte_offset: u64,
    /// Header of the frame; of a damaged range only if the header is whole.
    pub header: Option<FrameHeader>,
    /// Fault of the frame or range; `None` for a whole frame.
    pub fault: Option<String>,
    /// True if the payload is zeros, because its records were erased or redacted.
    pub cleared: bool,
    /// Type and id of each event, in order; empty for damaged ranges, watermarks, control records
    /// and encrypted frames.
    pub events: Vec<(String, String)>,
}

/// Reads a journal file or segment.
///
/// # Errors
/// If the file is neither, or cannot be read.
pub fn inspect(file: &dyn File) -> Result<InspectedFile, LogError> {
    let length = file.len()?;
    let (header, salt, from) = match JournalHeader::read(file) {
        Ok(header) => (FileHeader::Journal(header), header.salt, journal::FRAMES_AT),
        Err(_) => {
            let header = SegmentHeader::read(file)?;
            (FileHeader::Segment(header), header.salt, segment::FRAMES_AT)
        }
    };
    let (to, tables) = match header {
        FileHeader::Segment(header) if header.sealed => match frames_end(file, &header, length) {
            Ok(end) => (end, None),
            Err(LogError::Fault { byte_offset, fault }) => (length, Some((byte_offset, fault))),
            Err(error) => return Err(error),
        },
        _ => (length, None),
    };
    let found = scan_file(file, salt, from, to)?;
    let mut frames: Vec<_> = found.pieces.iter().map(inspect_piece).collect();
    if let FileHeader::Journal(_) = header {
        for frame in frames.iter_mut().filter(|frame| frame.fault.is_some()) {
            if is_cleared(file, frame)? {
                (frame.cleared, frame.fault) = (true, None);
            }
        }
    }
    frames.extend(tables.map(|(byte_offset, fault)| InspectedFrame {
        byte_offset,
        header: None,
        fault: Some(format!("tables: {fault}")),
        cleared: false,
        events: Vec::new(),
    }));
    let rest = found.rest.filter(|_| tables.is_none()).map(|fault| match (header, fault) {
        (FileHeader::Journal(_), Fault::Zeros) => "zeros, never used".to_owned(),
        (FileHeader::Journal(_), _) => "what an earlier use left, or a torn write".to_owned(),
        (FileHeader::Segment(_), fault) => fault.to_string(),
    });
    Ok(InspectedFile { header, frames, end: found.end, rest })
}

/// Returns true if the payload of a damaged frame is all zeros.
fn is_cleared(file: &dyn File, frame: &InspectedFrame) -> Result<bool, LogError> {
    let Some(header) = frame.header.filter(|header| header.length > 0) else { return Ok(false) };
    let from = frame.byte_offset + HEADER_BYTES as u64;
    let payload = journal::read(file, from, from + u64::from(header.length))?;
    Ok(payload.iter().all(|byte| *byte == 0))
}

fn inspect_piece(piece: &ScanPiece) -> InspectedFrame {
    match piece {
        ScanPiece::Bad { byte_offset, fault, header } => InspectedFrame {
            byte_offset: *byte_offset,
            header: *header,
            fault: Some(fault.to_string()),
            cleared: false,
            events: Vec::new(),
        },
        ScanPiece::Frame { byte_offset, frame } => {
            let records = match frame.header.kind {
                _ if frame.header.encrypted.is_some() => Ok(Vec::new()),
                FrameKind::Watermark => Ok(Vec::new()),
                FrameKind::Request | FrameKind::Block | FrameKind::Columns => frame.records(),
            };
            let fault = records.as_ref().err().map(ToString::to_string);
            let events = records.unwrap_or_default().into_iter().map(|(_, record)| record);
            InspectedFrame {
                byte_offset: *byte_offset,
                header: Some(frame.header),
                fault,
                cleared: false,
                events: events
                    .filter(|record| record.is_event())
                    .map(|record| (record.name().to_owned(), record.id().to_owned()))
                    .collect(),
            }
        }
    }
}

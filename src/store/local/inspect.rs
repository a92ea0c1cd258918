//! Contents of a file of a data directory, for an operator: the engine's part of `inspect`. It must
//! not change a file.

use std::io;

use super::layout::{STORE, keys_path, settled_path};
use crate::{
    env::{File, Storage},
    log::{LogError, frame::FrameKind, inspect as log_inspect, inspect::FileHeader},
};

/// A journal file or segment, line by line.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Kind of the file: `journal` or `segment`.
    pub kind: &'static str,
    /// Fields of the header: name and value.
    pub header: Vec<(&'static str, String)>,
    /// Its frames and damaged ranges, in order.
    pub frames: Vec<InspectionLine>,
    /// Byte offset of the end of the last whole frame.
    pub end: u64,
    /// Description of the end: zeros of a journal file, or the fault of a torn tail.
    pub rest: Option<String>,
}

/// Frame or damaged range.
#[derive(Clone, Debug)]
pub struct InspectionLine {
    /// Byte offset of the frame or range.
    pub byte_offset: u64,
    /// `request`, `watermark`, `block`, `bad`, or `cleared` if its payload was zeroed.
    pub kind: &'static str,
    /// Hash of the session, first 16 hex digits; empty for a watermark or a range without a header.
    pub session: String,
    /// Log sequence number of the first record.
    pub first_lsn: u64,
    /// Position of the first event.
    pub first_position: u64,
    /// Number of records.
    pub records: u32,
    /// Length of the payload as stored, in bytes.
    pub bytes: u32,
    /// Type and id of each event.
    pub events: Vec<(String, String)>,
    /// Its fault, for a damaged range.
    pub fault: Option<String>,
}

/// Reads a journal file or segment, without the store's lock: a file in use may change meanwhile.
///
/// # Errors
/// `InvalidData` if the file is neither.
pub fn inspect(file: &dyn File) -> io::Result<Inspection> {
    let found = log_inspect::inspect(file).map_err(|error| match error {
        LogError::Io(error) => error,
        fault @ LogError::Fault { .. } => {
            let what = format!("neither a journal file nor a segment: {fault}");
            io::Error::new(io::ErrorKind::InvalidData, what)
        }
    })?;
    let (kind, header) = match found.header {
        FileHeader::Journal(header) => (
            "journal",
            vec![
                ("order", header.order.to_string()),
                ("start", header.start.to_string()),
                ("first_lsn", header.first_lsn.0.to_string()),
                ("previous_order", header.previous_order.to_string()),
                ("previous_end", header.previous_end.to_string()),
            ],
        ),
        FileHeader::Segment(header) => (
            "segment",
            vec![
                ("session", header.session.to_string()),
                ("base", header.base.to_string()),
                ("start", header.start.to_string()),
                ("first_lsn", header.first_lsn.0.to_string()),
                ("sealed", header.sealed.to_string()),
            ],
        ),
    };
    let frames = found.frames.into_iter().map(to_inspection_line).collect();
    Ok(Inspection { kind, header, frames, end: found.end, rest: found.rest })
}

/// File of a data directory without frames: its path, its kind, and its length and format version,
/// or the error of the file system.
pub type Versioned = (String, &'static str, io::Result<(u64, u32)>);

/// Returns the existing files of a data directory without frames, each with the format version in
/// its header.
#[must_use]
pub fn list_versions(storage: &dyn Storage) -> Vec<Versioned> {
    let settled = (0..2).map(|slot| (settled_path(slot), "settled"));
    let keys = (0..2).map(|file| (keys_path(file), "keys"));
    let version = |path: &str| {
        let file = storage.open_read(path)?;
        // In every file the version follows the eight bytes of the magic.
        let mut number = [0; 4];
        file.read_at(8, &mut number)?;
        Ok((file.len()?, u32::from_le_bytes(number)))
    };
    let absent = |found: &io::Result<(u64, u32)>| {
        found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    std::iter::once((STORE.to_owned(), "store"))
        .chain(settled)
        .chain(keys)
        .map(|(path, kind)| {
            let found = version(&path);
            (path, kind, found)
        })
        .filter(|(.., found)| !absent(found))
        .collect()
}

fn to_inspection_line(found: log_inspect::InspectedFrame) -> InspectionLine {
    let header = found.header;
    let kind = match (&found.fault, header.map(|header| header.kind)) {
        _ if found.cleared => "cleared",
        (Some(_), _) | (None, None) => "bad",
        (None, Some(FrameKind::Request)) => "request",
        (None, Some(FrameKind::Watermark)) => "watermark",
        (None, Some(FrameKind::Block | FrameKind::Columns)) => "block",
    };
    let named = header.filter(|header| header.kind != FrameKind::Watermark);
    InspectionLine {
        byte_offset: found.byte_offset,
        kind,
        session: named.map(|header| short_hash(&header.session.to_string())).unwrap_or_default(),
        first_lsn: header.map_or(0, |header| header.first_lsn.0),
        first_position: named.map_or(0, |header| header.first_position.0),
        records: header.map_or(0, |header| header.count),
        bytes: header.map_or(0, |header| header.length),
        events: found.events,
        fault: found.fault,
    }
}

fn short_hash(hash: &str) -> String {
    hash.chars().take(16).collect()
}

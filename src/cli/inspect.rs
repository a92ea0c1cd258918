//! `inspect`: lists the contents of one file of a data directory, or of all. It takes no lock, so
//! an owner may change files meanwhile. It must not change anything, nor need an owner.

use std::{io, path::Path};

use serde_json::{Map, Value, json};

use super::{
    failure::{CliError, DAMAGED, Outcome},
    screen::{Screen, Tone, escaped, format_size, with_noun},
};
use crate::{
    env::{Storage, disk::DataDir, files},
    store::local::{Inspection, InspectionLine, inspect, list_versions},
};

/// Maximum number of events of one frame that are listed.
const EVENTS_NAMED: usize = 3;

pub(super) fn run(path: &Path, screen: &mut Screen) -> Outcome {
    let failed = CliError::file(path);
    let absent = "no such file or directory; inspect expects a data directory, or a journal file or \
                  segment in one";
    let found = files::path_info(path)
        .and_then(|found| found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, absent)))
        .map_err(&failed)?;
    let bad = match found.is_dir {
        true => print_directory(path, screen)?,
        false => {
            let inspection = inspect_file(path).map_err(failed)?;
            print_inspection(&inspection, screen)?;
            count_faults(&inspection)
        }
    };
    if bad == 0 { Ok(()) } else { Err(CliError::Silent(DAMAGED)) }
}

fn inspect_file(path: &Path) -> io::Result<Inspection> {
    let absolute = files::canonicalize(path)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    inspect(&*DataDir::open(parent)?.open_read(name)?)
}

fn count_faults(inspection: &Inspection) -> usize {
    inspection.frames.iter().filter(|line| line.fault.is_some()).count()
}

/// Prints one line for each journal file and segment of a data directory; returns the number of
/// damaged ranges.
fn print_directory(path: &Path, screen: &mut Screen) -> Outcome<usize> {
    let disk = DataDir::open(path).map_err(CliError::file(path))?;
    let mut bad = 0;
    let mut found = Vec::new();
    for (name, kind, version) in list_versions(&disk) {
        let (bytes, state) = match version {
            Ok((bytes, version)) => (bytes, format!("version {version}")),
            Err(error) => (0, error.to_string()),
        };
        found.push((name, kind, 0, 0, bytes, state));
    }
    for name in list_files(&disk).map_err(CliError::file(path))? {
        let opened = disk.open_read(&name).and_then(|file| Ok((file.len()?, inspect(&*file)?)));
        let (kind, frames, records, bytes, state) = match &opened {
            Ok((bytes, found)) => {
                bad += count_faults(found);
                let records: u64 = found.frames.iter().map(|line| u64::from(line.records)).sum();
                (found.kind, found.frames.len(), records, *bytes, describe_state(found))
            }
            Err(_) if is_spare_journal_file(&disk, &name) => {
                ("spare", 0, 0, 0, "the next file of the journal".to_owned())
            }
            Err(error) => ("unreadable", 0, 0, 0, error.to_string()),
        };
        found.push((name, kind, frames, records, bytes, state));
    }
    if screen.json {
        for (name, kind, frames, records, bytes, state) in found {
            screen.print_json(&json!({
                "file": name, "kind": kind, "frames": frames, "records": records,
                "bytes": bytes, "state": state,
            }))?;
        }
        return Ok(bad);
    }
    let rows = found.into_iter().map(|(name, kind, frames, records, bytes, state)| {
        let (frames, records) = (frames.to_string(), records.to_string());
        vec![name, kind.to_owned(), frames, records, format_size(bytes), escaped(&state)]
    });
    screen.print_table(&["FILE", "KIND", "FRAMES", "RECORDS", "SIZE", "STATE"], rows.collect())?;
    Ok(bad)
}

/// Returns true for the empty, preallocated file after the last journal file.
fn is_spare_journal_file(disk: &DataDir, name: &str) -> bool {
    let empty = || disk.open_read(name).and_then(|file| file.is_empty()).unwrap_or(false);
    name.starts_with("journal/") && empty()
}

fn describe_state(found: &Inspection) -> String {
    match count_faults(found) {
        0 => found.rest.clone().unwrap_or_else(|| "whole".to_owned()),
        count => with_noun(count as u64, "bad place"),
    }
}

/// Returns the names of the journal files and segments.
fn list_files(disk: &DataDir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut waiting = vec!["journal".to_owned(), "segments".to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match disk.list(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        for entry in entries {
            let name = format!("{directory}/{}", entry.name);
            if entry.is_dir { waiting.push(name) } else { names.push(name) }
        }
    }
    names.sort();
    Ok(names)
}

fn print_inspection(found: &Inspection, screen: &mut Screen) -> Outcome {
    if screen.json {
        let header: Map<String, Value> = found
            .header
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
            .collect();
        let frames: Vec<Value> = found.frames.iter().map(frame_to_json).collect();
        screen.print_json(&json!({
            "kind": found.kind, "header": header, "frames": frames, "end": found.end,
            "rest": found.rest,
        }))?;
        return Ok(());
    }
    screen.print_line(screen.paint(Tone::Strong, found.kind))?;
    for (name, value) in &found.header {
        screen.print_line(format!("  {name:<15} {value}"))?;
    }
    let rows = found.frames.iter().map(table_row).collect();
    let heads = ["BYTE OFFSET", "KIND", "SESSION", "LSN", "POSITION", "RECORDS", "BYTES", "EVENTS"];
    screen.print_table(&heads, rows)?;
    let rest = found.rest.as_deref().unwrap_or("nothing");
    screen.print_line(format!("  from byte {} on: {}", found.end, escaped(rest)))?;
    Ok(())
}

fn table_row(line: &InspectionLine) -> Vec<String> {
    let mut told: Vec<String> = line
        .events
        .iter()
        .take(EVENTS_NAMED)
        .map(|(kind, id)| format!("{kind} {}", escaped(id)))
        .collect();
    if line.events.len() > EVENTS_NAMED {
        told.push(format!("and {} more", line.events.len() - EVENTS_NAMED));
    }
    if let Some(fault) = &line.fault {
        told.push(escaped(fault));
    }
    vec![
        line.byte_offset.to_string(),
        line.kind.to_owned(),
        line.session.clone(),
        line.first_lsn.to_string(),
        line.first_position.to_string(),
        line.records.to_string(),
        line.bytes.to_string(),
        told.join(", "),
    ]
}

fn frame_to_json(line: &InspectionLine) -> Value {
    let events: Vec<Value> =
        line.events.iter().map(|(kind, id)| json!({ "type": kind, "id": id })).collect();
    json!({
        "byte_offset": line.byte_offset,
        "kind": line.kind,
        "session": line.session,
        "first_lsn": line.first_lsn,
        "first_position": line.first_position,
        "records": line.records,
        "bytes": line.bytes,
        "events": events,
        "fault": line.fault,
    })
}

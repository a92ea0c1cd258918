//! What real conversations take on disk once they are at rest: imported as a user would, the
//! server stopped, every file counted. It must not count what is there whatever is stored: the
//! journal's ring is told beside it.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    cell::{Figure, Found, Group, Probe},
    runner::float,
    server::Server,
    site::Site,
};
use crate::{
    cli::{
        connect,
        failure::{Failure, Outcome},
        screen::size,
    },
    client::{Client, Target},
    env::files,
    import::{self, Source},
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Disk,
    figures: &[
        Figure {
            id: "disk.ratio",
            what: "bytes on disk after a stop, for each byte of the conversations imported",
            unit: "bytes/byte",
        },
        Figure { id: "disk.payload", what: "bytes of the conversations imported", unit: "bytes" },
    ],
    run,
};

const SAMPLE: &str = include_str!("../../../examples/conversation.jsonl");
const DATA_DIR: &str = "room";
/// The ring of the journal: as large whatever is stored.
const JOURNAL: &str = "journal";

fn run(site: &mut Site) -> Outcome<Found> {
    let data_dir = site.path(DATA_DIR);
    let imported = {
        let server = Server::start(site, &data_dir)?;
        let url = format!("http://{}", server.address);
        let url = url.parse().map_err(io::Error::other)?;
        let client = Client::new(Target::Server(url), connect::random_text())?;
        site.runtime.block_on(fill(&client, &site.settings.transcripts))?
    };
    let unjudged = match imported.left_out {
        _ if site.settings.transcripts.is_empty() => Some(
            "of a tiny conversation of ours; name yours, files or directories, with --transcripts"
                .to_owned(),
        ),
        0 => None,
        lines => Some(format!("of transcripts of which {lines} lines are no conversation")),
    };
    let ring = bytes_below(&data_dir.join(JOURNAL))?;
    site.notes.push(format!("disk: the journal's ring of {} is not counted", size(ring)));
    let kept = bytes_below(&data_dir)?.saturating_sub(ring);
    let values =
        vec![vec![float(kept) / float(imported.bytes.max(1))], vec![float(imported.bytes)]];
    Ok(Found { values, unjudged })
}

/// What was imported.
#[derive(Default)]
struct Imported {
    bytes: u64,
    /// Lines that were not understood: their bytes are in no session.
    left_out: usize,
}

/// Imports the conversations, or the built-in one.
async fn fill(client: &Client, transcripts: &[PathBuf]) -> Outcome<Imported> {
    let mut imported = Imported::default();
    let mut progress = |_| {};
    for path in conversations(transcripts)? {
        let of_file = |source| Failure::File { path: path.clone(), source };
        let input = files::open(&path).map_err(of_file)?;
        imported.bytes += input.bytes.unwrap_or_default();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("transcript");
        let source = Source { reader: input.reader, name: name.to_owned(), session: None };
        imported.left_out += import::import(client, source, &mut progress).await?.bad.len();
    }
    if transcripts.is_empty() {
        imported.bytes = SAMPLE.len() as u64;
        let reader = Box::new(SAMPLE.as_bytes());
        let source = Source { reader, name: "sample".to_owned(), session: None };
        import::import(client, source, &mut progress).await?;
    }
    Ok(imported)
}

/// The files named, and those below the directories named whose names say that they are JSON lines.
fn conversations(named: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in named {
        let of_file = |source| Failure::File { path: path.clone(), source };
        match files::look(path).map_err(of_file)? {
            Some(at) if at.is_dir => {
                let below = files_below(path).map_err(of_file)?.into_iter().map(|(path, _)| path);
                found.extend(
                    below.filter(|path| path.extension().is_some_and(|end| end == "jsonl")),
                );
            }
            _ => found.push(path.clone()),
        }
    }
    if found.is_empty() && !named.is_empty() {
        let message = "--transcripts: no file below it ends in .jsonl".to_owned();
        return Err(Failure::Usage(message));
    }
    found.sort();
    Ok(found)
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> io::Result<u64> {
    Ok(files_below(directory)?.into_iter().map(|(_, bytes)| bytes).sum())
}

/// All files below a directory, each with its bytes.
fn files_below(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut open = vec![directory.to_path_buf()];
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        for path in files::list(&at)? {
            match files::look(&path)? {
                Some(look) if look.is_dir => open.push(path),
                Some(look) => found.push((path, look.bytes)),
                None => {}
            }
        }
    }
    Ok(found)
}

//! What real conversations take on disk once they are at rest: imported as a user would, the
//! server stopped, every file counted. It must not count what is there whatever is stored: the
//! journal's ring is told beside it.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    cell::{Figure, Group, Probe},
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

fn run(site: &mut Site) -> Outcome<Vec<Vec<f64>>> {
    let data_dir = site.path(DATA_DIR);
    let payload = {
        let server = Server::start(site, &data_dir)?;
        let url = format!("http://{}", server.address);
        let url = url.parse().map_err(io::Error::other)?;
        let client = Client::new(Target::Server(url), connect::random_text())?;
        site.runtime.block_on(fill(&client, &site.settings.transcripts))?
    };
    if site.settings.transcripts.is_empty() {
        let note = "disk: the built-in conversation is small; name your own with --transcripts";
        site.notes.push(note.to_owned());
    }
    let ring = bytes_below(&data_dir.join(JOURNAL))?;
    site.notes.push(format!("disk: the journal's ring of {} is not counted", size(ring)));
    let kept = bytes_below(&data_dir)?.saturating_sub(ring);
    Ok(vec![vec![float(kept) / float(payload.max(1))], vec![float(payload)]])
}

/// Imports the conversations; answers their bytes.
async fn fill(client: &Client, transcripts: &[PathBuf]) -> Outcome<u64> {
    let mut payload = 0;
    let mut progress = |_| {};
    for path in transcripts {
        let of_file = |source| Failure::File { path: path.clone(), source };
        let input = files::open(path).map_err(of_file)?;
        payload += input.bytes.unwrap_or_default();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("transcript");
        let source = Source { reader: input.reader, name: name.to_owned(), session: None };
        import::import(client, source, &mut progress).await?;
    }
    if transcripts.is_empty() {
        payload = SAMPLE.len() as u64;
        let reader = Box::new(SAMPLE.as_bytes());
        let source = Source { reader, name: "sample".to_owned(), session: None };
        import::import(client, source, &mut progress).await?;
    }
    Ok(payload)
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> io::Result<u64> {
    let mut open = vec![directory.to_path_buf()];
    let mut bytes = 0;
    while let Some(at) = open.pop() {
        for path in files::list(&at)? {
            match files::look(&path)? {
                Some(found) if found.is_dir => open.push(path),
                Some(found) => bytes += found.bytes,
                None => {}
            }
        }
    }
    Ok(bytes)
}

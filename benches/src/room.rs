//! Disk bytes of real conversations in a stopped store: each message appended unchanged, and for
//! comparison imported as a user would. It must not count files of a fixed size: the journal's ring
//! is reported next to the result.

use std::{
    io::{self, BufRead as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    engine,
    failure::{Failure, Outcome},
    runner::float,
    sample::Sample,
    server::Server,
    site::Site,
};
use sessionlog::{
    client::{Client, ClientTarget},
    env::files,
    event::Batch,
    import::{self, ImportSource},
    store::{
        Store,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Disk,
    figures: &[
        figure(
            "disk.ratio",
            "bytes on disk after a stop, for each byte of the messages appended",
            "bytes/byte",
        ),
        figure(
            "disk.imported",
            "the same transcripts imported, for each byte of their files",
            "bytes/byte",
        ),
        figure("disk.payload", "bytes of the messages", "bytes"),
    ],
    run,
};

const SAMPLE: &str = include_str!("../../examples/conversation.jsonl");
/// Files of a fixed size: the ring of the journal, and the space reserved for deletions on a full
/// disk.
const FIXED: [&str; 9] = [
    "journal",
    "reserve",
    "reserve.1",
    "reserve.2",
    "reserve.3",
    "reserve.4",
    "reserve.5",
    "reserve.6",
    "reserve.7",
];
/// Number of messages of one append.
const BATCH: usize = 100;

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let sample = site.path("conversation.jsonl");
    let named = match site.settings.transcripts.as_slice() {
        [] => {
            let mut file = files::create(&sample)?;
            io::Write::write_all(&mut file, SAMPLE.as_bytes())?;
            file.finish()?;
            vec![sample]
        }
        named => transcripts(named)?,
    };
    let read = Read::of(&named)?;
    let unjudged = match read.left_out {
        _ if site.settings.transcripts.is_empty() => Some(
            "of a tiny conversation of ours; name yours, files or directories, with --transcripts"
                .to_owned(),
        ),
        0 => None,
        lines => Some(format!("of transcripts of which {lines} lines are no JSON objects")),
    };
    let runtime = site.runtime.handle().clone();
    runtime.block_on(append(site, &read.conversations))?;
    let messages = read.conversations.iter().flatten().map(|message| message.len() as u64).sum();
    let kept = bytes_at_rest(&site.path("messages"))?;
    let (bytes, left_out) = import_all(site, &named)?;
    let imported = bytes_at_rest(&site.path("imported"))?;
    if left_out > 0 {
        let note = format!("disk: {left_out} lines were not imported; disk.imported is too small");
        site.notes.push(note);
    }
    let fixed = fixed_bytes_below(&site.path("messages"))?;
    let fixed = indicatif::HumanBytes(fixed);
    site.notes.push(format!("disk: the ring and the reserve, {fixed}, are not counted"));
    let ratio = |kept: u64, bytes: u64| vec![float(kept) / float(bytes.max(1))];
    let values = vec![ratio(kept, messages), ratio(imported, bytes), vec![float(messages)]];
    Ok(ProbeResult { values, unjudged })
}

/// Returns the bytes of a stopped store's data directory, without the files of a fixed size.
fn bytes_at_rest(data_dir: &Path) -> Outcome<u64> {
    Ok(bytes_below(data_dir)?.saturating_sub(fixed_bytes_below(data_dir)?))
}

fn fixed_bytes_below(data_dir: &Path) -> Outcome<u64> {
    let of = |name: &&str| bytes_below(&data_dir.join(name));
    Ok(FIXED.iter().map(of).sum::<io::Result<u64>>()?)
}

/// Contents of transcripts.
#[derive(Default)]
struct Read {
    /// Messages of each conversation, unchanged.
    conversations: Vec<Vec<Bytes>>,
    /// Number of lines that are neither JSON objects nor lists of them.
    left_out: usize,
}

/// A line with a whole conversation.
#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

impl Read {
    /// Reads files with a conversation in each line, or with a message in each line.
    fn of(paths: &[PathBuf]) -> Outcome<Self> {
        let mut read = Self::default();
        for path in paths {
            let of_file = |source| Failure::File { path: path.clone(), source };
            let mut lines = Vec::new();
            for line in files::open(path).map_err(of_file)?.reader.lines() {
                let line = line.map_err(of_file)?;
                let many = serde_json::from_str::<Whole<'_>>(&line).map(|whole| whole.messages);
                let many = many.or_else(|_| serde_json::from_str::<Vec<&RawValue>>(&line));
                if let Ok(many) = many {
                    let bytes = |one: &&RawValue| Bytes::copy_from_slice(one.get().as_bytes());
                    read.conversations.push(many.iter().map(bytes).collect());
                } else if line.starts_with('{') && serde_json::from_str::<&RawValue>(&line).is_ok()
                {
                    lines.push(Bytes::from(line));
                } else if !line.trim().is_empty() {
                    read.left_out += 1;
                }
            }
            read.conversations.extend((!lines.is_empty()).then_some(lines));
        }
        Ok(read)
    }
}

/// Appends each message as an event, each conversation to one session, and stops the store.
async fn append(site: &Site, conversations: &[Vec<Bytes>]) -> Outcome {
    let env = site.env("messages")?;
    let local =
        Arc::new(LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?);
    let keys = engine::keys(conversations.len());
    engine::create(&*local, &keys).await.map_err(io::Error::other)?;
    for (key, messages) in keys.iter().zip(conversations) {
        for part in messages.chunks(BATCH) {
            let event =
                |body: &Bytes| engine::event(&Sample { json: Bytes::new(), body: body.clone() });
            let events = part.iter().map(event).collect();
            let batch = Batch { events, ..Batch::default() };
            local.append(key, batch).await.map_err(io::Error::other)?;
        }
    }
    local.close().await;
    Ok(())
}

/// Imports transcripts through a separate server; returns their bytes, and the number of their
/// invalid lines.
fn import_all(site: &Site, paths: &[PathBuf]) -> Outcome<(u64, u64)> {
    let server = Server::start(site, &site.path("imported"))?;
    let url = format!("http://{}", server.address).parse().map_err(io::Error::other)?;
    let client = Client::new(ClientTarget::Server(url), "bench")?;
    let (mut bytes, mut left_out) = (0, 0);
    for path in paths {
        let of_file = |source| Failure::File { path: path.clone(), source };
        let input = files::open(path).map_err(of_file)?;
        bytes += input.bytes.unwrap_or_default();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("transcript");
        let source = ImportSource {
            reader: input.reader,
            name: name.to_owned(),
            session: None,
            subagents: Vec::new(),
            results: Box::new(|_| None),
            around: None,
        };
        let mut progress = |_| {};
        let imported = site.runtime.block_on(import::import(&client, source, &mut progress))?;
        left_out += imported.bad.count() + imported.skipped.count();
    }
    Ok((bytes, left_out))
}

/// Returns the named files, and the files of JSON lines (by name) below the named directories.
fn transcripts(named: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in named {
        let of_file = |source| Failure::File { path: path.clone(), source };
        match files::path_info(path).map_err(of_file)? {
            Some(at) if at.is_dir => {
                let below = files_below(path).map_err(of_file)?.into_iter().map(|(path, _)| path);
                let lines = |path: &PathBuf| path.extension().is_some_and(|end| end == "jsonl");
                found.extend(below.filter(lines));
            }
            _ => found.push(path.clone()),
        }
    }
    if found.is_empty() {
        return Err(Failure::Usage("--transcripts: no file there ends in .jsonl".to_owned()));
    }
    found.sort();
    Ok(found)
}

/// Returns the total bytes of the files at a path or below it.
fn bytes_below(path: &Path) -> io::Result<u64> {
    Ok(files_below(path)?.into_iter().map(|(_, bytes)| bytes).sum())
}

/// Returns the files at a path or below it, each with its bytes.
fn files_below(path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut open = vec![path.to_path_buf()];
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        match files::path_info(&at)? {
            Some(look) if look.is_dir => open.extend(files::list(&at)?),
            Some(look) => found.push((at, look.bytes)),
            None => {}
        }
    }
    Ok(found)
}

//! `backup create` and `backup restore`: copies the whole store through its owner into a new
//! directory, and makes a data directory from such a copy. It must not write into a directory that
//! is not empty, nor report a backup as complete without reading it back, unless it reports why.

use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{
    config::Config,
    failure::{DAMAGED, Failure, Outcome},
    keys,
    screen::{Screen, Tone, counted, instant, printable, size},
};
use crate::{
    api::backup::{BackupLine, BackupMade},
    client::{AnswerStream, Client, ClientError, Request},
    env::{Env, files},
    event::Timestamp,
    store::{
        Backup, Verified,
        local::{self, Incoming, NoBackup, OpenError},
    },
};

/// Subdirectory of a backup that holds the copied store files.
const DATA: &str = "data";

/// Result of reading a backup back.
enum Checked {
    Read(Verified),
    /// The backup is encrypted and its key is not available here.
    Sealed(String),
}

pub(super) async fn create(
    client: &Client,
    config: &Config,
    path: &Path,
    screen: &mut Screen,
) -> Outcome {
    let failed = |error| refused(path, error);
    check_outside(config, path)?;
    if files::look(path).map_err(Failure::file(path))?.is_some() {
        // Checked before the confirmation, since a backup takes long.
        if !local::is_vacant(&open_env(path)?).map_err(Failure::file(path))? {
            return Err(failed(NoBackup::Occupied));
        }
    }
    let keys = config.keys.read()?;
    let mut download = client.stream(&Request::post("/v1/admin/backup").that_only_reads()).await?;
    let (outer, inner) = (open_env(path)?, open_env(&path.join(DATA))?);
    let mut incoming = Incoming::begin(&outer, &inner).map_err(failed)?;
    let bar = screen.progress(None, "{spinner} {bytes} {bytes_per_sec}");
    let made = receive(client, &mut download, path, &mut incoming, &bar).await;
    bar.finish_and_clear();
    let made = made?;
    incoming.end(&parse_backup(client, &made)?).map_err(failed)?;
    let keys = keys.filter(|_| made.key.is_some());
    let checked = match local::check_backup(&inner.with_keys(keys), config.store) {
        Ok(verified) => Checked::Read(verified),
        Err(NoBackup::Open(OpenError::Key { problem })) => Checked::Sealed(problem.to_string()),
        Err(error) => return Err(failed(error)),
    };
    let manifest = incoming.seal().map_err(failed)?;
    let bytes = manifest.files.iter().map(|kept| kept.bytes).sum();
    print_made(path, &made, manifest.files.len(), bytes, &checked, screen)
}

/// Rejects a backup path inside the data directory.
fn check_outside(config: &Config, path: &Path) -> Outcome {
    let resolved = |path: &Path| files::resolved(path).map_err(Failure::file(path));
    if !resolved(path)?.starts_with(resolved(&config.data_dir)?) {
        return Ok(());
    }
    let (at, data_dir) = (path.display(), config.data_dir.display());
    let message = format!("{at} is inside the data directory {data_dir}");
    Err(Failure::invalid(message, "name a directory outside of it, best on another device"))
}

/// Receives the owner's response stream to its end.
async fn receive(
    client: &Client,
    download: &mut AnswerStream,
    path: &Path,
    incoming: &mut Incoming,
    bar: &ProgressBar,
) -> Outcome<BackupMade> {
    let cut = || ClientError::Unreachable {
        address: client.address(),
        reason: "the answer was cut; what came of the backup is incomplete".to_owned(),
    };
    loop {
        let line = download.line().await?.ok_or_else(cut)?;
        let line: BackupLine = serde_json::from_str(&line)
            .map_err(|error| foreign_failure(client, error.to_string()))?;
        match line {
            BackupLine { part: Some(part), .. } => {
                let mut left = part.bytes;
                incoming.take(&part.path, &[]).map_err(|error| refused(path, error))?;
                while left > 0 {
                    let bytes =
                        download.next_bytes(usize::try_from(left).unwrap_or(usize::MAX)).await?;
                    if bytes.is_empty() {
                        return Err(cut().into());
                    }
                    incoming.take(&part.path, &bytes).map_err(|error| refused(path, error))?;
                    left -= bytes.len() as u64;
                    bar.inc(bytes.len() as u64);
                }
            }
            BackupLine { complete: Some(made), .. } => return Ok(made),
            BackupLine { failed: Some(error), .. } => {
                let error = error.error;
                let action = "make it again, into another directory".to_owned();
                let message = format!("the backup broke off: {}", error.message);
                let action = error.recovery_hint.action.unwrap_or(action);
                return Err(Failure::refused("store_read_only", message, action));
            }
            _ => return Err(foreign_failure(client, "a line that says nothing".to_owned())),
        }
    }
}

fn foreign_failure(client: &Client, reason: String) -> Failure {
    ClientError::Foreign { address: client.address(), reason }.into()
}

fn parse_backup(client: &Client, made: &BackupMade) -> Outcome<Backup> {
    let wrong =
        || foreign_failure(client, "what it says of the backup is no such thing".to_owned());
    let key = made.key.as_deref().map(|key| decode_hex(key).ok_or_else(wrong)).transpose()?;
    Ok(Backup {
        store: decode_hex(&made.store).ok_or_else(wrong)?,
        at: Timestamp(made.at_micros),
        sessions: made.sessions,
        damaged: made.damaged,
        key,
    })
}

fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.len() == 2 * N && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let pair = text.get(2 * at..2 * at + 2).filter(|_| digits)?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

fn print_made(
    path: &Path,
    made: &BackupMade,
    files: usize,
    bytes: u64,
    checked: &Checked,
    screen: &mut Screen,
) -> Outcome {
    let verified = match checked {
        Checked::Read(verified) => Some(verified),
        Checked::Sealed(_) => None,
    };
    let hurt = verified.is_some_and(|verified| !verified.damage.is_empty());
    if screen.json {
        let not_read = match checked {
            Checked::Read(_) => None,
            Checked::Sealed(problem) => Some(problem),
        };
        screen.value(&json!({
            "backup": path.display().to_string(), "store": made.store, "at": made.at,
            "sessions": made.sessions, "files": files, "bytes": bytes, "key": made.key,
            "verified": verified.map(verified_json), "not_verified": not_read,
        }))?;
    } else {
        screen.line(format!(
            "backed up {} ({}, {}) as of {} into {}",
            sessions(made.sessions, verified),
            counted(files as u64, "file"),
            size(bytes),
            instant(&made.at),
            path.display(),
        ))?;
        match checked {
            Checked::Read(verified) => print_verified(verified, screen)?,
            Checked::Sealed(problem) => screen.line(format!(
                "complete, and not read back: {problem}; a restore needs that key"
            ))?,
        }
    }
    if hurt { Err(Failure::Silent(DAMAGED)) } else { Ok(()) }
}

/// Describes the sessions of a backup: those read back, and those deleted or erased whose ids are
/// kept. Where the backup is damaged, their difference means nothing.
fn sessions(all: u64, verified: Option<&Verified>) -> String {
    let count = counted(all, "session");
    let whole = verified.filter(|verified| verified.damage.is_empty());
    match whole.map(|verified| (verified.sessions, all.saturating_sub(verified.sessions))) {
        None | Some((_, 0)) => count,
        Some((live, deleted)) => format!("{count}, {live} live and {deleted} deleted"),
    }
}

fn verified_json(verified: &Verified) -> Value {
    let damage: Vec<Value> = verified
        .damage
        .iter()
        .map(|(key, gap)| {
            json!({
                "tenant": key.scope.tenant.as_str(), "user": key.scope.user.as_str(),
                "session": key.session.as_str(), "from": gap.range.from.0, "to": gap.range.to.0,
                "reason": gap.reason,
            })
        })
        .collect();
    json!({
        "sessions": verified.sessions, "events": verified.events, "bytes": verified.bytes,
        "damage": damage,
    })
}

fn print_verified(verified: &Verified, screen: &mut Screen) -> Outcome {
    let verdict = match verified.damage.len() {
        0 => screen.paint(Tone::Good, "whole"),
        many => format!("{} in {many} places", screen.paint(Tone::Bad, "damaged")),
    };
    screen.line(format!(
        "read back: {verdict}, {}, {}, every checksum and the chain",
        counted(verified.sessions, "session"),
        counted(verified.events, "event"),
    ))?;
    for (key, gap) in &verified.damage {
        let scope = &key.scope;
        let whose = format!("{}/{} {}", scope.tenant, scope.user, key.session);
        screen.line(format!("  {whose} {}: {}", gap.range, printable(&gap.reason)))?;
    }
    Ok(())
}

/// Makes the configured data directory from a backup, without an owner.
pub(super) fn restore(config: &Config, path: &Path, screen: &mut Screen) -> Outcome {
    if config.url.is_some() {
        let message = "a backup is brought back where its data directory is to be: leave --url out";
        return Err(Failure::usage(message));
    }
    if !files::look(path).map_err(Failure::file(path))?.is_some_and(|found| found.is_dir) {
        return Err(Failure::file(path)(std::io::ErrorKind::NotFound.into()));
    }
    let (outer, inner) = (open_env(path)?, path.join(DATA));
    let inner = match files::look(&inner).map_err(Failure::file(&inner))? {
        Some(_) => open_env(&inner)?,
        // A missing file is reported by its name.
        None => outer.clone(),
    };
    let to = open_env(&config.data_dir)?.with_keys(config.keys.read()?);
    let bar = screen.progress(Some(0), "{wide_bar} {bytes}/{total_bytes} {eta}");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let restored = local::restore(&outer, &inner, &to, config.store, &mut progress);
    let restored = runtime.block_on(restored);
    bar.finish_and_clear();
    let restored = restored.map_err(|error| match error {
        NoBackup::Occupied => refused(&config.data_dir, NoBackup::Occupied),
        NoBackup::Open(OpenError::Key { problem }) => {
            keys::unopened(&config.data_dir.display().to_string(), &problem)
        }
        other => refused(path, other),
    })?;
    let (manifest, verified) = (&restored.manifest, &restored.verified);
    let at = Timestamp(manifest.at).to_string();
    if screen.json {
        screen.value(&json!({
            "restored": config.data_dir.display().to_string(), "repeated": restored.repeated,
            "store": manifest.store_id(),
            "at": at, "sessions": manifest.sessions, "verified": verified_json(verified),
        }))?;
    } else {
        if restored.repeated {
            screen.note("an earlier restore into it was interrupted: it was begun anew");
        }
        screen.line(format!(
            "restored {} as of {} into {}",
            sessions(manifest.sessions, Some(verified)),
            instant(&at),
            config.data_dir.display(),
        ))?;
        print_verified(verified, screen)?;
        screen.line(
            "What came later is not in it: receipts given since do not verify, leases are void, and \
             what was deleted, erased or redacted since is there again.",
        )?;
    }
    if verified.damage.is_empty() { Ok(()) } else { Err(Failure::Silent(DAMAGED)) }
}

fn open_env(path: &Path) -> Outcome<Env> {
    Env::real(path).map_err(Failure::file(path))
}

fn refused(path: &Path, error: NoBackup) -> Failure {
    let at = path.display();
    match error {
        NoBackup::Damaged { .. } | NoBackup::Unread { .. } => {
            Failure::Damaged(format!("{at}: {error}; nothing was restored"))
        }
        NoBackup::Occupied => Failure::invalid(
            format!("{at}: {error}; nothing is written over"),
            "name a directory that is empty or not there yet",
        ),
        other => Failure::invalid(
            format!("{at}: {other}"),
            "make a backup with `sessionlog backup create`, or name another",
        ),
    }
}

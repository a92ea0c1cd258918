//! `backup create` and `backup restore`: copies the whole store through its owner into a new
//! directory, and makes a data directory from such a copy. It must not write into a directory that
//! is not empty, nor report a backup as complete without reading it back, unless it reports why.

use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{
    config::Config,
    failure::{CliError, DAMAGED, Outcome},
    keys,
    screen::{Screen, Tone, escaped, format_instant, format_size, with_noun},
};
use crate::{
    api::backup::{BackupLine, BackupMade},
    client::{AnswerStream, Client, ClientError, HttpRequest},
    env::{Env, files},
    event::Timestamp,
    store::{
        BackupInfo, VerifyResult,
        local::{self, BackupError, BackupWriter, OpenError},
    },
};

/// Subdirectory of a backup that holds the copied store files.
const DATA: &str = "data";

/// Result of reading a backup back.
enum BackupCheck {
    Read(VerifyResult),
    /// The backup is encrypted and its key is not available here.
    Sealed(String),
}

pub(super) async fn create(
    client: &Client,
    config: &Config,
    path: &Path,
    screen: &mut Screen,
) -> Outcome {
    let failed = |error| backup_failure(path, error);
    check_outside_data_dir(config, path)?;
    if files::path_info(path).map_err(CliError::file(path))?.is_some() {
        // Checked before the confirmation, since a backup takes long.
        if !local::is_vacant(&open_env(path)?).map_err(CliError::file(path))? {
            return Err(failed(BackupError::Occupied));
        }
    }
    let keys = config.keys.read()?;
    let mut download = client.stream(&HttpRequest::post("/v1/admin/backup").read_only()).await?;
    let (outer, inner) = (open_env(path)?, open_env(&path.join(DATA))?);
    let mut incoming = BackupWriter::begin(&outer, &inner).map_err(failed)?;
    let bar = screen.create_progress_bar(None, "{spinner} {bytes} {bytes_per_sec}");
    let made = receive_backup(client, &mut download, path, &mut incoming, &bar).await;
    bar.finish_and_clear();
    let made = made?;
    incoming.finish_parts(&parse_backup(client, &made)?).map_err(failed)?;
    let keys = keys.filter(|_| made.key.is_some());
    let checked = match local::check_backup(&inner.with_keys(keys), config.store) {
        Ok(verified) => BackupCheck::Read(verified),
        Err(BackupError::Open(OpenError::Key { problem })) => {
            BackupCheck::Sealed(problem.to_string())
        }
        Err(error) => return Err(failed(error)),
    };
    let manifest = incoming.seal().map_err(failed)?;
    let bytes = manifest.files.iter().map(|kept| kept.bytes).sum();
    print_created(path, &made, manifest.files.len(), bytes, &checked, screen)
}

/// Rejects a backup path inside the data directory.
fn check_outside_data_dir(config: &Config, path: &Path) -> Outcome {
    let resolved = |path: &Path| files::resolve(path).map_err(CliError::file(path));
    if !resolved(path)?.starts_with(resolved(&config.data_dir)?) {
        return Ok(());
    }
    let (at, data_dir) = (path.display(), config.data_dir.display());
    let message = format!("{at} is inside the data directory {data_dir}");
    Err(CliError::invalid_request(
        message,
        "name a directory outside of it, best on another device",
    ))
}

/// Receives the owner's response stream to its end.
async fn receive_backup(
    client: &Client,
    download: &mut AnswerStream,
    path: &Path,
    incoming: &mut BackupWriter,
    bar: &ProgressBar,
) -> Outcome<BackupMade> {
    let cut = || ClientError::Unreachable {
        address: client.address(),
        reason: "the answer was cut; what came of the backup is incomplete".to_owned(),
    };
    loop {
        let line = download.next_line().await?.ok_or_else(cut)?;
        let line: BackupLine = serde_json::from_str(&line)
            .map_err(|error| foreign_answer_failure(client, error.to_string()))?;
        match line {
            BackupLine { part: Some(part), .. } => {
                let mut left = part.bytes;
                incoming
                    .write_part(&part.path, &[])
                    .map_err(|error| backup_failure(path, error))?;
                while left > 0 {
                    let bytes =
                        download.next_bytes(usize::try_from(left).unwrap_or(usize::MAX)).await?;
                    if bytes.is_empty() {
                        return Err(cut().into());
                    }
                    incoming
                        .write_part(&part.path, &bytes)
                        .map_err(|error| backup_failure(path, error))?;
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
                return Err(CliError::refusal("store_read_only", message, action));
            }
            _ => return Err(foreign_answer_failure(client, "a line that says nothing".to_owned())),
        }
    }
}

fn foreign_answer_failure(client: &Client, reason: String) -> CliError {
    ClientError::Foreign { address: client.address(), reason }.into()
}

fn parse_backup(client: &Client, made: &BackupMade) -> Outcome<BackupInfo> {
    let wrong =
        || foreign_answer_failure(client, "what it says of the backup is no such thing".to_owned());
    let key = made.key.as_deref().map(|key| decode_hex(key).ok_or_else(wrong)).transpose()?;
    Ok(BackupInfo {
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

fn print_created(
    path: &Path,
    made: &BackupMade,
    files: usize,
    bytes: u64,
    checked: &BackupCheck,
    screen: &mut Screen,
) -> Outcome {
    let verified = match checked {
        BackupCheck::Read(verified) => Some(verified),
        BackupCheck::Sealed(_) => None,
    };
    let has_damage = verified.is_some_and(|verified| !verified.damage.is_empty());
    if screen.json {
        let not_read = match checked {
            BackupCheck::Read(_) => None,
            BackupCheck::Sealed(problem) => Some(problem),
        };
        screen.print_json(&json!({
            "backup": path.display().to_string(), "store": made.store, "at": made.at,
            "sessions": made.sessions, "files": files, "bytes": bytes, "key": made.key,
            "verified": verified.map(verified_to_json), "not_verified": not_read,
        }))?;
    } else {
        screen.print_line(format!(
            "backed up {} ({}, {}) as of {} into {}",
            describe_sessions(made.sessions, verified),
            with_noun(files as u64, "file"),
            format_size(bytes),
            format_instant(&made.at),
            path.display(),
        ))?;
        match checked {
            BackupCheck::Read(verified) => print_verified(verified, screen)?,
            BackupCheck::Sealed(problem) => screen.print_line(format!(
                "complete, and not read back: {problem}; a restore needs that key"
            ))?,
        }
    }
    if has_damage { Err(CliError::Silent(DAMAGED)) } else { Ok(()) }
}

/// Describes the sessions of a backup: those read back, and those deleted or erased whose ids are
/// kept. If the backup is damaged, the difference is meaningless.
fn describe_sessions(all: u64, verified: Option<&VerifyResult>) -> String {
    let count = with_noun(all, "session");
    let whole = verified.filter(|verified| verified.damage.is_empty());
    match whole.map(|verified| (verified.sessions, all.saturating_sub(verified.sessions))) {
        None | Some((_, 0)) => count,
        Some((live, deleted)) => format!("{count}, {live} live and {deleted} deleted"),
    }
}

fn verified_to_json(verified: &VerifyResult) -> Value {
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

fn print_verified(verified: &VerifyResult, screen: &mut Screen) -> Outcome {
    let verdict = match verified.damage.len() {
        0 => screen.paint(Tone::Good, "whole"),
        many => format!("{} in {many} places", screen.paint(Tone::Bad, "damaged")),
    };
    screen.print_line(format!(
        "read back: {verdict}, {}, {}, every checksum and the chain",
        with_noun(verified.sessions, "session"),
        with_noun(verified.events, "event"),
    ))?;
    for (key, gap) in &verified.damage {
        let scope = &key.scope;
        let whose = format!("{}/{} {}", scope.tenant, scope.user, key.session);
        screen.print_line(format!("  {whose} {}: {}", gap.range, escaped(&gap.reason)))?;
    }
    Ok(())
}

/// Makes the configured data directory from a backup, without an owner.
pub(super) fn restore(config: &Config, path: &Path, screen: &mut Screen) -> Outcome {
    if config.url.is_some() {
        let message = "a backup is brought back where its data directory is to be: leave --url out";
        return Err(CliError::usage(message));
    }
    if !files::path_info(path).map_err(CliError::file(path))?.is_some_and(|found| found.is_dir) {
        return Err(CliError::file(path)(std::io::ErrorKind::NotFound.into()));
    }
    let (outer, inner) = (open_env(path)?, path.join(DATA));
    let inner = match files::path_info(&inner).map_err(CliError::file(&inner))? {
        Some(_) => open_env(&inner)?,
        // A missing file is reported by its name.
        None => outer.clone(),
    };
    let to = open_env(&config.data_dir)?.with_keys(config.keys.read()?);
    let bar = screen.create_progress_bar(Some(0), "{wide_bar} {bytes}/{total_bytes} {eta}");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let restored = local::restore(&outer, &inner, &to, config.store, &mut progress);
    let restored = runtime.block_on(restored);
    bar.finish_and_clear();
    let restored = restored.map_err(|error| match error {
        BackupError::Occupied => backup_failure(&config.data_dir, BackupError::Occupied),
        BackupError::Open(OpenError::Key { problem }) => {
            keys::open_failure(&config.data_dir.display().to_string(), &problem)
        }
        other => backup_failure(path, other),
    })?;
    let (manifest, verified) = (&restored.manifest, &restored.verified);
    let at = Timestamp(manifest.at).to_string();
    if screen.json {
        screen.print_json(&json!({
            "restored": config.data_dir.display().to_string(), "repeated": restored.repeated,
            "store": manifest.store_id(),
            "at": at, "sessions": manifest.sessions, "verified": verified_to_json(verified),
        }))?;
    } else {
        if restored.repeated {
            screen.print_note("an earlier restore into it was interrupted: it was begun anew");
        }
        screen.print_line(format!(
            "restored {} as of {} into {}",
            describe_sessions(manifest.sessions, Some(verified)),
            format_instant(&at),
            config.data_dir.display(),
        ))?;
        print_verified(verified, screen)?;
        screen.print_line(
            "What came later is not in it: receipts given since do not verify, leases are void, and \
             what was deleted, erased or redacted since is there again.",
        )?;
    }
    if verified.damage.is_empty() { Ok(()) } else { Err(CliError::Silent(DAMAGED)) }
}

fn open_env(path: &Path) -> Outcome<Env> {
    Env::open(path).map_err(CliError::file(path))
}

fn backup_failure(path: &Path, error: BackupError) -> CliError {
    let at = path.display();
    match error {
        BackupError::Damaged { .. } | BackupError::Unread { .. } => {
            CliError::Damaged(format!("{at}: {error}; nothing was restored"))
        }
        BackupError::Occupied => CliError::invalid_request(
            format!("{at}: {error}; nothing is written over"),
            "name a directory that is empty or not there yet",
        ),
        other => CliError::invalid_request(
            format!("{at}: {other}"),
            "make a backup with `sessionlog backup create`, or name another",
        ),
    }
}

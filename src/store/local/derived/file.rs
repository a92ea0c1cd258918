//! Creating, reading and removing one derived file. It must not list the files.

use std::io;

use zeroize::Zeroizing;

use super::super::{context::EngineContext, layout::DERIVED};
use crate::{
    env::{File, Mapped},
    event::{Position, Range, Scope, SessionHash, SessionId, SessionKey, TenantId, UserId},
    log::{
        DERIVED_AT, DERIVED_KEY, DerivedDescription, DerivedHeader, Encryptor, Fault, HeldRecord,
        LogError, Seals, encode_derived, journal::read, manifest::FileHasher,
    },
    store::{DerivedFile, DerivedName, HeldEvents},
};

/// Bytes read or written at once.
const PART_BYTES: u64 = 1 << 20;

pub(super) fn path_of(name: DerivedName) -> String {
    format!("{DERIVED}/{name}")
}

/// Returns the path of a derived file that is being created.
pub(super) fn unfinished_path(name: DerivedName) -> String {
    format!("{DERIVED}/{name}.new")
}

/// Creates a derived file, durably. After an error, parts of it may exist under either path.
pub(super) fn write(context: &EngineContext, file: &DerivedFile, bytes: &[u8]) -> io::Result<()> {
    let (env, store) = (&context.env, context.store.id);
    let (nonce, secret) = (|| context.keys.new_nonce(), || env.random_secret());
    let own = context.keys.store_cipher();
    let seals = own.map(|own| -> Seals<'_> { (Encryptor { cipher: own, nonce: &nonce }, &secret) });
    let stored = encode_derived((store, file.name.0), &description_of(file), bytes, seals);
    let made = env.storage.create(&unfinished_path(file.name))?;
    made.write_at(0, &stored)?;
    made.sync()?;
    env.storage.rename(&unfinished_path(file.name), &path_of(file.name))?;
    env.storage.sync_dir(DERIVED)
}

fn description_of(file: &DerivedFile) -> DerivedDescription {
    let held = |held: &HeldEvents| HeldRecord {
        tenant: held.key.scope.tenant.to_string(),
        user: held.key.scope.user.to_string(),
        session: held.key.session.to_string(),
        hash: held.hash.0,
        from: held.range.from.0,
        to: held.range.to.0,
        rewritten: held.rewritten,
    };
    DerivedDescription { label: file.label.to_vec(), holds: file.holds.iter().map(held).collect() }
}

fn held_events_of(record: HeldRecord) -> Option<HeldEvents> {
    let tenant = TenantId::new(&record.tenant).ok()?;
    let user = UserId::new(&record.user).ok()?;
    let session = SessionId::new(&record.session).ok()?;
    (record.from <= record.to).then(|| HeldEvents {
        key: SessionKey { scope: Scope { tenant, user }, session },
        hash: SessionHash(record.hash),
        range: Range::new(Position(record.from), Position(record.to)),
        rewritten: record.rewritten,
    })
}

fn read_header(
    context: &EngineContext,
    name: DerivedName,
    file: &dyn File,
) -> Result<DerivedHeader, LogError> {
    let bytes = read(file, 0, DERIVED_AT)?;
    let own = context.keys.store_cipher().map(|own| &**own);
    DerivedHeader::decode((context.store.id, name.0), &bytes, own)
        .map_err(|fault| LogError::Fault { byte_offset: 0, fault })
}

/// Reads the header and description of a derived file.
pub(super) fn describe(
    context: &EngineContext,
    name: DerivedName,
) -> Result<DerivedFile, LogError> {
    let file = context.env.storage.open_read(&path_of(name))?;
    let head = read_header(context, name, &*file)?;
    let wrong = |fault| LogError::Fault { byte_offset: DERIVED_AT, fault };
    let DerivedDescription { label, holds } =
        head.decode_description(&read(&*file, DERIVED_AT, head.body_offset())?).map_err(wrong)?;
    let holds: Option<Vec<HeldEvents>> = holds.into_iter().map(held_events_of).collect();
    let holds = holds.ok_or_else(|| wrong(Fault::Payload))?;
    Ok(DerivedFile { name, label: label.into(), holds: holds.into(), bytes: head.plain_bytes() })
}

/// Body of a derived file in memory.
pub(super) struct DerivedBody {
    pub(super) bytes: Box<dyn Mapped>,
    /// Offset of the body in these bytes.
    pub(super) at: usize,
    /// [`last_write_time`] before the file was read.
    pub(super) written_at: Option<(i64, i64)>,
}

/// Returns the time of the last write to a file, if known: it differs after each write.
pub(super) fn last_write_time(context: &EngineContext, name: DerivedName) -> Option<(i64, i64)> {
    context.env.storage.change_time(&path_of(name)).ok().flatten()
}

/// Reads and verifies a derived file; one in plaintext is memory-mapped.
pub(super) fn open(context: &EngineContext, name: DerivedName) -> Result<DerivedBody, LogError> {
    let written_at = last_write_time(context, name);
    let file = context.env.storage.open_read(&path_of(name))?;
    let (body, at, end) = read_all(context, name, &*file)?;
    if let Some(body) = body {
        return Ok(DerivedBody { bytes: Box::new(body), at: 0, written_at });
    }
    let at = usize::try_from(at).map_err(io::Error::other)?;
    Ok(DerivedBody { bytes: file.map(end)?, at, written_at })
}

/// Reads a derived file from the device, not the cache, and verifies it.
pub(super) fn check(context: &EngineContext, name: DerivedName) -> Result<(), LogError> {
    let file = context.env.storage.open_read(&path_of(name))?;
    file.evict()?;
    read_all(context, name, &*file).map(drop)
}

/// Decrypted body, if the file is encrypted, and the byte offsets of its start and end in the file.
type Whole = (Option<Zeroizing<Vec<u8>>>, u64, u64);

fn read_all(
    context: &EngineContext,
    name: DerivedName,
    file: &dyn File,
) -> Result<Whole, LogError> {
    let head = read_header(context, name, file)?;
    let (at, end) = (head.body_offset(), head.end_offset());
    let wrong = |fault| LogError::Fault { byte_offset: at, fault };
    if file.len()? != end {
        return Err(wrong(Fault::Short));
    }
    let Some(digest) = head.plain_digest() else {
        let body = head.open_body(&read(file, at, end)?).map_err(wrong)?;
        return Ok((Some(body), at, end));
    };
    let mut hashing = FileHasher::default();
    while at + hashing.bytes() < end {
        let from = at + hashing.bytes();
        let part = read(file, from, end.min(from + PART_BYTES))?;
        if part.is_empty() {
            return Err(wrong(Fault::Short));
        }
        hashing.update(&part);
    }
    if hashing.entry("").hash != digest {
        return Err(wrong(Fault::PayloadChecksum));
    }
    Ok((None, at, end))
}

/// Overwrites a file with zeros, durably, and unlinks it: the key of an encrypted one, else all
/// bytes. A missing file is success.
pub(super) fn zero_and_unlink(context: &EngineContext, path: &str) -> io::Result<()> {
    let storage = &context.env.storage;
    let file = match storage.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ignore_missing_directory(storage.sync_dir(DERIVED));
        }
        file => file?,
    };
    let end = file.len()?;
    // The header is overwritten first: after a crash the file is whole or invalid.
    let (front, rest) = match context.keys.store_cipher() {
        Some(_) => (DERIVED_KEY, end),
        None => (0..DERIVED_AT, DERIVED_AT),
    };
    write_zeros(&*file, front.start, front.end.min(end))?;
    write_zeros(&*file, rest, end)?;
    storage.remove(path)?;
    ignore_missing_directory(storage.sync_dir(DERIVED))
}

/// Writes zeros over a part of a file, durably.
fn write_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    for at in (from..to).step_by(PART_BYTES as usize) {
        let part = PART_BYTES.min(to - at);
        file.write_at(at, &vec![0; part as usize])?;
    }
    file.sync()
}

/// Ignores a missing directory, which has no names to sync.
fn ignore_missing_directory(synced: io::Result<()>) -> io::Result<()> {
    synced.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

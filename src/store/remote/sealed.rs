//! A base whose content is encrypted: what the engine writes is encrypted on the way to it, and
//! what it reads is decrypted on the way back. Frames are encrypted like those of segments, under
//! the key of their session; the rest is encrypted here, under the store's own key. Positions,
//! times, sizes, stages and chain values stay as they are, for the statements of the base. It must
//! not decide anything, nor return what it could not decrypt.
//!
//! ```text
//! nonce 24, ciphertext, tag 16; associated data, store id and key number (0) after the text:
//!   entry    "sessionlog v1 base entry"   uid 16
//!   work     "sessionlog v1 base work"    uid 16  tail u64  next u64  updated at i64  used at i64
//!                                         bytes u64  event chain 32  control chain 32
//!   digest   "sessionlog v1 base digest"  uid 16  hash of the batch key 16
//! names of events, batches and creations: their hash behind the uid or scope, hashed with a key
//! ```

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::broadcast;

use super::{keys::NodeKeys, plan::NO_SALT, row::keyed_name};
use crate::{
    env::sync::Mutex,
    event::{Lsn, Position, Range, Timestamp},
    log::{Cipher, Encryptor, Fault, Frame, KeyNumber},
    store::{
        TenantUsage,
        base::{
            Base, BaseError, BaseFuture, BaseStatus, ContentRemoval, CopiedPart, CreateOutcome,
            FrameQuery, Hash16, Heartbeat, KnownName, MigrationStatus, MigrationStep, NewFrame,
            NewRow, ReclaimStep, RowSelection, RowStage, RowWrite, SessionRow, SlotChange,
            StoredFrame, WriteOutcome,
        },
    },
};

const ENTRY: &str = "sessionlog v1 base entry";
const WORK: &str = "sessionlog v1 base work";
const DIGEST: &str = "sessionlog v1 base digest";
/// Digest that no batch has, instead of one that cannot be decrypted: not that of a redacted batch,
/// which any content matches.
const WRONG_DIGEST: &[u8] = &[u8::MAX; 32];

/// A base, and the keys that its content is encrypted under.
pub(super) struct SealedBase {
    base: Arc<dyn Base>,
    keys: Arc<NodeKeys>,
    /// Keys of sessions that a migration copies, until their last part.
    copied: Mutex<HashMap<Hash16, (Bytes, Cipher)>>,
}

impl SealedBase {
    /// Returns the base whose content is encrypted under the keys, if the store is encrypted.
    pub(super) fn wrap(base: Arc<dyn Base>, keys: &Arc<NodeKeys>) -> Arc<dyn Base> {
        match keys.are_used() {
            true => Arc::new(Self { base, keys: Arc::clone(keys), copied: Mutex::default() }),
            false => base,
        }
    }

    /// Returns the name of an event, a batch or a creation that a session or scope has.
    fn hash(&self, owner: Hash16, hash: Hash16) -> Hash16 {
        keyed_name(&self.keys.names, &[owner, hash].concat())
    }

    fn seal(&self, purpose: &str, place: &[&[u8]], text: &[u8]) -> Bytes {
        let cipher = self.keys.store_cipher();
        let aad = cipher.associated_data(purpose, place);
        cipher.seal_with_nonce(self.keys.nonce(), &aad, text.to_vec()).into()
    }

    fn open(&self, purpose: &str, place: &[&[u8]], sealed: &[u8]) -> Option<Bytes> {
        let cipher = self.keys.store_cipher();
        let aad = cipher.associated_data(purpose, place);
        cipher.open_with_nonce(&aad, sealed).ok().map(Bytes::from)
    }

    fn seal_row(&self, row: &mut SessionRow) {
        row.entry = self.seal(ENTRY, &[&row.uid], &row.entry);
        row.work = self.seal(WORK, &[&place_of(row)], &row.work);
    }

    /// Decrypts a row; a value that cannot be decrypted becomes empty, which no entry is.
    fn open_row(&self, row: &mut SessionRow) {
        row.entry = self.open(ENTRY, &[&row.uid], &row.entry).unwrap_or_default();
        row.work = self.open(WORK, &[&place_of(row)], &row.work).unwrap_or_default();
    }

    fn encrypt_frame(&self, cipher: &Cipher, bytes: &Bytes) -> Bytes {
        let frame = Frame::read(NO_SALT, bytes).expect("the engine writes whole frames");
        let nonce = || self.keys.nonce();
        write_frame(&frame.encrypt(Encryptor { cipher, nonce: &nonce }))
    }

    fn encrypt_frames(&self, cipher: &Cipher, frames: &mut [NewFrame]) {
        frames.iter_mut().for_each(|frame| frame.bytes = self.encrypt_frame(cipher, &frame.bytes));
    }

    /// Decrypts a stored frame. Without its own key the frame that records an erasure can be read.
    fn decrypt_frame(&self, own: &Result<Cipher, Fault>, stored: &mut StoredFrame) {
        // A damaged frame is found to be one where it is decoded.
        let Ok(frame) = Frame::read(NO_SALT, &stored.bytes) else { return };
        let cipher = match frame.header.encrypted.map(|encrypted| encrypted.key) {
            Some(KeyNumber::STORE) => Ok(self.keys.store_cipher()),
            None | Some(_) => own.as_ref().map_err(|fault| *fault),
        };
        match cipher.and_then(|cipher| frame.decrypt(Some(cipher))) {
            Ok(plain) => stored.bytes = write_frame(&plain),
            Err(fault) => stored.fault = Some(fault),
        }
    }

    fn seal_names(&self, uid: Hash16, names: &mut [(Hash16, KnownName)]) {
        for (hash, name) in names {
            *hash = self.hash(uid, *hash);
            let digest = name.digest.as_deref();
            name.digest = digest.map(|digest| self.seal(DIGEST, &[&uid, &*hash], digest));
        }
    }

    fn seal_write(&self, write: &RowWrite) -> Result<RowWrite, BaseError> {
        let mut sealed = write.clone();
        let erases = write.after.stage == RowStage::Erased;
        if !write.frames.is_empty() && erases {
            self.encrypt_frames(self.keys.store_cipher(), &mut sealed.frames);
        } else if !write.frames.is_empty() {
            self.encrypt_frames(&self.writing_cipher(&write.after)?, &mut sealed.frames);
        }
        if !write.changes_entry {
            sealed.after.entry = Bytes::new();
        }
        self.seal_row(&mut sealed.after);
        self.seal_names(write.after.uid, &mut sealed.names);
        for absent in &mut sealed.absent {
            absent.hash = self.hash(absent.session, absent.hash);
        }
        Ok(sealed)
    }

    /// Returns the cipher of the frames of a session that is written.
    fn writing_cipher(&self, row: &SessionRow) -> Result<Cipher, BaseError> {
        let cipher = self.keys.session_cipher(row)?;
        cipher.map_err(|fault| BaseError::Failed(format!("the key of a session: {fault}")))
    }

    fn seal_new(&self, new: &NewRow) -> Result<NewRow, BaseError> {
        let mut sealed = new.clone();
        let store_slot = self.keys.store_slot();
        let (slot, cipher) = self.keys.make_key(new.row.uid, new.row.tenant, &store_slot)?;
        self.encrypt_frames(&cipher, &mut sealed.frames);
        self.seal_row(&mut sealed.row);
        self.seal_names(new.row.uid, &mut sealed.names);
        sealed.key = new.key.map(|key| self.hash(new.row.scope, key));
        (sealed.row.slot, sealed.store_slot) = (Some(slot), Some(store_slot));
        Ok(sealed)
    }

    fn seal_part(&self, part: &CopiedPart) -> Result<CopiedPart, BaseError> {
        let (mut sealed, row) = (part.clone(), &part.row);
        if row.stage == RowStage::Erased {
            self.encrypt_frames(self.keys.store_cipher(), &mut sealed.frames);
        } else {
            let mut copied = self.copied.lock();
            let (slot, cipher) = match copied.remove(&row.uid) {
                Some(key) => key,
                None => self.keys.make_key(row.uid, row.tenant, &self.keys.store_slot())?,
            };
            self.encrypt_frames(&cipher, &mut sealed.frames);
            sealed.row.slot = Some(slot.clone());
            if !part.is_last {
                copied.insert(row.uid, (slot, cipher));
            }
        }
        self.seal_row(&mut sealed.row);
        self.seal_names(row.uid, &mut sealed.names);
        if let Some((hash, _)) = &mut sealed.key {
            *hash = self.hash(row.scope, *hash);
        }
        Ok(sealed)
    }
}

/// Returns the members of a row that change together with its state of work.
fn place_of(row: &SessionRow) -> Vec<u8> {
    let numbers = [row.tail.0, row.next.0, row.bytes].map(u64::to_le_bytes);
    let [tail, next, bytes] = numbers;
    let [updated, used] = [row.updated_at, row.used_at].map(|time| time.0.to_le_bytes());
    let front = [row.uid.as_slice(), &tail, &next, &updated, &used, &bytes].concat();
    [&front[..], &row.chain.0, &row.control_chain.0].concat()
}

fn write_frame(frame: &Frame) -> Bytes {
    let mut bytes = Vec::new();
    frame.header.write(NO_SALT, &frame.payload, &mut bytes);
    bytes.into()
}

impl Base for SealedBase {
    fn commit(&self, writes: Arc<[RowWrite]>, waits: bool) -> BaseFuture<'_, Vec<WriteOutcome>> {
        async move {
            let sealed = writes.iter().map(|write| self.seal_write(write));
            self.base.commit(sealed.collect::<Result<_, _>>()?, waits).await
        }
        .boxed()
    }

    fn create(&self, new: Arc<NewRow>) -> BaseFuture<'_, CreateOutcome> {
        async move {
            let outcome = self.base.create(Arc::new(self.seal_new(&new)?)).await?;
            if outcome == CreateOutcome::ParentMoved {
                // It may be that another node began or ended a rotation.
                self.keys.refresh(&*self.base).await?;
            }
            Ok(outcome)
        }
        .boxed()
    }

    fn remove_content(&self, removal: Arc<ContentRemoval>) -> BaseFuture<'_, Option<u64>> {
        async move {
            let mut sealed = (*removal).clone();
            sealed.write = self.seal_write(&removal.write)?;
            if !sealed.rewritten.is_empty() {
                let cipher = self.writing_cipher(&removal.write.after)?;
                for (.., bytes) in &mut sealed.rewritten {
                    *bytes = self.encrypt_frame(&cipher, bytes);
                }
            }
            self.base.remove_content(Arc::new(sealed)).await
        }
        .boxed()
    }

    fn rows(&self, query: RowSelection, limit: usize) -> BaseFuture<'_, Vec<SessionRow>> {
        async move {
            let mut rows = self.base.rows(query, limit).await?;
            rows.iter_mut().for_each(|row| self.open_row(row));
            Ok(rows)
        }
        .boxed()
    }

    fn frames(
        &self,
        uid: Hash16,
        query: FrameQuery,
    ) -> BaseFuture<'_, Option<(SessionRow, Vec<StoredFrame>)>> {
        async move {
            let Some((mut row, mut frames)) = self.base.frames(uid, query).await? else {
                return Ok(None);
            };
            let cipher = self.keys.session_cipher(&row)?;
            frames.iter_mut().for_each(|stored| self.decrypt_frame(&cipher, stored));
            self.open_row(&mut row);
            Ok(Some((row, frames)))
        }
        .boxed()
    }

    fn known(&self, names: Vec<(Hash16, Hash16)>) -> BaseFuture<'_, Vec<Option<KnownName>>> {
        async move {
            let names: Vec<(Hash16, Hash16)> =
                names.into_iter().map(|(uid, hash)| (uid, self.hash(uid, hash))).collect();
            let mut known = self.base.known(names.clone()).await?;
            for ((uid, hash), name) in names.iter().zip(&mut known) {
                // That of a creation is a uid, which is no content.
                let Some(name) = name.as_mut().filter(|name| name.events > 0) else { continue };
                let digest = name.digest.as_deref();
                name.digest = digest.map(|digest| {
                    let opened = self.open(DIGEST, &[uid, hash], digest);
                    opened.unwrap_or(Bytes::from_static(WRONG_DIGEST))
                });
            }
            Ok(known)
        }
        .boxed()
    }

    fn reclaim(&self, step: ReclaimStep) -> BaseFuture<'_, u64> {
        self.base.reclaim(match step {
            ReclaimStep::Key { scope, hash, at } => {
                ReclaimStep::Key { scope, hash: self.hash(scope, hash), at }
            }
            other => other,
        })
    }

    fn slots(&self, after: Option<Hash16>, limit: usize) -> BaseFuture<'_, Vec<(Hash16, Bytes)>> {
        self.base.slots(after, limit)
    }

    fn change_slots(&self, changes: Vec<SlotChange>) -> BaseFuture<'_, u64> {
        self.base.change_slots(changes)
    }

    fn frame_at(
        &self,
        uid: Hash16,
        position: Position,
    ) -> BaseFuture<'_, Option<(Range, Timestamp)>> {
        self.base.frame_at(uid, position)
    }

    fn attempt(&self, uid: Hash16, first: Position, number: Lsn) -> BaseFuture<'_, Option<Hash16>> {
        self.base.attempt(uid, first, number)
    }

    fn prove(&self) -> BaseFuture<'_, ()> {
        self.base.prove()
    }

    fn usage(&self, tenant: Hash16, but: Hash16) -> BaseFuture<'_, TenantUsage> {
        self.base.usage(tenant, but)
    }

    fn beat(&self, beat: Heartbeat) -> BaseFuture<'_, BaseStatus> {
        self.base.beat(beat)
    }

    fn migration_status(&self) -> BaseFuture<'_, MigrationStatus> {
        self.base.migration_status()
    }

    fn migrate(&self, step: MigrationStep) -> BaseFuture<'_, bool> {
        async move {
            let step = match step {
                MigrationStep::Copy(parts) => {
                    let sealed = parts.iter().map(|part| self.seal_part(part));
                    MigrationStep::Copy(sealed.collect::<Result<_, _>>()?)
                }
                other => other,
            };
            self.base.migrate(step).await
        }
        .boxed()
    }

    fn hint(&self, moved: Vec<Hash16>) {
        self.base.hint(moved);
    }

    fn hints(&self) -> broadcast::Receiver<Hash16> {
        self.base.hints()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.base.close()
    }
}

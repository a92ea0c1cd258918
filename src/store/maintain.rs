//! Maintenance of a store as a whole by an operator: verify, back up, repair, rotate keys. An
//! engine may lack any of it: a database has its own tools. It must not be on the path of an
//! append.

use std::io;

use futures_util::FutureExt;

use super::{
    BackupInfo, FilePart, KeyReport, Recovery, RepairResult, StoreError, StoreFuture, StoreResult,
    VerifyResult,
};
use crate::event::SessionKey;

/// Maintenance of a store by an operator. A method that an engine does not override returns
/// [`StoreError::NotOffered`].
pub trait Maintain: Send + Sync {
    /// Runs [`super::Store::verify`] on every session of every scope.
    ///
    /// # Errors
    /// Errors of [`super::Store::verify`]; [`StoreError::NotOffered`] by an engine that does not
    /// list scopes.
    fn verify_scopes(&self) -> StoreFuture<'_, VerifyResult> {
        Box::pin(async { Err(StoreError::NotOffered { what: "a verification of all scopes" }) })
    }

    /// Passes a copy of the store as of one moment to `sink`, concurrently with writers. It takes
    /// as long as `sink` needs for the parts: call it where blocking is allowed.
    ///
    /// # Errors
    /// Errors of the storage and of `sink`; [`StoreError::NotOffered`] by an engine that has its
    /// own backup tools.
    fn backup(&self, sink: &mut dyn FnMut(FilePart) -> io::Result<()>) -> StoreResult<BackupInfo> {
        let _ = sink;
        Err(StoreError::NotOffered { what: "a backup" })
    }

    /// Lists the damage of a session; with `accept`, accepts the loss for good: it is recorded, its
    /// positions remain gaps, and appends continue after them. Copies are made first.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], and those of an append.
    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, RepairResult> {
        let _ = (key, accept);
        async { Err(StoreError::NotOffered { what: "repairs" }) }.boxed()
    }

    /// Lists the damage that belongs to no session and makes the store read-only; with `accept`,
    /// accepts the loss and makes the store writable again. Copies are made first.
    ///
    /// # Errors
    /// Errors of the engine.
    fn repair_store(&self, accept: bool) -> StoreFuture<'_, RepairResult> {
        let _ = accept;
        async { Err(StoreError::NotOffered { what: "repairs" }) }.boxed()
    }

    /// Returns the master keys that the store needs and those it has; `None` for plaintext.
    ///
    /// # Errors
    /// Errors of the storage.
    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        async { Err(StoreError::NotOffered { what: "keys" }) }.boxed()
    }

    /// Continues the rotation to the current master key: wraps at most `keys_max` keys under it.
    /// The rotation is complete when no key remains under the previous master key and the previous
    /// one is not needed.
    ///
    /// # Errors
    /// [`StoreError::Plaintext`], and errors of the storage; the next call continues.
    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        let _ = keys_max;
        async { Err(StoreError::NotOffered { what: "keys" }) }.boxed()
    }

    /// Returns the report of the last start.
    fn recovery(&self) -> Recovery {
        Recovery::default()
    }
}

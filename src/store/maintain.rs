//! Maintenance of a store as a whole by a person: verify, back up, repair, rotate keys. An engine
//! may lack any of it: a database has means of its own. It must not be on the path of an append.

use std::io;

use futures_util::FutureExt;

use super::{
    Backup, FilePart, KeyReport, Recovery, Repaired, StoreError, StoreFuture, StoreResult, Verified,
};
use crate::event::SessionKey;

/// The upkeep of a store by a person. What an engine does not override answers
/// [`StoreError::NotOffered`].
pub trait Maintain: Send + Sync {
    /// [`super::Store::verify`] of every session of every scope.
    ///
    /// # Errors
    /// Those of [`super::Store::verify`]; [`StoreError::NotOffered`] by an engine that does not
    /// list scopes.
    fn verify_scopes(&self) -> StoreFuture<'_, Verified> {
        Box::pin(async { Err(StoreError::NotOffered { what: "a verification of all scopes" }) })
    }

    /// Hands out a copy of everything as it was at one moment, while others write. It takes as long
    /// as the caller takes for the parts: call it where waiting is allowed.
    ///
    /// # Errors
    /// Errors of the storage and of `take`; [`StoreError::NotOffered`] by an engine that has means
    /// of its own.
    fn backup(&self, take: &mut dyn FnMut(FilePart) -> io::Result<()>) -> StoreResult<Backup> {
        let _ = take;
        Err(StoreError::NotOffered { what: "a backup" })
    }

    /// Lists the damage of a session; with `accept` gives it up for good: the loss is recorded, its
    /// positions stay gaps for good, and appends continue behind them. Copies come first.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], and those of an append.
    fn repair<'a>(&'a self, key: &'a SessionKey, accept: bool) -> StoreFuture<'a, Repaired> {
        let _ = (key, accept);
        async { Err(StoreError::NotOffered { what: "repairs" }) }.boxed()
    }

    /// Lists the damage that names no session and for which the store takes no writes; with
    /// `accept` gives it up and takes writes again. Copies come first.
    ///
    /// # Errors
    /// Those of the engine.
    fn repair_store(&self, accept: bool) -> StoreFuture<'_, Repaired> {
        let _ = accept;
        async { Err(StoreError::NotOffered { what: "repairs" }) }.boxed()
    }

    /// Master keys that the store needs and those it has; `None` in plaintext.
    ///
    /// # Errors
    /// Errors of the storage.
    fn keys(&self) -> StoreFuture<'_, Option<KeyReport>> {
        async { Err(StoreError::NotOffered { what: "keys" }) }.boxed()
    }

    /// Continues the rotation to the master key that was given as the current one: at most
    /// `keys_max` keys are wrapped anew. It has ended when nothing is behind and nothing of the key
    /// before is wanted.
    ///
    /// # Errors
    /// [`StoreError::Plaintext`], and what the storage said; the next call continues.
    fn rotate_keys(&self, keys_max: usize) -> StoreFuture<'_, KeyReport> {
        let _ = keys_max;
        async { Err(StoreError::NotOffered { what: "keys" }) }.boxed()
    }

    /// Report of the last start.
    fn recovery(&self) -> Recovery {
        Recovery::default()
    }
}

//! Names derived from content: ids of relations, outcomes and content-named events, and digests of
//! keys. Each is a keyed hash that only the store can compute, so that the remains of a redacted
//! event do not confirm a guess of its content. It must not use a hash that others can compute.

use super::{Service, convert::hex};
use crate::event::{BatchKey, EventId, NewEvent, Scope, SessionKey};

/// Number of hexadecimal digits of a name: 96 bits.
const DIGITS: usize = 24;

impl Service {
    /// Returns the name of content in a scope, as hexadecimal digits. It is the same in every
    /// session, so a fork recognises its parent's names. `kind` is the type of the named object.
    pub(super) fn content_name(&self, scope: &Scope, kind: &str, content: &[u8]) -> String {
        let parts = [kind, scope.tenant.as_str(), scope.user.as_str()].map(str::as_bytes);
        let mut all = Vec::new();
        for part in parts.into_iter().chain([content]) {
            all.extend_from_slice(&(part.len() as u64).to_le_bytes());
            all.extend_from_slice(part);
        }
        let mut name = hex(&self.store.name_hash(&all));
        name.truncate(DIGITS);
        name
    }

    /// Returns the digest of a key, stored instead of the key.
    pub(super) fn key_digest(&self, key: &BatchKey) -> [u8; 16] {
        key.digest_with(|text| self.store.name_hash(text))
    }

    /// Replaces the ids of content-named events by the store's names. An event that an earlier
    /// version stored under its original id keeps that id.
    pub(super) async fn rename_content_ids(
        &self,
        (scope, session): (&Scope, Option<&SessionKey>),
        events: &mut [NewEvent],
    ) {
        for event in events {
            let Some(of) = event.id.as_ref().and_then(EventId::parse_content_id) else { continue };
            let name = self.content_name(scope, "event", of.hash.as_bytes());
            let mut id = of.to_stored_id(&name);
            if let (Some(session), Some(plain)) = (session, of.to_stored_id(of.hash))
                && let Ok(Some(_)) = self.store.find(session, &plain).await
            {
                id = Some(plain);
            }
            event.id = id;
        }
    }
}

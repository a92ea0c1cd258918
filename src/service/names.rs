//! Names that are made of content: ids of relations and outcomes, of events that a recorder names
//! by what they say, and what stands for a key. Each is a hash that only the store can make, so
//! that what is left of a redacted event does not tell whether a guess is right. It must not name
//! anything by a hash that others can make.

use super::{Service, of_store::hex};
use crate::event::{BatchKey, EventId, NewEvent, Scope, SessionKey};

/// Hexadecimal digits of a name: 96 bits.
const DIGITS: usize = 24;

impl Service {
    /// The name of content in a scope, as digits: the same in every session, so that a fork knows
    /// what its parent has. `kind` is what it names.
    pub(super) fn name_of(&self, scope: &Scope, kind: &str, content: &[u8]) -> String {
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

    /// Digest that stands for a key where it is kept without the key.
    pub(super) fn digest_of(&self, key: &BatchKey) -> [u8; 16] {
        key.digest_by(|text| self.store.name_hash(text))
    }

    /// Gives events that are named after their content the ids that the store keeps them by. An
    /// event that an earlier version of the store kept by the name it was sent with has that one.
    pub(super) async fn name_events(
        &self,
        (scope, session): (&Scope, Option<&SessionKey>),
        events: &mut [NewEvent],
    ) {
        for event in events {
            let Some(of) = event.id.as_ref().and_then(EventId::of_content) else { continue };
            let name = self.name_of(scope, "event", of.hash.as_bytes());
            let mut id = of.kept(&name);
            if let (Some(session), Some(plain)) = (session, of.kept(of.hash))
                && let Ok(Some(_)) = self.store.find(session, &plain).await
            {
                id = Some(plain);
            }
            event.id = id;
        }
    }
}

//! A first look at the sessions of a store: how many there are, and which of those that ended are
//! read by forks. It must not read a frame.

use std::collections::{HashMap, HashSet};

use super::{DamagedSession, Migrated, MigratedSession, MigrationSource, next_sessions};
use crate::{
    event::{SessionHash, SessionKey},
    store::StoreResult,
};

/// Sessions of a store.
#[derive(Default)]
pub(super) struct Survey {
    /// Forks, each with its key and its parent.
    forks: HashMap<SessionHash, (SessionKey, SessionHash)>,
    /// Sessions that forks may still read.
    read_by_forks: HashSet<SessionHash>,
    sessions: u64,
    events: u64,
    bytes: u64,
}

impl Survey {
    /// Looks at all sessions of a store.
    pub(super) async fn read(source: &dyn MigrationSource) -> StoreResult<Self> {
        let (mut survey, mut after, mut ended) = (Self::default(), None, Vec::new());
        let mut readers = Vec::new();
        while let Some(sessions) = next_sessions(source, &mut after).await? {
            for session in sessions {
                if let Some(parent) = session.parent() {
                    survey.forks.insert(session.hash, (session.key.clone(), parent));
                    readers.extend((!session.is_gone()).then_some(session.hash));
                }
                match session.entry.stage.is_reclaimed() {
                    true => ended.push(session),
                    false => survey.count(&session),
                }
            }
        }
        for mut reader in readers {
            while let Some((_, parent)) = survey.forks.get(&reader) {
                reader = *parent;
                if !survey.read_by_forks.insert(reader) {
                    break;
                }
            }
        }
        let kept: Vec<_> = ended.iter().filter(|session| survey.keeps(session)).collect();
        kept.into_iter().for_each(|session| survey.count(session));
        Ok(survey)
    }

    fn count(&mut self, session: &MigratedSession) {
        self.sessions += 1;
        self.events += session.own_events();
        self.bytes += session.entry.bytes;
    }

    /// Returns the counts of what is to be copied.
    pub(super) fn to_migrated(&self) -> Migrated {
        let Self { sessions, events, bytes, .. } = *self;
        Migrated { sessions, events, bytes, ..Migrated::default() }
    }

    /// Returns true if a session is copied: one whose grace has ended is there for its forks alone.
    pub(super) fn keeps(&self, session: &MigratedSession) -> bool {
        !session.entry.stage.is_reclaimed() || self.read_by_forks.contains(&session.hash)
    }

    /// Returns true if the frames of a session are copied, too.
    pub(super) fn has_content(&self, session: &MigratedSession) -> bool {
        let is_read = !session.is_gone() || self.read_by_forks.contains(&session.hash);
        is_read && !session.entry.stage.is_erased()
    }

    /// Returns the forks that continue damaged sessions.
    pub(super) fn continuing(&self, damaged: &[DamagedSession]) -> Vec<DamagedSession> {
        let names: HashMap<SessionHash, &SessionKey> =
            damaged.iter().map(|one| (one.hash, &one.key)).collect();
        let mut found = Vec::new();
        for (hash, (key, parent)) in self.forks.iter().filter(|(hash, _)| !names.contains_key(hash))
        {
            let mut up = Some(parent);
            while let Some(one) = up {
                if let Some(name) = names.get(one) {
                    let reason = format!("it continues session {}, which is damaged", name.session);
                    found.push(DamagedSession { key: key.clone(), hash: *hash, reason });
                    break;
                }
                up = self.forks.get(one).map(|(_, parent)| parent);
            }
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }
}

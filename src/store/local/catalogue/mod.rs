//! Every session of the store by name, in memory, so that a listing opens none. An unused session
//! is evicted: only its packed entry stays. It must not hold state that cannot be rebuilt from
//! `settled/` and the journal.

pub(super) mod backlog;
mod evicted;
pub(super) mod moved;
mod moving;
pub(super) mod reserve;
pub(super) mod sessions;
mod settled;
pub(super) mod slots;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use indexmap::IndexMap;

use self::evicted::EvictedSessions;
use super::session::{LoadedSession, hash_of};
use crate::{
    env::Clock,
    event::{
        BatchKey, Incarnation, Scope, SessionHash, SessionId, SessionKey, TenantId, Timestamp,
        UserId, limits,
    },
    log::{Entry, PackedEntry},
    store::{SessionInfo, lifetime::LifetimeClock},
};

/// Loaded and evicted sessions of a store, by scope.
#[derive(Default)]
pub(super) struct Catalogue {
    scopes: BTreeMap<Scope, ScopeSessions>,
}

/// Progress of a walk over the loaded sessions: those of this scope from index `at` on are done.
pub(super) struct EvictProgress {
    scope: Scope,
    at: usize,
}

/// Sessions by hash, which frames and segments contain.
pub(super) type ByHash = BTreeMap<SessionHash, Arc<LoadedSession>>;

/// Sessions of a scope. The maps are ordered, if only by insertion, so that walks over them are
/// deterministic.
#[derive(Default)]
struct ScopeSessions {
    /// Loaded sessions, in a hash map: every append looks one up, and each comparison of names in a
    /// tree would miss the CPU cache.
    loaded: IndexMap<SessionId, Arc<LoadedSession>>,
    evicted: EvictedSessions,
    /// Sessions created with an `Idempotency-Key` that is still valid, and the time of creation.
    created: BTreeMap<Box<str>, (Timestamp, SessionId)>,
}

impl Catalogue {
    /// Inserts a loaded session. Returns the hash of another session that had its name.
    pub(super) fn insert(&mut self, session: Arc<LoadedSession>) -> Option<SessionHash> {
        let (key, at) = {
            let entry = &session.state().entry;
            debug_assert_eq!(hash_of(entry), Some(session.hash), "a hash is that of its entry");
            (entry.create_key.clone(), Timestamp(entry.created_at))
        };
        let sessions = self.scopes.entry(session.key.scope.clone()).or_default();
        sessions.record_create_key(key, at, &session.key.session);
        sessions.evicted.take(session.key.session.as_str());
        let hash = session.hash;
        let before = sessions.loaded.insert(session.key.session.clone(), session);
        before.map(|before| before.hash).filter(|before| *before != hash)
    }

    /// Removes a session whose creation failed, or of which nothing remains. Another session with
    /// the same name stays.
    pub(super) fn remove(&mut self, session: &LoadedSession) {
        let Some(sessions) = self.scopes.get_mut(&session.key.scope) else { return };
        let named = sessions.loaded.get(&session.key.session);
        if named.is_none_or(|named| named.hash != session.hash) {
            return;
        }
        sessions.loaded.swap_remove(&session.key.session);
        sessions.created.retain(|_, (_, name)| *name != session.key.session);
    }

    pub(super) fn get_loaded(&self, key: &SessionKey) -> Option<Arc<LoadedSession>> {
        self.scopes.get(&key.scope)?.loaded.get(&key.session).map(Arc::clone)
    }

    /// Returns the session; loads it if it is evicted.
    pub(super) fn get(&mut self, key: &SessionKey) -> Option<Arc<LoadedSession>> {
        let sessions = self.scopes.get_mut(&key.scope)?;
        if let Some(loaded) = sessions.loaded.get(&key.session) {
            return Some(Arc::clone(loaded));
        }
        let packed = sessions.evicted.take(key.session.as_str())?;
        let session = LoadedSession::from_entry(key.clone(), unpack_entry(&key.scope, &packed));
        sessions.loaded.insert(key.session.clone(), Arc::clone(&session));
        Some(session)
    }

    /// Returns the session that this `Idempotency-Key` created.
    pub(super) fn find_by_create_key(
        &mut self,
        scope: &Scope,
        key: &str,
    ) -> Option<Arc<LoadedSession>> {
        let (_, name) = self.scopes.get(scope)?.created.get(key)?;
        let key = SessionKey { scope: scope.clone(), session: name.clone() };
        self.get(&key)
    }

    /// Examines up to `count` loaded sessions from `before` on, evicts unused ones, and drops
    /// keys of creations older than `live`. Returns where it stopped; `None` at the end.
    pub(super) fn evict(
        &mut self,
        before: Option<&EvictProgress>,
        count: usize,
        live: Timestamp,
    ) -> Option<EvictProgress> {
        let mut left = count;
        let from = before.map_or(Bound::Unbounded, |place| Bound::Included(&place.scope));
        for (scope, sessions) in self.scopes.range_mut::<Scope, _>((from, Bound::Unbounded)) {
            let end = match before.filter(|place| place.scope == *scope) {
                Some(place) => place.at.min(sessions.loaded.len()),
                None => {
                    sessions.created.retain(|_, (at, _)| *at >= live);
                    sessions.loaded.len()
                }
            };
            let begin = end.saturating_sub(left);
            left -= end - begin;
            // Backwards: a removal fills the gap with the last session, already visited or new.
            for at in (begin..end).rev() {
                let Some((_, session)) = sessions.loaded.get_index(at) else { continue };
                // No other thread holds it, and none can find it while the catalogue is locked; the
                // weak count covers loaded forks that cache their parent.
                let unused = (Arc::strong_count(session), Arc::weak_count(session)) == (1, 0);
                if let Some(packed) = unused.then(|| session.try_pack()).flatten() {
                    sessions.loaded.swap_remove_index(at);
                    sessions.evicted.insert(packed);
                }
            }
            if left == 0 {
                return Some(EvictProgress { scope: scope.clone(), at: begin });
            }
            sessions.loaded.shrink_to(sessions.loaded.len() * 2);
        }
        None
    }

    /// Examines up to `looks` evicted sessions after `after` for up to `count` that `wanted`
    /// accepts. Returns them, and where it stopped; `None` at the end.
    pub(super) fn find_evicted(
        &self,
        after: Option<&SessionKey>,
        mut looks: usize,
        count: usize,
        wanted: &dyn Fn(Entry) -> bool,
    ) -> (Vec<SessionKey>, Option<SessionKey>) {
        let mut found = Vec::new();
        let mut last = after.cloned();
        let from = after.map_or(Bound::Unbounded, |key| Bound::Included(&key.scope));
        for (scope, sessions) in self.scopes.range::<Scope, _>((from, Bound::Unbounded)) {
            let after = after.filter(|key| key.scope == *scope).map(|key| &key.session);
            for packed in sessions.evicted.iter_after(after, None) {
                let Ok(session) = SessionId::new(packed.session_id()) else { continue };
                if looks == 0 || found.len() >= count {
                    return (found, last);
                }
                let key = SessionKey { scope: scope.clone(), session };
                looks -= 1;
                if wanted(unpack_entry(scope, packed)) {
                    found.push(key.clone());
                }
                last = Some(key);
            }
        }
        (found, None)
    }

    /// Passes up to `count` evicted sessions of a scope or workspace after `after`, in order of
    /// name. Returns the name where it stopped; `None` at the end.
    pub(super) fn visit_evicted(
        &self,
        (scope, workspace): (&Scope, Option<&str>),
        after: Option<&SessionId>,
        count: usize,
        visit: &mut dyn FnMut(&PackedEntry),
    ) -> Option<SessionId> {
        let mut left = count;
        for packed in self.scopes.get(scope)?.evicted.iter_after(after, workspace) {
            visit(packed);
            left = left.saturating_sub(1);
            if left == 0 {
                return SessionId::new(packed.session_id()).ok();
            }
        }
        None
    }

    pub(super) fn loaded_in_scope(&self, scope: &Scope) -> Vec<Arc<LoadedSession>> {
        let loaded = self.scopes.get(scope).map(|sessions| sessions.loaded.values());
        loaded.into_iter().flatten().map(Arc::clone).collect()
    }

    /// Returns the info of a session for a listing, without loading it.
    pub(super) fn visible_info(&self, scope: &Scope, id: &SessionId) -> Option<SessionInfo> {
        let sessions = self.scopes.get(scope)?;
        if let Some(session) = sessions.loaded.get(id) {
            return session.lock_visible().ok().map(|state| state.entry.info(&session.key));
        }
        let packed = sessions.evicted.get(id.as_str())?;
        let key = SessionKey { scope: scope.clone(), session: id.clone() };
        let entry = unpack_entry(scope, packed);
        entry.stage.is_alive().then(|| entry.info(&key))
    }

    /// Returns the entry and the hash of a session, without loading it.
    pub(super) fn entry(&self, key: &SessionKey) -> Option<(Entry, SessionHash)> {
        let sessions = self.scopes.get(&key.scope)?;
        if let Some(session) = sessions.loaded.get(&key.session) {
            let state = session.state();
            return state.exists().then(|| (state.entry.clone(), session.hash));
        }
        let packed = sessions.evicted.get(key.session.as_str())?;
        let entry = unpack_entry(&key.scope, packed);
        let hash = SessionHash::new(key, Incarnation(entry.incarnation));
        Some((entry, hash))
    }

    /// Returns every scope with a session.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        self.scopes.keys().cloned().collect()
    }

    /// Returns every loaded session.
    pub(super) fn all_loaded(&self) -> Vec<Arc<LoadedSession>> {
        self.scopes.values().flat_map(|sessions| sessions.loaded.values()).map(Arc::clone).collect()
    }

    /// Passes the encoded entry of every flushed session to `visit`.
    pub(super) fn for_each_flushed(&self, visit: &mut dyn FnMut(&[u8])) {
        for (scope, sessions) in &self.scopes {
            for packed in sessions.evicted.iter() {
                visit(&packed.encode(scope.tenant.as_str(), scope.user.as_str()));
            }
            let loaded = sessions.loaded.values();
            for entry in loaded.filter_map(|session| session.state().flushed_entry()) {
                visit(&entry.encode());
            }
        }
    }

    /// Returns and loads the sessions with these hashes, or all sessions.
    pub(super) fn load_by_hash(&mut self, wanted: Option<&BTreeSet<SessionHash>>) -> ByHash {
        let mut keys = Vec::new();
        let anything = wanted.is_none_or(|wanted| !wanted.is_empty());
        for (scope, sessions) in self.scopes.iter().filter(|_| anything) {
            for packed in sessions.evicted.iter() {
                let (id, incarnation) = packed.identity();
                let Ok(session) = SessionId::new(id) else { continue };
                let key = SessionKey { scope: scope.clone(), session };
                let hash = SessionHash::new(&key, Incarnation(incarnation));
                if wanted.is_none_or(|wanted| wanted.contains(&hash)) {
                    keys.push(key);
                }
            }
        }
        keys.iter().for_each(|key| drop(self.get(key)));
        let loaded = self.scopes.values().flat_map(|sessions| sessions.loaded.values());
        let known = loaded.filter(|one| wanted.is_none_or(|wanted| wanted.contains(&one.hash)));
        known.map(|session| (session.hash, Arc::clone(session))).collect()
    }

    pub(super) fn len(&self) -> usize {
        let count = |sessions: &ScopeSessions| sessions.loaded.len() + sessions.evicted.len();
        self.scopes.values().map(count).sum()
    }

    /// Returns the names of the sessions of a scope.
    pub(super) fn session_ids(&self, scope: &Scope) -> Vec<SessionId> {
        let Some(sessions) = self.scopes.get(scope) else { return Vec::new() };
        let evicted = sessions.evicted.iter();
        let evicted = evicted.filter_map(|one| SessionId::new(one.session_id()).ok());
        let mut names: Vec<SessionId> = sessions.loaded.keys().cloned().chain(evicted).collect();
        names.sort();
        names
    }
}

/// Builder of the catalogue from the settled entries: built in one step it takes the least memory.
#[derive(Default)]
pub(super) struct CatalogueBuilder {
    scopes: BTreeMap<Scope, (ScopeSessions, Vec<PackedEntry>)>,
    last: Option<Scope>,
}

impl CatalogueBuilder {
    /// Adds an entry, with its encoding; of two of the same session the later one is kept. Keys of
    /// creations before `live` are left out. Returns `None` if its ids are invalid.
    pub(super) fn add_entry(
        &mut self,
        entry: Entry,
        bytes: &[u8],
        live: Timestamp,
    ) -> Option<SessionKey> {
        let same = |scope: &Scope| {
            (scope.tenant.as_str(), scope.user.as_str()) == (&*entry.tenant, &*entry.user)
        };
        let scope = match self.last.take().filter(same) {
            Some(scope) => scope,
            None => Scope {
                tenant: TenantId::new(&entry.tenant).ok()?,
                user: UserId::new(&entry.user).ok()?,
            },
        };
        let session = SessionId::new(&entry.session).ok()?;
        self.last = Some(scope.clone());
        let (sessions, evicted) = self.scopes.entry(scope.clone()).or_default();
        evicted.push(PackedEntry::from_entry(&entry, bytes));
        let at = Timestamp(entry.created_at);
        if at >= live {
            sessions.record_create_key(entry.create_key, at, &session);
        }
        Some(SessionKey { scope, session })
    }

    pub(super) fn build(self) -> Catalogue {
        let scopes = self.scopes.into_iter().map(|(scope, (mut sessions, evicted))| {
            sessions.evicted = EvictedSessions::from_entries(evicted);
            (scope, sessions)
        });
        Catalogue { scopes: scopes.collect() }
    }
}

impl ScopeSessions {
    /// Records the session that was created with a key; of two, the newer one.
    fn record_create_key(&mut self, key: Option<String>, at: Timestamp, session: &SessionId) {
        let Some(key) = key.and_then(|key| BatchKey::parse_stored(&key).ok()) else { return };
        let known = self.created.get(key.as_str());
        if known.is_none_or(|(before, _)| *before <= at) {
            self.created.insert(key.as_str().into(), (at, session.clone()));
        }
    }
}

fn unpack_entry(scope: &Scope, packed: &PackedEntry) -> Entry {
    packed.entry(scope.tenant.as_str(), scope.user.as_str())
}

/// Returns the time before which keys of batches and creations expire: a day ago, measured by the
/// store's count of time, so that a clock jump expires none.
pub(super) fn oldest_live_key_time(count: &LifetimeClock, clock: &dyn Clock) -> Timestamp {
    count.earliest_wall_time(clock, limits::BATCH_KEY_MICROS)
}

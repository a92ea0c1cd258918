//! The model of an engine: sessions as plain vectors in memory. The conformance suite runs against
//! it as well, and property tests compare an engine with it. It must never be reachable from the
//! binary: nothing in it is durable.

mod derived;
mod forks;
mod known;
mod upkeep;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};

use derived::DerivedFiles;
use forks::{Ancestor, Lent, check_readers, family, is_needed, lend, lose, spread};
use known::{created_before, known_ids, same_batch};
use work::check_notes;

use sessionlog::store::{
    AppendResult, ChainReceipt, ExpiringSession, Family, FillDirection, Health, KeepReason,
    LeaseCall, Lifetimes, Listing, ListingPage, ListingPageBuilder, NewSession, NotesQuery,
    PlacedEvent, ReadRequest, ReceiptState, SessionGap, SessionInfo, SessionLease, SessionUpdate,
    Slice, Stage, Store, StoreError, StoreFuture, StoreResult, SweepResult, TenantUsage,
    VerifyResult, Watch, WorkState, lifetime::LifetimeClock,
};
use sessionlog::{
    env::{Clock, Entropy},
    event::{
        Batch, BatchKey, Event, EventId, Fence, NewNote, Note, Position, Range, Scope, SessionHash,
        SessionId, SessionKey, TenantId, Timestamp, UserId, WORKSPACE_MOVED as MOVED, limits,
    },
    log::REDACTED,
};

struct Session {
    info: SessionInfo,
    /// Id of the session itself.
    hash: SessionHash,
    /// The key it was created with.
    key: Option<BatchKey>,
    deleted: bool,
    expired: bool,
    erased: bool,
    /// Its own events, which follow those of its ancestors.
    events: Vec<Event>,
    /// Sessions whose events it has, the oldest first.
    ancestors: Vec<Ancestor>,
    /// Ranges of its ancestors' events that were erased.
    lost: Vec<Range>,
    /// Positions of events without a body: they match any retry.
    redacted: BTreeSet<Position>,
    /// The chain value after each event.
    chains: Vec<[u8; 32]>,
    /// Known batches; without events when their content was removed.
    batches: HashMap<BatchKey, (Batch, AppendResult)>,
    notes: Vec<Note>,
    tail: tokio::sync::watch::Sender<Position>,
}

/// A store in memory.
pub struct Model {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    count: LifetimeClock,
    lifetimes: Lifetimes,
    numbers: AtomicU64,
    sessions: Mutex<BTreeMap<SessionKey, Session>>,
    derived_files: DerivedFiles,
}

impl Model {
    /// Creates an empty model.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let (count, lifetimes) = (LifetimeClock::begin(&*clock), Lifetimes::default());
        let (numbers, sessions) = (AtomicU64::new(0), Mutex::default());
        let derived_files = DerivedFiles::default();
        Self { clock, entropy, count, lifetimes, numbers, sessions, derived_files }
    }

    fn counted_time(&self) -> Timestamp {
        self.count.now(&*self.clock)
    }

    /// Returns true if a session is due: to expire, or, after its end, to be removed.
    fn ends(&self, session: &Session, counted: Timestamp) -> bool {
        let (info, lifetimes) = (&session.info, &self.lifetimes);
        let gone = self.goes_at(session);
        if session.deleted || session.expired {
            return gone.is_some_and(|at| counted >= at);
        }
        let expires = lifetimes.expires_at(info.ttl_seconds, info.used_at);
        let watched = session.tail.receiver_count() > 0;
        info.held_at.is_none() && !watched && expires.is_some_and(|at| counted > at)
    }

    /// Returns when the files of an expired or deleted session are removed.
    fn goes_at(&self, session: &Session) -> Option<Timestamp> {
        let (info, lifetimes) = (&session.info, &self.lifetimes);
        match session.deleted {
            true => Some(lifetimes.deleted_reclaim_at(info.used_at)),
            false => lifetimes.expired_reclaim_at(info.ttl_seconds, info.used_at),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionKey, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mint(&self, prefix: &str) -> String {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        format!("{prefix}{:032x}", u128::from_le_bytes(bytes))
    }

    fn with<T>(
        &self,
        key: &SessionKey,
        run: impl FnOnce(&mut Session) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut sessions = self.sessions();
        let session = || key.session.clone();
        let found = sessions
            .get_mut(key)
            .ok_or_else(|| StoreError::SessionNotFound { session: session() })?;
        gone(found)?;
        run(found)
    }

    fn emit(&self, session: &mut Session, batch: Batch) -> StoreResult<AppendResult> {
        let tail = session.info.tail;
        let key = batch.key.as_ref();
        let known = key.and_then(|key| {
            session.batches.iter().find(|(known, _)| known.as_str() == key.as_str())
        });
        if let Some((first, (known, answer))) = known {
            let retries = |key: &BatchKey| BatchKey::is_retry(first.digest(), key.digest());
            let same_call = key.and_then(retries) != Some(false);
            if same_call && same_batch(known, answer, &batch) {
                return Ok(AppendResult { repeated: true, ..answer.clone() });
            }
            let what = batch.key.as_ref().map(ToString::to_string).unwrap_or_default();
            return Err(StoreError::IdempotencyConflict { what, position: None });
        }
        if let Some(answer) = known_ids(session, &batch)? {
            return Ok(answer);
        }
        if session.info.archived_at.is_some() {
            return Err(StoreError::SessionArchived { session: session.info.key.session.clone() });
        }
        let wanted = batch.events.iter().map(|event| event.position);
        let marks = |note: &NewNote| note.kind.is_checkpoint() && !note.idle;
        if !batch.events.is_empty() || batch.note.as_ref().is_none_or(marks) {
            let (id, counted) = (session.info.key.session.clone(), self.counted_time());
            session.info.work.check_writer(&id, batch.fence, counted)?;
        }
        for (before, expected) in (0..).zip(wanted).chain([(0, batch.if_position)]) {
            if let Some(expected) = expected.filter(|wanted| *wanted != tail.plus(before)) {
                return Err(StoreError::PositionConflict { expected, tail });
            }
        }
        check_notes(session, batch.note.as_ref())?;
        let now = self.clock.now().max(session.info.updated_at);
        session.info.used_at = self.counted_time();
        let answer = self.push(session, &batch, now);
        if let Some(note) = batch.note.clone() {
            self.keep(session, note);
        }
        if !batch.metadata.is_empty() {
            pair(&mut session.info, batch.metadata.clone());
        }
        if let Some(key) = batch.key.clone().filter(|_| !batch.events.is_empty()) {
            session.batches.insert(key, (batch, answer.clone()));
        }
        Ok(answer)
    }

    fn push(&self, session: &mut Session, batch: &Batch, now: Timestamp) -> AppendResult {
        let first_position = session.info.tail;
        let mut placed = Vec::new();
        for event in batch.events.iter() {
            let position = session.info.tail;
            let id = event.id.clone().unwrap_or_else(|| {
                EventId::new(&self.mint("evt_")).expect("minted ids keep to the alphabet")
            });
            session.info.bytes += event.body.len() as u64;
            session.info.tail = position.plus(1);
            session.info.updated_at = now;
            let chain = blake3::hash(&[&session.info.receipt.chain, &event.body[..]].concat());
            session.info.receipt =
                ChainReceipt { position: session.info.tail, chain: *chain.as_bytes() };
            session.chains.push(session.info.receipt.chain);
            placed.push(PlacedEvent { id: id.clone(), position, processed_at: now });
            session.events.push(Event {
                position,
                id,
                kind: event.kind.clone(),
                origin: event.origin,
                created_at: event.created_at,
                processed_at: now,
                body: event.body.clone(),
            });
        }
        session.tail.send_replace(session.info.tail);
        AppendResult {
            events: placed,
            first_position,
            next_position: session.info.tail,
            receipt: session.info.receipt,
            repeated: false,
        }
    }
}

/// Sets and removes pairs of the metadata.
fn pair(info: &mut SessionInfo, pairs: BTreeMap<String, Option<String>>) {
    for (name, value) in pairs {
        info.bytes += (name.len() + value.as_ref().map_or(0, String::len)) as u64;
        match value {
            Some(value) => info.metadata.insert(name, value),
            None => info.metadata.remove(&name),
        };
    }
    info.workspace = info.metadata.get(MOVED).cloned().or(info.workspace.take());
}

/// Returns the error for a caller that cannot see the session.
fn gone(session: &Session) -> StoreResult<()> {
    let id = || session.info.key.session.clone();
    match (session.deleted, session.expired) {
        (true, restorable) => Err(StoreError::SessionDeleted { session: id(), restorable }),
        (_, true) => Err(StoreError::SessionExpired { session: id() }),
        _ => Ok(()),
    }
}

impl Store for Model {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        new: NewSession,
    ) -> StoreFuture<'a, (SessionInfo, AppendResult)> {
        async move {
            let now = self.clock.now();
            let live = self.count.earliest_wall_time(&*self.clock, limits::BATCH_KEY_MICROS);
            let known = self.sessions().values().find_map(|old| {
                let keys = old.key.as_ref().zip(new.key.as_ref());
                let same = keys.is_some_and(|(old, new)| old.as_str() == new.as_str())
                    && old.info.key.scope == *scope;
                (same && old.info.created_at >= live).then(|| created_before(old, &new))
            });
            if let Some(answer) = known {
                return answer;
            }
            let id = new.id.clone().unwrap_or_else(|| {
                SessionId::new(&self.mint("ses_")).expect("minted ids keep to the alphabet")
            });
            let key = SessionKey { scope: scope.clone(), session: id.clone() };
            let mut sessions = self.sessions();
            if let Some(old) = sessions.get(&key) {
                gone(old)?;
                return Err(StoreError::SessionExists { session: id });
            }
            let Lent { events, ancestors, lost, redacted, chains } = match &new.parent {
                None => Lent::default(),
                Some(point) => lend(&sessions, scope, point)?,
            };
            let chain = chains.last().copied().unwrap_or_default();
            let tail = new.parent.as_ref().map_or(Position::ZERO, |point| point.at);
            let bytes = new.text_bytes() as u64;
            let mut session = Session {
                info: SessionInfo {
                    key: key.clone(),
                    title: new.title,
                    metadata: new.metadata,
                    workspace: new.workspace,
                    ttl_seconds: new.ttl_seconds,
                    created_at: now,
                    updated_at: events.last().map_or(now, |last| last.processed_at.max(now)),
                    archived_at: None,
                    held_at: None,
                    used_at: self.counted_time(),
                    tail,
                    receipt: ChainReceipt { position: tail, chain },
                    bytes,
                    rewritten: 0,
                    damage: Vec::new(),
                    work: WorkState::default(),
                    forked_from: new.parent,
                },
                hash: self.derived_files.begin(&key),
                key: new.key,
                deleted: false,
                expired: false,
                erased: false,
                events,
                ancestors,
                lost,
                redacted,
                chains,
                batches: HashMap::new(),
                notes: Vec::new(),
                tail: tokio::sync::watch::channel(tail).0,
            };
            let appended = self.emit(&mut session, new.events)?;
            let info = session.info.clone();
            sessions.insert(key, session);
            self.derived_files.tell();
            Ok((info, appended))
        }
        .boxed()
    }

    fn append<'a>(&'a self, key: &'a SessionKey, batch: Batch) -> StoreFuture<'a, AppendResult> {
        async move {
            let appended = self.with(key, |session| self.emit(session, batch));
            self.derived_files.tell();
            appended
        }
        .boxed()
    }

    fn change<'a>(
        &'a self,
        key: &'a SessionKey,
        change: SessionUpdate,
    ) -> StoreFuture<'a, SessionInfo> {
        async move {
            let (now, counted) = (self.clock.now(), self.counted_time());
            // An expired session that was also deleted can be restored like any expired one.
            if (change.restore || change.discard)
                && let Some(session) = self.sessions().get_mut(key).filter(|one| one.expired)
            {
                (session.expired, session.deleted) = (false, false);
            }
            self.derived_files.tell();
            self.with(key, |session| {
                if (change.delete || change.discard) && session.info.held_at.is_some() {
                    let session = key.session.clone();
                    return Err(StoreError::SessionHeld { session });
                }
                match change.hold {
                    Some(true) => drop(session.info.held_at.get_or_insert(now)),
                    Some(false) => session.info.held_at = None,
                    None => {}
                }
                session.info.used_at = counted;
                if let Some(title) = change.title {
                    session.info.bytes += title.as_ref().map_or(0, String::len) as u64;
                    session.info.title = title;
                }
                pair(&mut session.info, change.metadata);
                match change.archive {
                    Some(true) => drop(session.info.archived_at.get_or_insert(now)),
                    Some(false) => session.info.archived_at = None,
                    None => {}
                }
                session.deleted |= change.delete || change.discard;
                session.expired |= change.delete && !change.discard;
                Ok(session.info.clone())
            })
        }
        .boxed()
    }

    fn verify_head<'a>(
        &'a self,
        key: &'a SessionKey,
        expected: ChainReceipt,
    ) -> StoreFuture<'a, (VerifyResult, ReceiptState)> {
        async move {
            let verified = self.verify(&key.scope, Some(&key.session)).await?;
            self.with(key, |session| {
                let before = usize::try_from(expected.position.0).unwrap_or(usize::MAX);
                let chain = match before.checked_sub(1) {
                    None => Some([0; 32]),
                    Some(last) => session.chains.get(last).copied(),
                };
                Ok((
                    verified,
                    match chain {
                        None => ReceiptState::Shorter { tail: session.info.tail },
                        Some(chain) if chain == expected.chain => ReceiptState::Holds,
                        Some(chain) => ReceiptState::Differs { chain },
                    },
                ))
            })
        }
        .boxed()
    }

    fn erase<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        async move {
            let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
            let mut sessions = self.sessions();
            if sessions.get(key).is_some_and(|session| !session.erased) {
                check_readers(&sessions, key, None)?;
            }
            let session = sessions.get_mut(key).ok_or_else(unknown)?;
            if session.info.held_at.is_some() {
                return Err(StoreError::SessionHeld { session: key.session.clone() });
            }
            session.deleted = true;
            session.expired = false;
            session.erased = true;
            session.info.rewritten = u64::MAX;
            self.derived_files.take_away(session.hash, None);
            lose(&mut sessions, key);
            Ok(())
        }
        .boxed()
    }

    fn redact<'a>(
        &'a self,
        key: &'a SessionKey,
        event: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        async move {
            let found = self.with(key, |session| {
                let found = session.whole().find(|one| one.id == *event);
                Ok(found.map(|one| (session.writer_of(one.position), one.position)))
            })?;
            let Some((writer, at)) = found else { return Ok(None) };
            let mut sessions = self.sessions();
            check_readers(&sessions, &writer, Some(at))?;
            let unknown = || StoreError::SessionNotFound { session: writer.session.clone() };
            let session = sessions.get_mut(&writer).ok_or_else(unknown)?;
            if session.info.held_at.is_some() {
                return Err(StoreError::SessionHeld { session: writer.session });
            }
            if let Some(found) = session.events.get_mut(at.0 as usize) {
                found.body = Bytes::from_static(REDACTED);
            }
            self.derived_files.take_away(session.hash, Some(&BTreeSet::from([at.0])));
            if session.redacted.insert(at) {
                session.info.rewritten += 1;
            }
            for (batch, answer) in session.batches.values_mut() {
                if answer.events.iter().any(|placed| placed.position == at) {
                    batch.events = Arc::default();
                }
            }
            spread(&mut sessions, &writer, at);
            Ok(Some(at))
        }
        .boxed()
    }

    fn info<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        async move { self.with(key, |session| Ok(session.info.clone())) }.boxed()
    }

    fn workspace<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<String>> {
        async move {
            let sessions = self.sessions();
            let found = sessions.get(key).filter(|session| !session.erased);
            Ok(found.and_then(|session| session.info.workspace.clone()))
        }
        .boxed()
    }

    fn use_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, SessionInfo> {
        async move {
            let counted = self.counted_time();
            self.with(key, |session| {
                session.info.used_at = session.info.used_at.max(counted);
                Ok(session.info.clone())
            })
        }
        .boxed()
    }

    fn family<'a>(&'a self, key: &'a SessionKey, limit: usize) -> StoreFuture<'a, Family> {
        async move { family(&self.sessions(), key, limit) }.boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, listing: Listing) -> StoreFuture<'a, ListingPage> {
        async move {
            let sessions = self.sessions();
            let mut found: Vec<&SessionInfo> = sessions
                .values()
                .filter(|session| gone(session).is_ok() && session.info.key.scope == *scope)
                .map(|session| &session.info)
                .filter(|info| {
                    let (id, workspace) = (info.key.session.as_str(), info.workspace.as_deref());
                    listing.may_select(info.created_at, id, workspace, info.archived_at.is_some())
                })
                .collect();
            found.sort_by(|a, b| {
                let [a, b] = [a, b].map(|info| (info.created_at, info.key.session.as_str()));
                listing.compare_by_creation(a, b)
            });
            let mut filling = ListingPageBuilder::new(&listing);
            let _more = found.into_iter().all(|info| {
                let place = (info.created_at, info.key.session.clone());
                filling.examine(place, Some(info.clone()))
            });
            Ok(filling.into_page())
        }
        .boxed()
    }

    fn write_note<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: Option<Fence>,
        note: NewNote,
    ) -> StoreFuture<'a, SessionInfo> {
        async move { self.note_of(key, fence, note) }.boxed()
    }

    fn notes<'a>(&'a self, key: &'a SessionKey, wanted: NotesQuery) -> StoreFuture<'a, Vec<Note>> {
        async move { self.notes_of(key, wanted) }.boxed()
    }

    fn lease<'a>(
        &'a self,
        key: &'a SessionKey,
        call: LeaseCall,
    ) -> StoreFuture<'a, (SessionLease, SessionInfo)> {
        async move { self.lease_of(key, call) }.boxed()
    }

    fn list_unfinished<'a>(
        &'a self,
        scope: &'a Scope,
        workspace: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionInfo>> {
        async move { Ok(self.unfinished_of(scope, workspace, limit)) }.boxed()
    }

    fn list_unmarked(&self, since: Timestamp, limit: usize) -> StoreFuture<'_, Vec<SessionKey>> {
        async move { Ok(self.unmarked_since(since, limit)) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a SessionKey, read: ReadRequest) -> StoreFuture<'a, Slice> {
        async move {
            self.with(key, |session| {
                let tail = session.info.tail;
                let range = Range::new(read.range.from.min(tail), read.range.to.min(tail));
                let wanted = session.events.get(range.from.0 as usize..range.to.0 as usize);
                let wanted = wanted.unwrap_or_default();
                let (mut bytes, mut events) = (0, Vec::new());
                let (mut lost, mut full): (Vec<Range>, _) = (Vec::new(), false);
                let mut take = |event: &Event| {
                    let count = events.len();
                    let len = event.body.len();
                    let is_at_limit = count >= read.events_max || bytes >= read.bytes_max;
                    if count > 0 && is_at_limit {
                        full = true;
                        return false;
                    }
                    if let Some(range) = session.lost_at(event.position) {
                        lost.extend((!lost.contains(&range)).then_some(range));
                        return true;
                    }
                    full = count > 0 && bytes + len > read.bytes_max;
                    if !full {
                        bytes += len;
                        events.push(event.clone());
                    }
                    !full
                };
                match read.fill {
                    FillDirection::Forward => wanted.iter().all(&mut take),
                    FillDirection::Backward => wanted.iter().rev().all(&mut take),
                };
                if let Some(range) = lost.first().filter(|_| !read.allow_gaps) {
                    let (session, range) = (key.session.clone(), *range);
                    return Err(StoreError::PrefixErased { session, range });
                }
                events.sort_by_key(|event| event.position);
                let covered = match (events.first(), events.last()) {
                    (Some(_), Some(last)) if full && read.fill == FillDirection::Forward => {
                        Range::new(range.from, last.position.plus(1))
                    }
                    (Some(first), Some(_)) if full => Range::new(first.position, range.to),
                    _ => range,
                };
                let reason = "the session that wrote it was erased".to_owned();
                let gap = |range| SessionGap { range, reason: reason.clone(), accepted_at: None };
                Ok(Slice { events, covered, gaps: lost.into_iter().map(gap).collect(), tail })
            })
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a EventId,
    ) -> StoreFuture<'a, Option<Position>> {
        async move {
            self.with(key, |session| {
                let found = session.whole().find(|event| event.id == *id);
                Ok(found.map(|event| event.position))
            })
        }
        .boxed()
    }

    fn find_time<'a>(&'a self, key: &'a SessionKey, time: Timestamp) -> StoreFuture<'a, Position> {
        async move {
            self.with(key, |session| {
                let before = session.events.partition_point(|event| event.processed_at < time);
                Ok(Position(before as u64))
            })
        }
        .boxed()
    }

    fn watch<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Watch> {
        async move { self.with(key, |session| Ok(session.tail.subscribe())) }.boxed()
    }

    fn verify<'a>(
        &'a self,
        scope: &'a Scope,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, VerifyResult> {
        async move {
            let sessions = self.sessions();
            let mut verified = VerifyResult::default();
            for (key, found) in sessions.iter().filter(|(key, _)| key.scope == *scope) {
                if session.is_none_or(|session| key.session == *session) && gone(found).is_ok() {
                    verified.sessions += 1;
                    verified.events += found.info.tail.0;
                    verified.bytes += found.info.bytes;
                }
            }
            match session {
                Some(session) if verified.sessions == 0 => {
                    Err(StoreError::SessionNotFound { session: session.clone() })
                }
                _ => Ok(verified),
            }
        }
        .boxed()
    }

    fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    fn counted_time(&self) -> Timestamp {
        Self::counted_time(self)
    }

    fn sweep(&self) -> StoreFuture<'_, SweepResult> {
        async {
            let (counted, mut swept) = (self.counted_time(), SweepResult::default());
            let mut sessions = self.sessions();
            let needed: Vec<SessionKey> =
                sessions.keys().filter(|key| is_needed(&sessions, key)).cloned().collect();
            sessions.retain(|key, session| {
                if !self.ends(session, counted) {
                    return true;
                }
                if session.deleted || session.expired {
                    if needed.contains(key) {
                        return true;
                    }
                    self.derived_files.take_away(session.hash, None);
                    swept.reclaimed.push(key.clone());
                    return false;
                }
                session.expired = true;
                self.derived_files.tell();
                session.info.used_at = counted;
                swept.expired.push(key.clone());
                true
            });
            Ok(swept)
        }
        .boxed()
    }

    fn list_aging<'a>(
        &'a self,
        scope: &'a Scope,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ExpiringSession>> {
        async move {
            let sessions = self.sessions();
            let mut found: Vec<ExpiringSession> = Vec::new();
            for session in sessions.values().filter(|one| one.info.key.scope == *scope) {
                let info = &session.info;
                let (stage, ends_at) = match (session.deleted, session.expired) {
                    (true, _) => (Stage::Deleted, self.goes_at(session)),
                    (_, true) => (Stage::Expired, self.goes_at(session)),
                    _ => (Stage::Alive, self.lifetimes.expires_at(info.ttl_seconds, info.used_at)),
                };
                if stage == Stage::Alive && ends_at.is_none() {
                    continue;
                }
                found.push(ExpiringSession {
                    session: info.key.session.clone(),
                    title: info.title.clone(),
                    stage,
                    used_at: info.used_at,
                    ends_at,
                    ttl_seconds: info.ttl_seconds,
                    kept: info.held_at.filter(|_| stage != Stage::Deleted).map(KeepReason::Hold),
                });
            }
            found.sort_by(ExpiringSession::compare_end);
            found.truncate(limit);
            Ok(found)
        }
        .boxed()
    }

    fn usage<'a>(&'a self, tenant: &'a TenantId, but: &'a UserId) -> StoreFuture<'a, TenantUsage> {
        async move {
            let sessions = self.sessions();
            let theirs = sessions.values().filter(|one| {
                let scope = &one.info.key.scope;
                scope.tenant == *tenant && scope.user != *but
            });
            Ok(theirs.fold(TenantUsage::default(), |usage, one| TenantUsage {
                sessions: usage.sessions + u64::from(!one.deleted && !one.expired),
                bytes: usage.bytes + if one.deleted && !one.expired { 0 } else { one.info.bytes },
            }))
        }
        .boxed()
    }

    fn health(&self) -> Health {
        Health::Ready
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

//! Record of a client of a store: the batches it sent, those acknowledged, and those in doubt.
//! After a crash it judges the store. It must not depend on how an engine stores its bytes.

use std::collections::BTreeMap;

use sessionlog::{
    event::{Batch, BatchKey, Event, NewEvent, Position, SessionId, SessionKey},
    store::{
        AppendResult, ForkPoint, NewSession, SessionGap, SessionInfo, SessionUpdate, Store,
        StoreError, StoreResult,
    },
};

use crate::engines::{batch, event, events_of, key, named};

/// Known outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Acknowledged or seen by a reader: stored from this position on.
    At(Position),
    /// Sent, without an answer or with an unknown outcome.
    InDoubt,
    /// Refused or found missing: it must not appear unless it is sent again.
    Absent,
}

#[derive(Debug)]
struct Sent {
    batch: Batch,
    known: Known,
    /// True if an earlier attempt is in doubt: the refusal of a later one does not decide it.
    tried: bool,
}

#[derive(Debug)]
struct History {
    /// The request that created it.
    first: NewSession,
    /// Events shared with its parent, as a reader saw them there.
    shared: Vec<Event>,
    created: Known,
    /// True if it was sent again: a refusal does not decide the earlier attempt.
    tried: bool,
    deleted: Known,
    batches: Vec<Sent>,
    /// The last acknowledged title, then titles whose outcome is unknown.
    titles: Vec<Option<String>>,
}

impl History {
    fn is_of(&self, session: &SessionId) -> bool {
        self.first.id.as_ref() == Some(session)
    }

    fn is_there(&self) -> bool {
        matches!(self.created, Known::At(_)) && self.deleted == Known::Absent
    }
}

/// Record of everything that one client did to a store.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: BTreeMap<String, History>,
    numbers: u64,
    /// True if every event has an id and no batch a key, so that frames of one size are alike.
    pub plain: bool,
    /// Number of acknowledged batches.
    pub acknowledged: u64,
    /// Number of acknowledged forks.
    pub forks: u64,
    /// Number of answers to requests sent again after they were acknowledged.
    pub repeated: u64,
}

/// Returns true if the gap exists only while the device cannot read it.
pub fn is_unread(gap: &SessionGap) -> bool {
    ["the device cannot read it", "os error 5"].iter().any(|what| gap.reason.contains(what))
}

/// Returns the outcome of a request with that error: stored, not stored, or in doubt.
fn outcome(error: &StoreError, crashed: bool) -> Known {
    match error {
        _ if crashed => Known::InDoubt,
        StoreError::OutcomeUnknown { .. } => Known::InDoubt,
        StoreError::DiskFull(_) | StoreError::Io { .. } | StoreError::ReadOnly { .. } => {
            Known::Absent
        }
        // While reads of the device fail, no event is appended.
        StoreError::SessionDamaged { gaps, .. } if gaps.iter().any(is_unread) => Known::Absent,
        other => panic!("an answer that nothing explains: {other}: {other:?}"),
    }
}

/// Returns the identity of an event: its body, since a store may have assigned its id.
fn body(event: &NewEvent) -> &[u8] {
    &event.body
}

impl Ledger {
    /// Returns the sessions that certainly exist.
    pub fn sessions(&self) -> Vec<String> {
        let there = self.sessions.iter().filter(|(_, history)| history.is_there());
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Returns a request for a new session with its first events; pass its answer to `created`.
    pub fn fresh(&mut self, sizes: &[usize]) -> (String, NewSession) {
        let name = format!("s{}", self.sessions.len());
        let mut events = batch(self.create_events(sizes));
        let keyed = self.numbers.is_multiple_of(2);
        events.key = keyed.then(|| BatchKey::new(&format!("first {name}")).unwrap());
        self.insert_session(name, events, None, Vec::new())
    }

    /// Returns a request for a fork that shares events that a reader saw in its parent.
    pub fn fork(&mut self, parent: &str, shared: Vec<Event>) -> (String, NewSession) {
        let name = format!("s{}", self.sessions.len());
        let at = Position(shared.len() as u64);
        let parent = ForkPoint { session: key(parent).session, at };
        self.insert_session(name, Batch::default(), Some(parent), shared)
    }

    fn insert_session(
        &mut self,
        name: String,
        events: Batch,
        parent: Option<ForkPoint>,
        shared: Vec<Event>,
    ) -> (String, NewSession) {
        let first = NewSession {
            id: Some(key(&name).session),
            title: Some(name.clone()),
            key: Some(BatchKey::new(&format!("create {name}")).unwrap()),
            events: events.clone(),
            parent,
            ..NewSession::default()
        };
        let history = History {
            first: first.clone(),
            shared,
            created: Known::InDoubt,
            tried: false,
            deleted: Known::Absent,
            batches: vec![Sent { batch: events, known: Known::InDoubt, tried: false }],
            titles: vec![Some(name.clone())],
        };
        self.sessions.insert(name.clone(), history);
        (name, first)
    }

    /// Creates a session with its first events.
    pub async fn create(&mut self, store: &dyn Store, sizes: &[usize], crashed: impl Fn() -> bool) {
        let (name, new) = self.fresh(sizes);
        let answer = store.create(&key(&name).scope, new).await;
        self.created(&name, answer, crashed());
    }

    /// Returns again the request for a session that was created or may have been.
    pub fn create_again(&mut self, nth: usize) -> Option<(String, NewSession)> {
        let again = |history: &History| {
            history.created != Known::Absent && history.deleted == Known::Absent
        };
        let mut again: Vec<_> = self.sessions.iter_mut().filter(|(_, h)| again(h)).collect();
        let (name, history) = again.swap_remove(nth.checked_rem(again.len())?);
        history.tried = true;
        Some((name.clone(), history.first.clone()))
    }

    /// Records the answer to a creation. `crashed` returns true if the machine died.
    pub fn created(
        &mut self,
        name: &str,
        answer: StoreResult<(SessionInfo, AppendResult)>,
        crashed: bool,
    ) {
        let history = self.sessions.get_mut(name).unwrap();
        let known = match answer {
            Ok((info, appended)) => {
                let events = history.first.events.events.len();
                assert_eq!(appended.events.len(), events, "{name}: a creation names its events");
                let least = history.shared.len() + events;
                assert!(info.tail.0 >= least as u64, "{name}: shorter than it was created");
                self.forks += u64::from(info.forked_from.is_some());
                record_event_ids(&mut history.batches[0].batch, &appended);
                Known::At(Position::ZERO)
            }
            Err(_) if matches!(history.created, Known::At(_)) => return,
            // Its parent was deleted in the meantime.
            Err(StoreError::SessionDeleted { session, .. }) if !history.is_of(&session) => {
                if history.tried {
                    Known::InDoubt
                } else {
                    Known::Absent
                }
            }
            Err(error) if history.tried => {
                outcome(&error, crashed);
                Known::InDoubt
            }
            Err(error) => outcome(&error, crashed),
        };
        history.created = known;
        history.batches[0].known = known;
    }

    /// Creates events with unique bodies; every third batch, unless `plain`, has no event ids.
    fn create_events(&mut self, sizes: &[usize]) -> Vec<NewEvent> {
        self.numbers += 1;
        let (number, plain) = (self.numbers, self.plain);
        let event = |(place, size): (usize, &usize)| {
            let body = format!("{number}.{place} {}", "x".repeat(*size));
            if number % 3 == 0 && !plain {
                event(&body)
            } else {
                named(&format!("{number}.{place}"), &body)
            }
        };
        sizes.iter().enumerate().map(event).collect()
    }

    /// Returns a new batch for a session; pass it to `append`, then its answer to `answered`.
    pub fn send(&mut self, session: &str, sizes: &[usize]) -> (SessionKey, usize, Batch) {
        let mut batch = batch(self.create_events(sizes));
        // Events without ids can be sent again only under a key.
        let keyed = self.numbers.is_multiple_of(3) || self.numbers.is_multiple_of(5);
        batch.key = (keyed && !self.plain)
            .then(|| BatchKey::new(&format!("batch {}", self.numbers)).unwrap());
        let history = self.sessions.get_mut(session).unwrap();
        history.batches.push(Sent { batch: batch.clone(), known: Known::InDoubt, tried: false });
        (key(session), history.batches.len() - 1, batch)
    }

    /// Returns a sent batch to send again: a stored one if `there`, else one in doubt or absent.
    pub fn send_again(&mut self, nth: usize, there: bool) -> Option<(SessionKey, usize, Batch)> {
        let histories = self.sessions.iter_mut().filter(|(_, history)| history.is_there());
        let sent = histories.flat_map(|(name, history)| {
            let batches = history.batches.iter_mut().enumerate();
            batches.map(move |(number, sent)| (name, number, sent))
        });
        let wanted = |sent: &Sent| {
            let named =
                sent.batch.key.is_some() || sent.batch.events.iter().all(|e| e.id.is_some());
            named && !sent.batch.events.is_empty() && matches!(sent.known, Known::At(_)) == there
        };
        let mut wanted: Vec<_> = sent.filter(|(.., sent)| wanted(sent)).collect();
        let (name, number, sent) = wanted.swap_remove(nth.checked_rem(wanted.len())?);
        if !there {
            sent.tried |= sent.known == Known::InDoubt;
            sent.known = Known::InDoubt;
        }
        Some((key(name), number, sent.batch.clone()))
    }

    /// Records the answer to a batch that was sent.
    pub fn answered(
        &mut self,
        key: &SessionKey,
        number: usize,
        answer: StoreResult<AppendResult>,
        crashed: bool,
    ) {
        let session = &key.session;
        let sent = &mut self.sessions.get_mut(session.as_str()).unwrap().batches[number];
        sent.known = match (answer, sent.known) {
            (Ok(appended), before) => {
                let first = appended.first_position;
                if let Known::At(at) = before {
                    self.repeated += 1;
                    assert!(appended.repeated, "{session}: batch {number} is there twice");
                    assert_eq!(first, at, "{session}: batch {number} moved");
                } else {
                    self.acknowledged += 1;
                }
                record_event_ids(&mut sent.batch, &appended);
                Known::At(first)
            }
            (Err(error), Known::At(at)) => {
                outcome(&error, crashed);
                Known::At(at)
            }
            (Err(error), _) if sent.tried => {
                outcome(&error, crashed);
                Known::InDoubt
            }
            (Err(error), _) => outcome(&error, crashed),
        };
    }

    /// Records the answer to a batch whose precondition did not hold: it is not stored.
    pub fn refused(&mut self, key: &SessionKey, number: usize, answer: StoreResult<AppendResult>) {
        assert!(answer.is_err(), "a precondition that does not hold is an error: {answer:?}");
        self.sessions.get_mut(key.session.as_str()).unwrap().batches[number].known = Known::Absent;
    }

    /// Changes the title of a session.
    pub async fn rename(&mut self, store: &dyn Store, session: &str, crashed: impl Fn() -> bool) {
        self.numbers += 1;
        let title = Some(format!("title {}", self.numbers));
        let change = SessionUpdate { title: Some(title.clone()), ..SessionUpdate::default() };
        let history = self.sessions.get_mut(session).unwrap();
        match store.change(&key(session), change).await {
            Ok(_) => history.titles = vec![title],
            Err(error) if outcome(&error, crashed()) == Known::InDoubt => {
                history.titles.push(title);
            }
            Err(_) => {}
        }
    }

    /// Deletes a session: no later request names it.
    pub async fn delete(&mut self, store: &dyn Store, session: &str, crashed: impl Fn() -> bool) {
        let change = SessionUpdate { discard: true, ..SessionUpdate::default() };
        let history = self.sessions.get_mut(session).unwrap();
        history.deleted = match store.change(&key(session), change).await {
            // The answer contains the session as it was before, or reports that it is deleted.
            Ok(_) | Err(StoreError::SessionDeleted { .. }) => Known::At(Position::ZERO),
            Err(error) => outcome(&error, crashed()),
        };
    }

    /// Compares the events found in a session with the record. A batch in doubt that is stored must
    /// stay; with `settled` one that is not stored must never appear later.
    pub fn judge(&mut self, session: &str, found: &[Event], settled: bool) {
        let history = self.sessions.get_mut(session).unwrap();
        let mut wanted: BTreeMap<&[u8], (usize, usize)> = BTreeMap::new();
        for (number, sent) in history.batches.iter().enumerate() {
            for (place, event) in sent.batch.events.iter().enumerate() {
                wanted.insert(body(event), (number, place));
            }
        }
        let mut starts: BTreeMap<usize, Position> = BTreeMap::new();
        let shared = &history.shared;
        assert!(found.starts_with(shared), "{session}: something of its parent's is lost");
        for (position, event) in (0..).zip(found).skip(shared.len()) {
            assert_eq!(event.position, Position(position), "{session}: positions are dense");
            let place = wanted.remove(&*event.body);
            let (number, place) = place.unwrap_or_else(|| {
                panic!("{session}: nobody sent {event:?}, or it is there twice")
            });
            let sent = &history.batches[number].batch.events[place];
            let id = sent.id.as_ref().unwrap_or(&event.id);
            assert_eq!((&event.kind, &event.id), (&sent.kind, id), "{session}");
            let start = *starts.entry(number).or_insert(event.position);
            assert_eq!(start.plus(place as u64), event.position, "{session}: a batch in order");
        }
        let torn = wanted.values().find(|(number, _)| starts.contains_key(number));
        assert_eq!(torn, None, "{session}: a part of a batch is missing");
        for (number, sent) in history.batches.iter_mut().enumerate() {
            // An empty batch counts as stored at any position.
            let empty = sent.batch.events.is_empty();
            let start = starts.get(&number).copied().or(empty.then_some(Position::ZERO));
            match (sent.known, start) {
                (Known::At(at), Some(start)) if !empty => {
                    assert_eq!(at, start, "{session}: batch {number} moved");
                }
                (Known::At(at), None) => {
                    panic!("{session}: batch {number}, acknowledged at {at}, is lost")
                }
                (Known::Absent, Some(start)) if !empty => {
                    panic!("{session}: batch {number}, refused, turned up at {start}")
                }
                (Known::InDoubt, Some(start)) => sent.known = Known::At(start),
                (Known::InDoubt, None) if settled => sent.known = Known::Absent,
                _ => {}
            }
        }
    }

    /// Checks after a start that every session equals the record and nothing is damaged.
    pub async fn judge_all(&mut self, store: &dyn Store) {
        self.judge_with(store, &BTreeMap::new()).await;
    }

    /// Checks the same, including the events that readers saw.
    pub async fn judge_with(&mut self, store: &dyn Store, seen: &BTreeMap<String, Vec<Event>>) {
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in names {
            let history = self.sessions.get_mut(&name).unwrap();
            let info = match store.info(&key(&name)).await {
                Ok(info) => info,
                Err(StoreError::SessionNotFound { .. }) => {
                    let lost = matches!(history.created, Known::At(_));
                    assert!(!lost, "session {name}, acknowledged, is lost");
                    history.created = Known::Absent;
                    continue;
                }
                Err(StoreError::SessionDeleted { .. }) => {
                    let meant = history.deleted != Known::Absent;
                    assert!(meant, "session {name}, deleted by nobody, is lost");
                    history.deleted = Known::At(Position::ZERO);
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            assert_ne!(history.created, Known::Absent, "session {name}, refused, turned up");
            history.created = Known::At(Position::ZERO);
            let back = matches!(history.deleted, Known::At(_));
            assert!(!back, "session {name}, deleted, turned up");
            history.deleted = Known::Absent;
            assert!(history.titles.contains(&info.title), "{name}: {:?}", info.title);
            history.titles = vec![info.title.clone()];
            assert_eq!(info.damage, [], "{name}");
            let found = events_of(store, &key(&name)).await;
            assert_eq!(info.tail, Position(found.len() as u64), "{name}");
            let seen = seen.get(&name).map_or(&[][..], Vec::as_slice);
            assert!(found.starts_with(seen), "{name}: an event that a reader saw is lost");
            self.judge(&name, &found, true);
        }
    }
}

/// Records the ids that a store assigned to a batch; checks that given ids are unchanged.
fn record_event_ids(batch: &mut Batch, appended: &AppendResult) {
    assert_eq!(appended.events.len(), batch.events.len(), "an answer names the events sent");
    for (event, placed) in
        std::sync::Arc::make_mut(&mut batch.events).iter_mut().zip(&appended.events)
    {
        let id = event.id.get_or_insert_with(|| placed.id.clone());
        assert_eq!(*id, placed.id, "an answer names the events that were sent");
    }
}

//! Records of a client of a store: the batches it sent, those acknowledged, and those in doubt.
//! After a crash it is the judge. It must not depend on how an engine keeps its bytes.

use std::collections::BTreeMap;

use sessionlog::{
    event::{Batch, BatchKey, Event, NewEvent, Position, SessionId, SessionKey},
    store::{
        Appended, Change, ForkPoint, Gap, NewSession, SessionInfo, Store, StoreError, StoreResult,
    },
};

use crate::engines::{batch, event, events_of, key, named};

/// Known outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Acknowledged, or seen by a read: there from this position on.
    At(Position),
    /// Sent, without an answer or with an unknown outcome.
    InDoubt,
    /// Refused, or found missing: it must not turn up unless it is sent again.
    Absent,
}

#[derive(Debug)]
struct Sent {
    batch: Batch,
    known: Known,
    /// An earlier try of it is in doubt: a refusal of a later one does not decide it.
    tried: bool,
}

#[derive(Debug)]
struct History {
    /// The request that created it.
    first: NewSession,
    /// Events of its parent, as a reader saw them there.
    shared: Vec<Event>,
    created: Known,
    /// It was sent again: a refusal says nothing of the earlier try.
    tried: bool,
    deleted: Known,
    batches: Vec<Sent>,
    /// The title last acknowledged, and those whose outcome is unknown.
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

/// Everything one client did to a store.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: BTreeMap<String, History>,
    numbers: u64,
    /// Every event has a name and no batch a key, so that frames of one size are alike.
    pub plain: bool,
    /// Batches acknowledged.
    pub acknowledged: u64,
    /// Forks acknowledged.
    pub forks: u64,
    /// Answers to requests sent again after they were acknowledged.
    pub repeated: u64,
}

/// True if a gap ends when the device reads again.
pub fn is_unread(gap: &Gap) -> bool {
    ["the device cannot read it", "os error 5"].iter().any(|what| gap.reason.contains(what))
}

/// Outcome of a request with that error: kept or not, if it can be known.
fn outcome(error: &StoreError, crashed: bool) -> Known {
    match error {
        _ if crashed => Known::InDoubt,
        StoreError::OutcomeUnknown { .. } => Known::InDoubt,
        StoreError::DiskFull(_) | StoreError::Io { .. } | StoreError::ReadOnly { .. } => {
            Known::Absent
        }
        // While reads of the device fail, nothing is appended.
        StoreError::SessionDamaged { gaps, .. } if gaps.iter().any(is_unread) => Known::Absent,
        other => panic!("an answer that nothing explains: {other}: {other:?}"),
    }
}

/// Identity of an event: its body, since a store may have given it its id.
fn body(event: &NewEvent) -> &[u8] {
    &event.body
}

impl Ledger {
    /// Sessions that are there for certain.
    pub fn sessions(&self) -> Vec<String> {
        let there = self.sessions.iter().filter(|(_, history)| history.is_there());
        there.map(|(name, _)| name.clone()).collect()
    }

    /// A request for a new session with its first events; its answer goes to `created`.
    pub fn fresh(&mut self, sizes: &[usize]) -> (String, NewSession) {
        let name = format!("s{}", self.sessions.len());
        let mut events = batch(self.mint(sizes));
        let keyed = self.numbers.is_multiple_of(2);
        events.key = keyed.then(|| BatchKey::new(&format!("first {name}")).unwrap());
        self.enter(name, events, None, Vec::new())
    }

    /// A request for a session that continues from events that a reader saw of another one.
    pub fn fork(&mut self, parent: &str, shared: Vec<Event>) -> (String, NewSession) {
        let name = format!("s{}", self.sessions.len());
        let at = Position(shared.len() as u64);
        let parent = ForkPoint { session: key(parent).session, at };
        self.enter(name, Batch::default(), Some(parent), shared)
    }

    fn enter(
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

    /// The request for a session that was created, or may have been, once more.
    pub fn create_again(&mut self, nth: usize) -> Option<(String, NewSession)> {
        let again = |history: &History| {
            history.created != Known::Absent && history.deleted == Known::Absent
        };
        let mut again: Vec<_> = self.sessions.iter_mut().filter(|(_, h)| again(h)).collect();
        let (name, history) = again.swap_remove(nth.checked_rem(again.len())?);
        history.tried = true;
        Some((name.clone(), history.first.clone()))
    }

    /// Takes the answer to a creation. `crashed` returns whether the machine is gone.
    pub fn created(
        &mut self,
        name: &str,
        answer: StoreResult<(SessionInfo, Appended)>,
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
                learn(&mut history.batches[0].batch, &appended);
                Known::At(Position::ZERO)
            }
            Err(_) if matches!(history.created, Known::At(_)) => return,
            // Its parent was deleted meanwhile.
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

    /// Events whose bodies say where they belong, half of them with names of their own.
    fn mint(&mut self, sizes: &[usize]) -> Vec<NewEvent> {
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

    /// A new batch for a session; hand it to `append`, then its answer to `answered`.
    pub fn send(&mut self, session: &str, sizes: &[usize]) -> (SessionKey, usize, Batch) {
        let mut batch = batch(self.mint(sizes));
        // Events without names of their own can be sent again under a key alone.
        let keyed = self.numbers.is_multiple_of(3) || self.numbers.is_multiple_of(5);
        batch.key = (keyed && !self.plain)
            .then(|| BatchKey::new(&format!("batch {}", self.numbers)).unwrap());
        let history = self.sessions.get_mut(session).unwrap();
        history.batches.push(Sent { batch: batch.clone(), known: Known::InDoubt, tried: false });
        (key(session), history.batches.len() - 1, batch)
    }

    /// A batch that is, or is not, known to be there, to be sent once more.
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

    /// Takes the answer to a batch that was sent.
    pub fn answered(
        &mut self,
        key: &SessionKey,
        number: usize,
        answer: StoreResult<Appended>,
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
                learn(&mut sent.batch, &appended);
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

    /// Takes the answer to a batch whose precondition did not hold: it is nowhere.
    pub fn refused(&mut self, key: &SessionKey, number: usize, answer: StoreResult<Appended>) {
        assert!(answer.is_err(), "a precondition that does not hold is an error: {answer:?}");
        self.sessions.get_mut(key.session.as_str()).unwrap().batches[number].known = Known::Absent;
    }

    /// Gives a session another title.
    pub async fn rename(&mut self, store: &dyn Store, session: &str, crashed: impl Fn() -> bool) {
        self.numbers += 1;
        let title = Some(format!("title {}", self.numbers));
        let change = Change { title: Some(title.clone()), ..Change::default() };
        let history = self.sessions.get_mut(session).unwrap();
        match store.change(&key(session), change).await {
            Ok(_) => history.titles = vec![title],
            Err(error) if outcome(&error, crashed()) == Known::InDoubt => {
                history.titles.push(title);
            }
            Err(_) => {}
        }
    }

    /// Deletes a session: no request names it again.
    pub async fn delete(&mut self, store: &dyn Store, session: &str, crashed: impl Fn() -> bool) {
        let change = Change { discard: true, ..Change::default() };
        let history = self.sessions.get_mut(session).unwrap();
        history.deleted = match store.change(&key(session), change).await {
            // An answer shows the session as it was left, or says that it is gone.
            Ok(_) | Err(StoreError::SessionDeleted { .. }) => Known::At(Position::ZERO),
            Err(error) => outcome(&error, crashed()),
        };
    }

    /// Compares what a session holds with the record of it. Batches in doubt that are there must
    /// stay; with `settled` those that are not there must never appear later.
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
            // A batch without events is nowhere and everywhere.
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

    /// After a start: every session equals this client's record of it, and nothing is damaged.
    pub async fn judge_all(&mut self, store: &dyn Store) {
        self.judge_with(store, &BTreeMap::new()).await;
    }

    /// The same, of what its readers saw too.
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

/// Takes the names that a store gave to a batch, and holds it to those it had.
fn learn(batch: &mut Batch, appended: &Appended) {
    assert_eq!(appended.events.len(), batch.events.len(), "an answer names the events sent");
    for (event, placed) in
        std::sync::Arc::make_mut(&mut batch.events).iter_mut().zip(&appended.events)
    {
        let id = event.id.get_or_insert_with(|| placed.id.clone());
        assert_eq!(*id, placed.id, "an answer names the events that were sent");
    }
}

//! What a client of a store knows: which batches it sent, which were acknowledged, which are in
//! doubt. After a crash it is the judge. It must not know how an engine keeps its bytes.

use std::collections::BTreeMap;

use sessionlog::{
    event::{Batch, Event, EventId, NewEvent, Position, SessionKey},
    store::{Appended, Change, NewSession, Store, StoreError},
};

use crate::engines::{batch, events_of, key, named};

/// What is known of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Acknowledged, or seen by a read: there for ever, from this position on.
    At(Position),
    /// Sent, and no answer, or the answer that nobody knows.
    InDoubt,
    /// Refused, or found missing: it must not turn up unless it is sent again.
    Absent,
}

#[derive(Debug)]
struct Sent {
    events: Vec<NewEvent>,
    known: Known,
    /// An earlier try of it is in doubt: a refusal of a later one says nothing of that.
    tried: bool,
}

#[derive(Debug)]
struct History {
    /// Whether its creation was acknowledged.
    created: Known,
    batches: Vec<Sent>,
    /// The title last acknowledged, and those whose outcome nobody knows.
    titles: Vec<Option<String>>,
}

/// Everything one client did to a store.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: BTreeMap<String, History>,
    numbers: u64,
    /// Batches acknowledged.
    pub acknowledged: u64,
}

/// What an error says of a request: kept or not, if one can know.
fn outcome(error: &StoreError, crashed: bool) -> Known {
    match error {
        _ if crashed => Known::InDoubt,
        StoreError::OutcomeUnknown { .. } => Known::InDoubt,
        StoreError::DiskFull | StoreError::Io { .. } | StoreError::ReadOnly { .. } => Known::Absent,
        other => panic!("an answer that nothing explains: {other}"),
    }
}

impl Ledger {
    pub fn sessions(&self) -> Vec<String> {
        let there = |history: &History| matches!(history.created, Known::At(_));
        self.sessions.iter().filter(|(_, h)| there(h)).map(|(name, _)| name.clone()).collect()
    }

    /// Creates a session with its first events. `crashed` tells whether the machine is gone.
    pub async fn create(&mut self, store: &dyn Store, sizes: &[usize], crashed: impl Fn() -> bool) {
        let name = format!("s{}", self.sessions.len());
        let events = self.mint(sizes);
        let new = NewSession {
            id: Some(key(&name).session),
            title: Some(name.clone()),
            events: batch(events.clone()),
            ..NewSession::default()
        };
        let known = match store.create(&key(&name).scope, new).await {
            Ok((info, _)) => {
                assert_eq!(info.tail, Position(events.len() as u64));
                Known::At(Position::ZERO)
            }
            Err(error) => outcome(&error, crashed()),
        };
        let titles = vec![Some(name.clone())];
        let batches = vec![Sent { events, known, tried: false }];
        self.sessions.insert(name, History { created: known, batches, titles });
    }

    /// Events with ids and bodies that say where they belong.
    fn mint(&mut self, sizes: &[usize]) -> Vec<NewEvent> {
        self.numbers += 1;
        let number = self.numbers;
        let event = |(place, size): (usize, &usize)| {
            named(&format!("{number}.{place}"), &format!("{number}.{place} {}", "x".repeat(*size)))
        };
        sizes.iter().enumerate().map(event).collect()
    }

    /// A new batch for a session; hand it to `append`, then its answer to `answered`.
    pub fn send(&mut self, session: &str, sizes: &[usize]) -> (SessionKey, usize, Batch) {
        let events = self.mint(sizes);
        let history = self.sessions.get_mut(session).unwrap();
        let sent = Sent { events: events.clone(), known: Known::InDoubt, tried: false };
        history.batches.push(sent);
        (key(session), history.batches.len() - 1, batch(events))
    }

    /// A batch that is not known to be there, to be sent once more.
    pub fn send_again(&mut self, nth: usize) -> Option<(SessionKey, usize, Batch)> {
        let there = |history: &History| matches!(history.created, Known::At(_));
        let histories = self.sessions.iter_mut();
        let unknown = histories.filter(|(_, h)| there(h)).flat_map(|(name, history)| {
            let batches = history.batches.iter_mut().enumerate();
            batches.map(move |(number, sent)| (name, number, sent))
        });
        let mut unknown: Vec<_> =
            unknown.filter(|(.., sent)| !matches!(sent.known, Known::At(_))).collect();
        if unknown.is_empty() {
            return None;
        }
        let chosen = nth % unknown.len();
        let (name, number, sent) = unknown.swap_remove(chosen);
        sent.tried = sent.known == Known::InDoubt;
        sent.known = Known::InDoubt;
        Some((key(name), number, batch(sent.events.clone())))
    }

    /// Takes the answer to a batch that was sent.
    pub fn answered(
        &mut self,
        key: &SessionKey,
        number: usize,
        answer: Result<Appended, StoreError>,
        crashed: bool,
    ) {
        let sent = &mut self.sessions.get_mut(key.session.as_str()).unwrap().batches[number];
        sent.known = match answer {
            Ok(appended) => {
                self.acknowledged += 1;
                let ids: Vec<Option<EventId>> =
                    appended.events.iter().map(|placed| Some(placed.id.clone())).collect();
                let wanted: Vec<Option<EventId>> =
                    sent.events.iter().map(|event| event.id.clone()).collect();
                assert_eq!(ids, wanted, "an answer names the events that were sent");
                Known::At(appended.first_position)
            }
            Err(error) if sent.tried => {
                outcome(&error, crashed);
                Known::InDoubt
            }
            Err(error) => outcome(&error, crashed),
        };
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

    /// Compares what a session holds with what is known of it. Batches in doubt that are there are
    /// there for ever; with `settled` those that are not there must never turn up by themselves.
    pub fn judge(&mut self, session: &str, found: &[Event], settled: bool) {
        let history = self.sessions.get_mut(session).unwrap();
        let mut wanted: BTreeMap<&EventId, (usize, usize)> = BTreeMap::new();
        for (number, sent) in history.batches.iter().enumerate() {
            for (place, event) in sent.events.iter().enumerate() {
                wanted.insert(event.id.as_ref().unwrap(), (number, place));
            }
        }
        let mut starts: BTreeMap<usize, Position> = BTreeMap::new();
        for (position, event) in (0..).zip(found) {
            assert_eq!(event.position, Position(position), "{session}: positions are dense");
            let place = wanted.remove(&event.id);
            let (number, place) = place.unwrap_or_else(|| {
                panic!("{session}: nobody sent {event:?}, or it is there twice")
            });
            let sent = &history.batches[number].events[place];
            assert_eq!((&event.kind, &event.body), (&sent.kind, &sent.body), "{session}");
            let start = *starts.entry(number).or_insert(event.position);
            assert_eq!(start.plus(place as u64), event.position, "{session}: a batch in order");
        }
        let torn = wanted.values().find(|(number, _)| starts.contains_key(number));
        assert_eq!(torn, None, "{session}: a part of a batch is missing");
        for (number, sent) in history.batches.iter_mut().enumerate() {
            // A batch without events is nowhere and everywhere.
            let nowhere = sent.events.is_empty().then_some(Position::ZERO);
            let start = starts.get(&number).copied().or(nowhere);
            match (sent.known, start) {
                (Known::At(at), Some(start)) if !sent.events.is_empty() => {
                    assert_eq!(at, start, "{session}: batch {number} moved");
                }
                (Known::At(at), None) => {
                    panic!("{session}: batch {number}, acknowledged at {at}, is lost")
                }
                (Known::Absent, Some(start)) if !sent.events.is_empty() => {
                    panic!("{session}: batch {number}, refused, turned up at {start}")
                }
                (Known::InDoubt, Some(start)) => sent.known = Known::At(start),
                (Known::InDoubt, None) if settled => sent.known = Known::Absent,
                _ => {}
            }
        }
    }

    /// After a start: every session is what this client knows of it, and nothing is damaged.
    pub async fn judge_all(&mut self, store: &dyn Store) {
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in names {
            let info = match store.info(&key(&name)).await {
                Ok(info) => info,
                Err(StoreError::SessionNotFound { .. }) => {
                    let history = self.sessions.get_mut(&name).unwrap();
                    let lost = matches!(history.created, Known::At(_));
                    assert!(!lost, "session {name}, acknowledged, is lost");
                    history.created = Known::Absent;
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let history = self.sessions.get_mut(&name).unwrap();
            assert_ne!(history.created, Known::Absent, "session {name}, refused, turned up");
            history.created = Known::At(Position::ZERO);
            assert!(history.titles.contains(&info.title), "{name}: {:?}", info.title);
            history.titles = vec![info.title.clone()];
            assert_eq!(info.damage, [], "{name}");
            let found = events_of(store, &key(&name)).await;
            assert_eq!(info.tail, Position(found.len() as u64), "{name}");
            self.judge(&name, &found, true);
        }
    }
}

//! Lives of a store whose sessions expire: they are written, read, watched, held, restored, deleted
//! and swept, their ids are reused, and the machine dies during and between calls. One seed decides
//! all of it. It must not read files, except to check that none is left.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use sessionlog::{
    event::{Event, Position, Scope},
    store::{
        ForkPoint, Maintain, NewSession, SessionUpdate, Store, StoreError, StoreResult, Watch,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::Fault;

use crate::{
    engines::{batch, events_of, everything, key, named},
    expiry::{GRACE, HOUR, LIMIT, mortal},
    ledger::is_unread,
    life::{Run, TINY, Tally, seeds, sweep},
    witness::{Answer, Arrival, Flaw},
};

/// Number of session ids, which are reused.
const NAMES: u64 = 6;

/// Known outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    InDoubt,
}

/// A session as its client recorded it.
#[derive(Debug)]
struct One {
    /// Number of the session among those with its id.
    turn: u64,
    created: Known,
    /// True if a predecessor had its id: until the next base is written, an interrupted start may
    /// find the predecessor again.
    again: bool,
    /// Bodies shared with its parent.
    shared: Vec<String>,
    /// Bodies sent, in order, with their known outcome.
    sent: Vec<(String, Known)>,
    /// Times of the last certain use and of the last read, which a crash may forget.
    used_at: Duration,
    read_at: Duration,
    /// Possible values of its hold.
    held: Vec<bool>,
    deleted: Known,
    deleted_at: Duration,
    /// True if a restorable deletion was sent and no final one.
    restorable: bool,
}

fn bodies(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| String::from_utf8(event.body.to_vec()).unwrap()).collect()
}

struct Mortals {
    run: Run,
    sessions: BTreeMap<String, One>,
    turns: u64,
    /// Longest time for which the store can have lived.
    lived: Duration,
    watched: BTreeMap<String, Watch>,
}

/// Returns the outcome of a request with that error, in a run that continued or died.
fn outcome(error: &StoreError, died: bool) -> Known {
    match error {
        _ if died => Known::InDoubt,
        StoreError::OutcomeUnknown { .. } => Known::InDoubt,
        StoreError::DiskFull(_) | StoreError::Io { .. } | StoreError::ReadOnly { .. } => Known::No,
        StoreError::SessionExpired { .. }
        | StoreError::SessionDeleted { .. }
        | StoreError::SessionNotFound { .. }
        | StoreError::SessionHeld { .. } => Known::No,
        // While reads of the device fail, no event is appended.
        StoreError::SessionDamaged { gaps, .. } if gaps.iter().any(is_unread) => Known::No,
        other => panic!("an answer that nothing explains: {other}"),
    }
}

impl One {
    fn new(turn: u64, now: Duration, again: bool) -> Self {
        Self {
            turn,
            created: Known::InDoubt,
            again,
            shared: Vec::new(),
            sent: Vec::new(),
            used_at: now,
            read_at: now,
            held: vec![false],
            deleted: Known::No,
            deleted_at: now,
            restorable: false,
        }
    }

    fn body(&self, number: usize, size: u64) -> String {
        let filling = "x".repeat(usize::try_from(size).unwrap());
        format!("\"{} {number} {filling}\"", self.turn)
    }

    fn use_at(&mut self, now: Duration) {
        self.used_at = self.used_at.max(now);
        self.read_at = self.read_at.max(now);
    }

    /// Compares the events found in a session with the record.
    fn judge(&mut self, name: &str, events: &[Event]) {
        let mut found = bodies(events).into_iter();
        for body in &self.shared {
            assert_eq!(found.next().as_ref(), Some(body), "{name}: what it shares is lost");
        }
        let mut next = found.next();
        for (body, known) in &mut self.sent {
            let there = next.as_ref() == Some(body);
            assert!(there || *known != Known::Yes, "{name}: an acknowledged event is lost");
            assert!(!there || *known != Known::No, "{name}: a refused event turned up");
            *known = if there { Known::Yes } else { Known::No };
            if there {
                next = found.next();
            }
        }
        assert_eq!(next, None, "{name}: nobody sent it, or it is there twice");
    }

    /// Checks that an error about a missing session agrees with what can have happened to it.
    fn judge_gone(&mut self, name: &str, error: &StoreError, now: Duration) {
        let idle = now.saturating_sub(self.read_at);
        let may_expire = self.held.contains(&false) && idle >= LIMIT;
        let may_go = may_expire && idle >= LIMIT + GRACE;
        let told = format!("{name}, idle for {idle:?}: {error}; {self:?}");
        match error {
            StoreError::SessionExpired { .. } | StoreError::SessionDeleted { .. }
                if self.again && self.created != Known::Yes =>
            {
                // The predecessor, which cannot be restored: this session was not created.
                self.created = Known::No;
            }
            StoreError::SessionExpired { .. } => assert!(may_expire, "it is lost: {told}"),
            StoreError::SessionDeleted { .. } => {
                assert_ne!(self.deleted, Known::No, "deleted by nobody, it is lost: {told}");
                self.deleted = Known::Yes;
            }
            StoreError::SessionNotFound { .. } => {
                let deleted = self.deleted != Known::No && now - self.deleted_at >= GRACE;
                let there = self.created == Known::Yes;
                assert!(!there || deleted || may_go, "it is lost: {told}");
            }
            _ => {}
        }
    }
}

impl Mortals {
    fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let options = StoreOptions { lifetimes: mortal().lifetimes, ..TINY };
        let run = Run::flawed(seed, flaw, options);
        let (sessions, watched) = (BTreeMap::new(), BTreeMap::new());
        Self { run, sessions, turns: 0, lived: Duration::ZERO, watched }
    }

    fn advance(&mut self, time: Duration) {
        self.run.sim.clock().advance(time);
        self.lived += time;
    }

    /// Records the answer to a use of a session, and checks it more strictly than that of a read.
    fn record_use<T>(&mut self, name: &str, answer: &StoreResult<T>, died: bool) -> Known {
        let (now, one) = (self.lived, self.sessions.get_mut(name).unwrap());
        match answer {
            Ok(_) => {
                one.created = Known::Yes;
                one.use_at(now);
                Known::Yes
            }
            Err(error) => {
                let known = outcome(error, died);
                if !died {
                    one.judge_gone(name, error, now);
                }
                known
            }
        }
    }

    /// Creates the next event of a session; returns its number, which the answer needs.
    fn send(&mut self, name: &str) -> (usize, sessionlog::event::Batch) {
        let size = self.run.below(900);
        let one = self.sessions.get_mut(name).unwrap();
        let number = one.sent.len();
        let body = one.body(number, size);
        one.sent.push((body.clone(), Known::InDoubt));
        (number, batch([named(&format!("{}.{number}", one.turn), &body)]))
    }

    fn sent(&mut self, name: &str, number: usize, known: Known) {
        self.sessions.get_mut(name).unwrap().sent[number].1 = known;
        self.run.ledger.acknowledged += u64::from(known == Known::Yes);
    }

    /// Creates the next session with an id.
    fn next_session(&mut self, name: &str) -> One {
        self.turns += 1;
        One::new(self.turns, self.lived, self.sessions.contains_key(name))
    }

    async fn create(&mut self, store: &LocalStore, name: &str, died: impl Fn() -> bool) {
        let one = self.next_session(name);
        self.sessions.insert(name.to_owned(), one);
        self.run.witness.forget(name);
        let (number, events) = self.send(name);
        let new = NewSession { id: Some(key(name).session), events, ..NewSession::default() };
        let answer = store.create(&Scope::local(), new).await;
        let known = self.record_use(name, &answer, died());
        self.sessions.get_mut(name).unwrap().created = known;
        self.sent(name, number, known);
    }

    /// Forks a session under that id from the current or an earlier tail of another one.
    async fn fork(&mut self, store: &LocalStore, name: &str, died: impl Fn() -> bool) -> bool {
        let parent = format!("s{}", self.run.below(NAMES));
        if !self.run.forks || parent == name || self.run.below(3) == 0 {
            return false;
        }
        let Ok(slice) = store.read(&key(&parent), everything()).await else { return false };
        let mut shared = bodies(&slice.events);
        shared.truncate(self.run.nth() % (shared.len() + 1));
        let at = Position(shared.len() as u64);
        let parent = Some(ForkPoint { session: key(&parent).session, at });
        let one = One { shared, ..self.next_session(name) };
        self.sessions.insert(name.to_owned(), one);
        self.run.witness.forget(name);
        let new = NewSession { id: Some(key(name).session), parent, ..NewSession::default() };
        let answer = store.create(&Scope::local(), new).await;
        self.run.ledger.forks += u64::from(answer.is_ok());
        let known = self.record_use(name, &answer, died());
        self.sessions.get_mut(name).unwrap().created = known;
        true
    }

    /// Sends one request to one session, or makes something happen to all of them.
    async fn request(&mut self, store: &Arc<LocalStore>) {
        let (sim, life) = (self.run.sim.clone(), self.run.sim.lives());
        let died = || sim.lives() != life;
        let name = format!("s{}", self.run.below(NAMES));
        let choice = self.run.below(32);
        self.run.doing = if matches!(choice, 12..=20) { "expiring" } else { "working" };
        match choice {
            21..=24 => {
                let hours = 1 + u32::try_from(self.run.below(24)).unwrap();
                return self.advance(hours * HOUR);
            }
            25 | 26 => return drop(store.flush()),
            27 => return store.scrub(),
            _ => {}
        }
        let known = self.sessions.get(&name);
        let Some(one) = known.filter(|one| one.created != Known::No) else {
            if store.info(&key(&name)).await.is_err() && !self.fork(store, &name, died).await {
                self.create(store, &name, died).await;
            }
            return;
        };
        let held = one.held == [true];
        match choice {
            0..=5 => {
                let (number, batch) = self.send(&name);
                let answer = store.append(&key(&name), batch).await;
                let known = self.record_use(&name, &answer, died());
                self.sent(&name, number, known);
            }
            6 | 7 => {
                let read = store.use_session(&key(&name)).await;
                self.read(&name, &read, died());
            }
            8 => {
                if let Ok(watch) = store.watch(&key(&name)).await {
                    self.watched.insert(name, watch);
                }
            }
            9 => drop(self.watched.pop_first()),
            10 => self.hold(store, &name, !held, died).await,
            11 if !held => self.delete(store, &name, died).await,
            12 | 13 => self.restore(store, &name, died).await,
            14 => {
                let both = futures_util::join!(store.sweep(), store.sweep());
                self.swept(both.0, died());
                self.swept(both.1, died());
            }
            15 | 16 => self.sweep_and_come(store, &name, died).await,
            _ => {
                if self.run.below(3) == 0 {
                    let faults = [Fault::Kill, Fault::PowerLoss, Fault::Io];
                    let at = self.run.sim.calls() + self.run.below(30);
                    self.run.sim.fail_call(at, faults[self.run.nth() % 3], false);
                }
                let swept = store.sweep().await;
                self.swept(swept, died());
            }
        }
    }

    fn read<T>(&mut self, name: &str, read: &StoreResult<T>, died: bool) {
        let (now, one) = (self.lived, self.sessions.get_mut(name).unwrap());
        match read {
            Ok(_) if !died => one.read_at = one.read_at.max(now),
            Err(error) if !died => one.judge_gone(name, error, now),
            _ => {}
        }
    }

    fn swept(&mut self, swept: StoreResult<sessionlog::store::SweepResult>, died: bool) {
        let Ok(swept) = swept else { return };
        self.run.tally.expired += swept.expired.len() as u64;
        self.run.tally.reclaimed += swept.reclaimed.len() as u64;
        for name in self.watched.keys() {
            let one = self.sessions.get_mut(name).unwrap();
            one.read_at = one.read_at.max(self.lived);
        }
        for key in swept.expired.iter().filter(|_| !died) {
            let name = key.session.as_str();
            let error = StoreError::SessionExpired { session: key.session.clone() };
            self.sessions.get_mut(name).unwrap().judge_gone(name, &error, self.lived);
        }
    }

    /// Sweeps while a request arrives within the sweep's sync: its answer must hold.
    async fn sweep_and_come(
        &mut self,
        store: &Arc<LocalStore>,
        name: &str,
        died: impl Fn() -> bool,
    ) {
        let reads = self.run.below(2) == 0;
        let number = if reads { None } else { Some(self.send(name)) };
        let (there, key) = (Arc::clone(store), key(name));
        let request: Arrival = async move {
            match number {
                None => Answer::Used(there.use_session(&key).await),
                Some((number, batch)) => {
                    let answer = there.append(&key, batch).await;
                    Answer::Appended(key, number, answer)
                }
            }
        }
        .boxed();
        self.run.witness.arrive(vec![request], None);
        let swept = store.sweep().await;
        for answer in self.run.witness.answers().await {
            match answer {
                Answer::Used(answer) => self.read(name, &answer, died()),
                Answer::Appended(_, number, answer) => {
                    let known = self.record_use(name, &answer, died());
                    self.sent(name, number, known);
                }
                Answer::Created(..) | Answer::Redacted(..) | Answer::Idle => {}
            }
        }
        self.swept(swept, died());
    }

    async fn hold(&mut self, store: &LocalStore, name: &str, hold: bool, died: impl Fn() -> bool) {
        let change = SessionUpdate { hold: Some(hold), ..SessionUpdate::default() };
        let answer = store.change(&key(name), change).await;
        let known = self.record_use(name, &answer, died());
        let held = &mut self.sessions.get_mut(name).unwrap().held;
        match known {
            Known::Yes => *held = vec![hold],
            Known::InDoubt => held.push(hold),
            Known::No => {}
        }
    }

    async fn delete(&mut self, store: &LocalStore, name: &str, died: impl Fn() -> bool) {
        // Every other deletion can be restored; the random sequence is not consumed.
        let discard = self.turns.is_multiple_of(2);
        let change = SessionUpdate { delete: true, discard, ..SessionUpdate::default() };
        let answer = store.change(&key(name), change).await;
        let known = match &answer {
            Err(StoreError::SessionHeld { .. }) => Known::No,
            _ => self.record_use(name, &answer, died()),
        };
        let one = self.sessions.get_mut(name).unwrap();
        if known != Known::No {
            one.restorable = !discard && (one.restorable || one.deleted == Known::No);
        }
        if one.deleted == Known::No && known != Known::No {
            (one.deleted, one.deleted_at) = (known, self.lived);
        }
        if one.deleted == Known::InDoubt && known == Known::Yes {
            one.deleted = Known::Yes;
        }
    }

    async fn restore(&mut self, store: &LocalStore, name: &str, died: impl Fn() -> bool) {
        let change = SessionUpdate { restore: true, ..SessionUpdate::default() };
        let expired = store.info(&key(name)).await;
        let expired = matches!(expired, Err(StoreError::SessionExpired { .. }));
        let answer = store.change(&key(name), change).await;
        self.run.tally.brought_back += u64::from(expired && answer.is_ok());
        if let (Err(StoreError::SessionExpired { .. }), false) = (&answer, died()) {
            let one = &self.sessions[name];
            let idle = self.lived.saturating_sub(one.read_at);
            assert!(idle >= LIMIT + GRACE, "{name} is lost: it was given up within its grace");
        }
        let one = self.sessions.get_mut(name).unwrap();
        match &answer {
            Ok(_) if one.deleted == Known::Yes => {
                assert!(one.restorable, "{name} is back, and was discarded");
                self.run.tally.brought_back += 1;
                one.deleted = Known::No;
            }
            Ok(_) => one.deleted = Known::No,
            Err(_) if died() && one.restorable && one.deleted == Known::Yes => {
                one.deleted = Known::InDoubt;
            }
            Err(_) => {}
        }
        self.record_use(name, &answer, died());
    }

    /// Checks that every recorded session exists, or was removed when that was allowed.
    async fn judge(&mut self) -> Arc<LocalStore> {
        self.watched.clear();
        self.run.sim.heal();
        let store =
            self.run.try_open().unwrap_or_else(|error| panic!("the start refuses: {error}"));
        assert_eq!(store.recovery().damage, Vec::<String>::new());
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in names {
            let now = self.lived;
            let one = self.sessions.get_mut(&name).unwrap();
            // A crash may forget the time of a read.
            one.read_at = one.used_at;
            let restore = SessionUpdate { restore: true, ..SessionUpdate::default() };
            let info = match store.info(&key(&name)).await {
                Err(error @ StoreError::SessionExpired { .. }) => {
                    one.judge_gone(&name, &error, now);
                    let restored = store.change(&key(&name), restore).await;
                    if restored.is_ok() {
                        one.use_at(now);
                    }
                    restored
                }
                other => other,
            };
            match info {
                Ok(info) => {
                    assert_ne!(one.deleted, Known::Yes, "{name}, deleted, turned up");
                    assert_ne!(one.created, Known::No, "{name}, refused or gone, turned up");
                    (one.created, one.deleted) = (Known::Yes, Known::No);
                    assert!(one.held.contains(&info.held_at.is_some()), "{name}: {info:?}");
                    one.held = vec![info.held_at.is_some()];
                    one.judge(&name, &events_of(&*store, &key(&name)).await);
                }
                Err(error) => {
                    if one.created != Known::No {
                        one.judge_gone(&name, &error, now);
                    }
                    if matches!(error, StoreError::SessionNotFound { .. }) {
                        one.created = Known::No;
                    }
                }
            }
        }
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, []);
        store
    }

    /// Deletes every session at the end and checks that each id is free.
    async fn end(&mut self) {
        let store = self.judge().await;
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in &names {
            if self.sessions[name].held == [true] {
                self.hold(&store, name, false, || false).await;
            }
        }
        for round in 0.. {
            let mut left = false;
            for name in &names {
                let info = store.info(&key(name)).await;
                left |= !matches!(info, Err(StoreError::SessionNotFound { .. }));
            }
            if !left {
                break;
            }
            assert!(round < 60, "something does not go");
            self.advance(6 * HOUR);
            store.sweep().await.unwrap();
            store.flush().unwrap();
        }
        let left = |run: &Run| {
            run.sim.files().into_iter().filter(|path| path.starts_with("segments/")).count()
        };
        store.scrub();
        assert_eq!(left(&self.run), 0, "files of sessions that went");
        for name in &names {
            self.create(&store, name, || false).await;
        }
        self.run.die();
        drop(store);
        drop(self.judge().await);
        self.run.die();
        self.judge().await;
    }
}

/// Runs lives of one store whose sessions expire.
pub async fn expiring(seed: u64, flaw: Option<Flaw>) -> Tally {
    let mut all = Mortals::new(seed, flaw);
    for _ in 0..4 + all.run.below(3) {
        for _ in 0..all.run.below(2) {
            all.run.plan(60);
            drop(all.run.open());
            all.run.die();
        }
        let store = all.judge().await;
        all.run.plan(400);
        let life = all.run.sim.lives();
        for _ in 0..all.run.below(120) {
            all.request(&store).await;
            if all.run.sim.lives() != life {
                all.run.note_crash(life);
                break;
            }
        }
        if all.run.below(4) == 0 {
            store.close().await;
        }
        if all.run.sim.lives() == life {
            all.run.die();
        }
        let hours = u32::try_from(all.run.below(30)).unwrap();
        all.advance(hours * HOUR);
    }
    all.end().await;
    all.run.finish()
}

#[test]
fn sessions_that_expire_at_any_time_keep_their_events_until_they_may_be_removed() {
    let all = Mutex::new(Tally::default());
    sweep(40, async |seed| {
        let one = expiring(seed, None).await;
        all.lock().unwrap().add(&one);
    });
    let all = all.into_inner().unwrap();
    eprintln!("{all:?}");
    let died = all.within.get("expiring").copied().unwrap_or_default();
    let rare = [all.expired, all.brought_back, all.reclaimed, died];
    assert!(seeds(40).count() < 40 || rare.iter().all(|times| *times > 2), "{all:?}");
}

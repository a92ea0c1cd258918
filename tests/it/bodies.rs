//! Removal of bodies: events are redacted and sessions erased while others are appended, files are
//! flushed, sealed and reused, and the machine crashes or a call fails anywhere. No file may
//! contain a body whose redaction or erasure was acknowledged, neither on the device nor in the
//! page cache. A run is determined by one seed. It must not use internals of the engine, but it
//! reads every file with its keys.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use sessionlog::{
    event::{Batch, EventId, NewEvent},
    log::RecordBody,
    store::{
        Maintain, NewSession, Store, StoreResult,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Call, Fault, Op, SeededEntropy, Sim};

use crate::{
    engines::{append, batch, create, events_of, key, named},
    life::{TINY, machine, runtime, sweep},
    nth::{Nth, cases},
    redacted::{ciphers, frames},
    witness::{Answer, Arrival, Witness},
};

/// Every body has unique words, so that a part of one is found, too.
const WORD: &[u8] = b"word~";

/// State of a body as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// Sent, and not acknowledged.
    InDoubt,
    Kept,
    /// Its removal was requested, and not acknowledged.
    Going,
    Gone,
}

struct Event {
    session: String,
    body: Body,
    bytes: usize,
    /// Sent more than once: an earlier attempt may be in any file.
    again: bool,
}

/// Counts over all runs.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    lives: u64,
    kills: u64,
    power_losses: u64,
    failures: u64,
    redacted: u64,
    erased: u64,
    searches: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.power_losses += other.power_losses;
        self.failures += other.failures;
        self.redacted += other.redacted;
        self.erased += other.erased;
        self.searches += other.searches;
    }
}

struct Life {
    sim: Sim,
    witness: Arc<Witness>,
    dice: SeededEntropy,
    encrypted: bool,
    /// True if power may fail within a write that requests share.
    wild: bool,
    /// Names of the existing sessions.
    sessions: Vec<String>,
    created: usize,
    events: Vec<Event>,
    /// First event of each batch, and the one after its last.
    batches: Vec<(usize, usize)>,
    tally: Tally,
}

fn id(n: usize) -> EventId {
    EventId::new(&format!("e{n}")).unwrap()
}

fn word(n: usize) -> String {
    format!("word~{n:06}~")
}

/// Returns the numbers of the events with a word in these bytes.
fn words(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let number = |at: usize| {
        let digits = bytes.get(at + WORD.len()..at + WORD.len() + 6)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    memchr::memmem::find_iter(bytes, WORD).filter_map(number)
}

impl Life {
    fn new(seed: u64) -> Self {
        let encrypted = seed % 8 == 7;
        Self {
            sim: machine(seed, encrypted),
            witness: Witness::new(seed, None),
            dice: SeededEntropy::new(seed.wrapping_mul(0x9e6c_63d0_876a_46e5)),
            encrypted,
            wild: false,
            sessions: Vec::new(),
            created: 0,
            events: Vec::new(),
            batches: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.dice.next() % bound as u64).unwrap()
    }

    fn any(&self) -> Option<String> {
        self.sessions.get(self.below(self.sessions.len().max(1))).cloned()
    }

    /// Opens the store; returns `None` if a planned fault occurred meanwhile.
    fn open(&self) -> Option<Arc<LocalStore>> {
        let strikes = self.sim.strikes();
        let mut env = self.sim.env();
        env.storage = self.witness.before(env.storage);
        // In plaintext no block is compressed, so that a body is stored verbatim.
        let opened =
            LocalStore::open_local(&env, StoreOptions { compression: self.encrypted, ..TINY });
        match opened {
            Ok(store) => Some(Arc::new(store)),
            Err(error) => {
                assert!(self.sim.strikes() > strikes, "the store does not open: {error}");
                None
            }
        }
    }

    /// Creates one to three new events for a session; returns the batch and its number.
    fn create_events(&mut self, session: &str) -> (usize, Batch) {
        let first = self.events.len();
        for _ in 0..1 + self.below(3) {
            let bytes = [40, 300, 700, 3_000, 3_000, 12_000][self.below(6)] + self.below(500);
            let (session, body) = (session.to_owned(), Body::InDoubt);
            self.events.push(Event { session, body, bytes, again: false });
        }
        self.batches.push((first, self.events.len()));
        (self.batches.len() - 1, self.batch(self.batches.len() - 1))
    }

    fn batch(&self, number: usize) -> Batch {
        let (first, end) = self.batches[number];
        batch((first..end).map(|n| {
            let text = word(n).repeat(self.events[n].bytes / word(n).len() + 1);
            named(id(n).as_str(), &format!("{{\"text\":\"{text}\"}}"))
        }))
    }

    /// Prepares an append of new events, or again of those that were not acknowledged.
    fn append(&mut self, store: &Arc<LocalStore>) -> Option<Arrival> {
        let doubtful = |(number, (first, _)): (usize, &(usize, usize))| {
            let event = &self.events[*first];
            let again = event.body == Body::InDoubt && self.sessions.contains(&event.session);
            again.then(|| (number, event.session.clone()))
        };
        let doubtful: Vec<_> = self.batches.iter().enumerate().filter_map(doubtful).collect();
        let again = doubtful.get(self.below(2 * doubtful.len().max(1))).cloned();
        let (number, session, batch) = match again {
            Some((number, session)) => {
                let (first, end) = self.batches[number];
                self.events[first..end].iter_mut().for_each(|event| event.again = true);
                (number, session, self.batch(number))
            }
            None => {
                let session = self.any()?;
                let (number, batch) = self.create_events(&session);
                (number, session, batch)
            }
        };
        let store = Arc::clone(store);
        let session = key(&session);
        let appended = async move {
            let answer = store.append(&session, batch).await;
            Answer::Appended(session, number, answer)
        };
        Some(appended.boxed())
    }

    /// Prepares a redaction: of an event that was sent more than once, if one exists; a new one if
    /// the caller requests it.
    fn redact(&mut self, store: &Arc<LocalStore>, new: bool) -> Option<Arrival> {
        let there = |event: &Event| self.sessions.contains(&event.session);
        let may = |event: &Event| match event.body {
            Body::Kept => there(event),
            Body::Going => there(event) && !new,
            Body::InDoubt | Body::Gone => false,
        };
        let mut those: Vec<usize> =
            (0..self.events.len()).filter(|n| may(&self.events[*n])).collect();
        if those.iter().any(|n| self.events[*n].again) && self.below(4) > 0 {
            those.retain(|n| self.events[*n].again);
        }
        let n = *those.get(self.below(those.len().max(1)))?;
        self.events[n].body = Body::Going;
        let (store, session) = (Arc::clone(store), key(&self.events[n].session));
        let redacted = async move { Answer::Redacted(n, store.redact(&session, &id(n)).await) };
        Some(redacted.boxed())
    }

    /// Runs other callers and the committer thread concurrently with the next request.
    fn run_concurrent_callers(&mut self, store: &Arc<LocalStore>) {
        let mut within: Vec<Arrival> = Vec::new();
        for _ in 0..self.below(3) {
            let redacts = self.below(2) == 0;
            within.extend(if redacts { self.redact(store, true) } else { self.append(store) });
        }
        let fails = self.wild && within.len() > 1 && self.below(8) == 0;
        let sim = self.sim.clone();
        let then = move || sim.fail_next(Op::Sync, Fault::PowerLoss, false);
        self.witness.arrive(within, fails.then(|| Box::new(then) as Box<_>));
        let mut beside: Vec<Arrival> = Vec::new();
        for _ in 0..self.below(5) {
            let idle = Arc::clone(store);
            let idle = async move {
                idle.write_idle_watermark();
                Answer::Idle
            };
            let idles = self.below(3) == 0;
            beside.extend(if idles { Some(idle.boxed()) } else { self.append(store) });
        }
        self.witness.arrive_beside(beside);
    }

    fn record_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Appended(_, number, Ok(_)) => {
                let (first, end) = self.batches[number];
                let those = self.events[first..end].iter_mut();
                those.filter(|one| one.body == Body::InDoubt).for_each(|one| one.body = Body::Kept);
            }
            Answer::Redacted(n, Ok(at)) => {
                assert!(at.is_some() || self.events[n].body == Body::Gone, "{n} is not there");
                self.events[n].body = Body::Gone;
                self.tally.redacted += 1;
            }
            _ => {}
        }
    }

    async fn erase(&mut self, store: &LocalStore) -> StoreResult<()> {
        let Some(session) = self.any().filter(|_| self.below(6) == 0) else { return Ok(()) };
        self.sessions.retain(|one| *one != session);
        store.erase(&key(&session)).await?;
        let those = self.events.iter_mut().filter(|event| event.session == session);
        those.for_each(|event| event.body = Body::Gone);
        self.tally.erased += 1;
        Ok(())
    }

    /// Creates a session if few exist.
    async fn create(&mut self, store: &LocalStore) {
        if self.sessions.len() < 3 {
            let name = key(&format!("s{}", self.created));
            self.created += 1;
            let new = NewSession { id: Some(name.session.clone()), ..NewSession::default() };
            let made = store.create(&name.scope, new).await;
            self.sessions.extend(made.is_ok().then(|| name.session.as_str().to_owned()));
        }
    }

    /// Sends one request, concurrently with those of others.
    async fn step(&mut self, store: &Arc<LocalStore>) {
        self.create(store).await;
        if self.below(2) == 0 {
            self.run_concurrent_callers(store);
        }
        let before = self.tally;
        match self.below(16) {
            0..=4 => {
                if let Some(append) = self.append(store) {
                    let answer = append.await;
                    self.record_answer(answer);
                }
            }
            5..=8 => {
                if let Some(redact) = self.redact(store, false) {
                    let answer = redact.await;
                    self.record_answer(answer);
                }
            }
            9 | 10 => drop(store.flush()),
            11 => drop(store.flush_under_load()),
            12 => store.write_idle_watermark(),
            13 => self.sim.clock().advance(Duration::from_secs(self.dice.next() % 100)),
            14 => drop(self.erase(store).await),
            _ => (0..2).for_each(|_| drop(store.flush())),
        }
        for answer in self.witness.answers().await {
            self.record_answer(answer);
        }
        if (self.tally.redacted, self.tally.erased) != (before.redacted, before.erased) {
            self.search("it was answered");
        }
    }

    /// Searches every file for removed bodies.
    #[track_caller]
    fn search(&mut self, when: &str) {
        self.tally.searches += 1;
        let ciphers = ciphers(&self.sim);
        let is_gone = |n: &usize| self.events.get(*n).is_some_and(|event| event.body == Body::Gone);
        for path in self.sim.files() {
            for bytes in [self.sim.read_durable(&path), self.sim.read_cached(&path)] {
                let bytes = Bytes::from(bytes.unwrap_or_default());
                let found = words(&bytes).find(is_gone);
                assert_eq!(found, None, "{path} has a body that went; {when}");
                if !self.encrypted {
                    continue;
                }
                for frame in frames(&path, &bytes) {
                    let number = frame.header.encrypted.map(|encrypted| encrypted.key);
                    let cipher = number.and_then(|number| ciphers.get(&number));
                    let records = frame.decrypt(cipher).and_then(|frame| frame.records());
                    for (_, record) in records.unwrap_or_default() {
                        let RecordBody::Whole { body, .. } = &record.body else { continue };
                        let found = words(body).find(is_gone);
                        assert_eq!(found, None, "{path} has a body that went; {when}");
                    }
                }
            }
        }
    }

    /// Makes the n-th call from now on fail, or crash the machine.
    fn plan(&self, calls: usize) {
        let at = self.sim.calls() + self.dice.next() % calls as u64;
        match self.below(10) {
            0 => {}
            1..=3 => self.sim.fail_call(at, Fault::Kill, false),
            4..=6 => self.sim.fail_call(at, Fault::PowerLoss, false),
            7 => self.sim.fail_call(at, Fault::Io, self.below(4) == 0),
            8 => {
                let fault = [Fault::Full, Fault::Short][self.below(2)];
                self.sim.fail_call(at, fault, self.below(4) == 0);
            }
            _ => {
                let ops = [Op::Sync, Op::Sync, Op::SyncDir, Op::Create];
                self.sim.fail_next(ops[self.below(4)], Fault::Io, false);
            }
        }
    }

    fn die(&mut self) {
        if self.below(2) == 0 {
            self.sim.kill();
        } else {
            self.sim.power_loss();
        }
        self.search("the machine died");
    }

    /// Starts on a healthy disk, and sends this number of requests.
    async fn go_on(&mut self, requests: usize) {
        self.sim.heal();
        self.wild = false;
        let store = self.open().unwrap();
        assert_eq!(store.recovery().damage, Vec::<String>::new());
        self.search("a start");
        for _ in 0..requests {
            self.step(&store).await;
        }
        while let Some(going) = self.events.iter().position(|one| one.body == Body::Going) {
            let event = &self.events[going];
            if !self.sessions.contains(&event.session) {
                self.events[going].body = Body::InDoubt;
                continue;
            }
            let answer = store.redact(&key(&event.session), &id(going)).await;
            assert!(answer.is_ok(), "{answer:?}");
            self.record_answer(Answer::Redacted(going, answer));
        }
        self.search("what was begun is finished");
    }

    fn finish(mut self) -> Tally {
        self.tally.lives = 1;
        self.tally.power_losses = self.sim.power_losses();
        self.tally.kills = self.sim.lives() - self.sim.power_losses();
        self.tally.failures = self.sim.strikes();
        self.tally
    }
}

/// Runs one store through several starts, each of which ends anywhere.
pub async fn going(seed: u64) {
    lives(seed).await;
}

async fn lives(seed: u64) -> Tally {
    let mut life = Life::new(seed);
    for _ in 0..3 + life.below(4) {
        for _ in 0..life.below(3) {
            life.plan(80);
            drop(life.open());
            life.die();
        }
        life.plan(600);
        life.wild = true;
        if let Some(store) = life.open() {
            let lives = life.sim.lives();
            for _ in 0..life.below(60) {
                life.step(&store).await;
                if life.sim.lives() != lives {
                    break;
                }
            }
            if life.below(4) == 0 {
                store.close().await;
            }
        }
        life.die();
        let requests = life.below(12);
        life.go_on(requests).await;
        life.die();
    }
    life.go_on(0).await;
    life.finish()
}

/// Runs one start with this fault, and the following ones; returns the number of its calls.
async fn run_with_fault(seed: u64, case: Option<Nth>) -> (u64, Tally) {
    let mut life = Life::new(seed);
    let store = life.open().unwrap();
    for _ in 0..16 {
        life.step(&store).await;
    }
    let first = life.sim.calls();
    if let Some(case) = case {
        case.plan(&life.sim);
    }
    let lives = life.sim.lives();
    for _ in 0..12 {
        if life.sim.lives() == lives {
            life.step(&store).await;
        }
    }
    let calls = life.sim.calls() - first;
    drop(store);
    for requests in [6, 0] {
        life.die();
        life.go_on(requests).await;
    }
    (calls, life.finish())
}

#[test]
fn a_removed_body_is_in_no_file_after_a_crash_at_any_call() {
    let all = Mutex::new(Tally::default());
    sweep(8, async |seed| {
        let done = lives(seed).await;
        all.lock().unwrap().add(done);
    });
    eprintln!("bodies that go: {:?}", all.into_inner().unwrap());
}

/// Runs every call of one sequence with a fault, in plaintext and encrypted.
#[test]
fn a_removed_body_is_in_no_file_after_a_failure_of_any_call() {
    let mut all = Tally::default();
    for seed in [8, 15] {
        let (calls, _) = runtime().block_on(run_with_fault(seed, None));
        for case in cases(calls, 1501) {
            let run = AssertUnwindSafe(run_with_fault(seed, Some(case))).catch_unwind();
            let Ok((_, done)) = runtime().block_on(run) else { panic!("seed {seed}: {case:?}") };
            all.add(done);
        }
    }
    eprintln!("bodies that go, call by call: {all:?}");
}

/// Returns an event whose every word is unique.
fn unique_event(n: usize, bytes: usize) -> NewEvent {
    named(id(n).as_str(), &format!("{{\"text\":\"{}\"}}", word(n).repeat(bytes / word(n).len())))
}

/// Returns the files that contain a word of that event.
fn with(sim: &Sim, n: usize) -> Vec<String> {
    let has = |path: &String| {
        let bytes = [sim.read_durable(path), sim.read_cached(path)].into_iter().flatten();
        bytes.into_iter().any(|bytes| words(&bytes).any(|word| word == n))
    };
    sim.files().into_iter().filter(has).collect()
}

fn open_plaintext(sim: &Sim, witness: &Arc<Witness>) -> Arc<LocalStore> {
    let mut env = sim.env();
    env.storage = witness.before(env.storage);
    Arc::new(LocalStore::open_local(&env, StoreOptions { compression: false, ..TINY }).unwrap())
}

/// One call of a redaction fails, or the machine crashes there; the redaction is retried until it
/// is acknowledged, and then power fails. Returns the number of its calls.
async fn retry_redaction(seed: u64, case: Option<Nth>) -> u64 {
    let (sim, witness) = (Sim::new(seed), Witness::new(seed, None));
    for n in [1, 2] {
        let store = open_plaintext(&sim, &witness);
        if n == 1 {
            create(&*store, "s").await;
        }
        append(&*store, &key("s"), batch([unique_event(n, 3_000)])).await.unwrap();
        (0..2).for_each(|_| store.flush().unwrap());
        sim.kill();
    }
    // As crashed starts leave them: bytes after the recorded end of a segment, and a copy of a torn
    // tail.
    let last = sim.files().into_iter().rfind(|path| path.ends_with(".seg")).unwrap();
    let end = sim.read_durable(&last).unwrap().len() as u64;
    sim.write_durable(&last, end, word(1).repeat(80).as_bytes());
    sim.write_durable("quarantine/journal-1-9000.torn", 0, word(1).repeat(80).as_bytes());
    let mut store = open_plaintext(&sim, &witness);
    append(&*store, &key("s"), batch([unique_event(3, 100)])).await.unwrap();
    let (first, lives) = (sim.calls(), sim.lives());
    if let Some(case) = case {
        case.plan(&sim);
    }
    let mut answer = store.redact(&key("s"), &id(1)).await;
    let calls = sim.calls() - first;
    sim.heal();
    if sim.lives() != lives {
        store = open_plaintext(&sim, &witness);
    }
    for _ in 0..3 {
        if answer.is_err() {
            answer = store.redact(&key("s"), &id(1)).await;
        }
    }
    assert!(answer.is_ok(), "seed {seed}, {case:?}: {answer:?}");
    assert_eq!(with(&sim, 1), Vec::<String>::new(), "seed {seed}, {case:?}: it was answered");
    sim.power_loss();
    assert_eq!(with(&sim, 1), Vec::<String>::new(), "seed {seed}, {case:?}: power failed");
    assert_eq!(open_plaintext(&sim, &witness).recovery().damage, Vec::<String>::new());
    calls
}

#[test]
fn a_repeated_redaction_leaves_the_body_in_no_file() {
    let calls = runtime().block_on(retry_redaction(0, None));
    let once = |case: &Nth| case.is_certain() && !case.lasting;
    for case in cases(calls, 23).filter(once) {
        runtime().block_on(retry_redaction(0, Some(case)));
    }
}

/// Power fails while frames of two sessions share a write. The header of the first is lost, so its
/// copy in quarantine names only the other session. Returns true if the copy had the body.
async fn crash_shared_write(seed: u64) -> bool {
    let (sim, witness) = (Sim::new(seed), Witness::new(seed, None));
    let store = open_plaintext(&sim, &witness);
    for name in ["s", "other"] {
        create(&*store, name).await;
    }
    let arrives = |name: &'static str, event: NewEvent| {
        let store = Arc::clone(&store);
        let sent = async move {
            let answer = store.append(&key(name), batch([event])).await;
            Answer::Appended(key(name), 0, answer)
        };
        sent.boxed()
    };
    let within = vec![arrives("s", unique_event(1, 3_000)), arrives("other", unique_event(2, 100))];
    let fails = sim.clone();
    let then = move || fails.fail_next(Op::Sync, Fault::PowerLoss, false);
    witness.arrive(within, Some(Box::new(then)));
    append(&*store, &key("s"), batch([unique_event(0, 100)])).await.unwrap();
    drop(witness.answers().await);
    drop(store);
    let store = open_plaintext(&sim, &witness);
    let quarantined = with(&sim, 1).iter().any(|path| path.starts_with("quarantine/"));
    append(&*store, &key("s"), batch([unique_event(1, 3_000)])).await.unwrap();
    store.redact(&key("s"), &id(1)).await.unwrap();
    assert_eq!(with(&sim, 1), Vec::<String>::new(), "seed {seed}");
    quarantined
}

#[test]
fn a_redaction_removes_a_body_that_a_torn_commit_left_in_quarantine() {
    let left = (0..40).filter(|seed| runtime().block_on(crash_shared_write(*seed)));
    assert!(left.count() > 0, "no copy had the body");
}

/// Power fails within the first write to a journal file, new or used `uses` times before; its
/// header is lost, and the next start needs a larger file. Returns true if the file had a part of
/// the body; without a call to fail at, the call of the write's sync as an error.
async fn crash_first_write(seed: u64, uses: usize, call: Option<u64>) -> Result<bool, u64> {
    let (sim, witness) = (Sim::new(seed), Witness::new(seed, None));
    let store = open_plaintext(&sim, &witness);
    create(&*store, "s").await;
    for n in 0..=uses {
        // Each event needs another file; all of them are free then.
        append(&*store, &key("s"), batch([unique_event(100 + n, 16_000)])).await.unwrap();
        (0..2).for_each(|_| store.flush().unwrap());
    }
    let first = sim.calls();
    if let Some(call) = call {
        sim.fail_call(call, Fault::PowerLoss, false);
    }
    let answer = append(&*store, &key("s"), batch([unique_event(1, 20_000)])).await;
    if call.is_none() {
        let begins = |call: &Call| call.op == Op::Sync && call.byte_offset == 0 && call.bytes > 0;
        let at = sim.trace().iter().skip(first as usize).position(begins);
        return Err(first + at.unwrap() as u64);
    }
    assert!(answer.is_err());
    drop(store);
    sim.heal();
    let store = open_plaintext(&sim, &witness);
    if events_of(&*store, &key("s")).await.len() > uses + 1 {
        return Ok(false);
    }
    let left = with(&sim, 1).iter().any(|path| path.starts_with("journal/"));
    append(&*store, &key("s"), batch([unique_event(1, 20_000), unique_event(2, 12_000)]))
        .await
        .unwrap();
    store.redact(&key("s"), &id(1)).await.unwrap();
    assert_eq!(with(&sim, 1), Vec::<String>::new(), "seed {seed}, {uses} uses");
    sim.power_loss();
    assert_eq!(open_plaintext(&sim, &witness).recovery().damage, Vec::<String>::new());
    Ok(left)
}

#[test]
fn a_redaction_removes_a_body_from_a_journal_file_with_a_torn_first_write() {
    for uses in [0, 3] {
        let tried = |seed: &u64| {
            let call = runtime().block_on(crash_first_write(*seed, uses, None)).unwrap_err();
            runtime().block_on(crash_first_write(*seed, uses, Some(call))).unwrap()
        };
        assert!((0..16).filter(tried).count() > 0, "{uses} uses: no file had a part of the body");
    }
}

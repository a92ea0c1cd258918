//! The life of a store on a failing disk: sessions are created and deleted, clients retry, the
//! journal rotates, flushes, seals and is reused, and the machine dies during and between calls.
//! One seed decides all of it. Everything acknowledged or seen must exist at every later start. It
//! must not read files.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt;
use sessionlog::{
    event::{Batch, Position, SessionKey},
    store::{
        AppendResult, Health, Maintain, NewSession, Store, StoreError, StoreResult,
        local::{LocalStore, OpenError, StoreOptions},
    },
};
use sessionlog_sim::{Call, Fault, Op, SeededEntropy, Sim};
use tokio::runtime::Runtime;

use crate::{
    engines::key,
    ledger::Ledger,
    witness::{Answer, Arrival, Flaw, Witness},
};

/// Returns a machine whose store is encrypted or in plaintext.
pub fn machine(seed: u64, encrypted: bool) -> Sim {
    if encrypted { Sim::encrypted(seed) } else { Sim::new(seed) }
}

/// State of a session's files before something is removed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Journal,
    Settled,
    Sealed,
    Restarted,
}

pub const AGES: [Age; 4] = [Age::Journal, Age::Settled, Age::Sealed, Age::Restarted];

/// Counts of runs, for the table of the proof.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub runs: u64,
    pub kills: u64,
    pub power_losses: u64,
    /// Number of failed calls that did not end the process.
    pub failures: u64,
    pub acknowledged: u64,
    pub repeated: u64,
    /// Number of forks.
    pub forks: u64,
    /// Numbers of sessions that expired, were restored, and were reclaimed.
    pub expired: u64,
    pub brought_back: u64,
    pub reclaimed: u64,
    /// Numbers of machine deaths by the engine's activity at that time.
    pub within: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.kills += other.kills;
        self.power_losses += other.power_losses;
        self.failures += other.failures;
        self.acknowledged += other.acknowledged;
        self.repeated += other.repeated;
        self.forks += other.forks;
        self.expired += other.expired;
        self.brought_back += other.brought_back;
        self.reclaimed += other.reclaimed;
        for (what, times) in &other.within {
            *self.within.entry(what).or_default() += times;
        }
    }
}

/// Returns the runtime shared by all runs; each run has a thread to itself.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
    })
}

/// Reads a number from an environment variable.
pub fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the seeds of a sweep; `SESSIONLOG_SEEDS` sets their number.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    match asked("SESSIONLOG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("SESSIONLOG_SEEDS").unwrap_or(usual),
    }
}

/// Runs a check for each seed and names the seed that fails.
pub fn sweep<F: Future<Output = ()>>(usual: u64, run: impl Fn(u64) -> F) {
    for seed in seeds(usual) {
        let outcome = runtime().block_on(AssertUnwindSafe(run(seed)).catch_unwind());
        assert!(outcome.is_ok(), "SESSIONLOG_SEED={seed} reproduces this");
    }
}

/// A machine, its client's record, and the random choices of the client.
pub struct Run {
    pub sim: Sim,
    pub ledger: Ledger,
    pub tally: Tally,
    options: StoreOptions,
    pub witness: Arc<Witness>,
    dice: SeededEntropy,
    mood: Mood,
    /// True, for half of the pairs of seeds, if sessions fork and are deleted more often.
    pub forks: bool,
    /// Last request of the client.
    pub doing: &'static str,
}

/// Kind of request that a client makes more often than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// No kind.
    Even,
    /// Large events, so that the journal wraps around while flushing fails.
    Heavy,
    /// Few requests in a life, and power that fails while many requests share a sync.
    Restless,
}

impl Run {
    pub fn new(seed: u64) -> Self {
        Self::flawed(seed, None, ROOMY)
    }

    /// Creates a machine whose store is encrypted for every other seed.
    pub fn flawed(seed: u64, flaw: Option<Flaw>, options: StoreOptions) -> Self {
        Self {
            sim: machine(seed, seed % 2 == 1),
            ledger: Ledger::default(),
            tally: Tally { runs: 1, ..Tally::default() },
            options,
            witness: Witness::new(seed, flaw),
            dice: SeededEntropy::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            mood: Mood::Even,
            forks: seed & 2 != 0,
            doing: "starting",
        }
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.dice.next() % bound
    }

    pub fn nth(&self) -> usize {
        usize::try_from(self.below(1000)).unwrap()
    }

    pub fn sizes(&self) -> Vec<usize> {
        let size = || match self.below(20) {
            0 => self.below(20_000),
            1..=8 if self.mood == Mood::Heavy => self.below(8_000),
            _ => self.below(700),
        };
        (0..1 + self.below(4)).map(|_| usize::try_from(size()).unwrap()).collect()
    }

    /// Opens the store; `None` if a planned fault struck during the start.
    pub fn open(&mut self) -> Option<Arc<LocalStore>> {
        let strikes = self.sim.strikes();
        let opened = self.try_open();
        let struck = self.sim.strikes() > strikes;
        let opened = opened.map_err(|error| assert!(struck, "the store does not open: {error}"));
        // A start hit by a fault reports what it could not read; a later start reads all of it.
        opened.ok().filter(|store| !struck || store.recovery().damage.is_empty())
    }

    pub fn try_open(&mut self) -> Result<Arc<LocalStore>, OpenError> {
        self.doing = "starting";
        let life = self.sim.lives();
        let mut env = self.sim.env();
        env.storage = self.witness.before(env.storage);
        let opened = LocalStore::open_local(&env, self.options).map(Arc::new);
        self.note_crash(life);
        opened.inspect(|store| self.witness.watch(store))
    }

    /// Records the engine's activity at the planned fault that ended its process.
    pub fn note_crash(&mut self, life: u64) {
        let Some(call) = self.sim.last_call().filter(|_| self.sim.lives() != life) else { return };
        let room = call.path.split('/').next().unwrap();
        let frames = matches!(call.op, Op::Write | Op::Sync) && call.byte_offset > 0;
        let what = match (self.doing, room) {
            ("starting", _) if self.ledger.acknowledged == 0 => "making",
            ("starting" | "deleting" | "expiring", _) => self.doing,
            (_, "journal") if frames => "committing",
            (_, "journal") if self.is_used_again(&call) => "recycling",
            (_, "journal") => "rotating",
            (_, "settled") => "naming what is settled",
            (_, "segments") if call.op == Op::Remove => "unlinking",
            (_, "segments") if call.path.ends_with(".sealed") => "sealing",
            (_, "segments") => "flushing",
            _ => "anything else",
        };
        *self.tally.within.entry(what).or_default() += 1;
    }

    /// True if the call starts to overwrite a journal file that had frames before.
    fn is_used_again(&self, call: &Call) -> bool {
        let begins = |one: &Call| one.op == Op::Write && one.byte_offset == 0;
        let trace = self.sim.trace();
        let times = trace.iter().filter(|one| begins(one) && one.path == call.path).count();
        let named = || {
            self.sim
                .read_durable(&call.path)
                .is_some_and(|bytes| bytes.iter().take(8).any(|byte| *byte != 0))
        };
        call.bytes > 0 && matches!(call.op, Op::Write | Op::Sync) && times > 1 && named()
    }

    /// Sends requests of one client until the machine dies.
    pub async fn work(&mut self, store: &Arc<LocalStore>, requests: u64) {
        let life = self.sim.lives();
        for _ in 0..requests {
            let sessions = self.ledger.sessions();
            self.witness.sessions(&sessions);
            self.request(store, &sessions).await;
            if self.sim.lives() != life {
                self.note_crash(life);
                return;
            }
        }
    }

    /// Sends one request, or several concurrently.
    async fn request(&mut self, store: &Arc<LocalStore>, sessions: &[String]) {
        let sim = self.sim.clone();
        let life = sim.lives();
        let crashed = || sim.lives() != life;
        let any = |run: &Self| sessions.get(run.nth().checked_rem(sessions.len())?).cloned();
        let choice = self.below(32);
        self.doing = if choice == 9 { "deleting" } else { "working" };
        let Some(session) = any(self).filter(|_| choice > 1) else {
            let (name, new) = self.new_session_request(store, sessions).await;
            let answer = store.create(&key(&name).scope, new).await;
            return self.ledger.created(&name, answer, crashed());
        };
        match choice {
            2 | 3 => {
                if self.mood != Mood::Even && self.below(3) == 0 {
                    let faults = [Fault::Kill, Fault::PowerLoss, Fault::Io];
                    let at = self.sim.calls() + self.below(40);
                    self.sim.fail_call(at, faults[self.nth() % 3], false);
                }
                drop(store.flush());
            }
            4 => store.write_idle_watermark(),
            5 => self.sim.clock().advance(Duration::from_secs(self.below(100))),
            6 => self.ledger.rename(&**store, &session, crashed).await,
            7 | 8 => self.read_and_record(store, &session).await,
            9 if (self.forks || self.below(4) == 0) && sessions.len() > 2 => {
                self.ledger.delete(&**store, &session, crashed).await;
            }
            10..=12 => {
                if let Some((key, number, again)) = self.ledger.send_again(self.nth(), choice == 12)
                {
                    let answer = store.append(&key, again).await;
                    self.ledger.answered(&key, number, answer, crashed());
                }
            }
            13 => {
                if let Some((name, new)) = self.ledger.create_again(self.nth()) {
                    let answer = store.create(&key(&name).scope, new).await;
                    self.ledger.created(&name, answer, crashed());
                }
            }
            14 | 15 => self.expect(store, &session, choice == 14, crashed).await,
            16..=21 => {
                let fails = self.mood == Mood::Restless && self.below(4) == 0;
                self.side_by_side(store, sessions, fails).await;
            }
            _ => {
                let (key, number, batch) = self.ledger.send(&session, &self.sizes());
                let answer = store.append(&key, batch).await;
                self.ledger.answered(&key, number, answer, crashed());
            }
        }
    }

    /// Returns a request for a new session, sometimes for a fork.
    async fn new_session_request(
        &mut self,
        store: &LocalStore,
        sessions: &[String],
    ) -> (String, NewSession) {
        if self.forks
            && let Some(parent) = sessions.get(self.nth() % (sessions.len() + 1))
            && let Ok(slice) = store.read(&key(parent), crate::engines::everything()).await
        {
            let mut shared = slice.events;
            shared.truncate(self.nth() % (shared.len() + 1));
            return self.ledger.fork(parent, shared);
        }
        self.ledger.fresh(&self.sizes())
    }

    /// Appends with an expected position, which is the tail if `right`.
    async fn expect(
        &mut self,
        store: &LocalStore,
        session: &str,
        right: bool,
        crashed: impl Fn() -> bool,
    ) {
        let Ok(info) = store.info(&key(session)).await else { return };
        let (key, number, mut batch) = self.ledger.send(session, &self.sizes());
        batch.if_position = Some(Position(info.tail.0 + u64::from(!right)));
        let answer = store.append(&key, batch).await;
        match (&answer, right) {
            (Err(StoreError::PositionConflict { tail, .. }), false) => {
                assert_eq!(*tail, info.tail, "{session}: a conflict names the tail");
                self.ledger.refused(&key, number, answer);
            }
            (Err(_), false) => self.ledger.refused(&key, number, answer),
            _ => self.ledger.answered(&key, number, answer, crashed()),
        }
    }

    /// Appends while further requests arrive within the sync, so that they share the next write and
    /// sync; with `fails` the power fails there.
    async fn side_by_side(&mut self, store: &Arc<LocalStore>, sessions: &[String], fails: bool) {
        let life = self.sim.lives();
        let any = |run: &Self| sessions[run.nth() % sessions.len()].clone();
        let (first, first_number, batch) = self.ledger.send(&any(self), &self.sizes());
        let mut requests: Vec<Arrival> = Vec::new();
        for _ in 0..1 + self.below(4) {
            let (key, number, batch) = self.ledger.send(&any(self), &self.sizes());
            requests.push(append(store, key, number, batch));
        }
        if self.below(4) == 0 {
            let (name, new) = self.new_session_request(store, sessions).await;
            requests.push(create(store, name, new));
        }
        let answer = self.append_concurrently(store, (&first, batch), requests, fails).await;
        let crashed = self.sim.lives() != life;
        self.ledger.answered(&first, first_number, answer, crashed);
        self.record_answers(crashed).await;
    }

    async fn append_concurrently(
        &self,
        store: &Arc<LocalStore>,
        (key, batch): (&SessionKey, Batch),
        requests: Vec<Arrival>,
        fails: bool,
    ) -> StoreResult<AppendResult> {
        let sim = self.sim.clone();
        let then = move || sim.fail_next(Op::Sync, Fault::PowerLoss, false);
        self.witness.arrive(requests, fails.then(|| Box::new(then) as Box<_>));
        store.append(key, batch).await
    }

    async fn record_answers(&mut self, crashed: bool) {
        for answer in self.witness.answers().await {
            match answer {
                Answer::Appended(key, number, answer) => {
                    self.ledger.answered(&key, number, answer, crashed);
                }
                Answer::Created(name, answer) => self.ledger.created(&name, answer, crashed),
                Answer::Used(_) | Answer::Redacted(..) | Answer::Idle => {}
            }
        }
    }

    /// Reads the session and records its events, which every later reader must see.
    async fn read_and_record(&mut self, store: &LocalStore, session: &str) {
        if let Ok(slice) = store.read(&key(session), crate::engines::everything()).await {
            self.ledger.judge(session, &slice.events, false);
        }
    }

    /// Kills the process or cuts the power now.
    pub fn die(&mut self) {
        if self.below(2) == 0 {
            self.sim.kill();
        } else {
            self.sim.power_loss();
        }
    }

    /// Restarts on a healthy disk and checks that all recorded events exist and the store is ready.
    pub async fn judge(&mut self) -> Arc<LocalStore> {
        self.sim.heal();
        let store = self.try_open().unwrap_or_else(|error| panic!("the start refuses: {error}"));
        assert_eq!(store.recovery().damage, Vec::<String>::new());
        self.ledger.judge_with(&*store, &self.witness.seen()).await;
        assert_eq!(store.health(), Health::Ready);
        let verified = store.verify(&key("s0").scope, None).await.unwrap();
        assert_eq!(verified.damage, []);
        store
    }

    /// Returns the counts of the run.
    pub fn finish(mut self) -> Tally {
        let within: u64 = self.tally.within.values().sum();
        self.tally.power_losses = self.sim.power_losses();
        self.tally.kills = self.sim.lives() - self.sim.power_losses();
        self.tally.failures = self.sim.strikes() - within;
        self.tally.acknowledged = self.ledger.acknowledged;
        self.tally.repeated = self.ledger.repeated;
        self.tally.forks += self.ledger.forks;
        self.tally
    }

    /// Plans a fault at one of the next `calls` calls.
    pub fn plan(&mut self, calls: u64) {
        let at = self.sim.calls() + self.below(calls);
        match self.below(8) {
            0 => {}
            1 | 2 => self.sim.fail_call(at, Fault::Kill, false),
            3 | 4 => self.sim.fail_call(at, Fault::PowerLoss, false),
            5 => self.sim.fail_call(at, Fault::Io, self.below(4) == 0),
            6 => {
                let fault = if self.below(2) == 0 { Fault::Full } else { Fault::Short };
                self.sim.fail_call(at, fault, self.below(4) == 0);
            }
            _ => {
                let ops = [Op::Sync, Op::Sync, Op::SyncDir, Op::Create];
                self.sim.fail_next(ops[self.nth() % 4], Fault::Io, false);
            }
        }
    }
}

fn append(store: &Arc<LocalStore>, key: SessionKey, number: usize, batch: Batch) -> Arrival {
    let store = Arc::clone(store);
    async move {
        let answer = store.append(&key, batch).await;
        Answer::Appended(key, number, answer)
    }
    .boxed()
}

fn create(store: &Arc<LocalStore>, name: String, new: NewSession) -> Arrival {
    let store = Arc::clone(store);
    async move {
        let answer = store.create(&key(&name).scope, new).await;
        Answer::Created(name, answer)
    }
    .boxed()
}

/// Options with somewhat larger files than [`TINY`].
pub const ROOMY: StoreOptions = StoreOptions { segment_bytes_max: 16 << 10, ..TINY };

/// Options with files so small that rotation, flushing and sealing are frequent.
pub const TINY: StoreOptions = StoreOptions {
    journal_file_bytes: 32 << 10,
    // An append never waits for flushing: one that arrives within a sync could not wait.
    journal_retained_bytes: 1 << 20,
    segment_bytes_max: 4 << 10,
    settle_after: std::time::Duration::from_secs(5),
    scrub_every: std::time::Duration::ZERO,
    warm_bytes_max: 16 << 10,
    compression: true,
    lifetimes: sessionlog::store::Lifetimes::DEFAULT,
    background: false,
};

/// Runs lives of one store, each ended by a kill or a power loss, many during a start or several in
/// a row; judges every start.
pub async fn life(seed: u64, flaw: Option<Flaw>) -> Tally {
    let mut run = Run::flawed(seed, flaw, TINY);
    run.mood = [Mood::Even, Mood::Heavy, Mood::Restless][usize::try_from(seed % 3).unwrap()];
    let (lives, requests_max) = if run.mood == Mood::Restless { (12, 12) } else { (4, 40) };
    for _ in 0..lives + run.below(4) {
        // A start may die too, several times in a row.
        for _ in 0..run.below(3) {
            run.plan(60);
            drop(run.open());
            run.die();
        }
        run.plan(250);
        if let Some(store) = run.open() {
            let requests = run.below(requests_max);
            run.work(&store, requests).await;
            if run.below(3) == 0 {
                run.sim.heal();
                let requests = run.below(10);
                run.work(&store, requests).await;
            }
            if run.below(4) == 0 {
                store.close().await;
            }
        }
        run.die();
        drop(run.judge().await);
        run.die();
    }
    drop(run.judge().await);
    run.finish()
}

/// Runs lives in which a flush fails or dies at any of its calls and the journal wraps around.
pub async fn interrupted(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, TINY);
    run.mood = Mood::Heavy;
    for _ in 0..5 {
        let store = run.judge().await;
        let requests = 10 + run.below(20);
        run.work(&store, requests).await;
        for _ in 0..2 {
            let faults = [Fault::Io, Fault::Io, Fault::Kill, Fault::PowerLoss];
            let at = run.sim.calls() + run.below(40);
            run.sim.fail_call(at, faults[run.nth() % 4], false);
            drop(store.flush());
            run.sim.heal();
            let requests = run.below(20);
            run.work(&store, requests).await;
        }
        run.die();
    }
    run.judge().await;
}

/// Runs short lives in which frames of one size share a write and the power fails within its sync:
/// a later start must not find intact frames after a torn one, even if a later write ends right
/// before them.
pub async fn torn(seed: u64, flaw: Option<Flaw>) {
    let mut run = Run::flawed(seed, flaw, TINY);
    run.ledger.plain = true;
    let store = run.judge().await;
    run.ledger.create(&*store, &ALIKE, || false).await;
    let name = run.ledger.sessions().remove(0);
    drop(store);
    for _ in 0..10 {
        run.die();
        let store = run.judge().await;
        let singles = run.below(2);
        run.singles(&store, &name, singles).await;
        let (first, first_number, batch) = run.ledger.send(&name, &ALIKE);
        let (key, number, second) = run.ledger.send(&name, &ALIKE);
        let (fresh, new) = run.ledger.fresh(&ALIKE);
        let requests = vec![append(&store, key, number, second), create(&store, fresh, new)];
        let answer = run.append_concurrently(&store, (&first, batch), requests, true).await;
        run.ledger.answered(&first, first_number, answer, true);
        run.record_answers(true).await;
        drop(store);
        for _ in 0..run.below(4) {
            let store = run.judge().await;
            // Two flushes free the ring, so that its files are reused.
            let flushes = 2 * run.below(2);
            (0..flushes).for_each(|_| store.flush().unwrap());
            let singles = if flushes == 0 { 1 } else { run.below(5) };
            run.singles(&store, &name, singles).await;
            run.die();
        }
    }
    run.judge().await;
}

/// Sizes of a batch of one event of fixed size.
const ALIKE: [usize; 1] = [600];

impl Run {
    async fn singles(&mut self, store: &Arc<LocalStore>, session: &str, times: u64) {
        for _ in 0..times {
            let (key, number, batch) = self.ledger.send(session, &ALIKE);
            let answer = store.append(&key, batch).await;
            self.ledger.answered(&key, number, answer, false);
        }
    }
}

//! A disk between an engine and its disk: it reads sessions during the engine's journal calls, as a
//! concurrent reader; it lets requests arrive while a sync is in flight, so that they share the
//! next one, or before any write or sync of a file; and it can inject defects into the engine's
//! disk calls. It must not judge the state after a crash; the ledger does.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture, task::noop_waker_ref};
use sessionlog::{
    env::{DirEntry, File, Lock, Storage},
    event::{Event, Position, SessionKey},
    store::{AppendResult, SessionInfo, Store, StoreResult, local::LocalStore},
};
use sessionlog_sim::SeededEntropy;

use crate::engines::{everything, key};

/// A defect in how an engine uses its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No sync reaches the disk.
    NoSync,
    /// A sync happens after the answer that depends on it.
    AcknowledgeBeforeSync,
    /// A failed sync is repeated, and its second result accepted.
    RetrySync,
    /// No directory is synced.
    NoDirectorySync,
    /// A start trusts the contents of the page cache.
    TrustPageCache,
    /// A start does not sync files of its predecessor.
    NoSyncAtStart,
}

#[allow(clippy::large_enum_variant, reason = "a few of them live for a moment")]
/// Answer to a request that arrived while another was in flight.
pub enum Answer {
    Appended(SessionKey, usize, StoreResult<AppendResult>),
    Created(String, StoreResult<(SessionInfo, AppendResult)>),
    Used(StoreResult<SessionInfo>),
    Redacted(usize, StoreResult<Option<Position>>),
    /// Activity of a thread of the engine.
    Idle,
}

/// A request as a future, from its first poll to its answer.
pub type Arrival = BoxFuture<'static, Answer>;

/// Requests that arrive within the next sync of the journal.
#[derive(Default)]
struct Arrivals {
    waiting: Vec<Arrival>,
    /// Action to run once they have arrived.
    then: Option<Box<dyn FnOnce() + Send>>,
    arrived: Vec<Result<Answer, Arrival>>,
    /// Requests that arrive one by one, each before a write or a sync.
    beside: VecDeque<Arrival>,
}

/// Events that readers saw, and the store they read.
pub struct Witness {
    flaw: Option<Flaw>,
    dice: SeededEntropy,
    store: Mutex<Weak<LocalStore>>,
    sessions: Mutex<Vec<String>>,
    seen: Mutex<BTreeMap<String, Vec<Event>>>,
    arrivals: Mutex<Arrivals>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Arc<Self> {
        Arc::new(Self {
            flaw,
            dice: SeededEntropy::new(seed ^ 0x5eed),
            store: Mutex::default(),
            sessions: Mutex::default(),
            seen: Mutex::default(),
            arrivals: Mutex::default(),
        })
    }

    /// Wraps the disk for the engine.
    pub fn before(self: &Arc<Self>, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(Watched { inner: storage, witness: Arc::clone(self) })
    }

    /// Starts to read sessions of this store.
    pub fn watch(&self, store: &Arc<LocalStore>) {
        *held(&self.store) = Arc::downgrade(store);
    }

    pub fn sessions(&self, names: &[String]) {
        *held(&self.sessions) = names.to_vec();
    }

    /// Returns the longest list of events seen of each session.
    pub fn seen(&self) -> BTreeMap<String, Vec<Event>> {
        held(&self.seen).clone()
    }

    /// Forgets what was seen under an id, because another session has it now.
    pub fn forget(&self, name: &str) {
        held(&self.seen).remove(name);
    }

    /// Lets these requests arrive within the next sync of the journal, then runs `then`.
    pub fn arrive(&self, requests: Vec<Arrival>, then: Option<Box<dyn FnOnce() + Send>>) {
        *held(&self.arrivals) = Arrivals { waiting: requests, then, ..Arrivals::default() };
    }

    /// Lets these requests arrive one by one, each before some write or sync.
    pub fn arrive_beside(&self, requests: impl IntoIterator<Item = Arrival>) {
        held(&self.arrivals).beside.extend(requests);
    }

    /// Returns the answers; requests for which no sync came are made now.
    pub async fn answers(&self) -> Vec<Answer> {
        let Arrivals { waiting, arrived, beside, .. } = std::mem::take(&mut *held(&self.arrivals));
        let mut answers = Vec::new();
        let late = waiting.into_iter().chain(beside).map(Err);
        for one in arrived.into_iter().chain(late) {
            answers.push(match one {
                Ok(answer) => answer,
                Err(request) => request.await,
            });
        }
        answers
    }

    fn let_arrive(&self) {
        let (waiting, then) = {
            let mut arrivals = held(&self.arrivals);
            (std::mem::take(&mut arrivals.waiting), arrivals.then.take())
        };
        let arrived: Vec<_> = waiting.into_iter().map(begin).collect();
        held(&self.arrivals).arrived.extend(arrived);
        if let Some(then) = then {
            then();
        }
    }

    /// Sometimes lets a request arrive before a write or a sync.
    fn beside(&self) {
        if held(&self.arrivals).beside.is_empty() || !self.dice.next().is_multiple_of(4) {
            return;
        }
        let next = held(&self.arrivals).beside.pop_front();
        let arrived = next.map(begin);
        held(&self.arrivals).arrived.extend(arrived);
    }

    /// Sometimes reads one session within a call of the engine.
    fn look(&self) {
        let dice = self.dice.next();
        let Some(store) = held(&self.store).upgrade().filter(|_| dice.is_multiple_of(3)) else {
            return;
        };
        let name = {
            let names = held(&self.sessions);
            let Some(at) = (dice / 3).checked_rem(names.len() as u64) else { return };
            names[usize::try_from(at).unwrap()].clone()
        };
        let slice = store.read(&key(&name), everything()).now_or_never();
        let Some(Ok(slice)) = slice else { return };
        let mut seen = held(&self.seen);
        let before = seen.entry(name.clone()).or_default();
        assert!(slice.events.starts_with(before), "{name}: what was seen is seen no more");
        *before = slice.events;
    }
}

/// Polls a request once: returns its answer, or the pending request.
fn begin(mut request: Arrival) -> Result<Answer, Arrival> {
    match request.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Err(request),
    }
}

struct Watched {
    inner: Arc<dyn Storage>,
    witness: Arc<Witness>,
}

impl Watched {
    fn file(&self, path: &str, inner: Box<dyn File>) -> Box<dyn File> {
        let witness = Arc::clone(&self.witness);
        let journal = path.starts_with("journal/");
        // A thread that creates a key holds a lock that an append needs.
        let crowded = !path.starts_with("keys/");
        let (written, owed) = (AtomicBool::new(false), AtomicBool::new(false));
        Box::new(WatchedFile { inner, witness, journal, crowded, written, owed })
    }
}

impl Storage for Watched {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.inner.create(path).map(|file| self.file(path, file))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.inner.open(path).map(|file| self.file(path, file))
    }

    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.inner.open_read(path).map(|file| self.file(path, file))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>> {
        self.inner.list(directory)
    }

    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.inner.create_dir(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        match self.witness.flaw {
            Some(Flaw::NoDirectorySync) => Ok(()),
            _ => self.inner.sync_dir(directory),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        match self.witness.flaw {
            Some(Flaw::NoSync) => Ok(()),
            Some(Flaw::RetrySync) => self.inner.sync_all().or_else(|_| self.inner.sync_all()),
            _ => self.inner.sync_all(),
        }
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock()
    }
}

struct WatchedFile {
    inner: Box<dyn File>,
    witness: Arc<Witness>,
    journal: bool,
    /// True if requests may arrive before its calls.
    crowded: bool,
    written: AtomicBool,
    /// True if a sync was acknowledged and not executed.
    owed: AtomicBool,
}

impl WatchedFile {
    fn around<T>(&self, sync: bool, call: impl FnOnce() -> T) -> T {
        if self.owed.swap(false, Ordering::SeqCst) {
            drop(self.inner.sync());
        }
        if self.crowded {
            self.witness.beside();
        }
        if !self.journal {
            return call();
        }
        self.witness.look();
        let answer = call();
        self.witness.look();
        if sync && !held(&self.witness.arrivals).waiting.is_empty() {
            self.witness.let_arrive();
        }
        answer
    }
}

impl File for WatchedFile {
    fn write_at(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.store(true, Ordering::SeqCst);
        self.around(false, || self.inner.write_at(byte_offset, bytes))
    }

    fn read_at(&self, byte_offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(byte_offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::SeqCst);
        self.around(true, || match self.witness.flaw {
            Some(Flaw::NoSync) => Ok(()),
            Some(Flaw::AcknowledgeBeforeSync) => {
                self.owed.store(true, Ordering::SeqCst);
                Ok(())
            }
            Some(Flaw::RetrySync) => self.inner.sync().or_else(|_| self.inner.sync()),
            Some(Flaw::NoSyncAtStart) if !written => Ok(()),
            _ => self.inner.sync(),
        })
    }

    fn write_durably(&self, byte_offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.store(true, Ordering::SeqCst);
        let inner = &self.inner;
        self.around(true, || match self.witness.flaw {
            Some(Flaw::NoSync) => inner.write_at(byte_offset, bytes),
            Some(Flaw::AcknowledgeBeforeSync) => {
                self.owed.store(true, Ordering::SeqCst);
                inner.write_at(byte_offset, bytes)
            }
            Some(Flaw::RetrySync) => {
                inner.write_durably(byte_offset, bytes).or_else(|_| inner.sync())
            }
            _ => inner.write_durably(byte_offset, bytes),
        })
    }

    fn start_writeback(&self, byte_offset: u64, bytes: u64) {
        self.inner.start_writeback(byte_offset, bytes);
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn evict(&self) -> io::Result<()> {
        match self.witness.flaw {
            Some(Flaw::TrustPageCache) => Ok(()),
            _ => self.inner.evict(),
        }
    }
}

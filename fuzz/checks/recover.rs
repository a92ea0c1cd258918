//! Changes the files of a store that was stopped, then opens it: it may refuse to open, and it may
//! name what it lost; it must not serve an event that was not written, nor call a shortened session
//! whole. A journal whose last frames lose every byte about them has no witness; single changed
//! bytes never cause that.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::{
        Batch, Event, EventId, EventType, NewEvent, Origin, Position, Range, Scope, SessionId,
        SessionKey,
    },
    store::{
        FillDirection, Health, NewSession, ReadRequest, Store, StoreError,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::Sim;
use tokio::runtime::Runtime;

/// A store as a stopped owner left it.
pub struct Image {
    /// Path and bytes of every file.
    pub files: Vec<(String, Vec<u8>)>,
    sessions: Vec<(SessionKey, Vec<Event>)>,
    /// Whether it was made with a key, and is opened with it.
    pub encrypted: bool,
}

/// Files small enough that forty events rotate, flush and seal.
const OPTIONS: StoreOptions = StoreOptions {
    journal_file_bytes: 32 << 10,
    journal_retained_bytes: 1 << 20,
    segment_bytes_max: 8 << 10,
    settle_after: std::time::Duration::from_secs(5),
    scrub_every: std::time::Duration::ZERO,
    warm_bytes_max: 16 << 10,
    compression: true,
    lifetimes: sessionlog::store::Lifetimes::DEFAULT,
    background: false,
};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads")
    })
}

/// The image of a clean stop.
pub fn stopped() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| runtime().block_on(make(true, false)))
}

/// The image of a power loss after an idle moment.
pub fn killed() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| runtime().block_on(make(false, false)))
}

/// The same two of an encrypted store.
pub fn encrypted() -> [&'static Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    let both = || [true, false].map(|clean| runtime().block_on(make(clean, true)));
    IMAGES.get_or_init(both).each_ref()
}

fn machine(seed: u64, encrypted: bool) -> Sim {
    let sim = Sim::new(seed);
    let key = std::array::from_fn(|n| n as u8 ^ 0x5a);
    let keys = MasterKeys { current: Secret::new(key), previous: None };
    sim.set_keys(encrypted.then_some(keys));
    sim
}

async fn make(clean: bool, encrypted: bool) -> Image {
    let sim = machine(11, encrypted);
    let store = LocalStore::open_local(&sim.env(), OPTIONS).expect("an empty disk");
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        let id = SessionId::new(name).expect("plain");
        let new = NewSession { id: Some(id.clone()), ..NewSession::default() };
        store.create(&Scope::local(), new).await.expect("created");
        sessions.push(SessionKey { scope: Scope::local(), session: id });
    }
    for round in 0..56_usize {
        for key in &sessions {
            let id = format!("{}{round}", key.session);
            let body = format!("{id} {}", "y".repeat((round * 97) % 1900));
            let event = NewEvent {
                id: Some(EventId::new(&id).expect("printable")),
                kind: EventType::new("user.message").expect("plain"),
                origin: Origin::User,
                created_at: None,
                position: None,
                body: Bytes::from(body),
            };
            let batch = Batch { events: [event].into(), ..Batch::default() };
            store.append(key, batch).await.expect("appended");
        }
        // Enough follows the last of them that the journal goes round.
        if round == 12 || round == 24 {
            store.flush().expect("flushed");
        }
    }
    let mut kept = Vec::new();
    for key in sessions {
        let slice = store.read(&key, everything(false)).await.expect("read");
        kept.push((key, slice.events));
    }
    if clean {
        store.close().await;
    } else {
        // The watermark that a moment without appends brings.
        store.write_idle_watermark();
    }
    sim.power_loss();
    let read = |path: String| sim.read_durable(&path).map(|bytes| (path, bytes));
    let files = sim.files().into_iter().filter_map(read).collect();
    Image { files, sessions: kept, encrypted }
}

fn everything(allow_gaps: bool) -> ReadRequest {
    ReadRequest {
        range: Range::new(Position::ZERO, Position(u64::MAX)),
        events_max: usize::MAX,
        bytes_max: usize::MAX,
        fill: FillDirection::Forward,
        allow_gaps,
    }
}

/// What became of a changed store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It did not open, and said why.
    Refused,
    /// It opened and said what is not whole.
    Told,
    /// It opened, and everything is there.
    Whole,
    /// It opened, and something is missing without a word.
    Shorter,
}

/// Opens the image with a change and judges what it serves.
pub fn survive(image: &Image, change: impl FnOnce(&Sim)) -> Fate {
    let sim = machine(1, image.encrypted);
    for (path, bytes) in &image.files {
        sim.write_durable(path, 0, bytes);
    }
    change(&sim);
    runtime().block_on(async {
        match LocalStore::open(&sim.env(), OPTIONS) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                Fate::Refused
            }
            Ok(store) => judge(image, store).await,
        }
    })
}

async fn judge(image: &Image, store: Arc<dyn Store>) -> Fate {
    let store_told = store.health() != Health::Ready || !store.recovery().damage.is_empty();
    let (mut told, mut shorter) = (store_told, false);
    for (key, original) in &image.sessions {
        let slice = match store.read(key, everything(true)).await {
            Ok(slice) => slice,
            Err(StoreError::SessionNotFound { .. }) => {
                shorter |= !store_told;
                continue;
            }
            Err(_) => {
                told = true;
                continue;
            }
        };
        for event in &slice.events {
            let place = usize::try_from(event.position.0).expect("small");
            assert_eq!(
                Some(event),
                original.get(place),
                "{} serves what nobody wrote",
                key.session
            );
        }
        told |= !slice.gaps.is_empty();
        shorter |= slice.events.len() < original.len() && slice.gaps.is_empty() && !store_told;
        let strict = store.read(key, everything(false)).await;
        assert!(strict.is_err() || slice.gaps.is_empty(), "gaps are served to who allows them");
        drop(store.info(key).await);
    }
    let verified = store.verify(&Scope::local(), None).await;
    told |= verified.is_err() || verified.is_ok_and(|verified| !verified.damage.is_empty());
    store.close().await;
    match (shorter, told) {
        (true, _) => Fate::Shorter,
        (false, true) => Fate::Told,
        (false, false) => Fate::Whole,
    }
}

/// The first byte chooses the image. Five bytes are one change: which file, where, and what is done
/// to the byte there.
pub fn check(bytes: &[u8]) {
    let Some((choice, changes)) = bytes.split_first() else { return };
    let [clean, dead] = if choice & 2 == 0 { [stopped(), killed()] } else { encrypted() };
    let image = if choice % 2 == 0 { clean } else { dead };
    let fate = survive(image, |sim| {
        for change in changes.as_chunks::<5>().0.iter().take(8) {
            let [file, place @ .., bits] = *change;
            let (path, bytes) = &image.files[usize::from(file) % image.files.len()];
            let place = u64::from(u32::from_le_bytes([place[0], place[1], place[2], 0]));
            let place = place % (bytes.len().max(1) as u64);
            for bit in (0..8).filter(|bit| bits & (1 << bit) != 0) {
                sim.flip(path, place, bit);
            }
        }
    });
    assert_ne!(fate, Fate::Shorter, "a session is shorter and calls itself whole");
}

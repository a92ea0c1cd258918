//! Sectors that the device cannot read: each one of the journal, of segments, of `settled/` and of
//! `keys/` in turn, live and at a start. Their content is reported lost or recovered, the rest is
//! served and writable, no file is deleted, and once the sector reads again nothing is lost.

mod erased;
mod keys;
mod segments;
mod settled;

use std::collections::BTreeMap;

use sessionlog::{
    event::Event,
    store::{Health, Maintain, ReadRequest, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::engines::{append, batch, create, event, events_of, everything, key, named, small};

const SESSIONS: [&str; 3] = ["sealed", "open", "journal"];
/// A device loses a sector, a file system the page around it.
const PAGE_SECTORS: usize = 8;
const SECTOR_BYTES: usize = 512;

/// State in which the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// In the middle of work: nothing confirms the last frame.
    Busy,
    /// After an idle period.
    Idle,
    /// Closed.
    Clean,
}

/// A machine and the events acknowledged on it, copied for each sector.
struct Lived {
    sim: Sim,
    store: LocalStore,
    events: BTreeMap<&'static str, Vec<Event>>,
}

fn machine(encrypted: bool) -> Sim {
    if encrypted { Sim::encrypted(51) } else { Sim::new(51) }
}

/// Creates sealed and open segments, both settled files, and frames in the journal that no segment
/// has, some of them larger than a page.
async fn lived(encrypted: bool) -> Lived {
    let sim = machine(encrypted);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in SESSIONS {
        create(&store, session).await;
    }
    for n in 0..60_u32 {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40));
        append(&store, &key("sealed"), batch([named(&format!("e{n}"), &body)])).await.unwrap();
        if n % 10 == 0 {
            append(&store, &key("open"), batch([event(&body), event("{}")])).await.unwrap();
        }
        if n % 15 == 14 {
            store.flush().unwrap();
        }
    }
    store.flush().unwrap();
    store.flush().unwrap();
    for n in 0..8_u32 {
        let long = "late ".repeat(if n == 3 { 2_000 } else { 30 });
        for session in ["journal", "open"] {
            let body = format!("{{\"late\":{n},\"text\":\"{long}\"}}");
            append(&store, &key(session), batch([event(&body), event("{}")])).await.unwrap();
        }
    }
    let mut events = BTreeMap::new();
    for session in SESSIONS {
        events.insert(session, events_of(&store, &key(session)).await);
    }
    Lived { sim, store, events }
}

/// Contents of a device, and the acknowledged events.
struct Image {
    files: Vec<(String, Vec<u8>)>,
    events: BTreeMap<&'static str, Vec<Event>>,
    encrypted: bool,
}

/// Effects of one unreadable sector on a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Number of sessions that are not whole.
    hurt: usize,
    /// True if the store takes no writes.
    frozen: bool,
    /// True if the damage was reported.
    told: bool,
}

impl Image {
    async fn of(encrypted: bool, left: Left) -> Self {
        Self::left(lived(encrypted).await, encrypted, left).await
    }

    async fn left(lived: Lived, encrypted: bool, left: Left) -> Self {
        let Lived { sim, store, events } = lived;
        match left {
            Left::Busy => {}
            Left::Idle => store.write_idle_watermark(),
            Left::Clean => Store::close(&store).await,
        }
        sim.power_loss();
        drop(store);
        let files = sim.files().into_iter().filter(|path| path != "LOCK");
        let files = files.map(|path| (path.clone(), sim.read_durable(&path).unwrap())).collect();
        Self { files, events, encrypted }
    }

    fn machine(&self) -> Sim {
        let sim = machine(self.encrypted);
        for (path, bytes) in &self.files {
            sim.write_durable(path, 0, bytes);
        }
        sim
    }

    /// Returns one sector of every page of the files under a directory.
    fn pages(&self, under: &str) -> Vec<(String, u64)> {
        let files = self.files.iter().filter(|(path, _)| path.starts_with(under));
        let pages = files.flat_map(|(path, bytes)| {
            let sectors = bytes.len().div_ceil(SECTOR_BYTES);
            let of_page = move |page: usize| (page + page / PAGE_SECTORS).min(sectors - 1) as u64;
            (0..sectors).step_by(PAGE_SECTORS).map(move |page| (path.clone(), of_page(page)))
        });
        pages.collect()
    }

    /// Opens the machine; checks that every event is named as lost or served as acknowledged, and
    /// that no file is missing.
    async fn start(&self, sim: &Sim, told: &str) -> (LocalStore, Seen) {
        let store = LocalStore::open_local(&sim.env(), small())
            .unwrap_or_else(|error| panic!("{told}: {error}"));
        let recovery = store.recovery();
        let frozen = store.health() != Health::Ready;
        let mut seen = Seen { hurt: 0, frozen, told: frozen || !recovery.damage.is_empty() };
        for (session, expected) in &self.events {
            let Ok(info) = store.info(&key(session)).await else {
                assert!(frozen, "{told}: {session} is gone without a word");
                seen.hurt += 1;
                continue;
            };
            let read = ReadRequest { allow_gaps: true, ..everything() };
            let slice = store.read(&key(session), read).await.unwrap_or_else(|error| {
                panic!("{told}: {session} answers nothing at all: {error}");
            });
            for event in &slice.events {
                assert_eq!(Some(event), expected.get(event.position.0 as usize), "{told}");
            }
            let missing = slice.covered.len() - slice.events.len() as u64;
            let said: u64 = slice.gaps.iter().map(|gap| gap.range.len()).sum();
            assert_eq!(missing, said, "{told}: {session} lacks {missing}, {said} are named");
            let short = info.tail.0 < expected.len() as u64;
            assert!(!short || frozen, "{told}: {session} ends at {} in silence", info.tail.0);
            let whole = store.read(&key(session), everything()).await;
            match &whole {
                Ok(slice) => assert_eq!(slice.events.len() as u64, info.tail.0, "{told}"),
                Err(StoreError::SessionDamaged { .. } | StoreError::Io { .. }) => {}
                Err(other) => panic!("{told}: {other}"),
            }
            assert_eq!(whole.is_err(), said > 0, "{told}: {session}");
            seen.told |= said > 0;
            seen.hurt += usize::from(short || said > 0);
        }
        for (path, _) in &self.files {
            assert!(sim.files().contains(path), "{told}: {path} was deleted");
        }
        (store, seen)
    }

    /// Calls [`Self::start`] on a restored machine: no event is missing, and appends succeed.
    async fn is_whole(&self, sim: &Sim, told: &str) {
        let (store, seen) = self.start(sim, told).await;
        assert_eq!(seen, Seen::default(), "{told}");
        for session in SESSIONS {
            append(&store, &key(session), batch([event("{}")])).await.unwrap();
        }
    }

    /// Starts with each page of some files unreadable; returns how many starts changed nothing,
    /// affected one named session, or left a store read-only.
    async fn starts(&self, under: &str) -> [u32; 3] {
        let mut counts = [0; 3];
        for (path, sector) in self.pages(under) {
            let told = format!("{path} sector {sector}");
            let sim = self.machine();
            sim.spoil_sector(&path, sector);
            let (store, seen) = self.start(&sim, &told).await;
            assert!(seen.frozen || seen.hurt <= 1, "{told}: {seen:?}");
            assert_eq!(seen.hurt > 0 || seen.frozen, seen.told, "{told}: {seen:?}");
            counts[if seen.frozen { 2 } else { seen.hurt }] += 1;
            if seen.frozen {
                // It changes no byte until an operator repairs it.
                let _ = store.flush();
                for (path, bytes) in
                    self.files.iter().filter(|(path, _)| !path.starts_with("reserve"))
                {
                    assert_eq!(sim.read_durable(path).unwrap(), *bytes, "{told}: {path}");
                }
            }
            // Before the first flush the sector may read again.
            sim.kill();
            drop(store);
            sim.restore_sector(&path, sector);
            self.is_whole(&sim, &format!("{told}, restored")).await;
            // Otherwise the loss stays named, and other sessions take appends.
            let sim = self.machine();
            sim.spoil_sector(&path, sector);
            let (store, _) = self.start(&sim, &told).await;
            let _ = store.flush();
            let mut refused = 0;
            for session in SESSIONS {
                let sent = append(&store, &key(session), batch([event("{}")])).await;
                refused += usize::from(sent.is_err());
            }
            assert_eq!(refused, if seen.frozen { SESSIONS.len() } else { seen.hurt }, "{told}");
            drop(store);
        }
        counts
    }
}

#[tokio::test]
async fn a_start_succeeds_with_any_one_journal_sector_unreadable() {
    // No event was acknowledged after the position of a clean stop. Elsewhere only an operator can
    // decide what a header, or the last frame's successor, would have been.
    for (left, expected) in
        [(Left::Busy, [8, 3, 5]), (Left::Idle, [8, 3, 5]), (Left::Clean, [16, 0, 0])]
    {
        let image = Image::of(false, left).await;
        image.is_whole(&image.machine(), "no sector").await;
        assert_eq!(image.starts("journal/").await, expected, "{left:?}");
    }
}

#[tokio::test]
async fn an_unreadable_journal_sector_is_rewritten_while_memory_has_its_content() {
    let pages = Image::of(false, Left::Idle).await.pages("journal/");
    let mut found = 0;
    for (path, sector) in pages {
        let told = format!("{path} sector {sector}");
        let Lived { sim, store, events } = lived(false).await;
        store.write_idle_watermark();
        sim.spoil_sector(&path, sector);
        store.scrub();
        let scrub = store.recovery().scrub;
        found += scrub.found.len();
        for what in &scrub.found {
            assert!(what.contains(&path) && what.contains("nothing is lost"), "{told}: {what}");
        }
        assert_eq!(store.health(), Health::Ready, "{told}");
        if !scrub.found.is_empty() {
            append(&store, &key("open"), batch([event("{}")])).await.unwrap();
        }
        sim.power_loss();
        drop(store);
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        assert_eq!((store.health(), store.recovery().damage), (Health::Ready, vec![]), "{told}");
        for (session, expected) in &events {
            assert_eq!(events_of(&store, &key(session)).await[..expected.len()], expected[..]);
        }
    }
    assert!(found > 4, "{found} were found");
}

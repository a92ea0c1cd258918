//! Sectors that the device cannot read: each one of the journal, of segments, of `settled/` and of
//! `keys/` in turn, live and at a start. What was stored there is named or recovered, the rest is
//! served and writable, nothing is deleted, and once the sector reads again nothing was harmed.

mod erased;
mod keys;
mod segments;
mod settled;

use std::collections::BTreeMap;

use sessionlog::{
    event::Event,
    store::{Health, Maintain, Read, Store, StoreError, local::Local},
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
    /// In the middle of work: nothing vouches for the last frame.
    Busy,
    /// After a while without work.
    Idle,
    /// Closed.
    Clean,
}

/// A machine of its own for each sector, and what was acknowledged on it.
struct Lived {
    sim: Sim,
    store: Local,
    events: BTreeMap<&'static str, Vec<Event>>,
}

fn machine(encrypted: bool) -> Sim {
    if encrypted { Sim::encrypted(51) } else { Sim::new(51) }
}

/// Sealed and open segments, both settled files, frames in the journal that no segment has; some
/// of those larger than a page.
async fn lived(encrypted: bool) -> Lived {
    let sim = machine(encrypted);
    let store = Local::open_local(&sim.env(), small()).unwrap();
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

/// Effects of one unreadable place on a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Sessions that are not whole.
    hurt: usize,
    /// The store takes no writes.
    frozen: bool,
    /// True if it was reported.
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
            Left::Idle => store.idle(),
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

    /// A sector of every page of the files under a directory.
    fn pages(&self, under: &str) -> Vec<(String, u64)> {
        let files = self.files.iter().filter(|(path, _)| path.starts_with(under));
        let pages = files.flat_map(|(path, bytes)| {
            let sectors = bytes.len().div_ceil(SECTOR_BYTES);
            let of_page = move |page: usize| (page + page / PAGE_SECTORS).min(sectors - 1) as u64;
            (0..sectors).step_by(PAGE_SECTORS).map(move |page| (path.clone(), of_page(page)))
        });
        pages.collect()
    }

    /// Opens the machine; whatever is not served is named, whatever is served is what was
    /// acknowledged, and no file is gone.
    async fn start(&self, sim: &Sim, told: &str) -> (Local, Seen) {
        let store = Local::open_local(&sim.env(), small())
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
            let read = Read { allow_gaps: true, ..everything() };
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

    /// [`Self::start`] on a machine that is whole again: nothing is missing, and it is written on.
    async fn is_whole(&self, sim: &Sim, told: &str) {
        let (store, seen) = self.start(sim, told).await;
        assert_eq!(seen, Seen::default(), "{told}");
        for session in SESSIONS {
            append(&store, &key(session), batch([event("{}")])).await.unwrap();
        }
    }

    /// Every page of some files at a start; returns how many changed nothing, affected one named
    /// session, and left a store read-only.
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
                // It changes no byte, and waits for a person.
                let _ = store.flush();
                for (path, bytes) in
                    self.files.iter().filter(|(path, _)| !path.starts_with("reserve"))
                {
                    assert_eq!(sim.read_durable(path).unwrap(), *bytes, "{told}: {path}");
                }
            }
            // Before anything was flushed it may read again.
            sim.kill();
            drop(store);
            sim.restore_sector(&path, sector);
            self.is_whole(&sim, &format!("{told}, restored")).await;
            // Else what is lost stays named, and the others are written on.
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
async fn a_start_opens_whatever_sector_of_the_journal_cannot_be_read() {
    // After the place of a clean stop nothing was acknowledged. Elsewhere only a person can decide
    // what was stored where a header, or the last frame's successor, would be.
    for (left, expected) in
        [(Left::Busy, [8, 3, 5]), (Left::Idle, [8, 3, 5]), (Left::Clean, [16, 0, 0])]
    {
        let image = Image::of(false, left).await;
        image.is_whole(&image.machine(), "no sector").await;
        assert_eq!(image.starts("journal/").await, expected, "{left:?}");
    }
}

#[tokio::test]
async fn a_sector_of_the_journal_that_cannot_be_read_is_made_good_while_memory_has_it() {
    let pages = Image::of(false, Left::Idle).await.pages("journal/");
    let mut found = 0;
    for (path, sector) in pages {
        let told = format!("{path} sector {sector}");
        let Lived { sim, store, events } = lived(false).await;
        store.idle();
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
        let store = Local::open_local(&sim.env(), small()).unwrap();
        assert_eq!((store.health(), store.recovery().damage), (Health::Ready, vec![]), "{told}");
        for (session, expected) in &events {
            assert_eq!(events_of(&store, &key(session)).await[..expected.len()], expected[..]);
        }
    }
    assert!(found > 4, "{found} were found");
}

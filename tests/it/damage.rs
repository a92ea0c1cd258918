//! Damage on the device: every byte that says something is flipped in turn, sectors are zeroed,
//! files vanish. Whatever is served is what was acknowledged, whatever is missing is said, other
//! sessions are whole, and nothing is deleted.

use std::collections::BTreeMap;

use sessionlog::{
    env::sim::{SeededEntropy, Sim},
    event::{Event, Position, Range},
    store::{
        Fill, Health, Read, Store, StoreError,
        local::{Local, OpenError},
    },
};

use crate::engines::{append, batch, create, event, events_of, key, named, small};

const SESSIONS: [&str; 3] = ["sealed", "open", "journal"];

/// What a device held when its power failed, and what had been acknowledged.
struct Image {
    files: Vec<(String, Vec<u8>)>,
    events: BTreeMap<&'static str, Vec<Event>>,
}

/// A store with sealed and open segments, settled files, and a journal with unsettled frames and a
/// watermark behind them.
async fn image(seed: u64) -> Image {
    let sim = Sim::new(seed);
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
            store.settle().unwrap();
        }
    }
    store.settle().unwrap();
    for n in 0..4_u32 {
        let body = format!("{{\"late\":{n}}}");
        append(&store, &key("journal"), batch([event(&body), event(&body)])).await.unwrap();
        append(&store, &key("open"), batch([event(&body)])).await.unwrap();
    }
    store.idle();
    let mut events = BTreeMap::new();
    for session in SESSIONS {
        events.insert(session, events_of(&store, &key(session)).await);
    }
    sim.power_loss();
    drop(store);
    let files = sim.files().into_iter().filter(|path| path != "LOCK");
    let files = files.map(|path| (path.clone(), sim.read_durable(&path).unwrap())).collect();
    Image { files, events }
}

impl Image {
    fn machine(&self) -> Sim {
        let sim = Sim::new(1);
        for (path, bytes) in &self.files {
            sim.write_durable(path, 0, bytes);
        }
        sim
    }

    /// Whether the store still reads this segment: not one that a sealed segment replaced.
    fn is_live_segment(&self, path: &str) -> bool {
        let sealed = path.replace(".seg", ".sealed");
        let replaced = sealed != *path && self.files.iter().any(|(other, _)| *other == sealed);
        path.starts_with("segments/") && !replaced
    }

    /// Opens the machine and checks every promise that damage leaves standing. Answers whether
    /// anything at all was noticed.
    async fn check(&self, sim: &Sim, told: &str) -> bool {
        let noticed = self.check_once(sim, told).await;
        // What was found must be known after it was settled, too.
        noticed | self.check_once(sim, &format!("{told}, second start")).await
    }

    async fn check_once(&self, sim: &Sim, told: &str) -> bool {
        let before = sim.files();
        let store = match Local::open_local(&sim.env(), small()) {
            Ok(store) => store,
            Err(OpenError::Damaged { .. } | OpenError::Newer { .. }) => return true,
            Err(other) => panic!("{told}: {other}"),
        };
        let mut noticed = !store.recovery().damage.is_empty();
        noticed |= store.health() != Health::Ready;
        let mut hurt = 0;
        for (session, expected) in &self.events {
            let whole = match store.info(&key(session)).await {
                Err(error) => {
                    assert!(noticed, "{told}: {session} is gone without a word: {error}");
                    false
                }
                Ok(info) => {
                    let tail = info.tail.0 as usize;
                    let known = noticed || !info.damage.is_empty();
                    assert!(tail == expected.len() || known, "{told}: {session} ends at {tail}");
                    let whole = self.served(&store, session, expected, told).await;
                    noticed |= !store.info(&key(session)).await.unwrap().damage.is_empty();
                    whole
                }
            };
            hurt += usize::from(!whole);
        }
        noticed |= hurt > 0;
        let _ = store.settle();
        assert!(hurt <= 1 || store.health() != Health::Ready, "{told}: {hurt} sessions are hurt");
        drop(store);
        for path in before {
            assert!(sim.files().contains(&path), "{told}: {path} was deleted");
        }
        noticed
    }

    /// Reads a session both ways; answers whether it is whole.
    async fn served(&self, store: &Local, session: &str, expected: &[Event], told: &str) -> bool {
        let read = |allow_gaps| Read {
            range: Range::new(Position(0), Position(u64::MAX)),
            events_max: 10_000,
            bytes_max: usize::MAX,
            fill: Fill::Forward,
            allow_gaps,
        };
        let refused = match store.read(&key(session), read(false)).await {
            Ok(slice) => {
                assert!(slice.events.iter().eq(expected.iter().take(slice.events.len())), "{told}");
                slice.events.len() < expected.len()
            }
            Err(StoreError::SessionDamaged { .. }) => true,
            Err(other) => panic!("{told}: {other}"),
        };
        let slice = store.read(&key(session), read(true)).await.unwrap();
        for event in &slice.events {
            assert_eq!(Some(event), expected.get(event.position.0 as usize), "{told}");
        }
        let missing = slice.covered.len() - slice.events.len() as u64;
        let named: u64 = slice.gaps.iter().map(|gap| gap.range.len()).sum();
        assert!(missing <= named, "{told}: {session} lacks {missing} events, {named} named");
        if refused {
            let sent = batch([event("{}")]);
            let answer = append(store, &key(session), sent).await;
            assert!(answer.is_err() || slice.events.len() < expected.len(), "{told}");
        }
        !refused
    }
}

/// Whether a byte lies where nothing is said: zeros of the journal behind its frames, padding and
/// the second half of a page behind a header.
fn silent(bytes: &[u8], at: usize) -> bool {
    bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())].iter().all(|byte| *byte == 0)
}

/// One bit of a byte that says something is another, in a few places one after another, every
/// second in the journal; every promise that this leaves standing is kept.
pub async fn flipped(seed: u64) {
    let image = image(seed).await;
    let dice = SeededEntropy::new(seed);
    let nth = |length: usize| usize::try_from(dice.next() % length as u64).unwrap();
    let journal: Vec<usize> =
        (0..image.files.len()).filter(|n| image.files[*n].0.starts_with("journal/")).collect();
    for round in 0..8 {
        let (path, bytes, at) = loop {
            let any = nth(image.files.len());
            let file = if round % 2 == 0 { any } else { journal[nth(journal.len())] };
            let (path, bytes) = &image.files[file];
            let at = nth(bytes.len().max(1));
            if !bytes.is_empty() && !silent(bytes, at) {
                break (path, bytes, at);
            }
        };
        let sim = image.machine();
        sim.flip(path, at as u64, (dice.next() % 8) as u8);
        image.check(&sim, &format!("{path} byte {at} of {}", bytes.len())).await;
    }
}

#[tokio::test]
async fn a_flipped_bit_is_never_served_and_never_shortens_a_session_in_silence() {
    let image = image(3).await;
    let stride: usize =
        std::env::var("SESSIONLOG_STRIDE").ok().and_then(|text| text.parse().ok()).unwrap_or(61);
    let (mut live, mut noticed, mut damages) = (0, 0, 0);
    for (path, bytes) in &image.files {
        for at in (0..bytes.len()).step_by(stride).filter(|at| !silent(bytes, *at)) {
            let sim = image.machine();
            sim.flip(path, at as u64, (at % 8) as u8);
            let told = image.check(&sim, &format!("{path} byte {at}")).await;
            damages += 1;
            // Elsewhere a second copy makes a flip good, or nothing needs the byte any more.
            live += u32::from(image.is_live_segment(path));
            noticed += u32::from(image.is_live_segment(path) && told);
        }
    }
    eprintln!("damages {damages}");
    // Padding behind a payload says nothing.
    assert!(live > 50 && noticed * 100 >= live * 97, "{noticed} of {live} flips were noticed");
}

#[tokio::test]
async fn a_zeroed_sector_is_damage_and_not_an_end() {
    let image = image(5).await;
    let mut damages = 0;
    for (path, bytes) in &image.files {
        for sector in (0..bytes.len()).step_by(512).filter(|at| !silent(bytes, at + 8)) {
            let sim = image.machine();
            sim.zero_sector(path, sector as u64 / 512);
            image.check(&sim, &format!("{path} sector {}", sector / 512)).await;
            damages += 1;
        }
    }
    eprintln!("damages {damages}");
}

#[tokio::test]
async fn sectors_that_changed_places_are_damage_or_mended() {
    let image = image(6).await;
    let mut damages = 0;
    for (path, bytes) in &image.files {
        let says = |sector: usize| !silent(bytes, sector * 512 + 8);
        for sector in (0..bytes.len() / 512).skip(1).filter(|s| says(*s) && says(*s - 1)) {
            let sim = image.machine();
            sim.swap_sectors(path, sector as u64 - 1, sector as u64);
            image.check(&sim, &format!("{path} sectors {} and {sector}", sector - 1)).await;
            damages += 1;
        }
    }
    eprintln!("damages {damages}");
    assert!(damages > 20, "{damages} pairs are hardly a sweep");
}

#[tokio::test]
async fn a_missing_file_is_said() {
    let image = image(7).await;
    for (path, bytes) in image.files.iter().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)) {
        let sim = image.machine();
        sim.remove_durable(path);
        let noticed = image.check(&sim, &format!("{path} is missing")).await;
        // One of two settled files is enough, and a settled journal file is only room to write in.
        let needed = image.is_live_segment(path) || path == "STORE";
        assert!(noticed || !needed, "{path} of {} bytes vanished unnoticed", bytes.len());
    }
}

#[tokio::test]
async fn a_loss_found_at_one_start_is_known_at_every_later_one() {
    let sim = Sim::new(9);
    let store = Local::open_local(&sim.env(), small()).unwrap();
    for session in ["hurt", "other"] {
        create(&store, session).await;
        append(&store, &key(session), batch([event("{\"n\":0}")])).await.unwrap();
    }
    store.settle().unwrap();
    store.settle().unwrap();
    append(&store, &key("hurt"), batch([event("{\"lost\":\"words\"}")])).await.unwrap();
    append(&store, &key("other"), batch([event("{\"n\":1}")])).await.unwrap();
    sim.power_loss();
    drop(store);
    let journal = sim.read_durable("journal/0").unwrap();
    let at = journal.windows(5).position(|bytes| bytes == b"words").unwrap();
    sim.flip("journal/0", at as u64, 0);
    for start in 0..4 {
        let store = Local::open_local(&sim.env(), small()).unwrap();
        let info = store.info(&key("hurt")).await.unwrap();
        assert_eq!((info.tail, info.damage.len()), (Position(2), 1), "start {start}");
        let refused = append(&store, &key("hurt"), batch([event("{}")])).await;
        assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "start {start}");
        append(&store, &key("other"), batch([event("{}")])).await.unwrap();
        store.settle().unwrap();
        store.settle().unwrap();
        sim.power_loss();
        drop(store);
    }
}

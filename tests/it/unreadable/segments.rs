//! Sectors of segments: intact events are served, a read reports the missing ones, and the session
//! is not marked as damaged: the device may return them later. An operator may give them up.

use std::collections::{BTreeMap, BTreeSet};

use sessionlog::{
    event::{Event, SessionKey},
    store::{
        Health, Maintain, ReadRequest, SessionGap, Slice, Store, StoreError, local::LocalStore,
    },
};
use sessionlog_sim::{Fault, Sim};

use super::{Image, Left, Lived, SESSIONS, machine};
use crate::engines::{append, batch, create, event, events_of, everything, key, named, small};

/// Creates sealed segments with large tables, and open ones: all of several pages.
async fn segments_image(encrypted: bool) -> Image {
    let sim = machine(encrypted);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in SESSIONS {
        create(&store, session).await;
    }
    let mut noise = 7_u64;
    let mut words = |count: usize| {
        let mut word = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:08x}", noise >> 32)
        };
        (0..count).map(|_| word()).collect::<String>()
    };
    for n in 0..60_u32 {
        let body = |word: String| format!("{{\"n\":{n},\"word\":\"{word}\"}}");
        let events = (0..5).map(|k| named(&format!("e{n}-{k}"), &body(words(3))));
        let events: Vec<_> = events.collect();
        append(&store, &key("sealed"), batch(events)).await.unwrap();
        if n % 6 == 0 {
            append(&store, &key("open"), batch([event(&body(words(120)))])).await.unwrap();
        }
        if n % 10 == 9 {
            store.flush().unwrap();
        }
    }
    append(&store, &key("journal"), batch([event("{}")])).await.unwrap();
    let mut events = BTreeMap::new();
    for session in SESSIONS {
        events.insert(session, events_of(&store, &key(session)).await);
    }
    Image::left(Lived { sim, store, events }, encrypted, Left::Clean).await
}

/// Returns the positions of gaps.
fn positions<'a>(gaps: impl IntoIterator<Item = &'a SessionGap>) -> BTreeSet<u64> {
    gaps.into_iter().flat_map(|gap| gap.range.from.0..gap.range.to.0).collect()
}

async fn read_with_holes(store: &LocalStore, session: &SessionKey) -> Slice {
    store.read(session, ReadRequest { allow_gaps: true, ..everything() }).await.unwrap()
}

/// Returns the missing positions of each session, as a read reports them; checks that a verb that
/// needs every event reports the same.
async fn missing(store: &LocalStore, told: &str) -> BTreeSet<(&'static str, u64)> {
    let mut missing = BTreeSet::new();
    for session in SESSIONS {
        let gaps = positions(&read_with_holes(store, &key(session)).await.gaps);
        match store.read(&key(session), everything()).await {
            Ok(_) => assert!(gaps.is_empty(), "{told}: {session}"),
            Err(StoreError::SessionDamaged { gaps: named, .. }) => {
                assert!(!gaps.is_empty(), "{told}: {session}");
                assert_eq!(positions(&named), gaps, "{told}: {session}");
            }
            Err(error) => panic!("{told}: {session}: {error}"),
        }
        missing.extend(gaps.into_iter().map(|at| (session, at)));
    }
    missing
}

/// Returns the missing positions by a full verification, and true if it reports anything.
fn verify_positions(store: &LocalStore, told: &str) -> (BTreeSet<(&'static str, u64)>, bool) {
    let found = store.verify_all().unwrap();
    assert_eq!(found.sessions, SESSIONS.len() as u64, "{told}: the others are verified, too");
    let of = |session: &'static str| {
        let own = found.damage.iter().filter(move |(owner, _)| *owner == key(session));
        positions(own.map(|(_, gap)| gap)).into_iter().map(move |at| (session, at))
    };
    (SESSIONS.into_iter().flat_map(of).collect(), !found.damage.is_empty())
}

impl Image {
    /// True if the file belongs to a session: a replaced file is pending removal.
    fn names(&self, path: &str) -> bool {
        let sim = self.machine();
        sim.remove_durable(path);
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        verify_positions(&store, path).1
    }
}

#[tokio::test]
async fn an_unreadable_segment_sector_is_a_gap_until_it_reads_again() {
    let (mut hurt, mut told_only) = (0, 0);
    for encrypted in [false, true] {
        let image = segments_image(encrypted).await;
        for (path, sector) in image.pages("segments/") {
            let told = format!("{path} sector {sector} encrypted {encrypted}");
            if !image.names(&path) {
                continue;
            }
            let sim = image.machine();
            sim.spoil_sector(&path, sector);
            let (store, seen) = image.start(&sim, &told).await;
            assert!(!seen.frozen && seen.hurt <= 1, "{told}: {seen:?}");
            let lacks = missing(&store, &told).await;
            let (verified_lacks, named) = verify_positions(&store, &told);
            assert_eq!(verified_lacks, lacks, "{told}");
            assert!(named, "{told}: nobody was told");
            let backup = store.backup(&mut |_| Ok(())).unwrap();
            assert_eq!(backup.damaged, 1, "{told}: a copy of it is not whole");
            store.scrub();
            let found = store.recovery().scrub.found;
            assert!(!found.is_empty(), "{told}: the scrubber says nothing");
            hurt += usize::from(!lacks.is_empty());
            told_only += usize::from(lacks.is_empty());
            // No other session is blocked, and the session is not marked as damaged.
            let owner = lacks.first().map(|(session, _)| *session);
            for session in SESSIONS.into_iter().filter(|session| Some(*session) != owner) {
                let _ = append(&store, &key(session), batch([event("{}")])).await;
            }
            store.flush().unwrap();
            store.flush().unwrap();
            assert_eq!(missing(&store, &told).await, lacks, "{told}: later");
            assert_eq!(store.health(), Health::Ready, "{told}");
            // Live: the sector reads again, and a verification reports it whole.
            sim.restore_sector(&path, sector);
            assert_eq!(
                verify_positions(&store, &told),
                (BTreeSet::new(), false),
                "{told}: restored"
            );
            assert_eq!(missing(&store, &told).await, BTreeSet::new(), "{told}: restored");
            for session in SESSIONS {
                append(&store, &key(session), batch([event("{}")])).await.unwrap();
            }
            sim.power_loss();
            drop(store);
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            assert_eq!(missing(&store, &told).await, BTreeSet::new(), "{told}: restarted");
            for (session, expected) in &image.events {
                let info = store.info(&key(session)).await.unwrap();
                assert_eq!(info.damage, [], "{told}: held against {session}");
                let events = events_of(&store, &key(session)).await;
                assert_eq!(events[..expected.len()], expected[..], "{told}");
            }
        }
    }
    assert!(hurt > 4 && told_only > 0, "{hurt} lack events, {told_only} do not");
}

/// A retry whose first outcome cannot be read is not treated as a new event.
#[tokio::test]
async fn a_session_with_an_unreadable_id_table_accepts_no_appends() {
    let image = segments_image(false).await;
    let mut refused = 0;
    for (path, sector) in image.pages("segments/") {
        let told = format!("{path} sector {sector}");
        let sim = image.machine();
        sim.spoil_sector(&path, sector);
        let (store, _) = image.start(&sim, &told).await;
        for (session, events) in &image.events {
            for event in events.iter().step_by(7) {
                let retry = named(event.id.as_str(), "{\"other\":\"words\"}");
                match append(&store, &key(session), batch([retry])).await {
                    Ok(appended) => panic!("{told}: {} twice: {appended:?}", event.id.as_str()),
                    Err(StoreError::SessionDamaged { .. }) => refused += 1,
                    Err(_) => {}
                }
            }
        }
        // The rejected writer retries.
        sim.restore_sector(&path, sector);
        for session in SESSIONS {
            let _ = append(&store, &key(session), batch([event("{}")])).await;
            append(&store, &key(session), batch([event("{}")])).await.unwrap();
        }
    }
    assert!(refused > 0, "no session lacks names");
}

#[tokio::test]
async fn an_operator_can_give_up_an_unreadable_segment_sector() {
    let mut given_up = 0;
    for encrypted in [false, true] {
        let image = segments_image(encrypted).await;
        // Encryption makes no difference to most pages: try a sample.
        let step = if encrypted { 5 } else { 1 };
        for (path, sector) in image.pages("segments/").into_iter().step_by(step) {
            let told = format!("{path} sector {sector} encrypted {encrypted}");
            let sim = image.machine();
            sim.spoil_sector(&path, sector);
            let (store, _) = image.start(&sim, &told).await;
            let lacks = missing(&store, &told).await;
            let mut all = BTreeSet::new();
            for session in SESSIONS {
                let looked = store.repair(&key(session), false).await.unwrap();
                let repaired = store.repair(&key(session), true).await.unwrap();
                assert_eq!(repaired.gaps, looked.gaps, "{told}");
                assert_eq!(repaired.accepted, !looked.gaps.is_empty(), "{told}");
                assert_eq!(repaired.copies.is_empty(), looked.gaps.is_empty(), "{told}");
                all.extend(positions(&repaired.gaps).into_iter().map(|at| (session, at)));
            }
            assert_eq!(all, lacks, "{told}: no more than is lost");
            given_up += usize::from(!all.is_empty());
            let mut store = store;
            for round in 0..4_u64 {
                let told = format!("{told} round {round}");
                for (session, expected) in &image.events {
                    append(&store, &key(session), batch([event("{}")])).await.unwrap();
                    let slice = store.read(&key(session), everything()).await.unwrap();
                    assert!(slice.gaps.iter().all(|gap| gap.accepted_at.is_some()), "{told}");
                    let gone = |at: u64| all.contains(&(*session, at));
                    let whole: Vec<&Event> =
                        expected.iter().filter(|event| !gone(event.position.0)).collect();
                    let served: Vec<&Event> = slice.events.iter().take(whole.len()).collect();
                    assert_eq!(served, whole, "{told}: {session}");
                    assert_eq!(slice.events.len() as u64, whole.len() as u64 + round + 1);
                    let named: BTreeSet<_> =
                        positions(&slice.gaps).into_iter().map(|at| (*session, at)).collect();
                    assert!(all.iter().filter(|(one, _)| one == session).eq(&named), "{told}");
                }
                assert_eq!(verify_positions(&store, &told), (BTreeSet::new(), false), "{told}");
                store.flush().unwrap();
                store.flush().unwrap();
                match round {
                    0 => sim.power_loss(),
                    1 => store.close().await,
                    // A loss that was given up stays a gap.
                    _ => sim.restore_sector(&path, sector),
                }
                if round < 2 {
                    drop(store);
                    store = LocalStore::open_local(&sim.env(), small()).unwrap();
                }
            }
        }
    }
    assert!(given_up > 4, "{given_up} were given up");
}

/// An interrupted flush wrote the events that the journal lost. An unreadable page of the segment
/// loses only the events in it.
#[tokio::test]
async fn lost_journal_frames_are_recovered_from_a_damaged_segment() {
    let interrupted = || async {
        let sim = Sim::new(23);
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "hurt").await;
        store.flush().unwrap();
        store.flush().unwrap();
        for n in 0..12 {
            let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "word ".repeat(200));
            append(&store, &key("hurt"), batch([event(&body)])).await.unwrap();
        }
        let events = events_of(&store, &key("hurt")).await;
        sim.fail_writing("settled/", Fault::Io);
        store.flush().unwrap_err();
        sim.power_loss();
        sim.heal();
        (sim, events)
    };
    let (sim, events) = interrupted().await;
    let place = |sim: &Sim, under: &str, word: &str| {
        let files = sim.files().into_iter().filter(|path| path.starts_with(under));
        let found = files.map(|path| {
            let bytes = sim.read_durable(&path).unwrap();
            let at = bytes.windows(word.len()).position(|part| part == word.as_bytes());
            at.map(|at| (path, at as u64, bytes.len() as u64))
        });
        found.flatten().next().unwrap()
    };
    let (segment, _, length) = place(&sim, "segments/", "\"n\":7,");
    let (mut recovered, mut lost) = (0, 0);
    for page in 0..length.div_ceil(4096) {
        // No frame after the last one confirms that it was durable.
        for n in 0..11 {
            let told = format!("page {page} event {n}");
            let (sim, _) = interrupted().await;
            let word = format!("\"n\":{n},");
            let (journal, at, _) = place(&sim, "journal/", &word);
            let (_, inside, _) = place(&sim, "segments/", &word);
            sim.flip(&journal, at, 1);
            sim.spoil_sector(&segment, page * 8);
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            let slice = read_with_holes(&store, &key("hurt")).await;
            for found in &slice.events {
                assert_eq!(*found, events[found.position.0 as usize], "{told}");
            }
            let whole = slice.events.len() == events.len();
            assert_eq!(store.recovery().damage.is_empty(), whole, "{told}");
            // The frame, its header of 192 bytes before it, and the segment's own header.
            let (from, to) = (inside - 250, inside + 1_100);
            let apart = to < page * 4096 || (page + 1) * 4096 < from;
            assert!(whole || page == 0 || !apart, "{told}: it is there and not taken");
            recovered += usize::from(whole);
            lost += usize::from(!whole);
        }
    }
    assert!(recovered > 12 && lost > 0, "{recovered} recovered, {lost} lost");
}

//! An encrypted store: none of it can be read without the key, every change of it is detected, and
//! a wrong or missing key changes no byte. Crashes are in `crash`: odd seeds run encrypted. It must
//! not use internals of the engine.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::{BatchKey, EventType, NewEvent, Scope, SessionId, SessionKey, TenantId, UserId},
    log::{
        FrameHeader,
        journal::JournalHeader,
        scan::{ScanPiece, scan},
        segment::SegmentHeader,
    },
    store::{
        KeyProblem, Maintain, NewSession, SessionUpdate, Store,
        local::{LocalStore, OpenError, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, SeededEntropy, Sim};

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, events_of, key, named, small},
    fuzz_seeds::recover::{Fate, Image, encrypted, survive},
    life::runtime,
};

fn keys(byte: u8) -> MasterKeys {
    let key = std::array::from_fn(|n| byte.wrapping_add(n as u8));
    MasterKeys { current: Secret::new(key), previous: None }
}

fn with_previous(current: u8, previous: u8) -> MasterKeys {
    MasterKeys { previous: Some(keys(previous).current), ..keys(current) }
}

/// Returns every file as the device has it.
fn durable_files(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    sim.files()
        .into_iter()
        .filter_map(|path| Some((path.clone(), sim.read_durable(&path)?)))
        .collect()
}

fn open_error_name(sim: &Sim) -> String {
    match LocalStore::open_local(&sim.env(), small()) {
        Err(OpenError::Key { problem }) => match problem {
            KeyProblem::Missing { .. } => "missing".to_owned(),
            KeyProblem::Wrong { .. } => "wrong".to_owned(),
            KeyProblem::Rotating { .. } => "rotating".to_owned(),
            KeyProblem::Plaintext => "plaintext".to_owned(),
        },
        Err(other) => other.to_string(),
        Ok(_) => "it opened".to_owned(),
    }
}

#[test]
fn a_wrong_missing_or_unexpected_master_key_changes_no_byte() {
    for (made, given, expected) in [
        (Some(keys(1)), None, "missing"),
        (Some(keys(1)), Some(keys(2)), "wrong"),
        (Some(keys(1)), Some(with_previous(2, 3)), "wrong"),
        (None, Some(keys(1)), "plaintext"),
        (Some(keys(1)), Some(with_previous(2, 1)), "it opened"),
        (Some(keys(1)), Some(keys(1)), "it opened"),
    ] {
        for clean in [true, false] {
            let sim = Sim::new(5);
            sim.set_keys(made.clone());
            runtime().block_on(async {
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                create(&store, "s").await;
                append(&store, &key("s"), batch([event("{}")])).await.unwrap();
                if clean {
                    store.close().await;
                }
            });
            sim.power_loss();
            sim.set_keys(given.clone());
            let before = durable_files(&sim);
            assert_eq!(open_error_name(&sim), expected, "{clean}");
            if expected != "it opened" {
                assert_eq!(durable_files(&sim), before, "{expected}");
            }
            sim.kill();
            sim.set_keys(made.clone());
            runtime().block_on(async {
                let store = LocalStore::open_local(&sim.env(), small()).unwrap();
                assert_eq!(events_of(&store, &key("s")).await.len(), 1);
            });
        }
    }
}

/// Texts that no cipher produces by chance, one for every member that a client can set.
struct Canaries(SeededEntropy, Vec<String>);

impl Canaries {
    fn next(&mut self, what: &str) -> String {
        let text = format!("{what}{:016x}{:016x}", self.0.next(), self.0.next());
        self.1.push(text.clone());
        text
    }
}

async fn write_canaries(store: &LocalStore, canaries: &mut Canaries, round: usize) {
    let scope = Scope {
        tenant: TenantId::new(&canaries.next("tenant")).unwrap(),
        user: UserId::new(&canaries.next("user")).unwrap(),
    };
    let id = SessionId::new(&canaries.next("session")).unwrap();
    let mut events: Vec<NewEvent> = Vec::new();
    for n in 0..3 {
        let body = format!("{{\"text\":\"{}\"}}", canaries.next("body").repeat(1 + 40 * (n % 2)));
        let kind = EventType::new(&format!("x.{}", canaries.next("type"))).unwrap();
        events.push(NewEvent { kind, ..named(&canaries.next("id"), &body) });
    }
    let mut first = batch(events);
    first.key = Some(BatchKey::new(&canaries.next("batch")).unwrap());
    let new = NewSession {
        id: Some(id.clone()),
        title: Some(canaries.next("title")),
        metadata: [(canaries.next("name"), canaries.next("value"))].into(),
        workspace: Some(format!("/{}", canaries.next("workspace"))),
        key: Some(BatchKey::new(&canaries.next("create")).unwrap()),
        events: first,
        ..NewSession::default()
    };
    store.create(&scope, new).await.unwrap();
    let session = SessionKey { scope, session: id };
    let title = Some(Some(canaries.next("renamed")));
    store.change(&session, SessionUpdate { title, ..SessionUpdate::default() }).await.unwrap();
    for _ in 0..4 + round {
        let body = canaries.next("later").repeat(30);
        append(store, &session, batch([event(&body)])).await.unwrap();
    }
}

#[test]
fn no_client_data_is_on_disk_in_plaintext() {
    let mut scanned = 0;
    for seed in 0..3 {
        let sim = Sim::encrypted(seed);
        let mut canaries = Canaries(SeededEntropy::new(seed ^ 0xc0ffee), Vec::new());
        for round in 0..6 {
            runtime().block_on(async {
                // A search would not find a compressed text.
                let options = StoreOptions { compression: false, ..small() };
                let store = LocalStore::open_local(&sim.env(), options).unwrap();
                for session in 0..3 {
                    write_canaries(&store, &mut canaries, session * round).await;
                    if session == round % 3 {
                        store.flush().unwrap();
                    }
                }
                match round % 3 {
                    0 => store.close().await,
                    1 => store.write_idle_watermark(),
                    // A read copies a damaged segment to quarantine.
                    _ => {
                        store.flush().unwrap();
                        let paths = sim.files().into_iter().filter(|path| path.ends_with(".seg"));
                        paths.for_each(|path| sim.flip(&path, 500, 3));
                    }
                }
            });
            if round % 2 == 0 {
                sim.kill()
            } else {
                sim.power_loss()
            }
            let files = durable_files(&sim);
            let kinds = ["journal", "settled", "segments", "keys", "STORE"];
            kinds.iter().for_each(|kind| assert!(files.keys().any(|path| path.starts_with(kind))));
            for (path, bytes) in &files {
                scanned += bytes.len();
                for canary in &canaries.1 {
                    assert!(!path.contains(canary.as_str()), "{canary} names {path}");
                    // Half of it, since compressed blocks may split a text.
                    let part = &canary.as_bytes()[canary.len() - 16..];
                    assert!(!holds(bytes, part), "{canary} is in {path} after round {round}");
                }
            }
        }
        assert!(canaries.1.len() > 400, "{} canaries", canaries.1.len());
    }
    eprintln!("{scanned} bytes scanned, no canary found");
}

/// Returns the encrypted frames of a file: header, payload and range.
fn frames(path: &str, bytes: &[u8]) -> Vec<(u64, FrameHeader, Bytes)> {
    let bytes = Bytes::copy_from_slice(bytes);
    let (salt, from) = if path.starts_with("journal") {
        let Ok(header) = JournalHeader::decode(&bytes) else { return Vec::new() };
        (header.salt, 8192)
    } else {
        let Ok(header) = SegmentHeader::decode(&bytes) else { return Vec::new() };
        (header.salt, 192)
    };
    let pieces = scan(salt, &bytes.slice(from..), from as u64).pieces;
    let whole = pieces.into_iter().filter_map(|piece| match piece {
        ScanPiece::Frame { byte_offset, frame } if frame.header.encrypted.is_some() => {
            Some((byte_offset, frame.header, frame.payload))
        }
        _ => None,
    });
    whole.collect()
}

/// Runs starts that each end in a crash; returns the number of nonces, each used once.
pub async fn nonces(seed: u64, lives: u64) -> usize {
    let (sim, mut seen) = (Sim::encrypted(seed), BTreeMap::new());
    for life in 0..lives {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        if life == 0 {
            create(&store, "s").await;
        }
        let body = format!("{{\"n\":{life}}}");
        append(&store, &key("s"), batch([event(&body)])).await.unwrap();
        if life % 3 == 0 {
            store.flush().unwrap();
        }
        if life % 16 == 15 {
            store.close().await;
        }
        drop(store);
        if life % 2 == 0 {
            sim.kill()
        } else {
            sim.power_loss()
        }
        for (path, bytes) in durable_files(&sim) {
            for (_, header, payload) in frames(&path, &bytes) {
                let encrypted = header.encrypted.unwrap();
                let known = seen.entry((encrypted.key, encrypted.nonce));
                // A frame repeated in the journal is the same message.
                assert_eq!(*known.or_insert(payload.clone()), payload, "{path}");
            }
        }
    }
    seen.len()
}

#[test]
fn no_nonce_is_reused_over_a_thousand_crashes() {
    let (machines, lives) = (20, 50);
    let each = |seed| runtime().block_on(nonces(seed, lives));
    let seen: usize = (0..machines).map(each).sum();
    assert!(seen >= 1_000, "{seen} nonces");
    eprintln!("{} crashes, {seen} nonces, none twice", machines * lives);
}

/// Returns a file with these frames after its header and valid checksums: what an attacker without
/// the key can write to the disk.
fn forge_file(bytes: &[u8], frames: &[(FrameHeader, Bytes)]) -> Vec<u8> {
    let salt = SegmentHeader::decode(bytes).unwrap().salt;
    let mut out = bytes[..192].to_vec();
    frames.iter().for_each(|(header, payload)| header.write(salt, payload, &mut out));
    out
}

fn replace_file(sim: &Sim, path: &str, bytes: &[u8]) {
    sim.truncate_durable(path, 0);
    sim.write_durable(path, 0, bytes);
}

type Segment = (String, Vec<u8>, Vec<(FrameHeader, Bytes)>);

fn segments(image: &Image) -> Vec<Segment> {
    let files = image.files.iter().filter(|(path, _)| path.starts_with("segments"));
    let read = |(path, bytes): &(String, Vec<u8>)| {
        let frames = frames(path, bytes).into_iter().map(|(_, header, payload)| (header, payload));
        (path.clone(), bytes.clone(), frames.collect::<Vec<_>>())
    };
    // Replaced files, which are not read, are left out.
    let used = |path: &str| survive(image, |sim| sim.remove_durable(path)) != Fate::Whole;
    files.map(read).filter(|(path, _, frames)| frames.len() > 2 && used(path)).collect()
}

/// Changes made, and if each was reported, rejected or harmless.
#[derive(Default)]
struct Table(BTreeMap<&'static str, (u64, BTreeSet<String>)>);

impl Table {
    fn judge(&mut self, image: &Image, what: &'static str, path: &str, bytes: &[u8]) {
        let fate = survive(image, |sim| replace_file(sim, path, bytes));
        assert_ne!(fate, Fate::Shorter, "{what}: {path} is silently shorter");
        assert_ne!(fate, Fate::Whole, "{what}: {path} passes for whole");
        let row = self.0.entry(what).or_default();
        row.0 += 1;
        row.1.insert(format!("{fate:?}"));
    }
}

#[test]
fn frames_moved_without_the_key_are_detected() {
    let mut table = Table::default();
    let [_, image] = encrypted();
    let segments = segments(image);
    assert!(segments.len() > 1, "{} segments", segments.len());
    for (nth, (path, bytes, frames)) in segments.iter().enumerate() {
        // Bytes after the frames of a sealed segment are removed: they would be detected anyway.
        for at in [0, frames.len() / 2, frames.len() - 2] {
            let mut swapped = frames.clone();
            swapped.swap(at, at + 1);
            table.judge(image, "swap", path, &forge_file(bytes, &swapped));
            let mut renamed = swapped.clone();
            for (place, other) in [(at, at + 1), (at + 1, at)] {
                // The header keeps its byte offset, so that only the cipher can detect the change.
                let (encrypted, length) = (frames[other].0.encrypted, frames[other].0.length);
                renamed[place].0 = FrameHeader { encrypted, length, ..frames[place].0 };
            }
            table.judge(image, "swap behind their headers", path, &forge_file(bytes, &renamed));
            let mut dropped = frames.clone();
            dropped.remove(at);
            table.judge(image, "drop", path, &forge_file(bytes, &dropped));
            let mut twice = frames.clone();
            twice[at + 1] = frames[at].clone();
            table.judge(image, "duplicate", path, &forge_file(bytes, &twice));
            let mut counted = frames.clone();
            counted[at].0.first_position.0 += 1;
            table.judge(image, "renumber", path, &forge_file(bytes, &counted));
            let mut plain = frames.clone();
            plain[at].0.encrypted = None;
            table.judge(image, "call it plaintext", path, &forge_file(bytes, &plain));
            let (_, _, others) = &segments[(nth + 1) % segments.len()];
            let other = &others[at.min(others.len() - 1)];
            let mut moved = frames.clone();
            moved[at] = other.clone();
            table.judge(image, "move between sessions", path, &forge_file(bytes, &moved));
            let (encrypted, length) = (other.0.encrypted, other.0.length);
            moved[at].0 = FrameHeader { encrypted, length, ..frames[at].0 };
            table.judge(image, "move behind its header", path, &forge_file(bytes, &moved));
            let own = frames[at].0.encrypted.map(|own| sessionlog::log::FrameEncryption {
                nonce: other.0.encrypted.unwrap().nonce,
                ..own
            });
            moved[at].0 = FrameHeader { encrypted: own, length, ..frames[at].0 };
            table.judge(image, "move under its key number", path, &forge_file(bytes, &moved));
        }
    }
    for (what, (times, fates)) in &table.0 {
        eprintln!("{what:<28} {times:>4} undetected 0 {fates:?}");
    }
}

#[test]
fn changed_wrapped_keys_are_detected() {
    let mut told = 0;
    for image in encrypted() {
        let (_, slots) = image.files.iter().find(|(path, _)| path == "keys/0").unwrap();
        let count = slots.len() / 128;
        assert!(count > 2, "{count} slots");
        let mut change = |what: &str, change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = slots.clone();
            change(&mut changed);
            for slot in changed[128..].chunks_mut(128) {
                let mut sum = crc32fast::Hasher::new();
                sum.update(&[0; 8]);
                sum.update(&slot[4..]);
                slot[..4].copy_from_slice(&sum.finalize().to_le_bytes());
            }
            let fate = survive(image, |sim| {
                replace_file(sim, "keys/0", &changed);
                replace_file(sim, "keys/1", &changed);
            });
            assert!(matches!(fate, Fate::Told | Fate::Refused), "{what}: {fate:?}");
            told += 1;
        };
        change("swapped", &|slots| {
            let (first, second) = (slots[128..256].to_vec(), slots[256..384].to_vec());
            slots[128..256].copy_from_slice(&second);
            slots[256..384].copy_from_slice(&first);
        });
        change("swapped behind their numbers", &|slots| {
            let (first, second) = (slots[144..256].to_vec(), slots[272..384].to_vec());
            slots[144..256].copy_from_slice(&second);
            slots[272..384].copy_from_slice(&first);
        });
        for byte in [16, 33, 45, 70, 111] {
            change("flipped", &|slots| slots[128 + byte] ^= 1);
        }
        change("emptied", &|slots| slots[128..].fill(0));
    }
    assert_eq!(told, 16);
}

#[test]
fn one_keys_file_is_sufficient_and_a_lost_one_is_rewritten() {
    for image in encrypted() {
        for path in ["keys/0", "keys/1"] {
            let gone = survive(image, |sim| sim.remove_durable(path));
            assert_eq!(gone, Fate::Whole, "{path} is gone");
            let spoiled = survive(image, |sim| sim.zero_sector(path, 0));
            assert_eq!(spoiled, Fate::Whole, "{path} is spoiled");
        }
        let both = survive(image, |sim| {
            sim.remove_durable("keys/0");
            sim.remove_durable("keys/1");
        });
        assert_eq!(both, Fate::Refused);
    }
    let sim = Sim::encrypted(9);
    runtime().block_on(async {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "a").await;
        sim.kill();
        sim.remove_durable("keys/0");
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "b").await;
        sim.kill();
        sim.remove_durable("keys/1");
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        for name in ["a", "b"] {
            assert_eq!(events_of(&store, &key(name)).await.len(), 0);
        }
    });
}

#[test]
fn a_clock_that_jumps_by_years_does_not_affect_encryption() {
    const TEN_YEARS: i64 = 3_652 * 24 * 3_600 * 1_000_000;
    for jump in [TEN_YEARS, -TEN_YEARS] {
        let sim = Sim::new(10);
        sim.set_keys(Some(keys(1)));
        runtime().block_on(async {
            let now = sessionlog::event::Timestamp(1_800_000_000_000_000);
            sim.clock().set(now);
            let mut store = LocalStore::open_local(&sim.env(), small()).unwrap();
            create(&store, "s").await;
            for life in 0..6 {
                sim.clock().set(if life % 2 == 0 { now.plus_micros(jump) } else { now });
                create(&store, &format!("s{life}")).await;
                for name in ["s".to_owned(), format!("s{life}")] {
                    append(&store, &key(&name), batch([event("{}")])).await.unwrap();
                }
                store.flush().unwrap();
                assert!(store.sweep().await.unwrap().expired.is_empty(), "{life}");
                match life % 3 {
                    0 => store.close().await,
                    1 => sim.kill(),
                    _ => sim.power_loss(),
                }
                drop(store);
                sim.set_keys(Some(with_previous(life + 2, life + 1)));
                store = LocalStore::open_local(&sim.env(), small()).unwrap();
                while store.rotate_keys(3).await.unwrap().previous.is_some() {}
                assert_eq!(events_of(&store, &key("s")).await.len(), usize::from(life) + 1);
                let verified = store.verify(&key("s").scope, None).await.unwrap();
                assert_eq!((verified.sessions, verified.damage), (u64::from(life) + 2, vec![]));
            }
            store.erase(&key("s")).await.unwrap();
            assert!(store.read(&key("s"), crate::engines::everything()).await.is_err());
        });
    }
}

#[test]
fn a_failed_rewrite_of_a_keys_file_leaves_no_temporary_file() {
    let sim = Sim::encrypted(71);
    let left = || sim.files().into_iter().filter(|path| path.ends_with(".new")).count();
    runtime().block_on(async {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "a").await;
        for what in ["a slot", "the file, which is not what it should be"] {
            sim.fail_next(Op::Write, Fault::Full, false);
            let new = NewSession { id: SessionId::new("b").ok(), ..NewSession::default() };
            assert!(store.create(&Scope::local(), new).await.is_err(), "{what}");
            assert_eq!(left(), 0, "{what}: {:?}", sim.files());
        }
        create(&store, "b").await;
        drop(store);
        sim.kill();
        // A killed start could not remove it: it has keys that are destroyed later.
        for file in ["keys/0", "keys/1"] {
            let bytes = sim.read_durable(file).unwrap();
            sim.write_durable(&format!("{file}.new"), 0, &bytes);
        }
        drop(LocalStore::open_local(&sim.env(), small()).unwrap());
        sim.power_loss();
        assert_eq!(left(), 0, "{:?}", sim.files());
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        assert_eq!(events_of(&store, &key("b")).await, []);
    });
}

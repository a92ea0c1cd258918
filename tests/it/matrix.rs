//! Every attack by a writer to the disk without a key, as a table: a record, a segment, a session
//! or a tenant, swapped, moved, replayed, dropped, duplicated or rolled back, with every checksum
//! recomputed. The store serves only written events or reports the change. It must not count a
//! change without effect as detected, nor one that removed an event as harmless.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use sessionlog::{
    event::{Event, Scope, SessionId, SessionKey, TenantId, UserId},
    log::{
        FrameHeader, FrameKind,
        journal::JournalHeader,
        scan::{ScanPiece, scan},
        segment::SegmentHeader,
    },
    store::{
        ChainReceipt, Health, Maintain, NewSession, ReadRequest, ReceiptState, Store, StoreError,
        local::LocalStore,
    },
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, events_of, everything, named, small},
    life::{asked, runtime},
};

type Files = BTreeMap<String, Vec<u8>>;

/// Two states of one store, and what it served in the later one.
struct Image {
    before: Files,
    after: Files,
    sessions: Vec<(SessionKey, Vec<Event>, ChainReceipt)>,
    /// File name prefix of each session.
    hashes: Vec<String>,
}

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn files(sim: &Sim) -> Files {
    let read = |path: String| Some((path.clone(), sim.read_durable(&path)?));
    sim.files().into_iter().filter_map(read).collect()
}

/// Returns the keys of two sessions for each of two tenants, with equal ids.
fn keys() -> Vec<SessionKey> {
    let mut keys = Vec::new();
    for tenant in ["acme", "zeta"] {
        for session in ["a", "b"] {
            let scope =
                Scope { tenant: TenantId::new(tenant).unwrap(), user: UserId::new("ada").unwrap() };
            keys.push(SessionKey { scope, session: SessionId::new(session).unwrap() });
        }
    }
    keys
}

async fn write(store: &LocalStore, from: usize, to: usize) {
    for n in from..to {
        for key in keys() {
            let text = format!("{}/{} {n} {}", key.scope.tenant, key.session, "y".repeat(700));
            let sent = batch([named(&format!("e{n}"), &format!("\"{text}\""))]);
            append(store, &key, sent).await.unwrap();
        }
    }
}

async fn create_image() -> Image {
    let sim = Sim::encrypted(81);
    let store = open(&sim);
    let mut known = BTreeSet::new();
    let mut hashes = Vec::new();
    for key in keys() {
        let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
        store.create(&key.scope, new).await.unwrap();
        append(&store, &key, batch([named("first", "{}")])).await.unwrap();
        store.flush().unwrap();
        let segments = sim.files().into_iter().filter(|path| path.starts_with("segments/"));
        let new = segments.filter(|path| known.insert(path.clone())).collect::<Vec<_>>();
        hashes.push(new[0].split('-').next().unwrap().to_owned());
    }
    write(&store, 0, 40).await;
    store.close().await;
    drop(store);
    let store = open(&sim);
    write(&store, 40, 48).await;
    store.flush().unwrap();
    store.flush().unwrap();
    let before = files(&sim);
    write(&store, 48, 56).await;
    store.flush().unwrap();
    let mut last = 64;
    write(&store, 56, last).await;
    store.write_idle_watermark();
    // A journal file may end without space for a watermark: then its last frame has no watermark
    // after it.
    while !is_witnessed(&files(&sim)) {
        write(&store, last, last + 1).await;
        last += 1;
        store.write_idle_watermark();
    }
    let mut sessions = Vec::new();
    for key in keys() {
        let events = events_of(&store, &key).await;
        let receipt = store.info(&key).await.unwrap().receipt;
        sessions.push((key, events, receipt));
    }
    sim.power_loss();
    Image { before, after: files(&sim), sessions, hashes }
}

/// True if a watermark proves that the last record of the journal was durable.
fn is_witnessed(files: &Files) -> bool {
    let journal = files.iter().filter(|(path, _)| path.starts_with("journal/"));
    let pieces = journal.filter_map(|(_, bytes)| {
        let bytes = Bytes::copy_from_slice(bytes);
        let salt = JournalHeader::decode(&bytes).ok()?.salt;
        Some(scan(salt, &bytes.slice(8192..), 8192).pieces)
    });
    let headers = pieces.flatten().filter_map(|piece| match piece {
        ScanPiece::Frame { frame, .. } => Some(frame.header),
        ScanPiece::Bad { .. } => None,
    });
    let headers: Vec<_> = headers.collect();
    let end = headers.iter().map(|header| header.lsn_range().1).max();
    let mut marks = headers.iter().filter(|header| header.kind == FrameKind::Watermark);
    marks.any(|mark| Some(mark.first_lsn) == end)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// The store does not open and reports why.
    Refused,
    /// The store reports the damage.
    Told,
    /// The store serves every event.
    Harmless,
    /// Events are missing or wrong without a report.
    Undetected,
}

/// Opens a store with these files and judges what it serves; with `receipts` each client verifies
/// the newest receipt of its sessions.
async fn judge(image: &Image, files: &Files, receipts: bool) -> Fate {
    let sim = Sim::encrypted(81);
    files.iter().for_each(|(path, bytes)| sim.write_durable(path, 0, bytes));
    let store = match LocalStore::open_local(&sim.env(), small()) {
        Ok(store) => store,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Fate::Refused;
        }
    };
    let told = store.health() != Health::Ready || !store.recovery().damage.is_empty();
    let mut fates = BTreeSet::from([if told { Fate::Told } else { Fate::Harmless }]);
    for (key, wanted, receipt) in &image.sessions {
        let some = ReadRequest { allow_gaps: true, ..everything() };
        let verified = match receipts {
            false => store
                .verify(&key.scope, Some(&key.session))
                .await
                .map(|one| (one, ReceiptState::Holds)),
            true => store.verify_head(key, *receipt).await,
        };
        let whole =
            verified.is_ok_and(|(one, head)| one.damage.is_empty() && head == ReceiptState::Holds);
        let fate = match store.read(key, some).await {
            Ok(slice) => {
                let right = slice.events.iter().all(|event| {
                    wanted.get(usize::try_from(event.position.0).unwrap()) == Some(event)
                });
                let all = slice.events.len() == wanted.len() && slice.gaps.is_empty();
                match (right, all, slice.gaps.is_empty() && whole && !told) {
                    (false, ..) => Fate::Undetected,
                    (true, true, _) if whole => Fate::Harmless,
                    (true, _, false) => Fate::Told,
                    (true, ..) => Fate::Undetected,
                }
            }
            // A receipt shows that a missing session existed.
            Err(StoreError::SessionNotFound { .. }) if !receipts && !told => Fate::Undetected,
            Err(_) => Fate::Told,
        };
        fates.insert(fate);
    }
    Fate::worst(&fates)
}

impl Fate {
    fn worst(fates: &BTreeSet<Self>) -> Self {
        let order = [Self::Undetected, Self::Refused, Self::Told, Self::Harmless];
        order.into_iter().find(|fate| fates.contains(fate)).unwrap()
    }
}

/// Counts of fates by kind and place of change.
#[derive(Default)]
struct Table(BTreeMap<(&'static str, &'static str), BTreeMap<Fate, u64>>, BTreeMap<String, u64>);

/// Number of changes of a kind that always run, and the stride among the rest, unless
/// `SESSIONLOG_SEEDS` runs all.
const FIRST: u64 = 6;
const STRIDE: u64 = 29;

impl Table {
    async fn note(&mut self, image: &Image, what: [&'static str; 2], files: &Files) -> Fate {
        let fate = judge(image, files, false).await;
        *self.0.entry((what[0], what[1])).or_default().entry(fate).or_default() += 1;
        fate
    }

    /// True if this change of its kind is among those to run.
    fn takes(&mut self, what: [&'static str; 2]) -> bool {
        let seen = self.1.entry(what.join(" ")).or_default();
        *seen += 1;
        *seen <= FIRST || seen.is_multiple_of(STRIDE) || asked("SESSIONLOG_SEEDS").is_some()
    }

    /// Checks that a change is harmless or detected.
    async fn found(&mut self, image: &Image, what: [&'static str; 2], files: &Files) {
        if !self.takes(what) {
            return;
        }
        let fate = self.note(image, what, files).await;
        assert_ne!(fate, Fate::Undetected, "{what:?}");
    }
}

type Frames = Vec<(FrameHeader, Bytes)>;

/// Returns the salt, the bytes before the first frame, and the frames of a journal file or segment.
fn frames(path: &str, bytes: &[u8]) -> Option<(u64, usize, Frames)> {
    let bytes = Bytes::copy_from_slice(bytes);
    let (salt, from) = match path.starts_with("journal/") {
        true => (JournalHeader::decode(&bytes).ok()?.salt, 8192),
        false => (SegmentHeader::decode(&bytes).ok()?.salt, 192),
    };
    let pieces = scan(salt, &bytes.slice(from..), from as u64).pieces.into_iter();
    let whole = pieces.filter_map(|piece| match piece {
        ScanPiece::Frame { frame, .. } if frame.header.kind != FrameKind::Watermark => {
            Some((frame.header, frame.payload))
        }
        _ => None,
    });
    Some((salt, from, whole.collect()))
}

/// Returns the file with these frames in sequence and its remaining bytes unmoved.
fn with_frames(bytes: &[u8], (salt, from): (u64, usize), frames: &Frames) -> Vec<u8> {
    let mut out = bytes[..from].to_vec();
    frames.iter().for_each(|(header, payload)| header.write(salt, payload, &mut out));
    let rest = bytes.get(out.len()..).unwrap_or_default().to_vec();
    out.extend(rest);
    out
}

fn segments<'a>(files: &'a Files, hash: &str) -> Vec<&'a String> {
    files.keys().filter(|path| path.starts_with(hash)).collect()
}

/// Attacks records: frames of open and sealed segments and of the journal.
async fn records(image: &Image, table: &mut Table) {
    let of = |path: &str| image.hashes.iter().position(|hash| path.starts_with(hash.as_str()));
    for (path, bytes) in &image.after {
        let journal = path.starts_with("journal/");
        if !journal && of(path).is_none() {
            continue;
        }
        let Some((salt, from, whole)) = frames(path, bytes) else { continue };
        if whole.len() < 4 {
            continue;
        }
        let others = image.after.iter().filter(|(other, _)| {
            of(other).is_some_and(|one| of(path).is_none_or(|own| one / 2 != own / 2))
        });
        let foreign =
            others.filter_map(|(path, bytes)| frames(path, bytes)?.2.pop()).next().unwrap();
        let unit = if journal { "record, journal" } else { "record, segment" };
        for at in [0, whole.len() / 2, whole.len() - 2] {
            let mut change = async |op, change: &dyn Fn(&mut Frames)| {
                let mut changed = whole.clone();
                change(&mut changed);
                let mut files = image.after.clone();
                files.insert(path.clone(), with_frames(bytes, (salt, from), &changed));
                table.found(image, [unit, op], &files).await;
            };
            change("swap", &|frames| frames.swap(at, at + 1)).await;
            let behind = |header: FrameHeader, other: &FrameHeader| FrameHeader {
                encrypted: other.encrypted,
                length: other.length,
                ..header
            };
            change("swap", &|frames| {
                let (one, other) = (frames[at].clone(), frames[at + 1].clone());
                frames[at] = (behind(one.0, &other.0), other.1);
                frames[at + 1] = (behind(other.0, &one.0), one.1);
            })
            .await;
            change("move", &|frames| frames[at] = foreign.clone()).await;
            change("move", &|frames| {
                frames[at] = (behind(frames[at].0, &foreign.0), foreign.1.clone());
            })
            .await;
            change("replay", &|frames| frames[at + 1] = frames[at].clone()).await;
            change("drop", &|frames| drop(frames.remove(at))).await;
            change("duplicate", &|frames| frames.insert(at, frames[at].clone())).await;
            // Nothing follows it: a segment is truncated, a journal file has zeros there.
            let mut cut = with_frames(&bytes[..from], (salt, from), &whole[..=at].to_vec());
            cut.resize(if journal { bytes.len() } else { cut.len() }, 0);
            let mut files = image.after.clone();
            files.insert(path.clone(), cut);
            let what = [unit, "roll back"];
            if !journal {
                table.found(image, what, &files).await;
            } else if table.takes(what) {
                // Zeros over everything written last look like the state before that write.
                let fate = table.note(image, what, &files).await;
                let told =
                    fate != Fate::Undetected || judge(image, &files, true).await == Fate::Told;
                assert!(told, "a receipt tells");
            }
        }
    }
}

/// Attacks whole segments: within a session, between sessions, and between tenants.
async fn whole_segments(image: &Image, table: &mut Table) {
    let after = &image.after;
    let own: Vec<_> = image.hashes.iter().map(|hash| segments(after, hash)).collect();
    for session in 0..own.len() {
        let (sibling, foreign) = (session ^ 1, (session + 2) % own.len());
        for one in &own[session] {
            for other in [&own[session], &own[sibling], &own[foreign]].into_iter().flatten() {
                if one == other {
                    continue;
                }
                let mut files = after.clone();
                files.insert((*one).clone(), after[*other].clone());
                table.found(image, ["segment", "move"], &files).await;
                files.insert((*other).clone(), after[*one].clone());
                table.found(image, ["segment", "swap"], &files).await;
            }
            let mut files = after.clone();
            files.remove(*one);
            table.found(image, ["segment", "drop"], &files).await;
            if let Some(older) = image.before.get(*one).filter(|older| **older != after[*one]) {
                let mut files = after.clone();
                files.insert((*one).clone(), older.clone());
                table.found(image, ["segment", "roll back"], &files).await;
                // The older bytes, padded to the length of the newer ones.
                let mut longer = older.clone();
                longer.resize(after[*one].len(), 0);
                files.insert((*one).clone(), longer);
                table.found(image, ["segment", "replay"], &files).await;
            }
            let mut files = after.clone();
            for start in ["0000000001", "0000000002", "0000000003", "0000000009"] {
                let name =
                    one.replace(&one[one.rfind('-').unwrap() + 1..one.rfind('.').unwrap()], start);
                files.entry(name).or_insert_with(|| after[*one].clone());
            }
            table.found(image, ["segment", "duplicate"], &files).await;
        }
    }
}

/// Changes the key slots in both files alike and recomputes the checksums.
fn with_slots(files: &mut Files, change: &dyn Fn(&mut Vec<u8>)) {
    for path in ["keys/0", "keys/1"] {
        let slots = files.get_mut(path).unwrap();
        change(slots);
        for slot in slots[128..].chunks_mut(128).filter(|slot| slot.iter().any(|byte| *byte != 0)) {
            let mut sum = crc32fast::Hasher::new();
            sum.update(&[0; 8]);
            sum.update(&slot[4..]);
            slot[..4].copy_from_slice(&sum.finalize().to_le_bytes());
        }
    }
}

/// Attacks all files of some sessions, with or without their keys; `pairs` lists session and donor.
async fn sessions(image: &Image, table: &mut Table, unit: &'static str, pairs: &[(usize, usize)]) {
    let after = &image.after;
    let number = |session: usize| {
        let path = segments(after, &image.hashes[session])[0];
        usize::try_from(SegmentHeader::decode(&after[path]).unwrap().key.unwrap().0).unwrap()
    };
    for with_keys in [false, true] {
        let (mut moved, mut swapped) = (after.clone(), after.clone());
        let (mut dropped, mut back) = (after.clone(), after.clone());
        for (one, other) in pairs {
            let (own, others) =
                (segments(after, &image.hashes[*one]), segments(after, &image.hashes[*other]));
            for (a, b) in own.iter().zip(&others) {
                moved.insert((*a).clone(), after[*b].clone());
                swapped.insert((*a).clone(), after[*b].clone());
                swapped.insert((*b).clone(), after[*a].clone());
            }
            for path in &own {
                dropped.remove(*path);
                match image.before.get(*path) {
                    Some(older) => back.insert((*path).clone(), older.clone()),
                    None => back.remove(*path),
                };
            }
            if with_keys {
                let (a, b) = (128 * number(*one), 128 * number(*other));
                let content = 16..128;
                let copy = |slots: &mut Vec<u8>, from: usize, to: usize| {
                    slots.copy_within(from + content.start..from + content.end, to + content.start);
                };
                with_slots(&mut moved, &|slots| copy(slots, b, a));
                with_slots(&mut swapped, &|slots| {
                    let kept = slots[a + 16..a + 128].to_vec();
                    copy(slots, b, a);
                    slots[b + 16..b + 128].copy_from_slice(&kept);
                });
                with_slots(&mut dropped, &|slots| slots[a..a + 128].fill(0));
            }
        }
        table.found(image, [unit, "move"], &moved).await;
        table.found(image, [unit, "swap"], &swapped).await;
        table.found(image, [unit, "drop"], &dropped).await;
        table.found(image, [unit, "roll back"], &back).await;
        // Replayed: the earlier files next to the current ones.
        let mut replayed = after.clone();
        for (one, _) in pairs {
            for path in segments(&image.before, &image.hashes[*one]) {
                replayed.entry(path.clone()).or_insert_with(|| image.before[path].clone());
            }
        }
        table.found(image, [unit, "replay"], &replayed).await;
        // Duplicated: under the file names of another session.
        let mut twice = after.clone();
        for (one, other) in pairs {
            let (from, to) = (&image.hashes[*one], &image.hashes[*other]);
            for path in segments(after, from) {
                let name = path.replacen(from.as_str(), to, 1);
                twice.entry(name).or_insert_with(|| after[path].clone());
            }
        }
        table.found(image, [unit, "duplicate"], &twice).await;
    }
}

/// Rolls back files that describe all sessions: one kind, or several together.
async fn rolled_back(image: &Image, table: &mut Table) {
    let kinds = ["settled/", "journal/", "keys/", "segments/", "STORE"];
    let mut silent = BTreeSet::new();
    for chosen in 1..1_u32 << kinds.len() {
        let of = |path: &str| {
            let kind = kinds.iter().position(|kind| path.starts_with(kind));
            kind.is_some_and(|kind| chosen & (1 << kind) != 0)
        };
        let kept = image.after.iter().filter(|(path, _)| !of(path));
        let back = image.before.iter().filter(|(path, _)| of(path));
        let files: Files = kept.chain(back).map(|(p, b)| (p.clone(), b.clone())).collect();
        let fate = table.note(image, ["store", "roll back"], &files).await;
        if fate == Fate::Undetected {
            let names = kinds.into_iter().enumerate();
            let names = names.filter(|(kind, _)| chosen & (1 << kind) != 0).map(|(_, name)| name);
            silent.insert(names.collect::<Vec<_>>());
            let with_receipts = judge(image, &files, true).await;
            assert_eq!(with_receipts, Fate::Told, "{chosen:b}: a receipt tells");
        }
    }
    // Not detectable without an external copy: journal and flushed position rolled back together,
    // regardless of other changes.
    assert!(silent.iter().all(|kinds| kinds.contains(&"settled/") && kinds.contains(&"journal/")));
    assert!(!silent.is_empty(), "a store put back whole is the store it was");
    eprintln!("told by a receipt alone: {silent:?}");
}

#[test]
fn a_writer_to_the_disk_without_the_key_can_only_destroy_or_roll_back_undetected() {
    let mut table = Table::default();
    runtime().block_on(async {
        let image = create_image().await;
        assert_eq!(judge(&image, &image.after, true).await, Fate::Harmless);
        records(&image, &mut table).await;
        whole_segments(&image, &mut table).await;
        sessions(&image, &mut table, "session", &[(0, 1)]).await;
        sessions(&image, &mut table, "session", &[(3, 2)]).await;
        sessions(&image, &mut table, "tenant", &[(0, 2), (1, 3)]).await;
        sessions(&image, &mut table, "tenant", &[(2, 0), (3, 1)]).await;
        rolled_back(&image, &mut table).await;
    });
    let ops = ["swap", "move", "replay", "drop", "duplicate", "roll back"];
    for unit in ["record, segment", "record, journal", "segment", "session", "tenant"] {
        for op in ops {
            let cell = table.0.get(&(unit, op)).unwrap_or_else(|| panic!("{unit}, {op}: nothing"));
            let told: u64 =
                cell.iter().filter(|(fate, _)| **fate != Fate::Harmless).map(|(_, n)| n).sum();
            assert!(told > 0 || matches!(op, "duplicate" | "replay"), "{unit}, {op}: {cell:?}");
        }
    }
    for ((unit, op), cell) in &table.0 {
        eprintln!("{unit:<16} {op:<10} {cell:?}");
    }
}

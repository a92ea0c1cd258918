//! A backup contains every event acknowledged before it began, despite concurrent writes, flushes,
//! seals and deletions; a truncated or changed backup is rejected; a restored store works. It must
//! not use internals of the engine.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use sessionlog::{
    env::Clock,
    event::{Batch, Position, Scope, SessionId, SessionKey},
    store::{
        BackupInfo, LeaseCall, Maintain, NewSession, SessionUpdate, Store, StoreError,
        local::{self, BackupError, BackupWriter, LocalStore, OpenError, RestoredBackup},
    },
};
use sessionlog_sim::{Fault, SeededEntropy, Sim};

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, events_of, key, small, whole_of},
    life::{asked, machine, runtime},
    nth::{Nth, cases},
};

const CANARY: &str = "canary-77c1e0";
/// Bytes of a key in a keys file (docs/format.md).
const KEY_SLOT_BYTES: u64 = 128;

/// Directories of a backup.
struct Places {
    outer: Sim,
    inner: Sim,
}

impl Places {
    fn new(seed: u64, encrypted: bool) -> Self {
        Self { outer: Sim::new(seed), inner: machine(seed, encrypted) }
    }

    fn begin(&self) -> BackupWriter {
        BackupWriter::begin(&self.outer.env(), &self.inner.env()).unwrap()
    }

    fn restore(&self, to: &Sim) -> Result<RestoredBackup, BackupError> {
        runtime().block_on(self.restore_within(to))
    }

    async fn restore_within(&self, to: &Sim) -> Result<RestoredBackup, BackupError> {
        let (outer, inner, to) = (self.outer.env(), self.inner.env(), to.env());
        local::restore(&outer, &inner, &to, small(), &mut |_, _| {}).await
    }
}

/// A store, and its acknowledged events.
struct Filled {
    sim: Sim,
    store: Arc<LocalStore>,
    acknowledged: BTreeMap<SessionKey, Vec<String>>,
    /// Names of the sessions that clients use.
    names: Vec<String>,
    dice: SeededEntropy,
}

impl Filled {
    fn new(seed: u64, encrypted: bool) -> Self {
        let sim = machine(seed, encrypted);
        let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
        let dice = SeededEntropy::new(seed);
        let names = (0..6).map(|n| format!("s{n}")).collect();
        let mut filled = Self { sim, store, acknowledged: BTreeMap::new(), names, dice };
        (0..80).for_each(|_| filled.act_once());
        filled
    }

    /// Performs one action of a client or of the store's background work.
    fn act_once(&mut self) {
        let name = self.names[self.dice.next() as usize % self.names.len()].clone();
        match self.dice.next() % 20 {
            0 => self.store.flush().unwrap(),
            1 => self.store.flush_under_load().unwrap(),
            2 => self.store.write_idle_watermark(),
            _ => self.append(&name),
        }
    }

    fn append(&mut self, name: &str) {
        let key = key(name);
        if !self.acknowledged.contains_key(&key) {
            runtime().block_on(create(&*self.store, name));
        }
        let known = self.acknowledged.entry(key.clone()).or_default();
        let body = format!("{{\"n\":{},\"{CANARY}\":\"{}\"}}", known.len(), "x".repeat(700));
        runtime().block_on(append(&*self.store, &key, batch([event(&body)]))).unwrap();
        known.push(body);
    }

    /// Makes a backup; runs `meanwhile` between any two parts of it.
    fn back_up(
        &mut self,
        to: &Places,
        meanwhile: &mut dyn FnMut(&mut Self, usize),
    ) -> Result<BackupInfo, String> {
        let told = |error: BackupError| error.to_string();
        let (outer, inner) = (to.outer.env(), to.inner.env());
        let mut incoming = BackupWriter::begin(&outer, &inner).map_err(told)?;
        let (store, mut parts) = (Arc::clone(&self.store), 0);
        let made = store.backup(&mut |part| {
            incoming.write_part(&part.path, &part.bytes).map_err(io::Error::other)?;
            meanwhile(self, parts);
            parts += 1;
            Ok(())
        });
        let made = made.map_err(|error| error.to_string())?;
        incoming.finish_parts(&made).map_err(told)?;
        let verified = local::check_backup(&inner, small()).map_err(told)?;
        if !verified.damage.is_empty() {
            return Err(format!("{:?}", verified.damage));
        }
        incoming.seal().map_err(told)?;
        Ok(made)
    }
}

/// Prints a figure past the test harness, which hides the output of passing tests.
fn told(figure: &str) {
    let _ = writeln!(io::stderr(), "FIGURE: {figure}");
}

fn read_bodies(store: &LocalStore, key: &SessionKey) -> Vec<String> {
    let events = runtime().block_on(events_of(store, key));
    events.iter().map(|event| String::from_utf8(event.body.to_vec()).unwrap()).collect()
}

#[test]
fn a_backup_has_every_event_acknowledged_before_it_despite_concurrent_writers() {
    let (mut events, mut parts) = (0, 0);
    for seed in 0..asked("SESSIONLOG_SEEDS").unwrap_or(12) {
        let encrypted = seed % 2 == 1;
        let mut filled = Filled::new(seed, encrypted);
        let before = filled.acknowledged.clone();
        let to = Places::new(seed, encrypted);
        let made = filled.back_up(&to, &mut |filled, part| {
            parts += 1;
            (0..4).for_each(|_| filled.act_once());
            // Files that a backup names are deleted once they are not needed, but not before it has
            // them.
            filled.store.flush().unwrap();
            if part == 2 {
                let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
                runtime().block_on(filled.store.change(&key("s0"), gone)).unwrap();
                filled.acknowledged.remove(&key("s0"));
                filled.names.remove(0);
                (0..3).for_each(|_| filled.store.flush().unwrap());
                runtime().block_on(create(&*filled.store, "later"));
            }
        });
        let made = made.unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!((made.sessions as usize, made.damaged), (before.len(), 0), "{seed}");
        let restored = machine(seed, encrypted);
        let told = to.restore(&restored).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(told.verified.damage, [], "{seed}: every checksum and the chain");
        assert_eq!(told.verified.sessions as usize, before.len(), "{seed}");
        restored.power_loss();
        let store = LocalStore::open_local(&restored.env(), small()).unwrap();
        for (key, known) in &before {
            let kept = read_bodies(&store, key);
            assert_eq!(kept, known[..], "{seed} {key:?}: the moment is the one it began at");
            events += kept.len();
            // The restored store accepts writes, with another store id.
            let appended = append(&store, key, batch([event("{}")]));
            let appended = runtime().block_on(appended).unwrap();
            assert_eq!(appended.first_position, Position(known.len() as u64));
        }
        store.flush().unwrap();
        assert_eq!(store.verify_all().unwrap().damage, []);
        // The original store works as well, and the files that were held back are unlinked.
        (0..3).for_each(|_| filled.store.flush().unwrap());
        filled.store.scrub();
        assert_eq!(filled.store.recovery().scrub.found, Vec::<String>::new());
        for (key, known) in &filled.acknowledged {
            assert_eq!(read_bodies(&filled.store, key), known[..]);
        }
        let gone = format!("{}", filled.sim.files().len());
        assert!(filled.sim.files().len() < 200, "{gone} files are left");
    }
    told(&format!("backup: {events} events restored, {parts} parts with writers between"));
}

#[test]
fn a_session_that_cannot_be_flushed_is_in_the_journal_of_the_backup() {
    for encrypted in [false, true] {
        let mut filled = Filled::new(3, encrypted);
        filled.sim.fail_writing("segments", Fault::Io);
        (0..9).for_each(|n| filled.append(&format!("s{}", n % 3)));
        let before = filled.acknowledged.clone();
        let to = Places::new(4, encrypted);
        to.inner.set_keys(filled.sim.env().keys.as_deref().cloned());
        filled.back_up(&to, &mut |_, _| {}).unwrap();
        let restored = machine(3, encrypted);
        assert_eq!(to.restore(&restored).unwrap().verified.damage, []);
        let store = LocalStore::open_local(&restored.env(), small()).unwrap();
        for (key, known) in &before {
            assert_eq!(read_bodies(&store, key), known[..], "{encrypted} {key:?}");
        }
    }
}

#[test]
fn a_session_erased_during_a_backup_is_not_in_it() {
    for encrypted in [false, true] {
        let mut filled = Filled::new(5, encrypted);
        let to = Places::new(5, encrypted);
        let made = filled.back_up(&to, &mut |filled, part| {
            if part == 1 {
                runtime().block_on(filled.store.erase(&key("s1"))).unwrap();
            }
        });
        let error = made.expect_err("it must not bring the session back");
        assert!(error.contains("erased"), "{error}");
        let refused = to.restore(&Sim::new(9)).expect_err("it is incomplete").to_string();
        assert!(refused.contains("incomplete"), "{refused}");
        // The next backup shows it as erased.
        let to = Places::new(5, encrypted);
        filled.back_up(&to, &mut |_, _| {}).unwrap();
        let restored = machine(5, encrypted);
        to.restore(&restored).unwrap();
        let store = LocalStore::open_local(&restored.env(), small()).unwrap();
        let info = runtime().block_on(store.info(&key("s1")));
        assert!(matches!(info, Err(StoreError::SessionDeleted { .. })), "{info:?}");
    }
}

/// Interrupts a backup within one of its disk calls; returns the number of its calls.
fn cut(filled: &mut Filled, outer: bool, case: Option<Nth>, tally: &mut [u64; 2]) -> u64 {
    let encrypted = filled.sim.env().keys.is_some();
    let to = Places::new(7, encrypted);
    let place = if outer { &to.outer } else { &to.inner };
    if let Some(case) = case {
        case.plan(place);
    }
    let made = filled.back_up(&to, &mut |_, _| {});
    let calls = place.calls();
    place.heal();
    [&to.outer, &to.inner].into_iter().for_each(Sim::power_loss);
    match to.restore(&machine(7, encrypted)) {
        // Only the response was lost, or nothing.
        Ok(told) => {
            assert_eq!(told.verified.damage, [], "{case:?}");
            tally[1] += 1;
        }
        Err(BackupError::Absent | BackupError::Manifest(_)) => {
            assert!(made.is_err(), "{case:?}: what was said to be complete is");
            tally[0] += 1;
        }
        Err(other) => panic!("{case:?}: {other}"),
    }
    let refused =
        matches!(LocalStore::open_local(&to.outer.env(), small()), Err(OpenError::Backup));
    let begun = to.outer.files().iter().any(|name| name == "BACKUP");
    assert!(refused || !begun, "{case:?}: a backup is not opened as a store");
    calls
}

#[test]
fn a_backup_truncated_at_any_byte_is_rejected() {
    let mut tally = [0, 0];
    for encrypted in [false, true] {
        let mut filled = Filled::new(7, encrypted);
        for (outer, usual) in [(true, 3), (false, 15)] {
            let calls = cut(&mut filled, outer, None, &mut tally);
            for case in cases(calls, usual) {
                cut(&mut filled, outer, Some(case), &mut tally);
            }
        }
        for (key, known) in &filled.acknowledged {
            assert_eq!(read_bodies(&filled.store, key), known[..], "the store has no part in it");
        }
    }
    let [cuts, whole] = tally;
    assert!(cuts > 50 && whole > 0, "{cuts} {whole}");
    told(&format!("backup: cut at {cuts} calls, none of them taken for a whole one"));
}

#[test]
fn a_backup_changed_at_any_byte_is_rejected_and_nothing_is_written() {
    let dice = SeededEntropy::new(11);
    let mut refused = 0;
    for encrypted in [false, true] {
        let mut filled = Filled::new(11, encrypted);
        let whole = Places::new(11, encrypted);
        filled.back_up(&whole, &mut |_, _| {}).unwrap();
        let files: Vec<String> = whole.inner.files();
        let manifest = whole.outer.read_durable("BACKUP").unwrap();
        for (number, path) in files.iter().enumerate() {
            let bytes = whole.inner.read_durable(path).unwrap();
            for change in 0..4 {
                let to = Places::new(12, encrypted);
                to.outer.write_durable("BACKUP", 0, &manifest);
                for other in &files {
                    let bytes = whole.inner.read_durable(other).unwrap();
                    to.inner.write_durable(other, 0, &bytes);
                }
                match change {
                    0 => to.inner.remove_durable(path),
                    1 => to.inner.write_durable(path, bytes.len() as u64, b"more"),
                    2 if !bytes.is_empty() => to.inner.truncate_durable(path, 0),
                    3 if !bytes.is_empty() => {
                        let at = dice.next() % bytes.len() as u64;
                        to.inner.flip(path, at, (dice.next() % 8) as u8);
                    }
                    _ => continue,
                }
                let restored = machine(11, encrypted);
                let error = to.restore(&restored).expect_err(path);
                assert!(matches!(error, BackupError::Damaged { .. }), "{number} {path}: {error}");
                assert_eq!(restored.files(), Vec::<String>::new(), "{path}");
                refused += 1;
            }
        }
        for at in (0..manifest.len() as u64).step_by(37) {
            let to = Places::new(12, encrypted);
            to.outer.write_durable("BACKUP", 0, &manifest);
            to.outer.flip("BACKUP", at, (dice.next() % 8) as u8);
            let error = to.restore(&machine(11, encrypted)).expect_err("a changed manifest");
            assert!(matches!(error, BackupError::Manifest(_)), "{at}: {error}");
            refused += 1;
        }
    }
    told(&format!("backup: {refused} changed ones refused, 0 restored"));
}

#[test]
fn a_crashed_restore_leaves_a_complete_store_or_a_detectable_partial_one() {
    for encrypted in [false, true] {
        let mut filled = Filled::new(13, encrypted);
        let take = LeaseCall::Take { steal: false, ttl: Duration::from_secs(3_600), key: None };
        let fence = runtime().block_on(filled.store.lease(&key("s1"), take)).unwrap().0.fence;
        let to = Places::new(13, encrypted);
        filled.back_up(&to, &mut |_, _| {}).unwrap();
        let (mut none, mut whole) = (0, 0);
        let undisturbed = machine(13, encrypted);
        to.restore(&undisturbed).unwrap();
        // It is a valid store only after the last call.
        let calls = undisturbed.calls();
        for at in (0..calls + 2).filter(|at| at % 2 == 0 || at + 8 > calls) {
            let restored = machine(13, encrypted);
            // A kill leaves the written bytes, in the order of the writes.
            let fault = if at % 4 == 0 { Fault::PowerLoss } else { Fault::Kill };
            restored.fail_call(at, fault, false);
            let told = to.restore(&restored);
            let struck = restored.struck();
            restored.heal();
            restored.kill();
            match LocalStore::open_local(&restored.env(), small()) {
                Err(OpenError::Unfinished) => {
                    let again = to.restore(&restored).unwrap();
                    assert!(again.repeated && again.verified.damage.is_empty(), "{at}");
                    let store = LocalStore::open_local(&restored.env(), small()).unwrap();
                    for (key, known) in &filled.acknowledged {
                        assert_eq!(read_bodies(&store, key), known[..], "{at}, repeated");
                    }
                    none += 1;
                }
                Err(error) => panic!("{at}: {error}"),
                Ok(store) if store.recovery().sessions == 0 => none += 1,
                Ok(store) => {
                    for (key, known) in &filled.acknowledged {
                        assert_eq!(read_bodies(&store, key), known[..], "{at}");
                    }
                    let fenced = Batch { fence: Some(fence), ..batch([event("{}")]) };
                    let refused = runtime().block_on(append(&store, &key("s1"), fenced));
                    let lost = matches!(refused, Err(StoreError::LeaseLost { .. }));
                    assert!(lost, "{at}: a lease from before: {refused:?}");
                    whole += 1;
                }
            }
            assert!(struck || told.is_ok(), "{at}");
        }
        assert!(none > 5 && whole > 2, "{none} {whole}");
    }
}

#[test]
fn a_failed_restore_leaves_the_target_directory_empty() {
    let mut filled = Filled::new(14, true);
    let to = Places::new(14, true);
    filled.back_up(&to, &mut |_, _| {}).unwrap();
    let undisturbed = machine(14, true);
    to.restore(&undisturbed).unwrap();
    let mut refused = 0;
    for at in (0..undisturbed.calls()).step_by(5) {
        let restored = machine(14, true);
        restored.fail_call(at, Fault::Io, false);
        if to.restore(&restored).is_err() {
            assert_eq!(restored.files(), Vec::<String>::new(), "{at}");
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_backup_needs_an_unused_target_and_its_master_key() {
    let mut filled = Filled::new(17, true);
    let to = Places::new(17, true);
    filled.back_up(&to, &mut |_, _| {}).unwrap();
    let again = BackupWriter::begin(&to.outer.env(), &to.inner.env());
    assert!(matches!(again.err(), Some(BackupError::Occupied)));
    let occupied = machine(17, true);
    occupied.write_durable("notes.txt", 0, b"mine");
    assert!(matches!(to.restore(&occupied), Err(BackupError::Occupied)));
    assert_eq!(occupied.files(), ["notes.txt"]);
    for path in to.inner.files() {
        let bytes = to.inner.read_durable(&path).unwrap();
        let found = holds(&bytes, CANARY);
        assert!(!found, "{path} holds what was recorded");
    }
    for keys in [None, Sim::encrypted(18).env().keys] {
        let restored = Sim::new(17);
        restored.set_keys(keys.as_deref().cloned());
        let error = to.restore(&restored).expect_err("it wants its key");
        assert!(matches!(error, BackupError::Open(OpenError::Key { .. })), "{error}");
        assert_eq!(restored.files(), Vec::<String>::new());
    }
    // Paths sent by a server are validated.
    let to = Places::new(17, true);
    let mut incoming = to.begin();
    for path in ["../x", "/etc/x", "LOCK", "BACKUP", "owner.sock", "segments/../../x", "keys/"] {
        assert!(incoming.write_part(path, b"x").is_err(), "{path}");
    }
}

#[test]
fn a_lease_from_before_a_restore_is_rejected_after_it() {
    let mut filled = Filled::new(23, false);
    let take = LeaseCall::Take { steal: false, ttl: Duration::from_secs(3_600), key: None };
    let leased = runtime().block_on(filled.store.lease(&key("s1"), take));
    let fence = leased.unwrap().0.fence;
    let to = Places::new(23, false);
    filled.back_up(&to, &mut |_, _| {}).unwrap();
    // The running store generates different tokens.
    let stolen = LeaseCall::Take { steal: true, ttl: Duration::from_secs(3_600), key: None };
    let later = runtime().block_on(filled.store.lease(&key("s1"), stolen)).unwrap().0.fence;
    let restored = Sim::new(23);
    to.restore(&restored).unwrap();
    let store = LocalStore::open_local(&restored.env(), small()).unwrap();
    for old in [fence, later] {
        let fenced = Batch { fence: Some(old), ..batch([event("{}")]) };
        let refused = runtime().block_on(append(&store, &key("s1"), fenced));
        assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
    }
    let fresh = runtime().block_on(store.lease(&key("s1"), take)).unwrap().0.fence;
    assert!(fresh > later, "no token comes twice: {fresh:?} {later:?}");
    let fenced = Batch { fence: Some(fresh), ..batch([event("{}")]) };
    runtime().block_on(append(&store, &key("s1"), fenced)).unwrap();
}

/// Makes a backup of a store; it is not restored.
fn make_backup(store: &LocalStore, to: &Places) {
    let mut incoming = to.begin();
    let made = store
        .backup(&mut |part| incoming.write_part(&part.path, &part.bytes).map_err(io::Error::other));
    incoming.finish_parts(&made.unwrap()).unwrap();
    incoming.seal().unwrap();
}

/// Sessions whose lease cannot be ended by a request: expired, damaged, archived.
#[test]
fn a_lease_of_a_session_that_rejects_writes_is_invalid_after_a_restore() {
    let take =
        LeaseCall::Take { steal: false, ttl: Duration::from_secs(90 * 24 * 3_600), key: None };
    let filled = Filled::new(29, false);
    runtime().block_on(async {
        let (kept, sim) = (Arc::clone(&filled.store), filled.sim.clone());
        let (store, clock) = (&*kept, sim.clock());
        let mut fences = Vec::new();
        for (name, ttl_seconds) in [("expired", Some(3_600)), ("damaged", None), ("archived", None)]
        {
            let id = Some(SessionId::new(name).unwrap());
            let new = NewSession { id, ttl_seconds, ..NewSession::default() };
            store.create(&key(name).scope, new).await.unwrap();
            let before = sim.files();
            for n in 0..9 {
                append(store, &key(name), batch([event(&format!("{{\"n\":{n}}}"))])).await.unwrap();
            }
            fences.push((name, store.lease(&key(name), take).await.unwrap().0.fence));
            store.flush().unwrap();
            if name == "archived" {
                let archive = SessionUpdate { archive: Some(true), ..SessionUpdate::default() };
                store.change(&key(name), archive).await.unwrap();
            }
            if name == "damaged" {
                let made = sim.files();
                let own =
                    made.iter().find(|path| path.starts_with("segments") && !before.contains(path));
                sim.flip(own.unwrap(), 700, 1);
            }
        }
        store.scrub();
        clock.advance(Duration::from_secs(2 * 3_600));
        assert_eq!(store.sweep().await.unwrap().expired, [key("expired")]);
        let to = Places::new(29, false);
        make_backup(store, &to);
        let restored = Sim::new(29);
        restored.clock().set(clock.now());
        let told = to.restore_within(&restored).await.unwrap();
        assert_eq!(told.verified.damage.len(), 1, "{:?}", told.verified.damage);
        let store = LocalStore::open_local(&restored.env(), small()).unwrap();
        let back = SessionUpdate { restore: true, ..SessionUpdate::default() };
        store.change(&key("expired"), back).await.unwrap();
        store.repair(&key("damaged"), true).await.unwrap();
        let open = SessionUpdate { archive: Some(false), ..SessionUpdate::default() };
        store.change(&key("archived"), open).await.unwrap();
        for (name, fence) in fences {
            let fenced = Batch { fence: Some(fence), ..batch([event("{}")]) };
            let refused = append(&store, &key(name), fenced).await;
            assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{name}: {refused:?}");
            let fresh = store.lease(&key(name), take).await.unwrap().0.fence;
            assert!(fresh.0 > fence.0 + 1, "{name}: {fresh:?}, and {fence:?} before");
        }
    });
}

/// A session whose key is lost cannot be written: its lease does not block a restore.
#[test]
fn a_leased_session_with_a_lost_key_does_not_block_a_restore() {
    let take =
        LeaseCall::Take { steal: false, ttl: Duration::from_secs(90 * 24 * 3_600), key: None };
    let filled = Filled::new(31, true);
    let (sim, acknowledged) = (filled.sim.clone(), filled.acknowledged.clone());
    runtime().block_on(async {
        for name in acknowledged.keys() {
            filled.store.lease(name, take).await.unwrap();
        }
        filled.store.flush().unwrap();
        drop(filled);
        sim.kill();
        let slots = sim.read_durable("keys/0").unwrap().len() as u64 / KEY_SLOT_BYTES;
        let flip = |number: u64| {
            let at = number * KEY_SLOT_BYTES + 20;
            ["keys/0", "keys/1"].iter().for_each(|path| sim.flip(path, at, 1));
        };
        let mut lost = 0;
        for number in 1..slots {
            flip(number);
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            let damaged = store.verify(&Scope::local(), None).await.unwrap().damage.len();
            if damaged == 1 {
                let to = Places::new(31, true);
                make_backup(&store, &to);
                let told = to.restore_within(&machine(31, true)).await.unwrap();
                assert_eq!(told.verified.damage.len(), 1, "key {number}");
                lost += 1;
            }
            drop(store);
            sim.kill();
            if lost > 0 {
                return;
            }
            flip(number);
        }
        panic!("no session had a key");
    });
}

#[test]
fn a_damaged_session_stays_damaged_in_its_backup_and_the_others_are_intact() {
    let filled = Filled::new(19, false);
    (0..4).for_each(|_| filled.store.flush().unwrap());
    let files = filled.sim.files();
    let hurt = files.iter().rfind(|path| path.starts_with("segments/")).unwrap();
    filled.sim.spoil_sector(hurt, 1);
    filled.store.scrub();
    let to = Places::new(19, false);
    make_backup(&filled.store, &to);
    let restored = Sim::new(19);
    let told = to.restore(&restored).unwrap();
    assert_eq!(told.verified.damage.len(), 1, "{:?}", told.verified.damage);
    let lost = &told.verified.damage[0].0;
    let store = LocalStore::open_local(&restored.env(), small()).unwrap();
    for (key, known) in &filled.acknowledged {
        if key != lost {
            assert_eq!(read_bodies(&store, key), known[..]);
        }
    }
    let left = runtime().block_on(whole_of(&store, lost)).len();
    assert!(left < filled.acknowledged[lost].len());
}

#[test]
fn a_backup_fails_if_its_segments_are_deleted_on_a_full_disk() {
    let mut filled = Filled::new(29, false);
    (0..4).for_each(|_| filled.store.flush().unwrap());
    let to = Places::new(29, false);
    let made = filled.back_up(&to, &mut |filled, part| {
        if part == 1 {
            filled.sim.set_capacity(Some(filled.sim.used()));
            (0..9).for_each(|_| filled.append("s1"));
            assert!(filled.store.flush().is_err(), "there is no room");
            for name in filled.names.clone() {
                let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
                runtime().block_on(filled.store.change(&key(&name), gone)).unwrap();
            }
        }
    });
    let error = made.expect_err("it lacks what was deleted to make room");
    assert!(error.contains("make the backup again"), "{error}");
    assert!(matches!(to.restore(&Sim::new(30)), Err(BackupError::Manifest(_))));
}

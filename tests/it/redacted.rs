//! Redaction: the position, id, type and chain of a redacted event remain, and its body is in no
//! file, independent of storage, crashes and restored copies; no other event changes. It must not
//! use internals of the engine, but it reads every file with its keys.

use std::collections::BTreeMap;

use bytes::Bytes;
use sessionlog::{
    event::{BatchKey, EventId, Position, Scope},
    log::{
        Cipher, Frame, FrameHeader, KeyNumber, RecordBody, StoreFile, batch_digest,
        journal::JournalHeader,
        keyring::{KeySlot, MasterKey},
        record,
        scan::{ScanPiece, scan},
        segment::SegmentHeader,
    },
    store::{
        ForkPoint, Listing, Maintain, NewSession, ReadRequest, SessionUpdate, Store, StoreError,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, events_of, everything, key, named, small},
    life::{AGES, Age, machine, runtime},
    nth::{Nth, cases},
    store::on_every_engine,
};

const CANARY: &str = "canary-77b0e1c94d";
const GONE: &str = r#"{"redacted":true}"#;
/// Position of the redacted event, and number of events.
const AT: usize = 13;
const EVENTS: usize = 30;

/// Opens the store; in plaintext without compression, so that a body is stored verbatim.
fn open(sim: &Sim) -> LocalStore {
    let compression = sim.env().keys.is_some();
    LocalStore::open_local(&sim.env(), StoreOptions { compression, ..small() }).unwrap()
}

fn id(n: usize) -> EventId {
    EventId::new(&format!("e{n}")).unwrap()
}

fn body(n: usize) -> String {
    let word = if n == AT { CANARY } else { "other" };
    format!("{{\"n\":{n},\"text\":\"{}\"}}", format!("{word} ").repeat(20))
}

/// Creates two sessions of equal events; the redacted one shares a batch with its neighbours.
async fn fill(sim: &Sim, age: Age) -> LocalStore {
    let mut store = open(sim);
    for name in ["s", "other"] {
        create(&store, name).await;
    }
    for n in (0..EVENTS).step_by(3) {
        for name in ["s", "other"] {
            let events = (n..n + 3).map(|n| match name {
                "s" => named(id(n).as_str(), &body(n)),
                _ => event(&body(0)),
            });
            let mut sent = batch(events);
            sent.key = Some(BatchKey::new(&format!("batch {n}")).unwrap());
            append(&store, &key(name), sent).await.unwrap();
        }
        if age != Age::Journal && n % 9 == 6 {
            store.flush().unwrap();
        }
    }
    match age {
        Age::Journal => {}
        Age::Settled => store.flush().unwrap(),
        Age::Sealed | Age::Restarted => {
            store.close().await;
            drop(store);
            store = open(sim);
            if age == Age::Restarted {
                append(&store, &key("s"), batch([event("{}")])).await.unwrap();
                sim.kill();
                store = open(sim);
            }
        }
    }
    store
}

/// Returns every key of the store.
pub fn ciphers(sim: &Sim) -> BTreeMap<KeyNumber, Cipher> {
    let Some(given) = sim.env().keys else { return BTreeMap::new() };
    let Some(store) = sim.read_durable("STORE") else { return BTreeMap::new() };
    let store = StoreFile::decode(&store).unwrap().id;
    let master = MasterKey::new(given.current.bytes());
    let slots = sim.read_durable("keys/0").unwrap();
    let key = |(number, slot): (usize, &[u8])| {
        let number = KeyNumber(number as u64);
        let KeySlot::Key(wrapped) = KeySlot::decode(number, slot).unwrap() else { return None };
        let key = master.unwrap(store, &wrapped).unwrap();
        Some((number, Cipher::new(&key, store, number)))
    };
    slots.chunks(128).enumerate().skip(1).filter_map(key).collect()
}

/// Returns the intact frames of a file.
pub fn frames(path: &str, bytes: &Bytes) -> Vec<Frame> {
    let (salt, from) = match JournalHeader::decode(bytes) {
        Ok(header) if path.starts_with("journal") => (header.salt, 8192),
        _ => match SegmentHeader::decode(bytes) {
            Ok(header) => (header.salt, 192),
            Err(_) => return Vec::new(),
        },
    };
    let pieces = scan(salt, &bytes.slice(from..), from as u64).pieces.into_iter();
    let whole = pieces.filter_map(|piece| match piece {
        ScanPiece::Frame { frame, .. } => Some(frame),
        ScanPiece::Bad { .. } => None,
    });
    whole.collect()
}

/// Returns the digest of the content of the batch with the event.
fn digest() -> [u8; 32] {
    let first = AT - AT % 3;
    let events = (first..first + 3).map(|n| named(id(n).as_str(), &body(n)));
    batch_digest(&events.collect::<Vec<_>>())
}

/// Returns every file that has the body, or a digest that can confirm a guess at it: verbatim,
/// compressed, or encrypted.
pub fn holding(sim: &Sim) -> Vec<String> {
    let (ciphers, digest) = (ciphers(sim), digest());
    let has = |path: &str, bytes: &Bytes| {
        let within = |frame: Frame| {
            let number = frame.header.encrypted.map(|encrypted| encrypted.key);
            let cipher = number.and_then(|number| ciphers.get(&number));
            // A frame that no key decrypts is skipped.
            let records = frame.decrypt(cipher).and_then(|frame| frame.records());
            records.unwrap_or_default().iter().any(|(_, record)| match &record.body {
                RecordBody::Whole { body, .. } => holds(body, CANARY) || holds(body, digest),
                RecordBody::Redacted { .. } => false,
            })
        };
        holds(bytes, CANARY) || frames(path, bytes).into_iter().any(within)
    };
    let files = sim.files().into_iter();
    files
        .filter(|path| sim.read_durable(path).is_some_and(|bytes| has(path, &bytes.into())))
        .collect()
}

/// Returns true if the event is redacted; checks that every other event is unchanged.
async fn is_redacted(store: &LocalStore) -> bool {
    let events = events_of(store, &key("s")).await;
    assert!(events.len() >= EVENTS, "{}", events.len());
    for (n, one) in events.iter().take(EVENTS).enumerate() {
        assert_eq!((one.position, &one.id), (Position(n as u64), &id(n)));
        assert_eq!(one.kind.as_str(), "user.message");
        if n != AT {
            assert_eq!(one.body, body(n).as_bytes());
        }
    }
    assert_eq!(events_of(store, &key("other")).await.len(), EVENTS);
    let verified = store.verify(&key("s").scope, None).await.unwrap();
    assert_eq!((verified.sessions, verified.damage), (2, vec![]));
    let gone = events[AT].body == GONE.as_bytes();
    assert!(gone || events[AT].body == body(AT).as_bytes());
    let redacted = events.iter().filter(|one| one.body == GONE.as_bytes()).count();
    assert_eq!(store.info(&key("s")).await.unwrap().rewritten, redacted as u64);
    gone
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_event_has_no_body_and_its_retry_is_answered() {
    on_every_engine(async |store, _| {
        for name in ["s", "held"] {
            create(store, name).await;
            let mut sent = batch([named("a", "{\"n\":1}"), named("b", "{\"n\":2}")]);
            sent.key = Some(BatchKey::new("turn").unwrap());
            append(store, &key(name), sent).await.unwrap();
        }
        let before = store.info(&key("s")).await.unwrap().receipt;
        let id = |text: &str| EventId::new(text).unwrap();
        assert_eq!(store.redact(&key("s"), &id("b")).await.unwrap(), Some(Position(1)));
        assert_eq!(store.redact(&key("s"), &id("b")).await.unwrap(), Some(Position(1)));
        assert_eq!(store.redact(&key("s"), &id("c")).await.unwrap(), None);
        let events = events_of(store, &key("s")).await;
        let bodies: Vec<&[u8]> = events.iter().map(|event| &event.body[..]).collect();
        assert_eq!(bodies, [&b"{\"n\":1}"[..], b"{\"redacted\":true}"]);
        assert_eq!(events[1].id, id("b"));
        assert_eq!(store.info(&key("s")).await.unwrap().receipt, before);
        for text in ["{\"n\":2}", "{\"n\":3}"] {
            let known = append(store, &key("s"), batch([named("b", text)])).await.unwrap();
            assert!(known.repeated && known.first_position == Position(1), "{text}");
            let mut sent = batch([event(text), event(text)]);
            sent.key = Some(BatchKey::new("turn").unwrap());
            let known = append(store, &key("s"), sent).await.unwrap();
            assert!(known.repeated && known.first_position == Position(0), "{text}");
        }
        let conflict = append(store, &key("s"), batch([named("a", "{}")])).await.unwrap_err();
        assert!(matches!(conflict, StoreError::IdempotencyConflict { .. }), "{conflict}");
        let hold = SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
        store.change(&key("held"), hold).await.unwrap();
        let held = store.redact(&key("held"), &id("a")).await.unwrap_err();
        assert!(matches!(held, StoreError::SessionHeld { .. }), "{held}");
        let unknown = store.redact(&key("nobody"), &id("a")).await.unwrap_err();
        assert!(matches!(unknown, StoreError::SessionNotFound { .. }), "{unknown}");
        assert_eq!(events_of(store, &key("held")).await[0].body, b"{\"n\":1}"[..]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_of_redactions_rises_with_each_redacted_event() {
    on_every_engine(async |store, _| {
        for name in ["s", "other"] {
            create(store, name).await;
            let events = ["a", "b", "c"].map(|id| named(id, "{}"));
            append(store, &key(name), batch(events)).await.unwrap();
        }
        let parent = Some(ForkPoint { session: key("s").session, at: Position(2) });
        let id = Some(key("fork").session);
        let fork = NewSession { id, parent, ..NewSession::default() };
        store.create(&Scope::local(), fork).await.unwrap();
        append(store, &key("fork"), batch([named("d", "{}")])).await.unwrap();
        let counts = async || {
            let mut counts = Vec::new();
            for name in ["s", "fork", "other"] {
                counts.push(store.info(&key(name)).await.unwrap().rewritten);
            }
            counts
        };
        assert_eq!(counts().await, [0, 0, 0]);
        for (session, id, expected) in [
            ("s", "b", [1, 0, 0]),
            ("s", "b", [1, 0, 0]),
            ("s", "unknown", [1, 0, 0]),
            ("s", "c", [2, 0, 0]),
            // A fork reads shared events from its parent.
            ("fork", "a", [3, 0, 0]),
            ("fork", "d", [3, 1, 0]),
        ] {
            store.redact(&key(session), &EventId::new(id).unwrap()).await.unwrap();
            assert_eq!(counts().await, expected, "{session}: {id}");
        }
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        let title = SessionUpdate { title: Some(Some("t".to_owned())), ..SessionUpdate::default() };
        assert_eq!(store.change(&key("s"), title).await.unwrap().rewritten, 3);
        let listed = store.list(&Scope::local(), Listing::default()).await.unwrap().sessions;
        let sum: u64 = listed.iter().map(|info| info.rewritten).sum();
        assert_eq!(sum, 4, "a listing says the same");
    })
    .await;
}

#[test]
fn a_redacted_body_is_in_no_file_after_any_kind_of_stop() {
    for encrypted in [false, true] {
        for age in AGES {
            let told = format!("{age:?}, encrypted: {encrypted}");
            let sim = machine(71, encrypted);
            runtime().block_on(async {
                let store = fill(&sim, age).await;
                assert!(!is_redacted(&store).await && !holding(&sim).is_empty(), "{told}");
                let before = store.info(&key("s")).await.unwrap().receipt;
                let at = store.redact(&key("s"), &id(AT)).await.unwrap();
                assert_eq!(at, Some(Position(AT as u64)), "{told}");
                assert!(is_redacted(&store).await, "{told}");
                assert_eq!(holding(&sim), Vec::<String>::new(), "{told}");
                assert_eq!(store.redact(&key("s"), &id(AT)).await.unwrap(), at, "again");
                assert_eq!(store.info(&key("s")).await.unwrap().receipt, before, "{told}");
                store.scrub();
                assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "{told}");
                for (stop, clean) in [false, true, false, true].into_iter().enumerate() {
                    sim.power_loss();
                    // Each settled file alone keeps the redaction.
                    sim.remove_durable(&format!("settled/{}", stop % 2));
                    let store = open(&sim);
                    assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
                    assert!(is_redacted(&store).await, "{told}");
                    append(&store, &key("s"), batch([event("{}")])).await.unwrap();
                    store.flush().unwrap();
                    if clean {
                        store.close().await;
                    }
                    assert_eq!(holding(&sim), Vec::<String>::new(), "{told}");
                }
            });
        }
    }
}

/// Runs a flush that dies at that call, then a start and a redaction; returns the number of calls.
fn redact_after_failed_flush(encrypted: bool, call: u64, fault: Option<Fault>) -> u64 {
    let sim = machine(74, encrypted);
    runtime().block_on(async {
        let store = open(&sim);
        for name in ["s", "other"] {
            create(&store, name).await;
        }
        // Flushed and named here; what follows is written and, for a while, not named.
        (0..2).for_each(|_| store.flush().unwrap());
        for n in 0..EVENTS {
            append(&store, &key("s"), batch([named(id(n).as_str(), &body(n))])).await.unwrap();
            append(&store, &key("other"), batch([event("{}")])).await.unwrap();
        }
        let before = sim.calls();
        if let Some(fault) = fault {
            sim.fail_call(before + call, fault, false);
        }
        let _ = store.flush();
        let calls = sim.calls() - before;
        drop(store);
        sim.kill();
        sim.heal();
        let store = open(&sim);
        store.redact(&key("s"), &id(AT)).await.unwrap();
        assert!(is_redacted(&store).await);
        assert_eq!(holding(&sim), Vec::<String>::new(), "call {call}: {fault:?}");
        store.scrub();
        assert_eq!(store.recovery().scrub.found, Vec::<String>::new());
        calls
    })
}

#[test]
fn a_redacted_body_in_a_segment_no_settled_file_names_is_removed() {
    for encrypted in [false, true] {
        let calls = redact_after_failed_flush(encrypted, 0, None);
        for call in 0..calls {
            for fault in [Fault::Kill, Fault::PowerLoss] {
                redact_after_failed_flush(encrypted, call, Some(fault));
            }
        }
    }
}

#[test]
fn redacting_events_one_by_one_keeps_all_others() {
    for encrypted in [false, true] {
        for age in [Age::Settled, Age::Sealed] {
            let sim = machine(72, encrypted);
            runtime().block_on(async {
                let store = fill(&sim, age).await;
                // One start seals a segment again and again.
                for n in [AT - 1, AT, AT + 1, 0, EVENTS - 1] {
                    store.redact(&key("s"), &id(n)).await.unwrap();
                    let events = events_of(&store, &key("s")).await;
                    assert_eq!(events.len(), EVENTS);
                    assert_eq!(events[n].body, GONE.as_bytes());
                    assert_eq!(events[5].body, body(5).as_bytes());
                }
                assert_eq!(holding(&sim), Vec::<String>::new());
                let unknown = EventId::new("nobody").unwrap();
                assert_eq!(store.redact(&key("s"), &unknown).await.unwrap(), None);
                let verified = store.verify(&key("s").scope, None).await.unwrap();
                assert_eq!(verified.damage, []);
                store.close().await;
                let store = open(&sim);
                assert_eq!(events_of(&store, &key("s")).await[AT].body, GONE.as_bytes());
            });
        }
    }
}

/// Ids and batch keys still identify retries, but their content can no longer be compared.
#[test]
fn a_retry_of_a_redacted_event_is_answered_with_any_content() {
    for age in AGES {
        let sim = machine(73, true);
        runtime().block_on(async {
            let mut store = fill(&sim, age).await;
            store.redact(&key("s"), &id(AT)).await.unwrap();
            for stop in 0..4 {
                let told = format!("{age:?}, stop {stop}");
                for text in [body(AT), "{\"another\":1}".to_owned()] {
                    let sent = batch([named(id(AT).as_str(), &text)]);
                    let known = append(&store, &key("s"), sent).await.unwrap();
                    assert!(known.repeated && known.first_position.0 == AT as u64, "{told}");
                }
                let mut sent = batch((0..3).map(|_| event("{\"other\":2}")));
                sent.key = Some(BatchKey::new("batch 12").unwrap());
                let known = append(&store, &key("s"), sent.clone()).await.unwrap();
                assert!(known.repeated && known.first_position.0 == 12, "{told}");
                sent.events = sent.events[..2].into();
                let conflict = append(&store, &key("s"), sent.clone()).await.unwrap_err();
                let conflicts = matches!(conflict, StoreError::IdempotencyConflict { .. });
                assert!(conflicts, "{told}: {conflict}");
                sent.key = Some(BatchKey::new("batch 15").unwrap());
                let conflict = append(&store, &key("s"), sent).await.unwrap_err();
                let conflicts = matches!(conflict, StoreError::IdempotencyConflict { .. });
                assert!(conflicts, "{told}: of a batch without a redacted event: {conflict}");
                let other = batch([named(id(AT + 1).as_str(), "{\"another\":1}")]);
                append(&store, &key("s"), other).await.unwrap_err();
                append(&store, &key("s"), batch([event("{}")])).await.unwrap();
                if stop % 2 == 0 {
                    store.close().await;
                } else {
                    sim.kill();
                }
                drop(store);
                store = open(&sim);
            }
        });
    }
}

#[test]
fn a_redaction_in_a_held_damaged_or_unknown_session_is_rejected() {
    let sim = machine(74, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        let hold = |hold| SessionUpdate { hold: Some(hold), ..SessionUpdate::default() };
        store.change(&key("s"), hold(true)).await.unwrap();
        let refused = store.redact(&key("s"), &id(AT)).await;
        assert!(matches!(refused, Err(StoreError::SessionHeld { .. })), "{refused:?}");
        store.change(&key("s"), hold(false)).await.unwrap();
        let unknown = store.redact(&key("nobody"), &id(AT)).await;
        assert!(matches!(unknown, Err(StoreError::SessionNotFound { .. })), "{unknown:?}");
        let foreign = sessionlog::event::SessionKey {
            scope: crate::engines::other_scope(),
            session: key("s").session,
        };
        let unknown = store.redact(&foreign, &id(AT)).await;
        assert!(matches!(unknown, Err(StoreError::SessionNotFound { .. })), "{unknown:?}");
        assert!(!is_redacted(&store).await);
        // An archived session takes no appends, but its events can be redacted.
        let archive = SessionUpdate { archive: Some(true), ..SessionUpdate::default() };
        store.change(&key("s"), archive).await.unwrap();
        store.redact(&key("s"), &id(AT)).await.unwrap();
        assert!(is_redacted(&store).await);
        drop(store);
        sim.kill();
        for path in sim.files().iter().filter(|path| path.ends_with(".sealed")) {
            sim.flip(path, 300, 3);
        }
        let store = open(&sim);
        let some = ReadRequest { allow_gaps: true, ..everything() };
        assert!(store.read(&key("s"), some).await.is_ok_and(|slice| !slice.gaps.is_empty()));
        let refused = store.redact(&key("s"), &id(AT + 9)).await;
        assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "{refused:?}");
    });
}

/// An operator restores copies of every file but those in `settled/`.
#[test]
fn a_redacted_body_restored_from_a_copy_is_not_served() {
    for encrypted in [false, true] {
        for age in AGES {
            let told = format!("{age:?}, encrypted: {encrypted}");
            let sim = machine(75, encrypted);
            runtime().block_on(async {
                drop(fill(&sim, age).await);
                sim.power_loss();
                let copy = |path: String| Some((path.clone(), sim.read_durable(&path)?));
                let before: BTreeMap<_, _> = sim.files().into_iter().filter_map(copy).collect();
                let store = open(&sim);
                store.redact(&key("s"), &id(AT)).await.unwrap();
                drop(store);
                sim.power_loss();
                let kept = |path: &str| path.starts_with("settled/");
                let now: Vec<String> = sim.files();
                // Old segments also under the names of their replacements.
                let sealed = |path: &&String| path.ends_with(".sealed");
                for (path, bytes) in before.iter().filter(|(path, _)| !kept(path)) {
                    let others = now.iter().filter(sealed).filter(|_| path.starts_with("segm"));
                    for name in others.chain([path]) {
                        sim.truncate_durable(name, 0);
                        sim.write_durable(name, 0, bytes);
                    }
                }
                assert!(!holding(&sim).is_empty(), "{told}: it is put back");
                let Ok(store) = LocalStore::open_local(&sim.env(), small()) else { return };
                let some = ReadRequest { allow_gaps: true, ..everything() };
                let Ok(slice) = store.read(&key("s"), some).await else { return };
                for event in slice.events {
                    assert!(!holds(&event.body, CANARY), "{told}");
                }
            });
        }
    }
}

/// The redaction is durable, but removing the body fails: the body is not served.
pub async fn not_taken_away_yet(seed: u64) {
    let sim = machine(76 + seed, seed % 2 == 1);
    let store = fill(&sim, Age::Settled).await;
    assert_eq!(events_of(&store, &key("s")).await.len(), EVENTS, "memory has it");
    sim.fail_next(Op::Create, Fault::Io, true);
    let failed = store.redact(&key("s"), &id(AT)).await;
    let Err(StoreError::Unfinished { doing, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(doing, "sealing its segments without the bodies", "the step that failed");
    assert!(!holding(&sim).is_empty());
    assert!(is_redacted(&store).await);
    drop(store);
    sim.heal();
    for _ in 0..2 {
        sim.kill();
        assert!(is_redacted(&open(&sim)).await);
    }
    let store = open(&sim);
    store.flush().unwrap();
    assert_eq!(holding(&sim), Vec::<String>::new(), "a start finishes what was begun");
    assert!(is_redacted(&store).await);
}

#[test]
fn a_redacted_body_that_cannot_be_removed_yet_is_not_served() {
    (0..4).for_each(|seed| runtime().block_on(not_taken_away_yet(seed)));
}

/// A watermark begins at the next block. Bytes from an earlier use of the file before it have lost
/// the header that names their session.
#[test]
fn a_redacted_body_before_a_watermark_is_removed() {
    for encrypted in [false, true] {
        let sim = machine(79, encrypted);
        runtime().block_on(async {
            let store = open(&sim);
            create(&store, "s").await;
            let long = format!("{{\"text\":\"{}\"}}", format!("{CANARY} ").repeat(1_000));
            append(&store, &key("s"), batch([named("long", &long)])).await.unwrap();
            let used = holding_in_journal(&sim).expect("the body is in a file of the journal");
            let header = |sim: &Sim| JournalHeader::decode(&sim.read_durable(&used).unwrap());
            let before = header(&sim).unwrap();
            // Append until the file is reused.
            for n in 0.. {
                assert!(n < 10_000, "{used} is not used again");
                if header(&sim).unwrap().order != before.order {
                    break;
                }
                append(&store, &key("s"), batch([event("{}")])).await.unwrap();
                store.flush().unwrap();
            }
            store.write_idle_watermark();
            append(&store, &key("s"), batch([event("{}")])).await.unwrap();
            assert_eq!(holding_in_journal(&sim), (!encrypted).then_some(used));
            store.redact(&key("s"), &EventId::new("long").unwrap()).await.unwrap();
            assert_eq!(holding(&sim), Vec::<String>::new());
            sim.power_loss();
            assert_eq!(open(&sim).recovery().damage, Vec::<String>::new());
        });
    }
}

/// Fails a write to a reused file, so that no later write marks its end. Returns true if that file
/// had the body.
fn fail_reused_file(encrypted: bool, appends: usize) -> bool {
    let sim = machine(80, encrypted);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "s").await;
        let long = format!("{{\"text\":\"{}\"}}", format!("{CANARY} ").repeat(1_000));
        let long = named("long", &long);
        append(&store, &key("s"), batch([long])).await.unwrap();
        let used = holding_in_journal(&sim).expect("the body is in a file of the journal");
        let order = || {
            let file = sim.env().storage.open_read(&used).unwrap();
            JournalHeader::read(&*file).unwrap().order
        };
        let before = order();
        let pad = format!("\"{}\"", "x".repeat(1_000));
        let one = async || append(&store, &key("s"), batch([event(&pad)])).await;
        for _ in 0..40 {
            one().await.unwrap();
        }
        (0..2).for_each(|_| store.flush().unwrap());
        sim.fail_writing("settled/", Fault::Io);
        store.redact(&key("s"), &EventId::new("long").unwrap()).await.unwrap_err();
        sim.heal();
        for _ in 0..appends {
            one().await.unwrap();
        }
        if order() != before {
            return false;
        }
        sim.fail_next(Op::Sync, Fault::Io, false);
        one().await.unwrap_err();
        let reused = order() != before;
        store.redact(&key("s"), &EventId::new("long").unwrap()).await.unwrap();
        assert_eq!(holding(&sim), Vec::<String>::new(), "{appends} appends");
        sim.power_loss();
        assert_eq!(open(&sim).recovery().damage, Vec::<String>::new());
        reused
    })
}

#[test]
fn a_redacted_body_in_a_failed_journal_file_is_removed() {
    for encrypted in [false, true] {
        assert!((0..25).any(|appends| fail_reused_file(encrypted, appends)));
    }
}

/// Returns the first journal file that has the body.
fn holding_in_journal(sim: &Sim) -> Option<String> {
    holding(sim).into_iter().find(|path| path.starts_with("journal/"))
}

/// Bytes in the last block of a poisoned journal file are repeated in the next file.
#[test]
fn a_failed_journal_file_does_not_restore_a_redacted_body() {
    for encrypted in [false, true] {
        let sim = machine(77, encrypted);
        runtime().block_on(async {
            let store = fill(&sim, Age::Settled).await;
            let last = named("last", &format!("{{\"text\":\"{CANARY}\"}}"));
            append(&store, &key("s"), batch([last])).await.unwrap();
            for id in [id(AT), EventId::new("last").unwrap()] {
                store.redact(&key("s"), &id).await.unwrap();
            }
            assert_eq!(holding(&sim), Vec::<String>::new());
            sim.fail_next(Op::Sync, Fault::Io, false);
            append(&store, &key("s"), batch([event("{}")])).await.unwrap_err();
            append(&store, &key("s"), batch([event("{}")])).await.unwrap();
            assert_eq!(holding(&sim), Vec::<String>::new());
            sim.power_loss();
            let store = open(&sim);
            assert_eq!(store.recovery().damage, Vec::<String>::new());
            assert!(is_redacted(&store).await);
        });
    }
}

/// Runs a redaction with a fault; returns its number of calls.
fn redact_with_fault(encrypted: bool, age: Age, case: Option<Nth>) -> u64 {
    let sim = machine(78, encrypted);
    runtime().block_on(async {
        let store = fill(&sim, age).await;
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        let answer = store.redact(&key("s"), &id(AT)).await;
        let calls = sim.calls() - first;
        let told = format!("{age:?}, encrypted: {encrypted}, {case:?}");
        drop(store);
        sim.heal();
        sim.power_loss();
        if answer.is_ok() {
            assert_eq!(holding(&sim), Vec::<String>::new(), "{told}: it was answered");
        }
        let store = open(&sim);
        assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
        let gone = is_redacted(&store).await;
        assert!(gone || answer.is_err(), "{told}: it was answered");
        if gone {
            // The next start finds the redaction and finishes it.
            store.flush().unwrap();
        } else {
            store.redact(&key("s"), &id(AT)).await.unwrap();
        }
        assert_eq!(holding(&sim), Vec::<String>::new(), "{told}");
        assert!(is_redacted(&store).await, "{told}");
        calls
    })
}

#[test]
fn an_interrupted_redaction_leaves_an_event_whole_or_redacted() {
    let mut cut = 0;
    for encrypted in [false, true] {
        for age in AGES {
            let calls = redact_with_fault(encrypted, age, None);
            assert!(calls > 20, "{calls} calls are hardly a redaction");
            for case in cases(calls, 61) {
                redact_with_fault(encrypted, age, Some(case));
                cut += 1;
            }
        }
    }
    eprintln!("{cut} redactions cut off");
}

#[test]
fn copies_of_a_redacted_body_in_quarantine_are_removed() {
    let sim = machine(80, false);
    runtime().block_on(async {
        drop(fill(&sim, Age::Settled).await);
        sim.kill();
        let segments: Vec<String> =
            sim.files().into_iter().filter(|path| path.ends_with(".seg")).collect();
        let flip = || segments.iter().for_each(|path| sim.flip(path, 500, 3));
        flip();
        let store = open(&sim);
        let some = ReadRequest { allow_gaps: true, ..everything() };
        assert!(store.read(&key("s"), some).await.is_ok_and(|slice| !slice.gaps.is_empty()));
        drop(store);
        sim.kill();
        // The device returns the earlier bytes again.
        flip();
        let kept = |files: Vec<String>| files.iter().any(|path| path.starts_with("quarantine/"));
        assert!(kept(holding(&sim)), "{:?}", holding(&sim));
        let store = open(&sim);
        store.redact(&key("s"), &id(AT)).await.unwrap();
        assert_eq!(holding(&sim), Vec::<String>::new());
        assert!(is_redacted(&store).await);
    });
}

/// In plaintext a writer to the disk can remove a body without breaking the chain.
#[test]
fn a_body_missing_without_a_redaction_is_reported_as_damage() {
    let sim = machine(79, false);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "s").await;
        // Its replacement has the same length: a digest and no body.
        let text = format!("{{\"text\":\"{}\"}}", "x".repeat(21));
        assert_eq!(text.len(), 32);
        append(&store, &key("s"), batch([event(&text)])).await.unwrap();
        append(&store, &key("s"), batch([event("{}")])).await.unwrap();
        store.flush().unwrap();
        store.flush().unwrap();
        drop(store);
        sim.kill();
        let path = sim.files().into_iter().find(|path| path.ends_with(".seg")).unwrap();
        let bytes = Bytes::from(sim.read_durable(&path).unwrap());
        let salt = SegmentHeader::decode(&bytes).unwrap().salt;
        let mut out = bytes[..192].to_vec();
        for frame in frames(&path, &bytes) {
            let mut payload = Vec::new();
            for (_, mut record) in frame.records().unwrap() {
                if matches!(&record.body, RecordBody::Whole { body, .. } if *body == text) {
                    record.redact();
                }
                record::encode(&record, &mut payload);
            }
            let header = FrameHeader { length: payload.len() as u32, ..frame.header };
            header.write(salt, &payload, &mut out);
        }
        assert_eq!(out.len(), bytes.len());
        sim.write_durable(&path, 0, &out);
        let store = open(&sim);
        let verified = store.verify(&key("s").scope, None).await.unwrap();
        let told: Vec<&str> = verified.damage.iter().map(|(_, gap)| &*gap.reason).collect();
        assert_eq!(told, ["its body is gone, and no redaction is recorded"]);
    });
}

//! Several nodes over one base: what was acknowledged at one is there at the other, once; what was
//! removed at one is kept by none; and troubles of the base between. It must not know a statement.

mod clocks;
mod failover;
mod migrate;
mod pooled;
mod program;
mod relay;
mod removals;
mod sealed;
mod servers;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use sessionlog::{
    env::Entropy,
    event::{Batch, BatchKey, EventId, Position, Range, Scope, SessionId, SessionKey},
    store::{
        ChangesSeen, Derived, HeldEvents, Listing, Maintain, NewSession, RepairResult,
        SessionUpdate, Store, StoreError,
        remote::{MemoryBase, RemoteOptions, RemoteStore, Trouble},
    },
};
use sessionlog_sim::{ManualClock, SeededEntropy};

use crate::engines::{append, batch, create, event, events_of, everything, key, named};

/// Two nodes over one base in memory, with the clock of both.
struct TwoNodes {
    base: MemoryBase,
    a: Arc<RemoteStore>,
    b: Arc<RemoteStore>,
    clock: Arc<ManualClock>,
}

impl TwoNodes {
    fn new() -> Self {
        let (base, clock) = (MemoryBase::default(), Arc::new(ManualClock::default()));
        let node = |seed| {
            let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(seed));
            let options = RemoteOptions::default();
            let opened = RemoteStore::open_memory(&base, clock.clone(), entropy, options);
            Arc::new(opened.now_or_never().expect("memory replies at once").unwrap())
        };
        Self { a: node(21), b: node(22), base, clock }
    }
}

/// Waits until a call succeeds.
async fn until_ok<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..600 {
        pause.tick().await;
        if let Ok(done) = call().await {
            return done;
        }
    }
    panic!("it does not heal");
}

/// Asserts that a session has each of these bodies once, those of one writer in their order.
async fn assert_each_once(store: &dyn Store, session: &SessionKey, acknowledged: &[(u64, String)]) {
    let events = events_of(store, session).await;
    let bodies: Vec<String> =
        events.iter().map(|event| String::from_utf8(event.body.to_vec()).unwrap()).collect();
    let distinct: BTreeSet<&String> = bodies.iter().collect();
    assert_eq!(distinct.len(), bodies.len(), "nothing is doubled");
    for (position, body) in acknowledged {
        assert_eq!(bodies.get(*position as usize), Some(body), "it is where it was acknowledged");
    }
    let verified = store.verify(&session.scope, Some(&session.session)).await.unwrap();
    assert_eq!(verified.damage, [], "the chains are whole");
}

/// Writers at both nodes, on the same sessions, while the connection is lost before and after
/// commits: what was acknowledged is there once, at its position, and the chains are whole.
#[tokio::test(flavor = "multi_thread")]
async fn appends_whose_answers_are_lost_happen_once_or_not_at_all() {
    for seed in 0..6_u64 {
        let nodes = TwoNodes::new();
        for session in ["s", "t"] {
            create(&*nodes.a, session).await;
        }
        let draws = AtomicU64::new(seed);
        nodes.base.set_troubles(move |kind| {
            let draw = draws.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            match (draw >> 60, kind) {
                (0 | 1, "commit" | "commit_waiting") => Some(Trouble::LostAfter),
                (2 | 3, "commit" | "commit_waiting") => Some(Trouble::LostBefore),
                (4, "attempt") => Some(Trouble::Unreachable),
                _ => None,
            }
        });
        let mut writers = Vec::new();
        for writer in 0..8_u64 {
            let node = if writer % 2 == 0 { &nodes.a } else { &nodes.b };
            let (node, session) = (Arc::clone(node), if writer < 4 { "s" } else { "t" });
            writers.push(tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0..25 {
                    let body = format!("\"{writer}-{n}\"");
                    // Ids of callers, keys, and neither, by turns. A commit without a known outcome
                    // is sent again by the node; what has no id is not sent again here.
                    let one = match n % 3 {
                        0 => named(&format!("w{writer}-{n}"), &body),
                        _ => event(&body),
                    };
                    let mut sent = batch([one]);
                    if n % 3 == 1 {
                        sent.key = Some(BatchKey::new(&format!("k{writer}-{n}")).unwrap());
                    }
                    let stored = loop {
                        match node.append(&key(session), sent.clone()).await {
                            Ok(stored) => break Some(stored),
                            Err(
                                StoreError::OutcomeUnknown { .. }
                                | StoreError::Unreachable { .. }
                                | StoreError::Busy,
                            ) if n % 3 != 2 => {}
                            Err(StoreError::OutcomeUnknown { .. }) => break None,
                            Err(other) => panic!("{other}"),
                        }
                    };
                    acknowledged.extend(stored.map(|stored| (stored.first_position.0, body)));
                }
                (session, acknowledged)
            }));
        }
        let mut all = Vec::new();
        for writer in writers {
            all.push(writer.await.unwrap());
        }
        nodes.base.clear_troubles();
        for session in ["s", "t"] {
            let of: Vec<_> = all.iter().filter(|(one, _)| *one == session).collect();
            let acknowledged: Vec<_> = of.iter().flat_map(|(_, some)| some.clone()).collect();
            assert!(acknowledged.len() >= 68, "{}", acknowledged.len());
            for node in [&nodes.a, &nodes.b] {
                assert_each_once(&**node, &key(session), &acknowledged).await;
                let count = events_of(&**node, &key(session)).await.len();
                assert!((acknowledged.len()..=100).contains(&count), "seed {seed}: {count}");
            }
        }
    }
}

/// A node remembers the row of a session; another node removes the session and makes one of the
/// same name that reaches the same revision.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_session_of_the_same_name_is_not_written_on_what_was_known_of_the_earlier() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    append(&*nodes.a, &key("s"), batch([event("1")])).await.unwrap();
    let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
    nodes.b.change(&key("s"), gone).await.unwrap();
    nodes.clock.advance(Duration::from_secs(8 * 24 * 3_600));
    nodes.b.sweep().await.unwrap();
    create(&*nodes.b, "s").await;
    append(&*nodes.b, &key("s"), batch([event("2")])).await.unwrap();
    append(&*nodes.b, &key("s"), batch([event("3")])).await.unwrap();
    append(&*nodes.a, &key("s"), batch([event("4")])).await.unwrap();
    let bodies: Vec<_> =
        events_of(&*nodes.b, &key("s")).await.into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_at_the_other_node_is_answered_from_the_stored_events() {
    let nodes = TwoNodes::new();
    let created = NewSession {
        key: Some(BatchKey::new("made").unwrap()),
        events: batch([event("0")]),
        ..NewSession::default()
    };
    let (info, first) = nodes.a.create(&Scope::local(), created.clone()).await.unwrap();
    let (again, repeated) = nodes.b.create(&Scope::local(), created).await.unwrap();
    assert_eq!((again.key.clone(), repeated.repeated), (info.key.clone(), true));
    assert_eq!(repeated.events, first.events);
    let mut sent = batch([event("1"), event("2")]);
    sent.key = Some(BatchKey::new("k").unwrap());
    let one = nodes.a.append(&info.key, sent.clone()).await.unwrap();
    let other = nodes.b.append(&info.key, sent).await.unwrap();
    assert_eq!((other.events.clone(), other.repeated), (one.events.clone(), true));
    // An id that the store minted, sent back by a client.
    let minted = one.events[1].id.clone();
    let mut back = event("2");
    back.id = Some(minted.clone());
    let known = nodes.b.append(&info.key, batch([back])).await.unwrap();
    assert_eq!((known.first_position, known.repeated), (Position(2), true));
    assert_eq!(nodes.b.find(&info.key, &minted).await.unwrap(), Some(Position(2)));
    let mut changed = event("other");
    changed.id = Some(minted);
    let refused = nodes.a.append(&info.key, batch([changed])).await;
    assert!(matches!(refused, Err(StoreError::IdempotencyConflict { .. })), "{refused:?}");
}

/// Of two that expect the same position at two nodes, one wins, whatever the nodes remember.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_writers_at_the_same_expected_position_wins() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    for round in 0..40 {
        let sent = || Batch { if_position: Some(Position(round)), ..batch([event("{}")]) };
        let (a, b) = (nodes.a.clone(), nodes.b.clone());
        let (first, second) = (sent(), sent());
        let session = key("s");
        let (one, other) = tokio::join!(a.append(&session, first), b.append(&session, second));
        let lost = if one.is_ok() { &other } else { &one };
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        assert!(
            matches!(lost, Err(StoreError::PositionConflict { tail, .. }) if tail.0 == round + 1),
            "{lost:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_went_back_behind_what_was_acknowledged_is_counted() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    let before = nodes.base.snapshot();
    append(&*nodes.a, &key("s"), batch([event("{}")])).await.unwrap();
    assert_eq!(nodes.a.set_back_count(), 0);
    nodes.base.go_back(before);
    nodes.a.info(&key("s")).await.unwrap();
    nodes.a.info(&key("s")).await.unwrap();
    assert_eq!((nodes.a.set_back_count(), nodes.b.set_back_count()), (1, 0), "told once");
    append(&*nodes.a, &key("s"), batch([event("\"after\"")])).await.unwrap();
    assert_eq!(events_of(&*nodes.b, &key("s")).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_reported_and_its_loss_can_be_accepted() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    for body in ["1", "2", "3"] {
        append(&*nodes.a, &key("s"), batch([event(body)])).await.unwrap();
    }
    nodes.base.flip_bit();
    let read = nodes.b.read(&key("s"), everything()).await;
    let Err(StoreError::SessionDamaged { gaps, .. }) = &read else { panic!("{read:?}") };
    assert_eq!(gaps[0].range, Range::new(Position(2), Position(3)));
    let listed = nodes.a.verify(&Scope::local(), None).await.unwrap();
    assert_eq!(listed.damage.len(), 1, "{listed:?}");
    let dry = nodes.a.repair(&key("s"), false).await.unwrap();
    assert_eq!((dry.gaps.len(), dry.accepted), (1, false));
    let accepted = nodes.a.repair(&key("s"), true).await.unwrap();
    assert!(accepted.accepted, "{accepted:?}");
    append(&*nodes.b, &key("s"), batch([event("4")])).await.unwrap();
    let read = sessionlog::store::ReadRequest { allow_gaps: true, ..everything() };
    let slice = nodes.a.read(&key("s"), read).await.unwrap();
    let bodies: Vec<_> = slice.events.iter().map(|one| &one.body[..]).collect();
    assert_eq!(bodies, [b"1", b"2", b"4"]);
    assert!(slice.gaps.iter().all(|gap| gap.accepted_at.is_some()), "{:?}", slice.gaps);
    let after = nodes.b.verify(&Scope::local(), None).await.unwrap();
    assert_eq!((after.damage.len(), after.accepted.len()), (0, 1), "{after:?}");
    assert_eq!(nodes.b.repair(&key("s"), true).await.unwrap(), RepairResult::default());
}

/// A node that follows removals and does not confirm one holds up its answer; the content is gone
/// from the base all the same, and a retry finishes once the node has confirmed.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_unfinished_until_every_node_lets_go() {
    const CANARY: &str = "canary-77d1";
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    let body = format!("\"{CANARY}\"");
    append(&*nodes.a, &key("s"), batch([named("e", &body), named("f", &body)])).await.unwrap();
    let mut removals = nodes.b.follow_removals();
    assert!(nodes.base.holds(CANARY.as_bytes()));
    let redacted = nodes.a.redact(&key("s"), &EventId::new("e").unwrap()).await;
    assert!(matches!(redacted, Err(StoreError::Unfinished { .. })), "{redacted:?}");
    assert_eq!(&events_of(&*nodes.b, &key("s")).await[0].body[..], br#"{"redacted":true}"#);
    let count = *removals.borrow_and_update();
    assert_eq!((count, nodes.b.removal_count()), (1, 1));
    nodes.b.confirm_removals(count);
    let again = nodes.a.redact(&key("s"), &EventId::new("e").unwrap()).await.unwrap();
    assert_eq!(again, Some(Position(0)));
    let erasing = tokio::spawn({
        let a = nodes.a.clone();
        async move { a.erase(&key("s")).await }
    });
    removals.changed().await.unwrap();
    assert!(!erasing.is_finished());
    nodes.b.confirm_removals(*removals.borrow_and_update());
    erasing.await.unwrap().unwrap();
    assert!(!nodes.base.holds(CANARY.as_bytes()), "no stored byte is left");
    let gone = nodes.b.info(&key("s")).await;
    assert!(matches!(gone, Err(StoreError::SessionDeleted { restorable: false, .. })), "{gone:?}");
}

/// A derived file of one node has no event of a session that another node erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_derived_file_of_a_node_is_gone_when_another_node_has_erased_its_events() {
    let nodes = TwoNodes::new();
    for session in ["s", "other"] {
        create(&*nodes.a, session).await;
        append(&*nodes.a, &key(session), batch([event("\"x\"")])).await.unwrap();
    }
    let mut kept = Vec::new();
    for session in ["s", "other"] {
        let changes = nodes.b.list_changes(Default::default(), 10).await.unwrap();
        let one = changes.sessions.into_iter().find(|one| one.key == key(session)).unwrap();
        let range = Range::new(Position(0), Position(1));
        let held = HeldEvents { key: one.key, hash: one.hash, range, rewritten: one.rewritten };
        kept.push(nodes.b.put_derived(b"", vec![held], b"made from x").await.unwrap());
    }
    let open = nodes.b.open_derived(kept[0]).unwrap();
    let erasing = tokio::spawn({
        let a = nodes.a.clone();
        async move { a.erase(&key("s")).await }
    });
    let withdrawn = async {
        while !open.has_read_error() {
            tokio::task::yield_now().await;
        }
    };
    let withdrawn = tokio::time::timeout(Duration::from_secs(120), withdrawn).await;
    withdrawn.expect("results from an erased event are void");
    // The node reports, and the one that erases asks it many times: neither may call it cleared.
    let seen = Arc::new(AtomicU64::new(0));
    let reports = Arc::clone(&seen);
    nodes.base.set_troubles(move |kind| {
        reports.fetch_add(u64::from(kind == "beat"), Ordering::Relaxed);
        None
    });
    nodes.b.confirm_removals(0);
    while seen.load(Ordering::Relaxed) < 20 && !erasing.is_finished() {
        tokio::task::yield_now().await;
    }
    nodes.base.clear_troubles();
    assert!(!erasing.is_finished(), "it waits for who reads the file");
    drop(open);
    erasing.await.unwrap().unwrap();
    assert!(matches!(nodes.b.open_derived(kept[0]), Err(StoreError::DerivedLost { .. })));
    let names: Vec<_> = nodes.b.list_derived().unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, kept[1..]);
}

/// A base that is not reached: nothing is written or served, and the node heals by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_base_refuses_and_heals() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    nodes.base.set_troubles(|_| Some(Trouble::Unreachable));
    let sent = append(&*nodes.a, &key("s"), batch([event("{}")])).await;
    assert!(matches!(sent, Err(StoreError::Unreachable { .. })), "{sent:?}");
    let read = nodes.a.info(&key("s")).await;
    assert!(matches!(read, Err(StoreError::Unreachable { .. })), "{read:?}");
    nodes.base.clear_troubles();
    append(&*nodes.a, &key("s"), batch([event("{}")])).await.unwrap();
    assert_eq!(events_of(&*nodes.b, &key("s")).await.len(), 1);
}

/// An append at one node wakes a reader that follows the session at the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_at_one_node_is_woken_by_an_append_at_the_other() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    let mut watch = nodes.b.watch(&key("s")).await.unwrap();
    assert_eq!(*watch.borrow_and_update(), Position(0));
    append(&*nodes.a, &key("s"), batch([event("{}")])).await.unwrap();
    watch.changed().await.unwrap();
    assert_eq!(*watch.borrow_and_update(), Position(1));
}

/// A creation whose answer is lost makes one session, whether the caller or the node named it.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_is_lost_makes_one_session() {
    for lost in [Trouble::LostBefore, Trouble::LostAfter] {
        for id in [Some(SessionId::new("s").unwrap()), None] {
            let (nodes, mut left) = (TwoNodes::new(), Some(lost));
            nodes.base.set_troubles(move |kind| left.take_if(|_| kind == "create"));
            let new = NewSession { id, events: batch([event("1")]), ..NewSession::default() };
            let (made, _) = nodes.a.create(&Scope::local(), new).await.unwrap();
            let listed = nodes.b.list(&Scope::local(), Listing::default()).await.unwrap();
            let listed: Vec<_> = listed.sessions.iter().map(|one| &one.key.session).collect();
            assert_eq!(listed, [&made.key.session]);
            assert_eq!(events_of(&*nodes.b, &made.key).await.len(), 1);
        }
    }
}

/// An append at one node wakes the follower of changed sessions at the other, whose list has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_changes_at_one_node_is_woken_by_an_append_at_the_other() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    let mut watch = nodes.b.watch_changes();
    let mut since = ChangesSeen::default();
    loop {
        let changed = nodes.b.list_changes(since, 10).await.unwrap();
        since = changed.since;
        if !changed.more {
            break;
        }
    }
    watch.mark_unchanged();
    append(&*nodes.a, &key("s"), batch([event("1")])).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(120), watch.changed()).await;
    woken.expect("the hint or the look after a lost hint wakes it").unwrap();
    let changed = nodes.b.list_changes(since, 10).await.unwrap();
    assert_eq!(changed.sessions.len(), 1);
}

/// A fork that is put on hold at one node keeps the other node from erasing its parent.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_at_one_node_is_seen_by_an_erasure_at_the_other() {
    let nodes = TwoNodes::new();
    create(&*nodes.a, "s").await;
    append(&*nodes.a, &key("s"), batch([event("1")])).await.unwrap();
    crate::forks::fork(&*nodes.b, "s", 1, "child").await.unwrap();
    let hold = SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
    nodes.b.change(&key("child"), hold).await.unwrap();
    let refused = nodes.a.erase(&key("s")).await;
    assert!(matches!(refused, Err(StoreError::SessionHeld { .. })), "{refused:?}");
    let loose = SessionUpdate { hold: Some(false), ..SessionUpdate::default() };
    nodes.a.change(&key("child"), loose).await.unwrap();
    nodes.b.erase(&key("s")).await.unwrap();
    let child = SessionId::new("child").unwrap();
    let read = nodes.a.read(&SessionKey { session: child, ..key("s") }, everything()).await;
    assert!(matches!(read, Err(StoreError::PrefixErased { .. })), "{read:?}");
}

//! The conformance suite: promises of a `Store`, run against every engine. It must not depend on
//! how an engine stores its bytes; stops are in `restart` and `crash`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sessionlog::{
    event::{Batch, BatchKey, NewEvent, Origin, Position, Range, Scope, SessionId, Timestamp},
    store::{
        FillDirection, Health, Listing, NewSession, ReadRequest, RepairResult, SessionUpdate,
        Slice, Store, StoreError, VerifyResult,
    },
};
use sessionlog_sim::ManualClock;

use crate::engines::{self, append, batch, create, event, events_of, key, named, other_scope};

/// Runs a check on every engine.
pub async fn on_every_engine(check: impl AsyncFn(&dyn Store, &ManualClock)) {
    for engine in engines::with_servers().await {
        eprintln!("engine: {}", engine.name);
        check(&*engine.store, &engine.clock).await;
        engine.store.close().await;
    }
}

// -- create ----------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_has_the_given_title_metadata_and_limits() {
    on_every_engine(async |store, clock| {
        let now = Timestamp(1_800_000_000_000_000);
        clock.set(now);
        let new = NewSession {
            id: Some(SessionId::new("s").unwrap()),
            title: Some("a title".to_owned()),
            metadata: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            workspace: Some("a workspace".to_owned()),
            ttl_seconds: Some(60),
            events: batch([event("{}")]),
            key: None,
            ..NewSession::default()
        };
        let (created, appended) = store.create(&Scope::local(), new).await.unwrap();
        assert_eq!(created.key, key("s"));
        assert_eq!(created.title.as_deref(), Some("a title"));
        assert_eq!(created.metadata, BTreeMap::from([("k".to_owned(), "v".to_owned())]));
        assert_eq!(created.workspace.as_deref(), Some("a workspace"));
        assert_eq!(created.ttl_seconds, Some(60));
        assert_eq!((created.created_at, created.updated_at), (now, now));
        assert_eq!((created.archived_at, created.tail), (None, Position(1)));
        assert_eq!((created.receipt, &created.damage[..]), (appended.receipt, &[][..]));
        assert_eq!(store.info(&key("s")).await.unwrap(), created);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_created_without_an_id_gets_a_unique_one() {
    on_every_engine(async |store, _| {
        let first = store.create(&Scope::local(), NewSession::default()).await.unwrap().0;
        let second = store.create(&Scope::local(), NewSession::default()).await.unwrap().0;
        assert_ne!(first.key, second.key);
        assert!(first.key.session.as_str().len() >= 20, "unguessable: {}", first.key.session);
        assert_eq!(first.tail, Position::ZERO);
        assert_eq!(first.receipt.position, Position::ZERO);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_with_its_events_or_not_at_all() {
    on_every_engine(async |store, _| {
        let events = batch([named("e", "{}"), named("e", "{}")]);
        let new =
            NewSession { id: Some(SessionId::new("s").unwrap()), events, ..NewSession::default() };
        let refused = store.create(&Scope::local(), new).await.unwrap_err();
        assert!(matches!(refused, StoreError::DuplicateEventId { .. }), "{refused}");
        let absent = store.info(&key("s")).await.unwrap_err();
        assert!(matches!(absent, StoreError::SessionNotFound { .. }), "{absent}");
        create(store, "s").await;
        assert_eq!(events_of(store, &key("s")).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_retried_with_its_key_returns_the_same_session() {
    on_every_engine(async |store, clock| {
        let keyed = |body: &str, id: Option<&str>| NewSession {
            id: id.map(|id| SessionId::new(id).unwrap()),
            events: batch([event(body)]),
            key: Some(BatchKey::new("k").unwrap()),
            ..NewSession::default()
        };
        let create = async |new| store.create(&Scope::local(), new).await;
        let (first, appended) = create(keyed("{}", None)).await.unwrap();
        append(store, &first.key, batch([event("{}")])).await.unwrap();
        let (again, repeated) = create(keyed("{}", None)).await.unwrap();
        assert_eq!((&again.key, again.tail), (&first.key, Position(2)));
        assert!(repeated.repeated && !appended.repeated);
        assert_eq!(repeated.events, appended.events);
        assert_eq!(repeated.next_position, appended.next_position);
        for other in [keyed("{\"x\":1}", None), keyed("{}", Some("other"))] {
            let conflict = create(other).await.unwrap_err();
            assert!(matches!(conflict, StoreError::IdempotencyConflict { .. }), "{conflict}");
        }
        let elsewhere = store.create(&other_scope(), keyed("{}", None)).await.unwrap().0;
        assert_ne!(elsewhere.key.session, first.key.session);
        clock.advance(Duration::from_secs(25 * 60 * 60));
        let later = create(keyed("{}", None)).await.unwrap().0;
        assert_ne!(later.key, first.key, "a key is kept for a day");
        let listing = Listing { limit: 9, ..Listing::default() };
        assert_eq!(store.list(&Scope::local(), listing).await.unwrap().sessions.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_id_is_unique_in_its_scope() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let again = || NewSession { id: Some(key("s").session), ..NewSession::default() };
        let taken = store.create(&Scope::local(), again()).await.unwrap_err();
        assert!(matches!(taken, StoreError::SessionExists { .. }), "{taken}");
        store.create(&other_scope(), again()).await.expect("another scope has its own names");
        store
            .change(&key("s"), SessionUpdate { discard: true, ..SessionUpdate::default() })
            .await
            .unwrap();
        let deleted = store.create(&Scope::local(), again()).await.unwrap_err();
        assert!(matches!(deleted, StoreError::SessionDeleted { .. }), "{deleted}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_session_is_reported_as_deleted_and_a_held_one_is_not_erased() {
    on_every_engine(async |store, _| {
        for name in ["s", "held", "other"] {
            create(store, name).await;
            append(store, &key(name), batch([event("{}")])).await.unwrap();
        }
        let hold = SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
        store.change(&key("held"), hold).await.unwrap();
        store.erase(&key("s")).await.unwrap();
        let gone = store.info(&key("s")).await.unwrap_err();
        assert!(matches!(gone, StoreError::SessionDeleted { .. }), "{gone}");
        let held = store.erase(&key("held")).await.unwrap_err();
        assert!(matches!(held, StoreError::SessionHeld { .. }), "{held}");
        let unknown = store.erase(&key("nobody")).await.unwrap_err();
        assert!(matches!(unknown, StoreError::SessionNotFound { .. }), "{unknown}");
        for name in ["held", "other"] {
            assert_eq!(events_of(store, &key(name)).await.len(), 1, "{name}");
        }
    })
    .await;
}

// -- append ----------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_dense_and_the_answer_has_the_position_of_each_event() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        let mut tail = 0;
        for size in [1, 3, 0, 2] {
            clock.advance(Duration::from_secs(1));
            let events = (0..size).map(|n| event(&format!("{{\"n\":{n}}}")));
            let appended = append(store, &key("s"), batch(events)).await.unwrap();
            assert_eq!(appended.first_position, Position(tail));
            assert_eq!(appended.next_position, Position(tail + size));
            assert_eq!(appended.receipt.position, Position(tail + size));
            assert!(!appended.repeated);
            let positions: Vec<u64> = appended.events.iter().map(|e| e.position.0).collect();
            assert_eq!(positions, (tail..tail + size).collect::<Vec<u64>>());
            tail += size;
            let info = store.info(&key("s")).await.unwrap();
            assert_eq!((info.tail, info.receipt), (Position(tail), appended.receipt));
        }
        let stored = events_of(store, &key("s")).await;
        let positions: Vec<u64> = stored.iter().map(|event| event.position.0).collect();
        assert_eq!(positions, [0, 1, 2, 3, 4, 5]);
        let ids: std::collections::BTreeSet<_> = stored.iter().map(|e| e.id.clone()).collect();
        assert_eq!(ids.len(), 6, "each event has an id of its own");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_stored_byte_for_byte() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        let bodies = [
            "{}".to_owned(),
            "{ \"b\" :1,\n\"a\":[ 1.0, 1e2 ] }".to_owned(),
            "{\"text\":\"\u{e9}\u{1F600}\\u0000\"}".to_owned(),
            format!("{{\"text\":\"{}\"}}", "x".repeat(1 << 20)),
        ];
        let origins = [Origin::User, Origin::Model, Origin::Tool, Origin::Web];
        for (body, origin) in bodies.iter().zip(origins) {
            let sent = NewEvent {
                created_at: Some(Timestamp(-5)),
                origin,
                ..named(&format!("id \u{e9} {}", body.len()), body)
            };
            let placed = append(store, &key("s"), batch([sent.clone()])).await.unwrap();
            let stored = events_of(store, &key("s")).await.pop().unwrap();
            assert_eq!(stored.body, sent.body);
            assert_eq!(Some(&stored.id), sent.id.as_ref());
            assert_eq!((stored.kind, stored.origin), (sent.kind, origin));
            assert_eq!(stored.created_at, Some(Timestamp(-5)));
            assert_eq!(stored.processed_at, placed.events[0].processed_at);
            clock.advance(Duration::from_millis(1));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_times_in_a_session_never_decrease() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        for now in [1_900_000_000_000_000, 1_800_000_000_000_000, 1_900_000_000_000_001] {
            clock.set(Timestamp(now));
            append(store, &key("s"), batch([event("{}")])).await.unwrap();
        }
        let times: Vec<i64> =
            events_of(store, &key("s")).await.iter().map(|e| e.processed_at.0).collect();
        assert_eq!(times[0], 1_900_000_000_000_000);
        assert!(times.is_sorted(), "{times:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_with_an_unmet_precondition_writes_nothing() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([event("{}"), event("{}")])).await.unwrap();
        let at = |position| NewEvent { position: Some(Position(position)), ..event("{}") };
        let when = |position, events: Vec<NewEvent>| Batch {
            if_position: Some(Position(position)),
            ..batch(events)
        };
        let refused = [
            when(1, vec![event("{}")]),
            when(3, vec![event("{}")]),
            when(0, vec![]),
            batch([at(1)]),
            batch([at(2), at(2)]),
            batch([event("{}"), at(4)]),
        ];
        for wrong in refused {
            let told = format!("{wrong:?}");
            match append(store, &key("s"), wrong).await {
                Err(StoreError::PositionConflict { tail, .. }) => {
                    assert_eq!(tail, Position(2), "{told}");
                }
                other => panic!("{told} gave {other:?}"),
            }
            assert_eq!(events_of(store, &key("s")).await.len(), 2, "{told}");
        }
        for right in [when(2, vec![event("{}")]), batch([at(3), at(4)]), when(5, vec![])] {
            append(store, &key("s"), right).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_event_id_returns_its_position_and_writes_nothing() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        let sent = batch([named("a", "{\"n\":1}"), named("b", "{\"n\":2}")]);
        let first = append(store, &key("s"), sent.clone()).await.unwrap();
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        // A retry does not know of other writes since: its precondition is not checked.
        let retry = Batch { if_position: Some(Position(1)), ..sent.clone() };
        for again in [sent, retry, batch([named("b", "{\"n\":2}")])] {
            let count = again.events.len();
            let answer = append(store, &key("s"), again).await.unwrap();
            assert!(answer.repeated);
            assert_eq!(answer.events, first.events[2 - count..]);
            assert_eq!(answer.next_position, Position(3));
        }
        assert_eq!(store.info(&key("s")).await.unwrap().tail, Position(4));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_event_id_with_other_content_is_a_conflict() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([named("a", "{}"), named("b", "{}")])).await.unwrap();
        let other_kind = NewEvent {
            kind: sessionlog::event::EventType::new("other.kind").unwrap(),
            ..named("a", "{}")
        };
        let conflicts = [
            (batch([named("a", "{\"x\":1}")]), false),
            (batch([other_kind]), false),
            (batch([named("c", "{}"), named("a", "{}")]), true),
            (batch([named("a", "{}"), event("{}")]), true),
        ];
        for (wrong, in_part) in conflicts {
            let told = format!("{wrong:?}");
            match append(store, &key("s"), wrong).await.unwrap_err() {
                StoreError::KnownInPart { known, position: Position(0) } if in_part => {
                    assert_eq!(known.as_str(), "a", "{told}");
                }
                StoreError::IdempotencyConflict { .. } if !in_part => {}
                other => panic!("{told}: {other}"),
            }
        }
        let twice = append(store, &key("s"), batch([named("n", "{}"), named("n", "{}")])).await;
        assert!(matches!(twice, Err(StoreError::DuplicateEventId { .. })), "{twice:?}");
        assert_eq!(events_of(store, &key("s")).await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_can_be_used_again_in_another_session() {
    on_every_engine(async |store, _| {
        for session in ["s", "t"] {
            create(store, session).await;
            let appended = append(store, &key(session), batch([named("a", "{}")])).await.unwrap();
            assert!(!appended.repeated);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_batch_key_returns_the_same_answer_for_a_day() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        let sent = |body: &str| Batch {
            key: Some(sessionlog::event::BatchKey::new("key 1").unwrap()),
            ..batch([event("{}"), event(body)])
        };
        let first = append(store, &key("s"), sent("{}")).await.unwrap();
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        clock.advance(Duration::from_secs(24 * 3600 - 60));
        let again = append(store, &key("s"), sent("{}")).await.unwrap();
        assert!(again.repeated);
        assert_eq!(again.events, first.events);
        assert_eq!(again.next_position, first.next_position);
        let other = append(store, &key("s"), sent("{\"x\":1}")).await;
        assert!(matches!(other, Err(StoreError::IdempotencyConflict { .. })), "{other:?}");
        assert_eq!(store.info(&key("s")).await.unwrap().tail, Position(3));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_do_not_interleave_their_batches() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let writer = async |writer: usize| {
            for round in 0..10 {
                let body = |n| format!("{{\"w\":{writer},\"r\":{round},\"n\":{n}}}");
                let events = (0..3).map(|n| event(&body(n)));
                append(store, &key("s"), batch(events)).await.unwrap();
            }
        };
        futures_util::future::join_all((0..8).map(writer)).await;
        let stored = events_of(store, &key("s")).await;
        assert_eq!(stored.len(), 8 * 10 * 3);
        let bodies: Vec<String> =
            stored.iter().map(|e| String::from_utf8(e.body.to_vec()).unwrap()).collect();
        for whole in bodies.chunks(3) {
            let of = |body: &str| body.rsplit_once(",\"n\":").unwrap().0.to_owned();
            assert!(whole.iter().all(|body| of(body) == of(&whole[0])), "{whole:?}");
            assert!(whole.is_sorted(), "{whole:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_appends_expecting_one_position_exactly_one_succeeds() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let attempt = async |n: u32| {
            let wanted = Batch {
                if_position: Some(Position::ZERO),
                ..batch([event(&format!("{{\"n\":{n}}}"))])
            };
            append(store, &key("s"), wanted).await
        };
        let answers = futures_util::future::join_all((0..16).map(attempt)).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        assert_eq!(events_of(store, &key("s")).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_depends_on_every_earlier_record() {
    on_every_engine(async |store, _| {
        for (session, body) in [("s", "{\"n\":1}"), ("t", "{\"n\":2}")] {
            create(store, session).await;
            for body in [body, "{\"same\":true}"] {
                append(store, &key(session), batch([event(body)])).await.unwrap();
            }
        }
        let s = store.info(&key("s")).await.unwrap().receipt;
        let t = store.info(&key("t")).await.unwrap().receipt;
        assert_eq!(s.position, t.position);
        assert_ne!(s.chain, t.chain);
    })
    .await;
}

// -- read ------------------------------------------------------------------------------------

/// Returns the positions expected from a bounded read of ten events with bodies of ten bytes.
fn expected_positions(read: &ReadRequest) -> Vec<u64> {
    let mut wanted: Vec<u64> = (read.range.from.0.min(10)..read.range.to.0.min(10)).collect();
    if read.fill == FillDirection::Backward {
        wanted.reverse();
    }
    let by_bytes = (read.bytes_max / 10).max(1);
    wanted.truncate(read.events_max.min(by_bytes));
    wanted.sort_unstable();
    wanted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_limited_by_its_bounds_from_the_requested_end() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let events = (0..10).map(|n| event(&format!("{{\"nn\": {n} }}")));
        append(store, &key("s"), batch(events)).await.unwrap();
        for (from, to) in [(0, 10), (3, 7), (5, 5), (8, 20), (20, 30), (9, 10), (0, u64::MAX)] {
            for events_max in [1, 3, 100] {
                for bytes_max in [1, 25, 30, 1000] {
                    for fill in [FillDirection::Forward, FillDirection::Backward] {
                        let range = Range::new(Position(from), Position(to));
                        let read =
                            ReadRequest { range, events_max, bytes_max, fill, allow_gaps: false };
                        let slice = store.read(&key("s"), read).await.unwrap();
                        check_slice(&read, &slice);
                    }
                }
            }
        }
    })
    .await;
}

fn check_slice(read: &ReadRequest, slice: &Slice) {
    let found: Vec<u64> = slice.events.iter().map(|event| event.position.0).collect();
    let expected = expected_positions(read);
    assert_eq!(found, expected, "{read:?}");
    assert_eq!(slice.tail, Position(10), "{read:?}");
    assert_eq!(slice.gaps, [], "{read:?}");
    assert_eq!(slice.covered.len(), expected.len() as u64, "{read:?}");
    if let Some(first) = expected.first() {
        assert_eq!(slice.covered.from, Position(*first), "{read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_resolves_to_the_position_of_its_event() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let events = (0..5).map(|n| named(&format!("e{n}"), "{}"));
        append(store, &key("s"), batch(events)).await.unwrap();
        for (id, expected) in [("e0", Some(0)), ("e4", Some(4)), ("e5", None), ("E0", None)] {
            let id = sessionlog::event::EventId::new(id).unwrap();
            let found = store.find(&key("s"), &id).await.unwrap();
            assert_eq!(found, expected.map(Position), "{id}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_resolves_to_the_first_event_at_or_after_it() {
    on_every_engine(async |store, clock| {
        let start = 1_800_000_000_000_000;
        clock.set(Timestamp(start));
        create(store, "s").await;
        for (after, count) in [(10, 2), (20, 1), (20, 1), (30, 1)] {
            clock.set(Timestamp(start + after));
            append(store, &key("s"), batch((0..count).map(|_| event("{}")))).await.unwrap();
        }
        let cases = [(i64::MIN / 2, 0), (10, 0), (11, 2), (20, 2), (21, 4), (30, 4), (31, 5)];
        for (after, expected) in cases {
            let time = Timestamp(start.saturating_add(after));
            let found = store.find_time(&key("s"), time).await.unwrap();
            assert_eq!(found, Position(expected), "{after}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_returns_the_tail_and_reports_each_change_of_it() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        let mut watch = store.watch(&key("s")).await.unwrap();
        assert_eq!(*watch.borrow_and_update(), Position(1));
        append(store, &key("s"), batch([event("{}"), event("{}")])).await.unwrap();
        watch.changed().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), Position(3));
        assert!(!watch.has_changed().unwrap());
    })
    .await;
}

// -- change ----------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_change_sets_only_the_named_fields_and_takes_no_position() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        let pairs = |pairs: &[(&str, Option<&str>)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned))).collect()
        };
        let set = SessionUpdate {
            title: Some(Some("t".to_owned())),
            metadata: pairs(&[("a", Some("1")), ("b", Some("2"))]),
            ..SessionUpdate::default()
        };
        store.change(&key("s"), set).await.unwrap();
        clock.advance(Duration::from_secs(5));
        let partly = SessionUpdate {
            metadata: pairs(&[("a", None), ("c", Some("3"))]),
            ..SessionUpdate::default()
        };
        let info = store.change(&key("s"), partly).await.unwrap();
        assert_eq!(info.title.as_deref(), Some("t"));
        let kept: Vec<(&str, &str)> =
            info.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(kept, [("b", "2"), ("c", "3")]);
        let cleared = SessionUpdate { title: Some(None), ..SessionUpdate::default() };
        let info = store.change(&key("s"), cleared).await.unwrap();
        assert_eq!((info.title.as_deref(), info.tail), (None, Position::ZERO));
        assert_eq!(store.info(&key("s")).await.unwrap(), info);
        let appended = append(store, &key("s"), batch([event("{}")])).await.unwrap();
        assert_eq!(appended.first_position, Position::ZERO);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_is_readable_but_not_writable() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        append(store, &key("s"), batch([named("a", "{}")])).await.unwrap();
        let archive = || SessionUpdate { archive: Some(true), ..SessionUpdate::default() };
        let first = store.change(&key("s"), archive()).await.unwrap();
        assert!(first.archived_at.is_some());
        clock.advance(Duration::from_secs(5));
        let again = store.change(&key("s"), archive()).await.unwrap();
        assert_eq!(again.archived_at, first.archived_at);
        let refused = append(store, &key("s"), batch([event("{}")])).await.unwrap_err();
        assert!(matches!(refused, StoreError::SessionArchived { .. }), "{refused}");
        let retry = append(store, &key("s"), batch([named("a", "{}")])).await.unwrap();
        assert!(retry.repeated, "what was acknowledged is answered");
        assert_eq!(events_of(store, &key("s")).await.len(), 1);
    })
    .await;
}

/// Returns the error texts of every verb on a session.
async fn error_texts(store: &dyn Store, key: &sessionlog::event::SessionKey) -> Vec<String> {
    let range = Range::new(Position::ZERO, Position(1));
    let read = ReadRequest {
        range,
        events_max: 1,
        bytes_max: 1,
        fill: FillDirection::Forward,
        allow_gaps: true,
    };
    let id = sessionlog::event::EventId::new("e").unwrap();
    let title = SessionUpdate { title: Some(None), ..SessionUpdate::default() };
    let only = Some(&key.session);
    [
        store.append(key, batch([event("{}")])).await.map(drop),
        store.append(key, batch([named("e", "{}")])).await.map(drop),
        store.change(key, title).await.map(drop),
        store.info(key).await.map(drop),
        store.read(key, read).await.map(drop),
        store.find(key, &id).await.map(drop),
        store.find_time(key, Timestamp(0)).await.map(drop),
        store.watch(key).await.map(drop),
        store.verify(&key.scope, only).await.map(drop),
    ]
    .into_iter()
    .map(|answer| answer.expect_err("a refusal").to_string())
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_scope_is_reported_as_unknown() {
    on_every_engine(async |store, _| {
        let foreign = sessionlog::event::SessionKey { scope: other_scope(), ..key("s") };
        let unknown = error_texts(store, &foreign).await;
        create(store, "s").await;
        append(store, &key("s"), batch([named("e", "{}")])).await.unwrap();
        assert_eq!(error_texts(store, &foreign).await, unknown);
        assert!(unknown.iter().all(|text| *text == unknown[0]), "{unknown:?}");
        assert_eq!(store.list(&other_scope(), Listing::default()).await.unwrap().sessions, []);
        assert_eq!(store.verify(&other_scope(), None).await.unwrap().sessions, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_a_deleted_session_reports_its_deletion() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([named("e", "{}")])).await.unwrap();
        store
            .change(&key("s"), SessionUpdate { discard: true, ..SessionUpdate::default() })
            .await
            .unwrap();
        for text in error_texts(store, &key("s")).await.iter().take(8) {
            assert!(text.contains("deleted"), "{text}");
        }
        let all = Listing { include_archived: true, ..Listing::default() };
        assert_eq!(store.list(&Scope::local(), all).await.unwrap().sessions, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_counts_the_sessions_and_events_it_read() {
    on_every_engine(async |store, _| {
        for session in ["s", "t"] {
            create(store, session).await;
            append(store, &key(session), batch([event("{}"), event("{}")])).await.unwrap();
        }
        let all: VerifyResult = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!((all.sessions, all.events, &all.damage[..]), (2, 4, &[][..]));
        let one = store.verify(&Scope::local(), Some(&key("t").session)).await.unwrap();
        assert_eq!((one.sessions, one.events), (1, 2));
        assert_eq!(store.health(), Health::Ready);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_can_be_shared_between_tasks() {
    for engine in engines::all() {
        create(&*engine.store, "s").await;
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let store = Arc::clone(&engine.store);
                tokio::spawn(async move {
                    append(&*store, &key("s"), batch([event("{}")])).await.map(drop)
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(events_of(&*engine.store, &key("s")).await.len(), 4);
    }
}

#[tokio::test]
async fn a_repair_of_an_undamaged_session_returns_no_losses() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        for accept in [false, true] {
            assert_eq!(store.repair(&key("s"), accept).await.unwrap(), RepairResult::default());
            assert_eq!(store.repair_store(accept).await.unwrap(), RepairResult::default());
        }
        let unknown = store.repair(&key("nobody"), true).await;
        assert!(matches!(unknown, Err(StoreError::SessionNotFound { .. })));
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        assert_eq!(events_of(store, &key("s")).await.len(), 2);
    })
    .await;
}

//! Unused sessions: they expire, can be restored for a while, and are deleted. On every engine,
//! with clocks that jump. It must not test crashes (`expiry` does) or an interface.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    api::changes::FileChangesQuery,
    env::Clock,
    event::{Batch, BatchKey, EventType, NewEvent, Origin, Scope, SessionId, SessionKey},
    service::{Caller, Service},
    store::{
        KeepReason, Listing, NewSession, SessionUpdate, Stage, Store, StoreError, SweepResult,
    },
};
use sessionlog_sim::ManualClock;

use crate::engines::{self, append, batch, create, event, events_of, key};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const YEARS_MICROS: i64 = 10 * 365 * 24 * 3_600 * 1_000_000;

async fn on_every_engine(check: impl AsyncFn(&dyn Store, &ManualClock)) {
    for engine in engines::with_servers().await {
        eprintln!("engine: {}", engine.name);
        check(&*engine.store, &engine.clock).await;
        engine.store.close().await;
    }
}

fn one() -> [NewEvent; 1] {
    [event("{}")]
}

/// Creates a session with its own idle limit.
async fn create_limited(store: &dyn Store, session: &str, ttl_seconds: u64) {
    let new = NewSession {
        id: Some(SessionId::new(session).unwrap()),
        ttl_seconds: Some(ttl_seconds),
        events: batch(one()),
        ..NewSession::default()
    };
    store.create(&Scope::local(), new).await.unwrap();
}

/// Sweeps until nothing changes; a session is removed in several steps.
async fn sweep(store: &dyn Store) -> SweepResult {
    let mut all = SweepResult::default();
    for _ in 0..8 {
        let one = store.sweep().await.unwrap();
        all.expired.extend(one.expired);
        all.reclaimed.extend(one.reclaimed);
        assert_eq!(one.failed, 0);
    }
    all
}

async fn expired(store: &dyn Store, key: &SessionKey) -> bool {
    match store.info(key).await {
        Ok(_) => false,
        Err(StoreError::SessionExpired { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_unused_for_its_idle_limit_expires() {
    on_every_engine(async |store, clock| {
        create(store, "usual").await;
        create_limited(store, "short", 3_600).await;
        create_limited(store, "kept", 0).await;
        for (after, expected) in [
            (Duration::from_secs(3_600), vec![]),
            (Duration::from_secs(600), vec![key("short")]),
            (DAY * 29, vec![]),
            (DAY * 2, vec![key("usual")]),
            (DAY * 365, vec![]),
        ] {
            clock.advance(after);
            let mut swept = store.sweep().await.unwrap().expired;
            swept.sort();
            assert_eq!(swept, expected, "{after:?}");
        }
        assert_eq!(events_of(store, &key("kept")).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_expires_a_fraction_of_a_second_early() {
    on_every_engine(async |store, clock| {
        create_limited(store, "s", 2).await;
        clock.advance(Duration::from_millis(1_900));
        store.use_session(&key("s")).await.unwrap();
        clock.advance(Duration::from_millis(1_999));
        assert_eq!(sweep(store).await.expired, []);
        clock.advance(Duration::from_secs(2));
        assert_eq!(sweep(store).await.expired, [key("s")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_use_of_a_session_restarts_its_idle_limit() {
    on_every_engine(async |store, clock| {
        for name in ["read", "written", "watched", "listed"] {
            create_limited(store, name, 3_600).await;
        }
        let watch = store.watch(&key("watched")).await.unwrap();
        for _ in 0..10 {
            clock.advance(Duration::from_secs(1_800));
            store.use_session(&key("read")).await.unwrap();
            append(store, &key("written"), batch(one())).await.unwrap();
            // Neither listing nor info counts as a use.
            let listing = Listing { limit: 9, ..Listing::default() };
            let _ = store.list(&Scope::local(), listing).await.unwrap();
            let _ = store.info(&key("listed")).await;
            store.verify(&Scope::local(), None).await.unwrap();
            sweep(store).await;
        }
        let gone = async |name| expired(store, &key(name)).await;
        assert!(!gone("read").await && !gone("written").await && !gone("watched").await);
        assert!(gone("listed").await);
        drop(watch);
        clock.advance(Duration::from_secs(3_600 * 2));
        assert_eq!(sweep(store).await.expired.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_changes_of_a_file_is_no_use_of_the_sessions_it_reads() {
    for engine in engines::with_servers().await {
        eprintln!("engine: {}", engine.name);
        let (store, clock) = (Arc::clone(&engine.store), Arc::clone(&engine.clock));
        let input = r#"{"name":"Edit","call_id":"c","input":{"file_path":"/w/a.rs"}}"#;
        let call = NewEvent { kind: EventType::new("agent.tool_use").unwrap(), ..event(input) };
        let result = NewEvent {
            kind: EventType::new("agent.tool_result").unwrap(),
            ..event(r#"{"call_id":"c","content":"ok"}"#)
        };
        create(&*store, "s").await;
        append(&*store, &key("s"), batch([call, result])).await.unwrap();
        let used = store.info(&key("s")).await.unwrap().used_at;
        clock.advance(DAY);
        let service = Service::new(Arc::clone(&store), clock);
        let caller = Caller { scope: Scope::local(), origin: Origin::User, fence: None };
        let query = FileChangesQuery { file: "/w/a.rs".to_owned(), ..FileChangesQuery::default() };
        let found = service.file_changes(&caller, query).await.unwrap();
        assert_eq!(found.data.len(), 1, "{found:?}");
        assert_eq!(store.info(&key("s")).await.unwrap().used_at, used);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_rejected_as_expired_and_can_be_restored() {
    on_every_engine(async |store, clock| {
        create_limited(store, "s", 60).await;
        let key = key("s");
        let before = events_of(store, &key).await;
        clock.advance(DAY);
        assert_eq!(sweep(store).await.expired, std::slice::from_ref(&key));
        let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
        let everything = engines::everything();
        let hold = SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
        let delete = SessionUpdate { delete: true, ..SessionUpdate::default() };
        for refused in [
            store.info(&key).await.err(),
            store.use_session(&key).await.err(),
            append(store, &key, batch(one())).await.err(),
            store.read(&key, everything).await.err(),
            store.watch(&key).await.err(),
            store.create(&Scope::local(), new).await.err(),
            store.change(&key, hold).await.err(),
            store.change(&key, delete).await.err(),
        ] {
            let refused = refused.expect("it has expired");
            assert!(matches!(refused, StoreError::SessionExpired { .. }), "{refused}");
        }
        let listing = || Listing { limit: 9, ..Listing::default() };
        assert_eq!(store.list(&Scope::local(), listing()).await.unwrap().sessions, []);
        let restore = || SessionUpdate { restore: true, ..SessionUpdate::default() };
        store.change(&key, restore()).await.unwrap();
        assert_eq!(events_of(store, &key).await, before);
        assert_eq!(store.list(&Scope::local(), listing()).await.unwrap().sessions.len(), 1);
        clock.advance(Duration::from_secs(59));
        assert_eq!(sweep(store).await.expired, [], "bringing it back is using it");
        store.change(&key, restore()).await.expect("of one that is there it changes nothing");
        append(store, &key, batch(one())).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_session_neither_expires_nor_is_deleted() {
    on_every_engine(async |store, clock| {
        create_limited(store, "s", 60).await;
        let key = key("s");
        let hold = |hold| SessionUpdate { hold: Some(hold), ..SessionUpdate::default() };
        let delete = || SessionUpdate { delete: true, ..SessionUpdate::default() };
        let held_at = store.change(&key, hold(true)).await.unwrap().held_at;
        assert_eq!(held_at, Some(clock.now()));
        clock.advance(DAY * 400);
        assert_eq!(sweep(store).await, SweepResult::default());
        let again = store.change(&key, hold(true)).await.unwrap();
        assert_eq!(again.held_at, held_at, "a second hold is the first");
        let refused = store.change(&key, delete()).await.unwrap_err();
        assert!(matches!(refused, StoreError::SessionHeld { .. }), "{refused}");
        append(store, &key, batch(one())).await.expect("a hold stops no event");
        assert_eq!(store.change(&key, hold(false)).await.unwrap().held_at, None);
        store.change(&key, delete()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_period_a_session_is_removed_and_its_id_is_free() {
    on_every_engine(async |store, clock| {
        create_limited(store, "expired", 60).await;
        create(store, "deleted").await;
        append(store, &key("deleted"), batch(one())).await.unwrap();
        store
            .change(&key("deleted"), SessionUpdate { delete: true, ..SessionUpdate::default() })
            .await
            .unwrap();
        clock.advance(DAY);
        assert_eq!(sweep(store).await.expired, [key("expired")]);
        clock.advance(DAY * 7 - Duration::from_secs(3_600));
        let swept = sweep(store).await.reclaimed;
        assert_eq!(swept, [key("deleted")], "a day longer gone");
        clock.advance(Duration::from_secs(2 * 3_600));
        assert_eq!(sweep(store).await.reclaimed, [key("expired")]);
        for name in ["expired", "deleted"] {
            let gone = store.info(&key(name)).await.unwrap_err();
            assert!(matches!(gone, StoreError::SessionNotFound { .. }), "{gone}");
            create(store, name).await;
            assert_eq!(events_of(store, &key(name)).await, []);
            append(store, &key(name), batch(one())).await.unwrap();
        }
        assert_eq!(sweep(store).await, SweepResult::default());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_stays_complete_and_can_be_restored_years_later() {
    on_every_engine(async |store, clock| {
        create(store, "usual").await;
        append(store, &key("usual"), batch(one())).await.unwrap();
        let before = events_of(store, &key("usual")).await;
        clock.advance(DAY * 31);
        assert_eq!(sweep(store).await.expired, [key("usual")]);
        clock.advance(DAY * 3_650);
        assert_eq!(sweep(store).await.reclaimed, []);
        assert!(expired(store, &key("usual")).await);
        let told = store.list_aging(&Scope::local(), 10).await.unwrap();
        assert_eq!((told[0].stage, told[0].ends_at), (Stage::Expired, None));
        let back = SessionUpdate { restore: true, ..SessionUpdate::default() };
        store.change(&key("usual"), back).await.unwrap();
        assert_eq!(events_of(store, &key("usual")).await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_can_be_restored_until_its_grace_ends_unless_it_was_discarded() {
    on_every_engine(async |store, clock| {
        let delete = || SessionUpdate { delete: true, ..SessionUpdate::default() };
        let discard = || SessionUpdate { discard: true, ..SessionUpdate::default() };
        let restore = || SessionUpdate { restore: true, ..SessionUpdate::default() };
        let is_deleted = async |name: &str| match store.info(&key(name)).await {
            Err(StoreError::SessionDeleted { restorable, .. }) => restorable,
            other => panic!("{name}: {other:?}"),
        };
        for name in ["back", "late", "discarded", "after"] {
            create(store, name).await;
            append(store, &key(name), batch(one())).await.unwrap();
        }
        let before = events_of(store, &key("back")).await;
        for name in ["back", "late", "after"] {
            store.change(&key(name), delete()).await.unwrap();
            assert!(is_deleted(name).await);
            let again = store.change(&key(name), delete()).await.unwrap_err();
            assert!(matches!(again, StoreError::SessionDeleted { .. }), "{again}");
        }
        store.change(&key("discarded"), discard()).await.unwrap();
        store.change(&key("after"), discard()).await.expect("a deleted session is discarded");
        clock.advance(DAY * 6);
        assert_eq!(sweep(store).await.reclaimed, []);
        store.change(&key("back"), restore()).await.unwrap();
        assert_eq!(events_of(store, &key("back")).await, before);
        append(store, &key("back"), batch(one())).await.expect("it takes events again");
        for name in ["discarded", "after"] {
            assert!(!is_deleted(name).await);
            let gone = store.change(&key(name), restore()).await.unwrap_err();
            assert!(matches!(gone, StoreError::SessionDeleted { .. }), "{gone}");
        }
        clock.advance(DAY * 2);
        sweep(store).await;
        for name in ["late", "discarded", "after"] {
            let gone = store.change(&key(name), restore()).await.unwrap_err();
            assert!(matches!(gone, StoreError::SessionNotFound { .. }), "{name}: {gone}");
        }
        assert_eq!(events_of(store, &key("back")).await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_by_years_expires_no_session() {
    on_every_engine(async |store, clock| {
        let jump = |by: i64| clock.set(clock.now().plus_micros(by));
        create(store, "old").await;
        for by in [YEARS_MICROS, -2 * YEARS_MICROS, YEARS_MICROS] {
            jump(by);
            create_limited(store, &format!("young{}", by > 0), 30 * 24 * 3_600).await;
            append(store, &key("old"), batch(one())).await.unwrap();
            assert_eq!(sweep(store).await, SweepResult::default(), "jumped by {by}");
            clock.advance(DAY * 29);
            assert_eq!(sweep(store).await, SweepResult::default(), "jumped by {by}, 29 days ago");
            append(store, &key("old"), batch(one())).await.unwrap();
            clock.advance(DAY * 2);
            let swept = sweep(store).await;
            assert_eq!(swept.expired.len(), 1, "31 days after {by}: the young one, {swept:?}");
            store.use_session(&key("old")).await.unwrap();
            clock.advance(DAY * 9);
            store.use_session(&key("old")).await.unwrap();
            assert_eq!(sweep(store).await.reclaimed.len(), 1, "grace behind {by}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_by_years_forgets_no_idempotency_key() {
    on_every_engine(async |store, clock| {
        for by in [YEARS_MICROS, -2 * YEARS_MICROS, YEARS_MICROS] {
            let id = format!("made{}", clock.now().0);
            let made = NewSession {
                id: Some(SessionId::new(&id).unwrap()),
                key: Some(BatchKey::new(&id).unwrap()),
                ..NewSession::default()
            };
            let sent = Batch { key: Some(BatchKey::new("once").unwrap()), ..batch(one()) };
            store.create(&Scope::local(), made.clone()).await.unwrap();
            let first = append(store, &key(&id), sent.clone()).await.unwrap();
            clock.set(clock.now().plus_micros(by));
            append(store, &key(&id), batch(one())).await.unwrap();
            let again = append(store, &key(&id), sent).await.unwrap();
            assert!(again.repeated, "jumped by {by}");
            assert_eq!(again.events, first.events, "jumped by {by}");
            let (_, created) = store.create(&Scope::local(), made).await.unwrap();
            assert!(created.repeated, "jumped by {by}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retention_report_matches_the_sessions_and_changes_nothing() {
    on_every_engine(async |store, clock| {
        create(store, "usual").await;
        create_limited(store, "held", 60).await;
        create_limited(store, "short", 60).await;
        create_limited(store, "kept", 0).await;
        create_limited(store, "gone", 60).await;
        store
            .change(&key("held"), SessionUpdate { hold: Some(true), ..SessionUpdate::default() })
            .await
            .unwrap();
        store
            .change(&key("gone"), SessionUpdate { delete: true, ..SessionUpdate::default() })
            .await
            .unwrap();
        clock.advance(Duration::from_secs(3_600));
        let told = store.list_aging(&Scope::local(), 10).await.unwrap();
        let lines: Vec<_> = told
            .iter()
            .map(|one| {
                (
                    one.session.as_str(),
                    one.stage,
                    one.kept,
                    one.ends_at < Some(store.counted_time()),
                )
            })
            .collect();
        let hold = told.iter().find_map(|one| one.kept);
        assert!(matches!(hold, Some(KeepReason::Hold(_))), "{hold:?}");
        assert_eq!(
            lines,
            [
                ("held", Stage::Alive, hold, true),
                ("short", Stage::Alive, None, true),
                ("gone", Stage::Deleted, None, false),
                ("usual", Stage::Alive, None, false),
            ]
        );
        assert_eq!(store.list_aging(&Scope::local(), 1).await.unwrap(), told[..1]);
        assert_eq!(
            store.list_aging(&Scope::local(), 10).await.unwrap(),
            told,
            "nothing was changed"
        );
        assert_eq!(store.list_aging(&engines::other_scope(), 10).await.unwrap(), []);
        assert_eq!(sweep(store).await.expired, [key("short")]);
    })
    .await;
}

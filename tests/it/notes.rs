//! Notes and leases, which are stored next to a session's events: on every engine and over stops of
//! every kind. It must not know what a note is for.

use std::time::Duration;

use bytes::Bytes;
use sessionlog::{
    event::{
        Batch, BatchKey, EventId, Fence, Lsn, NewNote, Note, NoteKind, Position, Scope, SessionKey,
        Timestamp,
    },
    store::{
        LastCheckpoint, LeaseCall, NewSession, NotesQuery, SessionUpdate, Store, StoreError,
        StoreResult, WorkState, local::LocalStore,
    },
};
use sessionlog_sim::{ManualClock, Sim};

use crate::{
    engines::{self, append, batch, create, event, events_of, key, named, other_scope, small},
    life::runtime,
    nth::{Nth, cases},
};

const MINUTE: Duration = Duration::from_secs(60);

async fn on_every_engine(check: impl AsyncFn(&dyn Store, &ManualClock)) {
    for engine in engines::with_servers().await {
        eprintln!("engine: {}", engine.name);
        check(&*engine.store, &engine.clock).await;
        engine.store.close().await;
    }
}

fn new(kind: NoteKind, name: &str, body: &str) -> NewNote {
    NewNote {
        kind,
        name: name.to_owned(),
        position: None,
        body: Bytes::copy_from_slice(body.as_bytes()),
        idle: false,
        if_notes: None,
    }
}

fn checkpoint(name: &str) -> NewNote {
    new(NoteKind::Checkpoint, name, "{}")
}

/// Reads every note of a session in pages of `notes_max`.
async fn notes_of(store: &dyn Store, key: &SessionKey, notes_max: usize) -> Vec<Note> {
    let (mut all, mut after): (Vec<Note>, Lsn) = (Vec::new(), Lsn(0));
    loop {
        let page = NotesQuery { after, notes_max, bytes_max: usize::MAX };
        let page = store.notes(key, page).await.unwrap();
        let Some(last) = page.last() else { return all };
        after = last.number;
        all.extend(page);
    }
}

fn told(notes: &[Note]) -> Vec<(NoteKind, String, u64, Bytes)> {
    let one = |note: &Note| (note.kind, note.name.clone(), note.position.0, note.body.clone());
    notes.iter().map(one).collect()
}

/// Returns the note count and checkpoint that a session's entry must have.
fn expected_marks(notes: &[Note]) -> (u64, Option<(u64, u64)>) {
    let last = notes.iter().rev().find(|note| note.kind.is_checkpoint());
    (notes.len() as u64, last.map(|note| (note.number.0, note.position.0)))
}

fn mark(work: &WorkState) -> (u64, Option<(u64, u64)>) {
    (
        work.notes,
        work.checkpoint.map(|LastCheckpoint { number, position, .. }| (number.0, position.0)),
    )
}

fn lease_call(steal: bool) -> LeaseCall {
    LeaseCall::Take { steal, ttl: MINUTE, key: None }
}

fn fenced(fence: u64, batch: Batch) -> Batch {
    Batch { fence: Some(Fence(fence)), ..batch }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_with_an_unmet_precondition_is_rejected_alone_and_with_events() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let expecting = |notes| NewNote { if_notes: Some(notes), ..checkpoint("a") };
        let with = |notes| Batch { note: Some(expecting(notes)), ..batch([event("{}")]) };
        for (notes, taken) in [(1, false), (0, true), (0, false), (2, false), (1, true)] {
            let alone = store.write_note(&key("s"), None, expecting(notes)).await;
            assert_eq!(alone.is_ok(), taken, "{notes}: {alone:?}");
            let refused = alone.err();
            let conflict = |error: &StoreError| matches!(error, StoreError::NotesConflict { .. });
            assert!(refused.iter().all(conflict), "{refused:?}");
        }
        for (notes, taken) in [(1, false), (2, true), (2, false)] {
            let sent = append(store, &key("s"), with(notes)).await;
            assert_eq!(sent.is_ok(), taken, "{notes}: {sent:?}");
        }
        let info = store.info(&key("s")).await.unwrap();
        assert_eq!((info.tail, info.work.notes), (Position(1), 3));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_take_no_position_and_are_read_in_write_order() {
    on_every_engine(async |store, clock| {
        clock.set(Timestamp(1_800_000_000_000_000));
        create(store, "s").await;
        assert_eq!(notes_of(store, &key("s"), 10).await, []);
        let before = store.info(&key("s")).await.unwrap();
        append(store, &key("s"), batch([event("{}"), event("{}")])).await.unwrap();
        let written = store.info(&key("s")).await.unwrap();
        clock.advance(MINUTE);
        let at = |position| NewNote { position: Some(Position(position)), ..checkpoint("b") };
        store.write_note(&key("s"), None, checkpoint("a")).await.unwrap();
        store.write_note(&key("s"), None, at(1)).await.unwrap();
        store.write_note(&key("s"), None, new(NoteKind::Cursor, "me", "")).await.unwrap();
        let beyond = NewNote { position: Some(Position(99)), ..checkpoint("c") };
        let info = store.write_note(&key("s"), None, beyond).await.unwrap();
        assert_eq!((info.tail, info.receipt), (written.tail, written.receipt));
        let notes = ["a{}", "b{}", "me", "c{}"].concat().len() as u64;
        assert_eq!((info.updated_at, info.bytes), (written.updated_at, written.bytes + notes));
        assert_eq!(before.work, WorkState::default());
        let sent = Batch { note: Some(checkpoint("d")), ..batch([event("{}")]) };
        let appended = append(store, &key("s"), sent).await.unwrap();
        assert_eq!((appended.first_position, appended.next_position), (Position(2), Position(3)));
        let wanted = [
            (NoteKind::Checkpoint, "a", 2, "{}"),
            (NoteKind::Checkpoint, "b", 1, "{}"),
            (NoteKind::Cursor, "me", 2, ""),
            (NoteKind::Checkpoint, "c", 2, "{}"),
            (NoteKind::Checkpoint, "d", 3, "{}"),
        ];
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(kind, name, at, body)| (kind, name.to_owned(), at, Bytes::from(body)))
            .collect();
        for page in [1, 2, 100] {
            let notes = notes_of(store, &key("s"), page).await;
            assert_eq!(told(&notes), wanted, "in pages of {page}");
            assert!(notes.is_sorted_by(|a, b| a.number < b.number));
            assert_eq!(mark(&store.info(&key("s")).await.unwrap().work), expected_marks(&notes));
        }
        assert_eq!(events_of(store, &key("s")).await.len(), 3);
        let foreign = SessionKey { scope: other_scope(), ..key("s") };
        let refused = store.write_note(&foreign, None, checkpoint("a")).await.unwrap_err();
        assert!(matches!(refused, StoreError::SessionNotFound { .. }), "{refused}");
    })
    .await;
}

/// Adds a metadata pair to a batch; without a value the batch removes the key.
fn with_metadata(name: &str, value: Option<&str>, batch: Batch) -> Batch {
    Batch { metadata: [(name.to_owned(), value.map(str::to_owned))].into(), ..batch }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_of_a_batch_is_set_only_if_its_events_are_appended() {
    on_every_engine(async |store, clock| {
        let first = with_metadata("state", Some("new"), batch([named("a", "{}")]));
        let id = Some(key("s").session);
        let new = NewSession { id, events: first.clone(), ..NewSession::default() };
        let (created, _) = store.create(&Scope::local(), new).await.unwrap();
        assert_eq!(created.metadata["state"], "new");
        assert_eq!(created.bytes, 2 + 8, "its event, and the pair");
        let set = async |sent: Batch| {
            clock.advance(MINUTE);
            let _ = append(store, &key("s"), sent).await;
            let info = store.info(&key("s")).await.unwrap();
            (info.metadata.get("state").cloned().unwrap_or_default(), info.tail.0, info.bytes)
        };
        let told = |state: &str, tail, bytes| (state.to_owned(), tail, bytes);
        let second = || with_metadata("state", Some("on"), batch([named("b", "{}")]));
        assert_eq!(set(second()).await, told("on", 2, 19));
        assert_eq!(set(first).await, told("on", 2, 19), "a retry");
        let late = Batch { if_position: Some(Position(1)), ..batch([event("{}")]) };
        assert_eq!(set(with_metadata("state", Some("late"), late)).await, told("on", 2, 19));
        let noted = Batch { note: Some(checkpoint("c")), ..batch([event("{}")]) };
        assert_eq!(set(with_metadata("state", Some("off"), noted)).await, told("off", 3, 32));
        let before = store.info(&key("s")).await.unwrap();
        assert_eq!(set(with_metadata("state", None, Batch::default())).await, told("", 3, 37));
        let after = store.info(&key("s")).await.unwrap();
        assert_eq!(after.updated_at, before.updated_at, "metadata alone is no work");
        assert_eq!(set(second()).await, told("", 3, 37), "a retry brings nothing back");
    })
    .await;
}

#[test]
fn metadata_of_a_batch_is_durable_with_its_events_without_additional_disk_calls() {
    let sim = Sim::new(83);
    runtime().block_on(async {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "s").await;
        let calls = async |sent: Batch| {
            let before = sim.calls();
            append(&store, &key("s"), sent).await.unwrap();
            sim.calls() - before
        };
        let plain = calls(batch([event("{}")])).await;
        assert_eq!(calls(with_metadata("state", Some("on"), batch([event("{}")]))).await, plain);
        drop(store);
        sim.power_loss();
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        let info = store.info(&key("s")).await.unwrap();
        assert_eq!((info.tail, info.metadata["state"].as_str()), (Position(2), "on"));
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!((verified.events, verified.damage), (2, vec![]));
    });
}

fn outcome<T>(result: &StoreResult<T>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(StoreError::LeaseHeld { .. }) => "held".to_owned(),
        Err(StoreError::LeaseLost { .. }) => "lost".to_owned(),
        Err(other) => other.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_lease_can_write() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        let session = key("s");
        let write = async |fence: Option<u64>| {
            let sent = Batch { fence: fence.map(Fence), ..batch([event("{}")]) };
            outcome(&append(store, &session, sent).await)
        };
        let note = async |fence: Option<u64>, note| {
            outcome(&store.write_note(&session, fence.map(Fence), note).await)
        };
        assert_eq!(write(Some(1)).await, "lost", "there is no lease");
        let (lease, info) = store.lease(&session, lease_call(false)).await.unwrap();
        assert_eq!((lease.fence, info.work.fence), (Fence(1), Fence(1)));
        let cursor = || new(NoteKind::Cursor, "me", "{}");
        let idle = || NewNote { idle: true, ..checkpoint("timer") };
        assert_eq!(write(None).await, "held");
        assert_eq!(write(Some(1)).await, "ok");
        assert_eq!(note(None, checkpoint("a")).await, "held");
        assert_eq!(note(Some(1), checkpoint("a")).await, "ok");
        assert_eq!(note(None, cursor()).await, "ok", "a reader is stopped by nobody");
        assert_eq!(note(None, idle()).await, "ok", "nor is the store itself");
        assert_eq!(outcome(&store.lease(&session, lease_call(false)).await), "held");
        let titled =
            SessionUpdate { title: Some(Some("t".to_owned())), ..SessionUpdate::default() };
        assert!(store.change(&session, titled).await.is_ok(), "what it says of itself is no event");
        let (stolen, _) = store.lease(&session, lease_call(true)).await.unwrap();
        assert_eq!(stolen.fence, Fence(2));
        assert_eq!((write(Some(1)).await, write(Some(2)).await), ("lost".into(), "ok".into()));
        assert_eq!(note(Some(1), checkpoint("b")).await, "lost");
        clock.advance(MINUTE);
        assert_eq!(write(Some(2)).await, "ok", "not a moment early");
        clock.advance(Duration::from_secs(1));
        assert_eq!((write(Some(2)).await, write(None).await), ("lost".into(), "ok".into()));
        let renew = LeaseCall::Renew { fence: Fence(2), ttl: MINUTE };
        assert_eq!(outcome(&store.lease(&session, renew).await), "lost");
        let (third, _) = store.lease(&session, lease_call(false)).await.unwrap();
        assert_eq!(third.fence, Fence(3));
        let release = LeaseCall::Release { fence: Fence(3) };
        assert_eq!(outcome(&store.lease(&session, release).await), "ok");
        assert_eq!((write(Some(3)).await, write(None).await), ("lost".into(), "ok".into()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_gets_its_first_answer_without_a_check_of_the_lease() {
    on_every_engine(async |store, _| {
        create(store, "s").await;
        let by_id = batch([named("e", "{}")]);
        let by_key = Batch { key: Some(BatchKey::new("k").unwrap()), ..batch([event("{}")]) };
        for sent in [&by_id, &by_key] {
            append(store, &key("s"), sent.clone()).await.unwrap();
        }
        store.lease(&key("s"), lease_call(false)).await.unwrap();
        for sent in [by_id, by_key] {
            assert!(append(store, &key("s"), sent.clone()).await.unwrap().repeated);
            assert!(append(store, &key("s"), fenced(9, sent)).await.unwrap().repeated);
        }
        let wrong = Batch { if_position: Some(Position(9)), ..batch([event("{}")]) };
        let refused = append(store, &key("s"), wrong.clone()).await;
        assert_eq!(outcome(&refused), "held", "the lease comes before the precondition");
        let refused = append(store, &key("s"), fenced(1, wrong)).await.unwrap_err();
        assert!(matches!(refused, StoreError::PositionConflict { .. }), "{refused}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_work_is_listed_latest_first() {
    on_every_engine(async |store, clock| {
        let listed = async |workspace: Option<&str>, limit| -> Vec<String> {
            let found = store.list_unfinished(&Scope::local(), workspace, limit).await.unwrap();
            found.iter().map(|info| info.key.session.to_string()).collect()
        };
        for (name, workspace) in [("a", "w"), ("b", "w"), ("c", "v"), ("d", "w"), ("e", "w")] {
            clock.advance(MINUTE);
            let new = NewSession {
                id: Some(sessionlog::event::SessionId::new(name).unwrap()),
                workspace: Some(workspace.to_owned()),
                events: batch([event("{}")]),
                ..NewSession::default()
            };
            store.create(&Scope::local(), new).await.unwrap();
        }
        assert_eq!(listed(None, 9).await, Vec::<String>::new(), "nobody said that he began");
        store.lease(&key("a"), lease_call(false)).await.unwrap();
        for name in ["b", "c", "d"] {
            store.write_note(&key(name), None, checkpoint("x")).await.unwrap();
        }
        store.write_note(&key("e"), None, NewNote { idle: true, ..checkpoint("x") }).await.unwrap();
        store.write_note(&key("d"), None, new(NoteKind::Final, "y", "{}")).await.unwrap();
        store.write_note(&key("d"), None, NewNote { idle: true, ..checkpoint("z") }).await.unwrap();
        assert_eq!(listed(None, 9).await, ["c", "b", "a"]);
        assert_eq!(listed(Some("w"), 9).await, ["b", "a"]);
        assert_eq!(listed(None, 1).await, ["c"]);
        clock.advance(MINUTE * 2);
        assert_eq!(listed(None, 9).await, ["c", "b", "a"], "a lease that ran out was not ended");
        store.lease(&key("a"), LeaseCall::Release { fence: Fence(1) }).await.unwrap();
        store
            .change(&key("b"), SessionUpdate { archive: Some(true), ..SessionUpdate::default() })
            .await
            .unwrap();
        assert_eq!(listed(None, 9).await, ["c"]);
        assert!(store.list_unfinished(&other_scope(), None, 9).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_checkpoint_does_not_count_as_use_of_the_session() {
    on_every_engine(async |store, clock| {
        create(store, "s").await;
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        let unmarked = async || store.list_unmarked(Timestamp(i64::MIN), 9).await.unwrap();
        assert_eq!(unmarked().await, [key("s")]);
        let used = store.info(&key("s")).await.unwrap().used_at;
        clock.advance(MINUTE * 60);
        let info =
            store.write_note(&key("s"), None, NewNote { idle: true, ..checkpoint("a") }).await;
        assert_eq!(info.unwrap().used_at, used);
        assert_eq!(unmarked().await, [], "it changed no more since");
        let info = store.write_note(&key("s"), None, checkpoint("b")).await.unwrap();
        assert!(info.used_at > used, "whoever asks uses it");
        append(store, &key("s"), batch([event("{}")])).await.unwrap();
        assert_eq!(unmarked().await, [key("s")]);
        let later = store.info(&key("s")).await.unwrap().updated_at.plus_micros(1);
        assert_eq!(store.list_unmarked(later, 9).await.unwrap(), []);
    })
    .await;
}

/// A session's notes as its client recorded them.
#[derive(Default)]
struct Known {
    acknowledged: Vec<String>,
    fence: u64,
    sent: u32,
}

impl Known {
    /// Sends notes, appends and leases; an unacknowledged one may be stored or not.
    async fn work(&mut self, store: &LocalStore, rounds: u32) {
        for _ in 0..rounds {
            self.sent += 1;
            let name = format!("n{}", self.sent);
            let done = match self.sent % 4 {
                0 => {
                    let note = Some(checkpoint(&name));
                    let sent = Batch { note, ..batch([event(&"x".repeat(300))]) };
                    append(store, &key("s"), fenced(self.fence, sent)).await.is_ok()
                }
                1 => {
                    let taken = store.lease(&key("s"), lease_call(true)).await;
                    if let Ok((lease, _)) = taken {
                        assert!(lease.fence.0 > self.fence, "a token was given twice");
                        self.fence = lease.fence.0;
                    }
                    false
                }
                kind => {
                    let kind = if kind == 2 { NoteKind::Cursor } else { NoteKind::Checkpoint };
                    let note = new(kind, &name, &"y".repeat(100));
                    store.write_note(&key("s"), Some(Fence(self.fence)), note).await.is_ok()
                }
            };
            if done {
                self.acknowledged.push(name);
            }
            if self.sent.is_multiple_of(9) {
                let _ = store.flush();
            }
        }
    }

    /// Checks that everything acknowledged is stored once and in order, and nothing unsent.
    async fn judge(&mut self, store: &LocalStore, place: &str) {
        let Ok(info) = store.info(&key("s")).await else {
            assert!(self.acknowledged.is_empty() && self.fence == 0, "{place}: it is gone");
            return create(store, "s").await;
        };
        let notes = notes_of(store, &key("s"), 7).await;
        let names: Vec<&str> = notes.iter().map(|note| note.name.as_str()).collect();
        let number = |name: &&str| name[1..].parse::<u32>().unwrap();
        assert!(names.is_sorted_by_key(number), "{place}: {names:?}");
        let mut distinct = names.clone();
        distinct.dedup();
        assert_eq!(distinct, names, "{place}");
        for name in &self.acknowledged {
            assert!(names.contains(&name.as_str()), "{place}: {name} is lost");
        }
        assert_eq!(mark(&info.work), expected_marks(&notes), "{place}");
        assert!(info.work.fence.0 >= self.fence, "{place}: a token went back");
        assert_eq!(store.verify(&Scope::local(), None).await.unwrap().damage, [], "{place}");
        // The outcome of each unacknowledged request is known now.
        self.acknowledged = names.into_iter().map(str::to_owned).collect();
        self.fence = info.work.fence.0;
    }
}

#[tokio::test]
async fn notes_and_leases_survive_stops_kills_and_power_losses_in_turn() {
    for sim in [Sim::new(31), Sim::encrypted(31)] {
        let mut known = Known::default();
        for round in 0..12 {
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            known.judge(&store, &format!("round {round}")).await;
            let before = known.acknowledged.len();
            known.work(&store, 40).await;
            assert_eq!(known.acknowledged.len(), before + 30);
            match round % 3 {
                0 => store.close().await,
                1 => sim.kill(),
                _ => sim.power_loss(),
            }
        }
        let sealed = sim.files().iter().filter(|name| name.ends_with(".sealed")).count();
        assert!(sealed > 0, "a run of this length seals segments: {:?}", sim.files());
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        known.judge(&store, "the end").await;
        assert_eq!(known.acknowledged.len(), 12 * 30);
    }
}

/// Other sessions write in between, so that numbers in a sealed frame are far apart.
#[test]
fn a_note_number_resolves_in_open_and_sealed_segments() {
    let sim = Sim::new(3);
    runtime().block_on(async {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        create(&store, "a").await;
        create(&store, "b").await;
        append(&store, &key("a"), batch([named("gone", "{}")])).await.unwrap();
        for round in 0..30 {
            append(&store, &key("a"), batch([event("{}")])).await.unwrap();
            append(&store, &key("b"), batch([event("{}"), event("{}"), event("{}")]))
                .await
                .unwrap();
            if round % 7 == 3 {
                store.write_note(&key("a"), None, checkpoint(&format!("c{round}"))).await.unwrap();
            }
        }
        let all = notes_of(&store, &key("a"), 100).await;
        assert_eq!(all.len(), 4);
        for sealed in [false, true] {
            if sealed {
                // The redacted segment is sealed again.
                store.redact(&key("a"), &EventId::new("gone").unwrap()).await.unwrap();
                assert!(sim.files().iter().any(|path| path.ends_with(".sealed")));
            } else {
                store.flush().unwrap();
            }
            for note in &all {
                let after = Lsn(note.number.0 - 1);
                let wanted = NotesQuery { after, notes_max: 1, bytes_max: 1 };
                let found = store.notes(&key("a"), wanted).await.unwrap();
                assert_eq!(found, std::slice::from_ref(note), "sealed: {sealed}");
            }
        }
    });
}

/// Sends the same requests with a fault at one call; returns the number of calls without faults.
async fn one_fault(case: Option<Nth>) -> u64 {
    let sim = Sim::new(5);
    let mut known = Known::default();
    if let Some(case) = case {
        case.plan(&sim);
    }
    for life in 0..2 {
        if let Ok(store) = LocalStore::open_local(&sim.env(), small()) {
            if life == 0 {
                let new = NewSession { id: Some(key("s").session), ..NewSession::default() };
                let _ = store.create(&Scope::local(), new).await;
            }
            known.work(&store, 24).await;
            if life == 0 {
                store.close().await;
            }
        }
        if sim.lives() == 0 || life == 1 {
            sim.kill();
        }
    }
    let calls = sim.calls();
    sim.heal();
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    known.judge(&store, &format!("{case:?}")).await;
    known.work(&store, 4).await;
    calls
}

#[test]
fn notes_and_leases_survive_a_fault_at_any_disk_call() {
    let runtime = runtime();
    let calls = runtime.block_on(one_fault(None));
    assert!(calls > 100, "{calls} calls are hardly a run");
    for case in cases(calls, 11) {
        runtime.block_on(one_fault(Some(case)));
    }
}

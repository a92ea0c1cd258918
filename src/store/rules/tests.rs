//! The rules as tables: which request a session accepts in which state, what frames in flight
//! decide, and that the effect of a decision equals that of its frame when it is read from disk. It
//! must not open a store.

use std::{cell::Cell, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    Ahead, Ask, Decision, Draw, Effect, LookedUp, Sees, WriteRequest, apply, created_before, decide,
};
use crate::{
    env::Short,
    event::{
        Batch, BatchKey, Event, EventId, EventType, Fence, Incarnation, Lsn, NewEvent, NewNote,
        NoteKind, Origin, Position, Scope, SessionHash, SessionId, SessionKey, TenantId, Timestamp,
        UserId,
    },
    log::{Change, Create, Damage, Ending, Entry, KnownBatch, LeaseRecord, Life, Loss, Redaction},
    store::{LeaseCall, NewSession, StoreError},
};

const SECOND: i64 = 1_000_000;

/// A deterministic generator that counts up.
#[derive(Default)]
struct Counter(Cell<u8>);

impl Counter {
    fn next<const N: usize>(&self) -> [u8; N] {
        self.0.set(self.0.get().wrapping_add(1));
        [self.0.get(); N]
    }
}

impl Draw for Counter {
    fn id(&self) -> [u8; 10] {
        self.next()
    }

    fn salt(&self) -> [u8; 16] {
        self.next()
    }
}

fn create() -> Create {
    Create {
        tenant: "t".to_owned(),
        user: "u".to_owned(),
        session: "s".to_owned(),
        incarnation: [7; 16],
        title: None,
        metadata: [("a".to_owned(), "1".to_owned())].into(),
        workspace: None,
        ttl_seconds: None,
        key: None,
        lineage: None,
    }
}

fn key() -> SessionKey {
    let (tenant, user) = (TenantId::new("t").unwrap(), UserId::new("u").unwrap());
    SessionKey { scope: Scope { tenant, user }, session: id() }
}

fn hash() -> SessionHash {
    SessionHash::new(&key(), Incarnation([7; 16]))
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * SECOND)
}

fn event(given: Option<&str>) -> NewEvent {
    NewEvent {
        id: given.map(|id| EventId::new(id).unwrap()),
        kind: EventType::new("user.message").unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: Bytes::from_static(br#"{"text":"hello"}"#),
    }
}

fn events(given: &[Option<&str>]) -> Batch {
    Batch { events: given.iter().map(|id| event(*id)).collect(), ..Batch::default() }
}

fn note(kind: NoteKind, idle: bool) -> Batch {
    let (name, body) = ("n".to_owned(), Bytes::from_static(b"{}"));
    Batch {
        note: Some(NewNote { kind, name, position: None, body, idle, if_notes: None }),
        ..Batch::default()
    }
}

/// Returns the entry of a session with three events, written to at second 10.
fn entry() -> Entry {
    let mut entry = Entry::begin(&create(), hash(), at(1));
    let written =
        [request(Ask::Create(Box::new(create())), Batch::default(), 1), append(events(&[None; 3]))];
    for mut request in written {
        let effect = written_effect(&entry, &mut request);
        apply(&mut entry, &effect, at(10));
    }
    entry
}

fn request(ask: Ask, batch: Batch, second: i64) -> WriteRequest {
    WriteRequest::new(ask, batch, at(second), &Counter::default())
}

fn append(batch: Batch) -> WriteRequest {
    request(Ask::Append, batch, 10)
}

/// Returns the effect of a request whose frame follows an entry, and checks that the frame has the
/// same effect when it is read from disk.
fn written_effect(entry: &Entry, request: &mut WriteRequest) -> Effect {
    let ahead = Ahead::from_entry(entry);
    let named = (&id(), hash());
    let decided = decide(named, entry, &ahead, request, LookedUp::default(), &|| at(10)).unwrap();
    let Decision::Draft(mut draft) = decided else { panic!("nothing to write") };
    let mut frame = draft.take_frame();
    frame.header.first_lsn = Lsn(entry.end_lsn);
    let effect = draft.effect(frame.header.first_lsn);
    let read = Effect::from_records(&frame.header, &frame.records().unwrap());
    assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    effect
}

fn change(change: impl FnOnce(&mut Change)) -> Ask {
    let mut changed = Change::default();
    change(&mut changed);
    Ask::Change(changed)
}

fn take() -> Ask {
    Ask::Lease(LeaseCall::Take { steal: false, ttl: Duration::from_secs(60), key: None })
}

/// Returns a request of every kind.
fn asks() -> Vec<(&'static str, Ask, Batch)> {
    let none = Batch::default;
    let life = |life: Life| move |change: &mut Change| change.life = life;
    vec![
        ("append", Ask::Append, events(&[None])),
        ("append fenced", Ask::Append, Batch { fence: Some(Fence(1)), ..events(&[None]) }),
        (
            "append with metadata",
            Ask::Append,
            Batch { metadata: [("b".to_owned(), None)].into(), ..events(&[None]) },
        ),
        ("note", Ask::Append, note(NoteKind::Cursor, false)),
        ("checkpoint", Ask::Append, note(NoteKind::Checkpoint, false)),
        ("idle checkpoint", Ask::Append, note(NoteKind::Checkpoint, true)),
        ("empty", Ask::Append, none()),
        ("title", change(|change| change.title = Some(Some("x".to_owned()))), none()),
        ("archive", change(|change| change.archive = Some(true)), none()),
        ("unarchive", change(|change| change.archive = Some(false)), none()),
        ("hold", change(life(Life { hold: Some(true), ..Life::default() })), none()),
        ("restore", change(life(Life { restore: true, ..Life::default() })), none()),
        (
            "delete",
            change(|change| {
                change.delete = true;
                change.life.expire = true;
            }),
            none(),
        ),
        ("discard", change(|change| change.delete = true), none()),
        ("expire", Ask::Expire, none()),
        ("take", take(), none()),
        ("release", Ask::Lease(LeaseCall::Release { fence: Fence(1) }), none()),
        ("void", Ask::Lease(LeaseCall::Void), none()),
        ("redact", Ask::Redact(Position(1)), none()),
        ("give up", Ask::GiveUp(Loss { places: vec![(1, 2, "x".to_owned())] }), none()),
        ("erase", Ask::Erase, none()),
    ]
}

/// Returns the states of a session.
fn states() -> Vec<(&'static str, Entry)> {
    let with = |change: fn(&mut Entry)| {
        let mut entry = entry();
        change(&mut entry);
        entry
    };
    let lease = |entry: &mut Entry| {
        entry.work.lease(LeaseRecord { fence: 1, until: Some(at(60).0), key: None });
    };
    vec![
        ("live", entry()),
        ("archived", with(|entry| entry.archived_at = Some(1))),
        ("held", with(|entry| entry.held_at = Some(1))),
        ("leased", with(lease)),
        (
            "damaged",
            with(|entry| {
                let reason = "lost".to_owned();
                entry.damage = vec![Damage { from: 1, to: 2, reason, accepted_at: None }];
            }),
        ),
        ("redacted", with(|entry| entry.redacted = vec![Redaction { position: 1, cleared: true }])),
        ("expired", with(|entry| entry.stage.end_by(Ending::Expired, 1))),
        ("deleted", with(|entry| entry.stage.end_by(Ending::Deleted, 1))),
        ("discarded", with(|entry| entry.stage.end_by(Ending::Discarded, 1))),
        ("erased", with(|entry| entry.stage.end_by(Ending::Erased { unfinished: false }, 1))),
    ]
}

/// Returns the outcome of a request as one word.
fn outcome(entry: &Entry, ahead: &Ahead, request: &mut WriteRequest, looked: LookedUp) -> String {
    let session = id();
    let seen = match request.ask.sees() {
        // The session has no forks.
        Sees::Visible | Sees::Read => entry.check_visible(&session),
        Sees::Restorable => entry.check_restorable(&session),
        Sees::Kept => Ok(()),
    };
    let named = (&session, hash());
    match seen.and_then(|()| decide(named, entry, ahead, request, looked, &|| at(10))) {
        Ok(Decision::Nothing) => "nothing".to_owned(),
        Ok(Decision::Batch(_)) => "the batch".to_owned(),
        Ok(Decision::Events(_)) => "the events".to_owned(),
        Ok(Decision::Wait) => "waits".to_owned(),
        Ok(Decision::Draft(_)) => "written".to_owned(),
        Err(error) => named_error(&error).to_owned(),
    }
}

fn named_error(error: &StoreError) -> &'static str {
    match error {
        StoreError::SessionDeleted { restorable: true, .. } => "deleted",
        StoreError::SessionDeleted { .. } => "gone",
        StoreError::SessionExpired { .. } => "expired",
        StoreError::SessionHeld { .. } => "held",
        StoreError::SessionArchived { .. } => "archived",
        StoreError::SessionDamaged { .. } => "damaged",
        StoreError::LeaseHeld { .. } => "leased",
        StoreError::LeaseLost { .. } => "lease lost",
        StoreError::PositionConflict { .. } | StoreError::NotesConflict { .. } => "conflict",
        StoreError::DuplicateEventId { .. } => "duplicate",
        StoreError::DiskFull(_) => "full",
        StoreError::Io { .. } => "io",
        _ => "another error",
    }
}

#[test]
fn each_state_of_a_session_accepts_only_its_requests() {
    let mut table = String::new();
    for (state, entry) in states() {
        for (name, ask, batch) in asks() {
            let ahead = Ahead::from_entry(&entry);
            let mut request = request(ask, batch, 10);
            let found = outcome(&entry, &ahead, &mut request, LookedUp::default());
            writeln!(table, "{state}: {name}: {found}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_request_that_depends_on_frames_in_flight_waits_for_them() {
    let entry = entry();
    let mut table = String::new();
    for (queued, ask, batch) in asks().into_iter().take(13) {
        let mut ahead = Ahead::from_entry(&entry);
        let mut first = request(ask, batch, 10);
        let named = (&id(), hash());
        let decided = decide(named, &entry, &ahead, &mut first, LookedUp::default(), &|| at(10));
        let Ok(Decision::Draft(draft)) = decided else { continue };
        ahead.advance(draft.next(&first));
        for (name, ask, batch) in asks() {
            let mut second = request(ask, batch, 10);
            let found = outcome(&entry, &ahead, &mut second, LookedUp::default());
            writeln!(table, "behind {queued}: {name}: {found}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn event_ids_and_expected_positions_are_checked_against_durable_events() {
    let entry = entry();
    let (tail, key) = (Position(entry.tail), BatchKey::new("k").unwrap());
    let keyed = || Batch { key: Some(key.clone()), ..events(&[Some("a"), None]) };
    let mut flying = Ahead::from_entry(&entry);
    let mut first = append(keyed());
    let Ok(Decision::Draft(draft)) =
        decide((&id(), hash()), &entry, &flying, &mut first, LookedUp::default(), &|| at(10))
    else {
        panic!("an append is written")
    };
    let next = draft.next(&first);
    let answer = next.answer(&mut first);
    assert_eq!((answer.first_position, answer.next_position), (tail, tail.plus(2)));
    flying.advance(next);
    let still = Ahead::from_entry(&entry);
    let expecting =
        |position: u64| Batch { if_position: Some(Position(position)), ..events(&[None]) };
    let known =
        || KnownBatch { key: "k".to_owned(), first_position: 0, events: 2, digest: [0; 32] };
    let batch = || LookedUp { batch: Some(known()), ..LookedUp::default() };
    let found = || LookedUp { known: vec![Some(Position(1)), None], ..LookedUp::default() };
    for (ahead, batch, looked, wanted) in [
        (&still, keyed(), LookedUp::default(), "written"),
        (&still, keyed(), batch(), "the batch"),
        (&still, keyed(), found(), "the events"),
        (&still, events(&[Some("a"), Some("a")]), LookedUp::default(), "duplicate"),
        (&flying, keyed(), LookedUp::default(), "waits"),
        (
            &flying,
            Batch { key: Some(key.clone()), ..events(&[None]) },
            LookedUp::default(),
            "waits",
        ),
        (&flying, events(&[Some("a")]), LookedUp::default(), "waits"),
        (&flying, events(&[Some("b")]), LookedUp::default(), "written"),
        (&flying, events(&[None]), LookedUp::default(), "written"),
        (&still, expecting(3), LookedUp::default(), "written"),
        (&still, expecting(2), LookedUp::default(), "conflict"),
        (&still, expecting(4), LookedUp::default(), "conflict"),
        // In flight the tail is 5: 2 is durable, 3 and 4 are in flight, 6 may follow.
        (&flying, expecting(5), LookedUp::default(), "written"),
        (&flying, expecting(2), LookedUp::default(), "conflict"),
        (&flying, expecting(3), LookedUp::default(), "waits"),
        (&flying, expecting(6), LookedUp::default(), "waits"),
        (
            &still,
            events(&[None]),
            LookedUp { cramped: Some(Short::Space), ..LookedUp::default() },
            "full",
        ),
        (
            &still,
            events(&[None]),
            LookedUp { unwritable: Some("x".to_owned()), ..LookedUp::default() },
            "io",
        ),
    ] {
        let described = format!("{batch:?}, {looked:?}, {} in flight", ahead.frames);
        let mut request = append(batch);
        assert_eq!(outcome(&entry, ahead, &mut request, looked), wanted, "{described}");
    }
}

#[test]
fn an_expected_number_of_notes_is_checked_against_durable_ones() {
    let mut entry = entry();
    entry.work.notes = 3;
    let expecting = |notes| {
        let mut batch = note(NoteKind::Checkpoint, false);
        batch.note.iter_mut().for_each(|note| note.if_notes = Some(notes));
        append(batch)
    };
    let still = Ahead::from_entry(&entry);
    let (mut flying, mut writing) = (Ahead::from_entry(&entry), Ahead::from_entry(&entry));
    for (ahead, mut queued) in [
        (&mut flying, append(note(NoteKind::Cursor, false))),
        (&mut writing, append(events(&[None]))),
    ] {
        let named = (&id(), hash());
        let decided = decide(named, &entry, ahead, &mut queued, LookedUp::default(), &|| at(10));
        let Ok(Decision::Draft(draft)) = decided else { panic!("it is written") };
        ahead.advance(draft.next(&queued));
    }
    for (ahead, notes, wanted) in [
        (&still, 3, "written"),
        (&still, 2, "conflict"),
        (&still, 4, "conflict"),
        // In flight they are 4: 2 were durable before, 3 and 5 depend on what is in flight.
        (&flying, 4, "written"),
        (&flying, 2, "conflict"),
        (&flying, 3, "waits"),
        (&flying, 5, "waits"),
        // The frame in flight has no note.
        (&writing, 3, "written"),
        (&writing, 4, "conflict"),
    ] {
        let found = outcome(&entry, ahead, &mut expecting(notes), LookedUp::default());
        assert_eq!(found, wanted, "{notes} expected, {} in flight", ahead.notes);
    }
}

#[test]
fn a_frame_read_from_disk_has_the_same_effect_as_its_decision() {
    for (state, entry) in states() {
        for (name, ask, batch) in asks() {
            let mut request = request(ask, batch, 20);
            let looked = LookedUp::default();
            if outcome(&entry, &Ahead::from_entry(&entry), &mut request, looked) != "written" {
                continue;
            }
            let mut after = entry.clone();
            let effect = written_effect(&entry, &mut request);
            let used_before = entry.used_at();
            apply(&mut after, &effect, at(30));
            let context = format!("{state}: {name}");
            assert!(after.end_lsn > entry.end_lsn, "{context}");
            assert_eq!(after.tail, entry.tail + request.batch.events.len() as u64, "{context}");
            let aside = matches!(request.ask, Ask::Lease(_))
                || request.batch.note.is_some() && request.batch.events.is_empty();
            let updated = if aside { at(10) } else { at(20) };
            assert_eq!(Timestamp(after.updated_at), updated, "{context}");
            let used = if request.batch.is_idle() { used_before } else { at(30) };
            assert_eq!(after.used_at(), used, "{context}");
            let hidden = match &request.ask {
                Ask::Change(change) if change.life.restore => false,
                Ask::Change(change) => change.delete || !is_seen(&entry),
                Ask::Expire | Ask::Erase => true,
                _ => !is_seen(&entry),
            };
            assert_eq!(!is_seen(&after), hidden, "{context}");
            let rewritten = |entry: &Entry| entry.info(&key()).rewritten;
            let rises = matches!(request.ask, Ask::Redact(_) | Ask::Erase);
            assert_eq!(rewritten(&after) > rewritten(&entry), rises, "{context}");
            assert!(rewritten(&after) >= rewritten(&entry), "{context}");
        }
    }
}

fn is_seen(entry: &Entry) -> bool {
    entry.check_visible(&id()).is_ok()
}

#[test]
#[should_panic(expected = "a frame is applied once, in order")]
fn a_frame_replayed_after_it_was_applied_changes_nothing() {
    let mut entry = entry();
    let effect = written_effect(&entry, &mut append(events(&[None])));
    apply(&mut entry, &effect, at(10));
    apply(&mut entry, &effect, at(10));
    apply(&mut entry, &Effect { end_lsn: Lsn(1), ..effect }, at(10));
}

#[test]
fn a_repeated_creation_with_different_events_is_not_the_same_request() {
    let stored = |n: u64| {
        let NewEvent { kind, origin, created_at, body, .. } = event(None);
        let (id, position) = (EventId::new(&format!("e{n}")).unwrap(), Position(n));
        Event { id, position, kind, origin, created_at, processed_at: at(1), body }
    };
    let stored: Vec<Event> = (0..3).map(stored).collect();
    let created = |batch: Batch| {
        let new = NewSession { id: Some(id()), events: batch, ..NewSession::default() };
        created_before(&new, entry().info(&key()), None, &[], &stored).map(|(_, events)| events)
    };
    let mut other = events(&[None; 3]);
    Arc::make_mut(&mut other.events)[2].body = Bytes::from_static(b"{}");
    for batch in [events(&[None; 2]), events(&[None; 4]), events(&[None, Some("x"), None]), other] {
        let refused = created(batch).unwrap_err();
        assert!(matches!(refused, StoreError::IdempotencyConflict { .. }), "{refused}");
    }
    assert!(created(events(&[None; 3])).unwrap().repeated);
}

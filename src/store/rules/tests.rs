//! The rules as tables: which request a session accepts in which state, what frames in flight
//! decide, and that the effect of a decision equals that of its frame when it is read from disk. It
//! must not open a store.

use std::{cell::Cell, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    Draw, FrameEffect, PendingEnd, RequestDecision, RequestFacts, SessionAccess, WriteKind,
    WriteRequest, answer_repeated_creation, apply, decide,
};
use crate::{
    env::DiskShortage,
    event::{
        Batch, BatchKey, Event, EventId, EventType, Fence, Incarnation, Lsn, NewEvent, NewNote,
        NoteKind, Origin, Position, Scope, SessionHash, SessionId, SessionKey, TenantId, Timestamp,
        UserId,
    },
    log::{
        AcceptedLoss, ChangeRecord, CreateRecord, EndReason, Entry, KnownBatch, LeaseRecord,
        LifetimeChange, LostRange, Redaction,
    },
    store::{LeaseCall, NewSession, StoreError},
};

const SECOND: i64 = 1_000_000;

/// A deterministic generator that counts up.
#[derive(Default)]
struct Counter(Cell<u8>);

impl Counter {
    fn next_bytes<const N: usize>(&self) -> [u8; N] {
        self.0.set(self.0.get().wrapping_add(1));
        [self.0.get(); N]
    }
}

impl Draw for Counter {
    fn draw_id(&self) -> [u8; 10] {
        self.next_bytes()
    }

    fn draw_salt(&self) -> [u8; 16] {
        self.next_bytes()
    }
}

fn create() -> CreateRecord {
    CreateRecord {
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

fn at_second(seconds: i64) -> Timestamp {
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
    let mut entry = Entry::from_create(&create(), hash(), at_second(1));
    let written = [
        request(WriteKind::Create(Box::new(create())), Batch::default(), 1),
        append(events(&[None; 3])),
    ];
    for mut request in written {
        let effect = written_effect(&entry, &mut request);
        apply(&mut entry, &effect, at_second(10));
    }
    entry
}

fn request(ask: WriteKind, batch: Batch, second: i64) -> WriteRequest {
    WriteRequest::new(ask, batch, at_second(second), &Counter::default())
}

fn append(batch: Batch) -> WriteRequest {
    request(WriteKind::Append, batch, 10)
}

/// Returns the effect of a request whose frame follows an entry, and checks that the frame has the
/// same effect when it is read from disk.
fn written_effect(entry: &Entry, request: &mut WriteRequest) -> FrameEffect {
    let ahead = PendingEnd::from_entry(entry);
    let named = (&id(), hash());
    let decided =
        decide(named, entry, &ahead, request, RequestFacts::default(), &|| at_second(10)).unwrap();
    let RequestDecision::Draft(mut draft) = decided else { panic!("nothing to write") };
    let mut frame = draft.take_frame();
    frame.header.first_lsn = Lsn(entry.end_lsn);
    let effect = draft.into_effect(frame.header.first_lsn);
    let read = FrameEffect::from_records(&frame.header, &frame.records().unwrap());
    assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    effect
}

fn change(change: impl FnOnce(&mut ChangeRecord)) -> WriteKind {
    let mut changed = ChangeRecord::default();
    change(&mut changed);
    WriteKind::Change(changed)
}

fn take_lease() -> WriteKind {
    WriteKind::Lease(LeaseCall::Take { steal: false, ttl: Duration::from_secs(60), key: None })
}

/// Returns a request of every kind.
fn asks() -> Vec<(&'static str, WriteKind, Batch)> {
    let none = Batch::default;
    let life = |life: LifetimeChange| move |change: &mut ChangeRecord| change.life = life;
    vec![
        ("append", WriteKind::Append, events(&[None])),
        ("append fenced", WriteKind::Append, Batch { fence: Some(Fence(1)), ..events(&[None]) }),
        (
            "append with metadata",
            WriteKind::Append,
            Batch { metadata: [("b".to_owned(), None)].into(), ..events(&[None]) },
        ),
        ("note", WriteKind::Append, note(NoteKind::Cursor, false)),
        ("checkpoint", WriteKind::Append, note(NoteKind::Checkpoint, false)),
        ("idle checkpoint", WriteKind::Append, note(NoteKind::Checkpoint, true)),
        ("empty", WriteKind::Append, none()),
        ("title", change(|change| change.title = Some(Some("x".to_owned()))), none()),
        ("archive", change(|change| change.archive = Some(true)), none()),
        ("unarchive", change(|change| change.archive = Some(false)), none()),
        (
            "hold",
            change(life(LifetimeChange { hold: Some(true), ..LifetimeChange::default() })),
            none(),
        ),
        (
            "restore",
            change(life(LifetimeChange { restore: true, ..LifetimeChange::default() })),
            none(),
        ),
        (
            "delete",
            change(|change| {
                change.delete = true;
                change.life.expire = true;
            }),
            none(),
        ),
        ("discard", change(|change| change.delete = true), none()),
        ("expire", WriteKind::Expire, none()),
        ("take", take_lease(), none()),
        ("release", WriteKind::Lease(LeaseCall::Release { fence: Fence(1) }), none()),
        ("void", WriteKind::Lease(LeaseCall::Void), none()),
        ("redact", WriteKind::Redact(Position(1)), none()),
        (
            "give up",
            WriteKind::GiveUp(AcceptedLoss { places: vec![(1, 2, "x".to_owned())] }),
            none(),
        ),
        ("erase", WriteKind::Erase, none()),
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
        entry.work.record_lease(LeaseRecord { fence: 1, until: Some(at_second(60).0), key: None });
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
                entry.damage = vec![LostRange { from: 1, to: 2, reason, accepted_at: None }];
            }),
        ),
        ("redacted", with(|entry| entry.redacted = vec![Redaction { position: 1, cleared: true }])),
        ("expired", with(|entry| entry.stage.mark_ended(EndReason::Expired, 1))),
        ("deleted", with(|entry| entry.stage.mark_ended(EndReason::Deleted, 1))),
        ("discarded", with(|entry| entry.stage.mark_ended(EndReason::Discarded, 1))),
        (
            "erased",
            with(|entry| entry.stage.mark_ended(EndReason::Erased { unfinished: false }, 1)),
        ),
    ]
}

/// Returns the outcome of a request as one word.
fn outcome(
    entry: &Entry,
    ahead: &PendingEnd,
    request: &mut WriteRequest,
    looked: RequestFacts,
) -> String {
    let session = id();
    let seen = match request.ask.access() {
        // The session has no forks.
        SessionAccess::Visible | SessionAccess::Read => entry.check_visible(&session),
        SessionAccess::Restorable => entry.check_restorable(&session),
        SessionAccess::Kept => Ok(()),
    };
    let named = (&session, hash());
    match seen.and_then(|()| decide(named, entry, ahead, request, looked, &|| at_second(10))) {
        Ok(RequestDecision::Nothing) => "nothing".to_owned(),
        Ok(RequestDecision::Batch(_)) => "the batch".to_owned(),
        Ok(RequestDecision::Events(_)) => "the events".to_owned(),
        Ok(RequestDecision::Wait) => "waits".to_owned(),
        Ok(RequestDecision::Draft(_)) => "written".to_owned(),
        Err(error) => error_label(&error).to_owned(),
    }
}

fn error_label(error: &StoreError) -> &'static str {
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
            let ahead = PendingEnd::from_entry(&entry);
            let mut request = request(ask, batch, 10);
            let found = outcome(&entry, &ahead, &mut request, RequestFacts::default());
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
        let mut ahead = PendingEnd::from_entry(&entry);
        let mut first = request(ask, batch, 10);
        let named = (&id(), hash());
        let decided =
            decide(named, &entry, &ahead, &mut first, RequestFacts::default(), &|| at_second(10));
        let Ok(RequestDecision::Draft(draft)) = decided else { continue };
        ahead.advance(draft.queued_end(&first));
        for (name, ask, batch) in asks() {
            let mut second = request(ask, batch, 10);
            let found = outcome(&entry, &ahead, &mut second, RequestFacts::default());
            writeln!(table, "behind {queued}: {name}: {found}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn repeated_ids_and_expected_positions_are_answered_or_wait_for_frames_in_flight() {
    let entry = entry();
    let (tail, key) = (Position(entry.tail), BatchKey::new("k").unwrap());
    let keyed = || Batch { key: Some(key.clone()), ..events(&[Some("a"), None]) };
    let mut flying = PendingEnd::from_entry(&entry);
    let mut first = append(keyed());
    let Ok(RequestDecision::Draft(draft)) =
        decide((&id(), hash()), &entry, &flying, &mut first, RequestFacts::default(), &|| {
            at_second(10)
        })
    else {
        panic!("an append is written")
    };
    let next = draft.queued_end(&first);
    let answer = next.answer(&mut first);
    assert_eq!((answer.first_position, answer.next_position), (tail, tail.plus(2)));
    flying.advance(next);
    let still = PendingEnd::from_entry(&entry);
    let expecting =
        |position: u64| Batch { if_position: Some(Position(position)), ..events(&[None]) };
    let known =
        || KnownBatch { key: "k".to_owned(), first_position: 0, events: 2, digest: [0; 32] };
    let batch = || RequestFacts { batch: Some(known()), ..RequestFacts::default() };
    let found = || RequestFacts { known: vec![Some(Position(1)), None], ..RequestFacts::default() };
    for (ahead, batch, looked, wanted) in [
        (&still, keyed(), RequestFacts::default(), "written"),
        (&still, keyed(), batch(), "the batch"),
        (&still, keyed(), found(), "the events"),
        (&still, events(&[Some("a"), Some("a")]), RequestFacts::default(), "duplicate"),
        (&flying, keyed(), RequestFacts::default(), "waits"),
        (
            &flying,
            Batch { key: Some(key.clone()), ..events(&[None]) },
            RequestFacts::default(),
            "waits",
        ),
        (&flying, events(&[Some("a")]), RequestFacts::default(), "waits"),
        (&flying, events(&[Some("b")]), RequestFacts::default(), "written"),
        (&flying, events(&[None]), RequestFacts::default(), "written"),
        (&still, expecting(3), RequestFacts::default(), "written"),
        (&still, expecting(2), RequestFacts::default(), "conflict"),
        (&still, expecting(4), RequestFacts::default(), "conflict"),
        // In flight the tail is 5: 2 is durable, 3 and 4 are in flight, 6 may follow.
        (&flying, expecting(5), RequestFacts::default(), "written"),
        (&flying, expecting(2), RequestFacts::default(), "conflict"),
        (&flying, expecting(3), RequestFacts::default(), "waits"),
        (&flying, expecting(6), RequestFacts::default(), "waits"),
        (
            &still,
            events(&[None]),
            RequestFacts { cramped: Some(DiskShortage::Space), ..RequestFacts::default() },
            "full",
        ),
        (
            &still,
            events(&[None]),
            RequestFacts { unwritable: Some("x".to_owned()), ..RequestFacts::default() },
            "io",
        ),
    ] {
        let described = format!("{batch:?}, {looked:?}, {} in flight", ahead.frames);
        let mut request = append(batch);
        assert_eq!(outcome(&entry, ahead, &mut request, looked), wanted, "{described}");
    }
}

#[test]
fn an_append_with_another_number_of_notes_conflicts_or_waits_for_notes_in_flight() {
    let mut entry = entry();
    entry.work.notes = 3;
    let expecting = |notes| {
        let mut batch = note(NoteKind::Checkpoint, false);
        batch.note.iter_mut().for_each(|note| note.if_notes = Some(notes));
        append(batch)
    };
    let still = PendingEnd::from_entry(&entry);
    let (mut flying, mut writing) =
        (PendingEnd::from_entry(&entry), PendingEnd::from_entry(&entry));
    for (ahead, mut queued) in [
        (&mut flying, append(note(NoteKind::Cursor, false))),
        (&mut writing, append(events(&[None]))),
    ] {
        let named = (&id(), hash());
        let decided =
            decide(named, &entry, ahead, &mut queued, RequestFacts::default(), &|| at_second(10));
        let Ok(RequestDecision::Draft(draft)) = decided else { panic!("it is written") };
        ahead.advance(draft.queued_end(&queued));
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
        let found = outcome(&entry, ahead, &mut expecting(notes), RequestFacts::default());
        assert_eq!(found, wanted, "{notes} expected, {} in flight", ahead.notes);
    }
}

#[test]
fn a_frame_read_from_disk_has_the_same_effect_as_its_decision() {
    for (state, entry) in states() {
        for (name, ask, batch) in asks() {
            let mut request = request(ask, batch, 20);
            let looked = RequestFacts::default();
            if outcome(&entry, &PendingEnd::from_entry(&entry), &mut request, looked) != "written" {
                continue;
            }
            let mut after = entry.clone();
            let effect = written_effect(&entry, &mut request);
            let used_before = entry.used_at();
            apply(&mut after, &effect, at_second(30));
            let context = format!("{state}: {name}");
            assert!(after.end_lsn > entry.end_lsn, "{context}");
            assert_eq!(after.tail, entry.tail + request.batch.events.len() as u64, "{context}");
            let is_work = !request.batch.events.is_empty();
            let updated = if is_work { at_second(20) } else { at_second(10) };
            assert_eq!(Timestamp(after.updated_at), updated, "{context}");
            let used = if request.batch.is_idle_note() { used_before } else { at_second(30) };
            assert_eq!(after.used_at(), used, "{context}");
            let hidden = match &request.ask {
                WriteKind::Change(change) if change.life.restore => false,
                WriteKind::Change(change) => change.delete || !is_visible(&entry),
                WriteKind::Expire | WriteKind::Erase => true,
                _ => !is_visible(&entry),
            };
            assert_eq!(!is_visible(&after), hidden, "{context}");
            let rewritten = |entry: &Entry| entry.info(&key()).rewritten;
            let rises = matches!(request.ask, WriteKind::Redact(_) | WriteKind::Erase);
            assert_eq!(rewritten(&after) > rewritten(&entry), rises, "{context}");
            assert!(rewritten(&after) >= rewritten(&entry), "{context}");
        }
    }
}

fn is_visible(entry: &Entry) -> bool {
    entry.check_visible(&id()).is_ok()
}

#[test]
#[should_panic(expected = "a frame is applied once, in order")]
fn applying_a_frame_that_ends_before_its_entry_panics() {
    let mut entry = entry();
    let effect = written_effect(&entry, &mut append(events(&[None])));
    apply(&mut entry, &effect, at_second(10));
    apply(&mut entry, &effect, at_second(10));
    apply(&mut entry, &FrameEffect { end_lsn: Lsn(1), ..effect }, at_second(10));
}

#[test]
fn a_repeated_creation_with_different_events_returns_a_conflict() {
    let stored = |n: u64| {
        let NewEvent { kind, origin, created_at, body, .. } = event(None);
        let (id, position) = (EventId::new(&format!("e{n}")).unwrap(), Position(n));
        Event { id, position, kind, origin, created_at, processed_at: at_second(1), body }
    };
    let stored: Vec<Event> = (0..3).map(stored).collect();
    let created = |batch: Batch| {
        let new = NewSession { id: Some(id()), events: batch, ..NewSession::default() };
        answer_repeated_creation(&new, entry().info(&key()), None, &[], &stored)
            .map(|(_, events)| events)
    };
    let mut other = events(&[None; 3]);
    Arc::make_mut(&mut other.events)[2].body = Bytes::from_static(b"{}");
    for batch in [events(&[None; 2]), events(&[None; 4]), events(&[None, Some("x"), None]), other] {
        let refused = created(batch).unwrap_err();
        assert!(matches!(refused, StoreError::IdempotencyConflict { .. }), "{refused}");
    }
    assert!(created(events(&[None; 3])).unwrap().repeated);
}

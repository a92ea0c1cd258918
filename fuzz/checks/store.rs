//! The same requests go to the embedded engine, on a disk that is stopped now and then, and to the
//! model: both must answer alike. Four bytes are a request; with one byte more at the end the
//! engine runs under a master key.

use std::{fmt::Debug, time::Duration};

use bytes::Bytes;
use sessionlog::{
    event::{
        Batch, BatchKey, EventId, EventType, Fence, Lsn, NewEvent, NewNote, NoteKind, Origin,
        Position, Range, Scope, SessionId, SessionKey,
    },
    store::{
        AppendResult, FillDirection, ForkPoint, LeaseCall, Listing, NewSession, NotesQuery,
        ReadRequest, RelatedSession, SessionInfo, SessionUpdate, Slice, Store, StoreResult,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, Sim, model::Model};

const OPTIONS: StoreOptions = StoreOptions {
    journal_file_bytes: 32 << 10,
    journal_retained_bytes: 96 << 10,
    segment_bytes_max: 4 << 10,
    settle_after: std::time::Duration::from_secs(5),
    scrub_every: std::time::Duration::ZERO,
    warm_bytes_max: 16 << 10,
    compression: true,
    lifetimes: sessionlog::store::Lifetimes::DEFAULT,
    background: false,
};

/// How long a lease holds. All requests together take less than a session may be idle.
const TTL: Duration = Duration::from_secs(300);

pub fn check(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    runtime.expect("threads").block_on(run(bytes));
}

async fn run(bytes: &[u8]) {
    let (requests, rest) = bytes.as_chunks::<4>();
    let sim = if rest.len() % 2 == 1 { Sim::encrypted(5) } else { Sim::new(5) };
    let env = sim.env();
    let model = Model::new(env.clock.clone(), env.entropy.clone());
    let mut engine = LocalStore::open_local(&env, OPTIONS).expect("an empty disk");
    for (number, request) in requests.iter().take(200).enumerate() {
        match *request {
            [op, how, ..] if op >= 0xf0 => engine = reopen(&sim, engine, how).await,
            // What only the engine does, and what the clock does.
            [op, what, size, _] if op % 16 == 15 => match what % 4 {
                0 => drop(engine.sweep().await.expect("a disk that is well")),
                1 => sim.clock().advance(Duration::from_secs(u64::from(size))),
                _ => engine.flush().expect("a disk that is well"),
            },
            [op, ..] => {
                sim.clock().advance(Duration::from_micros(u64::from(op)));
                let expected = ask(&model, *request, number).await;
                let found = ask(&engine, *request, number).await;
                // The engine meets what was erased of a fork only when it gets there.
                if expected != "PrefixErased" || op % 16 != 5 {
                    assert_eq!(found, expected, "request {number}: {request:?}");
                }
            }
        }
    }
    let verified = engine.verify(&Scope::local(), None).await.expect("a disk that is well");
    assert_eq!(verified.damage, []);
    engine.close().await;
}

/// Stops the engine in one of several ways; what it acknowledged must be there afterwards.
async fn reopen(sim: &Sim, engine: LocalStore, how: u8) -> LocalStore {
    match how % 4 {
        0 => engine.close().await,
        1 => sim.kill(),
        2 => sim.power_loss(),
        _ => sim.fail_next(Op::Sync, Fault::PowerLoss, false),
    }
    if how % 4 == 3 {
        // The close crashes within its first sync, if it has one.
        engine.close().await;
        sim.heal();
    }
    drop(engine);
    sim.kill();
    LocalStore::open_local(&sim.env(), OPTIONS).expect("it opens after any stop")
}

fn name(number: u8) -> SessionId {
    SessionId::new(&format!("s{}", number % 6)).expect("plain")
}

fn key(number: u8) -> SessionKey {
    SessionKey { scope: Scope::local(), session: name(number) }
}

fn event(number: usize, nth: u8, choice: u8) -> NewEvent {
    // Few names, so that they are used again with the same and with other content.
    let id = (choice & 1 != 0).then(|| format!("e{}", (choice >> 1) % 16 + nth));
    let size = usize::from(choice) * 7 % 900;
    NewEvent {
        id: Some(EventId::new(&id.unwrap_or_else(|| format!("n{number}.{nth}"))).expect("plain")),
        kind: EventType::new(if choice & 2 == 0 { "a.b" } else { "c.d" }).expect("plain"),
        origin: Origin::Harness,
        created_at: None,
        position: None,
        body: Bytes::from(format!("{{\"n\":\"{}\"}}", "z".repeat(size))),
    }
}

fn batch(number: usize, [op, _, size, choice]: [u8; 4]) -> Batch {
    let events = (0..size % 4).map(|nth| event(number, nth, choice)).collect();
    let position = Position(u64::from(choice) % 8);
    Batch {
        events,
        if_position: (op & 0x10 != 0).then_some(position),
        key: (op & 0x20 != 0)
            .then(|| BatchKey::new(&format!("k{}", choice % 4)).expect("printable")),
        ..Batch::default()
    }
}

fn note(size: u8, choice: u8) -> NewNote {
    let kinds = [NoteKind::Cursor, NoteKind::Checkpoint, NoteKind::Final];
    NewNote {
        kind: kinds[usize::from(choice % 3)],
        name: format!("n{}", choice % 4),
        position: (choice & 8 != 0).then_some(Position(u64::from(size % 16))),
        body: Bytes::from("s".repeat(usize::from(size) * 3)),
        idle: choice & 16 != 0,
        if_notes: (choice & 32 != 0).then_some(u64::from(size % 4)),
    }
}

/// One of the first tokens, or none.
fn fence(choice: u8) -> Option<Fence> {
    (choice & 1 != 0).then_some(Fence(u64::from(choice >> 1) % 4))
}

/// One request and its answer in words.
async fn ask(store: &dyn Store, request: [u8; 4], number: usize) -> String {
    let [op, session, size, choice] = request;
    let key = key(session);
    match op % 16 {
        0 => {
            let events = Batch { if_position: None, key: None, ..batch(number, request) };
            let new = NewSession { id: Some(key.session.clone()), events, ..NewSession::default() };
            let created = store.create(&key.scope, new).await;
            words(created.map(|(info, appended)| (about(&info), placed(&appended))))
        }
        1..=3 => words(store.append(&key, batch(number, request)).await.map(|a| placed(&a))),
        4 => words(store.change(&key, change(choice)).await.map(|info| about(&info))),
        5 => words(store.read(&key, read(op, size, choice)).await.map(seen)),
        6 => found(store, &key, size, choice).await,
        7 => {
            let listing = Listing {
                limit: 1 + usize::from(size % 4),
                ascending: choice & 1 != 0,
                include_archived: choice & 2 != 0,
                ..Listing::default()
            };
            let page = store.list(&key.scope, listing).await;
            words(page.map(|page| page.sessions.iter().map(about).collect::<Vec<_>>()))
        }
        _ => worked(store, &key, request, number).await,
    }
}

fn change(choice: u8) -> SessionUpdate {
    let pair = (format!("m{}", choice % 3), (choice & 4 != 0).then(|| "v".to_owned()));
    SessionUpdate {
        title: (choice & 1 != 0).then(|| (choice & 2 != 0).then(|| "t".to_owned())),
        metadata: [pair].into(),
        archive: (choice % 32 >= 30).then_some(choice & 1 == 1),
        delete: choice % 64 == 62,
        discard: choice % 64 == 60,
        hold: (choice % 16 == 7).then_some(choice & 32 != 0),
        restore: choice % 64 == 61,
    }
}

fn read(op: u8, size: u8, choice: u8) -> ReadRequest {
    let from = Position(u64::from(size % 16));
    ReadRequest {
        range: Range::new(from, from.plus(u64::from(choice % 16))),
        events_max: 1 + usize::from(size >> 4),
        bytes_max: usize::from(choice) * 20,
        fill: if op & 0x10 == 0 { FillDirection::Forward } else { FillDirection::Backward },
        allow_gaps: false,
    }
}

async fn found(store: &dyn Store, key: &SessionKey, size: u8, choice: u8) -> String {
    let id = EventId::new(&format!("e{}", choice % 20)).expect("plain");
    let found = store.find(key, &id).await;
    let info = store.info(key).await;
    let time = info.as_ref().map(|info| info.updated_at.plus_micros(-i64::from(size)));
    let at = match time {
        Ok(time) => words(store.find_time(key, time).await),
        Err(_) => String::new(),
    };
    format!("{} {at} {}", words(found), words(info.map(|info| about(&info))))
}

/// Forks, notes, leases, and what is taken away.
async fn worked(store: &dyn Store, key: &SessionKey, request: [u8; 4], number: usize) -> String {
    let [op, _, size, choice] = request;
    let scope = &key.scope;
    match op % 16 {
        8 => {
            let at = Position(u64::from(size % 12));
            let new = NewSession {
                id: Some(name(choice)),
                parent: Some(ForkPoint { session: key.session.clone(), at }),
                ..NewSession::default()
            };
            words(store.create(scope, new).await.map(|(info, _)| about(&info)))
        }
        9 => words(
            store.write_note(key, fence(op >> 4), note(size, choice)).await.map(|i| about(&i)),
        ),
        10 => {
            let notes_max = 1 + usize::from(size % 8);
            let wanted =
                NotesQuery { after: Lsn(0), notes_max, bytes_max: usize::from(choice) * 9 };
            let told = store.notes(key, wanted).await.map(|notes| {
                let plain = notes.into_iter().map(|n| (n.kind, n.name, n.position, n.at, n.body));
                plain.collect::<Vec<_>>()
            });
            words(told)
        }
        11 => {
            let held = Fence(u64::from(size) % 4);
            let call = match choice % 4 {
                0 => LeaseCall::Renew { fence: held, ttl: TTL },
                1 => LeaseCall::Release { fence: held },
                _ => {
                    let key = (choice & 8 != 0).then_some([choice >> 6; 16]);
                    LeaseCall::Take { steal: choice & 4 != 0, ttl: TTL, key }
                }
            };
            let lease = store.lease(key, call).await;
            words(lease.map(|(lease, info)| (lease.fence, lease.until.is_some(), about(&info))))
        }
        12 => {
            let id = EventId::new(&format!("e{}", choice % 20)).expect("plain");
            words(store.redact(key, &id).await)
        }
        13 if choice % 8 == 5 => words(store.erase(key).await),
        13 => {
            let family = store.family(key, 1 + usize::from(size % 3)).await;
            let unfinished = store.list_unfinished(scope, None, 5).await;
            let unfinished = unfinished.map(|all| all.iter().map(about).collect::<Vec<_>>());
            let family = family.map(|all| {
                let told =
                    |one: &RelatedSession| (one.session.clone(), one.survival, one.at, one.tail);
                let [above, below] = [all.ancestors, all.children];
                let [above, below] = [above, below].map(|some| some.iter().map(told).collect());
                (above, below, all.depth, all.forks) as (Vec<_>, Vec<_>, u64, u64)
            });
            format!("{} {}", words(family), words(unfinished))
        }
        _ => {
            let note = (choice & 4 != 0).then(|| note(size, choice));
            let batch = Batch { fence: fence(op >> 4), note, ..batch(number, request) };
            words(store.append(key, Batch { if_position: None, ..batch }).await.map(|a| placed(&a)))
        }
    }
}

/// An answer, or the name of the error: its data is for people.
fn words<T: Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{error:?}").split([' ', '(', '{']).next().unwrap_or("").to_owned(),
    }
}

/// What both must say of a session; chain values and sizes are an engine's own.
fn about(info: &SessionInfo) -> String {
    let SessionInfo { key, title, metadata, created_at, updated_at, archived_at, tail, .. } = info;
    let SessionInfo { held_at, work, forked_from, .. } = info;
    let checkpoint = work.checkpoint.map(|mark| (mark.position, mark.open));
    format!(
        "{} {title:?} {metadata:?} {created_at} {updated_at} {archived_at:?} {tail} {} {} \
         {forked_from:?} {:?} {} {} {checkpoint:?}",
        key.session,
        info.receipt.position,
        held_at.is_some(),
        work.fence,
        work.until.is_some(),
        work.notes
    )
}

fn placed(appended: &AppendResult) -> String {
    let events: Vec<_> = appended.events.iter().map(|e| (&e.id, e.position)).collect();
    let AppendResult { first_position, next_position, repeated, .. } = appended;
    format!("{events:?} {first_position}..{next_position} {repeated}")
}

fn seen(slice: Slice) -> String {
    let events: Vec<_> = slice
        .events
        .iter()
        .map(|e| (e.position, &e.id, &e.kind, e.origin, e.processed_at, &e.body))
        .collect();
    format!("{events:?} {} {}", slice.covered, slice.tail)
}

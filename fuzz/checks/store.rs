//! The same requests go to the embedded engine, on a disk that is stopped now and then, and to the
//! model: both must answer alike.

use std::{fmt::Debug, sync::Arc, time::Duration};

use bytes::Bytes;
use sessionlog::{
    env::sim::{Fault, Op, Sim},
    event::{
        Batch, BatchKey, EventId, EventType, NewEvent, Origin, Position, Range, Scope, SessionId,
        SessionKey,
    },
    store::{
        Appended, Change, Fill, Listing, NewSession, Read, SessionInfo, Slice, Store, StoreResult,
        local::{Local, Options},
        model::Model,
    },
};

const OPTIONS: Options = Options {
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

pub fn check(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    runtime.expect("threads").block_on(run(bytes));
}

async fn run(bytes: &[u8]) {
    let sim = Sim::new(5);
    let env = sim.env();
    let model: Arc<dyn Store> = Arc::new(Model::new(env.clock.clone(), env.entropy.clone()));
    let mut engine = Local::open(&env, OPTIONS).expect("an empty disk");
    for (number, request) in bytes.as_chunks::<4>().0.iter().take(200).enumerate() {
        if request[0] >= 0xf0 {
            engine = reopen(&sim, engine, request[1]).await;
            continue;
        }
        sim.clock().advance(Duration::from_micros(u64::from(request[0])));
        let expected = ask(&*model, *request, number).await;
        let found = ask(&*engine, *request, number).await;
        assert_eq!(found, expected, "request {number}: {request:?}");
    }
    engine.close().await;
}

/// Stops the engine in one of several ways; what it acknowledged must be there afterwards.
async fn reopen(sim: &Sim, engine: Arc<dyn Store>, how: u8) -> Arc<dyn Store> {
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
    Local::open(&sim.env(), OPTIONS).expect("it opens after any stop")
}

fn key(number: u8) -> SessionKey {
    let session = SessionId::new(&format!("s{}", number % 4)).expect("plain");
    SessionKey { scope: Scope::local(), session }
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

/// One request and its answer in words.
async fn ask(store: &dyn Store, request: [u8; 4], number: usize) -> String {
    let [op, session, size, choice] = request;
    let key = key(session);
    match op % 8 {
        0 => {
            let events = Batch { if_position: None, key: None, ..batch(number, request) };
            let new = NewSession { id: Some(key.session.clone()), events, ..NewSession::default() };
            let created = store.create(&key.scope, new).await;
            words(created.map(|(info, appended)| (about(&info), placed(&appended))))
        }
        1..=3 => words(store.append(&key, batch(number, request)).await.map(|a| placed(&a))),
        4 => {
            let pair = (format!("m{}", choice % 3), (choice & 4 != 0).then(|| "v".to_owned()));
            let change = Change {
                title: (choice & 1 != 0).then(|| (choice & 2 != 0).then(|| "t".to_owned())),
                metadata: [pair].into(),
                archive: choice % 32 == 31,
                delete: choice % 64 == 62,
                hold: (choice % 16 == 7).then_some(choice & 32 != 0),
                restore: choice % 64 == 61,
            };
            words(store.change(&key, change).await.map(|info| about(&info)))
        }
        5 => {
            let from = Position(u64::from(size % 16));
            let range = Range::new(from, from.plus(u64::from(choice % 16)));
            let read = Read {
                range,
                events_max: 1 + usize::from(size >> 4),
                bytes_max: usize::from(choice) * 20,
                fill: if op & 0x10 == 0 { Fill::Forward } else { Fill::Backward },
                allow_gaps: false,
            };
            words(store.read(&key, read).await.map(seen))
        }
        6 => {
            let id = EventId::new(&format!("e{}", choice % 20)).expect("plain");
            let found = store.find(&key, &id).await;
            let info = store.info(&key).await;
            let time = info.as_ref().map(|info| info.updated_at.plus_micros(-i64::from(size)));
            let at = match time {
                Ok(time) => words(store.find_time(&key, time).await),
                Err(_) => String::new(),
            };
            format!("{} {at} {}", words(found), words(info.map(|info| about(&info))))
        }
        _ => {
            let listing = Listing {
                limit: 1 + usize::from(size % 4),
                ascending: choice & 1 != 0,
                include_archived: choice & 2 != 0,
                ..Listing::default()
            };
            let page = store.list(&key.scope, listing).await;
            words(page.map(|page| page.iter().map(about).collect::<Vec<_>>()))
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
    format!(
        "{} {title:?} {metadata:?} {created_at} {updated_at} {archived_at:?} {tail} {}",
        key.session, info.receipt.position
    )
}

fn placed(appended: &Appended) -> String {
    let events: Vec<_> = appended.events.iter().map(|e| (&e.id, e.position)).collect();
    let Appended { first_position, next_position, repeated, .. } = appended;
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

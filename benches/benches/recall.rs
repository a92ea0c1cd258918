//! Micro-benchmarks of recall: the cost of folding a step into facts, and of an overview at any
//! number of steps. They serve changes of a projection or view; `sessionlog-bench research`
//! measures a caller's latency. They must not read a log.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sessionlog::{
    event::{Event, EventId, EventType, Origin, Position, Timestamp, kinds},
    harness::{ANSWER_BYTES, overview, summary},
    projection::{
        Facts,
        body::{self, StepBody},
    },
};

/// Number of steps folded at once.
const STEPS: u64 = 1_000;

/// Returns a step of about a kilobyte, with recurring and unique words.
fn step(number: u64) -> Event {
    let words = |from: u64, count: u64| {
        let word = |n: u64| match n * 7 % 11 {
            0 => format!("item{}.", (number * 31 + n) % 9_973),
            1 => "Then".to_owned(),
            other => ["the", "museum", "opens", "at", "nine", "says", "page", "of", "it"]
                [other as usize % 9]
                .to_owned(),
        };
        (from..from + count).map(word).collect::<Vec<_>>().join(" ")
    };
    let body = StepBody {
        number,
        description: format!("step {number}: {}", words(0, 110)),
        reasoning: Some(words(200, 55)),
        rejected: vec![format!("{number} {}", words(0, 10)), format!("{number} {}", words(9, 10))],
        ..StepBody::default()
    };
    Event {
        position: Position(number - 1),
        id: EventId::new(&format!("e{number}")).unwrap(),
        kind: EventType::new(kinds::RESEARCH_STEP).unwrap(),
        origin: Origin::Model,
        created_at: None,
        processed_at: Timestamp(1_700_000_000_000_000),
        body: body::write(&body),
    }
}

fn folded(events: &[Event]) -> Facts {
    let mut facts = Facts::default();
    events.iter().for_each(|event| facts.fold(event));
    facts
}

fn folds(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    let events: Vec<Event> = (1..=STEPS).map(step).collect();
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function("steps", |b| b.iter(|| folded(black_box(&events))));
    group.finish();
}

fn overviews(c: &mut Criterion) {
    let mut group = c.benchmark_group("overview");
    for steps in [10, 1_000, 100_000] {
        let events: Vec<Event> = (1..=steps).map(step).collect();
        let facts = folded(&events);
        group.bench_function(BenchmarkId::new("view", steps), |b| {
            b.iter(|| overview(black_box(&facts), false, ANSWER_BYTES));
        });
        group.bench_function(BenchmarkId::new("summary", steps), |b| {
            b.iter(|| summary(black_box(&facts), 4_000));
        });
    }
    group.finish();
}

criterion_group! {
    name = recall;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = folds, overviews
}
criterion_main!(recall);

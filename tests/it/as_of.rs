//! A view as of a point equals the view of a session that stopped there: of that session itself
//! while it had that length, of a fork at the point, and of forks of forks whose point is in their
//! shared part. For every view, over generated sessions: all of them on the first engine, one on
//! each other, since views are above the engines. It must not depend on the content of a view.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use crate::http::house::{House, over_every_engine};
use crate::views::property::{TRANSFORMS, event};

/// Number of generated sessions, and of batches in each.
const CASES: u32 = 3;
const BATCHES: usize = 6;

/// Generates events of a harness and of research in a conversation.
fn event_strategy() -> impl Strategy<Value = Value> {
    let words = "[a-z]{2,9}( [a-z]{2,9}){0,6}";
    prop_oneof![
        6 => event(),
        2 => words.prop_map(|text| json!({"type": "research.step", "description": text})),
        1 => words.prop_map(|text| json!({"type": "research.summary", "summary": text})),
        1 => words.prop_map(|text| json!({"type": "research.gap_opened", "description": text,
            "gap_id": text, "step": 1})),
        2 => (words, words).prop_map(|(done, next)| json!({"type": "plan.updated", "current": 1,
            "steps": [{"text": done, "state": "done"}, {"text": next, "state": "open"}]})),
        1 => (words, words).prop_map(|(failed, next)| json!({"type": "outcome.recorded",
            "tried": [failed], "worked": [], "failed": [failed], "next": [next]})),
        2 => (100_u64..9_000).prop_map(|tokens| json!({"type": "span.model_request_end",
            "model_usage": {"input_tokens": tokens, "output_tokens": 5}})),
        1 => (0_u64..9, 0_u64..9).prop_map(|(from, to)| json!({"type": "context.compacted",
            "trigger": "auto", "kept": [{"from": from, "to": from + to}], "summary": "short"})),
    ]
}

/// Generates batches of a session, its steps numbered in order.
fn session() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let batches = prop::collection::vec(prop::collection::vec(event_strategy(), 1..7), BATCHES);
    batches.prop_map(|mut batches| {
        let steps = batches.iter_mut().flatten().filter(|one| one["type"] == "research.step");
        for (number, step) in (1..).zip(steps) {
            step["number"] = json!(number);
        }
        batches
    })
}

/// Returns the path of every view; the window in every format, with every transform.
fn views() -> Vec<String> {
    let plain = ["index", "summary", "continuation", "usage", "compactions"];
    let mut all: Vec<String> = plain.map(|name| format!("{name}?")).to_vec();
    all.extend((1..4).map(|number| format!("steps/{number}?")));
    for (at, transform) in TRANSFORMS.iter().enumerate() {
        let format = ["events", "anthropic", "openai"][at % 3];
        let transform = transform.replace('|', "%7C");
        all.push(format!("window?tokens_max=400&format={format}&transforms[]={transform}&"));
    }
    all.push("window?".to_owned());
    all
}

/// Reads all views, as of a point if one is given.
async fn seen(house: &House, session: &str, at: Option<u64>) -> Vec<(u16, Value)> {
    let mut seen = Vec::new();
    for view in views() {
        let at = at.map(|at| format!("at={at}")).unwrap_or_default();
        let reply = house.get(&format!("/v1/sessions/{session}/views/{view}{at}")).await;
        assert!(matches!(reply.status, 200 | 404), "{view}{at}: {}", reply.text);
        let mut said = reply.json();
        if let (Some(tokens), Some(most)) = (said["tokens"].as_u64(), said["tokens_max"].as_u64())
            && view.starts_with("window")
        {
            assert!(tokens <= most, "{view}: {said}");
        }
        said.as_object_mut().unwrap().remove("request_id");
        if view.starts_with("continuation") {
            // Its text names its session, and a fork has another name.
            said.as_object_mut().unwrap().remove("tokens");
        }
        seen.push((reply.status, said));
    }
    seen
}

fn same(one: &[(u16, Value)], other: &[(u16, Value)], told: &str) {
    for ((view, one), other) in views().iter().zip(one).zip(other) {
        assert_eq!(one, other, "{told}: {view}");
    }
}

async fn append_batch(house: &House, session: &str, batch: &[Value]) -> u64 {
    let path = format!("/v1/sessions/{session}/events?create=true");
    let reply = house.post(&path, &json!({ "events": batch })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["next_position"].as_u64().unwrap()
}

async fn fork(house: &House, parent: &str, at: u64, child: &str) {
    let asked = json!({"at": at.to_string(), "id": child});
    let made = house.post(&format!("/v1/sessions/{parent}/fork"), &asked).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

async fn replay_to(house: &House, session: &str, to: u64) -> Value {
    let slice = house.get(&format!("/v1/sessions/{session}/events?to={to}&limit=1000")).await;
    slice.json()["data"].clone()
}

/// Checks one generated session: its views at each length equal those as of then, and those of its
/// forks.
async fn check_past_views(house: &House, name: &str, batches: &[Vec<Value>], points: &[usize]) {
    let mut stops = vec![];
    for batch in batches {
        let tail = append_batch(house, name, batch).await;
        stops.push((tail, seen(house, name, None).await, replay_to(house, name, tail).await));
    }
    for (tail, then, events) in &stops {
        same(then, &seen(house, name, Some(*tail)).await, &format!("{name} as of {tail}"));
        assert_eq!(replay_to(house, name, *tail).await, *events, "{name}: replayed up to {tail}");
    }
    // Forks of forks, each at some length of its parent and grown in between, so that later points
    // are within the shared part, at its edge, and after it.
    let mut parent = name.to_owned();
    for (depth, point) in points.iter().enumerate() {
        let shared = &stops[..=*point % stops.len()];
        let (at, then, events) = shared.last().unwrap();
        let child = format!("{}-{depth}", name.trim_end_matches("-9"));
        fork(house, &parent, *at, &child).await;
        same(then, &seen(house, &child, None).await, &format!("{child}, a fork at {at}"));
        let own = append_batch(house, &child, &batches[depth % batches.len()]).await;
        let grown = seen(house, &child, None).await;
        for (tail, then, _) in shared {
            same(then, &seen(house, &child, Some(*tail)).await, &format!("{child} as of {tail}"));
        }
        assert_eq!(replay_to(house, &child, *at).await, *events, "{child}: replayed");
        append_batch(house, &child, &batches[0]).await;
        same(&grown, &seen(house, &child, Some(own)).await, &format!("{child} as of {own}"));
        // Events of the fork do not change the parent's past.
        same(then, &seen(house, &parent, Some(*at)).await, &format!("{parent} as of {at}"));
        stops.truncate(shared.len());
        parent = child;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_as_of_a_point_equals_that_of_a_session_stopped_there() {
    let generated = Mutex::new(Vec::new());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let points = prop::collection::vec(0_usize..64, 3);
    runner
        .run(&(session(), points), |case| {
            generated.lock().unwrap().push(case);
            Ok(())
        })
        .unwrap();
    let generated = generated.into_inner().unwrap();
    let engines = AtomicUsize::new(0);
    over_every_engine(async |house| {
        let is_first = engines.fetch_add(1, Ordering::Relaxed) == 0;
        let cases = if is_first { generated.len() } else { 1 };
        for (case, (batches, points)) in generated.iter().enumerate().take(cases) {
            // A text that names its session has the same space as that of a fork.
            check_past_views(house, &format!("g{case}-9"), batches, points).await;
        }
    })
    .await;
}

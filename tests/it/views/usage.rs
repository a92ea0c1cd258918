//! Tokens of one session and of many, and the subagents that used some of them.

use serde_json::{Value, json};
use sessionlog::event::Timestamp;

use crate::{
    http::house::{House, over_every_engine},
    program::Place,
};

fn report(model: &str, day: u32, tokens: u64, more: &Value) -> Value {
    let mut event = json!({ "type": "span.model_request_end", "model": model,
        "created_at": format!("2025-11-{day:02}T10:00:00Z"),
        "model_usage": { "input_tokens": tokens, "output_tokens": 1 } });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

async fn emit(house: &House, session: &str, workspace: &str, events: Value) {
    let made = json!({ "id": session, "workspace": workspace });
    let reply = house.post("/v1/sessions", &made).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let path = format!("/v1/sessions/{session}/events");
    let reply = house.post(&path, &json!({ "events": events })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

/// Key and input tokens of each row.
fn rows(answer: &Value) -> Vec<(Option<String>, u64)> {
    let rows = answer["rows"].as_array().unwrap().iter();
    let row = |row: &Value| {
        (row["key"].as_str().map(str::to_owned), row["input_tokens"].as_u64().unwrap())
    };
    rows.map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_forks_and_subagents_count_once_by_each_key() {
    over_every_engine(async |house| {
        let aside = json!({ "session_thread_id": "a1", "cost_usd": 0.5 });
        let events = json!([
            report("big", 27, 1_000, &json!({})),
            report("small", 28, 100, &aside),
            report("big", 28, 2_000, &json!({})),
        ]);
        emit(house, "s", "/w/one", events).await;
        emit(house, "t", "/w/two", json!([report("big", 28, 10, &json!({}))])).await;
        let forked = house.post("/v1/sessions/s/fork", &json!({ "at": "end", "id": "f" })).await;
        assert_eq!(forked.status, 201, "{}", forked.text);
        let more = json!({ "events": [report("small", 29, 5, &json!({}))] });
        assert_eq!(house.post("/v1/sessions/f/events", &more).await.status, 200);

        let usage = async |query: &str| {
            let reply = house.get(&format!("/v1/usage{query}")).await;
            assert_eq!(reply.status, 200, "{query}: {}", reply.text);
            reply.json()
        };
        let named = |name: &str| Some(name.to_owned());
        let days = usage("").await;
        let expected =
            [(named("2025-11-27"), 1_000), (named("2025-11-28"), 2_110), (named("2025-11-29"), 5)];
        assert_eq!(rows(&days), expected);
        assert_eq!((&days["total"]["requests"], &days["sessions"]), (&json!(5), &json!(3)));
        assert_eq!((&days["total"]["cost_usd"], &days["complete"]), (&json!(0.5), &json!(true)));
        let models = usage("?by=model").await;
        assert_eq!(rows(&models), [(named("big"), 3_010), (named("small"), 105)]);
        let sessions = usage("?by=session").await;
        assert_eq!(rows(&sessions), [(named("s"), 3_100), (named("t"), 10), (named("f"), 5)]);
        let since = usage("?by=workspace&since=2025-11-28T23:00:00Z").await;
        assert_eq!(rows(&since).iter().map(|(_, tokens)| tokens).sum::<u64>(), 2_115);
        let one = usage("?by=model&workspace=/w/two&until=2025-11-28T00:00:00Z").await;
        assert_eq!(rows(&one), [(named("big"), 10)]);

        let own = house.get("/v1/sessions/f/views/usage").await.json();
        // The whole session, with what it inherits; a subagent fills no context.
        assert_eq!((&own["requests"], &own["tokens"]), (&json!(4), &json!(6)), "{own}");
        let refused = house.get("/v1/usage?by=hour").await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_longest_list_are_counted_on_their_day_or_missed() {
    over_every_engine(async |house| {
        let of = |model: usize, day: u32| report(&format!("m{model}"), day, 1, &json!({}));
        let append = async |events: &[Value]| {
            for some in events.chunks(1_000) {
                let reply = house.post("/v1/sessions/s/events", &json!({ "events": some })).await;
                assert_eq!(reply.status, 200, "{}", reply.text);
            }
        };
        emit(house, "s", "/w", json!([of(0, 10)])).await;
        let models = (1..1_100).map(|model| of(model, if model < 1_090 { 10 } else { 12 }));
        append(&models.collect::<Vec<_>>()).await;
        for (query, expected) in [
            ("", 1_100),
            ("since=2990-01-01T00:00:00Z", 0),
            ("until=2025-11-09T00:00:00Z", 0),
            ("since=2025-11-12T00:00:00Z", 10),
            ("until=2025-11-11T00:00:00Z", 1_090),
            ("since=2025-11-10T00:00:00Z&until=2025-11-10T00:00:00Z", 1_090),
        ] {
            let usage = house.get(&format!("/v1/usage?{query}")).await.json();
            let found = (&usage["total"]["requests"], &usage["complete"]);
            assert_eq!(found, (&json!(expected), &json!(true)), "{query}");
        }
        let day = |n: i64| Timestamp(86_400_000_000 * n).to_string();
        let reports = (0..2_000).map(|n| {
            json!({ "type": "span.model_request_end",
            "created_at": day(n), "model_usage": { "input_tokens": 1 } })
        });
        append(&reports.collect::<Vec<_>>()).await;
        let usage = async |query: &str| house.get(&format!("/v1/usage{query}")).await.json();
        let (all, late) = (usage("").await, usage("?since=2990-01-01T00:00:00Z").await);
        assert_eq!((&all["total"]["requests"], &all["complete"]), (&json!(3_100), &json!(true)));
        assert_eq!((&late["total"]["requests"], &late["complete"]), (&json!(0), &json!(false)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_fork_is_that_of_its_own_requests() {
    over_every_engine(async |house| {
        let of = |cost: f64| report("m", 27, 1, &json!({ "cost_usd": cost }));
        emit(house, "p", "/w", json!([of(2.0), of(0.2)])).await;
        let none = report("m", 27, 1, &json!({}));
        for (id, own) in [("none", none), ("tenth", of(0.1)), ("free", of(0.0))] {
            let forked = house.post("/v1/sessions/p/fork", &json!({ "at": "end", "id": id })).await;
            assert_eq!(forked.status, 201, "{}", forked.text);
            let path = format!("/v1/sessions/{id}/events");
            assert_eq!(house.post(&path, &json!({ "events": [own] })).await.status, 200);
        }
        emit(house, "absurd", "/w", json!([of(1e308), of(1e308), of(-1.0)])).await;
        let usage = house.get("/v1/usage?by=session").await.json();
        let cost = |id: &str| {
            let rows = usage["rows"].as_array().unwrap();
            rows.iter().find(|row| row["key"] == id).unwrap()["cost_usd"].as_f64()
        };
        let costs = ["p", "none", "tenth", "free", "absurd"].map(cost);
        assert_eq!(costs, [Some(2.2), None, Some(0.1), Some(0.0), None], "{usage}");
        assert_eq!(usage["total"]["cost_usd"], 2.3, "{usage}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_has_one_name_in_every_view_and_no_other_thread_has_it() {
    over_every_engine(async |house| {
        let ids = [
            json!("a17f"),
            json!("t".repeat(150)),
            json!("é".repeat(150)),
            json!(format!("{}1", "p".repeat(119))),
            json!(format!("{}2", "p".repeat(120))),
            json!(format!("{}3", "p".repeat(120))),
            json!("x y"),
            json!("x  y"),
            json!("x\ty"),
            json!("x\ny"),
            json!(" x y"),
            json!("\u{1b}[31mx y"),
            json!("  "),
            json!(7),
            json!({ "a": [1, " "] }),
        ];
        let events = ids.iter().enumerate().flat_map(|(index, id)| {
            let call = json!({ "type": "agent.tool_use", "call_id": format!("c{index}"),
                "name": "Read", "input": {}, "session_thread_id": id });
            let result = json!({ "type": "agent.tool_result", "call_id": format!("c{index}"),
                "content": "ok", "session_thread_id": id });
            [call, result, report("m", 27, 10, &json!({ "session_thread_id": id }))]
        });
        emit(house, "s", "/w", events.collect::<Vec<_>>().into()).await;
        let answer = house.get("/v1/sessions/s/views/threads").await.json();
        let threads = answer["threads"].as_array().unwrap();
        let usage = house.get("/v1/sessions/s/views/usage").await.json();
        let shares = usage["by_thread"].as_array().unwrap();
        assert_eq!((threads.len(), shares.len()), (ids.len(), ids.len()), "{answer} {usage}");
        let filtered = async |thread: &str| {
            let encoded: String = thread.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let path = format!("/v1/sessions/s/views/rows?thread={encoded}");
            house.get(&path).await.json()["rows"].as_array().unwrap().clone()
        };
        for ((id, thread), share) in ids.iter().zip(threads).zip(shares) {
            let name = thread["thread"].as_str().unwrap();
            assert_eq!((&thread["calls"], &thread["tokens"]), (&json!(1), &json!(11)), "{thread}");
            assert_eq!(share["key"], name, "{id}");
            assert!(name.chars().count() <= 120 && !name.contains(char::is_control), "{name:?}");
            let of_name = filtered(name).await;
            assert_eq!((of_name.len(), &of_name[0]["thread"]), (3, &json!(name)), "{id}");
            let of_id = filtered(id.as_str().unwrap_or(&id.to_string())).await;
            assert_eq!(of_id, of_name, "{id}");
        }
        for (index, name) in [(0, "a17f"), (6, "x y"), (13, "7")] {
            assert_eq!(threads[index]["thread"], name);
        }
    })
    .await;
}

#[test]
fn commands_show_tokens_by_model_and_the_subagents_of_a_session() {
    let place = Place::new();
    let call = json!({ "type": "agent.tool_use", "call_id": "t1", "name": "Agent",
        "input": { "subagent_type": "Explore", "description": "Find the lock" } });
    let start = json!({ "type": "session.thread_status_running", "session_thread_id": "a1",
        "agent_name": "Explore" });
    let inner = json!({ "type": "agent.tool_use", "call_id": "t2", "name": "Bash",
        "session_thread_id": "a1", "input": { "command": "ls" } });
    let lines = [
        call,
        start,
        inner,
        report("small", 28, 100, &json!({ "session_thread_id": "a1" })),
        report("big", 28, 2_000, &json!({ "cost_usd": 0.25 })),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    place.run_with(&["append", "s", "--create"], &lines.join("\n")).ok();
    let threads = place.run(&["view", "s", "threads"]).ok();
    for part in ["1 subagent", "Explore a1: Find the lock", "1 call, 101 tokens, running"] {
        assert!(threads.contains(part), "{part}: {threads}");
    }
    let usage = place.run(&["usage", "--all", "--by", "model"]).ok();
    for part in ["big: 1 request, 2 000 tokens in, 1 out, 0.25 USD", "in all: 2 requests, 2 100"] {
        assert!(usage.contains(part), "{part}: {usage}");
    }
    let whole = place.run(&["view", "s", "usage"]).ok();
    for part in ["By model", "By thread", "the session's agent: 1 request", "a1: 1 request"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    let json = place.run(&["usage", "--all", "--json"]).json();
    assert_eq!(json["total"]["requests"], 2, "{json}");
}

#[test]
fn a_day_typed_in_any_zone_is_the_day_that_the_answer_lists() {
    let place = Place::new();
    let event = report("m", 20, 7, &json!({})).to_string();
    place.run_with(&["append", "s", "--create"], &event).ok();
    for zone in ["UTC0", "JST-9", "EST5"] {
        for (day, is_listed) in [("2025-11-19", false), ("2025-11-20", true), ("2025-11-21", false)]
        {
            let asked = ["usage", "--all", "--since", day, "--until", day];
            let shown = place.run_in(&[("TZ", zone)], &asked).ok();
            assert_eq!(shown.contains("2025-11-20: 1 request"), is_listed, "{zone} {day}: {shown}");
        }
    }
}

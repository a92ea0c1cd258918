//! Views that are folds: usage and its monitor, compactions, overviews, continuation; each now and
//! as of a point, and each within its limit.

use serde_json::{Value, json};
use sessionlog::{
    harness::{Counter as _, Tokenizer},
    service::{ContextLimits, Service},
};
use sessionlog_sim::ManualClock;

use crate::{
    engines,
    http::house::{House, Plan, over_every_engine},
};

async fn emit(house: &House, id: &str, events: Value) -> Value {
    let path = format!("/v1/sessions/{id}/events?create=true");
    let reply = house.post(&path, &json!({ "events": events })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn view(house: &House, id: &str, view: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/{id}/views/{view}")).await;
    assert_eq!(reply.status, 200, "{view}: {}", reply.text);
    reply.json()
}

fn report(tokens: u64) -> Value {
    json!({"type": "span.model_request_end",
        "model_usage": {"input_tokens": tokens - 5, "output_tokens": 5}})
}

async fn monitored_house(limit: u64) -> House {
    let engine = engines::all().into_iter().next().unwrap();
    let clock: std::sync::Arc<ManualClock> = engine.clock.clone();
    let monitor = ContextLimits { limit, ..ContextLimits::default() };
    let service = Service::new(engine.store.clone(), clock.clone()).with_monitor(monitor);
    House::over(engine.store, clock, Plan { service: Some(service), ..Plan::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_is_reported_once_for_each_crossing() {
    let house = monitored_house(1_000).await;
    let none = emit(&house, "s", json!([{"type": "user.message", "content": "go"}])).await;
    assert_eq!(none["next_position"], 1);
    let empty = view(&house, "s", "usage").await;
    assert_eq!((&empty["tokens"], &empty["level"]), (&json!(null), &json!("none")));
    for (tokens, told) in [
        (500, None),
        (760, Some("threshold")),
        (800, None),
        (899, None),
        (910, Some("limit")),
        (950, None),
        // The context was reduced, and fills again.
        (300, None),
        (750, Some("threshold")),
        (905, Some("limit")),
    ] {
        let before = view(&house, "s", "usage").await["position"].as_u64().unwrap();
        let emitted = emit(&house, "s", json!([report(tokens)])).await;
        let added = emitted["next_position"].as_u64().unwrap() - before;
        assert_eq!(added, 1 + u64::from(told.is_some()), "{tokens}");
        assert_eq!(emitted["data"].as_array().unwrap().len(), 1);
        let usage = view(&house, "s", "usage").await;
        assert_eq!(usage["tokens"], tokens);
        assert_eq!(usage["remaining"], json!(900_u64.saturating_sub(tokens)));
        if let Some(level) = told {
            let last = house.get("/v1/sessions/s/events?from=-1").await.json()["data"][0].take();
            assert_eq!(
                (&last["type"], &last["level"]),
                (&json!("context.threshold"), &json!(level))
            );
            assert_eq!((&last["tokens"], &last["limit"]), (&json!(tokens), &json!(1_000)));
            assert_eq!(usage["level"], level);
        }
    }
    let usage = view(&house, "s", "usage").await;
    assert_eq!((&usage["threshold"], &usage["margin"]), (&json!(750), &json!(100)));
    assert_eq!((&usage["requests"], &usage["output_tokens"]), (&json!(9), &json!(45)));
    let then = view(&house, "s", "usage?at=2").await;
    assert_eq!((&then["tokens"], &then["requests"]), (&json!(500), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_usage_reports_record_one_threshold_event() {
    let house = monitored_house(1_000).await;
    emit(&house, "s", json!([report(10)])).await;
    let all = (0..8).map(|_| emit(&house, "s", json!([report(800)])));
    futures_util::future::join_all(all).await;
    let path = "/v1/sessions/s/events?types[]=context.threshold";
    let told = house.get(path).await.json()["data"].as_array().unwrap().len();
    assert_eq!(told, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_appends_are_monitored_only_with_a_limit() {
    for (limit, expected) in [(1_000, 1), (0, 0)] {
        let house = monitored_house(limit).await;
        let line = json!({"session": "s", "events": [report(800)]}).to_string() + "\n";
        let headers = [("content-type", "application/x-ndjson")];
        let body = Some(line.into_bytes());
        let reply = house.call("POST", "/v1/append?create=true", &headers, body).await;
        assert!(reply.text.contains("\"appended\""), "{}", reply.text);
        let path = "/v1/sessions/s/events?types[]=context.threshold";
        assert_eq!(house.get(path).await.json()["data"].as_array().unwrap().len(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_dropped_by_compactions_are_listed_and_readable() {
    over_every_engine(async |house| {
        let said: Vec<Value> =
            (0..20).map(|n| json!({"type": "user.message", "content": format!("w{n}")})).collect();
        emit(house, "s", json!(said)).await;
        let empty = view(house, "s", "compactions").await;
        assert_eq!((&empty["count"], &empty["lost"]), (&json!(0), &json!([])));
        emit(
            house,
            "s",
            json!([{"type": "context.compacted", "trigger": "auto",
            "kept": [{"from": 0, "to": 2}, {"from": 15, "to": 20}],
            "dropped": [{"from": 2, "to": 15}], "summary": "thirteen words"}]),
        )
        .await;
        let answer = view(house, "s", "compactions").await;
        assert_eq!(answer["lost"], json!([{"from": 2, "to": 15}]));
        assert_eq!((&answer["lost_events"], &answer["count"]), (&json!(13), &json!(1)));
        let one = &answer["compactions"][0];
        assert_eq!((&one["trigger"], &one["is_reported"]), (&json!("auto"), &json!(true)));
        assert_eq!(one["summary"], "thirteen words");
        // The dropped events are paged in again.
        let page = house.get("/v1/sessions/s/events?from=2&to=15").await.json();
        let words: Vec<&Value> =
            page["data"].as_array().unwrap().iter().map(|event| &event["content"]).collect();
        assert_eq!((words.len(), words[0], words[12]), (13, &json!("w2"), &json!("w14")));
        // A compaction that does not name what it dropped, and events before it.
        emit(
            house,
            "s",
            json!([{"type": "context.compacted", "trigger": "manual",
            "kept": [[18, 20]]}]),
        )
        .await;
        let answer = view(house, "s", "compactions").await;
        assert_eq!(answer["lost"], json!([{"from": 0, "to": 18}, {"from": 20, "to": 21}]));
        assert_eq!(answer["compactions"][1]["is_reported"], false);
        let then = view(house, "s", "compactions?at=21").await;
        assert_eq!((&then["count"], &then["position"]), (&json!(1), &json!(21)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_has_a_summary_of_dropped_events_unless_it_shows_them() {
    let house = House::plain().await;
    let said: Vec<Value> = (0..30)
        .map(|n| json!({"type": "user.message", "content": format!("word {n} ").repeat(30)}))
        .collect();
    emit(&house, "s", json!(said)).await;
    emit(
        &house,
        "s",
        json!([{"type": "context.compacted", "dropped": [[1, 28]],
        "summary": "SUMMED UP"}]),
    )
    .await;
    for (tokens, expected) in [(1_000, true), (100_000, false)] {
        let query = format!("window?format=anthropic&tokens_max={tokens}");
        let answer = view(&house, "s", &query).await;
        assert_eq!(answer.to_string().contains("SUMMED UP"), expected, "{tokens}: {answer}");
    }
}

/// Creates a session with every kind of event.
async fn create_busy_session(house: &House, id: &str) {
    let plan = |state: &str| {
        json!({"type": "plan.updated", "current": "paint it", "steps": [
        {"title": "look at it", "status": "done"}, {"title": "mend it", "status": state},
        {"title": "paint it", "status": "todo"}]})
    };
    let mut events =
        vec![json!({"type": "user.message", "content": "Mend the thing."}), plan("doing")];
    for n in 0..6 {
        events.push(json!({"type": "agent.tool_use", "name": "hammer", "call_id": format!("c{n}"),
            "input": {"nail": n}}));
        events.push(json!({"type": "agent.tool_result", "call_id": format!("c{n}"),
            "content": format!("nail {n} is in. {}", "Bang! ".repeat(500)), "is_error": n == 4}));
    }
    events.push(plan("done"));
    events.push(json!({"type": "outcome.recorded", "tried": ["glue", "nails"],
        "worked": "nails", "failed": ["glue does not hold"], "next": ["buy paint"]}));
    events.push(json!({"type": "user.message", "content": "In green, please."}));
    emit(house, id, json!(events)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuation_has_everything_needed_to_continue() {
    over_every_engine(async |house| {
        create_busy_session(house, "s").await;
        let answer = view(house, "s", "continuation?tokens_max=4000").await;
        assert_eq!(answer["task"], json!({"text": "Mend the thing.", "position": 0}));
        let said = json!([{"text": "In green, please.", "position": 16}]);
        assert_eq!(answer["instructions"], said);
        let plan = &answer["plan"];
        assert_eq!(
            (&plan["current"], &plan["done"], &plan["total"]),
            (&json!("paint it"), &json!(2), &json!(3))
        );
        assert_eq!(answer["next"], json!(["buy paint"]));
        let texts: Vec<_> = plan["steps"].as_array().unwrap().iter().map(|s| &s["text"]).collect();
        assert_eq!(texts, ["look at it", "mend it", "paint it"]);
        assert_eq!(answer["done"], json!(["nails"]));
        assert_eq!(answer["tried"], json!(["glue", "nails"]));
        assert_eq!(answer["failed"], json!(["glue does not hold"]));
        let results = answer["results"].as_array().unwrap();
        let seen: Vec<_> =
            results.iter().map(|one| (one["position"].as_u64().unwrap(), &one["input"])).collect();
        let nails: Vec<Value> = (0..6).map(|n| json!(format!("{{\"nail\":{n}}}"))).collect();
        assert_eq!(seen, [3, 5, 7, 9, 11, 13].into_iter().zip(&nails).collect::<Vec<_>>());
        assert!(results[5]["text"].as_str().unwrap().starts_with("nail 5 is in."));
        assert_eq!((&results[4]["failed"], &results[5]["failed"]), (&json!(true), &json!(false)));
        // As of the first outcome.
        let then = view(house, "s", "continuation?at=2").await;
        let open: Vec<_> =
            then["plan"]["steps"].as_array().unwrap().iter().map(|step| &step["text"]).collect();
        assert!(open.ends_with(&[&json!("mend it"), &json!("paint it")]), "{then}");
        // The plan lists it, and no outcome does.
        assert_eq!((&then["results"], &then["next"]), (&json!([]), &json!([])));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuation_keeps_its_budget_for_any_recorded_content() {
    let house = House::plain().await;
    let hostile = "\"\\\u{1}\n👨‍👩‍👧 ".repeat(300);
    let lines = vec![hostile.clone(); 30];
    let steps: Vec<Value> = (0..300).map(|n| json!(format!("{n} {hostile}"))).collect();
    let mut events = vec![
        json!({"type": "user.message", "content": hostile}),
        json!({"type": "user.message", "content": hostile}),
        json!({"type": "agent.message", "content": hostile}),
        json!({"type": "plan.updated", "steps": steps, "current": hostile}),
        json!({"type": "outcome.recorded", "tried": lines, "worked": lines, "failed": lines,
            "next": lines}),
    ];
    for n in 0..4 {
        events.push(json!({"type": "agent.tool_use", "name": hostile, "call_id": format!("{n}"),
            "input": {"x": hostile}}));
        events.push(json!({"type": "agent.tool_result", "call_id": format!("{n}"),
            "content": hostile}));
    }
    emit(&house, "s", json!(events)).await;
    create_busy_session(&house, "plain").await;
    for id in ["s", "plain"] {
        for tokens_max in [400, 500, 1_000, 2_000, 10_000, 100_000] {
            let answer = view(&house, id, &format!("continuation?tokens_max={tokens_max}")).await;
            let path = format!("/v1/sessions/{id}/views/continuation?format=text");
            let text = house.get(&format!("{path}&tokens_max={tokens_max}")).await.text;
            let cost = Tokenizer::O200k.count(&text);
            let told = usize::try_from(answer["tokens"].as_u64().unwrap()).unwrap();
            assert!(cost == told && told <= tokens_max, "{id} {tokens_max}: {cost} {told}: {text}");
            assert!(
                answer["task"]["text"].as_str().unwrap().len() > 4,
                "{id} {tokens_max}: {answer}"
            );
        }
    }
    for tokens_max in ["399", "200001", "x"] {
        let path = format!("/v1/sessions/s/views/continuation?tokens_max={tokens_max}");
        let reply = house.get(&path).await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overviews_and_steps_are_available_as_of_any_point() {
    let house = House::plain().await;
    for number in 1..=12 {
        let step = json!({"type": "research.step", "number": number,
            "description": format!("step {number}: looked"), "reasoning": "because"});
        emit(&house, "s", json!([step])).await;
    }
    let index = view(&house, "s", "index").await;
    assert_eq!((&index["steps_total"], &index["position"]), (&json!(12), &json!(12)));
    assert_eq!(index["steps"].as_array().unwrap().len(), 12);
    assert_eq!(index["last_steps"][2]["number"], 12);
    let then = view(&house, "s", "index?at=step:5").await;
    assert_eq!((&then["steps_total"], &then["position"]), (&json!(5), &json!(5)));
    let summary = view(&house, "s", "summary").await;
    assert!(summary["summary"].as_str().unwrap().contains("step 12"), "{summary}");
    assert!(summary.get("steps").is_none() && summary.get("sources").is_none());
    let step = view(&house, "s", "steps/7").await;
    assert_eq!(
        (&step["step"]["number"], &step["step"]["reasoning"]),
        (&json!(7), &json!("because"))
    );
    let large = view(&house, "s", "index?tokens_max=1000").await;
    assert!(large.to_string().len() <= 3_000);
    for (path, status, code) in [
        ("steps/13", 404, "step_not_found"),
        ("steps/7?at=5", 404, "step_not_found"),
        ("steps/0", 422, "invalid_request"),
        ("steps/x", 422, "invalid_request"),
        ("steps/1?cursor=gaps:1", 422, "invalid_request"),
        ("index?tokens_max=999", 422, "invalid_request"),
        ("index?at=event:none", 404, "point_not_found"),
    ] {
        let reply = house.get(&format!("/v1/sessions/s/views/{path}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_limits_of_a_session_override_those_of_the_server() {
    let house = monitored_house(1_000).await;
    let bounds = json!({"token_limit": "400", "token_threshold": "0.5", "token_margin": "50"});
    let new = json!({"id": "small", "metadata": bounds});
    assert_eq!(house.post("/v1/sessions", &new).await.status, 201);
    for id in ["small", "usual"] {
        emit(&house, id, json!([report(360)])).await;
    }
    let usage = view(&house, "small", "usage").await;
    let told = ["limit", "threshold", "margin", "level"].map(|name| usage[name].clone());
    assert_eq!(told, [json!(400), json!(200), json!(50), json!("limit")]);
    assert_eq!(view(&house, "usual", "usage").await["level"], "none");
    let window = view(&house, "small", "window").await;
    assert_eq!(window["tokens_max"], 200, "{window}");
    let wider = json!({"metadata": {"token_limit": "4000"}});
    let path = "/v1/sessions/small";
    assert_eq!(house.post(path, &wider).await.status, 200);
    assert_eq!(view(&house, "small", "usage").await["level"], "none");
    for (name, value) in
        [("token_limit", "many"), ("token_threshold", "75"), ("token_margin", "-1")]
    {
        let refused = house.post(path, &json!({"metadata": {name: value}})).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid_request".to_owned()), "{name}");
        let field = &refused.json()["error"]["recovery_hint"]["field"];
        assert_eq!(*field, format!("metadata.{name}"), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_size_that_the_harness_reports_is_the_limit_of_a_session_without_one() {
    let house = monitored_house(1_000).await;
    let new = json!({"id": "small", "metadata": {"token_limit": "400"}});
    assert_eq!(house.post("/v1/sessions", &new).await.status, 201);
    for (id, limit) in [("small", 400), ("own", 4_000)] {
        let mut sized = report(360);
        sized["context_window"] = json!(4_000);
        // The context of a subagent is its own.
        let mut aside = report(9);
        (aside["context_window"], aside["session_thread_id"]) = (json!(9), json!("a1"));
        emit(&house, id, json!([sized, report(360), aside])).await;
        for name in ["usage", "strip"] {
            assert_eq!(view(&house, id, name).await["limit"], limit, "{id} {name}");
        }
        assert_eq!(view(&house, id, "window").await["tokens_max"], limit * 3 / 4, "{id}");
    }
    // A window has its bounds for any size that is reported.
    for (size, tokens) in [(10_000_000, 4_000_000), (20, 64)] {
        let mut sized = report(360);
        sized["context_window"] = json!(size);
        emit(&house, &format!("of-{size}"), json!([sized])).await;
        let window = view(&house, &format!("of-{size}"), "window").await;
        assert_eq!(window["tokens_max"], tokens, "{window}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crossed_level_saves_the_session_and_a_tool_reports_the_level() {
    let house = monitored_house(1_000).await;
    let points = async || house.get("/v1/sessions/s/checkpoints").await.json()["data"].clone();
    for (tokens, saved) in [(500, 0), (760, 1), (800, 1), (910, 2)] {
        emit(&house, "s", json!([report(tokens)])).await;
        let points = points().await;
        let labels = points.as_array().unwrap().iter().filter(|one| one["label"] == "saved");
        assert_eq!(labels.count(), saved, "{tokens}: {points}");
        assert_eq!(points.as_array().unwrap().len(), saved, "{tokens}: {points}");
    }
    assert_eq!(points().await[0]["trigger"], "limit");
    let asked = json!({"sessionId": "s"});
    let shown = house.post("/v1/tools/get_session", &asked).await.json();
    let usage = view(&house, "s", "usage").await;
    let expected = json!({
        "position": usage["position"], "tokens": 910, "reportedPosition": usage["reported_position"],
        "reportedAt": usage["reported_at"], "limit": 1_000, "threshold": 750, "margin": 100,
        "remaining": usage["remaining"], "level": "limit", "requests": usage["requests"],
        "inputTokens": usage["input_tokens"], "cachedTokens": usage["cached_tokens"],
        "outputTokens": usage["output_tokens"],
    });
    assert_eq!(shown["contextUsage"], expected, "{shown}");
}

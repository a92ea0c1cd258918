//! Rows of a session and the session at a glance, each compared with a naive reading of its events;
//! filters, pages, pairs of calls and results, hostile text, damage, and what is refused.

use std::{collections::BTreeMap, sync::Arc};

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::{Value, json, value::RawValue};
use sessionlog::{
    api::rows::RowKind,
    client::HttpRequest,
    event::{Event, Position, Range},
    projection::{CELLS_MAX, SessionFold, Strip, row_kind},
    store::{Store, local::LocalStore},
    wire::json::event_text,
};
use sessionlog_sim::{ManualClock, Sim};

use super::{property, real};
use crate::{
    engines::small,
    http::house::{House, Plan, over_every_engine},
    program::Place,
};

/// Positions within which a result belongs to its call.
const REACH: u64 = 500;

pub async fn emit(house: &House, id: &str, events: &[Value]) {
    for some in events.chunks(500) {
        let path = format!("/v1/sessions/{id}/events?create=true");
        let reply = house.post(&path, &json!({ "events": some })).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

pub async fn events_of(house: &House, id: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{id}/events?limit=10000&allow_gaps=true");
    house.get(&path).await.json()["data"].as_array().unwrap().clone()
}

pub async fn page(house: &House, id: &str, query: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/{id}/views/rows?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    reply.json()
}

/// Reads all rows, page by page.
pub async fn rows_of(house: &House, id: &str, query: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut from) = (Vec::new(), 0);
    loop {
        let answer = page(house, id, &format!("from={from}&limit={limit}&{query}")).await;
        let own = answer["rows"].as_array().unwrap();
        assert!(own.len() <= limit, "{} of {limit}", own.len());
        rows.extend(own.iter().cloned());
        if answer["complete"] == true {
            return rows;
        }
        let next = answer["next_position"].as_u64().unwrap();
        assert!(next > from, "{answer}");
        from = next;
    }
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "agent.tool_use" | "agent.mcp_tool_use" | "agent.custom_tool_use")
}

fn is_result(kind: &str) -> bool {
    kind.ends_with("tool_result")
}

fn id_of(event: &Value) -> Option<&str> {
    ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"]
        .iter()
        .find_map(|name| event[*name].as_str())
}

/// Pairs results with their calls: the latest open call of the id within reach; without an id the
/// oldest of the tool; without either the only one.
fn pairs(events: &[Value]) -> BTreeMap<u64, u64> {
    let mut open: Vec<(u64, String, String)> = Vec::new();
    let mut pairs = BTreeMap::new();
    for event in events {
        let (at, kind) = (event["position"].as_u64().unwrap(), event["type"].as_str().unwrap());
        open.retain(|(call, ..)| at - call < REACH);
        let name = event["name"].as_str().unwrap_or_default();
        if is_call(kind) && event["name"].is_string() {
            let id = event["call_id"].as_str().unwrap_or(event["id"].as_str().unwrap());
            open.push((at, id.to_owned(), name.to_owned()));
        } else if is_result(kind) {
            let id = id_of(event).unwrap_or_default();
            let found = match (id, name) {
                ("", "") => (open.len() == 1).then_some(0),
                ("", name) => open.iter().position(|call| call.2 == name),
                (id, _) => open.iter().rposition(|call| call.1 == id),
            };
            if let Some(found) = found {
                pairs.insert(at, open.remove(found).0);
            }
        }
    }
    pairs
}

/// Returns for each dropped position the compaction that dropped it.
fn dropped(events: &[Value]) -> BTreeMap<u64, u64> {
    let range = |one: &Value| (one["from"].as_u64().unwrap(), one["to"].as_u64().unwrap());
    let ranges = |given: &Value| -> Vec<(u64, u64)> {
        match given {
            Value::Array(list) => list.iter().map(range).collect(),
            Value::Object(_) => vec![range(given)],
            _ => Vec::new(),
        }
    };
    let mut out = BTreeMap::new();
    for event in events.iter().filter(|event| event["type"] == "context.compacted") {
        let at = event["position"].as_u64().unwrap();
        let lost =
            if event.get("dropped").is_some() { ranges(&event["dropped"]) } else { vec![(0, at)] };
        for position in lost.into_iter().flat_map(|(from, to)| from..to.min(at)) {
            out.entry(position).or_insert(at);
        }
        for position in ranges(&event["kept"]).into_iter().flat_map(|(from, to)| from..to) {
            out.remove(&position);
        }
    }
    out
}

/// Compares the rows of a session with its events.
fn check_rows(events: &[Value], rows: &[Value]) {
    let positions = |all: &[Value]| -> Vec<u64> {
        all.iter().map(|one| one["position"].as_u64().unwrap()).collect()
    };
    assert_eq!(positions(rows), positions(events), "one row for each event");
    let (of, dropped) = (pairs(events), dropped(events));
    let results: BTreeMap<u64, u64> = of.iter().map(|(result, call)| (*call, *result)).collect();
    for (event, row) in events.iter().zip(rows) {
        let at = event["position"].as_u64().unwrap();
        let kind = event["type"].as_str().unwrap();
        assert_eq!((&row["type"], &row["id"]), (&event["type"], &event["id"]));
        assert_eq!(row["origin"], event["origin"]);
        assert_eq!(row["of"].as_u64(), of.get(&at).copied(), "{at}: {event} {row}");
        assert_eq!(row["result"].as_u64(), results.get(&at).copied(), "{at}: {event} {row}");
        assert_eq!(row["dropped"].as_u64(), dropped.get(&at).copied(), "{at}: {row}");
        assert_eq!(row["thread"], event["session_thread_id"], "{at}: {row}");
        let line = row["line"].as_str().unwrap();
        assert!(!line.is_empty() && line.chars().count() <= 160, "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
        let expected: &[&str] = match kind {
            "user.message" => &["user", "injected"],
            "agent.message" => &["agent"],
            kind if kind.starts_with("agent.thread_message") => &["agent"],
            "agent.thinking" => &["thinking"],
            "system.message" | "context.injected" => &["injected"],
            "context.compacted" | "context.cleared" => &["compaction"],
            "memory.item" => &["memory"],
            kind if is_call(kind) => &["call"],
            kind if is_result(kind) => &["result"],
            kind if kind.starts_with("session.") || kind.starts_with("span.") => &["status"],
            "context.threshold" | "transcript.entry" => &["status"],
            _ => &["change"],
        };
        assert!(expected.contains(&row["kind"].as_str().unwrap()), "{row}");
        // A command that only reads does not fail.
        let is_command = row["tool"] == "Bash";
        if is_result(kind) && event["is_error"] == true && !is_command {
            assert_eq!(row["failed"], true, "{row}");
            if let Some(call) = of.get(&at) {
                assert_eq!(
                    rows[usize::try_from(call - rows[0]["position"].as_u64().unwrap()).unwrap()]["failed"],
                    true
                );
            }
        }
    }
}

/// Compares a strip with one bucket for each event, and one of few buckets, with the rows.
fn check_strip(strip: &Value, rows: &[Value]) {
    let width = strip["width"].as_u64().unwrap();
    let count = |bucket: &Value, name: &str| bucket[name].as_u64().unwrap();
    let mut from = strip["from"].as_u64().unwrap();
    let mut seen = 0;
    for bucket in strip["buckets"].as_array().unwrap() {
        assert_eq!(count(bucket, "from"), from, "{strip}");
        let own: Vec<&Value> = rows
            .iter()
            .filter(|row| (from..from + width).contains(&row["position"].as_u64().unwrap()))
            .collect();
        let of = |kinds: &[&str]| {
            own.iter().filter(|row| kinds.contains(&row["kind"].as_str().unwrap())).count() as u64
        };
        let (user, agent, calls) = (of(&["user"]), of(&["agent", "thinking"]), of(&["call"]));
        let is_failed = |row: &&&Value| row["failed"] == true && row["kind"] != "call";
        let failed = own.iter().filter(is_failed).count() as u64;
        let tokens = own.iter().filter(|row| row.get("thread").is_none());
        let tokens = tokens.filter_map(|row| row["tokens"].as_u64()).max();
        assert_eq!(count(bucket, "user"), user, "{bucket}");
        assert_eq!(count(bucket, "agent"), agent, "{bucket}");
        assert_eq!(count(bucket, "calls"), calls, "{bucket}");
        assert_eq!(count(bucket, "failed"), failed, "{bucket}");
        assert_eq!(count(bucket, "other"), own.len() as u64 - user - agent - calls, "{bucket}");
        assert_eq!(bucket["tokens"].as_u64(), tokens, "{bucket}");
        assert_eq!(bucket["at"], own.first().map_or(Value::Null, |row| row["at"].clone()));
        seen += own.len();
        from += width;
    }
    let whole = |row: &&Value| {
        let at = row["position"].as_u64().unwrap();
        at >= strip["from"].as_u64().unwrap() && at < strip["to"].as_u64().unwrap()
    };
    assert_eq!(seen, rows.iter().filter(whole).count(), "{strip}");
}

async fn check_session(house: &House, id: &str) {
    let events = events_of(house, id).await;
    let rows = rows_of(house, id, "", 500).await;
    check_rows(&events, &rows);
    for limit in [1, 7, 200] {
        // The rows do not depend on where a page begins.
        assert_eq!(rows_of(house, id, "", limit).await, rows, "pages of {limit}");
    }
    for buckets in [1, 3, 2_000] {
        let path = format!("/v1/sessions/{id}/views/strip?buckets={buckets}");
        let strip = house.get(&path).await.json();
        assert!(strip["buckets"].as_array().unwrap().len() <= buckets, "{strip}");
        check_strip(&strip, &rows);
    }
    for (query, selects) in [
        (
            "types=user,agent.tool_use",
            &(|row: &Value, _: &Value| {
                row["type"].as_str().unwrap().starts_with("user.")
                    || row["type"] == "agent.tool_use"
            }) as &dyn Fn(&Value, &Value) -> bool,
        ),
        ("kinds=call", &|row, _| row["kind"] == "call"),
        ("kinds=failed", &|row, _| row["failed"] == true && row["kind"] != "call"),
        ("kinds=user,failed", &|row, _| {
            row["failed"] == true && row["kind"] != "call" || row["kind"] == "user"
        }),
        ("thread=t1", &|row, _| row["thread"] == "t1"),
        ("q=JSON", &|_, event| {
            let mut texts = Vec::new();
            collect_texts(event, &mut texts);
            texts.iter().any(|text| text.to_lowercase().contains("json"))
        }),
    ] {
        let selected = rows.iter().zip(&events).filter(|(row, event)| selects(row, event));
        let expected: Vec<&Value> = selected.map(|(row, _)| row).collect();
        for limit in [2, 500] {
            let found = rows_of(house, id, query, limit).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        }
    }
}

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(members) => {
            for (name, value) in members {
                let is_place = ["id", "type", "origin", "call_id", "media_type"].contains(&&**name);
                if !is_place && !name.ends_with("_at") && name != "data" {
                    collect_texts(value, texts);
                }
            }
        }
        _ => {}
    }
}

fn aside(n: usize) -> Value {
    match n % 4 {
        0 => json!({"type": "user.message", "content": "look", "session_thread_id": "t1"}),
        1 => json!({"type": "span.model_request_end", "session_thread_id": "t1",
            "model_usage": {"input_tokens": 90_000, "output_tokens": 5}}),
        2 => json!({"type": "session.error", "error": {"type": "x", "message": "it broke"}}),
        _ => json!({"type": "span.model_request_end",
            "model_usage": {"input_tokens": 100 * n, "output_tokens": n}}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_strip_equal_a_naive_reading_of_random_events() {
    let house = House::plain().await;
    let mut runner = TestRunner::deterministic();
    let strategy = proptest::collection::vec(property::event(), 40..120);
    for case in 0..6 {
        let mut events = strategy.new_tree(&mut runner).unwrap().current();
        (0..12).for_each(|n| events.insert((n * 7) % events.len(), aside(n)));
        let id = format!("random-{case}");
        emit(&house, &id, &events).await;
        check_session(&house, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_strip_equal_a_naive_reading_of_real_conversations() {
    let Some(conversations) = real::conversations() else { return };
    let house = House::plain().await;
    for (n, events) in conversations.iter().take(3).enumerate() {
        let texts = events.iter().map(event_text);
        let parse = |text: String| {
            let mut event: Value = serde_json::from_str(&text).unwrap();
            for name in ["position", "processed_at", "origin"] {
                event.as_object_mut().unwrap().remove(name);
            }
            event
        };
        let id = format!("real-{n}");
        emit(&house, &id, &texts.map(parse).collect::<Vec<_>>()).await;
        check_session(&house, &id).await;
    }
}

#[test]
fn imported_transcripts_have_a_row_for_each_event_and_calls_with_their_results() {
    let place = Place::new();
    let server = place.serve();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, text) in [
        ("claude.jsonl", include_str!("../../fixtures/transcripts/claude-code.jsonl")),
        ("codex.jsonl", include_str!("../../fixtures/transcripts/codex.jsonl")),
    ] {
        let file = place.write(name, text);
        place.run(&["import", file.to_str().unwrap(), "--session", name]).ok();
        let client = server.client();
        let get = |path: &str, (parameter, value): (&str, u64)| -> Value {
            let request = HttpRequest::get(format!("/v1/sessions/{name}/{path}"));
            runtime.block_on(client.json(request.query(parameter, value))).unwrap()
        };
        let text = place.run(&["events", name]).ok();
        // A record may have a number that no parser holds.
        let parse = |line: &str| -> Value {
            let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
            let read = |(name, raw): (String, Box<RawValue>)| {
                Some((name, serde_json::from_str(raw.get()).ok()?))
            };
            Value::Object(members.into_iter().filter_map(read).collect())
        };
        let events: Vec<Value> = text.lines().map(parse).collect();
        let rows = get("views/rows", ("limit", 500));
        let rows = rows["rows"].as_array().unwrap();
        check_rows(&events, rows);
        let calls = rows.iter().filter(|row| row["kind"] == "call");
        assert!(calls.clone().count() > 0, "{name}");
        for row in rows.iter().filter(|row| row["kind"] == "status") {
            let is_read =
                ["session.error", "user.interrupt"].contains(&row["type"].as_str().unwrap());
            assert_eq!(row["bookkeeping"] == true, !is_read, "{row}");
        }
        check_strip(&get("views/strip", ("buckets", 9)), rows);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_belongs_to_its_call_within_five_hundred_positions() {
    let house = House::plain().await;
    let call = |id: &str| {
        json!({"type": "agent.tool_use", "name": "Bash", "call_id": id,
            "input": {"command": "cargo test"}})
    };
    let result = |id: &str| {
        json!({"type": "agent.tool_result", "call_id": id, "exit_code": 101, "duration_ms": 68,
            "content": "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored"})
    };
    let filler = || json!({"type": "agent.message", "content": "."});
    let mut events = vec![call("near"), call("far")];
    events.extend((0..497).map(|_| filler()));
    events.extend([result("near"), filler(), result("far")]);
    emit(&house, "s", &events).await;
    let rows = page(&house, "s", "limit=2").await;
    let (near, far) = (&rows["rows"][0], &rows["rows"][1]);
    assert_eq!((&near["result"], &near["outcome"]), (&json!(499), &json!("1 failed")), "{near}");
    assert_eq!((&near["failed"], &near["duration_ms"]), (&json!(true), &json!(68)), "{near}");
    assert_eq!((&near["line"], &near["tool"]), (&json!("$ cargo test"), &json!("Bash")));
    assert_eq!((far.get("result"), far.get("failed")), (None, None), "{far}");
    let rows = page(&house, "s", "from=499").await;
    let own = rows["rows"].as_array().unwrap();
    assert_eq!((&own[0]["of"], &own[0]["tool"]), (&json!(0), &json!("Bash")), "{rows}");
    assert_eq!(own[2].get("of"), None, "{rows}");
    check_session(&house, "s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_shows_its_path_and_lines_and_a_refused_call_its_refusal() {
    let house = House::plain().await;
    let created = json!({"id": "s", "workspace": "/work/wx"});
    house.post("/v1/sessions", &created).await;
    let call = |id: &str, name: &str, input: Value| json!({"type": "agent.tool_use", "name": name, "call_id": id, "input": input});
    let result = |id: &str, text: &str, failed: bool| json!({"type": "agent.tool_result", "call_id": id, "content": text, "is_error": failed});
    let refused = "The user doesn't want to proceed with this tool use.";
    emit(
        &house,
        "s",
        &[
            call(
                "a",
                "Edit",
                json!({"file_path": "/work/wx/report.py", "old_string": "a\nb",
                "new_string": "c\nd\ne"}),
            ),
            result("a", "ok", false),
            call("b", "Write", json!({"file_path": "/work/wx/new.py", "content": "1\n2\n3\n"})),
            result("b", "ok", false),
            call("c", "Bash", json!({"command": "rm -r build"})),
            result("c", refused, true),
            call("d", "Bash", json!({"command": "grep -c x y"})),
            json!({"type": "agent.tool_result", "call_id": "d", "content": "0", "exit_code": 1}),
            call("e", "Read", json!({"file_path": "/work/wx/report.py", "offset": 10})),
            result("e", "text", false),
            json!({"type": "user.message", "content": "<system-reminder>x</system-reminder>"}),
            json!({"type": "context.injected", "what": "continuation", "text": "Go on."}),
            json!({"type": "agent.message", "content": ""}),
            json!({"type": "user.interrupt"}),
        ],
    )
    .await;
    let rows = page(&house, "s", "").await;
    let shown = |at: usize, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| rows["rows"][at][name].clone()).collect()
    };
    let names = ["line", "path", "added", "removed", "outcome", "failed"];
    for (at, expected) in [
        (0, json!(["Edit report.py", "report.py", 3, 2, null, null])),
        (2, json!(["Write new.py", "new.py", 3, null, null, null])),
        (4, json!(["$ rm -r build", null, null, null, "refused", true])),
        (5, json!([refused, null, null, null, "refused", true])),
        (6, json!(["$ grep -c x y", null, null, null, "exit 1", null])),
        (8, json!(["Read report.py offset=10", "report.py", null, null, null, null])),
    ] {
        assert_eq!(json!(shown(at, &names)), expected, "{at}");
    }
    for (at, expected) in [
        (10, json!(["injected", null])),
        (11, json!(["injected", null])),
        (12, json!(["agent", true])),
        (13, json!(["status", null])),
    ] {
        assert_eq!(json!(shown(at, &["kind", "bookkeeping"])), expected, "{at}");
    }
}

#[test]
fn a_strip_of_any_length_keeps_its_memory_and_every_count() {
    let kinds = ["user.message", "agent.message", "agent.tool_use", "session.status_idle"];
    let text = |n: u64| {
        let kind = kinds[usize::try_from(n % 7 % 4).unwrap()];
        json!({"type": kind, "content": "x", "name": "look", "call_id": n.to_string()}).to_string()
    };
    let models: Vec<Event> = real::events(&(0..28).map(text).collect::<Vec<_>>());
    let mut strip = Strip::new(None);
    let mut counts = Vec::new();
    let mut folded = 0_u64;
    for length in [0, 1, 100, 4_095, 4_096, 4_097, 8_193, 50_000] {
        while folded < length {
            let model = &models[usize::try_from(folded % 28).unwrap()];
            strip.fold(&Event { position: Position(folded), ..model.clone() });
            counts.push(row_kind(model));
            folded += 1;
        }
        assert!(strip.weight() < 64 * CELLS_MAX + 400_000, "{} at {length}", strip.weight());
        for (from, to, most) in [(0, length, 400), (length / 3, length, 7), (0, length, 2_000)] {
            let range = Range::new(Position(from), Position(to));
            let (shown, width, buckets) = strip.buckets(range, most);
            assert!(buckets.len() <= most && width % strip.width() == 0, "{length} {width}");
            assert!(shown.from.0 <= from && shown.to.0 >= to, "{shown} of {range}");
            for bucket in &buckets {
                let start = usize::try_from(bucket.from.0).unwrap();
                let end = (start + usize::try_from(width).unwrap())
                    .min(counts.len())
                    .min(usize::try_from(shown.to.0).unwrap());
                let of = |kind: RowKind| {
                    counts[start..end.max(start)].iter().filter(|one| **one == kind).count() as u64
                };
                assert_eq!(bucket.user, of(RowKind::User), "{length}: {bucket:?}");
                assert_eq!(bucket.agent, of(RowKind::Agent), "{length}: {bucket:?}");
                assert_eq!(bucket.calls, of(RowKind::Call), "{length}: {bucket:?}");
                assert_eq!(bucket.other, of(RowKind::Status), "{length}: {bucket:?}");
            }
        }
    }
    assert_eq!(strip.width(), 16, "50 000 positions in 4 096 cells");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_says_what_a_mark_marks_and_which_session_one_continues() {
    over_every_engine(async |house| {
        emit(
            house,
            "s",
            &[
                json!({"type": "session.restored", "from": {"session": "before", "position": 4},
                    "tokens_max": 100, "chosen": [], "weights": {}}),
                json!({"type": "user.message", "id": "asked", "content": "go"}),
            ],
        )
        .await;
        let note = json!({"mark": "wrong", "note": "it was three"});
        let marked = house.post("/v1/sessions/s/events/asked/mark", &note).await;
        assert_eq!(marked.status, 200, "{}", marked.text);
        let rows = page(house, "s", "").await;
        let line = |at: usize| rows["rows"][at]["line"].as_str().unwrap();
        assert_eq!(line(0), "Continues session before");
        assert_eq!(line(2), "Marked @1 as wrong: it was three");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_a_strip_name_compactions_checkpoints_forks_and_injected_text() {
    over_every_engine(async |house| {
        let said = json!({"type": "user.message", "content": "go"});
        emit(
            house,
            "s",
            &[
                said.clone(),
                json!({"type": "context.injected", "what": "continuation", "text": "x"}),
                said.clone(),
                json!({"type": "context.compacted", "trigger": "auto", "kept": [{"from": 2, "to": 3}]}),
                json!({"type": "context.cleared"}),
                said.clone(),
            ],
        )
        .await;
        let labelled = json!({"label": "before the move"});
        house.post("/v1/sessions/s/checkpoints", &labelled).await;
        house.post("/v1/sessions/s/fork", &json!({"at": "2", "id": "f"})).await;
        emit(house, "f", &[said]).await;
        let marks = |strip: Value| -> Vec<(u64, String, String)> {
            let text = |mark: &Value, name: &str| mark[name].as_str().unwrap().to_owned();
            let marks = strip["marks"].as_array().unwrap().iter();
            marks
                .map(|mark| {
                    (mark["position"].as_u64().unwrap(), text(mark, "kind"), text(mark, "label"))
                })
                .collect()
        };
        let rows = page(house, "s", "").await;
        let dropped: Vec<&Value> =
            rows["rows"].as_array().unwrap().iter().map(|row| &row["dropped"]).collect();
        let expected = [json!(3), json!(3), Value::Null, Value::Null, Value::Null, Value::Null];
        assert_eq!(dropped, expected.iter().collect::<Vec<_>>(), "what was kept is not dropped");
        let strip = house.get("/v1/sessions/s/views/strip").await.json();
        assert_eq!((&strip["limit"], &strip["threshold"]), (&json!(200_000), &json!(150_000)));
        let mark = |at, kind: &str, label: &str| (at, kind.to_owned(), label.to_owned());
        assert_eq!(
            marks(strip),
            [
                mark(1, "injected", "continuation"),
                mark(2, "fork", "to f"),
                mark(3, "compaction", "compaction (auto): 2 events dropped"),
                mark(4, "clear", "context cleared"),
                mark(6, "checkpoint", "before the move"),
            ]
        );
        let fork = house.get("/v1/sessions/f/views/strip").await.json();
        assert_eq!(marks(fork), [mark(1, "injected", "continuation"), mark(2, "fork", "from s")]);
        let rows = page(house, "f", "").await;
        assert_eq!(rows["rows"].as_array().unwrap().len(), 3, "inherited events have rows: {rows}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filtered_page_examines_twenty_thousand_events_and_says_where_it_stopped() {
    let house = House::plain().await;
    let event = |n: usize| {
        let text = if n == 20_500 { "the Needle" } else { "hay" };
        json!({"type": "user.message", "content": text})
    };
    emit(&house, "s", &(0..21_000).map(event).collect::<Vec<_>>()).await;
    let first = page(&house, "s", "q=NEEDLE").await;
    assert_eq!((&first["rows"], &first["complete"]), (&json!([]), &json!(false)), "{first}");
    assert_eq!(first["next_position"], 20_000, "{first}");
    let rest = page(&house, "s", "q=nEEDLE&from=20000").await;
    assert_eq!(rest["rows"][0]["position"], 20_500, "{rest}");
    assert_eq!((&rest["complete"], &rest["next_position"]), (&json!(true), &json!(21_000)));
    let strip = house.get("/v1/sessions/s/views/strip?buckets=2000").await.json();
    let counts = strip["buckets"].as_array().unwrap().iter().map(|one| one["user"].as_u64());
    assert_eq!(counts.sum::<Option<u64>>(), Some(21_000), "{}", strip["width"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_and_missing_sessions_are_refused_with_the_name_of_the_field() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        house.session("gone", 3).await;
        assert_eq!(house.call("DELETE", "/v1/sessions/gone", &[], None).await.status, 200);
        for (path, status, code) in [
            ("none/views/rows", 404, "session_not_found"),
            ("none/views/strip", 404, "session_not_found"),
            ("none/compare?with=s", 404, "session_not_found"),
            ("s/compare?with=none", 404, "session_not_found"),
            ("s/compare", 422, "invalid_request"),
            ("s/compare?with=../x", 422, "invalid_request"),
            ("s/compare?with=s&at=9", 404, "point_not_found"),
            ("s/compare?with=s&with_at=here", 422, "invalid_request"),
            ("gone/views/rows", 410, "session_deleted"),
            ("gone/views/strip", 410, "session_deleted"),
            ("s/compare?with=gone", 410, "session_deleted"),
            ("s/views/rows?limit=0", 422, "invalid_request"),
            ("s/views/rows?limit=501", 422, "invalid_request"),
            ("s/views/rows?limit=x", 422, "invalid_request"),
            ("s/views/rows?from=here", 422, "invalid_request"),
            ("s/views/rows?from=event:none", 404, "point_not_found"),
            ("s/views/rows?types=a%20b", 422, "invalid_request"),
            ("s/views/rows?kinds=message", 422, "invalid_request"),
            ("s/views/rows?none=1", 422, "invalid_request"),
            ("s/views/strip?buckets=0", 422, "invalid_request"),
            ("s/views/strip?buckets=2001", 422, "invalid_request"),
        ] {
            let refused = house.get(&format!("/v1/sessions/{path}")).await;
            assert_eq!(
                (refused.status, &*refused.code()),
                (status, code),
                "{path}: {}",
                refused.text
            );
        }
        for (query, positions) in [
            ("", vec![0, 1, 2]),
            ("from=1", vec![1, 2]),
            ("to=-1", vec![0, 1]),
            ("from=-1", vec![2]),
            ("from=event:e1&to=event:e2", vec![1]),
            ("from=2&to=1", vec![]),
            ("from=9", vec![]),
        ] {
            let answer = page(house, "s", query).await;
            let rows = answer["rows"].as_array().unwrap().iter();
            let found: Vec<u64> = rows.map(|row| row["position"].as_u64().unwrap()).collect();
            assert_eq!(found, positions, "{query}");
            assert_eq!(answer["complete"], true, "{query}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_strip_of_a_damaged_session_show_the_readable_events_and_the_gap() {
    let sim = Sim::new(11);
    let house = async |sim: &Sim| {
        let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
        let served: Arc<dyn Store> = store.clone();
        (House::over(served, Arc::new(ManualClock::default()), Plan::default()).await, store)
    };
    let (first, store) = house(&sim).await;
    for n in 0..80 {
        let text = format!("Count the herons of day {n} {}", "in whole cents ".repeat(40));
        emit(&first, "s", &[json!({"type": "user.message", "content": text})]).await;
    }
    store.flush().unwrap();
    first.stop.cancel();
    store.close().await;
    sim.power_loss();
    drop(store);
    let sealed = sim.files().into_iter().find(|path| path.ends_with(".sealed")).unwrap();
    let bytes = sim.read_durable(&sealed).unwrap().len() as u64;
    sim.flip(&sealed, bytes / 2, 3);
    let (house, _store) = house(&sim).await;
    let refused = house.get("/v1/sessions/s/views/index").await;
    assert_eq!(refused.code(), "session_damaged", "{}", refused.text);
    let events = events_of(&house, "s").await;
    let answer = page(&house, "s", "limit=500").await;
    let rows = answer["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.len() < 80, "{}", rows.len());
    check_rows(&events, rows);
    assert_eq!((&answer["complete"], &answer["next_position"]), (&json!(true), &json!(80)));
    let gap = &answer["gaps"][0];
    let lost = gap["to"].as_u64().unwrap() - gap["from"].as_u64().unwrap();
    assert_eq!(lost as usize + rows.len(), 80, "{gap}");
    let strip = house.get("/v1/sessions/s/views/strip").await.json();
    let marks = strip["marks"].as_array().unwrap();
    let mark = marks.iter().find(|mark| mark["kind"] == "gap").unwrap();
    assert_eq!(mark["position"], gap["from"], "{strip}");
    let counts = strip["buckets"].as_array().unwrap().iter().map(|one| one["user"].as_u64());
    assert_eq!(counts.sum::<Option<u64>>(), Some(rows.len() as u64));
    let compared = house.get("/v1/sessions/s/compare?with=s").await;
    assert_eq!(compared.status, 200, "the same events: {}", compared.text);
    // The damage is the parent's, so that the fork's own record names none.
    let forked = house.post("/v1/sessions/s/fork", &json!({"id": "kid", "at": "end"})).await;
    assert_eq!(forked.status, 201, "{}", forked.text);
    let usage = house.get("/v1/usage").await;
    assert_eq!((usage.status, &usage.json()["complete"]), (200, &json!(false)), "{}", usage.text);
    house.stop.cancel();
}

//! Two sessions compared: a fork with its parent, two imports of one conversation, sessions with
//! nothing in common, and sessions too long to be aligned; over HTTP and on the command line.

use serde_json::{Value, json};

use super::rows::emit;
use crate::{
    http::house::{House, over_every_engine},
    program::Place,
};

async fn compare(house: &House, query: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    let answer = reply.json();
    check_parts(&answer);
    answer
}

/// Checks that the parts cover both sessions without a hole, and have the rows of their positions.
fn check_parts(answer: &Value) {
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
    let mut at = [0, 0];
    for hunk in answer["hunks"].as_array().unwrap() {
        for (side, at) in ["a", "b"].into_iter().zip(&mut at) {
            let range = &hunk[side];
            assert_eq!(number(range, "from"), *at, "{answer}");
            *at = number(range, "to");
            for row in hunk[format!("rows_{side}")].as_array().into_iter().flatten() {
                let position = number(row, "position");
                assert!((number(range, "from")..*at).contains(&position), "{hunk}");
                assert!(hunk["kind"] != "same" && row.get("bookkeeping").is_none(), "{hunk}");
            }
        }
    }
    let first = answer["hunks"].as_array().unwrap().iter().find(|hunk| hunk["kind"] != "same");
    let expected = first.map(|hunk| json!({"a": hunk["a"]["from"], "b": hunk["b"]["from"]}));
    assert_eq!(answer.get("first_difference"), expected.as_ref(), "{answer}");
}

/// Returns the parts as text: `same 0..2|0..2`.
fn parts(answer: &Value) -> Vec<String> {
    let span = |range: &Value| format!("{}..{}", range["from"], range["to"]);
    let part = |hunk: &Value| {
        format!("{} {}|{}", hunk["kind"].as_str().unwrap(), span(&hunk["a"]), span(&hunk["b"]))
    };
    answer["hunks"].as_array().unwrap().iter().map(part).collect()
}

fn said(text: &str) -> Value {
    json!({"type": "user.message", "content": text})
}

/// A call with its result; the ids differ from session to session.
fn worked(id: &str, command: &str, output: &str) -> [Value; 2] {
    [
        json!({"type": "agent.tool_use", "name": "Bash", "call_id": id,
            "input": {"command": command}}),
        json!({"type": "agent.tool_result", "call_id": id, "content": output,
            "duration_ms": id.len()}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_compared_from_the_point_where_it_was_made() {
    over_every_engine(async |house| {
        let texts: Vec<Value> = ["a", "b", "c", "d"].map(said).into();
        emit(house, "s", &texts).await;
        house.post("/v1/sessions/s/fork", &json!({"at": "3", "id": "f"})).await;
        emit(house, "f", &[said("x"), said("e")]).await;
        emit(house, "s", &[said("e")]).await;
        house.post("/v1/sessions/f/fork", &json!({"at": "4", "id": "g"})).await;
        emit(house, "g", &[said("z")]).await;
        let answer = compare(house, "s/compare?with=f").await;
        assert_eq!(answer["common"], json!({"until": 3, "by": "lineage"}));
        assert_eq!(parts(&answer), ["same 0..3|0..3", "changed 3..4|3..4", "same 4..5|4..5"]);
        let hunk = &answer["hunks"][1];
        assert_eq!(
            (&hunk["rows_a"][0]["line"], &hunk["rows_b"][0]["line"]),
            (&json!("d"), &json!("x"))
        );
        assert_eq!(answer["complete"], true);
        // A fork of the fork, and the session itself; before and behind the fork's point.
        for (query, until, expected) in [
            ("s/compare?with=g", 3, vec!["same 0..3|0..3", "changed 3..5|3..5"]),
            ("g/compare?with=f", 4, vec!["same 0..4|0..4", "changed 4..5|4..5"]),
            ("f/compare?with=f", 5, vec!["same 0..5|0..5"]),
            ("s/compare?with=f&at=2&with_at=3", 2, vec!["same 0..2|0..2", "only_b 2..2|2..3"]),
            ("f/compare?with=s&at=3&with_at=-1", 3, vec!["same 0..3|0..3", "only_b 3..3|3..4"]),
        ] {
            let answer = compare(house, query).await;
            assert_eq!(answer["common"]["until"], until, "{query}");
            assert_eq!(answer["common"]["by"], "lineage", "{query}");
            assert_eq!(parts(&answer), expected, "{query}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_imports_are_compared_by_what_they_say() {
    let house = House::plain().await;
    let start = |ids: &str| {
        let mut events = vec![json!({"type": "session.status_running", "process": ids})];
        events.push(said("fix it"));
        events.extend(worked(&format!("{ids}1"), "ls", "a.rs"));
        events.push(json!({"type": "span.model_request_end",
            "model_usage": {"input_tokens": ids.len(), "output_tokens": 3}}));
        events
    };
    let mut one = start("one-");
    one.extend(worked("one-2", "cargo test", "1 failed"));
    one.push(said("thanks"));
    let mut two = start("second-");
    two.extend(worked("second-2", "cargo test", "1 failed"));
    two.push(said("thanks"));
    emit(&house, "one", &one).await;
    emit(&house, "two", &two).await;
    let same = compare(&house, "one/compare?with=two").await;
    assert_eq!(same["common"], json!({"until": 8, "by": "content"}), "{same}");
    assert_eq!(parts(&same), ["same 0..8|0..8"]);
    // A third one that runs another command, and says a word more.
    let mut three = start("x");
    three.extend(worked("x2", "cargo check", "ok"));
    three.push(json!({"type": "session.status_idle"}));
    three.extend([said("thanks"), said("bye")]);
    emit(&house, "three", &three).await;
    let answer = compare(&house, "one/compare?with=three").await;
    assert_eq!(answer["common"], json!({"until": 5, "by": "content"}));
    assert_eq!(
        parts(&answer),
        ["same 0..5|0..5", "changed 5..7|5..8", "same 7..8|8..9", "only_b 8..8|9..10"]
    );
    let lines = |name: &str| -> Vec<&str> {
        let rows = answer["hunks"][1][name].as_array().unwrap().iter();
        rows.map(|row| row["line"].as_str().unwrap()).collect()
    };
    assert_eq!(lines("rows_a"), ["$ cargo test", "1 failed"]);
    assert_eq!(lines("rows_b"), ["$ cargo check", "ok"]);
    assert_eq!(answer["hunks"][1]["rows_a"][0]["result"], 6, "rows are those of viewRows");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_with_nothing_in_common_differ_from_the_first_event_on() {
    let house = House::plain().await;
    emit(&house, "one", &[said("a"), said("b")]).await;
    emit(&house, "two", &[said("c")]).await;
    house.post("/v1/sessions", &json!({"id": "empty"})).await;
    house.post("/v1/sessions", &json!({"id": "empty-too"})).await;
    for (query, expected) in [
        ("one/compare?with=two", vec!["changed 0..2|0..1"]),
        ("one/compare?with=empty", vec!["only_a 0..2|0..0"]),
        ("empty/compare?with=one", vec!["only_b 0..0|0..2"]),
        ("empty/compare?with=empty-too", vec![]),
    ] {
        let answer = compare(&house, query).await;
        assert_eq!(answer["common"]["until"], 0, "{query}");
        assert_eq!(parts(&answer), expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_that_was_cut_says_so_and_can_be_continued_from_its_end() {
    let house = House::plain().await;
    let texts = |word: &str, count: usize| -> Vec<Value> {
        let first = std::iter::once(said(word));
        first.chain((0..count).map(|n| said(&format!("{n}")))).collect()
    };
    emit(&house, "one", &texts("a", 5_500)).await;
    emit(&house, "two", &texts("b", 5_500)).await;
    let answer = compare(&house, "one/compare?with=two").await;
    assert_eq!(answer["complete"], false, "only 5 000 events are aligned");
    assert_eq!(parts(&answer), ["changed 0..1|0..1", "same 1..5000|1..5000"]);
    let answer = compare(&house, "one/compare?with=two&at=4000&with_at=4000").await;
    assert_eq!((&answer["complete"], answer["hunks"].as_array().unwrap().len()), (&json!(true), 2));
    // A common beginning of any length is no reason to cut.
    house.post("/v1/sessions/one/fork", &json!({"at": "5400", "id": "f"})).await;
    emit(&house, "f", &[said("z")]).await;
    let answer = compare(&house, "one/compare?with=f").await;
    assert_eq!(answer["complete"], true, "{answer}");
    assert_eq!(answer["first_difference"], json!({"a": 5_400, "b": 5_400}));
    let rows = answer["hunks"][1]["rows_a"].as_array().unwrap().len();
    assert_eq!(rows, 100, "of a part, the first 100 rows are shown");
}

#[test]
fn the_command_line_compares_two_sessions_by_prefix() {
    let place = Place::new();
    let append = |session: &str, texts: &[&str]| {
        let lines: String = texts.iter().map(|text| format!("{}\n", said(text))).collect();
        place.run_with(&["append", "--create", session], &lines).ok();
    };
    append("trip-to-ghent", &["where to?", "to Ghent", "by train"]);
    place.run(&["fork", "trip-to-ghent", "--at", "2", "--id", "walk"]).ok();
    append("walk", &["on foot"]);
    let text = place.run(&["compare", "trip", "walk"]).ok();
    for part in [
        "trip-to-ghent and walk share their first 2 events: one is a fork.",
        "They differ from position 2 and 2 on.",
        "0–1 | 0–1  the same: 2 events",
        "2 | 2  they differ",
        "  -     2  > by train",
        "  +     2  > on foot",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let answer = place.run(&["compare", "trip", "walk", "--json"]).json();
    assert_eq!(answer["common"], json!({"until": 2, "by": "lineage"}));
    check_parts(&answer);
    let same = place.run(&["compare", "trip", "walk", "--at", "2", "--with-at", "2"]).ok();
    assert!(same.contains("They say the same to their ends."), "{same}");
    assert_eq!(place.run(&["compare", "trip", "none", "--json"]).refused(4), "session_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_has_its_rows_behind_a_part_with_more_rows_than_are_shown() {
    over_every_engine(async |house| {
        // More rows than one comparison has, and more bytes than one read examines.
        for (id, count, bytes) in [("a", 1000, 0), ("b", 130, 66_000)] {
            let mut events: Vec<Value> =
                (0..count).map(|n| said(&format!("{id} {n} {}", "x".repeat(bytes)))).collect();
            events.extend([said("the same"), said(&format!("the last of {id}"))]);
            emit(house, id, &events).await;
        }
        let answer = compare(house, "a/compare?with=b").await;
        let hunks = answer["hunks"].as_array().unwrap();
        let rows = |hunk: &Value, side: &str| hunk[side].as_array().map_or(0, Vec::len);
        let counts: Vec<_> =
            hunks.iter().map(|hunk| (rows(hunk, "rows_a"), rows(hunk, "rows_b"))).collect();
        assert_eq!(counts, [(100, 100), (0, 0), (1, 1)], "{:?}", parts(&answer));
    })
    .await;
}

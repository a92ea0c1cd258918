//! Invalid input, one line each: the status, the code, the named field, and no lost event.

use serde_json::{Value, json};

use super::house::{House, Plan, over_every_engine};

/// Method, path, headers, body; status, code, field.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str, &'a str);

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const E: &str = "/v1/sessions/s/events";
const ONE: &str = r#"{"events":[{"type":"a.b"}]}"#;

async fn check(house: &House, cases: &[Case<'_>]) {
    for (method, path, headers, body, status, code, field) in cases {
        let body = (!body.is_empty()).then(|| body.as_bytes().to_vec());
        let reply = house.call(method, path, headers, body).await;
        let found = (reply.status, reply.code());
        assert_eq!(found, (*status, (*code).to_owned()), "{method} {path}: {}", reply.text);
        let error = reply.json();
        let named = error["error"]["recovery_hint"]["field"].as_str().unwrap_or_default();
        assert_eq!(named, *field, "{method} {path}: {}", reply.text);
        assert_eq!(error["type"], "error");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!(error["request_id"], reply.header("x-request-id"));
        assert_eq!(reply.header("content-type"), "application/json");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_is_rejected_with_a_typed_error_and_changes_nothing() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        let before = house.get(E).await.json();
        check(house, EMITS).await;
        check(house, READS).await;
        check(house, SESSIONS).await;
        assert_eq!(house.get(E).await.json(), before);
    })
    .await;
}

const EMITS: &[Case<'static>] = &[
    ("POST", E, JSON, "", 400, "invalid_json", ""),
    ("POST", E, JSON, "{", 400, "invalid_json", ""),
    ("POST", E, JSON, "{\"events\":[{\"type\":\"a.b\"}]} x", 400, "invalid_json", ""),
    ("POST", E, JSON, "\u{feff}{}", 400, "invalid_json", ""),
    ("POST", E, JSON, "[]", 422, "invalid_request", "body"),
    ("POST", E, JSON, "{}", 422, "invalid_request", "events"),
    ("POST", E, JSON, r#"{"events":[]}"#, 422, "invalid_request", "events"),
    ("POST", E, JSON, r#"{"events":[1]}"#, 422, "invalid_request", "events[0]"),
    ("POST", E, JSON, r#"{"events":[{}]}"#, 422, "invalid_request", "events[0].type"),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b","id":1}]}"#,
        422,
        "invalid_request",
        "events[0].id",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b"},{"type":"a.b","position":"1"}]}"#,
        422,
        "invalid_request",
        "events[1].position",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b","created_at":1}]}"#,
        422,
        "invalid_request",
        "events[0].created_at",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b","created_at":"9999-12-31T23:59:59-00:01"}]}"#,
        422,
        "invalid_request",
        "events[0].created_at",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b","x":1,"x":1}]}"#,
        422,
        "invalid_request",
        "events[0].x",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"a.b","id":"i"},{"type":"a.b","id":"i"}]}"#,
        422,
        "invalid_request",
        "events",
    ),
    (
        "POST",
        E,
        JSON,
        r#"{"events":[{"type":"source.found","found_by":"server"}]}"#,
        422,
        "invalid_request",
        "events[0].found_by",
    ),
    ("POST", E, &[("content-type", "text/plain")], ONE, 415, "invalid_request", "content-type"),
    ("POST", E, &[], ONE, 415, "invalid_request", "content-type"),
    (
        "POST",
        E,
        &[("content-type", "application/json"), ("if-position", "x")],
        ONE,
        422,
        "invalid_request",
        "if-position",
    ),
    (
        "POST",
        E,
        &[("content-type", "application/json"), ("if-position", "1"), ("if-position", "1")],
        ONE,
        422,
        "invalid_request",
        "if-position",
    ),
    (
        "POST",
        E,
        &[("content-type", "application/json"), ("fencing-token", "x")],
        ONE,
        422,
        "invalid_request",
        "fencing-token",
    ),
    (
        "POST",
        E,
        &[("content-type", "application/json"), ("idempotency-key", "")],
        ONE,
        422,
        "invalid_request",
        "idempotency-key",
    ),
    ("POST", "/v1/sessions/s/events?create=yes", JSON, ONE, 422, "invalid_request", "create"),
    ("POST", "/v1/sessions/t/events", JSON, ONE, 404, "session_not_found", ""),
];

const READS: &[Case<'static>] = &[
    ("GET", "/v1/sessions/t/events", &[], "", 404, "session_not_found", ""),
    ("GET", "/v1/sessions/t/events/stream", &[], "", 404, "session_not_found", ""),
    ("GET", "/v1/sessions/t/export", &[], "", 404, "session_not_found", ""),
    ("GET", "/v1/sessions/s/export?format=xml", &[], "", 422, "invalid_request", "format"),
    ("GET", "/v1/sessions/s/events?from=here", &[], "", 422, "invalid_request", "from"),
    ("GET", "/v1/sessions/s/events?to=1.5", &[], "", 422, "invalid_request", "to"),
    ("GET", "/v1/sessions/s/events?from=event:none", &[], "", 404, "point_not_found", ""),
    ("GET", "/v1/sessions/s/events?from=action:none", &[], "", 404, "point_not_found", ""),
    (
        "GET",
        "/v1/sessions/s/events?from=action:user.message/9",
        &[],
        "",
        404,
        "point_not_found",
        "",
    ),
    ("GET", "/v1/sessions/s/events?from=step:1", &[], "", 404, "point_not_found", ""),
    ("GET", "/v1/sessions/s/events?from=checkpoint:c", &[], "", 404, "point_not_found", ""),
    ("GET", "/v1/sessions/s/events?around=cursor:c", &[], "", 404, "point_not_found", ""),
    ("GET", "/v1/sessions/s/events?around=1&from=1", &[], "", 422, "invalid_request", "around"),
    ("GET", "/v1/sessions/s/events?before=1", &[], "", 422, "invalid_request", "around"),
    ("GET", "/v1/sessions/s/events?limit=0", &[], "", 422, "invalid_request", "limit"),
    ("GET", "/v1/sessions/s/events?limit=10001", &[], "", 422, "invalid_request", "limit"),
    ("GET", "/v1/sessions/s/events?wait_ms=60001", &[], "", 422, "invalid_request", "wait_ms"),
    ("GET", "/v1/sessions/s/events?order=up", &[], "", 422, "invalid_request", "order"),
    ("GET", "/v1/sessions/s/events?page=abc", &[], "", 422, "invalid_request", "page"),
    ("GET", "/v1/sessions/s/events?types[]=a%20b", &[], "", 422, "invalid_request", "types[]"),
    (
        "GET",
        "/v1/sessions/s/events?created_at[gte]=now",
        &[],
        "",
        422,
        "invalid_request",
        "created_at[gte]",
    ),
    ("GET", "/v1/sessions/s/events/stream?from=here", &[], "", 422, "invalid_request", "from"),
    (
        "GET",
        "/v1/sessions/s/events/stream",
        &[("last-event-id", "x")],
        "",
        422,
        "invalid_request",
        "last-event-id",
    ),
];

const SESSIONS: &[Case<'static>] = &[
    ("POST", "/v1/sessions", JSON, r#"{"id":"s"}"#, 409, "session_exists", ""),
    ("POST", "/v1/sessions", JSON, r#"{"id":"a/b"}"#, 422, "invalid_request", "session"),
    ("POST", "/v1/sessions", JSON, r#"{"id":7}"#, 422, "invalid_request", "id"),
    ("POST", "/v1/sessions", JSON, r#"{"metadata":{"k":1}}"#, 422, "invalid_request", "metadata"),
    (
        "POST",
        "/v1/sessions",
        JSON,
        r#"{"ttl_seconds":9223372036854775808}"#,
        422,
        "invalid_request",
        "ttl_seconds",
    ),
    ("POST", "/v1/sessions", JSON, r#"{"ttl_seconds":-1}"#, 422, "invalid_request", "ttl_seconds"),
    ("POST", "/v1/sessions", JSON, r#"{"id":"n","id":"m"}"#, 422, "invalid_request", "body"),
    ("POST", "/v1/sessions", JSON, "[]", 422, "invalid_request", "body"),
    ("POST", "/v1/sessions", JSON, "null", 422, "invalid_request", "body"),
    ("POST", "/v1/sessions", JSON, "{]", 400, "invalid_json", ""),
    (
        "POST",
        "/v1/sessions",
        JSON,
        r#"{"id":"n","initial_events":[{"type":7}]}"#,
        422,
        "invalid_request",
        "initial_events[0].type",
    ),
    ("GET", "/v1/sessions?limit=1001", &[], "", 422, "invalid_request", "limit"),
    ("GET", "/v1/sessions?page=7331", &[], "", 422, "invalid_request", "page"),
    ("GET", "/v1/sessions/n", &[], "", 404, "session_not_found", ""),
    ("POST", "/v1/sessions/n", JSON, "{}", 404, "session_not_found", ""),
    ("POST", "/v1/sessions/n/archive", &[], "", 404, "session_not_found", ""),
    ("DELETE", "/v1/sessions/n", &[], "", 404, "session_not_found", ""),
    ("GET", "/v1/sessions/.a", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/a%2Fb", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/..%2F..%2Fetc", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/%00", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/%ff", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/%252e", &[], "", 422, "invalid_request", "session"),
    ("GET", "/v1/sessions/caf%C3%A9", &[], "", 422, "invalid_request", "session"),
    ("POST", "/v1/tools/%ff", JSON, "{}", 400, "invalid_request", "request"),
    ("GET", "/nowhere", &[], "", 404, "invalid_request", "path"),
    ("GET", "/v1/sessions/", &[], "", 404, "invalid_request", "path"),
    ("PUT", "/v1/sessions/s", &[], "", 405, "invalid_request", "method"),
    ("PATCH", E, &[], "", 405, "invalid_request", "method"),
];

#[tokio::test(flavor = "multi_thread")]
async fn title_and_metadata_of_a_session_are_limited() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let pairs =
        |count: usize| -> Value { (0..count).map(|n| (format!("k{n}"), json!("v"))).collect() };
    let text = |chars: usize| json!("é".repeat(chars));
    for (name, fits, too_much, field) in [
        ("title", text(512), text(513), "title"),
        ("metadata", json!({"k": text(512)}), json!({"k": text(513)}), "metadata.k"),
        ("metadata", json!({"é".repeat(64): "v"}), json!({"é".repeat(65): "v"}), "metadata"),
        ("metadata", pairs(16), pairs(17), "metadata"),
    ] {
        let mut asked = json!({});
        asked[name] = fits;
        assert_eq!(house.post("/v1/sessions", &asked).await.status, 201, "{name}");
        asked[name] = too_much;
        for path in ["/v1/sessions", "/v1/sessions/s"] {
            let refused = house.post(path, &asked).await;
            assert_eq!((refused.status, refused.code()), (422, "invalid_request".to_owned()));
            assert_eq!(refused.json()["error"]["recovery_hint"]["field"], field);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_accepted_up_to_its_depth_limit() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"events":[{{"type":"a.b","x":{open}{close}}}]}}"#)
    };
    assert_eq!(house.post_text(E, &nested(127)).await.status, 200);
    for levels in [128, 1_000_000] {
        let refused = house.post_text(E, &nested(levels)).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid_request".to_owned()));
    }
    let deep = "[".repeat(1_000_000);
    for path in ["/v1/sessions", "/v1/sessions/s", "/v1/admin/verify"] {
        assert_eq!(house.post_text(path, &deep).await.status, 422, "{path}");
    }
    assert!(house.get(E).await.text.contains(&"[".repeat(127)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_a_limit_is_rejected_as_a_whole() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let event = |bytes: usize| format!(r#"{{"type":"a.b","x":"{}"}}"#, "x".repeat(bytes));
    let batch = |events: &[String]| format!(r#"{{"events":[{}]}}"#, events.join(","));
    let four = 4 << 20;
    for (body, status, code) in [
        (batch(&[event(four - 50)]), 200, ""),
        (batch(&[event(four)]), 413, "body_too_large"),
        (batch(&[event(four - 50), event(four - 50), event(four - 50), event(four - 50)]), 200, ""),
        (batch(&vec![event(four - 50); 5]), 413, "body_too_large"),
        (batch(&vec![event(1); 1_000]), 200, ""),
        (batch(&vec![event(1); 1_001]), 422, "invalid_request"),
    ] {
        let tail = house.get("/v1/sessions/s").await.json()["tail"].clone();
        let reply = house.post_text(E, &body).await;
        assert_eq!(reply.status, status, "{}", &reply.text[..200.min(reply.text.len())]);
        if status != 200 {
            assert_eq!(reply.code(), code);
            assert_eq!(house.get("/v1/sessions/s").await.json()["tail"], tail);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_with_too_many_values_is_rejected_only_if_it_must_be_parsed() {
    let house = House::plain().await;
    house.session("s", 1).await;
    let many = format!("[{}]", vec!["[]"; 200_000].join(","));
    let event = format!(r#"{{"events":[{{"type":"a.b","x":{many}}}]}}"#);
    assert_eq!(house.post_text(E, &event).await.status, 200);
    let read = house.get(&format!("{E}?from=1")).await;
    assert!(read.text.contains(&many));
    let members = vec![r#""x":1"#; 100_000].join(",");
    for (path, body) in [
        ("/v1/sessions/s/checkpoints", format!(r#"{{"state":{{"x":{many}}}}}"#)),
        ("/v1/sessions/s/checkpoints", format!("{{{members}}}")),
        ("/v1/sessions", format!(r#"{{"metadata":{{"x":{many}}}}}"#)),
    ] {
        let reply = house.post_text(path, &body).await;
        assert_eq!((reply.status, &*reply.code()), (422, "invalid_request"), "{}", reply.text);
        assert!(reply.text.contains("100000 values"), "{}", reply.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_reaches_a_client_that_is_still_sending() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let large = |bytes: usize| Some(vec![b' '; bytes]);
    let json = ("content-type", "application/json");
    for (path, header, bytes, status) in [
        ("/v1/sessions/.bad/events", json, 15 << 20, 422),
        ("/v1/sessions/s/events", ("if-position", "x"), 15 << 20, 422),
        ("/v1/sessions/s/events", ("content-type", "text/plain"), 15 << 20, 415),
        ("/v1/sessions/s/events", ("host", "evil.example"), 15 << 20, 403),
        ("/v1/sessions/s/events", json, 40 << 20, 413),
        ("/nowhere", json, 15 << 20, 404),
    ] {
        let reply = house.call("POST", path, &[header], large(bytes)).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_has_the_same_size_limit() {
    let mut plan = Plan::default();
    plan.options.body_bytes_max = 1_000;
    let house = House::build(plan).await;
    house.session("s", 0).await;
    let head = "POST /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("190\r\n{}\r\n", " ".repeat(0x190)).repeat(3);
    let answer = house.raw(format!("{head}{chunk}0\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_invalid_utf8_is_rejected_as_json() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let body = b"{\"events\":[{\"type\":\"a.b\",\"x\":\"\xff\"}]}".to_vec();
    let refused = house.call("POST", E, JSON, Some(body)).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_json".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_handler_is_an_internal_error_and_the_server_keeps_running() {
    let broken = axum::routing::get(|| async { panic!("a planted defect") as () });
    let more = axum::Router::new().route("/broken", broken);
    let house = House::build(Plan { more, ..Plan::default() }).await;
    let reply = house.get("/broken").await;
    assert_eq!((reply.status, reply.code()), (500, "internal_error".to_owned()));
    assert!(!reply.text.contains("planted"), "what broke is for the log, not for a client");
    assert_eq!(house.get("/healthz").await.status, 200);
}

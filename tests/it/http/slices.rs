//! Events appended and read: retries, preconditions, ranges, points, pages, waiting, protobuf.

use prost::Message as _;
use serde_json::{Value, json};
use sessionlog::{env::Clock as _, wire::pb};

use super::house::{House, Reply, numbers, over_every_engine};

const EVENTS: &str = "/v1/sessions/s/events";
const JSON: (&str, &str) = ("content-type", "application/json");
const PROTOBUF: &str = "application/x-protobuf";

async fn emit(house: &House, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers = [&[JSON], headers].concat();
    house.call("POST", EVENTS, &headers, Some(body.as_bytes().to_vec())).await
}

async fn read(house: &House, query: &str) -> Value {
    let reply = house.get(&format!("{EVENTS}?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text);
    reply.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_returned_byte_for_byte() {
    over_every_engine(async |house| {
        house.session("s", 0).await;
        let body = r#" "z": 1.0, "a" : 123456789012345678901234567890.10e5 ,"é":"é\/😀","n":{"id":1,"type":[ ]}"#;
        let sent = format!(r#"{{"events":[{{"type":"x.y","id":"e 1","created_at":"2026-01-02T03:04:05Z",{body}}}]}}"#);
        let answer = emit(house, &[], &sent).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let expected = format!(r#""created_at":"2026-01-02T03:04:05.000000Z","origin":"harness",{body}}}"#);
        assert!(answer.text.contains(&expected), "{}", answer.text);
        let read = house.get(EVENTS).await;
        assert!(read.text.contains(&expected), "{}", read.text);
        let line = house.get("/v1/sessions/s/export").await;
        assert_eq!(line.header("content-type"), "application/x-ndjson");
        assert!(line.text.ends_with(&(expected + "\n")), "{}", line.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_appended_to_an_empty_session_has_equal_events() {
    over_every_engine(async |house| {
        house.session("s", 25).await;
        house.session("t", 0).await;
        let lines = house.get("/v1/sessions/s/export?format=jsonl").await.text;
        let events: Vec<&str> = lines.lines().collect();
        assert_eq!(events.len(), 25);
        let body = format!("{{\"events\":[{}]}}", events.join(","));
        assert_eq!(house.post_text("/v1/sessions/t/events", &body).await.status, 200);
        let copy = house.get("/v1/sessions/t/export").await.text;
        let bodies = |text: &str| -> Vec<Value> {
            text.lines()
                .map(|line| without_member(serde_json::from_str(line).unwrap(), "processed_at"))
                .collect()
        };
        assert_eq!(bodies(&copy), bodies(&lines));
    })
    .await;
}

fn without_member(mut value: Value, name: &str) -> Value {
    value.as_object_mut().unwrap().remove(name);
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_returns_the_same_positions_and_writes_nothing() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        let named = r#"{"events":[{"type":"a.b","id":"x","v":1},{"type":"a.b","id":"y"}]}"#;
        let first = emit(house, &[], named).await.json();
        assert_eq!((&first["first_position"], &first["next_position"]), (&json!(2), &json!(4)));
        assert_eq!(first["repeated"], false);
        let again = emit(house, &[], named).await.json();
        assert_eq!((&again["data"], &again["repeated"]), (&first["data"], &json!(true)));
        let keyed = r#"{"events":[{"type":"a.b","v":2}]}"#;
        let first = emit(house, &[("idempotency-key", "k")], keyed).await.json();
        let again = emit(house, &[("idempotency-key", "k")], keyed).await.json();
        assert_eq!((&again["data"], &again["receipt"]), (&first["data"], &first["receipt"]));
        assert_eq!(read(house, "").await["tail"], 5);
        for (headers, body) in [
            (&[][..], r#"{"events":[{"type":"a.b","id":"x","v":9}]}"#),
            (&[("idempotency-key", "k")][..], r#"{"events":[{"type":"a.b","v":9}]}"#),
        ] {
            let conflict = emit(house, headers, body).await;
            assert_eq!((conflict.status, conflict.code()), (409, "idempotency_conflict".into()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_precondition_reports_the_tail() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        for (headers, body) in [
            (&[("if-position", "2")][..], r#"{"events":[{"type":"a.b"}]}"#),
            (&[][..], r#"{"events":[{"type":"a.b","position":7}]}"#),
        ] {
            let conflict = emit(house, headers, body).await;
            assert_eq!((conflict.status, conflict.code()), (409, "position_conflict".into()));
            assert_eq!(conflict.json()["error"]["recovery_hint"]["tail"], 3);
        }
        let half = r#"{"events":[{"type":"a.b","position":3},{"type":"a.b","position":5}]}"#;
        assert_eq!(emit(house, &[], half).await.code(), "position_conflict");
        let won =
            emit(house, &[("if-position", "3")], r#"{"events":[{"type":"a.b","position":3}]}"#)
                .await;
        assert_eq!(won.json()["first_position"], 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_created_only_on_request() {
    over_every_engine(async |house| {
        let body = r#"{"events":[{"type":"a.b"}]}"#;
        let refused = emit(house, &[], body).await;
        assert_eq!((refused.status, refused.code()), (404, "session_not_found".into()));
        let path = format!("{EVENTS}?create=true");
        assert_eq!(house.post_text(&path, body).await.json()["next_position"], 1);
        assert_eq!(house.post_text(&path, body).await.json()["next_position"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_are_half_open_ranges_between_points() {
    over_every_engine(async |house| {
        for n in 0..10 {
            house.clock.advance(std::time::Duration::from_secs(1));
            if n == 0 {
                house.session("s", 1).await;
            } else {
                let kind = super::house::kind(n);
                let event = json!({"events": [{"type": kind, "id": format!("e{n}"), "n": n}]});
                house.post(EVENTS, &event).await;
            }
        }
        let at = read(house, "from=4&to=5").await["data"][0]["processed_at"]
            .as_str()
            .unwrap()
            .to_owned();
        for (query, expected, next) in [
            ("", (0..10).collect::<Vec<u64>>(), 10),
            ("from=3&to=6", vec![3, 4, 5], 6),
            ("from=-3", vec![7, 8, 9], 10),
            ("from=event:e4&to=event:e6", vec![4, 5], 6),
            ("from=0&to=-8", vec![0, 1], 2),
            ("from=end", vec![], 10),
            ("from=17", vec![], 17),
            ("from=6&to=3", vec![], 6),
            ("from=action:agent.message", vec![9], 10),
            ("from=action:agent.message/2&to=action:agent.message", vec![6, 7, 8], 9),
            ("around=event:e4&before=2&after=1", vec![2, 3, 4, 5], 6),
            ("around=1&before=5&after=0", vec![0, 1], 2),
            ("limit=3", vec![0, 1, 2], 3),
            ("order=desc&limit=3", vec![9, 8, 7], 7),
            ("order=desc&to=5&limit=2", vec![4, 3], 3),
            ("types[]=agent.message", vec![0, 3, 6, 9], 10),
            ("types[]=agent.message&limit=2", vec![0, 3], 6),
            ("types%5B%5D=agent.message&types%5B%5D=user.message&from=8", vec![8, 9], 10),
            ("types[]=nothing.such", vec![], 10),
            ("types[]=agent.message&order=desc&limit=2", vec![9, 6], 4),
            (&format!("from=time:{at}&limit=1"), vec![4], 5),
            (&format!("created_at[gte]={at}"), vec![4, 5, 6, 7, 8, 9], 10),
            (&format!("created_at[gt]={at}&limit=1"), vec![5], 6),
            (&format!("created_at[lt]={at}"), vec![0, 1, 2, 3], 4),
            (&format!("created_at%5Blte%5D={at}&order=desc&limit=2"), vec![4, 3], 3),
        ] {
            let slice = read(house, query).await;
            assert_eq!(numbers(&slice), expected, "{query}");
            assert_eq!(
                (&slice["next_position"], &slice["tail"]),
                (&json!(next), &json!(10)),
                "{query}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_without_a_match_returns_the_existing_types() {
    over_every_engine(async |house| {
        house.session("s", 10).await;
        let seen = json!(["agent.message", "user.message"]);
        assert_eq!(read(house, "types[]=agent.mesage").await["types_seen"], seen);
        for told in ["types[]=agent.message", "from=10", "from=1&to=2&types[]=user.message"] {
            assert_eq!(read(house, told).await.get("types_seen"), None, "{told}");
        }
        let wanted = json!({ "sessionId": "s", "types": ["agent.mesage"] });
        let answer = house.post_text("/v1/tools/get_events", &wanted.to_string()).await.json();
        assert_eq!(answer["typesSeen"], seen, "{answer}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_returns_every_event_once_in_either_order_with_or_without_a_filter() {
    over_every_engine(async |house| {
        house.session("s", 2_500).await;
        let wanted = |types: bool| (0..2_500u64).filter(move |n| !types || n % 3 == 0);
        for (query, types, limit) in [
            ("", false, 1_000),
            ("limit=333", false, 333),
            ("limit=100&types[]=agent.message", true, 100),
            ("limit=834&types[]=agent.message", true, 834),
        ] {
            for order in ["asc", "desc"] {
                let (mut found, mut page) = (Vec::new(), String::new());
                loop {
                    let slice = read(house, &format!("order={order}&{query}&page={page}")).await;
                    let events = numbers(&slice);
                    assert!(events.len() <= limit);
                    found.extend(events);
                    match slice["next_page"].as_str() {
                        Some(next) => page = next.to_owned(),
                        None => break,
                    }
                }
                let mut expected: Vec<u64> = wanted(types).collect();
                if order == "desc" {
                    expected.reverse();
                }
                assert_eq!(found, expected, "{order} {query}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_events_stops_at_its_byte_limit() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let large = "x".repeat(3 << 20);
    for n in 0..7 {
        let body = json!({"events": [{"type": "a.b", "n": n, "text": large}]});
        assert_eq!(house.post(EVENTS, &body).await.status, 200);
    }
    let slice = read(&house, "").await;
    assert_eq!(numbers(&slice), [0, 1, 2, 3, 4]);
    assert_eq!(slice["next_position"], 5);
    let rest = read(&house, &format!("page={}", slice["next_page"].as_str().unwrap())).await;
    assert_eq!((numbers(&rest), &rest["next_page"]), (vec![5, 6], &Value::Null));
    assert_eq!(numbers(&read(&house, "order=desc").await), [6, 5, 4, 3, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_returns_the_first_matching_event() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        let path = "from=2&types[]=is.wanted&wait_ms=20000";
        let (slice, ()) = tokio::join!(read(house, path), async {
            for kind in ["is.other", "is.wanted", "is.other"] {
                let body = json!({"events": [{"type": kind, "n": 7}]});
                assert_eq!(house.post(EVENTS, &body).await.status, 200);
            }
        });
        assert_eq!(numbers(&slice), [7]);
        assert_eq!(slice["data"][0]["position"], 3);
        let nothing = read(house, "from=end&wait_ms=20").await;
        assert_eq!((numbers(&nothing), &nothing["next_position"]), (vec![], &json!(5)));
        assert!(
            numbers(&read(house, "from=4&to=5&types[]=no.such&wait_ms=20000").await).is_empty()
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_bounds_apply_to_long_polls_and_across_pages() {
    over_every_engine(async |house| {
        house.session("s", 1).await;
        let post = async |n: u64| {
            let body = json!({"events": [{"type": "user.message", "n": n}]});
            assert_eq!(house.post(EVENTS, &body).await.status, 200);
        };
        let in_seconds = |seconds: i64| house.clock.now().plus_micros(seconds * 1_000_000);
        let pass = |seconds| house.clock.advance(std::time::Duration::from_secs(seconds));
        for bound in ["created_at[gte]=", "from=time:"] {
            let tail = read(house, "").await["tail"].as_u64().unwrap();
            let path = format!("{bound}{}&wait_ms=20000", in_seconds(10));
            let (slice, ()) = tokio::join!(read(house, &path), async {
                wait_for_poll(house).await;
                post(1).await;
                pass(20);
                post(2).await;
            });
            assert_eq!(numbers(&slice), [2], "{bound}");
            assert_eq!(slice["next_position"], tail + 2);
        }
        for bound in ["created_at[lt]=", "to=time:"] {
            let tail = read(house, "").await["tail"].as_u64().unwrap();
            let path = format!("from={tail}&limit=1&{bound}{}", in_seconds(10));
            let waiting = format!("{path}&wait_ms=20000");
            let (slice, ()) = tokio::join!(read(house, &waiting), async {
                wait_for_poll(house).await;
                post(3).await;
            });
            assert_eq!(numbers(&slice), [3], "{bound}");
            post(4).await;
            let slice = read(house, &path).await;
            let page = format!("limit=9&page={}", slice["next_page"].as_str().unwrap());
            pass(20);
            post(5).await;
            assert_eq!(numbers(&read(house, &page).await), [4], "{bound}");
        }
        let path = format!("from=end&created_at[lt]={}&wait_ms=20000", in_seconds(10));
        let (slice, ()) = tokio::join!(read(house, &path), async {
            wait_for_poll(house).await;
            pass(20);
            post(6).await;
        });
        assert!(numbers(&slice).is_empty(), "{slice}");
    })
    .await;
}

/// Waits until a long poll has its slot; it may not have read its session yet.
async fn wait_for_poll(house: &House) {
    while !house.get("/metrics").await.text.contains("sessionlog_readers 1") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn protobuf_and_json_responses_are_equal() {
    over_every_engine(async |house| {
        house.session("s", 0).await;
        let new = |id: &str, body: &'static str| pb::NewEvent {
            id: id.to_owned(),
            r#type: "user.message".to_owned(),
            created_at_micros: Some(1_700_000_000_000_000),
            body: body.as_bytes().into(),
            position: None,
        };
        let request = pb::EmitRequest { events: vec![new("a", r#"{ "n": 1.0 }"#), new("", "")] };
        let kind = [("content-type", PROTOBUF)];
        let reply = house.call("POST", EVENTS, &kind, Some(request.encode_to_vec())).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, PROTOBUF), "{}", reply.text);
        let answer = pb::EmitAnswer::decode(&reply.bytes[..]).unwrap();
        assert_eq!((answer.first_position, answer.next_position), (0, 2));
        let reply = house.call("GET", EVENTS, &[("accept", PROTOBUF)], None).await;
        let binary = pb::EventsAnswer::decode(&reply.bytes[..]).unwrap();
        assert_eq!((&binary.data, binary.tail), (&answer.data, 2));
        let text = read(house, "").await;
        for (event, json) in binary.data.iter().zip(text["data"].as_array().unwrap()) {
            assert_eq!(
                (&event.id[..], &event.r#type[..]),
                (json["id"].as_str().unwrap(), json["type"].as_str().unwrap())
            );
            assert_eq!(event.position, json["position"]);
            assert_eq!(event.origin(), pb::Origin::Harness);
            let time = |name: &str| {
                sessionlog::event::Timestamp::parse(json[name].as_str().unwrap()).unwrap().0
            };
            assert_eq!(event.processed_at_micros, time("processed_at"));
            assert_eq!(event.created_at_micros, Some(time("created_at")));
        }
        assert_eq!(binary.data[0].body, r#"{ "n": 1.0 }"#);
        let retried = emit(
            house,
            &[("accept", PROTOBUF)],
            r#"{"events":[{"type":"user.message","id":"a", "n": 1.0 }]}"#,
        )
        .await;
        let retried = pb::EmitAnswer::decode(&retried.bytes[..]).unwrap();
        assert!(retried.repeated, "the same body by another encoding is the same event");
        let refused = house.call("POST", EVENTS, &kind, Some(b"\xff\xff".to_vec())).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_json".to_owned()));
    })
    .await;
}

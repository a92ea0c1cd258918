//! Words of an event that are searched: those of its content, not those of its recorder's ids;
//! words of one character; days in the user's time zone.

use serde_json::{Value, json};
use sessionlog::{
    env::{Clock as _, clock::SystemClock},
    event::Timestamp,
};

use super::search;
use crate::{
    cli::with_trip,
    http::house::over_every_engine,
    program::{Place, Ran},
};

/// Returns `session position` of each hit with a query word, without neighbours.
fn matched_places(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap().iter();
    let hits = hits.filter(|hit| hit["why"]["words"].as_f64().unwrap() > 0.0);
    let place = |hit: &Value| format!("{} {}", hit["session"].as_str().unwrap(), hit["position"]);
    hits.map(place).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_a_recorder_adds_to_an_event_are_neither_searched_nor_shown() {
    over_every_engine(async |house| {
        let recorded = |kind: &str, content: &str, more: Value| {
            let mut event = json!({"type": kind, "content": content,
                "uuid": "7f000001-0000-4000-8000-00000000feed", "parent_uuid": "7f000002-feed",
                "raw": {"cwd": "/work/weir"}, "raw_format": "claude-code", "raw_before": "\n "});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let events = [
            recorded("user.message", "When is the sluice opened?", json!({})),
            recorded(
                "agent.message",
                "The sluice opens at dawn.",
                json!({"model": "claude-opus-9",
                "recorded_from": "transcript", "message_id": "msg_feed"}),
            ),
            recorded(
                "agent.tool_use",
                "",
                json!({"name": "Bash", "input": {"command": "sluice --model claude"}}),
            ),
            json!({"type": "transcript.entry", "entry": {"type": "queue", "uuid": "feed-1",
                "parentUuid": "feed-2", "sessionId": "feed-3", "text": "sluice note"},
                "raw_format": "claude-code"}),
        ];
        let new = json!({"id": "weir", "workspace": "/work/weir", "initial_events": events});
        assert_eq!(house.post("/v1/sessions", &new).await.status, 201);
        for word in ["code", "feed", "7f000001", "opus", "transcript", "cwd"] {
            let found = search(house, json!({"q": word})).await;
            assert_eq!(found["hits"], json!([]), "{word}: {found}");
        }
        // Text that a user or a model wrote under the same names is found.
        assert_eq!(matched_places(&search(house, json!({"q": "claude"})).await), ["weir 2"]);
        let found = search(house, json!({"q": "sluice -claude"})).await;
        let mut there = matched_places(&found);
        there.sort_unstable();
        assert_eq!(there, ["weir 0", "weir 1"], "{found}");
        for hit in found["hits"].as_array().unwrap() {
            let text = hit["snippet"]["text"].as_str().unwrap();
            assert!(!text.contains("feed") && !text.contains("claude"), "{hit}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_character_query_matches_anywhere_in_a_run_of_unspaced_text() {
    over_every_engine(async |house| {
        let lines =
            ["请检查税率表", "牛丼は𠮷野家で", "ねこが鳴く猫", "물이 차다", "ภาษาไทย", "tax rates"];
        let events: Vec<Value> =
            lines.iter().map(|line| json!({"type": "user.message", "content": line})).collect();
        let new = json!({"id": "han", "initial_events": events});
        assert_eq!(house.post("/v1/sessions", &new).await.status, 201);
        for (word, line) in [
            ("税", 0),
            ("表", 0),
            ("请", 0),
            ("𠮷", 1),
            ("で", 1),
            ("猫", 2),
            ("ね", 2),
            ("물", 3),
            ("ไ", 4),
            ("税率", 0),
            ("+税 -水", 0),
        ] {
            let found = search(house, json!({"q": word})).await;
            assert_eq!(matched_places(&found), [format!("han {line}")], "{word}: {found}");
            let hit = &found["hits"][0];
            assert!(!hit["snippet"]["marks"].as_array().unwrap().is_empty(), "{word}: {hit}");
        }
        let found = search(house, json!({"q": "tax -税"})).await;
        assert_eq!(matched_places(&found), ["han 5"], "{found}");
        assert_eq!(search(house, json!({"q": "水"})).await["hits"], json!([]));
        // A look-up in the session reads its events.
        let found = house.get("/v1/sessions/han/views/index?find=%E7%A8%8E").await.json();
        assert_eq!(found["matches"][0]["text"], lines[0], "{found}");
    })
    .await;
}

/// A zone whose summer time ends on the first Sunday of November.
const ZONE: &str = "PST8PDT,M3.2.0,M11.1.0";

fn search_in_zone(place: &Place, zone: &str, arguments: &[&str]) -> Ran {
    place.run_in(&[("TZ", zone)], arguments)
}

#[test]
fn a_day_in_a_query_or_flag_is_in_the_users_time_zone() {
    let place = Place::new();
    let event = |id: &str, at: &str| {
        json!({"type": "user.message", "id": id, "content": format!("pizza {id}"), "created_at": at})
            .to_string()
    };
    let lines = [
        event("evening", "2026-10-05T20:30:00-07:00"),
        event("first", "2026-11-01T00:10:00-07:00"),
        event("last", "2026-11-01T23:50:00-08:00"),
    ];
    place.run_with(&["append", "tz", "--create"], &lines.join("\n")).ok();
    let found = |zone: &str, arguments: &[&str]| {
        let hits =
            search_in_zone(&place, zone, &[&["search", "--json"], arguments].concat()).json();
        let hits = hits["hits"].as_array().unwrap().clone();
        let mut found: Vec<String> = hits
            .iter()
            .map(|hit| hit["snippet"]["text"].as_str().unwrap()[6..].to_owned())
            .collect();
        found.sort_unstable();
        found
    };
    for (zone, arguments, expected) in [
        (ZONE, &["pizza after:2026-10-05 before:2026-10-06"][..], &["evening"][..]),
        (ZONE, &["pizza after:2026-10-06"], &["first", "last"]),
        ("UTC0", &["pizza after:2026-10-06 before:2026-10-07"], &["evening"]),
        // A day of 25 hours.
        (ZONE, &["pizza after:2026-11-01 before:2026-11-02"], &["first", "last"]),
        (ZONE, &["pizza", "--since", "2026-11-01", "--until", "2026-11-02"], &["first", "last"]),
        // Times are exact, and other filters are unchanged.
        (ZONE, &["pizza after:2026-10-06T03:30:00Z before:2026-10-06T03:30:01Z"], &["evening"]),
        (ZONE, &["pizza", "--since", "2026-11-02T07:00:00Z"], &["last"]),
        (ZONE, &["pizza \"pizza first\" after:\"2026-11-01\""], &["first"]),
    ] {
        assert_eq!(found(zone, arguments), expected, "{zone} {arguments:?}");
    }
    search_in_zone(&place, ZONE, &["search", "pizza", "--since", "yesterday"]).ok();
    search_in_zone(&place, ZONE, &["sessions", "--since", "yesterday", "--until", "today"]).ok();
    let refused = search_in_zone(&place, ZONE, &["sessions", "--since", "whenever"]);
    assert!(refused.err.contains("a day, such as"), "{}", refused.err);
}

#[test]
fn the_word_yesterday_prefers_events_of_yesterday_in_the_users_time_zone() {
    const HOUR: i64 = 3_600_000_000;
    const DAY: i64 = 24 * HOUR;
    let now = || SystemClock::new().now().0;
    let days = |at: i64, offset: i64| (at + offset).div_euclid(DAY);
    loop {
        let at = now();
        // A zone whose date differs from that of UTC now: ahead in its afternoon, or behind it.
        let is_ahead = at.rem_euclid(DAY) >= 10 * HOUR;
        let (zone, offset) =
            if is_ahead { ("AHEAD-14", 14 * HOUR) } else { ("BACK12", -12 * HOUR) };
        assert_ne!(days(at, offset), days(at, 0));
        let [theirs, utc] = [offset, 0].map(|offset| (days(at, offset) - 1) * DAY - offset);
        // One time only in the zone's yesterday, and one only in that of UTC.
        let (own, other) = match is_ahead {
            true => (theirs + DAY - 5 * HOUR, utc + 5 * HOUR),
            false => (theirs + 6 * HOUR, utc + DAY - 6 * HOUR),
        };
        let place = Place::new();
        let event = |at: i64| {
            json!({"type": "user.message", "content": "pizza with olives",
                "created_at": Timestamp(at).to_string()})
            .to_string()
        };
        // Both orders in the log, and one event on neither day.
        let lines = [event(other), event(own), event(at - 40 * DAY)];
        place.run_with(&["append", "tz", "--create"], &lines.join("\n")).ok();
        let first = |zone: &str, words: &str| {
            let found = search_in_zone(&place, zone, &["search", "--json", words]).json();
            found["hits"][0]["position"].clone()
        };
        let found = ["pizza yesterday", "yesterday pizza", "pizza day:yesterday"]
            .map(|words| (words, first(zone, words), first("UTC0", words)));
        // Midnight passed in one of the zones: another day is yesterday now.
        if [offset, 0].iter().any(|offset| days(now(), *offset) != days(at, *offset)) {
            continue;
        }
        for (words, own, utc) in found {
            assert_eq!((own, utc), (json!(1), json!(0)), "{zone} {words}");
        }
        let refused = search_in_zone(&place, zone, &["search", "pizza day:soon"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("FROM/TO"), "{refused:?}");
        break;
    }
}

#[test]
fn an_excluded_word_is_accepted_without_a_double_dash() {
    let place = with_trip();
    place.run_with(&["append", "trip"], &crate::cli::event("user.message", "two alarms")).ok();
    for arguments in [
        &["search", "two", "-alarms", "--json"][..],
        &["search", "--json", "-alarms", "two"],
        &["search", "--json", "--", "two", "-alarms"],
        &["search", "two -alarms", "--json", "-n5"],
    ] {
        let hits = place.run(arguments).json();
        assert_eq!(matched_places(&hits), ["trip 1"], "{arguments:?}: {hits}");
    }
}

//! Outcomes of calls of tools.

use crate::event;
use sessionlog::{projection::Outcomes, traces::FailureKind};

/// Maximum outcomes kept.
const OUTCOMES_MAX: usize = 200;

fn fold_events(events: &[(&str, &str)]) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for (position, (kind, body)) in events.iter().enumerate() {
        outcomes.fold(&event(position as u64, kind, *body));
    }
    outcomes
}

#[test]
fn calls_and_results_are_matched_in_every_vocabulary() {
    let outcomes = fold_events(&[
        ("agent.tool_use", r#"{"name":"a","call_id":"1","input":{"uri":"x:y"}}"#),
        ("agent.mcp_tool_use", r#"{"name":"b","mcp_server_name":"s","input":7}"#),
        ("agent.custom_tool_use", r#"{"name":"c","server":"t"}"#),
        ("agent.tool_use", r#"{"name":"never answered","call_id":"9"}"#),
        ("user.custom_tool_result", r#"{"custom_tool_use_id":"e2","is_error":true}"#),
        ("agent.mcp_tool_result", r#"{"mcp_tool_use_id":"e1","content":"404","is_error":null}"#),
        (
            "user.tool_result",
            r#"{"call_id":"1","tool_use_id":"1","is_error":true,
                "content":[{"type":"text","text":"HTTP 404"}]}"#,
        ),
        ("agent.tool_result", r#"{"tool_use_id":"nobody's","is_error":true}"#),
        ("agent.tool_result", "not JSON"),
        ("user.message", r#"{"call_id":"9","is_error":true}"#),
    ]);
    let latest: Vec<_> =
        outcomes.latest().map(|one| (&*one.provider, one.trouble, one.url.as_deref())).collect();
    let not_found = ("a", Some(FailureKind::NotFound), Some("x:y"));
    assert_eq!(latest, [("t/c", Some(FailureKind::Other), None), ("s/b", None, None), not_found]);
}

#[test]
fn the_oldest_outcomes_are_dropped_beyond_the_maximum() {
    let call = |n: usize| format!(r#"{{"name":"a","call_id":"{n}"}}"#);
    let result = |n: usize| format!(r#"{{"call_id":"{n}","is_error":true}}"#);
    let bodies: Vec<_> = (0..1_000)
        .flat_map(|n| [("agent.tool_use", call(n)), ("agent.tool_result", result(n))])
        .chain((0..1_000).map(|n| ("agent.tool_use", call(n))))
        .collect();
    let events: Vec<_> = bodies.iter().map(|(kind, body)| (*kind, body.as_str())).collect();
    let outcomes = fold_events(&events);
    assert_eq!(outcomes.latest().count(), OUTCOMES_MAX);
}

#[test]
fn the_outcome_of_a_failed_call_contains_its_error() {
    for (text, expected) in [
        ("HTTP 429", FailureKind::RateLimited),
        ("status 14290", FailureKind::Other),
        ("Too Many Requests, try later", FailureKind::RateLimited),
        ("401 Unauthorized", FailureKind::AuthRequired),
        ("403: CAPTCHA shown", FailureKind::Blocked),
        ("page not found", FailureKind::NotFound),
        ("502 Bad Gateway", FailureKind::UpstreamUnavailable),
        ("Connection reset by peer", FailureKind::Network),
        ("invalid argument q", FailureKind::Validation),
        ("the page was empty", FailureKind::ContentEmpty),
        ("boom", FailureKind::Other),
        ("", FailureKind::Other),
        (r#"{"error":{"kind":"network","message":"404"}}"#, FailureKind::Network),
        (r#"{"error":{"kind":"unheard_of","message":"404"}}"#, FailureKind::NotFound),
    ] {
        let result = serde_json::json!({"call_id": "1", "is_error": true, "content": text});
        let outcomes = fold_events(&[
            ("agent.tool_use", r#"{"name":"a","call_id":"1"}"#),
            ("agent.tool_result", &result.to_string()),
        ]);
        let found = outcomes.latest().next().and_then(|one| one.trouble);
        assert_eq!(found, Some(expected), "{text}");
    }
}

//! Limits of one tenant, while another is served.

use std::time::Duration;

use serde_json::{Value, json};
use sessionlog::{
    access::{PerTenant, TenantLimits},
    event::TenantId,
    service::Quotas,
};

use super::house::{Wall, Walled};
use crate::http::house::Reply;

#[track_caller]
fn is_full(reply: &Reply, code: &str) {
    assert_eq!((reply.status, &*reply.code()), (429, code), "{}", reply.text);
    assert!(reply.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(reply.json()["error"]["recovery_hint"]["action"].is_string(), "{}", reply.text);
}

fn event(text: &str) -> Value {
    json!({"events": [{"type": "user.message", "text": text}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_stores_up_to_its_quota_and_deleting_frees_space() {
    let quotas = Quotas { sessions_max: 2, bytes_max: 8_192 };
    let walled = Walled::build(Wall { quotas: quotas.into(), ..Wall::default() }).await;
    let (ada, bob) = (walled.admin(("acme", "ada")), walled.admin(("acme", "bob")));
    let eve = walled.admin(("other", "eve"));
    let create =
        async |token: &str, id: &str| walled.post(token, "/v1/sessions", &json!({"id": id})).await;
    assert_eq!(create(&ada, "a").await.status, 201);
    assert_eq!(create(&bob, "b").await.status, 201);
    is_full(&create(&bob, "c").await, "quota_exceeded");
    let path = "/v1/sessions/c/events?create=true";
    is_full(&walled.post(&ada, path, &event("x")).await, "quota_exceeded");
    let step = json!({"searchStep": "x", "stepNumber": 1, "totalStepsEstimate": 1,
        "nextStepNeeded": false});
    let tool = walled.post(&ada, "/v1/tools/sequential_search", &step).await;
    assert_eq!(tool.code(), "quota_exceeded", "through a tool as well: {}", tool.text);
    assert_eq!(create(&eve, "a").await.status, 201, "another tenant has its own");
    // Bytes are limited in each interface, and a rejected request writes nothing.
    let large = event(&"x".repeat(3_000));
    assert_eq!(walled.post(&ada, "/v1/sessions/a/events", &large).await.status, 200);
    assert_eq!(walled.post(&bob, "/v1/sessions/b/events", &large).await.status, 200);
    is_full(&walled.post(&ada, "/v1/sessions/a/events", &large).await, "quota_exceeded");
    let line = json!({"session": "a", "events": large["events"]}).to_string();
    let bearer = format!("Bearer {ada}");
    let headers = [("authorization", &*bearer), ("content-type", "application/x-ndjson")];
    let lines = walled.house.call("POST", "/v1/append", &headers, Some(line.into_bytes())).await;
    assert!(lines.text.contains("quota_exceeded"), "{}", lines.text);
    assert_eq!(walled.get(&ada, "/v1/sessions/a").await.json()["tail"], 1);
    assert_eq!(walled.post(&eve, "/v1/sessions/a/events", &large).await.status, 200);
    // A deleted session that can be restored still counts; freed space counts at the next count.
    assert_eq!(walled.call(&bob, "DELETE", "/v1/sessions/b", None).await.status, 200);
    walled.clock.advance(Duration::from_secs(2));
    assert_eq!(create(&bob, "d").await.status, 201);
    walled.clock.advance(Duration::from_secs(2));
    is_full(&walled.post(&bob, "/v1/sessions/d/events", &large).await, "quota_exceeded");
    assert_eq!(walled.call(&bob, "DELETE", "/v1/sessions/b?now=true", None).await.status, 200);
    walled.clock.advance(Duration::from_secs(2));
    assert_eq!(walled.post(&bob, "/v1/sessions/d/events", &large).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_rate_limit_is_rejected_with_a_retry_time() {
    let limits = TenantLimits { requests_per_second: 5, ..TenantLimits::default() };
    let walled = Walled::build(Wall { limits: limits.into(), ..Wall::default() }).await;
    let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
    for _ in 0..5 {
        assert_eq!(walled.get(&ada, "/v1/sessions").await.status, 200);
    }
    let refused = walled.get(&ada, "/v1/sessions").await;
    is_full(&refused, "rate_limited");
    assert_eq!(refused.json()["error"]["recovery_hint"]["retry_after_seconds"], 1);
    assert_eq!(walled.get(&eve, "/v1/sessions").await.status, 200);
    assert_eq!(walled.house.get("/healthz").await.status, 200);
    walled.clock.advance(Duration::from_secs(1));
    assert_eq!(walled.get(&ada, "/v1/sessions").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_requests_of_a_tenant_are_counted_separately_and_released() {
    let limits = TenantLimits { requests_max: 1, readers_max: 1, ..TenantLimits::default() };
    let walled = Walled::build(Wall { limits: limits.into(), ..Wall::default() }).await;
    let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
    for token in [&ada, &eve] {
        assert_eq!(walled.post(token, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
    }
    let (of_ada, of_eve) = (format!("Bearer {ada}"), format!("Bearer {eve}"));
    let stream = "/v1/sessions/s/events/stream";
    let tail = walled.house.send("GET", stream, &[("authorization", &of_ada)], None).await;
    assert_eq!(tail.status().as_u16(), 200);
    is_full(&walled.get(&ada, stream).await, "limit_reached");
    is_full(&walled.get(&ada, "/v1/sessions/s/export").await, "limit_reached");
    is_full(&walled.get(&ada, "/v1/sessions/s/events?wait_ms=60000").await, "limit_reached");
    assert_eq!(walled.get(&ada, "/v1/sessions/s").await.status, 200, "a stream is no request");
    let of_other = walled.house.send("GET", stream, &[("authorization", &of_eve)], None).await;
    assert_eq!(of_other.status().as_u16(), 200);
    drop(tail);
    let mut again = walled.get(&ada, "/v1/sessions/s/export").await;
    for _ in 0..1_000 {
        if again.status == 200 {
            break;
        }
        // The server notices the end of a connection asynchronously.
        tokio::task::yield_now().await;
        again = walled.get(&ada, "/v1/sessions/s/export").await;
    }
    assert_eq!(again.status, 200, "a place is given back");
    // One request waits; the tenant's second one exceeds the limit.
    let wait = "/v1/sessions/s/events?wait_ms=60000";
    let credential = [("authorization", of_ada.as_str())];
    let waiting = walled.house.send("GET", wait, &credential, None);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.as_mut()).await;
    assert!(early.is_err(), "it waits");
    is_full(&walled.get(&ada, "/v1/sessions").await, "limit_reached");
    assert_eq!(walled.get(&eve, "/v1/sessions").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_one_tenant_override_the_default_limits() {
    let acme = || TenantId::new("acme").unwrap();
    let mut quotas = PerTenant::from(Quotas { sessions_max: 1, bytes_max: 0 });
    quotas.set(acme(), Quotas { sessions_max: 3, bytes_max: 0 });
    let mut limits =
        PerTenant::from(TenantLimits { requests_per_second: 9, ..TenantLimits::default() });
    limits.set(acme(), TenantLimits { requests_per_second: 4, ..TenantLimits::default() });
    let walled = Walled::build(Wall { quotas, limits, ..Wall::default() }).await;
    for (who, sessions, rate) in [("acme", 3, 4), ("other", 1, 9)] {
        let token = walled.admin((who, "ada"));
        walled.clock.advance(Duration::from_secs(10));
        for n in 0..rate {
            let made = json!({"id": format!("s{n}")});
            let made = walled.post(&token, "/v1/sessions", &made).await;
            let expected = if n < sessions { 201 } else { 429 };
            assert_eq!(made.status, expected, "{who} {n}: {}", made.text);
        }
        is_full(&walled.get(&token, "/v1/sessions").await, "rate_limited");
    }
}

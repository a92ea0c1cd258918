//! Limits on what one tenant takes from the others: bytes, connections, streams, and the time of
//! the server.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sessionlog::{
    access::TenantLimits,
    event::{Scope, SessionId, TenantId, UserId, limits::MCP_CONNECTIONS_TENANT_MAX},
    service::Quotas,
    store::NewSession,
};

use super::house::{Wall, Walled};
use crate::engines;

const VERSION: &str = "2025-11-25";

/// Method, path and body of the n-th request of a kind.
type Request<'a> = &'a dyn Fn(usize) -> (&'static str, &'static str, Value);

/// Opens an MCP connection, or uses one; returns the status and the connection's id.
async fn mcp(walled: &Walled, token: &str, name: Option<&str>) -> (u16, String) {
    let message = match name {
        None => json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": VERSION, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }}),
        Some(_) => json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    };
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    if let Some(name) = name {
        headers.extend([("mcp-session-id", name), ("mcp-protocol-version", VERSION)]);
    }
    let body = Some(message.to_string().into_bytes());
    let reply = walled.house.call("POST", "/mcp", &headers, body).await;
    (reply.status, reply.header("mcp-session-id").to_owned())
}

/// Opens the stream of an MCP connection.
async fn stream(walled: &Walled, token: &str, name: &str) -> reqwest::Response {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "text/event-stream"),
        ("mcp-session-id", name),
        ("mcp-protocol-version", VERSION),
    ];
    walled.house.send("GET", "/mcp", &headers, None).await
}

async fn post_checkpoint(
    walled: &Walled,
    token: &str,
    session: &str,
    bytes: usize,
    n: usize,
) -> u16 {
    let letter = char::from(b'a' + (n % 26) as u8).to_string();
    let state = json!({"state": {(format!("k{n}")): letter.repeat(bytes)}});
    let path = format!("/v1/sessions/{session}/checkpoints");
    let made = walled.post(token, &path, &state).await;
    if made.status == 429 {
        assert_eq!(made.code(), "quota_exceeded", "{}", made.text);
    }
    made.status
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_received_counts_against_the_quota_of_its_tenant() {
    for engine in engines::all() {
        let quotas = Quotas { sessions_max: 0, bytes_max: 100_000 };
        let wall = Wall { quotas: quotas.into(), ..Wall::default() };
        let walled = Walled::over(engine.store.clone(), engine.clock.clone(), wall).await;
        let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
        for token in [&ada, &eve] {
            assert_eq!(walled.post(token, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
        }
        let mut made = 0;
        while made < 50 && post_checkpoint(&walled, &ada, "s", 20_000, made).await == 201 {
            made += 1;
        }
        assert_eq!(made, 4, "{}: checkpoints of 20 000 bytes", engine.name);
        // The remaining quota is small: each of these fills it, and the store counts them as well.
        let update = |n: usize| ("POST", "/v1/sessions/s", json!({"title": format!("{n:0>512}")}));
        let pairs =
            |n: usize| ("POST", "/v1/sessions/s", json!({"metadata": {"a": format!("{n:0>512}")}}));
        let cursor = |n: usize| ("PUT", "/v1/sessions/s/cursors/c", json!({"position": n % 2}));
        let event = json!({"events": [{"type": "user.message", "text": "x"}]});
        assert_eq!(walled.post(&ada, "/v1/sessions/s/events", &event).await.status, 200);
        let kinds: [(&str, Request<'_>); 3] =
            [("titles", &update), ("metadata", &pairs), ("cursors", &cursor)];
        for (kind, request) in kinds {
            let mut refused = None;
            for n in 0..2_000 {
                let (method, path, body) = request(n);
                let reply = walled.call(&ada, method, path, Some(&body)).await;
                if reply.status != 200 {
                    refused = Some((reply.status, reply.code()));
                    break;
                }
            }
            let full = Some((429, "quota_exceeded".to_owned()));
            assert_eq!(refused, full, "{}: {kind}", engine.name);
        }
        walled.clock.advance(Duration::from_secs(2));
        let more = post_checkpoint(&walled, &ada, "s", 20_000, 7).await;
        assert_eq!(more, 429, "{}: the store counts them too", engine.name);
        assert_eq!(
            post_checkpoint(&walled, &eve, "s", 20_000, 0).await,
            201,
            "another has its own"
        );
        let gone = walled.call(&ada, "DELETE", "/v1/sessions/s?now=true", None).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        walled.clock.advance(Duration::from_secs(2));
        assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "t"})).await.status, 201);
        assert_eq!(post_checkpoint(&walled, &ada, "t", 20_000, 0).await, 201, "{}", engine.name);
        engine.store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_mcp_connection_limit_loses_its_longest_idle_one() {
    let walled = Walled::plain().await;
    let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
    let of_other = mcp(&walled, &eve, None).await.1;
    let mut names = Vec::new();
    for _ in 0..MCP_CONNECTIONS_TENANT_MAX {
        let (status, name) = mcp(&walled, &ada, None).await;
        assert_eq!(status, 200);
        names.push(name);
    }
    // The first was used recently, the second has a stream.
    assert_eq!(mcp(&walled, &ada, Some(&names[0])).await.0, 200);
    let open = stream(&walled, &ada, &names[1]).await;
    assert_eq!(open.status().as_u16(), 200);
    // Another user of the same tenant.
    let bob = walled.admin(("acme", "bob"));
    let newest = mcp(&walled, &bob, None).await;
    assert_eq!(newest.0, 200);
    assert_eq!(mcp(&walled, &bob, Some(&newest.1)).await.0, 200);
    for (name, expected) in [(0, 200), (1, 200), (2, 404), (3, 200)] {
        assert_eq!(mcp(&walled, &ada, Some(&names[name])).await.0, expected, "{name}");
    }
    assert_eq!(mcp(&walled, &eve, Some(&of_other)).await.0, 200, "another tenant's stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_streams_count_as_readers_of_their_tenant() {
    let limits = TenantLimits { readers_max: 1, ..TenantLimits::default() };
    let walled = Walled::build(Wall { limits: limits.into(), ..Wall::default() }).await;
    let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
    let (of_ada, of_eve) = (mcp(&walled, &ada, None).await.1, mcp(&walled, &eve, None).await.1);
    let first = stream(&walled, &ada, &of_ada).await;
    assert_eq!(first.status().as_u16(), 200);
    let second = stream(&walled, &ada, &of_ada).await;
    assert_eq!(second.status().as_u16(), 429);
    assert!(second.text().await.unwrap().contains("limit_reached"));
    assert_eq!(stream(&walled, &eve, &of_eve).await.status().as_u16(), 200);
    assert_eq!(mcp(&walled, &ada, Some(&of_ada)).await.0, 200, "a call is no reader");
    drop(first);
    for _ in 0..1_000 {
        // The server notices the end of a connection asynchronously.
        if stream(&walled, &ada, &of_ada).await.status().as_u16() == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("a place is given back");
}

/// On one thread, so that a computation that does not yield blocks every other request.
#[tokio::test]
async fn a_tenant_at_its_limits_does_not_block_other_tenants() {
    let engine = engines::all().remove(1);
    let quotas = Quotas { sessions_max: 0, bytes_max: 100_000 };
    let limits = TenantLimits { readers_max: 1, ..TenantLimits::default() };
    let wall = Wall { quotas: quotas.into(), limits: limits.into(), ..Wall::default() };
    let walled = Arc::new(Walled::over(engine.store.clone(), engine.clock.clone(), wall).await);
    let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
    let (tenant, user) = (TenantId::new("acme").unwrap(), UserId::new("ada").unwrap());
    let scope = Scope { tenant, user };
    for n in 0..5_000 {
        let id = Some(SessionId::new(&format!("s{n}")).unwrap());
        engine.store.create(&scope, NewSession { id, ..NewSession::default() }).await.unwrap();
    }
    assert_eq!(walled.post(&eve, "/v1/sessions", &json!({"id": "t"})).await.status, 201);
    let mut made = 0;
    while made < 50 && post_checkpoint(&walled, &ada, "s1", 20_000, made).await == 201 {
        made += 1;
    }
    assert!(made < 50, "its bytes have a limit");
    let mut name = String::new();
    for _ in 0..=MCP_CONNECTIONS_TENANT_MAX {
        name = mcp(&walled, &ada, None).await.1;
    }
    let _open = stream(&walled, &ada, &name).await;
    assert_eq!(stream(&walled, &ada, &name).await.status().as_u16(), 429);
    let lists = (0..4).map(|_| {
        let (walled, ada) = (Arc::clone(&walled), ada.clone());
        tokio::spawn(async move {
            let path = "/v1/sessions?statuses[]=running&limit=1";
            let page = walled.get(&ada, path).await;
            assert_eq!((page.status, &page.json()["data"]), (200, &json!([])), "{}", page.text);
        })
    });
    let lists: Vec<_> = lists.collect();
    let mut served = 0;
    while !lists.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(walled.get(&eve, "/v1/sessions/t").await.status, 200);
        served += 1;
    }
    for list in lists {
        list.await.unwrap();
    }
    assert!(served >= 10, "another tenant's reads while four lists are walked: {served}");
    engine.store.close().await;
}

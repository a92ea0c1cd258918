//! Tokens, through HTTP and the command line.

use std::time::Duration;

use serde_json::json;
use sessionlog::{
    access::{self, Grant},
    env::Clock as _,
};

use super::house::Walled;
use crate::program::Place;

#[tokio::test(flavor = "multi_thread")]
async fn only_three_routes_without_session_content_need_no_credential() {
    let walled = Walled::plain().await;
    let document = walled.house.get("/openapi.json").await;
    assert_eq!(document.status, 401);
    let token = walled.token(("acme", "ada"), &[Grant::Read]);
    let document = walled.get(&token, "/openapi.json").await.json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{session}", "s").replace("{name}", "list_sessions");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            for (name, value) in [
                ("accept", "*/*"),
                ("authorization", ""),
                ("authorization", "Basic YTpi"),
                ("authorization", "Bearer "),
                ("authorization", "Bearer sl_"),
                ("authorization", "Bearer sl_00000000_000000000000000000000000000000000000"),
                ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30."),
                ("x-api-key", "sl_none"),
            ] {
                let reply = walled.house.call(&method, &path, &[(name, value)], None).await;
                asked += 1;
                if matches!(&*path, "/" | "/healthz" | "/readyz") {
                    assert_eq!(reply.status, 200, "{path}");
                    continue;
                }
                assert_eq!(
                    (reply.status, &*reply.code()),
                    (401, "unauthenticated"),
                    "{method} {path} {value}"
                );
                assert!(reply.header("www-authenticate").starts_with("Bearer"), "{path}");
            }
        }
    }
    for (method, path) in [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/x")] {
        let reply = walled.house.call(method, path, &[], None).await;
        assert_eq!(reply.status, 401, "{method} {path}");
    }
    assert!(asked > 200, "{asked} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_grants_its_scopes_and_an_error_names_the_missing_scope() {
    let walled = Walled::plain().await;
    let admin = walled.admin(("acme", "ada"));
    let made = walled.post(&admin, "/v1/sessions", &json!({"id": "s"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let event = json!({"events": [{"type": "user.message"}]});
    let step = json!({"sessionId": "s", "searchStep": "x", "stepNumber": 1, "totalStepsEstimate": 1,
        "nextStepNeeded": false});
    for (method, path, body, needed) in [
        ("GET", "/v1/sessions", None, "read"),
        ("GET", "/v1/sessions/s/events", None, "read"),
        ("GET", "/v1/sessions/s/export", None, "read"),
        ("POST", "/v1/tools/list_sessions", Some(json!({})), "read"),
        ("POST", "/v1/sessions", Some(json!({"id": "t"})), "write"),
        ("POST", "/v1/sessions/s/events", Some(event), "write"),
        ("POST", "/v1/append", None, "write"),
        ("POST", "/v1/tools/sequential_search", Some(step), "write"),
        ("PUT", "/v1/sessions/s/hold", None, "admin"),
        ("POST", "/v1/sessions/s/restore", None, "admin"),
        ("POST", "/v1/admin/verify", Some(json!({})), "admin"),
        ("GET", "/v1/admin/audit", None, "admin"),
        ("GET", "/v1/admin/retention", None, "admin"),
        ("DELETE", "/v1/sessions/s", None, "delete"),
        ("GET", "/metrics", None, "operator"),
        ("GET", "/v1/admin/recovery-report", None, "operator"),
        ("GET", "/v1/admin/owner", None, "operator"),
        ("POST", "/v1/admin/step-down", None, "operator"),
        (
            "POST",
            "/v1/admin/repair",
            Some(json!({"store": true, "accept_loss": false})),
            "operator",
        ),
    ] {
        let needed_grant = Grant::parse(needed).unwrap();
        // Every grant but the missing one, except `admin`, which would include it again.
        let others: Vec<Grant> = Grant::ALL
            .into_iter()
            .filter(|grant| *grant != needed_grant)
            .filter(|grant| needed == "operator" || *grant != Grant::Admin)
            .collect();
        let lacking = walled.token(("acme", "ada"), &others);
        let refused = walled.call(&lacking, method, path, body.as_ref()).await;
        let said = refused.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((refused.status, &*refused.code()), (403, "forbidden"), "{method} {path}");
        assert!(said.ends_with(&format!("lacks the scope {needed}")), "{path}: {said}");
        let mut enough = vec![Grant::Read, Grant::Write, needed_grant];
        enough.extend(path.ends_with("/repair").then_some(Grant::Admin));
        let good = walled.token(("acme", "ada"), &enough);
        let done = walled.call(&good, method, path, body.as_ref()).await;
        assert!(!matches!(done.status, 401 | 403 | 404), "{method} {path}: {}", done.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_expired_token_is_rejected_at_the_next_request() {
    let walled = Walled::plain().await;
    let token = walled.token(("acme", "ada"), &[Grant::Read]);
    assert_eq!(walled.get(&token, "/v1/sessions").await.status, 200);
    let id = token.split('_').nth(1).unwrap();
    access::revoke_token(&walled.tokens, id, walled.clock.now()).unwrap();
    let refused = walled.get(&token, "/v1/sessions").await;
    assert_eq!((refused.status, &*refused.code()), (401, "unauthenticated"));
    assert!(refused.text.contains("revoked"), "{}", refused.text);

    let end = walled.clock.now().plus_micros(60_000_000);
    let new = access::NewToken {
        tenant: "acme".to_owned(),
        user: "ada".to_owned(),
        scopes: vec![Grant::Read],
        label: None,
        expires_at: Some(end),
    };
    let entropy = &sessionlog::env::entropy::SystemEntropy;
    let (token, _) =
        access::create_token(&walled.tokens, new, walled.clock.now(), entropy).unwrap();
    assert_eq!(walled.get(&token, "/v1/sessions").await.status, 200);
    walled.clock.advance(Duration::from_secs(60));
    assert_eq!(walled.get(&token, "/v1/sessions").await.status, 401);

    // While the file cannot be read no token is accepted; once it can, tokens are accepted again.
    let good = walled.token(("acme", "ada"), &[Grant::Read]);
    assert_eq!(walled.get(&good, "/v1/sessions").await.status, 200, "it is known by now");
    let text = std::fs::read(&walled.tokens).unwrap();
    for broken in [&b"{"[..], b"{\"format\":9,\"tokens\":[]}", b""] {
        std::fs::write(&walled.tokens, broken).unwrap();
        assert_eq!(walled.get(&good, "/v1/sessions").await.status, 401, "{broken:?}");
    }
    std::fs::write(&walled.tokens, text).unwrap();
    assert_eq!(walled.get(&good, "/v1/sessions").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_read_from_either_header_and_two_different_ones_are_rejected() {
    let walled = Walled::plain().await;
    let token = walled.token(("acme", "ada"), &[Grant::Read]);
    let other = walled.token(("evil", "eve"), &[Grant::Read]);
    let (bearer, lower) = (format!("Bearer {token}"), format!("bearer {token}"));
    for (headers, status) in [
        (vec![("authorization", bearer.as_str())], 200),
        (vec![("authorization", lower.as_str())], 200),
        (vec![("x-api-key", token.as_str())], 200),
        (vec![("x-api-key", token.as_str()), ("authorization", bearer.as_str())], 200),
        (vec![("x-api-key", other.as_str()), ("authorization", bearer.as_str())], 401),
        (vec![("authorization", token.as_str())], 401),
    ] {
        let reply = walled.house.call("GET", "/v1/sessions", &headers, None).await;
        assert_eq!(reply.status, status, "{headers:?}");
    }
}

#[test]
fn the_command_line_creates_lists_and_revokes_tokens_of_a_running_server() {
    let place = Place::new();
    let file = place.path("tokens.json").display().to_string();
    let tokens = |arguments: &[&str]| {
        let mut all = vec!["tokens"];
        all.extend(arguments);
        all.extend(["--tokens-file", &file, "--json"]);
        place.run(&all)
    };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tokens-file", &file, "--json"];
    assert_eq!(place.run(&serve).refused(1), "invalid_request", "there is no file yet");
    let made = tokens(&["create", "--tenant", "acme", "--user", "ada", "--label", "laptop"]).json();
    let token = made["token"].as_str().unwrap().to_owned();
    let served = place.serve_with(&["--tokens-file", &file]);
    let sessions = |secret: &str| {
        let mut command = place.command(&["sessions", "--url", &served.url, "--json"]);
        crate::program::ran(command.env("SESSIONLOG_TOKEN", secret).spawn().unwrap())
    };
    assert_eq!(sessions(&token).json()["data"], json!([]));
    assert_eq!(sessions("sl_wrong").refused(1), "unauthenticated");
    let held = place.write("credential", &token);
    let with_file = |arguments: &[&str]| {
        let mut all = vec!["sessions", "--url", &served.url, "--json"];
        all.extend(arguments);
        place.run(&all)
    };
    let file_name = held.display().to_string();
    assert_eq!(with_file(&["--token-file", &file_name]).code, 1, "others may read it");
    std::fs::set_permissions(&held, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    with_file(&["--token-file", &file_name]).ok();
    assert_eq!(place.run(&["sessions", "--token", &token]).code, 2, "never on a command line");

    let listed = tokens(&["list"]);
    assert!(!listed.out.contains(&token[12..]), "a listing has no secret");
    let listed = listed.json();
    let record = &listed["data"][0];
    assert_eq!((&record["state"], &record["label"]), (&json!("valid"), &json!("laptop")));
    assert!(token.starts_with(record["prefix"].as_str().unwrap()));
    tokens(&["revoke", record["id"].as_str().unwrap()]).ok();
    assert_eq!(sessions(&token).refused(1), "unauthenticated");
    assert_eq!(tokens(&["list"]).json()["data"][0]["state"], "revoked");
    assert_eq!(tokens(&["revoke", "nobody"]).refused(1), "invalid_request");
    // The user of this machine needs no token, and is separate from every tenant.
    place.run_with(&["append", "--create", "mine"], "{\"type\":\"user.message\"}\n").ok();
    served.stop();
}

#[test]
fn a_server_on_a_public_address_requires_credentials_or_does_not_start() {
    let place = Place::new();
    let file = place.path("tokens.json").display().to_string();
    let refused = place.run(&["serve", "--listen", "0.0.0.0:0", "--json"]);
    assert!(refused.out.contains("sessionlog tokens create"), "{}", refused.out);
    assert_eq!(refused.refused(1), "forbidden");
    place.run(&["tokens", "create", "--tokens-file", &file, "--user", "ada"]).ok();
    let refused = place.run(&["serve", "--listen", "0.0.0.0:0", "--tokens-file", &file, "--json"]);
    assert!(refused.out.contains("--allowed-hosts"), "{}", refused.out);
    assert_eq!(refused.refused(1), "forbidden");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let refused =
        place.run(&["serve", "--listen", "127.0.0.1:0", "--tokens-file", &file, "--json"]);
    assert!(refused.out.contains("chmod 600"), "{}", refused.out);
}

//! Malicious clients: slow sockets next to a working client, hostile session names, and the texts
//! of both that no log may contain.

use std::process::Stdio;

use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::house::Walled;
use crate::{http::house::House, program::Place};

const SLOW: usize = 500;
const ASKED: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_slow_sockets_do_not_block_other_clients() {
    let house = House::plain().await;
    house.session("s", 1).await;
    let heads: [&[u8]; 4] = [
        b"",
        b"G",
        b"POST /v1/sessions/s/events HTTP/1.1\r\nhost: localh",
        b"POST /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\n\
          content-type: application/json\r\ncontent-length: 60000\r\n\r\n{\"events\":[",
    ];
    let mut slow = Vec::new();
    for number in 0..SLOW {
        let mut stream = TcpStream::connect(&house.address).await.unwrap();
        stream.write_all(heads[number % heads.len()]).await.unwrap();
        slow.push(stream);
    }
    let mut answered = 0;
    for number in 0..ASKED {
        let event = json!({"events": [{"type": "user.message", "id": format!("g{number}")}]});
        let appended = house.post("/v1/sessions/s/events", &event).await;
        let read = house.get("/v1/sessions/s/events?from=-1").await;
        answered += usize::from(appended.status == 200) + usize::from(read.status == 200);
    }
    assert_eq!((answered, slow.len()), (2 * ASKED, SLOW));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_session_names_are_rejected_or_stored_literally() {
    let walled = Walled::plain().await;
    let ada = walled.admin(("acme", "ada"));
    let long = "a".repeat(129);
    for name in [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "..%5c..%5cx",
        "a%00b",
        "a%0ab",
        "%2fetc",
        "a:b",
        "a%20b",
        "a%3bb",
        "%e2%80%a5",
        "%ef%bc%8e%ef%bc%8e",
        "a%cc%81",
        "%c0%ae%c0%ae",
        "%ff",
        "a%e2%80%aeb",
        "~root",
        "-rf",
        ".hidden",
        &long,
    ] {
        for (method, path) in [
            ("GET", format!("/v1/sessions/{name}")),
            ("GET", format!("/v1/sessions/{name}/events")),
            ("DELETE", format!("/v1/sessions/{name}")),
            ("PUT", format!("/v1/sessions/{name}/hold")),
        ] {
            let refused = walled.call(&ada, method, &path, None).await;
            assert!(
                matches!(refused.status, 400 | 404 | 405 | 422),
                "{method} {path}: {} {}",
                refused.status,
                refused.text
            );
        }
    }
    // Similar names are different sessions: neither case nor Unicode form is folded.
    for (number, name) in
        ["abc", "ABC", "Abc", "abc.", "abc-", "abc_", "CON", "nul"].iter().enumerate()
    {
        let made = walled.post(&ada, "/v1/sessions", &json!({"id": name})).await;
        assert_eq!(made.status, 201, "{number} {name}");
    }
    let listed = walled.get(&ada, "/v1/sessions").await.json();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(8));
}

#[expect(clippy::disallowed_types, reason = "a program writes its log there")]
#[test]
fn no_log_holds_a_token_a_body_or_a_character_that_forges_a_line() {
    let place = Place::new();
    let tokens = place.path("tokens.json").display().to_string();
    let made = ["tokens", "create", "--tokens-file", &tokens, "--user", "ada", "--json"];
    let token = place.run(&made).json()["token"].as_str().unwrap().to_owned();
    let revoked = place.run(&made).json();
    place
        .run(&["tokens", "revoke", "--tokens-file", &tokens, revoked["id"].as_str().unwrap()])
        .ok();
    let log =
        std::fs::OpenOptions::new().create(true).append(true).open(place.path("log")).unwrap();
    let served = place.serve_to(&["--tokens-file", &tokens, "--log", "trace"], Stdio::from(log));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = crate::say::http_client().build().unwrap();
        let canary = "canary-4711";
        let url = |path: &str| format!("{}{path}", served.url);
        let event = json!({"events": [{"type": "user.message", "text": canary}]}).to_string();
        for credential in [
            format!("Bearer {token}"),
            format!("Bearer {}", revoked["token"].as_str().unwrap()),
            format!("Bearer {canary}"),
            format!("Basic {canary}"),
        ] {
            for (path, body) in [
                ("/v1/sessions/s/events?create=true", event.clone()),
                ("/v1/sessions/s/events?x=canary-4711%0a%1b%5b31m", format!("{{\"{canary}")),
                ("/v1/sessions/canary-4711%0a%1b/events", event.clone()),
                ("/canary-4711%0d%0aforged", event.clone()),
                ("/mcp", format!("{canary}\n\u{1b}[31m")),
            ] {
                let request = client.post(url(path)).header("authorization", &credential);
                let request = request.header("content-type", "application/json");
                let request = request.header("x-request-id", "canary-4711 \t forged");
                let request = request.header("user-agent", canary).body(body);
                request.send().await.unwrap();
            }
        }
    });
    served.stop();
    let log = std::fs::read(place.path("log")).unwrap();
    let text = String::from_utf8(log).unwrap();
    assert!(text.lines().count() > 20, "it was logged: {text}");
    for line in text.lines() {
        let told: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(told.is_object() && !line.chars().any(char::is_control), "{line}");
    }
    for secret in ["canary-4711", &token[12..], &revoked["token"].as_str().unwrap()[12..]] {
        assert!(!text.contains(secret), "{text}");
    }
}

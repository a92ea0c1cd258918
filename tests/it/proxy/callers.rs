//! Several clients of one proxy on HTTP: no client gets the answer of another or shares its session
//! without naming it, and a client that disconnects is dropped.

use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{
    scripted::{Asked, Listening, Scripted, call, json_text, open_stream, reader, request, say},
    wrapped::{Store, options, session},
};

fn text(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let mark = &answer["result"]["_meta"]["sessionlog/cache"];
    let from = if mark.is_null() { "" } else { " again" };
    format!("{}{from}", answer["result"]["content"][0]["text"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_receives_the_answer_of_another_caller() {
    let (server, store) = (Scripted::start(reader()).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    let said = async |id: u64, who: &str| {
        let headers = [("authorization", who), ("sessionlog-session", "s")];
        text(&say(&http, &proxy.address, &call(id, "read"), &headers).await)
    };
    say(&http, &proxy.address, &request(1, "tools/list", json!({})), &[]).await;
    assert_eq!(said(2, "a").await, "for a: 1");
    assert_eq!(said(3, "a").await, "for a: 1 again");
    assert_eq!(said(4, "b").await, "for b: 2");
    assert_eq!(said(5, "b").await, "for b: 2 again");
    assert_eq!(said(6, "a").await, "for a: 3", "the log's newest is another's");
    // The same for a key in the address.
    let keyed = format!("{}?key=1", proxy.address);
    let headers = [("authorization", "a"), ("sessionlog-session", "s")];
    assert_eq!(text(&say(&http, &keyed, &call(7, "read"), &headers).await), "for a: 4");
    // A client without credentials gets no result of another client.
    let bare = [("sessionlog-session", "s")];
    assert_eq!(text(&say(&http, &proxy.address, &call(8, "read"), &bare).await), "for nobody: 5");
    let from = [("origin", "http://localhost:1")];
    say(&http, &keyed, &call(9, "read"), &from).await;
    let last = server.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!(last.query.as_deref(), Some("key=1"), "the server is asked for what we were");
    assert!(!last.headers.contains_key("origin"), "which is our name, not the server's");
    proxy.stop().await;
    // Nor one that an earlier proxy recorded for an unknown caller.
    let later = sessionlog::proxy::ProxyOptions { name: "p1".to_owned(), ..options() };
    let proxy = Listening::start(&store, server.upstream(), later).await;
    say(&http, &proxy.address, &request(1, "tools/list", json!({})), &[]).await;
    let said = say(&http, &proxy.address, &call(8, "read"), &headers).await;
    assert_eq!(text(&said), "for a: 7");
    let said = say(&http, &proxy.address, &call(9, "read"), &bare).await;
    assert_eq!(text(&said), "for nobody: 8");
}

/// A client with exactly one connection; others open a second when the first is not yet back in
/// their pool.
struct Connection {
    sender: hyper::client::conn::http1::SendRequest<String>,
    url: url::Url,
}

impl Connection {
    async fn to(address: &str) -> Self {
        let url: url::Url = address.parse().unwrap();
        let stream = TcpStream::connect(url.authority()).await.unwrap();
        let stream = hyper_util::rt::TokioIo::new(stream);
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { sender, url }
    }

    /// Sends a message with headers; returns the answer's text.
    async fn say(&mut self, message: &Value, headers: &[(&str, &str)]) -> String {
        let mut request = hyper::Request::post(self.url.path())
            .header("host", self.url.authority())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        for (name, text) in headers {
            request = request.header(*name, *text);
        }
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request.body(message.to_string()).unwrap()).await;
        let body = axum::body::Body::new(answer.unwrap().into_body());
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_name_no_session_get_one_session_each() {
    let (server, store) = (Scripted::start(reader()).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let (mut first, mut second) =
        (Connection::to(&proxy.address).await, Connection::to(&proxy.address).await);
    first.say(&request(1, "tools/list", json!({})), &[]).await;
    let said = async |one: &mut Connection, id: u64, headers: &[(&str, &str)]| {
        text(&one.say(&call(id, "read"), headers).await)
    };
    assert_eq!(said(&mut first, 2, &[]).await, "for nobody: 1");
    assert_eq!(said(&mut second, 2, &[]).await, "for nobody: 2", "another connection");
    assert_eq!(said(&mut first, 3, &[]).await, "for nobody: 1 again");
    assert_eq!(said(&mut second, 3, &[]).await, "for nobody: 2 again");
    let of_a_session = [("mcp-session-id", "one")];
    assert_eq!(said(&mut first, 4, &of_a_session).await, "for nobody: 3");
    assert_eq!(said(&mut second, 5, &of_a_session).await, "for nobody: 3 again", "one session");
    let cleared = second.say(&call(6, "clear_session"), &[]).await;
    assert!(cleared.contains("clearedSessionId"), "{cleared}");
    assert_eq!(
        said(&mut first, 7, &[]).await,
        "for nobody: 4",
        "what cleared may have changed things"
    );
    proxy.stop().await;
    let listed = store.get("/v1/sessions").await;
    let mut ids: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["tmp-p0-0-1", "tmp-p0-0-2", "tmp-p0-0-3"]);
    let kept = store.events("tmp-p0-0-1").await;
    assert_eq!(kept.len(), 6, "the first client's session goes on: {kept:?}");
    assert!(
        store.events("tmp-p0-0-2").await.iter().any(|event| event["type"] == "context.cleared")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_client_disconnects_is_recorded_as_unanswered() {
    let (server, store) = (Scripted::start(reader()).await, Store::start().await);
    let named = sessionlog::proxy::ProxyOptions { session: Some(session("s")), ..options() };
    let proxy = Listening::start(&store, server.upstream(), named).await;
    let http = crate::say::http_client().build().unwrap();
    for headers in [&[][..], &[("mcp-session-id", "one")]] {
        let wait = call(1, "wait");
        let calling = say(&http, &proxy.address, &wait, headers);
        let mut calling = std::pin::pin!(calling);
        let count = server.calls("wait");
        while server.calls("wait") == count {
            let soon = tokio::time::timeout(std::time::Duration::from_millis(5), &mut calling);
            assert!(soon.await.is_err(), "nobody answers");
        }
    }
    store.holds("s", 4).await;
    let events = store.events("s").await;
    let ends: Vec<_> = events.iter().filter(|event| event["type"] == "agent.tool_result").collect();
    assert_eq!(ends.len(), 2, "{events:?}");
    for end in ends {
        assert_eq!(end["content"][0]["text"], "the connection ended first");
    }
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_open_until_its_answer_or_the_end_of_its_session() {
    let script = |asked: Asked| {
        async move {
            if asked.method == "GET" {
                let late = json!({"content": [{"type": "text", "text": "late"}]});
                let answer = json!({"jsonrpc": "2.0", "id": 1, "result": late});
                return open_stream(format!("data: {answer}\n\n"));
            }
            match asked.says("tools/call") {
                true => open_stream(": begun\n\n".to_owned()),
                false => json_text("{}".to_owned()),
            }
        }
        .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let named = sessionlog::proxy::ProxyOptions { session: Some(session("s")), ..options() };
    let proxy = Listening::start(&store, server.upstream(), named).await;
    let http = crate::say::http_client().build().unwrap();
    let begun = async |method: &str, message: &Value| {
        let asked = http.request(method.parse().unwrap(), &proxy.address);
        let asked = asked.header("mcp-session-id", "one").body(message.to_string());
        // Dropping it closes its stream.
        asked.send().await.unwrap().bytes_stream().next().await.unwrap().unwrap();
    };
    begun("POST", &call(1, "any")).await;
    begun("GET", &Value::Null).await;
    begun("POST", &call(2, "any")).await;
    begun("DELETE", &Value::Null).await;
    store.holds("s", 4).await;
    begun("POST", &call(3, "any")).await;
    proxy.stop().await;
    let events = store.events("s").await;
    let ends = events.iter().filter(|event| event["type"] == "agent.tool_result");
    let texts: Vec<_> = ends.map(|end| end["content"][0]["text"].as_str().unwrap()).collect();
    let end = "the connection ended first";
    assert_eq!(texts, ["late", end, end]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_to_list_its_tools_is_treated_as_having_none() {
    let script = |asked: Asked| {
        async move {
            let mut response = json_text(asked.answer(json!({"content": []})));
            if asked.says("tools/list") {
                *response.status_mut() = axum::http::StatusCode::UNAUTHORIZED;
                *response.body_mut() = "who are you?".into();
            }
            response
        }
        .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    let call = call(1, "clear_session");
    let asked = say(&http, &proxy.address, &call, &[]);
    // Shorter than the time limit of the pending list.
    let cleared = tokio::time::timeout(std::time::Duration::from_secs(20), asked).await.unwrap();
    assert!(cleared.contains("clearedSessionId"), "{cleared}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_line_message_stays_one_message_after_an_addition() {
    let script = |asked: Asked| {
        async move {
            let list: Value =
                serde_json::from_str(&asked.answer(json!({"tools": [{"name": "a"}]}))).unwrap();
            let pretty = serde_json::to_string_pretty(&list).unwrap();
            let data: String = pretty.lines().map(|line| format!("data: {line}\n")).collect();
            let mut response = json_text(format!("id: 1\n{data}\n"));
            let kind = "text/event-stream".parse().unwrap();
            response.headers_mut().insert("content-type", kind);
            response
        }
        .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    let said = say(&http, &proxy.address, &request(1, "tools/list", json!({})), &[]).await;
    let data: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(said.lines().filter(|line| !line.is_empty()).count(), data.len() + 1, "{said}");
    let list: Value = serde_json::from_str(&data.join("\n")).unwrap();
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 3, "{list}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_forwarded_event_by_event() {
    let script = |asked: Asked| {
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        async move { super::scripted::open_stream(format!("data: {progress}\n\n{asked:?}")) }
            .boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    let asked = http.post(&proxy.address).body(call(1, "read").to_string());
    let mut said = asked.send().await.unwrap().bytes_stream();
    let first = said.next().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: {") && first.ends_with(b"\n\n"), "{first:?}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_over_http_is_recorded_shortened() {
    // One is inspected and longer than the store's queue allows; the other is forwarded in parts.
    for (streams, bytes) in [(false, 33 << 20), (true, 65 << 20)] {
        let script = move |asked: Asked| {
            let text = "y".repeat(bytes);
            let result = json!({"content": [{"type": "text", "text": text}]});
            let answer = asked.answer(result);
            async move {
                match streams {
                    true => super::scripted::open_stream(format!("data: {answer}\n\n")),
                    false => super::scripted::json_text(answer),
                }
            }
            .boxed()
        };
        let (server, store) = (Scripted::start(script).await, Store::start().await);
        let proxy = Listening::start(&store, server.upstream(), options()).await;
        let http = crate::say::http_client().build().unwrap();
        let asked = http.post(&proxy.address).body(call(1, "read").to_string());
        let mut heard = 0;
        let mut said = asked.send().await.unwrap().bytes_stream();
        while heard < bytes {
            heard += said.next().await.unwrap().unwrap().len();
        }
        let session = store.only_session().await;
        store.holds(&session, 2).await;
        drop(said);
        proxy.stop().await;
        let events = store.events(&session).await;
        let result = &events[1];
        assert_eq!(
            (&result["type"], &result["is_error"]),
            (&json!("agent.tool_result"), &json!(false))
        );
        assert!(!result["truncated"].is_null(), "{result}");
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.ends_with(" bytes, too long to be recorded]"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listening_proxy_rejects_requests_from_a_page_of_another_site() {
    let script = |asked: Asked| {
        let answer = asked.answer(json!({"content": []}));
        async move { super::scripted::json_text(answer) }.boxed()
    };
    let (server, store) = (Scripted::start(script).await, Store::start().await);
    let proxy = Listening::start(&store, server.upstream(), options()).await;
    let http = crate::say::http_client().build().unwrap();
    for (headers, status) in [
        (&[][..], 200),
        (&[("sec-fetch-site", "same-origin")], 200),
        (&[("sec-fetch-site", "cross-site"), ("origin", "http://localhost:3000")], 200),
        (&[("sec-fetch-site", "cross-site")], 403),
        (&[("sec-fetch-site", "none"), ("sec-fetch-site", "Cross-Site")], 403),
        (&[("origin", "http://localhost"), ("origin", "http://evil.example")], 403),
    ] {
        let mut asked = http.post(&proxy.address).body(call(1, "read").to_string());
        for (name, value) in headers {
            asked = asked.header(*name, *value);
        }
        assert_eq!(asked.send().await.unwrap().status(), status, "{headers:?}");
    }
    assert_eq!(server.asked.lock().unwrap().len(), 3, "what is refused is not forwarded");
    proxy.stop().await;
}

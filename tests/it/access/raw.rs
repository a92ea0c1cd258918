//! Malicious bytes: headers and bodies with a wrong size, floods, hostile names on every route. In
//! every case the server keeps running, creates nothing and serves the next client. The routes are
//! those of the published description, so that a new one is included.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::house::Walled;
use crate::http::house::{House, PATIENCE};

const HEAD: &str = "POST /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\n\
                    content-type: application/json\r\nconnection: close\r\n";
const ONE: &str = "{\"events\":[{\"type\":\"a.b\"}]}";

/// Sends bytes and reads to the end; a reset counts as the end. If `cut`, closes the writing half.
async fn said(house: &House, bytes: &[u8], cut: bool) -> String {
    let mut stream = TcpStream::connect(&house.address).await.unwrap();
    // A server that rejects a request early may stop reading.
    let _ = stream.write_all(bytes).await;
    if cut {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(PATIENCE, read).await.expect("the server closes");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the statuses of all responses in a byte stream.
fn statuses(said: &str) -> Vec<u16> {
    let heads = said.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0)).collect()
}

/// Returns invalid request heads, and the statuses that reject each; an empty list means a
/// connection closed without a response.
fn heads() -> Vec<(String, Vec<u16>)> {
    let with = |line: &str| format!("{HEAD}{line}\r\ncontent-length: 27\r\n\r\n{ONE}");
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    let asks =
        |line: &str| format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let get = |path: &str| asks(&format!("GET {path}"));
    let bad = vec![400];
    vec![
        (with(&format!("x: {}", "y".repeat(1 << 20))), vec![431]),
        (with(many(5_000).trim_end()), vec![431]),
        (get(&format!("/{}", "a".repeat(1 << 20))), vec![414, 431]),
        (asks(&format!("{} /", "M".repeat(1 << 20))), vec![400, 431]),
        (with("x: a\0b"), bad.clone()),
        (with("x : y"), bad.clone()),
        (with("x: y\r\n folded: z"), bad.clone()),
        (with(": nameless"), bad.clone()),
        (with("x\u{e9}: y"), bad.clone()),
        (with("host: evil.example"), vec![400, 403]),
        (get("http://evil.example/v1/sessions"), vec![403]),
        (get("//evil.example/v1/sessions"), vec![400, 403, 404]),
        (
            "CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n".into(),
            vec![403, 404, 405],
        ),
        (asks("TRACE /v1/sessions"), vec![404, 405]),
        (asks("OPTIONS *"), vec![400, 404, 405]),
        ("GET /v1/sessions\r\n".into(), vec![400, 408]),
        ("GET /v1/sessions HTTP/9.9\r\nhost: localhost\r\n\r\n".into(), bad.clone()),
        ("GET /v1/sessions HTTP/1.1\r\nconnection: close\r\n\r\n".into(), vec![400, 403]),
        ("GET  /v1/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n".into(), bad.clone()),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), bad),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}".repeat(30), vec![400, 408]),
    ]
}

/// Bodies with a wrong size, and the statuses of their responses.
fn bodies() -> Vec<(String, Vec<u16>)> {
    let length = |text: &str| format!("{HEAD}content-length: {text}\r\n\r\n{ONE}");
    let chunked = |body: &str| format!("{HEAD}transfer-encoding: chunked\r\n\r\n{body}");
    let encoded = |name: &str| format!("{HEAD}transfer-encoding: {name}\r\n\r\n1b\r\n{ONE}\r\n");
    let bad = || vec![400];
    let deep =
        |open: &str| format!("{{\"events\":[{{\"type\":\"a.b\",\"x\":{}", open.repeat(100_000));
    let whole = |body: &str| format!("{HEAD}content-length: {}\r\n\r\n{body}", body.len());
    vec![
        (length("-1"), bad()),
        (length("+27"), bad()),
        (length("0x1b"), bad()),
        (length("27 27"), bad()),
        (length("27, 28"), bad()),
        (length("27\r\ncontent-length: 28"), bad()),
        (length("99999999999999999999999"), bad()),
        (length("18446744073709551615"), vec![400, 413, 431]),
        // The declared length exceeds the body: nothing of it is used.
        (length("28"), vec![400, 408]),
        (length("1000000"), vec![400, 408]),
        // Two conflicting lengths are an attempt at request smuggling.
        (length("27\r\ntransfer-encoding: chunked"), vec![400, 408]),
        (encoded("identity"), vec![400, 411, 501]),
        (encoded("chunked, identity"), vec![400, 411, 501]),
        (encoded("xchunked"), vec![400, 411, 501]),
        (chunked("zz\r\n"), vec![400, 408]),
        (chunked("-1\r\nx"), vec![400, 408]),
        (chunked("fffffffffffffffff\r\nx"), vec![400, 408]),
        (chunked("1b\r\n{\"events\":"), vec![400, 408]),
        (chunked(&format!("1b;{}\r\n{ONE}\r\n0\r\n\r\n", "e".repeat(1 << 20))), vec![400, 408]),
        (
            chunked(&format!("1b\r\n{ONE}\r\n0\r\n{}\r\n", "t: u\r\n".repeat(50_000))),
            vec![400, 408],
        ),
        (whole(&deep("[")), vec![400, 422]),
        (whole(&deep("{\"a\":")), vec![400, 422]),
        (whole(&deep("\\u0000")), vec![400, 422]),
        (whole(&"{".repeat(100_000)), vec![400, 422]),
        (whole(&"\u{0}".repeat(100_000)), vec![400, 422]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_false_headers_or_bodies_are_rejected_and_store_nothing() {
    let house = House::plain().await;
    house.session("s", 1).await;
    for (bytes, allowed) in heads().into_iter().chain(bodies()) {
        let answer = said(&house, bytes.as_bytes(), allowed.contains(&408)).await;
        let shown: String = bytes.chars().take(160).collect();
        let found = statuses(&answer);
        // The server may close the connection without a response, but must not respond twice.
        assert!(found.len() <= 1, "{shown:?}: answered twice: {answer}");
        assert!(found.iter().all(|status| allowed.contains(status)), "{shown:?}: {found:?}");
        let fresh = [("connection", "close")];
        let next = house.call("GET", "/readyz", &fresh, None).await;
        assert_eq!(next.status, 200, "{shown:?}: the next one is served");
    }
    let left = house.get("/v1/sessions/s/events").await.json();
    assert_eq!(left["tail"], 1, "nothing of them was appended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_in_one_write_are_answered_in_order() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let mut bytes = String::new();
    for n in 0..1_000 {
        let body = json!({"events": [{"type": "a.b", "id": format!("p{n}")}]}).to_string();
        let last = if n == 999 { "connection: close\r\n" } else { "" };
        bytes += &format!(
            "POST /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\n{last}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
    }
    let mut stream = TcpStream::connect(&house.address).await.unwrap();
    let (mut from, mut to) = stream.split();
    let mut answer = Vec::new();
    let both =
        async { tokio::join!(to.write_all(bytes.as_bytes()), from.read_to_end(&mut answer)) };
    let (written, read) = tokio::time::timeout(PATIENCE, both).await.expect("answered in time");
    written.and(read.map(drop)).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(statuses(&answer), vec![200; 1_000]);
    let events = house.get("/v1/sessions/s/events?limit=1000").await.json();
    let ids = events["data"].as_array().unwrap().iter().map(|event| event["id"].clone());
    assert!(ids.eq((0..1_000).map(|n| json!(format!("p{n}")))), "in the order they were sent");
}

/// Returns hostile names, as they appear in a path.
fn traps() -> Vec<String> {
    let mut traps: Vec<String> = [
        "..",
        ".",
        "%2e%2e",
        "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd",
        "..%2f..%2fetc%2fpasswd",
        "..%5c..%5cwindows",
        "..;",
        "a%00b",
        "%00",
        "a%0d%0aset-cookie:%20x",
        "a%0ab",
        "%2fetc%2fpasswd",
        "a:b",
        "a%3ab",
        "acme:ada",
        "a%20b",
        "%20",
        "a%3bb",
        "%e2%80%a5",
        "%ef%bc%8e%ef%bc%8e",
        "a%cc%81",
        "%c0%ae%c0%ae",
        "%ff%fe",
        "%ed%a0%80",
        "a%e2%80%aeb",
        "%e2%84%aa",
        "~root",
        "-rf",
        ".hidden",
        "%25",
        "%252e%252e",
        "%zz",
        "*",
        "$(id)",
        "%60id%60",
        "'%20or%20'1'='1",
        "<script>",
    ]
    .map(str::to_owned)
    .into();
    traps.push("a".repeat(129));
    traps.push("a".repeat(20_000));
    traps.push("%61".repeat(5_000));
    traps
}

/// Returns every published route with path parameters, each parameter set to `text` in turn while
/// the others are `plain`.
fn routes(document: &Value, plain: &str, text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let parts: Vec<&str> = path.split('/').collect();
        let named = |part: &str| part.starts_with('{');
        for (at, _) in parts.iter().enumerate().filter(|(_, part)| named(part)) {
            let made: Vec<&str> = parts
                .iter()
                .enumerate()
                .map(|(n, part)| match named(part) {
                    true if n == at => text,
                    true => plain,
                    false => part,
                })
                .collect();
            for method in operations.as_object().unwrap().keys() {
                all.push((method.to_uppercase(), made.join("/")));
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_rejects_hostile_names_and_opens_no_file() {
    let walled = Walled::plain().await;
    let ada = walled.admin(("acme", "ada"));
    let document = walled.get(&ada, "/openapi.json").await.json();
    let mut asked = 0;
    for trap in traps() {
        for (method, path) in routes(&document, "s", &trap) {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 authorization: Bearer {ada}\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\n\r\n{{}}"
            );
            let answer = said(&walled.house, request.as_bytes(), false).await;
            let found = statuses(&answer);
            // A client normalizes dot segments, this server never does: they are not names.
            // A workspace may be any text, usually a directory.
            let is_text = path.starts_with("/v1/workspaces/");
            let refused = |status: &u16| (400..500).contains(status) || is_text && *status < 300;
            assert!(found.len() == 1 && found.iter().all(refused), "{method} {path}: {answer}");
            let forged = answer.to_lowercase().contains("\r\nset-cookie:");
            assert!(!forged && !answer.contains("root:"), "{method} {path}: {answer}");
            asked += 1;
        }
    }
    assert!(asked > 500, "{asked}");
    let listed = walled.get(&ada, "/v1/sessions?include_archived=true").await.json();
    assert_eq!(listed["data"], json!([]), "nothing came into being");
}

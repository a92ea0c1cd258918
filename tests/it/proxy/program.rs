//! The program itself: `sessionlog proxy` wrapping other programs.

use std::{io::Write as _, process::Stdio};

use serde_json::{Value, json};

use crate::program::Place;

/// A server as a shell script: one tool, which ends the server on request.
const SERVER: &str = r#"while read -r line; do
case $line in
*die*) exit 7 ;;
*tools/call*) echo '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello ghp_0123456789abcdefghijABCDEFGHIJ012345"}]}}' ;;
esac
done"#;

fn call(name: &str) -> String {
    let params = json!({"name": name, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string() + "\n"
}

#[test]
fn the_proxy_exits_when_its_wrapped_program_does() {
    let place = Place::new();
    let wrapped = |arguments: &[&str], said: &str| {
        let whole = [&["proxy", "--session", "s"], arguments, &["--", "sh", "-c", SERVER]].concat();
        place.run_with(&whole, said)
    };
    let said: Value = wrapped(&[], &call("greet")).json();
    let text = said["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("ghp_"), "the client is told what the server said");
    let events = place.events("s");
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1]["content"][0]["text"], "hello [redacted:github-token]");
    assert_eq!(events[0]["server"], "sh");
    wrapped(&["--secrets", "off", "--name", "mine"], &call("greet")).ok();
    let events = place.events("s");
    assert_eq!(
        (&events[3]["content"][0]["text"], &events[2]["server"]),
        (&json!(text), &json!("mine"))
    );
    let mut proxy = place
        .command(&["proxy", "--session", "s", "--", "sh", "-c", SERVER])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // The client stays connected: the server exits.
    let mut client = proxy.stdin.take().unwrap();
    client.write_all(call("die").as_bytes()).unwrap();
    assert_eq!(proxy.wait().unwrap().code(), Some(7));
    drop(client);
    let last = place.events("s").pop().unwrap();
    assert_eq!((&last["type"], &last["is_error"]), (&json!("agent.tool_result"), &json!(true)));
}

#[test]
fn private_excluded_and_paused_calls_are_forwarded_and_not_recorded() {
    let place = Place::new();
    let wrapped = |arguments: &[&str], input: &Value| {
        let whole = [&["proxy", "--session", "s"], arguments, &["--", "sh", "-c", SERVER]].concat();
        let params = json!({"name": "read", "arguments": input});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let said: Value = place.run_with(&whole, &format!("{call}\n")).json();
        assert!(said["result"]["content"][0]["text"].as_str().unwrap().contains("ghp_"), "{said}");
    };
    wrapped(&["--secrets", "off"], &json!({ "q": "a <private>aardvark</private> b" }));
    wrapped(&["--exclude", "*.pem"], &json!({ "path": "/w/server.pem", "q": "aardvark" }));
    place.run(&["pause"]).ok();
    wrapped(&[], &json!({ "q": "aardvark" }));
    place.run(&["unpause"]).ok();
    wrapped(&["--record", "off"], &json!({ "q": "aardvark" }));
    wrapped(&[], &json!({ "q": "open" }));
    let events = place.events("s");
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let (call, result) = ("agent.tool_use", "agent.tool_result");
    assert_eq!(kinds, [call, result, call, result, "session.error", call, result], "{events:#?}");
    assert_eq!(events[0]["input"]["q"], "a [private] b");
    assert_eq!(events[0]["redactions"], json!({ "private": 1 }));
    for event in &events[2..4] {
        assert_eq!(event["withheld"], "excluded", "{event}");
        assert_eq!((&event["input"], &event["content"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(
        (&events[2]["name"], &events[4]["error"]["why"]),
        (&json!("read"), &json!("paused"))
    );
    assert!(!json!(events).to_string().contains("aardvark"), "{events:#?}");
}

#[test]
fn a_wrapped_program_does_not_inherit_the_stores_secrets() {
    let place = Place::new();
    let server = r#"read -r line
echo "{\"id\":1,\"token\":\"$SESSIONLOG_TOKEN$SESSIONLOG_KEY$SESSIONLOG_KEY_PREVIOUS\",\"home\":\"$HOME\"}""#;
    let mut proxy = place.command(&["proxy", "--", "sh", "-c", server]);
    let key = "0123456789abcdef".repeat(4);
    let secrets = [("SESSIONLOG_TOKEN", "t"), ("SESSIONLOG_KEY", &key)];
    let mut proxy = proxy.envs(secrets).stdin(Stdio::piped()).spawn().unwrap();
    proxy.stdin.take().unwrap().write_all(b"{}\n").unwrap();
    let said = proxy.wait_with_output().unwrap().stdout;
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["token"], "", "{said}");
    assert!(!said["home"].as_str().unwrap().is_empty(), "the rest is as it was");
}

#[test]
fn a_command_that_cannot_be_wrapped_is_rejected_with_an_error_naming_it() {
    let place = Place::new();
    for (arguments, code, said) in [
        (&["proxy"][..], 2, "--url"),
        (&["proxy", "--url", "http://127.0.0.1:9/mcp", "--", "cat"], 2, "--url"),
        (&["proxy", "--listen", "127.0.0.1:0", "--", "cat"], 2, "--listen"),
        (&["proxy", "--url", "http://127.0.0.1:9/", "--listen", "0.0.0.0:0"], 2, "--listen"),
        (&["proxy", "--url", "ftp://x"], 2, "--url"),
        (&["proxy", "--secrets=-nobody", "--", "cat"], 2, "secrets"),
        (&["proxy", "--cache", "x", "--", "cat"], 2, "--cache"),
        (&["proxy", "--", "/no/such/program"], 1, "cannot be wrapped"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
    }
}

//! End of a proxy on streams: every pending call gets an answer.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};
use sessionlog::proxy::ProxyOptions;

use super::wrapped::{Store, Wrapped, options, session};
use crate::program::Place;

#[tokio::test(flavor = "multi_thread")]
async fn pending_calls_are_answered_after_the_clients_input_ends() {
    let store = Store::start().await;
    let named = ProxyOptions { session: Some(session("s")), ..options() };
    let mut wrapped = Wrapped::of(&store, named);
    wrapped.tools().await;
    wrapped.call("read", json!({})).await;
    store.holds("s", 2).await;
    for (id, name) in [(71, "read"), (72, "clear_session"), (73, "get_research_session")] {
        let params = json!({"name": name, "arguments": {}});
        let ask = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        wrapped.say(&ask.to_string()).await;
    }
    // The proxy looks up the log first, then calls the server.
    let params = json!({"name": "read", "arguments": {"new": 1}});
    let ask = json!({"jsonrpc": "2.0", "id": 74, "method": "tools/call", "params": params});
    wrapped.say(&ask.to_string()).await;
    drop(wrapped.take_to());
    let mut heard = Vec::new();
    while let Some(line) = wrapped.hear().await {
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["result"]["content"].is_array(), "{answer}");
        heard.push(answer["id"].as_u64().unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, [71, 72, 73, 74]);
    assert!(wrapped.ended().await, "the client was first");
}

/// A server that prints a line at the end of its input.
const SERVER: &str = r#"while read -r line; do
case $line in
*tools/call*) echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}' ;;
esac
done
echo '{"jsonrpc":"2.0","method":"notifications/goodbye"}'"#;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}"#;

#[test]
fn a_wrapped_program_sees_its_input_end_and_its_last_output_is_forwarded() {
    let place = Place::new();
    let proxy = ["proxy", "--session", "s", "--", "sh", "-c", SERVER];
    let said = place.run_with(&proxy, &format!("{CALL}\n")).ok();
    assert!(said.ends_with("notifications/goodbye\"}\n"), "{said}");
    // A signal has the same effect.
    let mut proxy = place.command(&proxy).stdin(Stdio::piped()).spawn().unwrap();
    let mut to = proxy.stdin.take().unwrap();
    let mut from = BufReader::new(proxy.stdout.take().unwrap());
    writeln!(to, "{CALL}").unwrap();
    let mut answer = String::new();
    from.read_line(&mut answer).unwrap();
    assert!(answer.contains("\"id\":1"), "{answer}");
    let pid = rustix::process::Pid::from_child(&proxy);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    from.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("notifications/goodbye"), "{rest}");
    assert_eq!(proxy.wait().unwrap().code(), Some(0));
    assert_eq!(place.events("s").len(), 4, "both calls are recorded");
}

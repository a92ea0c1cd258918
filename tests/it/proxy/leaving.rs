//! End of a proxy on streams: every call that is due an answer gets one.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};
use sessionlog::proxy::Options;

use super::wrapped::{Store, Wrapped, options, session};
use crate::program::Place;

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_being_decided_are_answered_when_the_client_has_said_all() {
    let store = Store::start().await;
    let named = Options { session: Some(session("s")), ..options() };
    let mut wrapped = Wrapped::of(&store, named);
    wrapped.tools().await;
    wrapped.call("read", json!({})).await;
    store.holds("s", 2).await;
    for (id, name) in [(71, "read"), (72, "clear_session"), (73, "get_research_session")] {
        let params = json!({"name": name, "arguments": {}});
        let ask = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        wrapped.say(&ask.to_string()).await;
    }
    // Asks the log first, and goes to the server then.
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

/// Prints a line at the end of its input.
const SERVER: &str = r#"while read -r line; do
case $line in
*tools/call*) echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}' ;;
esac
done
echo '{"jsonrpc":"2.0","method":"notifications/goodbye"}'"#;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}"#;

#[test]
fn a_program_hears_that_its_client_has_left_and_has_the_last_word() {
    let place = Place::new();
    let proxy = ["proxy", "--session", "s", "--", "sh", "-c", SERVER];
    let said = place.run_with(&proxy, &format!("{CALL}\n")).ok();
    assert!(said.ends_with("notifications/goodbye\"}\n"), "{said}");
    // A signal means the same.
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

//! Other MCP servers that extract entities from saves, and absent, slow or invalid ones.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::{
    hook::claude,
    program::{Place, eventually},
};

/// Writes an MCP server on standard streams that returns `entities` for any text with "Ada".
fn server(place: &Place, name: &str, entities: &Value, is_error: bool) -> String {
    let text = json!({"entities": entities}).to_string().replace('"', "\\\"");
    let initialized = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#;
    let found =
        format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":{is_error}}}"#);
    let script = format!(
        r#"while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) result='{initialized}' ;;
    *'"name":"find_names"'*Ada*) result='{found}' ;;
    *'"method":"tools/call"'*) result='{{"content":[],"isError":true}}' ;;
    *'"id":'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$id"; continue ;;
    *) continue ;;
    esac
    printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"
    printf '%s\n' "$line" "token: $SESSIONLOG_TOKEN" >>'{heard}'
done
"#,
        heard = place.path(&format!("{name}.heard")).display(),
    );
    let path = place.write(&format!("{name}.sh"), &script);
    format!("sh {}#find_names", path.display())
}

fn saved(place: &Place, extractors: &str, context: &str) -> Value {
    let arguments = ["--json", "handoff", "save", "shop", "--context", context];
    let mut command = place.command(&arguments);
    command.env("SESSIONLOG_EXTRACTORS", extractors).env("SESSIONLOG_TOKEN", "credential");
    crate::program::ran(command.spawn().unwrap()).json()
}

#[test]
fn entities_of_external_extractors_are_stored_and_an_absent_one_is_a_notice() {
    let place = Place::new();
    let entities = json!([
        {"type": "person", "id": "Ada", "role": "author"},
        {"entityType": "package", "name": "left-pad", "properties": {"used": true}},
        {"type": "no type", "id": "x"},
        {"role": "nothing"},
    ]);
    let good = server(&place, "good", &entities, false);
    let wrong = server(&place, "wrong", &json!([]), true);
    let extractors =
        format!("{good}; {wrong}; no-such-program --flag; http://127.0.0.1:1/mcp; sleep 100");
    let answer = saved(
        &place,
        &extractors,
        "Ada wrote left-pad, the token is ghp_0123456789abcdefghijABCDEFGHIJ012345",
    );
    assert_eq!(answer["is_new"], true, "the save stands: {answer}");
    let notices: Vec<&str> =
        answer["notices"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(notices.len(), 5, "{answer}");
    let of_good = "extractor sh: 2 entities kept; 1 of 4 entities were left out; no type \"x\"";
    assert!(notices[0].starts_with(of_good), "{notices:?}");
    for (notice, name) in
        notices[1..].iter().zip(["sh", "no-such-program", "http://127.0.0.1:1", "sleep"])
    {
        assert!(notice.starts_with(&format!("extractor {name} is left out: ")), "{notices:?}");
    }
    assert!(notices[4].ends_with("no answer within 5 s"), "{notices:?}");
    let heard = std::fs::read_to_string(place.path("good.heard")).unwrap();
    assert!(heard.contains("Ada wrote left-pad"), "{heard}");
    assert!(!heard.contains("ghp_0123456789"), "a secret left: {heard}");
    assert!(heard.contains("token: ") && !heard.contains("credential"), "{heard}");

    let found = place.run(&["--json", "graph", "shop", "--entities"]).json();
    let found = found["entities"].as_array().unwrap();
    let one = |id: &str| found.iter().find(|one| one["id"] == id && one["source"] == "told");
    let ada = one("Ada").unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(ada["properties"], json!({"role": "author", "extracted_by": "sh"}));
    assert_eq!(one("left-pad").unwrap()["properties"]["used"], true);
    let again = saved(&place, "", "Ada is back");
    assert_eq!(again.get("notices"), None, "no extractor is asked without the setting");
}

#[test]
fn an_invalid_extractor_command_is_rejected_with_the_name_of_the_setting() {
    let place = Place::new();
    let mut command = place.command(&["handoff", "save", "shop", "--context", "c"]);
    command.env("SESSIONLOG_EXTRACTORS", "#tool");
    let refused = crate::program::ran(command.spawn().unwrap());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("extractors"), "{refused:?}");
}

#[test]
fn an_extractor_that_never_responds_is_skipped_after_one_second() {
    let place = Place::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", silent.local_addr().unwrap());
    let answer = saved(&place, &address, "Ada wrote left-pad");
    let notice = answer["notices"][0].as_str().unwrap();
    assert!(notice.ends_with("is left out: no answer within 1 s"), "{notice}");
}

#[test]
fn a_save_ends_a_hanging_extractor_and_no_hook_starts_one() {
    let place = Place::new();
    let started = place.path("started");
    let script = format!("echo $$ >>'{}'\nexec sleep 1000\n", started.display());
    let hangs = format!("sh {}", place.write("hangs.sh", &script).display());
    for name in ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"] {
        let event = claude(
            name,
            &json!({"source": "startup", "prompt": "Ada wrote left-pad",
            "last_assistant_message": "Ada it is", "trigger": "auto", "reason": "clear"}),
        );
        let mut command = place.command(&["hook"]);
        command.env("SESSIONLOG_EXTRACTORS", &hangs);
        command.stdin(std::process::Stdio::piped());
        let mut hook = command.spawn().unwrap();
        hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        assert_eq!(crate::program::ran(hook).code, 0, "{name}");
        assert!(!started.exists(), "{name} started it");
    }
    let answer = saved(&place, &hangs, "Ada wrote left-pad");
    let notice = answer["notices"][0].as_str().unwrap();
    assert!(notice.ends_with("is left out: no answer within 5 s"), "{notice}");
    let pids = std::fs::read_to_string(&started).unwrap();
    let line = format!("/proc/{}/cmdline", pids.trim());
    eventually("its end", || {
        let line = std::fs::read_to_string(&line).unwrap_or_default();
        (!line.contains("sleep")).then_some(())
    });
}

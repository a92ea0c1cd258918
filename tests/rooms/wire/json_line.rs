//! Lines of an append stream.

use sessionlog::{
    event::{BatchKey, Fence, Origin, Position, SessionId},
    service::Code,
    wire::json::parse_append_line,
};

#[test]
fn a_json_line_is_a_batch_with_session_reference_and_key() {
    let text = r#" {"ref":"a\u00e9","events":[{"type":"a.b","n":1},{"type":"a.b"}],
            "session":"s","if_position":7,"idempotency_key":"k","fencing_token":3}"#;
    let line = parse_append_line(text, Origin::Harness);
    let batch = line.batch.expect("a good line");
    assert_eq!(line.reference, Some(r#""a\u00e9""#));
    assert_eq!(line.session.as_ref().map(SessionId::as_str), Some("s"));
    assert_eq!((batch.events.len(), batch.if_position), (2, Some(Position(7))));
    assert_eq!(batch.key.as_ref().map(BatchKey::as_str), Some("k"));
    assert_eq!(batch.fence, Some(Fence(3)));
    let bare = r#"{"session":"s","events":[],"ref":null,"if_position":null}"#;
    let line = parse_append_line(bare, Origin::Harness);
    assert!(line.batch.is_ok() && line.reference.is_none());
}

#[test]
fn a_line_error_still_names_its_session() {
    for (rest, code, name) in [
        (r#""events":[{"type":"a.b","id":1}]"#, Code::InvalidRequest, "events[0].id"),
        (r#""events":[1]"#, Code::InvalidRequest, "events[0]"),
        (r#""events":{}"#, Code::InvalidRequest, "events"),
        (r#""x":1"#, Code::InvalidRequest, "x"),
        (r#""event":[],"events":[]"#, Code::InvalidRequest, "event"),
        (r#""if_position":-1,"events":[]"#, Code::InvalidRequest, "if_position"),
        (r#""fencing_token":"x","events":[]"#, Code::InvalidRequest, "fencing_token"),
        (r#""idempotency_key":"","events":[]"#, Code::InvalidRequest, "idempotency_key"),
        (r#""events":[],"events":[]"#, Code::InvalidRequest, "events"),
        (r#""if_position":1"#, Code::InvalidRequest, "events"),
        (r#""events":[}"#, Code::InvalidJson, ""),
    ] {
        let text = format!(r#"{{"session":"s","ref":7,{rest}}}"#);
        let line = parse_append_line(&text, Origin::Harness);
        let error = line.batch.expect_err(&text);
        assert_eq!((error.code, error.hint.field.as_deref().unwrap_or_default()), (code, name));
        assert_eq!(line.session.as_ref().map(SessionId::as_str), Some("s"), "{text}");
        assert_eq!(line.reference, Some("7"), "{text}");
    }
    let late = r#"{"events":[1],"ref":"late","session":"s"}"#;
    assert_eq!(parse_append_line(late, Origin::Harness).reference, Some("\"late\""));
    for (text, name) in [
        (r#"{"events":[]}"#, "session"),
        (r#"{"session":"/","events":[]}"#, "session"),
        (r#"{"session":"s","events":[],"ref":{}}"#, "ref"),
        (r#"{"session":"s","events":[],"ref":1.5}"#, "ref"),
        (r#"{"session":"s","events":[],"ref":"\ud800"}"#, "ref"),
        ("[1]", "line"),
    ] {
        let error = parse_append_line(text, Origin::Harness).batch.expect_err(text);
        assert_eq!(error.hint.field.as_deref(), Some(name), "{text}");
    }
    let long = format!(r#"{{"session":"s","events":[],"ref":"{}"}}"#, "x".repeat(129));
    assert!(parse_append_line(&long, Origin::Harness).batch.is_err());
}

//! Events split into passages.

use crate::event;
use sessionlog::search::{PassageField, visit_passages};

fn passages_of(kind: &str, body: &str) -> Vec<(PassageField, String)> {
    let mut found = Vec::new();
    visit_passages(&event(0, kind, body), |passage| {
        assert_eq!(passage.ordinal as usize, found.len());
        found.push((passage.field, passage.text.to_owned()));
    });
    found
}

#[test]
fn text_fields_of_an_event_are_passages_and_identifiers_are_not() {
    for (kind, body, expected) in [
        (
            "research.step",
            r#"{"number":1,"description":"Looked at the ledger. Found the second ledger.",
                    "reasoning":"Why not.","rejected":["guessing","asking"]}"#,
            &[
                (PassageField::Step, "Looked at the ledger. Found the second ledger."),
                (PassageField::Reason, "Why not."),
                (PassageField::Rejected, "guessing"),
                (PassageField::Rejected, "asking"),
            ][..],
        ),
        ("research.gap_opened", r#"{"description":"who?"}"#, &[(PassageField::Gap, "who?")]),
        ("research.gap_closed", r#"{"gap_id":"g1","description":"who?"}"#, &[]),
        (
            "source.found",
            r#"{"url":"https://a.example","title":"A"}"#,
            &[(PassageField::Source, "A https://a.example")],
        ),
        (
            "agent.tool_use",
            r#"{"name":"Bash","call_id":"c1","input":{"command":"a\nb","timeout":5}}"#,
            &[(PassageField::Call, "Bash\ncommand: a\nb\ntimeout: 5")],
        ),
        (
            "agent.tool_result",
            r#"{"call_id":"c1","content":[{"type":"text","text":"fine"}],"raw":{"x":"y"}}"#,
            &[(PassageField::Result, "fine")],
        ),
        ("agent.tool_use", r#"{"name":"mcp__sessionlog__x","input":{"find":"word"}}"#, &[]),
        ("agent.tool_use", r#"{"name":"x","server":"sessionlog","input":{"find":"w"}}"#, &[]),
        ("user.message", r#"{"content":"do it"}"#, &[(PassageField::Instruction, "do it")]),
        ("agent.message", r#"{"content":"done"}"#, &[(PassageField::Answer, "done")]),
        ("deploy.done", r#"{"host":{"port":80},"ok":true}"#, &[(PassageField::Event, "port: 80")]),
        ("deploy.done", "not JSON", &[]),
        ("research.step", r#"{"number":"x"}"#, &[]),
    ] {
        let found = passages_of(kind, body);
        let found: Vec<(PassageField, &str)> =
            found.iter().map(|(field, text)| (*field, text.as_str())).collect();
        assert_eq!(found, expected, "{kind} {body}");
    }
}

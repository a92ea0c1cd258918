//! Text that the user typed, as facts of a session.

use crate::event;
use sessionlog::{
    event::{Event, Origin},
    projection::Facts,
};

/// Returns the texts that count as instructions.
fn instructions_of(texts: &[&str]) -> Vec<String> {
    let mut facts = Facts::default();
    for (position, text) in (0..).zip(texts) {
        let body = serde_json::json!({ "content": text }).to_string();
        facts.fold(&Event { origin: Origin::User, ..event(position, "user.message", body) });
    }
    facts.progress.instructions().recent_instructions().map(|word| word.text.to_string()).collect()
}

#[test]
fn an_answer_is_trivial_when_it_only_says_to_continue() {
    for text in [
        "ok",
        "OK!",
        "yes",
        "Yes, please.",
        "y",
        "1",
        "go on",
        "ok, continue",
        "Thanks!",
        "👍",
        "yes, go ahead",
        "sounds good",
        "ok thanks",
        "weiter",
        "ja, mach weiter",
        "oui, vas-y",
        "sí, adelante",
        "好的",
        "はい",
        "да, продолжай",
        "Looks good to me, thank you",
        "...",
        "yes do it",
        "great, please proceed",
        "That's right",
    ] {
        assert_eq!(instructions_of(&["mend the door", text]), ["mend the door"], "{text}");
    }
    for text in [
        "yes, the blue one",
        "use port 8080",
        "stop",
        "keep it",
        "8080",
        "no, leave it",
        "continue with the tests",
        "ok but without the cache",
        "do it again",
        "fix it",
        "good morning tests",
        "2024",
    ] {
        assert_eq!(instructions_of(&["mend the door", text]), ["mend the door", text]);
    }
}

#[test]
fn text_generated_by_a_program_is_stripped_from_an_instruction() {
    for (text, expected) in [
        ("mend it", "mend it"),
        ("<system-reminder>\nbe brief\n</system-reminder>", ""),
        ("mend it\n<system-reminder>be brief</system-reminder>", "mend it"),
        ("<system-reminder>a</system-reminder>mend it<tick>7</tick> now", "mend it now"),
        ("<local-command-stdout>mend it", ""),
        ("why does <system-reminder> show up?", "why does <system-reminder> show up?"),
        ("a < b and <b>c</b>", "a < b and <b>c</b>"),
        ("<ticket>7</ticket> is open", "<ticket>7</ticket> is open"),
        ("<permissions instructions>x</permissions instructions>", ""),
        ("# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>x</INSTRUCTIONS>", ""),
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\ndo b",
            "do b",
        ),
        ("<sessionlog trust=\"recorded-data\">\n{}\n</sessionlog>\nread that", "read that"),
        ("sessionlog kept this: <sessionlog trust=\"x\">{}</sessionlog> more", ""),
    ] {
        assert_eq!(instructions_of(&[text]).concat(), expected, "{text}");
    }
}

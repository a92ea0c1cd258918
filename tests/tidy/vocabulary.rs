//! The types of events that the source names are on the page that documents them. It must not know
//! what a type means.

use std::collections::BTreeSet;

use super::{Source, assert_none, page, sources};

/// Domains of the types that this program gives a meaning.
const DOMAINS: [&str; 13] = [
    "agent",
    "audit",
    "context",
    "memory",
    "outcome",
    "plan",
    "research",
    "session",
    "source",
    "span",
    "system",
    "transcript",
    "user",
];
/// Texts of that form that are no types: fields of a request.
const NO_TYPES: [&str; 2] = ["agent.model", "agent.version"];

/// The quoted types in the lines of a source file that run outside tests.
fn types(source: &Source) -> BTreeSet<&str> {
    let is_type = |text: &&str| {
        let action = text.split_once('.').filter(|(domain, _)| DOMAINS.contains(domain));
        let plain = |action: &str| action.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        action.is_some_and(|(_, action)| !action.is_empty() && plain(action))
            // The beginning of some types is none.
            && !text.ends_with('_')
            && !NO_TYPES.contains(text)
    };
    let code = source.lines().count();
    let lines = source.text.lines().take(code).filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_type).collect()
}

fn undocumented(source: &Source, document: &str) -> Vec<String> {
    let is_read = source.path.starts_with("src/");
    let found = if is_read { types(source) } else { BTreeSet::new() };
    let missing = found.into_iter().filter(|name| !document.contains(&format!("`{name}`")));
    missing.map(|name| format!("{}: docs/events.md does not have `{name}`", source.path)).collect()
}

#[test]
fn every_type_of_event_is_documented() {
    let (_, document) = page("docs/events.md");
    let sources = sources();
    let all: BTreeSet<&str> =
        sources.iter().filter(|one| one.inside().is_some()).flat_map(types).collect();
    assert!(all.len() > 30, "the types are not read: {all:?}");
    assert_none(&sources.iter().flat_map(|one| undocumented(one, &document)).collect::<Vec<_>>());
}

#[test]
fn a_type_that_is_not_documented_is_reported() {
    let found = |path: &str, text: &str| undocumented(&Source::new(path, text), "`user.message`");
    let planted = "const A: [&str; 2] = [\"user.message\", \"user.whisper\"];\n";
    assert_eq!(found("src/log/a.rs", planted).len(), 1);
    assert!(found("src/log/a.rs", planted)[0].contains("`user.whisper`"));
    for innocent in [
        "// \"user.whisper\"\n",
        "let a = \"user.\"; let b = \"session.status_\"; let c = \"log.txt\";\n",
        "#[cfg(test)]\nmod tests {\n    const A: &str = \"user.whisper\";\n}\n",
    ] {
        assert_eq!(found("src/log/a.rs", innocent), Vec::<String>::new(), "{innocent}");
    }
    assert_eq!(found("tests/it/a.rs", planted), Vec::<String>::new());
    assert_eq!(found("benches/src/a.rs", planted), Vec::<String>::new());
}

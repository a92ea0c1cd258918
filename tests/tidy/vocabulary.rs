//! The register of event types, `src/event/kinds.rs`, is the only place that spells a type, and the
//! page that documents the types has each of them. It must not know what a type means.

use std::collections::BTreeSet;

use sessionlog::event::kinds;

use super::{Source, assert_none, page, sources};

/// The file that may spell types.
const REGISTER: &str = "src/event/kinds.rs";
/// Texts of that form that are no types: fields of a request.
const NO_TYPES: [&str; 2] = ["agent.model", "agent.version"];

/// The quoted types in the lines of a source file that run outside tests.
fn types(source: &Source) -> BTreeSet<&str> {
    let domains: BTreeSet<&str> =
        kinds::ALL.iter().filter_map(|kind| Some(kind.split_once('.')?.0)).collect();
    let is_type = |text: &&str| {
        let action = text.split_once('.').filter(|(domain, _)| domains.contains(domain));
        let plain = |action: &str| action.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        action.is_some_and(|(_, action)| !action.is_empty() && plain(action))
            && !NO_TYPES.contains(text)
    };
    let code = source.lines().count();
    let lines = source.text.lines().take(code).filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_type).collect()
}

fn outside_the_register(source: &Source) -> Vec<String> {
    let is_read = source.path.starts_with("src/") && source.path != REGISTER;
    let found = if is_read { types(source) } else { BTreeSet::new() };
    let fault = |name| format!("{}: `{name}`: use its constant of {REGISTER}", source.path);
    found.into_iter().map(fault).collect()
}

#[test]
fn every_type_of_event_is_documented() {
    let (_, document) = page("docs/events.md");
    let missing = kinds::ALL.iter().filter(|name| !document.contains(&format!("`{name}`")));
    let fault = |name| format!("docs/events.md does not have `{name}`");
    assert_none(&missing.map(fault).collect::<Vec<_>>());
    assert_none(&sources().iter().flat_map(outside_the_register).collect::<Vec<_>>());
}

#[test]
fn a_type_outside_of_the_register_is_reported() {
    let found = |path: &str, text: &str| outside_the_register(&Source::new(path, text));
    let planted = "const A: [&str; 2] = [\"user.message\", \"user.whisper\"];\n";
    assert_eq!(found("src/log/a.rs", planted).len(), 2);
    assert!(found("src/log/a.rs", planted)[1].contains("`user.whisper`"));
    for innocent in [
        "// \"user.whisper\"\n",
        "let a = \"user.\"; let b = \"log.txt\"; let c = \"agent.model\";\n",
        "#[cfg(test)]\nmod tests {\n    const A: &str = \"user.whisper\";\n}\n",
    ] {
        assert_eq!(found("src/log/a.rs", innocent), Vec::<String>::new(), "{innocent}");
    }
    assert_eq!(found("tests/it/a.rs", planted), Vec::<String>::new());
    assert_eq!(found("benches/src/a.rs", planted), Vec::<String>::new());
    assert_eq!(found(REGISTER, planted), Vec::<String>::new());
}

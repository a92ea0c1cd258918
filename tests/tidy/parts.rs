//! The parts of the embedded engine are in order, and what belongs to a type is in its part: an
//! inherent `impl` of a type that another part declares would call across parts without a path to
//! it. A part is a room or, inside the embedded engine, a file or directory of it. It must not
//! judge which part a type belongs to.

use std::collections::BTreeMap;

use super::{
    Source, assert_none,
    circles::{File, Module, edges, files, is_part_of_name, module, target},
    names, sources,
};

/// The parts of the embedded engine, files and directories of `src/store/local`, bottom to top: a
/// file uses files of its own part and of those before it.
const PARTS: [&str; 20] = [
    "options",
    "layout",
    "wait",
    "inspect",
    "keys",
    "context",
    "session",
    "journal",
    "catalogue",
    "derived",
    "segments",
    "removal",
    "commit",
    "upkeep",
    "recovery",
    "making",
    "open",
    "engine",
    "vault",
    "migrate",
];

/// Uses of a part of the embedded engine by one before it.
fn out_of_order(sources: &[Source]) -> Vec<String> {
    let files = files(sources);
    let part = |module: &Module| {
        let [store, local, part, ..] = &module[..] else { return None };
        let inside = (store.as_str(), local.as_str()) == ("store", "local");
        inside.then(|| PARTS.iter().position(|name| name == part))
    };
    let mut faults = Vec::new();
    for (from, to) in edges(&files) {
        let Some(at) = part(from) else { continue };
        if at.is_none() {
            faults.push(format!("{} is no part of PARTS", from.join("::")));
        }
        for to in to.iter().filter(|to| part(to).is_some_and(|to| to > at)) {
            faults.push(format!("{} uses {}, which comes later", from.join("::"), to.join("::")));
        }
    }
    faults
}

#[test]
fn each_part_of_the_engine_uses_only_earlier_parts() {
    assert_none(&out_of_order(&sources()));
}

#[test]
fn a_part_that_uses_a_later_one_is_reported() {
    let found = |journal: &str, segments: &str| {
        let texts = [("journal/mod", journal), ("segments/mod", segments), ("mod", "mod rank {}")];
        let path = |name: &str| format!("src/store/local/{name}.rs");
        out_of_order(&texts.map(|(name, text)| Source::new(&path(name), text)))
    };
    assert_eq!(found("use super::rank;", "use super::journal::A;"), Vec::<String>::new());
    let later = found("use super::segments::A;", "");
    assert_eq!(later, ["store::local::journal uses store::local::segments, which comes later"]);
    let unknown = [Source::new("src/store/local/a.rs", "")];
    assert_eq!(out_of_order(&unknown), ["store::local::a is no part of PARTS"]);
}

/// The one `impl` that is elsewhere: what the rules say of an entry of `log`, until they have an
/// entry of their own.
const RULED: &str = "`impl Entry` belongs to log";

/// The part of a module: its room or, inside the embedded engine, what is directly below it.
fn part(module: &[String]) -> &[String] {
    let inside = module.starts_with(&["store".to_owned(), "local".to_owned()]);
    module.get(..if inside { 3 } else { 1 }).unwrap_or(module)
}

/// The types of inherent `impl`s outside of tests, each with its line, as paths.
fn inherent(source: &Source) -> Vec<(usize, Vec<String>)> {
    let code: String = source.lines().fold(String::new(), |all, (_, line)| all + line + "\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let begins = code[..at].chars().next_back().is_none_or(|c| c == '\n' || c == ' ');
        let first = code[..at].rsplit('\n').next().unwrap_or_default().trim().is_empty();
        let rest = &code[at + "impl".len()..];
        if !begins || !first || rest.starts_with(is_part_of_name) {
            continue;
        }
        let header = rest.split('{').next().unwrap_or_default();
        let (mut depth, mut plain, mut before) = (0_i32, String::new(), ' ');
        for c in header.chars() {
            match c {
                '<' => depth += 1,
                '>' if before != '-' => depth -= 1,
                c if depth == 0 => plain.push(c),
                _ => {}
            }
            before = c;
        }
        if names(&plain, "for") {
            continue;
        }
        let name = plain.split_whitespace().find(|word| *word != "dyn").unwrap_or_default();
        let path = name.split("::").map(str::to_owned).collect();
        found.push((code[..at].matches('\n').count() + 1, path));
    }
    found
}

/// True if a file declares a type of that name.
fn declares(source: &Source, name: &str) -> bool {
    let kinds = ["struct", "enum", "union", "trait", "type"];
    source.lines().any(|(_, line)| kinds.iter().any(|kind| names(line, &format!("{kind} {name}"))))
}

/// The module that declares the type of an `impl`, as far as its file names it.
fn home(files: &BTreeMap<Module, File<'_>>, at: &Module, path: &[String]) -> Option<Module> {
    let first = path.first()?;
    let used = files.get(at)?.uses.iter().find(|(_, last)| last == first);
    let path = match used {
        Some((used, _)) => [used, path.get(1..)?].concat(),
        None => path.to_vec(),
    };
    target(files, at, &path)
}

/// Inherent `impl`s outside the part of their type.
fn misplaced(sources: &[Source]) -> Vec<String> {
    let files = files(sources);
    let mut faults = Vec::new();
    for source in sources {
        let Some(at) = module(&source.path) else { continue };
        for (line, path) in inherent(source) {
            if matches!(&path[..], [name] if declares(source, name)) {
                continue;
            }
            let Some(home) = home(&files, &at, &path).filter(|home| part(home) != part(&at)) else {
                continue;
            };
            let (name, home) = (path.join("::"), part(&home).join("::"));
            faults.push(format!("{}:{line}: `impl {name}` belongs to {home}", source.path));
        }
    }
    faults
}

#[test]
fn the_impl_of_a_type_is_in_its_part() {
    let (ruled, faults): (Vec<_>, Vec<_>) = misplaced(&sources())
        .into_iter()
        .partition(|fault| fault.starts_with("src/store/rules/") && fault.ends_with(RULED));
    assert_none(&faults);
    assert_eq!(ruled.len(), 1, "the exception is not needed any more");
}

#[test]
fn an_impl_outside_the_part_of_its_type_is_reported() {
    let keys = ("src/store/local/keys/mod.rs", "pub(super) mod ring;\npub struct Keys;\n");
    let found = |path: &str, text: &str| {
        let ring = ("src/store/local/keys/ring.rs", "pub struct Ring<T>(T);\n");
        let store = ("src/store/mod.rs", "mod local;\npub use local::Local;\npub struct Info;\n");
        let local = ("src/store/local/mod.rs", "mod keys;\nmod upkeep;\npub struct Local;\n");
        let mut texts = [keys, ring, store, local].to_vec();
        texts.retain(|(one, _)| *one != path);
        let sources: Vec<_> =
            texts.iter().chain([&(path, text)]).map(|(p, t)| Source::new(p, t)).collect();
        misplaced(&sources)
    };
    let upkeep = "src/store/local/upkeep/rotate.rs";
    for (path, text, expected) in [
        (upkeep, "use super::super::keys::Keys;\nimpl Keys {\n}", "`impl Keys` belongs to"),
        (upkeep, "use crate::store::local::keys::Keys as K;\n\nimpl K {}", ":3: `impl K`"),
        (upkeep, "use super::super::keys;\nimpl keys::Keys {}", "`impl keys::Keys`"),
        (
            upkeep,
            "use super::super::keys::ring::Ring;\nimpl<T: Into<u8>> Ring<T>\nwhere\n    T: Copy,\n{}",
            "store::local::keys",
        ),
        ("src/service/a.rs", "use crate::store::{self, Info};\nimpl Info {}", "belongs to store"),
    ] {
        let faults = found(path, text);
        assert!(faults.len() == 1 && faults.iter().all(|f| f.contains(expected)), "{faults:?}");
    }
    for (path, text) in [
        (upkeep, "use super::super::keys::Keys;\nimpl Drop for Keys {}\nimpl Own {}\nstruct Own;"),
        (upkeep, "use super::super::keys::Keys;\n#[cfg(test)]\nmod tests {\n    impl Keys {}\n}"),
        (
            upkeep,
            "use super::super::keys::Keys;\n// impl Keys {}\nfn f() -> impl Keys { \"impl Keys {\" }",
        ),
        ("src/store/local/keys/rotate.rs", "use super::Keys;\nimpl Keys {}\nimpl super::Keys {}"),
        ("src/store/a.rs", "use super::Info;\nimpl Info {}"),
    ] {
        assert_eq!(found(path, text), Vec::<String>::new(), "{text}");
    }
}

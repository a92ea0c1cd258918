//! The recipes of docs/how-to.md: each lists the files that name its example, all of them and no
//! other. It must not judge what stands in a file.

use std::{collections::BTreeSet, fs};

use super::{assert_none, files, names, root};

/// A recipe's heading, and the words by which code names its example; a word in quotes is a name of
/// the command line, which means something else in other rooms.
const RECIPES: [(&str, &[&str]); 5] = [
    // Backups have a verb of that name, too.
    (
        "Add a verb",
        &[
            "for Restore",
            "Restore(SessionArgs)",
            "Verb::Restore",
            "<Restore>",
            "undelete_session",
            "\"restore\"",
        ],
    ),
    (
        "Add an event type with a view",
        &["CONTEXT_COMPACTED = ", "Compactions", "CompactionsAnswer", "fn print_compactions"],
    ),
    ("Add a storage engine", &["impl Store for Model", "mod model", "model::Model"]),
    (
        "Add a step of erasure",
        &["clear_read_cache", "pub(crate) struct ReadCache", "read_cache::ReadCache"],
    ),
    ("Add a setting", &["hook_wait"]),
];

/// Files that a person edits for a verb, at most.
const FILES_OF_A_VERB_MAX: usize = 6;

/// The files that a recipe lists: what stands between backticks at the beginning of an item.
fn listed(document: &str, heading: &str) -> BTreeSet<String> {
    let section = document.split("\n## ").find(|section| section.starts_with(heading));
    let items = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("- `"));
    items.filter_map(|item| item.split_once('`')).map(|(path, _)| path.to_owned()).collect()
}

/// The code of a file: without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

fn is_named(path: &str, text: &str, words: &[&str]) -> bool {
    let code = code(text);
    let counts = |word: &&&str| !word.starts_with('"') || path.starts_with("src/cli/");
    words.iter().filter(counts).any(|word| names(&code, word))
}

/// Differences between a recipe's list and the code.
fn differences(
    heading: &str,
    listed: &BTreeSet<String>,
    words: &[&str],
    sources: &[(String, String)],
) -> Vec<String> {
    let of_tests = |path: &str| path.ends_with("/tests.rs");
    let is_example = |path: &str, text: &str| !of_tests(path) && is_named(path, text, words);
    let named = sources.iter().filter(|(path, text)| is_example(path, text));
    let named: BTreeSet<&String> = named.map(|(path, _)| path).collect();
    let lacking = named.iter().filter(|path| !listed.contains(**path));
    let lacking = lacking.map(|path| format!("{heading}: it does not list {path}"));
    let beyond = listed.iter().filter(|path| {
        let text = || fs::read_to_string(root().join(path)).unwrap_or_default();
        match path.as_str() {
            source if source.starts_with("src/") => !named.contains(path),
            test if test.starts_with("tests/") => !is_named(test, &text(), words),
            _ => text().is_empty(),
        }
    });
    let beyond = beyond.map(|path| format!("{heading}: {path} does not name the example"));
    lacking.chain(beyond).collect()
}

#[test]
fn every_recipe_lists_the_files_that_name_its_example() {
    let document = fs::read_to_string(root().join("docs/how-to.md")).unwrap();
    let sources =
        [files("src", "rs"), files("tests/sim", "rs"), files("examples", "toml")].concat();
    for (heading, words) in RECIPES {
        let listed = listed(&document, heading);
        assert!(!listed.is_empty(), "docs/how-to.md has no list under {heading:?}");
        assert_none(&differences(heading, &listed, words, &sources));
    }
    assert_eq!(document.matches("\n## ").count(), RECIPES.len(), "a recipe without a test");
}

#[test]
fn the_recipe_for_a_verb_lists_few_files() {
    let document = fs::read_to_string(root().join("docs/how-to.md")).unwrap();
    assert!(listed(&document, "Add a verb").len() <= FILES_OF_A_VERB_MAX);
}

#[test]
fn an_inaccurate_list_of_files_is_reported() {
    let sources = [
        ("src/a.rs", "struct Restore;"),
        ("src/b.rs", "// Restore\nconst A: &str = \"restore\";"),
        ("src/cli/c.rs", "const ALL: [&str; 1] = [\"restore\"];"),
    ];
    let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let differs = |paths: &[&str]| {
        let listed = paths.iter().map(|path| (*path).to_owned()).collect();
        differences("R", &listed, &["Restore", "\"restore\""], &sources)
    };
    assert_eq!(differs(&["src/a.rs", "src/cli/c.rs"]), Vec::<String>::new());
    assert_eq!(differs(&["src/a.rs"]), ["R: it does not list src/cli/c.rs"]);
    let beyond = ["R: src/b.rs does not name the example"];
    assert_eq!(differs(&["src/a.rs", "src/b.rs", "src/cli/c.rs"]), beyond);
    assert_eq!(listed("# H\n\n## R\n\n- `src/a.rs`: `x`\n- no\n\n## S\n- `b`", "R").len(), 1);
}

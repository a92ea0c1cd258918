//! The words of the documents: plain ones. Which are not, and what to write instead, is a table of
//! docs/glossary.md, "Words not to use"; this reads it. It must not judge code or names of tests.

use std::fs;

use super::{PAGES, assert_none, files, page, root};

/// The words that documents must not use, each as its parts: the first column of the glossary's
/// table "Words not to use".
fn words_not_to_use() -> Vec<Vec<String>> {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let table =
        glossary.split("## Words not to use").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let words: Vec<Vec<String>> = rows
        .flat_map(|cell| cell.split(['`', ',']))
        .map(|word| word.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|parts| !parts.is_empty())
        .collect();
    assert!(words.len() > 15, "docs/glossary.md: the table of words not to use is not read");
    words
}

/// The words of a document with their lines, in lower case; an empty one where a phrase ends. Code
/// and the targets of links are left out, and in the guarantees the rows of the ledger's tables:
/// they quote names of tests.
fn prose(document: &str, text: &str) -> Vec<(usize, String)> {
    let (mut words, mut in_block) = (Vec::new(), false);
    for (line, text) in (1..).zip(text.lines()) {
        let fence = text.trim_start().starts_with("```");
        in_block ^= fence;
        let row = document == "docs/guarantees.md" && text.starts_with('|');
        if fence || in_block || row {
            words.push((line, String::new()));
            continue;
        }
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_part = |c: char| c.is_alphanumeric();
            let until = |close: &str, from: usize| {
                rest[from..].find(close).map_or(rest.len(), |at| from + at + close.len())
            };
            let length = match first {
                '`' => until("`", 1),
                ']' if rest.starts_with("](") => until(")", 2),
                first if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
                first => first.len_utf8(),
            };
            if !first.is_whitespace() {
                let word =
                    if is_part(first) { rest[..length].to_lowercase() } else { String::new() };
                words.push((line, word));
            }
            rest = &rest[length..];
        }
    }
    words
}

fn unplain(document: &str, text: &str) -> Vec<String> {
    let (words, mut faults) = (prose(document, text), Vec::new());
    for refused in words_not_to_use() {
        let says = |at: &[(usize, String)]| at.iter().map(|(_, word)| word).eq(refused.iter());
        let found = words.windows(refused.len()).filter(|at| says(at)).filter_map(|at| at.first());
        for (line, _) in found {
            let word = refused.join(" ");
            faults.push(format!(
                "{document}:{line}: `{word}`: see docs/glossary.md, Words not to use"
            ));
        }
    }
    faults
}

/// Pages that a user reads. docs/cli.md is none of them here: it is generated, and the help texts
/// are checked where it is generated. A decision is kept as it was written.
fn pages() -> Vec<(String, String)> {
    let mut pages = files("docs", "md");
    pages.retain(|(path, _)| !path.starts_with("docs/decisions/") && path != "docs/cli.md");
    pages.extend(PAGES.iter().map(|path| page(path)));
    pages
}

#[test]
fn documents_use_plain_words() {
    let pages = pages();
    assert_none(&pages.iter().flat_map(|(path, text)| unplain(path, text)).collect::<Vec<_>>());
}

#[test]
fn a_word_that_is_not_plain_is_reported() {
    for (text, expected) in [
        ("Nobody reads it.", "d:1: `nobody`"),
        ("one\n(whoever asks)", "d:2: `whoever`"),
        ("The reader says he's done.", "d:1: `he`"),
        ("| a | two doors |", "d:1: `doors`"),
        ("what lies\n  behind it", "d:1: `lies behind`"),
        ("```\ncode\n```\nit goes on", "d:4: `goes on`"),
        ("The caller **is told** so.", "d:1: `is told`"),
    ] {
        let found = unplain("d", text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{text:?} gave {found:?}");
    }
    for text in [
        "the other; she-oak, outdoors, hello",
        "`nobody` and [a page](docs/door.md)",
        "```text\nnobody goes on\n```",
        "it goes, on the whole, well",
        "where it is. Told so",
    ] {
        assert_eq!(unplain("d", text), Vec::<String>::new(), "{text:?}");
    }
    let row = "| nobody | `tests/a.rs::b` |";
    assert_eq!(unplain("docs/guarantees.md", row), Vec::<String>::new());
    assert_eq!(unplain("docs/http.md", row).len(), 1);
}

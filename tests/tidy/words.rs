//! Documents, comments, names and texts use plain words, and the name of a test says what happens.
//! The words not to use, and what to write instead, are a table of docs/glossary.md, "Words not to
//! use"; this reads it. It must not judge statements.

use std::fs;

use super::{PAGES, Source, assert_none, files, literal, page, root, sources};

/// Words that sources must not use, besides those of the glossary's table: documents
/// use them in their plain sense.
const REFUSED_IN_SOURCES: [&str; 3] = ["lies", "somebody", "told"];

/// Published names that are one of the refused words: a value that clients send, a setting. A text
/// that is no more than such a name is no prose.
const PUBLISHED: [&str; 2] = ["told", "settle_after"];

/// Files whose texts are what people write, to be recognised.
const OF_PEOPLE: [&str; 3] =
    ["src/projection/user_text.rs", "src/search/irregular.rs", "src/search/stop_words.rs"];

/// With these a test's name is a riddle: it names neither an actor nor what happens.
const RIDDLES: [&str; 4] = ["what", "who", "whose", "nobodys"];

/// Keywords before a name that a file declares.
const DECLARES: [&str; 8] = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"];

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
/// and the targets of links are left out, and in guarantees and trials the rows of tables: they
/// quote names of tests.
fn prose(document: &str, text: &str) -> Vec<(usize, String)> {
    let (mut words, mut in_block) = (Vec::new(), false);
    for (line, text) in (1..).zip(text.lines()) {
        let fence = text.trim_start().starts_with("```");
        in_block ^= fence;
        let of_tests = ["docs/guarantees.md", "docs/trials.md"];
        let row = of_tests.contains(&document) && text.starts_with('|');
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

fn unplain(document: &str, text: &str, refused: &[Vec<String>]) -> Vec<String> {
    let (words, mut faults) = (prose(document, text), Vec::new());
    for refused in refused {
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

/// The comments of a file, each on its own line; `|` on the other lines ends a phrase.
fn comments(text: &str) -> String {
    let mut lines = vec!["|"; text.lines().count()];
    let (mut rest, mut line, mut before) = (text, 0, None);
    while let Some(first) = rest.chars().next() {
        let taken = literal(rest, before);
        let (head, tail) = rest.split_at(taken.unwrap_or(first.len_utf8()));
        if head.starts_with("//") {
            let comment = head.trim_start_matches('/').trim_start_matches('!').trim();
            *lines.get_mut(line).unwrap() = comment;
        }
        line += head.matches('\n').count();
        before = if taken.is_some() { Some(' ') } else { Some(first) };
        rest = tail;
    }
    lines.join("\n")
}

/// The texts of a source outside of tests, each on its own lines; `|` ends a phrase. What a format
/// string names in braces is no text.
fn texts(source: &Source) -> String {
    let end = source.lines().count();
    let mut lines = vec![String::from("|"); source.text.lines().count()];
    let (mut rest, mut line, mut before) = (source.text.as_str(), 0, None);
    while let Some(first) = rest.chars().next() {
        let taken = literal(rest, before);
        let (head, tail) = rest.split_at(taken.unwrap_or(first.len_utf8()));
        let is_published = PUBLISHED.contains(&head.trim_matches('"'));
        if taken.is_some() && !head.starts_with('/') && !is_published && line < end {
            for (at, text) in (line..).zip(head.lines()) {
                let text = text.strip_suffix('\\').unwrap_or(text);
                let plain = text.replace("\\n", " ").replace("```", "|");
                let said = plain.split('{').flat_map(|part| match part.split_once('}') {
                    Some((_, said)) => [" | ", said],
                    None => ["", part],
                });
                let into = lines.get_mut(at).unwrap();
                if at > line {
                    into.clear();
                }
                into.extend(said.chain([" "]));
            }
            lines.get_mut(line + head.matches('\n').count()).unwrap().push('|');
        }
        line += head.matches('\n').count();
        before = if taken.is_some() { Some(' ') } else { Some(first) };
        rest = tail;
    }
    lines.join("\n")
}

/// The words of a name: `goes_on` and `GoesOn` have two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        let begins = c == '_' || c.is_uppercase() && name.chars().any(char::is_lowercase);
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        words.last_mut().unwrap().extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    words
}

/// Names that the file declares outside of tests, with their lines.
fn names_of(source: &Source) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        let mut parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        while let Some(part) = parts.next() {
            if DECLARES.contains(&part) {
                found.extend(parts.next().map(|name| (line, name)));
            }
        }
    }
    found
}

/// Words of a source file's comments and names that are not plain.
fn unplain_source(source: &Source) -> Vec<String> {
    let mut refused = words_not_to_use();
    refused.extend(REFUSED_IN_SOURCES.map(|word| vec![word.to_owned()]));
    let mut faults = unplain(&source.path, &comments(&source.text), &refused);
    if source.inside().is_some() && !OF_PEOPLE.contains(&source.path.as_str()) {
        faults.extend(unplain(&source.path, &texts(source), &refused));
    }
    for (line, name) in names_of(source) {
        let words = words_of(name);
        let says =
            |refused: &&Vec<String>| words.windows(refused.len()).any(|at| at == &refused[..]);
        if refused.iter().any(|refused| says(&refused)) {
            faults.push(format!("{}:{line}: the name `{name}` is not plain", source.path));
        }
    }
    faults
}

/// Names of tests that begin with a riddle or use words that are not plain.
fn riddles(source: &Source, refused: &[Vec<String>]) -> Vec<String> {
    let (mut faults, mut is_test) = (Vec::new(), false);
    for (line, text) in (1..).zip(source.code.lines().map(str::trim_start)) {
        is_test |= text.starts_with("#[test]") || text.starts_with("#[tokio::test");
        let declared = text.strip_prefix("async ").unwrap_or(text).strip_prefix("fn ");
        let Some(name) = declared.filter(|_| is_test).and_then(|name| name.split('(').next())
        else {
            continue;
        };
        is_test = false;
        let words = words_of(name);
        let begins = words.first().is_some_and(|word| RIDDLES.contains(&word.as_str()));
        let says =
            |refused: &&Vec<String>| words.windows(refused.len()).any(|at| at == &refused[..]);
        if begins || refused.iter().any(|refused| says(&refused)) {
            faults.push(format!("{}:{line}: `{name}` does not say what happens", source.path));
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
    let (pages, refused) = (pages(), words_not_to_use());
    let faults = pages.iter().flat_map(|(path, text)| unplain(path, text, &refused));
    assert_none(&faults.collect::<Vec<_>>());
}

/// The lines of a published description that a person or a model reads; the others are empty.
fn descriptions(document: &str) -> String {
    let is_text = |line: &str| {
        let begins = |name: &&str| line.starts_with(&format!("\"{name}\": \""));
        ["description", "summary", "title"].iter().any(begins)
    };
    let lines = document.lines().map(str::trim_start);
    lines.map(|line| if is_text(line) { line } else { "" }.to_owned() + "\n").collect()
}

#[test]
fn published_descriptions_use_plain_words() {
    let refused = words_not_to_use();
    let of = |path: &str| {
        let text = fs::read_to_string(root().join(path)).unwrap();
        unplain(path, &descriptions(&text), &refused)
    };
    assert_none(&[of("proto/openapi.json"), of("proto/mcp/tools.json")].concat());
    let planted = "{\n  \"summary\": \"Nobody reads it.\",\n  \"other\": \"nobody\"\n}";
    assert_eq!(unplain("d", &descriptions(planted), &refused).len(), 1);
}

#[test]
fn test_names_have_no_vague_words() {
    let mut refused = words_not_to_use();
    refused.extend(REFUSED_IN_SOURCES.map(|word| vec![word.to_owned()]));
    assert_none(&sources().iter().flat_map(|one| riddles(one, &refused)).collect::<Vec<_>>());
    for (name, faults) in [
        ("what_is_wrong_is_refused", 1),
        ("a_call_is_answered_by_nobody", 1),
        ("a_reader_goes_on", 1),
        ("a_whole_file_says_so", 0),
    ] {
        let source = Source::new("tests/it/a.rs", &format!("#[test]\nasync fn {name}() {{}}\n"));
        assert_eq!(riddles(&source, &refused).len(), faults, "{name}");
        let helper = Source::new("tests/it/a.rs", &format!("fn {name}() {{}}\n"));
        assert_eq!(riddles(&helper, &refused).len(), 0, "{name}");
    }
}

#[test]
fn comments_names_and_texts_use_plain_words() {
    // The planted faults of this file are such words.
    let sources = sources().into_iter().filter(|source| source.path != "tests/tidy/words.rs");
    assert_none(&sources.flat_map(|source| unplain_source(&source)).collect::<Vec<_>>());
}

#[test]
fn a_comment_or_name_that_is_not_plain_is_reported() {
    for (text, expected) in [
        ("/// Nobody reads it.\nfn a() {}", "d:1: `nobody`"),
        ("fn a() {\n    let b = 1; // It goes\n    // on.\n}", "d:2: `goes on`"),
        ("//! Where it lies.", "d:1: `lies`"),
        ("fn nobody() {}", "d:1: the name `nobody`"),
        ("pub(super) struct WasTold(u64);", "d:1: the name `WasTold`"),
        ("fn a() {\n    f(\"it\", \"goes on\");\n}", "d:2: `goes on`"),
        ("const A: &str = \"It goes \\\n    on {at}\";", "d:1: `goes on`"),
        ("const A: &str = r#\"so \"he\" said\"#;", "d:1: `he`"),
    ] {
        let found = unplain_source(&Source::new("src/d.rs", text));
        let expected = expected.replacen('d', "src/d.rs", 1);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{text:?} gave {found:?}");
    }
    for text in [
        "let nobody = f(\"{nobody} it goes\", \"on `goes on`\");",
        "let source = \"told\";",
        "// It goes.\nlet a = 1;\n// On time, `told` and `fn nobody()`.",
        "#[cfg(test)]\nmod tests {\n    fn nobody() { f(\"goes on\") }\n}",
    ] {
        assert_eq!(
            unplain_source(&Source::new("src/d.rs", text)),
            Vec::<String>::new(),
            "{text:?}"
        );
    }
}

#[test]
fn a_word_that_is_not_plain_is_reported() {
    let refused = words_not_to_use();
    for (text, expected) in [
        ("Nobody reads it.", "d:1: `nobody`"),
        ("one\n(whoever asks)", "d:2: `whoever`"),
        ("The reader says he's done.", "d:1: `he`"),
        ("| a | two doors |", "d:1: `doors`"),
        ("what lies\n  behind it", "d:1: `lies behind`"),
        ("```\ncode\n```\nit goes on", "d:4: `goes on`"),
        ("The caller **is told** so.", "d:1: `is told`"),
    ] {
        let found = unplain("d", text, &refused);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{text:?} gave {found:?}");
    }
    for text in [
        "the other; she-oak, outdoors, hello",
        "`nobody` and [a page](docs/door.md)",
        "```text\nnobody goes on\n```",
        "it goes, on the whole, well",
        "where it is. Told so",
    ] {
        assert_eq!(unplain("d", text, &refused), Vec::<String>::new(), "{text:?}");
    }
    let row = "| nobody | `tests/a.rs::b` |";
    assert_eq!(unplain("docs/guarantees.md", row, &refused), Vec::<String>::new());
    assert_eq!(unplain("docs/http.md", row, &refused).len(), 1);
}

//! Recorded text inside of a document that this program writes: Markdown, and the plain text that
//! a restore gives. Whatever the text has, it makes no heading, rule, table, HTML, image, link or
//! definition, and ends nothing that it did not begin; code stays code. A bare address stays a
//! word. It must not shorten, nor know what a document is about.

/// Languages that a block of code may name. Another word may be a renderer's command: some draw
/// pictures of a block, and load them.
const LANGUAGES: [&str; 33] = [
    "bash",
    "c",
    "console",
    "cpp",
    "cs",
    "css",
    "diff",
    "go",
    "html",
    "ini",
    "java",
    "javascript",
    "js",
    "json",
    "jsonl",
    "jsx",
    "kotlin",
    "lua",
    "markdown",
    "md",
    "php",
    "python",
    "py",
    "rb",
    "rs",
    "ruby",
    "rust",
    "sh",
    "sql",
    "swift",
    "toml",
    "ts",
    "yaml",
];
/// Backticks of a fence at least.
const FENCE_MIN: usize = 3;
/// Characters of a line that underlines a heading, is a rule, or makes the line above it a table.
const RULES: &str = "-_*=:|~+";
/// Characters with a meaning within a line of its own.
const MARKS: &str = "\\`*_[]{<>#|~$";

/// A recorded text as paragraphs, lists, quotations and blocks of code, from the start of a line.
#[must_use]
pub fn block(text: &str) -> String {
    with_code(text, push_line)
}

/// A recorded text whose blocks of code stay code; the other lines are written by `push`.
fn with_code(text: &str, push: impl Fn(&str, &mut String)) -> String {
    let text = plain(text);
    let mut made = String::with_capacity(text.len() + 16);
    let mut lines = text.split('\n');
    while let Some(line) = lines.next() {
        match Opening::parse(line) {
            Some(opening) => {
                let code = lines.by_ref().take_while(|line| !opening.ends_at(line));
                let code: Vec<&str> = code.map(|line| opening.without_indent(line)).collect();
                made.push_str(&in_fence(opening.language, &code.join("\n")));
            }
            None => push(line, &mut made),
        }
        made.push('\n');
    }
    made.pop();
    made
}

/// A recorded text on one line, behind words of our own: in a heading, an item, a paragraph.
#[must_use]
pub fn inline(text: &str) -> String {
    let line = on_one_line(text);
    let mut made = String::with_capacity(line.len());
    for (at, c) in line.char_indices() {
        let rest = line.get(at..).unwrap_or_default();
        if MARKS.contains(c) || begins_entity(rest) {
            made.push('\\');
        }
        made.push(c);
    }
    made
}

/// A name on one line, as code; empty for an empty one. Not for a cell of a table.
#[must_use]
pub fn code(text: &str) -> String {
    let line = on_one_line(text);
    if line.is_empty() {
        return line;
    }
    let ticks = "`".repeat(longest_run(&line) + 1);
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// A recorded text as one block of code.
#[must_use]
pub fn fenced(text: &str) -> String {
    in_fence("", &plain(text))
}

/// A recorded text as an item of a text for a model, whose headings and items begin lines: it stays
/// as it was written, but for what begins a part of a document, and all lines but the first are
/// indented. Links, pictures and HTML within a line are left as they are.
#[must_use]
pub fn item(text: &str) -> String {
    let push = |line: &str, made: &mut String| {
        let (before, text) = line.split_at(start(line));
        made.push_str(before);
        if begins_part(text) {
            made.push('\\');
        }
        made.push_str(text);
    };
    with_code(text, push).replace('\n', "\n  ")
}

/// An [`item`] behind a label: a block of code begins a line of its own.
#[must_use]
pub fn labelled(label: &str, item: &str) -> String {
    let gap = if item.starts_with("```") { "\n  " } else { " " };
    format!("{label}{gap}{item}")
}

/// True if a line of text begins a heading, a rule, a definition, a table or HTML.
fn begins_part(text: &str) -> bool {
    is_rule(text)
        || text.starts_with(['#', ':', '<', '|'])
        || text.starts_with('[') && text.contains("]:")
}

fn is_rule(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_whitespace() || RULES.contains(c))
}

/// A recorded text in a plain text with headings and items at the beginning of lines: all lines but
/// the first are indented.
#[must_use]
pub fn hanging(text: &str) -> String {
    plain(text).replace('\n', "\n  ")
}

fn in_fence(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(FENCE_MIN - 1) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// The text with one kind of line end, without characters that steer what shows it.
fn plain(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => made.push('\n'),
            '\n' | '\t' => made.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => made.push('\u{fffd}'),
            c if c.is_control() => made.push('\u{fffd}'),
            c => made.push(c),
        }
    }
    made
}

fn on_one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// The first line of a block of code.
struct Opening<'a> {
    mark: char,
    length: usize,
    indent: usize,
    language: &'a str,
}

impl<'a> Opening<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, text) = line.split_at(start(line));
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        if length < FENCE_MIN || mark == '`' && info.contains('`') {
            return None;
        }
        let language = info.split_whitespace().next().unwrap_or_default();
        let language = if LANGUAGES.contains(&language) { language } else { "" };
        Some(Self { mark, length, indent: before.chars().count(), language })
    }

    fn ends_at(&self, line: &str) -> bool {
        let line = line.trim_matches([' ', '\t', '>']);
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// A line of the block without what stands before its first one: spaces, and marks of a
    /// quotation.
    fn without_indent<'l>(&self, line: &'l str) -> &'l str {
        let indented = line.char_indices().take(self.indent);
        let before = indented.take_while(|(_, c)| matches!(c, ' ' | '>')).count();
        line.get(before..).unwrap_or_default()
    }
}

/// Start of the text of a line: behind spaces and marks of quotations and of lists.
fn start(line: &str) -> usize {
    let mut at = 0;
    loop {
        let text = line.get(at..).unwrap_or_default().trim_start();
        at = line.len() - text.len();
        let mark = mark_of(text);
        if mark == 0 {
            return at;
        }
        at += mark;
    }
}

/// Bytes of the mark of a quotation or of an item that a text begins with.
fn mark_of(text: &str) -> usize {
    if text.starts_with('>') {
        return 1;
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (is_mark, length) = match digits {
        0 => (text.starts_with(['-', '+', '*']), 1),
        _ => (text.get(digits..).is_some_and(|rest| rest.starts_with(['.', ')'])), digits + 1),
    };
    let rest = text.get(length..).unwrap_or_default();
    let has_text = rest.starts_with([' ', '\t']) && !rest.trim().is_empty();
    if is_mark && has_text { length } else { 0 }
}

fn push_line(line: &str, made: &mut String) {
    let (before, text) = line.split_at(start(line));
    made.push_str(before);
    if is_rule(text) || text.starts_with(['#', ':']) {
        made.push('\\');
    }
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if c == '`' {
            at += push_ticks(rest, made);
            continue;
        }
        let next = rest.chars().nth(1);
        let has_meaning = match c {
            '<' | '$' => true,
            '[' => matches!(next, Some('[' | '^')),
            ']' => matches!(next, Some('(' | '[' | ':')),
            '\\' => next.is_none_or(|next| next.is_ascii_punctuation()),
            _ => begins_entity(rest),
        };
        if has_meaning {
            made.push('\\');
        }
        made.push(c);
        at += c.len_utf8();
    }
}

/// Writes code within a line as it is, or backticks that begin none as backticks; returns how many
/// bytes of the text that was.
fn push_ticks(text: &str, made: &mut String) -> usize {
    let rest = text.trim_start_matches('`');
    let ticks = text.len() - rest.len();
    let mut at = ticks;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('`')).map(|found| at + found) {
        let behind = text.get(found..).unwrap_or_default();
        let run = behind.len() - behind.trim_start_matches('`').len();
        at = found + run;
        if run == ticks && ticks < FENCE_MIN {
            made.push_str(text.get(..at).unwrap_or_default());
            return at;
        }
    }
    (0..ticks).for_each(|_| made.push_str("\\`"));
    ticks
}

/// True if a text begins with a name or number of a character: `&lt;`, `&#60;`.
fn begins_entity(text: &str) -> bool {
    let Some(name) = text.strip_prefix('&') else { return false };
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '#');
    rest.len() < name.len() && rest.starts_with(';')
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::*;

    /// Parts that a text must not make of a document, as events of a parser.
    fn foreign(text: &str) -> Vec<String> {
        let is_ours = |event: &Event<'_>| match event {
            Event::Start(tag) => matches!(
                tag,
                Tag::Paragraph
                    | Tag::BlockQuote(_)
                    | Tag::CodeBlock(_)
                    | Tag::List(_)
                    | Tag::Item
                    | Tag::Emphasis
                    | Tag::Strong
                    | Tag::Strikethrough
                    | Tag::Superscript
                    | Tag::Subscript
            ),
            Event::End(_)
            | Event::Text(_)
            | Event::Code(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::TaskListMarker(_) => true,
            _ => false,
        };
        let events = Parser::new_ext(text, Options::all()).filter(|event| !is_ours(event));
        events.map(|event| format!("{event:?}")).collect()
    }

    /// Pieces of which hostile texts are made.
    fn text() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            4 => prop::sample::select(vec![
                "\n", "\n\n", " ", "  ", "    ", "\t", "`", "``", "```", "~~~", "#", "## ", "-", "---",
                "=", "===", "*", "_", ">", "> ", "- ", "1. ", "+ ", "|", ":", ":-", "<", "<b>", "<!--",
                "[", "]", "](", "]:", "][", "(", ")", "!", "![", "\\", "$", "$$", "&lt;", "&", ";", "^",
                "[^", "[[", "]]", "{", "}", ":::", "+++", "\r", "\u{2028}", "\u{a0}", "~", "http://e",
            ]).prop_map(str::to_owned),
            1 => "[a-z]{1,3}",
        ];
        prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 4_000,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_quoted_text_makes_no_part_of_a_document_and_ends_where_it_ends(text in text()) {
            let end = "\n\n# End\n";
            for (made, first) in [
                (format!("{}{end}", block(&text)), 0),
                (format!("{}{end}", fenced(&text)), 0),
                (format!("# x {}{end}", inline(&text)), 1),
                (format!("- x {} {}{end}", code(&text), inline(&text)), 0),
            ] {
                let found = foreign(&made);
                prop_assert_eq!(found.len(), first + 1, "{:?} {:?}", made, found);
                prop_assert!(found.iter().all(|one| one.starts_with("Start(Heading")), "{:?}", made);
            }
            prop_assert!(hanging(&text).split('\n').skip(1).all(|line| line.starts_with("  ")));
        }
    }

    #[test]
    fn prose_and_code_are_read_as_they_were_written() {
        for (text, expected) in [
            (
                "plain *words* with `code` and a_name, 3 < 4",
                "plain *words* with `code` and a_name, 3 \\< 4",
            ),
            ("- one\n- two (see [1])\n\n1. three", "- one\n- two (see [1])\n\n1. three"),
            (
                "C:\\Users and https://example.org/a_b?c=d&e",
                "C:\\Users and https://example.org/a_b?c=d&e",
            ),
            ("```rust\nfn a() {}\n```\ndone", "```rust\nfn a() {}\n```\ndone"),
            ("```\n```` inside\n```", "`````\n```` inside\n`````"),
            ("issue #42\n#!/bin/sh", "issue #42\n\\#!/bin/sh"),
        ] {
            assert_eq!(block(text), expected);
        }
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a\nb` "), "`` `a b` ``");
        assert_eq!((code(" \n"), inline("a\n# *b*")), (String::new(), "a \\# \\*b\\*".to_owned()));
        assert_eq!(fenced("a\n```"), "````\na\n```\n````");
    }
}

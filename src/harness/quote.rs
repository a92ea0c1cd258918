//! Recorded text inside a document that this program writes: Markdown, or the plain text of a
//! restore. Escaped text creates no heading, rule, table, HTML, image, link or definition, and ends
//! nothing that it did not begin; code stays code, and a bare URL stays text. It must not shorten,
//! nor know the subject of a document.

/// Languages that a code block may name. Other words may be commands of a renderer: some draw the
/// block as an image, and load content.
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
/// Least backticks of a fence.
const FENCE_MIN: usize = 3;
/// Characters of a line that underlines a heading, is a rule, or makes the line above it a table.
const RULES: &str = "-_*=:|~+";
/// Characters with a meaning within a separate line.
const MARKS: &str = "\\`*_[]{<>#|~$";

/// Escapes a recorded text as paragraphs, lists, quotations and code blocks, from a line's start.
#[must_use]
pub fn escape_block(text: &str) -> String {
    escape_around_code(text, push_escaped_line)
}

/// Escapes a recorded text: code blocks stay code, other lines are written by `push`.
fn escape_around_code(text: &str, push: impl Fn(&str, &mut String)) -> String {
    let text = normalize(text);
    let mut made = String::with_capacity(text.len() + 16);
    let mut lines = text.split('\n');
    while let Some(line) = lines.next() {
        match CodeFence::parse(line) {
            Some(opening) => {
                let code = lines.by_ref().take_while(|line| !opening.is_closed_by(line));
                let code: Vec<&str> = code.map(|line| opening.strip_indent(line)).collect();
                made.push_str(&wrap_in_fence(opening.language, &code.join("\n")));
            }
            None => push(line, &mut made),
        }
        made.push('\n');
    }
    made.pop();
    made
}

/// Escapes a recorded text on one line after our own text: in a heading, an item, a paragraph.
#[must_use]
pub fn escape_inline(text: &str) -> String {
    let line = join_lines(text);
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

/// Formats a name as inline code; empty for an empty name. Not for a table cell.
#[must_use]
pub fn inline_code(text: &str) -> String {
    let line = join_lines(text);
    if line.is_empty() {
        return line;
    }
    let ticks = "`".repeat(longest_backtick_run(&line) + 1);
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// Formats a recorded text as one code block.
#[must_use]
pub fn code_block(text: &str) -> String {
    wrap_in_fence("", &normalize(text))
}

/// Escapes a recorded text as an item of a text for a model: only lines that would begin a part of
/// the document are escaped, and all lines but the first are indented. Links, images and HTML
/// within a line are kept verbatim.
#[must_use]
pub fn escape_item(text: &str) -> String {
    let push = |line: &str, made: &mut String| {
        let (before, text) = line.split_at(text_start(line));
        made.push_str(before);
        if begins_block_element(text) {
            made.push('\\');
        }
        made.push_str(text);
    };
    escape_around_code(text, push).replace('\n', "\n  ")
}

/// Puts a label before an [escaped item](escape_item); a code block begins on a separate line.
#[must_use]
pub fn with_label(label: &str, item: &str) -> String {
    let gap = if item.starts_with("```") { "\n  " } else { " " };
    format!("{label}{gap}{item}")
}

/// Returns true if a line begins a heading, a rule, a definition, a table or HTML.
fn begins_block_element(text: &str) -> bool {
    is_rule(text)
        || text.starts_with(['#', ':', '<', '|'])
        || text.starts_with('[') && text.contains("]:")
}

fn is_rule(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_whitespace() || RULES.contains(c))
}

/// Indents all lines of a recorded text but the first, for a plain text whose headings and items
/// begin lines.
#[must_use]
pub fn indent_continuation(text: &str) -> String {
    normalize(text).replace('\n', "\n  ")
}

fn wrap_in_fence(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_backtick_run(text).max(FENCE_MIN - 1) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Normalizes line ends and replaces control characters, including those of text direction.
fn normalize(text: &str) -> String {
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

fn join_lines(text: &str) -> String {
    normalize(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// First line of a code block.
struct CodeFence<'a> {
    mark: char,
    length: usize,
    indent: usize,
    language: &'a str,
}

impl<'a> CodeFence<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, text) = line.split_at(text_start(line));
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

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim_matches([' ', '\t', '>']);
        line.len() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// Strips the indent and quotation marks that precede the block's first line from a line.
    fn strip_indent<'l>(&self, line: &'l str) -> &'l str {
        let indented = line.char_indices().take(self.indent);
        let before = indented.take_while(|(_, c)| matches!(c, ' ' | '>')).count();
        line.get(before..).unwrap_or_default()
    }
}

/// Returns the start of a line's text, after spaces and marks of quotations and lists.
fn text_start(line: &str) -> usize {
    let mut at = 0;
    loop {
        let text = line.get(at..).unwrap_or_default().trim_start();
        at = line.len() - text.len();
        let mark = marker_len(text);
        if mark == 0 {
            return at;
        }
        at += mark;
    }
}

/// Returns the bytes of the quotation or list mark at the start of a text.
fn marker_len(text: &str) -> usize {
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

fn push_escaped_line(line: &str, made: &mut String) {
    let (before, text) = line.split_at(text_start(line));
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

/// Writes inline code verbatim, or escapes backticks that begin none; returns the number of bytes
/// consumed.
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

/// Returns true if a text begins with an HTML entity: `&lt;`, `&#60;`.
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

    /// Returns the elements that a text must not create in a document, from a parser.
    fn foreign_elements(text: &str) -> Vec<String> {
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

    /// Generates hostile texts from pieces.
    fn hostile_text() -> impl Strategy<Value = String> {
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
        fn escaped_text_cannot_create_parts_of_a_document(text in hostile_text()) {
            let end = "\n\n# End\n";
            for (made, first) in [
                (format!("{}{end}", escape_block(&text)), 0),
                (format!("{}{end}", code_block(&text)), 0),
                (format!("# x {}{end}", escape_inline(&text)), 1),
                (format!("- x {} {}{end}", inline_code(&text), escape_inline(&text)), 0),
            ] {
                let found = foreign_elements(&made);
                prop_assert_eq!(found.len(), first + 1, "{:?} {:?}", made, found);
                prop_assert!(found.iter().all(|one| one.starts_with("Start(Heading")), "{:?}", made);
            }
            prop_assert!(indent_continuation(&text).split('\n').skip(1).all(|line| line.starts_with("  ")));
        }
    }

    #[test]
    fn harmless_prose_and_code_are_escaped_minimally() {
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
            assert_eq!(escape_block(text), expected);
        }
        assert_eq!(inline_code("a`b"), "``a`b``");
        assert_eq!(inline_code("`a\nb` "), "`` `a b` ``");
        assert_eq!(
            (inline_code(" \n"), escape_inline("a\n# *b*")),
            (String::new(), "a \\# \\*b\\*".to_owned())
        );
        assert_eq!(code_block("a\n```"), "````\na\n```\n````");
    }
}

//! Spans that a user marked as private: `<private>…</private>`. It must not examine their content.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

/// Name under which private spans are counted.
pub(super) const NAME: &str = "private";
pub(super) const MARK: &str = "[private]";

/// First bytes of a tag, in any letter case.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)<(?P<end>/?)private(?:[\s/>]|\z)";
    Regex::new(pattern).expect("a pattern that is tested")
});

/// Returns true if a text contains `private` in any letter case: otherwise it has neither a
/// private span nor the head of a private key.
pub(super) fn contains_private(text: &str) -> bool {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(?i)private").expect("a pattern that is tested"));
    WORD.is_match(text)
}

/// Returns the ranges of private spans with their tags, in order, of a text without escapes. Spans
/// may be nested; one that is not closed extends to the end of the text. As in HTML a slash at the
/// end of a tag changes nothing: `<private/>` opens a span.
pub(super) fn find_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let (mut depth, mut from, mut at) = (0_usize, 0, 0);
    while let Some(tag) = TAG.captures_at(text, at) {
        let (Some(all), Some(end)) = (tag.get(0), tag.name("end")) else { break };
        at = end_of_tag(text, end.end() + NAME.len());
        match (end.is_empty(), depth) {
            (true, 0) => (depth, from) = (1, all.start()),
            (true, _) => depth += 1,
            (false, 0) => {}
            (false, 1) => {
                depth = 0;
                spans.push(from..at);
            }
            (false, _) => depth -= 1,
        }
    }
    if depth > 0 {
        spans.push(from..text.len());
    }
    spans
}

/// Returns the end of a tag whose name ends at `at`: after the first `>` outside of quoted values,
/// or the end of the text. A quote that is not closed is an ordinary character.
fn end_of_tag(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut is_value) = (at, false);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'>' => return at,
            b'"' | b'\'' if is_value => {
                let rest = bytes.get(at..).unwrap_or_default();
                at += rest.iter().position(|one| one == byte).map_or(0, |close| close + 1);
                is_value = false;
            }
            _ => is_value = *byte == b'=' || is_value && byte.is_ascii_whitespace(),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_spans_are_found_in_any_letter_case_nested_and_unclosed() {
        let long = format!("<private a=\"{}\" b='>'>x</private>|", "a > b ".repeat(200));
        for (text, expected) in [
            ("a <private>b</private> c", "a | c"),
            ("<PRIVATE>b</Private>", "|"),
            ("<private>b<private>c</private>d</private>e", "|e"),
            ("a <private>b", "a |"),
            ("a <private>b<private>c</private>d", "a |"),
            ("<private\nwhy=\"x\">b</private >c<private>d</private>", "|c|"),
            ("<private/>b</private>c", "|c"),
            ("<private />b</private\n>c", "|c"),
            ("a<private x='y'/>b", "a|"),
            ("a<private why=\"b", "a|"),
            ("a<private", "a|"),
            ("<private a=it's>b</private>c", "|c"),
            ("<private>b</private", "|"),
            ("b</private> c", "b</private> c"),
            ("<privates>b</privates>", "<privates>b</privates>"),
            ("private>b <private-x>", "private>b <private-x>"),
            (&*long, "||"),
        ] {
            let mut left = text.to_owned();
            for span in find_spans(text).into_iter().rev() {
                left.replace_range(span, "|");
            }
            assert_eq!(left, expected, "{text}");
        }
    }
}

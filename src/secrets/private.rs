//! What a person marked as private: `<private>…</private>`. It must not judge what is in it.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

/// The name that counts these spans, and what stands in place of one.
pub(super) const NAME: &str = "private";
pub(super) const MARK: &str = "[private]";

/// A tag in any case, with or without attributes; its brackets may be escaped as JSON, XML or an
/// address has them, for text within text.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)(?:<|\\u003c|&lt;|%3c)(?P<end>(?:/|\\/|%2f)?)private(?:\s[^<>]{0,200})?(?:>|\\u003e|&gt;|%3e)";
    Regex::new(pattern).expect("a pattern that is tested")
});

/// Ranges of private spans with their tags, in order. Spans may be nested; one that is not closed
/// extends to the end of the text.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for tag in TAG.captures_iter(text) {
        let (Some(all), Some(end)) = (tag.get(0), tag.name("end")) else { continue };
        match (end.is_empty(), depth) {
            (true, 0) => (depth, from) = (1, all.start()),
            (true, _) => depth += 1,
            (false, 0) => {}
            (false, 1) => {
                depth = 0;
                spans.push(from..all.end());
            }
            (false, _) => depth -= 1,
        }
    }
    if depth > 0 {
        spans.push(from..text.len());
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_spans_are_found_in_any_case_nested_and_unclosed() {
        for (text, expected) in [
            ("a <private>b</private> c", "a | c"),
            ("<PRIVATE>b</Private>", "|"),
            ("<private>b<private>c</private>d</private>e", "|e"),
            ("a <private>b", "a |"),
            ("a <private>b<private>c</private>d", "a |"),
            ("<private\nwhy=\"x\">b</private >c<private>d</private>", "|c|"),
            ("\\u003cprivate\\u003eb\\u003c/private\\u003ec", "|c"),
            ("&lt;private&gt;b&lt;/private&gt;c", "|c"),
            ("b</private> c", "b</private> c"),
            ("<privates>b</privates>", "<privates>b</privates>"),
            ("private>b", "private>b"),
        ] {
            let mut left = text.to_owned();
            for span in spans(text).into_iter().rev() {
                left.replace_range(span, "|");
            }
            assert_eq!(left, expected, "{text}");
        }
    }
}

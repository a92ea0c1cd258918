//! Secrets in JSON text: searched in the decoded strings, and rewritten only where one was found.
//! It must not change another byte, and treats invalid JSON as text.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, Visitor},
};

use super::{MaskingReport, Recogniser, names, private};

/// A string of the text: its byte range, quotes included.
struct StringSpan {
    from: usize,
    to: usize,
}

/// A member's name whose value, or list of values, may follow.
struct PendingName {
    said: String,
    /// Byte offset of the end of the name, or of its last value.
    to: usize,
    listed: bool,
}

/// A string value that is held back until its list has ended.
struct PendingString<'a> {
    span: StringSpan,
    said: Cow<'a, str>,
    /// True if the member's name marks it as a secret.
    is_named: bool,
}

/// JSON text being copied, with some strings replaced.
struct JsonOutput<'a> {
    text: &'a str,
    out: String,
    done: usize,
}

impl JsonOutput<'_> {
    fn replace_string(&mut self, span: &StringSpan, clean: &str) {
        self.out.push_str(self.text.get(self.done..span.from).unwrap_or_default());
        self.out.push_str(&serde_json::Value::from(clean).to_string());
        self.done = span.to;
    }
}

pub(super) fn redact(rules: &Recogniser, text: &str, report: &mut MaskingReport) -> Option<String> {
    let is_json = text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    if !is_json {
        return rules.mask_text(text, report);
    }
    let mut written = JsonOutput { text, out: String::new(), done: 0 };
    let mut list: Vec<PendingString<'_>> = Vec::new();
    let mut name: Option<PendingName> = None;
    let mut at = 0;
    while let Some(span) = next_string(text, at) {
        at = span.to;
        let said = decode_string(text.get(span.from..span.to)?);
        let rest = text.get(span.to..).unwrap_or_default();
        let is_name = rest.trim_start().starts_with(':');
        let of = name.take().and_then(|name| name.for_value(text, &span));
        let follows = list.last().is_some_and(|last| {
            let between = text.get(last.span.to..span.from).unwrap_or_default();
            !is_name && between.trim() == ","
        });
        if !follows {
            flush_list(rules, &mut list, &mut written, report);
        }
        if is_name {
            if let Some(clean) = redact_string(rules, &said, report) {
                written.replace_string(&span, &clean);
            }
            name = Some(PendingName { said: said.into_owned(), to: span.to, listed: false });
            continue;
        }
        let is_secret = |of: &PendingName| names::is_secret(&of.said, &said, of.listed);
        let is_named = of.as_ref().is_some_and(is_secret) && !rules.is_allowed(&said);
        name = of.filter(|of| of.listed).map(|of| PendingName { to: span.to, ..of });
        list.push(PendingString { span, said, is_named });
    }
    flush_list(rules, &mut list, &mut written, report);
    if written.done == 0 {
        return None;
    }
    written.out.push_str(text.get(written.done..).unwrap_or_default());
    Some(written.out)
}

/// Writes the pending strings, those of one list or a single one, with their secrets replaced.
fn flush_list(
    rules: &Recogniser,
    list: &mut Vec<PendingString<'_>>,
    written: &mut JsonOutput<'_>,
    report: &mut MaskingReport,
) {
    let may_span = |line: &PendingString<'_>| {
        rules.has_custom_rules() || private::contains_private(&line.said)
    };
    let spans = list.len() > 1 && list.iter().any(may_span);
    let changed = if spans { redact_lines(rules, list, report) } else { Vec::new() };
    for (at, line) in list.drain(..).enumerate() {
        let rule = rules.member_rule().filter(|_| line.is_named);
        let clean = match rule {
            Some(rule) => Some(rules.count_and_mark(Some(rule), report)),
            None => redact_string(rules, &line.said, report),
        };
        let is_changed = changed.binary_search(&at).is_ok();
        if let Some(clean) = clean.or_else(|| is_changed.then(|| line.said.into_owned())) {
            written.replace_string(&line.span, &clean);
        }
    }
}

/// Removes secrets that span several strings of a list, as a key in a patch does: the strings are
/// lines of one text. Of the built-in rules only those of keys and of private spans match more than
/// a line. Returns which strings changed, in order.
fn redact_lines(
    rules: &Recogniser,
    list: &mut [PendingString<'_>],
    report: &mut MaskingReport,
) -> Vec<usize> {
    let said: Vec<&str> = list.iter().map(|line| &*line.said).collect();
    let text = said.join("\n");
    let begin = |at: &mut usize, said: &&str| {
        let from = *at;
        *at += said.len() + 1;
        Some(from)
    };
    let begins: Vec<usize> = said.iter().scan(0, begin).collect();
    let line_of = |at: usize| begins.partition_point(|begin| *begin <= at).saturating_sub(1);
    let mut changed = Vec::new();
    for (from, to, rule) in rules.find_secrets(&text).into_iter().rev() {
        let (first, last) = (line_of(from), line_of(to.saturating_sub(1)));
        if first == last {
            continue;
        }
        let mark = rules.count_and_mark(rule, report);
        for at in (first..=last).rev() {
            let (Some(line), Some(begin)) = (list.get_mut(at), begins.get(at)) else { continue };
            let range = from.saturating_sub(*begin)..(to - begin).min(line.said.len());
            if !range.is_empty() {
                line.said.to_mut().replace_range(range, &mark);
                changed.push(at);
            }
        }
    }
    changed.reverse();
    changed.dedup();
    changed
}

/// Removes the secrets of a string, and of JSON within it: results of tools are JSON written as
/// text. Each level of nesting doubles the backslashes, so there are few levels.
fn redact_string(rules: &Recogniser, said: &str, report: &mut MaskingReport) -> Option<String> {
    let inner = match said.trim_start().starts_with(['{', '[']) {
        true => redact(rules, said, report),
        false => None,
    };
    rules.mask_text(inner.as_deref().unwrap_or(said), report).or(inner)
}

impl PendingName {
    /// Returns the name if the string at `span` is its value, or in its list of values.
    fn for_value(self, text: &str, span: &StringSpan) -> Option<Self> {
        let between = text.get(self.to..span.from)?.split_whitespace().collect::<String>();
        match (&*between, self.listed) {
            (":", false) | (",", true) => Some(self),
            (":[", false) => Some(Self { listed: true, ..self }),
            // Numbers and `null` between them.
            (more, true) if more.starts_with(',') && more.ends_with(',') => {
                (!more.contains(['[', ']', '{', '}', ':'])).then_some(self)
            }
            _ => None,
        }
    }
}

/// Finds the next string at or after a byte offset.
fn next_string(text: &str, at: usize) -> Option<StringSpan> {
    let from = at + text.get(at..)?.find('"')?;
    let mut escaped = false;
    for (at, byte) in (from + 1..).zip(text.get(from + 1..)?.bytes()) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(StringSpan { from, to: at + 1 }),
            _ => {}
        }
    }
    None
}

/// Decodes a string; replaces lone halves of surrogate pairs.
fn decode_string(raw: &str) -> Cow<'_, str> {
    let inside = raw.get(1..raw.len() - 1).unwrap_or_default();
    let meant = inside.contains('\\').then(|| serde_json::from_str::<LossyString>(raw).ok());
    meant.flatten().map_or(Cow::Borrowed(inside), |LossyString(text)| Cow::Owned(text))
}

/// A string that may contain a lone half of a surrogate pair.
struct LossyString(String);

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyVisitor;
        impl Visitor<'_> for LossyVisitor {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                Ok(LossyString(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(LossyVisitor)
    }
}

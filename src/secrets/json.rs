//! Secrets in JSON text: searched in the decoded strings, and written back only where one was
//! found. It must not change another byte, and treats invalid JSON as text.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, Visitor},
};

use super::{Recogniser, Report, names};

/// A string of the text: its byte range, quotes included.
struct StringSpan {
    from: usize,
    to: usize,
}

/// The name that the next string may be the value of, or of the list of.
struct Name {
    said: String,
    /// Where it ends, or the last one of its values.
    to: usize,
    listed: bool,
}

pub(super) fn redact(rules: &Recogniser, text: &str, report: &mut Report) -> Option<String> {
    let is_json = text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    if !is_json {
        return rules.text(text, report);
    }
    let mut out = String::new();
    let mut done = 0;
    let mut name: Option<Name> = None;
    let mut at = 0;
    while let Some(place) = next(text, at) {
        at = place.to;
        let raw = text.get(place.from..place.to)?;
        let said = decoded(raw);
        let rest = text.get(place.to..).unwrap_or_default();
        let is_name = rest.trim_start().starts_with(':');
        let of = name.take().and_then(|name| name.of(text, &place));
        let is_secret =
            of.as_ref().filter(|of| !is_name && names::is_secret(&of.said, &said, of.listed));
        let clean = is_secret
            .and_then(|_| rules.by_name().filter(|_| !rules.is_allowed(&said)))
            .map(|rule| rules.mark(Some(rule), report))
            .or_else(|| within(rules, &said, report));
        if let Some(clean) = clean {
            out.push_str(text.get(done..place.from).unwrap_or_default());
            out.push_str(&serde_json::Value::from(clean).to_string());
            done = place.to;
        }
        name = match is_name {
            true => Some(Name { said: said.into_owned(), to: place.to, listed: false }),
            false => of.filter(|of| of.listed).map(|of| Name { to: place.to, ..of }),
        };
    }
    if done == 0 {
        return None;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Some(out)
}

/// A string's secrets, with JSON inside strings: results of tools are JSON written as text. Each
/// level of nesting doubles the backslashes, so there are few.
fn within(rules: &Recogniser, said: &str, report: &mut Report) -> Option<String> {
    let inner = match said.trim_start().starts_with(['{', '[']) {
        true => redact(rules, said, report),
        false => None,
    };
    rules.text(inner.as_deref().unwrap_or(said), report).or(inner)
}

impl Name {
    /// Itself, when the string at a place is its value, or one of its list.
    fn of(self, text: &str, place: &StringSpan) -> Option<Self> {
        let between = text.get(self.to..place.from)?.split_whitespace().collect::<String>();
        match (&*between, self.listed) {
            (":", false) | (",", true) => Some(self),
            (":[", false) => Some(Self { listed: true, ..self }),
            // Numbers and nothings between them.
            (more, true) if more.starts_with(',') && more.ends_with(',') => {
                (!more.contains(['[', ']', '{', '}', ':'])).then_some(self)
            }
            _ => None,
        }
    }
}

/// The next string from a place on.
fn next(text: &str, at: usize) -> Option<StringSpan> {
    let from = at + text.get(at..)?.find('"')?;
    let mut escaped = false;
    for (place, byte) in (from + 1..).zip(text.get(from + 1..)?.bytes()) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(StringSpan { from, to: place + 1 }),
            _ => {}
        }
    }
    None
}

/// A string's value; half of a surrogate pair is replaced.
fn decoded(raw: &str) -> Cow<'_, str> {
    let inside = raw.get(1..raw.len() - 1).unwrap_or_default();
    let meant = inside.contains('\\').then(|| serde_json::from_str::<Lossy>(raw).ok());
    meant.flatten().map_or(Cow::Borrowed(inside), |Lossy(text)| Cow::Owned(text))
}

/// A string that may hold half of a surrogate pair.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Lossy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Reader)
    }
}

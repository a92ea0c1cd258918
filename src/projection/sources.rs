//! Sources a session met, once each: pages that differ only in what does not change the page are
//! one. It must not fetch anything.

use std::{collections::HashMap, sync::Arc};

use url::Url;

use super::body::SourceBody;
use crate::event::{Position, text::one_line};

/// Most characters of a URL: a longer one is no usable address.
const URL_CHARS_MAX: usize = 2_000;
/// Characters kept of a title.
const TITLE_CHARS_MAX: usize = 200;
/// Characters kept of a kind.
const KIND_CHARS_MAX: usize = 40;

/// A source, as first found; later results fill in missing members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchSource {
    /// The URL as first found.
    pub url: Box<str>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Its kind.
    pub kind: Option<Box<str>>,
    /// The step that met it first.
    pub step: Option<u64>,
    /// True if the server recorded it itself, rather than a model reporting it.
    pub by_server: bool,
    /// The tool whose result contained it.
    pub tool: Option<Box<str>>,
    /// Position where it was recorded first.
    pub position: Position,
}

/// Sources in the order they were met. The ordinal of a source does not change.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<ResearchSource>,
    known: HashMap<Arc<str>, usize>,
}

impl Sources {
    /// All of them, the first met first.
    #[must_use]
    pub fn list(&self) -> &[ResearchSource] {
        &self.list
    }

    /// True if it would add to the log: a new page, or a missing member of a known one.
    #[must_use]
    pub fn wants(&self, found: &SourceBody) -> bool {
        let Some(name) = normalised(&found.url) else { return false };
        let said = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| !one_line(text, TITLE_CHARS_MAX).is_empty())
        };
        match self.known.get(name.as_str()).and_then(|at| self.list.get(*at)) {
            None => true,
            Some(known) => {
                let server = found.is_by_server();
                (known.title.is_none() && said(&found.title))
                    || (known.kind.is_none() && said(&found.kind))
                    || (server && !known.by_server)
            }
        }
    }

    /// Folds a source in; returns its ordinal and title when the title is new.
    pub(super) fn fold(
        &mut self,
        found: SourceBody,
        step: Option<u64>,
        position: Position,
    ) -> Option<(usize, &str)> {
        let name = normalised(&found.url)?;
        let short = |text: Option<String>, max| {
            text.map(|text| one_line(&text, max)).filter(|text| !text.is_empty()).map(Into::into)
        };
        let by_server = found.is_by_server();
        let title: Option<Box<str>> = short(found.title, TITLE_CHARS_MAX);
        let kind: Option<Box<str>> = short(found.kind, KIND_CHARS_MAX);
        let tool: Option<Box<str>> = short(found.tool, KIND_CHARS_MAX);
        if let Some(at) = self.known.get(name.as_str()).copied() {
            let known = self.list.get_mut(at)?;
            let is_new = known.title.is_none() && title.is_some();
            known.title = known.title.take().or(title);
            known.kind = known.kind.take().or(kind);
            known.tool = known.tool.take().or(tool);
            known.by_server |= by_server;
            return known.title.as_deref().filter(|_| is_new).map(|title| (at, title));
        }
        let at = self.list.len();
        self.known.insert(name.into(), at);
        let url = one_line(&found.url, URL_CHARS_MAX).into();
        let step = found.step.or(step);
        self.list.push(ResearchSource { url, title, kind, step, by_server, tool, position });
        Some((at, self.list.get(at)?.title.as_deref()?))
    }
}

/// The normalised URL: without fragment, tracking parameters, default port and a slash at the end;
/// scheme and host in lower case, `http` as `https`, and no letter, digit or mark escaped that need
/// not be. `None` for an empty text.
#[must_use]
pub fn normalised(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let Ok(mut url) = Url::parse(text) else {
        return Some(one_line(text, URL_CHARS_MAX));
    };
    url.set_fragment(None);
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| !(name.starts_with("utm_") || name == "gclid" || name == "fbclid"))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    if kept.is_empty() {
        url.set_query(None);
    } else {
        url.query_pairs_mut().clear().extend_pairs(kept);
    }
    let mut name = unescaped(url.as_str());
    if let Some(rest) = name.strip_prefix("http:") {
        name = format!("https:{rest}");
    }
    let slashes = name.len() - name.trim_end_matches('/').len();
    name.truncate(name.len() - slashes);
    Some(one_line(&name, URL_CHARS_MAX))
}

/// An address whose unreserved characters are themselves, and whose other escapes are in capitals.
fn unescaped(url: &str) -> String {
    let mut made = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('%') {
        made.push_str(before);
        let digits = after.get(..2).filter(|two| two.bytes().all(|one| one.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        match byte.filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c)) {
            Some(plain) => made.push(plain),
            None => {
                made.push('%');
                made.extend(digits.map(str::to_ascii_uppercase));
            }
        }
        rest = digits.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_wanted_until_it_says_nothing_new() {
        let found = |url: &str, title: Option<&str>, by: &str| SourceBody {
            url: url.to_owned(),
            title: title.map(str::to_owned),
            found_by: Some(by.to_owned()),
            ..SourceBody::default()
        };
        let mut sources = Sources::default();
        for (url, title, by, wanted) in [
            ("https://a.org", None, "model", true),
            ("https://a.org/#part", None, "model", false),
            ("https://a.org", Some(" "), "model", false),
            ("https://a.org", Some("A"), "model", true),
            ("https://a.org", Some("B"), "model", false),
            ("https://a.org", None, "server", true),
            ("https://a.org", Some("A"), "server", false),
            ("https://b.org", None, "model", true),
            (" ", None, "model", false),
        ] {
            let source = found(url, title, by);
            assert_eq!(sources.wants(&source), wanted, "{url} {title:?} {by}");
            sources.fold(source, None, Position(0));
        }
    }

    #[test]
    fn one_page_under_many_urls_is_one_source() {
        let page = normalised("https://example.org/p2");
        for same in [
            "https://example.org/p2#frag",
            "https://example.org/p2/",
            "HTTPS://Example.ORG:443/p2",
            " https://example.org/p2?utm_source=x&gclid=1 ",
            "http://example.org:80/a/../p2",
            "https://example.org/%70%32",
        ] {
            assert_eq!(normalised(same), page, "{same}");
        }
        for other in ["https://example.org/P2", "https://example.org/p2?a=1", "doi:10.1/x"] {
            assert_ne!(normalised(other), page, "{other}");
        }
        assert_eq!(normalised("https://a.org/%2f%e4"), Some("https://a.org/%2F%E4".to_owned()));
        assert_eq!(normalised("  "), None);
    }
}

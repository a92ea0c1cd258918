//! Sources of a session, each page once: URLs that differ only in parts that do not select the page
//! are equal. It must not fetch anything.

use std::{collections::HashMap, sync::Arc};

use url::Url;

use super::body::SourceBody;
use crate::event::{Position, text::one_line};

/// Most characters of a URL kept.
const URL_CHARS_MAX: usize = 2_000;
/// Most characters kept of a title.
const TITLE_CHARS_MAX: usize = 200;
/// Most characters kept of a kind, and of a tool.
const KIND_CHARS_MAX: usize = 40;

/// A source, as first found; later results fill missing members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchSource {
    /// URL as first found.
    pub url: Box<str>,
    /// Title of the page.
    pub title: Option<Box<str>>,
    /// Kind of the source.
    pub kind: Option<Box<str>>,
    /// Number of the step that found it first.
    pub step: Option<u64>,
    /// True if the server recorded it, rather than a model.
    pub by_server: bool,
    /// Tool whose result contained it.
    pub tool: Option<Box<str>>,
    /// Position where it was first recorded.
    pub position: Position,
}

/// Sources in the order of discovery; the ordinal of a source does not change.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<ResearchSource>,
    known: HashMap<Arc<str>, usize>,
}

impl Sources {
    /// Returns all sources, in the order of discovery.
    #[must_use]
    pub fn list(&self) -> &[ResearchSource] {
        &self.list
    }

    /// Returns true if recording it adds a new page, or a missing member of a known one.
    #[must_use]
    pub fn would_add(&self, found: &SourceBody) -> bool {
        let Some(name) = normalize_url(&found.url) else { return false };
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

    /// Folds a source; returns its ordinal and title if the title is new.
    pub(super) fn fold(
        &mut self,
        found: SourceBody,
        step: Option<u64>,
        position: Position,
    ) -> Option<(usize, &str)> {
        let name = normalize_url(&found.url)?;
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

/// Normalizes a URL: removes the fragment, tracking parameters, default port and trailing slashes;
/// scheme and host in lower case, `http` as `https`, needless escapes decoded. `None` for an empty
/// text.
#[must_use]
pub fn normalize_url(text: &str) -> Option<String> {
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
    let mut name = decode_unreserved(url.as_str());
    if let Some(rest) = name.strip_prefix("http:") {
        name = format!("https:{rest}");
    }
    let slashes = name.len() - name.trim_end_matches('/').len();
    name.truncate(name.len() - slashes);
    Some(one_line(&name, URL_CHARS_MAX))
}

/// Decodes the escapes of unreserved characters and writes the others in upper case.
fn decode_unreserved(url: &str) -> String {
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
    fn a_source_is_wanted_only_if_it_adds_a_page_or_member() {
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
            assert_eq!(sources.would_add(&source), wanted, "{url} {title:?} {by}");
            sources.fold(source, None, Position(0));
        }
    }

    #[test]
    fn equivalent_urls_of_a_page_normalise_to_one() {
        let page = normalize_url("https://example.org/p2");
        for same in [
            "https://example.org/p2#frag",
            "https://example.org/p2/",
            "HTTPS://Example.ORG:443/p2",
            " https://example.org/p2?utm_source=x&gclid=1 ",
            "http://example.org:80/a/../p2",
            "https://example.org/%70%32",
        ] {
            assert_eq!(normalize_url(same), page, "{same}");
        }
        for other in ["https://example.org/P2", "https://example.org/p2?a=1", "doi:10.1/x"] {
            assert_ne!(normalize_url(other), page, "{other}");
        }
        assert_eq!(normalize_url("https://a.org/%2f%e4"), Some("https://a.org/%2F%E4".to_owned()));
        assert_eq!(normalize_url("  "), None);
    }
}

//! Sources in tool results: pages with a URL and a title, found in the result and not in a model's
//! text. A source is pending until the log contains it as `source.found`. It must not fetch
//! anything.
//!
//! A JSON object with a URL and a title is always a source. A URL in plain text is one only if the
//! tool read from the network: a file full of links was not a visit to each.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::{
    body::{self, BY_SERVER, SourceBody},
    sources::normalize_url,
};
use crate::{
    event::{
        Event, Origin, Position, json, kinds,
        lists::phrase_list,
        push_bounded,
        text::{head, one_line},
    },
    traces::{ToolBody, content_text, parse_string, tools},
};

/// Most sources of one result, and most pending ones; the oldest are dropped.
const RESULT_MAX: usize = 50;
const WAITING_MAX: usize = 200;
/// Most URLs read of one result.
const URLS_MAX: usize = 1_000;
/// Most calls without a result that are kept.
const CALLS_MAX: usize = 256;
/// Most bytes read of a text; `DEPTH_MAX` bounds the depth of JSON.
const TEXT_BYTES_MAX: usize = 256 << 10;
const DEPTH_MAX: usize = 12;
/// Most characters of a title, and most bytes of a URL.
const TITLE_CHARS_MAX: usize = 200;
const URL_BYTES_MAX: usize = 2_000;
/// Most words of a line with an HTTP status, and most bytes of a page that only says that there is
/// none.
const STATUS_WORDS_MAX: usize = 4;
const ERROR_PAGE_BYTES_MAX: usize = 1_000;
/// Names of members with a URL, and of members with a title.
const ADDRESSES: [&str; 5] = ["url", "uri", "link", "href", "source_url"];
const TITLES: [&str; 4] = ["title", "name", "heading", "headline"];
/// Parts of the names of tools and servers that read from the network.
const OUTSIDE: [&str; 9] =
    ["search", "fetch", "web", "browse", "crawl", "scrape", "http", "url", "research"];

/// A source that a result contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSource {
    /// Body of the event that will record it.
    pub source: SourceBody,
    /// Position of the result.
    pub position: Position,
    /// Normalised URL.
    name: String,
}

#[derive(Clone, Debug)]
struct LookupCall {
    id: Box<str>,
    position: Position,
    tool: Arc<str>,
    url: Option<String>,
    outside: bool,
}

/// Sources in results that the log does not contain yet.
#[derive(Clone, Debug, Default)]
pub struct UnrecordedSources {
    calls: VecDeque<LookupCall>,
    waiting: VecDeque<FoundSource>,
}

impl UnrecordedSources {
    /// Returns the sources that are not recorded yet, oldest first.
    pub fn pending_sources(&self) -> impl Iterator<Item = &FoundSource> {
        self.waiting.iter()
    }

    /// Folds the event of a tool; ignores others.
    pub fn fold(&mut self, event: &Event) {
        match event.kind.as_str() {
            kind if kinds::is_call(kind) => {
                self.fold_call(event);
            }
            kind if kinds::is_result(kind) => {
                self.fold_result(event);
            }
            _ => {}
        }
    }

    /// Removes a pending source that the log now contains.
    pub fn fold_recorded(&mut self, event: &Event) {
        if event.kind.as_str() == kinds::SOURCE_FOUND
            && let Some(source) = body::read::<SourceBody>(&event.body)
            && source.is_by_server()
        {
            let name = normalize_url(&source.url).unwrap_or_default();
            self.waiting.retain(|found| found.name != name);
        }
    }

    fn fold_call(&mut self, event: &Event) -> Option<()> {
        let call = ToolBody::parse(&event.body)?;
        let name = call.name?;
        let url = tools::read_first(&tools::parse_members(call.input), &["url", "uri"], |url| {
            parse_string(url).filter(|url| is_url(url))
        });
        let whole = format!("{} {name}", call.server.as_deref().unwrap_or_default());
        let whole = whole.to_lowercase();
        push_bounded(
            &mut self.calls,
            LookupCall {
                id: call.call_id.unwrap_or_else(|| event.id.to_string()).into(),
                position: event.position,
                tool: one_line(&name, TITLE_CHARS_MAX).into(),
                outside: url.is_some() || OUTSIDE.iter().any(|word| whole.contains(word)),
                url,
            },
            CALLS_MAX,
        );
        Some(())
    }

    /// Adds the sources of a result; an imported, failed or reused result adds none.
    fn fold_result(&mut self, event: &Event) -> Option<()> {
        let result = ToolBody::parse(&event.body)?;
        let id = result.id()?;
        let at = self.calls.iter().rposition(|call| *call.id == *id)?;
        let call = self.calls.remove(at)?;
        let imported = event.origin == Origin::Import;
        if imported || result.is_error == Some(true) || result.cached.is_some() {
            return None;
        }
        let mut pages = FoundPages { outside: call.outside, ..FoundPages::default() };
        let text = result.content.map(content_text).unwrap_or_default();
        let heading = page_title(&text);
        if is_http_error(&text) {
            return None;
        }
        let own = call.url.as_deref().filter(|_| !is_missing_page(&text, heading.as_deref()));
        own.into_iter().for_each(|url| pages.add(url, None));
        for said in [result.content, result.result].into_iter().flatten() {
            let said = json::check(said.get()).and_then(|said| serde_json::from_str(said).ok());
            let said: Value = said.unwrap_or_default();
            pages.visit_value(&said, 0);
        }
        let from = [call.position.0, event.position.0];
        for (at, FoundPage { url, title, name }) in pages.list.into_iter().enumerate() {
            let title = title.or_else(|| heading.clone().filter(|_| at == 0 && own.is_some()));
            let source = SourceBody {
                url,
                title,
                found_by: Some(BY_SERVER.to_owned()),
                tool: Some(call.tool.to_string()),
                from: from.to_vec(),
                ..SourceBody::default()
            };
            if let Some(known) = self.waiting.iter_mut().find(|known| known.name == name) {
                if known.source.title.is_none() && source.title.is_some() {
                    known.source.title = source.title;
                    known.source.from.extend(from);
                }
                continue;
            }
            push_bounded(
                &mut self.waiting,
                FoundSource { source, position: event.position, name },
                WAITING_MAX,
            );
        }
        Some(())
    }

    pub(super) fn weight(&self) -> usize {
        self.waiting.len() * 400 + self.calls.len() * 200
    }
}

/// A page that a result contains.
struct FoundPage {
    url: String,
    title: Option<String>,
    /// Normalised URL.
    name: String,
}

/// Pages of one result, each once.
#[derive(Default)]
struct FoundPages {
    list: Vec<FoundPage>,
    /// Index of each page in the list, by its normalised URL.
    known: HashMap<String, usize>,
    urls_read: usize,
    outside: bool,
}

impl FoundPages {
    fn add(&mut self, url: &str, title: Option<&str>) {
        if self.list.len() == RESULT_MAX || self.urls_read == URLS_MAX || !is_url(url) {
            return;
        }
        self.urls_read += 1;
        let title = title.map(|title| one_line(title, TITLE_CHARS_MAX));
        let title = title.filter(|title| !title.is_empty() && !is_url(title));
        let Some(name) = normalize_url(url) else { return };
        if let Some(known) = self.known.get(&name).and_then(|at| self.list.get_mut(*at)) {
            known.title = known.title.take().or(title);
        } else {
            self.known.insert(name.clone(), self.list.len());
            self.list.push(FoundPage { url: url.to_owned(), title, name });
        }
    }

    fn visit_value(&mut self, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(members) => {
                let text = |names: &[&str]| {
                    names.iter().find_map(|name| members.get(*name).and_then(Value::as_str))
                };
                if let Some(url) = text(&ADDRESSES) {
                    let title = text(&TITLES);
                    if title.is_some() || self.outside {
                        self.add(url, title);
                    }
                }
                members.values().for_each(|value| self.visit_value(value, depth + 1));
            }
            Value::Array(values) => {
                values.iter().for_each(|value| self.visit_value(value, depth + 1))
            }
            Value::String(text) => self.parse_text(text, depth),
            _ => {}
        }
    }

    /// Parses a text: JSON, or plain text with URLs.
    fn parse_text(&mut self, text: &str, depth: usize) {
        let text = head(text, TEXT_BYTES_MAX);
        if !text.contains("://") {
            return;
        }
        if text.trim_start().starts_with(['{', '['])
            && let Some(Ok(value)) = json::check(text).map(serde_json::from_str::<Value>)
        {
            self.visit_value(&value, depth + 1);
        } else if self.outside {
            let mut title = None;
            for line in text.lines() {
                title = self.parse_line(line, title);
            }
        }
    }

    /// Parses a line of text; returns the title for a URL on the next line.
    fn parse_line<'a>(&mut self, line: &'a str, mut title: Option<&'a str>) -> Option<&'a str> {
        let after = line.trim_start_matches(['-', '*', '#', ' ', '\t']);
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim();
        if let Some((name, rest)) = after.split_once(':')
            && name.trim_matches(['*', ' ']).eq_ignore_ascii_case("title")
        {
            return Some(rest.trim_matches(['*', ' ']));
        }
        let mut rest = line;
        while let Some(at) = rest.find("http") {
            let (before, from) = rest.split_at(at);
            let end = from.find(|c: char| c.is_whitespace() || "<>\"'`|\\^{}".contains(c));
            let (word, after) = from.split_at(end.unwrap_or(from.len()));
            let linked = before.ends_with("](");
            let url = if linked { word.split(')').next().unwrap_or(word) } else { word };
            let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '*', '…']);
            let named = before.strip_suffix("](").and_then(|text| text.rsplit('[').next());
            self.add(url, named.or(title.take()));
            rest = if word.is_empty() { from.get(4..).unwrap_or_default() } else { after };
        }
        title
    }
}

fn is_url(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| host.starts_with(|c: char| c.is_alphanumeric() || c == '['))
        && text.len() <= URL_BYTES_MAX
        && !text.contains("[redacted:")
        && !text.contains(char::is_whitespace)
}

/// Returns true if the first line is an HTTP status of an error.
fn is_http_error(text: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let mut status = line.strip_prefix("HTTP ").unwrap_or_default().split_whitespace();
    let code = status.next().unwrap_or_default();
    code.len() == 3 && matches!(code.parse(), Ok(400..600_u16)) && status.count() < STATUS_WORDS_MAX
}

/// Returns true if a page only says that there is none.
fn is_missing_page(text: &str, title: Option<&str>) -> bool {
    const TITLES: [&str; 8] = phrase_list(
        "404|not found|page not found|404 not found|404 page not found|error 404|404 error|\
         access denied",
    );
    let title = title.unwrap_or_default().trim().to_lowercase();
    text.len() <= ERROR_PAGE_BYTES_MAX && TITLES.contains(&&*title)
}

/// Returns the title or first heading of a page.
fn page_title(text: &str) -> Option<String> {
    let page = |text: &str| {
        let rest = text.split_once("<title>")?.1;
        rest.split_once("</title>").map(|(title, _)| title.to_owned())
    };
    let line = || {
        let first = text.lines().find(|line| line.starts_with("# "))?;
        Some(first.trim_start_matches(['#', ' ']).to_owned())
    };
    let text = page(text).or_else(line)?;
    Some(one_line(&text, TITLE_CHARS_MAX)).filter(|text| !text.is_empty())
}

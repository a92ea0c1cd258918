//! Grammar of a query, one line: words that rank, `"exact text"`, `+must`, `-must not`, `prefix*`,
//! and members such as `type:` and `after:`. It must not know what is indexed.

use std::{collections::BTreeSet, iter};

use jiff::tz::TimeZone;

use super::{
    dates,
    entities::EntityKind,
    letters::{fold, is_word_char},
    query::{QUERY_BYTES_MAX, Query, QueryError, QueryFault, WORDS_MAX, is_quote},
    stop_words::is_stop_word,
    terms::{is_number, stem, visit_terms},
};
use crate::event::{Event, Timestamp};

/// English suffixes that the stemmer removes; an indexed stem may be shorter than a query's prefix.
const ENDINGS: [&str; 14] =
    ["e", "y", "s", "ed", "es", "ing", "ion", "ions", "ional", "ive", "able", "al", "ly", "ment"];

/// Minimum share of a query that must occur as consecutive words for a bonus.
const ROW_MIN: f64 = 0.5;

/// Members that the text of a query may have, each with a value; filters that a caller passes
/// separately are [`CallerFilters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryMember {
    /// The type of an event, or its domain: `type:user`.
    Type,
    /// A session, by its id.
    Session,
    /// A workspace, by the last components of its path.
    Workspace,
    /// The speaker.
    Who,
    /// The origin of the event.
    Origin,
    /// The `kind` of the body, such as a memory's.
    Kind,
    /// A file, whole or its last components.
    File,
    /// A URL, or its prefix.
    Url,
    /// A symbol, whole or its last components.
    Symbol,
    /// An error, or its prefix.
    Error,
    /// A command: its program, or with its subcommand.
    Command,
    /// A person, by name or e-mail address.
    Person,
    /// A package, or its scope.
    Package,
    /// At or after this time.
    After,
    /// Before this time.
    Before,
    /// Preferably at this time: a day, or a time range, `FROM/TO`.
    Day,
}

const MEMBERS: [(&str, QueryMember); 16] = [
    ("type", QueryMember::Type),
    ("session", QueryMember::Session),
    ("workspace", QueryMember::Workspace),
    ("who", QueryMember::Who),
    ("origin", QueryMember::Origin),
    ("kind", QueryMember::Kind),
    ("file", QueryMember::File),
    ("url", QueryMember::Url),
    ("symbol", QueryMember::Symbol),
    ("error", QueryMember::Error),
    ("command", QueryMember::Command),
    ("person", QueryMember::Person),
    ("package", QueryMember::Package),
    ("after", QueryMember::After),
    ("before", QueryMember::Before),
    ("day", QueryMember::Day),
];

pub(super) const ORIGINS: [&str; 6] = ["user", "model", "tool", "web", "harness", "import"];

/// Filters of a caller in addition to the query text; all of them apply.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerFilters<'a> {
    /// Types of events, or their domains.
    pub types: &'a [&'a str],
    /// A workspace by its whole name, not by the last components of a longer path.
    pub workspace: Option<&'a str>,
    /// The speaker.
    pub who: Option<&'a str>,
    /// The origin of the event.
    pub origin: Option<&'a str>,
}

/// Accepted values, one of which must match if there are any, and excluded values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueFilter {
    any: BTreeSet<String>,
    none: BTreeSet<String>,
}

impl ValueFilter {
    /// Returns true if an item is accepted and not excluded; `fits` tests a value against the item.
    pub fn matches(&self, fits: impl Fn(&str) -> bool) -> bool {
        (self.any.is_empty() || self.any.iter().any(|value| fits(value)))
            && !self.none.iter().any(|value| fits(value))
    }

    /// Returns true if an item with several names is accepted and not excluded.
    fn matches_any_of<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> bool {
        let has = |values: &BTreeSet<String>| names.clone().any(|name| values.contains(name));
        (self.any.is_empty() || has(&self.any)) && !has(&self.none)
    }

    fn is_empty(&self) -> bool {
        self.any.is_empty() && self.none.is_empty()
    }
}

/// Filters of a result, in addition to the words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Types of events.
    pub types: ValueFilter,
    /// Sessions, by id.
    pub sessions: ValueFilter,
    /// The only workspace, by its whole name, regardless of the query text.
    workspace: Option<String>,
    /// Workspaces by the last components of their paths, as a user writes them in a query.
    workspace_ends: ValueFilter,
    /// Speakers.
    pub speakers: ValueFilter,
    /// Origins.
    pub origins: ValueFilter,
    /// The first instant, inclusive.
    pub after: Option<Timestamp>,
    /// The end, exclusive.
    pub before: Option<Timestamp>,
}

impl Filters {
    /// Returns true if events of a session may be hits; `workspace` is the session's.
    #[must_use]
    pub fn allows_session(&self, id: &str, workspace: Option<&str>) -> bool {
        self.sessions.matches(|value| value == id) && self.allows_workspace(workspace)
    }

    /// Returns true if events of sessions of a workspace may be hits.
    #[must_use]
    pub fn allows_workspace(&self, workspace: Option<&str>) -> bool {
        // A path denotes one workspace; a name is the last component of a path.
        let ends = |value: &str| {
            let rest = workspace.and_then(|workspace| workspace.strip_suffix(value));
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
                && (!value.starts_with('/') || workspace == Some(value))
        };
        let is_other = self.workspace.is_some() && self.workspace.as_deref() != workspace;
        !is_other && self.workspace_ends.matches(ends)
    }

    /// Returns true if the query text names workspaces, so that several may match.
    #[must_use]
    pub fn names_workspaces(&self) -> bool {
        !self.workspace_ends.any.is_empty()
    }

    pub(super) fn allows_kind(&self, kind: &str) -> bool {
        // A type, and its domains.
        let domains = iter::successors(Some(kind), |name| Some(name.rsplit_once('.')?.0));
        self.types.matches_any_of(domains)
    }

    pub(super) fn allows_speaker(&self, speaker: Option<&str>) -> bool {
        self.speakers.matches(|value| speaker.is_some_and(|speaker| fold(speaker) == fold(value)))
    }

    fn is_empty(&self) -> bool {
        let Self { types, sessions, workspace, workspace_ends, speakers, origins, .. } = self;
        let choices = [types, sessions, workspace_ends, speakers, origins];
        choices.iter().all(|choice| choice.is_empty())
            && workspace.is_none()
            && self.after.or(self.before).is_none()
    }
}

/// The terms of the index that a word matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// This exact term.
    Term(String),
    /// All terms with this prefix.
    Prefix(String),
    /// This term, and all terms with it and a `/` as a prefix.
    PathPrefix(String),
    /// No term, but events within a time range, its end exclusive.
    TimeRange(Timestamp, Timestamp),
}

/// A word of a query; a passage with a term of one of the patterns matches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WordPatterns {
    pub(super) patterns: Vec<Pattern>,
    /// True if a passage needs it for the bonus for all words of the query.
    pub(super) is_needed: bool,
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct ParsedQuery {
    /// Filters of the result; a caller may add to them.
    pub filters: Filters,
    pub(super) ranked: Vec<WordPatterns>,
    pub(super) must: Vec<WordPatterns>,
    pub(super) must_not: Vec<WordPatterns>,
    /// The query text for snippets, and the required phrases.
    words: Query,
    /// Excluded phrases.
    excluded: Query,
    /// Number of members, prefixes, and excluded or quoted words, for the limit.
    count: usize,
}

/// A token of a query, delimited by white space.
struct QueryToken<'t> {
    offset: usize,
    is_must: bool,
    is_not: bool,
    member: Option<QueryMember>,
    text: &'t str,
    is_quoted: bool,
}

impl ParsedQuery {
    /// Parses a query; words such as "yesterday" are relative to `now`.
    ///
    /// # Errors
    /// [`QueryError`] with the byte offset.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryFault::TooLong.at_byte(QUERY_BYTES_MAX));
        }
        let mut query = Self::match_all();
        let (mut at, mut plain) = (0, String::new());
        while let Some(token) = QueryToken::parse_next(text, &mut at)? {
            match token.member {
                Some(member) => query.add_filter(member, token.text, token.is_not, now),
                None => query.add_token(&token, &mut plain),
            }
            .map_err(|fault| fault.at_byte(token.offset))?;
            query.count += usize::from(token.member.is_some() || token.is_not || token.is_quoted);
            query.count += usize::from(token.text.ends_with('*'));
            if query.count > WORDS_MAX {
                return Err(QueryFault::TooLong.at_byte(token.offset));
            }
        }
        query.rank_plain(&plain, now);
        let mut phrases = query.words.phrases().iter().chain(query.excluded.phrases());
        let is_long = phrases.any(|phrase| phrase.len() > WORDS_MAX);
        if query.ranked.len() > WORDS_MAX || is_long {
            return Err(QueryFault::TooLong.at_byte(0));
        }
        query.words.build_lookup();
        query.excluded.build_lookup();
        let has_condition =
            !query.ranked.is_empty() || query.needs_text() || !query.filters.is_empty();
        let has_condition = has_condition || !query.must.is_empty();
        if has_condition { Ok(query) } else { Err(QueryFault::NoWord.at_byte(0)) }
    }

    /// Returns the query that matches every event.
    #[must_use]
    pub fn match_all() -> Self {
        let (words, excluded, filters) = (Query::empty(), Query::empty(), Filters::default());
        let (ranked, must, must_not) = (Vec::new(), Vec::new(), Vec::new());
        Self { filters, ranked, must, must_not, words, excluded, count: 0 }
    }

    /// Returns the words and phrases, for [`extract_snippet`](super::extract_snippet).
    #[must_use]
    pub fn snippet_query(&self) -> &Query {
        &self.words
    }

    /// Returns the bonus of a passage with consecutive words in the order of the query, for
    /// [`Why::row`](crate::api::search::Why::row): 1 for all, 0 for less than half, else the square
    /// of their share, since a few words occur so by chance, above all in a question.
    #[must_use]
    pub fn row_bonus(&self, passage: &str) -> f32 {
        let share = self.words.run_share(passage);
        if share >= ROW_MIN { share.powi(2) as f32 } else { 0.0 }
    }

    /// Returns true if a passage without `lacking` words of the query may get a row bonus.
    pub(super) fn may_have_row(&self, lacking: usize) -> bool {
        self.words.run_share_max(lacking) >= ROW_MIN
    }

    /// Returns true if a hit must pass [`matches_phrases`](Self::matches_phrases): the index has no
    /// phrases.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        !self.words.phrases().is_empty() || !self.excluded.phrases().is_empty()
    }

    /// Returns true if the text of an event has every required phrase and no excluded one.
    #[must_use]
    pub fn matches_phrases(&self, text: &str) -> bool {
        self.words.has_phrases(text, false) && !self.excluded.has_phrases(text, true)
    }

    /// Returns true if an event that was not found by its words may be a hit: it passes the
    /// filters, and no word is required or excluded.
    #[must_use]
    pub fn allows_event(&self, event: &Event, speaker: Option<&str>) -> bool {
        let at = event.happened_at();
        let filters = &self.filters;
        self.must.is_empty()
            && self.must_not.is_empty()
            && filters.allows_kind(event.kind.as_str())
            && filters.allows_speaker(speaker)
            && filters.origins.matches(|name| name == event.origin.as_str())
            && filters.after.is_none_or(|after| at >= after)
            && filters.before.is_none_or(|before| at < before)
    }

    /// Adds the filters that the caller passes separately from the query text.
    ///
    /// # Errors
    /// [`QueryFault::Value`] for the origin.
    pub fn add_filters(
        &mut self,
        beside: CallerFilters<'_>,
        now: Timestamp,
    ) -> Result<(), QueryFault> {
        let CallerFilters { types, workspace, who, origin } = beside;
        self.filters.workspace = workspace.map(str::to_owned);
        let types = types.iter().map(|value| (QueryMember::Type, *value));
        let who = who.map(|value| (QueryMember::Who, value));
        let origin = origin.map(|value| (QueryMember::Origin, value));
        let mut all = types.chain(who).chain(origin);
        all.try_for_each(|(member, value)| self.add_filter(member, value, false, now))
    }

    /// Adds a filter for the value of a member; with `is_not` one that excludes it.
    fn add_filter(
        &mut self,
        member: QueryMember,
        value: &str,
        is_not: bool,
        now: Timestamp,
    ) -> Result<(), QueryFault> {
        let filters = &mut self.filters;
        let choice = match member {
            QueryMember::Type => &mut filters.types,
            QueryMember::Session => &mut filters.sessions,
            QueryMember::Workspace => &mut filters.workspace_ends,
            QueryMember::Who => &mut filters.speakers,
            QueryMember::Origin if ORIGINS.contains(&value) => &mut filters.origins,
            QueryMember::Origin => {
                let takes = "user, model, tool, web, harness or import";
                return Err(QueryFault::Value { field: "origin", takes });
            }
            QueryMember::Kind
            | QueryMember::File
            | QueryMember::Url
            | QueryMember::Symbol
            | QueryMember::Error
            | QueryMember::Command
            | QueryMember::Person
            | QueryMember::Package => {
                let patterns = vec![entity_pattern(member, value)];
                let word = WordPatterns { patterns, is_needed: true };
                if is_not {
                    add_unique(&mut self.must_not, word);
                } else {
                    add_unique(&mut self.must, word.clone());
                    add_unique(&mut self.ranked, word);
                }
                return Ok(());
            }
            QueryMember::After | QueryMember::Before => {
                let field = if member == QueryMember::After { "after" } else { "before" };
                let takes = "a day (2026-11-24), a month, a year, a time, or a word like yesterday";
                let at = dates::parse_start_time(value, now, &TimeZone::UTC).filter(|_| !is_not);
                let at = at.ok_or(QueryFault::Value { field, takes })?;
                match member {
                    QueryMember::After => filters.after = Some(filters.after.unwrap_or(at).max(at)),
                    _ => filters.before = Some(filters.before.unwrap_or(at).min(at)),
                }
                return Ok(());
            }
            QueryMember::Day => {
                let takes = "a day (2026-11-24), or FROM/TO, two times";
                let day = dates::parse_range(value, now, &TimeZone::UTC).filter(|_| !is_not);
                let (from, to) = day.ok_or(QueryFault::Value { field: "day", takes })?;
                let patterns = vec![Pattern::TimeRange(from, to)];
                add_unique(&mut self.ranked, WordPatterns { patterns, is_needed: false });
                return Ok(());
            }
        };
        let value = if member == QueryMember::Type { value.trim_end_matches(".*") } else { value };
        if is_not { &mut choice.none } else { &mut choice.any }.insert(value.to_owned());
        Ok(())
    }

    /// Restricts the result to events whose body has one of these kinds.
    pub fn narrow_to_kinds(&mut self, kinds: &[&str]) {
        let patterns = kinds.iter().map(|kind| entity_pattern(QueryMember::Kind, kind)).collect();
        let word = WordPatterns { patterns, is_needed: true };
        self.must.push(word.clone());
        self.ranked.push(word);
    }

    /// Adds a token; words that only rank are appended to `plain`.
    fn add_token(&mut self, token: &QueryToken<'_>, plain: &mut String) -> Result<(), QueryFault> {
        let begins = token.text.strip_suffix('*').filter(|text| text.ends_with(is_word_char));
        if let Some(text) = begins.filter(|_| !token.is_quoted) {
            self.add_prefix(token, text);
            return Ok(());
        }
        if !token.is_not {
            plain.push_str(token.text);
            plain.push(' ');
        }
        if !(token.is_must || token.is_not || token.is_quoted) {
            return Ok(());
        }
        let (needed, is_common) = required_terms(token.text);
        let many = token.is_quoted && (is_common || needed.len() > 1) || needed.len() > 1;
        match (token.is_not, many) {
            (true, true) => self.excluded.add_text(token.text, true),
            (true, false) if needed.is_empty() && is_common => return Err(QueryFault::Common),
            (true, false) => {
                needed.into_iter().for_each(|word| add_unique(&mut self.must_not, word))
            }
            (false, many) => {
                self.words.add_text(token.text, many && token.is_quoted);
                needed.into_iter().for_each(|word| add_unique(&mut self.must, word));
            }
        }
        Ok(())
    }

    fn add_prefix(&mut self, token: &QueryToken<'_>, text: &str) {
        // Of an identifier with several parts, the last term is the whole.
        let mut begins = None;
        visit_terms(text, |term| begins = Some(term.word.to_owned()));
        let Some(begins) = begins else { return };
        let endings = ENDINGS.iter().map(|ending| stem(&format!("{begins}{ending}")).into_owned());
        let mut patterns = vec![Pattern::Prefix(begins.clone())];
        for other in endings.chain([stem(&begins).into_owned()]) {
            let other = Pattern::Term(other);
            let is_new = !matches!(&other, Pattern::Term(term) if term.starts_with(&begins));
            if is_new && !patterns.contains(&other) {
                patterns.push(other);
            }
        }
        let word = WordPatterns { patterns, is_needed: true };
        if token.is_not {
            add_unique(&mut self.must_not, word);
            return;
        }
        if token.is_must {
            add_unique(&mut self.must, word.clone());
        }
        self.words.add_text(text, false);
        add_unique(&mut self.ranked, word);
    }

    /// Ranks by the words of a text, including dates; where a member gives the time, words such as
    /// "yesterday" are ignored.
    fn rank_plain(&mut self, text: &str, now: Timestamp) {
        self.words.add_text(text, false);
        let is_time = |pattern: &Pattern| matches!(pattern, Pattern::TimeRange(..));
        let has_time = self.ranked.iter().any(|word| word.patterns.iter().any(is_time));
        let mut found = dates::find(text, now);
        found.retain(|date| date.is_whole || !has_time);
        let mut add = |patterns: Vec<Pattern>, is_needed: bool| {
            let word = WordPatterns { patterns, is_needed };
            if self.ranked.len() <= WORDS_MAX {
                add_unique(&mut self.ranked, word);
            }
        };
        visit_terms(text, |term| {
            let is_date = found.iter().any(|date| {
                date.is_whole
                    && date.bytes.start <= term.range.start
                    && term.range.end <= date.bytes.end
            });
            if !is_date && !is_stop_word(term.word) {
                add(vec![Pattern::Term(stem(term.word).into_owned())], true);
            }
            if !term.whole && !is_date && is_number(term.word) {
                let year = dates::year_term(term.word);
                year.into_iter().for_each(|year| add(vec![Pattern::Term(year)], false));
            }
        });
        for date in found {
            for (index, terms) in date.span.query_terms().into_iter().enumerate() {
                add(terms.into_iter().map(Pattern::Term).collect(), date.is_whole && index == 0);
            }
        }
    }
}

/// Adds a word unless `words` has it: its postings would be read twice.
fn add_unique(words: &mut Vec<WordPatterns>, word: WordPatterns) {
    if !words.contains(&word) {
        words.push(word);
    }
}

/// Returns the terms that a passage with the text has, and true if the text has stop words.
fn required_terms(text: &str) -> (Vec<WordPatterns>, bool) {
    let mut found: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut is_common = false;
    visit_terms(text, |term| {
        if term.whole {
            found.retain(|(range, _)| range.start < term.range.start);
        }
        match is_stop_word(term.word) {
            true => is_common = true,
            false => found.push((term.range.clone(), stem(term.word).into_owned())),
        }
    });
    let word = |(_, term)| WordPatterns { patterns: vec![Pattern::Term(term)], is_needed: true };
    (found.into_iter().map(word).collect(), is_common)
}

impl<'t> QueryToken<'t> {
    /// Parses the token at or after `at`, and advances `at` past it.
    fn parse_next(text: &'t str, at: &mut usize) -> Result<Option<Self>, QueryError> {
        let rest = text.get(*at..).unwrap_or_default();
        let offset = *at + rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let mut characters = rest.chars();
        let Some(first) = characters.next() else { return Ok(None) };
        let signs = matches!(first, '+' | '-')
            && characters.next().is_some_and(|next| is_word_char(next) || is_quote(next));
        let (is_must, is_not) = (signs && first == '+', signs && first == '-');
        let body = if signs { rest.get(1..).unwrap_or_default() } else { rest };
        let (member, body) =
            parse_member(body).map_or((None, body), |(member, rest)| (Some(member), rest));
        let start = text.len() - (text.len() - offset - (rest.len() - body.len()));
        let quote = body.chars().next().filter(|first| is_quote(*first)).map(char::len_utf8);
        let (from, length, after) = match quote {
            Some(bytes) => {
                let inner = body.get(bytes..).unwrap_or_default();
                let end =
                    inner.find(is_quote).ok_or_else(|| QueryFault::Unclosed.at_byte(start))?;
                let close = inner.get(end..).and_then(|rest| rest.chars().next());
                (start + bytes, end, close.map_or(0, char::len_utf8))
            }
            None => {
                let ends = |c: char| c.is_whitespace() || member.is_none() && is_quote(c);
                (start, body.find(ends).unwrap_or(body.len()), 0)
            }
        };
        *at = from + length + after;
        let text = text.get(from..from + length).unwrap_or_default();
        Ok(Some(Self { offset, is_must, is_not, member, text, is_quoted: quote.is_some() }))
    }
}

fn parse_member(text: &str) -> Option<(QueryMember, &str)> {
    let (name, rest) = text.split_once(':')?;
    let (_, member) = MEMBERS.iter().find(|(known, _)| *known == name)?;
    let has_value = rest.chars().next().is_some_and(|first| !first.is_whitespace());
    (has_value && !rest.starts_with("//")).then_some((*member, rest))
}

/// Rewrites a query, which is in UTC, for a time zone: the days of `after:`, `before:` and `day:`
/// become instants, and words such as "yesterday" add a `day:`.
#[must_use]
pub fn rewrite_for_zone(text: &str, now: Timestamp, zone: &TimeZone) -> String {
    let (mut out, mut at, mut done, mut plain) = (String::new(), 0, 0, String::new());
    // An invalid query is rejected where it is parsed.
    while let Ok(Some(token)) = QueryToken::parse_next(text, &mut at) {
        let time = match token.member {
            Some(QueryMember::After | QueryMember::Before) => {
                dates::parse_start_time(token.text, now, zone).map(|start| start.to_string())
            }
            Some(QueryMember::Day) => dates::parse_range(token.text, now, zone).map(day_filter),
            None if !token.is_not => {
                plain.push_str(token.text);
                plain.push(' ');
                None
            }
            _ => None,
        };
        let Some(time) = time else { continue };
        let from = token.text.as_ptr().addr() - text.as_ptr().addr();
        out.push_str(text.get(done..from).unwrap_or_default());
        out.push_str(&time);
        done = from + token.text.len();
    }
    out.push_str(text.get(done..).unwrap_or_default());
    for stretch in dates::find_relative_times(&plain, now, zone) {
        out.push_str(" day:");
        out.push_str(&day_filter(stretch));
    }
    out
}

/// Formats a time range as the value of `day:`.
fn day_filter((from, to): (Timestamp, Timestamp)) -> String {
    format!("{from}/{to}")
}

/// Returns the pattern by which a member finds an entity.
fn entity_pattern(member: QueryMember, value: &str) -> Pattern {
    let under = |kind: EntityKind| Pattern::PathPrefix(kind.term(value));
    match member {
        QueryMember::File => under(EntityKind::File),
        QueryMember::Url => under(EntityKind::Url),
        QueryMember::Symbol => under(EntityKind::Symbol),
        QueryMember::Error => Pattern::Prefix(EntityKind::Error.term(value)),
        QueryMember::Command => under(EntityKind::Command),
        QueryMember::Person => Pattern::PathPrefix(EntityKind::Person.term(&value.to_lowercase())),
        QueryMember::Package => under(EntityKind::Package),
        _ => Pattern::Term(super::entities::kind_term(value)),
    }
}

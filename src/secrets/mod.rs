//! SECRETS: recognises passwords, keys and tokens in other programs' output, and removes them
//! before it is stored. Pure: the same text and rules give the same result. It must not read a
//! file, and must not keep or print a removed secret: only the name of the rule remains.
//!
//! A rule is data: keywords without which it cannot match, a pattern, and a test of its match. One
//! pass over the text finds the keywords; only the rules of keywords found are run. A rule with
//! many forms has many patterns, each compiled at its first use; most texts need none. Spans that a
//! user marked as private are removed under any rules. A text is scanned whole, verbatim and with
//! its escapes resolved: a caller that cuts a text cuts a [`MaskedText`] one.

mod escapes;
mod json;
mod masked;
mod match_test;
mod names;
mod private;
mod rules;
mod value;

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::OnceLock};

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder};

use escapes::UnescapedText;
pub use masked::MaskedText;
use match_test::MatchTest;
pub use rules::{RULES, Rule};

/// Maximum bytes of a compiled pattern from the configuration.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Rounds of resolving the escapes of a text: escapes of one kind may hide those of another.
const LAYERS_MAX: usize = 3;
/// Distance from a keyword within which an escape may change a rule's match, in bytes.
const NEAR_BYTES: usize = 256;
/// Prefix of the replacement of a secret; the name of the rule follows.
const MARK: &str = "[redacted:";
const MARK_END: &str = "]";

/// Error in the configuration of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A disabled rule does not exist.
    #[error("there is no rule {0:?} to leave out")]
    Unknown(String),
    /// The setting has a word other than `on`, `off` and `-rule`.
    #[error("{0:?}: write on, off, or the rules to leave out, as in -jwt,-url-password")]
    Word(String),
    /// A line of a file of rules is invalid.
    #[error("line {line}: write NAME PATTERN, or allow PATTERN")]
    Line {
        /// Line number, from 1.
        line: usize,
    },
    /// A pattern is invalid.
    #[error("line {line}: {problem}")]
    Pattern {
        /// Line number, from 1.
        line: usize,
        /// Reason for the refusal.
        problem: String,
    },
}

/// Number of matches of each rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskingReport(BTreeMap<String, u64>);

impl MaskingReport {
    /// Returns true if no secret was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each rule that matched, with its number of matches.
    pub fn rules(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(rule, count)| (rule.as_str(), *count))
    }

    /// Formats the counts as a JSON object: `{"jwt":1}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let members: Vec<_> = self.rules().map(|(rule, n)| format!("\"{rule}\":{n}")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn add(&mut self, rule: &str, times: u64) {
        *self.0.entry(rule.to_owned()).or_default() += times;
    }
}

/// Compiled rules. Patterns are compiled when their keywords are first found.
pub struct Recogniser {
    rules: Vec<CompiledRule>,
    /// Keywords of all rules, each with its rules.
    words: AhoCorasick,
    owners: Vec<WordRule>,
    /// Matches that are not secrets, regardless of the rule.
    allowed: Vec<Regex>,
}

/// Start and end of a secret, and the index of its rule; `None` for a private span.
type Found = (usize, usize, Option<usize>);

/// Rule of a keyword.
struct WordRule {
    rule: Option<usize>,
    /// True if a match begins with the keyword, at a word boundary.
    begins: bool,
}

struct CompiledRule {
    name: Cow<'static, str>,
    pattern: Cow<'static, str>,
    test: MatchTest,
    /// True if it runs on every text, because its keywords are not known.
    always: bool,
    compiled: OnceLock<Regex>,
}

impl CompiledRule {
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            // Tokens are ASCII: ASCII boundaries and digits compile to small, fast patterns.
            let pattern = self.pattern.replace(r"\b", r"(?-u:\b)").replace(r"\d", "[0-9]");
            compile(&pattern).expect("a pattern of the table is tested, another was compiled")
        })
    }
}

/// Maps a byte offset in the last resolved layer of a text to the original.
fn source_offset(layers: &[UnescapedText], at: usize) -> usize {
    layers.iter().rev().fold(at, |at, layer| layer.source_offset(at))
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build()
}

/// Parses a setting into the names of disabled rules and its errors; returns `None` for `off`.
fn parse_setting(setting: &str) -> Option<(Vec<&str>, Vec<RulesError>)> {
    if setting.trim() == "off" {
        return None;
    }
    let (mut off, mut wrong) = (Vec::new(), Vec::new());
    for word in setting.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "on")) {
        match word.strip_prefix('-') {
            Some(name) if RULES.iter().any(|rule| rule.name == name) => off.push(name),
            Some(name) => wrong.push(RulesError::Unknown(name.to_owned())),
            None => wrong.push(RulesError::Word(word.to_owned())),
        }
    }
    Some((off, wrong))
}

/// Parses a line of the user's rules into a name and a pattern.
fn parse_custom_rule(line: usize, text: &str) -> Result<(&str, Regex), RulesError> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let parts = text.split_once(' ').filter(|(name, _)| name.chars().all(known));
    let (name, pattern) = parts.ok_or(RulesError::Line { line })?;
    let regex = compile(pattern.trim())
        .map_err(|error| RulesError::Pattern { line, problem: error.to_string() })?;
    Ok((name, regex))
}

impl Default for Recogniser {
    /// Creates the recogniser with every built-in rule.
    fn default() -> Self {
        Self::new(&[], Vec::new(), Vec::new())
    }
}

impl Recogniser {
    /// Parses a setting: `on`, `off`, or the names of rules to disable (`-jwt,-url-password`).
    /// `lines` holds the user's own rules, one a line: `NAME PATTERN`, and `allow PATTERN` for
    /// texts that are not secrets. With `off` only private spans are removed.
    ///
    /// # Errors
    /// [`RulesError`] with the invalid part.
    pub fn parse(setting: &str, lines: &str) -> Result<Self, RulesError> {
        let (rules, wrong) = Self::parse_valid_lines(setting, lines);
        wrong.into_iter().next().map_or(Ok(rules), Err)
    }

    /// Checks a value of the setting without building its rules.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn check_setting(setting: &str) -> Result<(), RulesError> {
        let wrong = parse_setting(setting).map(|(_, wrong)| wrong).unwrap_or_default();
        wrong.into_iter().next().map_or(Ok(()), Err)
    }

    /// Parses like [`Self::parse`], but skips invalid parts; also returns their errors.
    #[must_use]
    pub fn parse_valid_lines(setting: &str, lines: &str) -> (Self, Vec<RulesError>) {
        let Some((off, mut wrong)) = parse_setting(setting) else {
            return (Self::private_spans_only(), Vec::new());
        };
        let (mut custom, mut allowed) = (Vec::new(), Vec::new());
        for (line, text) in (1..).zip(lines.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match parse_custom_rule(line, text) {
                Ok(("allow", regex)) => allowed.push(regex),
                Ok(rule) => custom.push(rule),
                Err(error) => wrong.push(error),
            }
        }
        (Self::new(&off, custom, allowed), wrong)
    }

    /// Creates a recogniser without rules: it removes only private spans.
    #[must_use]
    pub fn private_spans_only() -> Self {
        let all: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        Self::new(&all, Vec::new(), Vec::new())
    }

    /// Creates a recogniser of the built-in rules that are not in `off`, and of custom rules.
    fn new(off: &[&str], custom: Vec<(&str, Regex)>, allowed: Vec<Regex>) -> Self {
        let mut rules = Vec::new();
        let (mut words, mut owners) = (Vec::<&str>::new(), Vec::new());
        for rule in RULES.iter().filter(|rule| !off.contains(&rule.name)) {
            let first = rule.pattern.strip_prefix(r"\b").map(|rest| rest.replace('\\', ""));
            let first = first.map(|rest| rest.to_ascii_lowercase());
            let begins = |word: &str| first.as_ref().is_some_and(|first| first.starts_with(word));
            words.extend(rule.keywords);
            let owner = |word: &&str| WordRule { rule: Some(rules.len()), begins: begins(word) };
            owners.extend(rule.keywords.iter().map(owner));
            rules.push(CompiledRule {
                name: rule.name.into(),
                pattern: rule.pattern.into(),
                test: rule.test,
                always: false,
                compiled: OnceLock::new(),
            });
        }
        words.push(private::NAME);
        owners.push(WordRule { rule: None, begins: false });
        rules.extend(custom.into_iter().map(|(name, regex)| CompiledRule {
            name: name.to_owned().into(),
            pattern: "".into(),
            test: MatchTest::Any,
            always: true,
            compiled: OnceLock::from(regex),
        }));
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
        let words = words.expect("the words of the table are few and short");
        Self { rules, words, owners, allowed }
    }

    /// Removes the secrets of a text, or of the JSON text of an event. Call it before a text is
    /// cut or split: it must see the whole text.
    #[must_use]
    pub fn mask(&self, text: &str) -> MaskedText {
        MaskedText::new(self, text)
    }

    /// Replaces the secrets of a text; `None` when there are none.
    #[must_use]
    pub fn mask_text(&self, text: &str, report: &mut MaskingReport) -> Option<String> {
        let found = self.find_secrets(text);
        if found.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (from, to, rule) in found {
            out.push_str(text.get(done..from).unwrap_or_default());
            out.push_str(&self.count_and_mark(rule, report));
            done = to;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Some(out)
    }

    /// Replaces the secrets in the strings of a JSON text, everything else unchanged; `None` when
    /// there are none. The name of a member counts as well: the value of `password` is a secret.
    #[must_use]
    pub fn mask_json(&self, text: &str, report: &mut MaskingReport) -> Option<String> {
        if self.rules.is_empty() && !self.words.is_match(text) {
            return None;
        }
        json::redact(self, text, report)
    }

    /// Returns the ranges of secrets, in order, without overlap, each with its rule; `None` for a
    /// private span. Where matches of several rules overlap, their union is reported for the rule
    /// that comes first in the table; a private span precedes all of them.
    fn find_secrets(&self, text: &str) -> Vec<Found> {
        let (mut found, mut is_private) = self.find_matches(text, None);
        let mut layers: Vec<UnescapedText> = Vec::new();
        while let Some(layer) =
            UnescapedText::parse(layers.last().map_or(text, |layer| &layer.text))
        {
            let (more, has_private) = self.find_matches(&layer.text, Some(&layer));
            is_private |= has_private;
            layers.push(layer);
            found.extend(more.into_iter().map(|(from, to, rule)| {
                (source_offset(&layers, from), source_offset(&layers, to), rule)
            }));
            if layers.len() == LAYERS_MAX {
                break;
            }
        }
        if is_private {
            let spans = private::find_spans(layers.last().map_or(text, |layer| &layer.text));
            let original = |at| source_offset(&layers, at);
            found.extend(spans.iter().map(|span| (original(span.start), original(span.end), None)));
        }
        found.sort_unstable();
        let mut joined: Vec<Found> = Vec::with_capacity(found.len());
        for (from, to, at) in found {
            match joined.last_mut().filter(|(_, end, _)| from < *end) {
                Some((_, end, rule)) => (*end, *rule) = ((*end).max(to), (*rule).min(at)),
                None => joined.push((from, to, at)),
            }
        }
        joined
    }

    /// Returns the matches of the rules in a text, and true if it may have a private span. The
    /// resolved text is scanned only near its escapes, where alone it differs.
    fn find_matches(&self, text: &str, resolved: Option<&UnescapedText>) -> (Vec<Found>, bool) {
        let mut wanted: Vec<bool> = self.rules.iter().map(|rule| rule.always).collect();
        let mut is_private = false;
        let inside = |at: Option<usize>| {
            let before = at.and_then(|at| text.as_bytes().get(at));
            before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let mut search = |part: Range<usize>| {
            let (from, text) = (part.start, text.get(part).unwrap_or_default());
            for met in self.words.find_overlapping_iter(text) {
                let Some(owner) = self.owners.get(met.pattern().as_usize()) else { continue };
                if owner.begins && inside((from + met.start()).checked_sub(1)) {
                    continue;
                }
                match owner.rule.and_then(|rule| wanted.get_mut(rule)) {
                    Some(wanted) => *wanted = true,
                    None => is_private = true,
                }
            }
        };
        match resolved {
            Some(resolved) => resolved.ranges_near_escapes(NEAR_BYTES).for_each(search),
            None => search(0..text.len()),
        }
        let mut found = Vec::new();
        let wanted = (0..).zip(&self.rules).zip(wanted).filter(|(_, wanted)| *wanted);
        for (at, rule) in wanted.map(|(rule, _)| rule) {
            for captures in rule.regex().captures_iter(text) {
                let Some(all) = captures.get(0) else { continue };
                let secret = captures.name("s").unwrap_or(all);
                let said = rule.test.secret_range(secret.as_str());
                let from = secret.start() + said.start;
                let to = secret.start() + said.end;
                let said = text.get(from..to).unwrap_or_default();
                let before = text.get(all.start()..from).unwrap_or_default();
                if !said.is_empty()
                    && rule.test.passes(before, said)
                    && !said.starts_with(MARK)
                    && !self.is_allowed(said)
                {
                    found.push((from, to, Some(at)));
                }
            }
        }
        (found, is_private)
    }

    fn is_allowed(&self, secret: &str) -> bool {
        self.allowed.iter().any(|pattern| pattern.is_match(secret))
    }

    fn count_and_mark(&self, rule: Option<usize>, report: &mut MaskingReport) -> String {
        let Some(rule) = rule else {
            report.add(private::NAME, 1);
            return private::MARK.to_owned();
        };
        let name = self.rules.get(rule).map_or("secret", |rule| &rule.name);
        report.add(name, 1);
        format!("{MARK}{name}{MARK_END}")
    }

    /// Returns true if the user has custom rules, whose keywords are not known.
    fn has_custom_rules(&self) -> bool {
        self.rules.iter().any(|rule| rule.always)
    }

    /// Returns the index of the rule for JSON members with secret names, if it is enabled.
    fn member_rule(&self) -> Option<usize> {
        self.rules.iter().position(|rule| rule.name == rules::MEMBER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_with_many_forms_matches_only_at_its_keywords() {
        let compiled = |text: &str| {
            let recogniser = Recogniser::default();
            assert_eq!(recogniser.mask_json(text, &mut MaskingReport::default()), None);
            let rules = recogniser.rules.iter().filter(|rule| rule.compiled.get().is_some());
            rules.map(|rule| rule.pattern.clone().into_owned()).collect::<Vec<_>>()
        };
        // Members of every hook event.
        let event = r#"{"session_id":"s","transcript_path":"/home/ada/.claude/projects/-p/t.jsonl",
            "cwd":"/home/ada/task-1","hook_event_name":"PostToolUse","tool_input":{"command":"ls"},
            "tool_response":{"stdout":"msg.rs ssl_x disk-2","stderr":""},"tool_use_id":"toolu_1"}"#;
        assert_eq!(compiled(event), Vec::<String>::new());
        let patterns = compiled(r#"{"text":"patch the path"}"#);
        assert_eq!(patterns, [r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"]);
    }
}

//! Statements of the agent that no longer hold: a later user message, or a later sentence of the
//! agent on the same names, negates or replaces them. Only the latest statements are compared, by
//! their terms; an unclear contradiction withdraws none. It must not keep a text.

use std::{
    collections::{HashSet, VecDeque},
    ops::Range,
    sync::LazyLock,
};

use aho_corasick::AhoCorasick;

use super::sentences::end_of_sentence;
use crate::event::{
    Position,
    lists::{phrase_list, word_list},
    push_bounded,
    text::head,
};

/// Most statements compared; `OF_MESSAGE_MAX` bounds those of one message.
const CLAIMS_MAX: usize = 192;
const OF_MESSAGE_MAX: usize = 24;
/// Most terms of a statement that are compared, and most bytes of a text that are read.
const TOPICS_MAX: usize = 24;
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Most characters of a user message that counts as a correction as a whole.
const CORRECTION_CHARS_MAX: usize = 400;
/// Number of user messages that a correction reaches back.
const WORDS_BACK: u64 = 3;

/// Stop words: terms that do not name a subject.
const STOP: &str = " the and for that this with from have has had are was were will would should \
    could can may might must not but its it's they them their there then than what when where \
    which who how why you your our into onto over under also just only very more most some \
    any all every each both either other another same such too now here let lets need needs want \
    get got make made use used using does did done doing been being about because since after \
    before again still yet out off per via one two first second next last new old see look looks \
    like think know actually really maybe perhaps instead rather however so if as at by in of on \
    or to is be we i it a an no yes ok okay good great perfect right well sure wait oh suggest \
    suggests seems means mean way thing things case issue problem change changes code file files ";
const BAD: [&str; 6] = ["fail", "error", "broken", "break", "conflict", "crash"];
/// Verdict words; they hold even if the subject is fixed later.
const WRONG: [&str; 4] = ["wrong", "incorrect", "mistak", "invalid"];
const GOOD: [&str; 8] = ["pass", "works", "succe", "fixed", "resolv", "green", "correct", "clean"];
/// Verbs of a build: affirmed they mean success, negated a failure.
const BUILD: [&str; 4] = ["builds", "built", "compiles", "compiled"];
const NEGATIONS: [&str; 12] =
    word_list("not no never cannot without don't doesn't didn't isn't can't won't aren't");
const HEDGES: [&str; 10] = phrase_list(
    "might |maybe |perhaps |possibly |probably |suggests |could be |somehow|i suspect |presumably ",
);
const RETRACTIONS: [&str; 18] = phrase_list(
    "turns out|turned out|false positive|was wrong|were wrong|my mistake|scrap |no longer |\
     not the case|misread|misunderstood|correction:|contrary to|oh, |actually, |that's because|\
     i was mistaken|not needed after all",
);
const CONCLUSIONS: [&str; 11] = phrase_list(
    "so my |so the |the root cause|the real |confirmed|the fix works|this proves|this means|\
     that means|i was right|indeed",
);
const PLANS: [&str; 16] = phrase_list(
    "my lean|i'd |i would |recommend|i suggest|i'll |i will |let me |should |going to |i propose|\
     the best |choice|need to |follow the |revert ",
);
/// Words of a sentence about tests that fail now, most words between `tests` and them, and words of
/// a sentence that keeps its worth once they pass: it has a reason, a condition or a place.
const FAILING: [&str; 6] = ["fail", "fails", "failing", "broken", "red", "failed"];
const FAILING_WITHIN: usize = 4;
const REASONS: [&str; 27] = word_list(
    "because since due cause caused causes when if unless without whenever reason on under against \
     main master ci windows linux macos upstream branch and but already flaky",
);
/// Prefixes of a user message that objects.
const OBJECTIONS: [&str; 17] = phrase_list(
    "no |no,|no.|no!|nope|not |don't |do not |wrong|that's not|that is not|stop|actually|instead|\
     never |only |nein",
);
const EVERY: [&str; 5] = [" every ", " all ", " always ", " any ", " too"];

/// Stems of words that forbid.
const FORBIDS: [&str; 4] = ["forbid", "prohibit", "avoid", "banned"];

/// Matcher of all phrases; the kinds follow each other in this order.
static PHRASES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let all = [&HEDGES[..], &RETRACTIONS, &CONCLUSIONS, &PLANS, &EVERY].concat();
    AhoCorasick::new(all).expect("a few short texts")
});
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP.split_whitespace().collect());

/// Features of a statement, for comparison with others.
#[derive(Clone, Debug, Default)]
struct StatementFeatures {
    /// Hashes of its subject terms, ascending; `names` has the identifiers among them.
    topics: Vec<u16>,
    names: Vec<u16>,
    is_good: bool,
    is_bad: bool,
    is_wrong: bool,
    is_hedged: bool,
    retracts: bool,
    concludes: bool,
    plans: bool,
    is_every: bool,
    /// True if it denies or forbids something.
    denies: bool,
    /// True if it says that tests fail, and gives no reason.
    says_tests_fail: bool,
}

/// A statement of the agent.
#[derive(Clone, Debug)]
struct Claim {
    position: Position,
    /// Byte range in the message.
    range: Range<usize>,
    sense: StatementFeatures,
    /// Subject terms of its line; `head` has those of the line's first statement.
    line: Vec<u16>,
    head: Vec<u16>,
    /// Number of user messages before it.
    words: u64,
}

/// A withdrawn statement: the position of its message, and its byte range there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WithdrawnStatement {
    pub(super) position: Position,
    pub(super) range: Range<usize>,
}

/// Latest statements of the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentClaims {
    latest: VecDeque<Claim>,
    words: u64,
}

impl AgentClaims {
    /// Folds a message of the agent; returns the earlier statements that it withdraws.
    pub(super) fn fold_message(
        &mut self,
        position: Position,
        text: &str,
    ) -> Vec<WithdrawnStatement> {
        let made = split_statements(position, text, self.words);
        let mut gone = Vec::new();
        for claim in made {
            if claim.sense.may_withdraw() {
                withdraw_matching(&mut self.latest, &mut gone, |old| claim.withdraws(old));
            }
            push_bounded(&mut self.latest, claim, CLAIMS_MAX);
        }
        gone
    }

    /// Folds a user message; returns the statements of the agent that it withdraws.
    pub(super) fn fold_user_message(&mut self, text: &str) -> Vec<WithdrawnStatement> {
        self.words += 1;
        let lower = normalize(text);
        let objects = OBJECTIONS.iter().any(|begin| lower.starts_with(begin));
        let negates = NEGATIONS.iter().any(|word| lower.contains(&format!(" {word} ")));
        let is_only = lower.contains("only ");
        let is_short = text.chars().nth(CORRECTION_CHARS_MAX).is_none();
        if !is_short || !(objects || negates || is_only) {
            return Vec::new();
        }
        let by = StatementFeatures::from_text(text);
        let first = self.words.saturating_sub(WORDS_BACK);
        let latest = self.words - 1;
        let mut gone = Vec::new();
        withdraw_matching(&mut self.latest, &mut gone, |old| {
            let of_head = old.head.iter().filter(|one| !old.sense.topics.contains(one));
            let of_head = of_head.filter(|one| by.topics.contains(one)).count();
            let shared = by.count_shared_topics(&old.sense) + of_head;
            let refuses = old.words == latest && (objects || negates);
            let is_proposal = refuses && old.sense.plans && (objects || shared >= 1);
            let is_every = is_only && old.sense.is_every && shared >= 1;
            // "Floats are forbidden" and "never in floats" agree with each other.
            let agrees = !objects && old.sense.denies && by.denies && old.sense.topics.len() < 12;
            old.words >= first && (is_proposal || is_every || refuses && shared >= 2 && !agrees)
        });
        gone
    }

    /// Withdraws the plans that the agent announced just before a call that the user refused.
    pub(super) fn withdraw_refused_plans(&mut self) -> Vec<WithdrawnStatement> {
        let mut gone = Vec::new();
        let latest = self.latest.back().map(|claim| claim.position);
        let words = self.words;
        withdraw_matching(&mut self.latest, &mut gone, |old| {
            Some(old.position) == latest && old.words + 1 >= words && old.sense.plans
        });
        gone
    }

    /// Withdraws the statements that tests fail, once they pass.
    pub(super) fn withdraw_failing_tests(&mut self) -> Vec<WithdrawnStatement> {
        let mut gone = Vec::new();
        withdraw_matching(&mut self.latest, &mut gone, |old| old.sense.says_tests_fail);
        gone
    }

    pub(super) fn weight(&self) -> usize {
        self.latest.len() * (size_of::<Claim>() + 200)
    }
}

/// Moves the statements that match from the list to `gone`.
fn withdraw_matching(
    list: &mut VecDeque<Claim>,
    gone: &mut Vec<WithdrawnStatement>,
    is: impl Fn(&Claim) -> bool,
) {
    list.retain(|claim| {
        let is_gone = is(claim);
        if is_gone {
            gone.push(WithdrawnStatement { position: claim.position, range: claim.range.clone() });
        }
        !is_gone
    });
}

impl StatementFeatures {
    fn from_text(text: &str) -> Self {
        let lower = normalize(text);
        let mut made = Self::default();
        for found in PHRASES.find_overlapping_iter(&lower) {
            let mut at = found.pattern().as_usize();
            let flags = [
                (HEDGES.len(), &mut made.is_hedged),
                (RETRACTIONS.len(), &mut made.retracts),
                (CONCLUSIONS.len(), &mut made.concludes),
                (PLANS.len(), &mut made.plans),
                (EVERY.len(), &mut made.is_every),
            ];
            for (count, flag) in flags {
                if at < count {
                    *flag = true;
                    break;
                }
                at -= count;
            }
        }
        let (mut is_negated, mut was_bad) = (0_u8, false);
        let (mut after_tests, mut fails, mut explains) = (FAILING_WITHIN, false, false);
        let split = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\'' | '.'));
        let words = lower.split(split).map(|word| word.trim_matches('.'));
        for word in words.filter(|word| !word.is_empty()) {
            made.denies |=
                NEGATIONS.contains(&word) || FORBIDS.iter().any(|of| word.starts_with(of));
            if NEGATIONS.contains(&word) || was_bad && word == "to" {
                is_negated = 3;
                continue;
            }
            is_negated = is_negated.saturating_sub(1);
            fails |= after_tests < FAILING_WITHIN && FAILING.contains(&word);
            explains |= REASONS.contains(&word);
            after_tests = if matches!(word, "test" | "tests") { 0 } else { after_tests + 1 };
            let begins = |stems: &[&str]| stems.iter().any(|stem| word.starts_with(stem));
            let of_build = word.starts_with("compil") || word.starts_with("buil");
            let denied = is_negated > 0 && of_build;
            let (bad, good) = (begins(&BAD), begins(&GOOD) || BUILD.contains(&word) || denied);
            made.is_wrong |= begins(&WRONG) && is_negated == 0;
            made.is_bad |= bad && is_negated == 0 || good && is_negated > 0;
            made.is_good |= good && is_negated == 0 || bad && is_negated > 0;
            was_bad = bad;
            let says_more = word.chars().count() > 2 && !STOP_WORDS.contains(word);
            if says_more && (of_build || !bad && !good) {
                let topic = hash(if of_build { "build" } else { stem(word) });
                if word.contains(['_', '.']) || word.chars().any(|c| c.is_ascii_digit()) {
                    made.names.push(topic);
                }
                if made.topics.len() < TOPICS_MAX {
                    made.topics.push(topic);
                }
            }
        }
        made.says_tests_fail = fails && !explains && !made.is_good && !made.plans;
        for list in [&mut made.topics, &mut made.names] {
            list.sort_unstable();
            list.dedup();
        }
        made
    }

    /// Returns true if it may withdraw an earlier statement.
    fn may_withdraw(&self) -> bool {
        let is_mended = self.is_good && !self.is_bad;
        !self.is_hedged && (self.retracts || self.concludes || is_mended)
    }

    /// Returns the number of shared subject terms.
    fn count_shared_topics(&self, other: &Self) -> usize {
        self.topics.iter().filter(|topic| other.topics.binary_search(topic).is_ok()).count()
    }

    /// Returns true if both have one subject: a common name, if both have names.
    fn shares_subject(&self, other: &Self, least: usize) -> bool {
        let is_named = !self.names.is_empty() && !other.names.is_empty();
        let is_shared = |name: &u16| other.names.binary_search(name).is_ok();
        match is_named {
            true => self.names.iter().any(is_shared),
            false => {
                let few = self.topics.len().min(other.topics.len());
                self.count_shared_topics(other) >= least.min(few.max(1))
            }
        }
    }
}

impl Claim {
    /// Returns true if this later statement withdraws the older one.
    fn withdraws(&self, old: &Self) -> bool {
        let (by, other) = (&self.sense, &old.sense);
        let is_mended = by.is_good && !by.is_bad && other.is_bad && !other.is_good;
        let is_reversed = by.retracts
            && ((by.is_bad || by.is_wrong) && other.is_good || by.is_good && other.is_wrong);
        let is_replaced = other.is_hedged && (by.retracts || by.concludes);
        let of_line = || self.line.iter().filter(|one| other.topics.contains(one)).count();
        is_mended && by.shares_subject(other, 2)
            || is_reversed && by.shares_subject(other, 1)
            || is_replaced && of_line() >= 2
    }
}

/// Converts the beginning of a text to lower case, with plain apostrophes.
fn normalize(text: &str) -> String {
    let head = head(text, TEXT_BYTES_MAX);
    head.replace('\u{2019}', "'").to_lowercase()
}

/// Strips the grammatical ending of a word.
fn stem(word: &str) -> &str {
    let endings = ["ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "er", "e"];
    let cut = endings.iter().find_map(|end| word.strip_suffix(end).filter(|rest| rest.len() > 2));
    cut.unwrap_or(word)
}

fn hash(word: &str) -> u16 {
    let mixed = word
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from((mixed ^ (mixed >> 16)) & 0xffff).unwrap_or_default()
}

/// Splits a message into statements.
fn split_statements(position: Position, text: &str, words: u64) -> Vec<Claim> {
    let (mut made, mut lines) = (Vec::new(), Vec::new());
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let (mut at, mut begin_of_line) = (0, 0);
    while at < end && made.len() < OF_MESSAGE_MAX {
        let rest = text.get(at..end).unwrap_or_default();
        let length = end_of_sentence(rest, rest.len());
        let sentence = rest.get(..length).unwrap_or_default();
        let trimmed = sentence.trim();
        let from = at + sentence.find(trimmed).unwrap_or_default();
        at += length;
        if !trimmed.is_empty() {
            let (sense, range) =
                (StatementFeatures::from_text(trimmed), from..from + trimmed.len());
            lines.push(begin_of_line);
            let (line, head) = (Vec::new(), Vec::new());
            made.push(Claim { position, range, sense, line, head, words });
        }
        if sentence.ends_with('\n') {
            begin_of_line = at;
        }
    }
    for at in 0..made.len() {
        let is_of_line = |other: &usize| lines.get(*other) == lines.get(at);
        let of_line: Vec<usize> = (0..made.len()).filter(is_of_line).collect();
        let topics = |at: &usize| made.get(*at).map(|one| one.sense.topics.clone());
        let line = of_line.iter().filter_map(topics).flatten().take(2 * TOPICS_MAX).collect();
        let head = of_line.first().and_then(topics).unwrap_or_default();
        if let Some(claim) = made.get_mut(at) {
            (claim.line, claim.head) = (line, head);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statements of these messages that the last one withdraws.
    fn withdrawn_texts(agent: &[&str], last: &str, is_person: bool) -> Vec<String> {
        let mut claims = AgentClaims::default();
        claims.fold_user_message("Do it");
        for (at, text) in (0..).zip(agent) {
            claims.fold_message(Position(at), text);
        }
        let gone = match is_person {
            true => claims.fold_user_message(last),
            false => claims.fold_message(Position(9), last),
        };
        let text = |one: &WithdrawnStatement| {
            let (_, text) = (0..).zip(agent).find(|(at, _)| Position(*at) == one.position)?;
            text.get(one.range.clone()).map(str::to_owned)
        };
        gone.iter().filter_map(text).collect()
    }

    #[test]
    fn only_a_negating_statement_withdraws_an_earlier_one() {
        for (agent, last, is_person, expected) in [
            (
                &["The header is on every response. The logo is blue."][..],
                "only the first response",
                true,
                &["The header is on every response."][..],
            ),
            (
                &["I recommend a mascot of five lines in the header."],
                "no, just add the name to the header",
                true,
                &["I recommend a mascot of five lines in the header."],
            ),
            (&["The cache is keyed by path."], "no, leave the docs alone", true, &[]),
            (&["The cache is keyed by path."], "Now write the README", true, &[]),
            (
                &["The rate table fails to build because of the stash."],
                "The rate table builds now.",
                false,
                &["The rate table fails to build because of the stash."],
            ),
            (&["test_a fails with a rounding error."], "test_b passes.", false, &[]),
            (
                &["The parser might be correct and my analysis of the parser is wrong."],
                "It turned out that the analysis of the parser holds.",
                false,
                &["The parser might be correct and my analysis of the parser is wrong."],
            ),
        ] {
            assert_eq!(withdrawn_texts(agent, last, is_person), expected, "{last}");
        }
    }
}

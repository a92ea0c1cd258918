//! Text for a new session: the memory of its workspace, the state of the last work, and earlier
//! sessions in one line each. It must not choose the last work: service does.

use std::fmt::Write as _;

use super::{
    budget::Budget,
    call_text::format_call,
    narration, quote,
    render::format_list,
    requirements,
    times::format_minute,
    tokens::{Counter, Tokenizer},
};
use crate::{
    api::memory::MemoryKind,
    event::{Timestamp, text::one_line},
    projection::{Facts, StoredMemory},
};

/// Least number of user requests with which a session without other results counts as work.
const REQUESTS_OF_WORK: u64 = 3;
/// Most characters of a session's request; `OUTCOME_CHARS` and `ITEM_CHARS` bound the others.
const ASKED_CHARS: usize = 100;
/// Most characters of a user's rule, and most rules after the task.
const RULE_CHARS: usize = 300;
const RULES_MAX: usize = 8;
const OUTCOME_CHARS: usize = 120;
const ITEM_CHARS: usize = 240;
/// Tenths of the budget for memory and for the lines of other sessions.
const PARTS: usize = 10;
const REMEMBERED_PARTS: usize = 3;
const EARLIER_PARTS: usize = 3;
/// Tenths of the budget for the user's rules in other sessions.
const RULES_PARTS: usize = 2;
/// Heading of the user's rules in other sessions.
const RULES: &str = "Your user also said in other sessions";
/// Line about a session of the last work that has not stopped.
const RUNNING: &str = "\nThat session has not stopped: an agent may be at work in it now.\n";
/// Hint at the tools by which a model gets more than the text.
const MORE: &str = "memory_search with words finds what any of them said; get_research_session with a \
                    sessionId reads one.";

/// Parts of the text for a new session.
#[derive(Clone, Debug, Default)]
pub struct StartText {
    /// Memory items of the workspace, the most important first.
    pub remembered: Vec<StoredMemory>,
    /// State of the last work, as a brief.
    pub last: String,
    /// True if the session of the last work has not stopped: an agent may work in it now.
    pub is_last_running: bool,
    /// Other sessions, latest first.
    pub earlier: Vec<EarlierSession>,
    /// Workspace of the new session.
    pub workspace: String,
}

/// A session in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierSession {
    /// Id of the session.
    pub session: String,
    /// Time of the last work on it.
    pub at: Timestamp,
    /// Request that it worked on.
    pub asked: String,
    /// Outcome of the session; empty if the log contains none.
    pub outcome: String,
    /// Rules of its user that may apply to later sessions.
    pub rules: Vec<String>,
    /// True if a call or the work in it is unfinished.
    pub is_open: bool,
}

impl StartText {
    /// Creates empty parts for a workspace.
    #[must_use]
    pub fn new(workspace: &str) -> Self {
        Self { workspace: workspace.to_owned(), ..Self::default() }
    }

    /// Returns the tokens that remain for [the last work](Self::last).
    #[must_use]
    pub fn tokens_for_last(&self, tokens_max: usize, tokenizer: Tokenizer) -> usize {
        tokens_max.saturating_sub(tokenizer.count(&self.text_with_last(tokens_max, tokenizer, "")))
    }

    /// Writes the text, within about `tokens_max` tokens; empty without content.
    #[must_use]
    pub fn text(&self, tokens_max: usize, tokenizer: Tokenizer) -> String {
        if self.remembered.is_empty() && self.last.is_empty() && self.earlier.is_empty() {
            return String::new();
        }
        self.text_with_last(tokens_max, tokenizer, &self.last)
    }

    fn text_with_last(&self, tokens_max: usize, tokenizer: Tokenizer, last: &str) -> String {
        let room = |parts: usize| tokens_max * parts / PARTS;
        let workspace = one_line(&self.workspace, ASKED_CHARS);
        let mut text =
            format!("# What earlier sessions of {} left\n", quote::escape_item(&workspace));
        text.push_str(&memory_list(&self.remembered, room(REMEMBERED_PARTS), tokenizer));
        if !last.is_empty() {
            // The first line of the brief is a heading.
            let _ = write!(text, "\n#{}\n", last.trim_end());
        }
        if self.is_last_running {
            text.push_str(RUNNING);
        }
        // Their sessions are not continued, so the state of the last work has none of them.
        let rules = self.earlier.iter().flat_map(|one| {
            let at = format_minute(one.at);
            one.rules
                .iter()
                .filter(|rule| !last.contains(&***rule))
                .map(move |rule| format!("{at}: {rule}"))
        });
        push_list(&mut text, RULES, rules.take(RULES_MAX), (room(RULES_PARTS), tokenizer));
        let lines = self.earlier.iter().map(|one| {
            let open = if one.is_open { ", not ended" } else { "" };
            let asked = one_line(&one.asked, ASKED_CHARS);
            let outcome = match one.outcome.is_empty() {
                true => String::new(),
                false => format!(" -> {}", one.outcome),
            };
            format!("{}, {}{open}: {asked}{outcome}", format_minute(one.at), one.session)
        });
        push_list(&mut text, "Other sessions", lines, (room(EARLIER_PARTS), tokenizer));
        let _ = write!(text, "\nMore: {MORE}\n");
        text
    }
}

/// Adds a list of as many lines as fit.
fn push_list(
    text: &mut String,
    heading: &str,
    lines: impl Iterator<Item = String>,
    (room, tokenizer): (usize, Tokenizer),
) {
    let mut budget = Budget::new(room);
    let lines = lines.map(|line| quote::escape_item(&line));
    let (shown, left_out): (Vec<String>, Vec<String>) =
        lines.partition(|line| budget.spend(tokenizer.count(&format!("- {line}\n"))));
    if shown.is_empty() {
        return;
    }
    let _ = write!(text, "\n{}", format_list(heading, &shown));
    if !left_out.is_empty() {
        let _ = writeln!(text, "- and {} more", left_out.len());
    }
}

/// Writes a line that refers to another session, for a session without work.
#[must_use]
pub fn pointer_line(session: &str, at: Timestamp, asked: &str, rules: &[String]) -> String {
    let mut text = format!(
        "\nThe last work here is in session {session}, {}: {}\n",
        format_minute(at),
        quote::escape_inline(&one_line(asked, OUTCOME_CHARS))
    );
    let rules: Vec<String> = rules.iter().map(|rule| quote::escape_item(rule)).collect();
    if !rules.is_empty() {
        text.push_str(&format_list("Its user said there", &rules));
    }
    text + "get_research_session with that sessionId tells where it stands.\n"
}

/// Returns texts of the user that may apply to another session: the task, and later sentences that
/// require or forbid something, latest last.
#[must_use]
pub fn user_rules(facts: &Facts) -> Vec<String> {
    let task = facts.progress.task().map(|task| one_line(&task.text, RULE_CHARS));
    let later = latest_sentences(facts, RULE_CHARS, |text| {
        let mut required = requirements::extract_requirements(text);
        required.retain(|sentence| !sentence.trim_end().ends_with('?'));
        required
    });
    let is_in_task = |one: &String| task.as_ref().is_some_and(|task| task.contains(one.as_str()));
    let later = later.into_iter().filter(|one| !is_in_task(one));
    task.iter().cloned().chain(later).collect()
}

/// Returns sentences of the user that set a rule beyond the request they are in, latest last.
#[must_use]
pub fn standing_rules(facts: &Facts) -> Vec<String> {
    latest_sentences(facts, ITEM_CHARS, |text| requirements::standing_rules(text).collect())
}

/// Returns the latest of the sentences that `choose` takes from the user's requests, each once on a
/// line, latest last.
fn latest_sentences(
    facts: &Facts,
    chars_max: usize,
    choose: impl Fn(&str) -> Vec<&str>,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in facts.progress.instructions().recent_instructions() {
        for sentence in choose(&word.text) {
            let line = one_line(sentence, chars_max);
            found.retain(|known| *known != line);
            found.push(line);
        }
    }
    found.split_off(found.len().saturating_sub(RULES_MAX))
}

/// Returns true if a session did something that the next one continues; an answered question is not
/// work.
#[must_use]
pub fn has_work(facts: &Facts) -> bool {
    let (work, progress) = (&facts.work, &facts.progress);
    work.files().next().is_some()
        || work.effects().next().is_some()
        || progress.plan().is_some()
        || progress
            .successes()
            .chain(progress.attempts())
            .chain(progress.failures())
            .next()
            .is_some()
        || !facts.research.steps().is_empty()
        || !facts.saved.items().is_empty()
        || progress.instructions().count() >= REQUESTS_OF_WORK
}

/// Writes the memory of a workspace as a list within `room` tokens; empty without items.
#[must_use]
pub fn memory_list(items: &[StoredMemory], room: usize, tokenizer: Tokenizer) -> String {
    let items = items.iter().map(|item| {
        let name = item.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        // A skill is read by its name when it is needed.
        let of = match (item.kind, &item.name) {
            (MemoryKind::Procedural, Some(_)) => item.text.lines().next().unwrap_or_default(),
            _ => &*item.text,
        };
        format!("{}{}", one_line(&name, ASKED_CHARS), one_line(of, ITEM_CHARS))
    });
    let mut text = String::new();
    push_list(&mut text, "Remembered", items, (room, tokenizer));
    text
}

/// Returns the outcome of a session in one line; empty if the log contains none.
#[must_use]
pub fn session_outcome(facts: &Facts) -> String {
    if let Some((_, tool, input)) = facts.unfinished_calls().next_back() {
        let call = format!("begun, without a result so far: {}", format_call(tool, input));
        return one_line(&call, OUTCOME_CHARS);
    }
    let failing = facts.work.failing_commands().count();
    if failing > 0 {
        // The name of a failed test is more informative than its command.
        let last = facts.work.failing_commands().next_back().map(|one| {
            let named = if one.error.is_empty() { &one.line } else { &one.error };
            one_line(named, ASKED_CHARS)
        });
        return format!("{failing} failing: {}", last.unwrap_or_default());
    }
    let said = facts.progress.successes().next_back().map(String::as_str);
    let answer = facts.conversation.answers().back();
    let said = said.or(answer.map(|word| &*word.text)).unwrap_or_default();
    one_line(&narration::remove_narration(said), OUTCOME_CHARS)
}

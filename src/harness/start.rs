//! The text for a session that begins: what its workspace remembers, where the last work stands,
//! the sessions before that in a line each. It must not choose the last work: service does.

use std::fmt::Write as _;

use super::{
    asked,
    budget::Budget,
    called::called,
    narration, quote,
    render::list,
    times::minute,
    tokens::{Counter, Tokenizer},
};
use crate::{
    api::memory::MemoryKind,
    event::{Timestamp, text::one_line},
    projection::{Facts, MemoryItem},
};

/// Requests of a person after which a session counts as work although nothing else came of it.
const REQUESTS_OF_WORK: u64 = 3;
/// Characters of what a session was asked, of what came of it, and of an item of memory.
const ASKED_CHARS: usize = 100;
/// Characters of a rule of a person, and rules after the task.
const RULE_CHARS: usize = 300;
const RULES_MAX: usize = 8;
const OUTCOME_CHARS: usize = 120;
const ITEM_CHARS: usize = 240;
/// Parts of the budget for memory and for the lines of other sessions, of so many.
const PARTS: usize = 10;
const REMEMBERED_PARTS: usize = 3;
const EARLIER_PARTS: usize = 3;
/// Calls without a result: their heading, how many are named, their part and their characters.
const BEGUN: &str = "Begun, without a result so far";
const BEGUN_MAX: usize = 3;
const BEGUN_PARTS: usize = 1;
const BEGUN_CHARS: usize = 100;
/// Tools by which a model gets more than the text.
const MORE: &str = "memory_search with words finds what any of them said; get_research_session with a \
                    sessionId reads one.";

/// The parts of the text for a session that begins.
#[derive(Clone, Debug, Default)]
pub struct StartText {
    /// Memory of the workspace, the most important first.
    pub remembered: Vec<MemoryItem>,
    /// State of the last work, as a brief.
    pub last: String,
    /// Calls of it that have no result so far, in a line each: it may have been killed there.
    pub begun: Vec<String>,
    /// The other sessions, the latest first.
    pub earlier: Vec<Earlier>,
    /// Its workspace.
    pub workspace: String,
}

/// A session in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Id of the session.
    pub session: String,
    /// Time of the last work on it.
    pub at: Timestamp,
    /// Request to it.
    pub asked: String,
    /// Outcome of it; empty where the log does not say.
    pub outcome: String,
    /// True if something in it was begun and not ended.
    pub is_open: bool,
}

impl StartText {
    /// Of a workspace of which nothing is known yet.
    #[must_use]
    pub fn new(workspace: &str) -> Self {
        Self { workspace: workspace.to_owned(), ..Self::default() }
    }

    /// Tokens that are left for [the last work](Self::last).
    #[must_use]
    pub fn room_for_last(&self, tokens_max: usize, tokenizer: Tokenizer) -> usize {
        tokens_max.saturating_sub(tokenizer.count(&self.around(tokens_max, tokenizer, "")))
    }

    /// The text, of about so many tokens at most; empty where there is nothing to tell.
    #[must_use]
    pub fn text(&self, tokens_max: usize, tokenizer: Tokenizer) -> String {
        if self.remembered.is_empty() && self.last.is_empty() && self.earlier.is_empty() {
            return String::new();
        }
        self.around(tokens_max, tokenizer, &self.last)
    }

    fn around(&self, tokens_max: usize, tokenizer: Tokenizer, last: &str) -> String {
        let room = |parts: usize| tokens_max * parts / PARTS;
        let workspace = one_line(&self.workspace, ASKED_CHARS);
        let mut text = format!("# What earlier sessions of {} left\n", quote::item(&workspace));
        text.push_str(&remembered(&self.remembered, room(REMEMBERED_PARTS), tokenizer));
        if !last.is_empty() {
            // Its first line is a heading of its own.
            let _ = write!(text, "\n#{}\n", last.trim_end());
        }
        add_list(&mut text, BEGUN, self.begun.iter().cloned(), (room(BEGUN_PARTS), tokenizer));
        let lines = self.earlier.iter().map(|one| {
            let open = if one.is_open { ", not ended" } else { "" };
            let asked = one_line(&one.asked, ASKED_CHARS);
            let outcome = match one.outcome.is_empty() {
                true => String::new(),
                false => format!(" -> {}", one.outcome),
            };
            format!("{}, {}{open}: {asked}{outcome}", minute(one.at), one.session)
        });
        add_list(&mut text, "Other sessions", lines, (room(EARLIER_PARTS), tokenizer));
        let _ = write!(text, "\nMore: {MORE}\n");
        text
    }
}

/// Adds a list of as many lines as fit.
fn add_list(
    text: &mut String,
    heading: &str,
    lines: impl Iterator<Item = String>,
    (room, tokenizer): (usize, Tokenizer),
) {
    let mut budget = Budget::new(room);
    let lines = lines.map(|line| quote::item(&line));
    let (shown, left_out): (Vec<String>, Vec<String>) =
        lines.partition(|line| budget.spend(tokenizer.count(&format!("- {line}\n"))));
    if shown.is_empty() {
        return;
    }
    let _ = write!(text, "\n{}", list(heading, &shown));
    if !left_out.is_empty() {
        let _ = writeln!(text, "- and {} more", left_out.len());
    }
}

/// A line that names another session, for a reader whose own session has no work.
#[must_use]
pub fn pointer_to(session: &str, at: Timestamp, asked: &str, rules: &[String]) -> String {
    let mut text = format!(
        "\nThe last work here is in session {session}, {}: {}\n",
        minute(at),
        quote::inline(&one_line(asked, OUTCOME_CHARS))
    );
    let rules: Vec<String> = rules.iter().map(|rule| quote::item(rule)).collect();
    if !rules.is_empty() {
        text.push_str(&list("Its user said there", &rules));
    }
    text + "get_research_session with that sessionId tells where it stands.\n"
}

/// Words of a person in a session that may bind another one: its task, and later sentences that
/// say what must or must not be done, the latest last.
#[must_use]
pub fn rules(facts: &Facts) -> Vec<String> {
    let instructions = facts.progress.instructions();
    let task = facts.progress.task().map(|task| one_line(&task.text, RULE_CHARS));
    let is_question = |sentence: &&str| sentence.trim_end().ends_with('?');
    let mut later: Vec<String> = Vec::new();
    for word in instructions.whole() {
        for sentence in asked::binding_of(&word.text).into_iter().filter(|one| !is_question(one)) {
            let rule = one_line(sentence, RULE_CHARS);
            later.retain(|known| *known != rule);
            later.push(rule);
        }
    }
    let from = later.len().saturating_sub(RULES_MAX);
    let is_in_task = |one: &String| task.as_ref().is_some_and(|task| task.contains(one.as_str()));
    let later = later.into_iter().skip(from).filter(|one| !is_in_task(one));
    task.iter().cloned().chain(later).collect()
}

/// True if a session did something that the next one continues: a question that was answered is
/// no work.
#[must_use]
pub fn has_work(facts: &Facts) -> bool {
    let (work, progress) = (&facts.work, &facts.progress);
    work.files().next().is_some()
        || work.effects().next().is_some()
        || progress.plan().is_some()
        || progress.worked().chain(progress.tried()).chain(progress.failed()).next().is_some()
        || !facts.research.steps().is_empty()
        || !facts.saved.items().is_empty()
        || progress.instructions().count() >= REQUESTS_OF_WORK
}

/// Memory of a workspace, as a list within so many tokens; empty where it keeps nothing.
#[must_use]
pub fn remembered(items: &[MemoryItem], room: usize, tokenizer: Tokenizer) -> String {
    let items = items.iter().map(|item| {
        let name = item.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        // A skill is read by its name where it is needed.
        let of = match (item.kind, &item.name) {
            (MemoryKind::Procedural, Some(_)) => item.text.lines().next().unwrap_or_default(),
            _ => &*item.text,
        };
        format!("{}{}", one_line(&name, ASKED_CHARS), one_line(of, ITEM_CHARS))
    });
    let mut text = String::new();
    add_list(&mut text, "Remembered", items, (room, tokenizer));
    text
}

/// The latest calls of a session that have no result so far, in a line each.
#[must_use]
pub fn begun(facts: &Facts) -> Vec<String> {
    let calls = facts.begun().map(|(tool, input)| one_line(&called(tool, input), BEGUN_CHARS));
    let mut calls: Vec<String> = calls.collect();
    calls.split_off(calls.len().saturating_sub(BEGUN_MAX))
}

/// Outcome of a session, in a line; empty where the log does not say.
#[must_use]
pub fn outcome(facts: &Facts) -> String {
    let failing = facts.work.failing().count();
    if failing > 0 {
        // Which test it is says more than the command that ran it.
        let last = facts.work.failing().next_back().map(|one| {
            let named = if one.error.is_empty() { &one.line } else { &one.error };
            one_line(named, ASKED_CHARS)
        });
        return format!("{failing} failing: {}", last.unwrap_or_default());
    }
    let said = facts.progress.worked().next_back().map(String::as_str);
    let answer = facts.conversation.answers().back();
    let said = said.or(answer.map(|word| &*word.text)).unwrap_or_default();
    one_line(&narration::without(said), OUTCOME_CHARS)
}

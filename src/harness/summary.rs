//! Where the research stands, in a few sentences put together from the facts: no model, the same
//! facts give the same words. It must not walk the steps: it costs the same at any number of them.

use std::fmt::Write as _;

use super::budget::fit;
use crate::projection::{Facts, Research, text::one_line};

/// Characters of each item named.
const ITEM_CHARS_MAX: usize = 100;
/// Items named of each kind.
const ITEMS_MAX: usize = 4;

/// The caller's summary first, when there is one; then the goal, how far it is, what was found,
/// ruled out and left open; within `bytes_max` bytes of JSON.
#[must_use]
pub fn summary(facts: &Facts, bytes_max: usize) -> String {
    let research = &facts.research;
    let stands = if research.steps().is_empty() { talk(facts) } else { progress(research) };
    let Some(said) = research.summary() else { return fit(&stands, bytes_max).text };
    let step = said.step.map(|step| format!(" after step {step}")).unwrap_or_default();
    let words = fit(&said.text, bytes_max * 6 / 10).text;
    fit(&format!("Caller's summary{step}: {words}\n{stands}"), bytes_max).text
}

fn progress(research: &Research) -> String {
    let mut text = String::new();
    if let Some(goal) = research.goal() {
        let _ = write!(text, "Goal: {}. ", one_line(goal, 200));
    }
    let steps = research.steps();
    let _ = write!(text, "Recorded {} step(s)", steps.len());
    if let Some(estimate) = research.estimate() {
        let _ = write!(text, " of about {estimate}");
    }
    if research.superseded() > 0 {
        let _ = write!(text, ", {} superseded", research.superseded());
    }
    if !research.branches().is_empty() {
        let _ = write!(text, ", {} branch(es)", research.branches().len());
    }
    text.push_str(if research.completed_at().is_some() {
        "; complete."
    } else {
        "; not complete."
    });
    if let Some(step) = steps.last() {
        let _ = write!(text, " Latest: {}", item(step.number, &step.line));
    }
    let latest = steps.len().saturating_sub(1);
    let latest = steps.get(latest).map(|step| step.position);
    let found = research.findings().filter(|step| Some(step.position) != latest);
    list(&mut text, "Found", found.map(|step| item(step.number, &step.line)));
    let rejected = research.rejected().iter().rev().map(|(_, line)| one_line(line, ITEM_CHARS_MAX));
    list(&mut text, "Ruled out", rejected);
    let open = research.gaps_open().iter().rev().filter_map(|at| research.gaps().get(*at));
    list(&mut text, "Open", open.map(|gap| one_line(&gap.description, ITEM_CHARS_MAX)));
    text
}

fn item(number: u64, line: &str) -> String {
    format!("[{number}] {}", one_line(line, ITEM_CHARS_MAX))
}

fn list(text: &mut String, name: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.take(ITEMS_MAX).collect();
    if !items.is_empty() {
        let _ = write!(text, " {name}: {}.", items.join("; "));
    }
}

fn talk(facts: &Facts) -> String {
    let conversation = &facts.conversation;
    let mut text = format!("A session of {} event(s) without research steps.", facts.position.0);
    if let Some(said) = &conversation.first_said {
        let _ = write!(text, " It began with: {}", one_line(&said.text, 300));
    }
    if let Some(said) = &conversation.last_said
        && conversation.first_said.as_ref().is_some_and(|first| first.position != said.position)
    {
        let _ = write!(text, " The user last said: {}", one_line(&said.text, 300));
    }
    if let Some(answer) = &conversation.last_answer {
        let _ = write!(text, " The agent last said: {}", one_line(&answer.text, 300));
    }
    text
}

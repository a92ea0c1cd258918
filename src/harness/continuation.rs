//! What somebody needs to go on with a session who has nothing else of it before the eyes: the
//! task, the plan, what comes next, what was tried with what outcome, the last results. Within a
//! budget of tokens, each part with a share; what a part does not need goes to those after it. It
//! must not cost more for a longer session.

use super::{
    budget::{Cut, Purse},
    tokens::{Counter, Tokenizer},
};
use crate::{
    event::Position,
    projection::{Facts, Output, PlanStep, text::ELLIPSIS},
};

/// Tokens of a continuation when nobody says, and the least it is dressed for.
pub const CONTINUATION_TOKENS: usize = 2_000;
/// The least a continuation is dressed for.
pub const CONTINUATION_TOKENS_MIN: usize = 400;

/// Names, numbers and marks of an answer.
const FRAME_TOKENS: usize = 260;
/// What surrounds a line of a list, and an object of one.
const LINE_TOKENS: usize = 4;
const OBJECT_TOKENS: usize = 40;
/// Shares of the rest, in percent; the last results have what is left.
const TASK: usize = 22;
const LATEST: usize = 8;
const NEXT: usize = 20;
const CURRENT: usize = 3;
const PLAN: usize = 10;
const FAILED: usize = 8;
const WORKED: usize = 7;
const TRIED: usize = 5;
const GAPS: usize = 5;
const SUMMARY: usize = 7;
const _: () =
    assert!(TASK + LATEST + NEXT + CURRENT + PLAN + FAILED + WORKED + TRIED + GAPS + SUMMARY <= 95);

/// A plan in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanView {
    /// Its steps; those that are done first give way.
    pub steps: Vec<PlanStep>,
    /// The one under way.
    pub current: Option<String>,
    /// How many of all are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// How to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// What it is all for, and where that was said.
    pub task: Option<(Cut, Option<Position>)>,
    /// What a person said last.
    pub latest: Option<(Cut, Position)>,
    /// The plan.
    pub plan: Option<PlanView>,
    /// What to do next: as the last outcome says, else the next steps of the plan, else open gaps.
    pub next: Vec<String>,
    /// What is done: steps of the plan and what worked, the newest last.
    pub done: Vec<String>,
    /// What was tried, the newest last.
    pub tried: Vec<String>,
    /// What failed, the newest last.
    pub failed: Vec<String>,
    /// What is not known yet, the newest first.
    pub gaps: Vec<String>,
    /// Where the session stands.
    pub summary: String,
    /// The last results of tools, oldest first, each with its text as far as it goes.
    pub results: Vec<Output>,
    /// It is of everything before this position.
    pub position: Position,
    /// What it costs at most.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// Whether anything was cut or left out.
    pub truncated: bool,
}

/// How to go on, within a budget.
#[must_use]
pub fn continuation(facts: &Facts, tokens_max: usize, tokenizer: Tokenizer) -> Continuation {
    let whole = tokens_max.saturating_sub(FRAME_TOKENS);
    let mut dress = Dress { tokenizer, purse: Purse::new(whole), whole, truncated: false };
    let (progress, research) = (&facts.progress, &facts.research);
    let mut made = Continuation { position: facts.position, tokens_max, ..Continuation::default() };
    made.task = match (progress.task(), research.goal()) {
        (_, Some(goal)) => Some((dress.text(goal, TASK), None)),
        (Some(task), None) => Some((dress.text(&task.text, TASK), Some(task.position))),
        (None, None) => None,
    };
    made.latest =
        progress.latest_word().map(|word| (dress.text(&word.text, LATEST), word.position));
    let plan = progress.plan();
    let open = || plan.into_iter().flat_map(|plan| &plan.steps).filter(|step| !step.is_done());
    let gaps: Vec<&str> = research
        .gaps_open()
        .iter()
        .rev()
        .filter_map(|at| research.gaps().get(*at))
        .map(|gap| &*gap.description)
        .collect();
    let next: Vec<&str> = match progress.next().next() {
        Some(_) => progress.next().map(String::as_str).collect(),
        None => open().map(|step| step.text.as_str()).collect(),
    };
    made.next = dress.lines(if next.is_empty() { gaps.clone() } else { next }, NEXT);
    made.plan = plan.map(|plan| PlanView {
        done: plan.steps.iter().filter(|step| step.is_done()).count() as u64,
        total: plan.steps.len() as u64,
        steps: dress.plan(&plan.steps),
        current: plan.current.as_ref().map(|name| dress.text(name, CURRENT).text),
    });
    made.failed = dress.newest(progress.failed(), FAILED);
    let done = plan.into_iter().flat_map(|plan| &plan.steps).filter(|step| step.is_done());
    let done: Vec<&String> = done.map(|step| &step.text).chain(progress.worked()).collect();
    made.done = dress.newest(done.into_iter(), WORKED);
    made.tried = dress.newest(progress.tried(), TRIED);
    made.gaps = dress.lines(gaps, GAPS);
    made.summary = dress.text(&super::summary(facts, 4 * tokens_max), SUMMARY).text;
    made.results = dress.results(progress.outputs().collect());
    made.truncated = dress.truncated;
    made.tokens = FRAME_TOKENS + (whole - dress.purse.left());
    made
}

struct Dress {
    tokenizer: Tokenizer,
    purse: Purse,
    whole: usize,
    truncated: bool,
}

impl Dress {
    fn share(&mut self, percent: usize) -> Purse {
        self.purse.share(self.whole, percent)
    }

    /// What a text costs as a JSON string.
    fn price(&self, text: &str) -> usize {
        let json = serde_json::Value::from(text).to_string();
        LINE_TOKENS + self.tokenizer.count(&json)
    }

    /// The text within a share, and what is not needed of it given back.
    fn text(&mut self, text: &str, percent: usize) -> Cut {
        let mut share = self.share(percent);
        let cut = self.fit(text, share.left());
        share.pay(self.price(&cut.text));
        self.purse.refund(share);
        self.truncated |= cut.truncated;
        cut
    }

    /// The beginning of a text that costs at most so many tokens.
    fn fit(&self, text: &str, tokens_max: usize) -> Cut {
        // A quarter of the tokens pays for what JSON escapes, most times.
        let mut room = tokens_max.saturating_sub(LINE_TOKENS);
        if text.len() <= room && self.price(text) <= tokens_max {
            return Cut { text: text.to_owned(), truncated: false };
        }
        loop {
            let kept = self.tokenizer.beginning(text, room);
            let truncated = kept.len() < text.len();
            let mut shown = kept.to_owned();
            if truncated {
                shown.truncate(kept.trim_end().len());
                shown.push(ELLIPSIS);
            }
            if self.price(&shown) <= tokens_max {
                return Cut { text: shown, truncated };
            }
            if room == 0 {
                return Cut { text: String::new(), truncated: !text.is_empty() };
            }
            room = room * 7 / 8;
        }
    }

    /// The first lines within a share.
    fn lines(&mut self, lines: Vec<&str>, percent: usize) -> Vec<String> {
        let mut share = self.share(percent);
        let count = lines.len();
        let first = lines.first().copied();
        let paid = |line: &&str| share.pay(self.price(line));
        let mut kept: Vec<String> = lines.into_iter().take_while(paid).map(str::to_owned).collect();
        self.truncated |= kept.len() < count;
        // The first one is worth more in part than not at all.
        if let Some(line) = first.filter(|_| kept.is_empty()) {
            let cut = self.fit(line, share.left());
            if !cut.text.is_empty() && share.pay(self.price(&cut.text)) {
                kept.push(cut.text);
            }
        }
        self.purse.refund(share);
        kept
    }

    /// The newest lines within a share, the newest last.
    fn newest<'a>(
        &mut self,
        lines: impl DoubleEndedIterator<Item = &'a String>,
        percent: usize,
    ) -> Vec<String> {
        let mut kept = self.lines(lines.rev().map(String::as_str).collect(), percent);
        kept.reverse();
        kept
    }

    /// A plan's steps within its share: what is done gives way first, from its beginning.
    fn plan(&mut self, steps: &[PlanStep]) -> Vec<PlanStep> {
        let mut share = self.share(PLAN);
        let mut keep = vec![false; steps.len()];
        let open = steps.iter().enumerate().filter(|(_, step)| !step.is_done());
        let done = steps.iter().enumerate().rev().filter(|(_, step)| step.is_done());
        for (at, step) in open.chain(done) {
            let price = LINE_TOKENS * 2 + self.price(&step.text) + self.price(&step.state);
            let paid = share.pay(price);
            self.truncated |= !paid;
            if let Some(keep) = keep.get_mut(at) {
                *keep = paid;
            }
            if !paid {
                break;
            }
        }
        self.purse.refund(share);
        steps.iter().zip(keep).filter(|(_, keep)| *keep).map(|(step, _)| step.clone()).collect()
    }

    /// The results within what is left, each with the same room; the newest first has a place.
    fn results(&mut self, outputs: Vec<&Output>) -> Vec<Output> {
        let mut made = Vec::new();
        let mut left = outputs.len();
        for output in outputs.into_iter().rev() {
            let mut room = Purse::new(self.purse.left() / left.max(1));
            left -= 1;
            let before = room.left();
            let head = OBJECT_TOKENS + self.price(&output.tool);
            if !room.pay(head) {
                self.truncated = true;
                continue;
            }
            let input = self.fit(&output.input, room.left() / 3);
            room.pay(self.price(&input.text));
            let text = self.fit(&output.text, room.left());
            room.pay(self.price(&text.text));
            self.truncated |= text.truncated || input.truncated;
            self.purse.pay(before - room.left());
            made.push(Output { text: text.text, input: input.text, ..output.clone() });
        }
        made.reverse();
        made
    }
}

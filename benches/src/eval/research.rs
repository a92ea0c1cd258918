//! Research sessions generated from a seed: tool calls as a model makes them, with planted facts,
//! each with a subject and a value that occur together nowhere else. It must not know how a view is
//! made.

use std::ops::Range;

use serde_json::{Value, json};

use super::{
    dice::Dice,
    grammar::{Grammar, capitalised},
    topics::{TOPICS, Topic},
};

/// Member of a step that contains a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepMember {
    /// In a sentence of the description.
    Description,
    /// In the reasoning of a step.
    Reasoning,
    /// Among rejected approaches.
    Rejected,
    /// In the title of a source.
    Source,
    /// In a knowledge gap that stays open.
    Gap,
}

/// A planted fact. An answer states it if one text has both subject and value.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    /// Member of the step that contains it.
    pub(super) place: StepMember,
    /// Number of the step that contains it.
    pub(super) step: u64,
    /// Subject; compared without regard to case.
    pub(super) subject: String,
    /// Value stated of the subject.
    pub(super) value: String,
}

/// Style of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Three to six different sentences.
    Varied,
    /// As varied, but half of the sentences recur with another number.
    NearDuplicates,
    /// Descriptions of one to two kilobytes.
    Long,
    /// One or two sentences.
    Short,
    /// Clauses without a full stop.
    RunOn,
}

impl Style {
    /// All styles.
    pub(super) const ALL: [Self; 5] =
        [Self::Varied, Self::NearDuplicates, Self::Long, Self::Short, Self::RunOn];

    /// Returns the style of a seed: neighbouring even and odd seeds share it.
    pub(super) fn of(seed: u64) -> Self {
        let at = usize::try_from(seed / 2 % Self::ALL.len() as u64).unwrap_or(0);
        Self::ALL.into_iter().nth(at).unwrap_or(Self::Varied)
    }

    fn sentences(self) -> Range<usize> {
        match self {
            Self::Varied | Self::NearDuplicates => 3..7,
            Self::Long => 14..22,
            Self::Short => 1..3,
            Self::RunOn => 4..9,
        }
    }
}

/// Size of a session and its planted facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of steps.
    pub(super) steps: u64,
    /// Number of facts by member.
    pub(super) facts: &'static [(StepMember, usize)],
    /// Number of statements that a later step retracts.
    pub(super) mistakes: usize,
    /// Style of the steps.
    pub(super) style: Style,
}

impl Plan {
    /// Returns a plan of 200 steps with 40 facts and six mistakes.
    pub(super) fn long(seed: u64) -> Self {
        let facts = &[
            (StepMember::Description, 16),
            (StepMember::Rejected, 8),
            (StepMember::Reasoning, 6),
            (StepMember::Source, 5),
            (StepMember::Gap, 5),
        ];
        Self { steps: 200, facts, mistakes: 6, style: Style::of(seed) }
    }

    /// Returns a plan of twelve short steps with eleven facts.
    pub(super) fn short() -> Self {
        let facts = &[
            (StepMember::Description, 6),
            (StepMember::Rejected, 1),
            (StepMember::Reasoning, 2),
            (StepMember::Source, 1),
            (StepMember::Gap, 1),
        ];
        Self { steps: 12, facts, mistakes: 0, style: Style::Short }
    }
}

/// A session to be recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// Name of the topic.
    pub(super) topic: &'static str,
    /// Goal of the research.
    pub(super) goal: &'static str,
    /// Tools and their arguments, in order of the calls.
    pub(super) calls: Vec<(&'static str, Value)>,
    /// Planted facts.
    pub(super) facts: Vec<Fact>,
    /// Values stated in one step and retracted by a later one.
    pub(super) stale: Vec<String>,
}

impl Session {
    /// Returns the arguments of the steps, in order.
    pub(super) fn steps(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let is_step = |(tool, _): &&(&str, Value)| *tool == "sequential_search";
        self.calls.iter().filter(is_step).map(|(_, arguments)| arguments)
    }

    /// Returns true if a step has a fact in that member.
    fn holds(&self, place: StepMember, step: u64) -> bool {
        self.facts.iter().any(|fact| fact.place == place && fact.step == step)
    }
}

/// Generates the session of a seed.
pub(super) fn session(seed: u64, plan: Plan) -> Session {
    let mut dice = Dice::new(seed, &format!("research {}", plan.steps));
    let topic = dice.of(&TOPICS);
    let habits = dice.next() | 1;
    let mut writer = Writer { topic, style: plan.style, habits, repeated: Vec::new(), dice };
    writer.repeated = (0..6).map(|_| writer.slot("same")).collect();
    writer.session(plan)
}

/// Returns texts of steps without planted facts, of every style but the longest.
pub(super) fn texts() -> Vec<String> {
    let styles = [Style::Varied, Style::Short, Style::RunOn];
    let plan = |style| Plan { steps: 50, facts: &[], mistakes: 0, style };
    let made = styles.map(|style| session(1, plan(style)));
    let text = |step: &Value| step.get("searchStep").and_then(Value::as_str).map(str::to_owned);
    made.iter().flat_map(|made| made.steps().filter_map(text).collect::<Vec<_>>()).collect()
}

/// Content that a step gets in addition to its filler.
#[derive(Clone, Debug, Default)]
struct Planted {
    /// Member and sentence of a fact.
    fact: Option<(StepMember, String)>,
    /// A statement that a later step retracts.
    mistake: Option<String>,
    /// Number of the step whose statement this one retracts.
    revises: Option<u64>,
}

struct Writer {
    topic: &'static Topic,
    style: Style,
    /// Seed of the usual phrases of this writer.
    habits: u64,
    /// Sentences that recur with another number.
    repeated: Vec<String>,
    dice: Dice,
}

impl Writer {
    fn session(&mut self, plan: Plan) -> Session {
        let mut free: Vec<u64> = (1..=plan.steps).collect();
        self.dice.shuffle(&mut free);
        let mut made =
            Session { topic: self.topic.name, goal: self.topic.goal, ..Session::default() };
        let mut planted = vec![Planted::default(); usize::try_from(plan.steps).unwrap_or(0) + 1];
        let places =
            plan.facts.iter().flat_map(|(place, count)| std::iter::repeat_n(place, *count));
        for place in places {
            let Some(step) = free.pop() else { break };
            let (subject, value) = self.new_subject_and_value(&made);
            at(&mut planted, step).fact = Some((*place, self.word_fact(&subject, &value)));
            made.facts.push(Fact { place: *place, step, subject, value });
        }
        free.retain(|step| step + 20 < plan.steps);
        for step in free.into_iter().take(plan.mistakes) {
            let revision = at(&mut planted, step + 3 + self.dice.below(12) as u64);
            // A step retracts at most one statement.
            if revision.revises.is_none() {
                revision.revises = Some(step);
                let (subject, value) = self.new_subject_and_value(&made);
                at(&mut planted, step).mistake = Some(self.word_fact(&subject, &value));
                made.stale.push(value);
            }
        }
        for (number, planted) in (0..).zip(planted).skip(1) {
            self.step(number, planted, plan.steps, &mut made);
        }
        made
    }

    /// Returns a new subject, and a value that neither contains nor is part of another.
    fn new_subject_and_value(&mut self, made: &Session) -> (String, String) {
        loop {
            let value = self.slot("value");
            let same = |other: &String| other.contains(&value) || value.contains(other);
            let known = made.facts.iter().map(|fact| &fact.value).chain(&made.stale).any(same);
            if !known {
                return (self.slot("subject"), value);
            }
        }
    }

    fn slot(&mut self, name: &str) -> String {
        let grammar = Grammar { habits: self.habits, ..self.topic.grammar };
        grammar.slot(&mut self.dice, name)
    }

    fn word_fact(&mut self, subject: &str, value: &str) -> String {
        self.slot("told").replace("<s>", subject).replace("<v>", value)
    }

    fn filler(&mut self) -> String {
        if self.style == Style::NearDuplicates && self.dice.percent(50) {
            let again = self.dice.of(&self.repeated).clone();
            return replace_first_number(&again, self.dice.between(11, 990));
        }
        self.slot("filler")
    }

    /// Joins sentences to a text, or to one sentence of many clauses in the run-on style.
    fn text(&self, sentences: &[String]) -> String {
        if self.style == Style::RunOn {
            return capitalised(&sentences.join(self.topic.joint));
        }
        let all: Vec<String> = sentences.iter().map(|text| capitalised(text)).collect();
        all.join(self.topic.stop) + "."
    }

    fn step(&mut self, number: u64, planted: Planted, last: u64, made: &mut Session) {
        let Planted { fact, mistake, revises } = planted;
        let at_place =
            |place: StepMember| fact.iter().filter(move |(at, _)| *at == place).map(|(_, t)| t);
        let sentences = self.style.sentences();
        let mut found: Vec<String> = Vec::new();
        for _ in 0..self.dice.between(sentences.start, sentences.end) {
            found.push(self.filler());
        }
        for text in at_place(StepMember::Description).chain(&mistake) {
            found.insert(self.dice.below(found.len() + 1), text.clone());
        }
        let mut reasons: Vec<String> = Vec::new();
        for _ in 0..self.dice.below(3) {
            reasons.push(self.slot("reason"));
        }
        for text in at_place(StepMember::Reasoning) {
            reasons.insert(self.dice.below(reasons.len() + 1), text.clone());
        }
        let mut rejected: Vec<String> = Vec::new();
        for _ in 0..if self.dice.percent(15) { 1 + self.dice.below(2) } else { 0 } {
            rejected.push(self.slot("rejected"));
        }
        rejected.extend(at_place(StepMember::Rejected).cloned());
        let mut call = json!({
            "searchStep": self.text(&found), "stepNumber": number, "nextStepNeeded": true,
        });
        let mut put = |name: &str, value: Value| {
            call.as_object_mut().expect("arguments are an object").insert(name.to_owned(), value);
        };
        if number == 1 {
            put("researchGoal", json!(made.goal));
            put("totalStepsEstimate", json!(last + 20));
        }
        if !reasons.is_empty() {
            put("reasoning", json!(self.text(&reasons)));
        }
        if !rejected.is_empty() {
            put("rejectedApproaches", json!(rejected));
        }
        let is_sure = fact.is_some() || mistake.is_some();
        match self.dice.below(100) {
            roll if roll < if is_sure { 45 } else { 15 } => put("confidence", json!("high")),
            roll if roll < 70 => put("confidence", json!("medium")),
            roll if roll < 80 => put("confidence", json!("low")),
            _ => {}
        }
        if let Some(revised) = revises {
            put("isRevision", json!(true));
            put("revisesStep", json!(revised));
        }
        // Other gaps are closed eight steps after they were opened.
        if let Some(gap) = at_place(StepMember::Gap).next() {
            put("knowledgeGap", json!(gap));
        } else if number % 16 == 5 {
            put("knowledgeGap", json!(self.slot("gap")));
        } else if number % 16 == 13 && !made.holds(StepMember::Gap, number - 8) {
            put("closesGap", json!(format!("g{}", number - 8)));
        }
        made.calls.push(("sequential_search", call));
        let title = at_place(StepMember::Source).next().cloned();
        if title.is_some() || self.dice.percent(25) {
            let title = title.unwrap_or_else(|| self.slot("title"));
            let page = self.dice.below(90_000);
            let url = format!("https://{}.example/{number}/{page}", made.topic);
            let source = json!({"url": url, "title": title, "relevance": "scraped"});
            made.calls.push(("add_sources", json!({ "sources": [source] })));
        }
    }
}

/// Returns the planted content of a step; steps are numbered from 1.
fn at(planted: &mut [Planted], step: u64) -> &mut Planted {
    let at = usize::try_from(step).unwrap_or(0);
    planted.get_mut(at).expect("a plan has a place for each of its steps")
}

/// Returns the text with its first number replaced.
fn replace_first_number(text: &str, number: usize) -> String {
    let Some(from) = text.find(|c: char| c.is_ascii_digit()) else { return text.to_owned() };
    let (before, rest) = text.split_at(from);
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}{number}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::String(text) => all.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| texts(value, all)),
            Value::Object(members) => members.values().for_each(|value| texts(value, all)),
            _ => {}
        }
    }

    #[test]
    fn a_fact_and_a_mistake_are_in_exactly_one_text_each() {
        for seed in 1..=80 {
            for plan in [Plan::long(seed), Plan::short()] {
                let made = session(seed, plan);
                let wanted: usize = plan.facts.iter().map(|(_, count)| count).sum();
                assert_eq!(made.facts.len(), wanted);
                assert!(made.stale.len() + 2 >= plan.mistakes, "seed {seed}");
                let mut all = Vec::new();
                made.calls.iter().for_each(|(_, call)| texts(call, &mut all));
                for fact in &made.facts {
                    let subject = fact.subject.to_lowercase();
                    let says = |text: &&String| text.contains(&fact.value);
                    let holding: Vec<_> = all.iter().filter(says).collect();
                    assert_eq!(holding.len(), 1, "seed {seed}: {fact:?} in {holding:?}");
                    assert!(holding[0].to_lowercase().contains(&subject), "{fact:?}");
                }
                for stale in &made.stale {
                    let count = all.iter().filter(|text| text.contains(stale)).count();
                    assert_eq!(count, 1, "seed {seed}: {stale}");
                }
                assert!(!all.iter().any(|text| text.contains(['{', '}', '<'])), "seed {seed}");
            }
        }
    }

    #[test]
    fn both_halves_of_ten_seeds_have_every_style() {
        let of = |odd: u64| (0..5).map(move |n| Style::of(2 + 2 * n + odd)).collect::<Vec<_>>();
        for style in Style::ALL {
            assert!(of(0).contains(&style) && of(1).contains(&style), "{style:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_session() {
        let made = |seed| session(seed, Plan::long(seed)).calls;
        assert_eq!(made(3), made(3));
        assert_ne!(made(3), made(5));
    }
}

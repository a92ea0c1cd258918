//! Prints the figures of a set as a table for a terminal, as Markdown and as JSON. It must not
//! count hits.

use std::{collections::BTreeMap, io::Write};

use serde_json::{Value, json};

use super::figures::{Answer, Figures, percentile};
use crate::{failure::Outcome, report::drawn};

/// Version of the JSON report; a member is never removed within one.
const VERSION: u32 = 1;

/// Results on a set.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Names of the conversations.
    pub(super) conversations: Vec<String>,
    pub(super) sessions: usize,
    pub(super) turns: usize,
    /// Numbers of hits at which recall is computed.
    pub(super) at: Vec<usize>,
    pub(super) answers: Vec<Answer>,
    /// Number of draws of four words, and of those that found their turn first.
    pub(super) drawn: usize,
    pub(super) first: usize,
    /// Notes for a reader of the figures.
    pub(super) notes: Vec<String>,
}

/// A line of the table: a category and its figures.
type Line = (String, Figures);

impl Report {
    fn lines(&self) -> Vec<Line> {
        let mut categories: BTreeMap<&str, Vec<&Answer>> = BTreeMap::new();
        for answer in &self.answers {
            categories.entry(&answer.asked.category).or_default().push(answer);
        }
        let named = categories.len() > 1;
        let all = ("all".to_owned(), Figures::of(self.answers.iter(), &self.at));
        let of = categories
            .into_iter()
            .filter(|_| named)
            .map(|(name, answers)| (name.to_owned(), Figures::of(answers.into_iter(), &self.at)));
        std::iter::once(all).chain(of).filter(|(_, found)| found.questions > 0).collect()
    }

    fn times(&self) -> [f64; 2] {
        let times = self.answers.iter().map(|answer| answer.took.as_secs_f64() * 1e3);
        let mut times: Vec<f64> = times.collect();
        [50, 99].map(|of| percentile(&mut times, of))
    }

    fn tokens(&self) -> f64 {
        let sum: u64 = self.answers.iter().map(|answer| answer.tokens).sum();
        sum as f64 / self.answers.len().max(1) as f64
    }

    fn four_words(&self) -> f64 {
        self.first as f64 / self.drawn.max(1) as f64
    }

    fn heads(&self) -> Vec<String> {
        let recall = self.at.iter().map(|of| format!("@{of}"));
        let more = ["@10 with two beside", "session hit@1", "hit@5", "MRR"].map(str::to_owned);
        ["questions".to_owned(), "asked".to_owned()].into_iter().chain(recall).chain(more).collect()
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let cells = |(name, found): Line| {
            let Figures { questions, recall, beside, session_hit, reciprocal } = found;
            let shares = recall.into_iter().map(|(_, share)| share);
            let shares = shares.chain([beside]).chain(session_hit).chain([reciprocal]);
            let shares = shares.map(|share| format!("{share:.3}"));
            [name, questions.to_string()].into_iter().chain(shares).collect()
        };
        self.lines().into_iter().map(cells).collect()
    }

    /// Returns the sentences below the table.
    fn sentences(&self) -> Vec<String> {
        let [half, most] = self.times();
        let mut lines = Vec::new();
        if !self.answers.is_empty() {
            lines.push(format!("an answer of ten hits: p50 {half:.1} ms, p99 {most:.1} ms"));
            lines.push(format!("tokens of its texts: {:.0}, the mean of all", self.tokens()));
        }
        let (share, first, drawn) = (self.four_words(), self.first, self.drawn);
        lines.push(format!("four words of a turn find it first: {share:.3} ({first} of {drawn})"));
        let (sets, sessions, turns) = (self.conversations.len(), self.sessions, self.turns);
        lines.push(format!("{sets} conversations, {sessions} sessions, {turns} turns"));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// Prints the table, or the JSON report.
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Outcome {
        if json {
            return Ok(writeln!(out, "{}", self.to_json())?);
        }
        let heads = self.heads();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        writeln!(out, "{}", drawn(&heads, self.cells()))?;
        for line in self.sentences() {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Formats the table in Markdown.
    pub(super) fn to_markdown(&self) -> String {
        let heads = self.heads();
        let mut text = format!(
            "# How much of the evidence a search finds\n\nsessionlog {}. Recall is the share of \
             the turns with the answer among the first hits, the mean over the questions that \
             have such turns.\n\n| {} |\n|---|{}\n",
            env!("CARGO_PKG_VERSION"),
            heads.join(" | "),
            "--:|".repeat(heads.len() - 1),
        );
        for cells in self.cells() {
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        text.push('\n');
        for line in self.sentences() {
            text.push_str(&format!("- {line}\n"));
        }
        text
    }

    /// Returns the report as JSON, with every question's share among the first ten hits.
    pub(super) fn to_json(&self) -> Value {
        let figures = |(name, found): Line| {
            let recall = found.recall.iter().map(|(of, share)| (of.to_string(), json!(share)));
            let value = json!({
                "questions": found.questions,
                "recall": recall.collect::<serde_json::Map<_, _>>(),
                "recall_10_beside": found.beside,
                "session_hit_1": found.session_hit[0],
                "session_hit_5": found.session_hit[1],
                "session_mrr": found.reciprocal,
            });
            (name, value)
        };
        let question = |answer: &Answer| {
            let turn = |(session, turn): &(usize, usize)| json!([session, turn]);
            json!({
                "conversation": self.conversations.get(answer.conversation),
                "question": answer.asked.text,
                "category": answer.asked.category,
                "evidence": answer.asked.evidence.iter().map(turn).collect::<Vec<_>>(),
                "hits": answer.hits.iter().take(10).map(turn).collect::<Vec<_>>(),
                "recall_10": answer.recall(10),
            })
        };
        let [half, most] = self.times();
        json!({
            "version": VERSION,
            "sessionlog": env!("CARGO_PKG_VERSION"),
            "conversations": self.conversations,
            "sessions": self.sessions,
            "turns": self.turns,
            "figures": self.lines().into_iter().map(figures).collect::<serde_json::Map<_, _>>(),
            "four_words": {
                "drawn": self.drawn, "first": self.first, "share": self.four_words(),
            },
            "ms": { "p50": half, "p99": most },
            "tokens": self.tokens(),
            "questions": self.answers.iter().map(question).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

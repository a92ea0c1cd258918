//! Computes the share of the evidence among hits. It must not send a query.

use std::time::Duration;

use super::set::Place;

/// Number of turns shown on either side of a hit, and number of such hits.
const BESIDE: usize = 2;
const WITH_BESIDE: usize = 10;

/// A counted question and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) evidence: Vec<Place>,
    pub(super) category: String,
}

/// Result of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) conversation: usize,
    pub(super) asked: Asked,
    /// Hits, the best first.
    pub(super) hits: Vec<Place>,
    /// Duration of the answer with ten hits.
    pub(super) took: Duration,
    /// Tokens of the texts of these hits.
    pub(super) tokens: u64,
}

impl Answer {
    /// Returns the share of the evidence that satisfies `shows`.
    fn share(&self, shows: impl Fn(&Place) -> bool) -> f64 {
        let shown = self.asked.evidence.iter().filter(|turn| shows(turn)).count();
        shown as f64 / self.asked.evidence.len().max(1) as f64
    }

    /// Returns the share of the evidence among the first hits.
    pub(super) fn recall(&self, of: usize) -> f64 {
        self.share(|turn| self.hits.iter().take(of).any(|hit| hit == turn))
    }

    /// Returns the share among the first ten hits and two turns on either side of each.
    fn recall_beside(&self) -> f64 {
        self.share(|(session, turn)| {
            let mut hits = self.hits.iter().take(WITH_BESIDE);
            hits.any(|(of, hit)| of == session && hit.abs_diff(*turn) <= BESIDE)
        })
    }

    /// Returns the rank, from 1, of the first session with evidence, where sessions are in the
    /// order of their best hits.
    fn rank_of_session(&self) -> Option<usize> {
        let mut sessions: Vec<usize> = Vec::new();
        for (session, _) in &self.hits {
            if !sessions.contains(session) {
                sessions.push(*session);
            }
        }
        let has = |session: &usize| self.asked.evidence.iter().any(|(of, _)| of == session);
        sessions.iter().position(has).map(|at| at + 1)
    }
}

/// Means over questions that have evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Number of questions with evidence.
    pub(super) questions: usize,
    /// Share of the evidence among the first hits, by number of hits.
    pub(super) recall: Vec<(usize, f64)>,
    /// Share of the evidence in ten hits and two turns on either side of each.
    pub(super) beside: f64,
    /// Shares of questions with evidence in the first session, and in one of the first five.
    pub(super) session_hit: [f64; 2],
    /// Mean reciprocal rank of the first session with evidence.
    pub(super) reciprocal: f64,
}

impl Figures {
    /// Computes the figures of answers at these numbers of hits.
    pub(super) fn of<'a>(answers: impl Iterator<Item = &'a Answer>, at: &[usize]) -> Self {
        let answers: Vec<&Answer> =
            answers.filter(|answer| !answer.asked.evidence.is_empty()).collect();
        let mean = |value: &dyn Fn(&Answer) -> f64| {
            answers.iter().map(|answer| value(answer)).sum::<f64>() / answers.len().max(1) as f64
        };
        let within = |most: usize| {
            let is_within = |answer: &Answer| answer.rank_of_session().is_some_and(|at| at <= most);
            mean(&|answer| f64::from(u8::from(is_within(answer))))
        };
        Self {
            questions: answers.len(),
            recall: at.iter().map(|of| (*of, mean(&|answer| answer.recall(*of)))).collect(),
            beside: mean(&Answer::recall_beside),
            session_hit: [1, 5].map(within),
            reciprocal: mean(&|answer| answer.rank_of_session().map_or(0.0, |r| 1.0 / r as f64)),
        }
    }
}

/// Returns the value at a percentile.
pub(super) fn percentile(values: &mut [f64], hundredths: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() * hundredths / 100;
    values.get(at).or(values.last()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(evidence: &[Place], hits: &[Place]) -> Answer {
        let asked = Asked { evidence: evidence.to_vec(), ..Asked::default() };
        Answer { asked, hits: hits.to_vec(), ..Answer::default() }
    }

    #[test]
    fn means_are_computed_over_questions_with_evidence_only() {
        let answers = [
            answer(&[(0, 1), (2, 9)], &[(1, 1), (0, 1), (2, 7), (0, 2)]),
            answer(&[(3, 3)], &[(3, 4)]),
            answer(&[(4, 4)], &[]),
            answer(&[], &[(0, 0)]),
        ];
        let found = Figures::of(answers.iter(), &[1, 2, 5]);
        assert_eq!(found.questions, 3);
        let expected = [(1, 0.0), (2, 0.5 / 3.0), (5, 0.5 / 3.0)];
        assert_eq!(found.recall, expected);
        assert_eq!(found.beside, 2.0 / 3.0, "a turn two places beside a hit is shown");
        assert_eq!(found.session_hit, [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(found.reciprocal, (0.5 + 1.0) / 3.0);
        assert_eq!(Figures::of([].iter(), &[1]).recall, [(1, 0.0)]);
    }

    #[test]
    fn a_percentile_is_one_of_the_measured_values() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!((percentile(&mut values, 50), percentile(&mut values, 99)), (101.0, 199.0));
        assert_eq!(percentile(&mut [], 99), 0.0);
    }
}

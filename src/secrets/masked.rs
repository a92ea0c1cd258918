//! A text without its secrets: what recorders keep and what is sent elsewhere has this type, which
//! the rules alone make. It must not give back what was removed.

use super::{Recogniser, Report};

/// The member of an event that counts what was removed from it.
const COUNTS: &str = "redactions";

/// A text without its secrets, and how many each rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    text: String,
    report: Report,
}

impl Masked {
    pub(super) fn new(rules: &Recogniser, text: &str) -> Self {
        let mut report = Report::default();
        let clean = rules.json(text, &mut report);
        Self { text: clean.unwrap_or_else(|| text.to_owned()), report }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Counts of the secrets removed.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The text, where nothing is counted.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// The text of an event that counts what was removed from it, with what was removed before;
    /// the event must be an object that does not count yet.
    #[must_use]
    pub fn into_event(mut self, before: &Report) -> String {
        before.rules().for_each(|(rule, times)| self.report.count(rule, times));
        if !self.report.is_empty() && self.text.ends_with('}') {
            self.text.pop();
            self.text.push_str(&format!(",\"{COUNTS}\":{}}}", self.report.to_json()));
        }
        self.text
    }
}

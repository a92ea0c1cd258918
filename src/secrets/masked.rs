//! A text without its secrets. Recorders store and send only this type, which only the rules
//! construct. It must not return a removed secret.

use super::{MaskingReport, Recogniser};

/// Member of an event that counts the removed secrets.
const COUNTS: &str = "redactions";

/// A text without its secrets, with the number of matches of each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedText {
    text: String,
    report: MaskingReport,
}

impl MaskedText {
    pub(super) fn new(rules: &Recogniser, text: &str) -> Self {
        let mut report = MaskingReport::default();
        let clean = rules.mask_json(text, &mut report);
        Self { text: clean.unwrap_or_else(|| text.to_owned()), report }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the number of removed secrets, by rule.
    #[must_use]
    pub fn report(&self) -> &MaskingReport {
        &self.report
    }

    /// Returns the text without its counts.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Returns the text of an event with a member that counts the removed secrets, those in
    /// `before` included; the event must be an object without that member.
    #[must_use]
    pub fn into_event(mut self, before: &MaskingReport) -> String {
        before.rules().for_each(|(rule, times)| self.report.add(rule, times));
        if !self.report.is_empty() && self.text.ends_with('}') {
            self.text.pop();
            self.text.push_str(&format!(",\"{COUNTS}\":{}}}", self.report.to_json()));
        }
        self.text
    }
}

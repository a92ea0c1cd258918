//! Rules for secrets that front ends remove from records of other programs: the setting `secrets`
//! and the user's rules file. It must not know a rule.

use std::path::PathBuf;

use super::failure::{CliError, Outcome};
use crate::{
    env::files,
    secrets::{Recogniser, RulesError},
};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Source of the secret rules.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct SecretsSource {
    /// `on`, `off`, or the rules to leave out.
    pub(super) rules: String,
    pub(super) file: Option<PathBuf>,
}

impl SecretsSource {
    /// Reads the rules.
    pub(super) fn read(&self) -> Outcome<Recogniser> {
        let action = "correct the setting secrets, or the file that secrets_file names";
        let read = Recogniser::parse(&self.rules, &self.read_lines()?);
        read.map_err(|error| CliError::invalid_request(self.describe_error(&error), action))
    }

    /// Reads every valid rule; returns them with the errors of the others.
    pub(super) fn salvage(&self) -> (Recogniser, Vec<String>) {
        let (lines, unread) = match self.read_lines() {
            Ok(lines) => (lines, None),
            Err(failure) => (String::new(), Some(format!("secrets_file {failure}"))),
        };
        let (rules, wrong) = Recogniser::parse_valid_lines(&self.rules, &lines);
        let wrong = wrong.iter().map(|error| format!("{}; left out", self.describe_error(error)));
        (rules, unread.into_iter().chain(wrong).collect())
    }

    fn read_lines(&self) -> Outcome<String> {
        let Some(path) = &self.file else { return Ok(String::new()) };
        files::read_text(path, FILE_BYTES_MAX).map_err(CliError::file(path))
    }

    fn describe_error(&self, error: &RulesError) -> String {
        match &self.file {
            Some(path) => format!("secrets_file {}: {error}", path.display()),
            None => format!("secrets: {error}"),
        }
    }
}

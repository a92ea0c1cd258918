//! Which secrets the front ends that record other programs take out: the setting `secrets` and the
//! file of somebody's own rules. It must not know a rule.

use std::path::PathBuf;

use super::failure::{Failure, Outcome};
use crate::{env::files, secrets::Recogniser};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the rules come from.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct SecretsSource {
    /// `on`, `off`, or the rules to leave out.
    pub(super) rules: String,
    pub(super) file: Option<PathBuf>,
}

impl SecretsSource {
    /// The rules, `None` for none at all.
    pub(super) fn read(&self) -> Outcome<Option<Recogniser>> {
        let lines = match &self.file {
            Some(path) => files::read_text(path, FILE_BYTES_MAX)
                .map_err(|source| Failure::File { path: path.clone(), source })?,
            None => String::new(),
        };
        Recogniser::parse(&self.rules, &lines).map_err(|error| Failure::Refused {
            code: "invalid_request",
            message: match &self.file {
                Some(path) => format!("secrets_file {}: {error}", path.display()),
                None => format!("secrets: {error}"),
            },
            action: "see docs/secrets.md".to_owned(),
        })
    }
}

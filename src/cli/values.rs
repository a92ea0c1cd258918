//! Building blocks of settings: the environment, a value with its source, the errors of a value,
//! sizes and durations. It must not know a setting.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use url::Url;

pub(super) const DEFAULT: &str = "default";
pub(super) const FILE: &str = "file";
pub(super) const ENVIRONMENT: &str = "environment";
pub(super) const FLAG: &str = "flag";

/// Environment of the process, read once.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    pub(super) variables: BTreeMap<String, OsString>,
}

impl Environment {
    pub(super) fn from_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        Self { variables }
    }

    /// Returns a variable that is text and not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = self.variables.get(name)?.to_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the candidate paths of a program's name, in the order of `PATH`.
    pub(super) fn candidates_on_path(&self, name: impl AsRef<Path>) -> Vec<PathBuf> {
        let directories = self.variables.get("PATH").into_iter().flat_map(std::env::split_paths);
        directories.map(|directory| directory.join(&name)).collect()
    }

    pub(super) fn directory(&self, name: &str) -> Option<PathBuf> {
        // The XDG rules: a relative path counts as unset.
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns the directory in a variable, or else a path below the home directory.
    pub(super) fn dir_or_below_home(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.directory(variable).or_else(|| Some(self.directory("HOME")?.join(below_home)))
    }
}

/// Error of a setting. No process or listener was started.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    #[error("setting {name} from {source_name}: {value:?} is not {wanted}")]
    Value { name: &'static str, value: String, source_name: String, wanted: String },
    #[error("{source_name}: there is no setting {name:?} in this version{known}")]
    Unknown { name: String, source_name: String, known: String },
    #[error("configuration file {path}: {problem}")]
    File { path: String, problem: String },
    #[error("{source_name}: {problem}")]
    Key { source_name: String, problem: String },
    #[error("setting {name} says something only together with {other}")]
    Alone { name: &'static str, other: &'static str },
    #[error("setting data_dir: there is no home directory; give --data-dir or SESSIONLOG_DATA_DIR")]
    NoHome,
}

impl ConfigError {
    /// Returns the setting that the error concerns.
    pub(super) fn field(&self) -> &str {
        match self {
            Self::Value { name, .. } => name,
            Self::Unknown { name, .. } => name,
            Self::Alone { name, .. } => name,
            Self::File { .. } => "config",
            Self::Key { .. } => "key",
            Self::NoHome => "data_dir",
        }
    }
}

/// The current value of a setting.
#[derive(Clone, Debug)]
pub(super) struct SettingValue {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
    /// Source of the value, for display.
    pub(super) source: String,
    pub(super) help: String,
    pub(super) shared: bool,
    pub(super) secret: bool,
}

impl SettingValue {
    /// Creates a secret setting, which comes from the environment only.
    pub(super) fn new_secret(name: &'static str, variable: &str, help: &str, given: bool) -> Self {
        Self {
            name,
            value: given.then(String::new),
            source: if given { format!("{ENVIRONMENT} {variable}") } else { DEFAULT.to_owned() },
            help: help.to_owned(),
            shared: false,
            secret: true,
        }
    }

    /// Returns the value as listings show it: for a secret, only that it is set.
    pub(super) fn display_value(&self) -> Option<String> {
        let value = self.value.clone()?;
        Some(if self.secret { "(set, not shown)".to_owned() } else { value })
    }
}

/// The current settings, to be parsed.
#[derive(Clone, Copy)]
pub(super) struct SettingValues<'a>(pub(super) &'a [SettingValue]);

impl<'a> SettingValues<'a> {
    pub(super) fn get(self, name: &str) -> Option<&'a SettingValue> {
        self.0.iter().find(|found| found.name == name)
    }

    /// Returns the text of a setting; empty where it is not set.
    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(|found| found.value.as_deref()).unwrap_or_default()
    }

    /// Parses a setting with `parse`; `None` where it is not set.
    pub(super) fn parse<T>(
        self,
        name: &str,
        wanted: &str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let found = self.get(name).and_then(|found| Some((found, found.value.as_deref()?)));
        let Some((found, value)) = found else { return Ok(None) };
        let wrong = || ConfigError::Value {
            name: found.name,
            value: if found.secret { "what was given" } else { value }.to_owned(),
            source_name: found.source.clone(),
            wanted: wanted.to_owned(),
        };
        parse(value).map(Some).ok_or_else(wrong)
    }

    /// Parses a setting that is one of two words; returns true for the first.
    pub(super) fn is_first_of(self, name: &str, words: [&str; 2]) -> Result<bool, ConfigError> {
        let [first, second] = words;
        let is_first = |text: &str| (text == first || text == second).then(|| text == first);
        let found = self.parse(name, &format!("{first} or {second}"), is_first)?;
        Ok(found.unwrap_or(true))
    }
}

/// Parses the address of a server.
pub(super) fn parse_server_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.host().is_some()).then_some(url)
}

/// Parses a number with a unit: `500ms`, `60s`, `15m`, `4h`, `30d`; a bare number is seconds.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let millis = match text.strip_prefix(digits)? {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Parses a duration argument of the command line.
pub(super) fn parse_duration_argument(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "it must be a duration, such as 500ms, 60s or 4h".to_owned())
}

/// Parses a number of bytes with a unit: `4096`, `32KiB`, `8MiB`, `1GiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text.strip_prefix(digits)? {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

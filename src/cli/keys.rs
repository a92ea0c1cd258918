//! Sources of the master key of an encrypted store: a variable, a file readable by its owner only,
//! or the output of a command; never an argument. It must not show a key, keep one longer than
//! opening the store takes, nor accept a file that others may read.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use super::{
    failure::{CliError, Outcome},
    values::{ConfigError, Environment, SettingValue},
};
use crate::{
    env::{MasterKeys, files, host, secrets::Secret},
    store::KeyProblem,
};

/// Variables that hold keys: settings that have no flag and no line in a file or listing.
pub(super) const VARIABLES: [&str; 2] = ["SESSIONLOG_KEY", "SESSIONLOG_KEY_PREVIOUS"];
const WANTED: &str = "32 random bytes, as `openssl rand -hex 32` or `-base64 32` writes them";
const FILE_BYTES_MAX: u64 = 4096;
/// Time limit of a key command: a front end waits longer for the owner that runs it.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, Default)]
pub(super) struct KeySource {
    current: Option<Secret>,
    previous: Option<Secret>,
    file: Option<PathBuf>,
    command: Option<String>,
}

/// Returns the key settings for a listing, without their values.
pub(super) fn list_settings(environment: &Environment) -> [SettingValue; 2] {
    let [current, previous] = VARIABLES;
    let one = |name, variable, help| {
        SettingValue::new_secret(name, variable, help, environment.variables.contains_key(variable))
    };
    [
        one("key", current, "master key of the store; environment only"),
        one("key_previous", previous, "master key before a rotation; environment only"),
    ]
}

impl KeySource {
    /// Parses the settings; checks a key in the environment, but reads no file and runs no command.
    pub(super) fn from_settings(
        environment: &Environment,
        file: Option<PathBuf>,
        command: Option<String>,
    ) -> Result<Self, ConfigError> {
        let key = |variable: &'static str| {
            let Some(value) = environment.variables.get(variable) else { return Ok(None) };
            let key = value.to_str().and_then(Secret::parse);
            let problem = format!("it is not a key: {WANTED}");
            key.map(Some).ok_or(ConfigError::Key { source_name: variable.to_owned(), problem })
        };
        let [current, previous] = VARIABLES;
        let source = Self { current: key(current)?, previous: key(previous)?, file, command };
        let given = [source.current.is_some(), source.file.is_some(), source.command.is_some()];
        let twice = given.into_iter().filter(|given| *given).count() > 1;
        let alone = source.previous.is_some() && !source.is_configured();
        if twice || alone {
            let problem = if twice { "two of them are set" } else { "only the one before is set" };
            return Err(ConfigError::Key {
                source_name: "key, key_file, key_command".to_owned(),
                problem: format!("{problem}: set one"),
            });
        }
        Ok(source)
    }

    pub(super) fn is_configured(&self) -> bool {
        self.current.is_some() || self.file.is_some() || self.command.is_some()
    }

    /// Reads the keys, and disables core dumps and tracing of this process.
    pub(super) fn read(&self) -> Outcome<Option<Arc<MasterKeys>>> {
        let keys = match (&self.current, &self.file, &self.command) {
            (Some(current), _, _) => {
                MasterKeys { current: current.clone(), previous: self.previous.clone() }
            }
            (_, Some(path), _) => {
                let text = files::read_private(path, FILE_BYTES_MAX).map_err(|error| {
                    let problem = match error.kind() {
                        io::ErrorKind::PermissionDenied => {
                            format!("{error}; only its owner may read it: chmod 600")
                        }
                        _ => error.to_string(),
                    };
                    invalid_key_failure(format!("key_file {}: {problem}", path.display()))
                })?;
                self.parse_keys(&text, &format!("key_file {}", path.display()))?
            }
            (_, _, Some(command)) => {
                let text = host::run_command(command, FILE_BYTES_MAX, COMMAND_TIME_MAX)
                    .map_err(|error| invalid_key_failure(format!("key_command: {error}")))?;
                self.parse_keys(&text, "key_command")?
            }
            (None, None, None) => return Ok(None),
        };
        host::keep_memory_private()?;
        Ok(Some(Arc::new(keys)))
    }

    /// Parses the current key on the first line, and the previous one on the second.
    fn parse_keys(&self, text: &str, source: &str) -> Outcome<MasterKeys> {
        let mut keys = text.lines().filter(|line| !line.trim().is_empty()).map(Secret::parse);
        let wrong = || {
            invalid_key_failure(format!("{source}: it holds no key: {WANTED}, one on each line"))
        };
        let current = keys.next().flatten().ok_or_else(wrong)?;
        let previous = keys.next().map(|key| key.ok_or_else(wrong)).transpose()?;
        if keys.next().is_some() {
            return Err(wrong());
        }
        Ok(MasterKeys { current, previous: previous.or_else(|| self.previous.clone()) })
    }
}

fn invalid_key_failure(message: String) -> CliError {
    let action = "give one key: SESSIONLOG_KEY, SESSIONLOG_KEY_FILE (mode 0600) or \
                  SESSIONLOG_KEY_COMMAND";
    CliError::invalid_request(message, action)
}

/// Returns the failure of opening a store with these keys, with a remedy.
pub(super) fn open_failure(store: &str, problem: &KeyProblem) -> CliError {
    let action = match problem {
        KeyProblem::Missing { .. } => {
            "give its key: SESSIONLOG_KEY, SESSIONLOG_KEY_FILE or SESSIONLOG_KEY_COMMAND"
        }
        KeyProblem::Wrong { .. } => {
            "give the key it was encrypted with; the one before as SESSIONLOG_KEY_PREVIOUS"
        }
        KeyProblem::Rotating { .. } => {
            "give both keys, the new one as SESSIONLOG_KEY and the one before as \
             SESSIONLOG_KEY_PREVIOUS, then run `sessionlog keys rotate` again"
        }
        KeyProblem::Plaintext => {
            "take the key away; or make a new store with the key and bring the sessions over with \
             `sessionlog export` and `import`"
        }
    };
    // The process that started this owner receives only the message.
    let message = format!("{store}: {problem}; nothing was changed: {action}");
    CliError::refusal(
        "forbidden",
        message,
        "`sessionlog keys check` shows which key the store needs",
    )
}

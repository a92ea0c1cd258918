//! Environment variables of similar programs, which a user may take for settings of this one. They
//! have no effect and are reported at a start; one that requests encryption is rejected where the
//! store would be in plaintext. It must not read their values.

use super::values::{ConfigError, Environment};

/// Foreign variables, each with the equivalent variable of this program, if one exists.
const KNOWN: [(&str, Option<&str>); 6] = [
    ("SESSION_DATA_DIR", Some("SESSIONLOG_DATA_DIR")),
    ("SESSION_MAX_STEPS", Some("SESSIONLOG_MAX_STEPS")),
    ("SESSION_TTL", Some("SESSIONLOG_TTL")),
    ("REDIS_URL", None),
    KEY,
    ("CACHE_ENCRYPTION_KEY_PREV", Some("SESSIONLOG_KEY_PREVIOUS")),
];
/// Foreign variable of an encryption key, and its equivalent.
const KEY: (&str, Option<&str>) = ("CACHE_ENCRYPTION_KEY", Some("SESSIONLOG_KEY"));

fn is_set(environment: &Environment, name: &str) -> bool {
    environment.variables.get(name).is_some_and(|value| !value.is_empty())
}

/// Returns a sentence for each foreign variable that is set while its equivalent is not.
pub(super) fn describe_ignored_variables(
    environment: &Environment,
) -> impl Iterator<Item = String> {
    let set = KNOWN.into_iter().filter(|(name, _)| is_set(environment, name));
    let alone = set.filter(|(_, own)| own.is_none_or(|own| !is_set(environment, own)));
    alone.map(|(name, own)| match own {
        Some(own) => format!("{name} is not read: the variable of sessionlog is {own}"),
        None => format!("{name} is not read: sessionlog has no setting for it"),
    })
}

/// Rejects a store without a key where a foreign variable requests encryption.
pub(super) fn check_encryption_key(
    environment: &Environment,
    has_key: bool,
) -> Result<(), ConfigError> {
    let (name, own) = KEY;
    if has_key || !is_set(environment, name) {
        return Ok(());
    }
    let own = own.unwrap_or_default();
    Err(ConfigError::Key {
        source_name: format!("environment {name}"),
        problem: format!(
            "it is not read, and the store would be in plaintext: set {own} (32 random bytes), \
             SESSIONLOG_KEY_FILE or SESSIONLOG_KEY_COMMAND, or unset it"
        ),
    })
}

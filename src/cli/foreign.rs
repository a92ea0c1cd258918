//! Variables of other programs of this kind, which a person may take for settings of this one. They
//! change nothing and are named at a start; one that asks for encryption is refused where the store
//! would be in plaintext. It must not read what they say.

use super::values::{ConfigError, Environment};

/// A variable, and the one of this program that means the same; none where there is no such thing.
const KNOWN: [(&str, Option<&str>); 6] = [
    ("SESSION_DATA_DIR", Some("SESSIONLOG_DATA_DIR")),
    ("SESSION_MAX_STEPS", Some("SESSIONLOG_MAX_STEPS")),
    ("SESSION_TTL", Some("SESSIONLOG_TTL")),
    ("REDIS_URL", None),
    KEY,
    ("CACHE_ENCRYPTION_KEY_PREV", Some("SESSIONLOG_KEY_PREVIOUS")),
];
/// The variable of a key.
const KEY: (&str, Option<&str>) = ("CACHE_ENCRYPTION_KEY", Some("SESSIONLOG_KEY"));

fn is_set(environment: &Environment, name: &str) -> bool {
    environment.variables.get(name).is_some_and(|value| !value.is_empty())
}

/// A sentence about each variable that is set, unless the one of this program is set, too.
pub(super) fn named(environment: &Environment) -> impl Iterator<Item = String> {
    let set = KNOWN.into_iter().filter(|(name, _)| is_set(environment, name));
    let alone = set.filter(|(_, own)| own.is_none_or(|own| !is_set(environment, own)));
    alone.map(|(name, own)| match own {
        Some(own) => format!("{name} is not read: the variable of sessionlog is {own}"),
        None => format!("{name} is not read: sessionlog has no setting for it"),
    })
}

/// Refuses a store without a key where a variable asks for encryption.
pub(super) fn check_key(environment: &Environment, has_key: bool) -> Result<(), ConfigError> {
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

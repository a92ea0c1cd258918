//! The type of an event: `{domain}.{action}`, an open set. Unknown types are stored and served
//! unchanged. It must not hold a closed enum of types: `kinds` has the known ones.

use std::{fmt, sync::Arc};

use super::{IdError, limits};

/// `{domain}.{action}`, for example `user.message`: two or more parts, none empty, with dots
/// between them; at most 128 bytes of `[A-Za-z0-9._-]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Arc<str>);

impl EventType {
    /// Creates a type from a valid text.
    ///
    /// # Errors
    /// [`IdError`] if the text is invalid.
    pub fn new(text: &str) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > limits::EVENT_TYPE_BYTES_MAX {
            return Err(IdError::TooLong { length: text.len(), max: limits::EVENT_TYPE_BYTES_MAX });
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(found) => Err(IdError::Character { found }),
            None if !text.contains('.') || text.split('.').any(str::is_empty) => {
                Err(IdError::Parts)
            }
            None => Ok(Self(text.into())),
        }
    }

    /// Parses a type, or a domain of types: `user` or `user.*` for `user.message`.
    ///
    /// # Errors
    /// Those of [`Self::new`], except for the number of parts.
    pub fn parse_domain(text: &str) -> Result<Self, IdError> {
        let text = text.strip_suffix(".*").unwrap_or(text);
        match Self::new(&format!("{text}.x")) {
            Ok(_) => Ok(Self(text.into())),
            Err(_) => Self::new(text),
        }
    }

    /// Returns true if the type equals `domain`, or is in that domain.
    #[must_use]
    pub fn is_in_domain(&self, domain: &Self) -> bool {
        let rest = self.0.strip_prefix(&*domain.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Creates the type of a stored event without validation: a rule added later must not make
    /// acknowledged events unreadable.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the type as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventType({:?})", &*self.0)
    }
}

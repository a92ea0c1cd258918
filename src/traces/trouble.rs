//! Classifies a tool's failure by the text of its error. It must not call a text an error that the
//! tool did not report as one.

use crate::event::text::clip;

/// Maximum characters of a result that are searched for the error.
const TEXT_CHARS_MAX: usize = 2_000;

/// Kind of a tool's failure, as far as the result shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// The call needs authentication.
    AuthRequired,
    /// The call was understood and refused.
    Blocked,
    /// The result was empty.
    ContentEmpty,
    /// No connection, or a timeout.
    Network,
    /// The requested thing does not exist.
    NotFound,
    /// Any other failure.
    Other,
    /// Too many requests.
    RateLimited,
    /// The remote service is temporarily unavailable.
    UpstreamUnavailable,
    /// The call was invalid.
    Validation,
}

/// Kinds, names and the phrases that indicate them, from the most certain kind.
const KINDS: [(FailureKind, &str, &str); 9] = [
    (FailureKind::RateLimited, "rate_limited", "429|rate limit|too many requests|quota"),
    (FailureKind::AuthRequired, "auth_required", "401|unauthorized|unauthenticated|api key|log in"),
    (FailureKind::Blocked, "blocked", "403|forbidden|captcha|blocked|robots|denied"),
    (FailureKind::NotFound, "not_found", "404|410|not found|no such|does not exist"),
    (
        FailureKind::UpstreamUnavailable,
        "upstream_unavailable",
        "500|502|503|504|unavailable|overloaded",
    ),
    (FailureKind::Network, "network", "timed out|timeout|connection|econn|dns|unreachable"),
    (FailureKind::Validation, "validation", "400|422|invalid|validation|missing argument"),
    (FailureKind::ContentEmpty, "content_empty", "empty|no content|no results"),
    (FailureKind::Other, OTHER, ""),
];
const OTHER: &str = "other";

impl FailureKind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or(OTHER, |(_, name, _)| name)
    }

    /// Parses the kind in an error's text: the one that it names, or that its phrases indicate.
    pub(crate) fn from_text(text: &str) -> Self {
        let text = clip(text, TEXT_CHARS_MAX).to_lowercase();
        let named = text.split("\"kind\"").nth(1).and_then(|rest| rest.split('"').nth(1));
        let own = KINDS.iter().find(|(_, name, _)| Some(*name) == named);
        let has =
            |mark: &str| text.match_indices(mark).any(|(at, _)| is_whole_word(&text, at, mark));
        let meant = || KINDS.iter().find(|(.., words)| words.split('|').any(has));
        own.or_else(meant).map_or(Self::Other, |(kind, ..)| *kind)
    }
}

/// Returns true if a number occurs as a whole: 404 is not in 14046.
fn is_whole_word(text: &str, at: usize, mark: &str) -> bool {
    if !mark.starts_with(|c: char| c.is_ascii_digit()) {
        return true;
    }
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let before = text.get(..at).and_then(|text| text.chars().next_back());
    let after = text.get(at + mark.len()..).and_then(|text| text.chars().next());
    !digit(before) && !digit(after)
}

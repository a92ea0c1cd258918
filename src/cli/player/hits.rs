//! Hits of a search in all sessions, as the player lists them. It must not search.

/// An event that a search in all sessions found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHit {
    /// Session of the event.
    pub session: String,
    /// Title of the session; empty if it has none.
    pub title: String,
    /// Position of the event.
    pub position: u64,
    /// Text that matches, in one line.
    pub line: String,
}

/// Hits of a search, one of them chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitList {
    /// The hits, the best first.
    pub hits: Vec<SessionHit>,
    /// Index of the chosen one.
    pub chosen: usize,
}

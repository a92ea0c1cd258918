//! By what a caller without an id may be known. It must not look for a session.

use std::path::Path;

use crate::event::{SessionId, limits};

/// By what a caller without an id may be known; set by the door, never by arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The session the caller was started for.
    pub session: Option<SessionId>,
    /// Name of its connection.
    pub connection: Option<String>,
    /// What its front end remembers of that connection, for an owner that started since.
    pub remembered: Option<Remembered>,
    /// Its working directory.
    pub directory: Option<String>,
    /// The root of the repository that directory lies in.
    pub root: Option<String>,
}

impl Via {
    /// The workspace of a session that the caller begins: the root of its repository, or else its
    /// directory; absent when it is too long for one.
    #[must_use]
    pub fn workspace(&self) -> Option<String> {
        let fits = |name: &String| name.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspaces().pop().filter(fits)
    }

    /// The workspaces whose sessions the caller may mean: its directory and those above it, up to
    /// the root of its repository. `/` is the workspace of no session.
    #[must_use]
    pub fn workspaces(&self) -> Vec<String> {
        let Some(directory) = self.directory.as_deref().map(Path::new) else { return Vec::new() };
        let root = self.root.as_deref().map(Path::new);
        let top = root.filter(|root| directory.starts_with(root)).unwrap_or(directory);
        let within = |path: &&Path| path.starts_with(top) && path.parent().is_some();
        directory.ancestors().take_while(within).map(|path| path.display().to_string()).collect()
    }
}

/// What a connection used last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The session; none after a fresh start.
    pub session: Option<SessionId>,
    /// Whether it asked for a fresh start: then its own session comes before the one it was
    /// started for, and its directory's is not its own.
    pub fresh: bool,
}

/// By what the session of an answer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundBy {
    /// The caller named it.
    Argument,
    /// The caller was started for it.
    Started,
    /// Its connection used it last.
    Connection,
    /// It is the live one of the caller's working directory.
    Directory,
    /// It was created just now.
    New,
}

//! Identity of a caller without a session id. It must not look for a session.

use std::path::Path;

use crate::event::{SessionId, limits};

/// Identity of a caller without a session id; set by the interface, never by arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The session the caller was started for.
    pub session: Option<SessionId>,
    /// Names of the processes that it is a tool of, the nearest first; none where `session` is what
    /// the caller chose, and not only what its process began with.
    pub process: Vec<String>,
    /// Name of its connection.
    pub connection: Option<String>,
    /// Last use of that connection, kept by its front end for an owner that started since.
    pub remembered: Option<Remembered>,
    /// Its working directory.
    pub directory: Option<String>,
    /// The root of the repository that contains the directory.
    pub root: Option<String>,
}

impl Via {
    /// The workspace of a session that the caller starts: the root of its repository, or else its
    /// directory; absent when the path is too long.
    #[must_use]
    pub fn workspace(&self) -> Option<String> {
        let fits = |name: &String| name.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspaces().pop().filter(fits)
    }

    /// The workspaces that the caller's session may have: its directory and those above it, up to
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

/// Last use of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The session; none after a fresh start.
    pub session: Option<SessionId>,
    /// True if it asked for a fresh start: then its own session comes before the one its process
    /// was started for, and the directory's session is not used.
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
    /// The live one of the caller's working directory.
    Directory,
    /// It was created just now.
    New,
}

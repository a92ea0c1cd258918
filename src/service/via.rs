//! Identity of a caller without a session id. It must not find a session.

use std::path::Path;

use crate::event::{SessionId, limits};

/// Identity of a caller without a session id; set by the interface, never by arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Session that the caller was started for.
    pub session: Option<SessionId>,
    /// Names of its ancestor processes, nearest first; empty if the caller chose `session`, rather
    /// than its process being started with it.
    pub process: Vec<String>,
    /// Name of the connection.
    pub connection: Option<String>,
    /// Last use of that connection, sent by its front end to an owner that started later.
    pub remembered: Option<LastUse>,
    /// Working directory.
    pub directory: Option<String>,
    /// Root of the repository that contains the directory.
    pub root: Option<String>,
}

impl ClientIdentity {
    /// Returns the workspace of a session that the caller starts: the root of its repository, or
    /// else its directory; `None` if the path is too long.
    #[must_use]
    pub fn workspace(&self) -> Option<String> {
        let fits = |name: &String| name.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        self.workspaces().pop().filter(fits)
    }

    /// Returns the possible workspaces of the caller's session: its directory and the parents up to
    /// the root of its repository. `/` is never a workspace.
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
pub struct LastUse {
    /// Session used last; `None` after a reset.
    pub session: Option<SessionId>,
    /// True after a reset: then its own session takes precedence over the one its process was
    /// started for, and the directory's session is not used.
    pub fresh: bool,
}

/// How the session of a response was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundBy {
    /// Named by the caller.
    Argument,
    /// Given when the caller was started.
    Started,
    /// Used last by the connection.
    Connection,
    /// Only live session of the caller's working directory.
    Directory,
    /// Created by this call.
    New,
}

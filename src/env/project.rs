//! The project of a working directory: its repository, or the directory itself. A home directory
//! and the root of the file system belong to no project: programs of every kind run there. It must
//! not read a file.

use std::path::{Path, PathBuf};

use super::files;

/// What marks the root of a repository: a directory, or a file in a worktree and a submodule.
const MARK: &str = ".git";

/// A working directory and its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The working directory, without links where it exists.
    pub directory: PathBuf,
    /// The root of the nearest repository that holds it.
    pub root: Option<PathBuf>,
    /// Whether the working directory is the home directory or `/`.
    pub shared: bool,
}

impl Project {
    /// The project of a working directory. The search for a repository ends below the home
    /// directory and below `/`.
    #[must_use]
    pub fn of(directory: &Path, home: Option<&Path>) -> Self {
        let plain = |path: &Path| files::canonical(path).unwrap_or_else(|_| path.to_path_buf());
        let (directory, home) = (plain(directory), home.map(plain));
        let shared = |path: &Path| path.parent().is_none() || home.as_deref() == Some(path);
        let mut inside = directory.ancestors().take_while(|path| !shared(path));
        let is_root = |path: &&Path| matches!(files::look(&path.join(MARK)), Ok(Some(_)));
        let root = inside.find(is_root).map(Path::to_path_buf);
        Self { shared: shared(&directory), root, directory }
    }

    /// The directory that sessions of the project belong to: the repository's root, or else the
    /// working directory.
    #[must_use]
    pub fn workspace(&self) -> String {
        self.root.as_ref().unwrap_or(&self.directory).display().to_string()
    }
}

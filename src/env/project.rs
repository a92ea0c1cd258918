//! The project of a working directory: its repository, or the directory itself. A worktree that git
//! linked to a repository belongs to the main checkout: worktrees are deleted when their branch is
//! merged. A home directory and the root of the file system belong to no project: programs of every
//! kind run there. It must not run git, nor trust a file of a worktree alone: the repository must
//! name the worktree as well.

use std::path::{Path, PathBuf};

use super::files;

/// Name that marks the root of a repository: a directory, or a file in a worktree and a submodule.
const MARK: &str = ".git";
/// Directory of a repository's records of its worktrees.
const WORKTREES: &str = "worktrees";
/// Maximum bytes of a file that names a path, and of the configuration of a repository.
const PATH_BYTES_MAX: u64 = 8 << 10;
const CONFIG_BYTES_MAX: u64 = 256 << 10;

/// A working directory and its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The working directory, without links where it exists.
    pub directory: PathBuf,
    /// The root of the nearest repository that holds it; of a worktree, that of the main checkout.
    pub root: Option<PathBuf>,
    /// The root of the worktree that holds it, where git linked it to another directory.
    pub worktree: Option<PathBuf>,
    /// True if the working directory is the home directory or `/`.
    pub shared: bool,
}

impl Project {
    /// Finds the project of a working directory. The search for a repository ends below the home
    /// directory and below `/`.
    #[must_use]
    pub fn from_directory(directory: &Path, home: Option<&Path>) -> Self {
        let plain = |path: &Path| files::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let (directory, home) = (plain(directory), home.map(plain));
        let shared = |path: &Path| path.parent().is_none() || home.as_deref() == Some(path);
        let mut inside = directory.ancestors().take_while(|path| !shared(path));
        let is_root = |path: &&Path| matches!(files::path_info(&path.join(MARK)), Ok(Some(_)));
        let root = inside.find(is_root).map(Path::to_path_buf);
        let main = root.as_deref().and_then(main_checkout).filter(|main| !shared(main));
        let worktree = root.clone().filter(|_| main.is_some());
        Self { shared: shared(&directory), root: main.or(root), worktree, directory }
    }

    /// Returns the directory that sessions of the project belong to: the repository's root, or else
    /// the working directory.
    #[must_use]
    pub fn workspace(&self) -> String {
        self.root.as_ref().unwrap_or(&self.directory).display().to_string()
    }

    /// Returns the working directory; in a worktree, the corresponding path of the main checkout.
    #[must_use]
    pub fn main_checkout_directory(&self) -> PathBuf {
        let inside = self.worktree.as_ref().and_then(|top| self.directory.strip_prefix(top).ok());
        match (inside, &self.root) {
            (Some(inside), Some(root)) if inside.as_os_str().is_empty() => root.clone(),
            (Some(inside), Some(root)) => root.join(inside),
            _ => self.directory.clone(),
        }
    }
}

/// Returns the main checkout of the repository that a worktree is linked to; `None` if it is not a
/// linked worktree. The repository has to name the worktree, so that a file of a foreign directory
/// leads only to a repository of its author.
fn main_checkout(top: &Path) -> Option<PathBuf> {
    let mark = top.join(MARK);
    let own = read_path(&mark, "gitdir: ", top)?;
    // `REPOSITORY/worktrees/NAME`
    let common = own.parent().filter(|parent| parent.ends_with(WORKTREES))?.parent()?;
    let is_its = read_path(&own.join("commondir"), "", &own)? == common
        && read_path(&own.join("gitdir"), "", &own)? == files::canonicalize(&mark).ok()?
        && belongs_to_user(common);
    is_its.then(|| find_checkout(common)).flatten()
}

/// Finds the checkout that a repository's directory belongs to, else returns that directory.
fn find_checkout(common: &Path) -> Option<PathBuf> {
    let parent = common.parent()?;
    if common.ends_with(MARK) {
        return Some(parent.to_path_buf());
    }
    // A submodule's directory is elsewhere, and its configuration names the checkout.
    let config = files::read_regular_text(&common.join("config"), CONFIG_BYTES_MAX).ok();
    let checkout = config.as_deref().into_iter().flat_map(str::lines).find_map(|line| {
        let (name, path) = line.split_once('=')?;
        (name.trim() == "worktree").then(|| files::canonicalize(&common.join(path.trim())).ok())?
    });
    let leads_back =
        |top: &PathBuf| read_path(&top.join(MARK), "gitdir: ", top).as_deref() == Some(common);
    Some(checkout.filter(leads_back).unwrap_or_else(|| common.to_path_buf()))
}

/// Returns true if a path belongs to this user; root works in directories of others, as in a
/// container.
fn belongs_to_user(path: &Path) -> bool {
    files::is_root() || matches!(files::foreign_owner(path), Ok(None))
}

/// Reads the path that a small file of this user names, resolved in `directory`.
fn read_path(file: &Path, prefix: &str, directory: &Path) -> Option<PathBuf> {
    let about = files::path_info(file).ok()??;
    if about.is_dir || files::is_link(file) || !belongs_to_user(file) {
        return None;
    }
    let text = files::read_regular_text(file, PATH_BYTES_MAX).ok()?;
    let path = text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r']);
    files::canonicalize(&directory.join(path)).ok().filter(|_| !path.is_empty())
}

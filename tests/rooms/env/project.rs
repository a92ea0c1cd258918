//! The project that a directory belongs to.

use std::path::Path;

use sessionlog::env::{files, project::Project};

#[test]
fn a_project_is_the_nearest_repository_or_the_directory_itself() {
    let place = tempfile::tempdir().expect("a directory");
    let top = files::canonical(place.path()).expect("a path");
    for name in ["home/.git", "home/repo/.git", "home/repo/a/b", "home/plain/sub"] {
        files::create_dir(&top.join(name)).expect("a directory");
    }
    files::create_dir(&top.join("home/repo/worktree")).expect("a directory");
    files::append(&top.join("home/repo/worktree/.git"), b"gitdir: x\n").expect("a file");
    let home = top.join("home");
    for (directory, workspace, root) in [
        ("home/repo", "home/repo", true),
        ("home/repo/a/b", "home/repo", true),
        ("home/repo/worktree", "home/repo/worktree", true),
        ("home/plain/sub", "home/plain/sub", false),
        ("home/plain/none", "home/plain/none", false),
        ("home", "home", false),
    ] {
        let found = Project::of(&top.join(directory), Some(&home));
        assert_eq!(found.workspace(), top.join(workspace).display().to_string(), "{directory}");
        assert_eq!((found.root.is_some(), found.shared), (root, directory == "home"));
    }
    assert!(Project::of(Path::new("/"), Some(&home)).shared);
    // An unknown home directory does not stop the search.
    let found = Project::of(&top.join("home/plain/sub"), None);
    assert_eq!(found.root, Some(home));
}

//! The project that a directory belongs to.

use std::path::{Path, PathBuf};

use sessionlog::env::{files, project::Project};

#[test]
fn a_project_is_the_nearest_repository_or_the_directory_itself() {
    let place = tempfile::tempdir().expect("a directory");
    let top = files::canonicalize(place.path()).expect("a path");
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
        let found = Project::from_directory(&top.join(directory), Some(&home));
        assert_eq!(found.workspace(), top.join(workspace).display().to_string(), "{directory}");
        assert_eq!((found.root.is_some(), found.shared), (root, directory == "home"));
    }
    assert!(Project::from_directory(Path::new("/"), Some(&home)).shared);
    // An unknown home directory does not stop the search.
    let found = Project::from_directory(&top.join("home/plain/sub"), None);
    assert_eq!(found.root, Some(home));
}

/// Creates a repository with a linked worktree, as git writes both.
fn create_worktree(top: &Path, repository: &str, worktree: &str) -> [PathBuf; 2] {
    let [main, tree] = [repository, worktree].map(|name| top.join(name));
    let own = main.join(".git/worktrees/noble");
    files::create_dir(&own).expect("a directory");
    files::create_dir(&tree.join("src/deep")).expect("a directory");
    let write =
        |path: PathBuf, text: String| files::append(&path, text.as_bytes()).expect("a file");
    write(tree.join(".git"), format!("gitdir: {}\n", own.display()));
    write(own.join("commondir"), "../..\n".to_owned());
    write(own.join("gitdir"), format!("{}\n", tree.join(".git").display()));
    [main, tree]
}

#[test]
fn a_linked_worktree_belongs_to_the_project_of_its_main_checkout() {
    let place = tempfile::tempdir().expect("a directory");
    let top = files::canonicalize(place.path()).expect("a path");
    for (number, (repository, worktree)) in
        [("app", "app/.claude/worktrees/noble"), ("app", "elsewhere")].into_iter().enumerate()
    {
        let top = top.join(number.to_string());
        let [main, tree] = create_worktree(&top, repository, worktree);
        for (at, same) in [("", ""), ("src/deep", "src/deep")] {
            let found = Project::from_directory(&tree.join(at), None);
            assert_eq!(found.workspace(), main.display().to_string(), "{worktree}/{at}");
            assert_eq!(
                found.main_checkout_directory(),
                main.join(same).components().collect::<PathBuf>()
            );
            assert_eq!(
                (found.directory, found.worktree),
                (tree.join(at).components().collect(), Some(tree.clone()))
            );
        }
        assert_eq!(Project::from_directory(&main, None).worktree, None);
    }
    // A bare repository has no checkout: its own directory is the one that worktrees share.
    let [bare, tree] = ["bare.git", "branch"].map(|name| top.join(name));
    let own = bare.join("worktrees/branch");
    files::create_dir(&own).expect("a directory");
    files::create_dir(&tree).expect("a directory");
    let write = |path: PathBuf, text: &str| files::append(&path, text.as_bytes()).expect("a file");
    write(tree.join(".git"), "gitdir: ../bare.git/worktrees/branch");
    write(own.join("commondir"), "../..");
    write(own.join("gitdir"), "../../../branch/.git");
    assert_eq!(Project::from_directory(&tree, None).workspace(), bare.display().to_string());
}

#[test]
fn a_worktree_not_listed_by_its_repository_is_its_own_project() {
    let place = tempfile::tempdir().expect("a directory");
    let top = files::canonicalize(place.path()).expect("a path");
    let [main, _] = create_worktree(&top, "bank", "bank-noble");
    // A foreign directory whose file names the worktree of another one, and others that name
    // something other than a worktree.
    let own = main.join(".git/worktrees/noble").display().to_string();
    for (number, gitdir) in [
        own.as_str(),
        main.join(".git").to_str().expect("text"),
        "../bank/.git/worktrees/../worktrees/noble",
        "/etc",
        "",
        "../none",
    ]
    .into_iter()
    .enumerate()
    {
        let evil = top.join(format!("evil-{number}"));
        files::create_dir(&evil).expect("a directory");
        files::append(&evil.join(".git"), format!("gitdir: {gitdir}\n").as_bytes())
            .expect("a file");
        let found = Project::from_directory(&evil, None);
        assert_eq!(found.workspace(), evil.display().to_string(), "{gitdir}");
    }
    // A repository and a worktree forged by one user reach only its own directory.
    let [mine, tree] = create_worktree(&top.join("theirs"), "a", "b");
    assert_eq!(Project::from_directory(&tree, None).workspace(), mine.display().to_string());
}

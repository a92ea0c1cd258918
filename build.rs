//! Names the commit that the program is built from, for `sessionlog --version`. It must not fail:
//! a build without git, or from a package, has no commit to name.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SESSIONLOG_COMMIT");
    let given = std::env::var("SESSIONLOG_COMMIT").ok().filter(|commit| is_commit(commit));
    // A developer's build is not made anew for each commit.
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = || if release { packaged().or_else(checked_out) } else { None };
    let commit = given.or_else(found);
    if let Some(commit) = commit {
        let short: String = commit.chars().take(12).collect();
        println!("cargo:rustc-env=SESSIONLOG_BUILT_FROM={short}");
    }
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit that `cargo package` noted in a package.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?.to_owned();
    is_commit(&commit).then_some(commit)
}

/// The commit of this checkout; a repository around it is somebody else's.
fn checked_out() -> Option<String> {
    std::path::Path::new(".git").exists().then_some(())?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"]).filter(|commit| is_commit(commit))
}

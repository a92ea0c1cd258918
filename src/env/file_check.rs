//! Checks files that a session refers to: below the directories that the user allows, links
//! followed only within them, regular files only. A file whose name marks it as secret is not
//! hashed. It must not write, and it must not read any bytes but those that it hashes.

use std::{
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use super::files;

/// Maximum bytes of a file that is hashed.
const BYTES_MAX: u64 = 16 << 20;
/// Prefix of the hash of a file.
const PREFIX: &str = "blake3:";
/// Suffixes and prefixes of names of files that hold secrets, and directories of such files.
const SECRET_ENDINGS: [&str; 8] =
    [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".age"];
const SECRET_BEGINNINGS: [&str; 6] =
    [".env", "credentials", "secrets", "id_rsa", "id_ed25519", "id_ecdsa"];
const SECRET_NAMES: [&str; 5] = [".netrc", ".npmrc", ".pgpass", ".pypirc", ".htpasswd"];
const SECRET_DIRECTORIES: [&str; 5] = [".ssh", ".gnupg", ".aws", ".kube", ".docker"];

/// The directories below which files are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckRoots {
    base: PathBuf,
    more: Vec<PathBuf>,
}

/// Result of checking a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// Hash of the bytes of an existing file.
    Hash(String),
    /// The file exists and is too large or too secret to be hashed.
    NotHashed,
    /// The file does not exist.
    Gone,
    /// The file is outside of the directories, reached by a link out of them, not regular, or not
    /// readable.
    Denied,
}

impl CheckRoots {
    /// Allows the directory of a workspace, which relative paths are resolved in, and `more`.
    #[must_use]
    pub fn new(workspace: &Path, more: &[PathBuf]) -> Self {
        let plain = |path: &PathBuf| files::canonicalize(path).unwrap_or_else(|_| path.clone());
        Self { base: plain(&workspace.to_path_buf()), more: more.iter().map(plain).collect() }
    }

    /// Checks a file; hashes it unless it is too large or secret.
    #[must_use]
    pub fn check_file(&self, path: &str) -> FileCheck {
        let Some(requested) = normalise(&self.base.join(path)) else { return FileCheck::Denied };
        let is_inside = |path: &Path| {
            path.starts_with(&self.base) || self.more.iter().any(|root| path.starts_with(root))
        };
        if !is_inside(&requested) {
            return FileCheck::Denied;
        }
        let real = match files::canonicalize(&requested) {
            Ok(real) => real,
            Err(error) if files::is_absent(&error) => return FileCheck::Gone,
            Err(_) => return FileCheck::Denied,
        };
        if !is_inside(&real) {
            return FileCheck::Denied;
        }
        if is_secret(&requested) || is_secret(&real) {
            return FileCheck::NotHashed;
        }
        match hash_file(&real) {
            Ok(Some(hash)) => FileCheck::Hash(hash),
            Ok(None) => FileCheck::NotHashed,
            Err(error) if files::is_absent(&error) => FileCheck::Gone,
            Err(_) => FileCheck::Denied,
        }
    }
}

/// Returns the path without `.` and `..`; `None` when it leaves the root.
fn normalise(path: &Path) -> Option<PathBuf> {
    let mut normalised = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normalised.pop() {
                    return None;
                }
            }
            other => normalised.push(other),
        }
    }
    Some(normalised)
}

/// Returns the hash of a regular file; `None` for a file that is too large.
fn hash_file(path: &Path) -> io::Result<Option<String>> {
    let Some((file, bytes)) = files::open_regular(path)? else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    if bytes > BYTES_MAX {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let read = io::copy(&mut file.take(BYTES_MAX + 1), &mut hasher)?;
    Ok((read <= BYTES_MAX).then(|| format!("{PREFIX}{}", hasher.finalize().to_hex())))
}

/// Returns true if the name or a directory of a path marks the file as secret.
fn is_secret(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let name = name.unwrap_or_default();
    let of_directory =
        path.iter().any(|part| SECRET_DIRECTORIES.iter().any(|directory| part == *directory));
    of_directory
        || SECRET_NAMES.contains(&name.as_str())
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || SECRET_BEGINNINGS.iter().any(|start| name.starts_with(start)) && !name.ends_with(".pub")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secret_files_are_classified_as_secret() {
        for (path, secret) in [
            ("/w/.env", true),
            ("/w/.env.local", true),
            ("/w/server.PEM", true),
            ("/home/a/.ssh/config", true),
            ("/w/id_rsa", true),
            ("/w/id_rsa.pub", false),
            ("/w/src/environment.rs", false),
            ("/w/keys.rs", false),
        ] {
            assert_eq!(is_secret(Path::new(path)), secret, "{path}");
        }
    }
}

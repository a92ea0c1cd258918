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
pub struct Roots {
    base: PathBuf,
    more: Vec<PathBuf>,
}

/// Result of checking a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The file exists; the hash of its bytes.
    Hash(String),
    /// The file exists and is too large or too secret to be hashed.
    NotHashed,
    /// The file does not exist.
    Gone,
    /// The file is outside of the directories, reached by a link out of them, not regular, or not
    /// readable.
    Denied,
}

impl Roots {
    /// Allows the directory of a workspace, to which relative paths belong, and others.
    #[must_use]
    pub fn new(workspace: &Path, more: &[PathBuf]) -> Self {
        let plain = |path: &PathBuf| files::canonical(path).unwrap_or_else(|_| path.clone());
        Self { base: plain(&workspace.to_path_buf()), more: more.iter().map(plain).collect() }
    }

    /// Checks a file.
    #[must_use]
    pub fn look(&self, path: &str) -> Seen {
        let Some(asked) = normalise(&self.base.join(path)) else { return Seen::Denied };
        let is_inside = |path: &Path| {
            path.starts_with(&self.base) || self.more.iter().any(|root| path.starts_with(root))
        };
        if !is_inside(&asked) {
            return Seen::Denied;
        }
        let real = match files::canonical(&asked) {
            Ok(real) => real,
            Err(error) if files::is_absent(&error) => return Seen::Gone,
            Err(_) => return Seen::Denied,
        };
        if !is_inside(&real) {
            return Seen::Denied;
        }
        if is_secret(&asked) || is_secret(&real) {
            return Seen::NotHashed;
        }
        match hash(&real) {
            Ok(Some(hash)) => Seen::Hash(hash),
            Ok(None) => Seen::NotHashed,
            Err(error) if files::is_absent(&error) => Seen::Gone,
            Err(_) => Seen::Denied,
        }
    }
}

/// Returns the path without `.` and `..`; `None` when it leaves the root.
fn normalise(path: &Path) -> Option<PathBuf> {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !made.pop() {
                    return None;
                }
            }
            other => made.push(other),
        }
    }
    Some(made)
}

/// Returns the hash of a regular file; `None` for a file that is too large.
fn hash(path: &Path) -> io::Result<Option<String>> {
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

/// Returns true if a file holds secrets, by its name and its directories.
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
    fn a_file_with_secrets_is_recognised_by_its_name() {
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

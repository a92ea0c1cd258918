//! Additions of a front end to the answer of a restore and to a call that saves: states of files,
//! and their hashes. It must not choose or truncate anything: `harness` does.

use crate::api::handoff::{FileReference, Look, LookStatus, NewFile, SaveRequest};

/// State of a file as a front end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedFile {
    /// The file exists, with this hash.
    Hash(String),
    /// The file exists; it was not hashed.
    NotHashed,
    /// The file does not exist.
    Gone,
    /// The file may not be read.
    Denied,
}

/// Sets the current state of each file of a restored answer; returns the inspections.
pub fn inspect_files(
    files: &mut [FileReference],
    look: &mut dyn FnMut(&str) -> CheckedFile,
) -> Vec<Look> {
    let mut looks = Vec::new();
    for file in files {
        let (status, hash_now) = match look(&file.path) {
            CheckedFile::Hash(now) => (compare_hash(file.hash.as_deref(), &now), Some(now)),
            CheckedFile::NotHashed => (LookStatus::Unchecked, None),
            CheckedFile::Gone => (LookStatus::Gone, None),
            CheckedFile::Denied => (LookStatus::Denied, None),
        };
        status.as_str().clone_into(&mut file.status);
        file.hash_now = hash_now.clone().or(file.hash_now.take());
        let (path, hash) = (file.path.clone(), file.hash.clone());
        looks.push(Look { path, status, hash, hash_now });
    }
    looks
}

/// Compares the current hash of a file with the saved one; hashes of other forms are unchecked.
fn compare_hash(hash: Option<&str>, now: &str) -> LookStatus {
    let form = |hash: &str| hash.split_once(':').map(|(form, _)| form.to_owned());
    match hash {
        Some(hash) if hash == now => LookStatus::Same,
        Some(hash) if form(hash) == form(now) => LookStatus::Changed,
        _ => LookStatus::Unchecked,
    }
}

/// Returns the texts of a call that saves.
#[must_use]
pub fn saved_texts(asked: &SaveRequest) -> Vec<&str> {
    let contents = asked.context_items.iter().map(|item| item.content.as_str());
    asked.conversation_context.as_deref().into_iter().chain(contents).collect()
}

/// Sets the hash of each file of a call that saves, unless the client sent one.
pub fn hash_files(files: &mut [NewFile], look: &mut dyn FnMut(&str) -> CheckedFile) {
    for file in files.iter_mut().filter(|file| file.hash.is_none()) {
        if let CheckedFile::Hash(hash) = look(&file.path) {
            file.hash = Some(hash);
        }
    }
}

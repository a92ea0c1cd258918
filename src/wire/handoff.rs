//! Additions of a front end to an answer of a restore and to a call that saves: looks at files, and
//! their hashes. It must not choose or cut anything: harness has.

use crate::api::handoff::{FileReference, Look, LookStatus, NewFile, SaveRequest};

/// State of a file as a front end saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenFile {
    /// It is there, with this hash.
    Hash(String),
    /// It is there.
    NotHashed,
    /// It is not there.
    Gone,
    /// It may not be looked at.
    Denied,
}

/// Says of each file of a restored answer what a front end sees of it now; returns these looks.
pub fn look_at(files: &mut [FileReference], look: &mut dyn FnMut(&str) -> SeenFile) -> Vec<Look> {
    let mut looks = Vec::new();
    for file in files {
        let (status, hash_now) = match look(&file.path) {
            SeenFile::Hash(now) => (compared(file.hash.as_deref(), &now), Some(now)),
            SeenFile::NotHashed => (LookStatus::Unchecked, None),
            SeenFile::Gone => (LookStatus::Gone, None),
            SeenFile::Denied => (LookStatus::Denied, None),
        };
        status.as_str().clone_into(&mut file.status);
        file.hash_now = hash_now.clone().or(file.hash_now.take());
        let (path, hash) = (file.path.clone(), file.hash.clone());
        looks.push(Look { path, status, hash, hash_now });
    }
    looks
}

/// State of a file now, by the hash that was saved of it; hashes of other forms are not compared.
fn compared(hash: Option<&str>, now: &str) -> LookStatus {
    let form = |hash: &str| hash.split_once(':').map(|(form, _)| form.to_owned());
    match hash {
        Some(hash) if hash == now => LookStatus::Same,
        Some(hash) if form(hash) == form(now) => LookStatus::Changed,
        _ => LookStatus::Unchecked,
    }
}

/// Texts of a call that saves.
#[must_use]
pub fn saved_texts(asked: &SaveRequest) -> Vec<&str> {
    let contents = asked.context_items.iter().map(|item| item.content.as_str());
    asked.conversation_context.as_deref().into_iter().chain(contents).collect()
}

/// Gives each file of a call that saves the hash that a front end sees, where the client gave none.
pub fn hash_files(files: &mut [NewFile], look: &mut dyn FnMut(&str) -> SeenFile) {
    for file in files.iter_mut().filter(|file| file.hash.is_none()) {
        if let SeenFile::Hash(hash) = look(&file.path) {
            file.hash = Some(hash);
        }
    }
}

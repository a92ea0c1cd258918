//! Copies of refused bytes, of a session that must go. It must not remove a file that a person put
//! there, nor take a passing failure for one.

use std::io;

use super::{super::layout::QUARANTINE, Removal};
use crate::{
    env::DirEntry as Listed,
    event::SessionHash,
    log::{LogError, journal},
};

impl Removal {
    /// Removes copies of refused bytes that may be the session's. Other files there stay,
    /// and a passing failure (no memory, no rights) says nothing of a copy.
    pub(super) fn clear_quarantine(&self, session: SessionHash) -> io::Result<()> {
        let storage = &self.context.env.storage;
        let copies = match storage.list(QUARANTINE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            copies => copies?,
        };
        let own = session.to_string();
        let is_copy = |copy: &&Listed| copy.is_file && !copy.name.ends_with(".reason");
        for copy in copies.iter().filter(is_copy) {
            let path = format!("{QUARANTINE}/{}", copy.name);
            let bytes =
                storage.open_read(&path).and_then(|file| Ok(journal::read(&*file, 0, u64::MAX)?));
            let may_be_its = match bytes {
                // The session of a copy that was begun or cannot be read is unknown.
                Err(error) if LogError::was_unreadable(&error) => true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
                Ok(bytes) => {
                    let named = bytes.windows(session.0.len()).any(|part| part == session.0);
                    // A place of the journal may have a payload whose header did not arrive.
                    let headless = copy.name.starts_with("journal-");
                    named || headless || copy.name.starts_with(&own) || copy.name.ends_with(".new")
                }
            };
            if may_be_its {
                storage.remove(&path)?;
                let _ = storage.remove(&format!("{path}.reason"));
            }
        }
        // What is gone may have gone before a crash, or before this failed.
        storage.sync_dir(QUARANTINE)
    }
}

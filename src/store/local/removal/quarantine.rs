//! Removal of a session's copies from quarantine. It must not remove other files, nor take a
//! temporary read error as a reason to remove one.

use std::io;

use super::{super::layout::QUARANTINE, Removal};
use crate::{
    env::DirEntry,
    event::SessionHash,
    log::{LogError, journal},
};

impl Removal {
    /// Removes copies that may have bytes of the session. Other files there stay; a temporary read
    /// error (memory, permissions) fails the call.
    pub(super) fn clear_quarantine(&self, session: SessionHash) -> io::Result<()> {
        let storage = &self.context.env.storage;
        let copies = match storage.list(QUARANTINE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            copies => copies?,
        };
        let own = session.to_string();
        let is_copy = |copy: &&DirEntry| copy.is_file && !copy.name.ends_with(".reason");
        for copy in copies.iter().filter(is_copy) {
            let path = format!("{QUARANTINE}/{}", copy.name);
            let bytes =
                storage.open_read(&path).and_then(|file| Ok(journal::read(&*file, 0, u64::MAX)?));
            let may_be_its = match bytes {
                // The session of an unreadable copy is unknown.
                Err(error) if LogError::is_unreadable_io(&error) => true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
                Ok(bytes) => {
                    let named = bytes.windows(session.0.len()).any(|part| part == session.0);
                    // A range of the journal may have a payload without its header.
                    let headless = copy.name.starts_with("journal-");
                    named || headless || copy.name.starts_with(&own) || copy.name.ends_with(".new")
                }
            };
            if may_be_its {
                storage.remove(&path)?;
                let _ = storage.remove(&format!("{path}.reason"));
            }
        }
        // Always synced: an earlier call may have failed after a removal.
        storage.sync_dir(QUARANTINE)
    }
}

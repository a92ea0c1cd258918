//! What all verbs have in common. It must not act on anything.

use super::args::Verb;
use crate::event::SessionId;

impl Verb {
    /// Whether what it prints may be long, and is for reading.
    pub(super) fn is_paged(&self) -> bool {
        match self {
            Self::Events(verb) => !verb.follow,
            Self::Sessions(_)
            | Self::Show(_)
            | Self::View(_)
            | Self::Rewind(_)
            | Self::Diff(_)
            | Self::History(_)
            | Self::Why(_)
            | Self::Audit(_)
            | Self::Inspect(_)
            | Self::Config => true,
            _ => false,
        }
    }

    /// The session that the verb works on, where it must be there already; `append` asks only when
    /// its first batch was refused.
    pub(super) fn session_mut(&mut self) -> Option<&mut SessionId> {
        match self {
            Self::Show(verb) => Some(&mut verb.session),
            Self::Events(verb) => Some(&mut verb.session),
            Self::Replay(verb) => Some(&mut verb.session),
            Self::View(verb) => Some(&mut verb.session),
            Self::Rewind(verb) => Some(&mut verb.session),
            Self::Fork(verb) => Some(&mut verb.session),
            Self::Diff(verb) => Some(&mut verb.session),
            Self::Export(verb) => Some(&mut verb.session),
            Self::Checkpoints(verb) => Some(&mut verb.session),
            Self::Cursors(verb) => Some(&mut verb.session),
            Self::Wake(verb) => Some(&mut verb.session),
            Self::Rename(verb) => Some(&mut verb.session),
            Self::Archive(verb) | Self::Unarchive(verb) => Some(&mut verb.session),
            Self::Delete(verb) => Some(&mut verb.session),
            Self::Hold(verb) => Some(&mut verb.session),
            Self::Erase(verb) => Some(&mut verb.session),
            Self::Redact(verb) => Some(&mut verb.session),
            Self::Restore(verb) => Some(&mut verb.session),
            Self::Verify(verb) => verb.session.as_mut(),
            Self::Repair(verb) => verb.session.as_mut(),
            _ => None,
        }
    }
}

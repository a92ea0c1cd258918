//! Change feed of sessions: passes all sessions to a follower first, then those that changed. It
//! must not load an evicted session.

use std::cell::RefCell;

use super::{super::session::hash_of, sessions::Sessions};
use crate::{
    log::Entry,
    store::{ChangedSessions, ChangesSeen, derived::WalkProgress},
};

/// Evicted sessions read per lock of the catalogue.
const SLICE: usize = 256;

impl Sessions {
    /// Returns the sessions that changed since `since`, or the next part of a walk over all.
    pub(crate) fn changes_since(&self, mut since: ChangesSeen, limit: usize) -> ChangedSessions {
        let epoch = self.moving.epoch();
        if epoch == 0 || since.epoch != epoch {
            since = ChangesSeen { epoch: self.moving.start_count(), ..ChangesSeen::default() };
        }
        let after = match &since.walked {
            WalkProgress::Begins => None,
            WalkProgress::To(key) => Some(key),
            WalkProgress::Ended => return self.queued_changes(since, limit),
        };
        let found = RefCell::new(Vec::new());
        let visit = |entry: Entry| {
            found.borrow_mut().push(entry);
            true
        };
        let slice = limit.clamp(1, SLICE);
        let (keys, stopped) = self.catalogue().find_evicted(after, slice, slice, &visit);
        since.walked = match stopped {
            Some(last) => WalkProgress::To(last),
            None => {
                let loaded = self.catalogue().all_loaded();
                self.moving.finish_walk(&loaded);
                WalkProgress::Ended
            }
        };
        let met = keys.into_iter().zip(found.into_inner());
        let sessions =
            met.filter_map(|(key, entry)| Some(entry.changed_session(key, hash_of(&entry)?)));
        ChangedSessions { sessions: sessions.collect(), since, more: true }
    }

    fn queued_changes(&self, mut since: ChangesSeen, limit: usize) -> ChangedSessions {
        let (taken, more) = self.moving.changes_after(since.number, limit.max(1));
        since.number = taken.last().map_or(since.number, |(number, _)| *number);
        let sessions = taken.iter().filter_map(|(_, session)| {
            let state = session.state();
            state.exists().then(|| state.entry.changed_session(session.key.clone(), session.hash))
        });
        ChangedSessions { sessions: sessions.collect(), since, more }
    }
}

//! Change feed of sessions: passes all sessions to a follower first, then those that changed. It
//! must not load an evicted session.

use std::cell::RefCell;

use super::{
    super::session::{ForkOrigin, hash_of},
    sessions::Sessions,
};
use crate::{
    event::{Position, SessionHash, SessionKey, Timestamp},
    log::{Ending, Entry},
    store::{Moved, Moves, Since, Survival, derived::Walked},
};

/// Evicted sessions read per lock of the catalogue.
const SLICE: usize = 256;

impl Sessions {
    /// Returns the sessions that changed since `since`, or the next part of a walk over all.
    pub(crate) fn moved(&self, mut since: Since, limit: usize) -> Moves {
        let epoch = self.moving.epoch();
        if epoch == 0 || since.epoch != epoch {
            since = Since { epoch: self.moving.begin(), ..Since::default() };
        }
        let after = match &since.walked {
            Walked::Begins => None,
            Walked::To(key) => Some(key),
            Walked::Ended => return self.moved_lately(since, limit),
        };
        let found = RefCell::new(Vec::new());
        let take = |entry: Entry| {
            found.borrow_mut().push(entry);
            true
        };
        let slice = limit.clamp(1, SLICE);
        let (keys, stopped) = self.catalogue().find_evicted(after, slice, slice, &take);
        since.walked = match stopped {
            Some(last) => Walked::To(last),
            None => {
                let loaded = self.catalogue().all_loaded();
                self.moving.end_walk(&loaded);
                Walked::Ended
            }
        };
        let met = keys.into_iter().zip(found.into_inner());
        let sessions = met.filter_map(|(key, entry)| Some(moved(key, hash_of(&entry)?, &entry)));
        Moves { sessions: sessions.collect(), since, more: true }
    }

    fn moved_lately(&self, mut since: Since, limit: usize) -> Moves {
        let (taken, more) = self.moving.take(since.number, limit.max(1));
        since.number = taken.last().map_or(since.number, |(number, _)| *number);
        let sessions = taken.iter().filter_map(|(_, session)| {
            let state = session.state();
            state.exists().then(|| moved(session.key.clone(), session.hash, &state.entry))
        });
        Moves { sessions: sessions.collect(), since, more }
    }
}

fn moved(key: SessionKey, hash: SessionHash, entry: &Entry) -> Moved {
    let origin =
        entry.lineage.as_ref().map(|lineage| ForkOrigin::from_lineage(&key.scope, lineage));
    Moved {
        key,
        hash,
        base: origin.as_ref().map_or(Position::ZERO, |origin| origin.base),
        parent: origin.map(|origin| origin.hash),
        tail: Position(entry.tail),
        created_at: Timestamp(entry.created_at),
        rewritten: entry.rewritten(),
        workspace: entry.workspace.clone(),
        is_archived: entry.archived_at.is_some(),
        survival: survival(entry),
        is_damaged: entry.is_degraded(),
    }
}

/// Returns whether a session is alive, expired, deleted or erased.
pub(crate) fn survival(entry: &Entry) -> Survival {
    match entry.stage.end().map(|end| end.how) {
        None => Survival::Alive,
        Some(Ending::Erased { .. }) => Survival::Erased,
        Some(Ending::Deleted | Ending::Discarded) => Survival::Deleted,
        Some(Ending::Expired) => Survival::Expired,
    }
}

//! Derived files at a node: a file is kept only while the events that it was made from are what
//! they were when they were read. It must not confirm a removal; `node` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use super::{
    node::Node,
    row::{Head, uid_of},
    store_error,
};
use crate::{
    env::Clock,
    event::{Position, SessionHash},
    store::{
        DerivedFile, DerivedName, HeldEvents, StoreError, StoreResult, base::RowSelection,
        derived::check_size,
    },
};

/// Longest wait for the users of a file with removed content.
const USED_MAX: Duration = Duration::from_secs(10);
const USED_PAUSE: Duration = Duration::from_millis(2);
/// Rows read with one statement.
const ROWS_MAX: usize = 500;

impl Node {
    /// Removes the files whose content was removed since, and waits for their users.
    ///
    /// # Errors
    /// Errors of the base, and a file that stays in use.
    pub(super) async fn drop_outdated(&self) -> StoreResult<()> {
        let holds: Vec<Arc<[_]>> = self.files.held_events();
        let held: Vec<&HeldEvents> = holds.iter().flat_map(|holds| holds.iter()).collect();
        let current = self.fetch_current(&held).await?;
        let looked: BTreeSet<[u8; 32]> = held.iter().map(|held| held.hash.0).collect();
        // One that was read before a redaction has the body only if it has the event.
        self.files.withdraw(|held| {
            // A file that was added meanwhile was looked at when it was.
            let was_looked_at = looked.contains(&held.hash.0);
            was_looked_at
                && current.get(&held.hash.0).is_none_or(|head| {
                    let mut redacted = head.entry.redacted.iter().map(|one| Position(one.position));
                    held.rewritten < head.entry.removal_count()
                        && redacted.any(|at| held.range.contains(at))
                })
        });
        let until = self.real.monotonic() + USED_MAX;
        while self.files.is_withdrawn_in_use() {
            if self.real.monotonic() >= until {
                let source = io::Error::other("a derived file is held open");
                return Err(StoreError::Io { doing: "removing a derived file", source });
            }
            tokio::time::sleep(USED_PAUSE).await;
        }
        Ok(())
    }

    /// Returns the sessions of these events whose content is not gone, by their hash.
    async fn fetch_current(&self, held: &[&HeldEvents]) -> StoreResult<BTreeMap<[u8; 32], Head>> {
        let sessions: BTreeSet<[u8; 32]> = held.iter().map(|held| held.hash.0).collect();
        let mut current = BTreeMap::new();
        let all: Vec<_> = sessions.iter().map(|hash| uid_of(SessionHash(*hash))).collect();
        for uids in all.chunks(ROWS_MAX) {
            let rows = self.base.rows(RowSelection::Uids(uids.to_vec()), ROWS_MAX).await;
            for row in rows.map_err(store_error)? {
                self.see_removals(row.removals);
                // A damaged row counts as gone: what was made from it is made anew.
                let Some(head) = Head::read_row(&self.keys.names, row, 0) else { continue };
                let stage = head.entry.stage;
                let gone = stage.is_erased()
                    || stage.is_reclaimed()
                    || stage.is_discarded() && self.needed_forks(head.uid()).await?.is_empty();
                if !gone {
                    current.insert(head.hash.0, head);
                }
            }
        }
        Ok(current)
    }

    /// Returns events that are not as they were when they were read, if any.
    async fn find_outdated<'h>(
        &self,
        holds: &'h [HeldEvents],
    ) -> StoreResult<Option<&'h HeldEvents>> {
        let current = self.fetch_current(&holds.iter().collect::<Vec<_>>()).await?;
        let is_outdated = |held: &&HeldEvents| {
            current.get(&held.hash.0).is_none_or(|head| {
                head.key != held.key
                    || head.entry.removal_count() != held.rewritten
                    || held.range.to > head.row.tail
            })
        };
        Ok(holds.iter().find(is_outdated))
    }

    /// Stores bytes that were computed from these events.
    pub(super) async fn put_derived(
        &self,
        label: &[u8],
        holds: Vec<HeldEvents>,
        bytes: &[u8],
    ) -> StoreResult<DerivedName> {
        check_size(label, &holds, bytes)?;
        self.check_open()?;
        let mut name = [0; 8];
        self.entropy.fill(&mut name);
        let name = DerivedName(u64::from_le_bytes(name));
        let (label, holds) = (label.into(), holds.into());
        let file = DerivedFile { name, label, holds, bytes: bytes.len() as u64 };
        loop {
            let removals = *self.removals.borrow();
            if let Some(held) = self.find_outdated(&file.holds).await? {
                return Err(StoreError::Outdated { session: held.key.session.clone() });
            }
            // A removal that the node learned of since must find the file, or be looked at here.
            if self.files.insert(&file, bytes, || *self.removals.borrow() == removals) {
                return Ok(name);
            }
        }
    }
}

//! Folds of all events of a session that read a damaged one, too: they are kept beside its facts
//! and caught up before each use. The cache must not affect a response.

use super::{Service, ServiceResult, compute::block_in_place, facts::CachedFacts};
use crate::{
    event::{Position, Range, SessionKey},
    projection::SessionFold,
    store::{FillDirection, ReadRequest, SessionInfo, Slice, StoreResult},
};

/// Maximum number of events and body bytes read at once.
pub(super) const SLICE_EVENTS: usize = 1_000;
pub(super) const SLICE_BYTES: usize = 4 << 20;
/// Number of events folded between two looks at the slot.
const FEW_EVENTS: usize = 64;

impl Service {
    /// Runs `look` on the current fold of a session, which `slot` names, and counts as a use of it.
    pub(super) async fn with_fold<F: SessionFold + Send, T>(
        &self,
        key: &SessionKey,
        slot: fn(&mut CachedFacts) -> &mut Option<Box<F>>,
        look: impl FnOnce(&SessionInfo, &F) -> T + Send,
    ) -> ServiceResult<T> {
        let used = self.store.use_session(key).await;
        self.with_current_fold(key, used, slot, look).await
    }

    /// Runs `look` on the current fold of a session, for a verb that reads many sessions: not
    /// counted as a use.
    pub(super) async fn peek_fold<F: SessionFold + Send, T>(
        &self,
        key: &SessionKey,
        slot: fn(&mut CachedFacts) -> &mut Option<Box<F>>,
        look: impl FnOnce(&SessionInfo, &F) -> T + Send,
    ) -> ServiceResult<T> {
        let info = self.store.info(key).await;
        self.with_current_fold(key, info, slot, look).await
    }

    async fn with_current_fold<F: SessionFold + Send, T>(
        &self,
        key: &SessionKey,
        info: StoreResult<SessionInfo>,
        slot: fn(&mut CachedFacts) -> &mut Option<Box<F>>,
        look: impl FnOnce(&SessionInfo, &F) -> T + Send,
    ) -> ServiceResult<T> {
        let facts = self.slot(key);
        let mut info = self.convert_info(key, info)?;
        let removals = self.store.removal_count();
        loop {
            let mut cached = self.lock_facts(&facts, key, &mut info, removals).await?;
            let kept = slot(&mut cached);
            if kept.as_ref().is_some_and(|fold| fold.position() > info.tail) {
                *kept = None;
            }
            let fold = kept.get_or_insert_with(|| Box::new(F::new(info.workspace.as_deref())));
            let mut is_done = false;
            for _ in 0..F::READS_AT_ONCE {
                is_done = self.fold_slice(key, &mut **fold, info.tail).await?;
                if is_done {
                    break;
                }
            }
            self.facts.resize(key, cached.weight())?;
            if let Some(fold) = slot(&mut cached).as_ref().filter(|_| is_done) {
                return Ok(look(&info, fold));
            }
            // Release the lock between slices: an append does not wait for another caller's long
            // fold.
            drop(cached);
            tokio::task::yield_now().await;
        }
    }

    /// Folds one read of `[fold.position(), to)`; returns true at the end. If the future is
    /// dropped, the fold is that of an earlier position. A few events are folded directly, more in
    /// a compute slot.
    async fn fold_slice(
        &self,
        key: &SessionKey,
        fold: &mut impl SessionFold,
        to: Position,
    ) -> ServiceResult<bool> {
        let from = fold.position();
        if from >= to {
            return Ok(true);
        }
        let mut slot = match to.0 - from.0 <= FEW_EVENTS as u64 {
            true => None,
            false => Some(self.compute.acquire_unlimited(&key.scope.tenant).await?),
        };
        let slice = self.read_slice(key, Range::new(from, to), SLICE_EVENTS).await?;
        let mut gaps = slice.gaps.iter().peekable();
        for few in slice.events.chunks(FEW_EVENTS) {
            block_in_place(|| {
                for event in few {
                    while let Some(gap) = gaps.next_if(|gap| gap.range.from < event.position) {
                        fold.fold_gap(gap.range, &gap.reason);
                    }
                    fold.fold(event);
                }
            });
            if let Some(own) = slot.take() {
                slot = Some(own.yield_if_due().await?);
            }
        }
        gaps.for_each(|gap| fold.fold_gap(gap.range, &gap.reason));
        fold.advance(slice.covered.to.min(to));
        Ok(slice.covered.is_empty() || fold.position() >= to)
    }

    /// Reads up to `events_max` events of a range, and lists what cannot be read.
    pub(super) async fn read_slice(
        &self,
        key: &SessionKey,
        range: Range,
        events_max: usize,
    ) -> ServiceResult<Slice> {
        let read = ReadRequest {
            range,
            events_max,
            bytes_max: SLICE_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: true,
        };
        Ok(self.store.read(key, read).await?)
    }
}

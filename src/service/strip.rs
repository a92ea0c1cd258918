//! A session at a glance, and folds of all events of a session that read a damaged one, too: they
//! are kept beside its facts and caught up before each use. The cache must not affect a response.

use super::{
    Caller, Service, ServiceError, ServiceResult, compute::block_in_place, facts::CachedFacts,
};
use crate::{
    api::rows::{StripAnswer, StripMark, StripMarkKind},
    event::{Point, Position, Range, SessionId, SessionKey, text::one_line},
    projection::{SessionFold, Strip},
    store::{FillDirection, ReadRequest, SessionInfo},
};

/// Default and maximum number of buckets of a response.
const BUCKETS_DEFAULT: usize = 400;
const BUCKETS_MAX: usize = 2_000;
/// Maximum number of events and body bytes read at once, and folded between two looks at the slot.
const SLICE_EVENTS: usize = 1_000;
const SLICE_BYTES: usize = 4 << 20;
const FEW_EVENTS: usize = 64;
/// Maximum number of forks and checkpoints that are marked.
const MARKS_MAX: usize = 1_000;
/// Maximum characters of a mark's label.
const LABEL_CHARS_MAX: usize = 80;

impl Service {
    /// Returns a session at a glance: counts of its events in at most `buckets` buckets, and marks.
    ///
    /// # Errors
    /// `invalid_request` for a number of buckets out of bounds, `point_not_found`, and those of the
    /// session. A gap is a mark.
    pub async fn strip(
        &self,
        caller: &Caller,
        session: &SessionId,
        (from, to): (Option<&Point>, Option<&Point>),
        buckets: Option<usize>,
    ) -> ServiceResult<StripAnswer> {
        let most = buckets.unwrap_or(BUCKETS_DEFAULT);
        if most == 0 || most > BUCKETS_MAX {
            let problem = format!("from 1 to {BUCKETS_MAX}, not {most}");
            return Err(ServiceError::invalid("buckets", problem));
        }
        let key = caller.key(session);
        let tail = self.store.use_session(&key).await?.tail;
        let wanted = self.resolve_range(&key, (from, to), tail).await?;
        let look = move |info: &SessionInfo, strip: &Strip| {
            let (marks, is_complete) = strip.marks();
            (info.clone(), strip.buckets(wanted, most), marks, is_complete, strip.window())
        };
        let (info, (shown, width, buckets), mut marks, mut complete, reported) =
            self.with_fold(&key, |cached| &mut cached.strip, look).await?;
        complete &= self.add_checkpoint_marks(&key, &mut marks).await?;
        complete &= self.add_fork_marks(&info, &mut marks).await?;
        let shown = Range::new(shown.from, shown.to.min(info.tail.max(shown.from)));
        marks.retain(|mark| shown.contains(mark.position) || mark.position == shown.to);
        marks.sort_by_key(|mark| mark.position);
        let monitor = self.monitor.of_session(&info.metadata, reported);
        Ok(StripAnswer {
            from: shown.from,
            to: shown.to,
            tail: info.tail,
            width,
            buckets,
            marks,
            limit: monitor.limit,
            threshold: monitor.threshold(),
            complete,
        })
    }

    /// Adds the checkpoints; returns false if there are more. A session whose notes are lost has
    /// none.
    async fn add_checkpoint_marks(
        &self,
        key: &SessionKey,
        marks: &mut Vec<StripMark>,
    ) -> ServiceResult<bool> {
        let look = |info: &SessionInfo, cached: &mut CachedFacts| {
            let all = cached.notes.all().iter().rev().take(MARKS_MAX);
            let named = all.map(|one| {
                let label = one.label.clone().unwrap_or_else(|| one.trigger.as_str().to_owned());
                (one.position, label)
            });
            (named.collect::<Vec<_>>(), info.work.notes as usize <= MARKS_MAX)
        };
        let found = self.with_notes(key, self.store.info(key).await, look).await;
        let Ok((named, is_complete)) = found else { return Ok(false) };
        marks.extend(named.into_iter().map(|(position, label)| {
            let label = one_line(&label, LABEL_CHARS_MAX);
            StripMark { position, kind: StripMarkKind::Checkpoint, label }
        }));
        Ok(is_complete)
    }

    /// Adds where the session was forked and where it was forked from; false if there are more.
    async fn add_fork_marks(
        &self,
        info: &SessionInfo,
        marks: &mut Vec<StripMark>,
    ) -> ServiceResult<bool> {
        let family = self.store.family(&info.key, MARKS_MAX).await?;
        let own = info.forked_from.iter().map(|from| (from.at, format!("from {}", from.session)));
        let children = family.children.iter().map(|fork| (fork.at, format!("to {}", fork.session)));
        marks.extend(own.chain(children).map(|(position, label)| {
            let label = one_line(&label, LABEL_CHARS_MAX);
            StripMark { position, kind: StripMarkKind::Fork, label }
        }));
        Ok(family.forks <= family.children.len() as u64)
    }

    /// Runs `look` on the current fold of a session, which `slot` names, and counts as a use of it.
    pub(super) async fn with_fold<F: SessionFold + Send, T>(
        &self,
        key: &SessionKey,
        slot: fn(&mut CachedFacts) -> &mut Option<Box<F>>,
        look: impl FnOnce(&SessionInfo, &F) -> T + Send,
    ) -> ServiceResult<T> {
        let facts = self.slot(key);
        let mut info = self.convert_info(key, self.store.use_session(key).await)?;
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
        let read = ReadRequest {
            range: Range::new(from, to),
            events_max: SLICE_EVENTS,
            bytes_max: SLICE_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: true,
        };
        let slice = self.store.read(key, read).await?;
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
}

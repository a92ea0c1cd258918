//! A session at a glance: counts of its events by place, and where it was compacted, saved or
//! forked. It must not interpret an event.

use super::{Caller, Service, ServiceError, ServiceResult, facts::CachedFacts};
use crate::{
    api::rows::{StripAnswer, StripMark, StripMarkKind},
    event::{Point, Range, SessionId, SessionKey, text::one_line},
    projection::Strip,
    store::SessionInfo,
};

/// Default and maximum number of buckets of a response.
const BUCKETS_DEFAULT: usize = 400;
const BUCKETS_MAX: usize = 2_000;
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
}

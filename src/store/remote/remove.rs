//! Erases sessions and redacts events: the base has the content no more once that is committed, and
//! the caller is answered once no live node keeps anything derived from it. It must not return
//! success before.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    create::is_same,
    node::Node,
    plan::{NO_SALT, Plan, PlanContext, PlanOutcome},
    read::{damaged_gap, decode_frame},
    row::Head,
    store_error,
};
use crate::{
    event::{Batch, EventId, Lsn, Position, Range, SessionHash, SessionKey},
    log::record,
    store::{
        StoreError, StoreResult,
        base::{BaseError, ContentRemoval, FrameQuery},
        rules::{RequestFacts, WriteKind, WriteRequest, redact_records},
    },
};

/// Times that a removal is planned anew because the session changed.
const TRIES_MAX: usize = 100;
const READ_BYTES_MAX: usize = 32 << 20;

impl Node {
    /// Erases a session.
    pub(super) async fn erase(&self, key: &SessionKey) -> StoreResult<()> {
        for _ in 0..TRIES_MAX {
            let head = self.fetch_head(key).await?;
            if head.entry.stage.is_reclaimed() {
                return Err(head.not_found_error());
            }
            if head.entry.stage.is_erased() {
                let removals = head.row.removals;
                if head.entry.stage.is_erasing() {
                    self.finish_erasure(head).await?;
                }
                return self.wait_until_confirmed(removals, "erasure").await;
            }
            self.check_held_forks(&head, None).await?;
            let Some(plan) = self.plan_removal(head, WriteKind::Erase)? else { continue };
            let (write, after) = plan.finish(&self.keys.names);
            let removal = ContentRemoval { write, rewritten: Vec::new(), positions: Vec::new() };
            if let Some((removals, head)) = self.remove_content(removal, after).await? {
                self.files.withdraw_session(head.hash, None);
                self.finish_erasure(head).await?;
                return self.wait_until_confirmed(removals, "erasure").await;
            }
        }
        Err(StoreError::Busy)
    }

    /// Deletes what the base still has of an erased session, and notes that it is done.
    pub(super) async fn finish_erasure(&self, mut head: Head) -> StoreResult<()> {
        self.delete_frames(&head).await?;
        head.entry.stage.finish_erasure();
        // If another node changed it, that one finishes the erasure, or the next sweep does.
        self.write_row(&mut head, true).await.map(drop)
    }

    /// Redacts an event, in the session that wrote it; returns its position.
    pub(super) async fn redact(
        &self,
        key: &SessionKey,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        let head = self.fetch_visible(key).await?;
        let Some((writer, position)) = self.find_event(&head, id).await? else { return Ok(None) };
        let writer_key = Self::writer_key(&head, writer);
        for _ in 0..TRIES_MAX {
            let head = self.fetch_head(&writer_key).await?;
            if !is_same(&head, writer) || head.entry.stage.is_erased() {
                return Err(head.not_found_error());
            }
            self.check_held_forks(&head, Some(position)).await?;
            let removals = head.row.removals;
            let rewritten = self.rewrite_frame(&head, writer, position).await?;
            let Some(mut plan) = self.plan_removal(head, WriteKind::Redact(position))? else {
                // It is redacted already; a node may not have confirmed that.
                self.wait_until_confirmed(removals, "redaction").await?;
                return Ok(Some(position));
            };
            plan.head.entry.redacted.iter_mut().for_each(|one| one.cleared = true);
            let (write, after) = plan.finish(&self.keys.names);
            let removal =
                ContentRemoval { write, rewritten: vec![rewritten], positions: vec![position] };
            if let Some((removals, head)) = self.remove_content(removal, after).await? {
                self.files.withdraw_session(head.hash, Some(position));
                self.wait_until_confirmed(removals, "redaction").await?;
                return Ok(Some(position));
            }
        }
        Err(StoreError::Busy)
    }

    /// Plans the record of a removal; `None` if the session is already as it would be.
    fn plan_removal(&self, head: Head, ask: WriteKind) -> StoreResult<Option<Plan>> {
        let mut request =
            WriteRequest::new(ask, Batch::default(), self.clock.now(), &*self.entropy);
        let context = PlanContext {
            counted: self.counted_time(),
            keys_live_from: self.keys_live_from(),
            entropy: &*self.entropy,
        };
        let mut plan = Plan::new(head);
        let planned = plan.add(&mut request, RequestFacts::default(), &context)?;
        Ok(matches!(planned, PlanOutcome::Framed(_)).then_some(plan))
    }

    /// Commits a removal until its outcome is known; returns the number of removals, `None` if the
    /// session changed.
    async fn remove_content(
        &self,
        removal: ContentRemoval,
        mut after: Head,
    ) -> StoreResult<Option<(u64, Head)>> {
        let removal = Arc::new(removal);
        let first = removal.write.frames.first();
        let first = first.map(|frame| (frame.first, frame.number, frame.attempt));
        let mut unsure = None;
        for _ in 0..TRIES_MAX {
            let removals = match self.base.remove_content(Arc::clone(&removal)).await {
                Ok(Some(removals)) => Some(removals),
                Ok(None) if unsure.is_none() => return Ok(None),
                Ok(None) => {
                    let Some((first, number, attempt)) = first else { return Ok(None) };
                    let unknown = |reason: String| StoreError::OutcomeUnknown { reason };
                    let stored = self.base.attempt(after.uid(), first, number).await;
                    if stored.map_err(|error| unknown(error.to_string()))? != Some(attempt) {
                        return Ok(None);
                    }
                    let status = self.beat().await.map_err(|error| unknown(error.to_string()))?;
                    Some(status.removals)
                }
                Err(BaseError::Unsure(reason)) => {
                    unsure = Some(reason);
                    None
                }
                Err(error) => {
                    let unknown = |reason| StoreError::OutcomeUnknown { reason };
                    return Err(unsure.map_or_else(|| store_error(error), unknown));
                }
            };
            if let Some(removals) = removals {
                after.row.revision += 1;
                self.record_change(&after);
                return Ok(Some((removals, after)));
            }
        }
        Err(StoreError::OutcomeUnknown { reason: unsure.unwrap_or_default() })
    }

    /// Returns the frame with an event, without the event's body.
    async fn rewrite_frame(
        &self,
        head: &Head,
        writer: SessionHash,
        position: Position,
    ) -> StoreResult<(Position, Lsn, Bytes)> {
        let range = Range::new(position, position.plus(1));
        let query = FrameQuery::Forward { range, frames: 1, bytes: READ_BYTES_MAX };
        let found = self.base.frames(head.uid(), query).await.map_err(store_error)?;
        let frames = found.map(|(_, frames)| frames).unwrap_or_default();
        let damaged = |reason: String| {
            head.entry.damage_error(&head.key.session, vec![damaged_gap(range, reason)])
        };
        let stored = frames.first().ok_or_else(|| damaged("no frame holds it".to_owned()))?;
        let frame = decode_frame(writer, stored).map_err(damaged)?;
        let mut records = frame.records().map_err(|fault| damaged(fault.to_string()))?;
        let mut redacted = head.entry.clone();
        redacted.mark_redacted(position);
        redact_records(stored.range.from, &mut records, &redacted.redacted);
        let mut payload = Vec::new();
        records.iter().for_each(|(_, record)| record::encode(record, &mut payload));
        let length = u32::try_from(payload.len()).expect("a frame without a body is smaller");
        let header = crate::log::FrameHeader { length, compressed: false, ..frame.header };
        let mut bytes = Vec::new();
        header.write(NO_SALT, &payload, &mut bytes);
        Ok((stored.range.from, stored.number, bytes.into()))
    }

    /// Rejects the removal of content, all of a session's or the event at a position, while a fork
    /// that reads it is held.
    async fn check_held_forks(&self, writer: &Head, at: Option<Position>) -> StoreResult<()> {
        let reads =
            |below: Position| at.map_or(writer.entry.base() < below, |position| position < below);
        let mut writers = vec![writer.uid()];
        while let Some(uid) = writers.pop() {
            for fork in self.needed_forks(uid).await? {
                if !reads(fork.entry.base()) {
                    continue;
                }
                if fork.entry.held_at.is_some() {
                    return Err(StoreError::SessionHeld { session: fork.key.session });
                }
                writers.push(fork.uid());
            }
        }
        Ok(())
    }
}

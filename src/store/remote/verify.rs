//! Reads every frame of a session and follows its chains from their start. It must not change the
//! base.

use std::{io, sync::Arc};

use super::{
    node::Node,
    read::decode_frame,
    row::{Head, scope_name},
    store_error,
};
use crate::{
    event::{Batch, Lsn, Position, Range, Scope, SessionKey},
    log::AcceptedLoss,
    store::{
        ChainReceipt, ReceiptState, RepairResult, SessionGap, StoreError, StoreResult,
        VerifyResult,
        base::{FrameQuery, Hash16, RowSelection},
        rules::{ChainWalk, UNKNOWN_CHAIN, WriteKind, WriteRequest},
    },
};

const FRAMES_MAX: usize = 1_024;
const READ_BYTES_MAX: usize = 8 << 20;
/// Times that a session is read again because it was changed meanwhile.
const TRIES_MAX: usize = 8;
/// Rows read with one statement.
const ROWS_MAX: usize = 500;

/// Sessions of a walk over rows.
pub(super) struct Walk {
    pub(super) heads: Vec<Head>,
    /// Number of rows that cannot be decoded.
    pub(super) damaged: usize,
    /// True at the end of the walk.
    pub(super) is_last: bool,
}

impl Node {
    /// Verifies one session and adds the findings; returns the event chain at `wanted`. If it is
    /// changed during the read, it is read again: a redaction replaces frames.
    pub(super) async fn verify_session(
        &self,
        head: &Head,
        verified: &mut VerifyResult,
        wanted: Option<Position>,
    ) -> StoreResult<Option<[u8; 32]>> {
        let mut head = head.clone();
        for tries in 0.. {
            let walk = self.walk_frames(&head, wanted).await?;
            let now = self.fetch_head(&head.key).await?;
            // A redaction replaces frames, and is recorded in the row.
            let changed = now.entry.redacted != head.entry.redacted;
            if now.entry.stage.is_discarded() && !head.entry.stage.is_discarded() {
                // Its frames are removed.
                return Err(head.not_found_error());
            }
            if !walk.damage.is_empty() && changed && tries < TRIES_MAX {
                head = now;
                continue;
            }
            for gap in walk.damage {
                let found = match gap.accepted_at {
                    None => &mut verified.damage,
                    Some(_) => &mut verified.accepted,
                };
                found.push((head.key.clone(), gap));
            }
            verified.sessions += 1;
            verified.events += walk.events;
            verified.bytes += walk.bytes;
            return Ok(walk.met.map(|chain| chain.0));
        }
        Ok(None)
    }

    async fn walk_frames(&self, head: &Head, wanted: Option<Position>) -> StoreResult<ChainWalk> {
        let mut walk = ChainWalk::new(head.hash, &head.entry, None, wanted);
        if let Some(reason) = self.origin_fault(head).await? {
            walk.record_damage(Range::new(walk.position, walk.position), reason);
        }
        walk.record_chain();
        let (mut from, end) = (Lsn(1), head.row.next);
        while from < end {
            let query = FrameQuery::All {
                from,
                first: walk.position,
                frames: FRAMES_MAX,
                bytes: READ_BYTES_MAX,
            };
            let found = self.base.frames(head.uid(), query).await.map_err(store_error)?;
            let Some((_, frames)) = found else { return Err(head.not_found_error()) };
            let Some(last) = frames.last().map(|last| last.number) else { break };
            for stored in frames.iter().filter(|stored| stored.number < end) {
                walk.bytes += stored.bytes.len() as u64;
                match decode_frame(head.hash, stored) {
                    Ok(frame) => {
                        // Numbers may be left out: those of a migrated store are of all sessions.
                        let follows = frame.header.control_chain == walk.control_chain;
                        if !follows && walk.chain != UNKNOWN_CHAIN {
                            let range = Range::new(walk.position, stored.range.from);
                            let number = stored.number.0;
                            walk.record_damage(
                                range,
                                format!("records before number {number} are missing"),
                            );
                        }
                        from = frame.header.end_lsn();
                        walk.verify_records(frame);
                    }
                    Err(reason) => {
                        walk.record_damage(stored.range, reason);
                        walk.position = stored.range.to;
                        walk.chain = UNKNOWN_CHAIN;
                        from = Lsn(stored.number.0 + 1);
                    }
                }
            }
            from = from.max(Lsn(last.0 + 1));
        }
        walk.check_end(&head.entry);
        Ok(walk)
    }

    /// Returns the fault of a fork's origin, if its chain differs from its parent's there.
    async fn origin_fault(&self, head: &Head) -> StoreResult<Option<String>> {
        let Some(lineage) = &head.entry.lineage else { return Ok(None) };
        let Some(parent) = head.ancestors.first() else { return Ok(None) };
        let hash = parent.hash;
        let parent = self.fetch_head(&parent.key).await.ok();
        let Some(parent) = parent.filter(|found| found.hash == hash) else { return Ok(None) };
        match self.chain_at(&parent, Position(lineage.position)).await {
            Ok(chain) if chain.0 != lineage.chain => {
                Ok(Some("its parent's chain differs where it was forked".to_owned()))
            }
            Err(error @ (StoreError::Io { .. } | StoreError::Unreachable { .. })) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Verifies a session and compares its chain with a receipt.
    pub(super) async fn verify_head(
        &self,
        key: &SessionKey,
        expected: ChainReceipt,
    ) -> StoreResult<(VerifyResult, ReceiptState)> {
        let head = self.fetch_visible(key).await?;
        let (mut verified, position) = (VerifyResult::default(), expected.position);
        let mut met = self.verify_session(&head, &mut verified, Some(position)).await?;
        if position < head.entry.base() {
            met = self.chain_at(&head, position).await.ok().map(|chain| chain.0);
        }
        let tail = head.row.tail;
        let state = match met {
            _ if tail < position => ReceiptState::Shorter { tail },
            Some(chain) if chain == expected.chain => ReceiptState::Holds,
            Some(chain) => ReceiptState::Differs { chain },
            None => ReceiptState::Lost,
        };
        Ok((verified, state))
    }

    /// Lists the damage of a session; with `accept`, accepts the loss.
    pub(super) async fn repair(
        self: &Arc<Self>,
        key: &SessionKey,
        accept: bool,
    ) -> StoreResult<RepairResult> {
        let head = self.fetch_visible(key).await?;
        let mut verified = VerifyResult::default();
        self.verify_session(&head, &mut verified, None).await?;
        let gaps: Vec<SessionGap> = verified.damage.into_iter().map(|(_, gap)| gap).collect();
        let accepted = accept && !gaps.is_empty();
        if accepted {
            let place = |gap: &SessionGap| (gap.range.from.0, gap.range.to.0, gap.reason.clone());
            let loss = AcceptedLoss { places: gaps.iter().map(place).collect() };
            let ask = WriteKind::GiveUp(loss);
            let request =
                WriteRequest::new(ask, Batch::default(), self.clock.now(), &*self.entropy);
            self.submit(key, request, false).await?;
        }
        Ok(RepairResult { gaps, accepted, ..RepairResult::default() })
    }

    /// Verifies the sessions of a scope, or of all scopes.
    pub(super) async fn verify_all(&self, scope: Option<&Scope>) -> StoreResult<VerifyResult> {
        let (mut verified, mut after, mut bad) = (VerifyResult::default(), None, 0);
        loop {
            let Walk { heads, damaged, is_last } = self.walk_rows(scope, &mut after).await?;
            bad += damaged;
            if is_last && bad > 0 {
                let source = io::Error::other(format!("{bad} rows of sessions are damaged"));
                return Err(StoreError::Io { doing: "verifying the base", source });
            }
            if is_last {
                return Ok(verified);
            }
            for head in heads {
                let hidden = head.check_visible().is_err();
                if hidden && self.needed_forks(head.uid()).await?.is_empty()
                    || head.entry.stage.is_erased()
                {
                    continue;
                }
                // It may have changed since.
                let Some(head) = self.fetch_heads(vec![head.row.name]).await?.pop() else {
                    continue;
                };
                match self.verify_session(&head, &mut verified, None).await {
                    Ok(_) | Err(StoreError::SessionNotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Reads the next sessions of a walk over those of a scope, or of all scopes.
    pub(super) async fn walk_rows(
        &self,
        scope: Option<&Scope>,
        after: &mut Option<Hash16>,
    ) -> StoreResult<Walk> {
        let query = match scope {
            Some(scope) => {
                RowSelection::Scope { scope: scope_name(&self.keys.names, scope), after: *after }
            }
            None => RowSelection::All { after: *after },
        };
        let rows = self.base.rows(query, ROWS_MAX).await.map_err(store_error)?;
        *after = rows.last().map(|row| row.name).or(*after);
        let (count, is_last) = (rows.len(), rows.is_empty());
        let heads: Vec<Head> =
            rows.into_iter().filter_map(|row| Head::read_row(&self.keys.names, row, 0)).collect();
        Ok(Walk { damaged: count - heads.len(), heads, is_last })
    }
}

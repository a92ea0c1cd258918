//! Repair: accepts the losses of a session, or of the store if they name no session, at an
//! operator's request. Copies of all refused bytes are in `quarantine/` before a loss is accepted.
//! It must not delete a byte, nor run without a request.

use std::{io, sync::Arc};

use bytes::Bytes;

use super::super::{
    journal::{ring, trouble::write_error},
    layout::{self, journal_path},
    session::LoadedSession,
    wait::run_blocking,
};
use super::{UnresolvedLosses, Upkeep};
use crate::{
    env::sync::atomic::Ordering,
    event::{Position, SessionHash},
    log::{AcceptedLoss, SegmentEntry, reading::read_with_holes, segment},
    store::{
        HeldEvents, KeyReport, RepairResult, SessionGap, StoreError, StoreResult, VerifyResult,
        rules::WriteKind,
    },
};

/// Maximum number of missing ring files; with more, a file has a name that this program did not
/// give.
const RING_FILES_MAX: usize = 1_000;

impl Upkeep {
    /// Fails if the store is closed; while the caller holds `repairing` it stays open.
    pub(crate) fn check_open(&self) -> StoreResult<()> {
        if self.context.closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly { reason: "the store is closed".to_owned() });
        }
        Ok(())
    }

    /// Calls [`EngineKeys::rotate`], unless the store is closed; it stays open meanwhile.
    pub(crate) fn rotate_keys(&self, keys_max: usize) -> StoreResult<KeyReport> {
        let _turn = self.repairing.lock();
        self.check_open()?;
        self.context.keys.rotate(keys_max)
    }

    /// Lists the losses of a session; with `accept`, accepts them.
    pub(crate) async fn repair(
        &self,
        session: &Arc<LoadedSession>,
        accept: bool,
    ) -> StoreResult<RepairResult> {
        let gaps = run_blocking(|| self.find_losses(session))?;
        if gaps.is_empty() {
            return Ok(RepairResult::default());
        }
        let hurt = |one: &SegmentEntry| {
            let (base, end) = (Position(one.base), Position(one.end));
            gaps.iter().any(|gap| gap.range.from <= end && base <= gap.range.to)
        };
        let segments = session.state().entry.segments.clone();
        let segments: Vec<_> = segments.into_iter().filter(hurt).collect();
        if !accept {
            let copies = segments.iter().map(|one| copy_name(session.hash, one)).collect();
            return Ok(RepairResult { gaps, copies, ..RepairResult::default() });
        }
        let failed = |error: io::Error| write_error("copying to quarantine", &error);
        let copies = run_blocking(|| {
            self.copy_refused()?;
            // Files derived from lost events are computed again from the remaining ones.
            let holds = |holds: &[HeldEvents]| holds.iter().any(|held| held.hash == session.hash);
            self.segments.derived_files.hide_and_wait(&holds)?;
            self.segments.derived_files.destroy(&holds)?;
            let copy = |one: &SegmentEntry| self.copy_segment(session.hash, one);
            segments.iter().map(copy).collect::<io::Result<Vec<_>>>()
        });
        let copies = copies.map_err(failed)?;
        let place = |gap: &SessionGap| (gap.range.from.0, gap.range.to.0, gap.reason.clone());
        let loss = AcceptedLoss { places: gaps.iter().map(place).collect() };
        self.commit
            .submit(session, &mut self.commit.prepare_eventless(WriteKind::GiveUp(loss)))
            .await?;
        for gap in &gaps {
            tracing::warn!(session = %session.hash, range = %gap.range, "a loss was accepted");
        }
        let copies = copies.into_iter().flatten().collect();
        Ok(RepairResult { gaps, copies, accepted: true, ..RepairResult::default() })
    }

    /// Verifies all of a session, to find every loss; returns those that no operator accepted.
    fn find_losses(&self, session: &Arc<LoadedSession>) -> StoreResult<Vec<SessionGap>> {
        let mut verified = VerifyResult::default();
        if let Some(source) = self.segments.verify_session(session, &mut verified, None)? {
            // The session was not read: its losses are unknown.
            return Err(StoreError::Io { doing: "reading the session", source });
        }
        let mut gaps: Vec<SessionGap> = verified.damage.into_iter().map(|(_, gap)| gap).collect();
        let opened = self.segments.open_visible(session)?.gaps().into_iter();
        let open = opened.filter(|gap| gap.accepted_at.is_none());
        for gap in open {
            if !gaps.iter().any(|one| one.range.contains_range(gap.range)) {
                gaps.push(gap);
            }
        }
        gaps.sort_by_key(|gap| gap.range.from);
        Ok(gaps)
    }

    /// Copies to quarantine what the start could not read; keeps existing copies.
    fn copy_refused(&self) -> io::Result<()> {
        let refused = self.refused.lock().copies.clone();
        refused.iter().try_for_each(|(name, bytes)| {
            layout::write_quarantined(
                &self.context.env,
                name,
                bytes,
                "refused by the start, given up by a person\n",
            )
        })
    }

    /// Copies the readable bytes of a damaged segment; returns `None` if the file is gone.
    fn copy_segment(&self, session: SessionHash, one: &SegmentEntry) -> io::Result<Option<String>> {
        let path = segment::path(session, Position(one.base), one.start, one.sealed);
        let file = match self.context.env.storage.open_read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let name = copy_name(session, one);
        let bytes = read_with_holes(&*file, 0, u64::MAX)?.bytes;
        layout::write_quarantined(
            &self.context.env,
            &name,
            &bytes,
            &format!("{path}: damaged, given up by a person\n"),
        )?;
        Ok(Some(name))
    }

    /// Lists the losses of the store that name no session; with `accept`, accepts them: flushes
    /// everything whole past them, and recreates damaged files of the ring.
    pub(crate) fn repair_store(&self, accept: bool) -> StoreResult<RepairResult> {
        if accept && !self.refused.lock().unnamed.is_empty() {
            // Lost positions are assigned again.
            let withdrawn = self.segments.derived_files.hide_and_wait(&|_| true);
            withdrawn.map_err(|error| write_error("repairing the store", &error))?;
        }
        let _turn = self.repairing.lock();
        let (unnamed, ring, mut copies) = {
            let refused = self.refused.lock();
            let names = refused.copies.iter().map(|(name, _)| name.clone());
            let ring = refused.ring.iter().cloned().flatten().take(RING_FILES_MAX + 1);
            let ring: Vec<u32> = ring.collect();
            (refused.unnamed.clone(), ring, names.collect::<Vec<_>>())
        };
        if ring.len() > RING_FILES_MAX && accept {
            let what = format!(
                "too many files to be made anew ({}); move the one above the gap away",
                unnamed.join(", ")
            );
            return Err(write_error("repairing the store", &io::Error::other(what)));
        }
        copies.extend(ring.iter().map(|number| ring_copy_name(*number)));
        if unnamed.is_empty() || !accept {
            return Ok(RepairResult { unnamed, copies, ..RepairResult::default() });
        }
        self.check_open()?;
        let given_up = self.copy_refused().and_then(|()| {
            ring.iter().try_for_each(|number| self.copy_ring_file(*number))?;
            let name = format!("accepted-{}", self.context.env.clock.now().0);
            let text = unnamed.join("\n") + "\n";
            layout::write_quarantined(
                &self.context.env,
                &name,
                text.as_bytes(),
                "lost, and given up by a person\n",
            )?;
            copies.push(name);
            self.segments.derived_files.destroy(&|_| true)?;
            self.context.frozen.store(false, Ordering::Release);
            self.sessions.journal.accept_writes();
            self.removal.flush_earlier_files().and_then(|()| {
                let bytes = self.context.options.journal_file_bytes;
                ring.iter()
                    .try_for_each(|number| ring::create_zeroed(&self.context.env, *number, bytes))
            })
        });
        if let Err(error) = given_up {
            self.context.frozen.store(true, Ordering::Release);
            self.sessions.journal.refuse(&format!("a repair of the store failed: {error}"));
            return Err(write_error("repairing the store", &error));
        }
        tracing::warn!(lost = ?unnamed, "losses that name no session were accepted");
        *self.refused.lock() = UnresolvedLosses::default();
        Ok(RepairResult { unnamed, copies, accepted: true, ..RepairResult::default() })
    }

    fn copy_ring_file(&self, number: u32) -> io::Result<()> {
        let bytes = match self.context.env.storage.open_read(&journal_path(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Bytes::new(),
            Err(error) => return Err(error),
            Ok(file) => read_with_holes(&*file, 0, u64::MAX)?.bytes,
        };
        layout::write_quarantined(
            &self.context.env,
            &ring_copy_name(number),
            &bytes,
            "a damaged file of the journal\n",
        )
    }
}

fn copy_name(session: SessionHash, one: &SegmentEntry) -> String {
    let end = if one.sealed { "sealed" } else { "seg" };
    format!("{session}-{:020}-{:010}.{end}.damaged", one.base, one.start)
}

fn ring_copy_name(number: u32) -> String {
    format!("journal-file-{number}.damaged")
}

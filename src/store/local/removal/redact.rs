//! Redaction: removes the body of an event from every file of its session and from the journal;
//! position, id, type, times and chain stay. It must not change any other event.
//!
//! The control record is durable before the first step: from then on the body is not returned.
//! After a crash an event is whole or redacted in each file; a start runs the remaining steps.

use std::{collections::BTreeSet, io, sync::Arc};

use super::{
    super::session::{LoadedSession, opened::read_whole_frames},
    Removal,
    steps::{FLUSHING, RemovalStep, StepError},
};
use crate::{
    event::{Lsn, Position},
    log::{
        Fault, SegmentEntry,
        segment::{self, SegmentHeader},
    },
};

/// Events of a session whose bodies are to be removed.
struct PendingRedaction {
    session: Arc<LoadedSession>,
    /// Positions of the events.
    wanted: BTreeSet<u64>,
    /// Log sequence numbers of the events' records.
    numbers: BTreeSet<u64>,
}

/// Records and segments of events whose bodies are to be removed.
#[derive(Default)]
struct RedactTargets {
    /// Log sequence numbers of the events' records.
    numbers: BTreeSet<u64>,
    /// Segments with a body to be removed.
    whole: Vec<SegmentEntry>,
}

/// Steps, run for one session after the other, once no start needs the journal.
const STEPS: [RemovalStep<PendingRedaction>; 10] = [
    RemovalStep {
        doing: "sealing its segments without the bodies",
        run: Removal::seal_without_bodies,
    },
    RemovalStep {
        doing: "dropping it from memory",
        run: |_, one| {
            // Tables read earlier name the replaced segments.
            one.session.state().opened = None;
            Ok(())
        },
    },
    RemovalStep {
        doing: "taking away what is derived from it",
        run: |removal, one| removal.drop_copies(&one.session, Some(&one.wanted)),
    },
    RemovalStep { doing: "writing the settled files", run: Removal::write_sealed_entries },
    RemovalStep {
        doing: "ending backups",
        run: |removal, _| {
            removal.segments.pins.invalidate();
            Ok(())
        },
    },
    RemovalStep { doing: "unlinking replaced files", run: Removal::unlink_unnamed },
    RemovalStep { doing: "writing zeros behind the ends of its files", run: Removal::zero_tails },
    RemovalStep {
        doing: "writing zeros over its frames in the journal",
        run: Removal::zero_redacted,
    },
    RemovalStep {
        doing: "removing its copies from quarantine",
        run: |removal, one| Ok(removal.clear_quarantine(one.session.hash)?),
    },
    RemovalStep { doing: "noting that no file has the bodies", run: Removal::record_cleared },
];

impl Removal {
    /// Removes the remaining redacted bodies; a later flush retries failed steps.
    pub(crate) fn finish_redactions(&self) -> Result<(), StepError> {
        // Another thread may be running a caller's redaction: the caller must wait for it.
        let _turn = self.turn.lock();
        let backlog = &self.sessions.backlog;
        let mut begun = backlog.take_pending_redactions();
        begun.retain(|session| session.state().entry.has_pending_redaction());
        if begun.is_empty() {
            return Ok(());
        }
        // After this flush the frames are not in memory, and no start reads them from the journal.
        if let Err(error) = self.flush_before_zeroing() {
            begun.into_iter().for_each(|session| backlog.add_pending_redaction(session));
            return Err(StepError::from(error).with_step(FLUSHING));
        }
        let mut done = Ok(());
        for session in begun {
            if let Err(failed) = self.finish_redaction(&session) {
                let StepError { doing, source } = &failed;
                tracing::warn!(session = %session.hash, doing, error = %source, "a redacted body may be left");
                backlog.add_pending_redaction(session);
                done = Err(failed);
            }
        }
        done
    }

    fn finish_redaction(&self, session: &Arc<LoadedSession>) -> Result<(), StepError> {
        let _flushing = self.segments.flushing.lock();
        self.check_writable()?;
        let wanted: BTreeSet<u64> = {
            let state = session.state();
            let entry = &state.entry;
            let kept = !entry.stage.is_erased() && self.sessions.is_read_by_forks(session.hash);
            if entry.stage.is_reclaimed() || entry.stage.is_discarded() && !kept {
                // All of its files are removed.
                return Ok(());
            }
            let left = entry.redacted.iter().filter(|one| !one.cleared);
            left.map(|one| one.position).collect()
        };
        let session = Arc::clone(session);
        self.run_steps(&STEPS, &mut PendingRedaction { session, wanted, numbers: BTreeSet::new() })
    }

    fn seal_without_bodies(&self, one: &mut PendingRedaction) -> Result<(), StepError> {
        let RedactTargets { numbers, whole } = self.find_targets(one)?;
        one.numbers = numbers;
        if !whole.is_empty() {
            let runs = whole.into_iter().map(|segment| (Arc::clone(&one.session), vec![segment]));
            self.segments.seal_runs(runs.collect())?;
            if !self.find_targets(one)?.whole.is_empty() {
                return Err(io::Error::other("a segment could not be written anew").into());
            }
        }
        Ok(())
    }

    /// Finds the records of these events, and the segments to be rewritten.
    fn find_targets(&self, one: &PendingRedaction) -> io::Result<RedactTargets> {
        let PendingRedaction { session, wanted, .. } = one;
        let segments = session.state().entry.segments.clone();
        let cipher = self.segments.cipher(session)?;
        let mut found = RedactTargets::default();
        for one in segments {
            if wanted.range(one.base..one.end).next().is_none() {
                continue;
            }
            let path = segment::path(session.hash, Position(one.base), one.start, one.sealed);
            let file = self.context.env.storage.open_read(&path)?;
            let header = SegmentHeader::read(&*file)?;
            let frames = read_whole_frames(&*file, &header, &one, cipher.as_deref())?;
            let (mut position, mut whole) = (one.base, false);
            for frame in frames {
                for (lsn, record) in frame.records().map_err(as_io_error)? {
                    if !record.is_event() {
                        continue;
                    }
                    if wanted.contains(&position) {
                        found.numbers.insert(lsn.0);
                        whole |= !record.is_redacted();
                    }
                    position += 1;
                }
            }
            found.whole.extend(whole.then_some(one));
        }
        if found.numbers.len() < wanted.len() {
            return Err(io::Error::other("the session could not be settled"));
        }
        Ok(found)
    }

    fn write_sealed_entries(&self, _: &mut PendingRedaction) -> Result<(), StepError> {
        self.sessions.mark_changed_entries();
        (0..2).try_for_each(|_| self.sessions.write_settled())?;
        Ok(())
    }

    /// Unlinks every file of a session that its entry does not name.
    fn unlink_unnamed(&self, one: &mut PendingRedaction) -> Result<(), StepError> {
        let session = &one.session;
        let path = |one: &SegmentEntry| {
            segment::path(session.hash, Position(one.base), one.start, one.sealed)
        };
        let named: BTreeSet<String> = session.state().entry.segments.iter().map(path).collect();
        self.segments.unlink_files(session.hash, &named)?;
        let own = format!("{}/{}-", segment::directory(session.hash), session.hash);
        self.sessions.backlog.retain_retired(&mut |path, _| !path.starts_with(&own));
        Ok(())
    }

    /// Zeroes the bytes of each segment after the end that the entry names: a start that died
    /// before recording a flush left frames there.
    fn zero_tails(&self, one: &mut PendingRedaction) -> Result<(), StepError> {
        let session = &one.session;
        let segments = session.state().entry.segments.clone();
        for one in segments {
            let path = segment::path(session.hash, Position(one.base), one.start, one.sealed);
            let file = self.context.env.storage.open(&path)?;
            let tail = file.len()?.saturating_sub(one.bytes);
            if tail > 0 {
                // Even over zeros: the page cache may differ from the device after a failed sync.
                file.write_at(one.bytes, &vec![0; tail as usize])?;
                file.sync()?;
            }
        }
        Ok(())
    }

    fn zero_redacted(&self, one: &mut PendingRedaction) -> Result<(), StepError> {
        let behind = one.numbers.last().map_or(0, |last| last + 1);
        if self.sessions.recyclable_before().lsn < Lsn(behind) {
            let what = "a start would need its frames: a session is not settled";
            return Err(io::Error::other(what).into());
        }
        let has = |from: u64, to: u64| one.numbers.range(from..to).next().is_some();
        Ok(self.zero_journal(one.session.hash, &has)?)
    }

    fn record_cleared(&self, one: &mut PendingRedaction) -> Result<(), StepError> {
        let PendingRedaction { session, wanted, .. } = one;
        let mut state = session.state();
        for entry in state.entries_mut() {
            let those = entry.redacted.iter_mut().filter(|one| wanted.contains(&one.position));
            those.for_each(|one| one.cleared = true);
        }
        drop(state);
        self.sessions.backlog.add_touched(session);
        tracing::info!(session = %session.hash, events = wanted.len(), "events were redacted");
        Ok(())
    }
}

fn as_io_error(fault: Fault) -> io::Error {
    io::Error::other(fault.to_string())
}

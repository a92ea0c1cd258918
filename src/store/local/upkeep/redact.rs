//! Redacting an event: its body is taken out of every file of the session and of the journal, and
//! is never served again; place, id, type, times and chain stay. It must not answer before no file
//! has the body, nor change what any other event says.
//!
//! A control record comes first: from then on the body is not served, whatever files hold.
//! Then the segment that has it is sealed anew without it, every other file of the session is
//! unlinked once both settled files name the new one, what is behind the named end of a file and
//! the payloads of its frame in the journal become zeros. A crash leaves an event whole or
//! redacted; a start finishes what was begun.

use std::{collections::BTreeSet, io, sync::Arc};

use super::super::{
    clearing::Clearing,
    segments::Segments,
    session::{Session, opened::whole_frames},
    wait::blocking,
};
use super::Upkeep;
use crate::{
    event::{EventId, Lsn, Position},
    log::{
        Fault, SegmentEntry,
        segment::{self, SegmentHeader, name_hash},
    },
    store::{StoreError, StoreResult, rules::Ask},
};

/// What the segments say of events that are to be without a body.
#[derive(Default)]
struct Found {
    /// Log sequence numbers of their records.
    numbers: BTreeSet<u64>,
    /// Segments with a body that must go.
    whole: Vec<SegmentEntry>,
}

impl Segments {
    /// Position of the event of that id among those that the session wrote itself.
    pub(crate) fn position_of(
        &self,
        session: &Arc<Session>,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        let mut state = self.opened(session)?;
        Ok(state.opened.as_mut().and_then(|opened| opened.find(&name_hash(id.as_str()))))
    }
}

impl Upkeep {
    /// Redacts an event, in the session that wrote it; no file has its body once this returns.
    pub(crate) async fn redact(
        &self,
        session: &Arc<Session>,
        id: &EventId,
    ) -> StoreResult<Option<Position>> {
        let Some((writer, position)) = self.segments.find_with_writer(session, id)? else {
            let state = session.visible()?;
            // It may be where the device cannot read.
            return if state.is_degraded() { Err(session.damaged(&state)) } else { Ok(None) };
        };
        {
            let _held = self.commit.holds.lock().await;
            self.sessions.check_readers(&writer, Some(position))?;
            self.commit.drive(&writer, &mut self.commit.ask(Ask::Redact(position))).await?;
        }
        self.sessions.backlog.redacting.lock().push(Arc::clone(&writer));
        let finished = blocking(|| self.clearing.finish_redactions());
        let state = writer.state();
        let mut those = state.entry.redacted.iter().filter(|one| one.position == position.0);
        if those.all(|one| one.cleared) {
            return Ok(Some(position));
        }
        let source = finished.err().unwrap_or_else(|| io::Error::other("its body may be left"));
        Err(StoreError::Unfinished { what: "redaction", source })
    }
}

impl Clearing {
    /// Takes away what is left of redacted bodies; what fails is taken up by a later settling.
    pub(crate) fn finish_redactions(&self) -> io::Result<()> {
        // A caller may find its own redaction taken by another thread, and must wait for it.
        let _turn = self.turn.lock();
        let mut begun = std::mem::take(&mut *self.sessions.backlog.redacting.lock());
        begun.retain(|session| session.state().entry.is_redacting());
        if begun.is_empty() {
            return Ok(());
        }
        // The frames leave memory, and no start reads the journal before what is behind them.
        if let Err(error) = self.settle_to_zero() {
            self.sessions.backlog.redacting.lock().append(&mut begun);
            return Err(error);
        }
        let mut failed = Ok(());
        for session in begun {
            if let Err(error) = self.finish_redaction(&session) {
                tracing::warn!(session = %session.hash, %error, "a redacted body may be left");
                self.sessions.backlog.redacting.lock().push(session);
                failed = Err(error);
            }
        }
        failed
    }

    fn finish_redaction(&self, session: &Arc<Session>) -> io::Result<()> {
        // No thread settles or seals it meanwhile.
        let _settling = self.segments.settling.lock();
        self.base.check_writable()?;
        let wanted: BTreeSet<u64> = {
            let state = session.state();
            let entry = &state.entry;
            let kept = !entry.stage.is_erased() && self.sessions.is_needed(session.hash);
            if entry.stage.is_reclaimed() || entry.stage.is_discarded() && !kept {
                // All of its files go.
                return Ok(());
            }
            let left = state.entry.redacted.iter().filter(|one| !one.cleared);
            left.map(|one| one.position).collect()
        };
        let Found { numbers, whole } = self.look_for(session, &wanted)?;
        if !whole.is_empty() {
            let runs = whole.into_iter().map(|one| (Arc::clone(session), vec![one]));
            self.segments.seal_runs(runs.collect())?;
            if !self.look_for(session, &wanted)?.whole.is_empty() {
                return Err(io::Error::other("a segment could not be written anew"));
            }
        }
        // What was read of it before names what is gone.
        session.state().opened = None;
        self.segments.warm.clear();
        self.segments.touch_settled();
        (0..2).try_for_each(|_| self.write_settled())?;
        self.segments.pins.take_away();
        self.unlink_unnamed(session)?;
        self.blank_tails(session)?;
        let behind = numbers.last().map_or(0, |last| last + 1);
        if self.sessions.slots.lock().recyclable().lsn < Lsn(behind) {
            return Err(io::Error::other(
                "a start would need its frames: a session is not settled",
            ));
        }
        let has = |from: u64, to: u64| numbers.range(from..to).next().is_some();
        self.zero_journal(session.hash, &has)?;
        self.clear_quarantine(session.hash)?;
        self.note_cleared(session, &wanted);
        tracing::info!(session = %session.hash, events = wanted.len(), "events were redacted");
        Ok(())
    }

    /// Reads the segments that have these events.
    fn look_for(&self, session: &Session, wanted: &BTreeSet<u64>) -> io::Result<Found> {
        let segments = session.state().entry.segments.clone();
        let cipher = self.segments.cipher(session)?;
        let mut found = Found::default();
        for one in segments {
            if wanted.range(one.base..one.end).next().is_none() {
                continue;
            }
            let path = segment::path(session.hash, Position(one.base), one.start, one.sealed);
            let file = self.base.env.storage.open_read(&path)?;
            let header = SegmentHeader::of(&*file)?;
            let frames = whole_frames(&*file, &header, &one, cipher.as_deref())?;
            let (mut position, mut whole) = (one.base, false);
            for frame in frames {
                for (lsn, record) in frame.records().map_err(wrong)? {
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

    /// Unlinks every file of a session that it does not consist of.
    fn unlink_unnamed(&self, session: &Session) -> io::Result<()> {
        let path = |one: &SegmentEntry| {
            segment::path(session.hash, Position(one.base), one.start, one.sealed)
        };
        let named: BTreeSet<String> = session.state().entry.segments.iter().map(path).collect();
        self.segments.unlink_files(session.hash, &named)?;
        let own = format!("{}/{}-", segment::directory(session.hash), session.hash);
        self.sessions.backlog.retired.lock().retain(|path, _| !path.starts_with(&own));
        Ok(())
    }

    /// Writes zeros over what is behind the end that its entry names of each file of a session: a
    /// start that died before it could name those frames left them there.
    fn blank_tails(&self, session: &Session) -> io::Result<()> {
        let segments = session.state().entry.segments.clone();
        for one in segments {
            let path = segment::path(session.hash, Position(one.base), one.start, one.sealed);
            let file = self.base.env.storage.open(&path)?;
            let tail = file.len()?.saturating_sub(one.bytes);
            if tail > 0 {
                // Be they zeros: the cache may have what a sync that failed did not.
                file.write_at(one.bytes, &vec![0; tail as usize])?;
                file.sync()?;
            }
        }
        Ok(())
    }

    /// Notes that no file has these bodies any more.
    fn note_cleared(&self, session: &Arc<Session>, gone: &BTreeSet<u64>) {
        let mut state = session.state();
        let state = &mut *state;
        for entry in state.entries_mut() {
            let those = entry.redacted.iter_mut().filter(|one| gone.contains(&one.position));
            those.for_each(|one| one.cleared = true);
        }
        self.sessions.backlog.touched.lock().push(Arc::clone(session));
    }
}

fn wrong(fault: Fault) -> io::Error {
    io::Error::other(fault.to_string())
}

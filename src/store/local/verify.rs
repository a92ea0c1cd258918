//! Reads every frame of a session and follows its chains from their start. It must change nothing,
//! and trusts neither index nor footer.

use super::{Shared, session::Session, settle::whole_frames};
use crate::{
    event::{Lsn, Position, Range},
    log::{
        Chain, Entry, Fault, Frame, LogError, SegmentEntry,
        segment::{self, SegmentHeader},
    },
    store::{Gap, StoreResult, Verified},
};

/// Chains followed so far.
struct Walk {
    position: Position,
    chain: Chain,
    control_chain: Chain,
    events: u64,
    bytes: u64,
    damage: Vec<Gap>,
}

impl Shared {
    /// Verifies one session and adds what was found. What a segment that was replaced meanwhile
    /// lacks is no damage: then it is read again.
    pub(super) fn verify_session(
        &self,
        session: &Session,
        verified: &mut Verified,
    ) -> StoreResult<()> {
        while !self.verify_once(session, verified)? {}
        Ok(())
    }

    /// Answers whether the session stayed as it was while it was read.
    fn verify_once(&self, session: &Session, verified: &mut Verified) -> StoreResult<bool> {
        let (entry, memory) = {
            let state = session.visible()?;
            (state.entry.clone(), state.unsettled.iter().cloned().collect::<Vec<_>>())
        };
        let mut walk = Walk {
            position: Position::ZERO,
            chain: Chain::events_of(session.hash),
            control_chain: Chain::controls_of(session.hash),
            events: 0,
            bytes: 0,
            damage: session.state().gaps(),
        };
        for file in &entry.segments {
            self.verify_segment(session, file, &mut walk);
        }
        for held in memory {
            walk.bytes += held.header.stride();
            walk.frame(&Frame { header: held.header, payload: held.payload });
        }
        walk.end(&entry);
        if !walk.damage.is_empty() && session.state().entry.segments != entry.segments {
            return Ok(false);
        }
        for gap in &walk.damage {
            session.state().damage(gap.range, &gap.reason);
            verified.damage.push((session.key.clone(), gap.clone()));
        }
        verified.sessions += 1;
        verified.events += walk.events;
        verified.bytes += walk.bytes;
        Ok(true)
    }

    fn verify_segment(&self, session: &Session, file: &SegmentEntry, walk: &mut Walk) {
        let path = segment::path(session.hash, Position(file.base), file.start, file.sealed);
        let frames = || -> Result<Vec<Frame>, LogError> {
            let handle = self.env.storage.open_read(&path)?;
            let header = SegmentHeader::of(&*handle)?;
            if header.session != session.hash || header.base.0 != file.base {
                return Err(LogError::Fault { byte_offset: 0, fault: Fault::Misplaced });
            }
            whole_frames(&*handle, &header, file)
        };
        match frames() {
            Ok(frames) => {
                walk.bytes += file.bytes;
                frames.iter().for_each(|frame| walk.frame(frame));
            }
            Err(error) => {
                let range = Range::new(Position(file.base), Position(file.end));
                walk.damage.push(Gap { range, reason: format!("{path}: {error}") });
                walk.position = Position(file.end);
                walk.chain = Chain([0; 32]);
            }
        }
    }
}

impl Walk {
    fn frame(&mut self, frame: &Frame) {
        let header = frame.header;
        let known = self.damage.iter().any(|gap| gap.range.to == header.first_position);
        if header.first_position != self.position || header.chain != self.chain {
            if !known && self.chain != Chain([0; 32]) {
                let range = Range::new(self.position.min(header.first_position), header.range().to);
                self.damage.push(Gap { range, reason: Fault::Chain.to_string() });
            }
            (self.position, self.chain) = (header.first_position, header.chain);
        }
        let records: Vec<(Lsn, _)> = match frame.records() {
            Ok(records) => records,
            Err(fault) => {
                self.damage.push(Gap { range: header.range(), reason: fault.to_string() });
                self.position = header.range().to;
                self.chain = Chain([0; 32]);
                return;
            }
        };
        for (lsn, record) in &records {
            if record.is_event() {
                self.chain = self.chain.after(self.position.0, record);
                self.position = self.position.plus(1);
                self.events += 1;
            } else {
                self.control_chain = self.control_chain.after(lsn.0, record);
            }
        }
    }

    fn end(&mut self, entry: &Entry) {
        let whole = self.position.0 == entry.tail
            && self.chain.0 == entry.chain
            && self.control_chain.0 == entry.control_chain;
        if !whole && self.damage.is_empty() {
            let range = Range::new(self.position, Position(entry.tail));
            let reason = "the chain does not end where the catalogue says".to_owned();
            self.damage.push(Gap { range, reason });
        }
    }
}

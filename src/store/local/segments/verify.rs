//! Reads every frame of a session and follows its chains from their start. It must not change a
//! file, nor trust index or footer.

use std::{io, sync::Arc};

use super::super::{layout::is_of_the_file, session::Session};
use super::{Segments, read::without_key};
use crate::{
    event::{Lsn, Position, Range, pace},
    log::{
        Chain, Cipher, Entry, Fault, Frame, LogError, Redaction, SegmentEntry,
        scan::{Scan, ScanPiece, scan_file},
        seal::{self, Sealed},
        segment::{self, FRAMES_AT, SegmentHeader},
    },
    store::{Gap, Head, Receipt, StoreError, StoreResult, Verified, rules::entry::is_redacted},
};

/// Progress of a verification: a position, and the chain values there.
pub(crate) struct Met {
    position: Position,
    /// Event chain at the position; `None` if unknown.
    chain: Option<Chain>,
    tail: Position,
}

/// State of a walk along the chains.
struct Walk {
    cipher: Option<Arc<Cipher>>,
    redacted: Vec<Redaction>,
    position: Position,
    chain: Chain,
    control_chain: Chain,
    events: u64,
    bytes: u64,
    damage: Vec<Gap>,
    /// Unreadable positions: they are reported and not recorded as damage.
    unread: Vec<Gap>,
    /// Position whose chain value is wanted, and that value once known.
    wanted: Option<Position>,
    met: Option<Chain>,
}

/// Bytes of a frame hashed per step.
const BYTES_OF_A_STEP: usize = 1 << 10;
/// Placeholder for an unknown chain value, after damage.
const UNKNOWN: Chain = Chain([0; 32]);

impl Segments {
    /// Verifies one session and adds the findings. If a segment is replaced meanwhile, the session
    /// is read again. Unreadable bytes are reported like damage, but not recorded, since a later
    /// read may succeed. Returns other errors of the file system.
    pub(crate) fn verify_session(
        &self,
        session: &Arc<Session>,
        verified: &mut Verified,
        mut met: Option<&mut Met>,
    ) -> StoreResult<Option<io::Error>> {
        loop {
            let mut refused = Vec::new();
            if self.verify_once(session, verified, &mut refused, met.as_deref_mut())? {
                let found = refused.iter().map(|(range, error): &(Range, io::Error)| {
                    let gap = Gap { range: *range, reason: error.to_string(), accepted_at: None };
                    (session.key.clone(), gap)
                });
                verified.damage.extend(found);
                return Ok(refused.into_iter().next().map(|(_, error)| error));
            }
        }
    }

    /// Verifies the session once; returns whether it was unchanged during the read.
    fn verify_once(
        &self,
        session: &Arc<Session>,
        verified: &mut Verified,
        refused: &mut Vec<(Range, io::Error)>,
        met: Option<&mut Met>,
    ) -> StoreResult<bool> {
        let cipher;
        let (entry, memory) = {
            // A hidden session that forks read is verified, too.
            let kept =
                session.readable_by_forks().filter(|_| self.sessions.is_needed(session.hash));
            let mut state = kept.map_or_else(|| session.visible(), Ok)?;
            if let Err(error) = self.cipher_in(&mut state)
                && error.is_unreadable()
            {
                let gap = without_key(&state.entry, &error);
                verified.damage.push((session.key.clone(), gap));
                return Ok(true);
            }
            // Without its key no event is readable, which is recorded as damage.
            cipher = match self.key_of(session, &mut state) {
                Err(error @ StoreError::Io { .. }) => return Err(error),
                other => other.unwrap_or_default(),
            };
            (state.entry.clone(), state.unflushed.iter().cloned().collect::<Vec<_>>())
        };
        let begin = || Chain::events_of(session.hash);
        let mut walk = Walk {
            cipher,
            redacted: entry.redacted.clone(),
            position: session.base(),
            chain: session.origin.as_ref().map_or_else(begin, |origin| origin.chain),
            control_chain: Chain::controls_of(session.hash),
            events: 0,
            bytes: 0,
            damage: entry.gaps(),
            unread: Vec::new(),
            wanted: met.as_ref().map(|met| met.position),
            met: None,
        };
        if let Some(reason) = self.origin_fault(session)? {
            walk.damaged(Range::new(walk.position, walk.position), reason);
        }
        walk.note_chain();
        for file in &entry.segments {
            if let Err(error) = self.verify_segment(session, file, &mut walk) {
                refused.push((walk.skip(file), error));
            }
        }
        for held in memory {
            walk.bytes += held.header.stride();
            walk.records(held.frame());
        }
        if refused.is_empty() {
            walk.end(&entry);
        }
        let whole = walk.damage.is_empty() && walk.unread.is_empty();
        if !whole && session.state().entry.segments != entry.segments {
            return Ok(false);
        }
        session.state().close_unread();
        if let Some(met) = met {
            (met.tail, met.chain) = (Position(entry.tail), walk.met);
        }
        for gap in &walk.damage {
            self.note(session, &mut session.state(), gap.range, &gap.reason);
            let found = match gap.accepted_at {
                None => &mut verified.damage,
                Some(_) => &mut verified.accepted,
            };
            found.push((session.key.clone(), gap.clone()));
        }
        let unread = walk.unread.into_iter().map(|gap| (session.key.clone(), gap));
        verified.damage.extend(unread);
        verified.sessions += 1;
        verified.events += walk.events;
        verified.bytes += walk.bytes;
        Ok(true)
    }

    /// Verifies a session and compares its chain with a receipt.
    pub(crate) fn verify_head(
        &self,
        session: &Arc<Session>,
        expected: Receipt,
    ) -> StoreResult<(Verified, Head)> {
        let mut verified = Verified::default();
        let position = expected.position;
        let mut met = Met { position, chain: None, tail: Position::ZERO };
        drop(session.visible()?);
        self.verify_session(session, &mut verified, Some(&mut met))?;
        if position < session.base() {
            met.chain = self.chain_at(session, position).ok();
        }
        let head = match met.chain {
            _ if met.tail < position => Head::Shorter { tail: met.tail },
            Some(chain) if chain.0 == expected.chain => Head::Holds,
            Some(chain) => Head::Differs { chain: chain.0 },
            None => Head::Lost,
        };
        Ok((verified, head))
    }

    /// Returns the fault of a fork's origin, if its chain differs from its parent's there. An
    /// unreadable parent reports its own damage.
    fn origin_fault(&self, session: &Arc<Session>) -> StoreResult<Option<String>> {
        let Some(origin) = &session.origin else { return Ok(None) };
        match self.chain_above(session) {
            Ok(Some(chain)) if chain != origin.chain => {
                let reason = "its parent's chain differs where it was forked";
                Ok(Some(reason.to_owned()))
            }
            Err(error @ StoreError::Io { .. }) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn verify_segment(
        &self,
        session: &Session,
        file: &SegmentEntry,
        walk: &mut Walk,
    ) -> io::Result<()> {
        let path = segment::path(session.hash, Position(file.base), file.start, file.sealed);
        let cipher = walk.cipher.clone();
        let found = || -> Result<(Scan, Option<Fault>), LogError> {
            let handle = self.context.env.storage.open_read(&path)?;
            handle.evict()?;
            let header = SegmentHeader::read(&*handle)?;
            let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
            if header.session != session.hash || header.base.0 != file.base {
                return Err(wrong(Fault::Misplaced));
            }
            header.check_key(cipher.as_ref().map(|cipher| cipher.number())).map_err(wrong)?;
            let (end, tables) = match file.sealed {
                false => (file.bytes, None),
                true => match Sealed::read(&*handle, &header, file.bytes, cipher.as_deref()) {
                    Ok(_) => (seal::frames_end(&*handle, &header, file.bytes)?, None),
                    Err(LogError::Fault { fault, .. }) => (file.bytes, Some(fault)),
                    Err(error) => return Err(error),
                },
            };
            Ok((scan_file(&*handle, header.salt, FRAMES_AT, end)?, tables))
        };
        match found() {
            Ok((found, tables)) => {
                walk.bytes += file.bytes;
                walk.segment(found, tables, file, &path);
            }
            Err(LogError::Io(error)) if !is_of_the_file(&error) => return Err(error),
            Err(error) => {
                let range = walk.skip(file);
                walk.note_gap(range, format!("{path}: {error}"), error.is_unreadable());
            }
        }
        Ok(())
    }
}

impl Walk {
    /// Continues after an unreadable segment; returns its range.
    fn skip(&mut self, file: &SegmentEntry) -> Range {
        (self.position, self.chain) = (Position(file.end), UNKNOWN);
        Range::new(Position(file.base), Position(file.end))
    }

    /// Verifies the frames of a segment; missing positions between or after them are damage.
    fn segment(&mut self, found: Scan, tables: Option<Fault>, file: &SegmentEntry, path: &str) {
        let mut wrong = None;
        for piece in found.pieces {
            match piece {
                ScanPiece::Bad { byte_offset, fault, .. } => {
                    wrong.get_or_insert((byte_offset, fault));
                }
                ScanPiece::Frame { frame, byte_offset } => {
                    let first = frame.header.first_position;
                    if let Some(wrong) = wrong.take() {
                        self.wrong(Range::new(self.position.min(first), first), path, wrong);
                    }
                    let header = frame.header;
                    match frame.decrypt(self.cipher.clone().as_deref()) {
                        Ok(frame) => self.records(frame),
                        Err(fault) => {
                            self.damaged(
                                header.range(),
                                format!("{path} at byte {byte_offset}: {fault}"),
                            );
                            self.position = header.range().to;
                            self.chain = UNKNOWN;
                        }
                    }
                }
            }
        }
        let end = Position(file.end);
        // If every event was found, the bytes after them are the tables.
        let rest = match self.position == end {
            true => tables.or(found.rest),
            false => found.rest.or(tables),
        };
        let wrong = wrong.or(rest.map(|fault| (found.end, fault)));
        let range = Range::new(self.position.min(end), end);
        match wrong {
            Some(wrong) => self.wrong(range, path, wrong),
            None if self.position != end => {
                self.damaged(range, format!("{path} ends too early"));
            }
            None => {}
        }
        if self.position != end {
            (self.position, self.chain) = (end, UNKNOWN);
        }
    }

    fn records(&mut self, frame: Frame) {
        let header = frame.header;
        pace::steps(1 + header.length as usize / BYTES_OF_A_STEP);
        let gaps = &mut self.damage.iter().chain(&self.unread);
        let known = gaps.any(|gap| gap.range.to == header.first_position);
        let follows = header.first_position == self.position && header.chain == self.chain;
        if !follows && !known && self.chain != UNKNOWN {
            let range = Range::new(self.position.min(header.first_position), header.range().to);
            self.damaged(range, Fault::Chain.to_string());
        }
        (self.position, self.chain) = (header.first_position, header.chain);
        self.note_chain();
        if known {
            // The lost records may include control records.
            self.control_chain = header.control_chain;
        }
        let records: Vec<(Lsn, _)> = match frame.records() {
            Ok(records) => records,
            Err(fault) => {
                self.damaged(header.range(), fault.to_string());
                self.position = header.range().to;
                self.chain = UNKNOWN;
                return;
            }
        };
        for (lsn, record) in &records {
            if record.is_event() {
                if record.is_redacted() && !is_redacted(&self.redacted, self.position) {
                    let range = Range::new(self.position, self.position.plus(1));
                    self.damaged(
                        range,
                        "its body is gone, and no redaction is recorded".to_owned(),
                    );
                }
                self.chain = self.chain.after(self.position.0, record);
                self.position = self.position.plus(1);
                self.events += 1;
                self.note_chain();
            } else {
                self.control_chain = self.control_chain.after(lsn.0, record);
            }
        }
    }

    /// Stores the chain value if the current position is the wanted one.
    fn note_chain(&mut self) {
        if self.wanted == Some(self.position) && self.chain != UNKNOWN {
            self.met = Some(self.chain);
        }
    }

    fn end(&mut self, entry: &Entry) {
        let whole = self.position.0 == entry.tail
            && self.chain.0 == entry.chain
            && self.control_chain.0 == entry.control_chain;
        let told = self.damage.iter().any(|gap| gap.accepted_at.is_none());
        if !whole && !told && self.unread.is_empty() {
            let range = Range::new(self.position, Position(entry.tail));
            let reason = "the chain does not end where the catalogue says".to_owned();
            self.damaged(range, reason);
        }
    }

    fn wrong(&mut self, range: Range, path: &str, (byte_offset, fault): (u64, Fault)) {
        let reason = format!("{path} at byte {byte_offset}: {fault}");
        self.note_gap(range, reason, fault == Fault::Unreadable);
    }

    fn damaged(&mut self, range: Range, reason: String) {
        self.note_gap(range, reason, false);
    }

    fn note_gap(&mut self, range: Range, reason: String, unread: bool) {
        if !self.damage.iter().any(|gap| gap.range.holds(range)) {
            let gaps = if unread { &mut self.unread } else { &mut self.damage };
            gaps.push(Gap { range, reason, accepted_at: None });
        }
    }
}

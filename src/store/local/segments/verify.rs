//! Reads every frame of a session and follows its chains from their start. It must not change a
//! file, nor trust index or footer.

use std::{io, sync::Arc};

use super::super::{layout::concerns_one_file, session::LoadedSession};
use super::{Segments, read::missing_key_gap};
use crate::{
    event::{Position, Range, SessionHash},
    log::{
        ChainValue, Cipher, Fault, LogError, SegmentEntry,
        scan::{RegionScan, ScanPiece, scan_file},
        seal::{self, SealedTables},
        segment::{self, FRAMES_AT, SegmentHeader},
    },
    store::{
        ChainReceipt, ReceiptState, SessionGap, StoreError, StoreResult, VerifyResult,
        rules::{ChainWalk, UNKNOWN_CHAIN},
    },
};

/// Progress of a verification: a position, and the chain values there.
pub(crate) struct ReceiptCheck {
    position: Position,
    /// Event chain at the position; `None` if unknown.
    chain: Option<ChainValue>,
    tail: Position,
}

impl Segments {
    /// Verifies one session and adds the findings. If a segment is replaced meanwhile, the session
    /// is read again. Unreadable bytes are reported like damage, but not recorded, since a later
    /// read may succeed. Returns other errors of the file system.
    pub(crate) fn verify_session(
        &self,
        session: &Arc<LoadedSession>,
        verified: &mut VerifyResult,
        mut met: Option<&mut ReceiptCheck>,
    ) -> StoreResult<Option<io::Error>> {
        loop {
            let mut refused = Vec::new();
            if self.verify_once(session, verified, &mut refused, met.as_deref_mut())? {
                let found = refused.iter().map(|(range, error): &(Range, io::Error)| {
                    let gap =
                        SessionGap { range: *range, reason: error.to_string(), accepted_at: None };
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
        session: &Arc<LoadedSession>,
        verified: &mut VerifyResult,
        refused: &mut Vec<(Range, io::Error)>,
        met: Option<&mut ReceiptCheck>,
    ) -> StoreResult<bool> {
        let cipher;
        let (entry, memory) = {
            // A hidden session that forks read is verified, too.
            let kept =
                session.lock_for_forks().filter(|_| self.sessions.is_read_by_forks(session.hash));
            let mut state = kept.map_or_else(|| session.lock_visible(), Ok)?;
            if let Err(error) = self.locked_cipher(&mut state)
                && error.is_unreadable()
            {
                let gap = missing_key_gap(&state.entry, &error);
                verified.damage.push((session.key.clone(), gap));
                return Ok(true);
            }
            // Without its key no event is readable, which is recorded as damage.
            cipher = match self.client_cipher(session, &mut state) {
                Err(error @ StoreError::Io { .. }) => return Err(error),
                other => other.unwrap_or_default(),
            };
            (state.entry.clone(), state.unflushed.iter().cloned().collect::<Vec<_>>())
        };
        let wanted = met.as_ref().map(|met| met.position);
        let mut walk = ChainWalk::new(session.hash, &entry, cipher, wanted);
        if let Some(reason) = self.origin_fault(session)? {
            walk.record_damage(Range::new(walk.position, walk.position), reason);
        }
        walk.record_chain();
        for file in &entry.segments {
            if let Err(error) = self.verify_segment(session, file, &mut walk) {
                refused.push((skip_segment(&mut walk, file), error));
            }
        }
        for held in memory {
            walk.bytes += held.header.stride();
            walk.verify_records(held.to_frame());
        }
        if refused.is_empty() {
            walk.check_end(&entry);
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
            self.record_damage(session, &mut session.state(), gap.range, &gap.reason);
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
        session: &Arc<LoadedSession>,
        expected: ChainReceipt,
    ) -> StoreResult<(VerifyResult, ReceiptState)> {
        let mut verified = VerifyResult::default();
        let position = expected.position;
        let mut met = ReceiptCheck { position, chain: None, tail: Position::ZERO };
        drop(session.lock_visible()?);
        self.verify_session(session, &mut verified, Some(&mut met))?;
        if position < session.base() {
            met.chain = self.chain_at(session, position).ok();
        }
        let head = match met.chain {
            _ if met.tail < position => ReceiptState::Shorter { tail: met.tail },
            Some(chain) if chain.0 == expected.chain => ReceiptState::Holds,
            Some(chain) => ReceiptState::Differs { chain: chain.0 },
            None => ReceiptState::Lost,
        };
        Ok((verified, head))
    }

    /// Returns the fault of a fork's origin, if its chain differs from its parent's there. An
    /// unreadable parent reports its own damage.
    fn origin_fault(&self, session: &Arc<LoadedSession>) -> StoreResult<Option<String>> {
        let Some(origin) = &session.origin else { return Ok(None) };
        match self.parent_chain(session) {
            Ok(Some(chain)) if chain != origin.chain => {
                let reason = "its parent's chain differs where it was forked";
                Ok(Some(reason.to_owned()))
            }
            Err(error @ StoreError::Io { .. }) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Reads all of a segment from the device, without its index; also returns the tables of a
    /// sealed one, or their fault.
    pub(crate) fn scan_segment(
        &self,
        session: SessionHash,
        file: &SegmentEntry,
        cipher: Option<&Cipher>,
    ) -> Result<(RegionScan, Result<Option<SealedTables>, Fault>), LogError> {
        let path = segment::path(session, Position(file.base), file.start, file.sealed);
        let handle = self.context.env.storage.open_read(&path)?;
        handle.evict()?;
        let header = SegmentHeader::read(&*handle)?;
        let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
        if header.session != session || header.base.0 != file.base {
            return Err(wrong(Fault::Misplaced));
        }
        header.check_key(cipher.map(Cipher::number)).map_err(wrong)?;
        let (end, tables) = match file.sealed {
            false => (file.bytes, Ok(None)),
            true => match SealedTables::read(&*handle, &header, file.bytes, cipher) {
                Ok(tables) => (seal::frames_end(&*handle, &header, file.bytes)?, Ok(Some(tables))),
                Err(LogError::Fault { fault, .. }) => (file.bytes, Err(fault)),
                Err(error) => return Err(error),
            },
        };
        Ok((scan_file(&*handle, header.salt, FRAMES_AT, end)?, tables))
    }

    fn verify_segment(
        &self,
        session: &LoadedSession,
        file: &SegmentEntry,
        walk: &mut ChainWalk,
    ) -> io::Result<()> {
        let path = segment::path(session.hash, Position(file.base), file.start, file.sealed);
        match self.scan_segment(session.hash, file, walk.cipher.as_deref()) {
            Ok((found, tables)) => {
                walk.bytes += file.bytes;
                verify_frames(walk, found, tables.err(), file, &path);
            }
            Err(LogError::Io(error)) if !concerns_one_file(&error) => return Err(error),
            Err(error) => {
                let range = skip_segment(walk, file);
                walk.record_gap(range, format!("{path}: {error}"), error.is_unreadable());
            }
        }
        Ok(())
    }
}

/// Continues after an unreadable segment; returns its range.
fn skip_segment(walk: &mut ChainWalk, file: &SegmentEntry) -> Range {
    (walk.position, walk.chain) = (Position(file.end), UNKNOWN_CHAIN);
    Range::new(Position(file.base), Position(file.end))
}

/// Verifies the frames of a segment; missing positions between or after them are damage.
fn verify_frames(
    walk: &mut ChainWalk,
    found: RegionScan,
    tables: Option<Fault>,
    file: &SegmentEntry,
    path: &str,
) {
    let mut wrong = None;
    for piece in found.pieces {
        match piece {
            ScanPiece::Bad { byte_offset, fault, .. } => {
                wrong.get_or_insert((byte_offset, fault));
            }
            ScanPiece::Frame { frame, byte_offset } => {
                let first = frame.header.first_position;
                if let Some(wrong) = wrong.take() {
                    record_fault(walk, Range::new(walk.position.min(first), first), path, wrong);
                }
                let header = frame.header;
                match frame.decrypt(walk.cipher.clone().as_deref()) {
                    Ok(frame) => walk.verify_records(frame),
                    Err(fault) => {
                        walk.record_damage(
                            header.range(),
                            format!("{path} at byte {byte_offset}: {fault}"),
                        );
                        walk.position = header.range().to;
                        walk.chain = UNKNOWN_CHAIN;
                    }
                }
            }
        }
    }
    let end = Position(file.end);
    // If every event was found, the bytes after them are the tables.
    let rest = match walk.position == end {
        true => tables.or(found.rest),
        false => found.rest.or(tables),
    };
    let wrong = wrong.or(rest.map(|fault| (found.end, fault)));
    let range = Range::new(walk.position.min(end), end);
    match wrong {
        Some(wrong) => record_fault(walk, range, path, wrong),
        None if walk.position != end => {
            walk.record_damage(range, format!("{path} ends too early"));
        }
        None => {}
    }
    if walk.position != end {
        (walk.position, walk.chain) = (end, UNKNOWN_CHAIN);
    }
}

fn record_fault(
    walk: &mut ChainWalk,
    range: Range,
    path: &str,
    (byte_offset, fault): (u64, Fault),
) {
    let reason = format!("{path} at byte {byte_offset}: {fault}");
    walk.record_gap(range, reason, fault == Fault::Unreadable);
}

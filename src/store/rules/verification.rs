//! Follows the chains of a session's frames from their start, and compares the end with the entry.
//! It must not read a frame from its storage.

use std::sync::Arc;

use crate::{
    event::{Lsn, Position, Range, SessionHash, pace},
    log::{ChainValue, Cipher, Entry, Fault, Frame, Redaction},
    store::{SessionGap, rules::entry::is_redacted},
};

/// State of a walk along the chains.
pub(crate) struct ChainWalk {
    pub(crate) cipher: Option<Arc<Cipher>>,
    pub(crate) redacted: Vec<Redaction>,
    pub(crate) position: Position,
    pub(crate) chain: ChainValue,
    pub(crate) control_chain: ChainValue,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    pub(crate) damage: Vec<SessionGap>,
    /// Unreadable positions: they are reported and not recorded as damage.
    pub(crate) unread: Vec<SessionGap>,
    /// Position whose chain value is wanted, and that value once known.
    pub(crate) wanted: Option<Position>,
    pub(crate) met: Option<ChainValue>,
}

/// Bytes of a frame hashed per step.
const BYTES_OF_A_STEP: usize = 1 << 10;
/// Placeholder for an unknown chain value, after damage.
pub(crate) const UNKNOWN_CHAIN: ChainValue = ChainValue([0; 32]);

impl ChainWalk {
    /// Starts a walk at the first own event of a session; `origin` is the event chain there, if it
    /// is a fork.
    pub(crate) fn new(
        session: SessionHash,
        entry: &Entry,
        cipher: Option<Arc<Cipher>>,
        wanted: Option<Position>,
    ) -> Self {
        let lineage = entry.lineage.as_ref();
        let origin = lineage.map(|lineage| (Position(lineage.position), ChainValue(lineage.chain)));
        let start = || (Position::ZERO, ChainValue::start_of_events(session));
        let (position, chain) = origin.unwrap_or_else(start);
        Self {
            cipher,
            redacted: entry.redacted.clone(),
            position,
            chain,
            control_chain: ChainValue::start_of_controls(session),
            events: 0,
            bytes: 0,
            damage: entry.gaps(),
            unread: Vec::new(),
            wanted,
            met: None,
        }
    }

    /// Verifies the records of the next frame, in plaintext.
    pub(crate) fn verify_records(&mut self, frame: Frame) {
        let header = frame.header;
        pace::steps(1 + header.length as usize / BYTES_OF_A_STEP);
        let gaps = &mut self.damage.iter().chain(&self.unread);
        let is_known = gaps.any(|gap| gap.range.to == header.first_position);
        let follows = header.first_position == self.position && header.chain == self.chain;
        let is_lost = self.chain == UNKNOWN_CHAIN;
        if !follows && !is_known && !is_lost {
            let range = Range::new(self.position.min(header.first_position), header.range().to);
            self.record_damage(range, Fault::Chain.to_string());
        }
        (self.position, self.chain) = (header.first_position, header.chain);
        self.record_chain();
        if is_known || is_lost {
            // The lost records may include control records.
            self.control_chain = header.control_chain;
        }
        let records: Vec<(Lsn, _)> = match frame.records() {
            Ok(records) => records,
            Err(fault) => {
                self.record_damage(header.range(), fault.to_string());
                self.position = header.range().to;
                self.chain = UNKNOWN_CHAIN;
                return;
            }
        };
        for (lsn, record) in &records {
            if record.is_event() {
                if record.is_redacted() && !is_redacted(&self.redacted, self.position) {
                    let range = Range::new(self.position, self.position.plus(1));
                    self.record_damage(
                        range,
                        "its body is gone, and no redaction is recorded".to_owned(),
                    );
                }
                self.chain = self.chain.with_record(self.position.0, record);
                self.position = self.position.plus(1);
                self.events += 1;
                self.record_chain();
            } else {
                self.control_chain = self.control_chain.with_record(lsn.0, record);
            }
        }
    }

    /// Stores the chain value if the current position is the wanted one.
    pub(crate) fn record_chain(&mut self) {
        if self.wanted == Some(self.position) && self.chain != UNKNOWN_CHAIN {
            self.met = Some(self.chain);
        }
    }

    /// Compares the end of the chains with the entry of the session.
    pub(crate) fn check_end(&mut self, entry: &Entry) {
        let whole = self.position.0 == entry.tail
            && self.chain.0 == entry.chain
            && self.control_chain.0 == entry.control_chain;
        let has_open_gap = self.damage.iter().any(|gap| gap.accepted_at.is_none());
        if !whole && !has_open_gap && self.unread.is_empty() {
            let range = Range::new(self.position, Position(entry.tail));
            let reason = "the chain does not end where the catalogue says".to_owned();
            self.record_damage(range, reason);
        }
    }

    /// Records a damaged range once.
    pub(crate) fn record_damage(&mut self, range: Range, reason: String) {
        self.record_gap(range, reason, false);
    }

    /// Records a missing range once; `unread` is true if a later read may succeed.
    pub(crate) fn record_gap(&mut self, range: Range, reason: String, unread: bool) {
        if !self.damage.iter().any(|gap| gap.range.contains_range(range)) {
            let gaps = if unread { &mut self.unread } else { &mut self.damage };
            gaps.push(SessionGap { range, reason, accepted_at: None });
        }
    }
}

//! Effect of a durable frame on the entry of its session. A running engine takes the effect from
//! the decision that built the frame; a replay reads it from the frame's records. [`apply`] serves
//! both. It must not check that the frame is valid.

use super::names::{StoredId, repeatable_names};
use crate::{
    event::{Lsn, Position, Timestamp},
    log::{ChainValue, Control, Entry, FrameHeader, KnownBatch, Record},
};

/// Effect of a frame on its session once it is durable.
#[derive(Debug)]
pub(crate) struct FrameEffect {
    /// The end of the session after the frame.
    pub(crate) tail: Position,
    pub(crate) chain: ChainValue,
    pub(crate) control_chain: ChainValue,
    /// The log sequence number after the frame's last record.
    pub(crate) end_lsn: Lsn,
    /// Time at which its records were written.
    pub(crate) at: Timestamp,
    /// True if it has no event: the session was not worked in. A title, the archive, a note, a
    /// lease and a redaction are no work.
    pub(crate) aside: bool,
    /// True if it is a note that no caller requested: the session was not used.
    pub(crate) idle: bool,
    /// Bytes of its events' bodies.
    pub(crate) weight: u64,
    /// Its control records in their order, each with its number.
    pub(crate) controls: Vec<(Lsn, Control)>,
    /// Names of its events, in their order. A replay omits them: the tables of names are read from
    /// the frames when the session is opened.
    pub(crate) names: Vec<StoredId>,
}

impl FrameEffect {
    /// Reads the effect of a frame from its records.
    pub(crate) fn from_records(header: &FrameHeader, records: &[(Lsn, Record)]) -> Self {
        let mut effect = Self {
            tail: header.first_position,
            chain: header.chain,
            control_chain: header.control_chain,
            end_lsn: header.end_lsn(),
            at: Timestamp(i64::MIN),
            aside: true,
            idle: true,
            weight: 0,
            controls: Vec::new(),
            names: Vec::new(),
        };
        for (lsn, record) in records {
            effect.at = effect.at.max(record.processed_at());
            if record.is_event() {
                (effect.aside, effect.idle) = (false, false);
                effect.weight += record.session_bytes();
                effect.chain = effect.chain.with_record(effect.tail.0, record);
                effect.tail = effect.tail.plus(1);
                continue;
            }
            effect.control_chain = effect.control_chain.with_record(lsn.0, record);
            let control = record.to_control();
            effect.weight += control.as_ref().map_or(0, Control::client_bytes);
            effect.idle &= matches!(&control, Some(Control::Note(note)) if note.idle);
            effect.controls.extend(control.map(|control| (*lsn, control)));
        }
        effect
    }

    /// Returns true if its frame creates the session.
    pub(crate) fn is_creation(&self) -> bool {
        matches!(self.controls.first(), Some((_, Control::Create(_))))
    }

    /// Returns the batch that its frame registers under a key.
    pub(crate) fn batch(&self) -> Option<&KnownBatch> {
        self.controls.iter().find_map(|(_, control)| match control {
            Control::Batch(batch) => Some(batch),
            _ => None,
        })
    }

    /// Returns the number of notes in its frame.
    pub(super) fn note_count(&self) -> u64 {
        self.controls.iter().filter(|(_, control)| matches!(control, Control::Note(_))).count()
            as u64
    }

    /// Returns true if requests that depend on the session itself wait for it: they do not depend
    /// on a note or a new title.
    pub(super) fn blocks_requests(&self) -> bool {
        self.controls.iter().any(|(_, control)| match control {
            Control::Note(_) | Control::Batch(_) => false,
            Control::Change(change) => !change.is_metadata_only(),
            _ => true,
        })
    }

    /// Returns true if it hides the session from readers.
    pub(super) fn hides_session(&self) -> bool {
        self.controls.iter().any(|(_, control)| match control {
            Control::Change(change) => change.delete || change.life.expire,
            Control::Erase(_) => true,
            _ => false,
        })
    }

    /// Returns the names it registers that a caller may repeat: event ids and the batch key.
    pub(crate) fn given_names(&self) -> impl Iterator<Item = [u8; 16]> {
        repeatable_names(&self.names, self.batch())
    }

    /// Returns true if it equals another effect, except for names.
    #[cfg(feature = "tests")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let end = |one: &Self| (one.tail, one.chain, one.control_chain, one.end_lsn);
        let says = |one: &Self| (one.at, one.aside, one.idle, one.weight);
        (end(self), says(self), &self.controls) == (end(other), says(other), &other.controls)
    }
}

/// Applies the effect of a durable frame to the entry of its session, at that count of time.
///
/// # Panics
/// When the frame ends before the entry does: it was applied already, or the entry is another
/// session's.
pub(crate) fn apply(entry: &mut Entry, effect: &FrameEffect, counted: Timestamp) {
    assert!(entry.end_lsn <= effect.end_lsn.0, "a frame is applied once, in order");
    debug_assert!(
        effect.controls.iter().all(|(lsn, _)| *lsn < effect.end_lsn),
        "a frame ends after its last control record"
    );
    let used = match (effect.is_creation(), effect.idle) {
        (true, _) => counted,
        (false, true) => entry.used_at(),
        (false, false) => counted.max(entry.used_at()),
    };
    entry.tail = effect.tail.0;
    entry.end_lsn = effect.end_lsn.0;
    entry.chain = effect.chain.0;
    entry.control_chain = effect.control_chain.0;
    if !effect.aside {
        entry.updated_at = entry.updated_at.max(effect.at.0);
    }
    entry.record_use(used);
    entry.bytes += effect.weight;
    for (lsn, control) in &effect.controls {
        entry.apply_control(*lsn, control, effect.at);
    }
    debug_assert_eq!(
        (entry.tail, entry.end_lsn, entry.chain),
        (effect.tail.0, effect.end_lsn.0, effect.chain.0),
        "no control record moves the end of its session"
    );
}

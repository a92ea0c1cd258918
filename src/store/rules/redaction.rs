//! Removes the content of redacted events from records that are stored anew. It must not write.

use super::entry::is_redacted;
use crate::{
    event::{Lsn, Position, Timestamp},
    log::{Control, KnownBatch, Record, Redaction},
};

/// Removes the bodies of redacted events from records, the first event at `base`, and
/// the digests of their batches, which would confirm a guess at the content. Returns these batches,
/// whose keys stay valid.
pub(crate) fn redact_records(
    base: Position,
    records: &mut [(Lsn, Record)],
    redacted: &[Redaction],
) -> Vec<(Timestamp, KnownBatch)> {
    let (mut position, mut known) = (base, Vec::new());
    for (_, record) in records.iter_mut().filter(|_| !redacted.is_empty()) {
        if record.is_event() {
            if is_redacted(redacted, position) {
                record.redact();
            }
            position = position.plus(1);
        } else if let Some(Control::Batch(batch)) = record.to_control()
            && redacted.iter().any(|one| batch.contains_position(Position(one.position)))
        {
            known.push((record.processed_at(), batch.without_digest()));
            record.redact();
        }
    }
    known
}

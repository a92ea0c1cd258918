//! Lookup of a session's events by id, and of a batch by its key. Most ids are minted by the store
//! and rarely looked up: they are hashed only at the next lookup. It must not read files.

use std::collections::HashMap;

use crate::{
    event::{Lsn, Position, Range, Timestamp},
    log::{Control, KnownBatch, Record, segment::name_hash},
    store::rules::{FrameEffect, StoredId, names::event_id_from_bits},
};

/// Event ids with their positions, and batches by key.
#[derive(Default)]
pub(crate) struct SessionNames {
    ids: HashMap<[u8; 16], Position>,
    /// Minted ids that are not in `ids` yet.
    later: Vec<([u8; 16], Position)>,
    pub(crate) batches: HashMap<String, (Timestamp, KnownBatch)>,
}

impl SessionNames {
    /// Adds the names of a frame's records, the first event of which is at `first`.
    pub(crate) fn add(&mut self, first: Position, records: &[(Lsn, Record)]) {
        let mut position = first;
        for (_, record) in records {
            if record.is_event() {
                self.ids.insert(name_hash(record.id()), position);
                position = position.plus(1);
            } else if let Some(Control::Batch(batch)) = record.to_control() {
                self.batches.insert(batch.key.clone(), (record.processed_at(), batch));
            }
        }
    }

    /// Adds the names of a frame that became durable.
    pub(crate) fn add_frame(&mut self, first: Position, effect: &FrameEffect) {
        for (n, name) in (0..).zip(&effect.names) {
            let position = first.plus(n);
            match *name {
                StoredId::Given(hash) => drop(self.ids.insert(hash, position)),
                StoredId::Minted(bits) => self.later.push((bits, position)),
            }
        }
        if let Some(batch) = effect.batch() {
            self.batches.insert(batch.key.clone(), (effect.at, batch.clone()));
        }
    }

    /// Returns the position of the event with that id hash.
    pub(crate) fn find(&mut self, hash: &[u8; 16]) -> Option<Position> {
        let later = self.later.drain(..);
        self.ids.extend(later.map(|(bits, at)| (name_hash(event_id_from_bits(bits).as_str()), at)));
        self.ids.get(hash).copied()
    }

    /// Removes the ids of events that are in the table of a sealed segment now.
    pub(crate) fn remove_ids(&mut self, range: Range) {
        self.ids.retain(|_, position| !range.contains(*position));
        self.later.retain(|(_, position)| !range.contains(*position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rules::names::mint_event_id;

    #[test]
    fn a_minted_id_maps_to_the_position_of_its_event() {
        let (id, name) = mint_event_id(Timestamp(1_700_000_000_000_000), [7; 10]);
        assert_eq!(id.as_str(), "evt_018bcfe56800770787070707070707070"[..36].to_owned());
        let StoredId::Minted(bits) = name else { panic!("minted ids are kept as bits") };
        let mut names =
            SessionNames { later: vec![(bits, Position(3))], ..SessionNames::default() };
        assert_eq!(names.find(&name_hash(id.as_str())), Some(Position(3)));
        assert_eq!(names.find(&name_hash("evt_other")), None);
    }

    /// Returns the names of eight events, given and minted by turns.
    fn eight_names() -> (SessionNames, Vec<[u8; 16]>) {
        let (mut names, mut hashes) = (SessionNames::default(), Vec::new());
        for n in 0..8 {
            let (id, name) = mint_event_id(Timestamp(1_700_000_000_000_000), [n; 10]);
            let hash = name_hash(id.as_str());
            match name {
                StoredId::Minted(bits) if n % 2 == 0 => {
                    names.later.push((bits, Position(n.into())))
                }
                _ => drop(names.ids.insert(hash, Position(n.into()))),
            }
            hashes.push(hash);
        }
        (names, hashes)
    }

    #[test]
    fn only_ids_in_the_table_of_a_sealed_segment_are_removed() {
        for looked_before in [false, true] {
            for (from, to) in [(0, 0), (0, 8), (2, 5), (3, 4), (4, 5), (7, 9), (8, 20)] {
                let (mut names, hashes) = eight_names();
                if looked_before {
                    let _ = names.find(&[0; 16]);
                }
                names.remove_ids(Range::new(Position(from), Position(to)));
                let kept = names.ids.len() + names.later.len();
                let found = hashes.iter().map(|hash| names.find(hash));
                let found: Vec<_> = found.map(|at| at.map(|at| at.0)).collect();
                let left = |at: u64| Some(at).filter(|at| !(from..to).contains(at));
                let wanted: Vec<_> = (0..8).map(left).collect();
                assert_eq!(found, wanted, "{from}..{to}, looked before: {looked_before}");
                assert_eq!(
                    kept,
                    wanted.iter().flatten().count(),
                    "what is forgotten takes no room"
                );
            }
        }
    }
}

//! Cache of decoded events that were read recently, so that a later read finds them in memory.
//! Bounded in bytes for the whole store. A cache: dropping any of it changes
//! nothing but time. It must not answer for a session of which something is lost.

use std::{
    collections::hash_map::DefaultHasher, hash::BuildHasherDefault, mem::size_of, sync::Arc,
};

use bytes::Bytes;
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};

use super::super::session::opened::read_frame;
use crate::{
    event::{Event, Position, Range, SessionHash},
    log::{Cipher, Fault, segment::FrameIndex},
};

/// Parts of the cache with a lock of their own; the same on every machine, so that a seed replays
/// a run there too.
const SHARDS: usize = 8;
/// Usual bytes of a group: only the number of places kept ready depends on it.
const GROUP_BYTES_USUAL: usize = 64 << 10;
/// Bytes of an event beside its body: its fixed fields, decoded and encoded, and its id.
const EVENT_BYTES: usize = size_of::<Event>() + 192;
/// Bytes of an event that no compression makes smaller.
const SALT_BYTES: usize = 16;

/// Start of a group: the salt of its file, unique to one use of one file, and the byte offset.
/// Those bytes are never written again, so that a group can only grow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupPlace {
    pub(crate) salt: u64,
    pub(crate) byte_offset: u64,
}

/// Frames that lie side by side in a segment, whole, as their events.
pub(crate) struct Group {
    pub(crate) events: Vec<Event>,
    /// Number of its frames.
    pub(crate) frames: usize,
    /// Bytes of the memory that the bodies share.
    bytes: usize,
}

impl Group {
    /// The events of `frames`, from the bytes of the file that start with the first of them.
    ///
    /// # Errors
    /// The fault of the first frame that is not whole.
    pub(crate) fn decode(
        session: (SessionHash, Option<&Cipher>),
        salt: u64,
        frames: &[FrameIndex],
        bytes: &Bytes,
    ) -> Result<Self, Fault> {
        let everything = Range::new(Position::ZERO, Position(u64::MAX));
        let from = frames.first().map_or(0, |frame| frame.byte_offset);
        let count: usize = frames.iter().map(|frame| frame.events as usize).sum();
        // Whatever an index says: no event takes less room in a file than its salt or its digest.
        let events = Vec::with_capacity(count.min(bytes.len() / SALT_BYTES));
        let mut group = Self { events, frames: frames.len(), bytes: bytes.len() };
        for index in frames {
            let frame = read_frame(session, salt, index, from, bytes)?;
            let before = group.events.len();
            frame.events(everything, &mut group.events)?;
            if frame.header.compressed || session.1.is_some() {
                let new = group.events.iter().skip(before);
                group.bytes += new.map(|event| event.body.len()).sum::<usize>();
            }
        }
        Ok(group)
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<GroupPlace, Arc<Group>> for Weight {
    fn weight(&self, _: &GroupPlace, group: &Arc<Group>) -> u64 {
        (group.bytes + group.events.len() * EVENT_BYTES) as u64
    }
}

/// The groups that were read recently.
pub(crate) struct ReadCache(
    Cache<GroupPlace, Arc<Group>, Weight, BuildHasherDefault<DefaultHasher>>,
);

impl ReadCache {
    /// An empty cache for groups of `bytes_max` bytes together; 0 keeps nothing.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(bytes_max / GROUP_BYTES_USUAL)
            .weight_capacity(bytes_max as u64)
            .build()
            .expect("both capacities are said");
        let (hasher, lifecycle) = (BuildHasherDefault::default(), Default::default());
        Self(Cache::with_options(options, Weight, hasher, lifecycle))
    }

    /// The group at a place, if it has at least `frames` frames.
    pub(crate) fn get(&self, place: GroupPlace, frames: usize) -> Option<Arc<Group>> {
        self.0.get(&place).filter(|group| group.frames >= frames)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// Inserts a group.
    pub(crate) fn insert(&self, place: GroupPlace, group: &Arc<Group>) {
        self.0.insert(place, Arc::clone(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ReadCache {
        /// For tests of the engine.
        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
}

//! Cache of decoded events that were read recently, so that a later read finds them in memory.
//! Bounded in bytes for the whole store. It must not be used for a session with lost events.

use std::{
    collections::hash_map::DefaultHasher, hash::BuildHasherDefault, mem::size_of, sync::Arc,
};

use bytes::Bytes;
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};

use super::super::session::opened::decode_frame;
use crate::{
    event::{Event, Position, Range, SessionHash},
    log::{Cipher, Fault, segment::FrameIndex},
};

/// Parts of the cache with separate locks; constant, so that a seed replays a test run on every
/// machine.
const SHARDS: usize = 8;
/// Usual bytes of a group, from which the initial capacity is estimated.
const GROUP_BYTES_USUAL: usize = 64 << 10;
/// Bytes of an event in addition to its body: its fixed fields, decoded and encoded, and its id.
const EVENT_BYTES: usize = size_of::<Event>() + 192;
/// Bytes of an event that cannot be compressed.
const SALT_BYTES: usize = 16;

/// Start of a group: the salt of its file, unique to one use of one file, and the byte offset.
/// Those bytes are never rewritten, so a group can only grow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) salt: u64,
    pub(crate) byte_offset: u64,
}

/// Decoded events of adjacent frames of a segment.
pub(crate) struct FrameGroup {
    pub(crate) events: Vec<Event>,
    /// Number of frames.
    pub(crate) frames: usize,
    /// Number of bytes of memory that the bodies take.
    bytes: usize,
}

impl FrameGroup {
    /// Decodes the events of `frames` from the bytes of the file, which start with the first frame.
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
        // Bounded regardless of the index: an event takes at least the bytes of its salt in a file.
        let events = Vec::with_capacity(count.min(bytes.len() / SALT_BYTES));
        let mut group = Self { events, frames: frames.len(), bytes: bytes.len() };
        for index in frames {
            let frame = decode_frame(session, salt, index, from, bytes)?;
            let before = group.events.len();
            frame.append_events(everything, &mut group.events)?;
            if frame.header.compressed || session.1.is_some() {
                let new = group.events.iter().skip(before);
                group.bytes += new.map(|event| event.body.len()).sum::<usize>();
            }
        }
        Ok(group)
    }
}

#[derive(Clone)]
struct GroupWeigher;

impl Weighter<GroupKey, Arc<FrameGroup>> for GroupWeigher {
    fn weight(&self, _: &GroupKey, group: &Arc<FrameGroup>) -> u64 {
        (group.bytes + group.events.len() * EVENT_BYTES) as u64
    }
}

/// Cache of recently read groups.
pub(crate) struct ReadCache(
    Cache<GroupKey, Arc<FrameGroup>, GroupWeigher, BuildHasherDefault<DefaultHasher>>,
);

impl ReadCache {
    /// Returns an empty cache with a capacity of `bytes_max` bytes; 0 disables it.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(bytes_max / GROUP_BYTES_USUAL)
            .weight_capacity(bytes_max as u64)
            .build()
            .expect("both capacities are said");
        let (hasher, lifecycle) = (BuildHasherDefault::default(), Default::default());
        Self(Cache::with_options(options, GroupWeigher, hasher, lifecycle))
    }

    /// Returns the group that starts at a location, if it has at least `frames` frames.
    pub(crate) fn get(&self, place: GroupKey, frames: usize) -> Option<Arc<FrameGroup>> {
        self.0.get(&place).filter(|group| group.frames >= frames)
    }

    /// Removes all groups.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn insert(&self, place: GroupKey, group: &Arc<FrameGroup>) {
        self.0.insert(place, Arc::clone(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ReadCache {
        /// Returns true if no group is cached; for tests of the engine.
        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
}

//! What large answers take in memory, all together, and what large requests take: room is asked for
//! before one is read and given back when its last byte has left, or when it is answered. A client
//! that never reads, or never stops sending, keeps its share only. A later request waits for a
//! while and is then refused as retryable. It must not know a route.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refuse::Refusal;
use crate::service::{Code, ServiceError};

/// Room is counted in units of so many bytes.
const UNIT: usize = 1 << 10;

/// The room for all of a kind.
pub(super) struct Room {
    units: Arc<Semaphore>,
    all: u32,
    patience: Duration,
    full: Full,
}

/// What is said when there is none.
pub(super) struct Full {
    pub(super) problem: &'static str,
    pub(super) action: &'static str,
}

/// Answers that their clients have not read yet.
pub(super) const ANSWERS: Full = Full {
    problem: "the answers that clients have not read yet take all the room there is",
    action: "come back later, or ask for fewer events at once",
};

/// Requests that are still being sent, or not answered yet.
pub(super) const BODIES: Full = Full {
    problem: "the requests that are under way take all the room there is",
    action: "come back later, or send fewer events at once",
};

/// Parts of streams that clients have not taken yet.
pub(super) const STREAMS: Full = Full {
    problem: "the streams that clients do not read take all the room there is",
    action: "come back later",
};

/// Room for one of them.
pub(super) struct Held(OwnedSemaphorePermit);

impl Room {
    pub(super) fn new(bytes: usize, patience: Duration, full: Full) -> Self {
        let all = units(bytes);
        Self { units: Arc::new(Semaphore::new(all as usize)), all, patience, full }
    }

    /// Room for so many bytes, or for all there is when it is less: that one goes alone.
    pub(super) async fn ask(&self, bytes: usize) -> Result<Held, Refusal> {
        let wanted = units(bytes).min(self.all);
        // Mostly there is room, and no timer is needed.
        if let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(wanted) {
            return Ok(Held(permit));
        }
        let wanted = Arc::clone(&self.units).acquire_many_owned(wanted);
        if let Ok(Ok(permit)) = tokio::time::timeout(self.patience, wanted).await {
            return Ok(Held(permit));
        }
        let Full { problem, action } = self.full;
        let mut error = ServiceError::new(Code::LimitReached, problem).action(action);
        error.hint.retryable = true;
        Err(error.into())
    }

    /// Room for so many bytes when there is so much just now.
    pub(super) fn now(&self, bytes: usize) -> Option<Held> {
        let wanted = units(bytes).min(self.all);
        Arc::clone(&self.units).try_acquire_many_owned(wanted).ok().map(Held)
    }

    /// Room for so many bytes, however long that takes.
    pub(super) async fn wait(&self, bytes: usize) -> Option<Held> {
        let wanted = units(bytes).min(self.all);
        Arc::clone(&self.units).acquire_many_owned(wanted).await.ok().map(Held)
    }

    /// Makes it room for so many bytes, when there is so much just now.
    pub(super) fn grow(&self, held: &mut Held, bytes: usize) -> bool {
        let wanted = units(bytes).min(self.all) as usize;
        let Some(more) = wanted.checked_sub(held.0.num_permits()).filter(|more| *more > 0) else {
            return true;
        };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        match Arc::clone(&self.units).try_acquire_many_owned(more) {
            Ok(permit) => held.0.merge(permit),
            Err(_) => return false,
        }
        true
    }
}

impl Held {
    /// The answer, which takes no more room than it needs until its last byte has left.
    pub(super) fn answer(mut self, bytes: Vec<u8>) -> Bytes {
        let needed = self.0.num_permits().min(units(bytes.capacity()) as usize);
        let _room = self.0.split(needed);
        Bytes::from_owner(BytesInRoom { bytes, _room })
    }
}

/// The bytes and the room they take, dropped together.
struct BytesInRoom {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for BytesInRoom {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

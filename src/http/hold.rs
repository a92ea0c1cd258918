//! What large answers take in memory, all together: room is asked for before an answer is read
//! and given back when its last byte has left. A client that never reads keeps its share only, and
//! who comes later waits for a while and is then told to come back. It must not know a route.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refuse::Refusal;
use crate::service::{Code, ServiceError};

/// Room is counted in units of so many bytes.
const UNIT: usize = 1 << 10;

/// The room for all answers.
pub(super) struct Room {
    units: Arc<Semaphore>,
    all: u32,
    patience: Duration,
}

/// Room for one answer.
pub(super) struct Held(OwnedSemaphorePermit);

impl Room {
    pub(super) fn new(bytes: usize, patience: Duration) -> Self {
        let all = units(bytes);
        Self { units: Arc::new(Semaphore::new(all as usize)), all, patience }
    }

    /// Room for so many bytes, or for all there is when it is less: such an answer goes alone.
    pub(super) async fn ask(&self, bytes: usize) -> Result<Held, Refusal> {
        let wanted = Arc::clone(&self.units).acquire_many_owned(units(bytes).min(self.all));
        if let Ok(Ok(permit)) = tokio::time::timeout(self.patience, wanted).await {
            return Ok(Held(permit));
        }
        let problem = "the answers that clients have not read yet take all the room there is";
        let mut error = ServiceError::new(Code::LimitReached, problem)
            .action("come back later, or ask for fewer events at once");
        error.hint.retryable = true;
        Err(error.into())
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
        Bytes::from_owner(Kept { bytes, _room })
    }
}

/// The bytes and the room they take, dropped together.
struct Kept {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

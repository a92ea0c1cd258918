//! Memory budgets of large answers and of large requests: space is reserved before one is read, and
//! released once its last byte is sent, or once it is answered. A client that never reads, or never
//! stops sending, keeps only its reservation. It must not depend on a route.

use crate::service::Full;
pub(super) use crate::service::{Held, Room};

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

/// Parts of streams that clients have not read yet.
pub(super) const STREAMS: Full = Full {
    problem: "the streams that clients do not read take all the room there is",
    action: "come back later",
};

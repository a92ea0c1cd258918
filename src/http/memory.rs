//! Memory budgets of large answers and requests: memory is reserved before one is read, and freed
//! once the last byte of the answer is sent, or the request is answered. A client that never reads,
//! or never stops sending, keeps only its reservation. It must not depend on a route.

use crate::service::BudgetFull;
pub(super) use crate::service::{MemoryBudget, Reservation};

/// Error when answers that clients have not read yet use all memory of their budget.
pub(super) const ANSWERS: BudgetFull = BudgetFull {
    problem: "the answers that clients have not read yet take all the room there is",
    action: "come back later, or ask for fewer events at once",
};

/// Error when unanswered requests use all memory of their budget.
pub(super) const BODIES: BudgetFull = BudgetFull {
    problem: "the requests that are under way take all the room there is",
    action: "come back later, or send fewer events at once",
};

/// Error when unread parts of streams use all memory of their budget.
pub(super) const STREAMS: BudgetFull = BudgetFull {
    problem: "the streams that clients do not read take all the room there is",
    action: "come back later",
};

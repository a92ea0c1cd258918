//! The rules of a session, the same for every engine: the decision on a request, the effect of a
//! frame on the entry of its session, and the description of an entry for callers. Pure functions
//! of an entry, a request and a time. It must not do I/O, hold a lock, read a clock or wait.

mod ahead;
mod answer;
mod creation;
mod decide;
mod draft;
mod effect;
pub(crate) mod entry;
mod lifetimes;
pub(crate) mod names;
mod repeat;
mod request;
mod work;

pub(crate) use ahead::{Ahead, QueuedEnd};
pub(crate) use creation::{Earlier, check_first_ids, check_name, create, minted};
pub(crate) use decide::{Decision, LookedUp, decide};
pub(crate) use draft::Draft;
pub(crate) use effect::{Effect, apply};
pub(crate) use lifetimes::LifetimeStep;
pub use lifetimes::Lifetimes;
pub(crate) use names::StoredId;
pub(crate) use repeat::{Repeated, batch_range, created_before};
pub(crate) use request::{Ask, Draw, Sees, WriteRequest};

#[cfg(test)]
mod tests;

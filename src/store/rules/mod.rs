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
mod redaction;
mod repeat;
mod request;
mod slice;
mod verification;
mod work;

pub(crate) use ahead::{PendingEnd, QueuedEnd};
pub(crate) use creation::{
    EarlierCreation, check_first_ids, check_id_is_free, creation_record, mint_session_id,
};
pub(crate) use decide::{RequestDecision, RequestFacts, decide};
pub(crate) use draft::FrameDraft;
pub(crate) use effect::{FrameEffect, apply};
pub(crate) use lifetimes::LifetimeStep;
pub use lifetimes::Lifetimes;
pub(crate) use names::StoredId;
pub(crate) use redaction::redact_records;
pub(crate) use repeat::{RepeatedBatch, answer_repeated_creation, batch_range};
#[cfg(feature = "nodes")]
pub(crate) use request::Draw;
pub(crate) use request::{SessionAccess, WriteKind, WriteRequest};
pub(crate) use slice::{SliceBuilder, clip, erased_gap, overlap};
pub(crate) use verification::{ChainWalk, UNKNOWN_CHAIN};

#[cfg(test)]
mod tests;

//! The embedded engine: every session of one data directory, owned by one process. It must not
//! know what an event means.
//!
//! The engine is made of parts; each owns its locks and calls only the parts before it: `base`,
//! `sessions` (with the journal), `segments`, `clearing`, `commit`, `upkeep`. Above them,
//! `engine` is the trait `Store`.

mod ancestry;
mod backup;
mod base;
mod catalogue;
mod clearing;
mod commit;
mod engine;
mod erase;
mod forks;
mod forward;
mod inspect;
mod journal;
mod keys;
mod layout;
mod lifetimes;
mod making;
mod mend;
mod names;
mod notes;
mod open;
mod opened;
mod options;
mod pins;
mod policy;
mod read;
mod recover;
mod redact;
mod repair;
mod reserve;
mod rest;
mod ring;
mod rotate;
mod scrub;
mod sealing;
mod segments;
mod session;
mod sessions;
mod settle;
mod slice;
mod slots;
mod strays;
mod trouble;
mod upkeep;
mod vault;
mod verify;
mod wait;
mod warm;
mod writer;

pub use engine::Local;
pub use inspect::{Inspection, InspectionLine, Versioned, inspect, versions};
pub use options::{KeyProblem, OpenError, Options};
pub use rotate::{key_ids, key_report};
pub use vault::{Incoming, NoBackup, Restored, check_backup, is_vacant, restore};

//! The engine of many nodes over one base: any node serves any session. It decides with the rules
//! of every engine on the row of a session, and changes the row only if it still is what it was
//! decided on. It must not keep anything that the base does not have, nor name a database.
//!
//! `row` reads and writes the row of a session, `plan` makes the change of a request, `lanes`
//! commit those of many requests together; `create`, `read`, `names`, `verify`, `lives` and
//! `remove` are the verbs, `changes` and `derive` serve the search, and `node` follows the other
//! nodes. `keys` has the keys of an encrypted store, and `sealed` encrypts what goes to the base.

mod changes;
mod create;
mod derive;
mod engine;
mod feed;
mod files;
mod hub;
mod keys;
mod lane;
mod lanes;
mod lives;
#[cfg(feature = "cli")]
mod migrate;
mod names;
mod node;
mod plan;
mod read;
mod remove;
mod row;
mod sealed;
mod verify;

pub use engine::RemoteStore;
#[cfg(feature = "cli")]
pub(crate) use migrate::{BaseAccess, BaseSource, BaseTarget};
pub use node::RemoteOptions;

#[cfg(feature = "tests")]
pub use super::base::memory::{MemoryBase, MemorySnapshot, Trouble};

pub use super::base::Durability;
#[cfg(feature = "postgres")]
pub use super::base::postgres::{
    DatabaseReport, PostgresUrl, UrlError, check_has_store, examine, examine_keys,
};

use std::io;

use super::{StoreError, base::BaseError};

/// Converts an error of the base.
pub(super) fn store_error(error: BaseError) -> StoreError {
    match error {
        BaseError::Unreachable(reason) => StoreError::Unreachable { reason },
        BaseError::Unsure(reason) => StoreError::OutcomeUnknown { reason },
        BaseError::Busy(_) => StoreError::Busy,
        BaseError::Full(short) => StoreError::DiskFull(short),
        BaseError::ReadOnly(reason) => StoreError::ReadOnly { reason },
        BaseError::Failed(reason) => {
            StoreError::Io { doing: "a statement of the base", source: io::Error::other(reason) }
        }
    }
}

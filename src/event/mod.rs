//! VOCABULARY: the types that every other module uses. Plain values, parsed once and then trusted.
//! It must not import another module, do I/O, or depend on how a value looks on disk or on the
//! wire.

mod bounded;
mod cost;
#[expect(clippy::module_inception, reason = "the room is named after its first word")]
mod event;
mod id;
pub mod json;
mod key;
mod kind;
pub mod kinds;
pub mod limits;
pub mod lists;
mod note;
pub mod pace;
mod point;
mod position;
pub mod text;
mod time;

pub use bounded::push_bounded;
pub use cost::Cost;
pub use event::{Batch, Event, EventRef, NewEvent, Origin};
pub use id::{
    BatchKey, ContentId, EventId, IdError, Incarnation, Scope, SessionHash, SessionId, SessionKey,
    TenantId, UserId, short_hash,
};
pub use key::KeyId;
pub use kind::EventType;
pub use note::{Fence, NewNote, Note, NoteKind};
pub use point::{Point, PointError};
pub use position::{Lsn, Position, Range};
pub use time::Timestamp;

/// Metadata that moves a session to another workspace: the pair gives its name.
pub const WORKSPACE_MOVED: &str = "sessionlog.workspace";
/// Prefix of the ids of events that hooks of an agent's program report.
pub const HOOK_ID: &str = "hook_";

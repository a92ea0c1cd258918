//! CODECS: the types of `api` and the events of a session as a client sends or receives them. JSON
//! text of events is cut and joined at the byte level (json); answers of tools that are not those
//! of a verb are here, too (tools). It must not know HTTP or MCP, and it calls no verb.

mod advice;
pub mod answer;
pub mod coerce;
pub mod convert;
pub mod handoff;
pub mod json;
mod nearest;
#[cfg(feature = "http")]
#[allow(missing_docs, unreachable_pub, reason = "generated; documented in the proto file")]
pub mod pb;
#[cfg(feature = "http")]
pub mod protobuf;
pub mod rpc;
pub mod schema;
pub mod tool_cache;
pub mod tools;
pub mod window;

/// Media type of events in protobuf.
pub const PROTOBUF: &str = "application/x-protobuf";
/// Media type of a backup.
pub const BACKUP: &str = "application/vnd.sessionlog.backup";
/// Media type of lines of JSON.
pub const NDJSON: &str = "application/x-ndjson";
/// Media type of server-sent events.
pub const SSE: &str = "text/event-stream";

#[cfg(feature = "cli")]
pub(crate) use advice::FOR_TOOLS;
pub use nearest::{edit_distance, nearest_name};

pub use crate::harness::{
    BRIEF_NOTICE, Budget, NOTICE, TOKEN_BYTES_LEAST, TOKEN_BYTES_MOST, TRUST, format_passage,
    query_words as recall_words, quote, wrap_in_frame,
};
pub use crate::projection::{SUMMARY_FRAME, body::parse_ranges, extract_typed_text};
pub use crate::service::{BEGAN_KEY, ENDED_KEY, TAIL_KEY};
pub use crate::traces::{
    CALL_INTERRUPTED, RUNNING_IN_BACKGROUND, RefusedCall, SUBAGENT_LAUNCHED, is_interruption,
    parse_refusal, refusal_comment,
};

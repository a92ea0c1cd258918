//! SHAPES: what goes over a wire, and the only Serialize for clients. JSON text of events is cut
//! and joined at the byte level (json); everything else is plain structs (types). It must not call
//! a verb and must not know HTTP or MCP.

pub mod answer;
pub mod convert;
pub mod json;
#[cfg(feature = "http")]
#[allow(missing_docs, unreachable_pub, reason = "generated; documented in the proto file")]
pub mod pb;
#[cfg(feature = "http")]
pub mod protobuf;
mod scan;
pub mod types;

//! INTERFACE: MCP, on stdio and on streamable HTTP, one handler over one backend, for both
//! generations of the protocol: `initialize` and `server/discover`. It must not decide anything
//! about a session: a tool is a verb, and `wire` defines its format.

mod backend;
mod connections;
mod conversation;
mod extract;
mod handler;
mod http;
mod lines;
mod local;
mod message_check;
mod resources;
mod stdio;

pub use extract::Extractor;
pub use handler::Handler;
pub use http::{McpHttpOptions, http_router_around, http_router_with};
pub use local::LocalSettings;
pub use stdio::{StdioError, StdioOptions, serve_stdio, serve_streams};

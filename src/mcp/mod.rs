//! INTERFACE: MCP, on stdio and on streamable HTTP, one handler over one backend, for both
//! generations of the protocol: `initialize` and `server/discover`. It must not decide anything
//! about a session: a tool is a verb, and `wire` defines its format.

mod backend;
mod connections;
mod conversation;
mod extract;
mod handler;
mod http;
mod judged;
mod lines;
mod local;
mod resources;
mod stdio;

pub use extract::Extractor;
pub use handler::Handler;
pub use http::{McpHttpOptions, http_router_around, http_router_with};
pub use local::Local;
pub use stdio::{StdioError, StdioOptions, front_end, stdio};

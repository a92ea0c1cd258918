//! Research sessions over MCP: tools called by name with JSON, answers checked as JSON. It must not
//! test decisions of a fold or a view: their own tests do.

pub mod desk;
pub mod door;

mod agents;
mod anything;
mod binding;
mod bounds;
mod cleared;
mod derived;
mod directory;
mod doors;
mod find;
mod front_end;
mod idle;
mod offered;
mod overviews;
mod protocol;
pub mod server;
mod steps;
mod unanswered;
mod wake;

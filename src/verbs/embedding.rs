//! What makes vectors of texts, for the room that reaches a server which does. It must not choose
//! what is sent.

pub use crate::service::{EmbedError, Embedder};

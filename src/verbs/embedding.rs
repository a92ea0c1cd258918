//! Conversion of texts to vectors, for the room that reaches a server which does it. It must not
//! choose what is sent.

pub use crate::service::{EmbedError, Embedder};

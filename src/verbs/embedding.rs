//! Conversion of texts to vectors, for the room that connects to an embedder. It must not choose
//! what is sent.

pub use crate::service::{EmbedError, Embedder};

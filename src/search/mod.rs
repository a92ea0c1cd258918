//! SEARCH: looking up events by words. Events are cut into passages, a query and the passages into
//! terms, and passages are ranked by BM25. Pure functions: no I/O, no clock, no failure. It must
//! not read a store or depend on where passages come from: a caller passes them in.

mod letters;
mod passages;
mod pieces;
mod query;
mod rank;
mod snippet;
mod stop_words;
mod terms;

pub use passages::{Field, Passage, passages};
pub use query::{Query, QueryError};
pub use rank::{Best, Match, Ranking, weight};
pub use snippet::{Snippet, snippet};

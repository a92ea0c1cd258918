//! SEARCH: looking up events by words. Events are split into passages, a query and the passages
//! into terms, and passages are ranked by BM25: in one session while it is read, or in an index of
//! many. Pure functions: no I/O, no clock, no error but an invalid query or invalid bytes. It must
//! not read a store or depend on where passages come from: a caller passes them in.

mod best;
mod bm25;
mod build;
mod dates;
mod entities;
mod grammar;
mod irregular;
mod letters;
mod meaning;
mod named;
mod packed;
mod part;
mod passages;
mod pieces;
mod query;
mod rank;
mod runs;
mod score;
mod snippet;
mod stop_words;
mod terms;
mod text;
mod vector;

pub use best::{HitOrder, score};
pub use build::{PartBuilder, merge};
pub use dates::start as start_of;
pub use entities::EntityKind;
pub use grammar::{Beside, Choice, Filters, SearchQuery, in_zone};
pub use meaning::{Meaning, MeaningBuilder, NUMBERS_MAX, Near, merge_meaning, nearest};
pub use named::{Counted, Named, NamedIn, OfDay, by_day, named, named_weight, naming};
pub use part::{Part, PartError, SessionRef};
pub use passages::{Field, Passage, passages};
pub use query::{Fault, Query, QueryError};
pub use rank::{Best, Match, Ranking, weight};
pub use runs::Keep;
pub use score::{Hit, Ranked, rank};
pub use snippet::{Snippet, snippet};
pub use text::EventText;
pub use vector::{DIMENSIONS, Rarity, Vector};

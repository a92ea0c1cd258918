//! SEARCH: finding events by words. Events are split into passages, queries and passages into
//! terms, and passages are ranked by BM25: in one session while it is read, or in an index of many
//! sessions. Pure functions: no I/O, no clock, no error but an invalid query or invalid bytes. It
//! must not read a store or depend on where passages come from: a caller passes them in.

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
pub use dates::parse_start_time;
pub use entities::EntityKind;
pub use grammar::{CallerFilters, Filters, ParsedQuery, ValueFilter, rewrite_for_zone};
pub use meaning::{
    NUMBERS_MAX, NearPassage, VectorPart, VectorPartBuilder, merge_meaning, nearest,
};
pub use named::{
    DayCounts, EventsByDay, NamedEntities, NamedEntity, count_by_day, count_entities,
    counting_bounds, find_naming_sessions,
};
pub use part::{Part, PartError, SessionRef};
pub use passages::{Passage, PassageField, visit_passages};
pub use query::{Query, QueryError, QueryFault};
pub use rank::{BestMatches, Match, Ranking, field_weight};
pub use runs::Keep;
pub use score::{RankedHits, SearchHit, rank};
pub use snippet::{PassageSnippet, extract_snippet};
pub use text::EventText;
pub use vector::{DIMENSIONS, Rarity, Vector};

//! Tests of single modules of `src` by their public items, in one binary with a module for each. It
//! must not hold a test that needs an interface (`tests/it`), nor one of a private item (its file).

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use sessionlog::event::{Event, EventId, EventType, Origin, Position, Timestamp};

mod access {
    mod grant;
    mod record;
    mod tenant;
}
mod cli {
    mod player;
    mod player_sizes;
    mod readable;
}
mod env {
    mod disk;
    mod files;
    mod project;
    mod secrets;
    mod sim;
}
mod event {
    mod id;
    mod json;
    mod kind;
    mod point;
    mod text;
    mod time;
}
mod harness {
    mod budget;
    mod cursor;
    mod select;
    mod tokens;
    mod transform;
    mod views;
}
mod hook {
    mod gate;
    mod setup;
}
mod import {
    mod openai;
    mod tail;
    mod transcript;
}
mod log {
    mod encrypted;
    mod manifest;
    mod reading;
    mod scan;
}
mod projection {
    mod body;
    mod checkpoints;
    mod commands;
    mod compactions;
    mod directories;
    mod findings;
    mod found;
    mod instructions;
    mod outcomes;
    mod person;
    mod plans;
    mod progress;
    mod remembered;
    mod research;
    mod threads;
    mod usage;
    mod work;
}
mod search {
    mod bounds;
    mod index;
    mod named;
    mod paced;
    mod passages;
    mod places;
    mod plain;
    mod rank;
    mod score;
    mod snippet;
}
mod secrets {
    mod forms;
    mod members;
    mod recogniser;
}
mod service {
    mod file_checked;
    mod store_error;
}
mod store {
    mod lifetime;
    mod work;
}
mod verbs {
    mod events;
    mod query;
    mod routes;
}
mod wire {
    mod json;
    mod json_line;
    mod protobuf;
    mod via;
}

/// Returns an event of a model, one second after the previous one.
fn event(position: u64, kind: &str, body: impl Into<String>) -> Event {
    Event {
        position: Position(position),
        id: EventId::new(&format!("e{position}")).expect("a good id"),
        kind: EventType::new(kind).expect("a good type"),
        origin: Origin::Model,
        created_at: None,
        processed_at: Timestamp(1_000_000 * i64::try_from(position).expect("small")),
        body: body.into().into(),
    }
}

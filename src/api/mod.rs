//! SHAPES: the types of all that a client sends or receives, each declared once: views, answers,
//! requests. `harness` and `service` fill them, `wire` encodes them, `verbs` declares which route
//! uses which. It must not compute, and it knows no other module but `event`.

pub mod admin;
pub mod append;
pub mod backup;
pub mod changes;
pub mod compare;
pub mod cursor;
pub mod error;
pub mod events;
pub mod find;
pub mod fork;
pub mod graph;
pub mod handoff;
pub mod hosted;
pub mod memory;
pub mod overview;
pub mod point;
pub mod research;
pub mod retention;
pub mod rows;
pub mod scalar;
pub mod search;
pub mod sessions;
pub mod step;
pub mod tool_cache;
pub mod views;
pub mod window;
pub mod work;

/// Returns true for the default value, which `skip_serializing_if` leaves out.
pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

//! SHAPES: the types of all that a client sends or receives, each declared once: views, answers,
//! requests. `harness` and `service` fill them, `wire` encodes them, `verbs` declares who gets
//! which. It must not compute, and it knows no other room but `event`.

pub mod cursor;
pub mod graph;
pub mod memory;
pub mod overview;
pub mod point;
pub mod research;
mod scalar;
pub mod step;
pub mod views;
pub mod window;

/// True for the value that an absent member has, for `skip_serializing_if`.
pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

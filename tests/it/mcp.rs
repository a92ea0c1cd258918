//! Research sessions as a model meets them: tools called by name with JSON, answers checked as
//! JSON. What a fold or a view decides is tested where it is decided.

pub mod desk;
pub mod door;

mod anything;
mod binding;
mod bounds;
mod doors;
mod front_end;
mod idle;
mod protocol;
pub mod server;
mod steps;
mod wake;

//! Views of a session: windows that keep their budget and are always valid conversations, and
//! figures about them.

mod command;
mod compare;
mod continued;
mod effect;
mod folds;
mod hostile;
pub mod judge;
mod levels;
pub mod property;
mod readable;
pub mod real;
mod recalled;
mod row_pages;
mod rows;
mod unread;
mod usage;
mod window;

//! A research session after the reader lost its context: how much the overview still shows, what it
//! costs at any length, and what survives a start.

#[cfg(feature = "cli")]
mod doors;
mod facts;
#[cfg(feature = "cli")]
mod flat;
mod found;
mod planted;

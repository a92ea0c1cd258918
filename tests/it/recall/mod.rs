//! Remains of a research session once the reader has lost everything: how much of it the overview
//! answers, what it costs at any length, what a start forgets.

#[cfg(feature = "cli")]
mod doors;
mod facts;
#[cfg(feature = "cli")]
mod flat;
mod found;
mod planted;

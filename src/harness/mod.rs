//! VIEWS: facts dressed for a reader under a budget. Pure functions: no I/O, no clock, no failure,
//! the same facts give the same view. It must not know how a view looks on a wire.

mod budget;
mod coverage;
mod cursor;
mod outcomes;
mod overview;
mod step;
mod summary;

pub use budget::{ANSWER_BYTES, ANSWER_BYTES_MIN, Cut, Purse, fit, json_bytes};
pub use coverage::{COVERAGE_BYTES, Coverage, coverage};
pub use cursor::{Cursor, List};
pub use outcomes::{OutcomesView, PatternLine, ProviderLine};
pub use overview::{
    BranchLine, FULL_STEPS_MAX, GapLine, IndexLine, More, Overview, RejectedLine, SourceLine,
    TalkView, gap_line, gaps_page, goal, overview, rejected_page, sources_page, steps_page,
};
pub use step::{StepPlace, StepView, brief, page};
pub use summary::summary;

#[cfg(test)]
mod tests;

//! VIEWS: facts rendered for a reader within a budget, as the types of `api`. Pure functions: no
//! I/O, no clock, no failure, equal facts give equal views. It must not encode a view.

mod asked;
mod brief;
mod budget;
mod called;
mod class;
mod continuation;
mod coverage;
mod diff;
mod gather;
mod lists;
mod message;
mod narration;
mod outcomes;
mod overview;
mod phases;
mod priority;
pub mod quote;
mod recall;
mod render;
mod restore;
mod results;
mod said;
pub mod select;
mod squeeze;
mod start;
mod step;
mod summary;
mod summed;
mod times;
mod tokens;
mod transform;
mod unit;
mod window;

pub use budget::{
    ANSWER_BYTES, ANSWER_BYTES_MIN, Budget, Cut, STEP_ANSWER_BYTES, TOKEN_BYTES_LEAST,
    TOKEN_BYTES_MOST, fit, json_bytes,
};
pub use continuation::{CONTINUATION_TOKENS, CONTINUATION_TOKENS_MIN, continuation, rest_of};
pub use coverage::{COVERAGE_BYTES, coverage};
pub use diff::{diff, window_diff};
pub use lists::{gap_bytes, list_page, whole_gap};
pub use message::{Message, MessagePart, Messages, Role};
pub use overview::{
    FULL_STEPS_MAX, LeftOutLine, Overview, TalkView, beyond_overview, explained, goal, overview,
    overview_in_text, overview_in_tokens, overview_text,
};
pub use phases::{Named, levelled};
pub use priority::Parts;
pub use recall::{
    BRIEF_NOTICE, NOTICE, Passage, TRUST, at_work, framed, passage, recalled, recalled_frame,
    speaks_of_it, wanted, words,
};
pub use render::LeftOut;
pub use restore::{
    CONTEXT_ITEMS_MAX, PRIORITY_THRESHOLD, RESTORE_TOKENS, RESTORE_TOKENS_MAX, RESTORE_TOKENS_MIN,
    RestoreParameters, restore,
};
pub use said::{ContentBlock, Image, READ_TYPES, ToolResult, ToolUse};
pub use select::{By, Form};
pub use start::{Earlier, StartText, begun, has_work, outcome, pointer_to, remembered, rules};
pub use step::{StepPlace, page};
pub use summary::{summary, summary_in_lines};
pub use times::minute;
pub use tokens::{Counter, Tokenizer};
pub use transform::{Compress, Filter, Transform, TransformError};
pub use window::{Recalled, WINDOW_TOKENS_MIN, Window, WindowContent, WindowPlan, window};

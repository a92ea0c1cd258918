//! VIEWS: facts rendered for a reader within a budget, as the types of `api`. Pure functions: no
//! I/O, no clock, no failure, equal facts give equal views. It must not encode a view.

mod brief;
mod budget;
mod call_text;
mod class;
mod client_summary;
mod compare;
mod continuation;
mod conversation_event;
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
mod requirements;
mod restore;
mod results;
mod rows;
pub mod select;
mod squeeze;
mod start_text;
mod step;
mod summary;
mod times;
mod tokens;
mod transform;
mod unit;
mod window;

pub use budget::{
    ANSWER_BYTES, ANSWER_BYTES_MIN, Budget, STEP_ANSWER_BYTES, ShortenedText, TOKEN_BYTES_LEAST,
    TOKEN_BYTES_MOST, fit, json_bytes,
};
pub use compare::{Compared, align};
pub use continuation::{
    CONTINUATION_TOKENS, CONTINUATION_TOKENS_MIN, continuation, write_unshown_brief,
};
pub use conversation_event::{ContentBlock, Image, READ_TYPES, ToolResult, ToolUse};
pub use coverage::{COVERAGE_BYTES, coverage};
pub use diff::{diff, diff_windows};
pub use lists::{full_gap_line, gap_bytes, list_page};
pub use message::{Message, MessagePart, Messages, Role};
pub use overview::{
    ConversationView, FULL_STEPS_MAX, LeftOutLine, Overview, build_overview, goal_or_task,
    overview, overview_in_text, overview_in_tokens, overview_text, select_left_out,
};
pub use phases::{Named, summarize_at_level};
pub use priority::PriorityParts;
pub use recall::{
    BRIEF_NOTICE, NOTICE, RecallCandidate, TRUST, empty_message_tokens, fit_passages,
    format_passage, is_relevant, query_words, work_query_words, work_texts, wrap_in_frame,
};
pub use render::OmittedClass;
pub use restore::{
    CONTEXT_ITEMS_MAX, PRIORITY_THRESHOLD, RESTORE_TOKENS, RESTORE_TOKENS_MAX, RESTORE_TOKENS_MIN,
    RestoreParameters, restore,
};
pub use rows::{
    CallPairs, LINE_CHARS_MAX, build_row, is_bookkeeping, meaning_digest, readable_text, thread_of,
};
pub use select::{ItemForm, ItemOrder};
pub use start_text::{
    EarlierSession, StartText, has_work, memory_list, pointer_line, session_outcome,
    standing_rules, user_rules,
};
pub use step::{StepContext, step_page};
pub use summary::{summary, summary_in_lines};
pub use times::format_minute;
pub use tokens::{Counter, Tokenizer};
pub use transform::{Compression, Transform, TransformError, UnitFilter};
pub use window::{
    RecalledText, WINDOW_TOKENS_MIN, Window, WindowContent, WindowParameters, window,
};

//! TRACES: parsers of tool calls, command lines and outputs: a tool's effect, changed files, tests
//! in a report, the reason of a refusal. Texts that programs write are in tables. It must not
//! depend on a session.

mod asked;
mod calls;
mod cause;
mod changed_lines;
mod command;
mod compact;
mod content;
mod effects;
mod failed;
pub(crate) mod git;
mod hand_back;
mod looks;
mod outcome;
mod paths;
mod programs;
pub(crate) mod report;
mod selection;
mod shell;
mod thread;
mod tool_body;
pub mod tools;
mod touch;
mod trouble;
mod unrun;
mod verdict;

pub(crate) use asked::parse_user_answers;
pub(crate) use calls::{OpenCalls, ToolEvent, TracedCall, TracedResult};
pub use changed_lines::LINES;
pub(crate) use command::{CommandKind, CommandLine, CommandRun, covers_directory};
pub use command::{command_names, shell_line};
pub(crate) use compact::{compact, unquoted};
pub(crate) use content::parse_string;
pub use content::{content_text, content_texts};
pub(crate) use failed::{find_failed_run, has_failed};
pub use hand_back::SUBAGENT_LAUNCHED;
pub(crate) use hand_back::{result_text, subagent_report};
pub(crate) use outcome::CallOutcome;
pub use paths::normalize_path;
pub use report::RUNNING_IN_BACKGROUND;
pub(crate) use selection::{RunnerFamily, TestRun};
pub(crate) use shell::CommandJoint;
pub(crate) use thread::read_thread;
pub use thread::thread_name;
pub(crate) use tool_body::ToolBody;
pub use tool_body::find_answered_call;
pub(crate) use touch::FileTouch;
pub use trouble::FailureKind;
pub use unrun::{CALL_INTERRUPTED, RefusedCall, is_interruption, parse_refusal, refusal_comment};
pub(crate) use unrun::{NotRun, is_notice_of_interruption, refusal_explanation};

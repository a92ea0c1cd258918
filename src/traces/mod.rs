//! TRACES: parsers of single tool calls, command lines and outputs: a tool's effect, changed files,
//! tests in a report, the reason of a refusal. Texts of programs are in tables. It must not depend
//! on a session or on earlier calls.

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
mod looks;
mod paths;
mod programs;
pub(crate) mod report;
mod selection;
mod shell;
mod tool_body;
pub mod tools;
mod touch;
mod trouble;
mod unrun;
mod verdict;

pub(crate) use asked::answers as answers_of_person;
pub(crate) use calls::{Calls, ToolCall, ToolEvent, ToolResult};
pub use changed_lines::LINES;
pub use command::names as commands_of;
pub(crate) use command::{Command, CommandKind, CommandRun};
pub(crate) use compact::{compact, unquoted};
pub(crate) use content::string;
pub use content::{texts as texts_of, words};
pub(crate) use failed::failed_run;
pub use paths::placed;
pub(crate) use selection::{RunnerFamily, TestRun};
pub(crate) use shell::Joint;
pub(crate) use tool_body::ToolBody;
pub use tool_body::answered_call;
pub(crate) use touch::Touch;
pub use trouble::Trouble;
pub use unrun::{RefusedCall, refused, said_with_refusal};
pub(crate) use unrun::{Unrun, words_of_refusal};

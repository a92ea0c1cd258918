//! Pairs calls of tools with their results, and parses each once for all projections: effect,
//! files, command, failure. A bounded number of calls is kept until their results arrive. It must
//! not keep a result.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    changed_lines::{PatchLine, changed_lines, patch_line_counts, with_line_counts},
    command::{CommandLine, PATCH, shell_line},
    compact::compact,
    content::{content_text, parse_string},
    hand_back::{result_text, subagent_report},
    paths::{normalize_path, resolve_path},
    report,
    tool_body::{PATH_CHARS_MAX, ToolBody, find_answered_call},
    tools::{self, Members, ToolKind},
    touch::FileTouch,
    unrun::NotRun,
};
use crate::event::{
    Event, Position, json, kinds,
    lists::phrase_list,
    push_bounded,
    text::{head, one_line},
};

/// Maximum calls without a result that are kept.
const CALLS_MAX: usize = 256;
/// Maximum bytes of an id that are compared.
const ID_BYTES_MAX: usize = 200;
/// Maximum characters that are kept of a tool's name, and of an input or a command.
const NAME_CHARS_MAX: usize = 80;
const INPUT_CHARS_MAX: usize = 300;
/// Maximum bytes of the input of a planning tool; a larger one is not kept.
const PLAN_BYTES_MAX: usize = 32_000;
/// Maximum background commands that are kept.
const RUNNING_MAX: usize = 16;
/// Maximum files of one call that are kept.
const FILES_MAX: usize = 64;
/// Maximum files that a call reads that are kept.
const READS_MAX: usize = 4;
/// Name of a tool that neither a call nor its result names.
const UNNAMED: &str = "(not named)";
/// Placeholders that clients write where they removed a result's text.
const PLACEHOLDERS: [&str; 5] = phrase_list(
    "(in this log already)|(no content)|[Old tool result content cleared]|Tool ran without output|\
     Tool ran without output or errors",
);

/// A shell script in one line, and its parsed form.
pub(crate) type ParsedScript = Box<(Box<str>, CommandLine)>;

/// A call whose result has not arrived.
#[derive(Clone, Debug)]
pub(crate) struct TracedCall {
    id: Box<str>,
    pub(crate) position: Position,
    pub(crate) tool: Box<str>,
    /// Input of the call, in one line.
    pub(crate) input: Box<str>,
    pub(crate) does: ToolKind,
    /// Effects on files if the call succeeds, in order.
    pub(crate) files: Box<[(FileTouch, Box<str>)]>,
    /// Files that the call reads.
    pub(crate) reads: Box<[Box<str>]>,
    pub(crate) command: Option<ParsedScript>,
    /// Input of a planning tool, as JSON.
    pub(crate) plan: Option<Box<str>>,
    /// Thread of the subagent that made the call.
    aside: Option<Box<str>>,
    /// Lines that an edit adds and removes; `None` for the removed ones of a whole text.
    pub(crate) lines: Option<(u64, Option<u64>)>,
}

impl TracedCall {
    /// Returns the thread of the subagent that made the call; `None` for the session's agent.
    pub(crate) fn thread(&self) -> Option<&str> {
        self.aside.as_deref()
    }

    /// Returns true if a subagent made the call.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TracedResult {
    pub(crate) position: Position,
    /// Output of a command, or the text that another tool returned.
    pub(crate) text: String,
    /// True if the result shows that the call failed.
    pub(crate) failed: bool,
    /// True if the client reports success.
    pub(crate) succeeded: bool,
    /// Exit code, if the result contains one.
    pub(crate) code: Option<i64>,
    /// Reason why the tool did not run to its end: refused or interrupted.
    pub(crate) unrun: Option<NotRun>,
}

impl TracedResult {
    /// Returns true if the text is empty or only marks a removed text.
    pub(crate) fn is_placeholder(&self) -> bool {
        let text = self.text.trim();
        text.is_empty() || PLACEHOLDERS.contains(&text.trim_end_matches('.'))
    }

    /// Returns `refused`, `interrupted` or `failed`; empty if the call succeeded.
    pub(crate) fn outcome(&self) -> &'static str {
        match self.unrun {
            Some(NotRun::Refused) => "refused",
            Some(NotRun::Interrupted) => "interrupted",
            None if self.failed => "failed",
            None => "",
        }
    }
}

/// A call or a result, as parsed from an event.
#[derive(Debug)]
pub(crate) enum ToolEvent<'a> {
    /// A call, with its raw input.
    Call(&'a TracedCall, Option<&'a RawValue>),
    /// A result with its call; if the call is unknown, one without input and effects.
    Result(TracedCall, TracedResult),
}

/// Calls whose results have not arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCalls {
    open: VecDeque<TracedCall>,
    /// Calls whose commands still run in the background, by the ids of those.
    running: VecDeque<(Box<str>, TracedCall)>,
    /// Directory of the session, from which relative paths start.
    root: Option<Box<str>>,
    /// Directory of the agent's latest call that names one; recorders repeat it where it changes.
    here: Option<Box<str>>,
    /// Workspace of the session; paths below it or `root` are shown relative.
    workspace: Option<Box<str>>,
    /// Maximum distance of a result from its call in positions, if it is bounded.
    reach: Option<u64>,
    /// True once a result named no call: which one it answers depends on all that were open.
    has_unnamed_results: bool,
}

impl OpenCalls {
    /// Creates the state for a session, with its workspace if it has one.
    pub(crate) fn with_workspace(workspace: Option<&str>) -> Self {
        Self { workspace: workspace.map(Into::into), ..Self::default() }
    }

    /// Creates the state for a part of a session: a result that is `reach` positions or more behind
    /// its call has no call. `root` is the directory of the session.
    pub(crate) fn within_reach(workspace: Option<&str>, root: Option<&str>, reach: u64) -> Self {
        let root = root.map(Into::into);
        Self { root, reach: Some(reach), ..Self::with_workspace(workspace) }
    }

    /// Returns the workspace of the session.
    pub(crate) fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns true if a result named no call.
    pub(crate) fn has_unnamed_results(&self) -> bool {
        self.has_unnamed_results
    }

    /// Returns the calls without results, oldest first.
    pub(crate) fn open(&self) -> impl DoubleEndedIterator<Item = &TracedCall> {
        self.open.iter()
    }

    /// Parses a tool event and pairs a result with its call; `None` for any other event.
    pub(crate) fn fold<'a>(&'a mut self, event: &'a Event) -> Option<ToolEvent<'a>> {
        let kind = event.kind.as_str();
        if let Some(reach) = self.reach {
            let is_far = |call: &TracedCall| event.position.0 - call.position.0 >= reach;
            while self.open.front().is_some_and(is_far) {
                self.open.pop_front();
            }
        }
        if kinds::is_call(kind) {
            let call = ToolBody::parse(&event.body)?;
            let input = call.input;
            self.root = self.root.take().or_else(|| call.directory());
            let call = self.parse_call(event, call)?;
            push_bounded(&mut self.open, call, CALLS_MAX);
            return Some(ToolEvent::Call(self.open.back()?, input));
        }
        if kinds::is_result(kind) {
            let result = ToolBody::parse(&event.body)?;
            return Some(self.parse_result(event.position, result));
        }
        None
    }

    /// Parses the notices of Claude Code in a message that commands in the background ended, as
    /// their results; those of a command that is not known are left out.
    pub(crate) fn fold_notices(&mut self, event: &Event) -> Vec<ToolEvent<'static>> {
        if self.running.is_empty() || event.kind.as_str() != kinds::USER_MESSAGE {
            return Vec::new();
        }
        let content = ToolBody::parse(&event.body).and_then(|body| body.content);
        let text = content.map(content_text).unwrap_or_default();
        let notices = text.split("<task-notification>").skip(1);
        notices.filter_map(|notice| self.parse_notice(event.position, notice)).collect()
    }

    fn parse_notice(&mut self, position: Position, notice: &str) -> Option<ToolEvent<'static>> {
        let element = |name: &str| {
            let (_, rest) = notice.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0.trim())
        };
        let (status, summary) = (element("status")?, element("summary").unwrap_or_default());
        let mut call = self.take_running(element("task-id")?)?;
        let succeeded = status == "completed";
        if let Some((_, command)) = call.command.as_deref_mut().filter(|_| succeeded) {
            // The output is in a file: only a command whose exit code it is has passed.
            command.runs.retain(|run| !run.hides_code);
        }
        let code =
            summary.split_once("exit code ").map(|(_, code)| code.trim_end_matches(['.', ')']));
        let result = TracedResult {
            position,
            text: String::new(),
            failed: !succeeded,
            succeeded,
            code: code.and_then(|code| code.parse().ok()),
            unrun: matches!(status, "killed" | "stopped").then_some(NotRun::Interrupted),
        };
        Some(ToolEvent::Result(call, result))
    }

    fn parse_call(&mut self, event: &Event, call: ToolBody<'_>) -> Option<TracedCall> {
        let name = one_line(call.name.as_deref()?, NAME_CHARS_MAX);
        let (server, tool) = tools::split_name(call.server.as_deref(), &name);
        let members = tools::parse_members(call.input);
        let does = tools::classify(server, tool, &members, call.read_only);
        let input = call.input.map_or("", RawValue::get);
        let script = if does == ToolKind::Runs { shell_script(&members) } else { None };
        let base = self.directory_of_call(&call, &members);
        let command = script.as_ref().map(|script| CommandLine::parse(script, &base));
        let changed = |path: String| (FileTouch::Changed, path);
        let mut files: Vec<(FileTouch, String)> = match does {
            ToolKind::Edits => {
                named_paths(&members, &tools::MOVES).into_iter().map(changed).collect()
            }
            _ => command.iter().flat_map(|command| command.files.clone()).collect(),
        };
        let patch = matches!(does, ToolKind::Edits | ToolKind::Runs).then(|| {
            let patch = script.clone().or_else(|| call.input.and_then(parse_string));
            patch.or_else(|| {
                let names = ["input", "patch", "diff", "command", "cmd"];
                tools::read_first(&members, &names, parse_string)
            })
        });
        let patch = patch.flatten();
        files.extend(patch.iter().flat_map(|patch| files_of_patch(patch)));
        let reads = if does == ToolKind::Reads { named_paths(&members, &[]) } else { Vec::new() };
        // A command that applies a patch is listed by the files of the patch.
        let runs = command.zip(script).filter(|(_, script)| !script.contains(PATCH));
        let line = |script: &str| self.line_of_script(script, &base);
        let command = runs.map(|(command, script)| Box::new((line(&script), command)));
        let continued = members.get("session_id").filter(|_| tool == "write_stdin");
        let continued = continued.and_then(|id| self.take_running(id.get().trim_matches('"')));
        // A call that only waits has the text of the one that it waits for.
        let is_waiting = || members.get("chars").is_none_or(|chars| chars.get() == "\"\"");
        let begun = continued.as_ref().filter(|call| &*call.tool != tool && is_waiting());
        let begun = begun.map(|call| (call.tool.clone(), call.input.clone()));
        let continued = continued.and_then(|call| call.command);
        let does = if continued.is_some() { ToolKind::Runs } else { does };
        let mut id = call.call_id.unwrap_or_else(|| event.id.to_string());
        id.truncate(id.floor_char_boundary(ID_BYTES_MAX));
        let mut made = TracedCall {
            id: id.into(),
            position: event.position,
            tool: tool.into(),
            input: match does {
                ToolKind::Changes => compact(input, INPUT_CHARS_MAX).into(),
                ToolKind::Edits => {
                    // The input shows the number of changed lines instead of their text.
                    let counted = with_line_counts(&members);
                    let counted = counted.or_else(|| patch_line_counts(patch.as_deref()?));
                    one_line(counted.as_deref().unwrap_or(input), INPUT_CHARS_MAX).into()
                }
                _ => one_line(input, INPUT_CHARS_MAX).into(),
            },
            does,
            files: files
                .into_iter()
                .take(FILES_MAX)
                .map(|(touch, file)| (touch, self.display_path(&file)))
                .collect(),
            reads: reads.iter().take(READS_MAX).map(|file| self.display_path(file)).collect(),
            command: command.or(continued),
            plan: (does == ToolKind::Plan && input.len() <= PLAN_BYTES_MAX).then(|| input.into()),
            aside: call.thread.map(Into::into),
            lines: match does {
                ToolKind::Edits => changed_lines(&members, patch.as_deref()),
                ToolKind::Runs => changed_lines(&Members::default(), patch.as_deref()),
                _ => None,
            },
        };
        if let Some((tool, input)) = begun {
            (made.tool, made.input) = (tool, input);
        }
        Some(made)
    }

    fn parse_result(&mut self, position: Position, result: ToolBody<'_>) -> ToolEvent<'static> {
        let id = result.id();
        let id = id.map(|id| head(id, ID_BYTES_MAX));
        self.has_unnamed_results |= id.is_none();
        let name = one_line(result.name.as_deref().unwrap_or_default(), NAME_CHARS_MAX);
        let (_, tool) = tools::split_name(result.server.as_deref(), &name);
        let open = self.open.iter().map(|call| (&*call.id, &*call.tool));
        let at = find_answered_call(open, id, Some(tool));
        let known = at.and_then(|at| self.open.remove(at));
        let mut call = known.unwrap_or_else(|| call_without_event(position, &result));
        let mut text = result.content.map(content_text).unwrap_or_default();
        let mut code = None;
        if call.does == ToolKind::Runs {
            let (reported, output) = report::exit_code(&text);
            code = result.exit_code.and_then(|code| code.get().parse().ok()).or(reported);
            code = code.or_else(|| result.result.and_then(structured_code));
            if let Some(id) = report::running_command_id(&text).filter(|_| code.is_none()) {
                let running = (id.into(), call.clone());
                push_bounded(&mut self.running, running, RUNNING_MAX);
                (call.command, call.files) = (None, Box::default());
            }
            text = output.unwrap_or(text);
        }
        let is_error = result.is_error.unwrap_or(false);
        let unrun = result.refused.map(|_| NotRun::Refused).or_else(|| NotRun::from_text(&text));
        let failed = match call.does {
            ToolKind::Runs => code.is_some_and(|code| code != 0),
            ToolKind::Edits => {
                report::looks_like_failure(&text) || report::head_exit_code(&text) > 0
            }
            ToolKind::Changes | ToolKind::Plan => report::looks_like_failure(&text),
            ToolKind::Own | ToolKind::Reads => false,
        };
        let failed = failed || is_error || unrun.is_some();
        let succeeded = result.is_error == Some(false);
        // A file and an output may quote the frame of a subagent.
        let may_report = call.does != ToolKind::Runs && call.reads.is_empty();
        let report = may_report.then(|| subagent_report(&text)).flatten();
        let inner = report.unwrap_or_else(|| result_text(&text).into());
        // Few results have a frame: the text of another one is not copied.
        let shorter = (inner.len() < text.len()).then(|| inner.into_owned());
        let text = shorter.unwrap_or(text);
        ToolEvent::Result(call, TracedResult { position, text, failed, succeeded, code, unrun })
    }

    /// Removes and returns the call whose running command has an id.
    fn take_running(&mut self, id: &str) -> Option<TracedCall> {
        let at = self.running.iter().position(|(known, _)| **known == *id)?;
        self.running.remove(at).map(|(_, call)| call)
    }

    /// Returns the directory of the session.
    pub(crate) fn directory(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Returns a script in one line, with its directory if that is not the session's.
    fn line_of_script(&self, script: &str, base: &str) -> Box<str> {
        let is_beside = self.root.as_deref().is_some_and(|root| !base.is_empty() && root != base);
        let beside = is_beside.then(|| format!(" (in {})", self.display_path(base)));
        (one_line(script, INPUT_CHARS_MAX) + beside.as_deref().unwrap_or_default()).into()
    }

    /// Returns the directory in which a call runs its command: the one that it asks for, else its
    /// own, else that of the session; empty if none is known.
    fn directory_of_call(&mut self, call: &ToolBody<'_>, members: &Members<'_>) -> String {
        let own = call.directory();
        if call.thread.is_none() && own.is_some() {
            self.here.clone_from(&own);
        }
        let own = own.or_else(|| self.here.clone()).or_else(|| self.root.clone());
        let own = own.unwrap_or_default();
        let asked = tools::read_first(members, &["workdir", "directory", "cwd"], parse_string);
        let is_elsewhere = |path: &str| path.starts_with(['~', '$']) || path.contains([':', '\\']);
        match asked {
            Some(path) if is_elsewhere(&path) => String::new(),
            Some(path) => resolve_path(&path, &own).unwrap_or_default(),
            None => own.into(),
        }
    }

    /// Normalizes a path for display; the empty path of the whole repository stays empty.
    fn display_path(&self, path: &str) -> Box<str> {
        let normalized = match path {
            "" => None,
            _ => normalize_path(path, self.workspace.as_deref(), self.root.as_deref()),
        };
        one_line(normalized.as_deref().unwrap_or(path), PATH_CHARS_MAX).into()
    }

    pub(crate) fn weight(&self) -> usize {
        let of = |call: &TracedCall| {
            let files: usize = call.files.iter().map(|(_, file)| file.len() + 24).sum();
            let plan = call.plan.as_ref().map_or(0, |plan| plan.len());
            let command = call.command.as_ref().map_or(0, |_| 800);
            let reads: usize = call.reads.iter().map(|file| file.len() + 16).sum();
            size_of::<TracedCall>()
                + call.id.len()
                + call.input.len()
                + files
                + reads
                + plan
                + command
        };
        self.open.iter().chain(self.running.iter().map(|(_, call)| call)).map(of).sum()
    }
}

/// Creates a call for a result whose call event is missing; at most its tool is known.
fn call_without_event(position: Position, result: &ToolBody<'_>) -> TracedCall {
    let name = one_line(result.name.as_deref().unwrap_or_default(), NAME_CHARS_MAX);
    let (server, tool) = tools::split_name(result.server.as_deref(), &name);
    let own = tools::classify(server, tool, &Members::default(), None) == ToolKind::Own;
    TracedCall {
        id: Box::default(),
        position,
        tool: if tool.is_empty() { UNNAMED.into() } else { tool.into() },
        input: Box::default(),
        does: if own { ToolKind::Own } else { ToolKind::Reads },
        files: Box::default(),
        reads: Box::default(),
        command: None,
        plan: None,
        aside: result.thread.as_deref().map(Into::into),
        lines: None,
    }
}

/// Returns the exit code in the `structuredContent` of a result.
fn structured_code(result: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct StructuredResult {
        #[serde(rename = "structuredContent")]
        structured: Option<Box<RawValue>>,
    }
    let result: StructuredResult = serde_json::from_str(result.get()).ok()?;
    report::exit_code(result.structured?.get()).0
}

/// Returns the script of a shell call.
fn shell_script(members: &Members<'_>) -> Option<String> {
    tools::read_first(members, &["command", "cmd"], |value| {
        shell_line(&serde_json::from_str(json::check_levels(value.get(), 1)?).ok()?)
    })
}

/// Returns the files in the path members of an input, and in its members named by `further`.
fn named_paths(members: &Members<'_>, further: &[&str]) -> Vec<String> {
    let mut paths = Vec::new();
    for name in tools::PATHS.iter().chain(further) {
        let Some(value) = members.get(*name) else { continue };
        if let Some(path) = parse_string(value) {
            paths.push(path);
        } else if let Some(Ok(list)) =
            json::check_levels(value.get(), 1).map(serde_json::from_str::<Vec<&RawValue>>)
        {
            let path = |one: &&RawValue| {
                let members = tools::parse_members(Some(*one));
                let mut names = tools::PATHS.iter().chain(further);
                let named = names.find_map(|name| parse_string(members.get(*name)?));
                parse_string(one).or(named)
            };
            paths.extend(list.iter().filter_map(path));
        }
    }
    paths.retain(|path| !path.is_empty());
    paths.dedup();
    paths
}

/// Returns the file effects of a patch in the format of `apply_patch`.
fn files_of_patch(text: &str) -> Vec<(FileTouch, String)> {
    if !text.contains(PATCH) {
        return Vec::new();
    }
    let mut files = Vec::new();
    for line in text.lines() {
        let Some((does, path)) = PatchLine::read(line) else { continue };
        files.push((FileTouch::Changed, path.to_owned()));
        if does == PatchLine::Deletes {
            files.push((FileTouch::Deleted, path.to_owned()));
        }
    }
    files
}

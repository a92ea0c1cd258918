//! Calls that changed something besides files, the commits among them, and the branch that is
//! checked out. Bounded; it must not decide which calls those are.

use std::collections::VecDeque;

use serde::Deserialize;

use super::{
    body,
    turns::{Ends, ends},
};
use crate::{
    event::{Event, Position, kinds, push_bounded, text::one_line},
    traces::{ToolCall, ToolResult, Unrun, compact, git},
};

/// Effects kept.
const EFFECTS_MAX: usize = 64;
/// Characters kept of the result of an effect, and of a branch's name.
const RESULT_CHARS_MAX: usize = 400;
const BRANCH_CHARS_MAX: usize = 200;
/// The result of a call that was under way when the next session of the line began.
const LEFT: &str = "no result in the log when the next session began";

/// A call that changed something outside of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The position of the result, or of the call while there is none.
    pub position: Position,
    /// The tool.
    pub tool: Box<str>,
    /// Its input, up to 300 characters in a line.
    pub input: Box<str>,
    /// Its result, up to 400 characters in a line.
    pub result: Box<str>,
    /// True if it failed.
    pub failed: bool,
    call: Position,
    is_aside: bool,
    /// True if it was under way when the next session of the line began.
    is_left: bool,
    /// True if its turn ended without a result: it did not happen, as far as the log shows it.
    is_over: bool,
}

/// The latest commit that a command made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash, as git abbreviates it.
    pub hash: Box<str>,
    /// Its branch.
    pub branch: Box<str>,
    /// The result of the command.
    pub position: Position,
    /// True if a command pushed since.
    pub is_pushed: bool,
}

impl Effect {
    /// Puts the commit first; of a command that only commits, nothing else is kept.
    fn is_commit(&mut self, commit: &git::ReportedCommit<'_>) {
        let made = format!("{} on {}: {}", commit.hash, commit.branch, commit.subject);
        let mut parts =
            self.input.split(['&', ';', '|']).map(str::trim).filter(|part| !part.is_empty());
        let is_git = |part: &str| ["git ", "cd "].iter().any(|begin| part.starts_with(begin));
        if parts.all(is_git) && !self.input.contains("git push") {
            (self.tool, self.input) = ("git".into(), "commit".into());
            self.result = one_line(&made, RESULT_CHARS_MAX).into();
        } else {
            self.result = one_line(&format!("{made}; {}", self.result), RESULT_CHARS_MAX).into();
        }
    }
}

/// The newest effects, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    effects: VecDeque<Effect>,
    commit: Option<Commit>,
    /// The branch that is checked out, and where that became known.
    branch: Option<(Box<str>, Position)>,
    /// Effects that found no room.
    forgotten: u64,
}

impl Changes {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Effect> {
        self.effects.iter().filter(|effect| !effect.is_over)
    }

    pub(super) fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Folds a call that changes something.
    pub(super) fn begin(&mut self, call: &ToolCall) {
        self.add(Effect {
            position: call.position,
            tool: call.tool.clone(),
            input: call.command.as_ref().map_or(&call.input, |command| &command.0).clone(),
            result: Box::default(),
            failed: false,
            call: call.position,
            is_aside: call.is_aside,
            is_left: false,
            is_over: false,
        });
    }

    /// Folds that a call was under way when the next session of the line began.
    pub(super) fn fold_unfinished(&mut self, call: &ToolCall) {
        if !self.effects.iter().any(|effect| effect.call == call.position) {
            self.begin(call);
        }
        for effect in self.effects.iter_mut().filter(|effect| effect.call == call.position) {
            effect.result = LEFT.into();
            effect.is_left = true;
        }
    }

    /// Folds its result. A call that was refused changed nothing.
    pub(super) fn end(&mut self, call: &ToolCall, answer: &ToolResult) {
        let Some(at) = self.effects.iter().rposition(|effect| effect.call == call.position) else {
            return;
        };
        let removed = self.effects.remove(at);
        // What was refused did not happen.
        if let Some(mut effect) = removed.filter(|_| answer.unrun != Some(Unrun::Refused)) {
            (effect.is_over, effect.is_left) = (false, false);
            effect.position = answer.position;
            let said = match call.command {
                Some(_) => last_line(&answer.text),
                None => &answer.text,
            };
            effect.result = compact(said, RESULT_CHARS_MAX).into();
            // What an interrupted call did is not known: its result says that it was.
            effect.failed = answer.failed && answer.unrun.is_none();
            let made = call.command.as_ref().and(git::commit(&answer.text));
            // The log does not say whether a call that was interrupted came to that.
            if answer.unrun.is_none() {
                self.committed(made.as_ref(), &effect);
            }
            if let Some(commit) = made {
                effect.is_commit(&commit);
            }
            self.effects.push_back(effect);
        }
    }

    /// Folds a commit, a push, and what takes a commit back.
    fn committed(&mut self, made: Option<&git::ReportedCommit<'_>>, by: &Effect) {
        let has = |words: &[&str]| words.iter().any(|word| by.input.contains(word));
        if let Some(made) = made {
            let branch = one_line(made.branch, BRANCH_CHARS_MAX).into();
            let (hash, position) = (made.hash.into(), by.position);
            self.commit = Some(Commit { hash, branch, position, is_pushed: false });
        } else if !by.failed && has(&["git reset", "git rebase", "git checkout", "git switch"]) {
            self.commit = None;
        }
        if !by.failed && has(&["git push"]) {
            self.commit.iter_mut().for_each(|commit| commit.is_pushed = true);
        }
    }

    /// Folds the end of a turn.
    pub(super) fn fold_end(&mut self, event: &Event) {
        let Some(ends) = ends(event) else { return };
        for effect in &mut self.effects {
            let is_open = effect.position == effect.call && !effect.is_left;
            effect.is_over |= is_open && (ends == Ends::All || !effect.is_aside);
        }
    }

    /// Folds the branch that an event of a hook notes.
    pub(super) fn fold_branch(&mut self, event: &Event) {
        #[derive(Deserialize)]
        struct BranchBody {
            git_branch: Option<String>,
        }
        const NOTED: [&str; 3] =
            [kinds::SESSION_STATUS_IDLE, kinds::SESSION_STATUS_TERMINATED, kinds::TRANSCRIPT_ENTRY];
        if NOTED.contains(&event.kind.as_str())
            && let Some(BranchBody { git_branch: Some(branch) }) = body::read(&event.body)
            // What a program notes where there is no repository, or no branch.
            && branch != "HEAD"
        {
            self.on_branch(&branch, event.position);
        }
    }

    /// Folds the branch that is checked out: a state, and no change.
    pub(super) fn on_branch(&mut self, branch: &str, position: Position) {
        let branch = one_line(branch, BRANCH_CHARS_MAX);
        if self.branch.as_ref().is_none_or(|(known, _)| **known != *branch) {
            self.branch = Some((branch.into(), position));
        }
    }

    /// The branch that is checked out, and where that became known.
    pub(super) fn branch(&self) -> Option<(&str, Position)> {
        self.branch.as_ref().map(|(branch, position)| (&**branch, *position))
    }

    fn add(&mut self, effect: Effect) {
        self.forgotten += u64::from(push_bounded(&mut self.effects, effect, EFFECTS_MAX));
    }

    pub(super) fn weight(&self) -> usize {
        let text = |effect: &Effect| effect.input.len() + effect.result.len() + effect.tool.len();
        self.effects.iter().map(text).sum::<usize>() + self.effects.len() * size_of::<Effect>()
    }
}

/// The last line that a command printed, which says how it ended; empty where it is a warning or
/// a mark.
fn last_line(output: &str) -> &str {
    let is_mark = |line: &&str| line.starts_with('<') && line.ends_with('>') && !line.contains(' ');
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.rfind(|line| !is_mark(line)).unwrap_or_default();
    let is_warning = ["WARNING", "warning:", "[notice]", "npm warn"];
    if is_warning.iter().any(|begin| last.starts_with(begin)) { "" } else { last }
}

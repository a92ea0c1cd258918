//! Calls that changed something other than files, commits among them, and the branch that is
//! checked out. Bounded; it must not decide which calls those are.

use std::collections::VecDeque;

use serde::Deserialize;

use super::{
    body,
    turns::{EndScope, turn_end},
};
use crate::{
    event::{Event, Position, kinds, push_bounded, text::one_line},
    traces::{NotRun, TracedCall, TracedResult, compact, git},
};

/// Most effects kept.
const EFFECTS_MAX: usize = 64;
/// Most characters kept of an effect's result; `BRANCH_CHARS_MAX` bounds a branch's name.
const RESULT_CHARS_MAX: usize = 400;
const BRANCH_CHARS_MAX: usize = 200;
/// Result shown for a call that had none when the next session of the chain began.
const LEFT: &str = "no result in the log when the next session began";

/// A call that changed something other than files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectFact {
    /// Position of the result, or of the call until a result arrives.
    pub position: Position,
    /// Name of the tool.
    pub tool: Box<str>,
    /// Input, up to 300 characters on one line.
    pub input: Box<str>,
    /// Result, up to 400 characters on one line.
    pub result: Box<str>,
    /// True if the call failed.
    pub failed: bool,
    call: Position,
    is_aside: bool,
    /// True if it had no result when the next session of the chain began.
    is_left: bool,
    /// True if its turn ended without a result, so that it counts as not executed.
    is_over: bool,
}

/// Latest commit that a command made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Hash, as git abbreviates it.
    pub hash: Box<str>,
    /// Branch of the commit.
    pub branch: Box<str>,
    /// Position of the command's result.
    pub position: Position,
    /// True if a later command pushed it.
    pub is_pushed: bool,
}

impl EffectFact {
    /// Puts the commit first in the result; a command that only commits is reduced to it.
    fn put_commit_first(&mut self, commit: &git::ReportedCommit<'_>) {
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

/// Newest effects, oldest first, with the latest commit and the current branch.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    effects: VecDeque<EffectFact>,
    commit: Option<Commit>,
    /// Branch that is checked out, and the position of the event that shows it.
    branch: Option<(Box<str>, Position)>,
    /// Number of effects dropped because of the bound.
    dropped: u64,
}

impl Changes {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &EffectFact> {
        self.effects.iter().filter(|effect| !effect.is_over)
    }

    pub(super) fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }

    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Adds a call that changes something.
    pub(super) fn add_call(&mut self, call: &TracedCall) {
        self.add(EffectFact {
            position: call.position,
            tool: call.tool.clone(),
            input: call.command.as_ref().map_or(&call.input, |command| &command.0).clone(),
            result: Box::default(),
            failed: false,
            call: call.position,
            is_aside: call.is_aside(),
            is_left: false,
            is_over: false,
        });
    }

    /// Marks a call as unfinished when the next session of the chain began.
    pub(super) fn fold_unfinished(&mut self, call: &TracedCall) {
        if !self.effects.iter().any(|effect| effect.call == call.position) {
            self.add_call(call);
        }
        for effect in self.effects.iter_mut().filter(|effect| effect.call == call.position) {
            effect.result = LEFT.into();
            effect.is_left = true;
        }
    }

    /// Completes an effect with the call's result. A refused call changed nothing.
    pub(super) fn complete(&mut self, call: &TracedCall, answer: &TracedResult) {
        let Some(at) = self.effects.iter().rposition(|effect| effect.call == call.position) else {
            return;
        };
        let removed = self.effects.remove(at);
        // A refused call was not executed.
        if let Some(mut effect) = removed.filter(|_| answer.unrun != Some(NotRun::Refused)) {
            (effect.is_over, effect.is_left) = (false, false);
            effect.position = answer.position;
            let said = match call.command {
                Some(_) => last_line(&answer.text),
                None => &answer.text,
            };
            effect.result = compact(said, RESULT_CHARS_MAX).into();
            // The effect of an interrupted call is unknown; its result shows the interruption.
            effect.failed = answer.failed && answer.unrun.is_none();
            let made = call.command.as_ref().and(git::parse_commit(&answer.text));
            // The log does not show whether an interrupted call reached its commit.
            if answer.unrun.is_none() {
                self.fold_commit(made.as_ref(), &effect);
            }
            if let Some(commit) = made {
                effect.put_commit_first(&commit);
            }
            self.effects.push_back(effect);
        }
    }

    /// Updates the latest commit by a commit, a push, or a command that discards it.
    fn fold_commit(&mut self, made: Option<&git::ReportedCommit<'_>>, by: &EffectFact) {
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

    /// Marks effects without a result as not executed at the end of a turn.
    pub(super) fn fold_turn_end(&mut self, event: &Event) {
        let Some(ends) = turn_end(event) else { return };
        for effect in &mut self.effects {
            let is_open = effect.position == effect.call && !effect.is_left;
            effect.is_over |= is_open && (ends == EndScope::All || !effect.is_aside);
        }
    }

    /// Updates the branch from an event of a hook.
    pub(super) fn fold_branch(&mut self, event: &Event) {
        #[derive(Deserialize)]
        struct BranchBody {
            git_branch: Option<String>,
        }
        const NOTED: [&str; 3] =
            [kinds::SESSION_STATUS_IDLE, kinds::SESSION_STATUS_TERMINATED, kinds::TRANSCRIPT_ENTRY];
        if NOTED.contains(&event.kind.as_str())
            && let Some(BranchBody { git_branch: Some(branch) }) = body::read(&event.body)
            // Git reports `HEAD` where no repository or branch exists.
            && branch != "HEAD"
        {
            self.set_branch(&branch, event.position);
        }
    }

    /// Sets the branch that is checked out; this counts as a state, not as a change.
    pub(super) fn set_branch(&mut self, branch: &str, position: Position) {
        let branch = one_line(branch, BRANCH_CHARS_MAX);
        if self.branch.as_ref().is_none_or(|(known, _)| **known != *branch) {
            self.branch = Some((branch.into(), position));
        }
    }

    /// Returns the checked-out branch and the position of the event that shows it.
    pub(super) fn branch(&self) -> Option<(&str, Position)> {
        self.branch.as_ref().map(|(branch, position)| (&**branch, *position))
    }

    fn add(&mut self, effect: EffectFact) {
        self.dropped += u64::from(push_bounded(&mut self.effects, effect, EFFECTS_MAX));
    }

    pub(super) fn weight(&self) -> usize {
        let text =
            |effect: &EffectFact| effect.input.len() + effect.result.len() + effect.tool.len();
        self.effects.iter().map(text).sum::<usize>() + self.effects.len() * size_of::<EffectFact>()
    }
}

/// Returns the last line of a command's output, which shows how it ended; empty if that is a
/// warning.
fn last_line(output: &str) -> &str {
    let is_mark = |line: &&str| line.starts_with('<') && line.ends_with('>') && !line.contains(' ');
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.rfind(|line| !is_mark(line)).unwrap_or_default();
    let is_warning = ["WARNING", "warning:", "[notice]", "npm warn"];
    if is_warning.iter().any(|begin| last.starts_with(begin)) { "" } else { last }
}

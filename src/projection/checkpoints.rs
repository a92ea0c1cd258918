//! Cursors and checkpoints, folded from a session's notes: which exist, their parents, and the
//! notes that make up an agent's state at a checkpoint. Pure; a body that does not fit folds to a
//! checkpoint without a state. It must not read a note again.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use serde_json::{Map, Value};

pub use super::body::{CheckpointBody, Trigger};
use crate::event::{Lsn, Note, NoteKind, Position, Timestamp};

/// The state of an agent: a JSON object that only the agent interprets.
pub type State = Map<String, Value>;

/// A checkpoint, its state left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedCheckpoint {
    /// Its name, unique in the session.
    pub id: String,
    /// Number of its note.
    pub number: Lsn,
    /// The place it names.
    pub position: Position,
    /// When it was made.
    pub at: Timestamp,
    /// True if the work was done there.
    pub done: bool,
    /// Cause of the checkpoint.
    pub trigger: Trigger,
    /// Name a person gave it.
    pub label: Option<String>,
    /// The line of work it belongs to; `None` for the main one.
    pub thread: Option<String>,
    /// The one it follows.
    parent: Option<usize>,
    /// The latest checkpoint up to it with a change of the state.
    state: Option<usize>,
    /// Those to read for its state, from the last whole one on.
    depth: usize,
    /// Bytes of these.
    bytes: usize,
    /// Bytes of the whole state they begin with.
    base_bytes: usize,
    /// Its state is a change of the state at a checkpoint that is lost.
    orphan: bool,
}

/// Position where a reader continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedCursor {
    /// The next position to read.
    pub position: Position,
    /// When it was put there.
    pub at: Timestamp,
}

/// The notes of a session.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// Number of notes folded in.
    pub count: u64,
    /// The last of them.
    pub last: Lsn,
    all: Vec<NotedCheckpoint>,
    ids: BTreeMap<String, usize>,
    labels: HashMap<String, usize>,
    threads: HashMap<Option<String>, usize>,
    cursors: BTreeMap<String, NotedCursor>,
    texts: usize,
}

impl Checkpoints {
    /// Folds a note. Notes come in ascending order of their numbers.
    pub fn fold(&mut self, note: &Note) {
        self.count += 1;
        self.last = note.number;
        self.texts += note.name.len();
        if note.kind.is_checkpoint() {
            return self.fold_checkpoint(note);
        }
        if note.body.is_empty() {
            self.cursors.remove(&note.name);
        } else {
            let cursor = NotedCursor { position: note.position, at: note.at };
            self.cursors.insert(note.name.clone(), cursor);
        }
    }

    fn fold_checkpoint(&mut self, note: &Note) {
        let body: CheckpointBody = serde_json::from_slice(&note.body).unwrap_or_default();
        let index = self.all.len();
        let named = body.parent.as_ref().and_then(|id| self.ids.get(id).copied());
        let changes = body.base.is_none() && body.delta.is_some();
        let orphan = changes && named.is_none() && body.parent.is_some();
        let latest = || self.threads.get(&body.thread).copied().filter(|_| !orphan);
        let parent = named.or_else(latest);
        let before = parent.and_then(|at| self.all.get(at));
        let (state, depth, bytes, base_bytes) = match (&body.base, &body.delta, before) {
            (Some(_), _, _) => (Some(index), 1, note.body.len(), note.body.len()),
            (None, Some(_), Some(before)) => {
                let bytes = before.bytes + note.body.len();
                (Some(index), before.depth + 1, bytes, before.base_bytes)
            }
            (None, Some(_), None) => (Some(index), 1, note.body.len(), 0),
            (None, None, Some(before)) => {
                (before.state, before.depth, before.bytes, before.base_bytes)
            }
            (None, None, None) => (None, 0, 0, 0),
        };
        let texts = [&body.label, &body.thread];
        self.texts += texts.into_iter().flatten().map(String::len).sum::<usize>();
        self.ids.insert(note.name.clone(), index);
        self.threads.insert(body.thread.clone(), index);
        if let Some(label) = &body.label {
            self.labels.insert(label.clone(), index);
        }
        self.all.push(NotedCheckpoint {
            id: note.name.clone(),
            number: note.number,
            position: note.position,
            at: note.at,
            done: note.kind == NoteKind::Final,
            trigger: body.trigger,
            label: body.label,
            thread: body.thread,
            parent,
            state,
            depth,
            bytes,
            base_bytes,
            orphan,
        });
    }

    /// Every checkpoint, the oldest first.
    #[must_use]
    pub fn all(&self) -> &[NotedCheckpoint] {
        &self.all
    }

    /// The checkpoint of that id, or else the latest of that label.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&NotedCheckpoint> {
        let at = self.ids.get(name).or_else(|| self.labels.get(name))?;
        self.all.get(*at)
    }

    /// The checkpoints whose ids begin so.
    pub fn beginning(&self, with: &str) -> impl Iterator<Item = &NotedCheckpoint> {
        let ids = self.ids.range::<str, _>((Bound::Included(with), Bound::Unbounded));
        ids.take_while(move |(id, _)| id.starts_with(with)).filter_map(|(_, at)| self.all.get(*at))
    }

    /// The last checkpoint, or that of a thread.
    #[must_use]
    pub fn latest(&self, thread: Option<&Option<String>>) -> Option<&NotedCheckpoint> {
        match thread {
            None => self.all.last(),
            Some(thread) => self.all.get(*self.threads.get(thread)?),
        }
    }

    /// The one a checkpoint follows.
    #[must_use]
    pub fn parent(&self, of: &NotedCheckpoint) -> Option<&NotedCheckpoint> {
        self.all.get(of.parent?)
    }

    /// Numbers of the notes that make up the state at a checkpoint, the oldest first; the first is
    /// a whole state, or has no parent. Where it is lost the first is 0, which no note has.
    #[must_use]
    pub fn chain(&self, of: &NotedCheckpoint) -> Vec<Lsn> {
        let mut numbers = Vec::with_capacity(of.depth);
        for link in self.links(of) {
            numbers.push(link.number);
            numbers.extend(link.orphan.then_some(Lsn(0)));
        }
        numbers.reverse();
        numbers
    }

    /// The checkpoints that make up the state at one, the latest first.
    fn links(&self, of: &NotedCheckpoint) -> impl Iterator<Item = &NotedCheckpoint> {
        let at = |index: Option<usize>| index.and_then(|index| self.all.get(index));
        std::iter::successors(at(of.state), move |found| {
            at(found.parent).filter(|_| found.depth > 1).and_then(|before| at(before.state))
        })
    }

    /// True if a checkpoint, or a part of its state, was made by then.
    #[must_use]
    pub fn rests_on(&self, of: &NotedCheckpoint, then: Timestamp) -> bool {
        std::iter::once(of).chain(self.links(of)).any(|one| one.at <= then)
    }

    /// True if the next state after a checkpoint should be stored whole: this bounds the notes of a
    /// read, and the bytes written grow linearly with the changes.
    #[must_use]
    pub fn wants_base(before: &NotedCheckpoint, delta_bytes: usize) -> bool {
        let since = before.bytes.saturating_sub(before.base_bytes) + delta_bytes;
        before.depth >= CHAIN_MAX || before.depth > 1 && since > before.base_bytes.max(CHAIN_BYTES)
    }

    /// The cursor of that name.
    #[must_use]
    pub fn cursor(&self, name: &str) -> Option<NotedCursor> {
        self.cursors.get(name).copied()
    }

    /// Every cursor, by name.
    #[must_use]
    pub fn cursors(&self) -> &BTreeMap<String, NotedCursor> {
        &self.cursors
    }

    /// Approximate bytes of memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let each = size_of::<NotedCheckpoint>() + 4 * size_of::<usize>() + 48;
        self.all.len() * each
            + self.cursors.len() * (size_of::<NotedCursor>() + 48)
            + 2 * self.texts
    }
}

/// Notes that are read for one state at most.
const CHAIN_MAX: usize = 512;
/// Bytes of changes that are kept as changes whatever the size of the whole.
const CHAIN_BYTES: usize = 4 << 10;

/// Applies a checkpoint's change to the previous state.
pub fn apply(state: &mut State, body: CheckpointBody) {
    if let Some(base) = body.base {
        *state = base;
    }
    if let Some(delta) = body.delta {
        merge(state, delta);
    }
}

/// Applies a merge patch (RFC 7396) to an object.
pub fn merge(state: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => drop(state.remove(&name)),
            Value::Object(inner) => {
                let old = state.entry(name).or_insert(Value::Null);
                if !old.is_object() {
                    *old = Value::Object(Map::new());
                }
                if let Value::Object(old) = old {
                    merge(old, inner);
                }
            }
            value => drop(state.insert(name, value)),
        }
    }
}

/// The merge patch from `old` to `new`; `None` when `new` holds a null, which no patch can express.
#[must_use]
pub fn diff(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        let change = match (old.get(name), value) {
            (Some(before), after) if before == after => continue,
            (Some(Value::Object(before)), Value::Object(after)) => {
                Value::Object(diff(before, after)?)
            }
            // Without an old value the new one is inserted as it is.
            (_, after) if holds_null(after) => return None,
            (_, after) => after.clone(),
        };
        patch.insert(name.clone(), change);
    }
    Some(patch)
}

/// True if a merge patch cannot express this value: a null in an object removes the member.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(holds_null),
        _ => false,
    }
}

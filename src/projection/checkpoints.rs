//! Fold of a session's notes: its cursors, its checkpoints with their parents, and the notes that
//! make up the state at a checkpoint. A body that does not parse folds to a checkpoint without a
//! state. It must not read a note again.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use serde_json::{Map, Value};

pub use super::body::{CheckpointBody, Trigger};
use crate::event::{Lsn, Note, NoteKind, Position, Timestamp};

/// State of an agent: a JSON object that only the agent interprets.
pub type State = Map<String, Value>;

/// A checkpoint without its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedCheckpoint {
    /// Id, unique in the session.
    pub id: String,
    /// Log sequence number of its note.
    pub number: Lsn,
    /// Position that it names.
    pub position: Position,
    /// Time of creation.
    pub at: Timestamp,
    /// True if the work was finished there.
    pub done: bool,
    /// Cause of the checkpoint.
    pub trigger: Trigger,
    /// Label that the user gave it.
    pub label: Option<String>,
    /// Thread that it belongs to; `None` for the main one.
    pub thread: Option<String>,
    /// Index of the parent.
    parent: Option<usize>,
    /// Index of the latest checkpoint, up to this one, that changes the state.
    state: Option<usize>,
    /// Number of notes to read for its state, from the last complete one.
    depth: usize,
    /// Bytes of these notes.
    bytes: usize,
    /// Bytes of the complete state that they begin with.
    base_bytes: usize,
    /// True if its state changes the state of a missing checkpoint.
    orphan: bool,
}

/// Position where a reader continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedCursor {
    /// Next position to read.
    pub position: Position,
    /// Time of the last update.
    pub at: Timestamp,
}

/// Cursors and checkpoints of a session.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// Number of notes folded.
    pub count: u64,
    /// Log sequence number of the last note.
    pub last: Lsn,
    all: Vec<NotedCheckpoint>,
    ids: BTreeMap<String, usize>,
    labels: HashMap<String, usize>,
    threads: HashMap<Option<String>, usize>,
    cursors: BTreeMap<String, NotedCursor>,
    texts: usize,
}

impl Checkpoints {
    /// Folds a note. Notes must come in ascending order of their numbers.
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

    /// Returns every checkpoint, oldest first.
    #[must_use]
    pub fn all(&self) -> &[NotedCheckpoint] {
        &self.all
    }

    /// Returns the checkpoint with that id, or else the latest with that label.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&NotedCheckpoint> {
        let at = self.ids.get(name).or_else(|| self.labels.get(name))?;
        self.all.get(*at)
    }

    /// Returns the checkpoints whose ids begin with a prefix.
    pub fn with_id_prefix(&self, with: &str) -> impl Iterator<Item = &NotedCheckpoint> {
        let ids = self.ids.range::<str, _>((Bound::Included(with), Bound::Unbounded));
        ids.take_while(move |(id, _)| id.starts_with(with)).filter_map(|(_, at)| self.all.get(*at))
    }

    /// Returns the last checkpoint of the session or of a thread.
    #[must_use]
    pub fn latest(&self, thread: Option<&Option<String>>) -> Option<&NotedCheckpoint> {
        match thread {
            None => self.all.last(),
            Some(thread) => self.all.get(*self.threads.get(thread)?),
        }
    }

    /// Returns the parent of a checkpoint.
    #[must_use]
    pub fn parent(&self, of: &NotedCheckpoint) -> Option<&NotedCheckpoint> {
        self.all.get(of.parent?)
    }

    /// Returns the numbers of the notes that make up the state at a checkpoint, oldest first; the
    /// first is a complete state or has no parent; 0, which no note has, if it is missing.
    #[must_use]
    pub fn state_notes(&self, of: &NotedCheckpoint) -> Vec<Lsn> {
        let mut numbers = Vec::with_capacity(of.depth);
        for link in self.state_links(of) {
            numbers.push(link.number);
            numbers.extend(link.orphan.then_some(Lsn(0)));
        }
        numbers.reverse();
        numbers
    }

    /// Returns the checkpoints that make up the state at one, latest first.
    fn state_links(&self, of: &NotedCheckpoint) -> impl Iterator<Item = &NotedCheckpoint> {
        let at = |index: Option<usize>| index.and_then(|index| self.all.get(index));
        std::iter::successors(at(of.state), move |found| {
            at(found.parent).filter(|_| found.depth > 1).and_then(|before| at(before.state))
        })
    }

    /// Returns true if a checkpoint, or a part of its state, was created by that time.
    #[must_use]
    pub fn has_part_created_by(&self, of: &NotedCheckpoint, then: Timestamp) -> bool {
        std::iter::once(of).chain(self.state_links(of)).any(|one| one.at <= then)
    }

    /// Returns true if the next state should be stored in full: this bounds the notes per read, and
    /// the bytes written grow linearly with the changes.
    #[must_use]
    pub fn needs_full_state(before: &NotedCheckpoint, delta_bytes: usize) -> bool {
        let since = before.bytes.saturating_sub(before.base_bytes) + delta_bytes;
        before.depth >= CHAIN_MAX || before.depth > 1 && since > before.base_bytes.max(CHAIN_BYTES)
    }

    /// Returns the cursor with that name.
    #[must_use]
    pub fn cursor(&self, name: &str) -> Option<NotedCursor> {
        self.cursors.get(name).copied()
    }

    /// Returns every cursor, by name.
    #[must_use]
    pub fn cursors(&self) -> &BTreeMap<String, NotedCursor> {
        &self.cursors
    }

    /// Returns the approximate memory use in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let each = size_of::<NotedCheckpoint>() + 4 * size_of::<usize>() + 48;
        self.all.len() * each
            + self.cursors.len() * (size_of::<NotedCursor>() + 48)
            + 2 * self.texts
    }
}

/// Most notes that are read for one state.
const CHAIN_MAX: usize = 512;
/// Bytes of changes below which no complete state is stored, regardless of its size.
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

/// Computes the merge patch from `old` to `new`; `None` if that would have to set a null.
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
            // A member without an old value is inserted verbatim.
            (_, after) if contains_null(after) => return None,
            (_, after) => after.clone(),
        };
        patch.insert(name.clone(), change);
    }
    Some(patch)
}

/// Returns true if a merge patch cannot express the value: a null in an object removes the member.
fn contains_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(contains_null),
        _ => false,
    }
}

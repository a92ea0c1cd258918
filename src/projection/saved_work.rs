//! Content that a client saved with a session: its summary of the conversation, context items, file
//! references, workspace state. Bounded; a later item with the same name or content replaces an
//! earlier one. It must not judge an item or access a file.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body::{self, ContextItemBody, FileBody, SavedBody};
use crate::{
    event::{Event, EventId, Position, kinds, push_bounded, text::clip},
    traces::normalize_path,
};

/// Most items, files, and bytes of contents kept; the oldest are dropped first.
const ITEMS_MAX: usize = 1_000;
const FILES_MAX: usize = 1_000;
const BYTES_MAX: usize = 4 << 20;
/// Most characters kept of a content, and of the conversation.
const CONTENT_CHARS_MAX: usize = 64_000;
const CONTEXT_CHARS_MAX: usize = 200_000;
/// Most bytes kept of a workspace's state.
const STATE_BYTES_MAX: usize = 64 << 10;

/// A context item that a client saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedItem {
    /// Id of its event.
    pub id: EventId,
    /// Position of the latest save.
    pub position: Position,
    /// Client's name of the item.
    pub name: Option<Box<str>>,
    /// Category of the item.
    pub category: Box<str>,
    /// Text, up to 64 000 characters.
    pub content: Box<str>,
    /// Importance from 1 to 10, if given.
    pub importance: Option<u8>,
    /// Number of saves.
    pub times: u32,
}

/// A file that a session refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// Position of the latest reference.
    pub position: Position,
    /// Path of the file.
    pub path: Box<str>,
    /// Hash of the contents at that time.
    pub hash: Option<Box<str>>,
    /// Time of the last change, as given by the client.
    pub modified_at: Option<Box<str>>,
    /// Size in bytes at that time.
    pub bytes: Option<u64>,
}

/// A text that was part of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedText {
    /// Position of the save.
    pub position: Position,
    /// Text that was saved.
    pub text: Box<str>,
}

/// Saved items, files, state and conversation of a session.
#[derive(Clone, Debug, Default)]
pub struct SavedWork {
    items: VecDeque<SavedItem>,
    files: VecDeque<SavedFile>,
    state: Option<SavedText>,
    context: Option<SavedText>,
    /// Number of tokens of the conversation at the last save.
    tokens: Option<u64>,
    bytes: usize,
    items_left: u64,
    files_left: u64,
}

impl SavedWork {
    /// Returns the context items, oldest first.
    #[must_use]
    pub fn items(&self) -> &VecDeque<SavedItem> {
        &self.items
    }

    /// Returns the files, the latest reference last.
    #[must_use]
    pub fn files(&self) -> &VecDeque<SavedFile> {
        &self.files
    }

    /// Returns the state of the workspace as JSON.
    #[must_use]
    pub fn state(&self) -> Option<&SavedText> {
        self.state.as_ref()
    }

    /// Returns the conversation in the client's wording, from the last save that contains it.
    #[must_use]
    pub fn context(&self) -> Option<&SavedText> {
        self.context.as_ref()
    }

    /// Returns the number of tokens of the conversation at the last save that contains it.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        self.tokens
    }

    /// Returns the numbers of items and files dropped because of the bounds.
    #[must_use]
    pub fn dropped_counts(&self) -> [u64; 2] {
        [self.items_left, self.files_left]
    }

    /// Folds an event of a save; returns the conversation in it.
    pub(super) fn fold(&mut self, event: &Event, workspace: Option<&str>) -> Option<String> {
        match event.kind.as_str() {
            kinds::CONTEXT_ITEM => self.fold_item(event),
            kinds::FILE_REFERENCED => self.fold_file(event, workspace),
            kinds::WORKSPACE_STATE => self.fold_state(event),
            kinds::SESSION_SAVED => return self.fold_saved(event),
            _ => {}
        }
        None
    }

    fn fold_item(&mut self, event: &Event) {
        let Some(body) = body::read::<ContextItemBody>(&event.body) else { return };
        let content = clip(body.content.trim(), CONTENT_CHARS_MAX);
        if content.is_empty() {
            return;
        }
        let name: Option<Box<str>> = body.item_id.map(Into::into);
        let is_same = |known: &SavedItem| match &name {
            Some(name) => known.name.as_ref() == Some(name),
            None => *known.category == *body.category && *known.content == *content,
        };
        let known = self.items.iter().position(is_same);
        let known = known.and_then(|at| self.items.remove(at));
        self.bytes -= known.as_ref().map_or(0, |known| known.content.len());
        self.bytes += content.len();
        self.items.push_back(SavedItem {
            id: event.id.clone(),
            position: event.position,
            name,
            category: body.category.into(),
            content: content.into(),
            importance: body.importance.map(|importance| importance.clamp(1, 10)),
            times: known.map_or(0, |known| known.times) + 1,
        });
        while self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX && self.items.len() > 1 {
            let Some(oldest) = self.items.pop_front() else { break };
            self.bytes -= oldest.content.len();
            self.items_left += 1;
        }
    }

    fn fold_file(&mut self, event: &Event, workspace: Option<&str>) {
        let Some(body) = body::read::<FileBody>(&event.body) else { return };
        let Some(path) = normalize_path(&body.path, workspace, None) else { return };
        self.files.retain(|known| *known.path != *path);
        let file = SavedFile {
            position: event.position,
            path: path.into(),
            hash: body.hash.map(Into::into),
            modified_at: body.modified_at.map(Into::into),
            bytes: body.bytes,
        };
        let is_full = push_bounded(&mut self.files, file, FILES_MAX);
        self.files_left += u64::from(is_full);
    }

    fn fold_state(&mut self, event: &Event) {
        #[derive(Deserialize)]
        struct SavedState<'a> {
            #[serde(borrow)]
            state: &'a RawValue,
        }
        let Some(body) = body::read::<SavedState<'_>>(&event.body) else { return };
        let text = body.state.get();
        if text.len() <= STATE_BYTES_MAX {
            self.state = Some(SavedText { position: event.position, text: text.into() });
        }
    }

    fn fold_saved(&mut self, event: &Event) -> Option<String> {
        let body = body::read::<SavedBody>(&event.body)?;
        self.tokens = body.tokens.or(self.tokens);
        let text = clip(body.context.as_deref()?.trim(), CONTEXT_CHARS_MAX);
        if text.is_empty() {
            return None;
        }
        self.context = Some(SavedText { position: event.position, text: text.as_str().into() });
        Some(text)
    }

    pub(super) fn weight(&self) -> usize {
        let text = |said: &Option<SavedText>| said.as_ref().map_or(0, |said| said.text.len());
        let files: usize = self.files.iter().map(|file| file.path.len() + 200).sum();
        self.bytes + self.items.len() * 200 + files + text(&self.state) + text(&self.context)
    }
}

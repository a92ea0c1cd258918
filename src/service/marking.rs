//! Notes of stateless checkpoints that the server writes along with events: for tool calls, for a
//! save, and when a context fills up. It must not read the notes of a session.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Service;
use crate::{
    event::{Batch, BatchKey, NewNote, NoteKind, SessionKey, kinds},
    projection::checkpoints::{CheckpointBody, Trigger},
    store::SessionInfo,
};

/// Metadata that selects the effect of a tool result. `timer`: no checkpoint. `tool_calls`: a
/// checkpoint that marks the work as unfinished until a final one. Otherwise: a checkpoint without
/// that mark.
const MARKS: &str = "checkpoints";
const MARKS_NONE: &str = "timer";
const MARKS_OPEN: &str = "tool_calls";

impl Service {
    /// Adds a checkpoint to a batch with a tool result, so that both are in one frame. The
    /// session's metadata may disable this.
    pub(super) async fn add_tool_checkpoint(&self, key: &SessionKey, batch: &mut Batch) {
        if !has_result(batch) || batch.note.is_some() {
            return;
        }
        // A new session gets its checkpoint once it is created.
        let Ok(info) = self.store.info(key).await else { return };
        batch.note = self.checkpoint_note(&info, batch.key.as_ref());
    }

    /// Writes the checkpoint of a session that was created with a tool result. The session is
    /// complete without it, so a failure is only logged.
    pub(super) async fn write_first_checkpoint(&self, info: &SessionInfo, batch: &Batch) {
        let note = self.checkpoint_note(info, batch.key.as_ref()).filter(|_| has_result(batch));
        let Some(note) = note else { return };
        if let Err(error) =
            self.await_durable(self.store.write_note(&info.key, batch.fence, note)).await
        {
            tracing::warn!(session = %info.key.session, %error, "no checkpoint was made of it");
        }
    }

    fn checkpoint_note(&self, info: &SessionInfo, key: Option<&BatchKey>) -> Option<NewNote> {
        let asked = info.metadata.get(MARKS).map(String::as_str);
        if asked == Some(MARKS_NONE) {
            return None;
        }
        let body = CheckpointBody { trigger: Trigger::ToolCall, ..Default::default() };
        Some(NewNote { idle: asked != Some(MARKS_OPEN), ..self.plain_note(info, key, &body) })
    }

    /// Builds the labelled checkpoint of a call, for the batch of its events.
    pub(super) fn labelled_note(
        &self,
        info: &SessionInfo,
        key: Option<&BatchKey>,
        trigger: Trigger,
        label: &str,
    ) -> NewNote {
        let label = Some(label.to_owned());
        let body = CheckpointBody { trigger, label, ..Default::default() };
        self.plain_note(info, key, &body)
    }

    /// Builds the note of a stateless checkpoint at the tail.
    pub(super) fn plain_note(
        &self,
        info: &SessionInfo,
        key: Option<&BatchKey>,
        body: &CheckpointBody,
    ) -> NewNote {
        NewNote {
            kind: NoteKind::Checkpoint,
            name: self.checkpoint_id(info, key),
            position: None,
            body: encode_body(body),
            idle: false,
            if_notes: None,
        }
    }

    /// Returns an id for a new checkpoint, the same for the same key.
    pub(super) fn checkpoint_id(&self, info: &SessionInfo, key: Option<&BatchKey>) -> String {
        match key {
            Some(key) => keyed_checkpoint_id(self.key_digest(key)),
            None => {
                let name = self.counters.names.fetch_add(1, Ordering::Relaxed);
                format!("chk_{:014x}{name:x}_{:x}", self.now().0, info.work.notes)
            }
        }
    }
}

pub(super) fn keyed_checkpoint_id(digest: [u8; 16]) -> String {
    format!("chk_{:032x}", u128::from_be_bytes(digest))
}

pub(super) fn encode_body(body: &CheckpointBody) -> Bytes {
    serde_json::to_vec(body).expect("a body of JSON values is JSON").into()
}

fn has_result(batch: &Batch) -> bool {
    batch.events.iter().any(|event| kinds::is_result(event.kind.as_str()))
}

//! Notes of checkpoints without a state, which the server makes beside events: of calls of tools,
//! of a save, of a context that fills up. It must not read the notes of a session.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Service;
use crate::{
    event::{Batch, BatchKey, NewNote, NoteKind, SessionKey, kinds},
    projection::checkpoints::{CheckpointBody, Trigger},
    store::SessionInfo,
};

/// Metadata that says what a result of a tool does. `timer`: no checkpoint. `tool_calls`: a
/// checkpoint that marks the work as unfinished, so that the session is unfinished until a final
/// one. Otherwise: a checkpoint without such a mark.
const MARKS: &str = "checkpoints";
const MARKS_NONE: &str = "timer";
const MARKS_OPEN: &str = "tool_calls";

impl Service {
    /// Adds a checkpoint to a batch with a result of a tool: both are one frame. The session's
    /// metadata may turn this off.
    pub(super) async fn mark_tool_calls(&self, key: &SessionKey, batch: &mut Batch) {
        if !has_result(batch) || batch.note.is_some() {
            return;
        }
        // A session that does not exist yet is marked once it is created.
        let Ok(info) = self.store.info(key).await else { return };
        batch.note = self.mark(&info, batch.key.as_ref());
    }

    /// Makes the checkpoint of a session that was created with a result of a tool. Without it the
    /// session is whole: a failure is logged.
    pub(super) async fn mark_created(&self, info: &SessionInfo, batch: &Batch) {
        let note = self.mark(info, batch.key.as_ref()).filter(|_| has_result(batch));
        let Some(note) = note else { return };
        if let Err(error) = self.durable(self.store.note(&info.key, batch.fence, note)).await {
            tracing::warn!(session = %info.key.session, %error, "no checkpoint was made of it");
        }
    }

    fn mark(&self, info: &SessionInfo, key: Option<&BatchKey>) -> Option<NewNote> {
        let asked = info.metadata.get(MARKS).map(String::as_str);
        if asked == Some(MARKS_NONE) {
            return None;
        }
        let body = CheckpointBody { trigger: Trigger::ToolCall, ..Default::default() };
        Some(NewNote { idle: asked != Some(MARKS_OPEN), ..self.plain_note(info, key, &body) })
    }

    /// The labelled checkpoint of a call, for the batch of its events.
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

    /// The note of a checkpoint without a state, at the tail.
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
            body: bytes_of(body),
            idle: false,
            if_notes: None,
        }
    }

    /// A name for a new checkpoint; the same for the same key.
    pub(super) fn checkpoint_id(&self, info: &SessionInfo, key: Option<&BatchKey>) -> String {
        match key {
            Some(key) => keyed_id(self.digest_of(key)),
            None => {
                let name = self.counters.names.fetch_add(1, Ordering::Relaxed);
                format!("chk_{:014x}{name:x}_{:x}", self.now().0, info.work.notes)
            }
        }
    }
}

/// The id of a checkpoint that was made with a key.
pub(super) fn keyed_id(digest: [u8; 16]) -> String {
    format!("chk_{:032x}", u128::from_be_bytes(digest))
}

/// The body of a checkpoint's note.
pub(super) fn bytes_of(body: &CheckpointBody) -> Bytes {
    serde_json::to_vec(body).expect("a body of JSON values is JSON").into()
}

fn has_result(batch: &Batch) -> bool {
    batch.events.iter().any(|event| kinds::is_result(event.kind.as_str()))
}

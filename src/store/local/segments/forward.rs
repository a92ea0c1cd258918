//! Copying frames forward: a session whose segment cannot be written must not block the recycling
//! of the journal, so its unflushed frames are copied to the journal's end. It must not drop a
//! frame: until a segment has it, memory and the journal keep it.

use std::{io, sync::Arc};

use tokio::sync::oneshot;

use super::super::{
    journal::{QueuedFrame, place::JournalLocation},
    session::{HeldFrame, LoadedSession, WriteFailure},
};
use super::Segments;
use crate::{env::sync::atomic::Ordering, event::Lsn, log::Encryptor};

/// Unflushed bytes at which a session that cannot be flushed rejects appends; all such sessions do
/// when together they fill half of the journal's space.
const WAITING_BYTES_MAX: u64 = 16 << 20;

impl Segments {
    /// Records that a session's frames could not be written; its next flush starts another segment.
    pub(crate) fn mark_unwritable(&self, session: &LoadedSession, error: &io::Error) {
        tracing::warn!(session = %session.hash, %error, "a session could not be flushed");
        let mut state = session.state();
        let full = state.unflushed_bytes() > WAITING_BYTES_MAX;
        state.unwritable = Some(WriteFailure { error: error.to_string(), full });
    }

    /// Returns the location a flush may record although `stuck` sessions have unflushed frames: the
    /// last one recorded, while the journal has space; else `place`, after copying their frames.
    /// Also returns the bytes of the copies, which must not trigger the next flush.
    pub(crate) fn location_to_record(
        &self,
        stuck: &[Arc<LoadedSession>],
        place: JournalLocation,
        written: u64,
    ) -> io::Result<(JournalLocation, u64)> {
        let mut place_written = self.place_written.lock();
        let waiting: u64 = stuck.iter().map(|session| session.state().unflushed_bytes()).sum();
        if waiting > self.context.options.journal_retained_bytes / 2 {
            for session in stuck {
                session.state().unwritable.iter_mut().for_each(|one| one.full = true);
            }
        }
        let mut copied = 0;
        if !stuck.is_empty() {
            let room = self.context.options.journal_retained_bytes / 4;
            let fits = written.saturating_sub(*place_written) < room;
            if fits || self.sessions.journal.refusal_reason().is_some() {
                return Ok((self.sessions.settled_location(), 0));
            }
            for session in stuck {
                copied += self.copy_forward(session, place.lsn)?;
            }
        }
        *place_written = written + copied;
        Ok((place, copied))
    }

    /// Copies the unflushed frames of a session before `lsn` forward; returns their bytes.
    fn copy_forward(&self, session: &Arc<LoadedSession>, lsn: Lsn) -> io::Result<u64> {
        let before = |held: &&Arc<HeldFrame>| held.header.lsn_range().1 <= lsn;
        let (mut copies, mut done) = (Vec::new(), Vec::new());
        let cipher = self.cipher(session).map_err(io::Error::other)?;
        for held in session.state().unflushed.iter().filter(before) {
            let (sender, receiver) = oneshot::channel();
            done.push(receiver);
            let frame = held.to_frame();
            let encrypted = |one: Option<Encryptor<'_>>| one.map(|one| frame.encrypt(one));
            copies.push(QueuedFrame {
                session: Arc::clone(session),
                frame: self
                    .context
                    .keys
                    .with_encryptor(cipher.as_ref(), encrypted)
                    .unwrap_or(frame),
                plain: None,
                effect: None,
                done: Some(sender),
            });
        }
        debug_assert_eq!(copies.len(), done.len(), "each copy reports its outcome");
        let bytes = copies.iter().map(|copy| copy.frame.header.stride()).sum();
        self.sessions.journal.copy_forward(copies, &*self.sessions);
        let whole = done.iter_mut().all(|receiver| matches!(receiver.try_recv(), Ok(Ok(_))));
        whole.then_some(bytes).ok_or_else(|| io::Error::other("frames could not be copied forward"))
    }

    /// Returns and clears the request to sync file by file, to learn which sync fails.
    pub(crate) fn take_sync_each(&self) -> bool {
        self.sync_each.swap(false, Ordering::AcqRel)
    }
}

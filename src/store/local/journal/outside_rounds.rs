//! Writes outside the rounds of callers: copies of frames, watermarks, the first bytes of a file.
//! The writing thread leads meanwhile, so that no round is written concurrently. It must not queue
//! a frame that a caller waits for.

use std::io;

use super::{
    Journal, Outcome, QueuedFrame, lead::ENDLESS, queue::LeaderState, writer::JournalWriter,
};
use crate::event::Lsn;

impl<S> Journal<S> {
    /// Writes copies of durable frames after everything queued, so that the files before them can
    /// be recycled. Each copy takes a new number. Returns when they are written, or void; `outcome`
    /// receives the result.
    pub(crate) fn copy_forward(&self, copies: Vec<QueuedFrame<S>>, outcome: Outcome<'_, S>) {
        self.wait_for_lead(outcome);
        let mut queue = self.queue.lock();
        if queue.refuse.is_none() {
            for mut item in copies {
                debug_assert!(item.effect.is_none(), "a copy has no effect of its own");
                item.frame.header.copy_lsn = queue.next_lsn;
                queue.next_lsn = Lsn(queue.next_lsn.0 + 1);
                queue.push(item);
            }
        }
        let queued = queue.items.len();
        drop(queue);
        self.lead(queued, outcome);
    }

    /// Syncs an empty frame at the next 4 KiB boundary, once after the last round, so that damage
    /// to the last acknowledged frames is not taken for a torn tail. The caller leads.
    pub(super) fn write_watermark(&self) {
        if let Err(error) = self.write_while_leading(JournalWriter::write_watermark) {
            tracing::warn!(%error, "a watermark could not be written");
            self.record_write(Some(&error));
        }
    }

    /// Writes a watermark unless a thread leads, as the committer thread does when idle.
    pub(crate) fn write_idle_watermark(&self, outcome: Outcome<'_, S>) {
        let mut queue = self.queue.lock();
        if queue.lead == LeaderState::Free {
            queue.lead = LeaderState::Taken;
            drop(queue);
            self.write_watermark();
            self.lead(ENDLESS, outcome);
        }
    }

    /// Runs a function without concurrent writes: the caller leads meanwhile.
    pub(crate) fn run_exclusively<T>(&self, run: impl FnOnce() -> T, outcome: Outcome<'_, S>) -> T {
        self.wait_for_lead(outcome);
        let done = self.run_timed(run);
        self.lead(0, outcome);
        done
    }

    /// Makes this start durable by a file header, unless a round was committed.
    pub(crate) fn record_start(&self, outcome: Outcome<'_, S>) -> io::Result<()> {
        if self.writer.lock().is_started() {
            return Ok(());
        }
        self.write_outside_rounds(
            |writer, next| if writer.is_started() { Ok(()) } else { writer.record_start(next) },
            outcome,
        )
    }

    /// Continues in another file, because this one is damaged.
    pub(crate) fn switch_file(&self, outcome: Outcome<'_, S>) -> io::Result<()> {
        self.write_outside_rounds(JournalWriter::switch_file, outcome)
    }

    /// Writes outside of a round; `write` gets the number of the next record.
    fn write_outside_rounds(
        &self,
        write: impl FnOnce(&mut JournalWriter, Lsn) -> io::Result<()>,
        outcome: Outcome<'_, S>,
    ) -> io::Result<()> {
        self.wait_for_lead(outcome);
        let next = self.next_number();
        let result = self.write_while_leading(|writer| write(writer, next));
        self.record_write(result.as_ref().err());
        self.lead(0, outcome);
        result
    }

    /// Writes outside of a round, and advances the visible location. The caller leads.
    fn write_while_leading(
        &self,
        write: impl FnOnce(&mut JournalWriter) -> io::Result<()>,
    ) -> io::Result<()> {
        self.run_timed(|| {
            let mut writer = self.writer.lock();
            let result = write(&mut writer);
            let (end, mut last) = (writer.durable_end(), self.last.lock());
            (last.end, last.visible) = (end, end);
            result
        })
    }
}

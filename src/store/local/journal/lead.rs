//! Leading: the leader thread writes the queued frames, round by round; each round becomes visible
//! before the next one does. It must not decide which frames are queued.

use std::time::Duration;

use super::{
    Journal, Outcome, VisibilityStep, bytes_of,
    queue::{CommitterState, LeaderState},
    writer::RoundFailure,
};
use crate::env::{
    planted::{Defect, is_planted},
    sync::atomic::Ordering,
};

/// Part of the committer: all queued frames, until another thread waits for the lead.
pub(super) const ENDLESS: usize = usize::MAX;

impl<S> Journal<S> {
    /// Writes rounds until the queue is empty, or hands over after `part` frames: to the thread
    /// that waits for the lead, or to the committer thread if it runs, whose own part is
    /// [`ENDLESS`].
    pub(crate) fn lead(&self, part: usize, outcome: Outcome<'_, S>) {
        let committer = part == ENDLESS;
        let mut left = part;
        let mut empty = Vec::new();
        loop {
            if committer {
                self.gather();
            }
            let Some(mut round) = self.take_round(empty, committer || left == 0) else { return };
            let frames = round.iter().map(|item| &item.frame);
            let (result, end) = self.run_timed(|| {
                let mut writer = self.writer.lock();
                (writer.commit(frames), writer.durable_end())
            });
            self.written.fetch_add(bytes_of(&round), Ordering::Relaxed);
            // After a failure no queued frames are left.
            left = if result.is_ok() { left.saturating_sub(round.len()) } else { 0 };
            self.record_write(result.as_ref().err().map(|failure| {
                let (RoundFailure::Refused(error) | RoundFailure::Unknown(error)) = failure;
                error
            }));
            // Earlier durable frames become visible before any frame is voided.
            self.show_last_round(outcome);
            if let Err(failure) = &result {
                let mut behind = self.start_epoch(failure, &round);
                round.append(&mut behind);
                outcome.finish_round(&mut round, result);
                self.wake_waiters();
            }
            let mut last = self.last.lock();
            assert!(last.items.is_empty(), "rounds become visible in order");
            last.end = end;
            std::mem::swap(&mut last.items, &mut round);
            drop(last);
            empty = round;
            if !(committer && self.has_next_round() && self.delegate_show()) {
                self.show_last_round(outcome);
            }
            if self.background && left == 0 {
                let mut queue = self.queue.lock();
                let runs = queue.committer != CommitterState::Stopped;
                let hands_over = runs && !queue.items.is_empty() && queue.waiting == 0;
                let wakes = queue.wake_committer() || hands_over;
                if wakes && !is_planted(Defect::LoseWakeUp) {
                    self.wake.notify_one();
                }
                if hands_over {
                    queue.lead = LeaderState::HandedOver;
                    return;
                }
            }
        }
    }

    /// Delegates showing the last round to one of its callers, while the leader writes the next;
    /// returns false if no caller waits. The leader shows it before the next round in any case.
    fn delegate_show(&self) -> bool {
        loop {
            let mut last = self.last.lock();
            let Some(done) = last.items.iter_mut().find_map(|item| item.done.take()) else {
                return false;
            };
            drop(last);
            if done.send(Ok(VisibilityStep::Show)).is_ok() {
                return true;
            }
        }
    }

    /// Makes the last round visible, if it is not; then notifies the waiting callers.
    pub(crate) fn show_last_round(&self, outcome: Outcome<'_, S>) {
        let mut last = self.last.lock();
        if last.items.is_empty() {
            return;
        }
        outcome.finish_round(&mut last.items, Ok(()));
        assert!(last.items.is_empty(), "a sink takes every frame of a round");
        assert!(last.visible.lsn <= last.end.lsn, "what is visible never shrinks");
        last.visible = last.end;
        drop(last);
        self.wake_waiters();
    }

    /// Wakes the callers that wait for frames in flight.
    pub(crate) fn wake_waiters(&self) {
        self.progress.send_modify(|rounds| *rounds += 1);
    }

    /// Waits until this thread gets the lead, and makes everything durable visible. Queued frames
    /// wait until it leads.
    pub(super) fn wait_for_lead(&self, outcome: Outcome<'_, S>) {
        let mut queue = self.queue.lock();
        queue.waiting += 1;
        if queue.gathers {
            self.wake.notify_one();
        }
        while !queue.lead.is_open() {
            queue = self.offered.wait(queue);
        }
        queue.waiting -= 1;
        debug_assert!(queue.lead.is_open(), "one thread leads at a time");
        queue.lead = LeaderState::Taken;
        drop(queue);
        self.show_last_round(outcome);
    }

    /// Writes all queued frames. After [`Self::refuse`] no writes follow.
    pub(crate) fn drain(&self, outcome: Outcome<'_, S>) {
        self.wait_for_lead(outcome);
        let queued = self.queue.lock().items.len();
        self.lead(queued, outcome);
    }

    /// Runs the committer thread: leads when the lead is handed over, and writes a watermark after
    /// 100 ms of idleness. Returns when the journal is stopped.
    pub(crate) fn run_committer(&self, outcome: Outcome<'_, S>) {
        const IDLE: Duration = Duration::from_millis(100);
        let rounds = || self.ended_rounds();
        let mut queue = self.queue.lock();
        loop {
            let before = rounds();
            if queue.lead == LeaderState::HandedOver {
                queue.lead = LeaderState::Taken;
                // A watermark follows the committer's frames, too.
                queue.wake_committer();
                drop(queue);
                self.lead(ENDLESS, outcome);
                queue = self.queue.lock();
                continue;
            }
            match queue.committer {
                CommitterState::Stopped => return,
                CommitterState::Asleep => {
                    queue = self.wake.wait(queue);
                    continue;
                }
                CommitterState::Watching => {}
            }
            let (guard, waited) = self.wake.wait_timeout(queue, IDLE);
            queue = guard;
            self.relieve_stalled_leader();
            let idle = waited && rounds() == before;
            if idle && queue.lead == LeaderState::Free && queue.committer != CommitterState::Stopped
            {
                queue.lead = LeaderState::Taken;
                drop(queue);
                self.write_watermark();
                self.lead(ENDLESS, outcome);
                queue = self.queue.lock();
                if rounds() == before && queue.committer != CommitterState::Stopped {
                    queue.committer = CommitterState::Asleep;
                }
            }
        }
    }

    /// Ends the committer thread.
    pub(crate) fn stop(&self) {
        self.queue.lock().committer = CommitterState::Stopped;
        self.wake.notify_all();
    }
}

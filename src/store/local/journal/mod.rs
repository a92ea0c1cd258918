//! The shared commit journal: one sequential write and one sync for all callers that wait. A
//! caller that comes while no thread commits leads: it writes what is queued, its own frame among
//! it. Under load the committer thread leads, so that no caller's tasks wait for it. It must not
//! know sessions, nor files: `commit` makes frames visible once this room says they are durable.

pub(super) mod place;
pub(super) mod recover;
pub(super) mod ring;
pub(super) mod trouble;
pub(super) mod writer;

use std::{io, time::Duration};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use self::{
    place::Place,
    ring::RingFile,
    trouble::Trouble,
    writer::{Failure, Writer},
};
use super::{options::Options, rank};
use crate::{
    env::{
        Env,
        planted::{Defect, planted},
        sync::{
            Condvar, Mutex,
            atomic::{AtomicU64, Ordering},
        },
    },
    event::{Lsn, SessionHash},
    log::Frame,
    store::{Health, StoreError, StoreResult, rules::Effect},
};

/// Bytes of frames that one write takes at most, a larger single frame aside.
const ROUND_BYTES_MAX: u64 = 8 << 20;
/// Bytes of frames that wait for the disk at most: a later caller is refused as busy.
const QUEUE_BYTES_MAX: u64 = 64 << 20;
/// A disk that has not answered for so long is not ready for more.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A frame on its way, and who waits for it.
pub(super) struct Item<S> {
    pub(super) session: S,
    pub(super) frame: Frame,
    /// The payload as memory keeps it, where the frame's is encrypted.
    pub(super) plain: Option<Bytes>,
    /// What it does to its session; `None` for a copy of a frame that was durable before.
    pub(super) effect: Option<Effect>,
    /// `None` once the caller was answered before the others.
    pub(super) done: Option<oneshot::Sender<StoreResult<Shown>>>,
}

/// What a caller learns whose frame is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Readers see it.
    Seen,
    /// Readers see it once this caller has shown its round: [`Journal::show`].
    Show,
}

/// The last round that is durable, until it is visible, too.
struct Last<S> {
    /// Its frames; none once they are visible.
    items: Vec<Item<S>>,
    /// Where they end.
    end: Place,
    /// The end of what is durable and visible to readers.
    visible: Place,
}

/// Where the frames of a round go when it has ended.
pub(super) trait Sink<S> {
    /// Makes the frames of a round visible, or void; leaves the list empty.
    fn ended(&self, round: &mut Vec<Item<S>>, result: Result<(), Failure>);
}

type Outcome<'a, S> = &'a dyn Sink<S>;

/// Why a frame was not taken into the queue.
pub(super) enum Refused {
    /// A failure made what the frame was built on void: build it again.
    Stale,
    /// The store takes no writes.
    ReadOnly(String),
    /// As much as may wait for the disk waits.
    Full,
}

/// The queue and the files behind it.
pub(super) struct Journal<S> {
    env: Env,
    /// Whether a committer thread runs.
    background: bool,
    queue: Mutex<Queue<S>>,
    wake: Condvar,
    /// Wakes a thread that waits for the lead.
    offered: Condvar,
    /// Held across a write and its sync: what an append asks for is beside it.
    writer: Mutex<Writer>,
    /// Held while a round is made visible, so that one becomes so behind the other.
    last: Mutex<Last<S>>,
    /// The start of this owner.
    start: u64,
    /// Frames that were queued in an earlier epoch are void.
    epoch: AtomicU64,
    /// Bytes written since start, for the settling trigger.
    written: AtomicU64,
    trouble: Mutex<Trouble>,
    /// When the write or sync under way began, in microseconds of the monotonic clock; 0 when none
    /// is.
    busy_since: AtomicU64,
    progress: watch::Sender<u64>,
}

/// Why appends are refused.
struct Refusal {
    reason: String,
    /// Whether a probe that succeeds ends it.
    passes: bool,
}

struct Queue<S> {
    items: Vec<Item<S>>,
    /// Bytes of their frames.
    bytes: u64,
    next_lsn: Lsn,
    lead: Lead,
    /// Threads that wait for the lead; the committer hands it over between two rounds.
    waiting: usize,
    /// The last round had several frames: the committer leads the next.
    crowded: bool,
    committer: Committer,
    refuse: Option<Refusal>,
}

/// Which thread writes the frames of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// None: the queue is empty.
    Free,
    /// One that leads now.
    Taken,
    /// The first of the threads that wait for the lead.
    Offered,
    /// The committer thread, once it wakes.
    HandedOver,
}

impl Lead {
    /// Whether a thread that waits for the lead may take it.
    fn is_open(self) -> bool {
        matches!(self, Self::Free | Self::Offered)
    }
}

/// What the committer thread does while it does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Committer {
    /// It sleeps until it is woken: nothing was committed since the last watermark.
    Asleep,
    /// It writes a watermark once nothing was committed for a while.
    Watching,
    /// It ends.
    Stopped,
}

/// Frames that the committer leads: all there are, until another thread waits for the lead.
const ENDLESS: usize = usize::MAX;

impl<S> Queue<S> {
    fn push(&mut self, item: Item<S>) {
        self.bytes += item.frame.header.stride();
        self.items.push(item);
    }

    /// Has the committer watch for the time to write a watermark; answers whether it sleeps.
    fn wake_committer(&mut self) -> bool {
        let sleeps = self.committer == Committer::Asleep;
        if sleeps {
            self.committer = Committer::Watching;
        }
        sleeps
    }
}

/// What recovery found: where the journal continues.
pub(super) struct Resume {
    /// Where the frames of the last file end.
    pub(super) place: Place,
    /// The largest order any file of the ring has.
    pub(super) order: u64,
    /// The last start.
    pub(super) start: u64,
    /// Files of the ring, each with the order of its last use and its size.
    pub(super) ring: Vec<RingFile>,
}

impl<S> Journal<S> {
    pub(super) fn new(env: Env, options: Options, store: [u8; 16], resume: Resume) -> Self {
        let start = resume.start + 1;
        let Resume { place, order, ring, .. } = resume;
        let bytes = options.journal_file_bytes;
        let writer = Writer::new(env.clone(), (store, start), bytes, ring, order, place);
        let queue = Queue {
            items: Vec::new(),
            bytes: 0,
            next_lsn: place.lsn,
            lead: Lead::Free,
            waiting: 0,
            crowded: false,
            committer: Committer::Asleep,
            refuse: None,
        };
        let last = Last { items: Vec::new(), end: place, visible: place };
        Self {
            env,
            background: options.background,
            queue: Mutex::new(rank::QUEUE, queue),
            wake: Condvar::new(),
            offered: Condvar::new(),
            writer: Mutex::new(rank::WRITER, writer),
            last: Mutex::new(rank::LAST_ROUND, last),
            start,
            epoch: AtomicU64::new(0),
            written: AtomicU64::new(0),
            trouble: Mutex::new(rank::TROUBLE, Trouble::default()),
            busy_since: AtomicU64::new(0),
            progress: watch::channel(0).0,
        }
    }

    /// The current epoch: what is queued now is void when it changes.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// How many rounds ended, whatever their outcome.
    pub(super) fn rounds(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until more rounds have ended than `seen`.
    pub(super) async fn round_after(&self, seen: u64) {
        let mut progress = self.progress.subscribe();
        // The sender lives as long as this journal.
        let _ = progress.wait_for(|rounds| *rounds > seen).await;
    }

    /// Why appends are refused, when they are.
    pub(super) fn refusing(&self) -> Option<String> {
        self.queue.lock().refuse.as_ref().map(|refusal| refusal.reason.clone())
    }

    /// Refuses appends from now on; the first reason that does not pass stays.
    pub(super) fn refuse(&self, reason: &str) {
        self.refuse_for(reason, false);
    }

    fn refuse_for(&self, reason: &str, passes: bool) {
        let mut queue = self.queue.lock();
        if queue.refuse.as_ref().is_none_or(|refusal| refusal.passes && !passes) {
            queue.refuse = Some(Refusal { reason: reason.to_owned(), passes });
        }
    }

    /// Takes appends again, after what was refused for is given up.
    pub(super) fn allow(&self) {
        self.queue.lock().refuse = None;
    }

    /// Queues a frame built in `epoch`; `build` gets its first log sequence number. Answers whether
    /// the caller must lead.
    pub(super) fn enqueue(
        &self,
        epoch: u64,
        records: u32,
        build: impl FnOnce(Lsn) -> Item<S>,
    ) -> Result<bool, Refused> {
        let mut queue = self.queue.lock();
        if let Some(refusal) = &queue.refuse {
            return Err(Refused::ReadOnly(refusal.reason.clone()));
        }
        if self.epoch() != epoch {
            return Err(Refused::Stale);
        }
        if queue.bytes >= QUEUE_BYTES_MAX {
            return Err(Refused::Full);
        }
        let first = queue.next_lsn;
        queue.next_lsn = Lsn(first.0 + u64::from(records));
        let item = build(first);
        assert_eq!(
            item.frame.header.numbers(),
            (first, queue.next_lsn),
            "a frame has the numbers that it was given"
        );
        queue.push(item);
        if queue.lead != Lead::Free {
            return Ok(false);
        }
        if !(self.background && queue.crowded) {
            queue.lead = Lead::Taken;
            return Ok(true);
        }
        queue.lead = Lead::HandedOver;
        drop(queue);
        self.wake.notify_one();
        Ok(false)
    }

    /// Takes the next round into an empty list; `None` ends the leadership, which goes to who waits
    /// for it once the leader's part is done.
    fn take(&self, mut round: Vec<Item<S>>, done: bool) -> Option<Vec<Item<S>>> {
        debug_assert!(round.is_empty(), "the round before was published");
        let mut queue = self.queue.lock();
        assert_eq!(queue.lead, Lead::Taken, "only the leader takes a round");
        let mut bytes = 0;
        let fits = |item: &&Item<S>| {
            let first = bytes == 0;
            bytes += item.frame.header.stride();
            first || bytes <= ROUND_BYTES_MAX
        };
        let count = queue.items.iter().take_while(fits).count();
        if queue.waiting > 0 && (done || count == 0) {
            queue.lead = Lead::Offered;
            self.offered.notify_one();
            return None;
        }
        if count == 0 {
            queue.lead = Lead::Free;
            return None;
        }
        queue.crowded = count > 1;
        if count == queue.items.len() {
            std::mem::swap(&mut round, &mut queue.items);
        } else {
            round.extend(queue.items.drain(..count));
        }
        queue.bytes -= bytes_of(&round);
        debug_assert!(!queue.items.is_empty() || queue.bytes == 0);
        Some(round)
    }

    /// Leads: writes rounds until the queue is empty, or hands over when so many frames are
    /// written: to the committer thread when one runs, [`ENDLESS`] being its own part, or to who
    /// waits for the lead.
    pub(super) fn lead(&self, part: usize, outcome: Outcome<'_, S>) {
        let committer = part == ENDLESS;
        let mut left = part;
        let mut empty = Vec::new();
        while let Some(mut round) = self.take(empty, committer || left == 0) {
            let frames = round.iter().map(|item| &item.frame);
            let (result, end) = self.busy(|| {
                let mut writer = self.writer.lock();
                (writer.commit(frames), writer.durable())
            });
            self.written.fetch_add(bytes_of(&round), Ordering::Relaxed);
            // Behind a failure nothing is left of what was queued.
            left = if result.is_ok() { left.saturating_sub(round.len()) } else { 0 };
            self.note(result.as_ref().err().map(|failure| {
                let (Failure::Refused(error) | Failure::Unknown(error)) = failure;
                error
            }));
            // What was durable before is built upon: it is visible before anything becomes void.
            self.show(outcome);
            if let Err(failure) = &result {
                let mut behind = self.void(failure, &round);
                round.append(&mut behind);
                outcome.ended(&mut round, result);
                self.tell();
            }
            let mut last = self.last.lock();
            assert!(last.items.is_empty(), "rounds become visible in order");
            last.end = end;
            std::mem::swap(&mut last.items, &mut round);
            drop(last);
            empty = round;
            if !(committer && self.is_awaited() && self.tell_one()) {
                self.show(outcome);
            }
            if self.background && left == 0 {
                let mut queue = self.queue.lock();
                let runs = queue.committer != Committer::Stopped;
                let hands_over = runs && !queue.items.is_empty() && queue.waiting == 0;
                let wakes = queue.wake_committer() || hands_over;
                if wakes && !planted(Defect::LoseWakeUp) {
                    self.wake.notify_one();
                }
                if hands_over {
                    queue.lead = Lead::HandedOver;
                    return;
                }
            }
        }
    }

    /// Whether another round is queued.
    fn is_awaited(&self) -> bool {
        !self.queue.lock().items.is_empty()
    }

    /// Has one of the writers of the last round show it, so that the next is written meanwhile;
    /// `false` when no writer waits for it any more. The leader shows it before the next, whatever
    /// became of that writer.
    fn tell_one(&self) -> bool {
        loop {
            let mut last = self.last.lock();
            let Some(done) = last.items.iter_mut().find_map(|item| item.done.take()) else {
                return false;
            };
            drop(last);
            if done.send(Ok(Shown::Show)).is_ok() {
                return true;
            }
        }
    }

    /// Makes the last round visible, unless it is; then tells who waits.
    pub(super) fn show(&self, outcome: Outcome<'_, S>) {
        let mut last = self.last.lock();
        if last.items.is_empty() {
            return;
        }
        outcome.ended(&mut last.items, Ok(()));
        assert!(last.items.is_empty(), "a sink takes every frame of a round");
        assert!(last.visible.lsn <= last.end.lsn, "what is visible never shrinks");
        last.visible = last.end;
        drop(last);
        self.tell();
    }

    /// Wakes the callers that wait for frames in flight.
    pub(super) fn tell(&self) {
        self.progress.send_modify(|rounds| *rounds += 1);
    }

    /// Takes the lead when it is this thread's turn. All that is durable is visible then; what is
    /// queued waits for it.
    fn wait_for_lead(&self, outcome: Outcome<'_, S>) {
        let mut queue = self.queue.lock();
        queue.waiting += 1;
        while !queue.lead.is_open() {
            queue = self.offered.wait(queue);
        }
        queue.waiting -= 1;
        debug_assert!(queue.lead.is_open(), "one thread leads at a time");
        queue.lead = Lead::Taken;
        drop(queue);
        self.show(outcome);
    }

    /// Leads all that is queued. After [`Self::refuse`] that is the end of all writing.
    pub(super) fn drain(&self, outcome: Outcome<'_, S>) {
        self.wait_for_lead(outcome);
        let queued = self.queue.lock().items.len();
        self.lead(queued, outcome);
    }

    /// Notes how a write went. Readiness reports the last one; after several failed syncs no more
    /// writes are taken until [`Self::probe`] succeeds.
    fn note(&self, error: Option<&io::Error>) {
        let now = self.env.clock.monotonic();
        let mut writer = self.writer.lock();
        let mut trouble = self.trouble.lock();
        let refused = trouble.note(now, error, writer.failures());
        writer.take_care(trouble.is_recent());
        if let Some(reason) = writer.foreign() {
            self.refuse(reason);
        } else if let Some(reason) = refused {
            self.refuse_for(reason, true);
        }
    }

    /// Tries the disk again when it is time to, with a file of its own and never with one that
    /// failed, and takes appends again when that file can be synced.
    pub(super) fn probe(&self) {
        let now = self.env.clock.monotonic();
        if !self.trouble.lock().is_probe_due(now) {
            return;
        }
        let tried = ring::probe(&self.env);
        if let Err(error) = &tried {
            tracing::warn!(%error, "the disk still fails; the store stays read-only");
        }
        let mut writer = self.writer.lock();
        if !self.trouble.lock().probed(now, &tried) {
            return;
        }
        writer.forgive();
        if self.queue.lock().refuse.take_if(|refusal| refusal.passes).is_some() {
            tracing::info!("the disk syncs again; the store takes writes");
        }
    }

    /// Looks whether the next append has room; where it had none, it makes the file of the ring
    /// that the append would need. So readiness is what the next append meets, and heals without
    /// one.
    pub(super) fn look_for_room(&self) {
        let now = self.env.clock.monotonic();
        if self.refusing().is_some() || !self.trouble.lock().is_room_due(now) {
            return;
        }
        let mut writer = self.writer.lock();
        let known = self.trouble.lock().lacks();
        let found = if known.is_some() { writer.find_room() } else { writer.expect_room() };
        match (known, &found) {
            (None, Ok(())) => return,
            (None, Err(error)) => tracing::warn!(%error, "there is no room for the next append"),
            (Some(_), Ok(())) => tracing::info!("there is room again: appends are taken"),
            (Some(_), Err(error)) => tracing::debug!(%error, "there is still no room"),
        }
        self.trouble.lock().note_room(now, found.as_ref().err());
    }

    /// Starts a new epoch after a failure and takes what was queued behind the failed round.
    fn void(&self, failure: &Failure, round: &[Item<S>]) -> Vec<Item<S>> {
        let mut queue = self.queue.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        if let (Failure::Refused(_), Some(first)) = (failure, round.first()) {
            // Nothing of these numbers was ever written.
            queue.next_lsn = first.frame.header.numbers().0;
        }
        queue.bytes = 0;
        std::mem::take(&mut queue.items)
    }

    /// Runs what writes and syncs, and lets [`Self::silence`] tell how long it takes.
    fn busy<T>(&self, write: impl FnOnce() -> T) -> T {
        let micros = self.env.clock.monotonic().as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX).max(1);
        self.busy_since.store(micros, Ordering::Relaxed);
        let written = write();
        self.busy_since.store(0, Ordering::Relaxed);
        written
    }

    /// Why the last write failed, if that was lately.
    fn trouble(&self) -> Option<String> {
        self.trouble.lock().reason(self.env.clock.monotonic())
    }

    /// Whether appends are taken, as far as is known.
    pub(super) fn health(&self) -> Health {
        if let Some(reason) = self.refusing() {
            return Health::ReadOnly(reason);
        }
        if let Some(short) = self.trouble.lock().lacks() {
            return Health::Full(short);
        }
        if let Some(reason) = self.trouble() {
            return Health::ReadOnly(reason);
        }
        let silence = self.silence();
        if silence < SILENCE_MAX { Health::Ready } else { Health::Silent(silence) }
    }

    /// How long the disk has owed an answer to a write or a sync.
    fn silence(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            micros => self.env.clock.monotonic().saturating_sub(Duration::from_micros(micros)),
        }
    }

    /// The committer thread: leads when leadership is handed over, and writes a watermark after
    /// 100 ms of idleness. Returns when the journal is stopped.
    pub(super) fn run(&self, outcome: Outcome<'_, S>) {
        const IDLE: Duration = Duration::from_millis(100);
        let rounds = || self.rounds();
        let mut queue = self.queue.lock();
        loop {
            let before = rounds();
            if queue.lead == Lead::HandedOver {
                queue.lead = Lead::Taken;
                // A watermark follows what it leads, as it follows what other threads lead.
                queue.wake_committer();
                drop(queue);
                self.lead(ENDLESS, outcome);
                queue = self.queue.lock();
                continue;
            }
            match queue.committer {
                Committer::Stopped => return,
                Committer::Asleep => {
                    queue = self.wake.wait(queue);
                    continue;
                }
                Committer::Watching => {}
            }
            let (guard, waited) = self.wake.wait_timeout(queue, IDLE);
            queue = guard;
            let idle = waited && rounds() == before;
            if idle && queue.lead == Lead::Free && queue.committer != Committer::Stopped {
                queue.lead = Lead::Taken;
                drop(queue);
                self.watermark();
                self.lead(ENDLESS, outcome);
                queue = self.queue.lock();
                if rounds() == before && queue.committer != Committer::Stopped {
                    queue.committer = Committer::Asleep;
                }
            }
        }
    }

    /// Writes frames that are durable already once more, behind everything queued, so that the
    /// files before them can be recycled. Each takes a number of its own. Returns when they are
    /// written, or void; `outcome` tells which.
    pub(super) fn copy_forward(&self, copies: Vec<Item<S>>, outcome: Outcome<'_, S>) {
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

    /// Ends the committer thread.
    pub(super) fn stop(&self) {
        self.queue.lock().committer = Committer::Stopped;
        self.wake.notify_all();
    }

    /// Syncs an empty frame at the next 4 KiB boundary, once after the last round, so that damage
    /// to the last acknowledged frames is damage, not a torn tail. The caller leads.
    fn watermark(&self) {
        if let Err(error) = self.write_apart(Writer::watermark) {
            tracing::warn!(%error, "a watermark could not be written");
            self.note(Some(&error));
        }
    }

    /// Writes a watermark now unless a thread leads; what the committer thread does when idle.
    pub(super) fn idle(&self, outcome: Outcome<'_, S>) {
        let mut queue = self.queue.lock();
        if queue.lead == Lead::Free {
            queue.lead = Lead::Taken;
            drop(queue);
            self.watermark();
            self.lead(ENDLESS, outcome);
        }
    }

    /// Runs what no write may run beside: the caller leads meanwhile.
    pub(super) fn alone<T>(&self, run: impl FnOnce() -> T, outcome: Outcome<'_, S>) -> T {
        self.wait_for_lead(outcome);
        let done = self.busy(run);
        self.lead(0, outcome);
        done
    }

    /// Lets no payload of such frames be repeated in another file: see [`Writer::blank`].
    pub(super) fn blank(&self, session: SessionHash, wanted: &dyn Fn(u64, u64) -> bool) {
        self.writer.lock().blank(session, wanted);
    }

    /// The place of the journal up to which everything is durable and visible.
    pub(super) fn place(&self) -> Place {
        self.last.lock().visible
    }

    /// The start of this owner.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Makes this start durable, if nothing was committed in it yet.
    pub(super) fn begin(&self, outcome: Outcome<'_, S>) -> io::Result<()> {
        if self.writer.lock().started() {
            return Ok(());
        }
        self.apart(
            |writer, next| if writer.started() { Ok(()) } else { writer.begin(next) },
            outcome,
        )
    }

    /// Continues in another file: a place of this one is damaged.
    pub(super) fn leave(&self, outcome: Outcome<'_, S>) -> io::Result<()> {
        self.apart(Writer::leave, outcome)
    }

    /// Writes what is no round; `write` gets the number of the next record.
    fn apart(
        &self,
        write: impl FnOnce(&mut Writer, Lsn) -> io::Result<()>,
        outcome: Outcome<'_, S>,
    ) -> io::Result<()> {
        self.wait_for_lead(outcome);
        let next = self.next_number();
        let result = self.write_apart(|writer| write(writer, next));
        self.note(result.as_ref().err());
        self.lead(0, outcome);
        result
    }

    /// Writes what is no round, and lets readers of the place see it. The caller leads.
    fn write_apart(&self, write: impl FnOnce(&mut Writer) -> io::Result<()>) -> io::Result<()> {
        self.busy(|| {
            let mut writer = self.writer.lock();
            let result = write(&mut writer);
            let (end, mut last) = (writer.durable(), self.last.lock());
            (last.end, last.visible) = (end, end);
            result
        })
    }

    /// The number of the next record that is written.
    fn next_number(&self) -> Lsn {
        let queue = self.queue.lock();
        queue.items.first().map_or(queue.next_lsn, |item| item.frame.header.numbers().0)
    }

    /// Lets a file of the ring not be used again by this process.
    pub(super) fn condemn(&self, number: u32) {
        self.writer.lock().condemn(number);
    }

    /// Whether a file of the ring, if it is one, is not used again by this process.
    pub(super) fn is_condemned(&self, number: Option<u32>) -> bool {
        number.is_some_and(|number| self.writer.lock().is_condemned(number))
    }

    /// Lets a file of the ring that failed, if it is one, not be written to any more. The caller
    /// leads.
    pub(super) fn abandon(&self, number: Option<u32>) {
        number.into_iter().for_each(|number| self.writer.lock().abandon(number));
    }

    /// The files of the ring that were used: number and order.
    pub(super) fn files(&self) -> Vec<(u32, u64)> {
        self.writer.lock().used()
    }

    /// Whether a new file of the ring is made small: there is no room for another.
    pub(super) fn sparing(&self, sparing: bool) {
        self.writer.lock().spare(sparing);
    }

    /// Files before this order hold nothing that is not settled twice.
    pub(super) fn recycle(&self, order: u64) {
        self.writer.lock().recycle(order);
    }

    /// Bytes written since start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Bytes of the frames of a round.
fn bytes_of<S>(round: &[Item<S>]) -> u64 {
    round.iter().map(|item| item.frame.header.stride()).sum()
}

/// What a failed round means to those who waited.
pub(super) fn error_of(failure: &Failure) -> StoreError {
    match failure {
        Failure::Unknown(error) => StoreError::OutcomeUnknown { reason: error.to_string() },
        Failure::Refused(error) => trouble::write_error("opening a journal file", error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{
        env::sim::{Fault, Op, Sim},
        event::Position,
        log::{Chain, FrameHeader, FrameKind},
    };

    impl<S, F: Fn(&mut Vec<Item<S>>, Result<(), Failure>)> Sink<S> for F {
        fn ended(&self, round: &mut Vec<Item<S>>, result: Result<(), Failure>) {
            self(round, result);
        }
    }

    /// A frame of so many bytes, and who waits for it.
    fn item(first_lsn: Lsn, bytes: usize) -> (Item<()>, oneshot::Receiver<StoreResult<Shown>>) {
        let header = FrameHeader {
            kind: FrameKind::Request,
            length: bytes as u32,
            compressed: false,
            count: 1,
            events: 0,
            first_lsn,
            synced_lsn: Lsn(0),
            first_position: Position(0),
            session: SessionHash([7; 32]),
            chain: Chain([0; 32]),
            control_chain: Chain([0; 32]),
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        let (done, told) = oneshot::channel();
        let frame = Frame { header, payload: Bytes::from(vec![1; bytes]) };
        (Item { session: (), frame, plain: None, effect: None, done: Some(done) }, told)
    }

    fn journal_on(sim: &Sim, background: bool) -> Journal<()> {
        const FILE_BYTES: u64 = 8 << 20;
        sim.env().storage.create_dir("journal").unwrap();
        let place = Place { order: 0, byte_offset: 0, lsn: Lsn(0) };
        let resume = Resume { place, order: 0, start: 0, ring: Vec::new() };
        let options = Options { journal_file_bytes: FILE_BYTES, background, ..Options::default() };
        Journal::new(sim.env(), options, [3; 16], resume)
    }

    #[test]
    fn who_waits_for_the_lead_gets_it_though_there_is_always_more_to_write() {
        const ROUNDS: usize = 100;
        let sim = Sim::new(1);
        let journal = journal_on(&sim, true);
        let queue = || {
            let mut told = None;
            let queued = journal.enqueue(0, 1, |lsn| {
                let (item, done) = item(lsn, 100);
                told = Some(done);
                item
            });
            assert!(queued.is_ok() && told.is_some());
        };
        let rounds = AtomicU64::new(0);
        // Each round that is shown brings the next.
        let outcome = |round: &mut Vec<Item<()>>, _: Result<(), Failure>| {
            round.clear();
            match rounds.fetch_add(1, Ordering::Relaxed) as usize {
                2 => {
                    while journal.queue.lock().waiting == 0 {
                        std::thread::yield_now();
                    }
                }
                ROUNDS.. => return,
                _ => {}
            }
            queue();
        };
        queue();
        std::thread::scope(|scope| {
            scope.spawn(|| journal.lead(ENDLESS, &outcome));
            let before =
                journal.alone(
                    || rounds.load(Ordering::Relaxed),
                    &|round: &mut Vec<Item<()>>, _: Result<(), Failure>| round.clear(),
                );
            assert!(before < ROUNDS as u64, "after {before} rounds");
        });
    }

    #[test]
    fn each_burst_that_the_committer_leads_has_a_watermark_behind_it() {
        let sim = Sim::new(1);
        let journal = journal_on(&sim, true);
        let outcome = |round: &mut Vec<Item<()>>, _: Result<(), Failure>| round.clear();
        let queue = || journal.enqueue(0, 1, |lsn| item(lsn, 100).0);
        let (mut led, mut marked) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| journal.run(&outcome));
            for burst in 0..3 {
                // As behind a round of many: the committer leads this one.
                journal.queue.lock().crowded = true;
                led.push(queue().unwrap_or(true));
                let is_marked = || {
                    let written = journal.place().lsn == Lsn(burst + 1);
                    let sleeps = || journal.queue.lock().committer == Committer::Asleep;
                    written && journal.writer.lock().watermarked && sleeps()
                };
                marked.push((0..20_000_000).any(|_| {
                    std::thread::yield_now();
                    is_marked()
                }));
            }
            journal.stop();
        });
        assert_eq!(led, [false; 3]);
        assert_eq!(marked, [true; 3]);
    }

    #[test]
    fn what_is_durable_is_shown_before_a_failure_makes_anything_void() {
        let sim = Sim::new(1);
        let journal = journal_on(&sim, false);
        let seen = RefCell::new(Vec::new());
        let outcome = |round: &mut Vec<Item<()>>, result: Result<(), Failure>| {
            seen.borrow_mut().push((round.len(), result.is_ok(), journal.epoch()));
            round.clear();
        };
        let mut waiting = Vec::new();
        let mut queue = |bytes: usize| {
            let queued = journal.enqueue(0, 1, |lsn| {
                let (item, told) = item(lsn, bytes);
                waiting.push(told);
                item
            });
            assert!(queued.is_ok());
        };
        queue(100);
        journal.lead(ENDLESS, &outcome);
        // Two rounds: the first goes into the file that there is, the second finds no other.
        queue(5 << 20);
        queue(5 << 20);
        sim.fail_next(Op::Create, Fault::Io, true);
        journal.lead(ENDLESS, &outcome);
        assert_eq!(seen.take(), [(1, true, 0), (1, true, 0), (1, false, 1)]);
        let mut told = waiting.into_iter().map(|mut told| told.try_recv().map(|told| told.ok()));
        assert!(told.next().is_some(), "the first is told by the outcome");
        assert_eq!(told.next(), Some(Ok(Some(Shown::Show))), "one of a round that another follows");
        assert_eq!(journal.place().lsn, Lsn(2));
    }

    /// A journal whose rounds are forgotten once they are written, and one frame written to it.
    fn write(journal: &Journal<()>) -> Option<bool> {
        let queued = journal.enqueue(journal.epoch(), 1, |lsn| item(lsn, 100).0);
        let written = std::cell::Cell::new(None);
        if queued.is_ok() {
            journal.lead(ENDLESS, &|round: &mut Vec<Item<()>>, result: Result<(), Failure>| {
                written.set(Some(result.is_ok()));
                round.clear();
            });
        }
        written.take()
    }

    /// A journal in which two syncs failed in a row: the first in the file that was there, the
    /// second in the next, behind so many calls that make one.
    fn broken() -> (Sim, Journal<()>) {
        let breaks = |call| {
            let sim = Sim::new(1);
            let journal = journal_on(&sim, false);
            assert_eq!(write(&journal), Some(true));
            for call in [0, call] {
                assert_eq!(journal.refusing(), None);
                sim.fail_call(sim.calls() + call, Fault::Io, false);
                write(&journal);
                sim.heal();
            }
            journal.refusing().is_some().then_some((sim, journal))
        };
        (1..60).find_map(breaks).expect("some call writes to the next file")
    }

    #[test]
    fn a_disk_that_failed_and_healed_takes_writes_again() {
        let (sim, journal) = broken();
        assert_eq!(write(&journal), None, "two syncs failed in a row");
        sim.fail_writing("", Fault::Io);
        let pass = |seconds| {
            sim.clock().advance(Duration::from_secs(seconds));
            journal.probe();
            write(&journal)
        };
        assert_eq!(pass(4), None, "it is not time yet");
        assert_eq!(pass(2), None, "the probe fails");
        sim.heal();
        assert_eq!(pass(2), None, "it is not time yet");
        assert_eq!(pass(20), Some(true));
        assert_eq!(journal.refusing(), None);
        journal.refuse("the store is closed");
        journal.probe();
        assert_eq!(write(&journal), None, "no probe opens a closed store");
    }

    #[test]
    fn a_device_that_fails_now_and_then_does_not_fill_the_disk() {
        let sim = Sim::new(1);
        let journal = journal_on(&sim, false);
        assert_eq!(write(&journal), Some(true));
        let before = sim.used();
        for second in 0..3_600 {
            if second % 2 == 0 {
                sim.fail_next(Op::Sync, Fault::Io, false);
            }
            write(&journal);
            sim.heal();
            sim.clock().advance(Duration::from_secs(1));
            journal.probe();
        }
        let grown = sim.used() - before;
        assert!(grown < 4 << 20, "{grown} bytes in an hour");
    }

    #[test]
    fn a_file_of_another_owner_ends_all_writing() {
        let sim = Sim::new(1);
        let (ours, theirs) = (journal_on(&sim, false), journal_on(&sim, false));
        assert_eq!(write(&ours), Some(true));
        assert_eq!(write(&theirs), Some(false), "it looks before it begins a file");
        assert_eq!(write(&theirs), None);
        assert!(theirs.refusing().is_some_and(|why| why.contains("another process wrote")));
        assert_eq!(write(&ours), Some(true));
    }
}

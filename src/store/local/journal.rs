//! The shared commit journal: one sequential write and one sync for everybody waiting. Whoever
//! comes while nobody commits leads: it writes what is queued, its own frame among it. It must not
//! know sessions: `commit` makes frames visible once this room says they are durable.
//!
//! A failed write or sync is never repeated on the same file: the file is poisoned, all that was
//! queued is void, and the next file says where the poisoned one ends and first repeats the
//! acknowledged frames that shared its last blocks.

use std::{io, time::Duration};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::{
    Options,
    layout::journal_path,
    ring::{self, RingFile},
    session::Effect,
    slots::Place,
};
use crate::{
    env::{
        Env, File,
        sync::{
            Condvar, Mutex, MutexGuard, PoisonError,
            atomic::{AtomicU64, Ordering},
            thread,
        },
    },
    event::{Lsn, Position, SessionHash},
    log::{
        Chain, FrameHeader, FrameKind, frame,
        journal::{FRAMES_AT, JournalHeader},
        scan::WATERMARK_ALIGN_BYTES,
    },
    store::{StoreError, StoreResult},
};

/// Bytes of frames that one write takes at most, a larger single frame aside.
const ROUND_BYTES_MAX: u64 = 8 << 20;
/// Bytes of frames that wait for the disk at most: who comes later is told to come back.
const QUEUE_BYTES_MAX: u64 = 64 << 20;
/// Blocks of the file system: a failed write may hurt its neighbours in one of them.
const BLOCK_BYTES: u64 = 4096;
/// How long a failure is believed to go on when nobody tries again.
const TROUBLE_KEPT: Duration = Duration::from_secs(10);
/// Failed syncs in a row after which the store takes no more writes.
const FAILURES_MAX: u32 = 2;

/// A frame on its way, and who waits for it.
pub(super) struct Item<S> {
    pub(super) session: S,
    pub(super) header: FrameHeader,
    pub(super) payload: Bytes,
    /// What it does to its session; `None` for a copy of a frame that was durable before.
    pub(super) effect: Option<Effect>,
    pub(super) done: oneshot::Sender<StoreResult<()>>,
}

/// Why a frame was not taken into the queue.
pub(super) enum Refused {
    /// A failure made what the frame was built on void: build it again.
    Stale,
    /// The store takes no writes.
    ReadOnly(String),
    /// As much as may wait for the disk waits.
    Full,
}

/// Why a round failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was written.
    Refused(io::Error),
    /// Something may have been written: the outcome is unknown.
    Unknown(io::Error),
}

/// The queue and the file behind it.
pub(super) struct Journal<S> {
    env: Env,
    options: Options,
    store: [u8; 16],
    queue: Mutex<Queue<S>>,
    wake: Condvar,
    /// Held across a write and its sync: what an append asks for lies beside it.
    writer: Mutex<Writer>,
    /// The start of this owner.
    start: u64,
    /// Bytes written since start, for the settling trigger.
    written: AtomicU64,
    /// When the last round failed and why; `None` once one succeeded.
    trouble: Mutex<Option<(Duration, String)>>,
    /// When the write or sync under way began, in microseconds of the monotonic clock; 0 when none
    /// is.
    busy_since: AtomicU64,
    progress: watch::Sender<u64>,
}

struct Queue<S> {
    items: Vec<Item<S>>,
    /// Bytes of their frames.
    bytes: u64,
    next_lsn: Lsn,
    epoch: u64,
    leading: bool,
    handover: bool,
    /// Nothing was committed since the last watermark: the committer sleeps until it is woken.
    quiet: bool,
    refuse: Option<String>,
    stopped: bool,
}

impl<S> Queue<S> {
    fn push(&mut self, item: Item<S>) {
        self.bytes += item.header.stride();
        self.items.push(item);
    }
}

/// What recovery found: where the journal goes on.
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

struct Writer {
    ring: Vec<RingFile>,
    current: Option<Current>,
    /// The last order given to a use.
    order: u64,
    /// The end of what is durable.
    durable: Place,
    /// The end of what is durable and visible to readers.
    published: Place,
    started: bool,
    recyclable_order: u64,
    /// Acknowledged frames that end in the file's last block, to be repeated should it be poisoned.
    recent: Vec<(u64, FrameHeader, Bytes)>,
    repeat: bool,
    failures: u32,
    watermarked: bool,
}

struct Current {
    file: Box<dyn File>,
    number: u32,
    order: u64,
    salt: u64,
    bytes: u64,
    /// Where the next frame goes.
    end: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Journal<S> {
    pub(super) fn new(env: Env, options: Options, store: [u8; 16], resume: Resume) -> Self {
        let writer = Writer {
            ring: resume.ring,
            current: None,
            order: resume.order,
            durable: resume.place,
            published: resume.place,
            started: false,
            recyclable_order: 0,
            recent: Vec::new(),
            repeat: false,
            failures: 0,
            watermarked: true,
        };
        let start = resume.start + 1;
        let queue = Queue {
            items: Vec::new(),
            bytes: 0,
            next_lsn: resume.place.lsn,
            epoch: 0,
            leading: false,
            handover: false,
            quiet: true,
            refuse: None,
            stopped: false,
        };
        Self {
            env,
            options,
            store,
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            writer: Mutex::new(writer),
            start,
            written: AtomicU64::new(0),
            trouble: Mutex::default(),
            busy_since: AtomicU64::new(0),
            progress: watch::channel(0).0,
        }
    }

    /// The current epoch: what is queued now is void when it changes.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.queue).epoch
    }

    /// Changes after every round, whatever its outcome.
    pub(super) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Why appends are refused, when they are.
    pub(super) fn refusing(&self) -> Option<String> {
        lock(&self.queue).refuse.clone()
    }

    /// Refuses appends from now on; the first reason stays.
    pub(super) fn refuse(&self, reason: &str) {
        lock(&self.queue).refuse.get_or_insert_with(|| reason.to_owned());
    }

    /// Queues a frame built in `epoch`; `build` gets its first log sequence number. Answers whether
    /// the caller must lead.
    pub(super) fn enqueue(
        &self,
        epoch: u64,
        records: u32,
        build: impl FnOnce(Lsn) -> Item<S>,
    ) -> Result<bool, Refused> {
        let mut queue = lock(&self.queue);
        if let Some(reason) = &queue.refuse {
            return Err(Refused::ReadOnly(reason.clone()));
        }
        if queue.epoch != epoch {
            return Err(Refused::Stale);
        }
        if queue.bytes >= QUEUE_BYTES_MAX {
            return Err(Refused::Full);
        }
        let first = queue.next_lsn;
        queue.next_lsn = Lsn(first.0 + u64::from(records));
        let item = build(first);
        queue.push(item);
        Ok(!std::mem::replace(&mut queue.leading, true))
    }

    /// Takes the next round; `None` ends the leadership.
    fn take(&self) -> Option<Vec<Item<S>>> {
        let mut queue = lock(&self.queue);
        let mut bytes = 0;
        let fits = |item: &&Item<S>| {
            let first = bytes == 0;
            bytes += item.header.stride();
            first || bytes <= ROUND_BYTES_MAX
        };
        let count = queue.items.iter().take_while(fits).count();
        if count == 0 {
            queue.leading = false;
            return None;
        }
        let round: Vec<Item<S>> = queue.items.drain(..count).collect();
        queue.bytes -= round.iter().map(|item| item.header.stride()).sum::<u64>();
        Some(round)
    }

    /// Leads: writes rounds until the queue is empty, or, when a committer thread runs and this is
    /// not it, hands over after the first. `outcome` makes a round's frames visible or void.
    pub(super) fn lead(
        &self,
        committer: bool,
        outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>),
    ) {
        while let Some(mut round) = self.take() {
            let result = self.busy(|| lock(&self.writer).commit(self, &round));
            let bytes: u64 = round.iter().map(|item| item.header.stride()).sum();
            self.written.fetch_add(bytes, Ordering::Relaxed);
            if let Err(failure) = &result {
                let mut behind = self.void(failure, &round);
                round.append(&mut behind);
            }
            *lock(&self.trouble) = result.as_ref().err().map(|failure| {
                let (Failure::Refused(error) | Failure::Unknown(error)) = failure;
                (self.env.clock.monotonic(), error.to_string())
            });
            outcome(round, result);
            self.published();
            self.tell();
            if self.options.background && !committer {
                let mut queue = lock(&self.queue);
                queue.handover = !queue.items.is_empty() && !queue.stopped;
                queue.leading = !queue.items.is_empty();
                if std::mem::take(&mut queue.quiet) || queue.handover {
                    self.wake.notify_one();
                }
                if queue.handover || !queue.leading {
                    return;
                }
            }
        }
    }

    /// Wakes whoever waits for frames in flight.
    pub(super) fn tell(&self) {
        self.progress.send_modify(|rounds| *rounds += 1);
    }

    /// Waits until nobody leads and nothing is queued; what is queued meanwhile is led here. After
    /// [`Self::refuse`] that is the end of all writing.
    pub(super) fn drain(&self, outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>)) {
        while std::mem::replace(&mut lock(&self.queue).leading, true) {
            thread::yield_now();
        }
        self.lead(true, outcome);
    }

    /// What is durable is visible now. The caller leads.
    fn published(&self) {
        let mut writer = lock(&self.writer);
        writer.published = writer.durable;
    }

    /// Starts a new epoch after a failure and takes what was queued behind the failed round.
    fn void(&self, failure: &Failure, round: &[Item<S>]) -> Vec<Item<S>> {
        let failures = lock(&self.writer).failures;
        let mut queue = lock(&self.queue);
        queue.epoch += 1;
        if let (Failure::Refused(_), Some(first)) = (failure, round.first()) {
            // Nothing of these numbers was ever written.
            queue.next_lsn = first.header.numbers().0;
        }
        if failures >= FAILURES_MAX {
            let reason = "two syncs of the journal failed in a row; check the disk, then restart";
            queue.refuse.get_or_insert_with(|| reason.to_owned());
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

    /// Why the last round failed. After a while without another nobody knows whether the next
    /// would fail, too.
    pub(super) fn trouble(&self) -> Option<String> {
        let (since, why) = lock(&self.trouble).clone()?;
        let age = self.env.clock.monotonic().saturating_sub(since);
        (age < TROUBLE_KEPT).then_some(why)
    }

    /// How long the disk has owed an answer to a write or a sync.
    pub(super) fn silence(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            micros => self.env.clock.monotonic().saturating_sub(Duration::from_micros(micros)),
        }
    }

    /// The committer thread: leads when leadership is handed over, and writes a watermark after
    /// 100 ms of idleness. Returns when the journal is stopped.
    pub(super) fn run(&self, outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>)) {
        const IDLE: Duration = Duration::from_millis(100);
        let rounds = || *self.progress.borrow();
        let mut queue = lock(&self.queue);
        loop {
            let before = rounds();
            if std::mem::take(&mut queue.handover) {
                drop(queue);
                self.lead(true, outcome);
                queue = lock(&self.queue);
                continue;
            }
            if queue.stopped {
                return;
            }
            if queue.quiet {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (guard, waited) =
                self.wake.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            let idle = waited.timed_out() && rounds() == before;
            if idle && !queue.leading && !queue.stopped {
                queue.leading = true;
                drop(queue);
                self.watermark();
                self.lead(true, outcome);
                queue = lock(&self.queue);
                queue.quiet = rounds() == before;
            }
        }
    }

    /// Writes frames that are durable already once more, behind everything queued, so that what
    /// lies before them can be recycled. Each takes a number of its own. Returns when they are
    /// written, or void; `outcome` tells which.
    pub(super) fn copy_forward(
        &self,
        copies: Vec<Item<S>>,
        outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>),
    ) {
        while std::mem::replace(&mut lock(&self.queue).leading, true) {
            thread::yield_now();
        }
        let mut queue = lock(&self.queue);
        if queue.refuse.is_none() {
            for mut item in copies {
                item.header.copy_lsn = queue.next_lsn;
                queue.next_lsn = Lsn(queue.next_lsn.0 + 1);
                queue.push(item);
            }
        }
        drop(queue);
        self.lead(true, outcome);
    }

    /// Ends the committer thread.
    pub(super) fn stop(&self) {
        lock(&self.queue).stopped = true;
        self.wake.notify_all();
    }

    /// Syncs an empty frame at the next 4 KiB boundary, once after the last round, so that damage
    /// to the last acknowledged frames is damage, not a torn tail. The caller leads.
    fn watermark(&self) {
        let mut writer = lock(&self.writer);
        if let Err(error) = self.busy(|| writer.watermark()) {
            writer.poison();
            tracing::warn!(%error, "a watermark could not be written");
        }
        writer.published = writer.durable;
    }

    /// Writes a watermark now unless somebody leads; what the committer thread does when idle.
    pub(super) fn idle(&self, outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>)) {
        if !std::mem::replace(&mut lock(&self.queue).leading, true) {
            self.watermark();
            self.lead(true, outcome);
        }
    }

    /// The place of the journal up to which everything is durable and visible.
    pub(super) fn place(&self) -> Place {
        lock(&self.writer).published
    }

    /// The start of this owner.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Makes this start durable, if nothing was committed in it yet.
    pub(super) fn begin(
        &self,
        outcome: &dyn Fn(Vec<Item<S>>, Result<(), Failure>),
    ) -> io::Result<()> {
        while !lock(&self.writer).started {
            if std::mem::replace(&mut lock(&self.queue).leading, true) {
                // Whoever leads makes the start durable with his first round.
                thread::yield_now();
                continue;
            }
            let next = {
                let queue = lock(&self.queue);
                queue.items.first().map_or(queue.next_lsn, |item| item.header.numbers().0)
            };
            let result = self.busy(|| {
                let mut writer = lock(&self.writer);
                // Nothing is poisoned when no file could be opened: a full disk may be freed.
                writer.open_file(self, 0, next).and_then(|header| {
                    let written = writer.write(&header, 0);
                    written.inspect_err(|_| writer.poison())
                })
            });
            self.published();
            self.lead(true, outcome);
            result?;
        }
        Ok(())
    }

    /// Files before this order hold nothing that is not settled twice.
    pub(super) fn recycle(&self, order: u64) {
        lock(&self.writer).recyclable_order = order;
    }

    /// Bytes written since start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Writer {
    fn commit<S>(&mut self, journal: &Journal<S>, round: &[Item<S>]) -> Result<(), Failure> {
        let Some(first) = round.first() else { return Ok(()) };
        let need: u64 = round.iter().map(|item| item.header.stride()).sum();
        let fits = self.current.as_ref().is_some_and(|file| file.end + need <= file.bytes);
        let mut buffer = Vec::new();
        if !fits {
            let next = first.header.numbers().0;
            buffer = self.open_file(journal, need, next).map_err(Failure::Refused)?;
        }
        let Some(current) = &self.current else {
            return Err(Failure::Refused(io::Error::other("no journal file is open")));
        };
        let at = if fits { current.end } else { 0 };
        let mut frames = Vec::with_capacity(round.len());
        for item in round {
            let header = FrameHeader { synced_lsn: self.durable.lsn, ..item.header };
            header.write(current.salt, &item.payload, &mut buffer);
            frames.push((at + buffer.len() as u64, header, item.payload.clone()));
        }
        if let Err(error) = self.write(&buffer, at) {
            self.poison();
            return Err(Failure::Unknown(error));
        }
        if let Some(last) = round.last() {
            self.durable.lsn = last.header.numbers().1;
        }
        self.recent.append(&mut frames);
        let block = self.durable.byte_offset - self.durable.byte_offset % BLOCK_BYTES;
        self.recent.retain(|(end, ..)| *end > block);
        self.watermarked = false;
        Ok(())
    }

    /// Writes and syncs at a byte offset, and moves the end behind it.
    fn write(&mut self, buffer: &[u8], at: u64) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.file.write_at(at, buffer)?;
        current.file.sync()?;
        current.end = at + buffer.len() as u64;
        self.durable.order = current.order;
        self.durable.byte_offset = current.end;
        self.started = true;
        self.failures = 0;
        Ok(())
    }

    fn watermark(&mut self) -> io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let boundary = current.end.next_multiple_of(WATERMARK_ALIGN_BYTES);
        if self.watermarked || boundary + frame::HEADER_BYTES as u64 > current.bytes {
            return Ok(());
        }
        let header = FrameHeader {
            kind: FrameKind::Watermark,
            length: 0,
            compressed: false,
            count: 0,
            events: 0,
            first_lsn: self.durable.lsn,
            synced_lsn: self.durable.lsn,
            first_position: Position(current.end),
            session: SessionHash([0; 32]),
            chain: Chain([0; 32]),
            control_chain: Chain([0; 32]),
            copy_lsn: Lsn(0),
        };
        let mut buffer = Vec::new();
        header.write(current.salt, &[], &mut buffer);
        self.watermarked = true;
        self.write(&buffer, boundary)
    }

    /// Leaves a file that failed; the next one repeats what shared its last blocks.
    fn poison(&mut self) {
        if let Some(failed) = self.current.take() {
            self.ring.iter_mut().filter(|file| file.number == failed.number).for_each(|file| {
                file.poisoned = true;
            });
        }
        self.repeat = true;
        self.failures += 1;
    }

    /// Makes another file of the ring current and answers what it must start with: its header,
    /// twice, and the frames to repeat. Nothing of it is written yet. `next` is the first number
    /// that no earlier file has: numbers of frames that failed are skipped.
    fn open_file<S>(&mut self, journal: &Journal<S>, need: u64, next: Lsn) -> io::Result<Vec<u8>> {
        let again: u64 = self.recent.iter().map(|(_, header, _)| header.stride()).sum();
        ring::ensure_spare(&journal.env, &mut self.ring)?;
        let number = self.free_file(journal, FRAMES_AT + need + again)?;
        let file = journal.env.storage.open(&journal_path(number))?;
        let bytes = file.len()?;
        self.order += 1;
        let header = JournalHeader {
            store: journal.store,
            salt: u64::from_le_bytes(journal.env.random()),
            order: self.order,
            start: journal.start,
            first_lsn: next,
            previous_order: self.durable.order,
            previous_end: self.durable.byte_offset,
            previous_end_lsn: self.durable.lsn,
            opens: !self.started,
            file_bytes: bytes,
        };
        let mut buffer = header.encode();
        let shared = std::mem::take(&mut self.recent);
        if std::mem::take(&mut self.repeat) {
            for (_, old, payload) in shared {
                let again = FrameHeader { synced_lsn: self.durable.lsn, ..old };
                again.write(header.salt, &payload, &mut buffer);
                self.recent.push((buffer.len() as u64, again, payload));
            }
        }
        for entry in self.ring.iter_mut().filter(|entry| entry.number == number) {
            entry.order = header.order;
        }
        let (order, salt) = (header.order, header.salt);
        self.current = Some(Current { file, number, order, salt, bytes, end: 0 });
        Ok(buffer)
    }

    /// A file of at least `need` bytes that nothing needs any more, or a new one.
    fn free_file<S>(&mut self, journal: &Journal<S>, need: u64) -> io::Result<u32> {
        let free = |file: &&RingFile| {
            let needed = file.order >= self.recyclable_order.max(1) || file.poisoned;
            !needed && file.bytes >= need
        };
        if let Some(file) = self.ring.iter().find(free) {
            return Ok(file.number);
        }
        let bytes = journal.options.journal_file_bytes.max(need).next_multiple_of(BLOCK_BYTES);
        ring::grow(&journal.env, &mut self.ring, bytes)
    }
}

/// What a failed round means to those who waited.
pub(super) fn error_of(failure: &Failure) -> StoreError {
    match failure {
        Failure::Unknown(error) => StoreError::OutcomeUnknown { reason: error.to_string() },
        Failure::Refused(error) => super::write_error("opening a journal file", error),
    }
}

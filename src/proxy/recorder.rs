//! Queue of events for the log: a task removes secrets and sends batches, so that no call waits for
//! it. Each session has a separate queue: one that the store refuses does not block the others. It
//! must not block its callers, nor grow without bound: events that the store refuses for too long
//! are dropped, counted and reported, and the wrapped server continues.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use lru::LruCache;
use serde_json::json;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::ProxyOptions;
use crate::{
    api::sessions::CreateSession,
    client::{BatchParts, Client, ClientError, RefusalCause, SESSION_ARCHIVED, SessionWriter},
    env::sync::{Mutex, MutexGuard},
    event::{SessionId, Timestamp, kinds, limits},
    secrets::{MaskingReport, Recogniser},
};

/// Maximum queued bytes in total, and of one session.
const QUEUE_BYTES_MAX: usize = 64 << 20;
const LANE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of events and bytes of one batch.
const BATCH_EVENTS: usize = 200;
const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of batches sent concurrently.
const SENT_MAX: usize = 8;
/// Maximum number of sessions whose existence or losses are remembered.
const SESSIONS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Maximum bytes of one part of a body; a longer one is not stored.
const PART_BYTES_MAX: usize = limits::EVENT_BYTES_MAX / 2 - (64 << 10);
/// Pause before a batch is sent again: the first, and the longest.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Seconds for which a session without a given id is kept after its last use.
pub(super) const TEMPORARY_SECONDS: u64 = 24 * 60 * 60;

/// The session that a record belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordSession {
    pub(super) session: SessionId,
    /// True if the client gave no id: the session expires.
    pub(super) temporary: bool,
}

/// An event to be recorded.
#[derive(Clone, Debug)]
pub(super) struct NewRecord {
    pub(super) target: RecordSession,
    pub(super) kind: &'static str,
    pub(super) id: String,
    /// Time of the event.
    pub(super) at: Timestamp,
    /// Members with their JSON text, which may hold secrets.
    pub(super) members: Vec<(&'static str, String)>,
}

impl NewRecord {
    /// Replaces each member that is too long to be stored by a text with its size.
    fn cut_long_parts(&mut self) {
        let mut truncated = false;
        for (_, json) in self.members.iter_mut().filter(|(_, json)| json.len() > PART_BYTES_MAX) {
            *json = too_long_content(json.len() as u64);
            truncated = true;
        }
        if truncated {
            self.members.push(("truncated", "true".to_owned()));
        }
    }

    fn bytes(&self) -> usize {
        self.members.iter().map(|(_, text)| text.len() + 16).sum::<usize>() + 128
    }
}

/// Returns the content that replaces one of `bytes` bytes, too long to be recorded.
pub(super) fn too_long_content(bytes: u64) -> String {
    let said = format!("[{bytes} bytes, too long to be recorded]");
    json!([{ "type": "text", "text": said }]).to_string()
}

/// Handle of a queued event; a later event has a higher number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuedRecord {
    pub(super) session: SessionId,
    pub(super) number: u64,
    /// True if it may be recorded.
    pub(super) is_kept: bool,
}

/// Queue of one session; an event stays until the store accepts or finally rejects it.
#[derive(Default)]
struct SessionQueue {
    queue: VecDeque<(u64, NewRecord)>,
    bytes: usize,
}

struct RecordQueues {
    /// Queues by session; the task of each removes it once it is empty.
    waiting: HashMap<SessionId, SessionQueue>,
    bytes: usize,
    pushed: u64,
    closed: bool,
    /// Sessions known to exist.
    made: LruCache<SessionId, ()>,
    /// Numbers of dropped events that are not reported yet.
    lost: LruCache<SessionId, u64>,
    tasks: JoinSet<()>,
}

struct RecorderShared {
    client: Client,
    options: ProxyOptions,
    lanes: Mutex<RecordQueues>,
    sent: Semaphore,
    /// Signalled whenever events leave a queue.
    shorter: watch::Sender<()>,
}

/// Recorder of events in the background.
pub(super) struct Recorder {
    shared: Arc<RecorderShared>,
}

impl Recorder {
    pub(super) fn new(client: Client, options: &ProxyOptions) -> Self {
        let lanes = Mutex::from(RecordQueues {
            waiting: HashMap::new(),
            bytes: 0,
            pushed: 0,
            closed: false,
            made: LruCache::sparse(SESSIONS_MAX),
            lost: LruCache::sparse(SESSIONS_MAX),
            tasks: JoinSet::new(),
        });
        let (sent, shorter) = (Semaphore::new(SENT_MAX), watch::Sender::new(()));
        let options = options.clone();
        Self { shared: Arc::new(RecorderShared { client, options, lanes, sent, shorter }) }
    }

    /// Queues an event if it may be recorded, after an event that reports the gap before it.
    pub(super) fn push(&self, entry: NewRecord) -> QueuedRecord {
        match self.shared.options.gate.admit_event(&entry.target.session) {
            Some(Some(error)) => {
                let (kind, id) = (kinds::SESSION_ERROR, format!("{}-gap", entry.id));
                let members = vec![("error", error.to_string())];
                let (target, at) = (entry.target.clone(), entry.at);
                self.enqueue(NewRecord { target, kind, id, at, members });
            }
            Some(None) => {}
            None => {
                let mut lanes = self.shared.lanes();
                lanes.pushed += 1;
                let (session, number) = (entry.target.session, lanes.pushed);
                return QueuedRecord { session, number, is_kept: false };
            }
        }
        self.enqueue(entry)
    }

    /// Queues an event, without parts that are too long.
    fn enqueue(&self, mut entry: NewRecord) -> QueuedRecord {
        entry.cut_long_parts();
        let (target, bytes) = (entry.target.clone(), entry.bytes());
        let mut lanes = self.shared.lanes();
        lanes.pushed += 1;
        let (session, number) = (target.session.clone(), lanes.pushed);
        let record = QueuedRecord { session, number, is_kept: true };
        let ahead = lanes.waiting.get(&target.session);
        let fits = lanes.bytes + bytes <= QUEUE_BYTES_MAX
            && ahead.map_or(0, |lane| lane.bytes) + bytes <= LANE_BYTES_MAX;
        if lanes.closed || !fits {
            lanes.count_lost(&target.session, 1);
            return record;
        }
        if ahead.is_none() {
            while lanes.tasks.try_join_next().is_some() {}
            let shared = Arc::clone(&self.shared);
            lanes.tasks.spawn(async move { shared.deliver_lane(&target).await });
        }
        lanes.bytes += bytes;
        let lane = lanes.waiting.entry(record.session.clone()).or_default();
        lane.bytes += bytes;
        lane.queue.push_back((record.number, entry));
        record
    }

    /// Waits until an event is durable or the time limit is over; returns true if it left the
    /// queue, stored or dropped.
    pub(super) async fn wait_until_durable(
        &self,
        record: &QueuedRecord,
        patience: Duration,
    ) -> bool {
        let QueuedRecord { session, number, .. } = record;
        self.wait_until(patience, |lanes| {
            let first = lanes.waiting.get(session).and_then(|lane| lane.queue.front());
            first.is_none_or(|(first, _)| first > number)
        })
        .await
    }

    /// Waits until all events of a session left the queue, or the time limit is over.
    pub(super) async fn wait_until_delivered(&self, session: &SessionId, patience: Duration) {
        let all = QueuedRecord { session: session.clone(), number: u64::MAX, is_kept: true };
        self.wait_until_durable(&all, patience).await;
    }

    async fn wait_until(&self, patience: Duration, until: impl Fn(&RecordQueues) -> bool) -> bool {
        let mut shorter = self.shared.shorter.subscribe();
        let wait = async {
            while !until(&self.shared.lanes()) {
                // The sender is held here, so this cannot fail.
                let _ = shorter.changed().await;
            }
        };
        tokio::time::timeout(patience, wait).await.is_ok()
    }

    /// Closes the queue, and waits until it is empty or the time limit is over.
    pub(super) async fn close(&self, patience: Duration) {
        self.shared.lanes().closed = true;
        self.wait_until(patience, |lanes| lanes.waiting.is_empty()).await;
        let lost = {
            let mut lanes = self.shared.lanes();
            lanes.tasks.abort_all();
            let left: usize = lanes.waiting.values().map(|lane| lane.queue.len()).sum();
            lanes.lost.iter().map(|(_, count)| count).sum::<u64>() + left as u64
        };
        if lost > 0 {
            (self.shared.options.notify)(&format!("{lost} events were not recorded"));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.lanes().tasks.abort_all();
    }
}

impl RecordQueues {
    /// Counts events that were not recorded; returns true for the first of their session.
    fn count_lost(&mut self, session: &SessionId, count: u64) -> bool {
        let before = self.lost.pop(session).unwrap_or_default();
        self.lost.put(session.clone(), before + count);
        before == 0
    }
}

impl RecorderShared {
    fn lanes(&self) -> MutexGuard<'_, RecordQueues> {
        // Every change leaves the tables consistent.
        self.lanes.lock()
    }

    /// Delivers a session's queue until it is empty.
    async fn deliver_lane(&self, target: &RecordSession) {
        while let Some(events) = self.next_batch(target) {
            let count = events.len();
            self.deliver(target, &events).await;
            self.remove_sent(target, count);
        }
    }

    /// Returns the next batch; if the lane is empty, removes it and returns `None`.
    fn next_batch(&self, target: &RecordSession) -> Option<Vec<String>> {
        let mut lanes = self.lanes();
        let lane = lanes.waiting.get(&target.session).filter(|lane| !lane.queue.is_empty());
        let Some(lane) = lane else {
            lanes.waiting.remove(&target.session);
            self.shorter.send_replace(());
            return None;
        };
        let mut bytes = 0;
        let fits = |(_, entry): &&(u64, NewRecord)| {
            let first = bytes == 0;
            bytes += entry.bytes();
            first || bytes <= BATCH_BYTES
        };
        let batch = lane.queue.iter().take(BATCH_EVENTS).take_while(fits);
        let entries: Vec<NewRecord> = batch.map(|(_, entry)| entry.clone()).collect();
        drop(lanes);
        let secrets = &self.options.secrets;
        Some(entries.iter().map(|entry| event_text(entry, secrets)).collect())
    }

    fn remove_sent(&self, target: &RecordSession, count: usize) {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.waiting.get_mut(&target.session) {
            let bytes = lane.queue.drain(..count).map(|(_, entry)| entry.bytes()).sum::<usize>();
            lane.bytes -= bytes;
            lanes.bytes -= bytes;
        }
        self.shorter.send_replace(());
    }

    /// Sends events until the store has accepted or finally rejected each of them.
    async fn deliver(&self, target: &RecordSession, events: &[String]) {
        let notify = &self.options.notify;
        let (mut parts, mut pause) = (BatchParts::new(events, String::len), RETRY_PAUSE);
        while let Some(part) = parts.next() {
            let Err(error) = self.try_deliver(target, part).await else {
                self.report_losses(target, pause > RETRY_PAUSE).await;
                continue;
            };
            match error.obstacle() {
                RefusalCause::Store | RefusalCause::Session => {
                    if pause == RETRY_PAUSE {
                        notify(&format!("recording is interrupted, calls continue: {error}"));
                    }
                    parts.put_back(part);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
                // The other events are sent without the rejected one.
                RefusalCause::Event | RefusalCause::Caller if parts.divide(part) => {}
                _ => {
                    if self.lanes().count_lost(&target.session, part.len() as u64) {
                        let session = &target.session;
                        notify(&format!("an event of {session} was not recorded: {error}"));
                    }
                }
            }
        }
    }

    async fn try_deliver(
        &self,
        target: &RecordSession,
        events: &[String],
    ) -> Result<(), ClientError> {
        // The semaphore is never closed.
        let _sent = self.sent.acquire().await;
        let writer =
            SessionWriter { creates: true, ..SessionWriter::new(&self.client, &target.session) };
        let made = self.lanes().made.contains(&target.session);
        if !made {
            let new = CreateSession {
                workspace: self.options.directory.clone(),
                ttl_seconds: target.temporary.then_some(TEMPORARY_SECONDS),
                ..CreateSession::default()
            };
            writer.create(new, [""; 0]).await?;
            self.lanes().made.put(target.session.clone(), ());
        }
        match writer.append(events, None, None).await {
            // Work takes its session out of the archive.
            Err(error) if error.code() == SESSION_ARCHIVED => {
                writer.set_archived(false).await?;
                writer.append(events, None, None).await.map(drop)
            }
            appended => appended.map(drop),
        }
    }

    /// Reports the number of lost events, to the user and in the log.
    async fn report_losses(&self, target: &RecordSession, troubled: bool) {
        let lost = self.lanes().lost.pop(&target.session).unwrap_or_default();
        let notify = &self.options.notify;
        if lost == 0 {
            if troubled {
                notify("recording continues; nothing was lost");
            }
            return;
        }
        let said = format!("{lost} events were not recorded");
        notify(&format!("recording continues; {said}"));
        let error = json!({ "type": "recording_gap", "message": said, "events": lost });
        let event = json!({ "type": kinds::SESSION_ERROR, "error": error }).to_string();
        if self.try_deliver(target, &[event]).await.is_err() {
            self.lanes().count_lost(&target.session, lost);
        }
    }
}

/// Formats the event: all of it is masked, and removed secrets are counted.
fn event_text(entry: &NewRecord, secrets: &Recogniser) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let at = text(&entry.at.to_string());
    let (id, kind) = (text(&entry.id), text(entry.kind));
    let mut event = format!("{{\"id\":{id},\"type\":{kind},\"created_at\":{at}");
    for (member, json) in &entry.members {
        event.push_str(&format!(",\"{member}\":{json}"));
    }
    event.push('}');
    secrets.mask(&event).into_event(&MaskingReport::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_event_has_its_secrets_removed_and_counted() {
        let target =
            RecordSession { session: SessionId::new("s").expect("an id"), temporary: false };
        let content = format!(r#"[{{"type":"text","text":"ghp_{}"}}]"#, "a1B2".repeat(9));
        let members = vec![
            ("name", "\"t\"".to_owned()),
            ("input", r#"{"password": "hunter2", "n": 1.0}"#.to_owned()),
            ("content", content),
        ];
        let (kind, id) = ("agent.tool_use", "e".to_owned());
        let entry = NewRecord { target, kind, id, at: Timestamp(1_767_225_600_000_000), members };
        let text = event_text(&entry, &Recogniser::default());
        assert_eq!(
            text,
            r#"{"id":"e","type":"agent.tool_use","created_at":"2026-01-01T00:00:00.000000Z","name":"t","input":{"password": "[redacted:secret-member]", "n": 1.0},"content":[{"type":"text","text":"[redacted:github-token]"}],"redactions":{"github-token":1,"secret-member":1}}"#
        );
        assert!(event_text(&entry, &Recogniser::private_spans_only()).contains("hunter2"));
        let mut long =
            NewRecord { members: vec![("content", "1".repeat(PART_BYTES_MAX + 1))], ..entry };
        long.cut_long_parts();
        let text = event_text(&long, &Recogniser::default());
        assert!(text.contains(r#""truncated":true"#) && text.len() < 300);
    }
}

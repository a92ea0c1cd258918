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

use super::Options;
use crate::{
    api::sessions::CreateSession,
    client::{BatchParts, Client, ClientError, Obstacle, SessionWriter},
    env::sync::{Mutex, MutexGuard},
    event::{SessionId, Timestamp, kinds, limits},
    secrets::{Recogniser, Report},
};

/// Most queued bytes in all, and for one session.
const QUEUE_BYTES_MAX: usize = 64 << 20;
const LANE_BYTES_MAX: usize = 32 << 20;
/// Most events and bytes of one batch.
const BATCH_EVENTS: usize = 200;
const BATCH_BYTES: usize = 4 << 20;
/// Most batches sent concurrently.
const SENT_MAX: usize = 8;
/// Most sessions whose existence or losses are remembered.
const SESSIONS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Most bytes of one part of a body; a longer one is not stored.
const PART_BYTES_MAX: usize = limits::EVENT_BYTES_MAX / 2 - (64 << 10);
/// Pauses before a batch is sent again: the first, and the longest.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// Seconds for which a session without a given id is kept after its last use.
pub(super) const TEMPORARY_SECONDS: u64 = 24 * 60 * 60;

/// The session that a record belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Home {
    pub(super) session: SessionId,
    /// True if the client gave no id: the session expires.
    pub(super) temporary: bool,
}

/// An event to be recorded.
#[derive(Clone, Debug)]
pub(super) struct NewRecord {
    pub(super) home: Home,
    pub(super) kind: &'static str,
    pub(super) id: String,
    /// The time of the event.
    pub(super) at: Timestamp,
    /// Members, each JSON text, which may hold secrets.
    pub(super) members: Vec<(&'static str, String)>,
}

impl NewRecord {
    /// Replaces each part that is too long to be stored with a note of its size.
    fn cut_long_parts(&mut self) {
        let mut truncated = false;
        for (_, json) in self.members.iter_mut().filter(|(_, json)| json.len() > PART_BYTES_MAX) {
            *json = too_long(json.len() as u64);
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

/// Returns a content with the size of one that is too long to be recorded.
pub(super) fn too_long(bytes: u64) -> String {
    let said = format!("[{bytes} bytes, too long to be recorded]");
    json!([{ "type": "text", "text": said }]).to_string()
}

/// A queued event; a later one has a higher number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuedRecord {
    pub(super) session: SessionId,
    pub(super) number: u64,
    /// True if it may be recorded.
    pub(super) is_kept: bool,
}

/// Queue of one session; an event stays until the store accepts or finally rejects it.
#[derive(Default)]
struct Lane {
    queue: VecDeque<(u64, NewRecord)>,
    bytes: usize,
}

struct Lanes {
    /// Each has a task, which removes it once it is empty.
    waiting: HashMap<SessionId, Lane>,
    bytes: usize,
    pushed: u64,
    closed: bool,
    /// Sessions known to exist.
    made: LruCache<SessionId, ()>,
    /// Numbers of dropped events that are not reported yet.
    lost: LruCache<SessionId, u64>,
    tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    options: Options,
    lanes: Mutex<Lanes>,
    sent: Semaphore,
    /// Signalled whenever a lane gets shorter.
    shorter: watch::Sender<()>,
}

/// Recorder of events in the background.
pub(super) struct Recorder {
    shared: Arc<Shared>,
}

impl Recorder {
    pub(super) fn new(client: Client, options: &Options) -> Self {
        let lanes = Mutex::from(Lanes {
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
        Self { shared: Arc::new(Shared { client, options, lanes, sent, shorter }) }
    }

    /// Queues an event if it may be recorded, after an event that reports the gap before it.
    pub(super) fn push(&self, entry: NewRecord) -> QueuedRecord {
        match self.shared.options.gate.admits(&entry.home.session) {
            Some(Some(error)) => {
                let (kind, id) = (kinds::SESSION_ERROR, format!("{}-gap", entry.id));
                let members = vec![("error", error.to_string())];
                let (home, at) = (entry.home.clone(), entry.at);
                self.queue(NewRecord { home, kind, id, at, members });
            }
            Some(None) => {}
            None => {
                let mut lanes = self.shared.lanes();
                lanes.pushed += 1;
                let (session, number) = (entry.home.session, lanes.pushed);
                return QueuedRecord { session, number, is_kept: false };
            }
        }
        self.queue(entry)
    }

    /// Queues an event, without parts that are too long.
    fn queue(&self, mut entry: NewRecord) -> QueuedRecord {
        entry.cut_long_parts();
        let (home, bytes) = (entry.home.clone(), entry.bytes());
        let mut lanes = self.shared.lanes();
        lanes.pushed += 1;
        let (session, number) = (home.session.clone(), lanes.pushed);
        let record = QueuedRecord { session, number, is_kept: true };
        let ahead = lanes.waiting.get(&home.session);
        let fits = lanes.bytes + bytes <= QUEUE_BYTES_MAX
            && ahead.map_or(0, |lane| lane.bytes) + bytes <= LANE_BYTES_MAX;
        if lanes.closed || !fits {
            lanes.count_lost(&home.session, 1);
            return record;
        }
        if ahead.is_none() {
            while lanes.tasks.try_join_next().is_some() {}
            let shared = Arc::clone(&self.shared);
            lanes.tasks.spawn(async move { shared.deliver_lane(&home).await });
        }
        lanes.bytes += bytes;
        let lane = lanes.waiting.entry(record.session.clone()).or_default();
        lane.bytes += bytes;
        lane.queue.push_back((record.number, entry));
        record
    }

    /// Waits until an event is durable or the time limit is over; returns true if it left the
    /// queue, stored or dropped.
    pub(super) async fn durable(&self, record: &QueuedRecord, patience: Duration) -> bool {
        let QueuedRecord { session, number, .. } = record;
        self.wait_until(patience, |lanes| {
            let first = lanes.waiting.get(session).and_then(|lane| lane.queue.front());
            first.is_none_or(|(first, _)| first > number)
        })
        .await
    }

    /// Waits until all events of a session left the queue, or the time limit is over.
    pub(super) async fn settled(&self, session: &SessionId, patience: Duration) {
        let all = QueuedRecord { session: session.clone(), number: u64::MAX, is_kept: true };
        self.durable(&all, patience).await;
    }

    async fn wait_until(&self, patience: Duration, until: impl Fn(&Lanes) -> bool) -> bool {
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

impl Lanes {
    /// Counts events that were not recorded; returns true for the first of their session.
    fn count_lost(&mut self, session: &SessionId, count: u64) -> bool {
        let before = self.lost.pop(session).unwrap_or_default();
        self.lost.put(session.clone(), before + count);
        before == 0
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Every change leaves the tables consistent.
        self.lanes.lock()
    }

    /// Delivers a session's queue until it is empty.
    async fn deliver_lane(&self, home: &Home) {
        while let Some(events) = self.batch(home) {
            let count = events.len();
            self.deliver(home, &events).await;
            self.remove_sent(home, count);
        }
    }

    /// Returns the next batch; if the lane is empty, removes it and returns `None`.
    fn batch(&self, home: &Home) -> Option<Vec<String>> {
        let mut lanes = self.lanes();
        let lane = lanes.waiting.get(&home.session).filter(|lane| !lane.queue.is_empty());
        let Some(lane) = lane else {
            lanes.waiting.remove(&home.session);
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

    fn remove_sent(&self, home: &Home, count: usize) {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.waiting.get_mut(&home.session) {
            let bytes = lane.queue.drain(..count).map(|(_, entry)| entry.bytes()).sum::<usize>();
            lane.bytes -= bytes;
            lanes.bytes -= bytes;
        }
        self.shorter.send_replace(());
    }

    /// Sends events until the store accepts or finally rejects each.
    async fn deliver(&self, home: &Home, events: &[String]) {
        let notify = &self.options.notify;
        let (mut parts, mut pause) = (BatchParts::new(events, String::len), AGAIN);
        while let Some(part) = parts.next() {
            let Err(error) = self.try_deliver(home, part).await else {
                self.report_losses(home, pause > AGAIN).await;
                continue;
            };
            match error.obstacle() {
                Obstacle::Store | Obstacle::Session => {
                    if pause == AGAIN {
                        notify(&format!("recording is interrupted, calls continue: {error}"));
                    }
                    parts.put_back(part);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(AGAIN_MAX);
                }
                // The other events are sent without the rejected one.
                Obstacle::Event | Obstacle::Caller if parts.divide(part) => {}
                _ => {
                    if self.lanes().count_lost(&home.session, part.len() as u64) {
                        let session = &home.session;
                        notify(&format!("an event of {session} was not recorded: {error}"));
                    }
                }
            }
        }
    }

    async fn try_deliver(&self, home: &Home, events: &[String]) -> Result<(), ClientError> {
        // The semaphore is never closed.
        let _sent = self.sent.acquire().await;
        let writer =
            SessionWriter { creates: true, ..SessionWriter::new(&self.client, &home.session) };
        let made = self.lanes().made.contains(&home.session);
        if !made {
            let new = CreateSession {
                workspace: self.options.directory.clone(),
                ttl_seconds: home.temporary.then_some(TEMPORARY_SECONDS),
                ..CreateSession::default()
            };
            writer.create(new, [""; 0]).await?;
            self.lanes().made.put(home.session.clone(), ());
        }
        writer.append(events, None, None).await.map(drop)
    }

    /// Reports the number of lost events, to the user and in the log.
    async fn report_losses(&self, home: &Home, troubled: bool) {
        let lost = self.lanes().lost.pop(&home.session).unwrap_or_default();
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
        if self.try_deliver(home, &[event]).await.is_err() {
            self.lanes().count_lost(&home.session, lost);
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
    secrets.masked(&event).into_event(&Report::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_event_has_its_secrets_removed_and_counted() {
        let home = Home { session: SessionId::new("s").expect("an id"), temporary: false };
        let content = format!(r#"[{{"type":"text","text":"ghp_{}"}}]"#, "a1B2".repeat(9));
        let members = vec![
            ("name", "\"t\"".to_owned()),
            ("input", r#"{"password": "hunter2", "n": 1.0}"#.to_owned()),
            ("content", content),
        ];
        let (kind, id) = ("agent.tool_use", "e".to_owned());
        let entry = NewRecord { home, kind, id, at: Timestamp(1_767_225_600_000_000), members };
        let text = event_text(&entry, &Recogniser::default());
        assert_eq!(
            text,
            r#"{"id":"e","type":"agent.tool_use","created_at":"2026-01-01T00:00:00.000000Z","name":"t","input":{"password": "[redacted:secret-member]", "n": 1.0},"content":[{"type":"text","text":"[redacted:github-token]"}],"redactions":{"github-token":1,"secret-member":1}}"#
        );
        assert!(event_text(&entry, &Recogniser::of_private_spans()).contains("hunter2"));
        let mut long =
            NewRecord { members: vec![("content", "1".repeat(PART_BYTES_MAX + 1))], ..entry };
        long.cut_long_parts();
        let text = event_text(&long, &Recogniser::default());
        assert!(text.contains(r#""truncated":true"#) && text.len() < 300);
    }
}

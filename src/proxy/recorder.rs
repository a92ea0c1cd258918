//! What happened, on its way into the log: queued at once, cleaned of secrets, sent in batches
//! behind the back of whoever waits for an answer. It must not make anybody wait, nor grow without
//! bound: what the store does not take for too long is counted and told, and the wrapped server
//! goes on.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{json, value::RawValue};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::Options;
use crate::{
    client::{Client, ClientError, Request, session_path},
    event::{SessionId, limits},
    secrets::{Recogniser, Report},
};

/// Bytes that may wait.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Events and bytes of one batch.
const BATCH_EVENTS: usize = 200;
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of one part of a body; what is longer is not kept.
const PART_BYTES_MAX: usize = limits::EVENT_BYTES_MAX / 2 - (64 << 10);
/// How long to wait before a batch is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a session that nobody named is kept after its last use.
const TEMPORARY_SECONDS: u64 = 24 * 60 * 60;

/// The session something is recorded in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Home {
    pub(super) session: SessionId,
    /// Nobody named it: it goes by itself.
    pub(super) temporary: bool,
}

/// An event to be recorded.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) home: Home,
    pub(super) kind: &'static str,
    pub(super) id: String,
    /// Members, each JSON text. What others said may hold secrets.
    pub(super) members: Vec<(&'static str, String)>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.members.iter().map(|(_, text)| text.len() + 16).sum::<usize>() + 128
    }
}

struct Shared {
    waiting: AtomicUsize,
    lost: AtomicU64,
    pushed: AtomicU64,
    acknowledged: watch::Sender<u64>,
}

/// Records in the background.
pub(super) struct Recorder {
    queue: Mutex<Option<mpsc::UnboundedSender<Entry>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Recorder {
    pub(super) fn start(client: Client, options: &Options) -> Self {
        let (queue, entries) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            acknowledged: watch::Sender::new(0),
        });
        let writer = Writer {
            client,
            options: options.clone(),
            shared: Arc::clone(&shared),
            made: HashSet::new(),
            troubled: false,
        };
        let task = tokio::spawn(writer.run(entries));
        Self { queue: Mutex::new(Some(queue)), task: Mutex::new(Some(task)), shared }
    }

    /// Queues an event; its number, by which one can wait for it.
    pub(super) fn push(&self, entry: Entry) -> u64 {
        let bytes = entry.bytes();
        let waiting = self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &*queue {
            Some(queue) if waiting <= QUEUE_BYTES_MAX => queue.send(entry).is_ok(),
            _ => false,
        };
        if sent {
            return self.shared.pushed.fetch_add(1, Ordering::Relaxed) + 1;
        }
        self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
        self.shared.pushed.load(Ordering::Relaxed)
    }

    /// The number of what was queued last.
    pub(super) fn pushed(&self) -> u64 {
        self.shared.pushed.load(Ordering::Relaxed)
    }

    /// Waits until an event is durable, or for as long as that; whether it is.
    pub(super) async fn durable(&self, number: u64, patience: Duration) -> bool {
        let mut acknowledged = self.shared.acknowledged.subscribe();
        let wait = acknowledged.wait_for(|done| *done >= number);
        tokio::time::timeout(patience, wait).await.is_ok_and(|done| done.is_ok())
    }

    /// Takes nothing more, and waits until what was queued is durable, or for as long as that.
    pub(super) async fn close(&self, patience: Duration) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let abort = task.abort_handle();
            if tokio::time::timeout(patience, task).await.is_err() {
                abort.abort();
            }
        }
    }
}

struct Writer {
    client: Client,
    options: Options,
    shared: Arc<Shared>,
    /// Sessions that are there.
    made: HashSet<SessionId>,
    troubled: bool,
}

impl Writer {
    async fn run(mut self, mut entries: mpsc::UnboundedReceiver<Entry>) {
        while let Some(first) = entries.recv().await {
            let mut bytes = first.bytes();
            let mut batch = vec![first];
            while batch.len() < BATCH_EVENTS && bytes < BATCH_BYTES {
                let Ok(next) = entries.try_recv() else { break };
                bytes += next.bytes();
                batch.push(next);
            }
            let count = batch.len() as u64;
            for same in batch.chunk_by(|a, b| a.home == b.home) {
                if let Some(one) = same.first() {
                    let events = same.iter().map(|entry| self.event(entry)).collect();
                    self.deliver(&one.home, events).await;
                }
            }
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.acknowledged.send_modify(|done| *done += count);
        }
    }

    /// The event as it is recorded.
    fn event(&self, entry: &Entry) -> Box<RawValue> {
        event_text(entry, self.options.secrets.as_deref())
    }

    /// Sends events until the store has them, or will not have them.
    async fn deliver(&mut self, home: &Home, events: Vec<Box<RawValue>>) {
        let mut rest = vec![events];
        while let Some(events) = rest.pop() {
            match self.try_deliver(home, &events).await {
                Ok(()) => self.recovered(home).await,
                Err(ClientError::Refused(refusal)) if refusal.status < 500 && events.len() > 1 => {
                    // One of them is refused: the others need not go with it.
                    rest.extend(events.into_iter().rev().map(|event| vec![event]));
                }
                Err(ClientError::Refused(refusal))
                    if refusal.status < 500 && refusal.status != 429 =>
                {
                    let said = format!("an event was not recorded: {}", refusal.message);
                    (self.options.notify)(&said);
                }
                Err(error) => {
                    if !self.troubled {
                        let said = format!("recording is interrupted, calls go on: {error}");
                        (self.options.notify)(&said);
                    }
                    self.troubled = true;
                    rest.push(events);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn try_deliver(
        &mut self,
        home: &Home,
        events: &[Box<RawValue>],
    ) -> Result<(), ClientError> {
        if !self.made.contains(&home.session) {
            self.make(home).await?;
            self.made.insert(home.session.clone());
        }
        let texts: Vec<&str> = events.iter().map(|event| event.get()).collect();
        let body = format!("{{\"events\":[{}]}}", texts.join(","));
        let request = Request::post(session_path(&home.session, "/events")).query("create", true);
        self.client.send(request.body(body, "application/json")).await?;
        Ok(())
    }

    async fn make(&self, home: &Home) -> Result<(), ClientError> {
        let mut new = json!({ "id": home.session.as_str() });
        if let Some(new) = new.as_object_mut() {
            if let Some(directory) = &self.options.directory {
                new.insert("workspace".to_owned(), directory.as_str().into());
            }
            if home.temporary {
                new.insert("ttl_seconds".to_owned(), TEMPORARY_SECONDS.into());
            }
        }
        match self.client.send(Request::post("/v1/sessions").json(&new)).await {
            Err(ClientError::Refused(refusal)) if refusal.code == "session_exists" => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Says, here and in the log, what the trouble cost.
    async fn recovered(&mut self, home: &Home) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if self.troubled && lost == 0 {
            (self.options.notify)("recording goes on; nothing was lost");
        }
        self.troubled = false;
        if lost == 0 {
            return;
        }
        let said = format!("{lost} events were not recorded");
        (self.options.notify)(&format!("recording goes on; {said}"));
        let error = json!({ "type": "recording_gap", "message": said, "events": lost });
        let event = json!({ "type": "session.error", "error": error }).to_string();
        let events: Vec<_> = RawValue::from_string(event).into_iter().collect();
        if self.try_deliver(home, &events).await.is_err() {
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// The event as it is recorded: without secrets, which are counted, and without what is too long.
fn event_text(entry: &Entry, secrets: Option<&Recogniser>) -> Box<RawValue> {
    let mut report = Report::default();
    let mut truncated = false;
    let name = |name: &str| serde_json::Value::from(name).to_string();
    let mut text = format!("{{\"id\":{},\"type\":{}", name(&entry.id), name(entry.kind));
    let mut add = |member: &str, json: &str| {
        text.push_str(&format!(",\"{member}\":{json}"));
    };
    for (member, json) in &entry.members {
        if json.len() > PART_BYTES_MAX {
            truncated = true;
            let said = format!("[{} bytes, too long to be recorded]", json.len());
            add(member, &json!([{ "type": "text", "text": said }]).to_string());
            continue;
        }
        let clean = secrets.and_then(|secrets| secrets.json(json, &mut report));
        add(member, clean.as_deref().unwrap_or(json));
    }
    if truncated {
        add("truncated", "true");
    }
    if !report.is_empty() {
        add("redactions", &report.to_json());
    }
    text.push('}');
    RawValue::from_string(text).expect("JSON members in an object are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_recorded_without_secrets_and_says_so() {
        let home = Home { session: SessionId::new("s").expect("an id"), temporary: false };
        let content = format!(r#"[{{"type":"text","text":"ghp_{}"}}]"#, "a1B2".repeat(9));
        let members = vec![
            ("name", "\"t\"".to_owned()),
            ("input", r#"{"password": "hunter2", "n": 1.0}"#.to_owned()),
            ("content", content),
        ];
        let entry = Entry { home, kind: "agent.tool_use", id: "e".to_owned(), members };
        let text = event_text(&entry, Some(&Recogniser::default()));
        assert_eq!(
            text.get(),
            r#"{"id":"e","type":"agent.tool_use","name":"t","input":{"password": "[redacted:secret-member]", "n": 1.0},"content":[{"type":"text","text":"[redacted:github-token]"}],"redactions":{"github-token":1,"secret-member":1}}"#
        );
        assert!(event_text(&entry, None).get().contains("hunter2"));
        let long = Entry { members: vec![("content", "1".repeat(PART_BYTES_MAX + 1))], ..entry };
        let text = event_text(&long, None);
        assert!(text.get().contains(r#""truncated":true"#) && text.get().len() < 300);
    }
}

//! Delivery of an event to its session, directly or from the spool. Both send the same request with
//! the same ids, so a retry is stored once. It must not put events into the spool.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::{
    delivery::{Delivery, SessionHead},
    spool::{Spool, SpoolReadError},
};
use crate::{
    api::sessions::CreateSession,
    client::{
        BatchParts, CLIENT_KEY, Client, ClientError, HttpRequest, IDEMPOTENCY_KEY, RefusalCause,
        SESSION_ARCHIVED, SessionWriter, session_path,
    },
    env::Clock,
    event::{SessionId, Timestamp},
    verbs::{NoQuery, SessionPath, sessions::GetSession},
};

const NOT_FOUND: &str = "session_not_found";

/// Reason for which an event was not delivered.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// A later attempt may succeed.
    Later(ClientError),
    /// The session was deleted; the event is dropped.
    Gone(ClientError),
    /// No attempt can succeed; a copy is stored in `refused/`.
    Refused(ClientError),
}

/// Outcome of delivering the spooled events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Number of files delivered.
    pub delivered: usize,
    /// Number of unreadable files, moved to `refused/`.
    pub unreadable: usize,
    /// Number of delivered files that their sessions refused: copies are in `refused/`.
    pub refused: usize,
    /// Reasons for which files wait although the owner answers.
    pub waiting: Vec<String>,
    /// Reason for which the other files stay spooled.
    pub stopped: Option<String>,
}

/// Records an event. The store recognises a retry by its ids. Work takes its session out of the
/// archive; what was made before the archiving, or ends the session, leaves it there.
pub(super) async fn deliver(client: &Client, delivery: &Delivery) -> Result<(), Undelivered> {
    // Only a spool file edited by hand has an invalid id.
    let Ok(session) = SessionId::new(&delivery.session) else { return Ok(()) };
    let writer = SessionWriter::new(client, &session);
    match record(&writer, delivery).await {
        Err(error) if error.code() == SESSION_ARCHIVED => {
            record_in_archived(&writer, delivery).await
        }
        recorded => recorded,
    }
    .map_err(classify_error)
}

async fn record_in_archived(
    writer: &SessionWriter<'_>,
    delivery: &Delivery,
) -> Result<(), ClientError> {
    let place = SessionPath { session: writer.session.clone() };
    let found = writer.client.call::<GetSession>(&place, &NoQuery {}, &()).await?;
    let archived_at = found.archived_at.as_deref().and_then(Timestamp::parse);
    writer.set_archived(false).await?;
    record(writer, delivery).await?;
    let is_earlier = archived_at.is_some_and(|archived| delivery.time() < Some(archived));
    match archived_at.is_some() && (delivery.is_end() || is_earlier) {
        true => writer.set_archived(true).await,
        false => Ok(()),
    }
}

/// Appends the events and creates the checkpoint.
async fn record(writer: &SessionWriter<'_>, delivery: &Delivery) -> Result<(), ClientError> {
    let behind = match append_or_create(writer, delivery).await {
        Err(error) if error.code() == NOT_FOUND && delivery.is_end() => return Ok(()),
        behind => behind?,
    };
    let Some(mark) = &delivery.mark else { return Ok(()) };
    let mut body = json!({ "label": mark.label, "final": mark.done });
    if let (Some(behind), Some(body)) = (behind, body.as_object_mut()) {
        // The position right after this delivery, even if other events were written since.
        body.insert("at".to_owned(), json!(behind.to_string()));
    }
    let request = HttpRequest::post(session_path(writer.session, "/checkpoints"));
    let request = request.header(IDEMPOTENCY_KEY, delivery.id()).json(&body);
    writer.client.send(request).await.map(drop)
}

/// Appends the events, to a new session if none exists. Returns the position after them, unless
/// some were stored before.
async fn append_or_create(
    writer: &SessionWriter<'_>,
    delivery: &Delivery,
) -> Result<Option<u64>, ClientError> {
    let events: Vec<String> = delivery.events.iter().map(Value::to_string).collect();
    match (append(writer, &events).await, &delivery.about) {
        (Err(error), Some(about)) if error.code() == NOT_FOUND => {
            let SessionHead { workspace, client } = about;
            // The last checkpoint finds a session that a crash cut off.
            let metadata = [(CLIENT_KEY, client.as_str()), ("checkpoints", "tool_calls")];
            let metadata = metadata.map(|(name, text)| (name.to_owned(), text.to_owned()));
            let new = CreateSession {
                title_of: Some(0),
                workspace: workspace.clone(),
                metadata: Some(metadata.into()),
                ..CreateSession::default()
            };
            match writer.create(new, &events).await? {
                true => Ok(Some(events.len() as u64)),
                // Another event of the same session created it first.
                false => append(writer, &events).await,
            }
        }
        (appended, _) => appended,
    }
}

async fn append(writer: &SessionWriter<'_>, events: &[String]) -> Result<Option<u64>, ClientError> {
    let (mut parts, mut behind, mut is_whole) = (BatchParts::new(events, String::len), None, true);
    while let Some(part) = parts.next() {
        match writer.append(part, None, None).await {
            Ok(appended) => behind = appended.next_position,
            // One of them is stored already, with another time. A single event is sent twice: only
            // with its second key is it known that the id conflicts, and not the key.
            Err(error) if error.code() == "idempotency_conflict" => {
                if !parts.divide(part) && is_whole {
                    parts.put_back(part);
                }
                is_whole = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(behind.filter(|_| is_whole))
}

fn classify_error(error: ClientError) -> Undelivered {
    match error.obstacle() {
        RefusalCause::Gone if error.code() == "session_deleted" => Undelivered::Gone(error),
        RefusalCause::Store | RefusalCause::Caller | RefusalCause::Session => {
            Undelivered::Later(error)
        }
        _ => Undelivered::Refused(error),
    }
}

/// Delivers spooled events, oldest first. A session that refuses for now blocks only its own
/// events; an unreachable owner ends the drain. No delivery starts after `share`, except the first;
/// one in progress completes, so that a slow network makes progress. The future may be dropped at
/// any await: `drained` counts what was delivered.
///
/// # Errors
/// The error of the file system.
pub async fn drain(
    client: &Client,
    spool: &Spool,
    clock: &dyn Clock,
    share: Duration,
    drained: &mut DrainReport,
) -> std::io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begun = clock.monotonic();
    let is_over = || clock.monotonic().saturating_sub(begun) >= share;
    let Some(_right) = (loop {
        match spool.try_lock()? {
            Some(right) => break Some(right),
            None if spool.is_empty() => break None,
            None if is_over() => {
                drained.stopped = Some("another process delivers the waiting events".to_owned());
                return Ok(());
            }
            None => tokio::time::sleep(PAUSE).await,
        }
    }) else {
        return Ok(());
    };
    let mut held = BTreeSet::new();
    for path in spool.spooled_paths() {
        let delivery = match spool.read(&path) {
            Ok(delivery) if held.contains(&delivery.session) => continue,
            Ok(delivery) => delivery,
            Err(SpoolReadError::Gone | SpoolReadError::Sealed) => continue,
            Err(SpoolReadError::Broken) => {
                // A file that cannot be moved stays: it blocks nothing.
                drained.unreadable += usize::from(spool.move_unreadable(&path).is_ok());
                continue;
            }
        };
        if is_over() && drained.delivered > 0 {
            drained.stopped = Some("what waits is being delivered, a part at a time".to_owned());
            return Ok(());
        }
        match deliver(client, &delivery).await {
            Ok(()) | Err(Undelivered::Gone(_)) => {}
            Err(Undelivered::Refused(error)) => {
                spool.store_rejected(delivery, &error, &path).map_err(std::io::Error::other)?;
                drained.refused += 1;
            }
            Err(Undelivered::Later(error)) if error.obstacle() == RefusalCause::Session => {
                drained.waiting.push(error.to_string());
                held.insert(delivery.session);
                continue;
            }
            Err(Undelivered::Later(error)) => {
                drained.stopped = Some(error.to_string());
                return Ok(());
            }
        }
        spool.remove_delivered(&path)?;
        drained.delivered += 1;
    }
    spool.clear_failure();
    Ok(())
}

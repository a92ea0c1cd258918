//! Delivery of an event to its session, directly or from the spool. Both send the same request with
//! the same ids, so a retry is stored once. It must not decide what is spooled.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json, value::to_raw_value};

use super::{
    delivery::{About, Delivery},
    spool::{Spool, Unread},
};
use crate::{
    api::sessions::CreateSession,
    client::{Client, ClientError, IDEMPOTENCY_KEY, Request, session_path},
    env::Clock,
    event::SessionId,
    verbs::{NoQuery, Nowhere, sessions},
};

/// Reason for which an event is not in its session.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// It may be, later.
    Later(ClientError),
    /// The session is gone; the event is dropped.
    Gone(ClientError),
    /// It never will be.
    Refused(ClientError),
}

/// Outcome of delivering the events that waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Files delivered.
    pub delivered: usize,
    /// Unreadable files, moved to `refused/`.
    pub aside: usize,
    /// Reason for which the rest still waits.
    pub stopped: Option<String>,
}

/// Records an event. The store recognises a retry by its ids.
pub(super) async fn deliver(client: &Client, delivery: &Delivery) -> Result<(), Undelivered> {
    let session = match SessionId::new(&delivery.session) {
        Ok(session) => session,
        // Only an editor writes such a file.
        Err(_) => return Ok(()),
    };
    let behind = match append(client, &session, &delivery.events).await {
        Err(error) if error.code() == "session_not_found" => match &delivery.about {
            Some(about) => create(client, &session, about, delivery).await.map_err(judged)?,
            None => return Ok(()),
        },
        Err(error) if error.code() == "idempotency_conflict" => {
            // One of them is stored already, with another time.
            for event in &delivery.events {
                match append(client, &session, std::slice::from_ref(event)).await {
                    Err(error) if error.code() != "idempotency_conflict" => {
                        return Err(judged(error));
                    }
                    _ => {}
                }
            }
            None
        }
        other => other.map_err(judged)?,
    };
    let Some(mark) = &delivery.mark else { return Ok(()) };
    let mut body = json!({ "label": mark.label, "final": mark.done });
    if let (Some(behind), Some(body)) = (behind, body.as_object_mut()) {
        // The position right after this delivery, even if other events were written since.
        body.insert("at".to_owned(), json!(behind.to_string()));
    }
    let request = Request::post(session_path(&session, "/checkpoints"));
    let request = request.header(IDEMPOTENCY_KEY, delivery.name()).json(&body);
    client.send(request).await.map(drop).map_err(judged)
}

/// Returns the position after the events.
async fn append(
    client: &Client,
    session: &SessionId,
    events: &[Value],
) -> Result<Option<u64>, ClientError> {
    let body = json!({ "events": events });
    let request = Request::post(session_path(session, "/events"));
    let answer = client.json(request.json(&body)).await?;
    Ok(answer.get("next_position").and_then(Value::as_u64))
}

async fn create(
    client: &Client,
    session: &SessionId,
    about: &About,
    delivery: &Delivery,
) -> Result<Option<u64>, ClientError> {
    let About { title, workspace, client: program } = about;
    let raw = |event: &Value| to_raw_value(event).expect("a tree is JSON");
    let events = delivery.events.iter().map(raw);
    // A session that a crash cut off is found by its last checkpoint.
    let metadata = [("client", program.as_str()), ("checkpoints", "tool_calls")];
    let new = CreateSession {
        id: Some(session.to_string()),
        title: Some(title.clone()),
        workspace: workspace.clone(),
        metadata: Some(metadata.map(|(name, text)| (name.to_owned(), text.to_owned())).into()),
        initial_events: Some(events.collect()),
        ..CreateSession::default()
    };
    match client.send(Request::from_verb::<sessions::Create>(&Nowhere {}, &NoQuery {}, &new)).await
    {
        // Another event of the same session was first.
        Err(error) if error.code() == "session_exists" => {
            append(client, session, &delivery.events).await
        }
        other => other.map(|_| Some(delivery.events.len() as u64)),
    }
}

fn judged(error: ClientError) -> Undelivered {
    let ClientError::Refused(refusal) = &error else { return Undelivered::Later(error) };
    match (refusal.status, &*refusal.code) {
        (410, "session_deleted") => Undelivered::Gone(error),
        // A damaged session is repaired by a person.
        (401 | 403 | 423 | 429, _) | (500.., _) | (_, "lease_held" | "lease_lost") => {
            Undelivered::Later(error)
        }
        _ => Undelivered::Refused(error),
    }
}

/// Delivers spooled events, oldest first. A session that refuses for now blocks only its own
/// events; an owner that does not answer ends the drain. After `share` no delivery starts, but the
/// first always starts and one in progress completes, so that a slow network makes progress. The
/// future may be dropped at any await: `drained` counts what was delivered.
///
/// # Errors
/// The error of the file system.
pub async fn drain(
    client: &Client,
    spool: &Spool,
    clock: &dyn Clock,
    share: Duration,
    drained: &mut Drained,
) -> std::io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begun = clock.monotonic();
    let is_over = || clock.monotonic().saturating_sub(begun) >= share;
    let Some(_right) = (loop {
        match spool.take()? {
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
    for path in spool.waiting() {
        let delivery = match spool.read(&path) {
            Ok(delivery) if held.contains(&delivery.session) => continue,
            Ok(delivery) => delivery,
            Err(Unread::Gone | Unread::Sealed) => continue,
            Err(Unread::Broken) => {
                // A file that cannot be moved is left: it blocks nothing.
                drained.aside += usize::from(spool.set_aside(&path).is_ok());
                continue;
            }
        };
        if is_over() && drained.delivered > 0 {
            drained.stopped = Some("what waits is being delivered, a part at a time".to_owned());
            return Ok(());
        }
        match deliver(client, &delivery).await {
            Ok(()) | Err(Undelivered::Gone(_)) => {}
            Err(Undelivered::Refused(_)) => {
                spool.refuse(&delivery).map_err(std::io::Error::other)?;
            }
            Err(Undelivered::Later(ClientError::Refused(refusal)))
                if matches!(refusal.status, 409 | 423) =>
            {
                held.insert(delivery.session);
                continue;
            }
            Err(Undelivered::Later(error)) => {
                drained.stopped = Some(error.to_string());
                return Ok(());
            }
        }
        spool.forget(&path)?;
        drained.delivered += 1;
    }
    spool.unpause();
    Ok(())
}

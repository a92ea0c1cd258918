//! emitEvent: one batch, all or nothing, durable before the answer. It must not look inside a body.

use std::sync::{Arc, atomic::Ordering};

use super::{Caller, Code, Counters, Service, ServiceError, ServiceResult, store_error::unwritten};
use crate::{
    event::{Batch, Event, NewEvent, Position, SessionId, limits},
    store::{Appended, Receipt, StoreError},
};

/// Answer to an emit: the events as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// One per event of the batch, in its order.
    pub events: Vec<Event>,
    /// Position of the batch's first event.
    pub first_position: Position,
    /// The tail after the batch.
    pub next_position: Position,
    /// Proof of the append.
    pub receipt: Receipt,
    /// Whether the batch was stored before and nothing was written.
    pub repeated: bool,
}

impl Emitted {
    pub(super) fn of(events: &[NewEvent], appended: Appended) -> Self {
        let kept = |(new, placed): (&NewEvent, crate::store::Placed)| Event {
            position: placed.position,
            id: placed.id,
            kind: new.kind.clone(),
            origin: new.origin,
            created_at: new.created_at,
            processed_at: placed.processed_at,
            body: new.body.clone(),
        };
        Self {
            events: events.iter().zip(appended.events).map(kept).collect(),
            first_position: appended.first_position,
            next_position: appended.next_position,
            receipt: appended.receipt,
            repeated: appended.repeated,
        }
    }
}

impl Service {
    /// Appends a batch to a session; with `create`, an unknown session is created with it.
    ///
    /// # Errors
    /// `invalid_request`, `body_too_large`, `position_conflict`, `idempotency_conflict`, those of
    /// the session, and those of the engine.
    pub async fn emit(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut batch: Batch,
        create: bool,
    ) -> ServiceResult<Emitted> {
        let key = caller.key(session);
        self.admit((&key.scope, Some(&key)), Arc::make_mut(&mut batch.events), "events").await?;
        let events = Arc::clone(&batch.events);
        let appended = self.append_and_add(caller, session, batch, create).await?;
        Ok(Emitted::of(&events, appended))
    }

    /// Appends a batch and returns the positions of its events.
    pub(super) async fn append(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut batch: Batch,
        create: bool,
    ) -> ServiceResult<Appended> {
        let bytes = check_batch(&batch)?;
        self.room_for(&caller.scope.tenant, 0, batch.events.len(), bytes).await?;
        let key = caller.key(session);
        batch.fence = batch.fence.or(caller.fence);
        self.mark_tool_calls(&key, &mut batch).await;
        let again = create.then(|| batch.clone());
        let appended = match (self.durable(self.store.append(&key, batch)).await, again) {
            (Err(StoreError::SessionNotFound { .. }), Some(batch)) => {
                match self.create_with(caller, session, batch.clone()).await? {
                    Some(appended) => appended,
                    // Another writer created it in between.
                    None => {
                        self.durable(self.store.append(&key, batch)).await.map_err(unwritten)?
                    }
                }
            }
            (answer, _) => answer.map_err(unwritten)?,
        };
        self.count(&appended, bytes);
        Ok(appended)
    }

    /// Adds an answered append to the process's counters.
    pub(super) fn count(&self, appended: &Appended, body_bytes: usize) {
        if appended.repeated {
            return;
        }
        let Counters { appends, events, bytes, .. } = &*self.counters;
        appends.fetch_add(1, Ordering::Relaxed);
        events.fetch_add(appended.events.len() as u64, Ordering::Relaxed);
        bytes.fetch_add(body_bytes as u64, Ordering::Relaxed);
    }
}

/// Checks the limits of one batch; returns the bytes of its bodies.
pub(super) fn check_batch(batch: &Batch) -> ServiceResult<usize> {
    let count = batch.events.len();
    if count == 0 {
        return Err(ServiceError::invalid("events", "a batch holds at least one event"));
    }
    if count > limits::BATCH_EVENTS_MAX {
        let problem = format!("{count} events; {} are allowed", limits::BATCH_EVENTS_MAX);
        return Err(ServiceError::invalid("events", problem).action("send them as several batches"));
    }
    let mut bytes_total = 0;
    for (index, event) in batch.events.iter().enumerate() {
        bytes_total += event.body.len();
        if event.body.len() > limits::EVENT_BYTES_MAX {
            return Err(too_large(&format!("events[{index}]"), limits::EVENT_BYTES_MAX));
        }
    }
    if bytes_total > limits::BATCH_BYTES_MAX {
        return Err(too_large("events", limits::BATCH_BYTES_MAX));
    }
    Ok(bytes_total)
}

fn too_large(field: &str, bytes_max: usize) -> ServiceError {
    let message = format!("{field}: larger than {bytes_max} bytes");
    let mut error = ServiceError::new(Code::BodyTooLarge, message)
        .action("send less at once; keep large content elsewhere and refer to it");
    error.hint.field = Some(field.to_owned());
    error
}

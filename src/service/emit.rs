//! emitEvent: appends one batch atomically, durable before the response, and the events that the
//! server adds after it. It must not read a body.

use std::sync::Arc;

use super::{Caller, Service, ServiceResult, added::adds, agent, given, status};
use crate::{
    event::{Batch, EventRef, NewEvent, SessionId},
    store::Appended,
};

/// Response to an emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Events of the batch, in order.
    pub events: Arc<[NewEvent]>,
    /// Result of the append.
    pub appended: Appended,
}

impl Emitted {
    /// Iterates over the events as stored.
    pub fn kept(&self) -> impl Iterator<Item = EventRef<'_>> + Clone {
        self.events.iter().zip(&self.appended.events).map(|(event, placed)| EventRef {
            position: placed.position,
            id: &placed.id,
            kind: &event.kind,
            origin: event.origin,
            created_at: event.created_at,
            processed_at: placed.processed_at,
            body: &event.body,
        })
    }
}

impl Service {
    /// Appends a batch to a session, and the events due after it; with `create`, creates an unknown
    /// session.
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
        status::keep(&mut batch);
        given::keep(&mut batch);
        let starts = agent::keep(&mut batch);
        if starts {
            self.agents.storing(&caller.scope);
        }
        let (events, fence) = (Arc::clone(&batch.events), batch.fence.or(caller.fence));
        let appended = self.append_behind_added(caller, session, batch, create).await;
        if starts {
            self.agents.stored(&caller.scope, &appended);
        }
        let mut appended = appended?;
        if adds(&events) {
            // The batch's lease also covers the events added after it.
            let holder = Caller { fence, ..caller.clone() };
            self.add_behind(&holder, session, &mut appended).await;
        }
        Ok(Emitted { events, appended })
    }
}

//! emitEvent: appends one batch atomically, durable before the response, and the events that the
//! server adds after it. It must not read a body.

use std::sync::Arc;

use super::{Caller, Service, ServiceResult, added::may_have_due_events, agent, injected, status};
use crate::{
    event::{Batch, EventRef, NewEvent, SessionId},
    store::AppendResult,
};

/// Response to an emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmitResult {
    /// Events of the batch, in order.
    pub events: Arc<[NewEvent]>,
    /// Result of the append.
    pub appended: AppendResult,
}

impl EmitResult {
    /// Iterates over the events as stored.
    pub fn stored_events(&self) -> impl Iterator<Item = EventRef<'_>> + Clone {
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
    ) -> ServiceResult<EmitResult> {
        let key = caller.key(session);
        self.prepare_events((&key.scope, Some(&key)), Arc::make_mut(&mut batch.events), "events")
            .await?;
        status::record_status(&mut batch);
        injected::record_injected(&mut batch);
        let starts = agent::record_start(&mut batch);
        if starts {
            self.agents.suspend_caching(&caller.scope);
        }
        let (events, fence) = (Arc::clone(&batch.events), batch.fence.or(caller.fence));
        let appended = self.append_after_added(caller, session, batch, create).await;
        if starts {
            self.agents.resume_caching(&caller.scope, &appended);
        }
        let mut appended = appended?;
        if may_have_due_events(&events) {
            // The batch's lease also covers the events added after it.
            let holder = Caller { fence, ..caller.clone() };
            self.add_due_events(&holder, session, &mut appended).await;
        }
        Ok(EmitResult { events, appended })
    }
}

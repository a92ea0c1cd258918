//! Appends one batch to the store: checks limits and quota, adds the checkpoint of a tool call, and
//! creates the session if it does not exist. It must not read a body, nor add an event.

use std::sync::atomic::Ordering;

use super::{
    Caller, Code, OperationCounters, Service, ServiceError, ServiceResult,
    notebook::{check_not_notebook, notebook_title},
    store_error::write_error,
};
use crate::{
    event::{Batch, SessionId, SessionKey, limits},
    store::{AppendResult, NewSession, StoreError},
};

impl Service {
    /// Appends a batch and returns the positions of its events; with `create`, creates an unknown
    /// session.
    pub(super) async fn append(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut batch: Batch,
        create: bool,
    ) -> ServiceResult<AppendResult> {
        let bytes = check_batch(&batch)?;
        self.reserve_quota(&caller.scope.tenant, 0, batch.events.len(), bytes).await?;
        let key = caller.key(session);
        batch.fence = batch.fence.or(caller.fence);
        self.add_tool_checkpoint(&key, &mut batch).await;
        let again = create.then(|| batch.clone());
        let appended = match (self.await_durable(self.store.append(&key, batch)).await, again) {
            (Err(StoreError::SessionNotFound { .. }), Some(batch)) => {
                self.create_with_batch(&key, batch).await?
            }
            (answer, _) => answer.map_err(write_error)?,
        };
        self.count_append(&appended, bytes);
        Ok(appended)
    }

    /// Creates a session with a batch as its first events; appends the batch if another writer
    /// created the session concurrently.
    async fn create_with_batch(
        &self,
        key: &SessionKey,
        batch: Batch,
    ) -> ServiceResult<AppendResult> {
        check_not_notebook(&key.session)?;
        self.reserve_quota(&key.scope.tenant, 1, 0, 0).await?;
        let (id, events) = (Some(key.session.clone()), batch.clone());
        let new = NewSession { id, events, ..NewSession::default() };
        match self.await_durable(self.store.create(&key.scope, new)).await {
            Ok((info, appended)) => {
                self.write_first_checkpoint(&info, &batch).await;
                Ok(appended)
            }
            Err(StoreError::SessionExists { .. }) => {
                self.await_durable(self.store.append(key, batch)).await.map_err(write_error)
            }
            Err(error) => Err(write_error(error)),
        }
    }

    /// Appends to the notebook of a workspace and creates it with its first batch. The caller's
    /// fencing token belongs to another session, so it is not passed on.
    pub(super) async fn append_to_notebook(
        &self,
        caller: &Caller,
        session: &SessionId,
        workspace: &str,
        batch: Batch,
    ) -> ServiceResult<AppendResult> {
        let caller = &Caller { fence: None, ..caller.clone() };
        match self.append(caller, session, batch.clone(), false).await {
            Err(error) if error.code == Code::SessionNotFound => {}
            appended => return appended,
        }
        let new = NewSession {
            id: Some(session.clone()),
            title: Some(notebook_title(workspace)),
            workspace: Some(workspace.to_owned()),
            ttl_seconds: Some(0),
            events: batch.clone(),
            ..NewSession::default()
        };
        self.reserve_quota(&caller.scope.tenant, 1, 1, new.text_bytes()).await?;
        match self.await_durable(self.store.create(&caller.scope, new)).await {
            Ok((_, appended)) => Ok(appended),
            // Another caller created it concurrently.
            Err(StoreError::SessionExists { .. }) => {
                self.append(caller, session, batch, false).await
            }
            Err(error) => Err(write_error(error)),
        }
    }

    pub(super) fn count_append(&self, appended: &AppendResult, body_bytes: usize) {
        if appended.repeated {
            return;
        }
        let OperationCounters { appends, events, bytes, .. } = &*self.counters;
        appends.fetch_add(1, Ordering::Relaxed);
        events.fetch_add(appended.events.len() as u64, Ordering::Relaxed);
        bytes.fetch_add(body_bytes as u64, Ordering::Relaxed);
    }
}

/// Checks the limits of a batch; returns the total bytes of its bodies.
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
            return Err(too_large_error(&format!("events[{index}]"), limits::EVENT_BYTES_MAX));
        }
    }
    if bytes_total > limits::BATCH_BYTES_MAX {
        return Err(too_large_error("events", limits::BATCH_BYTES_MAX));
    }
    Ok(bytes_total)
}

fn too_large_error(field: &str, bytes_max: usize) -> ServiceError {
    let message = format!("{field}: larger than {bytes_max} bytes");
    let mut error = ServiceError::new(Code::BodyTooLarge, message)
        .action("send less at once; keep large content elsewhere and refer to it");
    error.hint.field = Some(field.to_owned());
    error
}

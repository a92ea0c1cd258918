//! The route of a backup: sends a consistent copy of the whole store to an operator. It must
//! not hold more of it in memory than a few parts, nor continue after the client disconnected.

use std::io;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Shared, gate::RequestPrincipal, guard::RequestId, refuse::HttpError, serve::StopSignal,
    stream::ReaderSlot,
};
use crate::{
    api::backup::{BackupLine, BackupMade, BackupPart},
    service::{Code, ServiceError},
    wire::{BACKUP, convert},
};

/// Maximum number of parts queued for a slow connection.
const PARTS_WAITING: usize = 4;

/// Message from the thread that reads the store.
enum BackupStep {
    Part(BackupPart, Bytes),
    Made(BackupMade),
    Failed(ServiceError),
}

/// Sends a consistent copy of the whole store, of all tenants, made during writes.
pub(super) async fn create_backup(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    stopping: StopSignal,
    axum::Extension(request): axum::Extension<RequestId>,
) -> Result<Response, HttpError> {
    let _admitted = server.admit_reader(&who)?;
    let (sender, mut steps) = mpsc::channel(PARTS_WAITING);
    let service = server.app.service.clone();
    tokio::task::spawn_blocking(move || {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone");
        let made = service.backup(&mut |part, bytes| {
            sender.blocking_send(BackupStep::Part(part, bytes)).map_err(gone)
        });
        let last = made.map_or_else(BackupStep::Failed, BackupStep::Made);
        // A client that disconnected does not read the outcome.
        let _ = sender.blocking_send(last);
    });
    // A refusal is an ordinary error as long as nothing was sent.
    let first = match steps.recv().await {
        Some(BackupStep::Failed(error)) => return Err(error.into()),
        first => first,
    };
    let (stop, request) = (stopping.token(), request.as_str().to_owned());
    let sending = BackupStream { steps, first, rest: None, ended: false, stop, request, _admitted };
    let body = Body::from_stream(stream::unfold(sending, BackupStream::next_part));
    Ok(([(header::CONTENT_TYPE, BACKUP)], body).into_response())
}

/// State of a backup being sent.
struct BackupStream {
    steps: mpsc::Receiver<BackupStep>,
    first: Option<BackupStep>,
    /// Bytes that the last line announced, not yet sent.
    rest: Option<Bytes>,
    ended: bool,
    stop: CancellationToken,
    request: String,
    _admitted: ReaderSlot,
}

impl BackupStream {
    async fn next_part(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        if let Some(rest) = self.rest.take() {
            return Some((Ok(rest), self));
        }
        if self.ended {
            return None;
        }
        let step = match self.first.take() {
            Some(first) => Some(first),
            None => tokio::select! {
                biased;
                () = self.stop.cancelled() => Some(BackupStep::Failed(stop_error())),
                step = self.steps.recv() => step,
            },
        };
        let line = match step {
            Some(BackupStep::Part(part, bytes)) => {
                self.rest = Some(bytes).filter(|bytes| !bytes.is_empty());
                BackupLine { part: Some(part), ..BackupLine::default() }
            }
            Some(BackupStep::Made(made)) => {
                self.ended = true;
                BackupLine { complete: Some(made), ..BackupLine::default() }
            }
            Some(BackupStep::Failed(error)) => {
                self.ended = true;
                let failed = Some(convert::error_body(&error, Some(&self.request)));
                BackupLine { failed, ..BackupLine::default() }
            }
            None => {
                let error = io::Error::other("the thread that made the backup is gone");
                self.ended = true;
                return Some((Err(error), self));
            }
        };
        let mut text = serde_json::to_vec(&line).expect("texts and numbers are JSON");
        text.push(b'\n');
        Some((Ok(text.into()), self))
    }
}

fn stop_error() -> ServiceError {
    ServiceError::new(Code::OwnerUnavailable, "the server stops")
        .action("make the backup again once it is back")
}

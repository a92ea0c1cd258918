//! The route of a backup: sends the whole store to an operator, as it was at one moment. It must
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
    Shared, gate::Asking, guard::RequestId, refuse::Refusal, serve::Stopping, stream::Reader,
};
use crate::{
    api::backup::{BackupLine, BackupMade, BackupPart},
    service::{Code, ServiceError},
    wire::{BACKUP, convert},
};

/// Most parts queued for a slow connection.
const PARTS_WAITING: usize = 4;

/// Message from the thread that reads the store.
enum Step {
    Part(BackupPart, Bytes),
    Made(BackupMade),
    Failed(ServiceError),
}

/// Sends a consistent copy of the whole store, of all tenants, made during writes.
pub(super) async fn create(
    State(server): Shared,
    Asking(who): Asking,
    stopping: Stopping,
    axum::Extension(request): axum::Extension<RequestId>,
) -> Result<Response, Refusal> {
    let _admitted = server.admit(&who)?;
    let (give, mut steps) = mpsc::channel(PARTS_WAITING);
    let service = server.app.service.clone();
    tokio::task::spawn_blocking(move || {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone");
        let made = service
            .backup(&mut |part, bytes| give.blocking_send(Step::Part(part, bytes)).map_err(gone));
        let last = made.map_or_else(Step::Failed, Step::Made);
        // A client that disconnected does not read the outcome.
        let _ = give.blocking_send(last);
    });
    // A refusal is an ordinary error as long as nothing was sent.
    let first = match steps.recv().await {
        Some(Step::Failed(error)) => return Err(error.into()),
        first => first,
    };
    let (stop, request) = (stopping.token(), request.as_str().to_owned());
    let sending = Sending { steps, first, rest: None, ended: false, stop, request, _admitted };
    let body = Body::from_stream(stream::unfold(sending, Sending::next));
    Ok(([(header::CONTENT_TYPE, BACKUP)], body).into_response())
}

/// A backup being sent.
struct Sending {
    steps: mpsc::Receiver<Step>,
    first: Option<Step>,
    /// The bytes that the last line announced.
    rest: Option<Bytes>,
    ended: bool,
    stop: CancellationToken,
    request: String,
    _admitted: Reader,
}

impl Sending {
    async fn next(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
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
                () = self.stop.cancelled() => Some(Step::Failed(server_stops())),
                step = self.steps.recv() => step,
            },
        };
        let line = match step {
            Some(Step::Part(part, bytes)) => {
                self.rest = Some(bytes).filter(|bytes| !bytes.is_empty());
                BackupLine { part: Some(part), ..BackupLine::default() }
            }
            Some(Step::Made(made)) => {
                self.ended = true;
                BackupLine { complete: Some(made), ..BackupLine::default() }
            }
            Some(Step::Failed(error)) => {
                self.ended = true;
                let failed = Some(convert::error(&error, Some(&self.request)));
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

fn server_stops() -> ServiceError {
    ServiceError::new(Code::OwnerUnavailable, "the server stops")
        .action("make the backup again once it is back")
}

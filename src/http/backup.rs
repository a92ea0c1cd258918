//! The route of a backup: the whole store on its way to an operator, as it was at one moment. It
//! must not have more of it in memory than a few parts, nor continue when the client has gone.

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
    service::{Backup, Code, Part, ServiceError},
    wire::{
        backup::{self, BackupLine, BackupMade, MEDIA_TYPE},
        convert,
    },
};

/// Parts that wait for a slow connection.
const PARTS_WAITING: usize = 4;

/// What comes from the thread that reads the store.
enum Step {
    Part(Part),
    Made(Backup),
    Failed(ServiceError),
}

/// A consistent copy of the whole store, of all tenants, made while others write.
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
        let made = service.backup(&mut |part| give.blocking_send(Step::Part(part)).map_err(gone));
        let last = made.map_or_else(Step::Failed, Step::Made);
        // A client that has gone does not read how it ended.
        let _ = give.blocking_send(last);
    });
    // What is refused is an error like any other, as long as nothing was sent.
    let first = match steps.recv().await {
        Some(Step::Failed(error)) => return Err(error.into()),
        first => first,
    };
    let (stop, request) = (stopping.token(), request.as_str().to_owned());
    let sending = Sending { steps, first, rest: None, ended: false, stop, request, _admitted };
    let body = Body::from_stream(stream::unfold(sending, Sending::next));
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// A backup on its way out.
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
                () = self.stop.cancelled() => Some(Step::Failed(leaving())),
                step = self.steps.recv() => step,
            },
        };
        let line = match step {
            Some(Step::Part(part)) => {
                let line = BackupLine::from(&part);
                self.rest = Some(part.bytes).filter(|bytes| !bytes.is_empty());
                line
            }
            Some(Step::Made(made)) => {
                self.ended = true;
                BackupLine { complete: Some(BackupMade::from(&made)), ..BackupLine::default() }
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
        Some((Ok(backup::line(&line).into()), self))
    }
}

fn leaving() -> ServiceError {
    ServiceError::new(Code::OwnerUnavailable, "the server stops")
        .action("make the backup again once it is back")
}

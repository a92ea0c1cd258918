//! Conversion of store errors for clients: code, message, and next action. It must stay the only
//! module that converts a `StoreError` into a `ServiceError`.

use super::{Code, NextAction, ServiceError, SessionGap};
use crate::{
    env::{self, DiskShortage},
    event::{Position, Range, SessionId},
    store::StoreError,
};

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let plain = |code| Self::new(code, message.clone());
        match error {
            StoreError::SessionNotFound { .. } => plain(Code::SessionNotFound)
                .action("list the sessions for the right id, or create this one first"),
            StoreError::SessionExists { .. } => plain(Code::SessionExists)
                .action("append to the existing session, or create one with another id"),
            StoreError::SessionDeleted { session, restorable: true } => plain(Code::SessionDeleted)
                .action("restore it, or use another id")
                .next(NextAction::RestoreSession(session)),
            StoreError::SessionDeleted { .. } => plain(Code::SessionDeleted)
                .action("use another id; this one is free again when its grace has ended"),
            StoreError::SessionExpired { session } => plain(Code::SessionExpired)
                .action("restore it, or use another session")
                .next(NextAction::RestoreSession(session)),
            StoreError::SessionHeld { session } => plain(Code::SessionHeld)
                .action("it stays until its hold is released")
                .next(NextAction::ReleaseHold(session)),
            StoreError::SessionArchived { session } => archived_error(session),
            StoreError::PositionConflict { tail, .. } => position_conflict_error(message, tail),
            StoreError::NotesConflict { .. } => with_retry(plain(Code::PositionConflict))
                .action("others write to the session all the time: call again"),
            StoreError::LeaseHeld { session, seconds } => {
                lease_held_error(message, session, seconds)
            }
            StoreError::LeaseLost { session } => plain(Code::LeaseLost)
                .action("another may write now: read what came since, then wake the session again")
                .next(NextAction::Wake(session)),
            StoreError::IdempotencyConflict { position, .. } => {
                idempotency_error(message, position)
            }
            StoreError::KnownInPart { .. } => plain(Code::IdempotencyConflict)
                .action("send the events that are not known yet in a batch of their own"),
            StoreError::DuplicateEventId { .. } => {
                Self::invalid("events", message).action("give every event an id of its own")
            }
            StoreError::BatchTooLarge { .. } => too_large_error(message),
            StoreError::SessionDamaged { gaps, tail, .. } => damaged_error(message, gaps, tail),
            StoreError::PrefixErased { range, .. } => prefix_erased_error(message, range),
            StoreError::OutcomeUnknown { .. } => with_retry(plain(Code::OutcomeUnknown))
                .action("emit again with the same event ids or Idempotency-Key: nothing doubles"),
            StoreError::Key(_) => plain(Code::Forbidden).action("an operator must give its key"),
            StoreError::Plaintext => Self::invalid("keys", message)
                .action("export its sessions, make a data directory with a key, import them there"),
            StoreError::ReadOnly { .. } => with_retry(plain(Code::StoreReadOnly))
                .action("reading works; an operator must look at the storage and restart"),
            StoreError::Unreachable { .. } => with_retry(plain(Code::StoreUnreachable)).action(
                "nothing was written: send it again later; an operator must look at the storage",
            ),
            StoreError::Busy => with_retry(plain(Code::RateLimited))
                .action("nothing was kept of this append; wait a moment, then emit again"),
            StoreError::DiskFull(short) => with_retry(plain(Code::DiskFull)).action(format!(
                "nothing was kept of this append; {}, then emit again",
                disk_full_advice(short)
            )),
            StoreError::Unfinished { source, .. } => unfinished_error(message, &source),
            // No client request reads a derived file directly.
            StoreError::Outdated { .. }
            | StoreError::DerivedLost { .. }
            | StoreError::TooMuch { .. } => {
                with_retry(plain(Code::InternalError)).action("try again")
            }
            StoreError::NotOffered { what } => {
                Self::invalid(what, message).action("use the means of the engine itself")
            }
            StoreError::Io { source, .. } => io_error(message, &source),
        }
    }
}

fn too_large_error(message: String) -> ServiceError {
    ServiceError::new(Code::BodyTooLarge, message).action("split the batch into smaller ones")
}

/// Builds the error for other content under the same id or key.
fn idempotency_error(message: String, position: Option<Position>) -> ServiceError {
    let place = position.map(|position| format!(" (at position {position})"));
    let place = place.unwrap_or_default();
    ServiceError::new(Code::IdempotencyConflict, message)
        .action(format!("send the content sent before{place}, or a new id or key"))
}

fn io_error(message: String, source: &std::io::Error) -> ServiceError {
    let (code, action) = match env::is_out_of_descriptors(source) {
        true => {
            (Code::LimitReached, "come back later; an operator may allow the server more files")
        }
        false => (Code::InternalError, "look at the storage, then try again"),
    };
    with_retry(ServiceError::new(code, message)).action(action)
}

/// Builds the error of an accepted deletion that waits for free space, or for other nodes.
fn unfinished_error(message: String, source: &std::io::Error) -> ServiceError {
    if source.kind() == std::io::ErrorKind::TimedOut {
        let action = "send it again: it is finished once every node has let go of the content";
        return with_retry(ServiceError::new(Code::NotFinished, message)).action(action);
    }
    with_retry(ServiceError::new(Code::NotFinished, message)).action(format!(
        "what was to go is not served any more; {}: the store takes the bytes away when there is \
         room, or at once when this is sent again",
        disk_full_advice(env::shortage(source).unwrap_or_default())
    ))
}

/// Returns the error of a store that accepts no writes for lack of space.
#[must_use]
pub fn disk_full_error(short: DiskShortage) -> ServiceError {
    ServiceError::from(StoreError::DiskFull(short)).action(format!(
        "reading and permanent deletions work; {}: the store takes writes again by itself",
        disk_full_advice(short)
    ))
}

/// Returns advice for a user about full storage.
#[must_use]
pub fn disk_full_advice(short: DiskShortage) -> &'static str {
    match short {
        DiskShortage::Space => "free space",
        DiskShortage::Inodes => "remove files, each of which takes an inode",
    }
}

/// Converts an error of a write: failing storage means "no writes now", not an internal defect.
pub(super) fn write_error(error: StoreError) -> ServiceError {
    match error {
        StoreError::Io { ref source, .. } if env::is_out_of_descriptors(source) => error.into(),
        StoreError::Io { .. } => {
            with_retry(ServiceError::new(Code::StoreReadOnly, error.to_string()))
                .action("nothing was kept; look at the storage, then send it again")
        }
        other => other.into(),
    }
}

fn with_retry(mut error: ServiceError) -> ServiceError {
    error.hint.retryable = true;
    error
}

/// Builds the error for an archived session, with an alternative to writing.
fn archived_error(session: SessionId) -> ServiceError {
    let problem = format!("{session} is archived: it can be read, not written to");
    ServiceError::new(Code::SessionArchived, problem)
        .action("take it out of the archive, or continue in another session")
        .next(NextAction::Unarchive(session))
}

/// Builds `lease_held`: the caller must send its token, wait, or take the lease over.
fn lease_held_error(message: String, session: SessionId, seconds: u64) -> ServiceError {
    let error = ServiceError::new(Code::LeaseHeld, message)
        .action("send the Fencing-Token of the lease; or take it over")
        .next(NextAction::Steal(session));
    let mut error = with_retry(error);
    error.hint.retry_after_seconds = Some(seconds);
    error
}

fn position_conflict_error(message: String, tail: Position) -> ServiceError {
    let mut conflict = ServiceError::new(Code::PositionConflict, message)
        .action("read from the position you expected, then emit again at the tail");
    conflict.hint.tail = Some(tail);
    conflict
}

fn prefix_erased_error(message: String, range: Range) -> ServiceError {
    let mut error = ServiceError::new(Code::PrefixErased, message).action(format!(
        "read from position {} on, or ask again with allow_gaps=true; nothing brings it back",
        range.to
    ));
    error.hint.missing.push((range, "the session that wrote it was erased".to_owned()));
    error
}

/// Builds `session_damaged` with the store's gaps and the intact ranges between them.
fn damaged_error(message: String, gaps: Vec<SessionGap>, tail: Position) -> ServiceError {
    let mut error = ServiceError::new(Code::SessionDamaged, message)
        .action(
            "read the whole ranges, or ask again with allow_gaps=true; to write again an operator \
             accepts the loss",
        )
        .next(NextAction::AcceptLoss);
    error.hint.tail = Some(tail);
    let mut from = Position::ZERO;
    for gap in gaps {
        if from < gap.range.from {
            error.hint.whole.push(Range::new(from, gap.range.from));
        }
        from = from.max(gap.range.to);
        error.hint.missing.push((gap.range, gap.reason));
    }
    if from < tail {
        error.hint.whole.push(Range::new(from, tail));
    }
    error
}

//! Conversion of errors and single values for clients. It must not decide anything.

use super::advice;
use crate::{
    api::{
        error::{self, ErrorBody, ErrorDetail, RecoveryHint},
        events::Gap,
    },
    event::Position,
    service::{CandidateSession, Hint, ServiceError},
};

/// Returns the origin in protobuf.
#[cfg(feature = "http")]
pub(super) fn origin_number(origin: crate::event::Origin) -> super::pb::Origin {
    use super::pb::Origin as Number;
    use crate::event::Origin;

    match origin {
        Origin::User => Number::User,
        Origin::Model => Number::Model,
        Origin::Tool => Number::Tool,
        Origin::Web => Number::Web,
        Origin::Harness => Number::Harness,
        Origin::Import => Number::Import,
    }
}

fn convert_candidate(candidate: &CandidateSession) -> error::Candidate {
    error::Candidate {
        session: candidate.session.to_string(),
        title: candidate.title.clone(),
        workspace: candidate.workspace.clone(),
        tail: candidate.tail.0,
        updated_at: candidate.updated_at.to_string(),
    }
}

/// Converts the advice on an error to the form that clients read.
#[must_use]
pub fn convert_hint(hint: &Hint) -> RecoveryHint {
    let missing = hint.missing.iter().map(|(range, reason)| Gap {
        from: range.from,
        to: range.to,
        reason: reason.clone(),
        accepted_at: None,
    });
    RecoveryHint {
        action: advice::format_action(hint),
        retryable: hint.retryable,
        retry_after_seconds: hint.retry_after_seconds,
        field: hint.field.clone(),
        tail: hint.tail.map(|Position(tail)| tail),
        whole: hint.whole.clone(),
        missing: missing.collect(),
        last_step: hint.last_step,
        next_step: hint.next_step,
        candidates: hint.candidates.iter().map(convert_candidate).collect(),
        call: hint.call.as_ref().map(|call| error::NextCall {
            tool: call.tool.to_owned(),
            arguments: call.arguments.clone(),
            other_arguments: call.others_unchanged.then(|| "unchanged".to_owned()),
        }),
    }
}

/// Builds the body of an error, the same in every interface.
#[must_use]
pub fn error_body(error: &ServiceError, request_id: Option<&str>) -> ErrorBody {
    ErrorBody {
        kind: "error".to_owned(),
        error: ErrorDetail {
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            recovery_hint: convert_hint(&error.hint),
        },
        request_id: request_id.map(str::to_owned),
    }
}

//! Domain values to wire shapes and back. The only place that knows both spellings. It must not
//! decide anything.

use super::{hosted, next, types};
use crate::{
    event::{Position, Scope, SessionKey},
    service::{self, Candidate, ForkPoint, Gap, Head, Hint, Receipt, ServiceError, SessionInfo},
};

/// The origin in protobuf.
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

/// A chain value as clients see it.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(2 * bytes.len());
    write_hex(&mut text, bytes);
    String::from_utf8(text).expect("hex digits are ASCII")
}

/// Writes a chain value.
pub(super) fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

impl From<Receipt> for types::Receipt {
    fn from(receipt: Receipt) -> Self {
        Self { position: receipt.position.0, chain: hex(&receipt.chain) }
    }
}

impl From<&Gap> for types::Gap {
    fn from(gap: &Gap) -> Self {
        Self {
            from: gap.range.from.0,
            to: gap.range.to.0,
            reason: gap.reason.clone(),
            accepted_at: gap.accepted_at.map(|time| time.to_string()),
        }
    }
}

impl From<&SessionInfo> for types::Session {
    fn from(info: &SessionInfo) -> Self {
        let (began, ended) = service::dates(info);
        Self {
            id: info.key.session.to_string(),
            kind: "session".to_owned(),
            status: service::Status::of(info).as_str().to_owned(),
            title: info.title.clone(),
            metadata: hosted::visible(&info.metadata),
            workspace: info.workspace.clone(),
            ttl_seconds: info.ttl_seconds,
            created_at: began.to_string(),
            updated_at: ended.to_string(),
            archived_at: info.archived_at.map(|time| time.to_string()),
            held_at: super::retention::held_at(info),
            tail: info.tail.0,
            bytes: info.bytes,
            receipt: info.receipt.into(),
            damage: info.damage.iter().map(types::Gap::from).collect(),
            forked_from: info.forked_from.as_ref().map(Into::into),
            hosted: hosted::Hosted::of(&info.metadata),
        }
    }
}

impl From<&ForkPoint> for types::ForkedFrom {
    fn from(point: &ForkPoint) -> Self {
        Self { session: point.session.to_string(), position: point.at.0 }
    }
}

impl From<service::SessionPage> for types::SessionList {
    fn from(page: service::SessionPage) -> Self {
        Self {
            data: page.sessions.iter().map(types::Session::from).collect(),
            next_page: page.next_page,
        }
    }
}

impl types::VerifyAnswer {
    /// What was found, for a caller of that scope.
    #[must_use]
    pub fn of(verified: service::Verified, own: &Scope) -> Self {
        let foreign = |key: &SessionKey, name: &dyn std::fmt::Display| {
            (key.scope != *own).then(|| name.to_string())
        };
        let damage = |(key, gap): &(SessionKey, Gap)| types::Damage {
            session: key.session.to_string(),
            tenant: foreign(key, &key.scope.tenant),
            user: foreign(key, &key.scope.user),
            from: gap.range.from.0,
            to: gap.range.to.0,
            reason: gap.reason.clone(),
        };
        Self {
            sessions: verified.sessions,
            events: verified.events,
            bytes: verified.bytes,
            damage: verified.damage.iter().map(damage).collect(),
            accepted: verified.accepted.iter().map(damage).collect(),
            head: None,
        }
    }
}

impl From<Option<service::KeyReport>> for types::KeysAnswer {
    fn from(report: Option<service::KeyReport>) -> Self {
        let Some(report) = report else {
            return Self { opens: true, ..Self::default() };
        };
        Self {
            encrypted: true,
            current: Some(report.current.to_string()),
            previous: report.previous.map(|id| id.to_string()),
            given: report.given.iter().map(ToString::to_string).collect(),
            opens: report.opens,
            keys: report.keys,
            behind: report.behind,
            destroyed: report.destroyed,
            unreadable: report.unreadable,
        }
    }
}

impl types::HeadAnswer {
    /// Whether a session has what a receipt of that position proves; `hurt` when events before it
    /// are lost.
    #[must_use]
    pub fn of(position: Position, head: Head, hurt: bool) -> Self {
        let (state, tail, chain) = match head {
            Head::Holds if hurt => ("damaged", None, None),
            Head::Holds => ("holds", None, None),
            Head::Shorter { tail } => ("shorter", Some(tail.0), None),
            Head::Differs { chain } => ("differs", None, Some(hex(&chain))),
            Head::Lost => ("lost", None, None),
        };
        let (holds, state) = (state == "holds", state.to_owned());
        Self { holds, state, position: position.0, tail, chain }
    }
}

impl From<service::Repaired> for types::RepairAnswer {
    fn from(repaired: service::Repaired) -> Self {
        Self {
            accepted: repaired.accepted,
            events_lost: repaired.gaps.iter().map(|gap| gap.range.len()).sum(),
            gaps: repaired.gaps.iter().map(types::Gap::from).collect(),
            unnamed: repaired.unnamed,
            copies: repaired.copies,
        }
    }
}

impl From<service::Scrub> for types::ScrubReport {
    fn from(scrub: service::Scrub) -> Self {
        let service::Scrub { rounds, sessions, bytes, found } = scrub;
        Self { rounds, sessions, bytes, found }
    }
}

impl From<service::Recovery> for types::RecoveryReport {
    fn from(recovery: service::Recovery) -> Self {
        Self {
            clean: recovery.clean,
            sessions: recovery.sessions,
            frames_replayed: recovery.frames_replayed,
            torn_bytes: recovery.torn_bytes,
            made_good: recovery.made_good,
            damage: recovery.damage,
            quarantined: recovery.quarantined,
            micros: recovery.micros,
            scrub: recovery.scrub.into(),
        }
    }
}

fn candidate(candidate: &Candidate) -> types::Candidate {
    types::Candidate {
        session: candidate.session.to_string(),
        title: candidate.title.clone(),
        workspace: candidate.workspace.clone(),
        tail: candidate.tail.0,
        updated_at: candidate.updated_at.to_string(),
    }
}

/// What to do about an error, as clients see it.
#[must_use]
pub fn hint(hint: &Hint) -> types::RecoveryHint {
    let missing = hint.missing.iter().map(|(range, reason)| types::Gap {
        from: range.from.0,
        to: range.to.0,
        reason: reason.clone(),
        accepted_at: None,
    });
    types::RecoveryHint {
        action: next::action(hint),
        retryable: hint.retryable,
        retry_after_seconds: hint.retry_after_seconds,
        field: hint.field.clone(),
        tail: hint.tail.map(|Position(tail)| tail),
        whole: hint.whole.clone(),
        missing: missing.collect(),
        last_step: hint.last_step,
        next_step: hint.next_step,
        candidates: hint.candidates.iter().map(candidate).collect(),
        call: hint.call.as_ref().map(|call| types::NextCall {
            tool: call.tool.to_owned(),
            arguments: call.arguments.clone(),
            other_arguments: call.others_unchanged.then(|| "unchanged".to_owned()),
        }),
    }
}

/// The body of an error, the same in every interface.
#[must_use]
pub fn error(error: &ServiceError, request_id: Option<&str>) -> types::ErrorBody {
    types::ErrorBody {
        kind: "error".to_owned(),
        error: types::ErrorDetail {
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            recovery_hint: hint(&error.hint),
        },
        request_id: request_id.map(str::to_owned),
    }
}

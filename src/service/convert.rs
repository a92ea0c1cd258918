//! Conversions of store values into the API's: receipts, gaps, sessions and their dates. It must
//! not contain any logic.

use super::{SessionStatus, hosted};
use crate::{
    api::{
        events,
        sessions::{ForkedFrom, Session},
    },
    store::{ChainReceipt, ForkPoint, SessionGap, SessionInfo},
};

/// Encodes bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

impl From<ChainReceipt> for events::Receipt {
    fn from(receipt: ChainReceipt) -> Self {
        Self { position: receipt.position, chain: hex(&receipt.chain) }
    }
}

impl From<&SessionGap> for events::Gap {
    fn from(gap: &SessionGap) -> Self {
        Self {
            from: gap.range.from,
            to: gap.range.to,
            reason: gap.reason.clone(),
            accepted_at: gap.accepted_at.map(|time| time.to_string()),
        }
    }
}

impl From<ForkPoint> for ForkedFrom {
    fn from(point: ForkPoint) -> Self {
        Self { session: point.session.to_string(), position: point.at.0 }
    }
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        let (began, ended) = (info.began_at(), info.worked_at());
        Self {
            id: info.key.session.to_string(),
            kind: "session".to_owned(),
            status: SessionStatus::from_info(&info).as_str().to_owned(),
            metadata: hosted::client_metadata(&info.metadata),
            created_at: began.to_string(),
            updated_at: ended.to_string(),
            archived_at: info.archived_at.map(|time| time.to_string()),
            held_at: info.held_at.map(|time| time.to_string()),
            tail: info.tail.0,
            bytes: info.bytes,
            receipt: info.receipt.into(),
            damage: info.damage.iter().map(events::Gap::from).collect(),
            hosted: hosted::parse_hosted(&info.metadata),
            title: info.title,
            workspace: info.workspace,
            ttl_seconds: info.ttl_seconds,
            forked_from: info.forked_from.map(ForkedFrom::from),
        }
    }
}

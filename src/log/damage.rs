//! Lost positions of a session, in memory and in a settled entry. It must not read files or detect
//! damage.
//!
//! A settled entry stores the positions and a text. The text of a loss that an operator accepted
//! begins with `accepted `, the time, and `: `.

use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};

const ACCEPTED: &str = "accepted ";

/// Range of lost positions; empty if the lost records were control records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostRange {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Fault as text, for an operator.
    pub(crate) reason: String,
    /// When an operator accepted the loss, in microseconds; `None` while the session is degraded.
    pub(crate) accepted_at: Option<i64>,
}

impl LostRange {
    fn stored_text(&self) -> String {
        match self.accepted_at {
            None => self.reason.clone(),
            Some(at) => format!("{ACCEPTED}{at}: {}", self.reason),
        }
    }

    fn from_stored((from, to, text): (u64, u64, String)) -> Self {
        let parted = text.strip_prefix(ACCEPTED).and_then(|rest| rest.split_once(": "));
        let accepted = parted.and_then(|(at, reason)| Some((at.parse().ok()?, reason.to_owned())));
        match accepted {
            Some((at, reason)) => Self { from, to, reason, accepted_at: Some(at) },
            None => Self { from, to, reason: text, accepted_at: None },
        }
    }
}

impl Encode for LostRange {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.from, self.to, self.stored_text()).encode(encoder)
    }
}

impl<Context> Decode<Context> for LostRange {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Decode::decode(decoder).map(Self::from_stored)
    }
}

impl<'de, Context> BorrowDecode<'de, Context> for LostRange {
    fn borrow_decode<D: BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Decode::decode(decoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::encoding::{decode_value, encode_value};

    #[test]
    fn accepted_damage_round_trips_with_its_time_and_other_damage_without_one() {
        for (accepted_at, reason) in [
            (None, "torn"),
            (None, "accepted without a time"),
            (Some(-7), "torn: twice"),
            (Some(1_800_000_000_000_000), "accepted 5: before"),
        ] {
            let damage = LostRange { from: 1, to: 9, reason: reason.to_owned(), accepted_at };
            let mut bytes = Vec::new();
            encode_value(&damage, &mut bytes);
            assert_eq!(decode_value(&bytes), Some(damage.clone()));
            let plain: (u64, u64, String) = decode_value(&bytes).unwrap();
            assert_eq!(plain, (1, 9, damage.stored_text()));
        }
    }
}

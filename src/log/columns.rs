//! A block's records in columns, so that equal fields are stored and compressed together: all
//! names, all times, all bodies; random bytes apart from text. It must not decide which records
//! make a block, nor change its layout: another layout gets another codec id in the frame header
//! (docs/format.md, Columns).
//!
//! ```text
//! numbers    lsn: the first, then the difference to the previous one   varint each
//! kinds      u8 each                    origins    u8 each
//! created    option of processed_at - created_at                      zigzag varint each
//! processed  the first, then the difference to the previous one       zigzag varint each
//! names      string each                redacted   option of 32 bytes each
//! lengths    bytes of the body, varint each
//! ids        string each                salts      16 bytes each      bodies   one after the other
//! ```

use bincode::BorrowDecode;
use bytes::Bytes;

use super::{
    encoding::{decode_front, encode_value},
    record::{Record, RecordBody, RecordV1},
};
use crate::event::Lsn;

/// Minimum bytes of an encoded record: a salt and a byte in each other column but the bodies.
pub(super) const RECORD_BYTES_MIN: usize = 16 + 9;
/// Number of parts that are compressed separately, each with its own entropy code: numbers to
/// lengths, ids, salts, bodies.
const PARTS: usize = 4;

/// Encodes records as columns; concatenated, the parts are a block's payload.
pub(super) fn encode(records: &[(Lsn, Record)]) -> [Vec<u8>; PARTS] {
    let [mut heads, mut ids, mut salts, mut bodies] = [const { Vec::new() }; PARTS];
    let mut before = 0;
    for (lsn, _) in records {
        encode_value(&lsn.0.wrapping_sub(before), &mut heads);
        before = lsn.0;
    }
    let records = || records.iter().map(|(_, record)| record);
    heads.extend(records().map(|record| record.kind));
    heads.extend(records().map(|record| record.origin));
    for record in records() {
        let ago = record.created_at.map(|at| record.processed_at.wrapping_sub(at));
        encode_value(&ago, &mut heads);
    }
    let mut before = 0;
    for record in records() {
        encode_value(&record.processed_at.wrapping_sub(before), &mut heads);
        before = record.processed_at;
    }
    records().for_each(|record| encode_value(&record.name, &mut heads));
    records().for_each(|record| encode_value(&redaction_digest(&record.body), &mut heads));
    let empty = Bytes::new();
    let body = |record: &'_ Record| match &record.body {
        RecordBody::Whole { salt, body } => (*salt, body.clone()),
        RecordBody::Redacted { .. } => ([0; 16], empty.clone()),
    };
    for record in records() {
        let (salt, body) = body(record);
        encode_value(&(body.len() as u64), &mut heads);
        encode_value(&record.id, &mut ids);
        salts.extend_from_slice(&salt);
        bodies.extend_from_slice(&body);
    }
    debug_assert_eq!(salts.len(), 16 * records().count(), "each record has one salt");
    [heads, ids, salts, bodies]
}

fn redaction_digest(body: &RecordBody) -> Option<[u8; 32]> {
    match body {
        RecordBody::Whole { .. } => None,
        RecordBody::Redacted { digest } => Some(*digest),
    }
}

/// Reader of columns from the front of a payload.
struct ColumnReader<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> ColumnReader<'a> {
    /// Creates a reader; returns `None` if the payload is too short for `count` records.
    fn new(payload: &'a [u8], count: usize) -> Option<Self> {
        (payload.len() / RECORD_BYTES_MIN >= count).then_some(Self { rest: payload, count })
    }

    fn value<T: BorrowDecode<'a, ()>>(&mut self) -> Option<T> {
        let (value, used) = decode_front(self.rest)?;
        self.rest = self.rest.get(used..)?;
        Some(value)
    }

    fn values<T: BorrowDecode<'a, ()>>(&mut self) -> Option<Vec<T>> {
        (0..self.count).map(|_| self.value()).collect()
    }

    fn bytes(&mut self, width: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(self.count.checked_mul(width)?)?;
        self.rest = rest;
        Some(bytes)
    }

    fn lsns(&mut self) -> Option<Vec<Lsn>> {
        let mut before = 0_u64;
        let differences = self.values::<u64>()?.into_iter();
        Some(
            differences
                .map(|more| {
                    before = before.wrapping_add(more);
                    Lsn(before)
                })
                .collect(),
        )
    }
}

/// Returns the log sequence numbers of exactly `count` records.
pub(super) fn decode_lsns(payload: &[u8], count: usize) -> Option<Vec<Lsn>> {
    ColumnReader::new(payload, count)?.lsns()
}

/// Visits exactly `count` records that fill `payload`.
pub(super) fn for_each_record<'a>(
    payload: &'a [u8],
    count: usize,
    mut visit: impl FnMut(RecordV1<'a>) -> Option<()>,
) -> Option<()> {
    let mut columns = ColumnReader::new(payload, count)?;
    columns.lsns()?;
    let (kinds, origins) = (columns.bytes(1)?, columns.bytes(1)?);
    let created: Vec<Option<i64>> = columns.values()?;
    let processed: Vec<i64> = columns.values()?;
    let names: Vec<&str> = columns.values()?;
    let redacted: Vec<Option<[u8; 32]>> = columns.values()?;
    let lengths: Vec<u64> = columns.values()?;
    let ids: Vec<&str> = columns.values()?;
    let salts = columns.bytes(16)?;
    let mut bodies = columns.rest;
    let mut processed_at = 0_i64;
    let heads = kinds.iter().zip(origins).zip(created).zip(processed);
    let texts = names.into_iter().zip(ids).zip(redacted);
    let ends = lengths.into_iter().zip(salts.chunks_exact(16));
    for ((head, text), (length, salt)) in heads.zip(texts).zip(ends) {
        let (((&kind, &origin), ago), since) = head;
        let ((name, id), redacted) = text;
        processed_at = processed_at.wrapping_add(since);
        let (body, rest) = bodies.split_at_checked(usize::try_from(length).ok()?)?;
        bodies = rest;
        visit(RecordV1 {
            kind,
            origin,
            created_at: ago.map(|ago| processed_at.wrapping_sub(ago)),
            processed_at,
            name,
            id,
            redacted,
            salt: salt.try_into().ok()?,
            body,
        })?;
    }
    bodies.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::payload::{self, Layout};

    fn record(n: u8) -> Record {
        let salt = [n; 16];
        let body = Bytes::from(format!("{{\"n\":{n}}}"));
        Record {
            kind: if n == 3 { 18 } else { 1 },
            origin: n % 7,
            created_at: (n % 2 == 1).then_some(1_000 + i64::from(n)),
            processed_at: 2_000 - 300 * i64::from(n),
            name: if n == 3 { String::new() } else { "agent.message".to_owned() },
            id: format!("e{n}"),
            body: match n {
                2 => RecordBody::Redacted { digest: [9; 32] },
                _ => RecordBody::Whole { salt, body },
            },
        }
    }

    fn records(count: u8) -> Vec<(Lsn, Record)> {
        (0..count).map(|n| (Lsn(1_000 + 7 * u64::from(n)), record(n))).collect()
    }

    #[test]
    fn columns_round_trip() {
        for count in [0, 1, 2, 64] {
            let records = records(count);
            let payload = Bytes::from(encode(&records).concat());
            let count = usize::from(count);
            let read = payload::decode(Layout::Columns, &payload, count).expect("whole");
            let numbers = decode_lsns(&payload, count).expect("whole");
            assert_eq!(numbers.into_iter().zip(read).collect::<Vec<_>>(), records);
        }
    }

    #[test]
    fn truncated_overlong_or_miscounted_columns_are_rejected() {
        let payload = Bytes::from(encode(&records(5)).concat());
        let reads = |payload: &Bytes, count| payload::decode(Layout::Columns, payload, count);
        assert!(reads(&payload, 5).is_some());
        for cut in 0..payload.len() {
            assert!(reads(&payload.slice(..cut), 5).is_none(), "cut to {cut}");
        }
        let longer = Bytes::from([&payload[..], b"x"].concat());
        assert!(reads(&longer, 5).is_none());
        for count in [0, 4, 6, usize::MAX] {
            assert!(reads(&payload, count).is_none(), "{count} records");
        }
    }

    #[test]
    fn encoded_columns_equal_the_frozen_bytes() {
        let [heads, ids, salts, bodies] = encode(&records(3));
        let mut expected = vec![251, 0xe8, 3, 7, 7];
        expected.extend([1, 1, 1, 0, 1, 2]);
        // Only the second of the three has its own creation time: zigzag of 1 700 - 1 001.
        expected.extend([0, 1, 251, 0x76, 5, 0]);
        // 2 000, then twice a difference of -300, in zigzag encoding.
        expected.extend([251, 0xa0, 0x0f, 251, 0x57, 2, 251, 0x57, 2]);
        for _ in 0..3 {
            expected.push(13);
            expected.extend_from_slice(b"agent.message");
        }
        expected.extend([0, 0, 1]);
        expected.extend([9; 32]);
        expected.extend([7, 7, 0]);
        assert_eq!(heads, expected);
        assert_eq!(ids, b"\x02e0\x02e1\x02e2");
        assert_eq!(salts, [[0; 16], [1; 16], [0; 16]].concat());
        assert_eq!(bodies, br#"{"n":0}{"n":1}"#);
    }
}

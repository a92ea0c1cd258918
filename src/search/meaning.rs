//! Embedding vectors of passages: a byte string with those of some sessions of one scope, and a
//! search for the nearest vectors. The signs alone select a thousand candidates, the cosine orders
//! them. It must not compute an embedding, or hold a text. Numbers are little-endian.
//!
//! ```text
//! header    magic, format u16, dimensions u16, checksum of all following bytes u32; bytes of the
//!           model's name, sessions, ranges, rows, bytes of the sessions' names: u32 each
//! model     the name of the embedding model
//! sessions  hash [32], first row u32, first range u32, first byte of its name u32; ascending by
//!           hash
//! ranges    from u64, to u64: positions whose events were processed
//! rows      position u64, piece u16; ascending by session, position, piece
//! names     of the sessions
//! signs     a bit for each number, set where it is negative; whole bytes for each row
//! numbers   a byte each, scaled so that the largest of the vector is 127
//! ```

use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::{
    part::{PartError, SessionRef, checksum, read, split, to_rows},
    runs::Keep,
};
use crate::event::{Position, Range, SessionHash, SessionId, pace};

const MAGIC: [u8; 8] = *b"SLVECTR1";
const FORMAT: u16 = 1;
/// Byte offset of the checksummed bytes.
const CHECKED_FROM: usize = 16;
const SESSION_BYTES: usize = 44;
const ROW_BYTES: usize = 10;
/// Maximum dimensions of a vector.
pub const NUMBERS_MAX: usize = 8_192;
/// Maximum candidates that are selected by their signs.
const CHOSEN_MAX: usize = 1_000;

/// Vectors of one model under construction.
#[derive(Debug)]
pub struct VectorPartBuilder {
    model: String,
    numbers: usize,
    sessions: BTreeMap<SessionHash, VectorsOfSession>,
}

#[derive(Debug, Default)]
struct VectorsOfSession {
    id: String,
    ranges: Vec<Range>,
    rows: BTreeMap<(u64, u16), Vec<i8>>,
}

/// Validated bytes of vectors.
#[derive(Clone, Copy, Debug)]
pub struct VectorPart<'a> {
    model: &'a [u8],
    numbers: usize,
    sessions: &'a [[u8; SESSION_BYTES]],
    ranges: &'a [[u8; 16]],
    rows: &'a [[u8; ROW_BYTES]],
    names: &'a [u8],
    signs: &'a [u8],
    bytes: &'a [u8],
}

/// A passage with a vector near to the requested one.
#[derive(Clone, Debug, PartialEq)]
pub struct NearPassage {
    /// Hash of its session's incarnation.
    pub hash: SessionHash,
    /// The id of its session.
    pub session: SessionId,
    /// Position in the session.
    pub position: Position,
    /// Number of the piece.
    pub piece: u16,
    /// Cosine of its vector and the requested one.
    pub cosine: f32,
}

impl VectorPartBuilder {
    /// Creates a builder for vectors of one model with `numbers` dimensions, at most 8 192.
    #[must_use]
    pub fn new(model: &str, numbers: usize) -> Self {
        let numbers = numbers.min(NUMBERS_MAX);
        Self { model: model.to_owned(), numbers, sessions: BTreeMap::new() }
    }

    fn session_mut(&mut self, session: SessionRef<'_>) -> &mut VectorsOfSession {
        let new = || VectorsOfSession { id: session.id.to_owned(), ..VectorsOfSession::default() };
        self.sessions.entry(session.hash).or_insert_with(new)
    }

    /// Adds the vector of a piece; one of another length is ignored.
    pub fn add(&mut self, session: SessionRef<'_>, at: Position, piece: u16, vector: &[f32]) {
        if vector.len() == self.numbers {
            self.session_mut(session).rows.insert((at.0, piece), quantize(vector));
        }
    }

    /// Marks a range as processed, including events without vectors.
    pub fn mark_indexed(&mut self, session: SessionRef<'_>, range: Range) {
        self.session_mut(session).ranges.push(range);
    }

    /// Returns the encoded vectors, with the checksum.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut made = VectorSections::default();
        let mut rows = 0_u32;
        for (hash, session) in self.sessions {
            let ranges = merge_ranges(session.ranges);
            made.sessions.extend(hash.0);
            made.sessions.extend(rows.to_le_bytes());
            made.sessions.extend(to_u32(made.ranges.len() / 16).to_le_bytes());
            made.sessions.extend(to_u32(made.names.len()).to_le_bytes());
            made.names.extend(session.id.as_bytes());
            for range in ranges {
                made.ranges.extend([range.from, range.to].iter().flat_map(|at| at.0.to_le_bytes()));
            }
            for ((position, piece), numbers) in session.rows {
                rows += 1;
                made.rows.extend(position.to_le_bytes());
                made.rows.extend(piece.to_le_bytes());
                made.signs.extend(pack_signs(&numbers));
                made.numbers.extend(numbers.iter().map(|number| number.cast_unsigned()));
            }
        }
        let mut bytes = Vec::from(MAGIC);
        let numbers = u16::try_from(self.numbers).expect("a vector has at most 8 192 numbers");
        bytes.extend([FORMAT, numbers].iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend([0; 4]);
        let sessions = made.sessions.len() / SESSION_BYTES;
        let ranges = made.ranges.len() / 16;
        for number in
            [self.model.len(), sessions, ranges, made.rows.len() / ROW_BYTES, made.names.len()]
        {
            bytes.extend(to_u32(number).to_le_bytes());
        }
        bytes.extend(self.model.as_bytes());
        let VectorSections { sessions, ranges, rows, names, signs, numbers } = made;
        for part in [sessions, ranges, rows, names, signs, numbers] {
            bytes.extend(part);
        }
        let sum = checksum(bytes.get(CHECKED_FROM..).unwrap_or_default());
        let sum_bytes = bytes.get_mut(CHECKED_FROM - 4..CHECKED_FROM);
        sum_bytes.expect("the header was written").copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

#[derive(Default)]
struct VectorSections {
    sessions: Vec<u8>,
    ranges: Vec<u8>,
    rows: Vec<u8>,
    names: Vec<u8>,
    signs: Vec<u8>,
    numbers: Vec<u8>,
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("vectors are far smaller than four gigabytes")
}

/// Returns the ranges ascending; those that touch or overlap are merged.
fn merge_ranges(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable_by_key(|range| range.from);
    let mut joined: Vec<Range> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| range.from <= last.to) {
            Some(last) => last.to = last.to.max(range.to),
            None => joined.push(range),
        }
    }
    joined
}

/// Scales the numbers of a vector to one byte each, the one of the largest magnitude to 127.
fn quantize(vector: &[f32]) -> Vec<i8> {
    let most = vector.iter().fold(0_f32, |most, number| most.max(number.abs()));
    let scale = if most > 0.0 && most.is_finite() { 127.0 / most } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "at most 127, and what is none becomes 0")]
    vector.iter().map(|number| (number * scale).round() as i8).collect()
}

fn pack_signs(numbers: &[i8]) -> impl Iterator<Item = u8> {
    let bits = |eight: &[i8]| {
        eight.iter().enumerate().fold(0_u8, |bits, (at, one)| bits | u8::from(*one < 0) << at)
    };
    numbers.chunks(8).map(bits)
}

/// Merges encoded vectors of the positions that `keep` returns; `None` if they differ in model or
/// length.
#[must_use]
pub fn merge_meaning(parts: &[VectorPart<'_>], keep: &Keep<'_>) -> Option<Vec<u8>> {
    let model = parts.first().map_or("", VectorPart::model);
    let filled = || parts.iter().filter(|part| !part.is_empty());
    let numbers = filled().next().map_or(0, |part| part.numbers);
    if parts.iter().any(|part| part.model() != model) || filled().any(|one| one.numbers != numbers)
    {
        return None;
    }
    let mut made = VectorPartBuilder::new(model, numbers);
    for part in parts {
        for (index, (session, ranges)) in part.processed_ranges().enumerate() {
            for range in ranges.into_iter().flat_map(|range| keep(session, range)) {
                made.mark_indexed(session, range);
                for row in part.row_range(index) {
                    pace::step();
                    let Some((position, piece)) = part.position_and_piece(row) else { continue };
                    if range.contains(position) {
                        let numbers = part.vector(row).collect();
                        made.session_mut(session).rows.insert((position.0, piece), numbers);
                    }
                }
            }
        }
    }
    Some(made.finish())
}

impl<'a> VectorPart<'a> {
    /// Validates the bytes and locates the tables in them.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, PartError> {
        let found = Self::from_trusted(bytes)?;
        let body = bytes.get(CHECKED_FROM..).unwrap_or_default();
        let sum = bytes.get(CHECKED_FROM - 4..CHECKED_FROM).unwrap_or_default();
        let is_whole = sum == checksum(body).to_le_bytes();
        if is_whole { Ok(found) } else { Err(PartError::Damaged) }
    }

    /// Locates the tables in bytes that were validated before, or just built.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn from_trusted(bytes: &'a [u8]) -> Result<Self, PartError> {
        let mut head = bytes;
        if read::<8>(&mut head) != Some(MAGIC) {
            return Err(PartError::Foreign);
        }
        let mut short = || read::<2>(&mut head).map(u16::from_le_bytes).ok_or(PartError::Damaged);
        let (format, numbers) = (short()?, short()?);
        if format != FORMAT {
            return Err(PartError::Version { format, lexicon: 0 });
        }
        read::<4>(&mut head).ok_or(PartError::Damaged)?;
        Self::locate_tables(head, usize::from(numbers)).ok_or(PartError::Damaged)
    }

    fn locate_tables(mut rest: &'a [u8], numbers: usize) -> Option<Self> {
        let mut count =
            || Some(usize::try_from(u32::from_le_bytes(read(&mut rest)?)).unwrap_or(usize::MAX));
        let (model, sessions, ranges, rows, names) =
            (count()?, count()?, count()?, count()?, count()?);
        let mut part = |count: usize, bytes: usize| split(&mut rest, count.checked_mul(bytes)?);
        let found = Self {
            model: part(model, 1)?,
            numbers,
            sessions: to_rows(part(sessions, SESSION_BYTES)?)?,
            ranges: to_rows(part(ranges, 16)?)?,
            rows: to_rows(part(rows, ROW_BYTES)?)?,
            names: part(names, 1)?,
            signs: part(rows, numbers.div_ceil(8))?,
            bytes: part(rows, numbers)?,
        };
        rest.is_empty().then_some(found)
    }

    /// Returns the name of the model that computed the vectors.
    #[must_use]
    pub fn model(&self) -> &'a str {
        std::str::from_utf8(self.model).unwrap_or_default()
    }

    /// Returns the dimensions of each vector.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.numbers
    }

    /// Returns the number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no vector; there may still be processed ranges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns for each session its processed ranges, ascending.
    pub fn processed_ranges(&self) -> impl Iterator<Item = (SessionRef<'a>, Vec<Range>)> + use<'a> {
        let part = *self;
        let of = move |index: usize| {
            let hash = part.sessions.get(index)?.first_chunk::<32>()?;
            let [_, to, end] = part.session_starts(index + 1);
            let [_, from, begin] = part.session_starts(index);
            let name = part.names.get(begin..end).unwrap_or_default();
            let ranges = part.ranges.get(from..to).unwrap_or_default().iter().map(|row| {
                let mut rest = row.as_slice();
                let mut next = || Position(read(&mut rest).map_or(0, u64::from_le_bytes));
                Range::new(next(), next())
            });
            let id = std::str::from_utf8(name).unwrap_or_default();
            Some((SessionRef { hash: SessionHash(*hash), id }, ranges.collect()))
        };
        (0..self.sessions.len()).filter_map(of)
    }

    /// Returns the indexes of the first row, range and name byte of a session.
    fn session_starts(&self, index: usize) -> [usize; 3] {
        let Some(row) = self.sessions.get(index) else {
            return [self.rows.len(), self.ranges.len(), self.names.len()];
        };
        let mut rest = row.get(32..).unwrap_or_default();
        let mut next = || read(&mut rest).map_or(0, u32::from_le_bytes) as usize;
        [next(), next(), next()]
    }

    fn row_range(&self, index: usize) -> std::ops::Range<usize> {
        let ([from, ..], [to, ..]) = (self.session_starts(index), self.session_starts(index + 1));
        from..to.min(self.rows.len())
    }

    fn position_and_piece(&self, row: usize) -> Option<(Position, u16)> {
        let mut rest = self.rows.get(row)?.as_slice();
        let position = Position(u64::from_le_bytes(read(&mut rest)?));
        Some((position, u16::from_le_bytes(read(&mut rest)?)))
    }

    fn vector(&self, row: usize) -> impl Iterator<Item = i8> + use<'a> {
        let from = row * self.numbers;
        let bytes = self.bytes.get(from..from + self.numbers).unwrap_or_default();
        bytes.iter().map(|byte| byte.cast_signed())
    }

    /// Counts the numbers whose sign differs between a row and these signs.
    fn hamming_distance(&self, row: usize, signs: &[u8]) -> u32 {
        let from = row * signs.len();
        let own = self.signs.get(from..from + signs.len()).unwrap_or_default();
        own.iter().zip(signs).map(|(own, sign)| (own ^ sign).count_ones()).sum()
    }
}

/// Returns the passages with the nearest vectors among the positions that `keep` returns, nearest
/// first, at most 1 000. Parts with vectors of another length are skipped.
#[must_use]
pub fn nearest(parts: &[VectorPart<'_>], vector: &[f32], keep: &Keep<'_>) -> Vec<NearPassage> {
    let wanted = quantize(vector);
    let signs: Vec<u8> = pack_signs(&wanted).collect();
    let mut chosen: BinaryHeap<(u32, usize, usize, usize)> = BinaryHeap::new();
    let of_length = |part: &&VectorPart<'_>| part.numbers == vector.len();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| of_length(part)) {
        for (session, (name, ranges)) in part.processed_ranges().enumerate() {
            let kept: Vec<Range> = ranges.into_iter().flat_map(|range| keep(name, range)).collect();
            if kept.is_empty() {
                continue;
            }
            for row in part.row_range(session) {
                pace::step();
                let position = part.position_and_piece(row).map(|(position, _)| position);
                if position.is_some_and(|at| kept.iter().any(|range| range.contains(at))) {
                    chosen.push((part.hamming_distance(row, &signs), at, session, row));
                }
                if chosen.len() > CHOSEN_MAX {
                    chosen.pop();
                }
            }
        }
    }
    let mut seen = HashSet::new();
    let near = chosen.into_iter().filter_map(|(_, at, session, row)| {
        let part = parts.get(at)?;
        let (position, piece) = part.position_and_piece(row)?;
        pace::steps(1 + session);
        let (name, _) = part.processed_ranges().nth(session)?;
        let is_new = seen.insert((name.hash, position, piece));
        let session = SessionId::new(name.id).ok().filter(|_| is_new)?;
        let cosine = cosine(&wanted, part.vector(row));
        Some(NearPassage { hash: name.hash, session, position, piece, cosine })
    });
    let mut near: Vec<NearPassage> = near.collect();
    let key = |one: &NearPassage| (one.hash, one.position, one.piece);
    near.sort_by(|one, other| {
        other.cosine.total_cmp(&one.cosine).then_with(|| key(one).cmp(&key(other)))
    });
    near
}

fn cosine(one: &[i8], other: impl Iterator<Item = i8>) -> f32 {
    let (mut product, mut own, mut its) = (0_i64, 0_i64, 0_i64);
    for (one, other) in one.iter().map(|one| i64::from(*one)).zip(other.map(i64::from)) {
        product += one * other;
        own += one * one;
        its += other * other;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -1 and 1")]
    let cosine = (product as f64 / ((own * its) as f64).sqrt()) as f32;
    if cosine.is_finite() { cosine } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(byte: u8) -> SessionRef<'static> {
        SessionRef { hash: SessionHash([byte; 32]), id: if byte == 1 { "one" } else { "two" } }
    }

    fn bytes_of_two_sessions() -> Vec<u8> {
        let mut made = VectorPartBuilder::new("model", 9);
        made.mark_indexed(session(2), Range::new(Position(0), Position(4)));
        made.mark_indexed(session(1), Range::new(Position(5), Position(9)));
        made.mark_indexed(session(1), Range::new(Position(0), Position(5)));
        let axis = |at: usize| {
            let mut vector = [0.1_f32; 9];
            vector[at] = -1.0;
            vector
        };
        made.add(session(2), Position(3), 0, &axis(8));
        made.add(session(1), Position(7), 1, &axis(2));
        made.add(session(1), Position(7), 0, &axis(1));
        made.add(session(1), Position(8), 0, &[1.0; 3]);
        made.finish()
    }

    fn hit_keys(near: &[NearPassage]) -> Vec<(String, u64, u16)> {
        near.iter().map(|one| (one.session.to_string(), one.position.0, one.piece)).collect()
    }

    #[test]
    fn nearest_returns_the_kept_vectors_by_distance_and_skips_other_lengths() {
        let bytes = bytes_of_two_sessions();
        let part = VectorPart::read(&bytes).expect("whole");
        assert_eq!((part.model(), part.len()), ("model", 3));
        let kept: Vec<_> = part.processed_ranges().map(|(of, ranges)| (of.id, ranges)).collect();
        let to = |to: u64| vec![Range::new(Position(0), Position(to))];
        assert_eq!(kept, [("one", to(9)), ("two", to(4))]);
        let mut wanted = [0.1; 9];
        wanted[2] = -0.9;
        wanted[1] = -0.4;
        let all = |_: SessionRef<'_>, range: Range| vec![range];
        let near = nearest(&[part], &wanted, &all);
        let expected = [("one", 7, 1), ("one", 7, 0), ("two", 3, 0)];
        assert_eq!(hit_keys(&near), expected.map(|(id, at, piece)| (id.to_owned(), at, piece)));
        assert!(near[0].cosine > 0.8 && near[2].cosine < 0.4, "{near:?}");
        // A passage in two parts is returned once; for a vector of another length none is.
        assert_eq!(nearest(&[part, part], &wanted, &all), near);
        assert_eq!(nearest(&[part], &wanted[..8], &all), []);
        let other = |session: SessionRef<'_>, range: Range| match session.id {
            "one" => Vec::new(),
            _ => vec![range],
        };
        assert_eq!(hit_keys(&nearest(&[part], &wanted, &other)).len(), 1);
        let left = merge_meaning(&[part], &other).expect("one model");
        let left = VectorPart::read(&left).expect("whole");
        assert_eq!((left.len(), left.processed_ranges().count()), (1, 1));
        assert_eq!(merge_meaning(&[part, part], &all), Some(bytes.clone()));
        let foreign = VectorPartBuilder::new("another", 9).finish();
        let foreign = VectorPart::read(&foreign).expect("whole");
        assert_eq!(merge_meaning(&[part, foreign], &all), None);
    }

    #[test]
    fn altered_or_truncated_bytes_are_rejected_or_searched_without_panic() {
        let bytes = bytes_of_two_sessions();
        for at in 0..bytes.len() {
            assert!(VectorPart::read(&bytes[..at]).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            assert!(VectorPart::read(&changed).is_err(), "changed at {at}");
            if let Ok(part) = VectorPart::from_trusted(&changed) {
                let _ = nearest(&[part], &[0.5; 9], &|_, range| vec![range]);
                let _ = merge_meaning(&[part], &|_, range| vec![range]);
            }
        }
    }

    #[test]
    fn a_zero_or_nan_vector_is_quantized_to_zeros_and_has_cosine_zero() {
        assert_eq!(quantize(&[0.0, 0.0]), [0, 0]);
        assert_eq!(quantize(&[f32::NAN, 1.0]), [0, 127]);
        assert_eq!(quantize(&[f32::INFINITY, 1.0]), [0, 0]);
        assert_eq!(cosine(&[0, 0], [1, 2].into_iter()), 0.0);
    }
}

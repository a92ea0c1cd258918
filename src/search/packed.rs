//! Compressed postings of a term: each passage as its distance from the previous one in Golomb-Rice
//! code, which is short for randomly distributed passages, and the frequency of the term. It must
//! not know what a passage is. Damaged bytes give a wrong list and never a panic.
//!
//! ```text
//! list      L, 5 bits; 1 bit, set if some passage has the term more than once; then per passage
//!           the passages skipped since the previous one as a number with L low bits and, if it is
//!           set, the frequency of the term minus one as a number with 0 low bits
//! number    its quotient by 2^L in unary, at most 15 ones; a zero; the L bits of the remainder;
//!           or 16 ones and all its 32 bits
//! ```
//!
//! Bits are stored from the lowest of a byte up. A list starts at a byte boundary.

/// Bits of the header of a list.
const HEAD: u32 = 6;
/// Header bit: some passage has the term more than once.
const HAS_COUNTS: u64 = 1 << 5;
/// Number of one bits after which the whole number follows.
const ONES: u32 = 16;
/// Bits of a number that is written whole.
const WHOLE: u32 = ONES + u32::BITS;

/// Postings of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postings<'a> {
    /// Number of passages.
    pub(super) passages: u32,
    /// Bytes that start with the list; more may follow.
    bytes: &'a [u8],
}

impl<'a> Postings<'a> {
    /// Creates a reader of the list of `passages` passages with which the bytes start.
    pub(super) fn new(passages: u32, bytes: &'a [u8]) -> Self {
        Self { passages, bytes }
    }

    /// Returns the length of the encoded list in bytes.
    pub(super) fn byte_len(self) -> usize {
        self.for_each(|_, _| {})
    }

    /// Calls `visit` with each passage and the frequency of the term in it. Returns the length of
    /// the encoded list in bytes.
    pub(super) fn for_each(self, mut visit: impl FnMut(usize, u32)) -> usize {
        let mut bits = BitReader { bytes: self.bytes, at: 0 };
        let head = bits.peek();
        bits.at += HEAD as usize;
        let (low, has_counts) = ((head & 0x1f) as u32, head & HAS_COUNTS != 0);
        let (mut passage, end) = (0_usize, self.bytes.len() * 8);
        for _ in 0..self.passages {
            if bits.at >= end {
                break;
            }
            let next = bits.peek();
            let (gap, used) = decode_number(next, low);
            passage = passage.saturating_add(gap as usize);
            bits.at += used as usize;
            let mut count = 1;
            if has_counts {
                if next >> used & 1 == 0 {
                    bits.at += 1;
                } else {
                    let (more, used) = decode_number(bits.peek(), 0);
                    bits.at += used as usize;
                    count = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1);
                }
            }
            visit(passage, count);
            passage = passage.saturating_add(1);
        }
        bits.at.div_ceil(8).min(self.bytes.len())
    }
}

/// Decodes the number at the start of the bits; returns it and its length in bits, at most 48.
fn decode_number(bits: u64, low: u32) -> (u64, u32) {
    let ones = bits.trailing_ones();
    if ones < ONES {
        let rest = bits >> (ones + 1) & ((1 << low) - 1);
        (u64::from(ones) << low | rest, ones + 1 + low)
    } else {
        (bits >> ONES & u64::from(u32::MAX), WHOLE)
    }
}

/// A reader at a bit offset of a byte string.
struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    /// Returns the next bits, at least 57, with zeros after the last; does not advance.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> (self.at % 8)
    }
}

/// Appends a list of passages, ascending, each with the frequency of the term. `gaps` is a scratch
/// buffer.
pub(super) fn put_postings(postings: &[(u32, u32)], gaps: &mut Vec<u32>, out: &mut Vec<u8>) {
    let mut next = 0;
    gaps.clear();
    gaps.extend(postings.iter().map(|(passage, _)| {
        let gap = passage - next;
        next = passage + 1;
        gap
    }));
    let low = low_bits(gaps);
    let has_counts = postings.iter().any(|(_, count)| *count > 1);
    let mut into = BitWriter { out, bits: 0, count: 0 };
    into.put_bits(u64::from(low) | if has_counts { HAS_COUNTS } else { 0 }, HEAD);
    for (gap, (_, count)) in gaps.iter().zip(postings) {
        into.put_number(*gap, low);
        if has_counts {
            into.put_number(count - 1, 0);
        }
    }
    into.finish();
}

/// Returns the number of low bits with which the numbers have the shortest encoding.
fn low_bits(numbers: &[u32]) -> u32 {
    let bits = |number: u32, low: u32| {
        let ones = number >> low;
        if ones < ONES { ones + 1 + low } else { WHOLE }
    };
    let all = |low: u32| numbers.iter().fold(0_u32, |sum, number| sum + bits(*number, low));
    let most = numbers.iter().copied().max().unwrap_or_default();
    (0..u32::BITS - most.leading_zeros()).min_by_key(|low| all(*low)).unwrap_or_default()
}

/// Writer of bits; `bits` holds those that do not fill a byte yet.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    bits: u64,
    count: u32,
}

impl BitWriter<'_> {
    /// Appends the lowest `count` bits, at most 48; all others must be 0.
    fn put_bits(&mut self, bits: u64, count: u32) {
        self.bits |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn put_number(&mut self, number: u32, low: u32) {
        let (ones, number) = (number >> low, u64::from(number));
        if ones < ONES {
            let rest = number & ((1 << low) - 1);
            self.put_bits(((1 << ones) - 1) | (rest << (ones + 1)), ones + 1 + low);
        } else {
            self.put_bits(((1 << ONES) - 1) | (number << ONES), WHOLE);
        }
    }

    fn finish(self) {
        if self.count > 0 {
            self.out.push(self.bits as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_list_round_trips_and_ends_at_its_last_byte() {
        let all = u32::MAX - 1;
        let lists: [&[(u32, u32)]; 9] = [
            &[(0, 1)],
            &[(all, 1)],
            &[(0, u32::MAX), (all, 2)],
            &[(0, 1), (1, 1), (2, 1), (3, 1)],
            &[(5, 1), (6, 2), (7, 16), (8, 17), (9, 18), (10, 1)],
            &[(1 << 16, 1), (1 << 17, 1), (1 << 18, 3), (1 << 19, 1)],
            &[(70, 1), (71, 1), (72, 1), (73, 1), (90_000, 1), (90_001, 1)],
            &[(14, 1), (30, 1), (47, 1)],
            &[(1, 1), (1_000_000, 1), (1_000_001, 400)],
        ];
        for rest in [&[][..], &[0xff; 9]] {
            for list in lists {
                let (mut bytes, mut gaps) = (Vec::new(), vec![7]);
                put_postings(list, &mut gaps, &mut bytes);
                let length = bytes.len();
                bytes.extend_from_slice(rest);
                let mut read = Vec::new();
                let postings = Postings::new(list.len() as u32, &bytes);
                let end = postings.for_each(|passage, count| read.push((passage as u32, count)));
                assert_eq!(read, list);
                assert_eq!((end, postings.byte_len()), (length, length), "{list:?}");
            }
        }
    }

    #[test]
    fn reading_a_damaged_list_ends_at_its_last_byte() {
        for bytes in [&[][..], &[0xff; 3], &[0xff; 30], &[0; 30], &[0x1f; 12]] {
            let mut passages = 0;
            let end = Postings::new(u32::MAX, bytes).for_each(|_, count| {
                assert!(count > 0);
                passages += 1;
            });
            assert_eq!(end, bytes.len());
            assert!(passages <= bytes.len() * 8);
        }
    }

    #[test]
    fn adjacent_postings_take_few_bits_despite_one_distant_posting() {
        let bytes = |postings: &[(u32, u32)]| {
            let mut bytes = Vec::new();
            put_postings(postings, &mut Vec::new(), &mut bytes);
            bytes.len()
        };
        let near: Vec<(u32, u32)> = (0..100).map(|at| (at * 3, 1)).collect();
        let far: Vec<(u32, u32)> = near.iter().map(|(at, _)| (1_000_000 + at, 1)).collect();
        assert!(bytes(&near) <= 40 && bytes(&far) <= bytes(&near) + 6, "{}", bytes(&far));
        let each: Vec<(u32, u32)> = (0..800).map(|at| (at, 1)).collect();
        assert!(bytes(&each) <= 101);
    }
}

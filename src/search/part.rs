//! A part of an index: a byte string with the passages of some sessions of one scope, and for each
//! term its postings. It is read in place: only requested entries are copied. Damaged bytes, even
//! after they were validated, cause an error or a wrong result and never a panic. It must not hold
//! a text, or sessions of two scopes. Numbers are little-endian.
//!
//! ```text
//! header    magic, format u16, lexicon u16, checksum of all following bytes u32, then the bytes of
//!           each section below u32, numbers of passages, types and speakers u32
//! sessions  hash [32], first passage u32, first range u32, position u64 from which on no event
//!           refers to earlier ones; ascending by hash
//! ranges    from u64, to u64: positions whose events were added
//! columns   position, milliseconds plus 2^63, piece, type, speaker, origin, words of the passages,
//!           column by column: least u64, width u8, then per passage the difference from the least
//!           in `width` bytes (words: at least one); ascending by session, position, piece
//! names     end u32: byte offset in the text where the name ends; types, speakers, sessions
//! text      the names
//! blocks    byte offset in the terms u32, byte offset in the postings u32, of every 32nd term
//! terms     per term: 16 times the bytes shared with the previous one (0 at the start of a block)
//!           plus the bytes of the suffix, both up to 15, u8; the excess over 15 of either; the
//!           suffix; passages; from 16 passages on, bytes of postings; numbers as varints
//! postings  a list per term: see `packed`
//! ```

use super::packed::Postings;
use crate::event::{Position, Range, SessionHash};

const MAGIC: [u8; 8] = *b"SLINDEX1";
const FORMAT: u16 = 4;
/// Version of the term rules: increased by a change that gives the same event other terms
/// or pieces.
const LEXICON: u16 = 5;
/// Bytes before the checksummed part.
const CHECKED_FROM: usize = 16;
/// Terms between two entries of the table of blocks.
pub(super) const BLOCK_TERMS: usize = 32;
/// Minimum passages of a term for the size of its postings to be stored; the size of a shorter list
/// is found by decoding.
pub(super) const SIZED_FROM: usize = 16;
/// Maximum number of shared bytes, and of suffix bytes, that the first byte of a term can state.
pub(super) const NIBBLE: usize = 15;
/// Marks a missing speaker.
pub(super) const NONE: u16 = u16::MAX;

/// Reason for which bytes are not a valid part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The bytes have another format.
    #[error("this is no part of an index")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("the part has format {format} and lexicon {lexicon}")]
    Version {
        /// Version of its layout.
        format: u16,
        /// Version of the rules of its terms.
        lexicon: u16,
    },
    /// The bytes were altered or truncated.
    #[error("the part is damaged")]
    Damaged,
}

/// A session in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionRef<'a> {
    /// Hash of the session's incarnation.
    pub hash: SessionHash,
    /// Id of the session.
    pub id: &'a str,
}

/// A passage of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PassageRow {
    pub(super) position: u64,
    pub(super) piece: u16,
    pub(super) at_ms: i64,
    pub(super) kind: u16,
    pub(super) speaker: u16,
    pub(super) origin: u8,
    pub(super) words: u16,
}

pub(super) const SESSION_BYTES: usize = 48;
/// Number of columns of a passage row.
const COLUMNS: usize = 7;
/// Index of the column of words, which is at least one byte wide: it bounds the passage count.
const WORDS: usize = 6;
/// Flipped in a signed number, this bit makes its bits sort like the number.
const SIGN: u64 = 1 << 63;

impl PassageRow {
    fn to_columns(self) -> [u64; COLUMNS] {
        let at = self.at_ms.cast_unsigned() ^ SIGN;
        let [piece, kind, speaker, words] =
            [self.piece, self.kind, self.speaker, self.words].map(u64::from);
        [self.position, at, piece, kind, speaker, u64::from(self.origin), words]
    }

    fn from_columns([position, at, piece, kind, speaker, origin, words]: [u64; COLUMNS]) -> Self {
        let (piece, kind, speaker) = (piece as u16, kind as u16, speaker as u16);
        let (at_ms, origin, words) = ((at ^ SIGN).cast_signed(), origin as u8, words as u16);
        Self { position, at_ms, piece, kind, speaker, origin, words }
    }
}

/// A column with one number per passage, stored as its difference from the least.
#[derive(Clone, Copy, Debug, Default)]
struct NumberColumn<'a> {
    least: u64,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> NumberColumn<'a> {
    fn read(rest: &mut &'a [u8], passages: usize) -> Option<Self> {
        let least = u64::from_le_bytes(read(rest)?);
        let [width] = read(rest)?;
        let width = usize::from(width);
        let bytes = split(rest, passages.checked_mul(width)?)?;
        (width <= size_of::<u64>()).then_some(Self { least, width, bytes })
    }

    #[inline]
    fn get(&self, passage: usize) -> u64 {
        // The usual width of the column of words.
        if self.width == 1 {
            let more = self.bytes.get(passage).copied().unwrap_or_default();
            return self.least.wrapping_add(u64::from(more));
        }
        let from = passage * self.width;
        let more = self.bytes.get(from..from + self.width).unwrap_or_default();
        let mut number = [0; size_of::<u64>()];
        number.iter_mut().zip(more).for_each(|(byte, more)| *byte = *more);
        self.least.wrapping_add(u64::from_le_bytes(number))
    }
}

/// Appends the columns of some rows; the session of a row is not a column.
pub(super) fn put_columns(rows: &[(u32, PassageRow)], out: &mut Vec<u8>) {
    for column in 0..COLUMNS {
        let numbers = || rows.iter().filter_map(|(_, row)| row.to_columns().get(column).copied());
        let least = numbers().min().unwrap_or_default();
        let most = numbers().max().unwrap_or_default() - least;
        let width = size_of::<u64>() - most.leading_zeros() as usize / 8;
        let width = width.max(usize::from(column == WORDS));
        out.extend(least.to_le_bytes());
        out.push(width as u8);
        for number in numbers() {
            let more = (number - least).to_le_bytes();
            out.extend_from_slice(more.get(..width).unwrap_or_default());
        }
    }
}

/// A part whose bytes have been validated.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    sessions: &'a [[u8; SESSION_BYTES]],
    ranges: &'a [[u8; 16]],
    columns: [NumberColumn<'a>; COLUMNS],
    names: &'a [[u8; 4]],
    text: &'a [u8],
    blocks: &'a [[u8; 8]],
    terms: &'a [u8],
    postings: &'a [u8],
    passages: usize,
    kinds: usize,
    speakers: usize,
}

/// Sections of a part, to be written.
#[derive(Debug, Default)]
pub(super) struct PartSections {
    pub(super) sessions: Vec<u8>,
    pub(super) ranges: Vec<u8>,
    pub(super) columns: Vec<u8>,
    pub(super) names: Vec<u8>,
    pub(super) text: Vec<u8>,
    pub(super) blocks: Vec<u8>,
    pub(super) terms: Vec<u8>,
    pub(super) postings: Vec<u8>,
    pub(super) passages: u32,
    pub(super) kinds: u32,
    pub(super) speakers: u32,
}

impl PartSections {
    /// Returns the bytes of the part. Panics if a section has more than `u32::MAX` bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let sections = [
            &self.sessions,
            &self.ranges,
            &self.columns,
            &self.names,
            &self.text,
            &self.blocks,
            &self.terms,
            &self.postings,
        ];
        // Without spare capacity: the part may stay in memory.
        let length: usize = sections.iter().map(|section| section.len()).sum();
        let counts = [self.passages, self.kinds, self.speakers];
        let head = CHECKED_FROM + (sections.len() + counts.len()) * size_of::<u32>();
        let mut bytes = Vec::with_capacity(head + length);
        bytes.extend(MAGIC);
        bytes.extend([FORMAT, LEXICON].iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend([0; 4]);
        for section in sections {
            let length = u32::try_from(section.len());
            let length = length.expect("a part is far smaller than four gigabytes");
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend(counts.iter().flat_map(|number| number.to_le_bytes()));
        sections.iter().for_each(|section| bytes.extend_from_slice(section));
        let sum = crc32fast::hash(bytes.get(CHECKED_FROM..).unwrap_or_default());
        let sum_bytes = bytes.get_mut(CHECKED_FROM - 4..CHECKED_FROM);
        sum_bytes.expect("the header was written").copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl<'a> Part<'a> {
    /// Validates the bytes and locates the tables in them.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, PartError> {
        let body = bytes.get(CHECKED_FROM..).unwrap_or_default();
        let sum = bytes.get(CHECKED_FROM - 4..CHECKED_FROM).unwrap_or_default();
        let part = Self::from_trusted(bytes)?;
        let is_whole = sum == crc32fast::hash(body).to_le_bytes();
        if is_whole { Ok(part) } else { Err(PartError::Damaged) }
    }

    /// Locates the tables in bytes that were validated before, or just built: without the checksum.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn from_trusted(bytes: &'a [u8]) -> Result<Self, PartError> {
        let mut head = bytes;
        if read::<8>(&mut head) != Some(MAGIC) {
            return Err(PartError::Foreign);
        }
        let mut short = || read::<2>(&mut head).map(u16::from_le_bytes).ok_or(PartError::Damaged);
        let (format, lexicon) = (short()?, short()?);
        if (format, lexicon) != (FORMAT, LEXICON) {
            return Err(PartError::Version { format, lexicon });
        }
        read::<4>(&mut head).ok_or(PartError::Damaged)?;
        Self::locate_tables(head).ok_or(PartError::Damaged)
    }

    fn locate_tables(mut rest: &'a [u8]) -> Option<Self> {
        let mut count =
            || Some(usize::try_from(u32::from_le_bytes(read(&mut rest)?)).unwrap_or(usize::MAX));
        let (sessions, ranges, columns) = (count()?, count()?, count()?);
        let (names, text, blocks) = (count()?, count()?, count()?);
        let (terms, postings) = (count()?, count()?);
        let (passages, kinds, speakers) = (count()?, count()?, count()?);
        let (sessions, ranges) = (split(&mut rest, sessions)?, split(&mut rest, ranges)?);
        let mut numbers = split(&mut rest, columns)?;
        let mut columns = [NumberColumn::default(); COLUMNS];
        for column in &mut columns {
            *column = NumberColumn::read(&mut numbers, passages)?;
        }
        let [.., words] = &columns;
        if words.width == 0 && passages > 0 {
            return None;
        }
        let part = Self {
            sessions: to_rows(sessions)?,
            ranges: to_rows(ranges)?,
            columns,
            names: to_rows(split(&mut rest, names)?)?,
            text: split(&mut rest, text)?,
            blocks: to_rows(split(&mut rest, blocks)?)?,
            terms: split(&mut rest, terms)?,
            postings: split(&mut rest, postings)?,
            passages,
            kinds,
            speakers,
        };
        let names = kinds.checked_add(speakers)?.checked_add(part.sessions.len())?;
        let fits = names == part.names.len() && numbers.is_empty() && rest.is_empty();
        fits.then_some(part)
    }

    /// Returns the number of its passages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.passages
    }

    /// Returns true if it has no passage; it may still hold ranges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passages == 0
    }

    /// Returns the sessions of the part, ascending by their hashes.
    pub fn sessions(&self) -> impl Iterator<Item = SessionRef<'a>> + use<'a> {
        let part = *self;
        (0..part.sessions.len()).filter_map(move |session| part.session(session))
    }

    /// Returns for each session its indexed ranges, ascending; events without words are included.
    pub fn indexed_ranges(&self) -> impl Iterator<Item = (SessionRef<'a>, Vec<Range>)> + use<'a> {
        let part = *self;
        let session = move |index| Some((part.session(index)?, part.ranges_of(index).collect()));
        (0..part.sessions.len()).filter_map(session)
    }

    fn session(&self, session: usize) -> Option<SessionRef<'a>> {
        let (hash, _) = self.sessions.get(session)?.split_first_chunk::<32>()?;
        let id = self.name(self.kinds + self.speakers + session);
        Some(SessionRef { hash: SessionHash(*hash), id })
    }

    /// Returns, for each session, the position from which on none of its events refers to earlier
    /// ones.
    pub fn final_positions(&self) -> impl Iterator<Item = (SessionHash, Position)> + use<'a> {
        let part = *self;
        let session = move |index| Some((part.session(index)?.hash, part.final_from(index)));
        (0..part.sessions.len()).filter_map(session)
    }

    pub(super) fn final_from(&self, session: usize) -> Position {
        let row = self.sessions.get(session).and_then(|row| row.last_chunk::<8>());
        Position(row.map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    /// Returns the indexes of the first passage and the first range of a session.
    fn session_starts(&self, session: usize) -> [usize; 2] {
        let Some(row) = self.sessions.get(session) else {
            return [self.passages, self.ranges.len()];
        };
        let mut rest = row.get(32..).unwrap_or_default();
        let mut next = || read(&mut rest).map_or(0, u32::from_le_bytes) as usize;
        [next(), next()]
    }

    /// Returns the indexed positions of a session, ascending.
    pub(super) fn ranges_of(&self, session: usize) -> impl Iterator<Item = Range> + use<'a> {
        let ([_, from], [_, to]) = (self.session_starts(session), self.session_starts(session + 1));
        self.ranges.get(from..to).unwrap_or_default().iter().map(|row| {
            let mut rest = row.as_slice();
            let mut next = || Position(read(&mut rest).map_or(0, u64::from_le_bytes));
            Range::new(next(), next())
        })
    }

    /// Returns the indexes of the passages of a session within a range.
    pub(super) fn passages_in(&self, session: usize, range: Range) -> std::ops::Range<usize> {
        // Damaged bytes may give indexes of passages that do not exist.
        let [from, to] = [self.session_starts(session), self.session_starts(session + 1)]
            .map(|[passage, _]| passage.min(self.len()));
        let [positions, ..] = &self.columns;
        let before = |position: Position| {
            let (mut from, mut to) = (from, to.max(from));
            while from < to {
                let middle = from.midpoint(to);
                match positions.get(middle) < position.0 {
                    true => from = middle + 1,
                    false => to = middle,
                }
            }
            from
        };
        let (from, to) = (before(range.from), before(range.to));
        from..to.max(from)
    }

    pub(super) fn row(&self, passage: usize) -> Option<PassageRow> {
        (passage < self.len())
            .then(|| PassageRow::from_columns(self.columns.map(|column| column.get(passage))))
    }

    /// Returns the number of words of a passage.
    #[inline]
    pub(super) fn word_count(&self, passage: usize) -> usize {
        let [.., words] = &self.columns;
        usize::from(words.get(passage) as u16)
    }

    /// Returns the types of the events in the part.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let part = *self;
        (0..part.kinds).map(move |kind| part.name(kind))
    }

    pub(super) fn speakers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let part = *self;
        (0..part.speakers).map(move |speaker| part.name(part.kinds + speaker))
    }

    pub(super) fn kind_name(&self, kind: u16) -> &'a str {
        let kind = usize::from(kind);
        if kind < self.kinds { self.name(kind) } else { "" }
    }

    pub(super) fn speaker_name(&self, speaker: u16) -> Option<&'a str> {
        let speaker = usize::from(speaker);
        (speaker < self.speakers).then(|| self.name(self.kinds + speaker))
    }

    /// Returns the name at an index; empty where the bytes are damaged.
    fn name(&self, index: usize) -> &'a str {
        let end = |index: usize| self.names.get(index).map(|end| u32::from_le_bytes(*end) as usize);
        let from = index.checked_sub(1).map_or(Some(0), end);
        let range = from.zip(end(index)).map(|(from, to)| from..to);
        let bytes = range.and_then(|range| self.text.get(range)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the postings of a term; `None` if the part does not have the term.
    pub(super) fn find_postings(&self, term: &[u8]) -> Option<Postings<'a>> {
        let mut terms = self.block_from(term);
        loop {
            let found = terms.next()?;
            if terms.term.as_slice() >= term {
                return (terms.term == term).then_some(found);
            }
        }
    }

    /// Returns the terms from the first one that is not before `least`.
    pub(super) fn terms_from(&self, least: &[u8]) -> TermIter<'a> {
        let mut terms = self.block_from(least);
        let mut before = terms.clone();
        while terms.next().is_some() && terms.term.as_slice() < least {
            before.clone_from(&terms);
        }
        before
    }

    /// Returns the terms from the start of the block that would contain `term`.
    fn block_from(&self, term: &[u8]) -> TermIter<'a> {
        let mut first = Vec::new();
        let after = self.blocks.partition_point(|block| {
            let mut terms = TermIter::from_block(*self, block);
            terms.term = std::mem::take(&mut first);
            terms.term.clear();
            terms.next();
            first = terms.term;
            first.as_slice() <= term
        });
        let start = self.blocks.get(after.saturating_sub(1)).copied().unwrap_or([u8::MAX; 8]);
        TermIter::from_block(*self, &start)
    }
}

/// Iterator over terms in ascending order.
#[derive(Clone, Debug)]
pub(super) struct TermIter<'a> {
    rest: &'a [u8],
    postings: &'a [u8],
    /// The last term read.
    pub(super) term: Vec<u8>,
}

impl<'a> TermIter<'a> {
    fn from_block(part: Part<'a>, block: &[u8; 8]) -> Self {
        let mut rest = block.as_slice();
        let mut next = || read(&mut rest).map_or(usize::MAX, |at| u32::from_le_bytes(at) as usize);
        let (terms, postings) = (part.terms.get(next()..), part.postings.get(next()..));
        let (rest, postings) = (terms.unwrap_or_default(), postings.unwrap_or_default());
        Self { rest, postings, term: Vec::new() }
    }

    /// Reads the next term into `term`, and returns its postings.
    pub(super) fn next(&mut self) -> Option<Postings<'a>> {
        let [both] = read(&mut self.rest)?;
        let mut count = |of: u8| match usize::from(of) {
            NIBBLE => Some(NIBBLE + read_varint(&mut self.rest)? as usize),
            few => Some(few),
        };
        let (shared, length) = (count(both >> 4)?, count(both & 0xf)?);
        let rest = split(&mut self.rest, length)?;
        let passages = read_varint(&mut self.rest)?;
        // A short list is decoded to find its end; a long one has its size.
        let bytes = match passages as usize {
            SIZED_FROM.. => read_varint(&mut self.rest)? as usize,
            _ => Postings::new(passages, self.postings).byte_len(),
        };
        if shared > self.term.len() {
            return None;
        }
        self.term.truncate(shared);
        self.term.extend_from_slice(rest);
        Some(Postings::new(passages, split(&mut self.postings, bytes)?))
    }
}

/// Appends a number as a varint, seven bits per byte.
pub(super) fn put_varint(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn read_varint(rest: &mut &[u8]) -> Option<u32> {
    let (first, tail) = rest.split_first()?;
    if *first < 0x80 {
        *rest = tail;
        return Some(u32::from(*first));
    }
    let (mut number, mut shift) = (0_u32, 0);
    loop {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u32::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
        shift = (shift + 7).min(28);
    }
}

/// Returns the CRC-32 of bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

pub(super) fn read<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

pub(super) fn split<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    Some(head)
}

/// Returns the rows of a table; `None` if bytes remain.
pub(super) fn to_rows<const N: usize>(bytes: &[u8]) -> Option<&[[u8; N]]> {
    let (rows, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then_some(rows)
}

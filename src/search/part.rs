//! A part of an index: a byte string with the passages of some sessions of one scope, and of each
//! term the passages that have it. It is read where it stands: nothing is copied but what is asked
//! for. Bytes that were damaged, even after they were checked, make an error or a wrong answer and
//! never a panic. It must not hold a text, or sessions of two scopes. Numbers are little-endian.
//!
//! ```text
//! header    magic, format u16, lexicon u16, checksum of what follows u32, then the counts below
//! sessions  hash [32], first passage u32, first range u32; ascending by hash
//! ranges    from u64, to u64: positions whose events were added
//! passages  position u64, milliseconds i64, session u32, type u16, speaker u16, piece u16,
//!           origin u8; ascending by session, position, piece
//! lengths   words u16: of each passage
//! names     end u32: where in the text the name ends; types, speakers, sessions
//! text      the names
//! blocks    byte in the terms u32, byte in the postings u32: of every 16th term
//! terms     of each: bytes shared with the one before (0 at the start of a block), bytes of the
//!           rest, the rest, passages, bytes of postings; numbers as varints
//! postings  of each passage: how many passages after the one before, times 2, plus 1 where a
//!           second varint says how often it has the term, which else is once
//! ```

use crate::event::{Position, Range, SessionHash};

const MAGIC: [u8; 8] = *b"SLINDEX1";
const FORMAT: u16 = 1;
/// Rises whenever the same event would give other terms or pieces.
const LEXICON: u16 = 3;
/// Bytes before what the checksum covers.
const CHECKED_FROM: usize = 16;
/// Terms between two entries of the table of blocks.
pub(super) const BLOCK_TERMS: usize = 16;
/// In place of a speaker: there is none.
pub(super) const NONE: u16 = u16::MAX;

/// Why bytes are no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// Something else.
    #[error("this is no part of an index")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("the part has format {format} and lexicon {lexicon}")]
    Version {
        /// How it is laid out.
        format: u16,
        /// By which rules its terms were made.
        lexicon: u16,
    },
    /// It was changed or cut.
    #[error("the part is damaged")]
    Damaged,
}

/// A session as a part knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionRef<'a> {
    /// One life of the session.
    pub hash: SessionHash,
    /// Its name.
    pub id: &'a str,
}

/// A passage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) session: u32,
    pub(super) position: u64,
    pub(super) piece: u16,
    pub(super) at_ms: i64,
    pub(super) kind: u16,
    pub(super) speaker: u16,
    pub(super) origin: u8,
}

pub(super) const ROW_BYTES: usize = 27;
pub(super) const SESSION_BYTES: usize = 40;

/// A part whose bytes are as they were written.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    sessions: &'a [[u8; SESSION_BYTES]],
    ranges: &'a [[u8; 16]],
    rows: &'a [[u8; ROW_BYTES]],
    lengths: &'a [[u8; 2]],
    names: &'a [[u8; 4]],
    text: &'a [u8],
    blocks: &'a [[u8; 8]],
    terms: &'a [u8],
    postings: &'a [u8],
    kinds: usize,
    speakers: usize,
}

/// What a part is made of, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) sessions: Vec<u8>,
    pub(super) ranges: Vec<u8>,
    pub(super) rows: Vec<u8>,
    pub(super) lengths: Vec<u8>,
    pub(super) names: Vec<u8>,
    pub(super) text: Vec<u8>,
    pub(super) blocks: Vec<u8>,
    pub(super) terms: Vec<u8>,
    pub(super) postings: Vec<u8>,
    pub(super) kinds: u32,
    pub(super) speakers: u32,
}

impl Sections {
    /// The part. It holds at most `u32::MAX` bytes of each.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let sections = [
            &self.sessions,
            &self.ranges,
            &self.rows,
            &self.lengths,
            &self.names,
            &self.text,
            &self.blocks,
            &self.terms,
            &self.postings,
        ];
        let mut bytes = Vec::from(MAGIC);
        bytes.extend([FORMAT, LEXICON].iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend([0; 4]);
        for section in sections {
            let length = u32::try_from(section.len());
            let length = length.expect("a part is far smaller than four gigabytes");
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend([self.kinds, self.speakers].iter().flat_map(|number| number.to_le_bytes()));
        sections.iter().for_each(|section| bytes.extend_from_slice(section));
        let sum = crc32fast::hash(bytes.get(CHECKED_FROM..).unwrap_or_default());
        let place = bytes.get_mut(CHECKED_FROM - 4..CHECKED_FROM);
        place.expect("the header was written").copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl<'a> Part<'a> {
    /// Checks the bytes and finds the tables in them.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, PartError> {
        let body = bytes.get(CHECKED_FROM..).unwrap_or_default();
        let sum = bytes.get(CHECKED_FROM - 4..CHECKED_FROM).unwrap_or_default();
        let part = Self::trusted(bytes)?;
        let is_whole = sum == crc32fast::hash(body).to_le_bytes();
        if is_whole { Ok(part) } else { Err(PartError::Damaged) }
    }

    /// Finds the tables in bytes that were checked before, or just made: without the checksum.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn trusted(bytes: &'a [u8]) -> Result<Self, PartError> {
        let mut head = bytes;
        if take::<8>(&mut head) != Some(MAGIC) {
            return Err(PartError::Foreign);
        }
        let mut short = || take::<2>(&mut head).map(u16::from_le_bytes).ok_or(PartError::Damaged);
        let (format, lexicon) = (short()?, short()?);
        if (format, lexicon) != (FORMAT, LEXICON) {
            return Err(PartError::Version { format, lexicon });
        }
        take::<4>(&mut head).ok_or(PartError::Damaged)?;
        Self::of_checked(head).ok_or(PartError::Damaged)
    }

    fn of_checked(mut rest: &'a [u8]) -> Option<Self> {
        let mut count =
            || Some(usize::try_from(u32::from_le_bytes(take(&mut rest)?)).unwrap_or(usize::MAX));
        let (sessions, ranges, rows, lengths) = (count()?, count()?, count()?, count()?);
        let (names, text, blocks) = (count()?, count()?, count()?);
        let (terms, postings, kinds, speakers) = (count()?, count()?, count()?, count()?);
        let part = Self {
            sessions: table(section(&mut rest, sessions)?)?,
            ranges: table(section(&mut rest, ranges)?)?,
            rows: table(section(&mut rest, rows)?)?,
            lengths: table(section(&mut rest, lengths)?)?,
            names: table(section(&mut rest, names)?)?,
            text: section(&mut rest, text)?,
            blocks: table(section(&mut rest, blocks)?)?,
            terms: section(&mut rest, terms)?,
            postings: section(&mut rest, postings)?,
            kinds,
            speakers,
        };
        let names = kinds.checked_add(speakers)?.checked_add(part.sessions.len())?;
        let fits = part.rows.len() == part.lengths.len() && names == part.names.len();
        (fits && rest.is_empty()).then_some(part)
    }

    /// How many passages it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no passage; it may hold ranges all the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its sessions, ascending by their hashes.
    pub fn sessions(&self) -> impl Iterator<Item = SessionRef<'a>> + use<'a> {
        let part = *self;
        (0..part.sessions.len()).filter_map(move |session| part.session(session))
    }

    /// The positions whose events were added, those without words too: for each session its ranges,
    /// ascending.
    pub fn holds(&self) -> impl Iterator<Item = (SessionRef<'a>, Vec<Range>)> + use<'a> {
        let part = *self;
        let session = move |index| Some((part.session(index)?, part.ranges_of(index).collect()));
        (0..part.sessions.len()).filter_map(session)
    }

    fn session(&self, session: usize) -> Option<SessionRef<'a>> {
        let (hash, _) = self.sessions.get(session)?.split_first_chunk::<32>()?;
        let id = self.name(self.kinds + self.speakers + session);
        Some(SessionRef { hash: SessionHash(*hash), id })
    }

    /// Where the passages, and where the ranges of a session begin.
    fn starts(&self, session: usize) -> [usize; 2] {
        let Some(row) = self.sessions.get(session) else {
            return [self.rows.len(), self.ranges.len()];
        };
        let mut rest = row.get(32..).unwrap_or_default();
        let mut next = || take(&mut rest).map_or(0, u32::from_le_bytes) as usize;
        [next(), next()]
    }

    /// The positions that were added of a session, ascending.
    pub(super) fn ranges_of(&self, session: usize) -> impl Iterator<Item = Range> + use<'a> {
        let ([_, from], [_, to]) = (self.starts(session), self.starts(session + 1));
        self.ranges.get(from..to).unwrap_or_default().iter().map(|row| {
            let mut rest = row.as_slice();
            let mut next = || Position(take(&mut rest).map_or(0, u64::from_le_bytes));
            Range::new(next(), next())
        })
    }

    /// The passages of a session within a range, as indexes.
    pub(super) fn passages_in(&self, session: usize, range: Range) -> std::ops::Range<usize> {
        let ([from, _], [to, _]) = (self.starts(session), self.starts(session + 1));
        let rows = self.rows.get(from..to).unwrap_or_default();
        let before = |position: Position| {
            from + rows.partition_point(|row| {
                let mut rest = row.as_slice();
                take(&mut rest).map_or(0, u64::from_le_bytes) < position.0
            })
        };
        let (from, to) = (before(range.from), before(range.to));
        from..to.max(from)
    }

    pub(super) fn row(&self, passage: usize) -> Option<Row> {
        let mut rest = self.rows.get(passage)?.as_slice();
        let rest = &mut rest;
        Some(Row {
            position: u64::from_le_bytes(take(rest)?),
            at_ms: i64::from_le_bytes(take(rest)?),
            session: u32::from_le_bytes(take(rest)?),
            kind: u16::from_le_bytes(take(rest)?),
            speaker: u16::from_le_bytes(take(rest)?),
            piece: u16::from_le_bytes(take(rest)?),
            origin: u8::from_le_bytes(take(rest)?),
        })
    }

    /// Words of each passage.
    pub(super) fn lengths(&self) -> &'a [[u8; 2]] {
        self.lengths
    }

    /// The types of its events.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let part = *self;
        (0..part.kinds).map(move |kind| part.name(kind))
    }

    /// Who speaks in it.
    pub(super) fn speakers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let part = *self;
        (0..part.speakers).map(move |speaker| part.name(part.kinds + speaker))
    }

    pub(super) fn kind(&self, kind: u16) -> &'a str {
        let kind = usize::from(kind);
        if kind < self.kinds { self.name(kind) } else { "" }
    }

    pub(super) fn speaker(&self, speaker: u16) -> Option<&'a str> {
        let speaker = usize::from(speaker);
        (speaker < self.speakers).then(|| self.name(self.kinds + speaker))
    }

    /// An empty name where the bytes are damaged.
    fn name(&self, index: usize) -> &'a str {
        let end = |index: usize| self.names.get(index).map(|end| u32::from_le_bytes(*end) as usize);
        let from = index.checked_sub(1).map_or(Some(0), end);
        let range = from.zip(end(index)).map(|(from, to)| from..to);
        let bytes = range.and_then(|range| self.text.get(range)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The passages that have the term; `None` where there are none.
    pub(super) fn find(&self, term: &[u8]) -> Option<Postings<'a>> {
        let mut terms = self.terms_from(term);
        let found = terms.next()?;
        (terms.term == term).then_some(found)
    }

    /// The terms from the first on that is not before `least`.
    pub(super) fn terms_from(&self, least: &[u8]) -> Terms<'a> {
        let first = |block: &[u8; 8]| {
            let mut terms = Terms::at(*self, block);
            terms.next();
            terms.term
        };
        let after = self.blocks.partition_point(|block| first(block).as_slice() <= least);
        let start = self.blocks.get(after.saturating_sub(1)).copied().unwrap_or([u8::MAX; 8]);
        let mut terms = Terms::at(*self, &start);
        let mut before = terms.clone();
        while terms.next().is_some() && terms.term.as_slice() < least {
            before.clone_from(&terms);
        }
        before
    }
}

/// Terms in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Terms<'a> {
    rest: &'a [u8],
    postings: &'a [u8],
    /// The one that was read last.
    pub(super) term: Vec<u8>,
}

impl<'a> Terms<'a> {
    fn at(part: Part<'a>, block: &[u8; 8]) -> Self {
        let mut rest = block.as_slice();
        let mut next = || take(&mut rest).map_or(usize::MAX, |at| u32::from_le_bytes(at) as usize);
        let (terms, postings) = (part.terms.get(next()..), part.postings.get(next()..));
        let (rest, postings) = (terms.unwrap_or_default(), postings.unwrap_or_default());
        Self { rest, postings, term: Vec::new() }
    }

    /// Reads the next term.
    pub(super) fn next(&mut self) -> Option<Postings<'a>> {
        let shared = varint(&mut self.rest)? as usize;
        let length = varint(&mut self.rest)? as usize;
        let rest = section(&mut self.rest, length)?;
        let passages = varint(&mut self.rest)?;
        let bytes = varint(&mut self.rest)? as usize;
        if shared > self.term.len() {
            return None;
        }
        self.term.truncate(shared);
        self.term.extend_from_slice(rest);
        Some(Postings { passages, bytes: section(&mut self.postings, bytes)? })
    }
}

/// The passages that have a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postings<'a> {
    /// How many.
    pub(super) passages: u32,
    bytes: &'a [u8],
}

impl Postings<'_> {
    /// Calls `visit` with each passage and how often it has the term.
    pub(super) fn each(self, mut visit: impl FnMut(usize, u32)) {
        let (mut rest, mut at) = (self.bytes, 0_usize);
        while let Some(gap) = varint(&mut rest) {
            at += (gap >> 1) as usize;
            let count = if gap & 1 == 0 { 1 } else { varint(&mut rest).unwrap_or(1) };
            // Damaged bytes may say that it has the term no time.
            visit(at, count.max(1));
            at += 1;
        }
    }
}

/// Appends the number in as few bytes as it needs, seven bits each.
pub(super) fn put_varint(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint(rest: &mut &[u8]) -> Option<u32> {
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

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn section<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    Some(head)
}

/// The rows of a table that has nothing else.
fn table<const N: usize>(bytes: &[u8]) -> Option<&[[u8; N]]> {
    let (rows, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then_some(rows)
}

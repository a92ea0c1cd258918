//! Content kind of an index's parts: words, or vectors of one model. The rest of the follower
//! treats both alike. It must not build a part from events.

use crate::{
    event::{Position, Range, Scope, SessionHash, TenantId, UserId},
    search::{Keep, Part, VectorPart, merge, merge_meaning},
};

/// Prefix of the label of a derived file that is a part of an index.
const WORDS: &str = "search/1";
const VECTORS: &str = "vectors/1";
/// Number of passages from which a part is no longer merged.
pub(super) const PASSAGES_MAX: usize = 32_768;
/// Number of passages from which a part of words is written to a file at once: fewer than in a tier
/// of parts that were each made from one slice of events.
const KEPT_PASSAGES: usize = 16_384;
/// Minimum number of passages of words for a file at shutdown.
const FILE_PASSAGES_MIN: usize = 512;

/// Indexed positions by session.
type Positions = Vec<(SessionHash, Vec<Range>)>;

/// Content kind of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartContent {
    /// Words of the passages.
    Words,
    /// Vectors of the passages, by the model of that name.
    Vectors(String),
}

impl PartContent {
    /// Returns the minimum number of passages for a file immediately, and at shutdown: words are
    /// soon read again, vectors must be requested again.
    pub(super) fn file_passages_min(&self) -> [usize; 2] {
        match self {
            Self::Words => [KEPT_PASSAGES, FILE_PASSAGES_MIN],
            Self::Vectors(_) => [FILE_PASSAGES_MIN, 1],
        }
    }

    pub(super) fn label(&self, scope: &Scope) -> Vec<u8> {
        let (tenant, user) = (scope.tenant.as_str(), scope.user.as_str());
        match self {
            Self::Words => [WORDS, tenant, user].join("\n").into_bytes(),
            Self::Vectors(model) => [VECTORS, tenant, user, model].join("\n").into_bytes(),
        }
    }

    /// Parses the scope and content kind of a file's label; `None` if it is not an index part.
    pub(super) fn parse_label(label: &[u8]) -> Option<(Scope, Self)> {
        let mut lines = std::str::from_utf8(label).ok()?.splitn(4, '\n');
        let mut next = || lines.next();
        let kind = next()?;
        let scope =
            Scope { tenant: TenantId::new(next()?).ok()?, user: UserId::new(next()?).ok()? };
        match (kind, next()) {
            (WORDS, None) => Some((scope, Self::Words)),
            (VECTORS, Some(model)) => Some((scope, Self::Vectors(model.to_owned()))),
            _ => None,
        }
    }

    /// Returns the number of passages in the bytes of a file; `None` if they are damaged or of
    /// another version.
    pub(crate) fn count_passages(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Words => Some(Part::read(bytes).ok()?.len()),
            Self::Vectors(_) => Some(VectorPart::read(bytes).ok()?.len()),
        }
    }

    /// Returns the number of passages of a part, and the indexed positions.
    pub(super) fn passages_and_positions(&self, bytes: &[u8]) -> Option<(usize, Positions)> {
        match self {
            Self::Words => {
                let part = Part::from_trusted(bytes).ok()?;
                let holds = part.indexed_ranges().map(|(session, ranges)| (session.hash, ranges));
                Some((part.len(), holds.collect()))
            }
            Self::Vectors(_) => {
                let part = VectorPart::from_trusted(bytes).ok()?;
                let holds = part.processed_ranges().map(|(session, ranges)| (session.hash, ranges));
                Some((part.len(), holds.collect()))
            }
        }
    }

    /// Returns for each session the position from which no event refers to an earlier one, of a
    /// part of words: see [`Part::final_positions`].
    pub(super) fn final_from(&self, bytes: &[u8]) -> Vec<(SessionHash, Position)> {
        match self {
            Self::Words => {
                let part = Part::from_trusted(bytes);
                part.map_or_else(|_| Vec::new(), |part| part.final_positions().collect())
            }
            Self::Vectors(_) => Vec::new(),
        }
    }

    /// Merges parts into one, filtered by `keep`; `None` if they are incompatible.
    pub(super) fn merge_parts(&self, parts: &[&[u8]], keep: &Keep<'_>) -> Option<Vec<u8>> {
        match self {
            Self::Words => {
                let parts: Result<Vec<Part<'_>>, _> =
                    parts.iter().map(|bytes| Part::from_trusted(bytes)).collect();
                Some(merge(&parts.ok()?, keep))
            }
            Self::Vectors(_) => {
                let parts: Result<Vec<VectorPart<'_>>, _> =
                    parts.iter().map(|bytes| VectorPart::from_trusted(bytes)).collect();
                merge_meaning(&parts.ok()?, keep)
            }
        }
    }
}

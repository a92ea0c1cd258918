//! Content of the parts of an index: words, or vectors of one model. The rest of the follower
//! treats both alike. It must not make a part.

use crate::{
    event::{Position, Range, Scope, SessionHash, TenantId, UserId},
    search::{Keep, Meaning, Part, merge, merge_meaning},
};

/// Prefix of the label of a derived file that is a part of an index.
const WORDS: &str = "search/1";
const VECTORS: &str = "vectors/1";
/// Passages of a part that stays as it is.
pub(super) const PASSAGES_MAX: usize = 32_768;
/// Passages of a part of words that becomes a file at once: fewer than a tier of parts has that
/// were each made of one slice of events.
const KEPT_PASSAGES: usize = 16_384;
/// Passages of words from which a file is worth it at a stop.
const FILE_PASSAGES_MIN: usize = 512;

/// By session: the positions that were added.
type Positions = Vec<(SessionHash, Vec<Range>)>;

/// Content that a part has of its passages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Their words.
    Words,
    /// Their vectors, by the model of that name.
    Vectors(String),
}

impl Holding {
    /// Passages of a part that becomes a file at once, and of the smallest that does at a stop:
    /// words are soon read anew, vectors are asked for again.
    pub(super) fn kept_from(&self) -> [usize; 2] {
        match self {
            Self::Words => [KEPT_PASSAGES, FILE_PASSAGES_MIN],
            Self::Vectors(_) => [FILE_PASSAGES_MIN, 1],
        }
    }

    /// The label of the files of a scope.
    pub(super) fn label(&self, scope: &Scope) -> Vec<u8> {
        let (tenant, user) = (scope.tenant.as_str(), scope.user.as_str());
        match self {
            Self::Words => [WORDS, tenant, user].join("\n").into_bytes(),
            Self::Vectors(model) => [VECTORS, tenant, user, model].join("\n").into_bytes(),
        }
    }

    /// The scope of a file and what it has, when it is a part of an index.
    pub(super) fn labelled(label: &[u8]) -> Option<(Scope, Self)> {
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

    /// Number of passages in the bytes of a file; `None` when they are damaged or of another
    /// version.
    pub(crate) fn checked(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Words => Some(Part::read(bytes).ok()?.len()),
            Self::Vectors(_) => Some(Meaning::read(bytes).ok()?.len()),
        }
    }

    /// Number of passages of a part, and the positions that were added.
    pub(super) fn holds(&self, bytes: &[u8]) -> Option<(usize, Positions)> {
        match self {
            Self::Words => {
                let part = Part::trusted(bytes).ok()?;
                let holds = part.holds().map(|(session, ranges)| (session.hash, ranges));
                Some((part.len(), holds.collect()))
            }
            Self::Vectors(_) => {
                let part = Meaning::trusted(bytes).ok()?;
                let holds = part.holds().map(|(session, ranges)| (session.hash, ranges));
                Some((part.len(), holds.collect()))
            }
        }
    }

    /// From where on nothing in a session says something of an event before it, as far as a part
    /// of words knows: see [`Part::settled`].
    pub(super) fn settled(&self, bytes: &[u8]) -> Vec<(SessionHash, Position)> {
        match self {
            Self::Words => {
                Part::trusted(bytes).map_or_else(|_| Vec::new(), |part| part.settled().collect())
            }
            Self::Vectors(_) => Vec::new(),
        }
    }

    /// One part of several, with what `keep` keeps; `None` when they do not fit together.
    pub(super) fn merged(&self, parts: &[&[u8]], keep: &Keep<'_>) -> Option<Vec<u8>> {
        match self {
            Self::Words => {
                let parts: Result<Vec<Part<'_>>, _> =
                    parts.iter().map(|bytes| Part::trusted(bytes)).collect();
                Some(merge(&parts.ok()?, keep))
            }
            Self::Vectors(_) => {
                let parts: Result<Vec<Meaning<'_>>, _> =
                    parts.iter().map(|bytes| Meaning::trusted(bytes)).collect();
                merge_meaning(&parts.ok()?, keep)
            }
        }
    }
}

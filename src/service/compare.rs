//! Compares two sessions: their common beginning by lineage, else by what the events say, then the
//! rest as aligned parts with the rows that differ. It must not change anything.

use super::{Caller, Service, ServiceError, ServiceResult, rows::WantedRows};
use crate::{
    api::{
        compare::{CommonBeginning, CompareAnswer, CompareHunk, DifferencePlaces, HunkKind},
        rows::Row,
    },
    event::{Event, Point, Position, Range, SessionId, SessionKey},
    harness::{Compared, align, is_bookkeeping, meaning_digest},
    projection::row_kind,
    store::{FillDirection, ForkPoint, ReadRequest, SessionInfo, Slice},
};

/// Maximum number of events of a side that are aligned, and of a common beginning that is compared.
const ALIGNED_MAX: usize = 5_000;
const BEGINNING_MAX: u64 = 1_000_000;
/// Maximum number of rows of a part of a side, and of all its parts.
const HUNK_ROWS_MAX: usize = 100;
const ROWS_MAX: usize = 1_000;
/// Maximum number of ancestors that are compared.
const ANCESTORS_MAX: usize = 1_000;
/// Maximum number of events and body bytes of a session in memory at once.
const SLICE_EVENTS: usize = 1_000;
const SLICE_BYTES: usize = 4 << 20;

/// A session up to a point.
struct Side {
    key: SessionKey,
    to: Position,
    info: SessionInfo,
}

impl Service {
    /// Compares a session with another one, each as of a point.
    ///
    /// # Errors
    /// `point_not_found`, `session_damaged`, and those of both sessions.
    pub async fn compare(
        &self,
        caller: &Caller,
        (session, at): (&SessionId, Option<&Point>),
        (other, other_at): (&SessionId, Option<&Point>),
    ) -> ServiceResult<CompareAnswer> {
        let a = self.load_side(caller, session, at).await?;
        let b = self.load_side(caller, other, other_at).await?;
        let shared = self.shared_until(&a, &b).await?;
        let (until, by) = match shared {
            Position::ZERO => (self.equal_until(&a, &b).await?, "content"),
            shared => (shared, "lineage"),
        };
        let mut complete = until.0 < BEGINNING_MAX || shared > Position::ZERO;
        let (of_a, end_a) = self.list_compared(&a, until).await?;
        let (of_b, end_b) = self.list_compared(&b, until).await?;
        complete &= end_a == a.to && end_b == b.to;
        let (in_a, in_b) = (Range::new(until, end_a), Range::new(until, end_b));
        let aligned = move || align((&of_a, in_a), (&of_b, in_b));
        let rest = self.compute(&a.key.scope.tenant, aligned).await?;
        let mut hunks = join_beginning(until, rest);
        let first = hunks.iter().find(|hunk| hunk.kind != HunkKind::Same);
        let first_difference =
            first.map(|hunk| DifferencePlaces { a: hunk.a.from, b: hunk.b.from });
        let of = |range: fn(&CompareHunk) -> Range, hunks: &[CompareHunk]| -> Vec<Range> {
            let differs = hunks.iter().filter(|hunk| hunk.kind != HunkKind::Same);
            differs.map(range).filter(|range| !range.is_empty()).collect()
        };
        let rows_a = self.rows_within(&a, of(|hunk| hunk.a, &hunks)).await?;
        let rows_b = self.rows_within(&b, of(|hunk| hunk.b, &hunks)).await?;
        for hunk in hunks.iter_mut().filter(|hunk| hunk.kind != HunkKind::Same) {
            hunk.rows_a = rows_of(&rows_a, hunk.a).to_vec();
            hunk.rows_b = rows_of(&rows_b, hunk.b).to_vec();
        }
        Ok(CompareAnswer {
            session: session.to_string(),
            other: other.to_string(),
            common: CommonBeginning { until, by: by.to_owned() },
            first_difference,
            hunks,
            complete,
        })
    }

    async fn load_side(
        &self,
        caller: &Caller,
        session: &SessionId,
        at: Option<&Point>,
    ) -> ServiceResult<Side> {
        let key = caller.key(session);
        let info = self.store.use_session(&key).await?;
        let to = match at {
            Some(point) => {
                let at = self.resolve_end(&key, point, info.tail).await?;
                if at > info.tail {
                    return Err(ServiceError::point_not_found(point, info.tail));
                }
                at
            }
            None => info.tail,
        };
        Ok(Side { key, to, info })
    }

    /// Returns the position before which both sessions read the same stored events.
    async fn shared_until(&self, a: &Side, b: &Side) -> ServiceResult<Position> {
        let (of_a, of_b) = (self.line(a).await?, self.line(b).await?);
        let shared = of_a.iter().find_map(|one| {
            let same = of_b.iter().find(|other| other.session == one.session)?;
            Some(one.at.min(same.at))
        });
        Ok(shared.unwrap_or(Position::ZERO))
    }

    /// Returns a session and its ancestors, nearest first, each with the position before which the
    /// session reads its events.
    async fn line(&self, side: &Side) -> ServiceResult<Vec<ForkPoint>> {
        let family = self.store.family(&side.key, ANCESTORS_MAX).await?;
        let mut line = vec![ForkPoint { session: side.key.session.clone(), at: side.to }];
        let mut at = side.info.forked_from.as_ref().map_or(side.to, |from| from.at.min(side.to));
        for ancestor in family.ancestors {
            at = at.min(ancestor.at);
            line.push(ForkPoint { session: ancestor.session, at });
        }
        Ok(line)
    }

    /// Returns the position before which the events of both sessions say the same.
    async fn equal_until(&self, a: &Side, b: &Side) -> ServiceResult<Position> {
        let end = a.to.min(b.to).min(Position(BEGINNING_MAX));
        let (mut at, mut slot) = (Position::ZERO, None);
        while at < end {
            let one = self.read_compared(&a.key, Range::new(at, end)).await?;
            let covered = Range::new(at, one.covered.to.min(end));
            let other = self.read_compared(&b.key, covered).await?;
            let to = one.covered.to.min(other.covered.to).min(end);
            if to <= at {
                break;
            }
            let first_different = move || {
                let upto = |slice: Slice| -> Vec<Compared> {
                    let events = slice.events.iter().filter(|event| event.position < to);
                    events.map(|event| (event.position, meaning_digest(event))).collect()
                };
                let (one, other) = (upto(one), upto(other));
                one.iter().zip(&other).find(|(a, b)| a != b).map(|(a, _)| a.0)
            };
            let own = self.compute.yield_or_acquire(&a.key.scope.tenant, slot).await?;
            let (own, different) = own.run(first_different).await?;
            if let Some(different) = different {
                return Ok(different);
            }
            (at, slot) = (to, Some(own));
        }
        Ok(at)
    }

    /// Returns the events from a position with their digests, without bookkeeping, and where the
    /// list ends.
    async fn list_compared(
        &self,
        side: &Side,
        from: Position,
    ) -> ServiceResult<(Vec<Compared>, Position)> {
        let (mut listed, mut at, mut slot) = (Vec::new(), from, None);
        while at < side.to {
            let slice = self.read_compared(&side.key, Range::new(at, side.to)).await?;
            if slice.covered.is_empty() {
                break;
            }
            at = slice.covered.to;
            let digests = move || {
                let counts = |event: &&Event| !is_bookkeeping(event, row_kind(event));
                let events = slice.events.iter().filter(counts);
                events.map(|event| (event.position, meaning_digest(event))).collect::<Vec<_>>()
            };
            let own = self.compute.yield_or_acquire(&side.key.scope.tenant, slot).await?;
            let (own, digests) = own.run(digests).await?;
            listed.extend(digests);
            slot = Some(own);
            if let Some((end, _)) = listed.get(ALIGNED_MAX) {
                at = *end;
                listed.truncate(ALIGNED_MAX);
                break;
            }
        }
        Ok((listed, at))
    }

    async fn read_compared(&self, key: &SessionKey, range: Range) -> ServiceResult<Slice> {
        let read = ReadRequest {
            range,
            events_max: SLICE_EVENTS,
            bytes_max: SLICE_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        Ok(self.store.read(key, read).await?)
    }

    async fn rows_within(&self, side: &Side, ranges: Vec<Range>) -> ServiceResult<Vec<Row>> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Ok(Vec::new());
        };
        let (mut left, mut rows) = (Range::new(first.from, last.to), Vec::new());
        while !left.is_empty() && rows.len() < ROWS_MAX {
            let wanted = |range: &Range| {
                let known = rows_of(&rows, *range).len();
                (*range, HUNK_ROWS_MAX.saturating_sub(known))
            };
            let selection = WantedRows::within(ranges.iter().map(wanted).collect());
            let most = ROWS_MAX - rows.len();
            let scanned = self.scan_rows(&side.key, left, selection, most).await?;
            rows.extend(scanned.rows);
            if scanned.next <= left.from {
                break;
            }
            left.from = scanned.next;
        }
        Ok(rows)
    }
}

/// Puts the common beginning before the other parts.
fn join_beginning(until: Position, mut rest: Vec<CompareHunk>) -> Vec<CompareHunk> {
    let common = Range::new(Position::ZERO, until);
    match rest.first_mut() {
        _ if common.is_empty() => {}
        Some(first) if first.kind == HunkKind::Same => {
            (first.a.from, first.b.from) = (Position::ZERO, Position::ZERO);
        }
        _ => {
            let (rows_a, rows_b) = (Vec::new(), Vec::new());
            let kind = HunkKind::Same;
            rest.insert(0, CompareHunk { kind, a: common, b: common, rows_a, rows_b });
        }
    }
    rest
}

/// Returns the rows in a range, of rows by ascending position.
fn rows_of(rows: &[Row], range: Range) -> &[Row] {
    let [from, to] =
        [range.from, range.to].map(|end| rows.partition_point(|row| row.position < end));
    rows.get(from..to).unwrap_or_default()
}

//! Choice of the segments of a session that are sealed together. It must not read a file.

use crate::log::{LostRange, SegmentEntry};

/// Number of segments, left by restarts, that are sealed into one regardless of their size.
const SMALL_SEGMENTS_MAX: usize = 8;
/// Bytes of a file system block: the minimum space of a file.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of open segments at which an idle session is sealed; fewer wait for more, or for the next
/// start.
const WORTH_BYTES: u64 = 32 << 10;

/// Rule for the segments worth sealing now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealingPolicy {
    /// This start. A segment sealed in it is not sealed again: the new one would get its name.
    pub(crate) start: u64,
    /// Bytes at which a segment is full.
    pub(crate) bytes_max: u64,
    /// True if the session is idle: its last segment counts like the others, fewer bytes suffice,
    /// and segments sealed earlier are included.
    pub(crate) idle: bool,
}

impl SealingPolicy {
    /// Returns adjacent segments worth sealing together: open ones up to the size of a segment and,
    /// of an idle session, preceding ones sealed in earlier starts that are not much larger, so
    /// that a session has few segments and each byte is sealed a few times at most. Excludes
    /// degraded sessions, and segments with an accepted loss, which cannot be verified.
    pub(crate) fn choose_run(
        &self,
        segments: &[SegmentEntry],
        damage: &[LostRange],
    ) -> Option<Vec<SegmentEntry>> {
        if damage.iter().any(|gap| gap.accepted_at.is_none()) {
            return None;
        }
        let whole = |one: &SegmentEntry| {
            !damage.iter().any(|gap| gap.from <= one.end && one.base <= gap.to)
        };
        let first_time = segments.iter().all(|one| !one.sealed || one.start != self.start);
        let (mut before, mut rest) = segments.split_at_checked(0)?;
        while let Some(next) =
            rest.iter().position(|one| self.may_seal(one, segments) && whole(one))
        {
            before = segments.get(..before.len() + next)?;
            rest = rest.get(next..)?;
            let mut open = 0;
            let fits = |one: &&SegmentEntry| {
                let fits = open < self.bytes_max && self.may_seal(one, segments) && whole(one);
                open += if fits { one.bytes } else { 0 };
                fits
            };
            let count = rest.iter().take_while(fits).count();
            let mut bytes = open;
            let joins = |one: &&SegmentEntry| {
                let small = one.bytes <= 2 * bytes && bytes + one.bytes <= self.bytes_max;
                bytes += one.bytes;
                self.idle && one.sealed && one.start != self.start && small && whole(one)
            };
            let joined = before.iter().rev().take_while(joins).count();
            let from = before.len() - joined;
            let run = segments.get(from..before.len() + count)?;
            if self.is_worth(run, open, count, first_time) {
                return Some(run.to_vec());
            }
            before = segments.get(..before.len() + count)?;
            rest = rest.get(count..)?;
        }
        None
    }

    /// Returns true if an open segment may be sealed: it gets no more writes, and no other segment
    /// will get its name.
    fn may_seal(&self, one: &SegmentEntry, segments: &[SegmentEntry]) -> bool {
        let full = one.bytes >= self.bytes_max && !one.is_empty();
        let active = !self.idle && segments.last() == Some(one) && !full;
        let named_again = one.start == self.start && one.is_empty();
        !(one.sealed || active || named_again)
    }

    fn is_worth(&self, run: &[SegmentEntry], open: u64, count: usize, first_time: bool) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
        let blocks: u64 = run.iter().map(|one| one.bytes.div_ceil(BLOCK_BYTES)).sum();
        let full = open >= self.bytes_max || count >= SMALL_SEGMENTS_MAX;
        let saves = open >= WORTH_BYTES || first_time && blocks > 1;
        // Without an event the next segment would get the same name.
        first.base < last.end && (full || self.idle && saves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses segments: `o` or `s` for open or sealed, start, KiB, and `=` for one without events.
    fn parse_segments(text: &str) -> Vec<SegmentEntry> {
        let mut base = 0;
        let mut one = |text: &str| {
            let (kind, numbers) = text.split_at(1);
            let empty = numbers.ends_with('=');
            let (start, kib) = numbers.trim_end_matches('=').split_once(':').unwrap();
            let (bytes, start) = (kib.parse::<u64>().unwrap() << 10, start.parse().unwrap());
            let end = base + u64::from(!empty);
            let sealed = kind == "s";
            SegmentEntry { base: std::mem::replace(&mut base, end), start, sealed, bytes, end }
        };
        text.split_whitespace().map(&mut one).collect()
    }

    fn damage_at(places: &[(u64, bool)]) -> Vec<LostRange> {
        let one = |(at, accepted): &(u64, bool)| LostRange {
            from: *at,
            to: at + 1,
            reason: "torn".to_owned(),
            accepted_at: accepted.then_some(1),
        };
        places.iter().map(one).collect()
    }

    #[track_caller]
    fn assert_run(idle: bool, start: u64, text: &str, lost: &[(u64, bool)], expected: &str) {
        let policy = SealingPolicy { start, bytes_max: 8 << 20, idle };
        let found = policy.choose_run(&parse_segments(text), &damage_at(lost)).unwrap_or_default();
        let shape = |one: &SegmentEntry| (one.start, one.sealed, one.bytes, one.is_empty());
        let found: Vec<_> = found.iter().map(shape).collect();
        let wanted: Vec<_> = parse_segments(expected).iter().map(shape).collect();
        assert_eq!(found, wanted, "idle {idle}, start {start}: {text}");
    }

    #[test]
    fn the_policy_chooses_adjacent_segments_worth_sealing() {
        // In start 7: the segments sealed after a flush, and those sealed in an idle session.
        for (text, settled, idle) in [
            ("", "", ""),
            ("o7:4", "", ""),
            ("o7:5", "", "o7:5"),
            ("o6:1 o7:1", "", "o6:1 o7:1"),
            // Sealed in this start: not sealed again for few bytes.
            ("s7:8 o7:8", "", ""),
            ("s7:8 o7:32", "", "o7:32"),
            ("s6:9 o7:5", "", "s6:9 o7:5"),
            // Much larger than the added segment.
            ("s6:90 o7:9", "", "o7:9"),
            ("s4:20 s5:9 s6:4 o7:5", "", "s4:20 s5:9 s6:4 o7:5"),
            ("s4:900 s5:9 s6:4 o7:5", "", "s5:9 s6:4 o7:5"),
            ("s4:900 s5:9 s6:4", "", ""),
            // A run stays within a segment's size plus the last open segment.
            ("s4:5000 s5:3000 o7:2000", "", "s5:3000 o7:2000"),
            ("s6:8000 o7:900", "", "o7:900"),
            ("o7:9000", "o7:9000", "o7:9000"),
            ("o6:8000 o7:900", "", "o6:8000 o7:900"),
            ("o5:8000 o6:900 o7:9", "o5:8000 o6:900", "o5:8000 o6:900"),
            ("o5:9000 o6:900 o7:9", "o5:9000", "o5:9000"),
            // A run that is not worth sealing does not block a later one.
            ("o5:2 s7:9 o7:40", "", "o7:40"),
            ("o5:2 s7:9 o7:9000", "o7:9000", "o7:9000"),
            // Many segments are worth sealing regardless of size; the last one takes more writes.
            (
                "o1:1 o2:1 o3:1 o4:1 o5:1 o6:1 o6:1 o7:1",
                "",
                "o1:1 o2:1 o3:1 o4:1 o5:1 o6:1 o6:1 o7:1",
            ),
            (
                "s7:1 o1:1 o2:1 o3:1 o4:1 o5:1 o6:1 o6:1 o6:1 o7:1",
                "o1:1 o2:1 o3:1 o4:1 o5:1 o6:1 o6:1 o6:1",
                "o1:1 o2:1 o3:1 o4:1 o5:1 o6:1 o6:1 o6:1 o7:1",
            ),
            // Without an event its name is used again, regardless of its size.
            ("o6:9 o7:1=", "", "o6:9"),
            ("o7:9000=", "", ""),
            ("o6:9000=", "", ""),
            ("o6:9= o7:9", "", "o6:9= o7:9"),
        ] {
            assert_run(false, 7, text, &[], settled);
            assert_run(true, 7, text, &[], idle);
        }
        assert_run(true, 8, "o6:9 o7:1=", &[], "o6:9 o7:1=");
    }

    #[test]
    fn the_policy_excludes_segments_with_lost_events() {
        for idle in [false, true] {
            let text = "o5:9000 o6:9000 o6:9000 o6:9000 o7:9000";
            assert_run(idle, 7, text, &[], "o5:9000");
            assert_run(idle, 7, text, &[(3, false)], "");
            assert_run(idle, 7, text, &[(0, true)], "o6:9000");
            assert_run(idle, 7, text, &[(0, true), (3, true)], "");
        }
        assert_run(true, 7, "s6:9 o7:5", &[(0, true)], "");
        assert_run(true, 7, "s5:9 s6:9 o7:9 o7:5", &[(0, true)], "o7:9 o7:5");
    }
}

//! Deterministic random choices for generated sessions: a seed gives the same sequence on every
//! machine. It must not be used where a value has to be unpredictable.

/// Increment of the generator (SplitMix64).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded generator.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    state: u64,
}

impl Dice {
    /// Creates a generator for one part of a session; parts of a seed have different sequences.
    pub(super) fn new(seed: u64, part: &str) -> Self {
        let mut dice = Self { state: seed };
        for byte in part.bytes() {
            dice.state = dice.next() ^ u64::from(byte);
        }
        dice
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, not including, `bound`; 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Returns a number from `from` up to, not including, `to`.
    pub(super) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to.saturating_sub(from))
    }

    /// Returns one element of a table that is not empty.
    pub(super) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.below(all.len());
        all.get(at).expect("a table of the generator is not empty")
    }

    /// Returns true with a probability of `share` percent.
    pub(super) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// Shuffles the elements.
    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            let other = self.below(at + 1);
            all.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_its_parts_have_different_ones() {
        let draw = |seed, part: &str| {
            let mut dice = Dice::new(seed, part);
            (0..8).map(|_| dice.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, "research"), draw(7, "research"));
        assert_ne!(draw(7, "research"), draw(7, "coding"));
        assert_ne!(draw(7, "research"), draw(8, "research"));
    }
}

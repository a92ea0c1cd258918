//! BM25, the weight of a word in a text: one place for both rankings. It must not know what a text
//! is.

/// Saturation of repeated words, and penalty for long passages.
pub(super) const K1: f64 = 0.9;
pub(super) const B: f64 = 0.4;
/// Bonus of a passage that has every word of the query, the best of all passages being 1.
pub(super) const WHOLE: f64 = 0.5;
/// From this many passages on, a word that more than half of them contain has no weight.
const COMMON_FROM: u64 = 8;

/// Weight of a word that `holding` of `all` texts have: more for a rarer one.
pub(super) fn worth(all: u64, holding: u64) -> f64 {
    if holding == 0 {
        return 0.0;
    }
    let (all, holding) = (all as f64, holding as f64);
    ((all - holding + 0.5).max(0.0) / (holding + 0.5)).ln_1p()
}

/// True if a word is too common to tell passages apart.
pub(super) fn is_common(all: u64, holding: u64) -> bool {
    all >= COMMON_FROM && holding > all / 2
}

/// Share of a word's weight for a text that has it `often` times, its length being `longer` times
/// the mean.
pub(super) fn share(often: f64, longer: f64, k1: f64, b: f64) -> f64 {
    often * (k1 + 1.0) / (often + k1 * (1.0 - b + b * longer))
}

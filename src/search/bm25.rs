//! BM25, the weight of a word in a text, which the rankings of a session and of an index share. It
//! must not depend on the kind of text.

/// Saturation of repeated words (`k1`), and length normalisation (`b`).
pub(super) const K1: f64 = 0.9;
pub(super) const B: f64 = 0.4;
/// Bonus of a passage that has every word of the query, relative to the best score of 1.
pub(super) const WHOLE: f64 = 0.5;
/// Minimum passages for a word in more than half of them to have no weight.
const COMMON_FROM: u64 = 8;

/// Returns the inverse document frequency of a word that is in `holding` of `all` texts: higher
/// for a rarer word.
pub(super) fn idf(all: u64, holding: u64) -> f64 {
    if holding == 0 {
        return 0.0;
    }
    let (all, holding) = (all as f64, holding as f64);
    ((all - holding + 0.5).max(0.0) / (holding + 0.5)).ln_1p()
}

/// Returns true if a word is too common to distinguish passages.
pub(super) fn is_common(all: u64, holding: u64) -> bool {
    all >= COMMON_FROM && holding > all / 2
}

/// Returns the factor of a word's weight for a text that has the word `often` times and is `longer`
/// times as long as the mean.
pub(super) fn tf_share(often: f64, longer: f64, k1: f64, b: f64) -> f64 {
    often * (k1 + 1.0) / (often + k1 * (1.0 - b + b * longer))
}

//! The only randomness. It must not be asked for anywhere else.

use super::Entropy;

/// The kernel's generator.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("a kernel without randomness cannot run a store of secrets");
    }
}

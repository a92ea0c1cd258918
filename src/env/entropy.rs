//! The only source of randomness. It must not depend on another module; no other file draws any.

use std::cell::RefCell;

use super::Entropy;

/// Bytes read from the kernel at once: every event needs random bytes, and each read is a system
/// call.
const POOL_BYTES: usize = 4096;
/// Maximum bytes of a request served from the pool; larger ones go to the kernel.
const POOLED_BYTES_MAX: usize = 64;

/// The kernel's generator, through a pool per thread. Bytes are returned once and wiped from the
/// pool. This program starts others by `exec` only, so no child has a parent's pool.
pub struct SystemEntropy;

/// Buffer of random bytes; those from `at` on are not yet returned.
struct RandomPool {
    bytes: [u8; POOL_BYTES],
    at: usize,
}

thread_local! {
    static POOL: RefCell<RandomPool> =
        const { RefCell::new(RandomPool { bytes: [0; _], at: POOL_BYTES }) };
}

fn fill_from_kernel(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("a kernel without randomness cannot run a store of secrets");
}

impl RandomPool {
    fn fill(&mut self, bytes: &mut [u8]) {
        if self.at + bytes.len() > POOL_BYTES {
            fill_from_kernel(&mut self.bytes);
            self.at = 0;
        }
        let end = self.at + bytes.len();
        if let Some(fresh) = self.bytes.get_mut(self.at..end) {
            bytes.copy_from_slice(fresh);
            fresh.fill(0);
        }
        self.at = end;
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        match bytes.len() {
            ..=POOLED_BYTES_MAX => POOL.with_borrow_mut(|pool| pool.fill(bytes)),
            _ => fill_from_kernel(bytes),
        }
    }

    fn fill_secret(&self, bytes: &mut [u8]) {
        fill_from_kernel(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_bytes_from_the_pool_are_never_returned_twice() {
        let mut seen = HashSet::new();
        for _ in 0..4 * POOL_BYTES / 16 {
            let mut bytes = [0; 16];
            SystemEntropy.fill(&mut bytes);
            assert!(seen.insert(bytes), "{bytes:?} came twice");
        }
    }

    #[test]
    fn bytes_drawn_from_the_pool_are_wiped_from_it() {
        let mut pool = RandomPool { bytes: [0; POOL_BYTES], at: POOL_BYTES };
        let mut bytes = [0; 48];
        pool.fill(&mut bytes);
        assert_ne!(bytes, [0; 48]);
        assert_eq!(&pool.bytes[..48], &[0; 48]);
        assert_ne!(&pool.bytes[48..96], &[0; 48]);
    }

    #[test]
    fn fill_secret_does_not_use_the_pool() {
        let at = || POOL.with_borrow(|pool| pool.at);
        SystemEntropy.fill(&mut [0; 8]);
        let (before, mut secret) = (at(), [0; 32]);
        SystemEntropy.fill_secret(&mut secret);
        assert_eq!(at(), before);
        assert!(secret.chunks(8).all(|part| part != [0; 8]), "{secret:?}");
    }

    #[test]
    fn a_request_larger_than_the_rest_of_the_pool_gets_only_fresh_bytes() {
        let mut pool = RandomPool { bytes: [0; POOL_BYTES], at: POOL_BYTES - 8 };
        let mut bytes = [0; 64];
        pool.fill(&mut bytes);
        assert!(bytes.chunks(16).all(|part| part != [0; 16]), "{bytes:?}");
        assert_eq!(pool.at, 64);
    }
}

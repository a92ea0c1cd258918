//! The simulated disk. To be filled.

//! Searches for bytes in files. It must not interpret a file.

use memchr::memmem;

/// Returns true if `bytes` contain `part`.
pub fn holds(bytes: &[u8], part: impl AsRef<[u8]>) -> bool {
    memmem::find(bytes, part.as_ref()).is_some()
}

//! Looks for bytes in files. It must not know what a file is.

use memchr::memmem;

/// True if `bytes` contain `part`.
pub fn holds(bytes: &[u8], part: impl AsRef<[u8]>) -> bool {
    memmem::find(bytes, part.as_ref()).is_some()
}

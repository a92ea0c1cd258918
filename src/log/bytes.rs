//! Fixed-width little-endian fields, read without ever panicking, and the 16 bytes that every file
//! header starts with. It must not know the layout of any file body.

use super::error::Fault;

/// Reader of fields from the front of a byte string.
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    /// Returns the next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// Returns the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}

/// Returns a salted CRC-32 of the parts in order. The salt, random for every use of a file, makes
/// frames of other files, of earlier uses, or forged in a body fail.
pub(super) fn checksum(salt: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Returns a file header: magic 8, version u32, checksum u32 of the body without a salt, body.
pub(super) fn file_header(magic: [u8; 8], version: u32, body: &[u8]) -> Vec<u8> {
    let mut header = magic.to_vec();
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&checksum(0, &[body]).to_le_bytes());
    header.extend_from_slice(body);
    header
}

/// Checks a file header and returns its body. Checks the version first: a later one may differ.
pub(super) fn open_file_header<'a>(
    magic: [u8; 8],
    version: u32,
    header: &'a [u8],
) -> Result<FieldReader<'a>, Fault> {
    let mut fields = FieldReader(header);
    if fields.array().ok_or(Fault::Short)? != magic {
        return Err(Fault::Magic);
    }
    let found = fields.u32().ok_or(Fault::Short)?;
    if found != version {
        return Err(Fault::Unknown { what: "version", value: found });
    }
    let stored = fields.u32().ok_or(Fault::Short)?;
    if stored != checksum(0, &[fields.0]) {
        return Err(Fault::HeaderChecksum);
    }
    Ok(fields)
}

//! Encoding of values as bytes: `bincode` with one configuration, bounded before memory is
//! allocated. The only file that calls it. It must not define a type that is encoded; each layout
//! is frozen where its type is.

use bincode::{BorrowDecode, Decode, Encode, config};

/// Maximum bytes of a frame's payload: a batch at its limit and the fixed fields of its events. No
/// encoded value is larger.
pub const PAYLOAD_BYTES_MAX: usize = 24 << 20;

/// Configuration: variable-length little-endian integers, and a limit checked before allocation.
const CONFIG: config::Configuration<
    config::LittleEndian,
    config::Varint,
    config::Limit<PAYLOAD_BYTES_MAX>,
> = config::standard().with_limit::<PAYLOAD_BYTES_MAX>();

/// Appends the encoding of a value of a frozen type.
pub(super) fn encode_value<T: Encode>(value: &T, out: &mut Vec<u8>) {
    let written = bincode::encode_into_std_write(value, out, CONFIG);
    written.expect("a vector takes every byte, and the limit applies to reading");
}

/// Decodes a value of a frozen type; fails if bytes are left over.
pub(super) fn decode_value<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let (value, used) = bincode::decode_from_slice(bytes, CONFIG).ok()?;
    (used == bytes.len()).then_some(value)
}

/// Decodes the text at the front of `bytes`, as [`decode_front`] does, but faster: every comparison
/// of a search by name calls it.
pub(super) fn decode_text(bytes: &[u8]) -> Option<&str> {
    match bytes.split_first()? {
        // A length below 251 takes one byte.
        (length @ 0..=250, rest) => std::str::from_utf8(rest.get(..usize::from(*length))?).ok(),
        _ => decode_front(bytes).map(|(text, _)| text),
    }
}

/// Decodes a value of a frozen type, or its first fields, at the front of `bytes`; also returns the
/// number of bytes read.
pub(super) fn decode_front<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Option<(T, usize)> {
    bincode::borrow_decode_from_slice(bytes, CONFIG).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_text_returns_the_first_text_or_none_if_it_is_truncated() {
        for bytes in [0, 1, 128, 250, 251, 300, 70_000] {
            let text = "é".repeat(bytes / 2) + &"x".repeat(bytes % 2);
            let mut encoded = Vec::new();
            encode_value(&(text.as_str(), 7_u8), &mut encoded);
            assert_eq!(decode_text(&encoded), Some(text.as_str()), "{bytes}");
            let short = encoded.get(..encoded.len() - 2).expect("two bytes or more");
            assert_eq!(decode_text(short), None, "{bytes}");
        }
        assert_eq!(decode_text(&[2, 0xff, 0xff]), None, "no text");
    }
}

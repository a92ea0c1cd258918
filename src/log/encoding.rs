//! How values become bytes: `bincode` with one configuration, bounded before memory is allocated.
//! The only file that calls it. It must not know a type: the shape of a frozen one is its own.

use bincode::{BorrowDecode, Decode, Encode, config};

/// Bytes of a frame's payload at most: a batch at its limit and the fixed fields of its events. No
/// value is larger.
pub const PAYLOAD_BYTES_MAX: usize = 24 << 20;

/// Variable-length little-endian integers, and a limit before anything is allocated.
const CONFIG: config::Configuration<
    config::LittleEndian,
    config::Varint,
    config::Limit<PAYLOAD_BYTES_MAX>,
> = config::standard().with_limit::<PAYLOAD_BYTES_MAX>();

/// Appends the encoding of one of the frozen types.
pub(super) fn encode_value<T: Encode>(value: &T, out: &mut Vec<u8>) {
    let written = bincode::encode_into_std_write(value, out, CONFIG);
    written.expect("a vector takes every byte, and the limit applies to reading");
}

/// Decodes one of the frozen types; the bytes must hold it and nothing else.
pub(super) fn decode_value<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let (value, used) = bincode::decode_from_slice(bytes, CONFIG).ok()?;
    (used == bytes.len()).then_some(value)
}

/// Decodes a value of one of the frozen types, or its first fields, at the front of
/// `bytes`; answers also how many bytes it took.
pub(super) fn decode_front<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Option<(T, usize)> {
    bincode::borrow_decode_from_slice(bytes, CONFIG).ok()
}

//! The URL-safe alphabet of base64 without padding, as JWTs and their keys are written. It must
//! not take a text that is another spelling of the same bytes.

/// The bytes a text stands for; `None` when it is not the one spelling of any.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    // What is left over must be too short for a byte, and zero.
    (bits < 6 && held == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_the_one_spelling_of_its_bytes_or_nothing() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", &[0xfb, 0xff])]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for bad in ["Z", "Zh", "Zm9", "Zg==", "+/8", "Zg\n", "Zm9vY"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}

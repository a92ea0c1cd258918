//! Parsing of keys from files.

use sessionlog::env::{MasterKeys, secrets::Secret};

#[test]
fn a_key_parses_only_as_hex_or_base64() {
    let bytes: [u8; 32] = std::array::from_fn(|n| n as u8 * 7 + 3);
    let hex = "030a11181f262d343b424950575e656c737a81888f969da4abb2b9c0c7ced5dc";
    let base64 = "AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dw=";
    for text in [hex, &hex.to_uppercase(), base64, &format!(" {base64}\n")] {
        assert_eq!(Secret::parse(text), Some(Secret::new(bytes)), "{text}");
    }
    let zeros = "0".repeat(64);
    for text in ["", "secret", &hex[1..], &hex.replace('a', "g"), &base64[1..], &zeros] {
        assert_eq!(Secret::parse(text), None, "{text}");
    }
}

#[test]
fn debug_output_of_a_key_is_redacted() {
    let keys = MasterKeys { current: Secret::new([0xab; 32]), previous: None };
    assert_eq!(format!("{keys:?}"), "MasterKeys { current: Secret, previous: None }");
}

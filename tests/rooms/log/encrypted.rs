//! Encrypted records: intact, moved, damaged.

use bytes::Bytes;

use sessionlog::{
    event::{Lsn, Position, SessionHash},
    log::{ChainValue, Cipher, Encryptor, Fault, Frame, FrameHeader, FrameKind, KeyNumber},
};

fn cipher(key: u8, store: u8, number: u64) -> Cipher {
    Cipher::new(&[key; 32], [store; 16], KeyNumber(number))
}

fn frame() -> Frame {
    let payload = Bytes::from_static(b"what an agent said");
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: payload.len() as u32,
        compressed: false,
        count: 2,
        events: 1,
        first_lsn: Lsn(9),
        synced_lsn: Lsn(3),
        first_position: Position(7),
        session: SessionHash([1; 32]),
        chain: ChainValue([2; 32]),
        control_chain: ChainValue([3; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    Frame { header, payload }
}

fn encrypted() -> Frame {
    frame().encrypt(Encryptor { cipher: &cipher(5, 6, 4), nonce: &|| [8; 24] })
}

#[test]
fn an_encrypted_frame_is_rejected_with_a_wrong_key_or_offset() {
    let stored = encrypted();
    assert_eq!(stored.header.length as usize, stored.payload.len());
    assert!(!stored.payload.windows(5).any(|part| part == b"agent"));
    let read = stored.decrypt(Some(&cipher(5, 6, 4))).expect("it is its own");
    assert_eq!((read.header, read.payload), (frame().header, frame().payload));
}

#[test]
fn changing_any_field_of_the_location_makes_decryption_fail() {
    type Change = (&'static str, fn(&mut FrameHeader));
    let changes: [Change; 9] = [
        ("kind", |header| header.kind = FrameKind::Block),
        ("codec", |header| header.kind = FrameKind::Columns),
        ("compression", |header| header.compressed = true),
        ("count", |header| header.count += 1),
        ("events", |header| header.events += 1),
        ("first position", |header| header.first_position = Position(8)),
        ("session", |header| header.session = SessionHash([9; 32])),
        ("event chain", |header| header.chain = ChainValue([9; 32])),
        ("control chain", |header| header.control_chain = ChainValue([9; 32])),
    ];
    for (field, change) in changes {
        let mut moved = encrypted();
        change(&mut moved.header);
        let read = moved.decrypt(Some(&cipher(5, 6, 4))).map(drop);
        assert_eq!(read, Err(Fault::Authentication), "{field}");
    }
    for (told, other) in [("key", cipher(1, 6, 4)), ("store", cipher(5, 1, 4))] {
        let read = encrypted().decrypt(Some(&other)).map(drop);
        assert_eq!(read, Err(Fault::Authentication), "{told}");
    }
    let renumbered = |frame: &mut Frame| {
        if let Some(encrypted) = &mut frame.header.encrypted {
            encrypted.key = KeyNumber(1);
        }
    };
    assert_eq!(encrypted().decrypt(Some(&cipher(5, 6, 1))).map(drop), Err(Fault::Misplaced));
    let mut moved = encrypted();
    renumbered(&mut moved);
    let read = moved.decrypt(Some(&cipher(5, 6, 1))).map(drop);
    assert_eq!(read, Err(Fault::Authentication), "key number");
    for byte in 0..encrypted().payload.len() {
        let mut changed = encrypted();
        let mut payload = changed.payload.to_vec();
        payload[byte] ^= 1;
        changed.payload = payload.into();
        let read = changed.decrypt(Some(&cipher(5, 6, 4))).map(drop);
        assert_eq!(read, Err(Fault::Authentication), "byte {byte}");
    }
}

#[test]
fn plaintext_with_a_key_and_ciphertext_without_one_are_rejected() {
    assert_eq!(frame().decrypt(Some(&cipher(5, 6, 4))).map(drop), Err(Fault::Plaintext));
    assert_eq!(encrypted().decrypt(None).map(drop), Err(Fault::Encrypted));
    assert!(frame().decrypt(None).is_ok());
    assert_eq!(encrypted().records().map(drop), Err(Fault::Encrypted));
}

#[test]
fn debug_output_of_a_cipher_is_redacted() {
    assert_eq!(format!("{:?}", cipher(5, 6, 4)), "Cipher { number: KeyNumber(4), .. }");
}

//! Golden bytes of a sealed segment, put together from docs/format.md and not by the codecs. They
//! must not be adapted to make a test pass: other bytes are another version of the format.

use bytes::Bytes;
use sessionlog::{
    event::{EventId, Lsn, NewEvent, Position, SessionHash, Timestamp},
    log::{
        ChainValue, Frame, Record, RecordHead,
        record::decode,
        seal::{SealedTables, seal},
        segment::{SegmentHeader, name_hash},
    },
};
use sessionlog_sim::Sim;

use super::layouts::{SALT, STORE_ID, hex, unhex};
use crate::engines::named;

/// A sealed segment of an event and a batch key: one block, so no table of ids. Its block has codec
/// 1, which is read but no longer written.
const SEALED: &[&str] = &[
    "534c5345474d5431010000009530cb0b61616161616161616161616161616161",
    "08070605040302013f3af1ecebbd1410ab417ec0d27bbfcb5d340e177ae159b5",
    "9fc8626c2dfd91750500000000000000030000000000000061482f1b7d5e3c1a",
    "9414886b1ebf025db067a4cbd13a0903fbd9733a5372bba1b58bd72c1699b798",
    "0fcd568a5cb9bdb4677b69354b11ee415af8f784519cff3da49a26f84eaee7f2",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "8e0000001eb5e2164d9280d30301000002000000010000000000000000000000",
    "00000000000000000000000000000000000000000000000061482f1b7d5e3c1a",
    "61482f1b7d5e3c1a05000000000000003f3af1ecebbd1410ab417ec0d27bbfcb",
    "5d340e177ae159b59fc8626c2dfd91759414886b1ebf025db067a4cbd13a0903",
    "fbd9733a5372bba1b58bd72c1699b7980fcd568a5cb9bdb4677b69354b11ee41",
    "5af8f784519cff3da49a26f84eaee7f200000000000000000000000000000000",
    "61482f1b7d5e3c1a8ae4d5c6037f912b010100fd1280408c908e0c000c757365",
    "722e6d6573736167650465762d3900dc90cf07de907ccc64636ceddb38e55207",
    "7b2271223a377d120000fdb8911fbe18851300000000dbc4579ae2b3ab293213",
    "f42bb852706e27047475726e05010bf474896363505e5ea5e5d6ace8ebfb13a7",
    "60a409b1fb467d428fc716f9f2840000c0000000000000000500000000000000",
    "61482f1b7d5e3c1a094020464847060050010000010000000200000000000000",
    "01fdb8911fbe18851300047475726e05010bf474896363505e5ea5e5d6ace8eb",
    "fb13a760a409b1fb467d428fc716f9f284534c5345414c46313d82cf62020000",
    "0001000000000000000000000000000000100200000000000040020000000000",
    "00400200000000000006000000000000008ae4d5c6037f912b02000000000000",
    "0073a61a0a1d9df2a3f14db7c4e6541cee9c41129a1881e905dd7c091c45329c",
    "827afca9cf1921780bb50e79877792ab28231a17bf5e8d9bbeaba2f642b281d6",
    "75dee60438000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000",
];

/// The same segment with its block in columns, as written now.
pub(super) const COLUMNS: &[&str] = &[
    "534c5345474d5431010000009530cb0b61616161616161616161616161616161",
    "08070605040302013f3af1ecebbd1410ab417ec0d27bbfcb5d340e177ae159b5",
    "9fc8626c2dfd91750500000000000000030000000000000061482f1b7d5e3c1a",
    "9414886b1ebf025db067a4cbd13a0903fbd9733a5372bba1b58bd72c1699b798",
    "0fcd568a5cb9bdb4677b69354b11ee415af8f784519cff3da49a26f84eaee7f2",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "90000000b0bdd58ccf70663c0302000002000000010000000000000000000000",
    "00000000000000000000000000000000000000000000000061482f1b7d5e3c1a",
    "61482f1b7d5e3c1a05000000000000003f3af1ecebbd1410ab417ec0d27bbfcb",
    "5d340e177ae159b59fc8626c2dfd91759414886b1ebf025db067a4cbd13a0903",
    "fbd9733a5372bba1b58bd72c1699b7980fcd568a5cb9bdb4677b69354b11ee41",
    "5af8f784519cff3da49a26f84eaee7f200000000000000000000000000000000",
    "fd61482f1b7d5e3c1afd299ca6ab86205511011201000000fd1280408c908e0c",
    "00fda611df3188f606000c757365722e6d65737361676500000007270465762d",
    "3900dc90cf07de907ccc64636ceddb38e552dbc4579ae2b3ab293213f42bb852",
    "706e7b2271223a377d047475726e05010bf474896363505e5ea5e5d6ace8ebfb",
    "13a760a409b1fb467d428fc716f9f284c0000000000000000500000000000000",
    "61482f1b7d5e3c1a094020464847060050010000010000000200000000000000",
    "01fdb8911fbe18851300047475726e05010bf474896363505e5ea5e5d6ace8eb",
    "fb13a760a409b1fb467d428fc716f9f284534c5345414c46313d82cf62020000",
    "0001000000000000000000000000000000100200000000000040020000000000",
    "00400200000000000006000000000000008ae4d5c6037f912b02000000000000",
    "0073a61a0a1d9df2a3f14db7c4e6541cee9c41129a1881e905dd7c091c45329c",
    "827afca9cf1921780bb50e79877792ab28231a17bf5e8d9bbeaba2f642b281d6",
    "75dee60438000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000",
];

const TIME: Timestamp = Timestamp(1_767_225_600_000_000);
const KEY_TIME: Timestamp = Timestamp(2_747_182_936_475_868);
const FOOTER_BYTES: usize = 192;

fn header_of(bytes: &[u8]) -> SegmentHeader {
    SegmentHeader::decode(bytes).unwrap()
}

/// Reads the tables of a sealed segment from a file.
fn tables_of(bytes: &[u8]) -> SealedTables {
    let sim = Sim::new(1);
    sim.write_durable("one.sealed", 0, bytes);
    let file = sim.env().storage.open_read("one.sealed").unwrap();
    SealedTables::read(&*file, &header_of(bytes), bytes.len() as u64, None).unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_sealed_segment_is_laid_out_as_documented() {
    let [rows, golden] = [unhex(SEALED), unhex(COLUMNS)];
    let header = header_of(&golden);
    assert_eq!((header.store, header.salt, header.sealed), (STORE_ID, SALT, true));
    let frame = Frame::read(SALT, &golden.slice(192..)).unwrap();
    let records = frame.records().unwrap();
    assert_eq!(Frame::read(SALT, &rows.slice(192..)).unwrap().records().unwrap(), records);
    assert_eq!(hex(&seal(header, &records, Vec::new(), TIME, true, None)), COLUMNS);
    // Expired batch keys are left out.
    assert_eq!(
        tables_of(&seal(header, &records, Vec::new(), KEY_TIME.plus_micros(1), true, None)).batches,
        []
    );

    let sealed = tables_of(&golden);
    assert!(sealed.without_ids);
    assert_eq!((sealed.end, sealed.last_lsn), (Position(6), Lsn(0x2b91_7f03_c6d5_e48a)));
    let keys: Vec<_> = sealed.batches.iter().map(|(time, _)| *time).collect();
    assert_eq!(keys, [KEY_TIME]);
    let block = sealed.index[0];
    let place = (block.byte_offset, block.first_position, block.first_lsn, block.first_time);
    assert_eq!(place, (192, Position(5), Lsn(0x1a3c_5e7d_1b2f_4861), TIME.plus_micros(9)));
    assert_eq!((block.stride, block.events, block.count), (frame.header.stride() as u32, 1, 2));
}

/// Returns the record of an event.
fn record_of(event: &NewEvent, id: &EventId, salt: [u8; 16], now: Timestamp) -> Record {
    let mut encoded = Vec::new();
    RecordHead::from_event(event, id, now).encode(salt, &event.body, &mut encoded);
    decode(&encoded.into(), 1).unwrap().remove(0)
}

#[test]
fn a_segment_sealed_without_compression_has_the_same_records() {
    let golden = unhex(COLUMNS);
    let header = header_of(&golden);
    let records: Vec<_> = (0..40_u64)
        .map(|n| {
            let id = EventId::new(&format!("e{n}")).unwrap();
            let event = named(id.as_str(), "{\"text\":\"the same words again and again\"}");
            (Lsn(header.first_lsn.0 + n), record_of(&event, &id, [n as u8; 16], Timestamp(0)))
        })
        .collect();
    let [small, plain] = [true, false].map(|compressed| {
        let bytes = seal(header, &records, Vec::new(), TIME, compressed, None);
        let frame = Frame::read(SALT, &Bytes::from(bytes).slice(192..)).unwrap();
        assert_eq!(frame.header.compressed, compressed);
        assert_eq!(frame.records().unwrap(), records);
        frame.payload
    });
    assert!(small.len() < plain.len());
    let words = b"the same words again and again";
    assert_eq!(plain.windows(words.len()).filter(|part| part == words).count(), 40);
}

/// Returns a segment of 65 events from position 7 on.
fn two_blocks() -> Vec<u8> {
    let header = SegmentHeader {
        store: STORE_ID,
        salt: SALT,
        session: SessionHash([0x41; 32]),
        base: Position(7),
        start: 2,
        first_lsn: Lsn(100),
        chain: ChainValue([0x42; 32]),
        control_chain: ChainValue([0x43; 32]),
        sealed: true,
        key: None,
    };
    let record = |n: u64| {
        let id = EventId::new(&format!("e{n}")).unwrap();
        let record = record_of(&named(id.as_str(), "{}"), &id, [n as u8; 16], TIME);
        (Lsn(100 + n), record)
    };
    seal(header, &(0..65).map(record).collect::<Vec<_>>(), Vec::new(), TIME, true, None)
}

#[test]
fn a_segment_of_several_blocks_has_an_ordered_table_of_ids() {
    let bytes = two_blocks();
    let footer = &bytes[bytes.len() - FOOTER_BYTES..];
    assert_eq!((&footer[..8], u32_at(footer, 12)), (&b"SLSEALF1"[..], 1));
    let [blocks, ids, index_at, ids_at, batches_at, end, last_lsn, records] =
        [16, 24, 32, 40, 48, 56, 64, 72].map(|at| u64_at(footer, at));
    assert_eq!((blocks, ids, end, last_lsn, records), (2, 65, 72, 164, 65));
    assert_eq!((ids_at, batches_at), (index_at + 2 * 48, index_at + 2 * 48 + 65 * 24));
    let salt = SALT.to_le_bytes();
    let sum = |parts: &[&[u8]]| {
        let mut sum = crc32fast::Hasher::new();
        [&[&salt[..]], parts].concat().iter().for_each(|part| sum.update(part));
        sum.finalize()
    };
    let tables = &bytes[index_at as usize..bytes.len() - FOOTER_BYTES];
    assert_eq!(u32_at(footer, 8), sum(&[&footer[16..]]));
    assert_eq!(u32_at(footer, 144), sum(&[tables]));
    assert_eq!(footer[148..], [0; 44]);
    let rows = bytes[ids_at as usize..batches_at as usize].chunks(24);
    let rows: Vec<_> = rows.map(|row| (row[..16].to_vec(), u64_at(row, 16))).collect();
    let mut wanted: Vec<_> =
        (0..65).map(|n| (name_hash(&format!("e{n}")).to_vec(), 7 + n)).collect();
    wanted.sort();
    assert_eq!(rows, wanted);
    let second = &bytes[index_at as usize + 48..];
    let row = [8, 16].map(|at| u64_at(second, at));
    assert_eq!((row, [36, 40, 44].map(|at| u32_at(second, at))), ([71, 164], [1, 1, 0]));
    let sealed = tables_of(&bytes);
    assert!(!sealed.without_ids);
    for n in 0..65 {
        assert_eq!(sealed.find_id(&name_hash(&format!("e{n}"))), Some(Position(7 + n)));
    }
}

/// A reader that confused the versions would silently find no ids.
#[test]
fn a_footer_of_another_version_is_rejected() {
    for (bytes, other) in [(unhex(SEALED).to_vec(), 1), (two_blocks(), 2), (two_blocks(), 3)] {
        let mut changed = bytes.clone();
        let at = bytes.len() - FOOTER_BYTES + 12;
        changed[at] = other;
        let sim = Sim::new(1);
        sim.write_durable("one.sealed", 0, &changed);
        let file = sim.env().storage.open_read("one.sealed").unwrap();
        let read = SealedTables::read(&*file, &header_of(&bytes), bytes.len() as u64, None);
        assert!(read.is_err(), "version {other}");
    }
    let whole = Bytes::from(two_blocks());
    assert!(!tables_of(&whole).without_ids);
}

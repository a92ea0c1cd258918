//! Golden bytes: the layouts of docs/format.md, as hex, against the codecs. The constants were
//! built from that document and not by the codecs, so a field that moves in either is detected
//! here. They must not be adapted to make a test pass: other bytes are another version of the
//! format.

use std::fmt::Debug;

use bytes::Bytes;
use sessionlog::{
    event::{Event, EventId, EventType, Lsn, NewEvent, Origin, Position, SessionHash, Timestamp},
    log::{
        ChainValue, Control, Fault, Frame, FrameHeader, FrameKind, LogError, Record, RecordBody,
        RecordHead, StoreFile, decode_settled, encode_delta, journal::JournalHeader, record,
        segment::SegmentHeader, settled_header,
    },
};

pub(super) const SALT: u64 = 0x0102_0304_0506_0708;
pub(super) const STORE_ID: [u8; 16] = [0x61; 16];

/// A request frame of seven bytes.
pub(super) const FRAME: &[&str] = &[
    "070000001e1d7f959f9823230101000022000000210000000000000000000000",
    "0000000000000000000000000000000000000000000000003100000000000000",
    "3200000000000000330000000000000041414141414141414141414141414141",
    "4141414141414141414141414141414142424242424242424242424242424242",
    "4242424242424242424242424242424243434343434343434343434343434343",
    "4343434343434343434343434343434300000000000000000000000000000000",
    "7061796c6f616400",
];

/// A watermark after a frame that ended at 9 000.
const WATERMARK: &[&str] = &[
    "00000000b635841f25edcca50201000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000004100000000000000",
    "4100000000000000282300000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

/// The record of an event.
const EVENT: &[&str] = &[
    "010301fcdf220200fd0080408c908e0c000b746f6f6c2e726573756c74046576",
    "2d310051515151515151515151515151515151fb01017b2261223a317d202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020202020202020202020",
    "2020202020202020202020202020202020202020202020",
];

/// The record of a creation.
const CREATE: &[&str] = &[
    "100000fd0280408c908e0c000000005252525252525252525252525252525231",
    "0461636d6503616e6e0273315353535353535353535353535353535301015401",
    "016b017601022f7701fb100e01036b6579",
];

/// The record of a change.
const CHANGE: &[&str] = &[
    "110000fd0480408c908e0c00000000545454545454545454545454545454540f",
    "010101550201610001620101630100",
];

/// The record of a batch key.
const BATCH_KEY: &[&str] = &[
    "120000fd0680408c908e0c000000005555555555555555555555555555555529",
    "047475726e07fb2c015656565656565656565656565656565656565656565656",
    "565656565656565656",
];

/// The record of a redacted event.
const REDACTED: &[&str] = &[
    "010100fd0880408c908e0c000c757365722e6d6573736167650465762d320157",
    "5757575757575757575757575757575757575757575757575757575757575700",
    "00000000000000000000000000000000",
];

/// The record of an accepted loss.
const LOSS: &[&str] = &[
    "130000fd0c80408c908e0c000000005858585858585858585858585858585815",
    "0203fb2c0104676f6e6507070861206368616e6765",
];

/// The creation of a fork.
const FORK: &[&str] = &[
    "140000fd0280408c908e0c00000000525252525252525252525252525252526b",
    "0461636d6503616e6e0273315353535353535353535353535353535301015401",
    "016b017601022f7701fb100e01036b657906706172656e748383838383838383",
    "8383838383838383fb2c01848484848484848484848484848484848484848484",
    "8484848484848484848484",
];

/// A record of the kind of a fork's creation, with a body that no version defines.
const LINEAGE: &[&str] =
    &["140000fd0e80408c908e0c000000005959595959595959595959595959595908", "09706172656e740b"];

/// The file `STORE`, its last 192 zeros left out.
const STORE: &[&str] = &[
    "534c53544f5245310100000047ccd62061616161616161616161616161616161",
    "0540204648470600000000000000000000000000000000000000000000000000",
];

/// One copy of a journal header.
const JOURNAL: &[&str] = &[
    "534c4a4f55524e310100000089cd42a361616161616161616161616161616161",
    "0807060504030201710000000000000072000000000000007300000000000000",
    "7400000000000000750000000000000076000000000000000100000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

/// The header of a segment.
const SEGMENT: &[&str] = &[
    "534c5345474d543101000000dccefab561616161616161616161616161616161",
    "0807060504030201414141414141414141414141414141414141414141414141",
    "4141414141414141910000000000000092000000000000009300000000000000",
    "4242424242424242424242424242424242424242424242424242424242424242",
    "4343434343434343434343434343434343434343434343434343434343434343",
    "0100000000000000000000000000000000000000000000000000000000000000",
];

/// The record of a hold and a restore in one, as no version writes them.
const LIFE: &[&str] =
    &["150000fd1080408c908e0c000000005a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a08", "0000000001010001"];

/// The record of the end of an archiving.
const UNARCHIVE: &[&str] =
    &["1b0000fd1080408c908e0c000000005b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b07", "00000000000000"];

/// The record of a checkpoint made by the server.
const NOTE: &[&str] =
    &["170000fd1280408c908e0c000000005c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c0a", "02070363686b027b7d01"];

/// The record of a lease.
const LEASE: &[&str] = &[
    "180000fd1480408c908e0c000000005e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e14",
    "09013c015d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d",
];

/// The record of an erasure.
const ERASE: &[&str] = &[
    "160000fd1680408c908e0c000000005f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f1f",
    "0461636d6503616e6e02733153535353535353535353535353535353fb2c01",
];

/// The record of a redaction.
const REDACT: &[&str] =
    &["1a0000fd1880408c908e0c000000006060606060606060606060606060606003", "fb2c01"];

/// The header of a settled file.
pub(super) const SETTLED: &[&str] = &[
    "534c534554544c31040000007fbccf4861616161616161616161616161616161",
    "0807060504030201040000000000000000000000000000000000000000000000",
];

/// A generation without entries.
pub(super) const EMPTY_CHUNK: &[&str] =
    &["1000000068f774f8050000000000000000011f20fb0020fc7011010042444500"];

/// A generation with one entry.
const CHUNK: &[&str] = &[
    "f70000002fc056c3060000000000000000011f20fb0020fc7011010042444501",
    "0461636d6503616e6e0273315353535353535353535353535353535301015401",
    "016b017601022f7701fb100e01036b65791617011a011c011e012021010f1081",
    "8181818181818181818181818181818181818181818181818181818181818182",
    "8282828282828282828282828282828282828282828282828282828282828211",
    "011213011415011617037768791801320219011a001b0137015b5b5b5b5b5b5b",
    "5b5b5b5b5b5b5b5b5b1d011e1f010106706172656e7483838383838383838383",
    "8383838383831b84848484848484848484848484848484848484848484848484",
    "8484848484848400",
];

const SAYS_REDACTED: &[&str] = &[
    "Record { kind: 1, origin: 1, created_at: None, processed_at: 1767225600000004, ",
    r#"name: "user.message", id: "ev-2", body: Redacted { digest: [0x57; 32] } }"#,
];
const SAYS_CREATE: &[&str] = &[
    r#"Create(CreateRecord { tenant: "acme", user: "ann", session: "s1", incarnation: [0x53; 16], "#,
    r#"title: Some("T"), metadata: {"k": "v"}, workspace: Some("/w"), ttl_seconds: Some(3600), "#,
    r#"key: Some("key"), lineage: None })"#,
];
const SAYS_FORK: &[&str] = &[
    r#"Create(CreateRecord { tenant: "acme", user: "ann", session: "s1", incarnation: [0x53; 16], "#,
    r#"title: Some("T"), metadata: {"k": "v"}, workspace: Some("/w"), ttl_seconds: Some(3600), "#,
    r#"key: Some("key"), lineage: Some(ForkParent { parent: "parent", incarnation: [0x83; 16], "#,
    "position: 300, chain: [0x84; 32] }) })",
];
const SAYS_CHANGE: &[&str] = &[
    r#"Change(ChangeRecord { title: Some(Some("U")), metadata: {"a": None, "b": Some("c")}, "#,
    "archive: Some(true), delete: false, life: LifetimeChange { hold: None, expire: false, restore: false } })",
];
const SAYS_LIFE: &[&str] = &[
    "Change(ChangeRecord { title: None, metadata: {}, archive: None, delete: false, ",
    "life: LifetimeChange { hold: Some(true), expire: false, restore: true } })",
];
const SAYS_UNARCHIVE: &[&str] = &[
    "Change(ChangeRecord { title: None, metadata: {}, archive: Some(false), delete: false, ",
    "life: LifetimeChange { hold: None, expire: false, restore: false } })",
];
const SAYS_NOTE: &[&str] =
    &["Note(NoteRecord { kind: 2, position: 7, name: \"chk\", body: [123, 125], idle: true })"];
const SAYS_ERASE: &[&str] = &[
    r#"Erase(Tombstone { tenant: "acme", user: "ann", session: "s1", incarnation: [0x53; 16], "#,
    "key: 300 })",
];
const SAYS_REDACT: &[&str] = &["Redact(RedactRecord { position: 300 })"];
const SAYS_LEASE: &[&str] =
    &["Lease(LeaseRecord { fence: 9, until: Some(30), key: Some([0x5d; 16]) })"];
const SAYS_BATCH_KEY: &[&str] =
    &[r#"Batch(KnownBatch { key: "turn", first_position: 7, events: 300, digest: [0x56; 32] })"#];
const SAYS_LOSS: &[&str] =
    &[r#"Loss(AcceptedLoss { places: [(3, 300, "gone"), (7, 7, "a change")] })"#];
const SAYS_LINEAGE: &[&str] = &[
    "Record { kind: 20, origin: 0, created_at: None, processed_at: 1767225600000007, ",
    r#"name: "", id: "", body: Whole { salt: [0x59; 16], body: b"\tparent\x0b" } }"#,
];
const SAYS_ENTRY: &[&str] = &[
    r#"Entry { tenant: "acme", user: "ann", session: "s1", incarnation: [0x53; 16], "#,
    r#"title: Some("T"), metadata: {"k": "v"}, workspace: Some("/w"), ttl_seconds: Some(3600), "#,
    r#"create_key: Some("key"), created_at: 11, updated_at: -12, archived_at: Some(13), "#,
    "held_at: Some(15), stage: Reclaimed(SessionEnd { how: Erased { unfinished: true }, at: 25 }), ",
    "used_after: -17, tail: 15, end_lsn: 16, chain: [0x81; 32], control_chain: [0x82; 32], ",
    "bytes: 17, segments: [SegmentEntry { base: 18, start: 19, sealed: true, bytes: 20, ",
    r#"end: 21 }], damage: [LostRange { from: 22, to: 23, reason: "why", accepted_at: None }], "#,
    "key: 24, redacted: [], work: WorkSummary { fence: 27, until: Some(-28), ",
    "key: Some([0x5b; 16]), notes: 29, checkpoint: Some(CheckpointMark { lsn: 30, position: 31, ",
    "open: true }) }, lineage: Some(ForkParent { ",
    r#"parent: "parent", incarnation: [0x83; 16], position: 27, chain: [0x84; 32] }) }"#,
];

pub(super) fn hex(bytes: &[u8]) -> Vec<String> {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.chunks(32).map(line).collect()
}

pub(super) fn unhex(lines: &[&str]) -> Bytes {
    let text = lines.concat();
    let digits = (0..text.len()).step_by(2);
    digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Checks that a decoded value has exactly these fields; arrays of one byte are written short.
#[track_caller]
fn check_says(value: &impl Debug, expected: &[&str]) {
    let mut said = format!("{value:?}");
    for byte in 0x50..0x90_u8 {
        said = said.replace(&format!("{:?}", [byte; 32]), &format!("[{byte:#x}; 32]"));
        said = said.replace(&format!("{:?}", [byte; 16]), &format!("[{byte:#x}; 16]"));
    }
    assert_eq!(said, expected.concat());
}

#[test]
fn a_frame_is_laid_out_as_documented() {
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: 7,
        compressed: false,
        count: 0x22,
        events: 0x21,
        first_lsn: Lsn(0x31),
        synced_lsn: Lsn(0x32),
        first_position: Position(0x33),
        session: SessionHash([0x41; 32]),
        chain: ChainValue([0x42; 32]),
        control_chain: ChainValue([0x43; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let mut written = Vec::new();
    header.write(SALT, b"payload", &mut written);
    assert_eq!(hex(&written), FRAME);
    let read = Frame::read(SALT, &unhex(FRAME)).unwrap();
    assert_eq!((read.header, read.payload), (header, Bytes::from_static(b"payload")));
    // A copy differs in its number, at 176, and in its checksum.
    let copy = FrameHeader { copy_lsn: Lsn(0x34), ..header };
    let mut copied = Vec::new();
    copy.write(SALT, b"payload", &mut copied);
    assert_eq!((copied[176], &copied[177..]), (0x34, &written[177..]));
    assert_eq!((&copied[..4], &copied[8..176]), (&written[..4], &written[8..176]));
    assert_eq!(Frame::read(SALT, &copied.into()).unwrap().header, copy);
}

#[test]
fn a_watermark_is_laid_out_as_documented() {
    let header = FrameHeader {
        kind: FrameKind::Watermark,
        length: 0,
        compressed: false,
        count: 0,
        events: 0,
        first_lsn: Lsn(0x41),
        synced_lsn: Lsn(0x41),
        first_position: Position(9_000),
        session: SessionHash([0; 32]),
        chain: ChainValue([0; 32]),
        control_chain: ChainValue([0; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let mut written = Vec::new();
    header.write(SALT, &[], &mut written);
    assert_eq!(hex(&written), WATERMARK);
    assert_eq!(Frame::read(SALT, &unhex(WATERMARK)).unwrap().header, header);
}

#[test]
fn an_event_is_laid_out_as_documented() {
    let event = Event {
        position: Position(9),
        id: EventId::new("ev-1").unwrap(),
        kind: EventType::new("tool.result").unwrap(),
        origin: Origin::Tool,
        created_at: Some(Timestamp(-70_000)),
        processed_at: Timestamp(1_767_225_600_000_000),
        body: format!("{{\"a\":1}}{}", " ".repeat(250)).into(),
    };
    let new = NewEvent {
        id: None,
        kind: event.kind.clone(),
        origin: event.origin,
        created_at: event.created_at,
        position: None,
        body: event.body.clone(),
    };
    let mut written = Vec::new();
    let head = RecordHead::from_event(&new, &event.id, event.processed_at);
    head.encode([0x51; 16], &new.body, &mut written);
    assert_eq!(hex(&written), EVENT);
    let header = FrameHeader {
        kind: FrameKind::Request,
        length: unhex(EVENT).len() as u32,
        compressed: false,
        count: 1,
        events: 1,
        first_lsn: Lsn(1),
        synced_lsn: Lsn(0),
        first_position: event.position,
        session: SessionHash([0x41; 32]),
        chain: ChainValue([0x42; 32]),
        control_chain: ChainValue([0x43; 32]),
        copy_lsn: Lsn(0),
        encrypted: None,
    };
    let frame = Frame { header, payload: unhex(EVENT) };
    let mut read = Vec::new();
    frame.append_events(header.range(), &mut read).unwrap();
    assert_eq!(read, [event]);
}

#[test]
fn a_redacted_event_and_control_records_are_laid_out_as_documented() {
    let cases = [
        (REDACTED, SAYS_REDACTED),
        (CREATE, SAYS_CREATE),
        (FORK, SAYS_FORK),
        (CHANGE, SAYS_CHANGE),
        (BATCH_KEY, SAYS_BATCH_KEY),
        (LOSS, SAYS_LOSS),
        (LINEAGE, SAYS_LINEAGE),
        (LIFE, SAYS_LIFE),
        (UNARCHIVE, SAYS_UNARCHIVE),
        (NOTE, SAYS_NOTE),
        (LEASE, SAYS_LEASE),
        (ERASE, SAYS_ERASE),
        (REDACT, SAYS_REDACT),
    ];
    for (golden, expected) in cases {
        let read = record::decode(&unhex(golden), 1).unwrap();
        let mut written = Vec::new();
        record::encode(&read[0], &mut written);
        assert_eq!(hex(&written), golden);
        match read[0].to_control() {
            None | Some(Control::Unknown(_)) => check_says(&read[0], expected),
            Some(control) => {
                // Its body has a separate encoding: encoded again from the decoded value.
                let again =
                    Record::from_control(&control, read[0].processed_at(), salt_of(&read[0]));
                assert_eq!(again, read[0]);
                check_says(&control, expected);
            }
        }
    }
}

fn salt_of(record: &Record) -> [u8; 16] {
    match &record.body {
        RecordBody::Whole { salt, .. } => *salt,
        RecordBody::Redacted { .. } => [0; 16],
    }
}

#[test]
fn the_headers_of_files_are_laid_out_as_documented() {
    let store = StoreFile { id: STORE_ID, created_at: 1_767_225_600_000_005, keys: None };
    let written = store.encode();
    assert_eq!((hex(&written[..64]), &written[64..]), (hex(&unhex(STORE)), &[0; 192][..]));
    assert_eq!(StoreFile::decode(&written), Ok(store));

    let journal = JournalHeader {
        store: STORE_ID,
        salt: SALT,
        order: 0x71,
        start: 0x72,
        first_lsn: Lsn(0x73),
        previous_end: 0x74,
        previous_end_lsn: Lsn(0x75),
        previous_order: 0x76,
        opens: true,
        file_bytes: 0,
    };
    let written = journal.encode();
    assert_eq!(hex(&written[..192]), JOURNAL);
    assert_eq!((written.len(), &written[..4096]), (8192, &written[4096..]));
    assert_eq!(JournalHeader::decode(&unhex(JOURNAL)), Ok(journal));
    let sized = JournalHeader { file_bytes: 0x0102_0304, ..journal };
    let written = sized.encode();
    assert_eq!(
        hex(&written[80..112]).concat(),
        [&JOURNAL[2][32..], "0403020100000000", &"0".repeat(16)].concat()
    );
    assert_eq!(JournalHeader::decode(&written), Ok(sized));

    let segment = SegmentHeader {
        store: STORE_ID,
        salt: SALT,
        session: SessionHash([0x41; 32]),
        base: Position(0x91),
        start: 0x92,
        first_lsn: Lsn(0x93),
        chain: ChainValue([0x42; 32]),
        control_chain: ChainValue([0x43; 32]),
        sealed: true,
        key: None,
    };
    assert_eq!(hex(&segment.encode()), SEGMENT);
}

#[test]
fn a_settled_file_is_laid_out_as_documented() {
    assert_eq!(hex(&settled_header(STORE_ID, SALT, false)), SETTLED);
    let empty = [unhex(SETTLED), unhex(EMPTY_CHUNK)].concat();
    let (read, _) = decode_settled(STORE_ID, &empty.into()).unwrap();
    let last = read.last.unwrap();
    let place = "order: 32, byte_offset: 8192, lsn: 70000";
    let times = ", at: 33, counted: 34, seen: -35, entries: [] }";
    check_says(&last, &["Delta { clean: true, start: 31, ", place, times]);
    assert_eq!(hex(&encode_delta((SALT, 64), 5, &last, None)), EMPTY_CHUNK);

    let whole = [unhex(SETTLED), unhex(EMPTY_CHUNK), unhex(CHUNK)].concat();
    let (read, entries) = decode_settled(STORE_ID, &whole.into()).unwrap();
    assert_eq!((read.salt, read.generation), (SALT, 6));
    check_says(&entries[0], SAYS_ENTRY);
}

#[test]
fn a_settled_file_of_another_version_is_rejected_with_an_error_naming_it() {
    let whole = [unhex(SETTLED), unhex(EMPTY_CHUNK)].concat();
    for version in [0, 1, 2, 3, 5] {
        let mut other = whole.clone();
        other[8] = version;
        let error = decode_settled(STORE_ID, &other.into()).unwrap_err();
        let fault = Fault::Unknown { what: "version", value: version.into() };
        assert_eq!(error.to_string(), LogError::Fault { byte_offset: 0, fault }.to_string());
    }
}

//! Invalid content under valid checksums: impossible numbers, non-canonical names, files with gaps
//! in their numbers. Starts and reads terminate, use no more memory than the files have bytes, and
//! return no event that was not written. It must not expect an engine to repair anything; changes
//! with invalid checksums are in `tamper` and `damage`.

use std::collections::BTreeMap;

use sessionlog::{
    log::FrameHeader,
    store::{Health, Maintain, Store, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, create, event, key, small},
    fuzz_seeds::recover::{Fate, Image, killed, stopped, survive},
};

/// Byte offset of the salt in every file of frames, and in a settled file.
const SALT_AT: usize = 32;
const HEADER_BYTES: usize = 192;
const FOOTER_BYTES: usize = 192;

fn checksum_of(salt: u64, parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put_field(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn with(image: &Image, files: &[(&str, &[u8])]) -> Fate {
    survive(image, |sim| {
        for (path, bytes) in files {
            sim.truncate_durable(path, 0);
            sim.write_durable(path, 0, bytes);
        }
    })
}

/// Fields of a frame header that count something, and their offsets.
const FRAME_FIELDS: [(&str, &[(usize, usize)]); 5] = [
    ("events", &[(20, 4)]),
    ("count and events", &[(16, 4), (20, 4)]),
    ("first lsn", &[(56, 8)]),
    ("first position", &[(72, 8)]),
    ("synced lsn", &[(64, 8)]),
];

#[test]
fn a_frame_with_false_counts_does_not_stop_the_store() {
    for (image, room) in [(stopped(), "segments/"), (killed(), "journal/")] {
        let frames = |(path, bytes): &&(String, Vec<u8>)| {
            path.starts_with(room) && bytes.len() > HEADER_BYTES
        };
        for (path, bytes) in image.files.iter().filter(frames) {
            let salt = u64_at(bytes, SALT_AT);
            let whole = |at: &usize| FrameHeader::read(salt, &bytes[*at..]).is_ok();
            let places = (HEADER_BYTES..bytes.len() - 64).step_by(8).filter(whole);
            for at in places.step_by(29) {
                for (what, fields) in FRAME_FIELDS {
                    let mut forged = bytes.clone();
                    for (field, width) in fields {
                        put_field(&mut forged, at + field, &[0xff; 8][..*width]);
                    }
                    let rest = forged[at + 8..at + HEADER_BYTES].to_vec();
                    let told = checksum_of(salt, &[&forged[at..at + 4], &rest]);
                    put_field(&mut forged, at + 4, &told);
                    eprintln!("{path} at {at}: {what}");
                    with(image, &[(path, &forged)]);
                }
            }
        }
    }
}

/// Fields of an index entry, their offsets, and their widths.
const INDEX_FIELDS: [(&str, usize, usize); 6] = [
    ("byte offset", 0, 8),
    ("first position", 8, 8),
    ("first lsn", 16, 8),
    ("stride", 32, 4),
    ("events", 36, 4),
    ("count", 40, 4),
];

/// Recomputes the checksums of tables and footer of a sealed segment.
fn with_valid_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let (salt, footer_at) = (u64_at(&bytes, SALT_AT), bytes.len() - FOOTER_BYTES);
    let index_at = u64_at(&bytes, footer_at + 32) as usize;
    let tables = checksum_of(salt, &[&bytes[index_at..footer_at]]);
    put_field(&mut bytes, footer_at + 144, &tables);
    let version = u32_at(&bytes, footer_at + 12);
    let body = bytes[footer_at + 16..].to_vec();
    let told = match version {
        1 => checksum_of(salt, &[&body]),
        _ => checksum_of(salt, &[&version.to_le_bytes(), &body]),
    };
    put_field(&mut bytes, footer_at + 8, &told);
    bytes
}

#[test]
fn an_index_with_offsets_outside_its_file_is_reported() {
    let mut forged = 0;
    for (path, bytes) in stopped().files.iter().filter(|(path, _)| path.ends_with(".sealed")) {
        assert_eq!(with_valid_checksums(bytes.clone()), *bytes, "the checksums are these");
        let footer_at = bytes.len() - FOOTER_BYTES;
        let (blocks, index_at) = (u64_at(bytes, footer_at + 16), u64_at(bytes, footer_at + 32));
        for block in 0..blocks as usize {
            for (what, field, width) in INDEX_FIELDS {
                let at = index_at as usize + 48 * block + field;
                for change in [[0xff; 8], [0; 8], [0x40, 0, 0, 0x7f, 0, 0, 0, 0x7f]] {
                    let mut lies = bytes.clone();
                    put_field(&mut lies, at, &change[..width]);
                    if lies == *bytes {
                        continue;
                    }
                    eprintln!("{path} block {block} {what}");
                    let fate = with(stopped(), &[(path, &with_valid_checksums(lies))]);
                    assert_ne!(fate, Fate::Shorter, "{path} block {block} {what}");
                    forged += 1;
                }
            }
        }
    }
    assert!(forged > 20, "{forged} were forged");
}

type Names = (
    String,
    String,
    String,
    [u8; 16],
    Option<String>,
    BTreeMap<String, String>,
    Option<String>,
    Option<u64>,
    Option<String>,
);
type Times = (i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>, i64, bool);
type Ends = (u64, u64, [u8; 32], [u8; 32], u64);
type Segments = Vec<(u64, u64, bool, u64, u64)>;
type Lists = (Segments, Vec<(u64, u64, String)>, u64, Option<i64>, Vec<(u64, bool)>);
type Work = (u64, Option<i64>, Option<[u8; 16]>, u64, Option<(u64, u64, bool)>);
type Lineage = Option<(String, [u8; 16], u64, [u8; 32])>;
/// An entry of a settled file, field by field.
type Row = (Names, Times, Ends, Lists, Work, Lineage);

fn encode<T: bincode::Encode>(value: T) -> Vec<u8> {
    bincode::encode_to_vec(value, bincode::config::standard()).unwrap()
}

fn decode<T: bincode::Decode<()>>(bytes: &[u8]) -> (T, usize) {
    bincode::decode_from_slice(bytes, bincode::config::standard()).unwrap()
}

/// Returns a settled file with every entry as `change` encodes it, and valid checksums.
fn reencode_entries(bytes: &[u8], change: &dyn Fn(Row) -> Vec<u8>) -> Vec<u8> {
    type Said = ((bool, bool, u64, u64, u64, u64), (i64, i64, i64), u64);
    let (salt, mut out, mut at) = (u64_at(bytes, SALT_AT), bytes[..64].to_vec(), 64);
    while at + 16 < bytes.len() {
        let end = at + 16 + u32_at(bytes, at) as usize;
        let value = &bytes[at + 16..end];
        let (said, mut used): (Said, usize) = decode(value);
        let mut payload = [&bytes[at + 8..at + 16], &encode(said)].concat();
        for _ in 0..said.2 {
            let (row, more) = decode(&value[used..]);
            payload.extend(change(row));
            used += more;
        }
        let length = ((payload.len() - 8) as u32).to_le_bytes();
        out.extend(length);
        out.extend(checksum_of(salt, &[&length, &payload]));
        out.extend(payload);
        out.resize(out.len().next_multiple_of(8), 0);
        at = end.next_multiple_of(8);
    }
    out
}

/// Returns the fate of an image whose settled files encode each entry this way.
fn fate_of_entries(image: &Image, change: &dyn Fn(Row) -> Vec<u8>) -> Fate {
    let files = image.files.iter().filter(|(path, _)| path.starts_with("settled/"));
    let forged: Vec<_> =
        files.map(|(path, bytes)| (path, reencode_entries(bytes, change))).collect();
    let forged: Vec<_> =
        forged.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    with(image, &forged)
}

#[test]
fn an_entry_with_impossible_numbers_does_not_stop_the_store() {
    type Change = fn(&mut Row);
    let changes: [(&str, Change); 11] = [
        ("a segment that ends before it begins", |row| {
            row.3.0.iter_mut().for_each(|one| (one.0, one.4) = (one.4 + 9, one.0));
            row.3.4 = vec![(500, false)];
        }),
        ("segments without end", |row| {
            row.3.0.iter_mut().for_each(|one| one.4 = u64::MAX);
            row.3.4 = vec![(500, false)];
        }),
        ("segments of any size", |row| {
            row.3.0.iter_mut().for_each(|one| one.3 = u64::MAX);
        }),
        ("a tail nobody reached", |row| row.2.0 = u64::MAX),
        ("a number nobody reached", |row| row.2.1 = u64::MAX),
        ("any size", |row| row.2.4 = u64::MAX),
        ("damage that ends before it begins", |row| {
            row.3.1 = vec![(9, 3, "forged".to_owned()), (u64::MAX, 0, "forged".to_owned())];
        }),
        ("redactions out of order", |row| {
            row.3.4 = vec![(u64::MAX, false), (700, true), (300, false), (300, false)];
        }),
        ("the same segment twice", |row| {
            let again = row.3.0.clone();
            row.3.0.extend(again);
            row.3.4 = vec![(500, false)];
        }),
        ("times before all time", |row| {
            (row.1.0, row.1.1, row.1.6) = (i64::MIN, i64::MIN, i64::MIN);
            row.0.7 = Some(u64::MAX);
        }),
        ("times behind all time", |row| {
            (row.1.0, row.1.1, row.1.6) = (i64::MAX, i64::MAX, i64::MAX);
            row.4 = (u64::MAX, Some(i64::MIN), None, u64::MAX, Some((u64::MAX, u64::MAX, true)));
        }),
    ];
    for image in [stopped(), killed()] {
        assert_eq!(fate_of_entries(image, &encode), Fate::Whole, "the files are read as they are");
        for (what, change) in changes {
            eprintln!("{what}");
            fate_of_entries(image, &|mut row| {
                change(&mut row);
                encode(row)
            });
        }
    }
}

#[test]
fn a_session_that_is_a_fork_of_itself_is_rejected() {
    let own = |mut row: Row| {
        row.5 = Some((row.0.2.clone(), row.0.3, 5, [0; 32]));
        encode(row)
    };
    for image in [stopped(), killed()] {
        assert_eq!(fate_of_entries(image, &own), Fate::Refused);
    }
}

#[test]
fn a_name_with_a_non_minimal_length_encoding_is_the_same_name() {
    let otherwise = |row: Row| {
        let bytes = encode(row);
        [&[251, bytes[0], 0], &bytes[1..]].concat()
    };
    for image in [stopped(), killed()] {
        assert_eq!(fate_of_entries(image, &otherwise), Fate::Whole);
    }
}

/// Creates a stopped store with one session.
async fn store_of_one() -> Sim {
    let sim = Sim::new(31);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "a").await;
    append(&store, &key("a"), batch([event("{}")])).await.unwrap();
    store.close().await;
    sim.power_loss();
    sim
}

#[tokio::test]
async fn a_file_with_a_non_canonical_number_is_not_a_journal_file() {
    let sim = store_of_one().await;
    for name in ["007", "+7", "7.new", "00", "4294967295", "4294967296", " 7", "-1"] {
        sim.write_durable(&format!("journal/{name}"), 0, b"theirs");
    }
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert_eq!(store.health(), Health::Ready);
    assert_eq!(store.recovery().damage, Vec::<String>::new());
    append(&store, &key("a"), batch([event("{}")])).await.unwrap();
}

#[tokio::test]
async fn a_gap_of_millions_of_journal_files_is_reported_once_and_not_filled() {
    for number in [20_261_122, u32::MAX - 1] {
        let sim = store_of_one().await;
        let files = sim.files();
        let first = files.iter().filter(|path| path.starts_with("journal/")).count();
        sim.write_durable(&format!("journal/{number}"), 0, b"");
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        let told = format!("journal/{first} to journal/{} are missing", number - 1);
        // The spare is no longer the last file, and empty.
        let damage = &store.recovery().damage;
        assert!(damage.len() <= 2, "{} lines", damage.len());
        assert_eq!(damage.first(), Some(&told));
        assert!(matches!(store.health(), Health::ReadOnly(_)), "{:?}", store.health());
        let refused = store.repair_store(true).await.unwrap_err();
        assert!(refused.to_string().contains("journal/"), "{refused}");
        assert!(sim.files().len() < 100, "{} files", sim.files().len());
    }
}

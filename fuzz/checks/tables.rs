//! Feeds bytes to what a store reads besides frames: sealed segments with their tables, settled
//! files, control records. Random bytes fit no checksum, so they are given one.

use bytes::Bytes;
use sessionlog::{
    env::File,
    event::{EventId, EventType, Lsn, NewEvent, Origin, Position, SessionHash, Timestamp},
    log::{
        ChainValue, Control, Frame, PackedEntry, Record, RecordHead, SettledIndex, decode_settled,
        inspect::inspect,
        record,
        seal::{SealedTables, seal},
        segment::{SegmentHeader, name_hash},
        settled_header,
    },
};
use sessionlog_sim::Sim;

const SALT: u64 = 9;
const STORE: [u8; 16] = [3; 16];
const HEADER_BYTES: usize = 192;
const FOOTER_BYTES: usize = 192;

pub fn check(bytes: &[u8]) {
    any_control(bytes);
    any_settled(bytes);
    any_tables(bytes);
    any_sealed(bytes);
}

fn checksum(salt: u64, parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}

/// A file that holds these bytes.
fn file(bytes: &[u8]) -> Box<dyn File> {
    let sim = Sim::new(1);
    sim.write_durable("file", 0, bytes);
    sim.env().storage.open_read("file").expect("it is there")
}

/// A record of that kind around any body.
fn record_of(kind: u8, number: usize, body: &[u8]) -> Record {
    let id = EventId::new(&format!("e{number}")).expect("printable");
    let event = NewEvent {
        id: None,
        kind: EventType::new("a.b").expect("plain"),
        origin: Origin::Tool,
        created_at: None,
        position: None,
        body: Bytes::copy_from_slice(body),
    };
    let mut encoded = Vec::new();
    RecordHead::from_event(&event, &id, Timestamp(0)).encode([7; 16], &event.body, &mut encoded);
    // The kind comes first.
    encoded[0] = kind;
    record::decode(&encoded.into(), 1).expect("a record").remove(0)
}

/// What any body says as a control record of each kind says the same when it is written again.
fn any_control(bytes: &[u8]) {
    for kind in (16..=24).chain([26]) {
        let found = record_of(kind, 0, bytes).to_control();
        if let Some(Control::Create(create)) = &found {
            drop(create.identity());
        }
        let Some(known) = found.filter(|found| !matches!(found, Control::Unknown(_))) else {
            continue;
        };
        let again = Record::from_control(&known, Timestamp(1), [0; 16]);
        assert_eq!(again.to_control(), Some(known));
    }
}

/// A settled file of two chunks with any content: each entry rests in memory as what it is.
fn any_settled(bytes: &[u8]) {
    let mut out = settled_header(STORE, SALT, false);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for payload in [bytes, first, second] {
        let Some(length) = payload.len().checked_sub(8) else { continue };
        let length = u32::try_from(length).expect("inputs are small").to_le_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&checksum(SALT, &[&length, payload]));
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    let out = Bytes::from(out);
    drop(decode_settled(STORE, &out));
    let read = |from: u64, to: u64| {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(out.len());
        Ok(out.slice(place(from)..place(to)))
    };
    let Ok(settled) = SettledIndex::read(STORE, None, &read) else { return };
    let _ = settled.for_each_entry(None, &read, &mut |_, entry, bytes| {
        let packed = PackedEntry::from_entry(&entry, bytes);
        let [tenant, user] = scope_of(&entry.encode());
        assert_eq!(packed.entry(&tenant, &user), entry);
        let _ = (packed.identity(), packed.listing_fields());
    });
}

/// The two texts that an entry begins with.
fn scope_of(entry: &[u8]) -> [String; 2] {
    let (texts, _): ((String, String), usize) =
        bincode::decode_from_slice(entry, bincode::config::standard()).expect("an entry");
    texts.into()
}

fn header() -> SegmentHeader {
    let session = SessionHash([1; 32]);
    SegmentHeader {
        store: STORE,
        salt: SALT,
        session,
        base: Position(5),
        start: 2,
        first_lsn: Lsn(11),
        chain: ChainValue::start_of_events(session),
        control_chain: ChainValue::start_of_controls(session),
        sealed: true,
        key: None,
    }
}

/// Blocks of no bytes, one behind the other from the header on, with as many events as these tables
/// say of each; answers where their events end. Anything else is no index.
fn one_behind_the_other(tables: &mut [u8], blocks: usize) -> u64 {
    let mut position = header().base.0;
    for block in tables.as_chunks_mut::<48>().0.iter_mut().take(blocks) {
        let events = u32::from(block[36]);
        block[..8].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
        block[8..16].copy_from_slice(&position.to_le_bytes());
        block[32..36].fill(0);
        block[36..40].copy_from_slice(&events.to_le_bytes());
        block[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        position += u64::from(events);
    }
    position
}

/// An index that was read names no byte and no event twice, and none that its file has not.
fn covers(sealed: &SealedTables, index_at: u64) {
    let (mut at, mut position) = (HEADER_BYTES as u64, header().base);
    for block in &sealed.index {
        assert_eq!((block.byte_offset, block.first_position), (at, position));
        assert!(block.events <= block.count);
        (at, position) = (block.next_offset(), block.end_position());
    }
    assert_eq!((at, position), (index_at, sealed.end));
}

/// A sealed segment of any tables, with a footer of any numbers that the checksums fit.
fn any_tables(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first_chunk::<4>() else { return };
    let [blocks, ids, flags, raw] = choice.map(u64::from);
    let blocks = blocks % (rest.len() as u64 / 48 + 1);
    let ids = ids % ((rest.len() as u64 - 48 * blocks) / 24 + 1);
    let index_at = HEADER_BYTES as u64;
    let ids_at = index_at + 48 * blocks;
    let mut rest = rest.to_vec();
    let end = if raw & 1 != 0 { 7 } else { one_behind_the_other(&mut rest, blocks as usize) };
    let rest = &rest[..];
    let mut numbers = [blocks, ids, index_at, ids_at, ids_at + 24 * ids, end, 12, 1];
    if flags & 1 != 0 {
        // One of the numbers is anything at all.
        let any = u64::from_le_bytes(*rest.first_chunk().unwrap_or(&[0xff; 8]));
        numbers[(flags >> 1) as usize % 8] = any;
    }
    let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    body.extend_from_slice(&[0; 64]);
    body.extend_from_slice(&checksum(SALT, &[rest]));
    body.extend_from_slice(&(flags as u32 & 2).to_le_bytes());
    body.resize(FOOTER_BYTES - 16, 0);
    let mut out = header().encode();
    out.extend_from_slice(rest);
    out.extend_from_slice(b"SLSEALF1");
    out.extend_from_slice(&checksum(SALT, &[&body]));
    out.extend_from_slice(&1_u32.to_le_bytes());
    out.extend_from_slice(&body);
    let file = file(&out);
    drop(inspect(&*file));
    let Ok(sealed) = SealedTables::read(&*file, &header(), out.len() as u64, None) else { return };
    covers(&sealed, numbers[2]);
    for hash in [[0; 16], [0xff; 16], name_hash("e0")] {
        let _ = sealed.find_id(&hash);
    }
    let places = rest.as_chunks::<24>().0.iter();
    for hash in places.filter_map(|id| id.first_chunk::<16>()) {
        let _ = sealed.find_id(hash);
    }
}

/// Records sealed and read back; then a byte is another: what is still read is what was written.
fn any_sealed(bytes: &[u8]) {
    let Some(([low, high, change, keys], sizes)) = bytes.split_first_chunk::<4>() else { return };
    let batch = |n: u8| [&[1, b'k', n, 1][..], &[0; 32]].concat();
    let records: Vec<(Lsn, Record)> = (0..)
        .zip(sizes)
        .take(200)
        .map(|(number, size)| {
            let record = match size % 8 {
                7 => record_of(18, number, &batch(*size >> 4)),
                _ => record_of(1, number, &vec![b'x'; usize::from(*size) * 3]),
            };
            (Lsn(11 + number as u64 * 2), record)
        })
        .collect();
    let mut written =
        seal(header(), &records, Vec::new(), Timestamp(i64::from(keys % 2)), true, None);
    let whole = opened(&written).expect("what was sealed opens");
    let read: Vec<_> =
        whole.index.iter().flat_map(|at| block(&written, at).expect("a block")).collect();
    assert_eq!(read, records);
    let events = records.iter().filter(|(_, record)| record.is_event());
    for (position, (_, record)) in (5..).zip(events) {
        let found = whole.find_id(&name_hash(record.id()));
        assert!(whole.without_ids || found == Some(Position(position)), "{found:?} {position}");
    }
    let place = usize::from(u16::from_le_bytes([*low, *high])) % written.len();
    let before = written.clone();
    written[place] ^= change;
    let Ok(found) = opened(&written) else { return };
    assert_eq!(
        (&found.index, &found.batches, found.end, found.chain),
        (&whole.index, &whole.batches, whole.end, whole.chain)
    );
    for at in &whole.index {
        let now = block(&written, at);
        assert!(now.is_none() || now == block(&before, at), "a block nobody wrote");
    }
}

fn opened(bytes: &[u8]) -> Result<SealedTables, sessionlog::log::LogError> {
    SealedTables::read(&*file(bytes), &header(), bytes.len() as u64, None)
}

fn block(bytes: &[u8], at: &sessionlog::log::segment::FrameIndex) -> Option<Vec<(Lsn, Record)>> {
    let bytes = bytes.get(usize::try_from(at.byte_offset).ok()?..)?;
    Frame::read(SALT, &Bytes::copy_from_slice(bytes)).ok()?.records().ok()
}

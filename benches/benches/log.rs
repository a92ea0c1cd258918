//! Micro-benchmarks of the log's codecs: `cargo bench -p sessionlog-bench`. `sessionlog-bench`
//! itself measures the whole program. They must not touch more of the disk than the index needs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sessionlog::{
    env::Env,
    event::{
        EventId, EventType, Incarnation, Lsn, NewEvent, Origin, Position, Scope, SessionHash,
        SessionId, SessionKey, Timestamp,
    },
    log::{
        ChainValue, Cipher, Encryptor, Frame, FrameHeader, FrameKind, KeyNumber, NONCE_BYTES,
        Record, RecordHead,
        keyring::{MasterKey, OwnKey},
        record::{decode, encode},
        scan::scan,
        seal::{SealedTables, seal},
        segment::{SegmentHeader, name_hash},
    },
};

const SALT: u64 = 0x5e55_1011_0610_1234;
/// Events of a slice, and of the segment whose index is searched.
const SLICE: usize = 100;
const SEGMENT: usize = 10_000;

fn session() -> SessionHash {
    let session = SessionId::new("bench").unwrap();
    SessionHash::new(&SessionKey { scope: Scope::local(), session }, Incarnation([7; 16]))
}

fn record(number: usize) -> Record {
    let text = format!("the museum opens at nine, says page {number}; ").repeat(22);
    let event = NewEvent {
        id: None,
        kind: EventType::new("agent.message").unwrap(),
        origin: Origin::Harness,
        created_at: None,
        position: None,
        body: format!(r#"{{"content":"{text}"}}"#).into(),
    };
    let id = EventId::new(&format!("e{number}")).unwrap();
    let now = Timestamp(1_700_000_000_000_000 + number as i64);
    let mut encoded = Vec::new();
    RecordHead::from_event(&event, &id, now).encode([9; 16], &event.body, &mut encoded);
    decode(&encoded.into(), 1).unwrap().remove(0)
}

fn payload(count: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    (0..count).for_each(|number| encode(&record(number), &mut payload));
    payload
}

fn header(count: usize, payload: &[u8]) -> FrameHeader {
    FrameHeader {
        kind: FrameKind::Request,
        length: payload.len() as u32,
        compressed: false,
        count: count as u32,
        events: count as u32,
        first_lsn: Lsn(1),
        synced_lsn: Lsn(1),
        first_position: Position(0),
        session: session(),
        chain: ChainValue::start_of_events(session()),
        control_chain: ChainValue::start_of_controls(session()),
        copy_lsn: Lsn(0),
        encrypted: None,
    }
}

fn records(c: &mut Criterion) {
    let mut group = c.benchmark_group("record");
    let one = record(1);
    let encoded = Bytes::from(payload(1));
    group.throughput(Throughput::Bytes(encoded.len() as u64));
    group.bench_function("encode", |b| {
        let mut out = Vec::with_capacity(encoded.len());
        b.iter(|| {
            out.clear();
            encode(black_box(&one), &mut out);
        });
    });
    group.bench_function("decode", |b| b.iter(|| decode(black_box(&encoded), 1).unwrap()));
    let chain = ChainValue::start_of_events(session());
    group.bench_function("chain", |b| b.iter(|| chain.with_record(black_box(1), &one)));
    group.finish();
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    for count in [1, SLICE] {
        let payload = payload(count);
        let header = header(count, &payload);
        let mut written = Vec::new();
        header.write(SALT, &payload, &mut written);
        let bytes = Bytes::from(written.clone());
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("write", count), |b| {
            b.iter(|| {
                written.clear();
                header.write(SALT, black_box(&payload), &mut written);
            });
        });
        group.bench_function(BenchmarkId::new("read", count), |b| {
            b.iter(|| Frame::read(SALT, black_box(&bytes)).unwrap());
        });
        group.bench_function(BenchmarkId::new("read and decode", count), |b| {
            b.iter(|| Frame::read(SALT, black_box(&bytes)).unwrap().records().unwrap());
        });
    }
    group.finish();
}

/// Measures a position look-up in an open segment (walks its frames) and in a sealed one (reads its
/// tables, then searches them).
fn indexes(c: &mut Criterion) {
    let mut group = c.benchmark_group("index");
    let mut region = Vec::new();
    let one = payload(1);
    (0..SEGMENT).for_each(|_| header(1, &one).write(SALT, &one, &mut region));
    let region = Bytes::from(region);
    group.throughput(Throughput::Elements(SEGMENT as u64));
    group.bench_function("walk an open segment", |b| {
        b.iter(|| scan(SALT, black_box(&region), 0).pieces.len());
    });

    let segment = SegmentHeader {
        store: [1; 16],
        salt: SALT,
        session: session(),
        base: Position(0),
        start: 1,
        first_lsn: Lsn(1),
        chain: ChainValue::start_of_events(session()),
        control_chain: ChainValue::start_of_controls(session()),
        sealed: true,
        key: None,
    };
    let records: Vec<(Lsn, Record)> =
        (0..SEGMENT).map(|number| (Lsn(1 + number as u64), record(number))).collect();
    let bytes = seal(segment, &records, Vec::new(), Timestamp(0), true, None);
    let home = tempfile::tempdir().unwrap();
    let env = Env::open(home.path()).unwrap();
    let file = env.storage.create("segment").unwrap();
    file.write_at(0, &bytes).unwrap();
    let length = bytes.len() as u64;
    group.bench_function("read a sealed segment's tables", |b| {
        b.iter(|| SealedTables::read(&*file, &segment, length, None).unwrap());
    });
    let sealed = SealedTables::read(&*file, &segment, length, None).unwrap();
    let hash = name_hash("e7777");
    group.throughput(Throughput::Elements(1));
    group.bench_function("find an id in them", |b| {
        b.iter(|| sealed.find_id(black_box(&hash)).unwrap());
    });
    group.finish();
}

/// Measures the encryption and decryption of a frame with one event and of one with a slice, and
/// the wrapping and unwrapping of a session's key.
fn ciphers(c: &mut Criterion) {
    let mut group = c.benchmark_group("cipher");
    let cipher = Cipher::new(&[7; 32], [1; 16], KeyNumber(1));
    let nonce = || [5; NONCE_BYTES];
    let encryptor = Encryptor { cipher: &cipher, nonce: &nonce };
    for count in [1, SLICE] {
        let payload = payload(count);
        let frame = Frame { header: header(count, &payload), payload: payload.into() };
        let encrypted = frame.encrypt(encryptor);
        group.throughput(Throughput::Bytes(frame.payload.len() as u64));
        group.bench_function(BenchmarkId::new("encrypt a frame", count), |b| {
            b.iter(|| black_box(&frame).encrypt(encryptor));
        });
        group.bench_function(BenchmarkId::new("decrypt a frame", count), |b| {
            b.iter(|| black_box(&encrypted).clone().decrypt(Some(&cipher)).unwrap());
        });
    }
    group.throughput(Throughput::Elements(1));
    let own = OwnKey::new([3; 32], [1; 16], 7);
    let (master, tag) = (MasterKey::new(&[9; 32]), own.tenant_tag("default"));
    let wrapped = master.wrap([1; 16], KeyNumber(1), tag, &[7; 32], nonce());
    group.bench_function("wrap a key", |b| {
        b.iter(|| master.wrap([1; 16], KeyNumber(1), tag, black_box(&[7; 32]), nonce()));
    });
    group.bench_function("unwrap a key", |b| {
        b.iter(|| master.unwrap([1; 16], black_box(&wrapped)).unwrap());
    });
    group.finish();
}

criterion_group! {
    name = log;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = records, frames, indexes, ciphers
}
criterion_main!(log);

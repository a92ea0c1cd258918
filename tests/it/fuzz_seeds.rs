//! Replays the committed inputs of every fuzz target, so that earlier findings are checked without
//! the fuzzer. Comparisons of the engine with the model get random inputs, too: any bytes are valid
//! requests, and need no fuzzer.

use std::{fs, path::PathBuf};

use sessionlog::env::Entropy as _;
use sessionlog_sim::SeededEntropy;

use crate::life::sweep;

#[cfg(feature = "cli")]
#[path = "../../fuzz/checks/foreign.rs"]
mod foreign;
#[path = "../../fuzz/checks/frame.rs"]
mod frame;
#[path = "../../fuzz/checks/index.rs"]
mod index;
#[cfg(feature = "cli")]
#[path = "../../fuzz/checks/lines.rs"]
mod lines;
#[cfg(feature = "cli")]
#[path = "../../fuzz/checks/query.rs"]
mod query;
#[path = "../../fuzz/checks/recover.rs"]
pub mod recover;
#[path = "../../fuzz/checks/store.rs"]
mod store;
#[path = "../../fuzz/checks/tables.rs"]
mod tables;
#[cfg(feature = "cli")]
#[path = "../../fuzz/checks/wire.rs"]
mod wire;

fn replay(target: &str, check: fn(&[u8])) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("input: {}", path.display());
        check(&fs::read(path).unwrap());
        count += 1;
    }
    assert!(count > 0, "{target} has no seeds");
}

#[test]
fn no_bytes_make_a_codec_panic() {
    replay("frame", frame::check);
}

#[cfg(feature = "cli")]
#[test]
fn no_text_makes_the_wire_panic_or_change_an_event() {
    replay("wire", wire::check);
}

#[cfg(feature = "cli")]
#[test]
fn lines_and_messages_are_parsed_as_reference_parsers_do() {
    replay("lines", lines::check);
}

#[cfg(feature = "cli")]
#[test]
fn foreign_json_of_any_shape_is_read_in_bounded_memory() {
    let name = "fuzz_seeds::foreign_json_of_any_shape_is_read_in_bounded_memory";
    in_little_memory(name, || replay("foreign", foreign::check));
}

#[cfg(feature = "cli")]
#[test]
fn graph_queries_and_searches_run_in_bounded_memory() {
    let name = "fuzz_seeds::graph_queries_and_searches_run_in_bounded_memory";
    in_little_memory(name, || replay("query", query::check));
}

/// Runs the test of that name in a separate process, whose memory the kernel limits: a failed
/// allocation ends it.
#[cfg(feature = "cli")]
fn in_little_memory(name: &str, check: fn()) {
    const ALONE: &str = "SESSIONLOG_IN_LITTLE_MEMORY";
    if std::env::var_os(ALONE).is_some() {
        return check();
    }
    let limited = "ulimit -d 262144 && exec \"$0\" --exact \"$1\" --nocapture";
    let this = std::env::current_exe().unwrap();
    let mut alone = std::process::Command::new("sh");
    let alone = alone.args(["-c", limited]).arg(this).arg(name).env(ALONE, "1").output().unwrap();
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
}

#[test]
fn arbitrary_bytes_are_rejected_as_tables() {
    replay("tables", tables::check);
}

#[test]
fn no_bytes_make_the_index_panic() {
    replay("index", index::check);
    // Each byte at the beginning of a real part as zero, and one in four after it: a count of zero
    // is one of them.
    for place in (0..300_u16).chain((300..1_500).step_by(4)) {
        index::check(&[&[1][..], &place.to_le_bytes(), &[0], b"harbour"].concat());
    }
    sweep(200, |seed| async move {
        // A real part with bytes changed anywhere, to rare values.
        let changes = 1 + seed as usize % 23;
        let mut bytes = vec![0; 1 + 3 * changes];
        SeededEntropy::new(seed).fill(&mut bytes);
        bytes[0] = changes as u8;
        for value in bytes[1..].iter_mut().skip(2).step_by(3) {
            *value = [0, 1, 0x7f, 0x80, 0xff, *value][usize::from(*value) % 6];
        }
        bytes.extend(b"harbour \"of 8 May\" +ledger");
        index::check(&bytes);
    });
}

#[test]
fn the_engine_and_the_model_agree_on_saved_fuzz_seeds() {
    replay("store", store::check);
}

#[test]
fn the_engine_and_the_model_agree_on_random_requests() {
    sweep(60, |seed| async move {
        // Half of them encrypted.
        let mut bytes = vec![0; 600 + (seed % 2) as usize];
        SeededEntropy::new(seed).fill(&mut bytes);
        std::thread::spawn(move || store::check(&bytes)).join().unwrap();
    });
}

#[test]
fn a_changed_byte_is_never_served() {
    replay("recover", recover::check);
}

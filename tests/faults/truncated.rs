//! Segment files that are truncated under readers: the process survives, an error names the
//! unreadable positions, and it must not affect other sessions.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{
    ledger::{Ledger, Tally},
    machine::{eventually, pause},
    served::{Server, Setup},
    writers::{check_all, send},
};

const SESSIONS: [&str; 2] = ["cut", "whole"];

/// Returns the segment files below a data directory, by their extension.
fn segment_files(data: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in fs::read_dir(data.join("segments")).into_iter().flatten().flatten() {
        for file in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|found| found == extension) {
                found.push(file.path());
            }
        }
    }
    found.sort();
    found
}

fn write(server: &Server, known: &mut BTreeMap<String, Ledger>, numbers: std::ops::Range<u64>) {
    let mut tally = Tally::default();
    for (writer, session) in (0..).zip(SESSIONS) {
        let ledger = known.entry(session.to_owned()).or_default();
        for request in numbers.clone() {
            ledger.sends(writer, request);
            let reply = send(&mut server.wire(), session, writer, request).unwrap();
            assert_eq!(reply.status, 200, "{reply:?}");
            let first = reply.json()["first_position"].as_u64().unwrap();
            ledger.acknowledged(writer, request, first, &mut tally);
        }
    }
}

/// Truncates files of session `cut` only: those created while only it is written.
fn cut_under_readers(extension: &str) {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    // Readers that find events in memory never read the file.
    let setup = Setup::new(home.path(), &data).small().with("SESSIONLOG_WARM_BYTES_MAX", "0");
    let sealed = extension == "sealed";
    // Segments that never fill are never sealed, and remain open.
    let setup = if sealed { setup } else { setup.with("SESSIONLOG_SEGMENT_BYTES_MAX", "8MiB") };
    let mut server = setup.up();
    let mut known = BTreeMap::new();
    write(&server, &mut known, 0..120);
    // Flushed and mostly sealed by the timer.
    eventually("segments", || (segment_files(&data, extension).len() >= 2).then_some(()));
    let files = segment_files(&data, extension);
    let hash = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap()[..64].to_owned();
    let victim = hash(files.first().unwrap());
    let (done, told) = (AtomicBool::new(false), AtomicBool::new(false));
    let codes = std::thread::scope(|scope| {
        let reader = |session: &'static str| {
            let (done, told, address) = (&done, &told, server.address);
            scope.spawn(move || {
                let mut codes = BTreeMap::<(u16, String), u64>::new();
                let mut wire = super::http::Wire::new(address);
                while !done.load(Ordering::Acquire) {
                    let path = format!("/v1/sessions/{session}/events?from=0&limit=400");
                    let reply = wire.get(&path).expect("a server that lives answers");
                    *codes.entry(reply.verdict()).or_default() += 1;
                    told.fetch_or(reply.status != 200, Ordering::Release);
                }
                codes
            })
        };
        let readers = SESSIONS.map(reader);
        pause(Duration::from_millis(100));
        let cut = |keep: u64| {
            // Listed again each time: an open segment may be sealed meanwhile, and is then deleted.
            for file in segment_files(&data, extension).iter().filter(|file| hash(file) == victim) {
                if let Ok(file) = fs::File::options().write(true).open(file) {
                    file.set_len(keep).unwrap();
                }
            }
            pause(Duration::from_millis(50));
            told.load(Ordering::Acquire).then_some(())
        };
        eventually("a reader that is told", || cut(100));
        cut(0);
        pause(Duration::from_millis(200));
        done.store(true, Ordering::Release);
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(server.is_alive(), "{}", server.said());
    let typed = |verdict: &(u16, String)| {
        *verdict == (200, String::new()) || *verdict == (423, "session_damaged".to_owned())
    };
    for codes in &codes {
        assert!(codes.keys().all(typed), "{extension}: {codes:?}");
    }
    let hurt = codes.iter().filter(|codes| codes.keys().any(|(status, _)| *status == 423)).count();
    assert_eq!(hurt, 1, "{extension}: one session is hurt and says so: {codes:?}");
    // The other session is unchanged.
    let mut tally = Tally::default();
    let unhurt = SESSIONS.iter().zip(&codes).find(|(_, codes)| codes.len() == 1);
    let (session, _) = unhurt.unwrap();
    known.retain(|name, _| name == session);
    check_all(&mut server.wire(), &mut known, &mut tally);
    tally.assert_nothing_wrong();
    eprintln!("{extension} cut under readers: {codes:?}");
}

#[test]
fn a_sealed_segment_cut_under_readers_is_reported_and_the_server_survives() {
    cut_under_readers("sealed");
}

#[test]
fn an_open_segment_cut_under_readers_is_reported_and_the_server_survives() {
    cut_under_readers("seg");
}

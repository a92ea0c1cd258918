//! A faulty device below a real file system: a write fails while the page cache keeps the new
//! bytes, or the power is cut at any moment. A start must read the device, which must have every
//! acknowledged or served event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    device::Device,
    ledger::{Ledger, Tally},
    machine::{Dice, Loop, Mounted, Need, has, number, pause, run},
    served::Setup,
    writers::{Board, check_all, send},
};

const NEEDS: &[Need] = &[Need::Root, Need::Mount, Need::Loop, Need::Fuse];

/// A file system for the device: how to create it, its minimum size, and how to mount an image of
/// it next to the original.
struct FileSystem {
    make: &'static [&'static str],
    bytes: u64,
    options: &'static str,
}

const EXT4: FileSystem =
    FileSystem { make: &["mkfs.ext4", "-q", "-F"], bytes: 48 << 20, options: "noatime" };
const XFS: FileSystem =
    FileSystem { make: &["mkfs.xfs", "-q", "-f"], bytes: 320 << 20, options: "noatime,nouuid" };

/// A file system on a faulty device, and a directory for an image of it.
struct Machine {
    file_system: FileSystem,
    mounted: Mounted,
    device: Device,
    home: tempfile::TempDir,
}

impl Machine {
    /// Creates a machine; returns `None` and skips the test when a requirement is missing.
    fn new(test: &str, file_system: FileSystem) -> Option<Self> {
        let program = file_system.make[0];
        if !has(test, &[NEEDS, &[Need::Tool(program)]].concat()) {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let device = Device::new(home.path(), file_system.bytes);
        run(program, &[&file_system.make[1..], &[&device.device().device]].concat()).unwrap();
        let path = home.path().join("live");
        let mounted = Mounted::device(device.device(), file_system.options, &path).unwrap();
        Some(Self { file_system, mounted, device, home })
    }

    fn setup(&self) -> Setup {
        let data = self.mounted.path.join("data");
        let setup = Setup::new(self.home.path(), &data);
        setup
            .with("SESSIONLOG_JOURNAL_FILE_BYTES", "256KiB")
            .with("SESSIONLOG_JOURNAL_RETAINED_BYTES", "512KiB")
            .with("SESSIONLOG_SEGMENT_BYTES_MAX", "64KiB")
    }

    /// Cuts the power on a copy, starts a server there, and compares.
    fn after_power_cut(
        &self,
        known: &mut BTreeMap<String, Ledger>,
        dice: &mut Dice,
        tally: &mut Tally,
    ) {
        let looped = Loop::over(&self.device.power_cut(dice)).unwrap();
        self.start_server_on(&looped, known, tally);
    }

    fn start_server_on(
        &self,
        looped: &Loop,
        known: &mut BTreeMap<String, Ledger>,
        tally: &mut Tally,
    ) {
        let path = self.home.path().join("cut");
        let mounted = Mounted::device(looped, self.file_system.options, &path).unwrap();
        let started = Setup::new(self.home.path(), &mounted.path.join("data")).start();
        match started {
            Ok(server) => check_all(&mut server.wire(), known, tally),
            Err(ended) => tally.complain(format!("no start after a power cut: {ended:?}")),
        }
    }
}

/// Sends requests of writer 0 to session `s`, one after the other.
fn send_requests(
    server: &super::served::Server,
    known: &mut BTreeMap<String, Ledger>,
    numbers: std::ops::Range<u64>,
    tally: &mut Tally,
) -> Vec<(u16, String)> {
    let mut wire = server.wire();
    let ledger = known.entry("s".to_owned()).or_default();
    let mut verdicts = Vec::new();
    for request in numbers {
        ledger.sends(0, request);
        let reply = send(&mut wire, "s", 0, request).unwrap();
        if reply.status == 200 {
            let first = reply.json()["first_position"].as_u64().unwrap();
            ledger.acknowledged(0, request, first, tally);
        }
        verdicts.push(reply.verdict());
    }
    verdicts
}

fn a_start_believes_the_device(machine: &Machine) {
    let (mut known, mut tally) = (BTreeMap::new(), Tally::default());
    let mut server = machine.setup().up();
    let answers = send_requests(&server, &mut known, 0..20, &mut tally);
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    machine.device.fail_writes_with("w0r20e0");
    let answers = send_requests(&server, &mut known, 20..21, &mut tally);
    assert_eq!(answers, [(503, "outcome_unknown".to_owned())]);
    assert!(machine.device.heal() > 0, "no write failed");
    server.kill();

    let server = machine.setup().up();
    check_all(&mut server.wire(), &mut known, &mut tally);
    // Every event served so far must be on the device, not only in the page cache.
    let mut dice = Dice(11);
    machine.after_power_cut(&mut known, &mut dice, &mut tally);
    let answers = send_requests(&server, &mut known, 20..25, &mut tally);
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    check_all(&mut server.wire(), &mut known, &mut tally);
    machine.after_power_cut(&mut known, &mut dice, &mut tally);
    tally.assert_nothing_wrong();
}

#[test]
fn a_start_after_a_failed_sync_reads_the_device_not_the_page_cache() {
    for file_system in [EXT4, XFS] {
        if let Some(machine) = Machine::new("a failed sync, then a start", file_system) {
            a_start_believes_the_device(&machine);
        }
    }
}

/// Cuts the power repeatedly while writers write; returns the faults found.
fn cut_power_under_load(machine: &Machine, setup: &Setup, cuts: u64) -> Tally {
    let mut server = setup.up();
    let board = Arc::new(Board::default());
    board.move_to(Some(server.address));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let board = Arc::clone(&board);
            let session = format!("s{}", writer % 2);
            std::thread::spawn(move || board.write(&session, writer))
        })
        .collect();
    let mut dice = Dice(number("SESSIONLOG_SEED", 3) | 1);
    let mut tally = Tally::default();
    for _ in 0..cuts {
        board.wait_for_acknowledged(1);
        pause(Duration::from_millis(dice.roll(400)));
        let before = board.ledgers.lock().unwrap().clone();
        let looped = Loop::over(&machine.device.power_cut(&mut dice)).unwrap();
        let mut known = board.ledgers.lock().unwrap().clone();
        // Events sent meanwhile may exist; only those acknowledged before must.
        for (session, ledger) in &mut known {
            ledger.knows_only(before.get(session));
        }
        tally.acked += known.values().map(|ledger| ledger.acked).sum::<u64>();
        machine.start_server_on(&looped, &mut known, &mut tally);
    }
    board.stop();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    server.kill();
    tally.add(&board.tally.lock().unwrap());
    tally
}

#[test]
fn a_power_cut_under_load_keeps_every_acknowledged_event() {
    let cuts = number("SESSIONLOG_CUTS", 4);
    for file_system in [EXT4, XFS] {
        let name = file_system.make[0];
        let Some(machine) = Machine::new("power cuts under load", file_system) else { continue };
        let tally = cut_power_under_load(&machine, &machine.setup(), cuts);
        tally.assert_nothing_wrong();
        assert!(tally.acked > 0);
        eprintln!("{name}: power cuts {cuts}, acknowledged {}, wrong 0", tally.acked);
    }
}

#[test]
fn a_power_cut_exposes_syncs_that_were_skipped() {
    let test = "power cuts without syncs";
    if !has(test, &[Need::Strace]) {
        return;
    }
    let Some(machine) = Machine::new(test, EXT4) else { return };
    let lies = ["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e"];
    // Written and synced by separate calls, so that the sync alone can be skipped.
    let apart = ["trace=fdatasync,pwritev2", "-e", "inject=pwritev2:error=EOPNOTSUPP"];
    let lies = [&lies[..], &apart, &["-e", "inject=fdatasync:retval=0"]].concat();
    let tally = cut_power_under_load(&machine, &machine.setup().before(&lies), 4);
    assert!(tally.wrong > 0, "without syncs nothing was lost: {tally:?}");
}

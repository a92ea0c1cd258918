//! Each fault of the simulated disk, compared with its description.

use std::{io, sync::Arc, time::Duration};

use sessionlog::{
    env::{File, Storage},
    event::Timestamp,
};
use sessionlog_sim::{Fault, Op, Sim};

const OLD: [u8; 2048] = [1; 2048];
const NEW: [u8; 2048] = [2; 2048];

/// Creates a durable file `f` of old bytes.
fn create_old_file(seed: u64) -> (Sim, Arc<dyn Storage>, Box<dyn File>) {
    let sim = Sim::new(seed);
    let storage = sim.env().storage;
    let file = storage.create("f").expect("created");
    file.write_at(0, &OLD).expect("written");
    file.sync().expect("synced");
    storage.sync_dir("").expect("synced");
    (sim, storage, file)
}

fn contents(sim: &Sim, path: &str) -> Vec<u8> {
    let file = sim.env().storage.open_read(path).expect("opened");
    let mut bytes = vec![0; usize::try_from(file.len().expect("length")).expect("small")];
    file.read_at(0, &mut bytes).expect("read");
    bytes
}

/// Counts each outcome over 200 seeds.
fn count_outcomes<T: Ord>(run: impl Fn(u64) -> T) -> std::collections::BTreeMap<T, u32> {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..200 {
        *seen.entry(run(seed)).or_default() += 1;
    }
    seen
}

#[test]
fn synced_bytes_and_names_survive_a_power_loss() {
    for seed in 0..50 {
        let (sim, _, _) = create_old_file(seed);
        sim.power_loss();
        assert_eq!(contents(&sim, "f"), OLD, "seed {seed}");
    }
}

#[test]
fn each_unsynced_sector_is_old_or_new_after_a_power_loss() {
    let seen = count_outcomes(|seed| {
        let (sim, _, file) = create_old_file(seed);
        file.write_at(0, &NEW).expect("written");
        sim.power_loss();
        let bytes = contents(&sim, "f");
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        sectors
    });
    assert!(seen.contains_key(&vec![1, 1, 1, 1]));
    assert!(seen.contains_key(&vec![2, 2, 2, 2]));
    assert_eq!(seen.len(), 16, "every pattern of four sectors comes up: {seen:?}");
}

#[test]
fn after_a_power_loss_a_file_may_have_grown_without_its_bytes() {
    let seen = count_outcomes(|seed| {
        let (sim, _, file) = create_old_file(seed);
        file.write_at(2048, &NEW[..512]).expect("written");
        sim.power_loss();
        let bytes = contents(&sim, "f");
        (bytes.len() == 2048, bytes.len() == 2560, bytes.get(2048).copied())
    });
    assert!(seen.contains_key(&(true, false, None)), "the size is lost");
    assert!(seen.contains_key(&(false, true, Some(0))), "the size is kept, the bytes are lost");
    assert!(seen.contains_key(&(false, true, Some(2))), "both are kept");
}

#[test]
fn an_unsynced_name_may_or_may_not_survive_a_power_loss() {
    let seen = count_outcomes(|seed| {
        let (sim, storage, _) = create_old_file(seed);
        storage.create("g").and_then(|file| file.sync()).expect("created");
        storage.rename("f", "h").expect("renamed");
        sim.power_loss();
        sim.files()
    });
    for files in [&["f"][..], &["f", "g"], &["h"], &["g", "h"]] {
        let files: Vec<String> = files.iter().map(|name| (*name).to_owned()).collect();
        assert!(seen.contains_key(&files), "{files:?} never came up: {seen:?}");
    }
    assert_eq!(seen.len(), 4, "a rename is whole or absent: {seen:?}");
}

#[test]
fn an_unsynced_directory_loses_its_names_after_a_power_loss() {
    let seen = count_outcomes(|seed| {
        let (sim, storage, _) = create_old_file(seed);
        storage.create_dir("d").expect("created");
        storage.create("d/g").expect("created");
        storage.sync_dir("d").expect("synced");
        sim.power_loss();
        sim.files()
    });
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn a_kill_keeps_the_page_cache_and_frees_the_lock() {
    let (sim, storage, file) = create_old_file(1);
    let held = storage.lock().expect("asked").expect("granted");
    assert!(sim.env().storage.lock().expect("asked").is_none());
    file.write_at(0, &NEW).expect("written");
    sim.kill();
    assert!(file.read_at(0, &mut [0]).is_err(), "a handle of the dead process answers nothing");
    assert!(storage.list("").is_err());
    assert_eq!(contents(&sim, "f"), NEW);
    assert_eq!(sim.read_durable("f").as_deref(), Some(&OLD[..]));
    let again = sim.env().storage.lock().expect("asked").expect("granted");
    drop(held);
    assert!(sim.env().storage.lock().expect("asked").is_none(), "the dead cannot unlock");
    drop(again);
    assert!(sim.env().storage.lock().expect("asked").is_some());
}

#[test]
fn a_sector_written_back_early_keeps_the_bytes_it_had_then() {
    let seen = count_outcomes(|seed| {
        let (sim, storage, file) = create_old_file(seed);
        file.write_at(0, &[2; 512]).expect("written");
        // Each write is a moment at which the kernel may write back; the last of them wins.
        let other = storage.create("g").expect("created");
        other.write_at(0, b"x").expect("written");
        file.write_at(0, &[3; 512]).expect("written");
        file.write_at(0, &[4; 512]).expect("written");
        sim.power_loss();
        contents(&sim, "f")[0]
    });
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn a_failed_sync_may_have_reached_the_device_in_part() {
    let seen = count_outcomes(|seed| {
        let (sim, _, file) = create_old_file(seed);
        file.write_at(0, &NEW).expect("written");
        sim.fail_next(Op::Sync, Fault::Io, false);
        assert!(file.sync().is_err());
        file.evict().expect("evicted");
        contents(&sim, "f").chunks(512).map(|sector| sector[0]).collect::<Vec<u8>>()
    });
    assert!(seen.contains_key(&vec![1, 1, 1, 1]));
    assert!(seen.contains_key(&vec![2, 2, 2, 2]));
    assert!(seen.len() > 10, "every sector is old or new: {seen:?}");
}

#[test]
fn after_a_failed_sync_the_cache_shows_bytes_the_device_never_gets() {
    // Under this seed no sector of the failed sync reaches the device.
    for (fault, spoiled) in [(Fault::Io, 0), (Fault::Spoil, 1)] {
        let (sim, storage, file) = create_old_file(5);
        file.write_at(0, &NEW).expect("written");
        sim.fail_next(Op::Sync, fault, false);
        assert!(file.sync().is_err());
        assert!(sim.struck());
        file.sync().expect("the second sync has nothing to do");
        storage.sync_all().expect("nor has this one");
        assert_eq!(contents(&sim, "f"), NEW);
        file.evict().expect("evicted");
        let device = contents(&sim, "f");
        sim.power_loss();
        assert_eq!(contents(&sim, "f"), device);
        let sectors = |byte| device.chunks(512).filter(|s| s.iter().all(|b| *b == byte)).count();
        assert_eq!((sectors(1), sectors(0)), (4 - spoiled, spoiled), "{fault:?}");
    }
}

#[test]
fn evicting_the_page_cache_keeps_dirty_sectors() {
    let (sim, _, file) = create_old_file(1);
    file.write_at(512, &NEW[..512]).expect("written");
    file.evict().expect("evicted");
    assert_eq!(contents(&sim, "f")[500..520], [[1; 12].as_slice(), &[2; 8]].concat());
}

#[test]
fn a_full_disk_writes_a_part_and_the_rest_once_freed() {
    let (sim, _, file) = create_old_file(1);
    sim.set_capacity(Some(3000));
    let error = file.write_at(2048, &NEW).expect_err("full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!((file.len().expect("length"), sim.used()), (3000, 3000));
    file.write_at(0, &NEW).expect("writing in place needs no space");
    sim.set_capacity(None);
    file.write_at(2048, &NEW).expect("written");
    assert_eq!(contents(&sim, "f"), [NEW, NEW].concat());
}

#[test]
fn a_planned_call_fails_once_or_persistently() {
    let (sim, storage, file) = create_old_file(1);
    sim.fail_call(sim.calls() + 1, Fault::Io, false);
    assert!(file.len().is_ok());
    assert!(file.len().is_err());
    assert!(file.len().is_ok());
    sim.fail_call(sim.calls(), Fault::Full, true);
    assert!(file.read_at(0, &mut [0]).is_ok(), "reading needs no space");
    for _ in 0..2 {
        let error = storage.create("g").err().expect("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    sim.heal();
    assert!(storage.create("g").is_ok());
}

#[test]
fn a_short_or_failed_write_leaves_a_prefix() {
    for fault in [Fault::Short, Fault::Io, Fault::Full, Fault::Kill] {
        let seen = count_outcomes(|seed| {
            let (sim, _, file) = create_old_file(seed);
            sim.fail_next(Op::Write, fault, false);
            assert!(file.write_at(0, &NEW[..4]).is_err());
            contents(&sim, "f").iter().filter(|byte| **byte == 2).count()
        });
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{fault:?}");
    }
}

#[test]
fn a_crash_within_a_call_leaves_it_complete_or_undone() {
    for fault in [Fault::Kill, Fault::PowerLoss] {
        let seen = count_outcomes(|seed| {
            let (sim, _, file) = create_old_file(seed);
            file.write_at(0, &NEW[..512]).expect("written");
            sim.fail_next(Op::Sync, fault, false);
            assert!(file.sync().is_err());
            assert!(file.len().is_err(), "the process is gone");
            sim.read_durable("f").expect("durable")[0]
        });
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [1, 2], "{fault:?}");
    }
}

#[test]
fn bit_rot_is_returned_by_the_next_read() {
    let (sim, _, _) = create_old_file(1);
    sim.flip("f", 700, 1);
    sim.zero_sector("f", 2);
    sim.flip("f", 1 << 40, 0);
    let bytes = contents(&sim, "f");
    assert_eq!((bytes[699], bytes[700], bytes[1023], bytes[1024]), (1, 3, 1, 0));
    assert_eq!((bytes[1535], bytes[1536], bytes.len()), (0, 1, 2048));
    sim.truncate_durable("f", 10);
    assert_eq!(contents(&sim, "f"), OLD[..10]);
    sim.remove_durable("f");
    assert_eq!(sim.read_durable("f"), None);
    sim.write_durable("a/b/g", 2, b"x");
    sim.power_loss();
    assert_eq!(contents(&sim, "a/b/g"), b"\0\0x");
}

#[test]
fn an_unreadable_sector_fails_every_read_until_it_is_rewritten() {
    let (sim, _, file) = create_old_file(1);
    sim.spoil_sector("f", 1);
    let read = |byte_offset, bytes: usize| file.read_at(byte_offset, &mut vec![0; bytes]);
    assert_eq!(read(0, 512).expect("a whole sector"), 512);
    for (byte_offset, bytes) in [(0, 513), (512, 1), (1023, 1), (600, 1000)] {
        let error = read(byte_offset, bytes).expect_err("unreadable");
        assert_eq!(error.raw_os_error(), Some(5), "EIO at {byte_offset}");
    }
    assert_eq!(read(1024, 5000).expect("whole sectors"), 1024);
    sim.power_loss();
    assert!(sim.env().storage.open("f").expect("opened").read_at(512, &mut [0]).is_err());
    let file = sim.env().storage.open("f").expect("opened");
    file.write_at(512, &NEW[..512]).expect("written");
    file.sync().expect("synced");
    assert_eq!(contents(&sim, "f")[512], 2);
}

#[test]
fn swapped_sectors_exchange_their_content_on_the_device() {
    let (sim, _, file) = create_old_file(1);
    file.write_at(512, &NEW[..512]).expect("written");
    file.sync().expect("synced");
    sim.swap_sectors("f", 1, 3);
    sim.swap_sectors("f", 0, 9);
    let first: Vec<u8> = contents(&sim, "f").chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(first, [1, 1, 1, 2]);
}

#[test]
fn an_open_file_stays_readable_after_it_is_unlinked() {
    let (sim, storage, file) = create_old_file(1);
    storage.remove("f").expect("removed");
    assert!(storage.open("f").is_err());
    assert_eq!(file.len().expect("length"), 2048);
    assert_eq!(sim.used(), 0);
}

#[test]
fn read_only_handles_reject_writes_and_invalid_paths_are_rejected() {
    let (_sim, storage, _) = create_old_file(1);
    assert!(storage.open_read("f").expect("opened").write_at(0, b"x").is_err());
    for path in ["", "../f", "/f", "a//f"] {
        let refused = storage.create(path).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::InvalidInput), "{path:?}");
    }
    assert!(storage.create("none/f").is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
    assert!(storage.create("f").is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists));
}

#[test]
fn two_runs_with_one_seed_are_equal() {
    let run = |seed| {
        let (sim, storage, file) = create_old_file(seed);
        for number in 0_u64..20 {
            file.write_at(number * 300, &NEW[..400]).expect("written");
            storage.create(&format!("g{number}")).expect("created");
        }
        sim.power_loss();
        let random: [u8; 16] = sim.env().random();
        (sim.trace(), sim.files(), contents(&sim, "f"), random)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_manual_clock_moves_only_when_advanced() {
    let sim = Sim::new(0);
    let clock = sim.env().clock;
    let start = clock.now();
    sim.clock().advance(Duration::from_micros(1500));
    assert_eq!(
        (clock.now(), clock.monotonic()),
        (start.plus_micros(1500), Duration::from_micros(1500))
    );
    sim.clock().set(Timestamp(5));
    assert_eq!((clock.now(), clock.monotonic()), (Timestamp(5), Duration::from_micros(1500)));
}

#[test]
fn a_write_with_sync_makes_only_its_own_bytes_durable() {
    let seen = count_outcomes(|seed| {
        let (sim, _, file) = create_old_file(seed);
        file.write_at(0, &NEW[..512]).expect("written");
        file.write_durably(512, &NEW[..512]).expect("written and synced");
        sim.power_loss();
        let bytes = contents(&sim, "f");
        (bytes.first().copied(), bytes.get(512).copied())
    });
    assert!(seen.contains_key(&(Some(1), Some(2))), "what was not asked for is lost: {seen:?}");
    assert!(seen.keys().all(|(_, asked)| *asked == Some(2)), "{seen:?}");
}

//! A data directory that cannot be written: mounted read-only, shut down by its file system under a
//! running server (a mount cannot turn read-only while files are open for writing), immutable, of
//! another user. The program must report it with a remedy, and must not change the directory.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use super::{
    device::Device,
    ledger::{Ledger, Tally},
    machine::{Kind, Mounted, Need, SmallDisk, eventually, has, run, text},
    served::{Server, Setup},
    writers::{check_all, send},
};

/// Sends requests `numbers` of writer 0, which must be acknowledged.
fn acknowledged(server: &Server, numbers: std::ops::Range<u64>) -> BTreeMap<String, Ledger> {
    let mut known = BTreeMap::<String, Ledger>::new();
    send_more(server, &mut known, numbers);
    known
}

fn send_more(server: &Server, known: &mut BTreeMap<String, Ledger>, numbers: std::ops::Range<u64>) {
    let (ledger, mut tally) = (known.entry("s".to_owned()).or_default(), Tally::default());
    for request in numbers {
        ledger.sends(0, request);
        let reply = send(&mut server.wire(), "s", 0, request).unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
        let first = reply.json()["first_position"].as_u64().unwrap();
        ledger.acknowledged(0, request, first, &mut tally);
    }
}

fn check_ledgers(server: &Server, known: &mut BTreeMap<String, Ledger>) {
    let mut tally = Tally::default();
    check_all(&mut server.wire(), known, &mut tally);
    tally.assert_nothing_wrong();
}

/// Sends requests from `number` on until the store rejects writes; it must keep rejecting.
fn send_until_read_only(server: &Server, known: &mut BTreeMap<String, Ledger>, mut number: u64) {
    let ledger = known.get_mut("s").unwrap();
    let mut tally = Tally::default();
    let code = eventually("a store that takes no writes", || {
        ledger.sends(0, number);
        let reply = send(&mut server.wire(), "s", 0, number).unwrap();
        if reply.status == 200 {
            // The journal file was open and has space: it accepts writes for a while.
            let first = reply.json()["first_position"].as_u64().unwrap();
            ledger.acknowledged(0, number, first, &mut tally);
            number += 1;
            return None;
        }
        assert_eq!(reply.status, 503, "{reply:?}");
        Some(reply.code()).filter(|code| code == "store_read_only")
    });
    assert_eq!(code, "store_read_only");
    assert!(number < 5000, "{number} requests were acknowledged");
}

#[test]
fn a_start_on_a_read_only_directory_fails_and_changes_nothing() {
    let needs =
        [Need::Root, Need::Mount, Need::Loop, Need::Tool("mkfs.ext4"), Need::Tool("setpriv")];
    if !has("starts on read-only directories", &needs) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let disk = SmallDisk::new(home.path(), Kind::Ext4(16 << 20));
    let data = disk.mounted.path.join("data");
    let setup = Setup::new(home.path(), &data).small();
    let mut server = setup.up();
    let mut known = acknowledged(&server, 0..20);
    server.kill();
    drop(server);

    let refused = |setup: &Setup, words: &[&str]| {
        let ended = setup.start().err().expect("it must not start");
        assert!(ended.code.is_some_and(|code| code != 0 && code != 101), "{ended:?}");
        for word in words {
            assert!(ended.err.contains(word), "{word:?} is missing: {ended:?}");
        }
        assert!(!ended.err.contains("panicked"), "{ended:?}");
    };
    let shown = text(&data);
    run("mount", &["-o", "remount,ro", text(&disk.mounted.path)]).unwrap();
    refused(&setup, &[shown, "Read-only file system"]);
    run("mount", &["-o", "remount,rw", text(&disk.mounted.path)]).unwrap();
    for name in ["LOCK", "journal/0"] {
        let file = data.join(name);
        run("chattr", &["+i", text(&file)]).unwrap();
        refused(&setup, &[shown, "Operation not permitted"]);
        run("chattr", &["-i", text(&file)]).unwrap();
    }
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    refused(&setup.clone().before(&nobody), &[shown, "Permission denied"]);
    fs::set_permissions(data.join("STORE"), fs::Permissions::from_mode(0o000)).unwrap();
    let weak = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    refused(&setup.clone().before(&weak), &[shown, "Permission denied"]);
    fs::set_permissions(data.join("STORE"), fs::Permissions::from_mode(0o600)).unwrap();

    let server = setup.up();
    check_ledgers(&server, &mut known);
    send_more(&server, &mut known, 20..25);
}

#[test]
fn a_world_writable_directory_is_rejected_and_a_world_readable_one_warned_of() {
    let home = tempfile::tempdir().unwrap();
    let setup = Setup::new(home.path(), &home.path().join("data"));
    let mut server = setup.up();
    let mut known = acknowledged(&server, 0..5);
    server.kill();
    let set = |mode| fs::set_permissions(&setup.data, fs::Permissions::from_mode(mode)).unwrap();
    for (mode, refused, warned) in [
        (0o770, true, false),
        (0o720, true, false),
        (0o702, true, false),
        (0o1777, true, false),
        (0o755, false, true),
        (0o750, false, true),
        (0o711, false, true),
        (0o700, false, false),
    ] {
        set(mode);
        match setup.start() {
            Err(ended) => {
                assert!(refused && ended.code == Some(1), "{mode:o}: {ended:?}");
                let words =
                    [format!("mode {mode:04o}"), format!("chmod 700 {}", text(&setup.data))];
                assert!(words.iter().all(|word| ended.err.contains(word)), "{mode:o}: {ended:?}");
            }
            Ok(server) => {
                assert!(!refused, "{mode:o} was not refused");
                assert_eq!(server.said().contains("chmod 700"), warned, "{}", server.said());
                check_ledgers(&server, &mut known);
            }
        }
    }
    assert_eq!(fs::metadata(&setup.data).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn on_a_file_system_turned_read_only_the_store_only_reads() {
    let needs = [Need::Root, Need::Mount, Need::Loop, Need::Fuse, Need::Tool("mkfs.ext4")];
    if !has("a file system that gives up", &needs) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let device = Device::new(home.path(), 32 << 20);
    run("mkfs.ext4", &["-q", "-F", &device.device().device]).unwrap();
    let options = "noatime,errors=remount-ro";
    let path = home.path().join("disk");
    let mounted = Mounted::device(device.device(), options, &path).unwrap();
    let setup = Setup::new(home.path(), &mounted.path.join("data")).small();
    let mut server = setup.up();
    let mut known = acknowledged(&server, 0..30);
    assert_eq!(server.wire().get("/readyz").unwrap().status, 200);

    device.fail_every_write();
    send_until_read_only(&server, &mut known, 30);
    let ready = server.wire().get("/readyz").unwrap();
    assert_eq!(ready.verdict(), (503, "store_read_only".to_owned()));
    assert_eq!(server.wire().get("/healthz").unwrap().status, 200);
    check_ledgers(&server, &mut known);
    assert!(server.is_alive());
    server.kill();
    drop(server);

    assert!(device.heal() > 0, "no write failed");
    mounted.unmount();
    let mounted = Mounted::device(device.device(), options, &path).unwrap();
    let server = setup.up();
    check_ledgers(&server, &mut known);
    drop(server);
    mounted.unmount();
}

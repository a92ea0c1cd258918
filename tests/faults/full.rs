//! A disk that is full to the last block or inode: appends are rejected with a named error, reads
//! continue, a start works, deletions and erasures free bytes, and appends resume once there is
//! space, without another start.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{
    ledger::{Ledger, Tally},
    machine::{Kind, SmallDisk, eventually, has},
    served::{Server, Setup},
    writers::{check_all, send},
};

const DISK_BYTES: u64 = 16 << 20;

struct Client {
    known: BTreeMap<String, Ledger>,
    next: u64,
    tally: Tally,
}

impl Client {
    /// Sends one request; returns its status and code.
    fn request(&mut self, server: &Server) -> (u16, String) {
        let ledger = self.known.entry("s".to_owned()).or_default();
        ledger.sends(0, self.next);
        let reply = send(&mut server.wire(), "s", 0, self.next).unwrap();
        if reply.status == 200 {
            let first = reply.json()["first_position"].as_u64().unwrap();
            ledger.acknowledged(0, self.next, first, &mut self.tally);
            self.next += 1;
        }
        reply.verdict()
    }

    /// Sends requests until the disk is full and every later append is rejected.
    fn send_until_rejected(&mut self, server: &Server) {
        let mut verdicts = (0..2000).map(|_| self.request(server));
        let first = verdicts.find(|(status, _)| *status != 200);
        let refused: Vec<_> = first.into_iter().chain(verdicts.take(3)).collect();
        assert_eq!(refused, vec![(507, "disk_full".to_owned()); 4], "{}", server.said());
    }

    fn check(&mut self, server: &Server) {
        check_all(&mut server.wire(), &mut self.known, &mut self.tally);
        self.tally.assert_nothing_wrong();
    }
}

/// Fills the rest of a disk. If not even this file can be created, it is full.
fn fill_disk(path: &Path) {
    let Ok(mut file) = fs::File::create(path) else { return };
    for bytes in [1 << 16, 1 << 12, 1] {
        let part = vec![7; bytes];
        while file.write_all(&part).is_ok() {}
    }
    let _ = file.sync_all();
}

/// Returns text that hardly compresses.
fn incompressible(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let digit = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state >> 32) as u8 % 64).to_string().replace(['\\', '"'], "~")
    };
    (0..bytes).map(digit).collect()
}

#[test]
fn a_full_disk_rejects_writes_serves_reads_and_accepts_writes_once_freed() {
    let kind = Kind::Ext4(DISK_BYTES);
    if !has("a full disk", &kind.needs()) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(home.path(), kind);
    let data = disk.mounted.path.join("data");
    let ballast = disk.mounted.path.join("ballast");
    // A journal that grows until the disk is full: no file is recycled before it is flushed.
    let setup = Setup::new(home.path(), &data).small();
    let mut server = setup.up();
    let mut client = Client { known: BTreeMap::new(), next: 0, tally: Tally::default() };
    for _ in 0..40 {
        assert_eq!(client.request(&server).0, 200);
    }
    // Bodies that do not compress, two MiB in total.
    append_until_full(&server, "gone", 32);
    fill_disk(&ballast);
    client.send_until_rejected(&server);
    client.check(&server);
    server.kill();

    // Nothing was freed: the start finds the disk as full as before.
    fill_disk(&disk.mounted.path.join("more"));
    let server = setup.up();
    client.check(&server);
    client.send_until_rejected(&server);
    let deleted = server.wire().call("DELETE", "/v1/sessions/other", &[], "").unwrap();
    assert_eq!(deleted.verdict(), (404, "session_not_found".to_owned()));

    // A deletion that can be undone frees nothing. It is rejected, and the error names the
    // permanent one, which frees bytes; or its frame, which is smaller than an event's, fits the
    // rest of the journal file.
    let undoable = server.wire().call("DELETE", "/v1/sessions/gone", &[], "").unwrap();
    if undoable.status != 200 {
        let verdict = undoable.verdict();
        assert_eq!(verdict, (507, "disk_full".to_owned()), "{}", server.said());
        let hint = undoable.json()["error"]["recovery_hint"]["action"].to_string();
        assert!(hint.contains("/v1/sessions/gone?now=true"), "{hint}");
    }
    // A permanent deletion is accepted, and again as a retry; its space is free without another
    // start.
    for verdict in [(200, String::new()), (410, "session_deleted".to_owned())] {
        let deleted = server.wire().call("DELETE", "/v1/sessions/gone?now=true", &[], "").unwrap();
        assert_eq!(deleted.verdict(), verdict, "{}", server.said());
    }
    client.check(&server);
    for _ in 0..50 {
        let verdict = client.request(&server);
        assert_eq!(verdict, (200, String::new()), "the deletion made room: {}", server.said());
    }
    client.check(&server);

    fs::remove_file(&ballast).unwrap();
    for _ in 0..200 {
        assert_eq!(client.request(&server), (200, String::new()), "room again, without a start");
    }
    client.check(&server);
    drop(server);
    client.check(&setup.up());
    eprintln!("acknowledged {}, lost 0", client.tally.acked);
}

/// A disk on which another program repeatedly takes all free space.
struct Greedy {
    disk: SmallDisk,
    /// True to exhaust inodes, false to exhaust bytes.
    inodes: bool,
    taken: usize,
}

impl Greedy {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.mounted.path.join(name)
    }

    /// Takes the remaining space.
    fn take_space(&mut self) {
        self.taken += 1;
        let ballast = self.path(&format!("ballast{}", self.taken));
        if !self.inodes {
            fill_disk(&ballast);
            // XFS rejects new files long before it is full: an existing file can still grow.
            return grow_until_full(&self.path("ballast1"));
        }
        if fs::create_dir(&ballast).is_ok() {
            let mut name = 0..;
            while fs::File::create(ballast.join(name.next().unwrap().to_string())).is_ok() {}
        }
    }

    /// Releases all of it.
    fn release_space(&self) {
        for number in 1..=self.taken {
            let ballast = self.path(&format!("ballast{number}"));
            let _ = fs::remove_file(&ballast);
            let _ = fs::remove_dir_all(&ballast);
        }
    }
}

/// Grows a file until the disk is full.
fn grow_until_full(path: &Path) {
    let Ok(mut file) = fs::File::options().append(true).open(path) else { return };
    for bytes in [1 << 12, 1] {
        while file.write_all(&vec![7; bytes]).is_ok() {}
    }
    let _ = file.sync_all();
}

/// Returns the readiness that the server reports.
fn server_readiness(server: &Server) -> (u16, String) {
    server.wire().call("GET", "/readyz", &[], "").unwrap().verdict()
}

/// Waits until an append is accepted and the server reports readiness, without a restart.
fn await_recovery(server: &Server, client: &mut Client) {
    eventually("readiness", || (server_readiness(server).0 == 200).then_some(()));
    for _ in 0..20 {
        assert_eq!(client.request(server), (200, String::new()), "ready: {}", server.said());
    }
    client.check(server);
}

/// Appends up to `events` bodies that do not compress, until one is rejected.
fn append_until_full(server: &Server, session: &str, events: usize) {
    let path = format!("/v1/sessions/{session}/events?create=true");
    for n in 0..events {
        let event =
            format!(r#"{{"type":"user.message","text":"{}"}}"#, incompressible(n as u64, 1 << 16));
        let body = format!(r#"{{"events":[{event}]}}"#);
        if server.wire().call("POST", &path, &[], &body).unwrap().status != 200 {
            return;
        }
    }
}

/// Checks that permanent deletions and erasures are accepted and free bytes, the last one by the
/// command line, which starts an owner for it.
fn check_deletions(setup: &Setup, server: &mut Server, greedy: &mut Greedy) {
    let erased = "/v1/sessions/erased/erase";
    for (method, path) in [("POST", erased), ("DELETE", "/v1/sessions/deleted?now=true")] {
        greedy.take_space();
        let freed = server.wire().call(method, path, &[], "").unwrap();
        // An erasure first flushes the journal's events of other sessions, which may need more
        // space.
        let mut taken = vec![(200, String::new())];
        taken.extend((path == erased).then(|| (503, "not_finished".to_owned())));
        assert!(taken.contains(&freed.verdict()), "{path}: {} {}", freed.body, server.said());
    }
    greedy.take_space();
    server.kill();
    greedy.take_space();
    let told = setup.command(&["delete", "gone", "--now", "--yes"]).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    greedy.take_space();
}

fn a_disk_without_room_starts_reads_frees_and_heals(name: &str, kind: Kind) {
    if !has(name, &kind.needs()) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let inodes = matches!(kind, Kind::FewInodes(..));
    let mut greedy = Greedy { disk: SmallDisk::new(home.path(), kind), inodes, taken: 0 };
    let setup = Setup::new(home.path(), &greedy.path("data"))
        .with("SESSIONLOG_JOURNAL_FILE_BYTES", "1MiB")
        .with("SESSIONLOG_SETTLE_AFTER", "200ms");
    let mut client = Client { known: BTreeMap::new(), next: 0, tally: Tally::default() };
    let mut server = setup.up();
    assert_eq!(client.request(&server).0, 200);
    // After a clean stop the journal is empty, yet the first append needs a file.
    server.stop();
    greedy.take_space();
    server = setup.up();
    eventually("that it is not ready", || (server_readiness(&server).0 == 507).then_some(()));
    greedy.release_space();
    await_recovery(&server, &mut client);
    for session in ["deleted", "erased", "gone"] {
        append_until_full(&server, session, 4);
    }
    for _ in 0..40 {
        assert_eq!(client.request(&server).0, 200);
    }
    let reserve =
        (0..8).map(|n| if n == 0 { "reserve".to_owned() } else { format!("reserve.{n}") });
    let reserve: Vec<PathBuf> = reserve.map(|file| greedy.path("data").join(file)).collect();
    eventually("the reserve", || reserve.iter().all(|file| file.exists()).then_some(()));
    assert_eq!(server_readiness(&server).0, 200);
    // Once after a kill, once after a stop, each time with a completely full disk: a start only has
    // the space that the store reserved.
    server.kill();
    greedy.take_space();
    server = setup.up();
    client.check(&server);
    append_until_full(&server, "stuffing", 1_000);
    client.send_until_rejected(&server);
    assert_eq!(server_readiness(&server), (507, "disk_full".to_owned()));
    greedy.take_space();
    server.stop();
    greedy.take_space();
    server = setup.up();
    client.check(&server);
    let told = eventually("that it is not ready, though no append was tried", || {
        let told = server.wire().call("GET", "/readyz", &[], "").unwrap();
        (told.verdict() == (507, "disk_full".to_owned())).then_some(told)
    });
    let action = told.json()["error"]["recovery_hint"]["action"].to_string();
    assert_eq!((action.contains("inode"), action.contains("space")), (inodes, !inodes), "{action}");
    client.send_until_rejected(&server);
    check_deletions(&setup, &mut server, &mut greedy);
    server = setup.up();
    client.check(&server);
    for session in ["deleted", "erased", "gone"] {
        let path = format!("/v1/sessions/{session}/events");
        assert_eq!(server.wire().call("GET", &path, &[], "").unwrap().status, 410, "{session}");
    }
    // The erasure flushed the journal: its files may have free space again.
    append_until_full(&server, "stuffing", 1_000);
    client.send_until_rejected(&server);
    assert_eq!(server_readiness(&server), (507, "disk_full".to_owned()));
    greedy.release_space();
    await_recovery(&server, &mut client);
    let erased = server.wire().call("POST", "/v1/sessions/erased/erase", &[], "").unwrap();
    assert_eq!(erased.verdict(), (200, String::new()), "{}", server.said());
    eventually("the reserve", || reserve.iter().all(|file| file.exists()).then_some(()));
    drop(server);
    client.check(&setup.up());
}

#[test]
fn a_store_on_ext4_without_free_blocks_starts_reads_and_recovers() {
    let kind = Kind::Ext4(32 << 20);
    a_disk_without_room_starts_reads_frees_and_heals("a full ext4", kind);
}

#[test]
fn a_store_on_ext4_without_free_inodes_starts_reads_and_recovers() {
    let kind = Kind::FewInodes(32 << 20, 200);
    a_disk_without_room_starts_reads_frees_and_heals("an ext4 without inodes", kind);
}

#[test]
fn a_store_on_xfs_without_free_blocks_starts_reads_and_recovers() {
    a_disk_without_room_starts_reads_frees_and_heals("a full XFS", Kind::Xfs(300 << 20));
}

//! A disk that is full to the last block or inode: appends are refused with a named error, reads
//! continue, a start works, deletions and erasures free bytes, and appends resume when there is
//! room, without another start.

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
    /// One request; returns its answer.
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

    /// Sends requests until the disk has no room, and every later answer is a refusal.
    fn until_refused(&mut self, server: &Server) {
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

/// Fills the rest of a disk. Where not even this file can be made, it is full.
fn fill(path: &Path) {
    let Ok(mut file) = fs::File::create(path) else { return };
    for bytes in [1 << 16, 1 << 12, 1] {
        let part = vec![7; bytes];
        while file.write_all(&part).is_ok() {}
    }
    let _ = file.sync_all();
}

/// Text that compresses little.
fn noise(seed: u64, bytes: usize) -> String {
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
fn on_a_full_disk_the_server_refuses_reads_restarts_and_continues_when_there_is_room() {
    let kind = Kind::Ext4(DISK_BYTES);
    if !has("a full disk", &kind.needs()) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(home.path(), kind);
    let data = disk.mounted.path.join("data");
    let ballast = disk.mounted.path.join("ballast");
    // A ring that grows until the disk is full: nothing is recycled before it is flushed.
    let setup = Setup::new(home.path(), &data).small();
    let mut server = setup.up();
    let mut client = Client { known: BTreeMap::new(), next: 0, tally: Tally::default() };
    for _ in 0..40 {
        assert_eq!(client.request(&server).0, 200);
    }
    // Bodies that do not compress, two MiB of them.
    stuff(&server, "gone", 32);
    fill(&ballast);
    client.until_refused(&server);
    client.check(&server);
    server.kill();

    // Nothing was freed: the start finds a disk as full as before.
    fill(&disk.mounted.path.join("more"));
    let server = setup.up();
    client.check(&server);
    client.until_refused(&server);
    let deleted = server.wire().call("DELETE", "/v1/sessions/other", &[], "").unwrap();
    assert_eq!(deleted.verdict(), (404, "session_not_found".to_owned()));

    // A deletion that can be undone frees nothing. It is refused, and the refusal names the one
    // that frees; or its frame, which is smaller than an event's, fits what is left of the file of
    // the journal.
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

/// A disk of which another program takes all that it can get, again and again.
struct Greedy {
    disk: SmallDisk,
    /// The resource used up: inodes, or else bytes.
    inodes: bool,
    taken: usize,
}

impl Greedy {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.mounted.path.join(name)
    }

    /// Takes what is left.
    fn take(&mut self) {
        self.taken += 1;
        let ballast = self.path(&format!("ballast{}", self.taken));
        if !self.inodes {
            fill(&ballast);
            // XFS keeps a file from being made long before it is full: what has a name grows.
            return fill_behind(&self.path("ballast1"));
        }
        if fs::create_dir(&ballast).is_ok() {
            let mut name = 0..;
            while fs::File::create(ballast.join(name.next().unwrap().to_string())).is_ok() {}
        }
    }

    /// Gives all of it back.
    fn give(&self) {
        for number in 1..=self.taken {
            let ballast = self.path(&format!("ballast{number}"));
            let _ = fs::remove_file(&ballast);
            let _ = fs::remove_dir_all(&ballast);
        }
    }
}

/// Lets a file take what is left.
fn fill_behind(path: &Path) {
    let Ok(mut file) = fs::File::options().append(true).open(path) else { return };
    for bytes in [1 << 12, 1] {
        while file.write_all(&vec![7; bytes]).is_ok() {}
    }
    let _ = file.sync_all();
}

/// Readiness of the server, as it reports it.
fn ready(server: &Server) -> (u16, String) {
    server.wire().call("GET", "/readyz", &[], "").unwrap().verdict()
}

/// Waits until an append is taken and the server says that it is ready, without a start.
fn heals(server: &Server, client: &mut Client) {
    eventually("readiness", || (ready(server).0 == 200).then_some(()));
    for _ in 0..20 {
        assert_eq!(client.request(server), (200, String::new()), "ready: {}", server.said());
    }
    client.check(server);
}

/// Appends bodies that do not compress, so many or until one is refused.
fn stuff(server: &Server, session: &str, events: usize) {
    let path = format!("/v1/sessions/{session}/events?create=true");
    for n in 0..events {
        let event = format!(r#"{{"type":"user.message","text":"{}"}}"#, noise(n as u64, 1 << 16));
        let body = format!(r#"{{"events":[{event}]}}"#);
        if server.wire().call("POST", &path, &[], &body).unwrap().status != 200 {
            return;
        }
    }
}

/// Permanent deletions and erasures are taken and free what was there, the last one by the command
/// line, which starts an owner for it.
fn frees(setup: &Setup, server: &mut Server, greedy: &mut Greedy) {
    let erased = "/v1/sessions/erased/erase";
    for (method, path) in [("POST", erased), ("DELETE", "/v1/sessions/deleted?now=true")] {
        greedy.take();
        let freed = server.wire().call(method, path, &[], "").unwrap();
        // An erasure flushes what the journal has of others first: that may need more room.
        let mut taken = vec![(200, String::new())];
        taken.extend((path == erased).then(|| (503, "not_finished".to_owned())));
        assert!(taken.contains(&freed.verdict()), "{path}: {} {}", freed.body, server.said());
    }
    greedy.take();
    server.kill();
    greedy.take();
    let told = setup.command(&["delete", "gone", "--now", "--yes"]).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    greedy.take();
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
    // After a clean stop nothing waits to be written, yet the first append needs a file.
    server.stop();
    greedy.take();
    server = setup.up();
    eventually("that it is not ready", || (ready(&server).0 == 507).then_some(()));
    greedy.give();
    heals(&server, &mut client);
    for session in ["deleted", "erased", "gone"] {
        stuff(&server, session, 4);
    }
    for _ in 0..40 {
        assert_eq!(client.request(&server).0, 200);
    }
    let reserve =
        (0..8).map(|n| if n == 0 { "reserve".to_owned() } else { format!("reserve.{n}") });
    let reserve: Vec<PathBuf> = reserve.map(|file| greedy.path("data").join(file)).collect();
    eventually("the reserve", || reserve.iter().all(|file| file.exists()).then_some(()));
    assert_eq!(ready(&server).0, 200);
    // Once killed, once stopped, each time with the disk as full as it can be: a start has nothing
    // but what the store kept back.
    server.kill();
    greedy.take();
    server = setup.up();
    client.check(&server);
    stuff(&server, "stuffing", 1_000);
    client.until_refused(&server);
    assert_eq!(ready(&server), (507, "disk_full".to_owned()));
    greedy.take();
    server.stop();
    greedy.take();
    server = setup.up();
    client.check(&server);
    let told = eventually("that it is not ready, though no append was tried", || {
        let told = server.wire().call("GET", "/readyz", &[], "").unwrap();
        (told.verdict() == (507, "disk_full".to_owned())).then_some(told)
    });
    let action = told.json()["error"]["recovery_hint"]["action"].to_string();
    assert_eq!((action.contains("inode"), action.contains("space")), (inodes, !inodes), "{action}");
    client.until_refused(&server);
    frees(&setup, &mut server, &mut greedy);
    server = setup.up();
    client.check(&server);
    for session in ["deleted", "erased", "gone"] {
        let path = format!("/v1/sessions/{session}/events");
        assert_eq!(server.wire().call("GET", &path, &[], "").unwrap().status, 410, "{session}");
    }
    // The erasure flushed what others had in the journal: its files may have room again.
    stuff(&server, "stuffing", 1_000);
    client.until_refused(&server);
    assert_eq!(ready(&server), (507, "disk_full".to_owned()));
    greedy.give();
    heals(&server, &mut client);
    let erased = server.wire().call("POST", "/v1/sessions/erased/erase", &[], "").unwrap();
    assert_eq!(erased.verdict(), (200, String::new()), "{}", server.said());
    eventually("the reserve", || reserve.iter().all(|file| file.exists()).then_some(()));
    drop(server);
    client.check(&setup.up());
}

#[test]
fn an_ext4_without_blocks_starts_reads_frees_and_heals() {
    let kind = Kind::Ext4(32 << 20);
    a_disk_without_room_starts_reads_frees_and_heals("a full ext4", kind);
}

#[test]
fn an_ext4_without_inodes_starts_reads_frees_and_heals() {
    let kind = Kind::FewInodes(32 << 20, 200);
    a_disk_without_room_starts_reads_frees_and_heals("an ext4 without inodes", kind);
}

#[test]
fn an_xfs_without_blocks_starts_reads_frees_and_heals() {
    a_disk_without_room_starts_reads_frees_and_heals("a full XFS", Kind::Xfs(300 << 20));
}

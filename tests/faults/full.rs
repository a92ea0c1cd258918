//! A disk that is full to the last block: appends are refused with a named error, reads continue, a
//! start works, and appends resume when there is room, without another start.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path};

use super::{
    ledger::{Ledger, Tally},
    machine::{Need, SmallDisk, has},
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

/// Fills the rest of a disk.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
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
fn a_full_disk_refuses_reads_starts_and_goes_on_when_there_is_room() {
    let needs = [Need::Root, Need::Mount, Need::Loop, Need::Tool("mkfs.ext4")];
    if !has("a full disk", &needs) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(home.path(), DISK_BYTES);
    let data = disk.mounted.path.join("data");
    let ballast = disk.mounted.path.join("ballast");
    // A ring that grows until the disk is full: nothing is recycled before it is settled.
    let setup = Setup::new(home.path(), &data).small();
    let mut server = setup.up();
    let mut client = Client { known: BTreeMap::new(), next: 0, tally: Tally::default() };
    for _ in 0..40 {
        assert_eq!(client.request(&server).0, 200);
    }
    // Bodies that do not compress, two MiB of them.
    for n in 0..32 {
        let event = format!(r#"{{"type":"user.message","text":"{}"}}"#, noise(n, 1 << 16));
        let body = format!(r#"{{"events":[{event}]}}"#);
        let path = "/v1/sessions/gone/events?create=true";
        assert_eq!(server.wire().call("POST", path, &[], &body).unwrap().status, 200);
    }
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

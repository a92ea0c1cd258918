//! A workload for a server that may die or fail at any call: appends to two sessions, and, in some
//! plots, redactions and a change of the master key. Its client records the results, and checks
//! what the next start serves. It must not depend on a fault.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use super::{
    harness::CANARY,
    http::{Reply, Wire},
    ledger::{Ledger, Mark, Tally},
    machine::{run, text},
    served::{Server, Setup},
    work::{key, search},
    writers::{check_all, send},
};

pub const SESSIONS: [&str; 2] = ["a", "b"];
/// Number of requests of a story to each session.
pub const REQUESTS: u64 = 40;
/// Number of requests between two redactions.
const REDACTED_EVERY: u64 = 3;
/// Number of requests before the master key is changed.
const ROTATED_AFTER: u64 = 10;

/// Work of a story in addition to appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// The store is created first.
    Creation,
    Appends,
    /// Events are redacted.
    Redactions,
    /// Events are redacted in an encrypted store whose master key is changed.
    Rotation,
}

impl Plot {
    /// Configures a server with the first master key, or the next one.
    fn setup(self, home: &Path, changed: bool) -> Setup {
        let setup = Setup::new(home, &home.join("data")).small();
        match self {
            Self::Creation | Self::Appends => setup,
            // Uncompressed, so that a remaining body would be found.
            Self::Redactions => setup.with("SESSIONLOG_COMPRESSION", "off"),
            Self::Rotation if changed => {
                setup.with("SESSIONLOG_KEY", &key(2)).with("SESSIONLOG_KEY_PREVIOUS", &key(1))
            }
            Self::Rotation => setup.with("SESSIONLOG_KEY", &key(1)),
        }
    }
}

/// A data directory after a kill, or none yet, and its clients' ledgers.
pub struct Before {
    home: tempfile::TempDir,
    pub plot: Plot,
    pub known: BTreeMap<String, Ledger>,
    pub next: u64,
}

impl Before {
    pub fn new(plot: Plot) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut known = BTreeMap::new();
        if plot == Plot::Creation {
            return Self { home, plot, known, next: 0 };
        }
        let mut server = plot.setup(home.path(), false).up();
        // Its master key is the only one so far.
        let first = if plot == Plot::Rotation { Plot::Redactions } else { plot };
        let mut story = Story::new(first, &mut known, 0);
        story.tell(&mut server, 30);
        assert_eq!(story.next, 30, "{:?}", story.tally);
        let next = story.next;
        server.kill();
        drop(server);
        Self { home, plot, known, next }
    }

    /// Continues the story from here.
    pub fn story<'a>(&self, known: &'a mut BTreeMap<String, Ledger>) -> Story<'a> {
        Story::new(self.plot, known, self.next)
    }

    /// Copies the directory; returns a server of the copy under the wrapper `words`.
    pub fn under(&self, words: &[String]) -> (tempfile::TempDir, Setup) {
        let copy = self.copy();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let setup = self.plot.setup(copy.path(), true).before(&words);
        (copy, setup)
    }

    /// Copies the directory, to be damaged.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        let from = self.home.path().join("data");
        if self.plot != Plot::Creation {
            run("cp", &["-a", text(&from), text(&copy.path().join("data"))]).unwrap();
            let _ = fs::remove_file(copy.path().join("data/owner.sock"));
        }
        copy
    }

    /// Checks after any fault that the next start agrees with the ledgers, and completes the story.
    pub fn judge(
        &self,
        copy: &Path,
        known: &mut BTreeMap<String, Ledger>,
        next: u64,
        tally: &mut Tally,
    ) {
        let mut server = match self.plot.setup(copy, true).start() {
            Ok(server) => server,
            Err(ended) => return tally.complain(format!("no start afterwards: {ended:?}")),
        };
        let mut story = Story::new(self.plot, known, next);
        story.tell(&mut server, next + 3);
        if story.next < next + 3 {
            tally.complain(format!("no writes afterwards: {:?}", story.refused));
        }
        tally.add(&story.tally);
        check_all(&mut server.wire(), known, tally);
        let found = server.wire().post("/v1/admin/verify", "{}").unwrap().json();
        if found["damage"] != serde_json::json!([]) {
            tally.complain(format!("damage afterwards: {found}"));
        }
        if self.plot == Plot::Rotation {
            self.complete_rotation(server, copy, known, tally);
        }
        let words: Vec<String> = match self.plot {
            Plot::Creation | Plot::Appends => return,
            Plot::Redactions => known.values().flat_map(Ledger::gone).map(Mark::text).collect(),
            Plot::Rotation => vec![CANARY.to_owned()],
        };
        search(&copy.join("data"), &words, tally);
    }

    /// Completes the rotation; then opens the store without the earlier key.
    fn complete_rotation(
        &self,
        mut server: Server,
        copy: &Path,
        known: &mut BTreeMap<String, Ledger>,
        tally: &mut Tally,
    ) {
        let done = (0..20).any(|_| {
            let reply = server.wire().post("/v1/admin/keys/rotate", "{}");
            reply.is_ok_and(|reply| reply.status == 200 && is_rotated(&reply))
        });
        server.kill();
        if !done {
            tally.complain("the rotation has no end".to_owned());
        }
        let setup = Setup::new(copy, &copy.join("data")).small().with("SESSIONLOG_KEY", &key(2));
        match setup.start() {
            Ok(server) => check_all(&mut server.wire(), known, tally),
            Err(ended) => tally.complain(format!("no start without the key before: {ended:?}")),
        }
    }
}

/// Returns true if no key is wrapped under the previous master key any more.
fn is_rotated(reply: &Reply) -> bool {
    let told = reply.json();
    told["previous"].is_null() && told["behind"] == 0
}

/// A client that retries until it gets a result, and records the results.
pub struct Story<'a> {
    plot: Plot,
    known: &'a mut BTreeMap<String, Ledger>,
    began: u64,
    pub next: u64,
    rotated: bool,
    pub tally: Tally,
    /// Rejections.
    pub refused: Vec<Reply>,
}

impl<'a> Story<'a> {
    fn new(plot: Plot, known: &'a mut BTreeMap<String, Ledger>, next: u64) -> Self {
        let (tally, refused) = (Tally::default(), Vec::new());
        Self { plot, known, began: next, next, rotated: false, tally, refused }
    }

    /// Sends requests up to number `to`, each to both sessions, with a few retries. Ends early when
    /// the server is gone.
    pub fn tell(&mut self, server: &mut Server, to: u64) {
        let mut wire = server.wire().patient(Duration::from_secs(20));
        while self.next < to {
            if !self.send_round(&mut wire) {
                if self.refused.is_empty() && !server.ends_soon() {
                    self.tally.complain("no answer from a server that lives".to_owned());
                }
                return;
            }
            self.next += 1;
        }
    }

    /// Sends one request to each session, and the plot's request of that number.
    fn send_round(&mut self, wire: &mut Wire) -> bool {
        let mut sessions = (0..).zip(SESSIONS);
        if !sessions.all(|(writer, session)| self.append(wire, session, writer)) {
            return false;
        }
        let redacts = matches!(self.plot, Plot::Redactions | Plot::Rotation)
            && self.next.is_multiple_of(REDACTED_EVERY);
        if redacts && !self.redact(wire) {
            return false;
        }
        let due = self.next >= self.began + ROTATED_AFTER && !self.rotated;
        self.plot != Plot::Rotation || !due || self.rotate(wire)
    }

    fn append(&mut self, wire: &mut Wire, session: &str, writer: u64) -> bool {
        let next = self.next;
        self.known.entry(session.to_owned()).or_default().sends(writer, next);
        let Some(reply) = self.request_result(|| send(wire, session, writer, next)) else {
            return false;
        };
        let first = reply.json()["first_position"].as_u64().unwrap();
        let ledger = self.known.entry(session.to_owned()).or_default();
        ledger.acknowledged(writer, next, first, &mut self.tally);
        true
    }

    /// Redacts an event of the first session, half as old as the session: it is in the journal, an
    /// open segment, or a sealed one.
    fn redact(&mut self, wire: &mut Wire) -> bool {
        let (session, mark) = (SESSIONS[0], Mark { writer: 0, request: self.next / 2, place: 0 });
        let path = format!("/v1/sessions/{session}/events/{}/redact", mark.name());
        self.known.entry(session.to_owned()).or_default().takes_away(mark, false);
        let Some(reply) = self.request_result(|| wire.post(&path, "{}")) else { return false };
        if reply.json()["redacted"] != true {
            self.tally.complain(format!("not redacted: {reply:?}"));
        }
        self.known.entry(session.to_owned()).or_default().takes_away(mark, true);
        true
    }

    fn rotate(&mut self, wire: &mut Wire) -> bool {
        let Some(reply) = self.request_result(|| wire.post("/v1/admin/keys/rotate", "{}")) else {
            return false;
        };
        self.rotated = is_rotated(&reply);
        true
    }

    /// Returns the result, unless it was a rejection, each of which must have a code.
    fn request_result(&mut self, mut ask: impl FnMut() -> std::io::Result<Reply>) -> Option<Reply> {
        for _ in 0..6 {
            let reply = ask().ok()?;
            if reply.status == 200 {
                return Some(reply);
            }
            let typed = [
                (429, "limit_reached"),
                (503, "outcome_unknown"),
                (503, "store_read_only"),
                (507, "disk_full"),
            ];
            let (status, code) = reply.verdict();
            if !typed.contains(&(status, &code)) {
                self.tally.complain(format!("not a typed refusal: {reply:?}"));
            }
            self.refused.push(reply);
        }
        None
    }
}

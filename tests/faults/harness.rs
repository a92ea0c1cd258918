//! A harness at work on a session: it leases it, writes with its token, makes checkpoints, forks
//! it, redacts events, and retries after every failure, with the same ids and keys. It records the
//! results and compares the store with them. It must not judge events: the ledger does.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    http::{Reply, Wire},
    ledger::{self, Ledger, Mark, Tally},
    machine::{Dice, pause},
    writers::Board,
};

/// Maximum forks of one session; each is written to as well.
const FORKS_MAX: usize = 12;
/// A text in every event of a writer, and in no file name or id.
pub const CANARY: &str = "test.mark";

/// The state of one harness.
pub struct Harness {
    board: Arc<Board>,
    /// Unique number of the harness.
    number: u64,
    dice: Dice,
    wire: Option<Wire>,
    /// The session, then its forks.
    sessions: Vec<String>,
    /// Number of the next request to each of them.
    next: Vec<u64>,
    /// The last acknowledged fencing token.
    token: u64,
    /// Number of acknowledged checkpoints, which is the number of the next one.
    checkpoints: u64,
    /// Number of requests so far, which makes keys unique.
    asked: u64,
}

impl Harness {
    pub fn new(board: &Arc<Board>, session: String, number: u64) -> Self {
        Self {
            board: Arc::clone(board),
            number,
            dice: Dice(number.wrapping_mul(0x9e37_79b9) | 1),
            wire: None,
            sessions: vec![session],
            next: vec![0],
            token: 0,
            checkpoints: 0,
            asked: 0,
        }
    }

    /// Works until the board stops; returns itself with its state.
    pub fn work(mut self) -> Self {
        let create = json!({"id": self.sessions[0]});
        if self.ask("/v1/sessions", None, &create).is_some() {
            while self.step().is_some() {}
        }
        self
    }

    /// Does one operation; `None` when the board stopped during it.
    fn step(&mut self) -> Option<()> {
        match self.dice.roll(16) {
            0 => self.take_lease(),
            1 | 2 => self.checkpoint(),
            3 if self.sessions.len() <= FORKS_MAX => self.fork(),
            4 | 5 => self.redact(),
            6 if self.token > 1 => self.write(0, Some(self.token - 1)),
            7..=9 => {
                let which = self.dice.roll(self.sessions.len() as u64) as usize;
                self.write(which, None)
            }
            _ => self.write(0, None),
        }
    }

    /// Sends a request until its result is final: server errors are retried.
    fn ask(&mut self, path: &str, token: Option<u64>, body: &Value) -> Option<Reply> {
        self.asked += 1;
        let (key, body) = (format!("{}.{}", self.sessions[0], self.asked), body.to_string());
        let token = token.map(|token| token.to_string());
        let mut headers = vec![("idempotency-key", key.as_str())];
        headers.extend(token.as_deref().map(|token| ("fencing-token", token)));
        while let Some(address) = self.board.address() {
            if self.wire.as_ref().is_none_or(|wire| wire.address != address) {
                self.wire = Some(Wire::new(address).patient(Duration::from_secs(20)));
            }
            let wire = self.wire.as_mut()?;
            match wire.call("POST", path, &headers, &body) {
                Ok(reply) if reply.status < 500 && reply.status != 429 => return Some(reply),
                _ => {
                    self.board.tally.lock().unwrap().retries += 1;
                    pause(Duration::from_millis(2));
                }
            }
        }
        None
    }

    fn complain(&self, what: String) {
        self.board.tally.lock().unwrap().complain(format!("{}: {what}", self.sessions[0]));
    }

    /// Counts expected results; reports the others.
    fn answered(&self, what: &str, reply: &Reply) -> bool {
        let fine = (200..300).contains(&reply.status);
        if fine {
            self.board.tally.lock().unwrap().acked += 1;
        } else {
            self.complain(format!("{what} was refused: {reply:?}"));
        }
        fine
    }

    fn take_lease(&mut self) -> Option<()> {
        let path = format!("/v1/sessions/{}/wake", self.sessions[0]);
        let reply = self.ask(&path, None, &json!({"steal": true, "ttl_seconds": 86_400}))?;
        if self.answered("a wake", &reply) {
            let token = reply.json()["fencing_token"].as_u64().unwrap_or(0);
            if token <= self.token {
                self.complain(format!("token {token} came after {}", self.token));
            }
            self.token = token;
        }
        Some(())
    }

    /// Appends to one of the sessions; with a `stale` token it must be rejected.
    fn write(&mut self, which: usize, stale: Option<u64>) -> Option<()> {
        let (session, writer) = (self.sessions[which].clone(), self.writer(which));
        let request = self.next[which];
        let held = (which == 0 && self.token > 0).then_some(self.token);
        let body: Value = serde_json::from_str(&ledger::body(writer, request, true)).unwrap();
        if stale.is_none() {
            self.board.with(&session, |ledger, _| ledger.sends(writer, request));
        }
        let path = format!("/v1/sessions/{session}/events");
        let reply = self.ask(&path, stale.or(held), &body)?;
        if stale.is_some() {
            if reply.code() != "lease_lost" {
                self.complain(format!("a stale token was answered {reply:?}"));
            }
        } else if self.answered("an append", &reply) {
            let first = reply.json()["first_position"].as_u64().unwrap();
            self.board.with(&session, |ledger, tally| {
                ledger.acknowledged(writer, request, first, tally);
            });
            self.next[which] += 1;
        }
        Some(())
    }

    /// Returns the only writer of one of the sessions, so that each text is unique.
    fn writer(&self, which: usize) -> u64 {
        self.number * 100 + which as u64
    }

    fn checkpoint(&mut self) -> Option<()> {
        let (n, path) =
            (self.checkpoints, format!("/v1/sessions/{}/checkpoints", self.sessions[0]));
        let asked = json!({"label": format!("c{n}"), "state": state(n)});
        let held = (self.token > 0).then_some(self.token);
        let reply = self.ask(&path, held, &asked)?;
        if self.answered("a checkpoint", &reply) {
            self.checkpoints += 1;
        }
        Some(())
    }

    fn fork(&mut self) -> Option<()> {
        let tail = self.board.with(&self.sessions[0], |ledger, _| ledger.tail());
        let at = self.dice.roll(tail + 1);
        let name = format!("{}-f{}", self.sessions[0], self.sessions.len());
        let path = format!("/v1/sessions/{}/fork", self.sessions[0]);
        let reply = self.ask(&path, None, &json!({"at": at.to_string(), "id": name}))?;
        if self.answered("a fork", &reply) {
            let known: Ledger = self.board.with(&self.sessions[0], |ledger, _| ledger.fork(at));
            self.board.with(&name, |ledger, _| *ledger = known);
            self.sessions.push(name);
            self.next.push(0);
        }
        Some(())
    }

    /// Redacts one of the events written here, and reads it.
    fn redact(&mut self) -> Option<()> {
        let which = self.dice.roll(self.sessions.len() as u64) as usize;
        let (session, writer) = (self.sessions[which].clone(), self.writer(which));
        let own: Vec<Mark> = self.board.with(&session, |ledger, _| {
            ledger.marks().filter(|mark| mark.writer == writer).collect()
        });
        if own.is_empty() {
            return Some(());
        }
        let mark = own[self.dice.roll(own.len() as u64) as usize];
        self.record_redaction(mark, false);
        let path = format!("/v1/sessions/{session}/events/{}/redact", mark.name());
        let reply = self.ask(&path, None, &json!({}))?;
        if self.answered("a redaction", &reply) {
            if reply.json()["redacted"] != true {
                self.complain(format!("not redacted: {reply:?}"));
            }
            self.record_redaction(mark, true);
        }
        Some(())
    }

    /// Records a redaction for the session and its forks: a fork has the events of its prefix.
    fn record_redaction(&self, mark: Mark, answered: bool) {
        for session in &self.sessions {
            self.board.with(session, |ledger, _| ledger.takes_away(mark, answered));
        }
    }

    /// Compares a running server with the recorded results, except the events.
    pub fn judge(&self, wire: &mut Wire, tally: &mut Tally) {
        let root = &self.sessions[0];
        let mut get = |path: String| wire.get(&path).unwrap().json();
        let mut complain = |what: String| tally.complain(format!("{root}: {what}"));
        let listed = get(format!("/v1/sessions/{root}/checkpoints?limit=1000"));
        let labels: Vec<&str> = listed["data"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .filter_map(|one| one["label"].as_str())
            .collect();
        for n in 0..self.checkpoints {
            let label = format!("c{n}");
            let found = labels.iter().filter(|found| **found == label).count();
            if found != 1 {
                complain(format!("checkpoint {label} is there {found} times"));
            }
        }
        if labels.len() as u64 > self.checkpoints + 1 {
            complain(format!("{} checkpoints of {}", labels.len(), self.checkpoints));
        }
        for n in (0..self.checkpoints).rev().take(3) {
            let found = get(format!("/v1/sessions/{root}/checkpoints/c{n}"));
            if found["state"] != state(n) {
                complain(format!("checkpoint c{n} has another state: {found}"));
            }
        }
        let lineage = get(format!("/v1/sessions/{root}/lineage"));
        let forks = lineage["forks"].as_u64().unwrap_or(0);
        let known = self.sessions.len() as u64 - 1;
        // The last fork may have been created without an acknowledgement.
        if forks != known && forks != known + 1 {
            complain(format!("{forks} forks where {known} were answered: {lineage}"));
        }
        let woken = wire.post(&format!("/v1/sessions/{root}/wake"), r#"{"steal":true}"#).unwrap();
        if woken.json()["fencing_token"].as_u64().is_none_or(|token| token <= self.token) {
            tally.complain(format!("{root}: after token {}: {woken:?}", self.token));
        }
    }

    /// Returns texts that no file may contain: with `all` every body, otherwise the redacted ones.
    pub fn canaries(&self, all: bool) -> Vec<String> {
        if all {
            return vec![CANARY.to_owned()];
        }
        // The session's ledger has every redaction in the session and its forks.
        self.board.with(&self.sessions[0], |ledger, _| ledger.gone().map(Mark::text).collect())
    }

    /// Returns words of the redacted bodies, which no index may contain.
    pub fn gone(&self) -> Vec<String> {
        self.board.with(&self.sessions[0], |ledger, _| ledger.gone().map(Mark::name).collect())
    }
}

/// Returns the state at a checkpoint.
fn state(n: u64) -> Value {
    json!({"n": n, "note": format!("as of {n}"), "list": (0..n % 7).collect::<Vec<_>>()})
}

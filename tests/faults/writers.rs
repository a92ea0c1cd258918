//! Clients that write and read constantly, with endless retries: after every failure they retry
//! with the same event ids or the same `Idempotency-Key`. It must not judge; the ledger does.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use super::{
    http::{Reply, Wire},
    ledger::{self, Ledger, Tally},
    machine::{eventually, pause},
};

/// The current server, and the ledgers of its sessions.
#[derive(Default)]
pub struct Board {
    place: Mutex<(u64, Option<SocketAddr>)>,
    moved: Condvar,
    pub ledgers: Mutex<BTreeMap<String, Ledger>>,
    pub tally: Mutex<Tally>,
    stop: AtomicBool,
}

impl Board {
    /// Sets the server's address from now on, or none.
    pub fn move_to(&self, address: Option<SocketAddr>) {
        let mut place = self.place.lock().unwrap();
        *place = (place.0 + 1, address);
        self.moved.notify_all();
    }

    /// Waits until `more` further events are acknowledged.
    #[track_caller]
    pub fn wait_for_acknowledged(&self, more: u64) {
        let acked = || self.tally.lock().unwrap().acked;
        let enough = acked() + more;
        eventually("acknowledged events", || (acked() >= enough).then_some(()));
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.moved.notify_all();
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns the server's address, while it runs.
    pub fn address(&self) -> Option<SocketAddr> {
        let mut place = self.place.lock().unwrap();
        while !self.stopped() {
            if let Some(address) = place.1 {
                return Some(address);
            }
            place = self.moved.wait_timeout(place, Duration::from_millis(50)).unwrap().0;
        }
        None
    }

    pub fn with<T>(&self, session: &str, run: impl FnOnce(&mut Ledger, &mut Tally) -> T) -> T {
        let mut ledgers = self.ledgers.lock().unwrap();
        let ledger = ledgers.entry(session.to_owned()).or_default();
        run(ledger, &mut self.tally.lock().unwrap())
    }

    /// Writes requests of `writer` to `session` until the board stops.
    pub fn write(&self, session: &str, writer: u64) {
        let mut request = 0;
        let mut wire: Option<Wire> = None;
        while let Some(address) = self.address() {
            if wire.as_ref().is_none_or(|wire| wire.address != address) {
                wire = Some(Wire::new(address).patient(Duration::from_secs(10)));
            }
            let Some(wire) = &mut wire else { continue };
            self.with(session, |ledger, _| ledger.sends(writer, request));
            match send(wire, session, writer, request) {
                Ok(reply) if reply.status == 200 => {
                    let first = reply.json()["first_position"].as_u64().unwrap();
                    self.with(session, |ledger, tally| {
                        ledger.acknowledged(writer, request, first, tally);
                    });
                    request += 1;
                }
                Ok(reply) if reply.status < 500 => {
                    let told = format!("writer {writer} was refused: {reply:?}");
                    self.tally.lock().unwrap().complain(told);
                    return;
                }
                _ => {
                    self.tally.lock().unwrap().retries += 1;
                    pause(Duration::from_millis(2));
                }
            }
        }
    }

    /// Reads the end of `session` repeatedly until the board stops.
    pub fn read(&self, session: &str) {
        let mut wire: Option<Wire> = None;
        while let Some(address) = self.address() {
            if wire.as_ref().is_none_or(|wire| wire.address != address) {
                wire = Some(Wire::new(address).patient(Duration::from_secs(10)));
            }
            let Some(wire) = &mut wire else { continue };
            let floor = self.with(session, |ledger, _| ledger.tail());
            let from = floor.saturating_sub(20);
            match wire.get(&format!("/v1/sessions/{session}/events?from={from}&limit=100")) {
                Ok(reply) if reply.status == 200 => {
                    self.with(session, |l, tally| l.saw(from, &reply.json(), floor, tally));
                }
                Ok(reply) if reply.status == 404 && floor > 0 => {
                    let told = format!("{session} had {floor} events and is not known");
                    self.tally.lock().unwrap().complain(told);
                }
                _ => {}
            }
            pause(Duration::from_millis(3));
        }
    }
}

/// Sends one append: even writers give their events ids, odd ones give their request a key.
pub fn send(wire: &mut Wire, session: &str, writer: u64, request: u64) -> std::io::Result<Reply> {
    let ids = writer.is_multiple_of(2);
    let body = ledger::body(writer, request, ids);
    let path = format!("/v1/sessions/{session}/events?create=true");
    let key = format!("w{writer}r{request}");
    let headers = [("idempotency-key", &*key)];
    wire.call("POST", &path, if ids { &[] } else { &headers }, &body)
}

/// Reads every slice of a session; an empty list for an unknown one.
pub fn whole(wire: &mut Wire, session: &str) -> Result<Vec<Value>, String> {
    let (mut slices, mut from) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/sessions/{session}/events?from={from}&limit=5000");
        let reply = wire.get(&path).map_err(|error| error.to_string())?;
        match reply.status {
            200 => {}
            404 if from == 0 => return Ok(slices),
            status => return Err(format!("{session}: {status} {}", reply.body)),
        }
        let slice = reply.json();
        let next = slice["next_position"].as_u64().unwrap_or(0);
        let tail = slice["tail"].as_u64().unwrap_or(0);
        slices.push(slice);
        if next >= tail || next <= from {
            return Ok(slices);
        }
        from = next;
    }
}

/// Compares all sessions of a server with their ledgers.
pub fn check_all(wire: &mut Wire, ledgers: &mut BTreeMap<String, Ledger>, tally: &mut Tally) {
    for (session, ledger) in ledgers {
        match whole(wire, session) {
            Ok(slices) => ledger.check(&slices, tally),
            Err(why) => tally.complain(why),
        }
    }
}

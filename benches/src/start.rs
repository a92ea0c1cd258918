//! Start time of a server on a directory with many sessions, after a clean stop and after a crash,
//! and its memory for each idle session. Real processes, started as by a service manager. It must
//! not warm a server up.

use std::{io, path::Path, sync::Arc};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    engine,
    failure::Outcome,
    http::get,
    machine, network,
    runner::float,
    sample::EVENT_BYTES,
    server::Server,
    site::{Site, stop_here},
};
use sessionlog::{
    event::{Batch, SessionKey},
    store::{
        Store,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Start,
    figures: &[
        figure("start.crash", "from exec to the first answer, journal to be replayed", "s"),
        figure("start.clean", "from exec to the first answer, clean stop", "s"),
        figure(
            "start.memory",
            "resident memory above that of an empty server, for each session",
            "bytes",
        ),
    ],
    run,
};

/// Numbers of sessions and bytes in the target.
pub(super) const SESSIONS: usize = 100_000;
const BYTES: u64 = 10_000_000_000;
const DATA_DIR: &str = "start";
/// Number of concurrent appends while the directory is filled.
const AT_ONCE: usize = 64;
/// Number of events in one of them.
const BATCH: usize = 100;
/// Maximum number of rounds: starts with many sessions take long.
const ROUNDS_MAX: u32 = 3;

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let sessions = site.settings.start_sessions;
    let empty = {
        let server = Server::start(site, &site.path("empty"))?;
        check_ready(&server)?;
        machine::resident_bytes(server.process.pid())
    };
    let (mut crash, mut clean, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let data_dir = site.path(DATA_DIR);
    for _ in 0..site.settings.rounds.min(ROUNDS_MAX) {
        stop_here(site)?;
        site.runtime.block_on(leave_crashed_store(site, sessions))?;
        let (seconds, server) = time_start(site, &data_dir)?;
        crash.push(seconds);
        // Stopped without a time limit: a kill during the flush would be another crash.
        server.process.stop()?;
        stop_here(site)?;
        let (seconds, server) = time_start(site, &data_dir)?;
        clean.push(seconds);
        let resident = machine::resident_bytes(server.process.pid());
        if let (Some(resident), Some(empty)) = (resident, empty) {
            memory.push(float(resident.saturating_sub(empty)) / float(sessions as u64));
        }
    }
    let bytes = site.settings.start_bytes;
    let other = || {
        format!(
            "with {sessions} sessions and {bytes} bytes of events; the target speaks of {SESSIONS} \
             and of 10 GB: --fill 10GiB"
        )
    };
    let unjudged = (sessions != SESSIONS || bytes < BYTES).then(other);
    Ok(ProbeResult { values: vec![crash, clean, memory], unjudged })
}

/// Leaves a directory with many sessions in the state after a crash: each has one more event, in
/// the journal only.
async fn leave_crashed_store(site: &Site, sessions: usize) -> Outcome {
    let env = site.env(DATA_DIR)?;
    let local =
        Arc::new(LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?);
    let keys = engine::keys(sessions);
    let Some(first) = keys.first() else { return Ok(()) };
    if local.info(first).await.is_err() {
        engine::create(&*local, &keys).await.map_err(io::Error::other)?;
        let events = site.settings.start_bytes.div_ceil(EVENT_BYTES as u64 * sessions as u64);
        let mut left = usize::try_from(events).unwrap_or_default();
        while left > 0 {
            append(site, &local, &keys, left.min(BATCH)).await?;
            left -= left.min(BATCH);
        }
        local.flush()?;
    }
    append(site, &local, &keys, 1).await
}

/// Appends `events` events to each of the sessions, as one batch.
async fn append(site: &Site, local: &LocalStore, keys: &[SessionKey], events: usize) -> Outcome {
    let mut samples = site.samples.clone();
    for part in keys.chunks(AT_ONCE) {
        stop_here(site)?;
        let appends = part.iter().map(|key| {
            let events = (0..events).map(|_| engine::event(samples.next())).collect();
            local.append(key, Batch { events, ..Batch::default() })
        });
        let appends: Vec<_> = appends.collect();
        futures_util::future::try_join_all(appends).await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Starts a server; returns the seconds until it responded.
fn time_start(site: &Site, data_dir: &Path) -> Outcome<(f64, Server)> {
    let began = site.clock.monotonic();
    let server = Server::start(site, data_dir)?;
    check_ready(&server)?;
    Ok((site.clock.monotonic().saturating_sub(began).as_secs_f64(), server))
}

fn check_ready(server: &Server) -> Outcome {
    network::once(server.manner(), &[get("/readyz", "application/json", "")])?;
    Ok(())
}

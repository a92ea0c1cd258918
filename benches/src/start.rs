//! How soon a server answers on a directory with many sessions, after a clean stop and after a
//! crash, and what an idle session costs it in memory. Real processes, as a service manager would
//! start them. It must not warm a server up.

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
        local::{Local, Options},
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

/// Sessions and bytes that the target speaks of.
pub(super) const SESSIONS: usize = 100_000;
const BYTES: u64 = 10_000_000_000;
const DATA_DIR: &str = "start";
/// Appends under way at once while the directory is filled.
const AT_ONCE: usize = 64;
/// Events of one of them.
const BATCH: usize = 100;
/// Starts with many sessions take long; a median needs no more of them.
const ROUNDS_MAX: u32 = 3;

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let sessions = site.settings.start_sessions;
    let empty = {
        let server = Server::start(site, &site.path("empty"))?;
        answered(&server)?;
        machine::resident_bytes(server.process.pid())
    };
    let (mut crash, mut clean, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let data_dir = site.path(DATA_DIR);
    for _ in 0..site.settings.rounds.min(ROUNDS_MAX) {
        stop_here(site)?;
        site.runtime.block_on(crashed(site, sessions))?;
        let (seconds, server) = timed(site, &data_dir)?;
        crash.push(seconds);
        // However long it takes to flush all of them: killed before, it would be another crash.
        server.process.stop()?;
        stop_here(site)?;
        let (seconds, server) = timed(site, &data_dir)?;
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

/// Leaves a directory with so many sessions as a crash leaves it: one event more in each, in the
/// journal and nowhere else.
async fn crashed(site: &Site, sessions: usize) -> Outcome {
    let env = site.env(DATA_DIR)?;
    let local = Arc::new(Local::open_local(&env, Options::default()).map_err(io::Error::other)?);
    let keys = engine::keys(sessions);
    let Some(first) = keys.first() else { return Ok(()) };
    if local.info(first).await.is_err() {
        engine::create(&local, &keys).await.map_err(io::Error::other)?;
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

/// Appends so many events to each of the sessions, as one batch.
async fn append(site: &Site, local: &Local, keys: &[SessionKey], events: usize) -> Outcome {
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

/// Starts a server and answers how many seconds passed until it answered.
fn timed(site: &Site, data_dir: &Path) -> Outcome<(f64, Server)> {
    let began = site.clock.monotonic();
    let server = Server::start(site, data_dir)?;
    answered(&server)?;
    Ok((site.clock.monotonic().saturating_sub(began).as_secs_f64(), server))
}

fn answered(server: &Server) -> Outcome {
    network::once(server.manner(), &[get("/readyz", "application/json", "")])?;
    Ok(())
}

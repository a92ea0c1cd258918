//! How soon a server answers on a directory with many sessions, after a clean stop and after a
//! crash, and what an idle session costs it in memory. Real processes, as a service manager would
//! start them. It must not help a server along.

use std::{io, path::Path, sync::Arc};

use super::{
    cell::{Figure, Group, Probe},
    engine,
    http::get,
    machine,
    network::{Manner, Network},
    protocol::Protocol,
    runner::{float, stop_here},
    server::Server,
    site::Site,
};
use crate::{
    cli::failure::Outcome,
    event::Batch,
    store::{
        Store,
        local::{Local, Options},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Start,
    figures: &[
        Figure {
            id: "start.crash",
            what: "from exec to the first answer, journal to be replayed",
            unit: "s",
        },
        Figure { id: "start.clean", what: "from exec to the first answer, clean stop", unit: "s" },
        Figure {
            id: "start.memory",
            what: "resident memory above that of an empty server, for each session",
            unit: "bytes",
        },
    ],
    run,
};

const DATA_DIR: &str = "start";
/// Appends under way at once while the directory is filled.
const AT_ONCE: usize = 64;
/// Starts take long with many sessions; their median needs no more.
const ROUNDS_MAX: u32 = 3;

fn run(site: &mut Site) -> Outcome<Vec<Vec<f64>>> {
    let sessions = site.settings.sessions;
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
        // Dropped: stopped as a service manager would.
        crash.push(timed(site, &data_dir)?.0);
        stop_here(site)?;
        let (seconds, server) = timed(site, &data_dir)?;
        clean.push(seconds);
        let resident = machine::resident_bytes(server.process.pid());
        if let (Some(resident), Some(empty)) = (resident, empty) {
            memory.push(float(resident.saturating_sub(empty)) / float(sessions as u64));
        }
    }
    Ok(vec![crash, clean, memory])
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
    }
    let mut samples = site.samples.clone();
    for part in keys.chunks(AT_ONCE) {
        let appends = part.iter().map(|key| {
            let events = vec![engine::event(samples.next())];
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
    let manner = Manner {
        address: server.address,
        protocol: Protocol::Http,
        answers: 1,
        events: 0,
        carried: None,
        counted: |_| None,
    };
    Network::once(manner, &[get("/readyz", "application/json")])?;
    Ok(())
}

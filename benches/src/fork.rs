//! Forks in this process: measures the time until a fork is durable and the bytes it writes, for a
//! session without parents and for the last of a hundred and of a thousand nested forks, at the end
//! and in the middle of the events it reads. It must not leave out the sync.

use std::{io, sync::Arc};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    engine,
    failure::Outcome,
    machine,
    research::unjudged,
    runner::{float, median},
    site::Site,
};
use sessionlog::{
    event::{Position, Scope, SessionId, SessionKey},
    store::{
        ForkPoint, NewSession, Store,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Fork,
    figures: &[
        figure("fork.own", "a fork at the end of a session of 10 000 events, durable", "µs"),
        figure("fork.deep.100", "the same of the last of 100 forks of each other", "µs"),
        figure("fork.deep.1000", "the same of the last of 1 000", "µs"),
        figure("fork.middle", "of that one, at an event in the middle of the first", "µs"),
        figure("fork.bytes", "bytes handed to write() for one fork, settled", "bytes"),
        figure("fork.copied", "bytes of events that a fork has of its own", "bytes"),
    ],
    run,
};

const DATA_DIR: &str = "fork";
/// Number of events of the root session.
const EVENTS: usize = 10_000;
/// Depths of nested forks; each fork appends one event.
const DEPTHS: [usize; 2] = [100, 1_000];
/// Number of forks of each kind in a round.
const FORKS: usize = 200;

/// Limits a count to the requested number of sessions, so that a tiny run is short.
fn limited_by_sessions(site: &Site, usual: usize) -> usize {
    usual.min(site.settings.sessions)
}

/// Parent and position of the forks of a row.
struct ForkedAt {
    parent: String,
    at: Option<u64>,
}

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let env = site.env(DATA_DIR)?;
    let local =
        Arc::new(LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?);
    fill(site, &local)?;
    let middle = limited_by_sessions(site, EVENTS) as u64 / 2 + 7;
    let depths = DEPTHS.map(|depth| limited_by_sessions(site, depth));
    let forks = limited_by_sessions(site, FORKS);
    let mut places = vec![ForkedAt { parent: level_name(0), at: None }];
    places.extend(depths.map(|depth| ForkedAt { parent: level_name(depth), at: None }));
    places.push(ForkedAt { parent: level_name(depths[1]), at: Some(middle) });
    let mut found = vec![Vec::new(); 6];
    let mut made = 0;
    let before = flushed_bytes(&local)?;
    let mut copied = 0;
    for _ in 0..site.settings.rounds {
        site.bar.set_message("fork: forks");
        for (place, times) in places.iter().zip(&mut found) {
            let mut taken = Vec::with_capacity(forks);
            for _ in 0..forks {
                let began = site.clock.monotonic();
                let info = site.wait(fork(&local, &place.parent, place.at, None))??;
                taken.push(site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e6);
                copied += info;
                made += 1;
            }
            times.push(median(&taken));
        }
    }
    let after = flushed_bytes(&local)?;
    let bytes = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
    let written = float(bytes) / float(made);
    found.get_mut(4).into_iter().for_each(|values| values.push(written));
    found.get_mut(5).into_iter().for_each(|values| values.push(float(copied)));
    site.wait(local.close())?;
    Ok(ProbeResult { values: found, unjudged: unjudged(site) })
}

/// Returns the bytes passed to write() until all events are flushed.
fn flushed_bytes(local: &LocalStore) -> Outcome<Option<u64>> {
    local.flush()?;
    Ok(machine::written_bytes(std::process::id()))
}

fn level_name(depth: usize) -> String {
    format!("level-{depth}")
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).expect("letters, a dash and digits are an id")
}

/// Creates the root session and the nested forks.
fn fill(site: &mut Site, local: &Arc<LocalStore>) -> Outcome {
    let scope = Scope::local();
    let new = NewSession { id: Some(id(&level_name(0))), ..NewSession::default() };
    site.wait(local.create(&scope, new))?.map_err(io::Error::other)?;
    let mut samples = site.samples.clone();
    let key = |depth: usize| SessionKey { scope: scope.clone(), session: id(&level_name(depth)) };
    let events = limited_by_sessions(site, EVENTS);
    site.wait(engine::fill(local, &key(0), &mut samples, events, false))??;
    let depth_max = limited_by_sessions(site, DEPTHS[1]);
    for depth in 1..=depth_max {
        site.bar.set_message(format!("fork: level {depth} of {depth_max}"));
        site.wait(fork(local, &level_name(depth - 1), None, Some(&level_name(depth))))??;
        site.wait(engine::fill(local, &key(depth), &mut samples, 1, false))??;
    }
    local.flush()?;
    Ok(())
}

/// Creates a fork; returns the bytes that it wrote.
async fn fork(
    local: &LocalStore,
    parent: &str,
    at: Option<u64>,
    name: Option<&str>,
) -> Outcome<u64> {
    let scope = Scope::local();
    let parent = SessionKey { scope: scope.clone(), session: id(parent) };
    let at = match at {
        Some(at) => Position(at),
        None => local.info(&parent).await.map_err(io::Error::other)?.tail,
    };
    let parent = Some(ForkPoint { session: parent.session, at });
    let new = NewSession { id: name.map(id), parent, ..NewSession::default() };
    let (info, _) = local.create(&scope, new).await.map_err(io::Error::other)?;
    Ok(info.bytes)
}

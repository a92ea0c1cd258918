//! Two tenants on one server: measures the latency of a read, a search, a view and an empty request
//! of one tenant alone, and next to another one at its limit of computing requests: 16 clients that
//! search, ten that query the graph, ten that compare, and four that hang up on windows. It must
//! not know how the server shares capacity.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    failure::Outcome,
    http::{get, post_json_as},
    network::Connection,
    protocol::Protocol,
    runner::median,
    server::Server,
    site::{Site, stop_here},
};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId, SessionKey, TenantId, UserId},
    store::{
        NewSession, Store as _,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Search,
    figures: &[
        figure("fair.read.alone", "a plain read of a tenant alone, p99", "ms"),
        figure("fair.read.beside", "beside another tenant at its limit, p99", "ms"),
        figure("fair.read.ratio", "that, beside alone", "ratio"),
        figure("fair.search.alone", "a search of a tenant alone, p99", "ms"),
        figure("fair.search.beside", "beside another tenant at its limit, p99", "ms"),
        figure("fair.search.ratio", "that, beside alone", "ratio"),
        figure("fair.view.alone", "an overview of a tenant alone, p99", "ms"),
        figure("fair.view.beside", "beside another tenant at its limit, p99", "ms"),
        figure("fair.view.ratio", "that, beside alone", "ratio"),
        figure("fair.nothing.alone", "a request that does nothing alone, p99", "ms"),
        figure("fair.nothing.beside", "beside another tenant at its limit, p99", "ms"),
        figure("fair.nothing.ratio", "that, beside alone", "ratio"),
        figure("fair.medians", "the largest of the same ratios of medians", "ratio"),
    ],
    run,
};

const DATA_DIR: &str = "fair";
/// Value of --sessions in a full run.
const USUAL: usize = 10_000;
const TENANTS: [&str; 2] = ["busy", "quiet"];
/// Sessions of a tenant, events of each, and words of an event.
const SESSIONS: usize = 20;
const EVENTS: usize = 1_000;
const EVENT_WORDS: usize = 80;
/// Number of requests of each kind, alone and next to the busy tenant.
const ASKED: usize = 300;
/// Number of clients of the busy tenant, by kind of request.
const SEARCHERS: usize = 16;
const GRAPHS: usize = 10;
const DIFFS: usize = 10;
const WINDOWS: usize = 4;
/// Nice value of the busy tenant's clients.
const CROWD_NICE: i32 = 10;
/// Time after which a client hangs up on a window.
const PATIENCE: Duration = Duration::from_millis(20);

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    site.runtime.block_on(fill_tenants(site))?;
    let (server, credentials) = Server::of_tenants(site, &site.path(DATA_DIR), &TENANTS)?;
    let [busy, quiet] = credentials.as_slice() else { return Err(io::Error::other("two").into()) };
    // A separate runtime: on that of the other clients it would wait for them, not for the server.
    let own = Builder::new_current_thread().enable_all().build()?;
    let mut client = own.block_on(Connection::open(server.address, Protocol::Http))?;
    let others = others()?;
    let mut figures = vec![Vec::new(); PROBE.figures.len()];
    let mut put = |at: usize, of: f64| figures.get_mut(at).into_iter().for_each(|f| f.push(of));
    let asked = [
        get("/v1/sessions/s0/events?limit=10", "application/json", quiet),
        get("/v1/search?q=w7+w91+w300", "application/json", quiet),
        get("/v1/sessions/s1/views/index", "application/json", quiet),
        get("/healthz", "application/json", quiet),
    ];
    let complete = "/v1/search?q=w7&limit=1&wait_ms=60000";
    for credential in [busy, quiet] {
        client.out = get(complete, "application/json", credential);
        own.block_on(client.ask(1))?;
    }
    for _ in 0..site.settings.rounds {
        site.bar.set_message("fair: alone");
        let alone = times(site, (&own, &mut client), &asked)?;
        site.bar.set_message("fair: beside");
        let stop = Arc::new(AtomicBool::new(false));
        let mut crowd = crowd(&others, &server, busy, &stop);
        let beside = times(site, (&own, &mut client), &asked);
        stop.store(true, Ordering::Relaxed);
        crowd.abort_all();
        site.wait(async { while crowd.join_next().await.is_some() {} })?;
        let mut medians: f64 = 0.0;
        for (kind, (alone, beside)) in alone.iter().zip(&beside?).enumerate() {
            let p99 = |times: &[f64]| times.get(times.len() * 99 / 100).copied().unwrap_or(0.0);
            put(3 * kind, p99(alone));
            put(3 * kind + 1, p99(beside));
            put(3 * kind + 2, p99(beside) / p99(alone));
            medians = medians.max(median(beside) / median(alone));
        }
        put(PROBE.figures.len() - 1, medians);
    }
    drop(client);
    server.process.stop()?;
    let sessions = site.settings.sessions;
    let other = || format!("with --sessions {sessions}; the target speaks of a usual run");
    Ok(ProbeResult { values: figures, unjudged: (sessions < USUAL).then(other) })
}

/// Returns the sorted milliseconds of the responses to each request; a refused one fails the run.
fn times(
    site: &Site,
    (own, client): (&Runtime, &mut Connection),
    asked: &[Vec<u8>],
) -> Outcome<Vec<Vec<f64>>> {
    let mut all = vec![Vec::new(); asked.len()];
    for _ in 0..ASKED {
        for (request, times) in asked.iter().zip(&mut all) {
            stop_here(site)?;
            let began = site.clock.monotonic();
            client.out.clone_from(request);
            let answer = own.block_on(client.ask(1))?;
            if !answer.starts_with(b"HTTP/1.1 200") {
                let said = String::from_utf8_lossy(answer).into_owned();
                return Err(io::Error::other(format!("the other tenant is refused: {said}")).into());
            }
            times.push(site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3);
        }
    }
    all.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    Ok(all)
}

/// Creates the runtime of the busy tenant's clients: they represent other machines, so their
/// threads yield to the server and to the measuring client.
fn others() -> io::Result<Runtime> {
    let give_way = || {
        let _ = rustix::process::nice(CROWD_NICE);
    };
    Builder::new_multi_thread().on_thread_start(give_way).enable_all().build()
}

/// Starts the clients of the busy tenant, which run until `stop` is set.
fn crowd(others: &Runtime, server: &Server, of: &str, stop: &Arc<AtomicBool>) -> JoinSet<()> {
    let search = get("/v1/search?q=w1+w2+w3+w4+w5+w6+w7+w8&limit=100", "application/json", of);
    let body = json!({"limit": 100}).to_string();
    let graph = post_json_as("/v1/workspaces/%2Fwork%2Fbank/entities/query", of, &body);
    let diff = get("/v1/sessions/s2/diff?from=0&to=end", "application/json", of);
    let window = get("/v1/sessions/s3/views/window?tokens_max=900000", "application/json", of);
    let of_each = [
        (search, SEARCHERS, false),
        (graph, GRAPHS, false),
        (diff, DIFFS, false),
        (window, WINDOWS, true),
    ];
    let (mut clients, address) = (JoinSet::new(), server.address);
    for (request, count, hangs_up) in of_each {
        for _ in 0..count {
            let (request, stop) = (request.clone(), Arc::clone(stop));
            let asks = async move {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut client) = Connection::open(address, Protocol::Http).await else {
                        continue;
                    };
                    while !stop.load(Ordering::Relaxed) {
                        client.out.clone_from(&request);
                        let asked = client.ask(1);
                        let is_answered = match hangs_up {
                            true => tokio::time::timeout(PATIENCE, asked).await.is_ok(),
                            false => asked.await.is_ok(),
                        };
                        if !is_answered {
                            break;
                        }
                    }
                }
            };
            clients.spawn_on(asks, others.handle());
        }
    }
    clients
}

/// Appends the sessions of both tenants.
async fn fill_tenants(site: &Site) -> Outcome<()> {
    let env = site.env(DATA_DIR)?;
    let local =
        Arc::new(LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?);
    for tenant in TENANTS {
        let tenant = TenantId::new(tenant).map_err(io::Error::other)?;
        let scope = Scope { tenant, user: UserId::new("client").map_err(io::Error::other)? };
        for session in 0..SESSIONS {
            stop_here(site)?;
            let session = SessionId::new(&format!("s{session}")).map_err(io::Error::other)?;
            let workspace = Some("/work/bank".to_owned());
            let id = Some(session.clone());
            let new = NewSession { id, workspace, ..NewSession::default() };
            local.create(&scope, new).await.map_err(io::Error::other)?;
            let key = SessionKey { scope: scope.clone(), session };
            for from in (0..EVENTS).step_by(500) {
                let events = (from..from + 500).map(event).collect::<Outcome<_>>()?;
                let batch = Batch { events, ..Batch::default() };
                local.append(&key, batch).await.map_err(io::Error::other)?;
            }
        }
    }
    local.close().await;
    Ok(())
}

fn event(number: usize) -> Outcome<NewEvent> {
    let words = (0..EVENT_WORDS).map(|at| format!("w{} ", (number * 31 + at * at) % 5_000));
    let kind = if number.is_multiple_of(2) { "user.message" } else { "agent.message" };
    let kind = EventType::new(kind).map_err(io::Error::other)?;
    let body = json!({"content": words.collect::<String>()}).to_string().into();
    let (id, origin, created_at, position) = (None, Origin::User, None, None);
    Ok(NewEvent { id, kind, origin, created_at, position, body })
}

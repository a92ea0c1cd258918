//! Search over HTTP: measures the latency of a query among many events, the rate of indexing, the
//! size of the index, and the delay until an acknowledged event is found. A real server on its own
//! data directory. It must not know how an index works.

use std::{fmt::Write as _, io, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    engine,
    failure::Outcome,
    http::{get, post_json},
    machine::{self, Work},
    network::Connection,
    protocol::Protocol,
    runner::{float, median},
    sample::Numbers,
    server::Server,
    site::{Site, stop_here},
};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin},
    store::{
        Store,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Search,
    figures: &[
        figure("search.p50", "a query of 3 to 8 words over HTTP, snippets included", "ms"),
        figure("search.p99", "the same", "ms"),
        figure("search.followed", "events indexed in a second by a server that starts", "events/s"),
        figure("search.processor", "processor time of that, for each event", "µs"),
        figure("search.bytes", "bytes of the index on disk, for each byte of bodies", "bytes/byte"),
        figure(
            "search.memory",
            "memory beside the page cache, 2 s after a query, above that of an empty server",
            "MiB",
        ),
        figure("search.found", "from an acknowledgement to the answer that finds it, p99", "ms"),
        figure(
            "search.append",
            "processor time of an append with searching on, for each of one with it off",
            "ratio",
        ),
    ],
    run,
};

/// Value of --sessions for the targets: 1 000 000 events.
const SESSIONS: usize = 10_000;
/// Events for each of --sessions, and events of one session.
const EVENTS_EACH: usize = 100;
const OF_SESSION: usize = 1_000;
const BATCH: usize = 500;
/// Words of an event; distinct words, and how many of them are frequent.
const EVENT_WORDS: usize = 60;
const VOCABULARY: u64 = 200_000;
const FREQUENT: u64 = 200;
/// Queries of a round, and events that are searched right after their acknowledgement.
const QUERIES: usize = 400;
const FOUND: usize = 100;
const DATA_DIR: &str = "search";
/// Pause between the last query and the measurement of memory.
const AT_REST: Duration = Duration::from_secs(2);
/// Appends to each of two servers in turn, and number of turns: fewer events than a server indexes
/// for a scope that has not been searched, so that only the append itself is measured.
const APPENDS: usize = 100;
const TURNS: usize = 40;
/// Number of turns that are not counted.
const FIRST_TURNS: usize = 8;

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let events = site.settings.sessions * EVENTS_EACH;
    site.notes.push(format!("search: {events} events of {EVENT_WORDS} words"));
    let empty = {
        let server = Server::start(site, &site.path("empty"))?;
        machine::own_bytes(server.process.pid()).unwrap_or_default()
    };
    let bodies = site.runtime.block_on(fill_events(site, events))?;
    let mut found = vec![Vec::new(); 8];
    let mut put = |at: usize, value: f64| found.get_mut(at).into_iter().for_each(|f| f.push(value));
    for round in 0..site.settings.rounds {
        stop_here(site)?;
        let derived = site.path(DATA_DIR).join("derived");
        // Each round indexes all events again.
        let _ = std::fs::remove_dir_all(&derived);
        let server = Server::start(site, &site.path(DATA_DIR))?;
        site.bar.set_message("search: following");
        let began = (site.clock.monotonic(), Work::of(server.process.pid()).processor);
        let mut client = site.wait(Connection::open(server.address, Protocol::Http))??;
        while !site.wait(is_complete(&mut client))?? {
            stop_here(site)?;
        }
        let seconds = site.clock.monotonic().saturating_sub(began.0).as_secs_f64();
        let busy = Work::of(server.process.pid()).processor - began.1;
        put(2, float(events as u64) / seconds);
        put(3, busy * 1e6 / float(events as u64));
        site.bar.set_message("search: queries");
        let mut numbers = Numbers::from(round as usize);
        let mut times = Vec::new();
        for _ in 0..QUERIES {
            stop_here(site)?;
            let path = format!("/v1/search?q={}", query(&mut numbers).replace(' ', "+"));
            let began = site.clock.monotonic();
            let answer = site.wait(ask(&mut client, get(&path, "application/json", "")))??;
            times.push(site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3);
            if answer.get("hits").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                return Err(io::Error::other(format!("nothing found: {path}: {answer}")).into());
            }
        }
        times.sort_by(f64::total_cmp);
        put(0, median(&times));
        put(1, percentile_99(&times));
        // Memory at rest: the memory of ranking is released within a second.
        site.wait(async { tokio::time::sleep(AT_REST).await })?;
        let resident = machine::own_bytes(server.process.pid()).unwrap_or_default();
        put(5, float(resident.saturating_sub(empty)) / float(1 << 20));
        put(6, percentile_99(&measure_index_delay(site, &mut client)?));
        drop(client);
        server.process.stop()?;
        put(4, float(directory_bytes(&derived)) / float(bodies));
        put(7, append_cost_ratio(site, round)?);
    }
    let sessions = site.settings.sessions;
    let other = || format!("with --sessions {sessions}; the target speaks of {SESSIONS}");
    Ok(ProbeResult { values: found, unjudged: (sessions != SESSIONS).then(other) })
}

/// Returns the 99th percentile of sorted values.
fn percentile_99(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() * 99 / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// Returns a word; lower numbers are more frequent.
fn word(number: u64) -> String {
    let (mut rest, mut word) = (number * 7 + 3, String::new());
    for at in 0..4 {
        let (consonants, vowels) = (b"bdfgklmnprstvz", b"aeiou");
        let consonant = consonants.get((rest % 14) as usize).copied().unwrap_or(b'b');
        let vowel = vowels.get((rest / 14 % 5) as usize).copied().unwrap_or(b'a');
        word.extend([char::from(consonant), char::from(vowel)]);
        rest /= 70;
        if rest == 0 && at > 0 {
            break;
        }
    }
    word
}

/// Returns the number of a random word: half of a text's words are frequent ones.
fn random_word_number(numbers: &mut Numbers) -> u64 {
    match numbers.below(2) {
        0 => numbers.below(FREQUENT) * numbers.below(FREQUENT) / FREQUENT,
        _ => numbers.below(VOCABULARY) * numbers.below(VOCABULARY) / VOCABULARY,
    }
}

/// Returns a query of 3 to 8 words, a third of them frequent.
fn query(numbers: &mut Numbers) -> String {
    let count = 3 + numbers.below(6);
    let words = (0..count).map(|at| match at % 3 {
        0 => word(numbers.below(FREQUENT)),
        _ => word(FREQUENT + numbers.below(VOCABULARY / 10)),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn text(numbers: &mut Numbers) -> String {
    let mut text = String::new();
    for _ in 0..EVENT_WORDS {
        let _ = write!(text, "{} ", word(random_word_number(numbers)));
    }
    text.pop();
    text
}

/// Fills the data directory; returns the bytes of all bodies.
async fn fill_events(site: &Site, events: usize) -> Outcome<u64> {
    let env = site.env(DATA_DIR)?;
    let local =
        Arc::new(LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?);
    let keys = engine::keys(events.div_ceil(OF_SESSION));
    engine::create(&*local, &keys).await.map_err(io::Error::other)?;
    let kind = EventType::new("user.message").map_err(io::Error::other)?;
    let (mut numbers, mut left, mut bytes) = (Numbers::from(7), events, 0);
    for key in keys.iter() {
        let mut of_session = left.min(OF_SESSION);
        left -= of_session;
        while of_session > 0 {
            stop_here(site)?;
            let count = of_session.min(BATCH);
            of_session -= count;
            let event = |_| {
                let body = json!({"content": text(&mut numbers)}).to_string();
                bytes += body.len() as u64;
                let (id, origin, created_at, position) = (None, Origin::User, None, None);
                let kind = kind.clone();
                NewEvent { id, kind, origin, created_at, position, body: body.into() }
            };
            let events = (0..count).map(event).collect();
            let batch = Batch { events, ..Batch::default() };
            local.append(key, batch).await.map_err(io::Error::other)?;
        }
        site.bar.set_message(format!("search: {} of {events} events", events - left));
    }
    local.close().await;
    Ok(bytes)
}

async fn ask(client: &mut Connection, request: Vec<u8>) -> Outcome<Value> {
    client.out = request;
    let answer = client.ask(1).await?;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
    Ok(serde_json::from_slice(answer.get(body..).unwrap_or_default()).map_err(io::Error::other)?)
}

async fn is_complete(client: &mut Connection) -> Outcome<bool> {
    let path = "/v1/search?q=anything&limit=1&wait_ms=1000";
    let answer = ask(client, get(path, "application/json", "")).await?;
    Ok(answer.pointer("/complete/is_complete") == Some(&Value::Bool(true)))
}

/// Returns the sorted milliseconds from an acknowledgement to the response that has the event.
fn measure_index_delay(site: &Site, client: &mut Connection) -> Outcome<Vec<f64>> {
    let key = engine::keys(1);
    let session = key.first().map(|key| key.session.to_string()).unwrap_or_default();
    let mut times = Vec::new();
    for number in 0..FOUND {
        stop_here(site)?;
        let marker = format!("marker{number}x{}", site.clock.now().0);
        let event = json!({"events": [{"type": "user.message", "content": marker}]});
        let path = format!("/v1/sessions/{session}/events");
        site.wait(ask(client, post_json(&path, &event.to_string())))??;
        let began = site.clock.monotonic();
        loop {
            stop_here(site)?;
            let request = get(&format!("/v1/search?q={marker}&limit=1"), "application/json", "");
            let answer = site.wait(ask(client, request))??;
            if answer.pointer("/hits/0/why/whole").and_then(Value::as_f64) > Some(0.0) {
                break;
            }
        }
        times.push(site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Returns the ratio of an append's processor time on a server with search to that on one without,
/// the median of many turns, in each of which both servers get the same number of appends.
fn append_cost_ratio(site: &mut Site, round: u32) -> Outcome<f64> {
    let [on, off] = ["on", "off"].map(|which| site.path(&format!("search-{which}-{round}")));
    let servers = [Server::start(site, &on)?, Server::unsearched(site, &off)?];
    let mut numbers = Numbers::from(11);
    let mut clients = Vec::new();
    for server in &servers {
        let mut client = site.wait(Connection::open(server.address, Protocol::Http))??;
        let create = post_json("/v1/sessions", &json!({"id": "one"}).to_string());
        site.wait(ask(&mut client, create))??;
        clients.push(client);
    }
    let mut ratios = Vec::new();
    for turn in 0..TURNS {
        stop_here(site)?;
        let mut busy = [0.0; 2];
        // The two servers alternate in being first.
        for which in [turn % 2, (turn + 1) % 2] {
            let (Some(server), Some(client), Some(busy)) =
                (servers.get(which), clients.get_mut(which), busy.get_mut(which))
            else {
                continue;
            };
            let before = machine::busy(server.process.pid());
            for _ in 0..APPENDS {
                let event = json!({"type": "user.message", "content": text(&mut numbers)});
                let body = json!({"events": [event]}).to_string();
                site.wait(ask(client, post_json("/v1/sessions/one/events", &body)))??;
            }
            *busy = machine::busy(server.process.pid()) - before;
        }
        let [on, off] = busy;
        ratios.extend((turn >= FIRST_TURNS && off > 0.0).then_some(on / off));
    }
    ratios.sort_by(f64::total_cmp);
    // Ranks that contain the true median in 95 of 100 cases.
    let spread = (float(ratios.len() as u64)).sqrt();
    let rank = |share: f64| {
        let at = (float(ratios.len() as u64) / 2.0 + share * spread).max(0.0);
        ratios.get(at as usize).or(ratios.last()).copied().unwrap_or_default()
    };
    let middle = median(&ratios);
    let (least, most) = (rank(-1.0), rank(1.0));
    site.notes.push(format!("search.append: {middle:.3}, within {least:.3} to {most:.3}"));
    drop(clients);
    for server in servers {
        server.process.stop()?;
    }
    Ok(middle)
}

fn directory_bytes(directory: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

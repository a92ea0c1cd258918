//! `hook`: passes one event of an agent's program from standard input to the owner or the spool. It
//! always exits with 0, so that recording never stops an agent. It must not interpret the event.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::{
    common::CommonFlags,
    config::{Config, StoreLocation},
    connect,
    failure::{CliError, Outcome, REFUSED},
    screen::{Screen, escaped, with_noun},
    values::{ConfigError, Environment},
};
use crate::{
    client::Client,
    env::{Clock as _, clock::SystemClock, entropy::SystemEntropy, files, parents},
    event::Timestamp,
    hook::{
        Admission, DrainReport, Hook, HookInput, HookOutcome, Keys, Payload, Spool, Transcripts,
        drain, tail,
    },
    import::{TranscriptProgram, tail as lines},
    secrets::Recogniser,
};

/// Variable in which Claude Code passes the project's directory.
const PROJECT: &str = "CLAUDE_PROJECT_DIR";
/// Time in which a verb starts deliveries of spooled hook events, and time for which it waits for
/// the last delivery, before its own work.
const DELIVER_SHARE: Duration = Duration::from_secs(3);
const DELIVER_WAIT: Duration = Duration::from_secs(6);

pub(super) fn run(common: &CommonFlags, environment: &Environment, screen: &mut Screen) -> Outcome {
    if io::stdin().is_terminal() {
        screen.print_note(
            "sessionlog hook reads one event of an agent's program from standard input; \
             `sessionlog install claude-code` sets that up.",
        );
    }
    if let Err(failure) = record_event(common, environment, screen) {
        screen.print_note(format!("sessionlog hook: {failure}"));
    }
    // Output printed before the failure is complete: a reply is one line.
    let _ = screen.flush();
    Ok(())
}

fn record_event(common: &CommonFlags, environment: &Environment, screen: &mut Screen) -> Outcome {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let input = HookInput::read(io::stdin().lock());
    let config = Config::load(common, environment);
    // A wrong setting must not stop spooling: events are still spooled for their store and
    // encrypted with its key, and the user's rules on secrets and recording still apply.
    let known = match &config {
        Ok(config) => Ok(config.clone()),
        Err(_) => Config::load_for_store(common, environment),
    };
    let (secrets, wrong) = match &known {
        Ok(config) => config.secrets.salvage(),
        // Without readable rules the built-in ones still remove secrets.
        Err(_) => (Recogniser::default(), Vec::new()),
    };
    let payload = Payload::read(&input, &secrets).map_err(io::Error::other)?;
    let directory = environment.text(PROJECT);
    let secrets = Arc::new(secrets);
    let (mut gap, mut past, mut withholds) = (None, None, None);
    let payload = match &known {
        Ok(config) => {
            let who = payload.work_session(directory.as_deref());
            match config.gate.admit(&who, clock.now()) {
                Admission::Refused => return Ok(()),
                Admission::Admitted(before) => gap = before,
            }
            past = Some(config.gate.transcript_filter(&who));
            let (gate, directory) = (config.gate.clone(), payload.directory().map(str::to_owned));
            withholds =
                Some(move |input: &Value| gate.excludes_call(Some(input), directory.as_deref()));
            payload.without_excluded_input(&config.gate)
        }
        // No client and no spool exist to record it.
        Err(_) => payload,
    };
    for why in wrong {
        screen.print_note(format!("sessionlog hook: {}", escaped(&why)));
    }
    let client = match &config {
        Ok(config) => {
            connect::create_client(config, environment).map_err(|failure| failure.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let hook = Hook {
        client,
        spool: open_spool(known.map(|config| config.store_location()), environment),
        spent: clock.monotonic().saturating_sub(begun),
        clock: Arc::new(clock),
        entropy: Arc::new(SystemEntropy),
        transcripts: transcript_reader(Arc::clone(&secrets), past, withholds),
        // The directory is recorded, and may contain a secret like any other text.
        directory: directory.map(|directory| secrets.mask(&directory).into_text()),
        secrets,
        process: parents::names_with_machine(),
        home: environment.text("HOME").map(PathBuf::from),
        wait: config.as_ref().map_or(Duration::ZERO, |config| config.hook_wait),
        timeout: config.as_ref().map_or(Duration::MAX, |config| config.hook_timeout),
        tokens_max: config.as_ref().map_or(0, |config| config.hook_tokens),
        recall_max: config.as_ref().map_or(0, |config| config.hook_recall),
        gap,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(hook.run(&payload));
    // A task may still wait for an owner to start; the hook does not wait for it.
    runtime.shutdown_background();
    print_outcome(&done, screen)
}

/// Returns a reader of transcripts that removes secrets and skips lines that must not be read.
fn transcript_reader<F, W>(
    secrets: Arc<Recogniser>,
    past: Option<F>,
    withholds: Option<W>,
) -> Transcripts
where
    F: Fn(Option<Timestamp>, Option<&str>) -> bool + Send + Sync + 'static,
    W: Fn(&Value) -> bool + Send + Sync + 'static,
{
    let secrets = Arc::new((secrets, past, withholds));
    Box::new(move |path, is_codex| {
        let Some(mut file) = files::open_user_file(Path::new(path))? else { return Ok(None) };
        let rules = Arc::clone(&secrets);
        Ok(Some(Box::new(move |ask| {
            let (secrets, past, withholds) = &*rules;
            let program =
                if is_codex { TranscriptProgram::Codex } else { TranscriptProgram::ClaudeCode };
            let may_read =
                |at, directory: Option<&str>| past.as_ref().is_some_and(|past| past(at, directory));
            let read = match ask {
                tail::TailRequest::Copy => match lines::find_end_of_copy(&mut file)? {
                    Some(place) => lines::NewLines { place, ..lines::NewLines::default() },
                    None => return Ok(tail::TranscriptTail::default()),
                },
                tail::TailRequest::Compaction(place) => {
                    let place = place.and_then(|place| serde_json::from_value(place.clone()).ok());
                    let found = lines::find_compaction(&mut file, place.as_ref())?;
                    let masked = |text: String| secrets.mask(&text).into_text();
                    let compaction = found.map(|found| tail::FoundCompaction {
                        summary: found.summary.map(masked),
                        prompts: found.prompts.into_iter().map(masked).collect(),
                    });
                    return Ok(tail::TranscriptTail { compaction, ..Default::default() });
                }
                tail::TailRequest::Outcome(call) => {
                    let outcome = lines::find_outcome(&mut file, call)?;
                    let outcome = outcome.map(|outcome| (outcome.failed, outcome.exit_code));
                    return Ok(tail::TranscriptTail { outcome, ..Default::default() });
                }
                tail::TailRequest::End => lines::NewLines {
                    place: lines::find_end(&mut file)?,
                    ..lines::NewLines::default()
                },
                tail::TailRequest::After(place) => {
                    // A note of another version holds no valid location.
                    let place = place.and_then(|place| serde_json::from_value(place.clone()).ok());
                    lines::read_since(&mut file, program, place.as_ref(), &may_read, secrets)?
                }
            };
            let place = match serde_json::to_value(&read.place)? {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            let events = read.events.iter().filter_map(|event| serde_json::from_str(event).ok());
            let (branch, prompts) = (read.branch, read.prompts);
            let mut events: Vec<Value> = events.collect();
            let withholds =
                |input: &Value| withholds.as_ref().is_none_or(|withholds| withholds(input));
            tail::remove_excluded(&mut events, &withholds);
            Ok(tail::TranscriptTail { place, branch, events, prompts, ..Default::default() })
        })))
    })
}

fn print_outcome(done: &HookOutcome, screen: &mut Screen) -> Outcome {
    if let Some(trouble) = &done.trouble {
        screen.print_note(format!("sessionlog hook: {trouble}"));
    }
    if screen.json {
        let report = json!({
            "session": done.session, "recorded": done.recorded, "spooled": done.spooled,
            "answer": done.answer,
        });
        return Ok(screen.print_json(&report)?);
    }
    match &done.answer {
        Some(answer) => Ok(screen.print_json(answer)?),
        None => Ok(()),
    }
}

/// Delivers spooled hook events before a verb reads; waits for at most [`DELIVER_WAIT`].
pub(super) async fn deliver_spooled(
    client: &Client,
    config: &Config,
    environment: &Environment,
    screen: &Screen,
) {
    let spool = open_spool(Ok(config.store_location()), environment);
    if spool.is_empty() {
        return;
    }
    let clock = SystemClock::new();
    let mut drained = DrainReport::default();
    let draining = drain(client, &spool, &clock, DELIVER_SHARE, &mut drained);
    let stopped = match tokio::time::timeout(DELIVER_WAIT, draining).await {
        Ok(Ok(())) => drained.stopped,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer for {} s", DELIVER_WAIT.as_secs())),
    };
    if let Some(why) = stopped {
        screen.print_note(format!("events of hooks wait in {spool}: {why}"));
    }
    let asides = [(drained.unreadable, "cannot be read"), (drained.refused, "were refused")];
    for (aside, why) in asides.into_iter().filter(|(aside, _)| *aside > 0) {
        screen.print_note(format!(
            "{aside} of them {why}; they were moved to {spool}/refused: see `sessionlog doctor`"
        ));
    }
}

/// Events of hooks that are not in the store.
pub(super) struct UndeliveredEvents {
    /// Directory of the events, for display.
    pub(super) directory: String,
    /// Number of events that wait.
    pub(super) waiting: usize,
    /// Number of events that were set aside.
    pub(super) refused: usize,
    /// The sessions that refused them, each with the reason.
    pub(super) reasons: Vec<String>,
}

/// Counts the events of hooks that are not in the store.
pub(super) fn count_undelivered(config: &Config, environment: &Environment) -> UndeliveredEvents {
    count_events(&open_spool(Ok(config.store_location()), environment))
}

fn count_events(spool: &Spool) -> UndeliveredEvents {
    let reasons = spool.refusal_reasons().into_iter().map(|(session, reasons)| {
        let reasons = Vec::from_iter(reasons).join(", ");
        let known = if reasons.is_empty() { "the reason was not kept" } else { &*reasons };
        format!("{session}: {known}")
    });
    UndeliveredEvents {
        directory: spool.to_string(),
        waiting: spool.spooled_paths().len(),
        refused: spool.refused_paths().len(),
        reasons: reasons.collect(),
    }
}

/// `deliver`: delivers spooled events and those that were set aside, and reports what remains.
pub(super) async fn deliver_all(
    client: &Client,
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let spool = open_spool(Ok(config.store_location()), environment);
    spool.readmit()?;
    let before = spool.spooled_paths().len();
    let mut drained = DrainReport::default();
    drain(client, &spool, &SystemClock::new(), Duration::MAX, &mut drained).await?;
    let left = count_events(&spool);
    let delivered = before.saturating_sub(left.waiting + left.refused);
    let whys = drained.stopped.iter().chain(&drained.waiting).chain(&left.reasons);
    let whys: Vec<&String> = IndexSet::<&String>::from_iter(whys).into_iter().collect();
    if screen.json {
        screen.print_json(&json!({
            "delivered": delivered, "waiting": left.waiting, "refused": left.refused,
            "reasons": whys, "directory": left.directory,
        }))?;
    } else {
        screen.print_line(format!("{} delivered", with_noun(delivered as u64, "event")))?;
        let places =
            [("wait in", left.waiting, ""), ("are set aside in", left.refused, "/refused")];
        for (doing, count, below) in places.into_iter().filter(|(_, count, _)| *count > 0) {
            screen.print_line(format!("{count} {doing} {}{below}", left.directory))?;
        }
        for why in whys {
            screen.print_note(escaped(why));
        }
    }
    if left.waiting + left.refused == 0 { Ok(()) } else { Err(CliError::Silent(REFUSED)) }
}

/// Returns the spool of a store: next to the data directory, or else in the user's state directory;
/// a server has a separate directory, so that its events are not delivered to another store.
/// Without a known store and key no event is spooled.
fn open_spool(store: Result<StoreLocation, ConfigError>, environment: &Environment) -> Spool {
    let state = environment.dir_or_below_home("XDG_STATE_HOME", ".local/state");
    let state = state.map(|state| state.join("sessionlog/spool"));
    let places = store.as_ref().ok().map(|StoreLocation { data_dir, server, .. }| {
        let whose = server.as_deref().map(Spool::server_suffix).unwrap_or_default();
        let mut beside = data_dir.clone().into_os_string();
        beside.push(format!(".spool{whose}"));
        let name = data_dir.display().to_string().replace(['/', '\\'], "%") + &whose;
        [Some(PathBuf::from(beside)), state.map(|state| state.join(name))]
    });
    let source = store.map(|store| store.keys).map_err(|error| error.to_string());
    let keys: Keys = Box::new(move || match &source {
        Ok(source) => source.read().map_err(|failure| io::Error::other(failure.to_string())),
        Err(why) => Err(io::Error::other(why.clone())),
    });
    let places = places.into_iter().flatten().flatten().collect();
    Spool::new(places, keys, Arc::new(SystemEntropy))
}

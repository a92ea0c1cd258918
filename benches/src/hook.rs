//! Time that an agent waits at each of its events: for the hook program, from its start to its end,
//! with a running owner; and for a program that does nothing, the minimum of any hook. They run one
//! at a time, as an agent runs them. It must not time the preparation of an event.

use std::process::Stdio;

use serde_json::json;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    failure::Outcome,
    process::{self, sessionlog},
    runner::median,
    server::{Server, without_settings},
    site::{Site, stop_here},
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Hook,
    figures: &[
        figure("hook.floor", "a program that does nothing, from start to end", "ms"),
        figure("hook.record", "one call of a tool, recorded through a running owner", "ms"),
        figure("hook.record.p99", "the slowest of a hundred of these", "ms"),
        figure("hook.answer", "a compaction, answered with what the model is told", "ms"),
    ],
    run,
};

/// Number of hooks in a round, and the minimum for a small run.
const HOOKS: usize = 200;
const HOOKS_FEW: usize = 20;
/// Number of sessions from which on a run is a full one.
const WHOLE: usize = 10_000;
const DATA_DIR: &str = "hook";
/// Program that does nothing.
const NOTHING: &str = "true";

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let server = Server::start(site, &site.path(DATA_DIR))?;
    let hooks = if site.settings.sessions >= WHOLE { HOOKS } else { HOOKS_FEW };
    let nothing = process::find(NOTHING, &[]);
    let (mut floor, mut record) = (Vec::new(), Vec::new());
    let (mut slowest, mut answer) = (Vec::new(), Vec::new());
    let mut samples = site.samples.clone();
    for round in 0..site.settings.rounds {
        let (mut nothings, mut records, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for hook in 0..hooks {
            stop_here(site)?;
            let id = format!("{round}-{hook}");
            let said = String::from_utf8_lossy(&samples.next().json).into_owned();
            records.push(time_program(site, hook_command(site)?, &result_payload(&id, &said))?);
            if let Some(nothing) = &nothing {
                nothings.push(time_program(site, Command::new(nothing), "")?);
            }
            if hook % 10 == 0 {
                answers.push(time_program(site, hook_command(site)?, &compaction_payload())?);
            }
        }
        floor.extend((!nothings.is_empty()).then(|| median(&nothings)));
        record.push(median(&records));
        slowest.push(percentile_99(&records));
        answer.push(median(&answers));
    }
    drop(server);
    let few = || format!("with {hooks} hooks a round; the target speaks of {HOOKS}");
    let unjudged = (hooks != HOOKS).then(few);
    Ok(ProbeResult { values: vec![floor, record, slowest, answer], unjudged })
}

fn hook_command(site: &Site) -> Outcome<Command> {
    let mut command = sessionlog();
    without_settings(&mut command);
    command.arg("hook").arg("--data-dir").arg(site.path(DATA_DIR));
    command.arg("--config").arg(site.configuration());
    Ok(command)
}

fn result_payload(id: &str, said: &str) -> String {
    json!({
        "session_id": "bench", "hook_event_name": "PostToolUse", "cwd": "/", "tool_name": "Bash",
        "tool_use_id": id, "tool_input": { "command": "cargo test" },
        "tool_response": { "stdout": said, "stderr": "", "interrupted": false },
    })
    .to_string()
}

fn compaction_payload() -> String {
    json!({ "session_id": "bench", "hook_event_name": "SessionStart", "cwd": "/", "source": "compact" })
        .to_string()
}

/// Runs a program; returns the milliseconds from its start to its end.
fn time_program(site: &Site, mut command: Command, input: &str) -> Outcome<f64> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let began = site.clock.monotonic();
    site.runtime.block_on(async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that reads no input may have ended.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait().await
    })?;
    Ok(site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3)
}

/// Returns the 99th percentile of the times.
fn percentile_99(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

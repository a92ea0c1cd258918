//! `pause` and `unpause`, and the state of recording in `status` and `doctor`. It must not request
//! anything from an owner: a pause also applies while none runs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    args,
    config::Config,
    failure::{CliError, Outcome},
    screen::Screen,
};
use crate::{
    env::{Clock as _, clock::SystemClock, files},
    event::Timestamp,
    hook::Pause,
};

pub(super) fn pause(config: &Config, wanted: &args::PauseArgs, screen: &mut Screen) -> Outcome {
    let directory = wanted.directory.as_deref().map(resolve_directory).transpose()?;
    let from = SystemClock::new().now();
    let to = wanted
        .lasts
        .map(|lasts| from.plus_micros(i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX)));
    config
        .gate
        .pause(directory.clone(), from, to)
        .map_err(|error| pause_write_failure(config, error))?;
    if screen.json {
        return print_recording_state(config, screen);
    }
    let place = describe_directory(directory.as_deref());
    let until = to.map_or_else(
        || "until `sessionlog unpause`".to_owned(),
        |to| format!("until {}", screen.times().format_date(&to.to_string())),
    );
    screen.print_line(format!("Recording is paused {place}, {until}."))?;
    Ok(())
}

pub(super) fn unpause(config: &Config, wanted: &args::UnpauseArgs, screen: &mut Screen) -> Outcome {
    let directory = wanted.directory.as_deref().map(resolve_directory).transpose()?;
    let now = SystemClock::new().now();
    let ended = config.gate.unpause(directory.as_deref(), now);
    let ended = ended.map_err(|error| pause_write_failure(config, error))?;
    if screen.json {
        return print_recording_state(config, screen);
    }
    let left =
        config.gate.active_pauses(now).map_err(|error| pause_write_failure(config, error))?;
    screen.print_line(match (ended, &directory) {
        (0, None) => "Nothing was paused.".to_owned(),
        (0, Some(_)) => {
            format!("Nothing was paused {} alone.", describe_directory(directory.as_deref()))
        }
        _ => format!("Recording continues {}.", describe_directory(directory.as_deref())),
    })?;
    for pause in &left {
        screen.print_line(format!("Still {}.", describe_pause(pause, screen)))?;
    }
    if !config.gate.is_on() {
        screen.print_note("Nothing is recorded all the same, by the settings.");
    }
    Ok(())
}

fn print_recording_state(config: &Config, screen: &mut Screen) -> Outcome {
    Ok(screen.print_json(&json!({ "recording": recording_to_json(config) }))?)
}

/// Returns a directory in the form that pauses use: with links resolved if it exists.
fn resolve_directory(path: &Path) -> Outcome<PathBuf> {
    files::resolve(path).map_err(CliError::file(path))
}

fn pause_write_failure(config: &Config, source: std::io::Error) -> CliError {
    match config.gate.pauses_path() {
        Some(file) => CliError::file(file)(source),
        None => CliError::usage("there is no home directory to keep a pause in"),
    }
}

fn describe_directory(directory: Option<&Path>) -> String {
    directory.map_or("everywhere".to_owned(), |path| format!("in {}", path.display()))
}

fn describe_pause(pause: &Pause, screen: &Screen) -> String {
    let since = screen.times().format_when(&pause.from().to_string());
    let until = pause.to().map(|to| screen.times().format_date(&to.to_string()));
    let until = until.map_or_else(String::new, |until| format!(", until {until}"));
    format!("paused {}, since {since}{until}", describe_directory(pause.directory.as_deref()))
}

/// Returns the pauses that are active at a time; `None` if the list cannot be read.
fn active_pauses(config: &Config, now: Timestamp) -> Option<Vec<Pause>> {
    config.gate.active_pauses(now).ok()
}

/// Describes in one line which events are recorded; the flag is true if a pause or rule that the
/// user may have forgotten prevents recording.
pub(super) fn describe_recording(config: &Config, screen: &Screen) -> (String, bool) {
    let but = match config.settings().text("exclude") {
        "" => String::new(),
        globs => format!("; never {globs}"),
    };
    match active_pauses(config, SystemClock::new().now()) {
        _ if !config.gate.is_on() => ("off, by the settings".to_owned(), true),
        None => ("off: the list of pauses cannot be read".to_owned(), true),
        Some(pauses) if pauses.is_empty() => (format!("on{but}"), false),
        Some(pauses) => {
            let all: Vec<String> =
                pauses.iter().map(|pause| describe_pause(pause, screen)).collect();
            (format!("{}{but}", all.join("; ")), true)
        }
    }
}

pub(super) fn recording_to_json(config: &Config) -> Value {
    let pauses = active_pauses(config, SystemClock::new().now()).map(|pauses| {
        let one = |pause: &Pause| {
            json!({
                "directory": pause.directory, "from": pause.from().to_string(),
                "to": pause.to().map(|to| to.to_string()),
            })
        };
        pauses.iter().map(one).collect::<Vec<Value>>()
    });
    let exclude = config.settings().get("exclude");
    json!({
        "on": config.gate.is_on() && pauses.is_some(), "pauses": pauses,
        "exclude": exclude.and_then(|found| found.value.clone()),
    })
}

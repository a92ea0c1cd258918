//! `pause` and `unpause`, and the state of recording in `status` and `doctor`. It must not request
//! anything from an owner: a pause also applies while none runs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    args,
    config::Config,
    failure::{Failure, Outcome},
    screen::Screen,
};
use crate::{
    env::{Clock as _, clock::SystemClock, files},
    event::Timestamp,
    hook::Pause,
};

pub(super) fn pause(config: &Config, wanted: &args::PauseArgs, screen: &mut Screen) -> Outcome {
    let directory = wanted.directory.as_deref().map(found).transpose()?;
    let from = SystemClock::new().now();
    let to = wanted
        .lasts
        .map(|lasts| from.plus_micros(i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX)));
    config.gate.pause(directory.clone(), from, to).map_err(|error| write_failure(config, error))?;
    if screen.json {
        return print_recording(config, screen);
    }
    let place = place(directory.as_deref());
    let until = to.map_or_else(
        || "until `sessionlog unpause`".to_owned(),
        |to| format!("until {}", screen.times().date(&to.to_string())),
    );
    screen.line(format!("Recording is paused {place}, {until}."))?;
    Ok(())
}

pub(super) fn unpause(config: &Config, wanted: &args::UnpauseArgs, screen: &mut Screen) -> Outcome {
    let directory = wanted.directory.as_deref().map(found).transpose()?;
    let now = SystemClock::new().now();
    let ended = config.gate.unpause(directory.as_deref(), now);
    let ended = ended.map_err(|error| write_failure(config, error))?;
    if screen.json {
        return print_recording(config, screen);
    }
    let left = config.gate.lasting(now).map_err(|error| write_failure(config, error))?;
    screen.line(match (ended, &directory) {
        (0, None) => "Nothing was paused.".to_owned(),
        (0, Some(_)) => format!("Nothing was paused {} alone.", place(directory.as_deref())),
        _ => format!("Recording continues {}.", place(directory.as_deref())),
    })?;
    for pause in &left {
        screen.line(format!("Still {}.", describe_pause(pause, screen)))?;
    }
    if !config.gate.is_on() {
        screen.note("Nothing is recorded all the same, by the settings.");
    }
    Ok(())
}

fn print_recording(config: &Config, screen: &mut Screen) -> Outcome {
    Ok(screen.value(&json!({ "recording": to_json(config) }))?)
}

/// Returns a directory in the form that pauses use: with links resolved where it exists.
fn found(path: &Path) -> Outcome<PathBuf> {
    files::resolved(path).map_err(Failure::file(path))
}

fn write_failure(config: &Config, source: std::io::Error) -> Failure {
    match config.gate.file() {
        Some(file) => Failure::file(file)(source),
        None => Failure::usage("there is no home directory to keep a pause in"),
    }
}

fn place(directory: Option<&Path>) -> String {
    directory.map_or("everywhere".to_owned(), |path| format!("in {}", path.display()))
}

fn describe_pause(pause: &Pause, screen: &Screen) -> String {
    let since = screen.times().when(&pause.from().to_string());
    let until = pause.to().map(|to| screen.times().date(&to.to_string()));
    let until = until.map_or_else(String::new, |until| format!(", until {until}"));
    format!("paused {}, since {since}{until}", place(pause.directory.as_deref()))
}

/// Returns the pauses that are active at a time; none where the list cannot be read.
fn lasting(config: &Config, now: Timestamp) -> Option<Vec<Pause>> {
    config.gate.lasting(now).ok()
}

/// Describes in one line what is recorded; returns true with it if a pause or rule that a user may
/// have forgotten prevents recording.
pub(super) fn described(config: &Config, screen: &Screen) -> (String, bool) {
    let but = match config.settings().text("exclude") {
        "" => String::new(),
        globs => format!("; never {globs}"),
    };
    match lasting(config, SystemClock::new().now()) {
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

pub(super) fn to_json(config: &Config) -> Value {
    let pauses = lasting(config, SystemClock::new().now()).map(|pauses| {
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

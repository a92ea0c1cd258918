//! `keys check` and `keys rotate`: reports which master keys a data directory needs, and replaces
//! the master key. It must not show a key, and `check` must not change a byte, nor need a key or an
//! owner.

use std::io;

use super::{
    args::KeysVerb,
    config::Config,
    failure::{CliError, DAMAGED, Outcome, REFUSED},
    screen::{Screen, Tone, with_noun},
};
use crate::{
    api::admin::KeysAnswer,
    client::Client,
    env::{Env, files},
    store::{
        key_ids,
        local::{OpenError, key_report},
    },
    verbs::{NoParams, NoQuery, admin},
};

/// Runs `keys check` on a local directory, without an owner.
pub(super) fn check_local_keys(config: &Config, screen: &mut Screen) -> Outcome {
    let failed = CliError::file(&config.data_dir);
    // Opening a directory that does not exist would create it.
    let there = files::path_info(&config.data_dir).map_err(&failed)?;
    if there.is_none() {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    let env = Env::open_with_lock_rule(&config.data_dir, config.lock_rule)
        .map_err(&failed)?
        .with_keys(config.keys.read()?);
    let report = key_report(&env).map_err(|error| match error {
        OpenError::Io { source, .. } => failed(source),
        other => CliError::Damaged(format!("{}: {other}", config.data_dir.display())),
    })?;
    let answer = KeysAnswer::from(report);
    if screen.json {
        screen.print_json(&serde_json::to_value(&answer).unwrap_or_default())?;
    } else {
        print_key_status(&answer, screen)?;
    }
    check_keys(&answer)
}

pub(super) async fn run(
    client: &Client,
    config: &Config,
    verb: KeysVerb,
    screen: &mut Screen,
) -> Outcome {
    match verb {
        KeysVerb::Check => {
            let answer = client.call::<admin::GetKeys>(&NoParams {}, &NoQuery {}, &()).await?;
            screen.print_result(&answer, |screen| print_key_status(&answer, screen))?;
            check_keys(&answer)
        }
        KeysVerb::Rotate => rotate_keys(client, config, screen).await,
    }
}

/// Repeats the request until every session has the new key. The owner may have started before the
/// key was changed here.
async fn rotate_keys(client: &Client, config: &Config, screen: &mut Screen) -> Outcome {
    let bar = screen.create_progress_bar(None, "{wide_bar} {pos}/{len} keys {eta}");
    let answer = loop {
        let answer = client.call::<admin::RotateKeys>(&NoParams {}, &NoQuery {}, &()).await;
        let answer = answer.inspect_err(|_| bar.finish_and_clear())?;
        bar.set_length(answer.keys);
        bar.set_position(answer.keys.saturating_sub(answer.behind));
        if answer.previous.is_none() {
            break answer;
        }
    };
    bar.finish_and_clear();
    let own = config.keys.read()?.map(|keys| key_ids(&keys)).unwrap_or_default();
    if let Some(wanted) = own.first().map(ToString::to_string)
        && config.url.is_none()
        && answer.current.as_ref() != Some(&wanted)
    {
        return Err(CliError::invalid_request(
            format!("the owner was started with other keys than {wanted}"),
            "stop it (it exits by itself when idle), then run this again",
        ));
    }
    let (id, keys) = (answer.current.as_deref().unwrap_or_default(), with_noun(answer.keys, "key"));
    screen.print_result(&answer, |screen| {
        screen.print_line(format!("{keys} under {id}, none under another: the one before may go"))
    })
}

fn print_key_status(answer: &KeysAnswer, screen: &mut Screen) -> io::Result<()> {
    if !answer.encrypted {
        return screen.print_line("This store is not encrypted; no key needed.");
    }
    let given = |id: &String| {
        let there = answer.given.contains(id);
        let tone = if there { Tone::Good } else { Tone::Bad };
        screen.paint(tone, if there { "given" } else { "not given" })
    };
    let mut lines = Vec::new();
    for (name, id) in [("in force", &answer.current), ("the one before", &answer.previous)] {
        lines.extend(id.as_ref().map(|id| format!("{name}: {id}, {}", given(id))));
    }
    let wanted =
        |id: &&String| answer.current.as_ref() != Some(id) && answer.previous.as_ref() != Some(id);
    let others = answer.given.iter().filter(wanted);
    lines.extend(others.map(|id| format!("given and not wanted here: {id}")));
    let KeysAnswer { keys, behind, destroyed, unreadable, .. } = answer;
    lines.push(format!("keys of sessions: {keys}, not yet under it: {behind}"));
    lines.push(format!("destroyed: {destroyed}, unreadable: {unreadable}"));
    lines.iter().try_for_each(|line| screen.print_line(line))
}

/// Returns an error unless the store would open and every key is intact.
fn check_keys(answer: &KeysAnswer) -> Outcome {
    match (answer.opens, answer.unreadable) {
        (true, 0) => Ok(()),
        (false, _) => Err(CliError::Silent(REFUSED)),
        (true, _) => Err(CliError::Silent(DAMAGED)),
    }
}

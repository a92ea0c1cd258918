//! Tab completion: a shell runs the program with what was typed so far, and the program answers
//! with possible continuations, ids of sessions included. It must not print anything else, and must
//! not wait long for a store.

use std::{ffi::OsStr, process::ExitCode, time::Duration};

use clap::{Arg, Args as _, Command, FromArgMatches as _};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
    env::Shells,
};

use super::{
    common::Common,
    config::Config,
    connect,
    failure::{DONE, Outcome, USAGE},
    screen::{Screen, one_line},
    values::Environment,
};
use crate::{
    api::sessions::Session,
    verbs::{Nowhere, sessions},
};

/// Environment variable in which the script of a shell names the shell.
const VARIABLE: &str = "SESSIONLOG_COMPLETE";
/// Ids offered at most: the sessions that were begun last.
const IDS_MAX: usize = 200;
/// Time for which a shell waits for ids.
const PATIENCE: Duration = Duration::from_secs(2);
/// Characters of a title beside an id.
const TITLE_CHARS: usize = 40;

/// Answers a shell that asks; `None` where the program was run for something else.
pub(super) fn answer(command: fn() -> Command) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    if is_in_parts() {
        return Some(ExitCode::from(DONE));
    }
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    let directory = std::env::current_dir().ok();
    match asked.try_complete(std::env::args_os(), directory.as_deref()) {
        Ok(true) => Some(ExitCode::from(DONE)),
        Ok(false) => None,
        Err(error) => {
            let _ = error.print();
            Some(ExitCode::from(USAGE))
        }
    }
}

/// True if the completed word is the rest of a longer one: Bash cuts words at colons, and the text
/// behind `checkpoint:` is no word of its own.
fn is_in_parts() -> bool {
    let number = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|at| at.parse::<usize>().ok());
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let is_cut = |at: usize| words.get(at).is_some_and(|word| word == ":");
    number.is_some_and(|at| is_cut(at) || at.checked_sub(1).is_some_and(is_cut))
}

/// Prints the script that makes a shell ask.
pub(super) fn script(shell: clap_complete::Shell, screen: &mut Screen) -> Outcome {
    let name = "sessionlog";
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, name, name, name, &mut script)?;
    }
    Ok(screen.raw(&script)?)
}

/// Completes the id of a session.
pub(super) fn ids() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let named = newest().into_iter().filter(|session| session.id.starts_with(&*typed));
        let candidate = |session: Session| {
            let title = session.title.map(|title| one_line(&title, TITLE_CHARS).into());
            CompletionCandidate::new(session.id).help(title)
        };
        named.map(candidate).collect()
    })
}

/// The newest sessions of the store that the typed words name; none where it does not answer.
fn newest() -> Vec<Session> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let environment = Environment::of_process();
    let found = || {
        let rest = Arg::new("rest").num_args(0..).allow_hyphen_values(true);
        let command = Common::augment_args(Command::new("sessionlog").arg(rest));
        let typed = command.ignore_errors(true).disable_help_flag(true).get_matches_from(words);
        let config = Config::load(&Common::from_arg_matches(&typed).ok()?, &environment).ok()?;
        connect::check_directory(&config).ok()?;
        let client = connect::client(&config, &environment).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let query = sessions::ListQuery { limit: Some(IDS_MAX), ..Default::default() };
        let list = runtime.block_on(async {
            let list = client.call::<sessions::List>(&Nowhere {}, &query, &());
            tokio::time::timeout(PATIENCE, list).await.ok()?.ok()
        });
        runtime.shutdown_background();
        Some(list?.data)
    };
    found().unwrap_or_default()
}

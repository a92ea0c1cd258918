//! Tab completion: a shell runs the program with the text typed so far, and the program prints the
//! possible completions, session ids included. It must not print anything else, nor wait longer
//! than [`PATIENCE`] for a store.

use std::{ffi::OsStr, process::ExitCode, time::Duration};

use clap::{Arg, Args as _, Command, FromArgMatches as _};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
    env::Shells,
};

use super::{
    common::CommonFlags,
    config::Config,
    connect,
    failure::{DONE, Outcome, USAGE},
    open,
    screen::{Screen, one_line},
    values::Environment,
};
use crate::{
    api::sessions::Session,
    verbs::{NoParams, sessions},
};

/// Environment variable in which a shell's completion script names the shell.
const VARIABLE: &str = "SESSIONLOG_COMPLETE";
/// Maximum number of ids offered: those of the sessions created last.
const IDS_MAX: usize = 200;
/// Time limit for fetching ids.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum characters of the title shown next to an id.
const TITLE_CHARS: usize = 40;

/// Handles a completion request of a shell; returns `None` in any other run.
pub(super) fn handle_completion(command: fn() -> Command) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    if is_split_word() {
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

/// Returns true if the completed word is the rest of a longer one: Bash splits words at colons, and
/// the text after `checkpoint:` is not a separate word.
fn is_split_word() -> bool {
    let number = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|at| at.parse::<usize>().ok());
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let is_cut = |at: usize| words.get(at).is_some_and(|word| word == ":");
    number.is_some_and(|at| is_cut(at) || at.checked_sub(1).is_some_and(is_cut))
}

/// Prints the completion script of a shell.
pub(super) fn print_script(shell: clap_complete::Shell, screen: &mut Screen) -> Outcome {
    let name = "sessionlog";
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, name, name, name, &mut script)?;
    }
    Ok(screen.write_raw(&script)?)
}

/// Returns a completer for session ids.
pub(super) fn id_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let named =
            fetch_newest_sessions().into_iter().filter(|session| session.id.starts_with(&*typed));
        let candidate = |session: Session| {
            let title = session.title.map(|title| one_line(&title, TITLE_CHARS).into());
            CompletionCandidate::new(session.id).help(title)
        };
        named.map(candidate).collect()
    })
}

/// Fetches the newest sessions of the store that the typed flags select; none if it is silent.
fn fetch_newest_sessions() -> Vec<Session> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let environment = Environment::from_process();
    let found = || {
        let rest = Arg::new("rest").num_args(0..).allow_hyphen_values(true);
        let command = CommonFlags::augment_args(Command::new("sessionlog").arg(rest));
        let typed = command.ignore_errors(true).disable_help_flag(true).get_matches_from(words);
        let config =
            Config::load(&CommonFlags::from_arg_matches(&typed).ok()?, &environment).ok()?;
        open::check_is_store(&config).ok()?;
        let client = connect::create_client(&config, &environment).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let query = sessions::ListQuery { limit: Some(IDS_MAX), ..Default::default() };
        let list = runtime.block_on(async {
            let list = client.call::<sessions::ListSessions>(&NoParams {}, &query, &());
            tokio::time::timeout(PATIENCE, list).await.ok()?.ok()
        });
        runtime.shutdown_background();
        Some(list?.data)
    };
    found().unwrap_or_default()
}

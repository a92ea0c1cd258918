//! COMMAND LINE and composition root: parses arguments, loads settings, runs one verb, and turns
//! its outcome into text and an exit code. Every verb but `serve` goes through a client. It must
//! not decide anything about sessions. Only this directory prints and reads the environment.

mod answer;
mod append;
mod args;
mod backup;
mod browse;
mod checks;
mod columns;
mod common;
mod compare;
mod complete;
mod config;
mod connect;
mod consent;
mod demo;
mod embedder;
mod events;
mod failure;
mod foreign;
mod fork;
mod graph;
mod handoff;
mod health;
mod hook;
mod inspect;
mod install;
mod interfaces;
mod keys;
mod layers;
mod logging;
mod mcp;
mod memory;
mod migrate;
mod names;
mod open;
mod page;
mod pager;
mod pause;
mod place;
pub mod player;
mod proxy;
mod readable;
mod reference;
mod repair;
mod retention;
mod rotate;
mod safe;
mod screen;
mod search;
mod secrets;
mod serve;
mod sessions;
mod settings;
mod signals;
mod stage;
mod table;
mod tenants;
mod times;
mod titles;
mod tokens;
mod transfer;
mod values;
mod verify;
mod view;
mod why;
mod work;
mod workspace;

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::{
    Command, FromArgMatches as _, Parser as _,
    error::{ContextKind, ContextValue},
};

use args::{Arguments, BackupArgs, BackupVerb, HookArguments, Verb};
use config::Config;
use failure::{CliError, DONE, Outcome, USAGE};
use screen::Screen;
use values::Environment;

use crate::{client::Client, event::SessionId};

pub use readable::format_answer;
pub use reference::reference_markdown as reference;

/// Runs the program and returns its exit code.
#[must_use]
pub fn run() -> ExitCode {
    if let Some(code) = complete::handle_completion(reference::build_command) {
        return code;
    }
    let arguments = match parse_arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            if std::env::args_os().len() < 2 {
                // Without arguments the program prints the first verbs to try.
                let _ = write!(std::io::stdout(), "{}", reference::first_steps_text());
                return ExitCode::from(DONE);
            }
            // Help and version are reported as errors here, but are none.
            let wrong = error.use_stderr();
            print_clap_error(&error);
            return ExitCode::from(if wrong && !is_hook_run() { USAGE } else { DONE });
        }
    };
    let environment = Environment::from_process();
    let is_dumb = environment.text("TERM").is_some_and(|term| term == "dumb");
    let colours = !is_dumb && !environment.variables.contains_key("NO_COLOR");
    let mut screen = Screen::new(arguments.common.json, colours, is_dumb);
    screen.quiet = arguments.common.quiet;
    if arguments.common.verbose && !matches!(arguments.verb, Verb::Serve(_) | Verb::Hook) {
        logging::start_text_log("debug");
    }
    if let Some(command) = pager_command(&arguments, &environment) {
        screen.start_pager(command, environment.variables.contains_key("LESS"));
    }
    let outcome = execute(arguments, &environment, &mut screen)
        .map_err(CliError::with_command_line_terms)
        .and_then(|()| screen.flush().map_err(CliError::from));
    let paged = screen.finish_pager().map_err(CliError::from);
    let outcome = outcome.and(paged);
    match outcome {
        Ok(()) => ExitCode::from(DONE),
        Err(failure) => {
            print_failure(&failure, &mut screen);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Parses the arguments of this process.
fn parse_arguments() -> Result<Arguments, clap::Error> {
    // Help and errors come from the complete definition.
    if is_hook_run()
        && let Ok(arguments) = HookArguments::try_parse()
    {
        return Ok(arguments.into());
    }
    let words = move_query_terms_last(std::env::args_os().collect());
    let matches = reference::build_command().try_get_matches_from(&words);
    Arguments::from_arg_matches(&matches.map_err(|error| drop_hidden_suggestion(error, &words))?)
}

/// Removes the suggestion of a flag that no help of the verb shows, as of a setting.
fn drop_hidden_suggestion(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg) else {
        return error;
    };
    let root = reference::build_command();
    let mut names = words.iter().filter_map(|word| word.to_str());
    let verb = names.find_map(|name| root.find_subcommand(name));
    let below = verb.and_then(|verb| names.find_map(|name| verb.find_subcommand(name)));
    let all = [Some(&root), verb, below].into_iter().flatten().flat_map(Command::get_arguments);
    let mut shown = all.filter(|one| !one.is_hide_set()).filter_map(|one| one.get_long());
    if !shown.any(|long| flag.strip_prefix("--") == Some(long)) {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// Returns the pager command, for a verb with long, readable output.
fn pager_command(arguments: &Arguments, environment: &Environment) -> Option<String> {
    if arguments.common.no_pager || arguments.common.json || !arguments.verb.is_paged() {
        return None;
    }
    let there = |name: &str| {
        environment
            .candidates_on_path(name)
            .iter()
            .any(|place| place.is_file())
            .then(|| name.to_owned())
    };
    let wanted = environment.text("PAGER").or_else(|| there("less"))?;
    Some(wanted).filter(|command| !matches!(command.trim(), "" | "cat"))
}

/// Prints help, version or an error of clap, which quotes the typed text.
fn print_clap_error(error: &clap::Error) {
    let text = error.render().to_string();
    if error.use_stderr() && safe::has_controls(&text) {
        let _ = write!(std::io::stderr(), "{}", screen::escaped(&text));
    } else {
        let _ = error.print();
    }
}

/// Moves the arguments of `search` that begin with a hyphen and are not flags to the end, after
/// `--`: `-word` is a part of a query.
fn move_query_terms_last(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_search = arguments.iter().skip(1).any(|argument| argument == "search");
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let is_left_out = |argument: &OsString| {
        let text = argument.to_string_lossy();
        let word = text.strip_prefix('-').filter(|word| !word.starts_with('-'));
        // Short flags are not followed by a second letter, only by digits: `-n5`.
        word.and_then(|word| word.chars().nth(1)).is_some_and(|second| !second.is_ascii_digit())
    };
    if !is_search {
        return arguments;
    }
    let (before, behind) = arguments.split_at(end);
    let (words, flags): (Vec<_>, Vec<_>) = before.iter().cloned().partition(is_left_out);
    if words.is_empty() {
        return arguments;
    }
    let rest = behind.iter().skip(1).cloned();
    flags.into_iter().chain([OsString::from("--")]).chain(words).chain(rest).collect()
}

/// Returns true for a run as an agent's hook, where exit code 2 would block the agent.
fn is_hook_run() -> bool {
    let mut arguments =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    // The verb is the first argument that is neither a flag nor a flag's value.
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("--") {
            None if argument.starts_with('-') => {}
            None => return argument == "hook",
            Some("json" | "quiet" | "verbose" | "no-pager") => {}
            Some(flag) if flag.contains('=') => {}
            Some(_) => drop(arguments.next()),
        }
    }
    false
}

/// Prints why a verb failed, on standard error.
fn print_failure(failure: &CliError, screen: &mut Screen) {
    if failure.is_silent() {
        let _ = screen.flush();
        return;
    }
    if screen.json {
        let _ = screen.print_json(&failure.to_json()).and_then(|()| screen.flush());
        return;
    }
    let _ = screen.flush();
    screen.print_error(format!("sessionlog: {}", screen::escaped(&failure.to_string())));
    if let Some(action) = failure.action() {
        screen.print_error(format!("  to do: {}", screen::escaped(&action)));
    }
}

fn execute(arguments: Arguments, environment: &Environment, screen: &mut Screen) -> Outcome {
    let Arguments { mut common, mut verb } = arguments;
    match (common.verbose, common.quiet, &verb) {
        (true, ..) => common.flags.set_default("log", "debug"),
        (_, true, Verb::Serve(_)) => common.flags.set_default("log", "error"),
        _ => {}
    }
    if let Verb::Proxy(proxy) = &mut verb {
        // Address of the proxied server and to listen on; those of the store are settings.
        proxy.upstream = common.flags.take("url");
        proxy.listen = common.flags.take("listen");
    }
    if matches!(&verb, Verb::Serve(serve) if serve.on_demand) {
        // Done before any file is opened.
        crate::env::host::detach_from_parent()?;
    }
    match &verb {
        Verb::Completions(completions) => return complete::print_script(completions.shell, screen),
        Verb::Man(wanted) => return reference::print_manual(wanted.verb.as_deref(), screen),
        Verb::Inspect(wanted) => return inspect::run(&wanted.path, screen),
        Verb::Hook => return hook::run(&common, environment, screen),
        Verb::Migrate(wanted) => return migrate::run(&common, environment, wanted, screen),
        _ => {}
    }
    if let Verb::Serve(serve) = &verb {
        return match Config::load(&common, environment) {
            Ok(config) => {
                foreign::describe_ignored_variables(environment)
                    .for_each(|said| screen.print_note(said));
                serve::run(&config, serve.on_demand, screen)
            }
            Err(error) if serve.on_demand => serve::report_not_started(&error.into(), screen),
            Err(error) => Err(error.into()),
        };
    }
    let config = Config::load(&common, environment)?;
    check_needs_no_directory(&verb, &config)?;
    match &verb {
        Verb::Config => {
            show_config(&config, environment, screen)?;
            return config.secrets.read().map(drop);
        }
        Verb::Install(wanted) => return install::install(&config, wanted, environment, screen),
        Verb::Uninstall(wanted) => return install::uninstall(wanted, environment, screen),
        Verb::Pause(wanted) => return pause::pause(&config, wanted, screen),
        Verb::Unpause(wanted) => return pause::unpause(&config, wanted, screen),
        Verb::Status => return health::print_status(&config, environment, screen),
        Verb::Doctor => return checks::run_doctor(&config, environment, screen),
        Verb::Tokens(wanted) => return tokens::run(&config, &wanted.verb, screen),
        Verb::Keys(wanted) if wanted.verb == args::KeysVerb::Check && config.is_directory() => {
            return rotate::check_local_keys(&config, screen);
        }
        Verb::Backup(BackupArgs { verb: BackupVerb::Restore(wanted) }) => {
            return backup::restore(&config, &wanted.from, screen);
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Verb::Demo(demo) = &verb {
        return runtime.block_on(demo::run(demo, screen));
    }
    if !creates_store(&verb) {
        open::check_is_store(&config)?;
    }
    // A long-running verb, and one that starts an owner, reports foreign variables.
    if matches!(&verb, Verb::Mcp(_) | Verb::Proxy(_)) || !connect::has_owner(&config) {
        foreign::describe_ignored_variables(environment).for_each(|said| screen.print_note(said));
    }
    let client = connect::create_client(&config, environment)?;
    let outcome = runtime.block_on(deliver_and_run(client, verb, &config, environment, screen));
    // A task may still block on standard input.
    runtime.shutdown_background();
    outcome
}

/// Rejects a verb about the files of a data directory where the store is a database.
fn check_needs_no_directory(verb: &Verb, config: &Config) -> Outcome {
    let Some(database) = config.database.as_ref().filter(|_| config.url.is_none()) else {
        return Ok(());
    };
    if !matches!(verb, Verb::Backup(_)) {
        return Ok(());
    }
    Err(CliError::invalid_request(
        format!("`sessionlog backup` works on a data directory, not on {}", database.url),
        "back the database up with its own tools, such as pgBackRest or pg_basebackup: \
         docs/beyond-one-machine.md",
    ))
}

/// Returns true if a verb creates a missing store, as those do that may write its first session;
/// other verbs fail without a store.
fn creates_store(verb: &Verb) -> bool {
    match verb {
        Verb::Append(_) | Verb::Import(_) | Verb::Mcp(_) | Verb::Proxy(_) => true,
        Verb::Memory(memory) => memory.insert.is_some(),
        Verb::Graph(graph) => graph.upsert.is_some(),
        Verb::Handoff(handoff) => matches!(handoff.verb, args::HandoffVerb::Save(_)),
        _ => false,
    }
}

/// Delivers spooled events of hooks, then runs the verb.
async fn deliver_and_run(
    client: Client,
    verb: Verb,
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    if let Verb::Deliver = verb {
        return hook::deliver_all(&client, config, environment, screen).await;
    }
    hook::deliver_spooled(&client, config, environment, screen).await;
    run_client_verb(client, verb, config, environment, screen).await
}

/// Runs a verb that sends requests to a server.
async fn run_client_verb(
    client: Client,
    mut verb: Verb,
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    place::resolve_workspaces(&mut verb, environment)?;
    names::resolve_workspace_name(&client, &mut verb).await?;
    names::resolve_session(&client, &mut verb).await?;
    match verb {
        Verb::Sessions(sessions) => sessions::list(&client, sessions, screen).await,
        Verb::Search(wanted) => search::run(&client, wanted, screen).await,
        Verb::Show(wanted) => sessions::show(&client, &wanted, screen).await,
        Verb::Checkpoints(wanted) => work::run_checkpoints(&client, wanted, screen).await,
        Verb::Cursors(wanted) => work::run_cursors(&client, wanted, screen).await,
        Verb::Memory(wanted) => memory::run(&client, wanted, screen).await,
        Verb::Graph(wanted) => graph::run(&client, wanted, screen).await,
        Verb::Mark(wanted) => memory::mark_event(&client, wanted, screen).await,
        Verb::Handoff(wanted) => handoff::run(&client, wanted, (config, environment), screen).await,
        Verb::Workspace(wanted) => workspace::run(&client, wanted, screen).await,
        Verb::Wake(wanted) => work::wake(&client, wanted, screen).await,
        Verb::History(wanted) => work::show_history(&client, wanted, screen).await,
        Verb::Usage(wanted) => work::show_usage(&client, wanted, screen).await,
        Verb::Why(wanted) => why::run(&client, &wanted, screen).await,
        Verb::Rename(wanted) => sessions::rename(&client, &wanted, screen).await,
        Verb::Tag(wanted) => sessions::tag(&client, wanted, screen).await,
        Verb::Archive(one) => sessions::archive(&client, one.session, screen).await,
        Verb::Unarchive(one) => sessions::unarchive(&client, one.session, screen).await,
        Verb::Delete(one) => sessions::delete(&client, one, screen).await,
        Verb::Erase(wanted) => sessions::erase(&client, &wanted, screen).await,
        Verb::Redact(one) => events::redact(&client, &one, screen).await,
        Verb::Hold(wanted) => retention::hold(&client, &wanted, screen).await,
        Verb::Restore(one) => retention::restore(&client, &one.session, screen).await,
        Verb::Retention(wanted) => retention::run(&client, wanted, screen).await,
        Verb::Append(append) => append::run(&client, append, screen).await,
        Verb::Events(events) => events::print_events(&client, events, screen).await,
        Verb::Open(wanted) => browse::run(&client, &wanted, config, screen).await,
        Verb::Replay(replay) => events::replay(&client, replay, screen).await,
        Verb::View(wanted) => view::show(&client, wanted, screen).await,
        Verb::Rewind(wanted) => fork::rewind(&client, wanted, screen).await,
        Verb::Fork(wanted) => fork::fork(&client, wanted, screen).await,
        Verb::Diff(wanted) => fork::diff(&client, wanted, screen).await,
        Verb::Compare(wanted) => compare::run(&client, wanted, screen).await,
        Verb::Import(import) => {
            transfer::import(&client, import, config, environment, screen).await
        }
        Verb::Export(export) => transfer::export(&client, export, config, screen).await,
        Verb::Proxy(wanted) => proxy::run(client, wanted, config, environment).await,
        Verb::Mcp(wanted) => mcp::run(client, wanted, config, environment, screen).await,
        Verb::Audit(wanted) => tokens::print_audit_log(&client, wanted, screen).await,
        Verb::Backup(BackupArgs { verb: BackupVerb::Create(wanted) }) => {
            backup::create(&client, config, &wanted.to, screen).await
        }
        Verb::Keys(wanted) => rotate::run(&client, config, wanted.verb, screen).await,
        Verb::Verify(verify) => verify::run(&client, &verify, screen).await,
        Verb::Repair(wanted) => repair::run(&client, wanted, screen).await,
        Verb::Backup(BackupArgs { verb: BackupVerb::Restore(_) })
        | Verb::Completions(_)
        | Verb::Config
        | Verb::Deliver
        | Verb::Demo(_)
        | Verb::Doctor
        | Verb::Hook
        | Verb::Inspect(_)
        | Verb::Install(_)
        | Verb::Man(_)
        | Verb::Migrate(_)
        | Verb::Pause(_)
        | Verb::Serve(_)
        | Verb::Status
        | Verb::Tokens(_)
        | Verb::Uninstall(_)
        | Verb::Unpause(_) => unreachable!("it asks no server, and ran before"),
    }
}

impl Verb {
    /// Returns true if the verb's output may be long and is for reading.
    pub(super) fn is_paged(&self) -> bool {
        match self {
            Self::Events(verb) => !verb.follow,
            Self::Sessions(_)
            | Self::Search(_)
            | Self::Show(_)
            | Self::Memory(_)
            | Self::Graph(_)
            | Self::View(_)
            | Self::Rewind(_)
            | Self::Diff(_)
            | Self::Compare(_)
            | Self::History(_)
            | Self::Usage(_)
            | Self::Why(_)
            | Self::Audit(_)
            | Self::Inspect(_)
            | Self::Config => true,
            _ => false,
        }
    }

    /// Returns the session of the verb if it must already exist; `append` resolves its session only
    /// after its first batch was refused.
    pub(super) fn session_mut(&mut self) -> Option<&mut SessionId> {
        match self {
            Self::Show(verb) => Some(&mut verb.session),
            Self::Events(verb) => Some(&mut verb.session),
            Self::Replay(verb) => Some(&mut verb.session),
            Self::View(verb) => Some(&mut verb.session),
            Self::Rewind(verb) => Some(&mut verb.session),
            Self::Fork(verb) => Some(&mut verb.session),
            Self::Diff(verb) => Some(&mut verb.session),
            Self::Compare(verb) => Some(&mut verb.session),
            Self::Export(verb) => Some(&mut verb.session),
            Self::Checkpoints(verb) => Some(&mut verb.session),
            Self::Cursors(verb) => Some(&mut verb.session),
            Self::Memory(verb) => verb.session.as_mut(),
            Self::Handoff(verb) => verb.session_mut(),
            Self::Mark(verb) => Some(&mut verb.session),
            Self::Wake(verb) => Some(&mut verb.session),
            Self::Rename(verb) => Some(&mut verb.session),
            Self::Tag(verb) => Some(&mut verb.session),
            Self::Archive(verb) | Self::Unarchive(verb) => Some(&mut verb.session),
            Self::Delete(verb) => Some(&mut verb.session),
            Self::Hold(verb) => Some(&mut verb.session),
            Self::Erase(verb) => verb.session.as_mut(),
            Self::Redact(verb) => Some(&mut verb.session),
            Self::Restore(verb) => Some(&mut verb.session),
            Self::Search(verb) => verb.session.as_mut(),
            Self::Open(verb) => verb.session.as_mut(),
            Self::Verify(verb) => verb.session.as_mut(),
            Self::Repair(verb) => verb.session.as_mut(),
            _ => None,
        }
    }
}

fn show_config(config: &Config, environment: &Environment, screen: &mut Screen) -> Outcome {
    if screen.json {
        let settings: serde_json::Map<String, serde_json::Value> = config
            .setting_values()
            .map(|found| {
                let about = serde_json::json!({
                    "value": found.display_value(), "source": found.source, "help": found.help,
                });
                (found.name.to_owned(), about)
            })
            .collect();
        let file = config.file.as_ref().map(|path| path.display().to_string());
        screen.print_json(&serde_json::json!({ "settings": settings, "file": file }))?;
        return Ok(());
    }
    let rows = config
        .setting_values()
        .map(|found| {
            let value = found.display_value().unwrap_or_else(|| "(none)".to_owned());
            vec![found.name.to_owned(), value, found.source.clone(), found.help.clone()]
        })
        .collect::<Vec<_>>();
    screen.print_note(match &config.file {
        Some(path) => format!("Settings are read from {}.", path.display()),
        None => match environment.dir_or_below_home("XDG_CONFIG_HOME", ".config") {
            Some(path) => {
                let path = path.join("sessionlog").join(layers::FILE_NAME);
                format!("There is no configuration file; its path is {}.", path.display())
            }
            None => "There is no configuration file: HOME is not set.".to_owned(),
        },
    });
    if !screen.terminal {
        return Ok(screen.print_table(&[], rows)?);
    }
    Ok(readable::LineBuffer::print(screen, |paper| {
        for row in &rows {
            let [name, value, from, meaning] = row.as_slice() else { continue };
            paper.push_text(&format!("{name} = {value}  ({from})"));
            paper.push(screen::Tone::Faint, "      ", meaning);
        }
    })?)
}

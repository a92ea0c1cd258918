//! Builds a client from settings: selects socket or server, and starts an owner when none responds.
//! It must not open the data directory itself.

use std::{
    ffi::OsString,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    config::{Config, Database},
    failure::{CliError, Outcome},
    settings::PREFIX,
    values::Environment,
};
use crate::{
    client::{Client, ClientTarget, OwnerStart, OwnerTarget},
    env::{
        Entropy, LOCK_FILE, entropy::SystemEntropy, files, host::OwnerSocket, project::Project,
        shortage,
    },
    mcp::LocalSettings,
    service::disk_full_advice,
    store::local::OpenError,
};

/// Settings that are always passed to a started owner explicitly, and those that only a front end
/// uses: they are not forwarded again.
const REPLACED: [&str; 14] = [
    "data_dir",
    "store_passfile",
    "owner_idle",
    "log",
    "url",
    "token",
    "token_file",
    "ca",
    "secrets",
    "secrets_file",
    "record",
    "exclude",
    "files_roots",
    "extractors",
];

/// File names that identify a directory as a store, or as the remains of one.
const STORE_FILES: [&str; 5] = ["STORE", "MIGRATING", "journal", "segments", "owner.sock"];

/// Creates a client for the configured store.
pub(super) fn create_client(config: &Config, environment: &Environment) -> Outcome<Client> {
    match &config.url {
        Some(url) => {
            let shown = config.interfaces.read_credentials()?;
            Ok(Client::with_credentials(ClientTarget::Server(url.clone()), random_text(), shown)?)
        }
        None => Ok(Client::new(
            ClientTarget::Owner(startable_owner(config, environment)?),
            random_text(),
        )?),
    }
}

/// Creates the part of a front end that works on local files.
pub(super) fn create_local(config: &Config, environment: &Environment) -> Outcome<LocalSettings> {
    let worktree = current_project(environment).and_then(|project| project.worktree);
    let files_roots = config.files_roots.clone();
    let local = LocalSettings { files_roots, worktree, ..LocalSettings::default() };
    // Without extractors no text leaves the machine, and the rules are not needed.
    Ok(match config.extractors.is_empty() {
        true => local,
        false => {
            let secrets = Arc::new(config.secrets.read()?);
            LocalSettings { extractors: config.extractors.clone(), secrets, ..local }
        }
    })
}

/// Returns the project that this program runs in.
pub(super) fn current_project(environment: &Environment) -> Option<Project> {
    let home = environment.text("HOME").map(PathBuf::from);
    Some(Project::from_directory(&std::env::current_dir().ok()?, home.as_deref()))
}

/// Rejects a directory with content other than a store, and an empty one named by a flag: a command
/// that only reads must not create a store there.
pub(super) fn check_directory(config: &Config) -> Outcome {
    let inside = match files::list(&config.data_dir) {
        Ok(paths) => paths,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        // The owner reports why the directory cannot be opened.
        Err(_) => return Ok(()),
    };
    let has = |names: &[&str]| {
        let is_one =
            |path: &PathBuf| path.file_name().is_some_and(|n| names.iter().any(|m| n == *m));
        inside.iter().any(is_one)
    };
    let (problem, action) = if config.url.is_some() || config.database.is_some() {
        return Ok(());
    } else if has(&["RESTORING"]) {
        return Err(unfinished_restore_failure(config));
    } else if has(&STORE_FILES) {
        return Ok(());
    } else if has(&["BACKUP"]) {
        ("it is a backup", "`sessionlog backup restore` makes a store of it")
    } else if inside.iter().all(|path| path.ends_with(LOCK_FILE) || path.ends_with("owner.log")) {
        if !config.flags().any(|(name, ..)| name == "data_dir") {
            return Ok(());
        }
        ("there is no store", "name another; `append`, `import` and `serve` make one")
    } else {
        ("it holds other files and no store", "name another with --data-dir")
    };
    let message = format!("data directory {}: {problem}", config.data_dir.display());
    Err(CliError::invalid_request(message, action))
}

/// Returns the failure for an interrupted restore into the data directory.
pub(super) fn unfinished_restore_failure(config: &Config) -> CliError {
    let (data_dir, error) = (config.data_dir.display(), OpenError::Unfinished);
    CliError::invalid_request(
        format!("data directory {data_dir}: {error}; it is no store yet"),
        format!("repeat it: `sessionlog backup restore DIR --data-dir {data_dir}`"),
    )
}

/// Returns the owner of the data directory, to be started when none responds.
fn startable_owner(config: &Config, environment: &Environment) -> Outcome<OwnerTarget> {
    let start = OwnerStart {
        program: running_program()?,
        name: OsString::from("sessionlog"),
        arguments: owner_arguments(config),
        environment: forwarded_environment(environment),
    };
    let target = owner_target(config, Some(start))?;
    check_ownership(config, &target.socket)?;
    Ok(target)
}

/// Rejects a data directory or socket of another user, before any request is sent. Root may work in
/// directories of other users, as in a container, but never connects to another user's socket.
fn check_ownership(config: &Config, socket: &Path) -> Outcome {
    let directory = (config.data_dir.as_path(), "data directory");
    let places = [(socket, "socket of data directory"), directory];
    for (path, what) in places.into_iter().take(if files::is_root() { 1 } else { 2 }) {
        // If the socket cannot be inspected, connecting to it fails and reports the error.
        let Ok(Some(uid)) = files::foreign_owner(path) else { continue };
        return Err(CliError::refusal(
            "owner_unavailable",
            format!("{what} {}: it is of another user ({uid})", config.data_dir.display()),
            "work as that user, or name a directory of your own with --data-dir",
        ));
    }
    Ok(())
}

/// Returns true if an owner or a server already exists, so that a command need not start one.
pub(super) fn has_owner(config: &Config) -> bool {
    config.url.is_some()
        || owner_socket(config)
            .is_ok_and(|socket| matches!(files::path_info(&socket.path), Ok(Some(_))))
}

/// Returns the owner of the data directory, with `start` describing how to start one.
pub(super) fn owner_target(config: &Config, start: Option<OwnerStart>) -> Outcome<OwnerTarget> {
    let socket = owner_socket(config)?;
    Ok(OwnerTarget {
        socket: socket.path,
        directory: socket.directory.map(Arc::new),
        data_dir: config.data_dir.clone(),
        config_digest: config.config_digest(),
        start,
    })
}

pub(super) fn owner_socket(config: &Config) -> Outcome<OwnerSocket> {
    OwnerSocket::new(&config.data_dir).map_err(|error| unusable_directory_failure(config, &error))
}

/// Returns the failure for a data directory that the file system refuses.
pub(super) fn unusable_directory_failure(config: &Config, error: &io::Error) -> CliError {
    data_dir_failure(config, error, error)
}

/// Returns the same failure with the file system's error and a description of it.
pub(super) fn data_dir_failure(config: &Config, text: &dyn Display, error: &io::Error) -> CliError {
    let action = match shortage(error) {
        Some(short) => disk_full_advice(short),
        None => "make it a directory you may write to, or name another with --data-dir",
    };
    let message = format!("data directory {}: {text}", config.data_dir.display());
    CliError::refusal("owner_unavailable", message, action)
}

/// Returns the path of the running program: a newer one of that name must not become the owner.
pub(super) fn running_program() -> Outcome<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    Ok(if running.exists() { running } else { std::env::current_exe()? })
}

/// Returns arguments that give an owner these settings in any directory and environment.
fn owner_arguments(config: &Config) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["serve", "--on-demand", "--data-dir"].map(Into::into).into();
    arguments.push(config.data_dir.clone().into());
    arguments.push("--owner-idle".into());
    arguments.push(format!("{}ms", config.owner_idle.as_millis()).into());
    arguments.push("--log".into());
    // An owner has no terminal: by default its log file gets warnings only.
    arguments.push(config.configured_log().unwrap_or("warn").into());
    if !config.restore.files_roots.is_empty() {
        arguments.extend(["--files-roots".into(), config.restore.files_roots.join(":").into()]);
    }
    if let Some(passfile) = config.database.as_ref().and_then(Database::passfile) {
        arguments.extend(["--store-passfile".into(), passfile.into()]);
    }
    if let Some(file) = &config.file {
        arguments.push("--config".into());
        arguments.push(file.into());
    }
    for (_, flag, value) in config.flags().filter(|(name, ..)| !REPLACED.contains(name)) {
        arguments.extend([flag.into(), value.into()]);
    }
    arguments
}

fn forwarded_environment(environment: &Environment) -> Vec<(OsString, OsString)> {
    let is_replaced = |setting: &str| {
        let name = setting.to_lowercase();
        name == "config" || REPLACED.contains(&&*name)
    };
    environment
        .variables
        .iter()
        .filter_map(|(name, value)| {
            let setting = name.strip_prefix(PREFIX)?;
            (!is_replaced(setting)).then(|| (name.into(), value.clone()))
        })
        .collect()
}

/// Returns 128 random bits as text.
pub(super) fn random_text() -> String {
    let mut bytes = [0; 16];
    SystemEntropy.fill(&mut bytes);
    format!("{:032x}", u128::from_le_bytes(bytes))
}

//! Opens the store of the settings: checks directory and keys, then opens the configured engine, if
//! need be after an owner started on demand has left. No other part of a server knows the engine.
//! It must not serve requests.

use std::{io, sync::Arc, time::Duration};

use tracing::{info, warn};

use super::{
    config::{Config, Database},
    connect,
    failure::{CliError, Outcome},
    keys,
};
use crate::{
    client::{Client, ClientError, ClientTarget},
    env::{Env, Lock, files, host, sync::Mutex},
    store::{
        Lifetimes, Sharing, Store, StoreError,
        local::{LocalStore, OpenError},
        remote::{self, Durability, PostgresUrl, RemoteOptions, RemoteStore},
    },
};

/// Time for which `serve` waits for an owner started on demand to leave.
const TAKE_OVER: Duration = Duration::from_secs(15);
const TAKE_OVER_PAUSE: Duration = Duration::from_millis(20);

/// A store whose directory and keys were checked and which can be opened.
pub(super) struct CheckedStore {
    pub(super) env: Env,
    /// Permissions of the data directory.
    mode: u32,
    /// Lock of the directory of a node.
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl CheckedStore {
    /// Checks directory and keys; writes nothing.
    pub(super) fn check(config: &Config) -> Outcome<Self> {
        let env = Env::open_with_lock_rule(&config.data_dir, config.lock_rule)
            .map_err(|error| connect::unusable_directory_failure(config, &error))?;
        let mode = check_directory_mode(config)?;
        let env = env.with_keys(config.keys.read()?);
        if config.database.is_some() {
            check_holds_no_store(config)?;
        } else {
            LocalStore::check_keys(&env).map_err(|error| open_failure(config, &error))?;
        }
        Ok(Self { env, mode, lock: Mutex::default() })
    }

    /// Opens the store: takes the data directory's lock, if need be from an owner started on
    /// demand.
    pub(super) async fn open_store(
        &self,
        config: &Config,
        on_demand: bool,
    ) -> Outcome<Arc<dyn Store>> {
        if self.mode & 0o055 != 0 {
            let mode = format!("{:04o}", self.mode);
            warn!(mode, "other users may look into the data directory; take that away: chmod 700");
        }
        take_over(config, on_demand, async || match &config.database {
            Some(database) => match self.lock_directory() {
                Ok(()) => self.open_node(database, config.store.lifetimes).await.map(Ok),
                Err(error) => Ok(Err(error)),
            },
            None => {
                let (env, options) = (self.env.clone(), config.store);
                let open = move || LocalStore::open(&env, options);
                let opened = tokio::task::spawn_blocking(open).await;
                Ok(opened.map_err(io::Error::other)?.map(|store| store as Arc<dyn Store>))
            }
        })
        .await
    }
}

/// Opens what needs the lock of a data directory, if need be after an owner started on demand has
/// left.
pub(super) async fn take_over<T>(
    config: &Config,
    on_demand: bool,
    mut open: impl AsyncFnMut() -> Outcome<Result<T, OpenError>>,
) -> Outcome<T> {
    let owner = existing_owner_client(config)?;
    // Retries only if another process owns the directory; opening itself may take long.
    let mut give_up = None;
    loop {
        match open().await? {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Owned) if on_demand => return Err(CliError::Silent(1)),
            Err(OpenError::Owned) => {}
            Err(error) => return Err(open_failure(config, &error)),
        }
        let give_up = give_up.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKE_OVER)));
        match owner.fetch_owner_report().await {
            Ok(report) if !report.on_demand => {
                return Err(already_owned_failure(config, Some(report.pid)));
            }
            // The owner may have ended meanwhile; the next attempt shows it.
            Ok(_) => drop(owner.step_down().await),
            Err(silent @ ClientError::OwnerSilent { .. }) => return Err(silent.into()),
            Err(_) => {}
        }
        tokio::select! {
            biased;
            () = give_up => return Err(already_owned_failure(config, None)),
            () = tokio::time::sleep(TAKE_OVER_PAUSE) => {}
        }
    }
}

impl CheckedStore {
    /// Takes the lock of the directory of a node.
    fn lock_directory(&self) -> Result<(), OpenError> {
        let doing = "locking the directory of the node".to_owned();
        let locked = self.env.storage.lock().map_err(|source| OpenError::Io { doing, source })?;
        *self.lock.lock() = Some(locked.ok_or(OpenError::Owned)?);
        Ok(())
    }

    /// Connects a node to the database.
    async fn open_node(
        &self,
        database: &Database,
        lifetimes: Lifetimes,
    ) -> Outcome<Arc<dyn Store>> {
        let url = database.read_url()?;
        if !url.is_verified() {
            warn!(database = %url, "the server does not prove who it is: sslmode=verify-full does");
        }
        let (clock, entropy) = (Arc::clone(&self.env.clock), Arc::clone(&self.env.entropy));
        let options = RemoteOptions {
            lifetimes,
            required: database.required,
            keys: self.env.keys.clone(),
            place: host::process_place(),
        };
        let opened = RemoteStore::open_postgres(&url, clock, entropy, options).await;
        let store = opened.map_err(|error| database_failure(&url, &error))?;
        if let Some(Sharing { durability, nodes }) = store.shared() {
            info!(database = %url, durability, "node started");
            if durability == Durability::Single.as_str() {
                warn!(
                    database = %url,
                    "no synchronous standby is named: what is acknowledged survives a crash of \
                     the database, not its loss"
                );
            }
            for node in nodes.iter().filter(|node| !node.is_alike) {
                let place = &node.place;
                warn!("node {place} has other lifetimes or another version: give all the same");
            }
        }
        Ok(Arc::new(store))
    }
}

/// Rejects a directory with a store of its own as that of a node.
fn check_holds_no_store(config: &Config) -> Outcome {
    let store = config.data_dir.join("STORE");
    if !matches!(files::path_info(&store), Ok(Some(_))) {
        return Ok(());
    }
    let data_dir = config.data_dir.display();
    Err(CliError::invalid_request(
        format!("data directory {data_dir}: it holds a store of its own"),
        "give the node another directory with --data-dir, or leave --data-dir out",
    ))
}

/// Rejects a directory without a store, and a database without one that no owner serves: a command
/// that only reads must not create a store there.
pub(super) fn check_is_store(config: &Config) -> Outcome {
    connect::check_directory(config)?;
    let Some(database) = config.database.as_ref().filter(|_| !connect::has_owner(config)) else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let url = database.read_url()?;
    let found = runtime.block_on(remote::check_has_store(&url));
    found.map_err(|error| database_failure(&url, &error))
}

/// Returns the failure of a database that is not opened.
pub(super) fn database_failure(url: &PostgresUrl, error: &StoreError) -> CliError {
    let (code, action) = match error {
        StoreError::Key(problem) => return keys::open_failure(&format!("database {url}"), problem),
        StoreError::Unreachable { .. } => (
            "store_unreachable",
            "see that the database runs, and that address, user and password are right: \
             `sessionlog doctor` tells more",
        ),
        StoreError::ReadOnly { .. } => ("store_read_only", "see docs/beyond-one-machine.md"),
        _ => ("internal_error", "see docs/beyond-one-machine.md"),
    };
    CliError::refusal(code, format!("database {url}: {error}"), action)
}

/// Rejects a start where a server that was not started on demand has the directory.
pub(super) async fn check_no_server(config: &Config) -> Outcome {
    match existing_owner_client(config)?.fetch_owner_report().await {
        Ok(owner) if !owner.on_demand => Err(already_owned_failure(config, Some(owner.pid))),
        Err(silent @ ClientError::OwnerSilent { .. }) => Err(silent.into()),
        _ => Ok(()),
    }
}

/// Creates a client of the running owner, without starting one.
fn existing_owner_client(config: &Config) -> Outcome<Client> {
    let target = connect::owner_target(config, None)?;
    Ok(Client::new(ClientTarget::Owner(target), connect::random_text())?)
}

/// Checks the mode of the data directory. Rejects one that other users may write to: they could
/// replace files. One that they may list reveals names only, since its files are private.
fn check_directory_mode(config: &Config) -> Outcome<u32> {
    let found = files::path_info(&config.data_dir);
    let found = found.map_err(|error| connect::unusable_directory_failure(config, &error))?;
    let mode = found.map_or(0o700, |found| found.mode);
    if mode & 0o022 == 0 {
        return Ok(mode);
    }
    let data_dir = config.data_dir.display();
    Err(CliError::refusal(
        "owner_unavailable",
        format!("data directory {data_dir}: other users may write to it (mode {mode:04o})"),
        format!("see that what is in it is yours, then: chmod 700 {data_dir}"),
    ))
}

fn already_owned_failure(config: &Config, pid: Option<u64>) -> CliError {
    let data_dir = config.data_dir.display();
    let who = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    let message = format!("data directory {data_dir} is served by {who} already");
    let action = "use that one, stop it, or serve another directory with --data-dir";
    CliError::refusal("owner_unavailable", message, action)
}

fn open_failure(config: &Config, error: &OpenError) -> CliError {
    let data_dir = config.data_dir.display();
    match error {
        OpenError::Owned => already_owned_failure(config, None),
        OpenError::Newer { .. } => CliError::refusal(
            "store_read_only",
            format!("data directory {data_dir}: {error}"),
            "use the version of sessionlog that wrote it, or a newer one",
        ),
        OpenError::Backup => CliError::invalid_request(
            format!("data directory {data_dir}: {error}; nothing was changed"),
            "bring it back into another directory: `sessionlog backup restore DIR --data-dir OTHER`",
        ),
        OpenError::Unfinished => connect::unfinished_restore_failure(config),
        OpenError::Migrating => CliError::invalid_request(
            format!("data directory {data_dir}: {error}"),
            "finish it: run the same `sessionlog migrate` again",
        ),
        OpenError::Moved { place } => CliError::refusal(
            "store_read_only",
            format!("data directory {data_dir}: {error}"),
            format!(
                "use {place}, with --store or --data-dir; if the copy there is not used, remove the \
                 file MOVED from the directory"
            ),
        ),
        OpenError::Damaged { .. } => CliError::Damaged(format!(
            "data directory {data_dir}: {error}; nothing was changed: keep a copy, then see \
             docs/operations.md"
        )),
        OpenError::Key { problem } => {
            keys::open_failure(&format!("data directory {data_dir}"), problem)
        }
        OpenError::Io { source, .. } => connect::data_dir_failure(config, error, source),
    }
}

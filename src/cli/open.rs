//! Opens the store of the settings: checks directory and keys, then opens the configured engine, if
//! need be after an owner started on demand has left. No other part of a server knows the engine.
//! It must not serve requests.

use std::{io, sync::Arc, time::Duration};

use tracing::warn;

use super::{
    config::Config,
    connect,
    failure::{CliError, Outcome},
    keys,
};
use crate::{
    client::{Client, ClientError, ClientTarget},
    env::{Env, files},
    store::{
        Store,
        local::{LocalStore, OpenError},
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
}

impl CheckedStore {
    /// Checks directory and keys; writes nothing.
    pub(super) fn check(config: &Config) -> Outcome<Self> {
        let env = Env::open_with_lock_rule(&config.data_dir, config.lock_rule)
            .map_err(|error| connect::unusable_directory_failure(config, &error))?;
        let mode = check_directory_mode(config)?;
        let env = env.with_keys(config.keys.read()?);
        LocalStore::check_keys(&env).map_err(|error| open_failure(config, &error))?;
        Ok(Self { env, mode })
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
        let owner = existing_owner_client(config)?;
        // Retries only if another process owns the directory; opening itself may take long.
        let mut give_up = None;
        loop {
            let (env, options) = (self.env.clone(), config.store);
            let opened = tokio::task::spawn_blocking(move || LocalStore::open(&env, options)).await;
            match opened.map_err(io::Error::other)? {
                Ok(store) => return Ok(store),
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
        OpenError::Damaged { .. } => CliError::Damaged(format!(
            "data directory {data_dir}: {error}; nothing was changed: keep a copy, then see \
             docs/operations.md"
        )),
        OpenError::Key { problem } => keys::open_failure(&data_dir.to_string(), problem),
        OpenError::Io { source, .. } => connect::data_dir_failure(config, error, source),
    }
}

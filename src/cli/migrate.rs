//! `migrate`: moves a store between a data directory and a database, in this process. It must not
//! decide what is copied, nor write before both places are known to be usable.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};

use super::{
    args::MigrateArgs,
    common::CommonFlags,
    config::Config,
    connect,
    failure::{CliError, DAMAGED, Outcome},
    keys,
    open::{database_failure, take_over},
    screen::{Screen, Tone, escaped, format_size, with_noun},
    values::Environment,
};
use crate::{
    env::{Env, Lock, clock::SystemClock, entropy::SystemEntropy, files},
    store::{
        StoreError,
        local::{DirectorySource, DirectoryTarget, LocalStore, OpenError},
        migrate::{
            DamagedSession, Migrated, MigrationError, MigrationOptions, MigrationSource,
            MigrationTarget, migrate,
        },
        remote::{BaseAccess, BaseSource, BaseTarget, PostgresUrl},
    },
};

/// Damaged sessions that are listed.
const LISTED_MAX: usize = 100;

/// One of the two places, with its settings.
struct Place {
    config: Config,
    /// Address of the database, with its password.
    url: Option<PostgresUrl>,
    name: String,
}

impl Place {
    /// Loads the settings of a place; without the keys of a store if `keyless`.
    fn load(
        text: &str,
        (common, environment): (&CommonFlags, &Environment),
        keyless: bool,
    ) -> Outcome<Self> {
        let is_address = text.contains("://");
        let (mut common, mut environment) = (common.clone(), environment.clone());
        set(&mut common, "store", if is_address { text } else { "" });
        if is_address {
            // The directory of a node on this machine, not that of a store.
            common.flags.take("data_dir");
            environment.variables.remove("SESSIONLOG_DATA_DIR");
        } else {
            set(&mut common, "data_dir", text);
        }
        if keyless {
            set(&mut common, "key_file", "");
            set(&mut common, "key_command", "");
            keys::VARIABLES.iter().for_each(|name| drop(environment.variables.remove(*name)));
        }
        let mut config = Config::load(&common, &environment)?;
        config.url = None;
        let url = config.database.as_ref().map(|database| database.read_url()).transpose()?;
        let name = match &url {
            Some(url) => url.to_string(),
            None => files::resolve(&config.data_dir)
                .unwrap_or_else(|_| config.data_dir.clone())
                .display()
                .to_string(),
        };
        Ok(Self { config, url, name })
    }

    fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Opens the directory, without the key if its store is in plaintext.
    fn open_env(&self) -> Outcome<Env> {
        let config = &self.config;
        let env = Env::open_with_lock_rule(&config.data_dir, config.lock_rule)
            .map_err(|error| connect::unusable_directory_failure(config, &error))?;
        let keyed = env.clone().with_keys(config.keys.read()?);
        Ok(if LocalStore::is_plaintext(&env) { env } else { keyed })
    }

    /// Keeps a node on this machine from being started on demand, and ends one that was.
    async fn hold_node(&self) -> Outcome<Option<Box<dyn Lock>>> {
        if self.url.is_none() {
            return Ok(None);
        }
        let (env, doing) = (self.open_env()?, "locking the directory of the node");
        let lock = async || {
            let locked = env.storage.lock();
            let locked = locked.map_err(|source| OpenError::Io { doing: doing.to_owned(), source });
            Ok(locked.and_then(|lock| lock.ok_or(OpenError::Owned)))
        };
        take_over(&self.config, false, lock).await.map(Some)
    }

    fn access(&self) -> Outcome<BaseAccess> {
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        Ok(BaseAccess { clock, entropy, keys: self.config.keys.read()? })
    }

    async fn open_source(&self) -> Outcome<Box<dyn MigrationSource>> {
        if let Some(url) = &self.url {
            let source = BaseSource::open_postgres(url, &self.access()?).await;
            return Ok(Box::new(source.map_err(|error| database_failure(url, &error))?));
        }
        connect::check_directory(&self.config)?;
        if !is_directory(self.data_dir())? {
            return Err(CliError::file(self.data_dir())(std::io::ErrorKind::NotFound.into()));
        }
        let (env, options) = (self.open_env()?, self.config.store);
        let source =
            take_over(&self.config, false, async || Ok(DirectorySource::open(&env, options)));
        Ok(Box::new(source.await?))
    }

    async fn open_target(&self, is_dry: bool) -> Outcome<Box<dyn MigrationTarget>> {
        if let Some(url) = &self.url {
            let target = BaseTarget::open_postgres(url, self.access()?, is_dry).await;
            return Ok(Box::new(target.map_err(|error| database_failure(url, &error))?));
        }
        let exists = is_directory(self.data_dir())?;
        let env = if exists || !is_dry { Some(self.open_env()?) } else { None };
        let options = self.config.store;
        let open = async || Ok(DirectoryTarget::open(env.clone(), options));
        Ok(Box::new(take_over(&self.config, false, open).await?))
    }
}

/// Replaces a flag.
fn set(common: &mut CommonFlags, name: &'static str, value: &str) {
    common.flags.take(name);
    common.flags.set_default(name, value);
}

fn is_directory(path: &Path) -> Outcome<bool> {
    let found = files::path_info(path).map_err(CliError::file(path))?;
    Ok(found.is_some_and(|found| found.is_dir))
}

/// Moves the store.
pub(super) fn run(
    common: &CommonFlags,
    environment: &Environment,
    wanted: &MigrateArgs,
    screen: &mut Screen,
) -> Outcome {
    let from = Place::load(&wanted.from, (common, environment), false)?;
    let to = Place::load(&wanted.to, (common, environment), wanted.decrypt)?;
    if from.name == to.name {
        return Err(CliError::usage("--from and --to are the same place"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = MigrationOptions {
        target: to.name.clone(),
        keeps_source: wanted.keep,
        allows_damaged: wanted.allow_damaged,
        is_dry: wanted.dry_run,
    };
    let bar = screen.create_progress_bar(Some(0), "{wide_bar} {pos}/{len} sessions {msg} {eta}");
    let mut progress = |done: &Migrated| {
        bar.set_length(done.sessions);
        bar.set_position(done.done_sessions);
        bar.set_message(format!(
            "{}, {}",
            with_noun(done.done_events, "event"),
            format_size(done.done_bytes)
        ));
    };
    let moved = runtime.block_on(async {
        let _nodes = (from.hold_node().await?, to.hold_node().await?);
        let source = from.open_source().await?;
        let mut target = to.open_target(wanted.dry_run).await?;
        let moved = migrate(&*source, &mut *target, &options, &mut progress).await;
        moved.map_err(|error| failure(&from, &to, &error))
    });
    bar.finish_and_clear();
    print_moved(&moved?, &from, &to, wanted, screen)
}

fn print_moved(
    moved: &Migrated,
    from: &Place,
    to: &Place,
    wanted: &MigrateArgs,
    screen: &mut Screen,
) -> Outcome {
    if screen.json {
        screen.print_json(&json!({
            "from": from.name, "to": to.name, "dry_run": wanted.dry_run,
            "was_complete": moved.was_complete, "source_writable": wanted.keep || wanted.dry_run,
            "sessions": moved.sessions, "events": moved.events, "bytes": moved.bytes,
            "copied": moved.copied, "damaged": damaged_to_json(&moved.damaged),
        }))?;
    } else {
        let counts = format!(
            "{}, {}, {}",
            with_noun(moved.sessions - moved.damaged.len() as u64, "session"),
            with_noun(moved.events, "event"),
            format_size(moved.bytes),
        );
        screen.print_line(match (wanted.dry_run, moved.was_complete) {
            (_, true) => format!("nothing to do: {} has it all: {counts}", to.name),
            (true, false) => format!("would move {counts} from {} to {}", from.name, to.name),
            (false, false) => {
                let verdict = screen.paint(Tone::Good, "moved");
                format!("{verdict} {counts} from {} to {}, and read back", from.name, to.name)
            }
        })?;
        print_damaged(&moved.damaged, screen)?;
        if !wanted.dry_run && !wanted.keep {
            screen.print_line(format!("{} refuses requests from now on", from.name))?;
        }
    }
    if moved.damaged.is_empty() { Ok(()) } else { Err(CliError::Silent(DAMAGED)) }
}

fn damaged_to_json(damaged: &[DamagedSession]) -> Vec<Value> {
    let one = |one: &DamagedSession| {
        let scope = &one.key.scope;
        json!({
            "tenant": scope.tenant.as_str(), "user": scope.user.as_str(),
            "session": one.key.session.as_str(), "reason": one.reason,
        })
    };
    damaged.iter().map(one).collect()
}

fn print_damaged(damaged: &[DamagedSession], screen: &mut Screen) -> Outcome {
    for one in damaged.iter().take(LISTED_MAX) {
        let scope = &one.key.scope;
        let whose = format!("{}/{} {}", scope.tenant, scope.user, one.key.session);
        screen.print_line(format!("  left out: {whose} {}", escaped(&one.reason)))?;
    }
    if damaged.len() > LISTED_MAX {
        screen.print_line(format!("  and {} more", damaged.len() - LISTED_MAX))?;
    }
    Ok(())
}

/// Returns the failure of a migration.
fn failure(from: &Place, to: &Place, error: &MigrationError) -> CliError {
    let message = format!("moving {} to {}: {error}", from.name, to.name);
    let again = "run the same command again: it continues";
    let (code, action) = match error {
        MigrationError::Damaged(damaged) => {
            let list = damaged.iter().take(LISTED_MAX).map(|one| {
                let scope = &one.key.scope;
                format!("{}/{} {}: {}", scope.tenant, scope.user, one.key.session, one.reason)
            });
            let list: Vec<String> = list.collect();
            return CliError::Damaged(format!(
                "{message}: {}; the target is not finished: repair them (`sessionlog repair`), or \
                 leave them out with --allow-damaged",
                list.join("; ")
            ));
        }
        MigrationError::InUse { .. } => ("owner_unavailable", "stop every node, and wait 10 s"),
        MigrationError::Occupied | MigrationError::OtherSource => {
            ("invalid_request", "name an empty directory or another schema")
        }
        MigrationError::Differs(_) => (
            "invalid_request",
            "the target is used already: to copy the source again, name another place",
        ),
        MigrationError::Moved(_) => ("store_read_only", "name the place that it was moved to"),
        MigrationError::Changed(_) | MigrationError::Unequal { .. } => ("not_finished", again),
        MigrationError::Store(StoreError::Key(_)) => (
            "forbidden",
            "give the key that it is encrypted under: SESSIONLOG_KEY, SESSIONLOG_KEY_FILE or \
             SESSIONLOG_KEY_COMMAND; --decrypt keeps it from the target",
        ),
        MigrationError::Store(StoreError::DiskFull(_)) => {
            ("disk_full", "make room; then run the same command again: it continues")
        }
        MigrationError::Store(
            StoreError::Unreachable { .. } | StoreError::OutcomeUnknown { .. } | StoreError::Busy,
        ) => ("store_unreachable", again),
        MigrationError::Store(StoreError::ReadOnly { .. }) => {
            ("store_read_only", "see docs/beyond-one-machine.md")
        }
        MigrationError::Store(_) => ("internal_error", again),
    };
    CliError::refusal(code, message, action)
}

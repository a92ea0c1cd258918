//! Settings: flags > environment (`SESSIONLOG_*`) > `sessionlog.toml` > defaults, each with its
//! source. It must not accept a setting that has no effect, nor replace a value that does not parse
//! by a default.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use url::Url;

use super::{
    common::CommonFlags,
    embedder::EmbedderSource,
    failure::{CliError, Outcome},
    foreign,
    interfaces::Interfaces,
    keys::{self, KeySource},
    layers::{self, SettingsLayer},
    secrets::SecretsSource,
    settings::{SETTINGS, Setting},
    values::{
        ConfigError, DEFAULT, ENVIRONMENT, Environment, FILE, FLAG, SettingValue, SettingValues,
        parse_duration, parse_server_url, parse_size,
    },
};
use crate::{
    env::{LockRule, files},
    event::short_hash,
    hook::RecordingGate,
    mcp::Extractor,
    secrets::Recogniser,
    service::{ContextLimits, RestoreOptions, SearchOptions},
    store::{
        Lifetimes,
        local::StoreOptions,
        remote::{Durability, PostgresUrl},
    },
};

/// Maximum bytes of a file of passwords.
const PASSFILE_BYTES_MAX: u64 = 1 << 20;
/// Log levels, as listed in an error.
const LOG_LEVELS: &str = "a level: off, error, warn, info, debug or trace";
const JOURNAL_FILE_BYTES_MIN: u64 = 32 << 10;
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
const SETTLE_AFTER_MIN: Duration = Duration::from_millis(10);

/// The store that the settings select, and the source of its keys.
pub(super) struct StoreLocation {
    pub(super) data_dir: PathBuf,
    /// Normalised address of the server of the store; `None` for the data directory's store.
    pub(super) server: Option<String>,
    pub(super) keys: KeySource,
}

/// A database that several nodes share.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) url: PostgresUrl,
    password: Option<String>,
    passfile: Option<PathBuf>,
    pub(super) required: Option<Durability>,
}

/// The current settings.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) data_dir: PathBuf,
    /// Database that several nodes share; the directory is then that of this node's socket and log.
    pub(super) database: Option<Database>,
    /// Locks that a process must take before it owns the store.
    pub(super) lock_rule: LockRule,
    pub(super) listen: SocketAddr,
    pub(super) log: String,
    pub(super) owner_idle: Duration,
    /// Interval at which changed sessions get a checkpoint; zero for never.
    pub(super) checkpoint_every: Duration,
    /// Maximum number of steps of a research session; 0 for no limit.
    pub(super) max_steps: u64,
    /// Settings of the search over all sessions.
    pub(super) search: SearchOptions,
    /// Default limits for context items of a restore.
    pub(super) restore: RestoreOptions,
    /// Directories, besides the workspace's own, below which a restore checks files.
    pub(super) files_roots: Vec<PathBuf>,
    pub(super) extractors: Vec<Extractor>,
    /// Embedder for the search.
    pub(super) embedder: EmbedderSource,
    /// Bounds of a model's context window.
    pub(super) monitor: ContextLimits,
    /// Maximum tokens that a hook injects into a context.
    pub(super) hook_tokens: usize,
    /// Maximum of these tokens for passages of earlier sessions.
    pub(super) hook_recall: usize,
    /// Maximum time for which an agent waits for a hook.
    pub(super) hook_wait: Duration,
    pub(super) hook_timeout: Duration,
    pub(super) url: Option<Url>,
    /// An invalid address; kept only where a wrong setting is tolerated.
    unreachable: Option<String>,
    pub(super) store: StoreOptions,
    /// Source of the store's master key.
    pub(super) keys: KeySource,
    /// Source of the rules for secrets that front ends remove from records.
    pub(super) secrets: SecretsSource,
    /// Rules for the events of other programs that front ends record.
    pub(super) gate: RecordingGate,
    /// Settings of the interfaces: credentials accepted, and those a client sends.
    pub(super) interfaces: Interfaces,
    /// The configuration file that was read.
    pub(super) file: Option<PathBuf>,
    found: Vec<SettingValue>,
}

impl Config {
    /// Loads the settings from all layers.
    pub(super) fn load(
        common: &CommonFlags,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let (file, from_file) = layers::read_file_layer(common, environment)?;
        let (defaults, flags) = (layers::default_layer(environment), layers::flag_layer(common));
        let layers = [defaults, from_file, layers::environment_layer(environment)?, flags];
        let mut found: Vec<SettingValue> = SETTINGS
            .iter()
            .map(|setting| find_setting(&layers, setting, file.as_deref()))
            .collect();
        found.extend(keys::list_settings(environment));
        Self::parse(found, file, environment).map(Self::without_passwords)
    }

    /// Hides the password in the address of a database where settings are listed.
    fn without_passwords(mut self) -> Self {
        for found in self.found.iter_mut().filter(|found| found.name == "store") {
            found.value = found.value.as_deref().map(hide_password);
        }
        self
    }

    /// Loads the settings of the store and the secret rules when [`Config::load`] fails: a wrong
    /// setting must not hide which store is used, its key, or which texts are secrets.
    pub(super) fn load_for_store(
        common: &CommonFlags,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        const OF_STORE: [&str; 9] = [
            "data_dir",
            "store",
            "store_passfile",
            "key_file",
            "key_command",
            "secrets_file",
            "url",
            "record",
            "exclude",
        ];
        let (file, layers) = layers::read_lenient_layers(common, environment, &OF_STORE)?;
        let layers: Vec<SettingsLayer> =
            [layers::default_layer(environment)].into_iter().chain(layers).collect();
        let found = SETTINGS.iter().map(|setting| find_setting(&layers, setting, file.as_deref()));
        let mut found: Vec<SettingValue> = found.collect();
        // An invalid address still identifies a store that differs from every existing one.
        let is_wrong = |url: &&mut SettingValue| {
            url.name == "url"
                && url.value.as_deref().is_some_and(|text| parse_server_url(text).is_none())
        };
        let is_wrong_store = |store: &&mut SettingValue| {
            store.name == "store"
                && store.value.as_deref().is_some_and(|text| PostgresUrl::parse(text).is_err())
        };
        let wrong_store = found.iter_mut().find(is_wrong_store).and_then(|one| one.value.take());
        let wrong = found.iter_mut().find(is_wrong).and_then(|url| url.value.take());
        let wrong = wrong.or(wrong_store);
        let mut config = Self::parse(found, file.clone(), environment)?;
        config.unreachable = wrong;
        Ok(config)
    }

    /// Returns true if the store is that of the data directory.
    pub(super) fn is_directory(&self) -> bool {
        self.url.is_none() && self.database.is_none()
    }

    /// Returns the configured store and the source of its keys.
    pub(super) fn store_location(&self) -> StoreLocation {
        let server = self.url.as_ref().map(|url| {
            let path = url.path().trim_end_matches('/');
            format!("{}{path}", url.origin().ascii_serialization())
        });
        StoreLocation {
            data_dir: self.data_dir.clone(),
            server: server.or_else(|| self.unreachable.clone()),
            keys: self.keys.clone(),
        }
    }

    fn parse(
        found: Vec<SettingValue>,
        file: Option<PathBuf>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let settings = SettingValues(&found);
        let parse_url = |text: &str| parse_server_url(text);
        let url = settings.parse("url", "an address such as http://127.0.0.1:7717", parse_url)?;
        let base = file.as_deref().and_then(Path::parent);
        let path = |name: &str| {
            let found = settings.get(name)?;
            let text = found.value.as_deref().filter(|text| !text.is_empty())?;
            Some(resolve_path(text, base.filter(|_| found.source.starts_with(FILE)), environment))
        };
        let given = |name| Some(settings.text(name).to_owned()).filter(|text| !text.is_empty());
        let keys = KeySource::from_settings(environment, path("key_file"), given("key_command"))?;
        // A server has its own key.
        foreign::check_encryption_key(environment, keys.is_configured() || url.is_some())?;
        let files_roots = parse_files_roots(settings, environment);
        let listen = "an address such as 127.0.0.1:7717";
        let idle = "a duration such as 500ms, 60s or 4h";
        let tokens =
            |name| parse_number(settings, name, "a whole number, 0 for none").map(to_usize);
        let has_path = |text: &str| (!text.is_empty()).then_some(());
        settings.parse("data_dir", "a path", has_path)?;
        let passfile = path("store_passfile");
        let database = Database::parse(settings, environment, passfile)?;
        let is_default = settings.get("data_dir").is_some_and(|one| one.source == DEFAULT);
        let data_dir = match &database {
            Some(database) if is_default => database.node_directory(environment),
            _ => path("data_dir"),
        };
        Ok(Self {
            data_dir: data_dir.ok_or(ConfigError::NoHome)?,
            database,
            lock_rule: match settings
                .parse("lock_file_only", "true or false", |text| text.parse().ok())?
            {
                Some(true) => LockRule::FileOnly,
                _ => LockRule::Both,
            },
            listen: settings
                .parse("listen", listen, |text| text.parse().ok())?
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
            log: settings.parse("log", LOG_LEVELS, parse_log_level)?.unwrap_or_default(),
            owner_idle: settings.parse("owner_idle", idle, parse_duration)?.unwrap_or_default(),
            checkpoint_every: parse_duration_setting(settings, "checkpoint_interval", "600s")?,
            max_steps: parse_number(settings, "max_steps", "a whole number, 0 for no limit")?,
            search: parse_search_options(settings)?,
            restore: parse_restore_options(settings, &files_roots)?,
            files_roots,
            extractors: parse_extractors(settings)?,
            embedder: EmbedderSource::parse(settings, path("embedder_key_file"))?,
            monitor: parse_monitor(settings)?,
            hook_wait: parse_duration_setting(settings, "hook_wait", "1500ms")?,
            hook_timeout: parse_duration_setting(settings, "hook_timeout", "10s")?,
            hook_tokens: tokens("hook_tokens")?,
            hook_recall: tokens("hook_recall")?,
            url,
            unreachable: None,
            store: parse_store_options(settings)?,
            keys,
            secrets: SecretsSource {
                rules: parse_secret_rules(settings)?,
                file: path("secrets_file"),
            },
            gate: build_gate(settings, environment)?,
            interfaces: Interfaces::parse(settings, &path)?,
            file: file.clone(),
            found,
        })
    }

    /// Returns the settings for access by name.
    pub(super) fn settings(&self) -> SettingValues<'_> {
        SettingValues(&self.found)
    }

    /// Returns the settings, each with its source.
    pub(super) fn setting_values(&self) -> impl Iterator<Item = &SettingValue> {
        self.found.iter()
    }

    /// Returns the settings given as flags: name, flag with its dashes, and value.
    pub(super) fn flags(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.found.iter().filter_map(|found| {
            let flag = found.source.strip_prefix(FLAG)?.trim_start();
            Some((found.name, flag, found.value.as_deref()?))
        })
    }

    /// Returns the log filter, if configured.
    pub(super) fn configured_log(&self) -> Option<&str> {
        let chosen = self.settings().get("log").is_some_and(|found| found.source != DEFAULT);
        chosen.then_some(self.log.as_str())
    }

    /// Returns the settings that an owner and its front ends must share, as normalised `name=value`
    /// pairs separated by blanks. Every caller of the owner may read it: a secret setting must be
    /// hashed in it.
    pub(super) fn config_digest(&self) -> String {
        let one = |found: &SettingValue| {
            let value = found.value.as_deref().unwrap_or_default();
            let bytes = parse_size(value).map(|bytes| bytes.to_string());
            format!("{}={}", found.name, bytes.as_deref().unwrap_or(value).replace(' ', "_"))
        };
        let shared = self.found.iter().filter(|found| found.shared);
        shared.map(one).collect::<Vec<_>>().join(" ")
    }
}

impl Database {
    fn parse(
        settings: SettingValues<'_>,
        environment: &Environment,
        passfile: Option<PathBuf>,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(found) = settings.get("store") else { return Ok(None) };
        let Some(text) = found.value.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let refuse = |wanted: String| ConfigError::Value {
            name: "store",
            value: hide_password(text),
            source_name: found.source.clone(),
            wanted,
        };
        if text.starts_with("redis:") || text.starts_with("rediss:") {
            return Err(refuse(
                "a database that keeps what it acknowledges: Redis loses acknowledged writes when \
                 a replica takes over; use postgres://USER@HOST/DATABASE"
                    .to_owned(),
            ));
        }
        let url = PostgresUrl::parse(text)
            .map_err(|error| refuse(format!("an address of a database: {error}")))?;
        if url.has_password() && found.source.starts_with(FLAG) {
            return Err(refuse(
                "for a command line, which others can read: put the password into \
                 SESSIONLOG_STORE_PASSWORD or a file (store_passfile)"
                    .to_owned(),
            ));
        }
        let word = |word: &str| Durability::parse(word);
        let required = settings.parse("require_durability", "weak, single or replicated", word)?;
        let variable = format!("{}STORE_PASSWORD", super::settings::PREFIX);
        let password = environment.text(&variable);
        let usual = environment.directory("HOME").map(|home| home.join(".pgpass"));
        let usual = usual.filter(|path| files::path_info(path).is_ok_and(|found| found.is_some()));
        Ok(Some(Self { url, password, passfile: passfile.or(usual), required }))
    }

    /// Returns the directory of the socket and log of a node on this machine.
    fn node_directory(&self, environment: &Environment) -> Option<PathBuf> {
        let state = environment.dir_or_below_home("XDG_STATE_HOME", ".local/state")?;
        let name = short_hash("sessionlog v1 node directory", &[&self.url.to_string()]);
        let name = format!("{:032x}", u128::from_be_bytes(name));
        Some(state.join("sessionlog").join(name))
    }

    /// Returns the address with the password from the environment or a file, if there is one.
    pub(super) fn read_url(&self) -> Outcome<PostgresUrl> {
        if let Some(password) = &self.password {
            return Ok(self.url.clone().with_password(password));
        }
        let Some(path) = self.passfile.as_ref().filter(|_| !self.url.has_password()) else {
            return Ok(self.url.clone());
        };
        let text = files::read_private(path, PASSFILE_BYTES_MAX).map_err(|error| {
            CliError::invalid_request(
                format!("file of passwords {}: {error}", path.display()),
                format!("make it yours alone: chmod 600 {}", path.display()),
            )
        })?;
        Ok(self.url.clone().with_password_file(&text))
    }

    /// Returns the file of passwords, for an owner that is started.
    pub(super) fn passfile(&self) -> Option<&Path> {
        self.passfile.as_deref()
    }
}

/// Returns an address without its password, for a message: nothing between the first colon after
/// the scheme and the last `@`, and no option that may be one.
fn hide_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return "what was given".to_owned() };
    let (rest, options) = match rest.rfind('@') {
        Some(at) => match rest.get(at..).and_then(|rest| rest.find('?')) {
            Some(query) => rest.split_at(at + query),
            None => (rest, ""),
        },
        None => rest.split_at(rest.find('?').unwrap_or(rest.len())),
    };
    let place = match (rest.find(':'), rest.rfind('@')) {
        (Some(colon), Some(at)) if colon < at => {
            let (user, host) = (rest.get(..colon), rest.get(at..));
            format!("{}:***{}", user.unwrap_or_default(), host.unwrap_or_default())
        }
        _ => rest.to_owned(),
    };
    let has_secret = options.contains("pass");
    format!("{scheme}://{place}{}", if has_secret { "?***" } else { options })
}

/// Parses the directories that a save may name files of.
fn parse_files_roots(settings: SettingValues<'_>, environment: &Environment) -> Vec<PathBuf> {
    let roots = settings.text("files_roots").split(':').filter(|path| !path.is_empty());
    roots.map(|path| resolve_path(path, None, environment)).collect()
}

fn parse_secret_rules(settings: SettingValues<'_>) -> Result<String, ConfigError> {
    let wanted = "on, off, or rules to leave out such as -jwt,-cookie";
    let parse = |text: &str| Recogniser::check_setting(text).ok().map(|()| text.to_owned());
    Ok(settings.parse("secrets", wanted, parse)?.unwrap_or_default())
}

/// Builds the gate that decides what is recorded.
fn build_gate(
    settings: SettingValues<'_>,
    environment: &Environment,
) -> Result<RecordingGate, ConfigError> {
    let home = environment.directory("HOME");
    let file = environment.dir_or_below_home("XDG_STATE_HOME", ".local/state");
    let file = file.map(|state| state.join("sessionlog/paused.json"));
    let records = settings.is_first_of("record", ["on", "off"])?;
    // An owner has no home directory and records nothing; a front end without one does not record
    // in a directory that a glob matches.
    let any = || Some(home.clone().unwrap_or_else(|| PathBuf::from("/")));
    let parse = |globs| RecordingGate::new(true, globs, any(), None).ok().map(|_| globs);
    let exclude = settings.parse("exclude", "globs such as ~/private, **/secret", parse)?;
    let gate = RecordingGate::new(records, exclude.unwrap_or_default(), home, file);
    Ok(gate.unwrap_or_else(|_| RecordingGate::new_closed()))
}

/// Converts a number to `usize`, saturating.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Parses a numeric setting; returns 0 if it is not set.
fn parse_number(settings: SettingValues<'_>, name: &str, wanted: &str) -> Result<u64, ConfigError> {
    Ok(settings.parse(name, wanted, |text| text.parse().ok())?.unwrap_or_default())
}

/// Parses a duration setting; zero is allowed.
fn parse_duration_setting(
    settings: SettingValues<'_>,
    name: &str,
    example: &str,
) -> Result<Duration, ConfigError> {
    let wanted = format!("a duration such as {example}, or 0s");
    Ok(settings.parse(name, &wanted, parse_duration)?.unwrap_or_default())
}

/// Parses the settings of the token monitor.
fn parse_monitor(settings: SettingValues<'_>) -> Result<ContextLimits, ConfigError> {
    let tokens = |name| settings.parse(name, "a whole number of tokens", |text| text.parse().ok());
    let share = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let threshold = "a share from 0 to 1, such as 0.75";
    let usual = ContextLimits::default();
    // Token counts are estimates: a hundredth is precise enough.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = |share: f64| (share * 100.0).round() as u64;
    Ok(ContextLimits {
        limit: tokens("token_limit")?.unwrap_or(usual.limit),
        threshold_percent: settings
            .parse("token_threshold", threshold, share)?
            .map_or(usual.threshold_percent, percent),
        margin: tokens("token_margin")?.unwrap_or(usual.margin),
    })
}

/// Parses a list of extractor servers separated by `;`.
fn parse_extractors(settings: SettingValues<'_>) -> Result<Vec<Extractor>, ConfigError> {
    let each = |text: &str| -> Option<Vec<Extractor>> {
        let texts = text.split(';').filter(|text| !text.trim().is_empty());
        texts.map(Extractor::parse).collect()
    };
    let wanted = "commands or addresses of MCP servers, each with #TOOL, ; between them";
    Ok(settings.parse("extractors", wanted, each)?.unwrap_or_default())
}

fn parse_search_options(settings: SettingValues<'_>) -> Result<SearchOptions, ConfigError> {
    let bytes = settings.parse("search_memory", "a size such as 64MiB", parse_size)?;
    Ok(SearchOptions {
        enabled: settings.is_first_of("search", ["on", "off"])?,
        memory_bytes_max: bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0)),
        ..SearchOptions::default()
    })
}

fn parse_restore_options(
    settings: SettingValues<'_>,
    files_roots: &[PathBuf],
) -> Result<RestoreOptions, ConfigError> {
    let threshold = |text: &str| text.parse().ok().filter(|threshold| *threshold <= 10);
    let items = |text: &str| text.parse().ok().filter(|items| *items <= 500);
    let threshold =
        settings.parse("context_threshold", "a whole number from 0 to 10", threshold)?;
    let items = settings.parse("context_items", "a whole number up to 500", items)?;
    let usual = RestoreOptions::default();
    Ok(RestoreOptions {
        threshold: threshold.unwrap_or(usual.threshold),
        items_max: items.unwrap_or(usual.items_max),
        files_roots: files_roots.iter().map(|root| root.display().to_string()).collect(),
    })
}

fn parse_store_options(settings: SettingValues<'_>) -> Result<StoreOptions, ConfigError> {
    let after = |text: &str| parse_duration(text).filter(|after| *after >= SETTLE_AFTER_MIN);
    let wanted = "a duration from 10ms on, such as 5s";
    let settle_after = settings.parse("settle_after", wanted, after)?.unwrap_or(SETTLE_AFTER_MIN);
    let lifetimes = Lifetimes {
        hot: parse_duration_setting(settings, "ttl", "4h")?,
        retention: parse_duration_setting(settings, "retention", "30d")?,
        purge: parse_duration_setting(settings, "purge_after", "365d")?,
        grace: parse_duration_setting(settings, "grace", "7d")?,
    };
    let bytes = |name: &str, least: u64| {
        let wanted = format!("a size from {least} bytes on, such as 32MiB");
        let parse = |text: &str| parse_size(text).filter(|bytes| *bytes >= least);
        Ok::<_, ConfigError>(settings.parse(name, &wanted, parse)?.unwrap_or(least))
    };
    Ok(StoreOptions {
        journal_file_bytes: bytes("journal_file_bytes", JOURNAL_FILE_BYTES_MIN)?,
        journal_retained_bytes: bytes("journal_retained_bytes", JOURNAL_FILE_BYTES_MIN)?,
        segment_bytes_max: bytes("segment_bytes_max", SEGMENT_BYTES_MIN)?,
        settle_after,
        scrub_every: parse_duration_setting(settings, "scrub_interval", "24h")?,
        lifetimes,
        warm_bytes_max: to_usize(bytes("warm_bytes_max", 0)?),
        compression: settings.is_first_of("compression", ["on", "off"])?,
        ..StoreOptions::default()
    })
}

/// Returns a setting with the value of the last layer that has it.
fn find_setting(layers: &[SettingsLayer], setting: &Setting, file: Option<&Path>) -> SettingValue {
    let one = |layer: &SettingsLayer| Some((layer.kind, layer.values.get(setting.name)?.clone()));
    let (kind, value) = layers.iter().rev().find_map(one).unzip();
    let kind = kind.unwrap_or(DEFAULT);
    let source = match kind {
        FILE => format!("{FILE} {}", file.unwrap_or(Path::new(layers::FILE_NAME)).display()),
        ENVIRONMENT => format!("{ENVIRONMENT} {}", setting.variable()),
        FLAG => format!("{FLAG} --{}", setting.flag()),
        other => other.to_owned(),
    };
    let Setting { name, shared, secret, .. } = *setting;
    SettingValue { name, value, source, help: setting.help_text(), shared, secret }
}

/// Resolves the path of a setting: `~/` is the home directory, a relative path is below `base` (a
/// file's directory) or the working directory.
fn resolve_path(text: &str, base: Option<&Path>, environment: &Environment) -> PathBuf {
    if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), environment.directory("HOME")) {
        return home.join(rest);
    }
    let path = base.map_or_else(|| PathBuf::from(text), |base| base.join(text));
    std::path::absolute(&path).unwrap_or(path)
}

/// Parses a log level by its name; a number is rejected.
fn parse_log_level(text: &str) -> Option<String> {
    let is_level = text.parse::<tracing::level_filters::LevelFilter>().is_ok();
    (is_level && text.parse::<u64>().is_err()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_config(variables: &[(&str, &str)]) -> Config {
        let all = [&[("HOME", "/h")], variables].concat();
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.into());
        let environment = Environment { variables: all.into_iter().map(pair).collect() };
        Config::load(&CommonFlags::default(), &environment).expect("loaded")
    }

    #[test]
    fn the_default_settings_equal_the_default_store_options() {
        let store = load_config(&[]).store;
        assert_eq!(format!("{store:?}"), format!("{:?}", StoreOptions::default()));
    }

    #[test]
    fn settings_in_the_environment_override_the_defaults() {
        assert_eq!(load_config(&[]).monitor, ContextLimits::default());
        let set = load_config(&[
            ("SESSIONLOG_TOKEN_LIMIT", "1000"),
            ("SESSIONLOG_TOKEN_THRESHOLD", "0.5"),
            ("SESSIONLOG_TOKEN_MARGIN", "7"),
            ("SESSIONLOG_MAX_STEPS", "7"),
            ("SESSIONLOG_TTL", "1h"),
            ("SESSIONLOG_GRACE", "0s"),
        ]);
        assert_eq!(set.monitor, ContextLimits { limit: 1_000, threshold_percent: 50, margin: 7 });
        assert_eq!((set.max_steps, set.store.lifetimes.grace), (7, Duration::ZERO));
        assert_eq!(set.store.lifetimes.hot, Duration::from_secs(3_600));
    }

    #[test]
    fn the_data_directory_defaults_to_the_xdg_data_home_and_follows_its_setting() {
        for (variables, expected) in [
            (&[][..], "/h/.local/share/sessionlog"),
            (&[("XDG_DATA_HOME", "/x")], "/x/sessionlog"),
            (&[("XDG_DATA_HOME", "x")], "/h/.local/share/sessionlog"),
            (&[("SESSIONLOG_DATA_DIR", "~/a")], "/h/a"),
        ] {
            assert_eq!(load_config(variables).data_dir, Path::new(expected), "{variables:?}");
        }
        let home = tempfile::tempdir().expect("a temporary directory");
        let file = home.path().join("sessionlog.toml");
        std::fs::write(&file, "data_dir = \"d\"\n").expect("written");
        let common = CommonFlags { config: Some(file), ..CommonFlags::default() };
        let environment = Environment { variables: [("HOME".to_owned(), "/h".into())].into() };
        let config = Config::load(&common, &environment).expect("loaded");
        assert_eq!(config.data_dir, home.path().join("d"), "relative to the file that says so");
        let homeless = Environment { variables: Default::default() };
        assert!(Config::load(&CommonFlags::default(), &homeless).is_err());
    }

    #[test]
    fn a_duration_without_a_unit_is_in_seconds() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("2", Some(2_000)),
            ("60s", Some(60_000)),
            ("4h", Some(14_400_000)),
            ("1d", Some(86_400_000)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1w", None),
        ] {
            assert_eq!(parse_duration(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }
}

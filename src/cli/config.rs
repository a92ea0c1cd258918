//! Settings: flags > environment (`SESSIONLOG_*`) > `sessionlog.toml` > defaults, each remembered
//! with where it came from. It must not accept a setting that does nothing, nor replace a value
//! that does not parse by a default.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Toml},
    value::{Dict, Map, Value},
};
use url::Url;

use super::args::Common;
use crate::{
    env::files,
    store::{Lifetimes, local::Options},
};

/// Prefix of every environment variable that is a setting.
pub(super) const PREFIX: &str = "SESSIONLOG_";
/// The variable that names the configuration file.
const FILE_VARIABLE: &str = "SESSIONLOG_CONFIG";
const FILE_NAME: &str = "sessionlog.toml";
const FILE_BYTES_MAX: u64 = 1 << 20;
const JOURNAL_FILE_BYTES_MIN: u64 = 32 << 10;
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
const SETTLE_AFTER_MIN: Duration = Duration::from_millis(10);

/// A setting: its name in the file; `--its-name` as a flag and `SESSIONLOG_ITS_NAME` in the
/// environment are the same.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// For tests and special cases: left out of the listing unless somebody set it.
    hidden: bool,
    /// Whether an owner must have it like its front ends: they compare it.
    shared: bool,
}

/// Every setting of this version.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "data_dir",
        help: "directory that keeps the sessions; default: sessionlog in the XDG data home",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "listen",
        help: "address `serve` listens on, of this machine only; default 127.0.0.1:7717",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "log",
        help: "what to log: off, error, warn, info (default), debug or trace",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "ttl",
        help: "idle for longer, a session is offered only by its id, 0s for never; default 4h",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "retention",
        help: "idle for longer, a session expires, 0s for never; default 30d",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "grace",
        help: "how long an expired session can be restored before it goes; default 7d",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "max_steps",
        help: "steps a research session takes, 0 for no limit; default 0",
        hidden: false,
        shared: false,
    },
    Setting {
        name: "sweep_interval",
        help: "how often the owner looks for sessions past their time, 0s for never; default 10s",
        hidden: true,
        shared: false,
    },
    Setting {
        name: "owner_idle",
        help: "how long an owner started on demand stays without front ends; default 60s",
        hidden: true,
        shared: false,
    },
    Setting {
        name: "journal_file_bytes",
        help: "size of one file of the commit journal, from 32KiB; default 32MiB",
        hidden: true,
        shared: true,
    },
    Setting {
        name: "journal_retained_bytes",
        help: "journal that may wait to be settled into segments; default 256MiB",
        hidden: true,
        shared: true,
    },
    Setting {
        name: "segment_bytes_max",
        help: "size from which a segment is sealed; default 8MiB",
        hidden: true,
        shared: true,
    },
    Setting {
        name: "settle_after",
        help: "nobody wrote for so long: what waits is settled; from 10ms, default 5s",
        hidden: true,
        shared: false,
    },
    Setting {
        name: "scrub_interval",
        help: "how often everything settled is read back, 0s for never; default 24h",
        hidden: true,
        shared: false,
    },
    Setting {
        name: "warm_bytes_max",
        help: "memory for events that were read lately, 0 for none; default 32MiB",
        hidden: true,
        shared: false,
    },
    Setting {
        name: "url",
        help: "server to talk to instead of a data directory; default: none",
        hidden: false,
        shared: false,
    },
];

/// What the process was started with, read once.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// Every variable.
    pub(super) variables: BTreeMap<String, OsString>,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        Self { variables }
    }

    fn directory(&self, name: &str) -> Option<PathBuf> {
        // The XDG rules: a path that is not absolute counts as unset.
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    fn home_or(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.directory(variable).or_else(|| Some(self.directory("HOME")?.join(below_home)))
    }
}

/// Why there is no configuration. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    #[error("setting {name} from {source_name}: {value:?} is not {wanted}")]
    Value { name: &'static str, value: String, source_name: String, wanted: String },
    #[error("{source_name}: there is no setting {name:?} in this version; it has {known}")]
    Unknown { name: String, source_name: String, known: String },
    #[error("configuration file {path}: {problem}")]
    File { path: String, problem: String },
    #[error("setting data_dir: there is no home directory; give --data-dir or SESSIONLOG_DATA_DIR")]
    NoHome,
}

impl ConfigError {
    /// The setting it is about.
    pub(super) fn field(&self) -> &str {
        match self {
            Self::Value { name, .. } => name,
            Self::Unknown { name, .. } => name,
            Self::File { .. } => "config",
            Self::NoHome => "data_dir",
        }
    }
}

/// One setting as it is in force.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
    /// Where it came from, for a person.
    pub(super) source: String,
    pub(super) help: &'static str,
    hidden: bool,
    shared: bool,
}

/// The settings in force.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) data_dir: PathBuf,
    pub(super) listen: SocketAddr,
    pub(super) log: String,
    pub(super) owner_idle: Duration,
    /// How often the owner looks for sessions past their time; zero for never.
    pub(super) sweep_every: Duration,
    /// Steps of a research session; 0 for no limit.
    pub(super) max_steps: u64,
    pub(super) url: Option<Url>,
    pub(super) store: Options,
    /// The configuration file that was read.
    pub(super) file: Option<PathBuf>,
    found: Vec<Found>,
}

/// One place settings come from.
struct Layer {
    kind: &'static str,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.kind)
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

const DEFAULT: &str = "default";
const FILE: &str = "file";
const ENVIRONMENT: &str = "environment";
const FLAG: &str = "flag";

impl Config {
    /// Collects the settings.
    pub(super) fn load(
        common: &Common,
        listen: Option<&str>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let (file, from_file) = file_layer(common, environment)?;
        let figment = Figment::new()
            .merge(default_layer(environment))
            .merge(from_file)
            .merge(environment_layer(environment)?)
            .merge(flag_layer(common, listen));
        let found: Vec<Found> =
            SETTINGS.iter().map(|setting| find(&figment, setting, file.as_deref())).collect();
        Self::parse(found, file, environment)
    }

    fn parse(
        found: Vec<Found>,
        file: Option<PathBuf>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let one = |name: &str| found.iter().find(|found| found.name == name);
        let typed = |name: &str, wanted: &str, fits: &dyn Fn(&str) -> bool| {
            one(name).map_or(Ok(String::new()), |found| found.typed(wanted, fits))
        };
        let listen = typed("listen", "an address such as 127.0.0.1:7717", &|text| {
            text.parse::<SocketAddr>().is_ok()
        })?;
        let log = typed("log", "a level: off, error, warn, info, debug or trace", &|text| {
            text.parse::<tracing::level_filters::LevelFilter>().is_ok_and(|_| !is_number(text))
        })?;
        let idle = typed("owner_idle", "a duration such as 500ms, 60s or 4h", &|text| {
            duration(text).is_some()
        })?;
        let scrub = typed("scrub_interval", "a duration such as 24h, or 0s", &|text| {
            duration(text).is_some()
        })?;
        let settle = typed("settle_after", "a duration from 10ms on, such as 5s", &|text| {
            duration(text).is_some_and(|after| after >= SETTLE_AFTER_MIN)
        })?;
        let lasts = |name: &str, example: &str| {
            let wanted = format!("a duration such as {example}, or 0s");
            let text = typed(name, &wanted, &|text| duration(text).is_some())?;
            Ok::<_, ConfigError>(duration(&text).unwrap_or_default())
        };
        let lifetimes = Lifetimes {
            hot: lasts("ttl", "4h")?,
            retention: lasts("retention", "30d")?,
            grace: lasts("grace", "7d")?,
        };
        let max_steps = typed("max_steps", "a whole number, 0 for no limit", &|text| {
            text.parse::<u64>().is_ok()
        })?;
        let sweep_every = lasts("sweep_interval", "10s")?;
        let url = typed("url", "an address such as http://127.0.0.1:7717", &|text| {
            server(text).is_some()
        })?;
        let bytes = |name: &str, least: u64| {
            let wanted = format!("a size from {least} bytes on, such as 32MiB");
            let fits = |text: &str| size(text).is_some_and(|bytes| bytes >= least);
            typed(name, &wanted, &fits).map(|text| size(&text).unwrap_or(least))
        };
        let warm = bytes("warm_bytes_max", 0)?;
        let store = Options {
            journal_file_bytes: bytes("journal_file_bytes", JOURNAL_FILE_BYTES_MIN)?,
            journal_retained_bytes: bytes("journal_retained_bytes", JOURNAL_FILE_BYTES_MIN)?,
            segment_bytes_max: bytes("segment_bytes_max", SEGMENT_BYTES_MIN)?,
            settle_after: duration(&settle).unwrap_or(SETTLE_AFTER_MIN),
            scrub_every: duration(&scrub).unwrap_or_default(),
            lifetimes,
            warm_bytes_max: usize::try_from(warm).unwrap_or(usize::MAX),
            ..Options::default()
        };
        let data_dir = typed("data_dir", "a path", &|text| !text.is_empty())?;
        if data_dir.is_empty() {
            return Err(ConfigError::NoHome);
        }
        let from_file = one("data_dir").is_some_and(|found| found.source.starts_with(FILE));
        let base = file.as_deref().and_then(Path::parent).filter(|_| from_file);
        Ok(Self {
            data_dir: place(&data_dir, base, environment),
            listen: listen.parse().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 0))),
            log,
            owner_idle: duration(&idle).unwrap_or_default(),
            sweep_every,
            max_steps: max_steps.parse().unwrap_or_default(),
            url: server(&url),
            store,
            file,
            found,
        })
    }

    /// The settings to show: all but the hidden ones nobody set.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|found| !found.hidden || found.source != DEFAULT)
    }

    /// What to log, when somebody said so.
    pub(super) fn log_chosen(&self) -> Option<&str> {
        let chosen = self.found.iter().any(|found| found.name == "log" && found.source != DEFAULT);
        chosen.then_some(self.log.as_str())
    }

    /// What an owner and its front ends must have alike, `name=value` with blanks between: of
    /// values, however written. Whoever may ask the owner may read it, so that a setting that is
    /// secret must not come in as it is.
    pub(super) fn digest(&self) -> String {
        let one = |found: &Found| {
            let value = found.value.as_deref().unwrap_or_default();
            let bytes = size(value).map(|bytes| bytes.to_string());
            format!("{}={}", found.name, bytes.as_deref().unwrap_or(value).replace(' ', "_"))
        };
        let shared = self.found.iter().filter(|found| found.shared);
        shared.map(one).collect::<Vec<_>>().join(" ")
    }
}

impl Found {
    /// The value, when it is what is wanted.
    fn typed(&self, wanted: &str, fits: &dyn Fn(&str) -> bool) -> Result<String, ConfigError> {
        let value = self.value.clone().unwrap_or_default();
        if self.value.is_none() || fits(&value) {
            return Ok(value);
        }
        Err(ConfigError::Value {
            name: self.name,
            value,
            source_name: self.source.clone(),
            wanted: wanted.to_owned(),
        })
    }
}

fn find(figment: &Figment, setting: &Setting, file: Option<&Path>) -> Found {
    let value = figment.find_value(setting.name).ok().and_then(|value| text_of(&value));
    let kind = figment.find_metadata(setting.name).map_or(DEFAULT, |from| match &*from.name {
        FILE => FILE,
        ENVIRONMENT => ENVIRONMENT,
        FLAG => FLAG,
        _ => DEFAULT,
    });
    let source = match kind {
        FILE => format!("{FILE} {}", file.unwrap_or(Path::new(FILE_NAME)).display()),
        ENVIRONMENT => format!("{ENVIRONMENT} {PREFIX}{}", setting.name.to_uppercase()),
        FLAG => format!("{FLAG} --{}", setting.name.replace('_', "-")),
        other => other.to_owned(),
    };
    let Setting { name, help, hidden, shared } = *setting;
    Found { name, value, source, help, hidden, shared }
}

fn default_layer(environment: &Environment) -> Layer {
    let data_dir = environment.home_or("XDG_DATA_HOME", ".local/share");
    let mut values = Dict::from([
        ("listen".to_owned(), Value::from("127.0.0.1:7717")),
        ("log".to_owned(), Value::from("info")),
        ("ttl".to_owned(), Value::from("4h")),
        ("retention".to_owned(), Value::from("30d")),
        ("grace".to_owned(), Value::from("7d")),
        ("max_steps".to_owned(), Value::from("0")),
        ("sweep_interval".to_owned(), Value::from("10s")),
        ("owner_idle".to_owned(), Value::from("60s")),
        ("settle_after".to_owned(), Value::from("5s")),
        ("scrub_interval".to_owned(), Value::from("24h")),
    ]);
    let options = Options::default();
    for (name, bytes) in [
        ("journal_file_bytes", options.journal_file_bytes),
        ("journal_retained_bytes", options.journal_retained_bytes),
        ("segment_bytes_max", options.segment_bytes_max),
        ("warm_bytes_max", options.warm_bytes_max as u64),
    ] {
        values.insert(name.to_owned(), Value::from(bytes.to_string()));
    }
    if let Some(home) = data_dir {
        let path = home.join("sessionlog").display().to_string();
        values.insert("data_dir".to_owned(), Value::from(path));
    }
    Layer { kind: DEFAULT, values }
}

fn file_layer(
    common: &Common,
    environment: &Environment,
) -> Result<(Option<PathBuf>, Layer), ConfigError> {
    let none = Layer { kind: FILE, values: Dict::new() };
    let named = common
        .config
        .clone()
        .or_else(|| environment.variables.get(FILE_VARIABLE).map(PathBuf::from));
    // Only the user's own place is looked at: a file in a directory somebody else filled must not
    // decide where sessions go.
    let usual = || Some(environment.home_or("XDG_CONFIG_HOME", ".config")?.join("sessionlog"));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(|| Some(usual()?.join(FILE_NAME))) else {
        return Ok((None, none));
    };
    let wrong = |problem: String| ConfigError::File { path: path.display().to_string(), problem };
    let text = match files::read_text(&path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {
            return Ok((None, none));
        }
        Err(error) => return Err(wrong(error.to_string())),
    };
    let read = Toml::string(&text).data().map_err(|error| wrong(error.to_string()))?;
    let mut values = Dict::new();
    for (name, value) in read.into_values().flatten() {
        if !SETTINGS.iter().any(|setting| setting.name == name) {
            return Err(unknown(name, format!("{FILE} {}", path.display())));
        }
        let Some(text) = text_of(&value) else {
            return Err(wrong(format!("setting {name}: it must be a text or a number")));
        };
        values.insert(name, Value::from(text));
    }
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok((Some(path), Layer { kind: FILE, values }))
}

fn environment_layer(environment: &Environment) -> Result<Layer, ConfigError> {
    let mut values = Dict::new();
    for (variable, value) in &environment.variables {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        if variable == FILE_VARIABLE {
            continue;
        }
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name.to_uppercase() == name)
        else {
            return Err(unknown(variable.clone(), ENVIRONMENT.to_owned()));
        };
        let Some(text) = value.to_str() else {
            return Err(ConfigError::Value {
                name: setting.name,
                value: value.to_string_lossy().into_owned(),
                source_name: format!("{ENVIRONMENT} {variable}"),
                wanted: "UTF-8 text".to_owned(),
            });
        };
        values.insert(setting.name.to_owned(), Value::from(text));
    }
    Ok(Layer { kind: ENVIRONMENT, values })
}

fn flag_layer(common: &Common, listen: Option<&str>) -> Layer {
    let given = [
        ("data_dir", common.data_dir.as_deref()),
        ("listen", listen),
        ("log", common.log.as_deref()),
        ("owner_idle", common.owner_idle.as_deref()),
        ("url", common.url.as_deref()),
    ];
    let values = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))))
        .collect();
    Layer { kind: FLAG, values }
}

fn unknown(name: String, source_name: String) -> ConfigError {
    let known: Vec<&str> =
        SETTINGS.iter().filter(|setting| !setting.hidden).map(|setting| setting.name).collect();
    ConfigError::Unknown { name, source_name, known: known.join(", ") }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Num(_, number) => number
            .to_i128()
            .map(|whole| whole.to_string())
            .or_else(|| number.to_f64().map(|number| number.to_string())),
        Value::Bool(_, value) => Some(value.to_string()),
        _ => None,
    }
}

/// The absolute path a setting means: `~/` is the home directory, a relative path lies below
/// `base` (a file's directory) or where the program was started.
fn place(text: &str, base: Option<&Path>, environment: &Environment) -> PathBuf {
    if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), environment.directory("HOME")) {
        return home.join(rest);
    }
    let path = base.map_or_else(|| PathBuf::from(text), |base| base.join(text));
    std::path::absolute(&path).unwrap_or(path)
}

fn server(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (url.scheme() == "http" && url.host().is_some()).then_some(url)
}

/// Levels have numbers, too, that nobody should have to know.
fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

/// Parses a number with a unit: `500ms`, `60s`, `15m`, `4h`, `30d`; a bare number is seconds.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let millis = match text.strip_prefix(digits)? {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Parses a number of bytes with a unit: `4096`, `32KiB`, `8MiB`, `1GiB`.
pub(super) fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text.strip_prefix(digits)? {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), OsString::from(value));
        Environment { variables: pairs.iter().map(pair).collect() }
    }

    fn source(config: &Config, name: &str) -> String {
        config.found.iter().find(|found| found.name == name).expect(name).source.clone()
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let file = home.path().join("sessionlog.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\nlog = \"warn\"\ndata_dir = \"d\"\n")
            .expect("written");
        let common = Common { config: Some(file.clone()), ..Common::default() };
        let variables = [("SESSIONLOG_LISTEN", "127.0.0.1:2"), ("SESSIONLOG_LOG", "debug")];
        let config =
            Config::load(&common, Some("127.0.0.1:3"), &environment(&variables)).expect("loaded");
        assert_eq!((config.listen.port(), &*config.log), (3, "debug"));
        assert_eq!(source(&config, "listen"), "flag --listen");
        assert_eq!(source(&config, "log"), "environment SESSIONLOG_LOG");
        assert_eq!(source(&config, "data_dir"), format!("file {}", file.display()));
        assert_eq!(config.data_dir, home.path().join("d"), "relative to the file that says so");
        assert_eq!(source(&config, "owner_idle"), "default");
        assert_eq!(config.owner_idle, Duration::from_secs(60));
    }

    #[test]
    fn the_data_directory_is_in_the_xdg_data_home() {
        for (variables, expected) in [
            (vec![("HOME", "/h")], Some("/h/.local/share/sessionlog")),
            (vec![("HOME", "/h"), ("XDG_DATA_HOME", "/x")], Some("/x/sessionlog")),
            (vec![("HOME", "/h"), ("XDG_DATA_HOME", "x")], Some("/h/.local/share/sessionlog")),
            (vec![("HOME", "/h"), ("SESSIONLOG_DATA_DIR", "~/a")], Some("/h/a")),
            (vec![], None),
        ] {
            let loaded = Config::load(&Common::default(), None, &environment(&variables));
            let found = loaded.ok().map(|config| config.data_dir);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{variables:?}");
        }
    }

    #[test]
    fn a_value_that_does_not_parse_and_an_unknown_setting_are_errors_that_name_it() {
        for (variable, value, named) in [
            ("SESSIONLOG_LISTEN", "7717", "listen"),
            ("SESSIONLOG_LISTEN", "", "listen"),
            ("SESSIONLOG_OWNER_IDLE", "soon", "owner_idle"),
            ("SESSIONLOG_TTL", "4 hours", "ttl"),
            ("SESSIONLOG_RETENTION", "for ever", "retention"),
            ("SESSIONLOG_GRACE", "-1d", "grace"),
            ("SESSIONLOG_MAX_STEPS", "many", "max_steps"),
            ("SESSIONLOG_LOG", "rmcp=trace", "log"),
            ("SESSIONLOG_LOG", "3", "log"),
            ("SESSIONLOG_URL", "ftp://x", "url"),
            ("SESSIONLOG_DATA_DIR", "", "data_dir"),
            ("SESSIONLOG_JOURNAL_FILE_BYTES", "1KiB", "journal_file_bytes"),
            ("SESSIONLOG_SEGMENT_BYTES_MAX", "many", "segment_bytes_max"),
            ("SESSIONLOG_KEY", "secret", "SESSIONLOG_KEY"),
        ] {
            let variables = environment(&[("HOME", "/h"), (variable, value)]);
            let error = Config::load(&Common::default(), None, &variables).expect_err(variable);
            assert_eq!(error.field(), named, "{error}");
        }
    }

    #[test]
    fn a_file_with_an_unknown_key_or_no_toml_or_that_is_absent_is_refused() {
        let home = tempfile::tempdir().expect("a temporary directory");
        for (text, named) in
            [(Some("listne = \"x\""), "listne"), (Some("listen ="), "config"), (None, "config")]
        {
            let file = home.path().join(format!("{}.toml", text.is_some()));
            if let Some(text) = text {
                std::fs::write(&file, text).expect("written");
            }
            let common = Common { config: Some(file), ..Common::default() };
            let error =
                Config::load(&common, None, &environment(&[("HOME", "/h")])).expect_err("refused");
            assert_eq!(error.field(), named, "{error}");
        }
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
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
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }
}

//! Layers of settings: defaults, the file, the environment, flags, each overriding the previous. It
//! must not know what a value means; it rejects an unknown name.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use figment::{
    Provider as _,
    providers::{Format as _, Toml},
    value::Value,
};

use super::{
    common::CommonFlags,
    keys,
    settings::{PREFIX, SETTINGS, Setting},
    values::{ConfigError, DEFAULT, ENVIRONMENT, Environment, FILE, FLAG},
};
use crate::{env::files, wire::nearest_name};

/// Variable with the path of the configuration file.
const FILE_VARIABLE: &str = "SESSIONLOG_CONFIG";
pub(super) const FILE_NAME: &str = "sessionlog.toml";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One source of settings.
pub(super) struct SettingsLayer {
    pub(super) kind: &'static str,
    /// Texts of the settings by name.
    pub(super) values: BTreeMap<String, String>,
}

impl SettingsLayer {
    fn new<N: Into<String>, V: Into<String>>(
        kind: &'static str,
        values: impl Iterator<Item = (N, V)>,
    ) -> Self {
        let values = values.map(|(name, value)| (name.into(), value.into())).collect();
        Self { kind, values }
    }
}

pub(super) fn default_layer(environment: &Environment) -> SettingsLayer {
    let known = SETTINGS.iter().filter_map(|setting| Some((setting.name, setting.default?)));
    let mut layer = SettingsLayer::new(DEFAULT, known);
    if let Some(home) = environment.dir_or_below_home("XDG_DATA_HOME", ".local/share") {
        let path = home.join("sessionlog").display().to_string();
        layer.values.insert("data_dir".to_owned(), path);
    }
    layer
}

/// Reads the configuration file, if any; returns its path and text.
fn read_file_text(
    common: &CommonFlags,
    environment: &Environment,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = common
        .config
        .clone()
        .or_else(|| environment.variables.get(FILE_VARIABLE).map(PathBuf::from))
        .filter(|path| !path.as_os_str().is_empty());
    // Only the user's own directory is searched: a file in a foreign directory must not decide
    // where sessions are stored.
    let usual =
        || Some(environment.dir_or_below_home("XDG_CONFIG_HOME", ".config")?.join("sessionlog"));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(|| Some(usual()?.join(FILE_NAME))) else { return Ok(None) };
    match files::read_text(&path, FILE_BYTES_MAX) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) => Err(file_error(&path, error.to_string())),
    }
}

fn file_error(path: &Path, problem: String) -> ConfigError {
    ConfigError::File { path: path.display().to_string(), problem }
}

/// Reads the configuration file; returns its path and its settings.
pub(super) fn read_file_layer(
    common: &CommonFlags,
    environment: &Environment,
) -> Result<(Option<PathBuf>, SettingsLayer), ConfigError> {
    let Some((path, text)) = read_file_text(common, environment)? else {
        return Ok((None, SettingsLayer { kind: FILE, values: BTreeMap::new() }));
    };
    let wrong = |problem: String| file_error(&path, problem);
    let read = Toml::string(&text).data().map_err(|error| wrong(error.to_string()))?;
    let mut values = BTreeMap::new();
    for (name, value) in read.into_values().flatten() {
        match Setting::find(&name) {
            Some(setting) if setting.secret => {
                let problem = "it is a secret and comes from the environment; or use token_file";
                return Err(wrong(format!("setting {name}: {problem}")));
            }
            Some(_) => {}
            None => return Err(unknown_setting_error(name, format!("{FILE} {}", path.display()))),
        }
        let Some(text) = setting_text(&value) else {
            return Err(wrong(format!(
                "setting {name}: it must be a text, a number or a list of them"
            )));
        };
        values.insert(name, text);
    }
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok((Some(path), SettingsLayer { kind: FILE, values }))
}

/// Reads some settings of file, environment and flags, ignoring the others; from a file that is not
/// valid TOML, reads each line that is valid.
///
/// # Errors
/// Fails if the file cannot be read, or a key in it cannot be parsed.
pub(super) fn read_lenient_layers(
    common: &CommonFlags,
    environment: &Environment,
    names: &[&str],
) -> Result<(Option<PathBuf>, [SettingsLayer; 3]), ConfigError> {
    let (path, text) = read_file_text(common, environment)?.unzip();
    let text = text.unwrap_or_default();
    let data = |text: &str| Toml::string(text).data().ok();
    let read = data(&text).map_or_else(|| text.lines().filter_map(data).collect(), |all| vec![all]);
    let said = read.into_iter().flat_map(|part| part.into_values().flatten());
    let said = said.filter_map(|(name, value)| Some((name, setting_text(&value)?)));
    let said: Vec<(String, String)> = said.collect();
    // A key that is configured but not found must not count as absent, nor an exclusion as empty.
    let counts = |name: &&&str| name.starts_with("key_") || matches!(**name, "record" | "exclude");
    let lost = names.iter().filter(counts).find(|name| {
        let speaks =
            |line: &str| line.trim_start().trim_start_matches(['"', '\'']).starts_with(**name);
        text.lines().any(speaks) && !said.iter().any(|(said, _)| said == **name)
    });
    if let (Some(path), Some(name)) = (&path, lost) {
        return Err(file_error(path, format!("setting {name} cannot be read")));
    }
    let shown = names.iter().filter_map(|name| {
        let value = environment.variables.get(&format!("{PREFIX}{}", name.to_uppercase()))?;
        Some(((*name).to_owned(), value.to_str()?.to_owned())).filter(|(_, text)| !text.is_empty())
    });
    let shown = SettingsLayer { kind: ENVIRONMENT, values: shown.collect() };
    let mut layers = [
        SettingsLayer { kind: FILE, values: said.into_iter().collect() },
        shown,
        flag_layer(common),
    ];
    layers.iter_mut().for_each(|layer| layer.values.retain(|name, _| names.contains(&&**name)));
    let path = path.map(|path| std::path::absolute(&path).unwrap_or(path));
    Ok((path, layers))
}

pub(super) fn environment_layer(environment: &Environment) -> Result<SettingsLayer, ConfigError> {
    let mut values = BTreeMap::new();
    for (variable, value) in &environment.variables {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        if variable == FILE_VARIABLE || keys::VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let Some(setting) =
            Setting::find(&name.to_lowercase()).filter(|_| name == name.to_uppercase())
        else {
            return Err(unknown_setting_error(variable.clone(), ENVIRONMENT.to_owned()));
        };
        // An empty variable counts as unset.
        if value.is_empty() {
            continue;
        }
        let Some(text) = value.to_str() else {
            return Err(ConfigError::Value {
                name: setting.name,
                value: match setting.secret {
                    true => "what was given".to_owned(),
                    false => value.to_string_lossy().into_owned(),
                },
                source_name: format!("{ENVIRONMENT} {variable}"),
                wanted: "UTF-8 text".to_owned(),
            });
        };
        values.insert(setting.name.to_owned(), text.to_owned());
    }
    Ok(SettingsLayer { kind: ENVIRONMENT, values })
}

pub(super) fn flag_layer(common: &CommonFlags) -> SettingsLayer {
    SettingsLayer::new(FLAG, common.flags.iter())
}

fn unknown_setting_error(name: String, source_name: String) -> ConfigError {
    let known: Vec<&str> = SETTINGS
        .iter()
        .filter(|setting| !setting.is_hidden())
        .map(|setting| setting.name)
        .collect();
    let variable = name.strip_prefix(PREFIX);
    let bare = variable.unwrap_or(&name).to_lowercase();
    let begins = |one: &&&str| one.strip_prefix(&*bare).is_some_and(|rest| rest.starts_with('_'));
    let meant = nearest_name(&bare, known.iter().copied()).or(known.iter().find(begins).copied());
    let spelled = |meant: &str| match variable {
        Some(_) => format!("{PREFIX}{}", meant.to_uppercase()),
        None => meant.to_owned(),
    };
    let known =
        meant.map(|meant| format!(": did you mean {}?", spelled(meant))).unwrap_or_default();
    ConfigError::Unknown { name, source_name, known }
}

fn setting_text(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Num(_, number) => number
            .to_i128()
            .map(|whole| whole.to_string())
            .or_else(|| number.to_f64().map(|number| number.to_string())),
        Value::Bool(_, value) => Some(value.to_string()),
        // A list is written in the form of an environment variable.
        Value::Array(_, values) => values
            .iter()
            .map(setting_text)
            .collect::<Option<Vec<String>>>()
            .map(|all| all.join(",")),
        _ => None,
    }
}

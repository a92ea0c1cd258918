//! `status`: reports the store and its installation, through its interfaces. It must not change
//! anything; `doctor`, which collects the same data, starts an owner if none runs.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::{
    args,
    config::{Config, Database},
    connect,
    failure::Outcome,
    hook::{self, UndeliveredEvents},
    open, pause,
    screen::{Screen, Tone, format_size, one_line},
    sessions,
    values::Environment,
};
use crate::{
    api::admin::{KeysAnswer, StoreNode},
    client::{CLIENT_KEY, Client, ClientError, HttpRequest, OwnerReport},
    env::{Env, files},
    event::{HOOK_ID, kinds},
    import::{SHAPE_KEY, UNKNOWN_KEY},
    store::{KeyReport, local::key_report, remote},
};

/// Maximum bytes read from `owner.log`.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Maximum characters shown of the last error.
const ERROR_CHARS: usize = 200;

/// Collected state of a store.
pub(super) struct StoreStatus {
    pub(super) exists: bool,
    /// The running owner, as of before any other request.
    pub(super) owner: Result<OwnerReport, ClientError>,
    /// Number of sessions and time of the newest write, once an owner responded.
    pub(super) sessions: Result<(u64, Option<String>), String>,
    /// Imported sessions with records of unknown types, each with those types.
    pub(super) unknown: Vec<(String, String)>,
    /// Time of the last event that hooks of each program recorded, by the program's name.
    pub(super) hooks: BTreeMap<String, String>,
    pub(super) bytes_on_disk: u64,
    /// Bytes of the journal's files.
    bytes_of_journal: u64,
    /// Free space of the file system.
    pub(super) free: Option<files::FreeSpace>,
    /// Flags "encrypted" and "opens with the given keys".
    pub(super) keys: Option<Result<(bool, bool), String>>,
    /// Events of hooks that are not in the store.
    pub(super) undelivered: UndeliveredEvents,
    /// Time, level and text of the owner's last error.
    pub(super) last_error: Option<(String, String, String)>,
}

impl StoreStatus {
    /// Collects the state; with `starts`, an owner is started if none runs.
    pub(super) fn collect(
        config: &Config,
        environment: &Environment,
        starts: bool,
    ) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = connect::create_client(config, environment)?;
        let here = config.url.is_none();
        let inside = |name: &str| files::path_info(&config.data_dir.join(name)).ok().flatten();
        let on_disk = here && ["STORE", "journal"].into_iter().any(|name| inside(name).is_some());
        let exists = on_disk || here && config.database.is_some();
        let owner = runtime.block_on(client.fetch_owner_report());
        let mut unknown = Vec::new();
        let mut hooks = BTreeMap::new();
        // An owner would make the schema of a store.
        let is_node = here && starts && config.database.is_some();
        let missing = is_node.then(|| open::check_is_store(config)).and_then(Result::err);
        let sessions = match (missing, exists || !here) {
            (Some(problem), _) => Err(problem.to_string()),
            (None, true)
                if here && !starts && matches!(owner, Err(ClientError::Unreachable { .. })) =>
            {
                Err("no owner runs; `sessionlog sessions` starts one and lists them".to_owned())
            }
            (None, true) => {
                let counted = runtime.block_on(count_sessions(&client, &mut unknown));
                let counted = counted.map_err(|failure| failure.to_string());
                counted.map(|(count, newest, latest)| {
                    hooks = runtime.block_on(fetch_last_hook_times(&client, latest));
                    (count, newest)
                })
            }
            (None, false) => Ok((0, None)),
        };
        let keys = match &config.database {
            Some(database) if here => Some(read_database_keys(config, database, &runtime)),
            _ => on_disk.then(|| read_key_state(config)),
        };
        runtime.shutdown_background();
        let directory = nearest_existing_path(&config.data_dir);
        Ok(Self {
            exists,
            owner,
            sessions,
            unknown,
            hooks,
            bytes_on_disk: if on_disk { bytes_below(&config.data_dir) } else { 0 },
            bytes_of_journal: if on_disk {
                bytes_below(&config.data_dir.join("journal"))
            } else {
                0
            },
            free: directory.filter(|_| here).and_then(|path| files::free_space(path).ok()),
            keys,
            undelivered: hook::count_undelivered(config, environment),
            last_error: if here {
                read_last_error(&config.data_dir.join("owner.log"))
            } else {
                None
            },
        })
    }

    /// Returns the nodes of a store that several share, as the running owner knows them.
    fn nodes(&self) -> Option<&[StoreNode]> {
        Some(&self.owner.as_ref().ok()?.shared.as_ref()?.nodes)
    }
}

/// Latest session of each program that hooks recorded: time of its last write, and its id.
type Latest = BTreeMap<String, (String, String)>;

/// Returns the time of the last event that hooks of each program recorded.
async fn fetch_last_hook_times(client: &Client, latest: Latest) -> BTreeMap<String, String> {
    const KINDS: [&str; 6] = [
        kinds::SESSION_STATUS_RUNNING,
        kinds::SESSION_STATUS_IDLE,
        kinds::SESSION_STATUS_TERMINATED,
        kinds::USER_MESSAGE,
        kinds::AGENT_TOOL_USE,
        kinds::AGENT_TOOL_RESULT,
    ];
    let mut fired = BTreeMap::new();
    for (program, (_, session)) in latest {
        let request = HttpRequest::get(format!("/v1/sessions/{session}/events"));
        let request = request.query("order", "desc").query("limit", 50);
        let request = KINDS.iter().fold(request, |asked, kind| asked.query("types[]", kind));
        let answer = client.json(request).await.unwrap_or_default();
        let text = |event: &Value, name: &str| Some(event.get(name)?.as_str()?.to_owned());
        let of_hook = |event: &&Value| text(event, "id").is_some_and(|id| id.starts_with(HOOK_ID));
        let last = answer.get("data").and_then(Value::as_array).into_iter().flatten();
        let last = last.into_iter().find(of_hook).and_then(|event| text(event, "created_at"));
        fired.extend(last.map(|at| (program, at)));
    }
    fired
}

/// Returns the number of sessions, the time of the newest write, and the latest sessions that hooks
/// recorded; adds sessions with records of unknown types to `unknown`.
async fn count_sessions(
    client: &Client,
    unknown: &mut Vec<(String, String)>,
) -> Outcome<(u64, Option<String>, Latest)> {
    let (mut count, mut newest, mut latest) = (0, None::<String>, Latest::new());
    sessions::for_each_session(client, false, |session| {
        count += 1;
        let types = session.metadata.get(UNKNOWN_KEY).cloned();
        unknown.extend(types.map(|types| (session.id.clone(), types)));
        let is_imported = session.metadata.contains_key(SHAPE_KEY);
        if let Some(program) = session.metadata.get(CLIENT_KEY).filter(|_| !is_imported) {
            let written = (session.updated_at.clone(), session.id.clone());
            let known = latest.entry(program.clone()).or_default();
            *known = written.max(known.clone());
        }
        newest = newest.take().max(Some(session.updated_at));
    })
    .await?;
    Ok((count, newest, latest))
}

/// Returns the path, or its nearest ancestor that exists.
fn nearest_existing_path(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| matches!(files::path_info(path), Ok(Some(_))))
}

fn bytes_below(directory: &Path) -> u64 {
    let inside = files::list(directory).unwrap_or_default();
    let bytes = |path: &std::path::PathBuf| match files::path_info(path) {
        Ok(Some(found)) if found.is_dir => bytes_below(path),
        Ok(Some(found)) => found.bytes,
        _ => 0,
    };
    inside.iter().map(bytes).sum()
}

fn read_key_state(config: &Config) -> Result<(bool, bool), String> {
    let given = config.keys.read().map_err(|failure| failure.to_string())?;
    let env = Env::open(&config.data_dir).map_err(|error| error.to_string())?.with_keys(given);
    key_report(&env).map(describe_keys).map_err(|error| error.to_string())
}

fn read_database_keys(
    config: &Config,
    database: &Database,
    runtime: &tokio::runtime::Runtime,
) -> Result<(bool, bool), String> {
    let given = config.keys.read().map_err(|failure| failure.to_string())?;
    let url = database.read_url().map_err(|failure| failure.to_string())?;
    let report = runtime.block_on(remote::examine_keys(&url, given.as_deref()));
    report.map(describe_keys).map_err(|error| error.to_string())
}

/// Returns the flags "encrypted" and "opens with the given keys".
fn describe_keys(report: Option<KeyReport>) -> (bool, bool) {
    let answer = KeysAnswer::from(report);
    (answer.encrypted, answer.opens)
}

fn read_last_error(log: &Path) -> Option<(String, String, String)> {
    let text = files::read_text(log, LOG_BYTES_MAX).ok()?;
    text.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let word = |name: &str| Some(line.pointer(name)?.as_str()?.to_owned());
        let level = word("/level").filter(|level| level == "ERROR" || level == "WARN")?;
        Some((word("/timestamp")?, level, word("/fields/message")?))
    })
}

pub(super) fn print_status(
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    let health = StoreStatus::collect(config, environment, false)?;
    if screen.json {
        return Ok(screen.print_json(&to_json(config, &health))?);
    }
    let place = match (&config.url, &config.database) {
        (Some(url), _) => ("server", url.to_string()),
        (None, Some(database)) => ("database", database.url.to_string()),
        (None, None) => ("data directory", config.data_dir.display().to_string()),
    };
    let mut rows = vec![("version", args::version()), place];
    if config.url.is_none() {
        rows.push(("owner", describe_owner(&health)));
        let url = health.owner.as_ref().ok().and_then(|owner| owner.url.clone());
        rows.push(("url", url.unwrap_or_else(|| "none; `sessionlog serve` listens on one".into())));
    }
    rows.extend(health.nodes().map(|nodes| ("nodes", describe_nodes(nodes))));
    rows.push(("recording", pause::describe_recording(config, screen).0));
    rows.push((
        "sessions",
        match &health.sessions {
            Ok((count, newest)) => {
                let newest = newest.as_deref().map(|at| screen.times().format_when(at));
                let newest = newest.map(|when| format!(", last written {when}"));
                format!("{count}{}", newest.unwrap_or_default())
            }
            Err(problem) => format!("unknown: {problem}"),
        },
    ));
    rows.extend(describe_undelivered(&health.undelivered).map(|told| ("hook events", told)));
    if config.is_directory() {
        let free = health.free.map_or_else(|| "unknown".to_owned(), |free| format_size(free.bytes));
        let journal = match health.bytes_of_journal {
            0 => String::new(),
            bytes => {
                format!(", {} of it the journal's files, made whole in advance", format_size(bytes))
            }
        };
        rows.push(("on disk", format!("{}{journal}", format_size(health.bytes_on_disk))));
        rows.push(("free space", free));
    }
    if config.url.is_none() {
        rows.push(("encryption", describe_encryption(&health)));
    }
    if config.is_directory() {
        rows.push((
            "last error",
            match &health.last_error {
                None => "none".to_owned(),
                Some((at, level, message)) => {
                    let when = screen.times().format_when(at);
                    one_line(&format!("{when}, {level}: {message}"), ERROR_CHARS)
                }
            },
        ));
    }
    for (name, value) in rows {
        let name = screen.paint(Tone::Faint, &format!("{name:<15}"));
        screen.print_line(format!("{name}{value}"))?;
    }
    Ok(())
}

fn describe_nodes(nodes: &[StoreNode]) -> String {
    let name = |node: &StoreNode| match node.alike {
        true => node.place.clone(),
        false => format!("{} (other lifetimes or another version)", node.place),
    };
    let places: Vec<String> = nodes.iter().map(name).collect();
    format!("{}: {}", nodes.len(), places.join(", "))
}

fn describe_encryption(health: &StoreStatus) -> String {
    match &health.keys {
        None => "no store yet".to_owned(),
        Some(Ok((false, _))) => "off".to_owned(),
        Some(Ok((true, true))) => "on".to_owned(),
        Some(Ok((true, false))) => "on, and its key was not given".to_owned(),
        Some(Err(problem)) => format!("unknown: {problem}"),
    }
}

/// Describes the events of hooks that are not in the store, if there are any.
fn describe_undelivered(events: &UndeliveredEvents) -> Option<String> {
    let UndeliveredEvents { waiting, refused, .. } = events;
    let counts = format!("{waiting} wait, {refused} were refused");
    (waiting + refused > 0).then(|| format!("{counts}; `sessionlog doctor` says more"))
}

fn describe_owner(health: &StoreStatus) -> String {
    match &health.owner {
        Ok(owner) => {
            let how = if owner.on_demand { "started on demand" } else { "`sessionlog serve`" };
            format!("process {}, {how}, version {}", owner.pid, owner.version)
        }
        Err(ClientError::OwnerSilent { who, .. }) => format!("{who}, which does not answer"),
        Err(_) => "none; started on demand".to_owned(),
    }
}

fn to_json(config: &Config, health: &StoreStatus) -> Value {
    let owner = health.owner.as_ref().ok().map(|owner| {
        json!({
            "pid": owner.pid, "version": owner.version, "on_demand": owner.on_demand,
            "url": owner.url,
        })
    });
    let error = health
        .last_error
        .as_ref()
        .map(|(at, level, message)| json!({ "at": at, "level": level, "message": message }));
    json!({
        "version": args::version(),
        "url": config.url.as_ref().map(ToString::to_string),
        "data_dir": config.data_dir.display().to_string(),
        "exists": health.exists,
        "owner": owner,
        "nodes": health.nodes(),
        "sessions": health.sessions.as_ref().ok().map(|(count, _)| count),
        "bytes_on_disk": health.bytes_on_disk,
        "bytes_of_journal": health.bytes_of_journal,
        "bytes_free": health.free.map(|free| free.bytes),
        "encrypted": health.keys.as_ref().and_then(|keys| Some(keys.as_ref().ok()?.0)),
        "last_error": error,
        "hook_events": {
            "waiting": health.undelivered.waiting, "refused": health.undelivered.refused,
        },
        "recording": pause::recording_to_json(config),
    })
}

//! Our own server as a separate process of this program, on a data directory of the benchmark. It
//! must not be reachable from another machine, nor read the user's configuration.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::{
    cell::Cell,
    engine,
    failure::Outcome,
    network::Manner,
    process::{Process, sessionlog},
    protocol::{Protocol, tail},
    site::Site,
};
use ::sessionlog::{
    access::{self, Grant, NewToken},
    env::{Entropy, Env, entropy::SystemEntropy, files, secrets::KEY_BYTES},
    event::{Scope, SessionId, SessionKey},
    store::{
        NewSession, Store,
        local::{LocalStore, StoreOptions},
    },
};

/// Session whose events are in sealed segments.
pub(super) const SEALED: &str = "sealed";
/// Segment size from which on segments are sealed while that session is filled; the default is 8
/// MiB.
const SEGMENT_BYTES: u64 = 1 << 20;
const DATA_DIR: &str = "server";
/// Time limit of a start.
const START: Duration = Duration::from_secs(120);

/// A running server.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    /// Header line with the credential it requires; empty when it requires none.
    pub(super) credential: String,
    /// True if [`SEALED`] has sealed segments.
    pub(super) has_sealed: bool,
    /// True if the session for slices of an active segment is filled.
    pub(super) has_active: bool,
}

impl Server {
    /// Starts it on a data directory and waits until it listens.
    pub(super) fn start(site: &Site, data_dir: &Path) -> Outcome<Self> {
        Self::start_with(site, data_dir, &[], &[])
    }

    /// Starts it on a data directory with search disabled.
    pub(super) fn unsearched(site: &Site, data_dir: &Path) -> Outcome<Self> {
        Self::start_with(site, data_dir, &[], &[("SESSIONLOG_SEARCH", "off")])
    }

    /// Starts a server that requires a token, on its own data directory.
    pub(super) fn guarded(site: &Site) -> Outcome<Self> {
        let (server, credentials) = Self::of_tenants(site, &site.path("guarded"), &["bench"])?;
        let credential = credentials.into_iter().next().unwrap_or_default();
        Ok(Self { credential, ..server })
    }

    /// Starts a server on a data directory with a token for each of these tenants.
    pub(super) fn of_tenants(
        site: &Site,
        data_dir: &Path,
        tenants: &[&str],
    ) -> Outcome<(Self, Vec<String>)> {
        let tokens = data_dir.with_extension("tokens");
        let mut credentials = Vec::new();
        for tenant in tenants {
            let new = NewToken {
                tenant: (*tenant).to_owned(),
                user: "client".to_owned(),
                scopes: vec![Grant::Read, Grant::Write],
                label: None,
                expires_at: None,
            };
            let made = access::create_token(&tokens, new, site.clock.now(), &SystemEntropy);
            let (token, _) = made.map_err(io::Error::other)?;
            credentials.push(format!("authorization: Bearer {token}\r\n"));
        }
        let arguments = [OsStr::new("--tokens-file"), tokens.as_os_str()];
        Ok((Self::start_with(site, data_dir, &arguments, &[])?, credentials))
    }

    /// Starts a server that encrypts, on its own data directory.
    pub(super) fn encrypted(site: &Site) -> Outcome<Self> {
        let path = site.path("key");
        let mut file = files::create(&path)?;
        let mut key = [0; KEY_BYTES];
        SystemEntropy.fill(&mut key);
        key.iter().try_for_each(|byte| write!(file, "{byte:02x}"))?;
        file.finish()?;
        Self::start_with(
            site,
            &site.path("encrypted"),
            &[OsStr::new("--key-file"), path.as_os_str()],
            &[],
        )
    }

    /// Starts a node of the store in a database.
    pub(super) fn node(site: &Site, data_dir: &Path, store: &str) -> Outcome<Self> {
        let arguments = [OsStr::new("--store"), OsStr::new(store)];
        Self::start_with(site, data_dir, &arguments, &[])
    }

    fn start_with(
        site: &Site,
        data_dir: &Path,
        arguments: &[&OsStr],
        settings: &[(&str, &str)],
    ) -> Outcome<Self> {
        let mut command = sessionlog();
        without_settings(&mut command);
        command.envs(settings.iter().copied());
        command.arg("serve").arg("--data-dir").arg(data_dir);
        command.arg("--config").arg(site.configuration());
        command.args(arguments);
        command.args(["--json", "--listen", "127.0.0.1:0", "--log", "error"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(&mut command, Signal::TERM, site.runtime.handle())?;
        let said = process.child().stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let line = site.runtime.block_on(async {
            tokio::time::timeout(START, BufReader::new(said).lines().next_line()).await
        });
        let line = line.map_err(io::Error::other)??.unwrap_or_default();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said.get("listening").and_then(Value::as_str).unwrap_or_default();
        let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let address =
            address.ok_or_else(|| io::Error::other(format!("no server started: {line}")))?;
        let credential = String::new();
        Ok(Self { process, address, credential, has_sealed: false, has_active: false })
    }

    /// Returns the connection options of the server, without events sent or requested.
    pub(super) fn manner(&self) -> Manner {
        let server = Some(self.process.pid());
        Manner { server, defers: true, ..Manner::new(self.address, Protocol::Http, tail) }
    }

    /// Starts it on a data directory that already contains [`SEALED`].
    pub(super) fn prepared(site: &Site) -> Outcome<Self> {
        let env = site.env(DATA_DIR)?;
        site.runtime.block_on(fill_sealed_session(site, &env))?;
        let server = Self::start(site, &site.path(DATA_DIR))?;
        Ok(Self { has_sealed: has_sealed_segment(&site.path(DATA_DIR))?, ..server })
    }
}

impl Site {
    /// Returns our server, on its own data directory.
    pub(super) fn server(&mut self) -> Outcome<&mut Server> {
        self.started("server", Server::prepared)
    }

    /// Returns the server for a cell: it requires a token, or encrypts, for a cell so named.
    pub(super) fn server_of(&mut self, cell: &Cell) -> Outcome<&mut Server> {
        match cell.id.rsplit('.').next() {
            Some("token") => self.started("token", Server::guarded),
            Some("keys") => self.started("keys", Server::encrypted),
            _ => self.server(),
        }
    }

    fn started(
        &mut self,
        name: &'static str,
        start: fn(&Self) -> Outcome<Server>,
    ) -> Outcome<&mut Server> {
        let server = self.program(name, |site| start(site).map(Some))?;
        Ok(server.ok_or_else(|| io::Error::other("the server is not running"))?)
    }
}

/// Removes the user's settings from a command's environment.
pub(super) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SESSIONLOG_") {
            command.env_remove(name);
        }
    }
}

/// Fills the session whose segments are sealed, and closes the store.
async fn fill_sealed_session(site: &Site, env: &Env) -> Outcome {
    let options = StoreOptions { segment_bytes_max: SEGMENT_BYTES, ..StoreOptions::default() };
    let local = Arc::new(LocalStore::open_local(env, options).map_err(io::Error::other)?);
    let scope = Scope::local();
    let id = SessionId::new(SEALED).expect("a constant that is an id");
    let key = SessionKey { scope: scope.clone(), session: id.clone() };
    let new = NewSession { id: Some(id), ..NewSession::default() };
    local.create(&scope, new).await.map_err(io::Error::other)?;
    engine::fill(&local, &key, &mut site.samples.clone(), site.settings.events, true).await?;
    local.close().await;
    Ok(())
}

/// Returns true if a data directory has a sealed segment.
fn has_sealed_segment(data_dir: &Path) -> io::Result<bool> {
    for directory in files::list(&data_dir.join("segments"))? {
        let names = files::list(&directory)?;
        if names.iter().any(|name| name.extension().is_some_and(|end| end == "sealed")) {
            return Ok(true);
        }
    }
    Ok(false)
}

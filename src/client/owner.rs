//! Finds the owner of a data directory for a front end: checks that it fits, and starts one if none
//! answers. It must not open the data directory.

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
};

use super::{
    Client, ClientError, ClientTarget, HttpRequest, StartReport, error::OWNED,
    request::AttemptError,
};
use crate::{
    api::admin::SharedStore,
    verbs::{NoParams, NoQuery, admin},
};

/// Time limit for an owner to open its data directory; its starter waits no longer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for an owner to return its report.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of the line with the start report.
const REPORT_BYTES_MAX: u64 = 64 << 10;

/// The owner that a client needs.
#[derive(Clone, Debug)]
pub struct OwnerTarget {
    /// A path of the socket that is short enough to connect to.
    pub socket: PathBuf,
    /// Keeps the descriptor open that `socket` leads through, if any.
    pub directory: Option<Arc<OwnedFd>>,
    /// The data directory, for messages.
    pub data_dir: PathBuf,
    /// Settings that an owner must share with its front ends, as `name=value` pairs.
    pub config_digest: String,
    /// Command that starts an owner if none answers; `None` never starts one.
    pub start: Option<OwnerStart>,
}

/// Command that starts an owner: a program that writes one line, a [`StartReport`] or
/// `{"ready":true}`, to standard output, takes the lock first and binds the socket after.
#[derive(Clone, Debug)]
pub struct OwnerStart {
    /// Path of the program.
    pub program: PathBuf,
    /// `argv[0]` of the process.
    pub name: OsString,
    /// Arguments of the process.
    pub arguments: Vec<OsString>,
    /// Complete environment of the process.
    pub environment: Vec<(OsString, OsString)>,
}

/// Report of an owner of any version about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OwnerReport {
    /// Version of the owner.
    pub version: String,
    /// Process id of the owner.
    pub pid: u64,
    /// True if a front end started the owner, which then exits when idle.
    pub on_demand: bool,
    /// URL for HTTP and MCP, if the owner listens on one.
    pub url: Option<String>,
    /// Settings that front ends compare, as `name=value` pairs.
    pub config_digest: String,
    /// Database that several nodes share as the store.
    #[serde(default)]
    pub shared: Option<SharedStore>,
}

impl Client {
    /// Requests the owner's report, without starting an owner.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if no process listens, [`ClientError::OwnerSilent`] if one
    /// listens and does not answer.
    pub async fn fetch_owner_report(&self) -> Result<OwnerReport, ClientError> {
        let request = HttpRequest::from_verb::<admin::GetOwner>(&NoParams {}, &NoQuery {}, &());
        let answer = match tokio::time::timeout(PROBE_TIMEOUT, self.send_once(&request)).await {
            Ok(answer) => answer.map_err(AttemptError::into_error)?,
            Err(_) => return Err(self.silent_owner_error().await),
        };
        serde_json::from_slice(&answer.body).map_err(|_| ClientError::Foreign {
            address: self.address(),
            reason: "it has no owner's report".to_owned(),
        })
    }

    /// Returns the error that names the process that listens and does not answer.
    async fn silent_owner_error(&self) -> ClientError {
        let seconds = PROBE_TIMEOUT.as_secs();
        let who = match &self.inner.target {
            ClientTarget::Server(_) => "the server".to_owned(),
            ClientTarget::Owner(target) => {
                let connecting = UnixStream::connect(&target.socket);
                let connected = tokio::time::timeout(PROBE_TIMEOUT, connecting).await;
                let peer = connected.ok().and_then(|stream| stream.ok()?.peer_cred().ok()?.pid());
                peer.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"))
            }
        };
        ClientError::OwnerSilent { who, address: self.address(), seconds, in_doubt: false }
    }

    /// Requests that an owner started on demand finishes its work and exits.
    ///
    /// # Errors
    /// [`ClientError::Refused`] from an owner not started on demand; [`ClientError::Unreachable`].
    pub async fn step_down(&self) -> Result<(), ClientError> {
        let request = HttpRequest::from_verb::<admin::StepDown>(&NoParams {}, &NoQuery {}, &());
        match tokio::time::timeout(PROBE_TIMEOUT, self.send_once(&request)).await {
            Ok(answer) => answer.map(drop).map_err(AttemptError::into_error),
            Err(_) => Err(self.silent_owner_error().await),
        }
    }

    /// Opens a connection to the owner, for a client that sends its own requests; starts an owner
    /// if none answers.
    ///
    /// # Errors
    /// [`ClientError`] of the start; [`ClientError::Unreachable`] of a server, which has no socket.
    pub async fn connect_to_owner(&self) -> Result<UnixStream, ClientError> {
        let mut backoff = self.backoff();
        loop {
            let failure = match self.try_connect().await {
                Ok(stream) => return Ok(stream),
                Err(AttemptError::Final(error)) => return Err(error),
                Err(AttemptError::Again(error)) => error,
            };
            self.inner.owner_fits.store(false, Ordering::Release);
            if !backoff.wait().await {
                return Err(failure);
            }
        }
    }

    async fn try_connect(&self) -> Result<UnixStream, AttemptError> {
        let ClientTarget::Owner(target) = &self.inner.target else {
            let (address, reason) = (self.address(), "it is reached by its URL".to_owned());
            return Err(AttemptError::Final(ClientError::Unreachable { address, reason }));
        };
        self.find_owner().await?;
        let connected = UnixStream::connect(&target.socket).await;
        connected.map_err(|error| AttemptError::Again(unreachable_error(target, error.to_string())))
    }

    /// Checks that the owner fits; starts one if none answers.
    pub(super) async fn find_owner(&self) -> Result<(), AttemptError> {
        let ClientTarget::Owner(target) = &self.inner.target else { return Ok(()) };
        if self.inner.owner_fits.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one_at_a_time = self.inner.starting.lock().await;
        if self.inner.owner_fits.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.fetch_owner_report().await {
            Ok(report) => {
                check_compatible(target, &report).map_err(AttemptError::Final)?;
                self.inner.owner_fits.store(true, Ordering::Release);
                Ok(())
            }
            Err(ClientError::Unreachable { reason, .. }) => {
                let reason = match &target.start {
                    Some(start) => start_owner(start, target).await?.unwrap_or(reason),
                    None => reason,
                };
                // Started here or by another client concurrently: another attempt finds it.
                Err(AttemptError::Again(unreachable_error(target, reason)))
            }
            Err(error) => Err(AttemptError::Final(error)),
        }
    }
}

fn check_compatible(target: &OwnerTarget, report: &OwnerReport) -> Result<(), ClientError> {
    let ours = env!("CARGO_PKG_VERSION");
    let mismatch = |what, ours: &str, theirs: &str| ClientError::OwnerMismatch {
        what,
        ours: ours.to_owned(),
        theirs: theirs.to_owned(),
        pid: report.pid,
        data_dir: target.data_dir.display().to_string(),
    };
    if report.version != ours {
        return Err(mismatch("version", ours, &report.version));
    }
    if report.config_digest != target.config_digest {
        let (ours, theirs) = (&target.config_digest, &report.config_digest);
        return Err(mismatch(
            "configuration",
            &differing_settings(ours, theirs),
            &differing_settings(theirs, ours),
        ));
    }
    Ok(())
}

/// Returns the settings of one list that the other lacks or has with another value.
fn differing_settings(list: &str, other: &str) -> String {
    let known = |setting: &&str| other.split(' ').any(|same| same == *setting);
    list.split(' ').filter(|setting| !known(setting)).collect::<Vec<_>>().join(" ")
}

fn unreachable_error(target: &OwnerTarget, reason: String) -> ClientError {
    ClientError::Unreachable { address: target.data_dir.display().to_string(), reason }
}

/// Starts an owner and waits for its report. Returns a reason for which the owner may not be
/// reachable yet, if known.
async fn start_owner(
    start: &OwnerStart,
    target: &OwnerTarget,
) -> Result<Option<String>, AttemptError> {
    let unreachable = |reason: String| unreachable_error(target, reason);
    let mut command = tokio::process::Command::new(&start.program);
    command
        .arg0(&start.name)
        .args(&start.arguments)
        .env_clear()
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| {
        AttemptError::Final(unreachable(format!("its owner cannot be started: {error}")))
    })?;
    let Some(stdout) = child.stdout.take() else {
        return Err(AttemptError::Again(unreachable("its owner said nothing".to_owned())));
    };
    let mut line = String::new();
    let mut reader = BufReader::new(tokio::io::AsyncReadExt::take(stdout, REPORT_BYTES_MAX));
    match tokio::time::timeout(START_TIMEOUT, reader.read_line(&mut line)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(AttemptError::Again(unreachable(error.to_string()))),
        Err(_) => {
            let reason = "its owner is still opening the data directory; try again later";
            return Err(AttemptError::Final(unreachable(reason.to_owned())));
        }
    }
    match StartReport::parse(&line) {
        Some(report) if report.code != OWNED => {
            Err(AttemptError::Final(ClientError::OwnerNotStarted(Box::new(report))))
        }
        None if line.is_empty() => {
            // It exited before its report; the next attempt shows if that is permanent.
            let ended = child.wait().await.map_or_else(|e| e.to_string(), |code| code.to_string());
            Err(AttemptError::Again(unreachable(format!("its owner ended at once ({ended})"))))
        }
        Some(_) => {
            let reason = "its owner does not answer; if that lasts, look at what holds LOCK there";
            Ok(Some(reason.to_owned()))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_of_another_version_or_configuration_is_rejected_with_advice() {
        let target = OwnerTarget {
            socket: PathBuf::from("s"),
            directory: None,
            data_dir: PathBuf::from("data"),
            config_digest: "a=1 b=2".to_owned(),
            start: None,
        };
        let report = |version: &str, digest: &str| OwnerReport {
            version: version.to_owned(),
            pid: 7,
            on_demand: true,
            url: None,
            config_digest: digest.to_owned(),
            shared: None,
        };
        let ours = env!("CARGO_PKG_VERSION");
        assert!(check_compatible(&target, &report(ours, "a=1 b=2")).is_ok());
        for (report, named) in [
            (report("9.9.9", "a=1 b=2"), "version 9.9.9"),
            (report(ours, "a=1 b=3"), "configuration b=3, this program has b=2;"),
        ] {
            let error = check_compatible(&target, &report).expect_err("refused").to_string();
            assert!(error.contains(named) && error.contains("kill 7"), "{error}");
        }
    }

    #[test]
    fn a_start_report_round_trips() {
        let report = StartReport { code: "x".into(), message: "a \"b\"".into(), exit: 3 };
        assert_eq!(StartReport::parse(&report.to_line()), Some(report));
        assert_eq!(StartReport::parse("{\"ready\":true}"), None);
    }
}

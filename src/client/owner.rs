//! The owner of a data directory as its front ends see it: whether the one that answers fits, and
//! starting one when none does. It must not open the data directory.

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

use super::{Client, ClientError, Request, StartReport, Target, error::OWNED, request::Failure};
use crate::verbs::{NoQuery, Nowhere, admin};

/// Time in which an owner must open its data directory; its starter waits no longer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which an owner must say who it is.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the line an owner reports its start with.
const REPORT_BYTES_MAX: u64 = 64 << 10;

/// The owner a client wants.
#[derive(Clone, Debug)]
pub struct OwnerTarget {
    /// A path of its socket that is short enough to connect to.
    pub socket: PathBuf,
    /// Keeps `socket` alive when it leads through a descriptor.
    pub directory: Option<Arc<OwnedFd>>,
    /// The data directory, for messages.
    pub data_dir: PathBuf,
    /// The settings an owner must share with its front ends, `name=value`.
    pub config_digest: String,
    /// Command that starts one when no owner answers; `None` never starts one.
    pub start: Option<OwnerStart>,
}

/// Command that starts an owner: a program that reports a [`StartReport`] or `{"ready":true}` as
/// the one line of its standard output, takes the lock first and binds the socket after.
#[derive(Clone, Debug)]
pub struct OwnerStart {
    /// The program.
    pub program: PathBuf,
    /// Its name as it sees it.
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Description that an owner of any version gives of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OwnerReport {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u64,
    /// True if it was started by a front end and leaves when idle.
    pub on_demand: bool,
    /// Address for HTTP and MCP, if it listens there.
    pub url: Option<String>,
    /// Its settings that front ends compare, `name=value`.
    pub config_digest: String,
}

impl Client {
    /// Asks the owner for its description, without starting one.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when no process listens, [`ClientError::OwnerSilent`] when
    /// one does and does not answer.
    pub async fn owner(&self) -> Result<OwnerReport, ClientError> {
        let request = Request::from_verb::<admin::Owner>(&Nowhere {}, &NoQuery {}, &());
        let answer = match tokio::time::timeout(PROBE_TIMEOUT, self.send_once(&request)).await {
            Ok(answer) => answer.map_err(Failure::error)?,
            Err(_) => return Err(self.silent().await),
        };
        serde_json::from_slice(&answer.body).map_err(|_| ClientError::Foreign {
            address: self.address(),
            reason: "it has no owner's report".to_owned(),
        })
    }

    /// Says who listens and does not answer.
    async fn silent(&self) -> ClientError {
        let seconds = PROBE_TIMEOUT.as_secs();
        let who = match &self.inner.target {
            Target::Server(_) => "the server".to_owned(),
            Target::Owner(target) => {
                let connecting = UnixStream::connect(&target.socket);
                let connected = tokio::time::timeout(PROBE_TIMEOUT, connecting).await;
                let peer = connected.ok().and_then(|stream| stream.ok()?.peer_cred().ok()?.pid());
                peer.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"))
            }
        };
        ClientError::OwnerSilent { who, address: self.address(), seconds, in_doubt: false }
    }

    /// Asks an owner that was started on demand to finish its work and leave.
    ///
    /// # Errors
    /// [`ClientError::Refused`] from an owner that was not; [`ClientError::Unreachable`].
    pub async fn step_down(&self) -> Result<(), ClientError> {
        let request = Request::from_verb::<admin::StepDown>(&Nowhere {}, &NoQuery {}, &());
        match tokio::time::timeout(PROBE_TIMEOUT, self.send_once(&request)).await {
            Ok(answer) => answer.map(drop).map_err(Failure::error),
            Err(_) => Err(self.silent().await),
        }
    }

    /// Makes sure that an owner answers that fits; starts one when none does.
    pub(super) async fn find_owner(&self) -> Result<(), Failure> {
        let Target::Owner(target) = &self.inner.target else { return Ok(()) };
        if self.inner.owner_fits.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one_at_a_time = self.inner.starting.lock().await;
        if self.inner.owner_fits.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.owner().await {
            Ok(report) => {
                check_fit(target, &report).map_err(Failure::Final)?;
                self.inner.owner_fits.store(true, Ordering::Release);
                Ok(())
            }
            Err(ClientError::Unreachable { reason, .. }) => {
                let reason = match &target.start {
                    Some(start) => start_owner(start, target).await?.unwrap_or(reason),
                    None => reason,
                };
                // Started by us or by another client at the same time: look again.
                Err(Failure::Again(unreachable(target, reason)))
            }
            Err(error) => Err(Failure::Final(error)),
        }
    }
}

fn check_fit(target: &OwnerTarget, report: &OwnerReport) -> Result<(), ClientError> {
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

/// The settings of one list that the other has not, or has otherwise.
fn differing_settings(list: &str, other: &str) -> String {
    let known = |setting: &&str| other.split(' ').any(|same| same == *setting);
    list.split(' ').filter(|setting| !known(setting)).collect::<Vec<_>>().join(" ")
}

fn unreachable(target: &OwnerTarget, reason: String) -> ClientError {
    ClientError::Unreachable { address: target.data_dir.display().to_string(), reason }
}

/// Starts an owner and waits until it reports: ready, or why not. Returns why the owner may not be
/// reachable yet, when it knows.
async fn start_owner(start: &OwnerStart, target: &OwnerTarget) -> Result<Option<String>, Failure> {
    let unreachable = |reason: String| unreachable(target, reason);
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
        Failure::Final(unreachable(format!("its owner cannot be started: {error}")))
    })?;
    let Some(stdout) = child.stdout.take() else {
        return Err(Failure::Again(unreachable("its owner said nothing".to_owned())));
    };
    let mut line = String::new();
    let mut reader = BufReader::new(tokio::io::AsyncReadExt::take(stdout, REPORT_BYTES_MAX));
    match tokio::time::timeout(START_TIMEOUT, reader.read_line(&mut line)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(Failure::Again(unreachable(error.to_string()))),
        Err(_) => {
            let reason = "its owner is still opening the data directory; try again later";
            return Err(Failure::Final(unreachable(reason.to_owned())));
        }
    }
    match StartReport::read(&line) {
        Some(report) if report.code != OWNED => {
            Err(Failure::Final(ClientError::OwnerNotStarted(Box::new(report))))
        }
        None if line.is_empty() => {
            // It ended before it could say why; the next attempt shows whether once or always.
            let ended = child.wait().await.map_or_else(|e| e.to_string(), |code| code.to_string());
            Err(Failure::Again(unreachable(format!("its owner ended at once ({ended})"))))
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
    fn an_owner_of_another_version_or_configuration_is_refused_with_what_to_do() {
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
        };
        let ours = env!("CARGO_PKG_VERSION");
        assert!(check_fit(&target, &report(ours, "a=1 b=2")).is_ok());
        for (report, named) in [
            (report("9.9.9", "a=1 b=2"), "version 9.9.9"),
            (report(ours, "a=1 b=3"), "configuration b=3, this program has b=2;"),
        ] {
            let error = check_fit(&target, &report).expect_err("refused").to_string();
            assert!(error.contains(named) && error.contains("kill 7"), "{error}");
        }
    }

    #[test]
    fn a_start_report_reads_back_what_it_says() {
        let report = StartReport { code: "x".into(), message: "a \"b\"".into(), exit: 3 };
        assert_eq!(StartReport::read(&report.to_line()), Some(report));
        assert_eq!(StartReport::read("{\"ready\":true}"), None);
    }
}

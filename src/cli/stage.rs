//! A server on a temporary data directory with the default settings, for `demo`. It
//! must not read the user's configuration or touch the user's sessions.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process::Stdio,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::{
    connect,
    failure::{CliError, Outcome},
    settings,
};
use crate::env::{files, host::ScratchDir};

/// A temporary directory and this program; the directory is removed when this is dropped.
pub(super) struct TemporaryStore {
    scratch: ScratchDir,
    program: PathBuf,
    /// An empty configuration: the user's own would select the user's sessions.
    config: PathBuf,
}

impl TemporaryStore {
    /// Creates the directory; its name begins with `prefix`.
    pub(super) fn new(prefix: &str) -> Outcome<Self> {
        let scratch = ScratchDir::new(prefix)?;
        let config = scratch.path().join("sessionlog.toml");
        let mut empty = files::create(&config)?;
        empty.write_all(b"# Nothing is set: the defaults are used.\n")?;
        empty.finish()?;
        Ok(Self { scratch, program: connect::running_program()?, config })
    }

    /// Returns a path below the temporary directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the data directory of its processes.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    /// Keeps the temporary directory and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        self.scratch.keep()
    }

    /// Creates a command of this program on the data directory; its process is killed on drop.
    pub(super) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(settings::PREFIX) {
                command.env_remove(name);
            }
        }
        let given: [OsString; 6] = [
            verb.into(),
            "--data-dir".into(),
            self.data_dir().into(),
            "--config".into(),
            self.config.clone().into(),
            "--json".into(),
        ];
        command.args(given).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Starts a server on a free port and waits until it listens.
    pub(super) async fn serve(&self) -> Outcome<StagedServer> {
        let mut command = self.command("serve");
        command.args(["--listen", "127.0.0.1:0", "--log", "error"]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut lines = stdout_lines(&mut child)?;
        let line = lines.next_line().await?.unwrap_or_default();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said.get("listening").and_then(Value::as_str).and_then(|url| url.parse().ok());
        let url = url.ok_or_else(|| {
            let message = format!("the server of this command did not start: {line}");
            let action = "run `sessionlog serve` to see why";
            CliError::refusal("owner_unavailable", message, action)
        })?;
        Ok(StagedServer { child, url })
    }
}

/// A started server; it is killed when this is dropped.
pub(super) struct StagedServer {
    pub(super) child: Child,
    pub(super) url: url::Url,
}

impl StagedServer {
    /// Asks the server to stop, as a service manager would, and waits for its end.
    pub(super) async fn stop(&mut self) -> Outcome {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)
                .map_err(io::Error::from)?;
        }
        self.child.wait().await?;
        Ok(())
    }
}

/// Returns the lines of a child's standard output.
pub(super) fn stdout_lines(child: &mut Child) -> Outcome<Lines<BufReader<ChildStdout>>> {
    let pipe = child.stdout.take().ok_or_else(missing_pipe_error)?;
    Ok(BufReader::new(pipe).lines())
}

/// Returns the error for a child without the expected pipe.
pub(super) fn missing_pipe_error() -> io::Error {
    io::Error::other("a process of this command has no pipe")
}

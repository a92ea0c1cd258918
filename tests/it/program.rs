//! The real program in a separate directory: the tests of the command line, of the owner and of the
//! main job start, call and stop it here. It must not know what a test expects.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::client::{Client, ClientTarget, OwnerTarget};

/// Longest wait for a condition; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Returns standard output; the run must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    /// Returns standard output as JSON; the run must have succeeded.
    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Returns the error's code; the run had `--json` and must have exited with `code`.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        let line = self.out.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        error["error"]["type"].as_str().unwrap_or_default().to_owned()
    }
}

/// A home and a data directory for one test. Stops the owner left in it when dropped.
pub struct Place {
    home: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the program's command without any configuration of the machine.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_sessionlog"), arguments)
    }

    /// Returns [`Self::command`] for another program.
    pub fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env("SESSIONLOG_DATA_DIR", self.data_dir())
            .env("SESSIONLOG_OWNER_IDLE", "5s")
            // A slow disk must not make a patient hook spool its event.
            .env("SESSIONLOG_HOOK_TIMEOUT", "100s")
            // A server of the user who runs the tests may have the default port.
            .env("SESSIONLOG_LISTEN", "127.0.0.1:0")
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).spawn().unwrap())
    }

    /// Runs the program with additional environment variables.
    pub fn run_in(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
        ran(self.command(arguments).envs(variables.iter().copied()).spawn().unwrap())
    }

    pub fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        self.fed(arguments, input.as_bytes())
    }

    /// Runs the program with input that may not be UTF-8.
    pub fn fed(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let feeder = std::thread::spawn(move || {
            // A program that has read enough closes its end.
            let _ = stdin.write_all(&input);
        });
        let ran = ran(child);
        feeder.join().unwrap();
        ran
    }

    /// Returns the events of a session, as `events` prints them.
    pub fn events(&self, session: &str) -> Vec<Value> {
        lines(&self.run(&["events", session]).ok())
    }

    /// Returns a client of the running owner; it starts none.
    pub fn owner(&self) -> Client {
        let target = OwnerTarget {
            socket: self.data_dir().join("owner.sock"),
            directory: None,
            data_dir: self.data_dir(),
            config_digest: String::new(),
            start: None,
        };
        Client::new(ClientTarget::Owner(target), "test").unwrap()
    }

    /// Returns the process id of the running owner.
    pub fn owner_pid(&self) -> Option<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { self.owner().fetch_owner_report().await.ok().map(|owner| owner.pid) })
    }

    /// Kills the running owner with SIGKILL and waits until it has exited.
    pub fn kill_owner(&self) -> u64 {
        let pid = eventually("an owner", || self.owner_pid());
        kill(pid);
        eventually("the owner's end", || (self.owner_pid() != Some(pid)).then_some(()));
        pid
    }

    /// Starts `serve` on a free port.
    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Starts `serve` with more arguments.
    pub fn serve_with(&self, arguments: &[&str]) -> Server {
        self.serve_to(arguments, Stdio::null())
    }

    /// Starts `serve` with its log redirected.
    pub fn serve_to(&self, arguments: &[&str], log: Stdio) -> Server {
        let usual = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut child = self.command(&[&usual, arguments].concat()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let url = said["listening"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
        Server { child, url }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pid) = self.owner_pid() {
            kill(pid);
        }
    }
}

pub fn ran(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Copies the program to a path and appends a text. A separate process writes it: a program that
/// another test starts meanwhile would inherit our file open for writing, and a file open for
/// writing cannot be executed.
pub fn copy_program(to: &Path, behind: &str) {
    let script = "cp \"$0\" \"$1\" && printf %s \"$2\" >>\"$1\"";
    let copied = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_sessionlog")])
        .args([to.as_os_str(), behind.as_ref()])
        .status();
    assert!(copied.unwrap().success());
}

pub fn kill(pid: u64) {
    signal(pid, rustix::process::Signal::KILL);
}

pub fn signal(pid: u64, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    // An exited process is fine.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Polls until a condition holds.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let pause = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if let Some(found) = ask() {
            return found;
        }
        std::thread::park_timeout(pause);
    }
    panic!("waited in vain for {what}");
}

/// Parses JSON lines.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A running `serve`.
pub struct Server {
    pub child: Child,
    pub url: String,
}

impl Server {
    pub fn client(&self) -> Client {
        let key = format!("test-{}", self.child.id());
        Client::new(ClientTarget::Server(self.url.parse().unwrap()), key).unwrap()
    }

    /// Sends SIGTERM and returns the exit code.
    pub fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An MCP client on standard input and output, as an agent's host runs one.
pub struct McpClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl McpClient {
    /// Starts `sessionlog mcp` and initializes the protocol.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_in(place, "", arguments)
    }

    /// Starts it in a directory below the home.
    pub fn start_in(place: &Place, directory: &str, arguments: &[&str]) -> Self {
        let mut child = place
            .command(&[&["mcp"], arguments].concat())
            .current_dir(place.path(directory))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, input, output, next_id: 0 };
        let hello = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "0" },
            }),
        );
        assert!(hello["result"]["serverInfo"].is_object(), "{hello}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&request);
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the MCP front end ended before it answered {request}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == json!(id) {
                return answer;
            }
        }
    }

    /// Calls a tool and returns the text of its error; the call must be rejected.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool and returns its structured content; the call must succeed.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert!(answer["error"].is_null(), "{answer}");
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! `proxy`: starts the recording proxy with the process's environment. It must not examine a
//! message.

use std::{
    ffi::OsString,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender},
    },
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde_json::Value;
use url::Url;

use super::{
    common::parse_session_id,
    config::Config,
    connect,
    failure::{CliError, Outcome},
    mcp, signals,
    values::{Environment, parse_duration_argument},
};
use crate::{
    client::Client,
    env::{Clock as _, clock::SystemClock, parents},
    event::SessionId,
    hook::{self, Admission, WorkSession},
    proxy::{
        ContextTiming, Gate, Notify, ProgramEnd, ProxyOptions, RepeatRules, Upstream, serve_http,
        wrap_http_server, wrap_program,
    },
};

const MORE: &str = "\
Instead of a program:
  --url URL         wrap the server at that address (streamable HTTP); where the store is comes from
                    SESSIONLOG_URL or the settings file then
  --listen ADDRESS  with --url: serve HTTP there, not on standard input and output

Examples:
  sessionlog proxy -- npx -y @modelcontextprotocol/server-filesystem .
  sessionlog proxy --url https://mcp.example.com/mcp --header \"Authorization: Bearer $TOKEN\"";

/// Maximum time for which a call waits for a cached result.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
#[command(after_help = MORE)]
pub(super) struct ProxyArgs {
    /// Session to record into, unless the _meta of a call names one [default: a temporary one]
    #[arg(long, value_name = "S", value_parser = parse_session_id)]
    pub(super) session: Option<SessionId>,
    /// Name of the server in the log, until the server reports one
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Maximum age of a cached answer of a read-only tool; 0s: never answer from the cache
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration_argument)]
    pub(super) cache_age: Duration,
    /// Maximum age for one tool, as TOOL=5m or TOOL=off; may be repeated
    #[arg(long, value_name = "TOOL=DURATION", value_parser = parse_tool_age)]
    pub(super) cache: Vec<(String, Option<Duration>)>,
    /// Maximum tokens of cached answers; the oldest are evicted first
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub(super) remember_tokens: u32,
    /// When to send earlier outputs: never (off), on request, or also with the first answer
    #[arg(long, value_enum, value_name = "WHEN", default_value = "request")]
    pub(super) context: ContextWhen,
    /// Return an answer only once its record is durable
    #[arg(long)]
    pub(super) durable: bool,
    /// A header for the server of --url, as "NAME: VALUE"; may be repeated
    #[arg(long, value_name = "HEADER", value_parser = parse_header)]
    pub(super) header: Vec<(String, String)>,
    /// URL of the server, if it is reached by HTTP.
    #[arg(skip)]
    pub(super) upstream: Option<String>,
    /// Address to listen on instead of standard input.
    #[arg(skip)]
    pub(super) listen: Option<String>,
    /// Program of the server and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// When earlier outputs are sent to a client.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ContextWhen {
    Off,
    Request,
    Append,
}

pub(super) async fn run(
    client: Client,
    wanted: ProxyArgs,
    config: &Config,
    environment: &Environment,
) -> Outcome {
    let wrapped = WrappedServer::parse(&wanted)?;
    let secrets = Arc::new(config.secrets.read()?);
    let printer = StderrPrinter::new();
    let project = connect::current_project(environment);
    let directory = project.as_ref().map(|project| project.directory.display().to_string());
    let gate = Arc::new(DirectoryRules { gate: config.gate.clone(), directory });
    let process =
        if wanted.session.is_none() { parents::parent_process_names() } else { Vec::new() };
    let options = ProxyOptions {
        process,
        session: wanted.session.or_else(|| mcp::harness_session(environment)),
        name: connect::random_text(),
        server: wanted.name.unwrap_or_else(|| wrapped.default_name()),
        directory: project
            .filter(|project| !project.shared)
            .map(|project| secrets.mask(&project.workspace()).into_text()),
        repeats: RepeatRules {
            age_max: Some(wanted.cache_age).filter(|age| !age.is_zero()),
            tools: wanted.cache.into_iter().collect(),
            tokens_max: usize::try_from(wanted.remember_tokens).unwrap_or(usize::MAX),
        },
        patience: PATIENCE,
        context: match wanted.context {
            ContextWhen::Off => ContextTiming::Off,
            ContextWhen::Request => ContextTiming::Request,
            ContextWhen::Append => ContextTiming::Append,
        },
        durable: wanted.durable,
        secrets,
        gate,
        notify: printer.notifier(),
        clock: Arc::new(SystemClock::new()),
    };
    let outcome = wrapped.run(client, options).await;
    printer.finish();
    outcome
}

/// Rules for the events that are recorded in the working directory.
struct DirectoryRules {
    gate: hook::RecordingGate,
    directory: Option<String>,
}

impl Gate for DirectoryRules {
    fn admit_event(&self, session: &SessionId) -> Option<Option<Value>> {
        let who = WorkSession::new(session.as_str(), self.directory.as_deref());
        let now = SystemClock::new().now();
        match self.gate.admit(&who, now) {
            Admission::Refused => None,
            Admission::Admitted(gap) => {
                Some(gap.and_then(|gap| gap.gap_event(now).get_mut("error").map(Value::take)))
            }
        }
    }

    fn is_excluded(&self, input: Option<&Value>) -> bool {
        self.gate.excludes_call(input, self.directory.as_deref())
    }
}

/// Prints lines to standard error on a thread of its own: the parent process may never read them.
struct StderrPrinter {
    lines: SyncSender<Option<String>>,
    finished: Receiver<()>,
}

impl StderrPrinter {
    /// Maximum number of lines queued for printing; further ones are dropped.
    const WAITING_MAX: usize = 64;
    /// Time limit for printing the queued lines at the end.
    const FINISH_TIME_MAX: Duration = Duration::from_millis(200);

    fn new() -> Self {
        let (lines, queue) = mpsc::sync_channel::<Option<String>>(Self::WAITING_MAX);
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            for text in queue.into_iter().map_while(|text| text) {
                // Without standard error the failure cannot be reported.
                let _ = writeln!(std::io::stderr(), "sessionlog proxy: {text}");
            }
            let _ = done.send(());
        });
        Self { lines, finished }
    }

    fn notifier(&self) -> Notify {
        let lines = self.lines.clone();
        Arc::new(move |text| {
            let _ = lines.try_send(Some(text.to_owned()));
        })
    }

    fn finish(self) {
        if self.lines.try_send(None).is_ok() {
            let _ = self.finished.recv_timeout(Self::FINISH_TIME_MAX);
        }
    }
}

enum WrappedServer {
    Program(Vec<OsString>),
    /// An HTTP server, and the address on which the proxy listens for it.
    Server(Upstream, Option<SocketAddr>),
}

impl WrappedServer {
    fn parse(wanted: &ProxyArgs) -> Outcome<Self> {
        let usage = |text: &str| CliError::usage(text);
        let listen =
            match &wanted.listen {
                Some(text) => Some(text.parse().map_err(|_| {
                    usage("--listen: an address such as 127.0.0.1:8800 is expected")
                })?),
                None => None,
            };
        let one = match (&wanted.upstream, wanted.command.is_empty()) {
            (Some(url), true) => {
                let url = Url::parse(url).ok().filter(|url| url.scheme().starts_with("http"));
                let url = url.ok_or_else(|| usage("--url: an address of HTTP is expected"))?;
                Self::Server(Upstream { url, headers: wanted.header.clone() }, listen)
            }
            (None, false) => Self::Program(wanted.command.clone()),
            _ => {
                return Err(usage("name the server's program after --, or its address with --url"));
            }
        };
        match &one {
            Self::Program(_) if listen.is_some() || !wanted.header.is_empty() => {
                Err(usage("--listen and --header go with --url"))
            }
            Self::Server(_, Some(listen)) if !listen.ip().is_loopback() => {
                Err(usage("--listen: only this machine may ask; name a loopback address"))
            }
            _ => Ok(one),
        }
    }

    fn default_name(&self) -> String {
        match self {
            Self::Program(command) => {
                let program = command.first().map(Path::new).and_then(Path::file_name);
                program.unwrap_or_default().to_string_lossy().into_owned()
            }
            Self::Server(upstream, _) => upstream.url.host_str().unwrap_or_default().to_owned(),
        }
    }

    async fn run(self, client: Client, options: ProxyOptions) -> Outcome {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        let action = "name a program that speaks MCP on its standard input and output, or the \
                      address of a server";
        let refused = |error: std::io::Error| {
            CliError::invalid_request(format!("the server cannot be wrapped: {error}"), action)
        };
        // The signal means that the client has ended.
        let stop = signals::stop_signal().map_err(refused)?;
        match self {
            Self::Program(command) => {
                match wrap_program(streams, &command, client, options, stop)
                    .await
                    .map_err(refused)?
                {
                    ProgramEnd::ByClient | ProgramEnd::ByItself(Some(0)) => Ok(()),
                    ProgramEnd::ByItself(code) => {
                        let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                        Err(CliError::Silent(code))
                    }
                }
            }
            Self::Server(upstream, None) => {
                wrap_http_server(streams, &upstream, client, options, stop).await.map_err(refused)
            }
            Self::Server(upstream, Some(listen)) => {
                let listener = tokio::net::TcpListener::bind(listen).await.map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                let said = format!("http://{address} in front of {}", upstream.url);
                writeln!(std::io::stdout(), "{said}")?;
                serve_http(listener, &upstream, client, options, stop).await.map_err(refused)
            }
        }
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("it must be NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses the maximum age of a cached result of one tool.
fn parse_tool_age(text: &str) -> Result<(String, Option<Duration>), String> {
    let (tool, age) = text.split_once('=').ok_or("it must be TOOL=DURATION or TOOL=off")?;
    let age = if age == "off" { None } else { Some(parse_duration_argument(age)?) };
    Ok((tool.to_owned(), age.filter(|age| !age.is_zero())))
}

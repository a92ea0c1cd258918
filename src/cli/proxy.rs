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
    common::session,
    config::Config,
    connect,
    failure::{Failure, Outcome},
    mcp, signals,
    values::{Environment, duration_argument},
};
use crate::{
    client::Client,
    env::{Clock as _, clock::SystemClock, parents},
    event::SessionId,
    hook::{self, Admission, Who},
    proxy::{
        Context, Ended, Gate, Notify, Options, Repeats, Upstream, in_front_of, with_program,
        with_upstream,
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

/// Time for which a call waits for a remembered result.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
#[command(after_help = MORE)]
pub(super) struct Proxy {
    /// The session to record into, where a call's _meta names none; else a temporary one
    #[arg(long, value_name = "S", value_parser = session)]
    pub(super) session: Option<SessionId>,
    /// What the server is called in the log, until it says its name itself
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// How old an answer of a read-only tool may be to be given again; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration_argument)]
    pub(super) cache_age: Duration,
    /// The same for one tool, as TOOL=5m or TOOL=off; may be given several times
    #[arg(long, value_name = "TOOL=DURATION", value_parser = tool_age)]
    pub(super) cache: Vec<(String, Option<Duration>)>,
    /// Tokens of answers that are remembered, the oldest forgotten first
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub(super) remember_tokens: u32,
    /// When earlier outputs go to the client: never, when it asks, or with a first answer, too
    #[arg(long, value_enum, value_name = "WHEN", default_value = "request")]
    pub(super) context: ContextWhen,
    /// Give an answer only when its record is durable
    #[arg(long)]
    pub(super) durable: bool,
    /// A header for the server of --url, as "NAME: VALUE"; may be given several times
    #[arg(long, value_name = "HEADER", value_parser = header)]
    pub(super) header: Vec<(String, String)>,
    /// Where the server is, by HTTP.
    #[arg(skip)]
    pub(super) upstream: Option<String>,
    /// Where to listen instead of on standard input.
    #[arg(skip)]
    pub(super) listen: Option<String>,
    /// The server's program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// When earlier outputs go to a client.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ContextWhen {
    Off,
    Request,
    Append,
}

pub(super) async fn run(
    client: Client,
    wanted: Proxy,
    config: &Config,
    environment: &Environment,
) -> Outcome {
    let wrapped = Wrapped::parse(&wanted)?;
    let secrets = Arc::new(config.secrets.read()?);
    let voice = Voice::new();
    let project = connect::project(environment);
    let directory = project.as_ref().map(|project| project.directory.display().to_string());
    let gate = Arc::new(Gated { gate: config.gate.clone(), directory });
    let process = if wanted.session.is_none() { parents::names() } else { Vec::new() };
    let options = Options {
        process,
        session: wanted.session.or_else(|| mcp::of_harness(environment)),
        name: connect::random_text(),
        server: wanted.name.unwrap_or_else(|| wrapped.name()),
        directory: project
            .filter(|project| !project.shared)
            .map(|project| secrets.masked(&project.workspace()).into_text()),
        repeats: Repeats {
            age_max: Some(wanted.cache_age).filter(|age| !age.is_zero()),
            tools: wanted.cache.into_iter().collect(),
            tokens_max: usize::try_from(wanted.remember_tokens).unwrap_or(usize::MAX),
        },
        patience: PATIENCE,
        context: match wanted.context {
            ContextWhen::Off => Context::Off,
            ContextWhen::Request => Context::Request,
            ContextWhen::Append => Context::Append,
        },
        durable: wanted.durable,
        secrets,
        gate,
        notify: voice.notify(),
        clock: Arc::new(SystemClock::new()),
    };
    let outcome = wrapped.run(client, options).await;
    voice.last_words();
    outcome
}

/// Rules for the events that are recorded in the working directory.
struct Gated {
    gate: hook::Gate,
    directory: Option<String>,
}

impl Gate for Gated {
    fn admits(&self, session: &SessionId) -> Option<Option<Value>> {
        let who = Who::new(session.as_str(), self.directory.as_deref());
        let now = SystemClock::new().now();
        match self.gate.admit(&who, now) {
            Admission::Refused => None,
            Admission::Admitted(gap) => {
                Some(gap.and_then(|gap| gap.event(now).get_mut("error").map(Value::take)))
            }
        }
    }

    fn withholds(&self, input: Option<&Value>) -> bool {
        self.gate.withholds(input, self.directory.as_deref())
    }
}

/// Thread that prints to standard error: the parent process may never read it.
struct Voice {
    say: SyncSender<Option<String>>,
    silent: Receiver<()>,
}

impl Voice {
    /// Maximum number of sentences queued for printing; further ones are dropped.
    const WAITING_MAX: usize = 64;
    /// Time limit for printing the queued sentences at the end.
    const LAST_WORDS: Duration = Duration::from_millis(200);

    fn new() -> Self {
        let (say, said) = mpsc::sync_channel::<Option<String>>(Self::WAITING_MAX);
        let (falls, silent) = mpsc::channel();
        std::thread::spawn(move || {
            for text in said.into_iter().map_while(|text| text) {
                // Without standard error the failure cannot be reported.
                let _ = writeln!(std::io::stderr(), "sessionlog proxy: {text}");
            }
            let _ = falls.send(());
        });
        Self { say, silent }
    }

    fn notify(&self) -> Notify {
        let say = self.say.clone();
        Arc::new(move |text| {
            let _ = say.try_send(Some(text.to_owned()));
        })
    }

    fn last_words(self) {
        if self.say.try_send(None).is_ok() {
            let _ = self.silent.recv_timeout(Self::LAST_WORDS);
        }
    }
}

/// The server that the proxy wraps.
enum Wrapped {
    Program(Vec<OsString>),
    /// An HTTP server, and the address on which the proxy listens for it.
    Server(Upstream, Option<SocketAddr>),
}

impl Wrapped {
    fn parse(wanted: &Proxy) -> Outcome<Self> {
        let usage = |text: &str| Failure::usage(text);
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

    fn name(&self) -> String {
        match self {
            Self::Program(command) => {
                let program = command.first().map(Path::new).and_then(Path::file_name);
                program.unwrap_or_default().to_string_lossy().into_owned()
            }
            Self::Server(upstream, _) => upstream.url.host_str().unwrap_or_default().to_owned(),
        }
    }

    async fn run(self, client: Client, options: Options) -> Outcome {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        let action = "name a program that speaks MCP on its standard input and output, or the \
                      address of a server";
        let refused = |error: std::io::Error| {
            Failure::invalid(format!("the server cannot be wrapped: {error}"), action)
        };
        // The signal means that the client has ended.
        let stop = signals::asked_to_end().map_err(refused)?;
        match self {
            Self::Program(command) => {
                match with_program(streams, &command, client, options, stop)
                    .await
                    .map_err(refused)?
                {
                    Ended::ByClient | Ended::ByItself(Some(0)) => Ok(()),
                    Ended::ByItself(code) => {
                        let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                        Err(Failure::Silent(code))
                    }
                }
            }
            Self::Server(upstream, None) => {
                with_upstream(streams, &upstream, client, options, stop).await.map_err(refused)
            }
            Self::Server(upstream, Some(listen)) => {
                let listener = tokio::net::TcpListener::bind(listen).await.map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                let said = format!("http://{address} in front of {}", upstream.url);
                writeln!(std::io::stdout(), "{said}")?;
                in_front_of(listener, &upstream, client, options, stop).await.map_err(refused)
            }
        }
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("it must be NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses the maximum age of a remembered result of one tool.
fn tool_age(text: &str) -> Result<(String, Option<Duration>), String> {
    let (tool, age) = text.split_once('=').ok_or("it must be TOOL=DURATION or TOOL=off")?;
    let age = if age == "off" { None } else { Some(duration_argument(age)?) };
    Ok((tool.to_owned(), age.filter(|age| !age.is_zero())))
}

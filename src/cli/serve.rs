//! `serve`, and the owner a front end starts: the composition root of configuration, store, verbs,
//! interfaces and listeners, with a graceful stop. It must not contain a verb, nor know which
//! engine it serves.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::{self, Write},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    config::Config,
    connect,
    failure::{CliError, Outcome},
    logging,
    open::{self, CheckedStore},
    screen::Screen,
    signals,
};
use crate::{
    access::{Authenticator, Certificates, PerTenant},
    api::admin::{EffectiveSetting, Owner},
    client::StartReport,
    env::{
        Env,
        host::{self, OwnerSocket},
        parents, shortage,
    },
    event::Event,
    http::{App, Exporter, HttpOptions, Listener, ServeOptions},
    import::{self, ChatFormat, JsonMembers, TranscriptLines, TranscriptProgram},
    mcp::{self, McpHttpOptions},
    secrets::Recogniser,
    service::{Embedder, Quotas, ResearchOptions, Service},
    store::{Lifetimes, Store},
    verbs::OwnerInfo,
    wire::json,
};

/// Interval at which an owner checks that its data directory still exists.
const DIRECTORY_WATCH: Duration = Duration::from_secs(2);
/// Time limit for saving the search index at a stop.
const KEEP_INDEX: Duration = Duration::from_secs(2);
/// Interval at which an owner expires sessions.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Interval at which killed agents are looked for.
const LOOK_AT_AGENTS_EVERY: Duration = Duration::from_secs(60);
/// Size at which the log file of an owner started on demand is truncated.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Serves until asked to stop or, if started on demand, until no connection is open.
pub(super) fn run(config: &Config, on_demand: bool, screen: &mut Screen) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if !on_demand {
        return runtime.block_on(serve(config, false, screen));
    }
    match runtime.block_on(serve(config, true, screen)) {
        Ok(()) => Ok(()),
        Err(failure) => report_not_started(&failure, screen),
    }
}

/// Reports a failed start to the process that started this owner.
pub(super) fn report_not_started(failure: &CliError, screen: &mut Screen) -> Outcome {
    let report = match failure {
        CliError::Silent(_) => StartReport::for_owned_directory(),
        other => StartReport {
            code: other.code().to_owned(),
            message: other.to_string(),
            exit: other.exit_code(),
        },
    };
    screen.print_line(report.to_line())?;
    Err(CliError::Silent(report.exit))
}

async fn serve(config: &Config, on_demand: bool, screen: &mut Screen) -> Outcome {
    // With a handler, SIGXFSZ does not end the process: a file size limit is an ordinary error.
    let _heard = signal(SignalKind::from_raw(host::FILE_SIZE_SIGNAL))?;
    let mut network = NetworkListener::default();
    if !on_demand {
        open::check_no_server(config).await?;
        network = NetworkListener::open(config).await?;
    }
    let quotas = config.interfaces.read_quotas()?;
    let rules = |embedder| Ok::<_, CliError>((embedder, Arc::new(config.secrets.read()?)));
    let embedder = config.embedder.create_embedder()?.map(rules).transpose()?;
    // Checked before the log file is created: with a wrong key no byte is written.
    let opening = CheckedStore::check(config)?;
    start_log(config, on_demand)?;
    let store = opening.open_store(config, on_demand).await?;
    let socket = connect::owner_socket(config)?;
    let mut local = None;
    let bound = store.with_reserved_space(&mut || {
        local = Some(socket.bind()?);
        Ok(())
    });
    let local = bound.and_then(|()| local.ok_or_else(|| io::Error::other("no socket")));
    let local = local.map_err(|error| connect::unusable_directory_failure(config, &error))?;
    let stop = CancellationToken::new();
    let asked = signals::stop_signal()?;
    let stopping = stop.clone();
    tokio::spawn(async move {
        asked.await;
        stopping.cancel();
    });
    let mut listeners = vec![Listener::Unix(UnixListener::from_std(local)?)];
    let service = create_service(&opening.env, Arc::clone(&store), config, quotas, embedder);
    let router = create_router(service.clone(), config, &network, &stop);
    let idle = on_demand.then_some(config.owner_idle);
    announce(config, &network, screen)?;
    listeners.extend(network.into_listener());
    info!(data_dir = %config.data_dir.display(), on_demand, "owner started");
    let options = ServeOptions { idle, ..ServeOptions::default() };
    tokio::select! {
        () = crate::http::serve(listeners, router, options, stop.clone()) => {}
        never = watch_directory(&socket, &stop) => match never {},
    }
    // An index that is not saved in time is built again.
    let _ = tokio::time::timeout(KEEP_INDEX, service.write_index()).await;
    close_store(&socket, &store).await;
    Ok(())
}

/// Creates the verbs over the store.
fn create_service(
    env: &Env,
    store: Arc<dyn Store>,
    config: &Config,
    quotas: PerTenant<Quotas>,
    embedder: Option<(Arc<dyn Embedder>, Arc<Recogniser>)>,
) -> Service {
    let research = ResearchOptions { steps_max: config.max_steps, ..ResearchOptions::default() };
    let service = Service::new(store, Arc::clone(&env.clock)).with_research(research);
    let service = service.with_quotas(quotas).with_monitor(config.monitor);
    let service = service.with_search(config.search).with_restoring(config.restore.clone());
    match embedder.filter(|_| config.search.enabled) {
        Some((embedder, secrets)) => service.with_embedder(embedder, secrets, config.embedder.all),
        None => service,
    }
}

/// Creates the routes of all interfaces, over one set of verbs.
fn create_router(
    service: Service,
    config: &Config,
    network: &NetworkListener,
    stop: &CancellationToken,
) -> axum::Router {
    let on_demand = network.tcp.is_none();
    tokio::spawn(service.clone().follow_index(stop.clone()));
    // Until the process ends: while the server drains, other nodes wait for it.
    tokio::spawn(service.clone().follow_removals(CancellationToken::new()));
    tokio::spawn(run_sweeps(service.clone(), stop.clone()));
    tokio::spawn(run_looks_at_agents(service.clone(), stop.clone()));
    tokio::spawn(run_checkpoints(service.clone(), config.checkpoint_every, stop.clone()));
    let about = Owner {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        on_demand,
        data_dir: config.data_dir.display().to_string(),
        url: network.url(),
        config_digest: config.config_digest(),
        settings: config
            .setting_values()
            .map(|found| EffectiveSetting {
                name: found.name.to_owned(),
                value: found.display_value(),
                source: found.source.clone(),
            })
            .collect(),
        shared: None,
    };
    let owner = OwnerInfo { about, step_down: stop.clone() };
    let exporters = create_exporters();
    let (allowed_hosts, allowed_origins) =
        (network.accepted_host_names(config), config.interfaces.allowed_origins.clone());
    let options = HttpOptions {
        exporters,
        access: network.access.clone(),
        allowed_hosts: allowed_hosts.clone(),
        allowed_origins: allowed_origins.clone(),
        ..HttpOptions::default()
    };
    let app = App { service: service.clone(), owner: owner.clone(), options };
    let stop = stop.clone();
    let options =
        McpHttpOptions { stop, allowed_hosts, allowed_origins, owner, ..McpHttpOptions::default() };
    crate::http::router(app, mcp::http_router_with(service, options))
}

/// Expires sessions at intervals, until the owner stops.
async fn run_sweeps(service: Service, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        if let Err(error) = service.sweep().await {
            tracing::warn!(%error, "sessions past their time stay for now");
        }
    }
}

/// Looks for agents that were killed at intervals, until the owner stops.
async fn run_looks_at_agents(service: Service, stop: CancellationToken) {
    loop {
        if let Err(error) = service.stop_gone_agents(parents::running_names).await {
            tracing::warn!(%error, "sessions of killed agents count as running for now");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AT_AGENTS_EVERY) => {}
        }
    }
}

/// Creates checkpoints of changed sessions at intervals, until the owner stops.
async fn run_checkpoints(service: Service, every: Duration, stop: CancellationToken) {
    while !every.is_zero() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let made = service.checkpoint_changed(every).await;
        tracing::debug!(made, "checkpoints of what changed");
    }
}

/// Returns the formats of other programs in which HTTP exports a session. Chats are
/// `{"messages":[…]}`; an import stores their other members as metadata of the session.
fn create_exporters() -> BTreeMap<String, Exporter> {
    let chat = |chat: ChatFormat| {
        let export = move |events: Vec<Event>| {
            let paired = |event: &Event| to_members(&event.with_paired_surrogates());
            let events: Vec<JsonMembers> = events.iter().filter_map(paired).collect();
            Ok((import::to_messages(chat, &events) + "\n").into_bytes())
        };
        Arc::new(export) as Exporter
    };
    let transcript = |program: TranscriptProgram| {
        let export = move |events: Vec<Event>| {
            let mut lines = TranscriptLines::new(program);
            let taken = events.iter().filter_map(|event| lines.add_event(&to_members(event)?));
            let text = taken.flat_map(|(before, line)| [before, line]).collect::<String>();
            Ok((text + &lines.trailing_text()).into_bytes())
        };
        (program.as_str().to_owned(), Arc::new(export) as Exporter)
    };
    BTreeMap::from([
        ("openai".to_owned(), chat(ChatFormat::Openai)),
        ("anthropic".to_owned(), chat(ChatFormat::Anthropic)),
        transcript(TranscriptProgram::ClaudeCode),
        transcript(TranscriptProgram::Codex),
    ])
}

fn to_members(event: &Event) -> Option<JsonMembers> {
    JsonMembers::read(&json::event_text(event)).ok()
}

/// Waits until the owner's directory is removed, then stops it: no process can reach it there.
async fn watch_directory(socket: &OwnerSocket, stop: &CancellationToken) -> Infallible {
    loop {
        tokio::time::sleep(DIRECTORY_WATCH).await;
        if let Ok(false) = socket.is_bound_here() {
            tracing::warn!("the data directory or its socket was taken away; leaving");
            stop.cancel();
            std::future::pending::<()>().await;
        }
    }
}

/// Closes in the order that lets the next owner start at once: removes the socket, flushes the
/// store; the process's end releases the lock.
async fn close_store(socket: &OwnerSocket, store: &Arc<dyn Store>) {
    if let Err(error) = socket.remove() {
        tracing::warn!(%error, "the owner's socket stays; the next owner replaces it");
    }
    store.close().await;
    info!("owner stopped");
}

/// Network interface: empty for an owner started on demand.
#[derive(Default)]
struct NetworkListener {
    tcp: Option<TcpListener>,
    certificates: Option<Arc<Certificates>>,
    access: Option<Arc<Authenticator>>,
}

impl NetworkListener {
    async fn open(config: &Config) -> Outcome<Self> {
        let (access, certificates) =
            (config.interfaces.open_access()?, config.interfaces.load_certificates()?);
        let tcp = Some(bind_listener(config, access.is_some()).await?);
        Ok(Self { tcp, certificates, access })
    }

    fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref()?.local_addr().ok()
    }

    fn url(&self) -> Option<String> {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        self.address().map(|address| format!("{scheme}://{address}"))
    }

    fn into_listener(self) -> Option<Listener> {
        let tcp = self.tcp?;
        Some(match self.certificates {
            Some(certificates) => Listener::Tls(tcp, certificates),
            None => Listener::Tcp(tcp),
        })
    }

    /// Returns the host names accepted in requests: those configured, and the listening address.
    fn accepted_host_names(&self, config: &Config) -> Vec<String> {
        let mut names = config.interfaces.allowed_hosts.clone();
        let own = self.address().map(|address| address.ip()).filter(|ip| !ip.is_unspecified());
        names.extend(own.map(|ip| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        }));
        names
    }
}

async fn bind_listener(config: &Config, asks: bool) -> Outcome<TcpListener> {
    let address = config.listen;
    let refused =
        |message: String, action: &str| Err(CliError::refusal("forbidden", message, action));
    if !address.ip().is_loopback() {
        if !asks {
            return refused(
                format!(
                    "listen: {address} can be reached from other machines, and no credentials \
                         are asked for"
                ),
                "make a token (`sessionlog tokens create --tokens-file FILE --user NAME`) and \
                 serve with --tokens-file FILE; or listen on 127.0.0.1 and reach it from elsewhere \
                 through a tunnel, such as ssh -L",
            );
        }
        if address.ip().is_unspecified() && config.interfaces.allowed_hosts.is_empty() {
            return refused(
                format!(
                    "listen: {address} is every address of this machine, and no name is \
                         allowed: no client could call this server by one"
                ),
                "say which names it goes by with --allowed-hosts, such as logs.example.org; or \
                 listen on one address",
            );
        }
    }
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("listen: {address} cannot be listened on: {error}");
        let action = "stop what listens there, or name another address with --listen";
        CliError::refusal("owner_unavailable", message, action)
    })
}

/// Reports the listening address to the process that started this server.
fn announce(config: &Config, network: &NetworkListener, screen: &mut Screen) -> Outcome {
    let data_dir = config.data_dir.display().to_string();
    let (Some(address), Some(url)) = (network.address(), network.url()) else {
        // The parent process may have ended: other clients are still served.
        let _ = screen.print_line(r#"{"ready":true}"#).and_then(|()| screen.flush());
        return Ok(host::close_stdout()?);
    };
    if network.certificates.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "tokens and sessions cross the network in clear: no TLS is set up");
    }
    if screen.json {
        let pid = std::process::id();
        let line = serde_json::json!({ "listening": url, "data_dir": data_dir, "pid": pid });
        screen.print_json(&line)?;
    } else {
        screen.print_line(format!("sessionlog {} listens on {url}", env!("CARGO_PKG_VERSION")))?;
        screen.print_line(format!("  page      {url}/"))?;
        let sessions = config.database.as_ref().map(|database| database.url.to_string());
        screen.print_line(format!("  sessions  {}", sessions.unwrap_or(data_dir)))?;
        screen.print_line(format!(
            "  HTTP      {url}/v1/sessions   (described at {url}/openapi.json)"
        ))?;
        screen.print_line(format!("  MCP       {url}/mcp"))?;
        screen.print_line(format!("  expiry    {}", describe_expiry(&config.store.lifetimes)))?;
        screen.print_line("  stop      Ctrl-C, or SIGTERM")?;
    }
    Ok(screen.flush()?)
}

/// Describes the expiry of idle sessions for display.
fn describe_expiry(lifetimes: &Lifetimes) -> String {
    const DAY: u64 = 24 * 3_600;
    let worded = |time: Duration| match time.as_secs() {
        seconds if seconds >= DAY && seconds % DAY == 0 => format!("{} days", seconds / DAY),
        seconds => format!("{seconds} s"),
    };
    if lifetimes.retention.is_zero() {
        return "never; sessions stay until you delete them".to_owned();
    }
    let kept = match lifetimes.purge {
        Duration::ZERO => "at any time".to_owned(),
        time => format!("for {}", worded(time)),
    };
    let idle = worded(lifetimes.retention);
    format!("after {idle} without use; `sessionlog restore` brings a session back {kept}")
}

/// Starts the log: to standard error, as text on a terminal and as JSON otherwise; for an owner
/// started on demand, to a file in its data directory.
fn start_log(config: &Config, on_demand: bool) -> Outcome {
    let mut file: Option<Box<dyn Write + Send>> = None;
    if on_demand {
        let path = config.data_dir.join("owner.log");
        file = Some(match host::open_log(&path, LOG_BYTES_MAX) {
            // Without space for a log there may still be space for a deletion.
            Err(error) if shortage(&error).is_some() => Box::new(io::sink()),
            opened => Box::new(
                opened.map_err(|error| connect::unusable_directory_failure(config, &error))?,
            ),
        });
    }
    logging::start_log(&config.log, file);
    Ok(())
}

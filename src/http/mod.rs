//! INTERFACE: HTTP. A handler decodes, calls one verb, encodes. It must not decide anything about a
//! session: if it needs to, a verb is missing. Credentials, request ids, limits, logs and the
//! format of errors are in guard, so that every route has them.

mod admin;
mod append;
mod backup;
mod body;
mod document;
mod events;
mod gate;
mod guard;
mod mcp;
mod memory;
mod metrics;
mod operation;
mod params;
mod progress;
mod refuse;
mod routes;
mod serve;
mod stream;
mod strict;
mod threads;
mod tools;
mod verb;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use axum::{Router, middleware};
use tokio::sync::Semaphore;

pub use document::openapi_document;
pub use refuse::status;
pub use serve::{Listener, ServeOptions, serve};

use crate::{
    access::{Authenticator, Principal},
    event::{Event, Timestamp, limits},
    service::{Service, ServiceResult},
    verbs::{OwnerInfo, RouteTable, tools::MCP},
};
#[cfg(feature = "page")]
use crate::{
    page,
    verbs::{RequiredGrant, Route},
};

/// Converts the events of a whole session to another program's format.
pub type Exporter = Arc<dyn Fn(Vec<Event>) -> ServiceResult<Vec<u8>> + Send + Sync>;

/// Settings of the interface.
#[derive(Clone)]
pub struct HttpOptions {
    /// Hosts that a request may name, besides the loopback names; with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins that a browser's request may come from, besides the loopback ones.
    pub allowed_origins: Vec<String>,
    /// Maximum bytes of a request's body; default 16 MiB.
    pub body_bytes_max: usize,
    /// Maximum memory of all large requests in bytes, from the first byte until the answer; default
    /// 256 MiB. Trees of JSON may take a quarter of it, in addition.
    pub bodies_bytes_max: usize,
    /// Time for which a large request waits for memory; default 10 s.
    pub bodies_patience: Duration,
    /// Maximum number of concurrent readers (streams and long polls); default 10 000.
    pub readers_max: usize,
    /// Maximum bytes of memory of all large answers; default 256 MiB.
    pub answers_bytes_max: usize,
    /// Maximum bytes of memory of stream parts that clients have not read yet; default 64 MiB. A
    /// stream above it waits. Parts of up to 16 KiB do not count.
    pub streams_bytes_max: usize,
    /// Time for which a request for a large answer waits for memory; default 10 s.
    pub answers_patience: Duration,
    /// Idle time after which an append stream is ended; default 5 min.
    pub append_idle: Duration,
    /// Interval at which a quiet stream sends its tail; default 15 s.
    pub heartbeat: Duration,
    /// Credentials accepted over a network; with `None` every client that reaches the port is the
    /// user of this machine.
    pub access: Option<Arc<Authenticator>>,
    /// Export formats in addition to `jsonl`, by name.
    pub exporters: BTreeMap<String, Exporter>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_bytes_max: limits::BATCH_BYTES_MAX,
            bodies_bytes_max: 256 << 20,
            bodies_patience: Duration::from_secs(10),
            readers_max: limits::READERS_MAX,
            answers_bytes_max: 256 << 20,
            streams_bytes_max: 64 << 20,
            answers_patience: Duration::from_secs(10),
            append_idle: Duration::from_secs(300),
            heartbeat: Duration::from_secs(15),
            access: None,
            exporters: BTreeMap::new(),
        }
    }
}

/// State of the interface: verbs, owner and settings.
#[derive(Clone)]
pub struct App {
    /// The verbs.
    pub service: Service,
    /// Description of the process that runs this server.
    pub owner: OwnerInfo,
    /// Settings of the interface.
    pub options: HttpOptions,
}

/// The app, and the state of the interface.
struct Server {
    app: App,
    readers: Arc<Semaphore>,
    room: memory::MemoryBudget,
    bodies: memory::MemoryBudget,
    /// Memory of bodies parsed as trees: a quarter of `bodies`, in addition to it.
    trees: memory::MemoryBudget,
    streams: Arc<memory::MemoryBudget>,
    /// Start time: makes request ids differ from those of earlier servers.
    began: Timestamp,
    requests: AtomicU64,
    metrics: metrics::Metrics,
    /// Principal of requests that need no credential.
    local: Arc<Principal>,
    registered: RouteTable,
}

/// State shared by all handlers.
type Shared = axum::extract::State<Arc<Server>>;

/// Creates the router of the API. `more` has the route [`MCP`]; it is merged before the layers, so
/// that the checks of hosts and origins, request ids, limits and logs cover it too.
pub fn router(app: App, more: Router) -> Router {
    let (routes, mut registered) = routes::build_routes();
    registered.add(MCP);
    #[cfg(feature = "page")]
    for path in page::FILES {
        registered.add(Route::get(path, "getPageFile", RequiredGrant::Nothing));
    }
    let options = &app.options;
    let room = memory::MemoryBudget::new;
    let server = Arc::new(Server {
        readers: Arc::new(Semaphore::new(options.readers_max)),
        room: room(options.answers_bytes_max, options.answers_patience, memory::ANSWERS),
        streams: Arc::new(room(options.streams_bytes_max, Duration::ZERO, memory::STREAMS)),
        bodies: room(options.bodies_bytes_max, options.bodies_patience, memory::BODIES),
        trees: room(options.bodies_bytes_max / 4, options.bodies_patience, memory::BODIES),
        began: app.service.now(),
        requests: AtomicU64::new(0),
        metrics: metrics::Metrics::new(),
        local: Arc::new(Principal { is_audited: options.access.is_some(), ..Principal::local() }),
        registered,
        app,
    });
    let more = more.layer(middleware::from_fn_with_state(Arc::clone(&server), mcp::check_mcp_body));
    let routes = routes.with_state(Arc::clone(&server));
    #[cfg(feature = "page")]
    let routes = routes.layer(middleware::from_fn(page::answer_browser)).merge(page::router());
    routes
        .merge(more)
        .fallback(refuse::refuse_path)
        .method_not_allowed_fallback(refuse::refuse_method)
        .layer(middleware::from_fn_with_state(server, guard::guard_route))
}

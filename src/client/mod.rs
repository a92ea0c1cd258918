//! CLIENT OF FRONT ENDS: HTTP to the owner of a data directory (over its socket, started on demand)
//! or to a remote server. It must not interpret a session or an event, read the environment, or
//! print.
//!
//! Every call may be repeated safely: a call that changes something carries an idempotency key,
//! minted here unless the caller set one. So an owner that crashes, steps down or is replaced
//! during a call costs the caller time, not an answer. Events are appended through the
//! [`SessionWriter`].

mod call;
mod embed;
mod error;
mod owner;
mod request;
mod sse;
mod tail;
mod writer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    ClientBuilder,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use url::Url;

pub use embed::{EmbedderOptions, HttpEmbedder};
pub use error::{ClientError, Refusal, RefusalCause, StartReport};
pub use owner::{OwnerReport, OwnerStart, OwnerTarget};
pub use request::{HttpAnswer, HttpRequest, escape_path_segment, session_path};
pub use sse::{SseEvent, SseEvents};
pub use tail::{AnswerStream, SessionTail, TailItem};
pub use writer::{
    BatchParts, BatchRoom, CLIENT_KEY, FENCING_TOKEN, SESSION_ARCHIVED, SessionWriter, WrittenBatch,
};

/// Header with the key of a retry.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Variables with credentials of the store: removed from programs that a front end starts.
pub const CREDENTIALS: [&str; 3] =
    ["SESSIONLOG_TOKEN", "SESSIONLOG_KEY", "SESSIONLOG_KEY_PREVIOUS"];

/// Time for which an unused connection stays open: short, because an owner started on demand exits
/// only when no connection is open.
const IDLE_CONNECTION: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any long poll and any pause between heartbeats.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The owner or server of a client.
#[derive(Clone, Debug)]
pub enum ClientTarget {
    /// The owner of a data directory on this machine.
    Owner(OwnerTarget),
    /// A remote server.
    Server(Url),
}

/// Credential that a client sends to a server, and certificates it trusts.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The credential, sent with every call.
    pub token: Option<String>,
    /// Trusted certificates in PEM, in addition to those of the machine.
    pub ca: Option<Vec<u8>>,
}

impl Credentials {
    fn apply_to(self, mut builder: reqwest::ClientBuilder) -> Result<ClientBuilder, ClientError> {
        if let Some(pem) = &self.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .map_err(|error| ClientError::Setup(format!("ca: {error}")))?;
            builder = builder.tls_certs_merge(certificates);
        }
        let Some(token) = self.token else { return Ok(builder) };
        // The error omits the token: it may be printed.
        let wrong = |_| ClientError::Setup("the token is no credential".to_owned());
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
        value.set_sensitive(true);
        Ok(builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)])))
    }
}

/// A client of one owner or server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    http: reqwest::Client,
    base: Url,
    target: ClientTarget,
    /// Prefix of this client's minted keys, which differs from every other client's.
    key_prefix: String,
    keys_minted: AtomicU64,
    /// True if the current owner was checked to fit; cleared by every failure.
    owner_fits: AtomicBool,
    /// Held while a call looks for an owner or starts one.
    starting: tokio::sync::Mutex<()>,
}

impl Client {
    /// Creates a client without connecting. `key_prefix` must be random: minted idempotency keys
    /// start with it.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if TLS cannot be set up on this machine.
    pub fn new(target: ClientTarget, key_prefix: impl Into<String>) -> Result<Self, ClientError> {
        Self::with_credentials(target, key_prefix, Credentials::default())
    }

    /// Creates a client that sends a credential with every call; for a server only.
    ///
    /// # Errors
    /// [`ClientError::Setup`], also for an invalid token or certificate.
    pub fn with_credentials(
        target: ClientTarget,
        key_prefix: impl Into<String>,
        shown: Credentials,
    ) -> Result<Self, ClientError> {
        // An error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = shown
            .apply_to(reqwest::Client::builder())?
            .no_proxy()
            .user_agent(concat!("sessionlog/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .pool_idle_timeout(IDLE_CONNECTION)
            .redirect(reqwest::redirect::Policy::none());
        let (builder, base) = match &target {
            ClientTarget::Owner(owner) => {
                let base = Url::parse("http://localhost/").expect("a constant that parses");
                (builder.unix_socket(owner.socket.as_path()), base)
            }
            ClientTarget::Server(url) => (builder, url.clone()),
        };
        // Plain HTTP needs no certificates: reading the machine's, hundreds of files, would take
        // most of the time of a short-lived front end.
        let builder = if base.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let http = builder.build().map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Self {
            inner: Arc::new(ClientInner {
                http,
                base,
                target,
                key_prefix: key_prefix.into(),
                keys_minted: AtomicU64::new(0),
                owner_fits: AtomicBool::new(false),
                starting: tokio::sync::Mutex::new(()),
            }),
        })
    }

    /// Returns a new idempotency key, for a caller that keeps it over several calls.
    #[must_use]
    pub fn mint_key(&self) -> String {
        let number = self.inner.keys_minted.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.inner.key_prefix)
    }

    /// Returns the data directory or the server's URL, for messages.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.inner.target {
            ClientTarget::Owner(owner) => owner.data_dir.display().to_string(),
            ClientTarget::Server(url) => url.to_string(),
        }
    }
}

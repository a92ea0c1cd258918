//! Connections of MCP over HTTP: limits their number, in all and for one tenant, and the size of
//! each client's description of itself. It must not refuse a connection: it closes the one idle
//! longest, whose client opens another.

use std::{collections::HashMap, io, sync::Arc};

use futures_util::{Stream, StreamExt as _};
use rmcp::{
    model::{
        ClientCapabilities, ClientJsonRpcMessage, ClientRequest, Implementation,
        InitializeRequestParams, ServerJsonRpcMessage,
    },
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{ServerSseMessage, local::LocalSessionManager},
    },
};
use serde::Serialize;

use crate::{
    env::sync::Mutex,
    event::{TenantId, limits},
};

type Local = LocalSessionManager;
type Failure = <Local as SessionManager>::Error;

/// The connections of one scope.
pub(super) struct Connections {
    open: Arc<Local>,
    tenant: Option<TenantId>,
    all: Arc<ConnectionTable<Arc<Local>>>,
}

/// Every connection of the server.
pub(super) struct ConnectionTable<L> {
    known: Mutex<KnownConnections<L>>,
    /// Maximum number of connections in all, and of one tenant.
    max: (usize, usize),
}

struct KnownConnections<L> {
    by_name: HashMap<SessionId, ConnectionEntry<L>>,
    uses: u64,
}

struct ConnectionEntry<L> {
    tenant: Option<TenantId>,
    /// Use counter of the table at its last use.
    used: u64,
    /// Number of open streams, including running requests.
    streams: usize,
    manager: L,
}

impl<L> ConnectionTable<L> {
    pub(super) fn new() -> Self {
        Self::with_limits(limits::MCP_CONNECTIONS_MAX, limits::MCP_CONNECTIONS_TENANT_MAX)
    }

    fn with_limits(all: usize, of_tenant: usize) -> Self {
        let known = KnownConnections { by_name: HashMap::new(), uses: 0 };
        Self { known: Mutex::from(known), max: (all, of_tenant) }
    }

    /// Adds a new connection. Returns the one that the caller must close: of the same tenant if
    /// that is at its limit, else of the tenant with the most.
    fn add(&self, name: SessionId, tenant: Option<TenantId>, manager: L) -> Option<(SessionId, L)> {
        let mut known = self.known.lock();
        known.uses += 1;
        let used = known.uses;
        let mut counts: HashMap<&Option<TenantId>, usize> = HashMap::new();
        known.by_name.values().for_each(|one| *counts.entry(&one.tenant).or_default() += 1);
        let of = if counts.get(&tenant).is_some_and(|count| *count >= self.max.1) {
            Some(tenant.clone())
        } else if known.by_name.len() >= self.max.0 {
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(most, _)| most.clone())
        } else {
            None
        };
        let idle = |one: &ConnectionEntry<L>| (one.streams > 0, one.used);
        let candidates = known.by_name.iter().filter(|(_, one)| of.as_ref() == Some(&one.tenant));
        let oldest = candidates.min_by_key(|(_, one)| idle(one)).map(|(name, _)| name.clone());
        let closed = oldest.and_then(|name| known.by_name.remove_entry(&name));
        known.by_name.insert(name, ConnectionEntry { tenant, used, streams: 0, manager });
        closed.map(|(name, one)| (name, one.manager))
    }

    /// Records a use of a connection, and the number of streams opened or ended by it.
    fn record_use(&self, name: &SessionId, streams: isize) {
        let mut known = self.known.lock();
        known.uses += 1;
        let used = known.uses;
        if let Some(one) = known.by_name.get_mut(name) {
            one.used = used;
            one.streams = one.streams.saturating_add_signed(streams);
        }
    }

    fn remove(&self, name: &SessionId) {
        self.known.lock().by_name.remove(name);
    }
}

/// Guard of an open stream of a connection: until dropped, the connection is not idle.
struct StreamGuard {
    all: Arc<ConnectionTable<Arc<Local>>>,
    name: SessionId,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.all.record_use(&self.name, -1);
    }
}

impl Connections {
    pub(super) fn new(
        open: Local,
        tenant: Option<TenantId>,
        all: Arc<ConnectionTable<Arc<Local>>>,
    ) -> Self {
        Self { open: Arc::new(open), tenant, all }
    }

    fn open_stream(&self, name: &SessionId) -> StreamGuard {
        self.all.record_use(name, 1);
        StreamGuard { all: Arc::clone(&self.all), name: name.clone() }
    }
}

/// Attaches the guard to a stream, so that it counts as open until its end.
fn counted_stream<S>(
    stream: S,
    busy: StreamGuard,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static
where
    S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
{
    stream.inspect(move |_| {
        let _ = &busy;
    })
}

impl SessionManager for Connections {
    type Error = Failure;
    type Transport = <Local as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Failure> {
        let (name, transport) = self.open.create_session().await?;
        let manager = Arc::clone(&self.open);
        if let Some((oldest, manager)) = self.all.add(name.clone(), self.tenant.clone(), manager) {
            tracing::info!("a connection of MCP was closed: it was idle the longest of too many");
            manager.close_session(&oldest).await?;
        }
        Ok((name, transport))
    }

    async fn initialize_session(
        &self,
        name: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Failure> {
        if let ClientJsonRpcMessage::Request(request) = &mut message
            && let ClientRequest::InitializeRequest(initialize) = &mut request.request
        {
            shorten_client_info(&mut initialize.params);
        }
        let _busy = self.open_stream(name);
        self.open.initialize_session(name, message).await
    }

    async fn has_session(&self, name: &SessionId) -> Result<bool, Failure> {
        self.open.has_session(name).await
    }

    async fn close_session(&self, name: &SessionId) -> Result<(), Failure> {
        self.all.remove(name);
        self.open.close_session(name).await
    }

    async fn create_stream(
        &self,
        name: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let busy = self.open_stream(name);
        Ok(counted_stream(self.open.create_stream(name, message).await?, busy))
    }

    async fn accept_message(
        &self,
        name: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Failure> {
        self.all.record_use(name, 0);
        self.open.accept_message(name, message).await
    }

    async fn create_standalone_stream(
        &self,
        name: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let busy = self.open_stream(name);
        Ok(counted_stream(self.open.create_standalone_stream(name).await?, busy))
    }

    async fn resume(
        &self,
        name: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let busy = self.open_stream(name);
        Ok(counted_stream(self.open.resume(name, last).await?, busy))
    }
}

/// Truncates a client's description of itself: it stays in memory as long as the connection, and
/// no answer depends on it.
fn shorten_client_info(client: &mut InitializeRequestParams) {
    let info = &client.client_info;
    if is_long(info) {
        let short = |text: &str| {
            let end = text.floor_char_boundary(limits::MCP_CLIENT_BYTES_MAX / 4);
            text.get(..end).unwrap_or_default().to_owned()
        };
        client.client_info = Implementation::new(short(&info.name), short(&info.version));
    }
    if is_long(&client.capabilities) {
        client.capabilities = ClientCapabilities::default();
    }
    client.meta = client.meta.take().filter(|meta| !is_long(meta));
}

fn is_long(part: &impl Serialize) -> bool {
    serde_json::to_writer(SizeLimit(limits::MCP_CLIENT_BYTES_MAX), part).is_err()
}

/// Writer that discards its input and fails beyond a number of bytes.
struct SizeLimit(usize);

impl io::Write for SizeLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(bytes.len());
        self.0 = left.ok_or_else(|| io::Error::other("longer than that"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn at_the_limit_the_longest_idle_connection_of_the_largest_tenant_closes() {
        let tenant = |name: &str| Some(TenantId::new(name).expect("a name"));
        let table = ConnectionTable::with_limits(5, 3);
        let enter = |tenant: Option<TenantId>, name: &str| {
            table.add(name.into(), tenant, ()).map(|(closed, ())| closed.to_string())
        };
        for name in ["a1", "a2", "a3"] {
            assert_eq!(enter(tenant("a"), name), None);
        }
        assert_eq!(enter(tenant("b"), "b1"), None);
        // Later uses, and an open stream.
        table.record_use(&"a1".into(), 0);
        table.record_use(&"a2".into(), 1);
        table.record_use(&"a3".into(), 0);
        assert_eq!(enter(tenant("a"), "a4").as_deref(), Some("a1"), "of its own tenant");
        assert_eq!(enter(tenant("c"), "c1"), None);
        assert_eq!(enter(None, "d1").as_deref(), Some("a3"), "of the tenant that has most");
        table.record_use(&"a2".into(), -1);
        table.remove(&"c1".into());
        assert_eq!(enter(tenant("b"), "b2"), None, "one left");
    }

    #[test]
    fn long_client_info_is_truncated_and_short_client_info_unchanged() {
        let long = "é".repeat(100_000);
        let message = json!({
            "protocolVersion": "2025-11-25",
            "clientInfo": {"name": long, "version": long, "title": long, "websiteUrl": long},
            "capabilities": {"experimental": {"x": {"y": long}}},
            "_meta": {"z": long},
        });
        let mut client: InitializeRequestParams =
            serde_json::from_value(message).expect("a client");
        shorten_client_info(&mut client);
        let kept = serde_json::to_vec(&client).expect("JSON");
        assert!(kept.len() <= limits::MCP_CLIENT_BYTES_MAX, "{}", kept.len());
        assert!(client.client_info.name.starts_with('é'), "{}", client.client_info.name);
        let message = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
            "clientInfo": {"name": "c", "version": "1"}});
        let mut client: InitializeRequestParams =
            serde_json::from_value(message).expect("a client");
        let before = client.clone();
        shorten_client_info(&mut client);
        assert_eq!(client, before, "one of usual size stays as it is");
    }
}

//! The client of a message, and the session it belongs to. A client that names no session gets a
//! separate temporary one, which expires. It must not let one client see another's session.

use std::{num::NonZeroUsize, time::Duration};

use lru::LruCache;
use serde_json::Value;

use super::ProxyState;
use crate::{
    event::{SessionId, Timestamp},
    proxy::recorder::{RecordSession, TEMPORARY_SECONDS},
};

/// Maximum number of clients that are remembered.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// A session unused for this long may be deleted before the next write.
const IDLE_MAX: Duration = Duration::from_secs(TEMPORARY_SECONDS - 60 * 60);
/// Members of `_meta` in which clients name their session.
const META_SESSION: [&str; 5] =
    ["sessionlog/session", "session_id", "sessionId", "session", "io.sessionlog/session"];

/// The source of a client's message.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::proxy) struct MessageSource<'a> {
    /// Name of the channel: requests of different channels may have the same id.
    pub(in crate::proxy) channel: &'a str,
    /// Sessionlog session that the transport names.
    pub(in crate::proxy) session: Option<&'a str>,
    /// Key of the client's temporary session; empty if the proxy has only one client.
    pub(in crate::proxy) client: &'a str,
    /// Digest of the headers and the query that the client sends: an answer may depend on them.
    pub(in crate::proxy) caller: Option<u64>,
}

/// State of one client, identified by its messages.
#[derive(Clone, Copy, Debug)]
struct ClientState {
    /// Number of the client, unique in this proxy; 0 if it has only one client.
    number: u64,
    /// Number of temporary sessions that the client has left.
    begun: u64,
    used: Timestamp,
}

/// Key of a client: its temporary session key and the digest of its headers.
type Key = (String, Option<u64>);

/// Client that made a call.
#[derive(Clone, Debug)]
pub(super) struct CallClient {
    key: Key,
    /// Part of event ids that differs between the clients of this proxy.
    pub(super) tag: String,
    /// True if the session is the one that the proxy was started for, or follows.
    pub(super) is_usual: bool,
}

impl CallClient {
    pub(super) fn caller(&self) -> Option<u64> {
        self.key.1
    }
}

/// The clients of a proxy.
pub(super) struct ClientTable {
    known: LruCache<Key, ClientState>,
    made: u64,
}

impl Default for ClientTable {
    fn default() -> Self {
        Self { known: LruCache::sparse(CLIENTS_MAX), made: 0 }
    }
}

impl ClientTable {
    /// Marks a client as the most recently used; starts a new temporary session if it was idle.
    fn record_use(&mut self, from: &MessageSource<'_>, now: Timestamp) -> ClientState {
        let key = (from.client.to_owned(), from.caller);
        let mut client = self.known.pop(&key).unwrap_or_else(|| {
            self.made += u64::from(!from.client.is_empty());
            ClientState { number: self.made, begun: 0, used: now }
        });
        let idle = now.0.saturating_sub(client.used.0).max(0).unsigned_abs();
        client.begun += u64::from(Duration::from_micros(idle) > IDLE_MAX);
        client.used = now;
        self.known.put(key, client);
        client
    }

    /// Ends the client's use of its temporary session.
    fn start_new_session(&mut self, key: &Key) {
        if let Some(client) = self.known.peek_mut(key) {
            client.begun += 1;
        }
    }
}

impl ProxyState {
    /// Determines the session of a call, and its client. `_meta`, an argument of the tool, the
    /// transport or the proxy's options name the session; else it is a temporary one.
    pub(super) fn resolve_session(
        &self,
        meta: Option<&Value>,
        argument: Option<&str>,
        from: &MessageSource<'_>,
    ) -> (RecordSession, CallClient) {
        let client = self.tables().clients.record_use(from, self.options.clock.now());
        let tag = if client.number == 0 { String::new() } else { format!("-{}", client.number) };
        let named = session_from_meta(meta)
            .or(argument)
            .or(from.session)
            .and_then(|text| self.parse_session_name(text));
        let usual = self.tables().usual.clone();
        let is_usual = named.is_none() && usual.is_some();
        let target = match named.or(usual) {
            Some(session) => RecordSession { session, temporary: false },
            None => {
                let text = format!("tmp-{}-{}{tag}", self.options.name, client.begun);
                let session = SessionId::new(&text).expect("random text is letters and digits");
                RecordSession { session, temporary: true }
            }
        };
        (target, CallClient { key: (from.client.to_owned(), from.caller), tag, is_usual })
    }

    /// Parses the session that a client names. A secret is ignored: it would appear in the id.
    pub(super) fn parse_session_name(&self, text: &str) -> Option<SessionId> {
        let is_none = self.options.secrets.mask(text).report().is_empty();
        to_session_id(text).filter(|_| is_none)
    }

    /// Ends the client's use of its temporary session.
    pub(super) fn start_new_session(&self, from_client: &CallClient) {
        self.tables().clients.start_new_session(&from_client.key);
    }
}

/// Returns the session that a call's `_meta` names.
pub(super) fn session_from_meta(meta: Option<&Value>) -> Option<&str> {
    META_SESSION.iter().find_map(|name| meta?.get(name)?.as_str())
}

/// Converts the client's name for its session to an id; invalid characters become dashes.
fn to_session_id(text: &str) -> Option<SessionId> {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let text: String = text.trim().chars().map(fits).take(128).collect();
    SessionId::new(text.trim_start_matches(['.', '_', '-'])).ok()
}

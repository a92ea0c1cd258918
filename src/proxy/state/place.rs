//! The client of a message, and the session it belongs to. A client that names no session gets a
//! separate temporary one, which expires. It must not let one client see another's session.

use std::{num::NonZeroUsize, time::Duration};

use lru::LruCache;
use serde_json::Value;

use super::ProxyState;
use crate::{
    event::{SessionId, Timestamp},
    proxy::recorder::{Home, TEMPORARY_SECONDS},
};

/// Most clients that are remembered.
const PLACES_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// A session unused for this long may be deleted before the next write.
const IDLE_MAX: Duration = Duration::from_secs(TEMPORARY_SECONDS - 60 * 60);
/// Members of `_meta` in which clients name their session.
const META_SESSION: [&str; 5] =
    ["sessionlog/session", "session_id", "sessionId", "session", "io.sessionlog/session"];

/// The source of a client's message.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::proxy) struct Whence<'a> {
    /// Distinguishes requests with the same id.
    pub(in crate::proxy) channel: &'a str,
    /// The sessionlog session that the transport names.
    pub(in crate::proxy) session: Option<&'a str>,
    /// Key of the client's temporary session; empty if the proxy has only one client.
    pub(in crate::proxy) place: &'a str,
    /// Digest of the headers and the query that the client sends: an answer may depend on them.
    pub(in crate::proxy) caller: Option<u64>,
}

/// State of one client, identified by its messages.
#[derive(Clone, Copy, Debug)]
struct PlaceState {
    /// Unique in this proxy; 0 if it has only one client.
    number: u64,
    /// Number of temporary sessions that the client has left.
    begun: u64,
    used: Timestamp,
}

/// Key of a client: the values that its messages share.
type Key = (String, Option<u64>);

/// The client that made a call.
#[derive(Clone, Debug)]
pub(super) struct CallSite {
    key: Key,
    /// Distinguishes its event ids from those of other clients of this proxy.
    pub(super) tag: String,
    /// True if its session is the one that the proxy was started for, or follows.
    pub(super) is_usual: bool,
}

impl CallSite {
    pub(super) fn caller(&self) -> Option<u64> {
        self.key.1
    }
}

/// The clients of a proxy.
pub(super) struct ClientPlaces {
    known: LruCache<Key, PlaceState>,
    made: u64,
}

impl Default for ClientPlaces {
    fn default() -> Self {
        Self { known: LruCache::sparse(PLACES_MAX), made: 0 }
    }
}

impl ClientPlaces {
    /// Marks a client as the most recently used. Its temporary session may have expired since.
    fn used(&mut self, from: &Whence<'_>, now: Timestamp) -> PlaceState {
        let key = (from.place.to_owned(), from.caller);
        let mut place = self.known.pop(&key).unwrap_or_else(|| {
            self.made += u64::from(!from.place.is_empty());
            PlaceState { number: self.made, begun: 0, used: now }
        });
        let idle = now.0.saturating_sub(place.used.0).max(0).unsigned_abs();
        place.begun += u64::from(Duration::from_micros(idle) > IDLE_MAX);
        place.used = now;
        self.known.put(key, place);
        place
    }

    /// Ends the client's use of its temporary session.
    fn begin_afresh(&mut self, key: &Key) {
        if let Some(place) = self.known.peek_mut(key) {
            place.begun += 1;
        }
    }
}

impl ProxyState {
    /// Returns the session of a call, and its client. `_meta`, an argument of the tool, the
    /// transport or the proxy's options name the session; else it is a temporary one.
    pub(super) fn home(
        &self,
        meta: Option<&Value>,
        argument: Option<&str>,
        from: &Whence<'_>,
    ) -> (Home, CallSite) {
        let place = self.tables().places.used(from, self.options.clock.now());
        let tag = if place.number == 0 { String::new() } else { format!("-{}", place.number) };
        let named = of_meta(meta).or(argument).or(from.session).and_then(|text| self.named(text));
        let usual = self.tables().usual.clone();
        let is_usual = named.is_none() && usual.is_some();
        let home = match named.or(usual) {
            Some(session) => Home { session, temporary: false },
            None => {
                let text = format!("tmp-{}-{}{tag}", self.options.name, place.begun);
                let session = SessionId::new(&text).expect("random text is letters and digits");
                Home { session, temporary: true }
            }
        };
        (home, CallSite { key: (from.place.to_owned(), from.caller), tag, is_usual })
    }

    /// Returns the session that a client names. A secret is ignored: it would appear in the id.
    pub(super) fn named(&self, text: &str) -> Option<SessionId> {
        let is_none = self.options.secrets.masked(text).report().is_empty();
        named(text).filter(|_| is_none)
    }

    /// Ends the client's use of its temporary session.
    pub(super) fn begin_afresh(&self, site: &CallSite) {
        self.tables().places.begin_afresh(&site.key);
    }
}

/// Returns the session that a call's `_meta` names.
pub(super) fn of_meta(meta: Option<&Value>) -> Option<&str> {
    META_SESSION.iter().find_map(|name| meta?.get(name)?.as_str())
}

/// Converts the client's name for its session to an id; invalid characters become dashes.
fn named(text: &str) -> Option<SessionId> {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let text: String = text.trim().chars().map(fits).take(128).collect();
    SessionId::new(text.trim_start_matches(['.', '_', '-'])).ok()
}

//! The proxy's state for its connections: pending calls, the server's tools, clients. It inspects
//! messages and returns how to handle them. It must not touch a stream.

mod answers;
mod decide;
mod named;
mod place;
mod records;
mod tools;

use std::{collections::HashSet, mem, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;

pub(super) use self::{decide::Decision, place::Whence};
use self::{
    named::NamedFiles,
    place::{CallSite, ClientPlaces},
    tools::Tools,
};
use super::{
    Options,
    message::{self, CallParams, Insertion, ListParams, ListResult, Message},
    recorder::{Home, QueuedRecord, Recorder},
};
use crate::{
    client::Client,
    env::sync::{Mutex, MutexGuard},
    event::{SessionId, json},
    wire::{rpc::Outline, tool_cache::digest},
};

/// Most pending calls; bounds the memory of a client whose calls are never answered.
const PENDING_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Most forwarded answers that are remembered.
const ANSWERED_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Most remembered sessions whose outputs a client got, over all clients.
const GIVEN_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// Key of equal calls: the session, a digest of the call, and the caller.
type Same = (SessionId, u64, Option<u64>);

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct ProxyCall {
    key: String,
    id: String,
    input: Value,
    input_text: String,
    meta: Option<Value>,
    site: CallSite,
    /// True if it belongs to the session that the proxy's agent works in.
    follows: bool,
    age_max: Option<Duration>,
    open: Open,
}

impl ProxyCall {
    /// Moves the call to another session.
    fn move_to(&mut self, session: SessionId) {
        if let Some(same) = &mut self.open.same {
            same.0 = session.clone();
        }
        self.open.home = Home { session, temporary: false };
    }
}

/// The state of a call until it is answered.
#[derive(Clone, Debug)]
struct Open {
    /// Its id in the log.
    call_id: String,
    name: String,
    home: Home,
    began: Duration,
    /// Key of the calls that its answer may be reused for.
    same: Option<Same>,
    /// State of the files that its arguments name, from before it was forwarded.
    named: Option<NamedFiles>,
    /// True if it names a path that the user excludes.
    is_withheld: bool,
    /// Earlier outputs that are added to the answer.
    more: Option<String>,
}

/// A request that waits for an answer.
enum Pending {
    /// A page of a list, by its cursor.
    List(Option<String>),
    /// The same, requested by the proxy; the receiver gets the next page's cursor.
    Probe(Option<String>, oneshot::Sender<Option<String>>),
    Call(Box<Open>),
}

/// An answer that the proxy forwarded.
#[derive(Clone, Debug)]
struct AnsweredCall {
    record: QueuedRecord,
    call_id: String,
    named: Option<NamedFiles>,
}

struct Tables {
    pending: LruCache<String, Pending>,
    /// Calls without a decision yet. Each has a task that makes it.
    deciding: HashSet<String>,
    tools: Tools,
    server: Option<String>,
    places: ClientPlaces,
    calls: u64,
    /// The number of the last record that may have made earlier answers stale.
    changed: u64,
    answered: LruCache<Same, AnsweredCall>,
    /// Sessions whose earlier outputs were given to a client.
    given: LruCache<(String, SessionId), ()>,
    /// Time before which the store gets no calls, because it did not answer.
    silent_until: Duration,
    /// The session of messages that name none.
    usual: Option<SessionId>,
}

/// Decision on a client's message.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The call that must be decided; without one, the message is forwarded unchanged.
    pub(super) decide: Option<Box<ProxyCall>>,
    /// Keys of the answers that the message requests.
    pub(super) keys: Vec<String>,
}

/// Decision on a server's message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Back {
    /// Text to forward instead; `None` for the message unchanged.
    pub(super) changed: Option<String>,
    /// True if it answers a request of the proxy.
    pub(super) ours: bool,
    /// The records that the answer waits for, if `durable` is set.
    pub(super) records: Vec<QueuedRecord>,
}

/// The proxy's state for the connections of one server.
pub(super) struct ProxyState {
    options: Options,
    client: Client,
    pub(super) recorder: Recorder,
    tables: Mutex<Tables>,
}

impl ProxyState {
    pub(super) fn new(client: Client, options: Options) -> Self {
        let recorder = Recorder::new(client.clone(), &options);
        let tables = Mutex::from(Tables {
            pending: LruCache::sparse(PENDING_MAX),
            deciding: HashSet::new(),
            tools: Tools::default(),
            server: None,
            places: ClientPlaces::default(),
            calls: 0,
            changed: 0,
            answered: LruCache::sparse(ANSWERED_MAX),
            given: LruCache::sparse(GIVEN_MAX),
            silent_until: Duration::ZERO,
            usual: options.session.clone(),
        });
        Self { options, client, recorder, tables }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change leaves the tables consistent.
        self.tables.lock()
    }

    /// Inspects a message of a client.
    pub(super) fn client_says(&self, from: &Whence<'_>, text: &str) -> Noted {
        let messages = message::read(text);
        let alone = messages.len() == 1 && !text.trim_start().starts_with('[');
        let mut noted = Noted::default();
        for message in &messages {
            let Some(call) = self.register_message(from, message, &mut noted.keys) else {
                continue;
            };
            noted.keys.push(call.key.clone());
            if alone && self.is_ours_perhaps(&call) {
                self.tables().deciding.insert(call.key.clone());
                noted.decide = Some(Box::new(call));
            } else {
                self.forward(call);
            }
        }
        noted
    }

    /// Registers a message; returns a call, which needs an answer.
    fn register_message(
        &self,
        from: &Whence<'_>,
        message: &Message<'_>,
        keys: &mut Vec<String>,
    ) -> Option<ProxyCall> {
        let key = |id: &str| format!("{} {id}", from.channel);
        match (&*message.method()?, message.key()) {
            ("tools/list", Some(id)) => {
                let params = message.params.map(|params| serde_json::from_str(params.get()));
                let params: ListParams = params.transpose().ok()?.unwrap_or_default();
                keys.push(key(&id));
                self.add_pending(key(&id), Pending::List(params.cursor));
            }
            ("tools/call", Some(id)) => {
                let params: CallParams<'_> = serde_json::from_str(message.params?.get()).ok()?;
                return Some(self.call(key(&id), id, from, params));
            }
            ("notifications/cancelled", None) => {
                let params: Value =
                    serde_json::from_str(json::tree(message.params?.get())?).ok()?;
                let reason = params.get("reason").and_then(Value::as_str);
                self.cancel_call(&key(&params.get("requestId")?.to_string()), reason);
            }
            _ => {}
        }
        None
    }

    fn call(
        &self,
        key: String,
        id: String,
        from: &Whence<'_>,
        params: CallParams<'_>,
    ) -> ProxyCall {
        let input_text = params.arguments.map_or("{}", RawValue::get).to_owned();
        // Input too large to parse is forwarded as text, and never answered from the log.
        let input = json::tree(&input_text).map(serde_json::from_str);
        let input: Option<Value> = input.and_then(Result::ok);
        let argument = input.as_ref().and_then(|input| self.session_named(&params.name, input));
        let (home, site) = self.home(params.meta.as_ref(), argument.as_deref(), from);
        let follows = !self.options.process.is_empty() && site.is_usual;
        let is_withheld = self.options.gate.withholds(input.as_ref());
        let repeats = input.is_some() && !is_withheld && !params.is_more_than_a_call();
        let age_max = self.age_max(&params.name).filter(|_| repeats);
        let input = input.unwrap_or_default();
        // Files are examined before the lock is taken, and only if the result is needed.
        let rests_on_files = age_max.is_some() && !self.is_named_by_user(&params.name);
        let named = if rests_on_files { NamedFiles::from_input(&input) } else { None };
        let mut tables = self.tables();
        tables.calls += 1;
        let digest = digest(Some(self.server(&tables)), &params.name, &input);
        let same = (home.session.clone(), digest, site.caller());
        let open = Open {
            call_id: format!("{}{}-{}", self.options.name, site.tag, tables.calls),
            name: params.name,
            home,
            began: self.options.clock.monotonic(),
            same: age_max.map(|_| same),
            named,
            is_withheld,
            more: None,
        };
        ProxyCall { key, id, input, input_text, meta: params.meta, site, follows, age_max, open }
    }

    /// Returns the session that a call names by an argument that its tool has.
    fn session_named(&self, tool: &str, input: &Value) -> Option<String> {
        self.tables().tools.session(tool, input).map(str::to_owned)
    }

    /// Returns true if the user set how long the answers of a tool are valid.
    fn is_named_by_user(&self, tool: &str) -> bool {
        self.options.repeats.tools.contains_key(tool)
    }

    fn age_max(&self, name: &str) -> Option<Duration> {
        let repeats = &self.options.repeats;
        let tables = self.tables();
        let usual = repeats.age_max.filter(|_| tables.tools.is_closed(name));
        let age_max = repeats.tools.get(name).copied().unwrap_or(usual);
        age_max.filter(|_| tables.tools.is_read_only(name))
    }

    fn server<'a>(&'a self, tables: &'a Tables) -> &'a str {
        tables.server.as_deref().unwrap_or(&self.options.server)
    }

    fn add_pending(&self, key: String, pending: Pending) {
        let displaced = self.tables().pending.push(key, pending);
        self.record_unanswered(displaced.map(|(_, displaced)| displaced));
    }

    /// Inspects a message of the server.
    pub(super) fn server_says(&self, channel: &str, text: &str) -> Back {
        let mut back = Back::default();
        let mut insertions = Vec::new();
        for message in message::read(text) {
            if message.method().as_deref() == Some("notifications/tools/list_changed") {
                self.tables().tools.forget();
            }
            let Some(id) = message.key().filter(|_| message.method().is_none()) else { continue };
            let pending = self.tables().pending.pop(&format!("{channel} {id}"));
            match pending {
                Some(Pending::List(cursor)) => {
                    insertions.extend(self.extend_list(text, &message, cursor.as_deref()));
                }
                Some(Pending::Probe(cursor, heard)) => {
                    let _ = heard.send(self.store_page(&message, cursor.as_deref()).flatten());
                    back.ours = true;
                }
                Some(Pending::Call(open)) => {
                    let (record, more) = self.answered(text, &open, &message);
                    back.records.push(record);
                    insertions.extend(more);
                }
                None => self.learn_name(&message),
            }
        }
        if !insertions.is_empty() {
            back.changed = Some(message::apply_insertions(text, insertions));
        }
        back
    }

    /// Handles a forwarded message of the server that is too long to be inspected; returns its
    /// record, if it answers a call.
    pub(super) fn server_passed(&self, channel: &str, outline: &Outline) -> Option<QueuedRecord> {
        let id = outline.id.as_ref().filter(|_| outline.is_whole && !outline.has_method)?;
        let pending = self.tables().pending.pop(&format!("{channel} {id}"));
        match pending {
            Some(Pending::Call(open)) => Some(self.record_passed(&open, outline)),
            // Tools that are not known are forwarded like any other.
            _ => None,
        }
    }

    /// Stores the server's name, from its answer to `initialize` or `server/discover`.
    fn learn_name(&self, message: &Message<'_>) {
        #[derive(serde::Deserialize)]
        struct InitializeResult {
            #[serde(rename = "serverInfo")]
            info: Info,
        }
        #[derive(serde::Deserialize)]
        struct Info {
            name: String,
        }
        let named = message
            .result
            .and_then(|result| serde_json::from_str::<InitializeResult>(result.get()).ok());
        if let Some(named) = named {
            self.tables().server.get_or_insert(named.info.name);
        }
    }

    /// Stores the tools of a page; returns the cursor of the next one.
    fn store_page(&self, message: &Message<'_>, cursor: Option<&str>) -> Option<Option<String>> {
        let page: ListResult<'_> = serde_json::from_str(message.result?.get()).ok()?;
        self.tables().tools.read_page(cursor, &page)
    }

    /// Stores the tools of a page, and adds the proxy's own after the last one.
    fn extend_list(
        &self,
        text: &str,
        message: &Message<'_>,
        cursor: Option<&str>,
    ) -> Option<Insertion> {
        if self.store_page(message, cursor)?.is_some() {
            return None;
        }
        let page: ListResult<'_> = serde_json::from_str(message.result?.get()).ok()?;
        message::at_end_of(text, page.tools, &self.tables().tools.own_elements())
    }

    fn cancel_call(&self, key: &str, reason: Option<&str>) {
        let mut tables = self.tables();
        // The search for an answer ends too.
        tables.deciding.remove(key);
        match tables.pending.pop(key) {
            Some(Pending::Call(open)) => {
                drop(tables);
                self.record_end(&open, reason.unwrap_or("the client cancelled it"), true);
            }
            Some(other) => drop(tables.pending.put(key.to_owned(), other)),
            None => {}
        }
    }

    /// Drops the requests with these keys: their client no longer waits for the answers.
    pub(super) fn given_up(&self, keys: &[String]) {
        let pending: Vec<Pending> = {
            let mut tables = self.tables();
            tables.deciding.retain(|key| !keys.contains(key));
            keys.iter().filter_map(|key| tables.pending.pop(key)).collect()
        };
        self.record_unanswered(pending);
    }

    /// Ends the proxy: calls without an answer are recorded as such.
    pub(super) fn end(&self) {
        let none = LruCache::sparse(PENDING_MAX);
        let pending = mem::replace(&mut self.tables().pending, none);
        self.record_unanswered(pending.into_iter().map(|(_, pending)| pending));
    }

    /// Ends one channel: its calls without an answer are recorded as such.
    pub(super) fn end_channel(&self, channel: &str) {
        let prefix = format!("{channel} ");
        let keys: Vec<String> = {
            let tables = self.tables();
            let keys = tables.pending.iter().rev().map(|(key, _)| key);
            keys.filter(|key| key.starts_with(&prefix)).cloned().collect()
        };
        self.given_up(&keys);
    }

    fn record_unanswered(&self, pending: impl IntoIterator<Item = Pending>) {
        for pending in pending {
            if let Pending::Call(open) = pending {
                self.record_end(&open, "the connection ended first", false);
            }
        }
    }
}

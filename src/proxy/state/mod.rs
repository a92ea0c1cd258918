//! The proxy's state for its connections: pending calls, the server's tools, clients. It inspects
//! messages and returns how to handle them. It must not touch a stream.

mod answers;
mod clients;
mod decide;
mod file_stamps;
mod records;
mod tools;

use std::{collections::HashSet, mem, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;

pub(super) use self::{clients::MessageSource, decide::AnswerSource};
use self::{
    clients::{CallClient, ClientTable},
    file_stamps::FileStamps,
    tools::ServerTools,
};
use super::{
    ProxyOptions,
    message::{self, CallParams, Insertion, ListParams, ListResult, RpcMessage},
    recorder::{QueuedRecord, RecordSession, Recorder},
};
use crate::{
    client::Client,
    env::sync::{Mutex, MutexGuard},
    event::{SessionId, json},
    wire::{rpc::MessageOutline, tool_cache::digest},
};

/// Maximum number of pending calls; bounds the memory of a client whose calls are never answered.
const PENDING_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Maximum number of forwarded answers that are remembered.
const ANSWERED_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// Maximum number of remembered sessions whose outputs a client got, over all clients.
const GIVEN_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// Key of equal calls: the session, a digest of the call, and the caller.
type CallKey = (SessionId, u64, Option<u64>);

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct ProxyCall {
    key: String,
    id: String,
    input: Value,
    input_text: String,
    meta: Option<Value>,
    from_client: CallClient,
    /// True if the call belongs to the session that the proxy's agent works in.
    follows: bool,
    age_max: Option<Duration>,
    open: UnansweredCall,
}

impl ProxyCall {
    /// Moves the call to another session.
    fn move_to(&mut self, session: SessionId) {
        if let Some(same) = &mut self.open.same {
            same.0 = session.clone();
        }
        self.open.target = RecordSession { session, temporary: false };
    }
}

/// The state of a call until it is answered.
#[derive(Clone, Debug)]
struct UnansweredCall {
    /// Id of the call in the log.
    call_id: String,
    name: String,
    target: RecordSession,
    began: Duration,
    /// Key of the calls that its answer may be reused for.
    same: Option<CallKey>,
    /// State of the files that its arguments name, from before it was forwarded.
    named: Option<FileStamps>,
    /// True if the call names a path that the user excludes.
    is_withheld: bool,
    /// Earlier outputs that are added to the answer.
    more: Option<String>,
}

/// Forwarded request without an answer yet.
enum PendingRequest {
    /// A page of a list, by its cursor.
    List(Option<String>),
    /// A page of a list that the proxy requested; the receiver gets the cursor of the next page.
    Probe(Option<String>, oneshot::Sender<Option<String>>),
    Call(Box<UnansweredCall>),
}

/// An answer that the proxy forwarded.
#[derive(Clone, Debug)]
struct AnsweredCall {
    record: QueuedRecord,
    call_id: String,
    named: Option<FileStamps>,
}

struct ProxyTables {
    pending: LruCache<String, PendingRequest>,
    /// Keys of calls without a decision yet; a task decides each.
    deciding: HashSet<String>,
    tools: ServerTools,
    server: Option<String>,
    clients: ClientTable,
    calls: u64,
    /// Number of the last record that may have made earlier answers stale.
    changed: u64,
    answered: LruCache<CallKey, AnsweredCall>,
    /// Sessions whose earlier outputs a client has received.
    given: LruCache<(String, SessionId), ()>,
    /// Monotonic time before which the store gets no requests, because it did not answer.
    silent_until: Duration,
    /// Session of messages that do not name one.
    usual: Option<SessionId>,
}

/// Decision on a client's message.
#[derive(Debug, Default)]
pub(super) struct ClientDecision {
    /// The call that must be decided; without one, the message is forwarded unchanged.
    pub(super) decide: Option<Box<ProxyCall>>,
    /// Keys of the answers that the message requests.
    pub(super) keys: Vec<String>,
}

/// Decision on a server's message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerDecision {
    /// Text to forward instead; `None` for the message unchanged.
    pub(super) changed: Option<String>,
    /// True if the message answers a request of the proxy.
    pub(super) answers_proxy: bool,
    /// The records that the answer waits for, if `durable` is set.
    pub(super) records: Vec<QueuedRecord>,
}

/// The proxy's state for the connections of one server.
pub(super) struct ProxyState {
    options: ProxyOptions,
    client: Client,
    pub(super) recorder: Recorder,
    tables: Mutex<ProxyTables>,
}

impl ProxyState {
    pub(super) fn new(client: Client, options: ProxyOptions) -> Self {
        let recorder = Recorder::new(client.clone(), &options);
        let tables = Mutex::from(ProxyTables {
            pending: LruCache::sparse(PENDING_MAX),
            deciding: HashSet::new(),
            tools: ServerTools::default(),
            server: None,
            clients: ClientTable::default(),
            calls: 0,
            changed: 0,
            answered: LruCache::sparse(ANSWERED_MAX),
            given: LruCache::sparse(GIVEN_MAX),
            silent_until: Duration::ZERO,
            usual: options.session.clone(),
        });
        Self { options, client, recorder, tables }
    }

    fn tables(&self) -> MutexGuard<'_, ProxyTables> {
        // Every change leaves the tables consistent.
        self.tables.lock()
    }

    /// Inspects a message of a client; returns how to handle it.
    pub(super) fn inspect_client_message(
        &self,
        from: &MessageSource<'_>,
        text: &str,
    ) -> ClientDecision {
        let messages = message::parse_messages(text);
        let alone = messages.len() == 1 && !text.trim_start().starts_with('[');
        let mut decision = ClientDecision::default();
        for message in &messages {
            let Some(call) = self.register_message(from, message, &mut decision.keys) else {
                continue;
            };
            decision.keys.push(call.key.clone());
            if alone && self.may_be_answered_here(&call) {
                self.tables().deciding.insert(call.key.clone());
                decision.decide = Some(Box::new(call));
            } else {
                self.record_forwarded(call);
            }
        }
        decision
    }

    /// Registers a message; returns a call, which needs an answer.
    fn register_message(
        &self,
        from: &MessageSource<'_>,
        message: &RpcMessage<'_>,
        keys: &mut Vec<String>,
    ) -> Option<ProxyCall> {
        let key = |id: &str| format!("{} {id}", from.channel);
        match (&*message.method()?, message.key()) {
            ("tools/list", Some(id)) => {
                let params = message.params.map(|params| serde_json::from_str(params.get()));
                let params: ListParams = params.transpose().ok()?.unwrap_or_default();
                keys.push(key(&id));
                self.add_pending(key(&id), PendingRequest::List(params.cursor));
            }
            ("tools/call", Some(id)) => {
                let params: CallParams<'_> = serde_json::from_str(message.params?.get()).ok()?;
                return Some(self.build_call(key(&id), id, from, params));
            }
            ("notifications/cancelled", None) => {
                let params: Value =
                    serde_json::from_str(json::check(message.params?.get())?).ok()?;
                let reason = params.get("reason").and_then(Value::as_str);
                self.cancel_call(&key(&params.get("requestId")?.to_string()), reason);
            }
            _ => {}
        }
        None
    }

    fn build_call(
        &self,
        key: String,
        id: String,
        from: &MessageSource<'_>,
        params: CallParams<'_>,
    ) -> ProxyCall {
        let input_text = params.arguments.map_or("{}", RawValue::get).to_owned();
        // Input too large to parse is forwarded as text, and never answered from the log.
        let input = json::check(&input_text).map(serde_json::from_str);
        let input: Option<Value> = input.and_then(Result::ok);
        let argument =
            input.as_ref().and_then(|input| self.session_from_arguments(&params.name, input));
        let (target, from_client) =
            self.resolve_session(params.meta.as_ref(), argument.as_deref(), from);
        let follows = !self.options.process.is_empty() && from_client.is_usual;
        let is_withheld = self.options.gate.is_excluded(input.as_ref());
        let repeats = input.is_some() && !is_withheld && !params.starts_or_continues_task();
        let age_max = self.age_max(&params.name).filter(|_| repeats);
        let input = input.unwrap_or_default();
        // Files are examined before the lock is taken, and only if the result is needed.
        let needs_files = age_max.is_some() && !self.has_user_age_limit(&params.name);
        let named = if needs_files { FileStamps::from_input(&input) } else { None };
        let mut tables = self.tables();
        tables.calls += 1;
        let digest = digest(Some(self.server_name(&tables)), &params.name, &input);
        let same = (target.session.clone(), digest, from_client.caller());
        let open = UnansweredCall {
            call_id: format!("{}{}-{}", self.options.name, from_client.tag, tables.calls),
            name: params.name,
            target,
            began: self.options.clock.monotonic(),
            same: age_max.map(|_| same),
            named,
            is_withheld,
            more: None,
        };
        ProxyCall {
            key,
            id,
            input,
            input_text,
            meta: params.meta,
            from_client,
            follows,
            age_max,
            open,
        }
    }

    /// Returns the session that an argument of a call names, if its tool has such an argument.
    fn session_from_arguments(&self, tool: &str, input: &Value) -> Option<String> {
        self.tables().tools.session_from_input(tool, input).map(str::to_owned)
    }

    /// Returns true if the user set a maximum age for the answers of a tool.
    fn has_user_age_limit(&self, tool: &str) -> bool {
        self.options.repeats.tools.contains_key(tool)
    }

    fn age_max(&self, name: &str) -> Option<Duration> {
        let repeats = &self.options.repeats;
        let tables = self.tables();
        let usual = repeats.age_max.filter(|_| tables.tools.is_closed(name));
        let age_max = repeats.tools.get(name).copied().unwrap_or(usual);
        age_max.filter(|_| tables.tools.is_read_only(name))
    }

    fn server_name<'a>(&'a self, tables: &'a ProxyTables) -> &'a str {
        tables.server.as_deref().unwrap_or(&self.options.server)
    }

    fn add_pending(&self, key: String, pending: PendingRequest) {
        let displaced = self.tables().pending.push(key, pending);
        self.record_unanswered(displaced.map(|(_, displaced)| displaced));
    }

    /// Inspects a message of the server; returns how to handle it.
    pub(super) fn inspect_server_message(&self, channel: &str, text: &str) -> ServerDecision {
        let mut back = ServerDecision::default();
        let mut insertions = Vec::new();
        for message in message::parse_messages(text) {
            if message.method().as_deref() == Some("notifications/tools/list_changed") {
                self.tables().tools.clear();
            }
            let Some(id) = message.key().filter(|_| message.method().is_none()) else { continue };
            let pending = self.tables().pending.pop(&format!("{channel} {id}"));
            match pending {
                Some(PendingRequest::List(cursor)) => {
                    insertions.extend(self.extend_list(text, &message, cursor.as_deref()));
                }
                Some(PendingRequest::Probe(cursor, heard)) => {
                    let _ = heard.send(self.store_page(&message, cursor.as_deref()).flatten());
                    back.answers_proxy = true;
                }
                Some(PendingRequest::Call(open)) => {
                    let (record, more) = self.record_answer(text, &open, &message);
                    back.records.push(record);
                    insertions.extend(more);
                }
                None => self.store_server_name(&message),
            }
        }
        if !insertions.is_empty() {
            back.changed = Some(message::apply_insertions(text, insertions));
        }
        back
    }

    /// Records a forwarded message of the server that is too long to be inspected; returns the
    /// record if it answers a call.
    pub(super) fn record_long_message(
        &self,
        channel: &str,
        outline: &MessageOutline,
    ) -> Option<QueuedRecord> {
        let id = outline.id.as_ref().filter(|_| outline.is_whole && !outline.has_method)?;
        let pending = self.tables().pending.pop(&format!("{channel} {id}"));
        match pending {
            Some(PendingRequest::Call(open)) => Some(self.record_long_answer(&open, outline)),
            // A long list of tools is forwarded without being read.
            _ => None,
        }
    }

    /// Stores the server's name, from its answer to `initialize` or `server/discover`.
    fn store_server_name(&self, message: &RpcMessage<'_>) {
        #[derive(serde::Deserialize)]
        struct InitializeResult {
            #[serde(rename = "serverInfo")]
            info: ServerInfo,
        }
        #[derive(serde::Deserialize)]
        struct ServerInfo {
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
    fn store_page(&self, message: &RpcMessage<'_>, cursor: Option<&str>) -> Option<Option<String>> {
        let page: ListResult<'_> = serde_json::from_str(message.result?.get()).ok()?;
        self.tables().tools.read_page(cursor, &page)
    }

    /// Stores the tools of a page, and adds the proxy's own after the last one.
    fn extend_list(
        &self,
        text: &str,
        message: &RpcMessage<'_>,
        cursor: Option<&str>,
    ) -> Option<Insertion> {
        if self.store_page(message, cursor)?.is_some() {
            return None;
        }
        let page: ListResult<'_> = serde_json::from_str(message.result?.get()).ok()?;
        message::append_elements(text, page.tools, &self.tables().tools.own_elements())
    }

    fn cancel_call(&self, key: &str, reason: Option<&str>) {
        let mut tables = self.tables();
        // Also stops the search for an earlier answer.
        tables.deciding.remove(key);
        match tables.pending.pop(key) {
            Some(PendingRequest::Call(open)) => {
                drop(tables);
                self.record_without_answer(
                    &open,
                    reason.unwrap_or("the client cancelled it"),
                    true,
                );
            }
            Some(other) => drop(tables.pending.put(key.to_owned(), other)),
            None => {}
        }
    }

    /// Drops the requests with these keys: their client no longer waits for the answers.
    pub(super) fn drop_pending(&self, keys: &[String]) {
        let pending: Vec<PendingRequest> = {
            let mut tables = self.tables();
            tables.deciding.retain(|key| !keys.contains(key));
            keys.iter().filter_map(|key| tables.pending.pop(key)).collect()
        };
        self.record_unanswered(pending);
    }

    /// Records all calls without an answer as unanswered, when the proxy ends.
    pub(super) fn finish(&self) {
        let none = LruCache::sparse(PENDING_MAX);
        let pending = mem::replace(&mut self.tables().pending, none);
        self.record_unanswered(pending.into_iter().map(|(_, pending)| pending));
    }

    /// Closes one channel: records its calls without an answer as unanswered.
    pub(super) fn close_channel(&self, channel: &str) {
        let prefix = format!("{channel} ");
        let keys: Vec<String> = {
            let tables = self.tables();
            let keys = tables.pending.iter().rev().map(|(key, _)| key);
            keys.filter(|key| key.starts_with(&prefix)).cloned().collect()
        };
        self.drop_pending(&keys);
    }

    fn record_unanswered(&self, pending: impl IntoIterator<Item = PendingRequest>) {
        for pending in pending {
            if let PendingRequest::Call(open) = pending {
                self.record_without_answer(&open, "the connection ended first", false);
            }
        }
    }
}

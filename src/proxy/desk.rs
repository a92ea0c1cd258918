//! What a proxy knows of one connection: which calls are under way, which tools the server has,
//! what goes where. It looks at messages and says what becomes of them. It must not touch a
//! stream.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json, value::RawValue};

use super::{
    Context, Options,
    message::{self, CallParams, CallResult, Insertion, ListResult, ListedTool, Message},
    own::{self, Own},
    recorder::{Entry, Home, Recorder},
};
use crate::{
    client::{Client, ClientError, Request, session_path},
    env::{Clock as _, clock::SystemClock},
    event::SessionId,
    wire::{
        tool_cache::{LookupAnswer, OutputsAnswer, digest},
        tools::via,
    },
};

/// How long a call may wait for what the log knows before it goes to the server.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(250);
/// How long a tool of ours may take.
const OWN_PATIENCE: Duration = Duration::from_secs(30);
/// Calls under way that are remembered; a client that never hears of one does not fill the memory.
const PENDING_MAX: usize = 10_000;
/// Answers of this proxy that it remembers having given.
const ANSWERED_MAX: usize = 10_000;
/// Names under which clients say which session they are in.
const META_SESSION: [&str; 5] =
    ["sessionlog/session", "session_id", "sessionId", "session", "io.sessionlog/session"];
/// In a call's `_meta`: the client wants earlier outputs beside the answer.
const META_CONTEXT: &str = "sessionlog/context";
/// In an answer's `_meta`: where it comes from.
const META_CACHE: &str = "sessionlog/cache";
/// In the `_meta` of requests of the newer generation.
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// What a tool says of itself.
type Traits = Option<bool>;

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct Call {
    key: String,
    id: String,
    name: String,
    input: Value,
    input_text: String,
    meta: Option<Value>,
    home: Home,
    number: u64,
    began: Duration,
    age_max: Option<Duration>,
    /// Earlier outputs that go with the answer.
    more: Option<String>,
}

enum Pending {
    /// `first`: it begins a new list.
    List {
        first: bool,
    },
    /// A list that we asked for.
    Probe,
    /// It is not known yet who answers.
    Deciding,
    Call(Box<Call>),
}

#[derive(Default)]
struct State {
    pending: HashMap<String, Pending>,
    tools: BTreeMap<String, Traits>,
    listed: bool,
    server: Option<String>,
    /// Temporary sessions begun so far.
    begun: u64,
    calls: u64,
    /// The record of the last thing that may have made earlier answers stale.
    changed: u64,
    /// Answers given, with the number of their record.
    answered: HashMap<(SessionId, u64), u64>,
    /// Sessions whose earlier outputs this client was given.
    given: HashSet<SessionId>,
}

/// Where a client's message comes from.
struct From<'a> {
    channel: &'a str,
    header: Option<&'a str>,
    place: &'a str,
}

/// What becomes of a client's message.
pub(super) enum Toward {
    /// It goes on as it is.
    Server,
    /// It must be seen who answers.
    Decide(Box<Call>),
}

/// Who answers a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Server,
    /// We do, with this line.
    Answer(String),
    /// Nobody: it was cancelled.
    Nobody,
    /// Nobody knows yet: the server must be asked for its tools first, with this line.
    Probe(String),
}

/// What becomes of a server's message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Back {
    /// What goes on instead; `None`: what came.
    pub(super) changed: Option<String>,
    /// It was for us.
    pub(super) ours: bool,
    /// The record to wait for, where answers wait.
    pub(super) record: Option<u64>,
}

/// One connection, as the proxy knows it.
pub(super) struct Desk {
    options: Options,
    client: Client,
    clock: SystemClock,
    pub(super) recorder: Recorder,
    state: Mutex<State>,
    probed: tokio::sync::Notify,
}

impl Desk {
    pub(super) fn new(client: Client, options: Options) -> Self {
        let recorder = Recorder::start(client.clone(), &options);
        let state = Mutex::default();
        let probed = tokio::sync::Notify::new();
        Self { options, client, clock: SystemClock::new(), recorder, state, probed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the tables whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what a client says. `channel` tells connections apart, `header` is the session that
    /// the transport names, and calls of one `place` that names none share a temporary one.
    pub(super) fn client_says(
        &self,
        channel: &str,
        header: Option<&str>,
        place: &str,
        text: &str,
    ) -> Toward {
        let from = From { channel, header, place };
        let messages = message::read(text);
        let alone = messages.len() == 1 && !text.trim_start().starts_with('[');
        for message in &messages {
            if let Some(call) = self.note(&from, message) {
                if alone && self.is_ours_perhaps(&call) {
                    self.pend(call.key.clone(), Pending::Deciding);
                    return Toward::Decide(Box::new(call));
                }
                self.forward(call);
            }
        }
        Toward::Server
    }

    /// Notes a message; a call is answered.
    fn note(&self, from: &From<'_>, message: &Message<'_>) -> Option<Call> {
        let key = |id: &str| format!("{} {id}", from.channel);
        match (&*message.method()?, message.key()) {
            ("tools/list", Some(id)) => {
                let params = message.params;
                let first = params.is_none_or(|params| !params.get().contains("\"cursor\""));
                self.pend(key(&id), Pending::List { first });
            }
            ("tools/call", Some(id)) => {
                let params: CallParams<'_> = serde_json::from_str(message.params?.get()).ok()?;
                return Some(self.call(key(&id), id, from, params));
            }
            ("notifications/cancelled", None) => {
                let params: Value = serde_json::from_str(message.params?.get()).ok()?;
                self.cancelled(&key(&params.get("requestId")?.to_string()), params.get("reason"));
            }
            _ => {}
        }
        None
    }

    fn call(&self, key: String, id: String, from: &From<'_>, params: CallParams<'_>) -> Call {
        let input_text = params.arguments.map_or("{}", RawValue::get).to_owned();
        let home = self.home(params.meta.as_ref(), from);
        let age_max = self.age_max(&params.name).filter(|_| !params.is_more_than_a_call());
        let mut state = self.state();
        state.calls += 1;
        Call {
            key,
            id,
            input: serde_json::from_str(&input_text).unwrap_or_default(),
            name: params.name,
            input_text,
            meta: params.meta,
            home,
            number: state.calls,
            began: self.clock.monotonic(),
            age_max,
            more: None,
        }
    }

    /// The session of a call: the one its `_meta` names, or its transport, or who started us; else
    /// a temporary one.
    fn home(&self, meta: Option<&Value>, from: &From<'_>) -> Home {
        let of_meta = || META_SESSION.iter().find_map(|name| meta?.get(name)?.as_str());
        if let Some(session) = of_meta().or(from.header).and_then(named) {
            return Home { session, temporary: false };
        }
        if let Some(session) = self.options.session.clone() {
            return Home { session, temporary: false };
        }
        let begun = self.state().begun;
        let mut text = format!("tmp-{}-{begun}", self.options.name);
        if !from.place.is_empty() {
            // A place's name is another's secret, mostly.
            text.push_str(&format!("-{:016x}", digest(None, from.place, &Value::Null)));
        }
        let session = SessionId::new(&text).expect("random text is letters and digits");
        Home { session, temporary: true }
    }

    fn age_max(&self, name: &str) -> Option<Duration> {
        let repeats = &self.options.repeats;
        let age_max = repeats.tools.get(name).copied().unwrap_or(repeats.age_max);
        age_max.filter(|_| reads(&self.state(), name))
    }

    fn is_ours_perhaps(&self, call: &Call) -> bool {
        let wants_context = self.wants_context(call);
        let state = self.state();
        let own = if state.listed {
            Own::called(&call.name, &state.tools).is_some()
        } else {
            Own::perhaps(&call.name)
        };
        // What a session of our own was not asked yet is not in it.
        let known = || {
            let place = (call.home.session.clone(), self.digest(&state, call));
            !call.home.temporary || state.answered.contains_key(&place)
        };
        own || wants_context || call.age_max.is_some() && known()
    }

    fn wants_context(&self, call: &Call) -> bool {
        let asked = call.meta.as_ref().and_then(|meta| meta.get(META_CONTEXT)?.as_bool());
        let first = || {
            self.options.context == Context::Append
                && !call.home.temporary
                && !self.state().given.contains(&call.home.session)
        };
        self.options.context != Context::Off && (asked == Some(true) || first())
    }

    fn digest(&self, state: &State, call: &Call) -> u64 {
        digest(Some(self.server(state)), &call.name, &call.input)
    }

    fn server<'a>(&'a self, state: &'a State) -> &'a str {
        state.server.as_deref().unwrap_or(&self.options.server)
    }

    fn pend(&self, key: String, pending: Pending) {
        let mut state = self.state();
        if state.pending.len() < PENDING_MAX {
            state.pending.insert(key, pending);
        }
    }

    /// Says who answers a call, and records it when it is not the server.
    pub(super) async fn decide(&self, mut call: Box<Call>) -> Decision {
        let (listed, own) = {
            let state = self.state();
            (state.listed, Own::called(&call.name, &state.tools))
        };
        let own = match own {
            _ if !listed && Own::perhaps(&call.name) => return self.probe(&call),
            own => own.filter(|_| listed),
        };
        let answer = match own {
            Some(own) => Some(self.own_answer(own, &call).await),
            None => {
                if self.wants_context(&call) {
                    call.more = self.earlier(&call.home.session, true).await;
                }
                match call.age_max {
                    Some(age_max) => self.remembered_answer(&call, age_max).await,
                    None => None,
                }
            }
        };
        let still = self.state().pending.remove(&call.key).is_some();
        match answer {
            _ if !still => Decision::Nobody,
            Some(result) => {
                let id: Value = serde_json::from_str(&call.id).unwrap_or_default();
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                Decision::Answer(answer.to_string())
            }
            None => {
                self.forward(*call);
                Decision::Server
            }
        }
    }

    /// Asks the server for its tools, before one of ours is taken for one of its.
    fn probe(&self, call: &Call) -> Decision {
        let id = format!("\"sessionlog-{}-{}\"", self.options.name, call.number);
        let channel = call.key.split(' ').next().unwrap_or_default();
        self.pend(format!("{channel} {id}"), Pending::Probe);
        let meta = call.meta.as_ref().and_then(Value::as_object);
        let ours = |(name, _): &(&String, &Value)| name.starts_with("io.modelcontextprotocol/");
        let meta: Map<String, Value> = meta
            .into_iter()
            .flatten()
            .filter(ours)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let params = if meta.is_empty() { json!({}) } else { json!({ "_meta": meta }) };
        let id: Value = serde_json::from_str(&id).unwrap_or_default();
        let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
        Decision::Probe(ask.to_string())
    }

    /// Waits for the answer to a probe, for a while: without one the server has no tools.
    pub(super) async fn probed(&self) {
        let answered = self.probed.notified();
        if !self.state().listed {
            let _ = tokio::time::timeout(OWN_PATIENCE, answered).await;
        }
        self.state().listed = true;
    }

    /// Records that a call goes to the server, and remembers it until it is answered.
    fn forward(&self, call: Call) {
        self.record_call(&call, None);
        self.pend(call.key.clone(), Pending::Call(Box::new(call)));
    }

    fn record_call(&self, call: &Call, cached: Option<&Value>) -> u64 {
        let text = |text: &str| Value::from(text).to_string();
        let (server, reads) = {
            let state = self.state();
            (self.server(&state).to_owned(), reads(&state, &call.name))
        };
        let mut members = vec![
            ("name", text(&call.name)),
            ("server", text(&server)),
            ("call_id", text(&self.call_id(call))),
            ("input", call.input_text.clone()),
            ("read_only", reads.to_string()),
        ];
        members.extend(cached.map(|cached| ("cached", cached.to_string())));
        let record = self.record(call, "agent.tool_use", "use", members);
        self.note_change(!reads, record);
        record
    }

    /// Notes a record behind which earlier answers may be stale.
    fn note_change(&self, changes: bool, record: u64) {
        let mut state = self.state();
        state.changed = if changes { state.changed.max(record) } else { state.changed };
    }

    fn record(
        &self,
        call: &Call,
        kind: &'static str,
        part: &str,
        members: Vec<(&'static str, String)>,
    ) -> u64 {
        let id = format!("{}-{part}", self.call_id(call));
        self.recorder.push(Entry { home: call.home.clone(), kind, id, members })
    }

    fn call_id(&self, call: &Call) -> String {
        format!("{}-{}", self.options.name, call.number)
    }

    fn record_result(
        &self,
        call: &Call,
        content: &str,
        rest: Option<String>,
        is_error: bool,
        cached: Option<&Value>,
    ) -> u64 {
        let took = self.clock.monotonic().saturating_sub(call.began).as_millis();
        let mut members = vec![
            ("call_id", Value::from(self.call_id(call)).to_string()),
            ("is_error", is_error.to_string()),
            ("duration_ms", took.to_string()),
            ("content", content.to_owned()),
        ];
        members.extend(rest.map(|rest| ("result", rest)));
        members.extend(cached.map(|cached| ("cached", cached.to_string())));
        let record = self.record(call, "agent.tool_result", "result", members);
        let reads = reads(&self.state(), &call.name);
        self.note_change(!reads, record);
        record
    }

    /// Looks at what the server says.
    pub(super) fn server_says(&self, channel: &str, text: &str) -> Back {
        let mut back = Back { changed: None, ours: false, record: None };
        let mut insertions = Vec::new();
        for message in message::read(text) {
            let Some(id) = message.key().filter(|_| message.method().is_none()) else { continue };
            let pending = self.state().pending.remove(&format!("{channel} {id}"));
            match pending {
                Some(Pending::List { first }) => {
                    insertions.extend(self.listed(text, &message, first));
                }
                Some(Pending::Probe) => {
                    self.listed(text, &message, true);
                    self.state().listed = true;
                    self.probed.notify_waiters();
                    back.ours = true;
                }
                Some(Pending::Call(call)) => {
                    let (record, more) = self.answered(text, &call, &message);
                    back.record = back.record.max(record);
                    insertions.extend(more);
                }
                Some(Pending::Deciding) | None => self.learn_name(&message),
            }
        }
        if !insertions.is_empty() {
            back.changed = Some(message::with(text, insertions));
        }
        back
    }

    /// Learns what the server is called, from its answer to `initialize` or `server/discover`.
    fn learn_name(&self, message: &Message<'_>) {
        #[derive(serde::Deserialize)]
        struct Named {
            #[serde(rename = "serverInfo")]
            info: Info,
        }
        #[derive(serde::Deserialize)]
        struct Info {
            name: String,
        }
        let named =
            message.result.and_then(|result| serde_json::from_str::<Named>(result.get()).ok());
        if let Some(named) = named {
            self.state().server.get_or_insert(named.info.name);
        }
    }

    /// Learns the server's tools, and adds ours on the last page.
    fn listed(&self, text: &str, message: &Message<'_>, first: bool) -> Option<Insertion> {
        let list: ListResult<'_> = serde_json::from_str(message.result?.get()).ok()?;
        let tools: Vec<Value> = serde_json::from_str(list.tools.get()).ok()?;
        let mut state = self.state();
        if first {
            state.tools.clear();
        }
        for tool in
            tools.into_iter().filter_map(|tool| serde_json::from_value::<ListedTool>(tool).ok())
        {
            let reads = tool.annotations.and_then(|said| said.read_only);
            state.tools.insert(tool.name, reads);
        }
        if list.next.is_some_and(|next| !next.is_null()) {
            return None;
        }
        state.listed = true;
        message::at_end_of(text, list.tools, &own::listed(&state.tools))
    }

    /// Records an answer; what is to be added to it.
    fn answered(
        &self,
        text: &str,
        call: &Call,
        message: &Message<'_>,
    ) -> (Option<u64>, Option<Insertion>) {
        let Some(result) = message.result else {
            let said = message.error.map_or("null", RawValue::get);
            let content = json!([{ "type": "text", "text": said }]).to_string();
            let record = self.record_result(call, &content, None, true, None);
            return (Some(record), None);
        };
        let read: Option<CallResult<'_>> = serde_json::from_str(result.get()).ok();
        let content = read.as_ref().and_then(|read| read.content);
        let is_error = read.as_ref().and_then(|read| read.is_error).unwrap_or(false);
        let mut rest: Map<String, Value> = serde_json::from_str(result.get()).unwrap_or_default();
        rest.shift_remove("content");
        rest.shift_remove("isError");
        let rest = (!rest.is_empty()).then(|| Value::Object(rest).to_string());
        let said = content.map_or("[]", RawValue::get);
        let record = self.record_result(call, said, rest, is_error, None);
        let mut state = self.state();
        if call.age_max.is_some() {
            let place = (call.home.session.clone(), self.digest(&state, call));
            if state.answered.len() < ANSWERED_MAX || state.answered.contains_key(&place) {
                state.answered.insert(place, record);
            }
        }
        let block =
            call.more.as_ref().map(|more| json!({ "type": "text", "text": more }).to_string());
        let more = content.zip(block);
        (Some(record), more.and_then(|(array, block)| message::at_end_of(text, array, &[block])))
    }

    fn cancelled(&self, key: &str, reason: Option<&Value>) {
        let pending = self.state().pending.remove(key);
        match pending {
            Some(Pending::Call(call)) => {
                let reason = reason.and_then(Value::as_str).unwrap_or("the client cancelled it");
                let said = json!([{ "type": "text", "text": reason }]).to_string();
                let rest = json!({ "cancelled": true }).to_string();
                self.record_result(&call, &said, Some(rest), true, None);
            }
            // A call whose answer is being looked for is given up there.
            Some(Pending::Deciding) | None => {}
            Some(other) => self.pend(key.to_owned(), other),
        }
    }

    /// The connection is over: what is not answered never will be.
    pub(super) fn over(&self, channel: &str) {
        let prefix = format!("{channel} ");
        let pending: Vec<Pending> = {
            let mut state = self.state();
            let keys: Vec<String> =
                state.pending.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
            keys.iter().filter_map(|key| state.pending.remove(key)).collect()
        };
        for pending in pending {
            if let Pending::Call(call) = pending {
                let said = json!([{ "type": "text", "text": "the connection ended first" }]);
                self.record_result(&call, &said.to_string(), None, true, None);
            }
        }
    }

    /// The answer of a remembered call, recorded as one more.
    async fn remembered_answer(&self, call: &Call, age_max: Duration) -> Option<Value> {
        let found = tokio::time::timeout(LOOKUP_PATIENCE, self.look_up(call, age_max)).await;
        let found = found.ok().flatten().filter(|found| found.hit)?;
        let event: Value = serde_json::from_str(found.result?.get()).ok()?;
        let position = event.get("position")?.as_u64()?;
        let content = event.get("content")?.clone();
        let mut result = Map::new();
        result.insert("content".to_owned(), content.clone());
        let rest = event.get("result").and_then(Value::as_object);
        result
            .extend(rest.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        let age_ms = found.age_ms?;
        let cached = json!({ "position": position, "age_ms": age_ms });
        let mark = json!({
            "age_ms": age_ms,
            "hits": found.hits.unwrap_or(0) + 1,
            "position": position,
            "recorded_at": event.get("processed_at"),
            "session": call.home.session.as_str(),
        });
        let meta = result.entry("_meta").or_insert_with(|| json!({}));
        meta.as_object_mut()?.insert(META_CACHE.to_owned(), mark);
        self.record_call(call, Some(&cached));
        self.record_result(call, &content.to_string(), None, false, Some(&cached));
        Some(Value::Object(result))
    }

    async fn look_up(&self, call: &Call, age_max: Duration) -> Option<LookupAnswer> {
        let (server, recorded, changed) = {
            let state = self.state();
            let place = (call.home.session.clone(), self.digest(&state, call));
            let recorded = state.answered.get(&place).copied();
            (self.server(&state).to_owned(), recorded, state.changed)
        };
        // The log may not have heard yet of what changed since an answer; the desk has. Records
        // become durable in order: with an answer, everything before it is.
        match recorded.filter(|record| *record > changed) {
            Some(record) if !self.recorder.durable(record, LOOKUP_PATIENCE).await => return None,
            None if changed > 0 => return None,
            _ => {}
        }
        let asked = json!({
            "server": server,
            "name": call.name,
            "input": call.input,
            "max_age_seconds": age_max.as_secs(),
            "tokens_max": self.options.repeats.tokens_max,
        });
        let path = session_path(&call.home.session, "/tool-cache/lookup");
        let request = Request::post(path).that_only_reads().json(&asked);
        serde_json::from_value(self.client.json(request).await.ok()?).ok()
    }

    async fn own_answer(&self, own: Own, call: &Call) -> Value {
        let modern = call.meta.as_ref().is_some_and(|meta| meta.get(META_REVISION).is_some());
        let asked = tokio::time::timeout(OWN_PATIENCE, async {
            match own {
                Own::Clear => Ok((self.clear(call), None)),
                Own::Recover => {
                    let answer = self.recover(call).await?;
                    let more = match self.options.context {
                        Context::Off => None,
                        _ => self.earlier(&call.home.session, false).await,
                    };
                    Ok::<_, ClientError>((answer, more))
                }
            }
        });
        match asked.await {
            Ok(Ok((answer, more))) => own::result(&answer, more.as_deref(), false, modern),
            Ok(Err(error)) => {
                let failed = error.to_json();
                let said = json!(format!("{error}\n\n{failed}"));
                own::result(&said, None, true, modern)
            }
            Err(_) => own::result(&json!("the store does not answer"), None, true, modern),
        }
    }

    /// A fresh start: what was remembered is not, what was recorded stays.
    fn clear(&self, call: &Call) -> Value {
        let by = ("by", json!("clear_session").to_string());
        let record = self.record(call, "context.cleared", "cleared", vec![by]);
        self.note_change(true, record);
        let mut state = self.state();
        state.answered.retain(|(session, _), _| *session != call.home.session);
        state.given.insert(call.home.session.clone());
        if call.home.temporary {
            state.begun += 1;
        }
        json!({
            "clearedSessionId": call.home.session.as_str(),
            "message": "a fresh start: no earlier answer is used again; everything recorded is kept",
        })
    }

    async fn recover(&self, call: &Call) -> Result<Value, ClientError> {
        // What was queued so far belongs to the session, too.
        self.recorder.durable(self.recorder.pushed(), LOOKUP_PATIENCE).await;
        let mut request =
            Request::post("/v1/tools/get_research_session").that_only_reads().json(&call.input);
        let via = via::Via {
            session: Some(call.home.session.clone()),
            connection: Some(self.options.name.clone()),
            remembered: None,
            directory: self.options.directory.clone(),
        };
        for (name, text) in via::write(&via) {
            request = request.header(name, text);
        }
        self.client.json(request).await
    }

    /// What tools answered in the session before, as a model reads it: what this client was not
    /// given, or, when it asks because it lost it, all that the budget takes.
    async fn earlier(&self, session: &SessionId, unseen: bool) -> Option<String> {
        let new = self.state().given.insert(session.clone());
        if unseen && !new {
            return None;
        }
        let request = Request::get(session_path(session, "/views/outputs"))
            .query("tokens_max", self.options.repeats.tokens_max);
        let asked = tokio::time::timeout(LOOKUP_PATIENCE, self.client.json(request)).await;
        let answer: OutputsAnswer = serde_json::from_value(asked.ok()?.ok()?).ok()?;
        let outputs = answer.outputs.iter().filter_map(|output| {
            let call: Value = serde_json::from_str(output.call.get()).ok()?;
            let result: Value = serde_json::from_str(output.result.get()).ok()?;
            let text = |name: &str| call.get(name).and_then(Value::as_str);
            let ours = text("call_id").is_some_and(|id| id.starts_with(&self.options.name));
            let input = call.get("input").map(Value::to_string).unwrap_or_default();
            let said = words(result.get("content")?);
            (!(unseen && ours)).then(|| (text("name").unwrap_or_default().to_owned(), input, said))
        });
        own::context(&outputs.collect::<Vec<_>>())
    }
}

/// The words of a result.
fn words(content: &Value) -> String {
    let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

/// Whether a tool says of itself that it only reads; one that nobody listed yet says nothing.
fn reads(state: &State, tool: &str) -> bool {
    state.tools.get(tool).copied().flatten() == Some(true)
}

/// A session's id from what a client calls its session; what cannot stand in one is a dash.
fn named(text: &str) -> Option<SessionId> {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let text: String = text.trim().chars().map(fits).take(128).collect();
    SessionId::new(text.trim_start_matches(['.', '_', '-'])).ok()
}

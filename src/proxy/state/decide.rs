//! Chooses the source of a call's answer: the server, the log, or one of the tools that the proxy
//! adds. It must not answer for one of the server's tools itself.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{Pending, ProxyCall, ProxyState, place::of_meta};
use crate::{
    api::error::ErrorBody,
    client::{ClientError, Request},
    event::{SessionId, kinds},
    proxy::{
        Context,
        own::{self, Own},
    },
    verbs::tools::tool,
    wire::tools::{Failure, via},
};

/// Time limit of one of the proxy's own tools, and of a page of the server's list.
const OWN_PATIENCE: Duration = Duration::from_secs(30);
/// Most pages of a list that are requested.
const PAGES_MAX: usize = 100;
/// Key in a call's `_meta`: the client requests earlier outputs with the answer.
const META_CONTEXT: &str = "sessionlog/context";
/// Key in the `_meta` of requests of newer protocol revisions.
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// Source of the answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Decision {
    Server,
    /// The proxy, with this line.
    Answer(String),
    /// No answer: the call was cancelled.
    Nobody,
}

impl ProxyState {
    pub(super) fn is_ours_perhaps(&self, call: &ProxyCall) -> bool {
        let wants_context = self.wants_context(call);
        let tables = self.tables();
        let own = if tables.tools.listed() {
            tables.tools.own(&call.open.name).is_some()
        } else {
            Own::may_be_own(&call.open.name)
        };
        let repeats = call.open.same.as_ref().is_some_and(|same| {
            // Only results that this proxy recorded, or that this caller may see, are used.
            let others = !call.open.home.temporary && call.site.caller().is_none();
            others || tables.answered.contains(same)
        });
        own || wants_context
            || repeats
            || call.follows
            || tables.tools.may_name_session(&call.input)
    }

    fn wants_context(&self, call: &ProxyCall) -> bool {
        let asked = call.meta.as_ref().and_then(|meta| meta.get(META_CONTEXT)?.as_bool());
        let first = || {
            self.options.context == Context::Append
                && !call.open.home.temporary
                && !self.was_given(call)
        };
        self.options.context != Context::Off && (asked == Some(true) || first())
    }

    /// Decides how a call is answered, and records one that the server or the log answers; `ask`
    /// sends a request of the proxy to the server, whose answer is read like any other.
    pub(in crate::proxy) async fn decide<F: Future<Output = ()>>(
        &self,
        mut call: Box<ProxyCall>,
        ask: impl Fn(String) -> F,
    ) -> Decision {
        let may_name = self.tables().tools.may_name_session(&call.input);
        if may_name || Own::may_be_own(&call.open.name) {
            self.list_server_tools(&call, ask).await;
        }
        if call.follows {
            self.move_to_agents(&mut call).await;
        }
        if may_name {
            self.move_to_named(&mut call);
        }
        let own = self.tables().tools.own(&call.open.name);
        let answer = match own {
            Some(own) => Some(self.own_answer(own, &call).await),
            None => {
                if self.wants_context(&call) {
                    call.open.more = self.earlier(&call, true).await;
                }
                match call.age_max {
                    Some(age_max) => self.remembered_answer(&call, age_max).await,
                    None => None,
                }
            }
        };
        let still = self.tables().deciding.remove(&call.key);
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

    /// Moves a call to the session that its arguments name, now that its tool is known.
    fn move_to_named(&self, call: &mut ProxyCall) {
        let named = self.session_named(&call.open.name, &call.input);
        let named = named.filter(|_| of_meta(call.meta.as_ref()).is_none());
        if let Some(session) = named.and_then(|text| self.named(&text)) {
            call.move_to(session);
        }
    }

    /// Moves a call to the session that the agent works in now, which may differ from the one the
    /// proxy was started for. If the store does not return it in time, the last known one is used.
    async fn move_to_agents(&self, call: &mut ProxyCall) {
        let first = json!({ "limit": 1 });
        let request = Request::post("/v1/tools/get_events").that_only_reads().json(&first);
        let (session, process) = (self.options.session.clone(), self.options.process.clone());
        let request = self.via(request, session, process, None);
        let answer = self.asked(self.client.json(request)).await;
        let started =
            answer.filter(|answer| answer.get("boundBy").is_some_and(|by| by == "started"));
        let live =
            started.and_then(|answer| SessionId::new(answer.get("sessionId")?.as_str()?).ok());
        let mut tables = self.tables();
        tables.usual = live.or_else(|| tables.usual.take());
        let usual = tables.usual.clone();
        drop(tables);
        usual.into_iter().for_each(|session| call.move_to(session));
    }

    /// Adds the headers that identify a tool's caller to a request.
    fn via(
        &self,
        request: Request,
        session: Option<SessionId>,
        process: Vec<String>,
        connection: Option<String>,
    ) -> Request {
        let directory = self.options.directory.clone();
        let via =
            via::Via { session, process, connection, remembered: None, directory, root: None };
        via::write(&via).into_iter().fold(request, |to, (name, text)| to.header(name, text))
    }

    /// Lists all tools of the server, so that none of them is mistaken for the proxy's. Without an
    /// answer the server has none.
    async fn list_server_tools<F: Future<Output = ()>>(
        &self,
        call: &ProxyCall,
        ask: impl Fn(String) -> F,
    ) {
        let mut cursor = None;
        for page in 0..PAGES_MAX {
            if self.tables().tools.listed() {
                return;
            }
            let id = json!(format!("sessionlog-{}-{page}", call.open.call_id));
            let (heard, hears) = oneshot::channel();
            let channel = call.key.split(' ').next().unwrap_or_default();
            self.add_pending(format!("{channel} {id}"), Pending::Probe(cursor.clone(), heard));
            let params = params(call.meta.as_ref(), cursor);
            let method = "tools/list";
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            // The server may keep its stream open after the answer.
            let asked = async {
                let mut hears = hears;
                tokio::select! {
                    biased;
                    heard = &mut hears => heard,
                    () = ask(line.to_string()) => hears.await,
                }
            };
            let heard = tokio::time::timeout(OWN_PATIENCE, asked).await;
            cursor = heard.ok().and_then(Result::ok).flatten();
            if cursor.is_none() {
                break;
            }
        }
        self.tables().tools.set_complete();
    }

    async fn own_answer(&self, own: Own, call: &ProxyCall) -> Value {
        let modern = call.meta.as_ref().is_some_and(|meta| meta.get(META_REVISION).is_some());
        let asked = tokio::time::timeout(OWN_PATIENCE, async {
            match own {
                Own::Clear => Ok((self.clear(call), None)),
                Own::Recover => {
                    let answer = self.recover_session(call).await?;
                    let more = match self.options.context {
                        Context::Off => None,
                        _ => self.earlier(call, false).await,
                    };
                    Ok::<_, ClientError>((answer, more))
                }
            }
        });
        match asked.await {
            Ok(Ok((answer, more))) => own::result(&answer, more.as_deref(), false, modern),
            Ok(Err(error)) => {
                let failure = match serde_json::from_value::<ErrorBody>(error.to_json()) {
                    Ok(body) => Failure::of_body(&body),
                    Err(_) => Failure::plain(error.code(), &error.to_string(), error.retryable()),
                };
                let tables = self.tables();
                let offered = |name: &str| tool(name).is_none() || tables.tools.own(name).is_some();
                let said = failure.offering(offered).text();
                own::result(&json!(said), None, true, modern)
            }
            Err(_) => own::result(&json!("the store does not answer"), None, true, modern),
        }
    }

    /// Starts afresh: earlier results are not reused any more; the recorded events stay.
    fn clear(&self, call: &ProxyCall) -> Value {
        let home = &call.open.home;
        let by = ("by", json!("clear_session").to_string());
        let record = self.record(&call.open, kinds::CONTEXT_CLEARED, "cleared", vec![by]);
        self.note_change(true, &record);
        self.tables().answered.retain(|(session, ..), _| *session != home.session);
        self.give(call);
        if home.temporary {
            self.begin_afresh(&call.site);
        }
        json!({
            "clearedSessionId": home.session.as_str(),
            "message": "a fresh start: no earlier answer is used again; everything recorded is kept",
        })
    }

    async fn recover_session(&self, call: &ProxyCall) -> Result<Value, ClientError> {
        // The queued events belong to the session, too.
        self.settled(call).await;
        let request =
            Request::post("/v1/tools/get_research_session").that_only_reads().json(&call.input);
        let connection = format!("{}{}", self.options.name, call.site.tag);
        let session = Some(call.open.home.session.clone());
        let request = self.via(request, session, Vec::new(), Some(connection));
        self.client.json(request).await
    }
}

/// Returns the parameters of the proxy's list request, with the client's protocol revision.
fn params(meta: Option<&Value>, cursor: Option<String>) -> Value {
    let meta = meta.and_then(Value::as_object).into_iter().flatten();
    let meta: Map<String, Value> = meta
        .filter(|(name, _)| name.starts_with("io.modelcontextprotocol/"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut params = Map::new();
    params.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
    if !meta.is_empty() {
        params.insert("_meta".to_owned(), meta.into());
    }
    params.into()
}

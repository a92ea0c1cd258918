//! Chooses the source of a call's answer: the server, the log, or one of the tools that the proxy
//! adds. It must not answer for one of the server's tools itself.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{PendingRequest, ProxyCall, ProxyState, clients::session_from_meta};
use crate::{
    api::error::ErrorBody,
    client::{ClientError, HttpRequest},
    event::{SessionId, kinds},
    proxy::{
        ContextTiming,
        own_tools::{self, ProxyTool},
    },
    verbs::tools::tool,
    wire::tools::{ToolFailure, via},
};

/// Time limit of one of the proxy's own tools, and of a page of the server's list.
const OWN_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of pages of a list that are requested.
const PAGES_MAX: usize = 100;
/// Key in a call's `_meta`: the client requests earlier outputs with the answer.
const META_CONTEXT: &str = "sessionlog/context";
/// Key in the `_meta` of requests of newer protocol revisions.
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// Source of the answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::proxy) enum AnswerSource {
    Server,
    /// The proxy: the line to send.
    Answer(String),
    /// No answer: the call was cancelled.
    Cancelled,
}

impl ProxyState {
    pub(super) fn may_be_answered_here(&self, call: &ProxyCall) -> bool {
        let wants_context = self.wants_context(call);
        let tables = self.tables();
        let own = if tables.tools.is_complete() {
            tables.tools.find_own_tool(&call.open.name).is_some()
        } else {
            ProxyTool::may_have_name(&call.open.name)
        };
        let repeats = call.open.same.as_ref().is_some_and(|same| {
            // Only results that this proxy recorded, or that this caller may see, are used.
            let others = !call.open.target.temporary && call.from_client.caller().is_none();
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
            self.options.context == ContextTiming::Append
                && !call.open.target.temporary
                && !self.were_outputs_sent(call)
        };
        self.options.context != ContextTiming::Off && (asked == Some(true) || first())
    }

    /// Decides how a call is answered, and records one that the server or the log answers; `ask`
    /// sends a request of the proxy to the server, whose answer is read like any other.
    pub(in crate::proxy) async fn decide<F: Future<Output = ()>>(
        &self,
        mut call: Box<ProxyCall>,
        ask: impl Fn(String) -> F,
    ) -> AnswerSource {
        let may_name = self.tables().tools.may_name_session(&call.input);
        if may_name || ProxyTool::may_have_name(&call.open.name) {
            self.list_server_tools(&call, ask).await;
        }
        if call.follows {
            self.move_to_agent_session(&mut call).await;
        }
        if may_name {
            self.move_to_named_session(&mut call);
        }
        let own = self.tables().tools.find_own_tool(&call.open.name);
        let answer = match own {
            Some(own) => Some(self.call_own_tool(own, &call).await),
            None => {
                if self.wants_context(&call) {
                    call.open.more = self.earlier_outputs(&call, true).await;
                }
                match call.age_max {
                    Some(age_max) => self.answer_from_log(&call, age_max).await,
                    None => None,
                }
            }
        };
        let still = self.tables().deciding.remove(&call.key);
        match answer {
            _ if !still => AnswerSource::Cancelled,
            Some(result) => {
                let id: Value = serde_json::from_str(&call.id).unwrap_or_default();
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                AnswerSource::Answer(answer.to_string())
            }
            None => {
                self.record_forwarded(*call);
                AnswerSource::Server
            }
        }
    }

    /// Moves a call to the session that its arguments name, once its tool is known.
    fn move_to_named_session(&self, call: &mut ProxyCall) {
        let named = self.session_from_arguments(&call.open.name, &call.input);
        let named = named.filter(|_| session_from_meta(call.meta.as_ref()).is_none());
        if let Some(session) = named.and_then(|text| self.parse_session_name(&text)) {
            call.move_to(session);
        }
    }

    /// Moves a call to the session that the agent works in now, which may differ from the one the
    /// proxy was started for. If the store does not return it in time, the last known one is used.
    async fn move_to_agent_session(&self, call: &mut ProxyCall) {
        let first = json!({ "limit": 1 });
        let request = HttpRequest::post("/v1/tools/get_events").read_only().json(&first);
        let (session, process) = (self.options.session.clone(), self.options.process.clone());
        let request = self.with_caller_headers(request, session, process, None);
        let answer = self.ask_store(self.client.json(request)).await;
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
    fn with_caller_headers(
        &self,
        request: HttpRequest,
        session: Option<SessionId>,
        process: Vec<String>,
        connection: Option<String>,
    ) -> HttpRequest {
        let directory = self.options.directory.clone();
        let via = via::ClientIdentity {
            session,
            process,
            connection,
            remembered: None,
            directory,
            root: None,
        };
        via::write(&via).into_iter().fold(request, |to, (name, text)| to.header(name, text))
    }

    /// Lists all tools of the server, so that none of them is mistaken for the proxy's. A server
    /// that does not answer counts as one without tools.
    async fn list_server_tools<F: Future<Output = ()>>(
        &self,
        call: &ProxyCall,
        ask: impl Fn(String) -> F,
    ) {
        let mut cursor = None;
        for page in 0..PAGES_MAX {
            if self.tables().tools.is_complete() {
                return;
            }
            let id = json!(format!("sessionlog-{}-{page}", call.open.call_id));
            let (heard, hears) = oneshot::channel();
            let channel = call.key.split(' ').next().unwrap_or_default();
            self.add_pending(
                format!("{channel} {id}"),
                PendingRequest::Probe(cursor.clone(), heard),
            );
            let params = list_params(call.meta.as_ref(), cursor);
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
        self.tables().tools.mark_complete();
    }

    async fn call_own_tool(&self, own: ProxyTool, call: &ProxyCall) -> Value {
        let modern = call.meta.as_ref().is_some_and(|meta| meta.get(META_REVISION).is_some());
        let asked = tokio::time::timeout(OWN_PATIENCE, async {
            match own {
                ProxyTool::Clear => Ok((self.clear_session(call), None)),
                ProxyTool::Recover => {
                    let answer = self.recover_session(call).await?;
                    let more = match self.options.context {
                        ContextTiming::Off => None,
                        _ => self.earlier_outputs(call, false).await,
                    };
                    Ok::<_, ClientError>((answer, more))
                }
            }
        });
        match asked.await {
            Ok(Ok((answer, more))) => {
                own_tools::build_result(&answer, more.as_deref(), false, modern)
            }
            Ok(Err(error)) => {
                let failure = match serde_json::from_value::<ErrorBody>(error.to_json()) {
                    Ok(body) => ToolFailure::from_body(&body),
                    Err(_) => ToolFailure::without_hint(
                        error.code(),
                        &error.to_string(),
                        error.is_retryable(),
                    ),
                };
                let tables = self.tables();
                let offered =
                    |name: &str| tool(name).is_none() || tables.tools.find_own_tool(name).is_some();
                let said = failure.without_hidden_tools(offered).text();
                own_tools::build_result(&json!(said), None, true, modern)
            }
            Err(_) => {
                own_tools::build_result(&json!("the store does not answer"), None, true, modern)
            }
        }
    }

    /// Stops the reuse of earlier results of the session; the recorded events stay.
    fn clear_session(&self, call: &ProxyCall) -> Value {
        let target = &call.open.target;
        let by = ("by", json!("clear_session").to_string());
        let record = self.record_event(&call.open, kinds::CONTEXT_CLEARED, "cleared", vec![by]);
        self.mark_change(true, &record);
        self.tables().answered.retain(|(session, ..), _| *session != target.session);
        self.mark_outputs_sent(call);
        if target.temporary {
            self.start_new_session(&call.from_client);
        }
        json!({
            "clearedSessionId": target.session.as_str(),
            "message": "a fresh start: no earlier answer is used again; everything recorded is kept",
        })
    }

    async fn recover_session(&self, call: &ProxyCall) -> Result<Value, ClientError> {
        // The queued events belong to the session, too.
        self.wait_until_delivered(call).await;
        let request =
            HttpRequest::post("/v1/tools/get_research_session").read_only().json(&call.input);
        let connection = format!("{}{}", self.options.name, call.from_client.tag);
        let session = Some(call.open.target.session.clone());
        let request = self.with_caller_headers(request, session, Vec::new(), Some(connection));
        self.client.json(request).await
    }
}

/// Returns the parameters of the proxy's list request, with the client's protocol revision.
fn list_params(meta: Option<&Value>, cursor: Option<String>) -> Value {
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

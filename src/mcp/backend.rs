//! How a tool call is carried out: by the verbs in this process, or by an owner through the client.
//! Both return the same failures. It must not retry: the client does, with the call's own key.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use crate::{
    access::{Grant, Principal},
    client::{Client, ClientError, Request},
    event::Origin,
    service::{Caller, Code, Service, ServiceError, ServiceResult, Via},
    verbs::tools,
    wire::{
        tools::{Failure, tool, via},
        types::ErrorBody,
    },
};

/// A tool's answer.
pub(super) struct Answer {
    /// Its JSON text.
    pub(super) text: String,
    /// The same as a tree.
    pub(super) value: Value,
}

/// A tool call on its way.
#[derive(Clone, Debug)]
pub(super) struct ToolCall {
    pub(super) name: &'static str,
    pub(super) arguments: Value,
    pub(super) via: Via,
    /// The authenticated caller, where the transport has one.
    pub(super) who: Option<Arc<Principal>>,
}

/// Carries out tool calls.
pub(super) trait Backend: Send + Sync {
    /// Returns the structured content of the answer, as JSON text.
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Answer, Failure>>;
}

/// The verbs in this process.
pub(super) struct InProcess {
    pub(super) service: Service,
}

impl Backend for InProcess {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Answer, Failure>> {
        async move {
            let ToolCall { name, arguments, via, who } = call;
            let caller = caller(name, who.as_deref()).map_err(|error| Failure::from(&error))?;
            let service = &self.service;
            let call = tools::ToolCall { service, caller: &caller, via: &via, key: None };
            let answer = tools::call(call, name, arguments).await;
            let answer = answer.map_err(|error| Failure::from(&error))?;
            Ok(Answer { text: answer.text(), value: answer.value() })
        }
        .boxed()
    }
}

/// The caller of a tool, when its grants allow the tool.
fn caller(name: &str, who: Option<&Principal>) -> ServiceResult<Caller> {
    let Some(who) = who else {
        return Err(ServiceError::new(Code::Unauthenticated, "no one was let in"));
    };
    // An unknown name is refused later, with the same words for every caller.
    let read_only = tool(name).is_none_or(|tool| tool.read_only);
    who.require(Grant::of_tool(read_only))?;
    Ok(Caller { scope: who.scope.clone(), origin: Origin::Model, fence: None })
}

/// An owner or a server, through the client, which finds or starts one and repeats a call whose
/// answer was lost with the same idempotency key.
pub(super) struct Forwarded {
    pub(super) client: Client,
}

impl Backend for Forwarded {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Answer, Failure>> {
        async move {
            let mut request = Request::post(format!("/v1/tools/{}", call.name));
            if tool(call.name).is_some_and(|tool| tool.read_only) {
                request = request.that_only_reads();
            }
            for (name, text) in via::write(&call.via) {
                request = request.header(name, text);
            }
            let text = self.client.text(request.json(&call.arguments)).await;
            let text = text.map_err(|error| failed(&error))?;
            let value = serde_json::from_str(&text).map_err(|error| {
                let problem = format!("the answer of {} is not JSON: {error}", call.name);
                Failure::plain("internal_error", &problem, false)
            })?;
            Ok(Answer { text, value })
        }
        .boxed()
    }
}

fn failed(error: &ClientError) -> Failure {
    if let ClientError::Refused(refusal) = error
        && let Ok(body) = serde_json::from_value::<ErrorBody>(refusal.body.clone())
    {
        return Failure::of_body(&body);
    }
    Failure::plain(error.code(), &error.to_string(), error.retryable())
}

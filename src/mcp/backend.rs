//! How a tool call is carried out: by the verbs in this process, or by an owner through the client.
//! Both return the same failures. It must not retry: the client does, with the call's own key.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use crate::{
    access::Principal,
    client::{Client, ClientError, Request},
    event::Origin,
    service::{Caller, Code, Service, ServiceError, Via},
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
    wire::{
        tools::{Failure, via},
        types::ErrorBody,
    },
};

/// A tool call on its way.
#[derive(Clone, Debug)]
pub(super) struct ToolRequest {
    pub(super) name: &'static str,
    pub(super) arguments: Value,
    pub(super) via: Via,
    /// The authenticated caller, where the transport has one.
    pub(super) who: Option<Arc<Principal>>,
}

/// Carries out tool calls.
pub(super) trait Backend: Send + Sync {
    /// Returns the structured content of the answer, as JSON text.
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>>;
}

/// The verbs in this process.
pub(super) struct InProcess {
    pub(super) service: Service,
    pub(super) owner: OwnerInfo,
}

impl Backend for InProcess {
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let ToolRequest { name, arguments, via, who } = asked;
            let answer = match who.as_deref() {
                None => Err(ServiceError::new(
                    Code::Unauthenticated,
                    "the request was not authenticated",
                )),
                Some(who) => {
                    let origin = Origin::Model;
                    let caller = &Caller { scope: who.scope.clone(), origin, fence: None };
                    let (service, owner, via) = (&self.service, &self.owner, &via);
                    let call = ToolCall { service, owner, caller, who, via, key: None };
                    tools::call(call, name, arguments).await
                }
            };
            answer.map_err(|error| Failure::from(&error))
        }
        .boxed()
    }
}

/// An owner or a server, through the client, which finds or starts one and repeats a call whose
/// answer was lost with the same idempotency key.
pub(super) struct Forwarded {
    pub(super) client: Client,
}

impl Backend for Forwarded {
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let mut request = Request::post(format!("/v1/tools/{}", asked.name));
            if tools::tool(asked.name).is_some_and(tools::Tool::is_read_only) {
                request = request.that_only_reads();
            }
            for (name, text) in via::write(&asked.via) {
                request = request.header(name, text);
            }
            let text = self.client.text(request.json(&asked.arguments)).await;
            text.map_err(|error| failed(&error))
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

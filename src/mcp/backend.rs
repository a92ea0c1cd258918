//! Execution of a tool call: by the verbs in this process, or by an owner through the client. Both
//! return the same failures. It must not retry: the client does, with the call's own key.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use super::local::Local;
use crate::{
    access::Principal,
    api::error::ErrorBody,
    client::{Client, ClientError, Request},
    event::Origin,
    service::{Caller, Code, Service, ServiceError, Via},
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
    wire::{
        handoff::saved_texts,
        tools::{Failure, via},
    },
};

/// The tools whose answers a front end completes.
const SAVE: &str = "save_session";
const RESTORE: &str = "restore_session";

/// A tool call on its way.
#[derive(Clone, Debug)]
pub(super) struct ToolRequest {
    pub(super) name: &'static str,
    /// Their JSON text.
    pub(super) arguments: String,
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
    pub(super) local: Local,
}

impl Forwarded {
    /// Adds to the answer of a call that saves or restores what can only be known here.
    async fn completed(&self, asked: &ToolRequest, text: String) -> String {
        let Ok(mut answer) = serde_json::from_str::<Value>(&text) else { return text };
        let Some(workspace) = answer.get("workspace").and_then(Value::as_str) else { return text };
        if asked.name == SAVE {
            let arguments = serde_json::from_str(&asked.arguments).unwrap_or_default();
            let said = saved_texts(&arguments, true);
            let notices = self.local.extract(&self.client, workspace, &said).await;
            if notices.is_empty() {
                return text;
            }
            let members = answer.as_object_mut();
            let all = members.map(|members| members.entry("notices").or_insert_with(|| json!([])));
            all.and_then(Value::as_array_mut)
                .into_iter()
                .for_each(|all| all.extend(notices.iter().map(|said| json!(said))));
        } else {
            let is_own = asked.via.workspaces().iter().any(|own| own == workspace);
            let looked = self.local.look(&self.client, is_own, &mut answer, true).await;
            if let Err(error) = looked {
                tracing::warn!(%error, "the looks at files were not recorded");
            }
        }
        answer.to_string()
    }
}

impl Backend for Forwarded {
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let mut asked = asked;
            if asked.name == SAVE {
                let arguments = serde_json::from_str::<Value>(&asked.arguments);
                let mut arguments = arguments.unwrap_or_default();
                let named = arguments.get("workspaceId").and_then(Value::as_str);
                if let Some(workspace) = named.map(str::to_owned).or_else(|| asked.via.workspace())
                    && arguments.is_object()
                {
                    let is_own = asked.via.workspaces().contains(&workspace);
                    self.local.hash(&workspace, is_own, &mut arguments, true);
                    asked.arguments = arguments.to_string();
                }
            }
            let mut request = Request::post(format!("/v1/tools/{}", asked.name));
            if tools::tool(asked.name).is_some_and(tools::Tool::is_read_only) {
                request = request.that_only_reads();
            }
            for (name, text) in via::write(&asked.via) {
                request = request.header(name, text);
            }
            match self.client.text(request.body(asked.arguments.clone(), "application/json")).await
            {
                Ok(text) if [SAVE, RESTORE].contains(&asked.name) => {
                    Ok(self.completed(&asked, text).await)
                }
                Ok(text) => Ok(text),
                Err(error) => Err(failed(&error)),
            }
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

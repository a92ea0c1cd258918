//! Execution of a tool call: by the verbs in this process, or by an owner through the client. Both
//! return the same failures. It must not retry: the client does, with the call's own key.

use std::sync::Arc;

use super::local::Local;
use crate::{
    access::Principal,
    api::{
        error::ErrorBody,
        handoff::{RestoredAnswer, SaveRequest, SavedAnswer},
    },
    client::{Client, ClientError, Request},
    event::Origin,
    service::{Caller, Code, Service, ServiceError, Via},
    verbs::{
        OwnerInfo,
        tools::{self, AtFront, Tool, ToolCall},
    },
    wire::{
        handoff::saved_texts,
        tools::{Failure, via},
    },
};
use futures_util::{FutureExt as _, future::BoxFuture};

/// A tool call to execute.
#[derive(Clone, Debug)]
pub(super) struct ToolRequest {
    pub(super) name: &'static str,
    /// JSON text of the arguments.
    pub(super) arguments: String,
    pub(super) via: Via,
    /// The authenticated caller, if the transport has one.
    pub(super) who: Option<Arc<Principal>>,
}

/// Executor of tool calls.
pub(super) trait Backend: Send + Sync {
    /// Returns the structured content of the answer, as JSON text.
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>>;
}

/// Executes calls by the verbs in this process.
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

/// Executes calls by an owner or a server, through the client, which finds or starts one and
/// repeats a call whose answer was lost with the same idempotency key.
pub(super) struct Forwarded {
    pub(super) client: Client,
    pub(super) local: Local,
}

impl Forwarded {
    async fn forward_call(&self, tool: &Tool, asked: &ToolRequest) -> Result<String, Failure> {
        let mut request = Request::post(format!("/v1/tools/{}", tool.name));
        if tool.is_read_only() {
            request = request.that_only_reads();
        }
        for (name, text) in via::write(&asked.via) {
            request = request.header(name, text);
        }
        let request = request.body(asked.arguments.clone(), "application/json");
        self.client.text(request).await.map_err(|error| client_failure(&error))
    }

    /// Saves with the hashes of the files; the answer includes the extractors' notices.
    async fn saved(&self, tool: &Tool, mut asked: ToolRequest) -> Result<String, Failure> {
        let request = tool.request::<SaveRequest>(&asked.arguments).ok();
        let (named, mut request) = request.unwrap_or_default();
        if let Some(workspace) = named.or_else(|| asked.via.workspace())
            && !request.file_references.is_empty()
        {
            let is_own = asked.via.workspaces().contains(&workspace);
            self.local.hash(&workspace, is_own, &mut request.file_references);
            let files = ("file_references", &request.file_references);
            asked.arguments = tool.with_argument(asked.arguments, files);
        }
        let text = self.forward_call(tool, &asked).await?;
        let Some(mut saved) = tool.answer_as::<SavedAnswer>(&text) else { return Ok(text) };
        let said = saved_texts(&request);
        let notices = self.local.extract(&self.client, &saved.workspace, &said).await;
        if notices.is_empty() {
            return Ok(text);
        }
        saved.notices.extend(notices);
        Ok(tool.with_answer(text, ("notices", &saved.notices)))
    }

    /// Restores a session, and hashes the files of the answer.
    async fn restore_and_look(&self, tool: &Tool, asked: &ToolRequest) -> Result<String, Failure> {
        let text = self.forward_call(tool, asked).await?;
        let Some(mut found) = tool.answer_as::<RestoredAnswer>(&text) else { return Ok(text) };
        let is_own = asked.via.workspaces().contains(&found.workspace);
        match self.local.look(&self.client, is_own, &mut found).await {
            Ok(()) => Ok(tool.with_answer(text, ("file_references", &found.file_references))),
            Err(error) => {
                tracing::warn!(%error, "the looks at files were not recorded");
                Ok(text)
            }
        }
    }
}

impl Backend for Forwarded {
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let tool = tools::tool(asked.name).expect("a tool that is offered is known");
            match tool.at_front {
                AtFront::Nothing => self.forward_call(tool, &asked).await,
                AtFront::Save => self.saved(tool, asked).await,
                AtFront::Restore => self.restore_and_look(tool, &asked).await,
            }
        }
        .boxed()
    }
}

fn client_failure(error: &ClientError) -> Failure {
    if let ClientError::Refused(refusal) = error
        && let Ok(body) = serde_json::from_value::<ErrorBody>(refusal.body.clone())
    {
        return Failure::of_body(&body);
    }
    Failure::plain(error.code(), &error.to_string(), error.retryable())
}

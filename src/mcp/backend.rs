//! Execution of a tool call: by the verbs in this process, or by an owner through the client. Both
//! return the same failures. It must not retry: the client does, with the call's own key.

use std::sync::Arc;

use super::local::LocalSettings;
use crate::{
    access::Principal,
    api::{
        error::ErrorBody,
        handoff::{RestoredAnswer, SaveRequest, SavedAnswer},
    },
    client::{Client, ClientError, HttpRequest},
    event::Origin,
    service::{Caller, ClientIdentity, Code, Service, ServiceError},
    verbs::{
        OwnerInfo,
        tools::{self, FrontEndPart, Tool, ToolCall},
    },
    wire::{
        handoff::saved_texts,
        tools::{ToolFailure, via},
    },
};
use futures_util::{FutureExt as _, future::BoxFuture};

/// A tool call to execute.
#[derive(Clone, Debug)]
pub(super) struct ToolRequest {
    pub(super) name: &'static str,
    /// JSON text of the arguments.
    pub(super) arguments: String,
    pub(super) via: ClientIdentity,
    /// The authenticated caller, if the transport has one.
    pub(super) who: Option<Arc<Principal>>,
}

/// Executor of tool calls.
pub(super) trait Backend: Send + Sync {
    /// Returns the structured content of the answer, as JSON text.
    fn call(&self, call: ToolRequest) -> BoxFuture<'_, Result<String, ToolFailure>>;
}

/// Executes calls by the verbs in this process.
pub(super) struct LocalBackend {
    pub(super) service: Service,
    pub(super) owner: OwnerInfo,
}

impl Backend for LocalBackend {
    fn call(&self, call: ToolRequest) -> BoxFuture<'_, Result<String, ToolFailure>> {
        async move {
            let ToolRequest { name, arguments, via, who } = call;
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
            answer.map_err(|error| ToolFailure::from(&error))
        }
        .boxed()
    }
}

/// Executes calls by an owner or a server, through the client, which finds or starts one and
/// repeats a call whose answer was lost with the same idempotency key.
pub(super) struct ForwardingBackend {
    pub(super) client: Client,
    pub(super) local: LocalSettings,
}

impl ForwardingBackend {
    async fn forward_call(&self, tool: &Tool, call: &ToolRequest) -> Result<String, ToolFailure> {
        let mut request = HttpRequest::post(format!("/v1/tools/{}", tool.name));
        if tool.is_read_only() {
            request = request.read_only();
        }
        for (name, text) in via::write(&call.via) {
            request = request.header(name, text);
        }
        let request = request.body(call.arguments.clone(), "application/json");
        self.client.text(request).await.map_err(|error| client_failure(&error))
    }

    /// Saves with the hashes of the files; adds the extractors' notices to the answer.
    async fn save_and_extract(
        &self,
        tool: &Tool,
        mut call: ToolRequest,
    ) -> Result<String, ToolFailure> {
        let request = tool.parse_request::<SaveRequest>(&call.arguments).ok();
        let (named, mut request) = request.unwrap_or_default();
        if let Some(workspace) = named.or_else(|| call.via.workspace())
            && !request.file_references.is_empty()
        {
            let is_own = call.via.workspaces().contains(&workspace);
            self.local.hash_saved_files(&workspace, is_own, &mut request.file_references);
            let files = ("file_references", &request.file_references);
            call.arguments = tool.with_argument(call.arguments, files);
        }
        let text = self.forward_call(tool, &call).await?;
        let Some(mut saved) = tool.parse_answer::<SavedAnswer>(&text) else { return Ok(text) };
        let said = saved_texts(&request);
        let notices = self.local.extract(&self.client, &saved.workspace, &said).await;
        if notices.is_empty() {
            return Ok(text);
        }
        saved.notices.extend(notices);
        Ok(tool.with_answer(text, ("notices", &saved.notices)))
    }

    /// Restores a session, and adds the hashes of its files to the answer.
    async fn restore_and_hash(
        &self,
        tool: &Tool,
        call: &ToolRequest,
    ) -> Result<String, ToolFailure> {
        let text = self.forward_call(tool, call).await?;
        let Some(mut found) = tool.parse_answer::<RestoredAnswer>(&text) else { return Ok(text) };
        let is_own = call.via.workspaces().contains(&found.workspace);
        match self.local.hash_restored_files(&self.client, is_own, &mut found).await {
            Ok(()) => Ok(tool.with_answer(text, ("file_references", &found.file_references))),
            Err(error) => {
                tracing::warn!(%error, "the looks at files were not recorded");
                Ok(text)
            }
        }
    }
}

impl Backend for ForwardingBackend {
    fn call(&self, call: ToolRequest) -> BoxFuture<'_, Result<String, ToolFailure>> {
        async move {
            let tool = tools::tool(call.name).expect("a tool that is offered is known");
            match tool.front_end_part {
                FrontEndPart::Nothing => self.forward_call(tool, &call).await,
                FrontEndPart::Save => self.save_and_extract(tool, call).await,
                FrontEndPart::Restore => self.restore_and_hash(tool, &call).await,
            }
        }
        .boxed()
    }
}

fn client_failure(error: &ClientError) -> ToolFailure {
    if let ClientError::Refused(refusal) = error
        && let Ok(body) = serde_json::from_value::<ErrorBody>(refusal.body.clone())
    {
        return ToolFailure::from_body(&body);
    }
    ToolFailure::without_hint(error.code(), &error.to_string(), error.is_retryable())
}

//! How a tool call is carried out: by the verbs in this process, or by an owner through the client.
//! Both return the same failures. It must not retry: the client does, with the call's own key.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use crate::{
    access::Principal,
    client::{Client, ClientError, Request},
    env::look::{Roots, Seen},
    event::Origin,
    service::{Caller, Code, Service, ServiceError, Via},
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
    wire::{
        handoff::{SeenFile, hash_files, look_at},
        tools::{Failure, via},
        types::ErrorBody,
    },
};

/// The tools whose files this front end looks at.
const SAVE: &str = "save_session";
const RESTORE: &str = "restore_session";

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
    /// Directories, beside that of a workspace, below which files are looked at.
    pub(super) files_roots: Vec<PathBuf>,
}

impl Forwarded {
    /// The directories below which this front end looks at files of a workspace: none unless that
    /// is its own.
    fn roots(&self, workspace: Option<&str>, via: &Via) -> Option<Roots> {
        let workspace = workspace.map(str::to_owned).or_else(|| via.workspace())?;
        let is_own = via.workspaces().contains(&workspace);
        is_own.then(|| Roots::of(Path::new(&workspace), &self.files_roots))
    }

    /// Looks at the files of a restored session, and records each look in the session that
    /// continues it.
    async fn looked(&self, text: String, via: &Via) -> String {
        let Ok(mut answer) = serde_json::from_str::<Value>(&text) else { return text };
        let workspace = answer.get("workspace").and_then(Value::as_str);
        let Some(roots) = self.roots(Some(workspace.unwrap_or_default()), via) else {
            return text;
        };
        let looks = look_at(&mut answer, true, &mut |path| seen(&roots, path));
        if let Some(session) = answer.get("sessionId").and_then(Value::as_str)
            && !looks.is_empty()
        {
            let request = Request::post(format!("/v1/sessions/{session}/events"));
            let sent = self.client.text(request.json(&json!({ "events": looks }))).await;
            if let Err(error) = sent {
                tracing::warn!(session, %error, "the looks at its files were not recorded");
            }
        }
        answer.to_string()
    }
}

/// What is seen of a file.
fn seen(roots: &Roots, path: &str) -> SeenFile {
    match roots.look(path) {
        Seen::Hash(hash) => SeenFile::Hash(hash),
        Seen::NotHashed => SeenFile::NotHashed,
        Seen::Gone => SeenFile::Gone,
        Seen::Denied => SeenFile::Denied,
    }
}

impl Backend for Forwarded {
    fn call(&self, asked: ToolRequest) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let mut asked = asked;
            let workspace = asked.arguments.get("workspaceId").and_then(Value::as_str);
            if asked.name == SAVE
                && let Some(roots) = self.roots(workspace, &asked.via)
            {
                hash_files(&mut asked.arguments, true, &mut |path| seen(&roots, path));
            }
            let mut request = Request::post(format!("/v1/tools/{}", asked.name));
            if tools::tool(asked.name).is_some_and(tools::Tool::is_read_only) {
                request = request.that_only_reads();
            }
            for (name, text) in via::write(&asked.via) {
                request = request.header(name, text);
            }
            match self.client.text(request.json(&asked.arguments)).await {
                Ok(text) if asked.name == RESTORE => Ok(self.looked(text, &asked.via).await),
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

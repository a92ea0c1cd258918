//! How a tool is served: its arguments are read, the session or the workspace that is meant is
//! found, the verb is called, and its answer gets the names of the tool. It must not know a verb.

use std::{future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    ToolCall,
    prepared::{GivenArguments, Prepared},
    table::{Parts, RequestPart, ToolPlace},
};
use crate::{
    event::SessionId,
    service::{BoundBy, Caller, Code, ServiceError, ServiceResult},
    verbs::{AnswerReader, Asks, PathParams, Serve, Verb, VerbCall},
    wire::{schema, tools::answer::bound_by},
};

/// A request that has no route but that of its tool, or that a tool carries out in another way than
/// its verb.
pub(crate) trait ServeTool: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its answer.
    type Answer: Serialize + JsonSchema;

    /// Executes the request.
    fn serve_tool(
        self,
        call: ToolCall<'_>,
        meant: CallContext,
    ) -> impl Future<Output = ServiceResult<Self::Answer>> + Send;

    /// Adapts the error for invalid arguments.
    fn misfit(error: ServiceError) -> ServiceError {
        error
    }
}

/// Caller, session and workspace of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    /// The caller, with the token of its lease.
    pub(crate) caller: Caller,
    /// The session that an argument names; of a tool of a session the one that is meant.
    pub(crate) session: Option<SessionId>,
    by: Option<BoundBy>,
    /// The workspace that an argument names; of a tool of a workspace the one that is meant.
    pub(crate) workspace: Option<String>,
}

impl CallContext {
    async fn new(
        place: ToolPlace,
        call: &ToolCall<'_>,
        given: &GivenArguments<'_>,
    ) -> ServiceResult<Self> {
        let caller = call.holding(given.fence);
        let mut session = call.named(given.session.as_deref())?;
        let (mut workspace, mut by) = (given.workspace.clone(), None);
        match place {
            ToolPlace::Nothing | ToolPlace::OfPath => {}
            ToolPlace::Session => {
                let found = call.service.bound(&caller, call.via, session.as_ref()).await?;
                (session, by) = (Some(found.0), Some(found.1));
            }
            ToolPlace::Workspace if workspace.is_some() => {}
            ToolPlace::Workspace => {
                if let Some((session, _)) = call.at_work().await? {
                    workspace = call.service.get_session(&caller, &session).await?.workspace;
                }
                workspace = workspace.or_else(|| call.via.workspace());
                if workspace.is_none() {
                    let problem = "no session with a workspace is bound";
                    return Err(ServiceError::invalid("workspace", problem)
                        .action("name the workspace, for example the root of the repository"));
                }
            }
        }
        Ok(Self { caller, session, by, workspace })
    }

    /// Returns the session of a tool that works on a session.
    pub(crate) fn in_session(&self) -> &SessionId {
        self.session.as_ref().expect("a tool of a session is called with one")
    }

    /// Returns the workspace of a tool that works on a workspace.
    pub(crate) fn in_workspace(&self) -> &str {
        self.workspace.as_deref().expect("a tool of a workspace is called with one")
    }
}

impl ToolCall<'_> {
    /// Returns the session that the caller is working in, if any, and how it was found.
    pub(in crate::verbs) async fn at_work(&self) -> ServiceResult<Option<(SessionId, BoundBy)>> {
        match self.service.bound(self.caller, self.via, None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == Code::SessionRequired => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the schemas of the path parameters, the query and the body.
pub(super) fn parts<V: Verb>() -> Parts {
    let params = schema::input::<V::Params>();
    let (query, body) = (schema::input::<V::Query>(), schema::input::<V::Body>());
    vec![(RequestPart::Params, params), (RequestPart::Query, query), (RequestPart::Body, body)]
}

/// Returns the schema of a request that is only a body.
pub(super) fn asked<T: JsonSchema>() -> Parts {
    vec![(RequestPart::Body, schema::input::<T>())]
}

/// Executes a tool call through its verb.
pub(super) fn serve<V: Serve>(
    prepared: Arc<Prepared>,
    call: ToolCall<'_>,
    text: String,
) -> BoxFuture<'_, ServiceResult<String>> {
    Box::pin(async move {
        let given = prepared.read(&text)?;
        let query = given.part(RequestPart::Query)?;
        let body = match V::ASKS {
            Asks::Nothing => serde_json::from_str("null").expect("the body of such a verb is ()"),
            Asks::Maybe(_) | Asks::Body(_) => given.part(RequestPart::Body)?,
        };
        let meant = CallContext::new(prepared.place, &call, &given).await?;
        let mut params = given.params();
        let session = meant.session.as_ref().map(ToString::to_string);
        params.extend(session.map(|session| ("session".to_owned(), session)));
        params.extend(meant.workspace.clone().map(|name| ("workspace".to_owned(), name)));
        let params = V::Params::read(&params).map_err(|error| prepared.renamed(error))?;
        let ToolCall { service, owner, who, .. } = call;
        let (caller, key) = (meant.caller.clone(), V::KEY.and(call.key).cloned());
        let reader = AnswerReader::Model;
        let verb = VerbCall::<V> { service, owner, caller, who, reader, key, params, query, body };
        finished(&prepared, &call, &meant, V::serve(verb).await)
    })
}

/// Executes a tool call whose request has no route.
pub(super) fn serve_asked<T: ServeTool>(
    prepared: Arc<Prepared>,
    call: ToolCall<'_>,
    text: String,
) -> BoxFuture<'_, ServiceResult<String>> {
    Box::pin(async move {
        let given = prepared.read(&text).map_err(T::misfit)?;
        let asked: T = given.part(RequestPart::Body).map_err(T::misfit)?;
        let meant = CallContext::new(prepared.place, &call, &given).await?;
        let answer = asked.serve_tool(call, meant.clone()).await;
        finished(&prepared, &call, &meant, answer)
    })
}

/// Converts a response to the tool's, and binds its session to the connection.
fn finished(
    prepared: &Prepared,
    call: &ToolCall<'_>,
    meant: &CallContext,
    answer: ServiceResult<impl Serialize>,
) -> ServiceResult<String> {
    let answer = answer.map_err(|error| prepared.renamed(error))?;
    let answer = serde_json::to_string(&answer).expect("an answer is JSON");
    let Some((session, by)) = meant.session.as_ref().zip(meant.by) else {
        return Ok(prepared.answered(&answer, None));
    };
    call.service.bind(&meant.caller, call.via, session);
    Ok(prepared.answered(&answer, Some([session.as_str(), bound_by(by)])))
}

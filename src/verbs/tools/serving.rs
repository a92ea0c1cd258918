//! Execution of a tool call: parses the arguments, resolves the session or the workspace, calls the
//! verb, and gives its answer the names of the tool. It must not know a verb.

use std::{future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    ToolCall,
    prepared::{GivenArguments, PreparedTool},
    table::{PartSchemas, RequestPart, ToolTarget},
};
use crate::{
    event::SessionId,
    service::{BoundBy, Caller, Code, ServiceError, ServiceResult},
    verbs::{AnswerReader, BodyUse, PathParams, Serve, Verb, VerbCall},
    wire::{schema, tools::answer::bound_by_name},
};

/// A request that has no route of its own, or that a tool executes in another way than its verb.
pub(crate) trait ServeTool: DeserializeOwned + JsonSchema + Send + 'static {
    type Answer: Serialize + JsonSchema;

    /// Executes the request.
    fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> impl Future<Output = ServiceResult<Self::Answer>> + Send;

    /// Adapts the error for invalid arguments.
    fn adapt_argument_error(error: ServiceError) -> ServiceError {
        error
    }
}

/// Caller, session and workspace of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    /// The caller, with the token of its lease.
    pub(crate) caller: Caller,
    /// Session that an argument names; for a tool of a session, the resolved one.
    pub(crate) session: Option<SessionId>,
    by: Option<BoundBy>,
    /// Workspace that an argument names; for a tool of a workspace, the resolved one.
    pub(crate) workspace: Option<String>,
}

impl CallContext {
    async fn new(
        target: ToolTarget,
        call: &ToolCall<'_>,
        given: &GivenArguments<'_>,
    ) -> ServiceResult<Self> {
        let caller = call.caller_with_fence(given.fence);
        let mut session = call.parse_session(given.session.as_deref())?;
        let (mut workspace, mut by) = (given.workspace.clone(), None);
        match target {
            ToolTarget::Nothing | ToolTarget::FromPath => {}
            ToolTarget::Session => {
                let found =
                    call.service.resolve_session(&caller, call.via, session.as_ref()).await?;
                (session, by) = (Some(found.0), Some(found.1));
            }
            ToolTarget::Workspace if workspace.is_some() => {}
            ToolTarget::Workspace => {
                if let Some((session, _)) = call.find_current_session().await? {
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
    pub(crate) fn expect_session(&self) -> &SessionId {
        self.session.as_ref().expect("a tool of a session is called with one")
    }

    /// Returns the workspace of a tool that works on a workspace.
    pub(crate) fn expect_workspace(&self) -> &str {
        self.workspace.as_deref().expect("a tool of a workspace is called with one")
    }
}

impl ToolCall<'_> {
    /// Returns the session that the caller is working in, if any, and how it was found.
    pub(in crate::verbs) async fn find_current_session(
        &self,
    ) -> ServiceResult<Option<(SessionId, BoundBy)>> {
        match self.service.resolve_session(self.caller, self.via, None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == Code::SessionRequired => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the schemas of the path parameters, the query and the body.
pub(super) fn verb_schemas<V: Verb>() -> PartSchemas {
    let params = schema::input::<V::Params>();
    let (query, body) = (schema::input::<V::Query>(), schema::input::<V::Body>());
    vec![(RequestPart::Params, params), (RequestPart::Query, query), (RequestPart::Body, body)]
}

/// Returns the schema of a request that is only a body.
pub(super) fn request_schema<T: JsonSchema>() -> PartSchemas {
    vec![(RequestPart::Body, schema::input::<T>())]
}

/// Executes a tool call through its verb.
pub(super) fn serve<V: Serve>(
    prepared: Arc<PreparedTool>,
    call: ToolCall<'_>,
    text: String,
) -> BoxFuture<'_, ServiceResult<String>> {
    Box::pin(async move {
        let given = prepared.parse_arguments(&text)?;
        let query = given.parse_part(RequestPart::Query)?;
        let body = match V::ASKS {
            BodyUse::Nothing => {
                serde_json::from_str("null").expect("the body of such a verb is ()")
            }
            BodyUse::Maybe(_) | BodyUse::Body(_) => given.parse_part(RequestPart::Body)?,
        };
        let context = CallContext::new(prepared.target, &call, &given).await?;
        let mut params = given.path_params();
        let session = context.session.as_ref().map(ToString::to_string);
        params.extend(session.map(|session| ("session".to_owned(), session)));
        params.extend(context.workspace.clone().map(|name| ("workspace".to_owned(), name)));
        let params =
            V::Params::from_pairs(&params).map_err(|error| prepared.rename_error_field(error))?;
        let ToolCall { service, owner, who, .. } = call;
        let (caller, key) = (context.caller.clone(), V::KEY.and(call.key).cloned());
        let reader = AnswerReader::Model;
        let verb = VerbCall::<V> { service, owner, caller, who, reader, key, params, query, body };
        finish_call(&prepared, &call, &context, V::serve(verb).await)
    })
}

/// Executes a tool call whose request has no route.
pub(super) fn serve_request<T: ServeTool>(
    prepared: Arc<PreparedTool>,
    call: ToolCall<'_>,
    text: String,
) -> BoxFuture<'_, ServiceResult<String>> {
    Box::pin(async move {
        let given = prepared.parse_arguments(&text).map_err(T::adapt_argument_error)?;
        let asked: T = given.parse_part(RequestPart::Body).map_err(T::adapt_argument_error)?;
        let context = CallContext::new(prepared.target, &call, &given).await?;
        let answer = asked.serve_tool(call, context.clone()).await;
        finish_call(&prepared, &call, &context, answer)
    })
}

/// Converts a response to the tool's, and binds its session to the connection.
fn finish_call(
    prepared: &PreparedTool,
    call: &ToolCall<'_>,
    context: &CallContext,
    answer: ServiceResult<impl Serialize>,
) -> ServiceResult<String> {
    let answer = answer.map_err(|error| prepared.rename_error_field(error))?;
    let answer = serde_json::to_string(&answer).expect("an answer is JSON");
    let Some((session, by)) = context.session.as_ref().zip(context.by) else {
        return Ok(prepared.convert_answer(&answer, None));
    };
    call.service.bind(&context.caller, call.via, session);
    Ok(prepared.convert_answer(&answer, Some([session.as_str(), bound_by_name(by)])))
}

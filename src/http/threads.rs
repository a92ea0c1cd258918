//! Routes of the Managed Agents wire for threads and resources of a hosted session. A stored
//! session is one thread, whose events are the session's; it mounts no resources. Other operations
//! are refused with their name. It must not create a thread from an event.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    Server, Shared,
    body::{InPath, JsonBody, NameInPath, Who},
    events,
    gate::Asking,
    guard::RequestId,
    params::QueryParams,
    refuse::Refusal,
    serve::Stopping,
    stream,
};
use crate::{
    api::hosted::{ResourceList, Thread, ThreadList},
    event::SessionId,
    service::{Caller, ServiceError, values},
    verbs::{
        events::{EventsQuery, FollowQuery},
        hosted::ThreadsQuery,
    },
};

/// Body that names a resource; its members are ignored.
type IgnoredBody = JsonBody<serde_json::Value>;

fn no_thread(name: &str) -> Refusal {
    let error = ServiceError::invalid("thread", format!("the session has no thread {name:?}"))
        .action("events of subagents stand among the session's own, with their session_thread_id");
    Refusal::with_status(StatusCode::NOT_FOUND, error)
}

/// Returns the session's own thread; refuses any other name.
async fn own_thread(
    server: &Server,
    caller: &Caller,
    session: &SessionId,
    name: &str,
) -> Result<Thread, Refusal> {
    let thread = server.app.service.get_thread(caller, session).await?;
    if thread.id == name { Ok(thread) } else { Err(no_thread(name)) }
}

/// Lists the threads of a session: its own.
pub(super) async fn list(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    QueryParams(ThreadsQuery { statuses }): QueryParams<ThreadsQuery>,
) -> Result<Json<ThreadList>, Refusal> {
    let thread = server.app.service.get_thread(&caller, &session).await?;
    let mut wanted = values::words(&statuses).peekable();
    let wanted = wanted.peek().is_none() || wanted.any(|status| status == thread.status);
    Ok(Json(ThreadList { data: wanted.then_some(thread).into_iter().collect(), next_page: None }))
}

/// Returns a thread of a session.
pub(super) async fn get(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<Thread>, Refusal> {
    own_thread(&server, &caller, &session, &name).await.map(Json)
}

/// Refuses to archive a thread: the session's own ends with its session.
pub(super) async fn archive(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<Thread>, Refusal> {
    own_thread(&server, &caller, &session, &name).await?;
    let error = ServiceError::invalid("thread", "a session's own thread is not archived alone");
    Err(error.action(format!("archive the session: POST /v1/sessions/{session}/archive")).into())
}

/// Lists the events of a thread: those of the session.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn list_events(
    server: Shared,
    who: Asking,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    query: QueryParams<EventsQuery>,
    headers: HeaderMap,
    stopping: Stopping,
) -> Result<Response, Refusal> {
    own_thread(&server.0, &caller, &session, &name).await?;
    events::get(server, who, Who(caller), InPath(session), query, headers, stopping).await
}

/// Streams the events of a thread: those of the session.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn tail(
    server: Shared,
    asking: Asking,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    query: QueryParams<FollowQuery>,
    headers: HeaderMap,
    stopping: Stopping,
    request: axum::Extension<RequestId>,
) -> Result<Response, Refusal> {
    own_thread(&server.0, &caller, &session, &name).await?;
    stream::tail(server, asking, InPath(session), query, headers, stopping, request).await
}

/// Lists the resources of a session: none.
pub(super) async fn list_resources(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<ResourceList>, Refusal> {
    server.app.service.get_session(&caller, &session).await?;
    Ok(Json(ResourceList::default()))
}

/// Refuses to add a resource: nothing is mounted in a stored session.
pub(super) async fn add_resource(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    _: IgnoredBody,
) -> Result<Json<ResourceList>, Refusal> {
    server.app.service.get_session(&caller, &session).await?;
    let error = ServiceError::invalid("resources", "nothing is mounted in a stored session");
    Err(error.action("record what the agent reads as events").into())
}

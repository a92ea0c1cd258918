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
    body::{JsonBody, PathName, PathSession, RequestCaller},
    events,
    gate::RequestPrincipal,
    guard::RequestId,
    params::QueryParams,
    refuse::HttpError,
    serve::StopSignal,
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

/// Body whose members are ignored.
type IgnoredBody = JsonBody<serde_json::Value>;

fn unknown_thread(name: &str) -> HttpError {
    let error = ServiceError::invalid("thread", format!("the session has no thread {name:?}"))
        .action("events of subagents stand among the session's own, with their session_thread_id");
    HttpError::with_status(StatusCode::NOT_FOUND, error)
}

/// Returns the only thread of a session; refuses any other name.
async fn get_session_thread(
    server: &Server,
    caller: &Caller,
    session: &SessionId,
    name: &str,
) -> Result<Thread, HttpError> {
    let thread = server.app.service.get_thread(caller, session).await?;
    if thread.id == name { Ok(thread) } else { Err(unknown_thread(name)) }
}

/// Lists the threads of a session: its own.
pub(super) async fn list_threads(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    QueryParams(ThreadsQuery { statuses }): QueryParams<ThreadsQuery>,
) -> Result<Json<ThreadList>, HttpError> {
    let thread = server.app.service.get_thread(&caller, &session).await?;
    let mut wanted = values::split_commas(&statuses).peekable();
    let wanted = wanted.peek().is_none() || wanted.any(|status| status == thread.status);
    Ok(Json(ThreadList { data: wanted.then_some(thread).into_iter().collect(), next_page: None }))
}

/// Returns a thread of a session.
pub(super) async fn get_thread(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    PathName(name): PathName,
) -> Result<Json<Thread>, HttpError> {
    get_session_thread(&server, &caller, &session, &name).await.map(Json)
}

/// Refuses to archive a thread: the session's own ends with its session.
pub(super) async fn archive_thread(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    PathName(name): PathName,
) -> Result<Json<Thread>, HttpError> {
    get_session_thread(&server, &caller, &session, &name).await?;
    let error = ServiceError::invalid("thread", "a session's own thread is not archived alone");
    Err(error.action(format!("archive the session: POST /v1/sessions/{session}/archive")).into())
}

/// Lists the events of a thread: those of the session.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn list_events(
    server: Shared,
    who: RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    PathName(name): PathName,
    query: QueryParams<EventsQuery>,
    headers: HeaderMap,
    stopping: StopSignal,
) -> Result<Response, HttpError> {
    get_session_thread(&server.0, &caller, &session, &name).await?;
    events::get_events(
        server,
        who,
        RequestCaller(caller),
        PathSession(session),
        query,
        headers,
        stopping,
    )
    .await
}

/// Streams the events of a thread: those of the session.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn tail_thread(
    server: Shared,
    asking: RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    PathName(name): PathName,
    query: QueryParams<FollowQuery>,
    headers: HeaderMap,
    stopping: StopSignal,
    request: axum::Extension<RequestId>,
) -> Result<Response, HttpError> {
    get_session_thread(&server.0, &caller, &session, &name).await?;
    stream::tail(server, asking, PathSession(session), query, headers, stopping, request).await
}

/// Lists the resources of a session: none.
pub(super) async fn list_resources(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
) -> Result<Json<ResourceList>, HttpError> {
    server.app.service.get_session(&caller, &session).await?;
    Ok(Json(ResourceList::default()))
}

/// Refuses to add a resource: nothing is mounted in a stored session.
pub(super) async fn add_resource(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    _: IgnoredBody,
) -> Result<Json<ResourceList>, HttpError> {
    server.app.service.get_session(&caller, &session).await?;
    let error = ServiceError::invalid("resources", "nothing is mounted in a stored session");
    Err(error.action("record what the agent reads as events").into())
}

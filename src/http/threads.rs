//! Routes of the Managed Agents wire about what a hosted session has beside its events: threads and
//! resources. A stored session is one thread, whose events are the session's; nothing is mounted in
//! it. What cannot be is refused by name. It must not make a thread of what an event says.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{
    Door, Shared,
    body::{InPath, JsonBody, NameInPath, Who},
    describe::Refusals,
    events,
    gate::Asking,
    guard::RequestId,
    params::{Following, OfStatuses, Params, Slicing},
    refuse::Refusal,
    serve::Stopping,
    stream,
};
use crate::{
    event::SessionId,
    service::{Caller, ServiceError},
    verbs::{routes, values},
    wire::hosted::{ResourceList, Thread, ThreadList},
};

/// What is asked of a resource; its members are ignored.
type Asked = JsonBody<serde::de::IgnoredAny>;

fn no_thread(name: &str) -> Refusal {
    let error = ServiceError::invalid("thread", format!("the session has no thread {name:?}"))
        .action("events of subagents stand among the session's own, with their session_thread_id");
    Refusal::with_status(StatusCode::NOT_FOUND, error)
}

fn no_resource(name: &str) -> Refusal {
    let error = ServiceError::invalid("resource", format!("the session has no resource {name:?}"))
        .action("files and repositories are not kept here: record what matters as events");
    Refusal::with_status(StatusCode::NOT_FOUND, error)
}

/// The session's own thread, by its name.
async fn own(
    door: &Door,
    caller: &Caller,
    session: &SessionId,
    name: &str,
) -> Result<Thread, Refusal> {
    let thread = Thread::of(&door.app.service.get_session(caller, session).await?);
    if thread.id == name { Ok(thread) } else { Err(no_thread(name)) }
}

/// Threads of a session: its own.
#[utoipa::path(
    get, path = routes::LIST_THREADS.path, operation_id = routes::LIST_THREADS.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("statuses[]" = Option<Vec<String>>, Query, description = "Only of these statuses"),
    ),
    responses((status = 200, description = "The session's own thread", body = ThreadList), Refusals)
)]
pub(super) async fn list(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    Params(asked): Params<OfStatuses>,
) -> Result<Json<ThreadList>, Refusal> {
    let thread = Thread::of(&door.app.service.get_session(&caller, &session).await?);
    let wanted = asked.statuses.is_empty()
        || values::words(&asked.statuses).any(|status| status == thread.status);
    Ok(Json(ThreadList { data: wanted.then_some(thread).into_iter().collect(), next_page: None }))
}

/// A thread of a session.
#[utoipa::path(
    get, path = routes::GET_THREAD.path, operation_id = routes::GET_THREAD.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The thread's id"),
    ),
    responses((status = 200, description = "The thread", body = Thread), Refusals)
)]
pub(super) async fn get(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<Thread>, Refusal> {
    own(&door, &caller, &session, &name).await.map(Json)
}

/// Refused: the session's own thread ends with its session.
#[utoipa::path(
    post, path = routes::ARCHIVE_THREAD.path, operation_id = routes::ARCHIVE_THREAD.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The thread's id"),
    ),
    responses((status = 200, description = "Never", body = Thread), Refusals)
)]
pub(super) async fn archive(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<Thread>, Refusal> {
    own(&door, &caller, &session, &name).await?;
    let error = ServiceError::invalid("thread", "a session's own thread is not archived alone");
    Err(error.action(format!("archive the session: POST /v1/sessions/{session}/archive")).into())
}

/// Events of a thread: those of the session.
#[utoipa::path(
    get, path = routes::GET_THREAD_EVENTS.path, operation_id = routes::GET_THREAD_EVENTS.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The thread's id"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Events at most: 1 000 when not said, 10 000 at most"),
        ("page" = Option<String>, Query, description = "next_page of the answer before"),
    ),
    responses((status = 200, description = "As getEvents answers", body = crate::wire::types::EventsAnswer), Refusals)
)]
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn list_events(
    door: Shared,
    who: Asking,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    params: Params<Slicing>,
    headers: HeaderMap,
    stopping: Stopping,
) -> Result<Response, Refusal> {
    own(&door.0, &caller, &session, &name).await?;
    events::get(door, who, Who(caller), InPath(session), params, headers, stopping).await
}

/// A thread as it grows: the session's events.
#[utoipa::path(
    get, path = routes::STREAM_THREAD.path, operation_id = routes::STREAM_THREAD.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The thread's id"),
    ),
    responses((status = 200, description = "As streamEvents answers", body = String, content_type = "text/event-stream"), Refusals)
)]
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn tail(
    door: Shared,
    asking: Asking,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
    params: Params<Following>,
    headers: HeaderMap,
    stopping: Stopping,
    request: axum::Extension<RequestId>,
) -> Result<Response, Refusal> {
    own(&door.0, &caller, &session, &name).await?;
    stream::tail(door, asking, InPath(session), params, headers, stopping, request).await
}

/// Resources of a session: none.
#[utoipa::path(
    get, path = routes::LIST_RESOURCES.path, operation_id = routes::LIST_RESOURCES.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "None", body = ResourceList), Refusals)
)]
pub(super) async fn list_resources(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
) -> Result<Json<ResourceList>, Refusal> {
    door.app.service.get_session(&caller, &session).await?;
    Ok(Json(ResourceList::default()))
}

/// Refused: nothing is mounted in a stored session.
#[utoipa::path(
    post, path = routes::ADD_RESOURCE.path, operation_id = routes::ADD_RESOURCE.id, tag = "sessions",
    params(("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id")),
    responses((status = 200, description = "Never", body = ResourceList), Refusals)
)]
pub(super) async fn add_resource(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    _: Asked,
) -> Result<Json<ResourceList>, Refusal> {
    door.app.service.get_session(&caller, &session).await?;
    let error = ServiceError::invalid("resources", "nothing is mounted in a stored session");
    Err(error.action("record what the agent reads as events").into())
}

/// A resource of a session: there is none.
#[utoipa::path(
    get, path = routes::GET_RESOURCE.path, operation_id = routes::GET_RESOURCE.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The resource's id"),
    ),
    responses((status = 200, description = "Never", body = ResourceList), Refusals)
)]
pub(super) async fn get_resource(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    NameInPath(name): NameInPath,
) -> Result<Json<ResourceList>, Refusal> {
    door.app.service.get_session(&caller, &session).await?;
    Err(no_resource(&name))
}

/// The same for a change of one.
#[utoipa::path(
    post, path = routes::UPDATE_RESOURCE.path, operation_id = routes::UPDATE_RESOURCE.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The resource's id"),
    ),
    responses((status = 200, description = "Never", body = ResourceList), Refusals)
)]
pub(super) async fn update_resource(
    door: Shared,
    who: Who,
    session: InPath,
    name: NameInPath,
    _: Asked,
) -> Result<Json<ResourceList>, Refusal> {
    get_resource(door, who, session, name).await
}

/// The same for taking one away.
#[utoipa::path(
    delete, path = routes::DELETE_RESOURCE.path, operation_id = routes::DELETE_RESOURCE.id, tag = "sessions",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("name" = String, Path, description = "The resource's id"),
    ),
    responses((status = 200, description = "Never", body = ResourceList), Refusals)
)]
pub(super) async fn delete_resource(
    door: Shared,
    who: Who,
    session: InPath,
    name: NameInPath,
) -> Result<Json<ResourceList>, Refusal> {
    get_resource(door, who, session, name).await
}

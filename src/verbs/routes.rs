//! Routes whose handlers are written by hand: method, path, operation id and what each needs. It
//! must not know a handler.

#![allow(missing_docs, reason = "the handler of a route documents it")]

use super::{Need, Route};

/// The MCP endpoint. Each tool that is called needs a grant of its own.
pub const MCP: Route = Route::any("/mcp", "mcp", Need::Credential);

pub const GET_HEALTH: Route = Route::get("/healthz", "getHealth", Need::Nothing);
pub const GET_READINESS: Route = Route::get("/readyz", "getReadiness", Need::Nothing);
pub const GET_METRICS: Route = Route::get("/metrics", "getMetrics", Need::OPERATOR);
pub const GET_OPENAPI: Route = Route::get("/openapi.json", "getOpenapi", Need::Credential);

pub const APPEND_STREAM: Route = Route::post("/v1/append", "appendStream", Need::WRITE);

pub const CREATE_BACKUP: Route = Route::post("/v1/admin/backup", "createBackup", Need::OPERATOR);

pub const EMIT_EVENT: Route =
    Route::post("/v1/sessions/{session}/events", "emitEvent", Need::WRITE);
pub const GET_EVENTS: Route = Route::get("/v1/sessions/{session}/events", "getEvents", Need::READ);

pub const STREAM_EVENTS: Route =
    Route::get("/v1/sessions/{session}/events/stream", "streamEvents", Need::READ);
pub const EXPORT_SESSION: Route =
    Route::get("/v1/sessions/{session}/export", "exportSession", Need::READ);

pub const LIST_THREADS: Route =
    Route::get("/v1/sessions/{session}/threads", "listThreads", Need::READ);
pub const GET_THREAD: Route =
    Route::get("/v1/sessions/{session}/threads/{name}", "getThread", Need::READ);
pub const ARCHIVE_THREAD: Route =
    Route::post("/v1/sessions/{session}/threads/{name}/archive", "archiveThread", Need::WRITE);
pub const GET_THREAD_EVENTS: Route =
    Route::get("/v1/sessions/{session}/threads/{name}/events", "getThreadEvents", Need::READ);
pub const STREAM_THREAD: Route =
    Route::get("/v1/sessions/{session}/threads/{name}/stream", "streamThread", Need::READ);
pub const LIST_RESOURCES: Route =
    Route::get("/v1/sessions/{session}/resources", "listResources", Need::READ);
pub const ADD_RESOURCE: Route =
    Route::post("/v1/sessions/{session}/resources", "addResource", Need::WRITE);
pub const GET_RESOURCE: Route =
    Route::get("/v1/sessions/{session}/resources/{name}", "getResource", Need::READ);
pub const UPDATE_RESOURCE: Route =
    Route::post("/v1/sessions/{session}/resources/{name}", "updateResource", Need::WRITE);
pub const DELETE_RESOURCE: Route =
    Route::delete("/v1/sessions/{session}/resources/{name}", "deleteResource", Need::DELETE);

pub const CALL_TOOL: Route = Route::post("/v1/tools/{name}", "callTool", Need::Credential);

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

pub const FORK_SESSION: Route =
    Route::post("/v1/sessions/{session}/fork", "forkSession", Need::WRITE);
pub const GET_LINEAGE: Route =
    Route::get("/v1/sessions/{session}/lineage", "getLineage", Need::READ);
pub const DIFF_SESSION: Route =
    Route::get("/v1/sessions/{session}/diff", "diffSession", Need::READ);

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

pub const PUT_CURSOR: Route =
    Route::put("/v1/sessions/{session}/cursors/{name}", "putCursor", Need::WRITE);
pub const GET_CURSOR: Route =
    Route::get("/v1/sessions/{session}/cursors/{name}", "getCursor", Need::READ);
pub const DELETE_CURSOR: Route =
    Route::delete("/v1/sessions/{session}/cursors/{name}", "deleteCursor", Need::WRITE);
pub const LIST_CURSORS: Route =
    Route::get("/v1/sessions/{session}/cursors", "listCursors", Need::READ);
pub const CREATE_CHECKPOINT: Route =
    Route::post("/v1/sessions/{session}/checkpoints", "createCheckpoint", Need::WRITE);
pub const LIST_CHECKPOINTS: Route =
    Route::get("/v1/sessions/{session}/checkpoints", "listCheckpoints", Need::READ);
pub const GET_CHECKPOINT: Route =
    Route::get("/v1/sessions/{session}/checkpoints/{name}", "getCheckpoint", Need::READ);
pub const RESUME_CHECKPOINT: Route = Route::post(
    "/v1/sessions/{session}/checkpoints/{name}/resume",
    "resumeCheckpoint",
    Need::WRITE,
);
pub const WAKE_SESSION: Route =
    Route::post("/v1/sessions/{session}/wake", "wakeSession", Need::WRITE);
pub const RENEW_LEASE: Route =
    Route::post("/v1/sessions/{session}/lease/renew", "renewLease", Need::WRITE);
pub const RELEASE_LEASE: Route =
    Route::delete("/v1/sessions/{session}/lease", "releaseLease", Need::WRITE);
pub const GET_HISTORY: Route = Route::get("/v1/history", "getHistory", Need::READ);

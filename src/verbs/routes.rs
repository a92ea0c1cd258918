//! Routes whose handlers are written by hand: method, path, operation id and what each needs. It
//! must not know a handler.

#![allow(missing_docs, reason = "the handler of a route documents it")]

use super::{Need, Route};

/// The MCP endpoint. Each tool that is called needs a grant of its own.
pub const MCP: Route = Route::any("/mcp", "mcp", Need::Credential);

pub const GET_OWNER: Route = Route::get("/v1/admin/owner", "getOwner", Need::OPERATOR);
pub const STEP_DOWN: Route = Route::post("/v1/admin/step-down", "stepDown", Need::OPERATOR);
pub const VERIFY: Route = Route::post("/v1/admin/verify", "verify", Need::ADMIN);
pub const REPAIR: Route = Route::post("/v1/admin/repair", "repair", Need::ADMIN);
pub const GET_AUDIT: Route = Route::get("/v1/admin/audit", "getAudit", Need::ADMIN);
pub const GET_KEYS: Route = Route::get("/v1/admin/keys", "getKeys", Need::OPERATOR);
pub const ROTATE_KEYS: Route = Route::post("/v1/admin/keys/rotate", "rotateKeys", Need::OPERATOR);
pub const GET_RECOVERY_REPORT: Route =
    Route::get("/v1/admin/recovery-report", "getRecoveryReport", Need::OPERATOR);
pub const GET_HEALTH: Route = Route::get("/healthz", "getHealth", Need::Nothing);
pub const GET_READINESS: Route = Route::get("/readyz", "getReadiness", Need::Nothing);
pub const GET_METRICS: Route = Route::get("/metrics", "getMetrics", Need::OPERATOR);
pub const GET_OPENAPI: Route = Route::get("/openapi.json", "getOpenapi", Need::Credential);

pub const APPEND_STREAM: Route = Route::post("/v1/append", "appendStream", Need::WRITE);

pub const CREATE_BACKUP: Route = Route::post("/v1/admin/backup", "createBackup", Need::OPERATOR);

pub const EMIT_EVENT: Route =
    Route::post("/v1/sessions/{session}/events", "emitEvent", Need::WRITE);
pub const GET_EVENTS: Route = Route::get("/v1/sessions/{session}/events", "getEvents", Need::READ);
pub const REDACT_EVENT: Route =
    Route::post("/v1/sessions/{session}/events/{event}/redact", "redactEvent", Need::DELETE);

pub const FORK_SESSION: Route =
    Route::post("/v1/sessions/{session}/fork", "forkSession", Need::WRITE);
pub const GET_LINEAGE: Route =
    Route::get("/v1/sessions/{session}/lineage", "getLineage", Need::READ);
pub const DIFF_SESSION: Route =
    Route::get("/v1/sessions/{session}/diff", "diffSession", Need::READ);

pub const CREATE_SESSION: Route = Route::post("/v1/sessions", "createSession", Need::WRITE);
pub const LIST_SESSIONS: Route = Route::get("/v1/sessions", "listSessions", Need::READ);
pub const GET_SESSION: Route = Route::get("/v1/sessions/{session}", "getSession", Need::READ);
pub const UPDATE_SESSION: Route =
    Route::post("/v1/sessions/{session}", "updateSession", Need::WRITE);
pub const ARCHIVE_SESSION: Route =
    Route::post("/v1/sessions/{session}/archive", "archiveSession", Need::WRITE);
pub const DELETE_SESSION: Route =
    Route::delete("/v1/sessions/{session}", "deleteSession", Need::DELETE);
pub const ERASE_SESSION: Route =
    Route::post("/v1/sessions/{session}/erase", "eraseSession", Need::DELETE);

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

pub const LOOKUP_TOOL_CACHE: Route =
    Route::post("/v1/sessions/{session}/tool-cache/lookup", "lookupToolCache", Need::READ);
pub const VIEW_OUTPUTS: Route =
    Route::get("/v1/sessions/{session}/views/outputs", "viewOutputs", Need::READ);

pub const CALL_TOOL: Route = Route::post("/v1/tools/{name}", "callTool", Need::Credential);

pub const VIEW_WINDOW: Route =
    Route::get("/v1/sessions/{session}/views/window", "viewWindow", Need::READ);
pub const VIEW_INDEX: Route =
    Route::get("/v1/sessions/{session}/views/index", "viewIndex", Need::READ);
pub const VIEW_SUMMARY: Route =
    Route::get("/v1/sessions/{session}/views/summary", "viewSummary", Need::READ);
pub const VIEW_STEP: Route =
    Route::get("/v1/sessions/{session}/views/steps/{number}", "viewStep", Need::READ);
pub const VIEW_CONTINUATION: Route =
    Route::get("/v1/sessions/{session}/views/continuation", "viewContinuation", Need::READ);
pub const VIEW_USAGE: Route =
    Route::get("/v1/sessions/{session}/views/usage", "viewUsage", Need::READ);
pub const VIEW_COMPACTIONS: Route =
    Route::get("/v1/sessions/{session}/views/compactions", "viewCompactions", Need::READ);

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

//! Routes whose handlers are written by hand: method, path, operation id and what each needs. It
//! must not know a handler.

#![allow(missing_docs, reason = "the handler of a route documents it")]

use super::{
    Need::{Credential, Grant, Nothing},
    Route,
};
use crate::access::Grant::{Admin, Delete, Operator, Read, Write};

/// The MCP endpoint. Each tool that is called needs a grant of its own.
pub const MCP: Route = Route::any("/mcp", "mcp", Credential);

pub const GET_OWNER: Route = Route::get("/v1/admin/owner", "getOwner", Grant(Operator));
pub const STEP_DOWN: Route = Route::post("/v1/admin/step-down", "stepDown", Grant(Operator));
pub const VERIFY: Route = Route::post("/v1/admin/verify", "verify", Grant(Admin));
pub const REPAIR: Route = Route::post("/v1/admin/repair", "repair", Grant(Admin));
pub const GET_AUDIT: Route = Route::get("/v1/admin/audit", "getAudit", Grant(Admin));
pub const GET_KEYS: Route = Route::get("/v1/admin/keys", "getKeys", Grant(Operator));
pub const ROTATE_KEYS: Route = Route::post("/v1/admin/keys/rotate", "rotateKeys", Grant(Operator));
pub const GET_RECOVERY_REPORT: Route =
    Route::get("/v1/admin/recovery-report", "getRecoveryReport", Grant(Operator));
pub const GET_HEALTH: Route = Route::get("/healthz", "getHealth", Nothing);
pub const GET_READINESS: Route = Route::get("/readyz", "getReadiness", Nothing);
pub const GET_METRICS: Route = Route::get("/metrics", "getMetrics", Grant(Operator));
pub const GET_OPENAPI: Route = Route::get("/openapi.json", "getOpenapi", Credential);

pub const APPEND_STREAM: Route = Route::post("/v1/append", "appendStream", Grant(Write));

pub const CREATE_BACKUP: Route = Route::post("/v1/admin/backup", "createBackup", Grant(Operator));

pub const EMIT_EVENT: Route =
    Route::post("/v1/sessions/{session}/events", "emitEvent", Grant(Write));
pub const GET_EVENTS: Route = Route::get("/v1/sessions/{session}/events", "getEvents", Grant(Read));
pub const REDACT_EVENT: Route =
    Route::post("/v1/sessions/{session}/events/{event}/redact", "redactEvent", Grant(Delete));

pub const FORK_SESSION: Route =
    Route::post("/v1/sessions/{session}/fork", "forkSession", Grant(Write));
pub const GET_LINEAGE: Route =
    Route::get("/v1/sessions/{session}/lineage", "getLineage", Grant(Read));
pub const DIFF_SESSION: Route =
    Route::get("/v1/sessions/{session}/diff", "diffSession", Grant(Read));

pub const HOLD_SESSION: Route =
    Route::put("/v1/sessions/{session}/hold", "holdSession", Grant(Admin));
pub const RELEASE_SESSION: Route =
    Route::delete("/v1/sessions/{session}/hold", "releaseSession", Grant(Admin));
pub const RESTORE_SESSION: Route =
    Route::post("/v1/sessions/{session}/restore", "restoreSession", Grant(Admin));
pub const GET_RETENTION: Route = Route::get("/v1/admin/retention", "getRetention", Grant(Admin));
pub const SWEEP_RETENTION: Route =
    Route::post("/v1/admin/retention", "sweepRetention", Grant(Admin));

pub const CREATE_SESSION: Route = Route::post("/v1/sessions", "createSession", Grant(Write));
pub const LIST_SESSIONS: Route = Route::get("/v1/sessions", "listSessions", Grant(Read));
pub const GET_SESSION: Route = Route::get("/v1/sessions/{session}", "getSession", Grant(Read));
pub const UPDATE_SESSION: Route =
    Route::post("/v1/sessions/{session}", "updateSession", Grant(Write));
pub const ARCHIVE_SESSION: Route =
    Route::post("/v1/sessions/{session}/archive", "archiveSession", Grant(Write));
pub const DELETE_SESSION: Route =
    Route::delete("/v1/sessions/{session}", "deleteSession", Grant(Delete));
pub const ERASE_SESSION: Route =
    Route::post("/v1/sessions/{session}/erase", "eraseSession", Grant(Delete));

pub const STREAM_EVENTS: Route =
    Route::get("/v1/sessions/{session}/events/stream", "streamEvents", Grant(Read));
pub const EXPORT_SESSION: Route =
    Route::get("/v1/sessions/{session}/export", "exportSession", Grant(Read));

pub const LIST_THREADS: Route =
    Route::get("/v1/sessions/{session}/threads", "listThreads", Grant(Read));
pub const GET_THREAD: Route =
    Route::get("/v1/sessions/{session}/threads/{name}", "getThread", Grant(Read));
pub const ARCHIVE_THREAD: Route =
    Route::post("/v1/sessions/{session}/threads/{name}/archive", "archiveThread", Grant(Write));
pub const GET_THREAD_EVENTS: Route =
    Route::get("/v1/sessions/{session}/threads/{name}/events", "getThreadEvents", Grant(Read));
pub const STREAM_THREAD: Route =
    Route::get("/v1/sessions/{session}/threads/{name}/stream", "streamThread", Grant(Read));
pub const LIST_RESOURCES: Route =
    Route::get("/v1/sessions/{session}/resources", "listResources", Grant(Read));
pub const ADD_RESOURCE: Route =
    Route::post("/v1/sessions/{session}/resources", "addResource", Grant(Write));
pub const GET_RESOURCE: Route =
    Route::get("/v1/sessions/{session}/resources/{name}", "getResource", Grant(Read));
pub const UPDATE_RESOURCE: Route =
    Route::post("/v1/sessions/{session}/resources/{name}", "updateResource", Grant(Write));
pub const DELETE_RESOURCE: Route =
    Route::delete("/v1/sessions/{session}/resources/{name}", "deleteResource", Grant(Delete));

pub const LOOKUP_TOOL_CACHE: Route =
    Route::post("/v1/sessions/{session}/tool-cache/lookup", "lookupToolCache", Grant(Read));
pub const VIEW_OUTPUTS: Route =
    Route::get("/v1/sessions/{session}/views/outputs", "viewOutputs", Grant(Read));

pub const CALL_TOOL: Route = Route::post("/v1/tools/{name}", "callTool", Credential);

pub const VIEW_WINDOW: Route =
    Route::get("/v1/sessions/{session}/views/window", "viewWindow", Grant(Read));
pub const VIEW_INDEX: Route =
    Route::get("/v1/sessions/{session}/views/index", "viewIndex", Grant(Read));
pub const VIEW_SUMMARY: Route =
    Route::get("/v1/sessions/{session}/views/summary", "viewSummary", Grant(Read));
pub const VIEW_STEP: Route =
    Route::get("/v1/sessions/{session}/views/steps/{number}", "viewStep", Grant(Read));
pub const VIEW_CONTINUATION: Route =
    Route::get("/v1/sessions/{session}/views/continuation", "viewContinuation", Grant(Read));
pub const VIEW_USAGE: Route =
    Route::get("/v1/sessions/{session}/views/usage", "viewUsage", Grant(Read));
pub const VIEW_COMPACTIONS: Route =
    Route::get("/v1/sessions/{session}/views/compactions", "viewCompactions", Grant(Read));

pub const PUT_CURSOR: Route =
    Route::put("/v1/sessions/{session}/cursors/{name}", "putCursor", Grant(Write));
pub const GET_CURSOR: Route =
    Route::get("/v1/sessions/{session}/cursors/{name}", "getCursor", Grant(Read));
pub const DELETE_CURSOR: Route =
    Route::delete("/v1/sessions/{session}/cursors/{name}", "deleteCursor", Grant(Write));
pub const LIST_CURSORS: Route =
    Route::get("/v1/sessions/{session}/cursors", "listCursors", Grant(Read));
pub const CREATE_CHECKPOINT: Route =
    Route::post("/v1/sessions/{session}/checkpoints", "createCheckpoint", Grant(Write));
pub const LIST_CHECKPOINTS: Route =
    Route::get("/v1/sessions/{session}/checkpoints", "listCheckpoints", Grant(Read));
pub const GET_CHECKPOINT: Route =
    Route::get("/v1/sessions/{session}/checkpoints/{name}", "getCheckpoint", Grant(Read));
pub const RESUME_CHECKPOINT: Route = Route::post(
    "/v1/sessions/{session}/checkpoints/{name}/resume",
    "resumeCheckpoint",
    Grant(Write),
);
pub const WAKE_SESSION: Route =
    Route::post("/v1/sessions/{session}/wake", "wakeSession", Grant(Write));
pub const RENEW_LEASE: Route =
    Route::post("/v1/sessions/{session}/lease/renew", "renewLease", Grant(Write));
pub const RELEASE_LEASE: Route =
    Route::delete("/v1/sessions/{session}/lease", "releaseLease", Grant(Write));
pub const GET_HISTORY: Route = Route::get("/v1/history", "getHistory", Grant(Read));

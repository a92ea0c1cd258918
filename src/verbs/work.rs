//! The verbs on the work on a session: cursors, checkpoints, leases, and the history. They must not
//! decide who may write.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, CheckpointPath, CursorPath, Fencing, NoParams, NoQuery, RequiredGrant, Route, Serve,
    SessionPath, Verb, VerbCall, Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset, check_bounds},
};
use crate::{
    api::work::{
        Checkpoint, CheckpointList, CheckpointState, CreateCheckpoint, Cursor, CursorDeleted,
        CursorList, HistoryAnswer, Lease, LeaseReleased, PutCursor, RenewRequest, ResumeAnswer,
        ResumeRequest, WakeAnswer, WakeRequest,
    },
    event::{Point, Position},
    service::{NewCheckpoint, ResumeCall, ServiceError, ServiceResult, values::parse_point},
    wire::tools::{lists, work as answers},
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<SetCursor>();
    visit.visit_verb::<GetCursor>();
    visit.visit_verb::<DeleteCursor>();
    visit.visit_verb::<ListCursors>();
    visit.visit_verb::<MakeCheckpoint>();
    visit.visit_verb::<ListCheckpoints>();
    visit.visit_verb::<GetCheckpoint>();
    visit.visit_verb::<ResumeCheckpoint>();
    visit.visit_verb::<WakeSession>();
    visit.visit_verb::<RenewLease>();
    visit.visit_verb::<ReleaseLease>();
    visit.visit_verb::<GetHistory>();
}

pub struct SetCursor;

impl Verb for SetCursor {
    const ROUTE: Route =
        Route::put("/v1/sessions/{session}/cursors/{name}", "putCursor", RequiredGrant::WRITE);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Sets a cursor: the position where a reader continues.";
    const ASKS: BodyUse = BodyUse::Maybe("The position or a point; the tail if omitted");
    const ANSWERS: &'static str = "The cursor, durable";
    type Params = CursorPath;
    type Query = NoQuery;
    type Body = PutCursor;
    type Answer = Cursor;
}

impl Serve for SetCursor {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Cursor> {
        let params = &call.params;
        let at = match (call.body.position, call.body.at.as_deref()) {
            (Some(_), Some(_)) => {
                return Err(ServiceError::invalid("at", "it takes the place of position"));
            }
            (Some(position), None) => Point::At(Position(position)),
            (None, at) => parse_point("at", at)?.unwrap_or(Point::End),
        };
        call.service.put_cursor(&call.caller, &params.session, &params.name, &at).await
    }
}

pub struct GetCursor;

impl Verb for GetCursor {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/cursors/{name}", "getCursor", RequiredGrant::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Position of a cursor.";
    const ANSWERS: &'static str = "The cursor";
    type Params = CursorPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Cursor;
}

impl Serve for GetCursor {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Cursor> {
        let params = &call.params;
        call.service.get_cursor(&call.caller, &params.session, &params.name).await
    }
}

pub struct DeleteCursor;

impl Verb for DeleteCursor {
    const ROUTE: Route = Route::delete(
        "/v1/sessions/{session}/cursors/{name}",
        "deleteCursor",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Deletes a cursor.";
    const ANSWERS: &'static str = "The cursor is deleted";
    type Params = CursorPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = CursorDeleted;
}

impl Serve for DeleteCursor {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CursorDeleted> {
        let params = call.params;
        call.service.delete_cursor(&call.caller, &params.session, &params.name).await?;
        Ok(CursorDeleted { name: params.name, kind: "cursor_deleted".to_owned() })
    }
}

pub struct ListCursors;

impl Verb for ListCursors {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/cursors", "listCursors", RequiredGrant::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Every cursor of a session, by name.";
    const ANSWERS: &'static str = "The cursors";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = CursorList;
}

impl Serve for ListCursors {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CursorList> {
        call.service.list_cursors(&call.caller, &call.params.session).await
    }
}

pub struct MakeCheckpoint;

impl Verb for MakeCheckpoint {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/checkpoints", "createCheckpoint", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Creates a checkpoint: a position to resume from, and what changed in the agent's state.";
    const ASKS: BodyUse = BodyUse::Maybe("Its label, thread and state");
    const KEY: Option<&'static str> = Some(
        "A retry with the same key creates no second \
                                            checkpoint",
    );
    const FENCE: Fencing = Fencing::WhenHeld;
    const STATUS: u16 = 201;
    const ANSWERS: &'static str = "The checkpoint, durable";
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<CreateCheckpoint>(
            "checkpoint",
            "Make a checkpoint",
            Toolset::Events,
            Self::ROUTE.need,
            &[
                Argument::session("Default: your own."),
                Argument::new("label", ""),
                Argument::new("thread", "A line of work of its own."),
                Argument::new("parent", "Id or label; default the last."),
                Argument::new("at", "Point; default end."),
                Argument::new("state", "Task, done, next: all of it."),
                Argument::new("stateDelta", "Instead: its changes (merge patch)."),
                Argument::new("final", "The work is done."),
                Argument::FENCE,
            ],
        )
        .with_about(
            "Before something risky, and when a part is done: marks a place to come back to, with \
             your state there.",
        )
        .for_session()
        .without_trust_marker()
        .with_large_arguments(),
    );
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = CreateCheckpoint;
    type Answer = Checkpoint;
}

impl Serve for MakeCheckpoint {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Checkpoint> {
        let at = parse_point("at", call.body.at.as_deref())?;
        let (asked, key) = (call.body, call.key);
        let new = NewCheckpoint { asked, at, key, ..NewCheckpoint::default() };
        Ok(call.service.create_checkpoint(&call.caller, &call.params.session, new).await?.0)
    }
}

impl ServeTool for CreateCheckpoint {
    type Answer = answers::CheckpointMade;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<Self::Answer> {
        let at = parse_point("at", self.at.as_deref())?;
        let (asked, key) = (self, call.key.cloned());
        let new = NewCheckpoint { asked, at, key, ..NewCheckpoint::default() };
        let made =
            call.service.create_checkpoint(&context.caller, context.expect_session(), new).await?;
        Ok(made.into())
    }
}

pub struct ListCheckpoints;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckpointsQuery {
    /// Maximum number of checkpoints: 100 by default, 1 000 at most
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// next_page of the previous answer
    pub page: Option<String>,
    /// Only checkpoints of this line of work
    pub thread: Option<String>,
}

impl Verb for ListCheckpoints {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/checkpoints", "listCheckpoints", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "The checkpoints of a session, the newest first, their states left out.";
    const ANSWERS: &'static str = "A page of checkpoints";
    type Params = SessionPath;
    type Query = CheckpointsQuery;
    type Body = ();
    type Answer = CheckpointList;
}

impl Serve for ListCheckpoints {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CheckpointList> {
        let (session, asked) = (&call.params.session, &call.query);
        let (page, thread) = (asked.page.as_deref(), asked.thread.as_deref());
        call.service.list_checkpoints(&call.caller, session, asked.limit, page, thread).await
    }
}

pub struct GetCheckpoint;

impl Verb for GetCheckpoint {
    const ROUTE: Route = Route::get(
        "/v1/sessions/{session}/checkpoints/{name}",
        "getCheckpoint",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "A checkpoint by its id or label, with the state and the plan there.";
    const ANSWERS: &'static str = "The checkpoint";
    type Params = CheckpointPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = CheckpointState;
}

impl Serve for GetCheckpoint {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CheckpointState> {
        let params = &call.params;
        call.service.get_checkpoint(&call.caller, &params.session, &params.name).await
    }
}

pub struct ResumeCheckpoint;

impl Verb for ResumeCheckpoint {
    const ROUTE: Route = Route::post(
        "/v1/sessions/{session}/checkpoints/{name}/resume",
        "resumeCheckpoint",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Resumes from a checkpoint, the last or any other: returns its \
                                 state and the events after it. The next checkpoint follows this \
                                 one.";
    const KEY: Option<&'static str> = Some("A retry with the same key resumes once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The checkpoint, and the one that the next one follows";
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<ResumeRequest>(
            "resume",
            "Resume from a checkpoint",
            Toolset::Events,
            Self::ROUTE.need,
            &[
                Argument::session("Default: your own."),
                Argument::new("checkpoint", "Id or label; default the last one."),
                Argument::new(
                    "wake",
                    "Take the session's lease: no other caller writes until it ends. With your \
                     token: renew it.",
                ),
                Argument::new("steal", "With wake: take the lease from its holder."),
                Argument::new("ttlSeconds", "With wake: its lifetime; default 300."),
                Argument::FENCE,
            ],
        )
        .with_about(
            "Resume from a checkpoint: the state and plan there, and the events after it. Any \
             checkpoint will do; nothing is removed. With wake: true a harness takes the session \
             up: it gets the lease, and what an earlier one left.",
        )
        .for_session(),
    );
    type Params = CheckpointPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = ResumeAnswer;
}

impl Serve for ResumeCheckpoint {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<ResumeAnswer> {
        let params = &call.params;
        let name = Some(params.name.as_str());
        call.service.resume(&call.caller, &params.session, name, call.key).await
    }
}

impl ServeTool for ResumeRequest {
    type Answer = answers::ResumedOut;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<Self::Answer> {
        let Self { checkpoint, wake, steal, ttl_seconds } = self;
        let alone = [("steal", steal), ("ttl_seconds", ttl_seconds.is_some())];
        if let Some((field, _)) = alone.into_iter().find(|(_, said)| *said && !wake) {
            let problem = "it says how to take the lease, which goes with wake";
            return Err(ServiceError::invalid(field, problem).action("send wake: true with it"));
        }
        let wake = wake.then_some(WakeRequest { steal, ttl_seconds });
        let asked = ResumeCall { checkpoint, wake, key: call.key.cloned() };
        Ok(call
            .service
            .resume_session(&context.caller, context.expect_session(), asked)
            .await?
            .into())
    }
}

pub struct WakeSession;

impl Verb for WakeSession {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/wake", "wakeSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Acquires the lease of a session, and returns its state and what an earlier harness left \
         unfinished.";
    const ASKS: BodyUse =
        BodyUse::Maybe("Whether to take the lease from its holder, and its lifetime");
    const KEY: Option<&'static str> =
        Some("A retry with the same key, while the lease is held, returns the same lease");
    const ANSWERS: &'static str = "The lease, durable, and the state to continue from";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = WakeRequest;
    type Answer = WakeAnswer;
}

impl Serve for WakeSession {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<WakeAnswer> {
        let (session, key) = (&call.params.session, call.key.as_ref());
        call.service.wake(&call.caller, session, &call.body, key).await
    }
}

pub struct RenewLease;

impl Verb for RenewLease {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/lease/renew", "renewLease", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Extends a lease.";
    const ASKS: BodyUse = BodyUse::Maybe("Its new lifetime");
    const FENCE: Fencing = Fencing::Needed;
    const ANSWERS: &'static str = "The lease as it is now, durable";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = RenewRequest;
    type Answer = Lease;
}

impl Serve for RenewLease {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Lease> {
        call.service.renew_lease(&call.caller, &call.params.session, &call.body).await
    }
}

pub struct ReleaseLease;

impl Verb for ReleaseLease {
    const ROUTE: Route =
        Route::delete("/v1/sessions/{session}/lease", "releaseLease", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Releases a lease before it expires.";
    const FENCE: Fencing = Fencing::Needed;
    const ANSWERS: &'static str = "The lease is released: any client may write";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = LeaseReleased;
}

impl Serve for ReleaseLease {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<LeaseReleased> {
        let session = &call.params.session;
        call.service.release_lease(&call.caller, session).await?;
        let kind = "lease_released".to_owned();
        Ok(LeaseReleased { session: session.to_string(), kind })
    }
}

pub struct GetHistory;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryQuery {
    /// Only sessions of this workspace
    pub workspace: Option<String>,
    /// Maximum number of sessions: 20 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
}

impl Verb for GetHistory {
    const ROUTE: Route = Route::get("/v1/history", "getHistory", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Recent sessions, the starting point for the next one, and unfinished work.";
    const ANSWERS: &'static str = "The sessions written to last";
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<HistoryQuery>(
            "review_history",
            "Review history",
            Toolset::Research,
            Self::ROUTE.need,
            &[
                Argument::new("limit", "1 to 5.").with_max(HISTORY_MAX),
                Argument::new("workspace", "Only of this directory or project."),
            ],
        )
        .with_about(
            "What the sessions written to last were for and where they stand, what to start from, \
             and which were left unfinished.",
        ),
    );
    type Params = NoParams;
    type Query = HistoryQuery;
    type Body = ();
    type Answer = HistoryAnswer;
}

impl Serve for GetHistory {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<HistoryAnswer> {
        let HistoryQuery { workspace, limit } = call.query;
        Ok(call.service.history(&call.caller, workspace.as_ref(), limit).await?.into())
    }
}

/// Maximum number of sessions that the tool shows.
const HISTORY_MAX: usize = 5;

impl ServeTool for HistoryQuery {
    type Answer = lists::PastSessions;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<Self::Answer> {
        let limit = check_bounds("limit", self.limit, HISTORY_MAX, HISTORY_MAX)?;
        let history = call.service.history(call.caller, self.workspace.as_ref(), Some(limit));
        Ok(history.await?.into())
    }
}

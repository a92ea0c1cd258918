//! The verbs on the work on a session: cursors, checkpoints, leases, and the history. They must not
//! decide who may write.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, Fencing, InCheckpoint, InCursor, InSession, Need, NoQuery, Nowhere, Route, Serve, Verb,
    VerbCall, Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset, bounded},
};
use crate::{
    api::work::{
        Checkpoint, CheckpointList, CheckpointState, CreateCheckpoint, Cursor, CursorDeleted,
        CursorList, HistoryAnswer, Lease, LeaseReleased, PutCursor, RenewRequest, ResumeAnswer,
        TakeUpRequest, WakeAnswer, WakeRequest,
    },
    event::{Point, Position},
    service::{NewCheckpoint, ServiceError, ServiceResult, TakeUp, values::point},
    wire::tools::{lists, work as answers},
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<SetCursor>();
    visit.verb::<GetCursor>();
    visit.verb::<DropCursor>();
    visit.verb::<ListCursors>();
    visit.verb::<MakeCheckpoint>();
    visit.verb::<ListCheckpoints>();
    visit.verb::<GetCheckpoint>();
    visit.verb::<ResumeCheckpoint>();
    visit.verb::<WakeSession>();
    visit.verb::<RenewLease>();
    visit.verb::<ReleaseLease>();
    visit.verb::<History>();
}

pub struct SetCursor;

impl Verb for SetCursor {
    const ROUTE: Route =
        Route::put("/v1/sessions/{session}/cursors/{name}", "putCursor", Need::WRITE);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Sets a cursor: the position where a reader continues.";
    const ASKS: Asks = Asks::Maybe("The position or a point; the tail when absent");
    const ANSWERS: &'static str = "The cursor, durable";
    type Params = InCursor;
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
            (None, at) => point("at", at)?.unwrap_or(Point::End),
        };
        call.service.put_cursor(&call.caller, &params.session, &params.name, &at).await
    }
}

pub struct GetCursor;

impl Verb for GetCursor {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/cursors/{name}", "getCursor", Need::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Where a cursor is.";
    const ANSWERS: &'static str = "The cursor";
    type Params = InCursor;
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

pub struct DropCursor;

impl Verb for DropCursor {
    const ROUTE: Route =
        Route::delete("/v1/sessions/{session}/cursors/{name}", "deleteCursor", Need::WRITE);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Deletes a cursor.";
    const ANSWERS: &'static str = "The cursor is deleted";
    type Params = InCursor;
    type Query = NoQuery;
    type Body = ();
    type Answer = CursorDeleted;
}

impl Serve for DropCursor {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CursorDeleted> {
        let params = call.params;
        call.service.delete_cursor(&call.caller, &params.session, &params.name).await?;
        Ok(CursorDeleted { name: params.name, kind: "cursor_deleted".to_owned() })
    }
}

pub struct ListCursors;

impl Verb for ListCursors {
    const ROUTE: Route = Route::get("/v1/sessions/{session}/cursors", "listCursors", Need::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Every cursor of a session, by name.";
    const ANSWERS: &'static str = "The cursors";
    type Params = InSession;
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
        Route::post("/v1/sessions/{session}/checkpoints", "createCheckpoint", Need::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Creates a checkpoint: a position to resume from, and what changed in the agent's state.";
    const ASKS: Asks = Asks::Maybe("Its label, thread and state");
    const KEY: Option<&'static str> = Some(
        "A retry with the same key creates no second \
                                            checkpoint",
    );
    const FENCE: Fencing = Fencing::WhenHeld;
    const STATUS: u16 = 201;
    const ANSWERS: &'static str = "The checkpoint, durable";
    const TOOL: Option<Tool> = Some(
        Tool::asking::<CreateCheckpoint>(
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
        .about(
            "Before something risky, and when a part is done: marks a place to come back to, with \
             your state there.",
        )
        .in_session()
        .unmarked()
        .carrying(),
    );
    type Params = InSession;
    type Query = NoQuery;
    type Body = CreateCheckpoint;
    type Answer = Checkpoint;
}

impl Serve for MakeCheckpoint {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Checkpoint> {
        let at = point("at", call.body.at.as_deref())?;
        let (asked, key) = (call.body, call.key);
        let new = NewCheckpoint { asked, at, key, ..NewCheckpoint::default() };
        Ok(call.service.checkpoint(&call.caller, &call.params.session, new).await?.0)
    }
}

impl ServeTool for CreateCheckpoint {
    type Answer = answers::CheckpointMade;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        meant: CallContext,
    ) -> ServiceResult<Self::Answer> {
        let at = point("at", self.at.as_deref())?;
        let (asked, key) = (self, call.key.cloned());
        let new = NewCheckpoint { asked, at, key, ..NewCheckpoint::default() };
        let made = call.service.checkpoint(&meant.caller, meant.in_session(), new).await?;
        Ok(made.into())
    }
}

pub struct ListCheckpoints;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckpointsQuery {
    /// Checkpoints at most: 100 by default, 1 000 at most
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// next_page of the answer before
    pub page: Option<String>,
    /// Only of this line of work
    pub thread: Option<String>,
}

impl Verb for ListCheckpoints {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/checkpoints", "listCheckpoints", Need::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "The checkpoints of a session, the newest first, their states left out.";
    const ANSWERS: &'static str = "A page of checkpoints";
    type Params = InSession;
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
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/checkpoints/{name}", "getCheckpoint", Need::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "A checkpoint by its id or label, with the state and the plan there.";
    const ANSWERS: &'static str = "The checkpoint";
    type Params = InCheckpoint;
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
        Need::WRITE,
    );
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Resumes from a checkpoint, the last or any other: returns its \
                                 state and the events after it. The next checkpoint follows this \
                                 one.";
    const KEY: Option<&'static str> = Some("A retry with the same key resumes once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The checkpoint, and the one that the next one follows";
    const TOOL: Option<Tool> = Some(
        Tool::asking::<TakeUpRequest>(
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
        .about(
            "Resume from a checkpoint: the state and plan there, and the events after it. Any \
             checkpoint will do; nothing is removed. With wake: true a harness takes the session \
             up: it gets the lease, and what an earlier one left.",
        )
        .in_session(),
    );
    type Params = InCheckpoint;
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

impl ServeTool for TakeUpRequest {
    type Answer = answers::Resumed;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        meant: CallContext,
    ) -> ServiceResult<Self::Answer> {
        let Self { checkpoint, wake, steal, ttl_seconds } = self;
        let alone = [("steal", steal), ("ttl_seconds", ttl_seconds.is_some())];
        if let Some((field, _)) = alone.into_iter().find(|(_, said)| *said && !wake) {
            let problem = "it says how to take the lease, which goes with wake";
            return Err(ServiceError::invalid(field, problem).action("send wake: true with it"));
        }
        let wake = wake.then_some(WakeRequest { steal, ttl_seconds });
        let asked = TakeUp { checkpoint, wake, key: call.key.cloned() };
        Ok(call.service.take_up(&meant.caller, meant.in_session(), asked).await?.into())
    }
}

pub struct WakeSession;

impl Verb for WakeSession {
    const ROUTE: Route = Route::post("/v1/sessions/{session}/wake", "wakeSession", Need::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Acquires the lease of a session, and returns its state and what an earlier harness left \
         unfinished.";
    const ASKS: Asks = Asks::Maybe("Whether to take the lease from its holder, and its lifetime");
    const KEY: Option<&'static str> =
        Some("A retry with the same key, while the lease is held, returns the same lease");
    const ANSWERS: &'static str = "The lease, durable, and what to continue from";
    type Params = InSession;
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
        Route::post("/v1/sessions/{session}/lease/renew", "renewLease", Need::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Extends a lease.";
    const ASKS: Asks = Asks::Maybe("Its new lifetime");
    const FENCE: Fencing = Fencing::Needed;
    const ANSWERS: &'static str = "The lease as it is now, durable";
    type Params = InSession;
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
    const ROUTE: Route = Route::delete("/v1/sessions/{session}/lease", "releaseLease", Need::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Releases a lease before it expires.";
    const FENCE: Fencing = Fencing::Needed;
    const ANSWERS: &'static str = "The lease is released: any client may write";
    type Params = InSession;
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

pub struct History;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryQuery {
    /// Only of this workspace
    pub workspace: Option<String>,
    /// Sessions at most: 20 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
}

impl Verb for History {
    const ROUTE: Route = Route::get("/v1/history", "getHistory", Need::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Recent sessions, what a next session starts from, and work that was not ended.";
    const ANSWERS: &'static str = "The sessions written to last";
    const TOOL: Option<Tool> = Some(
        Tool::asking::<HistoryQuery>(
            "review_history",
            "Review history",
            Toolset::Research,
            Self::ROUTE.need,
            &[
                Argument::new("limit", "1 to 5.").at_most(HISTORY_MAX),
                Argument::new("workspace", "Only of this directory or project."),
            ],
        )
        .about(
            "What the sessions written to last were for and where they stand, what to start from, \
             and which were left unfinished.",
        ),
    );
    type Params = Nowhere;
    type Query = HistoryQuery;
    type Body = ();
    type Answer = HistoryAnswer;
}

impl Serve for History {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<HistoryAnswer> {
        let HistoryQuery { workspace, limit } = call.query;
        Ok(call.service.history(&call.caller, workspace.as_ref(), limit).await?.into())
    }
}

/// Sessions that the tool shows.
const HISTORY_MAX: usize = 5;

impl ServeTool for HistoryQuery {
    type Answer = lists::PastSessions;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<Self::Answer> {
        let limit = bounded("limit", self.limit, HISTORY_MAX, HISTORY_MAX)?;
        let history = call.service.history(call.caller, self.workspace.as_ref(), Some(limit));
        Ok(history.await?.into())
    }
}

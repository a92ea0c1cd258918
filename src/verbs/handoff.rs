//! The verbs that hand a session over to the one that continues it, and the tools by which a model
//! does that. They must not choose the session: service does.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, Fencing, Media, NoQuery, RequiredGrant, Route, Serve, Verb, VerbCall, Visit,
    WorkspacePath,
    tools::{Argument, CallContext, FrontEndPart, ServeTool, Tool, ToolCall, Toolset},
    views::{FormatQuery, TEXT_TOO, is_text},
};
use crate::{
    api::handoff::{
        Chain, LooksAnswer, LooksRequest, MoveRequest, MovedAnswer, RestoreRequest, RestoredAnswer,
        SaveRequest, SavedAnswer, StartRequest, StartedAnswer,
    },
    event::SessionId,
    service::{BoundBy, ServiceError, ServiceResult, values},
    wire::tools::handoff::{SessionDeletedOut, SessionDetails},
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<SaveWork>();
    visit.visit_verb::<RestoreWork>();
    visit.visit_verb::<RecordLooks>();
    visit.visit_verb::<StartWork>();
    visit.visit_verb::<MoveWorkspace>();
    visit.visit_verb::<GetChain>();
    visit.visit_tool(SAVE);
    visit.visit_tool(RESTORE);
    visit.visit_tool(GET);
    visit.visit_tool(DELETE);
}

const SAVE: Tool = Tool::for_request::<SaveRequest>(
    "save_session",
    "Save the session",
    Toolset::Workspace,
    RequiredGrant::WRITE,
    &[
        Argument::workspace("workspaceId", "Left out: the workspace of your directory."),
        Argument::session("Left out: the bound session, else a new one."),
        Argument::new("conversationContext", "Where the work stands, in your words."),
        Argument::new("tokenCount", "Tokens of your context."),
        Argument::new("contextItems", "What must not be lost."),
        Argument::new("fileReferences", "Files that matter."),
        Argument::new("workspaceState", "Any object."),
        Argument::FENCE,
    ],
)
.with_about(
    "Save what the next session needs, before the context is full or the work pauses. Everything \
     recorded is kept anyway: a call without content is enough. Say in conversationContext where \
     the work stands, and in contextItems what must not be lost.",
)
.with_front_end_part(FrontEndPart::Save);

const RESTORE: Tool = Tool::for_request::<RestoreRequest>(
    "restore_session",
    "Restore a session",
    Toolset::Workspace,
    RequiredGrant::WRITE,
    &[
        Argument::workspace("workspaceId", "Left out: the workspace of your directory."),
        Argument::session("Left out: the one saved last, else the latest with work."),
        Argument::new("tokenBudget", "Tokens of the answer; default 4000.")
            .for_member("tokens_max"),
        Argument::new("priorityThreshold", "Least importance of a context item; default 3."),
        Argument::new("maxContextItems", "Context items at most; default 50."),
        Argument::new("summarize", "false: texts whole or not at all."),
        Argument::new("algorithm", "hybrid, recency, importance or vector."),
        Argument::new("create", "false: only look, begin no session."),
        Argument::new("explain", "Say why each item was chosen."),
        Argument::FENCE,
    ],
)
.with_about(
    "Continue earlier work of a workspace: its task, instructions, plan, open questions, \
     failures, changes, files, within tokenBudget. Record in the sessionId that it answers. \
     leftOut names what did not fit.",
)
.with_front_end_part(FrontEndPart::Restore)
.repeatable();

const GET: Tool = Tool::for_request::<DetailsRequest>(
    "get_session",
    "Look at a session",
    Toolset::Workspace,
    RequiredGrant::READ,
    &[Argument::session("Default: your own.")],
)
.with_about(
    "A session: title, workspace, size, state in a text, the session that it continues and those \
     that continue it.",
);

const DELETE: Tool = Tool::for_request::<DeleteRequest>(
    "delete_session",
    "Delete a session",
    Toolset::Workspace,
    RequiredGrant::DELETE,
    &[Argument::session("").required()],
)
.with_about(
    "Delete a session: hidden at once, and removed when its grace ends. Only when the user asks \
     for it.",
)
.without_trust_marker();

pub struct SaveWork;

impl Verb for SaveWork {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/save", "saveSession", RequiredGrant::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Saves a session of a workspace for the one that continues it: \
                                 context items, files, the state of the workspace and a \
                                 checkpoint, in one batch.";
    const ASKS: BodyUse = BodyUse::Maybe("Context to save in addition to the log");
    const KEY: Option<&'static str> = Some("A retry with the same key saves once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The saved session, durable";
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = SaveRequest;
    type Answer = SavedAnswer;
}

impl Serve for SaveWork {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SavedAnswer> {
        let workspace = &call.params.workspace;
        call.service.save_session(&call.caller, workspace, call.body, call.key).await
    }
}

pub struct RestoreWork;

impl Verb for RestoreWork {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/restore", "restoreWork", RequiredGrant::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Restores the work of a session within a budget of tokens, and \
                                 makes the session that continues it.";
    const ASKS: BodyUse = BodyUse::Maybe("The session, and limits of the answer");
    const KEY: Option<&'static str> = Some("A retry with the same key returns the same session");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "State of the work, and the session that continues it";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = WorkspacePath;
    type Query = FormatQuery;
    type Body = RestoreRequest;
    type Answer = RestoredAnswer;

    fn text(answer: &RestoredAnswer) -> Option<&str> {
        answer.text.as_deref()
    }
}

impl Serve for RestoreWork {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RestoredAnswer> {
        let is_text = is_text(call.query.format.as_deref())?;
        let (workspace, key) = (&call.params.workspace, call.key);
        call.service.restore_work(&call.caller, workspace, call.body, key, is_text).await
    }
}

pub struct StartWork;

impl Verb for StartWork {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/start", "startWork", RequiredGrant::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Returns a text for a session that begins in a workspace: items \
                                 remembered there, the state of the last work, and what other \
                                 sessions did. Links it to the session that it continues.";
    const ASKS: BodyUse = BodyUse::Maybe("The session that begins, and the size of its text");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The text; empty if there is nothing to report";
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = StartRequest;
    type Answer = StartedAnswer;
}

impl Serve for StartWork {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<StartedAnswer> {
        call.service.start_work(&call.caller, &call.params.workspace, call.body).await
    }
}

pub struct RecordLooks;

impl Verb for RecordLooks {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/looks", "recordLooks", RequiredGrant::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Records inspections by a front end of files of a restore: in \
                                 the session that continues the work, or in the notebook of the \
                                 workspace.";
    const ASKS: BodyUse = BodyUse::Body("The inspections");
    const KEY: Option<&'static str> = Some("A retry with the same key records once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "Location of the records, durable";
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = LooksRequest;
    type Answer = LooksAnswer;
}

impl Serve for RecordLooks {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<LooksAnswer> {
        let workspace = &call.params.workspace;
        call.service.record_file_checks(&call.caller, workspace, call.body, call.key).await
    }
}

pub struct MoveWorkspace;

impl Verb for MoveWorkspace {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/move", "moveWorkspace", RequiredGrant::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Gives all that a workspace has to another name of it, because \
                                 its directory was moved: sessions, memory, graph. Repeated, it \
                                 moves what is left.";
    const ASKS: BodyUse = BodyUse::Body("The new name");
    const ANSWERS: &'static str = "Numbers of sessions and notebooks moved, durable, and the rest";
    const TOOL: Option<Tool> = Some(
        Tool::for_verb::<Self>("move_workspace", "Move a workspace", Toolset::Workspace)
            .with_arguments(&[
                Argument::workspace("workspace", "The workspace: a directory or another name.")
                    .required(),
                Argument::new(
                    "to",
                    "Its new name: the whole path of the directory, or another name",
                ),
                Argument::FENCE,
            ]),
    );
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = MoveRequest;
    type Answer = MovedAnswer;
}

impl Serve for MoveWorkspace {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<MovedAnswer> {
        let (from, to) = (&call.params.workspace, &call.body.to);
        call.service.move_workspace(&call.caller, from, to).await
    }
}

pub struct GetChain;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChainQuery {
    /// Id of the session; if omitted, the one that a restore would choose
    pub session: Option<String>,
}

impl Verb for GetChain {
    const ROUTE: Route =
        Route::get("/v1/workspaces/{workspace}/chain", "getChain", RequiredGrant::READ);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "The sessions that a session continues, and those that continue \
                                 it, the first one first.";
    const ANSWERS: &'static str = "The sessions";
    type Params = WorkspacePath;
    type Query = ChainQuery;
    type Body = ();
    type Answer = Chain;
}

impl Serve for GetChain {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Chain> {
        let session = values::parse_session("session", call.query.session.as_deref())?;
        let workspace = &call.params.workspace;
        let chain = call.service.get_chain(&call.caller, workspace, session.as_ref()).await?;
        Ok(Chain { data: chain.into_iter().map(Into::into).collect() })
    }
}

/// Returns the workspace that an argument names, else that of the bound session, or of the caller's
/// directory.
async fn resolve_workspace(
    call: &ToolCall<'_>,
    mut workspace: Option<String>,
    bound: Option<&SessionId>,
) -> ServiceResult<String> {
    if let (None, Some(bound)) = (&workspace, bound) {
        let info = call.service.get_session(call.caller, bound).await;
        workspace = info.ok().and_then(|info| info.workspace);
    }
    workspace.or_else(|| call.via.workspace()).ok_or_else(|| {
        ServiceError::invalid("workspaceId", "it is missing")
            .action("name the workspace; list_sessions shows the workspace of each session")
    })
}

impl ServeTool for SaveRequest {
    type Answer = SavedAnswer;

    async fn serve_tool(
        mut self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<SavedAnswer> {
        let CallContext { caller, mut session, workspace, .. } = context;
        let bound = call.find_current_session().await?.map(|(bound, _)| bound);
        let known = session.as_ref().or(bound.as_ref());
        let workspace = resolve_workspace(&call, workspace, known).await?;
        if session.is_none()
            && let Some(bound) = bound
            && call.service.is_in_workspace(&caller, &workspace, &bound).await
        {
            session = Some(bound);
        }
        self.session_id = session.map(|session| session.to_string());
        let saved = call.service.save_session(&caller, &workspace, self, call.key.cloned()).await?;
        call.service.bind(call.caller, call.via, &saved.session_id);
        Ok(saved)
    }
}

impl ServeTool for RestoreRequest {
    type Answer = RestoredAnswer;

    async fn serve_tool(
        mut self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<RestoredAnswer> {
        let CallContext { caller, session, workspace, .. } = context;
        let bound = call.find_current_session().await?;
        let known = session.as_ref().or(bound.as_ref().map(|(bound, _)| bound));
        let workspace = resolve_workspace(&call, workspace, known).await?;
        if let Some((bound, by)) = bound {
            // The last session of a connection is not necessarily the caller's current one, unless
            // nothing was done in it yet.
            let is_own = match by {
                BoundBy::Connection => call.service.is_unused(&caller, &bound).await,
                // A caller that just saved a session has left it.
                BoundBy::Directory => !call.service.is_just_saved(&caller, &bound).await,
                _ => true,
            };
            // A session of another workspace does not become the successor.
            let is_here = call.service.is_in_workspace(&caller, &workspace, &bound).await;
            self.successor_id = (is_own && is_here).then(|| bound.to_string());
        }
        self.session_id = session.map(|session| session.to_string());
        let key = call.key.cloned();
        let restored = call.service.restore_work(&caller, &workspace, self, key, true).await?;
        if let Some(session) = &restored.session_id {
            call.service.bind(call.caller, call.via, session);
        }
        Ok(restored)
    }
}

/// Request for the details of a session.
#[derive(Debug, Deserialize, JsonSchema)]
struct DetailsRequest {}

impl ServeTool for DetailsRequest {
    type Answer = SessionDetails;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<SessionDetails> {
        let named = context.session.as_ref();
        let (session, _) = call.service.resolve_session(call.caller, call.via, named).await?;
        let (link, past, tokens) = call.service.session_details(call.caller, &session).await?;
        let usage = call.service.usage(call.caller, &session, None).await?;
        Ok(SessionDetails::new(&link, past, tokens, usage.context))
    }
}

/// Request to delete a session.
#[derive(Debug, Deserialize, JsonSchema)]
struct DeleteRequest {}

impl ServeTool for DeleteRequest {
    type Answer = SessionDeletedOut;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<SessionDeletedOut> {
        let until =
            call.service.delete_session(&context.caller, context.expect_session(), false).await?;
        Ok(SessionDeletedOut::new(context.expect_session(), until))
    }
}

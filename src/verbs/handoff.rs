//! The verbs that hand a session to the one that continues it, and the tools by which a model does
//! that. They must not decide which session is meant: service does.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, Fencing, InWorkspace, Media, Need, NoQuery, Route, Serve, Verb, VerbCall, Visit,
    tools::{Argument, AtFront, CallContext, ServeTool, Tool, ToolCall, Toolset},
    views::{FormatQuery, TEXT_TOO, is_text},
};
use crate::{
    api::handoff::{
        Chain, LooksAnswer, LooksRequest, MoveRequest, MovedAnswer, RestoreRequest, RestoredAnswer,
        SaveRequest, SavedAnswer, StartRequest, StartedAnswer,
    },
    event::SessionId,
    service::{BoundBy, ServiceError, ServiceResult, values},
    wire::tools::handoff::{SessionDeleted, SessionDetails},
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<Save>();
    visit.verb::<RestoreWork>();
    visit.verb::<RecordLooks>();
    visit.verb::<StartWork>();
    visit.verb::<MoveWorkspace>();
    visit.verb::<GetChain>();
    visit.tool(SAVE);
    visit.tool(RESTORE);
    visit.tool(GET);
    visit.tool(DELETE);
}

const SAVE: Tool = Tool::asking::<SaveRequest>(
    "save_session",
    "Save the session",
    Toolset::Workspace,
    Need::WRITE,
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
.about(
    "Save what the next session needs, before the context is full or the work pauses. Everything \
     recorded is kept anyway: a call without content is enough. Say in conversationContext where \
     the work stands, and in contextItems what must not be lost.",
)
.with_front(AtFront::Save);

const RESTORE: Tool = Tool::asking::<RestoreRequest>(
    "restore_session",
    "Restore a session",
    Toolset::Workspace,
    Need::WRITE,
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
.about(
    "Continue earlier work of a workspace: its task, instructions, plan, open questions, \
     failures, changes, files, within tokenBudget. Record in the sessionId that it answers. \
     leftOut names what did not fit.",
)
.with_front(AtFront::Restore)
.repeatable();

const GET: Tool = Tool::asking::<DetailsRequest>(
    "get_session",
    "Look at a session",
    Toolset::Workspace,
    Need::READ,
    &[Argument::session("Default: your own.")],
)
.about(
    "A session: title, workspace, size, state in a text, the session that it continues and those \
     that continue it.",
);

const DELETE: Tool = Tool::asking::<DeleteRequest>(
    "delete_session",
    "Delete a session",
    Toolset::Workspace,
    Need::DELETE,
    &[Argument::session("").required()],
)
.about(
    "Delete a session: hidden at once, and removed when its grace ends. Only when the user asks \
     for it.",
)
.unmarked();

pub struct Save;

impl Verb for Save {
    const ROUTE: Route = Route::post("/v1/workspaces/{workspace}/save", "saveSession", Need::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Saves a session of a workspace for the one that continues it: \
                                 context items, files, the state of the workspace and a \
                                 checkpoint, in one batch.";
    const ASKS: Asks = Asks::Maybe("What to save beside the log, which has everything else");
    const KEY: Option<&'static str> = Some("A retry with the same key saves once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The saved session, durable";
    type Params = InWorkspace;
    type Query = NoQuery;
    type Body = SaveRequest;
    type Answer = SavedAnswer;
}

impl Serve for Save {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SavedAnswer> {
        let workspace = &call.params.workspace;
        call.service.save_session(&call.caller, workspace, call.body, call.key).await
    }
}

pub struct RestoreWork;

impl Verb for RestoreWork {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/restore", "restoreWork", Need::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Restores the work of a session within a budget of tokens, and \
                                 makes the session that continues it.";
    const ASKS: Asks = Asks::Maybe("Which session, and how much of it");
    const KEY: Option<&'static str> = Some("A retry with the same key answers the same session");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "What is known of the work, and the session that continues it";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = InWorkspace;
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
    const ROUTE: Route = Route::post("/v1/workspaces/{workspace}/start", "startWork", Need::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Tells a session that begins in a workspace what is remembered \
                                 there, where the last work stands and what other sessions did, \
                                 in a text; and links it to the session that it continues.";
    const ASKS: Asks = Asks::Maybe("Which session begins, and how much it receives");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The text; empty where there is nothing to tell";
    type Params = InWorkspace;
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
        Route::post("/v1/workspaces/{workspace}/looks", "recordLooks", Need::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Records the looks of a front end at the files of a restore: in \
                                 the session that continues the work, or in the notebook of the \
                                 workspace.";
    const ASKS: Asks = Asks::Body("The looks");
    const KEY: Option<&'static str> = Some("A retry with the same key records once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "Where they were recorded, durable";
    type Params = InWorkspace;
    type Query = NoQuery;
    type Body = LooksRequest;
    type Answer = LooksAnswer;
}

impl Serve for RecordLooks {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<LooksAnswer> {
        let workspace = &call.params.workspace;
        call.service.record_looks(&call.caller, workspace, call.body, call.key).await
    }
}

pub struct MoveWorkspace;

impl Verb for MoveWorkspace {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/move", "moveWorkspace", Need::WRITE);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "Gives all that a workspace has to another name of it, because \
                                 its directory was moved: sessions, memory, graph. Repeated, it \
                                 moves what is left.";
    const ASKS: Asks = Asks::Body("The new name");
    const ANSWERS: &'static str = "What was moved, durable";
    const TOOL: Option<Tool> = Some(
        Tool::of::<Self>("move_workspace", "Move a workspace", Toolset::Workspace).takes(&[
            Argument::workspace("workspace", "The workspace: a directory or another name.")
                .required(),
            Argument::new("to", "Its new name: the whole path of the directory, or another name"),
            Argument::FENCE,
        ]),
    );
    type Params = InWorkspace;
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
    /// The session; left out: the one that a restore would choose
    pub session: Option<String>,
}

impl Verb for GetChain {
    const ROUTE: Route = Route::get("/v1/workspaces/{workspace}/chain", "getChain", Need::READ);
    const TAG: &'static str = "handoff";
    const ABOUT: &'static str = "The sessions that a session continues, and those that continue \
                                 it, the first one first.";
    const ANSWERS: &'static str = "The sessions";
    type Params = InWorkspace;
    type Query = ChainQuery;
    type Body = ();
    type Answer = Chain;
}

impl Serve for GetChain {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Chain> {
        let session = values::session("session", call.query.session.as_deref())?;
        let workspace = &call.params.workspace;
        let chain = call.service.chain(&call.caller, workspace, session.as_ref()).await?;
        Ok(Chain { data: chain.into_iter().map(Into::into).collect() })
    }
}

/// Returns the workspace that an argument names, else that of the bound session, or of the caller's
/// directory.
async fn workspace_of(
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
        meant: CallContext,
    ) -> ServiceResult<SavedAnswer> {
        let CallContext { caller, mut session, workspace, .. } = meant;
        let bound = call.at_work().await?.map(|(bound, _)| bound);
        let known = session.as_ref().or(bound.as_ref());
        let workspace = workspace_of(&call, workspace, known).await?;
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
        meant: CallContext,
    ) -> ServiceResult<RestoredAnswer> {
        let CallContext { caller, session, workspace, .. } = meant;
        let bound = call.at_work().await?;
        let known = session.as_ref().or(bound.as_ref().map(|(bound, _)| bound));
        let workspace = workspace_of(&call, workspace, known).await?;
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

/// A session to look at.
#[derive(Debug, Deserialize, JsonSchema)]
struct DetailsRequest {}

impl ServeTool for DetailsRequest {
    type Answer = SessionDetails;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        meant: CallContext,
    ) -> ServiceResult<SessionDetails> {
        let named = meant.session.as_ref();
        let (session, _) = call.service.bound(call.caller, call.via, named).await?;
        let (link, past, tokens) = call.service.session_details(call.caller, &session).await?;
        let usage = call.service.usage(call.caller, &session, None).await?;
        Ok(SessionDetails::new(&link, past, tokens, usage))
    }
}

/// A session to delete.
#[derive(Debug, Deserialize, JsonSchema)]
struct DeleteRequest {}

impl ServeTool for DeleteRequest {
    type Answer = SessionDeleted;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        meant: CallContext,
    ) -> ServiceResult<SessionDeleted> {
        let until = call.service.delete_session(&meant.caller, meant.in_session(), false).await?;
        Ok(SessionDeleted::new(meant.in_session(), until))
    }
}

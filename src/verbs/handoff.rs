//! The verbs that hand a session to the one that continues it, and the tools by which a model does
//! that. They must not decide which session is meant: service does.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, Fencing, InWorkspace, Media, Need, NoQuery, Route, Serve, Verb, VerbCall, Visit,
    tools::{Camel, ServeTool, Tool, ToolCall, Toolset, renamed},
    views::{FormatQuery, TEXT_TOO, is_text},
};
use crate::{
    api::handoff::{
        Chain, LooksAnswer, LooksRequest, MoveRequest, MovedAnswer, RestoreRequest, RestoredAnswer,
        SaveRequest, SavedAnswer, StartRequest, StartedAnswer,
    },
    event::SessionId,
    service::{BoundBy, Code, ServiceError, ServiceResult, values},
    wire::tools::handoff::{
        DeleteSession, GetSession, RestoreSession, SaveSession, SessionDeleted, SessionDetails,
    },
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<Save>();
    visit.verb::<RestoreWork>();
    visit.verb::<RecordLooks>();
    visit.verb::<StartWork>();
    visit.verb::<MoveWorkspace>();
    visit.verb::<GetChain>();
    visit.tool(Tool {
        repeatable: false,
        ..Tool::own::<SaveSession>(
            "save_session",
            "Save the session",
            "Save what the next session needs, before the context is full or the work pauses. \
             Everything recorded is kept anyway: a call without content is enough. Say in \
             conversationContext where the work stands, and in contextItems what must not be lost.",
            Toolset::Workspace,
            Need::WRITE,
        )
    });
    visit.tool(Tool {
        repeatable: true,
        ..Tool::own::<RestoreSession>(
            "restore_session",
            "Restore a session",
            "Continue earlier work of a workspace: its task, instructions, plan, open questions, \
             failures, changes, files, within tokenBudget. Record in the sessionId that it \
             answers. leftOut names what did not fit.",
            Toolset::Workspace,
            Need::WRITE,
        )
    });
    visit.tool(Tool::own::<GetSession>(
        "get_session",
        "Look at a session",
        "A session: title, workspace, size, state in a text, the session that it continues and \
         those that continue it.",
        Toolset::Workspace,
        Need::READ,
    ));
    visit.tool(Tool::own::<DeleteSession>(
        "delete_session",
        "Delete a session",
        "Delete a session: hidden at once, and removed when its grace ends. Only when the user \
         asks for it.",
        Toolset::Workspace,
        Need::DELETE,
    ));
}

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
    const TOOL: Option<Tool> =
        Some(Tool::of::<Self>("move_workspace", "Move a workspace", Toolset::Workspace));
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

/// The session in which the caller is at work, if any, and how it was found.
async fn at_work(call: &ToolCall<'_>) -> ServiceResult<Option<(SessionId, BoundBy)>> {
    match call.service.bound(call.caller, call.via, None).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == Code::SessionRequired => Ok(None),
        Err(error) => Err(error),
    }
}

/// The workspace that an argument names; else that of the session in which the caller is at work,
/// or of its directory.
async fn workspace_of(
    call: &ToolCall<'_>,
    named: Option<&str>,
    bound: Option<&SessionId>,
) -> ServiceResult<String> {
    let mut workspace = named.map(str::to_owned);
    if let (None, Some(bound)) = (&workspace, bound) {
        let info = call.service.get_session(call.caller, bound).await;
        workspace = info.ok().and_then(|info| info.workspace);
    }
    workspace.or_else(|| call.via.workspace()).ok_or_else(|| {
        ServiceError::invalid("workspaceId", "it is missing")
            .action("name the workspace; list_sessions shows the workspace of each session")
    })
}

impl ServeTool for SaveSession {
    type Answer = Camel<SavedAnswer>;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<Self::Answer> {
        let caller = &call.holding(self.fencing_token);
        let bound = at_work(&call).await?.map(|(bound, _)| bound);
        let mut session = call.named(self.session_id.as_deref())?;
        let known = session.as_ref().or(bound.as_ref());
        let workspace = workspace_of(&call, self.workspace_id.as_deref(), known).await?;
        if session.is_none()
            && let Some(bound) = bound
            && call.service.is_in_workspace(caller, &workspace, &bound).await
        {
            session = Some(bound);
        }
        let asked = self.into_request(session.as_ref());
        let saved = call.service.save_session(caller, &workspace, asked, call.key.cloned()).await;
        let saved = saved.map_err(renamed)?;
        call.service.bind(call.caller, call.via, &saved.session_id);
        Ok(Camel(saved))
    }
}

impl ServeTool for RestoreSession {
    type Answer = Camel<RestoredAnswer>;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<Self::Answer> {
        let caller = &call.holding(self.fencing_token);
        let session = call.named(self.session_id.as_deref())?;
        let bound = at_work(&call).await?;
        let known = session.as_ref().or(bound.as_ref().map(|(bound, _)| bound));
        let workspace = workspace_of(&call, self.workspace_id.as_deref(), known).await?;
        let mut successor = None;
        if let Some((bound, by)) = bound {
            // What a connection used before is no session in which it is at work now, unless
            // nothing was done in it yet.
            let is_own = match by {
                BoundBy::Connection => call.service.is_unused(caller, &bound).await,
                // The caller that saved it last has left it.
                BoundBy::Directory => !call.service.is_just_saved(caller, &bound).await,
                _ => true,
            };
            // Work of another workspace is not continued in it.
            let is_here = call.service.is_in_workspace(caller, &workspace, &bound).await;
            successor = (is_own && is_here).then_some(bound);
        }
        let asked = self.into_request(session.as_ref(), successor.as_ref());
        let key = call.key.cloned();
        let restored = call.service.restore_work(caller, &workspace, asked, key, true).await;
        let restored = restored.map_err(in_tool)?;
        if let Some(session) = &restored.session_id {
            call.service.bind(call.caller, call.via, session);
        }
        Ok(Camel(restored))
    }
}

/// An error that names a parameter as the tool does.
fn in_tool(mut error: ServiceError) -> ServiceError {
    if error.hint.field.as_deref() == Some("tokens_max") {
        error.hint.field = Some("tokenBudget".to_owned());
        error.message = error.message.replacen("tokens_max", "tokenBudget", 1);
    }
    renamed(error)
}

impl ServeTool for GetSession {
    type Answer = SessionDetails;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<SessionDetails> {
        let named = call.named(self.session_id.as_deref())?;
        let (session, _) = call.service.bound(call.caller, call.via, named.as_ref()).await?;
        let (link, past, tokens) = call.service.session_details(call.caller, &session).await?;
        let usage = call.service.usage(call.caller, &session, None).await?;
        Ok(SessionDetails::of(&link, past, tokens, &usage))
    }
}

impl ServeTool for DeleteSession {
    type Answer = SessionDeleted;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<SessionDeleted> {
        let named = call.named(Some(self.session_id.as_str()))?;
        let session = named.ok_or_else(|| ServiceError::invalid("sessionId", "it is missing"))?;
        let until = call.service.delete_session(call.caller, &session, false).await?;
        Ok(SessionDeleted::of(&session, until))
    }
}

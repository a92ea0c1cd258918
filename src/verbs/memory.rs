//! The verbs on memory and on marks of events, and the tools by which a model remembers. They must
//! not decide where an item is stored.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::io;

use super::{
    BodyUse, EventPath, Fencing, MemoryItemPath, NoParams, NoQuery, RequiredGrant, Route, Serve,
    SessionPath, Verb, VerbCall, Visit, WorkspacePath,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::memory::{
        Direction, EventMarked, ListMemoryQuery, MarkRequest, MemoryForgotten, MemoryItemAnswer,
        MemoryKind, MemoryList, PageInRequest, PageRequest, PagedAnswer, PagedInAnswer,
        RememberRequest, Remembered, SkillRequest,
    },
    event::{EventId, Position, Range},
    service::{
        Code, ContinueCall, MemoryTarget, PageInCall, ServiceError, ServiceResult, parse_session_id,
    },
    wire::{TRUST, tools::names::NameChange},
};

const KEYED: Option<&str> = Some("A retry with the same key returns the same item");

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<Remember>();
    visit.visit_verb::<RememberInWorkspace>();
    visit.visit_verb::<SaveSkill>();
    visit.visit_verb::<ListMemory>();
    visit.visit_verb::<ListWorkspaceMemory>();
    visit.visit_verb::<GetMemory>();
    visit.visit_verb::<Forget>();
    visit.visit_verb::<MarkEvent>();
    visit.visit_verb::<PageIn>();
    visit.visit_tool(PAGE);
    visit.visit_tool(INSERT);
    visit.visit_tool(SAVE_SKILL);
}

/// Session argument of the tools that write memory.
const SESSION: Argument = Argument::session("Default: your own.");

const PAGE: Tool = Tool::for_request::<PageRequest>(
    "memory_page",
    "Page memory in or out",
    Toolset::Memory,
    RequiredGrant::WRITE,
    &[
        Argument::new(
            "direction",
            "in: bring blocks back, by ids, ranges or query. out: store what your context holds.",
        )
        .with_values(&["in", "out"]),
        Argument::new("ids", "memoryId of each item."),
        Argument::new("ranges", "Positions of events."),
        Argument::new("query", "Words to look for."),
        Argument::new("tokensMax", "Default 2000."),
        Argument::new("summary", "For out: what the context held, in your words."),
        Argument::workspace("workspace", "Instead of a session: this workspace."),
        Argument::session("Left out: the bound session; of a query all sessions."),
        Argument::FENCE,
    ],
)
.with_about(
    "in: bring blocks that memory_search named back in full, within tokensMax; leftOut names what \
     did not fit. out: store what the context holds now, as continue_session does.",
)
.with_name_changes(&[
    ("ranges.session", NameChange::Named("sessionId")),
    ("blocks.session", NameChange::Named("sessionId")),
    ("blocks.range", NameChange::Spread),
    ("left_out.session", NameChange::Named("sessionId")),
    ("left_out.range", NameChange::Spread),
])
.repeatable();

const INSERT: Tool = as_memory_write(Tool::for_request::<RememberRequest>(
    "memory_insert",
    "Remember something",
    Toolset::Memory,
    RequiredGrant::WRITE,
    &[
        Argument::new("text", ""),
        Argument::new(
            "kind",
            "semantic (fact, preference), procedural (how to), episodic (what happened), working.",
        ),
        Argument::new("topic", ""),
        Argument::new("tags", ""),
        Argument::new("importance", ""),
        Argument::new("name", "Replaces the item of that name."),
        Argument::new("supersedes", "memoryId that it replaces."),
        Argument::workspace("workspace", "Instead of a session."),
        SESSION,
        Argument::FENCE,
    ],
))
.with_about(
    "When something must hold in later sessions (a fact, a preference, a decision): keeps it, for \
     the whole workspace if semantic or procedural. Write it to be understood alone; `similar` in \
     the answer names items to supersede.",
);

const SAVE_SKILL: Tool = as_memory_write(Tool::for_request::<SkillRequest>(
    "save_skill",
    "Remember how something is done",
    Toolset::Memory,
    RequiredGrant::WRITE,
    &[
        Argument::new("name", "Its name."),
        Argument::new("description", "What it is for, and when to use it."),
        Argument::new("body", "The steps."),
        Argument::new("tags", ""),
        Argument::workspace("workspace", "Instead of a session: keep it for this workspace."),
        SESSION,
        Argument::FENCE,
    ],
))
.with_about(
    "Keep a way of working that succeeded, under a name, for later sessions of this workspace. The \
     same name again replaces it.",
);

/// Configures a tool that writes memory. Its key is that of the item, whose content is compared: no
/// other stored digest may reveal content that is redacted later.
const fn as_memory_write(tool: Tool) -> Tool {
    tool.with_name_changes(&[("session", NameChange::Named("sessionId"))]).with_plain_key()
}

pub struct Remember;

impl Verb for Remember {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/memory", "remember", RequiredGrant::WRITE);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Remembers something. A fact or a skill of a session with a \
                                 workspace goes into the notebook of the workspace, everything \
                                 else into the session.";
    const ASKS: BodyUse = BodyUse::Body("The item");
    const KEY: Option<&'static str> = KEYED;
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "Where it is kept, and what says much the same";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = RememberRequest;
    type Answer = Remembered;
}

impl Serve for Remember {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Remembered> {
        let place = MemoryTarget::Session(call.params.session);
        call.service.remember(&call.caller, &place, call.body, call.key.as_ref()).await
    }
}

pub struct RememberInWorkspace;

impl Verb for RememberInWorkspace {
    const ROUTE: Route = Route::post(
        "/v1/workspaces/{workspace}/memory",
        "rememberInWorkspace",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Remembers a fact or a skill in the notebook of a workspace.";
    const ASKS: BodyUse = BodyUse::Body("The item; its kind is semantic or procedural");
    const KEY: Option<&'static str> = KEYED;
    const ANSWERS: &'static str = "Where it is kept, and what says much the same";
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = RememberRequest;
    type Answer = Remembered;
}

impl Serve for RememberInWorkspace {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Remembered> {
        let place = MemoryTarget::Workspace(call.params.workspace);
        call.service.remember(&call.caller, &place, call.body, call.key.as_ref()).await
    }
}

pub struct SaveSkill;

impl Verb for SaveSkill {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/skills", "saveSkill", RequiredGrant::WRITE);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Remembers how something is done: an item of the kind procedural, \
                                 which supersedes the one of its name.";
    const ASKS: BodyUse = BodyUse::Body("The skill");
    const KEY: Option<&'static str> = KEYED;
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "Where it is kept, and what says much the same";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = SkillRequest;
    type Answer = Remembered;
}

impl Serve for SaveSkill {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Remembered> {
        let place = MemoryTarget::Session(call.params.session);
        call.service.save_skill(&call.caller, &place, call.body, call.key.as_ref()).await
    }
}

pub struct ListMemory;

impl Verb for ListMemory {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/memory", "listMemory", RequiredGrant::READ);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str =
        "Items of memory in a session and in the notebook of its workspace, newest first.";
    const ANSWERS: &'static str = "The items, and the next page";
    type Params = SessionPath;
    type Query = ListMemoryQuery;
    type Body = ();
    type Answer = MemoryList;
}

impl Serve for ListMemory {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<MemoryList> {
        let place = MemoryTarget::Session(call.params.session);
        call.service.list_memory(&call.caller, &place, call.query).await
    }
}

pub struct ListWorkspaceMemory;

impl Verb for ListWorkspaceMemory {
    const ROUTE: Route = Route::get(
        "/v1/workspaces/{workspace}/memory",
        "listMemoryOfWorkspace",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Items of memory in the notebook of a workspace, newest first.";
    const ANSWERS: &'static str = "The items, and the next page";
    type Params = WorkspacePath;
    type Query = ListMemoryQuery;
    type Body = ();
    type Answer = MemoryList;
}

impl Serve for ListWorkspaceMemory {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<MemoryList> {
        let place = MemoryTarget::Workspace(call.params.workspace);
        call.service.list_memory(&call.caller, &place, call.query).await
    }
}

pub struct GetMemory;

impl Verb for GetMemory {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/memory/{item}", "getMemory", RequiredGrant::READ);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str =
        "One item in full, of a session or of the notebook of its workspace, with its later state.";
    const ANSWERS: &'static str = "The item";
    type Params = MemoryItemPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = MemoryItemAnswer;
}

impl Serve for GetMemory {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<MemoryItemAnswer> {
        let MemoryItemPath { session, item } = call.params;
        let place = MemoryTarget::Session(session);
        call.service.get_memory_item(&call.caller, &place, &item).await
    }
}

pub struct Forget;

impl Verb for Forget {
    const ROUTE: Route =
        Route::delete("/v1/sessions/{session}/memory/{item}", "forgetMemory", RequiredGrant::WRITE);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Forgets an item: it is listed, found and recalled no more. Its \
                                 event stays in the log: redact that to remove its bytes.";
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The item is forgotten, durable";
    type Params = MemoryItemPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = MemoryForgotten;
}

impl Serve for Forget {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<MemoryForgotten> {
        let MemoryItemPath { session, item } = call.params;
        let place = MemoryTarget::Session(session);
        call.service.forget_item(&call.caller, &place, &item).await
    }
}

pub struct MarkEvent;

impl Verb for MarkEvent {
    const ROUTE: Route = Route::post(
        "/v1/sessions/{session}/events/{event}/mark",
        "markEvent",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Marks an event as important, wrong or done: a search \
                                 that finds it shows the mark.";
    const ASKS: BodyUse = BodyUse::Body("The mark");
    const KEY: Option<&'static str> = Some("A retry with the same key marks it once");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The marks of the event";
    type Params = EventPath;
    type Query = NoQuery;
    type Body = MarkRequest;
    type Answer = EventMarked;

    /// Writes nothing: the event's content is compared instead, and may be redacted.
    fn write_key_content(_: &MarkRequest, _: impl io::Write) -> serde_json::Result<()> {
        Ok(())
    }
}

impl Serve for MarkEvent {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<EventMarked> {
        let EventPath { session, event } = call.params;
        call.service.mark_event(&call.caller, &session, &event, call.body, call.key).await
    }
}

/// Returns the memory that a tool writes to: that of the named workspace or session; else of the
/// bound session; else, for lasting items, of the workspace of the caller's directory.
async fn resolve_memory_place(
    call: &ToolCall<'_>,
    context: &CallContext,
    is_lasting: bool,
) -> ServiceResult<MemoryTarget> {
    let named = context.session.as_ref();
    if let Some(workspace) = &context.workspace {
        if named.is_some() {
            return Err(ServiceError::invalid("workspace", "it does not go with sessionId"));
        }
        return Ok(MemoryTarget::Workspace(workspace.clone()));
    }
    match call.service.resolve_session(call.caller, call.via, named).await {
        Ok((session, _)) => {
            call.service.bind(call.caller, call.via, &session);
            Ok(MemoryTarget::Session(session))
        }
        Err(error) if error.code == Code::SessionRequired && is_lasting => {
            call.via.workspace().map(MemoryTarget::Workspace).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

impl ServeTool for RememberRequest {
    type Answer = Remembered;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<Remembered> {
        let is_lasting = MemoryKind::parse(&self.kind).is_some_and(MemoryKind::is_lasting);
        let place = resolve_memory_place(&call, &context, is_lasting).await?;
        call.service.remember(&context.caller, &place, self, call.key).await
    }
}

impl ServeTool for SkillRequest {
    type Answer = Remembered;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<Remembered> {
        let place = resolve_memory_place(&call, &context, true).await?;
        call.service.save_skill(&context.caller, &place, self, call.key).await
    }
}

pub struct PageIn;

impl Verb for PageIn {
    const ROUTE: Route = Route::post("/v1/memory/page", "pageIn", RequiredGrant::READ);
    const TAG: &'static str = "memory";
    const ABOUT: &'static str = "Brings blocks back in full within a budget of tokens: items of \
                                 memory by their ids, ranges of events, or what a query finds. \
                                 Blocks that do not fit are named.";
    const ASKS: BodyUse = BodyUse::Body("Exactly one of ids, ranges and query");
    const ANSWERS: &'static str = "The blocks, and those that did not fit";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = PageInRequest;
    type Answer = PagedInAnswer;
}

impl Serve for PageIn {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<PagedInAnswer> {
        call.service.page_in(&call.caller, parse_page_in(call.body)?).await
    }
}

fn parse_page_in(asked: PageInRequest) -> ServiceResult<PageInCall> {
    let place = match (asked.session, asked.workspace) {
        (Some(_), Some(_)) => {
            return Err(ServiceError::invalid("workspace", "it does not go with a session"));
        }
        (Some(session), None) => Some(MemoryTarget::Session(parse_session_id(&session)?)),
        (None, workspace) => workspace.map(MemoryTarget::Workspace),
    };
    let id = |id: &String| EventId::new(id).map_err(|error| ServiceError::invalid("ids", error));
    let ranges = asked.ranges.into_iter().map(|one| {
        let session = one.session.as_deref().map(parse_session_id).transpose()?;
        let (from, to) = (Position(one.from), Position(one.to));
        if from >= to {
            return Err(ServiceError::invalid("ranges", "a range ends after it begins"));
        }
        Ok((session, Range::new(from, to)))
    });
    Ok(PageInCall {
        place,
        ids: asked.ids.iter().map(id).collect::<ServiceResult<_>>()?,
        ranges: ranges.collect::<ServiceResult<_>>()?,
        query: asked.query,
        tokens_max: asked.tokens_max,
    })
}

impl ServeTool for PageRequest {
    type Answer = PagedAnswer;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<PagedAnswer> {
        let CallContext { caller, session: named, workspace, .. } = context;
        let Self { direction, summary, wanted: asked } = self;
        if direction == Direction::Out {
            let key = call.key.cloned();
            let asked =
                ContinueCall { session: named, summary, page_out: true, key, ..Default::default() };
            let paged = call.service.continue_session(&caller, call.via, asked).await?;
            let (paged_out, checkpoint) = (paged.paged_out, paged.checkpoint);
            let paged_in = PagedInAnswer { trust: TRUST.to_owned(), ..PagedInAnswer::default() };
            return Ok(PagedAnswer { paged_in, paged_out, checkpoint });
        }
        // A query searches all sessions.
        let session = match named {
            None if asked.query.is_none() && workspace.is_none() => {
                Some(call.service.resolve_session(&caller, call.via, None).await?.0)
            }
            named => named,
        };
        let session = session.map(|session| session.to_string());
        let asked = parse_page_in(PageInRequest { session, workspace, ..asked })?;
        let query = asked.query.clone();
        let paged_in = call.service.page_in(&caller, asked).await?;
        if let Ok((own, _)) = call.service.resolve_session(&caller, call.via, None).await {
            call.service.record_paged_in(&caller, &own, &paged_in, query).await;
        }
        Ok(PagedAnswer { paged_in, ..PagedAnswer::default() })
    }
}

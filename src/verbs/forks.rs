//! The verbs on what sessions have in common: forks, lineage, and what came between two points.
//! They must not know how a fork is kept.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, InSession, Need, NoQuery, Route, Serve, Verb, VerbCall, Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::{
        fork::{DiffAnswer, ForkRequest, Lineage},
        sessions,
        window::WindowQuery,
    },
    event::{BatchKey, Point, SessionId},
    service::{ForkCall, ServiceError, ServiceResult, WindowCall, session_id, values::point},
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<Fork>();
    visit.verb::<Family>();
    visit.verb::<Diff>();
}

pub struct Fork;

impl Verb for Fork {
    const ROUTE: Route = Route::post("/v1/sessions/{session}/fork", "forkSession", Need::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Creates a session that continues from a point of this one. No \
                                 event is copied: events before the point belong to both, later \
                                 ones to the session that appends them.";
    const ASKS: Asks = Asks::Body("The point to continue from");
    const KEY: Option<&'static str> =
        Some("A retry with the same key within 24 h returns the same fork");
    const STATUS: u16 = 201;
    const ANSWERS: &'static str = "The fork, durable";
    const TOOL: Option<Tool> = Some(
        Tool::asking::<ForkRequest>(
            "fork_session",
            "Fork a session",
            Toolset::Events,
            Self::ROUTE.need,
            &[
                Argument::session("Default: your own."),
                Argument::new("at", "Point to continue from, such as step:3, -5, end."),
                Argument::new("title", "A line for people."),
                Argument::FENCE,
            ],
        )
        .about(
            "Start a new session that continues from a point of this one: to try something else \
             from there, nothing of either is lost. No event is copied.",
        )
        .in_session(),
    );
    type Params = InSession;
    type Query = NoQuery;
    type Body = ForkRequest;
    type Answer = sessions::Session;
}

impl Serve for Fork {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<sessions::Session> {
        let fork = fork_call(call.body, call.key)?;
        call.service.fork_session(&call.caller, &call.params.session, fork).await
    }
}

fn fork_call(asked: ForkRequest, key: Option<BatchKey>) -> ServiceResult<ForkCall> {
    let at = Point::parse(&asked.at).map_err(|error| ServiceError::invalid("at", error))?;
    let id = asked.id.as_deref().map(session_id).transpose()?;
    Ok(ForkCall { at, id, title: asked.title, key })
}

impl ServeTool for ForkRequest {
    type Answer = ForkMade;

    async fn serve_tool(self, call: ToolCall<'_>, meant: CallContext) -> ServiceResult<ForkMade> {
        let (parent, fork) = (meant.in_session(), fork_call(self, call.key.cloned())?);
        let fork = call.service.fork_session(&meant.caller, parent, fork).await?;
        Ok(ForkMade {
            session_id: fork.id,
            parent_session_id: parent.clone(),
            position: fork.tail,
            title: fork.title,
            message: "this connection stays with the parent; send sessionId to continue in the fork",
        })
    }
}

/// A fork, for a model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ForkMade {
    /// The fork: name it to continue there.
    session_id: String,
    /// The session it continues.
    parent_session_id: SessionId,
    /// Events below it are common to both.
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    message: &'static str,
}

pub struct Family;

impl Verb for Family {
    const ROUTE: Route = Route::get("/v1/sessions/{session}/lineage", "getLineage", Need::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "The sessions that this one reads from, and those that read from it.";
    const ANSWERS: &'static str = "Its ancestors and its forks";
    type Params = InSession;
    type Query = NoQuery;
    type Body = ();
    type Answer = Lineage;
}

impl Serve for Family {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Lineage> {
        call.service.family(&call.caller, &call.params.session).await
    }
}

pub struct Diff;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiffQuery {
    /// A point; the beginning when absent
    pub from: Option<String>,
    /// A point; the end when absent
    pub to: Option<String>,
    /// Tokens of the windows compared; what the token monitor leaves by default
    #[schemars(range(min = 64, max = 4_000_000))]
    pub tokens_max: Option<usize>,
    /// Transforms of the windows compared, as viewWindow takes them
    #[serde(rename = "transforms[]")]
    #[schemars(length(max = 100))]
    pub transforms: Vec<String>,
    /// Format of the windows compared: `events` (the default), `anthropic` or `openai`
    pub format: Option<String>,
    /// The tokenizer of their windows: `o200k_base` or `claude`; that of the format by default
    pub tokenizer: Option<String>,
}

impl Verb for Diff {
    const ROUTE: Route = Route::get("/v1/sessions/{session}/diff", "diffSession", Need::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "What changed between two points of a session: its events by \
                                 type, what was added to its facts, and what a model sees at one \
                                 point and not at the other. The points may come in either \
                                 order.";
    const ANSWERS: &'static str = "What changed between them";
    type Params = InSession;
    type Query = DiffQuery;
    type Body = ();
    type Answer = DiffAnswer;
}

impl Serve for Diff {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<DiffAnswer> {
        let asked = &call.query;
        let from = point("from", asked.from.as_deref())?.unwrap_or(Point::BEGINNING);
        let to = point("to", asked.to.as_deref())?.unwrap_or(Point::End);
        let plan = WindowQuery {
            tokens_max: asked.tokens_max,
            tokenizer: asked.tokenizer.clone(),
            transforms: asked.transforms.clone(),
            format: asked.format.clone(),
            recall: Some("none".to_owned()),
            ..WindowQuery::default()
        };
        let plan = WindowCall::from_query(&plan, (None, None))?;
        let session = &call.params.session;
        call.service.diff(&call.caller, session, (&from, &to), plan).await
    }
}

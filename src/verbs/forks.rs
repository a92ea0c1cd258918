//! The verbs on what sessions have in common: forks, lineage, and differences between two points.
//! They must not know how a fork is stored.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, NoQuery, RequiredGrant, Route, Serve, SessionPath, Verb, VerbCall, Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::{
        compare::CompareAnswer,
        fork::{DiffAnswer, ForkRequest, Lineage},
        sessions,
        window::WindowQuery,
    },
    event::{BatchKey, Point, SessionId},
    service::{
        ForkCall, ServiceError, ServiceResult, WindowCall, parse_session_id,
        values::{parse_point, parse_session},
    },
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<Fork>();
    visit.visit_verb::<GetLineage>();
    visit.visit_verb::<Diff>();
    visit.visit_verb::<CompareSessions>();
}

pub struct Fork;

impl Verb for Fork {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/fork", "forkSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Creates a session that continues from a point of this one. No \
                                 event is copied: events before the point belong to both, later \
                                 ones to the session that appends them.";
    const ASKS: BodyUse = BodyUse::Body("The point to continue from");
    const KEY: Option<&'static str> =
        Some("A retry with the same key within 24 h returns the same fork");
    const STATUS: u16 = 201;
    const ANSWERS: &'static str = "The fork, durable";
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<ForkRequest>(
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
        .with_about(
            "Start a new session that continues from a point of this one: to try something else \
             from there, nothing of either is lost. No event is copied.",
        )
        .for_session(),
    );
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ForkRequest;
    type Answer = sessions::Session;
}

impl Serve for Fork {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<sessions::Session> {
        let fork = parse_fork_call(call.body, call.key)?;
        call.service.fork_session(&call.caller, &call.params.session, fork).await
    }
}

fn parse_fork_call(asked: ForkRequest, key: Option<BatchKey>) -> ServiceResult<ForkCall> {
    let at = Point::parse(&asked.at).map_err(|error| ServiceError::invalid("at", error))?;
    let id = asked.id.as_deref().map(parse_session_id).transpose()?;
    Ok(ForkCall { at, id, title: asked.title, key })
}

impl ServeTool for ForkRequest {
    type Answer = ForkMade;

    async fn serve_tool(self, call: ToolCall<'_>, context: CallContext) -> ServiceResult<ForkMade> {
        let (parent, fork) = (context.expect_session(), parse_fork_call(self, call.key.cloned())?);
        let fork = call.service.fork_session(&context.caller, parent, fork).await?;
        Ok(ForkMade {
            session_id: fork.id,
            parent_session_id: parent.clone(),
            position: fork.tail,
            title: fork.title,
            message: "this connection stays with the parent; send sessionId to continue in the fork",
        })
    }
}

/// Answer to a fork, for a model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ForkMade {
    /// Id of the fork: name it to continue there.
    session_id: String,
    /// Id of the session that it continues.
    parent_session_id: SessionId,
    /// Position of the fork: earlier events are common to both.
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    message: &'static str,
}

pub struct GetLineage;

impl Verb for GetLineage {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/lineage", "getLineage", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "The sessions that this one reads from, and those that read from it.";
    const ANSWERS: &'static str = "Its ancestors and its forks";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Lineage;
}

impl Serve for GetLineage {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Lineage> {
        call.service.lineage(&call.caller, &call.params.session).await
    }
}

pub struct Diff;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiffQuery {
    /// One point; the beginning if omitted
    pub from: Option<String>,
    /// Another point; the end if omitted
    pub to: Option<String>,
    /// Tokens of the compared windows; by default what the token monitor leaves
    #[schemars(range(min = 64, max = 4_000_000))]
    pub tokens_max: Option<usize>,
    /// Transforms of the compared windows, as viewWindow takes them
    #[serde(rename = "transforms[]")]
    #[schemars(length(max = 100))]
    pub transforms: Vec<String>,
    /// Format of the compared windows: `events` (the default), `anthropic` or `openai`
    pub format: Option<String>,
    /// Tokenizer of the windows: `o200k_base` or `claude`; that of the format by default
    pub tokenizer: Option<String>,
}

impl Verb for Diff {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/diff", "diffSession", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Difference between two points of a session: its events by \
                                 type, facts that were added, and events that a model sees at \
                                 one point and not at the other. The points may come in either \
                                 order.";
    const ANSWERS: &'static str = "The difference between them";
    type Params = SessionPath;
    type Query = DiffQuery;
    type Body = ();
    type Answer = DiffAnswer;
}

impl Serve for Diff {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<DiffAnswer> {
        let asked = &call.query;
        let from = parse_point("from", asked.from.as_deref())?.unwrap_or(Point::BEGINNING);
        let to = parse_point("to", asked.to.as_deref())?.unwrap_or(Point::End);
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

pub struct CompareSessions;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompareQuery {
    /// Id of the session to compare with
    pub with: String,
    /// Point of the session up to which it is compared; its end if omitted
    pub at: Option<String>,
    /// Point of the other session; its end if omitted
    pub with_at: Option<String>,
}

impl Verb for CompareSessions {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/compare", "compareSessions", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Comparison of two sessions: where they begin to differ, and their \
                                 aligned parts. Events are compared by what they say: ids, times \
                                 and bookkeeping do not count. Up to 5 000 events of each are \
                                 aligned behind the common beginning.";
    const ANSWERS: &'static str = "The common beginning, and the parts with the rows that differ";
    type Params = SessionPath;
    type Query = CompareQuery;
    type Body = ();
    type Answer = CompareAnswer;
}

impl Serve for CompareSessions {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CompareAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let named = Some(query.with.as_str()).filter(|name| !name.is_empty());
        let Some(other) = parse_session("with", named)? else {
            return Err(ServiceError::invalid("with", "it is missing")
                .action("name the session to compare with"));
        };
        let at = parse_point("at", query.at.as_deref())?;
        let other_at = parse_point("with_at", query.with_at.as_deref())?;
        let one = (&params.session, at.as_ref());
        service.compare(&caller, one, (&other, other_at.as_ref())).await
    }
}

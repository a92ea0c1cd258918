//! The verbs that answer a view: what is worth knowing of a session, within a budget, now or as of
//! a point. They must not format anything.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Asks, AtStep, InSession, Media, Need, NoQuery, Route, Serve, Verb, VerbCall, Visit};
use crate::{
    api::{
        cursor::Cursor,
        find::IndexAnswer,
        overview::{Level, SummaryAnswer},
        step::StepAnswer,
        tool_cache::{LookupAnswer, LookupRequest, OutputsAnswer},
        views::{CompactionsAnswer, ContinuationAnswer, UsageAnswer},
        window::{WindowAnswer, WindowQuery},
    },
    event::{Point, Position},
    service::{
        RecoverCall, Recovered, ServiceError, ServiceResult, Via, WindowCall, values::point,
    },
    wire::{TOKEN_BYTES_MOST, tool_cache, window},
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<Index>();
    visit.verb::<Summary>();
    visit.verb::<Step>();
    visit.verb::<Continuation>();
    visit.verb::<Window>();
    visit.verb::<Usage>();
    visit.verb::<Compactions>();
    visit.verb::<Outputs>();
    visit.verb::<LookupToolCache>();
}

pub struct Window;

impl Verb for Window {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/window", "viewWindow", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "What a model sees of the session within a budget of tokens.";
    const ANSWERS: &'static str =
        "Events or messages, what they cost, and every position they leave out";
    type Params = InSession;
    type Query = WindowQuery;
    type Body = ();
    type Answer = WindowAnswer;

    fn answer_bytes(query: &WindowQuery) -> Option<usize> {
        Some(query.tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES_MOST))
    }
}

impl Serve for Window {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<WindowAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let ends = (point("from", query.from.as_deref())?, at(query.at.as_deref())?);
        let wanted = WindowCall::from_query(&query, ends)?;
        let shape = wanted.shape;
        let view = service.window(&caller, &params.session, wanted).await?;
        Ok(window::answer(&view, shape))
    }
}

/// The query of a verb that is no view and answers one text, too.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FormatQuery {
    /// `json` (the default), or `text`: all that is given as one text in Markdown
    pub format: Option<String>,
}

/// Media types of a verb that answers one text, too.
pub(super) const TEXT_TOO: &[Media] = &[Media::Json, Media::Text("text/markdown")];

/// Returns true if a format is one text.
pub(super) fn is_text(format: Option<&str>) -> ServiceResult<bool> {
    match format {
        None | Some("json") => Ok(false),
        Some("text") => Ok(true),
        Some(_) => Err(ServiceError::invalid("format", "json or text")),
    }
}

pub struct Index;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IndexQuery {
    /// Point: as of then
    pub at: Option<String>,
    /// Tokens at most, about; the answer's usual size by default
    pub tokens_max: Option<usize>,
    /// Whether to say why each item is shown
    pub explain: bool,
    /// `json` (the default), or `text`: the overview as one text in Markdown
    pub format: Option<String>,
    /// One of `cursors` of the overview: a page of that list instead
    pub cursor: Option<String>,
    /// Words to look up; what is in double quotes must be there as it is
    #[serde(deserialize_with = "given")]
    #[schemars(length(max = 4096))]
    pub find: Option<String>,
}

/// Deserializes a parameter for which empty is not absent.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some)
}

impl Verb for Index {
    const ROUTE: Route = Route::get("/v1/sessions/{session}/views/index", "viewIndex", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Where the session stands: goal, summary, its steps in a line \
                                 each, open gaps, sources. With `find` instead what it says of \
                                 some words: passages of steps, reasons, gaps, sources, calls, \
                                 results and messages, the best match first.";
    const ANSWERS: &'static str = "The overview, or what matches";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = InSession;
    type Query = IndexQuery;
    type Body = ();
    type Answer = IndexAnswer;

    fn text(answer: &IndexAnswer) -> Option<&str> {
        let IndexAnswer::Overview(view) = answer else { return None };
        view.text.as_deref()
    }
}

impl Serve for Index {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<IndexAnswer> {
        let VerbCall { service, caller, params: InSession { session }, query, .. } = call;
        let IndexQuery { tokens_max, explain, find, format, .. } = query;
        let is_text = is_text(format.as_deref())?;
        let (at, cursor) = (at(query.at.as_deref())?, of_answer(query.cursor.as_deref())?);
        let at = at.as_ref();
        if find.is_some() && (explain || cursor.is_some()) {
            let field = if explain { "explain" } else { "cursor" };
            return Err(ServiceError::invalid(field, "it does not go with find"));
        }
        if is_text && (find.is_some() || cursor.is_some()) {
            let problem = "only the overview is given as a text";
            return Err(ServiceError::invalid("format", problem));
        }
        if let Some(words) = find {
            let found = service.find_view(&caller, &session, &words, at, tokens_max).await?;
            return Ok(IndexAnswer::Found(found));
        }
        if cursor.is_some() {
            let at = at.cloned();
            let call = RecoverCall { session: Some(session), cursor, at, ..RecoverCall::default() };
            let via = Via::default();
            let recovered = service.get_research_session(&caller, &via, &call).await?.recovered;
            let Recovered::Page(page) = recovered else {
                return Err(ServiceError::invalid("cursor", "it is no cursor of a list"));
            };
            return Ok(IndexAnswer::Page(page));
        }
        let how = (explain, is_text);
        let mut view = service.overview(&caller, &session, at, tokens_max, how).await?;
        view.text = view.text.filter(|_| is_text);
        Ok(IndexAnswer::Overview(Box::new(view)))
    }
}

fn at(text: Option<&str>) -> ServiceResult<Option<Point>> {
    point("at", text)
}

/// Parses a cursor from an earlier response, for the rest of a list or of a step's text.
fn of_answer(text: Option<&str>) -> ServiceResult<Option<Cursor>> {
    let foreign = || ServiceError::invalid("cursor", "it is none of an answer's");
    text.map(|text| Cursor::parse(text).ok_or_else(foreign)).transpose()
}

pub struct Summary;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SummaryQuery {
    /// Point: as of then
    pub at: Option<String>,
    /// Tokens at most, about; the answer's usual size by default
    pub tokens_max: Option<usize>,
    /// `step` (the default), `phase`, `session`, or `auto`: the finest that leaves nothing out
    pub level: Option<String>,
}

impl Verb for Summary {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/summary", "viewSummary", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "Where the session stands, without the lists that the summary stands for.";
    const ANSWERS: &'static str = "The summary on that level, open gaps and what was ruled out";
    type Params = InSession;
    type Query = SummaryQuery;
    type Body = ();
    type Answer = SummaryAnswer;
}

impl Serve for Summary {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SummaryAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let at = at(query.at.as_deref())?;
        let problem = || ServiceError::invalid("level", "step, phase, session or auto");
        let level = query.level.as_deref().map(|name| Level::parse(name).ok_or_else(problem));
        let level = level.transpose()?.unwrap_or(Level::Step);
        let tokens_max = query.tokens_max;
        service.summary_view(&caller, &params.session, at.as_ref(), tokens_max, level).await
    }
}

pub struct Step;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepQuery {
    /// Point: as of then
    pub at: Option<String>,
    /// The step's branch, when several have that number
    pub branch: Option<String>,
    /// next_cursor of the answer before
    pub cursor: Option<String>,
}

impl Verb for Step {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/steps/{number}", "viewStep", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "One step in full, or as much of it as one answer takes.";
    const ANSWERS: &'static str = "The step, and where its text continues";
    type Params = AtStep;
    type Query = StepQuery;
    type Body = ();
    type Answer = StepAnswer;
}

impl Serve for Step {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<StepAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let step = RecoverCall {
            session: Some(params.session.clone()),
            at: at(query.at.as_deref())?,
            step: Some(params.step()?),
            branch: query.branch,
            cursor: of_answer(query.cursor.as_deref())?,
            ..RecoverCall::default()
        };
        let via = Via::default();
        let recovered = service.get_research_session(&caller, &via, &step).await?.recovered;
        match recovered {
            Recovered::Step(step) => Ok(*step),
            _ => Err(ServiceError::invalid("cursor", "it is no cursor of a step")),
        }
    }
}

pub struct Continuation;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContinuationQuery {
    /// Point: as of then
    pub at: Option<String>,
    /// Tokens of the text at most; 2 000 by default
    #[schemars(range(min = 400, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Whether to say why each item is shown
    pub explain: bool,
    /// `json` (the default), or `text`: one text in Markdown
    pub format: Option<String>,
}

impl Verb for Continuation {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/continuation", "viewContinuation", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "What is needed to continue: task, instructions, plan, last \
                                 steps, failures, findings, what is next.";
    const ANSWERS: &'static str = "The continuation";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = InSession;
    type Query = ContinuationQuery;
    type Body = ();
    type Answer = ContinuationAnswer;

    fn text(answer: &ContinuationAnswer) -> Option<&str> {
        answer.text.as_deref()
    }
}

impl Serve for Continuation {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<ContinuationAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let (at, explain) = (at(query.at.as_deref())?, query.explain);
        let (at, tokens_max) = (at.as_ref(), query.tokens_max);
        let is_text = is_text(query.format.as_deref())?;
        let view = service.continuation(&caller, &params.session, at, tokens_max, explain);
        let mut view = view.await?;
        view.text = view.text.filter(|_| is_text);
        Ok(view)
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AtQuery {
    /// Point: as of then
    pub at: Option<String>,
}

pub struct Usage;

impl Verb for Usage {
    const ROUTE: Route = Route::get("/v1/sessions/{session}/views/usage", "viewUsage", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "How full the model's context window is, by what the harness \
                                 reports in `span.model_request_end`.";
    const ANSWERS: &'static str = "The token monitor";
    type Params = InSession;
    type Query = AtQuery;
    type Body = ();
    type Answer = UsageAnswer;
}

impl Serve for Usage {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<UsageAnswer> {
        let at = at(call.query.at.as_deref())?;
        call.service.usage(&call.caller, &call.params.session, at.as_ref()).await
    }
}

pub struct Compactions;

impl Verb for Compactions {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/compactions", "viewCompactions", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "What the client's compactions took out of its context, and what of it is out now.";
    const ANSWERS: &'static str = "The compactions, and what is lost to the context";
    type Params = InSession;
    type Query = AtQuery;
    type Body = ();
    type Answer = CompactionsAnswer;
}

impl Serve for Compactions {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CompactionsAnswer> {
        let at = at(call.query.at.as_deref())?;
        call.service.compactions(&call.caller, &call.params.session, at.as_ref()).await
    }
}

/// Bytes that a tool's answer takes at most, mostly.
const ANSWER_BYTES: usize = 64 << 10;

pub struct LookupToolCache;

impl Verb for LookupToolCache {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/tool-cache/lookup", "lookupToolCache", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "Whether a call of a tool was answered before, and the answer. Nothing is written.";
    const ASKS: Asks = Asks::Body("The call, and which answers count");
    const ANSWERS: &'static str = "The answer from the log, or why there is none";
    type Params = InSession;
    type Query = NoQuery;
    type Body = LookupRequest;
    type Answer = LookupAnswer;

    fn answer_bytes(_: &NoQuery) -> Option<usize> {
        Some(ANSWER_BYTES)
    }
}

impl Serve for LookupToolCache {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<LookupAnswer> {
        let VerbCall { service, caller, params, body, .. } = call;
        let (found, memory) = service.tool_lookup(&caller, &params.session, body).await?;
        Ok(tool_cache::looked_up(&found, memory))
    }
}

pub struct Outputs;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputsQuery {
    /// None before this position: for a client that has the others
    pub from_position: Option<u64>,
    /// Tokens at most, about; 4 000 by default
    #[schemars(range(max = 1_000_000))]
    pub tokens_max: Option<usize>,
}

impl Verb for Outputs {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/outputs", "viewOutputs", Need::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "What tools answered in the session, the newest that fit a budget, oldest first.";
    const ANSWERS: &'static str = "Calls with their answers";
    type Params = InSession;
    type Query = OutputsQuery;
    type Body = ();
    type Answer = OutputsAnswer;

    fn answer_bytes(query: &OutputsQuery) -> Option<usize> {
        Some(query.tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES_MOST))
    }
}

impl Serve for Outputs {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<OutputsAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let from = Position(query.from_position.unwrap_or(0));
        let outputs = service.tool_outputs(&caller, &params.session, from, query.tokens_max);
        let (outputs, memory) = outputs.await?;
        Ok(tool_cache::listed(&outputs, memory))
    }
}

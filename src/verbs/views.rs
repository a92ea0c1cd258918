//! The verbs that answer a view: the essentials of a session, within a budget, now or as of a
//! point. They must not format anything.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    BodyUse, Media, NoParams, NoQuery, RequiredGrant, Route, Serve, SessionPath, StepPath, Verb,
    VerbCall, Visit,
};
use crate::{
    api::{
        cursor::PageCursor,
        find::IndexAnswer,
        overview::{SummaryAnswer, SummaryLevel},
        step::StepAnswer,
        tool_cache::{LookupAnswer, LookupRequest, OutputsAnswer},
        views::{CompactionsAnswer, ContinuationAnswer, SessionUsage, SubagentsAnswer, TotalUsage},
        window::{WindowAnswer, WindowQuery},
    },
    event::{Point, Position},
    service::{
        ClientIdentity, RecoverAnswer, RecoverCall, ServiceError, ServiceResult, UsageSelection,
        WindowCall,
        values::{parse_point, parse_time},
    },
    wire::{TOKEN_BYTES_MOST, tool_cache, window},
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<ViewIndex>();
    visit.visit_verb::<ViewSummary>();
    visit.visit_verb::<ViewStep>();
    visit.visit_verb::<ViewContinuation>();
    visit.visit_verb::<ViewWindow>();
    visit.visit_verb::<ViewUsage>();
    visit.visit_verb::<GetUsage>();
    visit.visit_verb::<ViewThreads>();
    visit.visit_verb::<ViewCompactions>();
    visit.visit_verb::<ViewOutputs>();
    visit.visit_verb::<LookupToolCache>();
}

pub struct ViewWindow;

impl Verb for ViewWindow {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/window", "viewWindow", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "The session as a model sees it, within a budget of tokens.";
    const ANSWERS: &'static str =
        "Events or messages, what they cost, and every position they leave out";
    type Params = SessionPath;
    type Query = WindowQuery;
    type Body = ();
    type Answer = WindowAnswer;

    fn answer_bytes(query: &WindowQuery) -> Option<usize> {
        Some(query.tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES_MOST))
    }
}

impl Serve for ViewWindow {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<WindowAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let ends = (parse_point("from", query.from.as_deref())?, parse_at(query.at.as_deref())?);
        let wanted = WindowCall::from_query(&query, ends)?;
        let shape = wanted.shape;
        let view = service.window(&caller, &params.session, wanted).await?;
        Ok(window::build_answer(&view, shape))
    }
}

/// Query of a verb that is not a view and that can answer with one text.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FormatQuery {
    /// `json` (the default), or `text`: the whole answer as one text in Markdown
    pub format: Option<String>,
}

/// Media types of a verb that can answer with one text.
pub(super) const TEXT_TOO: &[Media] = &[Media::Json, Media::Text("text/markdown")];

pub(super) fn is_text(format: Option<&str>) -> ServiceResult<bool> {
    match format {
        None | Some("json") => Ok(false),
        Some("text") => Ok(true),
        Some(_) => Err(ServiceError::invalid("format", "json or text")),
    }
}

pub struct ViewIndex;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IndexQuery {
    /// Point as of which the view is made
    pub at: Option<String>,
    /// Approximate maximum of tokens; the answer's usual size by default
    pub tokens_max: Option<usize>,
    /// Add the reason why each item is shown
    pub explain: bool,
    /// Format: `json` (the default), or `text`: the overview as one text in Markdown
    pub format: Option<String>,
    /// One of `cursors` of the overview, for a page of that list instead
    pub cursor: Option<String>,
    /// Words to search for; a text in double quotes must occur literally
    #[serde(deserialize_with = "given")]
    #[schemars(length(max = 4096))]
    pub find: Option<String>,
}

/// Deserializes a parameter for which empty is not absent.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some)
}

impl Verb for ViewIndex {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/index", "viewIndex", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "State of the session: goal, summary, its steps in a line \
                                 each, open gaps, sources. With `find` instead the matches of \
                                 some words: passages of steps, reasons, gaps, sources, calls, \
                                 results and messages, the best match first.";
    const ANSWERS: &'static str = "The overview, or the matches";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = SessionPath;
    type Query = IndexQuery;
    type Body = ();
    type Answer = IndexAnswer;

    fn text(answer: &IndexAnswer) -> Option<&str> {
        let IndexAnswer::Overview(view) = answer else { return None };
        view.text.as_deref()
    }
}

impl Serve for ViewIndex {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<IndexAnswer> {
        let VerbCall { service, caller, params: SessionPath { session }, query, .. } = call;
        let IndexQuery { tokens_max, explain, find, format, .. } = query;
        let is_text = is_text(format.as_deref())?;
        let (at, cursor) = (parse_at(query.at.as_deref())?, parse_cursor(query.cursor.as_deref())?);
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
            let via = ClientIdentity::default();
            let recovered = service.get_research_session(&caller, &via, &call).await?.recovered;
            let RecoverAnswer::Page(page) = recovered else {
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

fn parse_at(text: Option<&str>) -> ServiceResult<Option<Point>> {
    parse_point("at", text)
}

/// Parses a cursor from an earlier response, for the rest of a list or of a step's text.
fn parse_cursor(text: Option<&str>) -> ServiceResult<Option<PageCursor>> {
    let foreign = || ServiceError::invalid("cursor", "it is none of an answer's");
    text.map(|text| PageCursor::parse(text).ok_or_else(foreign)).transpose()
}

pub struct ViewSummary;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SummaryQuery {
    /// Point as of which the view is made
    pub at: Option<String>,
    /// Approximate maximum of tokens; the answer's usual size by default
    pub tokens_max: Option<usize>,
    /// `step` (the default), `phase`, `session`, or `auto`: the finest that leaves nothing out
    pub level: Option<String>,
}

impl Verb for ViewSummary {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/summary", "viewSummary", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "State of the session, without the lists that the summary replaces.";
    const ANSWERS: &'static str = "The summary on that level, open gaps and rejected approaches";
    type Params = SessionPath;
    type Query = SummaryQuery;
    type Body = ();
    type Answer = SummaryAnswer;
}

impl Serve for ViewSummary {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SummaryAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let at = parse_at(query.at.as_deref())?;
        let problem = || ServiceError::invalid("level", "step, phase, session or auto");
        let level =
            query.level.as_deref().map(|name| SummaryLevel::parse(name).ok_or_else(problem));
        let level = level.transpose()?.unwrap_or(SummaryLevel::Step);
        let tokens_max = query.tokens_max;
        service.summary_view(&caller, &params.session, at.as_ref(), tokens_max, level).await
    }
}

pub struct ViewStep;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepQuery {
    /// Point as of which the view is made
    pub at: Option<String>,
    /// Branch of the step, if several steps have that number
    pub branch: Option<String>,
    /// next_cursor of the previous answer
    pub cursor: Option<String>,
}

impl Verb for ViewStep {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/steps/{number}", "viewStep", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "One step in full, or as much of it as fits one answer.";
    const ANSWERS: &'static str = "The step, and where its text continues";
    type Params = StepPath;
    type Query = StepQuery;
    type Body = ();
    type Answer = StepAnswer;
}

impl Serve for ViewStep {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<StepAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let step = RecoverCall {
            session: Some(params.session.clone()),
            at: parse_at(query.at.as_deref())?,
            step: Some(params.step()?),
            branch: query.branch,
            cursor: parse_cursor(query.cursor.as_deref())?,
            ..RecoverCall::default()
        };
        let via = ClientIdentity::default();
        let recovered = service.get_research_session(&caller, &via, &step).await?.recovered;
        match recovered {
            RecoverAnswer::Step(step) => Ok(*step),
            _ => Err(ServiceError::invalid("cursor", "it is no cursor of a step")),
        }
    }
}

pub struct ViewContinuation;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContinuationQuery {
    /// Point as of which the view is made
    pub at: Option<String>,
    /// Maximum tokens of the text; 2 000 by default
    #[schemars(range(min = 400, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Add the reason why each item is shown
    pub explain: bool,
    /// Format: `json` (the default), or `text`: one text in Markdown
    pub format: Option<String>,
}

impl Verb for ViewContinuation {
    const ROUTE: Route = Route::get(
        "/v1/sessions/{session}/views/continuation",
        "viewContinuation",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Everything needed to continue: task, instructions, plan, last \
                                 steps, failures, findings, next actions.";
    const ANSWERS: &'static str = "The continuation";
    const GIVES: &'static [Media] = TEXT_TOO;
    type Params = SessionPath;
    type Query = ContinuationQuery;
    type Body = ();
    type Answer = ContinuationAnswer;

    fn text(answer: &ContinuationAnswer) -> Option<&str> {
        answer.text.as_deref()
    }
}

impl Serve for ViewContinuation {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<ContinuationAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let (at, explain) = (parse_at(query.at.as_deref())?, query.explain);
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
pub struct PointQuery {
    /// Point as of which the view is made
    pub at: Option<String>,
}

pub struct ViewUsage;

impl Verb for ViewUsage {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/usage", "viewUsage", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Fill level of the model's context window, and tokens by model, \
                                 thread and day, as the harness reports them in \
                                 `span.model_request_end`.";
    const ANSWERS: &'static str = "The token monitor, and the tokens used";
    type Params = SessionPath;
    type Query = PointQuery;
    type Body = ();
    type Answer = SessionUsage;
}

impl Serve for ViewUsage {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SessionUsage> {
        let at = parse_at(call.query.at.as_deref())?;
        call.service.usage(&call.caller, &call.params.session, at.as_ref()).await
    }
}

pub struct GetUsage;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UsageQuery {
    /// Key of the rows: day (in UTC), model, session or workspace; day by default
    pub by: Option<String>,
    /// Only requests of the day of this time and later ones
    pub since: Option<String>,
    /// Only requests of the day of this time and earlier ones
    pub until: Option<String>,
    /// Only sessions of this workspace
    pub workspace: Option<String>,
}

impl Verb for GetUsage {
    const ROUTE: Route = Route::get("/v1/usage", "getUsage", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Tokens of the caller's sessions by day, model, session or workspace, as their harnesses \
         reported them. A request counts once: forks are without what they inherit, and \
         subagents count with their session. Covers the 500 sessions written to last.";
    const ANSWERS: &'static str = "The tokens";
    type Params = NoParams;
    type Query = UsageQuery;
    type Body = ();
    type Answer = TotalUsage;
}

impl Serve for GetUsage {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<TotalUsage> {
        let UsageQuery { by, since, until, workspace } = call.query;
        let days = [parse_time("since", since.as_deref())?, parse_time("until", until.as_deref())?];
        let selection = UsageSelection { workspace, days, by };
        call.service.total_usage(&call.caller, selection).await
    }
}

pub struct ViewThreads;

impl Verb for ViewThreads {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/threads", "viewThreads", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Subagents of the session: who called each of them, what it was to do, its calls and tokens.";
    const ANSWERS: &'static str = "The subagents, in the order of their first events";
    type Params = SessionPath;
    type Query = PointQuery;
    type Body = ();
    type Answer = SubagentsAnswer;
}

impl Serve for ViewThreads {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SubagentsAnswer> {
        let at = parse_at(call.query.at.as_deref())?;
        call.service.subagents(&call.caller, &call.params.session, at.as_ref()).await
    }
}

pub struct ViewCompactions;

impl Verb for ViewCompactions {
    const ROUTE: Route = Route::get(
        "/v1/sessions/{session}/views/compactions",
        "viewCompactions",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "Positions that the client's compactions removed from its context, and those out of it now.";
    const ANSWERS: &'static str = "The compactions, and the positions out of the context";
    type Params = SessionPath;
    type Query = PointQuery;
    type Body = ();
    type Answer = CompactionsAnswer;
}

impl Serve for ViewCompactions {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<CompactionsAnswer> {
        let at = parse_at(call.query.at.as_deref())?;
        call.service.compactions(&call.caller, &call.params.session, at.as_ref()).await
    }
}

/// Usual maximum bytes of a tool's output.
const ANSWER_BYTES: usize = 64 << 10;

pub struct LookupToolCache;

impl Verb for LookupToolCache {
    const ROUTE: Route = Route::post(
        "/v1/sessions/{session}/tool-cache/lookup",
        "lookupToolCache",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "Looks up a cached output for a call of a tool. Nothing is written.";
    const ASKS: BodyUse = BodyUse::Body("The call, and the outputs that count");
    const ANSWERS: &'static str = "The output from the log, or the reason why there is none";
    type Params = SessionPath;
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
        Ok(tool_cache::lookup_answer(&found, memory))
    }
}

pub struct ViewOutputs;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputsQuery {
    /// Position before which outputs are left out, for a client that has those
    pub from_position: Option<u64>,
    /// Approximate maximum of tokens; 4 000 by default
    #[schemars(range(max = 1_000_000))]
    pub tokens_max: Option<usize>,
}

impl Verb for ViewOutputs {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/outputs", "viewOutputs", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str =
        "Outputs of tools in the session: the newest that fit a budget, oldest first.";
    const ANSWERS: &'static str = "Calls with their outputs";
    type Params = SessionPath;
    type Query = OutputsQuery;
    type Body = ();
    type Answer = OutputsAnswer;

    fn answer_bytes(query: &OutputsQuery) -> Option<usize> {
        Some(query.tokens_max.unwrap_or(0).saturating_mul(TOKEN_BYTES_MOST))
    }
}

impl Serve for ViewOutputs {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<OutputsAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let from = Position(query.from_position.unwrap_or(0));
        let outputs = service.tool_outputs(&caller, &params.session, from, query.tokens_max);
        let (outputs, memory) = outputs.await?;
        Ok(tool_cache::outputs_answer(&outputs, memory))
    }
}

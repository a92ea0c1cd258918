//! The verb that searches all sessions of a caller, on HTTP and as a tool. It must not rank.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, NoParams, NoQuery, RequiredGrant, Route, Serve, Verb, VerbCall, Visit,
    tools::{Argument, CallContext, MODEL_WAIT_MS, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::search::{SearchAnswer, SearchBody},
    service::{ServiceError, ServiceResult},
    wire::tools::{names::NameChange, search::MemoryBlocksOut},
};

const ABOUT: &str = "Finds events of all sessions of the caller by their words, those that a \
                     model's context has lost included: the best match first, each with the part \
                     that matches, the components of its score, and known doubts. \
                     `complete` says what is not indexed yet.";

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<Search>();
    visit.visit_verb::<SearchByBody>();
    visit.visit_tool(TOOL);
}

const TOOL: Tool = Tool::for_request::<SearchBody>(
    "memory_search",
    "Search past sessions",
    Toolset::Memory,
    RequiredGrant::READ,
    &[
        Argument::new("query", "").for_member("q").required(),
        Argument::session("Default: all."),
        Argument::new("workspace", ""),
        Argument::new("kinds", ""),
        Argument::new("after", "RFC 3339."),
        Argument::new("before", ""),
        Argument::new("limit", "Default 10."),
        Argument::new("around", "Events beside each; default 2."),
        Argument::new("tokensMax", "Default 2000."),
        Argument::new("cursor", "nextCursor of an answer.").for_member("page"),
    ],
)
.with_about(
    "Before you ask the user again or repeat work: finds what was said, done or decided in any \
     session, by words. The query takes \"exact text\", -word, who:, type:, file:.",
)
.with_name_changes(&[("blocks.stale", NameChange::Kept), ("complete", NameChange::Kept)]);

/// Defaults for a model: events shown on either side of a hit, and tokens of the answer.
const MODEL_AROUND: u64 = 2;
const MODEL_TOKENS: usize = 2_000;

pub struct Search;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchQuery {
    #[doc = "Words to search for. `\"exact text\"` and `+word` must be there, `-word` must not, \
             `pre*` is the beginning of a word; `type:`, `session:`, `workspace:`, `who:`, \
             `origin:`, `file:`, `url:`, `after:` and `before:` filter"]
    #[schemars(length(max = 4096))]
    pub q: String,
    /// Only events of this session, including those that a fork shares with its parents
    pub session: Option<String>,
    /// Only sessions of this workspace, by its whole name
    pub workspace: Option<String>,
    /// Only events of these types
    #[serde(rename = "types[]")]
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
    /// Only items of memory of these kinds: episodic, semantic, procedural, working
    #[serde(rename = "kinds[]")]
    #[schemars(length(max = 100))]
    pub kinds: Vec<String>,
    /// Only events of this speaker: user, agent, tool, or a name
    pub who: Option<String>,
    /// Only events of this origin: user, model, tool, web, import
    pub origin: Option<String>,
    /// Also include events of archived sessions
    pub include_archived: bool,
    /// Only events written at or after this time
    #[serde(rename = "created_at[gte]")]
    pub created_gte: Option<String>,
    /// Only events written before this time
    #[serde(rename = "created_at[lt]")]
    pub created_lt: Option<String>,
    /// Maximum number of hits: 10 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// next_page of the previous answer
    pub page: Option<String>,
    /// Number of events shown on either side of a hit: none by default, 5 at most
    #[schemars(range(max = 5))]
    pub around: Option<u64>,
    /// Order: score (the default), or time for the newest first
    pub order: Option<String>,
    /// Approximate maximum of the tokens of all hits
    #[schemars(range(min = 100, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Milliseconds to wait for events not indexed yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
}

impl From<SearchQuery> for SearchBody {
    fn from(query: SearchQuery) -> Self {
        let SearchQuery { q, session, workspace, types, kinds, who, origin, .. } = query;
        Self {
            q,
            session,
            workspace,
            types,
            kinds,
            who,
            origin,
            include_archived: query.include_archived,
            after: query.created_gte,
            before: query.created_lt,
            limit: query.limit,
            page: query.page,
            around: query.around,
            order: query.order,
            tokens_max: query.tokens_max,
            wait_ms: query.wait_ms,
            ..Self::default()
        }
    }
}

impl Verb for Search {
    const ROUTE: Route = Route::get("/v1/search", "search", RequiredGrant::READ);
    const TAG: &'static str = "search";
    const ABOUT: &'static str = ABOUT;
    const ANSWERS: &'static str = "The hits";
    type Params = NoParams;
    type Query = SearchQuery;
    type Body = ();
    type Answer = SearchAnswer;
}

impl Serve for Search {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SearchAnswer> {
        call.service.search(&call.caller, call.query.into()).await
    }
}

pub struct SearchByBody;

impl Verb for SearchByBody {
    const ROUTE: Route = Route::post("/v1/search", "searchWith", RequiredGrant::READ);
    const TAG: &'static str = "search";
    const ABOUT: &'static str = "The same as `GET /v1/search`, with its parameters in the body.";
    const ASKS: BodyUse = BodyUse::Body("The query and its filters");
    const ANSWERS: &'static str = "The hits";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = SearchBody;
    type Answer = SearchAnswer;
}

impl Serve for SearchByBody {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SearchAnswer> {
        call.service.search(&call.caller, call.body).await
    }
}

impl ServeTool for SearchBody {
    type Answer = MemoryBlocksOut;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<MemoryBlocksOut> {
        let asked = Self {
            session: context.session.map(|session| session.to_string()),
            around: self.around.or(Some(MODEL_AROUND)),
            tokens_max: self.tokens_max.or(Some(MODEL_TOKENS)),
            wait_ms: MODEL_WAIT_MS,
            ..self
        };
        let found = call.service.search(call.caller, asked).await;
        Ok(MemoryBlocksOut::new(found.map_err(rename_time_fields)?))
    }
}

/// Renames the time fields of an error to their names in a body.
fn rename_time_fields(mut error: ServiceError) -> ServiceError {
    let field = match error.hint.field.as_deref() {
        Some("created_at[gte]") => "after",
        Some("created_at[lt]") => "before",
        _ => return error,
    };
    error.hint.field = Some(field.to_owned());
    error
}

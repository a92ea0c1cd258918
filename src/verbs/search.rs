//! The verb that looks in all sessions of a caller, on HTTP and as a tool. It must not rank.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, Need, NoQuery, Nowhere, Route, Serve, Verb, VerbCall, Visit,
    tools::{ServeTool, Tool, ToolCall, Toolset},
    values::{self, Times},
};
use crate::{
    service::{SearchCall, ServiceError, ServiceResult, session_id},
    wire::{
        search::SearchAnswer,
        tools::search::{Blocks, MemorySearch},
    },
};

/// Milliseconds that a search waits at most for what is not in the index yet, when asked to.
const WAIT_MS_MAX: u64 = 60_000;
const ABOUT: &str = "Finds events of all sessions of the caller by their words, those that a \
                     model's context has lost included: the best match first, each with the part \
                     that matches, what its score is made of, and what speaks against it. \
                     `complete` says what was not looked at yet.";

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<Search>();
    visit.verb::<SearchWith>();
    visit.tool(Tool::own::<MemorySearch>(
        "memory_search",
        "Search past sessions",
        "Before you ask the user again or repeat work: finds what was said, done or decided in \
         any session, by words. The query takes \"exact text\", -word, who:, type:, file:.",
        Toolset::Memory,
        Need::READ,
    ));
}

pub struct Search;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchQuery {
    #[doc = "Words to look for. `\"exact text\"` and `+word` must be there, `-word` must not, \
             `pre*` is the beginning of a word; `type:`, `session:`, `workspace:`, `who:`, \
             `origin:`, `file:`, `url:`, `after:` and `before:` filter"]
    #[schemars(length(max = 4096))]
    pub q: String,
    /// Only this session, and of a fork what it has of its parents
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
    /// Only by this speaker: user, agent, tool, or a name
    pub who: Option<String>,
    /// Only of this origin: user, model, tool, web, import
    pub origin: Option<String>,
    /// Also events of archived sessions
    pub include_archived: bool,
    /// Written at or after
    #[serde(rename = "created_at[gte]")]
    pub created_gte: Option<String>,
    /// Written before
    #[serde(rename = "created_at[lt]")]
    pub created_lt: Option<String>,
    /// Hits at most: 10 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// next_page of the answer before
    pub page: Option<String>,
    /// Events that are shown on either side of a hit: none by default, 5 at most
    #[schemars(range(max = 5))]
    pub around: Option<u64>,
    /// score (the default), or time for the newest first
    pub order: Option<String>,
    /// Tokens of all hits at most, about
    #[schemars(range(min = 100, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Wait so long for events that are not in the index yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
}

/// The same as the query, in a body: queries may be long.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchBody {
    /// Words to look for, with the same operators
    #[schemars(length(max = 4096))]
    pub q: String,
    /// Only this session, and of a fork what it has of its parents
    pub session: Option<String>,
    /// Only sessions of this workspace, by its whole name
    pub workspace: Option<String>,
    /// Only events of these types
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
    /// Only items of memory of these kinds: episodic, semantic, procedural, working
    #[schemars(length(max = 100))]
    pub kinds: Vec<String>,
    /// Only by this speaker: user, agent, tool, or a name
    pub who: Option<String>,
    /// Only of this origin: user, model, tool, web, import
    pub origin: Option<String>,
    /// Also events of archived sessions
    pub include_archived: bool,
    /// Written at or after: RFC 3339
    pub after: Option<String>,
    /// Written before: RFC 3339
    pub before: Option<String>,
    /// Hits at most: 10 by default, 100 at most
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// next_page of the answer before
    pub page: Option<String>,
    /// Events that are shown on either side of a hit: none by default, 5 at most
    #[schemars(range(max = 5))]
    pub around: Option<u64>,
    /// score (the default), or time for the newest first
    pub order: Option<String>,
    /// Tokens of all hits at most, about
    #[schemars(range(min = 100, max = 200_000))]
    pub tokens_max: Option<usize>,
    /// Wait so long for events that are not in the index yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
}

impl From<SearchBody> for SearchQuery {
    fn from(body: SearchBody) -> Self {
        let SearchBody { q, session, workspace, types, who, origin, include_archived, .. } = body;
        let SearchBody {
            kinds,
            after,
            before,
            limit,
            page,
            around,
            order,
            tokens_max,
            wait_ms,
            ..
        } = body;
        Self {
            q,
            session,
            workspace,
            types,
            kinds,
            who,
            origin,
            include_archived,
            created_gte: after,
            created_lt: before,
            limit,
            page,
            around,
            order,
            tokens_max,
            wait_ms,
        }
    }
}

impl SearchQuery {
    /// The parameters as values.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter.
    pub fn read(self) -> ServiceResult<SearchCall> {
        let times = Times {
            gte: self.created_gte.as_deref(),
            lt: self.created_lt.as_deref(),
            ..Times::default()
        };
        if self.wait_ms > WAIT_MS_MAX {
            return Err(ServiceError::invalid("wait_ms", format!("at most {WAIT_MS_MAX}")));
        }
        let newest_first = match self.order.as_deref() {
            None | Some("score") => false,
            Some("time") => true,
            Some(_) => return Err(ServiceError::invalid("order", "score or time is expected")),
        };
        Ok(SearchCall {
            below: None,
            words_alone: false,
            words: self.q,
            session: self.session.as_deref().map(session_id).transpose()?,
            workspace: self.workspace,
            types: values::types(&self.types)?,
            kinds: self.kinds,
            who: self.who,
            origin: self.origin,
            include_archived: self.include_archived,
            window: times.window()?,
            limit: self.limit,
            page: self.page,
            around: self.around.unwrap_or(0),
            newest_first,
            tokens_max: self.tokens_max,
            wait: Duration::from_millis(self.wait_ms),
        })
    }
}

impl Verb for Search {
    const ROUTE: Route = Route::get("/v1/search", "search", Need::READ);
    const TAG: &'static str = "search";
    const ABOUT: &'static str = ABOUT;
    const ANSWERS: &'static str = "What was found";
    type Params = Nowhere;
    type Query = SearchQuery;
    type Body = ();
    type Answer = SearchAnswer;
}

impl Serve for Search {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SearchAnswer> {
        Ok(call.service.search(&call.caller, call.query.read()?).await?.into())
    }
}

pub struct SearchWith;

impl Verb for SearchWith {
    const ROUTE: Route = Route::post("/v1/search", "searchWith", Need::READ);
    const TAG: &'static str = "search";
    const ABOUT: &'static str = "The same as `GET /v1/search`, with its parameters in the body.";
    const ASKS: Asks = Asks::Body("The query and its filters");
    const ANSWERS: &'static str = "What was found";
    type Params = Nowhere;
    type Query = NoQuery;
    type Body = SearchBody;
    type Answer = SearchAnswer;
}

impl Serve for SearchWith {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SearchAnswer> {
        let asked = SearchQuery::from(call.body).read()?;
        Ok(call.service.search(&call.caller, asked).await?.into())
    }
}

impl ServeTool for MemorySearch {
    type Answer = Blocks;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<Blocks> {
        let session = call.named(self.session_id.as_deref())?;
        let asked = SearchQuery {
            q: self.query,
            session: session.map(|session| session.to_string()),
            workspace: self.workspace,
            kinds: self.kinds,
            created_gte: self.after,
            created_lt: self.before,
            limit: self.limit,
            around: Some(self.around.unwrap_or(MemorySearch::AROUND)),
            tokens_max: Some(self.tokens_max.unwrap_or(MemorySearch::TOKENS)),
            page: self.cursor,
            wait_ms: MemorySearch::WAIT_MS,
            ..SearchQuery::default()
        };
        let found = call.service.search(call.caller, asked.read()?).await;
        Ok(Blocks::of(found.map_err(named_as_arguments)?))
    }
}

/// The parameters under the names that the tool gives them.
fn named_as_arguments(mut error: ServiceError) -> ServiceError {
    let field = match error.hint.field.as_deref() {
        Some("q") => "query",
        Some("page") => "cursor",
        Some("tokens_max") => "tokensMax",
        Some("created_at[gte]") => "after",
        Some("created_at[lt]") => "before",
        _ => return error,
    };
    error.hint.field = Some(field.to_owned());
    error
}

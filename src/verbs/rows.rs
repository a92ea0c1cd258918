//! The verbs that show a session to a person: its events as rows, and all of it at a glance. They
//! must not interpret an event.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RequiredGrant, Route, Serve, SessionPath, Verb, VerbCall, Visit};
use crate::{
    api::rows::{RowsAnswer, StripAnswer},
    event::EventType,
    service::{CONTENT_PAGE_BYTES, RowsCall, ServiceError, ServiceResult, values::parse_point},
};

/// Bytes that a row may take in memory.
const ROW_BYTES: usize = 2 << 10;

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<ViewRows>();
    visit.visit_verb::<ViewStrip>();
}

pub struct ViewRows;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RowsQuery {
    /// Point at which the rows begin; the beginning if omitted
    pub from: Option<String>,
    /// Point before which they end; the end if omitted
    pub to: Option<String>,
    /// Maximum number of rows: 200 by default, 500 at most
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<usize>,
    /// Types or domains of the events, with commas between them
    #[schemars(length(max = 4096))]
    pub types: Option<String>,
    /// Kinds of the rows with commas between them; `failed` selects failed calls, at their results,
    /// and errors
    #[schemars(length(max = 4096))]
    pub kinds: Option<String>,
    /// Thread of a subagent: its name, or its id
    #[schemars(length(max = 512))]
    pub thread: Option<String>,
    /// Text that the events contain, whatever its case
    #[schemars(length(max = 512))]
    pub q: Option<String>,
    /// True for the content of messages of the user and the agent: 64 000 bytes each, 400 000 of a
    /// response
    pub content: bool,
}

impl Verb for ViewRows {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/rows", "viewRows", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "The session for a person: a row for each event, each call with its \
                                 outcome. With a filter, the rows that it selects; one request \
                                 examines 20 000 events at most.";
    const ANSWERS: &'static str = "The rows, and where the next ones begin";
    type Params = SessionPath;
    type Query = RowsQuery;
    type Body = ();
    type Answer = RowsAnswer;

    fn answer_bytes(query: &RowsQuery) -> Option<usize> {
        let content = if query.content { CONTENT_PAGE_BYTES } else { 0 };
        Some(query.limit.unwrap_or(0).saturating_mul(ROW_BYTES) + content)
    }
}

impl Serve for ViewRows {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RowsAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let types = split_list(query.types.as_deref());
        let types = types.map(|name| {
            EventType::parse_domain(name).map_err(|error| ServiceError::invalid("types", error))
        });
        let asked = RowsCall {
            from: parse_point("from", query.from.as_deref())?,
            to: parse_point("to", query.to.as_deref())?,
            limit: query.limit,
            types: types.collect::<ServiceResult<_>>()?,
            kinds: split_list(query.kinds.as_deref()).map(str::to_owned).collect(),
            thread: query.thread,
            text: query.q,
            with_content: query.content,
        };
        service.rows(&caller, &params.session, asked).await
    }
}

/// Splits a list with commas between its items.
fn split_list(list: Option<&str>) -> impl Iterator<Item = &str> {
    let items = list.unwrap_or_default().split(',').map(str::trim);
    items.filter(|item| !item.is_empty())
}

pub struct ViewStrip;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StripQuery {
    /// Point at which the strip begins; the beginning if omitted
    pub from: Option<String>,
    /// Point before which it ends; the end if omitted
    pub to: Option<String>,
    /// Maximum number of buckets: 400 by default, 2 000 at most
    #[schemars(range(min = 1, max = 2000))]
    pub buckets: Option<usize>,
}

impl Verb for ViewStrip {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/views/strip", "viewStrip", RequiredGrant::READ);
    const TAG: &'static str = "views";
    const ABOUT: &'static str = "The session at a glance: counts of its events by position, and \
                                 where it was compacted, cleared, saved or forked.";
    const ANSWERS: &'static str = "The buckets, and the marks";
    type Params = SessionPath;
    type Query = StripQuery;
    type Body = ();
    type Answer = StripAnswer;
}

impl Serve for ViewStrip {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<StripAnswer> {
        let VerbCall { service, caller, params, query, .. } = call;
        let from = parse_point("from", query.from.as_deref())?;
        let to = parse_point("to", query.to.as_deref())?;
        let range = (from.as_ref(), to.as_ref());
        service.strip(&caller, &params.session, range, query.buckets).await
    }
}

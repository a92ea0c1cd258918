//! The verbs on the events of sessions: append, read, follow, export. Over HTTP each has a handler
//! of its own, which streams or also speaks protobuf. They must not interpret an event.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, Fencing, Media, NoParams, RequestHeader, RequiredGrant, Route, SessionPath, Verb,
    Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset, check_bounds},
};
use crate::{
    api::{append, events},
    event::{Batch, Position, limits},
    service::{
        AroundPoint, EventQuery, ServiceError, ServiceResult,
        values::{self, TimeBounds, parse_point},
    },
    wire::{
        NDJSON, PROTOBUF, SSE, json,
        tools::events::{EventEmitted, SliceShown},
    },
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_custom_verb::<Emit>();
    visit.visit_custom_verb::<GetEvents>();
    visit.visit_custom_verb::<AppendStream>();
    visit.visit_custom_verb::<Follow>();
    visit.visit_custom_verb::<Export>();
}

/// Number of events on either side of a point, by default.
const AROUND_DEFAULT: u64 = 5;

pub struct Emit;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EmitQuery {
    /// Create an unknown session with the batch
    pub create: bool,
}

impl Verb for Emit {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/events", "emitEvent", RequiredGrant::WRITE);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Appends a batch, all or nothing; the answer is durable.";
    const ASKS: BodyUse =
        BodyUse::Body("1 to 1 000 events, 16 MiB at most; protobuf: EmitRequest of events.proto");
    const TAKES: &'static [Media] = &[Media::Json, Media::Bytes(PROTOBUF)];
    const HEADERS: &'static [RequestHeader] = &[RequestHeader {
        name: "If-Position",
        about: "Position that the batch's first event must get",
        is_number: true,
    }];
    const KEY: Option<&'static str> =
        Some("A retry with the same key within 24 h returns the same positions");
    const FENCE: Fencing = Fencing::WhenHeld;
    const ANSWERS: &'static str = "The stored events";
    const GIVES: &'static [Media] = Self::TAKES;
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<events::EmitEventRequest>(
            "emit_event",
            "Append an event",
            Toolset::Events,
            Self::ROUTE.need,
            &[
                Argument::session("Default: your own."),
                Argument::new("event", r#"{"type": "domain.action", "id"?: "...", ...body}"#),
                Argument::new("ifPosition", "Append only if the event gets this position."),
                Argument::FENCE,
            ],
        )
        .with_about("Append one event to a session, durable before the answer.")
        .for_session()
        .without_trust_marker()
        .with_large_arguments()
        .with_plain_key(),
    );
    type Params = SessionPath;
    type Query = EmitQuery;
    type Body = events::EmitRequest;
    type Answer = events::EmitAnswer;
}

impl ServeTool for events::EmitEventRequest {
    type Answer = EventEmitted;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<EventEmitted> {
        let event = json::parse_event(self.event.get(), context.caller.origin)?;
        let batch = Batch {
            events: [event].into(),
            if_position: self.if_position.map(Position),
            key: call.key.cloned(),
            ..Batch::default()
        };
        let emitted =
            call.service.emit(&context.caller, context.expect_session(), batch, false).await;
        Ok(EventEmitted::new(&emitted.map_err(strip_event_path)?))
    }
}

/// Renames an error's field: the tool takes one event, so its members are named without the list.
fn strip_event_path(mut error: ServiceError) -> ServiceError {
    let field = error.hint.field.as_deref().and_then(|field| field.strip_prefix("events[0]."));
    if let Some(field) = field.map(str::to_owned) {
        error.message = error.message.replacen("events[0].", "", 1);
        error.hint.field = Some(field);
    }
    error
}

pub struct GetEvents;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventsQuery {
    /// Point of the first event; 0 by default
    pub from: Option<String>,
    /// Point after the last event; the tail by default
    pub to: Option<String>,
    /// Point whose surroundings are returned, instead of from and to
    pub around: Option<String>,
    /// With around: number of events before it, 5 by default
    pub before: Option<u64>,
    /// With around: number of events after it, 5 by default
    pub after: Option<u64>,
    /// Maximum number of events: 1 000 by default, 10 000 at most
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<usize>,
    /// Order: asc, or desc for the newest first
    pub order: Option<String>,
    /// Only events of these types
    #[serde(rename = "types[]")]
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
    /// Only events processed at or after this time; also gt, lt, lte
    #[serde(rename = "created_at[gte]")]
    pub created_gte: Option<String>,
    #[serde(rename = "created_at[gt]")]
    #[schemars(skip)]
    pub created_gt: Option<String>,
    #[serde(rename = "created_at[lte]")]
    #[schemars(skip)]
    pub created_lte: Option<String>,
    #[serde(rename = "created_at[lt]")]
    #[schemars(skip)]
    pub created_lt: Option<String>,
    /// next_page of the previous answer
    pub page: Option<String>,
    /// Milliseconds to wait for an event if there is none, 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
    /// Return the readable events of a damaged range, and name the gaps
    pub allow_gaps: bool,
}

impl EventsQuery {
    /// Parses the parameters.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter.
    pub fn parse(self) -> ServiceResult<EventQuery> {
        let (before, after) = (self.before, self.after);
        let around = parse_point("around", self.around.as_deref())?.map(|point| AroundPoint {
            point,
            before: before.unwrap_or(AROUND_DEFAULT),
            after: after.unwrap_or(AROUND_DEFAULT),
        });
        if around.is_none() && (before.is_some() || after.is_some()) {
            return Err(ServiceError::invalid("around", "before and after need a point"));
        }
        if self.wait_ms > limits::WAIT_MS_MAX {
            let problem = format!("at most {}", limits::WAIT_MS_MAX);
            return Err(ServiceError::invalid("wait_ms", problem));
        }
        let times = TimeBounds {
            gte: self.created_gte.as_deref(),
            gt: self.created_gt.as_deref(),
            lte: self.created_lte.as_deref(),
            lt: self.created_lt.as_deref(),
        };
        Ok(EventQuery {
            from: parse_point("from", self.from.as_deref())?,
            to: parse_point("to", self.to.as_deref())?,
            around,
            limit: self.limit,
            descending: values::is_reversed(self.order.as_deref(), "asc")?,
            types: values::parse_types(&self.types)?,
            window: times.window()?,
            page: self.page,
            allow_gaps: self.allow_gaps,
            wait: Duration::from_millis(self.wait_ms),
        })
    }
}

impl Verb for GetEvents {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/events", "getEvents", RequiredGrant::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "A slice of a session, by position, point, time or type.";
    const ANSWERS: &'static str = "The events, the next page, and the tail";
    const GIVES: &'static [Media] = &[Media::Json, Media::Bytes(PROTOBUF)];
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<SliceRequest>(
            "get_events",
            "Read events",
            Toolset::Events,
            Self::ROUTE.need,
            &[
                Argument::session("Default: your own."),
                Argument::new("from", "Default 0.").as_point(),
                Argument::new("to", "Where it ends; default end.").as_point(),
                Argument::new("around", "Instead: a point and what surrounds it.").as_point(),
                Argument::new("before", "Default 5."),
                Argument::new("after", "Default 5."),
                Argument::new("limit", "Default 100.").with_max(SLICE_MAX),
                Argument::new("order", "Order of a slice.").with_values(&["asc", "desc"]),
                Argument::new("types", ""),
                Argument::new("maxBytes", "Default 10000."),
            ],
        )
        .with_about(
            "When you need what was recorded word for word: a slice of a session. Points: 17, end, \
             -5, event:<id>, time:<RFC 3339>, step:<n>, action:<type>, checkpoint:<id or label>, \
             cursor:<name>.",
        )
        .for_session(),
    );
    type Params = SessionPath;
    type Query = EventsQuery;
    type Body = ();
    type Answer = events::EventsAnswer;
}

/// Default and maximum number of events in a slice of the tool.
const SLICE_DEFAULT: usize = 100;
const SLICE_MAX: usize = 1_000;

/// A slice for a model, within a number of bytes.
#[derive(Debug, Deserialize, JsonSchema)]
struct SliceRequest {
    #[serde(flatten)]
    query: EventsQuery,
    /// Maximum bytes of the answer
    #[schemars(range(min = 2000, max = 1_000_000))]
    max_bytes: Option<usize>,
}

impl ServeTool for SliceRequest {
    type Answer = SliceShown;

    async fn serve_tool(
        self,
        call: ToolCall<'_>,
        context: CallContext,
    ) -> ServiceResult<SliceShown> {
        let limit = Some(check_bounds("limit", self.query.limit, SLICE_DEFAULT, SLICE_MAX)?);
        let query = EventsQuery { limit, ..self.query }.parse()?;
        let slice =
            call.service.get_events(&context.caller, context.expect_session(), &query).await?;
        Ok(SliceShown::new(&slice, query.descending, self.max_bytes))
    }
}

pub struct AppendStream;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AppendQuery {
    /// Create unknown sessions with their first batch
    pub create: bool,
}

impl Verb for AppendStream {
    const ROUTE: Route = Route::post("/v1/append", "appendStream", RequiredGrant::WRITE);
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Appends batches to many sessions, each answered when it is \
                                 durable; one answer line for each line, in order for each \
                                 session.";
    const ASKS: BodyUse = BodyUse::Body(
        "Any number of lines, each an AppendLine; a batch a line. An empty line is skipped",
    );
    const TAKES: &'static [Media] = &[Media::Text(NDJSON)];
    const ANSWERS: &'static str = "For each line a LineAppended or a LineRefused";
    const GIVES: &'static [Media] = Self::TAKES;
    type Params = NoParams;
    type Query = AppendQuery;
    type Body = append::AppendLine;
    type Answer = String;
}

pub struct Follow;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FollowQuery {
    /// Point of the first event; the tail by default
    pub from: Option<String>,
    /// Only events of these types
    #[serde(rename = "types[]")]
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
}

impl Verb for Follow {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/events/stream", "streamEvents", RequiredGrant::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str =
        "The session as it grows: live from the tail, or from the point that is given.";
    const HEADERS: &'static [RequestHeader] = &[RequestHeader {
        name: "Last-Event-ID",
        about: "Position of the last event seen; replaces from",
        is_number: true,
    }];
    const ANSWERS: &'static str = "Server-sent events: `event` is the type, `id` the position; `ping` carries the tail, \
         `gap` names events that are lost for good, `session.deleted` ends the stream of a session \
         that is deleted, `done` comes before the server ends it";
    const GIVES: &'static [Media] = &[Media::Text(SSE)];
    type Params = SessionPath;
    type Query = FollowQuery;
    type Body = ();
    type Answer = String;
}

pub struct Export;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExportQuery {
    /// Format: jsonl by default, or another configured one
    pub format: Option<String>,
}

impl Verb for Export {
    const ROUTE: Route =
        Route::get("/v1/sessions/{session}/export", "exportSession", RequiredGrant::READ);
    const TAG: &'static str = "events";
    const ABOUT: &'static str =
        "A whole session: as JSON lines, one event each, or in another program's format.";
    const ANSWERS: &'static str = "The events up to the tail as it was when the request came; a \
                                   line of the type `gap` where some are lost for good";
    const GIVES: &'static [Media] = &[Media::Text(NDJSON)];
    type Params = SessionPath;
    type Query = ExportQuery;
    type Body = ();
    type Answer = String;
}

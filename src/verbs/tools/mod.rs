//! The dispatcher of tools: a tool's name and arguments become calls of the service, what comes
//! back its answer. It must not hold a rule of a session, and it writes no JSON.

mod way_out;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::way_out::Asked;
use crate::{
    event::{Batch, BatchKey, EventType, Fence, Point, Position, SessionId},
    projection::body::SourceBody,
    service::{
        Around, Caller, EventQuery, ForkCall, NewCheckpoint, RecoverCall, Service, ServiceError,
        ServiceResult, SessionQuery, Via,
    },
    wire::{
        json,
        overview::cursor,
        tools::{
            NOTICE, TRUST,
            answer::{ResearchAnswer, bound_by},
            events::{EmitAnswer, EmitEvent, EventsAnswer, GetEvents, Order},
            fork::{ForkAnswer, ForkSession},
            lists::{
                ClearAnswer, HistoryAnswer, PastOut, SessionOut, SessionsAnswer, SourcesAnswer,
            },
            memory::{ContinueAnswer, ContinueSession},
            research::{
                AddSources, ClearSession, GetResearchSession, ListSessions, ReviewHistory,
                SequentialSearch,
            },
            work::{Checkpoint, CheckpointAnswer, LeftOut, Resume, ResumeAnswer, StartOut},
        },
    },
};

/// Sessions of a list when the caller does not say, and at most.
const SESSIONS_MAX: usize = 10;
/// Sessions of a history when the caller does not say, and at most.
const HISTORY_MAX: usize = 5;
/// Events of a slice when the caller does not say, and at most.
const EVENTS_DEFAULT: usize = 100;
const EVENTS_MAX: usize = 1_000;
/// Surroundings of a point when the caller does not say.
const AROUND_DEFAULT: u64 = 5;

/// A tool's answer. The interface writes it: as text, as a tree, or as both.
pub struct ToolAnswer(Box<dyn Write + Send>);

impl ToolAnswer {
    /// Its JSON text.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.text()
    }

    /// The same as a tree. Written, it is the same text.
    #[must_use]
    pub fn value(&self) -> Value {
        self.0.value()
    }
}

impl fmt::Debug for ToolAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text())
    }
}

/// An answer of any type.
trait Write {
    fn text(&self) -> String;
    fn value(&self) -> Value;
}

impl<T: Serialize> Write for T {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a tool's answer is JSON")
    }

    fn value(&self) -> Value {
        serde_json::to_value(self).expect("a tool's answer is JSON")
    }
}

impl<T: Serialize + Send + 'static> From<T> for ToolAnswer {
    fn from(answer: T) -> Self {
        Self(Box::new(answer))
    }
}

/// Who calls a tool, and what carries it out.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// What carries it out.
    pub service: &'a Service,
    /// On whose behalf.
    pub caller: &'a Caller,
    /// By what the caller is known.
    pub via: &'a Via,
    /// Names the call: a retry with the same key does not happen twice.
    pub key: Option<&'a BatchKey>,
}

/// Calls a tool.
///
/// # Errors
/// `invalid_request` naming the argument, and those of the verb; with the call to make next where
/// there is one.
pub async fn call(call: ToolCall<'_>, name: &str, arguments: Value) -> ServiceResult<ToolAnswer> {
    let asked = Asked::of(name, &arguments);
    let key = call.key.map(|key| keyed(key, name, &arguments));
    let call = ToolCall { key: key.as_ref(), ..call };
    match call.dispatch(name, arguments).await {
        Err(error) => {
            let mut error = call.service.offer(call.caller, call.via, error).await;
            error.hint.call = asked.way_out(&error);
            Err(error)
        }
        answer => answer,
    }
}

/// The key of a call of a tool. Events are stored and compared, and what is redacted of them must
/// not be known by a digest. `continue_session` has a digest all the same, in the id of its
/// checkpoint: it cannot be guessed without the key, which is not stored with it.
fn keyed(key: &BatchKey, name: &str, arguments: &Value) -> BatchKey {
    if !matches!(name, "continue_session" | "fork_session" | "checkpoint" | "resume") {
        return key.clone();
    }
    let asked = ("tool", name, arguments);
    key.clone().of_call(|to| serde_json::to_writer(to, &asked)).expect("a call is JSON")
}

impl ToolCall<'_> {
    async fn dispatch(self, name: &str, arguments: Value) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        match name {
            "sequential_search" => {
                let arguments = parse_step(arguments)?;
                let delta = arguments.delta.unwrap_or(false);
                let depth = arguments.depth;
                let caller = &holding(caller, arguments.fencing_token);
                let session = session_id(arguments.session_id.as_deref())?;
                let mut step = arguments.into_call();
                (step.session, step.key) = (session, key.cloned());
                let answer = service.sequential_search(caller, via, step).await?;
                Ok(ResearchAnswer::of_step(answer, delta, depth).into())
            }
            "get_research_session" => self.recover(parse(arguments)?).await,
            "add_sources" => self.add_sources(parse(arguments)?).await,
            "list_sessions" => self.list_sessions(parse(arguments)?).await,
            "review_history" => self.review_history(parse(arguments)?).await,
            "clear_session" => {
                let ClearSession { fencing_token } = parse(arguments)?;
                let cleared = service.clear_session(&holding(caller, fencing_token), via).await?;
                Ok(ClearAnswer {
                cleared_session_id: cleared.map(|session| session.to_string()),
                message: "unbound; everything recorded is kept; stepNumber 1 starts a new session",
            }
            .into())
            }
            "emit_event" => self.emit_event(parse(arguments)?).await,
            "continue_session" => {
                let arguments: ContinueSession = parse(arguments)?;
                let session = session_id(arguments.session_id())?;
                let caller = &holding(caller, arguments.fencing_token);
                let mut call = arguments.into_call();
                (call.session, call.key) = (session, key.cloned());
                let continued =
                    service.continue_session(caller, via, call).await.map_err(renamed)?;
                Ok(ContinueAnswer::of(continued).into())
            }
            "get_events" => self.get_events(parse(arguments)?).await,
            "fork_session" => self.fork_session(parse(arguments)?).await,
            "checkpoint" => self.checkpoint(parse(arguments)?).await,
            "resume" => self.resume(parse(arguments)?).await,
            _ => Err(ServiceError::invalid("name", format!("there is no tool {name:?}"))
                .action("list the tools for their names")),
        }
    }

    async fn recover(self, arguments: GetResearchSession) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, .. } = self;
        if arguments.step_id == Some(0) {
            return Err(ServiceError::invalid("stepId", "steps are numbered from 1"));
        }
        let looks_up = arguments.find.is_some();
        if arguments.branch_id.is_some() && arguments.step_id.is_none() && !looks_up {
            let problem = "branchId says on which branch a step is looked for: name the step";
            return Err(ServiceError::invalid("stepId", problem));
        }
        let session = session_id(arguments.session_id.as_deref())?;
        let cursor = arguments.cursor.as_deref().map(|text| {
            cursor(text).ok_or_else(|| {
                ServiceError::invalid("cursor", "it is none of an answer's cursors")
                    .action("send a cursor of an earlier answer, unchanged")
            })
        });
        let at = match point("at", arguments.at.as_deref())? {
            None => None,
            Some(point) => {
                let (session, _) = service.bound(caller, via, session.as_ref()).await?;
                Some(service.resolve(caller, &session, &point).await?)
            }
        };
        let call = RecoverCall {
            session,
            step: arguments.step_id,
            branch: arguments.branch_id,
            cursor: cursor.transpose()?,
            at,
            find: arguments.find,
        };
        let (session, by, recovered) = service.get_research_session(caller, via, &call).await?;
        Ok(ResearchAnswer::of_recovered(&session, by, recovered).into())
    }

    async fn add_sources(self, arguments: AddSources) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let caller = &holding(caller, arguments.fencing_token);
        let sources = arguments.sources.into_iter().map(|source| SourceBody {
            url: source.url,
            title: source.title,
            kind: source.relevance,
            step: source.found_in_step,
            found_by: Some("model".to_owned()),
            tool: None,
        });
        let sources = sources.collect();
        let added =
            service.add_sources(caller, via, session.as_ref(), sources, key.cloned()).await?;
        Ok(SourcesAnswer {
            session_id: added.session.to_string(),
            bound_by: bound_by(added.bound_by),
            added: added.added,
            source_count: added.total,
        }
        .into())
    }

    async fn list_sessions(self, arguments: ListSessions) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, .. } = self;
        let limit = arguments.limit.unwrap_or(SESSIONS_MAX);
        if limit == 0 || limit > SESSIONS_MAX {
            return Err(ServiceError::invalid("limit", format!("from 1 to {SESSIONS_MAX}")));
        }
        let query = SessionQuery {
            limit: Some(limit),
            page: arguments.cursor,
            workspace: arguments.workspace,
            ..SessionQuery::default()
        };
        let page = service.list_sessions(caller, query).await.map_err(|mut error| {
            if error.hint.field.as_deref() == Some("page") {
                error.hint.field = Some("cursor".to_owned());
            }
            error
        })?;
        Ok(SessionsAnswer {
            sessions: page.sessions.iter().map(SessionOut::from).collect(),
            next_cursor: page.next_page,
            trust: TRUST,
            notice: NOTICE,
        }
        .into())
    }

    async fn review_history(self, arguments: ReviewHistory) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, .. } = self;
        let limit = arguments.limit.unwrap_or(HISTORY_MAX);
        if limit == 0 || limit > HISTORY_MAX {
            return Err(ServiceError::invalid("limit", format!("from 1 to {HISTORY_MAX}")));
        }
        let history = service.history(caller, arguments.workspace.as_ref(), Some(limit)).await?;
        Ok(HistoryAnswer {
            start_from: history.start_from.as_ref().map(StartOut::from),
            unfinished: history.unfinished.iter().map(LeftOut::from).collect(),
            sessions: history.sessions.into_iter().map(PastOut::from).collect(),
            trust: TRUST,
            notice: NOTICE,
        }
        .into())
    }

    async fn emit_event(self, arguments: EmitEvent) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let caller = &holding(caller, arguments.fencing_token);
        let text = Value::Object(arguments.event).to_string();
        let event = json::event(&text, caller.origin)?;
        let (session, by) = service.bound(caller, via, session.as_ref()).await?;
        let batch = Batch {
            events: [event].into(),
            if_position: arguments.if_position.map(Position),
            key: key.cloned(),
            ..Batch::default()
        };
        let emitted = service.emit(caller, &session, batch, false).await.map_err(of_the_event)?;
        service.bind(caller, via, &session);
        Ok(EmitAnswer::of(&session, by, &emitted).into())
    }

    async fn fork_session(self, arguments: ForkSession) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let at = Point::parse(&arguments.at).map_err(|error| ServiceError::invalid("at", error))?;
        let (session, by) = service.bound(caller, via, session.as_ref()).await?;
        let caller = &holding(caller, arguments.fencing_token);
        let call = ForkCall { at, id: None, title: arguments.title, key: key.cloned() };
        let fork = service.fork_session(caller, &session, call).await?;
        service.bind(caller, via, &session);
        Ok(ForkAnswer::of(&session, by, &fork).into())
    }

    async fn get_events(self, arguments: GetEvents) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, .. } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let limit = arguments.limit.unwrap_or(EVENTS_DEFAULT);
        if limit == 0 || limit > EVENTS_MAX {
            return Err(ServiceError::invalid("limit", format!("from 1 to {EVENTS_MAX}")));
        }
        let mut types = Vec::new();
        for name in &arguments.types {
            types
                .push(EventType::new(name).map_err(|error| ServiceError::invalid("types", error))?);
        }
        let around = point("around", arguments.around.as_deref())?.map(|point| Around {
            point,
            before: arguments.before.unwrap_or(AROUND_DEFAULT),
            after: arguments.after.unwrap_or(AROUND_DEFAULT),
        });
        let descending = arguments.order == Some(Order::Desc);
        let query = EventQuery {
            from: point("from", arguments.from.as_deref())?,
            to: point("to", arguments.to.as_deref())?,
            around,
            limit: Some(limit),
            descending,
            types,
            ..EventQuery::default()
        };
        let (session, by) = service.bound(caller, via, session.as_ref()).await?;
        let slice = service.get_events(caller, &session, &query).await?;
        service.bind(caller, via, &session);
        let bytes_max = arguments.bytes_max();
        Ok(EventsAnswer::of(&session, by, &slice, descending, bytes_max).into())
    }

    async fn checkpoint(self, arguments: Checkpoint) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let new = NewCheckpoint {
            label: arguments.label,
            thread: arguments.thread,
            parent: arguments.parent,
            at: point("at", arguments.at.as_deref())?,
            state: arguments.state,
            delta: arguments.state_delta,
            done: arguments.done.unwrap_or(false),
            key: key.cloned(),
            ..NewCheckpoint::default()
        };
        let (session, by) = service.bound(caller, via, session.as_ref()).await?;
        let caller = &holding(caller, arguments.fencing_token);
        let made = service.checkpoint(caller, &session, new).await?;
        service.bind(caller, via, &session);
        Ok(CheckpointAnswer::of(&session, by, &made).into())
    }

    async fn resume(self, arguments: Resume) -> ServiceResult<ToolAnswer> {
        let Self { service, caller, via, key } = self;
        let session = session_id(arguments.session_id.as_deref())?;
        let (session, by) = service.bound(caller, via, session.as_ref()).await?;
        let caller = &holding(caller, arguments.fencing_token);
        let call = arguments.into_call(key.cloned())?;
        let taken = service.take_up(caller, &session, call).await.map_err(renamed)?;
        service.bind(caller, via, &session);
        Ok(ResumeAnswer::of(&session, by, &taken).into())
    }
}

/// An error that names a parameter by the name it has here.
fn renamed(mut error: ServiceError) -> ServiceError {
    let here = match error.hint.field.as_deref() {
        Some("tokens_max") => "tokensMax",
        Some("ttl_seconds") => "ttlSeconds",
        _ => return error,
    };
    error.hint.field = Some(here.to_owned());
    error
}

/// The tool takes one event, so its members are named without the list around it.
fn of_the_event(mut error: ServiceError) -> ServiceError {
    let field = error.hint.field.as_deref().and_then(|field| field.strip_prefix("events[0]."));
    if let Some(field) = field.map(str::to_owned) {
        error.message = error.message.replacen("events[0].", "", 1);
        error.hint.field = Some(field);
    }
    error
}

/// The caller with the token of its lease.
fn holding(caller: &Caller, token: Option<u64>) -> Caller {
    Caller { fence: token.map(Fence).or(caller.fence), ..caller.clone() }
}

fn session_id(text: Option<&str>) -> ServiceResult<Option<SessionId>> {
    let checked = text.map(SessionId::new).transpose();
    checked.map_err(|error| {
        ServiceError::invalid("sessionId", error)
            .action("leave sessionId out for the bound session, or send one of list_sessions")
    })
}

fn point(field: &str, text: Option<&str>) -> ServiceResult<Option<Point>> {
    let parsed = text.map(Point::parse).transpose();
    parsed.map_err(|error| ServiceError::invalid(field, error))
}

/// The arguments, or which of them does not fit.
fn parse<T: DeserializeOwned>(arguments: Value) -> ServiceResult<T> {
    let arguments =
        if arguments.is_null() { Value::Object(serde_json::Map::new()) } else { arguments };
    let error = match T::deserialize(&arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error.to_string(),
    };
    let Value::Object(members) = &arguments else {
        return Err(ServiceError::invalid("arguments", "an object is expected"));
    };
    let missing = || error.strip_prefix("missing field `")?.split('`').next();
    let missing = missing().filter(|name| is_lacking::<T>(members, name));
    if let Some(name) = missing {
        return Err(
            ServiceError::invalid(name, "it is missing").action("look at the tool's input schema")
        );
    }
    // The argument without which the complaint is another one is the one complained about.
    let culprit = members.keys().find(|name| {
        let mut without = members.clone();
        // In their order: the complaint is about the first that does not fit.
        without.shift_remove(*name);
        !matches!(T::deserialize(&Value::Object(without)), Err(other) if other.to_string() == error)
    });
    let field = culprit.map_or("arguments", String::as_str);
    Err(ServiceError::invalid(field, &error).action("look at the tool's input schema"))
}

/// Whether a tool's own argument is missing, not a member of one: with it the complaint is another.
fn is_lacking<T: DeserializeOwned>(members: &serde_json::Map<String, Value>, name: &str) -> bool {
    let mut with = members.clone();
    let lacking = with.insert(name.to_owned(), Value::Null).is_none();
    let complaint = T::deserialize(&Value::Object(with)).err().map(|error| error.to_string());
    lacking && !complaint.is_some_and(|error| error.starts_with("unknown field"))
}

/// The arguments of a step; an argument of another tool is refused with the name of that tool.
fn parse_step(arguments: Value) -> ServiceResult<SequentialSearch> {
    let step: SequentialSearch = parse(arguments).map_err(|mut error| {
        if error.hint.field.as_deref() == Some("sources") {
            error = error.action("record the step without them, then send them to add_sources");
        }
        error
    })?;
    if step.lacks_revised() {
        let problem = "isRevision is true, and no step is named that it corrects";
        return Err(ServiceError::invalid("revisesStep", problem));
    }
    Ok(step)
}

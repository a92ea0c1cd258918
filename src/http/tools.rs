//! Tools over HTTP: `POST /v1/tools/{name}` with the tool's arguments, answering its structured
//! content. Front ends of MCP come in here. It must not know a tool.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, header::CONTENT_TYPE},
};
use serde_json::Value;

use super::{
    Shared,
    body::{Conditions, JsonBody, Who},
    describe::Refusals,
    gate::Asking,
    refuse::Refusal,
};
use crate::{
    access::Grant,
    event::Origin,
    service::{Caller, ServiceError},
    verbs::{
        routes,
        tools::{self, ToolCall},
    },
    wire::tools::{tool, via},
};

/// Calls a tool; proto/mcp/tools.json lists them with their schemas.
#[utoipa::path(
    post, path = routes::CALL_TOOL.path, operation_id = routes::CALL_TOOL.id, tag = "tools",
    params(
        ("name" = String, Path, description = "Name of the tool"),
        ("Sessionlog-Session" = Option<String>, Header, description = "The session the caller was started for"),
        ("Sessionlog-Connection" = Option<String>, Header, description = "Name of the caller's connection: without an id it goes on with the session it used last"),
        ("Sessionlog-Connection-Session" = Option<String>, Header, description = "The session the front end remembers of that connection"),
        ("Sessionlog-Directory" = Option<String>, Header, description = "The caller's working directory, percent-encoded"),
        ("Sessionlog-Root" = Option<String>, Header, description = "The root of the repository that directory lies in, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key does not happen twice"),
    ),
    request_body(content = Value, description = "The tool's arguments, camelCase"),
    responses((status = 200, description = "The tool's structured content, camelCase", body = Value), Refusals)
)]
pub(super) async fn call(
    State(door): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    Path(name): Path<String>,
    headers: HeaderMap,
    conditions: Conditions,
    JsonBody(arguments, _room): JsonBody<Value>,
) -> Result<([(HeaderName, &'static str); 1], String), Refusal> {
    // What comes through a tool was caused by a model, whoever runs it.
    let caller = Caller { origin: Origin::Model, ..caller };
    if let Some(tool) = tool(&name) {
        who.require(Grant::of_tool(tool.read_only)).map_err(ServiceError::from)?;
    }
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let via = via::read(text)?;
    let key = conditions.key.as_ref();
    let call = ToolCall { service: &door.app.service, caller: &caller, via: &via, key };
    let answer = tools::call(call, &name, arguments).await?;
    Ok(([(CONTENT_TYPE, "application/json")], answer.text()))
}

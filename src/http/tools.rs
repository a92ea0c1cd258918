//! Tools over HTTP: `POST /v1/tools/{name}` with the tool's arguments; the answer is its structured
//! content. MCP front ends call it. It must not depend on a particular tool.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, header::CONTENT_TYPE},
};
use serde_json::{Value, value::RawValue};

use super::{
    Shared,
    body::{AppendConditions, JsonBody, RequestCaller},
    gate::RequestPrincipal,
    refuse::HttpError,
};
use crate::{
    event::Origin,
    service::Caller,
    verbs::tools::{self, ToolCall},
    wire::tools::via,
};

/// Arguments as raw JSON text.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub(super) struct RawArguments(#[schemars(with = "Value")] Box<RawValue>);

/// Calls a tool; proto/mcp/tools.json lists them with their schemas.
pub(super) async fn call_tool(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    Path(name): Path<String>,
    headers: HeaderMap,
    conditions: AppendConditions,
    JsonBody(arguments, _room): JsonBody<RawArguments>,
) -> Result<([(HeaderName, &'static str); 1], String), HttpError> {
    // A model causes every call of a tool, regardless of the process that sends it.
    let caller = &Caller { origin: Origin::Model, ..caller };
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let via = &via::read(text)?;
    let (service, owner) = (&server.app.service, &server.app.owner);
    let key = conditions.key.as_ref();
    let call = ToolCall { service, owner, caller, who: &who, via, key };
    let answer = tools::call(call, &name, arguments.0.get().to_owned()).await?;
    Ok(([(CONTENT_TYPE, "application/json")], answer))
}

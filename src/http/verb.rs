//! The one handler of every declared verb: parses its path, query and body, serves it, and writes
//! its answer. It must not depend on a particular verb.

use std::sync::Arc;

use super::{
    Server, Shared,
    body::{AppendConditions, JsonBody, RequestCaller},
    gate::RequestPrincipal,
    params::QueryParams,
    refuse::HttpError,
};
use crate::verbs::{
    AnswerReader, BodyUse, Method, PathParams as _, Serve, VerbCall, derive_call_key,
};
use axum::{
    body::Bytes,
    extract::{FromRequest as _, FromRequestParts as _, RawPathParams, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter, on},
};

pub(super) fn handler<V: Serve>() -> MethodRouter<Arc<Server>> {
    let filter = match V::ROUTE.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
        Method::Any => unreachable!("a verb has a method"),
    };
    on(filter, handle::<V>)
}

async fn handle<V: Serve>(State(server): Shared, request: Request) -> Result<Response, HttpError> {
    let (mut parts, body) = request.into_parts();
    let RequestCaller(caller) = RequestCaller::from_request_parts(&mut parts, &server).await?;
    let RequestPrincipal(who) = RequestPrincipal::from_request_parts(&mut parts, &server).await?;
    let params = RawPathParams::from_request_parts(&mut parts, &server).await;
    let params = params
        .map_err(|_| HttpError::invalid(first_parameter(V::ROUTE.path), "it is not UTF-8"))?;
    let params: Vec<(String, String)> =
        params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let params = V::Params::from_pairs(&params)?;
    let QueryParams(query) = QueryParams::from_request_parts(&mut parts, &server).await?;
    let key = match V::KEY {
        Some(_) => AppendConditions::from_request_parts(&mut parts, &server).await?.key,
        None => None,
    };
    let JsonBody(body, _room) = match V::ASKS {
        BodyUse::Nothing => {
            let body = serde_json::from_str("null").expect("the body of such a verb is ()");
            JsonBody(body, None)
        }
        BodyUse::Maybe(_) | BodyUse::Body(_) => {
            JsonBody::from_request(Request::from_parts(parts, body), &server).await?
        }
    };
    let key = key.map(|key| derive_call_key::<V>(key, &params, &query, &body));
    let held = match V::answer_bytes(&query) {
        Some(bytes) => Some(server.room.reserve(bytes).await?),
        None => None,
    };
    let (service, owner) = (&server.app.service, &server.app.owner);
    let (who, reader) = (&who, AnswerReader::Program);
    let call = VerbCall::<V> { service, owner, caller, who, reader, key, params, query, body };
    let refused = |error| HttpError::from(error).with_invalid_status(V::INVALID_STATUS);
    let answer = V::serve(call).await.map_err(refused)?;
    let (text, media) = match V::text(&answer) {
        Some(text) => (text.as_bytes().to_vec(), "text/markdown; charset=utf-8"),
        None => {
            let text = serde_json::to_vec(&answer);
            (text.expect("an answer is JSON and memory takes it"), "application/json")
        }
    };
    let text = match held {
        Some(held) => held.into_response(text),
        None => Bytes::from(text),
    };
    let status = StatusCode::from_u16(V::STATUS).expect("a declared status is one");
    Ok((status, [(CONTENT_TYPE, media)], text).into_response())
}

/// Returns the name of a path's first parameter.
fn first_parameter(path: &'static str) -> &'static str {
    let name = path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    name.map_or("path", |(name, _)| name)
}

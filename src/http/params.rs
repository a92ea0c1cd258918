//! Query parameters: names with or without percent-encoding, lists as `types[]=a&types[]=b`. A
//! refusal names the parameter with a wrong value; `strict` refuses unknown names before. It must
//! not depend on a particular parameter.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::de::DeserializeOwned;

use super::{Server, refuse::HttpError};
use crate::verbs::read_query;

/// The parameters of one request.
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Server>> for QueryParams<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Result<Self, HttpError> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let pairs: Vec<(String, String)> = pairs.into_owned().collect();
        Ok(Self(read_query(&pairs)?))
    }
}

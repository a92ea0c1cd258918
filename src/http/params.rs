//! Query parameters of the handlers that are no verbs, each route's as a struct. A wrong value is
//! refused by name; an unknown name was refused before, by `strict`. It must not hold a default.

use std::{sync::Arc, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Door, refuse::Refusal};
use crate::{
    event::limits,
    service::{Around, EventQuery},
    verbs::{
        read_query,
        values::{self, Times},
    },
};

/// Events before and after a point when the client does not say how many.
const AROUND_DEFAULT: u64 = 5;

/// The parameters of one request.
pub(super) struct Params<Q>(pub(super) Q);

impl<Q: DeserializeOwned> FromRequestParts<Arc<Door>> for Params<Q> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Door>) -> Result<Self, Refusal> {
        read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn read<Q: DeserializeOwned>(query: &str) -> Result<Q, Refusal> {
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    Ok(read_query(&pairs)?)
}

/// Of an append.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Creating {
    pub(super) create: bool,
}

/// Of an export.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InFormat {
    pub(super) format: Option<String>,
}

/// Of the threads of a session.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfStatuses {
    #[serde(rename = "statuses[]")]
    pub(super) statuses: Vec<String>,
}

/// Of a session's events as they come.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Following {
    pub(super) from: Option<String>,
    #[serde(rename = "types[]")]
    pub(super) types: Vec<String>,
}

/// Of a slice of events.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Slicing {
    from: Option<String>,
    to: Option<String>,
    around: Option<String>,
    before: Option<u64>,
    after: Option<u64>,
    limit: Option<usize>,
    order: Option<String>,
    #[serde(rename = "types[]")]
    types: Vec<String>,
    #[serde(rename = "created_at[gte]")]
    gte: Option<String>,
    #[serde(rename = "created_at[gt]")]
    gt: Option<String>,
    #[serde(rename = "created_at[lte]")]
    lte: Option<String>,
    #[serde(rename = "created_at[lt]")]
    lt: Option<String>,
    page: Option<String>,
    wait_ms: Option<u64>,
    allow_gaps: bool,
}

impl Slicing {
    pub(super) fn query(self) -> Result<EventQuery, Refusal> {
        let around = values::point("around", self.around.as_deref())?.map(|point| Around {
            point,
            before: self.before.unwrap_or(AROUND_DEFAULT),
            after: self.after.unwrap_or(AROUND_DEFAULT),
        });
        if around.is_none() && (self.before.is_some() || self.after.is_some()) {
            return Err(Refusal::invalid("around", "before and after need a point"));
        }
        let wait_ms = self.wait_ms.unwrap_or(0);
        if wait_ms > limits::WAIT_MS_MAX {
            return Err(Refusal::invalid("wait_ms", format!("at most {}", limits::WAIT_MS_MAX)));
        }
        let times = Times {
            gte: self.gte.as_deref(),
            gt: self.gt.as_deref(),
            lte: self.lte.as_deref(),
            lt: self.lt.as_deref(),
        };
        Ok(EventQuery {
            from: values::point("from", self.from.as_deref())?,
            to: values::point("to", self.to.as_deref())?,
            around,
            limit: self.limit,
            descending: values::reversed(self.order.as_deref(), "asc")?,
            types: values::types(&self.types)?,
            window: times.window()?,
            page: self.page,
            allow_gaps: self.allow_gaps,
            wait: Duration::from_millis(wait_ms),
        })
    }
}

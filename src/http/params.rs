//! Query parameters: names with or without percent-encoding, lists as `types[]=a&types[]=b`. A
//! wrong value is refused by name; an unknown name was refused before, by `strict`. It must not
//! hold a default.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Door, refuse::Refusal};
use crate::{
    event::{EventType, Point, limits},
    service::{Around, EventQuery, Window},
    verbs::values::{self, Times},
};

/// Events before and after a point when the client does not say how many.
const AROUND_DEFAULT: u64 = 5;

/// The parameters of one request.
pub(super) struct Params(pub(super) Vec<(String, String)>);

impl FromRequestParts<Arc<Door>> for Params {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Door>) -> Result<Self, Refusal> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Params {
    fn parse(query: &str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The value of a parameter that may come once; an empty one counts as absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        match found.next() {
            Some(_) => Err(Refusal::invalid(name, "the parameter comes twice")),
            None => Ok(value.filter(|value| !value.is_empty())),
        }
    }

    /// The values of a parameter that may come often, `name[]` or `name`.
    fn list(&self, name: &str) -> Vec<&str> {
        let is = |known: &str| known == name || known.strip_suffix("[]") == Some(name);
        self.0.iter().filter(|(known, _)| is(known)).map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number.map(Some).ok_or_else(|| Refusal::invalid(name, "a whole number is expected"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.text(name)? {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(Refusal::invalid(name, "true or false is expected")),
        }
    }

    pub(super) fn point(&self, name: &str) -> Result<Option<Point>, Refusal> {
        Ok(values::point(name, self.text(name)?)?)
    }

    /// `created_at[gte|gt|lt|lte]` as one half-open window.
    fn window(&self) -> Result<Window, Refusal> {
        let times = Times {
            gte: self.text("created_at[gte]")?,
            gt: self.text("created_at[gt]")?,
            lte: self.text("created_at[lte]")?,
            lt: self.text("created_at[lt]")?,
        };
        Ok(times.window()?)
    }

    pub(super) fn types(&self) -> Result<Vec<EventType>, Refusal> {
        Ok(values::types(&self.list("types"))?)
    }

    pub(super) fn statuses(&self) -> Vec<String> {
        values::words(&self.list("statuses")).map(str::to_owned).collect()
    }

    pub(super) fn events(&self) -> Result<EventQuery, Refusal> {
        let (before, after) = (self.number("before")?, self.number("after")?);
        let around = self.point("around")?.map(|point| Around {
            point,
            before: before.unwrap_or(AROUND_DEFAULT),
            after: after.unwrap_or(AROUND_DEFAULT),
        });
        if around.is_none() && (before.is_some() || after.is_some()) {
            return Err(Refusal::invalid("around", "before and after need a point"));
        }
        let wait = self.number("wait_ms")?.unwrap_or(0);
        if wait > limits::WAIT_MS_MAX {
            return Err(Refusal::invalid("wait_ms", format!("at most {}", limits::WAIT_MS_MAX)));
        }
        Ok(EventQuery {
            from: self.point("from")?,
            to: self.point("to")?,
            around,
            limit: self.number("limit")?,
            descending: values::reversed(self.text("order")?, "asc")?,
            types: self.types()?,
            window: self.window()?,
            page: self.text("page")?.map(str::to_owned),
            allow_gaps: self.flag("allow_gaps")?,
            wait: Duration::from_millis(wait),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Timestamp;

    #[test]
    fn names_are_the_same_with_and_without_percent_encoding() {
        for query in [
            "types[]=a.b&types[]=c.d&created_at[gte]=2026-11-21T10:00:00Z&beta=true",
            "types%5B%5D=a.b&types%5B%5D=c.d&created_at%5Bgte%5D=2026-11-21T10%3A00%3A00Z&x[y]=1",
            "types=a.b&types=c.d&created_at[gte]=2026-11-21T12:00:00+02:00",
            "types=a.b%2Cc.d&created_at[gte]=2026-11-21T10:00:00Z",
        ] {
            let query = Params::parse(query).events().expect(query);
            assert_eq!(query.types.len(), 2);
            assert_eq!(query.window.from, Timestamp::parse("2026-11-21T10:00:00Z"));
        }
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for query in [
            "limit=x",
            "limit=-1",
            "limit=1&limit=2",
            "order=up",
            "from=nowhere",
            "to=1.5",
            "wait_ms=soon",
            "wait_ms=60001",
            "allow_gaps=perhaps",
            "types[]=a%20b",
            "created_at[lt]=now",
            "before=1",
            "around=17&before=x",
            "limit=99999999999999999999",
        ] {
            assert!(Params::parse(query).events().is_err(), "{query}");
        }
    }
}

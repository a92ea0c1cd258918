//! Query parameters: names with or without percent-encoding, lists as `types[]=a&types[]=b`. A
//! wrong value is refused by name; an unknown name was refused before, by `strict`. It must not
//! hold a default.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Door, refuse::Refusal};
use crate::{
    event::{EventType, Point, Timestamp, limits},
    service::{Around, EventQuery, RecoverCall, SessionQuery, Window, WindowQuery},
    wire::{
        hosted,
        overview::{Cursor, Level, cursor},
        window,
    },
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
        Ok(self.given(name)?.filter(|value| !value.is_empty()))
    }

    /// The value of a parameter that may come once, whatever it is.
    pub(super) fn given(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        match found.next() {
            Some(_) => Err(Refusal::invalid(name, "the parameter comes twice")),
            None => Ok(value),
        }
    }

    /// The values of a parameter that may come often, `name[]` or `name`.
    fn list(&self, name: &str) -> Vec<&str> {
        let is = |known: &str| known == name || known.strip_suffix("[]") == Some(name);
        self.0.iter().filter(|(known, _)| is(known)).map(|(_, value)| value.as_str()).collect()
    }

    /// The same of words: some clients join them with commas.
    fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.list(name).into_iter().flat_map(|value| value.split(','))
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
        let Some(text) = self.text(name)? else { return Ok(None) };
        // A plus that was not percent-encoded arrives as a blank; a time has no blank of its own.
        let text = if text.starts_with("time:") { text.replace(' ', "+") } else { text.to_owned() };
        Point::parse(&text).map(Some).map_err(|error| Refusal::invalid(name, error))
    }

    /// Whether `order` asks for the other order than `usual`.
    fn order(&self, usual: &str) -> Result<bool, Refusal> {
        match self.text("order")? {
            None => Ok(false),
            Some(order @ ("asc" | "desc")) => Ok(order != usual),
            Some(_) => Err(Refusal::invalid("order", "asc or desc is expected")),
        }
    }

    fn time(&self, name: &str) -> Result<Option<Timestamp>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let time = Timestamp::parse(&text.replace(' ', "+"));
        time.map(Some).ok_or_else(|| Refusal::invalid(name, "an RFC 3339 time is expected"))
    }

    /// `created_at[gte|gt|lt|lte]` as one half-open window.
    fn window(&self) -> Result<Window, Refusal> {
        let after = self.time("created_at[gt]")?.map(|time| time.plus_micros(1));
        let until = self.time("created_at[lte]")?.map(|time| time.plus_micros(1));
        let (from, to) = (self.time("created_at[gte]")?, self.time("created_at[lt]")?);
        Ok(Window { from: from.max(after), to: to.into_iter().chain(until).min() })
    }

    pub(super) fn types(&self) -> Result<Vec<EventType>, Refusal> {
        let parse = |text| EventType::new(text).map_err(|error| Refusal::invalid("types[]", error));
        self.words("types").map(parse).collect()
    }

    pub(super) fn sessions(&self) -> Result<SessionQuery, Refusal> {
        let window = self.window()?;
        Ok(SessionQuery {
            limit: self.number("limit")?,
            page: self.text("page")?.map(str::to_owned),
            ascending: self.order("desc")?,
            workspace: self.text("workspace")?.map(str::to_owned),
            include_archived: self.flag("include_archived")?,
            statuses: self.words("statuses").map(str::to_owned).collect(),
            metadata: hosted::wanted(hosted::RunBy {
                agent: self.text("agent_id")?,
                version: self.number("agent_version")?,
                unknown: self.text("deployment_id")?.or(self.text("memory_store_id")?),
            }),
            created_from: window.from,
            created_to: window.to,
        })
    }

    pub(super) fn view_step(&self, number: &str) -> Result<RecoverCall, Refusal> {
        let problem = || Refusal::invalid("number", "steps are numbered from 1");
        let step: u64 = number.parse().map_err(|_| problem())?;
        if step == 0 {
            return Err(problem());
        }
        Ok(RecoverCall {
            step: Some(step),
            branch: self.text("branch")?.map(str::to_owned),
            cursor: self.cursor()?,
            ..RecoverCall::default()
        })
    }

    /// Where an earlier view said that a list or a step's text continues.
    pub(super) fn cursor(&self) -> Result<Option<Cursor>, Refusal> {
        let cursor = self.text("cursor")?.map(|text| {
            cursor(text).ok_or_else(|| Refusal::invalid("cursor", "it is none of an answer's"))
        });
        cursor.transpose()
    }

    /// How fine a summary is.
    pub(super) fn level(&self) -> Result<Level, Refusal> {
        let problem = || Refusal::invalid("level", "step, phase, session or auto");
        self.text("level")?.map_or(Ok(Level::Step), |name| Level::parse(name).ok_or_else(problem))
    }

    /// How a window is built; `placed` by its own points.
    pub(super) fn view_window(&self, placed: bool) -> Result<WindowQuery, Refusal> {
        let point = |name| if placed { self.point(name) } else { Ok(None) };
        Ok(window::query(window::WindowParams {
            tokens_max: self.number("tokens_max")?,
            tokenizer: self.text("tokenizer")?,
            transforms: self.list("transforms"),
            format: self.text("format")?,
            from: point("from")?,
            at: point("at")?,
        })?)
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
            descending: self.order("asc")?,
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

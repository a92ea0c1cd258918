//! Parsers of parameters that several verbs take: sessions, points, times, orders, lists of words.
//! An invalid value is rejected with the name of its parameter. It must not contain a default.

use super::{ServiceError, ServiceResult, TimeWindow};
use crate::event::{EventType, Point, SessionId, Timestamp, limits};

/// Parses an optional session id.
///
/// # Errors
/// Those of [`parse_session_id`], naming the parameter.
pub fn parse_session(name: &str, text: Option<&str>) -> ServiceResult<Option<SessionId>> {
    let named = |mut error: ServiceError| {
        error.hint.field = Some(name.to_owned());
        error
    };
    text.map(parse_session_id).transpose().map_err(named)
}

/// Parses a session id.
///
/// # Errors
/// `invalid_request`, naming `session`, with the form of an id.
pub fn parse_session_id(text: &str) -> ServiceResult<SessionId> {
    SessionId::new(text).map_err(|error| {
        let action = "session ids are [A-Za-z0-9][A-Za-z0-9._-]{0,127}";
        ServiceError::invalid("session", error).action(action)
    })
}

/// Rejects an invalid workspace name.
///
/// # Errors
/// `invalid_request`, naming `workspace`.
pub(super) fn check_workspace(workspace: &str) -> ServiceResult<()> {
    let chars = workspace.chars().count();
    if chars == 0 || chars > limits::WORKSPACE_CHARS_MAX {
        let problem = format!("1 to {} characters", limits::WORKSPACE_CHARS_MAX);
        return Err(ServiceError::invalid("workspace", problem));
    }
    Ok(())
}

/// Parses an optional point.
///
/// # Errors
/// `invalid_request`, naming the parameter.
pub fn parse_point(name: &str, text: Option<&str>) -> ServiceResult<Option<Point>> {
    let Some(text) = text else { return Ok(None) };
    // A plus that was not percent-encoded arrives as a space; times contain no spaces.
    let text = if text.starts_with("time:") { text.replace(' ', "+") } else { text.to_owned() };
    Point::parse(&text).map(Some).map_err(|error| ServiceError::invalid(name, error))
}

/// Returns true if an order is the opposite of `usual`.
///
/// # Errors
/// `invalid_request`, naming `order`.
pub fn is_reversed(order: Option<&str>, usual: &str) -> ServiceResult<bool> {
    match order {
        None => Ok(false),
        Some(order @ ("asc" | "desc")) => Ok(order != usual),
        Some(_) => Err(ServiceError::invalid("order", "asc or desc is expected")),
    }
}

/// Limits of a time window, as texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeBounds<'a> {
    /// `created_at[gte]`.
    pub gte: Option<&'a str>,
    /// `created_at[gt]`.
    pub gt: Option<&'a str>,
    /// `created_at[lte]`.
    pub lte: Option<&'a str>,
    /// `created_at[lt]`.
    pub lt: Option<&'a str>,
}

impl TimeBounds<'_> {
    /// Parses the limits into one half-open window.
    ///
    /// # Errors
    /// `invalid_request`, naming the limit that is not an RFC 3339 time.
    pub fn window(self) -> ServiceResult<TimeWindow> {
        let after = parse_time("created_at[gt]", self.gt)?.map(|time| time.plus_micros(1));
        let until = parse_time("created_at[lte]", self.lte)?.map(|time| time.plus_micros(1));
        let from = parse_time("created_at[gte]", self.gte)?;
        let to = parse_time("created_at[lt]", self.lt)?;
        Ok(TimeWindow { from: from.max(after), to: to.into_iter().chain(until).min() })
    }
}

/// Parses an optional time.
///
/// # Errors
/// `invalid_request`, naming the parameter.
pub fn parse_time(name: &str, text: Option<&str>) -> ServiceResult<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let time = Timestamp::parse(&text.replace(' ', "+"));
    time.map(Some).ok_or_else(|| ServiceError::invalid(name, Timestamp::EXPECTED))
}

/// Splits a list into words. Some clients join them with commas.
pub fn split_commas<T: AsRef<str>>(list: &[T]) -> impl Iterator<Item = &str> {
    list.iter().flat_map(|value| value.as_ref().split(','))
}

/// Parses event types or their domains.
///
/// # Errors
/// `invalid_request`, naming `types[]`.
pub fn parse_types<T: AsRef<str>>(list: &[T]) -> ServiceResult<Vec<EventType>> {
    let count = split_commas(list).count();
    if count > limits::FILTER_VALUES_MAX {
        let problem = format!("{count} values; {} are allowed", limits::FILTER_VALUES_MAX);
        return Err(ServiceError::invalid("types[]", problem));
    }
    let parse = |text| {
        EventType::parse_domain(text).map_err(|error| ServiceError::invalid("types[]", error))
    };
    split_commas(list).map(parse).collect()
}

//! Parsers of argument values that several verbs share. It must not know a verb.

use std::time::Duration;

use clap::ValueEnum;

use crate::{
    access::Grant,
    event::{EventId, Point},
    service::ChainReceipt,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortOrder {
    /// Oldest first
    Asc,
    /// Newest first
    Desc,
}

/// Returns the name of a value on the command line and in HTTP requests.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(crate) fn parse_event_id(text: &str) -> Result<EventId, String> {
    EventId::new(text).map_err(|error| error.to_string())
}

pub(crate) fn parse_receipt(text: &str) -> Result<String, String> {
    let wrong = || "it must be POSITION:HASH of a receipt, the hash 64 hex digits".to_owned();
    ChainReceipt::parse(text).map(|_| text.to_owned()).ok_or_else(wrong)
}

pub(crate) fn parse_grant(text: &str) -> Result<Grant, String> {
    let wrong = || "the scopes are read, write, delete, admin and operator".to_owned();
    Grant::parse(text).ok_or_else(wrong)
}

pub(crate) fn parse_point(text: &str) -> Result<String, String> {
    Point::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "it must be a duration, such as 30m, 2h or 7d".to_owned();
    super::super::values::parse_duration(text).filter(|lasts| !lasts.is_zero()).ok_or_else(wrong)
}

pub(crate) fn parse_speed(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("it must be a number above 0, for example 2 or 0.5".to_owned()),
    }
}

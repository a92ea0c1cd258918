//! The arguments of the verb on the graph of a workspace. It must not act on them.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use super::super::values::parse_duration_argument;
use crate::api::graph::{Filter, Sort};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog graph --since 7d                                what was done here, in numbers
  sessionlog graph ~/work/bank --type file --sort sessions:desc --sessions
  sessionlog graph ~/work/bank --upsert task/42 --properties '{\"state\": \"open\"}'
  sessionlog graph ~/work/bank --relate 42 CONCERNS src/ledger.rs
  sessionlog graph ~/work/bank --remove task/42
  sessionlog graph ~/work/bank --type task --where 'state eq open' --sort created_at:desc
  sessionlog graph ~/work/bank --of 42                       the relations of an entity

A condition of --where is FIELD OP VALUE: eq, ne, lt, lte, gt, gte, in, contains or exists, and a
value as JSON or as plain text. A field is type, id, created_at or another member, else a
property.")]
pub(crate) struct GraphArgs {
    /// Workspace: a directory in it, or its name [default: that of the working directory]
    #[arg(value_name = "W")]
    pub(crate) workspace: Option<String>,
    /// Create the entity TYPE/ID, or change its properties
    #[arg(long, value_name = "TYPE/ID", value_parser = parse_entity)]
    pub(crate) upsert: Option<(String, String)>,
    /// Relate two entities, sessions or the workspace itself
    #[arg(long, num_args = 3, value_names = ["FROM", "TYPE", "TO"], conflicts_with = "upsert")]
    pub(crate) relate: Option<Vec<String>>,
    /// Remove an entity with its relations, or a relation by its id
    #[arg(long, value_name = "TYPE/ID|ID", conflicts_with_all = ["upsert", "relate"])]
    pub(crate) remove: Option<String>,
    /// Properties to set with --upsert (null removes one), or of the relation with --relate
    #[arg(long, value_name = "JSON", value_parser = parse_object, conflicts_with = "relations")]
    pub(crate) properties: Option<Map<String, Value>>,
    /// List entities: those that callers wrote, and those that sessions name
    #[arg(long, conflicts_with_all = ["upsert", "relate"])]
    pub(crate) entities: bool,
    /// Entities to list: all, only those that callers wrote, or only those that sessions name
    #[arg(long, value_name = "SOURCE", value_parser = ["all", "told", "extracted"])]
    pub(crate) source: Option<String>,
    /// Also list the sessions that name an entity
    #[arg(long)]
    pub(crate) sessions: bool,
    /// Count only events since then: an instant, a day such as yesterday, or a duration such as 7d
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Maximum wait for events that are not indexed yet [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_argument)]
    pub(crate) wait: Option<Duration>,
    /// List relations
    #[arg(long, conflicts_with_all = ["upsert", "relate"])]
    pub(crate) relations: bool,
    /// List the relations from or to this entity
    #[arg(long, value_name = "ID", conflicts_with_all = ["upsert", "relate"])]
    pub(crate) of: Option<String>,
    /// List the relations from this entity
    #[arg(long, value_name = "ID", conflicts_with_all = ["upsert", "relate"])]
    pub(crate) from: Option<String>,
    /// List the relations to this entity
    #[arg(long, value_name = "ID", conflicts_with_all = ["upsert", "relate"])]
    pub(crate) to: Option<String>,
    /// Only entities or relations of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Only entries that match this condition; may be repeated: all must match
    #[arg(long = "where", value_name = "CONDITION", value_parser = parse_condition)]
    pub(crate) filters: Vec<Filter>,
    /// Sort order: FIELD, or FIELD:desc
    #[arg(long, value_name = "FIELD", value_parser = parse_sort)]
    pub(crate) sort: Vec<Sort>,
    /// Maximum number of entries [default: 100]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) limit: Option<u64>,
    /// Number of entries to skip
    #[arg(long, value_name = "N")]
    pub(crate) offset: Option<u64>,
}

pub(crate) fn parse_entity(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('/').filter(|(kind, id)| !kind.is_empty() && !id.is_empty());
    let (kind, id) = pair.ok_or("it is not TYPE/ID")?;
    Ok((kind.to_owned(), id.to_owned()))
}

fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))
}

fn parse_condition(text: &str) -> Result<Filter, String> {
    let mut parts = text.trim().splitn(3, char::is_whitespace);
    let field = parts.next().filter(|field| !field.is_empty()).ok_or("it is FIELD OP VALUE")?;
    let op = parts.next().ok_or("it is FIELD OP VALUE, such as `state eq open`")?;
    let value = parts.next().map(str::trim).unwrap_or_default();
    let value = match value {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    };
    Ok(Filter { field: field.to_owned(), op: op.to_owned(), value })
}

fn parse_sort(text: &str) -> Result<Sort, String> {
    let (field, order) = match text.rsplit_once(':') {
        Some((field, order @ ("asc" | "desc"))) => (field, Some(order.to_owned())),
        _ => (text, None),
    };
    Ok(Sort { field: field.to_owned(), order })
}

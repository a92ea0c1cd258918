//! Other MCP servers that find entities in a text that is saved. Each is asked by one tool, within
//! a time limit, and may be absent, slow or wrong: then the answer says so, and the save stands. It
//! must not keep anything: `local` does.

use std::{process::Stdio, time::Duration};

use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResult, ContentBlock},
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::{client::CREDENTIALS, wire::graph::UpsertRequest};

/// Time limit of one server, its start included.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Entities of one server that are kept.
const ENTITIES_MAX: usize = 200;
/// Characters of what a server says of a failure.
const REASON_CHARS: usize = 200;
/// The tool that is asked when the setting names none.
const TOOL: &str = "extract_entities";
/// Members that name the type and the id of an entity, the first one that is there.
const TYPES: [&str; 4] = ["type", "entityType", "entity_type", "label"];
const IDS: [&str; 3] = ["id", "name", "text"];
/// The property that says which server found an entity.
const BY: &str = "extracted_by";

/// A server of the user's configuration: a command or an address, and its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extractor {
    place: Place,
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A program and its arguments, which serves MCP on its streams.
    Program(Vec<String>),
    /// The address of a server on HTTP.
    Url(String),
}

/// An entity that a server found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) asked: UpsertRequest,
}

impl Extractor {
    /// A command or an address, with `#tool` behind it where the tool is not `extract_entities`;
    /// `None` when there is nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, tool) = match text.trim().rsplit_once('#') {
            Some((place, tool)) => (place, tool.trim()),
            None => (text, TOOL),
        };
        let words: Vec<String> = place.split_whitespace().map(str::to_owned).collect();
        let place = match words.as_slice() {
            [] => return None,
            [url] if url.starts_with("http://") || url.starts_with("https://") => {
                Place::Url(url.clone())
            }
            _ => Place::Program(words),
        };
        (!tool.is_empty()).then(|| Self { place, tool: tool.to_owned() })
    }

    /// What a person knows it by.
    pub(super) fn name(&self) -> &str {
        match &self.place {
            Place::Url(url) => url,
            Place::Program(words) => words.first().map_or("", String::as_str),
        }
    }

    /// What the server finds in a text, and what to know of it; the reason when it cannot be had.
    pub(super) async fn ask(&self, text: &str) -> Result<(Vec<Found>, Option<String>), String> {
        let asked = async {
            match &self.place {
                Place::Url(url) => {
                    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                    self.converse(StreamableHttpClientTransport::from_config(config), text).await
                }
                Place::Program(words) => {
                    let (program, arguments) = words.split_first().ok_or("it has no program")?;
                    let mut command = Command::new(program);
                    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
                    command.stderr(Stdio::null()).kill_on_drop(true);
                    for secret in CREDENTIALS {
                        command.env_remove(secret);
                    }
                    let mut child = command.spawn().map_err(|error| error.to_string())?;
                    let streams = child.stdout.take().zip(child.stdin.take());
                    let streams = streams.ok_or("the program has no streams")?;
                    self.converse(streams, text).await
                }
            }
        };
        let late = |_| format!("no answer within {} s", TIME_MAX.as_secs());
        let result = tokio::time::timeout(TIME_MAX, asked).await.map_err(late)??;
        self.found(&result)
    }

    async fn converse<E, A>(
        &self,
        transport: impl IntoTransport<RoleClient, E, A>,
        text: &str,
    ) -> Result<CallToolResult, String>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let running = ().serve(transport).await.map_err(|error| error.to_string())?;
        let arguments = Map::from_iter([("text".to_owned(), Value::from(text))]);
        let params = CallToolRequestParams::new(self.tool.clone()).with_arguments(arguments);
        let result = running.call_tool(params).await.map_err(|error| error.to_string());
        // It ends with its streams.
        let _ = running.cancel().await;
        result
    }

    /// The entities of an answer: a list, or an object with `entities`, structured or as text.
    fn found(&self, result: &CallToolResult) -> Result<(Vec<Found>, Option<String>), String> {
        let texts = result.content.iter().filter_map(ContentBlock::as_text);
        let said: String = texts.map(|text| text.text.as_str()).collect();
        if result.is_error == Some(true) {
            return Err(said.chars().take(REASON_CHARS).collect());
        }
        let answer = result.structured_content.clone();
        let answer = answer.or_else(|| serde_json::from_str(&said).ok());
        let list = match answer {
            Some(Value::Object(mut object)) => object.remove("entities"),
            other => other,
        };
        let Some(Value::Array(list)) = list else {
            return Err("its answer has no list of entities".to_owned());
        };
        let (all, own) = (list.len(), self.name());
        let found: Vec<Found> = list.into_iter().filter_map(|one| entity(one, own)).collect();
        let kept = found.len().min(ENTITIES_MAX);
        let left = (kept < all).then(|| format!("{} of {all} entities were left out", all - kept));
        Ok((found.into_iter().take(ENTITIES_MAX).collect(), left))
    }
}

/// An entity with a type and an id; its other members are its properties.
fn entity(value: Value, by: &str) -> Option<Found> {
    let Value::Object(mut members) = value else { return None };
    let mut take = |names: &[&str]| {
        let name = names.iter().find(|name| members.get(**name).is_some_and(Value::is_string))?;
        members.shift_remove(*name)?.as_str().map(str::to_owned)
    };
    let (kind, id) = (take(&TYPES)?, take(&IDS)?);
    let mut properties = match members.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.extend(members);
    properties.insert(BY.to_owned(), json!(by));
    Some(Found { kind, id, asked: UpsertRequest { properties } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extractor_is_a_command_or_an_address_and_may_name_its_tool() {
        let parsed = |text: &str| Extractor::parse(text).map(|one| (one.place, one.tool));
        let program = |words: &[&str]| Place::Program(words.iter().map(|w| (*w).into()).collect());
        assert_eq!(parsed("a -b c"), Some((program(&["a", "-b", "c"]), TOOL.to_owned())));
        assert_eq!(parsed(" a#find "), Some((program(&["a"]), "find".to_owned())));
        let url = "http://127.0.0.1:1/mcp";
        assert_eq!(parsed(url), Some((Place::Url(url.to_owned()), TOOL.to_owned())));
        assert_eq!((parsed(" "), parsed("#find"), parsed("a#")), (None, None, None));
    }

    #[test]
    fn entities_of_common_shapes_are_read() {
        let found = entity(json!({"name": "Ada", "entityType": "person", "role": "author"}), "x");
        let properties = json!({"role": "author", "extracted_by": "x"});
        let found = found.map(|one| (one.kind, one.id, Value::Object(one.asked.properties)));
        assert_eq!(found, Some(("person".to_owned(), "Ada".to_owned(), properties)));
        assert!(entity(json!({"type": "person"}), "x").is_none());
        assert!(entity(json!("Ada"), "x").is_none());
    }
}

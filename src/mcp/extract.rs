//! Other MCP servers that extract entities from saved text. Each is called by one tool, within a
//! time limit, and may be absent, slow or wrong: then the answer reports it, and the save succeeds.
//! It must not store entities: `local` does.

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
use tokio::process::{Child, Command};
use url::Url;

use crate::{
    api::graph::UpsertRequest, client::CREDENTIALS, env::host::kill_group, secrets::MaskedText,
};

/// Time limits: of one server, including its start; of connecting to one that already runs; and of
/// a program's exit.
const TIME_MAX: Duration = Duration::from_secs(5);
const REACH_MAX: Duration = Duration::from_secs(1);
const END_MAX: Duration = Duration::from_secs(1);
/// Maximum bytes of a text that are sent.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Maximum number of entities of one server that are kept.
const ENTITIES_MAX: usize = 200;
/// The tool that is called if the setting names none.
const TOOL: &str = "extract_entities";
/// Members that hold the type and the id of an entity; the first present one counts.
const TYPES: [&str; 4] = ["type", "entityType", "entity_type", "label"];
const IDS: [&str; 3] = ["id", "name", "text"];
/// Property that records which server found an entity.
const BY: &str = "extracted_by";

/// A server of the user's configuration: a command or a URL, and its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extractor {
    target: ExtractorTarget,
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExtractorTarget {
    /// A program and its arguments, which serves MCP on its streams.
    Program(Vec<String>),
    /// The URL of a server on HTTP.
    Url(Url),
}

/// An entity that a server found.
#[derive(Clone, Debug)]
pub(super) struct FoundEntity {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) request: UpsertRequest,
}

impl Extractor {
    /// Parses a command or a URL, followed by `#tool` if the tool is not `extract_entities`; `None`
    /// if either is empty.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (target, tool) = match text.trim().rsplit_once('#') {
            Some((target, tool)) => (target, tool.trim()),
            None => (text, TOOL),
        };
        let words: Vec<String> = target.split_whitespace().map(str::to_owned).collect();
        let target = match words.as_slice() {
            [] => return None,
            [url] if url.starts_with("http://") || url.starts_with("https://") => {
                ExtractorTarget::Url(Url::parse(url).ok().filter(Url::has_host)?)
            }
            _ => ExtractorTarget::Program(words),
        };
        (!tool.is_empty()).then(|| Self { target, tool: tool.to_owned() })
    }

    /// Returns a name for messages, without parts of a URL or command that may hold a credential.
    pub(super) fn name(&self) -> String {
        match &self.target {
            ExtractorTarget::Url(url) => url.origin().ascii_serialization(),
            ExtractorTarget::Program(words) => words.first().cloned().unwrap_or_default(),
        }
    }

    /// Sends a text to the server; returns the entities found and a remark, or an error message.
    pub(super) async fn extract(
        &self,
        text: &MaskedText,
    ) -> Result<(Vec<FoundEntity>, Option<String>), String> {
        let text = text.as_str();
        let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
        let call = async {
            match &self.target {
                ExtractorTarget::Url(url) => {
                    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                    let transport = StreamableHttpClientTransport::from_config(config);
                    self.call_tool(transport, REACH_MAX, text).await
                }
                ExtractorTarget::Program(words) => {
                    let (program, arguments) = words.split_first().ok_or("it has no program")?;
                    let mut command = Command::new(program);
                    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
                    command.stderr(Stdio::null()).process_group(0);
                    for secret in CREDENTIALS {
                        command.env_remove(secret);
                    }
                    let mut group =
                        ProcessGroup(command.spawn().map_err(|error| error.to_string())?);
                    let streams = group.0.stdout.take().zip(group.0.stdin.take());
                    let streams = streams.ok_or("the program has no streams")?;
                    let result = self.call_tool(streams, TIME_MAX, text).await;
                    // Its streams are closed: it may exit by itself.
                    let _ = tokio::time::timeout(END_MAX, group.0.wait()).await;
                    result
                }
            }
        };
        let result = with_timeout(TIME_MAX, call).await??;
        self.parse_answer(&result)
    }

    async fn call_tool<E, A>(
        &self,
        transport: impl IntoTransport<RoleClient, E, A>,
        reach_max: Duration,
        text: &str,
    ) -> Result<CallToolResult, String>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let running = with_timeout(reach_max, ().serve(transport)).await?;
        let running = running.map_err(|error| root_cause(&error))?;
        let arguments = Map::from_iter([("text".to_owned(), Value::from(text))]);
        let params = CallToolRequestParams::new(self.tool.clone()).with_arguments(arguments);
        let result = running.call_tool(params).await.map_err(|error| root_cause(&error));
        let _ = running.cancel().await;
        result
    }

    /// Parses the entities of an answer: a list, or an object with `entities`, also as text.
    fn parse_answer(
        &self,
        result: &CallToolResult,
    ) -> Result<(Vec<FoundEntity>, Option<String>), String> {
        let texts = result.content.iter().filter_map(ContentBlock::as_text);
        let said: String = texts.map(|text| text.text.as_str()).collect();
        if result.is_error == Some(true) {
            return Err(said);
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
        let found: Vec<FoundEntity> =
            list.into_iter().filter_map(|entity| parse_entity(entity, &own)).collect();
        let kept = found.len().min(ENTITIES_MAX);
        let left = (kept < all).then(|| format!("{} of {all} entities were left out", all - kept));
        Ok((found.into_iter().take(ENTITIES_MAX).collect(), left))
    }
}

/// Waits for an answer, up to a time limit.
async fn with_timeout<T>(time_max: Duration, answer: impl Future<Output = T>) -> Result<T, String> {
    let late = |_| format!("no answer within {} s", time_max.as_secs());
    tokio::time::timeout(time_max, answer).await.map_err(late)
}

/// Returns the message of the root cause: outer errors name types of the library and an address.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// Program in its own process group, which is killed on drop.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.0.id().into_iter().for_each(kill_group);
    }
}

/// Parses an entity with a type and an id; its other members are its properties.
fn parse_entity(value: Value, by: &str) -> Option<FoundEntity> {
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
    Some(FoundEntity { kind, id, request: UpsertRequest { properties } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extractor_parses_as_a_command_or_url_with_an_optional_tool() {
        let parsed = |text: &str| Extractor::parse(text).map(|one| (one.target, one.tool));
        let program =
            |words: &[&str]| ExtractorTarget::Program(words.iter().map(|w| (*w).into()).collect());
        assert_eq!(parsed("a -b c"), Some((program(&["a", "-b", "c"]), TOOL.to_owned())));
        assert_eq!(parsed(" a#find "), Some((program(&["a"]), "find".to_owned())));
        let url = "http://ada:word@127.0.0.1:1/mcp?key=word";
        let target = ExtractorTarget::Url(Url::parse(url).expect("an address"));
        assert_eq!(parsed(url), Some((target, TOOL.to_owned())));
        assert_eq!((parsed(" "), parsed("#find"), parsed("a#")), (None, None, None));
        assert_eq!(parsed("http://"), None);
        let name = Extractor::parse(url).map(|one| one.name());
        assert_eq!(name.as_deref(), Some("http://127.0.0.1:1"), "no credential");
    }

    #[test]
    fn entities_of_common_shapes_are_parsed() {
        let found =
            parse_entity(json!({"name": "Ada", "entityType": "person", "role": "author"}), "x");
        let properties = json!({"role": "author", "extracted_by": "x"});
        let found =
            found.map(|entity| (entity.kind, entity.id, Value::Object(entity.request.properties)));
        assert_eq!(found, Some(("person".to_owned(), "Ada".to_owned(), properties)));
        assert!(parse_entity(json!({"type": "person"}), "x").is_none());
        assert!(parse_entity(json!("Ada"), "x").is_none());
    }
}

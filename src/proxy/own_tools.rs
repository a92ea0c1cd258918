//! The two tools that a proxy adds to its server's: names distinct from the server's tools,
//! descriptions, and results. It must not interpret a session: the owner answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    verbs::tools,
    wire::{quote, tools::NOTICE},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyTool {
    Clear,
    Recover,
}

impl ProxyTool {
    const ALL: [Self; 2] = [Self::Clear, Self::Recover];

    /// Returns the name of the tool in this program's MCP interface.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear_session",
            Self::Recover => "get_research_session",
        }
    }

    /// Returns the name of the tool, made distinct from the server's tools.
    fn distinct_name<T>(self, server_tools: &BTreeMap<String, T>) -> String {
        let mut name = self.name().to_owned();
        while server_tools.contains_key(&name) {
            name = format!("sessionlog_{name}");
        }
        name
    }

    /// Finds the proxy's tool that has a name, given the server's tools.
    pub(super) fn from_name<T>(name: &str, server_tools: &BTreeMap<String, T>) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.distinct_name(server_tools) == name)
    }

    /// Returns true if a tool of the proxy could have the name, for some set of server's tools.
    pub(super) fn may_have_name(name: &str) -> bool {
        Self::ALL.into_iter().any(|own| name.trim_start_matches("sessionlog_") == own.name())
    }
}

/// Returns both tools, as elements of a list of tools.
pub(super) fn list_elements<T>(server_tools: &BTreeMap<String, T>) -> Vec<String> {
    let describe = |own: ProxyTool| {
        let tool = tools::tool(own.name())?;
        let (description, schema) = match own {
            ProxyTool::Clear => (
                "Begin afresh: the answers of this server's tools that were remembered for this \
                 session are forgotten. Nothing recorded is deleted.",
                json!({ "type": "object", "properties": {} }),
            ),
            ProxyTool::Recover => (tool.about, Value::Object(tool.input_schema())),
        };
        let tool = json!({
            "name": own.distinct_name(server_tools),
            "title": tool.title,
            "description": description,
            "inputSchema": schema,
            "annotations": tool.annotations(),
        });
        Some(tool.to_string())
    };
    ProxyTool::ALL.into_iter().filter_map(describe).collect()
}

/// Builds a tool result: the answer as JSON and as text, and optional further text.
pub(super) fn build_result(
    answer: &Value,
    more: Option<&str>,
    is_error: bool,
    modern: bool,
) -> Value {
    let text = match answer {
        Value::String(text) => text.clone(),
        answer => answer.to_string(),
    };
    let mut content = vec![json!({ "type": "text", "text": text })];
    content.extend(more.map(|more| json!({ "type": "text", "text": more })));
    let mut result = json!({ "content": content, "isError": is_error });
    if let Some(result) = result.as_object_mut() {
        if answer.is_object() {
            result.insert("structuredContent".to_owned(), answer.clone());
        }
        if modern {
            result.insert("resultType".to_owned(), "complete".into());
        }
    }
    result
}

/// Formats earlier outputs as text for a model; returns `None` if there are none.
pub(super) fn format_outputs(outputs: &[(String, String, String)]) -> Option<String> {
    if outputs.is_empty() {
        return None;
    }
    let mut text = format!("Earlier outputs of tools in this session. {NOTICE}\n");
    for (number, (name, input, output)) in (1..).zip(outputs) {
        let call = quote::inline_code(&format!("{name} {input}"));
        text.push_str(&format!("\n## [{number}] {call}\n\n{}\n", quote::code_block(output)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tools_get_names_distinct_from_the_servers_tools() {
        let servers = |names: &[&str]| -> BTreeMap<String, ()> {
            names.iter().map(|name| ((*name).to_owned(), ())).collect()
        };
        for (names, expected) in [
            (&[][..], ["clear_session", "get_research_session"]),
            (&["clear_session"], ["sessionlog_clear_session", "get_research_session"]),
            (
                &["clear_session", "sessionlog_clear_session", "get_research_session"],
                ["sessionlog_sessionlog_clear_session", "sessionlog_get_research_session"],
            ),
        ] {
            let server_tools = servers(names);
            let tools: Vec<Value> = list_elements(&server_tools)
                .iter()
                .map(|tool| serde_json::from_str(tool).expect("JSON"))
                .collect();
            assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), expected);
            for (name, own) in expected.into_iter().zip(ProxyTool::ALL) {
                assert_eq!(ProxyTool::from_name(name, &server_tools), Some(own));
                assert!(ProxyTool::may_have_name(name));
            }
            assert!(names.iter().all(|name| ProxyTool::from_name(name, &server_tools).is_none()));
        }
        assert!(!ProxyTool::may_have_name("echo"));
    }
}

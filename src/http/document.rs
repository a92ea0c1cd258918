//! The published description of the API, made from the declarations of the verbs
//! (proto/openapi.json is its copy under version control). It must not know a handler.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::{operation, refuse::REFUSALS};
use crate::{
    api::{
        append::{AppendLine, LineAppended, LineRefused},
        backup::BackupLine,
        error::ErrorBody,
        events::Event,
    },
    verbs::{self, Route, Serve, Verb, Visit, tools},
    wire::schema::SchemaSet,
};

const ABOUT: &str = "A durable session store for AI agents: append-only sessions of events. The \
                     session and event routes are a superset of the sessions/events wire of \
                     Anthropic's Managed Agents.";
const TAGS: [(&str, &str); 6] = [
    ("sessions", "Whole sessions"),
    ("events", "Events of a session"),
    ("views", "What is worth knowing of a session, within a budget"),
    ("tools", "Tools of models, as MCP offers them"),
    ("search", "Looking in every session by words"),
    ("operations", "Health, counts, owners, verification"),
];

/// Operations described so far.
struct Operations {
    paths: BTreeMap<&'static str, Map<String, Value>>,
    shapes: SchemaSet,
}

impl Operations {
    fn describe<V: Verb>(&mut self) {
        let Route { method, path, .. } = V::ROUTE;
        let method = method.as_str().map(str::to_lowercase).expect("a verb has a method");
        let operation = operation::describe_operation::<V>(&mut self.shapes);
        self.paths.entry(path).or_default().insert(method, operation);
    }
}

impl Visit for Operations {
    fn visit_verb<V: Serve>(&mut self) {
        self.describe::<V>();
    }

    fn visit_custom_verb<V: Verb>(&mut self) {
        self.describe::<V>();
    }

    fn visit_tool(&mut self, _: tools::Tool) {}
}

/// Builds the OpenAPI document.
pub(super) fn build_document() -> Value {
    let shapes = SchemaSet::with_path(operation::SCHEMAS);
    let mut operations = Operations { paths: BTreeMap::new(), shapes };
    verbs::visit_all(&mut operations);
    let Operations { paths, mut shapes } = operations;
    // Lines of streams, which no operation refers to.
    shapes.schema_for::<ErrorBody>();
    shapes.schema_for::<Event>();
    shapes.schema_for::<AppendLine>();
    shapes.schema_for::<LineAppended>();
    shapes.schema_for::<LineRefused>();
    shapes.schema_for::<BackupLine>();
    let error = json!({ "$ref": "#/components/schemas/ErrorBody" });
    let content = json!({ "application/json": { "schema": error } });
    let refusals = REFUSALS.iter().map(|(status, about)| {
        (format!("Refusal{status}"), json!({ "description": about, "content": content }))
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sessionlog",
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": {
            "schemas": shapes.into_definitions(),
            "responses": refusals.collect::<Map<_, _>>(),
        },
        "tags": TAGS.map(|(name, about)| json!({ "name": name, "description": about })),
    })
}

/// The document that this interface serves, built at the first request for it.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    serde_json::to_string_pretty(&build_document()).expect("a tree is JSON") + "\n"
});

/// Returns the OpenAPI document that this interface serves, as published in proto/openapi.json.
#[must_use]
pub fn openapi_document() -> &'static str {
    &DOCUMENT
}

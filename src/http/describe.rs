//! Every route with its handler, and the published description of the API, made from the
//! declarations of the verbs (proto/openapi.json is its copy under version control). It must not
//! describe anything that no handler does.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Router,
    routing::{MethodRouter, get, post},
};
use serde_json::{Map, Value, json};

use super::{
    Server, admin, append, backup, events, operation, refuse::REFUSALS, stream, threads, verb,
};
use crate::{
    api::{
        append::{AppendLine, LineAppended, LineRefused},
        backup::BackupLine,
        error::ErrorBody,
        events::Event,
    },
    verbs::{
        self, Route, RouteTable, Serve, Verb, Visit, admin as operations, events as log, hosted,
        tools,
    },
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

type Handler = MethodRouter<Arc<Server>>;

/// Returns the dedicated handlers of verbs, by operation id; the generic one serves all others.
fn dedicated_handlers() -> HashMap<&'static str, Handler> {
    fn entry<V: Verb>(handler: Handler) -> (&'static str, Handler) {
        (V::ROUTE.id, handler)
    }
    HashMap::from([
        entry::<log::Emit>(post(events::emit_events)),
        entry::<log::GetEvents>(get(events::get_events)),
        entry::<log::AppendStream>(post(append::append)),
        entry::<log::Follow>(get(stream::tail)),
        entry::<log::Export>(get(stream::export)),
        entry::<hosted::ListThreads>(get(threads::list_threads)),
        entry::<hosted::GetThread>(get(threads::get_thread)),
        entry::<hosted::ArchiveThread>(post(threads::archive_thread)),
        entry::<hosted::ThreadEvents>(get(threads::list_events)),
        entry::<hosted::FollowThread>(get(threads::tail_thread)),
        entry::<hosted::ListResources>(get(threads::list_resources)),
        entry::<hosted::AddResource>(post(threads::add_resource)),
        entry::<operations::CreateBackup>(post(backup::create_backup)),
        entry::<operations::GetMetrics>(get(admin::get_metrics)),
        entry::<operations::GetOpenapi>(get(admin::get_openapi)),
        entry::<tools::CallTool>(post(super::tools::call_tool)),
    ])
}

/// Builds every route, with its description and its declaration.
pub(super) fn build_routes() -> Routes {
    let mut routes = Routes {
        router: Router::new(),
        registered: RouteTable::default(),
        dedicated: dedicated_handlers(),
        paths: BTreeMap::new(),
        shapes: SchemaSet::with_path(operation::SCHEMAS),
    };
    verbs::visit_all(&mut routes);
    let left: Vec<_> = routes.dedicated.keys().collect();
    assert!(left.is_empty(), "handlers without a verb: {left:?}");
    routes
}

/// Routes registered so far. A route without a declaration cannot be registered.
pub(super) struct Routes {
    router: Router<Arc<Server>>,
    registered: RouteTable,
    dedicated: HashMap<&'static str, Handler>,
    paths: BTreeMap<&'static str, Map<String, Value>>,
    shapes: SchemaSet,
}

impl Routes {
    fn register<V: Verb>(&mut self, handler: Handler) {
        let Route { method, path, .. } = V::ROUTE;
        self.registered.add(V::ROUTE);
        self.router = std::mem::take(&mut self.router).route(path, handler);
        let method = method.as_str().map(str::to_lowercase).expect("a verb has a method");
        let operation = operation::describe_operation::<V>(&mut self.shapes);
        self.paths.entry(path).or_default().insert(method, operation);
    }

    /// Returns the router, the declarations, and the OpenAPI document.
    pub(super) fn into_parts(mut self) -> (Router<Arc<Server>>, RouteTable, Value) {
        let shapes = &mut self.shapes;
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
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "sessionlog",
                "description": ABOUT,
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
                "version": env!("CARGO_PKG_VERSION"),
            },
            "paths": self.paths,
            "components": {
                "schemas": self.shapes.into_definitions(),
                "responses": refusals.collect::<Map<_, _>>(),
            },
            "tags": TAGS.map(|(name, about)| json!({ "name": name, "description": about })),
        });
        (self.router, self.registered, document)
    }
}

impl Visit for Routes {
    fn visit_verb<V: Serve>(&mut self) {
        self.register::<V>(verb::handler::<V>());
    }

    fn visit_custom_verb<V: Verb>(&mut self) {
        let handler = self.dedicated.remove(V::ROUTE.id);
        self.register::<V>(handler.expect("every verb has a handler"));
    }

    fn visit_tool(&mut self, _: tools::Tool) {}
}

/// Formats the document as indented JSON.
pub(super) fn format_document(document: &Value) -> String {
    serde_json::to_string_pretty(document).expect("a tree is JSON") + "\n"
}

/// Returns the OpenAPI document that this interface serves, as published in proto/openapi.json.
#[must_use]
pub fn openapi_document() -> String {
    format_document(&build_routes().into_parts().2)
}

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
        self, Registered, Route, Serve, Verb, Visit, admin as operations, events as log, hosted,
        tools,
    },
    wire::schema::Shapes,
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

/// Returns the handlers of the verbs that have a dedicated one, by operation id.
fn by_hand() -> HashMap<&'static str, Handler> {
    fn entry<V: Verb>(handler: Handler) -> (&'static str, Handler) {
        (V::ROUTE.id, handler)
    }
    HashMap::from([
        entry::<log::Emit>(post(events::emit)),
        entry::<log::Get>(get(events::get)),
        entry::<log::AppendStream>(post(append::append)),
        entry::<log::Follow>(get(stream::tail)),
        entry::<log::Export>(get(stream::export)),
        entry::<hosted::ListThreads>(get(threads::list)),
        entry::<hosted::GetThread>(get(threads::get)),
        entry::<hosted::ArchiveThread>(post(threads::archive)),
        entry::<hosted::ThreadEvents>(get(threads::list_events)),
        entry::<hosted::FollowThread>(get(threads::tail)),
        entry::<hosted::ListResources>(get(threads::list_resources)),
        entry::<hosted::AddResource>(post(threads::add_resource)),
        entry::<operations::CreateBackup>(post(backup::create)),
        entry::<operations::GetMetrics>(get(admin::metrics)),
        entry::<operations::GetOpenapi>(get(admin::openapi)),
        entry::<tools::CallTool>(post(super::tools::call)),
    ])
}

/// Returns every route, with its description and its declaration.
pub(super) fn routes() -> Routes {
    let mut routes = Routes {
        router: Router::new(),
        registered: Registered::default(),
        by_hand: by_hand(),
        paths: BTreeMap::new(),
        shapes: Shapes::at(operation::SCHEMAS),
    };
    verbs::each(&mut routes);
    let left: Vec<_> = routes.by_hand.keys().collect();
    assert!(left.is_empty(), "handlers without a verb: {left:?}");
    routes
}

/// The routes registered so far. A route without a declaration cannot be registered.
pub(super) struct Routes {
    router: Router<Arc<Server>>,
    registered: Registered,
    by_hand: HashMap<&'static str, Handler>,
    paths: BTreeMap<&'static str, Map<String, Value>>,
    shapes: Shapes,
}

impl Routes {
    fn register<V: Verb>(&mut self, handler: Handler) {
        let Route { method, path, .. } = V::ROUTE;
        self.registered.add(V::ROUTE);
        self.router = std::mem::take(&mut self.router).route(path, handler);
        let method = method.as_str().map(str::to_lowercase).expect("a verb has a method");
        let operation = operation::describe::<V>(&mut self.shapes);
        self.paths.entry(path).or_default().insert(method, operation);
    }

    /// Returns the router, the declarations, and the document.
    pub(super) fn into_parts(mut self) -> (Router<Arc<Server>>, Registered, Value) {
        let shapes = &mut self.shapes;
        // Lines of streams, which no operation refers to.
        shapes.of::<ErrorBody>();
        shapes.of::<Event>();
        shapes.of::<AppendLine>();
        shapes.of::<LineAppended>();
        shapes.of::<LineRefused>();
        shapes.of::<BackupLine>();
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
                "schemas": self.shapes.all(),
                "responses": refusals.collect::<Map<_, _>>(),
            },
            "tags": TAGS.map(|(name, about)| json!({ "name": name, "description": about })),
        });
        (self.router, self.registered, document)
    }
}

impl Visit for Routes {
    fn verb<V: Serve>(&mut self) {
        self.register::<V>(verb::handler::<V>());
    }

    fn by_hand<V: Verb>(&mut self) {
        let handler = self.by_hand.remove(V::ROUTE.id);
        self.register::<V>(handler.expect("every verb has a handler"));
    }

    fn tool(&mut self, _: tools::Tool) {}
}

/// Returns the document as text.
pub(super) fn text(document: &Value) -> String {
    serde_json::to_string_pretty(document).expect("a tree is JSON") + "\n"
}

/// Returns the OpenAPI document that this interface serves, as published in proto/openapi.json.
#[must_use]
pub fn document() -> String {
    text(&routes().into_parts().2)
}

//! Every route with its handler, made from the declarations of the verbs. It must not serve a route
//! that no verb declares.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    routing::{MethodRouter, get, post},
};

use super::{Server, admin, append, backup, events, stream, threads, verb};
use crate::verbs::{
    self, RouteTable, Serve, Verb, Visit, admin as operations, events as log, hosted, tools,
};

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

/// Builds every route of a verb, with its declaration.
pub(super) fn build_routes() -> (Router<Arc<Server>>, RouteTable) {
    let mut routes = Routes {
        router: Router::new(),
        registered: RouteTable::default(),
        dedicated: dedicated_handlers(),
    };
    verbs::visit_all(&mut routes);
    let left: Vec<_> = routes.dedicated.keys().collect();
    assert!(left.is_empty(), "handlers without a verb: {left:?}");
    (routes.router, routes.registered)
}

/// Routes registered so far. A route without a declaration cannot be registered.
struct Routes {
    router: Router<Arc<Server>>,
    registered: RouteTable,
    dedicated: HashMap<&'static str, Handler>,
}

impl Routes {
    fn register<V: Verb>(&mut self, handler: Handler) {
        self.registered.add(V::ROUTE);
        self.router = std::mem::take(&mut self.router).route(V::ROUTE.path, handler);
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

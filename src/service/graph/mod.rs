//! Verbs on the graph of a workspace: entities and relations that callers wrote, kept in its
//! notebook, and those derived from the log. It must not interpret a type.

mod analytics;
mod checks;
mod filter;
mod names;
mod order;
mod query;
mod removal;
mod rows;
mod saved;

use self::checks::{
    check_id, check_properties, check_type, former_id, relation_content, rewritten_content,
    to_json_text,
};
use super::{
    Caller, Code, Service, ServiceError, ServiceResult, added::new_event, is_notebook,
    values::check_workspace,
};
use crate::{
    api::graph::{RelateRequest, UpsertRequest, Written},
    event::{Batch, BatchKey, EventId, SessionId, kinds},
    projection::{
        ENTITIES_MAX, Facts, GRAPH_BYTES_MAX, Graph, GraphEntity, RELATIONS_MAX,
        body::{self, EntityBody, RelationBody},
    },
};

/// Maximum number of removals of a relation with the same content.
const REMOVALS_MAX: usize = 1_000;

impl Service {
    /// Writes an entity, or changes its properties by a merge patch; durable on return. A patch
    /// that changes nothing is only written if it has a key; a retry with the same key writes
    /// nothing more.
    ///
    /// # Errors
    /// `invalid_request`, `limit_reached` for too many entities, and those of the engine.
    pub async fn upsert_entity(
        &self,
        caller: &Caller,
        workspace: &str,
        (kind, id): (&str, &str),
        asked: UpsertRequest,
        key: Option<BatchKey>,
    ) -> ServiceResult<Written> {
        let UpsertRequest { properties } = asked;
        check_workspace(workspace)?;
        check_type("type", kind)?;
        check_id("id", id)?;
        check_properties(&to_json_text(&properties))?;
        let has = |graph: &Graph| graph.entity(kind, id).is_some();
        let session = self.find_graph_notebook(caller, workspace, has).await?;
        let look = |graph: &Graph| {
            let known = graph.entity(kind, id).map(AsRef::as_ref);
            let patched = GraphEntity::patch_properties(known, properties.clone());
            let same = known.filter(|known| known.properties == patched);
            (patched, same.map(|known| known.position), known.is_none() && graph.is_full())
        };
        let (patched, same, is_full) = self.with_graph(caller, &session, look).await?;
        check_properties(&patched)?;
        if let Some(position) = same.filter(|_| key.is_none()) {
            return Ok(Written { id: id.to_owned(), session, position });
        }
        if is_full {
            return Err(limit_error("entities", ENTITIES_MAX));
        }
        let (entity_type, entity_id) = (kind.to_owned(), id.to_owned());
        let body = body::write(&EntityBody { entity_type, entity_id, properties });
        let events = [new_event(kinds::GRAPH_ENTITY_UPSERTED, caller.origin, body)];
        let batch = Batch { events: events.into(), key, ..Batch::default() };
        self.write_graph(caller, workspace, session, batch, id.to_owned()).await
    }

    /// Writes a relation of two entities; durable on return. Its id is derived from its content, so
    /// the same relation is written once, as is a retry with the same key.
    ///
    /// # Errors
    /// `invalid_request`, `entity_not_found` for a missing end, `limit_reached` for too many
    /// relations, and those of the engine.
    pub async fn create_relationship(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: RelateRequest,
        key: Option<BatchKey>,
    ) -> ServiceResult<Written> {
        let RelateRequest { kind, from_id: from, to_id: to, properties } = asked;
        check_workspace(workspace)?;
        check_type("type", &kind)?;
        check_id("from_id", &from)?;
        check_id("to_id", &to)?;
        check_properties(&to_json_text(&properties))?;
        let content = relation_content(&kind, &from, &to, &properties);
        let plain = [self.relation_id(caller, &content), former_id(&content)];
        let has = |graph: &Graph| {
            let knows = |id: &String| graph.relation(id).is_some();
            plain.iter().any(|id| knows(id) || graph.relation_removed_at(id).is_some())
        };
        let session = self.find_graph_notebook(caller, workspace, has).await?;
        let (id, former) =
            (self.find_free_id(caller, &session, &content).await?, former_id(&content));
        let look = |graph: &Graph| {
            let known = [&id, &former].into_iter().find_map(|id| graph.relation(id));
            let known = known.and_then(|one| Some((one.id.to_string(), one.position?)));
            (known, [&from, &to].map(|end| graph.has_entity_id(end)), graph.is_full_of_relations())
        };
        let (known, has, is_full) = self.with_graph(caller, &session, look).await?;
        if let Some((id, position)) = known {
            return Ok(Written { id, session, position });
        }
        for ((field, end), has) in [("from_id", &from), ("to_id", &to)].into_iter().zip(has) {
            let is_known = has
                || end == workspace
                || self.is_session(caller, workspace, end).await
                || self.is_in_other_graph(caller, workspace, end).await?;
            if !is_known {
                return Err(entity_not_found_error(field, end, workspace));
            }
        }
        if is_full {
            return Err(limit_error("relations", RELATIONS_MAX));
        }
        let (relation_type, from_id, to_id) = (kind, from, to);
        let body = body::write(&RelationBody { relation_type, from_id, to_id, properties });
        let mut new = new_event(kinds::GRAPH_RELATIONSHIP_CREATED, caller.origin, body);
        new.id = EventId::new(&id).ok();
        let batch = Batch { events: [new].into(), key, ..Batch::default() };
        self.write_graph(caller, workspace, session, batch, id).await
    }

    /// Returns the notebooks of a workspace whose graphs are read: only the one for writes, unless
    /// another was moved to the workspace.
    async fn graph_notebooks(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<SessionId>> {
        let mut found = self.list_notebooks(caller, workspace).await?;
        if found.is_empty() {
            found.push(self.find_notebook(caller, workspace).await?.0);
        }
        Ok(found)
    }

    /// Returns the notebook whose graph satisfies `has`, or else the one for writes.
    async fn find_graph_notebook(
        &self,
        caller: &Caller,
        workspace: &str,
        has: impl Fn(&Graph) -> bool + Send + Sync,
    ) -> ServiceResult<SessionId> {
        let graphs = self.graph_notebooks(caller, workspace).await?;
        for session in graphs.iter().filter(|_| graphs.len() > 1) {
            if self.with_graph(caller, session, &has).await? {
                return Ok(session.clone());
            }
        }
        Ok(graphs.into_iter().next().expect("there is one at least"))
    }

    async fn is_in_other_graph(
        &self,
        caller: &Caller,
        workspace: &str,
        end: &str,
    ) -> ServiceResult<bool> {
        for session in self.graph_notebooks(caller, workspace).await?.iter().skip(1) {
            if self.with_graph(caller, session, |graph: &Graph| graph.has_entity_id(end)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn relation_id(&self, caller: &Caller, content: &[u8]) -> String {
        format!("rel_{}", self.content_name(&caller.scope, "relation", content))
    }

    /// Returns an unused id for a relation to write: a new one after each removal.
    async fn find_free_id(
        &self,
        caller: &Caller,
        notebook: &SessionId,
        content: &[u8],
    ) -> ServiceResult<String> {
        let id = |removed: usize| self.relation_id(caller, &rewritten_content(content, removed));
        let look = |graph: &Graph| {
            (0..REMOVALS_MAX).map(id).find(|id| graph.relation_removed_at(id).is_none())
        };
        let free = self.with_graph(caller, notebook, look).await?;
        free.ok_or_else(|| {
            let message = format!("the relation was removed {REMOVALS_MAX} times");
            ServiceError::new(Code::LimitReached, message).action("write it with other properties")
        })
    }

    async fn write_graph(
        &self,
        caller: &Caller,
        workspace: &str,
        session: SessionId,
        batch: Batch,
        id: String,
    ) -> ServiceResult<Written> {
        let appended = self.append_to_notebook(caller, &session, workspace, batch).await?;
        let placed = appended.events.into_iter().next();
        let placed = placed.ok_or_else(|| ServiceError::new(Code::InternalError, "no place"))?;
        Ok(Written { id, session, position: placed.position })
    }

    async fn is_session(&self, caller: &Caller, workspace: &str, id: &str) -> bool {
        let Ok(session) = SessionId::new(id) else { return false };
        let info = self.store.info(&caller.key(&session)).await;
        let is_elsewhere = |of: &String| of != workspace;
        !is_notebook(&session)
            && info.is_ok_and(|info| !info.workspace.as_ref().is_some_and(is_elsewhere))
    }

    /// Runs `look` on the graph of a notebook, or on an empty one if the notebook does not exist.
    async fn with_graph<T>(
        &self,
        caller: &Caller,
        notebook: &SessionId,
        look: impl Fn(&Graph) -> T + Send + Sync,
    ) -> ServiceResult<T> {
        let on_facts = |facts: &Facts| look(&facts.graph);
        match self.peek_facts(&caller.key(notebook), |_, facts| on_facts(facts)).await {
            Err(error) if error.code.is_gone() => Ok(look(&Graph::default())),
            found => found,
        }
    }
}

fn limit_error(of: &str, most: usize) -> ServiceError {
    let mebibytes = GRAPH_BYTES_MAX >> 20;
    let message =
        format!("the graph of a workspace has at most {most} {of}, and {mebibytes} MiB in memory");
    ServiceError::new(Code::LimitReached, message)
        .action("use another workspace, or erase the notebook of this one")
}

fn entity_not_found_error(field: &str, id: &str, workspace: &str) -> ServiceError {
    let message = format!("{field}: {workspace} has no entity {id}");
    let mut error = ServiceError::new(Code::EntityNotFound, message).action(
        "write the entity first; the workspace and its sessions are there without being written",
    );
    error.hint.field = Some(field.to_owned());
    error
}

//! Removal of entities and relations from the graph of a workspace: queries show the current state,
//! and the notebook keeps the history. It must not remove an event.

use super::{
    checks::{check_id, check_type},
    entity_not_found_error,
};
use crate::{
    api::graph::Written,
    event::{Batch, NewEvent, Origin, Position, kinds, limits},
    projection::{
        Graph,
        body::{self, EntityRemovedBody, ForgottenBody},
    },
    service::{
        Caller, Code, Service, ServiceError, ServiceResult, added::new_event,
        values::check_workspace,
    },
};

/// Maximum number of attempts of a removal, repeated after a concurrent write.
const TRIES_MAX: usize = 16;

impl Service {
    /// Removes an entity with its relations; durable on return and idempotent. Relations of an id
    /// that an entity of another type shares stay.
    ///
    /// # Errors
    /// `entity_not_found`; `limit_reached` if it has too many relations for one batch; those of the
    /// engine.
    pub async fn remove_entity(
        &self,
        caller: &Caller,
        workspace: &str,
        (kind, id): (&str, &str),
    ) -> ServiceResult<Written> {
        check_workspace(workspace)?;
        check_type("type", kind)?;
        check_id("id", id)?;
        let origin = caller.origin;
        let look = |graph: &Graph| {
            if let Some(position) = graph.entity_removed_at(kind, id) {
                return Ok(Err(position));
            }
            if graph.entity(kind, id).is_none() {
                return Err(entity_not_found_error("id", id, workspace));
            }
            let is_alone = graph.entities().filter(|one| &*one.id == id).count() == 1;
            let ends_there = |from: &str, to: &str| is_alone && (from == id || to == id);
            let relations = graph.relations().filter(|one| ends_there(&one.from, &one.to));
            let (entity_type, entity_id) = (kind.to_owned(), id.to_owned());
            let body = body::write(&EntityRemovedBody { entity_type, entity_id });
            let entity = new_event(kinds::GRAPH_ENTITY_REMOVED, origin, body);
            let relations = relations.map(|one| relation_removed(&one.id, origin));
            let events: Vec<NewEvent> = std::iter::once(entity).chain(relations).collect();
            if events.len() > limits::BATCH_EVENTS_MAX {
                let message = format!("{id} has {} relations", events.len() - 1);
                return Err(ServiceError::new(Code::LimitReached, message)
                    .action("remove some of its relations first"));
            }
            Ok(Ok(events))
        };
        self.append_removal(caller, workspace, id, look).await
    }

    /// Removes a relation; durable on return and idempotent.
    ///
    /// # Errors
    /// `entity_not_found`, and those of the engine.
    pub async fn remove_relationship(
        &self,
        caller: &Caller,
        workspace: &str,
        id: &str,
    ) -> ServiceResult<Written> {
        check_workspace(workspace)?;
        let look = |graph: &Graph| {
            if let Some(position) = graph.relation_removed_at(id) {
                return Ok(Err(position));
            }
            match graph.relation(id) {
                Some(_) => Ok(Ok(vec![relation_removed(id, caller.origin)])),
                None => {
                    let message = format!("{workspace} has no relation {id}");
                    Err(ServiceError::new(Code::EntityNotFound, message).action(
                        "query the relations for their ids; those of a log are not removed",
                    ))
                }
            }
        };
        self.append_removal(caller, workspace, id, look).await
    }

    /// Computes the events to write from the graph and writes them; repeats both if the notebook
    /// changed concurrently.
    async fn append_removal(
        &self,
        caller: &Caller,
        workspace: &str,
        id: &str,
        look: impl Fn(&Graph) -> ServiceResult<Result<Vec<NewEvent>, Position>> + Send + Sync,
    ) -> ServiceResult<Written> {
        let has = |graph: &Graph| look(graph).is_ok();
        let session = self.find_graph_notebook(caller, workspace, has).await?;
        for _ in 0..TRIES_MAX {
            let at = caller.key(&session);
            let looked = self
                .peek_facts(&at, |info, facts| look(&facts.graph).map(|found| (found, info.tail)));
            let found = match looked.await {
                Err(error) if error.code.is_gone() => {
                    return look(&Graph::default())
                        .and_then(|_| Err(ServiceError::new(Code::InternalError, "no graph")));
                }
                found => found??,
            };
            let (events, tail) = match found {
                (Err(position), _) => {
                    return Ok(Written { id: id.to_owned(), session, position });
                }
                (Ok(events), tail) => (events, tail),
            };
            let (events, if_position) = (events.into(), Some(tail));
            let batch = Batch { events, if_position, ..Batch::default() };
            let written =
                self.write_graph(caller, workspace, session.clone(), batch, id.to_owned());
            match written.await {
                Err(error) if error.code == Code::PositionConflict => {}
                written => return written,
            }
        }
        Err(ServiceError::new(Code::PositionConflict, "the graph changes too fast")
            .action("try again"))
    }
}

fn relation_removed(id: &str, origin: Origin) -> NewEvent {
    new_event(
        kinds::GRAPH_RELATIONSHIP_REMOVED,
        origin,
        body::write(&ForgottenBody { of: id.to_owned() }),
    )
}

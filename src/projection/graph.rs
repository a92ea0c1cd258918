//! Current entities and relations that callers wrote, folded from a session that keeps a graph.
//! Bounded; what does not fit is counted and stays in the log. It must not check that the ends of a
//! relation exist.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::{
    body::{self, EntityBody, EntityRemovedBody, ForgottenBody, RelationBody},
    checkpoints::merge,
};
use crate::event::{Event, Position, Timestamp, kinds};

/// Most entities of a graph.
pub const ENTITIES_MAX: usize = 100_000;
/// Most relations of a graph.
pub const RELATIONS_MAX: usize = 200_000;
/// Most bytes of a graph in memory.
pub const GRAPH_BYTES_MAX: usize = 96 << 20;
/// Divisor for the extra share that a fold accepts beyond a verb's limit: requests in flight when
/// the limit was reached were acknowledged.
const ON_THE_WAY: usize = 16;
/// Bytes of a map entry and its allocation, in addition to the text.
const ENTRY_BYTES: usize = 120;

/// An entity of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEntity {
    /// Type of the entity.
    pub kind: Arc<str>,
    /// Id, unique within its type.
    pub id: Arc<str>,
    /// Properties: the text of a JSON object.
    pub properties: Box<str>,
    /// Time of the first write.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Position of its first event.
    pub first: Position,
    /// Position of its latest event.
    pub position: Position,
}

impl GraphEntity {
    /// Applies a merge patch (RFC 7396) to the properties; returns them as JSON text.
    #[must_use]
    pub fn patch_properties(known: Option<&Self>, patch: Map<String, Value>) -> Box<str> {
        let known = known.and_then(|known| serde_json::from_str(&known.properties).ok());
        let mut properties: Map<String, Value> = known.unwrap_or_default();
        merge(&mut properties, patch);
        encode_properties(&properties)
    }

    fn weight(&self) -> usize {
        self.id.len() + self.properties.len() + size_of::<Self>() + ENTRY_BYTES
    }
}

/// A relation between two entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Id of the relation.
    pub id: Box<str>,
    /// Type of the relation.
    pub kind: Box<str>,
    /// Id of the entity at its start.
    pub from: Box<str>,
    /// Id of the entity at its end.
    pub to: Box<str>,
    /// Properties: the text of a JSON object.
    pub properties: Box<str>,
    /// Time of the write.
    pub at: Timestamp,
    /// Position of its event; `None` for a derived relation.
    pub position: Option<Position>,
}

impl Relation {
    fn weight(&self) -> usize {
        let texts = [&self.id, &self.kind, &self.from, &self.to, &self.properties];
        let texts = texts.into_iter().map(|text| text.len()).sum::<usize>();
        texts + self.id.len() + size_of::<Self>() + ENTRY_BYTES
    }
}

/// Entities and relations of a session.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Entities by id, then by type.
    entities: BTreeMap<(Arc<str>, Arc<str>), Arc<GraphEntity>>,
    /// Relations by id.
    relations: BTreeMap<Box<str>, Arc<Relation>>,
    /// Positions of removals: relations by id, entities by [`removal_key`].
    removed: BTreeMap<Box<str>, Position>,
    bytes: usize,
    dropped: u64,
}

impl Graph {
    /// Returns the entity with that type and id.
    #[must_use]
    pub fn entity(&self, kind: &str, id: &str) -> Option<&Arc<GraphEntity>> {
        self.entities.get(&(id.into(), kind.into()))
    }

    /// Returns true if an entity of any type has that id.
    #[must_use]
    pub fn has_entity_id(&self, id: &str) -> bool {
        let from = (id.into(), "".into());
        self.entities.range(from..).next().is_some_and(|((known, _), _)| **known == *id)
    }

    /// Returns the entities, by id.
    pub fn entities(&self) -> impl Iterator<Item = &Arc<GraphEntity>> {
        self.entities.values()
    }

    /// Returns the relation with that id.
    #[must_use]
    pub fn relation(&self, id: &str) -> Option<&Arc<Relation>> {
        self.relations.get(id)
    }

    /// Returns the relations, by id.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    /// Returns the position where that entity was removed; `None` if it exists again.
    #[must_use]
    pub fn entity_removed_at(&self, kind: &str, id: &str) -> Option<Position> {
        self.removed.get(&*removal_key(kind, id)).copied()
    }

    /// Returns the position where that relation was removed; its id is not used again.
    #[must_use]
    pub fn relation_removed_at(&self, id: &str) -> Option<Position> {
        self.removed.get(id).copied()
    }

    /// Returns true if the graph accepts no further entity.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entities.len() >= ENTITIES_MAX || self.bytes >= GRAPH_BYTES_MAX
    }

    /// Returns true if the graph accepts no further relation.
    #[must_use]
    pub fn is_full_of_relations(&self) -> bool {
        self.relations.len() >= RELATIONS_MAX || self.bytes >= GRAPH_BYTES_MAX
    }

    /// Returns the number of events that did not fit.
    #[must_use]
    pub fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Folds the event of a graph; ignores others.
    pub(super) fn fold(&mut self, event: &Event) {
        match event.kind.as_str() {
            kinds::GRAPH_ENTITY_UPSERTED => {
                if let Some(body) = body::read_tree::<EntityBody>(&event.body) {
                    self.upsert(body, event);
                }
            }
            kinds::GRAPH_RELATIONSHIP_CREATED => {
                if let Some(body) = body::read_tree::<RelationBody>(&event.body) {
                    self.add_relation(body, event);
                }
            }
            kinds::GRAPH_ENTITY_REMOVED => {
                if let Some(body) = body::read::<EntityRemovedBody>(&event.body) {
                    self.remove_entity(body, event.position);
                }
            }
            kinds::GRAPH_RELATIONSHIP_REMOVED => {
                if let Some(body) = body::read::<ForgottenBody>(&event.body) {
                    self.remove_relation(&body.of, event.position);
                }
            }
            _ => {}
        }
    }

    fn remove_entity(&mut self, body: EntityRemovedBody, at: Position) {
        let EntityRemovedBody { entity_type, entity_id } = body;
        let name = removal_key(&entity_type, &entity_id);
        if let Some(entity) = self.entities.remove(&(entity_id.into(), entity_type.into())) {
            self.bytes = self.bytes - entity.weight() + name.len() + ENTRY_BYTES;
            self.removed.insert(name, at);
        }
    }

    fn remove_relation(&mut self, id: &str, at: Position) {
        if let Some(relation) = self.relations.remove(id) {
            self.bytes = self.bytes - relation.weight() + id.len() + ENTRY_BYTES;
            self.removed.insert(id.into(), at);
        }
    }

    fn upsert(&mut self, body: EntityBody, event: &Event) {
        let key: (Arc<str>, Arc<str>) = (body.entity_id.into(), body.entity_type.into());
        let known = self.entities.get(&key);
        let at = event.happened_at();
        let entity = GraphEntity {
            kind: Arc::clone(&key.1),
            id: Arc::clone(&key.0),
            properties: GraphEntity::patch_properties(known.map(AsRef::as_ref), body.properties),
            created_at: known.map_or(at, |known| known.created_at),
            updated_at: at,
            first: known.map_or(event.position, |known| known.first),
            position: event.position,
        };
        let bytes = self.bytes - known.map_or(0, |known| known.weight()) + entity.weight();
        let entities = self.entities.len() + usize::from(known.is_none());
        if entities > with_reserve(ENTITIES_MAX) || bytes > with_reserve(GRAPH_BYTES_MAX) {
            self.dropped += 1;
            return;
        }
        self.bytes = bytes;
        if let Some((name, _)) = self.removed.remove_entry(&*removal_key(&key.1, &key.0)) {
            self.bytes -= name.len() + ENTRY_BYTES;
        }
        self.entities.insert(key, Arc::new(entity));
    }

    /// Adds a relation; one that exists or was removed is ignored.
    fn add_relation(&mut self, body: RelationBody, event: &Event) {
        let id: Box<str> = event.id.as_str().into();
        if self.relations.contains_key(&id) || self.removed.contains_key(&id) {
            return;
        }
        let relation = Relation {
            id: id.clone(),
            kind: body.relation_type.into(),
            from: body.from_id.into(),
            to: body.to_id.into(),
            properties: encode_properties(&body.properties),
            at: event.happened_at(),
            position: Some(event.position),
        };
        let bytes = self.bytes + relation.weight();
        if self.relations.len() >= with_reserve(RELATIONS_MAX)
            || bytes > with_reserve(GRAPH_BYTES_MAX)
        {
            self.dropped += 1;
            return;
        }
        self.bytes = bytes;
        self.relations.insert(id, Arc::new(relation));
    }

    pub(super) fn weight(&self) -> usize {
        self.bytes
    }
}

/// Returns the key of a removed entity; no id of a relation has that character.
fn removal_key(kind: &str, id: &str) -> Box<str> {
    format!("{kind}\u{1}{id}").into()
}

fn with_reserve(most: usize) -> usize {
    most + most / ON_THE_WAY
}

/// Encodes an object as JSON text.
fn encode_properties(properties: &Map<String, Value>) -> Box<str> {
    serde_json::to_string(properties).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::event::{EventId, EventType, Origin};

    fn fold(graph: &mut Graph, at: u64, kind: &str, body: &Value) {
        graph.fold(&Event {
            position: Position(at),
            id: EventId::new(&format!("e{at}")).expect("an id"),
            kind: EventType::new(kind).expect("a type"),
            origin: Origin::Model,
            created_at: None,
            processed_at: Timestamp(at.cast_signed()),
            body: Bytes::from(body.to_string()),
        });
    }

    fn fold_all(events: &[(&str, Value)]) -> Graph {
        let mut graph = Graph::default();
        for (at, (kind, body)) in (0..).zip(events) {
            fold(&mut graph, at, kind, body);
        }
        graph
    }

    fn entity(kind: &str, id: &str, properties: Value) -> (&'static str, Value) {
        let body = json!({"entity_type": kind, "entity_id": id, "properties": properties});
        (kinds::GRAPH_ENTITY_UPSERTED, body)
    }

    #[test]
    fn merge_patches_of_an_entity_are_applied_in_order() {
        let graph = fold_all(&[
            entity("file_reference", "a", json!({"path": "/a", "hash": "1", "in": {"x": 1}})),
            entity("context_item", "a", json!({})),
            entity("file_reference", "a", json!({"hash": null, "in": {"y": 2}, "n": 3})),
        ]);
        let found = graph.entity("file_reference", "a").expect("it is there");
        assert_eq!(&*found.properties, r#"{"path":"/a","in":{"x":1,"y":2},"n":3}"#);
        assert_eq!((found.first, found.position), (Position(0), Position(2)));
        assert_eq!((found.created_at, found.updated_at), (Timestamp(0), Timestamp(2)));
        assert_eq!(graph.entities().count(), 2, "another type is another entity");
        assert!(graph.has_entity_id("a") && !graph.has_entity_id("") && !graph.has_entity_id("b"));
        assert_eq!(graph.bytes, graph.entities().map(|one| one.weight()).sum::<usize>());
    }

    #[test]
    fn a_removed_entity_is_absent_until_it_is_written_again() {
        let relation = json!({"relation_type": "USES", "from_id": "a", "to_id": "b"});
        let mut events = vec![
            entity("task", "a", json!({"n": 1})),
            entity("task", "b", json!({})),
            (kinds::GRAPH_RELATIONSHIP_CREATED, relation),
            (kinds::GRAPH_RELATIONSHIP_REMOVED, json!({"of": "e2"})),
            (kinds::GRAPH_ENTITY_REMOVED, json!({"entity_type": "task", "entity_id": "a"})),
            (kinds::GRAPH_ENTITY_REMOVED, json!({"entity_type": "note", "entity_id": "b"})),
        ];
        let graph = fold_all(&events);
        assert_eq!((graph.entities().count(), graph.relations().count()), (1, 0));
        assert_eq!(graph.relation_removed_at("e2"), Some(Position(3)));
        assert_eq!(graph.entity_removed_at("task", "a"), Some(Position(4)));
        assert_eq!(graph.entity_removed_at("note", "b"), None, "it never was");
        events.push(entity("task", "a", json!({"m": 2})));
        let graph = fold_all(&events);
        let again = graph.entity("task", "a").expect("it is there again");
        assert_eq!((&*again.properties, again.first), (r#"{"m":2}"#, Position(6)));
        assert_eq!(graph.entity_removed_at("task", "a"), None);
        let kept: usize = graph.entities().map(|one| one.weight()).sum();
        assert_eq!(graph.weight(), kept + "e2".len() + ENTRY_BYTES);
    }

    #[test]
    fn an_event_with_an_unreadable_body_changes_no_graph() {
        let graph = fold_all(&[
            (kinds::GRAPH_ENTITY_UPSERTED, json!({"entity_type": "a"})),
            (kinds::GRAPH_ENTITY_UPSERTED, json!({"entity_type": 1, "entity_id": "b"})),
            entity("a", "b", json!([1])),
            (kinds::GRAPH_RELATIONSHIP_CREATED, json!({"relation_type": "A", "from_id": "b"})),
        ]);
        assert_eq!(
            (graph.entities().count(), graph.relations().count(), graph.dropped_count()),
            (0, 0, 0)
        );
    }

    #[test]
    fn entities_beyond_the_bound_are_counted_but_dropped() {
        let mut graph = Graph::default();
        let kept = with_reserve(ENTITIES_MAX);
        let upsert = |graph: &mut Graph, n: usize| {
            let (kind, body) = entity("t", &n.to_string(), json!({}));
            fold(graph, n as u64, kind, &body);
        };
        (0..ENTITIES_MAX - 1).for_each(|n| upsert(&mut graph, n));
        assert!(!graph.is_full());
        (ENTITIES_MAX - 1..kept + 2).for_each(|n| upsert(&mut graph, n));
        assert!(graph.is_full());
        assert_eq!((graph.entities.len(), graph.dropped_count()), (kept, 2));
        // An existing entity is still changed.
        let (kind, body) = entity("t", "7", json!({"n": 1}));
        fold(&mut graph, 900_000, kind, &body);
        assert_eq!(&*graph.entity("t", "7").expect("it is there").properties, r#"{"n":1}"#);
        // Large entities are bounded by their bytes.
        let large = json!({"text": "x".repeat(4 << 20)});
        let many: Vec<_> = (0..40).map(|n| entity("t", &n.to_string(), large.clone())).collect();
        let graph = fold_all(&many);
        assert!(graph.is_full() && graph.bytes <= with_reserve(GRAPH_BYTES_MAX), "{}", graph.bytes);
        assert!(
            graph.dropped_count() > 0
                && graph.entities.len() + graph.dropped_count() as usize == 40
        );
    }

    #[test]
    fn relations_beyond_the_byte_bound_are_counted_but_dropped() {
        let text = "x".repeat(4 << 20);
        let properties = json!({"text": text});
        let body = json!({"relation_type": "A", "from_id": "a", "to_id": "b",
            "properties": properties});
        let graph = fold_all(&vec![(kinds::GRAPH_RELATIONSHIP_CREATED, body); 40]);
        assert!(graph.is_full_of_relations() && graph.bytes <= with_reserve(GRAPH_BYTES_MAX));
        assert!(
            graph.dropped_count() > 0
                && graph.relations.len() + graph.dropped_count() as usize == 40
        );
    }

    #[test]
    fn a_repeated_relation_is_stored_once() {
        let mut graph = Graph::default();
        let body = json!({"relation_type": "USES", "from_id": "a", "to_id": "b"});
        for _ in 0..2 {
            fold(&mut graph, 3, kinds::GRAPH_RELATIONSHIP_CREATED, &body);
        }
        assert_eq!(graph.relations().count(), 1);
        let relation = graph.relation("e3").expect("it is there");
        assert_eq!((&*relation.kind, &*relation.properties), ("USES", "{}"));
        assert_eq!(graph.weight(), relation.weight());
    }
}

//! Rows of a query: entities and relations with their known data, filtered and ordered before one
//! page is shown. They must not read a graph.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{filter::Row, names::EntityCounts, order::RowMember};
use crate::{
    api::graph::{self, GraphSource, Relationship},
    projection::{GraphEntity, Relation},
};

pub(super) struct EntityRow {
    pub(super) kind: Arc<str>,
    pub(super) id: Arc<str>,
    /// Entity as a caller wrote it, or as derived from a save.
    pub(super) written: Option<Arc<GraphEntity>>,
    /// True if it is derived from a save, and no caller wrote it.
    pub(super) is_from_save: bool,
    /// Counts of the events that name it.
    pub(super) seen: Option<EntityCounts>,
}

impl EntityRow {
    /// Returns the source of the entity; one that a caller wrote may be named by events as well.
    fn source(&self) -> GraphSource {
        match self.written.is_some() && !self.is_from_save {
            true => GraphSource::Told,
            false => GraphSource::Extracted,
        }
    }

    pub(super) fn into_entity(self) -> graph::Entity {
        let source = self.source();
        let (written, seen) = (self.written.as_ref(), self.seen.as_ref());
        graph::Entity {
            kind: self.kind.to_string(),
            id: self.id.to_string(),
            properties: written.map(|entity| parse_object(&entity.properties)).unwrap_or_default(),
            source: source.into(),
            created_at: written.map(|entity| entity.created_at),
            updated_at: written.map(|entity| entity.updated_at),
            sessions: seen.map(|seen| seen.sessions),
            count: seen.map(|seen| seen.count),
            first_at: seen.map(|seen| seen.first_at),
            last_at: seen.map(|seen| seen.last_at),
            named_in: self.seen.map(|seen| seen.named_in).unwrap_or_default(),
        }
    }
}

impl Row for EntityRow {
    const MEMBERS: &'static [&'static str] = &[
        "type",
        "id",
        "source",
        "created_at",
        "updated_at",
        "sessions",
        "count",
        "first_at",
        "last_at",
    ];

    fn get_member(&self, name: &str) -> Option<RowMember<'_>> {
        let (written, seen) = (self.written.as_ref(), self.seen.as_ref());
        match name {
            "type" => Some(RowMember::Text(&self.kind)),
            "id" => Some(RowMember::Text(&self.id)),
            "source" => Some(RowMember::Text(self.source().as_str())),
            "created_at" => Some(RowMember::At(written?.created_at)),
            "updated_at" => Some(RowMember::At(written?.updated_at)),
            "sessions" => Some(RowMember::Count(seen?.sessions)),
            "count" => Some(RowMember::Count(seen?.count)),
            "first_at" => Some(RowMember::At(seen?.first_at)),
            "last_at" => Some(RowMember::At(seen?.last_at)),
            _ => None,
        }
    }

    fn properties(&self) -> &str {
        self.written.as_ref().map_or("{}", |entity| &entity.properties)
    }
}

pub(super) struct RelationRow {
    pub(super) relation: Arc<Relation>,
    pub(super) source: GraphSource,
}

impl RelationRow {
    pub(super) fn into_relationship(self) -> Relationship {
        let Self { relation, source } = self;
        Relationship {
            id: relation.id.to_string(),
            kind: relation.kind.to_string(),
            from_id: relation.from.to_string(),
            to_id: relation.to.to_string(),
            properties: parse_object(&relation.properties),
            source: source.into(),
            created_at: relation.at,
        }
    }
}

impl Row for RelationRow {
    const MEMBERS: &'static [&'static str] =
        &["type", "id", "from_id", "to_id", "source", "created_at"];

    fn get_member(&self, name: &str) -> Option<RowMember<'_>> {
        let relation = &self.relation;
        Some(match name {
            "type" => RowMember::Text(&relation.kind),
            "id" => RowMember::Text(&relation.id),
            "from_id" => RowMember::Text(&relation.from),
            "to_id" => RowMember::Text(&relation.to),
            "source" => RowMember::Text(self.source.as_str()),
            "created_at" => RowMember::At(relation.at),
            _ => return None,
        })
    }

    fn properties(&self) -> &str {
        &self.relation.properties
    }
}

fn parse_object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

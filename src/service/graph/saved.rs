//! Graph derived from the saves of a workspace: sessions, their conversations, context items, files
//! and states, and their relations. None of it is stored: it follows from the log, so removed
//! content disappears here as well. It must not judge the saved content.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::checks::{relation_content, to_json_text};
use crate::{
    event::{
        Timestamp,
        text::{TOKEN_BYTES, clip},
    },
    projection::{Facts, GraphEntity, Relation},
    service::{
        Caller, Service, ServiceResult,
        links::{saved_at, saved_name},
        session_summary::summarize,
    },
    store::{Criterion, Listing, SessionInfo},
};

/// Maximum number of saved sessions of a workspace that are read, newest first; and bytes of their
/// entities, after which no further session is read.
const SESSIONS_MAX: usize = 100;
const BYTES_MAX: usize = 4 << 20;
/// Maximum number of characters of a content.
const CONTENT_CHARS: usize = 2_000;
/// Types of entities and relations derived from saves.
pub(super) const ENTITIES: [&str; 5] =
    ["session", "conversation", "context_item", "file_reference", "workspace_state"];
pub(super) const RELATIONS: [&str; 5] = [
    "SESSION_IN_WORKSPACE",
    "SESSION_HAS_CONVERSATION",
    "CONVERSATION_REFERENCES_ITEM",
    "CONVERSATION_REFERENCES_FILE",
    "SESSION_HAS_WORKSPACE_STATE",
];

/// Entities and links derived from the saves of a workspace.
#[derive(Default)]
pub(super) struct SavedGraph {
    pub(super) entities: Vec<Arc<GraphEntity>>,
    /// Type and both ends of each link.
    links: Vec<([String; 3], Timestamp)>,
    /// Total bytes of the entities.
    pub(super) bytes: usize,
    /// True if older sessions were not read.
    pub(super) is_cut: bool,
}

impl Service {
    /// Reads the entities and links in the saves of a workspace's newest sessions.
    pub(super) async fn read_saved_graph(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<SavedGraph> {
        let listing = Listing {
            limit: SESSIONS_MAX,
            workspace: Some(workspace.to_owned()),
            include_archived: true,
            only: Some(Criterion::Named(saved_name())),
            ..Listing::default()
        };
        let mut graph = SavedGraph::default();
        let listed = self.store.list(&caller.scope, listing).await?;
        graph.is_cut = listed.next.is_some();
        for info in listed.sessions {
            if graph.bytes > BYTES_MAX {
                graph.is_cut = true;
                break;
            }
            let of = |info: &SessionInfo, facts: &Facts| {
                SavedGraph::from_session(info, facts, workspace)
            };
            match self.peek_facts(&info.key, of).await {
                Ok(one) => {
                    graph.entities.extend(one.entities);
                    graph.links.extend(one.links);
                    graph.bytes += one.bytes;
                }
                // A deleted session, or one with lost events, contributes nothing.
                Err(error) if error.code.is_gone() || error.code.has_lost_events() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(graph)
    }

    pub(super) fn saved_relations(&self, caller: &Caller, graph: &SavedGraph) -> Vec<Relation> {
        let properties = Map::new();
        let made = |([kind, from, to], at): &([String; 3], Timestamp)| {
            let id = self.relation_id(caller, &relation_content(kind, from, to, &properties));
            Relation {
                id: id.into(),
                kind: kind.as_str().into(),
                from: from.as_str().into(),
                to: to.as_str().into(),
                properties: to_json_text(&properties).into(),
                at: *at,
                position: None,
            }
        };
        graph.links.iter().map(made).collect()
    }
}

impl SavedGraph {
    fn from_session(info: &SessionInfo, facts: &Facts, workspace: &str) -> Self {
        let mut made = Self::default();
        let session = info.key.session.to_string();
        let conversation = format!("conversation_{session}");
        let [in_workspace, has_conversation, of_item, of_file, has_state] = RELATIONS;
        let (past, saved) = (summarize(info.clone(), facts), &facts.saved);
        let position = json!({"session": session, "position": saved_at(info).map(|at| at.0)});
        made.add_entity(
            info,
            ("session", session.clone()),
            json!({
                "created_at": info.created_at.to_string(), "workspace_id": workspace,
                "token_count": saved.tokens(), "goal": past.goal, "summary": past.summary,
            }),
        );
        made.add_link(info, in_workspace, &session, workspace);
        let context = saved.context().map(|context| clip(&context.text, CONTENT_CHARS));
        made.add_entity(
            info,
            ("conversation", conversation.clone()),
            json!({
                "context": context, "token_count": saved.tokens(), "saved": position,
            }),
        );
        made.add_link(info, has_conversation, &session, &conversation);
        for item in saved.items() {
            let id = match &item.name {
                Some(name) => format!("context_{session}_{name}"),
                None => format!("context_{}", item.id),
            };
            made.add_entity(
                info,
                ("context_item", id.clone()),
                json!({
                    "category": item.category, "content": clip(&item.content, CONTENT_CHARS),
                    "importance": item.importance, "session": session, "position": item.position.0,
                    "token_count": item.content.len().div_ceil(TOKEN_BYTES),
                }),
            );
            made.add_link(info, of_item, &conversation, &id);
        }
        for file in saved.files() {
            made.add_entity(
                info,
                ("file_reference", file.path.to_string()),
                json!({
                    "path": file.path, "hash": file.hash, "last_modified": file.modified_at,
                    "bytes": file.bytes, "session": session, "position": file.position.0,
                }),
            );
            made.add_link(info, of_file, &conversation, &file.path);
        }
        if let Some(state) = saved.state() {
            let id = format!("workspace_state_{session}");
            let mut properties: Map<String, Value> =
                serde_json::from_str(&state.text).unwrap_or_default();
            properties.insert("workspace_id".to_owned(), workspace.into());
            made.add_entity(info, ("workspace_state", id.clone()), Value::Object(properties));
            made.add_link(info, has_state, &session, &id);
        }
        made
    }

    fn add_entity(&mut self, info: &SessionInfo, (kind, id): (&str, String), properties: Value) {
        let mut properties = match properties {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        properties.retain(|_, value| !value.is_null());
        let properties: Box<str> = to_json_text(&properties).into();
        self.bytes += properties.len() + id.len();
        self.entities.push(Arc::new(GraphEntity {
            kind: kind.into(),
            id: id.into(),
            properties,
            created_at: info.created_at,
            updated_at: info.updated_at,
            first: info.tail,
            position: info.tail,
        }));
    }

    fn add_link(&mut self, info: &SessionInfo, kind: &str, from: &str, to: &str) {
        self.links.push(([kind, from, to].map(str::to_owned), info.created_at));
    }
}

//! Graph derived from the saves of a workspace: sessions, their conversations, context items, files
//! and states, and their relations. None of it is stored: it follows from the log, so removed
//! content disappears here as well. It must not judge the saved content.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::checks::{content_of, text_of};
use crate::{
    event::{
        Timestamp,
        text::{TOKEN_BYTES, clip},
    },
    projection::{Entity, Facts, Relation},
    service::{
        Caller, Code, Service, ServiceResult,
        links::{saved, saved_at},
        past::past,
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
pub(super) struct Handed {
    pub(super) entities: Vec<Arc<Entity>>,
    /// Type and both ends of each link.
    links: Vec<([String; 3], Timestamp)>,
    /// Total bytes of the entities.
    pub(super) bytes: usize,
    /// True if older sessions were not read.
    pub(super) is_cut: bool,
}

impl Service {
    /// Reads the entities and links in the saves of a workspace's newest sessions.
    pub(super) async fn handed(&self, caller: &Caller, workspace: &str) -> ServiceResult<Handed> {
        let listing = Listing {
            limit: SESSIONS_MAX,
            workspace: Some(workspace.to_owned()),
            include_archived: true,
            only: Some(Criterion::Named(saved())),
            ..Listing::default()
        };
        let mut handed = Handed::default();
        let listed = self.store.list(&caller.scope, listing).await?;
        handed.is_cut = listed.next.is_some();
        for info in listed.sessions {
            if handed.bytes > BYTES_MAX {
                handed.is_cut = true;
                break;
            }
            let of =
                |info: &SessionInfo, facts: &Facts| Handed::from_session(info, facts, workspace);
            match self.peek_facts(&info.key, of).await {
                Ok(one) => {
                    handed.entities.extend(one.entities);
                    handed.links.extend(one.links);
                    handed.bytes += one.bytes;
                }
                // A gone or damaged session contributes nothing.
                Err(error) if error.code.is_gone() || error.code == Code::SessionDamaged => {}
                Err(error) => return Err(error),
            }
        }
        Ok(handed)
    }

    /// Returns the relations derived from saves.
    pub(super) fn handed_relations(&self, caller: &Caller, handed: &Handed) -> Vec<Relation> {
        let properties = Map::new();
        let made = |([kind, from, to], at): &([String; 3], Timestamp)| {
            let id = self.relation_id(caller, &content_of(kind, from, to, &properties));
            Relation {
                id: id.into(),
                kind: kind.as_str().into(),
                from: from.as_str().into(),
                to: to.as_str().into(),
                properties: text_of(&properties).into(),
                at: *at,
                position: None,
            }
        };
        handed.links.iter().map(made).collect()
    }
}

impl Handed {
    fn from_session(info: &SessionInfo, facts: &Facts, workspace: &str) -> Self {
        let mut made = Self::default();
        let session = info.key.session.to_string();
        let conversation = format!("conversation_{session}");
        let [in_workspace, has_conversation, of_item, of_file, has_state] = RELATIONS;
        let (past, saved) = (past(info.clone(), facts), &facts.saved);
        let place = json!({"session": session, "position": saved_at(info).map(|at| at.0)});
        made.add(
            info,
            ("session", session.clone()),
            json!({
                "created_at": info.created_at.to_string(), "workspace_id": workspace,
                "token_count": saved.tokens(), "goal": past.goal, "summary": past.summary,
            }),
        );
        made.link(info, in_workspace, &session, workspace);
        let said = saved.context().map(|said| clip(&said.text, CONTENT_CHARS));
        made.add(
            info,
            ("conversation", conversation.clone()),
            json!({
                "context": said, "token_count": saved.tokens(), "saved": place,
            }),
        );
        made.link(info, has_conversation, &session, &conversation);
        for item in saved.items() {
            let id = match &item.name {
                Some(name) => format!("context_{session}_{name}"),
                None => format!("context_{}", item.id),
            };
            made.add(
                info,
                ("context_item", id.clone()),
                json!({
                    "category": item.category, "content": clip(&item.content, CONTENT_CHARS),
                    "importance": item.importance, "session": session, "position": item.position.0,
                    "token_count": item.content.len().div_ceil(TOKEN_BYTES),
                }),
            );
            made.link(info, of_item, &conversation, &id);
        }
        for file in saved.files() {
            made.add(
                info,
                ("file_reference", file.path.to_string()),
                json!({
                    "path": file.path, "hash": file.hash, "last_modified": file.modified_at,
                    "bytes": file.bytes, "session": session, "position": file.position.0,
                }),
            );
            made.link(info, of_file, &conversation, &file.path);
        }
        if let Some(state) = saved.state() {
            let id = format!("workspace_state_{session}");
            let mut properties: Map<String, Value> =
                serde_json::from_str(&state.text).unwrap_or_default();
            properties.insert("workspace_id".to_owned(), workspace.into());
            made.add(info, ("workspace_state", id.clone()), Value::Object(properties));
            made.link(info, has_state, &session, &id);
        }
        made
    }

    fn add(&mut self, info: &SessionInfo, (kind, id): (&str, String), properties: Value) {
        let mut properties = match properties {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        properties.retain(|_, value| !value.is_null());
        let properties: Box<str> = text_of(&properties).into();
        self.bytes += properties.len() + id.len();
        self.entities.push(Arc::new(Entity {
            kind: kind.into(),
            id: id.into(),
            properties,
            created_at: info.created_at,
            updated_at: info.updated_at,
            first: info.tail,
            position: info.tail,
        }));
    }

    fn link(&mut self, info: &SessionInfo, kind: &str, from: &str, to: &str) {
        self.links.push(([kind, from, to].map(str::to_owned), info.created_at));
    }
}

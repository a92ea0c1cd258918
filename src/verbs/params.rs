//! Path parameters: a type for each combination of them. The pattern of a session id in the
//! published description is declared here only. It must not look anything up.

use schemars::JsonSchema;

use crate::{
    event::{EventId, SessionId},
    service::{ServiceError, ServiceResult, parse_session_id},
};

/// Decoded parameters of a path, by name.
pub type ParamPairs = [(String, String)];

/// Typed parameters of a path.
pub trait PathParams: Sized + Send + JsonSchema {
    /// Parses the parameters of a matched path.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter that is not valid.
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self>;

    /// Returns the parameters by name, unescaped.
    fn to_pairs(&self) -> Vec<(&'static str, &str)>;
}

/// Path without parameters.
#[derive(Clone, Copy, Debug, Default, JsonSchema)]
pub struct NoParams {}

impl PathParams for NoParams {
    fn from_pairs(_: &ParamPairs) -> ServiceResult<Self> {
        Ok(Self {})
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

/// Path of a session.
#[derive(Clone, Debug, JsonSchema)]
pub struct SessionPath {
    /// Id of the session
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
}

impl PathParams for SessionPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        Ok(Self { session: parse_session_id(find_param(pairs, "session"))? })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str())]
    }
}

/// Declares paths of a named thing in a session. The verb checks whether the name is valid.
macro_rules! named_paths {
    ($($path:ident, $about:literal, $name:literal;)*) => {$(
        #[doc = $about]
        #[derive(Clone, Debug, JsonSchema)]
        pub struct $path {
            /// Id of the session
            #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
            pub session: SessionId,
            #[doc = $name]
            pub name: String,
        }

        impl PathParams for $path {
            fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
                let session = parse_session_id(find_param(pairs, "session"))?;
                Ok(Self { session, name: find_param(pairs, "name").to_owned() })
            }

            fn to_pairs(&self) -> Vec<(&'static str, &str)> {
                vec![("session", self.session.as_str()), ("name", &self.name)]
            }
        }
    )*};
}

named_paths! {
    CursorPath, "Path of a cursor in a session.", "Name of the cursor";
    CheckpointPath, "Path of a checkpoint in a session.", "Id or label of the checkpoint";
    ThreadPath, "Path of a thread in a session.", "Id of the thread";
}

/// Path of a tool.
#[derive(Clone, Debug, JsonSchema)]
pub struct ToolPath {
    /// Name of the tool
    pub name: String,
}

impl PathParams for ToolPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        Ok(Self { name: find_param(pairs, "name").to_owned() })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("name", &self.name)]
    }
}

/// Path of an event in a session.
#[derive(Clone, Debug, JsonSchema)]
pub struct EventPath {
    /// Id of the session
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// Id of the event
    #[schemars(with = "String", length(min = 1))]
    pub event: EventId,
}

impl PathParams for EventPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        let session = parse_session_id(find_param(pairs, "session"))?;
        let event = EventId::new(find_param(pairs, "event"));
        let event = event.map_err(|error| ServiceError::invalid("event", error))?;
        Ok(Self { session, event })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("event", self.event.as_str())]
    }
}

/// Path of a workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct WorkspacePath {
    /// Workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
}

impl PathParams for WorkspacePath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        Ok(Self { workspace: find_param(pairs, "workspace").to_owned() })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace)]
    }
}

/// Path of an entity in a workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct EntityPath {
    /// Workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
    /// Type of the entity
    #[schemars(rename = "type", regex(pattern = "^[A-Za-z][A-Za-z0-9_]{0,63}$"))]
    pub kind: String,
    /// Id of the entity, unique in its type, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub id: String,
}

impl PathParams for EntityPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        let text = |name: &str| find_param(pairs, name).to_owned();
        Ok(Self { workspace: text("workspace"), kind: text("type"), id: text("id") })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace), ("type", &self.kind), ("id", &self.id)]
    }
}

/// Path of a relation in a workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct RelationPath {
    /// Workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
    /// Id of the relation
    #[schemars(length(min = 1))]
    pub relation: String,
}

impl PathParams for RelationPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        let text = |name: &str| find_param(pairs, name).to_owned();
        Ok(Self { workspace: text("workspace"), relation: text("relation") })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace), ("relation", &self.relation)]
    }
}

/// Path of an item in a session's memory.
#[derive(Clone, Debug, JsonSchema)]
pub struct MemoryItemPath {
    /// Id of the session
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// Id of the item
    #[schemars(with = "String", length(min = 1))]
    pub item: EventId,
}

impl PathParams for MemoryItemPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        let session = parse_session_id(find_param(pairs, "session"))?;
        let item = EventId::new(find_param(pairs, "item"));
        let item = item.map_err(|error| ServiceError::invalid("item", error))?;
        Ok(Self { session, item })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("item", self.item.as_str())]
    }
}

/// Path of a step in a session.
#[derive(Clone, Debug, JsonSchema)]
pub struct StepPath {
    /// Id of the session
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// Number of the step, from 1
    #[schemars(with = "u64")]
    pub number: String,
}

impl PathParams for StepPath {
    fn from_pairs(pairs: &ParamPairs) -> ServiceResult<Self> {
        let session = parse_session_id(find_param(pairs, "session"))?;
        Ok(Self { session, number: find_param(pairs, "number").to_owned() })
    }

    fn to_pairs(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("number", &self.number)]
    }
}

impl StepPath {
    /// Parses the number.
    ///
    /// # Errors
    /// `invalid_request` if it is not a step number.
    pub fn step(&self) -> ServiceResult<u64> {
        let step = self.number.parse().ok().filter(|step| *step != 0);
        step.ok_or_else(|| ServiceError::invalid("number", "steps are numbered from 1"))
    }
}

fn find_param<'a>(pairs: &'a ParamPairs, wanted: &str) -> &'a str {
    let found = pairs.iter().find(|(name, _)| name == wanted);
    found.map(|(_, text)| text.as_str()).unwrap_or_default()
}

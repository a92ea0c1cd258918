//! Parameters of paths: a type for each combination of them. The pattern of a session's id in the
//! published description stands here once. It must not look anything up.

use schemars::JsonSchema;

use crate::{
    event::{EventId, SessionId},
    service::{ServiceError, ServiceResult, session_id},
};

/// The parameters of a path, decoded, by name.
pub type Parts = [(String, String)];

/// The types of a path's parameters.
pub trait PathParams: Sized + Send + JsonSchema {
    /// Parses the parameters of a matched path.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter that is not valid.
    fn read(parts: &Parts) -> ServiceResult<Self>;

    /// Returns the parameters by name, unescaped.
    fn parts(&self) -> Vec<(&'static str, &str)>;
}

/// A path without parameters.
#[derive(Clone, Copy, Debug, Default, JsonSchema)]
pub struct Nowhere {}

impl PathParams for Nowhere {
    fn read(_: &Parts) -> ServiceResult<Self> {
        Ok(Self {})
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

/// A session.
#[derive(Clone, Debug, JsonSchema)]
pub struct InSession {
    /// The session's id
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
}

impl PathParams for InSession {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        Ok(Self { session: session_id(part(parts, "session"))? })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str())]
    }
}

/// Declares places that are a name in a session. The verb decides whether the name is a valid one.
macro_rules! named {
    ($($place:ident, $about:literal, $name:literal;)*) => {$(
        #[doc = $about]
        #[derive(Clone, Debug, JsonSchema)]
        pub struct $place {
            /// The session's id
            #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
            pub session: SessionId,
            #[doc = $name]
            pub name: String,
        }

        impl PathParams for $place {
            fn read(parts: &Parts) -> ServiceResult<Self> {
                let session = session_id(part(parts, "session"))?;
                Ok(Self { session, name: part(parts, "name").to_owned() })
            }

            fn parts(&self) -> Vec<(&'static str, &str)> {
                vec![("session", self.session.as_str()), ("name", &self.name)]
            }
        }
    )*};
}

named! {
    InCursor, "A cursor of a session.", "The cursor's name";
    InCheckpoint, "A checkpoint of a session.", "Id or label of the checkpoint";
    InThread, "A thread of a session.", "The thread's id";
}

/// A tool.
#[derive(Clone, Debug, JsonSchema)]
pub struct OfTool {
    /// Name of the tool
    pub name: String,
}

impl PathParams for OfTool {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        Ok(Self { name: part(parts, "name").to_owned() })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("name", &self.name)]
    }
}

/// An event of a session.
#[derive(Clone, Debug, JsonSchema)]
pub struct AtEvent {
    /// The session's id
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// The event's id
    #[schemars(with = "String", length(min = 1))]
    pub event: EventId,
}

impl PathParams for AtEvent {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let session = session_id(part(parts, "session"))?;
        let event = EventId::new(part(parts, "event"));
        let event = event.map_err(|error| ServiceError::invalid("event", error))?;
        Ok(Self { session, event })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("event", self.event.as_str())]
    }
}

/// A workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct InWorkspace {
    /// The workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
}

impl PathParams for InWorkspace {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        Ok(Self { workspace: part(parts, "workspace").to_owned() })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace)]
    }
}

/// An entity of a workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct AtEntity {
    /// The workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
    /// The entity's type
    #[schemars(rename = "type", regex(pattern = "^[A-Za-z][A-Za-z0-9_]{0,63}$"))]
    pub kind: String,
    /// The entity's id, one of its type, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub id: String,
}

impl PathParams for AtEntity {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let text = |name: &str| part(parts, name).to_owned();
        Ok(Self { workspace: text("workspace"), kind: text("type"), id: text("id") })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace), ("type", &self.kind), ("id", &self.id)]
    }
}

/// A relation of a workspace.
#[derive(Clone, Debug, JsonSchema)]
pub struct AtRelation {
    /// The workspace: a directory or another name, percent-encoded
    #[schemars(length(min = 1, max = 512))]
    pub workspace: String,
    /// The relation's id
    #[schemars(length(min = 1))]
    pub relation: String,
}

impl PathParams for AtRelation {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let text = |name: &str| part(parts, name).to_owned();
        Ok(Self { workspace: text("workspace"), relation: text("relation") })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("workspace", &self.workspace), ("relation", &self.relation)]
    }
}

/// An item of a session's memory.
#[derive(Clone, Debug, JsonSchema)]
pub struct InMemory {
    /// The session's id
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// The item's id
    #[schemars(with = "String", length(min = 1))]
    pub item: EventId,
}

impl PathParams for InMemory {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let session = session_id(part(parts, "session"))?;
        let item = EventId::new(part(parts, "item"));
        let item = item.map_err(|error| ServiceError::invalid("item", error))?;
        Ok(Self { session, item })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("item", self.item.as_str())]
    }
}

/// A step of a session.
#[derive(Clone, Debug, JsonSchema)]
pub struct AtStep {
    /// The session's id
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub session: SessionId,
    /// The step's number, from 1
    #[schemars(with = "u64")]
    pub number: String,
}

impl PathParams for AtStep {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let session = session_id(part(parts, "session"))?;
        Ok(Self { session, number: part(parts, "number").to_owned() })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("number", &self.number)]
    }
}

impl AtStep {
    /// Parses the number.
    ///
    /// # Errors
    /// `invalid_request` if it is not a step number.
    pub fn step(&self) -> ServiceResult<u64> {
        let step = self.number.parse().ok().filter(|step| *step != 0);
        step.ok_or_else(|| ServiceError::invalid("number", "steps are numbered from 1"))
    }
}

fn part<'a>(parts: &'a Parts, wanted: &str) -> &'a str {
    let found = parts.iter().find(|(name, _)| name == wanted);
    found.map(|(_, text)| text.as_str()).unwrap_or_default()
}

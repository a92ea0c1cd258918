//! What a path names: the type of each combination of path parameters. The pattern of a session's
//! id in the published description stands here once. It must not look anything up.

use crate::{
    event::{EventId, SessionId},
    service::{ServiceError, ServiceResult},
};

/// The parameters of a path, decoded, by name.
pub type Parts = [(String, String)];

/// The types of a path's parameters.
pub trait Place: Sized + Send + super::Parameters {
    /// Reads the parameters of a matched path.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter that is not valid.
    fn read(parts: &Parts) -> ServiceResult<Self>;

    /// The parameters, by name, not escaped.
    fn parts(&self) -> Vec<(&'static str, &str)>;
}

/// A path without parameters.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "http", derive(utoipa::IntoParams))]
pub struct Nowhere {}

impl Place for Nowhere {
    fn read(_: &Parts) -> ServiceResult<Self> {
        Ok(Self {})
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

/// A session.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "http", derive(utoipa::IntoParams))]
pub struct InSession {
    /// The session's id
    #[cfg_attr(
        feature = "http",
        param(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    )]
    pub session: SessionId,
}

impl Place for InSession {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        Ok(Self { session: session_id(part(parts, "session"))? })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str())]
    }
}

/// Something in a session, by its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The session.
    pub session: SessionId,
    /// The name. The verb decides whether it is a valid one.
    pub name: String,
}

impl Named {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let session = session_id(part(parts, "session"))?;
        Ok(Self { session, name: part(parts, "name").to_owned() })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("name", &self.name)]
    }
}

/// Declares places that are a [`Named`]. The published description of the name differs.
macro_rules! named {
    ($($place:ident, $about:literal, $name:literal;)*) => {$(
        #[doc = $about]
        #[derive(Clone, Debug)]
        pub struct $place(pub Named);

        impl Place for $place {
            fn read(parts: &Parts) -> ServiceResult<Self> {
                Named::read(parts).map(Self)
            }

            fn parts(&self) -> Vec<(&'static str, &str)> {
                self.0.parts()
            }
        }

        #[cfg(feature = "http")]
        impl utoipa::IntoParams for $place {
            fn into_params(
                place: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                let name = utoipa::openapi::path::ParameterBuilder::new()
                    .name("name")
                    .parameter_in(place().unwrap_or_default())
                    .required(utoipa::openapi::Required::True)
                    .description(Some($name))
                    .schema(Some(<String as utoipa::PartialSchema>::schema()));
                let mut all = InSession::into_params(place);
                all.push(name.build());
                all
            }
        }
    )*};
}

named! {
    InCursor, "A cursor of a session.", "The cursor's name";
    InCheckpoint, "A checkpoint of a session.", "Id or label of the checkpoint";
}

/// An event of a session.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "http", derive(utoipa::IntoParams))]
pub struct AtEvent {
    /// The session's id
    #[cfg_attr(
        feature = "http",
        param(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    )]
    pub session: SessionId,
    /// The event's id
    #[cfg_attr(feature = "http", param(value_type = String, min_length = 1))]
    pub event: EventId,
}

impl Place for AtEvent {
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

/// A step of a session.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "http", derive(utoipa::IntoParams))]
pub struct AtStep {
    /// The session's id
    #[cfg_attr(
        feature = "http",
        param(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    )]
    pub session: SessionId,
    /// The step's number, from 1
    #[cfg_attr(feature = "http", param(value_type = u64))]
    pub number: String,
}

impl Place for AtStep {
    fn read(parts: &Parts) -> ServiceResult<Self> {
        let session = session_id(part(parts, "session"))?;
        Ok(Self { session, number: part(parts, "number").to_owned() })
    }

    fn parts(&self) -> Vec<(&'static str, &str)> {
        vec![("session", self.session.as_str()), ("number", &self.number)]
    }
}

impl AtStep {
    /// The number.
    ///
    /// # Errors
    /// `invalid_request` for what is no number of a step.
    pub fn step(&self) -> ServiceResult<u64> {
        let step = self.number.parse().ok().filter(|step| *step != 0);
        step.ok_or_else(|| ServiceError::invalid("number", "steps are numbered from 1"))
    }
}

fn part<'a>(parts: &'a Parts, wanted: &str) -> &'a str {
    let found = parts.iter().find(|(name, _)| name == wanted);
    found.map(|(_, text)| text.as_str()).unwrap_or_default()
}

/// Parses a session's id.
///
/// # Errors
/// `invalid_request`, with the form of an id.
pub fn session_id(text: &str) -> ServiceResult<SessionId> {
    SessionId::new(text).map_err(|error| {
        let action = "session ids are [A-Za-z0-9][A-Za-z0-9._-]{0,127}";
        ServiceError::invalid("session", error).action(action)
    })
}

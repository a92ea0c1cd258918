//! Rules for events that clients emit: a claim reserved to the server is rejected, an outcome gets
//! an id, and an event named after its content gets the id under which the store keeps it. It must
//! not append, nor read any other member of a body.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{Service, ServiceError, ServiceResult};
use crate::{
    event::{NewEvent, Origin, Scope, SessionKey, kinds},
    projection::body::{self, BY_SERVER},
};

impl Service {
    /// Checks and completes a client's events for a session; `None` for a session being created.
    /// `list` is the name of the list in an error.
    ///
    /// # Errors
    /// `invalid_request` with the path of the member.
    pub(super) async fn prepare_events(
        &self,
        (scope, session): (&Scope, Option<&SessionKey>),
        events: &mut [NewEvent],
        list: &str,
    ) -> ServiceResult<()> {
        check_and_complete(events, list, |body| self.content_name(scope, "outcome", body))?;
        self.rename_content_ids((scope, session), events).await;
        Ok(())
    }
}

fn check_and_complete(
    events: &mut [NewEvent],
    list: &str,
    name: impl Fn(&[u8]) -> String,
) -> ServiceResult<()> {
    for (index, event) in events.iter_mut().enumerate() {
        match event.kind.as_str() {
            // An imported log repeats the findings of the original server.
            kinds::SOURCE_FOUND if event.origin != Origin::Import && is_by_server(&event.body) => {
                let field = format!("{list}[{index}].found_by");
                let problem = "only the server says that it found a source";
                return Err(ServiceError::invalid(&field, problem));
            }
            kinds::USER_DEFINE_OUTCOME => {
                if let Some(body) = with_outcome_id(&event.body, &name) {
                    event.body = body;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_by_server(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct SourceMember {
        found_by: String,
    }
    body::read::<SourceMember>(body).is_some_and(|source| source.found_by == BY_SERVER)
}

/// Returns the body with an added `outcome_id` if it has none: Managed Agents clients expect one
/// from the server. The id is derived from the body, so that a retry gets the same one.
fn with_outcome_id(body: &[u8], name: impl Fn(&[u8]) -> String) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct OutcomeMembers {
        #[serde(default, rename = "outcome_id", deserialize_with = "present")]
        is_named: bool,
    }
    let is_named = body::read::<OutcomeMembers>(body)?.is_named;
    let members = body.trim_ascii_end().strip_suffix(b"}").filter(|_| !is_named)?;
    let id = name(members);
    let comma = if members.trim_ascii() == b"{" { "" } else { "," };
    let member = format!("{comma}\"outcome_id\":\"outc_{id}\"}}");
    Some([members, member.as_bytes()].concat().into())
}

/// Deserializes a member that is present, with any value, as true.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    fn event(kind: &str, origin: Origin, body: &str) -> NewEvent {
        NewEvent {
            id: None,
            kind: EventType::new(kind).expect("a type"),
            origin,
            created_at: None,
            position: None,
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    #[test]
    fn only_an_import_may_claim_that_the_server_found_a_source() {
        let claim = r#"{"url":"u","found_by":"s\u0065rver"}"#;
        for (kind, origin, body, refused) in [
            (kinds::SOURCE_FOUND, Origin::Harness, claim, true),
            (kinds::SOURCE_FOUND, Origin::Model, claim, true),
            (kinds::SOURCE_FOUND, Origin::Import, claim, false),
            (kinds::SOURCE_FOUND, Origin::Harness, r#"{"found_by":"model"}"#, false),
            (kinds::SOURCE_FOUND, Origin::Harness, r#"{"found_by":7}"#, false),
            (kinds::USER_MESSAGE, Origin::Harness, claim, false),
        ] {
            let mut events = [event(kinds::USER_MESSAGE, origin, "{}"), event(kind, origin, body)];
            let checked = check_and_complete(&mut events, "events", |_| "name".to_owned());
            let field = checked.err().and_then(|error| error.hint.field);
            assert_eq!(field.as_deref(), refused.then_some("events[1].found_by"), "{kind} {body}");
            assert_eq!(events[1].body, body);
        }
    }

    #[test]
    fn an_outcome_gets_the_same_id_on_retry_and_keeps_a_given_id() {
        let named = |body: &str| {
            let mut events = [event(kinds::USER_DEFINE_OUTCOME, Origin::Harness, body)];
            let name = |body: &[u8]| body.len().to_string();
            check_and_complete(&mut events, "events", name).expect("it is admitted");
            String::from_utf8(events[0].body.to_vec()).expect("UTF-8")
        };
        for (body, begins) in [
            ("{}", r#"{"outcome_id":"outc_"#),
            (r#"{ "description": 1.0}"#, r#"{ "description": 1.0,"outcome_id":"outc_"#),
            ("{ }\n", r#"{ "outcome_id":"outc_"#),
        ] {
            let made = named(body);
            assert!(made.starts_with(begins) && made.ends_with("\"}"), "{made}");
            assert_eq!(named(body), made, "a retry");
            assert_eq!(named(&made), made, "it has one");
        }
        assert_eq!(named(r#"{"outcome_id":null}"#), r#"{"outcome_id":null}"#);
    }
}

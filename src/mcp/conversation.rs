//! Identifies the conversation of a call by members of `_meta`. Only members that are constant
//! between calls and differ between conversations count: progress tokens, ids of turns, items and
//! calls, and names of clients do not. It must not grant access: a conversation is looked up in the
//! caller's own scope.

use serde_json::{Map, Value};

use crate::{event::SessionId, service::ClientIdentity};

/// Members that name a sessionlog session, as `--session` does.
const SESSION: [&str; 2] = ["io.sessionlog/session", "sessionlog/session"];
/// Members that name the client's own conversation. Codex sends `threadId` and `sessionId`, the id
/// that its hooks use; ChatGPT sends `openai/session`.
const CONVERSATION: [&str; 4] = ["sessionId", "session_id", "openai/session", "threadId"];
/// Maximum bytes of a name: the limit of a connection's header.
const CHARS_MAX: usize = 128;
/// Minimum bytes of a conversation's name that is assumed to be unique among clients.
const CHARS_UNIQUE: usize = 16;

/// Applies `meta` to `via`: the conversation's name becomes that of the connection, and, if it is a
/// valid session id, the session the caller was started for.
pub(super) fn apply_meta(via: &mut ClientIdentity, meta: &Map<String, Value>) {
    let text = |names: &[&str]| {
        let text = names.iter().find_map(|name| meta.get(*name)?.as_str())?;
        let plain = !text.is_empty()
            && text.len() <= CHARS_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        plain.then(|| text.to_owned())
    };
    let mut set_session = |name: &str| {
        // A name in the call overrides the session found by the parent process.
        let is_open = via.session.is_none() || !via.process.is_empty();
        if let Some(session) = SessionId::new(name).ok().filter(|_| is_open) {
            (via.session, via.process) = (Some(session), Vec::new());
        }
    };
    text(&SESSION).iter().for_each(|name| set_session(name));
    let Some(name) = text(&CONVERSATION) else { return };
    if name.len() >= CHARS_UNIQUE {
        set_session(&name);
    }
    via.connection = Some(name);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_members_of_meta_that_stay_constant_name_a_conversation() {
        let long = "01a20765-39c9-7061-9a22-b0733b61ccb1";
        for (meta, session, connection) in [
            (json!({}), None, Some("own")),
            (json!({ "progressToken": 1, "callId": "call_1", "itemId": long }), None, Some("own")),
            (json!({ "io.modelcontextprotocol/clientInfo": { "name": "c" } }), None, Some("own")),
            (json!({ "sessionId": long, "threadId": "other" }), Some(long), Some(long)),
            (json!({ "threadId": long }), Some(long), Some(long)),
            // Short names are not unique: they separate connections, but name no session.
            (json!({ "sessionId": "1" }), None, Some("1")),
            (json!({ "openai/session": "v1/abcdefghijklmnop" }), None, Some("v1/abcdefghijklmnop")),
            (json!({ "sessionlog/session": "trip" }), Some("trip"), Some("own")),
            (json!({ "sessionId": "line\nbreak" }), None, Some("own")),
            (json!({ "sessionId": "x".repeat(129) }), None, Some("own")),
            (json!({ "sessionId": 7 }), None, Some("own")),
        ] {
            let mut via =
                ClientIdentity { connection: Some("own".to_owned()), ..ClientIdentity::default() };
            apply_meta(&mut via, meta.as_object().expect("an object"));
            assert_eq!(via.session.as_ref().map(SessionId::as_str), session, "{meta}");
            assert_eq!(via.connection.as_deref(), connection, "{meta}");
        }
        let mut via =
            ClientIdentity { session: SessionId::new("started").ok(), ..ClientIdentity::default() };
        apply_meta(&mut via, json!({ "sessionId": long }).as_object().expect("an object"));
        assert_eq!(via.session.as_ref().map(SessionId::as_str), Some("started"));
    }
}

//! Resources: a session's index and slices of its events, by URI. It must not read a session: a
//! resource is a tool call without a binding.

use serde_json::{Value, json};

/// Maximum bytes of a slice read as a resource.
const SLICE_BYTES_MAX: usize = 100_000;
/// Maximum number of events of a slice read as a resource.
const SLICE_EVENTS_MAX: u64 = 1_000;

/// URI template of a session's index.
pub(super) const INDEX_TEMPLATE: &str = "session://{id}/index";
/// URI template of a slice of events.
pub(super) const EVENTS_TEMPLATE: &str = "session://{id}/events/{from}-{to}";

/// Returns the URI of a session's index.
pub(super) fn index_uri(session: &str) -> String {
    format!("session://{session}/index")
}

/// Parses a resource URI to the tool call that reads it; returns `None` for an unknown URI.
pub(super) fn parse_uri(uri: &str) -> Option<(&'static str, Value)> {
    let (session, path) = uri.strip_prefix("session://")?.split_once('/')?;
    if session.is_empty() {
        return None;
    }
    if path == "index" {
        return Some(("get_research_session", json!({ "sessionId": session })));
    }
    let (from, to) = path.strip_prefix("events/")?.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok())?
    };
    let (from, to) = (number(from)?, number(to)?);
    let limit = to.saturating_sub(from).clamp(1, SLICE_EVENTS_MAX);
    let arguments = json!({
        "sessionId": session, "from": from.to_string(), "to": to.to_string(),
        "limit": limit, "maxBytes": SLICE_BYTES_MAX,
    });
    Some(("get_events", arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_uri_maps_to_a_tool_call_or_none() {
        assert_eq!(
            parse_uri(&index_uri("s")),
            Some(("get_research_session", json!({ "sessionId": "s" })))
        );
        let (tool, arguments) = parse_uri("session://s/events/3-9").expect("a slice");
        assert_eq!(
            (tool, &arguments["from"], &arguments["to"]),
            ("get_events", &json!("3"), &json!("9"))
        );
        for uri in [
            "",
            "session://",
            "session:///index",
            "session://s",
            "session://s/other",
            "session://s/events/3",
            "session://s/events/-3",
            "session://s/events/a-b",
            "file:///etc/passwd",
        ] {
            assert_eq!(parse_uri(uri), None, "{uri}");
        }
    }
}

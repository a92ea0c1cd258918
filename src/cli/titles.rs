//! Titles of sessions for lists: the session's title, or else the first prompt of its user. It must
//! not change a session.

use futures_util::{StreamExt as _, stream};

use super::page::{EventPages, EventsQuery};
use crate::{
    api::sessions::Session,
    client::Client,
    event::{SessionId, kinds},
    import::JsonMembers,
    projection::extract_typed_text,
};

/// Number of events that are scanned for the first prompt.
const EVENTS_MAX: u64 = 64;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// Fetches the titles of sessions, in their order.
pub(super) async fn fetch_titles(client: &Client, sessions: &[Session]) -> Vec<String> {
    let titles = stream::iter(sessions)
        .map(|session| fetch_title(client, &session.id, session.title.as_deref()));
    titles.buffered(AT_ONCE).collect().await
}

/// Fetches the title of the session `id`, which has its own or none.
pub(super) async fn fetch_title(client: &Client, id: &str, own: Option<&str>) -> String {
    match own.filter(|own| !own.is_empty()) {
        Some(own) => own.to_owned(),
        None => fetch_first_prompt(client, id).await.unwrap_or_default(),
    }
}

async fn fetch_first_prompt(client: &Client, id: &str) -> Option<String> {
    let session = SessionId::new(id).ok()?;
    let query = EventsQuery {
        from: Some("0".to_owned()),
        to: Some(EVENTS_MAX.to_string()),
        types: vec![kinds::USER_MESSAGE.to_owned()],
        allow_gaps: true,
        ..EventsQuery::default()
    };
    let page = EventPages::new(client, &session, query).next().await.ok()??;
    let prompt = |event: &serde_json::value::RawValue| {
        let said = extract_typed_text(JsonMembers::read(event.get()).ok()?.raw("content")?);
        Some(said.trim().to_owned()).filter(|said| !said.is_empty())
    };
    page.events.iter().find_map(|event| prompt(event))
}

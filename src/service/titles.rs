//! Titles taken from an event's text. A session stores the event's position and never a copy of the
//! text, which is read when the title is shown, so a redaction also removes the title. It must not
//! change a session.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RESERVED_METADATA, Service, SessionInfo};
use crate::{
    env::sync::Mutex,
    event::{Event, Position, Scope, SessionId, SessionKey, kinds, text::one_line},
    projection::{body, typed_by_person},
    traces::texts_of,
};

/// Maximum characters of a title from a message, and of one from research.
const TITLE_CHARS: usize = 80;
const RESEARCH_CHARS: usize = 120;
/// Maximum number of cached titles.
const KEPT_MAX: usize = 10_000;

/// Returns the metadata name for the event of a title: its position, preceded by the session and
/// `@` if it is in another one.
#[must_use]
pub(super) fn title_of() -> String {
    format!("{RESERVED_METADATA}title_of")
}

/// Returns the metadata with which another session references this session's title.
pub(super) fn title_elsewhere(info: &SessionInfo) -> Option<(String, String)> {
    let place = info.metadata.get(&title_of()).filter(|_| info.title.is_none())?;
    let own = !place.contains('@');
    let place = if own { format!("{}@{place}", info.key.session) } else { place.clone() };
    Some((title_of(), place))
}

/// Cache of titles.
#[derive(Debug, Default)]
pub(super) struct Titles(Mutex<TitleCache>);

#[derive(Debug, Default)]
struct TitleCache {
    /// Number of invalidations, which may happen while a title is read.
    taken: u64,
    kept: HashMap<(SessionKey, Position), Option<String>>,
}

impl Service {
    /// Adds to session records the titles taken from events.
    pub(super) async fn title(&self, sessions: impl IntoIterator<Item = &mut SessionInfo> + Send) {
        let mut untitled = Vec::new();
        for info in sessions {
            if let Some((key, position)) = title_event_of(info) {
                untitled.push((info, key, position));
            }
        }
        for (info, key, position) in untitled {
            info.title = self.title_at(key, position).await;
        }
    }

    /// Like [`Self::title`], for one session.
    pub(super) async fn titled(&self, mut info: SessionInfo) -> SessionInfo {
        self.title([&mut info]).await;
        info
    }

    /// Returns the title of a session with the given id.
    pub(super) async fn title_by_id(&self, key: &SessionKey) -> Option<String> {
        let info = self.store.info(key).await.ok()?;
        self.titled(info).await.title
    }

    async fn title_at(&self, key: SessionKey, position: Position) -> Option<String> {
        let place = (key, position);
        let taken = {
            let titles = self.titles.0.lock();
            if let Some(title) = titles.kept.get(&place) {
                return title.clone();
            }
            titles.taken
        };
        let event = self.event_at(&place.0, position).await.ok()?;
        let title = event.as_ref().and_then(title_in);
        let mut titles = self.titles.0.lock();
        if titles.taken == taken {
            if titles.kept.len() == KEPT_MAX {
                titles.kept.clear();
            }
            titles.kept.insert(place, title.clone());
        }
        title
    }

    /// Drops the cached titles of a scope after text of one of its events was removed.
    pub(super) fn forget_titles(&self, scope: &Scope) {
        let mut titles = self.titles.0.lock();
        titles.taken += 1;
        titles.kept.retain(|(key, _), _| key.scope != *scope);
    }
}

/// Returns the session and position of a title's event, if the title is taken from one.
fn title_event_of(info: &SessionInfo) -> Option<(SessionKey, Position)> {
    let place = info.metadata.get(&title_of()).filter(|_| info.title.is_none())?;
    let (session, position) = match place.split_once('@') {
        Some((session, position)) => (SessionId::new(session).ok()?, position),
        None => (info.key.session.clone(), place.as_str()),
    };
    let key = SessionKey { scope: info.key.scope.clone(), session };
    Some((key, Position(position.parse().ok()?)))
}

#[derive(Deserialize)]
struct TitleMembers<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    context: Option<String>,
    goal: Option<String>,
    description: Option<String>,
    entry: Option<TranscriptLine>,
}

/// Line of an agent program's transcript with a title of the session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptLine {
    custom_title: Option<String>,
    ai_title: Option<String>,
    summary: Option<String>,
}

/// Returns the title in an event's text.
fn title_in(event: &Event) -> Option<String> {
    let event = event.paired();
    let said = body::read::<TitleMembers<'_>>(&event.body)?;
    let (text, chars_max) = match event.kind.as_str() {
        kinds::USER_MESSAGE => {
            let content = said.content?;
            let typed = typed_by_person(content);
            let other = || texts_of(content).into_iter().next();
            (Some(typed).filter(|typed| !typed.is_empty()).or_else(other), TITLE_CHARS)
        }
        kinds::TRANSCRIPT_ENTRY => {
            let TranscriptLine { custom_title, ai_title, summary } = said.entry?;
            (custom_title.or(ai_title).or(summary), TITLE_CHARS)
        }
        kinds::SESSION_SAVED => (said.context, TITLE_CHARS),
        kinds::RESEARCH_GOAL => (said.goal, RESEARCH_CHARS),
        kinds::RESEARCH_STEP => (said.description, RESEARCH_CHARS),
        _ => return None,
    };
    Some(one_line(&text?, chars_max)).filter(|title| !title.is_empty())
}

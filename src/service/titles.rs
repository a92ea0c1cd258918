//! Titles taken from an event's text. A session stores the event's position and never a copy of the
//! text, which is read when the title is shown, so a redaction also removes the title. It must not
//! change a session.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RESERVED_METADATA, Service, SessionInfo};
use crate::{
    env::sync::Mutex,
    event::{Event, Position, Range, Scope, SessionId, SessionKey, kinds, text::one_line},
    harness::thread_of,
    projection::{body, extract_typed_text},
    store::{FillDirection, ReadRequest},
    traces::content_texts,
};

/// Maximum characters of a title from a message, and of one from research.
const TITLE_CHARS: usize = 80;
const RESEARCH_CHARS: usize = 120;
/// Maximum number of events, and of their bytes, that are searched for the first message of a user.
const FIRST_EVENTS: usize = 64;
const FIRST_BYTES: usize = 1 << 20;
/// Maximum number of cached titles.
const KEPT_MAX: usize = 10_000;

/// Returns the metadata name for the event of a title: its position, preceded by the session and
/// `@` if it is in another one.
#[must_use]
pub(super) fn title_of_name() -> String {
    format!("{RESERVED_METADATA}title_of")
}

/// Returns the metadata with which another session references this session's title.
pub(super) fn title_reference(info: &SessionInfo) -> Option<(String, String)> {
    let location = info.metadata.get(&title_of_name()).filter(|_| info.title.is_none())?;
    let own = !location.contains('@');
    let location = if own { format!("{}@{location}", info.key.session) } else { location.clone() };
    Some((title_of_name(), location))
}

#[derive(Debug, Default)]
pub(super) struct Titles(Mutex<TitleCache>);

#[derive(Debug, Default)]
struct TitleCache {
    /// Number of invalidations, which may happen while a title is read.
    taken: u64,
    kept: HashMap<(SessionKey, Position), Option<String>>,
}

impl Service {
    pub(super) async fn add_titles(
        &self,
        sessions: impl IntoIterator<Item = &mut SessionInfo> + Send,
    ) {
        let mut untitled = Vec::new();
        for info in sessions {
            if let Some((key, position)) = title_event(info) {
                untitled.push((info, key, position));
            }
        }
        for (info, key, position) in untitled {
            info.title = self.read_title_at(key, position).await;
        }
    }

    /// Returns a session record with the title taken from its event, if it has one.
    pub(super) async fn with_title(&self, mut info: SessionInfo) -> SessionInfo {
        self.add_titles([&mut info]).await;
        info
    }

    pub(super) async fn read_title(&self, key: &SessionKey) -> Option<String> {
        let info = self.store.info(key).await.ok()?;
        self.with_title(info).await.title
    }

    async fn read_title_at(&self, key: SessionKey, position: Position) -> Option<String> {
        let location = (key, position);
        let taken = {
            let titles = self.titles.0.lock();
            if let Some(title) = titles.kept.get(&location) {
                return title.clone();
            }
            titles.taken
        };
        let event = self.read_event(&location.0, position).await.ok()?;
        let title = match &event {
            // A session that no user spoke in yet may get a title later: nothing is cached.
            Some(event) if !is_title_kind(event) => {
                Some(self.read_first_message(&location.0, position).await?)
            }
            event => event.as_ref().and_then(extract_title),
        };
        let mut titles = self.titles.0.lock();
        if titles.taken == taken {
            if titles.kept.len() == KEPT_MAX {
                titles.kept.clear();
            }
            titles.kept.insert(location, title.clone());
        }
        title
    }

    /// Returns the first words of the user after a position.
    async fn read_first_message(&self, key: &SessionKey, at: Position) -> Option<String> {
        let tail = self.store.info(key).await.ok()?.tail;
        let read = ReadRequest {
            range: Range::new(at, tail.min(at.plus(FIRST_EVENTS as u64))),
            events_max: FIRST_EVENTS,
            bytes_max: FIRST_BYTES,
            fill: FillDirection::Forward,
            allow_gaps: true,
        };
        let events = self.store.read(key, read).await.ok()?.events;
        let is_typed = |event: &&Event| {
            event.kind.as_str() == kinds::USER_MESSAGE
                && thread_of(event).is_none()
                && body::read::<TitleMembers<'_>>(&event.body)
                    .and_then(|members| Some(extract_typed_text(members.content?)))
                    .is_some_and(|typed| !typed.trim().is_empty())
        };
        events.iter().find(is_typed).and_then(extract_title)
    }

    /// Drops all cached titles, after text of some event was removed.
    pub(super) fn evict_all_titles(&self) {
        let mut titles = self.titles.0.lock();
        titles.taken += 1;
        titles.kept.clear();
    }

    /// Drops the cached titles of a scope after text of one of its events was removed.
    pub(super) fn evict_titles(&self, scope: &Scope) {
        let mut titles = self.titles.0.lock();
        titles.taken += 1;
        titles.kept.retain(|(key, _), _| key.scope != *scope);
    }
}

/// Returns the session and position of a title's event, if the title is taken from one.
fn title_event(info: &SessionInfo) -> Option<(SessionKey, Position)> {
    let location = info.metadata.get(&title_of_name()).filter(|_| info.title.is_none())?;
    let (session, position) = match location.split_once('@') {
        Some((session, position)) => (SessionId::new(session).ok()?, position),
        None => (info.key.session.clone(), location.as_str()),
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

/// Returns true if an event of this type has the words of a title.
fn is_title_kind(event: &Event) -> bool {
    const KINDS: [&str; 5] = [
        kinds::USER_MESSAGE,
        kinds::TRANSCRIPT_ENTRY,
        kinds::SESSION_SAVED,
        kinds::RESEARCH_GOAL,
        kinds::RESEARCH_STEP,
    ];
    KINDS.contains(&event.kind.as_str())
}

fn extract_title(event: &Event) -> Option<String> {
    let event = event.with_paired_surrogates();
    let members = body::read::<TitleMembers<'_>>(&event.body)?;
    let (text, chars_max) = match event.kind.as_str() {
        kinds::USER_MESSAGE => {
            let content = members.content?;
            let typed = extract_typed_text(content);
            let other = || content_texts(content).into_iter().next();
            (Some(typed).filter(|typed| !typed.is_empty()).or_else(other), TITLE_CHARS)
        }
        kinds::TRANSCRIPT_ENTRY => {
            let TranscriptLine { custom_title, ai_title, summary } = members.entry?;
            (custom_title.or(ai_title).or(summary), TITLE_CHARS)
        }
        kinds::SESSION_SAVED => (members.context, TITLE_CHARS),
        kinds::RESEARCH_GOAL => (members.goal, RESEARCH_CHARS),
        kinds::RESEARCH_STEP => (members.description, RESEARCH_CHARS),
        _ => return None,
    };
    Some(one_line(&text?, chars_max)).filter(|title| !title.is_empty())
}

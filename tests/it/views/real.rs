//! The fifty real conversations as events, from `../shared/data`.

use std::path::Path;

use serde_json::value::RawValue;
use sessionlog::{
    event::{Event, EventId, Origin, Position, Timestamp},
    import::ConversationIds,
    wire::json,
};

use crate::say;

/// Reads the conversations one by one, as their import writes them; `None` if the file is missing.
pub fn conversations() -> Option<Vec<Vec<Event>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/tau-airline.jsonl");
    if !path.exists() {
        say::skipped("real conversations: ../shared/data/tau-airline.jsonl is not there");
        return None;
    }
    let text = say::read(&path);
    let lines = text.lines().map(|line| {
        #[derive(serde::Deserialize)]
        struct Line {
            messages: Vec<Box<RawValue>>,
        }
        let line: Line = serde_json::from_str(line).unwrap();
        let mut conversation = ConversationIds::new();
        let drafts = line.messages.iter().flat_map(|message| conversation.add_message(message));
        let events: Vec<String> = drafts.map(|draft| draft.text).collect();
        self::events(&events)
    });
    Some(lines.collect())
}

/// Returns events at positions from 0 on.
pub fn events(texts: &[String]) -> Vec<Event> {
    let event = |(position, text): (usize, &String)| {
        let new = json::parse_event(text, Origin::Harness).unwrap_or_else(|error| {
            panic!("{text}: {}", error.message);
        });
        Event {
            position: Position(position as u64),
            id: new.id.unwrap_or_else(|| EventId::new(&format!("e{position}")).unwrap()),
            kind: new.kind,
            origin: new.origin,
            created_at: None,
            processed_at: Timestamp(1_700_000_000_000_000 + position as i64),
            body: new.body,
        }
    };
    texts.iter().enumerate().map(event).collect()
}

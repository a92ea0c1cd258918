//! Counts of entities in the passages of an index: over its parts, under all names of an entity.

use sessionlog::{
    event::{Event, Timestamp},
    search::{EntityKind, Part, PartBuilder, count_by_day, count_entities, find_naming_sessions},
};

use super::index::{all, session};
use crate::event;

/// Seconds of a day.
const DAY: i64 = 24 * 3_600;

fn message_event(position: u64, seconds: i64, text: &str) -> Event {
    let body = serde_json::json!({ "content": text }).to_string();
    let processed_at = Timestamp(seconds * 1_000_000);
    Event { processed_at, ..event(position, "agent.message", body) }
}

fn part(events: &[(u8, Event)]) -> Vec<u8> {
    let mut builder = PartBuilder::new();
    events.iter().for_each(|(of, event)| builder.add_event(session(*of), event));
    builder.finish()
}

/// Builds two parts in which three sessions name one file, one of them in two pieces of an event.
fn parts() -> [Vec<u8>; 2] {
    let long = format!("src/tax.rs {} src/tax.rs", "word ".repeat(900));
    [
        part(&[(0, message_event(0, 100, "see /w/src/tax.rs")), (0, message_event(1, 50, &long))]),
        part(&[
            (1, message_event(0, 20, "src/tax.rs")),
            (2, message_event(0, DAY + 10, "/w/src/tax.rs again")),
        ]),
    ]
}

fn same(_: EntityKind, name: String) -> String {
    name.strip_prefix("w/").map_or(name.clone(), str::to_owned)
}

#[test]
fn an_entity_is_counted_per_event_over_all_parts_and_aliases() {
    let bytes = parts();
    let parts = [Part::read(&bytes[0]).unwrap(), Part::read(&bytes[1]).unwrap()];
    assert!(parts[0].len() > 2, "the long event is in pieces");
    let second = |seconds: i64| Timestamp(seconds * 1_000_000);
    for (since, sessions, count, first) in [(None, 3, 4, 20), (Some(100), 2, 2, 100)] {
        let found = count_entities(&parts, &[EntityKind::File], &all, since.map(second), &same);
        let [file] = &found.named[..] else { panic!("one file: {found:?}") };
        assert_eq!((&*file.name, file.sessions, file.count), ("src/tax.rs", sessions, count));
        assert_eq!((file.first_at, file.last_at), (second(first), second(DAY + 10)), "{since:?}");
    }
    let names = ["w/src/tax.rs", "src/tax.rs"].map(str::to_owned).to_vec();
    let found = find_naming_sessions(&parts, &[(EntityKind::File, names)], &all, 20);
    let found: Vec<(&str, u64, Timestamp)> =
        found[0].iter().map(|one| (one.session.as_str(), one.count, one.last_at)).collect();
    let expected = [("s2", 1, DAY + 10), ("s0", 2, 100), ("s1", 1, 20)];
    assert_eq!(found, expected.map(|(id, count, at)| (id, count, second(at))));
}

#[test]
fn an_event_split_into_pieces_counts_once_for_its_day() {
    let bytes = parts();
    let parts = [Part::read(&bytes[0]).unwrap(), Part::read(&bytes[1]).unwrap()];
    let counted = count_by_day(&parts, &all, None);
    let days: Vec<(i64, u64, u64)> =
        counted.days.iter().map(|(day, of)| (*day, of.sessions, of.events)).collect();
    assert_eq!((days, counted.sessions), (vec![(0, 2, 3), (1, 1, 1)], 3));
    assert!(counted.days[&0].words > 900, "{counted:?}");
    let later = count_by_day(&parts, &all, Some(Timestamp(60_000_000)));
    assert_eq!((later.days[&0].events, later.sessions), (1, 2), "{later:?}");
}

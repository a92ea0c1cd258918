//! Memory items of a session with their states: current, superseded, forgotten or ended. Bounded;
//! the log keeps what the fold drops. It must not judge a text.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::body::{self, ForgottenBody, MemoryBody, PagedInBody, PositionBody};
use crate::{
    api::memory::MemoryKind,
    event::{Event, EventId, Position, Range, Timestamp, kinds, text::clip},
};

/// Most items kept, and most bytes of them; the least important and oldest are dropped first.
const ITEMS_MAX: usize = 10_000;
const BYTES_MAX: usize = 8 << 20;
/// Most characters kept of a text; `NAME_CHARS_MAX` is for a topic, a tag and a name.
const TEXT_CHARS_MAX: usize = 8_000;
const NAME_CHARS_MAX: usize = 120;
/// Most tags kept of an item.
const TAGS_MAX: usize = 32;
/// Importance of an item without one, and the highest importance.
const IMPORTANCE_USUAL: u8 = 5;
const IMPORTANCE_MAX: u8 = 10;
/// Most similar items returned, and the least percentage of shared words.
const SIMILAR_MAX: usize = 5;
const SIMILAR_PERCENT: usize = 50;

/// State of a memory item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryState {
    /// The item is current.
    Current,
    /// A later item replaced it.
    Superseded(EventId),
    /// A request at that position removed the item from memory.
    Forgotten(Position),
    /// The item was working memory, and the context was cleared at that position.
    Ended(Position),
}

/// An item of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// Id of its event.
    pub id: EventId,
    /// Position of its event.
    pub position: Position,
    /// Time of the write.
    pub at: Timestamp,
    /// Kind of the item.
    pub kind: MemoryKind,
    /// Text, up to 8 000 characters; empty once it is forgotten.
    pub text: Box<str>,
    /// Topic of the item.
    pub topic: Option<Box<str>>,
    /// Tags of the item.
    pub tags: Box<[Box<str>]>,
    /// Importance from 1 to 10, if given.
    pub importance: Option<u8>,
    /// Name of the item.
    pub name: Option<Box<str>>,
    /// Session and position from which it was written, if in another session.
    pub from: Option<PositionBody>,
    /// Positions of the events that it summarizes.
    pub positions: Option<Range>,
    /// State of the item.
    pub state: MemoryState,
    /// Number of times a model received it in this session.
    pub paged_in: u64,
    /// Hashes of its distinct words, sorted.
    words: Box<[u32]>,
}

impl StoredMemory {
    /// Returns true if the item is current.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.state == MemoryState::Current
    }

    /// Returns the key of the drop order: items that are not current first, then the least
    /// important, then the oldest.
    fn drop_order(&self) -> (u8, Position) {
        let importance = self.importance.unwrap_or(IMPORTANCE_USUAL);
        (if self.is_current() { importance } else { 0 }, self.position)
    }

    fn weight(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + size_of::<Box<str>>()).sum();
        let names = [&self.topic, &self.name].into_iter().flatten().map(|text| text.len());
        self.text.len()
            + size_of_val(&*self.words)
            + tags
            + names.sum::<usize>()
            + size_of::<Self>()
    }
}

/// Memory items of a session.
#[derive(Clone, Debug, Default)]
pub struct MemoryItems {
    items: BTreeMap<Position, StoredMemory>,
    ids: HashMap<EventId, Position>,
    /// Position of the current item of each name.
    names: HashMap<Box<str>, Position>,
    /// Drop order of all items.
    order: BTreeSet<(u8, Position)>,
    bytes: usize,
    dropped: u64,
}

impl MemoryItems {
    /// Returns the items in any state, oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &StoredMemory> {
        self.items.values()
    }

    /// Returns the item with that id.
    #[must_use]
    pub fn get(&self, id: &EventId) -> Option<&StoredMemory> {
        self.items.get(self.ids.get(id)?)
    }

    /// Returns the current successor of an item: itself, or the last that superseded it.
    #[must_use]
    pub fn current_successor(&self, id: &EventId) -> Option<&StoredMemory> {
        let mut item = self.get(id)?;
        while let MemoryState::Superseded(by) = &item.state {
            // Only a later item supersedes one, so the loop ends.
            item = self.get(by).filter(|next| next.position > item.position)?;
        }
        Some(item)
    }

    /// Returns the number of items dropped because of the bounds.
    #[must_use]
    pub fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Returns the current items most similar to a text, the most similar first; at most 5.
    #[must_use]
    pub fn find_similar(&self, text: &str) -> Vec<&StoredMemory> {
        let words = hash_words(text);
        let current = self.items.values().filter(|item| item.is_current());
        let mut alike: Vec<(usize, &StoredMemory)> = current
            .map(|item| (percent_shared(&words, &item.words), item))
            .filter(|(percent, _)| *percent >= SIMILAR_PERCENT)
            .collect();
        alike.sort_by_key(|(percent, item)| std::cmp::Reverse((*percent, item.position)));
        alike.into_iter().take(SIMILAR_MAX).map(|(_, item)| item).collect()
    }

    /// Folds the event of memory; ignores others.
    pub(super) fn fold(&mut self, event: &Event) {
        match event.kind.as_str() {
            kinds::MEMORY_ITEM => {
                if let Some(item) = parse_item(event) {
                    self.add(item, event);
                }
            }
            kinds::MEMORY_FORGOTTEN => {
                let body = body::read::<ForgottenBody>(&event.body);
                if let Some(id) = body.and_then(|body| EventId::new(&body.of).ok()) {
                    self.mark_forgotten(&id, event.position);
                }
            }
            kinds::MEMORY_PAGED_IN => self.count_paged_in(event),
            kinds::CONTEXT_CLEARED => self.end_working_items(event.position),
            _ => {}
        }
    }

    fn count_paged_in(&mut self, event: &Event) {
        let Some(body) = body::read::<PagedInBody>(&event.body) else { return };
        for block in body.blocks.into_iter().filter(|block| block.session.is_none()) {
            let id = block.item.and_then(|id| EventId::new(&id).ok());
            let at = id.and_then(|id| self.ids.get(&id));
            if let Some(item) = at.and_then(|at| self.items.get_mut(at)) {
                item.paged_in += 1;
            }
        }
    }

    fn add(&mut self, item: StoredMemory, event: &Event) {
        let supersedes = body::read::<MemoryBody>(&event.body).and_then(|body| body.supersedes);
        let supersedes = supersedes.and_then(|id| EventId::new(&id).ok());
        let named = item.name.as_ref().and_then(|name| self.names.get(name));
        let explicit =
            supersedes.and_then(|id| self.current_successor(&id)).map(|item| &item.position);
        let replaced: Vec<Position> = named.into_iter().chain(explicit).copied().collect();
        for at in replaced {
            self.set_state(at, MemoryState::Superseded(item.id.clone()));
        }
        if let Some(name) = &item.name {
            self.names.insert(name.clone(), item.position);
        }
        self.ids.insert(item.id.clone(), item.position);
        self.order.insert(item.drop_order());
        self.bytes += item.weight();
        self.items.insert(item.position, item);
        while self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX {
            let Some((_, at)) = self.order.pop_first() else { break };
            self.drop_item(at);
        }
    }

    fn mark_forgotten(&mut self, id: &EventId, at: Position) {
        if let Some(&item) = self.ids.get(id) {
            self.set_state(item, MemoryState::Forgotten(at));
        }
    }

    fn end_working_items(&mut self, at: Position) {
        let is_open = |item: &&StoredMemory| item.kind == MemoryKind::Working && item.is_current();
        let open: Vec<Position> =
            self.items.values().filter(is_open).map(|item| item.position).collect();
        for item in open {
            self.set_state(item, MemoryState::Ended(at));
        }
    }

    /// Sets the state of an item; a forgotten one stays forgotten.
    fn set_state(&mut self, at: Position, state: MemoryState) {
        let Some(item) = self.items.get_mut(&at) else { return };
        if matches!(item.state, MemoryState::Forgotten(_)) {
            return;
        }
        let before = item.weight();
        self.order.remove(&item.drop_order());
        if let Some(name) = item.name.as_ref().filter(|name| self.names.get(*name) == Some(&at)) {
            self.names.remove(name);
        }
        if matches!(state, MemoryState::Forgotten(_)) {
            (item.text, item.words) = (Box::default(), Box::default());
        }
        item.state = state;
        self.order.insert(item.drop_order());
        self.bytes = self.bytes - before + item.weight();
    }

    /// Drops an item because of the bounds; the caller already removed it from the order.
    fn drop_item(&mut self, at: Position) {
        let Some(item) = self.items.remove(&at) else { return };
        self.bytes -= item.weight();
        self.dropped += 1;
        self.ids.remove(&item.id);
        if let Some(name) = item.name.filter(|name| self.names.get(name) == Some(&at)) {
            self.names.remove(&name);
        }
    }

    pub(super) fn weight(&self) -> usize {
        self.bytes + self.items.len() * 200
    }
}

fn parse_item(event: &Event) -> Option<StoredMemory> {
    let body: MemoryBody = body::read(&event.body)?;
    let kind = MemoryKind::parse(&body.kind)?;
    let short = |text: &str| -> Box<str> { clip(text, NAME_CHARS_MAX).into() };
    let range = |range: body::RangeBody| Range::new(Position(range.from), Position(range.to));
    Some(StoredMemory {
        id: event.id.clone(),
        position: event.position,
        at: event.happened_at(),
        kind,
        text: clip(&body.text, TEXT_CHARS_MAX).into(),
        topic: body.topic.as_deref().map(short),
        tags: body.tags.iter().take(TAGS_MAX).map(|tag| short(tag)).collect(),
        importance: body.importance.map(|importance| importance.clamp(1, IMPORTANCE_MAX)),
        name: body.name.as_deref().map(short),
        from: body.from,
        positions: body.positions.filter(|range| range.from < range.to).map(range),
        state: MemoryState::Current,
        paged_in: 0,
        words: hash_words(&body.text),
    })
}

/// Returns the hashes of a text's distinct words, sorted.
fn hash_words(text: &str) -> Box<[u32]> {
    let beginning = text.char_indices().nth(TEXT_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    let text = text.get(..beginning).unwrap_or(text);
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut hashes: Vec<u32> = words.map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.into()
}

/// Computes FNV-1a over the lower-case letters.
fn hash(word: &str) -> u32 {
    let letters = word.chars().flat_map(char::to_lowercase);
    letters.fold(0x811c_9dc5, |hash, letter| (hash ^ u32::from(letter)).wrapping_mul(0x0100_0193))
}

/// Returns the percentage of shared words among all words of both texts.
fn percent_shared(one: &[u32], other: &[u32]) -> usize {
    let (mut at, mut shared) = (0, 0);
    for word in one {
        while other.get(at).is_some_and(|next| next < word) {
            at += 1;
        }
        shared += usize::from(other.get(at) == Some(word));
    }
    let either = one.len() + other.len() - shared;
    (100 * shared).checked_div(either).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{EventType, Origin};

    fn fold(events: &[(&str, Value)]) -> MemoryItems {
        let mut items = MemoryItems::default();
        for (at, (kind, body)) in (0..).zip(events) {
            items.fold(&Event {
                position: Position(at),
                id: EventId::new(&format!("e{at}")).expect("an id"),
                kind: EventType::new(kind).expect("a type"),
                origin: Origin::Model,
                created_at: None,
                processed_at: Timestamp(at.cast_signed()),
                body: Bytes::from(body.to_string()),
            });
        }
        items
    }

    fn item(text: &str, more: &[(&str, Value)]) -> (&'static str, Value) {
        let mut body = json!({"kind": "semantic", "text": text});
        for (name, value) in more {
            body[*name] = value.clone();
        }
        (kinds::MEMORY_ITEM, body)
    }

    fn states(items: &MemoryItems) -> Vec<String> {
        let state = |item: &StoredMemory| match &item.state {
            MemoryState::Current => "current".to_owned(),
            MemoryState::Superseded(by) => format!("superseded {by}"),
            MemoryState::Forgotten(at) => format!("forgotten {at}"),
            MemoryState::Ended(at) => format!("ended {at}"),
        };
        items.all().map(state).collect()
    }

    #[test]
    fn an_item_is_superseded_by_name_or_id_forgotten_or_ended() {
        let items = fold(&[
            item("port 80", &[("name", json!("port"))]),
            item("port 81", &[("name", json!("port"))]),
            item("noon", &[]),
            item("one o'clock", &[("supersedes", json!("e2"))]),
            item("secret", &[]),
            (kinds::MEMORY_FORGOTTEN, json!({"of": "e4"})),
            item("in hand", &[("kind", json!("working"))]),
            (kinds::CONTEXT_CLEARED, json!({"by": "user"})),
            item("in hand again", &[("kind", json!("working"))]),
        ]);
        let expected = [
            "superseded e1",
            "current",
            "superseded e3",
            "current",
            "forgotten 5",
            "ended 7",
            "current",
        ];
        assert_eq!(states(&items), expected);
        let forgotten = items.get(&EventId::new("e4").expect("an id")).expect("it is known");
        assert_eq!(&*forgotten.text, "", "its words are gone");
    }

    #[test]
    fn an_invalid_body_adds_no_memory_item() {
        for body in [
            json!({}),
            json!({"kind": "other", "text": "x"}),
            json!({"kind": "semantic", "text": 7}),
            json!({"kind": "semantic", "text": "x", "importance": 1000}),
        ] {
            assert_eq!(fold(&[(kinds::MEMORY_ITEM, body.clone())]).all().count(), 0, "{body}");
        }
        let items = fold(&[
            item("x", &[("supersedes", json!("e0"))]),
            (kinds::MEMORY_FORGOTTEN, json!({"of": "nothing"})),
        ]);
        assert_eq!(states(&items), ["current"], "none supersedes itself");
    }

    #[test]
    fn the_least_important_and_oldest_items_are_dropped_first() {
        let mut events: Vec<(&str, Value)> = (0..ITEMS_MAX)
            .map(|n| {
                item(&format!("fact {n}"), &[("importance", json!(if n == 3 { 1 } else { 5 }))])
            })
            .collect();
        events.push(item("vital", &[("importance", json!(10))]));
        events.push(item("another", &[]));
        let items = fold(&events);
        assert_eq!((items.all().count(), items.dropped_count()), (ITEMS_MAX, 2));
        let gone: Vec<bool> = [0, 1, 3].map(|n| items.items.contains_key(&Position(n))).into();
        assert_eq!(gone, [false, true, false], "the unimportant one, then the oldest");
        // Long texts are bounded by their bytes.
        let long: Vec<(&str, Value)> =
            (0..2_000).map(|n| item(&format!("{n} {}", "word ".repeat(1_500)), &[])).collect();
        let items = fold(&long);
        assert!(items.bytes <= BYTES_MAX && items.dropped_count() > 0, "{}", items.bytes);
        assert_eq!(items.bytes, items.all().map(StoredMemory::weight).sum::<usize>());
    }

    #[test]
    fn an_item_counts_each_time_a_model_received_it() {
        let paged = |blocks: Value| {
            (kinds::MEMORY_PAGED_IN, json!({"blocks": blocks, "tokens": 9, "by": "model"}))
        };
        let at = json!({"from": 0, "to": 1});
        let items = fold(&[
            item("Staging listens on port 8443", &[]),
            item("Deploy on Fridays", &[]),
            paged(json!([{"positions": at, "item": "e0"}, {"positions": at}])),
            paged(json!([{"positions": at, "item": "e0"}, {"positions": at, "item": "other"}])),
            paged(json!([{"session": "s", "positions": at, "item": "e1"}])),
            paged(json!("nothing")),
        ]);
        let counts: Vec<u64> = items.all().map(|item| item.paged_in).collect();
        assert_eq!(counts, [2, 0]);
    }

    #[test]
    fn items_with_mostly_the_same_words_are_similar() {
        let items = fold(&[
            item("Staging listens on port 8443 behind the proxy", &[]),
            item("The proxy of staging logs to a file", &[]),
        ]);
        for (text, expected) in [
            ("staging listens on port 8443, behind THE proxy!", vec![0]),
            ("Staging listens on port 9000 behind the proxy", vec![0]),
            ("Deploy on Fridays", vec![]),
            ("", vec![]),
        ] {
            let found: Vec<u64> =
                items.find_similar(text).iter().map(|item| item.position.0).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}

//! The one writer of events: batches within the limits of the store, divided if an event in them is
//! rejected, each a repeatable call. Hooks, imports, proxies and `append` write through it. It must
//! not parse an event, nor decide what to do with a rejected one.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Client, ClientError, HttpRequest, IDEMPOTENCY_KEY, session_path};
use crate::{
    api::sessions::CreateSession,
    event::{SessionId, limits},
    verbs::{
        NoParams, NoQuery, SessionPath,
        sessions::{Archive, Create, Unarchive},
    },
};

/// Header with the fencing token of the caller's lease.
pub const FENCING_TOKEN: &str = "fencing-token";
/// Metadata key for the program that a session is of: hooks and imports write it.
pub const CLIENT_KEY: &str = "client";
/// Error code of a write to an archived session.
pub const SESSION_ARCHIVED: &str = "session_archived";
/// Maximum bytes of the events of one batch: the rest is for the members around them.
const BATCH_BYTES_MAX: usize = limits::BATCH_BYTES_MAX - (64 << 10);

/// Writes to one session.
#[derive(Clone, Copy)]
pub struct SessionWriter<'a> {
    /// The client of the store.
    pub client: &'a Client,
    /// Id of the session to write to.
    pub session: &'a SessionId,
    /// Origin of the events, if it differs from that of the interface.
    pub origin: Option<&'static str>,
    /// Fencing token of the caller's lease of the session.
    pub fencing_token: Option<u64>,
    /// True if an append creates a missing session.
    pub creates: bool,
}

/// Answer to an append. Members that cannot be parsed have their default: the events in the answer
/// may have numbers that are too large.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WrittenBatch {
    /// True if the batch was stored before and nothing was written.
    pub repeated: bool,
    /// Position of the first event.
    pub first_position: Option<u64>,
    /// The position after the last event and the server's additions.
    pub next_position: Option<u64>,
    /// Position of each event.
    pub data: Vec<WrittenEvent>,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// Bytes of the answer.
    #[serde(skip)]
    pub body: Bytes,
}

/// The position of a stored event.
#[derive(Debug, Deserialize)]
pub struct WrittenEvent {
    /// Position of the event.
    pub position: u64,
}

impl<'a> SessionWriter<'a> {
    /// Creates a writer to a session, which need not exist.
    #[must_use]
    pub fn new(client: &'a Client, session: &'a SessionId) -> Self {
        Self { client, session, origin: None, fencing_token: None, creates: false }
    }

    /// Appends events, each a JSON text: all of them or none. `at` is the required position of the
    /// first, `key` the idempotency key.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::obstacle`] classifies the cause.
    pub async fn append<T: AsRef<str>>(
        &self,
        events: impl IntoIterator<Item = T>,
        at: Option<u64>,
        key: Option<&str>,
    ) -> Result<WrittenBatch, ClientError> {
        let mut body = "{\"events\":[".to_owned();
        for event in events {
            body.push_str(event.as_ref());
            body.push(',');
        }
        assert_eq!(body.pop(), Some(','), "no request without events");
        body.push_str("]}");
        let request = HttpRequest::post(session_path(self.session, "/events"));
        let request = request.query_opt("create", self.creates.then_some(true));
        let headers = [
            (IDEMPOTENCY_KEY, key.map(str::to_owned)),
            ("If-Position", at.map(|at| at.to_string())),
            (FENCING_TOKEN, self.fencing_token.map(|token| token.to_string())),
        ];
        let request = headers.into_iter().fold(request, |request, (name, value)| match value {
            Some(value) => request.header(name, value),
            None => request,
        });
        let request = self.with_origin(request).body(body, "application/json");
        let body = self.client.send(request).await?.body;
        Ok(WrittenBatch { body: body.clone(), ..serde_json::from_slice(&body).unwrap_or_default() })
    }

    /// Creates the session with its first events, each a JSON text; false if it exists.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Panics
    /// When an event is not JSON.
    pub async fn create<T: AsRef<str>>(
        &self,
        new: CreateSession,
        events: impl IntoIterator<Item = T>,
    ) -> Result<bool, ClientError> {
        let raw = |event: T| RawValue::from_string(event.as_ref().to_owned());
        let events: Result<Vec<_>, _> = events.into_iter().map(raw).collect();
        let events = Some(events.expect("an event is JSON")).filter(|events| !events.is_empty());
        let id = Some(self.session.to_string());
        let new = CreateSession { id, initial_events: events, ..new };
        let request = HttpRequest::from_verb::<Create>(&NoParams {}, &NoQuery {}, &new);
        match self.client.send(self.with_origin(request)).await {
            Err(error) if error.code() == "session_exists" => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Archives the session, or takes it out of the archive.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_archived(&self, archived: bool) -> Result<(), ClientError> {
        let place = SessionPath { session: self.session.clone() };
        match archived {
            true => self.client.call::<Archive>(&place, &NoQuery {}, &()).await.map(drop),
            false => self.client.call::<Unarchive>(&place, &NoQuery {}, &()).await.map(drop),
        }
    }

    fn with_origin(&self, request: HttpRequest) -> HttpRequest {
        match self.origin {
            Some(origin) => request.header("Sessionlog-Origin", origin),
            None => request,
        }
    }
}

/// Space left in one batch.
#[derive(Debug, Default)]
pub struct BatchRoom {
    events: usize,
    bytes: usize,
}

impl BatchRoom {
    /// Reserves space for an event; false if it does not fit. The first event always fits: the
    /// store's error for one that is too large is more precise.
    pub fn try_reserve(&mut self, event_bytes: usize) -> bool {
        self.bytes += event_bytes + 1;
        self.events += 1;
        self.events == 1 || self.events <= limits::BATCH_EVENTS_MAX && self.bytes <= BATCH_BYTES_MAX
    }
}

/// Splits events into parts, in order: no part is empty or exceeds the limits of a batch.
#[derive(Debug)]
pub struct BatchParts<'a, T> {
    /// The remaining parts, the next one last.
    left: Vec<&'a [T]>,
}

impl<'a, T> BatchParts<'a, T> {
    /// Splits events into parts; `bytes` returns the size of one.
    pub fn new(events: &'a [T], bytes: impl Fn(&T) -> usize) -> Self {
        let (mut left, mut rest) = (Vec::new(), events);
        while !rest.is_empty() {
            let mut room = BatchRoom::default();
            let fits = rest.iter().take_while(|event| room.try_reserve(bytes(event))).count();
            let (part, after) = rest.split_at(fits);
            left.push(part);
            rest = after;
        }
        left.reverse();
        Self { left }
    }

    /// Returns a part to the front, to be sent again.
    pub fn put_back(&mut self, part: &'a [T]) {
        self.left.push(part);
    }

    /// Puts the halves of a part at the front; false for a single event.
    pub fn divide(&mut self, part: &'a [T]) -> bool {
        let (first, second) = part.split_at(part.len() / 2);
        let is_divided = !first.is_empty();
        self.left.extend([second, first].into_iter().filter(|_| is_divided));
        is_divided
    }
}

impl<'a, T> Iterator for BatchParts<'a, T> {
    type Item = &'a [T];

    fn next(&mut self) -> Option<&'a [T]> {
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    const EVENTS_MAX: usize = limits::BATCH_EVENTS_MAX;

    fn split_sizes(sizes: &[usize]) -> BatchParts<'_, usize> {
        BatchParts::new(sizes, |bytes| *bytes)
    }

    #[test]
    fn parts_respect_batch_limits_and_keep_the_order() {
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![1; 999], vec![999]),
            (vec![1; 1_000], vec![1_000]),
            (vec![1; 1_001], vec![1_000, 1]),
            (vec![1; 2_000], vec![1_000, 1_000]),
            (vec![1; 2_001], vec![1_000, 1_000, 1]),
            (vec![6 << 20; 5], vec![2, 2, 1]),
            (vec![BATCH_BYTES_MAX - 1], vec![1]),
            (vec![BATCH_BYTES_MAX - 1, 0], vec![1, 1]),
            (vec![20 << 20, 1], vec![1, 1]),
        ] {
            assert_eq!(split_sizes(&sizes).map(<[_]>::len).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_part_divides_into_halves_but_a_single_event_does_not() {
        let sizes = [1, 2, 3, 4, 5];
        let (mut parts, mut seen) = (split_sizes(&sizes), Vec::new());
        while let Some(part) = parts.next() {
            if !part.contains(&4) || !parts.divide(part) {
                seen.push(part);
            }
        }
        assert_eq!(seen, [&[1, 2][..], &[3], &[4], &[5]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn random_parts_hold_every_event_in_order_within_the_limits(
            count in prop_oneof![
                0..3_usize,
                (EVENTS_MAX - 1)..=(EVENTS_MAX + 1),
                (2 * EVENTS_MAX - 1)..=(2 * EVENTS_MAX + 1),
            ],
            large in prop::collection::vec(
                (any::<prop::sample::Index>(), prop_oneof![
                    0..3_usize,
                    (BATCH_BYTES_MAX / 2 - 2)..(BATCH_BYTES_MAX / 2 + 2),
                    (BATCH_BYTES_MAX - 2)..(BATCH_BYTES_MAX + 2),
                ]),
                0..4,
            ),
        ) {
            let mut sizes: Vec<(usize, usize)> = (0..count).map(|event| (event, 1)).collect();
            for (at, bytes) in large.iter().filter(|_| count > 0) {
                sizes[at.index(count)].1 = *bytes;
            }
            let parts: Vec<_> = BatchParts::new(&sizes, |(_, bytes)| *bytes).collect();
            prop_assert!(parts.concat() == sizes);
            for part in parts {
                let bytes: usize = part.iter().map(|(_, bytes)| bytes + 1).sum();
                prop_assert!(!part.is_empty() && part.len() <= EVENTS_MAX);
                prop_assert!(part.len() == 1 || bytes <= BATCH_BYTES_MAX);
            }
        }
    }
}

//! Events that every store receives: 1 KiB of JSON each, the same bytes for each store. They are
//! text from a fixed seed that compresses about as well as an agent's. It must not be random.

use bytes::Bytes;

/// Bytes of one event as JSON.
pub(super) const EVENT_BYTES: usize = 1024;
/// Type of the events.
pub(super) const TYPE: &str = "agent.message";
/// Number of different events; they are used in turn.
const EVENTS: usize = 256;
const BEFORE: &str = r#"{"type":"agent.message","content":""#;
const AFTER: &str = r#""}"#;

const WORDS: [&str; 32] = [
    "the", "museum", "of", "and", "opens", "at", "nine", "I", "found", "a", "page", "that", "says",
    "session", "tool", "returned", "error", "file", "line", "with", "result", "step", "because",
    "need", "to", "check", "again", "source", "https", "value", "not", "yet",
];

/// A pseudo-random generator, the same on every machine: Knuth's 64-bit one.
#[derive(Clone, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn from(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64) << 17)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// One event in the two encodings that stores need.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// The whole event.
    pub(super) json: Bytes,
    /// The event without its type.
    pub(super) body: Bytes,
}

/// Events to append, in turn.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    all: std::sync::Arc<[Sample]>,
    next: usize,
}

impl Samples {
    pub(super) fn new() -> Self {
        Self { all: (0..EVENTS).map(sample).collect(), next: 0 }
    }

    /// Returns the same events, starting at another one.
    pub(super) fn starting_at(&self, next: usize) -> Self {
        Self { all: std::sync::Arc::clone(&self.all), next }
    }

    /// Returns the next event.
    pub(super) fn next(&mut self) -> &Sample {
        self.next = (self.next + 1) % EVENTS;
        self.all.get(self.next).expect("the index is below the count")
    }
}

fn sample(seed: usize) -> Sample {
    let mut numbers = Numbers::from(seed);
    let room = EVENT_BYTES - BEFORE.len() - AFTER.len();
    let mut text = String::with_capacity(room + 16);
    while text.len() < room {
        // One word in eight is a name or a number, which is not in a dictionary.
        match numbers.below(8) {
            0 => text.push_str(&format!("{:x}", numbers.below(1 << 30))),
            _ => {
                let at = usize::try_from(numbers.below(WORDS.len() as u64)).unwrap_or_default();
                text.push_str(WORDS.get(at).copied().unwrap_or_default());
            }
        }
        text.push(' ');
    }
    text.truncate(room);
    let json = format!("{BEFORE}{text}{AFTER}");
    let body = format!(r#"{{"content":"{text}{AFTER}"#);
    Sample { json: json.into(), body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_kibibyte_of_json_in_both_encodings() {
        let mut samples = Samples::new();
        for _ in 0..=EVENTS {
            let sample = samples.next();
            assert_eq!(sample.json.len(), EVENT_BYTES);
            let whole: serde_json::Value = serde_json::from_slice(&sample.json).expect("JSON");
            let body: serde_json::Value = serde_json::from_slice(&sample.body).expect("JSON");
            assert_eq!(whole["type"], TYPE);
            assert_eq!(whole["content"], body["content"]);
        }
    }
}
